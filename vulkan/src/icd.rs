// UNSAFETY: the three functions that the loader finds by name.
//! The interface to the loader, version 7. [Vulkan-Loader: LoaderDriverInterface]

use core::ffi::c_char;

use ash::vk;

use crate::app::{App, Scope};
use crate::entry::{Address, Class, find, get_instance_proc_addr};

/// The version of the interface that is spoken: the latest in which the loader may do without its own copies of objects.
const VERSION: u32 = 7;
/// The oldest one: the loader then calls `vk_icdGetPhysicalDeviceProcAddr`.
const VERSION_MIN: u32 = 4;

/// Agrees on a version of the interface: the smaller one of the loader's and the driver's.
///
/// Errors: VK_ERROR_INCOMPATIBLE_DRIVER for a loader that is older than version 4, and for a null pointer.
///
/// # Safety
/// `version` is null or points to the loader's version.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(version: *mut u32) -> vk::Result {
    let scope = Scope;
    // SAFETY: the pointer is as this function asks for.
    let app = unsafe { App::promised(&scope) };
    let Some(offered) = app.get(version.cast_const()).copied() else { return vk::Result::ERROR_INCOMPATIBLE_DRIVER };
    if offered < VERSION_MIN {
        return vk::Result::ERROR_INCOMPATIBLE_DRIVER;
    }
    app.put(version, offered.min(VERSION));
    vk::Result::SUCCESS
}

/// The command of this name, or the function of this interface; null if there is none, or if it needs an instance and `instance` is null.
///
/// # Safety
/// `instance` is null or an instance of this driver, `name` null or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetInstanceProcAddr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let scope = Scope;
    // SAFETY: the pointers are as this function asks for.
    let app = unsafe { App::promised(&scope) };
    let own = match app.name(name)?.to_bytes() {
        b"vk_icdGetInstanceProcAddr" => vk_icdGetInstanceProcAddr as *const (),
        b"vk_icdGetPhysicalDeviceProcAddr" => vk_icdGetPhysicalDeviceProcAddr as *const (),
        b"vk_icdNegotiateLoaderICDInterfaceVersion" => vk_icdNegotiateLoaderICDInterfaceVersion as *const (),
        _ => return get_instance_proc_addr(app, instance, name),
    };
    // SAFETY: a function pointer without its type, which its caller gives back.
    Some(unsafe { core::mem::transmute::<*const (), Address>(own) })
}

/// The command of this name whose first argument is a physical device; null for any other.
///
/// # Safety
/// As [`vk_icdGetInstanceProcAddr`].
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetPhysicalDeviceProcAddr(
    _instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let scope = Scope;
    // SAFETY: the pointer is as this function asks for.
    let app = unsafe { App::promised(&scope) };
    let found = find(app.name(name)?).filter(|(class, _)| *class == Class::Physical);
    found.map(|(_, address)| address)
}
