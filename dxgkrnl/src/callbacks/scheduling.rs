// UNSAFETY: raw arguments of callbacks.
//! What a driver tells the scheduler, and power components.

use wddm_ddi::km::{
    D3DDDI_DOORBELLSTATUS, DXGK_POWER_COMPONENT_TYPE, DXGKARGCB_DISCONNECTDOORBELL, DXGKARGCB_INVALIDATEHWCONTEXT,
};
use wddm_ddi::nt::PASSIVE_LEVEL;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::call::{Level, argument, ignored, invalid, misused, named_adapter, on_adapter, on_driver, refused};
use crate::adapter::{Adapter, adapters_of};
use nt::bugcheck::Bugcheck;
use nt::irql;

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
        let adapters = adapters_of(driver);
        let mut answers = adapters.iter().filter_map(|adapter| {
            let status = adapter.scheduler()?.disconnect_doorbell(&args);
            (status != STATUS_INVALID_PARAMETER).then_some(status)
        });
        Ok(answers.next().unwrap_or_else(|| match adapters.first() {
            Some(adapter) => not_disconnected(NAME, adapter, &args),
            None => STATUS_INVALID_PARAMETER,
        }))
    })
}

/// What a call of DxgkCbDisconnectDoorbell is answered with that no adapter has carried out. A handle may be that of a queue or a doorbell that is
/// being destroyed, of which the driver is not told yet: that is no mistake of the driver's.
fn not_disconnected(name: &str, adapter: &Adapter, args: &DXGKARGCB_DISCONNECTDOORBELL) -> NTSTATUS {
    const PAGE: &str = "[d3dkmddi: DXGKARGCB_DISCONNECTDOORBELL]";
    let (retry, abort) = (
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY,
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT,
    );
    let reason = args.DisconnectReason;
    if reason != retry && reason != abort {
        let expected = "D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY or _ABORT";
        let why = format!("DisconnectReason is {}, and expected is {expected} {PAGE}", reason.0);
        return invalid(name, adapter, why);
    }
    if args.hHwQueue.is_null() && args.hDoorbell.is_null() {
        return invalid(name, adapter, format!("hHwQueue and hDoorbell are NULL, and expected is one of them {PAGE}"));
    }
    let why = format!("no doorbell has hHwQueue {:p} and hDoorbell {:p} {PAGE}", args.hHwQueue, args.hDoorbell);
    refused(name, adapter, STATUS_INVALID_PARAMETER, why)
}

/// Runs a callback on an adapter's power components; a bugcheck ends the driver's call.
fn power<R>(name: &'static str, handle: HANDLE, body: impl FnOnce(&Adapter) -> Result<R, Bugcheck>) -> R {
    on_adapter(name, Level::UpToDispatch, handle, |adapter| body(adapter))
}

/// The pages have no status: a driver that names a component that it has not declared learns it from the log.
fn of_component(name: &'static str, page: &str, adapter: &Adapter, component: u32, status: NTSTATUS) -> NTSTATUS {
    if status == STATUS_INVALID_PARAMETER {
        ignored(
            name,
            adapter,
            format!("ComponentIndex is {component:#x}, and no such component was declared [d3dkmddi: {page}]"),
        );
    }
    status
}

pub(super) unsafe extern "win64" fn set_power_component_active(handle: HANDLE, component: u32) -> NTSTATUS {
    const NAME: &str = "DxgkCbSetPowerComponentActive";
    power(NAME, handle, |adapter| {
        let status = adapter.power().driver_uses(adapter, component)?;
        let level = irql::current();
        if status == STATUS_SUCCESS && level > PASSIVE_LEVEL {
            let why = "PASSIVE_LEVEL is required, for it may have to wait for the end of a transition [d3dkmddi: DXGKCB_SETPOWERCOMPONENTACTIVE]";
            misused(
                adapter,
                format!("{NAME}({component}) at IRQL {level} is done, since no transition is under way: {why}"),
            );
        }
        Ok(of_component(NAME, "DXGKCB_SETPOWERCOMPONENTACTIVE", adapter, component, status))
    })
}

pub(super) unsafe extern "win64" fn set_power_component_idle(handle: HANDLE, component: u32) -> NTSTATUS {
    const NAME: &str = "DxgkCbSetPowerComponentIdle";
    power(NAME, handle, |adapter| {
        let status = adapter.power().driver_releases(adapter, component)?;
        Ok(of_component(NAME, "DXGKCB_SETPOWERCOMPONENTIDLE", adapter, component, status))
    })
}

pub(super) unsafe extern "win64" fn complete_f_state_transition(handle: HANDLE, component: u32) {
    power("DxgkCbCompleteFStateTransition", handle, |adapter| adapter.power().complete(component));
}

/// What a driver expects of a component of its own type, in 100 nanoseconds: taken, and told in the log. Nothing is chosen by it here, since only
/// components of engines, of memory and of the transition to D3 change their states.
fn expects(name: &'static str, page: &str, handle: HANDLE, component: u32, time: u64) {
    power(name, handle, |adapter| {
        match adapter.power().kind_of(component) {
            None => ignored(
                name,
                adapter,
                format!("ComponentIndex is {component:#x}, and no such component was declared [d3dkmddi: {page}]"),
            ),
            Some(DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_OTHER) => {
                adapter.machine.verifier().log(format!("{name} of component {component:#x}: {time} times 100 ns"));
            }
            Some(kind) => {
                let why = format!(
                    "component {component:#x} has the type {}, and expected is DXGK_POWER_COMPONENT_OTHER [d3dkmddi: {page}]",
                    kind.0
                );
                ignored(name, adapter, why);
            }
        }
        Ok(())
    });
}

pub(super) unsafe extern "win64" fn set_power_component_latency(handle: HANDLE, component: u32, latency: u64) {
    expects("DxgkCbSetPowerComponentLatency", "DXGKCB_SETPOWERCOMPONENTLATENCY", handle, component, latency);
}

pub(super) unsafe extern "win64" fn set_power_component_residency(handle: HANDLE, component: u32, residency: u64) {
    expects("DxgkCbSetPowerComponentResidency", "DXGKCB_SETPOWERCOMPONENTRESIDENCY", handle, component, residency);
}
