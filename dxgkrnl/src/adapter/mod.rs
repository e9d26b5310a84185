//! An adapter: one started function or several that are linked, their driver, and everything the system keeps about it.

mod device_power;
mod features;
mod idle;
mod link;
mod mcdm;
mod power;
mod query;
mod registry;
mod rules;
mod start;
mod surprise;

pub(crate) use device_power::{NotAsleep, PowerAction};
pub(crate) use link::check_chain;
pub(crate) use registry::{adapter_of, adapters_of};
pub(crate) use start::{DeviceSettings, DeviceStack, Member, add, start};

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use nt::lock::Mutex;

use crate::caps::{AdapterCaps, EnabledFeatures, NodeCaps, Segment};
use crate::config::Installation;
use crate::interrupt::InterruptThread;
use crate::port::{Link, Port};
use crate::rank;
use crate::start_error::StartError;
use crate::vidmm::VidMm;
use crate::vidsch::VidSch;
use features::Features;

/// One adapter between StartDevice and StopDevice: the port to its driver, with the scheduler and the memory manager that plug and play
/// has put upon it.
pub(crate) struct Adapter {
    /// What scheduler and memory manager know of it.
    port: Arc<Port>,
    /// The registry keys of its driver.
    pub(crate) installation: Installation,
    interrupt_thread: Mutex<Option<InterruptThread>>,
    features: Features,
    /// Set while the adapter is in D3; held over the transitions.
    asleep: Mutex<Option<device_power::Asleep>, rank::DevicePower>,
    /// Ways from D0 to D3, and back.
    transitions: (AtomicU64, AtomicU64),
    /// Since when nothing happens.
    idle: Mutex<idle::Watch, rank::IdlePolicy>,
    vidsch: OnceLock<Arc<VidSch>>,
    vidmm: OnceLock<Arc<VidMm>>,
    start_log: OnceLock<Vec<String>>,
    /// Tokens of DxgkCbAcquireHandleData that were not released.
    pub(crate) acquired: Mutex<HashSet<usize>>,
}

impl Deref for Adapter {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.port
    }
}

impl Adapter {
    /// The scheduler. Only valid once it was created during start.
    pub(crate) fn vidsch(&self) -> &Arc<VidSch> {
        self.vidsch.get().expect("the scheduler exists before anything can be submitted")
    }

    /// The scheduler, if start has come that far.
    pub(crate) fn scheduler(&self) -> Option<&Arc<VidSch>> {
        self.vidsch.get()
    }

    /// The memory manager. Only valid once it was created during start.
    pub(crate) fn vidmm(&self) -> &Arc<VidMm> {
        self.vidmm.get().expect("the memory manager exists before any process does")
    }

    /// The memory manager, if start has come that far.
    pub(crate) fn memory_manager(&self) -> Option<&Arc<VidMm>> {
        self.vidmm.get()
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
