//! C5: what it takes to compile a module of SPIR-V for the GPU.

use super::error::BenchError;
use super::kernel::module;
use super::row::{Effort, Measurement, Row};
use super::vulkan::Lavapipe;
use super::vulkan_kernel::VulkanKernel;
use crate::clock::{Clock, Latencies, now};
use campanile_compiler::{Options, compile};

/// Instructions of the module, at least.
const INSTRUCTIONS: usize = 5_000;

/// A module of 5,000 instructions.
pub(super) const ROW: Row = Row {
    id: "C5",
    what: "compilation of a SPIR-V module of 5,000 instructions to a program of the GPU",
    unit: "ns",
    peers: &["a pipeline of the same module on lavapipe, which keeps what it compiled on disk"],
    aim: "p50 <= 20 ms",
    met: |ours, _| ours.p50 <= 20_000_000.0,
    further: &[],
    prepare: |_, effort| Ok(Box::new(Compilation::new(effort)?)),
};

struct Compilation {
    module: Vec<u32>,
    samples: usize,
    clock: Clock,
}

/// The instructions of a module.
fn instructions(module: &[u32]) -> usize {
    let header = 5;
    let (mut at, mut count) = (header, 0);
    while let Some(word) = module.get(at) {
        at += (word >> 16).max(1) as usize;
        count += 1;
    }
    count
}

/// A kernel of straight code whose module has at least so many instructions.
pub(super) fn long_module() -> Vec<u32> {
    let step = "    x = x * 5u + y;\n    y = (y ^ x) >> 3u;\n    z += x & y;\n";
    (1..)
        .map(|steps| {
            module(&format!(
                "@group(0) @binding(0) var<storage, read> numbers: array<u32>;
                @group(0) @binding(1) var<storage, read_write> results: array<u32>;
                @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                    var x = numbers[id.x]; var y = id.x; var z = 0u;
                    {}
                    results[id.x] = z;
                }}",
                step.repeat(steps * 10)
            ))
        })
        .find(|module| instructions(module) >= INSTRUCTIONS)
        .unwrap_or_default()
}

impl Compilation {
    fn new(effort: Effort) -> Result<Self, BenchError> {
        let samples = (effort.samples / 100).max(1);
        Ok(Self { module: long_module(), samples, clock: Clock::get() })
    }
}

impl Measurement for Compilation {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let started = now();
            compile(&self.module, &Options::default()).map_err(|error| BenchError::Machine(error.to_string()))?;
            latencies.record(self.clock.nanoseconds(started, now()));
        }
        Ok(latencies)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let Some(lavapipe) = Lavapipe::if_present() else { break };
            let started = now();
            let kernel = VulkanKernel::new(lavapipe, &self.module, &[4096, 4096], [1, 1, 1])?;
            latencies.record(self.clock.nanoseconds(started, now()));
            drop(kernel);
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_has_as_many_instructions_as_the_row_says() {
        let count = instructions(&long_module());
        assert!((INSTRUCTIONS..INSTRUCTIONS * 11 / 10).contains(&count), "{count}");
    }
}
