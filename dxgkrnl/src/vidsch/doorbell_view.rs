//! The status word and the pages by which user mode sees a doorbell follow its state.

use std::sync::atomic::Ordering;

use nt::lock::lock;
use wddm_ddi::km::*;

use crate::trace::TraceKind;

use super::doorbell_state::{Action, DoorbellEvent, View};
use super::objects::hardware::{Doorbell, Shown};

impl View for Doorbell {
    fn write_status(&self, status: D3DDDI_DOORBELLSTATUS) {
        self.status.get().store(status.0 as u64, Ordering::SeqCst);
    }

    fn hide(&self) {
        for window in [Some(&self.primary), self.secondary.as_ref()].into_iter().flatten() {
            if let Err(error) = window.hide() {
                self.adapter.vidsch().broken(format!(
                    "the program that this machine is in does not let a doorbell page be taken back, which is no fault of the driver: {error}"
                ));
            }
        }
    }
}

impl Doorbell {
    /// Follows the table for every event but a connection that is to be shown.
    pub(super) fn apply(&self, shown: &mut Shown, event: DoorbellEvent) -> Action {
        let action = shown.state.apply(event, self);
        if let Action::Hide(status) = action {
            self.note(TraceKind::DoorbellDisconnected { queue: self.queue_id(), status: status.0 });
        }
        action
    }

    pub(super) fn queue_id(&self) -> u64 {
        self.queue.handles().0.raw().addr() as u64
    }

    pub(super) fn note(&self, kind: TraceKind) {
        self.adapter.miniport.events().note(self.adapter.context(), || kind);
    }

    /// The device is lost: user mode sees that from now on. At once, even while another thread is connecting it: that one sees
    /// the state and undoes its part.
    pub(crate) fn show_abort(&self) {
        self.apply(&mut lock(&self.shown), DoorbellEvent::Abort);
    }
}
