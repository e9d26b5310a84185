/*
 * A kernel-mode driver for the toy of toy.h: the least that a compute-only adapter with packet scheduling consists of, written from the
 * public documentation. Copy it, and put your function in the place of the toy. It is written for WDDM 3.2, and for the other versions from 2.0 on
 * where DXGKDDI_INTERFACE_VERSION is one of these.
 *
 * The order of the file is that in which a driver comes to life: registration, plug and play, answers about the adapter, objects, memory, packets,
 * interrupts, timeouts. Entry points that have nothing to do here say why. Hardware scheduling, which is left out unless TOY_HARDWARE_QUEUES is defined, is
 * in toy_queues.c.
 */
#define INITGUID
#include <ntddk.h>
#include <dispmprt.h>
#include <d3dkmddi.h>

#include "toy.h"

#define TAG 'yoTW'

/* DXGK_WDDMVERSION of the interface version: 0x5 and what follows are 2.0 to 2.9, 0xf and what follows 3.0 and later. */
#define TOY_MODEL (DXGKDDI_INTERFACE_VERSION >> 12)
#define TOY_WDDM_VERSION (TOY_MODEL < 15 ? 0x2000 + 0x100 * (TOY_MODEL - 5) : 0x3000 + 0x100 * (TOY_MODEL - 15))

/* Memory segments, counted from 1 in the order in which they are described. */
#define SEGMENT_SYSTEM 1
#define SEGMENT_LOCAL 2
/* Page tables lie in system memory: in a local memory segment they must not be written by DXGK_PAGETABLEUPDATE_CPU_VIRTUAL [DXGK_GPUMMUCAPS]. */
#define SEGMENT_TABLES 0

struct adapter {
    DXGKRNL_INTERFACE interface;
    HANDLE handle;
    volatile ULONG *registers;
    BOOLEAN stopped;           /* the interrupt routine leaves the registers alone */
    PHYSICAL_ADDRESS memory;   /* bus address of BAR2 */
    KSPIN_LOCK submission;     /* one packet's registers are written without another's in between */
};

struct device {
    struct adapter *adapter;
};

struct context {
    struct adapter *adapter;
    UINT64 root; /* the root page table, as the function takes it */
};

struct allocation {
    UINT64 size;
};

static VOID *allocate(SIZE_T size)
{
    return ExAllocatePool2(POOL_FLAG_NON_PAGED, size, TAG);
}

static ULONG read_register(struct adapter *adapter, ULONG offset)
{
    return READ_REGISTER_ULONG((PULONG)&adapter->registers[offset / 4]);
}

static VOID write_register(struct adapter *adapter, ULONG offset, ULONG value)
{
    WRITE_REGISTER_ULONG((PULONG)&adapter->registers[offset / 4], value);
}

/* ---- Plug and play ---- */

static DXGKDDI_ADD_DEVICE add_device;
static NTSTATUS add_device(PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext)
{
    UNREFERENCED_PARAMETER(PhysicalDeviceObject);
    *MiniportDeviceContext = allocate(sizeof(struct adapter)); /* zeroed */
    return *MiniportDeviceContext ? STATUS_SUCCESS : STATUS_NO_MEMORY;
}

static NTSTATUS remove_device(PVOID context)
{
    ExFreePoolWithTag(context, TAG);
    return STATUS_SUCCESS;
}

static DXGKDDI_START_DEVICE start_device;
static NTSTATUS start_device(PVOID context, DXGK_START_INFO *info, DXGKRNL_INTERFACE *interface, PULONG sources, PULONG children)
{
    struct adapter *adapter = context;
    DXGK_DEVICE_INFO device;
    PHYSICAL_ADDRESS registers = { 0 };
    NTSTATUS status;

    UNREFERENCED_PARAMETER(info);
    /* The table itself goes away when this function returns. */
    adapter->interface = *interface;
    adapter->handle = interface->DeviceHandle;
    *sources = 0;
    *children = 0;
    status = adapter->interface.DxgkCbGetDeviceInformation(adapter->handle, &device);
    if (!NT_SUCCESS(status))
        return status;
    const CM_PARTIAL_RESOURCE_LIST *list = &device.TranslatedResourceList->List[0].PartialResourceList;
    for (ULONG i = 0; i < list->Count; i++) {
        const CM_PARTIAL_RESOURCE_DESCRIPTOR *resource = &list->PartialDescriptors[i];
        if (resource->Type != CmResourceTypeMemory)
            continue;
        if (resource->u.Memory.Length == TOY_REGISTERS)
            registers = resource->u.Memory.Start;
        else if (resource->u.Memory.Length == TOY_MEMORY)
            adapter->memory = resource->u.Memory.Start;
    }
    if (registers.QuadPart == 0 || adapter->memory.QuadPart == 0) {
        DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, "toy: a BAR is missing\n");
        return STATUS_UNSUCCESSFUL;
    }
    status = adapter->interface.DxgkCbMapMemory(adapter->handle, registers, TOY_REGISTERS, FALSE, FALSE, MmNonCached, (PVOID *)&adapter->registers);
    if (!NT_SUCCESS(status))
        return status;
    if (read_register(adapter, TOY_ID) != TOY_ID_VALUE) {
        DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, "toy: the function is no toy: %08x\n", read_register(adapter, TOY_ID));
        adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);
        return STATUS_UNSUCCESSFUL;
    }
    KeInitializeSpinLock(&adapter->submission);
    adapter->stopped = FALSE;
#if defined(TOY_HARDWARE_QUEUES) && DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_9
    /* From this version on the functions of hardware queues alone offer nothing. A refusal leaves packets. */
    DXGKARGCB_QUERYFEATURESUPPORT queues = { 0 };
    queues.DeviceHandle = adapter->handle;
    queues.FeatureId = DXGK_FEATURE_HWSCH;
    queues.DriverSupportState = DXGK_FEATURE_SUPPORT_STABLE;
    status = adapter->interface.DxgkCbQueryFeatureSupport(&queues);
    if (!NT_SUCCESS(status) || !queues.Enabled)
        DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_INFO_LEVEL, "toy: no hardware scheduling: %08x\n", status);
#endif
    write_register(adapter, TOY_RESET, 1);
    DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_INFO_LEVEL, "toy: started, memory at %llx\n", adapter->memory.QuadPart);
    return STATUS_SUCCESS;
}

/* Runs while the interrupt routine does not, which leaves the registers alone from then on. */
static BOOLEAN stop_interrupts(PVOID context)
{
    struct adapter *adapter = context;
    adapter->stopped = TRUE;
    return TRUE;
}

static NTSTATUS stop_device(PVOID context)
{
    struct adapter *adapter = context;
    BOOLEAN stopped;
    write_register(adapter, TOY_RESET, 1);
    adapter->interface.DxgkCbSynchronizeExecution(adapter->handle, stop_interrupts, adapter, 0, &stopped);
    return adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);
}

/* Any level, also while the machine stops. */
static VOID reset_device(PVOID context)
{
    write_register(context, TOY_RESET, 1);
}

/* D3 loses nothing: the function has no state that a packet in flight does not bring along, and its memory is evicted before. */
static NTSTATUS set_power_state(PVOID context, ULONG device, DEVICE_POWER_STATE state, POWER_ACTION action)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(state);
    UNREFERENCED_PARAMETER(action);
    return STATUS_SUCCESS;
}

/* The function is gone: what is read of it from here on is all ones, and the interrupt routine takes that for nothing. */
static NTSTATUS notify_surprise_removal(PVOID context, DXGK_SURPRISE_REMOVAL_TYPE type)
{
    UNREFERENCED_PARAMETER(context);
    return type == DxgkRemovalPnPNotify ? STATUS_SUCCESS : STATUS_NOT_SUPPORTED;
}

static VOID unload(VOID)
{
}

/* A compute-only adapter has no children. */
static NTSTATUS query_child_relations(PVOID context, DXGK_CHILD_DESCRIPTOR *relations, ULONG size)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(relations);
    UNREFERENCED_PARAMETER(size);
    return STATUS_SUCCESS;
}

static NTSTATUS query_child_status(PVOID context, DXGK_CHILD_STATUS *status, BOOLEAN non_destructive)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(status);
    UNREFERENCED_PARAMETER(non_destructive);
    return STATUS_NOT_SUPPORTED;
}

static NTSTATUS query_device_descriptor(PVOID context, ULONG child, DXGK_DEVICE_DESCRIPTOR *descriptor)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(child);
    UNREFERENCED_PARAMETER(descriptor);
    return STATUS_NOT_SUPPORTED;
}

#ifdef TOY_HARDWARE_QUEUES
#include "toy_queues.c"
#endif

/* ---- What the adapter can do ---- */

static VOID driver_caps(DXGK_DRIVERCAPS *caps)
{
    caps->HighestAcceptableAddress.QuadPart = -1;
    caps->WDDMVersion = TOY_WDDM_VERSION;
    caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_6
    caps->MiscCaps.ComputeOnly = 1;
#endif
    caps->SchedulingCaps.MultiEngineAware = 1;
    caps->SchedulingCaps.PreemptionAware = 1;
    caps->SchedulingCaps.LowIrqlPreemptCommand = 1;
    caps->MemoryManagementCaps.VirtualAddressingSupported = 1;
    caps->MemoryManagementCaps.GpuMmuSupported = 1;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_2
    caps->MemoryManagementCaps.ParavirtualizationSupported = 1;
#endif
    caps->MemoryManagementCaps.PagingNode = 0;
    caps->SupportPerEngineTDR = 1;
    caps->SupportSurpriseRemoval = 1;
    caps->PreemptionCaps.ComputePreemptionGranularity = D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
}

static VOID segments(const struct adapter *adapter, DXGK_QUERYSEGMENTOUT4 *out)
{
    /* The first time only the numbers are wanted. */
    out->NbSegment = 2;
    out->PagingBufferSegmentId = SEGMENT_SYSTEM;
    out->PagingBufferSize = 64 * 1024;
    if (!out->pSegmentDescriptor)
        return;
    DXGK_SEGMENTDESCRIPTOR4 *system = (VOID *)out->pSegmentDescriptor;
    DXGK_SEGMENTDESCRIPTOR4 *local = (VOID *)(out->pSegmentDescriptor + out->SegmentDescriptorStride);
    RtlZeroMemory(system, sizeof(*system));
    system->Flags.Aperture = 1;
    system->Flags.CacheCoherent = 1;
    system->Size = 64 << 20;
    system->CommitLimit = 64 << 20;
    RtlZeroMemory(local, sizeof(*local));
    local->Flags.CpuVisible = 1;
    local->Size = TOY_MEMORY;
    local->CpuTranslatedAddress = adapter->memory;
}

static NTSTATUS query_adapter_info(HANDLE handle, const DXGKARG_QUERYADAPTERINFO *args)
{
    SIZE_T need;
    switch (args->Type) {
    case DXGKQAITYPE_DRIVERCAPS: need = sizeof(DXGK_DRIVERCAPS); break;
    case DXGKQAITYPE_WDDMDEVICECAPS: need = sizeof(DXGK_WDDMDEVICECAPS); break;
    case DXGKQAITYPE_GPUMMUCAPS: need = sizeof(DXGK_GPUMMUCAPS); break;
    case DXGKQAITYPE_PAGETABLELEVELDESC: need = sizeof(DXGK_PAGE_TABLE_LEVEL_DESC); break;
    case DXGKQAITYPE_QUERYSEGMENT4: need = sizeof(DXGK_QUERYSEGMENTOUT4); break;
    case DXGKQAITYPE_HISTORYBUFFERPRECISION: need = sizeof(DXGKARG_HISTORYBUFFERPRECISION); break;
    case DXGKQAITYPE_NUMPOWERCOMPONENTS: need = sizeof(UINT); break;
    default: return STATUS_NOT_SUPPORTED;
    }
    if (args->OutputDataSize < need)
        return STATUS_BUFFER_TOO_SMALL;
    if (args->Type == DXGKQAITYPE_QUERYSEGMENT4) {
        segments(handle, args->pOutputData);
        return STATUS_SUCCESS;
    }
    RtlZeroMemory(args->pOutputData, need);
    if (args->Type == DXGKQAITYPE_DRIVERCAPS) {
        driver_caps(args->pOutputData);
    } else if (args->Type == DXGKQAITYPE_WDDMDEVICECAPS) {
        ((DXGK_WDDMDEVICECAPS *)args->pOutputData)->WDDMVersion = TOY_WDDM_VERSION;
    } else if (args->Type == DXGKQAITYPE_GPUMMUCAPS) {
        DXGK_GPUMMUCAPS *caps = args->pOutputData;
        caps->ReadOnlyMemorySupported = 1;
        caps->ZeroInPteSupported = 1;
        caps->CacheCoherentMemorySupported = 1;
        caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
        caps->VirtualAddressBitCount = TOY_ADDRESS_BITS;
        caps->PageTableLevelCount = TOY_LEVELS;
    } else if (args->Type == DXGKQAITYPE_PAGETABLELEVELDESC) {
        DXGK_PAGE_TABLE_LEVEL_DESC *level = args->pOutputData; /* the same on each */
        level->PageTableIndexBitCount = 9;
        level->PageTableSegmentId = SEGMENT_TABLES;
        level->PagingProcessPageTableSegmentId = SEGMENT_TABLES;
        level->PageTableSizeInBytes = PAGE_SIZE;
        level->PageTableAlignmentInBytes = PAGE_SIZE;
    } else if (args->Type == DXGKQAITYPE_HISTORYBUFFERPRECISION) {
        ((DXGKARG_HISTORYBUFFERPRECISION *)args->pOutputData)->PrecisionBits = 64;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS get_node_metadata(HANDLE handle, UINT node, DXGK_NODEMETADATA *metadata)
{
    UNREFERENCED_PARAMETER(handle);
    if (node != 0)
        return STATUS_INVALID_PARAMETER;
    RtlZeroMemory(metadata, sizeof(*metadata));
    metadata->EngineType = DXGK_ENGINE_TYPE_OTHER;
    metadata->FriendlyName[0] = 't';
    metadata->FriendlyName[1] = 'o';
    metadata->FriendlyName[2] = 'y';
    metadata->GpuMmuSupported = TRUE;
#ifdef TOY_HARDWARE_QUEUES
    metadata->Flags.ContextSchedulingSupported = 1;
    metadata->Flags.RingBufferFenceRelease = 1;
    metadata->Flags.MaxInFlightHwQueueBuffers = 8;
#endif
    return STATUS_SUCCESS;
}

/* ---- Processes, devices, contexts ---- */

/* Processes need nothing here, but a handle that is not NULL. */
static NTSTATUS create_process(HANDLE handle, DXGKARG_CREATEPROCESS *args)
{
    args->hKmdProcess = handle;
    return STATUS_SUCCESS;
}

static NTSTATUS destroy_process(HANDLE handle, HANDLE process)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(process);
    return STATUS_SUCCESS;
}

static NTSTATUS create_device(HANDLE handle, DXGKARG_CREATEDEVICE *args)
{
    struct device *device = allocate(sizeof(*device));
    if (!device)
        return STATUS_NO_MEMORY;
    device->adapter = handle;
    args->hDevice = device;
    return STATUS_SUCCESS;
}

static NTSTATUS destroy_device(HANDLE device)
{
    ExFreePoolWithTag(device, TAG);
    return STATUS_SUCCESS;
}

static NTSTATUS create_context(HANDLE device, DXGKARG_CREATECONTEXT *args)
{
    struct context *context = allocate(sizeof(*context));
    if (!context)
        return STATUS_NO_MEMORY;
    context->adapter = ((struct device *)device)->adapter;
    args->hContext = context;
    args->ContextInfo.DmaBufferSize = PAGE_SIZE;
    args->ContextInfo.DmaBufferSegmentSet = 1 << (SEGMENT_SYSTEM - 1);
    args->ContextInfo.Caps.NoPatchingRequired = 1;
    return STATUS_SUCCESS;
}

static NTSTATUS destroy_context(HANDLE context)
{
    ExFreePoolWithTag(context, TAG);
    return STATUS_SUCCESS;
}

/* ---- Allocations ---- */

static NTSTATUS describe(const VOID *data, UINT size, DXGK_ALLOCATIONINFO *info)
{
    struct toy_allocation wanted;
    struct allocation *allocation;
    /* From user mode: nothing of it is believed. */
    if (!data || size < sizeof(wanted))
        return STATUS_INVALID_PARAMETER;
    RtlCopyMemory(&wanted, data, sizeof(wanted));
    if (wanted.size == 0 || wanted.size > TOY_MEMORY / 2)
        return STATUS_INVALID_PARAMETER;
    allocation = allocate(sizeof(*allocation));
    if (!allocation)
        return STATUS_NO_MEMORY;
    allocation->size = (wanted.size + PAGE_SIZE - 1) & ~(UINT64)(PAGE_SIZE - 1);
    info->hAllocation = allocation;
    info->Size = allocation->size;
    info->PreferredSegment.SegmentId0 = wanted.local ? SEGMENT_LOCAL : SEGMENT_SYSTEM;
    info->SupportedWriteSegmentSet = wanted.local ? 1 << (SEGMENT_LOCAL - 1) : 1 << (SEGMENT_SYSTEM - 1);
    info->FlagsWddm2.CpuVisible = 1;
    info->FlagsWddm2.Cached = !wanted.local;
    info->AllocationPriority = 0x78000000; /* D3DDDI_ALLOCATIONPRIORITY_NORMAL */
    return STATUS_SUCCESS;
}

static NTSTATUS create_allocation(HANDLE handle, DXGKARG_CREATEALLOCATION *args)
{
    UNREFERENCED_PARAMETER(handle);
    for (UINT i = 0; i < args->NumAllocations; i++) {
        DXGK_ALLOCATIONINFO *info = &args->pAllocationInfo[i];
        NTSTATUS status = describe(info->pPrivateDriverData, info->PrivateDriverDataSize, info);
        if (!NT_SUCCESS(status)) {
            /* Nothing of a call that fails stays. */
            while (i-- > 0)
                ExFreePoolWithTag(args->pAllocationInfo[i].hAllocation, TAG);
            return status;
        }
    }
    return STATUS_SUCCESS;
}

static NTSTATUS destroy_allocation(HANDLE handle, const DXGKARG_DESTROYALLOCATION *args)
{
    UNREFERENCED_PARAMETER(handle);
    for (UINT i = 0; i < args->NumAllocations; i++)
        ExFreePoolWithTag(args->pAllocationList[i], TAG);
    return STATUS_SUCCESS;
}

/* Nothing of an allocation differs from device to device: its handle there is the device's own. */
static NTSTATUS open_allocation(HANDLE device, const DXGKARG_OPENALLOCATION *args)
{
    for (UINT i = 0; i < args->NumAllocations; i++)
        args->pOpenAllocation[i].hDeviceSpecificAllocation = device;
    return STATUS_SUCCESS;
}

static NTSTATUS close_allocation(HANDLE device, const DXGKARG_CLOSEALLOCATION *args)
{
    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

/* Surfaces of displays: there are none. */
static NTSTATUS describe_allocation(HANDLE handle, DXGKARG_DESCRIBEALLOCATION *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_NOT_SUPPORTED;
}

static NTSTATUS get_standard_allocation(HANDLE handle, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_NOT_SUPPORTED;
}

/* ---- Paging ---- */

static UINT64 entry_of(const DXGK_PTE *pte)
{
    if (!pte->Valid)
        return 0;
    return (UINT64)pte->PageAddress << PAGE_SHIFT | TOY_PTE_VALID | (pte->ReadOnly ? TOY_PTE_READ_ONLY : 0) |
           (pte->Segment == 0 ? TOY_PTE_SYSTEM : 0) | (pte->Zero ? TOY_PTE_ZERO : 0);
}

/* The processor writes page tables where they lie: in a directory, the places of tables. */
static NTSTATUS update_page_table(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE *update)
{
    volatile UINT64 *table = update->PageTableAddress.CpuVirtual;
    if (update->UpdateMode != DXGK_PAGETABLEUPDATE_CPU_VIRTUAL || update->NumPageTableEntries > 512 ||
        update->StartIndex > 512 - update->NumPageTableEntries)
        return STATUS_INVALID_PARAMETER;
    for (UINT i = 0; i < update->NumPageTableEntries; i++)
        table[update->StartIndex + i] = entry_of(&update->pPageTableEntries[update->Flags.Repeat ? 0 : i]);
    return STATUS_SUCCESS;
}

/* Puts a command into the buffer, if there is room. */
static NTSTATUS emit(DXGKARG_BUILDPAGINGBUFFER *args, UINT operation, UINT value, UINT64 to, UINT64 from, UINT64 size)
{
    struct toy_command *command = args->pDmaBuffer;
    if (args->DmaSize < sizeof(*command))
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    command->operation = operation;
    command->value = value;
    command->to = to;
    command->from = from;
    command->size = size;
    args->pDmaBuffer = command + 1;
    return STATUS_SUCCESS;
}

/* Copies page-table entries, which lie at addresses of the paging process. A range that the buffer has no space for is asked for again in the next buffer. */
static NTSTATUS copy_entries(DXGKARG_BUILDPAGINGBUFFER *args)
{
    for (; args->MultipassOffset < args->CopyPageTableEntries.NumRanges; args->MultipassOffset++) {
        const DXGK_BUILDPAGINGBUFFER_COPY_RANGE *range = &args->CopyPageTableEntries.pRanges[args->MultipassOffset];
        const UINT64 to = range->DstPageTableAddress + 8 * range->DstStartPteIndex, from = range->SrcPageTableAddress + 8 * range->SrcStartPteIndex;
        const NTSTATUS status = emit(args, TOY_COPY, 0, to, from, 8 * range->NumPageTableEntries);

        if (status != STATUS_SUCCESS)
            return status;
        args->DmaSize -= sizeof(struct toy_command);
    }
    return STATUS_SUCCESS;
}

/*
 * The operations that the system asks for of an adapter with these capabilities. One that needs no work is a success without commands; another one
 * would be a promise that this driver did not make.
 */
static NTSTATUS build_paging_buffer(HANDLE handle, DXGKARG_BUILDPAGINGBUFFER *args)
{
    UNREFERENCED_PARAMETER(handle);
    switch (args->Operation) {
    case DXGK_OPERATION_UPDATE_PAGE_TABLE:
        return update_page_table(&args->UpdatePageTable);
    case DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES:
        return copy_entries(args);
    case DXGK_OPERATION_VIRTUAL_TRANSFER:
        return emit(args, TOY_COPY, 0, args->TransferVirtual.DestinationVirtualAddress, args->TransferVirtual.SourceVirtualAddress,
                    args->TransferVirtual.TransferSizeInBytes);
    case DXGK_OPERATION_VIRTUAL_FILL:
        return emit(args, TOY_FILL, args->FillVirtual.FillPattern, args->FillVirtual.DestinationVirtualAddress, 0,
                    args->FillVirtual.FillSizeInBytes);
    case DXGK_OPERATION_SIGNAL_MONITORED_FENCE:
        return emit(args, TOY_STORE, 0, args->SignalMonitoredFence.MonitoredFenceGpuVa, args->SignalMonitoredFence.MonitoredFenceValue, 8);
    case DXGK_OPERATION_FLUSH_TLB: /* the toy remembers no translations */
    case DXGK_OPERATION_NOTIFY_RESIDENCY:
        return STATUS_SUCCESS;
    default:
        DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, "toy: paging operation %d is not served\n", args->Operation);
        return STATUS_INVALID_PARAMETER;
    }
}

/* Asked where there are two levels of page tables, which the toy has not; the entries of a page here. */
static SIZE_T get_root_page_table_size(HANDLE handle, DXGKARG_GETROOTPAGETABLESIZE *args)
{
    UNREFERENCED_PARAMETER(handle);
    args->NumberOfPte = 512;
    return PAGE_SIZE;
}

/* Of a context, or of a hardware context, which begins with one. */
static VOID set_root_page_table(HANDLE handle, const DXGKARG_SETROOTPAGETABLE *args)
{
    UNREFERENCED_PARAMETER(handle);
    ((struct context *)args->hContext)->root = args->Address.SegmentOffset | (args->Address.SegmentId == 0 ? TOY_PTE_SYSTEM : 0);
}

/* ---- Packets ---- */

static NTSTATUS submit_command_virtual(HANDLE handle, const DXGKARG_SUBMITCOMMANDVIRTUAL *args)
{
    struct adapter *adapter = handle;
    const struct context *context = args->hContext;
    UINT64 address = args->DmaBufferVirtualAddress;
    KIRQL irql;

    KeAcquireSpinLock(&adapter->submission, &irql);
    write_register(adapter, TOY_ADDRESS_LOW, (ULONG)address);
    write_register(adapter, TOY_ADDRESS_HIGH, (ULONG)(address >> 32));
    write_register(adapter, TOY_SIZE, args->DmaBufferSize & ~(UINT)(sizeof(struct toy_command) - 1));
    /* The packet of a node's own, with which the system finds out whether it is alive, has no context and no commands. */
    write_register(adapter, TOY_ROOT_LOW, context ? (ULONG)context->root : 0);
    write_register(adapter, TOY_ROOT_HIGH, context ? (ULONG)(context->root >> 32) : 0);
    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);
    KeReleaseSpinLock(&adapter->submission, irql);
    return STATUS_SUCCESS;
}

/* Answered by a report when nothing runs any more. */
static NTSTATUS preempt_command(HANDLE handle, const DXGKARG_PREEMPTCOMMAND *args)
{
    write_register(handle, TOY_PREEMPT, args->PreemptionFenceId);
    return STATUS_SUCCESS;
}

/* ---- Interrupts ---- */

static VOID fault_of(struct adapter *adapter, UINT number, DXGKARGCB_NOTIFY_INTERRUPT_DATA *data)
{
    data->InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
    data->DmaPageFaulted.FaultedFenceId = number;
    data->DmaPageFaulted.FaultedVirtualAddress =
        read_register(adapter, TOY_REPORT_LOW) | (UINT64)read_register(adapter, TOY_REPORT_HIGH) << 32;
}

static BOOLEAN interrupt_routine(PVOID context, ULONG message)
{
    struct adapter *adapter = context;
    BOOLEAN any = FALSE;
    ULONG kind;

    UNREFERENCED_PARAMETER(message);
    if (adapter->stopped)
        return FALSE;
    while ((kind = read_register(adapter, TOY_REPORT)) != 0) {
        DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
        ULONG number = read_register(adapter, TOY_REPORT_NUMBER);
        /* The function may go between two reads: what is gone reads as ones. */
        if (kind == 0xffffffff || number == 0xffffffff)
            break;
        RtlZeroMemory(&data, sizeof(data));
        if (kind == TOY_REPORT_COMPLETED) {
            data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
            data.DmaCompleted.SubmissionFenceId = number;
        } else if (kind == TOY_REPORT_PREEMPTED) {
            data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
            data.DmaPreempted.PreemptionFenceId = number;
            data.DmaPreempted.LastCompletedFenceId = read_register(adapter, TOY_COMPLETED);
#ifdef TOY_HARDWARE_QUEUES
        } else if (report_of_queues(adapter, kind, number, &data)) {
            ; /* that is all of it */
#endif
        } else {
            fault_of(adapter, number, &data);
        }
        write_register(adapter, TOY_REPORT_TAKE, 1);
        adapter->interface.DxgkCbNotifyInterrupt(adapter->handle, &data);
        any = TRUE;
    }
    if (any)
        adapter->interface.DxgkCbQueueDpc(adapter->handle);
    return any;
}

static VOID dpc_routine(PVOID context)
{
    struct adapter *adapter = context;
    adapter->interface.DxgkCbNotifyDpc(adapter->handle);
}

/* ---- Timeouts ---- */

static NTSTATUS query_dependent_engine_group(HANDLE handle, DXGKARG_QUERYDEPENDENTENGINEGROUP *args)
{
    UNREFERENCED_PARAMETER(handle);
    args->DependentNodeOrdinalMask = 1;
    return STATUS_SUCCESS;
}

static NTSTATUS query_engine_status(HANDLE handle, DXGKARG_QUERYENGINESTATUS *args)
{
    args->EngineStatus.Responsive = !read_register(handle, TOY_BUSY);
    return STATUS_SUCCESS;
}

/* Runs while the interrupt routine does not, which reads one report register by register. */
static BOOLEAN reset_function(PVOID context)
{
    write_register(context, TOY_RESET, 1);
    write_register(context, TOY_STOP, 1);
    return TRUE;
}

/* What ran is thrown away and named; what waited comes again from the system. */
static NTSTATUS reset_engine(HANDLE handle, DXGKARG_RESETENGINE *args)
{
    write_register(handle, TOY_RESET, 1);
    args->LastAbortedFenceId = read_register(handle, TOY_RESET);
    if (args->LastAbortedFenceId == 0)
        args->LastAbortedFenceId = read_register(handle, TOY_COMPLETED);
    return STATUS_SUCCESS;
}

static NTSTATUS reset_from_timeout(HANDLE handle)
{
    struct adapter *adapter = handle;
    BOOLEAN done;
    adapter->interface.DxgkCbSynchronizeExecution(adapter->handle, reset_function, adapter, 0, &done);
    return STATUS_SUCCESS;
}

static NTSTATUS restart_from_timeout(HANDLE handle)
{
    write_register(handle, TOY_GO, 1);
    return STATUS_SUCCESS;
}

static NTSTATUS collect_dbg_info(HANDLE handle, const DXGKARG_COLLECTDBGINFO *args)
{
    if (args->BufferSize >= sizeof(ULONG))
        *(ULONG *)args->pBuffer = read_register(handle, TOY_COMPLETED);
    return STATUS_SUCCESS;
}

/* The toy has no clock: it shares the processor's. */
static NTSTATUS calibrate_gpu_clock(HANDLE handle, UINT node, UINT engine, DXGK_GPUCLOCKDATA *data)
{
    LARGE_INTEGER frequency;
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(node);
    UNREFERENCED_PARAMETER(engine);
    RtlZeroMemory(data, sizeof(*data));
    data->CpuClockCounter = KeQueryPerformanceCounter(&frequency).QuadPart;
    data->GpuClockCounter = data->CpuClockCounter;
    data->GpuFrequency = frequency.QuadPart;
    return STATUS_SUCCESS;
}

static NTSTATUS format_history_buffer(HANDLE context, DXGKARG_FORMATHISTORYBUFFER *args)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(args);
    return STATUS_NOT_SUPPORTED;
}

/* Its clock is always stable. */
static NTSTATUS set_stable_power_state(HANDLE handle, const DXGKARG_SETSTABLEPOWERSTATE *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_4
static NTSTATUS set_virtual_machine_data(HANDLE handle, const DXGKARG_SETVIRTUALMACHINEDATA *args)
{
    UNREFERENCED_PARAMETER(handle);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}
#endif

/* Before WDDM 2.6 no adapter is compute-only. One that only renders has these besides, which it has no use for. */
#if DXGKDDI_INTERFACE_VERSION < DXGKDDI_INTERFACE_VERSION_WDDM2_6
static NTSTATUS dispatch_io_request(PVOID context, ULONG source, PVIDEO_REQUEST_PACKET packet)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(source);
    UNREFERENCED_PARAMETER(packet);
    return STATUS_NOT_SUPPORTED;
}

static NTSTATUS notify_acpi_event(PVOID context, DXGK_EVENT_TYPE type, ULONG event, PVOID argument, ULONG *flags)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(type);
    UNREFERENCED_PARAMETER(event);
    UNREFERENCED_PARAMETER(argument);
    *flags = 0;
    return STATUS_SUCCESS;
}

static NTSTATUS query_interface(PVOID context, QUERY_INTERFACE *query)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(query);
    return STATUS_NOT_SUPPORTED;
}

static VOID control_etw_logging(BOOLEAN enable, ULONG flags, UCHAR level)
{
    UNREFERENCED_PARAMETER(enable);
    UNREFERENCED_PARAMETER(flags);
    UNREFERENCED_PARAMETER(level);
}
#endif

/* ---- Registration ---- */

DRIVER_INITIALIZE DriverEntry;
NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath)
{
    DRIVER_INITIALIZATION_DATA data;

    RtlZeroMemory(&data, sizeof(data));
    data.Version = DXGKDDI_INTERFACE_VERSION;
    data.DxgkDdiAddDevice = add_device;
    data.DxgkDdiStartDevice = start_device;
    data.DxgkDdiStopDevice = stop_device;
    data.DxgkDdiRemoveDevice = remove_device;
    data.DxgkDdiResetDevice = reset_device;
    data.DxgkDdiSetPowerState = set_power_state;
    data.DxgkDdiNotifySurpriseRemoval = notify_surprise_removal;
    data.DxgkDdiUnload = unload;
    data.DxgkDdiQueryChildRelations = query_child_relations;
    data.DxgkDdiQueryChildStatus = query_child_status;
    data.DxgkDdiQueryDeviceDescriptor = query_device_descriptor;
    data.DxgkDdiInterruptRoutine = interrupt_routine;
    data.DxgkDdiDpcRoutine = dpc_routine;
    data.DxgkDdiQueryAdapterInfo = query_adapter_info;
    data.DxgkDdiGetNodeMetadata = get_node_metadata;
    data.DxgkDdiCreateProcess = create_process;
    data.DxgkDdiDestroyProcess = destroy_process;
    data.DxgkDdiCreateDevice = create_device;
    data.DxgkDdiDestroyDevice = destroy_device;
    data.DxgkDdiCreateContext = create_context;
    data.DxgkDdiDestroyContext = destroy_context;
    data.DxgkDdiCreateAllocation = create_allocation;
    data.DxgkDdiDestroyAllocation = destroy_allocation;
    data.DxgkDdiOpenAllocation = open_allocation;
    data.DxgkDdiCloseAllocation = close_allocation;
    data.DxgkDdiDescribeAllocation = describe_allocation;
    data.DxgkDdiGetStandardAllocationDriverData = get_standard_allocation;
    data.DxgkDdiBuildPagingBuffer = build_paging_buffer;
    data.DxgkDdiGetRootPageTableSize = get_root_page_table_size;
    data.DxgkDdiSetRootPageTable = set_root_page_table;
    data.DxgkDdiSubmitCommandVirtual = submit_command_virtual;
    data.DxgkDdiPreemptCommand = preempt_command;
    data.DxgkDdiQueryDependentEngineGroup = query_dependent_engine_group;
    data.DxgkDdiQueryEngineStatus = query_engine_status;
    data.DxgkDdiResetEngine = reset_engine;
    data.DxgkDdiResetFromTimeout = reset_from_timeout;
    data.DxgkDdiRestartFromTimeout = restart_from_timeout;
    data.DxgkDdiCollectDbgInfo = collect_dbg_info;
    data.DxgkDdiCalibrateGpuClock = calibrate_gpu_clock;
    data.DxgkDdiFormatHistoryBuffer = format_history_buffer;
    data.DxgkDdiSetStablePowerState = set_stable_power_state;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_4
    data.DxgkDdiSetVirtualMachineData = set_virtual_machine_data;
#endif
#if DXGKDDI_INTERFACE_VERSION < DXGKDDI_INTERFACE_VERSION_WDDM2_6
    data.DxgkDdiDispatchIoRequest = dispatch_io_request;
    data.DxgkDdiNotifyAcpiEvent = notify_acpi_event;
    data.DxgkDdiQueryInterface = query_interface;
    data.DxgkDdiControlEtwLogging = control_etw_logging;
#endif
#ifdef TOY_HARDWARE_QUEUES
    register_queues(&data);
#endif
    return DxgkInitialize(DriverObject, RegistryPath, &data);
}
