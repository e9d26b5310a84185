//! A kernel in WGSL: compiled for this project's GPU, and the same module on lavapipe.

use campanile_compiler::{Options, compile};

use super::error::BenchError;
use super::vulkan::Lavapipe;
use super::vulkan_kernel::VulkanKernel;
use crate::clock::{Clock, Latencies, now};
use testbed::user::{Adapter, Device, Fence, Mapping, Node, Placement, Program, Queue, QueueOptions};

/// A kernel and what it works on. Its buffers are bindings of group 0: the inputs, and then the output.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) inputs: &'a [Vec<u8>],
    /// Bytes of the output.
    pub(super) output: usize,
    /// Workgroups in each dimension.
    pub(super) grid: [u32; 3],
}

impl Source<'_> {
    /// Bytes of each buffer.
    fn sizes(&self) -> Vec<usize> {
        self.inputs.iter().map(Vec::len).chain([self.output]).collect()
    }
}

/// The module in SPIR-V of a kernel in WGSL.
pub(super) fn module(text: &str) -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(text).expect("the bench's own kernel");
    let (flags, capabilities) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty());
    let info = naga::valid::Validator::new(flags, capabilities).validate(&module).expect("valid");
    let options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    naga::back::spv::write_vec(&module, &info, &options, None).expect("written")
}

/// A kernel that is ready to run on both.
pub(super) struct Kernel {
    queue: Queue,
    fence: Fence,
    value: u64,
    program: Program,
    grid: [u32; 3],
    arguments: u64,
    /// The argument block, the inputs and the output.
    mappings: Vec<Mapping>,
    lavapipe: Option<VulkanKernel>,
    /// Bytes of the output.
    output: usize,
    clock: Clock,
}

impl Kernel {
    pub(super) fn new(adapter: &Adapter, source: &Source<'_>) -> Result<Self, BenchError> {
        let device = Device::new(adapter)?;
        let module = module(source.text);
        let compiled = compile(&module, &Options::default()).map_err(|error| BenchError::Machine(error.to_string()))?;
        let sizes = source.sizes();
        let all = [4096].iter().chain(&sizes);
        let buffers = all.map(|size| device.create_buffer(*size as u64, Placement::System));
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<u64> = buffers.iter().map(|buffer| buffer.gpu_address()).collect();
        let mappings = buffers.iter().map(|buffer| buffer.map()).collect::<Result<Vec<_>, _>>()?;
        for descriptor in &compiled.arguments.descriptors {
            let binding = descriptor.binding as usize;
            let words = [addresses[binding + 1], sizes[binding] as u64].map(u64::to_le_bytes).concat();
            mappings[0].write(descriptor.offset as usize, &words)?;
        }
        let lavapipe = Lavapipe::if_present().map(|lavapipe| VulkanKernel::new(lavapipe, &module, &sizes, source.grid));
        let mut lavapipe = lavapipe.transpose()?;
        for (number, input) in source.inputs.iter().enumerate() {
            mappings[number + 1].write(0, input)?;
            if let Some(kernel) = &mut lavapipe {
                kernel.write(number, input);
            }
        }
        Ok(Self {
            queue: Queue::new(&device, Node::Compute, QueueOptions::default())?,
            fence: Fence::new(&device, 0)?,
            value: 0,
            program: device.create_program(&compiled.program)?,
            grid: source.grid,
            arguments: addresses[0],
            mappings,
            lavapipe,
            output: source.output,
            clock: Clock::get(),
        })
    }

    /// Nanoseconds of a run on the GPU, from submission until the fence is seen.
    pub(super) fn run(&mut self) -> Result<f64, BenchError> {
        let dispatch = self.program.dispatch(self.grid, self.arguments);
        self.value += 1;
        let (fence, value) = (&self.fence, self.value);
        let started = now();
        self.queue.submit(|commands| {
            commands.dispatch(&dispatch)?;
            commands.signal(fence, value)
        })?;
        fence.wait(value, None)?;
        Ok(self.clock.nanoseconds(started, now()))
    }

    /// Nanoseconds of a run on lavapipe, if the host has that.
    pub(super) fn run_on_lavapipe(&mut self) -> Result<Option<f64>, BenchError> {
        let Some(kernel) = &mut self.lavapipe else { return Ok(None) };
        let started = now();
        kernel.run()?;
        Ok(Some(self.clock.nanoseconds(started, now())))
    }

    /// Runs on the GPU.
    pub(super) fn runs(&mut self, samples: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..samples {
            latencies.record(self.run()?);
        }
        Ok(latencies)
    }

    /// Runs on lavapipe; none where the host lacks it.
    pub(super) fn runs_on_lavapipe(&mut self, samples: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..samples {
            self.run_on_lavapipe()?.into_iter().for_each(|time| latencies.record(time));
        }
        Ok(latencies)
    }

    /// True if it has run on the GPU.
    pub(super) fn has_run(&self) -> bool {
        self.value != 0
    }

    /// The output of the last run on the GPU.
    pub(super) fn output(&self) -> Result<Vec<u8>, BenchError> {
        let mut bytes = vec![0; self.output];
        let place = self.mappings.last().ok_or_else(|| BenchError::Machine("the kernel has no output".into()))?;
        place.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The output of the last run on lavapipe, if the host has that.
    pub(super) fn output_of_lavapipe(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.output];
        self.lavapipe.as_mut()?.read(self.mappings.len() - 2, &mut bytes);
        Some(bytes)
    }
}
