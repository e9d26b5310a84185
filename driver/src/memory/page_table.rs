//! Page-table entries: from the operating system's form to the hardware's.

use campanile_hw::page_table::{ENTRIES, ENTRIES_64K, PAGE_4K, PAGE_64K, Pte, coverage};
use campanile_hw::queue::Location;
use wddm_ddi::km::*;

/// `DXGK_PTE::PageTablePageSize` of a table of 64-KiB pages. [d3dukmdt: DXGK_PTE_PAGE_TABLE_PAGE_64KB]
const PAGE_TABLE_PAGE_64KB: u8 = 1;

/// Pages of a leaf table. A table of 64-KiB pages has a sixteenth of the entries, and arrays for it count those.
/// [support-for-64kb-pages]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafPages {
    Small,
    Medium,
}

/// The operating system wrote an entry that the hardware cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadEntry;

/// Builds the entry for a table of `level`. `locate(segment, offset, size)` says where a range is.
///
/// # Errors
/// [`BadEntry`] if the target is outside its segment or not aligned to its page; the entry must then be left invalid.
pub(crate) fn entry(
    pte: &DXGK_PTE,
    level: u32,
    leaf: LeafPages,
    locate: impl Fn(u32, u64, u64) -> Option<Location>,
) -> Result<Pte, BadEntry> {
    let bits = pte.Bits;
    if !bits.Valid() && !bits.Zero() {
        return Ok(Pte::new());
    }
    if level == 0 && bits.LargePage() {
        return Err(BadEntry);
    }
    // In a table above the leaves an entry with `Zero` covers a large page, all of which reads as zero.
    let large = level > 0 && (bits.LargePage() || bits.Zero());
    let is_leaf = level == 0 || large;
    let size = match (level, leaf) {
        _ if large => coverage(level),
        (0, LeafPages::Medium) => PAGE_64K,
        _ => PAGE_4K,
    };
    if is_leaf && bits.Zero() {
        return Ok(Pte::new().with_valid(true).with_zero(true).with_large(large));
    }
    // SAFETY: both arms of the union are a 64-bit page number.
    let page = unsafe { pte.u1.PageAddress };
    let offset = page.checked_mul(PAGE_4K).ok_or(BadEntry)?;
    let target = locate(u32::from(bits.Segment()), offset, size).ok_or(BadEntry)?;
    if target.address() % size != 0 {
        return Err(BadEntry);
    }
    let entry = Pte::new().with_valid(true).with_system(target.system()).with_address(target.address());
    if !is_leaf {
        return Ok(entry.with_leaf_64k(level == 1 && bits.PageTablePageSize() == PAGE_TABLE_PAGE_64KB));
    }
    Ok(entry
        .with_large(large)
        .with_coherent(bits.CacheCoherent())
        .with_read_only(bits.ReadOnly())
        .with_no_execute(bits.NoExecute()))
}

/// Which entry of the hardware's table to write, and from which element of the operating system's array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) index: u32,
    pub(crate) element: u32,
}

/// The writes that an update of `count` elements from `start` means, which [`fits`]. With `Repeat` every write takes element 0.
pub(crate) fn steps(start: u32, count: u32, repeat: bool) -> impl Iterator<Item = Step> {
    (0..count).map(move |element| Step { index: start + element, element: if repeat { 0 } else { element } })
}

/// True if a table of these pages has `count` entries from `start` on.
pub(crate) fn fits(start: u32, count: u32, leaf: LeafPages) -> bool {
    let entries = match leaf {
        LeafPages::Small => ENTRIES,
        LeafPages::Medium => ENTRIES_64K,
    };
    start.checked_add(count).is_some_and(|end| u64::from(end) <= entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pte(bits: DXGK_PTE_Bits, page: u64) -> DXGK_PTE {
        DXGK_PTE { Bits: bits, u1: DXGK_PTE_Union1 { PageAddress: page } }
    }

    fn valid() -> DXGK_PTE_Bits {
        DXGK_PTE_Bits::new().with_Valid(true)
    }

    /// Segment 2 starts at 4 MiB of VRAM and is 16 MiB long, segment 0 is system memory.
    fn locate(segment: u32, offset: u64, size: u64) -> Option<Location> {
        match segment {
            0 => Some(Location::new().with_address(offset).with_system(true)),
            2 if offset + size <= 16 << 20 => Some(Location::new().with_address((4 << 20) + offset)),
            _ => None,
        }
    }

    fn small(pte: &DXGK_PTE, level: u32) -> Result<Pte, BadEntry> {
        entry(pte, level, LeafPages::Small, locate)
    }

    #[test]
    fn invalid_entries_are_zero_at_every_level() {
        for level in 0..4 {
            assert_eq!(small(&pte(DXGK_PTE_Bits::new().with_Segment(9), 77), level), Ok(Pte::new()));
        }
    }

    #[test]
    fn a_leaf_carries_its_protection_and_place() {
        let bits = valid().with_CacheCoherent(true).with_ReadOnly(true).with_NoExecute(true);
        let built = small(&pte(bits, 0x1234), 0).unwrap();
        assert!(built.valid() && built.system() && built.coherent() && built.read_only() && built.no_execute());
        assert_eq!(built.address(), 0x123_4000);
        let built = small(&pte(valid().with_Segment(2), 1), 0).unwrap();
        assert!(!built.system() && !built.coherent() && !built.read_only() && !built.large());
        assert_eq!(built.address(), (4 << 20) + 0x1000);
    }

    #[test]
    fn a_directory_entry_names_its_table_and_nothing_else() {
        let bits = valid().with_Segment(2).with_ReadOnly(true).with_CacheCoherent(true).with_PageTablePageSize(1);
        for level in 1..4 {
            let built = small(&pte(bits, 2), level).unwrap();
            let expected = Pte::new().with_valid(true).with_address((4 << 20) + 0x2000).with_leaf_64k(level == 1);
            assert_eq!(built, expected, "level {level}");
        }
    }

    #[test]
    fn large_pages_exist_above_the_leaves_and_must_be_aligned_and_inside_their_segment() {
        let bits = valid().with_Segment(2).with_LargePage(true);
        let built = small(&pte(bits, 512), 1).unwrap();
        assert!(built.large());
        assert_eq!(built.address(), 6 << 20);
        assert_eq!(small(&pte(bits, 1), 1), Err(BadEntry));
        assert_eq!(small(&pte(bits, 7 * 512 + 1), 1), Err(BadEntry), "its end is beyond the segment");
        assert_eq!(small(&pte(bits, 512), 2), Err(BadEntry), "so much memory there is not");
        assert_eq!(small(&pte(bits, 512), 0), Err(BadEntry));
        let system = small(&pte(valid().with_LargePage(true), 5 << 18), 2).unwrap();
        assert_eq!((system.large(), system.system(), system.address()), (true, true, 5 << 30));
    }

    #[test]
    fn zero_pages_need_no_target() {
        let bits = DXGK_PTE_Bits::new().with_Zero(true).with_Segment(9);
        assert_eq!(small(&pte(bits, u64::MAX), 0), Ok(Pte::new().with_valid(true).with_zero(true)));
        for (level, bits) in [(1, bits), (1, bits.with_LargePage(true)), (2, bits), (3, bits.with_LargePage(true))] {
            let zero = Pte::new().with_valid(true).with_zero(true).with_large(true);
            assert_eq!(small(&pte(bits, u64::MAX), level), Ok(zero), "level {level}");
        }
    }

    #[test]
    fn targets_outside_their_segment_are_bad() {
        for (segment, page) in [(2, (16 << 20) / 4096), (3, 0), (2, u64::MAX), (0, u64::MAX)] {
            assert_eq!(small(&pte(valid().with_Segment(segment), page), 0), Err(BadEntry), "{segment} {page:#x}");
        }
    }

    #[test]
    fn medium_leaves_are_aligned_to_their_size() {
        let medium = |page| entry(&pte(valid().with_Segment(2), page), 0, LeafPages::Medium, locate);
        assert_eq!(medium(16).map(Pte::address), Ok((4 << 20) + 0x1_0000));
        assert_eq!(medium(17), Err(BadEntry));
    }

    #[test]
    fn updates_step_through_the_table() {
        let list = |repeat| steps(5, 3, repeat).map(|step| (step.index, step.element)).collect::<Vec<_>>();
        assert_eq!(list(false), [(5, 0), (6, 1), (7, 2)]);
        assert_eq!(list(true), [(5, 0), (6, 0), (7, 0)]);
    }

    #[test]
    fn an_update_stays_in_its_table() {
        for (leaf, entries) in [(LeafPages::Small, 512), (LeafPages::Medium, 32)] {
            for (start, count) in [(0, entries), (entries - 1, 1), (entries, 0)] {
                assert!(fits(start, count, leaf), "{leaf:?} {start} {count}");
            }
            for (start, count) in [(0, entries + 1), (entries, 1), (u32::MAX, 2), (1, u32::MAX), (2, entries - 1)] {
                assert!(!fits(start, count, leaf), "{leaf:?} {start} {count}");
            }
        }
    }
}
