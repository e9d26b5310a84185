//! The doorbells of queues, connected or not.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use campanile_hw::page_table::VA_BITS;
use campanile_hw::private::{DoorbellAnswer, DoorbellData};
use campanile_hw::queue::{CONTROL_SIZE, RingGeometry};
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::types::HANDLE;

use crate::adapter::Adapter;
use crate::doorbells::Pair;
use crate::gpu::Gpu;
use crate::handle::{Handle, Kind, Object};
use crate::irql::Passive;
use crate::memory::allocation;
use crate::queue::Drain;
use crate::queue::context::HwContext;
use crate::queue::creation;
use crate::queue::hw_queue::{self, HwQueue, UserRing};
use crate::refusal::{Reason, Refused, refused};

/// The doorbell of one queue, connected or not.
pub(crate) struct Doorbell {
    /// Handle of the operating system, for callbacks.
    dxgk: usize,
    engine: u32,
    queue: Handle,
}

impl Object for Doorbell {
    const KIND: Kind = Kind::Doorbell;

    fn engine(&self) -> u32 {
        self.engine
    }
}

impl Doorbell {
    /// Handle of the operating system, as an address.
    pub(crate) fn dxgk(&self) -> u64 {
        self.dxgk as u64
    }

    pub(crate) fn queue(&self) -> Handle {
        self.queue
    }
}

fn raw(address: usize) -> HANDLE {
    core::ptr::without_provenance_mut(address)
}

fn in_space(start: u64, size: u64) -> bool {
    start != 0 && start.is_multiple_of(CONTROL_SIZE) && start.checked_add(size).is_some_and(|end| end <= 1 << VA_BITS)
}

/// Reads and checks the private data and allocations of DxgkDdiCreateDoorbell.
fn user_ring(
    irql: &Passive,
    adapter: &Adapter,
    process: Handle,
    args: &DXGKARG_CREATEDOORBELL,
) -> Result<UserRing, Refused> {
    if args.PrivateDriverDataSize as usize != DoorbellData::SIZE {
        return Err(refused(Reason::PrivateData));
    }
    let data =
        NonNull::new(args.PrivateDriverData.cast::<[u8; DoorbellData::SIZE]>()).ok_or(refused(Reason::NullPointer))?;
    // SAFETY: the operating system captured PrivateDriverDataSize bytes; bytes need no alignment.
    let data = DoorbellData::from_bytes(&unsafe { data.read() });
    let ring_size = allocation::size_of_handle(adapter, args.hRingBuffer)?;
    let control_size = allocation::size_of_handle(adapter, args.hRingBufferControl)?;
    let geometry = RingGeometry::of_bytes(ring_size).ok_or(refused(Reason::Ring))?;
    if control_size < CONTROL_SIZE || !in_space(data.ring, ring_size) || !in_space(data.control, CONTROL_SIZE) {
        return Err(refused(Reason::Ring));
    }
    // Only the allocations of the handles stay resident while the hardware uses the addresses.
    for (handle, address) in [(args.hRingBuffer, data.ring), (args.hRingBufferControl, data.control)] {
        if !allocation::may_begin_at(irql, adapter, handle, process, address) {
            return Err(refused(Reason::RingAddress));
        }
    }
    Ok(UserRing { ring: data.ring, control: data.control, entries: geometry.entries() })
}

/// DxgkDdiCreateDoorbell: gives the queue its ring. No page is taken. A ring that is resized replaces the queue's; the operating system
/// has let the work in it end.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for private data or allocations that are no ring, addresses where those allocations are not mapped, for a queue that the kernel writes, one that has
/// a doorbell already and no new ring is meant, or a new ring with the control page of the old one, whose pointers count that one's
/// entries. When the hardware refuses the new ring, the queue has none.
pub(crate) fn create(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &mut DXGKARG_CREATEDOORBELL,
    drain: Drain,
) -> Result<Handle, Refused> {
    let queue_handle = Handle::of(args.hHwQueue);
    let queue = adapter.objects.get::<HwQueue>(queue_handle)?;
    let context = adapter.objects.get::<HwContext>(queue.context)?;
    let old = queue.doorbell.load(Ordering::Acquire);
    if !queue.is_user() || (old != 0 && !args.Flags.ResizeRingBufferOperation()) {
        return Err(refused(Reason::DoorbellExists));
    }
    let ring = user_ring(irql, adapter, context.properties.process, args)?;
    if hw_queue::user_ring(irql, queue).is_some_and(|old| old.control == ring.control) {
        return Err(refused(Reason::Ring));
    }
    let doorbell = Doorbell { dxgk: args.hDoorbell.addr(), engine: queue.engine, queue: queue_handle };
    let handle = adapter.objects.insert(irql, adapter.handle(), doorbell)?;
    if let Ok(old) = adapter.objects.get::<Doorbell>(Handle::from_bits(old)) {
        // User mode may still see the page of the old doorbell; it must not when another process gets the page.
        gpu.dxgk.disconnect_doorbell(irql, queue.dxgk(), raw(old.dxgk));
    }
    queue.release_doorbell(irql, gpu);
    if let Err(status) = creation::set_user_ring(irql, adapter, gpu, context, queue, Some(ring), drain) {
        drop(adapter.objects.remove::<Doorbell>(irql, handle));
        return Err(status);
    }
    queue.doorbell.store(handle.into_bits(), Ordering::Release);
    gpu.note(
        Component::Queue,
        &Event::DoorbellCreated {
            doorbell: handle.into_bits(),
            ring: ring.ring,
            number: queue.number,
            entries: ring.entries,
        },
    );
    if gpu.hardware.caps.global_doorbell() {
        let answer = DoorbellAnswer { queue: queue.number };
        if let Some(out) = NonNull::new(args.PrivateDriverData.cast::<[u8; DoorbellAnswer::SIZE]>()) {
            const { assert!(DoorbellAnswer::SIZE <= DoorbellData::SIZE) };
            // SAFETY: the buffer has the size of DoorbellData, as was checked.
            unsafe { out.write(answer.to_bytes()) };
        }
    }
    Ok(handle)
}

/// DxgkDdiConnectDoorbell. Hardware that does not poll its doorbells has user mode ask for DxgkDdiNotifyWorkSubmission after each store,
/// by the status. [d3dkmddi: D3DDDI_DOORBELLSTATUS]
///
/// # Errors
/// STATUS_DEVICE_REMOVED when the hardware is gone or was reset, or the queue has faulted; STATUS_INVALID_PARAMETER for the doorbell of an
/// earlier ring, or when the hardware refuses the ring.
pub(crate) fn connect(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &mut DXGKARG_CONNECTDOORBELL,
) -> Result<(), Refused> {
    let handle = Handle::of(args.hDoorbell);
    let doorbell = adapter.objects.get::<Doorbell>(handle)?;
    let queue = adapter.objects.get::<HwQueue>(doorbell.queue)?;
    let context = adapter.objects.get::<HwContext>(queue.context)?;
    if args.Flags.RequireSecondaryAddress() || queue.doorbell.load(Ordering::Acquire) != handle.into_bits() {
        return Err(refused(Reason::DoorbellStale));
    }
    hw_queue::map(irql, gpu, &context.properties, queue)?;
    if !hw_queue::is_mapped(irql, queue) {
        return Err(refused(Reason::NoRing));
    }
    let address = {
        let pair = Pair {
            doorbell: handle,
            dxgk_doorbell: doorbell.dxgk,
            number: queue.number,
            dxgk_queue: queue.dxgk().addr(),
        };
        gpu.doorbells.connect(irql, gpu.scheduler(), pair)?
    };
    args.KernelCpuVirtualAddress = address.as_ptr().cast();
    args.SecondaryKernelCpuVirtualAddress = core::ptr::null_mut();
    args.Status = if gpu.hardware.caps.notify_doorbells() {
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD
    } else {
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED
    };
    Ok(())
}

/// DxgkDdiDisconnectDoorbell: whatever stands in the ring by now is found, also when the doorbell has lost its page before and user
/// mode wrote to the ring since. A queue of a suspended context is looked at when that is resumed.
///
/// # Errors
/// STATUS_INVALID_HANDLE
pub(crate) fn disconnect(irql: &Passive, adapter: &Adapter, gpu: &Gpu, handle: Handle) -> Result<(), Refused> {
    let Some(queue) = queue_of(adapter, handle)? else { return Ok(()) };
    if !gpu.doorbells.disconnect(irql, gpu.scheduler(), handle, queue.number)
        && gpu.is_running()
        && !adapter.objects.get::<HwContext>(queue.context)?.properties.is_suspended()
    {
        // Refused for a queue that has no ring, or has faulted.
        let _ = gpu.cmp.kick(irql, queue.number);
    }
    Ok(())
}

/// The queue of a doorbell; `None` if it has given this one up for another, through which it may be connected.
fn queue_of(adapter: &Adapter, handle: Handle) -> Result<Option<&HwQueue>, Refused> {
    let doorbell = adapter.objects.get::<Doorbell>(handle)?;
    let queue = adapter.objects.get::<HwQueue>(doorbell.queue).ok();
    Ok(queue.filter(|queue| queue.doorbell.load(Ordering::Acquire) == handle.into_bits()))
}

/// DxgkDdiDestroyDoorbell: the hardware gives up the ring, which may be freed afterwards.
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
    if let Some(queue) = queue_of(adapter, handle)? {
        gpu.doorbells.disconnect(irql, gpu.scheduler(), handle, queue.number);
    }
    let doorbell = adapter.objects.remove::<Doorbell>(irql, handle)?;
    gpu.note(Component::Queue, &Event::DoorbellDestroyed { doorbell: handle.into_bits() });
    let Ok(queue) = adapter.objects.get::<HwQueue>(doorbell.queue) else { return Ok(()) };
    let own = queue.doorbell.compare_exchange(handle.into_bits(), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if own && let Ok(context) = adapter.objects.get::<HwContext>(queue.context) {
        // Without a ring there is nothing to map, so this only unmaps.
        creation::set_user_ring(irql, adapter, gpu, context, queue, None, drain)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_lie_inside_the_address_space_on_page_boundaries() {
        assert!(in_space(0x1000, 4096) && in_space((1 << VA_BITS) - 4096, 4096));
        for (start, size) in [(0, 4096), (0x1008, 4096), ((1 << VA_BITS) - 4096, 8192), (u64::MAX - 4095, 4096)] {
            assert!(!in_space(start, size), "{start:#x} {size:#x}");
        }
    }
}
