//! The power gate: keeps devices from changing their power state while somebody uses one.
//!
//! Whoever is about to call DDIs enters the gate, and a device that sleeps is woken first; putting one to sleep waits until
//! nobody is inside. [user-mode-work-submission: D-state transitions]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nt::lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use nt::user_space::{Waiting, while_waiting};

use super::Platform;
use crate::rank;

/// The time that putting a device to sleep waits for those who use it.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Keeps the devices of a machine from changing their power state while somebody uses one. No thread enters it twice.
#[derive(Default)]
pub(crate) struct PowerGate {
    /// Never waited for by a writer, so that whoever is inside may wait for others who enter.
    users: RwLock<(), rank::PowerGate>,
    /// Adapters in D3. Grows only while `users` is held for writing.
    asleep: AtomicUsize,
    /// Times that somebody needed a device, or came back from a wait.
    uses: AtomicU64,
    /// Adapters that are being reset: no thread enters meanwhile, and those that are inside leave.
    resetting: AtomicUsize,
    inside: Inside,
}

thread_local! {
    /// True while the calling thread is inside a gate.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The threads inside, in one word: how many there are, how many of them wait for a program, and whether an adapter is reset beside those.
#[derive(Default)]
struct Inside(AtomicU64);

impl Inside {
    const ONE: u64 = 1;
    const ONE_AWAY: u64 = 1 << 31;
    const PASSED: u64 = 1 << 63;
    const COUNT: u64 = Self::ONE_AWAY - 1;

    fn change(&self, change: impl Fn(u64) -> u64, may: impl Fn(u64) -> bool) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| may(now).then(|| change(now))).is_ok()
    }

    fn is_not_passed(now: u64) -> bool {
        now & Self::PASSED == 0
    }

    /// One thread more; false while an adapter is reset.
    fn enter(&self) -> bool {
        self.change(|now| now + Self::ONE, Self::is_not_passed)
    }

    fn leave(&self) {
        self.0.fetch_sub(Self::ONE, Ordering::AcqRel);
    }

    fn go_away(&self) {
        self.0.fetch_add(Self::ONE_AWAY, Ordering::AcqRel);
    }

    /// A thread that was away goes on, after a reset that it was passed by.
    fn come_back(&self) {
        while !self.change(|now| now - Self::ONE_AWAY, Self::is_not_passed) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// True if all threads are away: they stay there until [`Inside::end_pass`].
    fn pass(&self) -> bool {
        let all_away = |now: u64| now & Self::COUNT == (now / Self::ONE_AWAY) & Self::COUNT;
        self.change(|now| now | Self::PASSED, |now| Self::is_not_passed(now) && all_away(now))
    }

    fn end_pass(&self) {
        self.0.fetch_and(!Self::PASSED, Ordering::AcqRel);
    }
}

/// A thread is inside until this is dropped.
pub(crate) struct Use<'a> {
    gate: &'a PowerGate,
    _inside: RwLockReadGuard<'a, (), rank::PowerGate>,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
        self.gate.inside.leave();
    }
}

/// No thread uses a device until this is dropped: none is inside, or those that are wait for programs, and for this.
pub(crate) enum Passed<'a> {
    Closed { _closed: RwLockWriteGuard<'a, (), rank::PowerGate> },
    Beside(&'a PowerGate),
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        if let Self::Beside(gate) = self {
            gate.inside.end_pass();
        }
    }
}

/// A thread that is inside is away while it waits.
impl Waiting for PowerGate {
    fn begins(&self) {
        if IS_INSIDE.get() {
            self.inside.go_away();
        }
    }

    fn ends(&self) {
        if IS_INSIDE.get() {
            self.inside.come_back();
        }
    }
}

/// Nobody enters the gate until this is dropped.
pub(crate) struct Barrier<'a>(&'a PowerGate);

impl Drop for Barrier<'_> {
    fn drop(&mut self) {
        self.0.resetting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl PowerGate {
    fn read(&self) -> Use<'_> {
        // Whoever destroys the object waits for the thread in here, and whoever resets the adapter for both.
        debug_assert!(!crate::rundown::is_inside(), "a thread enters the power gate while it uses an object");
        loop {
            while self.resetting.load(Ordering::Acquire) != 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
            let inside = self.users.read();
            if self.inside.enter() {
                IS_INSIDE.set(true);
                return Use { gate: self, _inside: inside };
            }
        }
    }

    /// Does what waits for a program, or for a thread that may wait for one. An adapter may be reset meanwhile, and only that: no device changes its power state, and
    /// the caller goes on after the reset.
    pub(crate) fn away<T>(&self, act: impl FnOnce() -> T) -> T {
        while_waiting(Some(self), act)
    }

    /// For whoever resets an adapter and has [barred](PowerGate::bar) the gate: nobody uses a device until the answer is dropped. `None` while somebody does.
    pub(crate) fn try_pass(&self) -> Option<Passed<'_>> {
        if let Some(closed) = self.users.try_write() {
            return Some(Passed::Closed { _closed: closed });
        }
        self.inside.pass().then(|| Passed::Beside(self))
    }

    /// Nobody uses a device until this is dropped; `None` if somebody does all the while.
    pub(crate) fn close(&self) -> Option<RwLockWriteGuard<'_, (), rank::PowerGate>> {
        let limit = Instant::now() + CLOSE_LIMIT;
        loop {
            match self.users.try_write() {
                Some(closed) => return Some(closed),
                None if Instant::now() > limit => return None,
                None => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Keeps every thread out that is not inside yet.
    pub(crate) fn bar(&self) -> Barrier<'_> {
        self.resetting.fetch_add(1, Ordering::AcqRel);
        Barrier(self)
    }

    /// As [`PowerGate::close`], but does not wait.
    pub(crate) fn try_close(&self) -> Option<RwLockWriteGuard<'_, (), rank::PowerGate>> {
        self.users.try_write()
    }

    /// One more adapter is in D3. The caller has closed the gate.
    pub(crate) fn note_asleep(&self) {
        self.asleep.fetch_add(1, Ordering::AcqRel);
    }

    /// An adapter is back in D0.
    pub(crate) fn note_awake(&self) {
        self.asleep.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire) != 0
    }

    /// Every device is in D0 until the answer is dropped; those that slept are woken.
    pub(crate) fn enter(&self, machine: &Platform) -> Use<'_> {
        self.note_use();
        loop {
            let inside = self.read();
            if !self.is_asleep() {
                return inside;
            }
            drop(inside);
            if !machine.wake_devices() {
                return self.read();
            }
        }
    }

    /// Somebody needs a device.
    pub(crate) fn note_use(&self) {
        self.uses.fetch_add(1, Ordering::AcqRel);
    }

    /// Times that somebody needed a device.
    pub(crate) fn uses(&self) -> u64 {
        self.uses.load(Ordering::Acquire)
    }

    /// No device leaves D0 until the answer is dropped. Those that sleep go on sleeping unless somebody wakes them.
    pub(crate) fn stay(&self) -> Use<'_> {
        self.read()
    }

    /// As [`PowerGate::enter`], but wakes nobody: `None` while a device sleeps.
    pub(crate) fn enter_awake(&self) -> Option<Use<'_>> {
        let inside = self.read();
        (!self.is_asleep()).then_some(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_passes_those_who_are_away_and_nobody_else() {
        let gate = PowerGate::default();
        let inside = gate.stay();
        assert!(gate.try_pass().is_none(), "somebody uses a device");
        gate.away(|| {
            let passed = gate.try_pass().expect("nobody uses a device");
            assert!(gate.try_close().is_none() && gate.try_pass().is_none());
            drop(passed);
        });
        assert!(gate.try_pass().is_none(), "it is back");
        drop(inside);
        assert!(matches!(gate.away(|| gate.try_pass()), Some(Passed::Closed { .. })));
        assert!(gate.try_close().is_some());
    }

    #[test]
    fn whoever_is_passed_by_a_reset_or_comes_meanwhile_goes_on_after_it() {
        let gate = PowerGate::default();
        let (began, begin) = std::sync::mpsc::channel();
        let (reset, is_reset) = (AtomicUsize::new(0), |reset: &AtomicUsize| reset.load(Ordering::Acquire));
        std::thread::scope(|scope| {
            let barrier = gate.bar();
            let (gate, reset) = (&gate, &reset);
            drop(barrier);
            let away = scope.spawn(move || {
                let _inside = gate.stay();
                let _ = gate.away(|| began.send(()));
                is_reset(reset)
            });
            let _ = begin.recv();
            let barrier = gate.bar();
            let passed = loop {
                if let Some(passed) = gate.try_pass() {
                    break passed;
                }
            };
            let comes = scope.spawn(move || {
                let _inside = gate.stay();
                is_reset(reset)
            });
            reset.store(1, Ordering::Release);
            drop((passed, barrier));
            assert_eq!(comes.join().ok(), Some(1));
            // It was away, or had left before the reset began.
            assert!(away.join().is_ok());
        });
    }
}
