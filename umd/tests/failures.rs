//! Whatever fails, nothing is left behind; and misuse is refused.

mod fake;

use std::time::Duration;

use campanile_umd::*;
use fake::*;
use wddm_ddi::status::*;

/// Uses everything once.
fn everything() -> Result<()> {
    let adapter = Adapter::open(&THUNKS)?;
    let device = Device::new(&adapter)?;
    let source = device.create_buffer(5000, Placement::System)?;
    let target = device.create_buffer(5000, Placement::Vram)?;
    source.map()?.write(0, b"abc")?;
    let fence = Fence::new(&device, 0)?;
    let options = QueueOptions { ring_entries: 128, command_bytes: 4096, ..QueueOptions::default() };
    let mut copy = Queue::new(&device, Node::Copy, options)?;
    let mut compute = Queue::new(&device, Node::Compute, options)?;
    let shared = Fence::new_shared(&device, 0)?;
    let opened = Fence::open(&device, shared.share(Access::Wait)?.raw(), Access::Wait)?;
    shared.signal(1)?;
    opened.wait(1, None)?;
    fence.signal(1)?;
    for round in 0..200 {
        let status = [CONNECTED, NOTIFY, RETRY][round % 3];
        os(|fake| {
            for object in fake.objects.values() {
                if let Object::Doorbell(doorbell) = object {
                    doorbell.status.set(0, status);
                }
            }
        });
        copy.submit(|commands| {
            commands.wait(&fence, 1)?;
            commands.copy(target.gpu_address(), source.gpu_address(), 3)?;
            commands.signal(&fence, 2)
        })?;
        compute.submit(|commands| commands.fill(target.gpu_address(), 8, 1))?;
    }
    fence.wait(2, None)?;
    fence.wait(2, Some(Duration::from_secs(1)))?;
    compute.wait_progress(compute.last_submitted())?;
    copy.wait_progress_for(copy.last_submitted(), Some(Duration::from_secs(1)))?;
    device.check()
}

/// Fails each call of the scenario in turn, until it passes without reaching the failing one.
fn sweep(prepare: fn(&mut Fake)) -> usize {
    let mut failed = 0;
    for call in 1.. {
        os(|fake| {
            *fake = Fake::new();
            prepare(fake);
            fake.fail = Some((call, STATUS_UNSUCCESSFUL));
        });
        let outcome = everything();
        let (name, reached) = os(|fake| (fake.calls.get(call - 1).copied(), fake.calls.len() >= call));
        if !reached {
            assert_eq!(outcome, Ok(()));
            return failed;
        }
        let name = name.unwrap_or_default();
        let gives_back = ["Destroy", "Close", "Evict", "Free", "Unlock"].iter().any(|part| name.contains(part));
        if gives_back {
            // What the system does not take back is its own; later steps only make more noise.
            continue;
        }
        failed += 1;
        if let Err(error) = outcome {
            let named = matches!(error, Error::Status(STATUS_UNSUCCESSFUL, what) if what == name);
            assert!(named || error == Error::NoAdapter, "call {call} ({name}): {error:?}");
        }
        os(|fake| {
            assert!(fake.violations.is_empty(), "call {call} ({name}): {:?}", fake.violations);
            fake.assert_clean();
        });
    }
    failed
}

#[test]
fn each_thunk_failing_in_turn_leaves_nothing_behind() {
    assert!(sweep(|_| {}) > 200);
}

#[test]
fn nothing_is_left_behind_when_paging_is_pending() {
    assert!(sweep(|fake| fake.pending = true) > 200);
}

#[test]
fn nothing_is_left_behind_with_kernel_submission() {
    assert!(sweep(|fake| fake.adapter.features = 1) > 400);
}

#[test]
fn what_the_system_does_not_take_back_is_counted() {
    let adapter = Adapter::open(&THUNKS).unwrap();
    let device = Device::new(&adapter).unwrap();
    let buffer = device.create_buffer(4096, Placement::System).unwrap();
    assert_eq!((adapter.teardown_failures(), adapter.last_teardown_failure()), (0, None));
    os(|fake| fake.fail_names = vec![("D3DKMTEvict", STATUS_UNSUCCESSFUL)]);
    drop(buffer);
    assert_eq!((adapter.teardown_failures(), adapter.last_teardown_failure()), (1, Some(STATUS_UNSUCCESSFUL)));
}

#[test]
fn pending_paging_is_waited_for_on_the_paging_fence() {
    os(|fake| fake.pending = true);
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let before = os(|fake| fake.count("D3DKMTWaitForSynchronizationObjectFromCpu"));
    let _buffer = device.create_buffer(4096, Placement::System).unwrap();
    // One for residency, one for the mapping.
    assert_eq!(os(|fake| fake.count("D3DKMTWaitForSynchronizationObjectFromCpu")) - before, 2);
}

#[test]
fn order_of_destruction_does_not_matter_to_the_caller() {
    let adapter = Adapter::open(&THUNKS).unwrap();
    let device = Device::new(&adapter).unwrap();
    let buffer = device.create_buffer(4096, Placement::System).unwrap();
    let mapping = buffer.map().unwrap();
    let second = buffer.map().unwrap();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).unwrap();
    drop((adapter, device, buffer));
    queue.submit(|commands| commands.signal(&fence, 1)).unwrap();
    fence.wait(1, None).unwrap();
    mapping.write(4095, &[7]).unwrap();
    drop((mapping, fence, queue));
    let mut byte = [0];
    second.read(4095, &mut byte).unwrap();
    assert_eq!(byte, [7]);
    drop(second);
    os(|fake| fake.assert_clean());
}

#[test]
fn arguments_out_of_range_are_refused_before_anything_is_asked() {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let calls = os(|fake| fake.calls.len());
    for size in [0, u64::MAX, (1 << 47) + 1] {
        assert!(matches!(device.create_buffer(size, Placement::System), Err(Error::BadArgument(_))));
    }
    let default = QueueOptions::default();
    for (ring_entries, command_bytes) in
        [(0, 4096), (64, 4096), (129, 4096), (1 << 17, 4096), (128, 0), (128, 4095), (128, (1 << 28) + 4096)]
    {
        let options = QueueOptions { ring_entries, command_bytes, ..default };
        assert!(matches!(Queue::new(&device, Node::Copy, options), Err(Error::BadArgument(_))));
    }
    assert_eq!(os(|fake| fake.calls.len()), calls);
}

#[test]
fn mappings_refuse_what_lies_outside() {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let hidden = device.create_buffer(4096, Placement::Vram).unwrap();
    assert!(matches!(hidden.map(), Err(Error::NotMappable)));
    let buffer = device.create_buffer(100, Placement::VramVisible).unwrap();
    let mapping = buffer.map().unwrap();
    assert_eq!((mapping.len(), mapping.is_empty(), buffer.size()), (100, false, 100));
    for (offset, len) in [(100, 1), (0, 101), (usize::MAX, 1), (1, 1000)] {
        assert!(matches!(mapping.write(offset, &vec![0; len.min(1000)]), Err(Error::BadArgument(_))));
        assert!(matches!(mapping.read(offset, &mut vec![0; len.min(1000)]), Err(Error::BadArgument(_))));
    }
    mapping.write(100, &[]).unwrap();
}

#[test]
fn progress_values_from_the_future_are_refused() {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let queue = Queue::new(&device, Node::Copy, QueueOptions::default()).unwrap();
    queue.wait_progress(0).unwrap();
    assert!(matches!(queue.wait_progress(1), Err(Error::BadArgument(_))));
}

#[test]
fn native_fences_need_the_feature_and_fences_stay_on_their_adapter() {
    os(|fake| fake.native = false);
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    assert!(!device.adapter().user_mode_submission());
    let native = FenceOptions { kind: Some(FenceKind::Native), ..FenceOptions::default() };
    assert_eq!(Fence::with_options(&device, native).err(), Some(Error::NativeFencesDisabled));
    assert_eq!(Fence::new(&device, 0).unwrap().kind(), FenceKind::Monitored);
    os(|fake| fake.native = true);
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let other = Device::new(&Adapter::open_luid(&THUNKS, LUID_TWIN).unwrap()).unwrap();
    let fence = Fence::new(&other, 0).unwrap();
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).unwrap();
    assert_eq!(queue.submit(|commands| commands.signal(&fence, 1)), Err(Error::ForeignFence));
    assert_eq!(queue.submit(|commands| commands.wait(&fence, 1)), Err(Error::ForeignFence));
    assert_eq!(queue.stats().submissions, 0);
}

#[test]
fn a_removed_device_is_named_by_every_thunk() {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    os(|fake| fake.fail_names = vec![("D3DKMTCreateAllocation2", STATUS_DEVICE_REMOVED)]);
    assert!(matches!(device.create_buffer(1, Placement::System), Err(Error::DeviceLost)));
    os(|fake| fake.fail_names = vec![("D3DKMTGetDeviceState", STATUS_DEVICE_REMOVED)]);
    assert_eq!(device.check(), Err(Error::DeviceLost));
}

#[test]
fn errors_say_what_to_do() {
    let texts = [
        (Error::Status(STATUS_NO_MEMORY, "D3DKMTLock2"), "D3DKMTLock2 failed with STATUS_NO_MEMORY (0xc0000017)"),
        (Error::NoAdapter, "check that its driver is installed"),
        (Error::DeviceLost, "create them anew"),
        (Error::Version(9), "version 9"),
        (Error::CommandsTooLarge, "split it"),
    ];
    for (error, part) in texts {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn memory_that_is_short_is_asked_for_again_as_somebody_who_has_nothing_to_trim() {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let create = || device.create_buffer(4096, Placement::Vram);
    drop(create().unwrap());
    let before = os(|fake| fake.calls.len());
    drop(create().unwrap());
    let calls = os(|fake| fake.calls[before..].to_vec());
    let place = calls.iter().position(|name| *name == "D3DKMTMakeResident").unwrap();
    for (status, asked) in [(STATUS_NO_MEMORY, 2), (STATUS_INVALID_PARAMETER, 1)] {
        let before = os(|fake| {
            fake.fail = Some((fake.calls.len() + place + 1, status));
            fake.calls.len()
        });
        let outcome = create();
        os(|fake| fake.fail = None);
        assert_eq!(outcome.is_ok(), asked == 2, "{status}");
        drop(outcome);
        let calls = os(|fake| fake.calls[before..].iter().filter(|name| **name == "D3DKMTMakeResident").count());
        assert_eq!(calls, asked, "{status}");
    }
    drop(device);
    os(|fake| fake.assert_clean());
}
