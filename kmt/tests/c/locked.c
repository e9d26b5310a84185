/*
 * A program that has memory of each kind locked with a pattern in it and a fence with a value, and waits for a value that does not come. It says so, and when the wait is at an end
 * and it has read a line, it says what the wait came to, and whether all that it has mapped is as it was.
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1 << 16, KINDS = 3, VALUE = 3 };

static D3DKMT_CREATEPAGINGQUEUE paging;

static void check(NTSTATUS status, const char *what)
{
    if (!NT_SUCCESS(status)) {
        fprintf(stderr, "locked: %s: status 0x%08x\n", what, (unsigned)status);
        exit(EXIT_FAILURE);
    }
}

static NTSTATUS wait_for(D3DKMT_HANDLE fence, UINT64 value)
{
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};

    wait.hDevice = paging.hDevice;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &value;
    return D3DKMTWaitForSynchronizationObjectFromCpu(&wait);
}

static unsigned char *lock_memory(uint32_t placement)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, placement, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DDDI_MAKERESIDENT resident = {0};
    D3DKMT_LOCK2 lock = {0};

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = lock.hDevice = paging.hDevice;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(D3DKMTCreateAllocation2(&create), "D3DKMTCreateAllocation2");
    lock.hAllocation = info.hAllocation;
    resident.hPagingQueue = paging.hPagingQueue;
    resident.NumAllocations = 1;
    resident.AllocationList = &info.hAllocation;
    check(D3DKMTMakeResident(&resident), "D3DKMTMakeResident");
    check(wait_for(paging.hSyncObject, resident.PagingFenceValue), "waiting for that");
    check(D3DKMTLock2(&lock), "D3DKMTLock2");
    return memset(lock.pData, 0xab, SIZE);
}

static int kept(const volatile unsigned char *bytes)
{
    int count = 0;

    for (int at = 0; at < SIZE; at++)
        count += bytes[at] == 0xab;
    return count;
}

int main(void)
{
    const uint32_t kinds[KINDS] = {CAMPANILE_PLACEMENT_SYSTEM, CAMPANILE_PLACEMENT_SYSTEM_UNCACHED, CAMPANILE_PLACEMENT_VRAM_VISIBLE};
    unsigned char *memory[KINDS];
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE device = {0};
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {0};
    const volatile UINT64 *value;
    NTSTATUS status;

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(D3DKMTEnumAdapters3(&list), "D3DKMTEnumAdapters3");
    device.hAdapter = found.hAdapter;
    check(D3DKMTCreateDevice(&device), "D3DKMTCreateDevice");
    paging.hDevice = device.hDevice;
    check(D3DKMTCreatePagingQueue(&paging), "D3DKMTCreatePagingQueue");
    for (int kind = 0; kind < KINDS; kind++)
        memory[kind] = lock_memory(kinds[kind]);
    fence.hDevice = device.hDevice;
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    fence.Info.MonitoredFence.EngineAffinity = 1;
    fence.Info.MonitoredFence.InitialFenceValue = VALUE;
    check(D3DKMTCreateSynchronizationObject2(&fence), "D3DKMTCreateSynchronizationObject2");
    value = fence.Info.MonitoredFence.FenceValueCPUVirtualAddress;
    puts("waits");
    fflush(stdout);
    status = wait_for(fence.hSyncObject, VALUE + 1);
    getchar();
    printf("0x%08x, %d %d %d bytes, fence %lld\n", (unsigned)status, kept(memory[0]), kept(memory[1]), kept(memory[2]), (long long)*value);
    return EXIT_SUCCESS;
}
