//! Restarts, resets and power transitions of a GPU, and the death of the process that uses it, while a guest works with it. Afterwards the GPU must
//! be in the state of a fresh one, and the guest must be able to use it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::conversation::{Guest, Stop, Trouble};
use super::load::{HAPPENED, Then, UNDER_LOAD};
use super::plug::{self, SPARE};
use super::protocol::Step;
use campanile_conformance::report::{CaseLine, Status};
use testbed::device::GpuHeld;

/// The time that background work of the guest's kernel may take.
const TIMEOUT: Duration = Duration::from_secs(20);
const AREA: &str = "Qemu.Faults";

/// Something that happens to a GPU.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// Cases that show afterwards that the GPU is as good as new, as a filter; `None` if there is no GPU any more.
    pub(super) again: Option<&'static str>,
    /// The GPU to which it happens.
    pub(super) gpu: usize,
    happen: fn(&mut Guest<'_>, &GpuHeld) -> Result<(), Trouble>,
}

/// One case after each fault; several after the last.
const QUICK: Option<&str> = Some("NativeFence.GpuSignalIsSeenByCpu");
const THOROUGH: Option<&str> = Some("WDDM32.FenceInterrupts.");

/// All of them, in the order in which they happen.
pub(super) const FAULTS: [Fault; 12] = [
    Fault { name: "Qemu.Faults.UserIsKilledUnderLoad", again: QUICK, gpu: 0, happen: killed },
    Fault {
        name: "Qemu.Faults.FunctionLevelResetUnderLoad",
        again: QUICK,
        gpu: 0,
        happen: |guest, clean| beneath(guest, clean, Then::Flr),
    },
    Fault {
        name: "Qemu.Faults.VfioDeviceResetUnderLoad",
        again: QUICK,
        gpu: 0,
        happen: |guest, clean| beneath(guest, clean, Then::VfioReset),
    },
    Fault {
        name: "Qemu.Faults.D3hotUnderLoad",
        again: QUICK,
        gpu: 0,
        happen: |guest, clean| beneath(guest, clean, Then::Sleep),
    },
    Fault {
        name: "Qemu.Faults.FunctionLevelResetBySysfs",
        again: QUICK,
        gpu: 0,
        happen: |guest, clean| idle_reset(guest, clean, "flr"),
    },
    Fault {
        name: "Qemu.Faults.PowerManagementResetBySysfs",
        again: QUICK,
        gpu: 0,
        happen: |guest, clean| idle_reset(guest, clean, "pm"),
    },
    Fault { name: "Qemu.Faults.MachineIsResetUnderLoad", again: QUICK, gpu: 0, happen: machine_reset },
    Fault { name: "Qemu.Faults.GuestRebootsUnderLoad", again: THOROUGH, gpu: 0, happen: reboot },
    Fault { name: "Qemu.Faults.GpuIsPluggedIn", again: QUICK, gpu: SPARE, happen: plug::plugged },
    Fault {
        name: "Qemu.Faults.GpuIsUnpluggedInOrderUnderLoad",
        again: QUICK,
        gpu: SPARE,
        happen: |guest, _| plug::unplugged(guest, Then::Removed),
    },
    Fault {
        name: "Qemu.Faults.GpuIsPulledOutOfItsSlotUnderLoad",
        again: QUICK,
        gpu: SPARE,
        happen: |guest, _| plug::unplugged(guest, Then::Surprised),
    },
    Fault {
        name: "Qemu.Faults.FunctionVanishesUnderLoad",
        again: None,
        gpu: SPARE,
        happen: |guest, _| plug::vanishes(guest),
    },
];

/// Lets faults happen one after the other. `again` is run after each: the guest uses the GPU.
pub(super) fn happen(
    guest: &mut Guest<'_>,
    faults: &[&Fault],
    clean: &GpuHeld,
    again: &dyn Fn(&Fault) -> Option<Step>,
) -> Result<(), Stop> {
    for fault in faults {
        let started = Instant::now();
        let outcome = (fault.happen)(guest, clean);
        let (outcome, over) = match outcome {
            Ok(()) => (Ok(()), None),
            Err(Trouble::Failed(reason)) => (Err(reason), None),
            Err(Trouble::Over(stop)) => (Err(stop.to_string()), Some(stop)),
        };
        let ms = started.elapsed().as_millis() as u64;
        guest.outcome(CaseLine { ms, ..CaseLine::of(AREA, fault.name, outcome) });
        if let Some(stop) = over {
            return Err(stop);
        }
        if let Some(step) = again(fault) {
            guest.run(&step)?;
        }
    }
    Ok(())
}

/// The faults that could not happen because the guest ended before: failures.
pub(super) fn missed(fault: &Fault) -> CaseLine {
    CaseLine { status: Status::Failed, ..CaseLine::of(AREA, fault.name, Err("the guest ended before".to_owned())) }
}

/// Waits until the first GPU holds what it should.
fn settle(
    guest: &Guest<'_>,
    what: &str,
    expected: &dyn std::fmt::Display,
    holds: impl Fn(&GpuHeld) -> bool,
) -> Result<(), Trouble> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let held = guest.held(0)?;
        if holds(&held) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(Trouble::Failed(format!("{what}, the function holds: {held}; expected: {expected}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The function is as before anybody used it.
fn is_clean(guest: &Guest<'_>, clean: &GpuHeld, when: &str) -> Result<(), Trouble> {
    settle(guest, when, clean, |held| held == clean)
}

/// Puts the function under load, and makes sure that there is something to lose.
fn load(guest: &mut Guest<'_>, clean: &GpuHeld, then: Then) -> Result<Step, Trouble> {
    let step = then.step(0);
    let goes_on = then.waits();
    guest.start(&step, if goes_on { UNDER_LOAD } else { HAPPENED })?;
    if goes_on {
        let everything = "queues, doorbells, waits, events, messages and memory";
        let loaded = settle(guest, "under load", &everything, |held| {
            let GpuHeld { gpu, triggers } = held;
            let counts = [gpu.queues, gpu.doorbells, gpu.rung, gpu.waits, gpu.registers, *triggers, gpu.dma.len()];
            let switches = [gpu.running, gpu.messages, gpu.visible, gpu.bus_master, gpu.dma != clean.gpu.dma];
            counts.iter().all(|count| *count > 0) && switches.iter().all(|on| *on) && gpu.event_index > 0
        });
        if loaded.is_err() {
            guest.kill(&step)?;
            loaded?;
        }
    }
    Ok(step)
}

fn killed(guest: &mut Guest<'_>, clean: &GpuHeld) -> Result<(), Trouble> {
    let step = load(guest, clean, Then::Nothing)?;
    guest.kill(&step)?;
    is_clean(guest, clean, "when its user was killed")
}

/// A reset or sleep beneath a process that goes on holding the function: what the function had is lost, what the process gave it stays.
fn beneath(guest: &mut Guest<'_>, clean: &GpuHeld, then: Then) -> Result<(), Trouble> {
    let step = load(guest, clean, then)?;
    let held = guest.held(0)?;
    let lost = |held: &GpuHeld| {
        let gpu = &held.gpu;
        let counts = [gpu.queues, gpu.doorbells, gpu.rung, gpu.waits, gpu.registers, gpu.events];
        let switches = [gpu.running, gpu.announcement];
        let indices = [u64::from(gpu.event_ring), gpu.event_index, gpu.pending_vectors];
        counts.iter().all(|count| *count == 0) && !switches.contains(&true) && indices == [0; 3]
    };
    guest.kill(&step)?;
    if !lost(&held) {
        let reason = format!("after it, and before its user has gone, the function holds: {held}");
        return Err(Trouble::Failed(reason));
    }
    is_clean(guest, clean, "when its user had gone")
}

/// A reset of a function that was used and is not open.
fn idle_reset(guest: &mut Guest<'_>, clean: &GpuHeld, method: &str) -> Result<(), Trouble> {
    guest.write("reset_method", method)?;
    guest.write("reset", "1")?;
    // Back to what Linux chooses.
    guest.write("reset_method", "default")?;
    is_clean(guest, clean, "after the reset")
}

/// QEMU resets the machine, of which the guest learns nothing.
fn machine_reset(guest: &mut Guest<'_>, clean: &GpuHeld) -> Result<(), Trouble> {
    load(guest, clean, Then::Nothing)?;
    guest.may_restart(true)?;
    guest.monitor("system_reset", json!({}))?;
    guest.boot()?;
    guest.may_restart(false)?;
    is_clean(guest, clean, "after the machine's reset")
}

/// The guest restarts without ending anything.
fn reboot(guest: &mut Guest<'_>, clean: &GpuHeld) -> Result<(), Trouble> {
    load(guest, clean, Then::Nothing)?;
    guest.may_restart(true)?;
    guest.restart()?;
    guest.boot()?;
    guest.may_restart(false)?;
    is_clean(guest, clean, "after the guest's restart")
}
