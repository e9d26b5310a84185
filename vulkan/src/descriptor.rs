//! Descriptor sets: for each descriptor the address and size of a buffer, or the addresses of the records of an image and a sampler, as programs read them.

use core::ffi::c_void;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use ash::vk::Handle;

use crate::app::App;
use crate::failure::Answer;
use crate::handle::{Object, objects};
use crate::image::{BufferView, ImageView, Sampler};
use crate::layout::SetLayout;
use crate::memory::{Buffer, Range};

objects! {
    DescriptorPool => vk::DescriptorPool,
    DescriptorSet => vk::DescriptorSet,
}

/// A descriptor set.
pub(crate) struct DescriptorSet {
    layout: Arc<SetLayout>,
    descriptors: Mutex<Vec<Range>>,
}

/// One write to descriptors of a set: those from `element` of `binding` on.
pub(crate) struct Write {
    pub(crate) binding: u32,
    pub(crate) element: u32,
    pub(crate) descriptors: Vec<Range>,
}

/// The descriptor of a type in the application's data, `offset` bytes from `start`; an empty one for a null handle.
pub(crate) fn read(app: App<'_>, kind: vk::DescriptorType, start: *const c_void, offset: usize) -> Range {
    type Kind = vk::DescriptorType;
    match kind {
        Kind::UNIFORM_BUFFER | Kind::STORAGE_BUFFER | Kind::UNIFORM_BUFFER_DYNAMIC | Kind::STORAGE_BUFFER_DYNAMIC => {
            let info = app.part::<vk::DescriptorBufferInfo>(start, offset);
            let buffer = info.and_then(|info| Some((Buffer::of(info.buffer)?, info)));
            buffer.map_or(Range::default(), |(buffer, info)| buffer.range(info.offset, info.range))
        }
        Kind::UNIFORM_TEXEL_BUFFER | Kind::STORAGE_TEXEL_BUFFER => {
            let view = app.part::<vk::BufferView>(start, offset).and_then(BufferView::of);
            Range { address: view.map_or(0, |view| view.address()), size: 0 }
        }
        Kind::SAMPLER | Kind::COMBINED_IMAGE_SAMPLER | Kind::SAMPLED_IMAGE | Kind::STORAGE_IMAGE => {
            let info = app.part::<vk::DescriptorImageInfo>(start, offset).unwrap_or_default();
            // Members that the type does not have may be anything.
            let view = if kind == Kind::SAMPLER { None } else { ImageView::of(info.image_view) };
            let has_sampler = kind == Kind::SAMPLER || kind == Kind::COMBINED_IMAGE_SAMPLER;
            let sampler = if has_sampler { Sampler::of(info.sampler) } else { None };
            Range {
                address: view.map_or(0, |view| view.address()),
                size: sampler.map_or(0, |sampler| sampler.address()),
            }
        }
        _ => Range::default(),
    }
}

/// Bytes of the application's data for a descriptor of a type, where one follows the other.
pub(crate) fn stride(kind: vk::DescriptorType) -> usize {
    match kind {
        vk::DescriptorType::UNIFORM_TEXEL_BUFFER | vk::DescriptorType::STORAGE_TEXEL_BUFFER => {
            size_of::<vk::BufferView>()
        }
        _ => size_of::<vk::DescriptorBufferInfo>(),
    }
}

// An array of descriptors has the same distances for both structures.
const _: () = assert!(size_of::<vk::DescriptorBufferInfo>() == size_of::<vk::DescriptorImageInfo>());

/// Writes descriptors of a set with this layout. What goes beyond a binding goes on in the next one; what there is no place for is left out.
pub(crate) fn write(layout: &SetLayout, descriptors: &mut [Range], write: &Write) {
    let Some(slot) = layout.slot(write.binding) else { return };
    let first = slot.first.saturating_add(write.element) as usize;
    // Bindings lie behind each other, so that the next one begins where this one ends.
    let places = descriptors.iter_mut().enumerate().skip(first);
    for ((place, to), from) in places.zip(&write.descriptors) {
        let size = layout.immutable.get(&(place as u32)).copied().unwrap_or(from.size);
        *to = Range { size, ..*from };
    }
}

impl DescriptorSet {
    fn new(layout: Arc<SetLayout>) -> Self {
        let sampler = |place| layout.immutable.get(&place).copied().unwrap_or(0);
        let descriptors = (0..layout.count).map(|place| Range { address: 0, size: sampler(place) }).collect();
        Self { layout, descriptors: Mutex::new(descriptors) }
    }

    /// Writes descriptors.
    pub(crate) fn write(&self, what: &Write) {
        let mut descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        write(&self.layout, &mut descriptors, what);
    }

    /// `count` descriptors from `element` of `binding` on.
    pub(crate) fn read(&self, binding: u32, element: u32, count: u32) -> Vec<Range> {
        let Some(slot) = self.layout.slot(binding) else { return Vec::new() };
        let descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        let first = slot.first.saturating_add(element) as usize;
        descriptors.iter().skip(first).take(count as usize).copied().collect()
    }

    /// True if it may be updated after it was bound.
    pub(crate) fn is_updated_after_bind(&self) -> bool {
        self.layout.is_updated_after_bind
    }

    /// The descriptors as they are now, with the offsets that are given when they are bound. Returns how many of those it took.
    pub(crate) fn bound(&self, offsets: &[u32], to: &mut Vec<Range>) -> usize {
        let descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        to.clear();
        to.extend_from_slice(&descriptors);
        for (place, offset) in self.layout.dynamic.iter().zip(offsets) {
            if let Some(range) = to.get_mut(*place as usize).filter(|range| range.address != 0) {
                range.address = range.address.saturating_add(u64::from(*offset));
            }
        }
        self.layout.dynamic.len()
    }
}

/// A descriptor pool. Sets are memory of the process, so that a pool bounds their number only.
pub(crate) struct DescriptorPool {
    sets_max: usize,
    sets: Mutex<HashSet<u64>>,
}

impl DescriptorPool {
    pub(crate) fn new(sets_max: u32) -> Self {
        Self { sets_max: sets_max as usize, sets: Mutex::new(HashSet::new()) }
    }

    /// Allocates a set for each layout, or none.
    ///
    /// # Errors
    /// VK_ERROR_OUT_OF_POOL_MEMORY for more sets than the pool was created for.
    pub(crate) fn allocate(&self, layouts: Vec<Arc<SetLayout>>) -> Answer<Vec<vk::DescriptorSet>> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if layouts.len() > self.sets_max - sets.len().min(self.sets_max) {
            return Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY);
        }
        let made: Vec<_> = layouts.into_iter().map(|layout| DescriptorSet::new(layout).register()).collect();
        sets.extend(made.iter().map(|set| set.as_raw()));
        Ok(made)
    }

    /// Frees sets of the pool.
    pub(crate) fn free(&self, which: &[vk::DescriptorSet]) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        for set in which.iter().filter(|set| sets.remove(&set.as_raw())) {
            drop(DescriptorSet::release(*set));
        }
    }

    /// Frees all sets of the pool.
    pub(crate) fn reset(&self) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        for set in sets.drain() {
            drop(DescriptorSet::release(vk::DescriptorSet::from_raw(set)));
        }
    }
}

impl Drop for DescriptorPool {
    fn drop(&mut self) {
        self.reset();
    }
}
