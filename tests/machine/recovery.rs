//! A program of a machine that ends, and goes on with the next one: this process.

use campanile_umd::{Adapter, Buffer, Device, Error, LossReason, Node, Placement, Recoverable, RecoveryOptions};

use crate::served::Machine;

const SIZE: u64 = 4096;

fn make(device: &Device) -> Result<Buffer, Error> {
    device.create_buffer(SIZE, Placement::System)
}

fn first_byte(work: &Recoverable<Buffer>) -> u8 {
    let mut byte = [0];
    work.resources().map().and_then(|mapping| mapping.read(0, &mut byte)).expect("the buffer is mapped");
    byte[0]
}

#[test]
fn work_is_replayed_on_the_next_machine_when_the_one_before_is_killed() {
    let machine = Machine::serve("recovery", &["--quiet"]);
    let socket = machine.socket.clone();
    remote::client::connect(&socket, "recovery").expect("a machine");
    let adapter = Adapter::open(remote::thunks::thunks()).expect("an adapter");
    let mut work = Recoverable::new(&adapter, Node::Copy, RecoveryOptions::default(), make).expect("a queue");
    work.submit(|commands, target| commands.fill(target.gpu_address(), SIZE, 1)).expect("a submission");
    work.wait(None).expect("it is done");
    assert_eq!(first_byte(&work), 1);
    // What is submitted from here on is a store into memory that nobody reads any more.
    machine.suspend();
    work.submit(|commands, target| commands.fill(target.gpu_address(), SIZE, 0x0202_0202)).expect("a submission");
    // Killed, not asked to stop: nobody tells the program anything.
    drop(machine);
    assert_eq!(work.wait(None), Err(Error::DeviceLost));
    assert_eq!(work.device().loss(), Ok(Some(LossReason::Removed)));
    assert!(work.recover().is_err(), "there is no machine yet");
    let machine = Machine::serve("recovery", &["--quiet"]);
    assert_eq!(machine.socket, socket);
    let recovered = work.recover().expect("the next machine");
    assert_eq!((recovered.reason, recovered.replayed, recovered.given_up), (Some(LossReason::Removed), 1, 0));
    work.wait(None).expect("it is done");
    assert_eq!((first_byte(&work), work.recoveries()), (2, 1));
    drop((work, adapter));
    assert_eq!(machine.stop(), (Some(0), String::new()));
}
