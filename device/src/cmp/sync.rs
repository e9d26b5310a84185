//! What mail, wait lists and doorbells stand on, named in one place: the models of the workspace check the same three files with
//! every thread switch and every order of memory accesses by putting a module of their own here.

pub(super) use crate::lock::lock;
pub(super) use crate::memory::{Access, HostMapping};
pub(super) use std::sync::Mutex;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
