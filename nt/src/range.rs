//! Allocation of ranges: physical pages, VRAM, GPU virtual addresses.

use std::collections::BTreeMap;

/// Free ranges of a linear space, first fit, merged when they meet.
#[derive(Debug, Clone)]
pub struct RangeAllocator {
    free: BTreeMap<u64, u64>,
    free_bytes: u64,
}

impl RangeAllocator {
    /// A space with everything from `start` to `end` (exclusive) free.
    pub fn new(start: u64, end: u64) -> Self {
        let mut free = BTreeMap::new();
        if end > start {
            free.insert(start, end - start);
        }
        Self { free, free_bytes: end.saturating_sub(start) }
    }

    /// Bytes that are free, in whatever pieces.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Takes `len` bytes aligned to `align` (a power of two) from the lowest fitting place.
    pub fn allocate(&mut self, len: u64, align: u64) -> Option<u64> {
        let (start, at) = self.free.iter().find_map(|(&start, &size)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= start + size).then_some((start, at))
        })?;
        self.take(start, at, len);
        Some(at)
    }

    /// As [`Self::allocate`], with the whole range between `min` and `max` (exclusive).
    pub fn allocate_within(&mut self, len: u64, align: u64, min: u64, max: u64) -> Option<u64> {
        // The free range that `min` lies in starts before it.
        let first = self.free.range(..=min).next_back().map_or(min, |(&start, _)| start);
        let (start, at) = self.free.range(first..max.max(first)).find_map(|(&start, &size)| {
            let at = start.max(min).checked_next_multiple_of(align)?;
            let end = at.checked_add(len)?;
            (end <= start + size && end <= max).then_some((start, at))
        })?;
        self.take(start, at, len);
        Some(at)
    }

    /// As [`Self::allocate`], from the highest fitting place.
    pub fn allocate_top(&mut self, len: u64, align: u64) -> Option<u64> {
        let (start, at) = self.free.iter().rev().find_map(|(&start, &size)| {
            let at = (start + size).checked_sub(len)? & !(align - 1);
            (at >= start).then_some((start, at))
        })?;
        self.take(start, at, len);
        Some(at)
    }

    /// Takes exactly the range from `at`; false if any of it is taken.
    pub fn allocate_at(&mut self, at: u64, len: u64) -> bool {
        let Some((&start, _)) = self.free.range(..=at).next_back().filter(|_| self.is_free(at, len)) else {
            return false;
        };
        self.take(start, at, len);
        true
    }

    /// True if nothing of the range from `at` is taken.
    pub fn is_free(&self, at: u64, len: u64) -> bool {
        let Some((start, size)) = self.free.range(..=at).next_back() else { return false };
        at.checked_add(len).is_some_and(|end| end <= start + size)
    }

    fn take(&mut self, start: u64, at: u64, len: u64) {
        let size = self.free.remove(&start).unwrap_or(0);
        if at > start {
            self.free.insert(start, at - start);
        }
        let (end, taken_end) = (start + size, at + len);
        if end > taken_end {
            self.free.insert(taken_end, end - taken_end);
        }
        self.free_bytes -= len;
    }

    /// Gives a range back. The range must have been taken.
    pub fn release(&mut self, at: u64, len: u64) {
        let (mut start, mut size) = (at, len);
        if let Some((&before, &before_size)) = self.free.range(..at).next_back() {
            debug_assert!(before + before_size <= at, "range released twice");
            if before + before_size == at {
                self.free.remove(&before);
                start = before;
                size += before_size;
            }
        }
        if let Some(after_size) = self.free.remove(&(at + len)) {
            size += after_size;
        }
        self.free.insert(start, size);
        self.free_bytes += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_again_when_everything_is_released() {
        let mut space = RangeAllocator::new(0x1000, 0x9000);
        let a = space.allocate(0x1000, 0x1000).unwrap();
        let b = space.allocate(0x2000, 0x2000).unwrap();
        let c = space.allocate_top(0x1000, 0x1000).unwrap();
        assert_eq!((a, b, c), (0x1000, 0x2000, 0x8000));
        assert!(!space.allocate_at(b, 0x1000));
        let free = |at, len| space.is_free(at, len);
        assert!(free(0x5000, 0x3000) && !free(0x5000, 0x3001) && !free(b, 1) && !free(0, 1) && !free(0x5000, u64::MAX));
        space.release(b, 0x2000);
        space.release(a, 0x1000);
        space.release(c, 0x1000);
        assert_eq!(space.allocate(0x8000, 0x1000), Some(0x1000));
        assert_eq!(space.free_bytes(), 0);
        assert_eq!(space.allocate(1, 1), None);
    }

    #[test]
    fn bounds_hold_for_the_whole_range() {
        let mut space = RangeAllocator::new(0x1000, 0x9000);
        assert_eq!(space.allocate_within(0x2000, 0x1000, 0x3800, 0x6000), Some(0x4000));
        assert_eq!(space.allocate_within(0x2000, 0x1000, 0x3800, 0x7fff), None);
        assert_eq!(space.allocate_within(0x1000, 0x1000, 0, u64::MAX), Some(0x1000));
        assert_eq!(space.allocate_within(0x1000, 0x1000, 0x6000, 0x5000), None);
        assert_eq!(space.allocate_within(0x1000, 0x1000, 0x9000, u64::MAX), None);
    }
}
