//! The fences that the scheduler reaches through the paging process.
//!
//! User mode names a fence by an address in its own process. Where the function has this table, such an address is only looked up
//! here; the values are reached by the addresses that the kernel gave for the paging process, so user mode can make the scheduler touch
//! nothing but fences of its process.

use crate::mmu::{Fault, Intent};
use campanile_hw::queue::Location;
use campanile_hw::registers::CommandStatus;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Addresses of a fence's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FencePlace {
    /// Address space.
    pub(crate) root: Location,
    /// Address of the current value.
    pub(crate) current: u64,
    /// Address of the monitored value, 0 for none.
    pub(crate) monitored: u64,
}

/// A fence that the command MapFence has put into the table.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Address of the monitored value in the process.
    monitored: u64,
    place: FencePlace,
}

/// Fences by root of the process and address of the current value there.
#[derive(Debug)]
pub(crate) struct FenceTable {
    limit: u32,
    known: RwLock<HashMap<(u64, u64), Known>>,
}

impl FenceTable {
    /// A table for up to `limit` fences, with none.
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, known: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<(u64, u64), Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<(u64, u64), Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fence that a process names by `process` and whose values are at `place`.
    ///
    /// # Errors
    /// The fence is known there already, or the table is full.
    pub(crate) fn insert(&self, process: FencePlace, place: FencePlace) -> Result<(), CommandStatus> {
        let mut known = self.write();
        let full = known.len() >= self.limit as usize;
        match known.entry((process.root.into_bits(), process.current)) {
            Entry::Occupied(_) => Err(CommandStatus::BadState),
            Entry::Vacant(_) if full => Err(CommandStatus::TableFull),
            Entry::Vacant(free) => {
                free.insert(Known { monitored: process.monitored, place });
                Ok(())
            }
        }
    }

    /// Forgets a fence; false if it was not known.
    pub(crate) fn remove(&self, root: Location, current: u64) -> bool {
        self.write().remove(&(root.into_bits(), current)).is_some()
    }

    /// Forgets all.
    pub(crate) fn reset(&self) {
        *self.write() = HashMap::new();
    }

    /// Where the fence is that a process names by these addresses, `monitored` being 0 if only the current value is wanted.
    /// `None` if there is no such fence; a monitored value that is not the fence's is a fault.
    pub(crate) fn find(&self, process: FencePlace) -> Result<Option<FencePlace>, Fault> {
        let known = self.read().get(&(process.root.into_bits(), process.current)).copied();
        match known {
            None => Ok(None),
            Some(known) if process.monitored == 0 => Ok(Some(FencePlace { monitored: 0, ..known.place })),
            Some(known) if process.monitored == known.monitored => Ok(Some(known.place)),
            Some(_) => Err(Fault::page(process.monitored, Intent::Read, 0)),
        }
    }
}
