//! The call of a thunk: the calling process, the copy of its arguments, the power that it needs, and the answer. A panic below a thunk stops the machine, not
//! the caller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nt::bugcheck::Bugcheck;
use wddm_ddi::Zeroed;
use wddm_ddi::status::*;

use super::power::Powered;
use super::user;
use crate::process::Process;
use crate::refusal::Failure;

/// Runs the body of a thunk that writes to its argument structure: takes the calling process, copies the arguments in, checks
/// that they can be written back, and copies them out when the body is done, whatever its answer.
pub(super) fn enter<A: Copy + Zeroed>(
    name: &'static str,
    args: *mut A,
    body: impl FnOnce(&Arc<Process>, &mut A) -> Result<NTSTATUS, Failure>,
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
pub(super) fn enter_read_only<A: Copy + Zeroed>(
    name: &'static str,
    args: *const A,
    body: impl FnOnce(&Arc<Process>, &A) -> Result<NTSTATUS, Failure>,
) -> NTSTATUS {
    guarded(name, |process| body(process, &user::read(args)?))
}

/// As [`enter`], for a body that copies the arguments in and out itself.
pub(super) fn guarded(name: &'static str, body: impl FnOnce(&Arc<Process>) -> Result<NTSTATUS, Failure>) -> NTSTATUS {
    let Some(process) = Process::current() else { return STATUS_ACCESS_DENIED };
    let Some(_inside) = process.enter() else { return STATUS_ACCESS_DENIED };
    let verifier = process.machine().verifier();
    if verifier.is_stopped() {
        process.tell_removed(name);
        return STATUS_DEVICE_REMOVED;
    }
    let work = || {
        let _powered = Powered::enter(&process, name);
        body(&process)
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => {
            match failure.why() {
                Some(why) => verifier.log(format!("{name} fails with {}: {why}", failure.status())),
                None if failure.status() == STATUS_DEVICE_REMOVED => process.tell_removed(name),
                None => {}
            }
            failure.status()
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            let reason = format!("the graphics kernel failed inside {name}: {text}");
            verifier.raise(Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], reason));
            STATUS_INTERNAL_ERROR
        }
    }
}
