//! The conformance cases of the thunks, on the thunks of Windows.
//!
//! Layers, each of which uses those after it: `command` reads the command line and runs what it asks for; `system` finds the thunks and the adapter, and
//! `inside_table` has the names of the cases that need a look behind the thunks; `run`, `apart`, `inside`, `start` and `exit` run cases here or each in a
//! process of its own, and turn results into an exit code.
//!
//! Rules: everything but `system` builds and is tested on every host. A case that cannot run here is reported as skipped with the reason, never left out.

pub mod apart;
pub mod command;
mod exit;
mod inside;
mod inside_table;
mod run;
mod system;

pub use inside::Inside;
pub use inside_table::INSIDE;
pub use run::{Skipped, run};
