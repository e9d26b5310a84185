//! Native fences that two processes share: what the driver is asked, and in which order. [native-gpu-fence-objects: global and
//! local handles of shared fences]

use std::sync::atomic::Ordering;

use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, Report};
use dxgkrnl::MachineConfig;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

fn shared() -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true).with_NtSecuritySharing(true)
}

/// A fence of `a`, open in `b` too; with its kernel handles in both.
fn share(a: &App, b: &App) -> (D3DKMT_CREATENATIVEFENCE, D3DKMT_OPENNATIVEFENCEFROMNTHANDLE, [HANDLE; 2]) {
    let made = a.try_shared(shared()).unwrap();
    let mine = a.share(made.hSyncObject).unwrap();
    let theirs = a.process.duplicate_handle(mine, &b.process).unwrap();
    (made, b.open(theirs).unwrap(), [mine, theirs])
}

#[test]
fn creation_opens_in_the_creator_and_each_further_process_only_opens() {
    let bench = bench();
    let (a, b) = (App::new(&bench), App::new(&bench));
    bench.world.take_calls();
    let (made, opened, _) = share(&a, &b);
    assert_eq!(bench.world.take_calls(), ["CreateNativeFence", "OpenNativeFence", "OpenNativeFence"]);
    assert_eq!(made.PrivateDriverData, [13; 64], "through creation and opening");
    assert_eq!(opened.PrivateDriverData, [42; 64], "through opening alone");
    let (mine, theirs) = (made.Info.NativeFenceMapping, opened.NativeFenceMapping);
    assert_ne!(mine.CurrentValueCpuVa, theirs.CurrentValueCpuVa);
    as_gpu(mine.CurrentValueCpuVa).store(7, Ordering::SeqCst);
    assert_eq!(word(theirs.CurrentValueCpuVa).load(Ordering::SeqCst), 7, "one value");
    assert!(!is_writable(theirs.CurrentValueCpuVa));
    bench.end();
}

/// Each has a file of its own, of which the host opens no more than it allows.
#[test]
fn a_process_makes_as_many_fences_to_share_as_it_may_and_one_more_when_one_is_gone() {
    const MOST: usize = 1024;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives on the stack and is written.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the structure lives on the stack and is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let bench = bench();
    let (a, b) = (App::new(&bench), App::new(&bench));
    let mut made: Vec<_> = (0..MOST).map(|_| a.try_shared(shared()).unwrap().hSyncObject).collect();
    let refused = a.try_shared(shared()).err();
    assert_eq!(refused, Some(STATUS_INSUFFICIENT_RESOURCES));
    assert!(a.try_fence(0).is_ok(), "one that is not shared takes none");
    assert!(b.try_shared(shared()).is_ok(), "another process has its own");
    a.destroy_fence(made.pop().unwrap()).unwrap();
    assert!(a.try_shared(shared()).is_ok());
    assert_eq!(a.try_shared(shared()).err(), refused);
    bench.end();
}

#[test]
fn whoever_goes_first_is_closed_and_the_last_one_destroys() {
    for creator_first in [true, false] {
        let bench = bench();
        let (a, b) = (App::new(&bench), App::new(&bench));
        let (made, opened, [mine, theirs]) = share(&a, &b);
        a.close(mine).unwrap();
        b.close(theirs).unwrap();
        bench.world.take_calls();
        let locals = bench.world.locals.lock().unwrap().clone();
        let [(global, local_a), (global_b, local_b)] = locals[..] else { panic!("{locals:x?} were opened") };
        assert_eq!(global, global_b, "both of one fence");
        let order = [(&a, made.hSyncObject, local_a), (&b, opened.hSyncObject, local_b)];
        let (first, last) = if creator_first { (order[0], order[1]) } else { (order[1], order[0]) };
        first.0.destroy_fence(first.1).unwrap();
        assert_eq!(bench.world.take_calls(), ["CloseNativeFence"], "the global fence still exists");
        assert_eq!(*bench.world.closed.lock().unwrap(), [first.2], "its own handle");
        assert_eq!(first.0.destroy_fence(first.1), Err(STATUS_INVALID_HANDLE));
        last.0.signal(last.1, 5, D3DDDICB_SIGNALFLAGS::new()).unwrap();
        last.0.destroy_fence(last.1).unwrap();
        assert_eq!(bench.world.take_calls(), ["CloseNativeFence", "DestroyNativeFence"]);
        assert_eq!(*bench.world.closed.lock().unwrap(), [first.2, last.2]);
        assert_eq!(*bench.world.destroyed.lock().unwrap(), [global]);
        bench.end();
    }
}

#[test]
fn a_kernel_handle_keeps_the_fence_and_the_last_one_destroys_it() {
    let bench = bench();
    let (a, b) = (App::new(&bench), App::new(&bench));
    let (made, opened, [mine, theirs]) = share(&a, &b);
    a.destroy_fence(made.hSyncObject).unwrap();
    b.destroy_fence(opened.hSyncObject).unwrap();
    b.close(theirs).unwrap();
    let again = a.open(mine).unwrap();
    a.destroy_fence(again.hSyncObject).unwrap();
    bench.world.take_calls();
    a.close(mine).unwrap();
    assert_eq!(bench.world.take_calls(), ["DestroyNativeFence"]);
    assert_eq!(a.close(mine), Err(STATUS_INVALID_HANDLE));
    assert_eq!(a.open(mine).err(), Some(STATUS_INVALID_HANDLE));
    bench.end();
}

#[test]
fn a_process_that_exits_closes_its_handles_and_releases_only_its_waiters() {
    let bench = bench();
    let (a, b) = (App::new(&bench), App::new(&bench));
    let (made, opened, [mine, _]) = share(&a, &b);
    a.close(mine).unwrap();
    let system = bench.world.last_created();
    let (in_a, in_b) = (event(), event());
    a.wait(&[(made.hSyncObject, 3)], false, Some(&in_a)).unwrap();
    b.wait(&[(opened.hSyncObject, 2)], false, Some(&in_b)).unwrap();
    assert_eq!(bench.world.monitored(system), 1);
    b.process.exit();
    assert_eq!(b.process.kernel_handle_count(), 0);
    assert!(is_signaled(&in_b), "its wait ends with it");
    assert!(!is_signaled(&in_a));
    assert_eq!(bench.world.monitored(system), 2, "the other's wait counts again");
    bench.world.signal(&bench.bus, system, as_gpu(made.Info.NativeFenceMapping.CurrentValueCpuVa), 3);
    eventually("the other process is woken", || is_signaled(&in_a));
    bench.world.take_calls();
    a.destroy_fence(made.hSyncObject).unwrap();
    assert_eq!(bench.world.take_calls(), ["CloseNativeFence", "DestroyNativeFence"]);
    bench.end();
}

/// The values of a process that ends become all ones, unless another one has them: also where all values lie in one file.
#[test]
fn a_process_that_exits_leaves_the_values_of_others_as_they_are_in_whatever_files() {
    for isolated_memory in [true, false] {
        let bench = bench_with(DRIVER, MachineConfig { isolated_memory, ..MachineConfig::default() });
        let (a, b) = (App::new(&bench), App::new(&bench));
        let shared = share(&a, &b).1;
        let (own, other) = (b.try_fence(5).unwrap(), a.try_fence(7).unwrap());
        let values = [shared.NativeFenceMapping, own.Info.NativeFenceMapping].map(|mapping| mapping.CurrentValueCpuVa);
        as_gpu(values[0]).store(3, Ordering::SeqCst);
        let queue = a.queue(&bench);
        bench.world.report(&bench.bus, Report::Fault { queue: queue.system, address: 0xdead_0000 });
        let of_lost = word(other.Info.NativeFenceMapping.CurrentValueCpuVa);
        eventually("the values of a lost device are all ones", || of_lost.load(Ordering::SeqCst) == u64::MAX);
        a.process.exit();
        assert_eq!(values.map(|value| word(value).load(Ordering::SeqCst)), [3, 5], "isolated: {isolated_memory}");
        // Whoever gets the memory of the process that has ended has it alone.
        let later = b.try_fence(9).unwrap();
        assert_eq!(word(later.Info.NativeFenceMapping.CurrentValueCpuVa).load(Ordering::SeqCst), 9);
        assert_eq!(values.map(|value| word(value).load(Ordering::SeqCst)), [3, 5], "isolated: {isolated_memory}");
        bench.end();
    }
}

#[test]
fn a_device_in_error_does_not_satisfy_the_waits_of_another_process() {
    let bench = bench();
    let (a, b) = (App::new(&bench), App::new(&bench));
    let (made, opened, _) = share(&a, &b);
    let queue = b.queue(&bench);
    let waits = event();
    a.wait(&[(made.hSyncObject, 9)], false, Some(&waits)).unwrap();
    b.wait(&[(opened.hSyncObject, 9)], false, Some(&event())).unwrap();
    bench.world.report(&bench.bus, Report::Fault { queue: queue.system, address: 0xdead_0000 });
    eventually("the driver is told", || bench.world.calls.lock().unwrap().contains(&"SuspendContext"));
    b.process.exit();
    assert!(!is_signaled(&waits));
    assert_eq!(word(made.Info.NativeFenceMapping.CurrentValueCpuVa).load(Ordering::SeqCst), 0);
    a.signal(made.hSyncObject, 9, D3DDDICB_SIGNALFLAGS::new()).unwrap();
    assert!(is_signaled(&waits));
    bench.end();
}

#[test]
fn handles_are_closed_late_without_the_driver_after_the_adapter_is_gone() {
    for removed in [false, true] {
        let bench = bench();
        let (a, b) = (App::new(&bench), App::new(&bench));
        let (made, opened, [mine, theirs]) = share(&a, &b);
        bench.world.take_calls();
        bench.machine.stop(bench.luid).unwrap();
        let calls = bench.world.take_calls();
        assert_eq!(calls, ["CloseNativeFence", "CloseNativeFence", "DestroyNativeFence"]);
        if removed {
            bench.machine.remove(bench.luid).unwrap();
        }
        assert_eq!(a.open(mine).err(), Some(STATUS_DEVICE_REMOVED));
        a.destroy_fence(made.hSyncObject).unwrap();
        b.close(theirs).unwrap();
        a.close(mine).unwrap();
        b.destroy_fence(opened.hSyncObject).unwrap();
        assert!(bench.world.take_calls().is_empty());
        assert_eq!(bench.machine.bugcheck(), None);
    }
}

#[test]
fn a_fence_that_may_be_shared_has_its_pages_to_itself() {
    let bench = bench();
    let app = App::new(&bench);
    let mut pages = Vec::new();
    for _ in 0..4 {
        let alone = app.try_shared(shared()).unwrap().Info.NativeFenceMapping;
        pages.extend([alone.CurrentValueGpuVa >> 12, alone.MonitoredValueGpuVa >> 12]);
        let packed = app.try_fence(0).unwrap().Info.NativeFenceMapping;
        assert!(!pages.contains(&(packed.CurrentValueGpuVa >> 12)));
    }
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), 8);
    bench.end();
}

#[test]
fn two_devices_of_a_process_have_a_shared_fence_at_the_same_addresses() {
    let bench = bench();
    let a = App::new(&bench);
    let made = a.try_shared(shared()).unwrap();
    let handle = a.share(made.hSyncObject).unwrap();
    let opened = a.open(handle).unwrap();
    let (first, second) = (made.Info.NativeFenceMapping, opened.NativeFenceMapping);
    assert_eq!(first.CurrentValueCpuVa, second.CurrentValueCpuVa);
    assert_eq!(first.CurrentValueGpuVa, second.CurrentValueGpuVa);
    assert_eq!(first.MonitoredValueGpuVa, second.MonitoredValueGpuVa);
    bench.end();
}

#[test]
fn what_cannot_be_shared_or_opened_is_refused_by_name() {
    let bench = bench();
    let (a, b) = (App::new(&bench), App::new(&bench));
    let none = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new();
    for flags in [none.with_Shared(true), none.with_NtSecuritySharing(true)] {
        assert_eq!(a.try_shared(flags).err(), Some(STATUS_INVALID_PARAMETER), "{flags:?}");
    }
    let private = a.try_fence(0).unwrap().hSyncObject;
    assert_eq!(a.share(private), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(a.share(a.device), Err(STATUS_INVALID_HANDLE));
    let made = a.try_shared(shared()).unwrap();
    let mine = a.share(made.hSyncObject).unwrap();
    assert_eq!(b.open(mine).err(), Some(STATUS_INVALID_HANDLE), "handles are a process's own");
    for stranger in [0, 1, 3, usize::MAX, usize::MAX - 3] {
        let stranger = std::ptr::without_provenance_mut(stranger);
        assert_eq!(a.open(stranger).err(), Some(STATUS_INVALID_HANDLE));
        assert_eq!(a.close(stranger), Err(STATUS_INVALID_HANDLE));
    }
    a.destroy_fence(made.hSyncObject).unwrap();
    assert_eq!(a.share(made.hSyncObject), Err(STATUS_INVALID_HANDLE));
    let elsewhere = crate::user_mode::app::bench();
    let foreign = App::new(&elsewhere);
    assert_eq!(a.process.duplicate_handle(mine, &foreign.process), Err(STATUS_INVALID_PARAMETER));
    elsewhere.end();
    bench.end();
}

#[test]
fn a_failed_opening_leaves_the_fence_as_it_was() {
    let bench = bench();
    let (a, b) = (App::new(&bench), App::new(&bench));
    let made = a.try_shared(shared()).unwrap();
    let mine = a.share(made.hSyncObject).unwrap();
    let theirs = a.process.duplicate_handle(mine, &b.process).unwrap();
    bench.world.failing.lock().unwrap().insert("OpenNativeFence", STATUS_NO_MEMORY);
    assert_eq!(b.open(theirs).err(), Some(STATUS_NO_MEMORY));
    bench.world.take_calls();
    assert_eq!(a.try_fence(0).err(), Some(STATUS_NO_MEMORY));
    assert_eq!(bench.world.take_calls(), ["CreateNativeFence", "OpenNativeFence", "DestroyNativeFence"]);
    bench.world.failing.lock().unwrap().clear();
    b.open(theirs).unwrap();
    bench.end();
}
