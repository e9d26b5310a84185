//! Fences and buffers that devices and processes share by kernel handles.

mod fake;

use std::ptr::{null_mut, without_provenance_mut};

use campanile_umd::*;
use fake::*;
use wddm_ddi::status::*;

fn device() -> Device {
    Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap()
}

fn clean() {
    os(|fake| fake.assert_clean());
}

#[test]
fn a_fence_opened_by_its_handle_has_the_same_value_both_ways() {
    let first = device();
    let second = Device::new(first.adapter()).unwrap();
    let mine = Fence::new_shared(&first, 5).unwrap();
    let handle = mine.share(Access::Full).unwrap();
    let theirs = Fence::open(&second, handle.raw(), Access::Full).unwrap();
    assert_ne!(mine.handle(), theirs.handle());
    assert_eq!(theirs.value(), 5);
    let mut queue = Queue::new(&first, Node::Copy, QueueOptions::default()).unwrap();
    queue.submit(|commands| commands.signal(&mine, 6)).unwrap();
    queue.wait_progress(1).unwrap();
    assert_eq!((theirs.value(), theirs.wait(6, None)), (6, Ok(())));
    theirs.signal(7).unwrap();
    assert_eq!(mine.value(), 7);
    drop((handle, mine, theirs, queue, first, second));
    clean();
}

#[test]
fn a_handle_is_closed_once_and_keeps_the_fence_until_then() {
    let device = device();
    let fence = Fence::new_shared(&device, 3).unwrap();
    let handle = fence.share(Access::Full).unwrap();
    drop(fence);
    let again = Fence::open(&device, handle.raw(), Access::Full).unwrap();
    assert_eq!(again.value(), 3);
    let raw = handle.into_raw();
    assert_eq!(os(|fake| fake.count("NtClose")), 0, "the handle is the caller's now");
    // SAFETY: the handle was given up by the line above.
    drop(unsafe { SharedHandle::from_raw(&device, raw) });
    assert_eq!(os(|fake| fake.count("NtClose")), 1);
    let refused = Fence::open(&device, raw, Access::Full).err();
    assert_eq!(refused, Some(Error::Status(STATUS_INVALID_HANDLE, "D3DKMTOpenNativeFenceFromNtHandle")));
    drop((again, device));
    clean();
}

#[test]
fn who_may_only_wait_is_refused_signals_by_name_and_cannot_share_more() {
    let device = device();
    let fence = Fence::new_shared(&device, 0).unwrap();
    let handle = fence.share(Access::Full).unwrap();
    let waiter = Fence::open(&device, handle.raw(), Access::Wait).unwrap();
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).unwrap();
    let calls = os(|fake| fake.calls.len());
    assert_eq!(waiter.signal(1), Err(Error::WaitOnlyFence));
    assert_eq!(queue.submit(|commands| commands.signal(&waiter, 1)), Err(Error::WaitOnlyFence));
    assert_eq!(waiter.share(Access::Full).err(), Some(Error::WaitOnlyFence));
    assert_eq!(os(|fake| fake.calls.len()), calls, "nobody was asked");
    assert_eq!((queue.last_submitted(), fence.value()), (0, 0));
    let limited = waiter.share(Access::Wait).unwrap();
    assert_eq!(Fence::open(&device, limited.raw(), Access::Wait).unwrap().signal(1), Err(Error::WaitOnlyFence));
    fence.signal(1).unwrap();
    let progress = queue.submit(|commands| commands.wait(&waiter, 1)).unwrap();
    queue.wait_progress(progress).unwrap();
    waiter.wait(1, None).unwrap();
    drop((handle, limited, fence, waiter, queue, device));
    clean();
}

#[test]
fn private_fences_have_no_handles_and_nothing_is_asked_for_them() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    for access in [Access::Full, Access::Wait] {
        assert_eq!(fence.share(access).err(), Some(Error::NotShared));
    }
    assert_eq!(os(|fake| fake.count("D3DKMTShareObjects")), 0);
    drop((fence, device));
    clean();
}

#[test]
fn what_is_no_handle_of_a_fence_opens_nothing() {
    let device = device();
    for number in [null_mut(), without_provenance_mut(1), without_provenance_mut(usize::MAX)] {
        let refused = Fence::open(&device, number, Access::Full).err();
        assert_eq!(refused, Some(Error::Status(STATUS_INVALID_HANDLE, "D3DKMTOpenNativeFenceFromNtHandle")));
    }
    drop(device);
    clean();
}

#[test]
fn a_device_without_native_fences_shares_monitored_ones() {
    os(|fake| fake.native = false);
    let device = device();
    let other = Device::new(device.adapter()).unwrap();
    let mine = Fence::new_shared(&device, 7).unwrap();
    let handle = mine.share(Access::Full).unwrap();
    let theirs = Fence::open(&other, handle.raw(), Access::Full).unwrap();
    assert_eq!((mine.kind(), theirs.kind(), theirs.value()), (FenceKind::Monitored, FenceKind::Monitored, 7));
    theirs.signal(8).unwrap();
    assert_eq!((mine.value(), mine.wait(8, None)), (8, Ok(())));
    let refused = Fence::open(&device, null_mut(), Access::Full).err();
    assert_eq!(refused, Some(Error::Status(STATUS_INVALID_HANDLE, "D3DKMTOpenSyncObjectFromNtHandle2")));
    assert_eq!(os(|fake| fake.count("D3DKMTOpenNativeFenceFromNtHandle")), 0);
    drop((mine, theirs, handle, device, other));
    clean();
}

#[test]
fn a_shared_monitored_fence_is_opened_as_one_beside_native_fences() {
    let device = device();
    let options = FenceOptions {
        initial: 3,
        kind: Some(FenceKind::Monitored),
        sharing: Sharing::Adapter,
        ..FenceOptions::default()
    };
    let mine = Fence::with_options(&device, options).unwrap();
    let handle = mine.share(Access::Full).unwrap();
    let theirs = Fence::open(&device, handle.raw(), Access::Full).unwrap();
    assert_eq!((theirs.kind(), theirs.value()), (FenceKind::Monitored, 3));
    drop((mine, theirs, handle, device));
    clean();
}

#[test]
fn every_opening_tells_the_purpose_that_a_native_fence_was_created_with() {
    let device = device();
    for (kind, told) in [(FenceKind::Native, Some(7)), (FenceKind::Monitored, None)] {
        let sharing = Sharing::Adapter;
        let options = FenceOptions { kind: Some(kind), sharing, purpose: 7, ..FenceOptions::default() };
        let mine = Fence::with_options(&device, options).unwrap();
        let handle = mine.share(Access::Full).unwrap();
        let theirs = Fence::open(&device, handle.raw(), Access::Wait).unwrap();
        assert_eq!([mine.purpose(), theirs.purpose()], [told; 2], "{kind:?}");
    }
    let plain = Fence::with_options(&device, FenceOptions { kind: Some(FenceKind::Native), ..FenceOptions::default() });
    assert_eq!(plain.unwrap().purpose(), Some(0));
    drop(device);
    clean();
}

#[test]
fn who_may_only_signal_is_refused_waits_by_name_and_cannot_share_more() {
    for kind in [FenceKind::Native, FenceKind::Monitored] {
        let device = device();
        let options = FenceOptions { kind: Some(kind), sharing: Sharing::Adapter, ..FenceOptions::default() };
        let fence = Fence::with_options(&device, options).unwrap();
        let handle = fence.share(Access::Signal).unwrap();
        let signaller = Fence::open(&device, handle.raw(), Access::Signal).unwrap();
        let queue = QueueOptions { model: Some(SubmissionModel::Kernel), ..QueueOptions::default() };
        let mut queue = Queue::new(&device, Node::Copy, queue).unwrap();
        let calls = os(|fake| fake.calls.len());
        assert_eq!(signaller.wait(0, None), Err(Error::SignalOnlyFence));
        assert_eq!(queue.submit(|commands| commands.wait(&signaller, 0)), Err(Error::SignalOnlyFence));
        assert_eq!(queue.enqueue_wait(&signaller, 0), Err(Error::SignalOnlyFence));
        for access in [Access::Full, Access::Wait] {
            assert_eq!(signaller.share(access).err(), Some(Error::SignalOnlyFence));
        }
        assert_eq!(os(|fake| fake.calls.len()), calls, "nobody was asked");
        signaller.signal(1).unwrap();
        queue.submit(|commands| commands.signal(&signaller, 2)).unwrap();
        assert_eq!(fence.wait(2, None), Ok(()));
        drop((fence, handle, signaller, queue, device));
        clean();
    }
}

#[test]
fn a_lost_device_is_named_and_a_handle_that_does_not_close_is_counted() {
    let device = device();
    let fence = Fence::new_shared(&device, 0).unwrap();
    let handle = fence.share(Access::Full).unwrap();
    for name in ["D3DKMTShareObjects", "D3DKMTOpenNativeFenceFromNtHandle", "NtClose"] {
        os(|fake| fake.fail_names = vec![(name, STATUS_DEVICE_REMOVED)]);
        match name {
            "D3DKMTShareObjects" => assert_eq!(fence.share(Access::Full).err(), Some(Error::DeviceLost)),
            "NtClose" => break,
            _ => assert_eq!(Fence::open(&device, handle.raw(), Access::Full).err(), Some(Error::DeviceLost)),
        }
    }
    let adapter = device.adapter().clone();
    drop(handle);
    assert_eq!((adapter.teardown_failures(), adapter.last_teardown_failure()), (1, Some(STATUS_DEVICE_REMOVED)));
    drop((fence, device, adapter));
}

#[test]
fn a_buffer_opened_by_its_handle_has_the_same_bytes_size_and_placement() {
    let first = device();
    let second = Device::new(first.adapter()).unwrap();
    let mine = first.create_shared_buffer(5000, Placement::SystemUncached).unwrap();
    let handle = mine.share().unwrap();
    let theirs = second.open_buffer(handle.raw()).unwrap();
    drop(handle);
    assert_eq!((theirs.size(), theirs.placement()), (5000, Placement::SystemUncached));
    assert_ne!(theirs.gpu_address(), mine.gpu_address());
    mine.map().unwrap().write(4990, &[1, 2, 3]).unwrap();
    let mut bytes = [0; 3];
    theirs.map().unwrap().read(4990, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3]);
    // The bytes stay with whoever has the buffer open, who may share it again.
    drop((mine, first));
    let again = second.open_buffer(theirs.share().unwrap().raw()).unwrap();
    drop(theirs);
    again.map().unwrap().read(4990, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3]);
    drop((again, second));
    clean();
}

#[test]
fn a_private_buffer_and_handles_of_other_things_are_refused_by_name() {
    let device = device();
    let private = device.create_buffer(4096, Placement::System).unwrap();
    assert_eq!(private.share().err(), Some(Error::NotShared));
    assert_eq!(os(|fake| fake.count("D3DKMTShareObjects")), 0, "nobody was asked");
    let fence = Fence::new_shared(&device, 0).unwrap();
    let handle = fence.share(Access::Full).unwrap();
    let name = "D3DKMTQueryResourceInfoFromNtHandle";
    let refused = device.open_buffer(handle.raw()).err();
    assert_eq!(refused, Some(Error::Status(STATUS_OBJECT_TYPE_MISMATCH, name)));
    for wrong in [null_mut(), without_provenance_mut(0x7777)] {
        assert_eq!(device.open_buffer(wrong).err(), Some(Error::Status(STATUS_INVALID_HANDLE, name)));
    }
    assert!(device.create_shared_buffer(0, Placement::System).is_err());
    drop((private, fence, handle, device));
    clean();
}

#[test]
fn an_opening_that_fails_half_way_leaves_nothing_open() {
    let device = device();
    let mine = device.create_shared_buffer(4096, Placement::Vram).unwrap();
    let handle = mine.share().unwrap();
    for name in ["D3DKMTOpenResourceFromNtHandle", "D3DKMTMakeResident", "D3DKMTMapGpuVirtualAddress"] {
        os(|fake| fake.fail_names.push((name, STATUS_INVALID_PARAMETER)));
        assert_eq!(device.open_buffer(handle.raw()).err(), Some(Error::Status(STATUS_INVALID_PARAMETER, name)));
        os(|fake| fake.fail_names.clear());
    }
    drop((mine, handle, device));
    clean();
}

#[test]
fn a_value_goes_back_only_where_that_is_asked_for() {
    let device = device();
    let fence = Fence::new_shared(&device, 5).unwrap();
    let name = "D3DKMTSignalSynchronizationObjectFromCpu";
    assert_eq!(fence.signal(4), Err(Error::Status(STATUS_INVALID_PARAMETER, name)));
    assert_eq!(fence.value(), 5);
    fence.rewind(0).unwrap();
    assert_eq!(fence.value(), 0);
    let handle = fence.share(Access::Wait).unwrap();
    let waiter = Fence::open(&device, handle.raw(), Access::Wait).unwrap();
    assert_eq!(waiter.rewind(0), Err(Error::WaitOnlyFence));
    drop((handle, waiter, fence, device));
    clean();
}
