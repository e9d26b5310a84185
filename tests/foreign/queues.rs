//! The mistakes that are made in the hardware queues of the driver in C and of its function, each with what the program must tell of it.

use crate::Toy;
use crate::mistakes::Broken;

/// What makes the driver one with hardware queues, and the first version that has them.
pub(crate) const WITH_QUEUES: (&str, &str) =
    ("#include \"toy.h\"\n", "#define TOY_HARDWARE_QUEUES\n#include \"toy.h\"\n");
pub(crate) const VERSION: &str = "WDDM2_7";

pub(crate) const BROKEN_QUEUES: &[Broken] = &[
    Broken {
        name: "no-hardware-contexts",
        old: "    context->system = args->hHwContext;\n",
        new: "    if (args->NodeOrdinal == 0) { ExFreePoolWithTag(context, TAG); return STATUS_NO_MEMORY; }\n    context->system = args->hHwContext;\n",
        case: "AnyDriver.HardwareQueuesComeAndGo",
        told: &[
            "D3DKMTCreateHwContext on node 0: STATUS_NO_MEMORY",
            "DxgkDdiCreateHwContext makes them [dxgkddi_createhwcontext]",
        ],
    },
    Broken {
        name: "one-queue-for-each-context",
        old: "    queue->context = context;\n",
        new: "    if (((struct hw_context *)context)->base.root == 1) { ExFreePoolWithTag(queue, TAG); return STATUS_NOT_SUPPORTED; }\n    ((struct hw_context *)context)->base.root = 1;\n    queue->context = context;\n",
        case: "AnyDriver.HardwareQueuesComeAndGo",
        told: &[
            "D3DKMTCreateHwQueue: STATUS_NOT_SUPPORTED",
            "DxgkDdiCreateHwQueue makes any number of queues on a context",
        ],
    },
    Broken {
        name: "queues-kept",
        old: "static NTSTATUS destroy_hw_queue(HANDLE queue)\n{\n    ExFreePoolWithTag(queue, TAG);\n",
        new: "static NTSTATUS destroy_hw_queue(HANDLE queue)\n{\n    UNREFERENCED_PARAMETER(queue);\n",
        case: "AnyDriver.ProcessesEndWithHardwareQueuesBusy",
        told: &["0xC4 (0x62, 0x", "unloaded with pool that is not freed: 'WToy' ", "was asked for in toy"],
    },
    Broken {
        name: "root-of-first",
        old: "    write_register(adapter, TOY_ROOT_LOW, (ULONG)context->base.root);\n    write_register(adapter, TOY_ROOT_HIGH, (ULONG)(context->base.root >> 32));\n    write_register(adapter, TOY_FENCE_LOW",
        new: "    write_register(adapter, TOY_ROOT_LOW, (ULONG)hw_contexts[0]->base.root);\n    write_register(adapter, TOY_ROOT_HIGH, (ULONG)(hw_contexts[0]->base.root >> 32));\n    write_register(adapter, TOY_FENCE_LOW",
        case: "AnyDriver.AddressesOfHardwareQueuesBelongToTheirProcess",
        told: &["the commands of a hardware queue use the page tables of its context's process"],
    },
    Broken {
        name: "progress-without-work",
        old: "                for at in range(address, address + size, 32):\n                    operation, word,",
        new: "                for at in range(address, address + (size if value % 3 else 0), 32):\n                    operation, word,",
        case: "AnyDriver.HardwareQueueProgressIsWhatIsDone",
        told: &[
            "memory of a submission whose progress value 0x",
            "HwQueueProgressFenceId of DxgkDdiSubmitCommandToHwQueue is stored to HwQueueProgressFenceGpuVa when the commands are done",
        ],
    },
    Broken {
        name: "progress-never",
        old: "                self.store(root, fence, struct.pack(\"<Q\", value))\n",
        new: "",
        case: "AnyDriver.HardwareQueueProgressIsWhatIsDone",
        told: &["the progress fence of a hardware queue stays at 0x0 before 0x1", "DxgkDdiSubmitCommandToHwQueue"],
    },
    Broken {
        name: "progress-of-its-own",
        old: "(ULONG)args->HwQueueProgressFenceId);",
        new: "(ULONG)args->HwQueueProgressFenceId + 1);",
        case: "AnyDriver.HardwareQueueProgressIsWhatIsDone",
        told: &["HwQueueProgressFenceId of DxgkDdiSubmitCommandToHwQueue"],
    },
    Broken {
        name: "work-waits-for-more-work",
        old: "            if work is None:\n                return\n            self.hardware.remove(work)\n",
        new: "            if work is None or len(self.hardware) < 2:\n                return\n            self.hardware.remove(work)\n",
        case: "AnyDriver.HardwareQueuesDoNotWaitForEachOther",
        told: &[
            "beside a queue that waits, the progress fence of a hardware queue stays at 0x0 before 0x1",
            "waits for earlier work of its own queue alone [dxgkddi_submitcommandtohwqueue]",
        ],
    },
    Broken {
        name: "eviction-beside-queues-loses",
        old: "        return emit(args, TOY_COPY, 0, args->TransferVirtual.DestinationVirtualAddress, args->TransferVirtual.SourceVirtualAddress,\n                    args->TransferVirtual.TransferSizeInBytes);",
        new: "        return STATUS_SUCCESS;",
        case: "AnyDriver.HardwareQueuesWorkWhileMemoryMoves",
        told: &["memory that came back while hardware queues worked: word 0 is 0x", ", not 0x3c3c000"],
    },
    Broken {
        name: "fault-unreported",
        old: "                self.report(TOY_REPORT_QUEUE_FAULT, context, fault.args[0])\n",
        new: "",
        case: "AnyDriver.HardwareQueueThatFaultsCostsItsDevice",
        told: &[
            "a hardware queue of node 0 put its device into no error",
            "DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED names the hardware queue or context whose address it was",
        ],
    },
    Broken {
        name: "hang-invalidates-nothing",
        old: "    return adapter->interface.DxgkCbInvalidateHwContext(&lost);",
        new: "    return STATUS_SUCCESS;",
        case: "AnyDriver.HardwareQueueThatHangsCostsItsDevice",
        told: &["DxgkDdiResetHwEngine", "DxgkCbInvalidateHwContext"],
    },
    Broken {
        name: "hang-invalidates-everything",
        old: "    lost.hHwContext = hw_contexts[number - 1]->system;\n",
        new: "    for (ULONG i = 0; i < TOY_CONTEXTS; i++) {\n        if (!hw_contexts[i]) continue;\n        lost.hHwContext = hw_contexts[i]->system;\n        adapter->interface.DxgkCbInvalidateHwContext(&lost);\n    }\n    lost.hHwContext = hw_contexts[number - 1]->system;\n",
        case: "AnyDriver.HardwareQueueThatHangsCostsItsDevice",
        told: &["a device without fault ", "DxgkDdiResetHwEngine", "and for no other [dxgkddi_resethwengine]"],
    },
    Broken {
        name: "engine-stays-stopped-after-d3",
        old: "    UNREFERENCED_PARAMETER(context);\n    UNREFERENCED_PARAMETER(device);\n    UNREFERENCED_PARAMETER(state);\n",
        new: "    UNREFERENCED_PARAMETER(device);\n    if (state == PowerDeviceD3) write_register(context, TOY_STOP, 1);\n",
        case: "AnyDriver.HardwareQueuesSurviveD3",
        told: &["the progress fence of a hardware queue stays at 0x1 before 0x2", "DxgkDdiSubmitCommandToHwQueue"],
    },
    Broken {
        name: "destruction-waits-for-what-is-gone",
        old: "    BOOLEAN forgotten;\n",
        new: "    BOOLEAN forgotten;\n    while (read_register(adapter, TOY_HUNG)) ;\n",
        case: "AnyDriver.SurpriseRemovalEndsHardwareQueues",
        told: &["0xEA", "DxgkDdiDestroyHwContext of driver toy has not returned"],
    },
    Broken {
        name: "contexts-taken-for-granted",
        old: "    struct hw_context *context = allocate(sizeof(*context));\n    if (!context)\n        return STATUS_NO_MEMORY;\n",
        new: "    struct hw_context *context = allocate(sizeof(*context));\n",
        case: "AnyDriver.LowMemoryIsAnErrorOfHardwareQueuesToo",
        told: &["0x1E (0xC0000005", ", in DxgkDdiCreateHwContext in toy", "toy_queues.c:"],
    },
    Broken {
        name: "suspended-already",
        old: "    KeReleaseSpinLock(&adapter->submission, irql);\n    return STATUS_PENDING;",
        new: "    KeReleaseSpinLock(&adapter->submission, irql);\n    return STATUS_SUCCESS;",
        case: "AnyDriver.HardwareQueuesSurviveD3",
        told: &[
            "early-suspension",
            "DxgkDdiSuspendContext answered STATUS_SUCCESS for a context of node 0 that was not suspended, and expected was STATUS_PENDING",
        ],
    },
    Broken {
        name: "suspension-unreported",
        old: "        write_register(adapter, TOY_REPORT_TAKE, 1);\n        adapter->",
        new: "        write_register(adapter, TOY_REPORT_TAKE, 1);\n        if (kind != TOY_REPORT_SUSPENDED) adapter->",
        case: "AnyDriver.HardwareQueuesSurviveD3",
        told: &[
            "the way to D3",
            "DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED of a context of node 0 did not come within TdrDelay after DxgkDdiSuspendContext",
        ],
    },
    Broken {
        name: "suspension-of-another-value",
        old: "ContextSuspendFence = value;",
        new: "ContextSuspendFence = value + 1;",
        case: "AnyDriver.HardwareQueuesSurviveD3",
        told: &["0x119 (0x11, 0x", "SUSPEND_CONTEXT_COMPLETED of 0x", "with fence 2, which is not under way", "toy.c:"],
    },
    Broken {
        name: "progress-unreported",
        old: "        write_register(adapter, TOY_REPORT_TAKE, 1);\n        adapter->",
        new: "        write_register(adapter, TOY_REPORT_TAKE, 1);\n        if (kind != TOY_REPORT_PROGRESS) adapter->",
        case: "AnyDriver.HardwareQueueProgressIsReported",
        told: &[
            "unreported-signal",
            "DxgkCbNotifyInterrupt was not called with DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED within a second",
        ],
    },
    Broken {
        name: "fault-of-an-unknown-context",
        old: "data->HwQueuePageFaulted.FaultedHwContext = hw_contexts[number - 1];",
        new: "data->HwQueuePageFaulted.FaultedHwContext = (HANDLE)0x1234;",
        case: "AnyDriver.HardwareQueueThatFaultsCostsItsDevice",
        told: &[
            "DxgkCbNotifyInterrupt: HWQUEUE_PAGE_FAULTED names hardware context 0x1234, which does not exist",
            "expected is hHwContext of DXGKARG_CREATEHWCONTEXT, as the system gave it or as the driver answered it",
            "toy.c:",
        ],
    },
];

/// From WDDM 2.9 on a driver offers hardware scheduling by DxgkCbQueryFeatureSupport. [d3dkmddi: DXGKARGCB_QUERYFEATURESUPPORT]
#[test]
fn the_driver_in_c_has_hardware_queues_in_versions_in_which_they_must_be_offered() {
    for version in ["WDDM2_9", "WDDM3_2"] {
        let name = format!("queues-{version}");
        let Some(toy) = Toy::of_version_with_changes(version, &name, &[WITH_QUEUES]) else { return };
        let report = toy.cases("AnyDriver.HardwareQueuesComeAndGo");
        assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &0.into()), "{version}: {report}");
    }
}

/// A node without ContextSchedulingSupported has no hardware contexts, so that nothing is enabled where no node says it.
/// [d3dkmdt: DXGK_NODEMETADATA_FLAGS; d3dukmdt: D3DKMT_WDDM_2_7_CAPS]
#[test]
fn hardware_scheduling_is_not_enabled_where_no_node_has_hardware_contexts() {
    let unsaid = ("    metadata->Flags.ContextSchedulingSupported = 1;\n", "");
    let changes = [WITH_QUEUES, unsaid];
    let Some(toy) = Toy::of_version_with_changes(VERSION, "no-context-scheduling", &changes) else { return };
    let report = toy.cases("AnyDriver.CapabilitiesAgreeWithEachOther");
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &0.into()), "{report}");
    let run = toy.command("run", &["--log"]);
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(told.contains("no node says ContextSchedulingSupported"), "{told}");
    assert!(told.contains("hardware scheduling, enabled: no"), "{told}");
}
