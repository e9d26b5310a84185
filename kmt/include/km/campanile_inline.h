/*
 * What wdm.h has as inline functions and macros: doubly linked lists, interlocked operations, and PAGED_CODE.
 *
 * Included by campanile_services.h, and with it by ntddk.h.
 */
#ifndef CAMPANILE_INLINE_H
#define CAMPANILE_INLINE_H

#include "campanile_services.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends the machine at once with bug check 0x139, whose first parameter is the code. No handler is asked. */
#define FAST_FAIL_CORRUPT_LIST_ENTRY 3
#define FAST_FAIL_INVALID_ARG 5
#define FAST_FAIL_FATAL_APP_EXIT 7

static inline __attribute__((noreturn)) VOID RtlFailFast(ULONG Code)
{
    __asm__ volatile("int $0x29" : : "c"(Code) : "memory");
    __builtin_unreachable();
}

static inline VOID InitializeListHead(PLIST_ENTRY ListHead)
{
    ListHead->Flink = ListHead->Blink = ListHead;
}

static inline BOOLEAN IsListEmpty(const LIST_ENTRY *ListHead)
{
    return ListHead->Flink == ListHead;
}

/* TRUE if the list is empty afterwards. As in wdm.h, the functions of lists end in RtlFailFast if neighbours do not point at each other. */
static inline BOOLEAN RemoveEntryList(PLIST_ENTRY Entry)
{
    PLIST_ENTRY next = Entry->Flink, previous = Entry->Blink;
    if (next->Blink != Entry || previous->Flink != Entry) {
        RtlFailFast(FAST_FAIL_CORRUPT_LIST_ENTRY);
    }
    previous->Flink = next;
    next->Blink = previous;
    return next == previous;
}

/* Of an empty list the head itself. */
static inline PLIST_ENTRY RemoveHeadList(PLIST_ENTRY ListHead)
{
    PLIST_ENTRY entry = ListHead->Flink;
    RemoveEntryList(entry);
    return entry;
}

/* Of an empty list the head itself. */
static inline PLIST_ENTRY RemoveTailList(PLIST_ENTRY ListHead)
{
    PLIST_ENTRY entry = ListHead->Blink;
    RemoveEntryList(entry);
    return entry;
}

static inline VOID InsertHeadList(PLIST_ENTRY ListHead, PLIST_ENTRY Entry)
{
    PLIST_ENTRY next = ListHead->Flink;
    if (next->Blink != ListHead) {
        RtlFailFast(FAST_FAIL_CORRUPT_LIST_ENTRY);
    }
    Entry->Flink = next;
    Entry->Blink = ListHead;
    next->Blink = Entry;
    ListHead->Flink = Entry;
}

static inline VOID InsertTailList(PLIST_ENTRY ListHead, PLIST_ENTRY Entry)
{
    PLIST_ENTRY previous = ListHead->Blink;
    if (previous->Flink != ListHead) {
        RtlFailFast(FAST_FAIL_CORRUPT_LIST_ENTRY);
    }
    Entry->Flink = ListHead;
    Entry->Blink = previous;
    previous->Flink = Entry;
    ListHead->Blink = Entry;
}

/* These two return the sum, the exchanges, the bitwise ones and InterlockedExchangeAdd the value from before. All are full barriers. */
#define CAMPANILE_INTERLOCKED(type, suffix)                                                                               \
    static inline type InterlockedIncrement##suffix(volatile type *Addend)                                                \
    {                                                                                                                     \
        return __atomic_add_fetch(Addend, 1, __ATOMIC_SEQ_CST);                                                           \
    }                                                                                                                     \
    static inline type InterlockedDecrement##suffix(volatile type *Addend)                                                \
    {                                                                                                                     \
        return __atomic_sub_fetch(Addend, 1, __ATOMIC_SEQ_CST);                                                           \
    }                                                                                                                     \
    static inline type InterlockedExchange##suffix(volatile type *Target, type Value)                                     \
    {                                                                                                                     \
        return __atomic_exchange_n(Target, Value, __ATOMIC_SEQ_CST);                                                      \
    }                                                                                                                     \
    static inline type InterlockedExchangeAdd##suffix(volatile type *Addend, type Value)                                  \
    {                                                                                                                     \
        return __atomic_fetch_add(Addend, Value, __ATOMIC_SEQ_CST);                                                       \
    }                                                                                                                     \
    static inline type InterlockedAnd##suffix(volatile type *Destination, type Value)                                     \
    {                                                                                                                     \
        return __atomic_fetch_and(Destination, Value, __ATOMIC_SEQ_CST);                                                  \
    }                                                                                                                     \
    static inline type InterlockedOr##suffix(volatile type *Destination, type Value)                                      \
    {                                                                                                                     \
        return __atomic_fetch_or(Destination, Value, __ATOMIC_SEQ_CST);                                                   \
    }                                                                                                                     \
    static inline type InterlockedXor##suffix(volatile type *Destination, type Value)                                     \
    {                                                                                                                     \
        return __atomic_fetch_xor(Destination, Value, __ATOMIC_SEQ_CST);                                                  \
    }                                                                                                                     \
    static inline type InterlockedCompareExchange##suffix(volatile type *Destination, type Exchange, type Comparand)      \
    {                                                                                                                     \
        __atomic_compare_exchange_n(Destination, &Comparand, Exchange, FALSE, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
        return Comparand;                                                                                                 \
    }

CAMPANILE_INTERLOCKED(LONG, )
CAMPANILE_INTERLOCKED(LONG64, 64)

static inline PVOID InterlockedExchangePointer(PVOID volatile *Target, PVOID Value)
{
    return __atomic_exchange_n(Target, Value, __ATOMIC_SEQ_CST);
}

static inline PVOID InterlockedCompareExchangePointer(PVOID volatile *Destination, PVOID Exchange, PVOID Comparand)
{
    __atomic_compare_exchange_n(Destination, &Comparand, Exchange, FALSE, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return Comparand;
}

/* As in builds without assertions of the kit. */
#define PAGED_CODE() ((VOID)0)

#ifdef __cplusplus
}
#endif

#endif /* CAMPANILE_INLINE_H */
