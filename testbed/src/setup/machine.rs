//! What a user chooses of a machine: its GPU, where the operating-system side lets fences lie, and who schedules.

use clap::ValueEnum;
use dxgkrnl::PowerSettings;

use super::{BusChoice, FaultOption, SystemOptions, VariantOptions};

/// Where values of native fences may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FenceStorage {
    /// In system memory, as in the first release of native fences.
    #[default]
    System,
    /// Monitored values in the GPU's memory, and fences between engines entirely.
    Local,
}

/// Who decides what an engine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Scheduling {
    /// The GPU, which takes work from user mode.
    #[default]
    Hardware,
    /// The operating system, which hands over one packet after the other; hardware scheduling is off.
    Packet,
}

/// The choices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineOptions {
    /// The GPU to build.
    pub variant: VariantOptions,
    /// Where values of native fences may lie.
    pub fences: FenceStorage,
    /// How the GPU is reached; `None`: see [`BusChoice`].
    pub bus: Option<BusChoice>,
    /// Who decides what an engine runs.
    pub scheduling: Scheduling,
    /// Idle power policy; `None`: none, or [`PowerSettings::in_use`] for a machine that somebody uses.
    pub power: Option<PowerSettings>,
    /// What goes wrong with the first GPU from the start of the machine on.
    pub faults: Vec<FaultOption>,
}

impl MachineOptions {
    /// The machine as somebody uses it rather than tests it, see [`VariantOptions::in_use`].
    #[must_use]
    pub fn in_use(self) -> Self {
        Self { variant: self.variant.in_use(), power: self.power.or(Some(PowerSettings::in_use())), ..self }
    }

    /// A system with these choices.
    pub fn system(&self) -> SystemOptions {
        let mut options =
            SystemOptions { variant: self.variant.0.clone(), bus: self.bus.clone(), ..SystemOptions::default() };
        let local = self.fences == FenceStorage::Local;
        options.features.optimized_default_fences = local;
        options.features.intra_gpu_fences = local;
        options.features.hardware_scheduling = self.scheduling == Scheduling::Hardware;
        options.power = self.power.unwrap_or_default();
        options
    }
}
