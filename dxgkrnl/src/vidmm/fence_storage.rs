//! Pages for fence values: of system memory, or of the segments that the driver names for them.
//!
//! Fence storage is taken from its segment for good: it is no allocation, is never evicted, and keeps its address as long as a
//! fence lies on it, because a value that moves while an engine writes it could lose a signal. Only while no engine can, because
//! the device is not in D0, the values are kept elsewhere. [d3dkmddi: D3DKMDT_FENCESTORAGESURFACEDATA]

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::machine::lock;
use crate::ram::{PAGE_SIZE, Pages};
use crate::vidmm::address_space::Frames;
use crate::vidmm::memory::Memory;
use crate::vidmm::segment::Segments;
use crate::vidmm::{VidMm, placement};

/// Which value of fences a page is for.
pub(crate) type FenceValueKind = DXGKARG_FENCESTORAGEVALUETYPE;

/// A page of a segment; given back when dropped.
pub(crate) struct LocalPage {
    vidmm: Weak<VidMm>,
    segment: u32,
    offset: u64,
    len: u64,
    kernel: NonNull<u8>,
}

// SAFETY: the address shows a shared mapping that lives as long as the adapter; it is accessed by raw pointer only.
unsafe impl Send for LocalPage {}
// SAFETY: as for Send.
unsafe impl Sync for LocalPage {}

impl Drop for LocalPage {
    fn drop(&mut self) {
        // A manager that is gone has no memory to give it back to.
        if let Some(vidmm) = self.vidmm.upgrade() {
            let mut memory = lock(&vidmm.memory);
            memory.fence_pages.remove(&(self.segment, self.offset));
            memory.segments.release(self.segment, self.offset, self.len);
        }
    }
}

/// A page that holds fence values.
pub(crate) enum FencePage {
    /// Of system memory.
    System(Pages),
    /// Of a memory segment.
    Local(LocalPage),
}

impl FencePage {
    /// Kernel address of the first byte.
    pub(crate) fn kernel_address(&self) -> NonNull<u8> {
        match self {
            Self::System(pages) => pages.kernel_address(),
            Self::Local(page) => page.kernel,
        }
    }

    /// Where the GPU has it.
    pub(crate) fn frames(&self) -> Frames {
        match self {
            Self::System(pages) => Frames { segment: 0, first: pages.address() / PAGE_SIZE, pages: 1 },
            Self::Local(page) => Frames { segment: page.segment, first: page.offset / PAGE_SIZE, pages: 1 },
        }
    }

    /// The page, if it is of system memory.
    pub(crate) fn system(&self) -> Option<&Pages> {
        match self {
            Self::System(pages) => Some(pages),
            Self::Local(_) => None,
        }
    }

    /// What an earlier owner left is gone.
    fn cleared(self) -> Self {
        // SAFETY: the page is mapped for the kernel, belongs to this object, and nobody else knows it yet.
        unsafe { self.kernel_address().as_ptr().write_bytes(0, PAGE_SIZE as usize) };
        self
    }
}

/// What a driver said about fence storage, checked.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    alignment: u64,
    /// Segments in the order the driver prefers, 0 for the rest.
    places: [u8; 32],
}

/// The rules for what GetStandardAllocationDriverData may answer for fence storage; the text names the one that is broken.
fn check(data: &D3DKMDT_FENCESTORAGESURFACEDATA, segments: &Segments) -> Result<Answer, &'static str> {
    let info = &data.AllocationInfo;
    let places = placement::order(info, segments)?;
    // SAFETY: both arms are the same 32 bits.
    let alignment = u64::from(unsafe { info.u.Alignment });
    if !(info.Size == 0 || info.Size == PAGE_SIZE as usize) {
        return Err("Size is not the page that was asked for");
    }
    if alignment != 0 && !alignment.is_power_of_two() {
        return Err("Alignment is no power of two");
    }
    if data.PrivateDriverDataSize != 0 {
        return Err("PrivateDriverDataSize is set, and fence storage has no private data");
    }
    let used = places.iter().take_while(|id| **id != 0);
    let memories = used.filter_map(|id| segments.memory(u32::from(*id)));
    for memory in memories {
        if memory.kernel.is_none() {
            return Err("the CPU, which writes fence values, does not reach a segment of SupportedWriteSegmentSet");
        }
        if alignment > memory.size {
            return Err("Alignment is larger than a segment of SupportedWriteSegmentSet");
        }
    }
    Ok(Answer { alignment: alignment.max(PAGE_SIZE), places })
}

impl VidMm {
    /// A page of system memory for fence values.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY
    pub(crate) fn system_fence_page(&self) -> Result<FencePage, NTSTATUS> {
        let ram = Arc::clone(&lock(&self.memory).segments.ram);
        let pages = ram.allocate(PAGE_SIZE, PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        Ok(FencePage::System(pages).cleared())
    }

    /// A page for the values `value` of fences of type `kind`, where the driver wants it.
    ///
    /// # Errors
    /// What the driver answered; STATUS_DRIVER_INTERNAL_ERROR when its answer breaks a rule, which the machine's log names;
    /// STATUS_NO_MEMORY. Nothing is taken then.
    pub(crate) fn fence_page(
        self: &Arc<Self>,
        value: FenceValueKind,
        kind: D3DDDI_NATIVEFENCE_TYPE,
    ) -> Result<FencePage, NTSTATUS> {
        let _running = self.enter()?;
        let data = self.ask_for_storage(value, kind)?;
        let mut memory = lock(&self.memory);
        let answer = check(&data, &memory.segments).map_err(|rule| {
            self.driver.verifier.log(format!("fence storage broke a rule: {rule}"));
            STATUS_DRIVER_INTERNAL_ERROR
        })?;
        for segment in answer.places.into_iter().take_while(|id| *id != 0).map(u32::from) {
            if memory.segments.memory(segment).is_none() {
                // An aperture: implicit system memory stands behind it.
                drop(memory);
                return self.system_fence_page();
            }
            if let Some(page) = self.take_page(&mut memory, segment, answer.alignment)? {
                drop(memory);
                return Ok(FencePage::Local(page).cleared());
            }
        }
        Err(STATUS_NO_MEMORY)
    }

    /// DxgkDdiGetStandardAllocationDriverData. [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA]
    fn ask_for_storage(
        &self,
        value: FenceValueKind,
        kind: D3DDDI_NATIVEFENCE_TYPE,
    ) -> Result<D3DKMDT_FENCESTORAGESURFACEDATA, NTSTATUS> {
        let mut data = D3DKMDT_FENCESTORAGESURFACEDATA::zeroed();
        data.FenceStorageValueType = value;
        data.FenceStorageType = kind;
        data.AllocationInfo.Size = PAGE_SIZE as usize;
        let mut args = DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA::zeroed();
        args.StandardAllocationType = D3DKMDT_STANDARDALLOCATION_TYPE::D3DKMDT_STANDARDALLOCATION_FENCESTORAGE;
        args.u = DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA_Union { pCreateFenceStorageData: &raw mut data };
        self.driver.miniport.get_standard_allocation_driver_data(self.driver.context.raw(), &mut args).ok()?;
        Ok(data)
    }

    fn take_page(
        self: &Arc<Self>,
        memory: &mut Memory,
        segment: u32,
        alignment: u64,
    ) -> Result<Option<LocalPage>, NTSTATUS> {
        let Some(offset) = memory.take_local(segment, PAGE_SIZE, alignment)? else { return Ok(None) };
        let base = memory.segments.memory(segment).and_then(|memory| memory.kernel).ok_or(STATUS_INTERNAL_ERROR)?;
        // SAFETY: the kernel mapping shows the whole segment, and the page lies in it.
        let kernel = unsafe { base.add(offset as usize) };
        memory.fence_pages.insert((segment, offset), None);
        Ok(Some(LocalPage { vidmm: Arc::downgrade(self), segment, offset, len: PAGE_SIZE, kernel }))
    }
}
