//! Creation and destruction of hardware queues, and the ring that user mode gives one: what changes the list of a context.

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;

use crate::adapter::Adapter;
use crate::caps;
use crate::gpu::Gpu;
use crate::handle::Handle;
use crate::irql::Passive;
use crate::pool::PoolBox;
use crate::queue::Drain;
use crate::queue::context::HwContext;
use crate::queue::hw_queue::{self, HwQueue, UserRing};
use crate::queue::shared::{progress_fence, save_size};
use crate::refusal::{Reason, Refused, refused};

/// Checks the arguments of DxgkDdiCreateHwQueue, creates the queue and, if its ring and address space are known, maps it.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a queue that could not run: user mode where it is not allowed, a fence that is not open here; and for private data that are not those of a queue.
pub(crate) fn create(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    context_handle: Handle,
    args: &mut DXGKARG_CREATEHWQUEUE,
) -> Result<Handle, Refused> {
    let context = adapter.objects.get::<HwContext>(context_handle)?;
    let user = args.Flags.UserModeSubmission();
    let allowed = gpu.claims.user_mode_submission && caps::node_takes_user_queues(context.properties.node);
    if user && (!allowed || !args.Flags.NativeProgressFence()) {
        return Err(refused(Reason::UserSubmission));
    }
    let bytes = save_size(gpu, context.properties.node, args)?;
    let progress = progress_fence(irql, gpu, context.properties.process, args)?;
    let number = gpu.numbers.lock(irql).take().ok_or(refused(Reason::TableFull))?;
    let created = hw_queue::build(context_handle, &context.properties, args, progress, number)
        .and_then(|queue| insert(irql, adapter, gpu, context, (queue, bytes)));
    match created {
        Ok(queue) => gpu.note(
            Component::Queue,
            &Event::QueueCreated {
                queue: queue.into_bits(),
                context: context_handle.into_bits(),
                number,
                node: context.properties.node as u16,
                user: user.into(),
            },
        ),
        Err(_) => gpu.numbers.lock(irql).put(number),
    }
    created
}

fn insert(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    context: &HwContext,
    (mut queue, save_size): (PoolBox<HwQueue>, u32),
) -> Result<Handle, Refused> {
    let number = queue.number;
    let mut queues = context.queues.lock(irql);
    queues.reserve(1)?;
    let inserted = match queue.allocate(irql, gpu, save_size) {
        Ok(()) => adapter.objects.insert_boxed(irql, adapter.handle(), queue),
        Err(status) => Err((status, queue)),
    };
    let handle = match inserted {
        Ok(handle) => handle,
        Err((status, mut queue)) => {
            queue.free_memory(irql, gpu);
            return Err(status);
        }
    };
    queues.push(handle)?;
    gpu.queues.set(number, Some(handle));
    drop(queues);
    let queue = adapter.objects.get::<HwQueue>(handle)?;
    if let Err(status) = hw_queue::map(irql, gpu, &context.properties, queue) {
        // The hardware never had it, so no event names it.
        forget(irql, adapter, gpu, handle)?;
        return Err(status);
    }
    Ok(handle)
}

/// Gives a user-mode queue its ring and maps it. A ring it had is given up.
///
/// # Errors
/// As [`hw_queue::map`]; the queue then has no ring.
pub(crate) fn set_user_ring(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    context: &HwContext,
    queue: &HwQueue,
    ring: Option<UserRing>,
    drain: Drain,
) -> Result<(), Refused> {
    hw_queue::unmap(irql, gpu, queue);
    context.answer_for_unmapped(irql, adapter, gpu, queue, drain);
    hw_queue::give_ring(irql, gpu, &context.properties, queue, ring)
}

/// DxgkDdiDestroyHwQueue.
///
/// # Errors
/// STATUS_INVALID_HANDLE
pub(crate) fn destroy(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    handle: Handle,
    drain: Drain,
) -> Result<(), Refused> {
    let queue = adapter.objects.get::<HwQueue>(handle)?;
    let number = queue.number;
    queue.release_doorbell(irql, gpu);
    hw_queue::unmap(irql, gpu, queue);
    // Events of this queue that are still in the event ring are handled before its number becomes free.
    if let Ok(context) = adapter.objects.get::<HwContext>(queue.context) {
        context.answer_for_unmapped(irql, adapter, gpu, queue, drain);
    }
    forget(irql, adapter, gpu, handle)?;
    gpu.numbers.lock(irql).put(number);
    gpu.note(Component::Queue, &Event::QueueDestroyed { queue: handle.into_bits(), number });
    Ok(())
}

/// Takes a queue that the hardware does not have from device, context and adapter; its number stays taken.
fn forget(irql: &Passive, adapter: &Adapter, gpu: &Gpu, handle: Handle) -> Result<(), Refused> {
    let queue = adapter.objects.get::<HwQueue>(handle)?;
    let context = adapter.objects.get::<HwContext>(queue.context);
    if gpu.dxgk.synchronize(irql, |_| gpu.queues.set(queue.number, None)).is_err() {
        gpu.queues.set(queue.number, None);
    }
    if let Ok(context) = context {
        let mut queues = context.queues.lock(irql);
        if let Some(index) = queues.iter().position(|other| *other == handle) {
            queues.swap_remove(index);
        }
    }
    gpu.wait_for_dpc(irql);
    let mut queue = adapter.objects.remove::<HwQueue>(irql, handle)?;
    queue.free_memory(irql, gpu);
    Ok(())
}
