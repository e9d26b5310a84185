//! What a submission leaves in memory, and how the driver answers what it finds there.

mod fake;
#[path = "submission/models.rs"]
mod models;
#[path = "submission/resizing.rs"]
mod resizing;
#[path = "submission/waits.rs"]
mod waits;

use std::{cell::RefCell, rc::Rc, time::Duration};

use campanile_hw::doorbell::DoorbellValue;
use campanile_umd::*;
use fake::*;
use wddm_ddi::status::*;

fn device() -> Device {
    Device::new(&Adapter::open(&THUNKS).expect("adapter")).expect("device")
}

fn queue(device: &Device) -> Queue {
    Queue::new(
        device,
        Node::Compute,
        QueueOptions { ring_entries: 128, command_bytes: 4096, ..QueueOptions::default() },
    )
    .expect("queue")
}

fn nop(commands: &mut Recorder<'_>) -> Result<()> {
    commands.nop()
}

fn set_status(status: u64) {
    os(|fake| fake.doorbell().status.set(0, status));
}

#[test]
fn opens_our_adapter_among_others_and_closes_every_handle() {
    let adapter = Adapter::open(&THUNKS).expect("adapter");
    assert_eq!((adapter.luid(), adapter.vram(), adapter.doorbells()), (LUID_OURS, 256 << 20, 4));
    assert!(adapter.native_fences() && adapter.user_mode_submission());
    drop(adapter);
    os(|fake| fake.assert_clean());
}

#[test]
fn adapter_of_another_version_or_driver_is_named() {
    assert!(matches!(Adapter::open_luid(&THUNKS, LUID_OTHER), Err(Error::NoAdapter)));
    os(|fake| fake.adapter.version = 99);
    assert!(matches!(Adapter::open(&THUNKS), Err(Error::Version(99))));
    os(|fake| fake.adapter.magic = 0);
    assert!(matches!(Adapter::open(&THUNKS), Err(Error::NoAdapter)));
    os(|fake| fake.assert_clean());
}

#[test]
fn work_of_every_kind_runs_and_ends_with_its_progress_value() {
    let device = device();
    let (a, b) = (
        device.create_buffer(8192, Placement::System).unwrap(),
        device.create_buffer(8192, Placement::VramVisible).unwrap(),
    );
    let (from, to) = (a.map().unwrap(), b.map().unwrap());
    from.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = queue(&device);
    let value = queue
        .submit(|commands| {
            commands.wait(&fence, 5)?;
            commands.copy(b.gpu_address(), a.gpu_address(), 8)?;
            commands.copy_rows(&CopyRows {
                source: b.gpu_address(),
                destination: b.gpu_address() + 64,
                row_bytes: 2,
                rows: 2,
                source_pitch: 4,
                destination_pitch: 2,
            })?;
            commands.fill(b.gpu_address() + 128, 8, 0xabcd_ef01)?;
            commands.timestamp(b.gpu_address() + 256)?;
            commands.nop()?;
            commands.signal(&fence, 9)
        })
        .unwrap();
    os(|fake| fake.run());
    assert_eq!((queue.progress(), value, fence.value()), (0, 1, 0), "the fence blocks the queue");
    fence.signal(5).unwrap();
    fence.wait(9, None).unwrap();
    queue.wait_progress(value).unwrap();
    assert_eq!((queue.progress(), fence.value()), (1, 9));
    let mut bytes = [0; 264];
    to.read(0, &mut bytes).unwrap();
    assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[64..68], [1, 2, 5, 6]);
    assert_eq!(bytes[128..136], [0x01, 0xef, 0xcd, 0xab, 0x01, 0xef, 0xcd, 0xab]);
    assert_eq!(bytes[256..264], [0x55; 8]);
    drop((from, to, a, b, fence, queue, device));
    os(|fake| fake.assert_clean());
}

#[test]
fn connected_doorbell_needs_no_thunk() {
    let device = device();
    let mut queue = queue(&device);
    let before = os(|fake| fake.calls.len());
    for expected in 1..=100 {
        assert_eq!(queue.submit(nop), Ok(expected));
    }
    assert_eq!(os(|fake| fake.calls.len()), before);
    let stats = queue.stats();
    assert_eq!((stats.submissions, stats.doorbell_rings, stats.doorbell_reconnects), (100, 100, 0));
}

#[test]
fn everything_is_in_memory_when_the_kernel_is_called() {
    let device = device();
    let mut queue = queue(&device);
    queue.submit(nop).unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    os(|fake| {
        fake.doorbell().status.set(0, NOTIFY);
        let seen = seen.clone();
        fake.hook = Some(Box::new(move |fake, name| {
            let doorbell = fake.doorbell();
            let write = fake.allocation(doorbell.control).memory.get(0);
            let entry = fake.allocation(doorbell.ring).memory.get(32);
            let rung = DoorbellValue::from_bits(doorbell.doorbell.get(0));
            let last = fake.bytes(entry + 16, 16);
            let rung = (rung.write_pointer(), rung.queue());
            seen.borrow_mut().push((name, doorbell.last_queued.get(0), write, rung, last[0], last[8]));
        }));
    });
    assert_eq!(queue.submit(nop), Ok(2));
    os(|fake| fake.hook = None);
    // Announced, published, rung; the buffer ends with PROGRESS 2; then the driver is told.
    assert_eq!(*seen.borrow(), [("D3DKMTNotifyWorkSubmission", 2, 2, (2, 0), 0x06, 2)]);
    assert_eq!(queue.stats().notifications, 1);
}

#[test]
fn retry_reconnects_and_rings_again_as_often_as_it_takes() {
    let device = device();
    let mut queue = queue(&device);
    for times in [1usize, 2, 7, 100] {
        set_status(RETRY);
        let before = queue.stats();
        os(|fake| {
            fake.calls.clear();
            fake.connect = std::iter::repeat_n(RETRY, times - 1).chain([CONNECTED]).collect();
            // A connection turns the page: what was rung before is not there.
            fake.hook = Some(Box::new(|fake, _| fake.doorbell().doorbell.set(0, 0)));
        });
        let value = queue.submit(nop).unwrap();
        os(|fake| {
            fake.hook = None;
            assert_eq!(fake.calls, vec!["D3DKMTConnectDoorbell"; times]);
            assert_eq!(fake.doorbell().doorbell.get(0), value, "rung after the last connection");
        });
        let after = queue.stats();
        assert_eq!(after.doorbell_reconnects - before.doorbell_reconnects, times as u64);
        assert_eq!(after.doorbell_rings - before.doorbell_rings, 1 + times as u64);
        queue.wait_progress(value).unwrap();
    }
}

#[test]
fn retry_may_end_in_notification() {
    let device = device();
    let mut queue = queue(&device);
    set_status(RETRY);
    os(|fake| {
        fake.calls.clear();
        fake.connect = [RETRY, NOTIFY].into();
    });
    queue.submit(nop).unwrap();
    let expected = ["D3DKMTConnectDoorbell", "D3DKMTConnectDoorbell", "D3DKMTNotifyWorkSubmission"];
    assert_eq!(os(|fake| fake.calls.clone()), expected);
}

#[test]
fn abort_is_device_lost_and_stays_so() {
    let device = device();
    let mut lost = queue(&device);
    set_status(ABORT);
    assert_eq!(lost.submit(nop), Err(Error::DeviceLost));
    let calls = os(|fake| fake.calls.len());
    set_status(CONNECTED);
    assert_eq!(lost.submit(nop), Err(Error::DeviceLost));
    assert_eq!(lost.stats().submissions, 1, "a lost queue takes nothing more");
    assert_eq!(os(|fake| fake.calls.len()), calls);
    assert_eq!(lost.wait_progress(1), Err(Error::DeviceLost));
    // Recovery: every object is made anew.
    drop((lost, device));
    os(|fake| fake.assert_clean());
    let device = self::device();
    let mut fresh = queue(&device);
    let value = fresh.submit(nop).unwrap();
    fresh.wait_progress(value).unwrap();
}

#[test]
fn abort_after_retry_and_unknown_status_end_the_queue() {
    let device = device();
    let mut first = queue(&device);
    set_status(RETRY);
    os(|fake| fake.connect = [ABORT].into());
    assert_eq!(first.submit(nop), Err(Error::DeviceLost));
    drop(first);
    let mut second = queue(&device);
    set_status(0x1_0000_0000);
    assert_eq!(second.submit(nop), Err(Error::DoorbellStatus(0x1_0000_0000)));
    assert_eq!(second.submit(nop), Err(Error::DoorbellStatus(0x1_0000_0000)));
}

#[test]
fn failing_reconnection_names_the_thunk_or_the_lost_device() {
    let device = device();
    let options = QueueOptions { model: Some(SubmissionModel::User), ..QueueOptions::default() };
    let mut first = Queue::new(&device, Node::Compute, options).expect("a queue that insists on its model");
    set_status(RETRY);
    os(|fake| fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_UNSUCCESSFUL)]);
    assert_eq!(first.submit(nop), Err(Error::Status(STATUS_UNSUCCESSFUL, "D3DKMTConnectDoorbell")));
    os(|fake| fake.fail_names.clear());
    assert_eq!(first.submit(nop), Err(Error::Status(STATUS_UNSUCCESSFUL, "D3DKMTConnectDoorbell")));
    drop(first);
    let mut second = queue(&device);
    set_status(RETRY);
    os(|fake| {
        fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_UNSUCCESSFUL)];
        fake.lost = true;
    });
    assert_eq!(second.submit(nop), Err(Error::DeviceLost));
}

#[test]
fn a_doorbell_that_does_not_connect_again_hands_its_queue_to_the_kernel() {
    const REASON: Error = Error::Status(STATUS_NO_MEMORY, "D3DKMTConnectDoorbell");
    let device = device();
    let mut queue = queue(&device);
    queue.submit(nop).unwrap();
    set_status(RETRY);
    os(|fake| {
        fake.calls.clear();
        fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_NO_MEMORY)];
    });
    assert_eq!(queue.submit(nop), Ok(2), "the submission that found the doorbell gone");
    assert_eq!((queue.model(), queue.fallback_reason()), (SubmissionModel::Kernel, Some(REASON)));
    assert_eq!(queue.progress(), 2, "what was in the ring is done");
    os(|fake| {
        let wanted = [
            "D3DKMTConnectDoorbell",
            "D3DKMTNotifyWorkSubmission",
            "D3DKMTCreateHwQueue",
            "D3DKMTDestroyDoorbell",
            "D3DKMTDestroyHwQueue",
        ];
        let calls: Vec<_> = fake.calls.iter().copied().filter(|call| wanted.contains(call)).collect();
        assert_eq!(calls, wanted);
    });
    for value in 3..=300 {
        assert_eq!(queue.submit(nop), Ok(value), "progress values go on");
    }
    (1..=300).for_each(|value| queue.wait_progress(value).unwrap());
    assert_eq!(os(|fake| fake.count("D3DKMTSubmitCommandToHwQueue")), 298);
    let stats = queue.stats();
    assert_eq!((stats.submissions, stats.doorbell_rings, stats.doorbell_reconnects), (300, 2, 1));
    drop(queue);
    drop(device);
    os(|fake| fake.assert_clean());
}

#[test]
fn a_queue_whose_ring_is_blocked_goes_through_the_kernel_when_the_ring_is_done() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = queue(&device);
    queue.submit(|commands| commands.wait(&fence, 1)).unwrap();
    set_status(RETRY);
    os(|fake| fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_NO_MEMORY)]);
    assert_eq!((queue.submit(nop), queue.model()), (Ok(2), SubmissionModel::User));
    assert_eq!((queue.submit(nop), queue.model()), (Ok(3), SubmissionModel::User), "asked once more, at once");
    fence.signal(1).unwrap();
    queue.wait_progress(3).unwrap();
    assert_eq!((queue.submit(nop), queue.model()), (Ok(4), SubmissionModel::Kernel));
    queue.wait_progress(4).unwrap();
}

#[test]
fn a_queue_for_which_there_is_no_memory_keeps_its_ring_and_says_so_until_there_is_some() {
    const NO_MEMORY: Error = Error::Status(STATUS_NO_MEMORY, "D3DKMTNotifyWorkSubmission");
    let device = device();
    let mut queue = queue(&device);
    let first = queue.submit(nop).unwrap();
    queue.wait_progress(first).unwrap();
    set_status(RETRY);
    os(|fake| {
        fake.gpu = false;
        fake.calls.clear();
        fake.fail_names =
            vec![("D3DKMTConnectDoorbell", STATUS_NO_MEMORY), ("D3DKMTNotifyWorkSubmission", STATUS_NO_MEMORY)];
    });
    assert_eq!((queue.submit(nop), queue.model()), (Ok(2), SubmissionModel::User), "the ring has it");
    for _ in 0..3 {
        assert_eq!((queue.submit(nop), queue.wait_progress(2)), (Err(NO_MEMORY), Err(NO_MEMORY)));
        assert_eq!(queue.wait_progress(first), Ok(()), "what is done needs no memory");
    }
    assert_eq!((queue.last_submitted(), queue.progress()), (2, 1), "what is refused takes nothing");
    assert!(os(|fake| fake.count("D3DKMTDestroyDoorbell") == 0), "the ring stays");
    os(|fake| {
        fake.gpu = true;
        fake.fail_names.clear();
    });
    queue.wait_progress(2).unwrap();
    assert_eq!((queue.submit(nop), queue.model()), (Ok(3), SubmissionModel::Kernel));
    queue.wait_progress(3).unwrap();
    assert_eq!(os(|fake| fake.count("D3DKMTSubmitCommandToHwQueue")), 1);
    drop((queue, device));
    os(|fake| fake.assert_clean());
}

#[test]
fn a_queue_that_cannot_be_recreated_yet_keeps_its_ring() {
    const NO_QUEUE: Error = Error::Status(STATUS_NO_MEMORY, "D3DKMTCreateHwQueue");
    let device = device();
    let mut queue = queue(&device);
    set_status(RETRY);
    os(|fake| {
        fake.fail_names =
            vec![("D3DKMTConnectDoorbell", STATUS_UNSUCCESSFUL), ("D3DKMTCreateHwQueue", STATUS_NO_MEMORY)];
    });
    assert_eq!((queue.submit(nop), queue.wait_progress(1)), (Ok(1), Ok(())), "it runs from the ring");
    assert_eq!((queue.submit(nop), queue.last_submitted()), (Err(NO_QUEUE), 1));
    os(|fake| fake.fail_names.clear());
    assert_eq!((queue.submit(nop), queue.model()), (Ok(2), SubmissionModel::Kernel));
    queue.wait_progress(2).unwrap();
    drop((queue, device));
    os(|fake| fake.assert_clean());
}

#[test]
fn a_resized_ring_whose_doorbell_does_not_connect_hands_its_queue_to_the_kernel() {
    const REASON: Error = Error::Status(STATUS_UNSUCCESSFUL, "D3DKMTConnectDoorbell");
    let device = device();
    let mut queue = queue(&device);
    (1..=5).for_each(|value| assert_eq!(queue.submit(nop), Ok(value)));
    os(|fake| fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_UNSUCCESSFUL)]);
    assert_eq!((queue.resize(256), queue.model()), (Ok(()), SubmissionModel::Kernel));
    assert_eq!((queue.fallback_reason(), queue.progress()), (Some(REASON), 5));
    (6..=300).for_each(|value| assert_eq!(queue.submit(nop), Ok(value), "progress values go on"));
    queue.wait_progress(300).unwrap();
    let stats = queue.stats();
    assert_eq!((stats.submissions, stats.doorbell_rings, stats.notifications), (300, 5, 0));
    let insists = QueueOptions { model: Some(SubmissionModel::User), ..QueueOptions::default() };
    os(|fake| fake.fail_names.clear());
    let mut other = Queue::new(&device, Node::Copy, insists).unwrap();
    os(|fake| fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_UNSUCCESSFUL)]);
    assert_eq!((other.resize(256), other.submit(nop)), (Err(REASON), Err(REASON)));
    os(|fake| fake.fail_names.clear());
    drop((queue, other, device));
    os(|fake| fake.assert_clean());
}

#[test]
fn ring_wraps_and_a_full_ring_waits_for_one_submission() {
    let device = device();
    let mut queue =
        Queue::new(&device, Node::Copy, QueueOptions { ring_entries: 128, ..QueueOptions::default() }).unwrap();
    for _ in 0..128 {
        queue.submit(nop).unwrap();
    }
    assert_eq!(queue.try_submit(nop), Err(Error::RingFull));
    assert_eq!(os(|fake| fake.count("D3DKMTWaitForSynchronizationObjectFromCpu")), 0);
    // The next one waits in the kernel, not for ever awake.
    assert_eq!(queue.submit(nop), Ok(129));
    assert_eq!(os(|fake| fake.count("D3DKMTWaitForSynchronizationObjectFromCpu")), 1);
    for expected in 130..=1000 {
        os(|fake| fake.run_step(1));
        assert_eq!(queue.submit(nop), Ok(expected));
    }
    queue.wait_progress(1000).unwrap();
    os(|fake| assert_eq!(fake.doorbell().read, 1000));
}

#[test]
fn one_finished_submission_frees_one_ring_entry() {
    let device = device();
    let mut queue =
        Queue::new(&device, Node::Copy, QueueOptions { ring_entries: 128, ..QueueOptions::default() }).unwrap();
    for _ in 0..128 {
        queue.submit(nop).unwrap();
    }
    os(|fake| fake.run_step(1));
    assert_eq!(queue.try_submit(nop), Ok(129));
    assert_eq!(queue.try_submit(nop), Err(Error::RingFull));
}

#[test]
fn command_memory_wraps_with_submissions_of_every_size() {
    let device = device();
    let target = device.create_buffer(65536, Placement::System).unwrap();
    let view = target.map().unwrap();
    let mut queue = queue(&device);
    let mut waits = 0;
    for round in 0u32..2000 {
        let packets = round * 7 % 60 + 1;
        let value = queue
            .submit(|commands| {
                (0..packets).try_for_each(|at| commands.fill(target.gpu_address() + u64::from(at) * 4, 4, round + at))
            })
            .unwrap();
        if round % 13 == 0 {
            queue.wait_progress(value).unwrap();
            waits += 1;
            for at in 0..packets {
                let mut word = [0; 4];
                view.read(at as usize * 4, &mut word).unwrap();
                assert_eq!(u32::from_le_bytes(word), round + at);
            }
        }
    }
    assert!(waits > 0 && os(|fake| fake.count("D3DKMTWaitForSynchronizationObjectFromCpu")) > waits);
    queue.wait_progress(2000).unwrap();
}

#[test]
fn full_command_memory_is_reported_or_waited_for() {
    let device = device();
    let mut queue = queue(&device);
    let big = |commands: &mut Recorder<'_>| (0..100).try_for_each(|_| commands.nop());
    assert_eq!(queue.try_submit(big), Ok(1));
    assert_eq!(queue.try_submit(big), Ok(2));
    assert_eq!(queue.try_submit(big), Err(Error::CommandMemoryFull));
    assert_eq!(queue.stats().submissions, 2);
    assert_eq!(queue.submit(big), Ok(3));
    queue.wait_progress(3).unwrap();
}

#[test]
fn a_submission_may_take_all_of_command_memory_and_not_more() {
    let device = device();
    let mut queue = queue(&device);
    for _ in 0..3 {
        // 255 packets and PROGRESS fill 4096 bytes from wherever the ring stands.
        queue.submit(nop).unwrap();
        queue.submit(|commands| (0..255).try_for_each(|_| commands.nop())).unwrap();
        assert_eq!(queue.submit(|commands| (0..256).try_for_each(|_| commands.nop())), Err(Error::CommandsTooLarge));
    }
    queue.wait_progress(6).unwrap();
}

#[test]
fn refused_commands_and_failing_closures_leave_the_queue_as_it_was() {
    let device = device();
    let mut queue = queue(&device);
    let before = os(|fake| (fake.doorbell().last_queued.get(0), fake.doorbell().doorbell.get(0)));
    let range = Error::BadPacket(campanile_hw::packet::BadPacket::Range);
    let alignment = Error::BadPacket(campanile_hw::packet::BadPacket::Alignment);
    assert_eq!(queue.submit(|commands| commands.copy(0, 0, 0)), Err(range));
    assert_eq!(queue.submit(|commands| commands.copy(1 << 48, 0, 1)), Err(range));
    assert_eq!(queue.submit(|commands| commands.copy(0, u64::MAX, 1 << 40)), Err(range));
    assert_eq!(queue.submit(|commands| commands.fill(2, 4, 0)), Err(alignment));
    assert_eq!(queue.submit(|commands| commands.fill(0, 6, 0)), Err(alignment));
    assert_eq!(queue.submit(|commands| commands.fill(0, 0, 0)), Err(range));
    assert_eq!(queue.submit(|commands| commands.fill(0, u64::MAX - 3, 0)), Err(range));
    assert_eq!(queue.submit(|commands| commands.timestamp(4)), Err(alignment));
    assert_eq!(queue.submit(|_| Err(Error::Timeout)), Err(Error::Timeout));
    assert_eq!(os(|fake| (fake.doorbell().last_queued.get(0), fake.doorbell().doorbell.get(0))), before);
    assert_eq!(queue.stats(), QueueStats::default());
    // A refused command in the middle can be dropped by the closure; the rest goes.
    let value = queue.submit(|commands| {
        commands.nop()?;
        assert_eq!(commands.copy(0, 0, 0), Err(range));
        assert_eq!(commands.recorded(), 16);
        commands.nop()
    });
    queue.wait_progress(value.unwrap()).unwrap();
}

#[test]
fn long_copies_and_fills_are_split_into_packets_the_hardware_takes() {
    let device = device();
    let mut queue = queue(&device);
    queue
        .submit(|commands| {
            commands.copy(0, 1 << 32, (256 << 20) * 2 + 1)?;
            assert_eq!(commands.recorded(), 3 * 48);
            commands.fill(0, (4 << 30) * 2 + 4, 0)?;
            assert_eq!(commands.recorded(), 3 * 48 + 3 * 32);
            Err(Error::Timeout)
        })
        .unwrap_err();
}

#[test]
fn a_doorbell_that_does_not_connect_falls_back_to_the_kernel() {
    let device = device();
    for (failing, reason) in [
        ("D3DKMTConnectDoorbell", Error::Status(STATUS_UNSUCCESSFUL, "D3DKMTConnectDoorbell")),
        ("D3DKMTCreateDoorbell", Error::Status(STATUS_UNSUCCESSFUL, "D3DKMTCreateDoorbell")),
    ] {
        os(|fake| fake.fail_names = vec![(failing, STATUS_UNSUCCESSFUL)]);
        let mut queue = queue(&device);
        os(|fake| fake.fail_names.clear());
        assert_eq!((queue.model(), queue.fallback_reason()), (SubmissionModel::Kernel, Some(reason)));
        queue.submit(nop).unwrap();
    }
    os(|fake| fake.connect = [ABORT].into());
    assert_eq!(queue(&device).model(), SubmissionModel::Kernel);
    os(|fake| {
        fake.connect = [ABORT].into();
        fake.lost = true;
    });
    let options = QueueOptions::default();
    assert!(matches!(Queue::new(&device, Node::Copy, options), Err(Error::DeviceLost)), "no model helps a lost device");
    drop(device);
    os(|fake| fake.assert_clean());
}

#[test]
fn a_global_doorbell_is_told_which_queue_rings() {
    os(|fake| {
        fake.adapter.caps |= 1;
        fake.queue_number = Some(0xabcd);
    });
    let mut queue = queue(&device());
    assert_eq!((queue.model(), queue.fallback_reason()), (SubmissionModel::User, None));
    for submission in 1..=3 {
        queue.submit(nop).unwrap();
        assert_eq!(os(|fake| fake.doorbell().doorbell.get(0)), 0xabcd << 48 | submission);
    }
}

#[test]
fn a_dedicated_doorbell_is_told_the_write_pointer_alone() {
    os(|fake| fake.queue_number = Some(7));
    let mut queue = queue(&device());
    queue.submit(nop).unwrap();
    assert_eq!(os(|fake| fake.doorbell().doorbell.get(0)), 1);
}

#[test]
fn a_global_doorbell_is_not_rung_blindly() {
    os(|fake| fake.adapter.caps |= 1);
    for answer in [None, Some(1 << 16), Some(u32::MAX)] {
        os(|fake| fake.queue_number = answer);
        let reason = queue(&device()).fallback_reason();
        assert!(matches!(reason, Some(Error::BadAnswer(_))), "{answer:?}: {reason:?}");
    }
}

#[test]
fn a_progress_value_that_was_never_queued_is_not_believed() {
    let device = device();
    let mut queue = queue(&device);
    for _ in 0..128 {
        queue.submit(nop).unwrap();
    }
    os(|fake| fake.hw_queue().progress.set(0, 1 << 40));
    assert!(matches!(queue.submit(nop), Err(Error::BadAnswer(_))));
    os(|fake| fake.lost = true);
    assert_eq!(queue.submit(nop), Err(Error::DeviceLost));
    assert_eq!(queue.stats().submissions, 128);
}
