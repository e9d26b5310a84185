//! A program of a machine that ends, and goes on with the next one: this process.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Duration;

use campanile_umd::{Adapter, Buffer, Device, Error, Fence, LossReason, Node, Placement, Recoverable, RecoveryOptions};

use crate::served::Machine;

const SIZE: u64 = 4096;

/// This process is a program of one machine at a time, in whichever test has the lock.
static TURN: Mutex<()> = Mutex::new(());

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
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::serve("recovery", &["--quiet"]);
    let socket = machine.socket.clone();
    remote::client::connect(&socket, "recovery").expect("a machine");
    let adapter = Adapter::open(remote::sending::thunks()).expect("an adapter");
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

/// Kills each machine at another moment of the work: while it is being submitted, while it runs, while its end is waited for, while memory is mapped.
/// CAMPANILE_MACHINE_KILLS says how many.
#[test]
fn a_program_goes_on_through_machines_that_are_killed_at_any_moment() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = std::env::var("CAMPANILE_MACHINE_KILLS").ok();
    let kills = asked.map_or(6, |text| text.parse::<u32>().expect("CAMPANILE_MACHINE_KILLS is a number"));
    let mut machine = Machine::serve("killed-often", &["--quiet"]);
    remote::client::connect(&machine.socket, "killed-often").expect("a machine");
    let adapter = Adapter::open(remote::sending::thunks()).expect("an adapter");
    // By doorbell for good, also after many recoveries.
    let options = RecoveryOptions { kernel_after: u32::MAX, ..RecoveryOptions::default() };
    let mut work = Recoverable::new(&adapter, Node::Copy, options, make).expect("a queue");
    let (mut seed, mut value, mut done, mut replayed) = (24501u64, 0u8, 0u64, 0);
    for kill in 1..=kills {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = Duration::from_micros(seed >> 48);
        let lost = std::thread::scope(|scope| {
            let killing = scope.spawn(|| {
                std::thread::sleep(moment);
                machine.kill();
            });
            let error = loop {
                value = value % 200 + 1;
                let pattern = u32::from(value) * 0x0101_0101;
                let submitted = work.submit(move |commands, target| commands.fill(target.gpu_address(), SIZE, pattern));
                match submitted.and_then(|_| work.wait(None)) {
                    Ok(()) => done += 1,
                    Err(error) => break error,
                }
            };
            killing.join().expect("no panic");
            error
        });
        assert_eq!(lost, Error::DeviceLost, "kill {kill} after {moment:?}");
        assert_eq!(work.device().loss(), Ok(Some(LossReason::Removed)));
        machine = Machine::serve("killed-often", &["--quiet"]);
        let recovered = work.recover().expect("the next machine");
        assert_eq!((recovered.reason, recovered.given_up), (Some(LossReason::Removed), 0));
        assert!(recovered.replayed <= 1, "one submission was under way");
        work.wait(None).expect("it is done");
        // What was seen done before the machine was gone is not done again: the buffer is a new one.
        let expected = if recovered.replayed == 1 { value } else { 0 };
        assert_eq!((first_byte(&work), work.recoveries()), (expected, kill));
        replayed += recovered.replayed;
    }
    println!("{kills} machines were killed: {done} submissions done, {replayed} done again");
    drop((work, adapter));
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

/// Each thread of a program that looks for adapters after its machine has gone is served by the next one, of which the program is one program, as it was before.
#[test]
fn threads_that_find_their_machine_gone_at_once_are_connected_to_the_next_one_together() {
    const THREADS: usize = 8;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut machine = Machine::serve("together", &["--quiet"]);
    remote::client::connect(&machine.socket, "together").expect("a machine");
    for round in 0..20 {
        machine.kill();
        machine = Machine::serve("together", &["--quiet"]);
        let together = Barrier::new(THREADS);
        let open = || {
            together.wait();
            Adapter::open(remote::sending::thunks())
                .map(|adapter| Device::new(&adapter).map(|device| (adapter, device)))
        };
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let served = opened.iter().filter(|opened| matches!(opened, Ok(Ok(_)))).count();
        assert_eq!(served, THREADS, "round {round}: threads that have a device of the next machine");
        let programs = machine.look()["adapters"][0]["processes"].as_array().expect("a list").len();
        assert_eq!(programs, 1, "round {round}: programs of the machine");
    }
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

/// A wait with a time limit, and one for several fences, is a wait for an event that the machine sets: such waits end with the machine, too.
#[test]
fn waits_for_events_end_when_the_machine_is_killed() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut machine, hour) = (Machine::serve("killed-events", &["--quiet"]), Duration::from_secs(3600));
    remote::client::connect(&machine.socket, "killed-events").expect("a machine");
    for moment in [0, 200, 20_000, 100_000].map(Duration::from_micros) {
        let adapter = Adapter::open(remote::sending::thunks()).expect("an adapter");
        let device = Device::new(&adapter).expect("a device");
        let fences = [0; 3].map(|value| Fence::new(&device, value).expect("a fence"));
        let [one, two, three] = &fences;
        let any = [(two.clone(), 1), (three.clone(), 1)];
        let ended = std::thread::scope(|scope| {
            let limited = scope.spawn(|| one.wait(1, Some(hour)));
            let unlimited = scope.spawn(|| Fence::wait_any(&any, None));
            std::thread::sleep(moment);
            machine.kill();
            [limited, unlimited].map(|waiting| waiting.join().expect("no panic"))
        });
        assert_eq!(ended, [Err(Error::DeviceLost), Err(Error::DeviceLost)], "killed after {moment:?}");
        machine = Machine::serve("killed-events", &["--quiet"]);
    }
    assert_eq!(machine.stop(), (Some(0), String::new()));
}
