//! Resources that are shared: what is asked of them and how they are opened, and names of kernel objects.

use core::ffi::c_void;

use crate::types::*;

/// An allocation of a resource that is opened, in the older form. [d3dukmdt: D3DDDI_OPENALLOCATIONINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_OPENALLOCATIONINFO {
    pub hAllocation: D3DKMT_HANDLE,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
}

/// An allocation of a resource that is opened. [d3dukmdt: D3DDDI_OPENALLOCATIONINFO2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_OPENALLOCATIONINFO2 {
    pub hAllocation: D3DKMT_HANDLE,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Reserved: [usize; 6],
}

/// Argument of `D3DKMTQueryResourceInfo`. [d3dkmthk: D3DKMT_QUERYRESOURCEINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYRESOURCEINFO {
    pub hDevice: D3DKMT_HANDLE,
    pub hGlobalShare: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub TotalPrivateDriverDataSize: u32,
    pub ResourcePrivateDriverDataSize: u32,
    pub NumAllocations: u32,
}

/// Argument of `D3DKMTQueryResourceInfoFromNtHandle`. [d3dkmthk: D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE {
    pub hDevice: D3DKMT_HANDLE,
    pub hNtHandle: HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub TotalPrivateDriverDataSize: u32,
    pub ResourcePrivateDriverDataSize: u32,
    pub NumAllocations: u32,
}

/// Union of [`D3DKMT_OPENRESOURCE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_OPENRESOURCE_Union {
    pub pOpenAllocationInfo: *mut D3DDDI_OPENALLOCATIONINFO,
    pub pOpenAllocationInfo2: *mut D3DDDI_OPENALLOCATIONINFO2,
}

/// Argument of `D3DKMTOpenResource` and `D3DKMTOpenResource2`. [d3dkmthk: D3DKMT_OPENRESOURCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENRESOURCE {
    pub hDevice: D3DKMT_HANDLE,
    pub hGlobalShare: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub u: D3DKMT_OPENRESOURCE_Union,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub pResourcePrivateDriverData: *mut c_void,
    pub ResourcePrivateDriverDataSize: u32,
    pub pTotalPrivateDriverDataBuffer: *mut c_void,
    pub TotalPrivateDriverDataBufferSize: u32,
    pub hResource: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTOpenResourceFromNtHandle`. [d3dkmthk: D3DKMT_OPENRESOURCEFROMNTHANDLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENRESOURCEFROMNTHANDLE {
    pub hDevice: D3DKMT_HANDLE,
    pub hNtHandle: HANDLE,
    pub NumAllocations: u32,
    pub pOpenAllocationInfo2: *mut D3DDDI_OPENALLOCATIONINFO2,
    pub PrivateRuntimeDataSize: u32,
    pub pPrivateRuntimeData: *mut c_void,
    pub ResourcePrivateDriverDataSize: u32,
    pub pResourcePrivateDriverData: *mut c_void,
    pub TotalPrivateDriverDataBufferSize: u32,
    pub pTotalPrivateDriverDataBuffer: *mut c_void,
    pub hResource: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pKeyedMutexPrivateRuntimeData: *mut c_void,
    pub KeyedMutexPrivateRuntimeDataSize: u32,
    pub hSyncObject: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTOpenNtHandleFromName`. [d3dkmthk: D3DKMT_OPENNTHANDLEFROMNAME]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENNTHANDLEFROMNAME {
    pub dwDesiredAccess: u32,
    pub pObjAttrib: *mut c_void,
    pub hNtHandle: HANDLE,
}

/// Argument of `D3DKMTOpenSyncObjectNtHandleFromName`. [d3dkmthk: D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME {
    pub dwDesiredAccess: u32,
    pub pObjAttrib: *mut c_void,
    pub hNtHandle: HANDLE,
}

/// Argument of `D3DKMTGetSharedResourceAdapterLuid`. [d3dkmthk: D3DKMT_GETSHAREDRESOURCEADAPTERLUID]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GETSHAREDRESOURCEADAPTERLUID {
    pub hGlobalShare: D3DKMT_HANDLE,
    pub hNtHandle: HANDLE,
    pub AdapterLuid: LUID,
}

/// Argument of `D3DKMTCheckSharedResourceAccess`. [d3dkmthk: D3DKMT_CHECKSHAREDRESOURCEACCESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CHECKSHAREDRESOURCEACCESS {
    pub hResource: D3DKMT_HANDLE,
    pub ClientPid: u32,
}

/// Argument of `D3DKMTConfigureSharedResource`. [d3dkmthk: D3DKMT_CONFIGURESHAREDRESOURCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CONFIGURESHAREDRESOURCE {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub IsDwm: u8,
    pub hProcess: HANDLE,
    pub AllowAccess: u8,
}

/// Argument of `D3DKMTGetRuntimeData`. [d3dkmthk: D3DKMT_GETRUNTIMEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GETRUNTIMEDATA {
    pub hAdapter: D3DKMT_HANDLE,
    pub hGlobalShare: D3DKMT_HANDLE,
    pub pRuntimeData: *mut c_void,
    pub RuntimeDataSize: u32,
}

/// Argument of `D3DKMTShareObjectWithHost`. [d3dkmthk: D3DKMT_SHAREOBJECTWITHHOST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SHAREOBJECTWITHHOST {
    pub hDevice: D3DKMT_HANDLE,
    pub hObject: D3DKMT_HANDLE,
    pub Reserved: u64,
    pub hVailProcessNtHandle: u64,
}

zeroed! {
    D3DDDI_OPENALLOCATIONINFO,
    D3DDDI_OPENALLOCATIONINFO2,
    D3DKMT_QUERYRESOURCEINFO,
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
    D3DKMT_OPENRESOURCE_Union,
    D3DKMT_OPENRESOURCE,
    D3DKMT_OPENRESOURCEFROMNTHANDLE,
    D3DKMT_OPENNTHANDLEFROMNAME,
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME,
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID,
    D3DKMT_CHECKSHAREDRESOURCEACCESS,
    D3DKMT_CONFIGURESHAREDRESOURCE,
    D3DKMT_GETRUNTIMEDATA,
    D3DKMT_SHAREOBJECTWITHHOST,
}
