//! Command buffers: what is recorded, and how it becomes packets when it is submitted.

mod arguments;
mod bound;
mod pool;
mod record;
mod texels;

pub(crate) use pool::{CommandBuffer, CommandPool};
pub(crate) use record::Recording;
pub(crate) use texels::{BufferRegion, ImageRegion};

use campanile_umd::{CopyRows, Dispatch, Program, Recorder};

use crate::failure::Answer;
use crate::sync::Point;

/// Recorded commands in order, with the programs that they run, which live as long as a submission of the commands may.
#[derive(Default)]
pub(crate) struct Commands {
    pub(crate) list: Vec<Command>,
    programs: Vec<Program>,
}

/// A command, with addresses in the place of handles.
#[derive(Clone)]
pub(crate) enum Command {
    Dispatch(Dispatch),
    Copy { to: u64, from: u64, size: u64 },
    Rows(CopyRows),
    Fill { to: u64, size: u64, pattern: u32 },
    Timestamp { to: u64 },
    Signal(Point),
    Wait(Point),
}

impl Commands {
    /// Forgets all of them, and keeps their memory.
    fn clear(&mut self) {
        self.list.clear();
        self.programs.clear();
    }
}

impl Command {
    /// Writes the packets of the command.
    pub(crate) fn put(&self, to: &mut Recorder<'_>) -> campanile_umd::Result<()> {
        match self {
            Self::Dispatch(dispatch) => to.dispatch(dispatch),
            Self::Copy { to: destination, from, size } => to.copy(*destination, *from, *size),
            Self::Rows(copy) => to.copy_rows(copy),
            Self::Fill { to: destination, size, pattern } => to.fill(*destination, *size, *pattern),
            Self::Timestamp { to: destination } => to.timestamp(*destination),
            Self::Signal(point) => to.signal(&point.native, point.value),
            Self::Wait(point) => to.wait(&point.native, point.value),
        }
    }
}

/// Outcome of recording a command; vkEndCommandBuffer returns the first error.
pub(crate) type Recorded = Answer<()>;
