//! Monitored fences: signals in command buffers, and work that the operating system delays between them.

mod fake;

use std::time::Duration;

use campanile_umd::*;
use fake::*;
use wddm_ddi::status::*;

const MONITORED: FenceOptions = FenceOptions {
    initial: 0,
    kind: Some(FenceKind::Monitored),
    sharing: Sharing::Private,
    access: Access::Full,
    keeps_value: false,
    purpose: 0,
};
const REACH: u64 = u32::MAX as u64 / 2;
const WRAP: u64 = 1 << 32;
/// Models in which the operating system is handed every command buffer.
const BY_KERNEL: [SubmissionModel; 2] = [SubmissionModel::Kernel, SubmissionModel::Packet];

fn device() -> Device {
    Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap()
}

fn queue(device: &Device, model: SubmissionModel) -> Queue {
    Queue::new(device, Node::Copy, QueueOptions { model: Some(model), ..QueueOptions::default() }).unwrap()
}

fn clean() {
    os(|fake| fake.assert_clean());
}

/// Names of the last `count` thunks.
fn last_calls(count: usize) -> Vec<&'static str> {
    os(|fake| fake.calls[fake.calls.len() - count..].to_vec())
}

#[test]
fn what_comes_before_a_wait_is_handed_over_before_it_and_the_rest_behind() {
    for (model, submit, wait) in [
        (SubmissionModel::Kernel, "D3DKMTSubmitCommandToHwQueue", "D3DKMTSubmitWaitForSyncObjectsToHwQueue"),
        (SubmissionModel::Packet, "D3DKMTSubmitCommand", "D3DKMTWaitForSynchronizationObjectFromGpu"),
    ] {
        let device = device();
        let (gate, fence) =
            (Fence::with_options(&device, MONITORED).unwrap(), Fence::with_options(&device, MONITORED).unwrap());
        let buffer = device.create_buffer(4096, Placement::System).unwrap();
        let bytes = buffer.map().unwrap();
        let mut queue = queue(&device, model);
        let address = buffer.gpu_address();
        let before = os(|fake| fake.calls.len());
        let value = queue.submit(|commands| {
            commands.fill(address, 4, 1)?;
            commands.wait(&gate, 1)?;
            commands.wait(&gate, 2)?;
            commands.fill(address + 4, 4, 2)?;
            commands.wait(&gate, 3)?;
            commands.fill(address + 8, 4, 3)?;
            commands.signal(&fence, 9)
        });
        // Each command buffer has a progress value; the last one says that all is done.
        assert_eq!((value, queue.last_submitted(), queue.stats().submissions), (Ok(3), 3, 3));
        assert_eq!(last_calls(6), [submit, wait, wait, submit, wait, submit]);
        assert_eq!(os(|fake| fake.calls.len()), before + 6, "nothing else was called");
        let words = || {
            let mut found = [0; 12];
            bytes.read(0, &mut found).unwrap();
            [found[0], found[4], found[8]]
        };
        for (signal, words_then, progress) in [(1, [1, 0, 0], 1), (2, [1, 2, 0], 2), (3, [1, 2, 3], 3)] {
            assert!(queue.progress() < progress || signal == 1, "{model:?} {signal}");
            gate.signal(signal).unwrap();
            assert_eq!((words(), queue.progress()), (words_then, progress), "{model:?} {signal}");
        }
        assert_eq!((fence.value(), fence.wait(9, None), queue.wait_progress(3)), (9, Ok(()), Ok(())));
        drop((gate, fence, bytes, buffer, queue, device));
        clean();
    }
}

#[test]
fn a_wait_at_the_start_or_the_end_makes_no_empty_command_buffer_before_it() {
    let device = device();
    let gate = Fence::with_options(&device, MONITORED).unwrap();
    let mut queue = queue(&device, SubmissionModel::Kernel);
    assert_eq!(queue.submit(|commands| commands.wait(&gate, 1)), Ok(1));
    assert_eq!(last_calls(2), ["D3DKMTSubmitWaitForSyncObjectsToHwQueue", "D3DKMTSubmitCommandToHwQueue"]);
    assert_eq!(queue.progress(), 0, "the last command buffer waits too");
    gate.signal(1).unwrap();
    assert_eq!(queue.progress(), 1);
}

#[test]
fn a_queue_with_user_mode_submission_refuses_monitored_fences_by_name() {
    let device = device();
    let fence = Fence::with_options(&device, MONITORED).unwrap();
    let native = Fence::new(&device, 0).unwrap();
    assert_eq!((fence.kind(), native.kind()), (FenceKind::Monitored, FenceKind::Native));
    let mut queue = queue(&device, SubmissionModel::User);
    let calls = os(|fake| fake.calls.len());
    assert_eq!(queue.submit(|commands| commands.signal(&fence, 1)), Err(Error::NeedsKernelSubmission));
    assert_eq!(queue.submit(|commands| commands.wait(&fence, 0)), Err(Error::NeedsKernelSubmission));
    for fence in [&fence, &native] {
        assert_eq!(queue.enqueue_wait(fence, 0), Err(Error::NeedsKernelSubmission));
        assert_eq!(queue.enqueue_signal(fence, 1), Err(Error::NeedsKernelSubmission));
    }
    assert_eq!(os(|fake| fake.calls.len()), calls, "nobody was asked");
    assert_eq!((queue.submit(|commands| commands.nop()), fence.value()), (Ok(1), 0));
}

#[test]
fn waits_and_signals_between_submissions_keep_their_place() {
    for model in BY_KERNEL {
        let device = device();
        let gate = Fence::with_options(&device, MONITORED).unwrap();
        for fence in [Fence::with_options(&device, MONITORED).unwrap(), Fence::new(&device, 0).unwrap()] {
            let mut queue = queue(&device, model);
            queue.submit(|commands| commands.nop()).unwrap();
            queue.enqueue_wait(&gate, gate.value() + 1).unwrap();
            queue.submit(|commands| commands.nop()).unwrap();
            queue.enqueue_signal(&fence, 5).unwrap();
            assert_eq!((queue.progress(), fence.value()), (1, 0), "{model:?}");
            gate.signal(gate.value() + 1).unwrap();
            assert_eq!((queue.progress(), fence.value(), fence.wait(5, Some(Duration::ZERO))), (2, 5, Ok(())));
        }
        drop((gate, device));
        clean();
    }
}

#[test]
fn a_recording_that_fails_hands_nothing_over_and_keeps_no_fence() {
    let device = device();
    let mut queue = queue(&device, SubmissionModel::Kernel);
    let gate = Fence::with_options(&device, MONITORED).unwrap();
    let submits = os(|fake| fake.calls.len());
    let outcome = queue.submit(|commands| {
        commands.nop()?;
        commands.wait(&gate, 1)?;
        commands.fill(2, 4, 0)
    });
    assert!(matches!(outcome, Err(Error::BadPacket(_))));
    assert_eq!((queue.last_submitted(), os(|fake| fake.calls.len())), (0, submits));
    drop(gate);
    assert_eq!(last_calls(1), ["D3DKMTDestroySynchronizationObject"], "the queue holds no fence");
    assert_eq!(queue.submit(|commands| commands.nop()), Ok(1));
    assert_eq!(queue.progress(), 1);
}

#[test]
fn a_fence_lives_until_the_system_has_the_wait_for_it() {
    let device = device();
    let mut queue = queue(&device, SubmissionModel::Kernel);
    let value = queue.submit(|commands| {
        let gate = Fence::with_options(&device, MONITORED)?;
        commands.wait(&gate, 0)
    });
    assert_eq!(value, Ok(1));
    drop((queue, device));
    clean();
}

#[test]
fn a_refusal_in_the_middle_ends_the_queue_and_one_at_the_start_does_not() {
    let wait = ("D3DKMTSubmitWaitForSyncObjectsToHwQueue", STATUS_INSUFFICIENT_RESOURCES);
    let refused = Error::Status(wait.1, wait.0);
    let device = device();
    let gate = Fence::with_options(&device, MONITORED).unwrap();
    let mut queue = queue(&device, SubmissionModel::Kernel);
    os(|fake| fake.fail_names = vec![wait]);
    assert_eq!(queue.submit(|commands| commands.wait(&gate, 0)), Err(refused));
    assert_eq!(queue.enqueue_wait(&gate, 0), Err(refused));
    os(|fake| fake.fail_names.clear());
    assert_eq!(queue.submit(|commands| commands.wait(&gate, 0)), Ok(1), "nothing had been taken");
    os(|fake| fake.fail_names = vec![wait]);
    let outcome = queue.submit(|commands| {
        commands.nop()?;
        commands.wait(&gate, 0)
    });
    os(|fake| fake.fail_names.clear());
    assert_eq!((outcome, queue.last_submitted()), (Err(refused), 2));
    assert_eq!(queue.submit(|commands| commands.nop()), Err(refused));
    assert_eq!((queue.enqueue_wait(&gate, 0), queue.enqueue_signal(&gate, 1)), (Err(refused), Err(refused)));
}

#[test]
fn waits_are_bounded_by_the_ring_and_wait_for_room_in_it() {
    let device = device();
    let gate = Fence::with_options(&device, MONITORED).unwrap();
    let options = QueueOptions { model: Some(SubmissionModel::Kernel), ring_entries: 128, ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Copy, options).unwrap();
    let many = |queue: &mut Queue, pieces: usize, value: u64| {
        queue.try_submit(|commands| {
            (0..pieces).try_for_each(|_| {
                commands.nop()?;
                commands.wait(&gate, value)
            })
        })
    };
    assert_eq!(many(&mut queue, 128, 0), Err(Error::CommandsTooLarge));
    assert_eq!(
        queue.try_submit(|commands| (0..129).try_for_each(|_| commands.wait(&gate, 0))),
        Err(Error::CommandsTooLarge)
    );
    assert_eq!(many(&mut queue, 127, 0), Ok(128));
    assert_eq!(many(&mut queue, 100, 1), Ok(229));
    assert_eq!(many(&mut queue, 28, 1), Err(Error::RingFull), "100 of 128 are under way");
    assert_eq!(many(&mut queue, 26, 1), Ok(256));
    gate.signal(1).unwrap();
    assert_eq!(many(&mut queue, 127, 1), Ok(384));
    assert_eq!(queue.wait_progress(384), Ok(()));
}

#[test]
fn buffers_move_on_by_monitored_fences() {
    for narrow in [false, true] {
        os(|fake| {
            if narrow {
                fake.make_32_bit()
            }
        });
        let device = device();
        let fence = Fence::with_options(&device, FenceOptions { initial: WRAP - 2, ..MONITORED }).unwrap();
        let mut queue = queue(&device, SubmissionModel::Kernel);
        let gate = Fence::with_options(&device, MONITORED).unwrap();
        let dynamic = device.create_dynamic_buffer(4096, Placement::System, 2).unwrap();
        queue.enqueue_wait(&gate, 1).unwrap();
        let mut addresses = Vec::new();
        for value in [WRAP - 1, WRAP] {
            let contents = dynamic.map(MapMode::Discard, false).unwrap();
            contents.use_until(&fence, value);
            addresses.push(contents.gpu_address());
            queue.submit(|commands| commands.signal(&fence, value)).unwrap();
        }
        assert_ne!(addresses[0], addresses[1]);
        for mode in [MapMode::Discard, MapMode::Plain] {
            assert_eq!(dynamic.map(mode, false).err(), Some(Error::WasStillDrawing), "narrow: {narrow}");
        }
        gate.signal(1).unwrap();
        let addresses_then =
            [MapMode::Plain, MapMode::Discard].map(|mode| dynamic.map(mode, true).unwrap().gpu_address());
        assert_eq!(addresses_then, [addresses[1]; 2], "narrow: {narrow}");
        assert_eq!(fence.value(), WRAP);
        drop((fence, gate, dynamic, queue, device));
        clean();
    }
}

#[test]
fn a_gpu_without_64_bit_atomics_has_monitored_fences_by_itself() {
    os(|fake| {
        fake.make_32_bit();
        fake.adapter.features = 3;
    });
    let device = device();
    let fence = Fence::new(&device, WRAP - 1).unwrap();
    assert_eq!(fence.kind(), FenceKind::Monitored);
    for model in BY_KERNEL {
        let mut queue = queue(&device, model);
        let value = fence.value();
        queue
            .submit(|commands| {
                commands.wait(&fence, value)?;
                commands.signal(&fence, value + 1)?;
                commands.wait(&fence, value + 1)?;
                commands.signal(&fence, value + 2)
            })
            .unwrap();
        assert_eq!((fence.wait(value + 2, None), queue.progress(), fence.value()), (Ok(()), 2, value + 2));
    }
    let refused = Fence::with_options(&device, FenceOptions { kind: Some(FenceKind::Native), ..MONITORED }).err();
    assert_eq!(refused, Some(Error::NativeFencesDisabled));
    drop((fence, device));
    clean();
}

#[test]
fn on_a_gpu_without_64_bit_atomics_values_out_of_reach_are_refused_by_name() {
    os(|fake| fake.make_32_bit());
    let device = device();
    let last = 5 * WRAP + 7;
    let fence = Fence::new(&device, last).unwrap();
    let mut queue = queue(&device, SubmissionModel::Kernel);
    for far in [last + REACH + 1, last + WRAP, u64::MAX] {
        assert_eq!(fence.wait(far, Some(Duration::ZERO)), Err(Error::OutOfReach), "{far:#x}");
        assert_eq!(fence.signal(far), Err(Error::OutOfReach), "{far:#x}");
        assert_eq!(queue.submit(|commands| commands.signal(&fence, far)), Err(Error::OutOfReach), "{far:#x}");
        assert_eq!(queue.submit(|commands| commands.wait(&fence, far)), Err(Error::OutOfReach), "{far:#x}");
        assert_eq!(queue.enqueue_signal(&fence, far), Err(Error::OutOfReach), "{far:#x}");
        assert_eq!(queue.enqueue_wait(&fence, far), Err(Error::OutOfReach), "{far:#x}");
    }
    // A signal may not go further back either; what a wait is for may have been reached long ago.
    let back = last - REACH - 1;
    assert_eq!(queue.submit(|commands| commands.signal(&fence, back)), Err(Error::OutOfReach));
    assert_eq!((fence.value(), queue.last_submitted()), (last, 0));
    assert_eq!(queue.submit(|commands| commands.wait(&fence, 0)), Ok(1));
    assert_eq!(queue.submit(|commands| commands.signal(&fence, last + REACH)), Ok(2));
    assert_eq!((fence.wait(last + REACH, None), fence.value()), (Ok(()), last + REACH));
}

#[test]
fn whole_values_have_no_reach() {
    let device = device();
    let fence = Fence::with_options(&device, MONITORED).unwrap();
    let mut queue = queue(&device, SubmissionModel::Packet);
    assert_eq!(queue.submit(|commands| commands.signal(&fence, 9 * WRAP)), Ok(1));
    assert_eq!((fence.wait(9 * WRAP, None), fence.signal(u64::MAX - 1)), (Ok(()), Ok(())));
}

#[test]
fn an_old_upper_half_is_looked_at_again_before_a_value_is_refused() {
    os(|fake| fake.make_32_bit());
    let device = device();
    let fence = Fence::new(&device, WRAP - 1).unwrap();
    // The GPU has just passed the wrap, and the operating system has not looked.
    os(|fake| {
        let word = fake.objects.values().find_map(|object| match object {
            Object::Fence(fence) => Some(std::rc::Rc::clone(&fence.current)),
            _ => None,
        });
        word.unwrap().set(0, 5);
    });
    assert_eq!(fence.value(), 5, "the old upper half");
    let mut queue = queue(&device, SubmissionModel::Kernel);
    assert_eq!(queue.submit(|commands| commands.signal(&fence, WRAP + 6)), Ok(1));
    assert_eq!(fence.value(), WRAP + 6);
}

#[test]
fn flags_of_a_fence_reach_the_system() {
    let device = device();
    for kind in [FenceKind::Native, FenceKind::Monitored] {
        for (access, rights) in
            [(Access::Full, (true, true)), (Access::Wait, (false, true)), (Access::Signal, (true, false))]
        {
            for keeps_value in [false, true] {
                let options = FenceOptions { kind: Some(kind), access, keeps_value, initial: 4, ..MONITORED };
                let fence = Fence::with_options(&device, options).unwrap();
                let found = os(|fake| match fake.objects.get(&fence.handle()) {
                    Some(Object::Fence(it)) => ((it.may_signal, it.may_wait), it.native, it.shared, it.keeps_value),
                    _ => panic!("no fence"),
                });
                assert_eq!(found, (rights, kind == FenceKind::Native, false, keeps_value));
                assert_eq!(fence.value(), 4);
            }
        }
    }
}

#[test]
fn a_lost_device_is_named() {
    for model in BY_KERNEL {
        let device = device();
        let fence = Fence::with_options(&device, MONITORED).unwrap();
        let mut queue = queue(&device, model);
        for name in [
            "D3DKMTCreateSynchronizationObject2",
            "D3DKMTWaitForSynchronizationObjectFromGpu",
            "D3DKMTSignalSynchronizationObjectFromGpu",
            "D3DKMTSubmitWaitForSyncObjectsToHwQueue",
            "D3DKMTSubmitSignalSyncObjectsToHwQueue",
        ] {
            os(|fake| fake.fail_names = vec![(name, STATUS_DEVICE_REMOVED)]);
            let hardware = (model == SubmissionModel::Kernel) == name.contains("HwQueue");
            let lost = |of_queue: bool| if of_queue && hardware { Err(Error::DeviceLost) } else { Ok(()) };
            if name.contains("Create") {
                assert_eq!(Fence::with_options(&device, MONITORED).err(), Some(Error::DeviceLost));
                continue;
            }
            assert_eq!(queue.enqueue_wait(&fence, 0), lost(name.contains("Wait")), "{name}");
            assert_eq!(queue.enqueue_signal(&fence, 1), lost(name.contains("Signal")), "{name}");
        }
        os(|fake| fake.fail_names.clear());
    }
}
