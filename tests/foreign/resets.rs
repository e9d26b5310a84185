//! Drivers that fail in the reset of the whole adapter, which a case forces.

use super::mistakes::Broken;

/// A GPU that stops whatever runs, and goes on with it later from its beginning.
pub(crate) const STOPS_ANYWHERE: &[(&str, &str)] = &[
    ("= D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;", "= D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY;"),
    (
        "            self.queue = []\n            if self.hung is None:\n                self.report(TOY_REPORT_PREEMPTED, value)\n",
        "            self.queue, self.hung = [], None\n            self.report(TOY_REPORT_PREEMPTED, value)\n",
    ),
];

const CASE: &str = "AnyDriver.AdapterResetFollowsThePages";
const RESET: &str = "reset_function, adapter, 0, &done);\n    return STATUS_SUCCESS;";
const RESTART: &str = "static NTSTATUS restart_from_timeout(HANDLE handle)\n{\n    write_register(handle, TOY_GO, 1);\n    return STATUS_SUCCESS;";

pub(crate) const BROKEN_RESETS: &[Broken] = &[
    Broken {
        name: "adapter-reset-refused",
        old: RESET,
        new: "reset_function, adapter, 0, &done);\n    return STATUS_UNSUCCESSFUL;",
        case: CASE,
        told: &[
            "0x116 (0x1, 0x0, 0xC0000001",
            "DxgkDdiResetFromTimeout answered STATUS_UNSUCCESSFUL (0xc0000001), and expected was STATUS_SUCCESS",
            "[d3dkmddi: DXGKDDI_RESETFROMTIMEOUT]",
        ],
    },
    Broken {
        name: "adapter-reset-later",
        old: RESET,
        new: "reset_function, adapter, 0, &done);\n    return STATUS_PENDING;",
        case: CASE,
        told: &["0x116 (0x1, 0x0, 0x103", "DxgkDdiResetFromTimeout answered STATUS_PENDING (0x00000103)"],
    },
    Broken {
        name: "adapter-restart-refused-alone",
        old: RESTART,
        new: "static NTSTATUS restart_from_timeout(HANDLE handle)\n{\n    write_register(handle, TOY_GO, 1);\n    return STATUS_NO_MEMORY;",
        case: CASE,
        told: &[
            "0x116 (0x1, 0x0, 0xC0000017",
            "DxgkDdiRestartFromTimeout answered STATUS_NO_MEMORY (0xc0000017), and expected was STATUS_SUCCESS",
            "[d3dkmddi: DXGKDDI_RESTARTFROMTIMEOUT]",
        ],
    },
    Broken {
        name: "information-refused-wrongly",
        old: "        *(ULONG *)args->pBuffer = read_register(handle, TOY_COMPLETED);\n    return STATUS_SUCCESS;",
        new: "        *(ULONG *)args->pBuffer = read_register(handle, TOY_COMPLETED);\n    return STATUS_INVALID_PARAMETER;",
        case: CASE,
        told: &[
            "DxgkDdiCollectDbgInfo answered STATUS_INVALID_PARAMETER (0xc000000d)",
            "expected was STATUS_SUCCESS, STATUS_NO_MEMORY or STATUS_UNSUCCESSFUL",
            "[d3dkmddi: DXGKDDI_COLLECTDBGINFO]",
        ],
    },
    Broken {
        name: "information-beyond-its-buffer-for-the-adapter",
        old: "        *(ULONG *)args->pBuffer = read_register(handle, TOY_COMPLETED);",
        new: "        ((ULONG *)args->pBuffer)[args->BufferSize / 4] = read_register(handle, TOY_COMPLETED);",
        case: CASE,
        told: &["0x113", "DxgkDdiCollectDbgInfo wrote past the ", "bytes of pBuffer"],
    },
];
