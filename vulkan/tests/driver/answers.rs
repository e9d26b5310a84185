//! What programs are told is written whole, and true.

use std::ffi::CStr;

use crate::kit::Bench;
use ash::vk;
use ash::vk::Handle;

/// Bytes of type and chain.
const HEADER: usize = size_of::<vk::BaseOutStructure<'_>>();

/// The bytes behind the header after `ask` was given a structure whose bytes there were `before`.
fn told<T: vk::TaggedStructure + Default>(before: u8, ask: impl FnOnce(&mut T)) -> Vec<u8> {
    let mut structure = T::default();
    let start = (&raw mut structure).cast::<u8>();
    let size = size_of::<T>() - HEADER;
    // SAFETY: behind the header the structure has numbers alone, of which any bytes are some.
    unsafe { start.add(HEADER).write_bytes(before, size) };
    ask(&mut structure);
    // SAFETY: so many bytes were written before.
    unsafe { core::slice::from_raw_parts(start.add(HEADER), size) }.to_vec()
}

/// Asks twice, each time with other bytes in the structure.
macro_rules! assert_whole {
    ($bench:ident, $get:ident, $outer:ident: $($structure:ident)*) => { $(
        let [zeros, others] = [0, 0xaa].map(|before| {
            told::<vk::$structure<'_>>(before, |structure| {
                let mut outer = vk::$outer::default();
                outer.p_next = (&raw mut *structure).cast();
                // SAFETY: the physical device is of the instance, and the chain has one structure.
                unsafe { $bench.instance.$get($bench.physical, &mut outer) };
            })
        });
        assert_eq!(zeros, others, stringify!($structure));
    )* };
}

/// "Any component of these structures is written": no member keeps what the application had there. [Vulkan: vkGetPhysicalDeviceFeatures2]
#[test]
fn structures_of_features_and_properties_are_written_whole() {
    let bench = Bench::new();
    assert_whole! { bench, get_physical_device_features2, PhysicalDeviceFeatures2:
        PhysicalDeviceVulkan11Features PhysicalDeviceVulkan12Features PhysicalDeviceVulkan13Features
        PhysicalDeviceDescriptorIndexingFeatures PhysicalDeviceInlineUniformBlockFeatures
        PhysicalDeviceDynamicRenderingFeatures PhysicalDeviceMultiviewFeatures
    }
    assert_whole! { bench, get_physical_device_properties2, PhysicalDeviceProperties2:
        PhysicalDeviceVulkan11Properties PhysicalDeviceVulkan12Properties PhysicalDeviceVulkan13Properties
        PhysicalDeviceFloatControlsProperties PhysicalDeviceSubgroupProperties PhysicalDeviceMultiviewProperties
        PhysicalDeviceTexelBufferAlignmentProperties PhysicalDeviceInlineUniformBlockProperties
    }
}

#[test]
fn offsets_of_texel_buffers_have_an_alignment() {
    let bench = Bench::new();
    let mut texels = vk::PhysicalDeviceTexelBufferAlignmentProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut texels);
    // SAFETY: the physical device is of the instance.
    unsafe { bench.instance.get_physical_device_properties2(bench.physical, &mut properties) };
    let least = properties.properties.limits.min_texel_buffer_offset_alignment;
    let all = [texels.storage_texel_buffer_offset_alignment_bytes, texels.uniform_texel_buffer_offset_alignment_bytes];
    assert_eq!(all, [least; 2]);
    assert!(least.is_power_of_two());
}

/// A feature that is off is refused by whichever structure it is asked for. [Vulkan: vkCreateDevice, VK_ERROR_FEATURE_NOT_PRESENT]
#[test]
fn a_device_with_a_feature_that_there_is_not_is_refused() {
    let bench = Bench::new();
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
    let create = |info: &vk::DeviceCreateInfo<'_>| {
        // SAFETY: the physical device is of the instance.
        unsafe { bench.instance.create_device(bench.physical, info, None) }.map(|device| {
            // SAFETY: nothing was made of the device.
            unsafe { device.destroy_device(None) }
        })
    };
    for (wanted, expected) in [(false, Ok(())), (true, Err(vk::Result::ERROR_FEATURE_NOT_PRESENT))] {
        let mut rendering = vk::PhysicalDeviceDynamicRenderingFeatures::default().dynamic_rendering(wanted);
        let mut blocks = vk::PhysicalDeviceInlineUniformBlockFeatures::default()
            .inline_uniform_block(true)
            .descriptor_binding_inline_uniform_block_update_after_bind(wanted);
        let mut demotion = vk::PhysicalDeviceShaderDemoteToHelperInvocationFeatures::default()
            .shader_demote_to_helper_invocation(wanted);
        let info = || vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        assert_eq!(create(&info().push_next(&mut rendering)), expected);
        assert_eq!(create(&info().push_next(&mut blocks)), expected);
        assert_eq!(create(&info().push_next(&mut demotion)), expected);
    }
}

/// NULL for what is no command of the device, or of an extension that is not enabled. [Vulkan: vkGetDeviceProcAddr]
#[test]
fn a_device_has_the_commands_of_its_extensions_only() {
    let bench = Bench::new();
    let has = |name: &CStr| {
        // SAFETY: the device exists, and the name is terminated.
        unsafe { bench.instance.get_device_proc_addr(bench.device.handle(), name.as_ptr()) }.is_some()
    };
    for name in [c"vkQueueSubmit2", c"vkCmdDispatch", c"vkCmdPushDescriptorSetKHR", c"vkGetDeviceFaultInfoEXT"] {
        assert!(has(name), "{name:?}");
    }
    for name in [c"vkQueueSubmit2KHR", c"vkGetCalibratedTimestampsKHR", c"vkEnumeratePhysicalDevices", c"vkNothing"] {
        assert!(!has(name), "{name:?}");
    }
}

/// The data of an object ends with it; another one that gets its handle has none. [Vulkan: Private Data]
#[test]
fn private_data_ends_with_its_object() {
    let bench = Bench::new();
    let info = vk::PrivateDataSlotCreateInfo::default();
    // SAFETY: the device exists.
    let slot = unsafe { bench.device.create_private_data_slot(&info, None) }.expect("a slot");
    let info = vk::CommandBufferAllocateInfo::default().command_pool(bench.pools[0]).command_buffer_count(1);
    for round in 1..=50u64 {
        // SAFETY: the pool exists.
        let buffers = unsafe { bench.device.allocate_command_buffers(&info) }.expect("a buffer");
        // SAFETY: slot and buffer exist.
        assert_eq!(unsafe { bench.device.get_private_data(buffers[0], slot) }, 0, "round {round}");
        // SAFETY: as before.
        unsafe { bench.device.set_private_data(buffers[0], slot, round) }.expect("set");
        // SAFETY: as before.
        assert_eq!(unsafe { bench.device.get_private_data(buffers[0], slot) }, round);
        // SAFETY: the buffer is not used any more.
        unsafe { bench.device.free_command_buffers(bench.pools[0], &buffers) };
    }
    // SAFETY: nothing uses the slot any more.
    unsafe { bench.device.destroy_private_data_slot(slot, None) };
}

/// Without WAIT and PARTIAL the value of a query that is not available is left as it was. [Vulkan: vkGetQueryPoolResults]
#[test]
fn a_query_that_is_not_available_leaves_its_value_alone() {
    let bench = Bench::new();
    let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
    // SAFETY: the device exists.
    let pool = unsafe { bench.device.create_query_pool(&info, None) }.expect("a pool");
    // SAFETY: the pool has two queries.
    unsafe { bench.device.reset_query_pool(pool, 0, 2) };
    let written = bench.record(|device, buffer| {
        // SAFETY: the buffer is being recorded.
        unsafe { device.cmd_write_timestamp2(buffer, vk::PipelineStageFlags2::ALL_COMMANDS, pool, 1) };
    });
    bench.run_on(0, written);
    let mut results = [[0xeeee_eeee_u32; 2]; 2];
    // SAFETY: the pool has two queries.
    let outcome =
        unsafe { bench.device.get_query_pool_results(pool, 0, &mut results, vk::QueryResultFlags::WITH_AVAILABILITY) };
    assert_eq!(outcome, Err(vk::Result::NOT_READY));
    assert_eq!(results[0], [0xeeee_eeee, 0]);
    assert_eq!(results[1][1], 1);
    // SAFETY: nothing uses the pool any more.
    unsafe { bench.device.destroy_query_pool(pool, None) };
}

/// A layout is supported if it can be created. [Vulkan: vkGetDescriptorSetLayoutSupport]
#[test]
fn a_layout_that_cannot_be_created_is_not_supported() {
    let bench = Bench::new();
    let supported = |kind: vk::DescriptorType, count: u32| {
        let binding = [vk::DescriptorSetLayoutBinding::default().descriptor_type(kind).descriptor_count(count)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
        let mut support = vk::DescriptorSetLayoutSupport::default();
        // SAFETY: the device exists.
        unsafe { bench.device.get_descriptor_set_layout_support(&info, &mut support) };
        support.supported == vk::TRUE
    };
    assert!(supported(vk::DescriptorType::STORAGE_BUFFER, 4096));
    assert!(!supported(vk::DescriptorType::STORAGE_BUFFER, 4097));
    assert!(!supported(vk::DescriptorType::STORAGE_BUFFER, 1 << 30));
    assert!(supported(vk::DescriptorType::INLINE_UNIFORM_BLOCK, 16));
    assert!(!supported(vk::DescriptorType::MUTABLE_EXT, 16));
}

/// Memory of other drivers comes in no way that the driver has. [Vulkan: vkGetPhysicalDeviceImageFormatProperties2]
#[test]
fn images_of_other_drivers_memory_are_not_supported() {
    let bench = Bench::new();
    let mut external = vk::PhysicalDeviceExternalImageFormatInfo::default()
        .handle_type(vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT);
    let info = vk::PhysicalDeviceImageFormatInfo2::default()
        .format(vk::Format::R8G8B8A8_UNORM)
        .ty(vk::ImageType::TYPE_2D)
        .usage(vk::ImageUsageFlags::STORAGE)
        .push_next(&mut external);
    let mut properties = vk::ImageFormatProperties2::default();
    // SAFETY: the physical device is of the instance.
    let outcome =
        unsafe { bench.instance.get_physical_device_image_format_properties2(bench.physical, &info, &mut properties) };
    assert_eq!(outcome, Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED));
    assert!(!bench.device.handle().is_null());
}
