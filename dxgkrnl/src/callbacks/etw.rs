// UNSAFETY: a callback with raw arguments.
//! DxgkCbLogEtwEvent: events of a driver in the graphics kernel's own trace.

use std::ffi::c_void;

use nt::bugcheck::Bugcheck;
use nt::driver_call::{self, stop};
use nt::etw::EtwEvent;
use nt::fault::guarded;
use nt::irql;
use nt::services::good;
use wddm_ddi::nt::{EVENT_DESCRIPTOR, PASSIVE_LEVEL};
use wddm_ddi::types::GUID;

/// Events that may be logged at any level are at most this long.
const LOGGED_MAX: u16 = 256;

/// DxgkCbLogEtwEvent: kept while the graphics kernel has told the driver to log.
pub(super) unsafe extern "win64" fn log_etw_event(guid: *const GUID, kind: u8, size: u16, buffer: *mut c_void) {
    const NAME: &str = "DxgkCbLogEtwEvent";
    let Some(driver) = driver_call::current() else { stop(Bugcheck::fatal(format!("{NAME} outside a driver call"))) };
    if size > LOGGED_MAX && irql::current() != PASSIVE_LEVEL {
        stop(Bugcheck::fatal(format!("{NAME} of {size} bytes above PASSIVE_LEVEL, at most {LOGGED_MAX} are allowed")));
    }
    if guid.is_null() || (buffer.is_null() && size != 0) {
        stop(Bugcheck::fatal(format!("{NAME} without an identifier or without data")));
    }
    // SAFETY: numbers, which any bytes are.
    let provider = good(NAME, unsafe { guarded::read(guid) });
    let bytes = driver_call::on_host_stack(|| {
        let mut bytes = vec![0; size.into()];
        guarded::read_bytes(buffer.cast_const().cast(), &mut bytes).map(|()| bytes)
    });
    let bytes = good(NAME, bytes);
    driver_call::on_host_stack(|| {
        let descriptor =
            EVENT_DESCRIPTOR { Id: 0, Version: 0, Channel: 0, Level: 0, Opcode: kind, Task: 0, Keyword: 0 };
        let event = EtwEvent { provider, descriptor, parts: vec![(0, bytes)], logged: true, irql: irql::current() };
        driver.etw().log(event);
    });
}
