//! The thunks themselves: what user mode calls.
//!
//! On Windows they are exports of `gdi32.dll`, and the service that closes kernel handles is one of `ntdll.dll`; elsewhere whoever
//! plays the operating system fills the tables. Those of the module `campanile_kmt` are this project's own, and there are none of them on Windows. All return `NTSTATUS`; nearly all take one argument structure.
//!
//! On Windows the tables are filled when the program runs ([`Thunks::look_up`] with [`system_export`]), not by its loader, which would refuse the whole program on
//! a Windows that lacks a single one of them.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;

use crate::kmt::*;
use crate::status::STATUS_PROCEDURE_NOT_FOUND;
use crate::types::*;

/// Hands the list of thunks to a macro: name of the table, and for each module of Windows, without `.dll`, the functions that it
/// exports with their arguments. This is the one list; tables, imports and exports are made from it. Types are named as in `kmt` and `types`,
/// and `c_void`.
#[macro_export]
macro_rules! for_each_thunk {
    ($then:ident) => {
        $then! {
            /// Thunks that the user-mode driver calls.
            Thunks {
                "gdi32" {
                    /// Lists adapters; the compute-only ones appear when the filter asks for them. [d3dkmthk: D3DKMTEnumAdapters3]
                    D3DKMTEnumAdapters3(args: *mut D3DKMT_ENUMADAPTERS3);
                    /// Opens an adapter by its LUID. [d3dkmthk: D3DKMTOpenAdapterFromLuid]
                    D3DKMTOpenAdapterFromLuid(args: *mut D3DKMT_OPENADAPTERFROMLUID);
                    /// Closes an adapter handle. [d3dkmthk: D3DKMTCloseAdapter]
                    D3DKMTCloseAdapter(args: *mut D3DKMT_CLOSEADAPTER);
                    /// Asks for adapter information. [d3dkmthk: D3DKMTQueryAdapterInfo]
                    D3DKMTQueryAdapterInfo(args: *mut D3DKMT_QUERYADAPTERINFO);
                    /// Reads the clocks of GPU and CPU together. [d3dkmthk: D3DKMTQueryClockCalibration]
                    D3DKMTQueryClockCalibration(args: *mut D3DKMT_QUERYCLOCKCALIBRATION);
                    /// Creates a device. [d3dkmthk: D3DKMTCreateDevice]
                    D3DKMTCreateDevice(args: *mut D3DKMT_CREATEDEVICE);
                    /// Destroys a device with everything made on it. [d3dkmthk: D3DKMTDestroyDevice]
                    D3DKMTDestroyDevice(args: *mut D3DKMT_DESTROYDEVICE);
                    /// Asks whether a device still works, and why not. [d3dkmthk: D3DKMTGetDeviceState]
                    D3DKMTGetDeviceState(args: *mut D3DKMT_GETDEVICESTATE);
                    /// Creates the queue on which residency and mapping requests of a device are ordered. [d3dkmthk: D3DKMTCreatePagingQueue]
                    D3DKMTCreatePagingQueue(args: *mut D3DKMT_CREATEPAGINGQUEUE);
                    /// Destroys a paging queue. [d3dkmthk: D3DKMTDestroyPagingQueue]
                    D3DKMTDestroyPagingQueue(args: *mut D3DDDI_DESTROYPAGINGQUEUE);
                    /// Creates allocations. [d3dkmthk: D3DKMTCreateAllocation2]
                    D3DKMTCreateAllocation2(args: *mut D3DKMT_CREATEALLOCATION);
                    /// Destroys allocations, once the GPU has let go of them. [d3dkmthk: D3DKMTDestroyAllocation2]
                    D3DKMTDestroyAllocation2(args: *mut D3DKMT_DESTROYALLOCATION2);
                    /// Adds allocations to the device's residency list. [d3dkmthk: D3DKMTMakeResident]
                    D3DKMTMakeResident(args: *mut D3DDDI_MAKERESIDENT);
                    /// Takes allocations off the residency list. [d3dkmthk: D3DKMTEvict]
                    D3DKMTEvict(args: *mut D3DKMT_EVICT);
                    /// Lets the system take memory without saving its contents. [d3dkmthk: D3DKMTOfferAllocations]
                    D3DKMTOfferAllocations(args: *mut D3DKMT_OFFERALLOCATIONS);
                    /// Takes offered memory back. [d3dkmthk: D3DKMTReclaimAllocations2]
                    D3DKMTReclaimAllocations2(args: *mut D3DKMT_RECLAIMALLOCATIONS2);
                    /// Reserves a range of GPU virtual addresses. [d3dkmthk: D3DKMTReserveGpuVirtualAddress]
                    D3DKMTReserveGpuVirtualAddress(args: *mut D3DDDI_RESERVEGPUVIRTUALADDRESS);
                    /// Maps an allocation into the GPU address space. [d3dkmthk: D3DKMTMapGpuVirtualAddress]
                    D3DKMTMapGpuVirtualAddress(args: *mut D3DDDI_MAPGPUVIRTUALADDRESS);
                    /// Frees a range of GPU virtual addresses. [d3dkmthk: D3DKMTFreeGpuVirtualAddress]
                    D3DKMTFreeGpuVirtualAddress(args: *mut D3DKMT_FREEGPUVIRTUALADDRESS);
                    /// Gives a CPU address of an allocation, stable until unlocked. [d3dkmthk: D3DKMTLock2]
                    D3DKMTLock2(args: *mut D3DKMT_LOCK2);
                    /// Ends a lock. [d3dkmthk: D3DKMTUnlock2]
                    D3DKMTUnlock2(args: *mut D3DKMT_UNLOCK2);
                    /// Writes back and invalidates what the CPU has cached of an allocation. [d3dkmthk: D3DKMTInvalidateCache]
                    D3DKMTInvalidateCache(args: *mut D3DKMT_INVALIDATECACHE);
                    /// Says how much memory of an adapter the process may keep resident, and keeps. [d3dkmthk: D3DKMTQueryVideoMemoryInfo]
                    D3DKMTQueryVideoMemoryInfo(args: *mut D3DKMT_QUERYVIDEOMEMORYINFO);
                    /// Changes how much memory the process is sure of. [d3dkmthk: D3DKMTChangeVideoMemoryReservation]
                    D3DKMTChangeVideoMemoryReservation(args: *mut D3DKMT_CHANGEVIDEOMEMORYRESERVATION);
                    /// Registers a function that is called when a device should give memory back. [d3dkmthk: D3DKMTRegisterTrimNotification]
                    D3DKMTRegisterTrimNotification(args: *mut D3DKMT_REGISTERTRIMNOTIFICATION);
                    /// Ends a registration. [d3dkmthk: D3DKMTUnregisterTrimNotification]
                    D3DKMTUnregisterTrimNotification(args: *mut D3DKMT_UNREGISTERTRIMNOTIFICATION);
                    /// Creates a context on a node that is scheduled packet by packet. [d3dkmthk: D3DKMTCreateContextVirtual]
                    D3DKMTCreateContextVirtual(args: *mut D3DKMT_CREATECONTEXTVIRTUAL);
                    /// Destroys a context of packets. [d3dkmthk: D3DKMTDestroyContext]
                    D3DKMTDestroyContext(args: *mut D3DKMT_DESTROYCONTEXT);
                    /// Submits a command buffer to a context of packets. [d3dkmthk: D3DKMTSubmitCommand]
                    D3DKMTSubmitCommand(args: *mut D3DKMT_SUBMITCOMMAND);
                    /// Creates a hardware context on a node. [d3dkmthk: D3DKMTCreateHwContext]
                    D3DKMTCreateHwContext(args: *mut D3DKMT_CREATEHWCONTEXT);
                    /// Destroys a hardware context. [d3dkmthk: D3DKMTDestroyHwContext]
                    D3DKMTDestroyHwContext(args: *mut D3DKMT_DESTROYHWCONTEXT);
                    /// Sets the priority of a context among those of all processes. [d3dkmthk: D3DKMTSetContextSchedulingPriority]
                    D3DKMTSetContextSchedulingPriority(args: *mut D3DKMT_SETCONTEXTSCHEDULINGPRIORITY);
                    /// Creates a hardware queue with its progress fence. [d3dkmthk: D3DKMTCreateHwQueue]
                    D3DKMTCreateHwQueue(args: *mut D3DKMT_CREATEHWQUEUE);
                    /// Destroys a hardware queue. [d3dkmthk: D3DKMTDestroyHwQueue]
                    D3DKMTDestroyHwQueue(args: *mut D3DKMT_DESTROYHWQUEUE);
                    /// Submits a command buffer to a hardware queue through the kernel. [d3dkmthk: D3DKMTSubmitCommandToHwQueue]
                    D3DKMTSubmitCommandToHwQueue(args: *mut D3DKMT_SUBMITCOMMANDTOHWQUEUE);
                    /// Creates the doorbell of a queue for user-mode submission. [d3dkmthk: D3DKMTCreateDoorbell]
                    D3DKMTCreateDoorbell(args: *mut D3DKMT_CREATE_DOORBELL);
                    /// Connects a doorbell to hardware. [d3dkmthk: D3DKMTConnectDoorbell]
                    D3DKMTConnectDoorbell(args: *mut D3DKMT_CONNECT_DOORBELL);
                    /// Destroys a doorbell. [d3dkmthk: D3DKMTDestroyDoorbell]
                    D3DKMTDestroyDoorbell(args: *mut D3DKMT_DESTROY_DOORBELL);
                    /// Tells the kernel-mode driver of new work, when the doorbell's status asks for it. [d3dkmthk: D3DKMTNotifyWorkSubmission]
                    D3DKMTNotifyWorkSubmission(args: *mut D3DKMT_NOTIFY_WORK_SUBMISSION);
                    /// Says where the fence logs of a queue are. [d3dkmthk: D3DKMTGetNativeFenceLogDetail]
                    D3DKMTGetNativeFenceLogDetail(args: *mut D3DKMT_GETNATIVEFENCELOGDETAIL);
                    /// Creates a native fence. [d3dkmthk: D3DKMTCreateNativeFence]
                    D3DKMTCreateNativeFence(args: *mut D3DKMT_CREATENATIVEFENCE);
                    /// Destroys a synchronization object of any kind. [d3dkmthk: D3DKMTDestroySynchronizationObject]
                    D3DKMTDestroySynchronizationObject(args: *mut D3DKMT_DESTROYSYNCHRONIZATIONOBJECT);
                    /// Waits on the CPU for fence values. [d3dkmthk: D3DKMTWaitForSynchronizationObjectFromCpu]
                    D3DKMTWaitForSynchronizationObjectFromCpu(args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU);
                    /// Signals fences from the CPU. [d3dkmthk: D3DKMTSignalSynchronizationObjectFromCpu]
                    D3DKMTSignalSynchronizationObjectFromCpu(args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU);
                    /// Gives objects one kernel handle: their count, the objects, which are a resource, a synchronization object, or both with a keyed mutex, an
                    /// OBJECT_ATTRIBUTES, the access that the handle grants, and where the handle goes. [d3dkmthk: D3DKMTShareObjects]
                    D3DKMTShareObjects(count: u32, objects: *const D3DKMT_HANDLE, attributes: *const c_void, access: u32, handle: *mut HANDLE);
                    /// Says what a shared resource is made of, by a kernel handle. [d3dkmthk: D3DKMTQueryResourceInfoFromNtHandle]
                    D3DKMTQueryResourceInfoFromNtHandle(args: *mut D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE);
                    /// Opens a shared resource by a kernel handle. [d3dkmthk: D3DKMTOpenResourceFromNtHandle]
                    D3DKMTOpenResourceFromNtHandle(args: *mut D3DKMT_OPENRESOURCEFROMNTHANDLE);
                    /// Opens a native fence by a kernel handle. [d3dkmthk: D3DKMTOpenNativeFenceFromNtHandle]
                    D3DKMTOpenNativeFenceFromNtHandle(args: *mut D3DKMT_OPENNATIVEFENCEFROMNTHANDLE);
                    /// Creates a monitored fence. [d3dkmthk: D3DKMTCreateSynchronizationObject2]
                    D3DKMTCreateSynchronizationObject2(args: *mut D3DKMT_CREATESYNCHRONIZATIONOBJECT2);
                    /// Opens a monitored fence by a kernel handle. [d3dkmthk: D3DKMTOpenSyncObjectFromNtHandle2]
                    D3DKMTOpenSyncObjectFromNtHandle2(args: *mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2);
                    /// Lets a context wait for fences. [d3dkmthk: D3DKMTWaitForSynchronizationObjectFromGpu]
                    D3DKMTWaitForSynchronizationObjectFromGpu(args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU);
                    /// Lets a context signal fences with a value each. [d3dkmthk: D3DKMTSignalSynchronizationObjectFromGpu]
                    D3DKMTSignalSynchronizationObjectFromGpu(args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU);
                    /// Lets a hardware queue wait for fences. [d3dkmthk: D3DKMTSubmitWaitForSyncObjectsToHwQueue]
                    D3DKMTSubmitWaitForSyncObjectsToHwQueue(args: *mut D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE);
                    /// Lets hardware queues signal fences. [d3dkmthk: D3DKMTSubmitSignalSyncObjectsToHwQueue]
                    D3DKMTSubmitSignalSyncObjectsToHwQueue(args: *mut D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE);
                }
                "ntdll" {
                    /// Closes a kernel handle. [winternl: NtClose]
                    NtClose(handle: HANDLE);
                }
            }
            /// Thunks that other programs call and the user-mode driver does not.
            FurtherThunks {
                "gdi32" {
                    /// Lists the adapters that are not compute-only. [d3dkmthk: D3DKMTEnumAdapters2]
                    D3DKMTEnumAdapters2(args: *mut D3DKMT_ENUMADAPTERS2);
                    /// Lets contexts signal fences. [d3dkmthk: D3DKMTSignalSynchronizationObjectFromGpu2]
                    D3DKMTSignalSynchronizationObjectFromGpu2(args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2);
                    /// Gives the priority of a context among those of all processes. [d3dkmthk: D3DKMTGetContextSchedulingPriority]
                    D3DKMTGetContextSchedulingPriority(args: *mut D3DKMT_GETCONTEXTSCHEDULINGPRIORITY);
                    /// Sets the priority of a context among those of its process. [d3dkmthk: D3DKMTSetContextInProcessSchedulingPriority]
                    D3DKMTSetContextInProcessSchedulingPriority(args: *mut D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY);
                    /// Gives the priority of a context among those of its process. [d3dkmthk: D3DKMTGetContextInProcessSchedulingPriority]
                    D3DKMTGetContextInProcessSchedulingPriority(args: *mut D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY);
                    /// Sets how the contexts of a process stand among those of others. [d3dkmthk: D3DKMTSetProcessSchedulingPriorityClass]
                    D3DKMTSetProcessSchedulingPriorityClass(process: HANDLE, priority_class: D3DKMT_SCHEDULINGPRIORITYCLASS);
                    /// Gives how the contexts of a process stand among those of others. [d3dkmthk: D3DKMTGetProcessSchedulingPriorityClass]
                    D3DKMTGetProcessSchedulingPriorityClass(process: HANDLE, priority_class: *mut D3DKMT_SCHEDULINGPRIORITYCLASS);
                    /// Registers a function that is called when the budget of the process has changed. [d3dkmthk: D3DKMTRegisterBudgetChangeNotification]
                    D3DKMTRegisterBudgetChangeNotification(args: *mut D3DKMT_REGISTERBUDGETCHANGENOTIFICATION);
                    /// Ends such a registration. [d3dkmthk: D3DKMTUnregisterBudgetChangeNotification]
                    D3DKMTUnregisterBudgetChangeNotification(args: *mut D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION);
                    /// Changes mappings of reserved ranges in the order of the work of a context. [d3dkmthk: D3DKMTUpdateGpuVirtualAddress]
                    D3DKMTUpdateGpuVirtualAddress(args: *const D3DKMT_UPDATEGPUVIRTUALADDRESS);
                    /// Talks with the kernel-mode driver. [d3dkmthk: D3DKMTEscape]
                    D3DKMTEscape(args: *const D3DKMT_ESCAPE);
                    /// Creates allocations, described in the older form. [d3dkmthk: D3DKMTCreateAllocation]
                    D3DKMTCreateAllocation(args: *mut D3DKMT_CREATEALLOCATION);
                    /// Destroys allocations, once the GPU has let go of them, in the older form. [d3dkmthk: D3DKMTDestroyAllocation]
                    D3DKMTDestroyAllocation(args: *mut D3DKMT_DESTROYALLOCATION);
                    /// Says where allocations are. [d3dkmthk: D3DKMTQueryAllocationResidency]
                    D3DKMTQueryAllocationResidency(args: *mut D3DKMT_QUERYALLOCATIONRESIDENCY);
                    /// Says which allocations leave memory last. [d3dkmthk: D3DKMTSetAllocationPriority]
                    D3DKMTSetAllocationPriority(args: *mut D3DKMT_SETALLOCATIONPRIORITY);
                    /// Gives what was said of that. [d3dkmthk: D3DKMTGetAllocationPriority]
                    D3DKMTGetAllocationPriority(args: *mut D3DKMT_GETALLOCATIONPRIORITY);
                    /// Takes offered memory back, and returns when it can be used. [d3dkmthk: D3DKMTReclaimAllocations]
                    D3DKMTReclaimAllocations(args: *mut D3DKMT_RECLAIMALLOCATIONS);
                    /// Takes system memory that a process has offered for decommitment. [d3dkmthk: D3DKMTTrimProcessCommitment]
                    D3DKMTTrimProcessCommitment(args: *mut D3DKMT_TRIMPROCESSCOMMITMENT);
                    /// Says how much system memory a process has offered for decommitment. [d3dkmthk: D3DKMTQueryProcessOfferInfo]
                    D3DKMTQueryProcessOfferInfo(args: *mut D3DKMT_QUERYPROCESSOFFERINFO);
                    /// Changes in which segments an allocation may be. [d3dkmthk: D3DKMTUpdateAllocationProperty]
                    D3DKMTUpdateAllocationProperty(args: *mut D3DDDI_UPDATEALLOCPROPERTY);
                    /// Finishes moves of memory that are under way. [d3dkmthk: D3DKMTFlushHeapTransitions]
                    D3DKMTFlushHeapTransitions(args: *mut D3DKMT_FLUSHHEAPTRANSITIONS);
                    /// Locks allocations of the driver model before GPU virtual addresses. [d3dkmthk: D3DKMTLock]
                    D3DKMTLock(args: *mut D3DKMT_LOCK);
                    /// Ends locks of allocations of that driver model. [d3dkmthk: D3DKMTUnlock]
                    D3DKMTUnlock(args: *mut D3DKMT_UNLOCK);
                    /// Gives the figures of a task manager. [d3dkmthk: D3DKMTQueryStatistics]
                    D3DKMTQueryStatistics(args: *mut D3DKMT_QUERYSTATISTICS);
                    /// Says what a shared resource is made of. [d3dkmthk: D3DKMTQueryResourceInfo]
                    D3DKMTQueryResourceInfo(args: *mut D3DKMT_QUERYRESOURCEINFO);
                    /// Opens a shared resource, in the older form. [d3dkmthk: D3DKMTOpenResource]
                    D3DKMTOpenResource(args: *mut D3DKMT_OPENRESOURCE);
                    /// Opens a shared resource. [d3dkmthk: D3DKMTOpenResource2]
                    D3DKMTOpenResource2(args: *mut D3DKMT_OPENRESOURCE);
                    /// Says on which adapter a shared resource is. [d3dkmthk: D3DKMTGetSharedResourceAdapterLuid]
                    D3DKMTGetSharedResourceAdapterLuid(args: *mut D3DKMT_GETSHAREDRESOURCEADAPTERLUID);
                    /// Asks whether a process may use a shared resource. [d3dkmthk: D3DKMTCheckSharedResourceAccess]
                    D3DKMTCheckSharedResourceAccess(args: *mut D3DKMT_CHECKSHAREDRESOURCEACCESS);
                    /// Says which process may use a shared resource. [d3dkmthk: D3DKMTConfigureSharedResource]
                    D3DKMTConfigureSharedResource(args: *mut D3DKMT_CONFIGURESHAREDRESOURCE);
                    /// Gives what the runtime has kept with a shared resource. [d3dkmthk: D3DKMTGetRuntimeData]
                    D3DKMTGetRuntimeData(args: *mut D3DKMT_GETRUNTIMEDATA);
                    /// Opens a shared resource with a name. [d3dkmthk: D3DKMTOpenNtHandleFromName]
                    D3DKMTOpenNtHandleFromName(args: *mut D3DKMT_OPENNTHANDLEFROMNAME);
                    /// Opens a shared synchronization object with a name. [d3dkmthk: D3DKMTOpenSyncObjectNtHandleFromName]
                    D3DKMTOpenSyncObjectNtHandleFromName(args: *mut D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME);
                    /// Opens a synchronization object without an address by a kernel handle. [d3dkmthk: D3DKMTOpenSyncObjectFromNtHandle]
                    D3DKMTOpenSyncObjectFromNtHandle(args: *mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE);
                    /// Opens a synchronization object by the handle that every process knows. [d3dkmthk: D3DKMTOpenSynchronizationObject]
                    D3DKMTOpenSynchronizationObject(args: *mut D3DKMT_OPENSYNCHRONIZATIONOBJECT);
                    /// Lists the adapters that are not compute-only, 16 at most. [d3dkmthk: D3DKMTEnumAdapters]
                    D3DKMTEnumAdapters(args: *mut D3DKMT_ENUMADAPTERS);
                    /// Opens an adapter by the name of its device interface. [d3dkmthk: D3DKMTOpenAdapterFromDeviceName]
                    D3DKMTOpenAdapterFromDeviceName(args: *mut D3DKMT_OPENADAPTERFROMDEVICENAME);
                    /// Asks whether a feature of an adapter is enabled. [d3dkmthk: D3DKMTIsFeatureEnabled]
                    D3DKMTIsFeatureEnabled(args: *mut D3DKMT_ISFEATUREENABLED);
                    /// Asks that the clocks of an adapter stay as they are. [d3dkmthk: D3DKMTSetStablePowerState]
                    D3DKMTSetStablePowerState(args: *mut D3DKMT_SETSTABLEPOWERSTATE);
                    /// Gives a device up. [d3dkmthk: D3DKMTMarkDeviceAsError]
                    D3DKMTMarkDeviceAsError(args: *mut D3DKMT_MARKDEVICEASERROR);
                    /// Asks whether a process outlives the removal of an adapter. [d3dkmthk: D3DKMTGetProcessDeviceRemovalSupport]
                    D3DKMTGetProcessDeviceRemovalSupport(args: *mut D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT);
                    /// Waits until what a device has queued is done. [d3dkmthk: D3DKMTWaitForIdle]
                    D3DKMTWaitForIdle(args: *mut D3DKMT_WAITFORIDLE);
                    /// Limits the presents that a device queues. [d3dkmthk: D3DKMTSetQueuedLimit]
                    D3DKMTSetQueuedLimit(args: *mut D3DKMT_SETQUEUEDLIMIT);
                    /// Creates a context of the driver model before GPU virtual addresses. [d3dkmthk: D3DKMTCreateContext]
                    D3DKMTCreateContext(args: *mut D3DKMT_CREATECONTEXT);
                    /// Submits to a context of that driver model. [d3dkmthk: D3DKMTRender]
                    D3DKMTRender(args: *mut D3DKMT_RENDER);
                    /// Creates a mutex or a semaphore of the GPU. [d3dkmthk: D3DKMTCreateSynchronizationObject]
                    D3DKMTCreateSynchronizationObject(args: *mut D3DKMT_CREATESYNCHRONIZATIONOBJECT);
                    /// Lets a context take mutexes and semaphores. [d3dkmthk: D3DKMTWaitForSynchronizationObject]
                    D3DKMTWaitForSynchronizationObject(args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECT);
                    /// Lets a context give mutexes and semaphores back. [d3dkmthk: D3DKMTSignalSynchronizationObject]
                    D3DKMTSignalSynchronizationObject(args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECT);
                    /// Lets a context wait for synchronization objects, fences at one value. [d3dkmthk: D3DKMTWaitForSynchronizationObject2]
                    D3DKMTWaitForSynchronizationObject2(args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2);
                    /// Lets contexts signal synchronization objects, fences with one value. [d3dkmthk: D3DKMTSignalSynchronizationObject2]
                    D3DKMTSignalSynchronizationObject2(args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2);
                    /// Creates a keyed mutex that every process can open. [d3dkmthk: D3DKMTCreateKeyedMutex]
                    D3DKMTCreateKeyedMutex(args: *mut D3DKMT_CREATEKEYEDMUTEX);
                    /// Creates a keyed mutex with data of the runtime. [d3dkmthk: D3DKMTCreateKeyedMutex2]
                    D3DKMTCreateKeyedMutex2(args: *mut D3DKMT_CREATEKEYEDMUTEX2);
                    /// Opens a keyed mutex by the handle that every process knows. [d3dkmthk: D3DKMTOpenKeyedMutex]
                    D3DKMTOpenKeyedMutex(args: *mut D3DKMT_OPENKEYEDMUTEX);
                    /// As D3DKMTOpenKeyedMutex, with data of the runtime. [d3dkmthk: D3DKMTOpenKeyedMutex2]
                    D3DKMTOpenKeyedMutex2(args: *mut D3DKMT_OPENKEYEDMUTEX2);
                    /// Opens a keyed mutex by a kernel handle. [d3dkmthk: D3DKMTOpenKeyedMutexFromNtHandle]
                    D3DKMTOpenKeyedMutexFromNtHandle(args: *mut D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE);
                    /// Takes a keyed mutex that was released with a key. [d3dkmthk: D3DKMTAcquireKeyedMutex]
                    D3DKMTAcquireKeyedMutex(args: *mut D3DKMT_ACQUIREKEYEDMUTEX);
                    /// As D3DKMTAcquireKeyedMutex, with data of the runtime. [d3dkmthk: D3DKMTAcquireKeyedMutex2]
                    D3DKMTAcquireKeyedMutex2(args: *mut D3DKMT_ACQUIREKEYEDMUTEX2);
                    /// Gives a keyed mutex back with a key. [d3dkmthk: D3DKMTReleaseKeyedMutex]
                    D3DKMTReleaseKeyedMutex(args: *mut D3DKMT_RELEASEKEYEDMUTEX);
                    /// As D3DKMTReleaseKeyedMutex, with data of the runtime. [d3dkmthk: D3DKMTReleaseKeyedMutex2]
                    D3DKMTReleaseKeyedMutex2(args: *mut D3DKMT_RELEASEKEYEDMUTEX2);
                    /// Closes a keyed mutex. [d3dkmthk: D3DKMTDestroyKeyedMutex]
                    D3DKMTDestroyKeyedMutex(args: *mut D3DKMT_DESTROYKEYEDMUTEX);
                    /// Makes a file descriptor that is ready once a monitored fence has reached a value. [d3dkmthk: D3DKMTCreateSyncFile]
                    D3DKMTCreateSyncFile(args: *mut D3DKMT_CREATESYNCFILE);
                    /// Lets a context wait for what a sync file stands for. [d3dkmthk: D3DKMTWaitSyncFile]
                    D3DKMTWaitSyncFile(args: *mut D3DKMT_WAITSYNCFILE);
                    /// Opens the fence of a sync file. [d3dkmthk: D3DKMTOpenSyncObjectFromSyncFile]
                    D3DKMTOpenSyncObjectFromSyncFile(args: *mut D3DKMT_OPENSYNCOBJECTFROMSYNCFILE);
                }
                "ntdll" {
                    /// Opens a process of the machine by its number: where the handle goes, the access that it grants, an OBJECT_ATTRIBUTES without a name, and
                    /// the number. [ntddk: NtOpenProcess]
                    NtOpenProcess(handle: *mut HANDLE, access: u32, attributes: *const c_void, client: *const CLIENT_ID);
                }
                "campanile_kmt" {
                    /// Makes a file descriptor of what a kernel handle stands for, by which another program of this host gets a handle of it. Windows has no
                    /// such thunk.
                    CampanileExportNtHandle(handle: HANDLE, descriptor: *mut u32);
                    /// Gives the calling process a kernel handle of what a file descriptor of CampanileExportNtHandle is of. Windows has no such thunk.
                    CampanileImportNtHandle(descriptor: u32, handle: *mut HANDLE);
                    /// Names an object of the calling process for traces: its handle, the number of a part of it or 0, and the name in UTF-8 with its length in
                    /// bytes, at most 128. Windows has no such thunk.
                    CampanileSetDebugName(object: D3DKMT_HANDLE, part: u32, name: *const c_void, length: u32);
                }
            }
        }
    };
}

/// The function that a table calls in place of a thunk that the operating system lacks.
pub trait Absent {
    /// Called in place of the thunk `name`; gives the status that the caller gets.
    fn called(name: &'static str) -> NTSTATUS;
}

/// Answers STATUS_PROCEDURE_NOT_FOUND, which is what the status is for; no thunk of d3dkmthk.h is documented to answer it.
#[derive(Clone, Copy, Debug)]
pub struct NotFound;

impl Absent for NotFound {
    fn called(_name: &'static str) -> NTSTATUS {
        STATUS_PROCEDURE_NOT_FOUND
    }
}

/// A terminated text as one of C. For constants: any other text is a panic.
pub const fn terminated(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the text ends with its only NUL"),
    }
}

macro_rules! thunks {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => { $(
        /// Table of thunks.
        $(#[doc = $about])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $table {
            $($( $(#[doc = $doc])* pub $name: unsafe extern "win64" fn($($argument: $ty),+) -> NTSTATUS, )*)*
        }

        impl $table {
            /// Names in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$($(stringify!($name)),*),*];
            /// The module of Windows that exports the thunk at the same place of [`Self::NAMES`].
            pub const MODULES: &'static [&'static str] =
                &[$($({ let _ = stringify!($name); concat!($module, ".dll") }),*),*];

            /// The table of what `find` knows by module and name. Where it gives null, the table has a function that asks `A` what to answer.
            ///
            /// # Safety
            /// What `find` gives for a name is a function of the type that the table declares for it, for as long as the table is used.
            pub unsafe fn look_up<A: Absent>(mut find: impl FnMut(&'static CStr, &'static CStr) -> *mut c_void) -> Self {
                Self { $($($name: {
                    unsafe extern "win64" fn absent<A: Absent>($($argument: $ty),+) -> NTSTATUS {
                        let _ = ($($argument),+,);
                        A::called(stringify!($name))
                    }
                    let module = const { terminated(concat!($module, ".dll\0")) };
                    let name = const { terminated(concat!(stringify!($name), "\0")) };
                    match NonNull::new(find(module, name)) {
                        None => absent::<A>,
                        Some(found) => {
                            // SAFETY: not null, and of this type, as the caller promises.
                            unsafe {
                                core::mem::transmute::<NonNull<c_void>, unsafe extern "win64" fn($($ty),+) -> NTSTATUS>(found)
                            }
                        }
                    }
                },)*)* }
            }
        }
    )* };
}

for_each_thunk!(thunks);

/// What the DLL `module` of this Windows exports as `name`; null if it exports nothing so called, or there is no such DLL.
#[cfg(windows)]
pub fn system_export(module: &CStr, name: &CStr) -> *mut c_void {
    use core::ffi::c_char;

    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn LoadLibraryExA(name: *const c_char, file: HANDLE, flags: u32) -> HANDLE;
        fn GetProcAddress(module: HANDLE, name: *const c_char) -> *mut c_void;
    }

    /// Only the folder of the system's own DLLs is searched. [libloaderapi: LOAD_LIBRARY_SEARCH_SYSTEM32]
    const SYSTEM32: u32 = 0x800;

    // SAFETY: a terminated name and no file. The module is never given back, so that what it exports stays.
    let module = unsafe { LoadLibraryExA(module.as_ptr(), core::ptr::null_mut(), SYSTEM32) };
    if module.is_null() {
        return module;
    }
    // SAFETY: a loaded module and a terminated name.
    unsafe { GetProcAddress(module, name.as_ptr()) }
}
