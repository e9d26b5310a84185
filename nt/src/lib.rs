//! What the operating-system side needs of a kernel that has nothing of WDDM in it: it loads driver images, calls into them, serves their calls, and
//! stops the machine when they break a rule.
//!
//! Each module imports only modules that stand above it here.

#![recursion_limit = "256"]

pub mod bugcheck;
pub mod bus;
mod calls;
pub mod clock;
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
pub mod loader;
pub mod lock;
pub mod pci;
pub mod pool;
pub mod ram;
pub mod range;
pub mod registry;
pub mod services;
pub mod user_space;
pub mod verifier;
pub mod watchdog;
