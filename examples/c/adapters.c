/*
 * Lists the compute-only adapters and what they can do.
 *
 *     cc -I kmt/include examples/c/adapters.c -L target/debug -lcampanile_kmt -Wl,-rpath,target/debug -o adapters
 */
#include <campanile_kmt.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what, NTSTATUS status)
{
    fprintf(stderr, "adapters: %s: status 0x%08x\n", what, (unsigned)status);
    return EXIT_FAILURE;
}

static NTSTATUS query(D3DKMT_HANDLE adapter, KMTQUERYADAPTERINFOTYPE type, void *answer, UINT size)
{
    D3DKMT_QUERYADAPTERINFO question = {0};

    question.hAdapter = adapter;
    question.Type = type;
    question.pPrivateDriverData = answer;
    question.PrivateDriverDataSize = size;
    return D3DKMTQueryAdapterInfo(&question);
}

int main(void)
{
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_ADAPTERINFO *adapters;
    NTSTATUS status;
    UINT index;

    list.Filter.IncludeComputeOnly = 1;
    status = D3DKMTEnumAdapters3(&list);
    if (!NT_SUCCESS(status))
        return failed("D3DKMTEnumAdapters3", status);
    adapters = calloc(list.NumAdapters, sizeof(*adapters));
    list.pAdapters = adapters;
    status = D3DKMTEnumAdapters3(&list);
    if (!NT_SUCCESS(status))
        return failed("D3DKMTEnumAdapters3", status);
    for (index = 0; index < list.NumAdapters; index++) {
        D3DKMT_HANDLE adapter = adapters[index].hAdapter;
        D3DKMT_CLOSEADAPTER close = {adapter};
        D3DKMT_WDDM_2_7_CAPS scheduling = {0};
        D3DKMT_WDDM_3_1_CAPS fences = {0};
        D3DKMT_NODEMETADATA node = {0};

        printf("adapter %08x:%08x\n", (unsigned)adapters[index].AdapterLuid.HighPart,
               (unsigned)adapters[index].AdapterLuid.LowPart);
        if (NT_SUCCESS(query(adapter, KMTQAITYPE_WDDM_2_7_CAPS, &scheduling, sizeof(scheduling))))
            printf("  hardware scheduling: %s\n", scheduling.HwSchEnabled ? "on" : "off");
        if (NT_SUCCESS(query(adapter, KMTQAITYPE_WDDM_3_1_CAPS, &fences, sizeof(fences))))
            printf("  native fences: %s\n", fences.NativeGpuFenceSupported ? "yes" : "no");
        while (NT_SUCCESS(query(adapter, KMTQAITYPE_NODEMETADATA, &node, sizeof(node)))) {
            printf("  node %u: user-mode submission %s\n", node.NodeOrdinalAndAdapterIndex,
                   node.NodeData.Flags.UserModeSubmission ? "yes" : "no");
            node.NodeOrdinalAndAdapterIndex++;
        }
        status = D3DKMTCloseAdapter(&close);
        if (!NT_SUCCESS(status))
            return failed("D3DKMTCloseAdapter", status);
    }
    free(adapters);
    return list.NumAdapters ? EXIT_SUCCESS : EXIT_FAILURE;
}
