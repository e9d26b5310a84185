//! Templates of descriptor updates: where in the application's data the buffers stand.

use core::ffi::c_void;
use std::sync::Arc;

use ash::vk;

use crate::app::App;
use crate::descriptor::{Write, range};
use crate::handle::objects;
use crate::layout::PipelineLayout;
use crate::memory::Range;

objects! { Template => vk::DescriptorUpdateTemplate }

/// Descriptors of one binding.
pub(crate) struct Entry {
    pub(crate) binding: u32,
    pub(crate) element: u32,
    pub(crate) count: u32,
    /// True if the data are buffers.
    pub(crate) is_buffer: bool,
    /// Where in the data the first one stands, and their distance.
    pub(crate) offset: usize,
    pub(crate) stride: usize,
}

/// A template.
pub(crate) struct Template {
    pub(crate) entries: Vec<Entry>,
    /// Layout and number of the set that is pushed, if that is what the template is for.
    pub(crate) layout: Option<Arc<PipelineLayout>>,
    pub(crate) set: u32,
}

impl Template {
    /// The writes to descriptors that the data of an update stand for.
    pub(crate) fn writes(&self, app: App<'_>, data: *const c_void) -> Vec<Write> {
        let of = |entry: &Entry| {
            let at = |index: u32| entry.offset.wrapping_add(entry.stride.wrapping_mul(index as usize));
            let info = |index| app.part::<vk::DescriptorBufferInfo>(data, at(index));
            let buffer = |index| if entry.is_buffer { info(index).as_ref().map(range) } else { None };
            let buffers = (0..entry.count).map(|index| buffer(index).unwrap_or(Range::default())).collect();
            Write { binding: entry.binding, element: entry.element, buffers }
        };
        self.entries.iter().map(of).collect()
    }
}
