//! The operating system's own thunks: exports of `gdi32.dll` and `ntdll.dll`, behind the import table of whoever links this crate.

use core::ffi::c_void;

use wddm_ddi::{
    kmt::*,
    types::{D3DKMT_HANDLE, HANDLE, NTSTATUS},
};

use crate::thunks::Thunks;

macro_rules! imports {
    ($($module:literal { $($name:ident($($argument:ty),+);)* })*) => {
        $(
            #[link(name = $module, kind = "raw-dylib")]
            unsafe extern "win64" {
                $(fn $name($(_: $argument),+) -> NTSTATUS;)*
            }
        )*

        static SYSTEM: Thunks = Thunks { $($($name),*),* };
    };
}

imports! {
    "gdi32" {
        D3DKMTEnumAdapters3(*mut D3DKMT_ENUMADAPTERS3);
        D3DKMTOpenAdapterFromLuid(*mut D3DKMT_OPENADAPTERFROMLUID);
        D3DKMTCloseAdapter(*mut D3DKMT_CLOSEADAPTER);
        D3DKMTQueryAdapterInfo(*mut D3DKMT_QUERYADAPTERINFO);
        D3DKMTCreateDevice(*mut D3DKMT_CREATEDEVICE);
        D3DKMTDestroyDevice(*mut D3DKMT_DESTROYDEVICE);
        D3DKMTGetDeviceState(*mut D3DKMT_GETDEVICESTATE);
        D3DKMTCreatePagingQueue(*mut D3DKMT_CREATEPAGINGQUEUE);
        D3DKMTDestroyPagingQueue(*mut D3DDDI_DESTROYPAGINGQUEUE);
        D3DKMTCreateAllocation2(*mut D3DKMT_CREATEALLOCATION);
        D3DKMTDestroyAllocation2(*mut D3DKMT_DESTROYALLOCATION2);
        D3DKMTMakeResident(*mut D3DDDI_MAKERESIDENT);
        D3DKMTEvict(*mut D3DKMT_EVICT);
        D3DKMTOfferAllocations(*mut D3DKMT_OFFERALLOCATIONS);
        D3DKMTReclaimAllocations2(*mut D3DKMT_RECLAIMALLOCATIONS2);
        D3DKMTReserveGpuVirtualAddress(*mut D3DDDI_RESERVEGPUVIRTUALADDRESS);
        D3DKMTMapGpuVirtualAddress(*mut D3DDDI_MAPGPUVIRTUALADDRESS);
        D3DKMTFreeGpuVirtualAddress(*mut D3DKMT_FREEGPUVIRTUALADDRESS);
        D3DKMTLock2(*mut D3DKMT_LOCK2);
        D3DKMTUnlock2(*mut D3DKMT_UNLOCK2);
        D3DKMTInvalidateCache(*mut D3DKMT_INVALIDATECACHE);
        D3DKMTQueryVideoMemoryInfo(*mut D3DKMT_QUERYVIDEOMEMORYINFO);
        D3DKMTChangeVideoMemoryReservation(*mut D3DKMT_CHANGEVIDEOMEMORYRESERVATION);
        D3DKMTRegisterTrimNotification(*mut D3DKMT_REGISTERTRIMNOTIFICATION);
        D3DKMTUnregisterTrimNotification(*mut D3DKMT_UNREGISTERTRIMNOTIFICATION);
        D3DKMTCreateContextVirtual(*mut D3DKMT_CREATECONTEXTVIRTUAL);
        D3DKMTDestroyContext(*mut D3DKMT_DESTROYCONTEXT);
        D3DKMTSubmitCommand(*mut D3DKMT_SUBMITCOMMAND);
        D3DKMTCreateHwContext(*mut D3DKMT_CREATEHWCONTEXT);
        D3DKMTDestroyHwContext(*mut D3DKMT_DESTROYHWCONTEXT);
        D3DKMTCreateHwQueue(*mut D3DKMT_CREATEHWQUEUE);
        D3DKMTDestroyHwQueue(*mut D3DKMT_DESTROYHWQUEUE);
        D3DKMTSubmitCommandToHwQueue(*mut D3DKMT_SUBMITCOMMANDTOHWQUEUE);
        D3DKMTCreateDoorbell(*mut D3DKMT_CREATE_DOORBELL);
        D3DKMTConnectDoorbell(*mut D3DKMT_CONNECT_DOORBELL);
        D3DKMTDestroyDoorbell(*mut D3DKMT_DESTROY_DOORBELL);
        D3DKMTNotifyWorkSubmission(*mut D3DKMT_NOTIFY_WORK_SUBMISSION);
        D3DKMTCreateNativeFence(*mut D3DKMT_CREATENATIVEFENCE);
        D3DKMTDestroySynchronizationObject(*mut D3DKMT_DESTROYSYNCHRONIZATIONOBJECT);
        D3DKMTWaitForSynchronizationObjectFromCpu(*mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU);
        D3DKMTSignalSynchronizationObjectFromCpu(*mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU);
        D3DKMTShareObjects(u32, *const D3DKMT_HANDLE, *const c_void, u32, *mut HANDLE);
        D3DKMTOpenNativeFenceFromNtHandle(*mut D3DKMT_OPENNATIVEFENCEFROMNTHANDLE);
    }
    "ntdll" {
        NtClose(HANDLE);
    }
}

/// The thunks of Windows, for [`Adapter::open`](crate::Adapter::open). [d3dkmthk: D3DKMT functions; winternl: NtClose]
pub fn system_thunks() -> &'static Thunks {
    &SYSTEM
}
