//! Allocations whose memory the program has already.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::BAD_ARGUMENT;
use crate::rig::{Memory, Rig, copy, fill};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Memory";
    "ExistingMemory.IsSeenByProgramAndGpuAlike" needs UserModeSubmission on Boot::Shared, "d3dkmt_createstandardallocation":
        "An allocation of a heap that exists is the program's own memory: the GPU reads what was stored there before and after, and the program reads at its own address what the GPU writes, without a lock."
        => seen_alike;
    "ExistingMemory.IsLockedWhereItIs" on Boot::Shared, "d3dddi_allocationinfo2":
        "A lock of memory that exists gives the program's own address, locks nest as any others, and one that there is not cannot be ended; it cannot be offered."
        => locked_where_it_is;
    "ExistingMemory.StaysTheProgramsAfterwards" needs UserModeSubmission on Boot::Shared, "d3dkmt_createstandardallocation":
        "When the allocation is destroyed, or its device, the program has its memory with the contents that GPU and program wrote last, can write and free it, and can give it again."
        => stays_afterwards;
    "ExistingMemory.IsShared" on Boot::Shared, "d3dkmt_createallocationflags":
        "A heap that exists can be a resource that others open; they see the program's memory. Closing gives it back, as soon as the program's other openings have not locked it there, and the others keep the contents."
        => shared;
    "ExistingMemory.RulesAreKept" on Boot::Shared, "d3dkmtcreateallocation":
        "A standard allocation is one heap of whole pages that begins at a page and needs both flags and no private data of the resource; whatever breaks that, and memory that the program cannot write, is an invalid parameter, makes nothing and leaves the memory as it was."
        => rules;
}

const SIZE: usize = 128 << 10;
const PAGE: usize = campanile_hw::queue::SYSTEM_PAGE_SIZE as usize;

/// Memory of the program that begins at a page.
struct Own(NonNull<u8>);

impl Own {
    const LAYOUT: Layout = match Layout::from_size_align(SIZE, PAGE) {
        Ok(layout) => layout,
        Err(_) => panic!("a page is a power of two"),
    };

    fn new() -> Result<Self, Failure> {
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) });
        start.map(Self).ok_or_else(|| Failure::new("no memory".to_owned()))
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < SIZE, "the case reaches outside its memory");
        // SAFETY: the offset lies within the memory.
        unsafe { self.0.as_ptr().add(offset) }
    }

    fn write(&self, seed: u8) {
        for offset in 0..SIZE {
            // SAFETY: a byte of this memory, to which nothing refers; the GPU is not at work on it.
            unsafe { self.at(offset).write_volatile(byte(seed, offset)) };
        }
    }

    fn is(&self, seed: u8) -> bool {
        // SAFETY: as in `write`.
        (0..SIZE).all(|offset| unsafe { self.at(offset).read_volatile() } == byte(seed, offset))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nothing uses it any more.
        unsafe { dealloc(self.0.as_ptr(), Self::LAYOUT) };
    }
}

fn byte(seed: u8, offset: usize) -> u8 {
    (offset * 13 + offset / 256) as u8 ^ seed
}

/// Arguments of D3DKMTCreateAllocation2 for an allocation of memory that the process has already (ExistingSysMem).
struct Request {
    create: D3DKMT_CREATEALLOCATION,
    standard: D3DKMT_CREATESTANDARDALLOCATION,
    info: [D3DDDI_ALLOCATIONINFO2; 2],
}

impl Request {
    fn new(rig: &Rig, own: &Own) -> Self {
        let mut request = Self {
            create: D3DKMT_CREATEALLOCATION::zeroed(),
            standard: D3DKMT_CREATESTANDARDALLOCATION::zeroed(),
            info: [D3DDDI_ALLOCATIONINFO2::zeroed(); 2],
        };
        request.standard.Type = D3DKMT_STANDARDALLOCATIONTYPE::D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
        request.standard.ExistingHeapData.Size = SIZE;
        request.info[0].u.pSystemMem = own.at(0).cast::<c_void>();
        (request.create.hDevice, request.create.NumAllocations) = (rig.device, 1);
        request.create.Flags =
            D3DKMT_CREATEALLOCATIONFLAGS::new().with_ExistingSysMem(true).with_StandardAllocation(true);
        request
    }

    fn make(&mut self, rig: &Rig) -> NTSTATUS {
        self.create.u.pStandardAllocation = &raw mut self.standard;
        self.create.u1.pAllocationInfo2 = self.info.as_mut_ptr();
        rig.kmt.call(rig.kmt.table().D3DKMTCreateAllocation2, &mut self.create)
    }
}

fn create(rig: &Rig, own: &Own) -> Result<D3DKMT_HANDLE, Failure> {
    let mut request = Request::new(rig, own);
    granted(request.make(rig), "an allocation of memory that exists")?;
    Ok(request.info[0].hAllocation)
}

fn usable(rig: &Rig, handle: D3DKMT_HANDLE) -> Result<Memory, Failure> {
    rig.make_resident(handle)?;
    Ok(Memory { handle, address: rig.map(rig.map_request(handle, SIZE as u64))?, size: SIZE as u64 })
}

fn seen_alike(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (own, mut queue) = (Own::new()?, rig.queue(NODE_COPY)?);
    own.write(1);
    let memory = usable(&rig, create(&rig, &own)?)?;
    ensure!(own.is(1), "the program's memory has other contents than before");
    let other = rig.memory(memory.size, Placement::System)?;
    let view = rig.view(other)?;
    for seed in [1, 2] {
        own.write(seed);
        rig.execute(&mut queue, &[copy(other.address, memory.address, SIZE as u32)])?;
        let seen = view.read(0, memory.size);
        ensure!(seen.iter().enumerate().all(|(at, seen)| *seen == byte(seed, at)), "the GPU reads other bytes: {seed}");
    }
    let written: Vec<u8> = (0..SIZE).map(|offset| byte(3, offset)).collect();
    view.write(0, &written);
    rig.execute(&mut queue, &[copy(memory.address, other.address, SIZE as u32)])?;
    ensure!(own.is(3), "the program does not read what the GPU wrote");
    granted(rig.destroy_allocation(memory.handle), "D3DKMTDestroyAllocation2")
}

fn locked_where_it_is(case: &Case) -> Result<(), Failure> {
    let (rig, own) = (case.rig()?, Own::new()?);
    let handle = create(&rig, &own)?;
    refused(rig.unlock(handle), BAD_ARGUMENT, "the end of a lock that there is not")?;
    for _ in 0..2 {
        let locked = rig.lock(handle).map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
        ensure_eq!(locked, own.0, "the address of a lock");
    }
    granted(rig.unlock(handle), "the first unlock")?;
    granted(rig.unlock(handle), "the second unlock")?;
    refused(rig.unlock(handle), BAD_ARGUMENT, "the end of a third lock")?;
    own.write(9);
    let mut list = handle;
    let mut offer = D3DKMT_OFFERALLOCATIONS::zeroed();
    (offer.hDevice, offer.HandleList, offer.NumAllocations) = (rig.device, &raw mut list, 1);
    offer.Priority = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_NORMAL;
    let status = rig.kmt.call(rig.kmt.table().D3DKMTOfferAllocations, &mut offer);
    refused(status, &[STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_INVALID_PARAMETER], "an offer of the program's memory")?;
    granted(rig.destroy_allocation(handle), "D3DKMTDestroyAllocation2")
}

fn stays_afterwards(case: &Case) -> Result<(), Failure> {
    const PATTERN: u32 = 0x3131_3131;
    let (rig, own) = (case.rig()?, Own::new()?);
    for round in 0..3u8 {
        own.write(round);
        let rig = Rig::on_adapter(rig.kmt, rig.adapter)?;
        let memory = usable(&rig, create(&rig, &own)?)?;
        let mut queue = rig.queue(NODE_COPY)?;
        rig.execute(&mut queue, &[fill(memory.address, PAGE as u64, PATTERN)])?;
        if round != 1 {
            granted(rig.destroy_allocation(memory.handle), "D3DKMTDestroyAllocation2")?;
        }
        granted(rig.destroy(), "D3DKMTDestroyDevice")?;
        for offset in 0..SIZE {
            // SAFETY: a byte of the memory, to which nothing refers.
            let seen = unsafe { own.at(offset).read_volatile() };
            let expected = if offset < PAGE { PATTERN as u8 } else { byte(round, offset) };
            ensure_eq!(seen, expected, "round {round}, byte {offset:#x}");
        }
    }
    own.write(7);
    ensure!(own.is(7), "the memory does not keep what is stored");
    Ok(())
}

fn shared(case: &Case) -> Result<(), Failure> {
    let (rig, own) = (case.rig()?, Own::new()?);
    let mut request = Request::new(&rig, &own);
    request.create.Flags.set_CreateResource(true);
    request.create.Flags.set_CreateShared(true);
    own.write(4);
    granted(request.make(&rig), "a shared resource of memory that exists")?;
    let other = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let mut info = D3DDDI_OPENALLOCATIONINFO2::zeroed();
    let mut private = [0u8; 256];
    let mut open = D3DKMT_OPENRESOURCE::zeroed();
    (open.hDevice, open.hGlobalShare, open.NumAllocations) = (other.device, request.create.hGlobalShare, 1);
    open.u.pOpenAllocationInfo2 = &raw mut info;
    open.pTotalPrivateDriverDataBuffer = private.as_mut_ptr().cast();
    open.TotalPrivateDriverDataBufferSize = private.len() as u32;
    granted(other.kmt.call(other.kmt.further().D3DKMTOpenResource2, &mut open), "D3DKMTOpenResource2")?;
    let locked = other.lock(info.hAllocation).map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
    // SAFETY: the bytes are locked, and nothing writes to them.
    ensure_eq!(unsafe { locked.read_volatile() }, byte(4, 0), "the first byte as the other one sees it");
    granted(rig.destroy_allocation(request.info[0].hAllocation), "the program closes it")?;
    ensure!(own.is(4), "the program has other bytes than before");
    own.write(6);
    // SAFETY: as above; it is locked by the other device.
    let seen = unsafe { locked.as_ptr().wrapping_add(PAGE).read_volatile() };
    ensure_eq!(seen, byte(6, PAGE), "a byte when the program has closed it");
    granted(other.unlock(info.hAllocation), "unlock")?;
    let locked = other.lock(info.hAllocation).map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
    own.write(7);
    // SAFETY: as above; it is locked at an address of its own.
    let seen = unsafe { locked.read_volatile() };
    ensure_eq!(seen, byte(6, 0), "what the program has written after it got its memory back");
    ensure!(own.is(7), "the memory does not keep what is stored");
    granted(other.unlock(info.hAllocation), "the second unlock")
}

fn rules(case: &Case) -> Result<(), Failure> {
    use D3DKMT_STANDARDALLOCATIONTYPE as Type;
    let (rig, own) = (case.rig()?, Own::new()?);
    own.write(5);
    static CONSTANT: [u8; 4 * PAGE] = [1; 4 * PAGE];
    type Change = fn(&mut Request);
    let changes: &[(&str, Change)] = &[
        ("no ExistingSysMem", |request| request.create.Flags.set_ExistingSysMem(false)),
        ("no address", |request| request.info[0].u.pSystemMem = std::ptr::null_mut()),
        ("an address within a page", |request| {
            // SAFETY: a member of a union of pointers.
            let at = unsafe { request.info[0].u.pSystemMem };
            request.info[0].u.pSystemMem = at.wrapping_byte_add(16);
        }),
        ("no type", |request| request.standard.Type = Type(0)),
        ("an unknown type", |request| request.standard.Type = Type(99)),
        ("no bytes", |request| request.standard.ExistingHeapData.Size = 0),
        ("a part of a page", |request| request.standard.ExistingHeapData.Size = 0x1100),
        ("more than there can be", |request| request.standard.ExistingHeapData.Size = 1 << 52),
        ("two allocations", |request| {
            request.info[1] = request.info[0];
            request.create.NumAllocations = 2;
        }),
        ("none", |request| request.create.NumAllocations = 0),
        ("private data of the resource", |request| request.create.PrivateDriverDataSize = 64),
        ("a flag of the description", |request| {
            request.standard.Flags = D3DKMT_CREATESTANDARDALLOCATIONFLAGS::from_bits(1);
        }),
        ("CreateShared alone", |request| request.create.Flags.set_CreateShared(true)),
        ("memory that cannot be written", |request| {
            let at = CONSTANT.as_ptr().addr().next_multiple_of(PAGE);
            request.info[0].u.pSystemMem = std::ptr::with_exposed_provenance_mut(at);
            request.standard.ExistingHeapData.Size = PAGE;
        }),
        ("no memory", |request| {
            request.info[0].u.pSystemMem = std::ptr::without_provenance_mut(PAGE);
        }),
    ];
    for (what, change) in changes {
        let mut request = Request::new(&rig, &own);
        change(&mut request);
        refused(request.make(&rig), BAD_ARGUMENT, what)?;
        ensure_eq!(request.info[0].hAllocation, 0, "a handle in spite of {what}");
    }
    ensure!(own.is(5), "the memory was changed");
    granted(rig.destroy_allocation(create(&rig, &own)?), "D3DKMTDestroyAllocation2")
}
