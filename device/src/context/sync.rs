//! What the mailbox, the wait lists and the doorbells of the command processor (CMP) use of threads and memory, named in one place. The
//! crate `models` compiles the same three files with a module of its own here, and so checks them under every thread switch and every
//! order of memory accesses.

pub(crate) use crate::lock::lock;
pub(crate) use crate::memory::{Access, HostMapping};
pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
