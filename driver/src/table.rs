//! The driver's table of entry points: every slot classed, and the table built accordingly.

use wddm_ddi::Zeroed;
use wddm_ddi::km::{DRIVER_INITIALIZATION_DATA, SLOT_NAMES};
use wddm_ddi::status::NTSTATUS;

use crate::caps::INTERFACE_VERSION;
use crate::entry::{caps, doorbell, fence, memory, pnp, power, queue, reset};

/// State of a slot of the driver's function table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The driver has an entry point.
    Implemented,
    /// The slot is NULL.
    Disabled,
}

/// One slot of `DRIVER_INITIALIZATION_DATA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Member of the structure.
    pub name: &'static str,
    /// Implemented, or NULL.
    pub class: Class,
    /// Why.
    pub reason: &'static str,
}

const fn implemented(name: &'static str, reason: &'static str) -> Slot {
    Slot { name, class: Class::Implemented, reason }
}

const fn disabled(name: &'static str, reason: &'static str) -> Slot {
    Slot { name, class: Class::Disabled, reason }
}

/// Every slot in table order.
pub static SLOTS: [Slot; 192] = [
    implemented("DxgkDdiAddDevice", "mandatory"),
    implemented("DxgkDdiStartDevice", "mandatory"),
    implemented("DxgkDdiStopDevice", "mandatory"),
    implemented("DxgkDdiRemoveDevice", "mandatory"),
    implemented("DxgkDdiDispatchIoRequest", "optional; refuses every request"),
    implemented("DxgkDdiInterruptRoutine", "mandatory"),
    implemented("DxgkDdiDpcRoutine", "mandatory"),
    implemented("DxgkDdiQueryChildRelations", "mandatory; there are no children"),
    implemented("DxgkDdiQueryChildStatus", "mandatory; there are no children"),
    implemented("DxgkDdiQueryDeviceDescriptor", "mandatory; there are no children"),
    implemented("DxgkDdiSetPowerState", "mandatory"),
    disabled("DxgkDdiNotifyAcpiEvent", "prohibited for compute-only adapters"),
    implemented("DxgkDdiResetDevice", "mandatory"),
    implemented("DxgkDdiUnload", "mandatory"),
    implemented("DxgkDdiQueryInterface", "describes the features of the driver"),
    implemented("DxgkDdiControlEtwLogging", "optional; switches the logging of events"),
    implemented("DxgkDdiQueryAdapterInfo", "mandatory"),
    implemented("DxgkDdiCreateDevice", "mandatory"),
    implemented("DxgkDdiCreateAllocation", "mandatory"),
    implemented("DxgkDdiDestroyAllocation", "mandatory"),
    implemented("DxgkDdiDescribeAllocation", "mandatory"),
    implemented("DxgkDdiGetStandardAllocationDriverData", "storage of native fences"),
    disabled("DxgkDdiAcquireSwizzlingRange", "no swizzling ranges are reported"),
    disabled("DxgkDdiReleaseSwizzlingRange", "no swizzling ranges are reported"),
    disabled("DxgkDdiPatch", "contexts with GPU virtual addresses need no patching"),
    implemented("DxgkDdiSubmitCommand", "packet scheduling, paging without a context"),
    implemented("DxgkDdiPreemptCommand", "packet scheduling"),
    implemented("DxgkDdiBuildPagingBuffer", "mandatory"),
    disabled("DxgkDdiSetPalette", "no display"),
    disabled("DxgkDdiSetPointerPosition", "no display"),
    disabled("DxgkDdiSetPointerShape", "no display"),
    implemented("DxgkDdiResetFromTimeout", "mandatory"),
    implemented("DxgkDdiRestartFromTimeout", "mandatory"),
    disabled("DxgkDdiEscape", "private data of the other DDIs says everything user mode needs"),
    implemented("DxgkDdiCollectDbgInfo", "mandatory with per-engine reset"),
    disabled("DxgkDdiQueryCurrentFence", "prohibited for compute-only adapters"),
    disabled("DxgkDdiIsSupportedVidPn", "no display"),
    disabled("DxgkDdiRecommendFunctionalVidPn", "no display"),
    disabled("DxgkDdiEnumVidPnCofuncModality", "no display"),
    disabled("DxgkDdiSetVidPnSourceAddress", "no display"),
    disabled("DxgkDdiSetVidPnSourceVisibility", "no display"),
    disabled("DxgkDdiCommitVidPn", "no display"),
    disabled("DxgkDdiUpdateActiveVidPnPresentPath", "no display"),
    disabled("DxgkDdiRecommendMonitorModes", "no display"),
    disabled("DxgkDdiRecommendVidPnTopology", "no display"),
    disabled("DxgkDdiGetScanLine", "no display"),
    disabled("DxgkDdiStopCapture", "no display"),
    disabled("DxgkDdiControlInterrupt", "no display"),
    disabled("DxgkDdiCreateOverlay", "no display"),
    implemented("DxgkDdiDestroyDevice", "mandatory"),
    implemented("DxgkDdiOpenAllocation", "mandatory"),
    implemented("DxgkDdiCloseAllocation", "mandatory"),
    disabled("DxgkDdiRender", "command buffers are written by user mode and submitted as they are"),
    disabled("DxgkDdiPresent", "prohibited for compute-only adapters"),
    disabled("DxgkDdiUpdateOverlay", "no display"),
    disabled("DxgkDdiFlipOverlay", "no display"),
    disabled("DxgkDdiDestroyOverlay", "no display"),
    implemented("DxgkDdiCreateContext", "packet scheduling"),
    implemented("DxgkDdiDestroyContext", "packet scheduling"),
    implemented("DxgkDdiLinkDevice", "boards with two GPUs"),
    disabled("DxgkDdiSetDisplayPrivateDriverFormat", "no display"),
    disabled("DxgkDdiDescribePageTable", "retired slot, must be NULL"),
    disabled("DxgkDdiUpdatePageTable", "retired slot, must be NULL"),
    disabled("DxgkDdiUpdatePageDirectory", "retired slot, must be NULL"),
    disabled("DxgkDdiMovePageDirectory", "retired slot, must be NULL"),
    disabled("DxgkDdiSubmitRender", "retired slot, must be NULL"),
    disabled("DxgkDdiCreateAllocation2", "retired slot, must be NULL"),
    disabled("DxgkDdiRenderKm", "command buffers are written by user mode and submitted as they are"),
    disabled("Reserved", "reserved"),
    disabled("DxgkDdiQueryVidPnHWCapability", "no display"),
    implemented("DxgkDdiSetPowerComponentFState", "each node is a power component"),
    implemented("DxgkDdiQueryDependentEngineGroup", "mandatory with per-engine reset"),
    implemented("DxgkDdiQueryEngineStatus", "mandatory with per-engine reset"),
    implemented("DxgkDdiResetEngine", "mandatory with per-engine reset"),
    disabled("DxgkDdiStopDeviceAndReleasePostDisplayOwnership", "no display"),
    disabled("DxgkDdiSystemDisplayEnable", "no display"),
    disabled("DxgkDdiSystemDisplayWrite", "no display"),
    disabled("DxgkDdiCancelCommand", "CancelCommandAware is not claimed"),
    disabled("DxgkDdiGetChildContainerId", "no display"),
    implemented("DxgkDdiPowerRuntimeControlRequest", "told when power callbacks may be called"),
    disabled("DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay", "no display"),
    implemented(
        "DxgkDdiNotifySurpriseRemoval",
        "called with SupportSurpriseRemoval; the hardware is not touched afterwards",
    ),
    implemented("DxgkDdiGetNodeMetadata", "mandatory"),
    disabled("DxgkDdiSetPowerPState", "retired slot, must be NULL"),
    disabled("DxgkDdiControlInterrupt2", "no display"),
    disabled("DxgkDdiCheckMultiPlaneOverlaySupport", "no display"),
    implemented("DxgkDdiCalibrateGpuClock", "mandatory"),
    implemented("DxgkDdiFormatHistoryBuffer", "mandatory"),
    disabled("DxgkDdiRenderGdi", "command buffers are written by user mode and submitted as they are"),
    implemented("DxgkDdiSubmitCommandVirtual", "packet scheduling with GPU virtual addresses"),
    implemented("DxgkDdiSetRootPageTable", "GPU virtual addresses"),
    implemented("DxgkDdiGetRootPageTableSize", "GPU virtual addresses"),
    implemented("DxgkDdiMapCpuHostAperture", "the CPU host aperture, where the hardware has one"),
    implemented("DxgkDdiUnmapCpuHostAperture", "the CPU host aperture, where the hardware has one"),
    disabled("DxgkDdiCheckMultiPlaneOverlaySupport2", "no display"),
    implemented("DxgkDdiCreateProcess", "GPU virtual addresses"),
    implemented("DxgkDdiDestroyProcess", "GPU virtual addresses"),
    disabled("DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2", "no display"),
    disabled("Reserved1", "reserved"),
    disabled("Reserved2", "reserved"),
    disabled("DxgkDdiPowerRuntimeSetDeviceHandle", "retired slot, must be NULL"),
    implemented("DxgkDdiSetStablePowerState", "mandatory"),
    disabled("DxgkDdiSetVideoProtectedRegion", "no video protected regions or sessions"),
    disabled("DxgkDdiCheckMultiPlaneOverlaySupport3", "no display"),
    disabled("DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3", "no display"),
    disabled("DxgkDdiPostMultiPlaneOverlayPresent", "no display"),
    disabled("DxgkDdiValidateUpdateAllocationProperty", "allocation properties are not changed after creation"),
    disabled("DxgkDdiControlModeBehavior", "no display"),
    disabled("DxgkDdiUpdateMonitorLinkInfo", "no display"),
    implemented("DxgkDdiCreateHwContext", "hardware scheduling"),
    implemented("DxgkDdiDestroyHwContext", "hardware scheduling"),
    implemented("DxgkDdiCreateHwQueue", "hardware scheduling"),
    implemented("DxgkDdiDestroyHwQueue", "hardware scheduling"),
    implemented("DxgkDdiSubmitCommandToHwQueue", "hardware scheduling"),
    implemented("DxgkDdiSwitchToHwContextList", "hardware scheduling"),
    implemented("DxgkDdiResetHwEngine", "hardware scheduling"),
    disabled("DxgkDdiCreatePeriodicFrameNotification", "no display"),
    disabled("DxgkDdiDestroyPeriodicFrameNotification", "no display"),
    disabled("DxgkDdiSetTimingsFromVidPn", "no display"),
    disabled("DxgkDdiSetTargetGamma", "no display"),
    disabled("DxgkDdiSetTargetContentType", "no display"),
    disabled("DxgkDdiSetTargetAnalogCopyProtection", "no display"),
    disabled("DxgkDdiSetTargetAdjustedColorimetry", "no display"),
    disabled("DxgkDdiDisplayDetectControl", "no display"),
    disabled("DxgkDdiQueryConnectionChange", "no display"),
    disabled("DxgkDdiExchangePreStartInfo", "nothing is handed over before the start"),
    disabled("DxgkDdiGetMultiPlaneOverlayCaps", "no display"),
    disabled("DxgkDdiGetPostCompositionCaps", "no display"),
    implemented("DxgkDdiUpdateHwContextState", "hardware scheduling"),
    disabled("DxgkDdiCreateProtectedSession", "no video protected regions or sessions"),
    disabled("DxgkDdiDestroyProtectedSession", "no video protected regions or sessions"),
    implemented("DxgkDdiSetSchedulingLogBuffer", "hardware scheduling; the log stays empty"),
    implemented("DxgkDdiSetupPriorityBands", "hardware scheduling"),
    disabled("DxgkDdiNotifyFocusPresent", "no display"),
    implemented("DxgkDdiSetContextSchedulingProperties", "hardware scheduling"),
    implemented("DxgkDdiSuspendContext", "hardware scheduling"),
    implemented("DxgkDdiResumeContext", "hardware scheduling"),
    implemented("DxgkDdiSetVirtualMachineData", "mandatory; a process of a virtual machine is served as any other"),
    disabled("DxgkDdiBeginExclusiveAccess", "IOMMU isolation is not claimed"),
    disabled("DxgkDdiEndExclusiveAccess", "IOMMU isolation is not claimed"),
    disabled("DxgkDdiQueryDiagnosticTypesSupport", "no diagnostics beyond CollectDbgInfo"),
    disabled("DxgkDdiControlDiagnosticReporting", "no diagnostics beyond CollectDbgInfo"),
    implemented("DxgkDdiResumeHwEngine", "hardware scheduling"),
    implemented("DxgkDdiSignalMonitoredFence", "hardware scheduling"),
    implemented(
        "DxgkDdiPresentToHwQueue",
        "must be filled with hardware scheduling; nothing is presented, so it refuses",
    ),
    disabled("DxgkDdiValidateSubmitCommand", "command buffers are written by user mode and submitted as they are"),
    disabled("DxgkDdiSetTargetAdjustedColorimetry2", "no display"),
    disabled("DxgkDdiSetTrackedWorkloadPowerLevel", "tracked workloads are not claimed"),
    disabled("DxgkDdiSaveMemoryForHotUpdate", "hot update is not supported"),
    disabled("DxgkDdiRestoreMemoryForHotUpdate", "hot update is not supported"),
    disabled("DxgkDdiCollectDiagnosticInfo", "no diagnostics beyond CollectDbgInfo"),
    disabled("Reserved3", "reserved"),
    disabled("DxgkDdiControlInterrupt3", "no display"),
    disabled("DxgkDdiSetFlipQueueLogBuffer", "no display"),
    disabled("DxgkDdiUpdateFlipQueueLog", "no display"),
    disabled("DxgkDdiCancelQueuedFlips", "no display"),
    disabled("DxgkDdiSetInterruptTargetPresentId", "no display"),
    disabled("DxgkDdiSetAllocationBackingStore", "the feature is not supported"),
    disabled("DxgkDdiCreateCpuEvent", "the feature is not supported"),
    disabled("DxgkDdiDestroyCpuEvent", "the feature is not supported"),
    disabled("DxgkDdiCancelFlips", "no display"),
    implemented("DxgkDdiCreateNativeFence", "native fences"),
    implemented("DxgkDdiDestroyNativeFence", "native fences"),
    implemented("DxgkDdiUpdateMonitoredValues", "native fences"),
    implemented("DxgkDdiUpdateCurrentValuesFromCpu", "native fences"),
    implemented("DxgkDdiCreateDoorbell", "user-mode submission"),
    implemented("DxgkDdiConnectDoorbell", "user-mode submission"),
    implemented("DxgkDdiDisconnectDoorbell", "user-mode submission"),
    implemented("DxgkDdiDestroyDoorbell", "user-mode submission"),
    implemented("DxgkDdiNotifyWorkSubmission", "user-mode submission"),
    disabled("Reserved4", "reserved"),
    disabled("DxgkDdiCreateMemoryBasis", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiDestroyMemoryBasis", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiStartDirtyTracking", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiStopDirtyTracking", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiQueryDirtyBitData", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiPrepareLiveMigration", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiSaveImmutableMigrationData", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiSaveMutableMigrationData", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiEndLiveMigration", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiRestoreImmutableMigrationData", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiRestoreMutableMigrationData", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiWriteVirtualizedInterrupt", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiSetVirtualGpuResources2", "dirty tracking and live migration are not claimed"),
    disabled("DxgkDdiSetVirtualFunctionPauseState", "dirty tracking and live migration are not claimed"),
    implemented("DxgkDdiOpenNativeFence", "native fences"),
    implemented("DxgkDdiCloseNativeFence", "native fences"),
    implemented("DxgkDdiSetNativeFenceLogBuffer", "native fences, whose signals and waits the GPU logs"),
    implemented("DxgkDdiUpdateNativeFenceLogs", "native fences, whose signals and waits the GPU logs"),
    disabled("DxgkDdiCollectDbgInfo2", "CollectDbgInfo serves every reason"),
    disabled("DxgkDdiNotifyContextPriorityChange", "priorities arrive as scheduling properties"),
    disabled("DxgkDdiResetDisplayEngine", "no display"),
];

/// The table disagrees with [`SLOTS`]; bits 7:0 are the number of the first slot that does. A customer code, so that the status
/// which the device manager shows can only come from here.
pub(crate) const STATUS_TABLE_MISMATCH: u32 = 0xe0ca_0000;

/// The table of this driver.
pub(crate) fn table() -> DRIVER_INITIALIZATION_DATA {
    let mut data = DRIVER_INITIALIZATION_DATA::zeroed();
    data.Version = INTERFACE_VERSION;
    data.DxgkDdiAddDevice = Some(pnp::add_device);
    data.DxgkDdiStartDevice = Some(pnp::start_device);
    data.DxgkDdiStopDevice = Some(pnp::stop_device);
    data.DxgkDdiRemoveDevice = Some(pnp::remove_device);
    data.DxgkDdiDispatchIoRequest = Some(pnp::dispatch_io_request);
    data.DxgkDdiInterruptRoutine = Some(pnp::interrupt_routine);
    data.DxgkDdiDpcRoutine = Some(pnp::dpc_routine);
    data.DxgkDdiQueryChildRelations = Some(pnp::query_child_relations);
    data.DxgkDdiQueryChildStatus = Some(pnp::query_child_status);
    data.DxgkDdiQueryDeviceDescriptor = Some(pnp::query_device_descriptor);
    data.DxgkDdiSetPowerState = Some(power::set_power_state);
    data.DxgkDdiNotifySurpriseRemoval = Some(pnp::notify_surprise_removal);
    data.DxgkDdiResetDevice = Some(pnp::reset_device);
    data.DxgkDdiUnload = Some(pnp::unload);
    data.DxgkDdiQueryInterface = Some(pnp::query_interface);
    data.DxgkDdiControlEtwLogging = Some(pnp::control_etw_logging);
    data.DxgkDdiQueryAdapterInfo = Some(caps::query_adapter_info);
    data.DxgkDdiCreateDevice = Some(memory::create_device);
    data.DxgkDdiCreateAllocation = Some(memory::create_allocation);
    data.DxgkDdiDestroyAllocation = Some(memory::destroy_allocation);
    data.DxgkDdiDescribeAllocation = Some(memory::describe_allocation);
    data.DxgkDdiGetStandardAllocationDriverData = Some(memory::get_standard_allocation_driver_data);
    data.DxgkDdiSubmitCommand = Some(queue::submit_command);
    data.DxgkDdiPreemptCommand = Some(queue::preempt_command);
    data.DxgkDdiBuildPagingBuffer = Some(memory::build_paging_buffer);
    data.DxgkDdiResetFromTimeout = Some(reset::reset_from_timeout);
    data.DxgkDdiRestartFromTimeout = Some(reset::restart_from_timeout);
    data.DxgkDdiCollectDbgInfo = Some(reset::collect_dbg_info);
    data.DxgkDdiDestroyDevice = Some(memory::destroy_device);
    data.DxgkDdiOpenAllocation = Some(memory::open_allocation);
    data.DxgkDdiCloseAllocation = Some(memory::close_allocation);
    data.DxgkDdiCreateContext = Some(queue::create_context);
    data.DxgkDdiDestroyContext = Some(queue::destroy_context);
    data.DxgkDdiLinkDevice = Some(pnp::link_device);
    data.DxgkDdiSetPowerComponentFState = Some(power::set_power_component_fstate);
    data.DxgkDdiPowerRuntimeControlRequest = Some(power::power_runtime_control_request);
    data.DxgkDdiQueryDependentEngineGroup = Some(reset::query_dependent_engine_group);
    data.DxgkDdiQueryEngineStatus = Some(reset::query_engine_status);
    data.DxgkDdiResetEngine = Some(reset::reset_engine);
    data.DxgkDdiGetNodeMetadata = Some(caps::get_node_metadata);
    data.DxgkDdiCalibrateGpuClock = Some(power::calibrate_gpu_clock);
    data.DxgkDdiFormatHistoryBuffer = Some(power::format_history_buffer);
    data.DxgkDdiSubmitCommandVirtual = Some(queue::submit_command_virtual);
    data.DxgkDdiSetRootPageTable = Some(memory::set_root_page_table);
    data.DxgkDdiGetRootPageTableSize = Some(memory::get_root_page_table_size);
    data.DxgkDdiMapCpuHostAperture = Some(memory::map_cpu_host_aperture);
    data.DxgkDdiUnmapCpuHostAperture = Some(memory::unmap_cpu_host_aperture);
    data.DxgkDdiCreateProcess = Some(memory::create_process);
    data.DxgkDdiDestroyProcess = Some(memory::destroy_process);
    data.DxgkDdiSetStablePowerState = Some(power::set_stable_power_state);
    data.DxgkDdiCreateHwContext = Some(queue::create_hw_context);
    data.DxgkDdiDestroyHwContext = Some(queue::destroy_hw_context);
    data.DxgkDdiCreateHwQueue = Some(queue::create_hw_queue);
    data.DxgkDdiDestroyHwQueue = Some(queue::destroy_hw_queue);
    data.DxgkDdiSubmitCommandToHwQueue = Some(queue::submit_command_to_hw_queue);
    data.DxgkDdiSwitchToHwContextList = Some(queue::switch_to_hw_context_list);
    data.DxgkDdiResetHwEngine = Some(reset::reset_hw_engine);
    data.DxgkDdiUpdateHwContextState = Some(queue::update_hw_context_state);
    data.DxgkDdiSetSchedulingLogBuffer = Some(queue::set_scheduling_log_buffer);
    data.DxgkDdiSetupPriorityBands = Some(queue::setup_priority_bands);
    data.DxgkDdiSetContextSchedulingProperties = Some(queue::set_context_scheduling_properties);
    data.DxgkDdiSuspendContext = Some(queue::suspend_context);
    data.DxgkDdiResumeContext = Some(queue::resume_context);
    data.DxgkDdiSetVirtualMachineData = Some(memory::set_virtual_machine_data);
    data.DxgkDdiResumeHwEngine = Some(reset::resume_hw_engine);
    data.DxgkDdiSignalMonitoredFence = Some(fence::signal_monitored_fence);
    data.DxgkDdiPresentToHwQueue = Some(queue::present_to_hw_queue);
    data.DxgkDdiCreateNativeFence = Some(fence::create_native_fence);
    data.DxgkDdiDestroyNativeFence = Some(fence::destroy_native_fence);
    data.DxgkDdiUpdateMonitoredValues = Some(fence::update_monitored_values);
    data.DxgkDdiUpdateCurrentValuesFromCpu = Some(fence::update_current_values_from_cpu);
    data.DxgkDdiCreateDoorbell = Some(doorbell::create_doorbell);
    data.DxgkDdiConnectDoorbell = Some(doorbell::connect_doorbell);
    data.DxgkDdiDisconnectDoorbell = Some(doorbell::disconnect_doorbell);
    data.DxgkDdiDestroyDoorbell = Some(doorbell::destroy_doorbell);
    data.DxgkDdiNotifyWorkSubmission = Some(doorbell::notify_work_submission);
    data.DxgkDdiOpenNativeFence = Some(fence::open_native_fence);
    data.DxgkDdiCloseNativeFence = Some(fence::close_native_fence);
    data.DxgkDdiSetNativeFenceLogBuffer = Some(fence::set_native_fence_log_buffer);
    data.DxgkDdiUpdateNativeFenceLogs = Some(fence::update_native_fence_logs);
    data
}

/// Compares a table with the classes.
///
/// # Errors
/// The status to fail the load with, which names the slot.
pub(crate) fn check(data: &DRIVER_INITIALIZATION_DATA) -> Result<(), NTSTATUS> {
    const WORDS: usize = size_of::<DRIVER_INITIALIZATION_DATA>() / size_of::<usize>();
    const { assert!(WORDS == SLOTS.len() + 1 && SLOT_NAMES.len() == SLOTS.len()) };
    // SAFETY: the structure is a version padded to a word and 192 optional functions, all words of which are initialised: it is
    // made from zeroed memory.
    let words = unsafe { &*core::ptr::from_ref(data).cast::<[usize; WORDS]>() };
    for ((number, slot), word) in (0u32..).zip(&SLOTS).zip(words.iter().skip(1)) {
        if (*word != 0) != (slot.class == Class::Implemented) {
            return Err(NTSTATUS((STATUS_TABLE_MISMATCH | number).cast_signed()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_as_the_structure_names_them() {
        assert_eq!(SLOTS.map(|slot| slot.name), SLOT_NAMES);
        assert!(SLOTS.iter().all(|slot| !slot.reason.is_empty()));
    }

    #[test]
    fn the_table_fills_exactly_the_slots_classed_as_implemented() {
        let data = table();
        assert_eq!(data.Version, 0x11007);
        assert_eq!(check(&data), Ok(()));
    }

    #[test]
    fn a_missing_and_a_surplus_entry_are_named() {
        let mut data = table();
        data.DxgkDdiStartDevice = None;
        assert_eq!(check(&data).map_err(|status| status.0 as u32), Err(0xe0ca_0001));
        let mut data = table();
        unsafe extern "win64" fn surplus() {}
        data.DxgkDdiPatch = Some(surplus);
        assert_eq!(check(&data).map_err(|status| status.0 as u32), Err(0xe0ca_0018));
    }

    #[test]
    fn everything_that_the_compute_model_requires_is_filled() {
        let required = [
            "AddDevice StartDevice StopDevice RemoveDevice Unload QueryInterface InterruptRoutine DpcRoutine",
            "QueryChildRelations QueryChildStatus QueryDeviceDescriptor SetPowerState ResetDevice QueryAdapterInfo",
            "CreateDevice DestroyDevice CreateContext DestroyContext CreateAllocation DestroyAllocation OpenAllocation",
            "CloseAllocation DescribeAllocation GetStandardAllocationDriverData BuildPagingBuffer PreemptCommand",
            "ResetFromTimeout RestartFromTimeout QueryDependentEngineGroup QueryEngineStatus ResetEngine CollectDbgInfo",
            "GetNodeMetadata CalibrateGpuClock FormatHistoryBuffer SetStablePowerState SetVirtualMachineData",
            "CreateProcess DestroyProcess GetRootPageTableSize SetRootPageTable SubmitCommandVirtual CreateHwContext",
            "DestroyHwContext CreateHwQueue DestroyHwQueue SubmitCommandToHwQueue SwitchToHwContextList",
            "UpdateHwContextState ResetHwEngine ResumeHwEngine SuspendContext ResumeContext SetupPriorityBands",
            "SetContextSchedulingProperties SetSchedulingLogBuffer SignalMonitoredFence CreateNativeFence",
            "DestroyNativeFence OpenNativeFence CloseNativeFence UpdateMonitoredValues UpdateCurrentValuesFromCpu",
            "SetNativeFenceLogBuffer UpdateNativeFenceLogs CreateDoorbell ConnectDoorbell DisconnectDoorbell",
            "DestroyDoorbell NotifyWorkSubmission ControlEtwLogging PresentToHwQueue DispatchIoRequest",
            "SetPowerComponentFState PowerRuntimeControlRequest NotifySurpriseRemoval",
        ];
        for name in required.iter().flat_map(|line| line.split(' ')) {
            let slot = SLOTS.iter().find(|slot| slot.name.strip_prefix("DxgkDdi") == Some(name));
            assert_eq!(slot.map(|slot| slot.class), Some(Class::Implemented), "{name}");
        }
    }
}
