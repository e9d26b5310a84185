// UNSAFETY: kernel services with raw arguments.
//! The services by which drivers take part in event tracing.

use std::ffi::c_void;

use wddm_ddi::nt::{EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR, EVENT_PROVIDER_SET_TRAITS, PETWENABLECALLBACK};
use wddm_ddi::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED,
    STATUS_SUCCESS,
};
use wddm_ddi::types::{GUID, NTSTATUS};

use super::call::{caller, good, passive_caller};
use crate::driver::Export;
use crate::driver_call;
use crate::etw::{EVENT_BYTES_MAX, EtwEvent, Notice, PARTS_MAX, Parts, Registration};
use crate::fault::{Fault, guarded};
use crate::irql;

/// The functions that only images import.
pub(super) const EXPORTS: &[Export] = &[
    ("EtwWrite", || etw_write as *const () as usize),
    ("EtwEventEnabled", || etw_event_enabled as *const () as usize),
    ("EtwProviderEnabled", || etw_provider_enabled as *const () as usize),
];

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

/// At any level. [wdm: EtwWrite]
extern "win64" fn etw_write(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    activity: *const GUID,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> NTSTATUS {
    if count > PARTS_MAX {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: no requirements that the driver does not have to meet here too: every pointer is checked.
    unsafe { etw_write_transfer(handle, descriptor, activity, std::ptr::null(), count, data) }
}

/// TRUE if somebody listens for such an event; FALSE of a handle that is none. At any level. [wdm: EtwEventEnabled]
extern "win64" fn etw_event_enabled(handle: u64, descriptor: *const EVENT_DESCRIPTOR) -> u8 {
    const NAME: &str = "EtwEventEnabled";
    if descriptor.is_null() {
        return 0;
    }
    // SAFETY: numbers, which any bytes are.
    let descriptor = good(NAME, unsafe { guarded::read(descriptor) });
    is_enabled(NAME, handle, descriptor.Level, descriptor.Keyword)
}

/// With a level and keywords of 0, TRUE if somebody listens for any event. At any level. [wdm: EtwProviderEnabled]
extern "win64" fn etw_provider_enabled(handle: u64, level: u8, keyword: u64) -> u8 {
    is_enabled("EtwProviderEnabled", handle, level, keyword)
}

fn is_enabled(service: &'static str, handle: u64, level: u8, keyword: u64) -> u8 {
    let driver = caller(service);
    driver_call::on_host_stack(|| driver.etw().is_enabled(handle, level, keyword)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::etw::EtwSession;

    const PROVIDER: GUID = GUID { Data1: 1, Data2: 2, Data3: 3, Data4: [4; 8] };

    fn event(level: u8, keyword: u64) -> EVENT_DESCRIPTOR {
        EVENT_DESCRIPTOR { Id: 7, Version: 0, Channel: 0, Level: level, Opcode: 0, Task: 0, Keyword: keyword }
    }

    #[test]
    fn events_are_written_and_asked_for_at_any_level_as_far_as_a_session_wants_them() {
        let driver = Driver::for_tests("etw");
        driver_call::run(&driver, "a function", || {
            let (mut handle, data, provider, any) = (0, *b"data", PROVIDER, event(0, 0));
            let part = EVENT_DATA_DESCRIPTOR { Ptr: data.as_ptr().expose_provenance() as u64, Size: 4, Type: 0 };
            // SAFETY: both places live in this test.
            let registered = unsafe { etw_register(&raw const provider, None, std::ptr::null_mut(), &raw mut handle) };
            assert_eq!(registered, STATUS_SUCCESS);
            let _raised = irql::Raised::to(irql::DEVICE_LEVEL);
            let write = |event: EVENT_DESCRIPTOR, count| {
                etw_write(handle, &raw const event, std::ptr::null(), count, &raw const part)
            };
            let enabled = |event: EVENT_DESCRIPTOR| etw_event_enabled(handle, &raw const event);
            assert_eq!((write(event(4, 1), 1), driver.etw().take_events().0.len()), (STATUS_SUCCESS, 0));
            assert_eq!([enabled(event(0, 0)), etw_provider_enabled(handle, 0, 0)], [0; 2], "nobody listens");
            driver.etw().set_session(PROVIDER, Some(EtwSession { level: 4, keywords: 6 }));
            assert_eq!([enabled(event(4, 2)), enabled(event(5, 2)), enabled(event(4, 8))], [1, 0, 0]);
            let asked = [(0, 0), (4, 4), (5, 4), (4, 1)];
            let enabled = asked.map(|(level, keyword)| etw_provider_enabled(handle, level, keyword));
            assert_eq!(enabled, [1, 1, 0, 0]);
            let none = [etw_event_enabled(handle + 1, &raw const any), etw_event_enabled(handle, std::ptr::null())];
            assert_eq!(none, [0; 2], "no handle, and no event");
            assert_eq!(write(event(4, 2), 1), STATUS_SUCCESS);
            let (events, _) = driver.etw().take_events();
            assert_eq!((events.len(), &events[0].parts[0].1[..], events[0].irql), (1, &data[..], irql::DEVICE_LEVEL));
            assert_eq!(write(event(4, 2), PARTS_MAX + 1), STATUS_INVALID_PARAMETER, "more parts than an event has");
        })
        .0
        .unwrap();
    }
}
