//! Allocations in the older forms of their thunks: creation, residency, priority, offers and properties.

use std::ffi::c_void;

use campanile_hw::private::{AllocationData, MAGIC, Placement};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::offer::{LOW, NORMAL, offer_with};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE};
use crate::rig::Rig;
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "MemoryForms";
    "MemoryForms.OlderCreationIsTheSame" on Boot::Shared, "d3dkmtcreateallocation":
        "Allocations that are described in the older form are made resident, mapped, locked and destroyed as all others."
        => older_creation;
    "MemoryForms.OlderDestructionTakesResources" on Boot::Shared, "d3dkmtdestroyallocation":
        "The older destruction takes a resource with all its allocations, or a list; handles are stale then."
        => older_destruction;
    "MemoryForms.ResidencyIsTold" on Boot::Shared, "d3dkmt_queryallocationresidency":
        "An allocation is not resident before it was made so, in GPU memory or in shared memory afterwards; a resource is where the worst of its allocations is."
        => residency;
    "MemoryForms.PrioritiesAreKept" on Boot::Shared, "d3dkmt_setallocationpriority":
        "Priorities of lists and resources come back as they were set, also one given at creation; 0 is refused and changes nothing."
        => priorities;
    "MemoryForms.OlderReclaimHasNoFence" on Boot::Shared, "d3dkmtreclaimallocations":
        "What the older thunk reclaims is usable when it returns; what is not offered is refused."
        => older_reclaim;
    "MemoryForms.CommitmentIsTrimmed" on Boot::Shared, "d3dkmt_trimprocesscommitment":
        "System memory that was offered for decommitment is counted, given back on request, and found discarded; another process and another size are refused."
        => commitment;
    "MemoryForms.PropertiesAreWithinTheDrivers" on Boot::Shared, "d3dddi_updateallocproperty":
        "The segments of an allocation can be ordered and taken away among those that the driver allowed, and no others; physical access is not supported."
        => properties;
    "MemoryForms.OlderLockIsTheSame" on Boot::Shared, "d3dkmtlock":
        "D3DKMTLock locks an entire allocation at the address that D3DKMTLock2 gives it, and D3DKMTUnlock ends a lock for each handle of its list. Pages, renaming, swizzling, contradictions and bad handles are refused."
        => older_lock;
    "MemoryForms.OlderUnlockIsAllOrNothing" on Boot::Shared, "d3dkmtunlock":
        "A list of which one allocation is not locked, or of another device, is refused, and nothing of it is unlocked."
        => older_unlock;
}

const SIZE: u64 = 64 << 10;

fn data(rig: &Rig, placement: Placement) -> [u8; AllocationData::SIZE] {
    AllocationData { magic: MAGIC, placement: placement as u32, size: SIZE, adapter: rig.engine, reserved: 0 }
        .to_bytes()
}

/// Creates allocations in the older form: their handles, and that of the resource if one was asked for.
fn create(rig: &Rig, placements: &[Placement], resource: bool) -> Result<(Vec<D3DKMT_HANDLE>, D3DKMT_HANDLE), Failure> {
    let mut private: Vec<_> = placements.iter().map(|placement| data(rig, *placement)).collect();
    let mut infos: Vec<D3DDDI_ALLOCATIONINFO> = private
        .iter_mut()
        .map(|data| {
            let mut info = D3DDDI_ALLOCATIONINFO::zeroed();
            info.pPrivateDriverData = data.as_mut_ptr().cast::<c_void>();
            info.PrivateDriverDataSize = data.len() as u32;
            info
        })
        .collect();
    let mut arguments = D3DKMT_CREATEALLOCATION::zeroed();
    (arguments.hDevice, arguments.NumAllocations) = (rig.device, infos.len() as u32);
    arguments.Flags.set_CreateResource(resource);
    arguments.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo: infos.as_mut_ptr() };
    granted(rig.kmt.call(rig.kmt.further().D3DKMTCreateAllocation, &mut arguments), "D3DKMTCreateAllocation")?;
    ensure_eq!(arguments.hResource != 0, resource, "a resource was made");
    Ok((infos.iter().map(|info| info.hAllocation).collect(), arguments.hResource))
}

fn destroy(rig: &Rig, list: &[D3DKMT_HANDLE], resource: D3DKMT_HANDLE) -> NTSTATUS {
    let mut list = list.to_vec();
    let mut arguments = D3DKMT_DESTROYALLOCATION::zeroed();
    (arguments.hDevice, arguments.hResource, arguments.AllocationCount) = (rig.device, resource, list.len() as u32);
    arguments.phAllocationList = if list.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() };
    rig.kmt.call(rig.kmt.further().D3DKMTDestroyAllocation, &mut arguments)
}

fn older_creation(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (handles, _) = create(&rig, &[Placement::System, Placement::VramVisible], false)?;
    for handle in &handles {
        rig.make_resident(*handle)?;
        let address = rig.map(rig.map_request(*handle, SIZE))?;
        let view = rig.view(crate::rig::Memory { handle: *handle, address, size: SIZE })?;
        view.write(8, b"older");
        ensure_eq!(view.read(8, 5), b"older", "bytes of {handle:#x}");
        granted(rig.unlock(*handle), "the unlock")?;
        granted(rig.free(address, SIZE), "free of the address")?;
    }
    granted(destroy(&rig, &handles, 0), "D3DKMTDestroyAllocation")?;
    refused(destroy(&rig, &handles, 0), BAD_HANDLE, "a second destruction")
}

fn older_destruction(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (handles, resource) = create(&rig, &[Placement::System, Placement::Vram], true)?;
    refused(destroy(&rig, &handles, resource), BAD_ARGUMENT, "a resource together with a list")?;
    granted(destroy(&rig, &handles[..1], 0), "one of two")?;
    granted(destroy(&rig, &[], resource), "the resource with the other")?;
    refused(destroy(&rig, &handles[1..], 0), BAD_HANDLE, "an allocation of a resource that is gone")?;
    refused(destroy(&rig, &[], resource), BAD_HANDLE, "a resource that is gone")
}

/// What the thunk returned, and the first results.
fn query(rig: &Rig, list: &[D3DKMT_HANDLE], resource: D3DKMT_HANDLE) -> (NTSTATUS, Vec<i32>) {
    let mut list = list.to_vec();
    let mut results = vec![D3DKMT_ALLOCATIONRESIDENCYSTATUS(-1); list.len().max(1)];
    let mut arguments = D3DKMT_QUERYALLOCATIONRESIDENCY::zeroed();
    (arguments.hDevice, arguments.hResource, arguments.AllocationCount) = (rig.device, resource, list.len() as u32);
    arguments.phAllocationList = if list.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() };
    arguments.pResidencyStatus = results.as_mut_ptr();
    let status = rig.kmt.call(rig.kmt.further().D3DKMTQueryAllocationResidency, &mut arguments);
    (status, results.iter().map(|result| result.0).collect())
}

fn residency(case: &Case) -> Result<(), Failure> {
    const GPU: i32 = 1;
    const SHARED: i32 = 2;
    const NOWHERE: i32 = 3;
    let rig = case.rig()?;
    let (list, resource) = create(&rig, &[Placement::Vram, Placement::System], true)?;
    ensure_eq!(query(&rig, &list, 0), (STATUS_SUCCESS, vec![NOWHERE, NOWHERE]), "before");
    rig.make_resident(list[0])?;
    ensure_eq!(query(&rig, &list, 0), (STATUS_SUCCESS, vec![GPU, NOWHERE]), "with one of them resident");
    ensure_eq!(query(&rig, &[], resource), (STATUS_SUCCESS, vec![NOWHERE]), "the resource with one of them resident");
    rig.make_resident(list[1])?;
    ensure_eq!(query(&rig, &list, 0), (STATUS_SUCCESS, vec![GPU, SHARED]), "with both resident");
    ensure_eq!(query(&rig, &[], resource), (STATUS_SUCCESS, vec![SHARED]), "the resource with both resident");
    let (status, results) = query(&rig, &list, resource);
    refused(status, BAD_ARGUMENT, "a resource together with a list")?;
    ensure_eq!(results, vec![-1, -1], "results of a refused call");
    refused(query(&rig, &[], 0).0, BAD_ARGUMENT, "an empty list")?;
    refused(query(&rig, &[list[0], rig.device], 0).0, BAD_HANDLE, "a list with a device in it")
}

fn set(rig: &Rig, list: &[D3DKMT_HANDLE], resource: D3DKMT_HANDLE, priorities: &[u32]) -> NTSTATUS {
    let (mut list, mut priorities) = (list.to_vec(), priorities.to_vec());
    let mut arguments = D3DKMT_SETALLOCATIONPRIORITY::zeroed();
    (arguments.hDevice, arguments.hResource, arguments.AllocationCount) = (rig.device, resource, list.len() as u32);
    arguments.phAllocationList = if list.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() };
    arguments.pPriorities = priorities.as_mut_ptr();
    rig.kmt.call(rig.kmt.further().D3DKMTSetAllocationPriority, &mut arguments)
}

fn get(rig: &Rig, list: &[D3DKMT_HANDLE], resource: D3DKMT_HANDLE) -> Result<Vec<u32>, Failure> {
    let mut list = list.to_vec();
    let mut priorities = vec![0; list.len().max(1)];
    let mut arguments = D3DKMT_GETALLOCATIONPRIORITY::zeroed();
    (arguments.hDevice, arguments.hResource, arguments.AllocationCount) = (rig.device, resource, list.len() as u32);
    arguments.phAllocationList = if list.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() };
    arguments.pPriorities = priorities.as_mut_ptr();
    let status = rig.kmt.call(rig.kmt.further().D3DKMTGetAllocationPriority, &mut arguments);
    granted(status, "D3DKMTGetAllocationPriority")?;
    Ok(priorities)
}

fn priorities(case: &Case) -> Result<(), Failure> {
    const LOWEST: u32 = 0x2800_0000;
    const HIGHEST: u32 = 0xc800_0000;
    let rig = case.rig()?;
    let (list, resource) = create(&rig, &[Placement::System, Placement::Vram], true)?;
    ensure!(!get(&rig, &list, 0)?.contains(&0), "a priority of 0 at first");
    granted(set(&rig, &list, 0, &[LOWEST, HIGHEST]), "two priorities")?;
    ensure_eq!(get(&rig, &list, 0)?, vec![LOWEST, HIGHEST], "priorities of the list");
    refused(set(&rig, &list, 0, &[HIGHEST, 0]), BAD_ARGUMENT, "a priority of 0")?;
    ensure_eq!(get(&rig, &list, 0)?, vec![LOWEST, HIGHEST], "priorities after the refusal");
    granted(set(&rig, &[], resource, &[0x5000_0000]), "one priority for the resource")?;
    ensure_eq!(get(&rig, &list, 0)?, vec![0x5000_0000; 2], "priorities after that");
    ensure_eq!(get(&rig, &[], resource)?, vec![0x5000_0000], "priority of the resource");
    refused(set(&rig, &list, resource, &[LOWEST, LOWEST]), BAD_ARGUMENT, "a resource together with a list")?;
    // Given at creation.
    let mut private = data(&rig, Placement::System);
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    (info.pPrivateDriverData, info.PrivateDriverDataSize) = (private.as_mut_ptr().cast(), private.len() as u32);
    info.Flags.set_OverridePriority(true);
    info.u1 = D3DDDI_ALLOCATIONINFO2_Union1 { Priority: HIGHEST };
    let mut arguments = D3DKMT_CREATEALLOCATION::zeroed();
    (arguments.hDevice, arguments.NumAllocations) = (rig.device, 1);
    arguments.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: &mut info };
    granted(rig.kmt.call(rig.kmt.table().D3DKMTCreateAllocation2, &mut arguments), "D3DKMTCreateAllocation2")?;
    ensure_eq!(get(&rig, &[info.hAllocation], 0)?, vec![HIGHEST], "priority given at creation");
    Ok(())
}

fn reclaim(rig: &Rig, list: &[D3DKMT_HANDLE]) -> (NTSTATUS, Vec<i32>) {
    let (mut list, mut discarded) = (list.to_vec(), vec![-1; list.len()]);
    let mut arguments = D3DKMT_RECLAIMALLOCATIONS::zeroed();
    (arguments.hDevice, arguments.NumAllocations) = (rig.device, list.len() as u32);
    (arguments.HandleList, arguments.pDiscarded) = (list.as_mut_ptr(), discarded.as_mut_ptr());
    (rig.kmt.call(rig.kmt.further().D3DKMTReclaimAllocations, &mut arguments), discarded)
}

fn older_reclaim(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let view = rig.view(memory)?;
    view.write(0, b"kept");
    granted(rig.unlock(memory.handle), "the unlock")?;
    refused(reclaim(&rig, &[memory.handle]).0, BAD_ARGUMENT, "reclaiming what is not offered")?;
    let status = offer_with(&rig, &[memory.handle], NORMAL, D3DKMT_OFFER_FLAGS::new());
    granted(status, "D3DKMTOfferAllocations")?;
    ensure_eq!(reclaim(&rig, &[memory.handle]), (STATUS_SUCCESS, vec![0]), "the reclaim");
    ensure_eq!(rig.view(memory)?.read(0, 4), b"kept", "contents after it");
    Ok(())
}

fn current() -> *mut c_void {
    std::ptr::without_provenance_mut(usize::MAX)
}

fn offered_bytes(rig: &Rig) -> Result<u64, Failure> {
    let mut info = D3DKMT_QUERYPROCESSOFFERINFO::zeroed();
    (info.cbSize, info.hProcess) = (size_of::<D3DKMT_QUERYPROCESSOFFERINFO>() as u32, current());
    granted(rig.kmt.call(rig.kmt.further().D3DKMTQueryProcessOfferInfo, &mut info), "D3DKMTQueryProcessOfferInfo")?;
    Ok(info.DecommittableBytes)
}

fn commitment(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let trim = |requested: u64, size: usize, process: *mut c_void| {
        let mut arguments = D3DKMT_TRIMPROCESSCOMMITMENT::zeroed();
        (arguments.cbSize, arguments.hProcess, arguments.DecommitRequested) = (size as u32, process, requested);
        (rig.kmt.call(rig.kmt.further().D3DKMTTrimProcessCommitment, &mut arguments), arguments.NumBytesDecommitted)
    };
    let size = size_of::<D3DKMT_TRIMPROCESSCOMMITMENT>();
    let before = offered_bytes(&rig)?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let kept = rig.memory(SIZE, Placement::System)?;
    let decommit = D3DKMT_OFFER_FLAGS::new().with_OfferImmediately(true).with_AllowDecommit(true);
    granted(offer_with(&rig, &[memory.handle], LOW, decommit), "an offer for decommitment")?;
    let immediately = D3DKMT_OFFER_FLAGS::new().with_OfferImmediately(true);
    granted(offer_with(&rig, &[kept.handle], LOW, immediately), "an offer of other memory")?;
    ensure_eq!(offered_bytes(&rig)? - before, SIZE, "bytes offered for decommitment");
    refused(trim(0, size, std::ptr::null_mut()).0, BAD_HANDLE, "trimming no process")?;
    refused(trim(0, size - 1, current()).0, BAD_ARGUMENT, "a structure of another size")?;
    let (status, given) = trim(0, size, current());
    granted(status, "D3DKMTTrimProcessCommitment")?;
    ensure!(given >= SIZE, "{given} bytes were given back");
    ensure_eq!(offered_bytes(&rig)?, 0, "bytes offered afterwards");
    ensure_eq!(reclaim(&rig, &[memory.handle, kept.handle]), (STATUS_SUCCESS, vec![1, 0]), "what was discarded");
    Ok(())
}

fn properties(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let handle =
        rig.create(SIZE, Placement::Vram).map_err(|status| Failure::new(format!("an allocation: {status}")))?;
    let update = |change: &dyn Fn(&mut D3DDDI_UPDATEALLOCPROPERTY)| {
        let mut arguments = D3DDDI_UPDATEALLOCPROPERTY::zeroed();
        (arguments.hPagingQueue, arguments.hAllocation, arguments.PagingFenceValue) = (rig.paging_queue, handle, 77);
        change(&mut arguments);
        (rig.kmt.call(rig.kmt.further().D3DKMTUpdateAllocationProperty, &mut arguments), arguments.PagingFenceValue)
    };
    let set = |segments: u32| {
        move |arguments: &mut D3DDDI_UPDATEALLOCPROPERTY| {
            arguments.SupportedSegmentSet = segments;
            arguments.bits.set_SetSupportedSegmentSet(true);
        }
    };
    granted(update(&|_| ()).0, "a change of nothing")?;
    for (what, segments) in [("no segment", 0), ("a segment that there is not", 1 << 30), ("every segment", u32::MAX)] {
        refused(update(&set(segments)).0, BAD_ARGUMENT, what)?;
    }
    let one = (0..32).map(|bit| 1u32 << bit).find(|one| update(&set(*one)).0.is_success());
    let one = one.ok_or_else(|| Failure::new("no single segment is allowed"))?;
    rig.make_resident(handle)?;
    ensure_eq!(update(&set(one)), (STATUS_SUCCESS, 0), "the set that it has");
    let elsewhere = |arguments: &mut D3DDDI_UPDATEALLOCPROPERTY| {
        set(one)(arguments);
        arguments.PreferredSegment.set_SegmentId0(31);
        arguments.bits.set_SetPreferredSegment(true);
    };
    refused(update(&elsewhere).0, BAD_ARGUMENT, "a preference outside the set")?;
    let physical = |arguments: &mut D3DDDI_UPDATEALLOCPROPERTY| {
        arguments.Flags.set_AccessedPhysically(true);
        arguments.bits.set_SetAccessedPhysically(true);
    };
    refused(update(&physical).0, &[STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER], "physical access")?;
    ensure_eq!(query(&rig, &[handle], 0).1, vec![1], "where it is afterwards");
    Ok(())
}

/// Changes a request that D3DKMTLock would grant without the change.
type Change<'a> = &'a dyn Fn(&mut D3DKMT_LOCK);

/// Calls D3DKMTLock; the status and the address.
fn lock_with(rig: &Rig, handle: D3DKMT_HANDLE, change: impl FnOnce(&mut D3DKMT_LOCK)) -> (NTSTATUS, *mut c_void) {
    let mut arguments = D3DKMT_LOCK::zeroed();
    (arguments.hDevice, arguments.hAllocation) = (rig.device, handle);
    arguments.Flags = D3DDDICB_LOCKFLAGS::new().with_LockEntire(true);
    change(&mut arguments);
    (rig.kmt.call(rig.kmt.further().D3DKMTLock, &mut arguments), arguments.pData)
}

/// Calls D3DKMTUnlock; the status.
fn unlock_all(rig: &Rig, handles: &[D3DKMT_HANDLE]) -> NTSTATUS {
    let mut handles = handles.to_vec();
    let mut arguments = D3DKMT_UNLOCK {
        hDevice: rig.device,
        NumAllocations: handles.len() as u32,
        phAllocations: handles.as_mut_ptr(),
    };
    rig.kmt.call(rig.kmt.further().D3DKMTUnlock, &mut arguments)
}

fn older_lock(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = [rig.memory(SIZE, Placement::System)?, rig.memory(SIZE, Placement::VramLockable)?];
    let handles = memory.map(|memory| memory.handle);
    for handle in handles {
        let flags = D3DDDICB_LOCKFLAGS::new().with_LockEntire(true);
        for flags in [flags, flags.with_ReadOnly(true), flags.with_WriteOnly(true)] {
            let (status, at) = lock_with(&rig, handle, |arguments| arguments.Flags = flags);
            granted(status, "D3DKMTLock")?;
            let newer = rig.lock(handle).map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
            ensure_eq!(at, newer.as_ptr().cast(), "address of an allocation that is locked twice");
            // SAFETY: the allocation is locked and has bytes there.
            unsafe { newer.write_volatile(0x5a) };
            granted(unlock_all(&rig, &[handle, handle]), "D3DKMTUnlock of both locks")?;
            refused(rig.unlock(handle), BAD_ARGUMENT, "a third unlock")?;
        }
    }
    for handle in handles {
        granted(lock_with(&rig, handle, |_| ()).0, "D3DKMTLock")?;
    }
    granted(unlock_all(&rig, &handles), "D3DKMTUnlock of both allocations")?;
    let entire = D3DDDICB_LOCKFLAGS::new().with_LockEntire(true);
    let page = [0u32];
    let wrong: [(&str, Change<'_>); 7] = [
        ("nothing that says what is locked", &|arguments| arguments.Flags = D3DDDICB_LOCKFLAGS::new()),
        ("a page list", &|arguments| {
            (arguments.NumPages, arguments.pPages) = (1, page.as_ptr().cast_mut());
            arguments.Flags = D3DDDICB_LOCKFLAGS::new();
        }),
        ("a page list beside everything", &|arguments| {
            (arguments.NumPages, arguments.pPages) = (1, page.as_ptr().cast_mut());
        }),
        ("renaming", &|arguments| arguments.Flags = entire.with_Discard(true)),
        ("swizzling", &|arguments| arguments.Flags = entire.with_AcquireAperture(true)),
        ("reading only and writing only", &|arguments| {
            arguments.Flags = entire.with_ReadOnly(true).with_WriteOnly(true);
        }),
        ("a flag that there is not", &|arguments| {
            arguments.Flags = D3DDDICB_LOCKFLAGS::from_bits(entire.into_bits() | 1 << 20);
        }),
    ];
    for (what, change) in wrong {
        let (status, at) = lock_with(&rig, handles[0], change);
        refused(status, BAD_ARGUMENT, what)?;
        ensure!(at.is_null(), "{what}: a refused lock gave an address");
    }
    refused(lock_with(&rig, rig.device, |_| ()).0, BAD_HANDLE, "D3DKMTLock of a device")?;
    refused(
        lock_with(&rig, handles[0], |arguments| arguments.hDevice = 0).0,
        BAD_HANDLE,
        "D3DKMTLock without a device",
    )?;
    refused(rig.unlock(handles[0]), BAD_ARGUMENT, "unlocking what was never locked")
}

fn older_unlock(case: &Case) -> Result<(), Failure> {
    let (rig, other) = (case.rig()?, case.rig()?);
    let locked = rig.memory(SIZE, Placement::System)?.handle;
    let never = rig.memory(SIZE, Placement::System)?.handle;
    let elsewhere = other.memory(SIZE, Placement::System)?.handle;
    granted(lock_with(&rig, locked, |_| ()).0, "D3DKMTLock")?;
    granted(lock_with(&other, elsewhere, |_| ()).0, "D3DKMTLock of another device")?;
    for (what, list) in [
        ("one that is not locked", &[locked, never][..]),
        ("one that is locked once, twice", &[locked, locked]),
        ("one of another device", &[locked, elsewhere]),
        ("nothing", &[]),
    ] {
        refused(unlock_all(&rig, list), BAD_ARGUMENT, what)?;
    }
    refused(unlock_all(&rig, &[locked, 0]), BAD_HANDLE, "no allocation")?;
    granted(unlock_all(&rig, &[locked]), "unlocking what is locked still")?;
    granted(unlock_all(&other, &[elsewhere]), "unlocking what is locked elsewhere")
}
