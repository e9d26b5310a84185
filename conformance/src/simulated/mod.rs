//! The simulated machine for cases: what one is given that looks behind the thunks, and the run of a case to its end.

mod did;
mod runner;

pub use crate::behind::Case;
pub(crate) use crate::behind::{on_thread, one_doorbell, with_gpu};
pub use runner::{describe, release_shared, run, run_within};
