/* Two processes of one machine: one makes a sync file and sends it to the other, which opens its fence and signals it; and it sends a kernel handle of a
   second fence as a descriptor, by which the other opens and signals that one. Each ends with 0 if all was as docs/programs-in-c.md and docs/machine.md say. */
#include <campanile_kmt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "descriptors: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

#include "passing.h"

static int is_ready(int file, int milliseconds)
{
    struct pollfd poll_file = {file, POLLIN, 0};

    return poll(&poll_file, 1, milliseconds) == 1 && (poll_file.revents & POLLIN);
}

/* Opens and signals the fence of a kernel handle that came as a descriptor. */
static void signal_by_handle(D3DKMT_HANDLE device, int descriptor, UINT64 value)
{
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open = {0};
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {0};

    check(NT_SUCCESS(CampanileImportNtHandle((UINT)descriptor, &open.hNtHandle)), "no kernel handle");
    close(descriptor);
    open.hDevice = signal.hDevice = device;
    check(NT_SUCCESS(D3DKMTOpenSyncObjectFromNtHandle2(&open)), "the fence of the handle could not be opened");
    check(NT_SUCCESS(NtClose(open.hNtHandle)), "the handle could not be closed");
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &open.hSyncObject;
    signal.FenceValueArray = &value;
    check(NT_SUCCESS(D3DKMTSignalSynchronizationObjectFromCpu(&signal)), "the second fence could not be signalled");
}

/* A descriptor of a kernel handle of a fence, which is closed. */
static int export_fence(D3DKMT_HANDLE fence)
{
    HANDLE handle;
    UINT descriptor;

    check(NT_SUCCESS(D3DKMTShareObjects(1, &fence, NULL, 0x10000000, &handle)), "the fence could not be shared");
    check(NT_SUCCESS(CampanileExportNtHandle(handle, &descriptor)), "no descriptor of the kernel handle");
    check(NT_SUCCESS(NtClose(handle)), "the kernel handle could not be closed");
    return (int)descriptor;
}

static void other_process(int from)
{
    D3DKMT_OPENSYNCOBJECTFROMSYNCFILE open = {0};
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {0};
    int file = receive_file(from);

    open.hSyncFile = (UINT64)file;
    open.hDevice = signal.hDevice = open_device();
    check(NT_SUCCESS(D3DKMTOpenSyncObjectFromSyncFile(&open)), "the fence of the file could not be opened");
    check(open.FenceValue == 7, "the file stands for another value");
    check(!is_ready(file, 0), "the file is ready before its fence was signalled");
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &open.hSyncObject;
    signal.FenceValueArray = &open.FenceValue;
    check(NT_SUCCESS(D3DKMTSignalSynchronizationObjectFromCpu(&signal)), "the fence could not be signalled");
    check(is_ready(file, -1), "the file is not ready");
    signal_by_handle(open.hDevice, receive_file(from), 9);
}

int main(void)
{
    int ends[2], status;
    pid_t other;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {0};
    D3DKMT_CREATESYNCFILE file = {0};
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 second = {0};
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};
    UINT64 value = 9;
    int descriptor;

    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    other = fork();
    check(other >= 0, "no process");
    /* Each sees the end of the other one. */
    close(ends[other == 0 ? 0 : 1]);
    if (other == 0) {
        other_process(ends[1]);
        return EXIT_SUCCESS;
    }
    create.hDevice = file.hDevice = open_device();
    create.Info.Type = D3DDDI_MONITORED_FENCE;
    create.Info.Flags.Shared = create.Info.Flags.NtSecuritySharing = 1;
    check(NT_SUCCESS(D3DKMTCreateSynchronizationObject2(&create)), "no fence");
    file.hMonitoredFence = create.hSyncObject;
    file.FenceValue = 7;
    check(NT_SUCCESS(D3DKMTCreateSyncFile(&file)), "no sync file");
    check(!is_ready((int)file.hSyncFile, 0), "the file is ready at once");
    send_file(ends[0], (int)file.hSyncFile);
    check(is_ready((int)file.hSyncFile, -1), "the file is not ready");
    second.hDevice = wait.hDevice = create.hDevice;
    second.Info.Type = D3DDDI_MONITORED_FENCE;
    second.Info.Flags.Shared = second.Info.Flags.NtSecuritySharing = 1;
    check(NT_SUCCESS(D3DKMTCreateSynchronizationObject2(&second)), "no second fence");
    descriptor = export_fence(second.hSyncObject);
    send_file(ends[0], descriptor);
    close(descriptor);
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &second.hSyncObject;
    wait.FenceValueArray = &value;
    check(NT_SUCCESS(D3DKMTWaitForSynchronizationObjectFromCpu(&wait)), "the second fence was not waited for");
    check(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process failed");
    close((int)file.hSyncFile);
    printf("a sync file and a kernel handle went to another process, which signalled their fences\n");
    return EXIT_SUCCESS;
}
