//! Power of nodes and device, and the clock.
//!
//! Every node is a power component with the states F0 and F1; the operating system disconnects the doorbells of a node before it
//! asks for F1. Before a low state of the device it suspends every context and disconnects every doorbell.

use core::sync::atomic::Ordering;

use campanile_hw::registers::{self, Command, Control};
use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER};

use crate::adapter::Adapter;
use crate::caps::FSTATES;
use crate::gpu::Gpu;
use crate::irql::{Dispatch, Passive, UpToDispatch};
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

/// DxgkDdiSetPowerComponentFState. The change is complete when this returns, and reported so.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a component or state that was not declared; nothing is reported then.
pub(crate) fn set_fstate(irql: &Dispatch, gpu: &Gpu, component: u32, fstate: u32) -> Result<(), NTSTATUS> {
    let place = gpu.fstates.get(component as usize).ok_or(STATUS_INVALID_PARAMETER)?;
    if fstate >= FSTATES {
        return Err(STATUS_INVALID_PARAMETER);
    }
    place.store(fstate, Ordering::Release);
    program(irql, gpu, component, fstate);
    gpu.dxgk.complete_fstate_transition(irql, component);
    Ok(())
}

/// A device that stands still is told when it runs again; one that is lost has no state.
fn program(irql: &impl UpToDispatch, gpu: &Gpu, node: u32, fstate: u32) {
    if gpu.is_running() {
        let _ = gpu.cmp.run(irql, Command::SetNodePower, [u64::from(node), u64::from(fstate), 0]);
    }
}

/// After a reset every node is in F0; those that were asked into F1 go back there.
pub(crate) fn restore_fstates(irql: &impl UpToDispatch, gpu: &Gpu) {
    for (node, fstate) in (0u32..).zip(&gpu.fstates) {
        let fstate = fstate.load(Ordering::Acquire);
        if fstate != 0 {
            program(irql, gpu, node, fstate);
        }
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
