//! Which submission model a queue has, and why.

use super::*;

#[test]
fn kernel_submission_is_chosen_when_user_mode_is_not_enabled() {
    os(|fake| fake.adapter.features = 1);
    let device = device();
    let mut queue = queue(&device);
    assert_eq!(
        (queue.model(), queue.fallback_reason()),
        (SubmissionModel::Kernel, Some(Error::UserSubmissionDisabled))
    );
    let named = QueueOptions { model: Some(SubmissionModel::User), ..QueueOptions::default() };
    assert!(matches!(Queue::new(&device, Node::Copy, named), Err(Error::UserSubmissionDisabled)));
    for expected in 1..=500 {
        assert_eq!(queue.submit(nop), Ok(expected));
    }
    assert_eq!(os(|fake| fake.count("D3DKMTSubmitCommandToHwQueue")), 500);
    assert_eq!(queue.stats(), QueueStats { submissions: 500, ..QueueStats::default() });
    // A refused submission takes nothing.
    os(|fake| fake.fail_names = vec![("D3DKMTSubmitCommandToHwQueue", STATUS_NO_MEMORY)]);
    assert_eq!(queue.submit(nop), Err(Error::Status(STATUS_NO_MEMORY, "D3DKMTSubmitCommandToHwQueue")));
    os(|fake| fake.fail_names.clear());
    assert_eq!(queue.submit(nop), Ok(501));
    drop((queue, device));
    os(|fake| fake.assert_clean());
}

#[test]
fn kernel_submission_can_be_asked_for() {
    let device = device();
    let options = QueueOptions { model: Some(SubmissionModel::Kernel), ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Compute, options).unwrap();
    assert_eq!((queue.model(), queue.fallback_reason()), (SubmissionModel::Kernel, None));
    // The kernel learns of every command buffer that is done.
    assert!(os(|fake| !fake.hw_queue().user && !fake.hw_queue().native));
    queue.submit(nop).unwrap();
}

#[test]
fn packets_can_be_asked_for_and_are_chosen_without_hardware_scheduling() {
    let device = device();
    let options = QueueOptions { model: Some(SubmissionModel::Packet), ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Compute, options).unwrap();
    assert_eq!((queue.model(), queue.fallback_reason()), (SubmissionModel::Packet, None));
    for expected in 1..=500 {
        assert_eq!(queue.submit(nop), Ok(expected));
    }
    assert_eq!(queue.wait_progress(500), Ok(()));
    assert_eq!(os(|fake| fake.count("D3DKMTSubmitCommand")), 500);
    assert_eq!(os(|fake| fake.count("D3DKMTCreateHwContext")), 0);
    assert_eq!(queue.stats(), QueueStats { submissions: 500, ..QueueStats::default() });
    // A refused submission takes nothing.
    os(|fake| fake.fail_names = vec![("D3DKMTSubmitCommand", STATUS_NO_MEMORY)]);
    assert_eq!(queue.submit(nop), Err(Error::Status(STATUS_NO_MEMORY, "D3DKMTSubmitCommand")));
    os(|fake| fake.fail_names.clear());
    assert_eq!(queue.submit(nop), Ok(501));
    drop((queue, device));
    os(|fake| fake.assert_clean());
}

/// What D3DKMTCreateHwContext answers where hardware scheduling is not enabled is in no page, so nothing depends on it.
#[test]
fn without_hardware_scheduling_no_hardware_context_is_asked_for() {
    for told in [Some(false), None] {
        os(|fake| fake.hardware_scheduling = told);
        let device = device();
        let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).unwrap();
        let expected = (SubmissionModel::Packet, Some(Error::UserSubmissionDisabled));
        assert_eq!((queue.model(), queue.fallback_reason()), expected);
        assert!(queue.model_reason().to_string().contains("because hardware scheduling is not enabled"));
        assert_eq!(os(|fake| fake.count("D3DKMTCreateHwContext")), 0);
        queue.submit(nop).unwrap();
        drop((queue, device));
        os(|fake| fake.assert_clean());
    }
}

#[test]
fn a_hardware_context_that_is_refused_leaves_packets_with_the_reason() {
    for status in [STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER, STATUS_UNSUCCESSFUL] {
        let device = device();
        os(|fake| fake.fail_names = vec![("D3DKMTCreateHwContext", status)]);
        let mut chosen = Queue::new(&device, Node::Copy, QueueOptions::default()).unwrap();
        let reason = Error::Status(status, "D3DKMTCreateHwContext");
        assert_eq!((chosen.model(), chosen.fallback_reason()), (SubmissionModel::Packet, Some(reason)));
        assert!(chosen.model_reason().to_string().contains("because D3DKMTCreateHwContext failed with"));
        chosen.submit(nop).unwrap();
        let insists = QueueOptions { model: Some(SubmissionModel::Kernel), ..QueueOptions::default() };
        assert_eq!(Queue::new(&device, Node::Copy, insists).err(), Some(reason));
        os(|fake| fake.fail_names.clear());
        drop((chosen, device));
        os(|fake| fake.assert_clean());
    }
}
