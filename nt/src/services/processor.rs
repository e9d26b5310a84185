// UNSAFETY: kernel services with raw arguments.
//! What a driver asks of the processor that runs it, and critical regions.

use std::ffi::c_void;

use wddm_ddi::nt::APC_LEVEL;
use wddm_ddi::types::KIRQL;

use super::call::irql_too_high;
use crate::bugcheck::Bugcheck;
use crate::driver_call::{self, stop};
use crate::irql;

pub(super) unsafe extern "win64" fn ke_get_current_irql() -> KIRQL {
    irql::current()
}

/// The number that the host counts its processor by; 0 if it does not tell.
pub(super) unsafe extern "win64" fn ke_get_current_processor_number_ex(number: *mut c_void) -> u32 {
    if !number.is_null() {
        stop(Bugcheck::fatal("KeGetCurrentProcessorNumberEx with a place for the number within its group"));
    }
    // SAFETY: no requirements.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

pub(super) unsafe extern "win64" fn ke_enter_critical_region() {
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("KeEnterCriticalRegion", 0));
    }
    driver_call::enter_critical_region();
}

pub(super) unsafe extern "win64" fn ke_leave_critical_region() {
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("KeLeaveCriticalRegion", 0));
    }
    if !driver_call::leave_critical_region() {
        let reason = "KeLeaveCriticalRegion without KeEnterCriticalRegion";
        stop(Bugcheck::new(Bugcheck::APC_INDEX_MISMATCH, [0, 0, 1, 0], reason));
    }
}
