//! What a queue is made with, and what it says of its submissions when its device, its doorbell or its ring is lost.

mod fake;

use campanile_umd::*;
use fake::*;
use wddm_ddi::status::*;

const OPTIONS: QueueOptions =
    QueueOptions { ring_entries: 128, command_bytes: 4096, model: None, save_bytes: 4096, priority: 0 };

fn device() -> Device {
    Device::new(&Adapter::open(&THUNKS).expect("adapter")).expect("device")
}

fn queue(device: &Device) -> Queue {
    Queue::new(device, Node::Compute, OPTIONS).expect("queue")
}

fn nop(commands: &mut Recorder<'_>) -> Result<()> {
    commands.nop()
}

/// A queue with three submissions that are done and two that wait for a fence.
fn stopped(device: &Device, fence: &Fence) -> Queue {
    let mut queue = queue(device);
    (1..=3).for_each(|value| assert_eq!(queue.submit(nop), Ok(value)));
    queue.submit(|commands| commands.wait(fence, 1)).unwrap();
    queue.submit(nop).unwrap();
    queue.wait_progress(3).unwrap();
    queue
}

#[test]
fn a_queue_is_made_on_its_node_whatever_its_model() {
    for model in [None, Some(SubmissionModel::User), Some(SubmissionModel::Kernel), Some(SubmissionModel::Packet)] {
        os(|fake| fake.nodes.clear());
        let device = device();
        let queues = [Node::Copy, Node::Compute]
            .map(|node| Queue::new(&device, node, QueueOptions { model, ..OPTIONS }).expect("queue"));
        assert_eq!(os(|fake| fake.nodes.clone()), [1, 0], "{model:?}");
        drop(queues);
    }
}

#[test]
fn a_queue_has_its_priority_or_is_not_made() {
    use SubmissionModel::{Kernel, Packet, User};
    let device = device();
    let of = |model, priority| Queue::new(&device, Node::Compute, QueueOptions { model, priority, ..OPTIONS });
    for model in [None, Some(User), Some(Kernel), Some(Packet)] {
        drop(of(model, 0).expect("a queue"));
        assert_eq!(os(|fake| fake.priorities.len()), 0, "the normal one takes no call");
        drop(of(model, -7).expect("a queue"));
        assert_eq!(os(|fake| std::mem::take(&mut fake.priorities)), [-7], "{model:?}");
        os(|fake| fake.fail_names.push(("D3DKMTSetContextSchedulingPriority", STATUS_PRIVILEGE_NOT_HELD)));
        let objects = os(|fake| fake.objects.len());
        let refused = of(model, 8).err();
        let name = "D3DKMTSetContextSchedulingPriority";
        assert_eq!(refused, Some(Error::Status(STATUS_PRIVILEGE_NOT_HELD, name)), "{model:?}");
        assert_eq!(os(|fake| fake.objects.len()), objects, "every step is undone");
        os(|fake| fake.fail_names.clear());
    }
    assert!(os(|fake| fake.violations.is_empty()));
}

#[test]
fn the_clocks_of_gpu_and_processor_are_read_together() {
    let adapter = Adapter::open(&THUNKS).expect("adapter");
    let clocks = adapter.clocks().expect("clocks");
    assert_eq!((clocks.gpu, clocks.gpu_hz, clocks.processor), (5000, 1_000_000_000, 70));
}

#[test]
fn command_memory_has_256_mib_at_most() {
    let device = device();
    let of = |command_bytes| Queue::new(&device, Node::Compute, QueueOptions { command_bytes, ..OPTIONS });
    assert!(of(256 << 20).is_ok());
    for bytes in [0, 4095, 4097, (256 << 20) + 4096] {
        assert!(matches!(of(bytes), Err(Error::BadArgument(_))), "{bytes}");
    }
}

#[test]
fn the_kernel_is_asked_for_the_save_area_that_the_programs_of_a_queue_need() {
    let device = device();
    let text = ".workgroup 64, 1, 1\n.registers 3, 1, 1\n.shared 64\nexit";
    let program = device.create_program(&campanile_isa::assemble(text).expect("a program")).expect("it is valid");
    let subgroup = 24 + 64 * 16 + 8 + 32 * (3 * 4 + 8);
    assert_eq!(program.save_bytes(), 104 + 16 + 64 + 2 * subgroup);
    let of = |save_bytes, model| Queue::new(&device, Node::Compute, QueueOptions { save_bytes, model, ..OPTIONS });
    for model in [SubmissionModel::User, SubmissionModel::Kernel] {
        os(|fake| fake.save_sizes.clear());
        drop(of(program.save_bytes(), Some(model)).expect("a queue"));
        assert_eq!(os(|fake| fake.save_sizes.clone()), [program.save_bytes()], "{model:?}");
    }
    for bytes in [0, SAVE_BYTES_MAX + 1] {
        assert!(matches!(of(bytes, None), Err(Error::BadArgument(_))), "{bytes}");
    }
}

#[test]
fn what_is_seen_is_the_progress_of_submissions_and_stays_when_the_device_is_lost() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    let queue = stopped(&device, &fence);
    os(|fake| fake.run());
    assert_eq!((queue.progress(), queue.seen()), (3, 3));
    os(|fake| {
        let progress = fake.objects.values().find_map(|object| match object {
            Object::HwQueue(queue) => Some(&queue.progress),
            _ => None,
        });
        progress.expect("a queue").set(0, u64::MAX);
    });
    assert_eq!((queue.progress(), queue.seen()), (u64::MAX, 3), "the value that the loss of a device leaves is none");
}

#[test]
fn a_queue_that_has_failed_still_says_which_submissions_are_done() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = stopped(&device, &fence);
    os(|fake| fake.doorbell().status.set(0, 0x77));
    assert_eq!(queue.submit(nop), Err(Error::DoorbellStatus(0x77)));
    assert_eq!((queue.wait_progress(2), queue.wait_progress(3)), (Ok(()), Ok(())), "these were done before");
    assert_eq!(queue.wait_progress(4), Err(Error::DoorbellStatus(0x77)));
}

#[test]
fn a_recovered_queue_names_what_was_not_done_and_has_the_model_that_it_is_given() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = stopped(&device, &fence);
    let fresh = self::device();
    let unfinished = queue.recover(&fresh, Some(SubmissionModel::Kernel)).unwrap();
    assert_eq!((unfinished.first, unfinished.count), (4, 2));
    assert_eq!((queue.model(), queue.progress()), (SubmissionModel::Kernel, 0));
    assert_eq!(queue.submit(nop), Ok(1));
}

#[test]
fn a_connection_that_fails_is_no_ring() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = queue(&device);
    queue.submit(|commands| commands.wait(&fence, 1)).unwrap();
    os(|fake| {
        fake.doorbell().status.set(0, RETRY);
        fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_NO_MEMORY)];
    });
    assert_eq!((queue.submit(nop), queue.model()), (Ok(2), SubmissionModel::User), "the ring is blocked");
    let stats = queue.stats();
    assert_eq!((stats.submissions, stats.doorbell_rings), (2, 2), "one ring a submission");
}

#[test]
fn data_that_the_driver_left_alone_is_no_queue_number() {
    os(|fake| fake.adapter.caps |= 1);
    // Whichever allocation the ring is of the queue's, once the low half of its address, where an answer would have the number, is 0.
    for mapped_before in 0..4 {
        os(|fake| fake.next_address = (1 << 32) - mapped_before * 0x2_0000);
        let reason = queue(&device()).fallback_reason();
        assert!(matches!(reason, Some(Error::BadAnswer(_))), "{mapped_before}: {reason:?}");
    }
}

#[test]
fn commands_of_software_take_no_fence_of_another_adapter() {
    let (device, other) = (device(), Device::new(&Adapter::open_luid(&THUNKS, LUID_TWIN).unwrap()).unwrap());
    let foreign = Fence::new(&other, 0).unwrap();
    for model in [SubmissionModel::Kernel, SubmissionModel::Packet] {
        let options = QueueOptions { model: Some(model), ..OPTIONS };
        let mut queue = Queue::new(&device, Node::Compute, options).unwrap();
        let before = os(|fake| fake.calls.len());
        assert_eq!(queue.enqueue_signal(&foreign, 1), Err(Error::ForeignFence));
        assert_eq!(queue.enqueue_wait(&foreign, 1), Err(Error::ForeignFence));
        assert_eq!(os(|fake| fake.calls.len()), before, "no thunk is called");
    }
}
