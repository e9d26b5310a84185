/*
 * Hardware scheduling for the toy: hardware contexts and hardware queues, which toy.c includes where TOY_HARDWARE_QUEUES is defined (`build.sh OUT clang
 * WDDM2_7 queues`). The toy runs the commands of hardware queues by itself, stores their progress values, and names hardware contexts by a number.
 */

struct hw_context {
    struct context base; /* first: its page table is set as that of any context */
    HANDLE system;       /* the system's handle, for what is told to it */
    ULONG number;        /* 1 and up */
};

/* Finds the hardware context of a report at the level of the interrupt; a context leaves it while the interrupt routine does not run. */
static struct hw_context *hw_contexts[TOY_CONTEXTS];

struct hw_queue {
    struct hw_context *context;
};

static NTSTATUS create_hw_context(HANDLE device, DXGKARG_CREATEHWCONTEXT *args)
{
    struct adapter *adapter = ((struct device *)device)->adapter;
    struct hw_context *context = allocate(sizeof(*context));
    if (!context)
        return STATUS_NO_MEMORY;
    context->base.adapter = adapter;
    context->system = args->hHwContext;
    for (ULONG i = 0; i < TOY_CONTEXTS && !context->number; i++)
        if (InterlockedCompareExchangePointer((PVOID *)&hw_contexts[i], context, NULL) == NULL)
            context->number = i + 1;
    if (!context->number) {
        ExFreePoolWithTag(context, TAG);
        return STATUS_NO_MEMORY;
    }
    args->hHwContext = context;
    return STATUS_SUCCESS;
}

/* Runs while the interrupt routine does not. */
static BOOLEAN forget_hw_context(PVOID handle)
{
    struct hw_context *context = handle;
    if (!context->base.adapter->stopped)
        write_register(context->base.adapter, TOY_FORGET, context->number);
    hw_contexts[context->number - 1] = NULL;
    return TRUE;
}

static NTSTATUS destroy_hw_context(HANDLE handle)
{
    struct hw_context *context = handle;
    struct adapter *adapter = context->base.adapter;
    BOOLEAN forgotten;
    adapter->interface.DxgkCbSynchronizeExecution(adapter->handle, forget_hw_context, context, 0, &forgotten);
    ExFreePoolWithTag(context, TAG);
    return STATUS_SUCCESS;
}

static NTSTATUS create_hw_queue(HANDLE context, DXGKARG_CREATEHWQUEUE *args)
{
    struct hw_queue *queue = allocate(sizeof(*queue));
    if (!queue)
        return STATUS_NO_MEMORY;
    queue->context = context;
    args->hHwQueue = queue;
    return STATUS_SUCCESS;
}

static NTSTATUS destroy_hw_queue(HANDLE queue)
{
    ExFreePoolWithTag(queue, TAG);
    return STATUS_SUCCESS;
}

/* The node says RingBufferFenceRelease: the toy stores the progress value when the commands are done. */
static NTSTATUS submit_command_to_hw_queue(HANDLE handle, const DXGKARG_SUBMITCOMMANDTOHWQUEUE *args)
{
    struct adapter *adapter = handle;
    const struct hw_context *context = ((struct hw_queue *)args->hHwQueue)->context;
    KIRQL irql;

    KeAcquireSpinLock(&adapter->submission, &irql);
    write_register(adapter, TOY_ADDRESS_LOW, (ULONG)args->DmaBufferVirtualAddress);
    write_register(adapter, TOY_ADDRESS_HIGH, (ULONG)(args->DmaBufferVirtualAddress >> 32));
    write_register(adapter, TOY_SIZE, args->DmaBufferSize & ~(UINT)(sizeof(struct toy_command) - 1));
    write_register(adapter, TOY_ROOT_LOW, (ULONG)context->base.root);
    write_register(adapter, TOY_ROOT_HIGH, (ULONG)(context->base.root >> 32));
    write_register(adapter, TOY_FENCE_LOW, (ULONG)args->HwQueueProgressFenceGpuVa);
    write_register(adapter, TOY_FENCE_HIGH, (ULONG)(args->HwQueueProgressFenceGpuVa >> 32));
    write_register(adapter, TOY_VALUE_LOW, (ULONG)args->HwQueueProgressFenceId);
    write_register(adapter, TOY_VALUE_HIGH, (ULONG)(args->HwQueueProgressFenceId >> 32));
    write_register(adapter, TOY_SUBMIT_QUEUE, context->number);
    KeReleaseSpinLock(&adapter->submission, irql);
    return STATUS_SUCCESS;
}

/* Reported when the context has left the engine, also if it had before: STATUS_SUCCESS would say that it was suspended already. */
static NTSTATUS suspend_context(HANDLE handle, const DXGKARG_SUSPENDCONTEXT *args)
{
    struct adapter *adapter = handle;
    KIRQL irql;

    KeAcquireSpinLock(&adapter->submission, &irql);
    write_register(adapter, TOY_VALUE_LOW, (ULONG)args->contextSuspendFence);
    write_register(adapter, TOY_VALUE_HIGH, (ULONG)(args->contextSuspendFence >> 32));
    write_register(adapter, TOY_SUSPEND, ((const struct hw_context *)args->hContext)->number);
    KeReleaseSpinLock(&adapter->submission, irql);
    return STATUS_PENDING;
}

static NTSTATUS resume_context(HANDLE handle, const DXGKARG_RESUMECONTEXT *args)
{
    write_register(handle, TOY_RESUME, ((const struct hw_context *)args->hContext)->number);
    return STATUS_SUCCESS;
}

/* Stops what runs; its context is lost, and nobody else's. The engine stands still until it is resumed, so that nothing is reported. */
static NTSTATUS reset_hw_engine(HANDLE handle, DXGKARG_RESETHWENGINE *args)
{
    struct adapter *adapter = handle;
    DXGKARGCB_INVALIDATEHWCONTEXT lost = { .hAdapter = adapter->handle };
    ULONG number;
    UNREFERENCED_PARAMETER(args);
    write_register(adapter, TOY_STOP, 1);
    number = read_register(adapter, TOY_STOP);
    if (number == 0 || number > TOY_CONTEXTS || !hw_contexts[number - 1])
        return STATUS_SUCCESS;
    lost.hHwContext = hw_contexts[number - 1]->system;
    return adapter->interface.DxgkCbInvalidateHwContext(&lost);
}

static NTSTATUS resume_hw_engine(HANDLE handle, DXGKARG_RESUMEHWENGINE *args)
{
    UNREFERENCED_PARAMETER(args);
    write_register(handle, TOY_GO, 1);
    return STATUS_SUCCESS;
}

/* The toy takes its contexts in the order of their work: there are no lists, bands or quanta. */
static NTSTATUS switch_to_hw_context_list(HANDLE handle, const DXGKARG_SWITCHTOHWCONTEXTLIST *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_NOT_SUPPORTED;
}

static NTSTATUS update_hw_context_state(HANDLE handle, const DXGKARG_UPDATEHWCONTEXTSTATE *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

static NTSTATUS set_scheduling_log_buffer(HANDLE handle, const DXGKARG_SETSCHEDULINGLOGBUFFER *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

static NTSTATUS setup_priority_bands(HANDLE handle, const DXGKARG_SETUPPRIORITYBANDS *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

static NTSTATUS set_context_scheduling_properties(HANDLE handle, const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

/* Buffers that the kernel builds, for presents: there is no display. */
static NTSTATUS signal_monitored_fence(HANDLE context, DXGKARG_SIGNALMONITOREDFENCE *args)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(args);
    return STATUS_NOT_SUPPORTED;
}

static NTSTATUS present_to_hw_queue(HANDLE queue, VOID *present)
{
    UNREFERENCED_PARAMETER(queue);
    UNREFERENCED_PARAMETER(present);
    return STATUS_NOT_SUPPORTED;
}

/* The first report, if it is one of hardware queues. */
static BOOLEAN report_of_queues(struct adapter *adapter, ULONG kind, ULONG number, DXGKARGCB_NOTIFY_INTERRUPT_DATA *data)
{
    if (kind == TOY_REPORT_PROGRESS) {
        data->InterruptType = DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
        return TRUE;
    }
    if ((kind != TOY_REPORT_QUEUE_FAULT && kind != TOY_REPORT_SUSPENDED) || number == 0 || number > TOY_CONTEXTS)
        return FALSE;
    UINT64 value = read_register(adapter, TOY_REPORT_LOW) | (UINT64)read_register(adapter, TOY_REPORT_HIGH) << 32;
    if (kind == TOY_REPORT_SUSPENDED) {
        data->InterruptType = DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED;
        data->SuspendContextCompleted.hContext = hw_contexts[number - 1];
        data->SuspendContextCompleted.ContextSuspendFence = value;
        return TRUE;
    }
    data->InterruptType = DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED;
    data->HwQueuePageFaulted.FaultedHwContext = hw_contexts[number - 1];
    data->HwQueuePageFaulted.PageFaultFlags = DXGK_PAGE_FAULT_HW_CONTEXT_VALID;
    data->HwQueuePageFaulted.FaultedVirtualAddress = value;
    return TRUE;
}

static VOID register_queues(DRIVER_INITIALIZATION_DATA *data)
{
    data->DxgkDdiCreateHwContext = create_hw_context;
    data->DxgkDdiDestroyHwContext = destroy_hw_context;
    data->DxgkDdiCreateHwQueue = create_hw_queue;
    data->DxgkDdiDestroyHwQueue = destroy_hw_queue;
    data->DxgkDdiSubmitCommandToHwQueue = submit_command_to_hw_queue;
    data->DxgkDdiSuspendContext = suspend_context;
    data->DxgkDdiResumeContext = resume_context;
    data->DxgkDdiResetHwEngine = reset_hw_engine;
    data->DxgkDdiResumeHwEngine = resume_hw_engine;
    data->DxgkDdiSwitchToHwContextList = switch_to_hw_context_list;
    data->DxgkDdiUpdateHwContextState = update_hw_context_state;
    data->DxgkDdiSetSchedulingLogBuffer = set_scheduling_log_buffer;
    data->DxgkDdiSetupPriorityBands = setup_priority_bands;
    data->DxgkDdiSetContextSchedulingProperties = set_context_scheduling_properties;
    data->DxgkDdiSignalMonitoredFence = signal_monitored_fence;
    data->DxgkDdiPresentToHwQueue = present_to_hw_queue;
}
