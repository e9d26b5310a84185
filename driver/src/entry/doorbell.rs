//! Doorbells. None of these names an adapter: the handles do.

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::NTSTATUS;

use super::answer::answer;
use super::call::{arguments, inputs, on_object};
use crate::adapter::slots;
use crate::cmp::refused_by_queue;
use crate::handle::{Handle, Object};
use crate::interrupt;
use crate::irql::Passive;
use crate::queue::doorbell::{self, Doorbell};
use crate::queue::hw_queue::HwQueue;
use crate::refusal::Ddi;

pub(crate) unsafe extern "win64" fn create_doorbell(args: *mut DXGKARG_CREATEDOORBELL) -> NTSTATUS {
    let args = match arguments(args) {
        Ok(args) => args,
        Err(refused) => return answer(Ddi::CreateDoorbell, core::ptr::null_mut(), Err(refused)),
    };
    on_object::<HwQueue>(Ddi::CreateDoorbell, args.hHwQueue, |irql, adapter, gpu, _| {
        args.hDoorbell = doorbell::create(irql, adapter, gpu, args, interrupt::drain)?.raw();
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn connect_doorbell(args: *mut DXGKARG_CONNECTDOORBELL) -> NTSTATUS {
    let args = match arguments(args) {
        Ok(args) => args,
        Err(refused) => return answer(Ddi::ConnectDoorbell, core::ptr::null_mut(), Err(refused)),
    };
    on_object::<Doorbell>(Ddi::ConnectDoorbell, args.hDoorbell, |irql, adapter, gpu, _| {
        doorbell::connect(irql, adapter, gpu, args)
    })
}

pub(crate) unsafe extern "win64" fn disconnect_doorbell(args: *const DXGKARG_DISCONNECTDOORBELL) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let raw = inputs(args).map_or(core::ptr::null_mut(), |args| args.hDoorbell);
    let disconnect = || {
        inputs(args)?;
        let (adapter, object) = slots::object::<Doorbell>(raw)?;
        // Nothing is connected to a device that was stopped.
        adapter.engine(object.engine()).map_or(Ok(()), |gpu| doorbell::disconnect(&irql, adapter, gpu, Handle::of(raw)))
    };
    answer(Ddi::DisconnectDoorbell, raw, disconnect())
}

pub(crate) unsafe extern "win64" fn destroy_doorbell(args: *const DXGKARG_DESTROYDOORBELL) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let raw = inputs(args).map_or(core::ptr::null_mut(), |args| args.hDoorbell);
    let destroy = || {
        inputs(args)?;
        let (adapter, object) = slots::object::<Doorbell>(raw)?;
        match adapter.engine(object.engine()) {
            Ok(gpu) => doorbell::destroy(&irql, adapter, gpu, Handle::of(raw), interrupt::drain),
            Err(_) => adapter.objects.remove::<Doorbell>(&irql, Handle::of(raw)).map(drop),
        }
    };
    answer(Ddi::DestroyDoorbell, raw, destroy())
}

pub(crate) unsafe extern "win64" fn notify_work_submission(args: *const DXGKARG_NOTIFYWORKSUBMISSION) -> NTSTATUS {
    let queue = match inputs(args) {
        Ok(args) => args.hHwQueue,
        Err(refused) => return answer(Ddi::NotifyWorkSubmission, core::ptr::null_mut(), Err(refused)),
    };
    on_object::<HwQueue>(Ddi::NotifyWorkSubmission, queue, |irql, _, gpu, queue| {
        gpu.note(Component::Queue, &Event::WorkNotified { number: queue.number });
        gpu.cmp.kick(irql, queue.number).map_err(refused_by_queue)
    })
}
