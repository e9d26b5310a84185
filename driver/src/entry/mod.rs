//! Entry points: each decodes its arguments, names the level it runs at, calls one function and answers a status its DDI may give.

// Every function here is called by the operating system under the prototype of its slot in `DRIVER_INITIALIZATION_DATA`, at the
// level documented for it, with handles of this driver and pointers that are NULL or valid for the length of the call. That is
// the contract behind each `unsafe` block; it is not repeated as a section on every function.

mod answer;
pub(crate) mod caps;
pub(crate) mod doorbell;
pub(crate) mod feature;
pub(crate) mod fence;
pub(crate) mod memory;
pub(crate) mod pnp;
pub(crate) mod power;
pub(crate) mod queue;
pub(crate) mod reset;
pub(crate) mod testing;

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::HANDLE;

use crate::adapter::Adapter;
use crate::adapter::slots;
use crate::gpu::Gpu;
use crate::handle::{self, Kind, Object};
use crate::irql::{Dispatch, Passive};
use crate::refusal::{Ddi, Reason, Refused, refused};
use answer::answer;

/// Arguments that the DDI may write.
pub(crate) fn arguments<'a, T>(args: *mut T) -> Result<&'a mut T, Refused> {
    // SAFETY: NULL, or a structure of the operating system that is not used elsewhere during the call.
    unsafe { args.as_mut() }.ok_or(refused(Reason::NullPointer))
}

/// Arguments that the DDI only reads.
fn inputs<'a, T>(args: *const T) -> Result<&'a T, Refused> {
    // SAFETY: NULL, or a structure of the operating system that is not written during the call.
    unsafe { args.as_ref() }.ok_or(refused(Reason::NullPointer))
}

/// A DDI below DISPATCH_LEVEL on an adapter.
pub(crate) fn on_adapter(
    ddi: Ddi,
    raw: HANDLE,
    body: impl FnOnce(&Passive, &Adapter) -> Result<(), Refused>,
) -> NTSTATUS {
    // SAFETY: the DDI is documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    answer(ddi, raw, slots::adapter(raw).and_then(|adapter| body(&irql, adapter)))
}

/// A DDI below DISPATCH_LEVEL on a started device, the first engine of its adapter.
fn on_gpu(ddi: Ddi, raw: HANDLE, body: impl FnOnce(&Passive, &Adapter, &Gpu) -> Result<(), Refused>) -> NTSTATUS {
    on_adapter(ddi, raw, |irql, adapter| body(irql, adapter, adapter.started()?))
}

/// A DDI below DISPATCH_LEVEL on an object of a started device, and the engine that it is for.
fn on_object<T: Object>(
    ddi: Ddi,
    raw: HANDLE,
    body: impl FnOnce(&Passive, &Adapter, &Gpu, &T) -> Result<(), Refused>,
) -> NTSTATUS {
    // SAFETY: the DDI is documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let result = slots::object::<T>(raw)
        .and_then(|(adapter, object)| body(&irql, adapter, adapter.started_engine(object.engine())?, object));
    answer(ddi, raw, result)
}

/// A DDI below DISPATCH_LEVEL that takes an object out of its table, also after the device was stopped.
fn take_object<T: Object>(ddi: Ddi, raw: HANDLE) -> NTSTATUS {
    // SAFETY: the DDI is documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let taken = slots::object::<T>(raw).and_then(|(adapter, _)| {
        let taken = adapter.objects.remove::<T>(&irql, handle::Handle::of(raw)).map(drop);
        if taken.is_ok() {
            gone(adapter, T::KIND, raw);
        }
        taken
    });
    answer(ddi, raw, taken)
}

/// Notes that an object is gone.
fn gone(adapter: &Adapter, kind: Kind, raw: HANDLE) {
    let object = handle::Handle::of(raw).into_bits();
    match kind {
        Kind::Context | Kind::HwContext => {
            adapter.trace.note(Component::Queue, &Event::ContextDestroyed { context: object });
        }
        Kind::Process => adapter.trace.note(Component::Memory, &Event::ProcessDestroyed { process: object }),
        _ => {}
    }
}

/// A DDI up to DISPATCH_LEVEL on a started device.
fn at_dispatch(ddi: Ddi, raw: HANDLE, body: impl FnOnce(&Dispatch, &Adapter, &Gpu) -> Result<(), Refused>) -> NTSTATUS {
    // SAFETY: the DDI is documented for DISPATCH_LEVEL at most.
    let irql = unsafe { Dispatch::assume() };
    answer(ddi, raw, slots::adapter(raw).and_then(|adapter| body(&irql, adapter, adapter.started()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::status::STATUS_INVALID_HANDLE;

    #[test]
    fn null_arguments_and_foreign_handles_are_refused() {
        crate::testing::bind();
        assert_eq!(arguments(core::ptr::null_mut::<u32>()).err(), Some(refused(Reason::NullPointer)));
        for raw in [core::ptr::null_mut(), core::ptr::dangling_mut(), core::ptr::without_provenance_mut(usize::MAX)] {
            assert_eq!(on_adapter(Ddi::StopDevice, raw, |_, _| Ok(())), STATUS_INVALID_HANDLE);
        }
    }
}
