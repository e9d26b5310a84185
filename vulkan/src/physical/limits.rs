//! Limits: those of the GPU and of this driver. Of what there is not, such as rasterisation, they are zero, but for those that programs compute with before they know whether a queue
//! draws: these are the least that Vulkan demands of every device.

use ash::vk;
use campanile_hw::isa::{GRID_MAX, SHARED_MAX, WORKGROUP_MAX};
use campanile_umd::Adapter;

/// Alignment of buffers in memory, and of offsets in buffers.
pub(crate) const ALIGNMENT: u64 = 16;
/// Bytes of push constants.
pub(crate) const PUSH_CONSTANTS_MAX: u32 = 256;
/// Descriptor sets that can be bound at a time.
pub(crate) const SETS_MAX: u32 = 32;
/// Lanes of a subgroup.
pub(crate) const SUBGROUP_SIZE: u32 = 32;
/// Descriptors of a kind that a set, a stage or a pipeline layout has at most: 64 KiB of an argument block.
const DESCRIPTORS: u32 = 4096;
/// Bytes that a uniform buffer shows. Uniform buffers are storage buffers that nobody writes.
const RANGE: u32 = u32::MAX;
/// Bytes of an inline uniform block.
pub(crate) const INLINE_BYTES_MAX: u32 = 4096;
/// Inline uniform blocks that a set, a stage or a pipeline layout has at most.
pub(crate) const INLINE_BLOCKS_MAX: u32 = 16;
/// Allocations at a time, and samplers. So many of a page each fit into the smaller heap of the default variant of the GPU.
const ALLOCATIONS: u32 = 1 << 15;

/// Components that stages of a graphics pipeline exchange, and colour attachments: what Vulkan demands of a device that draws. [Vulkan: Required Limits]
const COMPONENTS: u32 = 64;
const ATTACHMENTS: u32 = 4;

/// Texels of an image of one or two dimensions in each.
pub(crate) const EXTENT_MAX: u32 = 8192;
/// Texels of an image of three dimensions in each, and layers of others.
pub(crate) const DEPTH_MAX: u32 = 2048;
/// Texels of a view of a texel buffer.
pub(crate) const TEXELS_MAX: u32 = 1 << 27;

/// The limits of an adapter.
pub(super) fn limits(adapter: &Adapter) -> vk::PhysicalDeviceLimits {
    let compute = vk::PhysicalDeviceLimits {
        max_compute_shared_memory_size: SHARED_MAX,
        max_compute_work_group_count: [GRID_MAX; 3],
        max_compute_work_group_invocations: WORKGROUP_MAX,
        max_compute_work_group_size: [WORKGROUP_MAX; 3],
        timestamp_compute_and_graphics: vk::TRUE,
        timestamp_period: (1e9 / adapter.clock_hz() as f64) as f32,
        ..images()
    };
    vk::PhysicalDeviceLimits {
        max_uniform_buffer_range: RANGE,
        max_storage_buffer_range: RANGE,
        max_push_constants_size: PUSH_CONSTANTS_MAX,
        max_memory_allocation_count: ALLOCATIONS,
        max_bound_descriptor_sets: SETS_MAX,
        max_per_stage_descriptor_uniform_buffers: DESCRIPTORS,
        max_per_stage_descriptor_storage_buffers: DESCRIPTORS,
        max_per_stage_resources: DESCRIPTORS,
        max_descriptor_set_uniform_buffers: DESCRIPTORS,
        max_descriptor_set_uniform_buffers_dynamic: DESCRIPTORS,
        max_descriptor_set_storage_buffers: DESCRIPTORS,
        max_descriptor_set_storage_buffers_dynamic: DESCRIPTORS,
        // There are no fragment shaders, but wgpu lets no shader have more storage buffers than one of them might.
        max_fragment_combined_output_resources: DESCRIPTORS,
        max_vertex_output_components: COMPONENTS,
        max_fragment_input_components: COMPONENTS,
        max_fragment_output_attachments: ATTACHMENTS,
        max_color_attachments: ATTACHMENTS,
        buffer_image_granularity: 1,
        discrete_queue_priorities: 2,
        min_memory_map_alignment: 4096,
        min_uniform_buffer_offset_alignment: ALIGNMENT,
        min_storage_buffer_offset_alignment: ALIGNMENT,
        optimal_buffer_copy_offset_alignment: ALIGNMENT,
        optimal_buffer_copy_row_pitch_alignment: ALIGNMENT,
        non_coherent_atom_size: 64,
        ..compute
    }
}

/// The limits of images and samplers.
fn images() -> vk::PhysicalDeviceLimits {
    vk::PhysicalDeviceLimits {
        max_image_dimension1_d: EXTENT_MAX,
        max_image_dimension2_d: EXTENT_MAX,
        max_image_dimension3_d: DEPTH_MAX,
        max_image_dimension_cube: EXTENT_MAX,
        max_image_array_layers: DEPTH_MAX,
        max_texel_buffer_elements: TEXELS_MAX,
        max_sampler_allocation_count: ALLOCATIONS,
        max_per_stage_descriptor_samplers: DESCRIPTORS,
        max_per_stage_descriptor_sampled_images: DESCRIPTORS,
        max_per_stage_descriptor_storage_images: DESCRIPTORS,
        max_descriptor_set_samplers: DESCRIPTORS,
        max_descriptor_set_sampled_images: DESCRIPTORS,
        max_descriptor_set_storage_images: DESCRIPTORS,
        sub_texel_precision_bits: 8,
        mipmap_precision_bits: 8,
        max_sampler_lod_bias: 16.0,
        max_sampler_anisotropy: 1.0,
        min_texel_buffer_offset_alignment: ALIGNMENT,
        min_texel_offset: -8,
        max_texel_offset: 7,
        min_texel_gather_offset: -8,
        max_texel_gather_offset: 7,
        sampled_image_color_sample_counts: vk::SampleCountFlags::TYPE_1,
        sampled_image_integer_sample_counts: vk::SampleCountFlags::TYPE_1,
        sampled_image_depth_sample_counts: vk::SampleCountFlags::TYPE_1,
        storage_image_sample_counts: vk::SampleCountFlags::TYPE_1,
        ..vk::PhysicalDeviceLimits::default()
    }
}

/// Most descriptors of a set.
pub(crate) const DESCRIPTORS_OF_SET: u32 = DESCRIPTORS;
