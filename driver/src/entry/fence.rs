//! Native fences, their logs, and monitored fences in kernel-built buffers.

use core::ptr::NonNull;

use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use wddm_ddi::types::HANDLE;

use super::answer::answer;
use super::call::{arguments, inputs, on_gpu};
use crate::adapter::slots;
use crate::fence::native;
use crate::handle::{Handle, Object};
use crate::irql::{Device, Dispatch, Passive};
use crate::mmio;
use crate::paging;
use crate::paging::buffer::PagingError;
use crate::queue::context::{Context, HwContext};
use crate::queue::hw_queue::{self, HwQueue};
use crate::refusal::{Ddi, Reason, refused, refused_with};

pub(crate) unsafe extern "win64" fn create_native_fence(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATENATIVEFENCE,
) -> NTSTATUS {
    on_gpu(Ddi::CreateNativeFence, adapter, |irql, adapter, gpu| native::create(irql, adapter, gpu, arguments(args)?))
}

pub(crate) unsafe extern "win64" fn open_native_fence(adapter: HANDLE, args: *mut DXGKARG_OPENNATIVEFENCE) -> NTSTATUS {
    on_gpu(Ddi::OpenNativeFence, adapter, |irql, adapter, _| native::open(irql, adapter, arguments(args)?))
}

/// Must succeed after a reset and after the adapter was removed, when everything of it is gone already.
pub(crate) unsafe extern "win64" fn close_native_fence(
    adapter: HANDLE,
    args: *const DXGKARG_CLOSENATIVEFENCE,
) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let raw = adapter;
    let Ok(adapter) = slots::adapter(raw) else { return STATUS_SUCCESS };
    let close = || native::close(&irql, adapter, Handle::of(inputs(args)?.hLocalNativeFence));
    answer(Ddi::CloseNativeFence, raw, close())
}

/// As [`close_native_fence`]; the handle names the adapter.
pub(crate) unsafe extern "win64" fn destroy_native_fence(args: *const DXGKARG_DESTROYNATIVEFENCE) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let fence = match inputs(args) {
        Ok(args) => Handle::of(args.hGlobalNativeFence),
        Err(refused) => return answer(Ddi::DestroyNativeFence, core::ptr::null_mut(), Err(refused)),
    };
    let Some(adapter) = slots::adapter_of_object(fence) else { return STATUS_SUCCESS };
    let destroyed = native::destroy(&irql, adapter, fence);
    answer(Ddi::DestroyNativeFence, fence.raw(), destroyed)
}

pub(crate) unsafe extern "win64" fn update_monitored_values(args: *const DXGKARG_UPDATEMONITOREDVALUES) -> NTSTATUS {
    // SAFETY: called at device interrupt level, synchronised with the interrupt routine.
    let irql = unsafe { Device::assume() };
    if let Ok(args) = inputs(args) {
        native::update_monitored(&irql, args);
    }
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn update_current_values_from_cpu(
    args: *const DXGKARG_UPDATECURRENTVALUESFROMCPU,
) -> NTSTATUS {
    // SAFETY: documented for DISPATCH_LEVEL at most.
    let irql = unsafe { Dispatch::assume() };
    if let Ok(args) = inputs(args) {
        native::update_current(&irql, args);
    }
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn set_native_fence_log_buffer(
    args: *const DXGKARG_SETNATIVEFENCELOGBUFFER,
) -> NTSTATUS {
    // SAFETY: documented for DISPATCH_LEVEL.
    let irql = unsafe { Dispatch::assume() };
    let queue = inputs(args).map_or(core::ptr::null_mut(), |args| args.hHwQueue);
    let set = || {
        let args = inputs(args)?;
        let (adapter, queue) = slots::object::<HwQueue>(args.hHwQueue)?;
        hw_queue::set_log(&irql, adapter.started_engine(queue.engine)?, queue, args)
    };
    answer(Ddi::SetNativeFenceLogBuffer, queue, set())
}

/// Every entry that the headers of these queues count is visible when this returns.
pub(crate) unsafe extern "win64" fn update_native_fence_logs(args: *const DXGKARG_UPDATENATIVEFENCELOGS) -> NTSTATUS {
    // SAFETY: documented for DISPATCH_LEVEL.
    let irql = unsafe { Dispatch::assume() };
    let mut named = core::ptr::null_mut();
    let mut update = || {
        let args = inputs(args)?;
        if args.NumberOfQueues != 0 {
            let handles = NonNull::new(args.hHWQueue).ok_or(refused(Reason::NullPointer))?;
            for index in 0..args.NumberOfQueues as usize {
                // SAFETY: the array has that many elements during the call.
                let place = unsafe { handles.add(index) };
                // SAFETY: as above.
                named = unsafe { place.read() };
                let (adapter, queue) = slots::object::<HwQueue>(named)?;
                if let Some(gpu) = adapter.engine(queue.engine).ok().filter(|gpu| gpu.is_running()) {
                    hw_queue::flush_logs(&irql, gpu, queue);
                }
            }
        }
        mmio::full_barrier();
        Ok(())
    };
    let updated = update();
    answer(Ddi::UpdateNativeFenceLogs, named, updated)
}

/// Appends the write of a monitored fence to a buffer of the kernel. `object` is a context or, with a queue, hardware context.
pub(crate) unsafe extern "win64" fn signal_monitored_fence(
    object: HANDLE,
    args: *mut DXGKARG_SIGNALMONITOREDFENCE,
) -> NTSTATUS {
    let signal = || {
        let object = Handle::of(object);
        let adapter =
            slots::adapter_of_object(object).ok_or(refused_with(Reason::StaleHandle, STATUS_INVALID_PARAMETER))?;
        let context = adapter.objects.get::<Context>(object).map(Object::engine);
        let engine = context.or_else(|_| adapter.objects.get::<HwContext>(object).map(Object::engine)).unwrap_or(0);
        paging::append_signal(adapter.started_engine(engine)?, arguments(args)?).map_err(|error| match error {
            PagingError::InsufficientDmaBuffer => refused(Reason::PagingBufferFull),
            PagingError::Impossible => refused(Reason::PagingOperation),
        })
    };
    answer(Ddi::SignalMonitoredFence, object, signal())
}
