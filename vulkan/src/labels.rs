//! Labels of what a queue runs, for traces of the machine. [Vulkan: VK_EXT_debug_utils]
//!
//! The GPU tells them: where a label begins it signals a fence of the device with the number of the text, and where it ends with 0. So the log of the queue has both
//! with their times, and the machine the texts as the names of the fence's parts.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use ash::vk;
use campanile_umd::Fence as NativeFence;

use crate::failure::{Answer, result};
use crate::names;

/// Most texts of labels of a device; one beyond these makes no label.
const TEXTS_MAX: usize = 2048;

/// The fence of labels, and the value that the GPU gives it.
pub(crate) type Mark = (NativeFence, u64);

/// The texts of labels of a device, and the fence whose values are their numbers.
pub(crate) struct Labels {
    device: campanile_umd::Device,
    /// Made for the first label.
    fence: OnceLock<NativeFence>,
    numbers: Mutex<HashMap<Box<str>, u32>>,
}

impl Labels {
    /// No labels yet.
    pub(crate) fn new(device: &campanile_umd::Device) -> Self {
        Self { device: device.clone(), fence: OnceLock::new(), numbers: Mutex::default() }
    }

    fn fence(&self) -> Answer<NativeFence> {
        if let Some(fence) = self.fence.get() {
            return Ok(fence.clone());
        }
        let fence = NativeFence::new(&self.device, 0).map_err(result)?;
        Ok(self.fence.get_or_init(|| fence).clone())
    }

    /// The mark that begins a label.
    ///
    /// # Errors
    /// VK_ERROR_TOO_MANY_OBJECTS for one text too many; the error of the operating system, as [`result`] translates it.
    pub(crate) fn begin(&self, text: &str) -> Answer<Mark> {
        let text = names::cut(if text.is_empty() { "label" } else { text });
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(text) {
            return Ok((self.fence()?, (*number).into()));
        }
        if numbers.len() == TEXTS_MAX {
            return Err(vk::Result::ERROR_TOO_MANY_OBJECTS);
        }
        let number = numbers.len() as u32 + 1;
        let fence = self.fence()?;
        names::tell(fence.handle(), number, text);
        numbers.insert(text.into(), number);
        Ok((fence, number.into()))
    }

    /// The mark that ends the label that began last.
    ///
    /// # Errors
    /// The error of the operating system, as [`result`] translates it.
    pub(crate) fn end(&self) -> Answer<Mark> {
        Ok((self.fence()?, 0))
    }
}
