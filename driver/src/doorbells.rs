//! The physical doorbells (pages of BAR2): there are fewer of them than queues, so they belong to the queues that connected last.
//!
//! Taking a page from a victim has three steps: choose the page whose queue connected least recently, have the operating system remove user
//! mode's mapping of it (without a lock, since that may come back as DxgkDdiDisconnectDoorbell), and take it if it still belongs to the
//! same connection. If the victim reconnected or lost the page meanwhile, the search starts over; another thread made progress then.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campanile_hw::doorbell::DOORBELL_PAGE_SIZE;
use campanile_hw::registers::{Command, CommandStatus};
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::status::STATUS_DEVICE_REMOVED;
use wddm_ddi::types::HANDLE;

use crate::cmp::{Cmp, CommandError, refused_by_queue};
use crate::dxgk::Dxgk;
use crate::handle::Handle;
use crate::irql::{Passive, UpToDispatch};
use crate::lock::PushLock;
use crate::mmio::Mapping;
use crate::pool::{OutOfMemory, PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused, refused_with};

/// What connecting and disconnecting a doorbell needs: the operating system's callbacks, and the scheduler of the device with its state.
#[derive(Clone, Copy)]
pub(crate) struct Scheduler<'a> {
    pub(crate) dxgk: &'a Dxgk,
    pub(crate) cmp: &'a Cmp,
    pub(crate) running: &'a AtomicBool,
}

impl Scheduler<'_> {
    fn note(self, event: &Event) {
        self.dxgk.trace.note(Component::Queue, event);
    }
}

/// A queue and its doorbell, each with the operating system's handle as an address.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) doorbell: Handle,
    pub(crate) dxgk_doorbell: usize,
    pub(crate) number: u32,
    pub(crate) dxgk_queue: usize,
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

/// The page that a doorbell gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The doorbell has this page already.
    Connected(u32),
    /// This page is free.
    Free(u32),
    /// This page belongs to the connection, whose queue is the victim: it has to be disconnected first.
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
    pub(crate) fn connect(&self, irql: &Passive, scheduler: Scheduler<'_>, pair: Pair) -> Result<NonNull<u8>, Refused> {
        let Pair { doorbell: handle, dxgk_doorbell, number, dxgk_queue } = pair;
        if self.global {
            self.command(irql, scheduler, Command::ConnectDoorbell, 0, number)?;
            let doorbell = handle.into_bits();
            scheduler.note(&Event::DoorbellConnected { doorbell, number, page: 0 });
            return self.address(0);
        }
        let connection = Connection { doorbell: handle, queue_number: number, dxgk_queue, dxgk_doorbell, stamp: 0 };
        loop {
            let mut pages = self.pages.lock(irql);
            let (page, victim) =
                match pages.choose(handle).ok_or(refused_with(Reason::NotOffered, STATUS_DEVICE_REMOVED))? {
                    Choice::Connected(page) => return self.address(page),
                    Choice::Free(page) => (page, None),
                    Choice::Steal(page, victim) => {
                        drop(pages);
                        let (doorbell, number) = (victim.doorbell.into_bits(), victim.queue_number);
                        scheduler.note(&Event::DoorbellVictim { doorbell, number, page });
                        scheduler.dxgk.disconnect_doorbell(irql, raw(victim.dxgk_queue), raw(victim.dxgk_doorbell));
                        pages = self.pages.lock(irql);
                        (page, Some(victim))
                    }
                };
            if !pages.is(page, victim) {
                continue;
            }
            if let Some(victim) = victim {
                self.drop_page(irql, scheduler, &mut pages, page, victim.doorbell, victim.queue_number);
            }
            self.command(irql, scheduler, Command::ConnectDoorbell, page, number)?;
            pages.assign(page, connection);
            self.own(page, handle.into_bits());
            scheduler.note(&Event::DoorbellConnected { doorbell: handle.into_bits(), number, page });
            return self.address(page);
        }
    }

    fn drop_page(
        &self,
        irql: &Passive,
        scheduler: Scheduler<'_>,
        pages: &mut Pages,
        page: u32,
        doorbell: Handle,
        queue: u32,
    ) {
        let event = Event::DoorbellDisconnected { doorbell: doorbell.into_bits(), number: queue, page };
        scheduler.note(&event);
        // The hardware looks at the write pointer a last time. Refused only if it lost the connection itself, in a reset.
        let _ = self.command(irql, scheduler, Command::DisconnectDoorbell, page, queue);
        pages.clear(page);
        self.own(page, 0);
    }

    fn command(
        &self,
        irql: &impl UpToDispatch,
        scheduler: Scheduler<'_>,
        command: Command,
        page: u32,
        queue: u32,
    ) -> Result<(), Refused> {
        if !scheduler.running.load(Ordering::Acquire) {
            return Err(refused(Reason::NotRunning));
        }
        let answer = scheduler.cmp.run(irql, command, &[u64::from(page), u64::from(queue)]);
        answer.map_err(|error| match error {
            CommandError::Refused(CommandStatus::TableFull) => refused(Reason::SchedulerFull),
            error => refused_by_queue(error),
        })
    }

    /// Takes the doorbell's page away, upon which the hardware looks at the write pointer a last time. False if it has none.
    pub(crate) fn disconnect(&self, irql: &Passive, scheduler: Scheduler<'_>, handle: Handle, queue: u32) -> bool {
        if self.global {
            // Refused if it was not connected, which is what is wanted.
            return self.command(irql, scheduler, Command::DisconnectDoorbell, 0, queue).is_ok();
        }
        let mut pages = self.pages.lock(irql);
        let page = pages.page_of(handle);
        if let Some(page) = page {
            self.drop_page(irql, scheduler, &mut pages, page, handle, queue);
        }
        page.is_some()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Kind;
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
}
