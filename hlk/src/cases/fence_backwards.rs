//! Signals whose value goes back: the GPU's fault their queue, the processor's are refused, and nobody else notices.

use campanile_hw::event::FaultKind;
use campanile_hw::packet::{self, Packet};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use super::fault::wait_for_error;
use crate::rig::{RawFence, RawQueue, Rig, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { "FenceOrder";
    "FenceOrder.SmallerSignalFaultsItsQueue" on Boot::Shared, "native-gpu-fence-objects":
        "A signal of the GPU with a smaller value than the fence has writes nothing, ends no wait and puts its device in error, whose state names the reason and the fence; whoever else uses the fence goes on."
        => smaller_faults;
    "FenceOrder.EqualSignalIsASignal" on Boot::Shared, "native-gpu-fence-objects":
        "A signal of the value that the fence has already is no error, of GPU and processor, and changes nothing."
        => equal_value;
    "FenceOrder.PassedByTheProcessor" on Boot::Shared, "native-gpu-fence-objects":
        "A queue whose signal is overtaken by a greater one of the processor has gone back like any other: it faults, the greater value stays."
        => passed_by_processor;
    "FenceOrder.PassedByAnotherQueue" on Boot::Shared, "native-gpu-fence-objects":
        "Of two queues that signal one fence the one with the smaller value faults if it comes later, and the other goes on."
        => passed_by_queue;
    "FenceOrder.ProgressDoesNotGoBack" on Boot::Shared, "native-gpu-fence-objects":
        "A queue that takes its native progress fence back faults, and its progress stays."
        => progress_back;
    "FenceOrder.BatchOfTheProcessorDoesNotGoBack" on Boot::Shared, "d3dkmtsignalsynchronizationobjectfromcpu":
        "A signal of the processor for several fences, or for one fence several times, that takes any of them back is refused and writes none."
        => batch_back;
    "FenceOrder.ProcessorRewindsWhenItSaysSo" on Boot::Shared, "d3dddicb_signalflags":
        "With AllowFenceRewind the processor takes a value back; the GPU goes on from there, and waits count from there."
        => rewinds;
}

/// The device is in error because a queue signalled `fence` with a smaller value than it had.
pub fn went_back(rig: &Rig, fence: &RawFence) -> Result<(), Failure> {
    let state = wait_for_error(rig.kmt, rig.device)?;
    let faulted = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
    ensure_eq!(state, faulted, "state of the device whose queue went back");
    let fault = rig.kmt.page_fault_state(rig.device)?;
    let code = (fault.FaultErrorCode.IsDeviceSpecificCode(), fault.FaultErrorCode.GeneralErrorCode());
    ensure_eq!(code, (true, FaultKind::FenceBackwards as u32), "code of the fault");
    ensure_eq!(fault.FaultedVirtualAddress, fence.current, "address of the fault");
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

fn smaller_faults(case: &Case) -> Result<(), Failure> {
    for value in [0, 9] {
        let keeper = case.rig()?;
        let fence = keeper.fence(10)?;
        let bystander = Bystander::new(&keeper, fence)?;
        let guilty = case.rig()?;
        let mut queue = guilty.queue(NODE_COMPUTE)?;
        guilty.submit_doomed(&mut queue, &[fence.signal(value)])?;
        went_back(&guilty, &fence)?;
        queue.stands_at(0, "the signal that went back")?;
        refused(
            guilty.wait(&[queue.progress_fence], &[1], false),
            &[STATUS_DEVICE_REMOVED],
            "a wait for its progress",
        )?;
        bystander.went_unharmed(10)?;
    }
    Ok(())
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
    late.submit_doomed(&mut queue, &[gate.wait(1), fence.signal(5)])?;
    pass(&keeper, &fence)?;
    granted(keeper.signal(&[gate.handle], &[1]), "opening the gate")?;
    went_back(&late, &fence)?;
    bystander.went_unharmed(7)
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
    let keeper = case.rig()?;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for _ in 0..3 {
        rig.execute(&mut queue, &[])?;
    }
    let behind = keeper.fence(0)?;
    let back = Packet::Progress(packet::Progress { value: 2 });
    rig.submit_doomed(&mut queue, &[back, behind.signal(1)])?;
    wait_for_error(rig.kmt, rig.device)?;
    let code = rig.kmt.page_fault_state(rig.device)?.FaultErrorCode;
    ensure_eq!(code.GeneralErrorCode(), FaultKind::FenceBackwards as u32, "code of the fault");
    queue.stands_at(3, "a progress that went back")?;
    ensure_eq!(behind.value.load(), 0, "what is behind it");
    Ok(())
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

fn rewind(rig: &Rig, fence: &RawFence, value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
    let (mut handle, mut value) = (fence.handle, value);
    arguments.hDevice = rig.device;
    arguments.ObjectCount = 1;
    arguments.ObjectHandleArray = &raw mut handle;
    arguments.FenceValueArray = &raw mut value;
    arguments.Flags = D3DDDICB_SIGNALFLAGS::new().with_AllowFenceRewind(true);
    rig.kmt.call(rig.kmt.table().D3DKMTSignalSynchronizationObjectFromCpu, &mut arguments)
}

fn rewinds(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut waiting) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(10)?;
    granted(rewind(&rig, &fence, 3), "taking the value back")?;
    ensure_eq!(fence.value.load(), 3, "value that was taken back");
    let ahead = watch(&rig, &fence, 5)?;
    let held = rig.submit(&mut waiting, &[fence.wait(5)])?;
    rig.execute(&mut queue, &[fence.signal(4)])?;
    ensure!(!ahead.is_set()?, "a wait for a value that was there once is over");
    ensure_eq!(waiting.progress.load(), held - 1, "progress of a queue that waits for it");
    rig.execute(&mut queue, &[fence.signal(5)])?;
    ahead.wait()?;
    wait_until("the waiting queue", || waiting.progress.load() >= held)
}
