//! The part of the operating-system side that is not specific to WDDM: it loads driver images, calls into them, provides the kernel functions that
//! they import, and stops the machine when they break a rule.
//!
//! `xtask/layers.toml` has the layers of its modules; a module imports only modules of lower layers.

#![recursion_limit = "256"]

pub mod bugcheck;
pub mod bus;
mod calls;
pub mod clock;
pub mod contiguous;
pub mod deferred;
pub mod device_object;
pub mod driver;
pub mod driver_call;
pub mod etw;
mod exception;
pub mod fault;
pub mod image;
pub mod irql;
pub mod kernel_stack;
pub mod lent;
pub mod loader;
pub mod lock;
pub mod lookaside;
mod objects;
pub mod page;
pub mod pci;
pub mod pool;
pub mod ram;
pub mod range;
pub mod registry;
pub mod resource;
pub mod say;
mod seh;
pub mod services;
mod unwind;
pub mod user_space;
pub mod verifier;
pub mod watchdog;
