//! What the operating-system side needs of a kernel that has nothing of WDDM in it.

pub mod lock;
