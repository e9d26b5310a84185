/*
 * The base types, macros and annotations that d3dkmthk.h is written in, for systems without windows.h: sizes as on 64-bit Windows, where LONG and
 * ULONG have 32 bits and WCHAR has 16.
 *
 * A program that takes its base types from wsl/winadapter.h includes that first, and is compiled with -fshort-wchar; this header then adds what
 * is missing there. A program with types of its own under all of these names defines CAMPANILE_NO_BASE_TYPES.
 */
#ifndef CAMPANILE_WINDOWS_H
#define CAMPANILE_WINDOWS_H

#if !defined(_WIN32) && !defined(CAMPANILE_NO_BASE_TYPES)

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* Every version of wsl/winadapter.h has this macro. */
#ifndef MIDL_INTERFACE
#define CAMPANILE_BASE_TYPES

typedef void VOID, *PVOID, *LPVOID;
typedef char CHAR;
typedef uint8_t BYTE, UCHAR, UINT8, BOOLEAN;
typedef int16_t INT16;
typedef uint16_t USHORT, UINT16, WORD, WCHAR;
typedef int32_t INT, INT32, LONG, BOOL;
typedef uint32_t UINT, UINT32, ULONG, DWORD;
typedef int64_t INT64, LONG64, LONGLONG;
typedef uint64_t UINT64, ULONG64, ULONGLONG;
typedef float FLOAT;
typedef size_t SIZE_T;
typedef uintptr_t ULONG_PTR, UINT_PTR;
typedef void *HANDLE;
typedef struct HDC__ *HDC;
typedef struct HWND__ *HWND;
typedef WCHAR *PWSTR;
typedef const WCHAR *PCWSTR;

typedef struct _LUID {
    DWORD LowPart;
    LONG HighPart;
} LUID;

typedef union _LARGE_INTEGER {
    __extension__ struct {
        DWORD LowPart;
        LONG HighPart;
    };
    struct {
        DWORD LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

typedef union _ULARGE_INTEGER {
    __extension__ struct {
        DWORD LowPart;
        DWORD HighPart;
    };
    struct {
        DWORD LowPart;
        DWORD HighPart;
    } u;
    ULONGLONG QuadPart;
} ULARGE_INTEGER, *PULARGE_INTEGER;

typedef struct _GUID {
    uint32_t Data1;
    uint16_t Data2;
    uint16_t Data3;
    uint8_t Data4[8];
} GUID;

typedef struct tagRECT {
    LONG left;
    LONG top;
    LONG right;
    LONG bottom;
} RECT;

typedef struct _RECTL {
    LONG left;
    LONG top;
    LONG right;
    LONG bottom;
} RECTL;

typedef struct tagPOINT {
    LONG x;
    LONG y;
} POINT;

typedef struct tagPALETTEENTRY {
    BYTE peRed;
    BYTE peGreen;
    BYTE peBlue;
    BYTE peFlags;
} PALETTEENTRY;

#endif

typedef int16_t SHORT;
typedef LONG NTSTATUS;
typedef DWORD ACCESS_MASK;
typedef LARGE_INTEGER PHYSICAL_ADDRESS;

typedef enum _DEVICE_POWER_STATE {
    PowerDeviceUnspecified = 0,
    PowerDeviceD0 = 1,
    PowerDeviceD1 = 2,
    PowerDeviceD2 = 3,
    PowerDeviceD3 = 4,
    PowerDeviceMaximum = 5
} DEVICE_POWER_STATE;

typedef struct _UNICODE_STRING {
    USHORT Length;
    USHORT MaximumLength;
    PWSTR Buffer;
} UNICODE_STRING;

typedef struct _OBJECT_ATTRIBUTES {
    ULONG Length;
    HANDLE RootDirectory;
    UNICODE_STRING *ObjectName;
    ULONG Attributes;
    PVOID SecurityDescriptor;
    PVOID SecurityQualityOfService;
} OBJECT_ATTRIBUTES, *POBJECT_ATTRIBUTES;

typedef struct _CLIENT_ID {
    HANDLE UniqueProcess;
    HANDLE UniqueThread;
} CLIENT_ID, *PCLIENT_ID;

/* Access to processes, for NtOpenProcess. */
#ifndef PROCESS_QUERY_INFORMATION
#define PROCESS_SET_QUOTA 0x0100
#define PROCESS_SET_INFORMATION 0x0200
#define PROCESS_QUERY_INFORMATION 0x0400
#define PROCESS_QUERY_LIMITED_INFORMATION 0x1000
#endif

#ifdef __cplusplus
#define CAMPANILE_ASSERT(condition, text) static_assert(condition, text)
#else
#define CAMPANILE_ASSERT(condition, text) _Static_assert(condition, text)
#endif
/* That of wsl/winadapter.h is C++ only. */
#undef C_ASSERT
#define C_ASSERT(condition) CAMPANILE_ASSERT(condition, #condition)
CAMPANILE_ASSERT(sizeof(WCHAR) == 2, "WCHAR of wsl/winadapter.h is wchar_t: compile with -fshort-wchar");

#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif
#ifndef CONST
#define CONST const
#endif
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef MAX_PATH
#define MAX_PATH 260
#endif
#ifndef ULONGLONG_MAX
#define ULONGLONG_MAX 0xffffffffffffffffull
#endif
#ifndef DUMMYSTRUCTNAME
#define DUMMYSTRUCTNAME
#endif
#ifndef DUMMYUNIONNAME
#define DUMMYUNIONNAME
#endif
#ifndef NT_SUCCESS
#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#endif
#ifndef DECLARE_HANDLE
#define DECLARE_HANDLE(name) typedef struct name##__ *name
#endif
#ifdef __cplusplus
#define CAMPANILE_EXTERN_C extern "C"
#else
#define CAMPANILE_EXTERN_C extern
#endif
#ifndef EXTERN_C
#define EXTERN_C CAMPANILE_EXTERN_C
#endif
/* Programs that define INITGUID hold the values themselves. */
#ifndef DEFINE_GUID
#ifdef INITGUID
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) \
    EXTERN_C const GUID name; \
    const GUID name = { l, w1, w2, { b1, b2, b3, b4, b5, b6, b7, b8 } }
#else
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) EXTERN_C const GUID name
#endif
#endif

/* The declarations of Windows 11 24H2, for desktop programs (winapifamily.h). */
#ifndef NTDDI_LONGHORN
#define NTDDI_LONGHORN 0x06000000
#endif
#ifndef NTDDI_VERSION
#define NTDDI_VERSION 0x0a000010
#endif
#ifndef WINAPI_PARTITION_DESKTOP
#define WINAPI_PARTITION_DESKTOP 1
#endif
/* Codes of requests, and access rights. */
#ifndef CTL_CODE
#define CTL_CODE(device, function, method, access) (((device) << 16) | ((access) << 14) | ((function) << 2) | (method))
#endif
#ifndef FILE_DEVICE_UNKNOWN
#define FILE_DEVICE_UNKNOWN 0x22
#endif
#ifndef FILE_DEVICE_VIDEO
#define FILE_DEVICE_VIDEO 0x23
#endif
#ifndef METHOD_BUFFERED
#define METHOD_BUFFERED 0
#endif
#ifndef METHOD_NEITHER
#define METHOD_NEITHER 3
#endif
#ifndef FILE_ANY_ACCESS
#define FILE_ANY_ACCESS 0
#endif
#ifndef FILE_READ_DATA
#define FILE_READ_DATA 1
#endif
#ifndef STANDARD_RIGHTS_REQUIRED
#define STANDARD_RIGHTS_REQUIRED 0x000f0000
#endif
#ifndef SYNCHRONIZE
#define SYNCHRONIZE 0x00100000
#endif
/* Interrupt request levels. */
#ifndef PASSIVE_LEVEL
#define PASSIVE_LEVEL 0
#endif
#ifndef APC_LEVEL
#define APC_LEVEL 1
#endif
#ifndef DISPATCH_LEVEL
#define DISPATCH_LEVEL 2
#endif
/* Functions have the calling convention of the platform. */
#ifndef APIENTRY
#define APIENTRY
#endif
#ifndef WINAPI
#define WINAPI
#endif
#ifndef NTAPI
#define NTAPI
#endif
/* Functions of the program that the system calls have that of Windows. */
#ifndef CALLBACK
#define CALLBACK __attribute__((ms_abi))
#endif
/* Annotations of Microsoft's headers. */
#ifndef _Check_return_
#define _Check_return_
#endif
#ifndef _In_
#define _In_
#endif
#ifndef _In_opt_
#define _In_opt_
#endif
#ifndef _Inout_
#define _Inout_
#endif
#ifndef _Inout_opt_
#define _Inout_opt_
#endif
#ifndef _Out_
#define _Out_
#endif
#ifndef _Out_opt_
#define _Out_opt_
#endif
#ifndef _In_range_
#define _In_range_(low, high)
#endif
#ifndef _In_reads_
#define _In_reads_(count)
#endif
#ifndef _In_reads_opt_
#define _In_reads_opt_(count)
#endif
#ifndef _In_reads_bytes_
#define _In_reads_bytes_(size)
#endif
#ifndef _In_reads_bytes_opt_
#define _In_reads_bytes_opt_(size)
#endif
#ifndef _Inout_updates_bytes_
#define _Inout_updates_bytes_(size)
#endif
#ifndef _Out_writes_
#define _Out_writes_(count)
#endif
#ifndef _Out_writes_bytes_
#define _Out_writes_bytes_(size)
#endif
#ifndef _Out_writes_bytes_opt_
#define _Out_writes_bytes_opt_(size)
#endif
#ifndef _Out_writes_bytes_all_opt_
#define _Out_writes_bytes_all_opt_(size)
#endif
#ifndef _Field_range_
#define _Field_range_(low, high)
#endif
#ifndef _Field_size_
#define _Field_size_(count)
#endif
#ifndef _Field_size_opt_
#define _Field_size_opt_(count)
#endif
#ifndef _Field_size_bytes_
#define _Field_size_bytes_(size)
#endif
#ifndef _Field_size_bytes_opt_
#define _Field_size_bytes_opt_(size)
#endif
#ifndef _Field_size_bytes_part_
#define _Field_size_bytes_part_(size, used)
#endif
#ifndef _IRQL_requires_
#define _IRQL_requires_(level)
#endif
#ifndef _IRQL_requires_max_
#define _IRQL_requires_max_(level)
#endif

#endif

#endif /* CAMPANILE_WINDOWS_H */
