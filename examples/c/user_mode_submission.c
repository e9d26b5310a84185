/*
 * Work submission from user mode, as the pseudocode of Microsoft's page "User-mode work submission" has it: comments in capitals are its steps, in
 * its order. The rest is what the page takes for granted: an adapter, a device, memory, a hardware queue, and commands.
 *
 *     cc -I kmt/include examples/c/user_mode_submission.c -L target/debug -lcampanile_kmt -Wl,-rpath,target/debug -o submission
 *     ./submission [SUBMISSIONS]
 */
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, RING_ENTRIES = PAGE / sizeof(struct campanile_ring_entry) };

static void check(NTSTATUS status, const char *what)
{
    if (!NT_SUCCESS(status)) {
        fprintf(stderr, "submission: %s: status 0x%08x\n", what, (unsigned)status);
        exit(EXIT_FAILURE);
    }
}

/* ---- What the page takes for granted. ---- */

/* Memory that CPU and GPU share. */
struct memory {
    D3DKMT_HANDLE allocation;
    D3DGPU_VIRTUAL_ADDRESS address;
    void *bytes;
};

static D3DKMT_HANDLE adapter, device, paging_queue, paging_fence;

static void wait_for(D3DKMT_HANDLE fence, UINT64 value)
{
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {0};

    wait.hDevice = device;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &value;
    check(D3DKMTWaitForSynchronizationObjectFromCpu(&wait), "D3DKMTWaitForSynchronizationObjectFromCpu");
}

static void open_device(void)
{
    D3DKMT_ADAPTERINFO found[8];
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE create = {0};
    D3DKMT_CREATEPAGINGQUEUE paging = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 8;
    list.pAdapters = found;
    check(D3DKMTEnumAdapters3(&list), "D3DKMTEnumAdapters3");
    assert(list.NumAdapters > 0);
    adapter = found[0].hAdapter;
    create.hAdapter = adapter;
    check(D3DKMTCreateDevice(&create), "D3DKMTCreateDevice");
    device = create.hDevice;
    paging.hDevice = device;
    check(D3DKMTCreatePagingQueue(&paging), "D3DKMTCreatePagingQueue");
    paging_queue = paging.hPagingQueue;
    paging_fence = paging.hSyncObject;
}

static struct memory allocate(UINT64 size)
{
    /* Memory that the CPU does not cache serves every variant of the GPU, also those that do not snoop. */
    struct campanile_allocation_data data = {CAMPANILE_MAGIC, CAMPANILE_PLACEMENT_SYSTEM_UNCACHED, size, 0, 0, {0}};
    struct memory memory = {0};
    D3DDDI_ALLOCATIONINFO2 info = {0};
    D3DKMT_CREATEALLOCATION create = {0};
    D3DDDI_MAKERESIDENT resident = {0};
    D3DDDI_MAPGPUVIRTUALADDRESS map = {0};
    NTSTATUS status;

    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof(data);
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    check(D3DKMTCreateAllocation2(&create), "D3DKMTCreateAllocation2");
    memory.allocation = info.hAllocation;
    resident.hPagingQueue = paging_queue;
    resident.NumAllocations = 1;
    resident.AllocationList = &memory.allocation;
    status = D3DKMTMakeResident(&resident);
    check(status, "D3DKMTMakeResident");
    if (status == STATUS_PENDING)
        wait_for(paging_fence, resident.PagingFenceValue);
    map.hPagingQueue = paging_queue;
    map.hAllocation = memory.allocation;
    map.SizeInPages = (size + PAGE - 1) / PAGE;
    map.Protection.Write = 1;
    status = D3DKMTMapGpuVirtualAddress(&map);
    check(status, "D3DKMTMapGpuVirtualAddress");
    if (status == STATUS_PENDING)
        wait_for(paging_fence, map.PagingFenceValue);
    memory.address = map.VirtualAddress;
    return memory;
}

static void *lock(D3DKMT_HANDLE allocation)
{
    D3DKMT_LOCK2 lock = {0};

    lock.hDevice = device;
    lock.hAllocation = allocation;
    check(D3DKMTLock2(&lock), "D3DKMTLock2");
    return lock.pData;
}

static NTSTATUS create_queue(D3DKMT_HANDLE context, int user_mode, D3DKMT_CREATEHWQUEUE *create)
{
    memset(create, 0, sizeof(*create));
    create->hHwContext = context;
    create->Flags.UserModeSubmission = user_mode != 0;
    create->Flags.NativeProgressFence = user_mode != 0;
    return D3DKMTCreateHwQueue(create);
}

/* A command buffer that fills memory with a pattern; its last packet writes the progress fence, which the log names by its handle. */
static UINT record(void *commands, D3DGPU_VIRTUAL_ADDRESS target, UINT64 size, uint32_t pattern, D3DKMT_HANDLE fence, UINT64 progress)
{
    struct {
        struct campanile_packet_fill fill;
        struct campanile_packet_progress progress;
    } buffer = {
        {CAMPANILE_OPCODE_FILL, sizeof(struct campanile_packet_fill) / 16, {0}, target, size, pattern, {0}},
        {CAMPANILE_OPCODE_PROGRESS, sizeof(struct campanile_packet_progress) / 16, {0}, fence, progress},
    };

    memcpy(commands, &buffer, sizeof(buffer));
    return sizeof(buffer);
}

static int holds(const void *bytes, UINT64 size, uint32_t pattern)
{
    const volatile uint32_t *words = bytes;
    UINT64 at;

    for (at = 0; at < size / sizeof(*words); at++)
        if (words[at] != pattern)
            return 0;
    return 1;
}

int main(int count, char **arguments)
{
    const UINT64 submissions = count > 1 ? strtoull(arguments[1], NULL, 0) : 100, size = 16 * PAGE;
    struct memory ring, control, commands, target;
    struct campanile_ring_entry *entries;
    D3DKMT_CREATEHWCONTEXT context = {0};
    D3DKMT_CREATEHWQUEUE queue;
    UINT64 submission = 0, notified = 0;
    int by_kernel = 0;

    open_device();
    ring = allocate(PAGE);
    control = allocate(PAGE);
    commands = allocate(PAGE);
    target = allocate(size);
    entries = lock(ring.allocation);
    commands.bytes = lock(commands.allocation);
    target.bytes = lock(target.allocation);
    context.hDevice = device;
    context.NodeOrdinal = CAMPANILE_NODE_COPY;
    context.EngineAffinity = 1;
    check(D3DKMTCreateHwContext(&context), "D3DKMTCreateHwContext");
    NTSTATUS status = create_queue(context.hHwContext, 1, &queue);

    /* ---- The page. ---- */

    /* CREATE A DOORBELL FOR THE HARDWARE QUEUE. */
    union {
        struct campanile_doorbell_data data;
        struct campanile_doorbell_answer answer;
    } where = {{ring.address, control.address}};
    D3DKMT_CREATE_DOORBELL doorbell = {0};
    doorbell.hHwQueue = queue.hHwQueue;
    doorbell.hRingBuffer = ring.allocation;
    doorbell.hRingBufferControl = control.allocation;
    doorbell.Flags.Value = 0;
    doorbell.PrivateDriverData = &where;
    doorbell.PrivateDriverDataSize = sizeof(where);
    if (NT_SUCCESS(status))
        status = D3DKMTCreateDoorbell(&doorbell);
    if (!NT_SUCCESS(status))
        goto cleanup_fallback;
    assert(doorbell.DoorbellCPUVirtualAddress && doorbell.DoorbellStatusCPUVirtualAddress);
    /* Only a GPU with one doorbell for all queues says a number here; one with doorbells of their own leaves the data as it was. */
    const UINT64 number = where.data.ring == ring.address && where.data.control == control.address ? 0 : where.answer.queue;
    volatile UINT64 *const bell = doorbell.DoorbellCPUVirtualAddress;
    volatile UINT64 *const state = doorbell.DoorbellStatusCPUVirtualAddress;
    volatile UINT64 *const last_queued = doorbell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress;
    volatile UINT64 *const progress = queue.HwQueueProgressFenceCPUVirtualAddress;

    /* GET A CPU ADDRESS OF THE RING CONTROL, FOR THE WRITE POINTER. */
    UINT64 *const write_pointer = (UINT64 *)((char *)lock(control.allocation) + CAMPANILE_WRITE_POINTER);

    for (submission = 1; submission <= submissions; submission++) {
        const UINT size_of_commands = record(commands.bytes, target.address, size, (uint32_t)submission, queue.hHwQueueProgressFence, submission);
        int visible = 0;
        UINT64 now;

        do {
            /* CONNECT THE DOORBELL AND READ THE STATUS. One that stands needs no call: then a submission makes none. */
            if (*state != D3DDDI_DOORBELLSTATUS_CONNECTED && *state != D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD) {
                D3DKMT_CONNECT_DOORBELL connect = {0};

                connect.hDoorbell = doorbell.hDoorbell;
                status = D3DKMTConnectDoorbell(&connect);
                if (!NT_SUCCESS(status) || *state == D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT)
                    goto cleanup_fallback;
            }
            if (!visible) {
                /* UPDATE THE LAST QUEUED PROGRESS FENCE VALUE, before the work exists for the GPU. */
                *last_queued = submission;
                /* WRITE THE COMMAND INTO THE RING, then the write pointer that publishes it, with a full barrier: whoever disconnects
                 * the doorbell meanwhile either is seen below, or sees the pointer. In a second round the entry is there. */
                entries[(submission - 1) % RING_ENTRIES] =
                    (struct campanile_ring_entry){.commands = commands.address, .size = size_of_commands};
                __atomic_exchange_n(write_pointer, submission, __ATOMIC_SEQ_CST);
                visible = 1;
            }
            /* RING THE DOORBELL WITH THE WRITE POINTER. */
            *bell = CAMPANILE_DOORBELL_VALUE(submission, number);
            /* CHECK WHETHER THE SUBMISSION SUCCEEDED, BY THE STATUS. */
            now = *state;
            if (now == D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD) {
                D3DKMT_NOTIFY_WORK_SUBMISSION notify = {0};

                notify.hDoorbell = doorbell.hDoorbell;
                check(D3DKMTNotifyWorkSubmission(&notify), "D3DKMTNotifyWorkSubmission");
                notified++;
            }
        } while (now == D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY);

        /* The commands are written anew for the next one, so this one has to be done. */
        if (*progress < submission)
            wait_for(queue.hHwQueueProgressFence, submission);
        if (!holds(target.bytes, size, (uint32_t)submission)) {
            fprintf(stderr, "submission: wrong bytes after submission %llu\n", (unsigned long long)submission);
            return EXIT_FAILURE;
        }
    }
    goto cleanup;

cleanup_fallback:
    /* A DOORBELL THAT DOES NOT CONNECT: DESTROY THE QUEUE, AND CREATE ONE FOR SUBMISSION BY THE KERNEL. */
    by_kernel = 1;
    if (doorbell.hDoorbell) {
        D3DKMT_DESTROY_DOORBELL destroy = {doorbell.hDoorbell};
        D3DKMTDestroyDoorbell(&destroy);
        doorbell.hDoorbell = 0;
    }
    if (queue.hHwQueue) {
        D3DKMT_DESTROYHWQUEUE destroy = {queue.hHwQueue};
        check(D3DKMTDestroyHwQueue(&destroy), "D3DKMTDestroyHwQueue");
    }
    check(create_queue(context.hHwContext, 0, &queue), "D3DKMTCreateHwQueue");
    for (submission = 1; submission <= submissions; submission++) {
        D3DKMT_SUBMITCOMMANDTOHWQUEUE submit = {0};

        submit.hHwQueue = queue.hHwQueue;
        submit.HwQueueProgressFenceId = submission;
        submit.CommandBuffer = commands.address;
        submit.CommandLength = record(commands.bytes, target.address, size, (uint32_t)submission, queue.hHwQueueProgressFence, submission);
        check(D3DKMTSubmitCommandToHwQueue(&submit), "D3DKMTSubmitCommandToHwQueue");
        wait_for(queue.hHwQueueProgressFence, submission);
        if (!holds(target.bytes, size, (uint32_t)submission))
            return EXIT_FAILURE;
    }

cleanup:
    printf("%llu submissions by %s, %llu notified, every byte verified\n", (unsigned long long)submission - 1,
           by_kernel ? "the kernel" : "doorbell", (unsigned long long)notified);
    if (doorbell.hDoorbell) {
        D3DKMT_DESTROY_DOORBELL destroy = {doorbell.hDoorbell};
        check(D3DKMTDestroyDoorbell(&destroy), "D3DKMTDestroyDoorbell");
    }
    D3DKMT_DESTROYHWQUEUE last = {queue.hHwQueue};
    check(D3DKMTDestroyHwQueue(&last), "D3DKMTDestroyHwQueue");
    D3DKMT_DESTROYDEVICE gone = {device};
    check(D3DKMTDestroyDevice(&gone), "D3DKMTDestroyDevice");
    D3DKMT_CLOSEADAPTER closed = {adapter};
    check(D3DKMTCloseAdapter(&closed), "D3DKMTCloseAdapter");
    return EXIT_SUCCESS;
}
