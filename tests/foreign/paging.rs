//! Mistakes in paging operations of the driver in C and in the page tables that its function reads, each with what the program must tell of it.

use crate::mistakes::Broken;

pub(crate) const BROKEN_PAGING: &[Broken] = &[
    Broken {
        name: "memory-not-zeroed",
        old: "                    args->FillVirtual.FillSizeInBytes);",
        new: "                    args->FillVirtual.FillSizeInBytes - 4);",
        case: "AnyDriver.NewMemoryIsZero",
        told: &["new memory, round ", " is 0xdead000", ", not 0x00000000; 1 of "],
    },
    Broken {
        name: "read-only-ignored",
        old: "(pte->ReadOnly ? TOY_PTE_READ_ONLY : 0)",
        new: "0",
        case: "AnyDriver.ReadOnlyMappingIsNotWritten",
        told: &[
            "commands that must cost their device were reported as complete, and expected was DXGK_INTERRUPT_DMA_PAGE_FAULTED",
            "memory without the right to write: word 0 is 0x22222222",
        ],
    },
    Broken {
        name: "eviction-loses",
        old: "        return emit(args, TOY_COPY, 0, args->TransferVirtual.DestinationVirtualAddress, args->TransferVirtual.SourceVirtualAddress,\n                    args->TransferVirtual.TransferSizeInBytes);",
        new: "        return STATUS_SUCCESS;",
        case: "AnyDriver.EvictedMemoryComesBack",
        told: &["the half that came back: word 0 is 0x", ", not 0x1ca10000; "],
    },
    Broken {
        name: "paging-buffer-overflows",
        old: "    args->pDmaBuffer = command + 1;",
        new: "    args->pDmaBuffer = command + 100000;",
        case: "AnyDriver.MemoryKeepsWhatTheProcessorWrites",
        told: &[
            "0x10E (0x12, 0x",
            "DxgkDdiBuildPagingBuffer for DXGK_OPERATION_",
            " on the paging node of engine 0 wrote beyond the 0x",
            "it moved pDmaBuffer to 0x",
            "bytes behind the start of the buffer",
        ],
    },
    Broken {
        name: "copies-of-entries-refused",
        old: "return copy_entries(args);",
        new: "return args->DmaSize == 0 ? copy_entries(args) : STATUS_INVALID_PARAMETER;",
        case: "AnyDriver.MappingsChangeBetweenPackets",
        told: &[
            "0x10E (0xB, 0xE, 0xC000000D, 0x0)",
            "DxgkDdiBuildPagingBuffer for DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES",
        ],
    },
    Broken {
        name: "another-entry-is-copied",
        old: "range->SrcPageTableAddress + 8 * range->SrcStartPteIndex;",
        new: "range->SrcPageTableAddress + 8 * (range->SrcStartPteIndex + 1);",
        case: "AnyDriver.MappingsChangeBetweenPackets",
        told: &["page 3 behind 2 changes, local false: word 0 is 0x00000000, not 0x66000007"],
    },
    Broken {
        name: "translations-are-remembered",
        old: "                (entry,) = struct.unpack_from(\"<Q\", memory, at)\n",
        new: "                entry = self.__dict__.setdefault(\"remembered\", {}).setdefault((root, address >> 12, level), struct.unpack_from(\"<Q\", memory, at)[0])\n",
        case: "AnyDriver.AddressLeadsToWhatIsMappedThere",
        told: &["memory that was mapped at the same address before or is now: word 0 is 0x440001"],
    },
    Broken {
        name: "half-of-a-table-is-not-used",
        old: "9 * level & 511)",
        new: "9 * level & 255)",
        case: "AnyDriver.AddressesMayLieFarApart",
        told: &["memory at an address with bit "],
    },
];
