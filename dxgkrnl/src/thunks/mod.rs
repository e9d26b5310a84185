//! Thunks: what user mode calls.

mod queue;
mod sync;
pub(crate) mod user;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wddm_ddi::Zeroed;
use wddm_ddi::status::*;

use crate::process::Process;
use crate::verifier::Bugcheck;

/// Runs the body of a thunk that writes to its argument structure: takes the calling process, copies the arguments in, checks
/// that they can be written back, and copies them out when the body is done, whatever its answer.
pub(crate) fn enter<A: Copy + Zeroed>(
    name: &'static str,
    args: *mut A,
    body: impl FnOnce(&Arc<Process>, &mut A) -> Result<NTSTATUS, NTSTATUS>,
) -> NTSTATUS {
    guarded(name, |process| {
        let mut copy = user::read(args)?;
        user::write(args, &copy)?;
        let status = body(process, &mut copy);
        user::write(args, &copy)?;
        status
    })
}

/// As [`enter`], for a structure that is only read.
pub(crate) fn enter_read_only<A: Copy + Zeroed>(
    name: &'static str,
    args: *const A,
    body: impl FnOnce(&Arc<Process>, &A) -> Result<NTSTATUS, NTSTATUS>,
) -> NTSTATUS {
    guarded(name, |process| body(process, &user::read(args)?))
}

fn guarded(name: &'static str, body: impl FnOnce(&Arc<Process>) -> Result<NTSTATUS, NTSTATUS>) -> NTSTATUS {
    let Some(process) = Process::current().filter(|process| !process.has_exited()) else { return STATUS_ACCESS_DENIED };
    let verifier = process.machine().verifier();
    if verifier.is_stopped() {
        return STATUS_DEVICE_REMOVED;
    }
    match catch_unwind(AssertUnwindSafe(|| body(&process))) {
        Ok(Ok(status) | Err(status)) => status,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            let reason = format!("the graphics kernel failed inside {name}: {text}");
            verifier.raise(Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], reason));
            STATUS_INTERNAL_ERROR
        }
    }
}
