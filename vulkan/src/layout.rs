//! Layouts of descriptor sets and pipelines, and the argument block that follows from them.
//!
//! A program finds push constants and descriptors in its argument block. The layout of a pipeline settles it: the push constants first, then the descriptors of
//! each set by binding and element, 16 bytes each, so that the descriptors of a set are copied to the block as they are. An inline uniform block is one descriptor
//! with its bytes behind it, in as many further places as they take; its address is the only thing that differs from block to block.

use std::collections::BTreeMap;
use std::sync::Arc;

use ash::vk;
use campanile_compiler::Binding;

use crate::handle::objects;

objects! {
    SetLayout => vk::DescriptorSetLayout,
    PipelineLayout => vk::PipelineLayout,
}

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: u32 = 16;

/// A binding of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) kind: vk::DescriptorType,
    /// Place of its first descriptor in the set.
    pub(crate) first: u32,
    /// Places that it takes.
    pub(crate) count: u32,
    /// Bytes of an inline uniform block; 0 for any other.
    pub(crate) bytes: u32,
}

impl Slot {
    /// The binding with this number of descriptors, or of bytes if it is an inline uniform block.
    fn new(kind: vk::DescriptorType, count: u32) -> Self {
        match kind {
            // One without bytes has no descriptor either.
            vk::DescriptorType::INLINE_UNIFORM_BLOCK => {
                let places = if count == 0 { 0 } else { count.div_ceil(DESCRIPTOR).saturating_add(1) };
                Self { kind, first: 0, count: places, bytes: count }
            }
            _ => Self { kind, first: 0, count, bytes: 0 },
        }
    }

    /// True if its descriptors take an offset when they are bound.
    fn is_dynamic(&self) -> bool {
        matches!(self.kind, vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC | vk::DescriptorType::STORAGE_BUFFER_DYNAMIC)
    }
}

/// The layout of a descriptor set.
pub(crate) struct SetLayout {
    slots: BTreeMap<u32, Slot>,
    /// Places of a set.
    pub(crate) count: u32,
    /// Places of the descriptors that take an offset when they are bound, in the order of the offsets.
    pub(crate) dynamic: Vec<u32>,
    /// Places of the descriptors of inline uniform blocks, with their bytes.
    pub(crate) inline: Vec<(u32, u32)>,
    /// Records of the samplers that the layout itself names, by the places of their descriptors.
    pub(crate) immutable: BTreeMap<u32, u64>,
    /// True if sets may be updated after they were bound, until they are submitted.
    pub(crate) is_updated_after_bind: bool,
}

impl SetLayout {
    /// The layout with these bindings: number, type, descriptors, and the addresses of the records of samplers that it names.
    pub(crate) fn new(bindings: impl IntoIterator<Item = (u32, vk::DescriptorType, u32, Vec<u64>)>) -> Self {
        let (mut slots, mut samplers) = (BTreeMap::new(), BTreeMap::new());
        for (binding, kind, count, named) in bindings {
            slots.insert(binding, Slot::new(kind, count));
            samplers.insert(binding, named);
        }
        let (mut count, mut dynamic, mut inline, mut immutable) = (0u32, Vec::new(), Vec::new(), BTreeMap::new());
        for (binding, slot) in &mut slots {
            slot.first = count;
            immutable.extend((count..).zip(samplers.remove(binding).into_iter().flatten()));
            count = count.saturating_add(slot.count);
            if slot.is_dynamic() {
                dynamic.extend(slot.first..count);
            }
            if slot.bytes != 0 {
                inline.push((slot.first, slot.bytes));
            }
        }
        Self { slots, count, dynamic, inline, immutable, is_updated_after_bind: false }
    }

    /// True for a binding of samplers that the layout names, so that writes of it have nothing to say. [Vulkan: vkCmdPushDescriptorSetKHR]
    pub(crate) fn names_all_of(&self, binding: u32) -> bool {
        self.slot(binding)
            .is_some_and(|slot| slot.kind == vk::DescriptorType::SAMPLER && self.immutable.contains_key(&slot.first))
    }

    /// A binding.
    pub(crate) fn slot(&self, binding: u32) -> Option<&Slot> {
        self.slots.get(&binding)
    }
}

/// The layout of a pipeline.
pub(crate) struct PipelineLayout {
    /// Bytes of push constants.
    pub(crate) push: u32,
    sets: Vec<SetPlace>,
    /// Bytes of the argument block.
    pub(crate) size: u32,
}

/// A set in the argument block.
pub(crate) struct SetPlace {
    layout: Option<Arc<SetLayout>>,
    /// Offset of its first descriptor.
    pub(crate) offset: u32,
}

impl SetPlace {
    /// Bytes of its descriptors.
    pub(crate) fn bytes(&self) -> u32 {
        self.layout.as_ref().map_or(0, |layout| layout.count.saturating_mul(DESCRIPTOR))
    }
}

impl PipelineLayout {
    pub(crate) fn new(push: u32, sets: Vec<Option<Arc<SetLayout>>>) -> Self {
        let push = push.next_multiple_of(DESCRIPTOR);
        let mut size = push;
        let mut places = Vec::with_capacity(sets.len());
        for layout in sets {
            let place = SetPlace { layout, offset: size };
            size = size.saturating_add(place.bytes());
            places.push(place);
        }
        Self { push, sets: places, size }
    }

    /// Offsets in the argument block at which the compiler is to expect descriptors.
    pub(crate) fn bindings(&self) -> Vec<Binding> {
        let mut all = Vec::new();
        for (set, place) in (0..).zip(&self.sets) {
            let slots = place.layout.iter().flat_map(|layout| layout.slots.iter()).filter(|(_, slot)| slot.count != 0);
            all.extend(slots.map(|(binding, slot)| Binding {
                set,
                binding: *binding,
                offset: place.offset + slot.first * DESCRIPTOR,
                count: if slot.bytes == 0 { slot.count } else { 1 },
            }));
        }
        all
    }

    /// The sets in the argument block.
    pub(crate) fn places(&self) -> &[SetPlace] {
        &self.sets
    }

    /// The layout of a set.
    pub(crate) fn set(&self, index: u32) -> Option<&Arc<SetLayout>> {
        self.sets.get(index as usize)?.layout.as_ref()
    }
}
