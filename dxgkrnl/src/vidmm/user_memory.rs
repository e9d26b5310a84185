//! System memory that user mode sees, and the owners of it.

use std::io;
use std::sync::Arc;

use nt::lock::{Innermost, Mutex, lock};
use nt::ram::{Owner, Ram};
use wddm_ddi::status::{NTSTATUS, STATUS_NO_MEMORY};

/// The owners of the memory of a process, or of what several processes may open. They are made when the first memory is taken.
#[derive(Default)]
pub(crate) struct UserMemory {
    of_process: bool,
    written: Mutex<Option<Arc<Owner>>, Innermost>,
    read: Mutex<Option<Arc<Owner>>, Innermost>,
}

type MakeOwner = fn(&Arc<Ram>) -> io::Result<Arc<Owner>>;

impl UserMemory {
    /// That of a process; the default is that of something else.
    pub(crate) fn of_process() -> Self {
        Self { of_process: true, ..Self::default() }
    }

    /// The owner of what user mode writes.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY.
    pub(crate) fn written(&self, ram: &Arc<Ram>) -> Result<Arc<Owner>, NTSTATUS> {
        owner(&self.written, ram, if self.of_process { Owner::process } else { Owner::shared })
    }

    /// The owner of what user mode only reads.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY.
    pub(crate) fn read(&self, ram: &Arc<Ram>) -> Result<Arc<Owner>, NTSTATUS> {
        owner(&self.read, ram, if self.of_process { Owner::reading_process } else { Owner::shared_to_read })
    }
}

fn owner(
    place: &Mutex<Option<Arc<Owner>>, Innermost>,
    ram: &Arc<Ram>,
    make: MakeOwner,
) -> Result<Arc<Owner>, NTSTATUS> {
    if let Some(owner) = &*lock(place) {
        return Ok(Arc::clone(owner));
    }
    // Owners are made and dropped with nothing locked, for the memory has a lock of its own.
    let made = make(ram).map_err(|_| STATUS_NO_MEMORY)?;
    let mut known = lock(place);
    let owner = Arc::clone(known.get_or_insert_with(|| Arc::clone(&made)));
    drop(known);
    Ok(owner)
}
