//! The counters in the registers of the GPUs of an adapter, read together, and the difference between two readings.

use campanile_hw::registers;

/// Counters in the GPU's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCounters {
    /// Doorbell stores seen.
    pub doorbells: u64,
    /// WAIT packets satisfied.
    pub waits: u64,
    /// SIGNAL packets executed.
    pub signals: u64,
    /// Interrupt messages sent.
    pub interrupts: u64,
    /// Command buffers retired.
    pub retired: u64,
    /// Times that a queue left the compute node in a dispatch.
    pub preemptions: u64,
}

impl GpuCounters {
    /// Reads the counters; `register` reads eight bytes at an offset of the registers.
    pub(super) fn read(register: impl Fn(u64) -> u64) -> Self {
        Self {
            doorbells: register(registers::COUNT_DOORBELLS),
            waits: register(registers::COUNT_WAITS),
            signals: register(registers::COUNT_SIGNALS),
            interrupts: register(registers::COUNT_INTERRUPTS),
            retired: register(registers::COUNT_RETIRED),
            preemptions: register(registers::COUNT_PREEMPTIONS),
        }
    }

    /// Difference between these counts and `earlier` ones.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            doorbells: self.doorbells.wrapping_sub(earlier.doorbells),
            waits: self.waits.wrapping_sub(earlier.waits),
            signals: self.signals.wrapping_sub(earlier.signals),
            interrupts: self.interrupts.wrapping_sub(earlier.interrupts),
            retired: self.retired.wrapping_sub(earlier.retired),
            preemptions: self.preemptions.wrapping_sub(earlier.preemptions),
        }
    }
}
