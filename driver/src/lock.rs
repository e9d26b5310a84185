//! Locks, by the level they are taken at.
//!
//! Order, outermost first: push locks, then spin locks, then [`DeviceLock`]s. Where two locks of one kind nest, the comment of the field
//! has their order.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use wddm_ddi::types::KIRQL;

use crate::irql::{Device, Dispatch, Passive, UpToDispatch};
use crate::nt;

/// Data shared up to DISPATCH_LEVEL. Taking it raises to DISPATCH_LEVEL and lends that token.
pub(crate) struct SpinLock<T> {
    word: UnsafeCell<usize>,
    data: UnsafeCell<T>,
}

// SAFETY: the data is only reached by the one holder of the lock.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) const fn new(data: T) -> Self {
        Self { word: UnsafeCell::new(0), data: UnsafeCell::new(data) }
    }

    /// Spins until the lock is free.
    pub(crate) fn lock(&self, _irql: &impl UpToDispatch) -> SpinGuard<'_, T> {
        // SAFETY: the word lives in this lock, the token says DISPATCH or below, and guards are not nested on one lock.
        let old = unsafe { nt::acquire_spin_lock(self.word.get()) };
        // SAFETY: the lock raised the level to DISPATCH until its release; the guard owns the token.
        let irql = unsafe { Dispatch::assume() };
        SpinGuard { lock: self, old, irql }
    }
}

/// A held [`SpinLock`].
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    old: KIRQL,
    irql: Dispatch,
}

impl<T> SpinGuard<'_, T> {
    /// The data and the level at once.
    pub(crate) fn parts(&mut self) -> (&mut T, &Dispatch) {
        // SAFETY: the lock is held and the guard borrowed mutably.
        (unsafe { &mut *self.lock.data.get() }, &self.irql)
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held and the guard borrowed mutably.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock, acquired with this old level.
        unsafe { nt::release_spin_lock(self.lock.word.get(), self.old) };
    }
}

/// Data shared below DISPATCH_LEVEL; waiters sleep.
pub(crate) struct PushLock<T> {
    word: UnsafeCell<usize>,
    data: UnsafeCell<T>,
}

// SAFETY: the data is only reached by the one holder of the lock.
unsafe impl<T: Send> Send for PushLock<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send> Sync for PushLock<T> {}

impl<T> PushLock<T> {
    pub(crate) const fn new(data: T) -> Self {
        Self { word: UnsafeCell::new(0), data: UnsafeCell::new(data) }
    }

    /// Sleeps until the lock is free.
    pub(crate) fn lock(&self, _irql: &Passive) -> PushGuard<'_, T> {
        // SAFETY: the word lives in this lock, the token says below DISPATCH, and guards are not nested on one lock.
        unsafe { nt::acquire_push_lock(self.word.get()) };
        PushGuard { lock: self }
    }
}

/// A held [`PushLock`].
pub(crate) struct PushGuard<'a, T> {
    lock: &'a PushLock<T>,
}

impl<T> Deref for PushGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for PushGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held and the guard borrowed mutably.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for PushGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock.
        unsafe { nt::release_push_lock(self.lock.word.get()) };
    }
}

/// Data that belongs to device level.
///
/// The operating system serialises everything at device level of one adapter, so the flag is free whenever it is taken; it is
/// there because the compiler cannot see that, and spins should the promise ever be broken. Never nested.
pub(crate) struct DeviceLock<T> {
    held: AtomicBool,
    data: UnsafeCell<T>,
}

// SAFETY: the data is only reached while `held` is owned.
unsafe impl<T: Send> Send for DeviceLock<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send> Sync for DeviceLock<T> {}

impl<T> DeviceLock<T> {
    pub(crate) const fn new(data: T) -> Self {
        Self { held: AtomicBool::new(false), data: UnsafeCell::new(data) }
    }

    /// Runs `body` on the data. `body` must not use the same lock again.
    pub(crate) fn with<R>(&self, _irql: &Device, body: impl FnOnce(&mut T) -> R) -> R {
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
        }
        // SAFETY: `held` is owned by this call.
        let result = body(unsafe { &mut *self.data.get() });
        self.held.store(false, Ordering::Release);
        result
    }
}
