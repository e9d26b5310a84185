//! Whole submissions in one call, for C.

use core::{ptr::NonNull, slice};

use super::{
    CQueue, Fault, FenceHandle, Out, QueueHandle, Status, finish,
    handles::{with, with_mut},
};
use crate::{CopyRows, Fence, Recorder};

/// What a command does. It uses the members named; the others are ignored.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Nothing.
    Nop = 0,
    /// As campanile_record_copy: destination, source, size.
    Copy = 1,
    /// As campanile_record_copy_rows: destination, source, row_bytes, rows, source_pitch, destination_pitch.
    CopyRows = 2,
    /// As campanile_record_fill: destination, size, pattern.
    Fill = 3,
    /// As campanile_record_signal: fence, value.
    Signal = 4,
    /// As campanile_record_wait: fence, value.
    Wait = 5,
    /// As campanile_record_timestamp: destination.
    Timestamp = 6,
}

/// One command of campanile_submit_commands.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CCommand {
    /// A campanile_command_kind.
    pub kind: i32,
    /// Pattern of a fill.
    pub pattern: u32,
    /// Address written.
    pub destination: u64,
    /// Address read.
    pub source: u64,
    /// Bytes copied or filled.
    pub size: u64,
    /// Fence of a signal or wait.
    pub fence: FenceHandle,
    /// Value signalled or waited for.
    pub value: u64,
    /// Bytes of one row.
    pub row_bytes: u32,
    /// Rows, at least 1.
    pub rows: u32,
    /// Distance of source rows.
    pub source_pitch: u32,
    /// Distance of destination rows.
    pub destination_pitch: u32,
}

impl CCommand {
    /// A command that does nothing.
    ///
    /// cbindgen:ignore
    pub const NOP: Self = Self {
        kind: CommandKind::Nop as i32,
        pattern: 0,
        destination: 0,
        source: 0,
        size: 0,
        fence: FenceHandle { id: 0 },
        value: 0,
        row_bytes: 0,
        rows: 0,
        source_pitch: 0,
        destination_pitch: 0,
    };

    #[inline]
    fn record(&self, commands: &mut Recorder<'_>) -> Result<(), Fault> {
        const NOP: i32 = CommandKind::Nop as i32;
        const COPY: i32 = CommandKind::Copy as i32;
        const COPY_ROWS: i32 = CommandKind::CopyRows as i32;
        const FILL: i32 = CommandKind::Fill as i32;
        const SIGNAL: i32 = CommandKind::Signal as i32;
        const WAIT: i32 = CommandKind::Wait as i32;
        const TIMESTAMP: i32 = CommandKind::Timestamp as i32;
        match self.kind {
            NOP => Ok(commands.nop()?),
            COPY => Ok(commands.copy(self.destination, self.source, self.size)?),
            COPY_ROWS => {
                let Self { source, destination, row_bytes, rows, source_pitch, destination_pitch, .. } = *self;
                let copy = CopyRows { source, destination, row_bytes, rows, source_pitch, destination_pitch };
                Ok(commands.copy_rows(&copy)?)
            }
            FILL => Ok(commands.fill(self.destination, self.size, self.pattern)?),
            SIGNAL => with(self.fence.id, |fence: &Fence| Ok(commands.signal(fence, self.value)?)),
            WAIT => with(self.fence.id, |fence: &Fence| Ok(commands.wait(fence, self.value)?)),
            TIMESTAMP => Ok(commands.timestamp(self.destination)?),
            _ => Err(Status::BadArgument.into()),
        }
    }
}

/// Records and submits `count` commands in one call, which is cheaper than campanile_begin, a call for each command, and
/// campanile_submit. If a command is refused, none is submitted. `progress` may be null.
///
/// # Safety
/// `commands` has `count` readable elements, or is null for none; `progress` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_submit_commands(
    queue: QueueHandle,
    commands: *const CCommand,
    count: u32,
    progress: *mut u64,
) -> i32 {
    finish((|| {
        let commands = match NonNull::new(commands.cast_mut()) {
            None if count == 0 => NonNull::dangling(),
            Some(commands) if commands.is_aligned() => commands,
            _ => return Err(Status::BadPointer.into()),
        };
        if !progress.is_aligned() {
            return Err(Status::BadPointer.into());
        }
        // SAFETY: not null, aligned, and as many elements as the caller promises; 2^32 of them are far below the largest slice.
        let commands: &[CCommand] = unsafe { slice::from_raw_parts(commands.as_ptr(), count as usize) };
        let value = with_mut(queue.id, |queue: &mut CQueue| {
            if queue.open.is_some() {
                return Err(Status::Recording.into());
            }
            queue.queue.begin(true)?;
            let mut recorder = queue.queue.recorder(0, true);
            let outcome = commands.iter().try_for_each(|command| command.record(&mut recorder));
            let recorded = recorder.recorded();
            outcome.inspect_err(|_| queue.queue.cancel())?;
            Ok(queue.queue.finish(recorded, true)?)
        })?;
        if let Ok(out) = Out::new(progress) {
            // SAFETY: as the caller promises.
            unsafe { out.set(value) };
        }
        Ok(())
    })())
}
