// UNSAFETY: reads the arm of a union that the type beside it selects.
//! Reports that the driver passes to DxgkCbNotifyInterrupt.

#![allow(clippy::multiple_unsafe_ops_per_block)] // one match reads the arm that the type selects

use wddm_ddi::km::*;

/// A report of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Completed { node: u32, fence: u32 },
    Preempted { node: u32, preemption: u32, completed: u32 },
    Faulted { node: u32, fence: u32, address: u64, process: usize },
    Native { node: u32, fences: Vec<usize> },
    Monitored { node: u32 },
    Suspended { context: usize, fence: u64 },
    Switched { node: u32, fence: u64 },
    QueueFaulted { queue: usize, fence: u64, address: u64 },
    EngineState { node: u32, state: i32 },
    SchedulingLog { node: u32, engine: u32 },
}

/// What a report says; its type if the cases know none of that type.
///
/// # Safety
/// The driver filled the arm that the type selects.
pub(super) unsafe fn read(data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) -> Result<Report, DXGK_INTERRUPT_TYPE> {
    use DXGK_INTERRUPT_TYPE as T;
    // SAFETY: the type selects the arm that the driver filled, in each case.
    unsafe {
        Ok(match data.InterruptType {
            T::DXGK_INTERRUPT_DMA_COMPLETED => Report::Completed {
                node: data.u.DmaCompleted.NodeOrdinal,
                fence: data.u.DmaCompleted.SubmissionFenceId,
            },
            T::DXGK_INTERRUPT_DMA_PREEMPTED => {
                let (arm, preemption) = (data.u.DmaPreempted, data.u.DmaPreempted.PreemptionFenceId);
                Report::Preempted { node: arm.NodeOrdinal, preemption, completed: arm.LastCompletedFenceId }
            }
            T::DXGK_INTERRUPT_DMA_PAGE_FAULTED => {
                let arm = data.u.DmaPageFaulted;
                Report::Faulted {
                    node: arm.NodeOrdinal,
                    fence: arm.FaultedFenceId,
                    address: arm.FaultedVirtualAddress,
                    process: arm.FaultedProcessHandle.addr(),
                }
            }
            T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED => {
                let arm = data.u.NativeFenceSignaled;
                let fences = 0..arm.SignaledNativeFenceCount as usize;
                let fences = fences.map(|index| (*arm.pSignaledNativeFenceArray.add(index)).addr()).collect();
                Report::Native { node: arm.NodeOrdinal, fences }
            }
            T::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED => {
                Report::Monitored { node: data.u.MonitoredFenceSignaled.NodeOrdinal }
            }
            T::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED => {
                let arm = data.u.SuspendContextCompleted;
                Report::Suspended { context: arm.hContext.addr(), fence: arm.ContextSuspendFence }
            }
            T::DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED => {
                let arm = data.u.HwContextListSwitchCompleted;
                Report::Switched { node: arm.NodeOrdinal, fence: arm.ContextSwitchFence }
            }
            T::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED => {
                let arm = data.u.HwQueuePageFaulted;
                Report::QueueFaulted {
                    queue: arm.u.FaultedHwQueue.addr(),
                    fence: arm.FaultedFenceId,
                    address: arm.FaultedVirtualAddress,
                }
            }
            T::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE => {
                let arm = data.u.EngineStateChange;
                Report::EngineState { node: arm.NodeOrdinal, state: arm.NewState.0 }
            }
            T::DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT => {
                let arm = data.u.SchedulingLogInterrupt;
                Report::SchedulingLog { node: arm.NodeOrdinal, engine: arm.EngineOrdinal }
            }
            other => return Err(other),
        })
    }
}
