/*
 * A program that starts others for a moment, each of which makes fences, sends descriptors of their kernel handles and ends. It imports and keeps what it may, says how many fences these
 * are, and goes on until its input ends. The first argument is how many others there are, the second how many fences each of them makes.
 */
#include <campanile_kmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REFUSED = (int)0xc000009a };

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "keeps: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

#include "passing.h"

/* Makes fences once it is told to, and ends when it is told so. */
static void make(int end, int fences)
{
    char told;
    D3DKMT_HANDLE device;

    check(read(end, &told, 1) == 1, "nothing came");
    device = open_device();
    for (int made = 0; made < fences; made++) {
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {0};
        HANDLE handle;
        UINT descriptor;

        create.hDevice = device;
        create.Info.Type = D3DDDI_MONITORED_FENCE;
        create.Info.Flags.Shared = create.Info.Flags.NtSecuritySharing = 1;
        check(NT_SUCCESS(D3DKMTCreateSynchronizationObject2(&create)), "no fence");
        check(NT_SUCCESS(D3DKMTShareObjects(1, &create.hSyncObject, NULL, 0x10000000, &handle)), "no kernel handle");
        check(NT_SUCCESS(CampanileExportNtHandle(handle, &descriptor)), "no descriptor");
        send_file(end, (int)descriptor);
        close((int)descriptor);
    }
    check(read(end, &told, 1) == 1, "nothing came");
}

int main(int count, char **arguments)
{
    int others, fences, kept = 0, refused = 0;
    int *ends;

    check(count == 3, "two arguments");
    others = atoi(arguments[1]);
    fences = atoi(arguments[2]);
    ends = calloc((size_t)others, sizeof(*ends));
    check(ends != NULL, "no memory");
    /* Before this process calls anything: a child has no machine of its parent's. */
    for (int other = 0; other < others; other++) {
        int pair[2];
        pid_t child;

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
        child = fork();
        check(child >= 0, "no process");
        if (child == 0) {
            make(pair[1], fences);
            _exit(EXIT_SUCCESS);
        }
        close(pair[1]);
        ends[other] = pair[0];
    }
    open_device();
    for (int other = 0; other < others; other++) {
        int status;

        check(write(ends[other], "", 1) == 1, "it takes no order");
        for (int made = 0; made < fences; made++) {
            HANDLE handle;
            int descriptor = receive_file(ends[other]);
            NTSTATUS imported = CampanileImportNtHandle((UINT)descriptor, &handle);

            check(NT_SUCCESS(imported) || imported == REFUSED, "another status");
            kept += NT_SUCCESS(imported);
            refused += !NT_SUCCESS(imported);
            close(descriptor);
        }
        check(write(ends[other], "", 1) == 1, "it takes no order");
        check(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "another process failed");
    }
    printf("kept %d, refused %d\n", kept, refused);
    fflush(stdout);
    return getchar() == EOF ? EXIT_SUCCESS : EXIT_FAILURE;
}
