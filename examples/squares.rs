//! A program of the GPU runs on 640 lanes through the user-mode driver, in Rust: `cargo run --example squares`.

use std::error::Error;

use campanile_umd::{Adapter, Device, Node, Placement, Queue, QueueOptions};
use dxgkrnl::Process;
use testbed::setup::{System, SystemOptions};

const GROUPS: u32 = 10;
const LANES: u32 = 64 * GROUPS;

/// Runs the program of `examples/c/squares.txt`, and says how many lanes stored what they should.
pub(crate) fn squares() -> Result<u32, Box<dyn Error>> {
    // A machine with one GPU, and a process of it; on Windows both are there.
    let system = System::boot(&SystemOptions::default())?;
    let process = Process::new(system.machine(), "squares");
    let verified = {
        let _attached = process.attach();
        run(&Adapter::open_luid(dxgkrnl::thunks(), system.luid())?)?
    };
    process.exit();
    system.shutdown()?;
    Ok(verified)
}

fn run(adapter: &Adapter) -> Result<u32, Box<dyn Error>> {
    let device = Device::new(adapter)?;
    let code = campanile_isa::assemble(include_str!("c/squares.txt"))?;
    let program = device.create_program(&code)?;
    let results = device.create_buffer(u64::from(LANES) * 4, Placement::System)?.map()?;

    // The queue's save area has space for what the program leaves on the GPU while another queue runs.
    let options = QueueOptions { save_bytes: program.save_bytes(), ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Compute, options)?;
    let dispatch = program.dispatch([GROUPS, 1, 1], results.buffer().gpu_address());
    let done = queue.submit(|commands| commands.dispatch(&dispatch))?;
    queue.wait_progress(done)?;

    let mut bytes = vec![0; LANES as usize * 4];
    results.synchronize(0, bytes.len())?;
    results.read(0, &mut bytes)?;
    for (lane, bytes) in (0..LANES).zip(bytes.as_chunks::<4>().0) {
        let stored = u32::from_le_bytes(*bytes);
        if stored != lane * lane {
            return Err(format!("lane {lane} stored {stored}").into());
        }
    }
    Ok(LANES)
}

#[allow(dead_code)] // the tests call what it calls
fn main() -> Result<(), Box<dyn Error>> {
    println!("{} lanes, every square verified", squares()?);
    Ok(())
}
