//! Device power and the clock.
//!
//! The adapter declares no power components, so only whole-device states arrive. Before a low state the operating system suspends
//! every context and disconnects every doorbell.

use campanile_hw::registers::{self, Control};
use wddm_ddi::km::*;

use crate::adapter::Adapter;
use crate::gpu::Gpu;
use crate::irql::Passive;
use crate::nt;

/// DxgkDdiSetPowerState of the adapter: the scheduler stands still outside D0. Queues keep their places.
pub(crate) fn set_state(irql: &Passive, adapter: &Adapter, gpu: &Gpu, state: DEVICE_POWER_STATE) {
    let stands = !Control::from_bits(gpu.registers.read32(registers::CONTROL)).run();
    match state == DEVICE_POWER_STATE::PowerDeviceD0 {
        true if stands => gpu.unpause(irql),
        false if !stands => gpu.pause(irql, adapter),
        true | false => {}
    }
}

/// DxgkDdiCalibrateGpuClock: both clocks, read back to back.
pub(crate) fn clock(gpu: &Gpu) -> DXGK_GPUCLOCKDATA {
    let gpu_clock = gpu.registers.read64(registers::TIMESTAMP);
    let cpu_clock = nt::performance_counter();
    DXGK_GPUCLOCKDATA {
        GpuFrequency: gpu.hardware.clock_hz,
        GpuClockCounter: gpu_clock,
        CpuClockCounter: cpu_clock,
        Flags: DXGK_GPUCLOCKDATA_FLAGS::new(),
    }
}
