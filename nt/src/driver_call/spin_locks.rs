//! Spin locks that threads hold, so that a report can say which lock was not released, by whom, and where it was acquired.
//!
//! A thread notes its locks in a table of its own, which others read when they wait for one of them too long.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::calls;
use crate::driver::Driver;
use crate::lock::{Innermost, Mutex};

/// Locks of one thread that are noted; more are held without a note.
const NOTED: usize = 8;

/// A lock that is held.
#[derive(Default)]
struct Note {
    /// Address of the lock, 0 for no note.
    lock: AtomicUsize,
    /// An address inside the instruction that acquired it, 0 if that is not known.
    instruction: AtomicUsize,
}

/// The locks that a thread holds.
struct Table {
    thread: i32,
    notes: [Note; NOTED],
    /// Locks that are held without a note; the thread's own, which nobody else reads.
    unnoted: AtomicU32,
}

/// The tables of all threads.
static TABLES: Mutex<Vec<Weak<Table>>, Innermost> = Mutex::new(Vec::new());

thread_local! {
    static TABLE: Arc<Table> = {
        let table = Arc::new(Table { thread: calls::thread_id(), notes: Default::default(), unnoted: AtomicU32::new(0) });
        let mut tables = TABLES.lock();
        tables.retain(|table| table.strong_count() != 0);
        tables.push(Arc::downgrade(&table));
        table
    };
}

/// A lock that is held, and where it was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSpinLock {
    /// Address of the lock.
    pub lock: usize,
    /// An address inside the instruction that acquired it, 0 if that is not known.
    pub instruction: usize,
    /// The host's number of the thread that holds it.
    pub thread: i32,
}

impl HeldSpinLock {
    /// The lock, its holder, and where that acquired it, if it is known.
    pub fn describe(&self, driver: &Driver) -> String {
        let place = driver.image().and_then(|image| image.place(self.instruction));
        let place = place.map_or_else(String::new, |place| format!(" in {place}"));
        format!("spin lock {:#x}, which thread {} has acquired{place} and not released", self.lock, self.thread)
    }
}

impl Table {
    fn locks(&self) -> [usize; NOTED] {
        std::array::from_fn(|place| self.notes[place].lock.load(Ordering::Relaxed))
    }

    fn held(&self, lock: usize) -> Option<HeldSpinLock> {
        let note = self.notes.iter().find(|note| note.lock.load(Ordering::Acquire) == lock)?;
        Some(HeldSpinLock { lock, instruction: note.instruction.load(Ordering::Relaxed), thread: self.thread })
    }
}

/// Notes that the calling thread has acquired a lock, with an instruction inside of that call.
pub(crate) fn hold(lock: usize, instruction: usize) {
    TABLE.with(|table| {
        if let Some(note) = table.notes.iter().find(|note| note.lock.load(Ordering::Relaxed) == 0) {
            note.instruction.store(instruction, Ordering::Relaxed);
            note.lock.store(lock, Ordering::Release);
        } else {
            table.unnoted.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Notes that the calling thread has released a lock.
pub(crate) fn release(lock: usize) {
    TABLE.with(|table| match table.notes.iter().find(|note| note.lock.load(Ordering::Relaxed) == lock) {
        Some(note) => note.lock.store(0, Ordering::Release),
        None => {
            let left = table.unnoted.load(Ordering::Relaxed).saturating_sub(1);
            table.unnoted.store(left, Ordering::Relaxed);
        }
    });
}

/// The thread that holds a lock.
pub(crate) fn holder(lock: usize) -> Option<HeldSpinLock> {
    let tables: Vec<Arc<Table>> = TABLES.lock().iter().filter_map(Weak::upgrade).collect();
    tables.iter().find_map(|table| table.held(lock))
}

/// True if the calling thread has noted that it holds a lock.
pub(crate) fn holds(lock: usize) -> bool {
    TABLE.with(|table| table.locks().contains(&lock))
}

/// True if the calling thread does not hold a lock: it has no note of it, and holds none without a note.
pub(crate) fn lacks(lock: usize) -> bool {
    TABLE.with(|table| !table.locks().contains(&lock) && table.unnoted.load(Ordering::Relaxed) == 0)
}

/// The locks that the calling thread holds.
pub(super) fn held() -> [usize; NOTED] {
    TABLE.with(|table| table.locks())
}

/// Forgets the locks that the calling thread has acquired since it held these; one of them.
pub(super) fn forget_others(held: &[usize; NOTED]) -> Option<HeldSpinLock> {
    TABLE.with(|table| {
        let mut left = None;
        for note in &table.notes {
            let lock = note.lock.load(Ordering::Relaxed);
            if lock != 0 && !held.contains(&lock) {
                left = table.held(lock);
                note.lock.store(0, Ordering::Release);
            }
        }
        left
    })
}
