//! Handle tables: slot and generation in one word, so that a stale handle is refused instead of followed.

use std::collections::VecDeque;
use std::sync::Arc;

use nt::lock::{Innermost, Mutex, lock};

/// Bits of the slot number in a handle; the generation lies above them.
const SLOT_BITS: u32 = 20;
/// Slots of a table, slot 0 is never used.
const SLOTS: u32 = 1 << SLOT_BITS;
/// Objects of a table, at most: what a process may have the system keep for it, each some kilobytes at most beside its memory for the GPU.
const OBJECTS_MAX: usize = 1 << 16;
/// Generations of a slot. A slot that has used them all is retired, so that no handle value is ever given out twice.
const GENERATIONS: u16 = 1 << (32 - SLOT_BITS);
/// Parts into which the generations are divided for [`HandleTable::of_part`].
const PARTS: u64 = 16;

/// The parts of the generations that tables have at the moment, a bit for each.
#[derive(Default)]
pub(crate) struct Parts(Mutex<u16, Innermost>);

/// A part that no other table has as long as this lives, if at most [`PARTS`] tables live at a time.
pub(crate) struct Part {
    number: u32,
    parts: Arc<Parts>,
}

impl Part {
    /// The first one that is free. Tables beyond [`PARTS`] share the last one.
    pub(crate) fn of(parts: &Arc<Parts>) -> Self {
        let mut taken = lock(&parts.0);
        let number = taken.trailing_ones().min(PARTS as u32 - 1);
        *taken |= 1 << number;
        Self { number, parts: Arc::clone(parts) }
    }

    pub(crate) fn number(&self) -> u64 {
        u64::from(self.number)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        *lock(&self.parts.0) &= !(1 << self.number);
    }
}

struct Slot<T> {
    generation: u16,
    entry: Option<Entry<T>>,
}

struct Entry<T> {
    value: T,
    owner: u32,
    sequence: u64,
}

/// Objects by handle. Handles are never 0.
pub(crate) struct HandleTable<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    sequence: u64,
    /// Generation of a slot's first object, and the one that no object has any more.
    generations: (u16, u16),
    objects: usize,
}

impl<T> HandleTable<T> {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: VecDeque::new(), sequence: 0, generations: (1, GENERATIONS), objects: 0 }
    }

    /// An empty table whose handles are none of a table of one of the 15 numbers before or behind this one.
    pub(crate) fn of_part(number: u64) -> Self {
        const LENGTH: u16 = GENERATIONS / PARTS as u16;
        let first = (number % PARTS) as u16 * LENGTH;
        Self { generations: (first.max(1), first + LENGTH), ..Self::new() }
    }

    /// Adds `value`, which belongs to the object with handle `owner` (0 for none). `None` when the table is full.
    pub(crate) fn insert(&mut self, value: T, owner: u32) -> Option<u32> {
        if self.objects == OBJECTS_MAX {
            return None;
        }
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if self.slots.len() + 1 < SLOTS as usize => {
                self.slots.push(Slot { generation: self.generations.0, entry: None });
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let slot = self.slots.get_mut(index as usize)?;
        self.sequence += 1;
        self.objects += 1;
        slot.entry = Some(Entry { value, owner, sequence: self.sequence });
        Some(u32::from(slot.generation) << SLOT_BITS | (index + 1))
    }

    fn index(&self, handle: u32) -> Option<usize> {
        let index = (handle & (SLOTS - 1)).checked_sub(1)? as usize;
        let slot = self.slots.get(index)?;
        (u32::from(slot.generation) == handle >> SLOT_BITS && slot.entry.is_some()).then_some(index)
    }

    /// The object with this handle, if it still exists.
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        self.slots.get(self.index(handle)?)?.entry.as_ref().map(|entry| &entry.value)
    }

    /// Handle of the object that it belongs to, 0 for none.
    pub(crate) fn owner(&self, handle: u32) -> Option<u32> {
        self.slots.get(self.index(handle)?)?.entry.as_ref().map(|entry| entry.owner)
    }

    /// As [`HandleTable::get`], to change it.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let index = self.index(handle)?;
        self.slots.get_mut(index)?.entry.as_mut().map(|entry| &mut entry.value)
    }

    /// Takes the object with this handle out; the handle is stale from now on.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        let index = self.index(handle)?;
        let slot = self.slots.get_mut(index)?;
        let entry = slot.entry.take()?;
        self.objects -= 1;
        slot.generation += 1;
        if slot.generation < self.generations.1 {
            self.free.push_back(index as u32);
        }
        Some(entry.value)
    }

    /// Handles for which `wanted(value, owner)` holds, newest object first.
    pub(crate) fn newest_first(&self, mut wanted: impl FnMut(&T, u32) -> bool) -> Vec<u32> {
        let mut found: Vec<(u64, u32)> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| {
                let entry = slot.entry.as_ref()?;
                let handle = u32::from(slot.generation) << SLOT_BITS | (index as u32 + 1);
                wanted(&entry.value, entry.owner).then_some((entry.sequence, handle))
            })
            .collect();
        found.sort_unstable_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
        found.into_iter().map(|(_, handle)| handle).collect()
    }

    /// Number of live objects.
    pub(crate) fn len(&self) -> usize {
        self.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_never_zero_and_finds_only_its_own_object() {
        let mut table = HandleTable::new();
        let a = table.insert("a", 0).unwrap();
        let b = table.insert("b", a).unwrap();
        assert!(a != 0 && b != 0 && a != b);
        assert_eq!((table.get(a), table.get(b)), (Some(&"a"), Some(&"b")));
        for bad in [0, 1, SLOTS, u32::MAX, a + 100, a ^ (1 << SLOT_BITS)] {
            assert_eq!(table.get(bad), None, "handle {bad:#x}");
            assert_eq!(table.remove(bad), None, "handle {bad:#x}");
        }
    }

    #[test]
    fn a_full_table_takes_one_more_when_one_is_gone() {
        let mut table = HandleTable::new();
        let handles: Vec<u32> = (0..OBJECTS_MAX).map(|value| table.insert(value, 0).unwrap()).collect();
        assert_eq!((table.len(), table.insert(0, 0)), (OBJECTS_MAX, None));
        assert_eq!(table.remove(handles[7]), Some(7));
        assert!(table.insert(7, 0).is_some());
        assert_eq!(table.insert(7, 0), None);
    }

    #[test]
    fn a_stale_handle_stays_stale_when_its_slot_is_used_again() {
        let mut table = HandleTable::new();
        let old = table.insert(1, 0).unwrap();
        assert_eq!(table.remove(old), Some(1));
        let new = table.insert(2, 0).unwrap();
        assert_eq!(old & (SLOTS - 1), new & (SLOTS - 1), "the slot is used again");
        assert_ne!(old, new);
        assert_eq!((table.get(old), table.get(new)), (None, Some(&2)));
        assert_eq!(table.remove(old), None);
    }

    #[test]
    fn a_slot_that_used_all_generations_is_retired() {
        let mut table = HandleTable::new();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..2 * u32::from(GENERATIONS) {
            let handle = table.insert((), 0).unwrap();
            assert!(seen.insert(handle), "handle {handle:#x} was given out twice");
            table.remove(handle).unwrap();
        }
        assert!(table.slots.len() > 1);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn objects_of_an_owner_come_newest_first() {
        let mut table = HandleTable::new();
        let device = table.insert(0, 0).unwrap();
        let gap = table.insert(9, device).unwrap();
        let first = table.insert(1, device).unwrap();
        table.remove(gap);
        let second = table.insert(2, device).unwrap();
        let other = table.insert(3, 0).unwrap();
        assert_eq!(table.newest_first(|_, owner| owner == device), [second, first]);
        assert_eq!(table.newest_first(|_, _| true), [other, second, first, device]);
    }

    #[test]
    fn a_part_belongs_to_one_table_and_is_free_when_that_is_gone() {
        let parts = Arc::new(Parts::default());
        let mut all: Vec<Part> = (0..PARTS).map(|_| Part::of(&parts)).collect();
        assert!((0..PARTS).eq(all.iter().map(Part::number)));
        drop(all.remove(3));
        assert_eq!(Part::of(&parts).number(), 3);
    }

    #[test]
    fn tables_of_different_numbers_give_out_no_handle_twice() {
        let mut tables: Vec<HandleTable<u64>> = (0..PARTS).map(HandleTable::of_part).collect();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..300 {
            for table in &mut tables {
                let handle = table.insert(0, 0).unwrap();
                assert!(handle != 0 && seen.insert(handle), "{handle:#x}");
                assert_eq!(table.remove(handle), Some(0));
            }
        }
        let again = HandleTable::of_part(PARTS).insert(0, 0);
        assert_eq!(again, HandleTable::new().insert(0, 0), "the sixteenth table behind one has its handles");
    }
}
