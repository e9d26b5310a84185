//! Doorbells: more of them than the hardware has pages, so the queues that connected last have them.
//!
//! Taking a page from a victim has three steps: choose the page whose queue connected least recently, have the operating system remove user
//! mode's mapping of it (without a lock, since that may come back as DxgkDdiDisconnectDoorbell), and take it if it still belongs to the
//! same connection. If the victim reconnected or lost the page meanwhile, the search starts over; another thread made progress then.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::doorbell::DOORBELL_PAGE_SIZE;
use campanile_hw::page_table::VA_BITS;
use campanile_hw::private::{DoorbellAnswer, DoorbellData};
use campanile_hw::queue::{CONTROL_SIZE, RingGeometry};
use campanile_hw::registers::{Command, CommandStatus};
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_DEVICE_REMOVED;
use wddm_ddi::types::HANDLE;

use crate::adapter::Adapter;
use crate::cmp::CommandError;
use crate::gpu::Gpu;
use crate::handle::{Handle, Kind, Object};
use crate::irql::{Passive, UpToDispatch};
use crate::lock::PushLock;
use crate::memory::allocation;
use crate::mmio::Mapping;
use crate::pool::{OutOfMemory, PoolVec, Tag};
use crate::queue::Drain;
use crate::queue::context::HwContext;
use crate::queue::hw_queue::{self, HwQueue, UserRing, refused_by_queue};
use crate::refusal::{Reason, Refused, refused, refused_with};

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

/// A connection of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Connection {
    doorbell: Handle,
    queue_number: u32,
    /// The operating system's handles of queue and doorbell, as addresses.
    dxgk_queue: usize,
    dxgk_doorbell: usize,
    /// When it was made; larger is later, and no two are equal.
    stamp: u64,
}

/// Which page a doorbell gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// It has this one.
    Connected(u32),
    /// This one is free.
    Free(u32),
    /// This one has to be taken away first.
    Steal(u32, Connection),
}

/// The doorbell that is connected to each page, by the number of the page.
struct Pages {
    connections: PoolVec<Option<Connection>>,
    clock: u64,
}

impl Pages {
    fn new(count: u32) -> Result<Self, OutOfMemory> {
        Ok(Self { connections: PoolVec::filled(count as usize, Tag::DOORBELL, |_| None)?, clock: 0 })
    }

    fn page_of(&self, doorbell: Handle) -> Option<u32> {
        let index =
            self.connections.iter().position(|connection| connection.is_some_and(|c| c.doorbell == doorbell))?;
        Some(index as u32)
    }

    /// The page for `doorbell`; `None` if there are no pages at all. A page it has counts as connected now.
    fn choose(&mut self, doorbell: Handle) -> Option<Choice> {
        self.clock += 1;
        if let Some(page) = self.page_of(doorbell) {
            if let Some(Some(connection)) = self.connections.get_mut(page as usize) {
                connection.stamp = self.clock;
            }
            return Some(Choice::Connected(page));
        }
        if let Some(free) = self.connections.iter().position(Option::is_none) {
            return Some(Choice::Free(free as u32));
        }
        let connected =
            self.connections.iter().zip(0u32..).filter_map(|(connection, page)| Some(((*connection)?, page)));
        connected.min_by_key(|(connection, _)| connection.stamp).map(|(victim, page)| Choice::Steal(page, victim))
    }

    /// True if `page` still belongs to the connection with which it was chosen.
    fn is(&self, page: u32, connection: Option<Connection>) -> bool {
        self.connections.get(page as usize) == Some(&connection)
    }

    fn assign(&mut self, page: u32, connection: Connection) {
        self.clock += 1;
        let connection = Connection { stamp: self.clock, ..connection };
        if let Some(place) = self.connections.get_mut(page as usize) {
            *place = Some(connection);
        }
    }

    fn clear(&mut self, page: u32) {
        if let Some(place) = self.connections.get_mut(page as usize) {
            *place = None;
        }
    }
}

/// The doorbell pages of the adapter.
pub(crate) struct Doorbells {
    /// True if there is one page for all queues, so that no queue becomes a victim.
    global: bool,
    mapping: Mapping,
    /// Taken before the locks of queues and of [`crate::cmp::Cmp`]; released before a callback that may come back.
    pages: PushLock<Pages>,
    /// By page: handle bits of the doorbell that has it, 0 for none. For readers without the lock, such as the debugger's dump.
    owners: PoolVec<AtomicU64>,
}

impl Doorbells {
    /// `count` pages at `mapping`.
    pub(crate) fn new(mapping: Mapping, count: u32, global: bool) -> Result<Self, OutOfMemory> {
        let count = if global { 0 } else { count };
        let owners = PoolVec::filled(count as usize, Tag::DOORBELL, |_| AtomicU64::new(0))?;
        Ok(Self { global, mapping, pages: PushLock::new(Pages::new(count)?), owners })
    }

    fn own(&self, page: u32, doorbell: u64) {
        if let Some(owner) = self.owners.get(page as usize) {
            owner.store(doorbell, Ordering::Release);
        }
    }

    /// The page that a doorbell had a moment ago, and `None` where all share one. Any level.
    pub(crate) fn page_of(&self, doorbell: u64) -> Option<u32> {
        let page = self.owners.iter().position(|owner| owner.load(Ordering::Acquire) == doorbell)?;
        u32::try_from(page).ok()
    }

    fn address(&self, page: u32) -> Result<NonNull<u8>, Refused> {
        let part = self
            .mapping
            .part(u64::from(page) * DOORBELL_PAGE_SIZE, DOORBELL_PAGE_SIZE)
            .ok_or(refused(Reason::NotRunning))?;
        Ok(part.base())
    }

    /// Gives the doorbell a page and returns its kernel address. The hardware looks at the queue's write pointer.
    fn connect(
        &self,
        irql: &Passive,
        gpu: &Gpu,
        handle: Handle,
        doorbell: &Doorbell,
        queue: &HwQueue,
    ) -> Result<NonNull<u8>, Refused> {
        if self.global {
            self.command(irql, gpu, Command::ConnectDoorbell, 0, queue.number)?;
            let (doorbell, number) = (handle.into_bits(), queue.number);
            gpu.note(Component::Queue, &Event::DoorbellConnected { doorbell, number, page: 0 });
            return self.address(0);
        }
        let connection = Connection {
            doorbell: handle,
            queue_number: queue.number,
            dxgk_queue: queue.dxgk().addr(),
            dxgk_doorbell: doorbell.dxgk,
            stamp: 0,
        };
        loop {
            let mut pages = self.pages.lock(irql);
            let (page, victim) =
                match pages.choose(handle).ok_or(refused_with(Reason::NotOffered, STATUS_DEVICE_REMOVED))? {
                    Choice::Connected(page) => return self.address(page),
                    Choice::Free(page) => (page, None),
                    Choice::Steal(page, victim) => {
                        drop(pages);
                        let (doorbell, number) = (victim.doorbell.into_bits(), victim.queue_number);
                        gpu.note(Component::Queue, &Event::DoorbellVictim { doorbell, number, page });
                        gpu.dxgk.disconnect_doorbell(irql, raw(victim.dxgk_queue), raw(victim.dxgk_doorbell));
                        pages = self.pages.lock(irql);
                        (page, Some(victim))
                    }
                };
            if !pages.is(page, victim) {
                continue;
            }
            if let Some(victim) = victim {
                self.drop_page(irql, gpu, &mut pages, page, victim.doorbell, victim.queue_number);
            }
            self.command(irql, gpu, Command::ConnectDoorbell, page, queue.number)?;
            pages.assign(page, connection);
            self.own(page, handle.into_bits());
            let number = queue.number;
            gpu.note(Component::Queue, &Event::DoorbellConnected { doorbell: handle.into_bits(), number, page });
            return self.address(page);
        }
    }

    fn drop_page(&self, irql: &Passive, gpu: &Gpu, pages: &mut Pages, page: u32, doorbell: Handle, queue: u32) {
        let event = Event::DoorbellDisconnected { doorbell: doorbell.into_bits(), number: queue, page };
        gpu.note(Component::Queue, &event);
        // The hardware looks at the write pointer a last time. Refused only if it lost the connection itself, in a reset.
        let _ = self.command(irql, gpu, Command::DisconnectDoorbell, page, queue);
        pages.clear(page);
        self.own(page, 0);
    }

    fn command(
        &self,
        irql: &impl UpToDispatch,
        gpu: &Gpu,
        command: Command,
        page: u32,
        queue: u32,
    ) -> Result<(), Refused> {
        if !gpu.is_running() {
            return Err(refused(Reason::NotRunning));
        }
        let answer = gpu.cmp.run(irql, command, [u64::from(page), u64::from(queue), 0]);
        answer.map(drop).map_err(|error| match error {
            CommandError::Refused(CommandStatus::NoRoom) => refused(Reason::SchedulerFull),
            error => refused_by_queue(error),
        })
    }

    /// Takes the doorbell's page away, upon which the hardware looks at the write pointer a last time. False if it has none.
    fn disconnect(&self, irql: &Passive, gpu: &Gpu, handle: Handle, queue: u32) -> bool {
        if self.global {
            // Refused if it was not connected, which is what is wanted.
            return self.command(irql, gpu, Command::DisconnectDoorbell, 0, queue).is_ok();
        }
        let mut pages = self.pages.lock(irql);
        let page = pages.page_of(handle);
        if let Some(page) = page {
            self.drop_page(irql, gpu, &mut pages, page, handle, queue);
        }
        page.is_some()
    }

    /// Takes the page of a queue that is being destroyed.
    pub(crate) fn release_queue(&self, irql: &Passive, gpu: &Gpu, queue: &HwQueue) {
        let bits = queue.doorbell.swap(0, Ordering::AcqRel);
        if bits != 0 {
            self.disconnect(irql, gpu, Handle::from_bits(bits), queue.number);
        }
    }

    /// After a reset the hardware has no connection.
    pub(crate) fn forget(&self, irql: &Passive) {
        let mut pages = self.pages.lock(irql);
        for place in pages.connections.iter_mut() {
            *place = None;
        }
        for owner in self.owners.iter() {
            owner.store(0, Ordering::Release);
        }
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
    let ring = user_ring(irql, adapter, context.process, args)?;
    if hw_queue::user_ring(irql, queue).is_some_and(|old| old.control == ring.control) {
        return Err(refused(Reason::Ring));
    }
    let doorbell = Doorbell { dxgk: args.hDoorbell.addr(), engine: queue.engine, queue: queue_handle };
    let handle = adapter.objects.insert(irql, adapter.handle(), doorbell)?;
    if let Ok(old) = adapter.objects.get::<Doorbell>(Handle::from_bits(old)) {
        // User mode may still see the page of the old doorbell; it must not when another process gets the page.
        gpu.dxgk.disconnect_doorbell(irql, queue.dxgk(), raw(old.dxgk));
    }
    gpu.doorbells.release_queue(irql, gpu, queue);
    if let Err(status) = hw_queue::set_user_ring(irql, adapter, gpu, context, queue, Some(ring), drain) {
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
    hw_queue::map(irql, gpu, context, queue)?;
    if !hw_queue::is_mapped(irql, queue) {
        return Err(refused(Reason::NoRing));
    }
    let address = gpu.doorbells.connect(irql, gpu, handle, doorbell, queue)?;
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
    if !gpu.doorbells.disconnect(irql, gpu, handle, queue.number)
        && gpu.is_running()
        && !adapter.objects.get::<HwContext>(queue.context)?.is_suspended()
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
        gpu.doorbells.disconnect(irql, gpu, handle, queue.number);
    }
    let doorbell = adapter.objects.remove::<Doorbell>(irql, handle)?;
    gpu.note(Component::Queue, &Event::DoorbellDestroyed { doorbell: handle.into_bits() });
    let Ok(queue) = adapter.objects.get::<HwQueue>(doorbell.queue) else { return Ok(()) };
    let own = queue.doorbell.compare_exchange(handle.into_bits(), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if own && let Ok(context) = adapter.objects.get::<HwContext>(queue.context) {
        // Without a ring there is nothing to map, so this only unmaps.
        hw_queue::set_user_ring(irql, adapter, gpu, context, queue, None, drain)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn doorbell(number: u32) -> Handle {
        Handle::new().with_kind(Kind::Doorbell as u8).with_slot(number)
    }

    fn connection(number: u32) -> Connection {
        Connection { doorbell: doorbell(number), queue_number: number, dxgk_queue: 0, dxgk_doorbell: 0, stamp: 0 }
    }

    fn full(count: u32) -> Pages {
        testing::bind();
        let mut pages = Pages::new(count).unwrap();
        for number in 0..count {
            assert_eq!(pages.choose(doorbell(number)), Some(Choice::Free(number)));
            pages.assign(number, connection(number));
        }
        pages
    }

    fn victim(pages: &mut Pages, number: u32) -> (u32, Handle) {
        match pages.choose(doorbell(number)) {
            Some(Choice::Steal(page, victim)) => (page, victim.doorbell),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn free_pages_are_used_before_any_is_stolen() {
        let mut pages = full(3);
        pages.clear(1);
        assert_eq!(pages.choose(doorbell(9)), Some(Choice::Free(1)));
    }

    #[test]
    fn the_least_recently_connected_is_the_victim() {
        let mut pages = full(3);
        assert_eq!(victim(&mut pages, 9), (0, doorbell(0)));
        assert_eq!(pages.choose(doorbell(0)), Some(Choice::Connected(0)));
        assert_eq!(victim(&mut pages, 9), (1, doorbell(1)));
        pages.clear(1);
        pages.assign(1, connection(9));
        assert_eq!(victim(&mut pages, 10), (2, doorbell(2)));
    }

    #[test]
    fn a_victim_that_reconnects_keeps_its_page() {
        let mut pages = full(1);
        let Some(Choice::Steal(page, chosen)) = pages.choose(doorbell(9)) else { panic!("nothing to steal") };
        assert!(pages.is(page, Some(chosen)));
        assert_eq!(pages.choose(doorbell(0)), Some(Choice::Connected(0)));
        assert!(!pages.is(page, Some(chosen)), "the theft must start over");
    }

    #[test]
    fn a_page_that_was_given_up_meanwhile_is_chosen_anew() {
        let mut pages = full(1);
        let Some(Choice::Steal(page, chosen)) = pages.choose(doorbell(9)) else { panic!("nothing to steal") };
        pages.clear(page);
        assert!(!pages.is(page, Some(chosen)) && pages.is(page, None));
        assert_eq!(pages.choose(doorbell(9)), Some(Choice::Free(0)));
    }

    #[test]
    fn without_pages_nothing_can_connect() {
        testing::bind();
        assert_eq!(Pages::new(0).unwrap().choose(doorbell(0)), None);
    }

    #[test]
    fn rings_lie_inside_the_address_space_on_page_boundaries() {
        assert!(in_space(0x1000, 4096) && in_space((1 << VA_BITS) - 4096, 4096));
        for (start, size) in [(0, 4096), (0x1008, 4096), ((1 << VA_BITS) - 4096, 8192), (u64::MAX - 4095, 4096)] {
            assert!(!in_space(start, size), "{start:#x} {size:#x}");
        }
    }
}
