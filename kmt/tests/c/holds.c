/*
 * A program that has memory of the GPU locked and does not want it resident, so that it moves when somebody else needs the place. It writes a pattern, says so, and sees after a line
 * of input that the pattern is still there. With the argument "filter" it refuses itself all changes of what it has mapped before it says so. With the argument "fill" it makes allocations of the GPU's memory resident until there is no place any more, and says so.
 */
#define _GNU_SOURCE
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"

enum { SIZE = 1 << 20, MOST = 1 << 12 };

static D3DKMT_CREATEPAGINGQUEUE paging;

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "holds: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

/* Memory of the GPU; 0 if it does not become resident. */
static D3DKMT_HANDLE take(void)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_VRAM_VISIBLE, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DDDI_MAKERESIDENT resident = {0};
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = wait.hDevice = paging.hDevice;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(NT_SUCCESS(D3DKMTCreateAllocation2(&create)), "no allocation");
    resident.hPagingQueue = paging.hPagingQueue;
    resident.NumAllocations = wait.ObjectCount = 1;
    resident.AllocationList = &info.hAllocation;
    if (!NT_SUCCESS(D3DKMTMakeResident(&resident)))
        return 0;
    wait.ObjectHandleArray = &paging.hSyncObject;
    wait.FenceValueArray = &resident.PagingFenceValue;
    check(NT_SUCCESS(D3DKMTWaitForSynchronizationObjectFromCpu(&wait)), "waiting for memory");
    return info.hAllocation;
}

static int fill(void)
{
    int count = 0;

    while (count < MOST && take())
        count++;
    check(count > 8 && count < MOST, "memory of another size");
    puts("filled");
    return EXIT_SUCCESS;
}

int main(int count, char **arguments)
{
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE device = {0};
    D3DKMT_LOCK2 lock = {0};
    D3DKMT_EVICT evict = {0};
    D3DKMT_HANDLE allocation;
    uint64_t *memory;

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(NT_SUCCESS(D3DKMTEnumAdapters3(&list)) && list.NumAdapters == 1, "no adapter");
    device.hAdapter = found.hAdapter;
    check(NT_SUCCESS(D3DKMTCreateDevice(&device)), "no device");
    paging.hDevice = lock.hDevice = evict.hDevice = device.hDevice;
    check(NT_SUCCESS(D3DKMTCreatePagingQueue(&paging)), "no paging queue");
    if (count > 1 && strcmp(arguments[1], "fill") == 0)
        return fill();
    allocation = lock.hAllocation = take();
    check(allocation != 0 && NT_SUCCESS(D3DKMTLock2(&lock)), "it cannot be locked");
    memory = lock.pData;
    for (uint64_t at = 0; at < SIZE / 8; at++)
        memory[at] = ~at;
    evict.NumAllocations = 1;
    evict.AllocationList = &allocation;
    check(NT_SUCCESS(D3DKMTEvict(&evict)), "it is wanted resident");
    puts("held");
    if (count > 1 && strcmp(arguments[1], "filter") == 0)
        refuse_changes_of_memory();
    fflush(stdout);
    getchar();
    for (uint64_t at = 0; at < SIZE / 8; at++)
        check(memory[at] == ~at, "the pattern has changed");
    puts("kept");
    return EXIT_SUCCESS;
}
