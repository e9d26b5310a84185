//! Pages for fence values: of system memory, or of the segments that the driver names for them.
//!
//! Fence storage is no allocation. It keeps its place as long as an engine can write it, because a value that moves meanwhile could lose
//! a signal. While the process it belongs to is suspended, its pages may leave their segment for system memory, with their values, and are
//! back before it works again; its GPU addresses stay, and the processor reads and writes values wherever they are. While the device is
//! not in D0, values of a segment that loses them are kept elsewhere. [d3dkmddi: D3DKMDT_FENCESTORAGESURFACEDATA]

use std::ptr::NonNull;
use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::port::NO_BAR_OWNER;
use crate::refusal::Failure;
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::cpu_cache::SharedPages;
use crate::vidmm::fence_pages::{FencePage, LocalPage};
use crate::vidmm::fence_place::{FencePageLocation, FencePageState, MovablePage};
use crate::vidmm::ids::{FencePageId, SpaceId};
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::Memory;
use crate::vidmm::placement;
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::segment::Segments;
use crate::vidmm::va_space::{Mapping, Source};
use nt::page::PAGE_SIZE;
use nt::ram::Owner;

/// Which value of fences a page is for.
pub(crate) type FenceValueKind = DXGKARG_FENCESTORAGEVALUETYPE;

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
    let places = placement::order(info, 0, segments)?;
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
    /// A page of system memory for fence values that no process sees.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY
    pub(crate) fn system_fence_page(&self) -> Result<FencePage, NTSTATUS> {
        self.shared_words(PAGE_SIZE).map(FencePage::System)
    }

    /// A page of system memory for fence values that those see who see the memory of `owner`.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY
    pub(crate) fn fence_page_of(&self, owner: &Arc<Owner>) -> Result<FencePage, NTSTATUS> {
        self.driver.shared_words(owner.allocate(PAGE_SIZE, PAGE_SIZE)).map(FencePage::System)
    }

    /// System memory in which the kernel and the engines see each other's stores at once, and that no process sees.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY
    pub(crate) fn shared_words(&self, len: u64) -> Result<SharedPages, NTSTATUS> {
        let ram = Arc::clone(&lock(&self.memory).segments.ram);
        self.driver.shared_words(ram.allocate(len, PAGE_SIZE))
    }

    /// A page for the values `value` of fences of type `kind` of a process, where the driver wants it.
    ///
    /// # Errors
    /// What the driver answered; STATUS_DRIVER_INTERNAL_ERROR when its answer breaks a rule, which the machine's log names;
    /// STATUS_NO_MEMORY. Nothing is taken then.
    pub(crate) fn fence_page(
        self: &Arc<Self>,
        owner: &AddressSpace,
        value: FenceValueKind,
        kind: D3DDDI_NATIVEFENCE_TYPE,
    ) -> Result<FencePage, Failure> {
        let _running = self.enter()?;
        let data = self.ask_for_storage(value, kind)?;
        let answer = check(&data, &lock(&self.memory).segments).map_err(|rule| {
            self.driver.verifier.log(format!("fence storage broke a rule: {rule}"));
            STATUS_DRIVER_INTERNAL_ERROR
        })?;
        let places = || answer.places.into_iter().take_while(|id| *id != 0).map(u32::from);
        let page = self.with_eviction(Some(owner.id()), |memory, request| {
            for segment in places() {
                if memory.segments.memory(segment).is_none() {
                    // An aperture: implicit system memory stands behind it.
                    return Ok(None);
                }
                if let Some(page) = self.take_page(memory, owner.id(), segment, answer.alignment, request)? {
                    return Ok(Some(page));
                }
            }
            Err(STATUS_NO_MEMORY)
        })?;
        Ok(page.map_or_else(|| self.system_fence_page(), |page| Ok(FencePage::Local(page).cleared()))?)
    }

    /// DxgkDdiGetStandardAllocationDriverData. [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA]
    fn ask_for_storage(
        &self,
        value: FenceValueKind,
        kind: D3DDDI_NATIVEFENCE_TYPE,
    ) -> Result<D3DKMDT_FENCESTORAGESURFACEDATA, Failure> {
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
        owner: SpaceId,
        segment: u32,
        alignment: u64,
        request: &mut MemoryRequest,
    ) -> Result<Option<LocalPage>, NTSTATUS> {
        let Some(offset) = memory.take_local(segment, PAGE_SIZE, alignment, &NO_BAR_OWNER, request)? else {
            return Ok(None);
        };
        let Some(kernel) = memory.segments.page(segment, offset) else {
            memory.segments.release(segment, offset, PAGE_SIZE);
            return Err(STATUS_INTERNAL_ERROR);
        };
        let (id, page_address) = (FencePageId(memory.tick()), MovablePage::new(kernel));
        let at = FencePageLocation::Local { offset };
        let state =
            FencePageState { owner, segment, alignment, at, page_address: Arc::clone(&page_address), kept: None };
        memory.fence_pages.insert(id, state);
        Ok(Some(LocalPage { vidmm: Arc::downgrade(self), id, page_address }))
    }
}

impl Memory {
    /// True if fence values of a process lie in a memory segment.
    pub(super) fn has_local_fences(&self, owner: SpaceId) -> bool {
        self.fence_pages.values().any(|page| page.owner == owner && matches!(page.at, FencePageLocation::Local { .. }))
    }

    /// True if fence values of a process lie in this segment.
    pub(super) fn has_fences_in(&self, owner: SpaceId, segment: u32) -> bool {
        self.fence_pages.values().any(|page| page.owner == owner && page.is_in(segment))
    }

    /// Fence values of a suspended process leave `segment` for system memory. False if none did: there are none, or no memory for them.
    pub(super) fn evict_fences(
        &mut self,
        owner: SpaceId,
        segment: u32,
        request: &mut MemoryRequest,
    ) -> Result<bool, NTSTATUS> {
        let leaving = self.fence_pages.iter().filter(|(_, page)| page.owner == owner && page.is_in(segment));
        let leaving: Vec<FencePageId> = leaving.map(|(id, _)| *id).collect();
        let mut any = false;
        for id in leaving {
            let Some(to) = self.segments.ram.allocate(PAGE_SIZE, PAGE_SIZE) else { break };
            any |= self.move_fences(id, to.kernel_address(), FencePageLocation::System(to), request)?;
        }
        Ok(any)
    }

    /// Fence values of a process that left their segments are back.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY; some may be back.
    pub(super) fn restore_fences(&mut self, owner: SpaceId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let away = self
            .fence_pages
            .iter()
            .filter(|(_, page)| page.owner == owner && matches!(page.at, FencePageLocation::System(_)));
        let away: Vec<(FencePageId, u32, u64)> = away.map(|(id, page)| (*id, page.segment, page.alignment)).collect();
        for (id, segment, alignment) in away {
            let offset =
                self.take_local(segment, PAGE_SIZE, alignment, &NO_BAR_OWNER, request)?.ok_or(STATUS_NO_MEMORY)?;
            let kernel = self.segments.page(segment, offset).ok_or(STATUS_INTERNAL_ERROR)?;
            // The processor may be using a value for the moment.
            while !self.move_fences(id, kernel, FencePageLocation::Local { offset }, request)? {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Moves a page of values that no engine reaches, and has it shown where it is mapped. False if somebody is using it.
    fn move_fences(
        &mut self,
        id: FencePageId,
        kernel: NonNull<u8>,
        to: FencePageLocation,
        request: &mut MemoryRequest,
    ) -> Result<bool, NTSTATUS> {
        let Some(page) = self.fence_pages.get_mut(&id) else { return Ok(true) };
        if !page.page_address.move_to(kernel) {
            return Ok(false);
        }
        let (segment, left) = (page.segment, matches!(to, FencePageLocation::System(_)));
        let from = std::mem::replace(&mut page.at, to);
        let mapped: Vec<(SpaceId, u64, Mapping)> = self.mappings_of_fences(id);
        for (space, at, mapping) in mapped {
            self.hide(space, at, mapping.pages)?;
            self.show(space, at, mapping, request)?;
        }
        if let FencePageLocation::Local { offset } = from {
            self.segments.release(segment, offset, PAGE_SIZE);
        }
        if left {
            self.counts.fences_evicted += 1;
        } else {
            self.counts.fences_restored += 1;
        }
        Ok(true)
    }

    /// Its process maps a page of values, and the paging process does.
    fn mappings_of_fences(&self, id: FencePageId) -> Vec<(SpaceId, u64, Mapping)> {
        let owner = self.fence_pages.get(&id).map(|page| page.owner);
        let spaces = self.spaces.iter().filter(|(_, state)| Some(state.first) == owner || state.paging_process);
        spaces
            .flat_map(|(space, state)| state.va.mappings().map(move |(at, mapping)| (*space, at, mapping)))
            .filter(|(_, _, mapping)| mapping.source == Source::Fence(id))
            .collect()
    }

    /// Keeps the values that lie in segments that lose them; no engine writes them now.
    pub(super) fn keep_fence_pages(&mut self, is_lost: impl Fn(&Segments, u32) -> bool) {
        let Self { fence_pages, segments, .. } = self;
        for page in fence_pages.values_mut().filter(|page| page.is_in(page.segment) && is_lost(segments, page.segment))
        {
            let mut bytes = vec![0; PAGE_SIZE as usize];
            let (from, _stay) = page.page_address.pin();
            // SAFETY: the kernel's mapping shows the whole segment, and the page lies in it; no engine writes it now.
            unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
            page.kept = Some(bytes);
        }
    }

    /// Values that were kept are in their segments again.
    pub(super) fn return_fence_pages(&mut self) {
        for page in self.fence_pages.values_mut() {
            let Some(bytes) = page.kept.take() else { continue };
            let (to, _stay) = page.page_address.pin();
            // SAFETY: as for keeping it.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }
}
