//! The operating-system side of WDDM 3.2.
pub mod bus;
