/*
 * A program that submits as examples/c/user_mode_submission.c does, and lets nobody take its doorbell back afterwards: its second argument says how. "seal" has the host keep the page
 * as it is (mseal, from Linux 6.10 on; without it the program says "not sealed" and ends), "filter" refuses itself all changes of what it has mapped, "limit" lets itself have no more
 * addresses, and "full" has as many mappings as the host allows.
 */
#define _GNU_SOURCE
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"

enum { MSEAL = 462 };

static void refuse(volatile void *doorbell);

#define main submit
#define D3DKMTDestroyDoorbell(destroy) (refuse(bell), D3DKMTDestroyDoorbell(destroy))
#include "../../../examples/c/user_mode_submission.c"
#undef main

static const char *way;

static void seal(volatile void *doorbell)
{
    if (syscall(MSEAL, (uintptr_t)doorbell & ~4095ul, 4096ul, 0ul) != 0) {
        assert(errno == ENOSYS);
        puts("not sealed");
        exit(EXIT_SUCCESS);
    }
}

static void limit(void)
{
    struct rlimit none = {1, 1};

    assert(setrlimit(RLIMIT_AS, &none) == 0);
}

static void fill(void)
{
    int count = 0;

    while (mmap(NULL, 4096, count % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        count++;
}

static void refuse(volatile void *doorbell)
{
    fflush(stdout);
    if (strcmp(way, "seal") == 0)
        seal(doorbell);
    else if (strcmp(way, "filter") == 0)
        refuse_changes_of_memory();
    else if (strcmp(way, "limit") == 0)
        limit();
    else
        fill();
}

int main(int count, char **arguments)
{
    assert(count == 3);
    way = arguments[2];
    return submit(count, arguments);
}
