//! The conformance cases of the thunks, on the thunks of Windows.
//!
//! What is here builds everywhere: which cases there are, how they are picked, run and told. `system` finds the thunks and the adapter.

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
