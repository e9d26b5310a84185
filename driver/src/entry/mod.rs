//! Entry points: each decodes its arguments, names the level it runs at, calls one function and answers a status its DDI may give.

// Every function here is called by the operating system under the prototype of its slot in `DRIVER_INITIALIZATION_DATA`, at the
// level documented for it, with handles of this driver and pointers that are NULL or valid for the length of the call. That is
// the contract behind each `unsafe` block; it is not repeated as a section on every function.

pub(crate) mod caps;
pub(crate) mod doorbell;
pub(crate) mod fence;
pub(crate) mod memory;
pub(crate) mod pnp;
pub(crate) mod power;
pub(crate) mod queue;
pub(crate) mod reset;
pub(crate) mod testing;

use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};
use wddm_ddi::types::HANDLE;

use crate::adapter::Adapter;
use crate::gpu::Gpu;
use crate::handle::{self, Object};
use crate::irql::{Dispatch, Passive};

/// Arguments that the DDI may write.
fn arguments<'a, T>(args: *mut T) -> Result<&'a mut T, NTSTATUS> {
    // SAFETY: NULL, or a structure of the operating system that nobody else uses during the call.
    unsafe { args.as_mut() }.ok_or(STATUS_INVALID_PARAMETER)
}

/// Arguments that the DDI only reads.
fn inputs<'a, T>(args: *const T) -> Result<&'a T, NTSTATUS> {
    // SAFETY: NULL, or a structure of the operating system that nobody writes during the call.
    unsafe { args.as_ref() }.ok_or(STATUS_INVALID_PARAMETER)
}

/// A DDI below DISPATCH_LEVEL on an adapter.
fn on_adapter(raw: HANDLE, body: impl FnOnce(&Passive, &Adapter) -> Result<(), NTSTATUS>) -> NTSTATUS {
    // SAFETY: the DDI is documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    handle::adapter(raw).and_then(|adapter| body(&irql, adapter)).into()
}

/// A DDI below DISPATCH_LEVEL on a started device.
fn on_gpu(raw: HANDLE, body: impl FnOnce(&Passive, &Adapter, &Gpu) -> Result<(), NTSTATUS>) -> NTSTATUS {
    on_adapter(raw, |irql, adapter| body(irql, adapter, adapter.started()?))
}

/// A DDI below DISPATCH_LEVEL on an object of a started device.
fn on_object<T: Object>(
    raw: HANDLE,
    body: impl FnOnce(&Passive, &Adapter, &Gpu, &T) -> Result<(), NTSTATUS>,
) -> NTSTATUS {
    // SAFETY: the DDI is documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    handle::object::<T>(raw).and_then(|(adapter, object)| body(&irql, adapter, adapter.started()?, object)).into()
}

/// A DDI below DISPATCH_LEVEL that takes an object out of its table, also after the device was stopped.
fn take_object<T: Object>(raw: HANDLE) -> NTSTATUS {
    // SAFETY: the DDI is documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let taken = handle::object::<T>(raw)
        .and_then(|(adapter, _)| adapter.objects.remove::<T>(&irql, handle::Handle::of(raw)).map(drop));
    taken.into()
}

/// A DDI up to DISPATCH_LEVEL on a started device.
fn at_dispatch(raw: HANDLE, body: impl FnOnce(&Dispatch, &Adapter, &Gpu) -> Result<(), NTSTATUS>) -> NTSTATUS {
    // SAFETY: the DDI is documented for DISPATCH_LEVEL at most.
    let irql = unsafe { Dispatch::assume() };
    handle::adapter(raw).and_then(|adapter| body(&irql, adapter, adapter.started()?)).into()
}

/// The status if it is one of `allowed` or a success, `other` if not.
fn only(status: NTSTATUS, allowed: &[NTSTATUS], other: NTSTATUS) -> NTSTATUS {
    if status.is_success() || allowed.contains(&status) { status } else { other }
}

/// For DDIs that know STATUS_NO_MEMORY and one other failure.
fn no_memory_or(status: NTSTATUS, other: NTSTATUS) -> NTSTATUS {
    only(status, &[STATUS_NO_MEMORY], other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::status::{STATUS_DEVICE_REMOVED, STATUS_INVALID_HANDLE, STATUS_PENDING};

    #[test]
    fn only_statuses_that_a_ddi_knows_leave_it() {
        let mapped = |status| no_memory_or(status, STATUS_INVALID_PARAMETER);
        assert_eq!(mapped(STATUS_PENDING), STATUS_PENDING);
        assert_eq!(mapped(STATUS_NO_MEMORY), STATUS_NO_MEMORY);
        assert_eq!(mapped(STATUS_DEVICE_REMOVED), STATUS_INVALID_PARAMETER);
    }

    #[test]
    fn null_arguments_and_foreign_handles_are_refused() {
        crate::testing::bind();
        assert_eq!(arguments(core::ptr::null_mut::<u32>()).err(), Some(STATUS_INVALID_PARAMETER));
        for raw in [core::ptr::null_mut(), core::ptr::dangling_mut(), core::ptr::without_provenance_mut(usize::MAX)] {
            assert_eq!(on_adapter(raw, |_, _| Ok(())), STATUS_INVALID_HANDLE);
        }
    }
}
