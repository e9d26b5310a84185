//! Reports of events to the scheduler, one function for each type, which leave out what is muted. Callers are at device level and queue the DPC afterwards.

use campanile_hw::event::{FaultInfo, FaultKind};
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::types::HANDLE;

use crate::gpu::Gpu;
use crate::irql::Device;
use crate::node::flight::{Packet, PacketFault};
use crate::node::packet::Node;
use crate::queue::hw_queue::HwQueue;
use crate::report::data;

/// `DXGK_FAULT_ERROR_CODE`: an address that does not translate. [d3dkmdt: DXGK_GENERAL_ERROR_PAGE_FAULT]
const ERROR_PAGE_FAULT: u32 = 0;
/// `DXGK_FAULT_ERROR_CODE`: what was fetched is no instruction. [d3dkmdt: DXGK_GENERAL_ERROR_INVALID_INSTRUCTION]
const ERROR_INVALID_INSTRUCTION: u32 = 1;

/// `FaultedBindTableEntry` when the hardware does not know. [d3dkmddi: DXGK_BIND_TABLE_ENTRY_UNKNOWN]
const BIND_TABLE_ENTRY_UNKNOWN: u32 = u32::MAX;

/// All packets of the node up to `fence` are complete.
pub(crate) fn completed(irql: &Device, gpu: &Gpu, node: &Node, fence: u32) {
    if node.is_muted() {
        node.note_unreported();
        return;
    }
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED);
    data.u.DmaCompleted = DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaCompleted {
        SubmissionFenceId: fence,
        NodeOrdinal: node.ordinal(),
        EngineOrdinal: gpu.dxgk.engine(),
    };
    gpu.note(Component::Interrupt, &Event::PacketCompleted { fence, node: node.ordinal() });
    gpu.dxgk.notify_interrupt(irql, &data);
}

/// Native fences passed their monitored values: exactly `fences`, or, if that is empty, some.
pub(crate) fn native(irql: &Device, gpu: &Gpu, node: &Node, fences: &mut [HANDLE]) {
    signaled(irql, gpu, node, fences, core::ptr::null_mut(), false);
}

/// Some fence was signalled; the hardware says neither which nor of which kind.
pub(crate) fn every(irql: &Device, gpu: &Gpu, node: &Node) {
    signaled(irql, gpu, node, &mut [], core::ptr::null_mut(), true);
}

/// Native fences that `queue` signalled passed their monitored values; its log tells which. `queue` is the driver's handle.
pub(crate) fn native_of_queue(irql: &Device, gpu: &Gpu, node: &Node, queue: HANDLE) {
    signaled(irql, gpu, node, &mut [], queue, false);
}

fn signaled(irql: &Device, gpu: &Gpu, node: &Node, fences: &mut [HANDLE], queue: HANDLE, every: bool) {
    if node.is_muted() {
        return;
    }
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED);
    data.Flags = data.Flags.with_EvaluateLegacyMonitoredFences(every);
    let array = if fences.is_empty() { core::ptr::null_mut() } else { fences.as_mut_ptr() };
    data.u.NativeFenceSignaled = DXGKARGCB_NOTIFY_INTERRUPT_DATA_NativeFenceSignaled {
        NodeOrdinal: node.ordinal(),
        EngineOrdinal: gpu.dxgk.engine(),
        SignaledNativeFenceCount: fences.len() as u32,
        pSignaledNativeFenceArray: array,
        hHWQueue: queue,
    };
    let event = Event::FencesSignaled { node: node.ordinal(), fences: fences.len() as u32 };
    gpu.note(Component::Interrupt, &event);
    gpu.dxgk.notify_interrupt(irql, &data);
}

/// The entry of the node's scheduling log was written that the operating system asked to hear of.
pub(crate) fn scheduling_log(irql: &Device, gpu: &Gpu, node: &Node) {
    if node.is_muted() {
        return;
    }
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT);
    data.u.SchedulingLogInterrupt = DXGKARGCB_NOTIFY_INTERRUPT_DATA_SchedulingLogInterrupt {
        NodeOrdinal: node.ordinal(),
        EngineOrdinal: gpu.dxgk.engine(),
    };
    gpu.dxgk.notify_interrupt(irql, &data);
}

/// Some monitored fence was written.
pub(crate) fn monitored(irql: &Device, gpu: &Gpu, node: &Node) {
    if node.is_muted() {
        return;
    }
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED);
    data.u.MonitoredFenceSignaled = DXGKARGCB_NOTIFY_INTERRUPT_DATA_MonitoredFenceSignaled {
        NodeOrdinal: node.ordinal(),
        EngineOrdinal: gpu.dxgk.engine(),
    };
    gpu.note(Component::Interrupt, &Event::MonitoredFenceSignaled { node: node.ordinal() });
    gpu.dxgk.notify_interrupt(irql, &data);
}

/// The engine is idle and wants to enter F1, or hangs.
pub(crate) fn engine_state(irql: &Device, gpu: &Gpu, node: &Node, state: DXGK_ENGINE_STATE) {
    if node.is_muted() {
        return;
    }
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE);
    data.u.EngineStateChange = DXGKARGCB_NOTIFY_INTERRUPT_DATA_EngineStateChange {
        NodeOrdinal: node.ordinal(),
        EngineOrdinal: gpu.dxgk.engine(),
        NewState: state,
    };
    gpu.dxgk.notify_interrupt(irql, &data);
}

/// What went wrong, in the operating system's terms: flags, address (0 if it is none of the process), level, error.
fn describe(address: u64, info: FaultInfo) -> (DXGK_PAGE_FAULT_FLAGS, u64, u32, DXGK_FAULT_ERROR_CODE) {
    let kind = FaultKind::from_number(info.kind());
    let translation = matches!(
        kind,
        Some(FaultKind::PageFault | FaultKind::ReadOnly | FaultKind::NoExecute | FaultKind::BadPhysical)
    );
    let write = translation && info.write();
    let flags = if write { DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_WRITE } else { DXGK_PAGE_FAULT_FLAGS(0) };
    let address = match kind {
        Some(FaultKind::PageFault | FaultKind::ReadOnly | FaultKind::BadPacket | FaultKind::BadRingEntry) => address,
        Some(FaultKind::NoExecute | FaultKind::BadProgram) => address,
        _ => 0,
    };
    let error = DXGK_FAULT_ERROR_CODE::new();
    let code = if translation { ERROR_PAGE_FAULT } else { ERROR_INVALID_INSTRUCTION };
    let error = error.with_GeneralErrorCode(code);
    (flags, address, u32::from(info.level()), error)
}

/// A packet faulted; it counts as complete.
pub(crate) fn packet_fault(irql: &Device, gpu: &Gpu, node: &Node, packet: &Packet, address: u64, info: FaultInfo) {
    if node.is_muted() {
        node.keep_fault(irql, PacketFault { packet: *packet, address, info });
        return;
    }
    let (fence, bits) = (packet.fence.into(), info.into_bits());
    gpu.note(Component::Interrupt, &Event::Fault { address, info: bits, fence });
    let (flags, address, level, error) = describe(address, info);
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_PAGE_FAULTED);
    data.u.DmaPageFaulted = DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPageFaulted {
        FaultedFenceId: packet.fence,
        FaultedPrimitiveAPISequenceNumber: 0,
        FaultedPipelineStage: DXGK_RENDER_PIPELINE_STAGE::DXGK_RENDER_PIPELINE_STAGE_UNKNOWN,
        FaultedBindTableEntry: BIND_TABLE_ENTRY_UNKNOWN,
        PageFaultFlags: flags,
        FaultedVirtualAddress: address,
        NodeOrdinal: node.ordinal(),
        EngineOrdinal: gpu.dxgk.engine(),
        PageTableLevel: level,
        FaultErrorCode: error,
        FaultedProcessHandle: core::ptr::without_provenance_mut(packet.dxgk_process),
    };
    gpu.dxgk.notify_interrupt(irql, &data);
}

/// A hardware queue faulted and runs no more; others are not affected, so no reset is asked for. The fence id of a queue that
/// user mode writes is not known to the kernel and reported as 0.
pub(crate) fn queue_fault(irql: &Device, gpu: &Gpu, node: &Node, queue: &HwQueue, address: u64, info: FaultInfo) {
    if FaultKind::from_number(info.kind()) == Some(FaultKind::Reset) {
        // The kernel itself has requested the reset that caused this.
        return;
    }
    if node.is_muted() {
        queue.keep_fault(irql, address, info);
        return;
    }
    let fence = queue.fence_of_entry(info.entry());
    gpu.note(Component::Interrupt, &Event::Fault { address, info: info.into_bits(), fence });
    let (flags, address, level, error) = describe(address, info);
    let mut data = data(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED);
    data.u.HwQueuePageFaulted = DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted {
        FaultedFenceId: fence,
        FaultedVirtualAddress: address,
        FaultedPrimitiveAPISequenceNumber: 0,
        u: DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted_Union { FaultedHwQueue: queue.dxgk() },
        NodeOrdinal: node.ordinal(),
        EngineOrdinal: gpu.dxgk.engine(),
        FaultedPipelineStage: DXGK_RENDER_PIPELINE_STAGE::DXGK_RENDER_PIPELINE_STAGE_UNKNOWN,
        FaultedBindTableEntry: BIND_TABLE_ENTRY_UNKNOWN,
        PageFaultFlags: flags,
        PageTableLevel: level,
        FaultErrorCode: error,
    };
    gpu.dxgk.notify_interrupt(irql, &data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_addresses_are_page_faults_and_only_addresses_of_the_process_are_told() {
        // What failed, whether an address did not translate, and whether the address is one of the process.
        let known = [
            (FaultKind::PageFault, true, true),
            (FaultKind::ReadOnly, true, true),
            (FaultKind::NoExecute, true, true),
            (FaultKind::BadPhysical, true, false),
            (FaultKind::BadPacket, false, true),
            (FaultKind::BadRingEntry, false, true),
            (FaultKind::BadProgram, false, true),
            (FaultKind::BadWritePointer, false, false),
            (FaultKind::Reset, false, false),
            (FaultKind::Misaligned, false, false),
        ];
        for (kind, translation, told) in known {
            for write in [false, true] {
                let info = FaultInfo::new().with_kind(kind as u8).with_write(write).with_level(2);
                let (flags, address, level, error) = describe(0x5000, info);
                let written = flags == DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_WRITE;
                assert_eq!((written, flags.0 != 0), (write && translation, write && translation), "{kind:?} {write}");
                assert_eq!((address, level), (if told { 0x5000 } else { 0 }, 2), "{kind:?} {write}");
                let code = if translation { ERROR_PAGE_FAULT } else { ERROR_INVALID_INSTRUCTION };
                assert_eq!(error.GeneralErrorCode(), code, "{kind:?} {write}");
            }
        }
        assert_eq!(describe(9, FaultInfo::from_bits(u64::MAX)).1, 0);
    }
}
