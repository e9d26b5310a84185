/*
 * Two programs that share a buffer and a fence by name, on one machine:
 *
 *     cc -I kmt/include examples/c/two_programs.c -L target/debug -lcampanile_kmt -Wl,-rpath,$PWD/target/debug -o two_programs
 *     target/debug/campanile machine --socket machine.sock &
 *     export CAMPANILE_MACHINE=machine.sock
 *     ./two_programs give 1000 &
 *     ./two_programs take 1000
 *
 * The one that gives makes both and names them. Then they write in turn: the giver writes a number and signals its round, the taker looks at the number, writes
 * twice as much and signals the next round. On Windows the same two run without a machine of this project, since the graphics kernel is there.
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 4096, GENERIC_ALL_ACCESS = 0x10000000 };

static D3DKMT_HANDLE device, fence;
static volatile uint32_t *words;

static void check(NTSTATUS status, const char *what)
{
    if (!NT_SUCCESS(status)) {
        fprintf(stderr, "two_programs: %s: status 0x%08x\n", what, (unsigned)status);
        exit(EXIT_FAILURE);
    }
}

/* ---- Names. ---- */

struct name {
    WCHAR units[32];
    UNICODE_STRING string;
    OBJECT_ATTRIBUTES attributes;
};

static OBJECT_ATTRIBUTES *named(struct name *name, const char *text)
{
    size_t at, length = strlen(text);

    memset(name, 0, sizeof(*name));
    assert(length <= sizeof(name->units) / sizeof(name->units[0]));
    for (at = 0; at < length; at++)
        name->units[at] = (WCHAR)text[at];
    name->string.Length = name->string.MaximumLength = (USHORT)(length * sizeof(name->units[0]));
    name->string.Buffer = name->units;
    name->attributes.Length = sizeof(name->attributes);
    name->attributes.ObjectName = &name->string;
    return &name->attributes;
}

static const char *const BUFFER = "two programs, buffer";
static const char *const FENCE = "two programs, fence";

/* Gives an object a kernel handle with a name. The name is there as long as the handle is, which is until the program ends. */
static void publish(D3DKMT_HANDLE object, const char *text)
{
    struct name name;
    HANDLE handle;

    check(D3DKMTShareObjects(1, &object, named(&name, text), GENERIC_ALL_ACCESS, &handle), text);
}

/* ---- What both do. ---- */

static void open_device(void)
{
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE create = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(D3DKMTEnumAdapters3(&list), "D3DKMTEnumAdapters3");
    create.hAdapter = found.hAdapter;
    check(D3DKMTCreateDevice(&create), "D3DKMTCreateDevice");
    device = create.hDevice;
}

static void lock(D3DKMT_HANDLE allocation)
{
    D3DKMT_LOCK2 lock = {0};

    lock.hDevice = device;
    lock.hAllocation = allocation;
    check(D3DKMTLock2(&lock), "D3DKMTLock2");
    words = lock.pData;
}

static void wait_for(UINT64 value)
{
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};

    wait.hDevice = device;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &value;
    check(D3DKMTWaitForSynchronizationObjectFromCpu(&wait), "D3DKMTWaitForSynchronizationObjectFromCpu");
}

static void signal_value(UINT64 value)
{
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {0};

    signal.hDevice = device;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.FenceValueArray = &value;
    check(D3DKMTSignalSynchronizationObjectFromCpu(&signal), "D3DKMTSignalSynchronizationObjectFromCpu");
}

/* ---- The program that gives. ---- */

static void make(void)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_SYSTEM, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 sync = {0};

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = create.Flags.NtSecuritySharing = 1;
    check(D3DKMTCreateAllocation2(&create), "D3DKMTCreateAllocation2");
    lock(info.hAllocation);
    sync.hDevice = device;
    sync.Info.Type = D3DDDI_MONITORED_FENCE;
    sync.Info.Flags.Shared = sync.Info.Flags.NtSecuritySharing = 1;
    sync.Info.MonitoredFence.EngineAffinity = 1;
    check(D3DKMTCreateSynchronizationObject2(&sync), "D3DKMTCreateSynchronizationObject2");
    fence = sync.hSyncObject;
    publish(create.hResource, BUFFER);
    publish(fence, FENCE);
}

static void give(unsigned rounds)
{
    unsigned round;

    make();
    for (round = 0; round < rounds; round++) {
        words[0] = round + 1;
        signal_value(2 * round + 1);
        wait_for(2 * round + 2);
        assert(words[1] == 2 * (round + 1));
    }
    printf("gave %u numbers, and every answer was right\n", rounds);
}

/* ---- The program that takes. ---- */

static void find(void)
{
    struct timespec moment = {0, 1000000};
    struct name name;
    struct campanile_allocation_data data;
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME sync = {0};
    D3DKMT_OPENNTHANDLEFROMNAME resource = {0};
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 opened = {0};
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE about = {0};
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {0};
    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    NTSTATUS status;

    /* The fence is named last: when it is found, everything is. */
    sync.dwDesiredAccess = resource.dwDesiredAccess = GENERIC_ALL_ACCESS;
    sync.pObjAttrib = named(&name, FENCE);
    while ((status = D3DKMTOpenSyncObjectNtHandleFromName(&sync)) == STATUS_OBJECT_NAME_NOT_FOUND)
        nanosleep(&moment, NULL);
    check(status, "D3DKMTOpenSyncObjectNtHandleFromName");
    opened.hNtHandle = sync.hNtHandle;
    opened.hDevice = device;
    opened.Flags.Shared = opened.Flags.NtSecuritySharing = 1;
    opened.MonitoredFence.EngineAffinity = 1;
    check(D3DKMTOpenSyncObjectFromNtHandle2(&opened), "D3DKMTOpenSyncObjectFromNtHandle2");
    fence = opened.hSyncObject;
    resource.pObjAttrib = named(&name, BUFFER);
    check(D3DKMTOpenNtHandleFromName(&resource), "D3DKMTOpenNtHandleFromName");
    about.hDevice = device;
    about.hNtHandle = resource.hNtHandle;
    check(D3DKMTQueryResourceInfoFromNtHandle(&about), "D3DKMTQueryResourceInfoFromNtHandle");
    assert(about.NumAllocations == 1 && about.TotalPrivateDriverDataSize == sizeof(data));
    open.hDevice = device;
    open.hNtHandle = resource.hNtHandle;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &info;
    open.pTotalPrivateDriverDataBuffer = &data;
    open.TotalPrivateDriverDataBufferSize = sizeof(data);
    check(D3DKMTOpenResourceFromNtHandle(&open), "D3DKMTOpenResourceFromNtHandle");
    assert(data.magic == CAMPANILE_MAGIC && data.size == SIZE);
    lock(info.hAllocation);
}

static void take(unsigned rounds)
{
    unsigned round;

    find();
    for (round = 0; round < rounds; round++) {
        wait_for(2 * round + 1);
        assert(words[0] == round + 1);
        words[1] = 2 * words[0];
        signal_value(2 * round + 2);
    }
    printf("took %u numbers in their order\n", rounds);
}

int main(int count, char **arguments)
{
    unsigned rounds = count == 3 ? (unsigned)strtoul(arguments[2], NULL, 10) : 0;

    if (rounds == 0 || (strcmp(arguments[1], "give") != 0 && strcmp(arguments[1], "take") != 0)) {
        fprintf(stderr, "usage: two_programs give|take ROUNDS\n");
        return 2;
    }
    open_device();
    if (strcmp(arguments[1], "give") == 0)
        give(rounds);
    else
        take(rounds);
    return 0;
}
