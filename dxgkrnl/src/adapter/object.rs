//! What an adapter is, without what is done with it.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use nt::lock::Mutex;

use super::asleep::Asleep;
use super::idle_since::IdleState;
use crate::config::Installation;
use crate::interrupt::InterruptThread;
use crate::rank;
use crate::vidsch::RenderAdapter;

/// One adapter between StartDevice and StopDevice, as plug and play knows it: the port to its driver, with the scheduler and the memory
/// manager that start has put upon it, and its power.
pub(crate) struct Adapter {
    /// The part of the adapter that devices and their objects use.
    pub(super) render: Arc<RenderAdapter>,
    /// The registry keys of its driver.
    pub(crate) installation: Installation,
    pub(super) interrupt_thread: Mutex<Option<InterruptThread>>,
    /// Set while the adapter is in D3; held over the transitions.
    pub(super) asleep: Mutex<Option<Asleep>, rank::DevicePower>,
    /// Ways from D0 to D3, and back.
    pub(super) transitions: (AtomicU64, AtomicU64),
    /// Since when nothing happens.
    pub(super) idle: Mutex<IdleState, rank::IdlePolicy>,
    pub(super) start_log: OnceLock<Vec<String>>,
    /// Tokens of DxgkCbAcquireHandleData that were not released.
    pub(crate) acquired: Mutex<HashSet<usize>>,
}

impl Deref for Adapter {
    type Target = RenderAdapter;

    fn deref(&self) -> &RenderAdapter {
        &self.render
    }
}

impl Adapter {
    /// The part of the adapter that devices and their objects use.
    pub(crate) fn render(&self) -> &Arc<RenderAdapter> {
        &self.render
    }

    /// Notes the DDIs called at start, once.
    pub(crate) fn set_start_log(&self, log: Vec<String>) {
        let _ = self.start_log.set(log);
    }

    /// The DDIs called at start, in order.
    pub(crate) fn start_log(&self) -> &[String] {
        self.start_log.get().map_or(&[], Vec::as_slice)
    }
}
