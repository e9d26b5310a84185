//! Pages of three sizes: which are used, and that the GPU finds every byte whatever they are.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::kmt::D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE;

use super::hog::counts;
use crate::rig::{Rig, copy, fill};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "GpuAddress", needs UserModeSubmission, behind "it asks the memory manager which pages it used";
    "GpuAddress.LargePagesMapWhatIsContiguous" on Boot::With(hidden_vram), "what-s-new-for-prior-wddm-2-x-versions":
        "Memory of 2 MiB and more is mapped by large pages in either part of VRAM and in system memory, and the GPU finds every byte of it; where one page in the middle shows zeros instead, all others show what they did."
        => large_pages;
    "GpuAddress.SegmentsIn64KiBPagesAreMappedByThem" on Boot::With(hidden_vram), "support-for-64kb-pages":
        "An allocation in a segment that the driver manages in 64-KiB pages is a multiple of such pages and mapped by them, until something smaller is mapped beside it; then the GPU finds both by 4-KiB pages."
        => medium_pages;
}

const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;
const MEDIUM: u64 = 64 << 10;
const LARGE: u64 = 2 << 20;
/// Addresses that nothing else is near.
const BASE: u64 = 0x200_0000_0000;

/// A window that shows half of VRAM.
fn hidden_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (64 << 20, 32 << 20);
    options.variant.queue_limit = 256;
    options
}

/// A resident allocation at an address.
fn at(rig: &Rig, base: u64, size: u64, placement: Placement) -> Result<u32, Failure> {
    let handle = rig.create(size, placement).map_err(|status| Failure::new(format!("create: {status}")))?;
    rig.make_resident(handle)?;
    let mut request = rig.map_request(handle, size);
    request.BaseAddress = base;
    ensure_eq!(rig.map(request)?, base, "the address of a mapping");
    Ok(handle)
}

/// Has one page show zeros.
fn zero(rig: &Rig, address: u64) -> Result<(), Failure> {
    let mut request = rig.map_request(0, PAGE);
    request.BaseAddress = address;
    request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Zero(true);
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
    granted(status, "showing zeros in one page")
}

/// The GPU writes pages of a range a word of their own, and finds all of them again, but for one page that shows zeros.
struct Words<'r> {
    rig: &'r Rig,
    queue: crate::rig::RawQueue,
    view: crate::rig::View,
    seen: u64,
    /// Every so many pages are looked at.
    step: usize,
}

impl<'r> Words<'r> {
    fn new(rig: &'r Rig, step: usize) -> Result<Self, Failure> {
        let seen = rig.memory(MEDIUM, Placement::SystemUncached)?;
        Ok(Self { rig, queue: rig.queue(NODE_COPY)?, view: rig.view(seen)?, seen: seen.address, step })
    }

    fn write(&mut self, base: u64, size: u64, word: u32) -> Result<(), Failure> {
        let packets: Vec<_> =
            (0..size / PAGE).step_by(self.step).map(|page| fill(base + page * PAGE, 8, word + page as u32)).collect();
        packets.chunks(8).try_for_each(|packets| self.rig.execute(&mut self.queue, packets))
    }

    fn check(&mut self, base: u64, size: u64, word: u32, zero: Option<u64>) -> Result<(), Failure> {
        self.view.fill(0xee);
        let look = |page: u64| copy(self.seen + page * 8, base + page * PAGE, 8);
        let packets: Vec<_> = (0..size / PAGE).step_by(self.step).map(look).collect();
        packets.chunks(8).try_for_each(|packets| self.rig.execute(&mut self.queue, packets))?;
        for page in (0..size / PAGE).step_by(self.step) {
            let expected = if zero == Some(page) { 0 } else { word + page as u32 };
            let expected = [expected.to_le_bytes(); 2].concat();
            ensure_eq!(self.view.read(page * 8, 8), expected, "page {page} at {base:#x}");
        }
        Ok(())
    }
}

fn large_pages(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut words = Words::new(&rig, 15)?;
    for (place, placement) in (1..).zip([Placement::Vram, Placement::VramVisible, Placement::System]) {
        let (base, word) = (BASE * place, place as u32 * 0x1_0000);
        let before = counts(case.system);
        let handle = at(&rig, base, 2 * LARGE, placement)?;
        let mapped = counts(case.system);
        ensure_eq!(mapped.large_pages - before.large_pages, 2, "large pages of 4 MiB of {placement:?}");
        words.write(base, 2 * LARGE, word)?;
        words.check(base, 2 * LARGE, word, None)?;
        zero(&rig, base + LARGE + 13 * PAGE)?;
        words.check(base, 2 * LARGE, word, Some(LARGE / PAGE + 13))?;
        ensure_eq!(counts(case.system).demoted - mapped.demoted, 1, "large pages that one hole breaks");
        granted(rig.destroy_allocation(handle), "destroying an allocation")?;
    }
    Ok(())
}

fn medium_pages(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut words = Words::new(&rig, 1)?;
    let before = counts(case.system);
    // Not quite two pages, which is what it gets.
    at(&rig, BASE, 2 * MEDIUM - PAGE, Placement::Vram).map(|_| ())?;
    let small = counts(case.system);
    ensure_eq!(small.medium_pages, before.medium_pages, "64-KiB pages of a mapping that does not end with one");
    let base = BASE + LARGE;
    at(&rig, base, 3 * MEDIUM, Placement::Vram)?;
    let mapped = counts(case.system);
    ensure_eq!(mapped.medium_pages - small.medium_pages, 3, "64-KiB pages");
    words.write(base, 3 * MEDIUM, 0x5_0000)?;
    words.check(base, 3 * MEDIUM, 0x5_0000, None)?;
    // A page of system memory beside them, and one of zeros among them.
    at(&rig, base + 4 * MEDIUM, PAGE, Placement::System)?;
    ensure_eq!(counts(case.system).demoted - mapped.demoted, 1, "tables that became one of 4-KiB pages");
    words.write(base + 4 * MEDIUM, PAGE, 0x6_0000)?;
    words.check(base + 4 * MEDIUM, PAGE, 0x6_0000, None)?;
    zero(&rig, base + MEDIUM + PAGE)?;
    words.check(base, 3 * MEDIUM, 0x5_0000, Some(17))
}
