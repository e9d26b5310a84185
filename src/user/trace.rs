//! What a tracing tool needs of the driver. The DLL's C API has none of it.

use campanile_umd::Tracer;

use super::{Error, Fence, FenceInner, Queue, QueueInner, Result};

const NOT_BY_DLL: Error = Error::BadArgument("a trace needs the driver that is linked in: leave `--driver` away");

impl Queue {
    /// Tells `tracer` of everything that is recorded and submitted from now on.
    ///
    /// # Errors
    /// The driver is the DLL.
    pub fn set_tracer(&mut self, tracer: Box<dyn Tracer>) -> Result<()> {
        match &mut self.0 {
            QueueInner::Linked(queue) => {
                queue.set_tracer(Some(tracer));
                Ok(())
            }
            QueueInner::Dll(_) => Err(NOT_BY_DLL),
        }
    }

    /// Its handle, by which logs and traces name it.
    ///
    /// # Errors
    /// The driver is the DLL.
    pub fn handle(&self) -> Result<u32> {
        match &self.0 {
            QueueInner::Linked(queue) => Ok(queue.handle()),
            QueueInner::Dll(_) => Err(NOT_BY_DLL),
        }
    }
}

impl Fence {
    /// Its handle, by which logs and traces name it.
    ///
    /// # Errors
    /// The driver is the DLL.
    pub fn handle(&self) -> Result<u32> {
        match &self.0 {
            FenceInner::Linked(fence) => Ok(fence.handle()),
            FenceInner::Dll(_) => Err(NOT_BY_DLL),
        }
    }
}
