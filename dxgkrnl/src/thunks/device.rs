//! Thunks of devices.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::refusal::refused;
use crate::vidsch::DeviceError;

use super::call::{enter, enter_read_only};
use super::power;

/// [d3dkmthk: D3DKMTCreateDevice]
pub(super) unsafe extern "win64" fn create_device(args: *mut D3DKMT_CREATEDEVICE) -> NTSTATUS {
    enter("D3DKMTCreateDevice", args, |process, args| {
        let known = D3DKMT_CREATEDEVICEFLAGS::new()
            .with_LegacyMode(true)
            .with_RequestVSync(true)
            .with_DisableGpuTimeout(true)
            .with_TestDevice(true);
        let other = args.Flags.into_bits() & !known.into_bits();
        if other != 0 {
            return Err(refused(
                STATUS_INVALID_PARAMETER,
                format!("Flags has bits that no flag of devices has: {other:#x}"),
            ));
        }
        // Nothing of the first model (patch lists, presents) exists for a device of this adapter.
        if args.Flags.LegacyMode() || args.Flags.RequestVSync() {
            let why = "Flags.LegacyMode or Flags.RequestVSync is set, and nothing of the first driver model is here";
            return Err(refused(STATUS_NOT_SUPPORTED, why));
        }
        // SAFETY: user mode gives a handle; the other arm is for callers inside the kernel.
        let adapter = unsafe { args.u.hAdapter };
        let adapter = &process.get_adapter(adapter)?.adapter;
        let _powered = power::where_needed(process, || !process.is_on(adapter));
        let (_, handle) = process.create_device(adapter)?;
        args.hDevice = handle;
        args.pCommandBuffer = core::ptr::null_mut();
        args.CommandBufferSize = 0;
        args.pAllocationList = core::ptr::null_mut();
        args.AllocationListSize = 0;
        args.pPatchLocationList = core::ptr::null_mut();
        args.PatchLocationListSize = 0;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTDestroyDevice]
pub(super) unsafe extern "win64" fn destroy_device(args: *mut D3DKMT_DESTROYDEVICE) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyDevice", args, |process, args| {
        process.destroy_device(args.hDevice)?;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTGetDeviceState]
pub(super) unsafe extern "win64" fn get_device_state(args: *mut D3DKMT_GETDEVICESTATE) -> NTSTATUS {
    enter("D3DKMTGetDeviceState", args, |process, args| {
        let error = process.get_device(args.hDevice)?.error();
        args.u = match args.StateType {
            D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION => {
                let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
                D3DKMT_GETDEVICESTATE_Union { ExecutionState: error.map_or(active, DeviceError::execution_state) }
            }
            D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_RESET => {
                D3DKMT_GETDEVICESTATE_Union { ResetState: D3DKMT_DEVICERESET_STATE::new() }
            }
            D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_PAGE_FAULT => {
                D3DKMT_GETDEVICESTATE_Union { PageFaultState: page_fault(error) }
            }
            other => {
                return Err(refused(
                    STATUS_INVALID_PARAMETER,
                    format!("StateType {} is none of a compute device", other.0),
                ));
            }
        };
        Ok(STATUS_SUCCESS)
    })
}

/// All zero for a device without page fault.
fn page_fault(error: Option<DeviceError>) -> D3DKMT_DEVICEPAGEFAULT_STATE {
    let mut state = D3DKMT_DEVICEPAGEFAULT_STATE::zeroed();
    if let Some(DeviceError::PageFault { address, flags, code }) = error {
        state.FaultedVirtualAddress = address;
        state.PageFaultFlags = flags;
        state.FaultErrorCode = code;
    }
    state
}
