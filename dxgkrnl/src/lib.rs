//! The operating-system side of WDDM 3.2: an independent implementation that loads miniport drivers and runs them.
//!
//! It knows the interface (`wddm-ddi`) and nothing of any particular GPU or driver. A [`Machine`] owns physical memory and the
//! functions plugged into it; [`thunks`] is what user mode calls.

pub mod bus;
pub mod irql;
mod miniport;
mod ram;
mod range;
pub mod verifier;
mod vidsch;
