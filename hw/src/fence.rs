//! The protocol between a fence's two values, generic over how they are stored.
//!
//! CurrentValue is written by whoever signals, MonitoredValue by the kernel: the smallest value a CPU waits for minus one, or
//! [`UNMONITORED`]. Both sides write one word and then read the other; with a full barrier in between, at least one of them
//! sees the other's write, so that a signal is never missed. Seeing it twice costs a spurious interrupt, which is allowed.
//!
//! The GPU only ever raises CurrentValue. A signal of a smaller value than the one it finds writes nothing; it is an error of the
//! queue that runs it ([`Backwards`]), unless the value is [`SIGNALED_FOR_GOOD`].

/// MonitoredValue of a fence that no CPU waits for.
pub const UNMONITORED: u64 = u64::MAX;

/// CurrentValue of a fence that holds nobody any more: signals leave it as it is, and are no error.
pub const SIGNALED_FOR_GOOD: u64 = u64::MAX;

/// A 64-bit word shared between CPU and GPU.
pub trait FenceWord {
    /// Reads the word once.
    fn load(&self) -> u64;
    /// Writes the word once, after every earlier write of the caller.
    fn store(&self, value: u64);
}

/// A CurrentValue as the GPU writes it.
pub trait RisingWord {
    /// Writes `value`, after every earlier write of the caller, unless the word holds a greater one. Nothing comes between the look and
    /// the write. Returns what the word held.
    fn raise(&self, value: u64) -> u64;
}

/// A signal whose value is smaller than the one that the fence has. It wrote nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backwards {
    /// The value that the fence has.
    pub found: u64,
}

/// A full barrier between the store of one word and the load of the other.
pub trait Barrier {
    /// Orders earlier stores before later loads.
    fn full(&self);
}

/// The signalling side: raises CurrentValue and says whether a CPU must be told. The value that is there already is a signal like any
/// other.
///
/// # Errors
/// [`Backwards`]
pub fn signal(
    current: &impl RisingWord,
    monitored: &impl FenceWord,
    barrier: &impl Barrier,
    value: u64,
) -> Result<bool, Backwards> {
    signal_and_log(current, monitored, barrier, value, || {})
}

/// As [`signal`], with `log` writing the entry and then the position of a fence log. Both come before the barrier, so a CPU
/// that is told finds them.
///
/// # Errors
/// [`Backwards`]; nothing is logged then.
#[inline]
pub fn signal_and_log(
    current: &impl RisingWord,
    monitored: &impl FenceWord,
    barrier: &impl Barrier,
    value: u64,
    log: impl FnOnce(),
) -> Result<bool, Backwards> {
    let found = current.raise(value);
    if found > value && found != SIGNALED_FOR_GOOD {
        return Err(Backwards { found });
    }
    log();
    barrier.full();
    Ok(value > monitored.load())
}

/// The waiting side: writes MonitoredValue and returns the CurrentValue that is certain to be announced from now on, or is
/// already large enough.
pub fn monitor(current: &impl FenceWord, monitored: &impl FenceWord, barrier: &impl Barrier, value: u64) -> u64 {
    monitored.store(value);
    barrier.full();
    current.load()
}

/// A GPU queue that waits: whether CurrentValue has reached `value`, or the queue is held and will be woken.
///
/// `enter` puts the queue on the list of those who wait and ends with a full barrier; `leave` takes what `enter` returned off
/// again. A signaller writes CurrentValue, passes a full barrier and looks at the list; so either it finds the queue there, or the
/// second look here finds its value. If it is both, the wake is spurious.
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
