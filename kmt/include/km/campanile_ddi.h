/*
 * The DDIs of WDDM 2.0 to 3.2: what a miniport in C is compiled against where there is no WDK.
 *
 * Names, layouts and values are those of Microsoft's dispmprt.h and d3dkmddi.h (kit 10.0.26100) for x64. Entry points and callbacks that a render or
 * compute driver has no use for are plain pointers.
 *
 * DXGKDDI_INTERFACE_VERSION is the version that a driver is compiled for, as with the kit: the tables of functions and the answers of the driver have the members of
 * that version. Without it, it is that of WDDM 3.2.
 *
 * Generated from the Rust sources; do not edit.
 */
#ifndef CAMPANILE_DDI_H
#define CAMPANILE_DDI_H

#include "ntddk.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef UINT D3DKMT_HANDLE;
typedef UINT64 D3DGPU_VIRTUAL_ADDRESS;
typedef UINT64 D3DGPU_SIZE_T;
typedef SIZE_T D3DKMT_SIZE_T;
typedef UINT D3DDDI_VIDEO_PRESENT_SOURCE_ID;
typedef USHORT DXGK_FEATURE_VERSION;
typedef SIZE_T DXGK_PAGE_NUMBER;

#define DISPLAY_ADAPTER_HW_ID 0xFFFFFFFF

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

#define D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1 0x10
#define D3DDDI_MAXTESTBUFFERPRIVATEDRIVERDATASIZE 0x400
#define D3DDDI_MAXTESTBUFFERSIZE 0x1000
#define D3DDDI_NATIVE_FENCE_PDD_SIZE 0x40
#define DXGKDDI_FEATURE_INTERFACE_VERSION_1 0x1
#define DXGKDDI_INTERFACE_VERSION_WDDM2_0 0x5023
#define DXGKDDI_INTERFACE_VERSION_WDDM2_1 0x6003
#define DXGKDDI_INTERFACE_VERSION_WDDM2_1_5 0x6010
#define DXGKDDI_INTERFACE_VERSION_WDDM2_1_6 0x6011
#define DXGKDDI_INTERFACE_VERSION_WDDM2_2 0x700a
#define DXGKDDI_INTERFACE_VERSION_WDDM2_3 0x8001
#define DXGKDDI_INTERFACE_VERSION_WDDM2_4 0x9006
#define DXGKDDI_INTERFACE_VERSION_WDDM2_5 0xa00b
#define DXGKDDI_INTERFACE_VERSION_WDDM2_6 0xb004
#define DXGKDDI_INTERFACE_VERSION_WDDM2_7 0xc004
#define DXGKDDI_INTERFACE_VERSION_WDDM2_8 0xd001
#define DXGKDDI_INTERFACE_VERSION_WDDM2_9 0xe003
#define DXGKDDI_INTERFACE_VERSION_WDDM3_0 0xf003
#define DXGKDDI_INTERFACE_VERSION_WDDM3_1 0x10004
#define DXGKDDI_INTERFACE_VERSION_WDDM3_2 0x11007
#define DXGK_FEATURE_INTERFACE_VERSION_1 0x1
#define DXGK_FEATURE_SUPPORT_ALWAYS_OFF 0x0
#define DXGK_FEATURE_SUPPORT_STABLE 0x2
#define DXGK_FSTATE_UNKNOWN_POWER 0xffffffff
#define DXGK_MAX_DOORBELL_SIZE_BYTES 0x4000
#define DXGK_WHICHSPACE_CONFIG 0x0

/* Flags of PCI_DEVICE_PRESENCE_PARAMETERS. */
#define PCI_USE_SUBSYSTEM_IDS 0x1
#define PCI_USE_REVISION 0x2
#define PCI_USE_VENDEV_IDS 0x4
#define PCI_USE_CLASS_SUBCLASS 0x8
#define PCI_USE_PROGIF 0x10
#define PCI_USE_LOCAL_BUS 0x20
#define PCI_USE_LOCAL_DEVICE 0x40

/* Versions that sources compare with, and that no driver can be built for here. */
#define DXGKDDI_INTERFACE_VERSION_VISTA 0x1052
#define DXGKDDI_INTERFACE_VERSION_VISTA_SP1 0x1053
#define DXGKDDI_INTERFACE_VERSION_WIN7 0x2005
#define DXGKDDI_INTERFACE_VERSION_WIN8 0x300e
#define DXGKDDI_INTERFACE_VERSION_WDDM1_3 0x4002
#define DXGKDDI_INTERFACE_VERSION_WDDM1_3_PATH_INDEPENDENT_ROTATION 0x4003

#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM3_2
#endif

DEFINE_GUID(GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START, 0xcba549d4, 0xcf3a, 0x445c, 0x94, 0x68, 0x23, 0x83, 0xfd, 0x52, 0x31, 0x16);
DEFINE_GUID(GUID_DXGKDDI_POWER_MANAGEMENT_STARTED, 0x6c929c1d, 0x7d76, 0x4538, 0x93, 0xad, 0x44, 0x9d, 0xc9, 0xfd, 0xc2, 0x39);
DEFINE_GUID(GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED, 0x0a9d9621, 0xbc21, 0x4dd4, 0xa0, 0xfc, 0xd9, 0x76, 0xe4, 0x28, 0xf7, 0x38);
DEFINE_GUID(GUID_WDDM_INTERFACE_FEATURE, 0x94bb3993, 0xc6c3, 0x4da7, 0x89, 0x49, 0xa1, 0x13, 0x82, 0x32, 0xe7, 0x59);

/* Banks of a segment in which an allocation should lie; no meaning without banks */
typedef struct DXGK_SEGMENTBANKPREFERENCE {
    __extension__ union {
        __extension__ struct {
            UINT Bank0 : 7;
            UINT Direction0 : 1;
            UINT Bank1 : 7;
            UINT Direction1 : 1;
            UINT Bank2 : 7;
            UINT Direction2 : 1;
            UINT Bank3 : 7;
            UINT Direction3 : 1;
        };
        UINT Value;
    };
} DXGK_SEGMENTBANKPREFERENCE;

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

/* Properties of an allocation before WDDM 2 */
typedef struct DXGK_ALLOCATIONINFOFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT CpuVisible : 1;
            UINT PermanentSysMem : 1;
            UINT Cached : 1;
            UINT Protected : 1;
            UINT ExistingSysMem : 1;
            UINT ExistingKernelSysMem : 1;
            UINT FromEndOfSegment : 1;
            UINT Swizzled : 1;
            UINT Overlay : 1;
            UINT Capture : 1;
            UINT UseAlternateVA : 1;
            UINT SynchronousPaging : 1;
            UINT LinkMirrored : 1;
            UINT LinkInstanced : 1;
            UINT HistoryBuffer : 1;
            UINT AccessedPhysically : 1;
            UINT ExplicitResidencyNotification : 1;
            UINT HardwareProtected : 1;
            UINT CpuVisibleOnDemand : 1;
            UINT DXGK_ALLOC_RESERVED16 : 1;
            UINT Reserved15 : 1;
            UINT Reserved14 : 1;
            UINT Reserved13 : 1;
            UINT Reserved12 : 1;
            UINT Reserved11 : 1;
            UINT Reserved10 : 1;
            UINT Reserved9 : 1;
            UINT Reserved4 : 1;
            UINT Reserved3 : 1;
            UINT Reserved2 : 1;
            UINT Reserved1 : 1;
            UINT Reserved0 : 1;
        };
        UINT Value;
    };
} DXGK_ALLOCATIONINFOFLAGS;

/* Properties of an allocation */
typedef struct DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 {
    __extension__ union {
        __extension__ struct {
            UINT CpuVisible : 1;
            UINT PermanentSysMem : 1;
            UINT Cached : 1;
            UINT Protected : 1;
            UINT ExistingSysMem : 1;
            UINT ExistingKernelSysMem : 1;
            UINT FromEndOfSegment : 1;
            UINT DisableLargePageMapping : 1;
            UINT Overlay : 1;
            UINT Capture : 1;
            UINT CreateInVpr : 1;
            UINT DXGK_ALLOC_RESERVED17 : 1;
            UINT Reserved02 : 1;
            UINT MapApertureCpuVisible : 1;
            UINT HistoryBuffer : 1;
            UINT AccessedPhysically : 1;
            UINT ExplicitResidencyNotification : 1;
            UINT HardwareProtected : 1;
            UINT CpuVisibleOnDemand : 1;
            UINT DXGK_ALLOC_RESERVED16 : 1;
            UINT Reserved15 : 1;
            UINT Reserved14 : 1;
            UINT Reserved13 : 1;
            UINT Reserved12 : 1;
            UINT Reserved11 : 1;
            UINT Reserved10 : 1;
            UINT Reserved9 : 1;
            UINT Reserved4 : 1;
            UINT Reserved3 : 1;
            UINT Reserved2 : 1;
            UINT Reserved1 : 1;
            UINT Reserved0 : 1;
        };
        UINT Value;
    };
} DXGK_ALLOCATIONINFOFLAGS_WDDM2_0;

/* Pixel format of a surface; buffers are unknown */
typedef enum D3DDDIFORMAT {
    D3DDDIFMT_UNKNOWN = 0,
    D3DDDIFMT_R8G8B8 = 20,
    D3DDDIFMT_A8R8G8B8 = 21,
    D3DDDIFMT_X8R8G8B8 = 22,
    D3DDDIFMT_R5G6B5 = 23,
    D3DDDIFMT_X1R5G5B5 = 24,
    D3DDDIFMT_A1R5G5B5 = 25,
    D3DDDIFMT_A4R4G4B4 = 26,
    D3DDDIFMT_R3G3B2 = 27,
    D3DDDIFMT_A8 = 28,
    D3DDDIFMT_A8R3G3B2 = 29,
    D3DDDIFMT_X4R4G4B4 = 30,
    D3DDDIFMT_A2B10G10R10 = 31,
    D3DDDIFMT_A8B8G8R8 = 32,
    D3DDDIFMT_X8B8G8R8 = 33,
    D3DDDIFMT_G16R16 = 34,
    D3DDDIFMT_A2R10G10B10 = 35,
    D3DDDIFMT_A16B16G16R16 = 36,
    D3DDDIFMT_A8P8 = 40,
    D3DDDIFMT_P8 = 41,
    D3DDDIFMT_L8 = 50,
    D3DDDIFMT_A8L8 = 51,
    D3DDDIFMT_A4L4 = 52,
    D3DDDIFMT_V8U8 = 60,
    D3DDDIFMT_L6V5U5 = 61,
    D3DDDIFMT_X8L8V8U8 = 62,
    D3DDDIFMT_Q8W8V8U8 = 63,
    D3DDDIFMT_V16U16 = 64,
    D3DDDIFMT_W11V11U10 = 65,
    D3DDDIFMT_A2W10V10U10 = 67,
    D3DDDIFMT_D16_LOCKABLE = 70,
    D3DDDIFMT_D32 = 71,
    D3DDDIFMT_S1D15 = 72,
    D3DDDIFMT_D15S1 = 73,
    D3DDDIFMT_S8D24 = 74,
    D3DDDIFMT_D24S8 = 75,
    D3DDDIFMT_X8D24 = 76,
    D3DDDIFMT_D24X8 = 77,
    D3DDDIFMT_X4S4D24 = 78,
    D3DDDIFMT_D24X4S4 = 79,
    D3DDDIFMT_D16 = 80,
    D3DDDIFMT_L16 = 81,
    D3DDDIFMT_D32F_LOCKABLE = 82,
    D3DDDIFMT_D24FS8 = 83,
    D3DDDIFMT_D32_LOCKABLE = 84,
    D3DDDIFMT_S8_LOCKABLE = 85,
    D3DDDIFMT_G8R8 = 91,
    D3DDDIFMT_R8 = 92,
    D3DDDIFMT_VERTEXDATA = 100,
    D3DDDIFMT_INDEX16 = 101,
    D3DDDIFMT_INDEX32 = 102,
    D3DDDIFMT_Q16W16V16U16 = 110,
    D3DDDIFMT_R16F = 111,
    D3DDDIFMT_G16R16F = 112,
    D3DDDIFMT_A16B16G16R16F = 113,
    D3DDDIFMT_R32F = 114,
    D3DDDIFMT_G32R32F = 115,
    D3DDDIFMT_A32B32G32R32F = 116,
    D3DDDIFMT_CxV8U8 = 117,
    D3DDDIFMT_A1 = 118,
    D3DDDIFMT_A2B10G10R10_XR_BIAS = 119,
    D3DDDIFMT_DXVACOMPBUFFER_BASE = 150,
    D3DDDIFMT_PICTUREPARAMSDATA = 150,
    D3DDDIFMT_MACROBLOCKDATA = 151,
    D3DDDIFMT_RESIDUALDIFFERENCEDATA = 152,
    D3DDDIFMT_DEBLOCKINGDATA = 153,
    D3DDDIFMT_INVERSEQUANTIZATIONDATA = 154,
    D3DDDIFMT_SLICECONTROLDATA = 155,
    D3DDDIFMT_BITSTREAMDATA = 156,
    D3DDDIFMT_MOTIONVECTORBUFFER = 157,
    D3DDDIFMT_FILMGRAINBUFFER = 158,
    D3DDDIFMT_DXVA_RESERVED9 = 159,
    D3DDDIFMT_DXVA_RESERVED10 = 160,
    D3DDDIFMT_DXVA_RESERVED11 = 161,
    D3DDDIFMT_DXVA_RESERVED12 = 162,
    D3DDDIFMT_DXVA_RESERVED13 = 163,
    D3DDDIFMT_DXVA_RESERVED14 = 164,
    D3DDDIFMT_DXVA_RESERVED15 = 165,
    D3DDDIFMT_DXVA_RESERVED16 = 166,
    D3DDDIFMT_DXVA_RESERVED17 = 167,
    D3DDDIFMT_DXVA_RESERVED18 = 168,
    D3DDDIFMT_DXVA_RESERVED19 = 169,
    D3DDDIFMT_DXVA_RESERVED20 = 170,
    D3DDDIFMT_DXVA_RESERVED21 = 171,
    D3DDDIFMT_DXVA_RESERVED22 = 172,
    D3DDDIFMT_DXVA_RESERVED23 = 173,
    D3DDDIFMT_DXVA_RESERVED24 = 174,
    D3DDDIFMT_DXVA_RESERVED25 = 175,
    D3DDDIFMT_DXVA_RESERVED26 = 176,
    D3DDDIFMT_DXVA_RESERVED27 = 177,
    D3DDDIFMT_DXVA_RESERVED28 = 178,
    D3DDDIFMT_DXVA_RESERVED29 = 179,
    D3DDDIFMT_DXVA_RESERVED30 = 180,
    D3DDDIFMT_DXVACOMPBUFFER_MAX = 181,
    D3DDDIFMT_DXVA_RESERVED31 = 181,
    D3DDDIFMT_BINARYBUFFER = 199,
    D3DDDIFMT_MULTI2_ARGB8 = 827606349,
    D3DDDIFMT_DXT1 = 827611204,
    D3DDDIFMT_DXT2 = 844388420,
    D3DDDIFMT_YUY2 = 844715353,
    D3DDDIFMT_DXT3 = 861165636,
    D3DDDIFMT_DXT4 = 877942852,
    D3DDDIFMT_DXT5 = 894720068,
    D3DDDIFMT_G8R8_G8B8 = 1111970375,
    D3DDDIFMT_R8G8_B8G8 = 1195525970,
    D3DDDIFMT_UYVY = 1498831189,
    D3DDDIFMT_FORCE_UINT = 2147483647,
} D3DDDIFORMAT;

/* Shape of a surface, as a hint for the memory manager */
typedef struct DXGK_ALLOCATIONUSAGEINFO1 {
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT PrivateFormat : 1;
                UINT Swizzled : 1;
                UINT MipMap : 1;
                UINT Cube : 1;
                UINT Volume : 1;
                UINT Vertex : 1;
                UINT Index : 1;
                UINT Reserved : 25;
            };
            UINT Value;
        };
    } Flags;
    __extension__ union {
        D3DDDIFORMAT Format;
        UINT PrivateFormat;
    };
    UINT SwizzledFormat;
    UINT ByteOffset;
    UINT Width;
    UINT Height;
    UINT Pitch;
    UINT Depth;
    UINT SlicePitch;
} DXGK_ALLOCATIONUSAGEINFO1;

/* Versioned hint about an allocation */
typedef struct DXGK_ALLOCATIONUSAGEHINT {
    UINT Version;
    DXGK_ALLOCATIONUSAGEINFO1 v1;
} DXGK_ALLOCATIONUSAGEHINT;

/* More properties of an allocation */
typedef struct DXGK_ALLOCATIONINFOFLAGS2 {
    __extension__ union {
        __extension__ struct {
            UINT ShareBackingStoreWithKmd : 1;
            UINT NoImplicitSynchronization : 1;
            UINT DisablePartialResidency : 1;
            UINT RestrictedToSingleSegment : 1;
            UINT NotifyEviction : 1;
            UINT NotifyIoMmuUnmap : 1;
            UINT Reserved : 26;
        };
        UINT Value;
    };
} DXGK_ALLOCATIONINFOFLAGS2;

typedef struct DXGK_ALLOCATIONINFO {
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    __extension__ union {
        UINT Alignment;
        __extension__ struct {
            USHORT MinimumPageSize;
            USHORT RecommendedPageSize;
        };
    };
    SIZE_T Size;
    SIZE_T PitchAlignedSize;
    DXGK_SEGMENTBANKPREFERENCE HintedBank;
    D3DDDI_SEGMENTPREFERENCE PreferredSegment;
    __extension__ union {
        UINT SupportedReadSegmentSet;
        UINT MmuSet;
    };
    UINT SupportedWriteSegmentSet;
    UINT EvictionSegmentSet;
    __extension__ union {
        UINT MaximumRenamingListLength;
        UINT PhysicalAdapterIndex;
    };
    HANDLE hAllocation;
    __extension__ union {
        DXGK_ALLOCATIONINFOFLAGS Flags;
        DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 FlagsWddm2;
    };
    DXGK_ALLOCATIONUSAGEHINT *pAllocationUsageHint;
    UINT AllocationPriority;
    DXGK_ALLOCATIONINFOFLAGS2 Flags2;
} DXGK_ALLOCATIONINFO;

typedef struct DXGK_CREATEALLOCATIONFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Resource : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_CREATEALLOCATIONFLAGS;

typedef struct DXGKARG_CREATEALLOCATION {
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    UINT NumAllocations;
    DXGK_ALLOCATIONINFO *pAllocationInfo;
    HANDLE hResource;
    DXGK_CREATEALLOCATIONFLAGS Flags;
} DXGKARG_CREATEALLOCATION;

typedef struct DXGK_DESTROYALLOCATIONFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT DestroyResource : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_DESTROYALLOCATIONFLAGS;

typedef struct DXGKARG_DESTROYALLOCATION {
    UINT NumAllocations;
    HANDLE *pAllocationList;
    HANDLE hResource;
    DXGK_DESTROYALLOCATIONFLAGS Flags;
} DXGKARG_DESTROYALLOCATION;

typedef struct DXGK_OPENALLOCATIONINFO {
    D3DKMT_HANDLE hAllocation;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    HANDLE hDeviceSpecificAllocation;
} DXGK_OPENALLOCATIONINFO;

/* Why an allocation is opened */
typedef struct DXGK_OPENALLOCATIONFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Create : 1;
            UINT ReadOnly : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} DXGK_OPENALLOCATIONFLAGS;

typedef struct DXGKARG_OPENALLOCATION {
    UINT NumAllocations;
    DXGK_OPENALLOCATIONINFO *pOpenAllocation;
    VOID *pPrivateDriverData;
    UINT PrivateDriverSize;
    DXGK_OPENALLOCATIONFLAGS Flags;
    UINT SubresourceIndex;
    SIZE_T SubresourceOffset;
    UINT Pitch;
} DXGKARG_OPENALLOCATION;

typedef struct DXGKARG_CLOSEALLOCATION {
    UINT NumAllocations;
    HANDLE *pOpenHandleList;
} DXGKARG_CLOSEALLOCATION;

/* Samples of a surface */
typedef struct D3DDDI_MULTISAMPLINGMETHOD {
    UINT NumSamples;
    UINT NumQualityLevels;
} D3DDDI_MULTISAMPLINGMETHOD;

/* A fraction, such as a refresh rate in hertz */
typedef struct D3DDDI_RATIONAL {
    UINT Numerator;
    UINT Denominator;
} D3DDDI_RATIONAL;

/* What is asked about an allocation */
typedef struct DXGK_DESCRIBEALLOCATIONFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT CheckDisplayMode : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_DESCRIBEALLOCATIONFLAGS;

/* Rotation of a display */
typedef enum D3DDDI_ROTATION {
    D3DDDI_ROTATION_IDENTITY = 1,
    D3DDDI_ROTATION_90 = 2,
    D3DDDI_ROTATION_180 = 3,
    D3DDDI_ROTATION_270 = 4,
} D3DDDI_ROTATION;

typedef struct DXGKARG_DESCRIBEALLOCATION {
    HANDLE hAllocation;
    UINT Width;
    UINT Height;
    D3DDDIFORMAT Format;
    D3DDDI_MULTISAMPLINGMETHOD MultisampleMethod;
    D3DDDI_RATIONAL RefreshRate;
    UINT PrivateDriverFormatAttribute;
    DXGK_DESCRIBEALLOCATIONFLAGS Flags;
    D3DDDI_ROTATION Rotation;
} DXGKARG_DESCRIBEALLOCATION;

/* Allocation that the operating system itself wants and the driver describes */
typedef enum D3DKMDT_STANDARDALLOCATION_TYPE {
    D3DKMDT_STANDARDALLOCATION_SHAREDPRIMARYSURFACE = 1,
    D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE = 2,
    D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE = 3,
    D3DKMDT_STANDARDALLOCATION_GDISURFACE = 4,
    D3DKMDT_STANDARDALLOCATION_VGPU = 5,
    D3DKMDT_STANDARDALLOCATION_FENCESTORAGE = 6,
} D3DKMDT_STANDARDALLOCATION_TYPE;

/* Shape of a staging surface */
typedef struct D3DKMDT_STAGINGSURFACEDATA {
    UINT Width;
    UINT Height;
    UINT Pitch;
} D3DKMDT_STAGINGSURFACEDATA;

/* Which value of native fences a storage allocation holds */
typedef enum DXGKARG_FENCESTORAGEVALUETYPE {
    D3DKARG_FENCESTORAGETYPE_CURRENTVALUE = 0,
    D3DKARG_FENCESTORAGETYPE_MONITOREDVALUE = 1,
} DXGKARG_FENCESTORAGEVALUETYPE;

/* Kind of a native fence */
typedef enum D3DDDI_NATIVEFENCE_TYPE {
    D3DDDI_NATIVEFENCE_TYPE_DEFAULT = 0,
    D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU = 1,
} D3DDDI_NATIVEFENCE_TYPE;

/* No flags are defined: reserved, zero */
typedef struct DXGKARG_FENCESTORAGEFLAGS {
    UINT Reserved;
} DXGKARG_FENCESTORAGEFLAGS;

/* Allocation in which native fences are packed; the driver chooses its placement */
typedef struct D3DKMDT_FENCESTORAGESURFACEDATA {
    UINT PhysicalAdapterIndex;
    DXGKARG_FENCESTORAGEVALUETYPE FenceStorageValueType;
    D3DDDI_NATIVEFENCE_TYPE FenceStorageType;
    UINT PrivateDriverDataSize;
    UCHAR *pPrivateDriverData;
    DXGKARG_FENCESTORAGEFLAGS Flags;
    UINT Reserved;
    DXGK_ALLOCATIONINFO AllocationInfo;
} D3DKMDT_FENCESTORAGESURFACEDATA;

/* What a surface is for */
typedef enum D3DKMDT_GDISURFACETYPE {
    D3DKMDT_GDISURFACE_INVALID = 0,
    D3DKMDT_GDISURFACE_TEXTURE = 1,
    D3DKMDT_GDISURFACE_STAGING_CPUVISIBLE = 2,
    D3DKMDT_GDISURFACE_STAGING = 3,
    D3DKMDT_GDISURFACE_LOOKUPTABLE = 4,
    D3DKMDT_GDISURFACE_EXISTINGSYSMEM = 5,
    D3DKMDT_GDISURFACE_TEXTURE_CPUVISIBLE = 6,
    D3DKMDT_GDISURFACE_TEXTURE_CROSSADAPTER = 7,
    D3DKMDT_GDISURFACE_TEXTURE_CPUVISIBLE_CROSSADAPTER = 8,
} D3DKMDT_GDISURFACETYPE;

/* No flags are defined: reserved, zero */
typedef struct D3DKMDT_GDISURFACEFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DKMDT_GDISURFACEFLAGS;

/* Shape of a surface that the operating system creates */
typedef struct D3DKMDT_GDISURFACEDATA {
    UINT Width;
    UINT Height;
    D3DDDIFORMAT Format;
    D3DKMDT_GDISURFACETYPE Type;
    D3DKMDT_GDISURFACEFLAGS Flags;
    UINT Pitch;
} D3DKMDT_GDISURFACEDATA;

typedef struct DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
    D3DKMDT_STANDARDALLOCATION_TYPE StandardAllocationType;
    __extension__ union {
        D3DKMDT_STAGINGSURFACEDATA *pCreateStagingSurfaceData;
        D3DKMDT_GDISURFACEDATA *pCreateGdiSurfaceData;
        D3DKMDT_FENCESTORAGESURFACEDATA *pCreateFenceStorageData;
    };
    VOID *pAllocationPrivateDriverData;
    UINT AllocationPrivateDriverDataSize;
    VOID *pResourcePrivateDriverData;
    UINT ResourcePrivateDriverDataSize;
    UINT PhysicalAdapterIndex;
} DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA;

typedef enum DXGK_QUERYADAPTERINFOTYPE {
    DXGKQAITYPE_UMDRIVERPRIVATE = 0,
    DXGKQAITYPE_DRIVERCAPS = 1,
    DXGKQAITYPE_QUERYSEGMENT = 2,
    DXGKQAITYPE_RESERVED = 3,
    DXGKQAITYPE_QUERYSEGMENT2 = 4,
    DXGKQAITYPE_QUERYSEGMENT3 = 5,
    DXGKQAITYPE_NUMPOWERCOMPONENTS = 6,
    DXGKQAITYPE_POWERCOMPONENTINFO = 7,
    DXGKQAITYPE_PREFERREDGPUNODE = 8,
    DXGKQAITYPE_POWERCOMPONENTPSTATEINFO = 9,
    DXGKQAITYPE_HISTORYBUFFERPRECISION = 10,
    DXGKQAITYPE_QUERYSEGMENT4 = 11,
    DXGKQAITYPE_SEGMENTMEMORYSTATE = 12,
    DXGKQAITYPE_GPUMMUCAPS = 13,
    DXGKQAITYPE_PAGETABLELEVELDESC = 14,
    DXGKQAITYPE_PHYSICALADAPTERCAPS = 15,
    DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION = 16,
    DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR = 17,
    DXGKQAITYPE_UEFIFRAMEBUFFERRANGES = 18,
    DXGKQAITYPE_QUERYCOLORIMETRYOVERRIDES = 19,
    DXGKQAITYPE_DISPLAYID_DESCRIPTOR = 20,
    DXGKQAITYPE_FRAMEBUFFERSAVESIZE = 21,
    DXGKQAITYPE_HARDWARERESERVEDRANGES = 22,
    DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR2 = 23,
    DXGKQAITYPE_NODEPERFDATA = 24,
    DXGKQAITYPE_ADAPTERPERFDATA = 25,
    DXGKQAITYPE_ADAPTERPERFDATA_CAPS = 26,
    DXGKQAITYPE_GPUVERSION = 27,
    DXGKQAITYPE_DEVICE_TYPE_CAPS = 28,
    DXGKQAITYPE_WDDMDEVICECAPS = 29,
    DXGKQAITYPE_GPUPCAPS = 30,
    DXGKQAITYPE_QUERYTARGETGAMMACAPS = 31,
    DXGKQAITYPE_SCANOUT_CAPS = 33,
    DXGKQAITYPE_PHYSICAL_MEMORY_CAPS = 34,
    DXGKQAITYPE_IOMMU_CAPS = 35,
    DXGKQAITYPE_HARDWARERESERVEDRANGES2 = 36,
    DXGKQAITYPE_NATIVE_FENCE_CAPS = 37,
    DXGKQAITYPE_USERMODESUBMISSION_CAPS = 38,
    DXGKQAITYPE_DIRTYBITTRACKINGCAPS = 39,
    DXGKQAITYPE_DIRTYBITTRACKINGSEGMENTCAPS = 40,
    DXGKQAITYPE_SCATTER_RESERVE = 41,
    DXGKQAITYPE_QUERYPAGINGBUFFERINFO = 42,
    DXGKQAITYPE_QUERYSEGMENTCOUNT = 43,
    DXGKQAITYPE_QUERYSEGMENT5 = 44,
    DXGKQAITYPE_QUERYMMUCOUNT = 45,
    DXGKQAITYPE_QUERYMMUS = 46,
    DXGKQAITYPE_64BITONLYCAPS = 47,
    DXGKQAITYPE_PAGINGPROCESSGPUVASIZE = 48,
} DXGK_QUERYADAPTERINFOTYPE;

/* For whom the question is asked; zero unless a virtual machine is involved */
typedef struct DXGK_QUERYADAPTERINFOFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT VirtualMachineData : 1;
            UINT SecureVirtualMachine : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} DXGK_QUERYADAPTERINFOFLAGS;

typedef struct DXGKARG_QUERYADAPTERINFO {
    DXGK_QUERYADAPTERINFOTYPE Type;
    VOID *pInputData;
    UINT InputDataSize;
    VOID *pOutputData;
    UINT OutputDataSize;
    DXGK_QUERYADAPTERINFOFLAGS Flags;
    HANDLE hKmdProcessHandle;
} DXGKARG_QUERYADAPTERINFO;

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

typedef struct DXGK_NATIVE_FENCE_CAPS {
    UINT MonitoredValueStride;
    UCHAR MapToGpuSystemProcess;
    D3DGPU_VIRTUAL_ADDRESS MinimumAddress;
    D3DGPU_VIRTUAL_ADDRESS MaximumAddress;
    UCHAR Reserved[28];
} DXGK_NATIVE_FENCE_CAPS;

typedef struct DXGK_USERMODESUBMISSION_CAPS {
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT SecondaryDoorbellSupported : 1;
                UINT Reserved : 31;
            };
            UINT Value;
        };
    } Flags;
    UINT DoorbellSizeInBytes;
    UINT SecondaryDoorbellSizeInBytes;
    UCHAR Reserved[16];
} DXGK_USERMODESUBMISSION_CAPS;

typedef struct DXGK_PHYSICAL_MEMORY_CAPS {
    PHYSICAL_ADDRESS HighestVisibleAddress;
} DXGK_PHYSICAL_MEMORY_CAPS;

typedef struct DXGK_IOMMU_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT IommuIsolationSupported : 1;
            UINT IommuIsolationRequired : 1;
            UINT DmaRemappingSupported : 1;
            UINT GpuVaIommuRequired : 1;
            UINT GpuVaIommuGlobalRequired : 1;
            UINT Reserved : 27;
        };
        UINT Value;
    };
} DXGK_IOMMU_CAPS;

typedef struct DXGKARG_HISTORYBUFFERPRECISION {
    UINT PrecisionBits;
} DXGKARG_HISTORYBUFFERPRECISION;

#pragma pack(push, 1)
typedef struct DXGK_GPUVERSION {
    USHORT BiosVersion[32];
    USHORT GpuArchitecture[32];
} DXGK_GPUVERSION;
#pragma pack(pop)

typedef struct DXGK_DISPLAY_DRIVERCAPS_EXTENSION {
    __extension__ union {
        __extension__ struct {
            UINT SecureDisplaySupport : 1;
            UINT VirtualModeSupport : 1;
            UINT HdrFP16ScanoutSupport : 1;
            UINT HdrARGB10ScanoutSupport : 1;
            UINT Hdr10MetadataSupport : 1;
            UINT VirtualRefreshRateSupport : 1;
            UINT SupportUsb4Targets : 1;
            UINT Reserved : 25;
        };
        UINT Value;
    };
} DXGK_DISPLAY_DRIVERCAPS_EXTENSION;

typedef struct DXGKARG_CREATEDOORBELL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT ResizeRingBufferOperation : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGKARG_CREATEDOORBELL_FLAGS;

typedef struct DXGKARG_CREATEDOORBELL {
    HANDLE hHwQueue;
    HANDLE hDoorbell;
    UINT PrivateDriverDataSize;
    VOID *PrivateDriverData;
    HANDLE hRingBuffer;
    HANDLE hRingBufferControl;
    DXGKARG_CREATEDOORBELL_FLAGS Flags;
} DXGKARG_CREATEDOORBELL;

typedef struct DXGKARG_CONNECTDOORBELL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT RequireSecondaryAddress : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGKARG_CONNECTDOORBELL_FLAGS;

/* State of a doorbell as its process reads it after ringing */
typedef enum D3DDDI_DOORBELLSTATUS {
    D3DDDI_DOORBELLSTATUS_CONNECTED = 0,
    D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD = 1,
    D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY = 2,
    D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT = 3,
} D3DDDI_DOORBELLSTATUS;

typedef struct DXGKARG_CONNECTDOORBELL {
    HANDLE hDoorbell;
    DXGKARG_CONNECTDOORBELL_FLAGS Flags;
    VOID *KernelCpuVirtualAddress;
    VOID *SecondaryKernelCpuVirtualAddress;
    D3DDDI_DOORBELLSTATUS Status;
} DXGKARG_CONNECTDOORBELL;

/* No flags are defined: reserved, zero */
typedef struct DXGKARG_DISCONNECTDOORBELL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARG_DISCONNECTDOORBELL_FLAGS;

typedef struct DXGKARG_DISCONNECTDOORBELL {
    HANDLE hDoorbell;
    DXGKARG_DISCONNECTDOORBELL_FLAGS Flags;
} DXGKARG_DISCONNECTDOORBELL;

typedef struct DXGKARG_DESTROYDOORBELL {
    HANDLE hDoorbell;
} DXGKARG_DESTROYDOORBELL;

/* No flags are defined: reserved, zero */
typedef struct DXGKARG_NOTIFYWORKSUBMISSION_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARG_NOTIFYWORKSUBMISSION_FLAGS;

typedef struct DXGKARG_NOTIFYWORKSUBMISSION {
    HANDLE hHwQueue;
    DXGKARG_NOTIFYWORKSUBMISSION_FLAGS Flags;
} DXGKARG_NOTIFYWORKSUBMISSION;

/* No flags are defined: reserved, zero */
typedef struct DXGKARGCB_DISCONNECTDOORBELL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARGCB_DISCONNECTDOORBELL_FLAGS;

typedef struct DXGKARGCB_DISCONNECTDOORBELL {
    HANDLE hHwQueue;
    HANDLE hDoorbell;
    DXGKARGCB_DISCONNECTDOORBELL_FLAGS Flags;
    D3DDDI_DOORBELLSTATUS DisconnectReason;
} DXGKARGCB_DISCONNECTDOORBELL;

/* Kinds of hardware cursor; none on a compute-only adapter */
typedef struct DXGK_POINTERFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Monochrome : 1;
            UINT Color : 1;
            UINT MaskedColor : 1;
            UINT Reserved : 29;
        };
        UINT Value;
    };
} DXGK_POINTERFLAGS;

/* Gamma ramps of displays; none on a compute-only adapter */
typedef struct DXGK_GAMMARAMPCAPS {
    __extension__ union {
        __extension__ struct {
            UINT Gamma_Rgb256x3x16 : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_GAMMARAMPCAPS;

/* Colour transforms of displays; none on a compute-only adapter */
typedef struct DXGK_COLORTRANSFORMCAPS {
    __extension__ union {
        __extension__ struct {
            UINT Gamma_Rgb256x3x16 : 1;
            UINT Gamma_Dxgi1 : 1;
            UINT Transform_3x4Matrix : 1;
            UINT Transform_3x4Matrix_WideColor : 1;
            UINT Transform_3x4Matrix_HighColor : 1;
            UINT Transform_Matrix_V2 : 1;
            UINT Reserved : 26;
        };
        UINT Value;
    };
} DXGK_COLORTRANSFORMCAPS;

/* How the adapter presents and blits; all clear on a compute-only adapter */
typedef struct DXGK_PRESENTATIONCAPS {
    __extension__ union {
        __extension__ struct {
            UINT NoScreenToScreenBlt : 1;
            UINT NoOverlapScreenBlt : 1;
            UINT SupportKernelModeCommandBuffer : 1;
            UINT NoSameBitmapAlphaBlend : 1;
            UINT NoSameBitmapStretchBlt : 1;
            UINT NoSameBitmapTransparentBlt : 1;
            UINT NoSameBitmapOverlappedAlphaBlend : 1;
            UINT NoSameBitmapOverlappedStretchBlt : 1;
            UINT DriverSupportsCddDwmInterop : 1;
            UINT Reserved0 : 1;
            UINT AlignmentShift : 4;
            UINT MaxTextureWidthShift : 3;
            UINT MaxTextureHeightShift : 3;
            UINT SupportAllBltRops : 1;
            UINT SupportMirrorStretchBlt : 1;
            UINT SupportMonoStretchBltModes : 1;
            UINT StagingRectStartPitchAligned : 1;
            UINT NoSameBitmapBitBlt : 1;
            UINT NoSameBitmapOverlappedBitBlt : 1;
            UINT Reserved1 : 1;
            UINT NoTempSurfaceForClearTypeBlend : 1;
            UINT SupportSoftwareDeviceBitmaps : 1;
            UINT NoCacheCoherentApertureMemory : 1;
            UINT SupportLinearHeap : 1;
            UINT Reserved : 1;
        };
        UINT Value;
    };
} DXGK_PRESENTATIONCAPS;

/* How the adapter flips; all clear on a compute-only adapter */
typedef struct DXGK_FLIPCAPS {
    __extension__ union {
        __extension__ struct {
            UINT FlipOnVSyncWithNoWait : 1;
            UINT FlipOnVSyncMmIo : 1;
            UINT FlipInterval : 1;
            UINT FlipImmediateMmIo : 1;
            UINT FlipIndependent : 1;
            UINT DdiPresentForIFlip : 1;
            UINT FlipImmediateOnHSync : 1;
            UINT Reserved : 25;
        };
        UINT Value;
    };
} DXGK_FLIPCAPS;

/* What the operating system's GPU scheduler may ask of the driver */
typedef struct DXGK_VIDSCHCAPS {
    __extension__ union {
        __extension__ struct {
            UINT MultiEngineAware : 1;
            UINT VSyncPowerSaveAware : 1;
            UINT PreemptionAware : 1;
            UINT NoDmaPatching : 1;
            UINT CancelCommandAware : 1;
            UINT No64BitAtomics : 1;
            UINT LowIrqlPreemptCommand : 1;
            UINT HwQueuePacketCap : 4;
            UINT NativeGpuFence : 1;
            UINT OptimizedNativeFenceSignaledInterrupt : 1;
            UINT Reserved : 19;
        };
        UINT Value;
    };
} DXGK_VIDSCHCAPS;

/* What the operating system's memory manager may ask of the driver */
typedef struct DXGK_VIDMMCAPS {
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT OutOfOrderLock : 1;
                UINT DedicatedPagingEngine : 1;
                UINT PagingEngineCanSwizzle : 1;
                UINT SectionBackedPrimary : 1;
                UINT CrossAdapterResource : 1;
                UINT VirtualAddressingSupported : 1;
                UINT GpuMmuSupported : 1;
                UINT IoMmuSupported : 1;
                UINT ReplicateGdiContent : 1;
                UINT NonCpuVisiblePrimary : 1;
                UINT ParavirtualizationSupported : 1;
                UINT IoMmuSecureModeSupported : 1;
                UINT DisableSelfRefreshVRAMInS3 : 1;
                UINT IoMmuSecureModeRequired : 1;
                UINT MapAperture2Supported : 1;
                UINT CrossAdapterResourceTexture : 1;
                UINT CrossAdapterResourceScanout : 1;
                UINT AlwaysPoweredVRAM : 1;
                UINT Reserved : 14;
            };
            UINT Value;
        };
    };
    UINT PagingNode;
} DXGK_VIDMMCAPS;

/* How many engines there are */
typedef struct DXGK_GPUENGINETOPOLOGY {
    UINT NbAsymetricProcessingNodes;
    UINT Reserved[64];
} DXGK_GPUENGINETOPOLOGY;

/* Driver model that a driver claims; another number space than the interface version */
typedef enum DXGK_WDDMVERSION {
    DXGKDDI_WDDMv1 = 4096,
    DXGKDDI_WDDMv1_2 = 4608,
    DXGKDDI_WDDMv1_3 = 4864,
    DXGKDDI_WDDMv2 = 8192,
    DXGKDDI_WDDMv2_1 = 8448,
    DXGKDDI_WDDMv2_1_5 = 8453,
    DXGKDDI_WDDMv2_1_6 = 8454,
    DXGKDDI_WDDMv2_2 = 8704,
    DXGKDDI_WDDMv2_3 = 8960,
    DXGKDDI_WDDMv2_4 = 9216,
    DXGKDDI_WDDMv2_5 = 9472,
    DXGKDDI_WDDMv2_6 = 9728,
    DXGKDDI_WDDMv2_7 = 9984,
    DXGKDDI_WDDMv2_8 = 10240,
    DXGKDDI_WDDMv2_9 = 10496,
    DXGKDDI_WDDMv3_0 = 12288,
    DXGKDDI_WDDMv3_1 = 12544,
    DXGKDDI_WDDM_LATEST = 12800,
    DXGKDDI_WDDMv3_2 = 12800,
} DXGK_WDDMVERSION;

/* Properties of WDDM 1 virtual addressing, kept for the layout; zero */
typedef struct DXGK_VIRTUALADDRESSCAPS_DEPRECATED {
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT PrivilegedMemorySupported : 1;
                UINT ReadOnlyMemorySupported : 1;
                UINT Reserved : 30;
            };
            UINT Value;
        };
    };
    UINT VirtualAddressBitCount;
    UINT PageTableCoverageBitCount;
    UINT PageDirectoryEntrySize;
    UINT PageDirectorySegment;
    UINT PageTableSegment;
    UINT IdealGPUPageSize;
} DXGK_VIRTUALADDRESSCAPS_DEPRECATED;

/* Properties of DMA buffers before WDDM 2, kept for the layout; zero */
typedef struct DXGK_DMABUFFERCAPS_DEPRECATED {
    __extension__ struct {
        UINT Size;
        UINT PrivateDriverDataSize;
        UINT SegmentId;
        UINT Reserved1;
        UINT Reserved[16];
    } PresentDmaBuffer;
    __extension__ struct {
        UINT Size;
        UINT PrivateDriverDataSize;
        UINT SegmentId;
        UINT Reserved1;
        UINT Reserved[16];
    } PagingDmaBuffer;
} DXGK_DMABUFFERCAPS_DEPRECATED;

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

/* Reserved for flips queued in hardware */
typedef struct DXGK_HWQUEUEDFLIP_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGK_HWQUEUEDFLIP_CAPS;

typedef struct DXGK_DRIVERCAPS {
    PHYSICAL_ADDRESS HighestAcceptableAddress;
    UINT MaxAllocationListSlotId;
    SIZE_T ApertureSegmentCommitLimit;
    UINT MaxPointerWidth;
    UINT MaxPointerHeight;
    DXGK_POINTERFLAGS PointerCaps;
    UINT InterruptMessageNumber;
    UINT NumberOfSwizzlingRanges;
    UINT MaxOverlays;
    __extension__ union {
        DXGK_GAMMARAMPCAPS GammaRampCaps;
        DXGK_COLORTRANSFORMCAPS ColorTransformCaps;
    };
    DXGK_PRESENTATIONCAPS PresentationCaps;
    UINT MaxQueuedFlipOnVSync;
    DXGK_FLIPCAPS FlipCaps;
    DXGK_VIDSCHCAPS SchedulingCaps;
    DXGK_VIDMMCAPS MemoryManagementCaps;
    DXGK_GPUENGINETOPOLOGY GpuEngineTopology;
    DXGK_WDDMVERSION WDDMVersion;
    DXGK_VIRTUALADDRESSCAPS_DEPRECATED Reserved;
    DXGK_DMABUFFERCAPS_DEPRECATED Reserved1;
    D3DKMDT_PREEMPTION_CAPS PreemptionCaps;
    UCHAR SupportNonVGA;
    UCHAR SupportSmoothRotation;
    UCHAR SupportPerEngineTDR;
    UCHAR SupportDirectFlip;
    UCHAR SupportMultiPlaneOverlay;
    UCHAR SupportRuntimePowerManagement;
    UCHAR SupportSurpriseRemovalInHibernation;
    UCHAR HybridDiscrete;
    UINT MaxOverlayPlanes;
    UCHAR HybridIntegrated;
    D3DGPU_VIRTUAL_ADDRESS InternalGpuVirtualAddressRangeStart;
    D3DGPU_VIRTUAL_ADDRESS InternalGpuVirtualAddressRangeEnd;
    UCHAR SupportSurpriseRemoval;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_1
    UCHAR SupportMultiPlaneOverlayImmediateFlip;
    UCHAR CursorScaledWithMultiPlaneOverlayPlane0;
    UCHAR HybridAcpiChainingRequired;
    UINT MaxQueuedMultiPlaneOverlayFlipVSync;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_4
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT SupportContextlessPresent : 1;
                UINT Detachable : 1;
                UINT VirtualGpuOnly : 1;
                UINT ComputeOnly : 1;
                UINT IndependentVidPnVSyncControl : 1;
                UINT NoHybridDiscreteDListDllSupport : 1;
                UINT DisplayableSupport : 1;
                UINT NoHybridDiscreteDListDllMuxSupport : 1;
                UINT CursorDoesNotSupportXorBlendWithMultiPlaneOverlay : 1;
                UINT Reserved : 23;
            };
            UINT Value;
        };
    } MiscCaps;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_9
    UINT MaxHwQueuedFlips;
    DXGK_HWQUEUEDFLIP_CAPS HwQueuedFlipCaps;
#endif
} DXGK_DRIVERCAPS;

typedef struct DXGK_WDDMDEVICECAPS {
    DXGK_WDDMVERSION WDDMVersion;
} DXGK_WDDMDEVICECAPS;

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

/* No flags are defined: reserved, zero */
typedef struct DXGKARGCB_ISFEATUREENABLED2_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARGCB_ISFEATUREENABLED2_FLAGS;

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

typedef struct DXGKARGCB_ISFEATUREENABLED2 {
    DXGK_FEATURE_ID FeatureId;
    DXGKARGCB_ISFEATUREENABLED2_FLAGS Flags;
    DXGK_ISFEATUREENABLED_RESULT Result;
} DXGKARGCB_ISFEATUREENABLED2;

typedef NTSTATUS (*DXGKCB_ISFEATUREENABLED2)(HANDLE hAdapter, DXGKARGCB_ISFEATUREENABLED2 *Args);

typedef struct DXGKARGCB_QUERYFEATUREINTERFACE {
    DXGK_FEATURE_ID FeatureId;
    DXGK_FEATURE_VERSION Version;
    USHORT InterfaceSize;
    VOID *Interface;
} DXGKARGCB_QUERYFEATUREINTERFACE;

typedef NTSTATUS (*DXGKCB_QUERYFEATUREINTERFACE)(HANDLE hAdapter, DXGKARGCB_QUERYFEATUREINTERFACE *Args);

typedef struct DXGK_FEATURE_INTERFACE {
    USHORT Size;
    USHORT Version;
    VOID *Context;
    PINTERFACE_REFERENCE InterfaceReference;
    PINTERFACE_REFERENCE InterfaceDereference;
    DXGKCB_ISFEATUREENABLED2 IsFeatureEnabled;
    DXGKCB_QUERYFEATUREINTERFACE QueryFeatureInterface;
} DXGK_FEATURE_INTERFACE;

typedef struct DXGKARG_QUERYFEATURESUPPORT {
    DXGK_FEATURE_ID FeatureId;
    DXGK_FEATURE_VERSION MinSupportedVersion;
    DXGK_FEATURE_VERSION MaxSupportedVersion;
    UCHAR AllowExperimental;
    UCHAR SupportedByDriver;
    UCHAR SupportedOnCurrentConfig;
} DXGKARG_QUERYFEATURESUPPORT;

typedef NTSTATUS DXGKDDI_QUERYFEATURESUPPORT(HANDLE hAdapter, DXGKARG_QUERYFEATURESUPPORT *Args);
typedef DXGKDDI_QUERYFEATURESUPPORT *PDXGKDDI_QUERYFEATURESUPPORT;

typedef struct DXGKARG_QUERYFEATUREINTERFACE {
    DXGK_FEATURE_ID FeatureId;
    DXGK_FEATURE_VERSION Version;
    USHORT InterfaceSize;
    VOID *Interface;
} DXGKARG_QUERYFEATUREINTERFACE;

typedef NTSTATUS DXGKDDI_QUERYFEATUREINTERFACE(HANDLE hAdapter, DXGKARG_QUERYFEATUREINTERFACE *Args);
typedef DXGKDDI_QUERYFEATUREINTERFACE *PDXGKDDI_QUERYFEATUREINTERFACE;

typedef struct DXGKDDI_FEATURE_INTERFACE {
    USHORT Size;
    USHORT Version;
    VOID *Context;
    PINTERFACE_REFERENCE InterfaceReference;
    PINTERFACE_REFERENCE InterfaceDereference;
    PDXGKDDI_QUERYFEATURESUPPORT QueryFeatureSupport;
    PDXGKDDI_QUERYFEATUREINTERFACE QueryFeatureInterface;
} DXGKDDI_FEATURE_INTERFACE;

typedef struct DXGKARGCB_ISFEATUREENABLED {
    HANDLE DeviceHandle;
    DXGK_FEATURE_ID FeatureId;
    UCHAR Enabled;
} DXGKARGCB_ISFEATUREENABLED;

typedef struct DXGKARGCB_QUERYFEATURESUPPORT {
    HANDLE DeviceHandle;
    DXGK_FEATURE_ID FeatureId;
    UINT DriverSupportState;
    UCHAR Enabled;
} DXGKARGCB_QUERYFEATURESUPPORT;

/* Kinds of native fence the operating system can place, besides the default */
typedef struct DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1 {
    UINT SupportOptimizedDefaultFenceType : 1;
    UINT SupportIntraGpuFenceType : 1;
    UINT : 30;
} DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1;

typedef NTSTATUS (*DXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1)(DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1 *Caps);

/* Callbacks of the native-fence feature, version 1 */
typedef struct DXGKCBINT_FEATURE_NATIVEFENCE_1 {
    DXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1 GetOSCaps;
} DXGKCBINT_FEATURE_NATIVEFENCE_1;

/* No flags are defined: reserved, zero */
typedef struct DXGKARG_CREATENATIVEFENCE_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARG_CREATENATIVEFENCE_FLAGS;

typedef struct DXGKARG_CREATENATIVEFENCE {
    HANDLE hGlobalNativeFence;
    D3DDDI_NATIVEFENCE_TYPE Type;
    D3DGPU_VIRTUAL_ADDRESS CurrentValueSystemProcessGpuVa;
    D3DGPU_VIRTUAL_ADDRESS MonitoredValueSystemProcessGpuVa;
    UCHAR pPrivateDriverData[64];
    DXGKARG_CREATENATIVEFENCE_FLAGS Flags;
    UCHAR Reserved[32];
} DXGKARG_CREATENATIVEFENCE;

/* No flags are defined: reserved, zero */
typedef struct DXGK_OPENNATIVEFENCE_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGK_OPENNATIVEFENCE_FLAGS;

typedef struct DXGKARG_OPENNATIVEFENCE {
    HANDLE hGlobalNativeFence;
    HANDLE hLocalNativeFence;
    HANDLE hDevice;
    D3DGPU_VIRTUAL_ADDRESS CurrentValueGpuVa;
    D3DGPU_VIRTUAL_ADDRESS MonitoredValueGpuVa;
    DXGK_OPENNATIVEFENCE_FLAGS Flags;
    UCHAR pPrivateDriverData[64];
    UCHAR Reserved[32];
} DXGKARG_OPENNATIVEFENCE;

/* No flags are defined: reserved, zero */
typedef struct DXGK_CLOSENATIVEFENCE_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGK_CLOSENATIVEFENCE_FLAGS;

typedef struct DXGKARG_CLOSENATIVEFENCE {
    HANDLE hLocalNativeFence;
    DXGK_CLOSENATIVEFENCE_FLAGS Flags;
    UCHAR Reserved[32];
} DXGKARG_CLOSENATIVEFENCE;

/* No flags are defined: reserved, zero */
typedef struct DXGK_DESTROYNATIVEFENCE_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGK_DESTROYNATIVEFENCE_FLAGS;

typedef struct DXGKARG_DESTROYNATIVEFENCE {
    HANDLE hGlobalNativeFence;
    DXGK_DESTROYNATIVEFENCE_FLAGS Flags;
    UCHAR Reserved[32];
} DXGKARG_DESTROYNATIVEFENCE;

/* No flags are defined: reserved, zero */
typedef struct DXGKARG_UPDATEMONITOREDVALUES_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARG_UPDATEMONITOREDVALUES_FLAGS;

typedef struct DXGKARG_UPDATEMONITOREDVALUES {
    HANDLE *NativeFenceArray;
    UINT64 *UpdatedValueArray;
    VOID * *MonitoredValueKernelCpuVa;
    UINT NumFences;
    DXGKARG_UPDATEMONITOREDVALUES_FLAGS Flags;
    UCHAR Reserved[28];
} DXGKARG_UPDATEMONITOREDVALUES;

typedef struct DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT AlwaysSignaled : 1;
            UINT NotificationOnly : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS;

typedef struct DXGKARG_UPDATECURRENTVALUESFROMCPU {
    HANDLE *NativeFenceArray;
    UINT64 *UpdatedValueArray;
    VOID * *CurrentValueKernelCpuVa;
    UINT NumFences;
    DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS Flags;
    UCHAR Reserved[28];
} DXGKARG_UPDATECURRENTVALUESFROMCPU;

/* What a log buffer records */
typedef enum DXGK_NATIVE_FENCE_LOG_TYPE {
    DXGK_NATIVE_FENCE_LOG_TYPE_WAITS = 1,
    DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS = 2,
} DXGK_NATIVE_FENCE_LOG_TYPE;

/* Start of a log buffer; the position is advanced by the GPU in one 64-bit write */
typedef struct DXGK_NATIVE_FENCE_LOG_HEADER {
    __extension__ union {
        __extension__ struct {
            UINT FirstFreeEntryIndex;
            UINT WraparoundCount;
        };
        UINT64 AtomicWraparoundAndEntryIndex;
    };
    DXGK_NATIVE_FENCE_LOG_TYPE Type;
    UINT64 NumberOfEntries;
    UINT64 Reserved[2];
} DXGK_NATIVE_FENCE_LOG_HEADER;

/* One wait or signal */
typedef struct DXGK_NATIVE_FENCE_LOG_ENTRY {
    UINT64 FenceValue;
    D3DKMT_HANDLE hNativeFence;
    UINT OperationType;
    UINT64 Reserved0;
    UINT64 FenceObservedGpuTimestamp;
    UINT64 Reserved1;
    UINT64 FenceEndGpuTimestamp;
} DXGK_NATIVE_FENCE_LOG_ENTRY;

/* A log buffer: the header, then as many entries as the header says */
typedef struct DXGK_NATIVE_FENCE_LOG_BUFFER {
    DXGK_NATIVE_FENCE_LOG_HEADER Header;
    DXGK_NATIVE_FENCE_LOG_ENTRY Entries[1];
} DXGK_NATIVE_FENCE_LOG_BUFFER;

/* No flags are defined: reserved, zero */
typedef struct DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS;

typedef struct DXGKARG_SETNATIVEFENCELOGBUFFER {
    HANDLE hHwQueue;
    UINT NumberOfEntries;
    DXGK_NATIVE_FENCE_LOG_BUFFER *LogBufferCpuVa;
    D3DGPU_VIRTUAL_ADDRESS LogBufferGpuVa;
    D3DGPU_VIRTUAL_ADDRESS LogBufferSystemProcessGpuVa;
    DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS Flags;
    UCHAR Reserved[32];
} DXGKARG_SETNATIVEFENCELOGBUFFER;

/* No flags are defined: reserved, zero */
typedef struct DXGKARG_UPDATENATIVEFENCELOGS_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGKARG_UPDATENATIVEFENCELOGS_FLAGS;

typedef struct DXGKARG_UPDATENATIVEFENCELOGS {
    UINT NumberOfQueues;
    HANDLE *hHWQueue;
    DXGKARG_UPDATENATIVEFENCELOGS_FLAGS Flags;
    UCHAR Reserved[32];
} DXGKARG_UPDATENATIVEFENCELOGS;

/* What a log entry tells */
typedef enum DXGK_NATIVE_FENCE_LOG_OPERATION {
    DXGK_NATIVE_FENCE_LOG_OPERATION_SIGNAL_EXECUTED = 0,
    DXGK_NATIVE_FENCE_LOG_OPERATION_WAIT_UNBLOCKED = 1,
} DXGK_NATIVE_FENCE_LOG_OPERATION;

typedef NTSTATUS (*DXGKCB_EVAL_ACPI_METHOD)(HANDLE DeviceHandle, ULONG DeviceUid, VOID *AcpiInputBuffer, ULONG AcpiInputSize, VOID *AcpiOutputBuffer, ULONG AcpiOutputSize);

/* Whether the machine sits in a dock */
typedef enum DOCKING_STATE {
    DockStateUnsupported = 0,
    DockStateUnDocked = 1,
    DockStateDocked = 2,
    DockStateUnknown = 3,
} DOCKING_STATE;

typedef struct DXGK_DEVICE_INFO {
    VOID *MiniportDeviceContext;
    VOID *PhysicalDeviceObject;
    UNICODE_STRING DeviceRegistryPath;
    CM_RESOURCE_LIST *TranslatedResourceList;
    LARGE_INTEGER SystemMemorySize;
    PHYSICAL_ADDRESS HighestPhysicalAddress;
    PHYSICAL_ADDRESS AgpApertureBase;
    SIZE_T AgpApertureSize;
    DOCKING_STATE DockingState;
} DXGK_DEVICE_INFO;

typedef NTSTATUS (*DXGKCB_GET_DEVICE_INFORMATION)(HANDLE DeviceHandle, DXGK_DEVICE_INFO *DeviceInfo);

typedef NTSTATUS (*DXGKCB_MAP_MEMORY)(HANDLE DeviceHandle, PHYSICAL_ADDRESS TranslatedAddress, ULONG Length, BOOLEAN InIoSpace, BOOLEAN MapToUserMode, MEMORY_CACHING_TYPE CacheType, VOID * *VirtualAddress);

typedef BOOLEAN (*DXGKCB_QUEUE_DPC)(HANDLE DeviceHandle);

typedef enum DXGK_SERVICES {
    DxgkServicesAgp = 0,
    DxgkServicesDebugReport = 1,
    DxgkServicesTimedOperation = 2,
    DxgkServicesSPB = 3,
    DxgkServicesBDD = 4,
    DxgkServicesFirmwareTable = 5,
    DxgkServicesIDD = 6,
    DxgkServicesFeature = 7,
} DXGK_SERVICES;

typedef NTSTATUS (*DXGKCB_QUERY_SERVICES)(HANDLE DeviceHandle, DXGK_SERVICES ServicesType, INTERFACE *Interface);

typedef NTSTATUS (*DXGKCB_READ_DEVICE_SPACE)(HANDLE DeviceHandle, ULONG DataType, VOID *Buffer, ULONG Offset, ULONG Length, ULONG *BytesRead);

typedef NTSTATUS (*DXGKCB_SYNCHRONIZE_EXECUTION)(HANDLE DeviceHandle, PKSYNCHRONIZE_ROUTINE SynchronizeRoutine, VOID *Context, ULONG MessageNumber, BOOLEAN *ReturnValue);

typedef NTSTATUS (*DXGKCB_UNMAP_MEMORY)(HANDLE DeviceHandle, VOID *VirtualAddress);

typedef NTSTATUS (*DXGKCB_WRITE_DEVICE_SPACE)(HANDLE DeviceHandle, ULONG DataType, VOID *Buffer, ULONG Offset, ULONG Length, ULONG *BytesWritten);

typedef NTSTATUS (*DXGKCB_IS_DEVICE_PRESENT)(HANDLE DeviceHandle, const PCI_DEVICE_PRESENCE_PARAMETERS *DevicePresenceParameters, BOOLEAN *DevicePresent);

/* Kind of a handle that is resolved */
typedef enum DXGK_HANDLE_TYPE {
    DXGK_HANDLE_ALLOCATION = 1,
    DXGK_HANDLE_RESOURCE = 2,
} DXGK_HANDLE_TYPE;

/* Variants of resolving a handle */
typedef struct DXGKCB_GETHANDLEDATAFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT DeviceSpecific : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGKCB_GETHANDLEDATAFLAGS;

typedef struct DXGKARGCB_GETHANDLEDATA {
    D3DKMT_HANDLE hObject;
    DXGK_HANDLE_TYPE Type;
    DXGKCB_GETHANDLEDATAFLAGS Flags;
} DXGKARGCB_GETHANDLEDATA;

typedef VOID * (*DXGKCB_GETHANDLEDATA)(const DXGKARGCB_GETHANDLEDATA *Data);

typedef D3DKMT_HANDLE (*DXGKCB_GETHANDLEPARENT)(D3DKMT_HANDLE hAllocation);

typedef struct DXGKARGCB_ENUMHANDLECHILDREN {
    D3DKMT_HANDLE hObject;
    UINT Index;
} DXGKARGCB_ENUMHANDLECHILDREN;

typedef D3DKMT_HANDLE (*DXGKCB_ENUMHANDLECHILDREN)(const DXGKARGCB_ENUMHANDLECHILDREN *Data);

typedef enum DXGK_INTERRUPT_TYPE {
    DXGK_INTERRUPT_DMA_COMPLETED = 1,
    DXGK_INTERRUPT_DMA_PREEMPTED = 2,
    DXGK_INTERRUPT_CRTC_VSYNC = 3,
    DXGK_INTERRUPT_DMA_FAULTED = 4,
    DXGK_INTERRUPT_DISPLAYONLY_VSYNC = 5,
    DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS = 6,
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY = 7,
    DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE = 8,
    DXGK_INTERRUPT_DMA_PAGE_FAULTED = 9,
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2 = 10,
    DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED = 11,
    DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED = 12,
    DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED = 13,
    DXGK_INTERRUPT_PERIODIC_MONITORED_FENCE_SIGNALED = 14,
    DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT = 15,
    DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT = 16,
    DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED = 17,
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3 = 18,
    DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED = 19,
    DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE = 20,
} DXGK_INTERRUPT_TYPE;

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

/* State of an engine that the driver reports on its own */
typedef enum DXGK_ENGINE_STATE {
    DXGK_ENGINE_STATE_ACTIVE = 0,
    DXGK_ENGINE_STATE_TRANSITION_TO_F1 = 1,
    DXGK_ENGINE_STATE_HUNG = 2,
} DXGK_ENGINE_STATE;

/* What else an interrupt says */
typedef struct DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT ValidPhysicalAdapterMask : 1;
            UINT HsyncFlipCompletion : 1;
            UINT EvaluateLegacyMonitoredFences : 1;
            UINT Reserved : 29;
        };
        UINT Value;
    };
} DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS;

typedef struct DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    DXGK_INTERRUPT_TYPE InterruptType;
    __extension__ union {
        __extension__ struct {
            UINT SubmissionFenceId;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } DmaCompleted;
        __extension__ struct {
            UINT PreemptionFenceId;
            UINT LastCompletedFenceId;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } DmaPreempted;
        __extension__ struct {
            UINT FaultedFenceId;
            NTSTATUS Status;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } DmaFaulted;
        __extension__ struct {
            UINT FaultedFenceId;
            UINT64 FaultedPrimitiveAPISequenceNumber;
            DXGK_RENDER_PIPELINE_STAGE FaultedPipelineStage;
            UINT FaultedBindTableEntry;
            DXGK_PAGE_FAULT_FLAGS PageFaultFlags;
            D3DGPU_VIRTUAL_ADDRESS FaultedVirtualAddress;
            UINT NodeOrdinal;
            UINT EngineOrdinal;
            UINT PageTableLevel;
            DXGK_FAULT_ERROR_CODE FaultErrorCode;
            HANDLE FaultedProcessHandle;
        } DmaPageFaulted;
        __extension__ struct {
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } MonitoredFenceSignaled;
        __extension__ struct {
            UINT NodeOrdinal;
            UINT EngineOrdinal;
            UINT64 ContextSwitchFence;
        } HwContextListSwitchCompleted;
        __extension__ struct {
            UINT64 FaultedFenceId;
            D3DGPU_VIRTUAL_ADDRESS FaultedVirtualAddress;
            UINT64 FaultedPrimitiveAPISequenceNumber;
            __extension__ union {
                HANDLE FaultedHwQueue;
                HANDLE FaultedHwContext;
                HANDLE FaultedProcessHandle;
            };
            UINT NodeOrdinal;
            UINT EngineOrdinal;
            DXGK_RENDER_PIPELINE_STAGE FaultedPipelineStage;
            UINT FaultedBindTableEntry;
            DXGK_PAGE_FAULT_FLAGS PageFaultFlags;
            UINT PageTableLevel;
            DXGK_FAULT_ERROR_CODE FaultErrorCode;
        } HwQueuePageFaulted;
        __extension__ struct {
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } SchedulingLogInterrupt;
        __extension__ struct {
            UINT NodeOrdinal;
            UINT EngineOrdinal;
        } GpuEngineTimeout;
        __extension__ struct {
            HANDLE hContext;
            UINT64 ContextSuspendFence;
        } SuspendContextCompleted;
        __extension__ struct {
            UINT NodeOrdinal;
            UINT EngineOrdinal;
            UINT SignaledNativeFenceCount;
            HANDLE *pSignaledNativeFenceArray;
            HANDLE hHWQueue;
        } NativeFenceSignaled;
        __extension__ struct {
            UINT NodeOrdinal;
            UINT EngineOrdinal;
            DXGK_ENGINE_STATE NewState;
        } EngineStateChange;
        __extension__ struct {
            UINT Reserved[16];
        } Reserved;
    };
    DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS Flags;
} DXGKARGCB_NOTIFY_INTERRUPT_DATA;

typedef VOID (*DXGKCB_NOTIFY_INTERRUPT)(HANDLE hAdapter, const DXGKARGCB_NOTIFY_INTERRUPT_DATA *Data);

typedef VOID (*DXGKCB_NOTIFY_DPC)(HANDLE hAdapter);

typedef VOID (*DXGKCB_LOG_ETW_EVENT)(const GUID *EventGuid, UCHAR Type, USHORT EventBufferSize, VOID *EventBuffer);

typedef NTSTATUS (*DXGKCB_SETPOWERCOMPONENTACTIVE)(HANDLE hAdapter, UINT ComponentIndex);

typedef NTSTATUS (*DXGKCB_SETPOWERCOMPONENTIDLE)(HANDLE hAdapter, UINT ComponentIndex);

typedef VOID (*DXGKCB_SETPOWERCOMPONENTLATENCY)(HANDLE hAdapter, UINT ComponentIndex, UINT64 Latency);

typedef VOID (*DXGKCB_SETPOWERCOMPONENTRESIDENCY)(HANDLE hAdapter, UINT ComponentIndex, UINT64 Residency);

typedef VOID (*DXGKCB_COMPLETEFSTATETRANSITION)(HANDLE hAdapter, UINT ComponentIndex);

typedef VOID * (*DXGKCB_ACQUIREHANDLEDATA)(const DXGKARGCB_GETHANDLEDATA *Data, HANDLE *ReleaseHandle);

typedef struct DXGKARGCB_RELEASEHANDLEDATA {
    HANDLE ReleaseHandle;
    DXGK_HANDLE_TYPE Type;
} DXGKARGCB_RELEASEHANDLEDATA;

typedef VOID (*DXGKCB_RELEASEHANDLEDATA)(DXGKARGCB_RELEASEHANDLEDATA Data);

/* Who is to blame */
typedef struct DXGK_INVALIDATEHWCONTEXTFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT CollateralDamage : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_INVALIDATEHWCONTEXTFLAGS;

typedef struct DXGKARGCB_INVALIDATEHWCONTEXT {
    HANDLE hAdapter;
    HANDLE hHwContext;
    DXGK_INVALIDATEHWCONTEXTFLAGS Flags;
} DXGKARGCB_INVALIDATEHWCONTEXT;

typedef NTSTATUS (*DXGKCB_INVALIDATEHWCONTEXT)(const DXGKARGCB_INVALIDATEHWCONTEXT *Data);

/* Cache attribute of memory for the device */
typedef enum DXGK_MEMORY_CACHING_TYPE {
    DXGK_MEMORY_CACHING_TYPE_NON_CACHED = 0,
    DXGK_MEMORY_CACHING_TYPE_CACHED = 1,
    DXGK_MEMORY_CACHING_TYPE_WRITE_COMBINED = 2,
} DXGK_MEMORY_CACHING_TYPE;

typedef struct DXGKARGCB_ALLOCATECONTIGUOUSMEMORY {
    SIZE_T NumberOfBytes;
    PHYSICAL_ADDRESS LowestAcceptableAddress;
    PHYSICAL_ADDRESS HighestAcceptableAddress;
    PHYSICAL_ADDRESS BoundaryAddressMultiple;
    DXGK_MEMORY_CACHING_TYPE CacheType;
    HANDLE hMemoryHandle;
    VOID *pMemory;
} DXGKARGCB_ALLOCATECONTIGUOUSMEMORY;

typedef NTSTATUS (*DXGKCB_ALLOCATECONTIGUOUSMEMORY)(HANDLE hAdapter, DXGKARGCB_ALLOCATECONTIGUOUSMEMORY *Args);

typedef struct DXGKARGCB_FREECONTIGUOUSMEMORY {
    HANDLE hMemoryHandle;
} DXGKARGCB_FREECONTIGUOUSMEMORY;

typedef NTSTATUS (*DXGKCB_FREECONTIGUOUSMEMORY)(HANDLE hAdapter, const DXGKARGCB_FREECONTIGUOUSMEMORY *Args);

typedef NTSTATUS (*DXGKCB_ISFEATUREENABLED)(DXGKARGCB_ISFEATUREENABLED *Args);

typedef NTSTATUS (*DXGKCB_QUERYFEATURESUPPORT)(DXGKARGCB_QUERYFEATURESUPPORT *Args);

typedef NTSTATUS (*DXGKCB_DISCONNECTDOORBELL)(const DXGKARGCB_DISCONNECTDOORBELL *Args);

typedef struct DXGKRNL_INTERFACE {
    UINT Size;
    UINT Version;
    HANDLE DeviceHandle;
    DXGKCB_EVAL_ACPI_METHOD DxgkCbEvalAcpiMethod;
    DXGKCB_GET_DEVICE_INFORMATION DxgkCbGetDeviceInformation;
    PVOID DxgkCbIndicateChildStatus;
    DXGKCB_MAP_MEMORY DxgkCbMapMemory;
    DXGKCB_QUEUE_DPC DxgkCbQueueDpc;
    DXGKCB_QUERY_SERVICES DxgkCbQueryServices;
    DXGKCB_READ_DEVICE_SPACE DxgkCbReadDeviceSpace;
    DXGKCB_SYNCHRONIZE_EXECUTION DxgkCbSynchronizeExecution;
    DXGKCB_UNMAP_MEMORY DxgkCbUnmapMemory;
    DXGKCB_WRITE_DEVICE_SPACE DxgkCbWriteDeviceSpace;
    DXGKCB_IS_DEVICE_PRESENT DxgkCbIsDevicePresent;
    DXGKCB_GETHANDLEDATA DxgkCbGetHandleData;
    DXGKCB_GETHANDLEPARENT DxgkCbGetHandleParent;
    DXGKCB_ENUMHANDLECHILDREN DxgkCbEnumHandleChildren;
    DXGKCB_NOTIFY_INTERRUPT DxgkCbNotifyInterrupt;
    DXGKCB_NOTIFY_DPC DxgkCbNotifyDpc;
    PVOID DxgkCbQueryVidPnInterface;
    PVOID DxgkCbQueryMonitorInterface;
    PVOID DxgkCbGetCaptureAddress;
    DXGKCB_LOG_ETW_EVENT DxgkCbLogEtwEvent;
    PVOID DxgkCbExcludeAdapterAccess;
    PVOID DxgkCbCreateContextAllocation;
    PVOID DxgkCbDestroyContextAllocation;
    DXGKCB_SETPOWERCOMPONENTACTIVE DxgkCbSetPowerComponentActive;
    DXGKCB_SETPOWERCOMPONENTIDLE DxgkCbSetPowerComponentIdle;
    PVOID DxgkCbAcquirePostDisplayOwnership;
    PVOID DxgkCbPowerRuntimeControlRequest;
    DXGKCB_SETPOWERCOMPONENTLATENCY DxgkCbSetPowerComponentLatency;
    DXGKCB_SETPOWERCOMPONENTRESIDENCY DxgkCbSetPowerComponentResidency;
    DXGKCB_COMPLETEFSTATETRANSITION DxgkCbCompleteFStateTransition;
    PVOID DxgkCbCompletePStateTransition;
    PVOID DxgkCbMapContextAllocation;
    PVOID DxgkCbUpdateContextAllocation;
    PVOID DxgkCbReserveGpuVirtualAddressRange;
    DXGKCB_ACQUIREHANDLEDATA DxgkCbAcquireHandleData;
    DXGKCB_RELEASEHANDLEDATA DxgkCbReleaseHandleData;
    PVOID DxgkCbHardwareContentProtectionTeardown;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_1
    PVOID DxgkCbMultiPlaneOverlayDisabled;
    PVOID DxgkCbMitigatedRangeUpdate;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_2
    DXGKCB_INVALIDATEHWCONTEXT DxgkCbInvalidateHwContext;
    PVOID DxgkCbIndicateConnectorChange;
    PVOID DxgkCbUnblockUEFIFrameBufferRanges;
    PVOID DxgkCbAcquirePostDisplayOwnership2;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_3
    PVOID DxgkCbSetProtectedSessionStatus;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_4
    DXGKCB_ALLOCATECONTIGUOUSMEMORY DxgkCbAllocateContiguousMemory;
    DXGKCB_FREECONTIGUOUSMEMORY DxgkCbFreeContiguousMemory;
    PVOID DxgkCbAllocatePagesForMdl;
    PVOID DxgkCbFreePagesFromMdl;
    PVOID DxgkCbPinFrameBufferForSave;
    PVOID DxgkCbUnpinFrameBufferForSave;
    PVOID DxgkCbMapFrameBufferPointer;
    PVOID DxgkCbUnmapFrameBufferPointer;
    PVOID DxgkCbMapMdlToIoMmu;
    PVOID DxgkCbUnmapMdlFromIoMmu;
    PVOID DxgkCbReportDiagnostic;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_5
    PVOID DxgkCbSignalEvent;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_6
    DXGKCB_ISFEATUREENABLED DxgkCbIsFeatureEnabled;
    PVOID DxgkCbSaveMemoryForHotUpdate;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_8
    PVOID DxgkCbNotifyCursorSupportChange;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_9
    DXGKCB_QUERYFEATURESUPPORT DxgkCbQueryFeatureSupport;
    PVOID DxgkCbCreatePhysicalMemoryObject;
    PVOID DxgkCbDestroyPhysicalMemoryObject;
    PVOID DxgkCbMapPhysicalMemory;
    PVOID DxgkCbUnmapPhysicalMemory;
    PVOID DxgkCbAllocateAdl;
    PVOID DxgkCbFreeAdl;
    PVOID DxgkCbOpenPhysicalMemoryObject;
    PVOID DxgkCbClosePhysicalMemoryObject;
    PVOID DxgkCbPinFrameBufferForSave2;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM3_1
    DXGKCB_DISCONNECTDOORBELL DxgkCbDisconnectDoorbell;
#endif
} DXGKRNL_INTERFACE;

/* Physical address of the GPU: an offset in a segment */
typedef struct D3DGPU_PHYSICAL_ADDRESS {
    UINT SegmentId;
    UINT Padding;
    UINT64 SegmentOffset;
} D3DGPU_PHYSICAL_ADDRESS;

typedef struct DXGKARG_SETROOTPAGETABLE {
    HANDLE hContext;
    D3DGPU_PHYSICAL_ADDRESS Address;
    UINT NumEntries;
} DXGKARG_SETROOTPAGETABLE;

typedef struct DXGKARG_GETROOTPAGETABLESIZE {
    UINT NumberOfPte;
    UINT PhysicalAdapterIndex;
} DXGKARG_GETROOTPAGETABLESIZE;

typedef struct DXGKARG_MAPCPUHOSTAPERTURE {
    HANDLE hAllocation;
    USHORT SegmentId;
    USHORT PhysicalAdapterIndex;
    UINT64 NumberOfPages;
    UINT *pCpuHostAperturePages;
    UINT64 *pMemorySegmentPages;
} DXGKARG_MAPCPUHOSTAPERTURE;

typedef struct DXGKARG_UNMAPCPUHOSTAPERTURE {
    UINT64 NumberOfPages;
    UINT *pCpuHostAperturePages;
    USHORT SegmentId;
    USHORT PhysicalAdapterIndex;
} DXGKARG_UNMAPCPUHOSTAPERTURE;

/* How page-table entries are written: by the CPU, or by the GPU at virtual or physical addresses */
typedef enum DXGK_PAGETABLEUPDATEMODE {
    DXGK_PAGETABLEUPDATE_CPU_VIRTUAL = 0,
    DXGK_PAGETABLEUPDATE_GPU_VIRTUAL = 1,
    DXGK_PAGETABLEUPDATE_GPU_PHYSICAL = 2,
} DXGK_PAGETABLEUPDATEMODE;

typedef struct DXGK_GPUMMUCAPS {
    __extension__ struct {
        __extension__ union {
            __extension__ struct {
                UINT ReadOnlyMemorySupported : 1;
                UINT NoExecuteMemorySupported : 1;
                UINT ZeroInPteSupported : 1;
                UINT ExplicitPageTableInvalidation : 1;
                UINT CacheCoherentMemorySupported : 1;
                UINT PageTableUpdateRequireAddressSpaceIdle : 1;
                UINT LargePageSupported : 1;
                UINT DualPteSupported : 1;
                UINT AllowNonAlignedLargePageAddress : 1;
                UINT SysMem64KBPageSupported : 1;
                UINT InvalidTlbEntriesNotCached : 1;
                UINT SysMemLargePageSupported : 1;
                UINT CachedPageTables : 1;
                UINT Reserved : 19;
            };
            UINT Value;
        };
    };
    DXGK_PAGETABLEUPDATEMODE PageTableUpdateMode;
    UINT VirtualAddressBitCount;
    UINT LeafPageTableSizeFor64KPagesInBytes;
    UINT PageTableLevelCount;
    __extension__ struct {
        UINT SourcePageTableVaInTransfer : 1;
        UINT Reserved : 31;
    } LegacyBehaviors;
} DXGK_GPUMMUCAPS;

typedef struct DXGK_QUERYGPUMMUCAPSIN {
    UINT PhysicalAdapterIndex;
} DXGK_QUERYGPUMMUCAPSIN;

typedef struct DXGK_PAGE_TABLE_LEVEL_DESC {
    UINT PageTableIndexBitCount;
    UINT PageTableSegmentId;
    UINT PagingProcessPageTableSegmentId;
    UINT PageTableSizeInBytes;
    UINT PageTableAlignmentInBytes;
} DXGK_PAGE_TABLE_LEVEL_DESC;

typedef struct DXGK_QUERYPAGETABLELEVELDESCIN {
    USHORT LevelIndex;
    USHORT PhysicalAdapterIndex;
} DXGK_QUERYPAGETABLELEVELDESCIN;

/* Properties of one physical adapter */
typedef struct DXGK_PHYSICALADAPTERFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT IoMmuSupported : 1;
            UINT GpuMmuSupported : 1;
            UINT MovePagingSupported : 1;
            UINT VPRPagingContextRequired : 1;
            UINT AllowHardwareProtectedNoVpr : 1;
            UINT VirtualCopyEngineSupported : 1;
            UINT GpuVaIommuRequired : 1;
            UINT GpuVaIommuGlobalRequired : 1;
            UINT GpuVaIommuCacheCoherent : 1;
            UINT Reserved : 23;
        };
        UINT Value;
    };
} DXGK_PHYSICALADAPTERFLAGS;

typedef struct DXGK_PHYSICALADAPTERCAPS {
    USHORT NumExecutionNodes;
    USHORT PagingNodeIndex;
    HANDLE DxgkPhysicalAdapterHandle;
    DXGK_PHYSICALADAPTERFLAGS Flags;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_1
    UINT VPRPagingNode;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_7
    UINT VirtualCopyNodeIndex;
#endif
} DXGK_PHYSICALADAPTERCAPS;

typedef struct DXGK_QUERYPHYSICALADAPTERCAPSIN {
    UINT PhysicalAdapterIndex;
} DXGK_QUERYPHYSICALADAPTERCAPSIN;

/* Properties of a memory segment */
typedef struct DXGK_SEGMENTFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Aperture : 1;
            UINT Agp : 1;
            UINT CpuVisible : 1;
            UINT UseBanking : 1;
            UINT CacheCoherent : 1;
            UINT PitchAlignment : 1;
            UINT PopulatedFromSystemMemory : 1;
            UINT PreservedDuringStandby : 1;
            UINT PreservedDuringHibernate : 1;
            UINT PartiallyPreservedDuringHibernate : 1;
            UINT DirectFlip : 1;
            UINT Use64KBPages : 1;
            UINT ReservedSysMem : 1;
            UINT SupportsCpuHostAperture : 1;
            UINT SupportsCachedCpuHostAperture : 1;
            UINT ApplicationTarget : 1;
            UINT VprSupported : 1;
            UINT VprPreservedDuringStandby : 1;
            UINT EncryptedPagingSupported : 1;
            UINT LocalBudgetGroup : 1;
            UINT NonLocalBudgetGroup : 1;
            UINT PopulatedByReservedDDRByFirmware : 1;
            UINT Reserved : 10;
        };
        UINT Value;
    };
} DXGK_SEGMENTFLAGS;

/* Window through which the CPU sees parts of a segment */
typedef struct DXGK_CPUHOSTAPERTURE {
    UINT64 PhysicalAddress;
    UINT SizeInPages;
} DXGK_CPUHOSTAPERTURE;

typedef struct DXGK_SEGMENTDESCRIPTOR4 {
    DXGK_SEGMENTFLAGS Flags;
    PHYSICAL_ADDRESS BaseAddress;
    SIZE_T Size;
    SIZE_T CommitLimit;
    SIZE_T SystemMemoryEndAddress;
    __extension__ union {
        PHYSICAL_ADDRESS CpuTranslatedAddress;
        DXGK_CPUHOSTAPERTURE CpuHostAperture;
    };
    UINT NumInvalidMemoryRanges;
    SIZE_T VprRangeStartOffset;
    SIZE_T VprRangeSize;
    UINT VprAlignment;
    UINT NumVprSupported;
    UINT VprReserveSize;
    UINT NumUEFIFrameBufferRanges;
} DXGK_SEGMENTDESCRIPTOR4;

typedef struct DXGK_QUERYSEGMENTOUT4 {
    UINT NbSegment;
    UCHAR *pSegmentDescriptor;
    UINT PagingBufferSegmentId;
    UINT PagingBufferSize;
    UINT PagingBufferPrivateDataSize;
    SIZE_T SegmentDescriptorStride;
} DXGK_QUERYSEGMENTOUT4;

typedef struct DXGK_QUERYSEGMENTIN4 {
    UINT PhysicalAdapterIndex;
} DXGK_QUERYSEGMENTIN4;

/* Part of a memory segment */
typedef struct DXGK_MEMORYRANGE {
    UINT64 SegmentOffset;
    UINT64 SizeInBytes;
} DXGK_MEMORYRANGE;

typedef struct DXGK_QUERYSEGMENTMEMORYSTATE {
    USHORT DriverSegmentId;
    USHORT PhysicalAdapterIndex;
    __extension__ union {
        UINT NumInvalidMemoryRanges;
        UINT NumUEFIFrameBufferRanges;
    };
    DXGK_MEMORYRANGE *pMemoryRanges;
} DXGK_QUERYSEGMENTMEMORYSTATE;

typedef struct DXGK_FRAMEBUFFERSAVEAREA {
    SIZE_T MaximumSize;
} DXGK_FRAMEBUFFERSAVEAREA;

/* Part of physical memory */
typedef struct DXGK_PHYSICAL_MEMORY_RANGE {
    PHYSICAL_ADDRESS BaseAddress;
    LARGE_INTEGER NumberOfBytes;
} DXGK_PHYSICAL_MEMORY_RANGE;

typedef struct DXGK_HARDWARERESERVEDRANGES {
    UINT NumRanges;
    DXGK_PHYSICAL_MEMORY_RANGE *pPhysicalRanges;
} DXGK_HARDWARERESERVEDRANGES;

typedef enum DXGK_BUILDPAGINGBUFFER_OPERATION {
    DXGK_OPERATION_TRANSFER = 0,
    DXGK_OPERATION_FILL = 1,
    DXGK_OPERATION_DISCARD_CONTENT = 2,
    DXGK_OPERATION_READ_PHYSICAL = 3,
    DXGK_OPERATION_WRITE_PHYSICAL = 4,
    DXGK_OPERATION_MAP_APERTURE_SEGMENT = 5,
    DXGK_OPERATION_UNMAP_APERTURE_SEGMENT = 6,
    DXGK_OPERATION_SPECIAL_LOCK_TRANSFER = 7,
    DXGK_OPERATION_VIRTUAL_TRANSFER = 8,
    DXGK_OPERATION_VIRTUAL_FILL = 9,
    DXGK_OPERATION_INIT_CONTEXT_RESOURCE = 10,
    DXGK_OPERATION_UPDATE_PAGE_TABLE = 11,
    DXGK_OPERATION_FLUSH_TLB = 12,
    DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION = 13,
    DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES = 14,
    DXGK_OPERATION_NOTIFY_RESIDENCY = 15,
    DXGK_OPERATION_SIGNAL_MONITORED_FENCE = 16,
    DXGK_OPERATION_MAP_APERTURE_SEGMENT2 = 17,
    DXGK_OPERATION_NOTIFY_FENCE_RESIDENCY = 18,
    DXGK_OPERATION_MAP_MMU = 19,
    DXGK_OPERATION_UNMAP_MMU = 20,
    DXGK_OPERATION_NOTIFY_RESIDENCY2 = 21,
    DXGK_OPERATION_NOTIFY_ALLOC = 22,
} DXGK_BUILDPAGINGBUFFER_OPERATION;

/* Variants of a physical transfer */
typedef struct DXGK_TRANSFERFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Swizzle : 1;
            UINT Unswizzle : 1;
            UINT AllocationIsIdle : 1;
            UINT TransferStart : 1;
            UINT TransferEnd : 1;
            UINT Reserved : 27;
        };
        UINT Value;
    };
} DXGK_TRANSFERFLAGS;

/* Variants of a discard */
typedef struct DXGK_DISCARDCONTENTFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT AllocationIsIdle : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_DISCARDCONTENTFLAGS;

/* Variants of an aperture mapping */
typedef struct DXGK_MAPAPERTUREFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT CacheCoherent : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_MAPAPERTUREFLAGS;

/* Between which memories a transfer goes; a hint for the driver */
typedef enum DXGK_MEMORY_TRANSFER_DIRECTION {
    DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM = 0,
    DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL = 1,
    DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL = 2,
} DXGK_MEMORY_TRANSFER_DIRECTION;

/* Page sizes of a virtual transfer */
typedef struct DXGK_TRANSFERVIRTUALFLAGS {
    UINT Src64KBPages : 1;
    UINT Dst64KBPages : 1;
    UINT Reserved : 30;
} DXGK_TRANSFERVIRTUALFLAGS;

/* Copies between addresses of the paging process */
typedef struct DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
    HANDLE hAllocation;
    UINT64 AllocationOffsetInBytes;
    UINT64 TransferSizeInBytes;
    D3DGPU_VIRTUAL_ADDRESS SourceVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS DestinationVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS SourcePageTable;
    DXGK_MEMORY_TRANSFER_DIRECTION TransferDirection;
    DXGK_TRANSFERVIRTUALFLAGS Flags;
    D3DGPU_VIRTUAL_ADDRESS DestinationPageTable;
} DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL;

/* Fills memory at an address of the paging process */
typedef struct DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
    HANDLE hAllocation;
    UINT64 AllocationOffsetInBytes;
    UINT64 FillSizeInBytes;
    UINT FillPattern;
    D3DGPU_VIRTUAL_ADDRESS DestinationVirtualAddress;
} DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL;

/* Where entries are written, by update mode */
typedef union DXGK_PAGETABLEUPDATEADDRESS {
    VOID *CpuVirtual;
    D3DGPU_PHYSICAL_ADDRESS GpuPhysical;
    D3DGPU_VIRTUAL_ADDRESS GpuVirtual;
} DXGK_PAGETABLEUPDATEADDRESS;

/* One page-table entry in the operating system's form; the driver translates it into the GPU's */
typedef struct DXGK_PTE {
    __extension__ struct {
        UINT64 Valid : 1;
        UINT64 Zero : 1;
        UINT64 CacheCoherent : 1;
        UINT64 ReadOnly : 1;
        UINT64 NoExecute : 1;
        UINT64 Segment : 5;
        UINT64 LargePage : 1;
        UINT64 PhysicalAdapterIndex : 6;
        UINT64 PageTablePageSize : 2;
        UINT64 SystemReserved0 : 1;
        UINT64 Reserved : 44;
    };
    __extension__ union {
        UINT64 PageAddress;
        UINT64 PageTableAddress;
    };
} DXGK_PTE;

/* Variants of a page-table update */
typedef struct DXGK_UPDATEPAGETABLEFLAGS {
    UINT Repeat : 1;
    UINT InitialUpdate : 1;
    UINT NotifyEviction : 1;
    UINT Use64KBPages : 1;
    UINT NativeFence : 1;
    UINT Reserved : 27;
} DXGK_UPDATEPAGETABLEFLAGS;

/* Writes entries of one table */
typedef struct DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
    UINT PageTableLevel;
    HANDLE hAllocation;
    DXGK_PAGETABLEUPDATEADDRESS PageTableAddress;
    DXGK_PTE *pPageTableEntries;
    UINT StartIndex;
    UINT NumPageTableEntries;
    UINT Reserved0;
    DXGK_UPDATEPAGETABLEFLAGS Flags;
    UINT64 DriverProtection;
    UINT64 AllocationOffsetInBytes;
    HANDLE hProcess;
    DXGK_PAGETABLEUPDATEMODE UpdateMode;
    DXGK_PTE *pPageTableEntries64KB;
    D3DGPU_VIRTUAL_ADDRESS FirstPteVirtualAddress;
} DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE;

/* Forgets translations of an address space; start and end 0 mean all of it */
typedef struct DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
    D3DGPU_PHYSICAL_ADDRESS RootPageTableAddress;
    HANDLE hProcess;
    D3DGPU_VIRTUAL_ADDRESS StartVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS EndVirtualAddress;
} DXGK_BUILDPAGINGBUFFER_FLUSHTLB;

/* Entries to be copied between two tables */
typedef struct DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
    UINT NumPageTableEntries;
    D3DGPU_VIRTUAL_ADDRESS SrcPageTableAddress;
    D3DGPU_VIRTUAL_ADDRESS DstPageTableAddress;
    UINT SrcStartPteIndex;
    UINT DstStartPteIndex;
} DXGK_BUILDPAGINGBUFFER_COPY_RANGE;

/* Copies ranges of entries */
typedef struct DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
    UINT NumRanges;
    DXGK_BUILDPAGINGBUFFER_COPY_RANGE *pRanges;
} DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES;

/* Writes driver data into a context allocation */
typedef struct DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION {
    D3DGPU_VIRTUAL_ADDRESS ContextAllocation;
    UINT64 ContextAllocationSize;
    VOID *pDriverPrivateData;
    UINT DriverPrivateDataSize;
} DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION;

/* Tells where an allocation lies now; address (0, 0) means evicted */
typedef struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
    HANDLE hAllocation;
    D3DGPU_PHYSICAL_ADDRESS PhysicalAddress;
    __extension__ struct {
        UINT Resident : 1;
        UINT : 31;
    };
} DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY;

/* Writes a 64-bit value at an address of the paging process, after everything before it */
typedef struct DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE {
    D3DGPU_VIRTUAL_ADDRESS MonitoredFenceGpuVa;
    UINT64 MonitoredFenceValue;
} DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE;

/* Form of an address descriptor list */
typedef struct DXGK_ADL_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Contiguous : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_ADL_FLAGS;

/* Address descriptor list: physical pages of 4 KiB */
typedef struct DXGK_ADL {
    UINT PageCount;
    DXGK_ADL_FLAGS Flags;
    __extension__ union {
        DXGK_PAGE_NUMBER BasePageNumber;
        DXGK_PAGE_NUMBER *Pages;
    };
} DXGK_ADL;

/* Where the values of one native fence lie */
typedef struct DXGK_FENCE_RESIDENCY_INFO {
    HANDLE hGlobalNativeFence;
    D3DGPU_PHYSICAL_ADDRESS CurrentValuePhysicalAddress;
    D3DGPU_PHYSICAL_ADDRESS MonitoredValuePhysicalAddress;
    VOID *CurrentValueKernelCpuVa;
    VOID *MonitoredValueKernelCpuVa;
} DXGK_FENCE_RESIDENCY_INFO;

/* Tells where values of native fences lie now */
typedef struct DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY {
    UINT NumFences;
    __extension__ struct {
        UINT Reserved;
    } Flags;
    DXGK_FENCE_RESIDENCY_INFO *FenceResidencyInfo;
} DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY;

/* Maps an allocation in the page-based memory model */
typedef struct DXGK_BUILDPAGINGBUFFER_MAPMMU {
    HANDLE hAllocation;
    D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    USHORT MmuId;
    USHORT SegmentId;
    UINT AllocationOffsetInPages;
    DXGK_ADL Adl;
} DXGK_BUILDPAGINGBUFFER_MAPMMU;

/* Unmaps an allocation in the page-based memory model */
typedef struct DXGK_BUILDPAGINGBUFFER_UNMAPMMU {
    HANDLE hAllocation;
    D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    USHORT MmuId;
    USHORT Reserved0;
    UINT AllocationOffset;
    UINT NumberOfPages;
} DXGK_BUILDPAGINGBUFFER_UNMAPMMU;

/* Tells where pages of an allocation lie, in the page-based memory model */
typedef struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2 {
    HANDLE hAllocation;
    UINT AllocationOffsetInPages;
    UINT SizeInPages;
    USHORT SegmentId;
    USHORT Padding0;
    __extension__ union {
        D3DGPU_PHYSICAL_ADDRESS PhysicalAddress;
        MDL *Mdl;
    };
    __extension__ struct {
        UINT Resident : 1;
        UINT Reserved : 31;
    };
} DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2;

/* What happens to an allocation */
typedef struct DXGK_NOTIFYALLOCFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Eviction : 1;
            UINT IoMmuUnmap : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} DXGK_NOTIFYALLOCFLAGS;

/* Tells that an allocation is evicted or unmapped */
typedef struct DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC {
    HANDLE hAllocation;
    HANDLE hKmdProcessHandle;
    DXGK_NOTIFYALLOCFLAGS Flags;
    UINT64 OffsetInBytes;
    UINT64 SizeInBytes;
    D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddressAtOffset;
} DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC;

typedef struct DXGKARG_BUILDPAGINGBUFFER {
    VOID *pDmaBuffer;
    UINT DmaSize;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    DXGK_BUILDPAGINGBUFFER_OPERATION Operation;
    UINT MultipassOffset;
    __extension__ union {
        __extension__ struct {
            HANDLE hAllocation;
            UINT TransferOffset;
            SIZE_T TransferSize;
            __extension__ struct {
                UINT SegmentId;
                __extension__ union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Source;
            __extension__ struct {
                UINT SegmentId;
                __extension__ union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Destination;
            DXGK_TRANSFERFLAGS Flags;
            UINT MdlOffset;
        } Transfer;
        __extension__ struct {
            HANDLE hAllocation;
            SIZE_T FillSize;
            UINT FillPattern;
            __extension__ struct {
                UINT SegmentId;
                LARGE_INTEGER SegmentAddress;
            } Destination;
        } Fill;
        __extension__ struct {
            HANDLE hAllocation;
            DXGK_DISCARDCONTENTFLAGS Flags;
            UINT SegmentId;
            PHYSICAL_ADDRESS SegmentAddress;
        } DiscardContent;
        __extension__ struct {
            UINT SegmentId;
            PHYSICAL_ADDRESS PhysicalAddress;
        } ReadPhysical;
        __extension__ struct {
            UINT SegmentId;
            PHYSICAL_ADDRESS PhysicalAddress;
        } WritePhysical;
        __extension__ struct {
            HANDLE hDevice;
            HANDLE hAllocation;
            UINT SegmentId;
            SIZE_T OffsetInPages;
            SIZE_T NumberOfPages;
            MDL *pMdl;
            DXGK_MAPAPERTUREFLAGS Flags;
            UINT MdlOffset;
        } MapApertureSegment;
        __extension__ struct {
            HANDLE hDevice;
            HANDLE hAllocation;
            UINT SegmentId;
            SIZE_T OffsetInPages;
            SIZE_T NumberOfPages;
            PHYSICAL_ADDRESS DummyPage;
        } UnmapApertureSegment;
        __extension__ struct {
            HANDLE hAllocation;
            UINT TransferOffset;
            SIZE_T TransferSize;
            __extension__ struct {
                UINT SegmentId;
                __extension__ union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Source;
            __extension__ struct {
                UINT SegmentId;
                __extension__ union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
            } Destination;
            DXGK_TRANSFERFLAGS Flags;
            UINT SwizzlingRangeId;
            UINT SwizzlingRangeData;
        } SpecialLockTransfer;
        __extension__ struct {
            HANDLE hAllocation;
            __extension__ struct {
                UINT SegmentId;
                __extension__ union {
                    LARGE_INTEGER SegmentAddress;
                    MDL *pMdl;
                };
                VOID *VirtualAddress;
                D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddress;
            } Destination;
        } InitContextResource;
        DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL TransferVirtual;
        DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL FillVirtual;
        DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE UpdatePageTable;
        DXGK_BUILDPAGINGBUFFER_FLUSHTLB FlushTlb;
        DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES CopyPageTableEntries;
        DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION UpdateContextAllocation;
        DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY NotifyResidency;
        DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE SignalMonitoredFence;
        __extension__ struct {
            HANDLE hDevice;
            HANDLE hAllocation;
            UINT SegmentId;
            SIZE_T OffsetInPages;
            SIZE_T NumberOfPages;
            DXGK_ADL Adl;
            DXGK_MAPAPERTUREFLAGS Flags;
            UINT AdlOffset;
            VOID *CpuVisibleAddress;
        } MapApertureSegment2;
        DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY NotifyFenceResidency;
        DXGK_BUILDPAGINGBUFFER_MAPMMU MmapMmu;
        DXGK_BUILDPAGINGBUFFER_UNMAPMMU UnmapMmu;
        DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2 NotifyResidency2;
        DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC NotifyAllocation;
        __extension__ struct {
            UINT Reserved[64];
        } Reserved;
    };
    HANDLE hSystemContext;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferGpuVirtualAddress;
    UINT DmaBufferWriteOffset;
} DXGKARG_BUILDPAGINGBUFFER;

#pragma pack(push, 1)
typedef struct DXGK_NODE_PERFDATA {
    UINT64 Frequency;
    UINT64 MaxFrequency;
    UINT64 MaxFrequencyOC;
    UINT Voltage;
    UINT VoltageMax;
    UINT VoltageMaxOC;
    UINT64 MaxTransitionLatency;
} DXGK_NODE_PERFDATA;
#pragma pack(pop)

#pragma pack(push, 1)
typedef struct DXGK_ADAPTER_PERFDATA {
    UINT64 MemoryFrequency;
    UINT64 MaxMemoryFrequency;
    UINT64 MaxMemoryFrequencyOC;
    UINT64 MemoryBandwidth;
    UINT64 PCIEBandwidth;
    UINT FanRPM;
    UINT Power;
    UINT Temperature;
    UCHAR PowerStateOverride;
} DXGK_ADAPTER_PERFDATA;
#pragma pack(pop)

#pragma pack(push, 1)
typedef struct DXGK_ADAPTER_PERFDATACAPS {
    UINT64 MaxMemoryBandwidth;
    UINT64 MaxPCIEBandwidth;
    UINT MaxFanRPM;
    UINT TemperatureMax;
    UINT TemperatureWarning;
} DXGK_ADAPTER_PERFDATACAPS;
#pragma pack(pop)

/* Place of a device in a chain of linked adapters. Filled by the driver */
typedef struct LINKED_DEVICE {
    UINT ChainUid;
    UINT NumberOfLinksInChain;
    BOOLEAN LeadLink;
} LINKED_DEVICE;

typedef struct DXGK_START_INFO {
    UINT RequiredDmaQueueEntry;
    GUID AdapterGuid;
    LUID AdapterLuid;
} DXGK_START_INFO;

/* What hangs on the adapter */
typedef enum DXGK_CHILD_DEVICE_TYPE {
    TypeUninitialized = 0,
    TypeVideoOutput = 1,
    TypeOther = 2,
    TypeIntegratedDisplay = 3,
} DXGK_CHILD_DEVICE_TYPE;

/* How the driver learns that a child was plugged */
typedef enum DXGK_CHILD_DEVICE_HPD_AWARENESS {
    HpdAwarenessUninitialized = 0,
    HpdAwarenessAlwaysConnected = 1,
    HpdAwarenessNone = 2,
    HpdAwarenessPolled = 3,
    HpdAwarenessInterruptible = 4,
} DXGK_CHILD_DEVICE_HPD_AWARENESS;

/* Connector technology of a display output; part of the layout of child descriptors only */
typedef enum D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY {
    D3DKMDT_VOT_INTERNAL = -2147483648,
    D3DKMDT_VOT_UNINITIALIZED = -2,
    D3DKMDT_VOT_OTHER = -1,
    D3DKMDT_VOT_HD15 = 0,
    D3DKMDT_VOT_SVIDEO = 1,
    D3DKMDT_VOT_SVIDEO_4PIN = 1,
    D3DKMDT_VOT_SVIDEO_7PIN = 1,
    D3DKMDT_VOT_COMPOSITE_VIDEO = 2,
    D3DKMDT_VOT_RF = 2,
    D3DKMDT_VOT_BNC = 3,
    D3DKMDT_VOT_COMPONENT_VIDEO = 3,
    D3DKMDT_VOT_RCA_3COMPONENT = 3,
    D3DKMDT_VOT_DVI = 4,
    D3DKMDT_VOT_HDMI = 5,
    D3DKMDT_VOT_LVDS = 6,
    D3DKMDT_VOT_D_JPN = 8,
    D3DKMDT_VOT_SDI = 9,
    D3DKMDT_VOT_DISPLAYPORT_EXTERNAL = 10,
    D3DKMDT_VOT_DISPLAYPORT_EMBEDDED = 11,
    D3DKMDT_VOT_UDI_EXTERNAL = 12,
    D3DKMDT_VOT_UDI_EMBEDDED = 13,
    D3DKMDT_VOT_SDTVDONGLE = 14,
    D3DKMDT_VOT_MIRACAST = 15,
    D3DKMDT_VOT_INDIRECT_WIRED = 16,
} D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY;

/* How an output learns that its monitor was turned */
typedef enum D3DKMDT_MONITOR_ORIENTATION_AWARENESS {
    D3DKMDT_MOA_UNINITIALIZED = 0,
    D3DKMDT_MOA_NONE = 1,
    D3DKMDT_MOA_POLLED = 2,
    D3DKMDT_MOA_INTERRUPTIBLE = 3,
} D3DKMDT_MONITOR_ORIENTATION_AWARENESS;

/* Properties of a child that is a video output */
typedef struct DXGK_VIDEO_OUTPUT_CAPABILITIES {
    D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY InterfaceTechnology;
    D3DKMDT_MONITOR_ORIENTATION_AWARENESS MonitorOrientationAwareness;
    BOOLEAN SupportsSdtvModes;
} DXGK_VIDEO_OUTPUT_CAPABILITIES;

/* Properties of a child that is a built-in panel */
typedef struct DXGK_INTEGRATED_DISPLAY_CHILD {
    D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY InterfaceTechnology;
    USHORT DescriptorLength;
} DXGK_INTEGRATED_DISPLAY_CHILD;

/* Properties of a child */
typedef struct DXGK_CHILD_CAPABILITIES {
    __extension__ union {
        DXGK_VIDEO_OUTPUT_CAPABILITIES VideoOutput;
        DXGK_INTEGRATED_DISPLAY_CHILD IntegratedDisplayChild;
        __extension__ struct {
            UINT MustBeZero;
        } Other;
    } Type;
    DXGK_CHILD_DEVICE_HPD_AWARENESS HpdAwareness;
} DXGK_CHILD_CAPABILITIES;

typedef struct DXGK_CHILD_DESCRIPTOR {
    DXGK_CHILD_DEVICE_TYPE ChildDeviceType;
    DXGK_CHILD_CAPABILITIES ChildCapabilities;
    UINT AcpiUid;
    UINT ChildUid;
} DXGK_CHILD_DESCRIPTOR;

/* What is asked about a child */
typedef enum DXGK_CHILD_STATUS_TYPE {
    StatusUninitialized = 0,
    StatusConnection = 1,
    StatusRotation = 2,
    StatusMiracastConnection = 3,
} DXGK_CHILD_STATUS_TYPE;

typedef struct DXGK_CHILD_STATUS {
    DXGK_CHILD_STATUS_TYPE Type;
    UINT ChildUid;
    __extension__ union {
        __extension__ struct {
            UCHAR Connected;
        } HotPlug;
        __extension__ struct {
            UCHAR Angle;
        } Rotation;
        __extension__ struct {
            BOOLEAN Connected;
            D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY MiracastMonitorType;
        } Miracast;
    };
} DXGK_CHILD_STATUS;

typedef struct DXGK_DEVICE_DESCRIPTOR {
    UINT DescriptorOffset;
    UINT DescriptorLength;
    VOID *DescriptorBuffer;
} DXGK_DEVICE_DESCRIPTOR;

/* Source of an ACPI event */
typedef enum DXGK_EVENT_TYPE {
    DxgkUndefinedEvent = 0,
    DxgkAcpiEvent = 1,
    DxgkPowerStateEvent = 2,
    DxgkDockingEvent = 3,
    DxgkChainedAcpiEvent = 4,
} DXGK_EVENT_TYPE;

/* How a device vanished */
typedef enum DXGK_SURPRISE_REMOVAL_TYPE {
    DxgkRemovalHibernation = 0,
    DxgkRemovalPnPNotify = 1,
} DXGK_SURPRISE_REMOVAL_TYPE;

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

/* Start of a history buffer */
typedef struct DXGK_HISTORY_BUFFER_HEADER {
    UINT RenderCbSequence;
    UINT NumTimestamps;
    UINT PrivateDataSize;
    UINT Reserved;
} DXGK_HISTORY_BUFFER_HEADER;

/* Timestamps that the GPU wrote into a buffer */
typedef struct DXGK_HISTORY_BUFFER {
    DXGK_HISTORY_BUFFER_HEADER Header;
    UCHAR DriverPrivateData[1];
} DXGK_HISTORY_BUFFER;

typedef struct DXGKARG_FORMATHISTORYBUFFER {
    DXGK_HISTORY_BUFFER *pHistoryBuffer;
    UINT HistoryBufferSize;
    VOID *pFormattedBuffer;
    UINT FormattedBufferSize;
    UINT NumTimestamps;
    DXGKARG_HISTORYBUFFERPRECISION Precision;
    UINT Offset;
} DXGKARG_FORMATHISTORYBUFFER;

typedef struct DXGKARG_SETSTABLEPOWERSTATE {
    INT Enabled;
} DXGKARG_SETSTABLEPOWERSTATE;

/* Kind of a virtual machine */
typedef struct DXGK_VIRTUALMACHINEDATAFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT SecureVirtualMachine : 1;
            UINT LinuxVirtualMachine : 1;
            UINT : 30;
        };
        UINT Value;
    };
} DXGK_VIRTUALMACHINEDATAFLAGS;

typedef struct DXGKARG_SETVIRTUALMACHINEDATA {
    HANDLE hKmdVmWorkerProcess;
    GUID *pVmGuid;
    DXGK_VIRTUALMACHINEDATAFLAGS Flags;
} DXGKARG_SETVIRTUALMACHINEDATA;

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

typedef struct DXGKARG_ESCAPE {
    HANDLE hDevice;
    D3DDDI_ESCAPEFLAGS Flags;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    HANDLE hContext;
    HANDLE hKmdProcessHandle;
} DXGKARG_ESCAPE;

/* One F-state of a component; state 0 is the working one. Times are in 100 ns */
typedef struct DXGK_POWER_RUNTIME_STATE {
    UINT64 TransitionLatency;
    UINT64 ResidencyRequirement;
    UINT NominalPower;
} DXGK_POWER_RUNTIME_STATE;

/* What a component stands for */
typedef enum DXGK_POWER_COMPONENT_TYPE {
    DXGK_POWER_COMPONENT_ENGINE = 0,
    DXGK_POWER_COMPONENT_MONITOR = 1,
    DXGK_POWER_COMPONENT_MONITOR_REFRESH = 2,
    DXGK_POWER_COMPONENT_MEMORY = 3,
    DXGK_POWER_COMPONENT_MEMORY_REFRESH = 4,
    DXGK_POWER_COMPONENT_OTHER = 5,
    DXGK_POWER_COMPONENT_D3_TRANSITION = 6,
    DXGK_POWER_COMPONENT_SHARED = 7,
    DXGK_POWER_COMPONENT_MAX = 8,
} DXGK_POWER_COMPONENT_TYPE;

/* What a component stands for */
typedef struct DXGK_POWER_COMPONENT_MAPPING {
    DXGK_POWER_COMPONENT_TYPE ComponentType;
    __extension__ union {
        __extension__ struct {
            UINT NodeIndex;
        } EngineDesc;
        __extension__ struct {
            UINT SegmentID;
        } MemoryDesc;
    };
} DXGK_POWER_COMPONENT_MAPPING;

typedef struct DXGK_POWER_COMPONENT_INDEX {
    USHORT PhysicalAdapterComponentIndex;
    USHORT PhysicalAdapterIndex;
} DXGK_POWER_COMPONENT_INDEX;

/* How a component changes its state */
typedef struct DXGK_POWER_COMPONENT_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved0 : 1;
            UINT DriverCompletesFStateTransition : 1;
            UINT TransitionTo_F0_OnDx : 1;
            UINT NoDebounce : 1;
            UINT ActiveInD3 : 1;
            UINT Reserved : 27;
        };
        UINT Value;
    };
} DXGK_POWER_COMPONENT_FLAGS;

typedef struct DXGK_POWER_RUNTIME_COMPONENT {
    UINT StateCount;
    DXGK_POWER_RUNTIME_STATE States[8];
    DXGK_POWER_COMPONENT_MAPPING ComponentMapping;
    DXGK_POWER_COMPONENT_FLAGS Flags;
    GUID ComponentGuid;
    UCHAR ComponentName[40];
    UINT ProviderCount;
    UINT Providers[16];
} DXGK_POWER_RUNTIME_COMPONENT;

/* Kind of a process */
typedef struct DXGK_CREATEPROCESSFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT SystemProcess : 1;
            UINT GdiProcess : 1;
            UINT VirtualMachineProcess : 1;
            UINT VirtualMachineWorkerProcess : 1;
            UINT SessionIsolatedContainer : 1;
            UINT Reserved : 27;
        };
        UINT Value;
    };
} DXGK_CREATEPROCESSFLAGS;

typedef struct DXGKARG_CREATEPROCESS {
    HANDLE hDxgkProcess;
    HANDLE hKmdProcess;
    DXGK_CREATEPROCESSFLAGS Flags;
    UINT NumPasid;
    UINT *pPasid;
    HANDLE hKmdVmWorkerProcess;
    UINT ProcessNameLength;
    USHORT *pProcessName;
} DXGKARG_CREATEPROCESS;

/* Kind of a device */
typedef struct DXGK_CREATEDEVICEFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT SystemDevice : 1;
            UINT GdiDevice : 1;
            UINT Reserved : 29;
            UINT Reserved0 : 1;
        };
        UINT Value;
    };
} DXGK_CREATEDEVICEFLAGS;

/* Properties of buffers of drivers without contexts */
typedef struct DXGK_DEVICEINFOFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT GuaranteedDmaBufferContract : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_DEVICEINFOFLAGS;

/* Sizes of buffers of drivers without contexts */
typedef struct DXGK_DEVICEINFO {
    UINT DmaBufferSize;
    UINT DmaBufferSegmentSet;
    UINT DmaBufferPrivateDataSize;
    UINT AllocationListSize;
    UINT PatchLocationListSize;
    DXGK_DEVICEINFOFLAGS Flags;
} DXGK_DEVICEINFO;

typedef struct DXGKARG_CREATEDEVICE {
    HANDLE hDevice;
    __extension__ union {
        DXGK_CREATEDEVICEFLAGS Flags;
        DXGK_DEVICEINFO *pInfo;
    };
    UINT Pasid;
    HANDLE hKmdProcess;
} DXGKARG_CREATEDEVICE;

/* Kind of a context */
typedef struct DXGK_CREATECONTEXTFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT SystemContext : 1;
            UINT GdiContext : 1;
            UINT VirtualAddressing : 1;
            UINT SystemProtectedContext : 1;
            UINT HwQueueSupported : 1;
            UINT TestContext : 1;
            UINT Reserved : 26;
        };
        UINT Value;
    };
} DXGK_CREATECONTEXTFLAGS;

/* How the driver wants to work with a context */
typedef struct DXGK_CONTEXTINFO_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT NoPatchingRequired : 1;
            UINT DriverManagesResidency : 1;
            UINT UseIoMmu : 1;
            UINT Reserved : 29;
        };
        UINT Value;
    };
} DXGK_CONTEXTINFO_CAPS;

/* What the driver wants for a context. Filled by the driver */
typedef struct DXGK_CONTEXTINFO {
    UINT DmaBufferSize;
    UINT DmaBufferSegmentSet;
    UINT DmaBufferPrivateDataSize;
    UINT AllocationListSize;
    UINT PatchLocationListSize;
    UINT Reserved;
    DXGK_CONTEXTINFO_CAPS Caps;
    UINT PagingCompanionNodeId;
} DXGK_CONTEXTINFO;

typedef struct DXGKARG_CREATECONTEXT {
    HANDLE hContext;
    UINT NodeOrdinal;
    UINT EngineAffinity;
    DXGK_CREATECONTEXTFLAGS Flags;
    VOID *pPrivateDriverData;
    UINT PrivateDriverDataSize;
    DXGK_CONTEXTINFO ContextInfo;
} DXGKARG_CREATECONTEXT;

/* No flags are defined: reserved, zero */
typedef struct D3DDDI_CREATEHWCONTEXTFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} D3DDDI_CREATEHWCONTEXTFLAGS;

/* How the driver wants to work with a hardware context */
typedef struct DXGK_HWCONTEXT_CAPS {
    __extension__ union {
        __extension__ struct {
            UINT UseIoMmu : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_HWCONTEXT_CAPS;

typedef struct DXGKARG_CREATEHWCONTEXT {
    HANDLE hHwContext;
    UINT NodeOrdinal;
    UINT EngineAffinity;
    D3DDDI_CREATEHWCONTEXTFLAGS Flags;
    UINT PrivateDriverDataSize;
    VOID *pPrivateDriverData;
    DXGK_HWCONTEXT_CAPS ContextCaps;
} DXGKARG_CREATEHWCONTEXT;

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

typedef struct DXGKARG_CREATEHWQUEUE {
    HANDLE hHwQueue;
    D3DDDI_CREATEHWQUEUEFLAGS Flags;
    UINT PrivateDriverDataSize;
    VOID *pPrivateDriverData;
    D3DKMT_HANDLE hHwQueueProgressFence;
    VOID *HwQueueProgressFenceCPUVirtualAddress;
    D3DGPU_VIRTUAL_ADDRESS HwQueueProgressFenceGPUVirtualAddress;
} DXGKARG_CREATEHWQUEUE;

/* What a buffer is */
typedef struct DXGK_SUBMITCOMMANDFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Paging : 1;
            UINT Present : 1;
            UINT RedirectedPresent : 1;
            UINT NullRendering : 1;
            UINT Flip : 1;
            UINT FlipWithNoWait : 1;
            UINT ContextSwitch : 1;
            UINT Resubmission : 1;
            UINT VirtualMachineData : 1;
            UINT Reserved : 23;
        };
        UINT Value;
    };
} DXGK_SUBMITCOMMANDFLAGS;

typedef struct DXGKARG_SUBMITCOMMANDTOHWQUEUE {
    HANDLE hHwQueue;
    UINT64 HwQueueProgressFenceId;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferVirtualAddress;
    UINT DmaBufferSize;
    UINT DmaBufferPrivateDataSize;
    VOID *pDmaBufferPrivateData;
    DXGK_SUBMITCOMMANDFLAGS Flags;
    D3DGPU_VIRTUAL_ADDRESS HwQueueProgressFenceGpuVa;
    VOID *HwQueueProgressFenceCpuVa;
} DXGKARG_SUBMITCOMMANDTOHWQUEUE;

typedef struct DXGKARG_SWITCHTOHWCONTEXTLIST {
    HANDLE hHwContextFirst;
    HANDLE hHwContextSecond;
    UINT NodeOrdinal;
    UINT EngineOrdinal;
} DXGKARG_SWITCHTOHWCONTEXTLIST;

/* New state of a hardware context */
typedef struct DXGK_UPDATEHWCONTEXTSTATE_FLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Suspended : 1;
            UINT InterruptOnSwitchCompletion : 1;
            UINT Reserved : 30;
        };
        UINT Value;
    };
} DXGK_UPDATEHWCONTEXTSTATE_FLAGS;

typedef struct DXGKARG_UPDATEHWCONTEXTSTATE {
    HANDLE hHwContext;
    UINT64 ContextSwitchFence;
    UINT Priority;
    DXGK_UPDATEHWCONTEXTSTATE_FLAGS Flags;
} DXGKARG_UPDATEHWCONTEXTSTATE;

typedef struct DXGKARG_QUERYDEPENDENTENGINEGROUP {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    UINT64 DependentNodeOrdinalMask;
} DXGKARG_QUERYDEPENDENTENGINEGROUP;

/* Whether an engine makes progress */
typedef struct DXGK_ENGINESTATUS {
    __extension__ union {
        __extension__ struct {
            UINT Responsive : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} DXGK_ENGINESTATUS;

typedef struct DXGKARG_QUERYENGINESTATUS {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    DXGK_ENGINESTATUS EngineStatus;
} DXGKARG_QUERYENGINESTATUS;

typedef struct DXGKARG_RESETENGINE {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    UINT LastAbortedFenceId;
} DXGKARG_RESETENGINE;

typedef struct DXGKARG_RESETHWENGINE {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
} DXGKARG_RESETHWENGINE;

typedef struct DXGKARG_RESUMEHWENGINE {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
} DXGKARG_RESUMEHWENGINE;

/* More facts for a debug report */
typedef struct DXGKARG_COLLECTDBGINFO_EXT {
    UINT BucketingKey;
    UINT CurrentDmaBufferOffset;
    UINT Reserved2;
    UINT Reserved3;
    UINT Reserved4;
    UINT Reserved5;
    UINT Reserved6;
    UINT Reserved7;
} DXGKARG_COLLECTDBGINFO_EXT;

typedef struct DXGKARG_COLLECTDBGINFO {
    UINT Reason;
    VOID *pBuffer;
    SIZE_T BufferSize;
    DXGKARG_COLLECTDBGINFO_EXT *pExtension;
} DXGKARG_COLLECTDBGINFO;

/* Kind of a time-out */
typedef enum DXGK_TDR_TYPE {
    DXGK_TDR_TYPE_UNKNOWN = 0,
    DXGK_TDR_TYPE_FORCED = 1,
    DXGK_TDR_TYPE_PREEMPT_TIMEOUT = 2,
    DXGK_TDR_TYPE_VSYNC_TIMEOUT = 3,
    DXGK_TDR_TYPE_DOD_PRESENT_FORCED = 4,
    DXGK_TDR_TYPE_DOD_PRESENT_TIMEOUT = 5,
    DXGK_TDR_TYPE_ENGINE_TIMEOUT = 6,
    DXGK_TDR_TYPE_DOD_VSYNC_FORCED = 7,
    DXGK_TDR_TYPE_DOD_VSYNC_TIMEOUT = 8,
    DXGK_TDR_TYPE_ENGINE_TIMEOUT_PROMOTED = 9,
    DXGK_TDR_TYPE_PAGE_FAULT = 10,
    DXGK_TDR_TYPE_INVALID_FENCE = 11,
    DXGK_TDR_TYPE_ENGINE_PAGE_FAULT = 12,
    DXGK_TDR_TYPE_DISPLAY_ENGINE_FAULT = 13,
} DXGK_TDR_TYPE;

/* What is known of an engine that is to be reset */
typedef struct DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    UINT64 LastHwCompletedFenceId;
    UINT64 LastHwSubmittedFenceId;
    UINT NumberOfPendingSuspendRequests;
    UINT NumberOfReadyInteractiveHwQueues;
    HANDLE hContext;
} DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT;

typedef struct DXGKARG_COLLECTDBGINFO2 {
    UINT Reason;
    VOID *pBuffer;
    SIZE_T BufferSize;
    DXGKARG_COLLECTDBGINFO_EXT *pExtension;
    DXGK_TDR_TYPE TdrType;
    UINT TdrPayloadSize;
    VOID *TdrPayload;
} DXGKARG_COLLECTDBGINFO2;

/* Start of a scheduling log; the position is advanced in one 64-bit write */
typedef struct DXGK_SCHEDULING_LOG_HEADER {
    __extension__ union {
        __extension__ struct {
            UINT FirstFreeEntryIndex;
            UINT WraparoundCount;
        };
        UINT64 AtomicWraparoundAndEntryIndex;
    };
    UINT64 NumberOfEntries;
    UINT64 Reserved[2];
} DXGK_SCHEDULING_LOG_HEADER;

/* State of a hardware context in the scheduling log */
typedef enum DXGK_SCHEDULING_LOG_CONTEXT_STATE {
    DXGK_SCHEDULING_LOG_CONTEXT_STATE_IDLE = 0,
    DXGK_SCHEDULING_LOG_CONTEXT_STATE_RUNNING = 1,
    DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY = 2,
    DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY_STANDBY = 3,
} DXGK_SCHEDULING_LOG_CONTEXT_STATE;

/* A hardware context changed its state */
typedef struct DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE {
    HANDLE hKmdContext;
    DXGK_SCHEDULING_LOG_CONTEXT_STATE newContextState;
} DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE;

/* One decision of the hardware scheduler */
typedef struct DXGK_SCHEDULING_LOG_ENTRY {
    UINT64 GpuTimeStamp;
    __extension__ struct {
        UINT OperationType : 32;
    };
    __extension__ struct {
        UINT ReservedOperationTypeBits : 32;
    };
    __extension__ union {
        DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE ContextStateChange;
        UINT64 ReservedOperationData[2];
    };
} DXGK_SCHEDULING_LOG_ENTRY;

/* A scheduling log: the header, then as many entries as the header says */
typedef struct DXGK_SCHEDULING_LOG_BUFFER {
    DXGK_SCHEDULING_LOG_HEADER Header;
    DXGK_SCHEDULING_LOG_ENTRY Entries[1];
} DXGK_SCHEDULING_LOG_BUFFER;

typedef struct DXGKARG_SETSCHEDULINGLOGBUFFER {
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    UINT NumberOfEntries;
    DXGK_SCHEDULING_LOG_BUFFER *LogBufferCpuVa;
    D3DGPU_VIRTUAL_ADDRESS LogBufferGpuVa;
    UINT InterruptEntry;
} DXGKARG_SETSCHEDULINGLOGBUFFER;

typedef struct DXGKARG_SETUPPRIORITYBANDS {
    UINT64 gracePeriodForBand[4];
    UINT64 processQuantumForBand[4];
    UINT64 processGracePeriodForBand[4];
    UINT targetNormalBandPercentage;
} DXGKARG_SETUPPRIORITYBANDS;

/* Class of work; a higher band goes first */
typedef enum DXGK_SCHEDULING_PRIORITY_BAND {
    DXGK_SCHEDULING_PRIORITY_BAND_IDLE = 0,
    DXGK_SCHEDULING_PRIORITY_BAND_NORMAL = 1,
    DXGK_SCHEDULING_PRIORITY_BAND_FOCUS = 2,
    DXGK_SCHEDULING_PRIORITY_BAND_REALTIME = 3,
    DXGK_SCHEDULING_PRIORITY_BAND_COUNT = 4,
} DXGK_SCHEDULING_PRIORITY_BAND;

typedef struct DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES {
    HANDLE hContext;
    DXGK_SCHEDULING_PRIORITY_BAND priorityBand;
    INT realtimeBandPriorityLevel;
    INT inProcessPriority;
    UINT64 quantum;
    UINT64 gracePeriodSamePriority;
    UINT64 gracePeriodLowerPriority;
} DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES;

typedef struct DXGKARG_SUSPENDCONTEXT {
    HANDLE hContext;
    UINT64 contextSuspendFence;
} DXGKARG_SUSPENDCONTEXT;

typedef struct DXGKARG_RESUMECONTEXT {
    HANDLE hContext;
} DXGKARG_RESUMECONTEXT;

/* Display refreshes between flips; no meaning for compute */
typedef enum D3DDDI_FLIPINTERVAL_TYPE {
    D3DDDI_FLIPINTERVAL_IMMEDIATE = 0,
    D3DDDI_FLIPINTERVAL_ONE = 1,
    D3DDDI_FLIPINTERVAL_TWO = 2,
    D3DDDI_FLIPINTERVAL_THREE = 3,
    D3DDDI_FLIPINTERVAL_FOUR = 4,
    D3DDDI_FLIPINTERVAL_IMMEDIATE_ALLOW_TEARING = 5,
} D3DDDI_FLIPINTERVAL_TYPE;

typedef struct DXGKARG_SUBMITCOMMAND {
    __extension__ union {
        HANDLE hDevice;
        HANDLE hContext;
    };
    UINT DmaBufferSegmentId;
    PHYSICAL_ADDRESS DmaBufferPhysicalAddress;
    UINT DmaBufferSize;
    UINT DmaBufferSubmissionStartOffset;
    UINT DmaBufferSubmissionEndOffset;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    UINT DmaBufferPrivateDataSubmissionStartOffset;
    UINT DmaBufferPrivateDataSubmissionEndOffset;
    UINT SubmissionFenceId;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    D3DDDI_FLIPINTERVAL_TYPE FlipInterval;
    DXGK_SUBMITCOMMANDFLAGS Flags;
    UINT EngineOrdinal;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferVirtualAddress;
    UINT NodeOrdinal;
} DXGKARG_SUBMITCOMMAND;

typedef struct DXGKARG_SUBMITCOMMANDVIRTUAL {
    HANDLE hContext;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferVirtualAddress;
    UINT DmaBufferSize;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    UINT DmaBufferUmdPrivateDataSize;
    UINT SubmissionFenceId;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID VidPnSourceId;
    D3DDDI_FLIPINTERVAL_TYPE FlipInterval;
    DXGK_SUBMITCOMMANDFLAGS Flags;
    UINT EngineOrdinal;
    UINT NodeOrdinal;
} DXGKARG_SUBMITCOMMANDVIRTUAL;

/* No flags are defined: reserved, zero */
typedef struct DXGK_PREEMPTCOMMANDFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT Reserved : 32;
        };
        UINT Value;
    };
} DXGK_PREEMPTCOMMANDFLAGS;

typedef struct DXGKARG_PREEMPTCOMMAND {
    UINT PreemptionFenceId;
    UINT NodeOrdinal;
    UINT EngineOrdinal;
    DXGK_PREEMPTCOMMANDFLAGS Flags;
} DXGKARG_PREEMPTCOMMAND;

/* For which kernel-built buffer a signal is wanted */
typedef enum DXGK_KERNEL_SUBMISSION_TYPE {
    DXGK_KERNEL_SUBMISSION_BUILD_PAGING_BUFFER = 0,
    DXGK_KERNEL_SUBMISSION_RENDERGDI = 1,
    DXGK_KERNEL_SUBMISSION_PRESENTBLT = 2,
} DXGK_KERNEL_SUBMISSION_TYPE;

typedef struct DXGKARG_SIGNALMONITOREDFENCE {
    DXGK_KERNEL_SUBMISSION_TYPE KernelSubmissionType;
    VOID *pDmaBuffer;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferGpuVirtualAddress;
    UINT DmaSize;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    UINT MultipassOffset;
    D3DGPU_VIRTUAL_ADDRESS MonitoredFenceGpuVa;
    UINT64 MonitoredFenceValue;
    VOID *MonitoredFenceCpuVa;
    HANDLE hHwQueue;
} DXGKARG_SIGNALMONITOREDFENCE;

/* An allocation that a buffer of WDDM 1 refers to */
typedef struct DXGK_ALLOCATIONLIST {
    HANDLE hDeviceSpecificAllocation;
    __extension__ struct {
        UINT WriteOperation : 1;
        UINT SegmentId : 5;
        UINT Reserved : 26;
    };
    __extension__ union {
        PHYSICAL_ADDRESS PhysicalAddress;
        D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
    };
} DXGK_ALLOCATIONLIST;

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

typedef struct DXGKARG_CANCELCOMMAND {
    HANDLE hContext;
    VOID *pDmaBuffer;
    UINT DmaBufferSize;
    UINT DmaBufferSubmissionStartOffset;
    UINT DmaBufferSubmissionEndOffset;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferPrivateDataSize;
    UINT DmaBufferPrivateDataSubmissionStartOffset;
    UINT DmaBufferPrivateDataSubmissionEndOffset;
    DXGK_ALLOCATIONLIST *pAllocationList;
    UINT AllocationListSize;
    D3DDDI_PATCHLOCATIONLIST *pPatchLocationList;
    UINT PatchLocationListSize;
    UINT PatchLocationListSubmissionStart;
    UINT PatchLocationListSubmissionLength;
    D3DGPU_VIRTUAL_ADDRESS DmaBufferVirtualAddress;
    UINT DmaBufferUmdPrivateDataSize;
} DXGKARG_CANCELCOMMAND;

typedef NTSTATUS DXGKDDI_ADD_DEVICE(PDEVICE_OBJECT PhysicalDeviceObject, VOID * *MiniportDeviceContext);
typedef DXGKDDI_ADD_DEVICE *PDXGKDDI_ADD_DEVICE;

typedef NTSTATUS DXGKDDI_START_DEVICE(PVOID MiniportDeviceContext, DXGK_START_INFO *DxgkStartInfo, DXGKRNL_INTERFACE *DxgkInterface, ULONG *NumberOfVideoPresentSources, ULONG *NumberOfChildren);
typedef DXGKDDI_START_DEVICE *PDXGKDDI_START_DEVICE;

typedef NTSTATUS DXGKDDI_STOP_DEVICE(PVOID MiniportDeviceContext);
typedef DXGKDDI_STOP_DEVICE *PDXGKDDI_STOP_DEVICE;

typedef NTSTATUS DXGKDDI_REMOVE_DEVICE(PVOID MiniportDeviceContext);
typedef DXGKDDI_REMOVE_DEVICE *PDXGKDDI_REMOVE_DEVICE;

typedef NTSTATUS DXGKDDI_DISPATCH_IO_REQUEST(PVOID MiniportDeviceContext, ULONG VidPnSourceId, PVIDEO_REQUEST_PACKET VideoRequestPacket);
typedef DXGKDDI_DISPATCH_IO_REQUEST *PDXGKDDI_DISPATCH_IO_REQUEST;

typedef BOOLEAN DXGKDDI_INTERRUPT_ROUTINE(PVOID MiniportDeviceContext, ULONG MessageNumber);
typedef DXGKDDI_INTERRUPT_ROUTINE *PDXGKDDI_INTERRUPT_ROUTINE;

typedef VOID DXGKDDI_DPC_ROUTINE(PVOID MiniportDeviceContext);
typedef DXGKDDI_DPC_ROUTINE *PDXGKDDI_DPC_ROUTINE;

typedef NTSTATUS DXGKDDI_QUERY_CHILD_RELATIONS(PVOID MiniportDeviceContext, DXGK_CHILD_DESCRIPTOR *ChildRelations, ULONG ChildRelationsSize);
typedef DXGKDDI_QUERY_CHILD_RELATIONS *PDXGKDDI_QUERY_CHILD_RELATIONS;

typedef NTSTATUS DXGKDDI_QUERY_CHILD_STATUS(PVOID MiniportDeviceContext, DXGK_CHILD_STATUS *ChildStatus, BOOLEAN NonDestructiveOnly);
typedef DXGKDDI_QUERY_CHILD_STATUS *PDXGKDDI_QUERY_CHILD_STATUS;

typedef NTSTATUS DXGKDDI_QUERY_DEVICE_DESCRIPTOR(PVOID MiniportDeviceContext, ULONG ChildUid, DXGK_DEVICE_DESCRIPTOR *DeviceDescriptor);
typedef DXGKDDI_QUERY_DEVICE_DESCRIPTOR *PDXGKDDI_QUERY_DEVICE_DESCRIPTOR;

typedef NTSTATUS DXGKDDI_SET_POWER_STATE(PVOID MiniportDeviceContext, ULONG DeviceUid, DEVICE_POWER_STATE DevicePowerState, POWER_ACTION ActionType);
typedef DXGKDDI_SET_POWER_STATE *PDXGKDDI_SET_POWER_STATE;

typedef NTSTATUS DXGKDDI_NOTIFY_ACPI_EVENT(PVOID MiniportDeviceContext, DXGK_EVENT_TYPE EventType, ULONG Event, VOID *Argument, ULONG *AcpiFlags);
typedef DXGKDDI_NOTIFY_ACPI_EVENT *PDXGKDDI_NOTIFY_ACPI_EVENT;

typedef VOID DXGKDDI_RESET_DEVICE(PVOID MiniportDeviceContext);
typedef DXGKDDI_RESET_DEVICE *PDXGKDDI_RESET_DEVICE;

typedef VOID DXGKDDI_UNLOAD(VOID);
typedef DXGKDDI_UNLOAD *PDXGKDDI_UNLOAD;

typedef NTSTATUS DXGKDDI_QUERY_INTERFACE(PVOID MiniportDeviceContext, QUERY_INTERFACE *QueryInterface);
typedef DXGKDDI_QUERY_INTERFACE *PDXGKDDI_QUERY_INTERFACE;

typedef VOID DXGKDDI_CONTROL_ETW_LOGGING(BOOLEAN Enable, ULONG Flags, UCHAR Level);
typedef DXGKDDI_CONTROL_ETW_LOGGING *PDXGKDDI_CONTROL_ETW_LOGGING;

typedef NTSTATUS DXGKDDI_QUERYADAPTERINFO(HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *Args);
typedef DXGKDDI_QUERYADAPTERINFO *PDXGKDDI_QUERYADAPTERINFO;

typedef NTSTATUS DXGKDDI_CREATEDEVICE(HANDLE hAdapter, DXGKARG_CREATEDEVICE *Args);
typedef DXGKDDI_CREATEDEVICE *PDXGKDDI_CREATEDEVICE;

typedef NTSTATUS DXGKDDI_CREATEALLOCATION(HANDLE hAdapter, DXGKARG_CREATEALLOCATION *Args);
typedef DXGKDDI_CREATEALLOCATION *PDXGKDDI_CREATEALLOCATION;

typedef NTSTATUS DXGKDDI_DESTROYALLOCATION(HANDLE hAdapter, const DXGKARG_DESTROYALLOCATION *Args);
typedef DXGKDDI_DESTROYALLOCATION *PDXGKDDI_DESTROYALLOCATION;

typedef NTSTATUS DXGKDDI_DESCRIBEALLOCATION(HANDLE hAdapter, DXGKARG_DESCRIBEALLOCATION *Args);
typedef DXGKDDI_DESCRIBEALLOCATION *PDXGKDDI_DESCRIBEALLOCATION;

typedef NTSTATUS DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA(HANDLE hAdapter, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA *Args);
typedef DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA *PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA;

typedef NTSTATUS DXGKDDI_SUBMITCOMMAND(HANDLE hAdapter, const DXGKARG_SUBMITCOMMAND *Args);
typedef DXGKDDI_SUBMITCOMMAND *PDXGKDDI_SUBMITCOMMAND;

typedef NTSTATUS DXGKDDI_PREEMPTCOMMAND(HANDLE hAdapter, const DXGKARG_PREEMPTCOMMAND *Args);
typedef DXGKDDI_PREEMPTCOMMAND *PDXGKDDI_PREEMPTCOMMAND;

typedef NTSTATUS DXGKDDI_BUILDPAGINGBUFFER(HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *Args);
typedef DXGKDDI_BUILDPAGINGBUFFER *PDXGKDDI_BUILDPAGINGBUFFER;

typedef NTSTATUS DXGKDDI_RESETFROMTIMEOUT(HANDLE hAdapter);
typedef DXGKDDI_RESETFROMTIMEOUT *PDXGKDDI_RESETFROMTIMEOUT;

typedef NTSTATUS DXGKDDI_RESTARTFROMTIMEOUT(HANDLE hAdapter);
typedef DXGKDDI_RESTARTFROMTIMEOUT *PDXGKDDI_RESTARTFROMTIMEOUT;

typedef NTSTATUS DXGKDDI_ESCAPE(HANDLE hAdapter, const DXGKARG_ESCAPE *Args);
typedef DXGKDDI_ESCAPE *PDXGKDDI_ESCAPE;

typedef NTSTATUS DXGKDDI_COLLECTDBGINFO(HANDLE hAdapter, const DXGKARG_COLLECTDBGINFO *Args);
typedef DXGKDDI_COLLECTDBGINFO *PDXGKDDI_COLLECTDBGINFO;

typedef NTSTATUS DXGKDDI_DESTROYDEVICE(HANDLE hDevice);
typedef DXGKDDI_DESTROYDEVICE *PDXGKDDI_DESTROYDEVICE;

typedef NTSTATUS DXGKDDI_OPENALLOCATIONINFO(HANDLE hDevice, const DXGKARG_OPENALLOCATION *Args);
typedef DXGKDDI_OPENALLOCATIONINFO *PDXGKDDI_OPENALLOCATIONINFO;

typedef NTSTATUS DXGKDDI_CLOSEALLOCATION(HANDLE hDevice, const DXGKARG_CLOSEALLOCATION *Args);
typedef DXGKDDI_CLOSEALLOCATION *PDXGKDDI_CLOSEALLOCATION;

typedef NTSTATUS DXGKDDI_CREATECONTEXT(HANDLE hDevice, DXGKARG_CREATECONTEXT *Args);
typedef DXGKDDI_CREATECONTEXT *PDXGKDDI_CREATECONTEXT;

typedef NTSTATUS DXGKDDI_DESTROYCONTEXT(HANDLE hContext);
typedef DXGKDDI_DESTROYCONTEXT *PDXGKDDI_DESTROYCONTEXT;

typedef NTSTATUS DXGKDDI_LINK_DEVICE(PDEVICE_OBJECT PhysicalDeviceObject, PVOID MiniportDeviceContext, LINKED_DEVICE *LinkedDevice);
typedef DXGKDDI_LINK_DEVICE *PDXGKDDI_LINK_DEVICE;

typedef NTSTATUS DXGKDDISETPOWERCOMPONENTFSTATE(PVOID MiniportDeviceContext, UINT ComponentIndex, UINT FState);
typedef DXGKDDISETPOWERCOMPONENTFSTATE *PDXGKDDISETPOWERCOMPONENTFSTATE;

typedef NTSTATUS DXGKDDI_QUERYDEPENDENTENGINEGROUP(HANDLE hAdapter, DXGKARG_QUERYDEPENDENTENGINEGROUP *Args);
typedef DXGKDDI_QUERYDEPENDENTENGINEGROUP *PDXGKDDI_QUERYDEPENDENTENGINEGROUP;

typedef NTSTATUS DXGKDDI_QUERYENGINESTATUS(HANDLE hAdapter, DXGKARG_QUERYENGINESTATUS *Args);
typedef DXGKDDI_QUERYENGINESTATUS *PDXGKDDI_QUERYENGINESTATUS;

typedef NTSTATUS DXGKDDI_RESETENGINE(HANDLE hAdapter, DXGKARG_RESETENGINE *Args);
typedef DXGKDDI_RESETENGINE *PDXGKDDI_RESETENGINE;

typedef NTSTATUS DXGKDDI_CANCELCOMMAND(HANDLE hAdapter, const DXGKARG_CANCELCOMMAND *Args);
typedef DXGKDDI_CANCELCOMMAND *PDXGKDDI_CANCELCOMMAND;

typedef NTSTATUS DXGKDDIPOWERRUNTIMECONTROLREQUEST(PVOID MiniportDeviceContext, const GUID *PowerControlCode, VOID *InBuffer, SIZE_T InBufferSize, VOID *OutBuffer, SIZE_T OutBufferSize, SIZE_T *BytesReturned);
typedef DXGKDDIPOWERRUNTIMECONTROLREQUEST *PDXGKDDIPOWERRUNTIMECONTROLREQUEST;

typedef NTSTATUS DXGKDDI_NOTIFY_SURPRISE_REMOVAL(PVOID MiniportDeviceContext, DXGK_SURPRISE_REMOVAL_TYPE RemovalType);
typedef DXGKDDI_NOTIFY_SURPRISE_REMOVAL *PDXGKDDI_NOTIFY_SURPRISE_REMOVAL;

typedef NTSTATUS DXGKDDI_GETNODEMETADATA(HANDLE hAdapter, UINT NodeOrdinalAndAdapterIndex, DXGK_NODEMETADATA *Metadata);
typedef DXGKDDI_GETNODEMETADATA *PDXGKDDI_GETNODEMETADATA;

typedef NTSTATUS DXGKDDI_CALIBRATEGPUCLOCK(HANDLE hAdapter, UINT NodeOrdinal, UINT EngineOrdinal, DXGK_GPUCLOCKDATA *ClockCalibration);
typedef DXGKDDI_CALIBRATEGPUCLOCK *PDXGKDDI_CALIBRATEGPUCLOCK;

typedef NTSTATUS DXGKDDI_FORMATHISTORYBUFFER(HANDLE hContext, DXGKARG_FORMATHISTORYBUFFER *FormatData);
typedef DXGKDDI_FORMATHISTORYBUFFER *PDXGKDDI_FORMATHISTORYBUFFER;

typedef NTSTATUS DXGKDDI_SUBMITCOMMANDVIRTUAL(HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *Args);
typedef DXGKDDI_SUBMITCOMMANDVIRTUAL *PDXGKDDI_SUBMITCOMMANDVIRTUAL;

typedef VOID DXGKDDI_SETROOTPAGETABLE(HANDLE hAdapter, const DXGKARG_SETROOTPAGETABLE *Args);
typedef DXGKDDI_SETROOTPAGETABLE *PDXGKDDI_SETROOTPAGETABLE;

typedef SIZE_T DXGKDDI_GETROOTPAGETABLESIZE(HANDLE hAdapter, DXGKARG_GETROOTPAGETABLESIZE *Args);
typedef DXGKDDI_GETROOTPAGETABLESIZE *PDXGKDDI_GETROOTPAGETABLESIZE;

typedef NTSTATUS DXGKDDI_MAPCPUHOSTAPERTURE(HANDLE hAdapter, const DXGKARG_MAPCPUHOSTAPERTURE *Args);
typedef DXGKDDI_MAPCPUHOSTAPERTURE *PDXGKDDI_MAPCPUHOSTAPERTURE;

typedef NTSTATUS DXGKDDI_UNMAPCPUHOSTAPERTURE(HANDLE hAdapter, const DXGKARG_UNMAPCPUHOSTAPERTURE *Args);
typedef DXGKDDI_UNMAPCPUHOSTAPERTURE *PDXGKDDI_UNMAPCPUHOSTAPERTURE;

typedef NTSTATUS DXGKDDI_CREATEPROCESS(HANDLE hAdapter, DXGKARG_CREATEPROCESS *Args);
typedef DXGKDDI_CREATEPROCESS *PDXGKDDI_CREATEPROCESS;

typedef NTSTATUS DXGKDDI_DESTROYPROCESS(HANDLE hAdapter, HANDLE hKmdProcess);
typedef DXGKDDI_DESTROYPROCESS *PDXGKDDI_DESTROYPROCESS;

typedef NTSTATUS DXGKDDI_SETSTABLEPOWERSTATE(HANDLE hAdapter, const DXGKARG_SETSTABLEPOWERSTATE *Args);
typedef DXGKDDI_SETSTABLEPOWERSTATE *PDXGKDDI_SETSTABLEPOWERSTATE;

typedef NTSTATUS DXGKDDI_CREATEHWCONTEXT(HANDLE hDevice, DXGKARG_CREATEHWCONTEXT *Args);
typedef DXGKDDI_CREATEHWCONTEXT *PDXGKDDI_CREATEHWCONTEXT;

typedef NTSTATUS DXGKDDI_DESTROYHWCONTEXT(HANDLE hHwContext);
typedef DXGKDDI_DESTROYHWCONTEXT *PDXGKDDI_DESTROYHWCONTEXT;

typedef NTSTATUS DXGKDDI_CREATEHWQUEUE(HANDLE hHwContext, DXGKARG_CREATEHWQUEUE *Args);
typedef DXGKDDI_CREATEHWQUEUE *PDXGKDDI_CREATEHWQUEUE;

typedef NTSTATUS DXGKDDI_DESTROYHWQUEUE(HANDLE hHwQueue);
typedef DXGKDDI_DESTROYHWQUEUE *PDXGKDDI_DESTROYHWQUEUE;

typedef NTSTATUS DXGKDDI_SUBMITCOMMANDTOHWQUEUE(HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDTOHWQUEUE *Args);
typedef DXGKDDI_SUBMITCOMMANDTOHWQUEUE *PDXGKDDI_SUBMITCOMMANDTOHWQUEUE;

typedef NTSTATUS DXGKDDI_SWITCHTOHWCONTEXTLIST(HANDLE hAdapter, const DXGKARG_SWITCHTOHWCONTEXTLIST *Args);
typedef DXGKDDI_SWITCHTOHWCONTEXTLIST *PDXGKDDI_SWITCHTOHWCONTEXTLIST;

typedef NTSTATUS DXGKDDI_RESETHWENGINE(HANDLE hAdapter, DXGKARG_RESETHWENGINE *Args);
typedef DXGKDDI_RESETHWENGINE *PDXGKDDI_RESETHWENGINE;

typedef NTSTATUS DXGKDDI_UPDATEHWCONTEXTSTATE(HANDLE hAdapter, const DXGKARG_UPDATEHWCONTEXTSTATE *Args);
typedef DXGKDDI_UPDATEHWCONTEXTSTATE *PDXGKDDI_UPDATEHWCONTEXTSTATE;

typedef NTSTATUS DXGKDDI_SETSCHEDULINGLOGBUFFER(HANDLE hAdapter, const DXGKARG_SETSCHEDULINGLOGBUFFER *Args);
typedef DXGKDDI_SETSCHEDULINGLOGBUFFER *PDXGKDDI_SETSCHEDULINGLOGBUFFER;

typedef NTSTATUS DXGKDDI_SETUPPRIORITYBANDS(HANDLE hAdapter, const DXGKARG_SETUPPRIORITYBANDS *Args);
typedef DXGKDDI_SETUPPRIORITYBANDS *PDXGKDDI_SETUPPRIORITYBANDS;

typedef NTSTATUS DXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES(HANDLE hAdapter, const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES *Args);
typedef DXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES *PDXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES;

typedef NTSTATUS DXGKDDI_SUSPENDCONTEXT(HANDLE hAdapter, const DXGKARG_SUSPENDCONTEXT *Args);
typedef DXGKDDI_SUSPENDCONTEXT *PDXGKDDI_SUSPENDCONTEXT;

typedef NTSTATUS DXGKDDI_RESUMECONTEXT(HANDLE hAdapter, const DXGKARG_RESUMECONTEXT *Args);
typedef DXGKDDI_RESUMECONTEXT *PDXGKDDI_RESUMECONTEXT;

typedef NTSTATUS DXGKDDI_SETVIRTUALMACHINEDATA(HANDLE hAdapter, const DXGKARG_SETVIRTUALMACHINEDATA *Args);
typedef DXGKDDI_SETVIRTUALMACHINEDATA *PDXGKDDI_SETVIRTUALMACHINEDATA;

typedef NTSTATUS DXGKDDI_RESUMEHWENGINE(HANDLE hAdapter, DXGKARG_RESUMEHWENGINE *Args);
typedef DXGKDDI_RESUMEHWENGINE *PDXGKDDI_RESUMEHWENGINE;

typedef NTSTATUS DXGKDDI_SIGNALMONITOREDFENCE(HANDLE hContext, DXGKARG_SIGNALMONITOREDFENCE *Args);
typedef DXGKDDI_SIGNALMONITOREDFENCE *PDXGKDDI_SIGNALMONITOREDFENCE;

typedef NTSTATUS DXGKDDI_PRESENTTOHWQUEUE(HANDLE hHwQueue, VOID *pPresent);
typedef DXGKDDI_PRESENTTOHWQUEUE *PDXGKDDI_PRESENTTOHWQUEUE;

typedef NTSTATUS DXGKDDI_CREATENATIVEFENCE(HANDLE hAdapter, DXGKARG_CREATENATIVEFENCE *Args);
typedef DXGKDDI_CREATENATIVEFENCE *PDXGKDDI_CREATENATIVEFENCE;

typedef NTSTATUS DXGKDDI_DESTROYNATIVEFENCE(const DXGKARG_DESTROYNATIVEFENCE *Args);
typedef DXGKDDI_DESTROYNATIVEFENCE *PDXGKDDI_DESTROYNATIVEFENCE;

typedef NTSTATUS DXGKDDI_UPDATEMONITOREDVALUES(const DXGKARG_UPDATEMONITOREDVALUES *Args);
typedef DXGKDDI_UPDATEMONITOREDVALUES *PDXGKDDI_UPDATEMONITOREDVALUES;

typedef NTSTATUS DXGKDDI_UPDATECURRENTVALUESFROMCPU(const DXGKARG_UPDATECURRENTVALUESFROMCPU *Args);
typedef DXGKDDI_UPDATECURRENTVALUESFROMCPU *PDXGKDDI_UPDATECURRENTVALUESFROMCPU;

typedef NTSTATUS DXGKDDI_CREATEDOORBELL(DXGKARG_CREATEDOORBELL *Args);
typedef DXGKDDI_CREATEDOORBELL *PDXGKDDI_CREATEDOORBELL;

typedef NTSTATUS DXGKDDI_CONNECTDOORBELL(DXGKARG_CONNECTDOORBELL *Args);
typedef DXGKDDI_CONNECTDOORBELL *PDXGKDDI_CONNECTDOORBELL;

typedef NTSTATUS DXGKDDI_DISCONNECTDOORBELL(const DXGKARG_DISCONNECTDOORBELL *Args);
typedef DXGKDDI_DISCONNECTDOORBELL *PDXGKDDI_DISCONNECTDOORBELL;

typedef NTSTATUS DXGKDDI_DESTROYDOORBELL(const DXGKARG_DESTROYDOORBELL *Args);
typedef DXGKDDI_DESTROYDOORBELL *PDXGKDDI_DESTROYDOORBELL;

typedef NTSTATUS DXGKDDI_NOTIFYWORKSUBMISSION(const DXGKARG_NOTIFYWORKSUBMISSION *Args);
typedef DXGKDDI_NOTIFYWORKSUBMISSION *PDXGKDDI_NOTIFYWORKSUBMISSION;

typedef NTSTATUS DXGKDDI_OPENNATIVEFENCE(HANDLE hAdapter, DXGKARG_OPENNATIVEFENCE *Args);
typedef DXGKDDI_OPENNATIVEFENCE *PDXGKDDI_OPENNATIVEFENCE;

typedef NTSTATUS DXGKDDI_CLOSENATIVEFENCE(HANDLE hAdapter, const DXGKARG_CLOSENATIVEFENCE *Args);
typedef DXGKDDI_CLOSENATIVEFENCE *PDXGKDDI_CLOSENATIVEFENCE;

typedef NTSTATUS DXGKDDI_SETNATIVEFENCELOGBUFFER(const DXGKARG_SETNATIVEFENCELOGBUFFER *Args);
typedef DXGKDDI_SETNATIVEFENCELOGBUFFER *PDXGKDDI_SETNATIVEFENCELOGBUFFER;

typedef NTSTATUS DXGKDDI_UPDATENATIVEFENCELOGS(const DXGKARG_UPDATENATIVEFENCELOGS *Args);
typedef DXGKDDI_UPDATENATIVEFENCELOGS *PDXGKDDI_UPDATENATIVEFENCELOGS;

typedef NTSTATUS DXGKDDI_COLLECTDBGINFO2(HANDLE hAdapter, DXGKARG_COLLECTDBGINFO2 *Args);
typedef DXGKDDI_COLLECTDBGINFO2 *PDXGKDDI_COLLECTDBGINFO2;

typedef struct DRIVER_INITIALIZATION_DATA {
    UINT Version;
    PDXGKDDI_ADD_DEVICE DxgkDdiAddDevice;
    PDXGKDDI_START_DEVICE DxgkDdiStartDevice;
    PDXGKDDI_STOP_DEVICE DxgkDdiStopDevice;
    PDXGKDDI_REMOVE_DEVICE DxgkDdiRemoveDevice;
    PDXGKDDI_DISPATCH_IO_REQUEST DxgkDdiDispatchIoRequest;
    PDXGKDDI_INTERRUPT_ROUTINE DxgkDdiInterruptRoutine;
    PDXGKDDI_DPC_ROUTINE DxgkDdiDpcRoutine;
    PDXGKDDI_QUERY_CHILD_RELATIONS DxgkDdiQueryChildRelations;
    PDXGKDDI_QUERY_CHILD_STATUS DxgkDdiQueryChildStatus;
    PDXGKDDI_QUERY_DEVICE_DESCRIPTOR DxgkDdiQueryDeviceDescriptor;
    PDXGKDDI_SET_POWER_STATE DxgkDdiSetPowerState;
    PDXGKDDI_NOTIFY_ACPI_EVENT DxgkDdiNotifyAcpiEvent;
    PDXGKDDI_RESET_DEVICE DxgkDdiResetDevice;
    PDXGKDDI_UNLOAD DxgkDdiUnload;
    PDXGKDDI_QUERY_INTERFACE DxgkDdiQueryInterface;
    PDXGKDDI_CONTROL_ETW_LOGGING DxgkDdiControlEtwLogging;
    PDXGKDDI_QUERYADAPTERINFO DxgkDdiQueryAdapterInfo;
    PDXGKDDI_CREATEDEVICE DxgkDdiCreateDevice;
    PDXGKDDI_CREATEALLOCATION DxgkDdiCreateAllocation;
    PDXGKDDI_DESTROYALLOCATION DxgkDdiDestroyAllocation;
    PDXGKDDI_DESCRIBEALLOCATION DxgkDdiDescribeAllocation;
    PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA DxgkDdiGetStandardAllocationDriverData;
    PVOID DxgkDdiAcquireSwizzlingRange;
    PVOID DxgkDdiReleaseSwizzlingRange;
    PVOID DxgkDdiPatch;
    PDXGKDDI_SUBMITCOMMAND DxgkDdiSubmitCommand;
    PDXGKDDI_PREEMPTCOMMAND DxgkDdiPreemptCommand;
    PDXGKDDI_BUILDPAGINGBUFFER DxgkDdiBuildPagingBuffer;
    PVOID DxgkDdiSetPalette;
    PVOID DxgkDdiSetPointerPosition;
    PVOID DxgkDdiSetPointerShape;
    PDXGKDDI_RESETFROMTIMEOUT DxgkDdiResetFromTimeout;
    PDXGKDDI_RESTARTFROMTIMEOUT DxgkDdiRestartFromTimeout;
    PDXGKDDI_ESCAPE DxgkDdiEscape;
    PDXGKDDI_COLLECTDBGINFO DxgkDdiCollectDbgInfo;
    PVOID DxgkDdiQueryCurrentFence;
    PVOID DxgkDdiIsSupportedVidPn;
    PVOID DxgkDdiRecommendFunctionalVidPn;
    PVOID DxgkDdiEnumVidPnCofuncModality;
    PVOID DxgkDdiSetVidPnSourceAddress;
    PVOID DxgkDdiSetVidPnSourceVisibility;
    PVOID DxgkDdiCommitVidPn;
    PVOID DxgkDdiUpdateActiveVidPnPresentPath;
    PVOID DxgkDdiRecommendMonitorModes;
    PVOID DxgkDdiRecommendVidPnTopology;
    PVOID DxgkDdiGetScanLine;
    PVOID DxgkDdiStopCapture;
    PVOID DxgkDdiControlInterrupt;
    PVOID DxgkDdiCreateOverlay;
    PDXGKDDI_DESTROYDEVICE DxgkDdiDestroyDevice;
    PDXGKDDI_OPENALLOCATIONINFO DxgkDdiOpenAllocation;
    PDXGKDDI_CLOSEALLOCATION DxgkDdiCloseAllocation;
    PVOID DxgkDdiRender;
    PVOID DxgkDdiPresent;
    PVOID DxgkDdiUpdateOverlay;
    PVOID DxgkDdiFlipOverlay;
    PVOID DxgkDdiDestroyOverlay;
    PDXGKDDI_CREATECONTEXT DxgkDdiCreateContext;
    PDXGKDDI_DESTROYCONTEXT DxgkDdiDestroyContext;
    PDXGKDDI_LINK_DEVICE DxgkDdiLinkDevice;
    PVOID DxgkDdiSetDisplayPrivateDriverFormat;
    PVOID DxgkDdiDescribePageTable;
    PVOID DxgkDdiUpdatePageTable;
    PVOID DxgkDdiUpdatePageDirectory;
    PVOID DxgkDdiMovePageDirectory;
    PVOID DxgkDdiSubmitRender;
    PVOID DxgkDdiCreateAllocation2;
    PVOID DxgkDdiRenderKm;
    PVOID Reserved;
    PVOID DxgkDdiQueryVidPnHWCapability;
    PDXGKDDISETPOWERCOMPONENTFSTATE DxgkDdiSetPowerComponentFState;
    PDXGKDDI_QUERYDEPENDENTENGINEGROUP DxgkDdiQueryDependentEngineGroup;
    PDXGKDDI_QUERYENGINESTATUS DxgkDdiQueryEngineStatus;
    PDXGKDDI_RESETENGINE DxgkDdiResetEngine;
    PVOID DxgkDdiStopDeviceAndReleasePostDisplayOwnership;
    PVOID DxgkDdiSystemDisplayEnable;
    PVOID DxgkDdiSystemDisplayWrite;
    PDXGKDDI_CANCELCOMMAND DxgkDdiCancelCommand;
    PVOID DxgkDdiGetChildContainerId;
    PDXGKDDIPOWERRUNTIMECONTROLREQUEST DxgkDdiPowerRuntimeControlRequest;
    PVOID DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay;
    PDXGKDDI_NOTIFY_SURPRISE_REMOVAL DxgkDdiNotifySurpriseRemoval;
    PDXGKDDI_GETNODEMETADATA DxgkDdiGetNodeMetadata;
    PVOID DxgkDdiSetPowerPState;
    PVOID DxgkDdiControlInterrupt2;
    PVOID DxgkDdiCheckMultiPlaneOverlaySupport;
    PDXGKDDI_CALIBRATEGPUCLOCK DxgkDdiCalibrateGpuClock;
    PDXGKDDI_FORMATHISTORYBUFFER DxgkDdiFormatHistoryBuffer;
    PVOID DxgkDdiRenderGdi;
    PDXGKDDI_SUBMITCOMMANDVIRTUAL DxgkDdiSubmitCommandVirtual;
    PDXGKDDI_SETROOTPAGETABLE DxgkDdiSetRootPageTable;
    PDXGKDDI_GETROOTPAGETABLESIZE DxgkDdiGetRootPageTableSize;
    PDXGKDDI_MAPCPUHOSTAPERTURE DxgkDdiMapCpuHostAperture;
    PDXGKDDI_UNMAPCPUHOSTAPERTURE DxgkDdiUnmapCpuHostAperture;
    PVOID DxgkDdiCheckMultiPlaneOverlaySupport2;
    PDXGKDDI_CREATEPROCESS DxgkDdiCreateProcess;
    PDXGKDDI_DESTROYPROCESS DxgkDdiDestroyProcess;
    PVOID DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2;
    PVOID Reserved1;
    PVOID Reserved2;
    PVOID DxgkDdiPowerRuntimeSetDeviceHandle;
    PDXGKDDI_SETSTABLEPOWERSTATE DxgkDdiSetStablePowerState;
    PVOID DxgkDdiSetVideoProtectedRegion;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_1
    PVOID DxgkDdiCheckMultiPlaneOverlaySupport3;
    PVOID DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3;
    PVOID DxgkDdiPostMultiPlaneOverlayPresent;
    PVOID DxgkDdiValidateUpdateAllocationProperty;
    PVOID DxgkDdiControlModeBehavior;
    PVOID DxgkDdiUpdateMonitorLinkInfo;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_2
    PDXGKDDI_CREATEHWCONTEXT DxgkDdiCreateHwContext;
    PDXGKDDI_DESTROYHWCONTEXT DxgkDdiDestroyHwContext;
    PDXGKDDI_CREATEHWQUEUE DxgkDdiCreateHwQueue;
    PDXGKDDI_DESTROYHWQUEUE DxgkDdiDestroyHwQueue;
    PDXGKDDI_SUBMITCOMMANDTOHWQUEUE DxgkDdiSubmitCommandToHwQueue;
    PDXGKDDI_SWITCHTOHWCONTEXTLIST DxgkDdiSwitchToHwContextList;
    PDXGKDDI_RESETHWENGINE DxgkDdiResetHwEngine;
    PVOID DxgkDdiCreatePeriodicFrameNotification;
    PVOID DxgkDdiDestroyPeriodicFrameNotification;
    PVOID DxgkDdiSetTimingsFromVidPn;
    PVOID DxgkDdiSetTargetGamma;
    PVOID DxgkDdiSetTargetContentType;
    PVOID DxgkDdiSetTargetAnalogCopyProtection;
    PVOID DxgkDdiSetTargetAdjustedColorimetry;
    PVOID DxgkDdiDisplayDetectControl;
    PVOID DxgkDdiQueryConnectionChange;
    PVOID DxgkDdiExchangePreStartInfo;
    PVOID DxgkDdiGetMultiPlaneOverlayCaps;
    PVOID DxgkDdiGetPostCompositionCaps;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_3
    PDXGKDDI_UPDATEHWCONTEXTSTATE DxgkDdiUpdateHwContextState;
    PVOID DxgkDdiCreateProtectedSession;
    PVOID DxgkDdiDestroyProtectedSession;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_4
    PDXGKDDI_SETSCHEDULINGLOGBUFFER DxgkDdiSetSchedulingLogBuffer;
    PDXGKDDI_SETUPPRIORITYBANDS DxgkDdiSetupPriorityBands;
    PVOID DxgkDdiNotifyFocusPresent;
    PDXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES DxgkDdiSetContextSchedulingProperties;
    PDXGKDDI_SUSPENDCONTEXT DxgkDdiSuspendContext;
    PDXGKDDI_RESUMECONTEXT DxgkDdiResumeContext;
    PDXGKDDI_SETVIRTUALMACHINEDATA DxgkDdiSetVirtualMachineData;
    PVOID DxgkDdiBeginExclusiveAccess;
    PVOID DxgkDdiEndExclusiveAccess;
    PVOID DxgkDdiQueryDiagnosticTypesSupport;
    PVOID DxgkDdiControlDiagnosticReporting;
    PDXGKDDI_RESUMEHWENGINE DxgkDdiResumeHwEngine;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_5
    PDXGKDDI_SIGNALMONITOREDFENCE DxgkDdiSignalMonitoredFence;
    PDXGKDDI_PRESENTTOHWQUEUE DxgkDdiPresentToHwQueue;
    PVOID DxgkDdiValidateSubmitCommand;
    PVOID DxgkDdiSetTargetAdjustedColorimetry2;
    PVOID DxgkDdiSetTrackedWorkloadPowerLevel;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_6
    PVOID DxgkDdiSaveMemoryForHotUpdate;
    PVOID DxgkDdiRestoreMemoryForHotUpdate;
    PVOID DxgkDdiCollectDiagnosticInfo;
    PVOID Reserved3;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_7
    PVOID DxgkDdiControlInterrupt3;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_9
    PVOID DxgkDdiSetFlipQueueLogBuffer;
    PVOID DxgkDdiUpdateFlipQueueLog;
    PVOID DxgkDdiCancelQueuedFlips;
    PVOID DxgkDdiSetInterruptTargetPresentId;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM3_0
    PVOID DxgkDdiSetAllocationBackingStore;
    PVOID DxgkDdiCreateCpuEvent;
    PVOID DxgkDdiDestroyCpuEvent;
    PVOID DxgkDdiCancelFlips;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM3_1
    PDXGKDDI_CREATENATIVEFENCE DxgkDdiCreateNativeFence;
    PDXGKDDI_DESTROYNATIVEFENCE DxgkDdiDestroyNativeFence;
    PDXGKDDI_UPDATEMONITOREDVALUES DxgkDdiUpdateMonitoredValues;
    PDXGKDDI_UPDATECURRENTVALUESFROMCPU DxgkDdiUpdateCurrentValuesFromCpu;
    PDXGKDDI_CREATEDOORBELL DxgkDdiCreateDoorbell;
    PDXGKDDI_CONNECTDOORBELL DxgkDdiConnectDoorbell;
    PDXGKDDI_DISCONNECTDOORBELL DxgkDdiDisconnectDoorbell;
    PDXGKDDI_DESTROYDOORBELL DxgkDdiDestroyDoorbell;
    PDXGKDDI_NOTIFYWORKSUBMISSION DxgkDdiNotifyWorkSubmission;
    PVOID Reserved4;
#endif
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM3_2
    PVOID DxgkDdiCreateMemoryBasis;
    PVOID DxgkDdiDestroyMemoryBasis;
    PVOID DxgkDdiStartDirtyTracking;
    PVOID DxgkDdiStopDirtyTracking;
    PVOID DxgkDdiQueryDirtyBitData;
    PVOID DxgkDdiPrepareLiveMigration;
    PVOID DxgkDdiSaveImmutableMigrationData;
    PVOID DxgkDdiSaveMutableMigrationData;
    PVOID DxgkDdiEndLiveMigration;
    PVOID DxgkDdiRestoreImmutableMigrationData;
    PVOID DxgkDdiRestoreMutableMigrationData;
    PVOID DxgkDdiWriteVirtualizedInterrupt;
    PVOID DxgkDdiSetVirtualGpuResources2;
    PVOID DxgkDdiSetVirtualFunctionPauseState;
    PDXGKDDI_OPENNATIVEFENCE DxgkDdiOpenNativeFence;
    PDXGKDDI_CLOSENATIVEFENCE DxgkDdiCloseNativeFence;
    PDXGKDDI_SETNATIVEFENCELOGBUFFER DxgkDdiSetNativeFenceLogBuffer;
    PDXGKDDI_UPDATENATIVEFENCELOGS DxgkDdiUpdateNativeFenceLogs;
    PDXGKDDI_COLLECTDBGINFO2 DxgkDdiCollectDbgInfo2;
    PVOID DxgkDdiNotifyContextPriorityChange;
    PVOID DxgkDdiResetDisplayEngine;
#endif
} DRIVER_INITIALIZATION_DATA;

/* What a test command buffer does */
typedef enum D3DDDI_TESTCOMMANDBUFFEROP {
    D3DDDI_TESTCOMMANDBUFFEROP_INVALID = 0,
    D3DDDI_TESTCOMMANDBUFFEROP_COPY = 1,
    D3DDDI_TESTCOMMANDBUFFEROP_FILL = 2,
    D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_LOOP = 3,
    D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_PREEMPTABLE_LOOP = 4,
    D3DDDI_TESTCOMMANDBUFFEROP_MAX = 5,
} D3DDDI_TESTCOMMANDBUFFEROP;

/* A copy between GPU virtual addresses of the context's process */
typedef struct D3DDDI_TESTCOMMANDBUFFER_COPY {
    D3DGPU_VIRTUAL_ADDRESS SrcAddress;
    D3DGPU_VIRTUAL_ADDRESS DstAddress;
    UINT NumBytes;
} D3DDDI_TESTCOMMANDBUFFER_COPY;

/* A fill with a word */
typedef struct D3DDDI_TESTCOMMANDBUFFER_FILL {
    D3DGPU_VIRTUAL_ADDRESS DstAddress;
    UINT NumBytes;
    UINT Pattern;
} D3DDDI_TESTCOMMANDBUFFER_FILL;

/* A command, by its operation */
typedef struct D3DDDI_TESTCOMMANDBUFFER {
    __extension__ union {
        D3DDDI_TESTCOMMANDBUFFER_COPY Copy;
        D3DDDI_TESTCOMMANDBUFFER_FILL Fill;
        CHAR Reserved[64];
    };
    D3DDDI_TESTCOMMANDBUFFEROP Operation;
    UINT Reserved1;
} D3DDDI_TESTCOMMANDBUFFER;

/* What the handle beside them is */
typedef struct D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS {
    __extension__ union {
        __extension__ struct {
            UINT HardwareQueue : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    };
} D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS;

typedef struct DXGKARG_BUILDTESTCOMMANDBUFFER {
    HANDLE hContext;
    D3DDDI_TESTCOMMANDBUFFER Command;
    VOID *pDmaBuffer;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferSize;
    UINT DmaBufferPrivateDataSize;
    D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS Flags;
} DXGKARG_BUILDTESTCOMMANDBUFFER;

typedef NTSTATUS DXGKDDI_BUILDTESTCOMMANDBUFFER(HANDLE hAdapter, DXGKARG_BUILDTESTCOMMANDBUFFER *pArgs);
typedef DXGKDDI_BUILDTESTCOMMANDBUFFER *PDXGKDDI_BUILDTESTCOMMANDBUFFER;

/* The driver's table of DXGK_FEATURE_KERNEL_MODE_TESTING, version 1 */
typedef struct DXGKDDI_KERNELMODETESTINGINTERFACE {
    PDXGKDDI_BUILDTESTCOMMANDBUFFER pfnBuildTestCommandBuffer;
} DXGKDDI_KERNELMODETESTINGINTERFACE;

/* Escapes that the operating system answers with the driver's help */
typedef enum D3DDDI_DRIVERESCAPETYPE {
    D3DDDI_DRIVERESCAPETYPE_TRANSLATEALLOCATIONHANDLE = 0,
    D3DDDI_DRIVERESCAPETYPE_TRANSLATERESOURCEHANDLE = 1,
    D3DDDI_DRIVERESCAPETYPE_CPUEVENTUSAGE = 2,
    D3DDDI_DRIVERESCAPETYPE_BUILDTESTCOMMANDBUFFER = 3,
    D3DDDI_DRIVERESCAPETYPE_MAX = 4,
} D3DDDI_DRIVERESCAPETYPE;

typedef struct D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER {
    D3DDDI_DRIVERESCAPETYPE EscapeType;
    D3DKMT_HANDLE hDevice;
    D3DKMT_HANDLE hContext;
    D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS Flags;
    D3DDDI_TESTCOMMANDBUFFER Command;
    VOID *pDmaBuffer;
    VOID *pDmaBufferPrivateData;
    UINT DmaBufferSize;
    UINT DmaBufferPrivateDataSize;
} D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER;

/* In displib.lib of the WDK; examples/miniport-c/displib.c has one without. */
NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath,
                        DRIVER_INITIALIZATION_DATA *DriverInitializationData);

#ifdef __cplusplus
}
#endif

#endif /* CAMPANILE_DDI_H */
