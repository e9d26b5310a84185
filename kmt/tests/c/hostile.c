/*
 * A program that keeps every descriptor of the machine's memory that its library is sent, and tries with them what would make the machine's process, its GPU or another program
 * fault: a file that loses its end, that grows, or that nobody may write any more. It then says how many files it has, and ends with its input. With the argument "lie" it tells
 * the machine the same addresses twice as those that it has taken for it. With "look" it frees an allocation, reads a line, and goes through all of each file: nothing may be there
 * that its library has not mapped, what may only be read cannot be made writable, and it stores in every other place. With "victim" it has memory of its own with a pattern in it, and
 * sees after a line of input that the pattern is still there.
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

enum { SIZE = 1 << 16, FILES = 16, PAGE = 4096, SHOWN = 256, STEP = 1 << 16 };

/* A range of a kept file that the library has mapped. */
struct shown {
    int file, writable;
    off_t start, end;
};

static const uint64_t pattern = 0x5ec2e7c0ffee5ec2;
static int kept[FILES], files, lies, parts;
static struct shown shown[SHOWN];

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "hostile: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

/* Keeps the descriptor of a file, unless it is one of those kept. The answer is its place among them. */
static int keep(int file)
{
    struct stat this, other;

    check(fstat(file, &this) == 0, "a descriptor");
    for (int at = 0; at < files; at++)
        if (fstat(kept[at], &other) == 0 && this.st_ino == other.st_ino && this.st_dev == other.st_dev)
            return at;
    check(files < FILES, "more files than expected");
    kept[files] = dup(file);
    return files++;
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
    if (file >= 0 && (flags & (MAP_SHARED | MAP_FIXED)) == (MAP_SHARED | MAP_FIXED)) {
        check(parts < SHOWN, "more mappings than expected");
        shown[parts++] = (struct shown){keep(file), (protection & PROT_WRITE) != 0, offset, offset + (off_t)size};
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

/* Memory of a placement, which is there, and which the library maps. The answer is its handle. */
static D3DKMT_HANDLE lock_memory(D3DKMT_CREATEPAGINGQUEUE *paging, uint32_t placement, uint64_t **memory)
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
    *memory = lock.pData;
    return info.hAllocation;
}

/* What was locked last is gone; the descriptors stay. */
static void destroy(D3DKMT_CREATEPAGINGQUEUE *paging, D3DKMT_HANDLE allocation)
{
    D3DKMT_DESTROYALLOCATION2 gone = {0};

    gone.hDevice = paging->hDevice;
    gone.phAllocationList = &allocation;
    gone.AllocationCount = 1;
    check(NT_SUCCESS(D3DKMTDestroyAllocation2(&gone)), "it cannot be destroyed");
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

/* True if the library has mapped the page of a kept file. */
static int is_shown(int file, off_t at)
{
    for (int part = 0; part < parts; part++)
        if (shown[part].file == file && shown[part].start <= at && at < shown[part].end)
            return 1;
    return 0;
}

/* What may only be read lies in a file in which nothing may be written, whatever is tried. */
static int is_writable(int file)
{
    char path[64];
    int again, writable = 0;
    void *place;

    for (int part = 0; part < parts; part++)
        if (shown[part].file == file && shown[part].writable)
            writable = 1;
    if (writable)
        return 1;
    fchmod(kept[file], 0777);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", kept[file]);
    again = open(path, O_RDWR);
    for (int descriptor = kept[file];; descriptor = again) {
        place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, shown[0].start);
        check(place == MAP_FAILED, "what may be read was mapped to be written");
        place = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, descriptor, shown[0].start);
        check(place != MAP_FAILED && mprotect(place, PAGE, PROT_READ | PROT_WRITE) != 0, "it was made writable");
        check(pwrite(descriptor, &pattern, sizeof(pattern), 0) < 0, "what may be read was written");
        check(fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) != 0, "it was emptied");
        if (descriptor == again || again < 0)
            return 0;
    }
}

/* Nothing is in a file but what the library has mapped. Then there is something everywhere else. */
static void look(int file)
{
    struct stat told;
    off_t end, at = 0;
    volatile uint64_t *all;
    int writable = is_writable(file);

    check(fstat(kept[file], &told) == 0, "a file of memory");
    all = mmap(NULL, told.st_size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED | MAP_NORESERVE, kept[file], 0);
    check(all != MAP_FAILED, "all of a file");
    while ((at = lseek(kept[file], at, SEEK_DATA)) >= 0) {
        end = lseek(kept[file], at, SEEK_HOLE);
        for (; at < end; at += PAGE) {
            if (is_shown(file, at))
                continue;
            for (off_t word = at / 8; word < (at + PAGE) / 8; word++) {
                if (all[word] == 0)
                    continue;
                fprintf(stderr, "hostile: file %d has %#llx at %#llx, which this program was never shown\n", file,
                        (unsigned long long)all[word], (unsigned long long)word * 8);
                exit(EXIT_FAILURE);
            }
            if (writable)
                all[at / 8 + 1] = ~pattern;
        }
    }
    for (int part = 0; writable && part < parts; part++)
        check(shown[part].file != file || shown[part].writable, "what may be read lies among what may be written");
    for (at = 0; writable && at < told.st_size; at += STEP)
        if (!is_shown(file, at))
            all[at / 8 + 1] = ~pattern;
}

/* Memory of a program that does nothing wrong. */
static int be_victim(D3DKMT_CREATEPAGINGQUEUE *paging)
{
    uint64_t *memory[2];

    lock_memory(paging, CAMPANILE_PLACEMENT_SYSTEM, &memory[0]);
    lock_memory(paging, CAMPANILE_PLACEMENT_VRAM_VISIBLE, &memory[1]);
    for (int at = 0; at < 2 * SIZE / 8; at++)
        memory[at % 2][at / 2] = pattern;
    puts("ready");
    fflush(stdout);
    getchar();
    for (int at = 0; at < 2 * SIZE / 8; at++)
        check(memory[at % 2][at / 2] == pattern, "somebody else has changed this memory");
    return EXIT_SUCCESS;
}

int main(int count, char **arguments)
{
    D3DKMT_HANDLE freed;
    uint64_t *memory;
    int before;
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
    if (count > 1 && strcmp(arguments[1], "victim") == 0)
        return be_victim(&paging);
    lock_memory(&paging, CAMPANILE_PLACEMENT_SYSTEM, &memory);
    lock_memory(&paging, CAMPANILE_PLACEMENT_VRAM_VISIBLE, &memory);
    before = parts;
    freed = lock_memory(&paging, CAMPANILE_PLACEMENT_SYSTEM, &memory);
    destroy(&paging, freed);
    freed = lock_memory(&paging, CAMPANILE_PLACEMENT_VRAM_VISIBLE, &memory);
    destroy(&paging, freed);
    parts = before;
    for (int at = 0; at < files; at++)
        attack(kept[at]);
    printf("%d files\n", files);
    fflush(stdout);
    getchar();
    for (int at = 0; at < files && count > 1 && strcmp(arguments[1], "look") == 0; at++)
        look(at);
    puts("done");
    fflush(stdout);
    getchar();
    return EXIT_SUCCESS;
}
