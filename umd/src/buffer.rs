//! Buffers: allocations that are resident and mapped for the GPU, and can be mapped for the CPU.

use alloc::sync::Arc;
use core::{
    ffi::c_void,
    ptr::{self, NonNull},
};

use campanile_hw::page_table::PAGE_4K;
use campanile_hw::private::{AllocationData, MAGIC};
use wddm_ddi::{
    Zeroed,
    kmt::*,
    status::STATUS_NO_MEMORY,
    types::{D3DKMT_HANDLE, HANDLE},
};

pub use campanile_hw::private::Placement;

use crate::{
    device::Device,
    error::{Error, Result},
    share::{Access, SharedHandle},
    shared::SharedRange,
    thunks::{call, invoke, invoke_pending},
};

/// Order in which the system reclaims offered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferPriority {
    /// Before anything else.
    Low,
    /// In between.
    Normal,
    /// After the others.
    High,
}

/// State of a buffer's contents after its memory was offered and reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// The contents are what they were.
    Kept,
    /// The contents are lost.
    Discarded,
}

/// The GPU's address space, 2^48 bytes; nothing larger can ever be mapped.
const SIZE_MAX: u64 = 1 << 47;

/// Memory that the GPU can use. Clones share it; it is destroyed with the last clone and the last [`Mapping`].
///
/// The driver does not know which submissions use a buffer: keep it until they are done. A GPU access afterwards faults the queue that
/// makes it and has no other effect.
#[derive(Clone)]
pub struct Buffer {
    inner: Arc<Inner>,
}

/// Fields are dropped in order, which undoes the creation step by step.
struct Inner {
    address: GpuAddress,
    _resident: Resident,
    allocation: Allocation,
    placement: Placement,
    size: u64,
}

impl Device {
    /// Creates a buffer of `size` bytes, makes it resident and maps it for the GPU, which reads and writes it and executes nothing in it.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for size 0 or above 2^47; [`Error::Status`], [`Error::BadAnswer`] or [`Error::DeviceLost`] from
    /// the operating system, with every step undone. [d3dkmthk: D3DKMTCreateAllocation2, D3DKMTMakeResident, D3DKMTMapGpuVirtualAddress]
    pub fn create_buffer(&self, size: u64, placement: Placement) -> Result<Buffer> {
        if size == 0 || size > SIZE_MAX {
            return Err(Error::BadArgument("a buffer has 1 to 2^47 bytes"));
        }
        Buffer::mapped_for(self, size, placement, WRITABLE)
    }

    /// As [`Device::create_buffer`], for a buffer that [`Buffer::share`] gives to other devices of the adapter and to other processes.
    ///
    /// # Errors
    /// As [`Device::create_buffer`]. [d3dkmthk: D3DKMT_CREATEALLOCATIONFLAGS::NtSecuritySharing]
    pub fn create_shared_buffer(&self, size: u64, placement: Placement) -> Result<Buffer> {
        if size == 0 || size > SIZE_MAX {
            return Err(Error::BadArgument("a buffer has 1 to 2^47 bytes"));
        }
        let flags = D3DKMT_CREATEALLOCATIONFLAGS::new()
            .with_CreateResource(true)
            .with_CreateShared(true)
            .with_NtSecuritySharing(true);
        Buffer::usable(Allocation::new(self, size, placement, flags)?, size, placement, WRITABLE)
    }

    /// Opens a shared buffer by a kernel handle of this process; the handle stays the caller's. Everything that has the buffer open sees the same bytes, each at
    /// a GPU virtual address of its own.
    ///
    /// # Errors
    /// [`Error::Status`] with STATUS_INVALID_HANDLE or STATUS_OBJECT_TYPE_MISMATCH if `handle` is none of a resource, and with STATUS_INVALID_PARAMETER for one
    /// of another adapter; [`Error::BadArgument`] for a resource that is no buffer; [`Error::BadAnswer`], [`Error::DeviceLost`], with every step undone.
    /// [d3dkmthk: D3DKMTQueryResourceInfoFromNtHandle, D3DKMTOpenResourceFromNtHandle]
    pub fn open_buffer(&self, handle: HANDLE) -> Result<Buffer> {
        let (allocation, data) = Allocation::open(self, handle)?;
        let placement = Placement::from_number(data.placement);
        match placement.filter(|_| data.magic == MAGIC && (1..=SIZE_MAX).contains(&data.size)) {
            Some(placement) => Buffer::usable(allocation, data.size, placement, WRITABLE),
            None => Err(Error::BadArgument("the resource is no buffer of this driver")),
        }
    }
}

/// Access of the GPU to an ordinary buffer, in addition to reading: writing.
const WRITABLE: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE =
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true);

impl Buffer {
    /// As [`Device::create_buffer`], with what the GPU may do besides reading. The size is one that is allowed.
    pub(crate) fn mapped_for(
        device: &Device,
        size: u64,
        placement: Placement,
        protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    ) -> Result<Self> {
        let allocation = Allocation::new(device, size, placement, D3DKMT_CREATEALLOCATIONFLAGS::new())?;
        Self::usable(allocation, size, placement, protection)
    }

    /// The buffer of an allocation, which is made resident and mapped for the GPU.
    fn usable(
        allocation: Allocation,
        size: u64,
        placement: Placement,
        protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    ) -> Result<Self> {
        let resident = Resident::new(&allocation)?;
        let address = GpuAddress::new(&allocation, size.div_ceil(PAGE_4K), protection)?;
        Ok(Self { inner: Arc::new(Inner { address, _resident: resident, allocation, placement, size }) })
    }
}

impl Buffer {
    /// First GPU virtual address, a multiple of 4096.
    pub fn gpu_address(&self) -> u64 {
        self.inner.address.base
    }

    /// Bytes asked for; the last page is mapped whole.
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// Memory that the buffer is in.
    pub fn placement(&self) -> Placement {
        self.inner.placement
    }

    /// The device it was created on.
    pub fn device(&self) -> &Device {
        &self.inner.allocation.device
    }

    /// Handle of its allocation, by which logs and traces name it.
    pub fn handle(&self) -> D3DKMT_HANDLE {
        self.inner.allocation.handle
    }

    /// Gives the buffer a kernel handle in this process, by which it is opened. The handle keeps the memory as a clone does.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it was neither created to be shared nor opened; [`Error::Status`], [`Error::BadAnswer`], [`Error::DeviceLost`].
    /// [d3dkmthk: D3DKMTShareObjects]
    pub fn share(&self) -> Result<SharedHandle> {
        match self.inner.allocation.resource {
            0 => Err(Error::NotShared),
            resource => SharedHandle::new(self.device(), resource, Access::Full),
        }
    }

    /// Maps the buffer for the CPU. Several mappings may exist at a time; locks nest.
    ///
    /// # Errors
    /// [`Error::NotMappable`], [`Error::Status`], [`Error::BadAnswer`], [`Error::DeviceLost`]. [d3dkmthk: D3DKMTLock2]
    pub fn map(&self) -> Result<Mapping> {
        if self.inner.placement == Placement::Vram {
            return Err(Error::NotMappable);
        }
        let len = usize::try_from(self.inner.size).map_err(|_| Error::NotMappable)?;
        let mut lock = D3DKMT_LOCK2::zeroed();
        lock.hDevice = self.device().handle();
        lock.hAllocation = self.handle();
        invoke!(self.device().thunks(), D3DKMTLock2, &mut lock)?;
        match NonNull::new(lock.pData.cast::<u8>()).filter(|start| start.addr().get() % PAGE_4K as usize == 0) {
            Some(start) => Ok(Mapping { buffer: self.clone(), start, len }),
            None => {
                self.unlock();
                Err(Error::BadAnswer("D3DKMTLock2 gave no page address"))
            }
        }
    }

    /// Lets the system take the memory when it is short, without saving the contents, until [`Buffer::reclaim`]. Work that is queued by
    /// now may still use it; work that is queued later must not, nor may the CPU map it.
    ///
    /// # Errors
    /// [`Error::Status`] if it is mapped, or offered already; [`Error::DeviceLost`]. [d3dkmthk: D3DKMTOfferAllocations]
    pub fn offer(&self, priority: OfferPriority) -> Result<()> {
        let mut handle = self.handle();
        let mut args = D3DKMT_OFFERALLOCATIONS::zeroed();
        args.hDevice = self.device().handle();
        args.HandleList = &mut handle;
        args.NumAllocations = 1;
        args.Priority = match priority {
            OfferPriority::Low => D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_LOW,
            OfferPriority::Normal => D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_NORMAL,
            OfferPriority::High => D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_HIGH,
        };
        invoke!(self.device().thunks(), D3DKMTOfferAllocations, &mut args)
    }

    /// Takes the memory back after [`Buffer::offer`]. When the call returns it may be used; the answer says whether the contents have to be
    /// made anew.
    ///
    /// # Errors
    /// [`Error::Status`] if it is not offered, or there is no memory, and it stays offered; [`Error::BadAnswer`], [`Error::DeviceLost`].
    /// [d3dkmthk: D3DKMTReclaimAllocations2]
    pub fn reclaim(&self) -> Result<Reclaimed> {
        let mut handle = self.handle();
        let mut result = D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_OK;
        let mut args = D3DKMT_RECLAIMALLOCATIONS2::zeroed();
        args.hPagingQueue = self.device().paging_queue();
        args.NumAllocations = 1;
        args.HandleList = &mut handle;
        args.u.pResults = &mut result;
        let pending = invoke_pending!(self.device().thunks(), D3DKMTReclaimAllocations2, &mut args)?;
        self.device().wait_paging(pending, args.PagingFenceValue)?;
        match result {
            D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_OK => Ok(Reclaimed::Kept),
            D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_DISCARDED => Ok(Reclaimed::Discarded),
            // Only memory that may be decommitted can lack it.
            _ => Err(Error::BadAnswer("D3DKMTReclaimAllocations2 gave an unknown result")),
        }
    }

    fn unlock(&self) {
        let mut args = D3DKMT_UNLOCK2 { hDevice: self.device().handle(), hAllocation: self.handle() };
        self.device().adapter().count_teardown(call!(self.device().thunks(), D3DKMTUnlock2, &mut args));
    }
}

/// A buffer as the CPU sees it, until dropped. The address stays the same even when the memory manager moves the contents.
///
/// The GPU may change the bytes at any time while work that writes them is queued: wait for a fence before reading, and do
/// not write what queued work reads. Copies made against that rule have unspecified contents and do no other harm.
pub struct Mapping {
    buffer: Buffer,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range of the process, good on every thread until the drop.
unsafe impl Send for Mapping {}
// SAFETY: shared use copies bytes through raw pointers only; racing copies yield unspecified bytes, which the type documents.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// First address, a multiple of 4096.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The bytes as words that are shared with the GPU.
    ///
    /// # Safety
    /// The range is not used after the mapping is dropped.
    pub(crate) unsafe fn words(&self) -> SharedRange {
        // SAFETY: `map` checked that the address is that of a page, and the caller stops in time.
        unsafe { SharedRange::new(self.start, self.len) }
    }

    /// Bytes mapped: the buffer's size.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: empty buffers do not exist.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffer that is mapped.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Copies `bytes` into the buffer at `offset`; the GPU sees them when the call returns.
    ///
    /// # Errors
    /// [`Error::BadArgument`] if they do not fit; nothing is copied. As [`Mapping::synchronize`].
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let target = self.range(offset, bytes.len())?;
        // The first and the last cache line may have bytes that the GPU has written.
        self.synchronize(offset, bytes.len())?;
        // SAFETY: the target range lies in the mapping, which outlives the call; a caller's slice never overlaps it, because
        // no reference to mapped bytes is handed out by safe code.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        self.synchronize(offset, bytes.len())
    }

    /// Copies from the buffer at `offset` into `bytes`, with all that the GPU wrote before.
    ///
    /// # Errors
    /// [`Error::BadArgument`] if the range leaves the buffer; nothing is copied. As [`Mapping::synchronize`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let source = self.range(offset, bytes.len())?;
        self.synchronize(offset, bytes.len())?;
        // SAFETY: the source range lies in the mapping, which outlives the call; a caller's slice never overlaps it.
        unsafe { ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Makes stores of the CPU to `len` bytes visible to the GPU, and those of the GPU to the CPU: on an adapter whose DMA does not snoop
    /// the CPU's caches, after the CPU has written and before the GPU reads, and after the GPU has written and before the CPU reads. Cache
    /// lines that the range touches are written back and read again whole. Only a caller that uses [`Mapping::as_ptr`] needs this; on other
    /// adapters, and for memory that is not cached, there is nothing to do. [allocation-usage-tracking: I/O coherency]
    ///
    /// # Errors
    /// [`Error::BadArgument`] if the range leaves the buffer; [`Error::DeviceLost`], [`Error::Status`].
    /// [d3dkmthk: D3DKMTInvalidateCache]
    pub fn synchronize(&self, offset: usize, len: usize) -> Result<()> {
        self.range(offset, len)?;
        let device = self.buffer.device();
        if len == 0 || self.buffer.placement() != Placement::System || device.adapter().is_coherent() {
            return Ok(());
        }
        let mut args = D3DKMT_INVALIDATECACHE::zeroed();
        args.hDevice = device.handle();
        args.hAllocation = self.buffer.handle();
        args.Offset = offset as _;
        args.Length = len as _;
        invoke!(device.thunks(), D3DKMTInvalidateCache, &mut args)
    }

    /// The bytes as a slice, without copying. [`Mapping::synchronize`] comes before.
    ///
    /// # Safety
    /// Neither the GPU nor a processor writes them while the slice is used.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped until the drop, and the caller keeps writers away.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    fn range(&self, offset: usize, len: usize) -> Result<*mut u8> {
        match offset.checked_add(len) {
            // SAFETY: `offset` is at most the mapping's length.
            Some(end) if end <= self.len => Ok(unsafe { self.start.as_ptr().add(offset) }),
            _ => Err(Error::BadArgument("the range lies outside the buffer")),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.buffer.unlock();
    }
}

struct Allocation {
    device: Device,
    handle: D3DKMT_HANDLE,
    /// The resource that it is all of, if it is shared; 0 for an allocation by itself.
    resource: D3DKMT_HANDLE,
}

/// The private data of an allocation, which the driver reads in place on some paths: aligned as its words.
#[repr(align(8))]
struct Aligned([u8; AllocationData::SIZE]);

impl Allocation {
    fn new(device: &Device, size: u64, placement: Placement, flags: D3DKMT_CREATEALLOCATIONFLAGS) -> Result<Self> {
        let data = AllocationData { magic: MAGIC, placement: placement as u32, size, adapter: 0, reserved: 0 };
        let mut data = Aligned(data.to_bytes());
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        info.pPrivateDriverData = data.0.as_mut_ptr().cast::<c_void>();
        info.PrivateDriverDataSize = AllocationData::SIZE as u32;
        let mut create = D3DKMT_CREATEALLOCATION::zeroed();
        create.hDevice = device.handle();
        create.NumAllocations = 1;
        create.u1.pAllocationInfo2 = &mut info;
        create.Flags = flags;
        invoke!(device.thunks(), D3DKMTCreateAllocation2, &mut create)?;
        if info.hAllocation == 0 || (create.hResource == 0) == flags.CreateResource() {
            return Err(Error::BadAnswer("D3DKMTCreateAllocation2 gave no handle"));
        }
        Ok(Self { device: device.clone(), handle: info.hAllocation, resource: create.hResource })
    }

    /// Opens a resource of one allocation, with the private data of its creator.
    fn open(device: &Device, handle: HANDLE) -> Result<(Self, AllocationData)> {
        let mut sizes = D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE::zeroed();
        (sizes.hDevice, sizes.hNtHandle) = (device.handle(), handle);
        invoke!(device.thunks(), D3DKMTQueryResourceInfoFromNtHandle, &mut sizes)?;
        let told = (sizes.NumAllocations, sizes.TotalPrivateDriverDataSize, sizes.ResourcePrivateDriverDataSize);
        if told != (1, AllocationData::SIZE as u32, 0) || sizes.PrivateRuntimeDataSize != 0 {
            return Err(Error::BadArgument("the resource is no buffer of this driver"));
        }
        let (mut info, mut data) = (D3DDDI_OPENALLOCATIONINFO2::zeroed(), Aligned([0; AllocationData::SIZE]));
        let mut open = D3DKMT_OPENRESOURCEFROMNTHANDLE::zeroed();
        (open.hDevice, open.hNtHandle) = (device.handle(), handle);
        (open.NumAllocations, open.pOpenAllocationInfo2) = (1, &mut info);
        open.TotalPrivateDriverDataBufferSize = AllocationData::SIZE as u32;
        open.pTotalPrivateDriverDataBuffer = data.0.as_mut_ptr().cast::<c_void>();
        invoke!(device.thunks(), D3DKMTOpenResourceFromNtHandle, &mut open)?;
        if info.hAllocation == 0 || open.hResource == 0 {
            return Err(Error::BadAnswer("D3DKMTOpenResourceFromNtHandle gave no handle"));
        }
        let opened = Self { device: device.clone(), handle: info.hAllocation, resource: open.hResource };
        Ok((opened, AllocationData::from_bytes(&data.0)))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut args = D3DKMT_DESTROYALLOCATION2::zeroed();
        args.hDevice = self.device.handle();
        // A resource is destroyed with its allocations, which are not named then.
        args.hResource = self.resource;
        args.AllocationCount = u32::from(self.resource == 0);
        args.phAllocationList = if self.resource == 0 { &mut self.handle } else { ptr::null_mut() };
        self.device.adapter().count_teardown(call!(self.device.thunks(), D3DKMTDestroyAllocation2, &mut args));
    }
}

/// An allocation's place on the residency list.
struct Resident {
    device: Device,
    allocation: D3DKMT_HANDLE,
}

impl Resident {
    /// What this driver has on the list stays there, so that there is nothing to trim when memory is short: the system is told so, and frees memory at the cost of
    /// other processes, in turn with them. [driver-residency-in-wddm-2-0; d3dukmdt: D3DDDI_MAKERESIDENT_FLAGS::CantTrimFurther]
    fn new(allocation: &Allocation) -> Result<Self> {
        match Self::request(allocation, false) {
            Err(Error::Status(STATUS_NO_MEMORY, _)) => Self::request(allocation, true),
            outcome => outcome,
        }
    }

    fn request(allocation: &Allocation, cannot_trim: bool) -> Result<Self> {
        let device = &allocation.device;
        let mut handle = allocation.handle;
        let mut args = D3DDDI_MAKERESIDENT::zeroed();
        args.hPagingQueue = device.paging_queue();
        args.NumAllocations = 1;
        args.AllocationList = &mut handle;
        args.Flags = D3DDDI_MAKERESIDENT_FLAGS::new().with_CantTrimFurther(cannot_trim);
        let pending = invoke_pending!(device.thunks(), D3DKMTMakeResident, &mut args)?;
        // From here on the allocation is counted as resident, also while the request is pending, so a failed wait evicts.
        let resident = Self { device: device.clone(), allocation: handle };
        device.wait_paging(pending, args.PagingFenceValue)?;
        Ok(resident)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let mut args = D3DKMT_EVICT::zeroed();
        args.hDevice = self.device.handle();
        args.NumAllocations = 1;
        args.AllocationList = &mut self.allocation;
        self.device.adapter().count_teardown(call!(self.device.thunks(), D3DKMTEvict, &mut args));
    }
}

/// A range of GPU virtual addresses that an allocation is mapped to.
struct GpuAddress {
    device: Device,
    base: u64,
    size: u64,
}

impl GpuAddress {
    fn new(allocation: &Allocation, pages: u64, protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE) -> Result<Self> {
        let device = &allocation.device;
        let mut args = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
        args.hPagingQueue = device.paging_queue();
        args.hAllocation = allocation.handle;
        args.SizeInPages = pages;
        args.Protection = protection;
        let pending = invoke_pending!(device.thunks(), D3DKMTMapGpuVirtualAddress, &mut args)?;
        if args.VirtualAddress == 0 || args.VirtualAddress % PAGE_4K != 0 {
            return Err(Error::BadAnswer("D3DKMTMapGpuVirtualAddress gave no page address"));
        }
        // Mapped from here on, also while the request is pending, so a failed wait frees the range.
        let address = Self { device: device.clone(), base: args.VirtualAddress, size: pages * PAGE_4K };
        device.wait_paging(pending, args.PagingFenceValue)?;
        Ok(address)
    }
}

impl Drop for GpuAddress {
    fn drop(&mut self) {
        let mut args = D3DKMT_FREEGPUVIRTUALADDRESS {
            hAdapter: self.device.adapter().handle(),
            BaseAddress: self.base,
            Size: self.size,
        };
        self.device.adapter().count_teardown(call!(self.device.thunks(), D3DKMTFreeGpuVirtualAddress, &mut args));
    }
}
