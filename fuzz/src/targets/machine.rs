//! A machine in this process with GPU and drivers, for targets that call thunks.

use std::sync::{Arc, LazyLock};

use campanile_conformance::kmt::Kmt;
use dxgkrnl::{Holdings, Process};
use testbed::setup::{System, SystemOptions};
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::LUID;

/// The machine of all inputs: it has no threads of its own, so that an input does the same each time.
static SYSTEM: LazyLock<System> =
    LazyLock::new(|| System::boot(&SystemOptions { threads: false, ..SystemOptions::default() }).expect("a machine"));

/// A thunk.
type Thunk<T> = unsafe extern "win64" fn(*mut T) -> NTSTATUS;

/// A process of an input, until [`User::leave`].
pub(super) struct User {
    pub(super) process: Arc<Process>,
    attached: dxgkrnl::Attached,
    before: Holdings,
}

impl User {
    pub(super) fn new() -> Self {
        let before = holdings();
        let process = Process::new(SYSTEM.machine(), "fuzz");
        let attached = process.attach();
        Self { process, attached, before }
    }

    /// The thunks.
    pub(super) fn kmt(&self) -> Kmt {
        Kmt::new()
    }

    pub(super) fn luid(&self) -> LUID {
        SYSTEM.luid()
    }

    /// Calls a thunk, which stops no machine.
    pub(super) fn call<T>(&self, thunk: Thunk<T>, arguments: &mut T) -> NTSTATUS {
        let status = self.kmt().call(thunk, arguments);
        assert_eq!(SYSTEM.machine().bugcheck(), None, "a bug check");
        status
    }

    /// Ends the process: nothing of it is left, and nothing had to be made good.
    pub(super) fn leave(self) {
        drop(self.attached);
        self.process.exit();
        assert_eq!(SYSTEM.machine().bugcheck(), None, "a bug check");
        assert_eq!(SYSTEM.machine().take_rescues(), [], "what the system made good");
        assert_eq!(holdings(), self.before, "what the machine holds behind the process");
    }
}

/// Counts of the machine's objects that belong to processes.
fn holdings() -> Holdings {
    let holdings = SYSTEM.machine().holdings(SYSTEM.luid()).expect("a started adapter");
    Holdings { pool_blocks: 0, memory: 0, ..holdings }
}
