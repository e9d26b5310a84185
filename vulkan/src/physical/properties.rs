//! Properties: names, identity, and what is more than a limit of Vulkan 1.0.

use core::ffi::{c_char, c_void};

use ash::vk;
use campanile_hw::isa::WORKGROUP_MAX;
use campanile_hw::pci::{DEVICE_ID, VENDOR_ID};

use super::limits::{ALIGNMENT, DESCRIPTORS_OF_SET, INLINE_BLOCKS_MAX, INLINE_BYTES_MAX, SUBGROUP_SIZE, limits};
use super::{API_VERSION, PhysicalDevice};
use crate::app::App;
use crate::machine;

const DEVICE_NAME: &str = "Campanile compute GPU";
const DRIVER_NAME: &str = "campanile";
const DRIVER_INFO: &str = concat!(env!("CARGO_PKG_VERSION"), ", not conformant");
/// A digest of the compiler's sources: pipelines of another compiler are compiled anew.
pub(crate) const CACHE_UUID: [u8; vk::UUID_SIZE] = match u128::from_str_radix(env!("CAMPANILE_COMPILER_DIGEST"), 10) {
    Ok(digest) => digest.to_le_bytes(),
    Err(_) => panic!("the build script writes a number"),
};
const DRIVER_UUID: [u8; vk::UUID_SIZE] = *b"campanile driver";
/// Bytes of an allocation and of a buffer that Vulkan has every device announce, although heaps may be smaller. [Vulkan: Required Limits]
const BYTES_REQUIRED: u64 = 1 << 30;

/// Most bytes of an allocation and of a buffer.
fn bytes_max(device: &PhysicalDevice) -> u64 {
    device.heaps().iter().map(|heap| heap.size).fold(BYTES_REQUIRED, u64::max)
}

/// The properties of Vulkan 1.0.
pub(crate) fn properties(device: &PhysicalDevice) -> vk::PhysicalDeviceProperties {
    let mut properties = vk::PhysicalDeviceProperties {
        api_version: API_VERSION,
        driver_version: vk::make_api_version(0, 0, 1, 0),
        vendor_id: u32::from(VENDOR_ID),
        device_id: u32::from(DEVICE_ID),
        device_type: vk::PhysicalDeviceType::VIRTUAL_GPU,
        pipeline_cache_uuid: CACHE_UUID,
        limits: limits(device.adapter()),
        ..Default::default()
    };
    write_name(&mut properties.device_name, DEVICE_NAME);
    properties
}

/// Writes a name and its end; what does not fit is left out.
pub(crate) fn write_name(to: &mut [c_char], name: &str) {
    let capacity = to.len().saturating_sub(1);
    for (to, byte) in to.iter_mut().zip(name.bytes().take(capacity).chain([0])) {
        *to = byte as c_char;
    }
}

/// Devices with the same one take each other's descriptors: it is that of an adapter of a machine. [Vulkan: External Memory Handle Types Compatibility]
fn device_uuid(device: &PhysicalDevice) -> [u8; vk::UUID_SIZE] {
    let mut uuid = *b"campanile gpu\0\0\0";
    for (to, byte) in uuid.iter_mut().rev().zip(luid(device)) {
        *to ^= byte;
    }
    for (to, byte) in uuid.iter_mut().zip(machine::number().to_le_bytes()) {
        *to ^= byte;
    }
    uuid
}

fn luid(device: &PhysicalDevice) -> [u8; vk::LUID_SIZE] {
    let luid = device.adapter().luid();
    let mut bytes = [0; vk::LUID_SIZE];
    let halves = luid.LowPart.to_le_bytes().into_iter().chain(luid.HighPart.to_le_bytes());
    for (to, byte) in bytes.iter_mut().zip(halves) {
        *to = byte;
    }
    bytes
}

fn subgroup_operations() -> vk::SubgroupFeatureFlags {
    type Flags = vk::SubgroupFeatureFlags;
    Flags::BASIC | Flags::VOTE | Flags::ARITHMETIC | Flags::BALLOT | Flags::SHUFFLE | Flags::SHUFFLE_RELATIVE
}

/// Sets the limits of layouts with bindings that are updated after they are bound, which are those of all layouts. The feature descriptorIndexing asks for
/// 500,000 of some, so that it is off although the features of single types of bindings are on.
macro_rules! update_after_bind {
    ($properties:ident) => {
        $properties.robust_buffer_access_update_after_bind = vk::TRUE;
        $properties.max_update_after_bind_descriptors_in_all_pools = DESCRIPTORS_OF_SET;
        $properties.max_per_stage_descriptor_update_after_bind_uniform_buffers = DESCRIPTORS_OF_SET;
        $properties.max_per_stage_descriptor_update_after_bind_storage_buffers = DESCRIPTORS_OF_SET;
        $properties.max_per_stage_descriptor_update_after_bind_samplers = DESCRIPTORS_OF_SET;
        $properties.max_per_stage_descriptor_update_after_bind_sampled_images = DESCRIPTORS_OF_SET;
        $properties.max_per_stage_descriptor_update_after_bind_storage_images = DESCRIPTORS_OF_SET;
        $properties.max_descriptor_set_update_after_bind_samplers = DESCRIPTORS_OF_SET;
        $properties.max_descriptor_set_update_after_bind_sampled_images = DESCRIPTORS_OF_SET;
        $properties.max_descriptor_set_update_after_bind_storage_images = DESCRIPTORS_OF_SET;
        $properties.max_per_stage_update_after_bind_resources = DESCRIPTORS_OF_SET;
        $properties.max_descriptor_set_update_after_bind_uniform_buffers = DESCRIPTORS_OF_SET;
        $properties.max_descriptor_set_update_after_bind_uniform_buffers_dynamic = DESCRIPTORS_OF_SET;
        $properties.max_descriptor_set_update_after_bind_storage_buffers = DESCRIPTORS_OF_SET;
        $properties.max_descriptor_set_update_after_bind_storage_buffers_dynamic = DESCRIPTORS_OF_SET;
    };
}

/// Sets the behaviour of arithmetic: the device rounds to nearest even, and keeps subnormal numbers, infinities, NaN and the sign of zero.
macro_rules! float_controls {
    ($properties:ident) => {
        $properties.denorm_behavior_independence = vk::ShaderFloatControlsIndependence::ALL;
        $properties.rounding_mode_independence = vk::ShaderFloatControlsIndependence::ALL;
        $properties.shader_signed_zero_inf_nan_preserve_float16 = vk::TRUE;
        $properties.shader_signed_zero_inf_nan_preserve_float32 = vk::TRUE;
        $properties.shader_signed_zero_inf_nan_preserve_float64 = vk::TRUE;
        $properties.shader_denorm_preserve_float16 = vk::TRUE;
        $properties.shader_denorm_preserve_float32 = vk::TRUE;
        $properties.shader_denorm_preserve_float64 = vk::TRUE;
        $properties.shader_rounding_mode_rte_float16 = vk::TRUE;
        $properties.shader_rounding_mode_rte_float32 = vk::TRUE;
        $properties.shader_rounding_mode_rte_float64 = vk::TRUE;
    };
}

/// Sets the limits of inline uniform blocks. What is bound is not updated, for the feature is off, but a layout may have the flag for its other bindings.
macro_rules! inline_blocks {
    ($properties:ident) => {
        $properties.max_inline_uniform_block_size = INLINE_BYTES_MAX;
        $properties.max_per_stage_descriptor_inline_uniform_blocks = INLINE_BLOCKS_MAX;
        $properties.max_per_stage_descriptor_update_after_bind_inline_uniform_blocks = INLINE_BLOCKS_MAX;
        $properties.max_descriptor_set_inline_uniform_blocks = INLINE_BLOCKS_MAX;
        $properties.max_descriptor_set_update_after_bind_inline_uniform_blocks = INLINE_BLOCKS_MAX;
    };
}

/// Sets the alignment of texel buffers, which is that of all buffers; a view need not begin at a multiple of its texel.
macro_rules! texel_buffers {
    ($properties:ident) => {
        $properties.storage_texel_buffer_offset_alignment_bytes = ALIGNMENT;
        $properties.uniform_texel_buffer_offset_alignment_bytes = ALIGNMENT;
    };
}

/// Writes zeros to structures that speak of what there is not.
macro_rules! nothing_of {
    ($app:ident, $chain:ident: $($structure:ident)*) => { $( $app.extend::<vk::$structure<'_>>($chain, |_| ()); )* };
}

/// Fills the structures of properties that a chain has.
pub(crate) fn extend(app: App<'_>, device: &PhysicalDevice, chain: *mut c_void) {
    extend_identity(app, device, chain);
    extend_shaders(app, chain);
    app.extend::<vk::PhysicalDeviceMaintenance3Properties<'_>>(chain, |properties| {
        properties.max_per_set_descriptors = DESCRIPTORS_OF_SET;
        properties.max_memory_allocation_size = bytes_max(device);
    });
    app.extend::<vk::PhysicalDeviceDescriptorIndexingProperties<'_>>(chain, |properties| {
        update_after_bind!(properties);
    });
    app.extend::<vk::PhysicalDeviceMaintenance4Properties<'_>>(chain, |properties| {
        properties.max_buffer_size = bytes_max(device);
    });
    app.extend::<vk::PhysicalDeviceTimelineSemaphoreProperties<'_>>(chain, |properties| {
        properties.max_timeline_semaphore_value_difference = u64::MAX - 1;
    });
    app.extend::<vk::PhysicalDevicePushDescriptorPropertiesKHR<'_>>(chain, |properties| {
        properties.max_push_descriptors = DESCRIPTORS_OF_SET;
    });
    app.extend::<vk::PhysicalDeviceVulkan13Properties<'_>>(chain, |properties| {
        properties.min_subgroup_size = SUBGROUP_SIZE;
        properties.max_subgroup_size = SUBGROUP_SIZE;
        properties.max_compute_workgroup_subgroups = WORKGROUP_MAX / SUBGROUP_SIZE;
        properties.required_subgroup_size_stages = vk::ShaderStageFlags::COMPUTE;
        properties.max_buffer_size = bytes_max(device);
        properties.max_inline_uniform_total_size = INLINE_BLOCKS_MAX * INLINE_BYTES_MAX;
        inline_blocks!(properties);
        texel_buffers!(properties);
    });
    app.extend::<vk::PhysicalDeviceInlineUniformBlockProperties<'_>>(chain, |properties| {
        inline_blocks!(properties);
    });
    app.extend::<vk::PhysicalDeviceTexelBufferAlignmentProperties<'_>>(chain, |properties| {
        texel_buffers!(properties);
    });
    // Of integer dot products none is faster than the multiplications and additions that it is made of: all that it says of acceleration is no.
    nothing_of! { app, chain:
        PhysicalDeviceShaderIntegerDotProductProperties
        PhysicalDeviceMultiviewProperties PhysicalDevicePointClippingProperties PhysicalDeviceProtectedMemoryProperties
        PhysicalDeviceDepthStencilResolveProperties PhysicalDeviceSamplerFilterMinmaxProperties
    }
}

fn extend_identity(app: App<'_>, device: &PhysicalDevice, chain: *mut c_void) {
    app.extend::<vk::PhysicalDeviceVulkan11Properties<'_>>(chain, |properties| {
        properties.device_uuid = device_uuid(device);
        properties.driver_uuid = DRIVER_UUID;
        properties.device_luid = luid(device);
        properties.device_node_mask = 1;
        properties.device_luid_valid = vk::TRUE;
        properties.subgroup_size = SUBGROUP_SIZE;
        properties.subgroup_supported_stages = vk::ShaderStageFlags::COMPUTE;
        properties.subgroup_supported_operations = subgroup_operations();
        properties.max_per_set_descriptors = DESCRIPTORS_OF_SET;
        properties.max_memory_allocation_size = bytes_max(device);
    });
    app.extend::<vk::PhysicalDeviceIDProperties<'_>>(chain, |properties| {
        properties.device_uuid = device_uuid(device);
        properties.driver_uuid = DRIVER_UUID;
        properties.device_luid = luid(device);
        properties.device_node_mask = 1;
        properties.device_luid_valid = vk::TRUE;
    });
    app.extend::<vk::PhysicalDeviceDriverProperties<'_>>(chain, |properties| {
        write_name(&mut properties.driver_name, DRIVER_NAME);
        write_name(&mut properties.driver_info, DRIVER_INFO);
    });
    app.extend::<vk::PhysicalDeviceVulkan12Properties<'_>>(chain, |properties| {
        write_name(&mut properties.driver_name, DRIVER_NAME);
        write_name(&mut properties.driver_info, DRIVER_INFO);
        properties.max_timeline_semaphore_value_difference = u64::MAX - 1;
        update_after_bind!(properties);
        float_controls!(properties);
    });
}

fn extend_shaders(app: App<'_>, chain: *mut c_void) {
    app.extend::<vk::PhysicalDeviceFloatControlsProperties<'_>>(chain, |properties| {
        float_controls!(properties);
    });
    app.extend::<vk::PhysicalDeviceSubgroupProperties<'_>>(chain, |properties| {
        properties.subgroup_size = SUBGROUP_SIZE;
        properties.supported_stages = vk::ShaderStageFlags::COMPUTE;
        properties.supported_operations = subgroup_operations();
    });
    app.extend::<vk::PhysicalDeviceSubgroupSizeControlProperties<'_>>(chain, |properties| {
        properties.min_subgroup_size = SUBGROUP_SIZE;
        properties.max_subgroup_size = SUBGROUP_SIZE;
        properties.max_compute_workgroup_subgroups = WORKGROUP_MAX / SUBGROUP_SIZE;
        properties.required_subgroup_size_stages = vk::ShaderStageFlags::COMPUTE;
    });
}
