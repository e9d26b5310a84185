//! Queues: packet queues of the nodes, hardware contexts and queues, doorbells.

pub(crate) mod context;
pub(crate) mod doorbell;
pub(crate) mod hw_queue;
pub(crate) mod numbers;
pub(crate) mod packet;
pub(crate) mod priority;
pub(crate) mod ring;
pub(crate) mod suspend;

use crate::adapter::Adapter;
use crate::gpu::Gpu;
use crate::irql::Device;

/// Handles every event that a device, an engine of the adapter, has told of. What becomes of a queue waits for it.
pub(crate) type Drain = fn(&Device, &Adapter, &Gpu);

/// Takes the first element out; the others move up and the last place becomes free.
fn shift<T: Copy>(places: &mut [Option<T>]) {
    let mut free = None;
    for place in places.iter_mut().rev() {
        core::mem::swap(place, &mut free);
    }
}
