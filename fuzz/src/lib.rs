//! Fuzz targets: functions that take bytes from somewhere else and assert what must hold for every input. docs/fuzzing.md is about running them.
//!
//! The library knows no fuzzer. `fuzz/engine` links it with libFuzzer, and its own tests give each target the committed files and changes of them.

#![deny(unsafe_code)]

mod input;
mod targets;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folders in `corpus` and `regressions`.
    pub name: &'static str,
    /// The formats and the readers that take the input, for `--list`.
    pub reads: &'static str,
    /// Changes of its corpus that the tests give it, as many as take about a second.
    pub changes: u64,
    /// Takes one input. A panic is a finding.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "pe", reads: "PE images: the loader of driver images", changes: 3_000, run: targets::pe },
    Target {
        name: "inf",
        reads: "INF files: the reader, and expansion of their strings",
        changes: 3_000,
        run: targets::inf,
    },
    Target { name: "packets", reads: "GPU packets in a command buffer", changes: 3_000, run: targets::packets },
    Target {
        name: "programs",
        reads: "programs of the compute engine: validation and disassembly",
        changes: 3_000,
        run: targets::programs,
    },
    Target {
        name: "assembly",
        reads: "programs of the compute engine as text: the assembler",
        changes: 3_000,
        run: targets::assembly,
    },
    Target { name: "spirv", reads: "SPIR-V modules: the compiler", changes: 3_000, run: targets::spirv },
    Target {
        name: "rings",
        reads: "queues of the GPU: page tables, ring, command buffers and write pointer",
        changes: 300,
        run: targets::rings,
    },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
