/*
 * The base types that d3dkmthk.h is written in, for systems without windows.h: sizes as on 64-bit Windows, where LONG and ULONG have 32 bits and
 * WCHAR has 16.
 *
 * A program with types of its own under these names defines CAMPANILE_NO_BASE_TYPES.
 */
#ifndef CAMPANILE_WINDOWS_H
#define CAMPANILE_WINDOWS_H

#if !defined(_WIN32) && !defined(CAMPANILE_NO_BASE_TYPES)

#include <stddef.h>
#include <stdint.h>

typedef void VOID, *PVOID;
typedef char CHAR;
typedef uint8_t BYTE, UCHAR, UINT8, BOOLEAN;
typedef int16_t SHORT, INT16;
typedef uint16_t USHORT, UINT16, WORD, WCHAR;
typedef int32_t INT, INT32, LONG, BOOL, NTSTATUS;
typedef uint32_t UINT, UINT32, ULONG, DWORD, ACCESS_MASK;
typedef int64_t INT64, LONG64, LONGLONG;
typedef uint64_t UINT64, ULONG64, ULONGLONG;
typedef size_t SIZE_T;
typedef uintptr_t ULONG_PTR, UINT_PTR;
typedef void *HANDLE;
typedef WCHAR *PWSTR;
typedef const WCHAR *PCWSTR;

typedef struct LUID {
    DWORD LowPart;
    LONG HighPart;
} LUID;

typedef union LARGE_INTEGER {
    struct {
        DWORD LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER;

typedef struct GUID {
    uint32_t Data1;
    uint16_t Data2;
    uint16_t Data3;
    uint8_t Data4[8];
} GUID;

typedef struct RECT {
    LONG left;
    LONG top;
    LONG right;
    LONG bottom;
} RECT;

#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif
#ifndef CONST
#define CONST const
#endif
/* Functions have the calling convention of the platform. */
#define APIENTRY
#define WINAPI
#define NTAPI
/* Functions of the program that the system calls have that of Windows. */
#define CALLBACK __attribute__((ms_abi))
/* Annotations of Microsoft's headers. */
#define _Check_return_
#define _In_
#define _Inout_
#define _Out_
#ifdef __cplusplus
#define EXTERN_C extern "C"
#else
#define EXTERN_C extern
#endif
#ifndef NT_SUCCESS
#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#endif

#endif

#endif /* CAMPANILE_WINDOWS_H */
