//! Power of nodes and device, and the clock.
//!
//! Every node is a power component with the states F0 and F1; the operating system disconnects the doorbells of a node before it
//! asks for F1. One more component has F1 before the device leaves D0 at run time. In D3 the device loses all it knows; before it, the operating system suspends every context, disconnects every
//! doorbell and evicts what VRAM does not keep.

use campanile_hw::registers::NODES;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;

use crate::adapter::Adapter;
use crate::caps::{D3_TRANSITION, FSTATES};
use crate::fence::system;
use crate::gpu::Gpu;
use crate::interrupt;
use crate::irql::{Dispatch, Passive};
use crate::queue::hw_queue::{self, HwQueue};
use crate::refusal::{Reason, Refused, refused};

/// DxgkDdiSetPowerState of the adapter. Allocates nothing: what a queue was doing is kept in the queue.
///
/// Outside D0 no register or memory of the device is accessed. DDIs that the operating system calls all the same change the driver's own state,
/// and the device is programmed in D0: F-states, priorities, log buffers, the host aperture, address spaces, fences. Mapping a queue, connecting
/// a doorbell and submissions are refused with STATUS_DEVICE_REMOVED, as on a device that was lost.
pub(crate) fn set_state(irql: &Passive, adapter: &Adapter, gpu: &Gpu, state: DEVICE_POWER_STATE) {
    let number = state.0.cast_unsigned();
    gpu.note(Component::Adapter, &Event::PowerState { state: number });
    match state == DEVICE_POWER_STATE::PowerDeviceD0 {
        true if !gpu.is_powered() => wake(irql, adapter, gpu),
        false if gpu.is_powered() => sleep(irql, adapter, gpu),
        true | false => {}
    }
    let running = gpu.is_running().into();
    gpu.note(Component::Adapter, &Event::PowerStateReached { state: number, running });
}

/// The operating system has suspended every context, disconnected every doorbell, and evicted what VRAM does not keep.
fn sleep(irql: &Passive, adapter: &Adapter, gpu: &Gpu) {
    if gpu.is_running() {
        for queue in gpu.queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(handle).ok()) {
            hw_queue::save(irql, gpu, queue);
        }
    }
    gpu.doorbells.forget(irql);
    gpu.sleep(irql, |device| interrupt::drain(device, adapter, gpu));
}

/// Queues are mapped again one by one, when their contexts are resumed or their doorbells connected: until then their rings, and the page
/// tables that map these, need not be resident.
fn wake(irql: &Passive, adapter: &Adapter, gpu: &Gpu) {
    if gpu.wake(irql) {
        system::restore(irql, adapter, gpu);
    }
}

/// DxgkDdiSetPowerComponentFState. The change is complete when this returns, and reported so. Of the component, the upper half is the
/// engine, the lower the component of it.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a component or state that was not declared; nothing is reported then.
pub(crate) fn set_fstate(irql: &Dispatch, adapter: &Adapter, component: u32, fstate: u32) -> Result<(), Refused> {
    let gpu = adapter.started_engine(component >> 16)?;
    let number = component & 0xffff;
    let is_node = number < NODES;
    if fstate >= FSTATES || !is_node && number != D3_TRANSITION {
        return Err(refused(Reason::PowerState));
    }
    gpu.note(Component::Adapter, &Event::ComponentState { component, state: fstate });
    // The hardware knows nothing of the transition to D3: DxgkDdiSetPowerState makes it.
    if is_node {
        gpu.set_fstate(irql, number, fstate);
    }
    gpu.dxgk.complete_fstate_transition(irql, component);
    Ok(())
}

/// DxgkDdiCalibrateGpuClock: both clocks, read back to back. Outside D0 the GPU's clock cannot be read; the driver computes what it will
/// show in D0.
pub(crate) fn clock(gpu: &Gpu) -> DXGK_GPUCLOCKDATA {
    let [gpu_clock, cpu_clock] = gpu.clocks();
    DXGK_GPUCLOCKDATA {
        GpuFrequency: gpu.hardware.clock_hz,
        GpuClockCounter: gpu_clock,
        CpuClockCounter: cpu_clock,
        Flags: DXGK_GPUCLOCKDATA_FLAGS::new(),
    }
}
