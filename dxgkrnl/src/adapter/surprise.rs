//! Surprise removal: a function is pulled out while its adapter runs.
//! [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]

use wddm_ddi::km::DXGK_SURPRISE_REMOVAL_TYPE;

use super::object::Adapter;
use nt::bugcheck::Bugcheck;

impl Adapter {
    /// The driver is told first, while other calls may be inside it. Then nobody waits for the function any more: every device is lost
    /// as on an adapter that stopped. What was made of it is still destroyed by the driver, which must not touch the function again.
    /// An adapter of linked functions is nothing without one of them, so it ends whole. Where all still answer, all are meant.
    ///
    /// A function that still answers, because it was only reset or its server goes on, is taken out of reach first: the hardware "has been physically removed or has disappeared from
    /// system". [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]
    ///
    /// A driver that cannot handle the removal, or never claimed to, stops the machine.
    pub(crate) fn surprise_remove(&self) {
        let verifier = self.machine.verifier();
        verifier.log("the function was pulled out".to_owned());
        let gone = self.pulled_out();
        gone.iter().for_each(|link| link.function.pull_out());
        let stopping = |reason: String| verifier.raise(Bugcheck::fatal(reason));
        if self.caps().driver.SupportSurpriseRemoval == 0 {
            stopping("the function was pulled out, and the driver does not claim SupportSurpriseRemoval".to_owned());
        } else {
            let running = DXGK_SURPRISE_REMOVAL_TYPE::DxgkRemovalPnPNotify;
            for link in gone {
                let status = self.miniport.notify_surprise_removal(link.context.raw(), running).status();
                if !status.is_success() && !verifier.is_stopped() {
                    stopping(format!("DxgkDdiNotifySurpriseRemoval(DxgkRemovalPnPNotify) answered {status}"));
                }
            }
        }
        self.abandon();
    }

    /// From now on nobody waits for the function, which does not answer any more, and every device is lost.
    pub(crate) fn abandon(&self) {
        match self.scheduler() {
            Some(vidsch) => vidsch.abandon_hardware(self),
            None => self.lose(),
        }
    }
}
