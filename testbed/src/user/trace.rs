//! For tracing tools: the driver's events as they are recorded, and the handles by which fence logs name queues and fences.

use campanile_umd::Tracer;

use super::{Fence, FenceInner, Queue, QueueInner, Result};

impl Queue {
    /// Tells `tracer` of everything that is recorded and submitted from now on.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn set_tracer(&mut self, tracer: Box<dyn Tracer>) -> Result<()> {
        match &mut self.0 {
            QueueInner::Linked(queue) => {
                queue.set_tracer(Some(tracer));
                Ok(())
            }
            QueueInner::Dll(queue) => queue.set_tracer(Some(tracer)),
        }
    }

    /// Its handle, by which logs and traces name it.
    pub fn handle(&self) -> u32 {
        match &self.0 {
            QueueInner::Linked(queue) => queue.handle(),
            QueueInner::Dll(queue) => queue.handle(),
        }
    }
}

impl Fence {
    /// Its handle, by which logs and traces name it.
    pub fn handle(&self) -> u32 {
        match &self.0 {
            FenceInner::Linked(fence) => fence.handle(),
            FenceInner::Dll(fence) => fence.handle(),
        }
    }
}
