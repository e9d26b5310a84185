//! Signals that no interrupt told of: found by the watchdog, made good, and counted as such.
//!
//! An interrupt may be on its way while the watchdog looks. So a signal counts as unreported only when nobody was woken for
//! [`UNREPORTED`](crate::vidsch::objects::overdue) of the host's time; no machine of this program takes that long from a store to its interrupt routine.

use std::sync::Arc;

use crate::rescue::Rescue;

use super::batch;
use crate::vidsch::objects::fence::{CrossAdapter, Fence};
use crate::vidsch::objects::overdue::Behind;
use crate::vidsch::scheduler::VidSch;

impl VidSch {
    /// Wakes those whose fences were signalled without a report, and tells other adapters of such signals.
    pub(crate) fn make_good_unreported_signals(&self) {
        let fences: Vec<Arc<Fence>> =
            [true, false].into_iter().flat_map(|native| self.watched_fences(native)).collect();
        let overdue = fences.iter().filter_map(|fence| {
            let value = fence.overdue()?;
            Some(Behind { key: Arc::as_ptr(fence).addr(), value, fence: Arc::clone(fence) })
        });
        let overdue = self.overdue_waits.ripe(overdue.collect::<Vec<_>>());
        let woken = batch::evaluate(&overdue) as u64;
        if woken != 0 {
            self.rescued(Rescue::UnreportedSignal, woken);
            let interrupt = match overdue.iter().any(|fence| fence.is_native()) {
                true => "DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED",
                false => "DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED",
            };
            self.verifier.log(format!(
                "DxgkCbNotifyInterrupt was not called with {interrupt} within a second after a fence was signalled for which {woken} wait(s) stood [d3dkmddi: DXGK_INTERRUPT_TYPE]"
            ));
        }
        let shared = fences.iter().filter_map(|fence| {
            let fences = fence.cross_adapter()?;
            let value = fences.behind(fence.current())?;
            Some(Behind { key: Arc::as_ptr(fences).addr(), value, fence: Arc::clone(fences) })
        });
        let shared = self.overdue_members.ripe(shared.collect::<Vec<_>>());
        for shared in &shared {
            CrossAdapter::tell(shared);
            self.rescued(Rescue::UnreportedCrossAdapterSignal, 1);
        }
    }
}
