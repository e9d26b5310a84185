//! Descriptors that are bound: those of a set as they were then, and where they stand in argument blocks if the set may still be updated.

use std::sync::{Arc, Mutex, PoisonError};

use super::Recorded;
use super::arguments::Written;
use crate::descriptor::{DescriptorSet, bytes_at, name_samplers};
use crate::layout::{SetLayout, SetPlace};
use crate::memory::Range;

/// Descriptors that are bound at the place of a set, which are empty before one is bound there.
#[derive(Default)]
pub(super) struct Bound {
    descriptors: Vec<Range>,
    /// Places of the descriptors of inline uniform blocks, with their bytes.
    inline: Vec<(u32, u32)>,
    /// The set with its dynamic offsets, if it may be updated after this.
    open: Option<(Arc<DescriptorSet>, Arc<[u32]>)>,
}

/// A set in an argument block that may be updated until the block's command buffer is submitted.
#[derive(Clone)]
pub(super) struct Late {
    block: Written,
    /// Offset of its descriptors in the block, and the bytes that they have there.
    offset: usize,
    capacity: usize,
    set: Arc<DescriptorSet>,
    offsets: Arc<[u32]>,
    /// The descriptors that the block has. Recordings of primary command buffers share the block of a secondary one that they execute, whichever of them is submitted.
    written: Arc<Mutex<Vec<Range>>>,
}

impl Bound {
    /// Binds a set with the first of these offsets; returns how many of them it took.
    pub(super) fn bind(&mut self, set: &Arc<DescriptorSet>, offsets: &[u32]) -> usize {
        let taken = set.bound(offsets, &mut self.descriptors);
        self.inline.clear();
        self.inline.extend_from_slice(set.inline());
        let own = || offsets.get(..taken).unwrap_or(offsets).into();
        self.open = set.is_updated_after_bind().then(|| (set.clone(), own()));
        taken
    }

    /// The descriptors of a set that has no object.
    pub(super) fn pushed(&mut self, layout: &SetLayout) -> &mut [Range] {
        self.open = None;
        self.inline.clear();
        self.descriptors.resize(layout.count as usize, Range::default());
        name_samplers(layout, &mut self.descriptors);
        &mut self.descriptors
    }

    /// The descriptors for an argument block, in which the first is to have this GPU virtual address.
    pub(super) fn bytes(&self, address: u64) -> Vec<u8> {
        bytes_at(&self.descriptors, &self.inline, address)
    }

    /// The set that has to be read again when the command buffer is submitted; `None` if the set cannot be updated after it was bound.
    pub(super) fn late(&self, block: &Written, place: &SetPlace) -> Option<Late> {
        let (set, offsets) = self.open.clone()?;
        let (offset, capacity) = (place.offset as usize, place.bytes() as usize);
        let written = Arc::new(Mutex::new(self.descriptors.clone()));
        Some(Late { block: block.clone(), offset, capacity, set, offsets, written })
    }
}

impl Late {
    /// Writes the descriptors as they are now, unless the block has them. What pending work uses is not updated, so that it stays as it is.
    /// [Vulkan: VkDescriptorBindingFlagBits]
    pub(super) fn refresh(&self) -> Recorded {
        let mut now = Vec::new();
        self.set.bound(&self.offsets, &mut now);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if now != *written {
            let mut bytes = bytes_at(&now, self.set.inline(), self.block.address() + self.offset as u64);
            bytes.truncate(self.capacity);
            self.block.write(self.offset, &bytes)?;
            *written = now;
        }
        Ok(())
    }
}
