//! Fuzz targets: functions that take bytes from somewhere else and assert what must hold for every input. docs/fuzzing.md is about running them.
//!
//! The library knows no fuzzer. `fuzz/engine` links it with libFuzzer, and its own tests give each target the committed files and changes of them.

#![deny(unsafe_code)]

#[cfg_attr(not(feature = "machine"), allow(dead_code))] // the other targets read more
mod input;
mod targets;

/// One target. `targets.toml` says what it reads.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folders in `corpus` and `regressions`.
    pub name: &'static str,
    /// Changes of its corpus that the tests give it, as many as take about a second.
    pub changes: u64,
    /// Takes one input. A panic is a finding.
    pub run: fn(&[u8]),
}

/// Every target; without the feature `machine` those alone that need none.
pub const TARGETS: &[Target] = &[
    Target { name: "assembly", changes: 3_000, run: targets::assembly },
    #[cfg(feature = "machine")]
    Target { name: "debug_data", changes: 3_000, run: targets::debug_data },
    #[cfg(feature = "machine")]
    Target { name: "executors", changes: 300, run: targets::executors },
    Target { name: "inf", changes: 3_000, run: targets::inf },
    Target { name: "machine_messages", changes: 3_000, run: targets::machine_messages },
    Target { name: "packets", changes: 3_000, run: targets::packets },
    Target { name: "pe", changes: 3_000, run: targets::pe },
    Target { name: "planted", changes: 3_000, run: targets::planted },
    #[cfg(feature = "machine")]
    Target { name: "private", changes: 100, run: targets::private },
    Target { name: "programs", changes: 3_000, run: targets::programs },
    #[cfg(feature = "machine")]
    Target { name: "rings", changes: 300, run: targets::rings },
    Target { name: "spirv", changes: 3_000, run: targets::spirv },
    #[cfg(feature = "machine")]
    Target { name: "thunks", changes: 300, run: targets::thunks },
    #[cfg(feature = "machine")]
    Target { name: "trace", changes: 1_000, run: targets::trace },
    #[cfg(feature = "machine")]
    Target { name: "vfio_user", changes: 1_000, run: targets::vfio_user },
    #[cfg(feature = "machine")]
    Target { name: "walks", changes: 500, run: targets::walks },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
