//! Fences that several adapters share.
//!
//! All of them use one CurrentValue in system memory. On each adapter the fence has a *member*: a native fence with a
//! MonitoredValue of its own where the adapter has native fences, a monitored fence elsewhere or where one is asked for.
//! GPUs cannot tell each other of a signal, so the processor does: MonitoredValue is 0 for life, every signal interrupts, and
//! whoever learns of one on its adapter tells the other members, whose GPU then looks at its waiting queues and whose
//! waiters are woken. [native-gpu-fence-objects: cross-adapter native fences]
//!
//! Members are told one after the other, with the locks of one member at a time and none of the adapter that signalled; so two
//! adapters that signal each other never wait for each other. Only [`Signalling`] spans members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nt::lock::MutexGuard;

use crate::rank;

use crate::vidsch::objects::fence::{CrossAdapter, Fence};

/// These fences were, or may have been, signalled on their adapter: those that other adapters share are told of it there.
///
/// Called without a lock of a fence, at any level below device level.
pub(in crate::vidsch) fn propagate<'a>(fences: impl IntoIterator<Item = &'a Arc<Fence>>) {
    for fence in fences {
        let Some(shared) = fence.cross_adapter() else { continue };
        shared.told.store(fence.current(), Ordering::Release);
        for member in shared.members() {
            if !Arc::ptr_eq(&member, fence) {
                member.written_elsewhere();
            }
        }
    }
}

/// The processor signals these fences: no other processor signals one of them on any adapter until this is dropped, so that
/// a value that was compared does not change by another one.
pub(in crate::vidsch) struct Signalling<'a> {
    _held: Vec<MutexGuard<'a, (), rank::CrossAdapterSignal>>,
}

impl<'a> Signalling<'a> {
    pub(in crate::vidsch) fn new(fences: impl Iterator<Item = &'a Arc<Fence>>) -> Self {
        let shared = fences.filter_map(|fence| fence.cross_adapter());
        let ordered: BTreeMap<u64, &Arc<CrossAdapter>> = shared.map(|shared| (shared.number, shared)).collect();
        Self { _held: ordered.into_iter().map(|(number, shared)| shared.signalling.lock_in_order(number)).collect() }
    }
}
