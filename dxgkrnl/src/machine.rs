//! The machine: physical memory, what is plugged in, which drivers are loaded, and plug and play.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use wddm_ddi::types::LUID;

use crate::adapter::Adapter;
use crate::bus::Bus;
use crate::ram::Ram;
use crate::verifier::{Bugcheck, Verifier};

/// Which negotiable features the operating system is willing to enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeaturePolicy {
    /// DXGK_FEATURE_HWSCH.
    pub hardware_scheduling: bool,
    /// DXGK_FEATURE_NATIVE_FENCE.
    pub native_fence: bool,
    /// DXGK_FEATURE_USER_MODE_SUBMISSION; needs the two above.
    pub user_mode_submission: bool,
    /// DXGK_FEATURE_KERNEL_MODE_TESTING.
    pub kernel_mode_testing: bool,
}

impl Default for FeaturePolicy {
    fn default() -> Self {
        Self { hardware_scheduling: true, native_fence: true, user_mode_submission: true, kernel_mode_testing: true }
    }
}

/// Gives the devices of a single-threaded machine a slice of time; false when there was nothing to do.
pub type Idle = Arc<dyn Fn() -> bool + Send + Sync>;

/// How to build a machine.
#[derive(Clone)]
pub struct MachineConfig {
    /// Bytes of physical memory, sparse.
    pub ram: u64,
    /// Features that the operating system allows.
    pub features: FeaturePolicy,
    /// Each adapter has a thread for its interrupts. When false, [`Machine::deliver_interrupts`] delivers them.
    pub interrupt_thread: bool,
    /// Runs while the kernel waits and no thread drives the device, see [`MachineConfig::interrupt_thread`].
    pub idle: Option<Idle>,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self { ram: 1 << 30, features: FeaturePolicy::default(), interrupt_thread: true, idle: None }
    }
}

/// A machine could not be built.
#[derive(Debug)]
pub enum Error {
    /// Physical memory could not be set up.
    Memory(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "physical memory could not be set up: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// A function that was plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(pub(crate) usize);

/// A computer with its own memory, devices, drivers and graphics kernel. Several live side by side in one process.
#[derive(Clone)]
pub struct Machine(Arc<MachineInner>);

pub(crate) struct MachineInner {
    pub(crate) config: MachineConfig,
    pub(crate) ram: Arc<Ram>,
    pub(crate) verifier: Arc<Verifier>,
    adapters: RwLock<Vec<Arc<Adapter>>>,
    devices: Mutex<Vec<Arc<dyn Bus>>>,
}

/// The machine as its parts know it: memory and verifier for good, the rest only while it lives.
#[derive(Clone)]
pub(crate) struct MachineRef {
    ram: Arc<Ram>,
    verifier: Arc<Verifier>,
    config: MachineConfig,
    inner: Weak<MachineInner>,
}

impl MachineRef {
    pub(crate) fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }

    pub(crate) fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    pub(crate) fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// The machine itself, unless it is gone.
    pub(crate) fn upgrade(&self) -> Option<Machine> {
        self.inner.upgrade().map(Machine)
    }
}

/// Locks without caring for poison: a panic elsewhere must not hide the first failure.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Machine {
    /// Builds a machine with nothing plugged in.
    ///
    /// # Errors
    /// Physical memory cannot be reserved.
    pub fn new(config: MachineConfig) -> Result<Self, Error> {
        let ram = Ram::new(config.ram).map_err(Error::Memory)?;
        Ok(Self(Arc::new(MachineInner {
            config,
            ram,
            verifier: Arc::new(Verifier::default()),
            adapters: RwLock::new(Vec::new()),
            devices: Mutex::new(Vec::new()),
        })))
    }

    /// Plugs a function in.
    pub fn plug_in(&self, bus: Arc<dyn Bus>) -> DeviceId {
        let mut devices = lock(&self.0.devices);
        devices.push(bus);
        DeviceId(devices.len() - 1)
    }

    /// The bugcheck that stopped the machine, if any.
    pub fn bugcheck(&self) -> Option<Bugcheck> {
        self.0.verifier.bugcheck()
    }

    pub(crate) fn ram(&self) -> &Arc<Ram> {
        &self.0.ram
    }

    pub(crate) fn verifier(&self) -> &Arc<Verifier> {
        &self.0.verifier
    }

    /// The adapter with this identifier, running or not.
    pub(crate) fn adapter(&self, luid: LUID) -> Option<Arc<Adapter>> {
        self.adapters().into_iter().find(|adapter| adapter.luid == luid)
    }

    /// Every adapter that was started and not yet stopped.
    pub(crate) fn adapters(&self) -> Vec<Arc<Adapter>> {
        self.0.adapters.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// What parts of the machine keep of it.
    pub(crate) fn downgrade(&self) -> MachineRef {
        MachineRef {
            ram: Arc::clone(&self.0.ram),
            verifier: Arc::clone(&self.0.verifier),
            config: self.0.config.clone(),
            inner: Arc::downgrade(&self.0),
        }
    }
}
