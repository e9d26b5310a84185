//! Thunks of hardware contexts, queues and doorbells.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};
use crate::rundown::Destroyed;
use crate::vidsch::{Commands, Device, DoorbellRequest, HwContext, HwQueue, PRIVATE_DATA_MAX};

use super::call::{enter, enter_read_only};
use super::control::finish_work;
use super::{sync, user};

/// Most private data of a doorbell, in bytes. [d3dkmddi: DXGKARG_CREATEDOORBELL]
const DOORBELL_DATA_MAX: u32 = 16;

/// Private driver data: copied in, handed to the driver, and copied back if the driver changed it.
pub(super) struct Private {
    user: *mut u8,
    before: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// A thunk was given more private data than it hands through.
pub(super) fn too_much_private_data(size: u32, most: u32) -> Failure {
    refused(
        STATUS_INVALID_PARAMETER,
        format!("PrivateDriverDataSize is {size:#x} bytes, and at most {most:#x} are handed through"),
    )
}

/// Flags of a thunk that has none here.
fn no_flags(flags: u32) -> Result<(), Failure> {
    let why = || refused(STATUS_INVALID_PARAMETER, format!("Flags is {flags:#x}, and expected is 0"));
    if flags == 0 { Ok(()) } else { Err(why()) }
}

impl Private {
    pub(super) fn read(user: *mut core::ffi::c_void, size: u32, most: u32) -> Result<Self, Failure> {
        if size > most {
            return Err(too_much_private_data(size, most));
        }
        let user = user.cast::<u8>();
        let data = user::read_array(user.cast_const(), size)?;
        Ok(Self { user, before: data.clone(), data })
    }

    pub(super) fn give_back(&self) -> Result<(), Failure> {
        if self.before == self.data { Ok(()) } else { user::write_array(self.user, &self.data) }
    }
}

/// A user address that the system made, as thunks give it.
fn address(exposed: usize) -> *mut core::ffi::c_void {
    core::ptr::with_exposed_provenance_mut(exposed)
}

/// [d3dkmthk: D3DKMTCreateHwContext]
pub(super) unsafe extern "win64" fn create_hw_context(args: *mut D3DKMT_CREATEHWCONTEXT) -> NTSTATUS {
    enter("D3DKMTCreateHwContext", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        no_flags(args.Flags.into_bits())?;
        let mut private = Private::read(args.pPrivateDriverData, args.PrivateDriverDataSize, PRIVATE_DATA_MAX)?;
        let sch = device.adapter.vidsch();
        let context = sch.create_hw_context(&device, args.NodeOrdinal, args.EngineAffinity, &mut private.data)?;
        let given = private.give_back();
        match given.and_then(|()| process.insert_on(&device, Object::HwContext(Arc::clone(&context)))) {
            Ok(handle) => {
                args.hHwContext = handle;
                // Only now a change of the process's class finds the context.
                context.follow_class_if_alive().inspect_err(|_| {
                    if let Ok(object) = process.remove(handle) {
                        object.destroy();
                    }
                })?;
                Ok(STATUS_SUCCESS)
            }
            Err(status) => {
                context.destroy();
                Err(status)
            }
        }
    })
}

/// Refused while the context has queues. Waits for page-table updates that were queued to it. [d3dkmthk: D3DKMTDestroyHwContext]
pub(super) unsafe extern "win64" fn destroy_hw_context(args: *mut D3DKMT_DESTROYHWCONTEXT) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyHwContext", args, |process, args| {
        let context = process.find_hw_context(args.hHwContext)?;
        let rundown = context.rundown();
        if !rundown.close_if(|| context.queues().is_empty()) && !rundown.is_closed() {
            return Err(refused(
                STATUS_INVALID_PARAMETER,
                "the context of hHwContext has queues, which are destroyed first",
            ));
        }
        let _powered = finish_work(process, context.device(), || context.updates().is_done())?;
        process.take_if(args.hHwContext, |object| matches!(object, Object::HwContext(_)))?.destroy();
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTCreateHwQueue]
pub(super) unsafe extern "win64" fn create_hw_queue(args: *mut D3DKMT_CREATEHWQUEUE) -> NTSTATUS {
    enter("D3DKMTCreateHwQueue", args, |process, args| {
        let context = process.get_hw_context(args.hHwContext)?;
        context.device().check()?;
        let mut private = Private::read(args.pPrivateDriverData, args.PrivateDriverDataSize, PRIVATE_DATA_MAX)?;
        let queue = make_queue(process, &context, args, &mut private)?;
        let progress = queue.progress();
        args.hHwQueueProgressFence = queue.progress_handle();
        args.HwQueueProgressFenceCPUVirtualAddress = address(progress.user_address());
        args.HwQueueProgressFenceGPUVirtualAddress = progress.gpu_address();
        Ok(STATUS_SUCCESS)
    })
}

/// Makes progress fence and queue with their handles; undoes every step if a later one fails.
fn make_queue(
    process: &Process,
    context: &Arc<HwContext>,
    args: &mut D3DKMT_CREATEHWQUEUE,
    private: &mut Private,
) -> Result<Arc<HwQueue>, Failure> {
    let device = context.device();
    let sch = device.adapter.vidsch();
    sch.check_queue_flags(context, args.Flags, private.data.len())?;
    let progress = sch.create_progress_fence(context, args.Flags)?;
    let progress_handle = sync::insert(process, device, &progress)?;
    let queue = sch
        .create_hw_queue(context, args.Flags, &mut private.data, Arc::clone(&progress), progress_handle)
        .inspect_err(|_| {
            let _ = process.remove(progress_handle);
            progress.destroy();
        })?;
    let handle = private.give_back().and_then(|()| process.insert_on(device, Object::HwQueue(Arc::clone(&queue))));
    args.hHwQueue = handle.inspect_err(|_| {
        let _ = process.remove(progress_handle);
        queue.destroy();
    })?;
    queue.user_handle().store(args.hHwQueue, Ordering::Relaxed);
    Ok(queue)
}

/// Refused while the queue has a doorbell. Waits for what was submitted, however long it takes. [d3dkmthk: D3DKMTDestroyHwQueue]
pub(super) unsafe extern "win64" fn destroy_hw_queue(args: *mut D3DKMT_DESTROYHWQUEUE) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyHwQueue", args, |process, args| {
        let queue = process.find_hw_queue(args.hHwQueue)?;
        let rundown = queue.rundown();
        if !rundown.close_if(|| queue.doorbell().is_none()) && !rundown.is_closed() {
            return Err(refused(
                STATUS_INVALID_PARAMETER,
                "the queue of hHwQueue has a doorbell, which is destroyed first",
            ));
        }
        // What user mode submits by itself the kernel does not see: such a queue has TdrDelay for what its user-mode driver says to be queued.
        let is_done = || queue.flags().UserModeSubmission() || queue.is_done();
        let _powered = finish_work(process, queue.context().device(), is_done)?;
        process.take_if(args.hHwQueue, |object| matches!(object, Object::HwQueue(_)))?.destroy();
        let _ = process.remove(queue.progress_handle());
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTSubmitCommandToHwQueue]
pub(super) unsafe extern "win64" fn submit_command_to_hw_queue(args: *mut D3DKMT_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS {
    enter_read_only("D3DKMTSubmitCommandToHwQueue", args, |process, args| {
        let queue = process.get_hw_queue(args.hHwQueue)?;
        queue.context().device().check()?;
        // Primaries are what displays show; a compute-only adapter has none.
        if args.NumPrimaries != 0 {
            let why = format!("NumPrimaries is {}, and the adapter has no display", args.NumPrimaries);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let private = Private::read(args.pPrivateDriverData, args.PrivateDriverDataSize, PRIVATE_DATA_MAX)?.data;
        let (progress, address, size) = (args.HwQueueProgressFenceId, args.CommandBuffer, args.CommandLength);
        queue.submit(Commands { progress, address, size, private })?;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTCreateDoorbell]
pub(super) unsafe extern "win64" fn create_doorbell(args: *mut D3DKMT_CREATE_DOORBELL) -> NTSTATUS {
    enter("D3DKMTCreateDoorbell", args, |process, args| {
        const KNOWN: u32 = 0x3;
        let queue = process.get_hw_queue(args.hHwQueue)?;
        let device = queue.context().device();
        device.check()?;
        if args.Flags.into_bits() & !KNOWN != 0 {
            let why = "Flags has more than RequireSecondaryCpuVA and ResizeRingBufferOperation";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let mut private = Private::read(args.PrivateDriverData, args.PrivateDriverDataSize, DOORBELL_DATA_MAX)?;
        let request = DoorbellRequest {
            ring: process.get_allocation(args.hRingBuffer)?,
            control: process.get_allocation(args.hRingBufferControl)?,
            secondary: args.Flags.RequireSecondaryCpuVA(),
            resize: args.Flags.ResizeRingBufferOperation(),
            private: &mut private.data,
        };
        let doorbell = device.adapter.vidsch().create_doorbell(&queue, request)?;
        let inserted = private.give_back();
        let inserted = inserted.and_then(|()| process.insert_on(device, Object::Doorbell(Arc::clone(&doorbell))));
        args.hDoorbell = inserted.inspect_err(|_| doorbell.destroy())?;
        let (primary, secondary) = doorbell.user_addresses();
        args.DoorbellCPUVirtualAddress = address(primary);
        args.DoorbellSecondaryCPUVirtualAddress = address(secondary);
        args.DoorbellStatusCPUVirtualAddress = address(doorbell.user_status());
        args.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress = address(doorbell.user_last_queued());
        Ok(STATUS_SUCCESS)
    })
}

/// Longest time from a fault that the driver knows to the loss of its device.
const LOSS: Duration = Duration::from_secs(1);

/// What a thunk answers. A driver that knows of a fault refuses what concerns the queue before its interrupt was heard; a caller that is told that the device is
/// lost finds it lost.
fn when_lost(device: &Device, answer: Result<(), Failure>) -> Result<NTSTATUS, Failure> {
    if answer == Err(STATUS_DEVICE_REMOVED.into()) {
        device.adapter.flush_interrupts();
        let end = Instant::now() + LOSS;
        while device.error().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    answer.map(|()| STATUS_SUCCESS)
}

/// [d3dkmthk: D3DKMTConnectDoorbell]
pub(super) unsafe extern "win64" fn connect_doorbell(args: *mut D3DKMT_CONNECT_DOORBELL) -> NTSTATUS {
    enter_read_only("D3DKMTConnectDoorbell", args, |process, args| {
        no_flags(args.Flags.into_bits())?;
        let doorbell = process.get_doorbell(args.hDoorbell)?;
        let context = doorbell.queue().context();
        context.device().check()?;
        let answer = context.adapter().connect_doorbell(&doorbell);
        when_lost(context.device(), answer)
    })
}

/// Waits for what was queued through the doorbell. [d3dkmthk: D3DKMTDestroyDoorbell]
pub(super) unsafe extern "win64" fn destroy_doorbell(args: *mut D3DKMT_DESTROY_DOORBELL) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyDoorbell", args, |process, args| {
        process.take_if(args.hDoorbell, |object| matches!(object, Object::Doorbell(_)))?.destroy();
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTNotifyWorkSubmission]
pub(super) unsafe extern "win64" fn notify_work_submission(args: *mut D3DKMT_NOTIFY_WORK_SUBMISSION) -> NTSTATUS {
    enter_read_only("D3DKMTNotifyWorkSubmission", args, |process, args| {
        no_flags(args.Flags.into_bits())?;
        let doorbell = process.get_doorbell(args.hDoorbell)?;
        let device = doorbell.queue().context().device();
        device.check()?;
        when_lost(device, doorbell.notify())
    })
}

/// Says where the logs of a queue are; zero for one that has none. [d3dkmthk: D3DKMTGetNativeFenceLogDetail]
pub(super) unsafe extern "win64" fn get_native_fence_log_detail(args: *mut D3DKMT_GETNATIVEFENCELOGDETAIL) -> NTSTATUS {
    enter("D3DKMTGetNativeFenceLogDetail", args, |process, args| {
        no_flags(args.Flags.into_bits())?;
        if args.Reserved != [0; 64] {
            return Err(refused(STATUS_INVALID_PARAMETER, "Reserved is not zero"));
        }
        let queue = process.get_hw_queue(args.hHwQueue)?;
        let device = queue.context().device();
        device.check()?;
        let [waits, signals] = device.adapter.vidsch().fence_log_places(&queue);
        (args.WaitLogGpuBaseAddress, args.WaitLogNumberOfEntries) = waits;
        (args.SignalLogGpuBaseAddress, args.SignalLogNumberOfEntries) = signals;
        Ok(STATUS_SUCCESS)
    })
}
