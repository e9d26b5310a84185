//! Thunks about where allocations are, how dear they are to the process, and what a process offers back as a whole.

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidmm::{Allocation, ResidencyStatus};
use crate::vidsch::Device;

use super::adapter::check_running;
use super::call::{enter, enter_read_only};
use super::memory::{allocations, lock_entire, read_handles, unlock_each};
use super::{process, user};

/// What a request names: a list of allocations, or a resource with all of its own. The flag says that it is a resource.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a resource together with a list, for an empty list, and for what is of another device.
fn named(
    process: &Process,
    device: &Device,
    resource: D3DKMT_HANDLE,
    (list, count): (*mut D3DKMT_HANDLE, u32),
) -> Result<(Vec<Arc<Allocation>>, bool), Failure> {
    if resource == 0 {
        let handles = read_handles(list.cast_const(), count)?;
        return Ok((allocations(process, device, &handles)?, false));
    }
    let resource = process.get_resource(resource)?;
    if count != 0 || !list.is_null() || resource.device() != device.id() {
        let why = "AllocationCount or phAllocationList is given beside hResource, or the resource is of another device";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    // Members that were destroyed one by one have stale handles by now.
    let alive = resource.members().into_iter().filter(|handle| process.get_allocation(*handle).is_ok());
    Ok((allocations(process, device, &alive.collect::<Vec<_>>())?, true))
}

/// Where each allocation of a list is, or the worst place of those of a resource. An allocation is resident while the GPU finds it, also after
/// an Evict that nobody needed its memory for. [d3dkmthk: D3DKMT_QUERYALLOCATIONRESIDENCY]
pub(super) unsafe extern "win64" fn query_allocation_residency(args: *mut D3DKMT_QUERYALLOCATIONRESIDENCY) -> NTSTATUS {
    enter_read_only("D3DKMTQueryAllocationResidency", args, |process, args| {
        use D3DKMT_ALLOCATIONRESIDENCYSTATUS as Status;
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let (list, together) = named(process, &device, args.hResource, (args.phAllocationList, args.AllocationCount))?;
        let vidmm = device.adapter.vidmm();
        let mut places: Vec<ResidencyStatus> =
            list.iter().map(|allocation| vidmm.residency_status(allocation)).collect();
        if together {
            places = vec![places.into_iter().max().unwrap_or(ResidencyStatus::NotResident)];
        }
        let told = places.iter().map(|place| match place {
            ResidencyStatus::GpuMemory => Status::D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY,
            ResidencyStatus::SharedMemory => Status::D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY,
            ResidencyStatus::NotResident => Status::D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT,
        });
        let told: Vec<u32> = told.map(|status| status.0.cast_unsigned()).collect();
        user::write_array(args.pResidencyStatus.cast(), &told)?;
        Ok(STATUS_SUCCESS)
    })
}

/// One priority for each allocation of a list, or one for all of a resource. What has a lower priority leaves memory earlier. Any number but 0 is
/// a priority; the named ones are five of them. [d3dkmthk: D3DKMT_SETALLOCATIONPRIORITY]
pub(super) unsafe extern "win64" fn set_allocation_priority(args: *mut D3DKMT_SETALLOCATIONPRIORITY) -> NTSTATUS {
    enter_read_only("D3DKMTSetAllocationPriority", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let (list, together) = named(process, &device, args.hResource, (args.phAllocationList, args.AllocationCount))?;
        let count = if together { 1 } else { args.AllocationCount };
        let mut priorities = user::read_array(args.pPriorities.cast_const(), count)?;
        if priorities.contains(&0) {
            return Err(refused(STATUS_INVALID_PARAMETER, "pPriorities has a priority of 0"));
        }
        if let (true, Some(first)) = (together, priorities.first().copied()) {
            priorities.resize(list.len(), first);
        }
        for (allocation, priority) in list.iter().zip(priorities) {
            device.adapter.vidmm().set_priority(allocation, priority);
        }
        Ok(STATUS_SUCCESS)
    })
}

/// The priority of each allocation of a list, or the highest of those of a resource, which are one unless somebody named them singly.
/// [d3dkmthk: D3DKMT_GETALLOCATIONPRIORITY]
pub(super) unsafe extern "win64" fn get_allocation_priority(args: *mut D3DKMT_GETALLOCATIONPRIORITY) -> NTSTATUS {
    enter_read_only("D3DKMTGetAllocationPriority", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let (list, together) = named(process, &device, args.hResource, (args.phAllocationList, args.AllocationCount))?;
        let priorities: Result<Vec<u32>, Failure> =
            list.iter().map(|allocation| Ok(device.adapter.vidmm().priority(allocation)?)).collect();
        let mut priorities = priorities?;
        if together {
            let why = "hResource has no allocation any more";
            priorities = vec![priorities.into_iter().max().ok_or_else(|| refused(STATUS_INVALID_PARAMETER, why))?];
        }
        user::write_array(args.pPriorities, &priorities)?;
        Ok(STATUS_SUCCESS)
    })
}

/// # Errors
/// STATUS_INVALID_PARAMETER for a structure of another size.
fn check_size<T>(size: u32) -> Result<(), Failure> {
    let whole = size_of::<T>();
    let why = || format!("cbSize is {size}, and expected is {whole}");
    if size as usize == whole { Ok(()) } else { Err(refused(STATUS_INVALID_PARAMETER, why())) }
}

/// Takes what the process has offered for decommitment, the cheapest first, until `DecommitRequested` bytes are given back, or all for 0.
/// `OnlyRepurposed` and `Lazy` leave alone what still has its contents. [d3dkmthk: D3DKMTTrimProcessCommitment]
pub(super) unsafe extern "win64" fn trim_process_commitment(args: *mut D3DKMT_TRIMPROCESSCOMMITMENT) -> NTSTATUS {
    enter("D3DKMTTrimProcessCommitment", args, |process, args| {
        check_size::<D3DKMT_TRIMPROCESSCOMMITMENT>(args.cbSize)?;
        let known = D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS::new().with_Lazy(true).with_OnlyRepurposed(true).into_bits();
        if args.Flags.into_bits() & !known != 0 {
            return Err(refused(STATUS_INVALID_PARAMETER, "Flags has more than Lazy and OnlyRepurposed"));
        }
        args.NumBytesDecommitted = 0;
        if args.Flags.into_bits() != 0 {
            return Ok(STATUS_SUCCESS);
        }
        let wanted = if args.DecommitRequested == 0 { u64::MAX } else { args.DecommitRequested };
        process::with(process, args.hProcess, PROCESS_SET_QUOTA, |process| {
            for known in process.known_adapters() {
                let left = wanted.saturating_sub(args.NumBytesDecommitted);
                if left == 0 {
                    break;
                }
                args.NumBytesDecommitted += known.adapter.vidmm().decommit(&known.space, left)?;
            }
            Ok(STATUS_SUCCESS)
        })
    })
}

/// Bytes of system memory that [`trim_process_commitment`] would give back. [d3dkmthk: D3DKMTQueryProcessOfferInfo]
pub(super) unsafe extern "win64" fn query_process_offer_info(args: *mut D3DKMT_QUERYPROCESSOFFERINFO) -> NTSTATUS {
    enter("D3DKMTQueryProcessOfferInfo", args, |process, args| {
        check_size::<D3DKMT_QUERYPROCESSOFFERINFO>(args.cbSize)?;
        let known =
            process::with(process, args.hProcess, PROCESS_QUERY_INFORMATION, |process| Ok(process.known_adapters()))?;
        let (bytes, uniqueness) = known.iter().fold((0u64, 0u64), |(bytes, uniqueness), known| {
            let (more, at) = known.adapter.vidmm().decommittable(&known.space);
            (bytes.saturating_add(more), uniqueness.max(at))
        });
        (args.DecommittableBytes, args.DecommitUniqueness) = (bytes, uniqueness);
        Ok(STATUS_SUCCESS)
    })
}

/// Changes the segments in which an allocation may be, and the order in which they are tried from now on. An allocation that is somewhere stays
/// there until it leaves for another reason, so that the answer is always STATUS_SUCCESS with value 0.
///
/// Errors: STATUS_INVALID_PARAMETER for a segment that the driver did not allow, an empty set, and a preference outside the set;
/// STATUS_GRAPHICS_ALLOCATION_BUSY for a set without the segment where the allocation is; STATUS_NOT_SUPPORTED for allocations that are accessed
/// physically or may not move, which this memory manager has none of. Nothing is changed then. [d3dukmdt: D3DDDI_UPDATEALLOCPROPERTY]
pub(super) unsafe extern "win64" fn update_allocation_property(args: *mut D3DDDI_UPDATEALLOCPROPERTY) -> NTSTATUS {
    enter("D3DKMTUpdateAllocationProperty", args, |process, args| {
        let queue = process.get_paging_queue(args.hPagingQueue)?;
        let device = queue.device();
        device.check()?;
        let wanted = args.bits;
        let known = D3DDDI_UPDATEALLOCPROPERTY_FLAGS::new().with_AccessedPhysically(true).with_Unmoveable(true);
        if wanted.into_bits() >> 4 != 0 || args.Flags.into_bits() & !known.into_bits() != 0 {
            let (mask, flags) = (wanted.into_bits(), args.Flags.into_bits());
            let why = format!("PropertyMaskValue is {mask:#x} and Flags {flags:#x}, in which a reserved bit is set");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let list = allocations(process, device, &[args.hAllocation])?;
        let allocation = list.first().ok_or(STATUS_INTERNAL_ERROR)?;
        if wanted.SetAccessedPhysically() && args.Flags.AccessedPhysically()
            || wanted.SetUnmoveable() && args.Flags.Unmoveable()
        {
            let why = "Flags.AccessedPhysically or Flags.Unmoveable is to be set, and every allocation is accessed by page tables and moves";
            return Err(refused(STATUS_NOT_SUPPORTED, why));
        }
        let set = wanted.SetSupportedSegmentSet().then_some(args.SupportedSegmentSet);
        let preferred = wanted.SetPreferredSegment().then_some(args.PreferredSegment);
        device.adapter.vidmm().update_property(allocation, set, preferred)?;
        args.PagingFenceValue = 0;
        Ok(STATUS_SUCCESS)
    })
}

/// Waits until no move of memory is under way. [d3dkmthk: D3DKMTFlushHeapTransitions]
pub(super) unsafe extern "win64" fn flush_heap_transitions(args: *mut D3DKMT_FLUSHHEAPTRANSITIONS) -> NTSTATUS {
    enter_read_only("D3DKMTFlushHeapTransitions", args, |process, args| {
        let adapter = &process.get_adapter(args.hAdapter)?.adapter;
        check_running(adapter)?;
        adapter.vidmm().finish_paging();
        Ok(STATUS_SUCCESS)
    })
}

/// As D3DKMTLock2, for the example of the page: an entire allocation without a list of pages. That it is only read or only written is a hint, and the
/// private data is for a swizzling range, which there is none of. Errors: STATUS_INVALID_PARAMETER for a part of an allocation, for both hints together,
/// and for what a memory manager does that knows what uses an allocation or has the driver rename and unswizzle it: on an adapter of GPU virtual addresses
/// only user mode knows. [d3dkmthk: D3DKMTLock; d3dukmdt: D3DDDICB_LOCKFLAGS]
pub(super) unsafe extern "win64" fn lock(args: *mut D3DKMT_LOCK) -> NTSTATUS {
    enter("D3DKMTLock", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        let flags = args.Flags;
        let known = D3DDDICB_LOCKFLAGS::new().with_LockEntire(true).with_ReadOnly(true).with_WriteOnly(true);
        if flags.into_bits() & !known.into_bits() != 0
            || !flags.LockEntire()
            || flags.ReadOnly() && flags.WriteOnly()
            || args.NumPages != 0
        {
            let why = format!(
                "Flags is {:#x}, and expected are LockEntire and at most one of ReadOnly and WriteOnly; NumPages is {}, and expected is 0",
                flags.into_bits(),
                args.NumPages
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        args.pData = lock_entire(process, args.hDevice, args.hAllocation)?;
        Ok(STATUS_SUCCESS)
    })
}

/// As D3DKMTUnlock2, for each allocation of a list, which are all of the device. All or none. [d3dkmthk: D3DKMTUnlock]
pub(super) unsafe extern "win64" fn unlock(args: *mut D3DKMT_UNLOCK) -> NTSTATUS {
    enter_read_only("D3DKMTUnlock", args, |process, args| {
        let handles = read_handles(args.phAllocations.cast_const(), args.NumAllocations)?;
        unlock_each(process, args.hDevice, &handles)?;
        Ok(STATUS_SUCCESS)
    })
}
