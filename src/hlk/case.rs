//! What a case is, and what it works with.

use std::ops::Deref;
use std::sync::Arc;

use campanile_device::Variant;
use campanile_hlk::rig::Rig;
use campanile_hlk::{About, Claim, Needs, ThunkCase};
use campanile_hw::registers::{CAPS, Caps, DOORBELL_COUNT};
use dxgkrnl::{Process, Rescue};

pub use campanile_hlk::Failure;
pub(super) use campanile_hlk::{granted, refused};
use testbed::setup::{MachineOptions, System, SystemOptions};
use testbed::user::{Adapter, Device};

/// The prefix of the name of every case.
const PREFIX: &str = "Device.Graphics.WDDM32.";

/// One conformance case.
#[derive(Clone)]
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
    /// What the adapter must have: for every case of the area, and for this one.
    pub needs: Needs,
    /// Sentences of the specification pages that it holds.
    pub holds: &'static [Claim],
    /// Finds out.
    pub run: Run,
}

/// What finds out, by what it may look at.
#[derive(Clone, Copy)]
pub enum Run {
    /// The thunks alone; the same runs on Windows.
    Thunks(fn(&campanile_hlk::Case) -> Result<(), Failure>),
    /// The machine behind them, too.
    Inside(fn(&mut Case<'_>) -> Result<(), Failure>),
}

impl CaseInfo {
    /// A case of the thunks, on a machine that is simulated.
    pub(super) fn of_thunks(case: &ThunkCase) -> Self {
        let &ThunkCase { name, area, page, requirement, boot, needs, holds, run } = case;
        let boot = match boot {
            campanile_hlk::Boot::Shared => Boot::Shared,
            campanile_hlk::Boot::Fresh => Boot::Fresh,
        };
        Self { name, area, page, requirement, behind: "", boot, needs, holds, run: Run::Thunks(run) }
    }

    /// What it is, whoever runs it.
    pub fn about(&self) -> About {
        let &Self { name, area, page, requirement, needs, holds, .. } = self;
        About { name, area, page, requirement, needs, holds }
    }

    /// `Area.Name`, without the prefix that every case has.
    pub fn short_name(&self) -> &'static str {
        self.name.strip_prefix(PREFIX).unwrap_or(self.name)
    }

    /// Whether name, area or page contains `wanted`, which is in lower case.
    pub fn matches(&self, wanted: &str) -> bool {
        self.about().matches(wanted)
    }
}

/// The system that a case runs on.
#[derive(Clone, Copy)]
pub enum Boot {
    /// A system that the case takes over from another and passes on; for cases that leave nothing behind by their nature.
    Shared,
    /// A system of its own.
    Fresh,
    /// A system of its own with these options.
    With(fn() -> SystemOptions),
}

impl Boot {
    /// What to boot where the machine is `machine` unless the case has its own.
    pub(super) fn options(self, machine: &MachineOptions) -> SystemOptions {
        match self {
            Self::Shared | Self::Fresh => machine.system(),
            Self::With(options) => SystemOptions { bus: machine.bus.clone(), ..options() },
        }
    }

    /// Whether the case runs on whichever machine it is given.
    pub fn takes_any_machine(self) -> bool {
        !matches!(self, Self::With(_))
    }
}

/// A machine with a GPU that differs from the default in what `change` sets.
pub(super) fn with_gpu(change: impl FnOnce(&mut Variant)) -> SystemOptions {
    let mut options = SystemOptions::default();
    change(&mut options.variant);
    options
}

/// A machine whose GPU has one doorbell, which its queues take from each other.
pub(super) fn one_doorbell() -> SystemOptions {
    with_gpu(|gpu| gpu.doorbells = 1)
}

/// Declares an area's table: `"Name" on Boot, "page": "requirement" => function;`. What the cases do behind the thunks, for which they cannot run on
/// Windows, is said after the area; `hlk.exe` lists it. What the adapter must have is said there too, for all of the area's
/// cases, or after a name: `needs HardwareScheduling`. Behind the requirement stand the sentences of the specification pages that the case holds:
/// `holds [Tdr 1, NativeFence 20]`.
macro_rules! cases {
    ($area:literal $(, needs $all:ident)? $(, behind $reason:literal)?; $($name:literal $(needs $one:ident)? on $boot:expr, $page:literal: $requirement:literal $(holds [$($claim:ident $number:literal),* $(,)?])? => $run:expr;)*) => {
        /// The cases of this area.
        pub(super) const CASES: &[$crate::hlk::CaseInfo] = {
            const AREA: &[campanile_hlk::Need] = &[$(campanile_hlk::Need::$all)?];
            const BEHIND: &str = concat!($($reason)?);
            &[$(
                $crate::hlk::CaseInfo {
                    name: concat!("Device.Graphics.WDDM32.", $name),
                    area: $area,
                    page: $page,
                    requirement: $requirement,
                    behind: BEHIND,
                    boot: $boot,
                    needs: [AREA, &[$(campanile_hlk::Need::$one)?]],
                    holds: &[$($(campanile_hlk::Claim::$claim($number)),*)?],
                    run: $crate::hlk::case::Run::Inside($run),
                },
            )*]
        };
    };
}

/// A running case that looks behind the thunks: its system and its process, to which the thread is attached.
pub struct Case<'s> {
    pub(super) thunks: campanile_hlk::Case,
    pub(super) system: &'s mut System,
    pub(super) process: Arc<Process>,
    /// What the system may make good in this case.
    announced: Vec<Rescue>,
}

impl<'s> Case<'s> {
    /// A case in `process` of a system.
    pub(super) fn new(system: &'s mut System, process: &Arc<Process>) -> Self {
        let entered = Arc::clone(process);
        let thunks = campanile_hlk::Case::new(system.luid(), Arc::new(move || Box::new(entered.attach())));
        Self { thunks, system, process: Arc::clone(process), announced: Vec::new() }
    }
}

/// What it has of a case of the thunks.
impl Deref for Case<'_> {
    type Target = campanile_hlk::Case;

    fn deref(&self) -> &Self::Target {
        &self.thunks
    }
}

impl Case<'_> {
    /// The case breaks something that the system makes good in this way. What no case announced makes it fail.
    pub(super) fn announce(&mut self, rescue: Rescue) {
        self.announced.push(rescue);
    }

    /// What was announced.
    pub(super) fn announced(&self) -> &[Rescue] {
        &self.announced
    }

    /// As a case of the thunks has it, on the adapter as it is now: one that came back has another identifier.
    pub(super) fn rig(&self) -> Result<Rig, Failure> {
        Rig::open(self.system.luid())
    }

    /// Ends the case where a doorbell that somebody connected may be taken away for reasons that it does not look at: for another queue, or because
    /// its engine has been idle for a while. It uses up to `doorbells` at a time.
    pub(super) fn needs_kept_doorbells(&self, doorbells: u64) -> Result<(), Failure> {
        let reason = if self.system.reports_idle_engines() {
            "engines that are idle lose their doorbells by themselves"
        } else if !self.has_global_doorbell() && self.system.register(DOORBELL_COUNT, 4) < doorbells {
            "queues take doorbells from each other"
        } else {
            return Ok(());
        };
        Err(Failure::NotApplicable(reason.to_owned()))
    }

    /// All queues share one doorbell, which nobody has to give up for another.
    fn has_global_doorbell(&self) -> bool {
        Caps::from_bits(self.system.register(CAPS, 4) as u32).global_doorbell()
    }

    /// The adapter, opened by the user-mode driver.
    pub(super) fn adapter(&self) -> Result<Adapter, Failure> {
        Ok(Adapter::open_luid(self.system.luid())?)
    }

    /// A new device of the user-mode driver.
    pub(super) fn device(&self) -> Result<Device, Failure> {
        Ok(Device::new(&self.adapter()?)?)
    }

    /// Runs `work` on another thread in another process of the same machine, which exits afterwards.
    pub(super) fn in_other_process<T: Send>(
        &self,
        work: impl FnOnce(&System) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let process = Process::new(self.system.machine(), "other");
        let outcome = on_thread(&process, || work(self.system));
        process.exit();
        outcome
    }
}

/// Runs `work` on another thread of `process` and waits for it.
pub(super) fn on_thread<T: Send>(
    process: &Arc<Process>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _attached = process.attach();
            work()
        });
        thread.join().unwrap_or_else(|_| Err(Failure::new("the other thread panicked")))
    })
}
