//! Mistakes of a driver with contiguous memory and with memory of its device, made when DxgkDdiStopDevice begins; as those of [`super::mistakes::STOPPING`];
//! and reads behind what it was lent.

use super::Toy;

pub(crate) const MEMORY_MISTAKES: &[(&str, &str, &str, &[&str])] = &[
    (
        "contiguous-overrun",
        "",
        "PHYSICAL_ADDRESS any = { .QuadPart = -1 }; volatile UCHAR *block = MmAllocateContiguousMemory(100, any); block[4096] = 1;",
        &[
            "0x50 (0x",
            "write to 0x",
            "3997 bytes beyond the end of 100 bytes of contiguous memory at 0x",
            "which was asked for in toy",
            "by driver toy, in DxgkDdiStopDevice",
            "stop_device",
            "toy.c:",
        ],
    ),
    (
        "contiguous-overrun-in-its-page",
        "",
        "PHYSICAL_ADDRESS any = { .QuadPart = -1 }; volatile UCHAR *block = MmAllocateContiguousMemory(100, any); block[100] = 1; MmFreeContiguousMemory((PVOID)block);",
        &[
            "0xC1 (0x",
            "written 1 bytes past the end of 100 bytes of contiguous memory at 0x",
            "asked for in toy",
            "in DxgkDdiStopDevice",
            "stop_device",
        ],
    ),
    (
        "contiguous-used-after-it-was-freed",
        "",
        "PHYSICAL_ADDRESS none = { .QuadPart = 0 }, any = { .QuadPart = -1 }; \
         volatile ULONG *block = MmAllocateContiguousNodeMemory(8192, none, any, none, PAGE_READWRITE, MM_ANY_NODE_OK); MmFreeContiguousMemory((PVOID)block); (void)block[1024];",
        &[
            "0x50 (0x",
            "read of 0x",
            "freed contiguous memory: 8192 bytes were at 0x",
            "which was freed in toy",
            "by driver toy, in DxgkDdiStopDevice",
            "stop_device",
        ],
    ),
    (
        "contiguous-freed-twice",
        "",
        "PHYSICAL_ADDRESS any = { .QuadPart = -1 }; PVOID block = MmAllocateContiguousMemory(100, any); MmFreeContiguousMemory(block); MmFreeContiguousMemory(block);",
        &[
            "0xC2 (0x46, 0x",
            "MmFreeContiguousMemory of 0x",
            "a block of 100 bytes that is freed already since toy",
            "in DxgkDdiStopDevice",
            "stop_device",
        ],
    ),
    (
        "contiguous-left",
        "",
        "PHYSICAL_ADDRESS any = { .QuadPart = -1 }; (void)MmAllocateContiguousMemory(100, any);",
        &[
            "0xC4 (0x62, 0x",
            "1 block(s) of contiguous memory, of which the first was asked for",
            "in toy",
            "stop_device",
        ],
    ),
    (
        "memory-of-the-device-used-after-it-was-unmapped",
        "",
        "struct adapter *toy = context; volatile ULONG *mapped = MmMapIoSpace(toy->memory, 4096, MmNonCached); mapped[1] = mapped[0]; MmUnmapIoSpace((PVOID)mapped, 4096); mapped[1] = 7;",
        &[
            "0x50 (0x",
            "write to 0x",
            "in 0x1000 bytes of device memory at 0x",
            "of physical address 0x",
            "which MmUnmapIoSpace has unmapped in toy",
            "by driver toy, in DxgkDdiStopDevice",
            "stop_device",
            "toy.c:",
        ],
    ),
    (
        "memory-of-the-device-overrun",
        "",
        "struct adapter *toy = context; volatile ULONG *mapped = MmMapIoSpace(toy->memory, 4096, MmNonCached); mapped[1026] = 7;",
        &[
            "0x50 (0x",
            "write to 0x",
            "8 bytes behind 0x1000 bytes of device memory at 0x",
            "of physical address 0x",
            "which MmMapIoSpace has mapped in toy",
            "by driver toy, in DxgkDdiStopDevice",
            "stop_device",
        ],
    ),
    (
        "memory-of-the-device-used-beside-what-was-unmapped",
        "",
        "struct adapter *toy = context; volatile ULONG *mapped = MmMapIoSpace(toy->memory, 16, MmNonCached); MmUnmapIoSpace((PVOID)mapped, 16); (void)mapped[5];",
        &[
            "0x50 (0x",
            "read of 0x",
            "4 bytes behind 0x10 bytes of device memory at 0x",
            "which MmUnmapIoSpace has unmapped in toy",
        ],
    ),
    (
        "registers-used-after-they-were-unmapped",
        "",
        "struct adapter *toy = context; toy->interface.DxgkCbUnmapMemory(toy->handle, (PVOID)toy->registers);",
        &[
            "0x50 (0x",
            "bytes of device memory at 0x",
            "which DxgkCbUnmapMemory has unmapped in toy",
            "by driver toy, in DxgkDdiStopDevice",
            "WRITE_REGISTER_ULONG(",
        ],
    ),
    (
        "memory-of-the-device-unmapped-twice",
        "",
        "struct adapter *toy = context; PVOID mapped = MmMapIoSpace(toy->memory, 4096, MmNonCached); MmUnmapIoSpace(mapped, 4096); MmUnmapIoSpace(mapped, 4096);",
        &[
            "MmUnmapIoSpace of 0x",
            "which is no mapping of MmMapIoSpace: MmUnmapIoSpace has unmapped it in toy",
            "in DxgkDdiStopDevice",
        ],
    ),
    (
        "entry-removed-twice",
        "static LIST_ENTRY head, entry;\n",
        "InitializeListHead(&head); InsertTailList(&head, &entry); RemoveEntryList(&entry); RemoveEntryList(&entry);",
        &[
            "KERNEL_SECURITY_CHECK_FAILURE 0x139 (0x3, 0x0, 0x0, 0x0)",
            "fast fail with code 3 (INT 29h): a LIST_ENTRY is corrupt",
            "in DxgkDdiStopDevice in toy",
            "RtlFailFast(",
            ", from RemoveEntryList(",
            ", from stop_device(",
        ],
    ),
    (
        "fast-fail-at-dispatch-level",
        "",
        "struct adapter *toy = context; KIRQL irql; KeAcquireSpinLock(&toy->submission, &irql); RtlFailFast(2);",
        &[
            "KERNEL_SECURITY_CHECK_FAILURE 0x139 (0x2, 0x0, 0x0, 0x0)",
            "a buffer on the stack is overrun (/GS)",
            "toy.c:",
        ],
    ),
];

/// Page tables that find no memory beside what is resident are a refusal of the mapping. [d3dkmthk: D3DKMTMapGpuVirtualAddress]
#[test]
fn a_driver_whose_local_allocations_may_lie_in_memory_of_the_system_too_passes_the_case_of_memory_that_runs_out() {
    let old =
        "    info->SupportedWriteSegmentSet = wanted.local ? 1 << (SEGMENT_LOCAL - 1) : 1 << (SEGMENT_SYSTEM - 1);\n";
    let new = format!(
        "{old}    if (wanted.local) {{\n        info->SupportedWriteSegmentSet |= 1 << (SEGMENT_SYSTEM - 1);\n        \
         info->EvictionSegmentSet = 1 << (SEGMENT_SYSTEM - 1);\n        info->PreferredSegment.SegmentId1 = SEGMENT_SYSTEM;\n    }}\n"
    );
    let Some(toy) = Toy::new("preferred-of-two", old, &new) else { return };
    let report = toy.cases("AnyDriver.MemoryThatRuns");
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &0.into()), "{report}");
}

/// What is lent for one call is of no use after it. Windows' pages say so of no structure; that an access stops the machine is this system's rule.
#[test]
fn what_was_lent_for_an_earlier_call_is_found_with_special_pool_at_the_line_that_uses_it() {
    for (name, old, new, told_of_it) in [
        (
            "arguments-kept",
            "    device->adapter = handle;\n",
            "    static DXGKARG_CREATEDEVICE *kept;\n    if (kept)\n        kept->hDevice = NULL;\n    kept = args;\n    device->adapter = handle;\n",
            ["0xD5 (0x", "write to 0x", "create_device("],
        ),
        (
            "private-data-kept",
            "    RtlCopyMemory(&wanted, data, sizeof(wanted));\n",
            "    static const volatile UINT *kept;\n    if (kept && *kept == 1)\n        return STATUS_INVALID_PARAMETER;\n    kept = data;\n    RtlCopyMemory(&wanted, data, sizeof(wanted));\n",
            ["0xD5 (0x", "read of 0x", "in 16 bytes that"],
        ),
    ] {
        let Some(toy) = Toy::new(name, old, new) else { return };
        let described = toy.folder.join("examples/miniport-c/toy.cases");
        let described = described.to_str().expect("a path of letters");
        let case = "AnyDriver.HalfMadeAllocationsAreGivenBack";
        let output = toy.command("hlk", &["--special-pool", "--filter", case, "--private-data", described]);
        let told = String::from_utf8_lossy(&output.stdout);
        let lent = "bytes that the system has lent to the driver for a call which has returned by driver toy";
        for part in told_of_it.into_iter().chain([lent, "toy.c:"]) {
            assert!(told.contains(part), "{name}: {part:?} is not in {told}");
        }
    }
}

#[test]
fn a_read_behind_private_data_is_found_with_special_pool_at_its_line() {
    let old = "    RtlCopyMemory(&wanted, data, sizeof(wanted));\n";
    let new =
        format!("    if (((const volatile UCHAR *)data)[size] == 1)\n        return STATUS_INVALID_PARAMETER;\n{old}");
    let Some(toy) = Toy::new("read-behind", old, &new) else { return };
    let described = toy.folder.join("examples/miniport-c/toy.cases");
    let described = described.to_str().expect("a path of letters");
    let case = "AnyDriver.MemoryKeepsWhatTheProcessorWrites";
    let output = toy.command("hlk", &["--special-pool", "--filter", case, "--private-data", described]);
    let told = String::from_utf8_lossy(&output.stdout);
    for part in [
        "0xD6 (0x",
        "read of 0x",
        "1 bytes beyond the end of 16 bytes that the system has lent to the driver for this call by driver toy, in DxgkDdiCreateAllocation in toy",
        "describe(",
        "toy.c:",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

/// With Flags.Repeat one entry is given for all. [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS]
#[test]
fn a_read_behind_the_one_entry_of_a_repetition_is_found_with_special_pool_at_its_line() {
    let old = "update->pPageTableEntries[update->Flags.Repeat ? 0 : i]";
    let Some(toy) = Toy::new("read-behind-entry", old, "update->pPageTableEntries[i]") else { return };
    let output = toy.command("run", &["--special-pool", "--driver-limit", "20"]);
    let told = String::from_utf8_lossy(&output.stderr);
    for part in ["0xD6 (0x", "beyond the end of 16 bytes that the system has lent to the driver", "entry_of(", "toy.c:"]
    {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}
