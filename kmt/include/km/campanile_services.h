/*
 * The kernel's services that docs/kernel-services.md lists, and the structures that they take: names, layouts and values are those of Microsoft's wdm.h, ntddk.h and
 * ntifs.h for x64. A test holds that every service which an image may import is declared here or in ntddk.h, and that ntoskrnl.def names it.
 *
 * ntddk.h includes this. Structures that a driver does not look into are words of the right number.
 */
#ifndef CAMPANILE_KM_SERVICES_H
#define CAMPANILE_KM_SERVICES_H

#include "ntddk.h"

#define DECLSPEC_ALIGN_16 __attribute__((aligned(16)))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Strings, lists, bitmaps ---- */

typedef struct _STRING {
    USHORT Length;
    USHORT MaximumLength;
    PCHAR Buffer;
} STRING, *PSTRING, ANSI_STRING, *PANSI_STRING;
typedef const UNICODE_STRING *PCUNICODE_STRING;
typedef const STRING *PCANSI_STRING;

typedef struct _LIST_ENTRY {
    struct _LIST_ENTRY *Flink;
    struct _LIST_ENTRY *Blink;
} LIST_ENTRY, *PLIST_ENTRY;

typedef struct DECLSPEC_ALIGN_16 _SLIST_ENTRY {
    struct _SLIST_ENTRY *Next;
} SLIST_ENTRY, *PSLIST_ENTRY;
typedef struct _SINGLE_LIST_ENTRY {
    struct _SINGLE_LIST_ENTRY *Next;
} SINGLE_LIST_ENTRY, *PSINGLE_LIST_ENTRY;

typedef struct DECLSPEC_ALIGN_16 _SLIST_HEADER {
    ULONGLONG Alignment;
    ULONGLONG Region;
} SLIST_HEADER, *PSLIST_HEADER;

typedef struct _RTL_BITMAP {
    ULONG SizeOfBitMap;
    PULONG Buffer;
} RTL_BITMAP, *PRTL_BITMAP;

NTSYSAPI VOID NTAPI RtlInitUnicodeString(PUNICODE_STRING DestinationString, PCWSTR SourceString);
NTSYSAPI VOID NTAPI RtlInitAnsiString(PANSI_STRING DestinationString, PCSTR SourceString);
NTSYSAPI VOID NTAPI RtlInitString(PSTRING DestinationString, PCSTR SourceString);
NTSYSAPI VOID NTAPI RtlCopyUnicodeString(PUNICODE_STRING DestinationString, PCUNICODE_STRING SourceString);
NTSYSAPI NTSTATUS NTAPI RtlAppendUnicodeStringToString(PUNICODE_STRING Destination, PCUNICODE_STRING Source);
NTSYSAPI NTSTATUS NTAPI RtlAppendUnicodeToString(PUNICODE_STRING Destination, PCWSTR Source);
NTSYSAPI LONG NTAPI RtlCompareUnicodeString(PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive);
NTSYSAPI BOOLEAN NTAPI RtlEqualUnicodeString(PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive);
NTSYSAPI BOOLEAN NTAPI RtlPrefixUnicodeString(PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive);
NTSYSAPI NTSTATUS NTAPI RtlAnsiStringToUnicodeString(PUNICODE_STRING DestinationString, PCANSI_STRING SourceString,
                                                     BOOLEAN AllocateDestinationString);
NTSYSAPI NTSTATUS NTAPI RtlUnicodeStringToAnsiString(PANSI_STRING DestinationString, PCUNICODE_STRING SourceString,
                                                     BOOLEAN AllocateDestinationString);
NTSYSAPI NTSTATUS NTAPI RtlInt64ToUnicodeString(ULONGLONG Value, ULONG Base, PUNICODE_STRING String);
NTSYSAPI NTSTATUS NTAPI RtlIntegerToUnicodeString(ULONG Value, ULONG Base, PUNICODE_STRING String);
NTSYSAPI NTSTATUS NTAPI RtlStringFromGUID(const GUID *Guid, PUNICODE_STRING GuidString);
NTSYSAPI NTSTATUS NTAPI RtlGUIDFromString(PCUNICODE_STRING GuidString, GUID *Guid);
NTSYSAPI NTSTATUS NTAPI RtlUnicodeToUTF8N(PCHAR UTF8StringDestination, ULONG UTF8StringMaxByteCount, PULONG UTF8StringActualByteCount,
                                          PCWSTR UnicodeStringSource, ULONG UnicodeStringByteCount);
NTSYSAPI NTSTATUS NTAPI RtlUTF8ToUnicodeN(PWSTR UnicodeStringDestination, ULONG UnicodeStringMaxByteCount, PULONG UnicodeStringActualByteCount,
                                          const CHAR *UTF8StringSource, ULONG UTF8StringByteCount);
NTSYSAPI NTSTATUS NTAPI RtlUnicodeStringToInteger(PCUNICODE_STRING String, ULONG Base, PULONG Value);
NTSYSAPI VOID NTAPI RtlFreeAnsiString(PANSI_STRING AnsiString);
NTSYSAPI VOID NTAPI RtlFreeUnicodeString(PUNICODE_STRING UnicodeString);
NTSYSAPI SIZE_T NTAPI RtlCompareMemory(const VOID *Source1, const VOID *Source2, SIZE_T Length);

NTSYSAPI VOID NTAPI InitializeSListHead(PSLIST_HEADER SListHead);
NTSYSAPI PSLIST_ENTRY NTAPI ExpInterlockedPushEntrySList(PSLIST_HEADER ListHead, PSLIST_ENTRY ListEntry);
NTSYSAPI PSLIST_ENTRY NTAPI ExpInterlockedPopEntrySList(PSLIST_HEADER ListHead);
NTSYSAPI PSLIST_ENTRY NTAPI ExpInterlockedFlushSList(PSLIST_HEADER ListHead);
NTSYSAPI USHORT NTAPI ExQueryDepthSList(PSLIST_HEADER SListHead);
NTSYSAPI PLIST_ENTRY NTAPI ExInterlockedInsertHeadList(PLIST_ENTRY ListHead, PLIST_ENTRY ListEntry, PKSPIN_LOCK Lock);
NTSYSAPI PLIST_ENTRY NTAPI ExInterlockedInsertTailList(PLIST_ENTRY ListHead, PLIST_ENTRY ListEntry, PKSPIN_LOCK Lock);
NTSYSAPI PLIST_ENTRY NTAPI ExInterlockedRemoveHeadList(PLIST_ENTRY ListHead, PKSPIN_LOCK Lock);
NTSYSAPI PSINGLE_LIST_ENTRY NTAPI ExInterlockedPushEntryList(PSINGLE_LIST_ENTRY ListHead, PSINGLE_LIST_ENTRY ListEntry, PKSPIN_LOCK Lock);
NTSYSAPI PSINGLE_LIST_ENTRY NTAPI ExInterlockedPopEntryList(PSINGLE_LIST_ENTRY ListHead, PKSPIN_LOCK Lock);

NTSYSAPI VOID NTAPI RtlInitializeBitMap(PRTL_BITMAP BitMapHeader, PULONG BitMapBuffer, ULONG SizeOfBitMap);
NTSYSAPI VOID NTAPI RtlClearAllBits(PRTL_BITMAP BitMapHeader);
NTSYSAPI VOID NTAPI RtlSetAllBits(PRTL_BITMAP BitMapHeader);
NTSYSAPI VOID NTAPI RtlClearBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
NTSYSAPI VOID NTAPI RtlSetBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
NTSYSAPI BOOLEAN NTAPI RtlTestBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
NTSYSAPI VOID NTAPI RtlClearBits(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG NumberToClear);
NTSYSAPI VOID NTAPI RtlSetBits(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG NumberToSet);
NTSYSAPI BOOLEAN NTAPI RtlAreBitsClear(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length);
NTSYSAPI BOOLEAN NTAPI RtlAreBitsSet(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length);
NTSYSAPI ULONG NTAPI RtlFindClearBits(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
NTSYSAPI ULONG NTAPI RtlFindSetBits(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
NTSYSAPI ULONG NTAPI RtlFindClearBitsAndSet(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
NTSYSAPI ULONG NTAPI RtlFindSetBitsAndClear(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
NTSYSAPI ULONG NTAPI RtlNumberOfClearBits(PRTL_BITMAP BitMapHeader);
NTSYSAPI ULONG NTAPI RtlNumberOfSetBits(PRTL_BITMAP BitMapHeader);

/* ---- Pool ---- */

typedef enum _POOL_TYPE { NonPagedPool = 0, NonPagedPoolExecute = 0, PagedPool = 1, NonPagedPoolNx = 512 } POOL_TYPE;
typedef enum _EX_POOL_PRIORITY { LowPoolPriority = 0, NormalPoolPriority = 16, HighPoolPriority = 32 } EX_POOL_PRIORITY;

typedef struct _LOOKASIDE_LIST_EX *PLOOKASIDE_LIST_EX;
typedef PVOID ALLOCATE_FUNCTION(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
typedef VOID FREE_FUNCTION(PVOID Buffer);
typedef PVOID ALLOCATE_FUNCTION_EX(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag, PLOOKASIDE_LIST_EX Lookaside);
typedef VOID FREE_FUNCTION_EX(PVOID Buffer, PLOOKASIDE_LIST_EX Lookaside);

typedef struct DECLSPEC_ALIGN_16 _LOOKASIDE_LIST_EX {
    SLIST_HEADER ListHead;
    USHORT Depth;
    USHORT MaximumDepth;
    ULONG TotalAllocates;
    ULONG AllocateMisses;
    ULONG TotalFrees;
    ULONG FreeMisses;
    POOL_TYPE Type;
    ULONG Tag;
    ULONG Size;
    ALLOCATE_FUNCTION_EX *AllocateEx;
    FREE_FUNCTION_EX *FreeEx;
    LIST_ENTRY ListEntry;
    ULONG LastTotalAllocates;
    ULONG LastAllocateMisses;
    ULONG Future[2];
} LOOKASIDE_LIST_EX;

typedef struct DECLSPEC_ALIGN_16 _NPAGED_LOOKASIDE_LIST {
    ULONGLONG Words[16];
} NPAGED_LOOKASIDE_LIST, *PNPAGED_LOOKASIDE_LIST, PAGED_LOOKASIDE_LIST, *PPAGED_LOOKASIDE_LIST;

NTSYSAPI PVOID NTAPI ExAllocatePool(POOL_TYPE PoolType, SIZE_T NumberOfBytes);
NTSYSAPI PVOID NTAPI ExAllocatePoolWithTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
NTSYSAPI PVOID NTAPI ExAllocatePoolWithQuotaTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
NTSYSAPI PVOID NTAPI ExAllocatePoolWithTagPriority(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag, EX_POOL_PRIORITY Priority);
NTSYSAPI VOID NTAPI ExInitializeNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, ALLOCATE_FUNCTION *Allocate, FREE_FUNCTION *Free,
                                                    ULONG Flags, SIZE_T Size, ULONG Tag, USHORT Depth);
NTSYSAPI VOID NTAPI ExInitializePagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside, ALLOCATE_FUNCTION *Allocate, FREE_FUNCTION *Free,
                                                   ULONG Flags, SIZE_T Size, ULONG Tag, USHORT Depth);
NTSYSAPI NTSTATUS NTAPI ExInitializeLookasideListEx(PLOOKASIDE_LIST_EX Lookaside, ALLOCATE_FUNCTION_EX *Allocate, FREE_FUNCTION_EX *Free,
                                                    POOL_TYPE PoolType, ULONG Flags, SIZE_T Size, ULONG Tag, USHORT Depth);
NTSYSAPI VOID NTAPI ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside);
NTSYSAPI VOID NTAPI ExDeletePagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside);
NTSYSAPI VOID NTAPI ExDeleteLookasideListEx(PLOOKASIDE_LIST_EX Lookaside);
NTSYSAPI VOID NTAPI ExFlushLookasideListEx(PLOOKASIDE_LIST_EX Lookaside);

static inline PVOID ExAllocateFromLookasideListEx(PLOOKASIDE_LIST_EX Lookaside)
{
    PVOID entry;
    Lookaside->TotalAllocates++;
    entry = ExpInterlockedPopEntrySList(&Lookaside->ListHead);
    if (!entry) {
        Lookaside->AllocateMisses++;
        entry = Lookaside->AllocateEx(Lookaside->Type, Lookaside->Size, Lookaside->Tag, Lookaside);
    }
    return entry;
}

static inline VOID ExFreeToLookasideListEx(PLOOKASIDE_LIST_EX Lookaside, PVOID Entry)
{
    Lookaside->TotalFrees++;
    if (ExQueryDepthSList(&Lookaside->ListHead) >= Lookaside->Depth) {
        Lookaside->FreeMisses++;
        Lookaside->FreeEx(Entry, Lookaside);
    } else {
        ExpInterlockedPushEntrySList(&Lookaside->ListHead, (PSLIST_ENTRY)Entry);
    }
}

/* ---- Objects that threads wait for ---- */

typedef struct _DISPATCHER_HEADER {
    UCHAR Type;
    UCHAR Signalling;
    UCHAR Size;
    UCHAR Reserved1;
    LONG SignalState;
    LIST_ENTRY WaitListHead;
} DISPATCHER_HEADER;

typedef struct _KEVENT {
    DISPATCHER_HEADER Header;
} KEVENT, *PKEVENT, *PRKEVENT;

typedef struct _KSEMAPHORE {
    DISPATCHER_HEADER Header;
    LONG Limit;
} KSEMAPHORE, *PKSEMAPHORE, *PRKSEMAPHORE;

typedef struct _KMUTANT {
    DISPATCHER_HEADER Header;
    LIST_ENTRY MutantListEntry;
    PVOID OwnerThread;
    UCHAR Words[8];
} KMUTANT, *PKMUTANT, *PRKMUTANT, KMUTEX, *PKMUTEX, *PRKMUTEX;

typedef struct _KDPC *PKDPC;
typedef VOID KDEFERRED_ROUTINE(PKDPC Dpc, PVOID DeferredContext, PVOID SystemArgument1, PVOID SystemArgument2);
typedef KDEFERRED_ROUTINE *PKDEFERRED_ROUTINE;
typedef struct _KDPC {
    UCHAR Type;
    UCHAR Importance;
    USHORT Number;
    ULONG Reserved;
    ULONGLONG Entry;
    ULONGLONG ProcessorHistory;
    PKDEFERRED_ROUTINE DeferredRoutine;
    PVOID DeferredContext;
    PVOID SystemArgument1;
    PVOID SystemArgument2;
    PVOID DpcData;
} KDPC, *PRKDPC;
typedef enum _KDPC_IMPORTANCE { LowImportance, MediumImportance, HighImportance, MediumHighImportance } KDPC_IMPORTANCE;

typedef struct _KTIMER {
    DISPATCHER_HEADER Header;
    LARGE_INTEGER DueTime;
    LIST_ENTRY TimerListEntry;
    PKDPC Dpc;
    ULONG Processor;
    ULONG Period;
} KTIMER, *PKTIMER;

typedef enum _EVENT_TYPE { NotificationEvent, SynchronizationEvent } EVENT_TYPE;
typedef enum _TIMER_TYPE { NotificationTimer, SynchronizationTimer } TIMER_TYPE;
typedef enum _WAIT_TYPE { WaitAll, WaitAny } WAIT_TYPE;
typedef enum _KWAIT_REASON { Executive = 0 } KWAIT_REASON;
typedef CCHAR KPROCESSOR_MODE;
typedef LONG KPRIORITY;
typedef struct _KWAIT_BLOCK {
    ULONGLONG Words[6];
} KWAIT_BLOCK, *PKWAIT_BLOCK;
typedef struct _KTHREAD *PKTHREAD, *PRKTHREAD, *PETHREAD;
typedef struct _EPROCESS *PEPROCESS;

NTSYSAPI VOID NTAPI KeInitializeEvent(PRKEVENT Event, EVENT_TYPE Type, BOOLEAN State);
NTSYSAPI LONG NTAPI KeSetEvent(PRKEVENT Event, KPRIORITY Increment, BOOLEAN Wait);
NTSYSAPI LONG NTAPI KeResetEvent(PRKEVENT Event);
NTSYSAPI VOID NTAPI KeClearEvent(PRKEVENT Event);
NTSYSAPI LONG NTAPI KePulseEvent(PRKEVENT Event, KPRIORITY Increment, BOOLEAN Wait);
NTSYSAPI LONG NTAPI KeReadStateEvent(PRKEVENT Event);
NTSYSAPI VOID NTAPI KeInitializeSemaphore(PRKSEMAPHORE Semaphore, LONG Count, LONG Limit);
NTSYSAPI LONG NTAPI KeReleaseSemaphore(PRKSEMAPHORE Semaphore, KPRIORITY Increment, LONG Adjustment, BOOLEAN Wait);
NTSYSAPI LONG NTAPI KeReadStateSemaphore(PRKSEMAPHORE Semaphore);
NTSYSAPI VOID NTAPI KeInitializeMutex(PRKMUTEX Mutex, ULONG Level);
NTSYSAPI LONG NTAPI KeReleaseMutex(PRKMUTEX Mutex, BOOLEAN Wait);
NTSYSAPI LONG NTAPI KeReadStateMutex(PRKMUTEX Mutex);
NTSYSAPI NTSTATUS NTAPI KeWaitForSingleObject(PVOID Object, KWAIT_REASON WaitReason, KPROCESSOR_MODE WaitMode, BOOLEAN Alertable,
                                              PLARGE_INTEGER Timeout);
NTSYSAPI NTSTATUS NTAPI KeWaitForMultipleObjects(ULONG Count, PVOID Object[], WAIT_TYPE WaitType, KWAIT_REASON WaitReason,
                                                 KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Timeout,
                                                 PKWAIT_BLOCK WaitBlockArray);
NTSYSAPI NTSTATUS NTAPI KeDelayExecutionThread(KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Interval);

NTSYSAPI VOID NTAPI KeInitializeDpc(PRKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext);
NTSYSAPI VOID NTAPI KeInitializeThreadedDpc(PRKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext);
NTSYSAPI BOOLEAN NTAPI KeInsertQueueDpc(PRKDPC Dpc, PVOID SystemArgument1, PVOID SystemArgument2);
NTSYSAPI BOOLEAN NTAPI KeRemoveQueueDpc(PRKDPC Dpc);
NTSYSAPI VOID NTAPI KeFlushQueuedDpcs(VOID);
NTSYSAPI VOID NTAPI KeSetImportanceDpc(PRKDPC Dpc, KDPC_IMPORTANCE Importance);
NTSYSAPI VOID NTAPI KeSetTargetProcessorDpc(PRKDPC Dpc, CCHAR Number);
NTSYSAPI VOID NTAPI KeInitializeTimer(PKTIMER Timer);
NTSYSAPI VOID NTAPI KeInitializeTimerEx(PKTIMER Timer, TIMER_TYPE Type);
NTSYSAPI BOOLEAN NTAPI KeSetTimer(PKTIMER Timer, LARGE_INTEGER DueTime, PKDPC Dpc);
NTSYSAPI BOOLEAN NTAPI KeSetTimerEx(PKTIMER Timer, LARGE_INTEGER DueTime, LONG Period, PKDPC Dpc);
NTSYSAPI BOOLEAN NTAPI KeSetCoalescableTimer(PKTIMER Timer, LARGE_INTEGER DueTime, ULONG Period, ULONG TolerableDelay, PKDPC Dpc);
NTSYSAPI BOOLEAN NTAPI KeCancelTimer(PKTIMER Timer);
NTSYSAPI BOOLEAN NTAPI KeReadStateTimer(PKTIMER Timer);

/* ---- Threads, work items, objects ---- */

typedef struct _OBJECT_ATTRIBUTES {
    ULONG Length;
    HANDLE RootDirectory;
    PUNICODE_STRING ObjectName;
    ULONG Attributes;
    PVOID SecurityDescriptor;
    PVOID SecurityQualityOfService;
} OBJECT_ATTRIBUTES, *POBJECT_ATTRIBUTES;
#define OBJ_CASE_INSENSITIVE 0x40
#define OBJ_KERNEL_HANDLE 0x200
#define InitializeObjectAttributes(p, n, a, r, s)  \
    ((p)->Length = (ULONG)sizeof(OBJECT_ATTRIBUTES), \
     (p)->RootDirectory = (r),                       \
     (p)->ObjectName = (n),                          \
     (p)->Attributes = (a),                          \
     (p)->SecurityDescriptor = (s),                  \
     (p)->SecurityQualityOfService = NULL)

typedef struct _CLIENT_ID {
    HANDLE UniqueProcess;
    HANDLE UniqueThread;
} CLIENT_ID, *PCLIENT_ID;
typedef VOID KSTART_ROUTINE(PVOID StartContext);
typedef struct _OBJECT_TYPE *POBJECT_TYPE;
typedef struct _IO_WORKITEM *PIO_WORKITEM;
typedef VOID IO_WORKITEM_ROUTINE(PDEVICE_OBJECT DeviceObject, PVOID Context);
typedef VOID IO_WORKITEM_ROUTINE_EX(PVOID IoObject, PVOID Context, PIO_WORKITEM IoWorkItem);
typedef enum _WORK_QUEUE_TYPE { CriticalWorkQueue, DelayedWorkQueue, HyperCriticalWorkQueue } WORK_QUEUE_TYPE;
typedef VOID WORKER_THREAD_ROUTINE(PVOID Parameter);
typedef struct _WORK_QUEUE_ITEM {
    LIST_ENTRY List;
    WORKER_THREAD_ROUTINE *WorkerRoutine;
    PVOID Parameter;
} WORK_QUEUE_ITEM, *PWORK_QUEUE_ITEM;
#define ExInitializeWorkItem(Item, Routine, Context) \
    ((Item)->WorkerRoutine = (Routine), (Item)->Parameter = (Context), (Item)->List.Flink = NULL)

NTSYSAPI NTSTATUS NTAPI PsCreateSystemThread(PHANDLE ThreadHandle, ULONG DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
                                             HANDLE ProcessHandle, PCLIENT_ID ClientId, KSTART_ROUTINE *StartRoutine, PVOID StartContext);
NTSYSAPI NTSTATUS NTAPI PsTerminateSystemThread(NTSTATUS ExitStatus);
NTSYSAPI KPRIORITY NTAPI KeSetPriorityThread(PKTHREAD Thread, KPRIORITY Priority);
NTSYSAPI PKTHREAD NTAPI KeGetCurrentThread(VOID);
NTSYSAPI PETHREAD NTAPI PsGetCurrentThread(VOID);
NTSYSAPI HANDLE NTAPI PsGetCurrentThreadId(VOID);
NTSYSAPI HANDLE NTAPI PsGetCurrentProcessId(VOID);
NTSYSAPI PEPROCESS NTAPI PsGetCurrentProcess(VOID);
NTSYSAPI PEPROCESS NTAPI IoGetCurrentProcess(VOID);
NTSYSAPI HANDLE NTAPI PsGetProcessId(PEPROCESS Process);
NTSYSAPI HANDLE NTAPI PsGetThreadProcessId(PETHREAD Thread);
extern NTSYSAPI POBJECT_TYPE *PsThreadType;
NTSYSAPI NTSTATUS NTAPI ObReferenceObjectByHandle(HANDLE Handle, ACCESS_MASK DesiredAccess, POBJECT_TYPE ObjectType,
                                                  KPROCESSOR_MODE AccessMode, PVOID *Object, PVOID HandleInformation);
NTSYSAPI NTSTATUS NTAPI ObReferenceObjectByHandleWithTag(HANDLE Handle, ACCESS_MASK DesiredAccess, POBJECT_TYPE ObjectType,
                                                         KPROCESSOR_MODE AccessMode, ULONG Tag, PVOID *Object, PVOID HandleInformation);
NTSYSAPI ULONG_PTR NTAPI ObfReferenceObject(PVOID Object);
NTSYSAPI ULONG_PTR NTAPI ObfReferenceObjectWithTag(PVOID Object, ULONG Tag);
NTSYSAPI ULONG_PTR NTAPI ObfDereferenceObject(PVOID Object);
NTSYSAPI ULONG_PTR NTAPI ObfDereferenceObjectWithTag(PVOID Object, ULONG Tag);
#define ObReferenceObject(object) ObfReferenceObject(object)
#define ObDereferenceObject(object) ObfDereferenceObject(object)
NTSYSAPI NTSTATUS NTAPI ZwWaitForSingleObject(HANDLE Handle, BOOLEAN Alertable, PLARGE_INTEGER Timeout);
NTSYSAPI NTSTATUS NTAPI ZwClose(HANDLE Handle);
NTSYSAPI PIO_WORKITEM NTAPI IoAllocateWorkItem(PDEVICE_OBJECT DeviceObject);
NTSYSAPI VOID NTAPI IoQueueWorkItem(PIO_WORKITEM IoWorkItem, IO_WORKITEM_ROUTINE *WorkerRoutine, WORK_QUEUE_TYPE QueueType, PVOID Context);
NTSYSAPI VOID NTAPI IoFreeWorkItem(PIO_WORKITEM IoWorkItem);
NTSYSAPI ULONG NTAPI IoSizeofWorkItem(VOID);
NTSYSAPI VOID NTAPI IoInitializeWorkItem(PVOID IoObject, PIO_WORKITEM IoWorkItem);
NTSYSAPI VOID NTAPI IoUninitializeWorkItem(PIO_WORKITEM IoWorkItem);
NTSYSAPI VOID NTAPI IoQueueWorkItemEx(PIO_WORKITEM IoWorkItem, IO_WORKITEM_ROUTINE_EX *WorkerRoutine, WORK_QUEUE_TYPE QueueType,
                                      PVOID Context);
NTSYSAPI VOID NTAPI ExQueueWorkItem(PWORK_QUEUE_ITEM WorkItem, WORK_QUEUE_TYPE QueueType);
NTSYSAPI KPROCESSOR_MODE NTAPI ExGetPreviousMode(VOID);

/* ---- Locks ---- */

typedef struct _KLOCK_QUEUE_HANDLE {
    PVOID Next;
    PKSPIN_LOCK Lock;
    KIRQL OldIrql;
} KLOCK_QUEUE_HANDLE, *PKLOCK_QUEUE_HANDLE;

typedef struct _FAST_MUTEX {
    LONG Count;
    PVOID Owner;
    ULONG Contention;
    KEVENT Event;
    ULONG OldIrql;
} FAST_MUTEX, *PFAST_MUTEX, KGUARDED_MUTEX, *PKGUARDED_MUTEX;

typedef struct _ERESOURCE {
    ULONGLONG Words[13];
} ERESOURCE, *PERESOURCE;
typedef ULONG_PTR ERESOURCE_THREAD;
typedef ULONG_PTR EX_PUSH_LOCK, *PEX_PUSH_LOCK;
typedef LONG EX_SPIN_LOCK, *PEX_SPIN_LOCK;
typedef ULONG LOGICAL;
typedef struct _EX_RUNDOWN_REF {
    ULONG_PTR Count;
} EX_RUNDOWN_REF, *PEX_RUNDOWN_REF;

NTSYSAPI KIRQL NTAPI KeGetCurrentIrql(VOID);
NTSYSAPI KIRQL NTAPI KfRaiseIrql(KIRQL NewIrql);
NTSYSAPI KIRQL NTAPI KeRaiseIrqlToDpcLevel(VOID);
NTSYSAPI VOID NTAPI KeLowerIrql(KIRQL NewIrql);
#define KeRaiseIrql(level, before) (*(before) = KfRaiseIrql(level))
NTSYSAPI VOID NTAPI KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock);
NTSYSAPI VOID NTAPI KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK SpinLock);
NTSYSAPI BOOLEAN NTAPI KeTryToAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock);
NTSYSAPI BOOLEAN NTAPI KeTestSpinLock(PKSPIN_LOCK SpinLock);
NTSYSAPI KIRQL NTAPI ExAcquireSpinLockExclusive(PEX_SPIN_LOCK SpinLock);
NTSYSAPI VOID NTAPI ExAcquireSpinLockExclusiveAtDpcLevel(PEX_SPIN_LOCK SpinLock);
NTSYSAPI KIRQL NTAPI ExAcquireSpinLockShared(PEX_SPIN_LOCK SpinLock);
NTSYSAPI VOID NTAPI ExAcquireSpinLockSharedAtDpcLevel(PEX_SPIN_LOCK SpinLock);
NTSYSAPI VOID NTAPI ExReleaseSpinLockExclusive(PEX_SPIN_LOCK SpinLock, KIRQL OldIrql);
NTSYSAPI VOID NTAPI ExReleaseSpinLockExclusiveFromDpcLevel(PEX_SPIN_LOCK SpinLock);
NTSYSAPI VOID NTAPI ExReleaseSpinLockShared(PEX_SPIN_LOCK SpinLock, KIRQL OldIrql);
NTSYSAPI VOID NTAPI ExReleaseSpinLockSharedFromDpcLevel(PEX_SPIN_LOCK SpinLock);
NTSYSAPI LOGICAL NTAPI ExTryAcquireSpinLockExclusiveAtDpcLevel(PEX_SPIN_LOCK SpinLock);
NTSYSAPI LOGICAL NTAPI ExTryAcquireSpinLockSharedAtDpcLevel(PEX_SPIN_LOCK SpinLock);
NTSYSAPI LOGICAL NTAPI ExTryConvertSharedSpinLockExclusive(PEX_SPIN_LOCK SpinLock);
NTSYSAPI KIRQL NTAPI KeAcquireSpinLockForDpc(PKSPIN_LOCK SpinLock);
NTSYSAPI VOID NTAPI KeReleaseSpinLockForDpc(PKSPIN_LOCK SpinLock, KIRQL OldIrql);
NTSYSAPI VOID NTAPI KeAcquireInStackQueuedSpinLock(PKSPIN_LOCK SpinLock, PKLOCK_QUEUE_HANDLE LockHandle);
NTSYSAPI VOID NTAPI KeReleaseInStackQueuedSpinLock(PKLOCK_QUEUE_HANDLE LockHandle);
NTSYSAPI VOID NTAPI KeAcquireInStackQueuedSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock, PKLOCK_QUEUE_HANDLE LockHandle);
NTSYSAPI VOID NTAPI KeReleaseInStackQueuedSpinLockFromDpcLevel(PKLOCK_QUEUE_HANDLE LockHandle);
NTSYSAPI VOID NTAPI KeEnterCriticalRegion(VOID);
NTSYSAPI VOID NTAPI KeLeaveCriticalRegion(VOID);
NTSYSAPI VOID NTAPI ExAcquireFastMutex(PFAST_MUTEX FastMutex);
NTSYSAPI BOOLEAN NTAPI ExTryToAcquireFastMutex(PFAST_MUTEX FastMutex);
NTSYSAPI VOID NTAPI ExReleaseFastMutex(PFAST_MUTEX FastMutex);
NTSYSAPI VOID NTAPI KeInitializeGuardedMutex(PKGUARDED_MUTEX Mutex);
NTSYSAPI VOID NTAPI KeAcquireGuardedMutex(PKGUARDED_MUTEX Mutex);
NTSYSAPI BOOLEAN NTAPI KeTryToAcquireGuardedMutex(PKGUARDED_MUTEX Mutex);
NTSYSAPI VOID NTAPI KeReleaseGuardedMutex(PKGUARDED_MUTEX Mutex);
NTSYSAPI VOID NTAPI ExAcquirePushLockExclusiveEx(PEX_PUSH_LOCK PushLock, ULONG Flags);
NTSYSAPI VOID NTAPI ExReleasePushLockExclusiveEx(PEX_PUSH_LOCK PushLock, ULONG Flags);

static inline VOID ExInitializeFastMutex(PFAST_MUTEX FastMutex)
{
    FastMutex->Count = 1;
    FastMutex->Owner = NULL;
    FastMutex->Contention = 0;
    KeInitializeEvent(&FastMutex->Event, SynchronizationEvent, FALSE);
}

NTSYSAPI NTSTATUS NTAPI ExInitializeResourceLite(PERESOURCE Resource);
NTSYSAPI NTSTATUS NTAPI ExReinitializeResourceLite(PERESOURCE Resource);
NTSYSAPI NTSTATUS NTAPI ExDeleteResourceLite(PERESOURCE Resource);
NTSYSAPI BOOLEAN NTAPI ExAcquireResourceExclusiveLite(PERESOURCE Resource, BOOLEAN Wait);
NTSYSAPI BOOLEAN NTAPI ExAcquireResourceSharedLite(PERESOURCE Resource, BOOLEAN Wait);
NTSYSAPI BOOLEAN NTAPI ExAcquireSharedStarveExclusive(PERESOURCE Resource, BOOLEAN Wait);
NTSYSAPI VOID NTAPI ExConvertExclusiveToSharedLite(PERESOURCE Resource);
NTSYSAPI VOID NTAPI ExReleaseResourceLite(PERESOURCE Resource);
NTSYSAPI VOID NTAPI ExReleaseResourceForThreadLite(PERESOURCE Resource, ERESOURCE_THREAD ResourceThreadId);
NTSYSAPI PVOID NTAPI ExEnterCriticalRegionAndAcquireResourceExclusive(PERESOURCE Resource);
NTSYSAPI PVOID NTAPI ExEnterCriticalRegionAndAcquireResourceShared(PERESOURCE Resource);
NTSYSAPI VOID NTAPI ExReleaseResourceAndLeaveCriticalRegion(PERESOURCE Resource);
NTSYSAPI BOOLEAN NTAPI ExIsResourceAcquiredExclusiveLite(PERESOURCE Resource);
NTSYSAPI ULONG NTAPI ExIsResourceAcquiredSharedLite(PERESOURCE Resource);
NTSYSAPI ULONG NTAPI ExGetExclusiveWaiterCount(PERESOURCE Resource);
NTSYSAPI ULONG NTAPI ExGetSharedWaiterCount(PERESOURCE Resource);

NTSYSAPI VOID NTAPI ExInitializeRundownProtection(PEX_RUNDOWN_REF RunRef);
NTSYSAPI VOID NTAPI ExReInitializeRundownProtection(PEX_RUNDOWN_REF RunRef);
NTSYSAPI BOOLEAN NTAPI ExAcquireRundownProtection(PEX_RUNDOWN_REF RunRef);
NTSYSAPI BOOLEAN NTAPI ExAcquireRundownProtectionEx(PEX_RUNDOWN_REF RunRef, ULONG Count);
NTSYSAPI VOID NTAPI ExReleaseRundownProtection(PEX_RUNDOWN_REF RunRef);
NTSYSAPI VOID NTAPI ExReleaseRundownProtectionEx(PEX_RUNDOWN_REF RunRef, ULONG Count);
NTSYSAPI VOID NTAPI ExWaitForRundownProtectionRelease(PEX_RUNDOWN_REF RunRef);
NTSYSAPI VOID NTAPI ExRundownCompleted(PEX_RUNDOWN_REF RunRef);

/* ---- Memory ---- */

typedef struct _IRP *PIRP;
typedef enum _LOCK_OPERATION { IoReadAccess, IoWriteAccess, IoModifyAccess } LOCK_OPERATION;

NTSYSAPI PMDL NTAPI IoAllocateMdl(PVOID VirtualAddress, ULONG Length, BOOLEAN SecondaryBuffer, BOOLEAN ChargeQuota, PIRP Irp);
NTSYSAPI VOID NTAPI IoBuildPartialMdl(PMDL SourceMdl, PMDL TargetMdl, PVOID VirtualAddress, ULONG Length);
NTSYSAPI VOID NTAPI IoFreeMdl(PMDL Mdl);
NTSYSAPI SIZE_T NTAPI MmSizeOfMdl(PVOID Base, SIZE_T Length);
NTSYSAPI VOID NTAPI MmBuildMdlForNonPagedPool(PMDL MemoryDescriptorList);
NTSYSAPI VOID NTAPI MmProbeAndLockPages(PMDL MemoryDescriptorList, KPROCESSOR_MODE AccessMode, LOCK_OPERATION Operation);
NTSYSAPI VOID NTAPI MmUnlockPages(PMDL MemoryDescriptorList);
NTSYSAPI PVOID NTAPI MmMapLockedPages(PMDL MemoryDescriptorList, KPROCESSOR_MODE AccessMode);
NTSYSAPI PMDL NTAPI MmAllocatePagesForMdl(PHYSICAL_ADDRESS LowAddress, PHYSICAL_ADDRESS HighAddress, PHYSICAL_ADDRESS SkipBytes,
                                          SIZE_T TotalBytes);
NTSYSAPI PVOID NTAPI MmAllocateContiguousMemory(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS HighestAcceptableAddress);
NTSYSAPI PVOID NTAPI MmAllocateContiguousMemorySpecifyCache(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS LowestAcceptableAddress,
                                                            PHYSICAL_ADDRESS HighestAcceptableAddress,
                                                            PHYSICAL_ADDRESS BoundaryAddressMultiple, MEMORY_CACHING_TYPE CacheType);
/* Which node of memory is preferred; MM_ANY_NODE_OK: any. */
typedef ULONG NODE_REQUIREMENT;
NTSYSAPI PVOID NTAPI MmAllocateContiguousMemorySpecifyCacheNode(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS LowestAcceptableAddress,
                                                                PHYSICAL_ADDRESS HighestAcceptableAddress,
                                                                PHYSICAL_ADDRESS BoundaryAddressMultiple,
                                                                MEMORY_CACHING_TYPE CacheType, NODE_REQUIREMENT PreferredNode);
NTSYSAPI PVOID NTAPI MmAllocateContiguousNodeMemory(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS LowestAcceptableAddress,
                                                    PHYSICAL_ADDRESS HighestAcceptableAddress,
                                                    PHYSICAL_ADDRESS BoundaryAddressMultiple, ULONG Protect,
                                                    NODE_REQUIREMENT PreferredNode);
NTSYSAPI VOID NTAPI MmFreeContiguousMemory(PVOID BaseAddress);
NTSYSAPI VOID NTAPI MmFreeContiguousMemorySpecifyCache(PVOID BaseAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType);
NTSYSAPI PVOID NTAPI MmMapIoSpace(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType);
NTSYSAPI PVOID NTAPI MmMapIoSpaceEx(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, ULONG Protect);
NTSYSAPI VOID NTAPI MmUnmapIoSpace(PVOID BaseAddress, SIZE_T NumberOfBytes);
NTSYSAPI BOOLEAN NTAPI MmIsAddressValid(PVOID VirtualAddress);
NTSYSAPI PHYSICAL_ADDRESS NTAPI MmGetPhysicalAddress(PVOID BaseAddress);
NTSYSAPI PVOID NTAPI MmGetSystemRoutineAddress(PUNICODE_STRING SystemRoutineName);

/* ---- Time, processors, versions, random numbers ---- */

typedef struct _TIME_FIELDS {
    CSHORT Year, Month, Day, Hour, Minute, Second, Milliseconds, Weekday;
} TIME_FIELDS, *PTIME_FIELDS;
typedef struct _PROCESSOR_NUMBER {
    USHORT Group;
    UCHAR Number;
    UCHAR Reserved;
} PROCESSOR_NUMBER, *PPROCESSOR_NUMBER;
typedef struct _KFLOATING_SAVE {
    ULONG Dummy;
} KFLOATING_SAVE, *PKFLOATING_SAVE;
typedef struct _OSVERSIONINFOW {
    ULONG dwOSVersionInfoSize;
    ULONG dwMajorVersion;
    ULONG dwMinorVersion;
    ULONG dwBuildNumber;
    ULONG dwPlatformId;
    WCHAR szCSDVersion[128];
} RTL_OSVERSIONINFOW, *PRTL_OSVERSIONINFOW;
typedef struct _OSVERSIONINFOEXW {
    ULONG dwOSVersionInfoSize;
    ULONG dwMajorVersion;
    ULONG dwMinorVersion;
    ULONG dwBuildNumber;
    ULONG dwPlatformId;
    WCHAR szCSDVersion[128];
    USHORT wServicePackMajor;
    USHORT wServicePackMinor;
    USHORT wSuiteMask;
    UCHAR wProductType;
    UCHAR wReserved;
} RTL_OSVERSIONINFOEXW, *PRTL_OSVERSIONINFOEXW;

NTSYSAPI VOID NTAPI KeQuerySystemTimePrecise(PLARGE_INTEGER CurrentTime);
NTSYSAPI ULONG64 NTAPI KeQueryInterruptTimePrecise(ULONG64 *QpcTimeStamp);
NTSYSAPI ULONGLONG NTAPI KeQueryInterruptTime(VOID);
NTSYSAPI ULONGLONG NTAPI KeQueryUnbiasedInterruptTime(VOID);
NTSYSAPI ULONG NTAPI KeQueryTimeIncrement(VOID);
NTSYSAPI VOID NTAPI ExSystemTimeToLocalTime(PLARGE_INTEGER SystemTime, PLARGE_INTEGER LocalTime);
NTSYSAPI VOID NTAPI ExLocalTimeToSystemTime(PLARGE_INTEGER LocalTime, PLARGE_INTEGER SystemTime);
NTSYSAPI VOID NTAPI RtlTimeToTimeFields(PLARGE_INTEGER Time, PTIME_FIELDS TimeFields);
NTSYSAPI BOOLEAN NTAPI RtlTimeFieldsToTime(PTIME_FIELDS TimeFields, PLARGE_INTEGER Time);
NTSYSAPI ULONG NTAPI KeGetCurrentProcessorNumberEx(PPROCESSOR_NUMBER ProcNumber);
NTSYSAPI ULONG NTAPI KeGetProcessorIndexFromNumber(PPROCESSOR_NUMBER ProcNumber);
NTSYSAPI NTSTATUS NTAPI KeGetProcessorNumberFromIndex(ULONG ProcIndex, PPROCESSOR_NUMBER ProcNumber);
NTSYSAPI NTSTATUS NTAPI KeSetTargetProcessorDpcEx(PKDPC Dpc, PPROCESSOR_NUMBER ProcNumber);
NTSYSAPI ULONG NTAPI KeQueryActiveProcessorCount(KAFFINITY *ActiveProcessors);
NTSYSAPI ULONG NTAPI KeQueryActiveProcessorCountEx(USHORT GroupNumber);
NTSYSAPI KAFFINITY NTAPI KeQueryActiveProcessors(VOID);
NTSYSAPI ULONG NTAPI KeQueryMaximumProcessorCount(VOID);
NTSYSAPI USHORT NTAPI KeQueryActiveGroupCount(VOID);
NTSYSAPI USHORT NTAPI KeQueryMaximumGroupCount(VOID);
NTSYSAPI ULONG NTAPI KeQueryMaximumProcessorCountEx(USHORT GroupNumber);
NTSYSAPI NTSTATUS NTAPI KeSaveFloatingPointState(PKFLOATING_SAVE FloatSave);
NTSYSAPI NTSTATUS NTAPI KeRestoreFloatingPointState(PKFLOATING_SAVE FloatSave);
NTSYSAPI BOOLEAN NTAPI KeInvalidateAllCaches(VOID);
NTSYSAPI NTSTATUS NTAPI RtlGetVersion(PRTL_OSVERSIONINFOW VersionInformation);
NTSYSAPI NTSTATUS NTAPI RtlVerifyVersionInfo(PRTL_OSVERSIONINFOEXW VersionInfo, ULONG TypeMask, ULONGLONG ConditionMask);
NTSYSAPI ULONGLONG NTAPI VerSetConditionMask(ULONGLONG ConditionMask, ULONG TypeMask, UCHAR Condition);
NTSYSAPI ULONG NTAPI RtlRandomEx(PULONG Seed);

/* ---- Exceptions, bug checks, the debugger ---- */

typedef enum _KBUGCHECK_BUFFER_DUMP_STATE { BufferEmpty, BufferInserted, BufferStarted, BufferFinished, BufferIncomplete } KBUGCHECK_BUFFER_DUMP_STATE;
typedef VOID KBUGCHECK_CALLBACK_ROUTINE(PVOID Buffer, ULONG Length);
typedef struct _KBUGCHECK_CALLBACK_RECORD {
    LIST_ENTRY Entry;
    KBUGCHECK_CALLBACK_ROUTINE *CallbackRoutine;
    PVOID Buffer;
    ULONG Length;
    PUCHAR Component;
    ULONG_PTR Checksum;
    UCHAR State;
} KBUGCHECK_CALLBACK_RECORD, *PKBUGCHECK_CALLBACK_RECORD;
#define KeInitializeCallbackRecord(record) ((record)->State = BufferEmpty)

NTSYSAPI LONG NTAPI __C_specific_handler(PVOID ExceptionRecord, PVOID EstablisherFrame, PVOID ContextRecord, PVOID DispatcherContext);
NTSYSAPI VOID NTAPI ExRaiseStatus(NTSTATUS Status);
NTSYSAPI VOID NTAPI ExRaiseAccessViolation(VOID);
NTSYSAPI VOID NTAPI ExRaiseDatatypeMisalignment(VOID);
NTSYSAPI VOID NTAPI ProbeForRead(const volatile VOID *Address, SIZE_T Length, ULONG Alignment);
NTSYSAPI VOID NTAPI ProbeForWrite(volatile VOID *Address, SIZE_T Length, ULONG Alignment);
NTSYSAPI VOID NTAPI KeBugCheck(ULONG BugCheckCode);
NTSYSAPI BOOLEAN NTAPI KeRegisterBugCheckCallback(PKBUGCHECK_CALLBACK_RECORD CallbackRecord, KBUGCHECK_CALLBACK_ROUTINE *CallbackRoutine,
                                                  PVOID Buffer, ULONG Length, PUCHAR Component);
NTSYSAPI BOOLEAN NTAPI KeDeregisterBugCheckCallback(PKBUGCHECK_CALLBACK_RECORD CallbackRecord);
NTSYSAPI VOID NTAPI RtlAssert(PVOID FailedAssertion, PVOID FileName, ULONG LineNumber, PCHAR Message);
NTSYSAPI VOID NTAPI DbgBreakPoint(VOID);
NTSYSAPI VOID NTAPI DbgBreakPointWithStatus(ULONG Status);
NTSYSAPI NTSTATUS NTAPI DbgQueryDebugFilterState(ULONG ComponentId, ULONG Level);
NTSYSAPI NTSTATUS NTAPI DbgSetDebugFilterState(ULONG ComponentId, ULONG Level, BOOLEAN State);
NTSYSAPI BOOLEAN NTAPI KdRefreshDebuggerNotPresent(VOID);
NTSYSAPI ULONG NTAPI vDbgPrintEx(ULONG ComponentId, ULONG Level, PCSTR Format, va_list arglist);
NTSYSAPI ULONG NTAPI vDbgPrintExWithPrefix(PCSTR Prefix, ULONG ComponentId, ULONG Level, PCSTR Format, va_list arglist);

/* ---- Registry, files, devices ---- */

typedef struct _IO_STATUS_BLOCK {
    union {
        NTSTATUS Status;
        PVOID Pointer;
    };
    ULONG_PTR Information;
} IO_STATUS_BLOCK, *PIO_STATUS_BLOCK;
typedef struct _FILE_OBJECT *PFILE_OBJECT;
typedef struct _RTL_QUERY_REGISTRY_TABLE *PRTL_QUERY_REGISTRY_TABLE;
typedef NTSTATUS RTL_QUERY_REGISTRY_ROUTINE(PWSTR ValueName, ULONG ValueType, PVOID ValueData, ULONG ValueLength, PVOID Context, PVOID EntryContext);
typedef struct _RTL_QUERY_REGISTRY_TABLE {
    RTL_QUERY_REGISTRY_ROUTINE *QueryRoutine;
    ULONG Flags;
    PWSTR Name;
    PVOID EntryContext;
    ULONG DefaultType;
    PVOID DefaultData;
    ULONG DefaultLength;
} RTL_QUERY_REGISTRY_TABLE;
typedef struct _DEVPROPKEY {
    GUID fmtid;
    ULONG pid;
} DEVPROPKEY;

#define KEY_QUERY_VALUE 0x0001
#define KEY_SET_VALUE 0x0002
#define KEY_CREATE_SUB_KEY 0x0004
#define KEY_ENUMERATE_SUB_KEYS 0x0008
#define KEY_NOTIFY 0x0010
#define KEY_READ 0x20019
#define KEY_WRITE 0x20006
#define KEY_ALL_ACCESS 0xF003F

#define REG_NONE 0
#define REG_SZ 1
#define REG_EXPAND_SZ 2
#define REG_BINARY 3
#define REG_DWORD 4
#define REG_MULTI_SZ 7
#define REG_QWORD 11

/* For KeyInformationClass. */
enum { KeyBasicInformation, KeyNodeInformation, KeyFullInformation };
/* For KeyValueInformationClass. */
enum { KeyValueBasicInformation, KeyValueFullInformation, KeyValuePartialInformation };

typedef struct _KEY_VALUE_BASIC_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG NameLength;
    WCHAR Name[1];
} KEY_VALUE_BASIC_INFORMATION, *PKEY_VALUE_BASIC_INFORMATION;

typedef struct _KEY_VALUE_FULL_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG DataOffset;
    ULONG DataLength;
    ULONG NameLength;
    WCHAR Name[1];
} KEY_VALUE_FULL_INFORMATION, *PKEY_VALUE_FULL_INFORMATION;

typedef struct _KEY_VALUE_PARTIAL_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG DataLength;
    UCHAR Data[1];
} KEY_VALUE_PARTIAL_INFORMATION, *PKEY_VALUE_PARTIAL_INFORMATION;

NTSYSAPI NTSTATUS NTAPI ZwCreateKey(PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes, ULONG TitleIndex,
                                    PUNICODE_STRING Class, ULONG CreateOptions, PULONG Disposition);
NTSYSAPI NTSTATUS NTAPI ZwOpenKey(PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes);
NTSYSAPI NTSTATUS NTAPI ZwDeleteKey(HANDLE KeyHandle);
NTSYSAPI NTSTATUS NTAPI ZwFlushKey(HANDLE KeyHandle);
NTSYSAPI NTSTATUS NTAPI ZwQueryKey(HANDLE KeyHandle, ULONG KeyInformationClass, PVOID KeyInformation, ULONG Length, PULONG ResultLength);
NTSYSAPI NTSTATUS NTAPI ZwEnumerateKey(HANDLE KeyHandle, ULONG Index, ULONG KeyInformationClass, PVOID KeyInformation, ULONG Length,
                                       PULONG ResultLength);
NTSYSAPI NTSTATUS NTAPI ZwQueryValueKey(HANDLE KeyHandle, PUNICODE_STRING ValueName, ULONG KeyValueInformationClass,
                                        PVOID KeyValueInformation, ULONG Length, PULONG ResultLength);
NTSYSAPI NTSTATUS NTAPI ZwEnumerateValueKey(HANDLE KeyHandle, ULONG Index, ULONG KeyValueInformationClass, PVOID KeyValueInformation,
                                            ULONG Length, PULONG ResultLength);
NTSYSAPI NTSTATUS NTAPI ZwSetValueKey(HANDLE KeyHandle, PUNICODE_STRING ValueName, ULONG TitleIndex, ULONG Type, PVOID Data, ULONG DataSize);
NTSYSAPI NTSTATUS NTAPI ZwDeleteValueKey(HANDLE KeyHandle, PUNICODE_STRING ValueName);
NTSYSAPI NTSTATUS NTAPI RtlQueryRegistryValues(ULONG RelativeTo, PCWSTR Path, PRTL_QUERY_REGISTRY_TABLE QueryTable, PVOID Context,
                                               PVOID Environment);
NTSYSAPI NTSTATUS NTAPI RtlQueryRegistryValuesEx(ULONG RelativeTo, PCWSTR Path, PRTL_QUERY_REGISTRY_TABLE QueryTable, PVOID Context,
                                                 PVOID Environment);
NTSYSAPI NTSTATUS NTAPI ZwCreateFile(PHANDLE FileHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
                                     PIO_STATUS_BLOCK IoStatusBlock, PLARGE_INTEGER AllocationSize, ULONG FileAttributes, ULONG ShareAccess,
                                     ULONG CreateDisposition, ULONG CreateOptions, PVOID EaBuffer, ULONG EaLength);
NTSYSAPI NTSTATUS NTAPI ZwReadFile(HANDLE FileHandle, HANDLE Event, PVOID ApcRoutine, PVOID ApcContext, PIO_STATUS_BLOCK IoStatusBlock,
                                   PVOID Buffer, ULONG Length, PLARGE_INTEGER ByteOffset, PULONG Key);
NTSYSAPI NTSTATUS NTAPI ZwWriteFile(HANDLE FileHandle, HANDLE Event, PVOID ApcRoutine, PVOID ApcContext, PIO_STATUS_BLOCK IoStatusBlock,
                                    PVOID Buffer, ULONG Length, PLARGE_INTEGER ByteOffset, PULONG Key);
NTSYSAPI NTSTATUS NTAPI ZwSetInformationFile(HANDLE FileHandle, PIO_STATUS_BLOCK IoStatusBlock, PVOID FileInformation, ULONG Length,
                                             ULONG FileInformationClass);
NTSYSAPI NTSTATUS NTAPI ZwLoadDriver(PUNICODE_STRING DriverServiceName);
NTSYSAPI NTSTATUS NTAPI IoGetDeviceObjectPointer(PUNICODE_STRING ObjectName, ACCESS_MASK DesiredAccess, PFILE_OBJECT *FileObject,
                                                 PDEVICE_OBJECT *DeviceObject);
NTSYSAPI PDEVICE_OBJECT NTAPI IoGetRelatedDeviceObject(PFILE_OBJECT FileObject);
NTSYSAPI PIRP NTAPI IoBuildDeviceIoControlRequest(ULONG IoControlCode, PDEVICE_OBJECT DeviceObject, PVOID InputBuffer,
                                                  ULONG InputBufferLength, PVOID OutputBuffer, ULONG OutputBufferLength,
                                                  BOOLEAN InternalDeviceIoControl, PKEVENT Event, PIO_STATUS_BLOCK IoStatusBlock);
NTSYSAPI NTSTATUS NTAPI IofCallDriver(PDEVICE_OBJECT DeviceObject, PIRP Irp);
#define IoCallDriver(device, irp) IofCallDriver((device), (irp))
NTSYSAPI NTSTATUS NTAPI IoGetDeviceProperty(PDEVICE_OBJECT DeviceObject, ULONG DeviceProperty, ULONG BufferLength, PVOID PropertyBuffer,
                                            PULONG ResultLength);
NTSYSAPI NTSTATUS NTAPI IoGetDevicePropertyData(PDEVICE_OBJECT Pdo, const DEVPROPKEY *PropertyKey, ULONG Lcid, ULONG Flags, ULONG Size,
                                                PVOID Data, PULONG RequiredSize, PULONG Type);
NTSYSAPI NTSTATUS NTAPI IoOpenDeviceRegistryKey(PDEVICE_OBJECT DeviceObject, ULONG DevInstKeyType, ACCESS_MASK DesiredAccess,
                                                PHANDLE DeviceRegKey);
NTSYSAPI NTSTATUS NTAPI IoRegisterPlugPlayNotification(ULONG EventCategory, ULONG EventCategoryFlags, PVOID EventCategoryData,
                                                       PDRIVER_OBJECT DriverObject, PVOID CallbackRoutine, PVOID Context,
                                                       PVOID *NotificationEntry);
NTSYSAPI NTSTATUS NTAPI IoUnregisterPlugPlayNotification(PVOID NotificationEntry);
NTSYSAPI ULONGLONG NTAPI RtlCmDecodeMemIoResource(PCM_PARTIAL_RESOURCE_DESCRIPTOR Descriptor, ULONGLONG *Start);
NTSYSAPI NTSTATUS NTAPI RtlCmEncodeMemIoResource(PCM_PARTIAL_RESOURCE_DESCRIPTOR Descriptor, UCHAR Type, ULONGLONG Length, ULONGLONG Start);

/* ---- Event tracing ---- */

typedef ULONGLONG REGHANDLE, *PREGHANDLE;
typedef struct _EVENT_DESCRIPTOR {
    USHORT Id;
    UCHAR Version;
    UCHAR Channel;
    UCHAR Level;
    UCHAR Opcode;
    USHORT Task;
    ULONGLONG Keyword;
} EVENT_DESCRIPTOR;
typedef const EVENT_DESCRIPTOR *PCEVENT_DESCRIPTOR;
typedef struct _EVENT_DATA_DESCRIPTOR {
    ULONGLONG Ptr;
    ULONG Size;
    ULONG Reserved;
} EVENT_DATA_DESCRIPTOR, *PEVENT_DATA_DESCRIPTOR;
typedef VOID ETWENABLECALLBACK(LPCGUID SourceId, ULONG ControlCode, UCHAR Level, ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword,
                               PVOID FilterData, PVOID CallbackContext);

NTSYSAPI NTSTATUS NTAPI EtwRegister(LPCGUID ProviderId, ETWENABLECALLBACK *EnableCallback, PVOID CallbackContext, PREGHANDLE RegHandle);
NTSYSAPI NTSTATUS NTAPI EtwUnregister(REGHANDLE RegHandle);
NTSYSAPI NTSTATUS NTAPI EtwSetInformation(REGHANDLE RegHandle, ULONG InformationClass, PVOID EventInformation, ULONG InformationLength);
NTSYSAPI BOOLEAN NTAPI EtwEventEnabled(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor);
NTSYSAPI BOOLEAN NTAPI EtwProviderEnabled(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword);
NTSYSAPI NTSTATUS NTAPI EtwWrite(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, LPCGUID ActivityId, ULONG UserDataCount,
                                 PEVENT_DATA_DESCRIPTOR UserData);
NTSYSAPI NTSTATUS NTAPI EtwWriteTransfer(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, LPCGUID ActivityId,
                                         LPCGUID RelatedActivityId, ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);
NTSYSAPI NTSTATUS NTAPI EtwRegisterClassicProvider(LPCGUID ProviderId, ULONG Type, PVOID EnableCallback, PVOID CallbackContext,
                                                   PREGHANDLE RegHandle);
NTSYSAPI NTSTATUS NTAPI IoWMIRegistrationControl(PDEVICE_OBJECT DeviceObject, ULONG Action);
NTSYSAPI NTSTATUS NTAPI WmiQueryTraceInformation(ULONG TraceInformationClass, PVOID TraceInformation, ULONG TraceInformationLength,
                                                 PULONG RequiredLength, PVOID Buffer);
NTSYSAPI NTSTATUS WmiTraceMessage(ULONGLONG LoggerHandle, ULONG MessageFlags, LPCGUID MessageGuid, USHORT MessageNumber, ...);

/* ---- The C library ---- */

int memcmp(const void *one, const void *other, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memchr(const void *memory, int value, size_t size);
size_t strlen(const char *string);
int strcmp(const char *one, const char *other);
int strncmp(const char *one, const char *other, size_t size);
char *strcpy(char *to, const char *from);
char *strncpy(char *to, const char *from, size_t size);
char *strcat(char *to, const char *from);
char *strchr(const char *string, int value);
char *strrchr(const char *string, int value);
char *strstr(const char *string, const char *part);
int sprintf(char *to, const char *format, ...);
int vsprintf(char *to, const char *format, va_list arguments);
int isdigit(int value);
int isprint(int value);
int isspace(int value);
int isxdigit(int value);
int tolower(int value);
int toupper(int value);

#ifdef _WIN32
/* What C11 does not have, or has for another wchar_t elsewhere. */
void __chkstk(void);
int _purecall(void);
size_t strnlen(const char *string, size_t size);
int memcpy_s(void *to, size_t room, const void *from, size_t size);
int memmove_s(void *to, size_t room, const void *from, size_t size);
int strcpy_s(char *to, size_t room, const char *from);
int strncpy_s(char *to, size_t room, const char *from, size_t size);
int strcat_s(char *to, size_t room, const char *from);
int sprintf_s(char *to, size_t room, const char *format, ...);
int vsprintf_s(char *to, size_t room, const char *format, va_list arguments);
int _snprintf(char *to, size_t room, const char *format, ...);
int _vsnprintf(char *to, size_t room, const char *format, va_list arguments);
int _vsnprintf_s(char *to, size_t room, size_t size, const char *format, va_list arguments);
int _stricmp(const char *one, const char *other);
int _strnicmp(const char *one, const char *other, size_t size);
size_t wcslen(const WCHAR *string);
size_t wcsnlen(const WCHAR *string, size_t size);
int wcscmp(const WCHAR *one, const WCHAR *other);
int wcsncmp(const WCHAR *one, const WCHAR *other, size_t size);
WCHAR *wcscpy(WCHAR *to, const WCHAR *from);
WCHAR *wcsncpy(WCHAR *to, const WCHAR *from, size_t size);
WCHAR *wcscat(WCHAR *to, const WCHAR *from);
WCHAR *wcschr(const WCHAR *string, WCHAR value);
WCHAR *wcsrchr(const WCHAR *string, WCHAR value);
WCHAR *wcsstr(const WCHAR *string, const WCHAR *part);
int wcscpy_s(WCHAR *to, size_t room, const WCHAR *from);
int wcsncpy_s(WCHAR *to, size_t room, const WCHAR *from, size_t size);
int wcscat_s(WCHAR *to, size_t room, const WCHAR *from);
int swprintf_s(WCHAR *to, size_t room, const WCHAR *format, ...);
int vswprintf_s(WCHAR *to, size_t room, const WCHAR *format, va_list arguments);
int _snwprintf(WCHAR *to, size_t room, const WCHAR *format, ...);
int _vsnwprintf(WCHAR *to, size_t room, const WCHAR *format, va_list arguments);
int _wcsicmp(const WCHAR *one, const WCHAR *other);
int _wcsnicmp(const WCHAR *one, const WCHAR *other, size_t size);
WCHAR towlower(WCHAR value);
WCHAR towupper(WCHAR value);
#endif

#ifdef __cplusplus
}
#endif

#include "campanile_inline.h"
#include "campanile_values.h"

#endif
