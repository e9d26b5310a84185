//! Descriptor sets: for each descriptor the address and size of a buffer, as programs read them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use ash::vk::Handle;

use crate::failure::Answer;
use crate::handle::{Object, objects};
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
    pub(crate) buffers: Vec<Range>,
}

/// The buffer of a descriptor; none for a null handle.
pub(crate) fn range(info: &vk::DescriptorBufferInfo) -> Range {
    Buffer::of(info.buffer).map_or(Range::default(), |buffer| buffer.range(info.offset, info.range))
}

/// Writes descriptors of a set with this layout. What goes beyond a binding goes on in the next one; what there is no place for is left out.
pub(crate) fn write(layout: &SetLayout, descriptors: &mut [Range], write: &Write) {
    let Some(slot) = layout.slot(write.binding) else { return };
    let first = slot.first.saturating_add(write.element) as usize;
    // Bindings lie behind each other, so that the next one begins where this one ends.
    let places = descriptors.iter_mut().skip(first);
    places.zip(&write.buffers).for_each(|(place, buffer)| *place = *buffer);
}

impl DescriptorSet {
    fn new(layout: Arc<SetLayout>) -> Self {
        let descriptors = vec![Range::default(); layout.count as usize];
        Self { layout, descriptors: Mutex::new(descriptors) }
    }

    /// Writes descriptors.
    pub(crate) fn write(&self, what: &Write) {
        let mut descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        write(&self.layout, &mut descriptors, what);
    }

    /// Buffers of `count` descriptors from `element` of `binding` on.
    pub(crate) fn read(&self, binding: u32, element: u32, count: u32) -> Vec<Range> {
        let Some(slot) = self.layout.slot(binding) else { return Vec::new() };
        let descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        let first = slot.first.saturating_add(element) as usize;
        descriptors.iter().skip(first).take(count as usize).copied().collect()
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
