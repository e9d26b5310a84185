//! Time between two moments of the GPU, taken by the GPU.

use campanile_hw::pci::BAR_REGISTERS;
use campanile_hw::registers;

use super::error::BenchError;
use testbed::setup::System;
use testbed::user::{Device, Mapping, Placement};

/// Two words that TIMESTAMP packets write.
pub(super) struct Stopwatch {
    times: Mapping,
    address: u64,
    nanoseconds_a_tick: f64,
}

impl Stopwatch {
    pub(super) fn new(system: &System, device: &Device) -> Result<Self, BenchError> {
        let times = device.create_buffer(4096, Placement::System)?;
        let address = times.gpu_address();
        let hertz = system.bus().register_read(BAR_REGISTERS, registers::CLOCK_HZ, 8);
        Ok(Self { times: times.map()?, address, nanoseconds_a_tick: 1e9 / hertz as f64 })
    }

    /// Address to which the TIMESTAMP packet at the start writes.
    pub(super) fn start(&self) -> u64 {
        self.address
    }

    /// Address to which the TIMESTAMP packet at the end writes.
    pub(super) fn end(&self) -> u64 {
        self.address + 8
    }

    fn ticks(&self, word: usize) -> Result<u64, BenchError> {
        let mut bytes = [0; 8];
        self.times.read(word * 8, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Nanoseconds between the two, once both packets are done.
    pub(super) fn nanoseconds(&self) -> Result<f64, BenchError> {
        Ok(self.ticks(1)?.saturating_sub(self.ticks(0)?) as f64 * self.nanoseconds_a_tick)
    }
}
