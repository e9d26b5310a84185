//! Queues: packet contexts, hardware contexts and queues, doorbells.

pub(crate) mod context;
pub(crate) mod creation;
pub(crate) mod doorbell;
pub(crate) mod hw_queue;
mod properties;
mod shared;
pub(crate) mod suspend;

use crate::adapter::Adapter;
use crate::gpu::Gpu;
use crate::irql::Device;

/// Handles every event that a device, an engine of the adapter, has told of. What becomes of a queue waits for it.
pub(crate) type Drain = fn(&Device, &Adapter, &Gpu);
