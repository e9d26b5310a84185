//! The rules for what a driver says about its page tables. [d3dkmddi: DXGK_GPUMMUCAPS, DXGK_PAGE_TABLE_LEVEL_DESC]

use nt::page::PAGE_SIZE;
use wddm_ddi::km::{DXGK_GPUMMUCAPS, DXGK_PAGE_TABLE_LEVEL_DESC, DXGK_PAGETABLEUPDATEMODE};

use crate::caps::Segment;
use crate::table_shape::{MEDIUM, Shape};

/// The levels of the page tables.
///
/// # Errors
/// The rule that is broken, in words.
pub(crate) fn check(
    caps: &DXGK_GPUMMUCAPS,
    levels: &[DXGK_PAGE_TABLE_LEVEL_DESC],
    segments: &[Segment],
) -> Result<Shape, String> {
    if caps.Bits.PageTableUpdateRequireAddressSpaceIdle() {
        return Err(
            "PageTableUpdateRequireAddressSpaceIdle: this memory manager changes page tables of processes that work"
                .to_owned(),
        );
    }
    let mode = caps.PageTableUpdateMode;
    let modes = [
        DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
        DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL,
        DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
    ];
    if !modes.contains(&mode) {
        return Err(format!("PageTableUpdateMode is {}, which is none of the three", mode.0));
    }
    let shape = check_address(caps, levels)?;
    check_medium(caps, levels, segments)?;
    let by_cpu = mode == DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
    for (index, level) in levels.iter().enumerate() {
        let of_level = |(member, rule): (&str, String)| format!("{member} of level {index} is {rule}");
        check_level(level, by_cpu, segments).map_err(of_level)?;
    }
    Ok(shape)
}

/// The bits of a virtual address, and those of the levels.
fn check_address(caps: &DXGK_GPUMMUCAPS, levels: &[DXGK_PAGE_TABLE_LEVEL_DESC]) -> Result<Shape, String> {
    let bits: Vec<u32> = levels.iter().map(|level| level.PageTableIndexBitCount).collect();
    let sum: u64 = bits.iter().map(|bits| u64::from(*bits)).sum();
    if sum + 12 != u64::from(caps.VirtualAddressBitCount) {
        return Err(format!(
            "PageTableIndexBitCount of all levels is {sum}, and 12 bits of a page make {}, but VirtualAddressBitCount is {}",
            sum + 12,
            caps.VirtualAddressBitCount
        ));
    }
    let why = format!(
        "PageTableIndexBitCount of the levels is {bits:?}: each level has 1 to 20 bits, and all of them together have at most 51"
    );
    Shape::new(bits).ok_or(why)
}

/// Leaf tables of 64-KiB pages, which cover what a leaf table of 4-KiB pages does and so have a sixteenth of its entries, whether an entry of level 1 names a table of
/// either kind or of both. The page of the size says nothing of the bytes of an entry, so that one is the least. [d3dkmddi: DXGK_GPUMMUCAPS,
/// LeafPageTableSizeFor64KPagesInBytes; support-for-64kb-pages]
fn check_medium(
    caps: &DXGK_GPUMMUCAPS,
    levels: &[DXGK_PAGE_TABLE_LEVEL_DESC],
    segments: &[Segment],
) -> Result<(), String> {
    let size = caps.LeafPageTableSizeFor64KPagesInBytes;
    let of_segment = segments.iter().find(|segment| segment.flags.Use64KBPages());
    let claimed = match of_segment {
        Some(segment) => format!("Use64KBPages of segment {}", segment.id),
        None if caps.Bits.SysMem64KBPageSupported() => "SysMem64KBPageSupported".to_owned(),
        None => return Ok(()),
    };
    let Some(leaf) = levels.first() else { return Ok(()) };
    let bits = leaf.PageTableIndexBitCount;
    let Some(entries) = 1_u32.checked_shl(bits).map(|entries| entries / MEDIUM as u32).filter(|entries| *entries != 0)
    else {
        return Err(format!(
            "PageTableIndexBitCount of level 0 is {bits}, and at least {} are needed with {claimed}: a 64-KiB page stands for {MEDIUM} entries of a leaf table",
            MEDIUM.ilog2()
        ));
    };
    let is = format!("LeafPageTableSizeFor64KPagesInBytes is {size}");
    if size == 0 || !u64::from(size).is_multiple_of(PAGE_SIZE) {
        return Err(format!("{is}, which is no multiple of the page size, though {claimed} claims 64-KiB pages"));
    }
    if size < entries {
        return Err(format!(
            "{is}, fewer bytes than the {entries} entries of a leaf table of 64-KiB pages, for PageTableIndexBitCount of level 0 is {bits}"
        ));
    }
    for id in [leaf.PageTableSegmentId, leaf.PagingProcessPageTableSegmentId] {
        if let Some(rule) = size_rule(id, (size, leaf.PageTableAlignmentInBytes), segments) {
            return Err(format!("{is}: {rule}"));
        }
    }
    Ok(())
}

/// Sizes and places of the tables of a level, which the CPU writes if `by_cpu` says so; the member that breaks a rule, and its value with the rule.
fn check_level(
    level: &DXGK_PAGE_TABLE_LEVEL_DESC,
    by_cpu: bool,
    segments: &[Segment],
) -> Result<(), (&'static str, String)> {
    let size = level.PageTableSizeInBytes;
    if size == 0 || !u64::from(size).is_multiple_of(PAGE_SIZE) {
        return Err(("PageTableSizeInBytes", format!("{size}, not whole pages")));
    }
    let entries = 1_u64.checked_shl(level.PageTableIndexBitCount).unwrap_or(u64::MAX);
    if u64::from(size) < entries {
        let bits = level.PageTableIndexBitCount;
        let rule = format!("{size}, fewer bytes than its {entries} entries, for PageTableIndexBitCount is {bits}");
        return Err(("PageTableSizeInBytes", rule));
    }
    let alignment = level.PageTableAlignmentInBytes;
    if alignment != 0 && !alignment.is_power_of_two() {
        return Err(("PageTableAlignmentInBytes", format!("{alignment}, no power of two")));
    }
    // Tables of the paging process are written by the CPU in any mode.
    let places = [
        ("PageTableSegmentId", level.PageTableSegmentId, by_cpu),
        ("PagingProcessPageTableSegmentId", level.PagingProcessPageTableSegmentId, true),
    ];
    for (member, id, by_cpu) in places {
        if let Some(rule) = segment_rule(id, by_cpu, (size, alignment), segments) {
            return Err((member, format!("{id}: {rule}")));
        }
    }
    Ok(())
}

/// The rule that a segment of page tables breaks, with tables of a size and an alignment.
fn segment_rule(id: u32, by_cpu: bool, table: (u32, u32), segments: &[Segment]) -> Option<String> {
    if id == 0 {
        return size_rule(id, table, segments);
    }
    let Some(segment) = segments.iter().find(|segment| segment.id == id) else {
        return Some("the segment does not exist".to_owned());
    };
    let refused = if segment.flags.Aperture() {
        Some(
            "the segment is an aperture; this system puts page tables into a memory segment, or into system memory, segment 0",
        )
    } else if by_cpu && segment.flags.SupportsCpuHostAperture() {
        Some(
            "the CPU writes the tables, and this system does not reach page tables through a CPU host aperture (SupportsCpuHostAperture of DXGK_SEGMENTFLAGS), only in a segment that is CpuVisible or in system memory, segment 0",
        )
    } else if by_cpu && segment.kernel.is_none() {
        Some("the CPU writes the tables, and the segment is not CpuVisible")
    } else {
        None
    };
    refused.map(str::to_owned).or_else(|| size_rule(id, table, segments))
}

/// The rule that tables of a size and an alignment break in a segment, if it exists.
fn size_rule(id: u32, (size, alignment): (u32, u32), segments: &[Segment]) -> Option<String> {
    if id == 0 {
        let text = format!("tables of {size} bytes in system memory, where {PAGE_SIZE} is the most");
        return (u64::from(size) > PAGE_SIZE).then_some(text);
    }
    let segment = segments.iter().find(|segment| segment.id == id)?;
    let text = format!(
        "no table of {size} bytes, aligned to {alignment}, fits into the {} bytes of the segment",
        segment.size
    );
    (u64::from(size.max(alignment)) > segment.size).then_some(text)
}

#[cfg(test)]
mod tests {
    use wddm_ddi::Zeroed;

    use super::*;

    /// A driver with 64-KiB pages of system memory, a root of 9 index bits, and leaf tables of so many.
    struct Described {
        caps: DXGK_GPUMMUCAPS,
        levels: [DXGK_PAGE_TABLE_LEVEL_DESC; 2],
        segment: Segment,
    }

    impl Described {
        fn new(leaf_bits: u32) -> Self {
            let level = |bits: u32| DXGK_PAGE_TABLE_LEVEL_DESC {
                PageTableIndexBitCount: bits,
                PageTableSegmentId: 1,
                PagingProcessPageTableSegmentId: 1,
                PageTableSizeInBytes: (8_u32 << bits).max(PAGE_SIZE as u32),
                PageTableAlignmentInBytes: 0,
            };
            let mut caps = DXGK_GPUMMUCAPS::zeroed();
            caps.Bits.set_SysMem64KBPageSupported(true);
            caps.PageTableUpdateMode = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL;
            caps.VirtualAddressBitCount = 12 + 9 + leaf_bits;
            caps.LeafPageTableSizeFor64KPagesInBytes = PAGE_SIZE as u32;
            let kernel = Some(std::ptr::NonNull::dangling());
            let segment = Segment { id: 1, size: 16 << 20, kernel, ..Segment::default() };
            Self { caps, levels: [level(leaf_bits), level(9)], segment }
        }

        /// The rule that is broken, if one is.
        fn broken(self) -> Option<String> {
            check(&self.caps, &self.levels, &[self.segment]).err()
        }
    }

    #[test]
    fn leaf_tables_of_64_kib_pages_take_four_index_bits_from_those_of_4_kib_pages() {
        for bits in 1..4 {
            let text = Described::new(bits).broken().unwrap_or_default();
            let named = format!("PageTableIndexBitCount of level 0 is {bits}");
            assert!(text.starts_with(&named) && text.contains("SysMem64KBPageSupported"), "{text}");
            let mut of_segment = Described::new(bits);
            of_segment.caps.Bits.set_SysMem64KBPageSupported(false);
            of_segment.segment.flags.set_Use64KBPages(true);
            let text = of_segment.broken().unwrap_or_default();
            assert!(text.starts_with(&named) && text.contains("Use64KBPages"), "{text}");
            let mut none = Described::new(bits);
            none.caps.Bits.set_SysMem64KBPageSupported(false);
            assert_eq!(none.broken(), None, "{bits} bits without 64-KiB pages");
        }
        assert_eq!(Described::new(4).broken(), None);
        for bits in 1..4 {
            let mut dual = Described::new(bits);
            dual.caps.Bits.set_DualPteSupported(true);
            let text = dual.broken().unwrap_or_default();
            assert!(text.starts_with("PageTableIndexBitCount of level 0"), "{text}");
        }
    }

    #[test]
    fn a_leaf_table_of_64_kib_pages_is_large_enough_for_a_sixteenth_of_the_entries() {
        let mut driver = Described::new(17);
        let text = Described::new(17).broken().unwrap_or_default();
        for part in
            ["LeafPageTableSizeFor64KPagesInBytes is 4096", "8192 entries", "PageTableIndexBitCount of level 0 is 17"]
        {
            assert!(text.contains(part), "{text}");
        }
        driver.caps.LeafPageTableSizeFor64KPagesInBytes = 8192;
        assert_eq!(driver.broken(), None);
        assert_eq!(Described::new(16).broken(), None, "4096 entries of one byte");
    }

    #[test]
    fn a_leaf_table_of_64_kib_pages_fits_into_its_segment() {
        let mut driver = Described::new(9);
        driver.caps.LeafPageTableSizeFor64KPagesInBytes = 32 << 20;
        let text = driver.broken().unwrap_or_default();
        let told = "LeafPageTableSizeFor64KPagesInBytes is 33554432: no table of 33554432 bytes, aligned to 0, fits into the 16777216 bytes";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn a_table_is_large_enough_for_its_entries() {
        for level in [0, 1] {
            let mut driver = Described::new(13);
            driver.levels[1].PageTableIndexBitCount = 13;
            driver.caps.VirtualAddressBitCount = 12 + 13 + 13;
            driver.levels[1].PageTableSizeInBytes = 8192;
            driver.levels[level].PageTableSizeInBytes = 4096;
            let text = driver.broken().unwrap_or_default();
            let told = format!("PageTableSizeInBytes of level {level} is 4096, fewer bytes than its 8192 entries");
            assert!(text.starts_with(&told), "{text}");
        }
        let mut driver = Described::new(12);
        driver.levels[0].PageTableSizeInBytes = 4096;
        assert_eq!(driver.broken(), None);
    }
}
