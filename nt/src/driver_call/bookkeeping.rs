//! What a driver has entered and acquired on a thread, and has to leave and release before it returns.

use super::THREAD;
use crate::driver::Driver;

/// A mutex that a thread has acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldMutex {
    /// Address of the mutex.
    pub mutex: usize,
    /// An address inside the instruction that acquired it, 0 if that is not known.
    pub instruction: usize,
}

impl HeldMutex {
    /// The mutex, and where its holder has acquired it, if that is known.
    pub fn describe(&self, driver: &Driver) -> String {
        let place = driver.place(self.instruction);
        let place = place.map_or_else(String::new, |place| format!(" in {place}"));
        format!("mutex {:#x}, which it has acquired{place} and not released", self.mutex)
    }
}

/// Counts a critical region in.
pub fn enter_critical_region() {
    THREAD.with_borrow_mut(|thread| thread.critical_regions = thread.critical_regions.saturating_add(1));
}

/// Counts a critical region out; false if none was entered in this call.
pub fn leave_critical_region() -> bool {
    THREAD.with_borrow_mut(|thread| {
        let floor = thread.frames.last().map_or(0, |frame| frame.critical_regions);
        let inside = thread.critical_regions > floor;
        if inside {
            thread.critical_regions -= 1;
        }
        inside
    })
}

/// True if a critical region disables normal kernel APCs.
pub fn in_critical_region() -> bool {
    THREAD.with_borrow(|thread| thread.critical_regions > 0)
}

/// Notes that the thread has acquired a push lock.
pub fn hold_push_lock(address: usize) {
    THREAD.with_borrow_mut(|thread| thread.push_locks.push(address));
}

/// True if this thread holds the push lock.
pub fn holds_push_lock(address: usize) -> bool {
    THREAD.with_borrow(|thread| thread.push_locks.contains(&address))
}

/// Notes that the thread has released a push lock; false if it did not hold it.
pub fn drop_push_lock(address: usize) -> bool {
    THREAD.with_borrow_mut(|thread| {
        let position = thread.push_locks.iter().rposition(|held| *held == address);
        position.map(|position| thread.push_locks.remove(position)).is_some()
    })
}

/// Notes that the thread has acquired a mutex, with an instruction inside of that call.
pub fn hold_mutex(mutex: usize, instruction: usize) {
    THREAD.with_borrow_mut(|thread| thread.mutexes.push(HeldMutex { mutex, instruction }));
}

/// Notes that the thread has released a mutex.
pub fn drop_mutex(address: usize) {
    THREAD.with_borrow_mut(|thread| {
        let position = thread.mutexes.iter().rposition(|held| held.mutex == address);
        position.map(|position| thread.mutexes.remove(position));
    });
}

/// A mutex that the thread holds, if any.
pub fn held_mutex() -> Option<HeldMutex> {
    THREAD.with_borrow(|thread| thread.mutexes.first().copied())
}
