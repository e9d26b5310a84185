//! Commands that need no instance, and those of instances.

use core::ffi::{CStr, c_char};

use ash::vk;

use super::declaration::commands;
use crate::app::App;
use crate::failure::Answer;
use crate::handle::Owned;
use crate::instance::{DEBUG_UTILS, EXTENSIONS, Instance};
use crate::physical::{API_VERSION, PhysicalDevice};

/// Commands that need no instance.
pub(super) mod globals {
    use core::ffi::c_char;

    use ash::vk;

    use super::super::declaration::commands;

    commands! { app;
        vkEnumerateInstanceVersion: PFN_vkEnumerateInstanceVersion(version: *mut u32) -> vk::Result
            = { app.put(version, crate::physical::API_VERSION); Ok(()) };
        vkEnumerateInstanceExtensionProperties: PFN_vkEnumerateInstanceExtensionProperties(
            layer: *const c_char, count: *mut u32, properties: *mut vk::ExtensionProperties) -> vk::Result
            = super::extensions(app, layer, count, properties, super::EXTENSIONS);
        vkEnumerateInstanceLayerProperties: PFN_vkEnumerateInstanceLayerProperties(
            count: *mut u32, properties: *mut vk::LayerProperties) -> vk::Result
            = app.list(count, properties, &[] as &[()], |_, _, ()| ());
        vkCreateInstance: PFN_vkCreateInstance(info: *const vk::InstanceCreateInfo<'_>,
            allocator: *const vk::AllocationCallbacks<'_>, instance: *mut vk::Instance) -> vk::Result
            = super::create_instance(app, info, instance);
    }
}

commands! { app;
    vkDestroyInstance: PFN_vkDestroyInstance(instance: vk::Instance, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(app.take::<Instance>(instance));
    vkEnumeratePhysicalDevices: PFN_vkEnumeratePhysicalDevices(
        instance: vk::Instance, count: *mut u32, devices: *mut vk::PhysicalDevice) -> vk::Result
        = enumerate_devices(app, instance, count, devices);
    vkEnumeratePhysicalDeviceGroups: PFN_vkEnumeratePhysicalDeviceGroups(instance: vk::Instance, count: *mut u32,
        groups: *mut vk::PhysicalDeviceGroupProperties<'_>) -> vk::Result
        = enumerate_groups(app, instance, count, groups);
}

/// Copies a name and a version.
pub(super) fn extension(name: &str, version: u32) -> vk::ExtensionProperties {
    let mut properties = vk::ExtensionProperties { spec_version: version, ..Default::default() };
    for (to, byte) in properties.extension_name.iter_mut().zip(name.bytes().chain([0])) {
        *to = byte as c_char;
    }
    properties
}

/// The extensions of the driver; a layer has none here.
pub(super) fn extensions(
    app: App<'_>,
    layer: *const c_char,
    count: *mut u32,
    properties: *mut vk::ExtensionProperties,
    all: &[(&str, u32)],
) -> Answer<vk::Result> {
    let all = if layer.is_null() { all } else { &[] };
    app.list(count, properties, all, |app, to, (name, version)| app.put(to, extension(name, *version)))
}

/// VK_ERROR_EXTENSION_NOT_PRESENT unless all names are extensions that there are.
pub(super) fn check_extensions(names: &[&CStr], all: &[(&str, u32)]) -> Answer<()> {
    let known = |name: &&CStr| all.iter().any(|(known, _)| name.to_str() == Ok(*known));
    if names.iter().all(known) { Ok(()) } else { Err(vk::Result::ERROR_EXTENSION_NOT_PRESENT) }
}

/// The names that an array of pointers points to.
pub(super) fn names<'c>(app: App<'c>, start: *const *const c_char, count: u32) -> Vec<&'c CStr> {
    app.slice(start, count).iter().filter_map(|name| app.name(*name)).collect()
}

fn create_instance(app: App<'_>, info: *const vk::InstanceCreateInfo<'_>, out: *mut vk::Instance) -> Answer<()> {
    let info = app.need(info)?;
    if info.enabled_layer_count != 0 {
        return Err(vk::Result::ERROR_LAYER_NOT_PRESENT);
    }
    let enabled = names(app, info.pp_enabled_extension_names, info.enabled_extension_count);
    check_extensions(&enabled, EXTENSIONS)?;
    let has_debug_utils = enabled.iter().any(|name| name.to_str() == Ok(DEBUG_UTILS));
    app.put(out, Owned::new(Instance::new(has_debug_utils)).into_handle());
    Ok(())
}

fn enumerate_devices(
    app: App<'_>,
    instance: vk::Instance,
    count: *mut u32,
    out: *mut vk::PhysicalDevice,
) -> Answer<vk::Result> {
    let devices = app.object::<Instance>(instance)?.devices()?;
    app.list(count, out, devices, |app, to, device: &Owned<PhysicalDevice>| app.put(to, device.handle()))
}

fn enumerate_groups(
    app: App<'_>,
    instance: vk::Instance,
    count: *mut u32,
    out: *mut vk::PhysicalDeviceGroupProperties<'_>,
) -> Answer<vk::Result> {
    let devices = app.object::<Instance>(instance)?.devices()?;
    app.list(count, out, devices, |app, to, device: &Owned<PhysicalDevice>| {
        app.change(to, |group| {
            group.physical_device_count = 1;
            group.subset_allocation = vk::FALSE;
            if let Some(first) = group.physical_devices.first_mut() {
                *first = device.handle();
            }
        });
    })
}

const _: () = assert!(vk::api_version_variant(API_VERSION) == 0);
