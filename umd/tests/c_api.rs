//! The C API: the way through, and every kind of wrong argument.

mod fake;
#[path = "c_api/fallback.rs"]
mod fallback;
#[path = "c_api/monitored.rs"]
mod monitored;

use std::{
    collections::HashSet,
    ffi::{CStr, c_void},
    ptr::{null_mut, without_provenance_mut},
};

use campanile_umd::c_api::*;
use fake::*;
use wddm_ddi::{kmt::Thunks, status::*};

const NONE: u64 = u64::MAX;

fn number(status: Status) -> i32 {
    status as i32
}

fn table() -> *const c_void {
    (&raw const THUNKS).cast()
}

/// Everything opened once.
struct All {
    adapter: AdapterHandle,
    device: DeviceHandle,
    buffer: BufferHandle,
    fence: FenceHandle,
    queue: QueueHandle,
}

impl All {
    fn open() -> Self {
        let mut adapter = AdapterHandle { id: 0 };
        // SAFETY: a table and a variable.
        assert_eq!(unsafe { campanile_adapter_open(table(), &mut adapter) }, 0);
        let mut device = DeviceHandle { id: 0 };
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_device_create(adapter, &mut device) }, 0);
        let mut buffer = BufferHandle { id: 0 };
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_buffer_create(device, 4096, 0, &mut buffer) }, 0);
        let mut fence = FenceHandle { id: 0 };
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_fence_create(device, 0, &mut fence) }, 0);
        let mut queue = QueueHandle { id: 0 };
        let options = CQueueOptions { ring_entries: 128, command_bytes: 4096, model: 0, save_bytes: 0 };
        // SAFETY: two variables.
        assert_eq!(unsafe { campanile_queue_create(device, 1, &options, &mut queue) }, 0);
        Self { adapter, device, buffer, fence, queue }
    }

    /// In the order that a careless caller may choose.
    fn close(self) {
        assert_eq!(campanile_adapter_close(self.adapter), 0);
        assert_eq!(campanile_device_destroy(self.device), 0);
        assert_eq!(campanile_queue_destroy(self.queue), 0);
        assert_eq!(campanile_fence_destroy(self.fence), 0);
        assert_eq!(campanile_buffer_destroy(self.buffer), 0);
        os(|fake| fake.assert_clean());
    }
}

#[test]
fn work_goes_through() {
    let all = All::open();
    let (mut address, mut bytes) = (0, null_mut());
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_gpu_address(all.buffer, &mut address) }, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_map(all.buffer, &mut bytes) }, 0);
    assert_eq!(campanile_fence_signal(all.fence, 3), 0);
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(campanile_record_wait(all.queue, all.fence, 3), 0);
    assert_eq!(campanile_record_fill(all.queue, address, 16, 0x0102_0304), 0);
    assert_eq!(campanile_record_copy(all.queue, address + 64, address, 4), 0);
    let rows = CCopyRows {
        source: address,
        destination: address + 128,
        row_bytes: 4,
        rows: 2,
        source_pitch: 4,
        destination_pitch: 8,
    };
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_record_copy_rows(all.queue, &rows) }, 0);
    assert_eq!(campanile_record_timestamp(all.queue, address + 256), 0);
    assert_eq!(campanile_record_nop(all.queue), 0);
    assert_eq!(campanile_record_signal(all.queue, all.fence, 4), 0);
    let mut progress = 0;
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_submit(all.queue, &mut progress) }, 0);
    assert_eq!(progress, 1);
    assert_eq!(campanile_fence_wait(all.fence, 4, NONE), 0);
    assert_eq!(campanile_queue_wait(all.queue, 1, 1_000_000_000), 0);
    // SAFETY: the buffer's mapping.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), 4096) };
    assert_eq!(
        (&bytes[..4], &bytes[64..68], &bytes[136..140]),
        (&[4, 3, 2, 1][..], &[4, 3, 2, 1][..], &[4, 3, 2, 1][..])
    );
    let (mut value, mut reached, mut model) = (0, 0, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_value(all.fence, &mut value) }, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_queue_progress(all.queue, &mut reached) }, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_queue_model(all.queue, &mut model) }, 0);
    assert_eq!((value, reached, model), (4, 1, QueueModel::User as i32));
    let (mut mapped, mut last) = (std::ptr::null(), 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_mapping(all.fence, &mut mapped) }, 0);
    // SAFETY: the fence lives.
    assert_eq!(unsafe { mapped.read_volatile() }, 4);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_queue_last_submitted(all.queue, &mut last) }, 0);
    assert_eq!(last, 1);
    let mut stats = CQueueStats { submissions: 0, doorbell_rings: 0, doorbell_reconnects: 0, notifications: 0 };
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_queue_stats(all.queue, &mut stats) }, 0);
    assert_eq!((stats.submissions, stats.doorbell_rings), (1, 1));
    assert_eq!(campanile_queue_resize(all.queue, 1024), 0);
    for wrong in [0, 127, 1000, 1 << 17] {
        assert_eq!(campanile_queue_resize(all.queue, wrong), number(Status::BadArgument), "{wrong}");
    }
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(campanile_queue_resize(all.queue, 1024), number(Status::Recording));
    assert_eq!(campanile_cancel(all.queue), 0);
    assert_eq!(campanile_queue_resize(QueueHandle { id: 0 }, 1024), number(Status::BadHandle));
    assert_eq!(campanile_device_check(all.device), 0);
    assert_eq!(campanile_buffer_unmap(all.buffer), 0);
    all.close();
}

#[test]
fn the_frequency_of_timestamps_is_told() {
    let all = All::open();
    let mut hertz = 0;
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_adapter_clock(all.adapter, &mut hertz) }, 0);
    assert_eq!(hertz, os(|fake| fake.adapter.clock_hz));
    // SAFETY: a variable.
    let wrong = unsafe { campanile_adapter_clock(AdapterHandle { id: 0 }, &mut hertz) };
    assert_eq!(wrong, number(Status::BadHandle));
    all.close();
}

#[test]
fn null_pointers_are_named_and_change_nothing() {
    let all = All::open();
    let bad = number(Status::BadPointer);
    let mut adapter = AdapterHandle { id: 77 };
    let mut empty = vec![0usize; Thunks::NAMES.len()];
    empty[0] = 1;
    let calls = os(|fake| fake.calls.len());
    // SAFETY: null is allowed everywhere, and so is a table with null entries.
    unsafe {
        assert_eq!(campanile_adapter_open(null_mut(), &mut adapter), bad);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_adapter_open(empty.as_ptr().cast(), &mut adapter) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_adapter_open(empty.as_ptr().wrapping_byte_add(1).cast(), &mut adapter) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_adapter_open(table(), null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_adapter_open_luid(table(), 7, 1, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_adapter_clock(all.adapter, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_device_create(all.adapter, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_buffer_create(all.device, 1, 0, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_buffer_gpu_address(all.buffer, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_buffer_map(all.buffer, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_fence_create(all.device, 0, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_fence_value(all.fence, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_queue_create(all.device, 0, null_mut(), null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_queue_progress(all.queue, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_queue_model(all.queue, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_queue_stats(all.queue, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_queue_last_submitted(all.queue, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_fence_mapping(all.fence, null_mut()) }, bad);
    // SAFETY: as above.
    assert_eq!(unsafe { campanile_record_copy_rows(all.queue, null_mut()) }, bad);
    assert_eq!((adapter.id, os(|fake| fake.calls.len())), (77, calls));
    all.close();
}

#[test]
fn stale_foreign_and_invented_handles_are_refused() {
    let all = All::open();
    let bad = number(Status::BadHandle);
    for id in [
        0,
        1 << 31,
        u64::MAX,
        u64::MAX >> 1,
        0xffff_ffff,
        all.fence.id ^ (1 << 32),
        all.fence.id ^ (1 << 63),
        all.buffer.id,
    ] {
        assert_eq!(campanile_fence_signal(FenceHandle { id }, 1), bad, "{id:#x}");
        assert_eq!(campanile_fence_destroy(FenceHandle { id }), bad, "{id:#x}");
        assert_eq!(campanile_record_signal(all.queue, FenceHandle { id }, 1), bad, "{id:#x}");
    }
    for id in [0, u64::MAX, all.fence.id, all.device.id] {
        assert_eq!(campanile_adapter_close(AdapterHandle { id }), bad);
        assert_eq!(campanile_begin(QueueHandle { id }), bad);
        assert_eq!(campanile_buffer_unmap(BufferHandle { id }), bad);
        assert_eq!(campanile_queue_wait(QueueHandle { id }, 0, 0), bad);
    }
    assert_eq!(campanile_device_check(DeviceHandle { id: all.adapter.id }), bad);
    // A handle dies with its object, also when the slot is used again.
    assert_eq!(campanile_fence_destroy(all.fence), 0);
    let mut again = FenceHandle { id: 0 };
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_create(all.device, 0, &mut again) }, 0);
    assert_eq!(campanile_fence_destroy(all.fence), bad);
    assert_eq!(campanile_fence_signal(all.fence, 9), bad);
    All { fence: again, ..all }.close();
}

#[test]
fn numbers_out_of_range_are_refused() {
    let all = All::open();
    let bad = number(Status::BadArgument);
    let mut buffer = BufferHandle { id: 5 };
    for placement in [-1, 5, i32::MAX, i32::MIN] {
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_buffer_create(all.device, 4096, placement, &mut buffer) }, bad);
    }
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_create(all.device, 0, 0, &mut buffer) }, bad);
    let mut queue = QueueHandle { id: 5 };
    for node in [-1, 2, i32::MAX] {
        // SAFETY: a variable; no options.
        assert_eq!(unsafe { campanile_queue_create(all.device, node, null_mut(), &mut queue) }, bad);
    }
    for (ring_entries, command_bytes, model) in [(3, 0, 0), (0, 5, 0), (0, 0, 4), (0, 0, -1)] {
        let options = CQueueOptions { ring_entries, command_bytes, model, save_bytes: 0 };
        // SAFETY: two variables.
        assert_eq!(unsafe { campanile_queue_create(all.device, 0, &options, &mut queue) }, bad);
    }
    assert_eq!((buffer.id, queue.id), (5, 5));
    assert_eq!(campanile_queue_wait(all.queue, 1, NONE), bad);
    all.close();
}

#[test]
fn recording_has_a_beginning_and_an_end() {
    let all = All::open();
    let none = number(Status::NotRecording);
    assert_eq!(campanile_record_nop(all.queue), none);
    assert_eq!(campanile_cancel(all.queue), none);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, none);
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(campanile_begin(all.queue), number(Status::Recording));
    assert_eq!(campanile_record_copy(all.queue, 0, 0, 0), number(Status::BadPacket));
    assert_eq!(campanile_cancel(all.queue), 0);
    assert_eq!(campanile_begin(all.queue), 0);
    for _ in 0..255 {
        assert_eq!(campanile_record_nop(all.queue), 0);
    }
    assert_eq!(campanile_record_copy(all.queue, 0, 4096, 1), number(Status::CommandsTooLarge));
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, 0);
    assert_eq!(campanile_queue_wait(all.queue, 1, NONE), 0);
    all.close();
}

#[test]
fn a_recording_that_must_not_wait_says_what_is_full() {
    let all = All::open();
    let waits = || os(|fake| fake.count("D3DKMTWaitForSynchronizationObjectFromCpu"));
    // Half of the command memory each time; PROGRESS makes it more.
    let half = || (0..128).map(|_| campanile_record_nop(all.queue)).find(|status| *status != 0).unwrap_or_default();
    assert_eq!((campanile_try_begin(all.queue), half()), (0, 0));
    assert_eq!(campanile_try_begin(all.queue), number(Status::Recording));
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, 0);
    assert_eq!((campanile_try_begin(all.queue), half()), (0, number(Status::CommandMemoryFull)));
    assert_eq!(campanile_cancel(all.queue), 0);
    assert_eq!(waits(), 0);
    // The same where waiting is allowed.
    assert_eq!((campanile_begin(all.queue), half()), (0, 0));
    assert_eq!(waits(), 1);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, 0);
    assert_eq!(campanile_queue_wait(all.queue, 2, NONE), 0);
    for _ in 0..128 {
        assert_eq!(campanile_try_begin(all.queue), 0);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, 0);
    }
    assert_eq!(campanile_try_begin(all.queue), number(Status::RingFull));
    assert_eq!(campanile_queue_wait(all.queue, 130, NONE), 0);
    all.close();
}

#[test]
fn commands_in_one_call_do_what_the_functions_do() {
    let all = All::open();
    let (mut address, mut bytes) = (0, null_mut());
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_gpu_address(all.buffer, &mut address) }, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_map(all.buffer, &mut bytes) }, 0);
    let fence = all.fence;
    assert_eq!(campanile_fence_signal(fence, 3), 0);
    let of = |kind: CommandKind| CCommand { kind: kind as i32, ..CCommand::NOP };
    let commands = [
        CCommand { fence, value: 3, ..of(CommandKind::Wait) },
        CCommand { destination: address, size: 16, pattern: 0x0102_0304, ..of(CommandKind::Fill) },
        CCommand { destination: address + 64, source: address, size: 4, ..of(CommandKind::Copy) },
        CCommand {
            destination: address + 128,
            source: address,
            row_bytes: 4,
            rows: 2,
            source_pitch: 4,
            destination_pitch: 8,
            ..of(CommandKind::CopyRows)
        },
        CCommand { destination: address + 256, ..of(CommandKind::Timestamp) },
        CCommand::NOP,
        CCommand { fence, value: 4, ..of(CommandKind::Signal) },
    ];
    let mut progress = 0;
    // SAFETY: an array and a variable.
    let status =
        unsafe { campanile_submit_commands(all.queue, commands.as_ptr(), commands.len() as u32, &mut progress) };
    assert_eq!((status, progress), (0, 1));
    assert_eq!(campanile_fence_wait(fence, 4, NONE), 0);
    // SAFETY: the buffer's mapping.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), 4096) };
    for at in [0, 64, 128, 136] {
        assert_eq!(bytes[at..at + 4], [4, 3, 2, 1], "{at}");
    }
    // SAFETY: no commands and no interest in the value.
    assert_eq!(unsafe { campanile_submit_commands(all.queue, std::ptr::null(), 0, null_mut()) }, 0);
    assert_eq!(campanile_queue_wait(all.queue, 2, NONE), 0);
    all.close();
}

#[test]
fn one_wrong_command_and_nothing_is_submitted() {
    let all = All::open();
    let wrong = [
        (CCommand { kind: 7, ..CCommand::NOP }, Status::BadArgument),
        (CCommand { kind: -1, ..CCommand::NOP }, Status::BadArgument),
        (CCommand { kind: CommandKind::Copy as i32, ..CCommand::NOP }, Status::BadPacket),
        (CCommand { kind: CommandKind::Signal as i32, ..CCommand::NOP }, Status::BadHandle),
    ];
    let submit = |commands: *const CCommand, count| {
        // SAFETY: as many commands as the callers below have, or a pointer that is refused.
        unsafe { campanile_submit_commands(all.queue, commands, count, null_mut()) }
    };
    for (command, status) in wrong {
        assert_eq!(submit([CCommand::NOP, command].as_ptr(), 2), number(status), "{}", command.kind);
    }
    let commands = [CCommand::NOP; 2];
    assert_eq!(submit(std::ptr::null(), 1), number(Status::BadPointer));
    assert_eq!(submit(commands.as_ptr().wrapping_byte_add(1), 1), number(Status::BadPointer));
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(submit(commands.as_ptr(), 1), number(Status::Recording));
    assert_eq!(campanile_cancel(all.queue), 0);
    let mut last = 9;
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_queue_last_submitted(all.queue, &mut last) }, 0);
    assert_eq!(last, 0);
    all.close();
}

unsafe extern "C" fn note(context: *mut c_void, event: *const CQueueEvent) {
    // SAFETY: the context of the only tracer that uses this function.
    let events = unsafe { &*context.cast::<std::cell::RefCell<Vec<CQueueEvent>>>() };
    // SAFETY: good during the call.
    events.borrow_mut().push(unsafe { *event });
}

#[test]
fn a_tracer_is_told_what_happens_until_it_is_taken_away() {
    let all = All::open();
    let events = std::cell::RefCell::new(Vec::<CQueueEvent>::new());
    let context = (&raw const events).cast_mut().cast();
    // SAFETY: the events outlive the tracer, which is taken away below, and the queue stays on this thread.
    assert_eq!(unsafe { campanile_queue_set_tracer(all.queue, Some(note), context) }, 0);
    let mut object = 0;
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_object(all.fence, &mut object) }, 0);
    let mut queue_object = 0;
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_queue_object(all.queue, &mut queue_object) }, 0);
    assert!(object != 0 && queue_object != 0 && object != queue_object);
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(campanile_record_wait(all.queue, all.fence, 0), 0);
    assert_eq!(campanile_record_signal(all.queue, all.fence, 1), 0);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, 0);
    // SAFETY: null ends the tracing.
    assert_eq!(unsafe { campanile_queue_set_tracer(all.queue, None, null_mut()) }, 0);
    // SAFETY: no commands.
    assert_eq!(unsafe { campanile_submit_commands(all.queue, std::ptr::null(), 0, null_mut()) }, 0);
    let event = |kind: EventKind, fence, value, rung| CQueueEvent { kind: kind as i32, fence, value, rung };
    assert_eq!(
        *events.borrow(),
        [
            event(EventKind::WaitQueued, object, 0, 0),
            event(EventKind::SignalQueued, object, 1, 0),
            event(EventKind::Submitted, 0, 1, 1),
        ]
    );
    assert_eq!(campanile_queue_wait(all.queue, 2, NONE), 0);
    all.close();
}

#[test]
fn only_windows_has_thunks_of_its_own() {
    assert_eq!(campanile_thunks().is_null(), !cfg!(windows));
}

#[test]
fn mapping_twice_gives_one_mapping() {
    let all = All::open();
    let (mut first, mut second) = (null_mut(), null_mut());
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_map(all.buffer, &mut first) }, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_map(all.buffer, &mut second) }, 0);
    assert!(first == second && !first.is_null());
    assert_eq!(campanile_buffer_unmap(all.buffer), 0);
    assert_eq!(campanile_buffer_unmap(all.buffer), number(Status::NotMapped));
    all.close();
}

#[test]
fn failures_of_the_system_come_through_as_its_status() {
    let all = All::open();
    let mut device = DeviceHandle { id: 5 };
    os(|fake| fake.fail_names = vec![("D3DKMTCreateDevice", STATUS_NO_MEMORY)]);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_device_create(all.adapter, &mut device) }, STATUS_NO_MEMORY.0);
    os(|fake| fake.fail_names.clear());
    assert_eq!(device.id, 5);
    let mut adapter = AdapterHandle { id: 5 };
    // SAFETY: a table and a variable.
    assert_eq!(unsafe { campanile_adapter_open_luid(table(), 8, 0, &mut adapter) }, number(Status::NoAdapter));
    os(|fake| fake.lost = true);
    assert_eq!(campanile_device_check(all.device), number(Status::DeviceLost));
    assert_eq!(campanile_fence_wait(all.fence, 1, NONE), number(Status::DeviceLost));
    os(|fake| fake.lost = false);
    assert_eq!(campanile_fence_wait(all.fence, 1, 0), number(Status::Timeout));
    all.close();
}

#[test]
fn a_lost_device_says_why_and_its_queue_goes_on_on_another() {
    let all = All::open();
    let (mut loss, mut fresh, mut first, mut count) = (9, DeviceHandle { id: 0 }, 0, 0);
    // SAFETY: a variable.
    assert_eq!((unsafe { campanile_device_loss(all.device, &mut loss) }, loss), (0, Loss::None as i32));
    os(|fake| fake.lost = true);
    // SAFETY: a variable.
    assert_eq!((unsafe { campanile_device_loss(all.device, &mut loss) }, loss), (0, Loss::Reset as i32));
    os(|fake| fake.lost = false);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_device_replace(all.device, &mut fresh) }, 0);
    assert_eq!(campanile_begin(all.queue), 0);
    for model in [-1, 4] {
        // SAFETY: variables.
        let status = unsafe { campanile_queue_recover(all.queue, fresh, model, &mut first, &mut count) };
        assert_eq!(status, number(Status::BadArgument));
    }
    // SAFETY: null is refused.
    let status = unsafe { campanile_queue_recover(all.queue, fresh, 0, null_mut(), &mut count) };
    assert_eq!(status, number(Status::BadPointer));
    // SAFETY: variables.
    assert_eq!(unsafe { campanile_queue_recover(all.queue, fresh, 0, &mut first, &mut count) }, 0);
    assert_eq!(count, 0);
    // The recording went with the queue as it was.
    assert_eq!(campanile_begin(all.queue), 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_submit(all.queue, &mut first) }, 0);
    // The queue keeps what it is on.
    assert_eq!(campanile_device_destroy(fresh), 0);
    all.close();
}

#[test]
fn every_status_has_its_own_text_and_any_number_has_one() {
    let text = |status| {
        // SAFETY: a text with its end, for ever.
        unsafe { CStr::from_ptr(campanile_status_text(status)) }.to_str().unwrap()
    };
    let texts: HashSet<_> = (0..=number(Status::OutOfReach)).map(text).collect();
    assert_eq!(texts.len(), 30);
    assert!(!texts.contains(text(30)) && !text(i32::MAX).is_empty());
    assert!(text(STATUS_NO_MEMORY.0).contains("NTSTATUS"));
}

#[test]
fn an_object_in_use_is_busy() {
    let all = All::open();
    let (fence, queue) = (all.fence, all.queue);
    let waits = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = waits.clone();
    os(|fake| {
        fake.hook = Some(Box::new(move |fake, name| {
            if name == "D3DKMTWaitForSynchronizationObjectFromCpu" {
                // As another thread would, while the first is in the kernel.
                assert_eq!(campanile_fence_destroy(fence), number(Status::Busy));
                assert_eq!(campanile_begin(queue), 0);
                assert_eq!(campanile_record_signal(queue, fence, 1), 0);
                // SAFETY: null is allowed.
                assert_eq!(unsafe { campanile_submit(queue, null_mut()) }, 0);
                fake.run();
                seen.set(seen.get() + 1);
            }
        }));
    });
    assert_eq!(campanile_fence_wait(fence, 1, NONE), 0);
    assert_eq!(waits.get(), 1);
    os(|fake| fake.hook = None);
    all.close();
}

#[test]
fn handles_of_many_threads_do_not_meet() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let all = All::open();
                    for slot in 0..512 {
                        // A generation that no slot has reached.
                        assert_eq!(campanile_begin(QueueHandle { id: slot | 1 << 63 }), number(Status::BadHandle));
                    }
                    assert_eq!(campanile_begin(all.queue), 0);
                    assert_eq!(campanile_record_nop(all.queue), 0);
                    // SAFETY: null is allowed.
                    assert_eq!(unsafe { campanile_submit(all.queue, null_mut()) }, 0);
                    assert_eq!(campanile_queue_wait(all.queue, 1, NONE), 0);
                    all.close();
                }
            });
        }
    });
}

/// A shared fence and a kernel handle of it.
fn shared(all: &All, access: FenceAccess) -> (FenceHandle, *mut c_void) {
    let (mut fence, mut handle) = (FenceHandle { id: 0 }, null_mut());
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_create_shared(all.device, 7, &mut fence) }, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_share(fence, access as i32, &mut handle) }, 0);
    assert!(!handle.is_null());
    (fence, handle)
}

/// Status and fence of an opening.
fn open(all: &All, handle: *mut c_void, access: i32) -> (i32, FenceHandle) {
    let mut fence = FenceHandle { id: 0 };
    // SAFETY: a variable.
    let status = unsafe { campanile_fence_open(all.device, handle, access, &mut fence) };
    assert_eq!(status == 0, fence.id != 0);
    (status, fence)
}

#[test]
fn a_fence_is_shared_by_a_kernel_handle() {
    let all = All::open();
    let (fence, handle) = shared(&all, FenceAccess::Full);
    let (status, full) = open(&all, handle, FenceAccess::Full as i32);
    assert_eq!(status, 0);
    let (status, waiter) = open(&all, handle, FenceAccess::Wait as i32);
    assert_eq!(status, 0);
    assert_eq!(campanile_handle_close(all.device, handle), 0);
    assert_eq!(campanile_fence_signal(full, 8), 0);
    for one in [fence, full, waiter] {
        assert_eq!(campanile_fence_wait(one, 8, 0), 0);
    }
    let refused = number(Status::WaitOnlyFence);
    assert_eq!(campanile_fence_signal(waiter, 9), refused);
    assert_eq!(campanile_begin(all.queue), 0);
    assert_eq!(campanile_record_signal(all.queue, waiter, 9), refused);
    assert_eq!(campanile_record_wait(all.queue, waiter, 8), 0);
    assert_eq!(campanile_cancel(all.queue), 0);
    let mut more = null_mut();
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_share(waiter, FenceAccess::Full as i32, &mut more) }, refused);
    assert!(more.is_null());
    for one in [fence, full, waiter] {
        assert_eq!(campanile_fence_destroy(one), 0);
    }
    all.close();
}

#[test]
fn a_fence_for_several_adapters_is_shared_like_any_other() {
    let all = All::open();
    let (mut fence, mut handle) = (FenceHandle { id: 0 }, null_mut());
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_create_cross_adapter(all.device, 7, &mut fence) }, 0);
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_share(fence, FenceAccess::Full as i32, &mut handle) }, 0);
    let (status, opened) = open(&all, handle, FenceAccess::Full as i32);
    assert_eq!(status, 0);
    assert_eq!((campanile_handle_close(all.device, handle), campanile_fence_signal(opened, 8)), (0, 0));
    assert_eq!(campanile_fence_wait(fence, 8, 0), 0);
    for one in [fence, opened] {
        assert_eq!(campanile_fence_destroy(one), 0);
    }
    // SAFETY: null is refused.
    let nowhere = unsafe { campanile_fence_create_cross_adapter(all.device, 0, null_mut()) };
    assert_eq!(nowhere, number(Status::BadPointer));
    let mut stays = FenceHandle { id: 5 };
    // SAFETY: a variable.
    let no_device = unsafe { campanile_fence_create_cross_adapter(DeviceHandle { id: 0 }, 1, &mut stays) };
    assert_eq!((no_device, stays.id), (number(Status::BadHandle), 5));
    all.close();
}

#[test]
fn wrong_arguments_to_sharing_are_named_and_change_nothing() {
    let all = All::open();
    let (fence, handle) = shared(&all, FenceAccess::Wait);
    let calls = os(|fake| fake.calls.len());
    let bad = number(Status::BadPointer);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_fence_create_shared(all.device, 0, null_mut()) }, bad);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_fence_share(fence, 1, null_mut()) }, bad);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_fence_open(all.device, handle, 1, null_mut()) }, bad);
    let (mut stays, mut place) = (FenceHandle { id: 5 }, without_provenance_mut::<c_void>(6));
    // SAFETY: a pointer that is refused before it is used.
    assert_eq!(unsafe { campanile_fence_share(fence, 1, (&raw mut place).wrapping_byte_add(1)) }, bad);
    for access in [-1, 3, i32::MAX, i32::MIN] {
        // SAFETY: a variable.
        let status = unsafe { campanile_fence_share(fence, access, &mut place) };
        assert_eq!((status, open(&all, handle, access).0), (number(Status::BadArgument), number(Status::BadArgument)));
    }
    let none = number(Status::BadHandle);
    for id in [0, u64::MAX, all.queue.id, all.fence.id ^ 1 << 40] {
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_fence_share(FenceHandle { id }, 1, &mut place) }, none);
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_fence_create_shared(DeviceHandle { id }, 1, &mut stays) }, none);
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_fence_open(DeviceHandle { id }, handle, 1, &mut stays) }, none);
        assert_eq!(campanile_handle_close(DeviceHandle { id }, handle), none);
    }
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_fence_share(all.fence, 1, &mut place) }, number(Status::NotShared));
    assert_eq!((stays.id, place.addr(), os(|fake| fake.calls.len())), (5, 6, calls));
    for wrong in
        [null_mut(), without_provenance_mut(3), without_provenance_mut(usize::MAX), handle.wrapping_byte_add(1)]
    {
        assert_eq!(open(&all, wrong, 1).0, STATUS_INVALID_HANDLE.0);
        assert_eq!(campanile_handle_close(all.device, wrong), STATUS_INVALID_HANDLE.0);
    }
    assert_eq!(campanile_handle_close(all.device, handle), 0);
    assert_eq!(campanile_handle_close(all.device, handle), STATUS_INVALID_HANDLE.0);
    assert_eq!(open(&all, handle, 0).0, STATUS_INVALID_HANDLE.0);
    assert_eq!(campanile_fence_destroy(fence), 0);
    all.close();
}

/// A dynamic buffer with a map of it.
fn dynamic_map(dynamic: DynamicHandle, mode: i32, wait: i32) -> (i32, ContentsHandle, u64) {
    let (mut contents, mut address, mut gpu) = (ContentsHandle { id: 0 }, null_mut(), 0);
    // SAFETY: three variables.
    let status = unsafe { campanile_dynamic_map(dynamic, mode, wait, &mut contents, &mut address, &mut gpu) };
    assert_eq!(status == 0, !address.is_null());
    (status, contents, gpu)
}

#[test]
fn dynamic_buffers_are_renamed_while_work_uses_them() {
    let all = All::open();
    let mut dynamic = DynamicHandle { id: 0 };
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_dynamic_create(all.device, 4096, 0, 2, &mut dynamic) }, 0);
    let (status, first, first_gpu) = dynamic_map(dynamic, 2, 0);
    assert_eq!(status, 0);
    assert_eq!(campanile_contents_use_until(first, all.fence, 1), 0);
    assert_eq!(campanile_contents_unmap(first), 0);
    assert_eq!(dynamic_map(dynamic, 0, 0).0, number(Status::WasStillDrawing));
    let (status, same, same_gpu) = dynamic_map(dynamic, 1, 0);
    assert_eq!((status, same_gpu), (0, first_gpu), "what is not overwritten is there at once");
    assert_eq!(campanile_contents_unmap(same), 0);
    // Contents that could not be made leave their place to others.
    os(|fake| fake.fail_names = vec![("D3DKMTCreateAllocation2", STATUS_NO_MEMORY)]);
    assert_eq!(dynamic_map(dynamic, 2, 0).0, STATUS_NO_MEMORY.0);
    os(|fake| fake.fail_names.clear());
    let (status, second, second_gpu) = dynamic_map(dynamic, 2, 0);
    assert_eq!(status, 0);
    assert_ne!(second_gpu, first_gpu);
    assert_eq!(dynamic_map(dynamic, 2, 0).0, number(Status::WasStillDrawing));
    os(|fake| fake.fail_names = vec![("D3DKMTWaitForSynchronizationObjectFromCpu", STATUS_NO_MEMORY)]);
    assert_eq!(dynamic_map(dynamic, 2, 1).0, STATUS_NO_MEMORY.0, "a map that waits asks the system to");
    os(|fake| fake.fail_names.clear());
    assert_eq!(campanile_fence_signal(all.fence, 1), 0);
    let (status, third, third_gpu) = dynamic_map(dynamic, 2, 1);
    assert_eq!((status, third_gpu), (0, first_gpu));
    assert_eq!(dynamic_map(dynamic, 2, 1).0, number(Status::AllMapped));
    assert_eq!(campanile_dynamic_destroy(dynamic), 0);
    assert_eq!(campanile_contents_unmap(second), 0);
    assert_eq!(campanile_contents_unmap(third), 0);
    all.close();
}

#[test]
fn wrong_arguments_to_dynamic_buffers_are_named() {
    let all = All::open();
    let mut dynamic = DynamicHandle { id: 0 };
    for (size, placement, contents, expected) in [
        (0, 0, 2, Status::BadArgument),
        (4096, 5, 2, Status::BadArgument),
        (4096, -1, 2, Status::BadArgument),
        (4096, 2, 2, Status::NotMappable),
        (4096, 0, 0, Status::BadArgument),
        (4096, 0, u32::MAX, Status::BadArgument),
    ] {
        // SAFETY: a variable.
        let status = unsafe { campanile_dynamic_create(all.device, size, placement, contents, &mut dynamic) };
        assert_eq!(status, number(expected), "{size} {placement} {contents}");
    }
    // SAFETY: null is allowed.
    let status = unsafe { campanile_dynamic_create(all.device, 4096, 0, 2, null_mut()) };
    assert_eq!(status, number(Status::BadPointer));
    assert_eq!(dynamic_map(DynamicHandle { id: all.buffer.id }, 0, 0).0, number(Status::BadHandle));
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_dynamic_create(all.device, 4096, 0, 2, &mut dynamic) }, 0);
    assert_eq!(dynamic_map(dynamic, 3, 0).0, number(Status::BadArgument));
    let none = ContentsHandle { id: NONE };
    assert_eq!(campanile_contents_unmap(none), number(Status::BadHandle));
    assert_eq!(campanile_contents_use_until(none, all.fence, 1), number(Status::BadHandle));
    let (_, contents, _) = dynamic_map(dynamic, 0, 0);
    assert_eq!(campanile_contents_use_until(contents, FenceHandle { id: NONE }, 1), number(Status::BadHandle));
    assert_eq!(campanile_contents_unmap(contents), 0);
    assert_eq!(campanile_contents_unmap(contents), number(Status::BadHandle));
    assert_eq!(campanile_dynamic_destroy(dynamic), 0);
    all.close();
}

#[test]
fn buffers_are_offered_and_reclaimed() {
    let all = All::open();
    let mut discarded = -1;
    assert_eq!(campanile_buffer_unmap(all.buffer).min(0), 0);
    for priority in [COfferPriority::Low, COfferPriority::Normal, COfferPriority::High] {
        assert_eq!(campanile_buffer_offer(all.buffer, priority as i32), 0);
        // SAFETY: a variable.
        assert_eq!(unsafe { campanile_buffer_reclaim(all.buffer, &mut discarded) }, 0);
        assert_eq!(discarded, 0);
    }
    assert_eq!(campanile_buffer_offer(all.buffer, 3), number(Status::BadArgument));
    assert_eq!(campanile_buffer_offer(all.buffer, -1), number(Status::BadArgument));
    assert_eq!(campanile_buffer_offer(BufferHandle { id: NONE }, 0), number(Status::BadHandle));
    os(|fake| fake.reclaims = wddm_ddi::kmt::D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_DISCARDED);
    assert_eq!(campanile_buffer_offer(all.buffer, 0), 0);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { campanile_buffer_reclaim(all.buffer, null_mut()) }, number(Status::BadPointer));
    // SAFETY: a variable.
    assert_eq!(unsafe { campanile_buffer_reclaim(all.buffer, &mut discarded) }, 0);
    assert_eq!(discarded, 1);
    // SAFETY: a variable.
    let again = unsafe { campanile_buffer_reclaim(all.buffer, &mut discarded) };
    assert_eq!((again, discarded), (STATUS_INVALID_PARAMETER.0, 1));
    all.close();
}
