//! The physical device: an adapter, and what it has.

mod commands;
mod external;
mod features;
mod images;
mod limits;
mod memory;
mod properties;

pub(crate) use commands::is_command_of;
pub(crate) use external::{external_fence, external_memory, external_semaphore};
pub(crate) use features::{extend as extend_features, features, has_all, has_features};
pub(crate) use images::{format_properties, format_properties2, image_format_properties};
pub(crate) use limits::{
    ALIGNMENT, DESCRIPTORS_OF_SET, INLINE_BLOCKS_MAX, INLINE_BYTES_MAX, PUSH_CONSTANTS_MAX, SETS_MAX, TEXELS_MAX,
};
pub(crate) use memory::MemoryKind;
pub(crate) use properties::{CACHE_UUID, extend as extend_properties, properties, write_name};

use core::ffi::c_void;

use ash::vk;
use campanile_umd::{Adapter, Node};

use crate::app::App;
use crate::handle::Dispatched;

/// The version of Vulkan whose commands there are.
pub(crate) const API_VERSION: u32 = vk::make_api_version(0, 1, 3, 281);

/// Device extensions. Those that are part of Vulkan 1.3 are named, too, for programs that ask for less.
pub(crate) const EXTENSIONS: &[(&str, u32)] = &[
    ("VK_KHR_16bit_storage", 1),
    ("VK_KHR_8bit_storage", 1),
    ("VK_KHR_bind_memory2", 1),
    ("VK_KHR_buffer_device_address", 1),
    ("VK_KHR_calibrated_timestamps", 1),
    ("VK_KHR_copy_commands2", 1),
    ("VK_KHR_dedicated_allocation", 3),
    ("VK_KHR_descriptor_update_template", 1),
    ("VK_KHR_device_group", 4),
    ("VK_KHR_driver_properties", 1),
    ("VK_KHR_external_fence", 1),
    #[cfg(not(windows))]
    ("VK_KHR_external_fence_fd", 1),
    ("VK_KHR_external_memory", 1),
    #[cfg(not(windows))]
    ("VK_KHR_external_memory_fd", 1),
    ("VK_KHR_external_semaphore", 1),
    #[cfg(not(windows))]
    ("VK_KHR_external_semaphore_fd", 1),
    ("VK_KHR_format_feature_flags2", 2),
    ("VK_KHR_get_memory_requirements2", 1),
    ("VK_KHR_global_priority", 1),
    ("VK_KHR_image_format_list", 1),
    ("VK_KHR_maintenance1", 2),
    ("VK_KHR_maintenance3", 1),
    ("VK_KHR_maintenance4", 2),
    ("VK_KHR_push_descriptor", 2),
    ("VK_KHR_relaxed_block_layout", 1),
    ("VK_KHR_sampler_mirror_clamp_to_edge", 3),
    ("VK_KHR_shader_atomic_int64", 1),
    ("VK_KHR_shader_float16_int8", 1),
    ("VK_KHR_shader_float_controls", 4),
    ("VK_KHR_shader_integer_dot_product", 1),
    ("VK_KHR_shader_non_semantic_info", 1),
    ("VK_KHR_shader_subgroup_extended_types", 1),
    ("VK_KHR_spirv_1_4", 1),
    ("VK_KHR_storage_buffer_storage_class", 1),
    ("VK_KHR_synchronization2", 1),
    ("VK_KHR_timeline_semaphore", 2),
    ("VK_KHR_uniform_buffer_standard_layout", 1),
    ("VK_KHR_vulkan_memory_model", 3),
    ("VK_KHR_zero_initialize_workgroup_memory", 1),
    ("VK_EXT_calibrated_timestamps", 2),
    ("VK_EXT_device_fault", 2),
    ("VK_EXT_global_priority", 2),
    ("VK_EXT_global_priority_query", 1),
    ("VK_EXT_host_query_reset", 1),
    ("VK_EXT_image_robustness", 1),
    ("VK_EXT_inline_uniform_block", 1),
    ("VK_EXT_memory_budget", 1),
    ("VK_EXT_pipeline_creation_cache_control", 3),
    ("VK_EXT_private_data", 1),
    ("VK_EXT_scalar_block_layout", 1),
    ("VK_EXT_subgroup_size_control", 2),
];

/// A queue family: an engine of the GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    /// The node of its queues.
    pub(crate) node: Node,
    flags: vk::QueueFlags,
}

/// Most queues that a device has of a family. Each is a hardware queue of its own.
const QUEUES: u32 = 8;

/// Global priorities of queues, in ascending order, with the priority of a context that each is. [Vulkan: VkQueueGlobalPriorityKHR; d3dkmddi:
/// DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
pub(crate) const GLOBAL_PRIORITIES: [(vk::QueueGlobalPriorityKHR, i32); 4] = [
    (vk::QueueGlobalPriorityKHR::LOW, -7),
    (vk::QueueGlobalPriorityKHR::MEDIUM, 0),
    (vk::QueueGlobalPriorityKHR::HIGH, 7),
    (vk::QueueGlobalPriorityKHR::REALTIME, 8),
];

/// The families, by their indices.
pub(crate) const FAMILIES: [Family; 2] = [
    Family {
        node: Node::Compute,
        flags: vk::QueueFlags::from_raw(vk::QueueFlags::COMPUTE.as_raw() | vk::QueueFlags::TRANSFER.as_raw()),
    },
    Family { node: Node::Copy, flags: vk::QueueFlags::TRANSFER },
];

/// Environment variable by which the first family says VK_QUEUE_GRAPHICS_BIT, for programs that take no device without it although they draw nothing. Commands
/// that draw are refused all the same.
const GRAPHICS_VARIABLE: &str = "CAMPANILE_VULKAN_GRAPHICS_BIT";

impl Family {
    /// Flags, number of queues and width of timestamps, as Vulkan reports them.
    pub(crate) fn properties(&self) -> vk::QueueFamilyProperties {
        let says_graphics =
            self.node == Node::Compute && std::env::var_os(GRAPHICS_VARIABLE).is_some_and(|value| value == "1");
        vk::QueueFamilyProperties {
            queue_flags: if says_graphics { self.flags | vk::QueueFlags::GRAPHICS } else { self.flags },
            queue_count: QUEUES,
            timestamp_valid_bits: 64,
            min_image_transfer_granularity: vk::Extent3D { width: 1, height: 1, depth: 1 },
        }
    }

    /// As [`Family::properties`], with what a chain asks for besides.
    pub(crate) fn properties2(&self, app: App<'_>, chain: *mut c_void) -> vk::QueueFamilyProperties {
        app.extend::<vk::QueueFamilyGlobalPriorityPropertiesKHR<'_>>(chain, |properties| {
            properties.priority_count = GLOBAL_PRIORITIES.len() as u32;
            for (to, (priority, _)) in properties.priorities.iter_mut().zip(GLOBAL_PRIORITIES) {
                *to = priority;
            }
        });
        self.properties()
    }
}

/// The physical device.
pub(crate) struct PhysicalDevice {
    has_debug_utils: bool,
    adapter: Adapter,
    kinds: Vec<MemoryKind>,
    heaps: [vk::MemoryHeap; 2],
}

impl Dispatched for PhysicalDevice {
    type Handle = vk::PhysicalDevice;
}

impl PhysicalDevice {
    pub(crate) fn new(adapter: Adapter) -> Self {
        let heaps = memory::heaps(&adapter);
        let kinds = memory::kinds(&adapter, &heaps);
        Self { adapter, kinds, heaps, has_debug_utils: false }
    }

    /// The physical device of an instance with VK_EXT_debug_utils, or without.
    pub(crate) fn with_debug_utils(self, has_debug_utils: bool) -> Self {
        Self { has_debug_utils, ..self }
    }

    /// True if devices have the commands of VK_EXT_debug_utils.
    pub(crate) fn has_debug_utils(&self) -> bool {
        self.has_debug_utils
    }

    pub(crate) fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Kinds of memory, by their indices.
    pub(crate) fn kinds(&self) -> &[MemoryKind] {
        &self.kinds
    }

    pub(crate) fn heaps(&self) -> &[vk::MemoryHeap; 2] {
        &self.heaps
    }
}
