//! What the loader and programs are told: commands, properties, extensions, and what is refused.

use std::ffi::{CStr, CString};

use crate::kit::{Bench, COUNT, Recipe, STORAGE, entry, wgsl};
use ash::vk;
use ash::vk::Handle;
use campanile_vulkan::{
    vk_icdGetInstanceProcAddr, vk_icdGetPhysicalDeviceProcAddr, vk_icdNegotiateLoaderICDInterfaceVersion,
};

#[test]
fn driver_and_loader_agree_on_the_older_version_of_their_interface() {
    for (offered, agreed) in [(4, Some(4)), (7, Some(7)), (9, Some(7)), (3, None)] {
        let mut version = offered;
        // SAFETY: points to a version.
        let result = unsafe { vk_icdNegotiateLoaderICDInterfaceVersion(&mut version) };
        match agreed {
            Some(agreed) => assert_eq!((result, version), (vk::Result::SUCCESS, agreed)),
            None => assert_eq!((result, version), (vk::Result::ERROR_INCOMPATIBLE_DRIVER, offered)),
        }
    }
}

#[test]
fn commands_are_found_where_vulkan_says() {
    let global = |name: &CStr| {
        // SAFETY: no instance, and a terminated name.
        unsafe { vk_icdGetInstanceProcAddr(vk::Instance::null(), name.as_ptr()) }.is_some()
    };
    assert!(global(c"vkCreateInstance") && global(c"vkEnumerateInstanceVersion") && global(c"vkGetInstanceProcAddr"));
    // From version 7 on the loader asks for the interface in this way, too. [Vulkan-Loader: LoaderDriverInterface]
    assert!(global(c"vk_icdNegotiateLoaderICDInterfaceVersion") && global(c"vk_icdGetPhysicalDeviceProcAddr"));
    assert!(!global(c"vkCreateDevice") && !global(c"vkCmdDispatch") && !global(c"vkCmdDraw"));
    let bench = Bench::new();
    let of_instance = |name: &CStr| {
        // SAFETY: an instance, and a terminated name.
        unsafe { vk_icdGetInstanceProcAddr(bench.instance.handle(), name.as_ptr()) }.is_some()
    };
    for name in [c"vkCmdDispatch", c"vkQueueSubmit2KHR", c"vkGetBufferDeviceAddressKHR", c"vkCmdPushDescriptorSetKHR"] {
        assert!(of_instance(name), "{name:?}");
    }
    assert!(!of_instance(c"vkCreateSwapchainKHR") && !of_instance(c"vkNothing"));
    let of_physical = |name: &CStr| {
        // SAFETY: an instance, and a terminated name.
        unsafe { vk_icdGetPhysicalDeviceProcAddr(bench.instance.handle(), name.as_ptr()) }.is_some()
    };
    assert!(of_physical(c"vkGetPhysicalDeviceProperties2KHR") && of_physical(c"vkCreateDevice"));
    assert!(!of_physical(c"vkCmdDispatch") && !of_physical(c"vkCreateInstance"));
}

/// "Core device-level dispatchable command" of the version that the device has: a function pointer, also where no valid program calls it.
/// [Vulkan: vkGetDeviceProcAddr]
#[test]
fn every_command_of_the_version_has_an_address() {
    let bench = Bench::new();
    let mut missing = Vec::new();
    let mut ask = |name: &CStr| {
        // SAFETY: a device of the instance, and a terminated name.
        let address = unsafe { bench.instance.get_device_proc_addr(bench.device.handle(), name.as_ptr()) };
        if address.is_none() {
            missing.push(name.to_owned());
        }
        address.map_or(core::ptr::null(), |address| address as *const core::ffi::c_void)
    };
    ash::DeviceFnV1_0::load(&mut ask);
    ash::DeviceFnV1_1::load(&mut ask);
    ash::DeviceFnV1_2::load(&mut ask);
    ash::DeviceFnV1_3::load(&mut ask);
    assert_eq!(missing, Vec::<CString>::new());
}

/// A device without a queue family that draws refuses what drawing needs, and says so at the end of a command buffer. The rule is this driver's: valid usage
/// of the commands asks for such a family. [Vulkan: VUID-vkCmdDraw-commandBuffer-cmdpool, VUID-vkCreateRenderPass-device-10000]
#[test]
fn drawing_is_refused_by_name() {
    let bench = Bench::new();
    let refused = vk::Result::ERROR_FEATURE_NOT_PRESENT;
    // SAFETY: the device is alive; that it cannot draw is what is asked.
    let pass = unsafe { bench.device.create_render_pass(&vk::RenderPassCreateInfo::default(), None) };
    assert_eq!(pass, Err(refused));
    let infos = [vk::GraphicsPipelineCreateInfo::default(); 2];
    // SAFETY: as above.
    let pipelines = unsafe { bench.device.create_graphics_pipelines(vk::PipelineCache::null(), &infos, None) };
    assert_eq!(pipelines, Err((vec![vk::Pipeline::null(); 2], refused)));
    let pool = vk::CommandPoolCreateInfo::default();
    // SAFETY: the device is alive.
    let pool = unsafe { bench.device.create_command_pool(&pool, None) }.expect("a command pool");
    let wanted = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
    // SAFETY: the pool is of the device.
    let buffer = unsafe { bench.device.allocate_command_buffers(&wanted) }.expect("a command buffer")[0];
    for (draws, ended) in [(true, Err(refused)), (false, Ok(()))] {
        // SAFETY: no command of the buffer is pending.
        unsafe { bench.device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()) }.expect("begins");
        if draws {
            // SAFETY: the buffer is recording; that its pool cannot draw is what is asked.
            unsafe { bench.device.cmd_draw(buffer, 3, 1, 0, 0) };
        }
        // SAFETY: the buffer is recording.
        assert_eq!(unsafe { bench.device.end_command_buffer(buffer) }, ended);
    }
    // SAFETY: no command buffer of the pool is pending.
    unsafe { bench.device.destroy_command_pool(pool, None) };
}

#[test]
fn the_device_says_that_it_is_not_conformant() {
    let bench = Bench::new();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: the physical device is of the instance.
    unsafe { bench.instance.get_physical_device_properties2(bench.physical, &mut properties) };
    let (kind, limits) = (properties.properties.device_type, properties.properties.limits);
    assert_eq!(kind, vk::PhysicalDeviceType::VIRTUAL_GPU);
    assert_eq!(limits.max_compute_work_group_count, [65535; 3]);
    let version = driver.conformance_version;
    assert_eq!([version.major, version.minor, version.subminor, version.patch], [0; 4]);
    assert_eq!(bench.name(), "Campanile compute GPU");
    // SAFETY: the physical device is of the instance.
    let families = unsafe { bench.instance.get_physical_device_queue_family_properties(bench.physical) };
    let flags: Vec<_> = families.iter().map(|family| family.queue_flags).collect();
    assert_eq!(flags, [vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER, vk::QueueFlags::TRANSFER]);
}

#[test]
fn what_there_is_not_is_refused_by_name() {
    let bench = Bench::new();
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let create = |info: &vk::DeviceCreateInfo<'_>| {
        // SAFETY: valid but for what is to be refused.
        unsafe { bench.instance.create_device(bench.physical, info, None) }.map(|_| ()).err()
    };
    let features = vk::PhysicalDeviceFeatures::default().geometry_shader(true);
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    assert_eq!(create(&info.enabled_features(&features)), Some(vk::Result::ERROR_FEATURE_NOT_PRESENT));
    let mut in_chain = vk::PhysicalDeviceVulkan13Features::default().dynamic_rendering(true);
    assert_eq!(create(&info.push_next(&mut in_chain)), Some(vk::Result::ERROR_FEATURE_NOT_PRESENT));
    let swapchain = CString::from(vk::KHR_SWAPCHAIN_NAME);
    let names = [swapchain.as_ptr()];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
    assert_eq!(create(&info), Some(vk::Result::ERROR_EXTENSION_NOT_PRESENT));
    let layer = [c"VK_LAYER_nobody".as_ptr()];
    let info = vk::InstanceCreateInfo::default().enabled_layer_names(&layer);
    // SAFETY: valid but for the layer.
    let refused = unsafe { entry().create_instance(&info, None) }.err();
    assert_eq!(refused, Some(vk::Result::ERROR_LAYER_NOT_PRESENT));
    // SAFETY: the physical device is of the instance.
    let format = unsafe {
        bench.instance.get_physical_device_format_properties(bench.physical, vk::Format::BC1_RGB_UNORM_BLOCK)
    };
    assert!(format.optimal_tiling_features.is_empty() && format.linear_tiling_features.is_empty());
}

#[test]
fn lists_are_cut_and_said_to_be_incomplete() {
    let bench = Bench::new();
    let functions = bench.instance.fp_v1_0();
    let mut count = 2;
    let mut properties = [vk::ExtensionProperties::default(); 2];
    // SAFETY: space for as many elements as `count` says.
    let result = unsafe {
        let list = functions.enumerate_device_extension_properties;
        list(bench.physical, std::ptr::null(), &mut count, properties.as_mut_ptr())
    };
    assert_eq!((result, count), (vk::Result::INCOMPLETE, 2));
    assert_eq!(properties[1].extension_name_as_c_str(), Ok(c"VK_KHR_8bit_storage"));
}

#[test]
fn stale_handles_do_no_harm() {
    let bench = Bench::new();
    let bytes = bench.words(&[1]);
    // SAFETY: destroyed once; what comes after asks for the check that the driver makes.
    unsafe {
        bench.device.destroy_buffer(bytes.buffer, None);
        bench.device.destroy_buffer(bytes.buffer, None);
        let never = vk::Buffer::from_raw(u64::MAX);
        let bound = bench.device.bind_buffer_memory(never, bytes.memory(), 0);
        assert_eq!(bound, Err(vk::Result::ERROR_UNKNOWN));
        let address = vk::BufferDeviceAddressInfo::default().buffer(bytes.buffer);
        assert_eq!(bench.device.get_buffer_device_address(&address), 0);
    }
}

#[test]
fn a_pipeline_cache_keeps_programs_and_its_data_carry_them_on() {
    let bench = Bench::new();
    let device = &bench.device;
    let (module, other) = (wgsl(COUNT), wgsl(&COUNT.replace("1u", "2u")));
    let only_cached = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    // SAFETY: valid information, and caches of this device.
    unsafe {
        let new = |data: &[u8]| {
            let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
            device.create_pipeline_cache(&info, None).expect("a cache")
        };
        let first = new(&[]);
        let recipe = |module, cache, flags| Recipe { cache, flags, ..Recipe::new(module, &[STORAGE]) };
        let refused = bench.make(&recipe(&module, first, only_cached)).err();
        assert_eq!(refused, Some(vk::Result::PIPELINE_COMPILE_REQUIRED));
        let data = device.get_pipeline_cache_data(first).expect("data");
        assert_eq!((data.len(), &data[..8]), (32, &[32, 0, 0, 0, 1, 0, 0, 0][..]));
        bench.make(&recipe(&module, first, Default::default())).expect("compiled");
        let data = device.get_pipeline_cache_data(first).expect("data");
        let mut size = data.len() - 1;
        let mut buffer = vec![0u8; data.len()];
        let get = device.fp_v1_0().get_pipeline_cache_data;
        let result = get(device.handle(), first, &mut size, buffer.as_mut_ptr().cast());
        assert_eq!((result, size), (vk::Result::INCOMPLETE, 32), "a program is there as a whole or not at all");
        let mut foreign = data.clone();
        foreign[20] ^= 1;
        // Another cache has the program by its data, one of another device's or of data that are cut off has not.
        for (data, has) in [(&data[..], true), (&data[..data.len() - 1], false), (&foreign[..], false)] {
            let cache = new(data);
            let made = bench.make(&recipe(&module, cache, only_cached));
            assert_eq!(made.is_ok(), has);
            assert!(bench.make(&recipe(&other, cache, only_cached)).is_err(), "another module");
            if let Ok(kernel) = made {
                let counted = bench.words(&[0; 4]);
                bench.dispatch(&kernel, &[&counted], [3, 1, 1], &[]);
                assert_eq!(counted.read()[0], 3);
            }
            device.destroy_pipeline_cache(cache, None);
        }
        // Data that hold no valid program are compiled anew.
        let mut broken = data.clone();
        let last = broken.len() - 40;
        broken[last..].fill(0xff);
        let cache = new(&broken);
        bench.make(&recipe(&module, cache, Default::default())).expect("compiled");
        let merged = new(&[]);
        device.merge_pipeline_caches(merged, &[first]).expect("merged");
        bench.make(&recipe(&module, merged, only_cached)).expect("there");
        [first, cache, merged].into_iter().for_each(|cache| device.destroy_pipeline_cache(cache, None));
    }
}

#[test]
fn memory_that_the_processor_does_not_see_is_not_mapped() {
    let bench = Bench::new();
    let vram = bench.kind(vk::MemoryPropertyFlags::DEVICE_LOCAL, vk::MemoryPropertyFlags::HOST_VISIBLE);
    let bytes = bench.buffer_in(vram, 64, false);
    // SAFETY: the memory is of this device; that it cannot be mapped is what is asked for.
    let mapped = unsafe { bench.device.map_memory(bytes.memory(), 0, 16, vk::MemoryMapFlags::empty()) };
    assert_eq!(mapped.err(), Some(vk::Result::ERROR_MEMORY_MAP_FAILED));
}

#[test]
fn memory_that_there_is_not_is_not_allocated_and_costs_nothing() {
    let bench = Bench::new();
    let info = vk::MemoryAllocateInfo::default().allocation_size(1 << 40);
    // SAFETY: valid information.
    let refused = unsafe { bench.device.allocate_memory(&info, None) }.err();
    assert_eq!(refused, Some(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
    assert_eq!(bench.words(&[4]).read(), [4]);
}

#[test]
fn a_shader_that_the_compiler_refuses_makes_no_pipeline() {
    let bench = Bench::new();
    let module = wgsl(
        "@group(0) @binding(0) var image: texture_multisampled_2d<f32>;
        @group(0) @binding(1) var<storage, read_write> result: array<f32>;
        @compute @workgroup_size(1)
        fn main() { result[0] = textureLoad(image, vec2(0u), 0).x; }",
    );
    assert_eq!(bench.try_kernel(&module, 2, 0, &[]).err(), Some(vk::Result::ERROR_UNKNOWN));
    // A binding that the layout lacks is refused as well, and so is a word that is no module.
    assert_eq!(bench.try_kernel(&wgsl(COUNT), 0, 0, &[]).err(), Some(vk::Result::ERROR_UNKNOWN));
    assert_eq!(bench.try_kernel(&[0], 0, 0, &[]).err(), Some(vk::Result::ERROR_UNKNOWN));
}
