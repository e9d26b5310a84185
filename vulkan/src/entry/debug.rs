//! Commands of VK_EXT_debug_utils: names, labels and messengers.

use core::ffi::{CStr, c_char};
use std::borrow::Cow;

use ash::vk;

use super::command::record;
use super::declaration::commands;
use crate::app::App;
use crate::command::CommandBuffer;
use crate::device::Queue;
use crate::failure::Answer;
use crate::handle::Object;
use crate::labels::{Labels, Mark};
use crate::memory::{Buffer, DeviceMemory};
use crate::messenger::{self, Messenger};
use crate::names;
use crate::submit::Step;
use crate::sync::{Event, Fence, Point, Semaphore};

/// Commands whose first argument is an instance.
pub(super) mod instance_commands {
    use super::*;

    commands! { app;
        vkCreateDebugUtilsMessengerEXT: PFN_vkCreateDebugUtilsMessengerEXT(instance: vk::Instance,
            info: *const vk::DebugUtilsMessengerCreateInfoEXT<'_>, allocator: *const vk::AllocationCallbacks<'_>,
            out: *mut vk::DebugUtilsMessengerEXT) -> vk::Result
            = app.need(info).map(|info| app.put(out, Messenger::new(instance, info).register()));
        vkDestroyDebugUtilsMessengerEXT: PFN_vkDestroyDebugUtilsMessengerEXT(instance: vk::Instance,
            messenger: vk::DebugUtilsMessengerEXT, allocator: *const vk::AllocationCallbacks<'_>)
            = drop(Messenger::release(messenger));
        vkSubmitDebugUtilsMessageEXT: PFN_vkSubmitDebugUtilsMessageEXT(instance: vk::Instance,
            severity: vk::DebugUtilsMessageSeverityFlagsEXT, types: vk::DebugUtilsMessageTypeFlagsEXT,
            data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>)
            = messenger::submit(app, instance, severity, types, data);
    }
}

commands! { app;
    vkSetDebugUtilsObjectNameEXT: PFN_vkSetDebugUtilsObjectNameEXT(
        device: vk::Device, info: *const vk::DebugUtilsObjectNameInfoEXT<'_>) -> vk::Result
        = app.need(info).and_then(|info| {
            name(app, (info.object_type, info.object_handle), &text(app, info.p_object_name))
        });
    // A tag is data that a layer looks at; traces show names.
    vkSetDebugUtilsObjectTagEXT: PFN_vkSetDebugUtilsObjectTagEXT(
        device: vk::Device, info: *const vk::DebugUtilsObjectTagInfoEXT<'_>) -> vk::Result
        = app.need(info).map(drop);
    vkQueueBeginDebugUtilsLabelEXT: PFN_vkQueueBeginDebugUtilsLabelEXT(
        queue: vk::Queue, label: *const vk::DebugUtilsLabelEXT<'_>)
        = on_queue(app, queue, |labels| Ok(vec![labels.begin(&label_text(app, label))?]));
    vkQueueEndDebugUtilsLabelEXT: PFN_vkQueueEndDebugUtilsLabelEXT(queue: vk::Queue)
        = on_queue(app, queue, |labels| Ok(vec![labels.end()?]));
    vkQueueInsertDebugUtilsLabelEXT: PFN_vkQueueInsertDebugUtilsLabelEXT(
        queue: vk::Queue, label: *const vk::DebugUtilsLabelEXT<'_>)
        = on_queue(app, queue, |labels| Ok(vec![labels.begin(&label_text(app, label))?, labels.end()?]));
    vkCmdBeginDebugUtilsLabelEXT: PFN_vkCmdBeginDebugUtilsLabelEXT(
        buffer: vk::CommandBuffer, label: *const vk::DebugUtilsLabelEXT<'_>)
        = in_buffer(app, buffer, |labels| Ok(vec![labels.begin(&label_text(app, label))?]));
    vkCmdEndDebugUtilsLabelEXT: PFN_vkCmdEndDebugUtilsLabelEXT(buffer: vk::CommandBuffer)
        = in_buffer(app, buffer, |labels| Ok(vec![labels.end()?]));
    vkCmdInsertDebugUtilsLabelEXT: PFN_vkCmdInsertDebugUtilsLabelEXT(
        buffer: vk::CommandBuffer, label: *const vk::DebugUtilsLabelEXT<'_>)
        = in_buffer(app, buffer, |labels| Ok(vec![labels.begin(&label_text(app, label))?, labels.end()?]));
}

/// A text of the application; without one it is empty.
fn text<'c>(app: App<'c>, start: *const c_char) -> Cow<'c, str> {
    app.name(start).map(CStr::to_string_lossy).unwrap_or_default()
}

fn label_text<'c>(app: App<'c>, label: *const vk::DebugUtilsLabelEXT<'c>) -> Cow<'c, str> {
    app.get(label).map(|label| text(app, label.p_label_name)).unwrap_or_default()
}

/// The value that a submission gives the fence of labels for a mark.
pub(super) fn point((native, value): Mark) -> Point {
    Point { native, value }
}

/// Has a queue signal what a label is. A label that cannot be told is left out: these commands have no result.
fn on_queue(app: App<'_>, queue: vk::Queue, marks: impl FnOnce(&Labels) -> Answer<Vec<Mark>>) {
    if let Ok(queue) = app.object::<Queue>(queue)
        && let Ok(marks) = marks(queue.labels())
    {
        let _ = queue.submit(marks.into_iter().map(|mark| Step::Signal(point(mark))).collect());
    }
}

/// As [`on_queue`], where a command buffer runs.
fn in_buffer(app: App<'_>, buffer: vk::CommandBuffer, marks: impl FnOnce(&Labels) -> Answer<Vec<Mark>>) {
    if let Ok(found) = app.object::<CommandBuffer>(buffer)
        && let Ok(marks) = marks(found.labels())
    {
        record(app, buffer, |to| {
            marks.into_iter().for_each(|mark| to.signal(point(mark)));
            Ok(())
        });
    }
}

/// Names an object, in place of the name that it has; an empty text takes that away. Objects that no trace shows have no name there.
fn name(app: App<'_>, (kind, handle): (vk::ObjectType, u64), text: &str) -> Answer<()> {
    use vk::Handle as Raw;
    type Kind = vk::ObjectType;
    if matches!(kind, Kind::BUFFER | Kind::COMMAND_BUFFER | Kind::SEMAPHORE | Kind::FENCE) {
        names::keep((kind, handle), text);
    }
    match kind {
        Kind::QUEUE => names::tell(app.object::<Queue>(Raw::from_raw(handle))?.hardware().handle(), 0, text),
        Kind::SEMAPHORE => names::tell(Semaphore::needed(Raw::from_raw(handle))?.native_handle(), 0, text),
        Kind::FENCE => names::tell(Fence::needed(Raw::from_raw(handle))?.native_handle(), 0, text),
        Kind::EVENT => names::tell(Event::needed(Raw::from_raw(handle))?.point(true).native.handle(), 0, text),
        Kind::DEVICE_MEMORY => {
            let memory = DeviceMemory::needed(Raw::from_raw(handle))?;
            let told =
                if text.is_empty() { String::new() } else { format!("memory of {} bytes: {text}", memory.size()) };
            names::tell(memory.native_handle(), 0, &told);
        }
        Kind::BUFFER => name_buffer(Raw::from_raw(handle), text)?,
        _ => {}
    }
    Ok(())
}

/// Tells the name of a buffer that has memory: it is a part of that.
fn name_buffer(handle: vk::Buffer, text: &str) -> Answer<()> {
    let buffer = Buffer::needed(handle)?;
    let Some(memory) = buffer.memory() else { return Ok(()) };
    let range = buffer.range(0, vk::WHOLE_SIZE);
    // The name last, for it is what may be cut.
    let told = match text.is_empty() {
        true => String::new(),
        false => format!("buffer at {:#x}, {} bytes: {text}", range.address, range.size),
    };
    // The place of the buffer in the table of buffers, which is not 0.
    names::tell(memory.native_handle(), vk::Handle::as_raw(handle) as u32, &told);
    Ok(())
}

/// A buffer has its memory now: its name is told, if it has one.
///
/// # Errors
/// VK_ERROR_UNKNOWN for a handle of nothing.
pub(super) fn buffer_bound(buffer: vk::Buffer) -> Answer<()> {
    let name = names::of((vk::ObjectType::BUFFER, vk::Handle::as_raw(buffer)));
    name.map_or(Ok(()), |name| name_buffer(buffer, &name))
}
