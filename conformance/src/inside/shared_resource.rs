//! Resources that several devices have open: what openers are told, whose bytes they see, and how long these live.

use std::ffi::c_void;

use campanile_hw::private::{AllocationData, MAGIC, Placement};
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::fence_cross_adapter::{rigs, two_native};
use crate::cases::fault::wait_for_error;
use crate::cases::older_sync::{attributes, share_named};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, Kmt};
use crate::rig::{KernelHandle, Memory, PacketQueue, Rig, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};

cases! { inside "SharedResource", behind "it is several processes, or counts the objects of the system";
    "SharedResource.OpenersAreToldAndSeeTheSameBytes" on Boot::Fresh, "d3dkmt_openresource":
        "Another process that opens a shared resource by its global handle is told the data of the runtime and the private data of each allocation as the creator left them, the driver opens each allocation on the new device once, and what the GPU writes for one of the two is what the other reads."
        => same_bytes;
    "SharedResource.LivesUntilTheLastIsGone" on Boot::Fresh, "d3dkmtdestroyallocation2":
        "A shared resource outlives the device and the process of its creator while somebody has it open, is gone when the last has closed it, and is not found by its global handle any more then."
        => last_is_gone;
    "SharedResource.KernelHandlesOpenIt" on Boot::Fresh, "d3dkmtopenresourcefromnthandle":
        "A resource that was created for kernel handles has no global one, is opened by a duplicate in another process or by its name, and lives while a kernel handle does; a handle without the right to read does not open it."
        => kernel_handles;
    "SharedResource.EachDeviceHasItsOwnResidencyAndLocks" on Boot::Fresh, "d3dkmtmakeresident":
        "A device gives up only what it has made resident or locked itself, a shared allocation stays resident while one of them wants it, and counts in the usage of each process that does."
        => own_residency;
    "SharedResource.MappingsGoWithTheOpening" on Boot::Fresh, "d3dkmtdestroyallocation2":
        "What a device has mapped of a shared allocation is unmapped when it closes it, once its queues have let go of it, and the range is free; what another device of the same process and the creator have mapped stays."
        => mappings_go;
    "SharedResource.WrongRequestsAreRefused" on Boot::Fresh, "d3dkmt_queryresourceinfo":
        "Sizes and counts other than those of the resource, handles of something else, resources that are not shared, and sharing without a resource are refused; a refused opening leaves nothing open."
        => wrong_requests;
    "SharedResource.OtherAdaptersAreRefused" on Boot::With(two_native), "d3dkmtopenresource":
        "A device of another adapter does not open a resource; the adapter of a resource is told by its handle."
        => other_adapter;
}

const SIZE: u64 = 128 << 10;
const RUNTIME: &[u8] = b"what the runtime keeps";
const PLACES: [Placement; 2] = [Placement::System, Placement::VramVisible];

/// A resource as one device has it.
pub(super) struct Open {
    pub(super) allocations: Vec<D3DKMT_HANDLE>,
    pub(super) resource: D3DKMT_HANDLE,
}

/// A resource, and the handle that every process knows.
pub(super) struct Created {
    pub(super) open: Open,
    pub(super) global: D3DKMT_HANDLE,
}

pub(super) fn failed(what: &'static str) -> impl Fn(NTSTATUS) -> Failure {
    move |status| Failure::new(format!("{what}: {status}"))
}

fn data(rig: &Rig, placement: Placement) -> [u8; AllocationData::SIZE] {
    AllocationData { magic: MAGIC, placement: placement as u32, size: SIZE, adapter: rig.engine, reserved: 0 }
        .to_bytes()
}

pub(super) fn create(rig: &Rig, flags: D3DKMT_CREATEALLOCATIONFLAGS) -> Result<Created, NTSTATUS> {
    let mut private = PLACES.map(|place| data(rig, place));
    let mut infos: Vec<D3DDDI_ALLOCATIONINFO2> = private
        .iter_mut()
        .map(|data| {
            let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
            (info.pPrivateDriverData, info.PrivateDriverDataSize) = (data.as_mut_ptr().cast(), data.len() as u32);
            info
        })
        .collect();
    let mut arguments = D3DKMT_CREATEALLOCATION::zeroed();
    (arguments.hDevice, arguments.NumAllocations, arguments.Flags) = (rig.device, infos.len() as u32, flags);
    arguments.pPrivateRuntimeData = RUNTIME.as_ptr().cast_mut().cast();
    arguments.PrivateRuntimeDataSize = RUNTIME.len() as u32;
    arguments.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: infos.as_mut_ptr() };
    rig.kmt.call(rig.kmt.table().D3DKMTCreateAllocation2, &mut arguments).ok()?;
    let allocations = infos.iter().map(|info| info.hAllocation).collect();
    Ok(Created { open: Open { allocations, resource: arguments.hResource }, global: arguments.hGlobalShare })
}

pub(super) fn shared() -> D3DKMT_CREATEALLOCATIONFLAGS {
    D3DKMT_CREATEALLOCATIONFLAGS::new().with_CreateResource(true).with_CreateShared(true)
}

fn query(rig: &Rig, global: D3DKMT_HANDLE, runtime: &mut [u8]) -> Result<D3DKMT_QUERYRESOURCEINFO, NTSTATUS> {
    let mut arguments = D3DKMT_QUERYRESOURCEINFO::zeroed();
    (arguments.hDevice, arguments.hGlobalShare) = (rig.device, global);
    if !runtime.is_empty() {
        arguments.pPrivateRuntimeData = runtime.as_mut_ptr().cast();
        arguments.PrivateRuntimeDataSize = runtime.len() as u32;
    }
    rig.kmt.call(rig.kmt.further().D3DKMTQueryResourceInfo, &mut arguments).ok()?;
    Ok(arguments)
}

/// Buffers of an opening.
struct Buffers {
    infos: Vec<D3DDDI_OPENALLOCATIONINFO2>,
    runtime: Vec<u8>,
    total: Vec<u8>,
}

impl Buffers {
    fn new() -> Self {
        let infos = vec![D3DDDI_OPENALLOCATIONINFO2::zeroed(); PLACES.len()];
        Self { infos, runtime: vec![0; RUNTIME.len()], total: vec![0; AllocationData::SIZE * PLACES.len()] }
    }

    fn open(&self, resource: D3DKMT_HANDLE) -> Open {
        Open { allocations: self.infos.iter().map(|info| info.hAllocation).collect(), resource }
    }

    /// By the global handle, with arguments that the case changes.
    fn by_global(
        &mut self,
        rig: &Rig,
        global: D3DKMT_HANDLE,
        change: impl FnOnce(&mut D3DKMT_OPENRESOURCE),
    ) -> Result<Open, NTSTATUS> {
        let mut arguments = D3DKMT_OPENRESOURCE::zeroed();
        (arguments.hDevice, arguments.hGlobalShare) = (rig.device, global);
        arguments.NumAllocations = self.infos.len() as u32;
        arguments.u = D3DKMT_OPENRESOURCE_Union { pOpenAllocationInfo2: self.infos.as_mut_ptr() };
        arguments.pPrivateRuntimeData = self.runtime.as_mut_ptr().cast();
        arguments.PrivateRuntimeDataSize = self.runtime.len() as u32;
        arguments.pTotalPrivateDriverDataBuffer = self.total.as_mut_ptr().cast();
        arguments.TotalPrivateDriverDataBufferSize = self.total.len() as u32;
        change(&mut arguments);
        rig.kmt.call(rig.kmt.further().D3DKMTOpenResource2, &mut arguments).ok()?;
        Ok(self.open(arguments.hResource))
    }

    fn by_kernel_handle(&mut self, rig: &Rig, handle: KernelHandle) -> Result<Open, NTSTATUS> {
        let mut arguments = D3DKMT_OPENRESOURCEFROMNTHANDLE::zeroed();
        (arguments.hDevice, arguments.hNtHandle) = (rig.device, handle.raw());
        (arguments.NumAllocations, arguments.pOpenAllocationInfo2) = (self.infos.len() as u32, self.infos.as_mut_ptr());
        arguments.pPrivateRuntimeData = self.runtime.as_mut_ptr().cast();
        arguments.PrivateRuntimeDataSize = self.runtime.len() as u32;
        arguments.pTotalPrivateDriverDataBuffer = self.total.as_mut_ptr().cast();
        arguments.TotalPrivateDriverDataBufferSize = self.total.len() as u32;
        rig.kmt.call(rig.kmt.table().D3DKMTOpenResourceFromNtHandle, &mut arguments).ok()?;
        Ok(self.open(arguments.hResource))
    }
}

pub(super) fn opened(rig: &Rig, global: D3DKMT_HANDLE) -> Result<Open, Failure> {
    Buffers::new().by_global(rig, global, |_| ()).map_err(failed("D3DKMTOpenResource2"))
}

pub(super) fn close(rig: &Rig, open: &Open) -> NTSTATUS {
    let mut arguments = D3DKMT_DESTROYALLOCATION2::zeroed();
    (arguments.hDevice, arguments.hResource) = (rig.device, open.resource);
    rig.kmt.call(rig.kmt.table().D3DKMTDestroyAllocation2, &mut arguments)
}

/// An allocation that the GPU of this device can use.
fn usable(rig: &Rig, handle: D3DKMT_HANDLE) -> Result<Memory, Failure> {
    rig.make_resident(handle)?;
    Ok(Memory { handle, address: rig.map(rig.map_request(handle, SIZE))?, size: SIZE })
}

/// The GPU fills each allocation of the resource with a word of its own.
fn write(rig: &Rig, open: &Open, word: u32) -> Result<(), Failure> {
    write_with(rig, rig.packet_queue(NODE_COPY)?, open, word)
}

/// As [`write`], on a context that is there already.
fn write_with(rig: &Rig, mut queue: PacketQueue, open: &Open, word: u32) -> Result<(), Failure> {
    for (place, handle) in open.allocations.iter().enumerate() {
        let memory = usable(rig, *handle)?;
        rig.packet_execute(&mut queue, &[fill(memory.address, SIZE, word + place as u32)])?;
    }
    Ok(())
}

/// Fails unless the processor reads the allocation's own word at both ends of each allocation.
fn check(rig: &Rig, open: &Open, word: u32) -> Result<(), Failure> {
    for (place, handle) in open.allocations.iter().enumerate() {
        let view = rig.view(Memory { handle: *handle, address: 0, size: SIZE })?;
        let wanted = (word + place as u32).to_le_bytes();
        ensure_eq!(view.read(0, 4), wanted, "first word of allocation {place}");
        ensure_eq!(view.read(SIZE - 4, 4), wanted, "last word of allocation {place}");
        granted(rig.unlock(*handle), "D3DKMTUnlock2")?;
    }
    Ok(())
}

fn counted(log: &[String], name: &str) -> usize {
    log.iter().filter(|line| line.contains(name)).count()
}

fn same_bytes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let created = create(&rig, shared()).map_err(failed("D3DKMTCreateAllocation2"))?;
    ensure!(created.global != 0 && created.open.resource != 0, "a shared resource has a global handle");
    write(&rig, &created.open, 0x1111_1100)?;
    let (global, machine, luid) = (created.global, case.system.machine().clone(), case.luid());
    let wanted: Vec<u8> = PLACES.iter().flat_map(|place| data(&rig, *place)).collect();
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let told = query(&other, global, &mut []).map_err(failed("D3DKMTQueryResourceInfo"))?;
        let sizes = (told.PrivateRuntimeDataSize, told.TotalPrivateDriverDataSize, told.ResourcePrivateDriverDataSize);
        ensure_eq!(sizes, (RUNTIME.len() as u32, wanted.len() as u32, 0), "sizes of what an opening is told");
        ensure_eq!(told.NumAllocations, 2, "allocations");
        let mut runtime = vec![0; RUNTIME.len()];
        query(&other, global, &mut runtime).map_err(failed("D3DKMTQueryResourceInfo"))?;
        ensure_eq!(runtime, RUNTIME, "data of the runtime");
        ensure_eq!(runtime_data(other.kmt, other.adapter, global), Ok(RUNTIME.to_vec()), "D3DKMTGetRuntimeData");
        machine.start_ddi_log(luid);
        let mut buffers = Buffers::new();
        let open = buffers.by_global(&other, global, |_| ()).map_err(failed("D3DKMTOpenResource2"))?;
        let log = machine.take_ddi_log(luid);
        ensure_eq!(counted(&log, "DxgkDdiOpenAllocation"), 1, "openings that the driver was told of");
        ensure_eq!(counted(&log, "DxgkDdiCreateAllocation"), 0, "creations that the driver was told of");
        ensure_eq!((&buffers.runtime[..], &buffers.total[..]), (RUNTIME, &wanted[..]), "what the opening is told");
        for (place, info) in buffers.infos.iter().enumerate() {
            let at = buffers.total.as_ptr().wrapping_add(place * AllocationData::SIZE);
            ensure_eq!(info.pPrivateDriverData.cast_const().cast(), at, "private data of allocation {place}");
            ensure_eq!(info.PrivateDriverDataSize as usize, AllocationData::SIZE, "their size");
        }
        check(&other, &open, 0x1111_1100)?;
        write(&other, &open, 0x2222_2200)?;
        machine.start_ddi_log(luid);
        granted(close(&other, &open), "closing it")?;
        let log = machine.take_ddi_log(luid);
        ensure_eq!(counted(&log, "DxgkDdiCloseAllocation"), 2, "allocations that the driver was told are closed");
        ensure_eq!(counted(&log, "DxgkDdiDestroyAllocation"), 0, "allocations that were destroyed while one has them");
        Ok(())
    })?;
    check(&rig, &created.open, 0x2222_2200)?;
    granted(close(&rig, &created.open), "destroying it")
}

fn runtime_data(kmt: Kmt, adapter: D3DKMT_HANDLE, global: D3DKMT_HANDLE) -> Result<Vec<u8>, NTSTATUS> {
    let mut arguments = D3DKMT_GETRUNTIMEDATA::zeroed();
    (arguments.hAdapter, arguments.hGlobalShare) = (adapter, global);
    kmt.call(kmt.further().D3DKMTGetRuntimeData, &mut arguments).ok()?;
    let mut data = vec![0u8; arguments.RuntimeDataSize as usize];
    arguments.pRuntimeData = data.as_mut_ptr().cast::<c_void>();
    kmt.call(kmt.further().D3DKMTGetRuntimeData, &mut arguments).ok()?;
    Ok(data)
}

fn held(case: &Case<'_>) -> Result<usize, Failure> {
    let held = case.system.machine().holdings(case.luid());
    Ok(held.ok_or_else(|| Failure::new("the adapter is gone"))?.allocations)
}

/// Memory is given back when the queues have let go of it, with the next request that gives some back.
fn are_gone(case: &Case<'_>, rig: &Rig, before: usize) -> Result<(), Failure> {
    wait_until("the end of allocations that nobody has open", || {
        let other = rig.create(4096, Placement::System);
        other.is_ok_and(|other| rig.destroy_allocation(other).is_success())
            && held(case).is_ok_and(|held| held == before)
    })
}

fn last_is_gone(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (queue, before) = (rig.packet_queue(NODE_COPY)?, held(case)?);
    let global = case.in_other_process(|system| {
        let creator = Rig::open(system.luid())?;
        let created = create(&creator, shared()).map_err(failed("D3DKMTCreateAllocation2"))?;
        write(&creator, &created.open, 0x3333_3300)?;
        // This process opens it before that one exits.
        case.on_thread(|| opened(&rig, created.global)).map(|open| (created.global, open))
    })?;
    let (global, open) = global;
    ensure_eq!(held(case)?, before + 2, "allocations after the creator's process is gone");
    check(&rig, &open, 0x3333_3300)?;
    write_with(&rig, queue, &open, 0x4444_4400)?;
    check(&rig, &open, 0x4444_4400)?;
    let again = opened(&rig, global)?;
    granted(close(&rig, &open), "closing it once")?;
    check(&rig, &again, 0x4444_4400)?;
    ensure_eq!(held(case)?, before + 2, "allocations while one of two openings is there");
    granted(close(&rig, &again), "closing it the second time")?;
    refused(close(&rig, &again), BAD_HANDLE, "closing it the third time")?;
    are_gone(case, &rig, before)?;
    match query(&rig, global, &mut []) {
        Ok(_) => Err(Failure::new("a resource that is gone was found")),
        Err(status) => refused(status, BAD_ARGUMENT, "the handle of a resource that is gone"),
    }
}

fn kernel_handles(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (queue, before) = (rig.packet_queue(NODE_COPY)?, held(case)?);
    let created = create(&rig, shared().with_NtSecuritySharing(true)).map_err(failed("D3DKMTCreateAllocation2"))?;
    ensure_eq!(created.global, 0, "global handle of a resource for kernel handles");
    write_with(&rig, queue, &created.open, 0x5555_5500)?;
    let name: Vec<u16> = "campanile resource".encode_utf16().collect();
    let handle = share_named(&rig, created.open.resource, &name).map_err(failed("D3DKMTShareObjects"))?;
    let weak = rig.share_with(&[created.open.resource], 1).map_err(failed("D3DKMTShareObjects"))?;
    refused_open(
        Buffers::new().by_kernel_handle(&rig, weak),
        &[STATUS_ACCESS_DENIED],
        "a handle that may not be read",
    )?;
    granted(weak.close(), "closing it")?;
    let fence = rig.shared_fence(0).and_then(|fence| rig.share(&[fence.handle]).map_err(failed("D3DKMTShareObjects")));
    if let Ok(fence) = fence {
        let opened = Buffers::new().by_kernel_handle(&rig, fence);
        refused_open(opened, &[STATUS_OBJECT_TYPE_MISMATCH], "the handle of a fence")?;
        granted(fence.close(), "closing the fence's handle")?;
    }
    granted(close(&rig, &created.open), "the creator's closing")?;
    ensure_eq!(held(case)?, before + 2, "allocations while a kernel handle is there");
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let mut text = [0; 2];
        let mut words = attributes(&name, &mut text);
        let mut named = D3DKMT_OPENNTHANDLEFROMNAME::zeroed();
        (named.dwDesiredAccess, named.pObjAttrib) = (0x1000_0000, words.as_mut_ptr().cast());
        let status = other.kmt.call(other.kmt.further().D3DKMTOpenNtHandleFromName, &mut named);
        granted(status, "D3DKMTOpenNtHandleFromName")?;
        let by_name = KernelHandle(named.hNtHandle.addr());
        let mut sizes = D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE::zeroed();
        (sizes.hDevice, sizes.hNtHandle) = (other.device, by_name.raw());
        let status = other.kmt.call(other.kmt.table().D3DKMTQueryResourceInfoFromNtHandle, &mut sizes);
        granted(status, "D3DKMTQueryResourceInfoFromNtHandle")?;
        ensure_eq!((sizes.NumAllocations, sizes.PrivateRuntimeDataSize), (2, RUNTIME.len() as u32), "what is told");
        let open =
            Buffers::new().by_kernel_handle(&other, by_name).map_err(failed("D3DKMTOpenResourceFromNtHandle"))?;
        granted(by_name.close(), "closing the handle that was opened by name")?;
        check(&other, &open, 0x5555_5500)
    })?;
    ensure_eq!(held(case)?, before + 2, "allocations after the other process is gone");
    let duplicate = case.process.duplicate_handle(handle.raw(), &case.process).map_err(failed("a duplicate"))?;
    granted(handle.close(), "closing the first handle")?;
    ensure_eq!(held(case)?, before + 2, "allocations while a duplicate is there");
    granted(KernelHandle(duplicate.addr()).close(), "closing the duplicate")?;
    are_gone(case, &rig, before)
}

fn refused_open(result: Result<Open, NTSTATUS>, allowed: &[NTSTATUS], what: &str) -> Result<(), Failure> {
    match result {
        Ok(_) => Err(Failure::new(format!("{what} opened a resource"))),
        Err(status) => refused(status, allowed, what),
    }
}

fn usage(rig: &Rig) -> Result<u64, Failure> {
    let mut info = D3DKMT_QUERYVIDEOMEMORYINFO::zeroed();
    info.hAdapter = rig.adapter;
    granted(rig.kmt.call(rig.kmt.table().D3DKMTQueryVideoMemoryInfo, &mut info), "D3DKMTQueryVideoMemoryInfo")?;
    Ok(info.CurrentUsage)
}

fn own_residency(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let created = create(&rig, shared()).map_err(failed("D3DKMTCreateAllocation2"))?;
    let (global, vram) = (created.global, created.open.allocations[1]);
    let own = usage(&rig)?;
    rig.make_resident(vram)?;
    ensure_eq!(usage(&rig)? - own, SIZE, "usage of the creator");
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let before = usage(&other)?;
        let open = opened(&other, global)?;
        let theirs = open.allocations[1];
        ensure_eq!(usage(&other)?, before, "usage before it is resident for this process");
        refused(other.evict(theirs), BAD_ARGUMENT, "evicting what only another device has made resident")?;
        other.make_resident(theirs)?;
        ensure_eq!(usage(&other)? - before, SIZE, "usage of the other process");
        case.on_thread(|| granted(rig.evict(vram), "the creator's eviction"))?;
        let mut queue = other.packet_queue(NODE_COPY)?;
        let address = other.map(other.map_request(theirs, SIZE))?;
        other.packet_execute(&mut queue, &[fill(address, SIZE, 7)])?;
        refused(other.unlock(theirs), BAD_ARGUMENT, "unlocking what is not locked")?;
        case.on_thread(|| rig.lock(vram).map(drop).map_err(failed("the creator's lock")))?;
        refused(other.unlock(theirs), BAD_ARGUMENT, "unlocking what only another device has locked")?;
        Ok(())
    })?;
    ensure_eq!(usage(&rig)?, own, "usage of the creator in the end");
    granted(rig.unlock(vram), "the creator's unlock")?;
    granted(close(&rig, &created.open), "destroying it")
}

/// True if a range of addresses could be taken; it is given back.
fn is_free(rig: &Rig, at: u64) -> bool {
    let mut arguments = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
    arguments.u = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union { hAdapter: rig.adapter };
    (arguments.BaseAddress, arguments.Size) = (at, SIZE);
    let reserved = rig.kmt.call(rig.kmt.table().D3DKMTReserveGpuVirtualAddress, &mut arguments).is_success();
    reserved && rig.free(at, SIZE).is_success()
}

fn mappings_go(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let created = create(&rig, shared()).map_err(failed("D3DKMTCreateAllocation2"))?;
    let mine = usable(&rig, created.open.allocations[1])?;
    let global = created.global;
    case.in_other_process(|system| {
        let rig = Rig::open(system.luid())?;
        let sibling = Rig::on_adapter(rig.kmt, rig.adapter)?;
        let (mut queue, mut sibling_queue) = (rig.packet_queue(NODE_COPY)?, sibling.packet_queue(NODE_COPY)?);
        let (open, other) = (opened(&rig, global)?, opened(&sibling, global)?);
        let (gone, stays) = (usable(&rig, open.allocations[1])?, usable(&sibling, other.allocations[1])?);
        // Work that was handed over before still finds what is closed behind it.
        let fence = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
        granted(rig.context_wait(queue.context, &[(fence.handle, 1)]), "a wait on the GPU")?;
        let work = rig.packet_submit(&mut queue, &[fill(gone.address, SIZE, 0x6666)])?;
        granted(close(&rig, &open), "closing it while work on it waits")?;
        ensure!(!is_free(&rig, gone.address), "what work may still use was unmapped");
        granted(rig.signal(&[fence.handle], &[1]), "letting the work go on")?;
        rig.packet_wait(&queue, work)?;
        // It goes with the next request that gives memory back.
        wait_until("the end of the mapping", || {
            let other = sibling.create(4096, Placement::System);
            other.is_ok_and(|other| sibling.destroy_allocation(other).is_success()) && is_free(&rig, gone.address)
        })?;
        ensure!(!is_free(&sibling, stays.address), "what another device has mapped is gone");
        sibling.packet_execute(&mut sibling_queue, &[fill(stays.address, SIZE, 0x7777)])?;
        let _ = rig.packet_submit(&mut queue, &[fill(gone.address, SIZE, 0x8888)])?;
        let state = wait_for_error(rig.kmt, rig.device)?;
        let fault = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
        ensure_eq!(state, fault, "state after the use of what is unmapped");
        granted(close(&sibling, &other), "closing the second opening")?;
        ensure!(is_free(&sibling, stays.address), "what nobody uses is mapped still");
        Ok(())
    })?;
    let view = rig.view(Memory { handle: mine.handle, address: 0, size: SIZE })?;
    ensure_eq!(view.read(SIZE - 4, 4), 0x7777u32.to_le_bytes(), "what the creator finds in it");
    granted(rig.unlock(mine.handle), "D3DKMTUnlock2")?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    rig.packet_execute(&mut queue, &[fill(mine.address, SIZE, 0x9999)])?;
    granted(close(&rig, &created.open), "destroying it")
}

fn wrong_requests(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for flags in [shared().with_CreateResource(false), shared().with_CreateShared(false).with_NtSecuritySharing(true)] {
        let Err(status) = create(&rig, flags) else { return Err(Failure::new("sharing of no resource")) };
        refused(status, BAD_ARGUMENT, "sharing of no resource")?;
    }
    let private = create(&rig, shared().with_CreateShared(false)).map_err(failed("D3DKMTCreateAllocation2"))?;
    ensure_eq!(private.global, 0, "global handle of a resource that is not shared");
    let Err(status) = rig.share(&[private.open.resource]) else { return Err(Failure::new("it was shared")) };
    refused(status, BAD_ARGUMENT, "sharing a resource that was not created for that")?;
    let created = create(&rig, shared()).map_err(failed("D3DKMTCreateAllocation2"))?;
    let Err(status) = rig.share(&[created.open.resource]) else { return Err(Failure::new("it was shared")) };
    refused(status, BAD_ARGUMENT, "a kernel handle of a resource with a global one")?;
    let (global, handles) = (created.global, case.process.handle_count());
    type Change = fn(&mut D3DKMT_OPENRESOURCE);
    let changes: [(&str, Change); 7] = [
        ("one allocation too few", |args| args.NumAllocations -= 1),
        ("one allocation too many", |args| args.NumAllocations += 1),
        ("no allocations", |args| args.NumAllocations = 0),
        ("less data of the runtime", |args| args.PrivateRuntimeDataSize -= 1),
        ("more data of the resource", |args| args.ResourcePrivateDriverDataSize += 1),
        ("too little space for private data", |args| args.TotalPrivateDriverDataBufferSize -= 1),
        ("the handle of nothing", |args| args.hGlobalShare += 64),
    ];
    for (what, change) in changes {
        refused_open(Buffers::new().by_global(&rig, global, change), BAD_ARGUMENT, what)?;
    }
    let no_device = Buffers::new().by_global(&rig, global, |args| args.hDevice = args.hGlobalShare);
    refused_open(no_device, BAD_HANDLE, "no device")?;
    refused_open(Buffers::new().by_global(&rig, rig.device, |_| ()), BAD_ARGUMENT, "the handle of a device")?;
    let Err(status) = query(&rig, global, &mut [0; 3]) else { return Err(Failure::new("a buffer of 3 bytes")) };
    refused(status, &[STATUS_BUFFER_TOO_SMALL], "too little space for data of the runtime")?;
    ensure_eq!(case.process.handle_count(), handles, "handles after refused openings");
    let both = opened(&rig, global)?;
    granted(close(&rig, &both), "closing it")?;
    granted(close(&rig, &created.open), "destroying it")
}

fn other_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    let [first, second] = rigs(case)?;
    let created = create(&first, shared()).map_err(failed("D3DKMTCreateAllocation2"))?;
    refused_open(Buffers::new().by_global(&second, created.global, |_| ()), BAD_ARGUMENT, "another adapter")?;
    let Err(status) = query(&second, created.global, &mut []) else { return Err(Failure::new("it was described")) };
    refused(status, BAD_ARGUMENT, "a question about a resource of another adapter")?;
    let status = runtime_data(second.kmt, second.adapter, created.global).err().unwrap_or(STATUS_SUCCESS);
    refused(status, BAD_ARGUMENT, "data of a resource of another adapter")?;
    let mut arguments = D3DKMT_GETSHAREDRESOURCEADAPTERLUID::zeroed();
    arguments.hGlobalShare = created.global;
    let status = first.kmt.call(first.kmt.further().D3DKMTGetSharedResourceAdapterLuid, &mut arguments);
    granted(status, "D3DKMTGetSharedResourceAdapterLuid")?;
    ensure_eq!(arguments.AdapterLuid, case.system.luid(), "adapter of the resource");
    granted(close(&first, &created.open), "destroying it")
}
