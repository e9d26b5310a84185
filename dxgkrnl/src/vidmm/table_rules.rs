//! The rules for what a driver says about its page tables. [d3dkmddi: DXGK_GPUMMUCAPS, DXGK_PAGE_TABLE_LEVEL_DESC]

use nt::page::PAGE_SIZE;
use wddm_ddi::km::{DXGK_GPUMMUCAPS, DXGK_PAGE_TABLE_LEVEL_DESC, DXGK_PAGETABLEUPDATEMODE};

use crate::caps::Segment;
use crate::table_shape::Shape;

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

/// Tables of 64-KiB pages. [d3dkmddi: DXGK_GPUMMUCAPS::LeafPageTableSizeFor64KPagesInBytes]
fn check_medium(
    caps: &DXGK_GPUMMUCAPS,
    levels: &[DXGK_PAGE_TABLE_LEVEL_DESC],
    segments: &[Segment],
) -> Result<(), String> {
    let size = u64::from(caps.LeafPageTableSizeFor64KPagesInBytes);
    let of_segments = segments.iter().any(|segment| segment.flags.Use64KBPages());
    if !of_segments && !caps.Bits.SysMem64KBPageSupported() {
        return Ok(());
    }
    if size == 0 || !size.is_multiple_of(PAGE_SIZE) {
        return Err(format!(
            "LeafPageTableSizeFor64KPagesInBytes is no multiple of the page size, though 64-KiB pages are claimed: it is {size}"
        ));
    }
    let leaf = levels.first();
    let in_system = leaf.is_some_and(|leaf| leaf.PageTableSegmentId == 0 || leaf.PagingProcessPageTableSegmentId == 0);
    if in_system && size > PAGE_SIZE {
        return Err(format!(
            "LeafPageTableSizeFor64KPagesInBytes is {size}, and tables in system memory have {PAGE_SIZE} bytes at most"
        ));
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
fn segment_rule(id: u32, by_cpu: bool, (size, alignment): (u32, u32), segments: &[Segment]) -> Option<String> {
    if id == 0 {
        let text = format!("tables of {size} bytes in system memory, where {PAGE_SIZE} is the most");
        return (u64::from(size) > PAGE_SIZE).then_some(text);
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
    if let Some(text) = refused {
        return Some(text.to_owned());
    }
    let text = format!(
        "no table of {size} bytes, aligned to {alignment}, fits into the {} bytes of the segment",
        segment.size
    );
    (u64::from(size.max(alignment)) > segment.size).then_some(text)
}
