//! The driver alone, through the table that it registered: what it reports, in which order, what it tells the hardware, and what it gives back.
//!
//! Here the case is the operating system and the device at once ([`system`]): it calls entry points in any order that the contract allows, also in such that the
//! scheduler and memory manager of `dxgkrnl` never need, and writes into the event ring what a GPU would.

pub(super) mod descriptors;
pub(super) mod doorbells;
pub(super) mod engine_status;
pub(super) mod events;
pub(super) mod fences;
pub(super) mod function_reset;
pub(super) mod host_aperture;
pub(super) mod kernel_queues;
mod kernel_ring;
pub(super) mod lifecycle;
pub(super) mod packets;
pub(super) mod page_table_updates;
pub(super) mod paging;
pub(super) mod power;
pub(super) mod queues;
mod report;
pub(super) mod reset;
mod rig;
pub(super) mod roots;
pub(super) mod run_lists;
pub(super) mod scheduling_log;
pub(super) mod sizes;
mod system;
pub(super) mod system_fences;
