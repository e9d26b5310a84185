//! Queues whose ring is replaced by one of another size.

use super::*;

#[test]
fn a_resized_ring_takes_the_old_ones_place_with_work_under_way_and_values_go_on() {
    let device = device();
    for model in [SubmissionModel::User, SubmissionModel::Kernel] {
        let options =
            QueueOptions { ring_entries: 128, command_bytes: 1 << 16, model: Some(model), ..QueueOptions::default() };
        let mut queue = Queue::new(&device, Node::Compute, options).unwrap();
        let mut value = queue.last_submitted();
        for (entries, count) in [(256, 5), (128, 300), (1024, 128), (128, 1000)] {
            for _ in 0..count {
                let next = queue.submit(nop).unwrap();
                assert_eq!(next, value + 1, "{model:?}");
                value = next;
            }
            queue.resize(entries).unwrap();
            assert_eq!((queue.progress(), queue.last_submitted()), (value, value), "{model:?}");
            // As many as the new ring has entries, without a wait.
            os(|fake| fake.gpu = false);
            for _ in 0..entries {
                value = queue.try_submit(nop).unwrap();
            }
            // The kernel's work is done when the call returns here.
            let full = matches!(queue.try_submit(nop), Err(Error::RingFull));
            assert_eq!(full, model == SubmissionModel::User, "{entries}");
            value += u64::from(!full);
            os(|fake| fake.gpu = true);
        }
        queue.wait_progress(value).unwrap();
        assert_eq!(queue.stats().submissions, value);
    }
    drop(device);
    os(|fake| fake.assert_clean());
}

#[test]
fn a_ring_that_does_not_end_is_not_resized_and_goes_on() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = queue(&device);
    queue.submit(|commands| commands.wait(&fence, 1)).unwrap();
    assert!(matches!(queue.resize(256), Err(Error::Timeout)));
    for wrong in [0, 64, 100, 129, 1 << 17, u32::MAX] {
        assert!(matches!(queue.resize(wrong), Err(Error::BadArgument(_))), "{wrong}");
    }
    fence.signal(1).unwrap();
    let value = queue.submit(nop).unwrap();
    queue.wait_progress(value).unwrap();
    queue.resize(256).unwrap();
    let value = queue.submit(nop).unwrap();
    queue.wait_progress(value).unwrap();
    assert_eq!((value, queue.stats().submissions), (3, 3));
    drop((queue, fence, device));
    os(|fake| fake.assert_clean());
}

/// The calls of a resizing.
fn calls_of_resizing(queue: &mut Queue) -> Vec<&'static str> {
    let before = os(|fake| fake.calls.len());
    queue.resize(256).unwrap();
    os(|fake| fake.calls[before..].to_vec())
}

#[test]
fn a_call_that_fails_while_a_ring_is_resized_leaves_the_queue_as_it_was_or_has_it_go_through_the_kernel() {
    let device = device();
    let names = calls_of_resizing(&mut queue(&device));
    let (mut same, mut kernel) = (0, 0);
    for (index, name) in names.iter().enumerate() {
        // Thunks that release something may not fail.
        if ["Destroy", "Unlock", "Free", "Evict"].iter().any(|word| name.contains(word)) {
            continue;
        }
        let mut queue = queue(&device);
        let value = queue.submit(nop).unwrap();
        os(|fake| fake.fail = Some((fake.calls.len() + index + 1, STATUS_INSUFFICIENT_RESOURCES)));
        let outcome = queue.resize(256);
        os(|fake| fake.fail = None);
        match (outcome, queue.submit(nop)) {
            (Err(_), Ok(next)) => {
                assert_eq!(next, value + 1, "{name}");
                queue.wait_progress(next).unwrap();
                queue.resize(256).unwrap();
                same += 1;
            }
            (Ok(()), Ok(next)) => {
                assert_eq!((next, queue.model(), *name), (value + 1, SubmissionModel::Kernel, "D3DKMTConnectDoorbell"));
                queue.wait_progress(next).unwrap();
                kernel += 1;
            }
            outcome => panic!("{name} failed: {outcome:?}"),
        }
    }
    assert!(same > 3 && kernel == 1, "{same} calls left the queue as it was, {kernel} had it go through the kernel");
    drop(device);
    os(|fake| fake.assert_clean());
}
