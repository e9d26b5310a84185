//! Options of a simulated system: its GPUs, the features that are enabled, timeouts, and how the driver is loaded.

use std::time::Duration;

use campanile_device::Variant;
use dxgkrnl::verifier::SpecialPool;
use dxgkrnl::{Clock, DRIVER_LIMIT, FeaturePolicy, PowerSettings, RegistrationRequests, RegistryValue, TdrSettings};

use super::bus::BusChoice;
#[cfg(doc)]
use super::{driver_limit::DriverLimit, gpu_handle::GpuHandle, special_pool::PoolChoice, timeouts::TdrChoice};

/// A GPU to build and start.
#[derive(Clone, Debug, Default)]
pub struct AdapterOptions {
    /// The GPU.
    pub variant: Variant,
    /// The features that the operating-system side enables when the driver asks.
    pub features: FeaturePolicy,
}

/// A simulated system that is to be booted.
#[derive(Clone, Debug)]
pub struct SystemOptions {
    /// The first GPU to build.
    pub variant: Variant,
    /// The features that the operating-system side enables when its driver asks.
    pub features: FeaturePolicy,
    /// Further GPUs of the same driver.
    pub others: Vec<AdapterOptions>,
    /// Run GPU and interrupts on threads of their own. Otherwise the GPU moves only in [`GpuHandle::step`], which the kernel calls
    /// while it waits, and interrupts are delivered there too.
    pub threads: bool,
    /// Kernel addresses that the driver gets for one DDI call are taken away after it.
    pub short_lived_addresses: bool,
    /// Pool of the driver on pages of its own. `None`: as the command line or the environment says, see [`PoolChoice`].
    pub special_pool: Option<SpecialPool>,
    /// How the GPUs are reached. `None`: as the command line or the environment says, see [`BusChoice`].
    pub bus: Option<BusChoice>,
    /// Timeout detection and recovery, with the values that the command line or the environment says, see [`TdrChoice`].
    pub tdr: TdrSettings,
    /// The clock that timeouts are measured by.
    pub clock: Clock,
    /// Idle power policy.
    pub power: PowerSettings,
    /// How long a call into the driver may take, unless the command line or the environment says, see [`DriverLimit`].
    pub driver_limit: Duration,
    /// The control requests by which a driver image reaches the registration function.
    pub registration: RegistrationRequests,
    /// Values in the software key of the driver beside those that its INF file has, as a developer writes them.
    pub software: Vec<(&'static str, RegistryValue)>,
}

impl Default for SystemOptions {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            features: FeaturePolicy::default(),
            others: Vec::new(),
            threads: true,
            short_lived_addresses: false,
            special_pool: None,
            bus: None,
            tdr: TdrSettings::default(),
            clock: Clock::default(),
            power: PowerSettings::default(),
            driver_limit: DRIVER_LIMIT,
            registration: RegistrationRequests::default(),
            software: Vec::new(),
        }
    }
}
