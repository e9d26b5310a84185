//! The operating system's own thunks: the exports of `gdi32.dll`, behind the import table of whoever links this crate.

use wddm_ddi::{kmt::*, types::NTSTATUS};

use crate::thunks::Thunks;

macro_rules! imports {
    ($($name:ident($arguments:ty);)*) => {
        #[link(name = "gdi32", kind = "raw-dylib")]
        unsafe extern "win64" {
            $(fn $name(arguments: *mut $arguments) -> NTSTATUS;)*
        }

        static SYSTEM: Thunks = Thunks { $($name),* };
    };
}

imports! {
    D3DKMTEnumAdapters3(D3DKMT_ENUMADAPTERS3);
    D3DKMTOpenAdapterFromLuid(D3DKMT_OPENADAPTERFROMLUID);
    D3DKMTCloseAdapter(D3DKMT_CLOSEADAPTER);
    D3DKMTQueryAdapterInfo(D3DKMT_QUERYADAPTERINFO);
    D3DKMTCreateDevice(D3DKMT_CREATEDEVICE);
    D3DKMTDestroyDevice(D3DKMT_DESTROYDEVICE);
    D3DKMTGetDeviceState(D3DKMT_GETDEVICESTATE);
    D3DKMTCreatePagingQueue(D3DKMT_CREATEPAGINGQUEUE);
    D3DKMTDestroyPagingQueue(D3DDDI_DESTROYPAGINGQUEUE);
    D3DKMTCreateAllocation2(D3DKMT_CREATEALLOCATION);
    D3DKMTDestroyAllocation2(D3DKMT_DESTROYALLOCATION2);
    D3DKMTMakeResident(D3DDDI_MAKERESIDENT);
    D3DKMTEvict(D3DKMT_EVICT);
    D3DKMTReserveGpuVirtualAddress(D3DDDI_RESERVEGPUVIRTUALADDRESS);
    D3DKMTMapGpuVirtualAddress(D3DDDI_MAPGPUVIRTUALADDRESS);
    D3DKMTFreeGpuVirtualAddress(D3DKMT_FREEGPUVIRTUALADDRESS);
    D3DKMTLock2(D3DKMT_LOCK2);
    D3DKMTUnlock2(D3DKMT_UNLOCK2);
    D3DKMTInvalidateCache(D3DKMT_INVALIDATECACHE);
    D3DKMTCreateHwContext(D3DKMT_CREATEHWCONTEXT);
    D3DKMTDestroyHwContext(D3DKMT_DESTROYHWCONTEXT);
    D3DKMTCreateHwQueue(D3DKMT_CREATEHWQUEUE);
    D3DKMTDestroyHwQueue(D3DKMT_DESTROYHWQUEUE);
    D3DKMTSubmitCommandToHwQueue(D3DKMT_SUBMITCOMMANDTOHWQUEUE);
    D3DKMTCreateDoorbell(D3DKMT_CREATE_DOORBELL);
    D3DKMTConnectDoorbell(D3DKMT_CONNECT_DOORBELL);
    D3DKMTDestroyDoorbell(D3DKMT_DESTROY_DOORBELL);
    D3DKMTNotifyWorkSubmission(D3DKMT_NOTIFY_WORK_SUBMISSION);
    D3DKMTCreateNativeFence(D3DKMT_CREATENATIVEFENCE);
    D3DKMTDestroySynchronizationObject(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT);
    D3DKMTWaitForSynchronizationObjectFromCpu(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU);
    D3DKMTSignalSynchronizationObjectFromCpu(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU);
}

/// The thunks of Windows, for [`Adapter::open`](crate::Adapter::open). [d3dkmthk: D3DKMT functions]
pub fn system_thunks() -> &'static Thunks {
    &SYSTEM
}
