//! The event ring of the GPU when it is full: nothing of what happened is lost, and the driver reports what it cannot name.

use crate::cases::fault::{NOWHERE, wait_for_error};
use campanile_device::FaultRule;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::Clock;
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;

use super::fence_interrupts::Event;
use crate::rig::{RawFence, RawQueue, Rig, fill};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "FenceInterrupts", needs HardwareScheduling, behind "it has the interrupts of the GPU go astray";
    "FenceInterrupts.CollapsedInterruptsAreALookAtEveryFence" needs UserModeSubmission on Boot::With(by_hand), "native-gpu-fence-objects":
        "Signals that found the event ring full collapse into a count; the report of the next interrupt names no fence, and every native fence that is waited for is looked at, on each engine."
        holds [NativeFence 47]
        => native_fences;
    "FenceInterrupts.CollapsedInterruptsAreALookAtMonitoredFences" needs UserModeSubmission on Boot::With(by_hand), "context-monitoring":
        "Progress of kernel-mode queues that found the event ring full is reported by the next interrupt, and every wait for it ends."
        holds [ContextMonitoring 11]
        => monitored_fences;
    "FenceInterrupts.FullRingLosesNoOtherEvent" needs UserModeSubmission on Boot::With(by_hand), "docs/hardware.md":
        "Events other than those of fences wait inside the GPU while the event ring is full: a fault of a queue meanwhile is reported when there is a free record, and puts its device in error."
        holds [UserModeSubmission 42]
        => other_events;
}

/// A machine whose time stands still: nobody looks at a fence because time has passed.
fn by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..SystemOptions::default() }
}

/// Signals that a submission holds.
const SIGNALS: u64 = 8;
/// More watched signals than the event ring has records, and a multiple of [`SIGNALS`].
const MANY: u64 = 4096 + 64;

/// A queue, a fence that it signals, and an event that waits for its first value.
struct Noise {
    queue: RawQueue,
    fence: RawFence,
    event: Event,
    signalled: u64,
}

impl Noise {
    fn new(rig: &Rig) -> Result<Self, Failure> {
        let (queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
        let event = watch(rig, fence.handle, 1)?;
        Ok(Self { queue, fence, event, signalled: 0 })
    }

    /// Signals so often; each signal is an event as long as the waiter was not told of the first.
    fn make(&mut self, rig: &Rig, signals: u64) -> Result<(), Failure> {
        for _ in 0..signals.div_ceil(SIGNALS) {
            let signals: Vec<_> = (1..=SIGNALS).map(|more| self.fence.signal(self.signalled + more)).collect();
            rig.execute(&mut self.queue, &signals)?;
            self.signalled += SIGNALS;
        }
        Ok(())
    }
}

fn watch(rig: &Rig, fence: u32, value: u64) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence], &[value], false, Some(event.number())), "a wait with an event")?;
    Ok(event)
}

/// Has every message of the GPU go astray until the event ring is full and `work` is done; then one more signal sends a message that
/// arrives.
fn behind_a_full_ring(case: &Case<'_>, rig: &Rig, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let mut noise = Noise::new(rig)?;
    let lost = case.system.gpu().faults().inject_times(FaultRule::LostInterrupt, u64::MAX);
    // A message that was sent before the fault and arrives late would be about the signals that follow.
    case.system.machine().settle_interrupts();
    noise.make(rig, MANY)?;
    let worked = work();
    // Asked while the fault holds: an engine shows its progress before it sends the message about it, which may arrive without the fault.
    let told = noise.event.is_set();
    let fired = case.system.gpu().faults().remove(lost);
    worked?;
    ensure!(fired > 0, "no message went astray");
    ensure!(!told?, "somebody was told of a signal although every message went astray");
    noise.make(rig, 1)?;
    noise.event.wait()
}

fn native_fences(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY] {
        let (mut queue, late) = (rig.queue(node)?, rig.fence(0)?);
        let event = watch(&rig, late.handle, 1)?;
        behind_a_full_ring(case, &rig, || {
            rig.execute(&mut queue, &[late.signal(1)])?;
            ensure!(!event.is_set()?, "a wait ended by itself");
            Ok(())
        })?;
        event.wait()?;
    }
    Ok(())
}

fn monitored_fences(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY] {
        let mut queue = rig.kernel_queue(node)?;
        let mut event = None;
        behind_a_full_ring(case, &rig, || {
            let value = rig.kernel_submit(&mut queue, &[])?;
            event = Some(watch(&rig, queue.progress_fence, value)?);
            crate::rig::wait_until("the progress of the queue", || queue.progress.load() >= value)
        })?;
        event.map_or(Ok(()), |event| event.wait())?;
    }
    Ok(())
}

fn other_events(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let guilty = Rig::open(case.system.luid())?;
    let mut queue = guilty.queue(NODE_COPY)?;
    behind_a_full_ring(case, &rig, || guilty.submit_doomed(&mut queue, &[fill(NOWHERE, 4096, 0)]).map(drop))?;
    let fault = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
    ensure_eq!(wait_for_error(guilty.kmt, guilty.device)?, fault, "state of the device whose queue faulted");
    let mut another = rig.queue(NODE_COPY)?;
    rig.execute(&mut another, &[])
}
