//! Models of the protocols by which nothing is ever lost, though nobody waits for anybody:
//!
//! - a fence's two values: a CPU that begins to wait while engines signal ([`Part::Race`]);
//! - its current value, which no engine writes any more once the processor has signalled it for good ([`Part::ForGood`]);
//! - the wait lists of the GPU: a queue that begins to wait while engines signal ([`Part::WaitList`]);
//! - the doorbell: user mode submits while the operating system takes the doorbell away ([`Part::Doorbell`]);
//! - the same with user mode in another process, whose pages that process turns when it is asked to ([`Part::DoorbellElsewhere`]);
//! - one doorbell for all queues, where a store may hide another and any process may store anything ([`Part::GlobalDoorbell`]);
//! - a fence log: an engine signals and logs while the operating system reads what it was interrupted for ([`Part::Log`],
//!   [`Part::DelayedLog`]).
//!
//! What is checked is the production source, not a copy: `campanile-hw` is generic over where words live, and the other files
//! (the mailbox, wait lists and doorbells of the device, the ring of the user-mode driver, the list of waits, the states of a doorbell and
//! the reader of fence logs of the operating system) are compiled into this crate a second time, with the atomics and locks of a model checker in place of
//! the processor's. What the models add by themselves are the surroundings: see `parts`.
//!
//! [`exhaustive`] tries every interleaving and every outcome that weak memory allows, for a few threads; [`random`] tries very many
//! schedules of more threads under sequential consistency. Each part of a protocol that matters can be left out ([`Fault`]), and
//! then a model must fail: a model that cannot fail proves nothing.

// The same sources are compiled for each of the two checkers.
#![allow(clippy::duplicate_mod)]

pub mod exhaustive;
pub mod random;

use std::cell::Cell;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// CurrentValue, MonitoredValue, and CPUs that wait.
    Race,
    /// CurrentValue, which the processor signals for good while engines signal it.
    ForGood,
    /// Wait lists of the GPU.
    WaitList,
    /// Submission from user mode, each queue with a doorbell of its own.
    Doorbell,
    /// Submission from user mode of another process than that of the operating system, each queue with a doorbell of its own.
    DoorbellElsewhere,
    /// Submission from user mode, all queues with one doorbell.
    GlobalDoorbell,
    /// A fence log, on hardware that writes entries in order.
    Log,
    /// A fence log, on hardware that writes entries when it is asked to.
    DelayedLog,
}

/// Part of a protocol that a model leaves out, to see that the property then fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The look at CurrentValue and the write, which are one step, are two.
    OneStep,
    /// The barrier between writing CurrentValue and reading MonitoredValue or the wait list.
    SignalBarrier,
    /// The barrier between writing MonitoredValue and reading CurrentValue.
    MonitorBarrier,
    /// CurrentValue is not read again after MonitoredValue was written.
    Resample,
    /// The barrier between entering a wait list and reading CurrentValue.
    EnterBarrier,
    /// CurrentValue is not read again after a wait list was entered.
    SecondLook,
    /// The write pointer is stored by a plain store.
    SubmitBarrier,
    /// RETRY is stored when the page is hidden and the hardware has looked.
    LateRetry,
    /// RETRY is stored after the page was hidden, and the hardware's last look is at the doorbell only.
    RetryAfterHiding,
    /// The hardware's last look is at the doorbell, and not at the write pointer.
    LookAtDoorbellOnly,
    /// The hardware does not look a last time.
    LastLook,
    /// The operating system waits until the other process has turned the page: it goes on at once.
    PageAnswer,
    /// Nobody looks after a connection: the hardware not at the write pointer, and user mode does not ring again. Either is enough.
    LookAfterConnection,
    /// After a store to the global doorbell only the queue that it names is looked at.
    Sweep,
    /// The value of the global doorbell stays there when it is seen.
    Take,
    /// The barrier between taking the value of the global doorbell and reading write pointers.
    TakeBarrier,
    /// The write pointer is read from its page: it is taken from the global doorbell.
    Distrust,
    /// The position of a log is written before the entry that it counts.
    LogIndexLast,
    /// The barrier between the position of a log and the comparison that interrupts.
    LogBarrier,
    /// A CPU is interrupted after the entry is written: it is interrupted before.
    LogInterruptLast,
    /// CurrentValue is written before the entry: it is written after.
    LogValueFirst,
    /// DxgkDdiUpdateNativeFenceLogs between reading the position of a log and its entries.
    LogFlush,
}

thread_local! {
    /// All threads of a model run on the thread that checks it.
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
}

/// True if `fault` is injected into the running model.
fn left_out(fault: Fault) -> bool {
    FAULT.get() == fault
}
