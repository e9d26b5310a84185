//! Sequences of thunks, against a model of which objects are alive.

mod calls;
mod model;

use wddm_ddi::types::NTSTATUS;

use crate::input::Input;
use crate::targets::machine::User;
use calls::OPERATIONS;
use model::Model;

/// Thunks of an input, at most.
const CALLS: usize = 64;

/// Success of a thunk, or the status that it is refused with, as the model foresees it.
type Foreseen = Result<(), NTSTATUS>;

/// Holds a status against what was foreseen. True if the thunk did it.
#[track_caller]
fn hold(status: NTSTATUS, foreseen: Foreseen) -> bool {
    match foreseen {
        Ok(()) => assert!(status.is_success(), "{status}, not success"),
        Err(refusal) => assert_eq!(status, refusal, "the status of what cannot be done"),
    }
    foreseen.is_ok()
}

/// Each thunk succeeds or has the named status that a model of the living objects foresees; the process has as many handles as objects are alive, and leaves nothing behind.
pub(crate) fn thunks(data: &[u8]) {
    let mut input = Input::new(data);
    let user = User::new();
    let mut model = Model::default();
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        let operation = OPERATIONS[usize::from(input.u8()) % OPERATIONS.len()];
        operation(&user, &mut model, &mut input);
        assert_eq!(user.process.handle_count(), model.count(), "handles of the process");
    }
    user.leave();
}
