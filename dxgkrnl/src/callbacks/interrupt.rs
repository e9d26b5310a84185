// UNSAFETY: raw arguments of callbacks.
//! Interrupts: synchronisation with the interrupt routine, notifications, DPCs.

use std::ffi::c_void;

use wddm_ddi::km::{DXGK_INTERRUPT_TYPE, DXGKARGCB_NOTIFY_INTERRUPT_DATA, PKSYNCHRONIZE_ROUTINE};
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::call::{Level, answer, argument, invalid, named_adapter, on_adapter, on_driver, on_link};
use nt::bugcheck::Bugcheck;

pub(super) unsafe extern "win64" fn queue_dpc(handle: HANDLE) -> BOOLEAN {
    on_link("DxgkCbQueueDpc", Level::Any, handle, |adapter, function, _| {
        Ok(BOOLEAN::from(adapter.interrupts().queue_dpc(function)))
    })
}

/// Runs the routine as the interrupt routine runs. While StartDevice runs the interrupt is not connected yet, and there is
/// nothing to synchronise with.
pub(super) unsafe extern "win64" fn synchronize_execution(
    handle: HANDLE,
    routine: PKSYNCHRONIZE_ROUTINE,
    context: *mut c_void,
    message: u32,
    result: *mut BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbSynchronizeExecution";
    on_link(NAME, Level::UpToDispatch, handle, |adapter, _, link| {
        let vectors = link.function.interrupt.count();
        let wrong = |what: String| invalid(NAME, adapter, format!("{what} [dispmprt: DXGKCB_SYNCHRONIZE_EXECUTION]"));
        let Some(routine) = routine else {
            return Ok(wrong("SynchronizeRoutine is NULL, and expected is a routine of the driver".to_owned()));
        };
        if result.is_null() {
            return Ok(wrong(
                "ReturnValue is NULL, and expected is a place for what SynchronizeRoutine returns".to_owned(),
            ));
        }
        if message != 0 && message >= u32::from(vectors) {
            return Ok(wrong(format!("MessageNumber is {message}, and expected is less than {vectors}")));
        }
        if vectors == 0 || !adapter.interrupts().is_connected() {
            adapter.miniport.driver().verifier().log(format!(
                "{NAME} answers {STATUS_UNSUCCESSFUL}: an interrupt of the device is connected from the return of DxgkDdiStartDevice to that of DxgkDdiStopDevice \
                 [dispmprt: DXGKCB_SYNCHRONIZE_EXECUTION]"
            ));
            return Ok(STATUS_UNSUCCESSFUL);
        }
        let value = adapter.at_device_level(|| {
            adapter.miniport.call_at_device_level("routine of DxgkCbSynchronizeExecution", || {
                // SAFETY: the driver passes its own routine with the context it is made for.
                unsafe { routine(context) }
            })
        });
        // SAFETY: the driver passes a place for the result.
        unsafe { answer(NAME, result, value) }?;
        Ok(STATUS_SUCCESS)
    })
}

pub(super) unsafe extern "win64" fn notify_interrupt(handle: HANDLE, data: *const DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
    const NAME: &str = "DxgkCbNotifyInterrupt";
    on_driver(NAME, Level::Device, |driver| {
        let adapter = named_adapter(NAME, driver, handle)?;
        if !adapter.interrupts().is_held_here() {
            return Err(Bugcheck::fatal(format!(
                "{NAME} outside the interrupt routine and DxgkCbSynchronizeExecution of its adapter"
            )));
        }
        // SAFETY: numbers, handles and addresses, which any bytes are.
        let data = unsafe { argument(NAME, data) }?;
        // SAFETY: the driver filled the arm of its type, as the contract asks.
        let told = unsafe { crate::trace::report(&data) };
        let legacy = data.Flags.EvaluateLegacyMonitoredFences();
        adapter.interrupts().count_notification(data.InterruptType.0, legacy, told);
        if data.InterruptType == DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED {
            // SAFETY: the driver filled the arm of its type, as the contract asks.
            let report = unsafe { data.u.NativeFenceSignaled };
            adapter.interrupts().count_named_fences(report.SignaledNativeFenceCount);
        }
        adapter.miniport.events().note(adapter.context(), || told);
        match adapter.scheduler() {
            Some(scheduler) => scheduler.notify_interrupt(&data)?,
            None if data.InterruptType == DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE => {
                // SAFETY: the type selects this arm, and any bytes are numbers.
                let state = unsafe { data.u.EngineStateChange };
                adapter.power().note_early((state.NodeOrdinal, state.EngineOrdinal), state.NewState);
            }
            None => driver.verifier().log(format!("{NAME} of type {} before there is work", data.InterruptType.0)),
        }
        Ok(())
    });
}

pub(super) unsafe extern "win64" fn notify_dpc(handle: HANDLE) {
    on_adapter("DxgkCbNotifyDpc", Level::Dispatch, handle, |adapter| {
        adapter.interrupts().count_dpc_notification();
        if let Some(scheduler) = adapter.scheduler() {
            scheduler.notify_dpc();
        }
        Ok(())
    });
}
