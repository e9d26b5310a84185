/*
 * The toy's test: a program that uses the driver as any program uses a GPU, through the D3DKMT thunks. It fills memory, adds to it, moves it into the
 * function's own memory and back, and then lets a packet hang, which the system must end without harm to what comes after.
 *
 *     cc -I kmt/include -I examples/miniport-c examples/miniport-c/toy_test.c -L target/debug -lcampanile_kmt -Wl,-rpath,$PWD/target/debug -o toy_test
 *     CAMPANILE_DRIVER=toy.sys CAMPANILE_BUS=vfio-user=/tmp/toy.sock ./toy_test
 */
#include <campanile_kmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toy.h"

enum { PAGE = 4096, BYTES = 16 * PAGE };

struct memory {
    D3DKMT_HANDLE allocation;
    D3DGPU_VIRTUAL_ADDRESS address;
    volatile UINT *words; /* as the processor sees it; NULL before it is locked */
};

static D3DKMT_HANDLE device, paging_queue, paging_fence;

static void check(NTSTATUS status, const char *what)
{
    if (!NT_SUCCESS(status)) {
        fprintf(stderr, "toy_test: %s: status 0x%08x\n", what, (unsigned)status);
        exit(EXIT_FAILURE);
    }
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

static D3DKMT_HANDLE open_adapter(void)
{
    D3DKMT_ADAPTERINFO found[8];
    D3DKMT_ENUMADAPTERS3 list = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 8;
    list.pAdapters = found;
    check(D3DKMTEnumAdapters3(&list), "D3DKMTEnumAdapters3");
    if (list.NumAdapters == 0)
        check(STATUS_NO_SUCH_DEVICE, "adapters");
    return found[0].hAdapter;
}

static void open_device(D3DKMT_HANDLE adapter)
{
    D3DKMT_CREATEDEVICE create = {0};
    D3DKMT_CREATEPAGINGQUEUE paging = {0};

    create.hAdapter = adapter;
    check(D3DKMTCreateDevice(&create), "D3DKMTCreateDevice");
    device = create.hDevice;
    paging.hDevice = device;
    check(D3DKMTCreatePagingQueue(&paging), "D3DKMTCreatePagingQueue");
    paging_queue = paging.hPagingQueue;
    paging_fence = paging.hSyncObject;
}

static struct memory allocate(UINT64 size, int local)
{
    struct toy_allocation data = {size, local != 0, 0};
    struct memory memory = {0};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DDDI_MAKERESIDENT resident = {0};
    D3DDDI_MAPGPUVIRTUALADDRESS map = {0};
    D3DKMT_LOCK2 lock = {0};
    NTSTATUS status;

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(D3DKMTCreateAllocation2(&create), "D3DKMTCreateAllocation2");
    memory.allocation = info.hAllocation;
    resident.hPagingQueue = paging_queue;
    resident.NumAllocations = 1;
    resident.AllocationList = &memory.allocation;
    status = D3DKMTMakeResident(&resident);
    check(status, "D3DKMTMakeResident");
    if (status == STATUS_PENDING)
        check(wait_for(paging_fence, resident.PagingFenceValue), "wait for residency");
    map.hPagingQueue = paging_queue;
    map.hAllocation = memory.allocation;
    map.SizeInPages = size / PAGE;
    map.Protection.Write = 1;
    status = D3DKMTMapGpuVirtualAddress(&map);
    check(status, "D3DKMTMapGpuVirtualAddress");
    if (status == STATUS_PENDING)
        check(wait_for(paging_fence, map.PagingFenceValue), "wait for the mapping");
    memory.address = map.VirtualAddress;
    lock.hDevice = device;
    lock.hAllocation = memory.allocation;
    check(D3DKMTLock2(&lock), "D3DKMTLock2");
    memory.words = lock.pData;
    return memory;
}

static D3DKMT_HANDLE create_context(void)
{
    D3DKMT_CREATECONTEXTVIRTUAL create = {0};

    create.hDevice = device;
    create.EngineAffinity = 1;
    check(D3DKMTCreateContextVirtual(&create), "D3DKMTCreateContextVirtual");
    return create.hContext;
}

static D3DKMT_HANDLE create_fence(void)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {0};

    create.hDevice = device;
    create.Info.Type = D3DDDI_MONITORED_FENCE;
    check(D3DKMTCreateSynchronizationObject2(&create), "D3DKMTCreateSynchronizationObject2");
    return create.hSyncObject;
}

/* Hands commands over, and a signal of the fence behind them. */
static void submit(D3DKMT_HANDLE context, struct memory buffer, const struct toy_command *commands, UINT count, D3DKMT_HANDLE fence, UINT64 value)
{
    D3DKMT_SUBMITCOMMAND submission = {0};
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {0};

    memcpy((void *)buffer.words, commands, count * sizeof(*commands));
    submission.Commands = buffer.address;
    submission.CommandLength = count * sizeof(*commands);
    submission.BroadcastContextCount = 1;
    submission.BroadcastContext[0] = context;
    check(D3DKMTSubmitCommand(&submission), "D3DKMTSubmitCommand");
    signal.hContext = context;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.MonitoredFenceValueArray = &value;
    check(D3DKMTSignalSynchronizationObjectFromGpu(&signal), "D3DKMTSignalSynchronizationObjectFromGpu");
}

static void compute(void)
{
    D3DKMT_HANDLE context = create_context(), fence = create_fence();
    struct memory buffer = allocate(PAGE, 0), source = allocate(BYTES, 0), target = allocate(BYTES, 0), local = allocate(BYTES, 1);
    UINT64 value = 0;

    for (UINT round = 0; round < 20; round++) {
        const struct toy_command commands[] = {
            {TOY_FILL, round, source.address, 0, BYTES},
            {TOY_ADD, 1000, local.address, source.address, BYTES},
            {TOY_COPY, 0, target.address, local.address, BYTES},
        };
        submit(context, buffer, commands, 3, fence, ++value);
        check(wait_for(fence, value), "wait for the packet");
        for (UINT at = 0; at < BYTES / 4; at++) {
            if (target.words[at] != round + 1000 || local.words[at] != round + 1000) {
                fprintf(stderr, "toy_test: round %u, word %u: %u and %u\n", round, at, target.words[at], local.words[at]);
                exit(EXIT_FAILURE);
            }
        }
    }
    printf("20 packets, every word as it should be\n");
}

/* A packet that does not end costs its device, and nobody else. */
static void hang(D3DKMT_HANDLE adapter)
{
    const struct toy_command command = {TOY_HANG, 0, 0, 0, 0};
    D3DKMT_DESTROYDEVICE destroy = {0};

    open_device(adapter);
    D3DKMT_HANDLE context = create_context(), fence = create_fence();
    struct memory buffer = allocate(PAGE, 0);
    D3DKMT_GETDEVICESTATE state = {0};
    submit(context, buffer, &command, 1, fence, 1);
    do {
        state.hDevice = device;
        state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
        check(D3DKMTGetDeviceState(&state), "D3DKMTGetDeviceState");
    } while (state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    printf("the packet that hung was ended: execution state %d\n", (int)state.ExecutionState);
    destroy.hDevice = device;
    check(D3DKMTDestroyDevice(&destroy), "D3DKMTDestroyDevice");
}

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter();

    open_device(adapter);
    compute();
    hang(adapter);
    open_device(adapter);
    compute();
    return 0;
}
