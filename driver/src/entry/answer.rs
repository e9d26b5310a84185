//! The status that a DDI returns, and the note of a refusal in the trace.

use campanile_hw::trace::event::Event;
use wddm_ddi::status::{NTSTATUS, STATUS_SUCCESS};
use wddm_ddi::types::HANDLE;

use crate::adapter::slots;
use crate::handle::Handle;
use crate::refusal::{Ddi, Refused};
use crate::trace;

/// The status that `ddi` returns for `result`. A refusal is noted and counted by the adapter that `object` belongs to, or by the driver if the
/// handle names no adapter.
pub(super) fn answer(ddi: Ddi, object: HANDLE, result: Result<(), Refused>) -> NTSTATUS {
    let Err(Refused { status, reason }) = result else { return STATUS_SUCCESS };
    let status = ddi.answers(status);
    let event = Event::Refused {
        object: object.addr() as u64,
        status: status.0.cast_unsigned(),
        reason: reason as u16,
        ddi: ddi as u16,
    };
    match slots::adapter_of_object(Handle::of(object)) {
        Some(adapter) => adapter.trace.refused(ddi.component(), reason, &event),
        None => trace::refused(reason, &event),
    }
    status
}
