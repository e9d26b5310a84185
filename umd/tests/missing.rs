//! A system that lacks thunks.

mod fake;

use std::ffi::CStr;
use std::ptr::null_mut;

use campanile_umd::c_api::*;
use campanile_umd::{Adapter, Device, Error};
use fake::*;
use wddm_ddi::kmt::{NotFound, Thunks};

#[test]
fn a_thunk_that_the_system_lacks_is_named() {
    // SAFETY: nothing is found, so nothing has a wrong type.
    let nothing = unsafe { Thunks::look_up::<NotFound>(|_, _| null_mut()) };
    let older = Thunks { D3DKMTCreateDevice: nothing.D3DKMTCreateDevice, ..THUNKS };
    let older: &'static Thunks = Box::leak(Box::new(older));
    let mut adapter = AdapterHandle { id: 0 };
    // SAFETY: a table and a variable.
    assert_eq!(unsafe { campanile_adapter_open(std::ptr::from_ref(older).cast(), &mut adapter) }, 0);
    let mut device = DeviceHandle { id: 77 };
    // SAFETY: a variable.
    let status = unsafe { campanile_device_create(adapter, &mut device) };
    let place = Thunks::NAMES.iter().position(|name| *name == "D3DKMTCreateDevice").unwrap();
    assert_eq!((status, device.id), (Status::MissingThunk as i32 + place as i32, 77));
    let text = |status: i32| {
        // SAFETY: a terminated text that stays.
        unsafe { CStr::from_ptr(campanile_status_text(status)) }.to_str().unwrap()
    };
    for (place, name) in Thunks::NAMES.iter().enumerate() {
        let text = text(Status::MissingThunk as i32 + place as i32);
        assert!(text.starts_with(&format!("this Windows does not export {name};")), "{text}");
    }
    for stranger in [Status::MissingThunk as i32 - 1, Status::MissingThunk as i32 + Thunks::NAMES.len() as i32] {
        assert_eq!(text(stranger), "no such status");
    }
    let refused = Adapter::open(older).and_then(|adapter| Device::new(&adapter)).err();
    assert_eq!(refused, Some(Error::MissingThunk("D3DKMTCreateDevice")));
    assert_eq!(campanile_adapter_close(adapter), 0);
}
