//! C2: ten kernels that programs are made of, by the GPU and by lavapipe: each on its own, and the geometric mean of all.

use super::error::BenchError;
use super::kernel::{Kernel, Source};
use super::row::{Effort, Measurement, Place, Row};
use crate::clock::Latencies;
use testbed::user::Adapter;

/// A kernel, what it works on, and how its results are compared.
struct Case {
    text: &'static str,
    input: fn() -> Vec<u8>,
    /// Bytes of the output.
    output: usize,
    grid: [u32; 3],
    compare: Compare,
}

/// Rule by which a result is that of another implementation.
#[derive(Clone, Copy)]
enum Compare {
    /// Same bits.
    Bits,
    /// Numbers of binary32 whose difference is at most a thousandth of the greater, or a millionth.
    Numbers,
    /// Counts of steps, of which one in a hundred may differ: the steps of a point at the edge depend on the last bit.
    MostCounts,
}

/// Numbers in an order without a pattern.
fn scattered(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| index.wrapping_mul(0x9e37_79b9).rotate_left(index % 31))
}

fn words(count: u32) -> Vec<u8> {
    scattered(count).flat_map(u32::to_le_bytes).collect()
}

/// Numbers from 0 to 1.
fn fractions(count: u32) -> Vec<u8> {
    scattered(count).flat_map(|word| ((word >> 8) as f32 / (1 << 24) as f32).to_le_bytes()).collect()
}

/// Left and upper edge of the plane, and the distance of its points.
fn corner() -> Vec<u8> {
    [-2.0f32, -1.25, 0.01].into_iter().flat_map(f32::to_le_bytes).collect()
}

const CASES: [Case; 10] = [
    Case {
        text: include_str!("kernels/saxpy.wgsl"),
        input: || fractions(2 << 20),
        output: 4 << 20,
        grid: [4096, 1, 1],
        compare: Compare::Numbers,
    },
    Case {
        text: include_str!("kernels/reduction.wgsl"),
        input: || words(1 << 20),
        output: 4 << 10,
        grid: [1024, 1, 1],
        compare: Compare::Bits,
    },
    Case {
        text: include_str!("kernels/scan.wgsl"),
        input: || words(1 << 18),
        output: 4 << 18,
        grid: [1024, 1, 1],
        compare: Compare::Bits,
    },
    Case {
        text: include_str!("kernels/histogram.wgsl"),
        input: || words(1 << 18),
        output: 64 * 1024,
        grid: [64, 1, 1],
        compare: Compare::Bits,
    },
    Case {
        text: include_str!("kernels/stencil.wgsl"),
        input: || fractions(1 << 20),
        output: 4 << 20,
        grid: [4, 1024, 1],
        compare: Compare::Numbers,
    },
    Case {
        text: include_str!("kernels/n_body.wgsl"),
        input: || fractions(4 << 10),
        output: 16 << 10,
        grid: [8, 1, 1],
        compare: Compare::Numbers,
    },
    Case {
        text: include_str!("kernels/mandelbrot.wgsl"),
        input: corner,
        output: 4 << 16,
        grid: [1, 256, 1],
        compare: Compare::MostCounts,
    },
    Case {
        text: include_str!("kernels/chacha20.wgsl"),
        input: || words(16),
        output: 1 << 20,
        grid: [256, 1, 1],
        compare: Compare::Bits,
    },
    Case {
        text: include_str!("kernels/blake3.wgsl"),
        input: || words(1 << 18),
        output: 32 << 10,
        grid: [16, 1, 1],
        compare: Compare::Bits,
    },
    Case {
        text: include_str!("kernels/sort.wgsl"),
        input: || words(1 << 17),
        output: 4 << 17,
        grid: [256, 1, 1],
        compare: Compare::Bits,
    },
];

/// Parts that the rows of single kernels have in common.
const KERNEL: Row = Row {
    id: "",
    what: "",
    unit: "ns",
    peers: &["the same kernel on lavapipe"],
    aim: "at least 0.7 times the rate of lavapipe",
    met: |_, ratio| ratio.p50 * 0.7 <= 1.0,
    further: &[],
    prepare: |_, _| unreachable!("each row has its own"),
};

/// All of them: each sample is the geometric mean of one run of each.
pub(super) const ALL: Row = Row {
    id: "C2",
    what: "geometric mean of the ten kernels below",
    aim: "at least 1.5 times the rate of lavapipe",
    met: |_, ratio| ratio.p50 * 1.5 <= 1.0,
    prepare: |place, effort| prepare(place, effort, &CASES),
    ..KERNEL
};
pub(super) const SAXPY: Row = Row {
    id: "C2A",
    what: "a multiple of a vector and another one, of 2^20 numbers",
    prepare: |place, effort| prepare(place, effort, &CASES[..1]),
    ..KERNEL
};
pub(super) const REDUCTION: Row = Row {
    id: "C2B",
    what: "sums of 1024 numbers, of 2^20",
    prepare: |place, effort| prepare(place, effort, &CASES[1..2]),
    ..KERNEL
};
pub(super) const SCAN: Row = Row {
    id: "C2C",
    what: "prefix sums of 256 numbers, of 2^18",
    prepare: |place, effort| prepare(place, effort, &CASES[2..3]),
    ..KERNEL
};
pub(super) const HISTOGRAM: Row = Row {
    id: "C2D",
    what: "histograms of 1 MiB of bytes, by atomics in workgroup memory",
    prepare: |place, effort| prepare(place, effort, &CASES[3..4]),
    ..KERNEL
};
pub(super) const STENCIL: Row = Row {
    id: "C2E",
    what: "stencil of five points over 1024 rows and columns",
    prepare: |place, effort| prepare(place, effort, &CASES[4..5]),
    ..KERNEL
};
pub(super) const N_BODY: Row = Row {
    id: "C2F",
    what: "accelerations of 1024 bodies by all of them",
    prepare: |place, effort| prepare(place, effort, &CASES[5..6]),
    ..KERNEL
};
pub(super) const MANDELBROT: Row = Row {
    id: "C2G",
    what: "Mandelbrot's set in 256 rows and columns",
    prepare: |place, effort| prepare(place, effort, &CASES[6..7]),
    ..KERNEL
};
pub(super) const CHACHA20: Row = Row {
    id: "C2H",
    what: "1 MiB of ChaCha20's key stream",
    prepare: |place, effort| prepare(place, effort, &CASES[7..8]),
    ..KERNEL
};
pub(super) const BLAKE3: Row = Row {
    id: "C2I",
    what: "BLAKE3's chaining values of 1 MiB in chunks of 1024 bytes",
    prepare: |place, effort| prepare(place, effort, &CASES[8..9]),
    ..KERNEL
};
pub(super) const SORT: Row = Row {
    id: "C2J",
    what: "bitonic sort of 512 numbers, of 2^17",
    prepare: |place, effort| prepare(place, effort, &CASES[9..]),
    ..KERNEL
};

fn prepare(place: &Place<'_>, effort: Effort, cases: &'static [Case]) -> Result<Box<dyn Measurement>, BenchError> {
    let adapter = Adapter::open_luid(place.luid())?;
    let kernels = cases.iter().map(|case| case.kernel(&adapter)).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(Kernels { cases, kernels, samples: (effort.samples / 400).max(1) }))
}

struct Kernels {
    cases: &'static [Case],
    kernels: Vec<Kernel>,
    samples: usize,
}

impl Case {
    fn kernel(&self, adapter: &Adapter) -> Result<Kernel, BenchError> {
        let inputs = [(self.input)()];
        Kernel::new(adapter, &Source { text: self.text, inputs: &inputs, output: self.output, grid: self.grid })
    }
}

impl Compare {
    /// True if one result is as good as the other.
    fn is_same(self, ours: &[u8], other: &[u8]) -> bool {
        let pairs = || ours.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
        let is_near = |ours: f32, other: f32| (ours - other).abs() <= (ours.abs().max(other.abs()) * 1e-3).max(1e-6);
        match self {
            Self::Bits => ours == other,
            Self::Numbers => {
                pairs().all(|(ours, other)| is_near(f32::from_le_bytes(*ours), f32::from_le_bytes(*other)))
            }
            Self::MostCounts => pairs().filter(|(ours, other)| ours != other).count() * 100 <= ours.len() / 4,
        }
    }
}

/// The geometric mean of times; `None` if one is missing.
fn mean(times: impl Iterator<Item = Result<Option<f64>, BenchError>>) -> Result<Option<f64>, BenchError> {
    let (mut sum, mut count) = (0.0, 0);
    for time in times {
        let Some(time) = time? else { return Ok(None) };
        sum += time.ln();
        count += 1;
    }
    Ok(Some((sum / f64::from(count)).exp()))
}

impl Measurement for Kernels {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let time = mean(self.kernels.iter_mut().map(|kernel| kernel.run().map(Some)))?;
            time.into_iter().for_each(|time| latencies.record(time));
        }
        Ok(latencies)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let time = mean(self.kernels.iter_mut().map(Kernel::run_on_lavapipe))?;
            time.into_iter().for_each(|time| latencies.record(time));
        }
        for (case, kernel) in self.cases.iter().zip(&mut self.kernels) {
            // A round has ours before or after, and each has the same input.
            if let Some(theirs) = kernel.output_of_lavapipe().filter(|_| kernel.has_run())
                && !case.compare.is_same(&kernel.output()?, &theirs)
            {
                let name = case.text.lines().find_map(|line| line.strip_prefix("// ")).unwrap_or_default();
                return Err(BenchError::Machine(format!("lavapipe computes another result: {name}")));
            }
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_compared_by_the_rule_of_their_kernel() {
        let numbers = |numbers: [f32; 2]| numbers.map(f32::to_le_bytes).concat();
        assert!(Compare::Numbers.is_same(&numbers([1.0, 0.0]), &numbers([1.0005, 1e-7])));
        assert!(!Compare::Numbers.is_same(&numbers([1.0, 0.0]), &numbers([1.01, 0.0])));
        assert!(!Compare::Bits.is_same(&numbers([1.0, 0.0]), &numbers([1.0005, 0.0])));
        let counts = |wrong: usize| (0..200).flat_map(|at| u32::from(at < wrong).to_le_bytes()).collect::<Vec<u8>>();
        assert!(Compare::MostCounts.is_same(&counts(0), &counts(2)));
        assert!(!Compare::MostCounts.is_same(&counts(0), &counts(3)));
    }

    #[test]
    fn the_geometric_mean_needs_all() {
        let times = |times: [Option<f64>; 2]| mean(times.into_iter().map(Ok)).unwrap();
        assert!((times([Some(2.0), Some(8.0)]).unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(times([Some(2.0), None]), None);
    }
}
