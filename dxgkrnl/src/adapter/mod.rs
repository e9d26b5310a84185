//! An adapter: one started function or several that are linked, their driver, and everything the system keeps about it.
//!
//! Layers: `start` carries out AddDevice and StartDevice and puts an [`Adapter`] together; `device_power`, `idle` and `surprise` change its state from then
//! on. They use `query`, which asks the driver, and `link`, `rules`, `versions` and `mcdm`, which check what it answers and change nothing.
//!
//! Rules: nothing here knows the machine or a process. Devices and their objects use the [`RenderAdapter`] alone, which is a part of an adapter and stands
//! below. The locks of a transition between D0 and D3 are held over it, in the order of [`rank`](crate::rank).

mod answer;
mod device_power;
mod idle;
mod link;
mod mcdm;
mod power;
mod query;
mod registry;
mod reserved;
mod reserved_bits;
mod rules;
mod segments;
mod start;
mod surprise;
mod versions;

pub(crate) use device_power::{NotAsleep, PowerAction};
pub(crate) use link::check_chain;
pub(crate) use registry::{adapter_of, adapters_of};
pub(crate) use start::{DeviceSettings, DeviceStack, add, start};

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use nt::lock::Mutex;

use crate::caps::{AdapterCaps, EnabledFeatures, NodeCaps, Segment};
use crate::config::Installation;
use crate::interrupt::InterruptThread;
use crate::port::Link;
use crate::rank;
use crate::start_error::{OutputSize, StartError};
use crate::vidsch::RenderAdapter;

/// One adapter between StartDevice and StopDevice, as plug and play knows it: the port to its driver, with the scheduler and the memory
/// manager that start has put upon it, and its power.
pub(crate) struct Adapter {
    /// The part of the adapter that devices and their objects use.
    render: Arc<RenderAdapter>,
    /// The registry keys of its driver.
    pub(crate) installation: Installation,
    interrupt_thread: Mutex<Option<InterruptThread>>,
    /// Set while the adapter is in D3; held over the transitions.
    asleep: Mutex<Option<device_power::Asleep>, rank::DevicePower>,
    /// Ways from D0 to D3, and back.
    transitions: (AtomicU64, AtomicU64),
    /// Since when nothing happens.
    idle: Mutex<idle::IdleState, rank::IdlePolicy>,
    start_log: OnceLock<Vec<String>>,
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
