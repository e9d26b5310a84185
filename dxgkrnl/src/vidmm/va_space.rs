//! Bookkeeping of a GPU address space: which ranges are taken, and what each page of them should show.
//!
//! Pure: it knows nothing of page tables or the driver. A region is what user mode reserves and frees as a whole; inside a
//! region, mappings of whole pages may come and go and replace each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::vidmm::ids::{AllocationId, FencePageId};
use nt::page::PAGE_SIZE;
use nt::range::RangeAllocator;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};

/// Regions start at multiples of this and take whole multiples. [device-paging-queues: 64 KB reservations]
pub(crate) const REGION_ALIGN: u64 = 64 << 10;

/// Most regions and mappings of a space that user mode makes: each of them takes memory of the system's.
pub(crate) const PARTS_MAX: usize = 1 << 18;

/// Target of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Pages of an allocation from page `first` on.
    Allocation {
        /// Which one.
        id: AllocationId,
        /// Of a shared one the opening that was mapped, with which the mapping goes; 0 otherwise.
        user: u64,
        /// First page in the allocation.
        first: u64,
    },
    /// Contiguous memory that the kernel owns, from page frame `frame` of a segment on.
    Frames {
        /// Segment, 0 for system memory.
        segment: u32,
        /// Page frame number in the segment.
        frame: u64,
    },
    /// A page of fence values that may move.
    Fence(FencePageId),
    /// Reads give zero, writes are dropped.
    Zero,
}

impl Source {
    /// The source as seen `pages` further on.
    fn advanced(self, pages: u64) -> Self {
        match self {
            Self::Allocation { id, user, first } => Self::Allocation { id, user, first: first + pages },
            Self::Frames { segment, frame } => Self::Frames { segment, frame: frame + pages },
            Self::Fence(_) | Self::Zero => self,
        }
    }
}

/// Access that a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The GPU may write.
    pub(crate) write: bool,
    /// The GPU may fetch instructions.
    pub(crate) execute: bool,
    /// Bits for the driver, passed through. [d3dukmdt: D3DDDI_MAPGPUVIRTUALADDRESS::DriverProtection]
    pub(crate) driver: u64,
}

impl Access {
    /// Reads only, nothing for the driver.
    pub(crate) const READ: Self = Self { write: false, execute: false, driver: 0 };
    /// Reads and writes, nothing for the driver.
    pub(crate) const WRITE: Self = Self { write: true, execute: false, driver: 0 };
}

/// One contiguous mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Pages.
    pub(crate) pages: u64,
    /// Target of its addresses.
    pub(crate) source: Source,
    /// Access.
    pub(crate) access: Access,
}

impl Mapping {
    /// True if this user of an allocation has mapped it; always for `None`.
    pub(crate) fn is_of(&self, user: Option<u64>) -> bool {
        user.is_none_or(|user| matches!(self.source, Source::Allocation { user: other, .. } if other == user))
    }
}

#[derive(Clone, Copy, Debug)]
struct Region {
    len: u64,
    /// Made by mapping rather than reserving: it goes when its last mapping goes with its allocation.
    automatic: bool,
    /// Reserved so that what is not mapped in it reads as zero.
    zero: bool,
    /// No other region of the space ever has it.
    number: u64,
}

/// Names a region that was reserved, for whoever comes back to it later: one that is made at the same place has another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionName(u64);

/// The reason why a range was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not aligned, empty, or outside the address space.
    Invalid,
    /// No free range fits, or the place asked for is taken.
    NoAddresses,
    /// Not a region, or not the whole of it.
    NoRegion,
}

impl Refused {
    /// As thunks answer it.
    pub(crate) fn status(self) -> NTSTATUS {
        match self {
            Self::Invalid | Self::NoRegion => STATUS_INVALID_PARAMETER,
            Self::NoAddresses => STATUS_NO_MEMORY,
        }
    }
}

/// A GPU address space.
#[derive(Clone, Debug)]
pub(crate) struct VaSpace {
    free: RangeAllocator,
    end: u64,
    regions: BTreeMap<u64, Region>,
    mappings: BTreeMap<u64, Mapping>,
    of_allocation: BTreeMap<AllocationId, BTreeSet<u64>>,
    /// Regions made so far.
    made: u64,
    /// Bytes of a large page, where there are some: regions as long start at multiples of it where they can.
    large: Option<u64>,
}

impl VaSpace {
    /// An empty space of `bits` address bits. The first megabyte is never used, so that small integers are no addresses;
    /// `reserved` is a range the driver keeps for itself (empty for none).
    pub(crate) fn new(bits: u32, reserved: (u64, u64)) -> Self {
        let end = 1u64.checked_shl(bits).unwrap_or(1 << 48);
        let mut free = RangeAllocator::new(1 << 20, end);
        let (start, stop) = (reserved.0 & !(REGION_ALIGN - 1), reserved.1.min(end));
        if let Some(stop) = stop.checked_next_multiple_of(REGION_ALIGN)
            && start >= 1 << 20
            && stop > start
        {
            free.allocate_at(start, stop - start);
        }
        let (regions, mappings, of_allocation) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { free, end, regions, mappings, of_allocation, made: 0, large: None }
    }

    /// The same for a GPU with large pages of so many bytes, a power of two.
    pub(crate) fn with_large_pages(mut self, bytes: Option<u64>) -> Self {
        self.large = bytes.filter(|bytes| *bytes > REGION_ALIGN);
        self
    }

    /// True if user mode has made as many regions and mappings as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.regions.len() + self.mappings.len() >= PARTS_MAX
    }

    /// Takes a region of `len` bytes: at `base`, or anywhere in `min..=max` when `base` is 0 (`max` 0 means no limit).
    pub(crate) fn reserve(&mut self, base: u64, min: u64, max: u64, len: u64) -> Result<u64, Refused> {
        self.take_region(base, min, max, len, false)
    }

    /// As [`VaSpace::reserve`] for a region that goes with the mapping it is made for.
    pub(crate) fn reserve_automatic(&mut self, base: u64, min: u64, max: u64, len: u64) -> Result<u64, Refused> {
        self.take_region(base, min, max, len, true)
    }

    fn take_region(&mut self, base: u64, min: u64, max: u64, len: u64, automatic: bool) -> Result<u64, Refused> {
        let whole = len.checked_next_multiple_of(REGION_ALIGN).ok_or(Refused::Invalid)?;
        if self.broken_rule(base, min, max, len).is_some() {
            return Err(Refused::Invalid);
        }
        let at = if base != 0 {
            self.free.allocate_at(base, whole).then_some(base)
        } else {
            let limit = self.limit(max);
            let large = self.large.filter(|large| whole >= *large);
            let aligned = large.and_then(|large| self.free.allocate_within(whole, large, min, limit));
            aligned.or_else(|| self.free.allocate_within(whole, REGION_ALIGN, min, limit))
        };
        let at = at.ok_or(Refused::NoAddresses)?;
        self.made += 1;
        self.regions.insert(at, Region { len, automatic, zero: false, number: self.made });
        Ok(at)
    }

    /// First address behind those up to `max`, 0 for no limit.
    fn limit(&self, max: u64) -> u64 {
        if max == 0 { self.end } else { max.saturating_add(1).min(self.end) }
    }

    /// The rule that a region breaks which [`VaSpace::reserve`] refuses as [`Refused::Invalid`], with the fields by the names that requests have for them.
    pub(crate) fn broken_rule(&self, base: u64, min: u64, max: u64, len: u64) -> Option<String> {
        let end = self.end;
        let whole = len.checked_next_multiple_of(REGION_ALIGN).filter(|whole| *whole <= end);
        match whole {
            _ if len == 0 || !len.is_multiple_of(PAGE_SIZE) => Some(format!(
                "the size is {len:#x} bytes, and expected are whole pages of {PAGE_SIZE:#x}, at least one"
            )),
            None => Some(format!("the size is {len:#x} bytes, and the address space of the process ends at {end:#x}")),
            Some(_) if !base.is_multiple_of(REGION_ALIGN) => Some(format!(
                "BaseAddress {base:#x} is in no region that has the whole range, and no multiple of {REGION_ALIGN:#x}, where a new region could begin"
            )),
            Some(whole) if base != 0 && base.checked_add(whole).is_none_or(|stop| stop > end) => Some(format!(
                "BaseAddress {base:#x} with {len:#x} bytes is not in the address space of the process, which ends at {end:#x}"
            )),
            Some(_) if base == 0 && min >= self.limit(max) => Some(format!(
                "MinimumAddress {min:#x} leaves nothing below MaximumAddress {max:#x}, 0 for none, and the address space of the process, which ends at {end:#x}"
            )),
            Some(_) => None,
        }
    }

    /// The region that starts at `base` is one that reads as zero where nothing is mapped.
    pub(crate) fn set_zero(&mut self, base: u64) {
        if let Some(region) = self.regions.get_mut(&base) {
            region.zero = true;
        }
    }

    /// The region, reserved as zero, that the whole range lies in.
    pub(crate) fn zero_region(&self, at: u64, len: u64) -> Option<RegionName> {
        let (start, region) = self.regions.range(..=at).next_back()?;
        let inside = at.checked_add(len).is_some_and(|end| end <= start + region.len);
        (inside && region.zero).then_some(RegionName(region.number))
    }

    /// True if the whole range lies in one region.
    pub(crate) fn in_region(&self, at: u64, len: u64) -> bool {
        self.regions
            .range(..=at)
            .next_back()
            .is_some_and(|(&start, region)| at.checked_add(len).is_some_and(|end| end <= start + region.len))
    }

    /// Gives a whole region back; the answer is what was mapped in it.
    pub(crate) fn release(&mut self, base: u64, len: u64) -> Result<Vec<(u64, Mapping)>, Refused> {
        match self.regions.get(&base) {
            Some(region) if region.len == len => {}
            _ => return Err(Refused::NoRegion),
        }
        let removed = self.remove(base, len / PAGE_SIZE);
        self.give_back(base);
        Ok(removed)
    }

    fn give_back(&mut self, base: u64) {
        if let Some(region) = self.regions.remove(&base) {
            self.free.release(base, region.len.next_multiple_of(REGION_ALIGN));
        }
    }

    /// Length of the region that starts at `base`.
    pub(crate) fn region_len(&self, base: u64) -> Option<u64> {
        self.regions.get(&base).map(|region| region.len)
    }

    /// Maps pages at `at`, which lie in a region; what was there is replaced.
    pub(crate) fn map(&mut self, at: u64, mapping: Mapping) {
        debug_assert!(self.in_region(at, mapping.pages * PAGE_SIZE));
        self.remove(at, mapping.pages);
        self.insert(at, mapping);
    }

    fn insert(&mut self, at: u64, mapping: Mapping) {
        if let Source::Allocation { id, .. } = mapping.source {
            self.of_allocation.entry(id).or_default().insert(at);
        }
        self.mappings.insert(at, mapping);
    }

    fn take(&mut self, at: u64) -> Option<Mapping> {
        let mapping = self.mappings.remove(&at)?;
        if let Source::Allocation { id, .. } = mapping.source
            && let Some(places) = self.of_allocation.get_mut(&id)
        {
            places.remove(&at);
            if places.is_empty() {
                self.of_allocation.remove(&id);
            }
        }
        Some(mapping)
    }

    /// Unmaps pages, cutting mappings that reach beyond; the answer is the parts taken away.
    pub(crate) fn remove(&mut self, at: u64, pages: u64) -> Vec<(u64, Mapping)> {
        let end = at + pages * PAGE_SIZE;
        let first = self.mappings.range(..at).next_back().filter(|(start, old)| **start + old.pages * PAGE_SIZE > at);
        let first = first.map_or(at, |(&start, _)| start);
        let touched: Vec<u64> = self.mappings.range(first..end).map(|(&start, _)| start).collect();
        let mut removed = Vec::with_capacity(touched.len());
        for start in touched {
            let Some(old) = self.take(start) else { continue };
            let old_end = start + old.pages * PAGE_SIZE;
            let (cut_start, cut_end) = (start.max(at), old_end.min(end));
            if start < cut_start {
                self.insert(start, Mapping { pages: (cut_start - start) / PAGE_SIZE, ..old });
            }
            if cut_end < old_end {
                let source = old.source.advanced((cut_end - start) / PAGE_SIZE);
                self.insert(cut_end, Mapping { pages: (old_end - cut_end) / PAGE_SIZE, source, ..old });
            }
            let source = old.source.advanced((cut_start - start) / PAGE_SIZE);
            removed.push((cut_start, Mapping { pages: (cut_end - cut_start) / PAGE_SIZE, source, ..old }));
        }
        removed
    }

    /// The parts of mappings that lie in a range of whole pages.
    pub(crate) fn within(&self, at: u64, pages: u64) -> Vec<(u64, Mapping)> {
        let end = at + pages * PAGE_SIZE;
        let first = self.mappings.range(..at).next_back().map_or(at, |(&start, _)| start);
        let part = |(&start, mapping): (&u64, &Mapping)| {
            let (from, to) = (start.max(at), (start + mapping.pages * PAGE_SIZE).min(end));
            let source = mapping.source.advanced((from - start) / PAGE_SIZE);
            (from < to).then(|| (from, Mapping { pages: (to - from) / PAGE_SIZE, source, ..*mapping }))
        };
        self.mappings.range(first..end).filter_map(part).collect()
    }

    /// The mappings of an allocation.
    pub(crate) fn mappings_of(&self, id: AllocationId) -> Vec<(u64, Mapping)> {
        let places = self.of_allocation.get(&id).into_iter().flatten();
        places.filter_map(|at| Some((*at, *self.mappings.get(at)?))).collect()
    }

    /// Unmaps an allocation everywhere, or only where a user has mapped it. The answer is the regions, made only for a mapping, that show nothing
    /// any more: base and length.
    pub(crate) fn remove_allocation(&mut self, id: AllocationId, user: Option<u64>) -> Vec<(u64, u64)> {
        let mut empty = Vec::new();
        for (at, _) in self.mappings_of(id).into_iter().filter(|(_, mapping)| mapping.is_of(user)) {
            self.take(at);
            let region = self.regions.range(..=at).next_back().map(|(&start, region)| (start, *region));
            if let Some((start, region)) = region
                && region.automatic
                && self.is_unmapped(start, region.len)
            {
                empty.push((start, region.len));
            }
        }
        empty
    }

    /// True if nothing is mapped from `base` on.
    pub(crate) fn is_unmapped(&self, base: u64, len: u64) -> bool {
        self.mappings.range(base..base + len).next().is_none()
    }

    /// Every mapping.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = (u64, Mapping)> + '_ {
        self.mappings.iter().map(|(&at, &mapping)| (at, mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 0x10_0000;

    fn mapping(pages: u64, id: u64, first: u64) -> Mapping {
        Mapping { pages, source: Source::Allocation { id: AllocationId(id), user: 0, first }, access: Access::WRITE }
    }

    #[test]
    fn regions_never_overlap_and_come_back_whole() {
        let mut space = VaSpace::new(32, (0, 0));
        let a = space.reserve(0, 0, 0, 3 * PAGE_SIZE).unwrap();
        let b = space.reserve(0, 0, 0, REGION_ALIGN + PAGE_SIZE).unwrap();
        assert_eq!((a, b), (BASE, BASE + REGION_ALIGN));
        assert_eq!(space.reserve(b + REGION_ALIGN, 0, 0, PAGE_SIZE), Err(Refused::NoAddresses));
        assert_eq!(space.release(a, PAGE_SIZE), Err(Refused::NoRegion));
        assert_eq!(space.release(a + PAGE_SIZE, PAGE_SIZE), Err(Refused::NoRegion));
        assert_eq!(space.release(a, 3 * PAGE_SIZE), Ok(vec![]));
        assert_eq!(space.reserve(a, 0, 0, REGION_ALIGN), Ok(a));
    }

    #[test]
    fn bad_ranges_are_refused_by_name() {
        let mut space = VaSpace::new(32, (0, 0));
        for (base, min, max, len) in [
            (0, 0, 0, 0),
            (0, 0, 0, 1),
            (PAGE_SIZE, 0, 0, PAGE_SIZE),
            (0, 0, 0, !(PAGE_SIZE - 1)),
            (1 << 32, 0, 0, PAGE_SIZE),
            ((1 << 32) - REGION_ALIGN, 0, 0, 2 * REGION_ALIGN),
            (!(REGION_ALIGN - 1), 0, 0, PAGE_SIZE),
            (0, 1 << 33, 0, PAGE_SIZE),
            (0, 0x20_0000, 0x10_0000, PAGE_SIZE),
        ] {
            assert_eq!(
                space.reserve(base, min, max, len),
                Err(Refused::Invalid),
                "{base:#x} {min:#x} {max:#x} {len:#x}"
            );
        }
        assert_eq!(space.reserve(0, 0x20_0000, 0x20_0000 + PAGE_SIZE, 2 * PAGE_SIZE), Err(Refused::NoAddresses));
        assert_eq!(
            space.reserve(REGION_ALIGN, 0, 0, PAGE_SIZE),
            Err(Refused::NoAddresses),
            "the first megabyte stays empty"
        );
    }

    #[test]
    fn the_drivers_own_range_is_never_given_out() {
        let mut space = VaSpace::new(32, (BASE, BASE + 5 * REGION_ALIGN + 1));
        assert_eq!(space.reserve(0, 0, 0, PAGE_SIZE), Ok(BASE + 6 * REGION_ALIGN));
    }

    #[test]
    fn an_automatic_region_goes_with_its_allocation_and_a_reserved_one_stays() {
        let mut space = VaSpace::new(32, (0, 0));
        let automatic = space.reserve_automatic(0, 0, 0, PAGE_SIZE).unwrap();
        let reserved = space.reserve(0, 0, 0, 2 * PAGE_SIZE).unwrap();
        space.map(automatic, mapping(1, 7, 0));
        space.map(reserved + PAGE_SIZE, mapping(1, 7, 3));
        assert_eq!(space.remove_allocation(AllocationId(7), None), [(automatic, PAGE_SIZE)]);
        assert_eq!(space.release(automatic, PAGE_SIZE), Ok(vec![]));
        assert_eq!(space.release(reserved, 2 * PAGE_SIZE), Ok(vec![]));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Map(u64, u64, u64, u64),
        Remove(u64, u64),
        Forget(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..60u64, 1..20u64, 0..5u64, 0..100u64).prop_map(|(at, pages, id, first)| Step::Map(at, pages, id, first)),
            2 => (0..60u64, 1..20u64).prop_map(|(at, pages)| Step::Remove(at, pages)),
            1 => (0..5u64).prop_map(Step::Forget),
        ]
    }

    proptest! {
        #[test]
        fn every_page_shows_what_was_mapped_there_last(steps in prop::collection::vec(step(), 1..60)) {
            let mut space = VaSpace::new(32, (0, 0));
            let base = space.reserve(0, 0, 0, 80 * PAGE_SIZE).unwrap();
            let mut model: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Map(at, pages, id, first) => {
                        space.map(base + at * PAGE_SIZE, mapping(pages, id, first));
                        for page in 0..pages {
                            model.insert(at + page, (id, first + page));
                        }
                    }
                    Step::Remove(at, pages) => {
                        let removed: u64 = space.remove(base + at * PAGE_SIZE, pages).iter().map(|(_, m)| m.pages).sum();
                        let expected = (at..at + pages).filter(|page| model.remove(page).is_some()).count();
                        prop_assert_eq!(removed, expected as u64);
                    }
                    Step::Forget(id) => {
                        space.remove_allocation(AllocationId(id), None);
                        model.retain(|_, (other, _)| *other != id);
                    }
                }
                let mut seen = BTreeMap::new();
                for (at, mapping) in space.mappings() {
                    for page in 0..mapping.pages {
                        let Source::Allocation { id, first, .. } = mapping.source else { unreachable!() };
                        let old = seen.insert((at - base) / PAGE_SIZE + page, (id.0, first + page));
                        prop_assert_eq!(old, None, "mappings overlap");
                    }
                    let Source::Allocation { id, .. } = mapping.source else { unreachable!() };
                    prop_assert!(space.mappings_of(id).contains(&(at, mapping)));
                }
                prop_assert_eq!(&seen, &model);
            }
        }
    }
}
