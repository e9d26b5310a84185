//! The host aperture, page by page.

use campanile_hw::registers;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.HostAperturePointsAtHiddenPages" on Boot::Shared, "cpu-host-aperture":
        "DxgkDdiMapCpuHostAperture points each page of the aperture at the page of the hidden segment that stands beside it, and DxgkDdiUnmapCpuHostAperture at none."
        => the_host_aperture_is_pointed_at_pages_of_the_hidden_segment;
    "Miniport.HostApertureOutlivesAReset" on Boot::Shared, "cpu-host-aperture":
        "The pages of the aperture are pointed where they were after DxgkDdiResetFromTimeout and DxgkDdiRestartFromTimeout, and nothing is told to the device between the two."
        => what_the_host_aperture_showed_it_shows_again_after_an_adapter_reset;
    "Miniport.BadHostAperturePagesChangeNothing" on Boot::Shared, "cpu-host-aperture":
        "A request with another segment, with a page outside the aperture or the segment, with more pages than there are or without its arrays is refused, and no page is pointed anywhere."
        => a_bad_page_of_the_host_aperture_changes_nothing;
}

/// A started adapter with a window of half of VRAM and a host aperture of 16 pages behind it.
fn with_host_aperture(case: &Case<'_>) -> Box<System> {
    let mut system = System::added(case, ALL, 1);
    let vram = system.get(registers::VRAM_SIZE);
    system.set(registers::VRAM_WINDOW_SIZE, vram / 2);
    system.set(registers::HOST_APERTURE_PAGES, 16);
    assert_eq!(system.start(), STATUS_SUCCESS);
    system
}

fn map_aperture(system: &System, segment: u16, places: &mut [u32], pages: &mut [u64]) -> NTSTATUS {
    let mut args = DXGKARG_MAPCPUHOSTAPERTURE::zeroed();
    args.SegmentId = segment;
    args.NumberOfPages = places.len() as u64;
    args.pCpuHostAperturePages = places.as_mut_ptr();
    args.pMemorySegmentPages = pages.as_mut_ptr();
    ddi!(system, DxgkDdiMapCpuHostAperture, system.adapter, &raw const args)
}

fn unmap_aperture(system: &System, places: &mut [u32]) -> NTSTATUS {
    let mut args = DXGKARG_UNMAPCPUHOSTAPERTURE::zeroed();
    args.SegmentId = 3;
    args.NumberOfPages = places.len() as u64;
    args.pCpuHostAperturePages = places.as_mut_ptr();
    ddi!(system, DxgkDdiUnmapCpuHostAperture, system.adapter, &raw const args)
}

fn the_host_aperture_is_pointed_at_pages_of_the_hidden_segment(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = with_host_aperture(case);
    let hidden = system.get(registers::VRAM_SIZE) / 2 / 4096;
    // The registers are plain memory here: the last page that was pointed somewhere is what they hold.
    let last = |system: &System| {
        ((system.get(registers::HOST_APERTURE_PAGES) >> 32) as u32, system.get(registers::HOST_APERTURE_TARGET) as u32)
    };
    ensure_eq!(map_aperture(&system, 3, &mut [9, 4], &mut [1, 7]), STATUS_SUCCESS);
    ensure_eq!(last(&system), (4, (hidden + 7) as u32));
    ensure_eq!(unmap_aperture(&system, &mut [9]), STATUS_SUCCESS);
    ensure_eq!(last(&system), (9, u32::MAX));
    system.remove();
    Ok(())
}

fn what_the_host_aperture_showed_it_shows_again_after_an_adapter_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = with_host_aperture(case);
    let hidden = system.get(registers::VRAM_SIZE) / 2 / 4096;
    ensure_eq!(map_aperture(&system, 3, &mut [9, 4], &mut [1, 7]), STATUS_SUCCESS);
    ensure_eq!(unmap_aperture(&system, &mut [9]), STATUS_SUCCESS);
    ensure_eq!(ddi!(system, DxgkDdiResetFromTimeout, system.adapter), STATUS_SUCCESS);
    // Pages that are pointed somewhere meanwhile are told to the device when it runs.
    let told = system.get(registers::HOST_APERTURE_TARGET);
    ensure_eq!(map_aperture(&system, 3, &mut [2], &mut [5]), STATUS_SUCCESS);
    ensure_eq!(system.get(registers::HOST_APERTURE_TARGET), told, "told to a device that is being reset");
    ensure_eq!(ddi!(system, DxgkDdiRestartFromTimeout, system.adapter), STATUS_SUCCESS);
    // In the order of the pages; the registers hold the last one.
    let place = (system.get(registers::HOST_APERTURE_PAGES) >> 32) as u32;
    ensure_eq!((place, system.get(registers::HOST_APERTURE_TARGET) as u32), (4, (hidden + 7) as u32));
    system.remove();
    Ok(())
}

fn a_bad_page_of_the_host_aperture_changes_nothing(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = with_host_aperture(case);
    let (hidden, bad) = (system.get(registers::VRAM_SIZE) / 2 / 4096, STATUS_INVALID_PARAMETER);
    let before = [registers::HOST_APERTURE_PAGES, registers::HOST_APERTURE_TARGET].map(|offset| system.get(offset));
    ensure_eq!(map_aperture(&system, 2, &mut [0], &mut [0]), bad, "another segment");
    ensure_eq!(map_aperture(&system, 3, &mut [0, 16], &mut [0, 1]), bad, "a page outside the aperture");
    ensure_eq!(map_aperture(&system, 3, &mut [0, 1], &mut [0, hidden]), bad, "a page outside the segment");
    ensure_eq!(map_aperture(&system, 3, &mut [0, 1], &mut [0, u64::MAX]), bad, "a page that overflows");
    ensure_eq!(map_aperture(&system, 3, &mut [0; 17], &mut [0; 17]), bad, "more pages than there are");
    ensure_eq!(unmap_aperture(&system, &mut [3, u32::MAX]), bad);
    let mut args = DXGKARG_MAPCPUHOSTAPERTURE::zeroed();
    (args.SegmentId, args.NumberOfPages) = (3, 1);
    ensure_eq!(ddi!(system, DxgkDdiMapCpuHostAperture, system.adapter, &raw const args), bad, "no arrays");
    let after = [registers::HOST_APERTURE_PAGES, registers::HOST_APERTURE_TARGET].map(|offset| system.get(offset));
    ensure_eq!(after, before);
    system.remove();
    Ok(())
}
