/*
 * The part of the kernel's headers that display miniports are written in: base types, and the services that a small driver uses; campanile_services.h, which this
 * includes, has the others of docs/kernel-services.md. Names, layouts and values are those of Microsoft's wdm.h and ntddk.h for x64.
 *
 * A driver that is compiled with the WDK takes Microsoft's headers and leaves this folder out of its include path.
 */
#ifndef CAMPANILE_KM_NTDDK_H
#define CAMPANILE_KM_NTDDK_H

#include <stddef.h>
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On Windows long has 32 bits. Elsewhere this header is good for looking at layouts only. */
#ifdef _WIN32
typedef long LONG;
typedef unsigned long ULONG, DWORD;
typedef wchar_t WCHAR;
#define NTSYSAPI __declspec(dllimport)
#else
typedef int LONG;
typedef unsigned int ULONG, DWORD;
typedef unsigned short WCHAR;
#define NTSYSAPI
#endif
typedef void VOID, *PVOID;
typedef char CHAR, *PCHAR, CCHAR;
typedef const char *PCSTR;
typedef unsigned char UCHAR, BYTE, UINT8, BOOLEAN, *PUCHAR, *PBOOLEAN;
typedef short SHORT, CSHORT;
typedef unsigned short USHORT, UINT16, WORD;
typedef int INT, BOOL, INT32;
typedef unsigned int UINT, UINT32;
typedef ULONG *PULONG;
typedef long long LONGLONG, INT64, LONG64;
typedef unsigned long long ULONGLONG, UINT64, ULONG64;
typedef size_t SIZE_T, ULONG_PTR, KAFFINITY, PFN_NUMBER;
typedef WCHAR *PWSTR;
typedef const WCHAR *PCWSTR;
typedef void *HANDLE, **PHANDLE;
typedef LONG NTSTATUS;
typedef UCHAR KIRQL, *PKIRQL;
typedef ULONG_PTR KSPIN_LOCK, *PKSPIN_LOCK;
typedef ULONG DEVICE_TYPE, ACCESS_MASK;

#define CONST const
#define IN
#define OUT
#define NTAPI
#define APIENTRY
#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif
#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#define UNREFERENCED_PARAMETER(parameter) ((void)(parameter))
#define FIELD_OFFSET(type, field) ((LONG)offsetof(type, field))
#define CONTAINING_RECORD(address, type, field) ((type *)((PCHAR)(address) - offsetof(type, field)))
#define PAGE_SIZE 0x1000
#define PAGE_SHIFT 12

typedef union _LARGE_INTEGER {
    __extension__ struct {
        ULONG LowPart;
        LONG HighPart;
    };
    struct {
        ULONG LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;
typedef LARGE_INTEGER PHYSICAL_ADDRESS, *PPHYSICAL_ADDRESS;

typedef struct _LUID {
    ULONG LowPart;
    LONG HighPart;
} LUID;

typedef struct _GUID {
    ULONG Data1;
    USHORT Data2;
    USHORT Data3;
    UCHAR Data4[8];
} GUID;
typedef const GUID *LPCGUID;

typedef struct tagRECT {
    LONG left;
    LONG top;
    LONG right;
    LONG bottom;
} RECT;

typedef struct _UNICODE_STRING {
    USHORT Length;
    USHORT MaximumLength;
    PWSTR Buffer;
} UNICODE_STRING, *PUNICODE_STRING;

typedef struct _MDL {
    struct _MDL *Next;
    CSHORT Size;
    CSHORT MdlFlags;
    PVOID Process;
    PVOID MappedSystemVa;
    PVOID StartVa;
    ULONG ByteCount;
    ULONG ByteOffset;
} MDL, *PMDL;

/* The page frame numbers behind the header of a list. */
#define MmGetMdlPfnArray(mdl) ((PFN_NUMBER *)((mdl) + 1))

typedef enum _MEMORY_CACHING_TYPE {
    MmNonCached = 0,
    MmCached = 1,
    MmWriteCombined = 2,
    MmHardwareCoherentCached = 3,
    MmNonCachedUnordered = 4,
    MmUSWCCached = 5,
    MmNotMapped = -1
} MEMORY_CACHING_TYPE;

typedef enum _DEVICE_POWER_STATE {
    PowerDeviceUnspecified = 0,
    PowerDeviceD0 = 1,
    PowerDeviceD1 = 2,
    PowerDeviceD2 = 3,
    PowerDeviceD3 = 4,
    PowerDeviceMaximum = 5
} DEVICE_POWER_STATE;

typedef enum _POWER_ACTION {
    PowerActionNone = 0,
    PowerActionReserved,
    PowerActionSleep,
    PowerActionHibernate,
    PowerActionShutdown,
    PowerActionShutdownReset,
    PowerActionShutdownOff,
    PowerActionWarmEject,
    PowerActionDisplayOff
} POWER_ACTION;

#define CmResourceTypePort 1
#define CmResourceTypeInterrupt 2
#define CmResourceTypeMemory 3
#define CmResourceTypeMemoryLarge 7
#define CM_RESOURCE_INTERRUPT_MESSAGE 2

#pragma pack(push, 4)
typedef struct _CM_PARTIAL_RESOURCE_DESCRIPTOR {
    UCHAR Type;
    UCHAR ShareDisposition;
    USHORT Flags;
    union {
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Generic, Port, Memory, Memory40, Memory48, Memory64;
        struct {
            USHORT Group;
            USHORT MessageCount;
            ULONG Vector;
            KAFFINITY Affinity;
        } MessageRaw;
        struct {
            ULONG Level;
            ULONG Vector;
            KAFFINITY Affinity;
        } Interrupt;
    } u;
} CM_PARTIAL_RESOURCE_DESCRIPTOR, *PCM_PARTIAL_RESOURCE_DESCRIPTOR;

typedef struct _CM_PARTIAL_RESOURCE_LIST {
    USHORT Version;
    USHORT Revision;
    ULONG Count;
    CM_PARTIAL_RESOURCE_DESCRIPTOR PartialDescriptors[1];
} CM_PARTIAL_RESOURCE_LIST, *PCM_PARTIAL_RESOURCE_LIST;

typedef struct _CM_FULL_RESOURCE_DESCRIPTOR {
    LONG InterfaceType;
    ULONG BusNumber;
    CM_PARTIAL_RESOURCE_LIST PartialResourceList;
} CM_FULL_RESOURCE_DESCRIPTOR;

typedef struct _CM_RESOURCE_LIST {
    ULONG Count;
    CM_FULL_RESOURCE_DESCRIPTOR List[1];
} CM_RESOURCE_LIST, *PCM_RESOURCE_LIST;
#pragma pack(pop)

typedef VOID (*PINTERFACE_REFERENCE)(PVOID Context);
typedef VOID (*PINTERFACE_DEREFERENCE)(PVOID Context);

typedef struct _INTERFACE {
    USHORT Size;
    USHORT Version;
    PVOID Context;
    PINTERFACE_REFERENCE InterfaceReference;
    PINTERFACE_DEREFERENCE InterfaceDereference;
} INTERFACE, *PINTERFACE;

typedef struct _QUERY_INTERFACE {
    CONST GUID *InterfaceType;
    USHORT Size;
    USHORT Version;
    PINTERFACE Interface;
    PVOID InterfaceSpecificData;
    ULONG DeviceUid;
} QUERY_INTERFACE, *PQUERY_INTERFACE;

typedef struct _PCI_DEVICE_PRESENCE_PARAMETERS {
    ULONG Size;
    ULONG Flags;
    USHORT VendorID;
    USHORT DeviceID;
    UCHAR RevisionID;
    USHORT SubVendorID;
    USHORT SubSystemID;
    UCHAR BaseClass;
    UCHAR SubClass;
    UCHAR ProgIf;
} PCI_DEVICE_PRESENCE_PARAMETERS, *PPCI_DEVICE_PRESENCE_PARAMETERS;

/* What a miniport passes on and does not look into. */
typedef struct _DRIVER_OBJECT *PDRIVER_OBJECT;
typedef struct _DEVICE_OBJECT *PDEVICE_OBJECT;
typedef struct _VIDEO_REQUEST_PACKET *PVIDEO_REQUEST_PACKET;

typedef BOOLEAN KSYNCHRONIZE_ROUTINE(PVOID SynchronizeContext);
typedef KSYNCHRONIZE_ROUTINE *PKSYNCHRONIZE_ROUTINE;
typedef NTSTATUS DRIVER_INITIALIZE(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath);

#define PASSIVE_LEVEL 0
#define APC_LEVEL 1
#define DISPATCH_LEVEL 2

typedef ULONG64 POOL_FLAGS;
#define POOL_FLAG_UNINITIALIZED 0x2ull
#define POOL_FLAG_NON_PAGED 0x40ull
#define POOL_FLAG_PAGED 0x100ull

NTSYSAPI PVOID NTAPI ExAllocatePool2(POOL_FLAGS Flags, SIZE_T NumberOfBytes, ULONG Tag);
NTSYSAPI VOID NTAPI ExFreePoolWithTag(PVOID P, ULONG Tag);
NTSYSAPI KIRQL NTAPI KeAcquireSpinLockRaiseToDpc(PKSPIN_LOCK SpinLock);
NTSYSAPI VOID NTAPI KeReleaseSpinLock(PKSPIN_LOCK SpinLock, KIRQL NewIrql);
NTSYSAPI LARGE_INTEGER NTAPI KeQueryPerformanceCounter(PLARGE_INTEGER PerformanceFrequency);
NTSYSAPI VOID NTAPI KeStallExecutionProcessor(ULONG MicroSeconds);
NTSYSAPI VOID NTAPI KeBugCheckEx(ULONG Code, ULONG_PTR P1, ULONG_PTR P2, ULONG_PTR P3, ULONG_PTR P4);
NTSYSAPI ULONG DbgPrint(PCSTR Format, ...);
NTSYSAPI ULONG DbgPrintEx(ULONG ComponentId, ULONG Level, PCSTR Format, ...);
NTSYSAPI ULONG NTAPI DbgPrompt(PCSTR Prompt, PCHAR Response, ULONG Length);
NTSYSAPI NTSTATUS NTAPI ExUuidCreate(GUID *Uuid);

/* Lists of pages. */
#define MM_DONT_ZERO_ALLOCATION 0x1
#define MM_ALLOCATE_FULLY_REQUIRED 0x4
#define MM_ALLOCATE_NO_WAIT 0x8
#define MM_ALLOCATE_PREFER_CONTIGUOUS 0x10
#define MM_ALLOCATE_REQUIRE_CONTIGUOUS_CHUNKS 0x20
#define NormalPagePriority 16
#define MmGetMdlByteCount(mdl) ((mdl)->ByteCount)
enum { KernelMode = 0, UserMode = 1 };
NTSYSAPI PMDL NTAPI MmAllocatePagesForMdlEx(PHYSICAL_ADDRESS LowAddress, PHYSICAL_ADDRESS HighAddress,
                                            PHYSICAL_ADDRESS SkipBytes, SIZE_T TotalBytes,
                                            MEMORY_CACHING_TYPE CacheType, ULONG Flags);
NTSYSAPI VOID NTAPI MmFreePagesFromMdl(PMDL MemoryDescriptorList);
NTSYSAPI PVOID NTAPI MmMapLockedPagesSpecifyCache(PMDL MemoryDescriptorList, CHAR AccessMode,
                                                  MEMORY_CACHING_TYPE CacheType, PVOID RequestedAddress,
                                                  ULONG BugCheckOnFailure, ULONG Priority);
NTSYSAPI VOID NTAPI MmUnmapLockedPages(PVOID BaseAddress, PMDL MemoryDescriptorList);
NTSYSAPI VOID NTAPI ExFreePool(PVOID P);
#define KeAcquireSpinLock(lock, irql) (*(irql) = KeAcquireSpinLockRaiseToDpc(lock))
#define KeInitializeSpinLock(lock) ((void)(*(lock) = 0))

#define DPFLTR_VIDEO_ID 27
#define DPFLTR_ERROR_LEVEL 0
#define DPFLTR_WARNING_LEVEL 1
#define DPFLTR_TRACE_LEVEL 2
#define DPFLTR_INFO_LEVEL 3

void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
#define RtlZeroMemory(to, size) memset((to), 0, (size))
#define RtlCopyMemory(to, from, size) memcpy((to), (from), (size))

static inline ULONG READ_REGISTER_ULONG(volatile ULONG *Register)
{
    return *Register;
}

static inline VOID WRITE_REGISTER_ULONG(volatile ULONG *Register, ULONG Value)
{
    *Register = Value;
}

static inline BOOLEAN IsEqualGUID(const GUID *one, const GUID *other)
{
    const UCHAR *left = (const UCHAR *)one, *right = (const UCHAR *)other;
    for (SIZE_T at = 0; at < sizeof(GUID); at++) {
        if (left[at] != right[at])
            return FALSE;
    }
    return TRUE;
}

/* A file that defines INITGUID before it includes the headers holds the values; where several do, the linker keeps one. */
#ifdef _WIN32
#define DECLSPEC_SELECTANY __declspec(selectany)
#else
#define DECLSPEC_SELECTANY __attribute__((weak))
#endif
#ifdef INITGUID
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) \
    extern const GUID name;                                          \
    DECLSPEC_SELECTANY const GUID name = { l, w1, w2, { b1, b2, b3, b4, b5, b6, b7, b8 } }
#else
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) extern const GUID name
#endif

#ifdef __cplusplus
}
#endif

#include "campanile_services.h"

#endif
