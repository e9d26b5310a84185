//! The commands by their names, as vkGetInstanceProcAddr and vkGetDeviceProcAddr tell them, which are among them.

use core::ffi::{CStr, c_char};

use ash::vk;

use super::declaration::{Address, commands};
use super::{clock, command, debug, descriptor, device, drawing, global, image, memory, pipeline, queue, sync};
use crate::app::App;
use crate::device::Device;
use crate::physical::is_command_of;

/// Commands by which class they are, for what may be asked of an instance and of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Those that need no instance.
    Global,
    /// Those whose first argument is an instance or a physical device.
    Instance,
    /// Those whose first argument is a physical device.
    Physical,
    /// The others.
    Device,
}

/// The command whose first argument is an instance.
mod instance_commands {
    use super::*;

    commands! { app;
        vkGetInstanceProcAddr: PFN_vkGetInstanceProcAddr(instance: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction
            = get_instance_proc_addr(app, instance, name);
    }
}

/// The command whose first argument is a device.
mod device_commands {
    use super::*;

    commands! { app;
        vkGetDeviceProcAddr: PFN_vkGetDeviceProcAddr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction
            = device_command(app, device, app.name(name)?);
    }
}

fn find_exactly(name: &str) -> Option<(Class, Address)> {
    let of = |class: Class, found: Option<Address>| found.map(|address| (class, address));
    of(Class::Global, global::globals::find(name))
        .or_else(|| of(Class::Instance, instance_commands::find(name)))
        .or_else(|| of(Class::Instance, global::find(name)))
        .or_else(|| of(Class::Physical, device::physical_commands::find(name)))
        .or_else(|| of(Class::Physical, clock::physical_commands::find(name)))
        .or_else(|| of(Class::Instance, debug::instance_commands::find(name)))
        .or_else(|| of(Class::Device, clock::find(name)))
        .or_else(|| of(Class::Device, debug::find(name)))
        .or_else(|| of(Class::Device, device_commands::find(name)))
        .or_else(|| of(Class::Device, device::find(name)))
        .or_else(|| of(Class::Device, memory::find(name)))
        .or_else(|| of(Class::Device, image::find(name)))
        .or_else(|| of(Class::Device, descriptor::find(name)))
        .or_else(|| of(Class::Device, pipeline::find(name)))
        .or_else(|| of(Class::Device, command::find(name)))
        .or_else(|| of(Class::Device, drawing::find(name)))
        .or_else(|| of(Class::Device, queue::find(name)))
        .or_else(|| of(Class::Device, sync::find(name)))
}

/// The command of a name. One that became part of Vulkan, or of an extension of Khronos' own, has the name of its extension, too.
pub(crate) fn find(name: &CStr) -> Option<(Class, Address)> {
    let name = name.to_str().ok()?;
    let core = || name.strip_suffix("KHR").or_else(|| name.strip_suffix("EXT"));
    let promoted = || Some(format!("{}KHR", name.strip_suffix("EXT")?));
    find_exactly(name).or_else(|| find_exactly(core()?)).or_else(|| find_exactly(&promoted()?))
}

/// The answer of vkGetInstanceProcAddr: without an instance there are the global commands only.
pub(crate) fn get_instance_proc_addr(
    app: App<'_>,
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let (class, address) = find(app.name(name)?)?;
    let asks_for_itself = || app.name(name) == Some(c"vkGetInstanceProcAddr");
    (instance != vk::Instance::null() || class == Class::Global || asks_for_itself()).then_some(address)
}

/// A command whose first argument is a device, or belongs to one, if it is of Vulkan itself or of an extension that the device has.
fn device_command(app: App<'_>, device: vk::Device, name: &CStr) -> vk::PFN_vkVoidFunction {
    let (class, address) = find(name)?;
    let device = app.object::<Device>(device).ok()?;
    (class == Class::Device && is_command_of(name, device.extensions())).then_some(address)
}
