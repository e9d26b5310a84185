//! Locks with a rank.
//!
//! Every lock has a [`Rank`] as part of its type. A thread takes locks in the order of their ranks, outermost first, which is why
//! no two threads can wait for each other. In builds with debug assertions each thread keeps a list of the locks that it holds, and one that
//! takes a lock out of order ends the process, with the names of both locks and the place of each: whether another thread is in the way at that moment
//! is a matter of luck, the order is not. In other builds a lock costs what that of the standard library costs.
//!
//! A lock that is only tried ([`Mutex::try_lock`]) makes no thread wait, so it may be taken out of order; what is taken while it is held may not.
//!
//! No lock is poisoned: a panic elsewhere must not hide the first failure.

pub mod delays;
mod held;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::Duration;

use held::{Held, Way};

/// The place of a lock in the order in which locks are taken.
pub trait Rank {
    /// Grows from the outermost locks to the innermost ones.
    const LEVEL: u16;
    /// The name in messages.
    const NAME: &'static str;
    /// True if a thread may hold several mutexes of the rank, which it locks by growing keys, see [`Mutex::lock_in_order`].
    const SEVERAL: bool = false;
    /// True for reader-writer locks that are only tried for writing. Since no thread waits for writing, a reader delays no other thread: a
    /// thread that reads may take any other lock, and the same one again for reading.
    const TRIED: bool = false;
}

/// The rank of locks that are held for a few instructions, in which no other lock of the crates above this one is taken.
#[derive(Debug)]
pub enum Leaf {}

impl Rank for Leaf {
    const LEVEL: u16 = 0x8000;
    const NAME: &'static str = "Leaf";
}

/// The rank of locks that may be taken while a [`Leaf`] is held. No other lock at all is taken while one of them is held.
#[derive(Debug)]
pub enum Innermost {}

impl Rank for Innermost {
    const LEVEL: u16 = 0xffff;
    const NAME: &'static str = "Innermost";
}

/// Declares ranks as types, outermost first. `: several` and `: tried` set the constants of [`Rank`](trait@crate::lock::Rank) of that name.
#[macro_export]
macro_rules! ranks {
    ($visibility:vis from $first:literal; $($(#[$attribute:meta])* $name:ident $(: $kind:ident)?,)+) => {
        #[repr(u16)]
        enum Order { $($name),+ }
        $(
            $(#[$attribute])*
            #[derive(Debug)]
            $visibility enum $name {}

            impl $crate::lock::Rank for $name {
                const LEVEL: u16 = $first + Order::$name as u16;
                const NAME: &'static str = stringify!($name);
                $($crate::rank_kind!($kind);)?
            }
        )+
    };
}

/// Part of [`ranks!`].
#[doc(hidden)]
#[macro_export]
macro_rules! rank_kind {
    (several) => {
        const SEVERAL: bool = true;
    };
    (tried) => {
        const TRIED: bool = true;
    };
}

/// Number of locks that the calling thread holds; 0 in builds without debug assertions.
pub fn held() -> usize {
    held::count()
}

/// Forgets all locks of the calling thread but the first `count`: the frames that held the others were abandoned, and the locks stay held for ever.
pub fn forget_down_to(count: usize) {
    held::truncate(count);
}

/// A lock for one thread at a time.
#[derive(Debug)]
pub struct Mutex<T, R = Leaf> {
    inner: sync::Mutex<T>,
    rank: PhantomData<fn() -> R>,
}

/// A [`Mutex`] is held until this is dropped.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct MutexGuard<'a, T, R: Rank = Leaf> {
    /// `None` while a [`Condvar`] waits.
    guard: Option<sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T, R>,
    key: u64,
}

impl<T: Default, R: Rank> Default for Mutex<T, R> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, R: Rank> Mutex<T, R> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { inner: sync::Mutex::new(value), rank: PhantomData }
    }

    /// Waits until no other thread has the lock. Ends the process if the thread holds a lock of the same rank or of one that comes
    /// after it, in builds with debug assertions.
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T, R> {
        self.lock_in_order(0)
    }

    /// As [`Mutex::lock`], for ranks of which a thread may hold several locks, by growing keys.
    #[track_caller]
    #[inline]
    pub fn lock_in_order(&self, key: u64) -> MutexGuard<'_, T, R> {
        let entry = self.held(key);
        held::check(&entry);
        delays::place();
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        held::push(entry);
        MutexGuard { guard: Some(guard), mutex: self, key }
    }

    /// Takes the lock if no thread has it.
    #[track_caller]
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, R>> {
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        held::push(self.held(0));
        Some(MutexGuard { guard: Some(guard), mutex: self, key: 0 })
    }

    /// The value; the lock is consumed, so no other thread has it.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value; the lock is borrowed mutably, so no other thread has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    #[inline]
    fn held(&self, key: u64) -> Held {
        Held::of::<R>((&raw const *self).addr(), key, Way::Alone)
    }
}

/// [`Mutex::lock`] as a function.
#[track_caller]
#[inline]
pub fn lock<T, R: Rank>(mutex: &Mutex<T, R>) -> MutexGuard<'_, T, R> {
    mutex.lock()
}

impl<T, R: Rank> Deref for MutexGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("a condition variable has the guard"),
        }
    }
}

impl<T, R: Rank> DerefMut for MutexGuard<'_, T, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.guard {
            Some(guard) => guard,
            None => unreachable!("a condition variable has the guard"),
        }
    }
}

impl<T, R: Rank> Drop for MutexGuard<'_, T, R> {
    #[inline]
    fn drop(&mut self) {
        if self.guard.is_some() {
            delays::place();
            held::pop((&raw const *self.mutex).addr());
        }
    }
}

/// A condition variable for a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Gives the lock back and sleeps until notified, or for no reason; then takes the lock again.
    #[track_caller]
    pub fn wait<'a, T, R: Rank>(&self, guard: MutexGuard<'a, T, R>) -> MutexGuard<'a, T, R> {
        without(guard, |guard| self.0.wait(guard).unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`Condvar::wait`], for `timeout` at most.
    #[track_caller]
    pub fn wait_timeout<'a, T, R: Rank>(&self, guard: MutexGuard<'a, T, R>, timeout: Duration) -> MutexGuard<'a, T, R> {
        without(guard, |guard| self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[track_caller]
fn without<'a, T, R: Rank>(
    mut guard: MutexGuard<'a, T, R>,
    wait: impl FnOnce(sync::MutexGuard<'a, T>) -> sync::MutexGuard<'a, T>,
) -> MutexGuard<'a, T, R> {
    if let Some(inner) = guard.guard.take() {
        held::pop((&raw const *guard.mutex).addr());
        guard.guard = Some(wait(inner));
        held::push(guard.mutex.held(guard.key));
    }
    guard
}

/// A lock for one thread that writes or several that read.
#[derive(Debug)]
pub struct RwLock<T, R = Leaf> {
    inner: sync::RwLock<T>,
    rank: PhantomData<fn() -> R>,
}

/// An [`RwLock`] is held for reading until this is dropped.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct RwLockReadGuard<'a, T, R: Rank = Leaf> {
    guard: sync::RwLockReadGuard<'a, T>,
    _held: RwHeld<'a, T, R>,
}

/// An [`RwLock`] is held for writing until this is dropped.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct RwLockWriteGuard<'a, T, R: Rank = Leaf> {
    guard: sync::RwLockWriteGuard<'a, T>,
    held: RwHeld<'a, T, R>,
}

/// The entry of an [`RwLock`] in the list of the thread.
#[derive(Debug)]
struct RwHeld<'a, T, R>(&'a RwLock<T, R>);

impl<T, R> Drop for RwHeld<'_, T, R> {
    #[inline]
    fn drop(&mut self) {
        delays::place();
        held::pop((&raw const *self.0).addr());
    }
}

impl<T: Default, R: Rank> Default for RwLock<T, R> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, R: Rank> RwLock<T, R> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { inner: sync::RwLock::new(value), rank: PhantomData }
    }

    /// Waits until no other thread has the lock for writing. Order: as [`Mutex::lock`].
    #[track_caller]
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T, R> {
        let entry = self.held(Way::Shared);
        held::check(&entry);
        delays::place();
        let guard = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        held::push(entry);
        RwLockReadGuard { guard, _held: RwHeld(self) }
    }

    /// Waits until no other thread has the lock. Order: as [`Mutex::lock`].
    #[track_caller]
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T, R> {
        const { assert!(!R::TRIED, "a lock that is only tried for writing") };
        let entry = self.held(Way::Alone);
        held::check(&entry);
        delays::place();
        let guard = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        held::push(entry);
        RwLockWriteGuard { guard, held: RwHeld(self) }
    }

    /// Takes the lock for reading if no thread has it for writing.
    #[track_caller]
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T, R>> {
        let guard = match self.inner.try_read() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        held::push(self.held(Way::Shared));
        Some(RwLockReadGuard { guard, _held: RwHeld(self) })
    }

    /// Takes the lock for writing if no thread has it.
    #[track_caller]
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T, R>> {
        let guard = match self.inner.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        held::push(self.held(Way::Alone));
        Some(RwLockWriteGuard { guard, held: RwHeld(self) })
    }

    /// The value; the lock is borrowed mutably, so no other thread has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    #[inline]
    fn held(&self, way: Way) -> Held {
        Held::of::<R>((&raw const *self).addr(), 0, way)
    }
}

impl<T, R: Rank> Deref for RwLockReadGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, R: Rank> Deref for RwLockWriteGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, R: Rank> DerefMut for RwLockWriteGuard<'_, T, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<'a, T, R: Rank> RwLockWriteGuard<'a, T, R> {
    /// Goes on reading, without another thread writing in between.
    #[track_caller]
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T, R> {
        let Self { guard, held } = this;
        held::pop((&raw const *held.0).addr());
        held::push(held.0.held(Way::Shared));
        RwLockReadGuard { guard: sync::RwLockWriteGuard::downgrade(guard), _held: held }
    }
}
