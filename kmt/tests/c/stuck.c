/*
 * A program whose calls of thunks never end, since nobody answers the faults of the memory that their arguments are in (userfaultfd): some when the machine reads them, the
 * others when it writes what the thunk has made. It says how many calls there are, and ends with its input; "refused" if the host lets no kernel wait for such a fault.
 *
 * With an argument a child by fork has the descriptor of the faults, too, and answers none: it keeps the calls waiting when this program has ended, until the input ends.
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

typedef NTSTATUS (*thunk)(void *);

struct call {
    thunk thunk;
    void *argument;
};

static int faults, count;

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "stuck: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

/* A page that whoever reads it waits for, or whoever writes it. */
static void *page(UINT64 mode)
{
    void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {{(size_t)at, PAGE}, mode, 0};

    check(at != MAP_FAILED && ioctl(faults, UFFDIO_REGISTER, &range) == 0, "a page");
    return at;
}

static void *make(void *of)
{
    struct call *call = of;

    call->thunk(call->argument);
    return NULL;
}

/* A call on a thread of its own. */
static void start(thunk thunk, void *argument)
{
    struct call *call = malloc(sizeof(*call));
    pthread_t thread;

    *call = (struct call){thunk, argument};
    check(pthread_create(&thread, NULL, make, call) == 0, "a thread");
    count++;
}

/* A call whose argument can be read and not written. */
static void start_unwritable(thunk thunk, const void *argument, size_t size)
{
    void *at = page(UFFDIO_REGISTER_MODE_WP);
    struct uffdio_writeprotect protect = {{(size_t)at, PAGE}, UFFDIO_WRITEPROTECT_MODE_WP};

    memcpy(at, argument, size);
    check(ioctl(faults, UFFDIO_WRITEPROTECT, &protect) == 0, "a page that cannot be written");
    start(thunk, at);
}

#define UNWRITABLE(name, argument) start_unwritable((thunk)name, &(argument), sizeof(argument))

static int open_faults(void)
{
    struct uffdio_api api = {UFFD_API, UFFD_FEATURE_PAGEFAULT_FLAG_WP, 0};

    faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    return faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0;
}

/* Keeps the descriptor of the faults until the input ends. */
static void keep_elsewhere(void)
{
    char byte;

    if (fork() == 0) {
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
        _exit(EXIT_SUCCESS);
    }
}

int main(int count_of_arguments, char **arguments)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_SYSTEM, PAGE, 0, 0, {0}};
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE device = {0};
    D3DKMT_CREATEPAGINGQUEUE paging = {0};
    D3DKMT_CREATECONTEXTVIRTUAL context = {0};
    D3DKMT_CREATEHWCONTEXT hardware = {0};
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DDDI_MAKERESIDENT resident = {0};
    D3DDDI_MAPGPUVIRTUALADDRESS map = {0};
    D3DKMT_QUERYVIDEOMEMORYINFO video = {0};
    D3DKMT_QUERYSTATISTICS statistics = {0};
    D3DKMT_GETDEVICESTATE state = {0};
    D3DKMT_LOCK2 lock = {0};
    D3DKMT_CREATEALLOCATION existing = {0};
    D3DDDI_ALLOCATIONINFO2 given = {0};
    D3DKMT_CREATESTANDARDALLOCATION standard = {0};

    if (!open_faults()) {
        puts("refused");
        return EXIT_SUCCESS;
    }
    (void)arguments;
    if (count_of_arguments > 1) {
        keep_elsewhere();
    }
    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(NT_SUCCESS(D3DKMTEnumAdapters3(&list)) && list.NumAdapters == 1, "no adapter");
    device.hAdapter = video.hAdapter = found.hAdapter;
    check(NT_SUCCESS(D3DKMTCreateDevice(&device)), "no device");
    paging.hDevice = context.hDevice = hardware.hDevice = fence.hDevice = create.hDevice = state.hDevice = lock.hDevice = device.hDevice;
    check(NT_SUCCESS(D3DKMTCreatePagingQueue(&paging)), "no paging queue");
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(NT_SUCCESS(D3DKMTCreateAllocation2(&create)), "no allocation");
    hardware.NodeOrdinal = context.NodeOrdinal = CAMPANILE_NODE_COPY;
    hardware.EngineAffinity = context.EngineAffinity = 1;
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    resident.hPagingQueue = map.hPagingQueue = paging.hPagingQueue;
    resident.NumAllocations = 1;
    resident.AllocationList = &info.hAllocation;
    map.hAllocation = lock.hAllocation = info.hAllocation;
    map.SizeInPages = 1;
    map.Protection.Write = 1;
    statistics.Type = D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER;
    statistics.AdapterLuid = found.AdapterLuid;
    state.StateType = D3DKMT_DEVICESTATE_EXECUTION;

    /* Memory of the program that is to be an allocation, whose bytes the machine copies. */
    given.pSystemMem = page(UFFDIO_REGISTER_MODE_MISSING);
    standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    standard.ExistingHeapData.Size = PAGE;
    existing.hDevice = device.hDevice;
    existing.Flags.ExistingSysMem = existing.Flags.StandardAllocation = 1;
    existing.NumAllocations = 1;
    existing.pStandardAllocation = &standard;
    existing.pAllocationInfo2 = &given;

    start((thunk)D3DKMTCreateAllocation2, &existing);
    start((thunk)D3DKMTEnumAdapters3, page(UFFDIO_REGISTER_MODE_MISSING));
    start((thunk)D3DKMTCreateAllocation2, page(UFFDIO_REGISTER_MODE_MISSING));
    UNWRITABLE(D3DKMTEnumAdapters3, list);
    UNWRITABLE(D3DKMTCreateDevice, device);
    UNWRITABLE(D3DKMTCreatePagingQueue, paging);
    UNWRITABLE(D3DKMTCreateContextVirtual, context);
    UNWRITABLE(D3DKMTCreateHwContext, hardware);
    UNWRITABLE(D3DKMTCreateSynchronizationObject2, fence);
    UNWRITABLE(D3DKMTCreateAllocation2, create);
    UNWRITABLE(D3DKMTMakeResident, resident);
    UNWRITABLE(D3DKMTMapGpuVirtualAddress, map);
    UNWRITABLE(D3DKMTQueryVideoMemoryInfo, video);
    UNWRITABLE(D3DKMTQueryStatistics, statistics);
    UNWRITABLE(D3DKMTGetDeviceState, state);
    UNWRITABLE(D3DKMTLock2, lock);
    printf("%d calls\n", count);
    fflush(stdout);
    while (count_of_arguments > 1) {
        pause();
    }
    getchar();
    _exit(EXIT_SUCCESS);
}
