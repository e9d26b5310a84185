//! Thunks by which user mode offers memory whose contents it could do without, and takes it back.

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidmm::{Allocation, OfferPriority, OfferTerms};
use crate::vidsch::Device;

use super::call::{enter, enter_read_only};
use super::memory::{allocations, has_duplicates, read_handles};
use super::user;

/// What a list names: allocations by themselves, or resources with all of theirs.
fn groups(
    process: &Process,
    device: &Device,
    (resources, handles): (*mut D3DKMT_HANDLE, *mut D3DKMT_HANDLE),
    count: u32,
) -> Result<Vec<Vec<Arc<Allocation>>>, Failure> {
    let by_resource = match (resources.is_null(), handles.is_null()) {
        (false, true) => true,
        (true, false) => false,
        _ => return Err(refused(STATUS_INVALID_PARAMETER, "not just one of pResources and HandleList is given")),
    };
    let list = read_handles(if by_resource { resources } else { handles }.cast_const(), count)?;
    if has_duplicates(&list) {
        return Err(refused(STATUS_INVALID_PARAMETER, "the list names a resource or an allocation twice"));
    }
    let mut groups = Vec::with_capacity(list.len());
    for handle in list {
        let members = if by_resource {
            let resource = process.get_resource(handle)?;
            if resource.device() != device.id() {
                let why = format!("resource {handle:#x} is of another device");
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            // Members that were destroyed one by one have stale handles by now.
            resource.members().into_iter().filter(|handle| process.get_allocation(*handle).is_ok()).collect()
        } else {
            vec![handle]
        };
        let group = allocations(process, device, &members)?;
        // What others use is not this device's to give up: this system's rule.
        if group.iter().any(|allocation| allocation.is_shared()) {
            return Err(refused(STATUS_INVALID_PARAMETER, format!("what {handle:#x} names is shared")));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// All or none: what is offered or locked already, or used by a doorbell, is refused. [d3dkmthk: D3DKMTOfferAllocations]
pub(super) unsafe extern "win64" fn offer_allocations(args: *mut D3DKMT_OFFERALLOCATIONS) -> NTSTATUS {
    enter_read_only("D3DKMTOfferAllocations", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let known = D3DKMT_OFFER_FLAGS::new().with_OfferImmediately(true).with_AllowDecommit(true).into_bits();
        if args.Flags.into_bits() & !known != 0 {
            let why = "Flags has more than OfferImmediately and AllowDecommit";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let priority = OfferPriority::of(args.Priority).ok_or_else(|| {
            let why = format!("Priority is {}, which is none of D3DKMT_OFFER_PRIORITY", args.Priority.0);
            refused(STATUS_INVALID_PARAMETER, why)
        })?;
        let groups = groups(process, &device, (args.pResources, args.HandleList), args.NumAllocations)?;
        let idle = (!args.Flags.OfferImmediately()).then(|| device.idle_point());
        let terms = OfferTerms { priority, decommit: args.Flags.AllowDecommit(), idle };
        device.adapter.vidmm().offer(&groups.concat(), &terms)?;
        Ok(STATUS_SUCCESS)
    })
}

/// All or none of what is offered. STATUS_PENDING with the value of the paging queue's fence at which the memory may be used;
/// STATUS_SUCCESS with value 0 when it may be used at once. Where there is no memory for what was decommitted the answer says so, and it
/// stays offered. [d3dkmthk: D3DKMTReclaimAllocations2]
pub(super) unsafe extern "win64" fn reclaim_allocations2(args: *mut D3DKMT_RECLAIMALLOCATIONS2) -> NTSTATUS {
    enter("D3DKMTReclaimAllocations2", args, |process, args| {
        let queue = process.get_paging_queue(args.hPagingQueue)?;
        let device = queue.device();
        device.check()?;
        let groups = groups(process, device, (args.pResources, args.HandleList), args.NumAllocations)?;
        // SAFETY: both arms of the union are pointers to numbers of 32 bits.
        let answers = unsafe { args.u.pDiscarded };
        args.PagingFenceValue = 0;
        if !answers.is_null() {
            // Nothing is reclaimed whose answer has nowhere to go.
            user::write_array(answers.cast::<u32>(), &vec![0; groups.len()])?;
        }
        let (value, results) = device.adapter.vidmm().reclaim(&queue, &groups)?;
        if !answers.is_null() {
            let results: Vec<u32> = results.iter().map(|result| result.0 as u32).collect();
            user::write_array(answers.cast::<u32>(), &results)?;
        }
        args.PagingFenceValue = value;
        Ok(if value == 0 { STATUS_SUCCESS } else { STATUS_PENDING })
    })
}

/// As [`reclaim_allocations2`]; the memory may be used when it returns. [d3dkmthk: D3DKMTReclaimAllocations]
pub(super) unsafe extern "win64" fn reclaim_allocations(args: *mut D3DKMT_RECLAIMALLOCATIONS) -> NTSTATUS {
    enter_read_only("D3DKMTReclaimAllocations", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let groups = groups(process, &device, (args.pResources, args.HandleList), args.NumAllocations)?;
        if !args.pDiscarded.is_null() {
            // Nothing is reclaimed whose answer has nowhere to go.
            user::write_array(args.pDiscarded.cast::<u32>(), &vec![0; groups.len()])?;
        }
        let results = device.adapter.vidmm().reclaim_and_wait(&groups)?;
        if !args.pDiscarded.is_null() {
            let lost = |result: &D3DDDI_RECLAIM_RESULT| *result != D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_OK;
            let results: Vec<u32> = results.iter().map(|result| u32::from(lost(result))).collect();
            user::write_array(args.pDiscarded.cast::<u32>(), &results)?;
        }
        Ok(STATUS_SUCCESS)
    })
}
