/* Two programs of one machine: one holds memory, and the other asks about it with the number that the host gave it, as a task manager does. Alone (argument "alone") a
   program finds itself by its number and nobody else. Each ends with 0 if all was as docs/programs-in-c.md says. */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 20, SEGMENTS = 8 };

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "beside: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static D3DKMT_ADAPTERINFO find_adapter(void)
{
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(NT_SUCCESS(D3DKMTEnumAdapters3(&list)) && list.NumAdapters == 1, "no adapter");
    return found;
}

/* Bytes that a process has committed on the adapter, in all segments. */
static NTSTATUS committed(HANDLE process, UINT64 *bytes)
{
    D3DKMT_QUERYSTATISTICS ask = {0};
    NTSTATUS status;
    UINT id, count;

    ask.Type = D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER;
    ask.AdapterLuid = find_adapter().AdapterLuid;
    ask.hProcess = process;
    status = D3DKMTQueryStatistics(&ask);
    if (!NT_SUCCESS(status))
        return status;
    count = ask.QueryResult.ProcessAdapterInformation.NbSegments;
    check(count > 0 && count <= SEGMENTS, "no segments");
    for (*bytes = 0, id = 0; id < count; id++) {
        ask.Type = D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT;
        ask.QueryProcessSegment.SegmentId = id;
        status = D3DKMTQueryStatistics(&ask);
        /* The process may have ended in between. */
        if (!NT_SUCCESS(status))
            return status;
        *bytes += ask.QueryResult.ProcessSegmentInformation.BytesCommitted;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS open_process(pid_t pid, UINT access, HANDLE *process)
{
    OBJECT_ATTRIBUTES attributes = {0};
    CLIENT_ID client = {0};

    attributes.Length = sizeof(attributes);
    client.UniqueProcess = (HANDLE)(size_t)pid;
    return NtOpenProcess(process, access, &attributes, &client);
}

/* Holds memory until its input ends; writes a byte when it does. */
static void hold(int told, int until)
{
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_SYSTEM, SIZE, 0, 0, {0}};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DKMT_CREATEDEVICE device = {0};
    char byte = 0;

    device.hAdapter = find_adapter().hAdapter;
    check(NT_SUCCESS(D3DKMTCreateDevice(&device)), "no device");
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = device.hDevice;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(NT_SUCCESS(D3DKMTCreateAllocation2(&create)), "no allocation");
    check(write(told, &byte, 1) == 1, "a byte for the parent");
    check(read(until, &byte, 1) == 0, "the parent wrote");
    exit(EXIT_SUCCESS);
}

static void alone(void)
{
    HANDLE process = NULL;
    UINT64 bytes = 1;

    find_adapter();
    check(open_process(getppid(), PROCESS_QUERY_INFORMATION, &process) == STATUS_INVALID_CID, "a process of the host");
    check(NT_SUCCESS(open_process(getpid(), PROCESS_QUERY_INFORMATION, &process)), "its own number");
    check(NT_SUCCESS(committed(process, &bytes)) && bytes == 0, "its own figures");
    check(NT_SUCCESS(NtClose(process)), "closing the handle");
    puts("a program found itself by its number, and nobody else");
}

int main(int count, char **arguments)
{
    int told[2], until[2], ended;
    HANDLE process = NULL, weak = NULL;
    UINT64 bytes = 0;
    char byte;
    pid_t child;

    if (count > 1 && strcmp(arguments[1], "alone") == 0) {
        alone();
        return EXIT_SUCCESS;
    }
    check(pipe(told) == 0 && pipe(until) == 0, "no pipes");
    child = fork();
    check(child >= 0, "no child");
    if (child == 0) {
        close(until[1]);
        hold(told[1], until[0]);
    }
    close(until[0]);
    check(read(told[0], &byte, 1) == 1, "the child said nothing");
    find_adapter();
    check(NT_SUCCESS(open_process(child, PROCESS_QUERY_LIMITED_INFORMATION, &process)), "opening the child");
    check(NT_SUCCESS(committed(process, &bytes)) && bytes == SIZE, "what the child has committed");
    check(NT_SUCCESS(committed((HANDLE)-1, &bytes)) && bytes == 0, "what the parent has committed");
    check(NT_SUCCESS(open_process(child, PROCESS_SET_QUOTA, &weak)), "opening the child to change its limits");
    check(committed(weak, &bytes) == STATUS_ACCESS_DENIED, "figures without the right to ask");
    close(until[1]);
    check(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0, "the child failed");
    /* The machine learns of the end by itself. */
    while (NT_SUCCESS(committed(process, &bytes)))
        usleep(1000);
    check(committed(process, &bytes) == STATUS_PROCESS_IS_TERMINATING, "figures of a process that has ended");
    check(open_process(child, PROCESS_QUERY_INFORMATION, &weak) == STATUS_INVALID_CID, "opening it again");
    check(NT_SUCCESS(NtClose(process)), "closing the handle");
    puts("a program was asked about by another one, until it had ended");
    return EXIT_SUCCESS;
}
