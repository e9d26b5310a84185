//! C1: the product of two matrices, by the GPU's program, by code of the host's compiler, and by lavapipe.

use campanile_compiler::{Options, compile};

use super::vulkan::Lavapipe;
use super::vulkan_kernel::VulkanKernel;
use super::{BenchError, Effort, Measurement, PeerAim, Row};
use crate::clock::{Clock, Latencies, now};
use testbed::user::{Adapter, Device, Fence, Mapping, Node, Placement, Program, Queue, QueueOptions};

/// Rows and columns.
const SIZE: usize = 512;
const BYTES: usize = SIZE * SIZE * 4;
/// Rows that are computed together.
const ROWS: usize = 4;
/// Columns of them, on the host.
const COLUMNS: usize = 16;
const SOURCE: &str = include_str!("kernels/matmul.wgsl");
/// Workgroups: each has [`ROWS`] rows of 128 columns.
const GRID: [u32; 3] = [SIZE as u32 / 128, (SIZE / ROWS) as u32, 1];

/// The product of matrices of binary32 with 512 rows and columns.
pub(super) const ROW: Row = Row {
    id: "C1",
    what: "product of two matrices of 512 rows and columns in binary32, by blocks of four rows",
    unit: "ns",
    peers: &["the same loop in Rust, compiled for AVX2, on one thread", "the same kernel on lavapipe"],
    aim: "at least half the rate of the host's code",
    met: |_, ratio| ratio.p50 <= 2.0,
    further: &[PeerAim {
        peer: 1,
        aim: "at least three times the rate of lavapipe",
        met: |ratio| ratio.p50 * 3.0 <= 1.0,
    }],
    prepare: |system, effort| Ok(Box::new(Product::new(&Adapter::open_luid(system.luid())?, effort)?)),
};

struct Product {
    queue: Queue,
    fence: Fence,
    value: u64,
    program: Program,
    arguments: u64,
    /// The argument block, both matrices and the product.
    mappings: Vec<Mapping>,
    lavapipe: Option<VulkanKernel>,
    left: Vec<f32>,
    right: Vec<f32>,
    expected: Vec<f32>,
    samples: usize,
    clock: Clock,
}

/// The module of a kernel in WGSL.
fn module(source: &str) -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(source).expect("the bench's own kernel");
    let (flags, capabilities) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty());
    let info = naga::valid::Validator::new(flags, capabilities).validate(&module).expect("valid");
    let options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    naga::back::spv::write_vec(&module, &info, &options, None).expect("written")
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Adds the products of a column of the left rows and a piece of a right row, as long as the piece is.
#[target_feature(enable = "avx2")]
fn multiply(left: &[f32], right: &[f32], product: &mut [f32]) {
    for row in (0..SIZE).step_by(ROWS) {
        for column in (0..SIZE).step_by(COLUMNS) {
            let mut sums = [[0f32; COLUMNS]; ROWS];
            for k in 0..SIZE {
                let Some(piece) = right[k * SIZE + column..].first_chunk::<COLUMNS>() else { return };
                for (sums, row) in sums.iter_mut().zip(row..) {
                    let factor = left[row * SIZE + k];
                    sums.iter_mut().zip(piece).for_each(|(sum, number)| *sum += factor * number);
                }
            }
            for (sums, row) in sums.iter().zip(row..) {
                product[row * SIZE + column..][..COLUMNS].copy_from_slice(sums);
            }
        }
    }
}

impl Product {
    fn new(adapter: &Adapter, effort: Effort) -> Result<Self, BenchError> {
        let device = Device::new(adapter)?;
        let module = module(SOURCE);
        let compiled = compile(&module, &Options::default()).map_err(|error| BenchError::Machine(error.to_string()))?;
        // Small integers, whose sums are exact in whatever order.
        let matrix = |seed: usize| (0..SIZE * SIZE).map(|place| ((place * 7 + seed) % 13) as f32).collect::<Vec<_>>();
        let (left, right) = (matrix(1), matrix(5));
        let buffers: Result<Vec<_>, _> = [4096, BYTES, BYTES, BYTES]
            .map(|size| device.create_buffer(size as u64, Placement::System))
            .into_iter()
            .collect();
        let buffers = buffers?;
        let addresses: Vec<u64> = buffers.iter().map(|buffer| buffer.gpu_address()).collect();
        let mappings = buffers.iter().map(|buffer| buffer.map()).collect::<Result<Vec<_>, _>>()?;
        for descriptor in &compiled.arguments.descriptors {
            let address = addresses[descriptor.binding as usize + 1];
            let words = [address, BYTES as u64].map(u64::to_le_bytes).concat();
            mappings[0].write(descriptor.offset as usize, &words)?;
        }
        mappings[1].write(0, &bytes(&left))?;
        mappings[2].write(0, &bytes(&right))?;
        let lavapipe = Lavapipe::if_present().map(|lavapipe| VulkanKernel::new(lavapipe, &module, &[BYTES; 3], GRID));
        let mut lavapipe = lavapipe.transpose()?;
        if let Some(kernel) = &mut lavapipe {
            kernel.write(0, &bytes(&left));
            kernel.write(1, &bytes(&right));
        }
        Ok(Self {
            queue: Queue::new(&device, Node::Compute, QueueOptions::default())?,
            fence: Fence::new(&device, 0)?,
            value: 0,
            program: device.create_program(&compiled.program)?,
            arguments: addresses[0],
            mappings,
            lavapipe,
            left,
            right,
            expected: Vec::new(),
            samples: (effort.samples / 400).max(1),
            clock: Clock::get(),
        })
    }

    /// Fails if a product is not the host's.
    fn compare(&self, product: &[u8], who: &str) -> Result<(), BenchError> {
        let same = self.expected.is_empty() || bytes(&self.expected) == product;
        if same { Ok(()) } else { Err(BenchError::Machine(format!("{who} computes another product"))) }
    }

    fn native(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        if !is_x86_feature_detected!("avx2") {
            return Ok(latencies);
        }
        let mut product = vec![0.0; SIZE * SIZE];
        for _ in 0..self.samples {
            let started = now();
            // SAFETY: the processor has AVX2.
            unsafe { multiply(&self.left, &self.right, &mut product) };
            latencies.record(self.clock.nanoseconds(started, now()));
        }
        self.expected = product;
        Ok(latencies)
    }

    fn lavapipe(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        let Some(kernel) = &mut self.lavapipe else { return Ok(latencies) };
        for _ in 0..self.samples {
            let started = now();
            kernel.run()?;
            latencies.record(self.clock.nanoseconds(started, now()));
        }
        let mut product = vec![0; BYTES];
        kernel.read(2, &mut product);
        self.compare(&product, "lavapipe")?;
        Ok(latencies)
    }
}

impl Measurement for Product {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let dispatch = self.program.dispatch(GRID, self.arguments);
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            self.value += 1;
            let (fence, value) = (&self.fence, self.value);
            let started = now();
            self.queue.submit(|commands| {
                commands.dispatch(&dispatch)?;
                commands.signal(fence, value)
            })?;
            fence.wait(value, None)?;
            latencies.record(self.clock.nanoseconds(started, now()));
        }
        let mut product = vec![0; BYTES];
        self.mappings[3].read(0, &mut product)?;
        self.compare(&product, "the GPU")?;
        Ok(latencies)
    }

    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError> {
        if index == 0 { self.native() } else { self.lavapipe() }
    }
}
