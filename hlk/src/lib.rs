//! Conformance cases over nothing but the thunks, and the rig that all cases work with.
//!
//! What is here knows no operating-system side: it speaks through the tables that [`provide`] was given, whoever fills them. That are the simulated
//! machine's own functions for `campanile hlk`, and those of `gdi32.dll` for `hlk.exe` on Windows. Cases that look behind the thunks
//! live with the simulated machine and cannot be written here.

#[macro_use]
mod failure;
#[macro_use]
mod case;

pub mod cases;
mod claim;
mod event;
pub mod junit;
pub mod kmt;
pub mod merge;
mod need;
pub mod report;
pub mod rig;
pub mod seed;
pub mod shard;
mod status;
mod wait;

pub use case::{Boot, Case, ThunkCase};
pub use cases::cases;
pub use claim::Claim;
pub use event::{Event, EventNumber};
pub use failure::{Failure, granted, refused};
pub use kmt::provide;
pub use need::{Need, Needs};
pub use report::About;
