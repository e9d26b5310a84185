// UNSAFETY: raw arguments of callbacks.
//! What a driver tells the scheduler, and power components.

use wddm_ddi::km::{DXGKARGCB_DISCONNECTDOORBELL, DXGKARGCB_INVALIDATEHWCONTEXT};
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::call::{Level, argument, invalid, named_adapter, on_adapter, on_driver};
use crate::adapter::{Adapter, adapters_of};
use nt::bugcheck::Bugcheck;

pub(super) unsafe extern "win64" fn invalidate_hw_context(data: *const DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS {
    const NAME: &str = "DxgkCbInvalidateHwContext";
    on_driver(NAME, Level::Passive, |driver| {
        // SAFETY: handles, which any bytes are.
        let data = unsafe { argument(NAME, data) }?;
        let adapter = named_adapter(NAME, driver, data.hAdapter)?;
        Ok(match adapter.scheduler() {
            Some(scheduler) => scheduler.recovery().invalidate_hw_context(&data),
            None => {
                let why = format!(
                    "hHwContext is {:p}, and before DxgkDdiStartDevice has returned there are no hardware contexts [d3dkmddi: DXGKARGCB_INVALIDATEHWCONTEXT]",
                    data.hHwContext
                );
                invalid(NAME, &adapter, why)
            }
        })
    })
}

/// Disconnects the doorbell of a queue. The callback names no adapter, so each of the driver's is asked.
pub(super) unsafe extern "win64" fn disconnect_doorbell(args: *const DXGKARGCB_DISCONNECTDOORBELL) -> NTSTATUS {
    const NAME: &str = "DxgkCbDisconnectDoorbell";
    on_driver(NAME, Level::Passive, |driver| {
        // SAFETY: handles and numbers, which any bytes are.
        let args = unsafe { argument(NAME, args) }?;
        let answers = adapters_of(driver).into_iter().filter_map(|adapter| {
            let status = adapter.scheduler()?.disconnect_doorbell(&args);
            (status != STATUS_INVALID_PARAMETER).then_some(status)
        });
        Ok(answers.into_iter().next().unwrap_or(STATUS_INVALID_PARAMETER))
    })
}

/// Runs a callback on an adapter's power components; a bugcheck ends the driver's call.
fn power<R>(name: &'static str, handle: HANDLE, body: impl FnOnce(&Adapter) -> Result<R, Bugcheck>) -> R {
    on_adapter(name, Level::UpToDispatch, handle, |adapter| body(adapter))
}

pub(super) unsafe extern "win64" fn set_power_component_active(handle: HANDLE, component: u32) -> NTSTATUS {
    power("DxgkCbSetPowerComponentActive", handle, |adapter| adapter.power().driver_uses(adapter, component))
}

pub(super) unsafe extern "win64" fn set_power_component_idle(handle: HANDLE, component: u32) -> NTSTATUS {
    power("DxgkCbSetPowerComponentIdle", handle, |adapter| adapter.power().driver_releases(adapter, component))
}

pub(super) unsafe extern "win64" fn complete_f_state_transition(handle: HANDLE, component: u32) {
    power("DxgkCbCompleteFStateTransition", handle, |adapter| adapter.power().complete(component));
}
