//! DXGKRNL_INTERFACE: what a driver may ask of the system. [`call`] has the IRQL and handle checks of each callback.

mod absent;
mod call;
mod device;
mod etw;
mod feature;
mod interrupt;
mod memory;
mod presence;
mod scheduling;

use wddm_ddi::Zeroed;
use wddm_ddi::km::{DXGKDDI_INTERFACE_VERSION_WDDM3_2, DXGKRNL_INTERFACE};
use wddm_ddi::types::HANDLE;

/// The table for one function of an adapter. No slot is NULL: what this system does not implement, [`absent`] answers.
pub(crate) fn interface(handle: HANDLE) -> DXGKRNL_INTERFACE {
    let mut interface = DXGKRNL_INTERFACE::zeroed();
    interface.Size = size_of::<DXGKRNL_INTERFACE>() as u32;
    interface.Version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
    interface.DeviceHandle = handle;
    absent::fill(&mut interface);
    interface.DxgkCbEvalAcpiMethod = Some(device::eval_acpi_method);
    interface.DxgkCbGetDeviceInformation = Some(device::get_device_information);
    interface.DxgkCbMapMemory = Some(device::map_memory);
    interface.DxgkCbUnmapMemory = Some(device::unmap_memory);
    interface.DxgkCbReadDeviceSpace = Some(device::read_device_space);
    interface.DxgkCbWriteDeviceSpace = Some(device::write_device_space);
    interface.DxgkCbIsDevicePresent = Some(presence::is_device_present);
    interface.DxgkCbQueueDpc = Some(interrupt::queue_dpc);
    interface.DxgkCbSynchronizeExecution = Some(interrupt::synchronize_execution);
    interface.DxgkCbNotifyInterrupt = Some(interrupt::notify_interrupt);
    interface.DxgkCbLogEtwEvent = Some(etw::log_etw_event);
    interface.DxgkCbNotifyDpc = Some(interrupt::notify_dpc);
    interface.DxgkCbQueryServices = Some(feature::query_services);
    interface.DxgkCbIsFeatureEnabled = Some(feature::is_feature_enabled);
    interface.DxgkCbQueryFeatureSupport = Some(feature::query_feature_support);
    interface.DxgkCbGetHandleData = Some(memory::get_handle_data);
    interface.DxgkCbGetHandleParent = Some(memory::get_handle_parent);
    interface.DxgkCbEnumHandleChildren = Some(memory::enum_handle_children);
    interface.DxgkCbAcquireHandleData = Some(memory::acquire_handle_data);
    interface.DxgkCbReleaseHandleData = Some(memory::release_handle_data);
    interface.DxgkCbAllocateContiguousMemory = Some(memory::allocate_contiguous_memory);
    interface.DxgkCbFreeContiguousMemory = Some(memory::free_contiguous_memory);
    interface.DxgkCbInvalidateHwContext = Some(scheduling::invalidate_hw_context);
    interface.DxgkCbDisconnectDoorbell = Some(scheduling::disconnect_doorbell);
    interface.DxgkCbSetPowerComponentActive = Some(scheduling::set_power_component_active);
    interface.DxgkCbSetPowerComponentIdle = Some(scheduling::set_power_component_idle);
    interface.DxgkCbSetPowerComponentLatency = Some(scheduling::set_power_component_latency);
    interface.DxgkCbSetPowerComponentResidency = Some(scheduling::set_power_component_residency);
    interface.DxgkCbCompleteFStateTransition = Some(scheduling::complete_f_state_transition);
    interface
}
