/*
 * Two processes of one machine: one names a fence, a fence that it may not signal itself, and a resource, and sends the other a descriptor of a kernel handle that may only read. The other
 * opens each with several accesses: each opening may do what was asked for, and no more than the one who named the object may. Each ends with 0 if all was as docs/machine.md says.
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Generic rights, and an access that has not even the one to be read. */
enum { SIZE = 1 << 16, NONE = 1, ANY = 0x10000000, READ = (int)0x80000000, WRITE = 0x40000000, EXECUTE = 0x20000000 };

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "rights: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

#include "passing.h"

struct name {
    WCHAR units[32];
    UNICODE_STRING string;
    OBJECT_ATTRIBUTES attributes;
};

static OBJECT_ATTRIBUTES *named(struct name *name, const char *text)
{
    size_t at, length = strlen(text);

    memset(name, 0, sizeof(*name));
    for (at = 0; at < length && at < sizeof(name->units) / sizeof(name->units[0]); at++)
        name->units[at] = (WCHAR)text[at];
    name->string.Length = name->string.MaximumLength = (USHORT)(at * sizeof(name->units[0]));
    name->string.Buffer = name->units;
    name->attributes.Length = sizeof(name->attributes);
    name->attributes.ObjectName = &name->string;
    return &name->attributes;
}

static const char *const FENCE = "rights, fence", *const HELD = "rights, fence without signals", *const BUFFER = "rights, buffer";

/* ---- The process that opens. ---- */

static D3DKMT_HANDLE device, paging_queue;

static NTSTATUS signal_value(D3DKMT_HANDLE fence, UINT64 value)
{
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {0};

    signal.hDevice = device;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.FenceValueArray = &value;
    return D3DKMTSignalSynchronizationObjectFromCpu(&signal);
}

static NTSTATUS wait_for(D3DKMT_HANDLE fence, UINT64 value)
{
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};

    wait.hDevice = device;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &value;
    return D3DKMTWaitForSynchronizationObjectFromCpu(&wait);
}

/* The fence of a kernel handle, which is closed. */
static D3DKMT_HANDLE fence_of(HANDLE handle)
{
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open = {0};

    open.hNtHandle = handle;
    open.hDevice = device;
    open.Flags.Shared = open.Flags.NtSecuritySharing = 1;
    open.MonitoredFence.EngineAffinity = 1;
    check(NT_SUCCESS(D3DKMTOpenSyncObjectFromNtHandle2(&open)), "the fence of a handle cannot be opened");
    check(NT_SUCCESS(NtClose(handle)), "the handle cannot be closed");
    return open.hSyncObject;
}

static D3DKMT_HANDLE fence_named(const char *text, int access)
{
    struct name name;
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME open = {0};

    open.dwDesiredAccess = (DWORD)access;
    open.pObjAttrib = named(&name, text);
    check(NT_SUCCESS(D3DKMTOpenSyncObjectNtHandleFromName(&open)), "a fence is not found by its name");
    return fence_of(open.hNtHandle);
}

static void open_fences(int from)
{
    const D3DKMT_HANDLE any = fence_named(FENCE, ANY), reads = fence_named(FENCE, READ), writes = fence_named(FENCE, WRITE);
    const D3DKMT_HANDLE neither = fence_named(FENCE, EXECUTE), held = fence_named(HELD, ANY);
    D3DKMT_HANDLE sent;
    HANDLE handle;

    check(signal_value(reads, 1) == STATUS_ACCESS_DENIED, "an opening for reading signals");
    check(signal_value(neither, 1) == STATUS_ACCESS_DENIED, "an opening for neither signals");
    check(signal_value(writes, 1) == STATUS_SUCCESS, "an opening for writing does not signal");
    check(wait_for(writes, 1) == STATUS_ACCESS_DENIED, "an opening for writing waits");
    check(wait_for(neither, 1) == STATUS_ACCESS_DENIED, "an opening for neither waits");
    check(wait_for(reads, 1) == STATUS_SUCCESS, "an opening for reading does not wait");
    check(signal_value(any, 2) == STATUS_SUCCESS && wait_for(any, 2) == STATUS_SUCCESS, "an opening for everything");
    check(signal_value(held, 1) == STATUS_ACCESS_DENIED, "a fence is signalled by more rights than were shared");
    check(wait_for(held, 0) == STATUS_SUCCESS, "the fence that is not to be signalled is not waited for");
    check(NT_SUCCESS(CampanileImportNtHandle((UINT)receive_file(from), &handle)), "no kernel handle");
    sent = fence_of(handle);
    check(signal_value(sent, 3) == STATUS_ACCESS_DENIED, "a descriptor has more rights than its handle had");
    check(wait_for(sent, 2) == STATUS_SUCCESS, "the fence of the descriptor is not waited for");
}

/* The only allocation of the buffer, opened with an access; NULL if that is refused, with the status. */
static D3DKMT_HANDLE buffer_named(int access, NTSTATUS *status)
{
    struct name name;
    struct campanile_allocation_data data;
    D3DKMT_OPENNTHANDLEFROMNAME find = {0};
    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {0};

    find.dwDesiredAccess = (DWORD)access;
    find.pObjAttrib = named(&name, BUFFER);
    check(NT_SUCCESS(D3DKMTOpenNtHandleFromName(&find)), "the buffer is not found by its name");
    open.hDevice = device;
    open.hNtHandle = find.hNtHandle;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &info;
    open.pTotalPrivateDriverDataBuffer = &data;
    open.TotalPrivateDriverDataBufferSize = sizeof(data);
    *status = D3DKMTOpenResourceFromNtHandle(&open);
    check(NT_SUCCESS(NtClose(find.hNtHandle)), "the handle cannot be closed");
    return info.hAllocation;
}

static NTSTATUS map(D3DKMT_HANDLE allocation, int writes)
{
    D3DDDI_MAPGPUVIRTUALADDRESS map = {0};

    map.hPagingQueue = paging_queue;
    map.hAllocation = allocation;
    map.SizeInPages = SIZE / 4096;
    map.Protection.Write = writes != 0;
    return D3DKMTMapGpuVirtualAddress(&map);
}

static NTSTATUS lock(D3DKMT_HANDLE allocation)
{
    D3DKMT_LOCK2 lock = {0};

    lock.hDevice = device;
    lock.hAllocation = allocation;
    return D3DKMTLock2(&lock);
}

static void open_buffers(void)
{
    NTSTATUS status;
    D3DKMT_HANDLE allocation = buffer_named(NONE, &status);

    check(status == STATUS_ACCESS_DENIED, "the buffer is opened without the right to read");
    allocation = buffer_named(READ, &status);
    check(NT_SUCCESS(status), "the buffer is not opened for reading");
    check(lock(allocation) == STATUS_ACCESS_DENIED, "a buffer that may only be read is locked, for writing too");
    check(map(allocation, 1) == STATUS_ACCESS_DENIED, "a buffer that may only be read is written by the GPU");
    check(NT_SUCCESS(map(allocation, 0)), "a buffer that may be read is not read by the GPU");
    allocation = buffer_named(ANY, &status);
    check(NT_SUCCESS(status) && NT_SUCCESS(lock(allocation)) && NT_SUCCESS(map(allocation, 1)), "a buffer with all rights");
}

static void other_process(int from)
{
    D3DKMT_CREATEPAGINGQUEUE create = {0};
    char byte;

    check(read(from, &byte, 1) == 1, "nothing has been named");
    create.hDevice = device = open_device();
    check(NT_SUCCESS(D3DKMTCreatePagingQueue(&create)), "no paging queue");
    paging_queue = create.hPagingQueue;
    open_fences(from);
    open_buffers();
}

/* ---- The process that names. ---- */

static HANDLE shared(D3DKMT_HANDLE object, const char *text, int access)
{
    struct name name;
    HANDLE handle;

    check(NT_SUCCESS(D3DKMTShareObjects(1, &object, text ? named(&name, text) : NULL, (DWORD)access, &handle)), "an object cannot be shared");
    return handle;
}

static D3DKMT_HANDLE make_fence(int signals)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {0};

    create.hDevice = device;
    create.Info.Type = D3DDDI_MONITORED_FENCE;
    create.Info.Flags.Shared = create.Info.Flags.NtSecuritySharing = 1;
    create.Info.Flags.NoSignal = !signals;
    create.Info.MonitoredFence.EngineAffinity = 1;
    check(NT_SUCCESS(D3DKMTCreateSynchronizationObject2(&create)), "no fence");
    return create.hSyncObject;
}

static D3DKMT_HANDLE make_buffer(void)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_SYSTEM, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = create.Flags.NtSecuritySharing = 1;
    check(NT_SUCCESS(D3DKMTCreateAllocation2(&create)), "no buffer");
    return create.hResource;
}

int main(void)
{
    int ends[2], status;
    UINT descriptor;
    pid_t other;
    D3DKMT_HANDLE fence;

    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    other = fork();
    check(other >= 0, "no process");
    close(ends[other == 0 ? 0 : 1]);
    if (other == 0) {
        other_process(ends[1]);
        return EXIT_SUCCESS;
    }
    device = open_device();
    fence = make_fence(1);
    shared(fence, FENCE, ANY);
    shared(make_fence(0), HELD, ANY);
    shared(make_buffer(), BUFFER, ANY);
    check(NT_SUCCESS(CampanileExportNtHandle(shared(fence, NULL, READ), &descriptor)), "no descriptor of the kernel handle");
    check(write(ends[0], "", 1) == 1, "nobody listens");
    send_file(ends[0], (int)descriptor);
    check(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process failed");
    puts("another process had the rights that it asked for, and none that were not shared");
    return EXIT_SUCCESS;
}
