//! The cases of the thunks, by area.
//!
//! An area's other cases, which look behind the thunks, are in the file of the same name in `inside`.

pub mod adapter;
pub mod adapter_info;
pub mod adapter_registry;
pub mod any_driver;
pub mod any_driver_access;
mod any_driver_error;
pub mod any_driver_lab;
pub mod any_driver_paging;
pub mod any_driver_queue;
pub mod any_driver_reset;
pub mod any_driver_user;
pub mod budget;
pub mod caps;
pub mod coherency;
pub mod compute;
pub mod compute_dispatch;
pub mod compute_faults;
pub mod compute_lab;
pub mod compute_lanes;
pub mod compute_operations;
pub mod compute_rules;
pub mod context_destruction;
pub mod control;
pub mod destruction;
pub mod doorbell;
pub mod doorbell_resize;
pub mod doorbell_ring;
pub mod existing_memory;
pub mod exit;
pub mod fault;
pub mod fence;
pub mod fence_32_bits;
pub mod fence_backwards;
pub mod fence_batches;
pub mod fence_hostile;
pub mod fence_interrupts;
pub mod fence_log;
pub mod fence_monitored;
pub mod fence_monitored_flags;
pub mod fence_rights;
pub mod fence_sharing;
pub mod fence_waits;
pub mod gpu_address;
pub mod gpu_update;
pub mod hostile;
pub mod keyed_mutex;
mod keyed_mutex_calls;
pub mod lifecycle;
pub mod lock;
pub mod memory;
pub mod memory_forms;
pub mod offer;
pub mod older_sync;
pub mod older_sync_together;
pub mod packet;
pub mod queue;
pub mod race_table;
pub mod races;
pub mod residency;
pub mod shared_objects;
pub mod statistics;
pub mod statistics_totals;
pub mod submission;
pub mod sync_object;
pub mod testing;

use crate::CaseInfo;

pub(crate) const TABLES: &[&[CaseInfo]] = &[
    adapter::CASES,
    adapter_info::CASES,
    adapter_registry::CASES,
    caps::CASES,
    control::CASES,
    memory::CASES,
    memory_forms::CASES,
    existing_memory::CASES,
    lock::CASES,
    destruction::CASES,
    coherency::CASES,
    gpu_address::CASES,
    gpu_update::CASES,
    residency::CASES,
    shared_objects::CASES,
    budget::CASES,
    offer::CASES,
    statistics::CASES,
    statistics_totals::CASES,
    queue::CASES,
    doorbell::CASES,
    doorbell_resize::CASES,
    doorbell_ring::CASES,
    submission::CASES,
    packet::CASES,
    compute::CASES,
    compute_lanes::CASES,
    compute_operations::CASES,
    compute_rules::CASES,
    compute_dispatch::CASES,
    compute_faults::CASES,
    fence::CASES,
    fence_hostile::CASES,
    fence_log::CASES,
    fence_sharing::CASES,
    fence_rights::CASES,
    fence_waits::CASES,
    fence_backwards::CASES,
    fence_batches::CASES,
    fence_monitored::CASES,
    fence_monitored_flags::CASES,
    sync_object::CASES,
    fence_32_bits::CASES,
    older_sync::CASES,
    context_destruction::CASES,
    older_sync_together::CASES,
    keyed_mutex::CASES,
    fence_interrupts::CASES,
    fault::CASES,
    hostile::CASES,
    lifecycle::CASES,
    races::CASES,
    exit::CASES,
    testing::CASES,
    any_driver::CASES,
    any_driver_access::CASES,
    any_driver_paging::CASES,
    any_driver_queue::CASES,
    any_driver_reset::CASES,
    any_driver_user::CASES,
];
