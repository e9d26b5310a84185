// UNSAFETY: kernel services with raw arguments.
//! Blocks of pool, by the functions that allocate and free most of them.

use std::ffi::c_void;

use wddm_ddi::nt::POOL_FLAG_RAISE_ON_FAILURE;
use wddm_ddi::status::STATUS_INSUFFICIENT_RESOURCES;

use super::call::{caller, frames};
use super::exceptions;
use crate::bugcheck::Bugcheck;
use crate::driver_call::{self, stop};
use crate::unwind::{CallSite, with_call_site};

with_call_site!(pub(super) fn ex_allocate_pool2(_flags: u64, _bytes: usize, _tag: u32) -> *mut c_void => allocate_pool);
pub(super) extern "win64" fn allocate_pool(flags: u64, bytes: usize, tag: u32, site: *const CallSite) -> *mut c_void {
    let result = match driver_call::current() {
        Some(driver) => {
            let from = frames(&driver, site);
            driver_call::on_host_stack(|| driver.pool().allocate_from(flags, bytes, tag, from))
        }
        None => Err(Bugcheck::fatal("ExAllocatePool2 outside a driver call")),
    };
    let block = result.unwrap_or_else(|bugcheck| stop(bugcheck));
    if tag == 0 {
        let told = format!("ExAllocatePool2 of {bytes} bytes with tag 0 answers NULL, as no tag may be 0");
        driver_call::on_host_stack(|| caller("ExAllocatePool2").verifier().log(told));
    }
    if block.is_null() && flags & POOL_FLAG_RAISE_ON_FAILURE != 0 {
        exceptions::raise_status("ExAllocatePool2", site, STATUS_INSUFFICIENT_RESOURCES.0 as u32, &[]);
    }
    block
}

pub(super) unsafe extern "win64" fn ex_free_pool_with_tag(block: *mut c_void, tag: u32) {
    let result = match driver_call::current() {
        Some(driver) => driver_call::on_host_stack(|| driver.free_pool(block, tag)),
        None => Err(Bugcheck::fatal("ExFreePoolWithTag outside a driver call")),
    };
    if let Err(bugcheck) = result {
        stop(bugcheck);
    }
}
