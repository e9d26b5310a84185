//! Fences that two adapters share: their one value and two monitored values, who may make them, and how they end.

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_NATIVEFENCE_TYPE;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use super::fence_cross_adapter::{Side, create, cross_flags, native_and_not, open, rigs, sides, two_native};
use super::fence_interrupts::Event;
use crate::kmt::{BAD_HANDLE, DEVICE_LOST};
use crate::rig::{KernelHandle, RawFence, Rig, copy, fill, shared_flags, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "CrossAdapterFence", behind "it needs two adapters of a kind";
    "CrossAdapterFence.IsOfTheDefaultTypeAndShared" on Boot::With(two_native), "native-gpu-fence-objects":
        "The creation of a fence for several adapters fails with another type, or unless it is shared by kernel handles."
        holds [NativeFence 74, NativeFence 77]
        => refused_creations;
    "CrossAdapterFence.OpensAsTheKindOfTheAdapter" needs NativeFence on Boot::With(native_and_not), "native-gpu-fence-objects":
        "A native fence opens as a monitored one where native fences are not supported, and the reverse, with one value."
        holds [NativeFence 74, NativeFence 77]
        => kinds;
    "CrossAdapterFence.OneAdapterFencesStayOnTheirs" needs NativeFence on Boot::With(two_native), "native-gpu-fence-objects":
        "A fence that was not created for several adapters is not opened on another one, nor as another kind."
        holds [NativeFence 74, NativeFence 77]
        => one_adapter;
    "CrossAdapterFence.MonitoredValueIsZeroForLife" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "Each adapter has a monitored value of its own, which is 0 whoever waits and whatever is signalled."
        holds [NativeFence 75, NativeFence 77]
        => monitored_is_zero;
    "CrossAdapterFence.EverySignalInterrupts" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "A signal of a GPU raises an interrupt of that GPU although no processor and no other GPU waits for it."
        holds [NativeFence 75, NativeFence 77]
        => every_signal_interrupts;
    "CrossAdapterFence.SameGpuNeedsNoProcessor" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "A wait and a signal on the same adapter meet on its GPU, whatever the other adapter does."
        holds [NativeFence 77]
        => same_gpu;
    "CrossAdapterFence.ClosesInEveryOrder" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "Instances on both adapters and the kernel handle are closed in any order, and what is left of them works."
        holds [NativeFence 77]
        => every_order;
    "CrossAdapterFence.OutlivesItsInstances" on Boot::With(native_and_not), "native-gpu-fence-objects":
        "A kernel handle keeps the value of a fence that is open on no adapter, and opens it on either again."
        holds [NativeFence 77]
        => outlives_instances;
    "CrossAdapterFence.RemovedAdapterLeavesTheOther" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "An adapter that is removed releases its own waits; those of the other go on until somebody signals there."
        holds [NativeFence 77]
        => removed_adapter;
    "CrossAdapterFence.FirstAdapterIsRemovedFromUnderTheOther" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "The adapter on which a fence was created can be removed while the other one uses it."
        holds [NativeFence 77]
        => removed_creator;
    "CrossAdapterFence.LostDeviceLeavesTheOther" on Boot::With(two_native), "native-gpu-fence-objects":
        "A device in error on one adapter neither changes the value nor satisfies the waits of the other adapter."
        holds [NativeFence 77]
        => lost_device;
    "CrossAdapterFence.ProcessesOnTwoAdapters" needs UserModeSubmission on Boot::With(native_and_not), "native-gpu-fence-objects":
        "A process on one adapter synchronises with another process on the other adapter, and its exit takes nothing away."
        holds [NativeFence 77]
        => two_processes;
    "CrossAdapterFence.ProcessorSignalsDoNotGoBack" on Boot::With(two_native), "d3dkmtsignalsynchronizationobjectfromcpu":
        "Of two processors that signal on two adapters the smaller value is refused if it is later, and the value never goes back."
        holds [NativeFence 77]
        => no_way_back;
    "CrossAdapterFence.DestroyedWhileTheOtherSignals" on Boot::With(two_native), "native-gpu-fence-objects":
        "A fence is closed on one adapter while the GPU of the other signals it, and nobody hears of a fence that is gone."
        holds [NativeFence 77]
        => destroyed_under_signals;
    "CrossAdapterFence.WaitsOfASteppedMachine" needs UserModeSubmission on Boot::With(stepped), "native-gpu-fence-objects":
        "A machine whose kernel moves the GPUs while it waits delivers the interrupts of the adapter that signals."
        holds [NativeFence 77]
        => stepped_machine;
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..two_native() }
}

fn must_refuse<T>(outcome: Result<T, NTSTATUS>, allowed: &[NTSTATUS], what: &str) -> Result<(), Failure> {
    match outcome {
        Ok(_) => Err(Failure::new(format!("{what} was granted"))),
        Err(status) => refused(status, allowed, what),
    }
}

fn refused_creations(case: &mut Case<'_>) -> Result<(), Failure> {
    type Type = D3DDDI_NATIVEFENCE_TYPE;
    let none = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new();
    let [rig, _] = rigs(case)?;
    let before = case.process.handle_count();
    for (kind, flags, what) in [
        (Type::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU, cross_flags(), "type INTRA_GPU"),
        (D3DDDI_NATIVEFENCE_TYPE(2), cross_flags(), "type 2"),
        (D3DDDI_NATIVEFENCE_TYPE(-1), cross_flags(), "type -1"),
        (Type::D3DDDI_NATIVEFENCE_TYPE_DEFAULT, none.with_CrossAdapter(true), "a fence that is not shared"),
        (
            Type::D3DDDI_NATIVEFENCE_TYPE_DEFAULT,
            none.with_CrossAdapter(true).with_Shared(true),
            "a fence that is shared without kernel handles",
        ),
        (
            Type::D3DDDI_NATIVEFENCE_TYPE_DEFAULT,
            none.with_CrossAdapter(true).with_NtSecuritySharing(true),
            "a fence with kernel handles that is not shared",
        ),
    ] {
        let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
        arguments.hDevice = rig.device;
        arguments.Info.EngineAffinity = 1;
        (arguments.Info.Type, arguments.Info.Flags) = (kind, flags);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateNativeFence, &mut arguments);
        refused(status, &[STATUS_INVALID_PARAMETER], what)?;
    }
    for flags in [none.with_CrossAdapter(true), none.with_CrossAdapter(true).with_Shared(true)] {
        let kind = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
        let outcome = rig.create_sync_object(kind, 0, flags);
        must_refuse(outcome, &[STATUS_INVALID_PARAMETER], "a monitored fence that is not shared")?;
    }
    ensure_eq!(case.process.handle_count(), before, "handles after refusals");
    create(&rig, 0).map(drop)
}

fn kinds(case: &mut Case<'_>) -> Result<(), Failure> {
    for creator in [0, 1] {
        let ([native, other], handle) = sides(case, creator, 7)?;
        ensure!(native.fence.monitored != 0, "the native side has no monitored value");
        ensure_eq!((native.fence.value.load(), other.fence.value.load()), (7, 7), "values at first");
        ensure!(!other.fence.value.is_writable()?, "user mode can write the value of the monitored side");
        // As a native fence it opens there too, and is a monitored one.
        let again = other.rig.open_fence(handle)?;
        ensure_eq!(again.monitored, 0, "address of a monitored value on an adapter without native fences");
        granted(other.rig.signal(&[again.handle], &[8]), "a signal through it")?;
        ensure_eq!((native.fence.value.load(), other.fence.value.load()), (8, 8), "values after the signal");
        // And as a monitored one on the adapter that has both kinds.
        let monitored = native.rig.open_monitored(handle)?;
        granted(native.rig.signal(&[monitored.handle], &[9]), "a signal through the monitored one")?;
        granted(native.rig.wait(&[native.fence.handle], &[9], false), "a wait through the native one")?;
    }
    let [_, other] = rigs(case)?;
    match other.create_flagged(0, cross_flags()) {
        Ok(_) => Err(Failure::new("a native fence was created where they are not supported")),
        Err(status) => refused(status, &[STATUS_NOT_SUPPORTED], "a native fence where they are not supported"),
    }
}

fn one_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    let [first, second] = rigs(case)?;
    let share = |rig: &Rig, fence: RawFence| {
        rig.share(&[fence.handle]).map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))
    };
    let native = share(&first, first.shared_fence(1)?)?;
    let monitored = share(&first, first.monitored_fence(1, shared_flags())?)?;
    must_refuse(second.try_open(native), &[STATUS_INVALID_PARAMETER], "a native fence of the other adapter")?;
    must_refuse(second.try_open_monitored(monitored), &[STATUS_INVALID_PARAMETER], "a monitored fence of the other")?;
    must_refuse(first.try_open_monitored(native), &[STATUS_INVALID_PARAMETER], "a native fence as a monitored one")?;
    must_refuse(first.try_open(monitored), &[STATUS_INVALID_PARAMETER], "a monitored fence as a native one")?;
    must_refuse(first.try_open_flagged(native, cross_flags()), &[STATUS_INVALID_PARAMETER], "as one of several")?;
    first.open_fence(native)?;
    first.open_monitored(monitored)?;
    // Handles of one adapter mean nothing to a device of the other.
    let fence = create(&first, 0)?;
    refused(second.signal(&[fence.handle], &[1]), &[STATUS_INVALID_PARAMETER], "a signal on the wrong adapter")?;
    refused(second.wait(&[fence.handle], &[0], false), &[STATUS_INVALID_PARAMETER], "a wait on the wrong adapter")?;
    ensure_eq!(fence.value.load(), 0, "value after refusals");
    Ok(())
}

/// Reads the monitored value of a side by its GPU.
fn monitored(side: &Side) -> Result<u64, Failure> {
    let mut queue = side.rig.queue(NODE_COPY)?;
    let memory = side.rig.memory(4096, Placement::System)?;
    let view = side.rig.view(memory)?;
    view.fill(0x5a);
    side.rig.execute(&mut queue, &[copy(memory.address, side.fence.monitored, 8)])?;
    let bytes = view.read(0, 8);
    Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn monitored_is_zero(case: &mut Case<'_>) -> Result<(), Failure> {
    let ([first, second], _) = sides(case, 0, 5)?;
    let check = |when: &str| {
        for side in [&first, &second] {
            ensure_eq!(monitored(side)?, 0, "monitored value {when}");
        }
        Ok(())
    };
    check("after creation")?;
    let event = Event::new()?;
    for side in [&first, &second] {
        let status = side.rig.wait_with_event(&[side.fence.handle], &[40], false, Some(event.number()));
        granted(status, "wait with an event")?;
    }
    check("while processors wait")?;
    let mut queue = second.rig.queue(NODE_COMPUTE)?;
    second.rig.execute(&mut queue, &[second.fence.signal(41)])?;
    event.wait()?;
    check("after a signal of the GPU")?;
    granted(first.rig.signal(&[first.fence.handle], &[50]), "signal of the processor")?;
    check("after a signal of the processor")?;
    granted(second.rig.destroy_fence(second.fence.handle), "destroying one side")?;
    ensure_eq!(monitored(&first)?, 0, "monitored value after the other side is gone");
    Ok(())
}

/// Reports of signalled native fences that the driver made on the adapter with this place.
fn reports(case: &Case<'_>, place: usize) -> u64 {
    const NATIVE_FENCE_SIGNALED: usize = 19;
    let luid = case.system.adapters().get(place).map(|adapter| adapter.luid());
    let counters = luid.and_then(|luid| case.system.machine().counters(luid));
    counters.map_or(0, |counters| counters.notifications[NATIVE_FENCE_SIGNALED])
}

fn every_signal_interrupts(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIGNALS: u64 = 100;
    let ([first, second], _) = sides(case, 0, 0)?;
    for (place, side) in [(0, &first), (1, &second)] {
        let mut queue = side.rig.queue(NODE_COMPUTE)?;
        let (before, base) = (reports(case, place), side.fence.value.load());
        for value in base + 1..=base + SIGNALS {
            let so_far = reports(case, place);
            side.rig.execute(&mut queue, &[side.fence.signal(value)])?;
            wait_until("the report of the signal", || reports(case, place) > so_far)?;
        }
        let reported = reports(case, place) - before;
        ensure!(reported >= SIGNALS, "{reported} reports of {SIGNALS} signals, each of which was waited for");
        // Interrupts of signals in a row may be one.
        let so_far = reports(case, place);
        let signals: Vec<_> = (1..=8).map(|value| side.fence.signal(base + SIGNALS + value)).collect();
        side.rig.execute(&mut queue, &signals)?;
        wait_until("a report of signals in a row", || reports(case, place) > so_far)?;
    }
    Ok(())
}

fn same_gpu(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 60;
    let ([first, second], _) = sides(case, 1, 0)?;
    for side in [&first, &second] {
        let base = side.fence.value.load();
        let (mut one, mut two) = (side.rig.queue(NODE_COMPUTE)?, side.rig.queue(NODE_COPY)?);
        for turn in 0..TURNS {
            let value = base + 2 * turn;
            side.rig.submit(&mut one, &[side.fence.wait(value), side.fence.signal(value + 1)])?;
            side.rig.submit(&mut two, &[side.fence.wait(value + 1), side.fence.signal(value + 2)])?;
        }
        wait_until("the last turn", || side.fence.value.load() == base + 2 * TURNS)?;
    }
    Ok(())
}

/// A signal and a wait on each side that still has the fence, by GPU and processor.
fn works(left: &[&Side], value: &mut u64) -> Result<(), Failure> {
    for signals in left {
        let mut queue = signals.rig.queue(NODE_COMPUTE)?;
        *value += 1;
        signals.rig.execute(&mut queue, &[signals.fence.signal(*value)])?;
        for waits in left {
            granted(waits.rig.wait(&[waits.fence.handle], &[*value], false), "the wait for the GPU")?;
        }
        *value += 1;
        granted(signals.rig.signal(&[signals.fence.handle], &[*value]), "the signal of the processor")?;
        for waits in left {
            let mut queue = waits.rig.queue(NODE_COPY)?;
            waits.rig.execute(&mut queue, &[waits.fence.wait(*value)])?;
        }
    }
    Ok(())
}

fn every_order(case: &mut Case<'_>) -> Result<(), Failure> {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for creator in [0, 1] {
            let (sides, handle) = sides(case, creator, 0)?;
            let (mut open, mut value) = (vec![0, 1], 0);
            for part in order {
                match sides.get(part) {
                    Some(side) => granted(side.rig.destroy_fence(side.fence.handle), "destroying an instance")?,
                    None => granted(handle.close(), "closing the kernel handle")?,
                }
                open.retain(|other| *other != part);
                let left: Vec<&Side> = open.iter().filter_map(|place| sides.get(*place)).collect();
                let outcome = works(&left, &mut value);
                outcome.map_err(|failure| Failure::new(format!("order {order:?}, after part {part}: {failure}")))?;
            }
            refused(handle.close(), BAD_HANDLE, "closing the handle again")?;
            for side in &sides {
                refused(side.rig.destroy_fence(side.fence.handle), BAD_HANDLE, "destroying it again")?;
                granted(side.rig.destroy(), "destroying the device")?;
            }
        }
    }
    Ok(())
}

fn outlives_instances(case: &mut Case<'_>) -> Result<(), Failure> {
    for creator in [0, 1] {
        let ([first, second], handle) = sides(case, creator, 1)?;
        granted(second.rig.signal(&[second.fence.handle], &[31]), "signal")?;
        granted(first.rig.destroy_fence(first.fence.handle), "destroying one instance")?;
        granted(second.rig.destroy_fence(second.fence.handle), "destroying the other")?;
        for rig in [&first.rig, &second.rig] {
            let again = open(rig, handle)?;
            ensure_eq!(again.value.load(), 31, "value after nobody had it open");
            granted(rig.destroy_fence(again.handle), "destroying it again")?;
        }
        granted(handle.close(), "closing the kernel handle")?;
        must_refuse(first.rig.try_open(handle), BAD_HANDLE, "opening by a closed handle")?;
    }
    Ok(())
}

fn removed_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    removal(case, 0, 1)
}

fn removed_creator(case: &mut Case<'_>) -> Result<(), Failure> {
    removal(case, 1, 1)
}

/// Removes the adapter at `gone` while both adapters wait for a fence created at `creator`; then starts it again.
fn removal(case: &mut Case<'_>, creator: usize, gone: usize) -> Result<(), Failure> {
    let ([stays, goes], handle) = sides(case, creator, 0)?;
    let (here, there) = (Event::new()?, Event::new()?);
    let status = stays.rig.wait_with_event(&[stays.fence.handle], &[5], false, Some(here.number()));
    granted(status, "the wait that goes on")?;
    let status = goes.rig.wait_with_event(&[goes.fence.handle], &[5], false, Some(there.number()));
    granted(status, "the wait that is released")?;
    let mut queue = stays.rig.queue(NODE_COMPUTE)?;
    let held = stays.rig.submit(&mut queue, &[stays.fence.wait(5)])?;
    case.system.remove_adapter(gone)?;
    there.wait()?;
    ensure!(!here.is_set()?, "the wait of the other adapter was released");
    ensure_eq!(stays.fence.value.load(), 0, "value after the adapter was removed");
    ensure!(queue.progress.load() < held, "the queue of the other adapter was released");
    refused(goes.rig.signal(&[goes.fence.handle], &[5]), DEVICE_LOST, "a signal on the removed adapter")?;
    granted(stays.rig.signal(&[stays.fence.handle], &[5]), "a signal on the other")?;
    here.wait()?;
    wait_until("the queue of the other adapter", || queue.progress.load() >= held)?;
    granted(goes.rig.destroy_fence(goes.fence.handle), "destroying the instance of the removed adapter")?;
    case.system.start()?;
    let luid = case.system.adapters().get(gone).map(|adapter| adapter.luid());
    let again = Rig::open(luid.ok_or_else(|| Failure::new("the adapter is gone for good"))?)?;
    let fence = open(&again, handle)?;
    ensure_eq!(fence.value.load(), 5, "value on the adapter that came back");
    works(&[&stays, &Side { rig: again, fence }], &mut 5)
}

fn lost_device(case: &mut Case<'_>) -> Result<(), Failure> {
    let ([first, second], handle) = sides(case, 0, 3)?;
    let event = Event::new()?;
    let status = first.rig.wait_with_event(&[first.fence.handle], &[9], false, Some(event.number()));
    granted(status, "wait with an event")?;
    let mut queue = second.rig.queue(NODE_COMPUTE)?;
    second.rig.submit_doomed(&mut queue, &[fill(0x7000_0000_0000, 4, 0), second.fence.signal(9)])?;
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    wait_until("the fault", || second.rig.kmt.execution_state(second.rig.device).is_ok_and(|now| now != active))?;
    refused(second.rig.signal(&[second.fence.handle], &[9]), DEVICE_LOST, "a signal on the device in error")?;
    granted(second.rig.destroy(), "destroying the device in error")?;
    ensure_eq!(first.fence.value.load(), 3, "value after the other device is lost");
    ensure!(!event.is_set()?, "the wait was satisfied by the fault");
    let [_, again] = rigs(case)?;
    let fence = open(&again, handle)?;
    let mut queue = again.queue(NODE_COMPUTE)?;
    again.execute(&mut queue, &[fence.wait(3), fence.signal(9)])?;
    event.wait()
}

fn two_processes(case: &mut Case<'_>) -> Result<(), Failure> {
    let [native, _] = rigs(case)?;
    let mine = create(&native, 0)?;
    let handle = native.share(&[mine.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let mut queue = native.queue(NODE_COMPUTE)?;
    for round in 0..3 {
        let base = 10 * round;
        let held = native.submit(&mut queue, &[mine.wait(base + 2), mine.signal(base + 3)])?;
        let other = dxgkrnl::Process::new(case.system.machine(), "beside");
        let theirs = case.process.duplicate_handle(handle.raw(), &other);
        let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
        let theirs = KernelHandle(theirs.addr());
        let outcome = on_thread(&other, || {
            let [_, rig] = rigs(case)?;
            let fence = open(&rig, theirs)?;
            ensure!(fence.value.address() != mine.value.address(), "both processes have the value at one address");
            let kernel = rig.kernel_queue(NODE_COMPUTE)?;
            let signal = [(fence.handle, base + 2)];
            granted(rig.queue_signal(&[kernel.queue], &signal, D3DDDICB_SIGNALFLAGS::new()), "the queue's signal")?;
            granted(rig.wait(&[fence.handle], &[base + 3], false), "the other's wait")?;
            // Left behind by the exit.
            let event = Event::new()?;
            let status = rig.wait_with_event(&[fence.handle], &[1000], false, Some(event.number()));
            granted(status, "a wait that nobody ends")
        });
        other.exit();
        outcome?;
        ensure!(queue.progress.load() >= held, "the queue did not get there");
        ensure_eq!(mine.value.load(), base + 3, "value after the other process exited");
    }
    Ok(())
}

fn no_way_back(case: &mut Case<'_>) -> Result<(), Failure> {
    const LAST: u64 = 2000;
    let ([first, second], _) = sides(case, 0, 0)?;
    let attempt = |side: &Side, step: u64| {
        on_thread(&case.process, || {
            let mut granted = 0;
            let mut seen = 0;
            for value in (step..=LAST).step_by(2) {
                match side.rig.signal(&[side.fence.handle], &[value]) {
                    status if status.is_success() => granted += 1,
                    status => refused(status, &[STATUS_INVALID_PARAMETER], "a signal that is late")?,
                }
                let now = side.fence.value.load();
                ensure!(now >= seen && now >= value, "the value went from {seen} to {now} around a signal of {value}");
                seen = now;
            }
            Ok(granted)
        })
    };
    let total: u64 = std::thread::scope(|scope| {
        let other = scope.spawn(|| attempt(&second, 2));
        let mine = attempt(&first, 1)?;
        let theirs = other.join().map_err(|_| Failure::new("the other side panicked"))??;
        Ok::<u64, Failure>(mine + theirs)
    })?;
    ensure!(total >= LAST / 2, "only {total} signals of {LAST} were granted");
    ensure_eq!((first.fence.value.load(), second.fence.value.load()), (LAST, LAST), "values at the end");
    Ok(())
}

fn destroyed_under_signals(case: &mut Case<'_>) -> Result<(), Failure> {
    let [first, second] = rigs(case)?;
    let mut queue = second.queue(NODE_COMPUTE)?;
    for round in 0..60 {
        let made = create(&first, 0)?;
        let handle = first.share(&[made.handle]);
        let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
        let theirs = open(&second, handle)?;
        granted(handle.close(), "closing the kernel handle")?;
        let event = Event::new()?;
        granted(first.wait_with_event(&[made.handle], &[2], false, Some(event.number())), "wait with an event")?;
        let value = second.submit(&mut queue, &[theirs.signal(1), theirs.signal(2), theirs.signal(3)])?;
        if round % 2 == 0 {
            granted(first.destroy_fence(made.handle), "destroying the side that waits")?;
            event.wait()?;
        }
        // The GPU has written its values, and its interrupts may still be on their way.
        wait_until("the signals", || queue.progress.load() >= value)?;
        granted(second.destroy_fence(theirs.handle), "destroying the side that signals")?;
        if round % 2 != 0 {
            event.wait()?;
            granted(first.destroy_fence(made.handle), "destroying the side that waits")?;
        }
    }
    ensure!(case.system.machine().bugcheck().is_none(), "a report named a destroyed fence");
    Ok(())
}

fn stepped_machine(case: &mut Case<'_>) -> Result<(), Failure> {
    let ([first, second], _) = sides(case, 0, 0)?;
    let mut queues = [first.rig.queue(NODE_COMPUTE)?, second.rig.queue(NODE_COMPUTE)?];
    let [one, two] = &mut queues;
    for round in 0..20 {
        let value = 3 * round;
        first.rig.submit(one, &[first.fence.wait(value + 1), first.fence.signal(value + 2)])?;
        second.rig.submit(two, &[second.fence.wait(value), second.fence.signal(value + 1)])?;
        granted(second.rig.wait(&[second.fence.handle], &[value + 2], false), "the wait on the second adapter")?;
        granted(second.rig.signal(&[second.fence.handle], &[value + 3]), "the signal on the second adapter")?;
        granted(first.rig.wait(&[first.fence.handle], &[value + 3], false), "the wait on the first adapter")?;
    }
    Ok(())
}
