//! Results of Vulkan for errors of the user-mode driver, and for what must never happen.

use std::io::Write;

use ash::vk;
use campanile_umd::Error;
use wddm_ddi::status::{
    STATUS_GRAPHICS_NO_VIDEO_MEMORY, STATUS_INSUFFICIENT_RESOURCES, STATUS_NO_MEMORY, STATUS_PRIVILEGE_NOT_HELD,
};

/// Answer of a command, or the error that it returns.
pub(crate) type Answer<T> = Result<T, vk::Result>;

/// The result that an error of the user-mode driver is to the application. One that has no result of its own is told on standard error.
pub(crate) fn result(error: Error) -> vk::Result {
    match error {
        Error::DeviceLost => vk::Result::ERROR_DEVICE_LOST,
        Error::Timeout => vk::Result::TIMEOUT,
        Error::NotMappable => vk::Result::ERROR_MEMORY_MAP_FAILED,
        Error::NoAdapter | Error::Version(_) | Error::MissingThunk(_) => vk::Result::ERROR_INITIALIZATION_FAILED,
        Error::Status(STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES | STATUS_GRAPHICS_NO_VIDEO_MEMORY, _) => {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        }
        Error::Status(STATUS_PRIVILEGE_NOT_HELD, _) => vk::Result::ERROR_NOT_PERMITTED_KHR,
        error => {
            tell(&error);
            vk::Result::ERROR_UNKNOWN
        }
    }
}

/// Tells the user what no result says.
pub(crate) fn tell(text: &dyn core::fmt::Display) {
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "campanile_vulkan: {text}");
}

/// Commands whose results include VK_ERROR_DEVICE_LOST. [Vulkan: Return Codes of each command]
const TELL_LOSS: [&str; 12] = [
    "vkCreateDevice",
    "vkDeviceWaitIdle",
    "vkGetEventStatus",
    "vkGetFenceStatus",
    "vkGetQueryPoolResults",
    "vkGetSemaphoreCounterValue",
    "vkQueueBindSparse",
    "vkQueueSubmit",
    "vkQueueSubmit2",
    "vkQueueWaitIdle",
    "vkWaitForFences",
    "vkWaitSemaphores",
];

/// True for a command that may return VK_ERROR_DEVICE_LOST.
pub(crate) const fn tells_loss(command: &str) -> bool {
    let (command, mut index) = (command.as_bytes(), 0);
    while index < TELL_LOSS.len() {
        let (known, mut same) = (TELL_LOSS[index].as_bytes(), 0);
        while same < known.len() && same < command.len() && known[same] == command[same] {
            same += 1;
        }
        if same == known.len() && same == command.len() {
            return true;
        }
        index += 1;
    }
    false
}

/// Result of a command as Vulkan lists it.
pub(crate) trait Listed: Sized {
    /// The same, but VK_ERROR_OUT_OF_HOST_MEMORY, which every command lists that can fail, in place of VK_ERROR_DEVICE_LOST unless the command tells of the loss.
    fn listed(self, _tells_loss: bool) -> Self {
        self
    }
}

impl Listed for () {}
impl Listed for u64 {}
impl Listed for vk::PFN_vkVoidFunction {}

impl Listed for vk::Result {
    fn listed(self, tells_loss: bool) -> Self {
        if self == Self::ERROR_DEVICE_LOST && !tells_loss { Self::ERROR_OUT_OF_HOST_MEMORY } else { self }
    }
}

/// Type that a command of the driver returns to its caller in C.
pub(crate) trait Returned {
    /// Type of the command.
    type Out;

    /// The value for the caller.
    fn out(self) -> Self::Out;

    /// The value where the driver has panicked, which is a fault of the driver.
    fn panicked() -> Self::Out;
}

impl Returned for () {
    type Out = ();

    fn out(self) {}

    fn panicked() {}
}

impl Returned for Answer<()> {
    type Out = vk::Result;

    fn out(self) -> vk::Result {
        self.err().unwrap_or(vk::Result::SUCCESS)
    }

    fn panicked() -> vk::Result {
        vk::Result::ERROR_UNKNOWN
    }
}

impl Returned for Answer<vk::Result> {
    type Out = vk::Result;

    fn out(self) -> vk::Result {
        self.unwrap_or_else(|failure| failure)
    }

    fn panicked() -> vk::Result {
        vk::Result::ERROR_UNKNOWN
    }
}

impl Returned for u64 {
    type Out = u64;

    fn out(self) -> u64 {
        self
    }

    fn panicked() -> u64 {
        0
    }
}

impl Returned for vk::PFN_vkVoidFunction {
    type Out = Self;

    fn out(self) -> Self {
        self
    }

    fn panicked() -> Self {
        None
    }
}
