//! The way through an entry point: the level that its DDI is documented for, the adapter or object that a handle names, arguments behind pointers.

// As in the module above, the contract of the DDIs stands behind each `unsafe` block.

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::HANDLE;

use super::answer::answer;
use crate::adapter::Adapter;
use crate::adapter::slots;
use crate::gpu::Gpu;
use crate::handle::{self, Kind, Object};
use crate::irql::{Dispatch, Passive};
use crate::refusal::{Ddi, Reason, Refused, refused};

/// Arguments that the DDI may write.
pub(super) fn arguments<'a, T>(args: *mut T) -> Result<&'a mut T, Refused> {
    // SAFETY: NULL, or a structure of the operating system that is not used elsewhere during the call.
    unsafe { args.as_mut() }.ok_or(refused(Reason::NullPointer))
}

/// Arguments that the DDI only reads.
pub(super) fn inputs<'a, T>(args: *const T) -> Result<&'a T, Refused> {
    // SAFETY: NULL, or a structure of the operating system that is not written during the call.
    unsafe { args.as_ref() }.ok_or(refused(Reason::NullPointer))
}

/// A DDI below DISPATCH_LEVEL on an adapter.
pub(super) fn on_adapter(
    ddi: Ddi,
    raw: HANDLE,
    body: impl FnOnce(&Passive, &Adapter) -> Result<(), Refused>,
) -> NTSTATUS {
    // SAFETY: the DDI is documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    answer(ddi, raw, slots::adapter(raw).and_then(|adapter| body(&irql, adapter)))
}

/// A DDI below DISPATCH_LEVEL on a started device, the first engine of its adapter.
pub(super) fn on_gpu(
    ddi: Ddi,
    raw: HANDLE,
    body: impl FnOnce(&Passive, &Adapter, &Gpu) -> Result<(), Refused>,
) -> NTSTATUS {
    on_adapter(ddi, raw, |irql, adapter| body(irql, adapter, adapter.started()?))
}

/// A DDI below DISPATCH_LEVEL on an object of a started device, and the engine that it is for.
pub(super) fn on_object<T: Object>(
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
pub(super) fn take_object<T: Object>(ddi: Ddi, raw: HANDLE) -> NTSTATUS {
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
pub(super) fn at_dispatch(
    ddi: Ddi,
    raw: HANDLE,
    body: impl FnOnce(&Dispatch, &Adapter, &Gpu) -> Result<(), Refused>,
) -> NTSTATUS {
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
