//! What a case is, and how an area declares its own.

#[cfg(feature = "inside")]
use testbed::setup::{MachineOptions, SystemOptions};

#[cfg(feature = "inside")]
use crate::behind;
use crate::running::Case;
use crate::{About, Claim, Failure, Needs};

/// The prefix of the name of every case.
const PREFIX: &str = "Device.Graphics.WDDM32.";

/// One conformance case.
#[derive(Clone, Copy)]
pub struct CaseInfo {
    /// Name that reads as a specification.
    pub name: &'static str,
    /// Area it belongs to.
    pub area: &'static str,
    /// Page that states the requirement.
    pub page: &'static str,
    /// The requirement.
    pub requirement: &'static str,
    /// What the cases of its table do behind the thunks, for which they cannot run on Windows; empty where they do nothing there, or the table
    /// does not say.
    pub behind: &'static str,
    /// The system it runs on.
    pub boot: Boot,
    /// What the adapter must have: this project's driver, for every case of the area, and for this one.
    pub needs: Needs,
    /// Sentences of the specification pages that it holds.
    pub holds: &'static [Claim],
    /// The function of the case, which fails if the requirement is not met.
    pub run: Run,
}

/// A case over the thunks alone.
pub type RunThunks = fn(&Case) -> Result<(), Failure>;

/// The function of a case, by what it may look at.
#[derive(Clone, Copy)]
pub enum Run {
    /// The thunks alone; the same runs on Windows.
    Thunks(RunThunks),
    /// The simulated machine behind them, too.
    #[cfg(feature = "inside")]
    Inside(fn(&mut behind::Case<'_>) -> Result<(), Failure>),
}

/// The system that a case runs on, where there is a choice.
#[derive(Clone, Copy)]
pub enum Boot {
    /// A system that the case takes over from another and passes on; for cases that leave nothing behind by their nature.
    Shared,
    /// A system of its own.
    Fresh,
    /// A system of its own with these options.
    #[cfg(feature = "inside")]
    With(fn() -> SystemOptions),
}

#[cfg(feature = "inside")]
impl Boot {
    /// What to boot where the machine is `machine` unless the case has its own, which lacks the same features unless the case chooses them. Timeouts may be forced.
    pub(crate) fn options(self, machine: &MachineOptions) -> SystemOptions {
        let mut options = match self {
            Self::Shared | Self::Fresh => machine.system(),
            Self::With(options) => {
                let mut own = options();
                if !self.chooses_features() {
                    machine.withhold(&mut own.features);
                }
                SystemOptions { bus: machine.bus.clone(), ..own }
            }
        };
        // Cases force timeouts, as tests do on Windows where TdrTestMode is 1.
        options.tdr.test_mode = true;
        options
    }

    /// True if the case itself says which features its system does not enable.
    pub fn chooses_features(self) -> bool {
        let Self::With(options) = self else { return false };
        let features = options().features;
        !(features.hardware_scheduling && features.native_fence && features.user_mode_submission)
    }

    /// True if the case runs on any machine that it is given.
    pub fn takes_any_machine(self) -> bool {
        !matches!(self, Self::With(_))
    }
}

impl CaseInfo {
    /// Name, page, requirement and needs of the case, for lists and reports.
    pub fn about(&self) -> About {
        let &Self { name, area, page, requirement, needs, holds, .. } = self;
        About { name, area, page, requirement, needs, holds }
    }

    /// `Area.Name`, without the prefix that every case has.
    pub fn short_name(&self) -> &'static str {
        self.name.strip_prefix(PREFIX).unwrap_or(self.name)
    }

    /// The function of the case, if it needs nothing but the thunks.
    pub fn over_thunks_alone(&self) -> Option<RunThunks> {
        match self.run {
            Run::Thunks(run) => Some(run),
            #[cfg(feature = "inside")]
            Run::Inside(_) => None,
        }
    }

    /// True if name, area or page contains `wanted`, which is in lower case.
    pub fn matches(&self, wanted: &str) -> bool {
        self.about().matches(wanted)
    }
}

/// Declares an area's table: `thunks "Area"; "Name" on Boot, "page": "requirement" => function;` for cases over the thunks alone, `inside "Area"; …` for those
/// that look at the simulated machine behind them. What these do there, for which they cannot run on Windows, is said after the area with
/// `behind "…"`; `hlk.exe` lists it. What the adapter must have is said there too, for all of the area's cases, or after a
/// name: `needs HardwareScheduling`. A table that begins with `neutral` is for the driver of any GPU; all others are for this project's. Behind the requirement stand the sentences of the specification pages that the case holds:
/// `holds [Tdr 1, NativeFence 20]`.
macro_rules! cases {
    (thunks $($table:tt)*) => { cases! { @table Thunks [$crate::Need::Campanile] $($table)* } };
    (inside $($table:tt)*) => { cases! { @table Inside [$crate::Need::Campanile] $($table)* } };
    (neutral inside $($table:tt)*) => { cases! { @table Inside [] $($table)* } };
    (neutral $($table:tt)*) => { cases! { @table Thunks [] $($table)* } };
    (@table $kind:ident [$($driver:expr)?] $area:literal $(, needs $all:ident)? $(, behind $reason:literal)?; $($name:literal $(needs $($one:ident),+)? on $boot:expr, $page:literal: $requirement:literal $(holds [$($claim:ident $number:literal),* $(,)?])? => $run:expr;)*) => {
        /// The cases of this area.
        pub(crate) const CASES: &[$crate::CaseInfo] = {
            const DRIVER: &[$crate::Need] = &[$($driver)?];
            const AREA: &[$crate::Need] = &[$($crate::Need::$all)?];
            const BEHIND: &str = concat!($($reason)?);
            &[$(
                $crate::CaseInfo {
                    name: concat!("Device.Graphics.WDDM32.", $name),
                    area: $area,
                    page: $page,
                    requirement: $requirement,
                    behind: BEHIND,
                    boot: $boot,
                    needs: [DRIVER, AREA, &[$($($crate::Need::$one),+)?]],
                    holds: &[$($($crate::Claim::$claim($number)),*)?],
                    run: $crate::Run::$kind($run),
                },
            )*]
        };
    };
}
