//! DxgkCbNotifyInterrupt for requests of the scheduler that are done: preemptions, suspensions, list switches. Callers are at device level and
//! queue the DPC afterwards.

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::types::HANDLE;

use crate::dxgk::Dxgk;
use crate::irql::Device;

/// A report of a type, with nothing in it.
pub(crate) fn data(kind: DXGK_INTERRUPT_TYPE) -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA { InterruptType: kind, ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed() }
}

/// A preemption is done; everything up to `completed` ran.
pub(crate) fn preempted(irql: &Device, dxgk: &Dxgk, node: u32, preemption: u32, completed: u32) {
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_PREEMPTED);
    data.u.DmaPreempted = DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPreempted {
        PreemptionFenceId: preemption,
        LastCompletedFenceId: completed,
        NodeOrdinal: node,
        EngineOrdinal: dxgk.engine(),
    };
    let event = Event::Preempted { node, fence: preemption };
    dxgk.trace.note(Component::Interrupt, &event);
    dxgk.notify_interrupt(irql, &data);
}

/// A context, by the handle of the operating system, is suspended: the hardware accesses nothing for it any more.
pub(crate) fn suspended(irql: &Device, dxgk: &Dxgk, context: HANDLE, fence: u64) {
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED);
    data.u.SuspendContextCompleted =
        DXGKARGCB_NOTIFY_INTERRUPT_DATA_SuspendContextCompleted { hContext: context, ContextSuspendFence: fence };
    dxgk.notify_interrupt(irql, &data);
}

/// A switch of the list of contexts is done.
pub(crate) fn switched(irql: &Device, dxgk: &Dxgk, node: u32, fence: u64) {
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED);
    data.u.HwContextListSwitchCompleted = DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwContextListSwitchCompleted {
        NodeOrdinal: node,
        EngineOrdinal: dxgk.engine(),
        ContextSwitchFence: fence,
    };
    dxgk.notify_interrupt(irql, &data);
}
