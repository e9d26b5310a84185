//! Queues that user mode writes to, native fences and their logs, on a miniport whose engines do what each test says.

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
#[path = "../minimal/mod.rs"]
mod minimal;
#[allow(dead_code)]
#[path = "../user_mode/mod.rs"]
mod user_mode;

mod cross_adapter_fence;
mod engine_reset;
mod fence_batches;
mod fence_log;
mod fence_sharing;
mod fence_storage;
mod native_fence;
mod optimised_interrupt;
mod process_fault;
mod reset_beside_programs;
mod reset_silence;
mod stop_beside_programs;
mod user_mode_queue;
