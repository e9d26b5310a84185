//! Sync files: what the graphics kernel of WSL makes of them, see [`crate::vidsch::SyncFile`].

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::call::{enter, enter_read_only};
use super::target::{Target, wait_for};
use super::{descriptor, shared_fence, sync};
use crate::fence::Rights;
use crate::machine::Described;
use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};
use crate::vidsch::{self, Objects, SyncFile, SyncObject};

/// The file behind a descriptor of the calling process.
///
/// # Errors
/// Those of the descriptor; STATUS_OBJECT_TYPE_MISMATCH for one of something else.
fn file_of(process: &Process, handle: u64) -> Result<Arc<SyncFile>, Failure> {
    match descriptor::object_of(process, handle)? {
        Described::SyncFile(file) => Ok(file),
        Described::Kernel(_) => {
            let why = "hSyncFile is a descriptor of a kernel handle, and expected is a sync file";
            Err(refused(STATUS_OBJECT_TYPE_MISMATCH, why))
        }
    }
}

/// Makes a descriptor of the calling process, closed on exec, that is ready to be read once a monitored fence has reached a value, or never will. The
/// file keeps a fence alive that is shared with NtSecuritySharing; only such a fence can be waited for or opened by it. The descriptor is closed with
/// `close`.
///
/// Errors: STATUS_INVALID_HANDLE for no device and no fence; STATUS_INVALID_PARAMETER for a fence of another adapter, a native one, and the progress
/// fence of a queue; STATUS_ACCESS_DENIED for a fence with NoWait; STATUS_INSUFFICIENT_RESOURCES for the 1025th descriptor of a process, or without
/// descriptors; why the device is in error. [d3dkmthk: D3DKMTCreateSyncFile]
pub(super) unsafe extern "win64" fn create_sync_file(args: *mut D3DKMT_CREATESYNCFILE) -> NTSTATUS {
    enter("D3DKMTCreateSyncFile", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let fence = process.get_sync(args.hMonitoredFence)?;
        if !Arc::ptr_eq(fence.adapter(), &device.adapter) {
            return Err(refused(STATUS_INVALID_PARAMETER, "hMonitoredFence is of another adapter than hDevice"));
        }
        let conditions = [(fence, args.FenceValue)];
        vidsch::check_waits(&conditions)?;
        let [(fence, value)] = &conditions;
        let (file, end) = SyncFile::new(fence, *value)?;
        args.hSyncFile = descriptor::give(process, end, Described::SyncFile(Arc::new(file)))?.into();
        Ok(STATUS_SUCCESS)
    })
}

/// Work that is submitted to a context from now on waits until the file is ready. Nothing is waited for if it is.
///
/// Errors: those of the descriptor; STATUS_INVALID_HANDLE for no context; STATUS_INVALID_PARAMETER for a reserved field that is not 0, a context of
/// another adapter unless the fence is one of several, and a file of a fence that is not shared; why the device is in error. [d3dkmthk:
/// D3DKMTWaitSyncFile]
pub(super) unsafe extern "win64" fn wait_sync_file(args: *mut D3DKMT_WAITSYNCFILE) -> NTSTATUS {
    enter_read_only("D3DKMTWaitSyncFile", args, |process, args| {
        if args.Reserved != 0 {
            let why = format!("Reserved is {:#x}, and expected is 0", args.Reserved);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let file = file_of(process, args.hSyncFile)?;
        let target = Target::of_context(process, args.hContext)?;
        let device = target.device();
        device.check()?;
        let shared = file.shared()?;
        let rights = Rights { wait: true, signal: false, gpu: file.rights().gpu };
        let fence = shared_fence::open(device, shared, false, rights, &mut [0; 64])?;
        // It is one of the device's objects, with which it would end.
        let handle = sync::insert(process, device, &fence)?;
        let close = close_once(process, device.adapter.vidsch(), handle, &fence);
        let conditions = Objects::from(vec![(fence, file.value())]).until_over(close);
        if file.is_ready() { Ok(STATUS_SUCCESS) } else { wait_for(&target, conditions) }
    })
}

/// Has a fence that was opened for one wait closed, by the worker thread of the scheduler.
fn close_once(
    process: &Arc<Process>,
    sch: &Arc<vidsch::VidSch>,
    handle: D3DKMT_HANDLE,
    fence: &Arc<SyncObject>,
) -> impl Fn() + Send + Sync + 'static {
    let (process, sch, fence) = (Arc::downgrade(process), Arc::downgrade(sch), Arc::downgrade(fence));
    move || {
        let Some(sch) = sch.upgrade() else { return };
        let (process, fence) = (process.clone(), fence.clone());
        sch.do_soon(move || {
            let Some(process) = process.upgrade() else { return };
            // The handle may be another object's by now.
            let is_it = |object: &Object| matches!(object, Object::Sync(open) if std::ptr::eq(Arc::as_ptr(open), fence.as_ptr()));
            if let Ok(taken) = process.take_if(handle, is_it) {
                taken.destroy();
            }
        });
    }
}

/// Opens the fence of a file for a device, with the rights of the opening that made the file, and tells the value that the file stands for. Errors: those of the
/// descriptor; STATUS_INVALID_PARAMETER for a device of another adapter unless the fence is one of several, and a fence that is not shared.
/// [d3dkmthk: D3DKMTOpenSyncObjectFromSyncFile]
pub(super) unsafe extern "win64" fn open_sync_object_from_sync_file(
    args: *mut D3DKMT_OPENSYNCOBJECTFROMSYNCFILE,
) -> NTSTATUS {
    enter("D3DKMTOpenSyncObjectFromSyncFile", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let file = file_of(process, args.hSyncFile)?;
        let fence = shared_fence::open(&device, file.shared()?, false, file.rights(), &mut [0; 64])?;
        args.hSyncObject = sync::insert(process, &device, &fence)?;
        args.FenceValue = file.value();
        args.FenceValueCPUVirtualAddress = core::ptr::with_exposed_provenance_mut(fence.user_address());
        args.FenceValueGPUVirtualAddress = fence.gpu_address();
        Ok(STATUS_SUCCESS)
    })
}
