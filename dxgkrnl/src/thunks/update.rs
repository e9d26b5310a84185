//! D3DKMTUpdateGpuVirtualAddress: changes of mappings in the order of a context's work.

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidmm::{Access, Change, Span};
use crate::vidsch::{self, Device, UpdateQueue, UpdateRequest};

use super::call::enter_read_only;
use super::{memory, power, user};

type Operation = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;
type Kind = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE;
type Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE;

/// Most operations of one request.
const OPERATIONS_MAX: u32 = 4096;

impl user::Element for Operation {
    const BLANK: Self = Self {
        OperationType: Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP,
        u: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Union {
            MapProtect: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_MapProtect {
                BaseAddress: 0,
                SizeInBytes: 0,
                hAllocation: 0,
                AllocationOffsetInBytes: 0,
                AllocationSizeInBytes: 0,
                Protection: Protection::new(),
                DriverProtection: 0,
            },
        },
    };
}

/// What an operation asks for. [d3dukmdt: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION]
fn change(process: &Process, device: &Device, operation: &Operation) -> Result<Change, Failure> {
    let show = |to: (u64, u64), handle, part: (u64, u64), access: Access| {
        let list = memory::allocations(process, device, &[handle])?;
        let allocation = list.first().ok_or(STATUS_INVALID_PARAMETER)?;
        if access.write && allocation.is_read_only() {
            let why = format!("hAllocation {handle:#x} was opened to be read only, and the mapping may write");
            return Err(refused(STATUS_ACCESS_DENIED, why));
        }
        Change::show(Span::new(to.0, to.1)?, allocation, part, access)
    };
    match operation.OperationType {
        Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP => {
            // SAFETY: every arm of the union is plain numbers.
            let map = unsafe { operation.u.Map };
            let part = (map.AllocationOffsetInBytes, map.AllocationSizeInBytes);
            show((map.BaseAddress, map.SizeInBytes), map.hAllocation, part, Access::WRITE)
        }
        Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT => {
            // SAFETY: every arm of the union is plain numbers.
            let map = unsafe { operation.u.MapProtect };
            let protection = map.Protection;
            if protection.with_Write(false).with_Execute(false).into_bits() != 0 {
                let why = "MapProtect.Protection has more than Write and Execute";
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            let (write, execute, driver) = (protection.Write(), protection.Execute(), map.DriverProtection);
            let part = (map.AllocationOffsetInBytes, map.AllocationSizeInBytes);
            let access = Access { write, execute, driver };
            show((map.BaseAddress, map.SizeInBytes), map.hAllocation, part, access)
        }
        Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP => {
            // SAFETY: every arm of the union is plain numbers.
            let unmap = unsafe { operation.u.Unmap };
            let range = Span::new(unmap.BaseAddress, unmap.SizeInBytes)?;
            if unmap.Protection == Protection::new().with_Zero(true) {
                Ok(Change::Zero(range))
            } else if unmap.Protection == Protection::new().with_NoAccess(true) {
                Ok(Change::Hide(range))
            } else {
                Err(refused(STATUS_INVALID_PARAMETER, "Unmap.Protection is neither Zero alone nor NoAccess alone"))
            }
        }
        Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY => {
            // SAFETY: every arm of the union is plain numbers.
            let copy = unsafe { operation.u.Copy };
            let from = Span::new(copy.SourceAddress, copy.SizeInBytes)?;
            Ok(Change::Copy { from: from.at, to: Span::new(copy.DestAddress, copy.SizeInBytes)? })
        }
        other => {
            let why = format!("OperationType is {}, which is no operation", other.0);
            Err(refused(STATUS_INVALID_PARAMETER, why))
        }
    }
}

/// The queue of page-table updates of a context of either kind, which belongs to `device`.
fn update_queue(process: &Process, device: &Device, context: D3DKMT_HANDLE) -> Result<Arc<UpdateQueue>, Failure> {
    let (owner, queue) = match process.get_packet_context(context) {
        Ok(context) => (context.device().id(), Arc::clone(context.updates())),
        Err(_) => {
            let context = process.get_hw_context(context)?;
            (context.device().id(), Arc::clone(context.updates()))
        }
    };
    let why = || format!("hContext {context:#x} is of another device than hDevice");
    if owner == device.id() { Ok(queue) } else { Err(refused(STATUS_INVALID_PARAMETER, why())) }
}

/// Checks a request, and changes nothing.
fn request(
    process: &Process,
    device: &Device,
    engine: u32,
    args: &D3DKMT_UPDATEGPUVIRTUALADDRESS,
) -> Result<UpdateRequest, Failure> {
    let last = || refused(STATUS_INVALID_PARAMETER, "FenceValue has no next value for the signal");
    let next = args.FenceValue.checked_add(1).ok_or_else(last)?;
    if args.Flags.with_DoNotWait(false).into_bits() != 0
        || (args.Reserved0, args.Reserved1) != (0, 0)
        || !(1..=OPERATIONS_MAX).contains(&args.NumOperations)
    {
        let why = format!(
            "Flags has more than DoNotWait, Reserved0 or Reserved1 is not 0, or NumOperations is {}, and expected is 1 to {OPERATIONS_MAX}",
            args.NumOperations
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let fence = process.get_sync(args.hFenceObject)?;
    let usable = Arc::ptr_eq(fence.adapter(), &device.adapter) && fence.fence().is_for_cpu();
    if !usable || fence.is_of_queue() {
        let why = "hFenceObject is of another adapter, for engines only, or the fence of a queue";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let at_once = args.Flags.DoNotWait();
    if !fence.rights().signal || !(at_once || fence.rights().wait) {
        let why = "hFenceObject was created with NoSignal, or with NoWait and is waited for";
        return Err(refused(STATUS_ACCESS_DENIED, why));
    }
    vidsch::check_signals(&[(Arc::clone(&fence), next)])?;
    if !at_once {
        vidsch::check_waits(&[(Arc::clone(&fence), args.FenceValue)])?;
    }
    let operations = user::read_array(args.Operations.cast_const(), args.NumOperations)?;
    let changes = operations.iter().map(|operation| change(process, device, operation)).collect::<Result<_, _>>()?;
    let update = device.adapter.vidmm().check_update(&device.process.space, engine, changes)?;
    Ok(UpdateRequest { fence, value: args.FenceValue, at_once, update })
}

/// Changes mappings in a region that was reserved as zero, when a fence has reached a value; the fence gets the next value when
/// they are made. While more than 128 operations of the context are queued, the call waits.
///
/// Errors: STATUS_INVALID_PARAMETER for what breaks a rule of the page, STATUS_ACCESS_DENIED for a fence that may not be waited for or
/// signalled, STATUS_NO_MEMORY for more than 1 GiB of addresses; nothing has changed then. A device whose changes find no memory for
/// page tables when they are made is lost. [d3dkmthk: D3DKMTUpdateGpuVirtualAddress]
pub(super) unsafe extern "win64" fn update_gpu_virtual_address(
    args: *const D3DKMT_UPDATEGPUVIRTUALADDRESS,
) -> NTSTATUS {
    enter_read_only("D3DKMTUpdateGpuVirtualAddress", args, |process, args| {
        // The queue is closed before its context goes.
        let device = process.get_device(args.hDevice)?.let_go();
        device.check()?;
        let queue = update_queue(process, &device, args.hContext)?;
        loop {
            let request = request(process, &device, queue.engine(), args)?;
            // Nobody keeps a device in D0 while he waits for others.
            queue.wait_for_space()?;
            let _powered = power::where_needed(process, || true);
            if queue.submit(request)? {
                return Ok(STATUS_SUCCESS);
            }
        }
    })
}
