//! The cases that look at the simulated machine behind the thunks, by area.
//!
//! They speak to the stack the way user mode does: through the thunks, raw where order and hostile values matter ([`crate::rig`]), and through the
//! user-mode driver where they do not. Beside that they reach the machine, its clock, its GPU and its driver through
//! [`crate::simulated::Case`]. An area's cases over the thunks alone are in the file of the same name in `cases`.

mod adapter;
#[cfg(test)]
mod address_model;
mod any_driver;
mod any_driver_reset;
pub mod bad_pointers;
mod budget;
mod budget_change;
mod caps;
mod coherency;
mod compute;
mod debug_information;
mod debug_name;
mod destruction;
mod doorbell;
mod doorbell_churn;
mod doorbell_fallback;
mod doorbell_resize;
mod driver_queue;
mod dynamic_buffer;
mod event_ring;
mod exit;
mod fault;
mod fault_kinds;
mod fence;
mod fence_32_bits;
mod fence_backwards;
mod fence_batches;
mod fence_cross_adapter;
mod fence_cross_rules;
mod fence_features;
mod fence_hostile;
mod fence_interrupts;
mod fence_log;
mod fence_log_picked;
mod fence_monitored;
mod fence_monitored_umd;
mod fence_optimised;
mod fence_rights;
mod fence_sharing;
mod fence_sharing_umd;
mod fence_storage;
mod fence_stride;
mod fence_system_process;
mod fence_waits;
mod gpu;
mod gpu_address;
mod gpu_update;
mod hang;
mod hog;
mod host_aperture;
mod hostile;
mod kernel_descriptor;
mod lifecycle;
mod linked;
mod lock;
mod lock_moves;
mod lock_removal;
mod long_copies;
mod lost_doorbell;
mod memory;
mod miniport;
mod notified_doorbell;
mod offer;
mod older_sync;
mod packet;
mod packet_power;
mod page_sizes;
mod page_table_updates;
mod posted;
mod power;
mod power_device;
mod power_idle;
mod power_loss;
mod preemption;
mod processes;
mod queue;
mod races;
mod residency;
mod residency_pressure;
mod residency_slices;
mod residency_slices_trouble;
mod scale;
mod scheduling;
mod scheduling_priorities;
mod shared_resource;
mod statistics;
mod submission;
mod surprise;
mod suspended_process;
mod suspended_process_model;
mod suspension;
mod sync_file;
mod table_pressure;
mod tdr;
mod tdr_engine_status;
mod tdr_function_reset;
mod tdr_ids;
mod tdr_lost_reports;
mod tdr_packet;
mod tdr_storm;
mod testing;

use crate::CaseInfo;
pub use tdr_storm::{Storm, set_storm};

pub(crate) const TABLES: &[&[CaseInfo]] = &[
    adapter::CASES,
    caps::CASES,
    memory::CASES,
    lock::CASES,
    dynamic_buffer::CASES,
    host_aperture::CASES,
    lock_moves::CASES,
    lock_removal::CASES,
    destruction::CASES,
    coherency::CASES,
    gpu_address::CASES,
    gpu_update::CASES,
    residency::CASES,
    residency_pressure::CASES,
    page_sizes::CASES,
    page_table_updates::CASES,
    suspended_process::CASES,
    suspended_process_model::CASES,
    residency_slices::CASES,
    residency_slices_trouble::CASES,
    table_pressure::CASES,
    budget::CASES,
    budget_change::CASES,
    offer::CASES,
    older_sync::CASES,
    sync_file::CASES,
    debug_name::CASES,
    kernel_descriptor::CASES,
    shared_resource::CASES,
    statistics::CASES,
    queue::CASES,
    doorbell::CASES,
    doorbell_resize::CASES,
    driver_queue::CASES,
    submission::CASES,
    suspension::CASES,
    scale::CASES,
    scheduling::CASES,
    scheduling_priorities::CASES,
    processes::CASES,
    packet::CASES,
    compute::CASES,
    preemption::CASES,
    packet_power::CASES,
    doorbell_churn::CASES,
    doorbell_fallback::CASES,
    fence::CASES,
    fence_hostile::CASES,
    fence_log::CASES,
    fence_log_picked::CASES,
    fence_sharing::CASES,
    fence_sharing_umd::CASES,
    fence_rights::CASES,
    fence_waits::CASES,
    fence_backwards::CASES,
    fence_batches::CASES,
    fence_monitored::CASES,
    fence_monitored_umd::CASES,
    fence_32_bits::CASES,
    fence_cross_adapter::CASES,
    fence_cross_rules::CASES,
    event_ring::CASES,
    fence_interrupts::CASES,
    fence_optimised::CASES,
    fence_features::CASES,
    fence_storage::CASES,
    fence_stride::CASES,
    fence_system_process::CASES,
    fault::CASES,
    hostile::CASES,
    bad_pointers::CASES,
    debug_information::CASES,
    lifecycle::CASES,
    races::CASES,
    surprise::CASES,
    posted::CASES,
    power::CASES,
    power_device::CASES,
    power_idle::CASES,
    power_loss::CASES,
    exit::CASES,
    long_copies::CASES,
    lost_doorbell::CASES,
    notified_doorbell::CASES,
    tdr::CASES,
    tdr_engine_status::CASES,
    tdr_function_reset::CASES,
    tdr_ids::CASES,
    tdr_lost_reports::CASES,
    tdr_packet::CASES,
    tdr_storm::CASES,
    fault_kinds::CASES,
    linked::CASES,
    testing::CASES,
    gpu::doorbells::CASES,
    gpu::faults::CASES,
    gpu::queues::CASES,
    gpu::translations::CASES,
    gpu::waits::CASES,
    miniport::descriptors::CASES,
    miniport::doorbells::CASES,
    miniport::engine_status::CASES,
    miniport::events::CASES,
    miniport::fences::CASES,
    miniport::function_reset::CASES,
    miniport::host_aperture::CASES,
    miniport::kernel_queues::CASES,
    miniport::lifecycle::CASES,
    miniport::packets::CASES,
    miniport::page_table_updates::CASES,
    miniport::paging::CASES,
    miniport::power::CASES,
    miniport::queues::CASES,
    miniport::reset::CASES,
    miniport::roots::CASES,
    miniport::run_lists::CASES,
    any_driver::CASES,
    any_driver_reset::CASES,
    miniport::scheduling_log::CASES,
    miniport::sizes::CASES,
    miniport::system_fences::CASES,
];
