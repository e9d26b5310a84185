//! Command pools and the command buffers of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use ash::vk::Handle;

use super::Recording;
use crate::device::Device;
use crate::handle::{Dispatched, Owned, objects};
use crate::labels::Labels;

objects! { CommandPool => vk::CommandPool }

/// A command buffer.
pub(crate) struct CommandBuffer {
    recording: Mutex<Recording>,
    labels: Arc<Labels>,
}

impl Dispatched for CommandBuffer {
    type Handle = vk::CommandBuffer;
}

impl CommandBuffer {
    /// What is recorded. Vulkan has the application keep other threads away from a command buffer, so that nobody waits here.
    pub(crate) fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The labels of its device.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// A command pool, which has its buffers.
pub(crate) struct CommandPool {
    device: campanile_umd::Device,
    labels: Arc<Labels>,
    buffers: Mutex<HashMap<u64, Owned<CommandBuffer>>>,
}

impl CommandPool {
    pub(crate) fn new(device: &Device) -> Self {
        let labels = Arc::clone(device.labels());
        Self { device: device.umd().clone(), labels, buffers: Mutex::new(HashMap::new()) }
    }

    /// Makes `count` buffers.
    pub(crate) fn allocate(&self, count: u32) -> Vec<vk::CommandBuffer> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let made = (0..count).map(|_| {
            let (recording, labels) = (Mutex::new(Recording::new(&self.device)), Arc::clone(&self.labels));
            let buffer = Owned::new(CommandBuffer { recording, labels });
            let handle = buffer.handle();
            buffers.insert(handle.as_raw(), buffer);
            handle
        });
        made.collect()
    }

    /// Frees buffers of the pool.
    pub(crate) fn free(&self, which: &[vk::CommandBuffer]) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        for buffer in which {
            drop(buffers.remove(&buffer.as_raw()));
        }
    }

    /// Resets all buffers of the pool; `trim` gives their memory back as well.
    pub(crate) fn reset(&self, app: crate::app::App<'_>, trim: bool) {
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        for buffer in buffers.values() {
            if let Ok(buffer) = app.object::<CommandBuffer>(buffer.handle()) {
                buffer.recording().reset(trim);
            }
        }
    }
}
