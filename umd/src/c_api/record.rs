//! Recording, submission and progress of queues, for C.

use core::{
    ffi::c_char,
    fmt::{self, Write},
    time::Duration,
};

use super::{
    AdapterHandle, CQueue, Fault, FenceHandle, Out, QueueHandle, QueueModel, Recording, Status, finish,
    handles::{with, with_mut},
};
use crate::{Adapter, CopyRows, Dispatch, Fence, Recorder, SubmissionModel};

/// Copies `rows` runs of `row_bytes` bytes; run i goes from `source + i * source_pitch` to
/// `destination + i * destination_pitch`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CCopyRows {
    /// Source address.
    pub source: u64,
    /// Destination address.
    pub destination: u64,
    /// Bytes of one run.
    pub row_bytes: u32,
    /// Runs, at least 1.
    pub rows: u32,
    /// Distance of source runs.
    pub source_pitch: u32,
    /// Distance of destination runs.
    pub destination_pitch: u32,
}

/// Counts of a queue since it was created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CQueueStats {
    /// Submissions made.
    pub submissions: u64,
    /// Stores to the doorbell.
    pub doorbell_rings: u64,
    /// Connections asked for because a doorbell had been taken away.
    pub doorbell_reconnects: u64,
    /// Submissions that the kernel-mode driver had to be told of.
    pub notifications: u64,
}

/// Adds one command to the open recording.
fn record(queue: QueueHandle, f: impl FnOnce(&mut Recorder<'_>) -> crate::Result<()>) -> i32 {
    finish(with_mut(queue.id, |queue: &mut CQueue| record_on(queue, f)))
}

fn record_on(queue: &mut CQueue, f: impl FnOnce(&mut Recorder<'_>) -> crate::Result<()>) -> Result<(), Fault> {
    let open = queue.open.as_mut().ok_or(Status::NotRecording)?;
    let mut recorder = queue.queue.recorder(open.recorded, open.wait);
    f(&mut recorder)?;
    open.recorded = recorder.recorded();
    Ok(())
}

fn begin(queue: QueueHandle, wait: bool) -> i32 {
    finish(with_mut(queue.id, |queue: &mut CQueue| {
        if queue.open.is_some() {
            return Err(Status::Recording.into());
        }
        queue.queue.begin(wait)?;
        queue.open = Some(Recording { recorded: 0, wait });
        Ok(())
    }))
}

/// Starts recording a submission. Waits for the GPU when the ring is full.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_begin(queue: QueueHandle) -> i32 {
    begin(queue, true)
}

/// As campanile_begin for a submission that never waits: where it would have to, the functions that record or submit it return
/// CAMPANILE_STATUS_RING_FULL or CAMPANILE_STATUS_COMMAND_MEMORY_FULL.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_try_begin(queue: QueueHandle) -> i32 {
    begin(queue, false)
}

/// Drops the open recording.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_cancel(queue: QueueHandle) -> i32 {
    finish(with_mut(queue.id, |queue: &mut CQueue| match queue.open.take() {
        Some(_) => {
            queue.queue.cancel();
            Ok(())
        }
        None => Err(Status::NotRecording.into()),
    }))
}

/// Submits the open recording and ends it, also when it fails. The progress value says when the work is done; `progress` may
/// be null.
///
/// # Safety
/// `progress` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_submit(queue: QueueHandle, progress: *mut u64) -> i32 {
    finish((|| {
        if !progress.is_aligned() {
            return Err(Status::BadPointer.into());
        }
        let value = with_mut(queue.id, |queue: &mut CQueue| {
            let open = queue.open.take().ok_or(Status::NotRecording)?;
            Ok(queue.queue.finish(open.recorded, open.wait)?)
        })?;
        if let Ok(out) = Out::new(progress) {
            // SAFETY: as the caller promises.
            unsafe { out.set(value) };
        }
        Ok(())
    })())
}

/// Records a copy of `size` bytes between GPU addresses that do not overlap.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_record_copy(queue: QueueHandle, destination: u64, source: u64, size: u64) -> i32 {
    record(queue, |commands| commands.copy(destination, source, size))
}

/// Records a copy of rows, 256 MiB at most.
///
/// # Safety
/// `copy` is readable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_record_copy_rows(queue: QueueHandle, copy: *const CCopyRows) -> i32 {
    if copy.is_null() || !copy.is_aligned() {
        return Status::BadPointer as i32;
    }
    // SAFETY: not null, aligned, and readable as the caller promises.
    let CCopyRows { source, destination, row_bytes, rows, source_pitch, destination_pitch } = unsafe { copy.read() };
    let copy = CopyRows { source, destination, row_bytes, rows, source_pitch, destination_pitch };
    record(queue, |commands| commands.copy_rows(&copy))
}

/// Records a fill of `size` bytes with a 32-bit pattern; address and size are multiples of 4.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_record_fill(queue: QueueHandle, destination: u64, size: u64, pattern: u32) -> i32 {
    record(queue, |commands| commands.fill(destination, size, pattern))
}

/// Records that the GPU sets the fence's value, without the kernel. CAMPANILE_STATUS_NEEDS_KERNEL_SUBMISSION for a monitored fence on a
/// queue with user-mode submission, CAMPANILE_STATUS_OUT_OF_REACH for a value of a monitored fence that the GPU cannot tell from others.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_record_signal(queue: QueueHandle, fence: FenceHandle, value: u64) -> i32 {
    finish(with(fence.id, |fence: &Fence| {
        with_mut(queue.id, |queue: &mut CQueue| record_on(queue, |commands| commands.signal(fence, value)))
    }))
}

/// Records that the queue waits, on the GPU, until the fence's value is at least `value`. For a monitored fence the operating system delays
/// what is recorded after the wait; what is recorded before it becomes a command buffer of its own, with a progress value of its own. Statuses
/// as for campanile_record_signal, and CAMPANILE_STATUS_COMMANDS_TOO_LARGE for more waits than the queue has ring entries.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_record_wait(queue: QueueHandle, fence: FenceHandle, value: u64) -> i32 {
    finish(with(fence.id, |fence: &Fence| {
        with_mut(queue.id, |queue: &mut CQueue| record_on(queue, |commands| commands.wait(fence, value)))
    }))
}

/// Records that the GPU writes its clock to an address that is a multiple of 8.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_record_timestamp(queue: QueueHandle, destination: u64) -> i32 {
    record(queue, |commands| commands.timestamp(destination))
}

/// Frequency of the clock that the GPU writes to timestamps and reports, in hertz.
///
/// # Safety
/// `hertz` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_adapter_clock(adapter: AdapterHandle, hertz: *mut u64) -> i32 {
    finish((|| {
        let out = Out::new(hertz)?;
        let clock = with(adapter.id, |adapter: &Adapter| Ok(adapter.clock_hz()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(clock) };
        Ok(())
    })())
}

/// A program that runs in a grid of workgroups, for campanile_record_dispatch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CDispatch {
    /// Address of the program, from campanile_program_address; a multiple of 16.
    pub program: u64,
    /// Bytes of the program.
    pub program_size: u32,
    /// Workgroups in three dimensions, each at most 65535; zero with `indirect`.
    pub groups: [u32; 3],
    /// Address that the program is given.
    pub arguments: u64,
    /// Address of three 32-bit numbers of workgroups that are read when the program starts, a multiple of 4; 0 for none.
    pub indirect: u64,
    /// Address of 96 bytes that say what became of it, a multiple of 8; 0 for none.
    pub report: u64,
}

/// Records that a program runs, on a queue of the compute node. The next command begins when it has ended.
///
/// # Safety
/// `dispatch` is readable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_record_dispatch(queue: QueueHandle, dispatch: *const CDispatch) -> i32 {
    if dispatch.is_null() || !dispatch.is_aligned() {
        return finish(Err(Status::BadPointer.into()));
    }
    // SAFETY: not null and aligned, and readable as the caller promises.
    let CDispatch { program, program_size, groups, arguments, indirect, report } = unsafe { dispatch.read() };
    let [grid_x, grid_y, grid_z] = groups;
    let dispatch = Dispatch { program_size, program, arguments, indirect, grid_x, grid_y, grid_z, report };
    record(queue, |commands| commands.dispatch(&dispatch))
}

/// Records a command that does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_record_nop(queue: QueueHandle) -> i32 {
    record(queue, |commands| commands.nop())
}

/// The progress value that the queue has reached.
///
/// # Safety
/// `value` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_progress(queue: QueueHandle, value: *mut u64) -> i32 {
    finish((|| {
        let out = Out::new(value)?;
        let progress = with_mut(queue.id, |queue: &mut CQueue| Ok(queue.queue.progress()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(progress) };
        Ok(())
    })())
}

/// The progress value of the latest submission; of a queue without any, the value it started with.
///
/// # Safety
/// `value` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_last_submitted(queue: QueueHandle, value: *mut u64) -> i32 {
    finish((|| {
        let out = Out::new(value)?;
        let last = with_mut(queue.id, |queue: &mut CQueue| Ok(queue.queue.last_submitted()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(last) };
        Ok(())
    })())
}

/// Waits until the submission with this progress value is done, for `nanoseconds` at most; all ones waits as long as the
/// device lives.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_queue_wait(queue: QueueHandle, value: u64, nanoseconds: u64) -> i32 {
    let limit = (nanoseconds != u64::MAX).then(|| Duration::from_nanos(nanoseconds));
    finish(with_mut(queue.id, |queue: &mut CQueue| Ok(queue.queue.wait_progress_for(value, limit)?)))
}

/// The model that the queue chose: CAMPANILE_MODEL_USER, CAMPANILE_MODEL_KERNEL or CAMPANILE_MODEL_PACKET.
///
/// # Safety
/// `model` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_model(queue: QueueHandle, model: *mut i32) -> i32 {
    finish((|| {
        let out = Out::new(model)?;
        let chosen = with_mut(queue.id, |queue: &mut CQueue| Ok(queue.queue.model()))?;
        let number = match chosen {
            SubmissionModel::User => QueueModel::User,
            SubmissionModel::Kernel => QueueModel::Kernel,
            SubmissionModel::Packet => QueueModel::Packet,
        };
        // SAFETY: as the caller promises.
        unsafe { out.set(number as i32) };
        Ok(())
    })())
}

/// Counts the bytes of a text and writes as many as fit behind `place`.
struct Text {
    place: *mut u8,
    capacity: usize,
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.len().min(self.capacity);
        // SAFETY: `capacity` bytes from `place` are the caller's to be written, and the text is nobody else's.
        unsafe { self.place.copy_from_nonoverlapping(text.as_ptr(), fits) };
        self.place = self.place.wrapping_add(fits);
        self.capacity -= fits;
        self.length += text.len();
        Ok(())
    }
}

/// Why the queue submits as it does, as a sentence in ASCII: which feature the operating system or the driver withholds, or which call
/// failed. Writes as much of the text as fits into `size` bytes, always with a terminating zero, and to `needed` the bytes of the whole text
/// with its zero. With a `size` of 0 `text` may be null.
///
/// # Safety
/// `text` has `size` writable bytes or is null; `needed` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_model_reason(
    queue: QueueHandle,
    text: *mut c_char,
    size: u64,
    needed: *mut u64,
) -> i32 {
    finish((|| {
        let out = Out::new(needed)?;
        if text.is_null() && size != 0 {
            return Err(Status::BadPointer.into());
        }
        let reason = with_mut(queue.id, |queue: &mut CQueue| Ok(queue.queue.model_reason()))?;
        let capacity = usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(1);
        let mut written = Text { place: text.cast(), capacity, length: 0 };
        // Nothing here fails to be written: what does not fit is counted.
        let _ = write!(written, "{reason}");
        if size != 0 {
            // SAFETY: one byte of the caller's was kept for it.
            unsafe { written.place.write(0) };
        }
        // SAFETY: as the caller promises.
        unsafe { out.set(written.length as u64 + 1) };
        Ok(())
    })())
}

/// Writes the counts of a queue since it was created to `stats`.
///
/// # Safety
/// `stats` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_stats(queue: QueueHandle, stats: *mut CQueueStats) -> i32 {
    finish((|| {
        let out = Out::new(stats)?;
        let now = with_mut(queue.id, |queue: &mut CQueue| Ok(queue.queue.stats()))?;
        let stats = CQueueStats {
            submissions: now.submissions,
            doorbell_rings: now.doorbell_rings,
            doorbell_reconnects: now.doorbell_reconnects,
            notifications: now.notifications,
        };
        // SAFETY: as the caller promises.
        unsafe { out.set(stats) };
        Ok(())
    })())
}
