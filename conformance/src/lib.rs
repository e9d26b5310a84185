//! The conformance cases: each checks the stack against one requirement of a published page.
//!
//! One [`registry`] has them all, and one macro declares them, area by area. Those in [`cases`] need nothing but the thunks: they speak through the
//! tables that [`provide`] was given, whoever fills them, and so run on Windows, in `hlk.exe`, as they run on the simulated
//! machine, in `campanile hlk`. Those in [`inside`] look at the simulated machine behind the thunks and are built with the
//! feature of that name only, as [`simulated`] is, which runs cases there.
//!
//! Layers, each of which uses only those after it: the registry; the cases; `simulated`; what a case is ([`CaseInfo`]) and what is told of it
//! ([`report`], [`merge`], [`junit`]); what a running case works with (`behind` the thunks, or [`Case`] over them); the [`rig`], which calls the thunks as a
//! program would; the thunks themselves ([`kmt`]).

#[macro_use]
mod failure;
#[macro_use]
mod case;

#[cfg(feature = "inside")]
mod behind;
pub mod cases;
mod claim;
mod event;
#[cfg(feature = "inside")]
pub mod inside;
pub mod installed;
pub mod junit;
pub mod kmt;
pub mod merge;
mod need;
pub mod opaque;
pub mod registry;
pub mod report;
pub mod rig;
mod running;
pub mod seed;
pub mod shard;
#[cfg(feature = "inside")]
pub mod simulated;
mod status;
mod wait;

pub use case::{Boot, CaseInfo, Run, RunThunks};
pub use claim::Claim;
pub use event::{Event, EventNumber};
pub use failure::{Failure, granted, refused};
pub use kmt::provide;
pub use need::{Need, Needs};
pub use report::About;
pub use running::Case;
