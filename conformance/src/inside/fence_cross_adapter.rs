//! Fences that two adapters share: every pair of wait and signal in the page's three tables.

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;

use super::fence_interrupts::Event;
use crate::kmt::Word;
use crate::rig::{KernelHandle, KernelQueue, RawFence, RawQueue, Rig, View, fill, shared_flags, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::{AdapterOptions, SystemOptions};

cases! { inside "CrossAdapterFence", behind "it needs two adapters of a kind";
    "CrossAdapterFence.ScenarioOneBothAdaptersHaveNativeFences" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "Waits of CPU and GPU on one adapter end by signals of CPU and GPU of the other, when both have native fences."
        holds [NativeFence 72, NativeFence 77]
        => scenario_1;
    "CrossAdapterFence.ScenarioOneWithOptimisedInterrupts" needs UserModeSubmission on Boot::With(optimised), "native-gpu-fence-objects":
        "An interrupt that names a queue in place of the fences brings the signals of that queue to the other adapter."
        holds [NativeFence 72, NativeFence 77]
        => scenario_1;
    "CrossAdapterFence.ScenarioTwoAWaitsWithoutNativeFences" needs UserModeSubmission on Boot::With(native_and_not), "native-gpu-fence-objects":
        "Waits of CPU and GPU on an adapter without native fences end by signals of CPU and GPU of one that has them."
        holds [NativeFence 73, NativeFence 77]
        => scenario_2a;
    "CrossAdapterFence.ScenarioTwoBSignalsWithoutNativeFences" needs UserModeSubmission on Boot::With(native_and_not), "native-gpu-fence-objects":
        "Waits of CPU and GPU on an adapter with native fences end by signals of CPU and GPU of one that has none."
        holds [NativeFence 73, NativeFence 77]
        => scenario_2b;
    "CrossAdapterFence.ScenarioTwoByPolicyOfTheSystem" needs UserModeSubmission on Boot::With(native_and_refused), "native-gpu-fence-objects":
        "An adapter on which the system does not enable native fences shares them as one whose GPU has none."
        holds [NativeFence 73, NativeFence 77]
        => by_policy;
    "CrossAdapterFence.KernelModeQueuesOfNativeAdapters" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "Waits and signals of kernel-mode queues work across adapters with native fences as on one without them."
        holds [NativeFence 73, NativeFence 77]
        => kernel_mode_rows;
    "CrossAdapterFence.QueuesOfTwoAdaptersAlternate" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "Queues of two adapters that wait for each other alternate a thousand times, and each submission is executed exactly once."
        holds [NativeFence 77]
        => turns_of_native;
    "CrossAdapterFence.QueuesAlternateWithoutNativeFencesOnOneSide" needs UserModeSubmission on Boot::With(native_and_not), "native-gpu-fence-objects":
        "A user-mode queue and a kernel-mode queue of an adapter without native fences execute each of their submissions exactly once."
        holds [NativeFence 77]
        => turns_of_both_kinds;
    "CrossAdapterFence.ValuesAreSeenInOrder" on Boot::With(two_native), "native-gpu-fence-objects":
        "A waiter on one adapter sees the values that the other signals in their order, and wakes for each that it waits for."
        holds [NativeFence 77]
        => values_in_order;
}

pub(super) fn two_native() -> SystemOptions {
    SystemOptions { others: vec![AdapterOptions::default()], ..SystemOptions::default() }
}

/// Interrupts of both GPUs name the queue that signalled.
fn optimised() -> SystemOptions {
    let mut options = two_native();
    options.variant.optimised_fence_interrupt = true;
    options.others.iter_mut().for_each(|adapter| adapter.variant.optimised_fence_interrupt = true);
    options
}

/// The first GPU has native fences, the second has not.
pub(super) fn native_and_not() -> SystemOptions {
    let mut options = two_native();
    options.others.iter_mut().for_each(|adapter| adapter.variant.native_fence = false);
    options
}

/// Both GPUs have native fences; the system enables them on the first.
fn native_and_refused() -> SystemOptions {
    let mut options = two_native();
    options.others.iter_mut().for_each(|adapter| adapter.features.native_fence = false);
    options
}

/// Flags of a fence of several adapters.
pub(super) fn cross_flags() -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    shared_flags().with_CrossAdapter(true)
}

/// A device on an adapter, and a fence that is open there.
pub(super) struct Side {
    pub(super) rig: Rig,
    pub(super) fence: RawFence,
}

/// A device on each of two adapters.
pub(super) fn rigs(case: &Case<'_>) -> Result<[Rig; 2], Failure> {
    match case.system.adapters() {
        [first, second] => Ok([Rig::open(first.luid())?, Rig::open(second.luid())?]),
        _ => Err(Failure::new("the case needs a system with two adapters")),
    }
}

/// True if D3DKMTQueryAdapterInfo says that the adapter has native fences.
fn is_native(rig: &Rig) -> Result<bool, Failure> {
    let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_3_1_CAPS;
    let word = rig.kmt.query_word(rig.adapter, kind);
    let word = word.map_err(|status| Failure::new(format!("capabilities of the adapter: {status}")))?;
    Ok(D3DKMT_WDDM_3_1_CAPS::from_bits(word).NativeGpuFenceSupported())
}

/// Creates a fence as the kind that the adapter has.
pub(super) fn create(rig: &Rig, initial: u64) -> Result<RawFence, Failure> {
    if !is_native(rig)? {
        return rig.monitored_fence(initial, cross_flags());
    }
    rig.shared_fence_with(initial, cross_flags())
}

/// Opens a fence as the kind that the adapter has.
pub(super) fn open(rig: &Rig, handle: KernelHandle) -> Result<RawFence, Failure> {
    if is_native(rig)? { rig.open_fence(handle) } else { rig.open_monitored(handle) }
}

/// A fence on two adapters, created on the one with this place; with its kernel handle.
pub(super) fn sides(case: &Case<'_>, creator: usize, initial: u64) -> Result<([Side; 2], KernelHandle), Failure> {
    let [first, second] = rigs(case)?;
    let (maker, opener) = if creator == 0 { (&first, &second) } else { (&second, &first) };
    let made = create(maker, initial)?;
    let handle = maker.share(&[made.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let opened = open(opener, handle)?;
    let (one, two) = if creator == 0 { (made, opened) } else { (opened, made) };
    Ok(([Side { rig: first, fence: one }, Side { rig: second, fence: two }], handle))
}

/// Party that waits or signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The processor, by a thunk.
    Cpu,
    /// The GPU, by a command in a user-mode queue.
    UserQueue,
    /// The GPU's kernel-mode queue, by a command of software in front of it.
    KernelQueue,
    /// The same, by thunks that name a context.
    Context,
}

/// One pair of the page's tables.
#[derive(Clone, Copy, Debug)]
struct Row {
    waits: Who,
    signals: Who,
}

const fn row(waits: Who, signals: Who) -> Row {
    Row { waits, signals }
}

/// Wait on the iGPU, signal on the dGPU; both have native fences.
const SCENARIO_1: &[Row] = &[
    row(Who::UserQueue, Who::UserQueue),
    row(Who::UserQueue, Who::Cpu),
    row(Who::Cpu, Who::UserQueue),
    row(Who::Cpu, Who::Cpu),
];

/// Wait on the iGPU, which has no native fences; signal on the dGPU.
const SCENARIO_2A: &[Row] = &[
    row(Who::KernelQueue, Who::UserQueue),
    row(Who::KernelQueue, Who::Cpu),
    row(Who::Context, Who::UserQueue),
    row(Who::Context, Who::Cpu),
    row(Who::Cpu, Who::UserQueue),
    row(Who::Cpu, Who::Cpu),
];

/// Signal on the iGPU, which has no native fences; wait on the dGPU.
const SCENARIO_2B: &[Row] = &[
    row(Who::UserQueue, Who::KernelQueue),
    row(Who::UserQueue, Who::Context),
    row(Who::UserQueue, Who::Cpu),
    row(Who::Cpu, Who::KernelQueue),
    row(Who::Cpu, Who::Context),
    row(Who::Cpu, Who::Cpu),
];

/// The second scenario with a kernel-mode queue in place of a GPU without native fences.
const KERNEL_MODE: &[Row] = &[
    row(Who::KernelQueue, Who::UserQueue),
    row(Who::KernelQueue, Who::KernelQueue),
    row(Who::KernelQueue, Who::Cpu),
    row(Who::UserQueue, Who::KernelQueue),
    row(Who::Cpu, Who::KernelQueue),
    row(Who::Context, Who::Context),
];

/// Runs each row, with the fence created on either adapter; `waiter` is the place of the one that waits.
fn rows(case: &Case<'_>, table: &[Row], waiter: usize) -> Result<(), Failure> {
    for row in table {
        for creator in [0, 1] {
            let outcome = run(case, *row, waiter, creator);
            outcome.map_err(|failure| {
                Failure::new(format!(
                    "{:?} waits on adapter {waiter}, {:?} signals on the other, created on adapter {creator}: {failure}",
                    row.waits, row.signals
                ))
            })?;
        }
    }
    Ok(())
}

/// A wait for 10 that a signal of 9 leaves waiting and a signal of 10 ends.
fn run(case: &Case<'_>, row: Row, waiter: usize, creator: usize) -> Result<(), Failure> {
    let ([first, second], handle) = sides(case, creator, 1)?;
    let (waits, signals) = if waiter == 0 { (&first, &second) } else { (&second, &first) };
    ensure_eq!(waits.fence.value.load(), 1, "value on the side that waits");
    let waiting = Waiting::begin(waits, row.waits, 10)?;
    let mut signaller = Signaller::new(signals, row.signals)?;
    signaller.signal(9)?;
    wait_until("the signal of 9", || waits.fence.value.load() == 9 && signals.fence.value.load() == 9)?;
    ensure!(!waiting.is_over()?, "the wait for 10 ended at 9");
    signaller.signal(10)?;
    waiting.end()?;
    ensure_eq!(waits.fence.value.load(), 10, "value after the wait");
    ensure_eq!(signals.fence.value.load(), 10, "value on the side that signals");
    granted(waits.rig.destroy_fence(waits.fence.handle), "destroying the fence where it was waited for")?;
    granted(signals.rig.destroy_fence(signals.fence.handle), "destroying the fence where it was signalled")?;
    granted(handle.close(), "closing the kernel handle")?;
    granted(waits.rig.destroy(), "destroying the device that waits")?;
    granted(signals.rig.destroy(), "destroying the device that signals")
}

/// A wait that is under way.
enum Waiting {
    Event(Event),
    /// Work behind the wait fills memory.
    Queue {
        progress: Word,
        value: u64,
        filled: View,
    },
}

impl Waiting {
    fn begin(side: &Side, who: Who, value: u64) -> Result<Self, Failure> {
        let Side { rig, fence } = side;
        if who == Who::Cpu {
            let event = Event::new()?;
            let status = rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number()));
            granted(status, "D3DKMTWaitForSynchronizationObjectFromCpu")?;
            return Ok(Self::Event(event));
        }
        let memory = rig.memory(4096, Placement::System)?;
        let filled = rig.view(memory)?;
        filled.fill(0);
        let work = fill(memory.address, 4096, u32::MAX);
        if who == Who::UserQueue {
            let mut queue = rig.queue(NODE_COMPUTE)?;
            let done = rig.submit(&mut queue, &[fence.wait(value), work])?;
            return Ok(Self::Queue { progress: queue.progress, value: done, filled });
        }
        let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
        // Work in front of the wait is executed.
        let before = rig.kernel_submit(&mut queue, &[])?;
        let conditions = [(fence.handle, value)];
        match who {
            Who::KernelQueue => granted(rig.queue_wait(queue.queue, &conditions), "the wait of the queue")?,
            _ => granted(rig.context_wait(queue.context, &conditions), "the wait of the context")?,
        }
        let done = rig.kernel_submit(&mut queue, &[work])?;
        wait_until("the work before the wait", || queue.progress.load() >= before)?;
        Ok(Self::Queue { progress: queue.progress, value: done, filled })
    }

    fn is_over(&self) -> Result<bool, Failure> {
        match self {
            Self::Event(event) => event.is_set(),
            Self::Queue { progress, value, filled } => {
                Ok(progress.load() >= *value || filled.read(0, 4096).iter().any(|byte| *byte != 0))
            }
        }
    }

    fn end(&self) -> Result<(), Failure> {
        match self {
            Self::Event(event) => event.wait(),
            Self::Queue { progress, value, filled } => {
                wait_until("the work behind the wait", || progress.load() >= *value)?;
                ensure!(filled.read(0, 4096).iter().all(|byte| *byte == 0xff), "the work behind the wait is not done");
                Ok(())
            }
        }
    }
}

/// Somebody who signals.
struct Signaller<'a> {
    side: &'a Side,
    by: By,
}

enum By {
    Cpu,
    UserQueue(Box<RawQueue>),
    KernelQueue(KernelQueue, Who),
}

impl<'a> Signaller<'a> {
    fn new(side: &'a Side, who: Who) -> Result<Self, Failure> {
        let by = match who {
            Who::Cpu => By::Cpu,
            Who::UserQueue => By::UserQueue(Box::new(side.rig.queue(NODE_COPY)?)),
            Who::KernelQueue | Who::Context => By::KernelQueue(side.rig.kernel_queue(NODE_COPY)?, who),
        };
        Ok(Self { side, by })
    }

    fn signal(&mut self, value: u64) -> Result<(), Failure> {
        let Side { rig, fence } = self.side;
        let signals = [(fence.handle, value)];
        match &mut self.by {
            By::Cpu => granted(rig.signal(&[fence.handle], &[value]), "D3DKMTSignalSynchronizationObjectFromCpu"),
            By::UserQueue(queue) => rig.submit(queue, &[fence.signal(value)]).map(drop),
            By::KernelQueue(queue, who) => {
                rig.kernel_submit(queue, &[])?;
                match who {
                    Who::KernelQueue => {
                        let status = rig.queue_signal(&[queue.queue], &signals, D3DDDICB_SIGNALFLAGS::new());
                        granted(status, "the signal of the queue")
                    }
                    _ => granted(rig.context_signal(queue.context, &signals), "the signal of the context"),
                }
            }
        }
    }
}

fn scenario_1(case: &mut Case<'_>) -> Result<(), Failure> {
    rows(case, SCENARIO_1, 1)?;
    rows(case, SCENARIO_1, 0)
}

fn scenario_2a(case: &mut Case<'_>) -> Result<(), Failure> {
    rows(case, SCENARIO_2A, 1)
}

fn scenario_2b(case: &mut Case<'_>) -> Result<(), Failure> {
    rows(case, SCENARIO_2B, 0)
}

fn by_policy(case: &mut Case<'_>) -> Result<(), Failure> {
    rows(case, SCENARIO_2A, 1)?;
    rows(case, SCENARIO_2B, 0)
}

fn kernel_mode_rows(case: &mut Case<'_>) -> Result<(), Failure> {
    rows(case, KERNEL_MODE, 1)?;
    rows(case, KERNEL_MODE, 0)
}

fn turns_of_native(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 1000;
    let ([first, second], _) = sides(case, 0, 0)?;
    let mut queues = [first.rig.queue(NODE_COMPUTE)?, second.rig.queue(NODE_COMPUTE)?];
    let [one, two] = &mut queues;
    let before: Vec<_> = case.system.adapters().iter().map(|adapter| adapter.counters()).collect();
    for turn in 0..TURNS {
        first.rig.submit(one, &[first.fence.wait(2 * turn), first.fence.signal(2 * turn + 1)])?;
        second.rig.submit(two, &[second.fence.wait(2 * turn + 1), second.fence.signal(2 * turn + 2)])?;
    }
    wait_until("the last turn", || first.fence.value.load() == 2 * TURNS)?;
    wait_until("the end of the queues", || one.progress.load() >= TURNS && two.progress.load() >= TURNS)?;
    for (adapter, before) in case.system.adapters().iter().zip(&before) {
        let counted = adapter.counters().since(before);
        ensure_eq!((counted.waits, counted.signals), (TURNS, TURNS), "waits and signals of one adapter");
    }
    ensure_eq!(second.fence.value.load(), 2 * TURNS, "value that the other adapter reads");
    Ok(())
}

fn turns_of_both_kinds(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 1000;
    let ([native, other], _) = sides(case, 1, 0)?;
    let (mut user, mut kernel) = (native.rig.queue(NODE_COMPUTE)?, other.rig.kernel_queue(NODE_COMPUTE)?);
    let before = case.system.counters();
    for turn in 0..TURNS {
        native.rig.submit(&mut user, &[native.fence.wait(2 * turn), native.fence.signal(2 * turn + 1)])?;
        granted(other.rig.queue_wait(kernel.queue, &[(other.fence.handle, 2 * turn + 1)]), "the wait of the queue")?;
        other.rig.kernel_submit(&mut kernel, &[])?;
        let signal = [(other.fence.handle, 2 * turn + 2)];
        let status = other.rig.queue_signal(&[kernel.queue], &signal, D3DDDICB_SIGNALFLAGS::new());
        granted(status, "the signal of the queue")?;
    }
    wait_until("the last turn", || native.fence.value.load() == 2 * TURNS)?;
    ensure_eq!(kernel.progress.load(), TURNS, "command buffers of the kernel-mode queue");
    let counted = case.system.counters().since(&before);
    ensure_eq!((counted.waits, counted.signals), (TURNS, TURNS), "waits and signals of the user-mode queue");
    Ok(())
}

fn values_in_order(case: &mut Case<'_>) -> Result<(), Failure> {
    const LAST: u64 = 300;
    for creator in [0, 1] {
        let ([first, second], _) = sides(case, creator, 0)?;
        let mut queue = second.rig.queue(NODE_COMPUTE)?;
        let signals = |value| second.fence.signal(value);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                crate::simulated::on_thread(&case.process, || {
                    let mut last = 0;
                    for value in 1..=LAST {
                        granted(first.rig.wait(&[first.fence.handle], &[value], false), "the wait")?;
                        let seen = first.fence.value.load();
                        ensure!(seen >= value && seen >= last, "the wait for {value} ended at {seen}, after {last}");
                        last = seen;
                    }
                    Ok(())
                })
            });
            for value in 1..=LAST {
                second.rig.submit(&mut queue, &[signals(value)])?;
            }
            waiter.join().map_err(|_| Failure::new("the waiter panicked"))?
        })?;
        ensure_eq!(first.fence.value.load(), LAST, "value after the last signal");
    }
    Ok(())
}
