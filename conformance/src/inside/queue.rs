//! Hardware contexts and queues.

pub(super) use crate::cases::queue::kernel_submit;
use crate::cases::queue::text;
use campanile_hw::registers::NODE_COMPUTE;

use crate::rig::{user_mode_flags, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "HardwareQueue", needs HardwareScheduling, behind "it counts what the GPU executed";
    "HardwareQueue.ManyIdleQueuesDoNotDisturb" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "With hundreds of idle queues beside it, a busy queue completes exactly the work it was given."
        holds [UserModeSubmission 67]
        => many_idle_queues;
}

fn many_idle_queues(case: &mut Case<'_>) -> Result<(), Failure> {
    const IDLE: usize = 300;
    const BUSY: u64 = 500;
    let rig = case.rig()?;
    for _ in 0..IDLE {
        let context = rig.context(NODE_COMPUTE).map_err(text("context"))?;
        rig.hw_queue(context, user_mode_flags()).map_err(text("queue"))?;
    }
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    // What is created before may have the paging node signal.
    let before = case.system.counters();
    let mut last = 0;
    for value in 1..=BUSY {
        last = rig.submit(&mut queue, &[fence.signal(value)])?;
    }
    // A signal is counted after its value shows, and before the progress behind it.
    wait_until("the last submission", || queue.progress.load() == last)?;
    ensure_eq!(fence.value.load(), BUSY, "value of the fence");
    ensure_eq!(case.system.counters().since(&before).signals, BUSY, "signals executed");
    Ok(())
}
