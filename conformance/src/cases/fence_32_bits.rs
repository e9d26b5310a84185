//! Monitored fences on a GPU that writes 32 bits of a value at once.

use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::kmt::*;

use crate::rig::{RawFence, Rig};
use crate::{Boot, Case, Event, Failure, granted};

cases! { thunks "MonitoredFence", needs HardwareScheduling;
    "MonitoredFence.WholeValuesHaveNoReach" on Boot::Shared, "context-monitoring":
        "Where the GPU writes 64 bits at once, values may be as far away as they like."
        holds [NativeFence 78, ContextMonitoring 6, ContextMonitoring 7, ContextMonitoring 11]
        => no_reach;
}

pub const WRAP: u64 = 1 << 32;

pub fn private(rig: &Rig, initial: u64) -> Result<RawFence, Failure> {
    rig.monitored_fence(initial, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())
}

fn no_reach(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 7)?;
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[u64::MAX - 1], true, Some(event.number())), "a wait")?;
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    rig.kernel_submit(&mut queue, &[fence.signal(9 * WRAP)])?;
    granted(rig.wait(&[fence.handle], &[9 * WRAP], false), "a wait for what the GPU signals")?;
    ensure!(!event.is_set()?, "a low half was taken for the whole value");
    granted(rig.signal(&[fence.handle], &[u64::MAX - 1]), "a signal")?;
    event.wait()
}
