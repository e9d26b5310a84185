//! Faults: exceptions of the processor as data, the signals that they arrive as, and accesses that may fault.

pub(crate) mod frozen;
pub mod guarded;
pub(crate) mod signal;
mod unwind;

pub(crate) use unwind::{Caller, caller};

/// Kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Execute,
}

/// The reason why the processor raised an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing is at the address, or (`mapped`) what is there may not be accessed so.
    Memory {
        address: usize,
        access: Access,
        mapped: bool,
    },
    /// General protection: an address that cannot exist, a misaligned vector operand, a privileged instruction.
    General,
    /// The instruction ran off the end of the kernel stack.
    Stack {
        address: usize,
    },
    Divide,
    Illegal,
    Breakpoint,
    /// The instruction INT 29h of RtlFailFast, with the code in ECX. [wdm: RtlFailFast]
    FastFail {
        code: u32,
    },
}

/// An exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub cause: Cause,
    /// Address of the instruction.
    pub instruction: usize,
}

impl Access {
    /// As parameters of bug checks have it: 0 read, 1 write, 8 execute. [debugger: 0x50] [debugger: 0xd1]
    pub fn parameter(self) -> u64 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Execute => 8,
        }
    }
}

impl Fault {
    /// An access that did not succeed for a reason that is not known.
    fn unknown() -> Self {
        Self { cause: Cause::General, instruction: 0 }
    }
}
