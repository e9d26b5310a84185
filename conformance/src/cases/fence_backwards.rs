//! Signals of a smaller value than the fence has.
//!
//! The page makes a signal of the GPU a write of the value to the fence's GPU address, and ID3D12CommandQueue::Signal sets the fence to the
//! value; neither names an order, and applications set fences back to use them again. So the GPU writes what it is told, and nobody
//! loses anything. The processor does so when it says AllowFenceRewind.

use campanile_hw::packet::{self, Packet};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::rig::{RawFence, RawQueue, Rig, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { thunks "FenceOrder";
    "FenceOrder.SmallerSignalIsWritten" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A signal of the GPU with a smaller value than the fence has writes it and ends no wait; its queue and whoever else uses the fence go on."
        holds [NativeFence 6]
        => smaller_value;
    "FenceOrder.WaitsCountFromASmallerSignal" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "When the GPU has set a fence back, waits of GPU and processor for a value that was there once last until it comes again."
        holds [NativeFence 6]
        => waits_after;
    "FenceOrder.EqualSignalIsASignal" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A signal of the value that the fence has already is no error, of GPU and processor, and changes nothing."
        holds [NativeFence 5, NativeFence 6]
        => equal_value;
    "FenceOrder.PassedByTheProcessor" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A queue whose signal is overtaken by a greater one of the processor goes on, and so does its device: the fence has the value that was signalled last."
        holds [NativeFence 6]
        => passed_by_processor;
    "FenceOrder.PassedByAnotherQueue" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Of two queues that signal one fence with the smaller value later both go on, and the fence has the smaller value."
        holds [NativeFence 6]
        => passed_by_queue;
    "FenceOrder.ProgressMayGoBack" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A queue that takes its native progress fence back goes on, and what it submits next is waited for as ever."
        holds [NativeFence 6]
        => progress_back;
    "FenceOrder.BatchOfTheProcessorDoesNotGoBack" needs NativeFence on Boot::Shared, "d3dkmtsignalsynchronizationobjectfromcpu":
        "A signal of the processor for several fences, or for one fence several times, that takes any of them back is refused and writes none."
        holds [NativeFence 4, NativeFence 6, NativeFence 8]
        => batch_back;
    "FenceOrder.ProcessorRewindsWhenItSaysSo" needs UserModeSubmission on Boot::Shared, "d3dddicb_signalflags":
        "With AllowFenceRewind the processor takes a value back; the GPU goes on from there, and waits count from there."
        holds [NativeFence 4, NativeFence 6, NativeFence 8]
        => rewinds;
}

/// The device is not in error.
pub fn goes_on(rig: &Rig) -> Result<(), Failure> {
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, active, "state of a device whose queue set a fence back");
    Ok(())
}

fn watch(rig: &Rig, fence: &RawFence, value: u64) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number())), "wait with an event")?;
    Ok(event)
}

/// Whoever uses a fence and must not notice anything: a wait of the processor and a queue that waits, both for 20.
pub struct Bystander<'a> {
    pub rig: &'a Rig,
    pub fence: RawFence,
    pub event: Event,
    pub queue: RawQueue,
    pub held: u64,
}

impl<'a> Bystander<'a> {
    pub fn new(rig: &'a Rig, fence: RawFence) -> Result<Self, Failure> {
        let mut queue = rig.queue(NODE_COPY)?;
        let held = rig.submit(&mut queue, &[fence.wait(20)])?;
        Ok(Self { rig, fence, event: watch(rig, &fence, 20)?, queue, held })
    }

    /// The fence has `value`, the waits go on, and a signal of 20 ends them.
    pub fn went_unharmed(mut self, value: u64) -> Result<(), Failure> {
        ensure_eq!(self.fence.value.load(), value, "value after the signal that went back");
        ensure!(!self.event.is_set()?, "the wait of the processor was ended");
        ensure_eq!(self.queue.progress.load(), self.held - 1, "progress of the queue that waits");
        let mut signaller = self.rig.queue(NODE_COMPUTE)?;
        self.rig.execute(&mut signaller, &[self.fence.wait(value), self.fence.signal(20)])?;
        self.event.wait()?;
        wait_until("the queue that waits", || self.queue.progress.load() >= self.held)?;
        self.rig.execute(&mut self.queue, &[])
    }
}

fn smaller_value(case: &Case) -> Result<(), Failure> {
    for value in [0, 9] {
        let keeper = case.rig()?;
        let fence = keeper.fence(10)?;
        let bystander = Bystander::new(&keeper, fence)?;
        let other = case.rig()?;
        let mut queue = other.queue(NODE_COMPUTE)?;
        other.execute(&mut queue, &[fence.signal(value)])?;
        goes_on(&other)?;
        bystander.went_unharmed(value)?;
        other.execute(&mut queue, &[fence.signal(value), fence.wait(value)])?;
    }
    Ok(())
}

fn waits_after(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut waiting) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(10)?;
    rig.execute(&mut queue, &[fence.wait(10), fence.signal(3)])?;
    ensure_eq!(fence.value.load(), 3, "value that the GPU set back");
    count_from(&rig, &fence, (&mut queue, &mut waiting))
}

/// The fence has less than 4 and was at 5 before: waits for 5 last until a queue signals that.
fn count_from(rig: &Rig, fence: &RawFence, queues: (&mut RawQueue, &mut RawQueue)) -> Result<(), Failure> {
    let (queue, waiting) = queues;
    let ahead = watch(rig, fence, 5)?;
    let held = rig.submit(waiting, &[fence.wait(5)])?;
    rig.execute(queue, &[fence.signal(4)])?;
    ensure!(!ahead.is_set()?, "a wait for a value that was there once is over");
    ensure_eq!(waiting.progress.load(), held - 1, "progress of a queue that waits for it");
    rig.execute(queue, &[fence.signal(5)])?;
    ahead.wait()?;
    wait_until("the waiting queue", || waiting.progress.load() >= held)
}

fn equal_value(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for initial in [0, 10, u64::MAX - 1] {
        let fence = rig.fence(initial)?;
        let ahead = watch(&rig, &fence, initial + 1)?;
        rig.execute(&mut queue, &[fence.signal(initial), fence.signal(initial)])?;
        granted(rig.signal(&[fence.handle], &[initial]), "a signal of the processor with the value that is there")?;
        ensure_eq!(fence.value.load(), initial, "value");
        ensure!(!ahead.is_set()?, "the wait for the next value was ended");
        rig.execute(&mut queue, &[fence.signal(initial + 1)])?;
        ahead.wait()?;
    }
    Ok(())
}

/// Queues `fence.signal(5)` on a device of its own behind a gate, has `pass` take the fence beyond that, and opens the gate.
fn overtaken(case: &Case, pass: impl FnOnce(&Rig, &RawFence) -> Result<(), Failure>) -> Result<(), Failure> {
    let keeper = case.rig()?;
    let (fence, gate) = (keeper.fence(0)?, keeper.fence(0)?);
    let bystander = Bystander::new(&keeper, fence)?;
    let late = case.rig()?;
    let mut queue = late.queue(NODE_COMPUTE)?;
    let done = late.submit(&mut queue, &[gate.wait(1), fence.signal(5)])?;
    pass(&keeper, &fence)?;
    granted(keeper.signal(&[gate.handle], &[1]), "opening the gate")?;
    wait_until("the queue that comes late", || queue.progress.load() >= done)?;
    goes_on(&late)?;
    bystander.went_unharmed(5)
}

fn passed_by_processor(case: &Case) -> Result<(), Failure> {
    overtaken(case, |keeper, fence| granted(keeper.signal(&[fence.handle], &[7]), "the signal that passes"))
}

fn passed_by_queue(case: &Case) -> Result<(), Failure> {
    overtaken(case, |keeper, fence| {
        let mut queue = keeper.queue(NODE_COPY)?;
        keeper.execute(&mut queue, &[fence.signal(7)])
    })
}

fn progress_back(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for _ in 0..3 {
        rig.execute(&mut queue, &[])?;
    }
    let (gate, behind) = (rig.fence(0)?, rig.fence(0)?);
    let back = Packet::Progress(packet::Progress { handle: queue.progress_fence, value: 2 });
    let done = rig.submit(&mut queue, &[back, behind.signal(1), gate.wait(1)])?;
    wait_until("what is behind it", || behind.value.load() == 1)?;
    ensure_eq!(queue.progress.load(), 2, "progress that went back");
    let event = Event::new()?;
    let wait = rig.wait_with_event(&[queue.progress_fence], &[done], false, Some(event.number()));
    granted(wait, "a wait for the progress")?;
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    event.wait()?;
    goes_on(&rig)?;
    rig.execute(&mut queue, &[])
}

fn batch_back(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fences = [rig.fence(0)?, rig.fence(10)?, rig.fence(0)?];
    let [first, second, third] = fences.map(|fence| fence.handle);
    for (handles, values, what) in [
        (&[first, second, third][..], &[1, 9, 1][..], "a batch with a fence that goes back"),
        (&[first, first], &[2, 1], "a fence that is named twice and goes back"),
        (&[first, third, first, third], &[1, 1, 2, 0], "the second of two fences that are named twice"),
    ] {
        refused(rig.signal(handles, values), &[STATUS_INVALID_PARAMETER], what)?;
        ensure_eq!(fences.map(|fence| fence.value.load()), [0, 10, 0], "values after {what}");
    }
    granted(rig.signal(&[first, second, first], &[1, 10, 2]), "a batch in order")?;
    ensure_eq!(fences.map(|fence| fence.value.load()), [2, 10, 0], "values after the batch");
    Ok(())
}

fn rewinds(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut waiting) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(10)?;
    granted(rig.rewind(&fence, 3), "taking the value back")?;
    ensure_eq!(fence.value.load(), 3, "value that was taken back");
    count_from(&rig, &fence, (&mut queue, &mut waiting))
}
