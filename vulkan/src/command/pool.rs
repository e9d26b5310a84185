//! Command pools and the command buffers of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use ash::vk::Handle;

use super::Recording;
use crate::app::App;
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

/// Freed command buffers whose memory a pool keeps for new ones.
const SPARE_MAX: usize = 16;

/// A command pool, which has its buffers.
pub(crate) struct CommandPool {
    device: campanile_umd::Device,
    labels: Arc<Labels>,
    buffers: Mutex<Buffers>,
}

/// The command buffers of a pool by their handles, and those that were freed, whose memory the next ones get.
#[derive(Default)]
struct Buffers {
    live: HashMap<u64, Owned<CommandBuffer>>,
    spare: Vec<Recording>,
}

impl CommandPool {
    pub(crate) fn new(device: &Device) -> Self {
        let labels = Arc::clone(device.labels());
        Self { device: device.umd().clone(), labels, buffers: Mutex::default() }
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `count` buffers.
    pub(crate) fn allocate(&self, count: u32) -> Vec<vk::CommandBuffer> {
        let mut buffers = self.buffers();
        let made = (0..count).map(|_| {
            let recording = buffers.spare.pop().unwrap_or_else(|| Recording::new(&self.device));
            let buffer =
                Owned::new(CommandBuffer { recording: Mutex::new(recording), labels: Arc::clone(&self.labels) });
            let handle = buffer.handle();
            buffers.live.insert(handle.as_raw(), buffer);
            handle
        });
        made.collect()
    }

    /// Frees buffers of the pool, and keeps the memory of some for new ones.
    pub(crate) fn free(&self, app: App<'_>, which: &[vk::CommandBuffer]) {
        let mut buffers = self.buffers();
        for handle in which {
            let Some(_freed) = buffers.live.remove(&handle.as_raw()) else { continue };
            if buffers.spare.len() < SPARE_MAX
                && let Ok(buffer) = app.object::<CommandBuffer>(*handle)
            {
                let mut recording = core::mem::replace(&mut *buffer.recording(), Recording::new(&self.device));
                recording.reset(false);
                buffers.spare.push(recording);
            }
        }
    }

    /// Gives the memory back that is kept of freed buffers. [Vulkan: vkTrimCommandPool]
    pub(crate) fn trim(&self) {
        self.buffers().spare.clear();
    }

    /// Resets all buffers of the pool; `trim` gives their memory back as well.
    pub(crate) fn reset(&self, app: App<'_>, trim: bool) {
        let mut buffers = self.buffers();
        if trim {
            buffers.spare.clear();
        }
        for buffer in buffers.live.values() {
            if let Ok(buffer) = app.object::<CommandBuffer>(buffer.handle()) {
                buffer.recording().reset(trim);
            }
        }
    }
}

#[cfg(all(test, not(windows)))]
mod tests {
    use std::collections::BTreeSet;

    use campanile_umd::{Adapter, Placement};

    use super::*;
    use crate::app::Scope;
    use crate::device::QueuesWanted;
    use crate::machine;
    use crate::physical::PhysicalDevice;

    /// GPU virtual addresses of what each buffer keeps for its commands.
    fn addresses(app: App<'_>, buffers: &[vk::CommandBuffer]) -> BTreeSet<u64> {
        let keep = |handle: &vk::CommandBuffer| {
            let buffer = app.object::<CommandBuffer>(*handle).expect("alive");
            buffer.recording().keep(&[1; 16]).expect("memory")
        };
        buffers.iter().map(keep).collect()
    }

    #[test]
    fn memory_of_freed_buffers_is_kept_for_new_ones_until_the_pool_is_trimmed() {
        let physical = PhysicalDevice::new(Adapter::open(machine::thunks()).expect("an adapter"));
        let device = Device::new(&physical, &[QueuesWanted { family: 0, priorities: vec![0] }]).expect("a device");
        // SAFETY: no pointers but handles of this driver, which are good as long as the pool has them.
        let app = unsafe { App::promised(&Scope) };
        let pool = CommandPool::new(&device);
        let first = pool.allocate(2);
        let kept = addresses(app, &first);
        pool.free(app, &first);
        // It would get the addresses if they were free.
        let other = device.umd().create_buffer(64 << 10, Placement::SystemUncached).expect("memory");
        let second = pool.allocate(2);
        assert_eq!((addresses(app, &second), kept.contains(&other.gpu_address())), (kept, false));
        pool.free(app, &second);
        assert_eq!(pool.buffers().spare.len(), 2);
        pool.trim();
        assert_eq!(pool.buffers().spare.len(), 0);
        let many = pool.allocate(SPARE_MAX as u32 + 5);
        pool.free(app, &many);
        assert_eq!(pool.buffers().spare.len(), SPARE_MAX);
    }
}
