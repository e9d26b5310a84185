//! Finds the fence that an event of the device names: the key is (process, address of the current value), the value the fence opened there.
//!
//! Changed below DISPATCH_LEVEL but only inside a routine at device level, where the interrupt routine reads it; so the interrupt
//! routine never waits, and a fence that was closed is not reported afterwards.

use core::sync::atomic::{AtomicBool, Ordering};

use wddm_ddi::types::HANDLE;

use crate::dxgk::Dxgk;
use crate::handle::Handle;
use crate::irql::{Device, Passive};
use crate::lock::{DeviceLock, PushLock};
use crate::pool::{OutOfMemory, PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused};

/// One open fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Handle bits of the process.
    pub(crate) process: u64,
    pub(crate) current: u64,
    pub(crate) monitored: u64,
    /// Handle of the open fence.
    pub(crate) open: Handle,
    /// The operating system's handle of the fence, as an address.
    pub(crate) dxgk: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexSlot {
    Free,
    /// An entry was removed here: a search goes on behind it.
    Removed,
    Used(Entry),
}

/// An open-addressing table of a power of two of places.
struct Map {
    places: PoolVec<IndexSlot>,
    /// Places that are not free.
    taken: usize,
    used: usize,
}

const SMALLEST: usize = 64;

fn hash(process: u64, current: u64) -> usize {
    let mixed = (process ^ (current >> 3).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize
}

impl Map {
    fn new(places: usize) -> Result<Self, OutOfMemory> {
        let places = places.next_power_of_two().max(SMALLEST);
        Ok(Self { places: PoolVec::filled(places, Tag::FENCE, |_| IndexSlot::Free)?, taken: 0, used: 0 })
    }

    fn search(&self, process: u64, current: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.places.len() - 1;
        let start = hash(process, current);
        (0..=mask).map(move |step| start.wrapping_add(step) & mask)
    }

    /// True if one more entry would leave the table too full for short searches.
    fn is_crowded(&self) -> bool {
        (self.taken + 1) * 4 > self.places.len() * 3
    }

    fn find(&self, process: u64, current: u64) -> Option<Entry> {
        for index in self.search(process, current) {
            match self.places.get(index)? {
                IndexSlot::Used(entry) if entry.process == process && entry.current == current => return Some(*entry),
                IndexSlot::Free => return None,
                IndexSlot::Used(_) | IndexSlot::Removed => {}
            }
        }
        None
    }

    /// Inserts; false if the table is full. A fence opened twice at one address is in the table twice.
    fn insert(&mut self, entry: Entry) -> bool {
        for index in self.search(entry.process, entry.current) {
            let Some(place) = self.places.get_mut(index) else { return false };
            if let IndexSlot::Used(_) = place {
                continue;
            }
            self.taken += usize::from(*place == IndexSlot::Free);
            self.used += 1;
            *place = IndexSlot::Used(entry);
            return true;
        }
        false
    }

    fn remove(&mut self, process: u64, current: u64, open: Handle) {
        for index in self.search(process, current) {
            let Some(place) = self.places.get_mut(index) else { return };
            match place {
                IndexSlot::Used(entry) if entry.open == open => {
                    *place = IndexSlot::Removed;
                    self.used -= 1;
                    return;
                }
                IndexSlot::Free => return,
                IndexSlot::Used(_) | IndexSlot::Removed => {}
            }
        }
    }

    /// Moves every entry to `larger` and takes its place; `self` becomes the empty old table.
    fn move_to(&mut self, larger: &mut Self) {
        for place in self.places.iter() {
            if let IndexSlot::Used(entry) = place {
                larger.insert(*entry);
            }
        }
        core::mem::swap(self, larger);
    }
}

/// The index of an adapter.
pub(crate) struct FenceIndex {
    /// Taken while the table is changed, so that growing it and inserting are one step. Taken before device level.
    changing: PushLock<()>,
    map: DeviceLock<Map>,
    /// True once an entry could not be withdrawn, so that no exact answer may be given any more.
    inexact: AtomicBool,
}

impl FenceIndex {
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self {
            changing: PushLock::new(()),
            map: DeviceLock::new(Map::new(SMALLEST)?),
            inexact: AtomicBool::new(false),
        })
    }

    /// Adds an open fence.
    pub(crate) fn insert(&self, irql: &Passive, dxgk: &Dxgk, entry: Entry) -> Result<(), Refused> {
        let _changing = self.changing.lock(irql);
        let (crowded, used) =
            dxgk.synchronize(irql, |device| self.map.with(device, |map| (map.is_crowded(), map.used)))?;
        // Sized for what is in use, so that a table full of removed places is cleaned rather than grown.
        let mut spare = if crowded { Some(Map::new(used * 4)?) } else { None };
        let inserted = dxgk.synchronize(irql, |device| {
            self.map.with(device, |map| {
                if let Some(larger) = &mut spare {
                    map.move_to(larger);
                }
                map.insert(entry)
            })
        })?;
        // The old table, if there is one, is freed here, below device level.
        drop(spare);
        if inserted { Ok(()) } else { Err(refused(Reason::TableFull)) }
    }

    /// Withdraws an open fence; it is not reported once this returned.
    pub(crate) fn remove(&self, irql: &Passive, dxgk: &Dxgk, process: Handle, current: u64, open: Handle) {
        let _changing = self.changing.lock(irql);
        let remove = |device: &Device| self.map.with(device, |map| map.remove(process.into_bits(), current, open));
        if dxgk.synchronize(irql, remove).is_err() {
            self.inexact.store(true, Ordering::Release);
        }
    }

    /// The operating system's handle of the fence whose current value a process has at `current`; `None` if unknown.
    pub(crate) fn find(&self, irql: &Device, process: u64, current: u64) -> Option<HANDLE> {
        if self.inexact.load(Ordering::Acquire) {
            return None;
        }
        let entry = self.map.with(irql, |map| map.find(process, current))?;
        Some(core::ptr::without_provenance_mut(entry.dxgk))
    }

    /// Address of the monitored value of the fence whose current value `process` has at `current`.
    pub(crate) fn monitored_address(&self, irql: &Passive, dxgk: &Dxgk, process: Handle, current: u64) -> Option<u64> {
        let find = |device: &Device| self.map.with(device, |map| map.find(process.into_bits(), current));
        Some(dxgk.synchronize(irql, find).ok()??.monitored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn entry(process: u64, current: u64, open: u32) -> Entry {
        Entry { process, current, monitored: current + 8, open: Handle::new().with_slot(open), dxgk: open as usize }
    }

    #[test]
    fn a_fence_is_found_by_process_and_address_until_removed() {
        testing::bind();
        let mut map = Map::new(0).unwrap();
        assert!(map.insert(entry(1, 0x1000, 1)) && map.insert(entry(2, 0x1000, 2)) && map.insert(entry(1, 0x1008, 3)));
        let found = |map: &Map, process, current| map.find(process, current).map(|entry| entry.dxgk);
        assert_eq!(found(&map, 1, 0x1000), Some(1));
        assert_eq!(found(&map, 2, 0x1000), Some(2));
        assert_eq!(found(&map, 1, 0x1008), Some(3));
        assert_eq!(found(&map, 3, 0x1000), None);
        map.remove(1, 0x1000, Handle::new().with_slot(1));
        assert_eq!((found(&map, 1, 0x1000), found(&map, 2, 0x1000)), (None, Some(2)));
    }

    #[test]
    fn a_fence_opened_twice_stays_until_both_are_closed() {
        testing::bind();
        let mut map = Map::new(0).unwrap();
        assert!(map.insert(entry(1, 0x1000, 1)) && map.insert(entry(1, 0x1000, 2)));
        map.remove(1, 0x1000, Handle::new().with_slot(1));
        assert_eq!(map.find(1, 0x1000).map(|entry| entry.dxgk), Some(2));
        map.remove(1, 0x1000, Handle::new().with_slot(2));
        assert_eq!(map.find(1, 0x1000), None);
    }

    #[test]
    fn a_crowded_table_is_moved_with_everything_in_it() {
        testing::bind();
        let mut map = Map::new(0).unwrap();
        for number in 0..1000u32 {
            if map.is_crowded() {
                let mut larger = Map::new(map.used * 4).unwrap();
                map.move_to(&mut larger);
            }
            assert!(map.insert(entry(u64::from(number % 7), u64::from(number) * 8, number)));
        }
        assert!((0..1000u32).all(|number| {
            map.find(u64::from(number % 7), u64::from(number) * 8).is_some_and(|entry| entry.dxgk == number as usize)
        }));
        assert!(map.places.len() <= 4096, "{}", map.places.len());
    }

    #[test]
    fn a_table_is_crowded_when_one_more_entry_would_take_more_than_three_quarters_of_it() {
        testing::bind();
        let mut map = Map::new(0).unwrap();
        for number in 0..48u32 {
            assert!(!map.is_crowded(), "{number} of {SMALLEST} places are taken");
            assert!(map.insert(entry(1, u64::from(number) * 8, number)));
        }
        assert!(map.is_crowded(), "48 of {SMALLEST} places are taken");
    }

    #[test]
    fn churn_does_not_grow_the_table() {
        testing::bind();
        let mut map = Map::new(0).unwrap();
        for number in 0..10_000u32 {
            if map.is_crowded() {
                let mut cleaned = Map::new(map.used * 4).unwrap();
                map.move_to(&mut cleaned);
            }
            assert!(map.insert(entry(1, u64::from(number) * 8, number)));
            map.remove(1, u64::from(number) * 8, Handle::new().with_slot(number));
        }
        assert_eq!((map.places.len(), map.used), (SMALLEST, 0));
    }

    #[test]
    fn a_full_table_refuses_and_searches_end() {
        testing::bind();
        let mut map = Map::new(0).unwrap();
        assert!((0..SMALLEST as u32).all(|number| map.insert(entry(1, u64::from(number) * 8, number))));
        assert!(!map.insert(entry(2, 0, 999)));
        assert_eq!(map.find(9, 9), None);
        map.remove(9, 9, Handle::new());
    }
}
