/*
 * The D3DKMT thunks of libcampanile_kmt.so, and their types.
 *
 * Names, layouts and values are those of Microsoft's d3dkmthk.h (kit 10.0.26100) for x64. A program that has that header includes it first, after
 * campanile_windows.h or types of its own; only values of NTSTATUS are declared here then.
 *
 * Generated from the Rust sources; do not edit.
 */
#ifndef CAMPANILE_KMT_H
#define CAMPANILE_KMT_H

#include "campanile_windows.h"

#if defined(CAMPANILE_BASE_TYPES) && defined(MIDL_INTERFACE)
#error "wsl/winadapter.h was included behind campanile_windows.h: include it first, and both agree on the base types"
#endif

#ifndef STATUS_SUCCESS
#define STATUS_SUCCESS ((NTSTATUS)0x00000000)
#endif
#ifndef STATUS_ABANDONED
#define STATUS_ABANDONED ((NTSTATUS)0x00000080)
#endif
#ifndef STATUS_TIMEOUT
#define STATUS_TIMEOUT ((NTSTATUS)0x00000102)
#endif
#ifndef STATUS_PENDING
#define STATUS_PENDING ((NTSTATUS)0x00000103)
#endif
#ifndef STATUS_BUFFER_OVERFLOW
#define STATUS_BUFFER_OVERFLOW ((NTSTATUS)0x80000005)
#endif
#ifndef STATUS_NO_MORE_ENTRIES
#define STATUS_NO_MORE_ENTRIES ((NTSTATUS)0x8000001a)
#endif
#ifndef STATUS_UNSUCCESSFUL
#define STATUS_UNSUCCESSFUL ((NTSTATUS)0xc0000001)
#endif
#ifndef STATUS_INFO_LENGTH_MISMATCH
#define STATUS_INFO_LENGTH_MISMATCH ((NTSTATUS)0xc0000004)
#endif
#ifndef STATUS_ACCESS_VIOLATION
#define STATUS_ACCESS_VIOLATION ((NTSTATUS)0xc0000005)
#endif
#ifndef STATUS_INVALID_HANDLE
#define STATUS_INVALID_HANDLE ((NTSTATUS)0xc0000008)
#endif
#ifndef STATUS_INVALID_CID
#define STATUS_INVALID_CID ((NTSTATUS)0xc000000b)
#endif
#ifndef STATUS_INVALID_PARAMETER
#define STATUS_INVALID_PARAMETER ((NTSTATUS)0xc000000d)
#endif
#ifndef STATUS_NO_SUCH_DEVICE
#define STATUS_NO_SUCH_DEVICE ((NTSTATUS)0xc000000e)
#endif
#ifndef STATUS_NO_MEMORY
#define STATUS_NO_MEMORY ((NTSTATUS)0xc0000017)
#endif
#ifndef STATUS_ACCESS_DENIED
#define STATUS_ACCESS_DENIED ((NTSTATUS)0xc0000022)
#endif
#ifndef STATUS_BUFFER_TOO_SMALL
#define STATUS_BUFFER_TOO_SMALL ((NTSTATUS)0xc0000023)
#endif
#ifndef STATUS_OBJECT_TYPE_MISMATCH
#define STATUS_OBJECT_TYPE_MISMATCH ((NTSTATUS)0xc0000024)
#endif
#ifndef STATUS_INVALID_PARAMETER_MIX
#define STATUS_INVALID_PARAMETER_MIX ((NTSTATUS)0xc0000030)
#endif
#ifndef STATUS_OBJECT_NAME_INVALID
#define STATUS_OBJECT_NAME_INVALID ((NTSTATUS)0xc0000033)
#endif
#ifndef STATUS_OBJECT_NAME_NOT_FOUND
#define STATUS_OBJECT_NAME_NOT_FOUND ((NTSTATUS)0xc0000034)
#endif
#ifndef STATUS_OBJECT_NAME_COLLISION
#define STATUS_OBJECT_NAME_COLLISION ((NTSTATUS)0xc0000035)
#endif
#ifndef STATUS_OBJECT_PATH_NOT_FOUND
#define STATUS_OBJECT_PATH_NOT_FOUND ((NTSTATUS)0xc000003a)
#endif
#ifndef STATUS_OBJECT_PATH_SYNTAX_BAD
#define STATUS_OBJECT_PATH_SYNTAX_BAD ((NTSTATUS)0xc000003b)
#endif
#ifndef STATUS_REVISION_MISMATCH
#define STATUS_REVISION_MISMATCH ((NTSTATUS)0xc0000059)
#endif
#ifndef STATUS_PRIVILEGE_NOT_HELD
#define STATUS_PRIVILEGE_NOT_HELD ((NTSTATUS)0xc0000061)
#endif
#ifndef STATUS_PROCEDURE_NOT_FOUND
#define STATUS_PROCEDURE_NOT_FOUND ((NTSTATUS)0xc000007a)
#endif
#ifndef STATUS_INVALID_IMAGE_FORMAT
#define STATUS_INVALID_IMAGE_FORMAT ((NTSTATUS)0xc000007b)
#endif
#ifndef STATUS_INSUFFICIENT_RESOURCES
#define STATUS_INSUFFICIENT_RESOURCES ((NTSTATUS)0xc000009a)
#endif
#ifndef STATUS_DEVICE_NOT_READY
#define STATUS_DEVICE_NOT_READY ((NTSTATUS)0xc00000a3)
#endif
#ifndef STATUS_NOT_SUPPORTED
#define STATUS_NOT_SUPPORTED ((NTSTATUS)0xc00000bb)
#endif
#ifndef STATUS_DEVICE_DOES_NOT_EXIST
#define STATUS_DEVICE_DOES_NOT_EXIST ((NTSTATUS)0xc00000c0)
#endif
#ifndef STATUS_INTERNAL_ERROR
#define STATUS_INTERNAL_ERROR ((NTSTATUS)0xc00000e5)
#endif
#ifndef STATUS_INVALID_DEVICE_STATE
#define STATUS_INVALID_DEVICE_STATE ((NTSTATUS)0xc0000184)
#endif
#ifndef STATUS_PROCESS_IS_TERMINATING
#define STATUS_PROCESS_IS_TERMINATING ((NTSTATUS)0xc000010a)
#endif
#ifndef STATUS_IMAGE_ALREADY_LOADED
#define STATUS_IMAGE_ALREADY_LOADED ((NTSTATUS)0xc000010e)
#endif
#ifndef STATUS_CANCELLED
#define STATUS_CANCELLED ((NTSTATUS)0xc0000120)
#endif
#ifndef STATUS_CANNOT_DELETE
#define STATUS_CANNOT_DELETE ((NTSTATUS)0xc0000121)
#endif
#ifndef STATUS_KEY_DELETED
#define STATUS_KEY_DELETED ((NTSTATUS)0xc000017c)
#endif
#ifndef STATUS_DRIVER_INTERNAL_ERROR
#define STATUS_DRIVER_INTERNAL_ERROR ((NTSTATUS)0xc0000183)
#endif
#ifndef STATUS_INVALID_DEVICE_REQUEST
#define STATUS_INVALID_DEVICE_REQUEST ((NTSTATUS)0xc0000010)
#endif
#ifndef STATUS_DEVICE_REMOVED
#define STATUS_DEVICE_REMOVED ((NTSTATUS)0xc00002b6)
#endif
#ifndef STATUS_NOT_FOUND
#define STATUS_NOT_FOUND ((NTSTATUS)0xc0000225)
#endif
#ifndef STATUS_FAILED_DRIVER_ENTRY
#define STATUS_FAILED_DRIVER_ENTRY ((NTSTATUS)0xc0000365)
#endif
#ifndef STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER
#define STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER ((NTSTATUS)0xc01e0001)
#endif
#ifndef STATUS_GRAPHICS_DRIVER_MISMATCH
#define STATUS_GRAPHICS_DRIVER_MISMATCH ((NTSTATUS)0xc01e0009)
#endif
#ifndef STATUS_GRAPHICS_NO_VIDEO_MEMORY
#define STATUS_GRAPHICS_NO_VIDEO_MEMORY ((NTSTATUS)0xc01e0100)
#endif
#ifndef STATUS_GRAPHICS_CANT_LOCK_MEMORY
#define STATUS_GRAPHICS_CANT_LOCK_MEMORY ((NTSTATUS)0xc01e0101)
#endif
#ifndef STATUS_GRAPHICS_ALLOCATION_BUSY
#define STATUS_GRAPHICS_ALLOCATION_BUSY ((NTSTATUS)0xc01e0102)
#endif
#ifndef STATUS_GRAPHICS_ALLOCATION_INVALID
#define STATUS_GRAPHICS_ALLOCATION_INVALID ((NTSTATUS)0xc01e0106)
#endif
#ifndef STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE
#define STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE ((NTSTATUS)0xc01e0110)
#endif
#ifndef STATUS_GRAPHICS_ALLOCATION_CLOSED
#define STATUS_GRAPHICS_ALLOCATION_CLOSED ((NTSTATUS)0xc01e0112)
#endif
#ifndef STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE
#define STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE ((NTSTATUS)0xc01e0200)
#endif

/* The guards of Microsoft's header and of Wine's. */
#if !defined(_D3DKMTHK_H_) && !defined(__WINE_D3DKMTHK_H)
#define CAMPANILE_KMT_TYPES

#ifdef __cplusplus
extern "C" {
#endif

typedef UINT D3DKMT_HANDLE;
typedef UINT64 D3DGPU_VIRTUAL_ADDRESS;
typedef UINT64 D3DGPU_SIZE_T;
typedef SIZE_T D3DKMT_SIZE_T;
typedef UINT D3DDDI_VIDEO_PRESENT_SOURCE_ID;

/* State of a doorbell as its process reads it after ringing */
typedef enum D3DDDI_DOORBELLSTATUS {
    D3DDDI_DOORBELLSTATUS_CONNECTED = 0,
    D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD = 1,
    D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY = 2,
    D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT = 3,
} D3DDDI_DOORBELLSTATUS;

/* One adapter in an enumeration */
typedef struct D3DKMT_ADAPTERINFO {
    D3DKMT_HANDLE hAdapter;
    LUID AdapterLuid;
    UINT NumOfSources;
    INT bPrecisePresentRegionsPreferred;
} D3DKMT_ADAPTERINFO;

typedef struct D3DKMT_ENUMADAPTERS2 {
    UINT NumAdapters;
    D3DKMT_ADAPTERINFO *pAdapters;
} D3DKMT_ENUMADAPTERS2;

/* Kinds of adapter to list besides the usual ones */
typedef struct D3DKMT_ENUMADAPTERS_FILTER {
    __extension__ union {
        __extension__ struct {
            UINT64 IncludeComputeOnly : 1;
            UINT64 IncludeDisplayOnly : 1;
            UINT64 IncludeVirtualGpuOnly : 1;
            UINT64 Reserved : 61;
        };
        UINT64 Value;
    };
} D3DKMT_ENUMADAPTERS_FILTER;

typedef struct D3DKMT_ENUMADAPTERS3 {
    D3DKMT_ENUMADAPTERS_FILTER Filter;
    UINT NumAdapters;
    D3DKMT_ADAPTERINFO *pAdapters;
} D3DKMT_ENUMADAPTERS3;

typedef struct D3DKMT_OPENADAPTERFROMLUID {
    LUID AdapterLuid;
    D3DKMT_HANDLE hAdapter;
} D3DKMT_OPENADAPTERFROMLUID;

typedef struct D3DKMT_CLOSEADAPTER {
    D3DKMT_HANDLE hAdapter;
} D3DKMT_CLOSEADAPTER;

/* What user mode asks about an adapter; each number has its own structure */
typedef enum KMTQUERYADAPTERINFOTYPE {
    KMTQAITYPE_UMDRIVERPRIVATE = 0,
    KMTQAITYPE_UMDRIVERNAME = 1,
    KMTQAITYPE_UMOPENGLINFO = 2,
    KMTQAITYPE_GETSEGMENTSIZE = 3,
    KMTQAITYPE_ADAPTERGUID = 4,
    KMTQAITYPE_FLIPQUEUEINFO = 5,
    KMTQAITYPE_ADAPTERADDRESS = 6,
    KMTQAITYPE_SETWORKINGSETINFO = 7,
    KMTQAITYPE_ADAPTERREGISTRYINFO = 8,
    KMTQAITYPE_CURRENTDISPLAYMODE = 9,
    KMTQAITYPE_MODELIST = 10,
    KMTQAITYPE_CHECKDRIVERUPDATESTATUS = 11,
    KMTQAITYPE_VIRTUALADDRESSINFO = 12,
    KMTQAITYPE_DRIVERVERSION = 13,
    KMTQAITYPE_ADAPTERTYPE = 15,
    KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT = 16,
    KMTQAITYPE_WDDM_1_2_CAPS = 17,
    KMTQAITYPE_UMD_DRIVER_VERSION = 18,
    KMTQAITYPE_DIRECTFLIP_SUPPORT = 19,
    KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT = 20,
    KMTQAITYPE_DLIST_DRIVER_NAME = 21,
    KMTQAITYPE_WDDM_1_3_CAPS = 22,
    KMTQAITYPE_MULTIPLANEOVERLAY_HUD_SUPPORT = 23,
    KMTQAITYPE_WDDM_2_0_CAPS = 24,
    KMTQAITYPE_NODEMETADATA = 25,
    KMTQAITYPE_CPDRIVERNAME = 26,
    KMTQAITYPE_XBOX = 27,
    KMTQAITYPE_INDEPENDENTFLIP_SUPPORT = 28,
    KMTQAITYPE_MIRACASTCOMPANIONDRIVERNAME = 29,
    KMTQAITYPE_PHYSICALADAPTERCOUNT = 30,
    KMTQAITYPE_PHYSICALADAPTERDEVICEIDS = 31,
    KMTQAITYPE_DRIVERCAPS_EXT = 32,
    KMTQAITYPE_QUERY_MIRACAST_DRIVER_TYPE = 33,
    KMTQAITYPE_QUERY_GPUMMU_CAPS = 34,
    KMTQAITYPE_QUERY_MULTIPLANEOVERLAY_DECODE_SUPPORT = 35,
    KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT = 36,
    KMTQAITYPE_QUERY_ISBADDRIVERFORHWPROTECTIONDISABLED = 37,
    KMTQAITYPE_MULTIPLANEOVERLAY_SECONDARY_SUPPORT = 38,
    KMTQAITYPE_INDEPENDENTFLIP_SECONDARY_SUPPORT = 39,
    KMTQAITYPE_PANELFITTER_SUPPORT = 40,
    KMTQAITYPE_PHYSICALADAPTERPNPKEY = 41,
    KMTQAITYPE_GETSEGMENTGROUPSIZE = 42,
    KMTQAITYPE_MPO3DDI_SUPPORT = 43,
    KMTQAITYPE_HWDRM_SUPPORT = 44,
    KMTQAITYPE_MPOKERNELCAPS_SUPPORT = 45,
    KMTQAITYPE_MULTIPLANEOVERLAY_STRETCH_SUPPORT = 46,
    KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO = 47,
    KMTQAITYPE_QUERYREGISTRY = 48,
    KMTQAITYPE_KMD_DRIVER_VERSION = 49,
    KMTQAITYPE_BLOCKLIST_KERNEL = 50,
    KMTQAITYPE_BLOCKLIST_RUNTIME = 51,
    KMTQAITYPE_ADAPTERGUID_RENDER = 52,
    KMTQAITYPE_ADAPTERADDRESS_RENDER = 53,
    KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER = 54,
    KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER = 55,
    KMTQAITYPE_DRIVERVERSION_RENDER = 56,
    KMTQAITYPE_ADAPTERTYPE_RENDER = 57,
    KMTQAITYPE_WDDM_1_2_CAPS_RENDER = 58,
    KMTQAITYPE_WDDM_1_3_CAPS_RENDER = 59,
    KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID = 60,
    KMTQAITYPE_NODEPERFDATA = 61,
    KMTQAITYPE_ADAPTERPERFDATA = 62,
    KMTQAITYPE_ADAPTERPERFDATA_CAPS = 63,
    KMTQUITYPE_GPUVERSION = 64,
    KMTQAITYPE_DRIVER_DESCRIPTION = 65,
    KMTQAITYPE_DRIVER_DESCRIPTION_RENDER = 66,
    KMTQAITYPE_SCANOUT_CAPS = 67,
    KMTQAITYPE_PARAVIRTUALIZATION_RENDER = 68,
    KMTQAITYPE_SERVICENAME = 69,
    KMTQAITYPE_WDDM_2_7_CAPS = 70,
    KMTQAITYPE_DISPLAY_UMDRIVERNAME = 71,
    KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT = 72,
    KMTQAITYPE_HYBRID_DLIST_DLL_SUPPORT = 73,
    KMTQAITYPE_DISPLAY_CAPS = 74,
    KMTQAITYPE_WDDM_2_9_CAPS = 75,
    KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT = 76,
    KMTQAITYPE_WDDM_3_0_CAPS = 77,
    KMTQAITYPE_WSAUMDIMAGENAME = 78,
    KMTQAITYPE_VGPUINTERFACEID = 79,
    KMTQAITYPE_WDDM_3_1_CAPS = 80,
    KMTQAITYPE_HYBRID_DLIST_DLL_MUX_SUPPORT = 81,
} KMTQUERYADAPTERINFOTYPE;

typedef struct D3DKMT_QUERYADAPTERINFO {
    D3DKMT_HANDLE hAdapter;
    KMTQUERYADAPTERINFOTYPE Type;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
} D3DKMT_QUERYADAPTERINFO;

typedef struct D3DKMT_WDDM_3_1_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT NativeGpuFenceSupported : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} D3DKMT_WDDM_3_1_CAPS;

typedef struct D3DKMT_WDDM_2_7_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT HwSchSupported : 1;
            UINT HwSchEnabled : 1;
            UINT HwSchEnabledByDefault : 1;
            UINT IndependentVidPnVSyncControl : 1;
            UINT Reserved : 28;
        };
        UINT Value;
    };
} D3DKMT_WDDM_2_7_CAPS;

/* What a node is for; there is no number for compute, which reports as other */
typedef enum DXGK_ENGINE_TYPE {
    DXGK_ENGINE_TYPE_OTHER = 0,
    DXGK_ENGINE_TYPE_3D = 1,
    DXGK_ENGINE_TYPE_VIDEO_DECODE = 2,
    DXGK_ENGINE_TYPE_VIDEO_ENCODE = 3,
    DXGK_ENGINE_TYPE_VIDEO_PROCESSING = 4,
    DXGK_ENGINE_TYPE_SCENE_ASSEMBLY = 5,
    DXGK_ENGINE_TYPE_COPY = 6,
    DXGK_ENGINE_TYPE_OVERLAY = 7,
    DXGK_ENGINE_TYPE_CRYPTO = 8,
    DXGK_ENGINE_TYPE_VIDEO_CODEC = 9,
    DXGK_ENGINE_TYPE_MAX = 10,
} DXGK_ENGINE_TYPE;

/* What a node can do */
typedef struct DXGK_NODEMETADATA_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT ContextSchedulingSupported : 1;
            UINT RingBufferFenceRelease : 1;
            UINT SupportTrackedWorkload : 1;
            UINT UserModeSubmission : 1;
            UINT SupportBuildTestCommandBuffer : 1;
            UINT Reserved : 11;
            UINT MaxInFlightHwQueueBuffers : 16;
        };
        UINT Value;
    };
} DXGK_NODEMETADATA_FLAGS;

#pragma pack(push, 1)
typedef struct DXGK_NODEMETADATA {
    DXGK_ENGINE_TYPE EngineType;
    USHORT FriendlyName[32];
    DXGK_NODEMETADATA_FLAGS Flags;
    UCHAR GpuMmuSupported;
    UCHAR IoMmuSupported;
} DXGK_NODEMETADATA;
#pragma pack(pop)

#pragma pack(push, 1)
typedef struct D3DKMT_NODEMETADATA {
    UINT NodeOrdinalAndAdapterIndex;
    DXGK_NODEMETADATA NodeData;
} D3DKMT_NODEMETADATA;
#pragma pack(pop)

typedef struct D3DKMT_ADAPTERTYPE {
    __extension__ union {
        __extension__ struct {
            UINT RenderSupported : 1;
            UINT DisplaySupported : 1;
            UINT SoftwareDevice : 1;
            UINT PostDevice : 1;
            UINT HybridDiscrete : 1;
            UINT HybridIntegrated : 1;
            UINT IndirectDisplayDevice : 1;
            UINT Paravirtualized : 1;
            UINT ACGSupported : 1;
            UINT SupportSetTimingsFromVidPn : 1;
            UINT Detachable : 1;
            UINT ComputeOnly : 1;
            UINT Prototype : 1;
            UINT RuntimePowerManagement : 1;
            UINT Reserved : 18;
        };
        UINT Value;
    };
} D3DKMT_ADAPTERTYPE;

typedef struct D3DKMT_ENUMADAPTERS {
    UINT NumAdapters;
    D3DKMT_ADAPTERINFO Adapters[16];
} D3DKMT_ENUMADAPTERS;

typedef struct D3DKMT_OPENADAPTERFROMDEVICENAME {
    const USHORT *pDeviceName;
    D3DKMT_HANDLE hAdapter;
    LUID AdapterLuid;
} D3DKMT_OPENADAPTERFROMDEVICENAME;

/* Negotiable feature: the category in the top four bits (0 driver, 1 operating system), a number below */
typedef enum DXGK_FEATURE_ID {
    DXGK_FEATURE_HWSCH = 0,
    DXGK_FEATURE_HWFLIPQUEUE = 1,
    DXGK_FEATURE_LDA_GPUPV = 2,
    DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT = 3,
    DXGK_FEATURE_USER_MODE_SUBMISSION = 4,
    DXGK_FEATURE_SHARE_BACKING_STORE_WITH_KMD = 5,
    DXGK_FEATURE_SAMPLE = 31,
    DXGK_FEATURE_PAGE_BASED_MEMORY_MANAGER = 32,
    DXGK_FEATURE_KERNEL_MODE_TESTING = 33,
    DXGK_FEATURE_64K_PT_DEMOTION_FIX = 34,
    DXGK_FEATURE_GPUPV_PRESENT_HWQUEUE = 35,
    DXGK_FEATURE_GPUVAIOMMU = 36,
    DXGK_FEATURE_NATIVE_FENCE = 37,
    DXGK_FEATURE_SYNC_PRESENT_RENDER_HWQ_ONLY = 41,
    DXGK_FEATURE_PANEL_BUFFER_CONTROL = 46,
    DXGK_FEATURE_QUERYSTATISTICS_EXTENSIONS = 268435456,
    DXGK_FEATURE_RESERVE_GPUVA_ZERO_BASE_ADDRESS = 268435457,
    DXGK_FEATURE_PER_PTE_PAGE_SIZE = 268435458,
    DXGK_FEATURE_FENCE_SIGNAL_FROM_SWS_NODE = 268435459,
    DXGK_FEATURE_SUPPRESSVSYNC_INTERRUPTS = 268435460,
    DXGK_FEATURE_FEATURE_INTERFACE_EXTENSIONS = 268435461,
    DXGK_FEATURE_READONLY_EXISTINGSYSMEM = 268435462,
} DXGK_FEATURE_ID;

/* State of a feature and the version agreed on */
typedef struct DXGK_ISFEATUREENABLED_RESULT {
    USHORT Version;
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                USHORT Enabled : 1;
                USHORT KnownFeature : 1;
                USHORT SupportedByDriver : 1;
                USHORT SupportedOnCurrentConfig : 1;
                USHORT Reserved : 12;
            };
            USHORT Value;
        };
    };
} DXGK_ISFEATUREENABLED_RESULT;

typedef struct D3DKMT_ISFEATUREENABLED {
    D3DKMT_HANDLE hAdapter;
    DXGK_FEATURE_ID FeatureId;
    DXGK_ISFEATUREENABLED_RESULT Result;
} D3DKMT_ISFEATUREENABLED;

/* Whose clock was read */
typedef struct DXGK_GPUCLOCKDATA_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT ContextManagementProcessor : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_GPUCLOCKDATA_FLAGS;

#pragma pack(push, 1)
typedef struct DXGK_GPUCLOCKDATA {
    UINT64 GpuFrequency;
    UINT64 GpuClockCounter;
    UINT64 CpuClockCounter;
    DXGK_GPUCLOCKDATA_FLAGS Flags;
} DXGK_GPUCLOCKDATA;
#pragma pack(pop)

#pragma pack(push, 1)
typedef struct D3DKMT_QUERYCLOCKCALIBRATION {
    D3DKMT_HANDLE hAdapter;
    UINT NodeOrdinal;
    UINT PhysicalAdapterIndex;
    DXGK_GPUCLOCKDATA ClockData;
} D3DKMT_QUERYCLOCKCALIBRATION;
#pragma pack(pop)

typedef struct D3DKMT_SETSTABLEPOWERSTATE {
    D3DKMT_HANDLE hAdapter;
    INT Enabled;
} D3DKMT_SETSTABLEPOWERSTATE;

/* Why user mode gives a device up */
typedef enum D3DKMT_DEVICE_ERROR_REASON {
    D3DKMT_DEVICE_ERROR_REASON_GENERIC = -2147483648,
    D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR = -2147483642,
} D3DKMT_DEVICE_ERROR_REASON;

typedef struct D3DKMT_MARKDEVICEASERROR {
    D3DKMT_HANDLE hDevice;
    D3DKMT_DEVICE_ERROR_REASON Reason;
} D3DKMT_MARKDEVICEASERROR;

/* Whether a limit of queued presents is set or asked for */
typedef enum D3DKMT_QUEUEDLIMIT_TYPE {
    D3DKMT_SET_QUEUEDLIMIT_PRESENT = 1,
    D3DKMT_GET_QUEUEDLIMIT_PRESENT = 2,
} D3DKMT_QUEUEDLIMIT_TYPE;

typedef struct D3DKMT_SETQUEUEDLIMIT {
    D3DKMT_HANDLE hDevice;
    D3DKMT_QUEUEDLIMIT_TYPE Type;
    __extension__ union {
        UINT QueuedPresentLimit;
        D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    };
    UINT QueuedPendingFlipLimit;
} D3DKMT_SETQUEUEDLIMIT;

typedef struct D3DKMT_WAITFORIDLE {
    D3DKMT_HANDLE hDevice;
} D3DKMT_WAITFORIDLE;

/* Kind of a context */
typedef struct D3DDDI_CREATECONTEXTFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT NullRendering : 1;
            UINT InitialData : 1;
            UINT DisableGpuTimeout : 1;
            UINT SynchronizationOnly : 1;
            UINT HwQueueSupported : 1;
            UINT NoKmdAccess : 1;
            UINT TestContext : 1;
            UINT Reserved : 25;
        };
        UINT Value;
    };
} D3DDDI_CREATECONTEXTFLAGS;

/* Which programming interface a context is for */
typedef enum D3DKMT_CLIENTHINT {
    D3DKMT_CLIENTHINT_UNKNOWN = 0,
    D3DKMT_CLIENTHINT_OPENGL = 1,
    D3DKMT_CLIENTHINT_CDD = 2,
    D3DKMT_CLIENTHINT_OPENCL = 3,
    D3DKMT_CLIENTHINT_VULKAN = 4,
    D3DKMT_CLIENTHINT_CUDA = 5,
    D3DKMT_CLIENTHINT_RESERVED = 6,
    D3DKMT_CLIENTHINT_DX7 = 7,
    D3DKMT_CLIENTHINT_DX8 = 8,
    D3DKMT_CLIENTHINT_DX9 = 9,
    D3DKMT_CLIENTHINT_DX10 = 10,
    D3DKMT_CLIENTHINT_DX11 = 11,
    D3DKMT_CLIENTHINT_DX12 = 12,
    D3DKMT_CLIENTHINT_9ON12 = 13,
    D3DKMT_CLIENTHINT_11ON12 = 14,
    D3DKMT_CLIENTHINT_MFT_ENCODE = 15,
    D3DKMT_CLIENTHINT_GLON12 = 16,
    D3DKMT_CLIENTHINT_CLON12 = 17,
    D3DKMT_CLIENTHINT_DML_TENSORFLOW = 18,
    D3DKMT_CLIENTHINT_ONEAPI_LEVEL0 = 19,
    D3DKMT_CLIENTHINT_DML_PYTORCH = 20,
    D3DKMT_CLIENTHINT_VKON12 = 21,
    D3DKMT_CLIENTHINT_FASTRPC = 22,
    D3DKMT_CLIENTHINT_SNPE = 23,
    D3DKMT_CLIENTHINT_QNN = 24,
    D3DKMT_CLIENTHINT_VITIS = 25,
    D3DKMT_CLIENTHINT_FFMPEG = 26,
    D3DKMT_CLIENTHINT_OPEN_VINO = 27,
    D3DKMT_CLIENTHINT_MAX = 28,
} D3DKMT_CLIENTHINT;

/* An allocation that a command buffer of WDDM 1 refers to */
typedef struct D3DDDI_ALLOCATIONLIST {
    D3DKMT_HANDLE hAllocation;
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT WriteOperation : 1;
                UINT DoNotRetireInstance : 1;
                UINT OfferPriority : 3;
                UINT Reserved : 27;
            };
            UINT Value;
        };
    };
} D3DDDI_ALLOCATIONLIST;

/* A place in a buffer of WDDM 1 that needs an address */
typedef struct D3DDDI_PATCHLOCATIONLIST {
    UINT AllocationIndex;
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT SlotId : 24;
                UINT Reserved : 8;
            };
            UINT Value;
        };
    };
    UINT DriverId;
    UINT AllocationOffset;
    UINT PatchOffset;
    UINT SplitOffset;
} D3DDDI_PATCHLOCATIONLIST;

typedef struct D3DKMT_CREATECONTEXT {
    D3DKMT_HANDLE hDevice;
    UINT NodeOrdinal;
    UINT EngineAffinity;
    D3DDDI_CREATECONTEXTFLAGS Flags;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    D3DKMT_CLIENTHINT ClientHint;
    D3DKMT_HANDLE hContext;
    VOID *pCommandBuffer;
    UINT CommandBufferSize;
    D3DDDI_ALLOCATIONLIST *pAllocationList;
    UINT AllocationListSize;
    D3DDDI_PATCHLOCATIONLIST *pPatchLocationList;
    UINT PatchLocationListSize;
    D3DGPU_VIRTUAL_ADDRESS CommandBuffer;
} D3DKMT_CREATECONTEXT;

/* How a command buffer is submitted with a list of allocations */
typedef struct D3DKMT_RENDERFLAGS {
    UINT ResizeCommandBuffer : 1;
    UINT ResizeAllocationList : 1;
    UINT ResizePatchLocationList : 1;
    UINT NullRendering : 1;
    UINT PresentRedirected : 1;
    UINT RenderKm : 1;
    UINT RenderKmReadback : 1;
    UINT Reserved : 25;
} D3DKMT_RENDERFLAGS;

typedef struct D3DKMT_RENDER {
    __extension__ union {
        D3DKMT_HANDLE hDevice;
        D3DKMT_HANDLE hContext;
    };
    UINT CommandOffset;
    UINT CommandLength;
    UINT AllocationCount;
    UINT PatchLocationCount;
    VOID *pNewCommandBuffer;
    UINT NewCommandBufferSize;
    D3DDDI_ALLOCATIONLIST *pNewAllocationList;
    UINT NewAllocationListSize;
    D3DDDI_PATCHLOCATIONLIST *pNewPatchLocationList;
    UINT NewPatchLocationListSize;
    D3DKMT_RENDERFLAGS Flags;
    UINT64 PresentHistoryToken;
    UINT BroadcastContextCount;
    D3DKMT_HANDLE BroadcastContext[64];
    UINT QueuedBufferCount;
    D3DGPU_VIRTUAL_ADDRESS NewCommandBuffer;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
} D3DKMT_RENDER;

typedef struct D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT {
    HANDLE hProcess;
    LUID AdapterLuid;
    UCHAR Support;
} D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT;

typedef enum KMTUMDVERSION {
    KMTUMDVERSION_DX9 = 0,
    KMTUMDVERSION_DX10 = 1,
    KMTUMDVERSION_DX11 = 2,
    KMTUMDVERSION_DX12 = 3,
    KMTUMDVERSION_DX12_WSA32 = 4,
    KMTUMDVERSION_DX12_WSA64 = 5,
    NUM_KMTUMDVERSIONS = 6,
} KMTUMDVERSION;

typedef struct D3DKMT_UMDFILENAMEINFO {
    KMTUMDVERSION Version;
    USHORT UmdFileName[260];
} D3DKMT_UMDFILENAMEINFO;

typedef struct D3DKMT_SEGMENTSIZEINFO {
    UINT64 DedicatedVideoMemorySize;
    UINT64 DedicatedSystemMemorySize;
    UINT64 SharedSystemMemorySize;
} D3DKMT_SEGMENTSIZEINFO;

typedef struct D3DKMT_SEGMENTGROUPSIZEINFO {
    UINT PhysicalAdapterIndex;
    D3DKMT_SEGMENTSIZEINFO LegacyInfo;
    UINT64 LocalMemory;
    UINT64 NonLocalMemory;
    UINT64 NonBudgetMemory;
} D3DKMT_SEGMENTGROUPSIZEINFO;

typedef struct D3DKMT_ADAPTERADDRESS {
    UINT BusNumber;
    UINT DeviceNumber;
    UINT FunctionNumber;
} D3DKMT_ADAPTERADDRESS;

typedef struct D3DKMT_ADAPTERREGISTRYINFO {
    USHORT AdapterString[260];
    USHORT BiosString[260];
    USHORT DacType[260];
    USHORT ChipType[260];
} D3DKMT_ADAPTERREGISTRYINFO;

/* Whether the GPU has virtual addresses */
typedef struct D3DKMT_VIRTUALADDRESSFLAGS {
    UINT VirtualAddressSupported : 1;
    UINT Reserved : 31;
} D3DKMT_VIRTUALADDRESSFLAGS;

typedef struct D3DKMT_VIRTUALADDRESSINFO {
    D3DKMT_VIRTUALADDRESSFLAGS VirtualAddressFlags;
} D3DKMT_VIRTUALADDRESSINFO;

/* Where graphics work can be interrupted, from coarse to fine */
typedef enum D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY {
    D3DKMDT_GRAPHICS_PREEMPTION_NONE = 0,
    D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY = 100,
    D3DKMDT_GRAPHICS_PREEMPTION_PRIMITIVE_BOUNDARY = 200,
    D3DKMDT_GRAPHICS_PREEMPTION_TRIANGLE_BOUNDARY = 300,
    D3DKMDT_GRAPHICS_PREEMPTION_PIXEL_BOUNDARY = 400,
    D3DKMDT_GRAPHICS_PREEMPTION_SHADER_BOUNDARY = 500,
} D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY;

/* Where compute work can be interrupted, from coarse to fine; a compute-only adapter must not say none */
typedef enum D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY {
    D3DKMDT_COMPUTE_PREEMPTION_NONE = 0,
    D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY = 100,
    D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY = 200,
    D3DKMDT_COMPUTE_PREEMPTION_THREAD_GROUP_BOUNDARY = 300,
    D3DKMDT_COMPUTE_PREEMPTION_THREAD_BOUNDARY = 400,
    D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY = 500,
} D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY;

/* Where the adapter's work can be interrupted */
typedef struct D3DKMDT_PREEMPTION_CAPS {
    D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY GraphicsPreemptionGranularity;
    D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY ComputePreemptionGranularity;
} D3DKMDT_PREEMPTION_CAPS;

typedef struct D3DKMT_WDDM_1_2_CAPS {
    D3DKMDT_PREEMPTION_CAPS PreemptionCaps;
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT SupportNonVGA : 1;
                UINT SupportSmoothRotation : 1;
                UINT SupportPerEngineTDR : 1;
                UINT SupportKernelModeCommandBuffer : 1;
                UINT SupportCCD : 1;
                UINT SupportSoftwareDeviceBitmaps : 1;
                UINT SupportGammaRamp : 1;
                UINT SupportHWCursor : 1;
                UINT SupportHWVSync : 1;
                UINT SupportSurpriseRemovalInHibernation : 1;
                UINT Reserved : 22;
            };
            UINT Value;
        };
    };
} D3DKMT_WDDM_1_2_CAPS;

typedef struct D3DKMT_WDDM_1_3_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT SupportMiracast : 1;
            UINT IsHybridIntegratedGPU : 1;
            UINT IsHybridDiscreteGPU : 1;
            UINT SupportPowerManagementPStates : 1;
            UINT SupportVirtualModes : 1;
            UINT SupportCrossAdapterResource : 1;
            UINT Reserved : 26;
        };
        UINT Value;
    };
} D3DKMT_WDDM_1_3_CAPS;

typedef struct D3DKMT_WDDM_2_0_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT Support64BitAtomics : 1;
            UINT GpuMmuSupported : 1;
            UINT IoMmuSupported : 1;
            UINT FlipOverwriteSupported : 1;
            UINT SupportContextlessPresent : 1;
            UINT SupportSurpriseRemoval : 1;
            UINT Reserved : 26;
        };
        UINT Value;
    };
} D3DKMT_WDDM_2_0_CAPS;

typedef struct D3DKMT_WDDM_2_9_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT HwSchSupportState : 2;
            UINT HwSchEnabled : 1;
            UINT SelfRefreshMemorySupported : 1;
            UINT Reserved : 28;
        };
        UINT Value;
    };
} D3DKMT_WDDM_2_9_CAPS;

typedef struct D3DKMT_WDDM_3_0_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT HwFlipQueueSupportState : 2;
            UINT HwFlipQueueEnabled : 1;
            UINT DisplayableSupported : 1;
            UINT Reserved : 28;
        };
        UINT Value;
    };
} D3DKMT_WDDM_3_0_CAPS;

/* How a function names itself on its bus */
typedef struct D3DKMT_DEVICE_IDS {
    UINT VendorID;
    UINT DeviceID;
    UINT SubVendorID;
    UINT SubSystemID;
    UINT RevisionID;
    UINT BusType;
} D3DKMT_DEVICE_IDS;

typedef struct D3DKMT_QUERY_DEVICE_IDS {
    UINT PhysicalAdapterIndex;
    D3DKMT_DEVICE_IDS DeviceIds;
} D3DKMT_QUERY_DEVICE_IDS;

/* What the GPU's page tables can do */
typedef struct D3DKMT_GPUMMU_CAPS {
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT ReadOnlyMemorySupported : 1;
                UINT NoExecuteMemorySupported : 1;
                UINT CacheCoherentMemorySupported : 1;
                UINT Reserved : 29;
            };
            UINT Value;
        };
    } Flags;
    UINT VirtualAddressBitCount;
} D3DKMT_GPUMMU_CAPS;

typedef struct D3DKMT_QUERY_GPUMMU_CAPS {
    UINT PhysicalAdapterIndex;
    D3DKMT_GPUMMU_CAPS Caps;
} D3DKMT_QUERY_GPUMMU_CAPS;

typedef struct D3DKMT_KMD_DRIVER_VERSION {
    LARGE_INTEGER DriverVersion;
} D3DKMT_KMD_DRIVER_VERSION;

typedef struct D3DKMT_QUERY_ADAPTER_UNIQUE_GUID {
    USHORT AdapterUniqueGUID[40];
} D3DKMT_QUERY_ADAPTER_UNIQUE_GUID;

typedef struct D3DKMT_GPUVERSION {
    UINT PhysicalAdapterIndex;
    USHORT BiosVersion[32];
    USHORT GpuArchitecture[32];
} D3DKMT_GPUVERSION;

typedef struct D3DKMT_DRIVER_DESCRIPTION {
    USHORT DriverDescription[4096];
} D3DKMT_DRIVER_DESCRIPTION;

typedef enum D3DDDI_QUERYREGISTRY_TYPE {
    D3DDDI_QUERYREGISTRY_SERVICEKEY = 0,
    D3DDDI_QUERYREGISTRY_ADAPTERKEY = 1,
    D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH = 2,
    D3DDDI_QUERYREGISTRY_DRIVERIMAGEPATH = 3,
    D3DDDI_QUERYREGISTRY_MAX = 4,
} D3DDDI_QUERYREGISTRY_TYPE;

/* How a question to the registry ended */
typedef enum D3DDDI_QUERYREGISTRY_STATUS {
    D3DDDI_QUERYREGISTRY_STATUS_SUCCESS = 0,
    D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW = 1,
    D3DDDI_QUERYREGISTRY_STATUS_FAIL = 2,
    D3DDDI_QUERYREGISTRY_STATUS_MAX = 3,
} D3DDDI_QUERYREGISTRY_STATUS;

typedef struct D3DDDI_QUERYREGISTRY_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT TranslatePath : 1;
            UINT MutableValue : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} D3DDDI_QUERYREGISTRY_FLAGS;

typedef struct D3DDDI_QUERYREGISTRY_INFO {
    D3DDDI_QUERYREGISTRY_TYPE QueryType;
    D3DDDI_QUERYREGISTRY_FLAGS QueryFlags;
    USHORT ValueName[260];
    UINT ValueType;
    UINT PhysicalAdapterIndex;
    UINT OutputValueSize;
    D3DDDI_QUERYREGISTRY_STATUS Status;
    __extension__ union {
        UINT OutputDword;
        UINT64 OutputQword;
        USHORT OutputString[1];
        UCHAR OutputBinary[1];
    };
} D3DDDI_QUERYREGISTRY_INFO;

/* How much two adapters can share */
typedef enum D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER {
    D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_NONE = 0,
    D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_COPY = 1,
    D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_TEXTURE = 2,
    D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_SCANOUT = 3,
} D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER;

typedef struct D3DKMT_CROSSADAPTERRESOURCE_SUPPORT {
    D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER SupportTier;
} D3DKMT_CROSSADAPTERRESOURCE_SUPPORT;

/* Kind of a device */
typedef struct D3DKMT_CREATEDEVICEFLAGS {
    UINT LegacyMode : 1;
    UINT RequestVSync : 1;
    UINT DisableGpuTimeout : 1;
    UINT TestDevice : 1;
    UINT Reserved : 28;
} D3DKMT_CREATEDEVICEFLAGS;

typedef struct D3DKMT_CREATEDEVICE {
    __extension__ union {
        D3DKMT_HANDLE hAdapter;
        VOID *pAdapter;
    };
    D3DKMT_CREATEDEVICEFLAGS Flags;
    D3DKMT_HANDLE hDevice;
    VOID *pCommandBuffer;
    UINT CommandBufferSize;
    D3DDDI_ALLOCATIONLIST *pAllocationList;
    UINT AllocationListSize;
    D3DDDI_PATCHLOCATIONLIST *pPatchLocationList;
    UINT PatchLocationListSize;
} D3DKMT_CREATEDEVICE;

typedef struct D3DKMT_DESTROYDEVICE {
    D3DKMT_HANDLE hDevice;
} D3DKMT_DESTROYDEVICE;

typedef enum D3DKMT_DEVICESTATE_TYPE {
    D3DKMT_DEVICESTATE_EXECUTION = 1,
    D3DKMT_DEVICESTATE_PRESENT = 2,
    D3DKMT_DEVICESTATE_RESET = 3,
    D3DKMT_DEVICESTATE_PRESENT_DWM = 4,
    D3DKMT_DEVICESTATE_PAGE_FAULT = 5,
    D3DKMT_DEVICESTATE_PRESENT_QUEUE = 6,
} D3DKMT_DEVICESTATE_TYPE;

/* Whether a device still works; everything but active is final */
typedef enum D3DKMT_DEVICEEXECUTION_STATE {
    D3DKMT_DEVICEEXECUTION_ACTIVE = 1,
    D3DKMT_DEVICEEXECUTION_RESET = 2,
    D3DKMT_DEVICEEXECUTION_HUNG = 3,
    D3DKMT_DEVICEEXECUTION_STOPPED = 4,
    D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY = 5,
    D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT = 6,
    D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT = 7,
} D3DKMT_DEVICEEXECUTION_STATE;

/* Whether the desktop was switched */
typedef struct D3DKMT_DEVICERESET_STATE {
    __extension__ union {
        __extension__ struct {
            UINT DesktopSwitched : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} D3DKMT_DEVICERESET_STATE;

/* Graphics stage in which a page fault happened; unknown for compute */
typedef enum DXGK_RENDER_PIPELINE_STAGE {
    DXGK_RENDER_PIPELINE_STAGE_UNKNOWN = 0,
    DXGK_RENDER_PIPELINE_STAGE_INPUT_ASSEMBLER = 1,
    DXGK_RENDER_PIPELINE_STAGE_VERTEX_SHADER = 2,
    DXGK_RENDER_PIPELINE_STAGE_GEOMETRY_SHADER = 3,
    DXGK_RENDER_PIPELINE_STAGE_STREAM_OUTPUT = 4,
    DXGK_RENDER_PIPELINE_STAGE_RASTERIZER = 5,
    DXGK_RENDER_PIPELINE_STAGE_PIXEL_SHADER = 6,
    DXGK_RENDER_PIPELINE_STAGE_OUTPUT_MERGER = 7,
} DXGK_RENDER_PIPELINE_STAGE;

/* What is known about a page fault, as bits that may be combined */
typedef enum DXGK_PAGE_FAULT_FLAGS {
    DXGK_PAGE_FAULT_WRITE = 1,
    DXGK_PAGE_FAULT_FENCE_INVALID = 2,
    DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED = 4,
    DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED = 8,
    DXGK_PAGE_FAULT_FATAL_HARDWARE_ERROR = 16,
    DXGK_PAGE_FAULT_IOMMU = 32,
    DXGK_PAGE_FAULT_HW_CONTEXT_VALID = 64,
    DXGK_PAGE_FAULT_PROCESS_HANDLE_VALID = 128,
} DXGK_PAGE_FAULT_FLAGS;

/* Reason of a fault: a general code, or one of the device when the first bit is set */
typedef struct DXGK_FAULT_ERROR_CODE {
    UINT IsDeviceSpecificCode : 1;
    UINT GeneralErrorCode : 31;
} DXGK_FAULT_ERROR_CODE;

/* The page fault that stopped a device */
typedef struct D3DKMT_DEVICEPAGEFAULT_STATE {
    UINT64 FaultedPrimitiveAPISequenceNumber;
    DXGK_RENDER_PIPELINE_STAGE FaultedPipelineStage;
    UINT FaultedBindTableEntry;
    DXGK_PAGE_FAULT_FLAGS PageFaultFlags;
    DXGK_FAULT_ERROR_CODE FaultErrorCode;
    D3DGPU_VIRTUAL_ADDRESS FaultedVirtualAddress;
} D3DKMT_DEVICEPAGEFAULT_STATE;

/* Counters of a display's presents */
typedef struct D3DKMT_PRESENT_STATS {
    UINT PresentCount;
    UINT PresentRefreshCount;
    UINT SyncRefreshCount;
    LARGE_INTEGER SyncQPCTime;
    LARGE_INTEGER SyncGPUTime;
} D3DKMT_PRESENT_STATS;

typedef struct D3DKMT_DEVICEPRESENT_STATE {
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    D3DKMT_PRESENT_STATS PresentStats;
} D3DKMT_DEVICEPRESENT_STATE;

/* Counters of a display's presents as the compositor sees them */
typedef struct D3DKMT_PRESENT_STATS_DWM {
    UINT PresentCount;
    UINT PresentRefreshCount;
    LARGE_INTEGER PresentQPCTime;
    UINT SyncRefreshCount;
    LARGE_INTEGER SyncQPCTime;
    UINT CustomPresentDuration;
} D3DKMT_PRESENT_STATS_DWM;

typedef struct D3DKMT_DEVICEPRESENT_STATE_DWM {
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    D3DKMT_PRESENT_STATS_DWM PresentStatsDWM;
} D3DKMT_DEVICEPRESENT_STATE_DWM;

typedef struct D3DKMT_DEVICEPRESENT_QUEUE_STATE {
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    BOOLEAN bQueuedPresentLimitReached;
} D3DKMT_DEVICEPRESENT_QUEUE_STATE;

typedef struct D3DKMT_GETDEVICESTATE {
    D3DKMT_HANDLE hDevice;
    D3DKMT_DEVICESTATE_TYPE StateType;
    __extension__ union {
        D3DKMT_DEVICEEXECUTION_STATE ExecutionState;
        D3DKMT_DEVICERESET_STATE ResetState;
        D3DKMT_DEVICEPAGEFAULT_STATE PageFaultState;
        D3DKMT_DEVICEPRESENT_STATE PresentState;
        D3DKMT_DEVICEPRESENT_STATE_DWM PresentStateDWM;
        D3DKMT_DEVICEPRESENT_QUEUE_STATE PresentQueueState;
    };
} D3DKMT_GETDEVICESTATE;

/* For whom an escape is; only the driver-private kind reaches the driver */
typedef enum D3DKMT_ESCAPETYPE {
    D3DKMT_ESCAPE_DRIVERPRIVATE = 0,
    D3DKMT_ESCAPE_VIDMM = 1,
    D3DKMT_ESCAPE_TDRDBGCTRL = 2,
    D3DKMT_ESCAPE_VIDSCH = 3,
    D3DKMT_ESCAPE_DEVICE = 4,
    D3DKMT_ESCAPE_DMM = 5,
    D3DKMT_ESCAPE_DEBUG_SNAPSHOT = 6,
    D3DKMT_ESCAPE_DRT_TEST = 8,
    D3DKMT_ESCAPE_DIAGNOSTICS = 9,
    D3DKMT_ESCAPE_OUTPUTDUPL_SNAPSHOT = 10,
    D3DKMT_ESCAPE_OUTPUTDUPL_DIAGNOSTICS = 11,
    D3DKMT_ESCAPE_BDD_PNP = 12,
    D3DKMT_ESCAPE_BDD_FALLBACK = 13,
    D3DKMT_ESCAPE_ACTIVATE_SPECIFIC_DIAG = 14,
    D3DKMT_ESCAPE_MODES_PRUNED_OUT = 15,
    D3DKMT_ESCAPE_WHQL_INFO = 16,
    D3DKMT_ESCAPE_BRIGHTNESS = 17,
    D3DKMT_ESCAPE_EDID_CACHE = 18,
    D3DKMT_ESCAPE_MIRACAST_DISPLAY_REQUEST = 20,
    D3DKMT_ESCAPE_HISTORY_BUFFER_STATUS = 21,
    D3DKMT_ESCAPE_MIRACAST_ADAPTER_DIAG_INFO = 23,
    D3DKMT_ESCAPE_FORCE_BDDFALLBACK_HEADLESS = 24,
    D3DKMT_ESCAPE_REQUEST_MACHINE_CRASH = 25,
    D3DKMT_ESCAPE_SOFTGPU_ENABLE_DISABLE_HMD = 27,
    D3DKMT_ESCAPE_PROCESS_VERIFIER_OPTION = 28,
    D3DKMT_ESCAPE_ADAPTER_VERIFIER_OPTION = 29,
    D3DKMT_ESCAPE_IDD_REQUEST = 30,
    D3DKMT_ESCAPE_DOD_SET_DIRTYRECT_MODE = 31,
    D3DKMT_ESCAPE_LOG_CODEPOINT_PACKET = 32,
    D3DKMT_ESCAPE_LOG_USERMODE_DAIG_PACKET = 33,
    D3DKMT_ESCAPE_GET_EXTERNAL_DIAGNOSTICS = 34,
    D3DKMT_ESCAPE_GET_DISPLAY_CONFIGURATIONS = 36,
    D3DKMT_ESCAPE_QUERY_IOMMU_STATUS = 37,
    D3DKMT_ESCAPE_CCD_DATABASE = 38,
    D3DKMT_ESCAPE_QUERY_DMA_REMAPPING_STATUS = 39,
    D3DKMT_ESCAPE_WIN32K_HIP_DEVICE_INFO = 1024,
    D3DKMT_ESCAPE_WIN32K_START = 1024,
    D3DKMT_ESCAPE_WIN32K_QUERY_CD_ROTATION_BLOCK = 1025,
    D3DKMT_ESCAPE_WIN32K_DPI_INFO = 1026,
    D3DKMT_ESCAPE_WIN32K_PRESENTER_VIEW_INFO = 1027,
    D3DKMT_ESCAPE_WIN32K_SYSTEM_DPI = 1028,
    D3DKMT_ESCAPE_WIN32K_BDD_FALLBACK = 1029,
    D3DKMT_ESCAPE_WIN32K_DDA_TEST_CTL = 1030,
    D3DKMT_ESCAPE_WIN32K_USER_DETECTED_BLACK_SCREEN = 1031,
    D3DKMT_ESCAPE_WIN32K_DISPBROKER_TEST = 1035,
    D3DKMT_ESCAPE_WIN32K_COLOR_PROFILE_INFO = 1036,
    D3DKMT_ESCAPE_WIN32K_SET_DIMMED_STATE = 1037,
    D3DKMT_ESCAPE_WIN32K_SPECIALIZED_DISPLAY_TEST = 1038,
} D3DKMT_ESCAPETYPE;

/* What an escape asks of timeout detection and recovery, for tests */
typedef enum D3DKMT_TDRDBGCTRLTYPE {
    D3DKMT_TDRDBGCTRLTYPE_FORCETDR = 0,
    D3DKMT_TDRDBGCTRLTYPE_DISABLEBREAK = 1,
    D3DKMT_TDRDBGCTRLTYPE_ENABLEBREAK = 2,
    D3DKMT_TDRDBGCTRLTYPE_UNCONDITIONAL = 3,
    D3DKMT_TDRDBGCTRLTYPE_VSYNCTDR = 4,
    D3DKMT_TDRDBGCTRLTYPE_GPUTDR = 5,
    D3DKMT_TDRDBGCTRLTYPE_FORCEDODTDR = 6,
    D3DKMT_TDRDBGCTRLTYPE_FORCEDODVSYNCTDR = 7,
    D3DKMT_TDRDBGCTRLTYPE_ENGINETDR = 8,
} D3DKMT_TDRDBGCTRLTYPE;

typedef struct D3DKMT_TDRDBGCTRL_ESCAPE {
    D3DKMT_TDRDBGCTRLTYPE TdrControl;
    UINT NodeOrdinal;
} D3DKMT_TDRDBGCTRL_ESCAPE;

/* Kind of an escape */
typedef struct D3DDDI_ESCAPEFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT HardwareAccess : 1;
            UINT DeviceStatusQuery : 1;
            UINT ChangeFrameLatency : 1;
            UINT NoAdapterSynchronization : 1;
            UINT Reserved : 1;
            UINT VirtualMachineData : 1;
            UINT DriverKnownEscape : 1;
            UINT DriverCommonEscape : 1;
            UINT Reserved2 : 24;
        };
        UINT Value;
    };
} D3DDDI_ESCAPEFLAGS;

typedef struct D3DKMT_ESCAPE {
    D3DKMT_HANDLE hAdapter;
    D3DKMT_HANDLE hDevice;
    D3DKMT_ESCAPETYPE Type;
    D3DDDI_ESCAPEFLAGS Flags;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    D3DKMT_HANDLE hContext;
} D3DKMT_ESCAPE;

/* Priority among paging queues */
typedef enum D3DDDI_PAGINGQUEUE_PRIORITY {
    D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL = -1,
    D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL = 0,
    D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL = 1,
} D3DDDI_PAGINGQUEUE_PRIORITY;

typedef struct D3DKMT_CREATEPAGINGQUEUE {
    D3DKMT_HANDLE hDevice;
    D3DDDI_PAGINGQUEUE_PRIORITY Priority;
    D3DKMT_HANDLE hPagingQueue;
    D3DKMT_HANDLE hSyncObject;
    VOID *FenceValueCPUVirtualAddress;
    UINT PhysicalAdapterIndex;
} D3DKMT_CREATEPAGINGQUEUE;

typedef struct D3DDDI_DESTROYPAGINGQUEUE {
    D3DKMT_HANDLE hPagingQueue;
} D3DDDI_DESTROYPAGINGQUEUE;

/* Allocation that is made without the driver's own data */
typedef enum D3DKMT_STANDARDALLOCATIONTYPE {
    D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP = 1,
    D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE = 2,
    D3DKMT_STANDARDALLOCATIONTYPE_MAX = 3,
} D3DKMT_STANDARDALLOCATIONTYPE;

/* Size of memory that exists already */
typedef struct D3DKMT_STANDARDALLOCATION_EXISTINGHEAP {
    D3DKMT_SIZE_T Size;
} D3DKMT_STANDARDALLOCATION_EXISTINGHEAP;

/* No flags are defined: reserved, zero */
typedef struct D3DKMT_CREATESTANDARDALLOCATIONFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DKMT_CREATESTANDARDALLOCATIONFLAGS;

/* Description of an allocation without the driver's own data */
typedef struct D3DKMT_CREATESTANDARDALLOCATION {
    D3DKMT_STANDARDALLOCATIONTYPE Type;
    D3DKMT_STANDARDALLOCATION_EXISTINGHEAP ExistingHeapData;
    D3DKMT_CREATESTANDARDALLOCATIONFLAGS Flags;
} D3DKMT_CREATESTANDARDALLOCATION;

/* One allocation, in the older form */
typedef struct D3DDDI_ALLOCATIONINFO {
    D3DKMT_HANDLE hAllocation;
    VOID *pSystemMem;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT Primary : 1;
                UINT Stereo : 1;
                UINT Reserved : 30;
            };
            UINT Value;
        };
    } Flags;
} D3DDDI_ALLOCATIONINFO;

typedef struct D3DDDI_ALLOCATIONINFO2 {
    D3DKMT_HANDLE hAllocation;
    __extension__ union {
        HANDLE hSection;
        VOID *pSystemMem;
    };
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT Primary : 1;
                UINT Stereo : 1;
                UINT OverridePriority : 1;
                UINT Reserved : 29;
            };
            UINT Value;
        };
    } Flags;
    D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddress;
    __extension__ union {
        UINT Priority;
        SIZE_T Unused;
    };
    SIZE_T Reserved[5];
} D3DDDI_ALLOCATIONINFO2;

/* Kind of allocations to be made */
typedef struct D3DKMT_CREATEALLOCATIONFLAGS {
    UINT CreateResource : 1;
    UINT CreateShared : 1;
    UINT NonSecure : 1;
    UINT CreateProtected : 1;
    UINT RestrictSharedAccess : 1;
    UINT ExistingSysMem : 1;
    UINT NtSecuritySharing : 1;
    UINT ReadOnly : 1;
    UINT CreateWriteCombined : 1;
    UINT CreateCached : 1;
    UINT SwapChainBackBuffer : 1;
    UINT CrossAdapter : 1;
    UINT OpenCrossAdapter : 1;
    UINT PartialSharedCreation : 1;
    UINT Zeroed : 1;
    UINT WriteWatch : 1;
    UINT StandardAllocation : 1;
    UINT ExistingSection : 1;
    UINT AllowNotZeroed : 1;
    UINT PhysicallyContiguous : 1;
    UINT NoKmdAccess : 1;
    UINT SharedDisplayable : 1;
    UINT NoImplicitSynchronization : 1;
    UINT Reserved : 9;
} D3DKMT_CREATEALLOCATIONFLAGS;

typedef struct D3DKMT_CREATEALLOCATION {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hResource;
    D3DKMT_HANDLE hGlobalShare;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
    __extension__ union {
        D3DKMT_CREATESTANDARDALLOCATION *pStandardAllocation;
        VOID *pPrivateDriverData;
    };
    UINT PrivateDriverDataSize;
    UINT NumAllocations;
    __extension__ union {
        D3DDDI_ALLOCATIONINFO *pAllocationInfo;
        D3DDDI_ALLOCATIONINFO2 *pAllocationInfo2;
    };
    D3DKMT_CREATEALLOCATIONFLAGS Flags;
    HANDLE hPrivateRuntimeResourceHandle;
} D3DKMT_CREATEALLOCATION;

/* How far the caller vouches that the GPU is done */
typedef struct D3DDDICB_DESTROYALLOCATION2FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT AssumeNotInUse : 1;
            UINT SynchronousDestroy : 1;
            UINT Reserved : 29;
            UINT SystemUseOnly : 1;
        };
        UINT Value;
    };
} D3DDDICB_DESTROYALLOCATION2FLAGS;

typedef struct D3DKMT_DESTROYALLOCATION2 {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hResource;
    D3DKMT_HANDLE *phAllocationList;
    UINT AllocationCount;
    D3DDDICB_DESTROYALLOCATION2FLAGS Flags;
} D3DKMT_DESTROYALLOCATION2;

/* What to do when memory is short */
typedef struct D3DDDI_MAKERESIDENT_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT CantTrimFurther : 1;
            UINT MustSucceed : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} D3DDDI_MAKERESIDENT_FLAGS;

typedef struct D3DDDI_MAKERESIDENT {
    D3DKMT_HANDLE hPagingQueue;
    UINT NumAllocations;
    D3DKMT_HANDLE *AllocationList;
    UINT *PriorityList;
    D3DDDI_MAKERESIDENT_FLAGS Flags;
    UINT64 PagingFenceValue;
    UINT64 NumBytesToTrim;
} D3DDDI_MAKERESIDENT;

/* How seriously an eviction is meant */
typedef struct D3DDDI_EVICT_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT EvictOnlyIfNecessary : 1;
            UINT NotWrittenTo : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} D3DDDI_EVICT_FLAGS;

typedef struct D3DKMT_EVICT {
    D3DKMT_HANDLE hDevice;
    UINT NumAllocations;
    D3DKMT_HANDLE *AllocationList;
    D3DDDI_EVICT_FLAGS Flags;
    UINT64 NumBytesToTrim;
} D3DKMT_EVICT;

/* How soon offered memory is taken, lowest first */
typedef enum D3DKMT_OFFER_PRIORITY {
    D3DKMT_OFFER_PRIORITY_LOW = 1,
    D3DKMT_OFFER_PRIORITY_NORMAL = 2,
    D3DKMT_OFFER_PRIORITY_HIGH = 3,
    D3DKMT_OFFER_PRIORITY_AUTO = 4,
} D3DKMT_OFFER_PRIORITY;

/* How memory is offered */
typedef struct D3DKMT_OFFER_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT OfferImmediately : 1;
            UINT AllowDecommit : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} D3DKMT_OFFER_FLAGS;

typedef struct D3DKMT_OFFERALLOCATIONS {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE *pResources;
    D3DKMT_HANDLE *HandleList;
    UINT NumAllocations;
    D3DKMT_OFFER_PRIORITY Priority;
    D3DKMT_OFFER_FLAGS Flags;
} D3DKMT_OFFERALLOCATIONS;

/* What has become of offered memory */
typedef enum D3DDDI_RECLAIM_RESULT {
    D3DDDI_RECLAIM_RESULT_OK = 0,
    D3DDDI_RECLAIM_RESULT_DISCARDED = 1,
    D3DDDI_RECLAIM_RESULT_NOT_COMMITTED = 2,
} D3DDDI_RECLAIM_RESULT;

typedef struct D3DKMT_RECLAIMALLOCATIONS2 {
    D3DKMT_HANDLE hPagingQueue;
    UINT NumAllocations;
    D3DKMT_HANDLE *pResources;
    D3DKMT_HANDLE *HandleList;
    __extension__ union {
        INT *pDiscarded;
        D3DDDI_RECLAIM_RESULT *pResults;
    };
    UINT64 PagingFenceValue;
} D3DKMT_RECLAIMALLOCATIONS2;

/* What the GPU may do with a mapping; reading is always allowed */
typedef struct D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE {
    __extension__ union {
        __extension__ struct {
            UINT64 Write : 1;
            UINT64 Execute : 1;
            UINT64 Zero : 1;
            UINT64 NoAccess : 1;
            UINT64 SystemUseOnly : 1;
            UINT64 Reserved : 59;
        };
        UINT64 Value;
    };
} D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE;

typedef struct D3DDDI_MAPGPUVIRTUALADDRESS {
    D3DKMT_HANDLE hPagingQueue;
    D3DGPU_VIRTUAL_ADDRESS BaseAddress;
    D3DGPU_VIRTUAL_ADDRESS MinimumAddress;
    D3DGPU_VIRTUAL_ADDRESS MaximumAddress;
    D3DKMT_HANDLE hAllocation;
    D3DGPU_SIZE_T OffsetInPages;
    D3DGPU_SIZE_T SizeInPages;
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE Protection;
    UINT64 DriverProtection;
    UINT Reserved0;
    UINT64 Reserved1;
    D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    UINT64 PagingFenceValue;
} D3DDDI_MAPGPUVIRTUALADDRESS;

/* How a reserved range behaves */
typedef enum D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE {
    D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS = 0,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO = 1,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT = 2,
} D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE;

typedef struct D3DDDI_RESERVEGPUVIRTUALADDRESS {
    __extension__ union {
        D3DKMT_HANDLE hPagingQueue;
        D3DKMT_HANDLE hAdapter;
    };
    D3DGPU_VIRTUAL_ADDRESS BaseAddress;
    D3DGPU_VIRTUAL_ADDRESS MinimumAddress;
    D3DGPU_VIRTUAL_ADDRESS MaximumAddress;
    D3DGPU_SIZE_T Size;
    __extension__ union {
        D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE ReservationType;
        UINT Reserved0;
    };
    __extension__ union {
        UINT64 DriverProtection;
        UINT64 Reserved1;
    };
    D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    __extension__ union {
        UINT64 PagingFenceValue;
        UINT64 Reserved2;
    };
} D3DDDI_RESERVEGPUVIRTUALADDRESS;

typedef struct D3DKMT_FREEGPUVIRTUALADDRESS {
    D3DKMT_HANDLE hAdapter;
    D3DGPU_VIRTUAL_ADDRESS BaseAddress;
    D3DGPU_SIZE_T Size;
} D3DKMT_FREEGPUVIRTUALADDRESS;

/* No flags are defined: reserved, zero */
typedef struct D3DDDICB_LOCK2FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DDDICB_LOCK2FLAGS;

typedef struct D3DKMT_LOCK2 {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hAllocation;
    D3DDDICB_LOCK2FLAGS Flags;
    VOID *pData;
} D3DKMT_LOCK2;

typedef struct D3DKMT_UNLOCK2 {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hAllocation;
} D3DKMT_UNLOCK2;

typedef struct D3DKMT_INVALIDATECACHE {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hAllocation;
    D3DKMT_SIZE_T Offset;
    D3DKMT_SIZE_T Length;
} D3DKMT_INVALIDATECACHE;

/* Dedicated or shared memory */
typedef enum D3DKMT_MEMORY_SEGMENT_GROUP {
    D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL = 0,
    D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL = 1,
} D3DKMT_MEMORY_SEGMENT_GROUP;

typedef struct D3DKMT_QUERYVIDEOMEMORYINFO {
    HANDLE hProcess;
    D3DKMT_HANDLE hAdapter;
    D3DKMT_MEMORY_SEGMENT_GROUP MemorySegmentGroup;
    UINT64 Budget;
    UINT64 CurrentUsage;
    UINT64 CurrentReservation;
    UINT64 AvailableForReservation;
    UINT PhysicalAdapterIndex;
} D3DKMT_QUERYVIDEOMEMORYINFO;

typedef struct D3DKMT_CHANGEVIDEOMEMORYRESERVATION {
    HANDLE hProcess;
    D3DKMT_HANDLE hAdapter;
    D3DKMT_MEMORY_SEGMENT_GROUP MemorySegmentGroup;
    UINT64 Reservation;
    UINT PhysicalAdapterIndex;
} D3DKMT_CHANGEVIDEOMEMORYRESERVATION;

/* Why memory should be given back */
typedef struct D3DDDI_TRIMRESIDENCYSET_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT PeriodicTrim : 1;
            UINT RestartPeriodicTrim : 1;
            UINT TrimToBudget : 1;
            UINT Reserved : 29;
        };
        UINT Value;
    };
} D3DDDI_TRIMRESIDENCYSET_FLAGS;

/* Argument of a trim notification */
typedef struct D3DKMT_TRIMNOTIFICATION {
    VOID *Context;
    D3DDDI_TRIMRESIDENCYSET_FLAGS Flags;
    UINT64 NumBytesToTrim;
} D3DKMT_TRIMNOTIFICATION;

typedef VOID (CALLBACK *PFND3DKMT_TRIMNOTIFICATIONCALLBACK)(D3DKMT_TRIMNOTIFICATION *);

typedef struct D3DKMT_REGISTERTRIMNOTIFICATION {
    LUID AdapterLuid;
    D3DKMT_HANDLE hDevice;
    PFND3DKMT_TRIMNOTIFICATIONCALLBACK Callback;
    VOID *Context;
    VOID *Handle;
} D3DKMT_REGISTERTRIMNOTIFICATION;

typedef struct D3DKMT_UNREGISTERTRIMNOTIFICATION {
    VOID *Handle;
    PFND3DKMT_TRIMNOTIFICATIONCALLBACK Callback;
} D3DKMT_UNREGISTERTRIMNOTIFICATION;

/* Argument of a notification that a budget has changed */
typedef struct D3DKMT_BUDGETCHANGENOTIFICATION {
    VOID *Context;
    UINT64 Budget;
} D3DKMT_BUDGETCHANGENOTIFICATION;

typedef VOID (CALLBACK *PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK)(D3DKMT_BUDGETCHANGENOTIFICATION *);

typedef struct D3DKMT_REGISTERBUDGETCHANGENOTIFICATION {
    D3DKMT_HANDLE hDevice;
    PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK Callback;
    VOID *Context;
    VOID *Handle;
} D3DKMT_REGISTERBUDGETCHANGENOTIFICATION;

typedef struct D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION {
    VOID *Handle;
} D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION;

/* Kinds of synchronization objects */
typedef enum D3DDDI_SYNCHRONIZATIONOBJECT_TYPE {
    D3DDDI_SYNCHRONIZATION_MUTEX = 1,
    D3DDDI_SEMAPHORE = 2,
    D3DDDI_FENCE = 3,
    D3DDDI_CPU_NOTIFICATION = 4,
    D3DDDI_MONITORED_FENCE = 5,
    D3DDDI_PERIODIC_MONITORED_FENCE = 6,
    D3DDDI_NATIVE_FENCE = 7,
    D3DDDI_SYNCHRONIZATION_TYPE_LIMIT = 8,
} D3DDDI_SYNCHRONIZATIONOBJECT_TYPE;

/* What a new mutex or semaphore is like */
typedef struct D3DDDI_SYNCHRONIZATIONOBJECTINFO {
    D3DDDI_SYNCHRONIZATIONOBJECT_TYPE Type;
    __extension__ union {
        __extension__ struct {
            INT InitialState;
        } SynchronizationMutex;
        __extension__ struct {
            UINT MaxCount;
            UINT InitialCount;
        } Semaphore;
        __extension__ struct {
            UINT Reserved[16];
        } Reserved;
    };
} D3DDDI_SYNCHRONIZATIONOBJECTINFO;

typedef struct D3DKMT_CREATESYNCHRONIZATIONOBJECT {
    D3DKMT_HANDLE hDevice;
    D3DDDI_SYNCHRONIZATIONOBJECTINFO Info;
    D3DKMT_HANDLE hSyncObject;
} D3DKMT_CREATESYNCHRONIZATIONOBJECT;

typedef struct D3DKMT_OPENSYNCHRONIZATIONOBJECT {
    D3DKMT_HANDLE hSharedHandle;
    D3DKMT_HANDLE hSyncObject;
    UINT64 Reserved[8];
} D3DKMT_OPENSYNCHRONIZATIONOBJECT;

typedef struct D3DKMT_OPENSYNCOBJECTFROMNTHANDLE {
    HANDLE hNtHandle;
    D3DKMT_HANDLE hSyncObject;
} D3DKMT_OPENSYNCOBJECTFROMNTHANDLE;

/* Variants of a signal */
typedef struct D3DDDICB_SIGNALFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT SignalAtSubmission : 1;
            UINT EnqueueCpuEvent : 1;
            UINT AllowFenceRewind : 1;
            UINT Reserved : 28;
            UINT DXGK_SIGNAL_FLAG_INTERNAL0 : 1;
        };
        UINT Value;
    };
} D3DDDICB_SIGNALFLAGS;

typedef struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECT {
    D3DKMT_HANDLE hContext;
    UINT ObjectCount;
    D3DKMT_HANDLE ObjectHandleArray[32];
    D3DDDICB_SIGNALFLAGS Flags;
} D3DKMT_SIGNALSYNCHRONIZATIONOBJECT;

typedef struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 {
    D3DKMT_HANDLE hContext;
    UINT ObjectCount;
    D3DKMT_HANDLE ObjectHandleArray[32];
    D3DDDICB_SIGNALFLAGS Flags;
    UINT BroadcastContextCount;
    D3DKMT_HANDLE BroadcastContext[64];
    __extension__ union {
        __extension__ struct {
            UINT64 FenceValue;
        } Fence;
        HANDLE CpuEventHandle;
        UINT64 Reserved[8];
    };
} D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2;

typedef struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECT {
    D3DKMT_HANDLE hContext;
    UINT ObjectCount;
    D3DKMT_HANDLE ObjectHandleArray[32];
} D3DKMT_WAITFORSYNCHRONIZATIONOBJECT;

typedef struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 {
    D3DKMT_HANDLE hContext;
    UINT ObjectCount;
    D3DKMT_HANDLE ObjectHandleArray[32];
    __extension__ union {
        __extension__ struct {
            UINT64 FenceValue;
        } Fence;
        UINT64 Reserved[8];
    };
} D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2;

typedef struct D3DKMT_CREATEKEYEDMUTEX {
    UINT64 InitialValue;
    D3DKMT_HANDLE hSharedHandle;
    D3DKMT_HANDLE hKeyedMutex;
} D3DKMT_CREATEKEYEDMUTEX;

/* How a keyed mutex is shared */
typedef struct D3DKMT_CREATEKEYEDMUTEX2_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT NtSecuritySharing : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} D3DKMT_CREATEKEYEDMUTEX2_FLAGS;

typedef struct D3DKMT_CREATEKEYEDMUTEX2 {
    UINT64 InitialValue;
    D3DKMT_HANDLE hSharedHandle;
    D3DKMT_HANDLE hKeyedMutex;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
    D3DKMT_CREATEKEYEDMUTEX2_FLAGS Flags;
} D3DKMT_CREATEKEYEDMUTEX2;

typedef struct D3DKMT_OPENKEYEDMUTEX {
    D3DKMT_HANDLE hSharedHandle;
    D3DKMT_HANDLE hKeyedMutex;
} D3DKMT_OPENKEYEDMUTEX;

typedef struct D3DKMT_OPENKEYEDMUTEX2 {
    D3DKMT_HANDLE hSharedHandle;
    D3DKMT_HANDLE hKeyedMutex;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
} D3DKMT_OPENKEYEDMUTEX2;

typedef struct D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE {
    HANDLE hNtHandle;
    D3DKMT_HANDLE hKeyedMutex;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
} D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE;

typedef struct D3DKMT_ACQUIREKEYEDMUTEX {
    D3DKMT_HANDLE hKeyedMutex;
    UINT64 Key;
    LARGE_INTEGER *pTimeout;
    UINT64 FenceValue;
} D3DKMT_ACQUIREKEYEDMUTEX;

typedef struct D3DKMT_ACQUIREKEYEDMUTEX2 {
    D3DKMT_HANDLE hKeyedMutex;
    UINT64 Key;
    LARGE_INTEGER *pTimeout;
    UINT64 FenceValue;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
} D3DKMT_ACQUIREKEYEDMUTEX2;

typedef struct D3DKMT_RELEASEKEYEDMUTEX {
    D3DKMT_HANDLE hKeyedMutex;
    UINT64 Key;
    UINT64 FenceValue;
} D3DKMT_RELEASEKEYEDMUTEX;

typedef struct D3DKMT_RELEASEKEYEDMUTEX2 {
    D3DKMT_HANDLE hKeyedMutex;
    UINT64 Key;
    UINT64 FenceValue;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
} D3DKMT_RELEASEKEYEDMUTEX2;

typedef struct D3DKMT_DESTROYKEYEDMUTEX {
    D3DKMT_HANDLE hKeyedMutex;
} D3DKMT_DESTROYKEYEDMUTEX;

typedef struct D3DKMT_CREATESYNCFILE {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hMonitoredFence;
    UINT64 FenceValue;
    UINT64 hSyncFile;
} D3DKMT_CREATESYNCFILE;

typedef struct D3DKMT_WAITSYNCFILE {
    UINT64 hSyncFile;
    D3DKMT_HANDLE hContext;
    UINT Reserved;
} D3DKMT_WAITSYNCFILE;

typedef struct D3DKMT_OPENSYNCOBJECTFROMSYNCFILE {
    UINT64 hSyncFile;
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hSyncObject;
    UINT64 FenceValue;
    VOID *FenceValueCPUVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS FenceValueGPUVirtualAddress;
} D3DKMT_OPENSYNCOBJECTFROMSYNCFILE;

/* Question and answer about clock and voltage of a node */
typedef struct D3DKMT_NODE_PERFDATA {
    UINT NodeOrdinal;
    UINT PhysicalAdapterIndex;
    UINT64 Frequency;
    UINT64 MaxFrequency;
    UINT64 MaxFrequencyOC;
    UINT Voltage;
    UINT VoltageMax;
    UINT VoltageMaxOC;
    UINT64 MaxTransitionLatency;
} D3DKMT_NODE_PERFDATA;

/* Question and answer about memory clock, fan, power and temperature of a physical adapter */
typedef struct D3DKMT_ADAPTER_PERFDATA {
    UINT PhysicalAdapterIndex;
    UINT64 MemoryFrequency;
    UINT64 MaxMemoryFrequency;
    UINT64 MaxMemoryFrequencyOC;
    UINT64 MemoryBandwidth;
    UINT64 PCIEBandwidth;
    UINT FanRPM;
    UINT Power;
    UINT Temperature;
    UCHAR PowerStateOverride;
} D3DKMT_ADAPTER_PERFDATA;

/* Question and answer about the limits of these figures */
typedef struct D3DKMT_ADAPTER_PERFDATACAPS {
    UINT PhysicalAdapterIndex;
    UINT64 MaxMemoryBandwidth;
    UINT64 MaxPCIEBandwidth;
    UINT MaxFanRPM;
    UINT TemperatureMax;
    UINT TemperatureWarning;
} D3DKMT_ADAPTER_PERFDATACAPS;

/* Which registry key of a device */
typedef enum D3DKMT_PNP_KEY_TYPE {
    D3DKMT_PNP_KEY_HARDWARE = 1,
    D3DKMT_PNP_KEY_SOFTWARE = 2,
} D3DKMT_PNP_KEY_TYPE;

/* Question for the registry key of a physical adapter, and where its name goes */
typedef struct D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY {
    UINT PhysicalAdapterIndex;
    D3DKMT_PNP_KEY_TYPE PnPKeyType;
    USHORT *pDest;
    UINT *pCchDest;
} D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY;

/* Question and answer whether the driver tracks workloads of a kind of engine */
#pragma pack(push, 1)
typedef struct D3DKMT_TRACKEDWORKLOAD_SUPPORT {
    UINT PhysicalAdapterIndex;
    DXGK_ENGINE_TYPE EngineType;
    INT Support;
} D3DKMT_TRACKEDWORKLOAD_SUPPORT;
#pragma pack(pop)

typedef struct D3DKMT_CREATECONTEXTVIRTUAL {
    D3DKMT_HANDLE hDevice;
    UINT NodeOrdinal;
    UINT EngineAffinity;
    D3DDDI_CREATECONTEXTFLAGS Flags;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    D3DKMT_CLIENTHINT ClientHint;
    D3DKMT_HANDLE hContext;
} D3DKMT_CREATECONTEXTVIRTUAL;

typedef struct D3DKMT_DESTROYCONTEXT {
    D3DKMT_HANDLE hContext;
} D3DKMT_DESTROYCONTEXT;

/* No flags are defined: reserved, zero */
typedef struct D3DDDI_CREATEHWCONTEXTFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DDDI_CREATEHWCONTEXTFLAGS;

typedef struct D3DKMT_CREATEHWCONTEXT {
    D3DKMT_HANDLE hDevice;
    UINT NodeOrdinal;
    UINT EngineAffinity;
    D3DDDI_CREATEHWCONTEXTFLAGS Flags;
    UINT PrivateDriverDataSize;
    VOID *pPrivateDriverData;
    D3DKMT_HANDLE hHwContext;
} D3DKMT_CREATEHWCONTEXT;

typedef struct D3DKMT_SETCONTEXTSCHEDULINGPRIORITY {
    D3DKMT_HANDLE hContext;
    INT Priority;
} D3DKMT_SETCONTEXTSCHEDULINGPRIORITY;

typedef struct D3DKMT_GETCONTEXTSCHEDULINGPRIORITY {
    D3DKMT_HANDLE hContext;
    INT Priority;
} D3DKMT_GETCONTEXTSCHEDULINGPRIORITY;

typedef struct D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY {
    D3DKMT_HANDLE hContext;
    INT Priority;
} D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY;

typedef struct D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY {
    D3DKMT_HANDLE hContext;
    INT Priority;
} D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY;

typedef enum D3DKMT_SCHEDULINGPRIORITYCLASS {
    D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE = 0,
    D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL = 1,
    D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL = 2,
    D3DKMT_SCHEDULINGPRIORITYCLASS_ABOVE_NORMAL = 3,
    D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH = 4,
    D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME = 5,
} D3DKMT_SCHEDULINGPRIORITYCLASS;

typedef struct D3DKMT_DESTROYHWCONTEXT {
    D3DKMT_HANDLE hHwContext;
} D3DKMT_DESTROYHWCONTEXT;

/* Kind of a hardware queue */
typedef struct D3DDDI_CREATEHWQUEUEFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT DisableGpuTimeout : 1;
            UINT NoBroadcastSignal : 1;
            UINT NoBroadcastWait : 1;
            UINT NoKmdAccess : 1;
            UINT UserModeSubmission : 1;
            UINT NativeProgressFence : 1;
            UINT TestQueue : 1;
            UINT Reserved : 25;
        };
        UINT Value;
    };
} D3DDDI_CREATEHWQUEUEFLAGS;

typedef struct D3DKMT_CREATEHWQUEUE {
    D3DKMT_HANDLE hHwContext;
    D3DDDI_CREATEHWQUEUEFLAGS Flags;
    UINT PrivateDriverDataSize;
    VOID *pPrivateDriverData;
    D3DKMT_HANDLE hHwQueue;
    D3DKMT_HANDLE hHwQueueProgressFence;
    VOID *HwQueueProgressFenceCPUVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS HwQueueProgressFenceGPUVirtualAddress;
} D3DKMT_CREATEHWQUEUE;

typedef struct D3DKMT_DESTROYHWQUEUE {
    D3DKMT_HANDLE hHwQueue;
} D3DKMT_DESTROYHWQUEUE;

/* What a buffer is */
typedef struct D3DKMT_SUBMITCOMMANDFLAGS {
    UINT NullRendering : 1;
    UINT PresentRedirected : 1;
    UINT NoKmdAccess : 1;
    UINT Reserved : 29;
} D3DKMT_SUBMITCOMMANDFLAGS;

typedef struct D3DKMT_SUBMITCOMMAND {
    D3DGPU_VIRTUAL_ADDRESS Commands;
    UINT CommandLength;
    D3DKMT_SUBMITCOMMANDFLAGS Flags;
    UINT64 PresentHistoryToken;
    UINT BroadcastContextCount;
    D3DKMT_HANDLE BroadcastContext[64];
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    UINT NumPrimaries;
    D3DKMT_HANDLE WrittenPrimaries[16];
    UINT NumHistoryBuffers;
    D3DKMT_HANDLE *HistoryBufferArray;
} D3DKMT_SUBMITCOMMAND;

typedef struct D3DKMT_SUBMITCOMMANDTOHWQUEUE {
    D3DKMT_HANDLE hHwQueue;
    UINT64 HwQueueProgressFenceId;
    D3DGPU_VIRTUAL_ADDRESS CommandBuffer;
    UINT CommandLength;
    UINT PrivateDriverDataSize;
    VOID *pPrivateDriverData;
    UINT NumPrimaries;
    D3DKMT_HANDLE *WrittenPrimaries;
} D3DKMT_SUBMITCOMMANDTOHWQUEUE;

/* Kind of a doorbell */
typedef struct D3DKMT_CREATE_DOORBELL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT RequireSecondaryCpuVA : 1;
            UINT ResizeRingBufferOperation : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} D3DKMT_CREATE_DOORBELL_FLAGS;

typedef struct D3DKMT_CREATE_DOORBELL {
    D3DKMT_HANDLE hHwQueue;
    D3DKMT_HANDLE hRingBuffer;
    D3DKMT_HANDLE hRingBufferControl;
    D3DKMT_CREATE_DOORBELL_FLAGS Flags;
    UINT PrivateDriverDataSize;
    VOID *PrivateDriverData;
    VOID *DoorbellCPUVirtualAddress;
    VOID *DoorbellSecondaryCPUVirtualAddress;
    VOID *DoorbellStatusCPUVirtualAddress;
    VOID *HwQueueProgressFenceLastQueuedValueCPUVirtualAddress;
    D3DKMT_HANDLE hDoorbell;
} D3DKMT_CREATE_DOORBELL;

/* No flags are defined: reserved, zero */
typedef struct D3DKMT_CONNECT_DOORBELL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DKMT_CONNECT_DOORBELL_FLAGS;

typedef struct D3DKMT_CONNECT_DOORBELL {
    D3DKMT_HANDLE hDoorbell;
    D3DKMT_CONNECT_DOORBELL_FLAGS Flags;
} D3DKMT_CONNECT_DOORBELL;

typedef struct D3DKMT_DESTROY_DOORBELL {
    D3DKMT_HANDLE hDoorbell;
} D3DKMT_DESTROY_DOORBELL;

/* No flags are defined: reserved, zero */
typedef struct D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS;

typedef struct D3DKMT_NOTIFY_WORK_SUBMISSION {
    D3DKMT_HANDLE hDoorbell;
    D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS Flags;
} D3DKMT_NOTIFY_WORK_SUBMISSION;

/* No flags are defined: reserved, zero */
typedef struct D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS;

typedef struct D3DKMT_GETNATIVEFENCELOGDETAIL {
    D3DKMT_HANDLE hHwQueue;
    D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS Flags;
    UINT WaitLogNumberOfEntries;
    UINT SignalLogNumberOfEntries;
    D3DGPU_VIRTUAL_ADDRESS WaitLogGpuBaseAddress;
    D3DGPU_VIRTUAL_ADDRESS SignalLogGpuBaseAddress;
    UCHAR Reserved[64];
} D3DKMT_GETNATIVEFENCELOGDETAIL;

typedef struct D3DKMT_DESTROYALLOCATION {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hResource;
    D3DKMT_HANDLE *phAllocationList;
    UINT AllocationCount;
} D3DKMT_DESTROYALLOCATION;

/* Where an allocation is */
typedef enum D3DKMT_ALLOCATIONRESIDENCYSTATUS {
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY = 1,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY = 2,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT = 3,
} D3DKMT_ALLOCATIONRESIDENCYSTATUS;

typedef struct D3DKMT_QUERYALLOCATIONRESIDENCY {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hResource;
    D3DKMT_HANDLE *phAllocationList;
    UINT AllocationCount;
    D3DKMT_ALLOCATIONRESIDENCYSTATUS *pResidencyStatus;
} D3DKMT_QUERYALLOCATIONRESIDENCY;

typedef struct D3DKMT_SETALLOCATIONPRIORITY {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hResource;
    D3DKMT_HANDLE *phAllocationList;
    UINT AllocationCount;
    UINT *pPriorities;
} D3DKMT_SETALLOCATIONPRIORITY;

typedef struct D3DKMT_GETALLOCATIONPRIORITY {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hResource;
    D3DKMT_HANDLE *phAllocationList;
    UINT AllocationCount;
    UINT *pPriorities;
} D3DKMT_GETALLOCATIONPRIORITY;

typedef struct D3DKMT_RECLAIMALLOCATIONS {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE *pResources;
    D3DKMT_HANDLE *HandleList;
    INT *pDiscarded;
    UINT NumAllocations;
} D3DKMT_RECLAIMALLOCATIONS;

/* How memory that a process offers is given back */
typedef struct D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Lazy : 1;
            UINT OnlyRepurposed : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS;

typedef struct D3DKMT_TRIMPROCESSCOMMITMENT {
    UINT cbSize;
    HANDLE hProcess;
    D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS Flags;
    UINT64 DecommitRequested;
    UINT64 NumBytesDecommitted;
} D3DKMT_TRIMPROCESSCOMMITMENT;

typedef struct D3DKMT_QUERYPROCESSOFFERINFO {
    UINT cbSize;
    HANDLE hProcess;
    UINT64 DecommitUniqueness;
    UINT64 DecommittableBytes;
} D3DKMT_QUERYPROCESSOFFERINFO;

/* New properties of an allocation */
typedef struct D3DDDI_UPDATEALLOCPROPERTY_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT AccessedPhysically : 1;
            UINT Unmoveable : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} D3DDDI_UPDATEALLOCPROPERTY_FLAGS;

/* Segments in which an allocation should lie, best first; 0 ends the list */
typedef struct D3DDDI_SEGMENTPREFERENCE {
    __extension__ union {
        __extension__ struct {
            UINT SegmentId0 : 5;
            UINT Direction0 : 1;
            UINT SegmentId1 : 5;
            UINT Direction1 : 1;
            UINT SegmentId2 : 5;
            UINT Direction2 : 1;
            UINT SegmentId3 : 5;
            UINT Direction3 : 1;
            UINT SegmentId4 : 5;
            UINT Direction4 : 1;
            UINT Reserved : 2;
        };
        UINT Value;
    };
} D3DDDI_SEGMENTPREFERENCE;

typedef struct D3DDDI_UPDATEALLOCPROPERTY {
    D3DKMT_HANDLE hPagingQueue;
    D3DKMT_HANDLE hAllocation;
    UINT SupportedSegmentSet;
    D3DDDI_SEGMENTPREFERENCE PreferredSegment;
    D3DDDI_UPDATEALLOCPROPERTY_FLAGS Flags;
    UINT64 PagingFenceValue;
    __extension__ struct {
        UINT SetAccessedPhysically : 1;
        UINT SetSupportedSegmentSet : 1;
        UINT SetPreferredSegment : 1;
        UINT SetUnmoveable : 1;
        UINT Reserved : 28;
    };
} D3DDDI_UPDATEALLOCPROPERTY;

/* How an allocation is locked */
typedef struct D3DDDICB_LOCKFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT ReadOnly : 1;
            UINT WriteOnly : 1;
            UINT DonotWait : 1;
            UINT IgnoreSync : 1;
            UINT LockEntire : 1;
            UINT DonotEvict : 1;
            UINT AcquireAperture : 1;
            UINT Discard : 1;
            UINT NoExistingReference : 1;
            UINT UseAlternateVA : 1;
            UINT IgnoreReadSync : 1;
            UINT Reserved : 21;
        };
        UINT Value;
    };
} D3DDDICB_LOCKFLAGS;

typedef struct D3DKMT_LOCK {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hAllocation;
    UINT PrivateDriverData;
    UINT NumPages;
    UINT *pPages;
    VOID *pData;
    D3DDDICB_LOCKFLAGS Flags;
    D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddress;
} D3DKMT_LOCK;

typedef struct D3DKMT_UNLOCK {
    D3DKMT_HANDLE hDevice;
    UINT NumAllocations;
    D3DKMT_HANDLE *phAllocations;
} D3DKMT_UNLOCK;

typedef struct D3DKMT_FLUSHHEAPTRANSITIONS {
    D3DKMT_HANDLE hAdapter;
} D3DKMT_FLUSHHEAPTRANSITIONS;

/* An allocation of a resource that is opened, in the older form */
typedef struct D3DDDI_OPENALLOCATIONINFO {
    D3DKMT_HANDLE hAllocation;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
} D3DDDI_OPENALLOCATIONINFO;

/* An allocation of a resource that is opened */
typedef struct D3DDDI_OPENALLOCATIONINFO2 {
    D3DKMT_HANDLE hAllocation;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddress;
    SIZE_T Reserved[6];
} D3DDDI_OPENALLOCATIONINFO2;

typedef struct D3DKMT_QUERYRESOURCEINFO {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hGlobalShare;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
    UINT TotalPrivateDriverDataSize;
    UINT ResourcePrivateDriverDataSize;
    UINT NumAllocations;
} D3DKMT_QUERYRESOURCEINFO;

typedef struct D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE {
    D3DKMT_HANDLE hDevice;
    HANDLE hNtHandle;
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
    UINT TotalPrivateDriverDataSize;
    UINT ResourcePrivateDriverDataSize;
    UINT NumAllocations;
} D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE;

typedef struct D3DKMT_OPENRESOURCE {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hGlobalShare;
    UINT NumAllocations;
    __extension__ union {
        D3DDDI_OPENALLOCATIONINFO *pOpenAllocationInfo;
        D3DDDI_OPENALLOCATIONINFO2 *pOpenAllocationInfo2;
    };
    VOID *pPrivateRuntimeData;
    UINT PrivateRuntimeDataSize;
    VOID *pResourcePrivateDriverData;
    UINT ResourcePrivateDriverDataSize;
    VOID *pTotalPrivateDriverDataBuffer;
    UINT TotalPrivateDriverDataBufferSize;
    D3DKMT_HANDLE hResource;
} D3DKMT_OPENRESOURCE;

typedef struct D3DKMT_OPENRESOURCEFROMNTHANDLE {
    D3DKMT_HANDLE hDevice;
    HANDLE hNtHandle;
    UINT NumAllocations;
    D3DDDI_OPENALLOCATIONINFO2 *pOpenAllocationInfo2;
    UINT PrivateRuntimeDataSize;
    VOID *pPrivateRuntimeData;
    UINT ResourcePrivateDriverDataSize;
    VOID *pResourcePrivateDriverData;
    UINT TotalPrivateDriverDataBufferSize;
    VOID *pTotalPrivateDriverDataBuffer;
    D3DKMT_HANDLE hResource;
    D3DKMT_HANDLE hKeyedMutex;
    VOID *pKeyedMutexPrivateRuntimeData;
    UINT KeyedMutexPrivateRuntimeDataSize;
    D3DKMT_HANDLE hSyncObject;
} D3DKMT_OPENRESOURCEFROMNTHANDLE;

typedef struct D3DKMT_OPENNTHANDLEFROMNAME {
    UINT dwDesiredAccess;
    VOID *pObjAttrib;
    HANDLE hNtHandle;
} D3DKMT_OPENNTHANDLEFROMNAME;

typedef struct D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME {
    UINT dwDesiredAccess;
    VOID *pObjAttrib;
    HANDLE hNtHandle;
} D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME;

typedef struct D3DKMT_GETSHAREDRESOURCEADAPTERLUID {
    D3DKMT_HANDLE hGlobalShare;
    HANDLE hNtHandle;
    LUID AdapterLuid;
} D3DKMT_GETSHAREDRESOURCEADAPTERLUID;

typedef struct D3DKMT_CHECKSHAREDRESOURCEACCESS {
    D3DKMT_HANDLE hResource;
    UINT ClientPid;
} D3DKMT_CHECKSHAREDRESOURCEACCESS;

typedef struct D3DKMT_CONFIGURESHAREDRESOURCE {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hResource;
    UCHAR IsDwm;
    HANDLE hProcess;
    UCHAR AllowAccess;
} D3DKMT_CONFIGURESHAREDRESOURCE;

typedef struct D3DKMT_GETRUNTIMEDATA {
    D3DKMT_HANDLE hAdapter;
    D3DKMT_HANDLE hGlobalShare;
    VOID *pRuntimeData;
    UINT RuntimeDataSize;
} D3DKMT_GETRUNTIMEDATA;

typedef struct D3DKMT_SHAREOBJECTWITHHOST {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hObject;
    UINT64 Reserved;
    UINT64 hVailProcessNtHandle;
} D3DKMT_SHAREOBJECTWITHHOST;

/* What statistics are about */
typedef enum D3DKMT_QUERYSTATISTICS_TYPE {
    D3DKMT_QUERYSTATISTICS_ADAPTER = 0,
    D3DKMT_QUERYSTATISTICS_PROCESS = 1,
    D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER = 2,
    D3DKMT_QUERYSTATISTICS_SEGMENT = 3,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT = 4,
    D3DKMT_QUERYSTATISTICS_NODE = 5,
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE = 6,
    D3DKMT_QUERYSTATISTICS_VIDPNSOURCE = 7,
    D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE = 8,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP = 9,
    D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER = 10,
    D3DKMT_QUERYSTATISTICS_ADAPTER2 = 11,
    D3DKMT_QUERYSTATISTICS_SEGMENT2 = 12,
    D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2 = 13,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2 = 14,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2 = 15,
    D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE = 16,
    D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE = 17,
    D3DKMT_QUERYSTATISTICS_NODE2 = 18,
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE2 = 19,
} D3DKMT_QUERYSTATISTICS_TYPE;

/* Statistics: reference dma buffer */
typedef struct D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER {
    UINT NbCall;
    UINT NbAllocationsReferenced;
    UINT MaxNbAllocationsReferenced;
    UINT NbNULLReference;
    UINT NbWriteReference;
    UINT NbRenamedAllocationsReferenced;
    UINT NbIterationSearchingRenamedAllocation;
    UINT NbLockedAllocationReferenced;
    UINT NbAllocationWithValidPrepatchingInfoReferenced;
    UINT NbAllocationWithInvalidPrepatchingInfoReferenced;
    UINT NbDMABufferSuccessfullyPrePatched;
    UINT NbPrimariesReferencesOverflow;
    UINT NbAllocationWithNonPreferredResources;
    UINT NbAllocationInsertedInMigrationTable;
} D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER;

/* Statistics: renaming */
typedef struct D3DKMT_QUERYSTATSTICS_RENAMING {
    UINT NbAllocationsRenamed;
    UINT NbAllocationsShrinked;
    UINT NbRenamedBuffer;
    UINT MaxRenamingListLength;
    UINT NbFailuresDueToRenamingLimit;
    UINT NbFailuresDueToCreateAllocation;
    UINT NbFailuresDueToOpenAllocation;
    UINT NbFailuresDueToLowResource;
    UINT NbFailuresDueToNonRetiredLimit;
} D3DKMT_QUERYSTATSTICS_RENAMING;

/* Statistics: counter */
typedef struct D3DKMT_QUERYSTATISTICS_COUNTER {
    UINT Count;
    UINT64 Bytes;
} D3DKMT_QUERYSTATISTICS_COUNTER;

/* Statistics: prepration */
typedef struct D3DKMT_QUERYSTATSTICS_PREPRATION {
    UINT BroadcastStall;
    UINT NbDMAPrepared;
    UINT NbDMAPreparedLongPath;
    UINT ImmediateHighestPreparationPass;
    D3DKMT_QUERYSTATISTICS_COUNTER AllocationsTrimmed;
} D3DKMT_QUERYSTATSTICS_PREPRATION;

/* Statistics: paging fault */
typedef struct D3DKMT_QUERYSTATSTICS_PAGING_FAULT {
    D3DKMT_QUERYSTATISTICS_COUNTER Faults;
    D3DKMT_QUERYSTATISTICS_COUNTER FaultsFirstTimeAccess;
    D3DKMT_QUERYSTATISTICS_COUNTER FaultsReclaimed;
    D3DKMT_QUERYSTATISTICS_COUNTER FaultsMigration;
    D3DKMT_QUERYSTATISTICS_COUNTER FaultsIncorrectResource;
    D3DKMT_QUERYSTATISTICS_COUNTER FaultsLostContent;
    D3DKMT_QUERYSTATISTICS_COUNTER FaultsEvicted;
    D3DKMT_QUERYSTATISTICS_COUNTER AllocationsMEM_RESET;
    D3DKMT_QUERYSTATISTICS_COUNTER AllocationsUnresetSuccess;
    D3DKMT_QUERYSTATISTICS_COUNTER AllocationsUnresetFail;
    UINT AllocationsUnresetSuccessRead;
    UINT AllocationsUnresetFailRead;
    D3DKMT_QUERYSTATISTICS_COUNTER Evictions;
    D3DKMT_QUERYSTATISTICS_COUNTER EvictionsDueToPreparation;
    D3DKMT_QUERYSTATISTICS_COUNTER EvictionsDueToLock;
    D3DKMT_QUERYSTATISTICS_COUNTER EvictionsDueToClose;
    D3DKMT_QUERYSTATISTICS_COUNTER EvictionsDueToPurge;
    D3DKMT_QUERYSTATISTICS_COUNTER EvictionsDueToSuspendCPUAccess;
} D3DKMT_QUERYSTATSTICS_PAGING_FAULT;

/* Statistics: paging transfer */
typedef struct D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER {
    UINT64 BytesFilled;
    UINT64 BytesDiscarded;
    UINT64 BytesMappedIntoAperture;
    UINT64 BytesUnmappedFromAperture;
    UINT64 BytesTransferredFromMdlToMemory;
    UINT64 BytesTransferredFromMemoryToMdl;
    UINT64 BytesTransferredFromApertureToMemory;
    UINT64 BytesTransferredFromMemoryToAperture;
} D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER;

/* Statistics: swizzling range */
typedef struct D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE {
    UINT NbRangesAcquired;
    UINT NbRangesReleased;
} D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE;

/* Statistics: locks */
typedef struct D3DKMT_QUERYSTATSTICS_LOCKS {
    UINT NbLocks;
    UINT NbLocksWaitFlag;
    UINT NbLocksDiscardFlag;
    UINT NbLocksNoOverwrite;
    UINT NbLocksNoReadSync;
    UINT NbLocksLinearization;
    UINT NbComplexLocks;
} D3DKMT_QUERYSTATSTICS_LOCKS;

/* Statistics: allocations */
typedef struct D3DKMT_QUERYSTATSTICS_ALLOCATIONS {
    D3DKMT_QUERYSTATISTICS_COUNTER Created;
    D3DKMT_QUERYSTATISTICS_COUNTER Destroyed;
    D3DKMT_QUERYSTATISTICS_COUNTER Opened;
    D3DKMT_QUERYSTATISTICS_COUNTER Closed;
    D3DKMT_QUERYSTATISTICS_COUNTER MigratedSuccess;
    D3DKMT_QUERYSTATISTICS_COUNTER MigratedFail;
    D3DKMT_QUERYSTATISTICS_COUNTER MigratedAbandoned;
} D3DKMT_QUERYSTATSTICS_ALLOCATIONS;

/* Statistics: terminations */
typedef struct D3DKMT_QUERYSTATSTICS_TERMINATIONS {
    D3DKMT_QUERYSTATISTICS_COUNTER TerminatedShared;
    D3DKMT_QUERYSTATISTICS_COUNTER TerminatedNonShared;
    D3DKMT_QUERYSTATISTICS_COUNTER DestroyedShared;
    D3DKMT_QUERYSTATISTICS_COUNTER DestroyedNonShared;
} D3DKMT_QUERYSTATSTICS_TERMINATIONS;

/* Statistics: adapter information flags */
typedef struct D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT64 NumberOfMemoryGroups : 2;
            UINT64 SupportsDemotion : 1;
            UINT64 Reserved : 61;
        };
        UINT64 Value;
    };
} D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS;

/* Statistics: adapter information */
typedef struct D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
    UINT NbSegments;
    UINT NodeCount;
    UINT VidPnSourceCount;
    UINT VSyncEnabled;
    UINT TdrDetectedCount;
    INT64 ZeroLengthDmaBuffers;
    UINT64 RestartedPeriod;
    D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER ReferenceDmaBuffer;
    D3DKMT_QUERYSTATSTICS_RENAMING Renaming;
    D3DKMT_QUERYSTATSTICS_PREPRATION Preparation;
    D3DKMT_QUERYSTATSTICS_PAGING_FAULT PagingFault;
    D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER PagingTransfer;
    D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE SwizzlingRange;
    D3DKMT_QUERYSTATSTICS_LOCKS Locks;
    D3DKMT_QUERYSTATSTICS_ALLOCATIONS Allocations;
    D3DKMT_QUERYSTATSTICS_TERMINATIONS Terminations;
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS Flags;
    UINT64 Reserved[7];
} D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION;

/* Statistics: physical adapter information */
typedef struct D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION {
    D3DKMT_ADAPTER_PERFDATA AdapterPerfData;
    D3DKMT_ADAPTER_PERFDATACAPS AdapterPerfDataCaps;
    D3DKMT_GPUVERSION GpuVersion;
} D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION;

/* Statistics: memory */
typedef struct D3DKMT_QUERYSTATISTICS_MEMORY {
    UINT64 TotalBytesEvicted;
    UINT AllocsCommitted;
    UINT AllocsResident;
} D3DKMT_QUERYSTATISTICS_MEMORY;

/* Statistics: segment information */
typedef struct D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
    UINT64 CommitLimit;
    UINT64 BytesCommitted;
    UINT64 BytesResident;
    D3DKMT_QUERYSTATISTICS_MEMORY Memory;
    UINT Aperture;
    UINT64 TotalBytesEvictedByPriority[5];
    UINT64 SystemMemoryEndAddress;
    __extension__ struct {
        UINT64 PreservedDuringStandby : 1;
        UINT64 PreservedDuringHibernate : 1;
        UINT64 PartiallyPreservedDuringHibernate : 1;
        UINT64 Reserved : 61;
    } PowerFlags;
    __extension__ struct {
        UINT64 SystemMemory : 1;
        UINT64 PopulatedByReservedDDRByFirmware : 1;
        UINT64 SegmentType : 4;
        UINT64 SegmentGroup : 2;
        UINT64 FullyCPUVisible : 1;
        UINT64 Reserved : 55;
    } SegmentProperties;
    UINT64 Reserved[5];
} D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION;

/* Statistics: preemption information */
typedef struct D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION {
    UINT PreemptionCounter[16];
} D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION;

/* Statistics: queue packet type information */
typedef struct D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION {
    UINT PacketSubmited;
    UINT PacketCompleted;
} D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION;

/* Statistics: dma packet type information */
typedef struct D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION {
    UINT PacketSubmited;
    UINT PacketCompleted;
    UINT PacketPreempted;
    UINT PacketFaulted;
} D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION;

/* Statistics: packet information */
typedef struct D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION {
    D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION QueuePacket[8];
    D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION DmaPacket[4];
} D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION;

/* Statistics: process node information */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION {
    LARGE_INTEGER RunningTime;
    UINT ContextSwitch;
    D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION PreemptionStatistics;
    D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION PacketStatistics;
    UINT64 Reserved[8];
} D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION;

/* Statistics: node information */
typedef struct D3DKMT_QUERYSTATISTICS_NODE_INFORMATION {
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION GlobalInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION SystemInformation;
    D3DKMT_NODE_PERFDATA NodePerfData;
    UINT Reserved[3];
} D3DKMT_QUERYSTATISTICS_NODE_INFORMATION;

/* Statistics: process vidpnsource information */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION {
    UINT Frame;
    UINT CancelledFrame;
    UINT QueuedPresent;
    UINT Padding;
    UINT64 IsVSyncEnabled;
    UINT64 VSyncOnTotalTimeMs;
    UINT64 VSyncOffKeepPhaseTotalTimeMs;
    UINT64 VSyncOffNoPhaseTotalTimeMs;
    UINT64 Reserved[4];
} D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION;

/* Statistics: vidpnsource information */
typedef struct D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION {
    D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION GlobalInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION SystemInformation;
    UINT64 Reserved[8];
} D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION;

/* Statistics: system memory */
typedef struct D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY {
    UINT64 BytesAllocated;
    UINT64 BytesReserved;
    UINT SmallAllocationBlocks;
    UINT LargeAllocationBlocks;
    UINT64 WriteCombinedBytesAllocated;
    UINT64 WriteCombinedBytesReserved;
    UINT64 CachedBytesAllocated;
    UINT64 CachedBytesReserved;
    UINT64 SectionBytesAllocated;
    UINT64 SectionBytesReserved;
    UINT64 BytesZeroed;
} D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY;

/* Statistics: process information */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION {
    UINT NodeCount;
    UINT VidPnSourceCount;
    D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY SystemMemory;
    UINT64 Reserved[7];
} D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION;

/* Statistics: dma buffer */
typedef struct D3DKMT_QUERYSTATISTICS_DMA_BUFFER {
    D3DKMT_QUERYSTATISTICS_COUNTER Size;
    UINT AllocationListBytes;
    UINT PatchLocationListBytes;
} D3DKMT_QUERYSTATISTICS_DMA_BUFFER;

/* Statistics: commitment data */
typedef struct D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA {
    UINT64 TotalBytesEvictedFromProcess;
    UINT64 BytesBySegmentPreference[5];
} D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA;

/* Statistics: policy */
typedef struct D3DKMT_QUERYSTATISTICS_POLICY {
    UINT64 PreferApertureForRead[5];
    UINT64 PreferAperture[5];
    UINT64 MemResetOnPaging;
    UINT64 RemovePagesFromWorkingSetOnPaging;
    UINT64 MigrationEnabled;
} D3DKMT_QUERYSTATISTICS_POLICY;

/* Statistics: process interference counters */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS {
    UINT64 InterferenceCount[9];
} D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS;

/* Statistics: process adapter information */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION {
    UINT NbSegments;
    UINT NodeCount;
    UINT VidPnSourceCount;
    UINT VirtualMemoryUsage;
    D3DKMT_QUERYSTATISTICS_DMA_BUFFER DmaBuffer;
    D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA CommitmentData;
    D3DKMT_QUERYSTATISTICS_POLICY _Policy;
    D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS ProcessInterferenceCounters;
    D3DKMT_CLIENTHINT ClientHint;
} D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION;

/* Statistics: video memory */
typedef struct D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY {
    UINT AllocsCommitted;
    D3DKMT_QUERYSTATISTICS_COUNTER AllocsResidentInP[5];
    D3DKMT_QUERYSTATISTICS_COUNTER AllocsResidentInNonPreferred;
    UINT64 TotalBytesEvictedDueToPreparation;
} D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY;

/* Statistics: process segment policy */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY {
    UINT64 UseMRU;
} D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY;

/* Statistics: process segment information */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION {
    UINT64 BytesCommitted;
    UINT64 MaximumWorkingSet;
    UINT64 MinimumWorkingSet;
    UINT NbReferencedAllocationEvictedInPeriod;
    UINT Padding;
    D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY VideoMemory;
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY _Policy;
    UINT64 Reserved[8];
} D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION;

/* Statistics: process segment group information */
typedef struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION {
    UINT64 Budget;
    UINT64 Requested;
    UINT64 Usage;
    UINT64 Demoted[5];
} D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION;

/* Statistics: memory usage */
typedef struct D3DKMT_QUERYSTATISTICS_MEMORY_USAGE {
    UINT64 AllocatedBytes;
    UINT64 FreeBytes;
    UINT64 ZeroBytes;
    UINT64 ModifiedBytes;
    UINT64 StandbyBytes;
} D3DKMT_QUERYSTATISTICS_MEMORY_USAGE;

/* Statistics: result */
typedef union D3DKMT_QUERYSTATISTICS_RESULT {
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION AdapterInformation;
    D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION PhysAdapterInformation;
    D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION SegmentInformation;
    D3DKMT_QUERYSTATISTICS_NODE_INFORMATION NodeInformation;
    D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION VidPnSourceInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION ProcessInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION ProcessAdapterInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION ProcessSegmentInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION ProcessNodeInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION ProcessVidPnSourceInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION ProcessSegmentGroupInformation;
    D3DKMT_QUERYSTATISTICS_MEMORY_USAGE SegmentUsageInformation;
    D3DKMT_QUERYSTATISTICS_MEMORY_USAGE SegmentGroupUsageInformation;
} D3DKMT_QUERYSTATISTICS_RESULT;

/* Statistics: query segment */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT {
    UINT SegmentId;
} D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT;

/* Statistics: query node */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_NODE {
    UINT NodeId;
} D3DKMT_QUERYSTATISTICS_QUERY_NODE;

/* Statistics: query vidpnsource */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE {
    UINT VidPnSourceId;
} D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE;

/* Statistics: query physical adapter */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER {
    UINT PhysicalAdapterIndex;
} D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER;

/* Statistics: query adapter2 */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 {
    USHORT PhysicalAdapterIndex;
} D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2;

/* Statistics: query segment2 */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 {
    USHORT PhysicalAdapterIndex;
    USHORT SegmentId;
} D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2;

/* Statistics: query process segment group2 */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 {
    USHORT PhysicalAdapterIndex;
    USHORT SegmentGroup;
} D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2;

/* Statistics: query segment usage */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE {
    USHORT PhysicalAdapterIndex;
    USHORT SegmentId;
} D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE;

/* Statistics: query segment group usage */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE {
    USHORT PhysicalAdapterIndex;
    USHORT SegmentGroup;
} D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE;

/* Statistics: query node2 */
typedef struct D3DKMT_QUERYSTATISTICS_QUERY_NODE2 {
    USHORT PhysicalAdapterIndex;
    USHORT NodeOrdinal;
} D3DKMT_QUERYSTATISTICS_QUERY_NODE2;

typedef struct D3DKMT_QUERYSTATISTICS {
    D3DKMT_QUERYSTATISTICS_TYPE Type;
    LUID AdapterLuid;
    HANDLE hProcess;
    D3DKMT_QUERYSTATISTICS_RESULT QueryResult;
    __extension__ union {
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT QuerySegment;
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT QueryProcessSegment;
        D3DKMT_MEMORY_SEGMENT_GROUP QueryProcessSegmentGroup;
        D3DKMT_QUERYSTATISTICS_QUERY_NODE QueryNode;
        D3DKMT_QUERYSTATISTICS_QUERY_NODE QueryProcessNode;
        D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE QueryVidPnSource;
        D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE QueryProcessVidPnSource;
        D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER QueryPhysAdapter;
        D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 QueryAdapter2;
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 QuerySegment2;
        D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 QueryProcessAdapter2;
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 QueryProcessSegment2;
        D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 QueryProcessSegmentGroup2;
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE QuerySegmentUsage;
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE QuerySegmentGroupUsage;
        D3DKMT_QUERYSTATISTICS_QUERY_NODE2 QueryNode2;
        D3DKMT_QUERYSTATISTICS_QUERY_NODE2 QueryProcessNode2;
    };
} D3DKMT_QUERYSTATISTICS;

/* Statistics: allocation priority class */
typedef enum D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS {
    D3DKMT_AllocationPriorityClassMinimum = 0,
    D3DKMT_AllocationPriorityClassLow = 1,
    D3DKMT_AllocationPriorityClassNormal = 2,
    D3DKMT_AllocationPriorityClassHigh = 3,
    D3DKMT_AllocationPriorityClassMaximum = 4,
    D3DKMT_MaxAllocationPriorityClass = 5,
} D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS;

/* Statistics: dma packet type */
typedef enum D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE {
    D3DKMT_ClientRenderBuffer = 0,
    D3DKMT_ClientPagingBuffer = 1,
    D3DKMT_SystemPagingBuffer = 2,
    D3DKMT_SystemPreemptionBuffer = 3,
    D3DKMT_DmaPacketTypeMax = 4,
} D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE;

/* Statistics: queue packet type */
typedef enum D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE {
    D3DKMT_RenderCommandBuffer = 0,
    D3DKMT_DeferredCommandBuffer = 1,
    D3DKMT_SystemCommandBuffer = 2,
    D3DKMT_MmIoFlipCommandBuffer = 3,
    D3DKMT_WaitCommandBuffer = 4,
    D3DKMT_SignalCommandBuffer = 5,
    D3DKMT_DeviceCommandBuffer = 6,
    D3DKMT_SoftwareCommandBuffer = 7,
    D3DKMT_QueuePacketTypeMax = 8,
} D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE;

/* Statistics: segment type */
typedef enum D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE {
    D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_APERTURE = 0,
    D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_MEMORY = 1,
    D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_SYSMEM = 2,
} D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE;

/* Who may use a synchronization object, and how */
typedef struct D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Shared : 1;
            UINT NtSecuritySharing : 1;
            UINT CrossAdapter : 1;
            UINT TopOfPipeline : 1;
            UINT NoSignal : 1;
            UINT NoWait : 1;
            UINT NoSignalMaxValueOnTdr : 1;
            UINT NoGPUAccess : 1;
            UINT SignalByKmd : 1;
            UINT Unused : 1;
            UINT UnwaitCpuWaitersOnlyOnDestroy : 1;
            UINT Reserved : 20;
            UINT Reserved0 : 1;
        };
        UINT Value;
    };
} D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS;

/* Where a native fence's values lie in a process. Filled by the operating system */
typedef struct D3DDDI_NATIVEFENCEMAPPING {
    VOID *CurrentValueCpuVa;
    D3DGPU_VIRTUAL_ADDRESS CurrentValueGpuVa;
    D3DGPU_VIRTUAL_ADDRESS MonitoredValueGpuVa;
    UCHAR Reserved[32];
} D3DDDI_NATIVEFENCEMAPPING;

/* Kind of a native fence */
typedef enum D3DDDI_NATIVEFENCE_TYPE {
    D3DDDI_NATIVEFENCE_TYPE_DEFAULT = 0,
    D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU = 1,
} D3DDDI_NATIVEFENCE_TYPE;

/* What a new native fence is like */
typedef struct D3DDDI_NATIVEFENCEINFO {
    UINT64 InitialFenceValue;
    UINT EngineAffinity;
    D3DDDI_NATIVEFENCE_TYPE Type;
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS Flags;
    D3DDDI_NATIVEFENCEMAPPING NativeFenceMapping;
    UCHAR Reserved[28];
} D3DDDI_NATIVEFENCEINFO;

/* No flags are defined: reserved, zero */
typedef struct D3DKMT_CREATENATIVEFENCE_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DKMT_CREATENATIVEFENCE_FLAGS;

typedef struct D3DKMT_CREATENATIVEFENCE {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hSyncObject;
    UCHAR PrivateDriverData[64];
    D3DDDI_NATIVEFENCEINFO Info;
    D3DKMT_CREATENATIVEFENCE_FLAGS Flags;
    UCHAR Reserved[28];
} D3DKMT_CREATENATIVEFENCE;

typedef struct D3DKMT_OPENNATIVEFENCEFROMNTHANDLE {
    HANDLE hNtHandle;
    D3DKMT_HANDLE hDevice;
    UINT EngineAffinity;
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS Flags;
    D3DKMT_HANDLE hSyncObject;
    D3DDDI_NATIVEFENCEMAPPING NativeFenceMapping;
    UCHAR PrivateDriverData[64];
    UCHAR Reserved[32];
} D3DKMT_OPENNATIVEFENCEFROMNTHANDLE;

typedef struct D3DKMT_DESTROYSYNCHRONIZATIONOBJECT {
    D3DKMT_HANDLE hSyncObject;
} D3DKMT_DESTROYSYNCHRONIZATIONOBJECT;

/* Variants of a CPU wait */
typedef struct D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT WaitAny : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS;

typedef struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
    D3DKMT_HANDLE hDevice;
    UINT ObjectCount;
    D3DKMT_HANDLE *ObjectHandleArray;
    UINT64 *FenceValueArray;
    HANDLE hAsyncEvent;
    D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS Flags;
} D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU;

typedef struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
    D3DKMT_HANDLE hDevice;
    UINT ObjectCount;
    D3DKMT_HANDLE *ObjectHandleArray;
    UINT64 *FenceValueArray;
    D3DDDICB_SIGNALFLAGS Flags;
} D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU;

/* What a new synchronization object is like */
typedef struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
    D3DDDI_SYNCHRONIZATIONOBJECT_TYPE Type;
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS Flags;
    __extension__ union {
        __extension__ struct {
            INT InitialState;
        } SynchronizationMutex;
        __extension__ struct {
            UINT MaxCount;
            UINT InitialCount;
        } Semaphore;
        __extension__ struct {
            UINT64 FenceValue;
        } Fence;
        __extension__ struct {
            HANDLE Event;
        } CPUNotification;
        __extension__ struct {
            UINT64 InitialFenceValue;
            VOID *FenceValueCPUVirtualAddress;
            D3DGPU_VIRTUAL_ADDRESS FenceValueGPUVirtualAddress;
            UINT EngineAffinity;
            UINT Padding;
        } MonitoredFence;
        UINT64 Reserved[8];
    };
    D3DKMT_HANDLE SharedHandle;
} D3DDDI_SYNCHRONIZATIONOBJECTINFO2;

typedef struct D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
    D3DKMT_HANDLE hDevice;
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2 Info;
    D3DKMT_HANDLE hSyncObject;
} D3DKMT_CREATESYNCHRONIZATIONOBJECT2;

typedef struct D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
    HANDLE hNtHandle;
    D3DKMT_HANDLE hDevice;
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS Flags;
    D3DKMT_HANDLE hSyncObject;
    __extension__ union {
        __extension__ struct {
            VOID *FenceValueCPUVirtualAddress;
            D3DGPU_VIRTUAL_ADDRESS FenceValueGPUVirtualAddress;
            UINT EngineAffinity;
        } MonitoredFence;
        UINT64 Reserved[8];
    };
} D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2;

typedef struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
    D3DKMT_HANDLE hContext;
    UINT ObjectCount;
    D3DKMT_HANDLE *ObjectHandleArray;
    __extension__ union {
        UINT64 *MonitoredFenceValueArray;
        UINT64 FenceValue;
        UINT64 Reserved[8];
    };
} D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU;

typedef struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
    D3DKMT_HANDLE hContext;
    UINT ObjectCount;
    D3DKMT_HANDLE *ObjectHandleArray;
    __extension__ union {
        UINT64 *MonitoredFenceValueArray;
        UINT64 Reserved[8];
    };
} D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU;

typedef struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
    UINT ObjectCount;
    D3DKMT_HANDLE *ObjectHandleArray;
    D3DDDICB_SIGNALFLAGS Flags;
    UINT BroadcastContextCount;
    D3DKMT_HANDLE *BroadcastContextArray;
    __extension__ union {
        UINT64 FenceValue;
        HANDLE CpuEventHandle;
        UINT64 *MonitoredFenceValueArray;
        UINT64 Reserved[8];
    };
} D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2;

typedef struct D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE {
    D3DKMT_HANDLE hHwQueue;
    UINT ObjectCount;
    D3DKMT_HANDLE *ObjectHandleArray;
    UINT64 *FenceValueArray;
} D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE;

typedef struct D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE {
    D3DDDICB_SIGNALFLAGS Flags;
    UINT BroadcastHwQueueCount;
    D3DKMT_HANDLE *BroadcastHwQueueArray;
    UINT ObjectCount;
    D3DKMT_HANDLE *ObjectHandleArray;
    UINT64 *FenceValueArray;
} D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE;

/* What an operation does to a range */
typedef enum D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE {
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP = 0,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP = 1,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY = 2,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT = 3,
} D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE;

/* One change of a range of a reserved region */
typedef struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION {
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE OperationType;
    __extension__ union {
        __extension__ struct {
            D3DGPU_VIRTUAL_ADDRESS BaseAddress;
            D3DGPU_SIZE_T SizeInBytes;
            D3DKMT_HANDLE hAllocation;
            D3DGPU_SIZE_T AllocationOffsetInBytes;
            D3DGPU_SIZE_T AllocationSizeInBytes;
        } Map;
        __extension__ struct {
            D3DGPU_VIRTUAL_ADDRESS BaseAddress;
            D3DGPU_SIZE_T SizeInBytes;
            D3DKMT_HANDLE hAllocation;
            D3DGPU_SIZE_T AllocationOffsetInBytes;
            D3DGPU_SIZE_T AllocationSizeInBytes;
            D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE Protection;
            UINT64 DriverProtection;
        } MapProtect;
        __extension__ struct {
            D3DGPU_VIRTUAL_ADDRESS BaseAddress;
            D3DGPU_SIZE_T SizeInBytes;
            D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE Protection;
        } Unmap;
        __extension__ struct {
            D3DGPU_VIRTUAL_ADDRESS SourceAddress;
            D3DGPU_SIZE_T SizeInBytes;
            D3DGPU_VIRTUAL_ADDRESS DestAddress;
        } Copy;
    };
} D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;

typedef struct D3DKMT_UPDATEGPUVIRTUALADDRESS {
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hContext;
    D3DKMT_HANDLE hFenceObject;
    UINT NumOperations;
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION *Operations;
    D3DKMT_SIZE_T Reserved0;
    UINT64 Reserved1;
    UINT64 FenceValue;
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT DoNotWait : 1;
                UINT Reserved : 31;
            };
            UINT Value;
        };
    } Flags;
} D3DKMT_UPDATEGPUVIRTUALADDRESS;

/* Lists adapters; the compute-only ones appear when the filter asks for them */
NTSTATUS D3DKMTEnumAdapters3(D3DKMT_ENUMADAPTERS3 *args);

/* Opens an adapter by its LUID */
NTSTATUS D3DKMTOpenAdapterFromLuid(D3DKMT_OPENADAPTERFROMLUID *args);

/* Closes an adapter handle */
NTSTATUS D3DKMTCloseAdapter(D3DKMT_CLOSEADAPTER *args);

/* Asks for adapter information */
NTSTATUS D3DKMTQueryAdapterInfo(D3DKMT_QUERYADAPTERINFO *args);

/* Reads the clocks of GPU and CPU together */
NTSTATUS D3DKMTQueryClockCalibration(D3DKMT_QUERYCLOCKCALIBRATION *args);

/* Creates a device */
NTSTATUS D3DKMTCreateDevice(D3DKMT_CREATEDEVICE *args);

/* Destroys a device with everything made on it */
NTSTATUS D3DKMTDestroyDevice(D3DKMT_DESTROYDEVICE *args);

/* Asks whether a device still works, and why not */
NTSTATUS D3DKMTGetDeviceState(D3DKMT_GETDEVICESTATE *args);

/* Creates the queue on which residency and mapping requests of a device are ordered */
NTSTATUS D3DKMTCreatePagingQueue(D3DKMT_CREATEPAGINGQUEUE *args);

/* Destroys a paging queue */
NTSTATUS D3DKMTDestroyPagingQueue(D3DDDI_DESTROYPAGINGQUEUE *args);

/* Creates allocations */
NTSTATUS D3DKMTCreateAllocation2(D3DKMT_CREATEALLOCATION *args);

/* Destroys allocations, once the GPU has let go of them */
NTSTATUS D3DKMTDestroyAllocation2(D3DKMT_DESTROYALLOCATION2 *args);

/* Adds allocations to the device's residency list */
NTSTATUS D3DKMTMakeResident(D3DDDI_MAKERESIDENT *args);

/* Takes allocations off the residency list */
NTSTATUS D3DKMTEvict(D3DKMT_EVICT *args);

/* Lets the system take memory without saving its contents */
NTSTATUS D3DKMTOfferAllocations(D3DKMT_OFFERALLOCATIONS *args);

/* Takes offered memory back */
NTSTATUS D3DKMTReclaimAllocations2(D3DKMT_RECLAIMALLOCATIONS2 *args);

/* Reserves a range of GPU virtual addresses */
NTSTATUS D3DKMTReserveGpuVirtualAddress(D3DDDI_RESERVEGPUVIRTUALADDRESS *args);

/* Maps an allocation into the GPU address space */
NTSTATUS D3DKMTMapGpuVirtualAddress(D3DDDI_MAPGPUVIRTUALADDRESS *args);

/* Frees a range of GPU virtual addresses */
NTSTATUS D3DKMTFreeGpuVirtualAddress(D3DKMT_FREEGPUVIRTUALADDRESS *args);

/* Gives a CPU address of an allocation, stable until unlocked */
NTSTATUS D3DKMTLock2(D3DKMT_LOCK2 *args);

/* Ends a lock */
NTSTATUS D3DKMTUnlock2(D3DKMT_UNLOCK2 *args);

/* Writes back and invalidates what the CPU has cached of an allocation */
NTSTATUS D3DKMTInvalidateCache(D3DKMT_INVALIDATECACHE *args);

/* Says how much memory of an adapter the process may keep resident, and keeps */
NTSTATUS D3DKMTQueryVideoMemoryInfo(D3DKMT_QUERYVIDEOMEMORYINFO *args);

/* Changes how much memory the process is sure of */
NTSTATUS D3DKMTChangeVideoMemoryReservation(D3DKMT_CHANGEVIDEOMEMORYRESERVATION *args);

/* Registers a function that is called when a device should give memory back */
NTSTATUS D3DKMTRegisterTrimNotification(D3DKMT_REGISTERTRIMNOTIFICATION *args);

/* Ends a registration */
NTSTATUS D3DKMTUnregisterTrimNotification(D3DKMT_UNREGISTERTRIMNOTIFICATION *args);

/* Creates a context on a node that is scheduled packet by packet */
NTSTATUS D3DKMTCreateContextVirtual(D3DKMT_CREATECONTEXTVIRTUAL *args);

/* Destroys a context of packets */
NTSTATUS D3DKMTDestroyContext(D3DKMT_DESTROYCONTEXT *args);

/* Submits a command buffer to a context of packets */
NTSTATUS D3DKMTSubmitCommand(D3DKMT_SUBMITCOMMAND *args);

/* Creates a hardware context on a node */
NTSTATUS D3DKMTCreateHwContext(D3DKMT_CREATEHWCONTEXT *args);

/* Destroys a hardware context */
NTSTATUS D3DKMTDestroyHwContext(D3DKMT_DESTROYHWCONTEXT *args);

/* Sets the priority of a context among those of all processes */
NTSTATUS D3DKMTSetContextSchedulingPriority(D3DKMT_SETCONTEXTSCHEDULINGPRIORITY *args);

/* Creates a hardware queue with its progress fence */
NTSTATUS D3DKMTCreateHwQueue(D3DKMT_CREATEHWQUEUE *args);

/* Destroys a hardware queue */
NTSTATUS D3DKMTDestroyHwQueue(D3DKMT_DESTROYHWQUEUE *args);

/* Submits a command buffer to a hardware queue through the kernel */
NTSTATUS D3DKMTSubmitCommandToHwQueue(D3DKMT_SUBMITCOMMANDTOHWQUEUE *args);

/* Creates the doorbell of a queue for user-mode submission */
NTSTATUS D3DKMTCreateDoorbell(D3DKMT_CREATE_DOORBELL *args);

/* Connects a doorbell to hardware */
NTSTATUS D3DKMTConnectDoorbell(D3DKMT_CONNECT_DOORBELL *args);

/* Destroys a doorbell */
NTSTATUS D3DKMTDestroyDoorbell(D3DKMT_DESTROY_DOORBELL *args);

/* Tells the kernel-mode driver of new work, when the doorbell's status asks for it */
NTSTATUS D3DKMTNotifyWorkSubmission(D3DKMT_NOTIFY_WORK_SUBMISSION *args);

/* Says where the fence logs of a queue are */
NTSTATUS D3DKMTGetNativeFenceLogDetail(D3DKMT_GETNATIVEFENCELOGDETAIL *args);

/* Creates a native fence */
NTSTATUS D3DKMTCreateNativeFence(D3DKMT_CREATENATIVEFENCE *args);

/* Destroys a synchronization object of any kind */
NTSTATUS D3DKMTDestroySynchronizationObject(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT *args);

/* Waits on the CPU for fence values */
NTSTATUS D3DKMTWaitForSynchronizationObjectFromCpu(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU *args);

/* Signals fences from the CPU */
NTSTATUS D3DKMTSignalSynchronizationObjectFromCpu(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU *args);

/* Gives objects one kernel handle: their count, the objects, which are a resource, a synchronization object, or both with a keyed mutex, an  OBJECT_ATTRIBUTES, the access that the handle grants, and where the handle goes */
NTSTATUS D3DKMTShareObjects(UINT count, const D3DKMT_HANDLE *objects, const VOID *attributes, UINT access, HANDLE *handle);

/* Says what a shared resource is made of, by a kernel handle */
NTSTATUS D3DKMTQueryResourceInfoFromNtHandle(D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE *args);

/* Opens a shared resource by a kernel handle */
NTSTATUS D3DKMTOpenResourceFromNtHandle(D3DKMT_OPENRESOURCEFROMNTHANDLE *args);

/* Opens a native fence by a kernel handle */
NTSTATUS D3DKMTOpenNativeFenceFromNtHandle(D3DKMT_OPENNATIVEFENCEFROMNTHANDLE *args);

/* Creates a monitored fence */
NTSTATUS D3DKMTCreateSynchronizationObject2(D3DKMT_CREATESYNCHRONIZATIONOBJECT2 *args);

/* Opens a monitored fence by a kernel handle */
NTSTATUS D3DKMTOpenSyncObjectFromNtHandle2(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 *args);

/* Lets a context wait for fences */
NTSTATUS D3DKMTWaitForSynchronizationObjectFromGpu(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU *args);

/* Lets a context signal fences with a value each */
NTSTATUS D3DKMTSignalSynchronizationObjectFromGpu(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU *args);

/* Lets a hardware queue wait for fences */
NTSTATUS D3DKMTSubmitWaitForSyncObjectsToHwQueue(D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE *args);

/* Lets hardware queues signal fences */
NTSTATUS D3DKMTSubmitSignalSyncObjectsToHwQueue(D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE *args);

/* Closes a kernel handle */
NTSTATUS NtClose(HANDLE handle);

/* Lists the adapters that are not compute-only */
NTSTATUS D3DKMTEnumAdapters2(D3DKMT_ENUMADAPTERS2 *args);

/* Lets contexts signal fences */
NTSTATUS D3DKMTSignalSynchronizationObjectFromGpu2(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 *args);

/* Gives the priority of a context among those of all processes */
NTSTATUS D3DKMTGetContextSchedulingPriority(D3DKMT_GETCONTEXTSCHEDULINGPRIORITY *args);

/* Sets the priority of a context among those of its process */
NTSTATUS D3DKMTSetContextInProcessSchedulingPriority(D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY *args);

/* Gives the priority of a context among those of its process */
NTSTATUS D3DKMTGetContextInProcessSchedulingPriority(D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY *args);

/* Sets how the contexts of a process stand among those of others */
NTSTATUS D3DKMTSetProcessSchedulingPriorityClass(HANDLE process, D3DKMT_SCHEDULINGPRIORITYCLASS priority_class);

/* Gives how the contexts of a process stand among those of others */
NTSTATUS D3DKMTGetProcessSchedulingPriorityClass(HANDLE process, D3DKMT_SCHEDULINGPRIORITYCLASS *priority_class);

/* Registers a function that is called when the budget of the process has changed */
NTSTATUS D3DKMTRegisterBudgetChangeNotification(D3DKMT_REGISTERBUDGETCHANGENOTIFICATION *args);

/* Ends such a registration */
NTSTATUS D3DKMTUnregisterBudgetChangeNotification(D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION *args);

/* Changes mappings of reserved ranges in the order of the work of a context */
NTSTATUS D3DKMTUpdateGpuVirtualAddress(const D3DKMT_UPDATEGPUVIRTUALADDRESS *args);

/* Talks with the kernel-mode driver */
NTSTATUS D3DKMTEscape(const D3DKMT_ESCAPE *args);

/* Creates allocations, described in the older form */
NTSTATUS D3DKMTCreateAllocation(D3DKMT_CREATEALLOCATION *args);

/* Destroys allocations, once the GPU has let go of them, in the older form */
NTSTATUS D3DKMTDestroyAllocation(D3DKMT_DESTROYALLOCATION *args);

/* Says where allocations are */
NTSTATUS D3DKMTQueryAllocationResidency(D3DKMT_QUERYALLOCATIONRESIDENCY *args);

/* Says which allocations leave memory last */
NTSTATUS D3DKMTSetAllocationPriority(D3DKMT_SETALLOCATIONPRIORITY *args);

/* Gives what was said of that */
NTSTATUS D3DKMTGetAllocationPriority(D3DKMT_GETALLOCATIONPRIORITY *args);

/* Takes offered memory back, and returns when it can be used */
NTSTATUS D3DKMTReclaimAllocations(D3DKMT_RECLAIMALLOCATIONS *args);

/* Takes system memory that a process has offered for decommitment */
NTSTATUS D3DKMTTrimProcessCommitment(D3DKMT_TRIMPROCESSCOMMITMENT *args);

/* Says how much system memory a process has offered for decommitment */
NTSTATUS D3DKMTQueryProcessOfferInfo(D3DKMT_QUERYPROCESSOFFERINFO *args);

/* Changes in which segments an allocation may be */
NTSTATUS D3DKMTUpdateAllocationProperty(D3DDDI_UPDATEALLOCPROPERTY *args);

/* Finishes moves of memory that are under way */
NTSTATUS D3DKMTFlushHeapTransitions(D3DKMT_FLUSHHEAPTRANSITIONS *args);

/* Locks allocations of the driver model before GPU virtual addresses */
NTSTATUS D3DKMTLock(D3DKMT_LOCK *args);

/* Ends locks of allocations of that driver model */
NTSTATUS D3DKMTUnlock(D3DKMT_UNLOCK *args);

/* Gives the figures of a task manager */
NTSTATUS D3DKMTQueryStatistics(D3DKMT_QUERYSTATISTICS *args);

/* Says what a shared resource is made of */
NTSTATUS D3DKMTQueryResourceInfo(D3DKMT_QUERYRESOURCEINFO *args);

/* Opens a shared resource, in the older form */
NTSTATUS D3DKMTOpenResource(D3DKMT_OPENRESOURCE *args);

/* Opens a shared resource */
NTSTATUS D3DKMTOpenResource2(D3DKMT_OPENRESOURCE *args);

/* Says on which adapter a shared resource is */
NTSTATUS D3DKMTGetSharedResourceAdapterLuid(D3DKMT_GETSHAREDRESOURCEADAPTERLUID *args);

/* Asks whether a process may use a shared resource */
NTSTATUS D3DKMTCheckSharedResourceAccess(D3DKMT_CHECKSHAREDRESOURCEACCESS *args);

/* Says which process may use a shared resource */
NTSTATUS D3DKMTConfigureSharedResource(D3DKMT_CONFIGURESHAREDRESOURCE *args);

/* Gives what the runtime has kept with a shared resource */
NTSTATUS D3DKMTGetRuntimeData(D3DKMT_GETRUNTIMEDATA *args);

/* Opens a shared resource with a name */
NTSTATUS D3DKMTOpenNtHandleFromName(D3DKMT_OPENNTHANDLEFROMNAME *args);

/* Opens a shared synchronization object with a name */
NTSTATUS D3DKMTOpenSyncObjectNtHandleFromName(D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME *args);

/* Opens a synchronization object without an address by a kernel handle */
NTSTATUS D3DKMTOpenSyncObjectFromNtHandle(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE *args);

/* Opens a synchronization object by the handle that every process knows */
NTSTATUS D3DKMTOpenSynchronizationObject(D3DKMT_OPENSYNCHRONIZATIONOBJECT *args);

/* Lists the adapters that are not compute-only, 16 at most */
NTSTATUS D3DKMTEnumAdapters(D3DKMT_ENUMADAPTERS *args);

/* Opens an adapter by the name of its device interface */
NTSTATUS D3DKMTOpenAdapterFromDeviceName(D3DKMT_OPENADAPTERFROMDEVICENAME *args);

/* Asks whether a feature of an adapter is enabled */
NTSTATUS D3DKMTIsFeatureEnabled(D3DKMT_ISFEATUREENABLED *args);

/* Asks that the clocks of an adapter stay as they are */
NTSTATUS D3DKMTSetStablePowerState(D3DKMT_SETSTABLEPOWERSTATE *args);

/* Gives a device up */
NTSTATUS D3DKMTMarkDeviceAsError(D3DKMT_MARKDEVICEASERROR *args);

/* Asks whether a process outlives the removal of an adapter */
NTSTATUS D3DKMTGetProcessDeviceRemovalSupport(D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT *args);

/* Waits until what a device has queued is done */
NTSTATUS D3DKMTWaitForIdle(D3DKMT_WAITFORIDLE *args);

/* Limits the presents that a device queues */
NTSTATUS D3DKMTSetQueuedLimit(D3DKMT_SETQUEUEDLIMIT *args);

/* Creates a context of the driver model before GPU virtual addresses */
NTSTATUS D3DKMTCreateContext(D3DKMT_CREATECONTEXT *args);

/* Submits to a context of that driver model */
NTSTATUS D3DKMTRender(D3DKMT_RENDER *args);

/* Creates a mutex or a semaphore of the GPU */
NTSTATUS D3DKMTCreateSynchronizationObject(D3DKMT_CREATESYNCHRONIZATIONOBJECT *args);

/* Lets a context take mutexes and semaphores */
NTSTATUS D3DKMTWaitForSynchronizationObject(D3DKMT_WAITFORSYNCHRONIZATIONOBJECT *args);

/* Lets a context give mutexes and semaphores back */
NTSTATUS D3DKMTSignalSynchronizationObject(D3DKMT_SIGNALSYNCHRONIZATIONOBJECT *args);

/* Lets a context wait for synchronization objects, fences at one value */
NTSTATUS D3DKMTWaitForSynchronizationObject2(D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 *args);

/* Lets contexts signal synchronization objects, fences with one value */
NTSTATUS D3DKMTSignalSynchronizationObject2(D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 *args);

/* Creates a keyed mutex that every process can open */
NTSTATUS D3DKMTCreateKeyedMutex(D3DKMT_CREATEKEYEDMUTEX *args);

/* Creates a keyed mutex with data of the runtime */
NTSTATUS D3DKMTCreateKeyedMutex2(D3DKMT_CREATEKEYEDMUTEX2 *args);

/* Opens a keyed mutex by the handle that every process knows */
NTSTATUS D3DKMTOpenKeyedMutex(D3DKMT_OPENKEYEDMUTEX *args);

/* As D3DKMTOpenKeyedMutex, with data of the runtime */
NTSTATUS D3DKMTOpenKeyedMutex2(D3DKMT_OPENKEYEDMUTEX2 *args);

/* Opens a keyed mutex by a kernel handle */
NTSTATUS D3DKMTOpenKeyedMutexFromNtHandle(D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE *args);

/* Takes a keyed mutex that was released with a key */
NTSTATUS D3DKMTAcquireKeyedMutex(D3DKMT_ACQUIREKEYEDMUTEX *args);

/* As D3DKMTAcquireKeyedMutex, with data of the runtime */
NTSTATUS D3DKMTAcquireKeyedMutex2(D3DKMT_ACQUIREKEYEDMUTEX2 *args);

/* Gives a keyed mutex back with a key */
NTSTATUS D3DKMTReleaseKeyedMutex(D3DKMT_RELEASEKEYEDMUTEX *args);

/* As D3DKMTReleaseKeyedMutex, with data of the runtime */
NTSTATUS D3DKMTReleaseKeyedMutex2(D3DKMT_RELEASEKEYEDMUTEX2 *args);

/* Closes a keyed mutex */
NTSTATUS D3DKMTDestroyKeyedMutex(D3DKMT_DESTROYKEYEDMUTEX *args);

/* Makes a file descriptor that is ready once a monitored fence has reached a value */
NTSTATUS D3DKMTCreateSyncFile(D3DKMT_CREATESYNCFILE *args);

/* Lets a context wait for what a sync file stands for */
NTSTATUS D3DKMTWaitSyncFile(D3DKMT_WAITSYNCFILE *args);

/* Opens the fence of a sync file */
NTSTATUS D3DKMTOpenSyncObjectFromSyncFile(D3DKMT_OPENSYNCOBJECTFROMSYNCFILE *args);

/* Opens a process of the machine by its number: where the handle goes, the access that it grants, an OBJECT_ATTRIBUTES without a name, and  the number */
NTSTATUS NtOpenProcess(HANDLE *handle, UINT access, const VOID *attributes, const CLIENT_ID *client);

/* Makes a file descriptor of what a kernel handle stands for, by which another program of this host gets a handle of it. Windows has no  such thunk */
NTSTATUS CampanileExportNtHandle(HANDLE handle, UINT *descriptor);

/* Gives the calling process a kernel handle of what a file descriptor of CampanileExportNtHandle is of. Windows has no such thunk */
NTSTATUS CampanileImportNtHandle(UINT descriptor, HANDLE *handle);

/* Names an object of the calling process for traces: its handle, the number of a part of it or 0, and the name in UTF-8 with its length in  bytes, at most 128. Windows has no such thunk */
NTSTATUS CampanileSetDebugName(D3DKMT_HANDLE object, UINT part, const VOID *name, UINT length);

#ifdef __cplusplus
}
#endif

#endif

#endif /* CAMPANILE_KMT_H */
