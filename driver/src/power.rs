//! Device power and the clock.
//!
//! The adapter declares no power components, so only whole-device states arrive. Before a low state the operating system suspends
//! every context and disconnects every doorbell.

use campanile_hw::registers;
use wddm_ddi::km::*;

use crate::gpu::Gpu;
use crate::nt;

/// DxgkDdiSetPowerState of the adapter: the scheduler stands still outside D0. Queues keep their places.
pub(crate) fn set_state(gpu: &Gpu, state: DEVICE_POWER_STATE) {
    if !gpu.is_running() {
        return;
    }
    if state == DEVICE_POWER_STATE::PowerDeviceD0 {
        gpu.unpause();
    } else {
        gpu.pause();
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
