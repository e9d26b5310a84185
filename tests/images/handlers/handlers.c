/* A driver whose DriverEntry does what the last part of its registry path names, and answers what came of it. Each function is one exception, and what
 * its handlers make of it; dxgkrnl/tests/exceptions.rs knows the answers. Compiled by clang, which has the exceptions of Microsoft's C. */

typedef unsigned char UCHAR;
typedef unsigned short USHORT;
typedef unsigned int ULONG;
typedef unsigned long long ULONG64;
typedef struct { USHORT Length, MaximumLength; USHORT *Buffer; } UNICODE_STRING;
typedef struct { ULONG ExceptionCode, ExceptionFlags; void *ExceptionRecord, *ExceptionAddress; ULONG NumberParameters; ULONG64 ExceptionInformation[15]; } RECORD;
typedef struct { RECORD *ExceptionRecord; UCHAR *ContextRecord; } POINTERS;

#define IMPORT __declspec(dllimport)
IMPORT void ExRaiseStatus(ULONG status);
IMPORT void ProbeForRead(const volatile void *address, ULONG64 length, ULONG alignment);
IMPORT void ProbeForWrite(volatile void *address, ULONG64 length, ULONG alignment);
IMPORT void *IoAllocateMdl(void *address, ULONG length, UCHAR secondary, UCHAR quota, void *irp);
IMPORT void IoFreeMdl(void *mdl);
IMPORT void MmProbeAndLockPages(void *mdl, char mode, int operation);
IMPORT UCHAR KfRaiseIrql(UCHAR level);
IMPORT void KeLowerIrql(UCHAR level);
IMPORT void *memcpy(void *to, const void *from, ULONG64 bytes);

#define NOINLINE __attribute__((noinline))
#define HANDLE 1
#define DECLINE 0
#define CONTINUE (-1)
#define NOT_REACHED 0xe0000001u

static volatile ULONG *const nowhere = (volatile ULONG *)0x123450;
static volatile ULONG trace;
static volatile int zero;
static ULONG word = 7;

/* Clang expects exceptions of calls alone, so each is made by a function of its own. */
static NOINLINE void fault(void) { *nowhere = 1; }
static NOINLINE ULONG load(volatile ULONG *from) { return *from; }
static NOINLINE ULONG divide(int by) { return (ULONG)(7 / by); }
static NOINLINE void stop_here(void) { __asm__ volatile("int3"); }
static void mark(ULONG digit) { trace = trace * 16 + digit; }
static NOINLINE int decline(ULONG digit) { mark(digit); return DECLINE; }
static NOINLINE int handle(ULONG digit) { mark(digit); return HANDLE; }

static ULONG read_it(void) {
    __try { return load(nowhere); } __except (HANDLE) { return _exception_code(); }
}

static ULONG told(void) {
    ULONG64 told = 0;
    __try { fault(); } __except (told = ((POINTERS *)_exception_info())->ExceptionRecord->ExceptionInformation[0] << 24 | ((POINTERS *)_exception_info())->ExceptionRecord->ExceptionInformation[1], HANDLE) { return (ULONG)told; }
    return NOT_REACHED;
}

static NOINLINE void with_termination(ULONG digit) {
    __try { fault(); } __finally { mark(digit); }
}

static ULONG order(void) {
    __try {
        __try { with_termination(3); } __except (decline(1)) { mark(9); }
    } __except (handle(2)) { mark(4); }
    return trace;
}

static NOINLINE ULONG down(ULONG depth) {
    volatile UCHAR room[64];
    room[depth & 63] = (UCHAR)depth;
    __try {
        if (depth == 0) fault();
        return down(depth - 1) + room[depth & 63];
    } __finally { trace += 1; }
}

static ULONG deep(void) {
    __try { return down(40); } __except (HANDLE) { return trace; }
}

static NOINLINE void clobber(double seed) {
    __asm__ volatile("xorps %%xmm6, %%xmm6\n xorps %%xmm7, %%xmm7\n xor %%esi, %%esi\n xor %%edi, %%edi\n xor %%ebx, %%ebx\n xor %%r12d, %%r12d\n xor %%r15d, %%r15d"
                     ::: "xmm6", "xmm7", "rsi", "rdi", "rbx", "r12", "r15");
    fault();
}

static NOINLINE ULONG caught(void) {
    __try { clobber(1.0); } __except (HANDLE) { return 1; }
    return NOT_REACHED;
}

static NOINLINE ULONG preserved(void) {
    ULONG64 a = 1, b = 2, c = 3, d = 4, e = 5;
    double x = 6.5, y = 7.5;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+x"(x), "+x"(y));
    ULONG one = caught();
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+x"(x), "+x"(y));
    return one + (ULONG)(a * 10 + b * 100 + c * 1000 + d * 10000 + e * 100000) + (ULONG)((x + y) * 1000000);
}

static ULONG raised(void) {
    __try { ExRaiseStatus(0xe0001234); } __except (_exception_code() == 0xe0001234 ? HANDLE : DECLINE) { return _exception_code(); }
    return NOT_REACHED;
}

static ULONG divided(void) {
    __try { return divide(zero); } __except (HANDLE) { return _exception_code(); }
}

static ULONG stepped_over(void) {
    __try { stop_here(); mark(5); } __except (*(ULONG64 *)(((POINTERS *)_exception_info())->ContextRecord + 0xf8) += 1, CONTINUE) { mark(9); }
    return trace;
}

static ULONG probed_misaligned(void) {
    __try { ProbeForRead((void *)0x1002, 8, 4); } __except (HANDLE) { return _exception_code(); }
    return NOT_REACHED;
}

static ULONG probed_kernel(void) {
    __try { ProbeForRead((void *)0xffff800000001000, 8, 4); } __except (HANDLE) { return _exception_code(); }
    return NOT_REACHED;
}

static ULONG probed_nothing(void) {
    ProbeForRead((void *)0xffff800000001001, 0, 4);
    ProbeForRead((void *)nowhere, 8, 4);
    return 1;
}

static ULONG probed_for_write(void) {
    ProbeForWrite(&word, 4, 4);
    __try { ProbeForWrite(nowhere, 4, 4); } __except (HANDLE) { return _exception_code() + word; }
    return NOT_REACHED;
}

static ULONG copied(void) {
    ULONG here = 3;
    __try { memcpy(&here, (void *)nowhere, 4); } __except (HANDLE) { return _exception_code() + here; }
    return NOT_REACHED;
}

static ULONG locked(void) {
    void *mdl = IoAllocateMdl((void *)nowhere, 4, 0, 0, 0);
    ULONG code = NOT_REACHED;
    __try { MmProbeAndLockPages(mdl, 1, 1); } __except (HANDLE) { code = _exception_code(); }
    IoFreeMdl(mdl);
    return code;
}

static ULONG again(void) {
    for (int i = 0; i < 1000; i++) { if (read_it() != 0xc0000005) return NOT_REACHED; }
    return 1000;
}

static ULONG in_handler(void) {
    __try {
        __try { fault(); } __except (HANDLE) { mark(1); ExRaiseStatus(0xe0000002); }
    } __except (handle(2)) { mark(3); return trace << 8 | (_exception_code() & 0xff); }
    return NOT_REACHED;
}

/* Clang has a call's range end behind the address that it returns to, where the next range may begin: one instruction keeps them apart. */
#define APART __asm__ volatile("nop")

/* A filter with an exception of its own, which it handles, is asked to the end. */
static NOINLINE int recovers(void) {
    __try { fault(); APART; } __except (HANDLE) { mark(1); }
    return HANDLE;
}

static ULONG in_filter(void) {
    __try { ExRaiseStatus(0xe0000004); APART; } __except (recovers()) { mark(2); return trace << 8 | (_exception_code() & 0xff); }
    return NOT_REACHED;
}

/* A filter with an exception that it does not handle: the frames of the first exception are asked about the second one, too, and unwound for it. */
static NOINLINE int raises(ULONG code, RECORD *record) {
    if (code == 0xc0000005) { mark(1); ExRaiseStatus(0xe0000007); }
    mark(record->ExceptionFlags & 0x10 ? 2 : 9); /* EXCEPTION_NESTED_CALL */
    return DECLINE;
}

static NOINLINE void filtered(void) {
    __try {
        __try { fault(); APART; } __finally { mark(4); }
        APART;
    } __except (raises(_exception_code(), ((POINTERS *)_exception_info())->ExceptionRecord)) { mark(9); }
}

static NOINLINE int takes(RECORD *record) { mark(record->ExceptionFlags & 0x10 ? 9 : 3); return HANDLE; }

static ULONG nested(void) {
    __try { filtered(); APART; } __except (takes(((POINTERS *)_exception_info())->ExceptionRecord)) { mark(5); return trace << 8 | (_exception_code() & 0xff); }
    return NOT_REACHED;
}

/* A termination handler that raises an exception: its frame is unwound from behind it on, by the second exception, and the first is forgotten. */
static NOINLINE void ends_badly(void) {
    __try {
        __try { fault(); APART; } __finally { mark(2); ExRaiseStatus(0xe0000008); }
        APART;
    } __finally { mark(5); }
}

static ULONG collided(void) {
    __try {
        __try { ends_badly(); APART; } __except (_exception_code() == 0xc0000005 ? handle(1) : decline(3)) { mark(9); }
    } __except (handle(4)) { mark(6); return trace << 8 | (_exception_code() & 0xff); }
    return NOT_REACHED;
}

/* The same, with frames of the first exception and of the second one between the two. */
static NOINLINE ULONG falls(ULONG depth) {
    volatile UCHAR room[48];
    room[depth & 31] = 1;
    __try {
        if (depth == 0) { fault(); APART; }
        return falls(depth - 1) + room[depth & 31];
    } __finally {
        trace += 1;
        if (depth == 7) with_termination(0);
    }
}

static ULONG collided_deep(void) {
    __try { return falls(12); } __except (HANDLE) { return trace; }
}

/* A termination handler with an exception of its own, which it handles: the first one goes on. */
static NOINLINE void ends_well(void) {
    __try { fault(); APART; } __finally {
        __try { ExRaiseStatus(0xe0000009); APART; } __except (handle(2)) { mark(3); }
    }
}

static ULONG in_termination(void) {
    __try { ends_well(); APART; } __except (handle(1)) { mark(4); return trace << 8 | (_exception_code() & 0xff); }
    return NOT_REACHED;
}

/* What was left by an exception is no part of the next one. */
static ULONG nested_again(void) {
    for (int i = 0; i < 200; i++) {
        trace = 0;
        if (nested() != 0x1234507) return NOT_REACHED;
        trace = 0;
        if (collided() != 0x12345608) return NOT_REACHED;
    }
    return 200;
}

static NOINLINE int always_raises(void) { fault(); return DECLINE; }

static ULONG without_end(void) {
    __try { fault(); } __except (always_raises()) { return NOT_REACHED; }
    return NOT_REACHED;
}

static ULONG nobody_nested(void) {
    __try { fault(); } __except (raises(_exception_code(), ((POINTERS *)_exception_info())->ExceptionRecord)) { return NOT_REACHED; }
    return NOT_REACHED;
}

static ULONG nobody(void) {
    __try { fault(); } __except (decline(1)) { return NOT_REACHED; }
    return NOT_REACHED;
}

static ULONG nobody_raised(void) {
    __try { ExRaiseStatus(0xe0005678); } __except (decline(1)) { return NOT_REACHED; }
    return NOT_REACHED;
}

static ULONG of_kernel(void) {
    __try { return load((volatile ULONG *)0xffff800000001000); } __except (HANDLE) { return NOT_REACHED; }
}

static ULONG at_dispatch(void) {
    __try { UCHAR before = KfRaiseIrql(2); fault(); KeLowerIrql(before); } __except (HANDLE) { return NOT_REACHED; }
    return NOT_REACHED;
}

static ULONG not_continuable(void) {
    __try { ExRaiseStatus(0xe0000003); } __except (CONTINUE) { return NOT_REACHED; }
    return NOT_REACHED;
}

/* Macros of the kit look into the driver object, and drivers store routines there: DriverUnload at 0x68, MajorFunction from 0x70 on. */
static UCHAR *driver_object;

static ULONG driver_fields(void) {
    void **unload = (void **)(driver_object + 0x68), **major = (void **)(driver_object + 0x70);
    UNICODE_STRING *name = (UNICODE_STRING *)(driver_object + 0x38);
    UCHAR *extension = *(UCHAR **)(driver_object + 0x30);
    UNICODE_STRING *service = (UNICODE_STRING *)(extension + 0x18);
    if (*(USHORT *)driver_object != 4 || *(USHORT *)(driver_object + 2) != 0x150) return 1;
    if (*unload || *(void **)extension != driver_object || *(void **)(driver_object + 0x58) == 0) return 2;
    for (int i = 0; i < 28; i++) {
        if (!major[i] || major[i] != major[0]) return 3;
    }
    if (((ULONG (*)(void *, void *))major[14])(0, 0) != 0xc0000010) return 4; /* STATUS_INVALID_DEVICE_REQUEST */
    *unload = (void *)decline, major[14] = (void *)handle;
    if (*unload != (void *)decline || major[14] != (void *)handle || major[13] == major[14]) return 5;
    if (name->Length != sizeof "\\Driver\\driver_fields" * 2 - 2 || service->Length != sizeof "driver_fields" * 2 - 2) return 6;
    return name->Buffer[1] == 'D' && service->Buffer[0] == 'd' ? 7 : 8;
}

#define CASE(name) { #name, name }
static const struct { const char *name; ULONG (*run)(void); } cases[] = {
    CASE(read_it), CASE(told), CASE(order), CASE(deep), CASE(preserved), CASE(raised), CASE(divided), CASE(stepped_over), CASE(probed_misaligned),
    CASE(probed_kernel), CASE(probed_nothing), CASE(probed_for_write), CASE(copied), CASE(locked), CASE(again), CASE(in_handler), CASE(in_filter), CASE(nested),
    CASE(collided), CASE(collided_deep), CASE(in_termination), CASE(nested_again), CASE(without_end), CASE(driver_fields), CASE(nobody_nested), CASE(nobody),
    CASE(nobody_raised), CASE(of_kernel), CASE(at_dispatch), CASE(not_continuable),
};

int _fltused = 0x9875;

ULONG DriverEntry(void *driver, UNICODE_STRING *path) {
    USHORT units = path->Length / 2, start = units;
    driver_object = driver;
    while (start > 0 && path->Buffer[start - 1] != '\\') start--;
    for (ULONG i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = cases[i].name;
        USHORT at = start;
        while (at < units && *name && path->Buffer[at] == (UCHAR)*name) at++, name++;
        if (at == units && !*name) return cases[i].run() | 0x80000000u; /* A failure, whatever it is. */
    }
    return 0xc0000034; /* STATUS_OBJECT_NAME_NOT_FOUND */
}
