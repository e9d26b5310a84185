//! Configuration of a machine: memory, features, timeouts, clock and idle power policy.

use std::sync::Arc;
use std::time::Duration;

mod power;
mod registry;
mod tdr;

use nt::clock::Clock;
use nt::pool::SpecialPool;
pub use power::PowerSettings;
pub(crate) use registry::{CLASS, CLASS_NAME, SERVICES, USER_MODE_DRIVER_NAME};
pub use registry::{Installation, RegistryKey, RegistryValue};
pub use tdr::{TdrDebugMode, TdrLevel, TdrSettingError, TdrSettings};

/// The control requests that the graphics kernel answers with its registration function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistrationRequests {
    /// Those of Windows 7 and of Windows 8 and later.
    #[default]
    All,
    /// That of Windows 7 alone.
    Windows7,
}

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
    /// SupportOptimizedDefaultFenceType of native fences: monitored values of private fences of the default type may lie in local
    /// memory, where the driver says so. Off in the first release of native fences. [d3dkmddi:
    /// DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1]
    pub optimized_default_fences: bool,
    /// SupportIntraGpuFenceType of native fences: fences between engines exist, with both values in local memory. Off as above.
    pub intra_gpu_fences: bool,
}

impl Default for FeaturePolicy {
    fn default() -> Self {
        Self {
            hardware_scheduling: true,
            native_fence: true,
            user_mode_submission: true,
            kernel_mode_testing: true,
            optimized_default_fences: false,
            intra_gpu_fences: false,
        }
    }
}

/// Gives the devices of a single-threaded machine a slice of time; false when there was nothing to do.
pub type Idle = Arc<dyn Fn() -> bool + Send + Sync>;

/// The time that a call into a driver may take unless the machine says otherwise.
pub const DRIVER_LIMIT: Duration = Duration::from_secs(300);

/// Configuration of a machine.
#[derive(Clone)]
pub struct MachineConfig {
    /// Bytes of physical memory, sparse.
    pub ram: u64,
    /// The descriptors of memory that a process gets show it nothing of others. Only with buses whose function maps memory in this process.
    pub isolated_memory: bool,
    /// Features that the operating system allows.
    pub features: FeaturePolicy,
    /// Each adapter has a thread for its interrupts. When false, [`crate::Machine::deliver_interrupts`] delivers them.
    pub interrupt_thread: bool,
    /// Kernel addresses that a driver gets for one DDI call are taken away after it.
    pub short_lived_addresses: bool,
    /// Pool of drivers on pages of their own. Answers of DxgkDdiQueryAdapterInfo are filled with a pattern beforehand then, and one that is left out is an error.
    pub special_pool: SpecialPool,
    /// Timeout detection and recovery.
    pub tdr: TdrSettings,
    /// Clock by which timeouts are measured.
    pub clock: Clock,
    /// Idle power policy.
    pub power: PowerSettings,
    /// How long a call into a driver may take, in time of the host; half of it at DISPATCH_LEVEL and above. A call that takes longer stops the
    /// machine. One that cannot be ended then ends the process, with [`crate::EXIT_STUCK`].
    pub driver_limit: Duration,
    /// The control requests by which an image reaches the registration function.
    pub registration: RegistrationRequests,
    /// Runs while the kernel waits and no thread drives the device, see [`MachineConfig::interrupt_thread`].
    pub idle: Option<Idle>,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            ram: 1 << 30,
            isolated_memory: true,
            features: FeaturePolicy::default(),
            interrupt_thread: true,
            short_lived_addresses: false,
            special_pool: SpecialPool::Off,
            tdr: TdrSettings::default(),
            clock: Clock::default(),
            power: PowerSettings::default(),
            driver_limit: DRIVER_LIMIT,
            registration: RegistrationRequests::default(),
            idle: None,
        }
    }
}
