//! Power states and clocks.

use core::ffi::c_void;
use core::ptr::NonNull;

use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_SUCCESS};
use wddm_ddi::types::{GUID, HANDLE};

use super::answer::answer;
use super::call::{arguments, at_dispatch, inputs};
use crate::adapter::slots;
use crate::irql::Passive;
use crate::power;
use crate::refusal::{Ddi, Reason, refused};

/// May not fail. Only the function itself has a state; identifiers of children may be stale.
pub(crate) unsafe extern "win64" fn set_power_state(
    context: *mut c_void,
    device: u32,
    state: DEVICE_POWER_STATE,
    _action: i32,
) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    if device == DISPLAY_ADAPTER_HW_ID
        && let Ok(adapter) = slots::adapter(context)
        && let Ok(gpu) = adapter.started()
    {
        power::set_state(&irql, adapter.owner(), gpu, state);
    }
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn set_power_component_fstate(
    context: *mut c_void,
    component: u32,
    fstate: u32,
) -> NTSTATUS {
    at_dispatch(Ddi::SetPowerComponentFState, context, |irql, adapter, _| {
        power::set_fstate(irql, adapter, component, fstate)
    })
}

/// The driver calls power callbacks only from DDIs that the operating system calls between these notifications, so the known requests need no
/// action. Any other request, such as one of the platform, is refused.
pub(crate) unsafe extern "win64" fn power_runtime_control_request(
    context: *mut c_void,
    code: *const GUID,
    _input: *mut c_void,
    _input_size: usize,
    _output: *mut c_void,
    _output_size: usize,
    returned: *mut usize,
) -> NTSTATUS {
    let request = || {
        slots::adapter(context)?;
        let code = inputs(code)?;
        // SAFETY: NULL or a place for the count.
        if let Some(returned) = unsafe { returned.as_mut() } {
            *returned = 0;
        }
        let known = [
            GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START,
            GUID_DXGKDDI_POWER_MANAGEMENT_STARTED,
            GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED,
        ];
        if known.contains(code) { Ok(()) } else { Err(refused(Reason::NotServed)) }
    };
    answer(Ddi::PowerRuntimeControlRequest, context, request())
}

/// The clock runs at one frequency, so it is stable.
pub(crate) unsafe extern "win64" fn set_stable_power_state(
    adapter: HANDLE,
    args: *const DXGKARG_SETSTABLEPOWERSTATE,
) -> NTSTATUS {
    answer(Ddi::SetStablePowerState, adapter, inputs(args).map(drop))
}

pub(crate) unsafe extern "win64" fn calibrate_gpu_clock(
    adapter: HANDLE,
    node: u32,
    engine: u32,
    data: *mut DXGK_GPUCLOCKDATA,
) -> NTSTATUS {
    at_dispatch(Ddi::CalibrateGpuClock, adapter, |_, adapter, _| {
        let gpu = adapter.started_engine(engine)?;
        if node as usize >= gpu.nodes.len() {
            return Err(refused(Reason::NoSuchNode));
        }
        *arguments(data)? = power::clock(gpu);
        Ok(())
    })
}

/// History buffers have the clock's values as TIMESTAMP packets wrote them, which is the form asked for: 64-bit ticks.
pub(crate) unsafe extern "win64" fn format_history_buffer(
    context: HANDLE,
    args: *mut DXGKARG_FORMATHISTORYBUFFER,
) -> NTSTATUS {
    const TICK: usize = size_of::<u64>();
    let format = || {
        let args = arguments(args)?;
        let buffer = NonNull::new(args.pHistoryBuffer).ok_or(refused(Reason::NullPointer))?;
        let out = NonNull::new(args.pFormattedBuffer.cast::<u8>()).ok_or(refused(Reason::NullPointer))?;
        let header = size_of::<DXGK_HISTORY_BUFFER_HEADER>();
        let available = (args.HistoryBufferSize as usize).saturating_sub(header) / TICK;
        let capacity = args.FormattedBufferSize as usize / TICK;
        let count = (args.NumTimestamps as usize).min(available).min(capacity);
        // SAFETY: the buffer has HistoryBufferSize bytes, which is more than its header if `count` is not 0.
        let source = unsafe { buffer.cast::<u8>().add(if count == 0 { 0 } else { header }) };
        // SAFETY: `count` values lie inside both buffers, which do not overlap.
        unsafe { out.copy_from_nonoverlapping(source, count * TICK) };
        args.NumTimestamps = count as u32;
        Ok(())
    };
    answer(Ddi::FormatHistoryBuffer, context, format())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::Zeroed;

    #[test]
    fn history_is_copied_as_far_as_both_buffers_reach() {
        let mut history = [0u64, 0, 11, 22, 33];
        let mut formatted = [0u64; 2];
        let mut args = DXGKARG_FORMATHISTORYBUFFER::zeroed();
        args.pHistoryBuffer = history.as_mut_ptr().cast();
        args.HistoryBufferSize = 40;
        args.pFormattedBuffer = formatted.as_mut_ptr().cast();
        args.FormattedBufferSize = 16;
        args.NumTimestamps = 3;
        // SAFETY: the buffers have the sizes given.
        assert_eq!(unsafe { format_history_buffer(core::ptr::null_mut(), &raw mut args) }, STATUS_SUCCESS);
        assert_eq!((formatted, args.NumTimestamps), ([11, 22], 2));
        args.HistoryBufferSize = 8;
        // SAFETY: the buffers have the sizes given.
        assert_eq!(unsafe { format_history_buffer(core::ptr::null_mut(), &raw mut args) }, STATUS_SUCCESS);
        assert_eq!(args.NumTimestamps, 0);
    }
}
