//! The protocol between a fence's two values, generic over how they are stored.
//!
//! CurrentValue is written by the GPU or processor that signals, MonitoredValue by the kernel: the smallest value a CPU waits for minus
//! one, or [`UNMONITORED`]. Both sides write one word and then read the other; with a full barrier in between, at least one of them sees
//! the other's write, so that a signal is never missed. Seeing it twice costs a spurious interrupt, which is allowed.
//!
//! A signal sets CurrentValue to what it says, a smaller value than the one before included. [`SIGNALED_FOR_GOOD`] is the one value
//! that stays.

/// MonitoredValue of a fence that no CPU waits for.
pub const UNMONITORED: u64 = u64::MAX;

/// CurrentValue of a fence that satisfies every wait from now on: signals of the GPU leave it as it is.
pub const SIGNALED_FOR_GOOD: u64 = u64::MAX;

/// A 64-bit word shared between CPU and GPU.
pub trait FenceWord {
    /// Reads the word once.
    fn load(&self) -> u64;
    /// Writes the word once, after every earlier write of the caller.
    fn store(&self, value: u64);
}

/// A CurrentValue as the GPU writes it.
pub trait SignaledWord {
    /// Writes `value`, after every earlier write of the caller, unless the word is [`SIGNALED_FOR_GOOD`], in one atomic step. Returns the
    /// value of the word afterwards.
    fn signal(&self, value: u64) -> u64;
}

/// Result of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signaled {
    /// CurrentValue: the signal's value, or [`SIGNALED_FOR_GOOD`].
    pub current: u64,
    /// True if a CPU waits for it, so that an interrupt has to be raised.
    pub announce: bool,
}

/// A full barrier between the store of one word and the load of the other.
pub trait Barrier {
    /// Orders earlier stores before later loads.
    fn full(&self);
}

/// The signalling side: sets CurrentValue and returns whether an interrupt has to be raised for a CPU that waits. The value that is there already is a signal like any
/// other, and so is a smaller one.
pub fn signal(current: &impl SignaledWord, monitored: &impl FenceWord, barrier: &impl Barrier, value: u64) -> Signaled {
    signal_and_log(current, monitored, barrier, value, || {})
}

/// As [`signal`], with `log` writing the entry and then the position of a fence log. Both come before the barrier, so a CPU
/// that is told finds them.
#[inline]
pub fn signal_and_log(
    current: &impl SignaledWord,
    monitored: &impl FenceWord,
    barrier: &impl Barrier,
    value: u64,
    log: impl FnOnce(),
) -> Signaled {
    let current = current.signal(value);
    log();
    barrier.full();
    Signaled { current, announce: current > monitored.load() }
}

/// The waiting side: writes MonitoredValue and returns the CurrentValue that is certain to be announced from now on, or is
/// already large enough.
pub fn monitor(current: &impl FenceWord, monitored: &impl FenceWord, barrier: &impl Barrier, value: u64) -> u64 {
    monitored.store(value);
    barrier.full();
    current.load()
}

/// The wait of a GPU queue. The answer says that CurrentValue has reached `value`, or that the queue is on the wait list and will be woken.
///
/// `enter` puts the queue on the wait list and ends with a full barrier; `leave` takes what `enter` returned off again. An engine that
/// signals writes CurrentValue, passes a full barrier and looks at the list; so either it finds the queue there, or the second look here
/// finds its value. If it is both, the wake is spurious.
pub fn wait<T>(current: &impl FenceWord, value: u64, enter: impl FnOnce() -> T, leave: impl FnOnce(T)) -> bool {
    if current.load() >= value {
        return true;
    }
    let entry = enter();
    let reached = current.load() >= value;
    if reached {
        leave(entry);
    }
    reached
}
