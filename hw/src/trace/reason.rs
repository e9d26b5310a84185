//! Why the driver refused a call, or ignored an event or value that it could not refuse. Each reason is counted.

macro_rules! reasons {
    ($( $(#[doc = $doc:literal])+ $number:literal $name:ident, )*) => {
        /// Why.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Reason {
            $( $(#[doc = $doc])+ $name = $number, )*
        }

        impl Reason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Name of the reason in reports, as in the code.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$name => stringify!($name), )*
                }
            }

            /// Meaning of the reason, a sentence for the manual and for `campanile debug`.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $( Self::$name => concat!($($doc),+), )*
                }
            }
        }
    };
}

reasons! {
    /// A pointer to arguments, or one among them, is NULL.
    0 NullPointer,
    /// A handle names nothing, or something of another kind.
    1 StaleHandle,
    /// The adapter was not started, or was stopped.
    2 NotStarted,
    /// The device stands still: it was lost, reset, or has left D0.
    3 NotRunning,
    /// No pool.
    4 NoMemory,
    /// A table or number range of fixed size is full.
    5 TableFull,
    /// A service of the operating system is missing or failed.
    6 SystemService,
    /// The hardware is not the one that this driver was written for, or its resources are not.
    7 WrongHardware,
    /// The device did not start to run.
    8 DeviceDead,
    /// The scheduler refused a command.
    9 CommandRefused,
    /// A table of the scheduler is full.
    10 SchedulerFull,
    /// A physical adapter, node or engine that does not exist.
    11 NoSuchNode,
    /// A buffer is smaller than what it is to hold.
    12 BufferTooSmall,
    /// A request that this driver does not serve.
    13 NotServed,
    /// A type or index that does not exist, or a feature that is not offered.
    14 NotOffered,
    /// Private data of another size or content than the user-mode driver of this version writes.
    15 PrivateData,
    /// A size of 0, too large, or not of whole pages or words.
    16 Size,
    /// A placement that does not exist, or an allocation larger than every segment of its placement.
    17 Placement,
    /// An address that is 0, not aligned or outside the address space.
    18 Address,
    /// The address of a fence value is NULL or not aligned.
    19 FenceAddress,
    /// The paging process has no page table yet, in which a fence would be reached.
    20 NoPagingRoot,
    /// A fence still open where it should be closed, and closed.
    21 FenceStillOpen,
    /// The progress fence of a queue is not open in its process.
    22 ProgressFence,
    /// User-mode submission, on a node or with flags that do not allow it.
    23 UserSubmission,
    /// A queue that user mode writes where a kernel queue is meant, or the other way round.
    24 QueueKind,
    /// The queue has a doorbell already.
    25 DoorbellExists,
    /// A doorbell that its queue has given up for another, or one with a secondary address.
    26 DoorbellStale,
    /// A ring that is no power of two of entries, too small a control page, or the old ring's control page.
    27 Ring,
    /// The queue has no ring that the hardware knows.
    28 NoRing,
    /// The queue has faulted, or what it was doing when the device left D0 is not known.
    29 QueueLost,
    /// A log buffer without entries, with too many, or of no kind.
    30 LogBuffer,
    /// A context with flags that are not served.
    31 ContextFlags,
    /// A priority, band or percentage out of its range.
    32 Priority,
    /// A power component or state that was not declared.
    33 PowerState,
    /// A page outside segment or aperture, or mapped the wrong way.
    34 AperturePage,
    /// A root page table that is not in a segment.
    35 RootPageTable,
    /// A packet that the ring cannot express.
    36 Packet,
    /// A test command that the packets cannot express.
    37 TestCommand,
    /// A paging operation that contradicts the capabilities.
    38 PagingOperation,
    /// The paging buffer is full; the operation goes on in another.
    39 PagingBufferFull,
    /// An event of the device that names nothing.
    40 DeviceEvent,
    /// The device's write pointer cannot be true: events were lost.
    41 EventsLost,
    /// The engine does not stop or start again.
    42 EngineStuck,
    /// There is no display, and nothing that belongs to one.
    43 NoDisplay,
    /// A page table entry for memory of another GPU of the board, which this one does not reach; left invalid.
    44 PeerMemory,
    /// Another root page table, or none, for a context that runs.
    45 ContextRuns,
    /// A ring or ring control at an address where the allocation that was named for it is not mapped.
    46 RingAddress,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason with a number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_without_gaps() {
        for (number, reason) in (0u16..).zip(Reason::ALL) {
            assert_eq!((*reason as u16, Reason::from_number(number)), (number, Some(*reason)));
            assert!(reason.meaning().trim().ends_with('.'), "{}", reason.name());
        }
        assert_eq!(Reason::from_number(Reason::COUNT as u16), None);
    }
}
