//! Timeout detection and recovery. [tdr-changes-in-windows-8]
//!
//! If work makes no progress for TdrDelay, its context is suspended or its packet preempted ([`watch`]). If it does not leave the engine within another
//! TdrDelay, the engine is reset, which takes other DDIs for hardware queues ([`hardware`]) than for packets ([`packet`]), and if that does not help,
//! the adapter is ([`adapter`]).
//!
//! It stands above the scheduler, which complains of work that does not leave its engine and knows this as [`Recovery`]. No thread waits for
//! `Tdr::recovering`: it is tried. [`Tdr::recover_from`] loses the devices that a reset has named when it is free again.

mod adapter;
mod counting;
mod hardware;
mod heard;
mod packet;
mod recovery;
mod report;
mod standing;
mod stands;
mod state;
mod suspects;
mod watch;

pub(crate) use state::Tdr;
