/*
 * A program whose main thread ends by pthread_exit while another one goes on: it allocates memory, and waits for a fence by an event. With the argument "first" nothing has been
 * called before that.
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PAGE = 4096 };

static D3DKMT_CREATEPAGINGQUEUE paging;

static void check(NTSTATUS status, const char *what)
{
    if (!NT_SUCCESS(status)) {
        printf("%s: status 0x%08x\n", what, (unsigned)status);
        fflush(stdout);
        _exit(EXIT_FAILURE);
    }
}

static void open_device(void)
{
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE device = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(D3DKMTEnumAdapters3(&list), "D3DKMTEnumAdapters3");
    device.hAdapter = found.hAdapter;
    check(D3DKMTCreateDevice(&device), "D3DKMTCreateDevice");
    paging.hDevice = device.hDevice;
    check(D3DKMTCreatePagingQueue(&paging), "D3DKMTCreatePagingQueue");
}

/* Until the host says of the main thread that it has ended. */
static void wait_for_main(void)
{
    char path[64], line[256] = "";

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    while (!strstr(line, ") Z ")) {
        FILE *stat = fopen(path, "r");

        if (!stat || !fgets(line, sizeof(line), stat))
            _exit(EXIT_FAILURE);
        fclose(stat);
        usleep(1000);
    }
}

static void *go_on(void *first)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_SYSTEM, PAGE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DKMT_LOCK2 lock = {0};
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {0};
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {0};
    UINT64 value = 1;
    uint64_t count;
    int event = eventfd(0, EFD_CLOEXEC);

    wait_for_main();
    if (first)
        open_device();
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = lock.hDevice = paging.hDevice;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(D3DKMTCreateAllocation2(&create), "D3DKMTCreateAllocation2");
    lock.hAllocation = info.hAllocation;
    check(D3DKMTLock2(&lock), "D3DKMTLock2");
    memset(lock.pData, 7, PAGE);
    fence.hDevice = paging.hDevice;
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    fence.Info.MonitoredFence.EngineAffinity = 1;
    check(D3DKMTCreateSynchronizationObject2(&fence), "D3DKMTCreateSynchronizationObject2");
    wait.hDevice = signal.hDevice = paging.hDevice;
    wait.ObjectCount = signal.ObjectCount = 1;
    wait.ObjectHandleArray = signal.ObjectHandleArray = &fence.hSyncObject;
    wait.FenceValueArray = signal.FenceValueArray = &value;
    wait.hAsyncEvent = (HANDLE)(uintptr_t)event;
    check(D3DKMTWaitForSynchronizationObjectFromCpu(&wait), "D3DKMTWaitForSynchronizationObjectFromCpu");
    check(D3DKMTSignalSynchronizationObjectFromCpu(&signal), "D3DKMTSignalSynchronizationObjectFromCpu");
    if (read(event, &count, sizeof(count)) != sizeof(count))
        _exit(EXIT_FAILURE);
    puts("went on");
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

int main(int count, char **arguments)
{
    int first = count > 1 && strcmp(arguments[1], "first") == 0;
    pthread_t other;

    if (!first)
        open_device();
    if (pthread_create(&other, NULL, go_on, first ? arguments[1] : NULL) != 0)
        return EXIT_FAILURE;
    pthread_exit(NULL);
}
