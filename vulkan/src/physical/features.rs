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
        .shader_uniform_buffer_array_dynamic_indexing(true)
        .shader_storage_buffer_array_dynamic_indexing(true)
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

/// Sets the named fields to true in each structure of a chain that has them.
macro_rules! set {
    ($app:expr, $chain:expr; $($structure:ident { $($field:ident),* $(,)? })*) => { $(
        $app.extend::<vk::$structure<'_>>($chain, |features| { $( features.$field = vk::TRUE; )* });
    )* };
}

/// Fills the structures of features that a chain has.
pub(crate) fn extend(app: App<'_>, chain: *mut c_void) {
    set! { app, chain;
        PhysicalDeviceVulkan11Features {
            storage_buffer16_bit_access, uniform_and_storage_buffer16_bit_access, storage_push_constant16,
        }
        PhysicalDeviceVulkan12Features {
            storage_buffer8_bit_access, uniform_and_storage_buffer8_bit_access, storage_push_constant8,
            shader_buffer_int64_atomics, shader_shared_int64_atomics, shader_float16, shader_int8,
            shader_uniform_buffer_array_non_uniform_indexing, shader_storage_buffer_array_non_uniform_indexing,
            descriptor_binding_partially_bound, runtime_descriptor_array, scalar_block_layout,
            uniform_buffer_standard_layout, shader_subgroup_extended_types, host_query_reset, timeline_semaphore,
            buffer_device_address, vulkan_memory_model, vulkan_memory_model_device_scope,
            subgroup_broadcast_dynamic_id,
        }
        PhysicalDeviceVulkan13Features {
            pipeline_creation_cache_control, private_data, subgroup_size_control, compute_full_subgroups,
            synchronization2, maintenance4,
        }
        PhysicalDevice16BitStorageFeatures {
            storage_buffer16_bit_access, uniform_and_storage_buffer16_bit_access, storage_push_constant16,
        }
        PhysicalDevice8BitStorageFeatures {
            storage_buffer8_bit_access, uniform_and_storage_buffer8_bit_access, storage_push_constant8,
        }
        PhysicalDeviceShaderAtomicInt64Features { shader_buffer_int64_atomics, shader_shared_int64_atomics }
        PhysicalDeviceShaderFloat16Int8Features { shader_float16, shader_int8 }
        PhysicalDeviceDescriptorIndexingFeatures {
            shader_uniform_buffer_array_non_uniform_indexing, shader_storage_buffer_array_non_uniform_indexing,
            descriptor_binding_partially_bound, runtime_descriptor_array,
        }
        PhysicalDeviceScalarBlockLayoutFeatures { scalar_block_layout }
        PhysicalDeviceUniformBufferStandardLayoutFeatures { uniform_buffer_standard_layout }
        PhysicalDeviceShaderSubgroupExtendedTypesFeatures { shader_subgroup_extended_types }
        PhysicalDeviceHostQueryResetFeatures { host_query_reset }
        PhysicalDeviceTimelineSemaphoreFeatures { timeline_semaphore }
        PhysicalDeviceBufferDeviceAddressFeatures { buffer_device_address }
        PhysicalDeviceVulkanMemoryModelFeatures { vulkan_memory_model, vulkan_memory_model_device_scope }
        PhysicalDevicePipelineCreationCacheControlFeatures { pipeline_creation_cache_control }
        PhysicalDevicePrivateDataFeatures { private_data }
        PhysicalDeviceSubgroupSizeControlFeatures { subgroup_size_control, compute_full_subgroups }
        PhysicalDeviceSynchronization2Features { synchronization2 }
        PhysicalDeviceMaintenance4Features { maintenance4 }
    }
}
