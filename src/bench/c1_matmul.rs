//! C1: the product of two matrices, by the GPU's program, by code of the host's compiler, and by lavapipe.

use super::error::BenchError;
use super::kernel::{Kernel, Source};
use super::row::{Effort, Measurement, PeerAim, Row};
use crate::clock::{Clock, Latencies, now};
use testbed::user::Adapter;

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
    kernel: Kernel,
    left: Vec<f32>,
    right: Vec<f32>,
    expected: Vec<f32>,
    samples: usize,
    clock: Clock,
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
        // Small integers, whose sums are exact in whatever order.
        let matrix = |seed: usize| (0..SIZE * SIZE).map(|place| ((place * 7 + seed) % 13) as f32).collect::<Vec<_>>();
        let (left, right) = (matrix(1), matrix(5));
        let inputs = [bytes(&left), bytes(&right)];
        let kernel = Kernel::new(adapter, &Source { text: SOURCE, inputs: &inputs, output: BYTES, grid: GRID })?;
        let samples = (effort.samples / 400).max(1);
        Ok(Self { kernel, left, right, expected: Vec::new(), samples, clock: Clock::get() })
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
        let latencies = self.kernel.runs_on_lavapipe(self.samples)?;
        if let Some(product) = self.kernel.output_of_lavapipe() {
            self.compare(&product, "lavapipe")?;
        }
        Ok(latencies)
    }
}

impl Measurement for Product {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let latencies = self.kernel.runs(self.samples)?;
        self.compare(&self.kernel.output()?, "the GPU")?;
        Ok(latencies)
    }

    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError> {
        if index == 0 { self.native() } else { self.lavapipe() }
    }
}
