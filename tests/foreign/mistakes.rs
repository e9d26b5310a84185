//! The mistakes that are made in the driver in C, each with what the program must tell of it.

/// A function of the driver that is broken, the case that finds it, and what its report says.
#[derive(Clone, Copy)]
pub(crate) struct Broken {
    pub(crate) name: &'static str,
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) case: &'static str,
    pub(crate) told: &'static [&'static str],
}

/// Page tables in the toy's own memory, where other tables and the end of the segment are behind them.
pub(crate) const TABLES_IN_LOCAL_MEMORY: (&str, &str) =
    ("#define SEGMENT_TABLES 0\n", "#define SEGMENT_TABLES SEGMENT_LOCAL\n");

/// Drivers that write behind such tables, and what tells of each.
pub(crate) const BROKEN_TABLES: &[Broken] = &[
    Broken {
        name: "table-overrun-into-another",
        old: "    for (UINT i = 0; i < update->NumPageTableEntries; i++)\n",
        new: "    if (update->Flags.InitialUpdate && update->PageTableLevel == 0)\n        table[512] = 0xbad0001;\n    for (UINT i = 0; i < update->NumPageTableEntries; i++)\n",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &[
            "0x113",
            "DXGK_OPERATION_UPDATE_PAGE_TABLE",
            "wrote behind the 0x1000 bytes of the page table, where another page table is: at offset 0x1000",
            "is 0xbad0001",
            "PageTableSizeInBytes [d3dkmddi: DXGK_PAGE_TABLE_LEVEL_DESC]",
        ],
    },
    Broken {
        name: "table-overrun-of-the-segment",
        old: "    for (UINT i = 0; i < update->NumPageTableEntries; i++)\n",
        new: "    if (update->Flags.InitialUpdate && update->StartIndex == 0)\n        table[512] = 1;\n    for (UINT i = 0; i < update->NumPageTableEntries; i++)\n",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["0x50 (0x", "bytes behind 0x", "of device memory at 0x", "update_page_table", "toy.c:"],
    },
];

pub(crate) const BROKEN: &[Broken] = &[
    Broken {
        name: "completions-unreported",
        old: "adapter->interface.DxgkCbNotifyInterrupt(adapter->handle, &data);",
        new: "if (kind != TOY_REPORT_COMPLETED) adapter->interface.DxgkCbNotifyInterrupt(adapter->handle, &data);",
        case: "AnyDriver.MappingsHaveAnySize",
        told: &["did not report packet 0x", "of node 0 with DXGK_INTERRUPT_DMA_COMPLETED", "unreported-completion"],
    },
    Broken {
        name: "half-made-allocations-kept",
        old: "            while (i-- > 0)\n                ExFreePoolWithTag(args->pAllocationInfo[i].hAllocation, TAG);\n",
        new: "",
        case: "AnyDriver.HalfMadeAllocationsAreGivenBack",
        told: &["0xC4 (0x62, 0x", "unloaded with pool that is not freed: 'WToy' ", "was asked for in toy"],
    },
    Broken {
        name: "interrupts-disowned",
        old: "    return any;",
        new: "    return FALSE;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["disowned-interrupt", "DxgkDdiInterruptRoutine for message 0 answered FALSE, and expected was TRUE"],
    },
    Broken {
        name: "reset-does-nothing",
        old: "    write_register(handle, TOY_RESET, 1);\n    args->LastAbortedFenceId = read_register(handle, TOY_RESET);\n    if (args->LastAbortedFenceId == 0)\n        args->",
        new: "    args->",
        case: "AnyDriver.HangCostsItsDevice",
        told: &[
            "fruitless-reset",
            "DxgkDdiResetEngine of node 0 answered STATUS_SUCCESS with LastAbortedFenceId 0x",
            "which is the last completed packet, and expected was 0x",
            "[d3dkmddi: DXGKARG_RESETENGINE]",
        ],
    },
    Broken {
        name: "fence-unwritten",
        old: "return emit(args, TOY_STORE, 0, args->SignalMonitoredFence.MonitoredFenceGpuVa, args->SignalMonitoredFence.MonitoredFenceValue, 8);",
        new: "return STATUS_SUCCESS;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &[
            "0x10E (0x17",
            "DXGK_OPERATION_SIGNAL_MONITORED_FENCE",
            "MonitoredFenceValue 0x1",
            "and the fence has 0x0",
        ],
    },
    Broken {
        name: "fence-value-beyond",
        old: "return emit(args, TOY_STORE, 0, args->SignalMonitoredFence.MonitoredFenceGpuVa, args->SignalMonitoredFence.MonitoredFenceValue, 8);",
        new: "return emit(args, TOY_STORE, 0, args->SignalMonitoredFence.MonitoredFenceGpuVa, args->SignalMonitoredFence.MonitoredFenceValue + 1, 8);",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["overshot-fence", "has a value that nobody asked for", "was 0x1, and the fence has 0x2"],
    },
    Broken {
        name: "zeros-that-are-not-there",
        old: "    if (!pte->Valid)\n        return 0;",
        new: "    if (!pte->Valid || pte->Zero)\n        return 0;",
        case: "AnyDriver.ZerosAreReadWhereTheyAreMapped",
        told: &["the packet failed with STATUS_DEVICE_REMOVED"],
    },
    Broken {
        name: "wrong-segments",
        old: "info->SupportedWriteSegmentSet = wanted.local ? 1 << (SEGMENT_LOCAL - 1)",
        new: "info->SupportedWriteSegmentSet = wanted.local ? 1 << 5",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &[
            "DxgkDdiCreateAllocation broke a rule in pAllocationInfo[0]: SupportedWriteSegmentSet",
            "SupportedWriteSegmentSet 0x20",
            "the segments that exist are 0x3",
        ],
    },
    Broken {
        name: "never-complete",
        old: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);",
        new: "    if (args->SubmissionFenceId < 8) write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &[
            "0x116",
            "of node 0 was the oldest there for TdrDelay, and DXGK_INTERRUPT_DMA_PREEMPTED took it off with last completed 0x7",
            "D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY",
            "expected is DXGK_INTERRUPT_DMA_COMPLETED with 0x",
            "lost-packet",
        ],
    },
    Broken {
        name: "mapping-left",
        old: "    return adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);",
        new: "    return STATUS_SUCCESS;",
        case: "AnyDriver.AdapterStopsAndStartsAgain",
        told: &["left-behind"],
    },
    Broken {
        name: "mapping-left-at-the-end",
        old: "    return adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);",
        new: "    return STATUS_SUCCESS;",
        case: "AnyDriver.AdapterTellsWhatItIs",
        told: &["1 mappings of DxgkCbMapMemory", "[dispmprt: DXGKDDI_STOP_DEVICE]"],
    },
    Broken {
        name: "stop-fails",
        old: "    return adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);",
        new: "    adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.AdapterStopsAndStartsAgain",
        told: &[
            "failed-stop",
            "DxgkDdiStopDevice answered STATUS_UNSUCCESSFUL (0xc0000001), and expected was STATUS_SUCCESS",
        ],
    },
    Broken {
        name: "spin-lock-kept",
        old: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    KeReleaseSpinLock(&adapter->submission, irql);",
        new: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    (void)irql;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["returned", "with spin lock 0x", "has acquired in toy", "toy.c:", "and not released"],
    },
    Broken {
        name: "registers-of-what-is-gone",
        old: "    return type == DxgkRemovalPnPNotify ? STATUS_SUCCESS : STATUS_NOT_SUPPORTED;",
        new: "    (void)type;\n    DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, \"the identity is %x\\n\", read_register(context, TOY_ID));\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.SurpriseRemovalEndsEverything",
        told: &[
            "the identity is ffffffff",
            "DxgkDdiNotifySurpriseRemoval(DxgkRemovalPnPNotify) answered STATUS_UNSUCCESSFUL",
        ],
    },
    Broken {
        name: "memory-taken-for-granted",
        old: "    allocation = allocate(sizeof(*allocation));\n    if (!allocation)\n        return STATUS_NO_MEMORY;",
        new: "    allocation = allocate(sizeof(*allocation));",
        case: "AnyDriver.LowMemoryIsAnErrorAndNothingElse",
        told: &["0x1E (0xC0000005", ", in DxgkDdiCreateAllocation in toy", "toy.c:"],
    },
    Broken {
        name: "odd-alignment",
        old: "    info->FlagsWddm2.CpuVisible = 1;",
        new: "    info->FlagsWddm2.CpuVisible = 1;\n    info->Alignment = 100;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["DxgkDdiCreateAllocation broke a rule in pAllocationInfo[0]: Alignment is no power of two"],
    },
    Broken {
        name: "huge-private-data",
        old: "    args->ContextInfo.DmaBufferSize = PAGE_SIZE;",
        new: "    args->ContextInfo.DmaBufferSize = PAGE_SIZE;\n    args->ContextInfo.DmaBufferPrivateDataSize = 0xFFFFFFFF;",
        case: "AnyDriver.DevicesAndContextsComeAndGo",
        told: &["ContextInfo.DmaBufferPrivateDataSize: 0xffffffff bytes", "[d3dkmddi: DXGK_CONTEXTINFO]"],
    },
    Broken {
        name: "overlay",
        old: "    info->FlagsWddm2.CpuVisible = 1;",
        new: "    info->FlagsWddm2.CpuVisible = 1;\n    info->FlagsWddm2.Overlay = 1;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["pAllocationInfo[0]: Overlay or Capture on an adapter without a display"],
    },
    Broken {
        name: "start-refused",
        old: "    if (read_register(adapter, TOY_ID) != TOY_ID_VALUE) {",
        new: "    if (read_register(adapter, TOY_ID) != TOY_ID_VALUE + 1) {",
        case: "AnyDriver.AdapterTellsWhatItIs",
        told: &["DxgkDdiStartDevice", "toy: the function is no toy: "],
    },
    Broken {
        name: "preemptions-unanswered",
        old: "static NTSTATUS preempt_command(HANDLE handle, const DXGKARG_PREEMPTCOMMAND *args)\n{",
        new: "static NTSTATUS preempt_command(HANDLE handle, const DXGKARG_PREEMPTCOMMAND *args)\n{\n    if (handle != NULL) return STATUS_SUCCESS;",
        case: "AnyDriver.PacketsOfHigherPriorityAreNotLost",
        told: &["0x116", "the preemptions of node 0 are never answered", "DXGK_INTERRUPT_DMA_PREEMPTED"],
    },
    Broken {
        name: "no-contexts",
        old: "    args->hContext = context;\n    args->ContextInfo.DmaBufferSize",
        new: "    if (!args->Flags.SystemContext) { ExFreePoolWithTag(context, TAG); return STATUS_NO_MEMORY; }\n    args->hContext = context;\n    args->ContextInfo.DmaBufferSize",
        case: "AnyDriver.DevicesAndContextsComeAndGo",
        told: &[
            "D3DKMTCreateContextVirtual fails with STATUS_NO_MEMORY",
            "DxgkDdiCreateContext answered STATUS_NO_MEMORY",
        ],
    },
    Broken {
        name: "device-later",
        old: "    args->hDevice = device;\n    return STATUS_SUCCESS;",
        new: "    args->hDevice = device;\n    return args->Flags.SystemDevice ? STATUS_SUCCESS : STATUS_PENDING;",
        case: "AnyDriver.DevicesAndContextsComeAndGo",
        told: &[
            "0x113",
            "DxgkDdiCreateDevice answered STATUS_PENDING (0x00000103), and expected was STATUS_SUCCESS or an error",
        ],
    },
    Broken {
        name: "id-never-submitted",
        old: "data.DmaCompleted.SubmissionFenceId = number;",
        new: "data.DmaCompleted.SubmissionFenceId = number + 99;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &[
            "0x119 (0x1, 0x",
            "DxgkCbNotifyInterrupt: DMA_COMPLETED",
            "node 0",
            ", in DxgkDdiInterruptRoutine in toy",
            "toy.c:",
        ],
    },
    Broken {
        name: "completed-twice",
        old: "        write_register(adapter, TOY_REPORT_TAKE, 1);\n        adapter->",
        new: "        write_register(adapter, TOY_REPORT_TAKE, 1);\n        if (kind == TOY_REPORT_COMPLETED)\n            \
              adapter->interface.DxgkCbNotifyInterrupt(adapter->handle, &data);\n        adapter->",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &[
            "0x119 (0x1, 0x1, 0x1, 0x",
            "DMA_COMPLETED on node 0 with SubmissionFenceId 0x1, which is not under way",
            "toy.c:",
        ],
    },
    Broken {
        name: "stale-id",
        old: "data.DmaCompleted.SubmissionFenceId = number;",
        new: "data.DmaCompleted.SubmissionFenceId = number > 4 ? number - 3 : number;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &[
            "0x119 (0x1, 0x2, 0x4, 0x",
            "DMA_COMPLETED on node 0 with SubmissionFenceId 0x2, which is not under way",
            "toy.c:",
        ],
    },
    Broken {
        name: "unknown-node",
        old: "data.DmaCompleted.SubmissionFenceId = number;",
        new: "data.DmaCompleted.SubmissionFenceId = number;\n            data.DmaCompleted.NodeOrdinal = 7;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["DxgkCbNotifyInterrupt, interrupt type 1: node 7, engine 0: the adapter has 1 nodes", "toy.c:"],
    },
    Broken {
        name: "unknown-interrupt",
        old: "data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;",
        new: "data.InterruptType = (DXGK_INTERRUPT_TYPE)77;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["DxgkCbNotifyInterrupt, interrupt type 77: not a type that this adapter may report", "toy.c:"],
    },
    Broken {
        name: "dpc-work-at-device-level",
        old: "        adapter->interface.DxgkCbQueueDpc(adapter->handle);",
        new: "        adapter->interface.DxgkCbNotifyDpc(adapter->handle);",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["DxgkCbNotifyDpc called at IRQL 5; DISPATCH_LEVEL is required, in DxgkDdiInterruptRoutine", "toy.c:"],
    },
    Broken {
        name: "submission-refused",
        old: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    KeReleaseSpinLock(&adapter->submission, irql);\n    return STATUS_SUCCESS;",
        new: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    KeReleaseSpinLock(&adapter->submission, irql);\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["0x119 (0x2, 0xC0000001", "DxgkDdiSubmitCommandVirtual answered a packet with STATUS_UNSUCCESSFUL"],
    },
    Broken {
        name: "context-freed-twice",
        old: "static NTSTATUS destroy_context(HANDLE context)\n{\n",
        new: "static NTSTATUS destroy_context(HANDLE context)\n{\n    ExFreePoolWithTag(context, TAG);\n",
        case: "AnyDriver.DevicesAndContextsComeAndGo",
        told: &["0xC4 (0x13, 0x", "(tag WToy) freed twice, in DxgkDdiDestroyContext in toy", "toy.c:"],
    },
    Broken {
        name: "aborted-beyond",
        old: "    if (args->LastAbortedFenceId == 0)\n",
        new: "    args->LastAbortedFenceId += 1000;\n    if (args->LastAbortedFenceId == 0)\n",
        case: "AnyDriver.HangCostsItsDevice",
        told: &[
            "0x119 (0xA, 0x",
            "DxgkDdiResetEngine of node 0 answered LastAbortedFenceId 0x",
            "and expected was 0x4, the last that is complete, if nothing was aborted",
            "of which 0x5 is the last submitted [d3dkmddi: DXGKARG_RESETENGINE]",
        ],
    },
    Broken {
        name: "preempted-another",
        old: "PreemptionFenceId = number;",
        new: "PreemptionFenceId = number + 1;",
        case: "AnyDriver.PacketsOfHigherPriorityAreNotLost",
        told: &["DMA_PREEMPTED on node 0 for PreemptionFenceId 0x2, which is not under way", "toy.c:"],
    },
    Broken {
        name: "no-segment",
        old: "wanted.local ? 1 << (SEGMENT_LOCAL - 1) : 1 << (SEGMENT_SYSTEM - 1);",
        new: "0;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["DxgkDdiCreateAllocation broke a rule in pAllocationInfo[0]: SupportedWriteSegmentSet is empty"],
    },
    Broken {
        name: "routine-forgotten",
        old: "DxgkCbSynchronizeExecution(adapter->handle, stop_interrupts, adapter, 0, &stopped);",
        new: "DxgkCbSynchronizeExecution(adapter->handle, adapter->stopped ? stop_interrupts : NULL, adapter, 0, &stopped);",
        case: "AnyDriver.AdapterStopsAndStartsAgain",
        told: &[
            "misused-callback",
            "DxgkCbSynchronizeExecution answers STATUS_INVALID_PARAMETER",
            "SynchronizeRoutine is NULL",
            "[dispmprt: DXGKCB_SYNCHRONIZE_EXECUTION]",
        ],
    },
    Broken {
        name: "unmapped-twice",
        old: "    return adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);",
        new: "    adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);\n    adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);\n    return STATUS_SUCCESS;",
        case: "AnyDriver.AdapterStopsAndStartsAgain",
        told: &[
            "misused-callback",
            "DxgkCbUnmapMemory answers STATUS_INVALID_PARAMETER",
            "[dispmprt: DXGKCB_UNMAP_MEMORY]",
        ],
    },
    Broken {
        name: "place-forgotten",
        old: "FALSE, FALSE, MmNonCached, (PVOID *)&adapter->registers);\n",
        new: "FALSE, FALSE, MmNonCached, (PVOID *)&adapter->registers);\n    adapter->interface.DxgkCbMapMemory(adapter->handle, registers, TOY_REGISTERS, FALSE, FALSE, MmNonCached, NULL);\n",
        case: "AnyDriver.AdapterTellsWhatItIs",
        told: &["misused-callback", "DxgkCbMapMemory answers STATUS_INVALID_PARAMETER", "VirtualAddress is NULL"],
    },
    Broken {
        name: "zeros-from-page-0",
        old: "(pte->Segment == 0 ? TOY_PTE_SYSTEM : 0) | (pte->Zero ? TOY_PTE_ZERO : 0)",
        new: "(pte->Segment == 0 ? TOY_PTE_SYSTEM : 0)",
        case: "AnyDriver.ZerosAreReadWhereTheyAreMapped",
        told: &["memory to which zeros were copied: word 0 is 0x"],
    },
    Broken {
        name: "zeros-from-page-0-of-the-segment",
        old: "(pte->Segment == 0 ? TOY_PTE_SYSTEM : 0) | (pte->Zero ? TOY_PTE_ZERO : 0)",
        new: "(pte->Segment == 0 && !pte->Zero ? TOY_PTE_SYSTEM : 0)",
        case: "AnyDriver.ZerosAreReadWhereTheyAreMapped",
        told: &["memory to which zeros were copied: word "],
    },
    Broken {
        name: "d3-refused",
        old: "    UNREFERENCED_PARAMETER(state);\n    UNREFERENCED_PARAMETER(action);\n    return STATUS_SUCCESS;",
        new: "    UNREFERENCED_PARAMETER(action);\n    return state == PowerDeviceD3 ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;",
        case: "AnyDriver.MemorySurvivesD3",
        told: &["DxgkDdiSetPowerState(4) may not fail, it answered STATUS_UNSUCCESSFUL"],
    },
];

/// What DxgkDdiStopDevice does at its beginning, with what it needs before it, and what is told of it by `campanile run`.
pub(crate) const STOPPING: &[(&str, &str, &str, &[&str])] = &[
    (
        "timer-left",
        "",
        "static KTIMER timer; LARGE_INTEGER due = { .QuadPart = -100000000000 }; KeInitializeTimer(&timer); KeSetTimer(&timer, due, NULL);",
        &["0xC7 (0x0, 0x", "unloaded with timer 0x", "set, which was done in toy", "stop_device", "toy.c:"],
    ),
    (
        "thread-left",
        "static VOID endless(PVOID context)\n{\n    LARGE_INTEGER due = { .QuadPart = -300000000 };\n    (void)context;\n    KeDelayExecutionThread(KernelMode, FALSE, &due);\n}\n",
        "HANDLE thread; PsCreateSystemThread(&thread, 0, NULL, NULL, NULL, endless, NULL); ZwClose(thread);",
        &[
            "0xCE (0x",
            "1 thread(s) or work item(s) running, of which the first is a system thread",
            "endless",
            "toy.c:",
        ],
    ),
    (
        "mutex-left",
        "",
        "static KMUTEX mutex; KeInitializeMutex(&mutex, 0); KeWaitForSingleObject(&mutex, Executive, KernelMode, FALSE, NULL);",
        &["0x1 (0x0, 0x0, 0xFFFF", "returned with mutex 0x", "which it has acquired in toy", "stop_device", "toy.c:"],
    ),
    (
        "lookaside-list-left",
        "",
        "static LOOKASIDE_LIST_EX list; ExInitializeLookasideListEx(&list, NULL, NULL, NonPagedPoolNx, 0, 48, TAG, 0);",
        &["0xCE (0x", "1 lookaside list(s) not deleted", "was initialised in toy", "stop_device"],
    ),
    (
        "lookaside-entry-left",
        "",
        "static LOOKASIDE_LIST_EX list; ExInitializeLookasideListEx(&list, NULL, NULL, NonPagedPoolNx, 0, 48, TAG, 0); (void)ExAllocateFromLookasideListEx(&list); ExDeleteLookasideListEx(&list);",
        &["0xC4 (0x62, 0x", "'WToy' 48 bytes in 1 blocks; one with tag 'WToy' was asked for in toy"],
    ),
    ("pool-left", "", "(void)allocate(64);", &["0xC4 (0x62, 0x", "'WToy' 64 bytes in 1 blocks", "allocate(", "toy.c:"]),
    (
        "pool-freed-with-a-timer",
        "",
        "KTIMER *timer = allocate(sizeof(*timer)); LARGE_INTEGER due = { .QuadPart = -100000000000 }; KeInitializeTimer(timer); KeSetTimer(timer, due, NULL); ExFreePoolWithTag(timer, TAG);",
        &[
            "0xC7 (0x0, 0x",
            "of 64 bytes is freed, which contains timer",
            "set since toy",
            "in DxgkDdiStopDevice",
            "stop_device",
        ],
    ),
    (
        "pool-freed-with-a-resource",
        "",
        "ERESOURCE *resource = allocate(sizeof(*resource)); ExInitializeResourceLite(resource); ExFreePoolWithTag(resource, TAG);",
        &["0xC4 (0xD2, 0x", "which contains executive resource", "in DxgkDdiStopDevice"],
    ),
    (
        "registry-key-left",
        "",
        "HANDLE key; UNICODE_STRING name; OBJECT_ATTRIBUTES attributes; RtlInitUnicodeString(&name, u\"\\\\Registry\\\\Machine\\\\System\"); InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL); ZwOpenKey(&key, KEY_READ, &attributes);",
        &[
            "0xC4 (0x62, 0x",
            "1 key(s) of the registry open, of which 'System' was opened in toy",
            "stop_device",
            "toy.c:",
        ],
    ),
    (
        "event-never-initialised",
        "",
        "static KEVENT event; KeSetEvent(&event, 0, FALSE);",
        &[
            "0xC4 (0x1002, 0x",
            "KeSetEvent of 0x",
            "which KeInitializeEvent has not initialised, in DxgkDdiStopDevice",
            "stop_device",
        ],
    ),
    (
        "mutex-never-initialised",
        "",
        "static FAST_MUTEX mutex; ExAcquireFastMutex(&mutex);",
        &["0xC4 (0x1002, 0x", "which ExInitializeFastMutex has not initialised, in DxgkDdiStopDevice", "stop_device"],
    ),
    (
        "list-of-pages-unlocked-twice",
        "",
        "PMDL list = IoAllocateMdl(context, 16, FALSE, FALSE, NULL); MmProbeAndLockPages(list, KernelMode, IoReadAccess); MmUnlockPages(list); MmUnlockPages(list);",
        &[
            "0xC4 (0x7C, 0x",
            "MmUnlockPages of list 0x",
            "whose pages are not locked (MdlFlags 0x",
            "in DxgkDdiStopDevice",
        ],
    ),
    (
        "run-down-released-unacquired",
        "",
        "EX_RUNDOWN_REF reference; ExInitializeRundownProtection(&reference); ExReleaseRundownProtection(&reference);",
        &[
            "0x18 (0x0, 0x",
            "ExReleaseRundownProtection of 1 instance(s) of 0x",
            "which has 0, in DxgkDdiStopDevice",
            "stop_device",
        ],
    ),
    (
        "stop-waits-for-ever",
        "",
        "KEVENT event; KeInitializeEvent(&event, NotificationEvent, FALSE); KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);",
        &[
            "0xEA (0x",
            "DxgkDdiStopDevice of driver toy has not returned for 2.0 s, at IRQL 0: it is in KeWaitForSingleObject in toy",
            "toy.c:",
        ],
    ),
    (
        "stop-waits-for-a-run-down",
        "",
        "EX_RUNDOWN_REF reference = { 2 }; ExWaitForRundownProtectionRelease(&reference);",
        &["0xEA (0x", "it is in ExWaitForRundownProtectionRelease in toy", "toy.c:"],
    ),
];

/// As [`Broken`], of a driver that does not start.
pub(crate) const REFUSED: &[(&str, &str, &str, &[&str])] = &[
    (
        "short-answers",
        "RtlZeroMemory(args->pOutputData, need);",
        "if (need > 4) RtlZeroMemory(args->pOutputData, need);",
        &[
            "DxgkDdiQueryAdapterInfo(",
            ") succeeded, but wrote only 0 of the 4 bytes",
            "[d3dkmddi: DXGKDDI_QUERYADAPTERINFO]",
        ],
    ),
    (
        "device-without-handle",
        "    args->hDevice = device;",
        "    (void)args;",
        &[
            "DxgkDdiCreateDevice broke a rule in hDevice: it answered STATUS_SUCCESS",
            "[d3dkmddi: DXGKARG_CREATEDEVICE]",
        ],
    ),
    (
        "odd-segment",
        "local->Size = TOY_MEMORY;",
        "local->Size = TOY_MEMORY - 512;",
        &["segment 2", "Size is 0x7ffe00, not whole pages", "[d3dkmddi: DXGK_SEGMENTDESCRIPTOR4]"],
    ),
    (
        "engine-type",
        "metadata->EngineType = DXGK_ENGINE_TYPE_OTHER;",
        "metadata->EngineType = (DXGK_ENGINE_TYPE)42;",
        &[
            "DxgkDdiGetNodeMetadata of node 0 answered EngineType 42, which is none of DXGK_ENGINE_TYPE",
            "[d3dkmdt: DXGK_NODEMETADATA]",
        ],
    ),
    (
        "name-without-end",
        "    metadata->FriendlyName[2] = 'y';",
        "    for (int i = 2; i < 32; i++) metadata->FriendlyName[i] = 'y';",
        &[
            "DxgkDdiGetNodeMetadata of node 0 answered a FriendlyName",
            "none of its 32 characters is the zero at its end",
        ],
    ),
    (
        "no-metadata",
        "data.DxgkDdiGetNodeMetadata = get_node_metadata;",
        "(void)get_node_metadata;",
        &["DxgkDdiGetNodeMetadata is NULL", "[dispmprt: DRIVER_INITIALIZATION_DATA]"],
    ),
    (
        "loop-in-start",
        "KeInitializeSpinLock(&adapter->submission);",
        "while (read_register(adapter, TOY_BUSY) == 0) ;",
        &["0xEA", "DxgkDdiStartDevice of driver toy has not returned for 2.0 s, at IRQL 0", "start_device", "toy.c:"],
    ),
];
