//! Handles that this driver gives to the operating system.
//!
//! A handle is a number, not an address: kind, slot and generation of the object, and slot and generation of its adapter. A
//! handle of the wrong kind, of an object that is gone, or of an adapter that was removed names nothing and is refused; it is
//! never followed. That an object is not destroyed while a call uses it is the operating system's promise for every DDI.
//!
//! Looking up takes no lock and works at every level. The adapters themselves are in `adapter::slots`.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use bitfield_struct::bitfield;
use wddm_ddi::types::HANDLE;

use crate::irql::Passive;
use crate::lock::PushLock;
use crate::pool::{OutOfMemory, PoolBox, PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused};

/// Type of the object behind a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Adapter = 1,
    Process = 2,
    Device = 3,
    Context = 4,
    HwContext = 5,
    HwQueue = 6,
    Doorbell = 7,
    Fence = 8,
    OpenFence = 9,
    Allocation = 10,
    OpenAllocation = 11,
}

/// A type whose values live in an [`ObjectTable`].
pub(crate) trait Object: Send + Sync {
    const KIND: Kind;

    /// The engine that the object belongs to; 0 for objects that belong to no engine.
    fn engine(&self) -> u32 {
        0
    }
}

/// A handle's fields. `kind` is never 0, so no handle is NULL.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub(crate) struct Handle {
    #[bits(4)]
    pub(crate) kind: u8,
    #[bits(20)]
    pub(crate) slot: u32,
    #[bits(24)]
    pub(crate) generation: u32,
    #[bits(10)]
    pub(crate) adapter: u16,
    #[bits(6)]
    pub(crate) adapter_generation: u8,
}

impl Handle {
    pub(crate) fn of(raw: HANDLE) -> Self {
        Self::from_bits(raw.addr() as u64)
    }

    pub(crate) fn raw(self) -> HANDLE {
        core::ptr::without_provenance_mut(self.into_bits() as usize)
    }
}

const GENERATIONS: u64 = (1 << 24) - 1;
const SLOTS: u32 = (1 << 20) - 1;
const CHUNK: usize = 1024;
const CHUNKS: usize = (1 << 20) / CHUNK;

struct Slot {
    /// Kind in bits 7:0 (0 while free), generation above.
    state: AtomicU64,
    /// The object; while free, the number of the next free slot plus one as an address.
    object: AtomicPtr<()>,
}

/// Bookkeeping of free slots, first in first out so that a slot is reused as late as possible.
struct FreeSlots {
    first: usize,
    last: usize,
    slots: usize,
    chunks: PoolVec<PoolVec<Slot>>,
}

/// The objects of one adapter.
pub(crate) struct ObjectTable {
    /// First slot of each chunk, NULL beyond the last chunk.
    chunks: PoolVec<AtomicPtr<Slot>>,
    /// Outermost of the adapter's locks; nothing is called while it is taken.
    free: PushLock<FreeSlots>,
}

impl ObjectTable {
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        let chunks = PoolVec::filled(CHUNKS, Tag::HANDLES, |_| AtomicPtr::new(core::ptr::null_mut()))?;
        let free = FreeSlots { first: 0, last: 0, slots: 0, chunks: PoolVec::new(Tag::HANDLES) };
        Ok(Self { chunks, free: PushLock::new(free) })
    }

    fn slot(&self, index: usize) -> Option<&Slot> {
        let chunk = NonNull::new(self.chunks.get(index / CHUNK)?.load(Ordering::Acquire))?;
        // SAFETY: a published chunk has CHUNK slots.
        let slot = unsafe { chunk.add(index % CHUNK) };
        // SAFETY: chunks live as long as the table.
        Some(unsafe { slot.as_ref() })
    }

    /// Moves `object` into the table and names it.
    pub(crate) fn insert<T: Object>(&self, irql: &Passive, adapter: Handle, object: T) -> Result<Handle, Refused> {
        let object = PoolBox::new(object, Tag::OBJECT)?;
        self.insert_boxed(irql, adapter, object).map_err(|(status, _)| status)
    }

    /// As [`ObjectTable::insert`] for an object in pool with the tag of objects, which comes back when the table is full.
    pub(crate) fn insert_boxed<T: Object>(
        &self,
        irql: &Passive,
        adapter: Handle,
        object: PoolBox<T>,
    ) -> Result<Handle, (Refused, PoolBox<T>)> {
        let mut free = self.free.lock(irql);
        if free.first == 0
            && let Err(status) = self.grow(&mut free)
        {
            return Err((status, object));
        }
        let number = free.first;
        let Some(slot) = number.checked_sub(1).and_then(|index| self.slot(index)) else {
            return Err((refused(Reason::TableFull), object));
        };
        free.first = slot.object.load(Ordering::Relaxed).addr();
        if free.first == 0 {
            free.last = 0;
        }
        let generation = slot.state.load(Ordering::Relaxed) >> 8;
        slot.object.store(object.into_raw().as_ptr().cast(), Ordering::Relaxed);
        slot.state.store(generation << 8 | u64::from(T::KIND as u8), Ordering::Release);
        Ok(adapter
            .with_kind(T::KIND as u8)
            .with_slot((number - 1) as u32 & SLOTS)
            .with_generation((generation & GENERATIONS) as u32))
    }

    fn grow(&self, free: &mut FreeSlots) -> Result<(), Refused> {
        let place = self.chunks.get(free.chunks.len()).ok_or(refused(Reason::TableFull))?;
        let first = free.slots;
        let mut chunk = PoolVec::filled(CHUNK, Tag::HANDLES, |index| {
            let next = if index + 1 < CHUNK { first + index + 2 } else { 0 };
            Slot { state: AtomicU64::new(0), object: AtomicPtr::new(core::ptr::without_provenance_mut(next)) }
        })?;
        free.chunks.reserve(1)?;
        place.store(chunk.as_mut_ptr(), Ordering::Release);
        free.chunks.push(chunk)?;
        free.slots = first + CHUNK;
        free.first = first + 1;
        free.last = first + CHUNK;
        Ok(())
    }

    fn current(&self, handle: Handle, kind: Kind) -> Option<&Slot> {
        let slot = self.slot(handle.slot() as usize)?;
        let state = slot.state.load(Ordering::Acquire);
        let same = handle.kind() == kind as u8
            && state & 0xff == u64::from(kind as u8)
            && (state >> 8) & GENERATIONS == u64::from(handle.generation());
        same.then_some(slot)
    }

    /// The object that `handle` names.
    pub(crate) fn get<T: Object>(&self, handle: Handle) -> Result<&T, Refused> {
        let slot = self.current(handle, T::KIND).ok_or(refused(Reason::StaleHandle))?;
        let object = NonNull::new(slot.object.load(Ordering::Acquire)).ok_or(refused(Reason::StaleHandle))?;
        // SAFETY: the slot's kind says that this is a T; it lives until its removal, which no call that uses it overlaps.
        Ok(unsafe { object.cast().as_ref() })
    }

    /// Takes the object that `handle` names out of the table; the handle names nothing afterwards.
    pub(crate) fn remove<T: Object>(&self, irql: &Passive, handle: Handle) -> Result<PoolBox<T>, Refused> {
        let mut free = self.free.lock(irql);
        let slot = self.current(handle, T::KIND).ok_or(refused(Reason::StaleHandle))?;
        let object = NonNull::new(slot.object.load(Ordering::Relaxed)).ok_or(refused(Reason::StaleHandle))?;
        self.release(&mut free, slot, handle.slot() as usize);
        // SAFETY: the pointer came from the PoolBox<T> of `insert`, and the slot gave it up.
        Ok(unsafe { PoolBox::from_raw(object.cast(), Tag::OBJECT) })
    }

    fn release(&self, free: &mut FreeSlots, slot: &Slot, index: usize) {
        let generation = (slot.state.load(Ordering::Relaxed) >> 8) + 1;
        slot.state.store(generation << 8, Ordering::Release);
        slot.object.store(core::ptr::null_mut(), Ordering::Relaxed);
        let number = index + 1;
        match free.last.checked_sub(1).and_then(|last| self.slot(last)) {
            Some(last) => last.object.store(core::ptr::without_provenance_mut(number), Ordering::Relaxed),
            None => free.first = number,
        }
        free.last = number;
    }

    /// The first object of type `T` at place `from` or behind it, and the place after it; `adapter` completes the handle.
    pub(crate) fn next<T: Object>(&self, irql: &Passive, adapter: Handle, from: usize) -> Option<(usize, Handle)> {
        let free = self.free.lock(irql);
        (from..free.slots).find_map(|index| {
            let state = self.slot(index)?.state.load(Ordering::Acquire);
            let handle = adapter
                .with_kind(T::KIND as u8)
                .with_slot(index as u32 & SLOTS)
                .with_generation(((state >> 8) & GENERATIONS) as u32);
            (state & 0xff == u64::from(T::KIND as u8)).then_some((index + 1, handle))
        })
    }

    /// Shows every object of type `T` to `body`, which is not called again once it answers false. With a token no object is removed
    /// meanwhile. Without one the caller is at a level at which it cannot wait for another thread, as in a machine that stops.
    pub(crate) fn visit<T: Object>(
        &self,
        irql: Option<&Passive>,
        adapter: Handle,
        mut body: impl FnMut(Handle, &T) -> bool,
    ) {
        let _held = irql.map(|irql| self.free.lock(irql));
        for index in (0..CHUNKS).take_while(|chunk| self.slot(chunk * CHUNK).is_some()).flat_map(|chunk| {
            let first = chunk * CHUNK;
            first..first + CHUNK
        }) {
            let Some(slot) = self.slot(index) else { return };
            let state = slot.state.load(Ordering::Acquire);
            let object = NonNull::new(slot.object.load(Ordering::Acquire));
            if let Some(object) = object.filter(|_| state & 0xff == u64::from(T::KIND as u8)) {
                let handle = adapter
                    .with_kind(T::KIND as u8)
                    .with_slot(index as u32 & SLOTS)
                    .with_generation(((state >> 8) & GENERATIONS) as u32);
                // SAFETY: the slot's kind says that this is a T, which lives as long as it is in the table.
                if !body(handle, unsafe { object.cast().as_ref() }) {
                    return;
                }
            }
        }
    }

    /// Handles of every object of type `T`; `adapter` completes them.
    pub(crate) fn all<T: Object>(&self, irql: &Passive, adapter: Handle) -> Result<PoolVec<Handle>, OutOfMemory> {
        let mut handles = PoolVec::new(Tag::HANDLES);
        let mut place = 0;
        while let Some((next, handle)) = self.next::<T>(irql, adapter, place) {
            handles.push(handle)?;
            place = next;
        }
        Ok(handles)
    }

    /// Removes one object of type `T`, whichever; for the end of an adapter, when nothing may fail any more.
    pub(crate) fn remove_any<T: Object>(&self, irql: &Passive) -> Option<PoolBox<T>> {
        let mut free = self.free.lock(irql);
        let (index, slot) = (0..free.slots)
            .filter_map(|index| Some((index, self.slot(index)?)))
            .find(|(_, slot)| slot.state.load(Ordering::Acquire) & 0xff == u64::from(T::KIND as u8))?;
        let object = NonNull::new(slot.object.load(Ordering::Relaxed))?;
        self.release(&mut free, slot, index);
        // SAFETY: the pointer came from the PoolBox<T> of `insert`, and the slot gave it up.
        Some(unsafe { PoolBox::from_raw(object.cast(), Tag::OBJECT) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    struct Apple(u32);
    struct Pear;

    impl Object for Apple {
        const KIND: Kind = Kind::Process;
    }

    impl Object for Pear {
        const KIND: Kind = Kind::Device;
    }

    fn passive() -> Passive {
        // SAFETY: tests run at PASSIVE_LEVEL.
        unsafe { Passive::assume() }
    }

    fn clear(table: &ObjectTable) {
        while table.remove_any::<Apple>(&passive()).is_some() {}
        while table.remove_any::<Pear>(&passive()).is_some() {}
    }

    #[test]
    fn a_handle_names_its_object_until_it_is_removed() {
        testing::bind();
        let table = ObjectTable::new().unwrap();
        let adapter = Handle::new().with_adapter(7).with_adapter_generation(3);
        let handle = table.insert(&passive(), adapter, Apple(5)).unwrap();
        assert!(!handle.raw().is_null());
        assert_eq!(Handle::of(handle.raw()), handle);
        assert_eq!((handle.adapter(), handle.adapter_generation()), (7, 3));
        assert_eq!(table.get::<Apple>(handle).map(|apple| apple.0), Ok(5));
        assert_eq!(table.remove::<Apple>(&passive(), handle).map(|apple| apple.0), Ok(5));
        assert_eq!(table.get::<Apple>(handle).err(), Some(refused(Reason::StaleHandle)));
        assert_eq!(table.remove::<Apple>(&passive(), handle).err(), Some(refused(Reason::StaleHandle)));
    }

    #[test]
    fn wrong_kinds_and_invented_numbers_name_nothing() {
        testing::bind();
        let table = ObjectTable::new().unwrap();
        let handle = table.insert(&passive(), Handle::new(), Pear).unwrap();
        assert_eq!(table.get::<Apple>(handle).err(), Some(refused(Reason::StaleHandle)));
        for forged in [
            Handle::new(),
            handle.with_kind(Kind::Process as u8),
            handle.with_generation(1),
            handle.with_slot(1),
            handle.with_slot(CHUNK as u32),
            Handle::from_bits(u64::MAX),
        ] {
            assert!(table.get::<Apple>(forged).is_err() && table.get::<Pear>(forged).is_err(), "{forged:?}");
        }
        assert!(table.get::<Pear>(handle).is_ok());
        clear(&table);
    }

    #[test]
    fn a_reused_slot_does_not_answer_to_its_old_handle() {
        testing::bind();
        let table = ObjectTable::new().unwrap();
        let old = table.insert(&passive(), Handle::new(), Apple(1)).unwrap();
        drop(table.remove::<Apple>(&passive(), old).unwrap());
        // Slots are reused last of all, so a whole chunk has to go by.
        let reused = (0..CHUNK)
            .map(|number| table.insert(&passive(), Handle::new(), Apple(number as u32)).unwrap())
            .find(|handle| handle.slot() == old.slot())
            .unwrap();
        assert_eq!(reused.generation(), old.generation() + 1);
        assert!(table.get::<Apple>(old).is_err());
        assert!(table.get::<Apple>(reused).is_ok());
        clear(&table);
    }

    #[test]
    fn the_table_grows_and_lists_what_it_holds() {
        testing::bind();
        let table = ObjectTable::new().unwrap();
        let handles: Vec<_> = (0..3 * CHUNK as u32 / 2)
            .map(|number| table.insert(&passive(), Handle::new(), Apple(number)).unwrap())
            .collect();
        let pear = table.insert(&passive(), Handle::new(), Pear).unwrap();
        assert!(handles.iter().zip(0..).all(|(handle, number)| table.get::<Apple>(*handle).unwrap().0 == number));
        assert_eq!(&*table.all::<Apple>(&passive(), Handle::new()).unwrap(), &handles[..]);
        assert_eq!(&*table.all::<Pear>(&passive(), Handle::new()).unwrap(), [pear]);
        clear(&table);
    }
}
