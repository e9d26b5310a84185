//! Thunks: what user mode calls.
//!
//! Every thunk finds the calling process, copies its argument structure in, and works on the copy, which [`call`] does for it; see [`user`] for pointers inside
//! it.

mod adapter;
mod adapter_answer;
mod adapter_info;
mod adapter_perf;
mod adapter_registry;
mod allocation;
mod allocation_handles;
pub(crate) mod budget;
mod call;
mod control;
mod debug_name;
mod descriptor;
mod device;
pub(crate) mod escape;
mod keyed_mutex;
mod memory;
pub(crate) mod monitored;
mod names;
mod offer;
mod older_sync;
mod packet;
mod power;
pub(crate) mod priority;
mod process;
mod queue;
mod residency;
mod resource;
pub(crate) mod share;
mod shared_fence;
mod statistics;
mod sync;
mod sync_file;
mod target;
mod tdr_control;
mod update;
pub(crate) mod user;

use wddm_ddi::kmt::{FurtherThunks, Thunks};

static THUNKS: Thunks = Thunks {
    D3DKMTEnumAdapters3: adapter::enum_adapters3,
    D3DKMTOpenAdapterFromLuid: adapter::open_adapter_from_luid,
    D3DKMTCloseAdapter: adapter::close_adapter,
    D3DKMTQueryAdapterInfo: adapter::query_adapter_info,
    D3DKMTQueryClockCalibration: control::query_clock_calibration,
    D3DKMTCreateDevice: device::create_device,
    D3DKMTDestroyDevice: device::destroy_device,
    D3DKMTGetDeviceState: device::get_device_state,
    D3DKMTCreatePagingQueue: memory::create_paging_queue,
    D3DKMTDestroyPagingQueue: memory::destroy_paging_queue,
    D3DKMTCreateAllocation2: allocation::create_allocation2,
    D3DKMTDestroyAllocation2: allocation::destroy_allocation2,
    D3DKMTMakeResident: memory::make_resident,
    D3DKMTEvict: memory::evict,
    D3DKMTOfferAllocations: offer::offer_allocations,
    D3DKMTReclaimAllocations2: offer::reclaim_allocations2,
    D3DKMTReserveGpuVirtualAddress: memory::reserve_gpu_virtual_address,
    D3DKMTMapGpuVirtualAddress: memory::map_gpu_virtual_address,
    D3DKMTFreeGpuVirtualAddress: memory::free_gpu_virtual_address,
    D3DKMTLock2: memory::lock2,
    D3DKMTUnlock2: memory::unlock2,
    D3DKMTInvalidateCache: memory::invalidate_cache,
    D3DKMTQueryVideoMemoryInfo: budget::query_video_memory_info,
    D3DKMTChangeVideoMemoryReservation: budget::change_video_memory_reservation,
    D3DKMTRegisterTrimNotification: budget::register_trim_notification,
    D3DKMTUnregisterTrimNotification: budget::unregister_trim_notification,
    D3DKMTCreateContextVirtual: packet::create_context_virtual,
    D3DKMTDestroyContext: packet::destroy_context,
    D3DKMTSubmitCommand: packet::submit_command,
    D3DKMTCreateHwContext: queue::create_hw_context,
    D3DKMTDestroyHwContext: queue::destroy_hw_context,
    D3DKMTSetContextSchedulingPriority: priority::D3DKMTSetContextSchedulingPriority,
    D3DKMTCreateHwQueue: queue::create_hw_queue,
    D3DKMTDestroyHwQueue: queue::destroy_hw_queue,
    D3DKMTSubmitCommandToHwQueue: queue::submit_command_to_hw_queue,
    D3DKMTCreateDoorbell: queue::create_doorbell,
    D3DKMTConnectDoorbell: queue::connect_doorbell,
    D3DKMTDestroyDoorbell: queue::destroy_doorbell,
    D3DKMTNotifyWorkSubmission: queue::notify_work_submission,
    D3DKMTGetNativeFenceLogDetail: queue::get_native_fence_log_detail,
    D3DKMTCreateNativeFence: sync::create_native_fence,
    D3DKMTDestroySynchronizationObject: sync::destroy_synchronization_object,
    D3DKMTWaitForSynchronizationObjectFromCpu: sync::wait_for_synchronization_object_from_cpu,
    D3DKMTSignalSynchronizationObjectFromCpu: sync::signal_synchronization_object_from_cpu,
    D3DKMTShareObjects: share::share_objects,
    D3DKMTQueryResourceInfoFromNtHandle: resource::query_resource_info_from_nt_handle,
    D3DKMTOpenResourceFromNtHandle: resource::open_resource_from_nt_handle,
    D3DKMTOpenNativeFenceFromNtHandle: share::open_native_fence_from_nt_handle,
    D3DKMTCreateSynchronizationObject2: monitored::D3DKMTCreateSynchronizationObject2,
    D3DKMTOpenSyncObjectFromNtHandle2: share::D3DKMTOpenSyncObjectFromNtHandle2,
    D3DKMTWaitForSynchronizationObjectFromGpu: monitored::D3DKMTWaitForSynchronizationObjectFromGpu,
    D3DKMTSignalSynchronizationObjectFromGpu: monitored::D3DKMTSignalSynchronizationObjectFromGpu,
    D3DKMTSubmitWaitForSyncObjectsToHwQueue: monitored::D3DKMTSubmitWaitForSyncObjectsToHwQueue,
    D3DKMTSubmitSignalSyncObjectsToHwQueue: monitored::D3DKMTSubmitSignalSyncObjectsToHwQueue,
    NtClose: share::nt_close,
};

static FURTHER_THUNKS: FurtherThunks = FurtherThunks {
    D3DKMTEnumAdapters2: adapter::enum_adapters2,
    D3DKMTSignalSynchronizationObjectFromGpu2: monitored::D3DKMTSignalSynchronizationObjectFromGpu2,
    D3DKMTGetContextSchedulingPriority: priority::D3DKMTGetContextSchedulingPriority,
    D3DKMTSetContextInProcessSchedulingPriority: priority::D3DKMTSetContextInProcessSchedulingPriority,
    D3DKMTGetContextInProcessSchedulingPriority: priority::D3DKMTGetContextInProcessSchedulingPriority,
    D3DKMTSetProcessSchedulingPriorityClass: priority::D3DKMTSetProcessSchedulingPriorityClass,
    D3DKMTGetProcessSchedulingPriorityClass: priority::D3DKMTGetProcessSchedulingPriorityClass,
    D3DKMTRegisterBudgetChangeNotification: budget::D3DKMTRegisterBudgetChangeNotification,
    D3DKMTUnregisterBudgetChangeNotification: budget::D3DKMTUnregisterBudgetChangeNotification,
    D3DKMTUpdateGpuVirtualAddress: update::update_gpu_virtual_address,
    D3DKMTEscape: escape::D3DKMTEscape,
    D3DKMTCreateAllocation: allocation::create_allocation,
    D3DKMTDestroyAllocation: allocation::destroy_allocation,
    D3DKMTQueryAllocationResidency: residency::query_allocation_residency,
    D3DKMTSetAllocationPriority: residency::set_allocation_priority,
    D3DKMTGetAllocationPriority: residency::get_allocation_priority,
    D3DKMTReclaimAllocations: offer::reclaim_allocations,
    D3DKMTTrimProcessCommitment: residency::trim_process_commitment,
    D3DKMTQueryProcessOfferInfo: residency::query_process_offer_info,
    D3DKMTUpdateAllocationProperty: residency::update_allocation_property,
    D3DKMTFlushHeapTransitions: residency::flush_heap_transitions,
    D3DKMTLock: residency::lock,
    D3DKMTUnlock: residency::unlock,
    D3DKMTQueryStatistics: statistics::query_statistics,
    D3DKMTQueryResourceInfo: resource::query_resource_info,
    D3DKMTOpenResource: resource::open_resource,
    D3DKMTOpenResource2: resource::open_resource2,
    D3DKMTGetSharedResourceAdapterLuid: resource::get_shared_resource_adapter_luid,
    D3DKMTCheckSharedResourceAccess: resource::check_shared_resource_access,
    D3DKMTConfigureSharedResource: resource::configure_shared_resource,
    D3DKMTGetRuntimeData: resource::get_runtime_data,
    D3DKMTOpenNtHandleFromName: names::open_nt_handle_from_name,
    D3DKMTOpenSyncObjectNtHandleFromName: names::open_sync_object_nt_handle_from_name,
    D3DKMTOpenSyncObjectFromNtHandle: older_sync::open_sync_object_from_nt_handle,
    D3DKMTOpenSynchronizationObject: older_sync::open_synchronization_object,
    D3DKMTEnumAdapters: control::enum_adapters,
    D3DKMTOpenAdapterFromDeviceName: control::open_adapter_from_device_name,
    D3DKMTIsFeatureEnabled: control::is_feature_enabled,
    D3DKMTSetStablePowerState: control::set_stable_power_state,
    D3DKMTMarkDeviceAsError: control::mark_device_as_error,
    D3DKMTGetProcessDeviceRemovalSupport: control::get_process_device_removal_support,
    D3DKMTWaitForIdle: control::wait_for_idle,
    D3DKMTSetQueuedLimit: control::set_queued_limit,
    D3DKMTCreateContext: control::create_context,
    D3DKMTRender: control::render,
    D3DKMTCreateSynchronizationObject: older_sync::create_synchronization_object,
    D3DKMTWaitForSynchronizationObject: older_sync::wait_for_synchronization_object,
    D3DKMTSignalSynchronizationObject: older_sync::signal_synchronization_object,
    D3DKMTWaitForSynchronizationObject2: older_sync::wait_for_synchronization_object2,
    D3DKMTSignalSynchronizationObject2: older_sync::signal_synchronization_object2,
    D3DKMTCreateKeyedMutex: keyed_mutex::create_keyed_mutex,
    D3DKMTCreateKeyedMutex2: keyed_mutex::create_keyed_mutex2,
    D3DKMTOpenKeyedMutex: keyed_mutex::open_keyed_mutex,
    D3DKMTOpenKeyedMutex2: keyed_mutex::open_keyed_mutex2,
    D3DKMTOpenKeyedMutexFromNtHandle: keyed_mutex::open_keyed_mutex_from_nt_handle,
    D3DKMTAcquireKeyedMutex: keyed_mutex::acquire_keyed_mutex,
    D3DKMTAcquireKeyedMutex2: keyed_mutex::acquire_keyed_mutex2,
    D3DKMTReleaseKeyedMutex: keyed_mutex::release_keyed_mutex,
    D3DKMTReleaseKeyedMutex2: keyed_mutex::release_keyed_mutex2,
    D3DKMTDestroyKeyedMutex: keyed_mutex::destroy_keyed_mutex,
    D3DKMTCreateSyncFile: sync_file::create_sync_file,
    D3DKMTWaitSyncFile: sync_file::wait_sync_file,
    D3DKMTOpenSyncObjectFromSyncFile: sync_file::open_sync_object_from_sync_file,
    NtOpenProcess: process::open_process,
    CampanileExportNtHandle: descriptor::export_nt_handle,
    CampanileImportNtHandle: descriptor::import_nt_handle,
    CampanileSetDebugName: debug_name::set_debug_name,
};

/// Those that the user-mode driver has no use for; as [`thunks`].
pub fn further_thunks() -> &'static FurtherThunks {
    &FURTHER_THUNKS
}

/// The thunks, for threads that are attached to a process ([`crate::Process::attach`]); others get STATUS_ACCESS_DENIED.
pub fn thunks() -> &'static Thunks {
    &THUNKS
}
