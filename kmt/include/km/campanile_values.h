/*
 * Values, macros and inline functions of wdm.h and ntddk.h that need no service of the kernel: registers, lookaside lists, flags of page lists, of protection and of
 * the registry, and the annotations of the source code analyser, which say nothing to a compiler.
 *
 * Included at the end of campanile_services.h, and with it by ntddk.h.
 */
#ifndef CAMPANILE_KM_VALUES_H
#define CAMPANILE_KM_VALUES_H

#include "campanile_inline.h"

#ifdef __cplusplus
extern "C" {
#endif

#define C_ASSERT(expression) typedef char CAMPANILE_JOIN(campanile_assertion_, __LINE__)[(expression) ? 1 : -1] __attribute__((unused))
#define CAMPANILE_JOIN(one, other) CAMPANILE_JOINED(one, other)
#define CAMPANILE_JOINED(one, other) one##other

#define HIGH_LEVEL 15

#define STATUS_DEVICE_CONFIGURATION_ERROR ((NTSTATUS)0xc0000182)

/* RelativeTo of RtlQueryRegistryValues, and Flags of its table. */
#define RTL_REGISTRY_ABSOLUTE 0
#define RTL_REGISTRY_SERVICES 1
#define RTL_REGISTRY_CONTROL 2
#define RTL_REGISTRY_WINDOWS_NT 3
#define RTL_REGISTRY_DEVICEMAP 4
#define RTL_REGISTRY_USER 5
#define RTL_REGISTRY_HANDLE 0x40000000
#define RTL_REGISTRY_OPTIONAL 0x80000000
#define RTL_QUERY_REGISTRY_SUBKEY 0x00000001
#define RTL_QUERY_REGISTRY_TOPKEY 0x00000002
#define RTL_QUERY_REGISTRY_REQUIRED 0x00000004
#define RTL_QUERY_REGISTRY_NOVALUE 0x00000008
#define RTL_QUERY_REGISTRY_NOEXPAND 0x00000010
#define RTL_QUERY_REGISTRY_DIRECT 0x00000020
#define RTL_QUERY_REGISTRY_DELETE 0x00000040
#define RTL_QUERY_REGISTRY_TYPECHECK 0x00000100
#define RTL_QUERY_REGISTRY_TYPECHECK_SHIFT 24

/* DevInstKeyType of IoOpenDeviceRegistryKey. */
#define PLUGPLAY_REGKEY_DEVICE 1
#define PLUGPLAY_REGKEY_DRIVER 2
#define PLUGPLAY_REGKEY_CURRENT_HWPROFILE 4

/* MdlFlags. */
#define MDL_MAPPED_TO_SYSTEM_VA 0x0001
#define MDL_PAGES_LOCKED 0x0002
#define MDL_SOURCE_IS_NONPAGED_POOL 0x0004
#define MDL_ALLOCATED_FIXED_SIZE 0x0008
#define MDL_PARTIAL 0x0010
#define MDL_PARTIAL_HAS_BEEN_MAPPED 0x0020
#define MDL_IO_PAGE_READ 0x0040
#define MDL_WRITE_OPERATION 0x0080
#define MDL_LOCKED_PAGE_TABLES 0x0100
#define MDL_FREE_EXTRA_PTES 0x0200
#define MDL_DESCRIBES_AWE 0x0400
#define MDL_IO_SPACE 0x0800
#define MDL_NETWORK_HEADER 0x1000
#define MDL_MAPPING_CAN_FAIL 0x2000
#define MDL_PAGE_CONTENTS_INVARIANT 0x4000
#define MDL_INTERNAL 0x8000

typedef enum _DEVICE_REGISTRY_PROPERTY {
    DevicePropertyDeviceDescription = 0,
    DevicePropertyHardwareID = 1,
    DevicePropertyCompatibleIDs = 2,
    DevicePropertyBootConfiguration = 3,
    DevicePropertyBootConfigurationTranslated = 4,
    DevicePropertyClassName = 5,
    DevicePropertyClassGuid = 6,
    DevicePropertyDriverKeyName = 7,
    DevicePropertyManufacturer = 8,
    DevicePropertyFriendlyName = 9,
    DevicePropertyLocationInformation = 10,
    DevicePropertyPhysicalDeviceObjectName = 11,
    DevicePropertyBusTypeGuid = 12,
    DevicePropertyLegacyBusType = 13,
    DevicePropertyBusNumber = 14,
    DevicePropertyEnumeratorName = 15,
    DevicePropertyAddress = 16,
    DevicePropertyUINumber = 17,
    DevicePropertyInstallState = 18,
    DevicePropertyRemovalPolicy = 19,
    DevicePropertyResourceRequirements = 20,
    DevicePropertyAllocatedResources = 21,
    DevicePropertyContainerID = 22
} DEVICE_REGISTRY_PROPERTY;

/* Protection of pages. */
#define PAGE_NOACCESS 0x01
#define PAGE_READONLY 0x02
#define PAGE_READWRITE 0x04
#define PAGE_WRITECOPY 0x08
#define PAGE_EXECUTE 0x10
#define PAGE_EXECUTE_READ 0x20
#define PAGE_EXECUTE_READWRITE 0x40
#define PAGE_EXECUTE_WRITECOPY 0x80
#define PAGE_GUARD 0x100
#define PAGE_NOCACHE 0x200
#define PAGE_WRITECOMBINE 0x400

/* PreferredNode of MmAllocateContiguousNodeMemory. */
#define MM_ANY_NODE_OK 0x80000000

/* The address of a list that is mapped or of pool, or that of a new mapping; NULL if there is none. */
static inline PVOID MmGetSystemAddressForMdlSafe(PMDL Mdl, ULONG Priority)
{
    if (Mdl->MdlFlags & (MDL_MAPPED_TO_SYSTEM_VA | MDL_SOURCE_IS_NONPAGED_POOL))
        return Mdl->MappedSystemVa;
    return MmMapLockedPagesSpecifyCache(Mdl, KernelMode, MmCached, NULL, FALSE, Priority);
}

/* Ends the mapping that a part of another list has of its own; one that it shares with that list stays. */
static inline VOID MmPrepareMdlForReuse(PMDL Mdl)
{
    if (Mdl->MdlFlags & MDL_PARTIAL_HAS_BEEN_MAPPED)
        MmUnmapLockedPages(Mdl->MappedSystemVa, Mdl);
}

#define CAMPANILE_LOOKASIDE(kind, List)                                                                  \
    static inline PVOID ExAllocateFrom##kind##LookasideList(List Lookaside)                              \
    {                                                                                                    \
        return ExAllocateFromLookasideListEx((PLOOKASIDE_LIST_EX)Lookaside);                             \
    }                                                                                                    \
    static inline VOID ExFreeTo##kind##LookasideList(List Lookaside, PVOID Entry)                        \
    {                                                                                                    \
        ExFreeToLookasideListEx((PLOOKASIDE_LIST_EX)Lookaside, Entry);                                   \
    }

/* All kinds begin with the same structure; a function of the older kinds takes one argument less, which is the last. */
CAMPANILE_LOOKASIDE(NPaged, PNPAGED_LOOKASIDE_LIST)
CAMPANILE_LOOKASIDE(Paged, PPAGED_LOOKASIDE_LIST)

static inline VOID KeMemoryBarrier(VOID)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* TickCountQuad of KUSER_SHARED_DATA. */
#define KeQueryTickCount(CurrentCount) ((void)((CurrentCount)->QuadPart = *(volatile LONGLONG *)0xFFFFF78000000320ull))

/* A buffer is one access for each element, in order. */
#define CAMPANILE_REGISTER(name, type)                                                                   \
    static inline type READ_REGISTER_##name(volatile type *Register)                                     \
    {                                                                                                    \
        __atomic_thread_fence(__ATOMIC_SEQ_CST);                                                         \
        return *Register;                                                                                \
    }                                                                                                    \
    static inline VOID WRITE_REGISTER_##name(volatile type *Register, type Value)                        \
    {                                                                                                    \
        *Register = Value;                                                                               \
        __atomic_thread_fence(__ATOMIC_SEQ_CST);                                                         \
    }                                                                                                    \
    CAMPANILE_REGISTER_BUFFER(name, type)
#define CAMPANILE_REGISTER_BUFFER(name, type)                                                            \
    static inline VOID READ_REGISTER_BUFFER_##name(volatile type *Register, type *Buffer, ULONG Count)   \
    {                                                                                                    \
        while (Count--)                                                                                  \
            *Buffer++ = *Register++;                                                                     \
        __atomic_thread_fence(__ATOMIC_SEQ_CST);                                                         \
    }                                                                                                    \
    static inline VOID WRITE_REGISTER_BUFFER_##name(volatile type *Register, type *Buffer, ULONG Count)  \
    {                                                                                                    \
        while (Count--)                                                                                  \
            *Register++ = *Buffer++;                                                                     \
        __atomic_thread_fence(__ATOMIC_SEQ_CST);                                                         \
    }

CAMPANILE_REGISTER(UCHAR, UCHAR)
CAMPANILE_REGISTER(USHORT, USHORT)
CAMPANILE_REGISTER_BUFFER(ULONG, ULONG)
CAMPANILE_REGISTER(ULONG64, ULONG64)

/* Of an exception that is being filtered or handled. */
#ifdef _MSC_VER
#define GetExceptionCode _exception_code
#endif

/* Annotations. */
#define _In_
#define _In_opt_
#define _In_z_
#define _In_reads_(count)
#define _In_reads_opt_(count)
#define _In_reads_bytes_(size)
#define _In_reads_bytes_opt_(size)
#define _Out_
#define _Out_opt_
#define _Out_writes_(count)
#define _Out_writes_opt_(count)
#define _Out_writes_bytes_(size)
#define _Out_writes_bytes_opt_(size)
#define _Outptr_
#define _Outptr_opt_
#define _Outptr_result_maybenull_
#define _Inout_
#define _Inout_opt_
#define _Inout_updates_(count)
#define _Inout_updates_bytes_(size)
#define _Ret_maybenull_
#define _Must_inspect_result_
#define _Success_(expression)
#define _When_(condition, annotation)
#define _Field_size_(count)
#define _Field_size_bytes_(size)
#define _Function_class_(name)
#define _IRQL_requires_(level)
#define _IRQL_requires_max_(level)
#define _IRQL_requires_min_(level)
#define _IRQL_requires_same_
#define _IRQL_raises_(level)
#define _IRQL_saves_
#define _IRQL_restores_
#define _Acquires_lock_(lock)
#define _Releases_lock_(lock)
#define _Requires_lock_held_(lock)
#define _Use_decl_annotations_
#define _Dispatch_type_(type)

#ifdef __cplusplus
}
#endif

#endif /* CAMPANILE_KM_VALUES_H */
