//! Errors of the user-mode driver, and what to do about each.

use campanile_hw::isa::{BadProgram, NO_INSTRUCTION};
use campanile_hw::packet::BadPacket;
use core::fmt;
use wddm_ddi::status::*;

/// Result of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a call failed. Unless a variant says otherwise, a failed call has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused: its status, and the function that returned it.
    Status(NTSTATUS, &'static str),
    /// The operating system answered with success but without a value that it must deliver, which is named.
    BadAnswer(&'static str),
    /// The GPU was reset, removed or stopped. Drop every queue, fence, buffer and device, then create them anew, or use what
    /// [`Device::replacement`](crate::Device::replacement) and [`Queue::recover`](crate::Queue::recover) do of it.
    DeviceLost,
    /// The call needs this thunk, and the Windows of this machine is older than it.
    MissingThunk(&'static str),
    /// No adapter is driven by the Campanile kernel-mode driver.
    NoAdapter,
    /// The kernel-mode driver speaks this other version of the hardware interface.
    Version(u32),
    /// A native fence was asked for by name, and they are not enabled for the adapter.
    NativeFencesDisabled,
    /// User-mode submission was asked for by name and is not enabled for the adapter.
    UserSubmissionDisabled,
    /// An argument is out of range; says which, and what is allowed.
    BadArgument(&'static str),
    /// The packet would fault the queue.
    BadPacket(BadPacket),
    /// The program breaks a rule of the instruction set.
    BadProgram(BadProgram),
    /// The buffer was created with [`Placement::Vram`](crate::Placement::Vram), which the CPU never maps.
    NotMappable,
    /// The fence belongs to another adapter.
    ForeignFence,
    /// The fence was opened to be waited for only.
    WaitOnlyFence,
    /// The fence was created or opened to be signalled only.
    SignalOnlyFence,
    /// The fence or buffer was not created to be shared.
    NotShared,
    /// The queue submits from user mode, where the operating system neither delays work nor signals fences; a monitored fence needs that.
    NeedsKernelSubmission,
    /// On a GPU that writes 32 bits of a monitored fence at once, the value is further from the last one than UINT_MAX / 2.
    OutOfReach,
    /// One submission has more commands than fit into the queue's command memory, or than the hardware takes (1 MiB).
    CommandsTooLarge,
    /// Every ring entry is in use (only from calls that do not wait).
    RingFull,
    /// Command memory is in use (only from calls that do not wait).
    CommandMemoryFull,
    /// As many submissions as may be kept for replay are not seen done; wait for one.
    RecordsFull,
    /// The time limit passed first.
    Timeout,
    /// Queued work uses the buffer, and the call was not to wait.
    WasStillDrawing,
    /// All that the buffer could be renamed to is mapped.
    AllMapped,
    /// The doorbell's status word has an unknown value.
    DoorbellStatus(u64),
}

impl Error {
    /// The error for a failed status of function `what`.
    pub(crate) fn from_status(status: NTSTATUS, what: &'static str) -> Self {
        match status {
            STATUS_DEVICE_REMOVED | STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE => Self::DeviceLost,
            STATUS_PROCEDURE_NOT_FOUND => Self::MissingThunk(what),
            status => Self::Status(status, what),
        }
    }
}

impl From<BadPacket> for Error {
    fn from(rule: BadPacket) -> Self {
        Self::BadPacket(rule)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status, what) => write!(f, "{what} failed with {status}"),
            Self::BadAnswer(what) => write!(f, "the operating system broke its contract: {what}"),
            Self::DeviceLost => {
                f.write_str("the GPU was reset or removed; drop all queues, fences, buffers and devices, and create them anew")
            }
            Self::MissingThunk(name) => {
                write!(f, "this Windows does not export {name}; Windows 11 24H2 is the first that has all thunks")
            }
            Self::NoAdapter => f.write_str("no Campanile GPU found; check that its driver is installed and started"),
            Self::Version(found) => write!(
                f,
                "the kernel-mode driver speaks hardware interface version {found}, this library version {}; install both from one package",
                campanile_hw::registers::INTERFACE_VERSION
            ),
            Self::NativeFencesDisabled => {
                f.write_str("native fences are not enabled for this GPU; the operating system must enable the feature NATIVE_FENCE, or let the fence choose its kind")
            }
            Self::UserSubmissionDisabled => f.write_str(
                "user-mode submission is not enabled for this GPU; enable the feature USER_MODE_SUBMISSION or let the queue choose its model",
            ),
            Self::BadArgument(rule) => write!(f, "bad argument: {rule}"),
            Self::BadPacket(rule) => write!(f, "the command breaks a rule of the hardware: {}", rule_text(*rule)),
            Self::BadProgram(BadProgram { rule, instruction: NO_INSTRUCTION }) => {
                write!(f, "the program breaks the rule {rule:?} of the instruction set")
            }
            Self::BadProgram(BadProgram { rule, instruction }) => {
                write!(f, "the program breaks the rule {rule:?} of the instruction set at instruction {instruction}")
            }
            Self::NotMappable => f.write_str("the buffer lies in VRAM the CPU cannot see; create it as System or VramVisible to map it"),
            Self::ForeignFence => f.write_str("the fence belongs to another adapter; open it on the queue's device, which a fence for several adapters allows, or create one there"),
            Self::WaitOnlyFence => f.write_str("the fence was opened to be waited for only; open it with full access to signal it"),
            Self::SignalOnlyFence => f.write_str("the fence was opened to be signalled only; open it with full access to wait for it"),
            Self::NeedsKernelSubmission => f.write_str("a queue with user-mode submission uses native fences only; create the fence as a native one, or the queue for submission through the kernel"),
            Self::OutOfReach => f.write_str("the value is further from the fence's last value than UINT_MAX / 2, beyond which a GPU that writes 32 bits cannot tell values apart"),
            Self::NotShared => f.write_str("the fence or buffer was not created to be shared; create it as a shared one"),
            Self::CommandsTooLarge => {
                f.write_str("the submission is larger than the queue's command memory or 1 MiB; split it or give the queue more command memory")
            }
            Self::RingFull => f.write_str("the ring is full; wait for progress and try again"),
            Self::CommandMemoryFull => f.write_str("the command memory is full; wait for progress and try again"),
            Self::RecordsFull => f.write_str("as many submissions as are kept for replay are under way; wait for one"),
            Self::WasStillDrawing => f.write_str("queued work still uses the buffer; map it again later, or let the call wait"),
            Self::AllMapped => f.write_str("each copy of the buffer's contents is mapped; drop a mapping, or create the buffer with more copies"),
            Self::Timeout => f.write_str("the time limit passed before the fence reached the value"),
            Self::DoorbellStatus(value) => write!(f, "the doorbell's status word holds the unknown value {value:#x}; create the queue anew"),
        }
    }
}

fn rule_text(rule: BadPacket) -> &'static str {
    match rule {
        BadPacket::Truncated => "it is longer than the command buffer",
        BadPacket::Opcode => "its opcode does not exist",
        BadPacket::Length => "its length is not that of its opcode",
        BadPacket::Reserved => "a reserved bit is set",
        BadPacket::Alignment => "an address or size is not aligned",
        BadPacket::Range => "a size is zero or too large, or the range leaves the address space",
        BadPacket::Privilege => "only the memory manager may use it",
    }
}

impl core::error::Error for Error {}
