//! What is done with fences: their values are written and waited for, they are created and end, and reports say which were signalled.
//!
//! Each file imports only files below it, the [`scheduler`](super::scheduler) and its [`objects`](super::objects). From the bottom up: `values` and
//! `native_fence`, which call the driver; `fence` with `cross_adapter` and `sync_object`, which do one thing to one fence; `batch`, which does it to several;
//! `wait`, `creation` and `reach`, which serve thunks; `signalled`, `log` and `overdue`, which find out what was signalled.

pub(in crate::vidsch) mod batch;
pub(in crate::vidsch) mod creation;
pub(in crate::vidsch) mod cross_adapter;
pub(in crate::vidsch) mod fence;
pub(in crate::vidsch) mod log;
pub(in crate::vidsch) mod native_fence;
pub(in crate::vidsch) mod overdue;
pub(in crate::vidsch) mod reach;
pub(in crate::vidsch) mod shared_fence;
pub(in crate::vidsch) mod signalled;
pub(in crate::vidsch) mod sync_file;
pub(in crate::vidsch) mod sync_object;
pub(in crate::vidsch) mod values;
pub(in crate::vidsch) mod wait;
