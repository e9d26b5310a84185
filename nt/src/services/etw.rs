// UNSAFETY: kernel services with raw arguments.
//! The services by which drivers take part in event tracing.

use std::ffi::c_void;

use wddm_ddi::nt::{EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR, EVENT_PROVIDER_SET_TRAITS, PETWENABLECALLBACK};
use wddm_ddi::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED,
    STATUS_SUCCESS,
};
use wddm_ddi::types::{GUID, NTSTATUS};

use super::{caller, good, passive_caller};
use crate::driver_call;
use crate::etw::{EVENT_BYTES_MAX, EtwEvent, Notice, PARTS_MAX, Parts, Registration};
use crate::fault::{Fault, guarded};
use crate::irql;

pub(crate) unsafe extern "win64" fn etw_register(
    provider: *const GUID,
    callback: Option<PETWENABLECALLBACK>,
    context: *mut c_void,
    handle: *mut u64,
) -> NTSTATUS {
    const NAME: &str = "EtwRegister";
    let driver = passive_caller(NAME);
    if provider.is_null() || handle.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: numbers, which any bytes are.
    let provider = good(NAME, unsafe { guarded::read(provider) });
    let callback_address = callback.map_or(0, |callback| callback as usize);
    let registration =
        Registration { provider, callback: callback_address, context: context.addr(), traits: Vec::new() };
    let registered = driver_call::on_host_stack(|| driver.etw().register(registration));
    let Some((number, notice)) = registered else { return STATUS_NO_MEMORY };
    // SAFETY: the driver passes a place for the handle.
    good(NAME, unsafe { guarded::write(handle, number) });
    if let Some(notice) = notice {
        // The callback may come before the registration returns.
        notify(&notice);
    }
    STATUS_SUCCESS
}

/// Calls the driver back, as part of a call of the driver.
pub fn notify(notice: &Notice) {
    // SAFETY: the driver registered this address as such a function; it stays until the driver unregisters.
    let callback = unsafe { std::mem::transmute::<usize, PETWENABLECALLBACK>(notice.callback) };
    let context = std::ptr::with_exposed_provenance_mut(notice.context);
    let session = notice.session;
    // SAFETY: the provider's identifier lives across the call, and callback and context are what the driver registered.
    unsafe {
        callback(
            &raw const notice.provider,
            notice.code,
            session.level,
            session.keywords,
            0,
            std::ptr::null_mut(),
            context,
        )
    };
}

pub(crate) unsafe extern "win64" fn etw_unregister(handle: u64) -> NTSTATUS {
    let driver = passive_caller("EtwUnregister");
    let known = driver_call::on_host_stack(|| driver.etw().unregister(handle));
    if known { STATUS_SUCCESS } else { STATUS_INVALID_HANDLE }
}

pub(crate) unsafe extern "win64" fn etw_set_information(
    handle: u64,
    class: u32,
    information: *const c_void,
    length: u32,
) -> NTSTATUS {
    const NAME: &str = "EtwSetInformation";
    let driver = passive_caller(NAME);
    if class != EVENT_PROVIDER_SET_TRAITS {
        return STATUS_NOT_SUPPORTED;
    }
    if information.is_null() || length as usize > EVENT_BYTES_MAX {
        return STATUS_INVALID_PARAMETER;
    }
    let traits = driver_call::on_host_stack(|| {
        let mut traits = vec![0; length as usize];
        guarded::read_bytes(information.cast(), &mut traits).map(|()| traits)
    });
    let traits = good(NAME, traits);
    // The traits say how long they are.
    if traits.first_chunk::<2>().is_none_or(|size| usize::from(u16::from_le_bytes(*size)) != traits.len()) {
        return STATUS_INVALID_PARAMETER;
    }
    let known = driver_call::on_host_stack(|| driver.etw().set_traits(handle, traits));
    if known { STATUS_SUCCESS } else { STATUS_INVALID_HANDLE }
}

/// Reads the parts of an event's data; `None` if they are too many or too long.
fn parts(data: *const EVENT_DATA_DESCRIPTOR, count: u32) -> Result<Option<Parts>, Fault> {
    if count > PARTS_MAX {
        return Ok(None);
    }
    let mut parts = Vec::new();
    let mut total = 0;
    for index in 0..count as usize {
        // SAFETY: numbers, which any bytes are.
        let part = unsafe { guarded::read(data.wrapping_add(index)) }?;
        total += part.Size as usize;
        if total > EVENT_BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; part.Size as usize];
        guarded::read_bytes(std::ptr::with_exposed_provenance(part.Ptr as usize), &mut bytes)?;
        parts.push((part.Type as u8, bytes));
    }
    Ok(Some(parts))
}

pub(crate) unsafe extern "win64" fn etw_write_transfer(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    _activity: *const GUID,
    _related: *const GUID,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> NTSTATUS {
    const NAME: &str = "EtwWriteTransfer";
    let driver = caller(NAME);
    if descriptor.is_null() || (data.is_null() && count != 0) {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: numbers, which any bytes are.
    let descriptor = good(NAME, unsafe { guarded::read(descriptor) });
    let parts = good(NAME, driver_call::on_host_stack(|| parts(data, count)));
    let Some(parts) = parts else { return STATUS_BUFFER_OVERFLOW };
    let provider = GUID { Data1: 0, Data2: 0, Data3: 0, Data4: [0; 8] };
    let event = EtwEvent { provider, descriptor, parts, logged: false, irql: irql::current() };
    let written = driver_call::on_host_stack(|| driver.etw().write(handle, event));
    if written { STATUS_SUCCESS } else { STATUS_INVALID_HANDLE }
}
