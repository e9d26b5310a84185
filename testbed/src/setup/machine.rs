//! What a user chooses of a machine: its GPU, where the operating-system side lets fences lie, and which features it withholds.

use clap::ValueEnum;
use dxgkrnl::{FeaturePolicy, PowerSettings};

use super::bus::BusChoice;
use super::fault::FaultOption;
use super::options::SystemOptions;
use super::variant::VariantOptions;

/// Memory of a native fence's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FenceStorage {
    /// In system memory, as in the first release of native fences.
    #[default]
    System,
    /// Monitored values in the GPU's memory, and fences between engines entirely.
    Local,
}

impl FenceStorage {
    /// The one that features mean.
    pub fn of(features: FeaturePolicy) -> Self {
        if features.optimized_default_fences && features.intra_gpu_fences { Self::Local } else { Self::System }
    }

    /// The name as the command line has it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A feature that the operating system or its registry may refuse although driver and GPU support it.
/// [querying-wddm-feature-support-and-enablement]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Feature {
    /// DXGK_FEATURE_HWSCH: without it the operating system hands over one packet after the other.
    HardwareScheduling,
    /// DXGK_FEATURE_NATIVE_FENCE: without it engines neither wait for nor signal native fences.
    NativeFence,
    /// DXGK_FEATURE_USER_MODE_SUBMISSION, which needs both others: without it each submission is a system call.
    UserModeSubmission,
}

impl Feature {
    /// Those that are not enabled.
    pub fn withheld(mut features: FeaturePolicy) -> Vec<Self> {
        Self::value_variants().iter().copied().filter(|feature| !*feature.switch(&mut features)).collect()
    }

    fn switch(self, features: &mut FeaturePolicy) -> &mut bool {
        match self {
            Self::HardwareScheduling => &mut features.hardware_scheduling,
            Self::NativeFence => &mut features.native_fence,
            Self::UserModeSubmission => &mut features.user_mode_submission,
        }
    }

    /// The names of features as the command line has them, separated by commas.
    pub fn names(features: &[Self]) -> String {
        let name = |feature: &Self| feature.to_possible_value().map(|value| value.get_name().to_owned());
        features.iter().filter_map(name).collect::<Vec<_>>().join(",")
    }

    /// Every subset, the empty one first.
    pub fn subsets() -> impl Iterator<Item = Vec<Self>> {
        (0..1u32 << Self::value_variants().len()).map(|subset| {
            let all = Self::value_variants().iter().enumerate();
            all.filter(|(place, _)| subset >> place & 1 != 0).map(|(_, feature)| *feature).collect()
        })
    }
}

/// The choices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineOptions {
    /// The GPU to build.
    pub variant: VariantOptions,
    /// Memory of native fences' values.
    pub fences: FenceStorage,
    /// How the GPU is reached; `None`: see [`BusChoice`].
    pub bus: Option<BusChoice>,
    /// Features that the operating-system side does not enable.
    pub without: Vec<Feature>,
    /// Idle power policy; `None`: none, or [`PowerSettings::in_use`] for a machine that somebody uses.
    pub power: Option<PowerSettings>,
    /// Faults that are injected into the first GPU from the start of the machine on.
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
        self.withhold(&mut options.features);
        options.power = self.power.unwrap_or_default();
        options
    }

    /// Takes the withheld features from those that an operating-system side enables.
    pub fn withhold(&self, features: &mut FeaturePolicy) {
        for feature in &self.without {
            *feature.switch(features) = false;
        }
    }
}
