/*
 * A program that tries to ring doorbells of others. It submits as examples/c/user_mode_submission.c does, and keeps each file that its library maps to be written from a BAR of the
 * GPU. It then maps all of each such file, stores to every place where a doorbell of the GPU can be, its own among them, and says to how many. A line of input has it do so again;
 * it ends with its input.
 */
#define _GNU_SOURCE
#define main submit
#include "../../../examples/c/user_mode_submission.c"
#undef main
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES = 16, DOORBELL = 4096, LARGEST = 16 << 20 };

static int kept[FILES], files;

/* True for a file in which the GPU has a BAR. */
static int is_of_bar(int file)
{
    char path[64], name[64];
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    length = readlink(path, name, sizeof(name) - 1);
    if (length < 0)
        return 0;
    name[length] = 0;
    return strstr(name, "campanile-bar") != NULL;
}

static int is_known(int file)
{
    struct stat this, other;

    for (int at = 0; at < files; at++)
        if (fstat(file, &this) == 0 && fstat(kept[at], &other) == 0 && this.st_ino == other.st_ino)
            return 1;
    return 0;
}

/* Of this program, and so the library's too. */
void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (file >= 0 && (protection & PROT_WRITE) && (flags & MAP_FIXED) && files < FILES && is_of_bar(file) && !is_known(file))
        kept[files++] = dup(file);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

/* Stores to every doorbell of the files that it has: the answer is how many. */
static unsigned long ring_all(void)
{
    unsigned long rung = 0;

    for (int at = 0; at < files; at++) {
        struct stat told;
        volatile uint32_t *all;

        if (fstat(kept[at], &told) != 0 || told.st_size > LARGEST)
            continue;
        all = mmap(NULL, told.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, kept[at], 0);
        if (all == MAP_FAILED)
            continue;
        for (off_t place = 0; place < told.st_size; place += DOORBELL, rung++)
            all[place / 4] = 0x7fffffff - (uint32_t)rung;
        munmap((void *)all, told.st_size);
    }
    return rung;
}

int main(int count, char **arguments)
{
    int result = submit(count, arguments);

    do {
        printf("%s\n", ring_all() > 0 ? "rung" : "nothing to ring");
        fflush(stdout);
    } while (getchar() != EOF);
    return result;
}
