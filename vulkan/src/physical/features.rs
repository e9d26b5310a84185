// UNSAFETY: a structure of Booleans is read as an array.
//! Features: on where they work.

use core::ffi::c_void;

use ash::vk;

use crate::app::App;

/// The features of Vulkan 1.0.
pub(crate) fn features() -> vk::PhysicalDeviceFeatures {
    vk::PhysicalDeviceFeatures::default()
        .robust_buffer_access(true)
        .shader_float64(true)
        .shader_int64(true)
        .shader_int16(true)
        .shader_image_gather_extended(true)
        .shader_uniform_buffer_array_dynamic_indexing(true)
        .shader_storage_buffer_array_dynamic_indexing(true)
        .shader_sampled_image_array_dynamic_indexing(true)
        .shader_storage_image_array_dynamic_indexing(true)
        .shader_storage_image_extended_formats(true)
        .shader_storage_image_read_without_format(true)
        .shader_storage_image_write_without_format(true)
}

/// True if all of the features are on that an application asks for.
pub(crate) fn has_features(wanted: &vk::PhysicalDeviceFeatures) -> bool {
    flags(wanted).iter().zip(flags(&features())).all(|(wanted, there)| *wanted == vk::FALSE || there == vk::TRUE)
}

/// The features, in the order in which Vulkan has them.
fn flags(features: &vk::PhysicalDeviceFeatures) -> [vk::Bool32; FEATURES] {
    // SAFETY: the structure is nothing but that many Booleans, each of which is a u32.
    unsafe { core::mem::transmute::<vk::PhysicalDeviceFeatures, [vk::Bool32; FEATURES]>(*features) }
}

/// Features of Vulkan 1.0.
const FEATURES: usize = size_of::<vk::PhysicalDeviceFeatures>() / size_of::<vk::Bool32>();

/// Bytes of type and chain at the start of a structure.
const HEADER: usize = size_of::<vk::BaseInStructure<'_>>();

/// Structures of features, each with its number of fields and those that are on: a function that fills those of a chain, and one that looks whether a
/// chain asks for more.
macro_rules! structures {
    ($($structure:ident: $count:literal { $($field:ident),* $(,)? })*) => {
        $( const _: () = assert!((size_of::<vk::$structure<'_>>() - HEADER).div_ceil(4).abs_diff($count) < 2); )*

        /// Fills the structures of features that a chain has.
        pub(crate) fn extend(app: App<'_>, chain: *mut c_void) {
            $( app.extend::<vk::$structure<'_>>(chain, |_features| { $( _features.$field = vk::TRUE; )* }); )*
        }

        /// True if all of the features in a chain are on that an application asks for.
        pub(crate) fn has_all(app: App<'_>, chain: *const c_void) -> bool {
            $(
                if let Some(wanted) = app.find::<vk::$structure<'_>>(chain) {
                    let there: [vk::Bool32; _] = [$( wanted.$field ),*];
                    let there = there.into_iter().filter(|wanted| *wanted != vk::FALSE).count();
                    let fields = app.fields::<vk::$structure<'_>>(wanted, HEADER, $count);
                    if fields.iter().filter(|wanted| **wanted != vk::FALSE).count() != there {
                        return false;
                    }
                }
            )*
            true
        }
    };
}

structures! {
        PhysicalDeviceVulkan11Features: 12 {
        storage_buffer16_bit_access, uniform_and_storage_buffer16_bit_access, storage_push_constant16,
    }
    PhysicalDeviceVulkan12Features: 47 {
        storage_buffer8_bit_access, uniform_and_storage_buffer8_bit_access, storage_push_constant8,
        shader_buffer_int64_atomics, shader_shared_int64_atomics, shader_float16, shader_int8,
        sampler_mirror_clamp_to_edge, shader_uniform_texel_buffer_array_dynamic_indexing,
        shader_storage_texel_buffer_array_dynamic_indexing,
        shader_uniform_buffer_array_non_uniform_indexing, shader_storage_buffer_array_non_uniform_indexing,
        shader_sampled_image_array_non_uniform_indexing, shader_storage_image_array_non_uniform_indexing,
        shader_uniform_texel_buffer_array_non_uniform_indexing, shader_storage_texel_buffer_array_non_uniform_indexing,
        descriptor_binding_uniform_buffer_update_after_bind, descriptor_binding_sampled_image_update_after_bind,
        descriptor_binding_storage_image_update_after_bind, descriptor_binding_storage_buffer_update_after_bind,
        descriptor_binding_uniform_texel_buffer_update_after_bind, descriptor_binding_storage_texel_buffer_update_after_bind,
        descriptor_binding_update_unused_while_pending,
        descriptor_binding_partially_bound, runtime_descriptor_array, scalar_block_layout,
        uniform_buffer_standard_layout, shader_subgroup_extended_types, host_query_reset, timeline_semaphore,
        buffer_device_address, vulkan_memory_model, vulkan_memory_model_device_scope,
        subgroup_broadcast_dynamic_id,
    }
    PhysicalDeviceVulkan13Features: 15 {
        robust_image_access, inline_uniform_block,
        pipeline_creation_cache_control, private_data, subgroup_size_control, compute_full_subgroups,
        synchronization2, maintenance4, shader_zero_initialize_workgroup_memory, shader_integer_dot_product,
    }
    PhysicalDevice16BitStorageFeatures: 4 {
        storage_buffer16_bit_access, uniform_and_storage_buffer16_bit_access, storage_push_constant16,
    }
    PhysicalDevice8BitStorageFeatures: 3 {
        storage_buffer8_bit_access, uniform_and_storage_buffer8_bit_access, storage_push_constant8,
    }
    PhysicalDeviceShaderAtomicInt64Features: 2 { shader_buffer_int64_atomics, shader_shared_int64_atomics }
    PhysicalDeviceShaderFloat16Int8Features: 2 { shader_float16, shader_int8 }
    PhysicalDeviceDescriptorIndexingFeatures: 20 {
        shader_uniform_texel_buffer_array_dynamic_indexing, shader_storage_texel_buffer_array_dynamic_indexing,
        shader_uniform_buffer_array_non_uniform_indexing, shader_storage_buffer_array_non_uniform_indexing,
        shader_sampled_image_array_non_uniform_indexing, shader_storage_image_array_non_uniform_indexing,
        shader_uniform_texel_buffer_array_non_uniform_indexing, shader_storage_texel_buffer_array_non_uniform_indexing,
        descriptor_binding_uniform_buffer_update_after_bind, descriptor_binding_sampled_image_update_after_bind,
        descriptor_binding_storage_image_update_after_bind, descriptor_binding_storage_buffer_update_after_bind,
        descriptor_binding_uniform_texel_buffer_update_after_bind, descriptor_binding_storage_texel_buffer_update_after_bind,
        descriptor_binding_update_unused_while_pending,
        descriptor_binding_partially_bound, runtime_descriptor_array,
    }
    PhysicalDeviceFaultFeaturesEXT: 2 { device_fault }
    PhysicalDeviceGlobalPriorityQueryFeaturesKHR: 1 { global_priority_query }
    PhysicalDeviceImageRobustnessFeatures: 1 { robust_image_access }
    PhysicalDeviceInlineUniformBlockFeatures: 2 { inline_uniform_block }
    PhysicalDeviceScalarBlockLayoutFeatures: 1 { scalar_block_layout }
    PhysicalDeviceUniformBufferStandardLayoutFeatures: 1 { uniform_buffer_standard_layout }
    PhysicalDeviceShaderSubgroupExtendedTypesFeatures: 1 { shader_subgroup_extended_types }
    PhysicalDeviceHostQueryResetFeatures: 1 { host_query_reset }
    PhysicalDeviceTimelineSemaphoreFeatures: 1 { timeline_semaphore }
    PhysicalDeviceBufferDeviceAddressFeatures: 3 { buffer_device_address }
    PhysicalDeviceVulkanMemoryModelFeatures: 3 { vulkan_memory_model, vulkan_memory_model_device_scope }
    PhysicalDevicePipelineCreationCacheControlFeatures: 1 { pipeline_creation_cache_control }
    PhysicalDevicePrivateDataFeatures: 1 { private_data }
    PhysicalDeviceSubgroupSizeControlFeatures: 2 { subgroup_size_control, compute_full_subgroups }
    PhysicalDeviceSynchronization2Features: 1 { synchronization2 }
    PhysicalDeviceMaintenance4Features: 1 { maintenance4 }
    PhysicalDeviceShaderIntegerDotProductFeatures: 1 { shader_integer_dot_product }
    PhysicalDeviceZeroInitializeWorkgroupMemoryFeatures: 1 { shader_zero_initialize_workgroup_memory }
    // Of Vulkan 1.1 to 1.3, and off.
    PhysicalDeviceMultiviewFeatures: 3 {}
    PhysicalDeviceVariablePointersFeatures: 2 {}
    PhysicalDeviceProtectedMemoryFeatures: 1 {}
    PhysicalDeviceSamplerYcbcrConversionFeatures: 1 {}
    PhysicalDeviceShaderDrawParametersFeatures: 1 {}
    PhysicalDeviceImagelessFramebufferFeatures: 1 {}
    PhysicalDeviceSeparateDepthStencilLayoutsFeatures: 1 {}
    PhysicalDeviceShaderDemoteToHelperInvocationFeatures: 1 {}
    PhysicalDeviceShaderTerminateInvocationFeatures: 1 {}
    PhysicalDeviceTextureCompressionASTCHDRFeatures: 1 {}
    PhysicalDeviceDynamicRenderingFeatures: 1 {}
}
