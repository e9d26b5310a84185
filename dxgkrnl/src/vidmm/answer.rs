//! What the driver answers to DxgkDdiCreateAllocation, and the rules for it.

use wddm_ddi::km::{DXGK_ALLOCATIONINFO, DXGK_ALLOCATIONINFOFLAGS_WDDM2_0};

use crate::kmd_handle::KmdHandle;
use crate::vidmm::placement;
use crate::vidmm::segment::Segments;
use nt::page::PAGE_SIZE;

/// Memory behind new allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// The memory manager's.
    New,
    /// The program's, if the driver says so too.
    Program,
    /// So many bytes of the program's for a standard allocation, of which the driver is not told where its memory is.
    Heap(u64),
}

/// The answer of the driver, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) kmd: KmdHandle,
    pub(super) size: u64,
    pub(super) alignment: u64,
    pub(super) placements: [u8; 32],
    pub(super) cpu_access: CpuAccess,
    pub(super) priority: u32,
}

/// The rules for memory that exists already. [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0, ExistingSysMem and ExistingKernelSysMem]
fn check_backing(info: &DXGK_ALLOCATIONINFO, size: u64, backing: Backing) -> Result<(), &'static str> {
    // SAFETY: both arms are the same 32 bits.
    let flags = unsafe { info.u3.FlagsWddm2 };
    if flags.ExistingKernelSysMem() {
        return Err("ExistingKernelSysMem for what a program creates");
    }
    if flags.ExistingSysMem() && (flags.PermanentSysMem() || flags.Protected()) {
        return Err("ExistingSysMem with PermanentSysMem or Protected");
    }
    match backing {
        Backing::New if flags.ExistingSysMem() => Err("ExistingSysMem, and the program gave no memory"),
        Backing::Program if !flags.ExistingSysMem() => Err("no ExistingSysMem, and the program gave memory"),
        Backing::Heap(given) if given != size => Err("Size is not that of the memory that the program gave"),
        _ => Ok(()),
    }
}

/// The rules for flags that do not depend on anything else. [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0]
fn check_flags(flags: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0) -> Result<(), &'static str> {
    const RESERVED: u32 = 0b11 << 11 | u32::MAX << 19;
    if flags.into_bits() & RESERVED != 0 {
        return Err("a reserved bit in FlagsWddm2, of which 11, 12 and those from 19 on have to be 0");
    }
    if flags.Overlay() || flags.Capture() {
        return Err("Overlay or Capture on an adapter without a display");
    }
    if flags.Protected() && flags.PermanentSysMem() {
        return Err("Protected with PermanentSysMem");
    }
    if flags.AccessedPhysically() {
        return Err(
            "FlagsWddm2.AccessedPhysically is 1, and this system takes 0 only: it reaches allocations through page tables and moves them, and sends no DXGK_OPERATION_MAP_APERTURE_SEGMENT",
        );
    }
    // "The flag can only be set when the AccessedPhysically flag is set."
    if flags.ExplicitResidencyNotification() {
        return Err(
            "FlagsWddm2.ExplicitResidencyNotification is 1 without AccessedPhysically; this system takes 0 of both, and sends no DXGK_OPERATION_NOTIFY_RESIDENCY",
        );
    }
    // "When the driver sets this member, the driver must also set the CpuVisible member."
    let cpu_visible = flags.CpuVisible() || flags.CpuVisibleOnDemand();
    if flags.Cached() && !cpu_visible {
        return Err("Cached without CpuVisible");
    }
    if flags.PermanentSysMem() && !cpu_visible {
        return Err("PermanentSysMem without CpuVisible");
    }
    Ok(())
}

/// Of the segments only the apertures: memory of the program stays where it is.
fn only_apertures(placements: [u8; 32], segments: &Segments) -> Result<[u8; 32], &'static str> {
    let mut left = [0; 32];
    let apertures = placements.into_iter().filter(|id| *id != 0 && segments.memory((*id).into()).is_none());
    left.iter_mut().zip(apertures).for_each(|(place, id)| *place = id);
    if left[0] == 0 { Err("no aperture in SupportedWriteSegmentSet, and the program gave memory") } else { Ok(left) }
}

/// The rules for what CreateAllocation may answer; the text names the one that is broken. [d3dkmddi: DXGK_ALLOCATIONINFO]
pub(super) fn check(
    info: &DXGK_ALLOCATIONINFO,
    segments: &Segments,
    map_aperture2: bool,
    backing: Backing,
) -> Result<Answer, &'static str> {
    // SAFETY: both arms are the same 32 bits.
    let flags = unsafe { info.u3.FlagsWddm2 };
    // SAFETY: both arms are the same 32 bits.
    let alignment = u64::from(unsafe { info.u.Alignment });
    if info.hAllocation.is_null() {
        return Err("hAllocation is NULL");
    }
    let size = (info.Size as u64).checked_next_multiple_of(PAGE_SIZE).filter(|size| *size != 0);
    let size = size.filter(|size| *size <= segments.capacity()).ok_or("Size is 0 or larger than all memory")?;
    // SAFETY: both arms are the same 32 bits; with GPU virtual addresses this one is meant.
    let engine = unsafe { info.u2.PhysicalAdapterIndex };
    let placements = placement::order(info, engine, segments)?;
    check_backing(info, size, backing)?;
    let placements = if backing == Backing::New { placements } else { only_apertures(placements, segments)? };
    check_flags(flags)?;
    if alignment != 0 && !alignment.is_power_of_two() {
        return Err("Alignment is no power of two");
    }
    let medium = |id: &u8| segments.memory((*id).into()).is_some_and(|memory| memory.medium_pages);
    let medium = placements.iter().any(medium);
    if medium && (alignment == 0 || !alignment.is_multiple_of(placement::MEDIUM_SIZE)) {
        return Err("Alignment is no multiple of 64 KiB, though it may be in a segment of such pages");
    }
    let size = if medium { size.next_multiple_of(placement::MEDIUM_SIZE) } else { size };
    if info.AllocationPriority == 0 {
        return Err("AllocationPriority is 0");
    }
    if flags.MapApertureCpuVisible() && !map_aperture2 {
        return Err("MapApertureCpuVisible without MapAperture2Supported");
    }
    let cpu_access = match flags.CpuVisible() || flags.CpuVisibleOnDemand() {
        true if flags.Cached() => CpuAccess::Cached,
        true => CpuAccess::Visible,
        false => CpuAccess::None,
    };
    // The CPU host aperture can be exhausted, and caches are not coherent with local memory.
    let sure = |id: &u8| segments.memory((*id).into()).is_some_and(|memory| memory.cpu_address.is_some());
    if cpu_access != CpuAccess::None && info.SupportedWriteSegmentSet & segments.apertures() == 0 {
        if cpu_access == CpuAccess::Cached {
            return Err("CpuVisible and Cached without an aperture in SupportedWriteSegmentSet");
        }
        if !placements.iter().take_while(|id| **id != 0).all(sure) {
            return Err("CpuVisible in a segment that the CPU does not see, and no aperture to lock it through");
        }
    }
    let alignment = alignment.max(PAGE_SIZE);
    let kmd = KmdHandle::new(info.hAllocation);
    Ok(Answer { kmd, size, alignment, placements, cpu_access, priority: info.AllocationPriority })
}

/// The access of the CPU to an allocation that the driver allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuAccess {
    /// Not at all, except in system memory.
    None,
    /// Wherever the CPU reaches its segment.
    Visible,
    /// Through the CPU's caches, which are not coherent with segments of the device.
    Cached,
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
