/*
 * Two processes of one machine: one makes a resource of an allocation of the GPU's memory, locks it, and sends the other a descriptor of it twice. The other opens the resource by each of the
 * two, and sees at each address what the first has stored; the first sees what the other stores.
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16, TIMES = 2 };

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "resource: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

#include "passing.h"

static volatile uint64_t *locked(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation)
{
    D3DKMT_LOCK2 lock = {0};

    lock.hDevice = device;
    lock.hAllocation = allocation;
    check(NT_SUCCESS(D3DKMTLock2(&lock)), "it cannot be locked");
    return lock.pData;
}

/* The only allocation of a resource that came as a descriptor. */
static D3DKMT_HANDLE opened(D3DKMT_HANDLE device, int descriptor)
{
    char data[512];
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query = {0};
    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {0};
    HANDLE handle;

    check(NT_SUCCESS(CampanileImportNtHandle((UINT)descriptor, &handle)), "no kernel handle");
    close(descriptor);
    query.hDevice = open.hDevice = device;
    query.hNtHandle = open.hNtHandle = handle;
    check(NT_SUCCESS(D3DKMTQueryResourceInfoFromNtHandle(&query)) && query.NumAllocations == 1, "another resource");
    check(query.TotalPrivateDriverDataSize + query.ResourcePrivateDriverDataSize <= sizeof(data), "more private data");
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &info;
    open.TotalPrivateDriverDataBufferSize = query.TotalPrivateDriverDataSize;
    open.pTotalPrivateDriverDataBuffer = data;
    open.ResourcePrivateDriverDataSize = query.ResourcePrivateDriverDataSize;
    open.pResourcePrivateDriverData = data + query.TotalPrivateDriverDataSize;
    check(NT_SUCCESS(D3DKMTOpenResourceFromNtHandle(&open)), "the resource could not be opened");
    check(NT_SUCCESS(NtClose(handle)), "the handle could not be closed");
    return info.hAllocation;
}

static void other_process(int from)
{
    D3DKMT_HANDLE device = open_device();

    for (uint64_t time = 1; time <= TIMES; time++) {
        volatile uint64_t *memory = locked(device, opened(device, receive_file(from)));

        check(*memory == time, "another value is in memory");
        *memory = time + 1;
        check(write(from, "", 1) == 1, "nobody listens");
    }
}

int main(void)
{
    int ends[2], status, descriptor;
    char told;
    pid_t other;
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_VRAM_VISIBLE, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    volatile uint64_t *memory;
    HANDLE handle;
    UINT exported;

    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    other = fork();
    check(other >= 0, "no process");
    close(ends[other == 0 ? 0 : 1]);
    if (other == 0) {
        other_process(ends[1]);
        return EXIT_SUCCESS;
    }
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = open_device();
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = create.Flags.NtSecuritySharing = 1;
    check(NT_SUCCESS(D3DKMTCreateAllocation2(&create)), "no resource");
    memory = locked(create.hDevice, info.hAllocation);
    *memory = 1;
    check(NT_SUCCESS(D3DKMTShareObjects(1, &create.hResource, NULL, 0x10000000, &handle)), "it cannot be shared");
    check(NT_SUCCESS(CampanileExportNtHandle(handle, &exported)), "no descriptor of the kernel handle");
    descriptor = (int)exported;
    for (uint64_t time = 1; time <= TIMES; time++) {
        send_file(ends[0], descriptor);
        check(read(ends[0], &told, 1) == 1 && *memory == time + 1, "the other process has stored something else");
    }
    check(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process failed");
    puts("a resource went to another process twice");
    return EXIT_SUCCESS;
}
