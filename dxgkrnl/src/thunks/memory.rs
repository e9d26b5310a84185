//! Thunks of paging queues, allocations, residency, GPU virtual addresses and CPU locks.

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::fence::Rights;
use crate::paging_queue::PagingQueue;
use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};
use crate::vidmm::{Allocation, IdlePoint, MapRequest, REGION_ALIGN, Shows};
use crate::vidsch::{Device, FenceOptions};

use super::call::{enter, enter_read_only};
use super::{power, user};

/// Most allocations of one request.
pub(super) const LIST_MAX: u32 = 4096;

/// [d3dkmthk: D3DKMTCreatePagingQueue]
pub(super) unsafe extern "win64" fn create_paging_queue(args: *mut D3DKMT_CREATEPAGINGQUEUE) -> NTSTATUS {
    enter("D3DKMTCreatePagingQueue", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let engine = args.PhysicalAdapterIndex;
        if engine >= device.adapter.caps().engines || !(-1..=1).contains(&args.Priority.0) {
            let why = format!(
                "PhysicalAdapterIndex is {engine}, and expected is less than {}, or Priority is {}, and expected is -1 to 1",
                device.adapter.caps().engines,
                args.Priority.0
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        // The program gets an address for reading by the processor and none for engines, whose commands could take a value back. [d3dkmthk: D3DKMT_CREATEPAGINGQUEUE]
        let rights = Rights { gpu: false, ..Rights::ALL };
        let options = FenceOptions { of_queue: true, rights, ..FenceOptions::default() };
        let fence = device.adapter.vidsch().create_monitored_fence(&device, options)?;
        let address = fence.user_address();
        let fence_handle =
            process.insert_on(&device, Object::Sync(Arc::clone(&fence))).inspect_err(|_| fence.destroy())?;
        let made = PagingQueue::new(&device, engine, fence, fence_handle).map_err(Failure::from).and_then(|queue| {
            process.insert_on(&device, Object::PagingQueue(Arc::clone(&queue))).inspect_err(|_| queue.destroy())
        });
        match made {
            Ok(handle) => {
                args.hPagingQueue = handle;
                args.hSyncObject = fence_handle;
                args.FenceValueCPUVirtualAddress = core::ptr::with_exposed_provenance_mut(address);
                Ok(STATUS_SUCCESS)
            }
            Err(failure) => {
                end(process, fence_handle);
                Err(failure)
            }
        }
    })
}

/// Takes an object that was just made out again.
fn end(process: &Process, handle: D3DKMT_HANDLE) {
    if let Ok(object) = process.remove(handle) {
        object.destroy();
    }
}

/// [d3dkmthk: D3DKMTDestroyPagingQueue]
pub(super) unsafe extern "win64" fn destroy_paging_queue(args: *mut D3DDDI_DESTROYPAGINGQUEUE) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyPagingQueue", args, |process, args| {
        let taken = process.take_if(args.hPagingQueue, |object| matches!(object, Object::PagingQueue(_)))?;
        if let Object::PagingQueue(queue) = &taken.object {
            queue.destroy();
            end(process, queue.fence_handle());
        }
        Ok(STATUS_SUCCESS)
    })
}

/// The allocations behind a list of handles, all of one device.
pub(super) fn allocations(
    process: &Process,
    device: &Device,
    handles: &[D3DKMT_HANDLE],
) -> Result<Vec<Arc<Allocation>>, Failure> {
    let one = |handle: &D3DKMT_HANDLE| {
        let allocation = process.get_allocation(*handle)?;
        let foreign = || refused(STATUS_INVALID_PARAMETER, format!("allocation {handle:#x} is of another device"));
        if allocation.device() == device.id() { Ok(allocation) } else { Err(foreign()) }
    };
    handles.iter().map(one).collect()
}

pub(super) fn read_handles(at: *const D3DKMT_HANDLE, count: u32) -> Result<Vec<D3DKMT_HANDLE>, Failure> {
    if count == 0 || count > LIST_MAX {
        let why = format!("a list has {count} allocations, and expected are 1 to {LIST_MAX}");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    user::read_array(at, count)
}

pub(super) fn has_duplicates(handles: &[D3DKMT_HANDLE]) -> bool {
    let mut sorted = handles.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair.first() == pair.last())
}

/// All or none; without enough memory the device is told by how much it is over its budget, and with MustSucceed it is lost. STATUS_PENDING with the value of the paging queue's fence at which the contents may be used; STATUS_SUCCESS with value 0 when
/// they may be used at once. [d3dkmthk: D3DKMTMakeResident]
pub(super) unsafe extern "win64" fn make_resident(args: *mut D3DDDI_MAKERESIDENT) -> NTSTATUS {
    enter("D3DKMTMakeResident", args, |process, args| {
        let queue = process.get_paging_queue(args.hPagingQueue)?;
        let device = queue.device();
        device.check()?;
        let known = D3DDDI_MAKERESIDENT_FLAGS::new().with_CantTrimFurther(true).with_MustSucceed(true).into_bits();
        let flags = args.Flags;
        // Only a process that has given back everything else may insist.
        if flags.into_bits() & !known != 0 || (flags.MustSucceed() && !flags.CantTrimFurther()) {
            let why = "Flags has more than CantTrimFurther and MustSucceed, or MustSucceed without CantTrimFurther";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let handles = read_handles(args.AllocationList, args.NumAllocations)?;
        if !args.PriorityList.is_null() {
            let priorities = user::read_array(args.PriorityList.cast_const(), args.NumAllocations)?;
            if priorities.contains(&0) {
                return Err(refused(STATUS_INVALID_PARAMETER, "PriorityList has a priority of 0"));
            }
        }
        let list = allocations(process, device, &handles)?;
        (args.PagingFenceValue, args.NumBytesToTrim) = (0, 0);
        match device.adapter.vidmm().make_resident(&queue, &list, flags.CantTrimFurther()) {
            Ok(0) => Ok(STATUS_SUCCESS),
            Ok(value) => {
                args.PagingFenceValue = value;
                Ok(STATUS_PENDING)
            }
            Err((status, missing)) => {
                (args.NumAllocations, args.NumBytesToTrim) = (0, missing);
                if flags.MustSucceed() {
                    device.adapter.vidsch().starve_device(device);
                }
                Err(match status {
                    STATUS_INVALID_PARAMETER => refused(status, "an allocation of AllocationList is offered"),
                    STATUS_NO_MEMORY => refused(status, format!("NumBytesToTrim is {missing:#x}: so much is missing")),
                    _ => status.into(),
                })
            }
        }
    })
}

/// All or none. [d3dkmthk: D3DKMTEvict]
pub(super) unsafe extern "win64" fn evict(args: *mut D3DKMT_EVICT) -> NTSTATUS {
    enter("D3DKMTEvict", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        let known = D3DDDI_EVICT_FLAGS::new().with_EvictOnlyIfNecessary(true).with_NotWrittenTo(true).into_bits();
        if args.Flags.into_bits() & !known != 0 {
            let why = "Flags has more than EvictOnlyIfNecessary and NotWrittenTo";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let handles = read_handles(args.AllocationList, args.NumAllocations)?;
        let list = allocations(process, &device, &handles)?;
        let idle: IdlePoint = device.idle_point();
        args.NumBytesToTrim = device.adapter.vidmm().evict_allocations(&list, &idle)?;
        Ok(STATUS_SUCCESS)
    })
}

/// Regions are whole multiples of 64 KiB. The first handle names a paging queue, or an adapter. [d3dkmthk: D3DKMTReserveGpuVirtualAddress]
pub(super) unsafe extern "win64" fn reserve_gpu_virtual_address(
    args: *mut D3DDDI_RESERVEGPUVIRTUALADDRESS,
) -> NTSTATUS {
    enter("D3DKMTReserveGpuVirtualAddress", args, |process, args| {
        use D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE as Kind;
        // SAFETY: both arms of the union are 32-bit numbers.
        let kind = unsafe { args.u1.ReservationType };
        let zero = match kind {
            Kind::D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS | Kind::D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT => false,
            Kind::D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO => true,
            other => return Err(refused(STATUS_INVALID_PARAMETER, format!("ReservationType is {}", other.0))),
        };
        // SAFETY: both arms of the union are handles.
        let owner = unsafe { args.u.hAdapter };
        // Zeros are written to page tables, which the first use of an adapter makes.
        let _powered = power::where_needed(process, || zero || process.get_paging_queue(owner).is_err());
        let place = match process.get_paging_queue(owner) {
            Ok(queue) => {
                queue.device().check()?;
                Arc::clone(&queue.device().process)
            }
            Err(_) => process.on_adapter(&process.get_adapter(owner)?.adapter)?,
        };
        if !args.Size.is_multiple_of(REGION_ALIGN) {
            let why = format!("Size is {:#x}, which is no multiple of {REGION_ALIGN:#x}", args.Size);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        args.VirtualAddress = place.adapter.vidmm().reserve_gpu_address(
            &place.space,
            args.BaseAddress,
            args.MinimumAddress,
            args.MaximumAddress,
            args.Size,
            zero,
        )?;
        args.u3 = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union3 { PagingFenceValue: 0 };
        Ok(STATUS_SUCCESS)
    })
}

/// STATUS_PENDING with the value of the paging queue's fence at which page tables are written, STATUS_SUCCESS with 0 if they are: always
/// where the processor writes them. [d3dkmthk: D3DKMTMapGpuVirtualAddress]
pub(super) unsafe extern "win64" fn map_gpu_virtual_address(args: *mut D3DDDI_MAPGPUVIRTUALADDRESS) -> NTSTATUS {
    enter("D3DKMTMapGpuVirtualAddress", args, |process, args| {
        let queue = process.get_paging_queue(args.hPagingQueue)?;
        let device = queue.device();
        device.check()?;
        let protection = args.Protection;
        let known = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new()
            .with_Write(true)
            .with_Execute(true)
            .with_Zero(true)
            .with_NoAccess(true)
            .into_bits();
        let without = protection.Zero() || protection.NoAccess();
        let contradictory = protection.Zero() && protection.NoAccess();
        if protection.into_bits() & !known != 0 || contradictory || without == (args.hAllocation != 0) {
            let why = format!(
                "Protection is {:#x} and hAllocation {:#x}: expected are Write and Execute with an allocation, or Zero or NoAccess without one",
                protection.into_bits(),
                args.hAllocation
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let allocation = match args.hAllocation {
            0 => None,
            handle => allocations(process, device, &[handle])?.pop(),
        };
        if protection.Write() && allocation.as_ref().is_some_and(|allocation| allocation.is_read_only()) {
            return Err(refused(
                STATUS_ACCESS_DENIED,
                "Protection.Write is set, and the allocation of hAllocation is read-only",
            ));
        }
        let shows = match &allocation {
            Some(allocation) => Shows::Allocation(allocation, args.OffsetInPages),
            None if protection.Zero() => Shows::Zero,
            None => Shows::Nothing,
        };
        let request = MapRequest {
            base: args.BaseAddress,
            minimum: args.MinimumAddress,
            maximum: args.MaximumAddress,
            shows,
            pages: args.SizeInPages,
            write: protection.Write(),
            execute: protection.Execute(),
            driver_protection: args.DriverProtection,
        };
        (args.VirtualAddress, args.PagingFenceValue) =
            device.adapter.vidmm().map_gpu_address(&device.process.space, &queue, &request)?;
        Ok(if args.PagingFenceValue == 0 { STATUS_SUCCESS } else { STATUS_PENDING })
    })
}

/// A whole region, as it was reserved or mapped. [d3dkmthk: D3DKMTFreeGpuVirtualAddress]
pub(super) unsafe extern "win64" fn free_gpu_virtual_address(args: *mut D3DKMT_FREEGPUVIRTUALADDRESS) -> NTSTATUS {
    enter_read_only("D3DKMTFreeGpuVirtualAddress", args, |process, args| {
        let adapter = &process.get_adapter(args.hAdapter)?.adapter;
        let known = process.on_adapter(adapter)?;
        known.adapter.vidmm().free_gpu_address(&known.space, args.BaseAddress, args.Size)?;
        Ok(STATUS_SUCCESS)
    })
}

/// Locks an allocation of a device; its address. The device wakes if that needs it.
pub(super) fn lock_entire(
    process: &Process,
    device: D3DKMT_HANDLE,
    allocation: D3DKMT_HANDLE,
) -> Result<*mut c_void, Failure> {
    let device = process.get_device(device)?.let_go();
    let list = allocations(process, &device, &[allocation])?;
    let allocation = list.first().ok_or(STATUS_INTERNAL_ERROR)?;
    if allocation.is_read_only() {
        let why = "the allocation is read-only, and everything can be written at the address of a lock";
        return Err(refused(STATUS_ACCESS_DENIED, why));
    }
    let _powered = power::where_needed(process, || !device.adapter.vidmm().is_in_system_memory(allocation));
    let locked = device.adapter.vidmm().lock_allocation(&*device, allocation);
    let address = locked.map_err(why_not_locked)?;
    Ok(core::ptr::with_exposed_provenance_mut(address))
}

/// The rule for which an allocation cannot be locked.
fn why_not_locked(status: NTSTATUS) -> Failure {
    let why = match status {
        STATUS_GRAPHICS_ALLOCATION_CLOSED => "the allocation is destroyed",
        STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE => {
            "the allocation is offered, or resident outside of CpuVisible segments without naming an aperture segment"
        }
        STATUS_GRAPHICS_CANT_LOCK_MEMORY => {
            "the allocation is resident where no processor reaches it, and its segment sets name no aperture segment"
        }
        STATUS_GRAPHICS_ALLOCATION_BUSY => "engines did not let go of the allocation",
        _ => return status.into(),
    };
    refused(status, why)
}

/// Ends a lock of each allocation of a list. The device wakes if that needs it.
pub(super) fn unlock_each(process: &Process, device: D3DKMT_HANDLE, handles: &[D3DKMT_HANDLE]) -> Result<(), Failure> {
    let device = process.get_device(device)?.let_go();
    let list = allocations(process, &device, handles)?;
    let vidmm = device.adapter.vidmm();
    let _powered =
        power::where_needed(process, || list.iter().any(|allocation| !vidmm.is_in_system_memory(allocation)));
    vidmm.unlock_allocations(&list).map_err(|status| match status {
        STATUS_INVALID_PARAMETER => refused(status, "an allocation is not locked, or not as often as it is unlocked"),
        _ => status.into(),
    })
}

/// [d3dkmthk: D3DKMTLock2]
pub(super) unsafe extern "win64" fn lock2(args: *mut D3DKMT_LOCK2) -> NTSTATUS {
    enter("D3DKMTLock2", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        if args.Flags.into_bits() != 0 {
            let why = format!("Flags is {:#x}, and expected is 0", args.Flags.into_bits());
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        args.pData = lock_entire(process, args.hDevice, args.hAllocation)?;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTUnlock2]
pub(super) unsafe extern "win64" fn unlock2(args: *mut D3DKMT_UNLOCK2) -> NTSTATUS {
    enter_read_only("D3DKMTUnlock2", args, |process, args| {
        unlock_each(process, args.hDevice, &[args.hAllocation])?;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTInvalidateCache]
pub(super) unsafe extern "win64" fn invalidate_cache(args: *mut D3DKMT_INVALIDATECACHE) -> NTSTATUS {
    enter_read_only("D3DKMTInvalidateCache", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        let list = allocations(process, &device, &[args.hAllocation])?;
        let allocation = list.first().ok_or(STATUS_INTERNAL_ERROR)?;
        let (offset, length) = (args.Offset as u64, args.Length as u64);
        device.adapter.vidmm().invalidate_cache(allocation, offset, length).map_err(|status| match status {
            STATUS_INVALID_PARAMETER => {
                let size = allocation.size();
                refused(
                    status,
                    format!("Offset {offset:#x} and Length {length:#x} leave the allocation of {size:#x} bytes"),
                )
            }
            _ => Failure::from(status),
        })?;
        Ok(STATUS_SUCCESS)
    })
}
