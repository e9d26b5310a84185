//! Requests for addresses of an address space: reserving, mapping, and giving back.

use std::sync::{Arc, Weak};

use nt::lock::lock;
use nt::page::PAGE_SIZE;
use nt::ram::Pages;
use wddm_ddi::status::*;

use crate::refusal::{Failure, refused};
use crate::vidmm::address_space::{AddressSpace, Frames, Protection};
use crate::vidmm::allocation::Allocation;
use crate::vidmm::fence_pages::FencePage;
use crate::vidmm::ids::SpaceId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::Memory;
use crate::vidmm::residency_queue::ResidencyQueue;
use crate::vidmm::update::{Change, Update};
use crate::vidmm::va_space::{Access, Mapping, Source, VaSpace};

/// Most bytes of zero pages that one request may ask for: each page costs a page-table entry.
const ZERO_MAX: u64 = 1 << 30;

/// A request to map, as [`VidMm::map_gpu_address`] takes it. [d3dukmdt: D3DDDI_MAPGPUVIRTUALADDRESS]
#[derive(Clone, Copy)]
pub(crate) struct MapRequest<'a> {
    /// Where, 0 for anywhere between `minimum` and `maximum`.
    pub(crate) base: u64,
    /// Least address, if `base` is 0.
    pub(crate) minimum: u64,
    /// Greatest address, if `base` is 0; 0 for no limit.
    pub(crate) maximum: u64,
    /// What.
    pub(crate) shows: Shows<'a>,
    /// Pages.
    pub(crate) pages: u64,
    /// How.
    pub(crate) write: bool,
    /// How.
    pub(crate) execute: bool,
    /// For the driver.
    pub(crate) driver_protection: u64,
}

/// Target of a mapping.
#[derive(Clone, Copy)]
pub(crate) enum Shows<'a> {
    /// An allocation from a page on.
    Allocation(&'a Allocation, u64),
    /// Zero pages.
    Zero,
    /// Nothing: any access faults.
    Nothing,
}

/// Pages in a GPU address space; taken out of it when dropped, at PASSIVE_LEVEL.
pub(crate) struct GpuMapping {
    vidmm: Weak<VidMm>,
    space: Arc<AddressSpace>,
    address: u64,
}

impl GpuMapping {
    /// The GPU virtual address of the first page.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for GpuMapping {
    fn drop(&mut self) {
        // What was mapped went with a memory manager that is gone.
        if let Some(vidmm) = self.vidmm.upgrade() {
            vidmm.unmap(&self.space, self.address);
        }
    }
}

impl VidMm {
    /// Maps pages of system memory on every engine. The caller keeps the pages until the mapping is gone.
    ///
    /// # Errors
    /// No free range in the address space or no memory for page tables.
    pub(crate) fn map_pages(
        self: &Arc<Self>,
        space: &Arc<AddressSpace>,
        pages: &Pages,
        protection: Protection,
    ) -> Result<GpuMapping, NTSTATUS> {
        let frames = Frames { segment: 0, first: pages.address() / PAGE_SIZE, pages: pages.len() / PAGE_SIZE };
        let address = self.map_frames(space, frames, (0, 0), protection)?;
        Ok(self.mapping(space, address))
    }

    /// As [`VidMm::map_pages`], for page frames that somebody else keeps, at an address from `least` to `most` (0 for no limit). The answer is the address, for
    /// [`VidMm::unmap`].
    ///
    /// # Errors
    /// As [`VidMm::map_pages`].
    pub(crate) fn map_frames(
        &self,
        space: &AddressSpace,
        frames: Frames,
        bounds: (u64, u64),
        protection: Protection,
    ) -> Result<u64, NTSTATUS> {
        let Frames { segment, first: frame, pages } = frames;
        self.map_source(space, Source::Frames { segment, frame }, pages, bounds, protection)
    }

    /// As [`VidMm::map_pages`], for a page of fence values, which may move, at an address from `least` to `most`.
    ///
    /// # Errors
    /// As [`VidMm::map_pages`].
    pub(crate) fn map_fence_page(
        self: &Arc<Self>,
        space: &Arc<AddressSpace>,
        page: &FencePage,
        bounds: (u64, u64),
        protection: Protection,
    ) -> Result<GpuMapping, NTSTATUS> {
        let address = self.map_source(space, page.source(), 1, bounds, protection)?;
        Ok(self.mapping(space, address))
    }

    fn mapping(self: &Arc<Self>, space: &Arc<AddressSpace>, address: u64) -> GpuMapping {
        GpuMapping { vidmm: Arc::downgrade(self), space: Arc::clone(space), address }
    }

    fn map_source(
        &self,
        space: &AddressSpace,
        source: Source,
        pages: u64,
        (least, most): (u64, u64),
        protection: Protection,
    ) -> Result<u64, NTSTATUS> {
        let access = match protection {
            Protection::ReadOnly => Access::READ,
            Protection::ReadWrite => Access::WRITE,
        };
        let mapping = Mapping { pages, source, access };
        self.with_eviction(Some(space.id()), |memory, request| {
            let at = memory.reserve_everywhere(space.id(), 0, (least, most), pages * PAGE_SIZE, true)?;
            let mut engines = 0..self.driver.engines;
            let mapped = engines.try_for_each(|engine| memory.map(space.id().of_engine(engine), at, mapping, request));
            match mapped.and_then(|()| memory.finish_tables()) {
                Ok(()) => Ok(at),
                Err(status) => {
                    memory.free_everywhere(space.id(), at, pages * PAGE_SIZE)?;
                    Err(status)
                }
            }
        })
    }

    /// Takes a range of [`VidMm::map_frames`] away; when the call returns, the GPU does not reach it any more.
    pub(crate) fn unmap(&self, space: &AddressSpace, address: u64) {
        let mut memory = lock(&self.memory);
        // A space that went with its process maps nothing.
        let len = va(&mut memory, space.id()).ok().and_then(|va| va.region_len(address));
        let freed = len.map_or(Ok(()), |len| memory.free_everywhere(space.id(), address, len));
        let freed = freed.and(memory.finish_tables());
        drop(memory);
        self.note_failure("unmapping pages", freed);
    }

    /// Checks that so many bytes of zeros can be mapped.
    fn check_zero(&self, len: u64) -> Result<(), Failure> {
        if !self.driver.mmu.Bits.ZeroInPteSupported() {
            let why = "zeros need ZeroInPteSupported, which the driver has not set [d3dkmddi: DXGK_GPUMMUCAPS]";
            return Err(refused(STATUS_NOT_SUPPORTED, why));
        }
        if len > ZERO_MAX {
            let why = format!("{len:#x} bytes of zeros are asked for, and one request may have {ZERO_MAX:#x}");
            return Err(refused(STATUS_NO_MEMORY, why));
        }
        Ok(())
    }

    /// Reserves a region. [d3dukmdt: D3DDDI_RESERVEGPUVIRTUALADDRESS]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a bad range, STATUS_NO_MEMORY without a free range (or for a zero region beyond bounds), STATUS_INSUFFICIENT_RESOURCES for one
    /// too many.
    pub(crate) fn reserve_gpu_address(
        &self,
        space: &AddressSpace,
        base: u64,
        min: u64,
        max: u64,
        len: u64,
        zero: bool,
    ) -> Result<u64, Failure> {
        if zero {
            self.check_zero(len)?;
        }
        self.check_new_region(space, base, (min, max), len)?;
        let reserved = self.with_eviction(Some(space.id()), |memory, request| {
            memory.check_capacity(space.id())?;
            let at = memory.reserve_everywhere(space.id(), base, (min, max), len, false)?;
            if zero {
                for engine in 0..self.driver.engines {
                    va(memory, space.id().of_engine(engine))?.set_zero(at);
                }
                let mapping = Mapping { pages: len / PAGE_SIZE, source: Source::Zero, access: Access::READ };
                let mut engines = 0..self.driver.engines;
                let mapped =
                    engines.try_for_each(|engine| memory.map(space.id().of_engine(engine), at, mapping, request));
                if let Err(status) = mapped.and_then(|()| memory.finish_tables()) {
                    memory.free_everywhere(space.id(), at, len)?;
                    return Err(status);
                }
            }
            Ok(at)
        });
        reserved.map_err(Failure::from)
    }

    /// Checks the place of a region that does not exist yet.
    fn check_new_region(&self, space: &AddressSpace, base: u64, bounds: (u64, u64), len: u64) -> Result<(), Failure> {
        let mut memory = lock(&self.memory);
        let broken = va(&mut memory, space.id())?.broken_rule(base, bounds.0, bounds.1, len);
        broken.map_or(Ok(()), |rule| Err(refused(STATUS_INVALID_PARAMETER, rule)))
    }

    /// Checks a request to map, and names what it shows.
    fn check_mapping(&self, space: &AddressSpace, request: &MapRequest<'_>) -> Result<(u64, Option<Source>), Failure> {
        let MapRequest { base, pages, .. } = *request;
        let len = pages.checked_mul(PAGE_SIZE).filter(|len| *len != 0).ok_or_else(|| {
            let most = u64::MAX / PAGE_SIZE;
            refused(STATUS_INVALID_PARAMETER, format!("SizeInPages is {pages:#x}, and expected is 0x1 to {most:#x}"))
        })?;
        if !base.is_multiple_of(PAGE_SIZE) {
            let why = format!("BaseAddress is {base:#x}, which is no multiple of {PAGE_SIZE:#x}");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let source = match request.shows {
            Shows::Allocation(allocation, first) => {
                let (size, has) = (allocation.size(), allocation.size() / PAGE_SIZE);
                if first.checked_add(pages).is_none_or(|end| end > has) {
                    let why = format!(
                        "OffsetInPages {first:#x} and SizeInPages {pages:#x} leave the allocation of hAllocation: the allocation has {has:#x} pages, for \
                         DxgkDdiCreateAllocation answered Size {size:#x}, rounded up to whole pages [d3dkmddi: DXGK_ALLOCATIONINFO]"
                    );
                    return Err(refused(STATUS_INVALID_PARAMETER, why));
                }
                Some(Source::Allocation { id: allocation.id(), user: allocation.user(), first })
            }
            Shows::Zero => {
                self.check_zero(len)?;
                Some(Source::Zero)
            }
            Shows::Nothing => None,
        };
        let in_region = va(&mut lock(&self.memory), space.id())?.in_region(base, len);
        if base == 0 || !in_region {
            self.check_new_region(space, base, (request.minimum, request.maximum), len)?;
        }
        Ok((len, source))
    }

    /// Maps pages into a reserved region, or into a new one, on the engine of a paging queue. The answer is the address, and the value of the
    /// queue's fence at which the entries are written, 0 if they are.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a range outside the allocation or the address space, STATUS_NO_MEMORY without a free range or memory for page tables,
    /// STATUS_INSUFFICIENT_RESOURCES for one mapping too many.
    pub(crate) fn map_gpu_address(
        &self,
        space: &AddressSpace,
        queue: &ResidencyQueue,
        request: &MapRequest<'_>,
    ) -> Result<(u64, u64), Failure> {
        let (len, source) = self.check_mapping(space, request)?;
        let access = Access { write: request.write, execute: request.execute, driver: request.driver_protection };
        let mapped = self.with_eviction(Some(space.id()), |memory, memory_request| {
            memory.check_capacity(space.id())?;
            let new = request.base == 0 || !va(memory, space.id())?.in_region(request.base, len);
            let at = if new {
                // A region that is only reserved is what the caller keeps; one made for a mapping goes with it.
                let bounds = (request.minimum, request.maximum);
                memory.reserve_everywhere(space.id(), request.base, bounds, len, source.is_some())?
            } else {
                request.base
            };
            let on_engine = space.id().of_engine(queue.engine());
            let before = memory.paging.submitted();
            let mapped = match source {
                Some(source) => {
                    memory.map(on_engine, at, Mapping { pages: request.pages, source, access }, memory_request)
                }
                None => memory.unmap(on_engine, at, request.pages),
            };
            match mapped.and_then(|()| memory.completion_of_entries(queue, before)) {
                Ok(value) => Ok((at, value)),
                Err(status) => {
                    if new {
                        memory.free_everywhere(space.id(), at, len)?;
                    }
                    Err(status)
                }
            }
        });
        mapped.map_err(Failure::from)
    }

    /// Checks changes of mappings on one engine, which [`VidMm::update_gpu_address`] carries out later.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if they are not all in one region that was reserved as zero, what copies show likewise; STATUS_NO_MEMORY
    /// for more pages than one request may change; STATUS_INSUFFICIENT_RESOURCES for one mapping too many.
    pub(crate) fn check_update(
        &self,
        space: &AddressSpace,
        engine: u32,
        changes: Vec<Change>,
    ) -> Result<Update, Failure> {
        let mut memory = lock(&self.memory);
        memory.check_capacity(space.id())?;
        Update::new(va(&mut memory, space.id().of_engine(engine))?, changes)
    }

    /// Carries out changes of mappings on one engine, which the GPU finds when the call returns. What was freed meanwhile stays as it is.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY without memory for page tables, and for one mapping too many; nothing has changed.
    pub(crate) fn update_gpu_address(
        &self,
        space: &AddressSpace,
        engine: u32,
        update: &Update,
    ) -> Result<(), NTSTATUS> {
        self.with_eviction(Some(space.id()), |memory, request| {
            memory.check_capacity(space.id()).map_err(|_| STATUS_NO_MEMORY)?;
            memory.update(space.id().of_engine(engine), update, request)
        })
    }

    /// Gives a whole region back; when the call returns, the GPU finds nothing there. [d3dkmthk: D3DKMT_FREEGPUVIRTUALADDRESS]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if there is no region of this address and size.
    pub(crate) fn free_gpu_address(&self, space: &AddressSpace, base: u64, len: u64) -> Result<(), Failure> {
        let mut memory = lock(&self.memory);
        let why = match va(&mut memory, space.id())?.region_len(base) {
            Some(has) if has == len => None,
            Some(has) => Some(format!(
                "Size is {len:#x}, and the region there has {has:#x} bytes: a region is given back as a whole, as it was reserved or mapped"
            )),
            None => Some(format!("BaseAddress is {base:#x}, and no region begins there that was reserved or mapped")),
        };
        if let Some(why) = why {
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        memory.free_everywhere(space.id(), base, len)?;
        Ok(memory.finish_tables()?)
    }
}

fn va(memory: &mut Memory, id: SpaceId) -> Result<&mut VaSpace, NTSTATUS> {
    memory.spaces.get_mut(&id).map(|space| &mut space.va).ok_or(STATUS_DEVICE_REMOVED)
}
