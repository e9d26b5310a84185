//! Commands of physical and logical devices.

use core::ffi::c_char;

use ash::vk;

use super::declaration::commands;
use super::global;
use crate::app::App;
use crate::device::{Device, Queue, QueuesWanted};
use crate::failure::Answer;
use crate::fault;
use crate::handle::Owned;
use crate::instance::DEBUG_UTILS;
use crate::physical::{self, FAMILIES, Family, PhysicalDevice};
use crate::pipeline::faults;

/// Commands whose first argument is a physical device.
pub(super) mod physical_commands {
    use super::*;

    commands! { app;
        vkEnumerateDeviceExtensionProperties: PFN_vkEnumerateDeviceExtensionProperties(device: vk::PhysicalDevice,
            layer: *const c_char, count: *mut u32, properties: *mut vk::ExtensionProperties) -> vk::Result
            = global::extensions(app, layer, count, properties, physical::EXTENSIONS);
        vkEnumerateDeviceLayerProperties: PFN_vkEnumerateDeviceLayerProperties(
            device: vk::PhysicalDevice, count: *mut u32, properties: *mut vk::LayerProperties) -> vk::Result
            = app.list(count, properties, &[] as &[()], |_, _, ()| ());
        vkCreateDevice: PFN_vkCreateDevice(device: vk::PhysicalDevice, info: *const vk::DeviceCreateInfo<'_>,
            allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Device) -> vk::Result
            = create_device(app, device, info, out);
        vkGetPhysicalDeviceFeatures: PFN_vkGetPhysicalDeviceFeatures(
            device: vk::PhysicalDevice, features: *mut vk::PhysicalDeviceFeatures)
            = app.put(features, physical::features());
        vkGetPhysicalDeviceFeatures2: PFN_vkGetPhysicalDeviceFeatures2(
            device: vk::PhysicalDevice, features: *mut vk::PhysicalDeviceFeatures2<'_>)
            = app.change(features, |features| {
                features.features = physical::features();
                physical::extend_features(app, features.p_next);
            });
        vkGetPhysicalDeviceProperties: PFN_vkGetPhysicalDeviceProperties(
            device: vk::PhysicalDevice, properties: *mut vk::PhysicalDeviceProperties)
            = if let Ok(device) = app.object::<PhysicalDevice>(device) {
                app.put(properties, physical::properties(device));
            };
        vkGetPhysicalDeviceProperties2: PFN_vkGetPhysicalDeviceProperties2(
            device: vk::PhysicalDevice, properties: *mut vk::PhysicalDeviceProperties2<'_>)
            = if let Ok(device) = app.object::<PhysicalDevice>(device) {
                app.change(properties, |properties| {
                    properties.properties = physical::properties(device);
                    physical::extend_properties(app, device, properties.p_next);
                });
            };
        vkGetPhysicalDeviceQueueFamilyProperties: PFN_vkGetPhysicalDeviceQueueFamilyProperties(
            device: vk::PhysicalDevice, count: *mut u32, properties: *mut vk::QueueFamilyProperties)
            = list_families(app, count, properties, |app, to, family| app.put(to, family.properties()));
        vkGetPhysicalDeviceQueueFamilyProperties2: PFN_vkGetPhysicalDeviceQueueFamilyProperties2(
            device: vk::PhysicalDevice, count: *mut u32, properties: *mut vk::QueueFamilyProperties2<'_>)
            = list_families(app, count, properties, |app, to, family| {
                app.change(to, |to| to.queue_family_properties = family.properties2(app, to.p_next));
            });
        vkGetPhysicalDeviceMemoryProperties: PFN_vkGetPhysicalDeviceMemoryProperties(
            device: vk::PhysicalDevice, properties: *mut vk::PhysicalDeviceMemoryProperties)
            = if let Ok(device) = app.object::<PhysicalDevice>(device) {
                app.put(properties, device.memory_properties());
            };
        vkGetPhysicalDeviceMemoryProperties2: PFN_vkGetPhysicalDeviceMemoryProperties2(
            device: vk::PhysicalDevice, properties: *mut vk::PhysicalDeviceMemoryProperties2<'_>)
            = memory_properties2(app, device, properties);
        vkGetPhysicalDeviceFormatProperties: PFN_vkGetPhysicalDeviceFormatProperties(
            device: vk::PhysicalDevice, format: vk::Format, properties: *mut vk::FormatProperties)
            = app.put(properties, physical::format_properties(format));
        vkGetPhysicalDeviceFormatProperties2: PFN_vkGetPhysicalDeviceFormatProperties2(
            device: vk::PhysicalDevice, format: vk::Format, properties: *mut vk::FormatProperties2<'_>)
            = app.change(properties, |properties| {
                properties.format_properties = physical::format_properties2(app, format, properties.p_next);
            });
        vkGetPhysicalDeviceImageFormatProperties: PFN_vkGetPhysicalDeviceImageFormatProperties(
            device: vk::PhysicalDevice, format: vk::Format, kind: vk::ImageType, tiling: vk::ImageTiling,
            usage: vk::ImageUsageFlags, flags: vk::ImageCreateFlags, properties: *mut vk::ImageFormatProperties) -> vk::Result
            = physical::image_format_properties(format, kind, usage, flags).map(|found| app.put(properties, found));
        vkGetPhysicalDeviceImageFormatProperties2: PFN_vkGetPhysicalDeviceImageFormatProperties2(
            device: vk::PhysicalDevice, info: *const vk::PhysicalDeviceImageFormatInfo2<'_>,
            properties: *mut vk::ImageFormatProperties2<'_>) -> vk::Result
            = app.need(info).and_then(|info| {
                let external = app.find::<vk::PhysicalDeviceExternalImageFormatInfo<'_>>(info.p_next);
                let external = external.map(|external| external.handle_type).filter(|kind| !kind.is_empty());
                let memory = external.map(physical::external_memory).unwrap_or_default();
                if external.is_some() && memory.external_memory_features.is_empty() {
                    return Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED);
                }
                let found = physical::image_format_properties(info.format, info.ty, info.usage, info.flags)?;
                app.change(properties, |properties| {
                    properties.image_format_properties = found;
                    app.extend::<vk::ExternalImageFormatProperties<'_>>(properties.p_next, |properties| {
                        properties.external_memory_properties = memory;
                    });
                    app.extend::<vk::SamplerYcbcrConversionImageFormatProperties<'_>>(properties.p_next, |format| {
                        format.combined_image_sampler_descriptor_count = 1;
                    });
                });
                Ok(())
            });
        vkGetPhysicalDeviceSparseImageFormatProperties: PFN_vkGetPhysicalDeviceSparseImageFormatProperties(
            device: vk::PhysicalDevice, format: vk::Format, kind: vk::ImageType, samples: vk::SampleCountFlags,
            usage: vk::ImageUsageFlags, tiling: vk::ImageTiling, count: *mut u32,
            properties: *mut vk::SparseImageFormatProperties)
            = app.put(count, 0);
        vkGetPhysicalDeviceSparseImageFormatProperties2: PFN_vkGetPhysicalDeviceSparseImageFormatProperties2(
            device: vk::PhysicalDevice, info: *const vk::PhysicalDeviceSparseImageFormatInfo2<'_>, count: *mut u32,
            properties: *mut vk::SparseImageFormatProperties2<'_>)
            = app.put(count, 0);
        vkGetPhysicalDeviceExternalBufferProperties: PFN_vkGetPhysicalDeviceExternalBufferProperties(
            device: vk::PhysicalDevice, info: *const vk::PhysicalDeviceExternalBufferInfo<'_>,
            properties: *mut vk::ExternalBufferProperties<'_>)
            = app.change(properties, |properties| {
                let memory = app.get(info).map(|info| physical::external_memory(info.handle_type));
                properties.external_memory_properties = memory.unwrap_or_default();
            });
        vkGetPhysicalDeviceExternalFenceProperties: PFN_vkGetPhysicalDeviceExternalFenceProperties(
            device: vk::PhysicalDevice, info: *const vk::PhysicalDeviceExternalFenceInfo<'_>,
            properties: *mut vk::ExternalFenceProperties<'_>)
            = if let Some(info) = app.get(info) {
                app.change(properties, |properties| physical::external_fence(info.handle_type, properties));
            };
        vkGetPhysicalDeviceExternalSemaphoreProperties: PFN_vkGetPhysicalDeviceExternalSemaphoreProperties(
            device: vk::PhysicalDevice, info: *const vk::PhysicalDeviceExternalSemaphoreInfo<'_>,
            properties: *mut vk::ExternalSemaphoreProperties<'_>)
            = if let Some(info) = app.get(info) {
                app.change(properties, |properties| physical::external_semaphore(info.handle_type, properties));
            };
        vkGetPhysicalDeviceToolProperties: PFN_vkGetPhysicalDeviceToolProperties(device: vk::PhysicalDevice,
            count: *mut u32, properties: *mut vk::PhysicalDeviceToolProperties<'_>) -> vk::Result
            = app.list(count, properties, &[] as &[()], |_, _, ()| ());
    }
}

commands! { app;
    vkDestroyDevice: PFN_vkDestroyDevice(device: vk::Device, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(app.take::<Device>(device));
    vkDeviceWaitIdle: PFN_vkDeviceWaitIdle(device: vk::Device) -> vk::Result
        = app.object::<Device>(device).and_then(|device| device.wait_idle(app));
    vkGetDeviceQueue: PFN_vkGetDeviceQueue(device: vk::Device, family: u32, index: u32, queue: *mut vk::Queue)
        = app.put(queue, queue_of(app, device, family, index));
    vkGetDeviceQueue2: PFN_vkGetDeviceQueue2(
        device: vk::Device, info: *const vk::DeviceQueueInfo2<'_>, queue: *mut vk::Queue)
        = if let Some(info) = app.get(info) {
            app.put(queue, queue_of(app, device, info.queue_family_index, info.queue_index));
        };
    vkGetDeviceGroupPeerMemoryFeatures: PFN_vkGetDeviceGroupPeerMemoryFeatures(
        device: vk::Device, heap: u32, local: u32, remote: u32, features: *mut vk::PeerMemoryFeatureFlags)
        = app.put(features, vk::PeerMemoryFeatureFlags::default());
    vkGetDeviceFaultInfoEXT: PFN_vkGetDeviceFaultInfoEXT(device: vk::Device,
        counts: *mut vk::DeviceFaultCountsEXT<'_>, info: *mut vk::DeviceFaultInfoEXT<'_>) -> vk::Result
        = app.object::<Device>(device).and_then(|device| fault_info(app, device, counts, info));
    vkQueueWaitIdle: PFN_vkQueueWaitIdle(queue: vk::Queue) -> vk::Result
        = app.object::<Queue>(queue).and_then(Queue::wait_idle);
}

/// Lists the queue families.
fn list_families<T>(app: App<'_>, count: *mut u32, to: *mut T, write: impl Fn(App<'_>, *mut T, &Family)) {
    // A list that is too short for all of them is no error of this command.
    let _ = app.list(count, to, &FAMILIES, |app, to, family| write(app, to, family));
}

fn queue_of(app: App<'_>, device: vk::Device, family: u32, index: u32) -> vk::Queue {
    let device = app.object::<Device>(device).ok();
    device.and_then(|device| device.queue(family, index)).unwrap_or_default()
}

fn create_device(
    app: App<'_>,
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    out: *mut vk::Device,
) -> Answer<()> {
    let (physical, info) = (app.object::<PhysicalDevice>(physical)?, app.need(info)?);
    let enabled = global::names(app, info.pp_enabled_extension_names, info.enabled_extension_count);
    global::check_extensions(&enabled, physical::EXTENSIONS)?;
    let wanted = app.get(info.p_enabled_features);
    let in_chain = app.find::<vk::PhysicalDeviceFeatures2<'_>>(info.p_next).map(|features| &features.features);
    let has_core = wanted.or(in_chain).is_none_or(physical::has_features);
    if !has_core || !physical::has_all(app, info.p_next) {
        return Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
    }
    let queues = app.slice(info.p_queue_create_infos, info.queue_create_info_count);
    let wanted = queues.iter().map(|queues| queues_wanted(app, queues)).collect::<Answer<Vec<_>>>()?;
    let is_enabled = |known: &&str| enabled.iter().any(|name| name.to_str() == Ok(*known));
    let of_instance = physical.has_debug_utils().then_some(DEBUG_UTILS);
    let extensions = physical::EXTENSIONS.iter().map(|(name, _)| *name).filter(is_enabled).chain(of_instance).collect();
    let device = Device::new(physical, &wanted)?.with_extensions(extensions);
    app.put(out, Owned::new(device).into_handle());
    Ok(())
}

/// Queues of a family with the priorities of their contexts: the global one that the chain gives them, or else the normal one, lowered for a queue of low priority.
fn queues_wanted(app: App<'_>, info: &vk::DeviceQueueCreateInfo<'_>) -> Answer<QueuesWanted> {
    let named = app.find::<vk::DeviceQueueGlobalPriorityCreateInfoKHR<'_>>(info.p_next);
    let named = named.map_or(vk::QueueGlobalPriorityKHR::MEDIUM, |named| named.global_priority);
    let known = physical::GLOBAL_PRIORITIES.iter().find(|(priority, _)| *priority == named);
    let (_, priority) = known.ok_or(vk::Result::ERROR_INITIALIZATION_FAILED)?;
    // The lower one of two discrete priorities among queues is one level below the normal one. The bands of the others have one level each.
    let level = |among: &f32| if *priority == 0 && *among < 0.5 { -1 } else { *priority };
    let priorities = app.slice(info.p_queue_priorities, info.queue_count).iter().map(level).collect();
    Ok(QueuesWanted { family: info.queue_family_index, priorities })
}

fn memory_properties2(app: App<'_>, device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceMemoryProperties2<'_>) {
    let Ok(device) = app.object::<PhysicalDevice>(device) else { return };
    app.change(out, |properties| {
        properties.memory_properties = device.memory_properties();
        app.extend::<vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>(properties.p_next, |budget| {
            // A lost adapter has no budget to tell of, and this command no result.
            let budgets = device.budgets().unwrap_or_default();
            let places = budget.heap_budget.iter_mut().zip(budget.heap_usage.iter_mut());
            for ((to_budget, to_usage), (size, usage)) in places.zip(budgets) {
                (*to_budget, *to_usage) = (size, usage);
            }
        });
    });
}

/// What is known of the loss of a device: why, and for each fault of a dispatch its address and, as a vendor's information, the program, instruction and line.
fn fault_info(
    app: App<'_>,
    device: &Device,
    counts: *mut vk::DeviceFaultCountsEXT<'_>,
    info: *mut vk::DeviceFaultInfoEXT<'_>,
) -> Answer<vk::Result> {
    let (reason, faults) = (fault::reason(device)?, faults(device)?);
    let addresses: Vec<_> = faults.iter().filter_map(|fault| Some((fault.address, fault.address_type()?))).collect();
    let capacity = app.need(counts.cast_const())?;
    let (capacity_of_addresses, capacity_of_faults) =
        (capacity.address_info_count as usize, capacity.vendor_info_count as usize);
    let given = app.get(info.cast_const());
    let (told, shown) = match given {
        None => (addresses.len(), faults.len()),
        Some(_) => (addresses.len().min(capacity_of_addresses), faults.len().min(capacity_of_faults)),
    };
    app.change(counts, |counts| {
        (counts.address_info_count, counts.vendor_info_count) = (told as u32, shown as u32);
        counts.vendor_binary_size = 0;
    });
    let Some(given) = given else { return Ok(vk::Result::SUCCESS) };
    for (index, (reported_address, address_type)) in addresses.iter().copied().take(told).enumerate() {
        app.put_at(
            given.p_address_infos,
            index,
            vk::DeviceFaultAddressInfoEXT { address_type, reported_address, address_precision: 1 },
        );
    }
    for (index, fault) in faults.iter().take(shown).enumerate() {
        let mut vendor = vk::DeviceFaultVendorInfoEXT {
            vendor_fault_code: fault.kind.into(),
            vendor_fault_data: u64::from(fault.line) << 32 | u64::from(fault.instruction),
            ..Default::default()
        };
        physical::write_name(&mut vendor.description, &fault.text());
        app.put_at(given.p_vendor_infos, index, vendor);
    }
    app.change(info, |info| physical::write_name(&mut info.description, reason));
    let whole = told == addresses.len() && shown == faults.len();
    Ok(if whole { vk::Result::SUCCESS } else { vk::Result::INCOMPLETE })
}
