//! What the operating-system side asks of a minimal miniport and does with its answers, and thunks over it.

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
#[path = "../minimal/mod.rs"]
mod minimal;

mod bad_pointers;
mod device_faults;
mod driver_caps;
mod driver_unload;
mod hardware_queue_versions;
mod interface_versions;
mod mcdm;
mod memory_thunks;
mod minimal_miniport;
mod minimal_queue;
mod outliving;
mod power;
mod power_threads;
mod priorities;
mod quotas;
mod silent_driver;
mod standing_queues;
mod stopped_process;
mod surprise_removal;
mod uninvalidated_contexts;
