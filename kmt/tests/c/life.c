/* What a process may do beside calling thunks: start threads, fork, end. */
#define _GNU_SOURCE
#include <campanile_kmt.h>
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static NTSTATUS count(UINT *adapters)
{
    D3DKMT_ENUMADAPTERS3 list = {0};
    NTSTATUS status;

    list.Filter.IncludeComputeOnly = 1;
    status = D3DKMTEnumAdapters3(&list);
    *adapters = list.NumAdapters;
    return status;
}

static D3DKMT_ADAPTERINFO first(void)
{
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    if (!NT_SUCCESS(D3DKMTEnumAdapters3(&list)))
        exit(3);
    return found;
}

/* ---- threads ---- */

enum { THREADS = 8 };
static pthread_barrier_t together;

static void *call(void *found)
{
    pthread_barrier_wait(&together);
    *(D3DKMT_ADAPTERINFO *)found = first();
    return NULL;
}

static int threads(void)
{
    pthread_t thread[THREADS];
    D3DKMT_ADAPTERINFO found[THREADS];
    UINT adapters;
    int index;

    pthread_barrier_init(&together, NULL, THREADS);
    for (index = 0; index < THREADS; index++)
        pthread_create(&thread[index], NULL, call, &found[index]);
    for (index = 0; index < THREADS; index++)
        pthread_join(thread[index], NULL);
    /* A handle that one thread got is good on every other. */
    for (index = 0; index < THREADS; index++) {
        D3DKMT_CLOSEADAPTER close = {found[index].hAdapter};
        if (memcmp(&found[index].AdapterLuid, &found[0].AdapterLuid, sizeof(LUID)) || D3DKMTCloseAdapter(&close))
            return 1;
    }
    if (count(&adapters))
        return 1;
    printf("%d threads, %u adapter\n", THREADS, adapters);
    return 0;
}

/* ---- fork ---- */

static void in_child(const char *name)
{
    UINT adapters;
    pid_t child = fork();

    if (child == 0) {
        printf("%s: %08x\n", name, (unsigned)count(&adapters));
        (void)count(&adapters);
        fflush(stdout);
        /* The end of a child runs what the end of its parent would. */
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status)
        exit(4);
}

static int forks(void)
{
    UINT adapters;

    in_child("child before");
    first();
    in_child("child after");
    printf("parent: %08x\n", (unsigned)count(&adapters));
    return 0;
}

/* ---- children that have the memory of their parent ---- */

static NTSTATUS of_child;

static int calls(void *unused)
{
    UINT adapters;

    (void)unused;
    of_child = count(&adapters);
    _exit(0);
}

static int calls_in_a_child(int flags)
{
    static _Alignas(16) char stack[1 << 20];
    UINT adapters;
    pid_t child;

    /* A parent whose machine has ended with the child waits for it. */
    alarm(60);
    child = clone(calls, stack + sizeof(stack), flags | CLONE_VM | SIGCHLD, NULL);
    if (child < 0 || waitpid(child, NULL, 0) != child)
        return 1;
    printf("child: %08x, parent: %08x, ", (unsigned)of_child, (unsigned)count(&adapters));
    printf("again: %08x\n", (unsigned)count(&adapters));
    return 0;
}

/* The child of a child that has memory of its own. */
static int calls_in_a_grandchild(void)
{
    pid_t child = fork();
    int status = -1;

    if (child == 0)
        exit(calls_in_a_child(CLONE_VFORK));
    waitpid(child, &status, 0);
    return status;
}

/* ---- exit ---- */

static void earlier(void)
{
    UINT adapters;
    printf("earlier handler: %08x\n", (unsigned)count(&adapters));
}

static void later(void)
{
    UINT adapters;
    printf("later handler: %08x\n", (unsigned)count(&adapters));
}

static void *calls_for_ever(void *unused)
{
    UINT adapters;

    (void)unused;
    for (;;)
        count(&adapters);
    return NULL;
}

static int leave(void)
{
    D3DKMT_CREATEDEVICE create = {0};
    D3DKMT_CREATEPAGINGQUEUE paging = {0};
    pthread_t thread;

    atexit(earlier);
    create.hAdapter = first().hAdapter;
    atexit(later);
    if (D3DKMTCreateDevice(&create))
        return 1;
    paging.hDevice = create.hDevice;
    if (D3DKMTCreatePagingQueue(&paging))
        return 1;
    pthread_create(&thread, NULL, calls_for_ever, NULL);
    exit(7);
}

/* ---- signals ---- */

static pthread_t main_thread;
static volatile sig_atomic_t here, elsewhere;

static void handler(int signal)
{
    (void)signal;
    if (pthread_equal(pthread_self(), main_thread))
        here++;
    else
        elsewhere++;
}

static int signals(void)
{
    sigset_t one, before;
    int index;

    main_thread = pthread_self();
    signal(SIGUSR1, handler);
    first();
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    for (index = 0; index < 100; index++) {
        /* While the main thread holds it back, it would go to any other thread that does not. */
        pthread_sigmask(SIG_BLOCK, &one, &before);
        kill(getpid(), SIGUSR1);
        usleep(100);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    printf("%d of %d signals on the main thread\n", (int)here, (int)(here + elsewhere));
    return 0;
}

/* ---- dlclose ---- */

static int closes(const char *path)
{
    UINT adapters;
    void *library = dlopen(path, RTLD_NOW);
    NTSTATUS (*function)(D3DKMT_ENUMADAPTERS3 *) = NULL;

    if (!library)
        return 1;
    *(void **)&function = dlsym(library, "D3DKMTEnumAdapters3");
    D3DKMT_ENUMADAPTERS3 list = {0};
    if (!function || function(&list) || dlclose(library))
        return 1;
    printf("opened, called, closed, called: %08x\n", (unsigned)count(&adapters));
    return 0;
}

int main(int count, char **arguments)
{
    const char *part = count > 1 ? arguments[1] : "";

    if (!strcmp(part, "threads"))
        return threads();
    if (!strcmp(part, "fork"))
        return forks();
    if (!strcmp(part, "vfork"))
        return calls_in_a_child(CLONE_VFORK);
    if (!strcmp(part, "clone"))
        return calls_in_a_child(0);
    if (!strcmp(part, "grandchild"))
        return calls_in_a_grandchild();
    if (!strcmp(part, "exit"))
        return leave();
    if (!strcmp(part, "signals"))
        return signals();
    if (!strcmp(part, "dlclose") && count > 2)
        return closes(arguments[2]);
    return 2;
}
