/*
 * Ends of a program that its machine is not told of by the socket, and a program that may open no more descriptors. With "exec" it starts a child by fork, which has a copy of the
 * socket and lives until its input ends, and becomes a program that looks for adapters again; with "quiet" it becomes one that has nothing to do with the machine. With "full"
 * it opens as many descriptors as it may, and locks memory and exports a handle then.
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIZE = 1 << 16, DESCRIPTORS = 128 };

static D3DKMT_ADAPTERINFO found;
static D3DKMT_CREATEDEVICE device;

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "ends: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static void find_adapter(void)
{
    D3DKMT_ENUMADAPTERS3 list = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(NT_SUCCESS(D3DKMTEnumAdapters3(&list)) && list.NumAdapters == 1, "no adapter");
    device.hAdapter = found.hAdapter;
    check(NT_SUCCESS(D3DKMTCreateDevice(&device)), "no device");
}

/* Becomes another program, beside a child that has what this one has open. */
static int become(const char *name, const char *mode)
{
    find_adapter();
    switch (fork()) {
    case -1:
        return EXIT_FAILURE;
    case 0:
        while (getchar() != EOF)
            ;
        _exit(EXIT_SUCCESS);
    default:
        execl("/proc/self/exe", name, mode, (char *)NULL);
        return EXIT_FAILURE;
    }
}

static D3DKMT_HANDLE make_allocation(void)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_SYSTEM, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = device.hDevice;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(NT_SUCCESS(D3DKMTCreateAllocation2(&create)), "no allocation");
    return info.hAllocation;
}

static void lock(D3DKMT_HANDLE allocation)
{
    D3DKMT_LOCK2 args = {0};

    args.hDevice = device.hDevice;
    args.hAllocation = allocation;
    check(NT_SUCCESS(D3DKMTLock2(&args)), "memory cannot be locked");
    memset(args.pData, 1, SIZE);
}

/* A kernel handle of a fence. */
static HANDLE make_shared_fence(void)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {0};
    HANDLE handle = NULL;

    fence.hDevice = device.hDevice;
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    fence.Info.Flags.Shared = 1;
    fence.Info.Flags.NtSecuritySharing = 1;
    check(NT_SUCCESS(D3DKMTCreateSynchronizationObject2(&fence)), "no fence");
    check(NT_SUCCESS(D3DKMTShareObjects(1, &fence.hSyncObject, NULL, 0x10000000, &handle)), "it cannot be shared");
    return handle;
}

static int fill_descriptors(void)
{
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    D3DKMT_HANDLE first, second;
    HANDLE fence;
    UINT descriptor = 0;
    int last = -1;

    find_adapter();
    first = make_allocation();
    second = make_allocation();
    fence = make_shared_fence();
    check(setrlimit(RLIMIT_NOFILE, &limit) == 0, "a limit");
    for (int next; (next = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
        last = next;
    check(last >= 0, "descriptors");
    /* What is shown comes as a descriptor, and again when what was shown first is gone from the table. */
    lock(first);
    lock(second);
    check(open("/dev/null", O_RDONLY) < 0, "one more can be opened");
    check(CampanileExportNtHandle(fence, &descriptor) == STATUS_INSUFFICIENT_RESOURCES, "a descriptor too many");
    lock(make_allocation());
    close(last);
    check(NT_SUCCESS(CampanileExportNtHandle(fence, &descriptor)), "no descriptor of a handle");
    check(open("/dev/null", O_RDONLY) < 0, "the descriptor took no place");
    lock(make_allocation());
    say("done");
    return EXIT_SUCCESS;
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";

    if (strcmp(mode, "exec") == 0)
        return become(arguments[0], "again");
    if (strcmp(mode, "quiet") == 0)
        return become(arguments[0], "nothing");
    if (strcmp(mode, "full") == 0)
        return fill_descriptors();
    if (strcmp(mode, "again") == 0) {
        find_adapter();
        say("served");
    } else {
        say("silent");
    }
    while (getchar() != EOF)
        ;
    return EXIT_SUCCESS;
}
