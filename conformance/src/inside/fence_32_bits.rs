//! Monitored fences on a GPU that writes 32 bits of a value at once.

use crate::cases::fence_32_bits::{WRAP, private};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::fence_interrupts::Event;
use crate::rig::{KernelHandle, RawFence, Rig, fill, shared_flags, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "MonitoredFence", behind "it chooses the width of fence values";
    "MonitoredFence.NarrowGpuHasNoNativeFences" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "A GPU that cannot write 64 bits at once writes the low half of a value only; the driver says so and has no native fences."
        holds [NativeFence 78, ContextMonitoring 8]
        => no_native_fences;
    "MonitoredFence.ProcessorWaitsPassTheWrap" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "Processors that wait for one, any or all of several values beyond the next multiple of 2^32 wake when the GPU gets there, not before."
        holds [NativeFence 78, ContextMonitoring 6, ContextMonitoring 8, ContextMonitoring 11, ContextMonitoring 13, ContextMonitoring 20]
        => processor_waits;
    "MonitoredFence.QueueWaitsPassTheWrap" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "Two queues wait for each other, with signals of software and of the GPU, through a multiple of 2^32 and in order."
        holds [NativeFence 78, ContextMonitoring 8]
        => queue_waits;
    "MonitoredFence.ProcessorSignalsPassTheWrap" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "A value that a processor signals is seen whole at once, in every process, and goes on from there when the GPU signals."
        holds [NativeFence 78, ContextMonitoring 8, ContextMonitoring 18]
        => processor_signals;
    "MonitoredFence.UnwatchedSignalsAreFollowed" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "The system follows the values of a fence that nobody waits for, over any number of wraps."
        holds [NativeFence 78, ContextMonitoring 8]
        => unwatched;
    "MonitoredFence.ProgressPassesTheWrap" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "The progress values of a queue go through multiples of 2^32."
        holds [NativeFence 78, ContextMonitoring 8, ContextMonitoring 9]
        => progress;
    "MonitoredFence.ValuesOutOfReachAreRefused" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "Where the GPU writes 32 bits, a wait or signal more than UINT_MAX/2 away from the last value is refused and changes nothing."
        holds [NativeFence 78, ContextMonitoring 9]
        => out_of_reach;
    "MonitoredFence.LossIsFartherThanTheReach" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "Where the GPU writes 32 bits, the value of a fence becomes all ones with the loss of its device as well, and stays so."
        holds [NativeFence 78, ContextMonitoring 8]
        => loss;
}

/// Largest distance from the last value.
const REACH: u64 = u32::MAX as u64 / 2;

fn with_32_bits() -> SystemOptions {
    with_gpu(|gpu| gpu.atomics64 = false)
}

fn no_native_fences(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let status = rig.create_fence(0).err().unwrap_or(STATUS_SUCCESS);
    refused(status, &[STATUS_NOT_SUPPORTED], "a native fence")?;
    // What several adapters use must be whole everywhere.
    let cross = rig.create_sync_object(
        D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE,
        0,
        shared_flags().with_CrossAdapter(true),
    );
    refused(cross.err().unwrap_or(STATUS_SUCCESS), &[STATUS_NOT_SUPPORTED], "a fence of several adapters")?;
    let memory = rig.memory(4096, Placement::System)?;
    let view = rig.view(memory)?;
    view.store(0, 0x11_2222_2222);
    let word = RawFence { current: memory.address, ..private(&rig, 0)? };
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    let value = rig.kernel_submit(&mut queue, &[word.signal(0x33_4444_4444)])?;
    wait_until("the signal", || queue.progress.load() >= value)?;
    ensure!(view.read(0, 8) == 0x11_4444_4444u64.to_le_bytes(), "the GPU wrote {:x?}", view.read(0, 8));
    Ok(())
}

fn processor_waits(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    for base in [WRAP, 0x17 * WRAP] {
        let (one, two) = (private(&rig, base - 2)?, private(&rig, base - 1)?);
        let both = [one.handle, two.handle];
        let event = || {
            let event = Event::new()?;
            Ok::<_, Failure>((event.number(), event))
        };
        let ((any, any_set), (all, all_set), (single, single_set)) = (event()?, event()?, event()?);
        granted(rig.wait_with_event(&both, &[base + 1, base + 3], true, Some(any)), "wait for any")?;
        granted(rig.wait_with_event(&both, &[base + 1, base + 3], false, Some(all)), "wait for all")?;
        granted(rig.wait_with_event(&[one.handle], &[base], false, Some(single)), "wait for one")?;
        granted(rig.wait(&both, &[base - 2, base - 1], false), "wait for what is reached")?;
        for (signal, value, set) in [
            (one, base - 1, [0, 0, 0]),
            (one, base, [0, 0, 1]),
            (two, base + 2, [0, 0, 0]),
            (one, base + 1, [1, 0, 0]),
            (two, base + 3, [0, 1, 0]),
        ] {
            let done = rig.kernel_submit(&mut queue, &[signal.signal(value)])?;
            granted(rig.wait(&[signal.handle], &[value], false), "wait for the signal")?;
            wait_until("the buffer", || queue.progress.load() >= done)?;
            for ((event, wanted), what) in
                [&any_set, &all_set, &single_set].into_iter().zip(set).zip(["any", "all", "one"])
            {
                // Waits that one value ends do so in any order.
                let mut found = 0;
                wait_until("an event", || {
                    found += event.times_set().unwrap_or(0);
                    found >= wanted
                })?;
                ensure_eq!(found, wanted, "the wait for {what} after {value:#x}");
            }
            ensure_eq!(signal.value.load(), value, "the value that user mode reads after a wait for it");
        }
    }
    Ok(())
}

fn queue_waits(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 40;
    let rig = case.rig()?;
    let (mut one, mut two) = (rig.kernel_queue(NODE_COMPUTE)?, rig.kernel_queue(NODE_COPY)?);
    // A signal of software comes to the multiple, and one of the GPU.
    for first in [3 * WRAP - TURNS, 3 * WRAP - TURNS + 1] {
        let fence = private(&rig, first)?;
        for turn in 0..TURNS {
            let value = first + 2 * turn;
            granted(rig.queue_wait(one.queue, &[(fence.handle, value)]), "the wait of one queue")?;
            rig.kernel_submit(&mut one, &[fence.signal(value + 1)])?;
            granted(rig.context_wait(two.context, &[(fence.handle, value + 1)]), "the wait of the other")?;
            rig.kernel_submit(&mut two, &[])?;
            let signal = [(fence.handle, value + 2)];
            granted(rig.queue_signal(&[two.queue], &signal, D3DDDICB_SIGNALFLAGS::new()), "a signal of software")?;
        }
        granted(rig.wait(&[fence.handle], &[first + 2 * TURNS], false), "the wait for the last turn")?;
        ensure_eq!(fence.value.load(), first + 2 * TURNS, "value at the end");
    }
    ensure_eq!((one.progress.load(), two.progress.load()), (2 * TURNS, 2 * TURNS), "buffers of both queues");
    Ok(())
}

fn processor_signals(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mine = rig.monitored_fence(WRAP - 1, shared_flags())?;
    let handle = rig.share(&[mine.handle]).map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let other = dxgkrnl::Process::new(case.system.machine(), "beside");
    let theirs = case.process.duplicate_handle(handle.raw(), &other);
    let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
    let (theirs, luid) = (KernelHandle(theirs.addr()), case.system.luid());
    let outcome = on_thread(&other, || {
        let rig = Rig::open(luid)?;
        let fence = rig.open_monitored(theirs)?;
        granted(rig.signal(&[fence.handle], &[WRAP]), "signal of the other process")?;
        ensure_eq!(fence.value.load(), WRAP, "value right after the signal");
        let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
        rig.kernel_submit(&mut queue, &[fence.signal(WRAP + 5)])?;
        granted(rig.wait(&[fence.handle], &[WRAP + 5], false), "the wait for the GPU's signal")
    });
    other.exit();
    outcome?;
    ensure_eq!(mine.value.load(), WRAP + 5, "value in this process");
    refused(rig.signal(&[mine.handle], &[WRAP + 4]), &[STATUS_INVALID_PARAMETER], "a signal of less")?;
    granted(rig.signal(&[mine.handle], &[2 * WRAP - 1 - REACH]), "a signal below the next wrap")?;
    granted(rig.signal(&[mine.handle], &[2 * WRAP - 1]), "a signal as far as it may be")?;
    granted(rig.signal(&[mine.handle], &[2 * WRAP + 1]), "a signal through the wrap")?;
    ensure_eq!(mine.value.load(), 2 * WRAP + 1, "value at the end");
    granted(handle.close(), "closing the kernel handle")
}

fn unwatched(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 0)?;
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    let mut value = 0;
    for _ in 0..9 {
        value += REACH;
        rig.kernel_submit(&mut queue, &[fence.signal(value)])?;
        wait_until("the whole value", || fence.value.load() == value)?;
        // Where the high half stays, user mode sees the value before the system does, which must not fall behind.
        granted(rig.wait(&[fence.handle], &[0], false), "a look of the system")?;
    }
    // Signals of software may go back.
    let back = value - REACH;
    let flags = D3DDDICB_SIGNALFLAGS::new().with_AllowFenceRewind(true);
    granted(rig.queue_signal(&[queue.queue], &[(fence.handle, back)], flags), "a signal of less")?;
    wait_until("the value before", || fence.value.load() == back)?;
    granted(rig.signal(&[fence.handle], &[back + REACH]), "a signal of the processor")
}

fn progress(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    let mut last = 0;
    for value in [REACH, 2 * REACH, WRAP - 1, WRAP, WRAP + 1, WRAP + REACH, WRAP + 2 * REACH, 2 * WRAP + 3] {
        let far = rig.try_kernel_submit(&mut queue, &[], last + REACH + 1)?;
        refused(far, &[STATUS_INVALID_PARAMETER], &format!("progress of {:#x} after {last:#x}", last + REACH + 1))?;
        granted(rig.try_kernel_submit(&mut queue, &[], value)?, "D3DKMTSubmitCommandToHwQueue")?;
        wait_until("the progress", || queue.progress.load() == value)?;
        last = value;
    }
    Ok(())
}

fn out_of_reach(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let last = 5 * WRAP + 7;
    let fence = private(&rig, last)?;
    let queue = rig.kernel_queue(NODE_COMPUTE)?;
    let (handles, none) = ([fence.handle], D3DDDICB_SIGNALFLAGS::new());
    let rewind = none.with_AllowFenceRewind(true);
    let event = Event::new()?;
    let invalid = &[STATUS_INVALID_PARAMETER];
    for far in [last + REACH + 1, last + WRAP, u64::MAX] {
        let what = |call: &str| format!("{call} for {far:#x} at {last:#x}");
        let pair = [(fence.handle, far)];
        refused(rig.wait(&handles, &[far], false), invalid, &what("a wait"))?;
        refused(rig.wait_with_event(&handles, &[far], true, Some(event.number())), invalid, &what("an event"))?;
        refused(rig.queue_wait(queue.queue, &pair), invalid, &what("a wait of a queue"))?;
        refused(rig.context_wait(queue.context, &pair), invalid, &what("a wait of a context"))?;
        refused(rig.signal(&handles, &[far]), invalid, &what("a signal"))?;
        refused(rig.queue_signal(&[queue.queue], &pair, none), invalid, &what("a signal of a queue"))?;
        refused(rig.context_signal(queue.context, &pair), invalid, &what("a signal of a context"))?;
        refused(rig.context_signal2(&[queue.context], &pair, none), invalid, &what("a signal with flags"))?;
    }
    let back = [(fence.handle, last - REACH - 1)];
    refused(rig.queue_signal(&[queue.queue], &back, rewind), invalid, "a signal too far back")?;
    ensure_eq!(fence.value.load(), last, "value after refusals");
    ensure!(!event.is_set()?, "a refused wait set its event");
    // What is reached already is not outstanding, however long ago that was.
    granted(rig.wait(&handles, &[0], false), "a wait for 0")?;
    granted(rig.queue_wait(queue.queue, &[(fence.handle, last + REACH)]), "a wait as far as it may be")?;
    granted(rig.signal(&handles, &[last + REACH]), "a signal as far as it may be")?;
    ensure_eq!(fence.value.load(), last + REACH, "value after the signal");
    Ok(())
}

fn loss(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 3)?;
    let mut queue = rig.kernel_queue(NODE_COPY)?;
    rig.kernel_submit(&mut queue, &[fill(0x7000_0000_0000, 4, 0)])?;
    wait_until("the signal for good", || fence.value.load() >= u64::from(u32::MAX))?;
    // Another device's interrupts have the system look at the fence.
    let other = case.rig()?;
    let (mut queue, watched) = (other.kernel_queue(NODE_COPY)?, private(&other, 0)?);
    for _ in 0..10 {
        let value = other.kernel_submit(&mut queue, &[])?;
        wait_until("another device's buffer", || queue.progress.load() >= value)?;
        granted(other.wait(&[watched.handle], &[0], false), "a look of the system")?;
        ensure_eq!(fence.value.load(), u64::MAX, "value of the lost device's fence");
    }
    Ok(())
}
