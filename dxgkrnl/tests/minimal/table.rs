//! The driver's table: the DDIs above, and trivial ones for everything else that an adapter of this class needs.

use std::ffi::c_void;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::{answers, driver};

/// A function that does nothing and says so.
macro_rules! trivial {
    ($table:ident: $($slot:ident($($ty:ty),*);)*) => {
        $(
            $table.$slot = {
                unsafe extern "win64" fn trivial($(_: $ty),*) -> NTSTATUS {
                    STATUS_SUCCESS
                }
                Some(trivial)
            };
        )*
    };
}

unsafe extern "win64" fn nothing() {}
unsafe extern "win64" fn nothing_with_context(_: *mut c_void) {}
unsafe extern "win64" fn no_logging(_: BOOLEAN, _: u32, _: u8) {}
unsafe extern "win64" fn set_root_page_table(_: HANDLE, _: *const DXGKARG_SETROOTPAGETABLE) {}
unsafe extern "win64" fn get_root_page_table_size(_: HANDLE, _: *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize {
    4096
}

pub(crate) fn table() -> DRIVER_INITIALIZATION_DATA {
    let mut table = DRIVER_INITIALIZATION_DATA::zeroed();
    table.Version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
    plug_and_play(&mut table);
    rendering(&mut table);
    hardware_scheduling(&mut table);
    table
}

/// Fills what every driver that manages power at run time has.
pub(crate) fn fill_fstates(table: &mut DRIVER_INITIALIZATION_DATA) {
    trivial! { table: DxgkDdiSetPowerComponentFState(*mut c_void, u32, u32); }
}

/// Fills what only the driver of a compute-only adapter leaves out.
pub(crate) fn fill_for_displays(table: &mut DRIVER_INITIALIZATION_DATA) {
    trivial! { table:
        DxgkDdiNotifyAcpiEvent(*mut c_void, DXGK_EVENT_TYPE, u32, *mut c_void, *mut u32);
    }
}

fn plug_and_play(table: &mut DRIVER_INITIALIZATION_DATA) {
    table.DxgkDdiAddDevice = Some(driver::add_device);
    table.DxgkDdiStartDevice = Some(driver::start_device);
    table.DxgkDdiStopDevice = Some(driver::stop_device);
    table.DxgkDdiRemoveDevice = Some(driver::remove_device);
    table.DxgkDdiInterruptRoutine = Some(driver::interrupt_routine);
    table.DxgkDdiDpcRoutine = Some(driver::dpc_routine);
    table.DxgkDdiResetDevice = Some(nothing_with_context);
    table.DxgkDdiUnload = Some(nothing);
    table.DxgkDdiQueryInterface = Some(driver::query_interface);
    table.DxgkDdiControlEtwLogging = Some(no_logging);
    trivial! { table:
        DxgkDdiDispatchIoRequest(*mut c_void, u32, *mut c_void);
        DxgkDdiQueryChildRelations(*mut c_void, *mut DXGK_CHILD_DESCRIPTOR, u32);
        DxgkDdiQueryChildStatus(*mut c_void, *mut DXGK_CHILD_STATUS, BOOLEAN);
        DxgkDdiQueryDeviceDescriptor(*mut c_void, u32, *mut DXGK_DEVICE_DESCRIPTOR);
        DxgkDdiSetPowerState(*mut c_void, u32, DEVICE_POWER_STATE, i32);
        DxgkDdiPowerRuntimeControlRequest(*mut c_void, *const GUID, *mut c_void, usize, *mut c_void, usize, *mut usize);
    }
}

fn rendering(table: &mut DRIVER_INITIALIZATION_DATA) {
    table.DxgkDdiQueryAdapterInfo = Some(answers::query_adapter_info);
    table.DxgkDdiGetNodeMetadata = Some(answers::get_node_metadata);
    table.DxgkDdiCreateProcess = Some(driver::create_process);
    table.DxgkDdiDestroyProcess = Some(driver::destroy_process);
    table.DxgkDdiCreateDevice = Some(driver::create_device);
    table.DxgkDdiDestroyDevice = Some(driver::destroy);
    table.DxgkDdiCreateContext = Some(driver::create_context);
    table.DxgkDdiDestroyContext = Some(driver::destroy);
    table.DxgkDdiCreateAllocation = Some(driver::create_allocation);
    table.DxgkDdiDestroyAllocation = Some(driver::destroy_allocation);
    table.DxgkDdiOpenAllocation = Some(driver::open_allocation);
    table.DxgkDdiCloseAllocation = Some(driver::close_allocation);
    table.DxgkDdiBuildPagingBuffer = Some(driver::build_paging_buffer);
    table.DxgkDdiSubmitCommandVirtual = Some(driver::submit_command_virtual);
    table.DxgkDdiSetRootPageTable = Some(set_root_page_table);
    table.DxgkDdiGetRootPageTableSize = Some(get_root_page_table_size);
    trivial! { table:
        DxgkDdiDescribeAllocation(HANDLE, *mut DXGKARG_DESCRIBEALLOCATION);
        DxgkDdiGetStandardAllocationDriverData(HANDLE, *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA);
        DxgkDdiPreemptCommand(HANDLE, *const DXGKARG_PREEMPTCOMMAND);
        DxgkDdiResetFromTimeout(HANDLE);
        DxgkDdiRestartFromTimeout(HANDLE);
        DxgkDdiQueryDependentEngineGroup(HANDLE, *mut DXGKARG_QUERYDEPENDENTENGINEGROUP);
        DxgkDdiQueryEngineStatus(HANDLE, *mut DXGKARG_QUERYENGINESTATUS);
        DxgkDdiResetEngine(HANDLE, *mut DXGKARG_RESETENGINE);
        DxgkDdiCollectDbgInfo(HANDLE, *const DXGKARG_COLLECTDBGINFO);
        DxgkDdiCalibrateGpuClock(HANDLE, u32, u32, *mut DXGK_GPUCLOCKDATA);
        DxgkDdiFormatHistoryBuffer(HANDLE, *mut DXGKARG_FORMATHISTORYBUFFER);
        DxgkDdiSetStablePowerState(HANDLE, *const DXGKARG_SETSTABLEPOWERSTATE);
        DxgkDdiSetVirtualMachineData(HANDLE, *const DXGKARG_SETVIRTUALMACHINEDATA);
    }
}

fn hardware_scheduling(table: &mut DRIVER_INITIALIZATION_DATA) {
    table.DxgkDdiCreateHwContext = Some(driver::create_hw_context);
    table.DxgkDdiDestroyHwContext = Some(driver::destroy);
    table.DxgkDdiCreateHwQueue = Some(driver::create_hw_queue);
    table.DxgkDdiDestroyHwQueue = Some(driver::destroy);
    table.DxgkDdiSubmitCommandToHwQueue = Some(driver::submit_command_to_hw_queue);
    trivial! { table:
        DxgkDdiSwitchToHwContextList(HANDLE, *const DXGKARG_SWITCHTOHWCONTEXTLIST);
        DxgkDdiUpdateHwContextState(HANDLE, *const DXGKARG_UPDATEHWCONTEXTSTATE);
        DxgkDdiResetHwEngine(HANDLE, *mut DXGKARG_RESETHWENGINE);
        DxgkDdiResumeHwEngine(HANDLE, *mut DXGKARG_RESUMEHWENGINE);
        DxgkDdiSuspendContext(HANDLE, *const DXGKARG_SUSPENDCONTEXT);
        DxgkDdiResumeContext(HANDLE, *const DXGKARG_RESUMECONTEXT);
        DxgkDdiSetupPriorityBands(HANDLE, *const DXGKARG_SETUPPRIORITYBANDS);
        DxgkDdiSetContextSchedulingProperties(HANDLE, *const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES);
        DxgkDdiSetSchedulingLogBuffer(HANDLE, *const DXGKARG_SETSCHEDULINGLOGBUFFER);
        DxgkDdiSignalMonitoredFence(HANDLE, *mut DXGKARG_SIGNALMONITOREDFENCE);
        DxgkDdiPresentToHwQueue(HANDLE, *mut c_void);
    }
}
