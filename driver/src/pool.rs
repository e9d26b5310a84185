//! Owned memory in nonpaged pool, every allocation of which can fail.
//!
//! The driver has no global allocator: these two types are all it owns memory with.

use core::mem::{MaybeUninit, align_of, size_of};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::nt;

/// Alignment of nonpaged pool.
const POOL_ALIGNMENT: usize = 16;

/// Four characters by which a debugger tells what an allocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    pub(crate) const ADAPTER: Self = Self::new(*b"CpAd");
    pub(crate) const DEVICE: Self = Self::new(*b"CpDv");
    pub(crate) const OBJECT: Self = Self::new(*b"CpOb");
    pub(crate) const HANDLES: Self = Self::new(*b"CpHn");
    pub(crate) const QUEUE: Self = Self::new(*b"CpQu");
    pub(crate) const DOORBELL: Self = Self::new(*b"CpDb");
    pub(crate) const FENCE: Self = Self::new(*b"CpFe");
    pub(crate) const APERTURE: Self = Self::new(*b"CpAp");

    pub(crate) const TRACE: Self = Self::new(*b"CpTr");

    const fn new(text: [u8; 4]) -> Self {
        Self(u32::from_le_bytes(text))
    }
}

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// One value in pool.
pub(crate) struct PoolBox<T> {
    value: NonNull<T>,
    tag: Tag,
}

// SAFETY: the box owns its value like a Box.
unsafe impl<T: Send> Send for PoolBox<T> {}
// SAFETY: as for Send.
unsafe impl<T: Sync> Sync for PoolBox<T> {}

impl<T> PoolBox<T> {
    /// Moves `value` into pool.
    pub(crate) fn new(value: T, tag: Tag) -> Result<Self, OutOfMemory> {
        const { assert!(align_of::<T>() <= POOL_ALIGNMENT) };
        let memory: NonNull<T> = nt::allocate(size_of::<T>().max(1), tag.0).ok_or(OutOfMemory)?.cast();
        // SAFETY: fresh memory of the right size and alignment.
        unsafe { memory.write(value) };
        Ok(Self { value: memory, tag })
    }

    /// Gives up ownership; [`PoolBox::from_raw`] takes it back.
    pub(crate) fn into_raw(self) -> NonNull<T> {
        let value = self.value;
        core::mem::forget(self);
        value
    }

    /// # Safety
    /// `value` must come from [`PoolBox::into_raw`] of a box with this tag, and belong to no other box.
    pub(crate) unsafe fn from_raw(value: NonNull<T>, tag: Tag) -> Self {
        Self { value, tag }
    }
}

impl<T> PoolBox<MaybeUninit<T>> {
    /// Zeroed memory for a value that is written in place.
    pub(crate) fn uninit(tag: Tag) -> Result<Self, OutOfMemory> {
        const { assert!(align_of::<T>() <= POOL_ALIGNMENT) };
        let memory = nt::allocate(size_of::<T>().max(1), tag.0).ok_or(OutOfMemory)?;
        Ok(Self { value: memory.cast(), tag })
    }

    /// # Safety
    /// The value must have been written.
    pub(crate) unsafe fn assume_init(self) -> PoolBox<T> {
        let tag = self.tag;
        PoolBox { value: self.into_raw().cast(), tag }
    }
}

impl<T> Deref for PoolBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the box owns an initialised value.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for PoolBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the box owns an initialised value and is borrowed mutably.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for PoolBox<T> {
    fn drop(&mut self) {
        // SAFETY: the value is initialised and dropped once.
        unsafe { self.value.drop_in_place() };
        // SAFETY: the memory came from `nt::allocate` with this tag.
        unsafe { nt::free(self.value.cast(), self.tag.0) };
    }
}

/// A growable array in pool.
pub(crate) struct PoolVec<T> {
    items: NonNull<T>,
    len: usize,
    capacity: usize,
    tag: Tag,
}

// SAFETY: the array owns its values like a Vec.
unsafe impl<T: Send> Send for PoolVec<T> {}
// SAFETY: as for Send.
unsafe impl<T: Sync> Sync for PoolVec<T> {}

impl<T> PoolVec<T> {
    /// An empty array without memory.
    pub(crate) const fn new(tag: Tag) -> Self {
        const { assert!(align_of::<T>() <= POOL_ALIGNMENT && size_of::<T>() != 0) };
        Self { items: NonNull::dangling(), len: 0, capacity: 0, tag }
    }

    /// `len` items, item `i` made by `item(i)`.
    pub(crate) fn filled(len: usize, tag: Tag, mut item: impl FnMut(usize) -> T) -> Result<Self, OutOfMemory> {
        let mut array = Self::new(tag);
        array.reserve(len)?;
        for index in 0..len {
            array.push(item(index))?;
        }
        Ok(array)
    }

    /// Grows the memory so that `more` items fit.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let needed = self.len.checked_add(more).ok_or(OutOfMemory)?;
        if needed <= self.capacity {
            return Ok(());
        }
        let capacity = needed.max(self.capacity.saturating_mul(2)).max(4);
        let size = capacity.checked_mul(size_of::<T>()).ok_or(OutOfMemory)?;
        let items: NonNull<T> = nt::allocate(size, self.tag.0).ok_or(OutOfMemory)?.cast();
        // SAFETY: the new memory has space for `capacity` items, the old one has `len` initialised ones; they do not overlap.
        unsafe { items.copy_from_nonoverlapping(self.items, self.len) };
        self.release();
        self.items = items;
        self.capacity = capacity;
        Ok(())
    }

    /// Appends `item`.
    pub(crate) fn push(&mut self, item: T) -> Result<(), OutOfMemory> {
        self.reserve(1)?;
        // SAFETY: `len` is below `capacity` now, so the place is inside the memory.
        let place = unsafe { self.items.add(self.len) };
        // SAFETY: the place has no value yet.
        unsafe { place.write(item) };
        self.len += 1;
        Ok(())
    }

    /// Takes item `index` out and moves the last one there.
    pub(crate) fn swap_remove(&mut self, index: usize) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        if index > last {
            return None;
        }
        self.swap(index, last);
        self.len = last;
        // SAFETY: `last` is inside the memory.
        let place = unsafe { self.items.add(last) };
        // SAFETY: the item is initialised and no longer counted.
        Some(unsafe { place.read() })
    }

    /// Takes the first `count` items out, or all if there are fewer; the others move up.
    pub(crate) fn remove_front(&mut self, count: usize)
    where
        T: Copy,
    {
        let count = count.min(self.len);
        self.len -= count;
        // SAFETY: `count` is at most the old length, so this is inside the memory.
        let rest = unsafe { self.items.add(count) };
        // SAFETY: `len` items follow `rest` and fit at the start; a copy may overlap. Copies need no drop.
        unsafe { self.items.copy_from(rest, self.len) };
    }

    /// Drops every item; keeps the memory.
    pub(crate) fn clear(&mut self) {
        let items = core::ptr::from_mut::<[T]>(self);
        self.len = 0;
        // SAFETY: the items were initialised and are no longer counted.
        unsafe { core::ptr::drop_in_place(items) };
    }

    /// Frees the memory without dropping items.
    fn release(&mut self) {
        if self.capacity != 0 {
            // SAFETY: memory of `nt::allocate` with this tag; the caller forgets it.
            unsafe { nt::free(self.items.cast(), self.tag.0) };
        }
    }
}

impl<T> Deref for PoolVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` items from `items` are initialised.
        unsafe { core::slice::from_raw_parts(self.items.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for PoolVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `len` items from `items` are initialised and borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.items.as_ptr(), self.len) }
    }
}

impl<T> Drop for PoolVec<T> {
    fn drop(&mut self) {
        self.clear();
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::testing;

    struct Counted<'a>(&'a AtomicUsize);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_array_keeps_its_items_while_it_grows_and_drops_each_once() {
        testing::bind();
        let drops = AtomicUsize::new(0);
        let mut array = PoolVec::new(Tag::OBJECT);
        for _ in 0..100 {
            array.push(Counted(&drops)).unwrap();
        }
        drop(array.swap_remove(3));
        assert_eq!((array.len(), drops.load(Ordering::Relaxed)), (99, 1));
        assert!(array.swap_remove(99).is_none());
        drop(array);
        assert_eq!(drops.load(Ordering::Relaxed), 100);
    }

    #[test]
    fn items_leave_at_the_front_in_order() {
        testing::bind();
        let mut array = PoolVec::filled(10, Tag::OBJECT, |index| index).unwrap();
        array.remove_front(3);
        assert_eq!(&*array, [3, 4, 5, 6, 7, 8, 9]);
        array.remove_front(0);
        assert_eq!(array.len(), 7);
        array.remove_front(8);
        assert!(array.is_empty());
    }

    #[test]
    fn a_failed_allocation_is_an_error_and_changes_nothing() {
        testing::bind();
        let mut array = PoolVec::filled(4, Tag::OBJECT, |index| index as u64).unwrap();
        assert_eq!(array.reserve(usize::MAX), Err(OutOfMemory));
        testing::failing_allocations(|| {
            assert_eq!(array.push(4), Err(OutOfMemory));
            assert!(PoolBox::new(1u32, Tag::OBJECT).is_err());
        });
        assert_eq!(&*array, [0, 1, 2, 3]);
    }
}
