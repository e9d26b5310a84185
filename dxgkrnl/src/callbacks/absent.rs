// UNSAFETY: functions without declared arguments in slots of other prototypes.
//! Callbacks of DXGKRNL_INTERFACE that this system does not implement: each logs its name and the reason, and answers STATUS_NOT_SUPPORTED, so that a
//! driver that calls one learns why instead of jumping to NULL.

use wddm_ddi::km::DXGKRNL_INTERFACE;
use wddm_ddi::status::STATUS_NOT_SUPPORTED;

use super::call::{Level, on_driver};

/// Type of the result that the page of a callback gives.
#[derive(Clone, Copy)]
enum Answer {
    /// NTSTATUS.
    Status,
    /// Nothing.
    Nothing,
    /// A D3DGPU_VIRTUAL_ADDRESS, of which 0 is none.
    Address,
}

const DISPLAYS: &str = "this system has no displays";
const CONTEXT_ALLOCATIONS: &str = "this system has no context allocations";
const FRAME_BUFFER: &str =
    "no frame buffer is saved here, since the machine neither hibernates nor is updated while it runs";
const IO_MMU: &str = "this system has no IOMMU, and devices reach memory by its physical addresses";
const PHYSICAL_MEMORY: &str =
    "this system has no physical memory objects and no address descriptor lists, which go with an IOMMU";

/// Logs the call; what a driver finds in RAX.
fn unavailable(name: &'static str, level: Level, answer: Answer, why: &str) -> usize {
    on_driver(name, level, |driver| {
        let (told, value) = match answer {
            Answer::Status => {
                (format!("answers {STATUS_NOT_SUPPORTED}"), STATUS_NOT_SUPPORTED.0.cast_unsigned() as usize)
            }
            Answer::Nothing => ("does nothing".to_owned(), 0),
            Answer::Address => ("answers no address".to_owned(), 0),
        };
        driver.verifier().log(format!("{name} {told}: {why} [dispmprt: DXGKRNL_INTERFACE]"));
        Ok(value)
    })
}

/// Puts a function into each slot, which has the name of the slot, the level up to which it may be called (any, where a lower one is not checked), and its reason.
macro_rules! absent {
    ($($slot:ident: $level:ident, $answer:ident, $why:expr;)*) => {
        pub(super) fn fill(interface: &mut DXGKRNL_INTERFACE) {
            $({
                unsafe extern "win64" fn absent() -> usize {
                    unavailable(stringify!($slot), Level::$level, Answer::$answer, $why)
                }
                // SAFETY: both are addresses of functions. Who calls it by the prototype of its page passes arguments that the function does not
                // look at: in this calling convention they are in registers that the callee may change, and on the stack, which the caller
                // cleans up. The result is in RAX, which is the address, or whose lower half is the NTSTATUS, and of which a caller of VOID reads nothing.
                let slot = unsafe {
                    std::mem::transmute::<unsafe extern "win64" fn() -> usize, unsafe extern "win64" fn()>(absent)
                };
                interface.$slot = Some(slot);
            })*
        }
    };
}

absent! {
    DxgkCbIndicateChildStatus: UpToDispatch, Status, "this system has no displays, and the driver has reported no children";
    DxgkCbQueryVidPnInterface: Passive, Status, DISPLAYS;
    DxgkCbQueryMonitorInterface: Passive, Status, DISPLAYS;
    DxgkCbGetCaptureAddress: Any, Status, DISPLAYS;
    DxgkCbExcludeAdapterAccess: Passive, Status, "this system does not keep user mode from an adapter that works";
    DxgkCbCreateContextAllocation: Passive, Status, CONTEXT_ALLOCATIONS;
    DxgkCbDestroyContextAllocation: Passive, Status, CONTEXT_ALLOCATIONS;
    DxgkCbMapContextAllocation: Passive, Address, CONTEXT_ALLOCATIONS;
    DxgkCbUpdateContextAllocation: Passive, Status, CONTEXT_ALLOCATIONS;
    DxgkCbAcquirePostDisplayOwnership: Passive, Status, DISPLAYS;
    DxgkCbAcquirePostDisplayOwnership2: Passive, Status, DISPLAYS;
    DxgkCbPowerRuntimeControlRequest: UpToDispatch, Status, "this machine has no power engine plug-in (PEP) to take the request";
    DxgkCbCompletePStateTransition: Any, Nothing, "this system asks for no P-states";
    DxgkCbReserveGpuVirtualAddressRange: Passive, Status, "this system reserves no ranges of GPU virtual addresses for a kernel-mode driver";
    DxgkCbHardwareContentProtectionTeardown: Any, Nothing, "this system has no protected content";
    DxgkCbMultiPlaneOverlayDisabled: Any, Nothing, DISPLAYS;
    DxgkCbMitigatedRangeUpdate: Any, Status, "this system has no GPU partitions";
    DxgkCbIndicateConnectorChange: Any, Status, DISPLAYS;
    DxgkCbUnblockUEFIFrameBufferRanges: Any, Status, "the firmware of this machine has no frame buffer";
    DxgkCbSetProtectedSessionStatus: Any, Status, "this system has no protected content";
    DxgkCbAllocatePagesForMdl: Any, Status, IO_MMU;
    DxgkCbFreePagesFromMdl: Any, Nothing, IO_MMU;
    DxgkCbPinFrameBufferForSave: Any, Status, FRAME_BUFFER;
    DxgkCbPinFrameBufferForSave2: Any, Status, FRAME_BUFFER;
    DxgkCbUnpinFrameBufferForSave: Any, Status, FRAME_BUFFER;
    DxgkCbMapFrameBufferPointer: Any, Status, FRAME_BUFFER;
    DxgkCbUnmapFrameBufferPointer: Any, Status, FRAME_BUFFER;
    DxgkCbMapMdlToIoMmu: Any, Status, IO_MMU;
    DxgkCbUnmapMdlFromIoMmu: Any, Nothing, IO_MMU;
    DxgkCbReportDiagnostic: Any, Status, "this system does not gather diagnostic reports";
    DxgkCbSignalEvent: Any, Status, "this system creates no events by DxgkDdiCreateCpuEvent";
    DxgkCbSaveMemoryForHotUpdate: Any, Status, "drivers are not updated here while they run";
    DxgkCbNotifyCursorSupportChange: Any, Status, DISPLAYS;
    DxgkCbCreatePhysicalMemoryObject: Any, Status, PHYSICAL_MEMORY;
    DxgkCbDestroyPhysicalMemoryObject: Any, Nothing, PHYSICAL_MEMORY;
    DxgkCbMapPhysicalMemory: Any, Status, PHYSICAL_MEMORY;
    DxgkCbUnmapPhysicalMemory: Any, Nothing, PHYSICAL_MEMORY;
    DxgkCbAllocateAdl: Any, Status, PHYSICAL_MEMORY;
    DxgkCbFreeAdl: Any, Nothing, PHYSICAL_MEMORY;
    DxgkCbOpenPhysicalMemoryObject: Any, Status, PHYSICAL_MEMORY;
    DxgkCbClosePhysicalMemoryObject: Any, Nothing, PHYSICAL_MEMORY;
}
