//! Plug and play.

use core::ffi::c_void;

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::types::*;

use super::answer::answer;
use super::call::{arguments, inputs, on_adapter};
use crate::adapter::Adapter;
use crate::adapter::slots;
use crate::etw;
use crate::interrupt;
use crate::irql::{Device, Dispatch, Passive};
use crate::link::Link;
use crate::refusal::{Ddi, Reason, Refused, refused};
use crate::removal;
use crate::trace;

pub(crate) unsafe extern "win64" fn add_device(physical_device: *mut c_void, context: *mut *mut c_void) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let result = arguments(context).and_then(|context| {
        *context = core::ptr::null_mut();
        // SAFETY: the operating system passes the device that it adds.
        *context = unsafe { Adapter::add(&irql, physical_device) }?.raw();
        Ok(())
    });
    answer(Ddi::AddDevice, core::ptr::null_mut(), result)
}

/// Touches no hardware: plug and play knows where the device is.
pub(crate) unsafe extern "win64" fn link_device(
    physical_device: *const c_void,
    context: *const c_void,
    linked: *mut LINKED_DEVICE,
) -> NTSTATUS {
    on_adapter(Ddi::LinkDevice, context.cast_mut(), |irql, adapter| {
        let linked = arguments(linked)?;
        // SAFETY: the operating system passes the device that the adapter was added for.
        let link = unsafe { Link::of(irql, physical_device.cast_mut()) };
        adapter.set_link(link);
        *linked = link.answer();
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn start_device(
    context: *mut c_void,
    start_info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    on_adapter(Ddi::StartDevice, context, |irql, adapter| {
        inputs(start_info)?;
        let (sources, children) = (arguments(sources)?, arguments(children)?);
        *sources = 0;
        *children = 0;
        adapter.start(irql, &callbacks(interface)?)
    })
}

/// The callbacks of the system. Its table ends after `Size` bytes, and that of an older system has fewer callbacks; those that it lacks are absent here.
fn callbacks(interface: *const DXGKRNL_INTERFACE) -> Result<DXGKRNL_INTERFACE, Refused> {
    let given = *inputs(interface.cast::<u32>())? as usize;
    // A callback whose pointer does not lie within `Size` whole is absent.
    let size = given.min(size_of::<DXGKRNL_INTERFACE>()) / size_of::<usize>() * size_of::<usize>();
    let mut table = DXGKRNL_INTERFACE::zeroed();
    // SAFETY: the system's table has `Size` bytes, which do not overlap with this frame's; each of them may be copied, and the rest is zero, which is absent.
    unsafe { core::ptr::copy_nonoverlapping(interface.cast::<u8>(), (&raw mut table).cast::<u8>(), size) };
    Ok(table)
}

pub(crate) unsafe extern "win64" fn stop_device(context: *mut c_void) -> NTSTATUS {
    on_adapter(Ddi::StopDevice, context, |irql, adapter| {
        removal::stop(irql, adapter);
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn remove_device(context: *mut c_void) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    answer(Ddi::RemoveDevice, context, removal::remove(&irql, context))
}

/// Everything belongs to an adapter, so nothing is left.
pub(crate) unsafe extern "win64" fn unload() {
    trace::note(&Event::Unloaded {});
}

pub(crate) unsafe extern "win64" fn interrupt_routine(context: *mut c_void, message: u32) -> BOOLEAN {
    // SAFETY: this is the interrupt routine.
    let irql = unsafe { Device::assume() };
    BOOLEAN::from(slots::adapter(context).is_ok_and(|adapter| interrupt::routine(&irql, adapter, message)))
}

pub(crate) unsafe extern "win64" fn dpc_routine(context: *mut c_void) {
    // SAFETY: DPCs run at DISPATCH_LEVEL.
    let irql = unsafe { Dispatch::assume() };
    if let Ok(adapter) = slots::adapter(context) {
        interrupt::dpc(&irql, adapter);
    }
}

/// There are no video requests without a display.
pub(crate) unsafe extern "win64" fn dispatch_io_request(
    context: *mut c_void,
    _source: u32,
    _request: *mut c_void,
) -> NTSTATUS {
    answer(Ddi::DispatchIoRequest, context, Err(refused(Reason::NotServed)))
}

/// No children: the array keeps its terminator.
pub(crate) unsafe extern "win64" fn query_child_relations(
    context: *mut c_void,
    _relations: *mut DXGK_CHILD_DESCRIPTOR,
    _size: u32,
) -> NTSTATUS {
    on_adapter(Ddi::QueryChildRelations, context, |_, _| Ok(()))
}

/// There is no child to ask for.
pub(crate) unsafe extern "win64" fn query_child_status(
    context: *mut c_void,
    _status: *mut DXGK_CHILD_STATUS,
    _non_destructive_only: BOOLEAN,
) -> NTSTATUS {
    answer(Ddi::QueryChildStatus, context, Err(refused(Reason::NoDisplay)))
}

/// There is no child to ask for.
pub(crate) unsafe extern "win64" fn query_device_descriptor(
    context: *mut c_void,
    _child: u32,
    _descriptor: *mut DXGK_DEVICE_DESCRIPTOR,
) -> NTSTATUS {
    answer(Ddi::QueryDeviceDescriptor, context, Err(refused(Reason::NoDisplay)))
}

/// Any level, also while the machine stops: the device forgets its work and touches no memory.
pub(crate) unsafe extern "win64" fn reset_device(context: *mut c_void) {
    if let Ok(gpu) = slots::adapter(context).and_then(|adapter| adapter.started()) {
        gpu.note(Component::Adapter, &Event::Halted {});
        gpu.halt();
    }
}

/// The device is gone, whatever the system did meanwhile. What it still asks for is answered without touching the hardware.
pub(crate) unsafe extern "win64" fn notify_surprise_removal(
    context: *mut c_void,
    _removal: DXGK_SURPRISE_REMOVAL_TYPE,
) -> NTSTATUS {
    on_adapter(Ddi::NotifySurpriseRemoval, context, |_, adapter| {
        adapter.trace.note(Component::Adapter, &Event::SurpriseRemoved {});
        if let Some(gpu) = adapter.gpu() {
            gpu.lose();
        }
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn query_interface(context: *mut c_void, query: *mut QUERY_INTERFACE) -> NTSTATUS {
    on_adapter(Ddi::QueryInterface, context, |_, adapter| super::feature::query_interface(adapter, arguments(query)?))
}

/// Turns the driver's ETW events on or off with the trace of the graphics kernel.
pub(crate) unsafe extern "win64" fn control_etw_logging(enable: BOOLEAN, flags: u32, level: u8) {
    trace::note(&Event::LoggingSwitched { flags, enabled: enable, level });
    etw::control(enable != 0, level);
}
