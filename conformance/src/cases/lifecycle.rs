//! Coming and going: processes, devices, adapters, the driver.

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::{Rig, fill};
use crate::{Boot, Case, Failure, granted};

cases! { thunks "Lifecycle", needs HardwareScheduling;
    "Lifecycle.DriverUnloadsWithoutLeaks" needs UserModeSubmission on Boot::Fresh, "unload":
        "After stop, remove and unload nothing that the driver allocated is left, also when user mode left everything open."
        => unloads_without_leaks;
}

/// Some work on every kind of object.
pub fn work(rig: &Rig) -> Result<(), Failure> {
    let (mut compute, mut copies) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(0)?;
    let memory = rig.memory(64 << 10, Placement::Vram)?;
    rig.submit(&mut compute, &[fill(memory.address, 64 << 10, 7), fence.signal(1)])?;
    rig.execute(&mut copies, &[fence.wait(1)])?;
    granted(rig.wait(&[fence.handle], &[1], false), "wait")
}

fn unloads_without_leaks(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    work(&rig)?;
    // The runner takes the system down and fails the case if anything is left; here nothing is closed before.
    let unclosed = Rig::on_adapter(rig.kmt, rig.adapter)?;
    work(&unclosed)
}
