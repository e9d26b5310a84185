//! The counters in the registers of the GPUs of an adapter, read together, and the difference between two readings.

use campanile_hw::registers as register;

use super::Part;

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
    pub(super) fn read(part: &Part) -> Self {
        let count = |offset| part.register(offset, 8);
        Self {
            doorbells: count(register::COUNT_DOORBELLS),
            waits: count(register::COUNT_WAITS),
            signals: count(register::COUNT_SIGNALS),
            interrupts: count(register::COUNT_INTERRUPTS),
            retired: count(register::COUNT_RETIRED),
            preemptions: count(register::COUNT_PREEMPTIONS),
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
