//! Single answers of the driver in C that are wrong, each with what the program must tell of it.

use crate::mistakes::Broken;

/// An answer at start: its name, the source and what takes its place, and what is told.
type Refused = (&'static str, &'static str, &'static str, &'static [&'static str]);

/// Members of DXGK_DRIVERCAPS.
pub(crate) const CAPS: &[Refused] = &[
    (
        "highest-address",
        "caps->HighestAcceptableAddress.QuadPart = -1;",
        "caps->HighestAcceptableAddress.QuadPart = 0;",
        &["HighestAcceptableAddress 0x0 is below the end of memory", "[d3dkmddi: DXGK_DRIVERCAPS]"],
    ),
    (
        "another-model",
        "caps->WDDMVersion = TOY_WDDM_VERSION;",
        "caps->WDDMVersion = 0x3100;",
        &["DRIVERCAPS.WDDMVersion says version 0x3100", "[d3dkmddi: DXGK_WDDMVERSION]"],
    ),
    (
        "no-nodes",
        "caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;",
        "",
        &["DRIVERCAPS.GpuEngineTopology.NbAsymetricProcessingNodes is 0", "[d3dkmddi: DXGK_GPUENGINETOPOLOGY]"],
    ),
    (
        "node-without-metadata",
        "caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;",
        "caps->GpuEngineTopology.NbAsymetricProcessingNodes = 2;",
        &["DxgkDdiGetNodeMetadata of node 1 failed with STATUS_INVALID_PARAMETER", "[d3dkmdt: DXGK_NODEMETADATA]"],
    ),
    (
        "no-preemption",
        "caps->SchedulingCaps.PreemptionAware = 1;",
        "",
        &["DRIVERCAPS.SchedulingCaps.PreemptionAware of a compute-only adapter must be set"],
    ),
    (
        "paging-node",
        "caps->MemoryManagementCaps.PagingNode = 0;",
        "caps->MemoryManagementCaps.PagingNode = 3;",
        &["paging node 3 does not exist", "[d3dkmddi: DXGK_VIDMMCAPS]"],
    ),
    (
        "unknown-granularity",
        "= D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;",
        "= (D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY)99;",
        &[
            "DRIVERCAPS.PreemptionCaps.ComputePreemptionGranularity is 99, which is none of its enumeration",
            "[d3dkmdt: D3DKMDT_PREEMPTION_CAPS]",
        ],
    ),
    (
        "refused-question",
        "    SIZE_T need;\n",
        "    SIZE_T need;\n    if (args->Type == DXGKQAITYPE_GPUMMUCAPS)\n        return STATUS_UNSUCCESSFUL;\n",
        &[
            "DxgkDdiQueryAdapterInfo(GPUMMUCAPS) failed with STATUS_UNSUCCESSFUL",
            "[d3dkmddi: DXGK_QUERYADAPTERINFOTYPE]",
        ],
    ),
    (
        "components-undescribed",
        "    } else if (args->Type == DXGKQAITYPE_HISTORYBUFFERPRECISION) {\n",
        "    } else if (args->Type == DXGKQAITYPE_NUMPOWERCOMPONENTS) {\n        *(UINT *)args->pOutputData = 5;\n    \
         } else if (args->Type == DXGKQAITYPE_HISTORYBUFFERPRECISION) {\n",
        &["DxgkDdiQueryAdapterInfo(POWERCOMPONENTINFO) failed with STATUS_NOT_SUPPORTED"],
    ),
    (
        "no-precision",
        "->PrecisionBits = 64;",
        "->PrecisionBits = 0;",
        &["0 bits", "[d3dkmddi: DXGKARG_HISTORYBUFFERPRECISION]"],
    ),
];

/// DriverEntry and its call of DxgkInitialize.
pub(crate) const ENTRY: &[Refused] = &[
    (
        "no-registry-path",
        "return DxgkInitialize(DriverObject, RegistryPath, &data);",
        "UNREFERENCED_PARAMETER(RegistryPath);\n    return DxgkInitialize(DriverObject, NULL, &data);",
        &["DxgkInitialize was called with NULL as RegistryPath", "[dispmprt: DxgkInitialize"],
    ),
    (
        "no-table",
        "return DxgkInitialize(DriverObject, RegistryPath, &data);",
        "return DxgkInitialize(DriverObject, RegistryPath, NULL);",
        &["DxgkInitialize was called with NULL as DriverInitializationData", "[dispmprt: DxgkInitialize"],
    ),
    (
        "entry-without-memory",
        "return DxgkInitialize(DriverObject, RegistryPath, &data);",
        "DxgkInitialize(DriverObject, RegistryPath, &data);\n    return STATUS_NO_MEMORY;",
        &["DriverEntry failed with STATUS_NO_MEMORY", "The driver answered so, for a reason of its own"],
    ),
    (
        "retired-slot",
        "data.DxgkDdiUnload = unload;",
        "data.DxgkDdiUnload = unload;\n    data.Reserved4 = (VOID *)unload;",
        &["Reserved4 must be NULL", "whose Version is 0x", "a table that is shorter than its Version says"],
    ),
];

/// Segments and page tables.
pub(crate) const MEMORY: &[Refused] = &[
    (
        "no-segments",
        "out->NbSegment = 2;",
        "out->NbSegment = 0;",
        &["NbSegment of DXGK_QUERYSEGMENTOUT4 is 0", "[d3dkmddi: DXGK_QUERYSEGMENTOUT4]"],
    ),
    (
        "more-segments-than-said",
        "out->NbSegment = 2;",
        "out->NbSegment = out->pSegmentDescriptor ? 3 : 2;",
        &[
            "NbSegment of DXGK_QUERYSEGMENTOUT4 is 2 where only the number is asked for, and 3 where the descriptors are",
        ],
    ),
    (
        "paging-buffer-in-no-segment",
        "out->PagingBufferSegmentId = SEGMENT_SYSTEM;",
        "out->PagingBufferSegmentId = 5;",
        &["PagingBufferSegmentId 5 is neither 0 nor an aperture segment", "[d3dkmddi: DXGK_QUERYSEGMENTOUT4]"],
    ),
    (
        "segment-without-address",
        "local->CpuTranslatedAddress = adapter->memory;",
        "(void)adapter;",
        &[
            "segment 2: it is CpuVisible, and CpuTranslatedAddress 0x0 with Size 0x800000",
            "[d3dkmddi: DXGK_SEGMENTDESCRIPTOR4]",
        ],
    ),
    (
        "address-of-45-bits",
        "caps->VirtualAddressBitCount = TOY_ADDRESS_BITS;",
        "caps->VirtualAddressBitCount = 45;",
        &["PageTableIndexBitCount of all levels is 27", "VirtualAddressBitCount is 45", "[d3dkmddi: DXGK_GPUMMUCAPS]"],
    ),
    (
        "tables-in-no-segment",
        "level->PageTableSegmentId = SEGMENT_TABLES;",
        "level->PageTableSegmentId = 9;",
        &["PageTableSegmentId of level 0 is 9: the segment does not exist"],
    ),
    (
        "odd-tables",
        "level->PageTableSizeInBytes = PAGE_SIZE;",
        "level->PageTableSizeInBytes = 100;",
        &["PageTableSizeInBytes of level 0 is 100, not whole pages"],
    ),
    (
        "tables-that-fit-nowhere",
        "level->PagingProcessPageTableSegmentId = SEGMENT_TABLES;\n        level->PageTableSizeInBytes = PAGE_SIZE;\n        level->PageTableAlignmentInBytes = PAGE_SIZE;",
        "level->PagingProcessPageTableSegmentId = SEGMENT_LOCAL;\n        level->PageTableSizeInBytes = PAGE_SIZE;\n        level->PageTableAlignmentInBytes = 0x80000000;",
        &[
            "PagingProcessPageTableSegmentId of level 0 is 2: no table of 4096 bytes, aligned to 2147483648, fits into the 8388608 bytes",
            "[d3dkmddi: DXGK_GPUMMUCAPS]",
        ],
    ),
    (
        "tables-written-another-way",
        "caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;",
        "caps->PageTableUpdateMode = (DXGK_PAGETABLEUPDATEMODE)7;",
        &["PageTableUpdateMode is 7"],
    ),
    (
        "pages-of-64-kib-without-tables",
        "caps->ReadOnlyMemorySupported = 1;",
        "caps->ReadOnlyMemorySupported = 1;\n        caps->SysMem64KBPageSupported = 1;",
        &[
            "LeafPageTableSizeFor64KPagesInBytes is 0, which is no multiple of the page size",
            "[d3dkmddi: DXGK_GPUMMUCAPS]",
        ],
    ),
    (
        "small-root",
        "caps->PageTableLevelCount = TOY_LEVELS;",
        "caps->PageTableLevelCount = 2;",
        &[
            "DxgkDdiGetRootPageTableSize was asked for NumberOfPte 262144 and answered 512 in 4096 bytes",
            "[d3dkmddi: DXGKDDI_GETROOTPAGETABLESIZE]",
        ],
    ),
];

/// Objects, and what StartDevice answers.
pub(crate) const OBJECTS: &[Refused] = &[
    (
        "a-display",
        "    *sources = 0;",
        "    *sources = 1;",
        &["DxgkDdiStartDevice reported 1 sources and 0 children", "[dispmprt: DXGKDDI_START_DEVICE]"],
    ),
    (
        "node-without-addresses",
        "    metadata->GpuMmuSupported = TRUE;\n",
        "",
        &["GpuMmuSupported is set for the adapter but not for node 0", "[d3dkmdt: DXGK_NODEMETADATA]"],
    ),
    (
        "process-without-handle",
        "    args->hKmdProcess = handle;",
        "    (void)handle;\n    args->hKmdProcess = NULL;",
        &[
            "could not be started: ",
            "DxgkDdiCreateProcess broke a rule in hKmdProcess: it answered STATUS_SUCCESS and 0x0",
            "[d3dkmddi: DXGKARG_CREATEPROCESS]",
        ],
    ),
    (
        "context-to-be-patched",
        "    args->ContextInfo.Caps.NoPatchingRequired = 1;",
        "",
        &[
            "DxgkDdiCreateContext on node 0 answered ContextInfo.Caps.NoPatchingRequired 0",
            "[d3dkmddi: DXGK_CONTEXTINFO]",
        ],
    ),
    (
        "buffers-in-memory-of-the-gpu",
        "DmaBufferSegmentSet = 1 << (SEGMENT_SYSTEM - 1);",
        "DmaBufferSegmentSet = 1 << (SEGMENT_LOCAL - 1);",
        &["DmaBufferSegmentSet of a context on node 0 is 0x2", "[d3dkmddi: DXGK_CONTEXTINFO]"],
    ),
    (
        "adapter-without-context",
        "    return *MiniportDeviceContext ? STATUS_SUCCESS : STATUS_NO_MEMORY;",
        "    ExFreePoolWithTag(*MiniportDeviceContext, TAG);\n    *MiniportDeviceContext = NULL;\n    return STATUS_SUCCESS;",
        &["DxgkDdiAddDevice succeeded with a NULL context", "[dispmprt: DXGKDDI_ADD_DEVICE]"],
    ),
];

/// Answers while it works, with the case that finds them.
pub(crate) const BROKEN_ANSWERS: &[Broken] = &[
    Broken {
        name: "submission-pending",
        old: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    KeReleaseSpinLock(&adapter->submission, irql);\n    return STATUS_SUCCESS;",
        new: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    KeReleaseSpinLock(&adapter->submission, irql);\n    return STATUS_PENDING;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &[
            "0x119 (0x2, 0x103",
            "answered a packet with STATUS_PENDING (0x00000103), and expected was STATUS_SUCCESS, or STATUS_INVALID_PARAMETER",
            "[d3dkmddi: DXGKDDI_SUBMITCOMMANDVIRTUAL]",
        ],
    },
    Broken {
        name: "device-timeout",
        old: "    args->hDevice = device;\n    return STATUS_SUCCESS;",
        new: "    args->hDevice = device;\n    return (NTSTATUS)0x102;",
        case: "AnyDriver.DevicesAndContextsComeAndGo",
        told: &[
            "other-success",
            "DxgkDdiCreateDevice answered ",
            "0x00000102",
            "expected was STATUS_SUCCESS or an error",
        ],
    },
    Broken {
        name: "entry-pending",
        old: "    return DxgkInitialize(DriverObject, RegistryPath, &data);",
        new: "    DxgkInitialize(DriverObject, RegistryPath, &data);\n    return STATUS_PENDING;",
        case: "AnyDriver.AdapterTellsWhatItIs",
        told: &["other-success", "DriverEntry answered STATUS_PENDING (0x00000103), and expected was STATUS_SUCCESS"],
    },
    Broken {
        name: "removal-fails",
        old: "static NTSTATUS remove_device(PVOID context)\n{\n    ExFreePoolWithTag(context, TAG);\n    return STATUS_SUCCESS;",
        new: "static NTSTATUS remove_device(PVOID context)\n{\n    ExFreePoolWithTag(context, TAG);\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.AdapterStopsAndStartsAgain",
        told: &["failed-stop", "DxgkDdiRemoveDevice answered STATUS_UNSUCCESSFUL", "the device counts as removed"],
    },
    Broken {
        name: "no-clock",
        old: "    data->GpuFrequency = frequency.QuadPart;\n",
        new: "",
        case: "AnyDriver.CapabilitiesAgreeWithEachOther",
        told: &[
            "D3DKMTQueryClockCalibration fails with",
            "DxgkDdiCalibrateGpuClock of node 0 answered GpuFrequency 0",
            "[d3dkmdt: DXGK_GPUCLOCKDATA]",
        ],
    },
    Broken {
        name: "engine-reset-refused",
        old: "        args->LastAbortedFenceId = read_register(handle, TOY_COMPLETED);\n    return STATUS_SUCCESS;",
        new: "        args->LastAbortedFenceId = read_register(handle, TOY_COMPLETED);\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.HangCostsItsDevice",
        told: &[
            "the other device is in error too, as by a reset of the whole adapter",
            "DxgkDdiResetEngine answered STATUS_UNSUCCESSFUL (0xc0000001) for node 0, and expected was STATUS_SUCCESS",
        ],
    },
    Broken {
        name: "adapter-restart-refused",
        old: "        args->LastAbortedFenceId = read_register(handle, TOY_COMPLETED);\n    return STATUS_SUCCESS;\n}\n\n\
              static NTSTATUS reset_from_timeout(HANDLE handle)\n{\n    struct adapter *adapter = handle;\n    BOOLEAN done;\n    \
              adapter->interface.DxgkCbSynchronizeExecution(adapter->handle, reset_function, adapter, 0, &done);\n    return STATUS_SUCCESS;\n}\n\nstatic NTSTATUS restart_from_timeout(HANDLE handle)\n{\n    write_register(handle, TOY_GO, 1);\n    return STATUS_SUCCESS;",
        new: "        args->LastAbortedFenceId = read_register(handle, TOY_COMPLETED);\n    return STATUS_UNSUCCESSFUL;\n}\n\n\
              static NTSTATUS reset_from_timeout(HANDLE handle)\n{\n    struct adapter *adapter = handle;\n    BOOLEAN done;\n    \
              adapter->interface.DxgkCbSynchronizeExecution(adapter->handle, reset_function, adapter, 0, &done);\n    return STATUS_SUCCESS;\n}\n\nstatic NTSTATUS restart_from_timeout(HANDLE handle)\n{\n    write_register(handle, TOY_GO, 1);\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.HangCostsItsDevice",
        told: &["0x116 (0x2, 0x0, 0xC0000001", "DxgkDdiRestartFromTimeout answered STATUS_UNSUCCESSFUL"],
    },
    Broken {
        name: "engine-status-refused",
        old: "    args->EngineStatus.Responsive = !read_register(handle, TOY_BUSY);\n    return STATUS_SUCCESS;",
        new: "    (void)handle;\n    (void)args;\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.HangCostsItsDevice",
        told: &["DxgkDdiQueryEngineStatus may not fail, it answered STATUS_UNSUCCESSFUL"],
    },
    Broken {
        name: "group-without-its-node",
        old: "    args->DependentNodeOrdinalMask = 1;",
        new: "    args->DependentNodeOrdinalMask = 0;",
        case: "AnyDriver.HangCostsItsDevice",
        told: &[
            "0x119 (0x8, 0x0",
            "DxgkDdiQueryDependentEngineGroup answered DependentNodeOrdinalMask 0x0 for node 0, without that node",
        ],
    },
    Broken {
        name: "report-beyond-its-buffer",
        old: "        *(ULONG *)args->pBuffer = read_register(handle, TOY_COMPLETED);",
        new: "        ((ULONG *)args->pBuffer)[args->BufferSize / 4] = read_register(handle, TOY_COMPLETED);",
        case: "AnyDriver.HangCostsItsDevice",
        told: &["0x113", "DxgkDdiCollectDbgInfo wrote past the ", "bytes of pBuffer"],
    },
    Broken {
        name: "fault-of-another-packet",
        old: "    data->DmaPageFaulted.FaultedFenceId = number;",
        new: "    data->DmaPageFaulted.FaultedFenceId = number + 50;",
        case: "AnyDriver.FaultCostsItsDevice",
        told: &[
            "0x119 (0x1, 0x37",
            "DMA_PAGE_FAULTED on node 0 with FaultedFenceId 0x37, which is not under way",
            "toy.c:",
        ],
    },
    Broken {
        name: "fault-called-complete",
        old: "    data->InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;",
        new: "    data->InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;",
        case: "AnyDriver.FaultCostsItsDevice",
        told: &[
            "commands that must cost their device were reported as complete, and expected was DXGK_INTERRUPT_DMA_PAGE_FAULTED",
        ],
    },
    Broken {
        name: "preempted-too-much",
        old: "data.DmaPreempted.LastCompletedFenceId = read_register(adapter, TOY_COMPLETED);",
        new: "data.DmaPreempted.LastCompletedFenceId = 0xfff;",
        case: "AnyDriver.PacketsOfHigherPriorityAreNotLost",
        told: &[
            "0x119 (0x1, 0xFFF",
            "DMA_PREEMPTED on node 0 with LastCompletedFenceId 0xfff, which is not under way",
            "toy.c:",
        ],
    },
    Broken {
        name: "preempted-on-another-node",
        old: "data.DmaPreempted.PreemptionFenceId = number;",
        new: "data.DmaPreempted.PreemptionFenceId = number;\n            data.DmaPreempted.NodeOrdinal = 7;",
        case: "AnyDriver.PacketsOfHigherPriorityAreNotLost",
        told: &["DxgkCbNotifyInterrupt, interrupt type 2: node 7, engine 0: the adapter has 1 nodes", "toy.c:"],
    },
    Broken {
        name: "completed-on-another-engine",
        old: "data.DmaCompleted.SubmissionFenceId = number;",
        new: "data.DmaCompleted.SubmissionFenceId = number;\n            data.DmaCompleted.EngineOrdinal = 5;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["DxgkCbNotifyInterrupt, interrupt type 1: node 0, engine 5", "of 1 engine(s)", "toy.c:"],
    },
    Broken {
        name: "preemption-refused",
        old: "    write_register(handle, TOY_PREEMPT, args->PreemptionFenceId);\n    return STATUS_SUCCESS;",
        new: "    write_register(handle, TOY_PREEMPT, args->PreemptionFenceId);\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.PacketsOfHigherPriorityAreNotLost",
        told: &["0x119 (0x2, 0xC0000001", "DxgkDdiPreemptCommand answered STATUS_UNSUCCESSFUL"],
    },
    Broken {
        name: "dpc-without-notice",
        old: "    adapter->interface.DxgkCbNotifyDpc(adapter->handle);",
        new: "    (void)adapter;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["0x113", "DxgkDdiDpcRoutine returned, and expected was DxgkCbNotifyDpc in it"],
    },
    Broken {
        name: "mapping-in-the-dpc",
        old: "    adapter->interface.DxgkCbNotifyDpc(adapter->handle);",
        new: "    PVOID at;\n    adapter->interface.DxgkCbMapMemory(adapter->handle, adapter->memory, PAGE_SIZE, FALSE, FALSE, MmNonCached, &at);\n    \
              adapter->interface.DxgkCbNotifyDpc(adapter->handle);",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["DxgkCbMapMemory called at IRQL 2; PASSIVE_LEVEL is required, in DxgkDdiDpcRoutine", "toy.c:"],
    },
    Broken {
        name: "pool-in-the-interrupt-routine",
        old: "    if (adapter->stopped)\n        return FALSE;",
        new: "    if (adapter->stopped)\n        return FALSE;\n    ExFreePoolWithTag(allocate(16), TAG);",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &[
            "0xC4 (0x2, 0x5",
            "pool allocated at IRQL 5, at most DISPATCH_LEVEL is allowed, in DxgkDdiInterruptRoutine",
        ],
    },
    Broken {
        name: "level-not-lowered",
        old: "    struct device *device = allocate(sizeof(*device));\n    if (!device)",
        new: "    struct device *device = allocate(sizeof(*device));\n    KIRQL old;\n    KeRaiseIrql(DISPATCH_LEVEL, &old);\n    if (!device)",
        case: "AnyDriver.DevicesAndContextsComeAndGo",
        told: &["0xC8 (0x20000", "DxgkDdiCreateDevice was entered at IRQL 0 and returned at 2"],
    },
    Broken {
        name: "allocation-without-size",
        old: "    info->Size = allocation->size;",
        new: "    info->Size = 0;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["pAllocationInfo[0]: Size is 0 or larger than all memory (Size 0x0", "[d3dkmddi: DXGK_ALLOCATIONINFO]"],
    },
    Broken {
        name: "allocation-that-would-be-elsewhere",
        old: "info->PreferredSegment.SegmentId0 = wanted.local ? SEGMENT_LOCAL : SEGMENT_SYSTEM;",
        new: "info->PreferredSegment.SegmentId0 = wanted.local ? SEGMENT_SYSTEM : SEGMENT_LOCAL;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["pAllocationInfo[0]: PreferredSegment names a segment outside SupportedWriteSegmentSet"],
    },
    Broken {
        name: "allocation-closed-with-an-error",
        old: "    UNREFERENCED_PARAMETER(device);\n    UNREFERENCED_PARAMETER(args);\n    return STATUS_SUCCESS;",
        new: "    UNREFERENCED_PARAMETER(device);\n    UNREFERENCED_PARAMETER(args);\n    return STATUS_UNSUCCESSFUL;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &["DxgkDdiCloseAllocation may not fail, it answered STATUS_UNSUCCESSFUL"],
    },
    Broken {
        name: "paging-without-progress",
        old: "    UNREFERENCED_PARAMETER(handle);\n    switch (args->Operation) {",
        new: "    UNREFERENCED_PARAMETER(handle);\n    if (args->Operation == DXGK_OPERATION_VIRTUAL_FILL)\n        \
              return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;\n    switch (args->Operation) {",
        case: "AnyDriver.NewMemoryIsZero",
        told: &[
            "0x10E (0xB",
            "DXGK_OPERATION_VIRTUAL_FILL",
            "for an empty buffer of 0x10000 bytes and made no progress",
        ],
    },
    Broken {
        name: "way-to-d3-without-end",
        old: "    UNREFERENCED_PARAMETER(state);\n    UNREFERENCED_PARAMETER(action);\n",
        new: "    UNREFERENCED_PARAMETER(action);\n    if (state == PowerDeviceD3) {\n        KEVENT event;\n        \
              KeInitializeEvent(&event, NotificationEvent, FALSE);\n        \
              KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);\n    }\n",
        case: "AnyDriver.MemorySurvivesD3",
        told: &["DxgkDdiSetPowerState", "KeWaitForSingleObject"],
    },
];
