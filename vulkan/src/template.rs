//! Templates of descriptor updates: where in the application's data the descriptors stand.

use core::ffi::c_void;
use std::sync::Arc;

use ash::vk;

use crate::app::App;
use crate::descriptor::{Write, Written, read};
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
    /// The writes to descriptors that the data of an update stand for, of the bindings that are `wanted`.
    pub(crate) fn writes(&self, app: App<'_>, data: *const c_void, wanted: impl Fn(u32) -> bool) -> Vec<Write> {
        let of = |entry: &Entry| {
            let at = |index: u32| entry.offset.wrapping_add(entry.stride.wrapping_mul(index as usize));
            let what = match entry.kind {
                // Its bytes stand behind each other, whatever the stride.
                vk::DescriptorType::INLINE_UNIFORM_BLOCK => {
                    let start = data.wrapping_byte_add(if data.is_null() { 0 } else { entry.offset });
                    Written::Bytes(app.bytes(start, entry.count as usize).to_vec())
                }
                kind => Written::Descriptors((0..entry.count).map(|index| read(app, kind, data, at(index))).collect()),
            };
            Write { binding: entry.binding, element: entry.element, what }
        };
        self.entries.iter().filter(|entry| wanted(entry.binding)).map(of).collect()
    }
}
