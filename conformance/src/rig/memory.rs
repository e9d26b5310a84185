//! Allocations: created, resident, mapped for the GPU, locked for the CPU.

use std::ffi::c_void;
use std::ptr::NonNull;

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::{AllocationData, MAGIC, Placement};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::Rig;
use crate::kmt::Kmt;
use crate::{Failure, granted};

/// An allocation, resident and mapped for the GPU.
#[derive(Clone, Copy)]
pub struct Memory {
    pub handle: D3DKMT_HANDLE,
    pub address: u64,
    pub size: u64,
}

/// An allocation as the CPU sees it, until unlocked.
#[derive(Clone, Copy)]
pub struct View {
    start: NonNull<u8>,
    size: u64,
    caches: Option<Caches>,
}

/// Whose caches have to be looked after, because the adapter does not snoop them.
#[derive(Clone, Copy)]
struct Caches {
    kmt: Kmt,
    device: D3DKMT_HANDLE,
    allocation: D3DKMT_HANDLE,
}

impl Caches {
    /// Has a range written back and forgotten. Where that is refused, as on a device that is lost, the bytes are those that the processor
    /// has, and it is the case that judges them. [d3dkmthk: D3DKMTInvalidateCache]
    fn invalidate(self, offset: u64, length: u64) {
        let _ = invalidate(self.kmt, self.device, self.allocation, (offset, length));
    }
}

/// D3DKMTInvalidateCache of `(offset, length)`; what the thunk returned.
fn invalidate(kmt: Kmt, device: D3DKMT_HANDLE, allocation: D3DKMT_HANDLE, (offset, length): (u64, u64)) -> NTSTATUS {
    let mut arguments = D3DKMT_INVALIDATECACHE {
        hDevice: device,
        hAllocation: allocation,
        Offset: offset as D3DKMT_SIZE_T,
        Length: length as D3DKMT_SIZE_T,
    };
    kmt.call(kmt.table().D3DKMTInvalidateCache, &mut arguments)
}

impl Rig {
    /// Creates an allocation with this private data, neither resident nor mapped.
    pub fn create_raw(&self, data: &mut [u8]) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        info.pPrivateDriverData = data.as_mut_ptr().cast::<c_void>();
        info.PrivateDriverDataSize = data.len() as u32;
        let mut create = D3DKMT_CREATEALLOCATION::zeroed();
        create.hDevice = self.device;
        create.NumAllocations = 1;
        create.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: &mut info };
        self.kmt.call(self.kmt.table().D3DKMTCreateAllocation2, &mut create).ok()?;
        Ok(info.hAllocation)
    }

    /// Creates an allocation with each of these private data, in one call.
    pub fn create_several(&self, data: &mut [Vec<u8>]) -> Result<Vec<D3DKMT_HANDLE>, NTSTATUS> {
        let info = |data: &mut Vec<u8>| {
            let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
            info.pPrivateDriverData = data.as_mut_ptr().cast::<c_void>();
            info.PrivateDriverDataSize = data.len() as u32;
            info
        };
        let mut infos: Vec<_> = data.iter_mut().map(info).collect();
        let mut create = D3DKMT_CREATEALLOCATION::zeroed();
        create.hDevice = self.device;
        create.NumAllocations = infos.len() as u32;
        create.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: infos.as_mut_ptr() };
        self.kmt.call(self.kmt.table().D3DKMTCreateAllocation2, &mut create).ok()?;
        Ok(infos.iter().map(|info| info.hAllocation).collect())
    }

    /// Creates an allocation, neither resident nor mapped.
    pub fn create(&self, size: u64, placement: Placement) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let (placement, adapter) = (placement as u32, self.engine);
        let data = AllocationData { magic: MAGIC, placement, size, adapter, reserved: 0 };
        self.create_raw(&mut data.to_bytes())
    }

    /// Makes an allocation resident and waits for it.
    pub fn make_resident(&self, allocation: D3DKMT_HANDLE) -> Result<(), Failure> {
        let mut handle = allocation;
        let mut arguments = D3DDDI_MAKERESIDENT::zeroed();
        arguments.hPagingQueue = self.paging_queue;
        arguments.NumAllocations = 1;
        arguments.AllocationList = &mut handle;
        let status = self.kmt.call(self.kmt.table().D3DKMTMakeResident, &mut arguments);
        self.settle(status, arguments.PagingFenceValue, "D3DKMTMakeResident")
    }

    /// Takes an allocation off the residency list.
    pub fn evict(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let mut handle = allocation;
        let mut arguments = D3DKMT_EVICT::zeroed();
        arguments.hDevice = self.device;
        arguments.NumAllocations = 1;
        arguments.AllocationList = &mut handle;
        self.kmt.call(self.kmt.table().D3DKMTEvict, &mut arguments)
    }

    /// A request to map a whole allocation of `size` bytes, to be changed by the case.
    pub fn map_request(&self, allocation: D3DKMT_HANDLE, size: u64) -> D3DDDI_MAPGPUVIRTUALADDRESS {
        let mut arguments = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
        arguments.hPagingQueue = self.paging_queue;
        arguments.hAllocation = allocation;
        arguments.SizeInPages = size.div_ceil(4096);
        arguments.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true);
        arguments
    }

    /// Maps and waits; the GPU virtual address.
    pub fn map(&self, request: D3DDDI_MAPGPUVIRTUALADDRESS) -> Result<u64, Failure> {
        let mapped = self.try_map(request)?;
        mapped.map_err(|status| Failure::new(format!("D3DKMTMapGpuVirtualAddress failed with {status}")))
    }

    /// As [`Rig::map`], where a refusal is an answer.
    pub fn try_map(&self, mut request: D3DDDI_MAPGPUVIRTUALADDRESS) -> Result<Result<u64, NTSTATUS>, Failure> {
        let status = self.kmt.call(self.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
        if !status.is_success() {
            return Ok(Err(status));
        }
        self.settle(status, request.PagingFenceValue, "D3DKMTMapGpuVirtualAddress")?;
        Ok(Ok(request.VirtualAddress))
    }

    /// Has the memory manager's GPU do something; the monitored fence and the value that tell when it is done.
    pub fn page_something(&self) -> Result<(D3DKMT_HANDLE, u64), Failure> {
        let created = self.create(4096, Placement::Vram);
        let handle = created.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
        self.make_resident(handle)?;
        let mut request = self.map_request(handle, 4096);
        granted(
            self.kmt.call(self.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request),
            "D3DKMTMapGpuVirtualAddress",
        )?;
        Ok((self.paging_fence, request.PagingFenceValue))
    }

    /// Frees a range of GPU virtual addresses.
    pub fn free(&self, address: u64, size: u64) -> NTSTATUS {
        let mut arguments = D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: self.adapter, BaseAddress: address, Size: size };
        self.kmt.call(self.kmt.table().D3DKMTFreeGpuVirtualAddress, &mut arguments)
    }

    /// An allocation that the GPU can use: created, resident, mapped to be read and written.
    pub fn memory(&self, size: u64, placement: Placement) -> Result<Memory, Failure> {
        self.memory_for(size, placement, D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true))
    }

    /// As [`Rig::memory`], for what the GPU may execute, too.
    pub fn program_memory(&self, size: u64) -> Result<Memory, Failure> {
        let protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true).with_Execute(true);
        self.memory_for(size, Placement::SystemUncached, protection)
    }

    fn memory_for(
        &self,
        size: u64,
        placement: Placement,
        protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    ) -> Result<Memory, Failure> {
        let handle = self
            .create(size, placement)
            .map_err(|status| Failure::new(format!("an allocation of {size} bytes: {status}")))?;
        self.make_resident(handle)?;
        let mut request = self.map_request(handle, size);
        request.Protection = protection;
        Ok(Memory { handle, address: self.map(request)?, size })
    }

    /// Destroys an allocation; work that is queued may use it to the end.
    pub fn destroy_allocation(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        self.destroy_allocation_with(allocation, D3DDDICB_DESTROYALLOCATION2FLAGS::new())
    }

    /// Destroys an allocation.
    pub fn destroy_allocation_with(
        &self,
        allocation: D3DKMT_HANDLE,
        flags: D3DDDICB_DESTROYALLOCATION2FLAGS,
    ) -> NTSTATUS {
        let mut handle = allocation;
        let mut arguments = D3DKMT_DESTROYALLOCATION2::zeroed();
        arguments.hDevice = self.device;
        arguments.Flags = flags;
        arguments.phAllocationList = &mut handle;
        arguments.AllocationCount = 1;
        self.kmt.call(self.kmt.table().D3DKMTDestroyAllocation2, &mut arguments)
    }

    /// Locks an allocation; its address.
    pub fn lock(&self, allocation: D3DKMT_HANDLE) -> Result<NonNull<u8>, NTSTATUS> {
        let mut arguments = D3DKMT_LOCK2::zeroed();
        arguments.hDevice = self.device;
        arguments.hAllocation = allocation;
        self.kmt.call(self.kmt.table().D3DKMTLock2, &mut arguments).ok()?;
        NonNull::new(arguments.pData.cast()).ok_or(STATUS_UNSUCCESSFUL)
    }

    /// Unlocks an allocation.
    pub fn unlock(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let mut arguments = D3DKMT_UNLOCK2 { hDevice: self.device, hAllocation: allocation };
        self.kmt.call(self.kmt.table().D3DKMTUnlock2, &mut arguments)
    }

    /// Locks memory for as long as the case runs. On an adapter that does not snoop the caches of the processor, what the view writes is written
    /// back, and what it reads is read anew.
    pub fn view(&self, memory: Memory) -> Result<View, Failure> {
        let caches = Caches { kmt: self.kmt, device: self.device, allocation: memory.handle };
        Ok(View { caches: (!self.coherent).then_some(caches), ..self.plain_view(memory)? })
    }

    /// As [`Rig::view`], with caches left to the case.
    pub fn plain_view(&self, memory: Memory) -> Result<View, Failure> {
        let start = self.lock(memory.handle).map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
        Ok(View { start, size: memory.size, caches: None })
    }

    /// Has a range of memory written back from the caches of the processor and forgotten there; what the thunk returned.
    pub fn invalidate_cache(&self, allocation: D3DKMT_HANDLE, offset: u64, length: u64) -> NTSTATUS {
        invalidate(self.kmt, self.device, allocation, (offset, length))
    }
}

// SAFETY: an address of memory that stays locked while the case runs, on every thread alike.
unsafe impl Send for View {}
// SAFETY: as for Send; a view is copied freely anyway, and only its address is in it.
unsafe impl Sync for View {}

impl View {
    /// Writes bytes at an offset.
    ///
    /// # Panics
    /// The range leaves the memory; a mistake of the case.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let target = self.at(offset, bytes.len() as u64);
        // SAFETY: the range was just checked, and the memory stays locked while the case runs; the GPU may read it meanwhile,
        // which is what it is for.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.look_after(offset, bytes.len() as u64);
    }

    /// Reads bytes at an offset.
    ///
    /// # Panics
    /// The range leaves the memory; a mistake of the case.
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let source = self.at(offset, len);
        self.look_after(offset, len);
        // SAFETY: as in `write`.
        unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// Fills everything with one byte.
    pub fn fill(&self, byte: u8) {
        // SAFETY: as in `write`.
        unsafe { self.start.as_ptr().write_bytes(byte, self.size as usize) };
        self.look_after(0, self.size);
    }

    /// Stores a word with release order.
    pub fn store(&self, offset: u64, value: u64) {
        let word = self.at(offset, 8).cast::<std::sync::atomic::AtomicU64>();
        assert!(word.is_aligned(), "the case stores a misaligned word");
        // SAFETY: the word lies in the memory and is aligned; nothing but atomic accesses and copies touch it.
        let word = unsafe { &*word };
        word.store(value, std::sync::atomic::Ordering::Release);
        self.look_after(offset, 8);
    }

    /// First address.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn look_after(&self, offset: u64, length: u64) {
        if let Some(caches) = self.caches {
            caches.invalidate(offset, length);
        }
    }

    fn at(&self, offset: u64, len: u64) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.size), "the case reaches outside its memory");
        // SAFETY: the offset lies within the locked memory.
        unsafe { self.start.as_ptr().add(offset as usize) }
    }
}

/// A FILL packet.
pub fn fill(destination: u64, size: u64, pattern: u32) -> Packet {
    Packet::Fill(packet::Fill { destination, size, pattern })
}

/// A COPY packet of one run.
pub fn copy(destination: u64, source: u64, size: u32) -> Packet {
    Packet::Copy(packet::Copy { source, destination, row_bytes: size, rows: 1, source_pitch: 0, destination_pitch: 0 })
}
