/*
 * A stand-in for d3dkmthk.h of the Windows kit, which may not be distributed: its guard, and every macro, base type and annotation that the kit's
 * d3dkmthk.h, d3dukmdt.h and d3dkmdt.h take from windows.h. words.txt lists them, and a test sees that none is missing here.
 * The declarations are of no use besides.
 */
#ifndef _D3DKMTHK_H_
#define _D3DKMTHK_H_

#include <winapifamily.h>

#if WINAPI_FAMILY_PARTITION(WINAPI_PARTITION_DESKTOP)

typedef struct _OBJECT_ATTRIBUTES OBJECT_ATTRIBUTES;
typedef OBJECT_ATTRIBUTES *POBJECT_ATTRIBUTES;
#ifndef PHYSICAL_ADDRESS
typedef LARGE_INTEGER PHYSICAL_ADDRESS, *PPHYSICAL_ADDRESS;
#endif

#if (NTDDI_VERSION >= NTDDI_LONGHORN)

typedef UINT D3DKMT_HANDLE;
typedef UINT64 D3DGPU_VIRTUAL_ADDRESS;
DECLARE_HANDLE(STAND_IN_HANDLE);
DEFINE_GUID(STAND_IN_GUID, 0x99c5ceff, 0x5f1d, 0x4879, 0x81, 0xc1, 0xc5, 0x24, 0x43, 0xc9, 0x48, 0xf5);

#define STAND_IN_PRIVATE CTL_CODE(FILE_DEVICE_VIDEO, 0x102, METHOD_NEITHER, FILE_ANY_ACCESS)
#define STAND_IN_READ CTL_CODE(FILE_DEVICE_UNKNOWN, 0x103, METHOD_BUFFERED, FILE_READ_DATA)
#define STAND_IN_ACCESS (STANDARD_RIGHTS_REQUIRED | SYNCHRONIZE | 0x3)
#define STAND_IN_UNKNOWN ULONGLONG_MAX
#define STAND_IN_NONE ((UINT)(UINT_MAX))

typedef enum _STAND_IN_ENUM { STAND_IN_ZERO = 0, STAND_IN_UNINITIALIZED = -2, STAND_IN_LAST = 0x7fffffff } STAND_IN_ENUM;

typedef struct _STAND_IN_FIELDS
{
    INT Int;
    ULONG Ulong;
    LONG Long;
    USHORT Ushort;
    UCHAR Uchar[3];
    CHAR Char;
    BYTE Byte;
    BOOLEAN Boolean;
    BOOL Bool;
    DWORD Dword;
    FLOAT Float;
    UINT16 Uint16;
    UINT32 Uint32;
    ULONG64 Ulong64;
    LONG64 Long64;
    ULONGLONG Ulonglong;
    LONGLONG Longlong;
    SIZE_T Size;
    ULONG_PTR UlongPtr;
    UINT_PTR UintPtr;
    VOID *pVoid;
    PVOID pData;
    LPVOID lpData;
    HANDLE hEvent;
    HDC hDc;
    HWND hWindow;
    NTSTATUS Status;
    LUID Luid;
    GUID Guid;
    RECT Rect;
    RECTL Rectl;
    POINT Point;
    PLARGE_INTEGER pLarge;
    ULARGE_INTEGER Ularge;
    PALETTEENTRY Palette[4];
    PHYSICAL_ADDRESS Address;
    DEVICE_POWER_STATE Power;
    WCHAR Name[MAX_PATH];
    PCWSTR pName;
    STAND_IN_HANDLE hStandIn;
    union
    {
        struct
        {
            UINT Low : 31;
            UINT High : 1;
        };
        STAND_IN_ENUM Value;
    };
} STAND_IN_FIELDS;

typedef struct _STAND_IN_ARGUMENT
{
    D3DKMT_HANDLE hAdapter;
    UINT Count;
    _Field_size_(Count) const UINT *pFirst;
    _Field_size_opt_(Count) UINT *pSecond;
    _Field_size_bytes_(Count) VOID *pThird;
    _Field_size_bytes_part_(Count, Count) VOID *pFourth;
    _Field_range_(0, MAX_PATH) UINT Range;
} STAND_IN_ARGUMENT;

C_ASSERT(sizeof(STAND_IN_ARGUMENT) == 48);
C_ASSERT(sizeof(WCHAR) == 2 && sizeof(LONG) == 4 && sizeof(ULONG_PTR) == 8 && sizeof(STAND_IN_ENUM) == 4);

__inline UINT StandInSum(_In_ UINT First, OUT UINT *pSum)
{
    *pSum = First + 1;
    return *pSum;
}

typedef _Check_return_ NTSTATUS(APIENTRY *PFN_STAND_IN)(_In_ CONST STAND_IN_ARGUMENT *);
typedef _IRQL_requires_(DISPATCH_LEVEL) VOID(APIENTRY *PFN_STAND_IN_CALLBACK)(_In_range_(0, 3) UINT, _In_ PVOID);

EXTERN_C _Check_return_ _IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS APIENTRY D3DKMTStandIn(
    _In_reads_(Count) CONST D3DKMT_HANDLE *pHandles, _In_reads_bytes_opt_(Size) CONST VOID *pInput, UINT Count, UINT Size,
    _In_opt_ POBJECT_ATTRIBUTES pAttributes, _Out_ HANDLE *phObject);
EXTERN_C _IRQL_requires_max_(APC_LEVEL) NTSTATUS APIENTRY D3DKMTStandIn2(
    _Inout_ STAND_IN_ARGUMENT *pArgument, _Out_writes_bytes_(Size) VOID *pOutput, _Out_writes_bytes_all_opt_(Size) VOID *pAll, UINT Size);

#if defined(__cplusplus) && !defined(SORTPP_PASS)
/* The kit's header makes operators of enumerations here. */
inline STAND_IN_ENUM operator++(STAND_IN_ENUM &value)
{
    return value = (STAND_IN_ENUM)((INT)value + 1);
}
#endif

#else
#error "NTDDI_VERSION is below that of Windows Vista: the kit's header would declare nothing"
#endif
#else
#error "the desktop partition is off: the kit's header would declare nothing"
#endif

#endif
