/*
 * Goes on with the next machine: finds the adapter and makes a device, says "ready", and waits for a line of input, by which the machine has been replaced. What
 * it had is refused from then on, and what it makes anew works.
 */
#include <assert.h>
#include <campanile_kmt.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static NTSTATUS find(D3DKMT_HANDLE *adapter)
{
    D3DKMT_ADAPTERINFO found[4] = {{0}};
    D3DKMT_ENUMADAPTERS3 list = {0};
    NTSTATUS status;

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 4;
    list.pAdapters = found;
    status = D3DKMTEnumAdapters3(&list);
    *adapter = found[0].hAdapter;
    return status;
}

static NTSTATUS make(D3DKMT_HANDLE adapter, D3DKMT_HANDLE *device)
{
    D3DKMT_CREATEDEVICE create = {0};
    NTSTATUS status;

    create.hAdapter = adapter;
    status = D3DKMTCreateDevice(&create);
    *device = create.hDevice;
    return status;
}

int main(void)
{
    struct timespec moment = {0, 1000000};
    D3DKMT_HANDLE adapter, device, next, other;
    D3DKMT_DESTROYDEVICE destroy = {0};
    NTSTATUS status;

    assert(NT_SUCCESS(find(&adapter)) && NT_SUCCESS(make(adapter, &device)));
    /* The machine is found where it was, wherever the program has gone. */
    assert(chdir("/") == 0);
    puts("ready");
    fflush(stdout);
    assert(getchar() == '\n');
    assert(make(adapter, &other) == STATUS_DEVICE_REMOVED);
    while ((status = find(&next)) == STATUS_DEVICE_REMOVED)
        nanosleep(&moment, NULL);
    assert(NT_SUCCESS(status) && next != 0 && next != adapter);
    /* The handles of the machine that is gone name nothing. */
    status = make(adapter, &other);
    assert(!NT_SUCCESS(status) && status != STATUS_DEVICE_REMOVED);
    destroy.hDevice = device;
    assert(!NT_SUCCESS(D3DKMTDestroyDevice(&destroy)));
    assert(NT_SUCCESS(make(next, &other)) && other != device);
    assert(!NT_SUCCESS(D3DKMTDestroyDevice(&destroy)));
    destroy.hDevice = other;
    assert(NT_SUCCESS(D3DKMTDestroyDevice(&destroy)));
    puts("went on");
    return 0;
}
