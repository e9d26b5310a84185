//! The GPU clock.
//!
//! It reads the processor's time-stamp counter where that can be relied upon: the processor says that it never changes its rate, and
//! the kernel offers it as a clock of its own, which it does only while all processors agree. Anywhere else it reads the kernel's
//! monotonic clock, at several times the cost.

use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Ticks a second.
pub(crate) const HZ: u64 = 1_000_000_000;

/// How long the counter is compared with the kernel's clock, once in a process.
const CALIBRATION: Duration = Duration::from_millis(4);
/// Pairs of readings of both clocks; the pair that was taken in the shortest time counts.
const READINGS: u32 = 16;
/// File in which Linux lists the clock sources that it finds usable on this host.
const KERNEL_CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Largest difference between the rates of two halves of the calibration, as a part of the rate.
const STEADY: u64 = 1 << 10;

/// The time-stamp counter, which may be read a little before what comes earlier in the program is done.
#[inline]
#[allow(unsafe_code)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, which only returns a value.
    unsafe { _rdtsc() }
}

/// The time-stamp counter once everything that was read earlier is known.
#[allow(unsafe_code)]
fn counter_in_order() -> u64 {
    // SAFETY: part of SSE2, which every x86-64 processor has; it touches no memory.
    unsafe { _mm_lfence() };
    counter()
}

/// The counter and the kernel's clock at one moment: the best of some readings, for a thread may be interrupted in any of them.
fn both() -> (u64, Instant) {
    let reading = |_| {
        let before = counter_in_order();
        let time = Instant::now();
        let took = counter_in_order().saturating_sub(before);
        (took, before + took / 2, time)
    };
    let closest = (0..READINGS).map(reading).min_by_key(|(took, ..)| *took);
    closest.map_or_else(|| (counter(), Instant::now()), |(_, ticks, time)| (ticks, time))
}

/// Nanoseconds of a tick of the counter, in units of 2^-32.
#[derive(Clone, Copy, Debug)]
struct Rate(u64);

impl Rate {
    /// `None` if the counter did not advance.
    fn between(start: (u64, Instant), end: (u64, Instant)) -> Option<Self> {
        let ticks = end.0.checked_sub(start.0).filter(|ticks| *ticks != 0)?;
        let rate = (end.1.duration_since(start.1).as_nanos() << 32) / u128::from(ticks);
        u64::try_from(rate).ok().filter(|rate| *rate != 0).map(Self)
    }

    /// The counter's rate, measured once; `None` where it cannot be relied upon.
    fn of_counter() -> Option<Self> {
        static RATE: OnceLock<Option<Rate>> = OnceLock::new();
        *RATE.get_or_init(|| if counter_is_invariant() { Self::measure() } else { None })
    }

    fn measure() -> Option<Self> {
        let start = both();
        std::thread::sleep(CALIBRATION / 2);
        let middle = both();
        std::thread::sleep(CALIBRATION / 2);
        let end = both();
        let (first, second) = (Self::between(start, middle)?, Self::between(middle, end)?);
        let steady = first.0.abs_diff(second.0) < first.0 / STEADY;
        Self::between(start, end).filter(|_| steady)
    }

    #[inline]
    fn nanoseconds(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.0)) >> 32) as u64
    }
}

/// True if the host's processor and kernel guarantee that the time-stamp counter never changes its rate and is the same on all processors.
pub fn counter_is_invariant() -> bool {
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let processor = __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & INVARIANT != 0;
    let kernel = std::fs::read_to_string(KERNEL_CLOCKS);
    processor && kernel.is_ok_and(|clocks| clocks.split_whitespace().any(|clock| clock == "tsc"))
}

/// Time source of the GPU clock: the processor's counter if its rate is known, otherwise the kernel's clock.
#[derive(Clone, Copy, Debug)]
enum Source {
    Counter { rate: Rate, origin: u64 },
    Kernel { origin: Instant },
}

/// Nanoseconds since reset, or from a value that was set; never backwards otherwise.
#[derive(Debug)]
pub(crate) struct Clock {
    source: Source,
    /// Time of the source at which this clock would have shown zero, modulo 2^64.
    start: AtomicU64,
}

impl Clock {
    /// A clock that shows zero now.
    pub(crate) fn new() -> Self {
        Self::with(Rate::of_counter())
    }

    fn with(rate: Option<Rate>) -> Self {
        let source = match rate {
            Some(rate) => Source::Counter { rate, origin: counter_in_order() },
            None => Source::Kernel { origin: Instant::now() },
        };
        Self { source, start: AtomicU64::new(0) }
    }

    #[inline]
    fn time(&self, counter: impl FnOnce() -> u64) -> u64 {
        // In this order a clock that is set meanwhile shows the time before or the time after.
        let start = self.start.load(Ordering::Acquire);
        self.elapsed(counter).wrapping_sub(start)
    }

    #[inline]
    fn elapsed(&self, counter: impl FnOnce() -> u64) -> u64 {
        match self.source {
            Source::Counter { rate, origin } => rate.nanoseconds(counter().saturating_sub(origin)),
            Source::Kernel { origin } => u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The time in ticks: not before what led to this call, nor before any time that was read by then.
    pub(crate) fn now(&self) -> u64 {
        self.time(counter_in_order)
    }

    /// The time in ticks for an event that is logged while it happens. The counter is read without a barrier, so the time may lie some
    /// nanoseconds before that of the last instruction.
    #[inline]
    pub(crate) fn mark(&self) -> u64 {
        self.time(counter)
    }

    /// Sets the clock to `ticks`, from where it runs on.
    pub(crate) fn set(&self, ticks: u64) {
        self.start.store(self.elapsed(counter_in_order).wrapping_sub(ticks), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of this host, and the one that any host has.
    fn clocks() -> [Clock; 2] {
        [Clock::new(), Clock::with(None)]
    }

    #[test]
    fn neither_source_goes_back_and_both_go_on_from_where_they_are_set() {
        for clock in clocks() {
            let mut last = 0;
            for _ in 0..10_000 {
                let now = clock.now();
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
            assert!(last > 0);
            let far = 1 << 60;
            clock.set(far);
            let (marked, now) = (clock.mark(), clock.now());
            assert!((far..far + (1 << 50)).contains(&now) && now >= marked, "{now} and {marked} after {far}");
        }
    }

    #[test]
    fn another_thread_reads_no_earlier_time() {
        for clock in clocks() {
            let latest = std::sync::Mutex::new(0);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..5_000 {
                            let mut latest = crate::lock::lock(&latest);
                            let now = clock.now();
                            assert!(now >= *latest, "{now} after {latest}");
                            *latest = now;
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_rate_scales_counts_of_any_size() {
        let moment = Instant::now();
        let rate = |ticks| Rate::between((100, moment), (100 + ticks, moment + Duration::from_secs(1)));
        let half = rate(2 * HZ).expect("a rate");
        assert_eq!((half.nanoseconds(0), half.nanoseconds(2 * HZ), half.nanoseconds(u64::MAX)), (0, HZ, u64::MAX / 2));
        assert!(rate(0).is_none(), "a counter that stands still");
        assert!(Rate::between((2, moment), (1, moment + Duration::from_secs(1))).is_none(), "one that goes back");
        assert!(Rate::between((1, moment), (2, moment)).is_none(), "a clock that stands still");
    }
}
