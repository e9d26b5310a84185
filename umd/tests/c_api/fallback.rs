//! Queues whose doorbell cannot be connected.

use super::*;

/// Submits a fill and waits for it.
fn fill_and_wait(queue: QueueHandle, address: u64, pattern: u32) -> (i32, u64) {
    assert_eq!(campanile_begin(queue), 0);
    assert_eq!(campanile_record_fill(queue, address, 16, pattern), 0);
    let mut progress = 0;
    // SAFETY: a variable.
    let submitted = unsafe { campanile_submit(queue, &mut progress) };
    let waited = if submitted == 0 { campanile_queue_wait(queue, progress, NONE) } else { submitted };
    (waited, progress)
}

fn model_of(queue: QueueHandle) -> i32 {
    let mut model = 0;
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_queue_model(queue, &mut model) }, 0);
    model
}

/// The reason with space for `size` bytes, and the bytes that the whole text needs.
fn reason_of(queue: QueueHandle, size: usize) -> (String, u64) {
    let (mut text, mut needed) = (vec![0x7f_i8; size + 1], 0);
    // SAFETY: `size` bytes of the text, and a variable.
    let status = unsafe { campanile_queue_model_reason(queue, text.as_mut_ptr(), size as u64, &mut needed) };
    assert_eq!((status, text[size]), (0, 0x7f), "written behind the end");
    let bytes: Vec<u8> = text.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect();
    (String::from_utf8(bytes).expect("ASCII"), needed)
}

#[test]
fn a_queue_says_why_it_submits_as_it_does_in_as_many_bytes_as_there_are() {
    let all = All::open();
    let (text, needed) = reason_of(all.queue, 512);
    assert!(text.contains("user mode writes the ring") && needed == text.len() as u64 + 1, "{text}");
    for size in [1, 2, 10, text.len(), text.len() + 1] {
        assert_eq!(reason_of(all.queue, size), (text[..(size - 1).min(text.len())].to_owned(), needed));
    }
    let mut length = 0;
    // SAFETY: a variable; without bytes the text may be null.
    assert_eq!(unsafe { campanile_queue_model_reason(all.queue, null_mut(), 0, &mut length) }, 0);
    assert_eq!(length, needed);
    // SAFETY: a variable.
    let bad = unsafe { campanile_queue_model_reason(all.queue, null_mut(), 8, &mut length) };
    assert_eq!(bad, Status::BadPointer as i32);
    all.close();
}

/// A doorbell that cannot be connected again, and one that cannot be connected after its ring was resized: the caller sees nothing but the
/// other model.
#[test]
fn a_queue_whose_doorbell_does_not_connect_goes_on_through_the_kernel() {
    for resizes in [false, true] {
        let all = All::open();
        let (mut address, mut bytes) = (0, null_mut());
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_buffer_gpu_address(all.buffer, &mut address) }, 0);
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_buffer_map(all.buffer, &mut bytes) }, 0);
        let word = || {
            // SAFETY: the buffer's mapping, which the fake GPU writes in calls of this thread only.
            unsafe { bytes.cast::<u32>().read_volatile() }
        };
        assert_eq!((fill_and_wait(all.queue, address, 1), word()), ((0, 1), 1));
        os(|fake| {
            fake.calls.clear();
            fake.doorbell().status.set(0, RETRY);
            fake.fail_names = vec![("D3DKMTConnectDoorbell", STATUS_NO_MEMORY)];
        });
        if resizes {
            assert_eq!(campanile_queue_resize(all.queue, 256), 0);
            assert_eq!(model_of(all.queue), QueueModel::Kernel as i32);
            let (reason, _) = reason_of(all.queue, 512);
            assert!(reason.contains("because D3DKMTConnectDoorbell failed with STATUS_NO_MEMORY"), "{reason}");
        }
        for (value, pattern) in (2..=40).zip(2..) {
            assert_eq!((fill_and_wait(all.queue, address, pattern), word()), ((0, value), pattern));
            assert_eq!(model_of(all.queue), QueueModel::Kernel as i32);
        }
        let mut stats = CQueueStats { submissions: 0, doorbell_rings: 0, doorbell_reconnects: 0, notifications: 0 };
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_queue_stats(all.queue, &mut stats) }, 0);
        let through_kernel = os(|fake| fake.count("D3DKMTSubmitCommandToHwQueue"));
        assert_eq!((stats.submissions, through_kernel), (40, if resizes { 39 } else { 38 }));
        os(|fake| fake.fail_names.clear());
        assert_eq!(campanile_buffer_unmap(all.buffer), 0);
        all.close();
    }
}
