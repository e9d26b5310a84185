/*
 * A program that keeps every descriptor of the machine's memory that its library is sent, and tries with them what would make the machine's process, its GPU or another program
 * fault: a file that loses its end, that grows, or that nobody may write any more. It then says how many files it has, and ends with its input. With the argument "lie" it tells
 * the machine the same addresses twice as those that it has taken for it.
 */
#define _GNU_SOURCE
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIZE = 1 << 16, FILES = 16, PAGE = 4096 };

static int kept[FILES], files, lies;

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "hostile: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

/* Keeps the descriptor of a file that is none of those kept. */
static void keep(int file)
{
    struct stat this, other;

    check(fstat(file, &this) == 0, "a descriptor");
    for (int at = 0; at < files; at++)
        if (fstat(kept[at], &other) == 0 && this.st_ino == other.st_ino && this.st_dev == other.st_dev)
            return;
    check(files < FILES, "more files than expected");
    kept[files++] = dup(file);
}

/* Of this program, and so the library's too. */
void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    static void *taken;
    static size_t taken_size;

    if (lies && protection == PROT_NONE && (flags & MAP_NORESERVE) && !(flags & MAP_FIXED)) {
        if (taken && size <= taken_size)
            return taken;
        taken_size = size;
        return taken = (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
    }
    if (file >= 0 && (flags & (MAP_SHARED | MAP_FIXED)) == (MAP_SHARED | MAP_FIXED))
        keep(file);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

/* Memory of a placement, which is there, and which the library maps. */
static void lock_memory(D3DKMT_CREATEPAGINGQUEUE *paging, uint32_t placement)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, placement, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DDDI_MAKERESIDENT resident = {0};
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};
    D3DKMT_LOCK2 lock = {0};

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = lock.hDevice = wait.hDevice = paging->hDevice;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(NT_SUCCESS(D3DKMTCreateAllocation2(&create)), "no allocation");
    lock.hAllocation = info.hAllocation;
    resident.hPagingQueue = paging->hPagingQueue;
    resident.NumAllocations = wait.ObjectCount = 1;
    resident.AllocationList = &info.hAllocation;
    check(NT_SUCCESS(D3DKMTMakeResident(&resident)), "it cannot be made resident");
    wait.ObjectHandleArray = &paging->hSyncObject;
    wait.FenceValueArray = &resident.PagingFenceValue;
    check(NT_SUCCESS(D3DKMTWaitForSynchronizationObjectFromCpu(&wait)), "waiting for that");
    check(NT_SUCCESS(D3DKMTLock2(&lock)), "it cannot be locked");
}

static void is_refused(int result, const char *what)
{
    check(result == -1 && errno == EPERM, what);
}

static void attack(int file)
{
    struct stat told;

    check(fstat(file, &told) == 0 && told.st_size > PAGE, "a file of memory");
    is_refused(ftruncate(file, 0), "the file was emptied");
    is_refused(ftruncate(file, told.st_size - PAGE), "the file has lost its end");
    is_refused(ftruncate(file, told.st_size + PAGE), "the file has grown");
    is_refused(fallocate(file, 0, told.st_size, PAGE), "the file was given pages behind its end");
    is_refused(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), "the file can be written by nobody");
    is_refused(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), "the file can be mapped by nobody who writes");
}

int main(int count, char **arguments)
{
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE device = {0};
    D3DKMT_CREATEPAGINGQUEUE paging = {0};

    lies = count > 1 && strcmp(arguments[1], "lie") == 0;
    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(NT_SUCCESS(D3DKMTEnumAdapters3(&list)) && list.NumAdapters == 1, "no adapter");
    device.hAdapter = found.hAdapter;
    check(NT_SUCCESS(D3DKMTCreateDevice(&device)), "no device");
    paging.hDevice = device.hDevice;
    check(NT_SUCCESS(D3DKMTCreatePagingQueue(&paging)), "no paging queue");
    lock_memory(&paging, CAMPANILE_PLACEMENT_SYSTEM);
    lock_memory(&paging, CAMPANILE_PLACEMENT_VRAM_VISIBLE);
    for (int at = 0; at < files; at++)
        attack(kept[at]);
    printf("%d files\n", files);
    fflush(stdout);
    getchar();
    return EXIT_SUCCESS;
}
