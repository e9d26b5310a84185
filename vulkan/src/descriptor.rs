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
use crate::layout::{DESCRIPTOR, SetLayout, Slot};
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

/// One write to descriptors of a set: those from `element` of `binding` on; of an inline uniform block the bytes from there on.
pub(crate) struct Write {
    pub(crate) binding: u32,
    pub(crate) element: u32,
    pub(crate) what: Written,
}

/// Contents of a write: descriptors, or the bytes of an inline uniform block.
pub(crate) enum Written {
    Descriptors(Vec<Range>),
    Bytes(Vec<u8>),
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
    let from = match &write.what {
        Written::Descriptors(from) if slot.bytes == 0 => from,
        Written::Bytes(bytes) => return write_bytes(slot, descriptors, write.element, bytes),
        // Descriptors are no bytes.
        Written::Descriptors(_) => return,
    };
    let first = slot.first.saturating_add(write.element) as usize;
    // Bindings lie behind each other, so that the next one begins where this one ends.
    let places = descriptors.iter_mut().enumerate().skip(first);
    for ((place, to), from) in places.zip(from) {
        let size = layout.immutable.get(&(place as u32)).copied().unwrap_or(from.size);
        *to = Range { size, ..*from };
    }
}

/// Has descriptors of a set show the samplers that its layout names.
pub(crate) fn name_samplers(layout: &SetLayout, descriptors: &mut [Range]) {
    for (place, sampler) in &layout.immutable {
        if let Some(descriptor) = descriptors.get_mut(*place as usize) {
            descriptor.size = *sampler;
        }
    }
}

/// Writes bytes of an inline uniform block, which has as many as it has.
fn write_bytes(slot: &Slot, descriptors: &mut [Range], element: u32, bytes: &[u8]) {
    for (at, byte) in (element..slot.bytes).zip(bytes) {
        let Some(place) = descriptors.get_mut((slot.first + 1 + at / DESCRIPTOR) as usize) else { return };
        let (half, shift) = match at % DESCRIPTOR {
            at @ 0..8 => (&mut place.address, at * 8),
            at => (&mut place.size, (at - 8) * 8),
        };
        *half = *half & !(0xff << shift) | u64::from(*byte) << shift;
    }
}

/// Descriptors as programs read them, the first at this GPU virtual address: that of an inline uniform block shows the bytes behind it.
pub(crate) fn bytes_at(descriptors: &[Range], inline: &[(u32, u32)], address: u64) -> Vec<u8> {
    let mut bytes = as_bytes(descriptors).collect::<Vec<u8>>();
    for (place, size) in inline {
        let at = *place as usize * DESCRIPTOR as usize;
        let of_block = Range { address: address + at as u64 + u64::from(DESCRIPTOR), size: u64::from(*size) };
        bytes.iter_mut().skip(at).zip(as_bytes(&[of_block])).for_each(|(to, byte)| *to = byte);
    }
    bytes
}

fn as_bytes(descriptors: &[Range]) -> impl Iterator<Item = u8> {
    descriptors.iter().flat_map(|range| [range.address, range.size]).flat_map(u64::to_le_bytes)
}

impl DescriptorSet {
    fn new(layout: Arc<SetLayout>) -> Self {
        let mut descriptors = vec![Range::default(); layout.count as usize];
        name_samplers(&layout, &mut descriptors);
        Self { layout, descriptors: Mutex::new(descriptors) }
    }

    /// Writes descriptors.
    pub(crate) fn write(&self, what: &Write) {
        let mut descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        write(&self.layout, &mut descriptors, what);
    }

    /// `count` descriptors from `element` of `binding` on, or bytes of an inline uniform block.
    pub(crate) fn read(&self, binding: u32, element: u32, count: u32) -> Written {
        let Some(slot) = self.layout.slot(binding) else { return Written::Descriptors(Vec::new()) };
        let descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.bytes != 0 {
            let block = descriptors.get(slot.first as usize + 1..).unwrap_or_default();
            let end = element.saturating_add(count).min(slot.bytes);
            return Written::Bytes(as_bytes(block).take(end as usize).skip(element as usize).collect());
        }
        let first = slot.first.saturating_add(element) as usize;
        Written::Descriptors(descriptors.iter().skip(first).take(count as usize).copied().collect())
    }

    /// Places of the descriptors of its inline uniform blocks, with their bytes.
    pub(crate) fn inline(&self) -> &[(u32, u32)] {
        &self.layout.inline
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
