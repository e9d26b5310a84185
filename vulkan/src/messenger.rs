// UNSAFETY: functions of the application are called.
//! Messengers of an instance. The driver has nothing to say of its own: they hear what the application submits. [Vulkan: VK_EXT_debug_utils]

use core::ffi::c_void;

use ash::vk;

use crate::app::App;
use crate::handle::{Object, objects};

objects! { Messenger => vk::DebugUtilsMessengerEXT }

/// A function of the application that hears messages.
pub(crate) struct Messenger {
    instance: vk::Instance,
    severities: vk::DebugUtilsMessageSeverityFlagsEXT,
    types: vk::DebugUtilsMessageTypeFlagsEXT,
    callback: vk::PFN_vkDebugUtilsMessengerCallbackEXT,
    /// A pointer of the application's, which is only handed back.
    data: usize,
}

impl Messenger {
    pub(crate) fn new(instance: vk::Instance, info: &vk::DebugUtilsMessengerCreateInfoEXT<'_>) -> Self {
        Self {
            instance,
            severities: info.message_severity,
            types: info.message_type,
            callback: info.pfn_user_callback,
            data: info.p_user_data.expose_provenance(),
        }
    }

    fn hears(
        &self,
        instance: vk::Instance,
        severity: vk::DebugUtilsMessageSeverityFlagsEXT,
        types: vk::DebugUtilsMessageTypeFlagsEXT,
    ) -> bool {
        self.instance == instance && self.severities.contains(severity) && self.types.intersects(types)
    }
}

/// Hands a message to the messengers of an instance that hear such ones.
pub(crate) fn submit(
    app: App<'_>,
    instance: vk::Instance,
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    types: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
) {
    if app.get(data).is_none() {
        return;
    }
    for messenger in Messenger::all().iter().filter(|messenger| messenger.hears(instance, severity, types)) {
        let Some(callback) = messenger.callback else { continue };
        let user: *mut c_void = core::ptr::with_exposed_provenance_mut(messenger.data);
        // SAFETY: the application's function of this type, which is valid as long as its messenger, with the data that it submitted and the pointer that it gave.
        let _ = unsafe { callback(severity, types, data.cast(), user) };
    }
}
