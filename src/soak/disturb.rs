//! What happens to the machine while programs work: engines hang and sleep, the adapter sleeps and is pulled out; and the comparisons.

use std::thread;
use std::time::{Duration, Instant};

use dxgkrnl::SystemSleep;
use testbed::exit::EXIT_FAILED;
use testbed::setup::FaultOption;

use super::counts::count;
use super::world::World;

/// Shortest time between two hangs: the system takes some in a row for an adapter that does not work.
const BETWEEN_HANGS: Duration = Duration::from_secs(20);
/// Shortest time between two removals.
const BETWEEN_REMOVALS: Duration = Duration::from_secs(15);

/// Hangs, each with or without a report of the node's own watchdog, which the system's finds otherwise. Faults that the system has to make good are not among
/// them: whatever it makes good is a finding.
const HANGS: [&str; 4] = ["hang:node=0,reported", "hang:node=1,reported", "hang:node=0", "hang:node=1"];

/// Disturbs and compares until `end`, then has the programs stop.
pub(super) fn run(world: &World, end: Instant) {
    let mut rng = fastrand::Rng::with_seed(!world.seed);
    let began = Instant::now();
    let (mut compared, mut hung, mut removed) = (began, began, began);
    while Instant::now() < end && !world.is_over() {
        thread::sleep(Duration::from_millis(rng.u64(10..200)).min(end.saturating_duration_since(Instant::now())));
        if compared.elapsed() >= world.interval {
            if let Err(stuck) = world.gate.with_all_inside(world.programs, |programs| world.compare(programs)) {
                let (machine, luid) = world.adapter();
                let tree = machine.inspect(luid).map_or_else(String::new, |tree| tree.to_string());
                testbed::complain!("campanile soak: {stuck}\n{tree}{}", machine.debug_log().join("\n"));
                // They cannot be ended, and the machine neither.
                std::process::exit(EXIT_FAILED.into());
            }
            compared = Instant::now();
        }
        if world.calm {
            continue;
        }
        match rng.u32(..100) {
            0..40 => engine_sleeps(world, &mut rng),
            40..60 => adapter_sleeps(world, &mut rng),
            60..70 if hung.elapsed() >= BETWEEN_HANGS => {
                hang(world, &mut rng);
                hung = Instant::now();
            }
            70..75 if removed.elapsed() >= BETWEEN_REMOVALS => {
                count(&world.counts.removals);
                if let Err(error) = world.replace_gpu() {
                    world.find(format!("another GPU in the place of one that was pulled out: {error}"));
                    break;
                }
                removed = Instant::now();
            }
            _ => {}
        }
    }
    world.stop();
}

/// Sends an engine to F1, which refuses while it has work.
fn engine_sleeps(world: &World, rng: &mut fastrand::Rng) {
    let (machine, luid) = world.adapter();
    if machine.sleep_engine(luid, rng.u32(..2), 0).is_ok() {
        count(&world.counts.engine_sleeps);
    }
}

/// Puts the adapter into D3, alone or with the machine; work wakes it. It refuses while work does not leave its engine, as it does in a hang.
fn adapter_sleeps(world: &World, rng: &mut fastrand::Rng) {
    let (machine, luid) = world.adapter();
    let slept = match rng.u32(..4) {
        0 => machine.sleep(SystemSleep::Standby),
        1 => machine.sleep(SystemSleep::Hibernate),
        _ => machine.power_down(luid),
    };
    if slept.is_ok() {
        count(&world.counts.sleeps);
    }
    thread::sleep(Duration::from_millis(rng.u64(..20)));
    // Programs that wait for work that was interrupted ask for nothing more.
    machine.wake_for_work();
}

/// Has the next packet of an engine hang; its process loses its device, and no other does.
fn hang(world: &World, rng: &mut fastrand::Rng) {
    let text = HANGS[rng.usize(..HANGS.len())];
    let armed = world.with_system(|system| {
        let fault: FaultOption = text.parse()?;
        let gpu = system.faulty_gpu().map_err(|error| error.to_string())?;
        count(&world.counts.hangs);
        fault.arm(gpu.faults(), rng.u64(..));
        Ok::<_, String>(())
    });
    if let Err(error) = armed {
        world.find(format!("fault {text}: {error}"));
    }
}
