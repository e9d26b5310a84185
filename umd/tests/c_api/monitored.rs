//! Monitored fences, queues that go through the kernel, and waits and signals of software.

use std::ptr::null_mut;

use campanile_umd::c_api::*;

use super::fake::*;
use super::{All, NONE, number};

const MONITORED: CFenceOptions = CFenceOptions {
    initial: 3,
    kind: CFenceKind::Monitored as i32,
    sharing: CSharing::Private as i32,
    access: FenceAccess::Full as i32,
    keeps_value: 0,
};

/// A fence with these properties.
fn fence_with(all: &All, options: &CFenceOptions) -> (i32, FenceHandle) {
    let mut fence = FenceHandle { id: 5 };
    // SAFETY: two variables.
    let status = unsafe { campanile_fence_create_with(all.device, options, &mut fence) };
    (status, fence)
}

fn kind_of(fence: FenceHandle) -> i32 {
    let mut kind = -1;
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_kind(fence, &mut kind) }, 0);
    kind
}

/// A queue of a model on the device.
fn queue_of(all: &All, model: QueueModel) -> QueueHandle {
    let mut queue = QueueHandle { id: 0 };
    let options = CQueueOptions { ring_entries: 0, command_bytes: 0, model: model as i32, save_bytes: 0 };
    // SAFETY: two variables.
    assert_eq!(unsafe { campanile_queue_create(all.device, 1, &options, &mut queue) }, 0);
    queue
}

#[test]
fn monitored_fences_order_queues_that_go_through_the_kernel() {
    let all = All::open();
    for model in [QueueModel::Kernel, QueueModel::Packet] {
        let ((status, gate), queue) = (fence_with(&all, &MONITORED), queue_of(&all, model));
        assert_eq!(
            (status, kind_of(gate), kind_of(all.fence)),
            (0, CFenceKind::Monitored as i32, CFenceKind::Native as i32)
        );
        let commands = [
            CCommand::NOP,
            CCommand { kind: CommandKind::Wait as i32, fence: gate, value: 4, ..CCommand::NOP },
            CCommand { kind: CommandKind::Signal as i32, fence: gate, value: 5, ..CCommand::NOP },
        ];
        let (mut progress, mut reached) = (0, 0);
        // SAFETY: three commands and a variable.
        assert_eq!(unsafe { campanile_submit_commands(queue, commands.as_ptr(), 3, &mut progress) }, 0);
        assert_eq!(campanile_queue_enqueue_wait(queue, gate, 6), 0);
        assert_eq!(campanile_queue_enqueue_signal(queue, gate, 7), 0);
        for (signal, then, done) in [(4, 5, 2), (6, 7, 2)] {
            assert_eq!(campanile_fence_signal(gate, signal), 0);
            let mut value = 0;
            // SAFETY: a variable.
            assert_eq!(unsafe { campanile_fence_value(gate, &mut value) }, 0);
            // SAFETY: a variable.
            assert_eq!(unsafe { campanile_queue_progress(queue, &mut reached) }, 0);
            assert_eq!((value, reached, progress), (then, done, 2), "{model:?}");
        }
        assert_eq!((campanile_fence_wait(gate, 7, NONE), campanile_queue_wait(queue, progress, NONE)), (0, 0));
        // A recording that is dropped, or refused, holds no fence.
        assert_eq!(campanile_begin(queue), 0);
        assert_eq!(campanile_record_wait(queue, gate, 7), 0);
        assert_eq!(campanile_queue_enqueue_wait(queue, gate, 7), number(Status::Recording));
        assert_eq!(campanile_queue_enqueue_signal(queue, gate, 8), number(Status::Recording));
        assert_eq!(campanile_cancel(queue), 0);
        let refused = [commands[1], CCommand { kind: 99, ..CCommand::NOP }];
        // SAFETY: two commands.
        let status = unsafe { campanile_submit_commands(queue, refused.as_ptr(), 2, null_mut()) };
        assert_eq!(status, number(Status::BadArgument));
        let destroyed = |fake: &Fake| fake.count("D3DKMTDestroySynchronizationObject");
        let before = os(|fake| destroyed(fake));
        assert_eq!((campanile_fence_destroy(gate), os(|fake| destroyed(fake))), (0, before + 1));
        assert_eq!(campanile_queue_destroy(queue), 0);
    }
    all.close();
}

#[test]
fn monitored_fences_and_waits_of_software_are_refused_where_they_cannot_work() {
    let all = All::open();
    let (_, fence) = fence_with(&all, &MONITORED);
    let refused = number(Status::NeedsKernelSubmission);
    assert_eq!(campanile_queue_enqueue_wait(all.queue, all.fence, 0), refused);
    assert_eq!(campanile_queue_enqueue_signal(all.queue, fence, 9), refused);
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(campanile_record_wait(all.queue, fence, 0), refused);
    assert_eq!(campanile_record_signal(all.queue, fence, 9), refused);
    assert_eq!(campanile_cancel(all.queue), 0);
    let (_, signaller) = fence_with(&all, &CFenceOptions { access: FenceAccess::Signal as i32, ..MONITORED });
    let (_, waiter) = fence_with(&all, &CFenceOptions { access: FenceAccess::Wait as i32, ..MONITORED });
    assert_eq!(campanile_fence_wait(signaller, 3, 0), number(Status::SignalOnlyFence));
    assert_eq!(campanile_fence_signal(waiter, 4), number(Status::WaitOnlyFence));
    assert_eq!((campanile_fence_signal(signaller, 4), campanile_fence_wait(waiter, 3, 0)), (0, 0));
    for one in [fence, signaller, waiter] {
        assert_eq!(campanile_fence_destroy(one), 0);
    }
    all.close();
}

#[test]
fn a_gpu_without_64_bit_atomics_has_fences_with_a_reach() {
    os(|fake| fake.make_32_bit());
    let all = All::open();
    assert_eq!(kind_of(all.fence), CFenceKind::Monitored as i32);
    let far = 1 << 31;
    assert_eq!(campanile_fence_signal(all.fence, far), number(Status::OutOfReach));
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(campanile_record_signal(all.queue, all.fence, far), number(Status::OutOfReach));
    assert_eq!(campanile_record_signal(all.queue, all.fence, far - 1), 0);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, 0);
    assert_eq!(campanile_fence_wait(all.fence, far - 1, NONE), 0);
    let native = CFenceOptions { kind: CFenceKind::Native as i32, ..MONITORED };
    assert_eq!(fence_with(&all, &native).0, number(Status::NativeFencesDisabled));
    all.close();
}

#[test]
fn wrong_arguments_to_fences_of_a_kind_are_named_and_change_nothing() {
    let all = All::open();
    let (bad, calls) = (number(Status::BadArgument), os(|fake| fake.calls.len()));
    for wrong in [-1, 3, i32::MAX, i32::MIN] {
        for options in [
            CFenceOptions { kind: wrong, ..MONITORED },
            CFenceOptions { sharing: wrong, ..MONITORED },
            CFenceOptions { access: wrong, ..MONITORED },
        ] {
            let (status, fence) = fence_with(&all, &options);
            assert_eq!((status, fence.id), (bad, 5), "{wrong}");
        }
    }
    let mut fence = FenceHandle { id: 5 };
    // SAFETY: null is allowed.
    let status = unsafe { campanile_fence_create_with(all.device, std::ptr::null(), &mut fence) };
    assert_eq!(status, number(Status::BadPointer));
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_fence_create_with(all.device, &MONITORED, null_mut()) }, number(Status::BadPointer));
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_fence_kind(all.fence, null_mut()) }, number(Status::BadPointer));
    let mut kind = -7;
    for id in [0, u64::MAX, all.device.id, all.fence.id ^ 1 << 40] {
        let none = number(Status::BadHandle);
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_fence_kind(FenceHandle { id }, &mut kind) }, none);
        assert_eq!(campanile_queue_enqueue_wait(QueueHandle { id }, all.fence, 0), none);
        assert_eq!(campanile_queue_enqueue_signal(all.queue, FenceHandle { id }, 0), none);
    }
    assert_eq!((kind, fence.id, os(|fake| fake.calls.len())), (-7, 5, calls));
    all.close();
}
