//! The thunks themselves: what user mode calls.
//!
//! On Windows they are exports of `gdi32.dll`, and the service that closes kernel handles is one of `ntdll.dll`; elsewhere whoever
//! plays the operating system fills the tables. All return `NTSTATUS`; nearly all take one argument structure.

use core::ffi::c_void;

use crate::kmt::*;
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
                    /// Gives an object a kernel handle: count of objects, which is 1, the objects, an OBJECT_ATTRIBUTES, the access that the
                    /// handle grants, and where the handle goes. [d3dkmthk: D3DKMTShareObjects]
                    D3DKMTShareObjects(count: u32, objects: *const D3DKMT_HANDLE, attributes: *const c_void, access: u32, handle: *mut HANDLE);
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
                    /// Sets the priority of a context among those of all processes. [d3dkmthk: D3DKMTSetContextSchedulingPriority]
                    D3DKMTSetContextSchedulingPriority(args: *mut D3DKMT_SETCONTEXTSCHEDULINGPRIORITY);
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
                }
            }
        }
    };
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
        }
    )* };
}

for_each_thunk!(thunks);
