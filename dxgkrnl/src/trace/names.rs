//! Events in words, with the names of the interface.

use std::fmt;

use super::TraceKind;

/// Names of DXGK_BUILDPAGINGBUFFER_OPERATION by number. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_OPERATION]
const OPERATIONS: [&str; 23] = [
    "TRANSFER",
    "FILL",
    "DISCARD_CONTENT",
    "READ_PHYSICAL",
    "WRITE_PHYSICAL",
    "MAP_APERTURE_SEGMENT",
    "UNMAP_APERTURE_SEGMENT",
    "SPECIAL_LOCK_TRANSFER",
    "VIRTUAL_TRANSFER",
    "VIRTUAL_FILL",
    "INIT_CONTEXT_RESOURCE",
    "UPDATE_PAGE_TABLE",
    "FLUSH_TLB",
    "UPDATE_CONTEXT_ALLOCATION",
    "COPY_PAGE_TABLE_ENTRIES",
    "NOTIFY_RESIDENCY",
    "SIGNAL_MONITORED_FENCE",
    "MAP_APERTURE_SEGMENT2",
    "NOTIFY_FENCE_RESIDENCY",
    "MAP_MMU",
    "UNMAP_MMU",
    "NOTIFY_RESIDENCY2",
    "NOTIFY_ALLOC",
];

/// Names of DXGK_INTERRUPT_TYPE by number, from 1 on. [d3dkmddi: DXGK_INTERRUPT_TYPE]
const INTERRUPTS: [&str; 21] = [
    "",
    "DMA_COMPLETED",
    "DMA_PREEMPTED",
    "CRTC_VSYNC",
    "DMA_FAULTED",
    "DISPLAYONLY_VSYNC",
    "DISPLAYONLY_PRESENT_PROGRESS",
    "CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY",
    "MICACAST_CHUNK_PROCESSING_COMPLETE",
    "DMA_PAGE_FAULTED",
    "CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2",
    "MONITORED_FENCE_SIGNALED",
    "HWQUEUE_PAGE_FAULTED",
    "HWCONTEXTLIST_SWITCH_COMPLETED",
    "PERIODIC_MONITORED_FENCE_SIGNALED",
    "SCHEDULING_LOG_INTERRUPT",
    "GPU_ENGINE_TIMEOUT",
    "SUSPEND_CONTEXT_COMPLETED",
    "CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3",
    "NATIVE_FENCE_SIGNALED",
    "GPU_ENGINE_STATE_CHANGE",
];

fn name_in(names: &'static [&'static str], number: i32) -> Option<&'static str> {
    names.get(usize::try_from(number).ok()?).copied().filter(|name| !name.is_empty())
}

/// The name of a DXGK_BUILDPAGINGBUFFER_OPERATION without its prefix, if it has one.
pub(crate) fn operation_name(operation: i32) -> Option<&'static str> {
    name_in(&OPERATIONS, operation)
}

/// The name of a DXGK_INTERRUPT_TYPE without its prefix, if it has one.
pub fn interrupt_name(kind: i32) -> Option<&'static str> {
    name_in(&INTERRUPTS, kind)
}

impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Report { kind, node, fences, value } => {
                match interrupt_name(kind) {
                    Some(name) => write!(f, "DxgkCbNotifyInterrupt: DXGK_INTERRUPT_{name}")?,
                    None => write!(f, "DxgkCbNotifyInterrupt: interrupt type {kind}")?,
                }
                node.into_iter().try_for_each(|node| write!(f, " of node {node}"))?;
                write!(f, ", value 0x{value:x}, {fences} fences named")
            }
            Self::PagingOperation { operation, bytes } => {
                match operation_name(operation) {
                    Some(name) => write!(f, "DxgkDdiBuildPagingBuffer: DXGK_OPERATION_{name}")?,
                    None => write!(f, "DxgkDdiBuildPagingBuffer: operation {operation}")?,
                }
                write!(f, ", {bytes} bytes")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::km::{DXGK_BUILDPAGINGBUFFER_OPERATION as Operation, DXGK_INTERRUPT_TYPE};

    #[test]
    fn events_have_the_names_of_the_interface() {
        let kind = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED.0;
        let report = TraceKind::Report { kind, node: Some(1), fences: 0, value: 0x1f };
        let told = "DxgkCbNotifyInterrupt: DXGK_INTERRUPT_DMA_COMPLETED of node 1, value 0x1f, 0 fences named";
        assert_eq!(report.to_string(), told);
        let operation = Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE.0;
        let told = "DxgkDdiBuildPagingBuffer: DXGK_OPERATION_UPDATE_PAGE_TABLE, 0 bytes";
        assert_eq!(TraceKind::PagingOperation { operation, bytes: 0 }.to_string(), told);
        let unknown = TraceKind::PagingOperation { operation: 99, bytes: 5 };
        assert_eq!(unknown.to_string(), "DxgkDdiBuildPagingBuffer: operation 99, 5 bytes");
        assert_eq!(TraceKind::Dpc.to_string(), "Dpc");
        assert_eq!([interrupt_name(0), interrupt_name(-1), interrupt_name(21)], [None; 3]);
        let last = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE.0;
        assert_eq!(interrupt_name(last), Some("GPU_ENGINE_STATE_CHANGE"));
    }
}
