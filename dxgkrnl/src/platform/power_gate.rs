//! The power gate: keeps devices from changing their power state while somebody uses one.
//!
//! Whoever is about to call DDIs enters the gate, and a device that sleeps is woken first; putting one to sleep waits until
//! nobody is inside. [user-mode-work-submission: D-state transitions]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nt::lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

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
}

/// Nobody enters the gate until this is dropped.
pub(crate) struct Barrier<'a>(&'a PowerGate);

impl Drop for Barrier<'_> {
    fn drop(&mut self) {
        self.0.resetting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl PowerGate {
    fn read(&self) -> RwLockReadGuard<'_, (), rank::PowerGate> {
        // Whoever destroys the object waits for the thread in here, and whoever resets the adapter for both.
        debug_assert!(!crate::rundown::is_inside(), "a thread enters the power gate while it uses an object");
        while self.resetting.load(Ordering::Acquire) != 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.users.read()
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
    pub(crate) fn enter(&self, machine: &Platform) -> RwLockReadGuard<'_, (), rank::PowerGate> {
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
    pub(crate) fn stay(&self) -> RwLockReadGuard<'_, (), rank::PowerGate> {
        self.read()
    }

    /// As [`PowerGate::enter`], but wakes nobody: `None` while a device sleeps.
    pub(crate) fn enter_awake(&self) -> Option<RwLockReadGuard<'_, (), rank::PowerGate>> {
        let inside = self.read();
        (!self.is_asleep()).then_some(inside)
    }
}
