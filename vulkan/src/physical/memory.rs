//! Memory types and heaps, from the segments of the adapter.

use ash::vk;
use campanile_umd::{Adapter, MemoryGroup, Placement};

use super::PhysicalDevice;
use crate::failure::{Answer, result};

const VRAM: u32 = 0;
const SYSTEM: u32 = 1;

/// A memory type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryKind {
    /// The memory in which its allocations lie.
    pub(crate) placement: Placement,
    pub(crate) flags: vk::MemoryPropertyFlags,
    heap: u32,
    /// Bytes of the heap, beyond which no allocation can be.
    pub(crate) limit: u64,
}

/// The memory types; one with fewer properties stands before those that have them all and more. [Vulkan: VkPhysicalDeviceMemoryProperties]
pub(super) fn kinds(adapter: &Adapter, heaps: &[vk::MemoryHeap; 2]) -> Vec<MemoryKind> {
    type Flags = vk::MemoryPropertyFlags;
    let shared = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    // Where DMA does not snoop, what the processor caches takes a flush.
    let cached = Flags::HOST_VISIBLE | Flags::HOST_CACHED;
    let cached = if adapter.is_coherent() { cached | Flags::HOST_COHERENT } else { cached };
    let [vram, system] = heaps.map(|heap| heap.size);
    vec![
        MemoryKind { placement: Placement::Vram, flags: Flags::DEVICE_LOCAL, heap: VRAM, limit: vram },
        MemoryKind { placement: Placement::SystemUncached, flags: shared, heap: SYSTEM, limit: system },
        MemoryKind { placement: Placement::VramVisible, flags: Flags::DEVICE_LOCAL | shared, heap: VRAM, limit: vram },
        MemoryKind { placement: Placement::System, flags: cached, heap: SYSTEM, limit: system },
    ]
}

/// The heaps: VRAM, and what the operating system lets a process have of system memory.
pub(super) fn heaps(adapter: &Adapter) -> [vk::MemoryHeap; 2] {
    let system = adapter.video_memory(MemoryGroup::System).map_or(1 << 28, |memory| memory.budget);
    [
        vk::MemoryHeap { size: adapter.vram(), flags: vk::MemoryHeapFlags::DEVICE_LOCAL },
        vk::MemoryHeap { size: system, flags: vk::MemoryHeapFlags::empty() },
    ]
}

impl PhysicalDevice {
    /// Memory types and heaps, as vkGetPhysicalDeviceMemoryProperties reports them.
    pub(crate) fn memory_properties(&self) -> vk::PhysicalDeviceMemoryProperties {
        let mut properties = vk::PhysicalDeviceMemoryProperties {
            memory_type_count: self.kinds().len() as u32,
            memory_heap_count: self.heaps().len() as u32,
            ..Default::default()
        };
        for (to, kind) in properties.memory_types.iter_mut().zip(self.kinds()) {
            *to = vk::MemoryType { property_flags: kind.flags, heap_index: kind.heap };
        }
        for (to, heap) in properties.memory_heaps.iter_mut().zip(self.heaps()) {
            *to = *heap;
        }
        properties
    }

    /// Budgets and usages of the heaps for this process.
    pub(crate) fn budgets(&self) -> Answer<[(u64, u64); 2]> {
        let group = |group| {
            let memory = self.adapter().video_memory(group).map_err(result)?;
            Ok((memory.budget, memory.usage))
        };
        Ok([group(MemoryGroup::Vram)?, group(MemoryGroup::System)?])
    }
}
