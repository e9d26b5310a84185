//! The driver is told of the priorities of hardware contexts.

use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::refusal::Failure;

use super::objects::hardware::HwContext;
use super::objects::priority::{Class, GRACE, NORMAL_PERCENTAGE, Priority, QUANTA, Told};
use super::objects::render_adapter::RenderAdapter;
use super::scheduler::VidSch;

impl VidSch {
    /// Tells the driver about priority bands, once an adapter. Times are in 100 ns. [d3dkmddi: DXGKARG_SETUPPRIORITYBANDS]
    pub(super) fn setup_priority_bands(&self, adapter: &RenderAdapter) -> Result<(), Failure> {
        let answer = *self.bands.get_or_init(|| {
            let mut args = DXGKARG_SETUPPRIORITYBANDS::zeroed();
            args.gracePeriodForBand = GRACE;
            args.processQuantumForBand = QUANTA;
            args.processGracePeriodForBand = GRACE;
            args.targetNormalBandPercentage = NORMAL_PERCENTAGE;
            adapter.miniport.setup_priority_bands(adapter.context().raw(), &args)
        });
        answer.ok()
    }
}

impl HwContext {
    fn class(&self) -> Class {
        self.device().process.class.get()
    }

    /// Changes priorities and tells the driver, also when nothing changed. [d3dkmddi: DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a context that is gone; what the driver answered. The priorities are what they were then.
    pub(crate) fn set_priority(&self, change: impl FnOnce(&mut Priority)) -> Result<(), Failure> {
        let _working = self.adapter().use_node(self.node());
        let gone = lock(&self.teardown);
        if *gone || self.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE.into());
        }
        let (mut wanted, class) = (self.priority(), self.class());
        change(&mut wanted);
        let mut args = wanted.properties(class);
        args.hContext = self.handles().1.raw();
        let adapter = self.adapter();
        adapter.miniport.set_context_scheduling_properties(adapter.context().raw(), &args).ok()?;
        *lock(&self.told) = Told { priority: wanted, class };
        Ok(())
    }

    /// Tells the driver if the class of the process is another than it was told last. Whoever gives a context a handle calls this
    /// afterwards, since a change of the class before looks for contexts by their handles.
    ///
    /// # Errors
    /// Status of DxgkDdiSetContextSchedulingProperties.
    pub(crate) fn follow_class(&self) -> Result<(), Failure> {
        while lock(&self.told).class != self.class() {
            match self.set_priority(|_| ()) {
                // Whoever is gone stands nowhere.
                Err(failure) if failure.status() == STATUS_INVALID_HANDLE => break,
                told => told?,
            }
        }
        Ok(())
    }

    /// As [`HwContext::follow_class`], but for a context of a lost device or a stopped adapter.
    pub(crate) fn follow_class_if_alive(&self) -> Result<(), Failure> {
        if self.device().check().is_err() {
            return Ok(());
        }
        let Ok(_running) = self.adapter().vidsch().enter() else { return Ok(()) };
        self.follow_class()
    }
}
