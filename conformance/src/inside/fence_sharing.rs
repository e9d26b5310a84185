//! Native fences that processes share.

use crate::cases::fence_sharing::{is_lost, shared};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::kmt::{BAD_HANDLE, DEVICE_LOST};
use crate::rig::{KernelHandle, RawFence, Rig, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};

cases! { inside "SharedFence", behind "it is several processes at a time";
    "SharedFence.HasItsOwnAddressesInEachProcess" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A process that opens a shared fence has addresses of its own for the one value, and writes it by none of the processor's."
        holds [NativeFence 35]
        => own_addresses;
    "SharedFence.SignalOfOneProcessWakesTheOther" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A processor of one process that waits for a shared fence wakes when the GPU, or the processor, of another signals it."
        holds [NativeFence 38]
        => wakes_other_process;
    "SharedFence.QueuesOfTwoProcessesAlternate" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Queues of two processes synchronise by a shared fence on the GPU, and no processor takes part."
        holds [NativeFence 38]
        => queues_alternate;
    "SharedFence.CpuSignalReleasesQueueOfOtherProcess" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A queue of one process that waits on the GPU runs on when the processor of another process signals the shared fence."
        holds [NativeFence 38]
        => cpu_signal_releases_queue;
    "SharedFence.OutlivesItsCreator" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A shared fence that its creator has destroyed works on in the process that opened it, and the reverse."
        holds [NativeFence 36]
        => outlives_creator;
    "SharedFence.ExitOfOneProcessLeavesTheOther" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A process that exits, even with waits and work on a shared fence, takes nothing from the others that have it open."
        holds [NativeFence 39]
        => exit_leaves_other;
    "SharedFence.FaultOfOneProcessLeavesTheOther" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A device in error neither satisfies the waits of another process on a shared fence nor changes its value."
        holds [NativeFence 39]
        => fault_leaves_other;
    "SharedFence.ClosesLateAfterTheAdapterStopped" needs NativeFence on Boot::Fresh, "native-gpu-fence-objects":
        "Handles of a shared fence are closed without an error after the adapter was stopped and removed."
        holds [NativeFence 40]
        => closes_late;
    "SharedFence.BadKernelHandlesAreRefused" needs NativeFence on Boot::Shared, "d3dkmtopennativefencefromnthandle":
        "A kernel handle that is closed, or that is another process's, or none, opens nothing."
        holds [NativeFence 41]
        => bad_kernel_handles;
    "SharedFence.ClosedFenceHasNoAddress" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "The addresses of a shared fence that a process has closed mean nothing there: a queue of it that still waits or signals by them faults, and whoever has the fence open goes on."
        holds [NativeFence 18]
        => closed_address;
}

/// Gives the process of a thread that is to run `work` a handle of what `handle` stands for, and runs it there.
fn beside<T: Send>(
    case: &Case<'_>,
    handle: KernelHandle,
    work: impl FnOnce(&Rig, RawFence) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let process = dxgkrnl::Process::new(case.system.machine(), "beside");
    let luid = case.system.luid();
    let theirs = case.process.duplicate_handle(handle.raw(), &process).map(|handle| KernelHandle(handle.addr()));
    let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
    let outcome = on_thread(&process, || {
        let rig = Rig::open(luid)?;
        let fence = rig.open_fence(theirs)?;
        work(&rig, fence)
    });
    process.exit();
    outcome
}

fn own_addresses(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 77)?;
    beside(case, handle, |other, theirs| {
        ensure_eq!(theirs.value.load(), 77, "value that the other process reads");
        ensure!(theirs.value.address() != mine.value.address(), "both processes have the value at one address");
        ensure!(!theirs.value.is_writable()?, "the other process can write the value");
        let mut queue = other.queue(NODE_COMPUTE)?;
        other.execute(&mut queue, &[theirs.wait(77), theirs.signal(78)])
    })?;
    ensure_eq!(mine.value.load(), 78, "value after the other process signalled");
    granted(handle.close(), "closing the kernel handle")?;
    granted(rig.destroy_fence(mine.handle), "destroying the fence")
}

fn wakes_other_process(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 0)?;
    beside(case, handle, |other, theirs| {
        let mut queue = other.queue(NODE_COMPUTE)?;
        for round in 0..50 {
            let value = 4 * round;
            std::thread::scope(|scope| {
                let waiter =
                    scope.spawn(|| on_thread(&case.process, || Ok(rig.wait(&[mine.handle], &[value + 1], false))));
                other.submit(&mut queue, &[theirs.signal(value + 1)])?;
                let woken = waiter.join().map_err(|_| Failure::new("the waiter panicked"))??;
                granted(woken, "the wait for the other's GPU")
            })?;
            granted(other.signal(&[theirs.handle], &[value + 2]), "signal of the other processor")?;
            on_thread(&case.process, || {
                granted(rig.wait(&[mine.handle], &[value + 2], false), "the wait for the other's processor")?;
                granted(rig.signal(&[mine.handle], &[value + 4]), "signal of this processor")
            })?;
            granted(other.wait(&[theirs.handle], &[value + 3], false), "the other's wait")?;
        }
        Ok(())
    })
}

fn queues_alternate(case: &mut Case<'_>) -> Result<(), Failure> {
    // Half a ring, so that this side can be queued as a whole.
    const TURNS: u64 = 60;
    let (rig, mine, handle) = shared(case, 0)?;
    let mut queue = rig.queue(NODE_COPY)?;
    for turn in 0..TURNS {
        rig.submit(&mut queue, &[mine.wait(2 * turn + 1), mine.signal(2 * turn + 2)])?;
    }
    beside(case, handle, |other, theirs| {
        let mut their_queue = other.queue(NODE_COMPUTE)?;
        for turn in 0..TURNS {
            other.submit(&mut their_queue, &[theirs.wait(2 * turn), theirs.signal(2 * turn + 1)])?;
        }
        wait_until("the last turn", || theirs.value.load() == 2 * TURNS)
    })
}

fn cpu_signal_releases_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 0)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let held = rig.submit(&mut queue, &[mine.wait(5)])?;
    beside(case, handle, |other, theirs| granted(other.signal(&[theirs.handle], &[5]), "signal of the other process"))?;
    wait_until("the release of the queue", || queue.progress.load() >= held)
}

fn outlives_creator(case: &mut Case<'_>) -> Result<(), Failure> {
    for creator_first in [true, false] {
        let (rig, mine, handle) = shared(case, 1)?;
        let process = std::sync::Arc::clone(&case.process);
        beside(case, handle, |other, theirs| {
            on_thread(&process, || granted(handle.close(), "closing the kernel handle"))?;
            if !creator_first {
                return granted(other.destroy_fence(theirs.handle), "destroying the other's instance");
            }
            on_thread(&process, || granted(rig.destroy_fence(mine.handle), "destroying the creator's instance"))?;
            let mut queue = other.queue(NODE_COMPUTE)?;
            other.execute(&mut queue, &[theirs.wait(1), theirs.signal(2)])?;
            granted(other.wait(&[theirs.handle], &[2], false), "the wait of the one that is left")
        })?;
        if !creator_first {
            let mut queue = rig.queue(NODE_COMPUTE)?;
            rig.execute(&mut queue, &[mine.wait(1), mine.signal(2)])?;
            ensure_eq!(mine.value.load(), 2, "value that the creator reads");
        }
    }
    Ok(())
}

fn exit_leaves_other(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 0)?;
    beside(case, handle, |other, theirs| {
        let mut queue = other.queue(NODE_COMPUTE)?;
        other.submit(&mut queue, &[theirs.wait(100), theirs.signal(101)])?;
        let event = super::fence_interrupts::Event::new()?;
        granted(other.wait_with_event(&[theirs.handle], &[50], false, Some(event.number())), "wait with an event")
    })?;
    ensure_eq!(mine.value.load(), 0, "value after the other process exited");
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[mine.signal(100)])?;
    granted(rig.wait(&[mine.handle], &[100], false), "the wait after the other process exited")?;
    ensure_eq!(mine.value.load(), 100, "value that only this process signalled");
    Ok(())
}

fn fault_leaves_other(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 3)?;
    let event = super::fence_interrupts::Event::new()?;
    granted(rig.wait_with_event(&[mine.handle], &[9], false, Some(event.number())), "wait with an event")?;
    beside(case, handle, |other, theirs| {
        let mut queue = other.queue(NODE_COMPUTE)?;
        other.submit_doomed(&mut queue, &[fill(0x7000_0000_0000, 4, 0), theirs.signal(9)])?;
        wait_until("the fault", || is_lost(other))?;
        refused(other.signal(&[theirs.handle], &[9]), DEVICE_LOST, "a signal on a device in error")
    })?;
    ensure_eq!(mine.value.load(), 3, "value after the other's fault");
    ensure!(!event.is_set()?, "the wait was satisfied by the other's fault");
    granted(rig.signal(&[mine.handle], &[9]), "signal of this process")?;
    ensure!(event.is_set()?, "the wait is not satisfied by the signal");
    Ok(())
}

fn closes_late(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 0)?;
    let again = rig.open_fence(handle)?;
    case.system.stop()?;
    granted(rig.destroy_fence(again.handle), "destroying an instance after the adapter stopped")?;
    case.system.remove()?;
    granted(rig.destroy_fence(mine.handle), "destroying an instance after the adapter was removed")?;
    granted(handle.close(), "closing the kernel handle after the adapter was removed")?;
    refused(rig.destroy_fence(mine.handle), BAD_HANDLE, "destroying it twice")
}

fn bad_kernel_handles(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, _, handle) = shared(case, 0)?;
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        match other.try_open(handle) {
            Ok(_) => Err(Failure::new("a handle means the same in another process")),
            Err(status) => refused(status, BAD_HANDLE, "opening by a foreign handle"),
        }
    })?;
    for stranger in [0, 1, 2, 3, handle.0 + 1, handle.0 + 4096, usize::MAX, usize::MAX - 3] {
        match rig.try_open(KernelHandle(stranger)) {
            Ok(_) => return Err(Failure::new(format!("{stranger:#x} opens a fence"))),
            Err(status) => refused(status, BAD_HANDLE, "opening by a number that is no handle")?,
        }
        refused(KernelHandle(stranger).close(), BAD_HANDLE, "closing a number that is no handle")?;
    }
    granted(handle.close(), "closing the handle")?;
    refused(handle.close(), BAD_HANDLE, "closing it twice")
}

fn closed_address(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 0)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for (value, signals) in [(1, true), (2, false)] {
        beside(case, handle, |other, theirs| {
            let mut queue = other.queue(NODE_COPY)?;
            other.execute(&mut queue, &[theirs.wait(0)])?;
            granted(other.destroy_fence(theirs.handle), "closing the other's instance")?;
            let stale = if signals { theirs.signal(100) } else { theirs.wait(0) };
            other.submit_doomed(&mut queue, &[stale])?;
            wait_until("the fault of the queue that names a closed fence", || is_lost(other))?;
            queue.stands_at(1, "a packet that names a closed fence")
        })?;
        ensure_eq!(mine.value.load(), value - 1, "value after the other's fault");
        rig.execute(&mut queue, &[mine.signal(value)])?;
        ensure_eq!(mine.value.load(), value, "value that this process signalled");
    }
    Ok(())
}
