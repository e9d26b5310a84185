//! The command processor (CMP): the scheduler that takes hardware queues to the nodes.
//!
//! Locks, always taken in this order: the registers (one command at a time), a node, the ranges of system memory (shared), then one of
//! doorbells, wait lists or events, and an inbox last. A node's lock is taken for one bounded slice; while another thread has it, the node
//! accesses nothing.

mod commands;
mod idle;
mod logs;
mod node;
pub(crate) mod power;
mod processor;
mod saved;
mod scheduling;
mod scheduling_log;

pub use processor::Activity;
pub(crate) use processor::Cmp;
