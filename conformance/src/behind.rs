//! What a running case works with that looks behind the thunks, and the machines that such cases ask for.

use std::ops::Deref;
use std::sync::Arc;

use crate::Failure;
use crate::rig::Rig;
use crate::running;
use campanile_device::Variant;
use campanile_hw::registers::{CAPS, Caps, DOORBELL_COUNT, PREEMPTION_INSTRUCTION};
use dxgkrnl::{Process, Rescue};

use testbed::setup::{System, SystemOptions};
use testbed::user::{Adapter, Device};

/// A machine with a GPU that differs from the default in what `change` sets.
pub(crate) fn with_gpu(change: impl FnOnce(&mut Variant)) -> SystemOptions {
    let mut options = SystemOptions::default();
    change(&mut options.variant);
    options
}

/// A machine whose GPU has one doorbell, which its queues take from each other.
pub(crate) fn one_doorbell() -> SystemOptions {
    with_gpu(|gpu| gpu.doorbells = 1)
}

/// A running case that looks behind the thunks: its system and its process, to which the thread is attached.
pub struct Case<'s> {
    pub(crate) thunks: running::Case,
    pub(crate) system: &'s mut System,
    pub(crate) process: Arc<Process>,
    /// Rescues of the operating-system side that this case expects.
    announced: Vec<Rescue>,
}

impl<'s> Case<'s> {
    /// A case in `process` of a system.
    pub(crate) fn new(system: &'s mut System, process: &Arc<Process>) -> Self {
        let entered = Arc::clone(process);
        let thunks = running::Case::new(system.luid(), Arc::new(move || Box::new(entered.attach())));
        Self { thunks, system, process: Arc::clone(process), announced: Vec::new() }
    }
}

/// A case that looks behind the thunks can do everything that one over the thunks alone can.
impl Deref for Case<'_> {
    type Target = running::Case;

    fn deref(&self) -> &Self::Target {
        &self.thunks
    }
}

impl Case<'_> {
    /// The case breaks something that the system makes good in this way. What no case announced makes it fail.
    pub(crate) fn announce(&mut self, rescue: Rescue) {
        self.announced.push(rescue);
    }

    /// The rescues that the case has announced.
    pub(crate) fn announced(&self) -> &[Rescue] {
        &self.announced
    }

    /// As a case of the thunks has it, on the adapter as it is now: one that came back has another identifier.
    pub(crate) fn rig(&self) -> Result<Rig, Failure> {
        Rig::open(self.system.luid())
    }

    /// Ends the case where a doorbell that somebody connected may be taken away for reasons that it does not look at: for another queue, or because
    /// its engine has been idle for a while. It uses up to `doorbells` at a time.
    pub(crate) fn needs_kept_doorbells(&self, doorbells: u64) -> Result<(), Failure> {
        let reason = if self.system.reports_idle_engines() {
            "engines that are idle lose their doorbells by themselves"
        } else if !self.has_global_doorbell() && self.system.register(DOORBELL_COUNT, 4) < doorbells {
            "queues take doorbells from each other"
        } else {
            return Ok(());
        };
        Err(Failure::NotApplicable(reason.to_owned()))
    }

    /// Ends the case where a workgroup that does not end keeps its node from all other queues.
    pub(crate) fn needs_preemption_between_instructions(&self) -> Result<(), Failure> {
        if self.caps().preemption() == PREEMPTION_INSTRUCTION {
            return Ok(());
        }
        Err(Failure::NotApplicable("the node cannot leave a workgroup that does not end".to_owned()))
    }

    /// The register by which the hardware says what it can do.
    pub(crate) fn caps(&self) -> Caps {
        Caps::from_bits(self.system.register(CAPS, 4) as u32)
    }

    /// All queues share one doorbell, which nobody has to give up for another.
    fn has_global_doorbell(&self) -> bool {
        self.caps().global_doorbell()
    }

    /// The adapter, opened by the user-mode driver.
    pub(crate) fn adapter(&self) -> Result<Adapter, Failure> {
        Ok(Adapter::open_luid(self.system.luid())?)
    }

    /// A new device of the user-mode driver.
    pub(crate) fn device(&self) -> Result<Device, Failure> {
        Ok(Device::new(&self.adapter()?)?)
    }

    /// Runs `work` on another thread in another process of the same machine, which exits afterwards.
    pub(crate) fn in_other_process<T: Send>(
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
pub(crate) fn on_thread<T: Send>(
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
