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

/// A command, with addresses in the place of handles.
#[derive(Clone)]
pub(crate) enum Command {
    Dispatch {
        program: Program,
        groups: [u32; 3],
        arguments: u64,
        report: u64,
    },
    /// The numbers of workgroups are read when the dispatch begins.
    DispatchIndirect {
        program: Program,
        groups: u64,
        arguments: u64,
        report: u64,
    },
    Copy {
        to: u64,
        from: u64,
        size: u64,
    },
    Rows(CopyRows),
    Fill {
        to: u64,
        size: u64,
        pattern: u32,
    },
    Timestamp {
        to: u64,
    },
    Signal(Point),
    Wait(Point),
}

impl Command {
    /// Writes the packets of the command.
    pub(crate) fn put(&self, to: &mut Recorder<'_>) -> campanile_umd::Result<()> {
        match self {
            Self::Dispatch { program, groups, arguments, report } => {
                to.dispatch(&Dispatch { report: *report, ..program.dispatch(*groups, *arguments) })
            }
            Self::DispatchIndirect { program, groups, arguments, report } => {
                let dispatch = program.dispatch([0; 3], *arguments);
                to.dispatch(&Dispatch { indirect: *groups, report: *report, ..dispatch })
            }
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
