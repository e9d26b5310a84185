//! Templates of descriptor updates: where in the application's data the descriptors stand.

use core::ffi::c_void;
use std::sync::Arc;

use ash::vk;

use crate::app::App;
use crate::descriptor::{Write, read};
use crate::handle::objects;
use crate::layout::PipelineLayout;

objects! { Template => vk::DescriptorUpdateTemplate }

/// Descriptors of one binding.
pub(crate) struct Entry {
    pub(crate) binding: u32,
    pub(crate) element: u32,
    pub(crate) count: u32,
    pub(crate) kind: vk::DescriptorType,
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
            let descriptors = (0..entry.count).map(|index| read(app, entry.kind, data, at(index))).collect();
            Write { binding: entry.binding, element: entry.element, descriptors }
        };
        self.entries.iter().map(of).collect()
    }
}
