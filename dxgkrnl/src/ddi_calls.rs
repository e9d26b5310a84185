//! How often each DDI was called on a machine, so that readers about a run can tell what it did.

use core::mem::size_of;
use core::sync::atomic::{AtomicU64, Ordering};

use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;

/// Fields of the table that a driver registers with, by their places; most are DDIs.
const PLACES: usize = size_of::<DRIVER_INITIALIZATION_DATA>() / size_of::<usize>();

/// A DDI: its name, and the offset of its field in the table.
pub(crate) type Ddi = (&'static str, usize);

/// Counts by DDI, of all drivers of one machine.
#[derive(Debug)]
pub(crate) struct DdiCalls([AtomicU64; PLACES]);

impl Default for DdiCalls {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; PLACES])
    }
}

impl DdiCalls {
    fn of(&self, offset: usize) -> Option<&AtomicU64> {
        self.0.get(offset / size_of::<usize>())
    }

    /// The DDI whose field has this offset is called.
    #[inline]
    pub(crate) fn add(&self, offset: usize) {
        if let Some(count) = self.of(offset) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the counts that are not 0, and begins anew.
    pub(crate) fn take(&self, ddis: &[Ddi]) -> Vec<(&'static str, u64)> {
        let count = |offset| self.of(offset).map_or(0, |count| count.swap(0, Ordering::Relaxed));
        ddis.iter().map(|(name, offset)| (*name, count(*offset))).filter(|(_, count)| *count != 0).collect()
    }
}
