//! What happens on an adapter, as typed events for whoever traces.
//!
//! The events of a driver's adapters go into one ring of a fixed size, which is off until somebody asks; then an event costs
//! one branch. A ring that is full gives up its oldest events and counts them. Device level may add events, so the ring's lock is a leaf.

mod names;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use nt::lock::{Innermost, Mutex, lock};
use wddm_ddi::km::{DXGK_INTERRUPT_TYPE, DXGKARGCB_NOTIFY_INTERRUPT_DATA};
use wddm_ddi::status::{NTSTATUS, STATUS_NO_MEMORY};
use wddm_ddi::types::LUID;

use crate::kmd_handle::KmdHandle;
use nt::services;

pub use names::interrupt_name;
pub(crate) use names::operation_name;

/// Most events that a trace may hold.
pub const TRACE_EVENTS_MAX: u32 = 1 << 20;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEvent {
    /// When it began, in nanoseconds of the clock behind the performance counter ([`nanoseconds`]).
    pub began: u64,
    /// How long it took, in nanoseconds; 0 for a moment.
    pub took: u64,
    /// The adapter it concerns; `None` once that has stopped.
    pub adapter: Option<LUID>,
    /// What.
    pub kind: TraceKind,
}

/// Kind of an event, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// The driver's interrupt routine ran.
    Interrupt {
        /// Message number.
        message: u32,
        /// The driver said that it was its own.
        claimed: bool,
    },
    /// The driver's DPC routine ran.
    Dpc,
    /// The driver called DxgkCbNotifyInterrupt.
    Report {
        /// DXGK_INTERRUPT_TYPE.
        kind: i32,
        /// The node that it names.
        node: Option<u32>,
        /// Number of fences that the report names.
        fences: u32,
        /// The fence id or value that it names, 0 for none.
        value: u64,
    },
    /// A packet went to the driver.
    PacketSubmitted {
        /// Node.
        node: u32,
        /// Fence id of its end.
        fence: u32,
        /// Bytes of its buffer.
        bytes: u32,
        /// The memory manager's own.
        paging: bool,
    },
    /// The driver built a paging operation.
    PagingOperation {
        /// DXGK_BUILDPAGINGBUFFER_OPERATION.
        operation: i32,
        /// Bytes that it moves or fills, 0 for others.
        bytes: u64,
    },
    /// An allocation came to the memory that it prefers.
    Resident {
        /// Size of the allocation in bytes.
        bytes: u64,
    },
    /// An allocation had to leave its segment.
    Evicted {
        /// Size of the allocation in bytes.
        bytes: u64,
    },
    /// User mode sees a physical doorbell.
    DoorbellConnected {
        /// Identity of the queue, as [`QueueFenceLog::queue`](crate::QueueFenceLog::queue).
        queue: u64,
    },
    /// User mode does not see it any more.
    DoorbellDisconnected {
        /// Identity of the queue.
        queue: u64,
        /// D3DDDI_DOORBELLSTATUS that user mode reads instead.
        status: i32,
    },
    /// An engine was reset.
    EngineReset {
        /// Node.
        node: u32,
    },
    /// The whole adapter was reset.
    AdapterReset,
    /// The adapter entered a device power state.
    DevicePower {
        /// DEVICE_POWER_STATE: 1 is D0.
        state: i32,
    },
    /// A power component entered an F-state.
    ComponentPower {
        /// Component.
        component: u32,
        /// The state: 0 is F0.
        state: u32,
    },
}

/// Events since the last call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceLog {
    /// In the order in which the events ended.
    pub events: Vec<TraceEvent>,
    /// Events older than all of these that were given up.
    pub lost: u64,
}

/// The clock behind the performance counter, in nanoseconds: the performance counter is this by 100.
pub fn nanoseconds() -> u64 {
    services::nanoseconds()
}

#[derive(Clone, Copy)]
pub(crate) struct Noted {
    pub(crate) began: u64,
    pub(crate) took: u64,
    pub(crate) adapter: KmdHandle,
    pub(crate) kind: TraceKind,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Noted>,
    capacity: usize,
    lost: u64,
}

/// The events of a driver.
#[derive(Default)]
pub(crate) struct Events {
    on: AtomicBool,
    /// Device level takes it.
    ring: Mutex<Ring, Innermost>,
}

impl Events {
    #[inline]
    fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Something happens now on the adapter with this miniport context.
    #[inline]
    pub(crate) fn note(&self, adapter: KmdHandle, kind: impl FnOnce() -> TraceKind) {
        if self.is_on() {
            self.add(services::nanoseconds(), 0, adapter, kind());
        }
    }

    /// Something happens during `call`, whose answer says what.
    #[inline]
    pub(crate) fn during<R>(
        &self,
        adapter: KmdHandle,
        call: impl FnOnce() -> R,
        kind: impl FnOnce(&R) -> TraceKind,
    ) -> R {
        if !self.is_on() {
            return call();
        }
        let began = services::nanoseconds();
        let answer = call();
        self.add(began, services::nanoseconds().saturating_sub(began), adapter, kind(&answer));
        answer
    }

    #[cold]
    fn add(&self, began: u64, took: u64, adapter: KmdHandle, kind: TraceKind) {
        let mut ring = lock(&self.ring);
        if ring.capacity == 0 {
            return;
        }
        if ring.events.len() == ring.capacity {
            ring.events.pop_front();
            ring.lost += 1;
        }
        ring.events.push_back(Noted { began, took, adapter, kind });
    }

    /// Begins with an empty ring of `capacity` events, or ends with 0.
    pub(crate) fn set(&self, capacity: usize) -> Result<(), NTSTATUS> {
        // Everything that may fail, and every release of memory, happens without the lock.
        let mut events = VecDeque::new();
        events.try_reserve_exact(capacity).map_err(|_| STATUS_NO_MEMORY)?;
        let mut ring = lock(&self.ring);
        let old = std::mem::replace(&mut *ring, Ring { events, capacity, lost: 0 });
        self.on.store(capacity != 0, Ordering::Relaxed);
        drop(ring);
        drop(old);
        Ok(())
    }

    pub(crate) fn take(&self) -> (Vec<Noted>, u64) {
        let mut ring = lock(&self.ring);
        let lost = std::mem::take(&mut ring.lost);
        (ring.events.drain(..).collect(), lost)
    }
}

/// What DxgkCbNotifyInterrupt is told, as far as a trace shows it.
///
/// # Safety
/// The arm of `data.u` that the type selects must be filled.
pub(crate) unsafe fn report(data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) -> TraceKind {
    use DXGK_INTERRUPT_TYPE as T;
    let (node, fences, value) = match data.InterruptType {
        T::DXGK_INTERRUPT_DMA_COMPLETED => {
            // SAFETY: the type selects this arm, says the caller.
            let arm = unsafe { data.u.DmaCompleted };
            (Some(arm.NodeOrdinal), 0, u64::from(arm.SubmissionFenceId))
        }
        T::DXGK_INTERRUPT_DMA_PREEMPTED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.DmaPreempted };
            (Some(arm.NodeOrdinal), 0, u64::from(arm.PreemptionFenceId))
        }
        T::DXGK_INTERRUPT_DMA_PAGE_FAULTED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.DmaPageFaulted };
            (Some(arm.NodeOrdinal), 0, u64::from(arm.FaultedFenceId))
        }
        T::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.MonitoredFenceSignaled };
            (Some(arm.NodeOrdinal), 0, 0)
        }
        T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.NativeFenceSignaled };
            (Some(arm.NodeOrdinal), arm.SignaledNativeFenceCount, 0)
        }
        T::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.HwQueuePageFaulted };
            (Some(arm.NodeOrdinal), 0, arm.FaultedFenceId)
        }
        T::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.SuspendContextCompleted };
            (None, 0, arm.ContextSuspendFence)
        }
        T::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE => {
            // SAFETY: as above.
            let arm = unsafe { data.u.EngineStateChange };
            (Some(arm.NodeOrdinal), 0, arm.NewState.0 as u32 as u64)
        }
        _ => (None, 0, 0),
    };
    TraceKind::Report { kind: data.InterruptType.0, node, fences, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: KmdHandle = KmdHandle::NULL;

    #[test]
    fn nothing_is_noted_or_even_asked_for_until_somebody_traces() {
        let events = Events::default();
        events.note(HERE, || unreachable!("off"));
        assert_eq!(events.during(HERE, || 5, |_| unreachable!("off")), 5);
        events.set(4).unwrap();
        events.note(HERE, || TraceKind::Dpc);
        assert_eq!(events.take().0.len(), 1);
        events.set(0).unwrap();
        events.note(HERE, || unreachable!("off again"));
        assert_eq!(events.take().0.len(), 0);
    }

    #[test]
    fn a_full_ring_keeps_the_latest_and_counts_the_others() {
        let events = Events::default();
        events.set(3).unwrap();
        for node in 0..10 {
            events.note(HERE, || TraceKind::EngineReset { node });
        }
        let (noted, lost) = events.take();
        let nodes: Vec<TraceKind> = noted.iter().map(|event| event.kind).collect();
        assert_eq!(nodes, [7, 8, 9].map(|node| TraceKind::EngineReset { node }));
        assert_eq!(lost, 7);
        events.note(HERE, || TraceKind::AdapterReset);
        assert_eq!((events.take().0.len(), events.take().1), (1, 0));
    }

    #[test]
    fn what_takes_time_begins_before_it_ends_and_its_answer_says_what_it_was() {
        let events = Events::default();
        events.set(1).unwrap();
        let before = services::nanoseconds();
        let claimed = events.during(HERE, || true, |claimed| TraceKind::Interrupt { message: 2, claimed: *claimed });
        assert!(claimed);
        let (noted, _) = events.take();
        assert!(noted[0].began >= before && noted[0].began + noted[0].took <= services::nanoseconds());
        assert_eq!(noted[0].kind, TraceKind::Interrupt { message: 2, claimed: true });
    }
}
