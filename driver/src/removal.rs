//! DxgkDdiStopDevice, which destroys the queues that are left and stops the device, and DxgkDdiRemoveDevice, which destroys every object.

use crate::adapter::{Adapter, Process, UserDevice, slots};
use crate::fence::object::{NativeFence, OpenFence};
use crate::interrupt;
use crate::irql::Passive;
use crate::memory::allocation::{Allocation, OpenAllocation};
use crate::queue::context::{Context, HwContext};
use crate::queue::creation;
use crate::queue::doorbell::Doorbell;
use crate::queue::hw_queue::HwQueue;
use crate::refusal::Refused;
use wddm_ddi::types::HANDLE;

/// DxgkDdiStopDevice; also called when a step after a successful start failed, and harmless when repeated.
pub(crate) fn stop(irql: &Passive, adapter: &Adapter) {
    // The operating system destroyed every queue by now. One that is left must not keep its ring.
    if adapter.gpu().is_some()
        && let Ok(queues) = adapter.all::<HwQueue>(irql)
    {
        for handle in queues.iter() {
            let engine = adapter.objects.get::<HwQueue>(*handle).map_or(0, |queue| queue.engine);
            if let Ok(gpu) = adapter.engine(engine) {
                // Listed just now, so it exists.
                let _ = creation::destroy(irql, adapter, gpu, *handle, interrupt::drain);
            }
        }
    }
    adapter.stop(irql);
}

/// DxgkDdiRemoveDevice: withdraws the handle, then frees everything that is left.
///
/// # Errors
/// STATUS_INVALID_HANDLE
pub(crate) fn remove(irql: &Passive, raw: HANDLE) -> Result<(), Refused> {
    stop(irql, slots::adapter(raw)?);
    let adapter = Adapter::withdraw(raw)?;
    free_objects(irql, &adapter);
    adapter.end(irql);
    Ok(())
}

fn free_objects(irql: &Passive, adapter: &Adapter) {
    while let Some(mut queue) = adapter.objects.remove_any::<HwQueue>(irql) {
        if let Ok(gpu) = adapter.engine(queue.engine) {
            queue.free_memory(irql, gpu);
        }
    }
    while adapter.objects.remove_any::<Doorbell>(irql).is_some() {}
    while adapter.objects.remove_any::<OpenFence>(irql).is_some() {}
    while adapter.objects.remove_any::<NativeFence>(irql).is_some() {}
    while adapter.objects.remove_any::<HwContext>(irql).is_some() {}
    while adapter.objects.remove_any::<Context>(irql).is_some() {}
    while adapter.objects.remove_any::<OpenAllocation>(irql).is_some() {}
    while adapter.objects.remove_any::<Allocation>(irql).is_some() {}
    while adapter.objects.remove_any::<UserDevice>(irql).is_some() {}
    while adapter.objects.remove_any::<Process>(irql).is_some() {}
}
