//! A machine with one doorbell page: user mode that submits, the operating system and the driver that lend the page, and a node
//! that polls it and runs what was submitted. The page is lent to one queue at a time, or it is a global one that all share.
//!
//! Ring, doorbell states, page poller and the mailbox are production files. The order of calls in which the operating system and the
//! driver connect, steal and disconnect is written down here once more, without the DDI in between; see `Doorbell` of dxgkrnl and
//! `Doorbells` of the driver.

use super::buffer::Mapping;
use super::doorbell_state::{Action, DoorbellEvent, DoorbellState, View};
use super::doorbells::Doorbells;
use super::mailbox::Mailbox;
use super::memory::HostMapping;
use super::ring::{DoorbellWords, Status, UserRing};
use super::shared::{Entries, UserMemory, SharedWord};
use super::sync::{AtomicBool, AtomicU64, Mutex, Page, lock, thread};
use crate::{Fault, left_out};
use campanile_hw::doorbell::DoorbellValue;
use campanile_hw::queue::RingGeometry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;

/// The only doorbell page.
const PAGE: u32 = 0;
/// The node of all queues.
const NODE: u32 = 0;
/// Entries of a ring.
const ENTRIES: u32 = 4;
/// As in dxgkrnl.
const ATTEMPTS: u32 = 4;
/// Steps within which a device that nobody rings finds rest.
const REST: u32 = 100;

/// The memory of a queue.
struct Memory {
    entries: Entries,
    write_pointer: UserMemory,
    doorbell: UserMemory,
    status: UserMemory,
    last_queued: UserMemory,
}

/// The page behind a doorbell's user address: the hardware's page by its state, or the driver's dummy page.
struct Shown {
    state: DoorbellState,
    on_driver: bool,
}

/// The doorbell of a queue.
struct Doorbell {
    memory: Memory,
    exists: Mutex<()>,
    shown: Mutex<Shown>,
    /// User mode is another process.
    elsewhere: AtomicBool,
}

impl View for Doorbell {
    fn write_status(&self, status: D3DDDI_DOORBELLSTATUS) {
        if !left_out(Fault::RetryAfterHiding) && !left_out(Fault::LateRetry) {
            self.memory.status.store(status.0 as u64, Ordering::SeqCst);
        }
    }

    fn hide(&self) {
        self.turn(false);
        if left_out(Fault::RetryAfterHiding) {
            self.late_retry();
        }
    }
}

impl Doorbell {
    fn turn(&self, shown: bool) {
        let UserMemory::Doorbell(page) = &self.memory.doorbell else { return };
        // Set before there is a second thread.
        if !self.elsewhere.load(Ordering::Relaxed) {
            return page.show(shown);
        }
        // The request is a message to a thread of the other process, and so is the answer.
        let page = Arc::clone(page);
        let turned = thread::spawn(move || page.show(shown));
        if !left_out(Fault::PageAnswer) {
            turned.join().expect("the other process turns the page");
        }
    }

    fn late_retry(&self) {
        let retry = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
        self.memory.status.store(retry.0 as u64, Ordering::SeqCst);
    }

    /// `UserRing` as user mode makes it; the machine outlives it. `name` tells a global doorbell which queue rings.
    fn ring(&self, name: u16) -> UserRing {
        let memory = &self.memory;
        let words = DoorbellWords {
            doorbell: SharedWord::of(&memory.doorbell),
            status: SharedWord::of(&memory.status),
            last_queued: SharedWord::of(&memory.last_queued),
            queue: name,
        };
        let (ring, control) = (Mapping::of_ring(&memory.entries), Mapping::of_control(&memory.write_pointer));
        UserRing::new(&ring, &control, words).expect("the ring is legal")
    }
}

/// Position of the node in a queue: the write pointer it read last, and the entries it executed.
#[derive(Clone, Default)]
struct Progress {
    write: u64,
    ran: u64,
}

/// Everything.
pub(crate) struct Machine {
    queues: Vec<Doorbell>,
    device: Doorbells,
    /// The page is a global one.
    global: bool,
    word: Arc<AtomicU64>,
    mailbox: Mailbox,
    node: Mutex<Vec<Progress>>,
    /// The driver's: who has the page, and since which connection. Held while the device carries out a command.
    page: Mutex<(Option<(u32, u64)>, u64)>,
}

impl Machine {
    /// A machine with that many queues, none of which is connected, and a doorbell that they share or use one after the other.
    pub(crate) fn new(queues: u32, global: bool) -> Self {
        let word = Arc::new(AtomicU64::new(0));
        let mailbox = Mailbox::new(queues);
        (0..queues).for_each(|queue| mailbox.set_node(queue, Some(NODE)));
        let doorbell = |_| {
            let memory = Memory {
                entries: Entries::new(ENTRIES),
                write_pointer: UserMemory::zero(),
                doorbell: UserMemory::Doorbell(Arc::new(Page::new(Arc::clone(&word)))),
                status: UserMemory::zero(),
                last_queued: UserMemory::zero(),
            };
            let shown = Mutex::new(Shown { state: DoorbellState::Disconnected, on_driver: false });
            let doorbell = Doorbell { memory, exists: Mutex::new(()), shown, elsewhere: AtomicBool::new(false) };
            doorbell.late_retry();
            doorbell
        };
        Self {
            queues: (0..queues).map(doorbell).collect(),
            device: Doorbells::new(HostMapping(vec![Arc::clone(&word)]), 1, global),
            global,
            word,
            mailbox,
            node: Mutex::new(vec![Progress::default(); queues as usize]),
            page: Mutex::new((None, 0)),
        }
    }

    /// From now on user mode is another process than the operating system. What was connected stays so.
    pub(crate) fn move_user_mode(&self) {
        for queue in &self.queues {
            queue.elsewhere.store(true, Ordering::Relaxed);
        }
    }

    // User mode.

    /// Submits `count` times, as `Queue::submit` does.
    pub(crate) fn submit(&self, queue: u32, count: u64) {
        let ring = self.queues[queue as usize].ring(if self.global { queue as u16 } else { 0 });
        for submission in 1..=count {
            let mut status = UserRing::read_status(ring.publish(submission, commands(submission), 16, submission));
            loop {
                match status {
                    Status::Connected => break,
                    Status::Retry => {
                        self.connect(queue);
                        status = match left_out(Fault::LookAfterConnection) {
                            false => UserRing::read_status(ring.ring_doorbell(submission)),
                            true => ring.status(),
                        };
                    }
                    other => panic!("the status {other:?} has no place here"),
                }
            }
        }
    }

    /// Stores to the global doorbell that `queue` asks for `write` entries. Any process with a queue can.
    #[allow(dead_code, reason = "only random schedules have a forger")]
    pub(crate) fn forge(&self, queue: u16, write: u64) {
        let value = DoorbellValue::new().with_queue(queue).with_write_pointer(write);
        self.word.store(value.into_bits(), Ordering::Release);
    }

    // The operating system.

    /// D3DKMTConnectDoorbell.
    pub(crate) fn connect(&self, queue: u32) {
        let doorbell = &self.queues[queue as usize];
        let _exists = lock(&doorbell.exists);
        for _ in 0..ATTEMPTS {
            {
                let mut shown = lock(&doorbell.shown);
                if shown.state == DoorbellState::Connected {
                    return;
                }
                shown.state.apply(DoorbellEvent::Connect, doorbell);
                shown.on_driver = true;
            }
            self.lend(queue);
            let mut shown = lock(&doorbell.shown);
            if shown.state.apply(DoorbellEvent::Shown, doorbell) == Action::Show {
                doorbell.turn(true);
                let connected = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED;
                doorbell.memory.status.store(connected.0 as u64, Ordering::SeqCst);
            }
        }
    }

    /// The operating system wants the page back.
    pub(crate) fn disconnect(&self, queue: u32) {
        let doorbell = &self.queues[queue as usize];
        let _exists = lock(&doorbell.exists);
        let mut shown = lock(&doorbell.shown);
        shown.state.apply(DoorbellEvent::Taken, doorbell);
        let on_driver = std::mem::replace(&mut shown.on_driver, false);
        drop(shown);
        if on_driver {
            let mut page = lock(&self.page);
            if self.global || page.0.is_some_and(|(owner, _)| owner == queue) {
                self.take_page(queue);
                page.0 = None;
            }
        }
        if left_out(Fault::LateRetry) {
            self.step();
            doorbell.late_retry();
        }
    }

    /// DxgkCbDisconnectDoorbell.
    fn driver_takes(&self, queue: u32) {
        let doorbell = &self.queues[queue as usize];
        let mut shown = lock(&doorbell.shown);
        if shown.state == DoorbellState::Connected {
            shown.on_driver = false;
        }
        shown.state.apply(DoorbellEvent::Taken, doorbell);
    }

    // The driver.

    /// DxgkDdiConnectDoorbell.
    fn lend(&self, queue: u32) {
        if self.global {
            let _command = lock(&self.page);
            return self.device_connect(queue);
        }
        loop {
            let mut page = lock(&self.page);
            page.1 += 1;
            let stamp = page.1;
            let victim = page.0;
            match victim {
                Some((owner, _)) if owner == queue => {
                    page.0 = Some((queue, stamp));
                    return;
                }
                Some((owner, _)) => {
                    drop(page);
                    self.driver_takes(owner);
                    page = lock(&self.page);
                }
                None => {}
            }
            if page.0 != victim {
                continue;
            }
            if let Some((owner, _)) = victim {
                self.take_page(owner);
                if left_out(Fault::LateRetry) {
                    self.queues[owner as usize].late_retry();
                }
            }
            self.device_connect(queue);
            page.1 += 1;
            page.0 = Some((queue, page.1));
            return;
        }
    }

    /// Command DisconnectDoorbell.
    fn take_page(&self, queue: u32) {
        let doorbell_only = left_out(Fault::LookAtDoorbellOnly) || left_out(Fault::RetryAfterHiding);
        if !doorbell_only && !left_out(Fault::LastLook) {
            self.device.disconnect(&self.mailbox, PAGE, queue).expect("it is connected");
            return;
        }
        // The news of a last look that is left out goes nowhere.
        let nowhere = self.mailbox_aside();
        self.device.disconnect(&nowhere, PAGE, queue).expect("it is connected");
        self.mailbox.set_doorbell(queue, None);
        if let Some(write) = nowhere.open(queue).and_then(|news| news.rung)
            && doorbell_only
        {
            self.mailbox.rung(queue, write);
        }
    }

    // The device.

    /// A mailbox that the node does not read, with the same queues connected.
    fn mailbox_aside(&self) -> Mailbox {
        let aside = Mailbox::new(self.queues.len() as u32);
        for queue in 0..aside.capacity() {
            aside.set_node(queue, Some(NODE));
            aside.set_doorbell(queue, self.mailbox.doorbell_of(queue));
        }
        aside
    }

    /// Polls the page.
    fn poll(&self) -> bool {
        if left_out(Fault::Distrust) {
            let value = DoorbellValue::from_bits(self.word.swap(0, Ordering::AcqRel));
            let rung = value.into_bits() != 0;
            if rung {
                self.mailbox.rung(value.queue().into(), value.write_pointer());
                (0..self.mailbox.capacity()).for_each(|queue| self.mailbox.look(queue));
            }
            return rung;
        }
        if !left_out(Fault::Sweep) {
            return self.device.poll(&self.mailbox, 0, &|| false);
        }
        let aside = self.mailbox_aside();
        let rung = self.device.poll(&aside, 0, &|| false);
        // The queue that the value names is the first; others were looked at because a store of theirs may be hidden.
        let mut news = Vec::new();
        aside.take_inbox(NODE, &mut news);
        if rung && let Some(named) = news.first() {
            self.mailbox.look(*named);
        }
        rung
    }

    /// Command ConnectDoorbell.
    fn device_connect(&self, queue: u32) {
        let mut node = lock(&self.node);
        self.drain(&mut node);
        self.device.connect(&self.mailbox, PAGE, queue).expect("the page is free");
        if !left_out(Fault::LookAfterConnection) {
            self.look(&mut node, queue);
        }
    }

    /// Reads the write pointer.
    fn look(&self, node: &mut [Progress], queue: u32) {
        let write = self.queues[queue as usize].memory.write_pointer.load(Ordering::Acquire);
        self.observe(node, queue, write, true);
    }

    /// Takes in a write pointer.
    fn observe(&self, node: &mut [Progress], queue: u32, write: u64, trusted: bool) {
        let progress = &mut node[queue as usize];
        if write < progress.write && !trusted {
            return self.look(node, queue);
        }
        assert!(write >= progress.write, "the write pointer went back");
        let geometry = RingGeometry::new(ENTRIES).expect("the ring is legal");
        geometry.pending(write, progress.ran).expect("the write pointer is believable");
        progress.write = write;
    }

    fn drain(&self, node: &mut [Progress]) {
        self.mailbox.set_pending(NODE, false);
        let mut inbox = Vec::new();
        self.mailbox.take_inbox(NODE, &mut inbox);
        for queue in inbox {
            let Some(news) = self.mailbox.open(queue) else { continue };
            if let Some(write) = news.rung {
                self.observe(node, queue, write, false);
            }
            if news.look {
                self.look(node, queue);
            }
        }
    }

    /// Polls the page and runs what was submitted; if there is neither, looks for hidden stores. True if there was anything.
    pub(crate) fn step(&self) -> bool {
        let rung = self.poll();
        if !rung && !self.mailbox.pending(NODE) {
            return !left_out(Fault::Sweep) && self.device.sweep(&self.mailbox);
        }
        let mut node = lock(&self.node);
        self.drain(&mut node);
        let geometry = RingGeometry::new(ENTRIES).expect("the ring is legal");
        for (progress, queue) in node.iter_mut().zip(&self.queues) {
            while progress.ran < progress.write {
                let found = queue.memory.entries.commands(geometry.slot(progress.ran));
                progress.ran += 1;
                assert_eq!(found, commands(progress.ran), "the entry was not there when it was to run");
            }
        }
        true
    }

    /// Steps until there is nothing left to do.
    pub(crate) fn rest(&self) {
        let steps = (0..REST).find(|_| !self.step());
        assert!(steps.is_some(), "the device finds no rest");
    }

    /// User mode is done: the device finds everything that was submitted (`counts` by queue), each once and in order, and nothing else.
    pub(crate) fn check(&self, counts: &[u64]) {
        self.rest();
        for ((progress, queue), count) in lock(&self.node).iter().zip(0..).zip(counts) {
            assert_eq!(progress.ran, *count, "submissions of queue {queue} that ran");
        }
    }
}

/// The address of the commands of a submission.
fn commands(submission: u64) -> u64 {
    submission << 4
}
