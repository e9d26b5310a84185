//! Doorbells: the poll set of connected pages.
//!
//! A dedicated page belongs to one queue and the value stored is its write pointer. The global page serves all queues that are connected to
//! it; the value names the queue, and because any process can store there, the write pointer is always taken from that queue's own
//! ring-control page. A value is taken out of the global page when it is seen: a process may have guessed the next value of another process
//! and stored it early, and the true store would otherwise change nothing. A store to the global page can overwrite another one before it
//! is seen, therefore after each store the queues connected to it are looked at one after the other, slowly while the function is busy,
//! however hard it is rung.
//!
//! In a function that does not poll (`Caps::notify_doorbells`) pages are connected all the same, and only commands look at write pointers.

use super::mailbox::Mailbox;
use super::sync::{AtomicU64, AtomicUsize, HostMapping, Mutex, lock};
use campanile_hw::doorbell::{DOORBELL_PAGE_SIZE, DoorbellValue, WORD_OFFSET};
use campanile_hw::registers::NODES;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Pages rung lately, which every step looks at.
const HOT: usize = 4;
/// Cold pages that are looked at, one after another, between two looks at the pages that were rung lately.
const COLD: usize = 4;
/// Looks that a step with nothing else to do makes at most.
const LOOKS: usize = 16;
/// Queues of the global doorbell looked at in one idle step.
const IDLE_SWEEP: usize = 4;

/// Mask of every node.
const ALL_NODES: u32 = (1 << NODES) - 1;

/// Called for each store that is found: true if an injected fault makes the scheduler ignore it.
type Missed<'a> = &'a dyn Fn() -> bool;

/// Error of a command that connects or disconnects a doorbell: the page is out of range or in use, or the queue has another doorbell or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadDoorbell;

/// A page that is polled.
#[derive(Clone, Copy, Debug)]
struct Connection {
    page: u32,
    /// The queue of a dedicated page.
    queue: u32,
    /// Nodes of which one must be awake for the page to be looked at, a bit each.
    nodes: u32,
    /// Word seen last on a dedicated page.
    seen: u64,
}

#[derive(Debug, Default)]
struct Table {
    /// The first [`HOT`] are those rung lately, or were connected when there were no others.
    connected: Vec<Connection>,
    /// Place in `connected` by page.
    places: Vec<Option<u32>>,
    /// The cold page that is looked at next.
    cursor: usize,
    /// True if the last look skipped the cold pages, so that the next one must not.
    put_off: bool,
    /// The hot place that the next cold page to be rung gets.
    next_hot: usize,
    /// Queues that are connected to the global page.
    armed: Armed,
}

/// Queues of the global page, in a circle: a search goes on where it stopped, whichever queues join or leave meanwhile.
#[derive(Debug, Default)]
struct Armed {
    /// A queue that left has left a gap, so that places go on to mean the same queues.
    circle: Vec<Option<u32>>,
    /// Place in `circle` by queue.
    places: HashMap<u32, usize>,
    gaps: Vec<usize>,
    /// The place that was looked at last.
    at: usize,
    /// Places that the search has still to look at.
    left: usize,
    /// Places that were ever looked at.
    looked: u64,
}

impl Armed {
    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn add(&mut self, queue: u32) {
        let place = match self.gaps.pop() {
            // The search comes there or has been there: the queue is looked at when it is connected.
            Some(gap) => gap,
            None => {
                self.circle.push(None);
                // The new place lies in front of the last ones that a search goes to, if it goes round.
                if self.left != 0 {
                    self.left += 1;
                }
                self.circle.len() - 1
            }
        };
        if let Some(slot) = self.circle.get_mut(place) {
            *slot = Some(queue);
        }
        self.places.insert(queue, place);
    }

    fn remove(&mut self, queue: u32) {
        let Some(place) = self.places.remove(&queue) else { return };
        if let Some(slot) = self.circle.get_mut(place) {
            *slot = None;
        }
        self.gaps.push(place);
        // Few queues in a circle full of gaps would be found late. Each queue that left pays for one place that is moved.
        if self.gaps.len() > self.places.len() {
            self.close_gaps();
        }
    }

    fn close_gaps(&mut self) {
        self.circle.retain(Option::is_some);
        self.gaps.clear();
        self.places = self.circle.iter().enumerate().filter_map(|(place, queue)| Some(((*queue)?, place))).collect();
        // Places mean other queues now.
        if self.left != 0 {
            self.begin();
        }
    }

    /// Has every queue looked at.
    fn begin(&mut self) {
        self.left = self.circle.len();
    }

    /// Looks at up to `most` places. True if there were some.
    fn search(&mut self, most: usize, mut look: impl FnMut(u32)) -> bool {
        let count = self.left.min(most).min(self.circle.len());
        for _ in 0..count {
            self.at = (self.at + 1) % self.circle.len();
            if let Some(queue) = self.circle.get(self.at).copied().flatten() {
                look(queue);
            }
        }
        self.left -= count;
        self.looked += count as u64;
        count > 0
    }
}

impl Table {
    /// Exchanges two connections.
    fn swap(&mut self, one: usize, other: usize) {
        self.connected.swap(one, other);
        for place in [one, other] {
            let page = self.connected.get(place).map(|connection| connection.page);
            if let Some(slot) = page.and_then(|page| self.places.get_mut(page as usize)) {
                *slot = Some(place as u32);
            }
        }
    }

    /// Looks at up to `most` of the queues whose stores to the global page may have been overwritten. True if there were some.
    fn sweep(&mut self, mailbox: &Mailbox, most: usize) -> bool {
        self.armed.search(most, |queue| mailbox.look(queue))
    }

    /// Makes the cold connection at `place` hot instead of the one that has been hot for longest.
    fn heat(&mut self, place: usize) {
        let cooled = self.next_hot;
        self.next_hot = (cooled + 1) % HOT;
        self.swap(cooled, place);
    }
}

/// All doorbells of the function.
#[derive(Debug)]
pub(crate) struct Doorbells {
    pages: HostMapping,
    count: u32,
    global: bool,
    /// True if the function polls the pages; false with `Caps::notify_doorbells`.
    polled: bool,
    table: Mutex<Table>,
    connected: AtomicUsize,
    /// Written under the lock of the table only.
    rings: AtomicU64,
    /// Written under the lock of the table only.
    reads: AtomicU64,
}

/// Adds to a counter that only the holder of the lock writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Doorbells {
    /// `count` doorbells, or one global one, on `pages`.
    pub(crate) fn new(pages: HostMapping, count: u32, global: bool) -> Self {
        let table = Table { places: vec![None; count as usize], ..Table::default() };
        Self {
            pages,
            count,
            global,
            polled: true,
            table: Mutex::new(table),
            connected: AtomicUsize::new(0),
            rings: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// The same doorbells, on a function that does not poll their pages: only commands find what is in a ring.
    pub(crate) fn unpolled(self) -> Self {
        Self { polled: false, ..self }
    }

    /// True if a page is connected that this function polls.
    fn has_pages_to_poll(&self) -> bool {
        self.polled && self.connected.load(Ordering::Acquire) != 0
    }

    #[inline]
    fn word(&self, page: u32) -> u64 {
        self.pages.load(u64::from(page) * DOORBELL_PAGE_SIZE + WORD_OFFSET).unwrap_or(0)
    }

    /// The word of the global page, which is zero again afterwards.
    fn take_word(&self, page: u32) -> u64 {
        let at = u64::from(page) * DOORBELL_PAGE_SIZE + WORD_OFFSET;
        self.pages.span(at, 8, true).and_then(|span| span.take(0)).unwrap_or(0)
    }

    /// Zeroes a page, so that the process that gets it next reads nothing of what its last owner has left there.
    fn clear_page(&self, page: u32) {
        if let Some(span) = self.pages.span(u64::from(page) * DOORBELL_PAGE_SIZE, DOORBELL_PAGE_SIZE, true) {
            for offset in (0..DOORBELL_PAGE_SIZE).step_by(8).filter(|offset| span.load(*offset) != Some(0)) {
                span.store(offset, 0);
            }
        }
    }

    /// Rings seen since reset.
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    /// Doorbell words read since reset.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// The number of doorbells that are connected, and of those whose page has a word that is not 0.
    pub(crate) fn held(&self) -> (usize, usize) {
        let _table = lock(&self.table);
        let rung = (0..self.count).filter(|page| self.word(*page) != 0).count();
        (self.connected.load(Ordering::Acquire), rung)
    }

    /// Passes on a store that was not seen yet. True if there was one.
    #[inline]
    fn examine(&self, mailbox: &Mailbox, connection: &mut Connection, missed: Missed<'_>) -> bool {
        let word = self.word(connection.page);
        word != connection.seen && self.pass_on(mailbox, connection, word, missed)
    }

    #[cold]
    fn pass_on(&self, mailbox: &Mailbox, connection: &mut Connection, mut word: u64, missed: Missed<'_>) -> bool {
        if self.global {
            word = self.take_word(connection.page);
        } else {
            connection.seen = word;
        }
        if missed() {
            return false;
        }
        if self.global {
            let queue = u32::from(DoorbellValue::from_bits(word).queue());
            if mailbox.doorbell_of(queue).is_some() {
                mailbox.look(queue);
            }
        } else {
            mailbox.rung(connection.queue, DoorbellValue::from_bits(word).write_pointer());
        }
        add(&self.rings, 1);
        true
    }

    /// True if a page is connected that has to be polled while the nodes `asleep` (a bit each) are in F1.
    pub(crate) fn listens(&self, asleep: u32) -> bool {
        if !self.has_pages_to_poll() {
            return false;
        }
        let table = lock(&self.table);
        table.armed.left != 0 || table.connected.iter().any(|connection| connection.nodes & !asleep != 0)
    }

    /// Looks at the pages rung lately and at some of the others, so that a step costs the same however many are connected. Pages
    /// whose nodes are all `asleep` (a bit each) are left alone. True if one was stored to.
    pub(crate) fn poll(&self, mailbox: &Mailbox, asleep: u32, missed: Missed<'_>) -> bool {
        if !self.has_pages_to_poll() || asleep == ALL_NODES {
            return false;
        }
        self.table.try_lock().is_ok_and(|mut table| self.look(&mut table, mailbox, asleep, missed))
    }

    /// Looks once at the pages that were rung lately and at the next [`COLD`] others.
    fn look(&self, table: &mut Table, mailbox: &Mailbox, asleep: u32, missed: Missed<'_>) -> bool {
        let (mut rung, mut reads) = (false, 0);
        let mut examine = |connection: &mut Connection| {
            let awake = connection.nodes & !asleep != 0;
            reads += u64::from(awake);
            awake && self.examine(mailbox, connection, missed)
        };
        for connection in table.connected.iter_mut().take(HOT) {
            rung |= examine(connection);
        }
        // Work that was just rung comes first, but not twice running.
        table.put_off = rung && !table.put_off;
        let most = if table.put_off { 0 } else { COLD };
        let start = if table.cursor < table.connected.len() { table.cursor.max(HOT) } else { HOT };
        let end = (start + most).min(table.connected.len());
        table.cursor = end.max(HOT);
        for place in start..end {
            if table.connected.get_mut(place).is_some_and(&mut examine) {
                rung = true;
                table.heat(place);
            }
        }
        add(&self.reads, reads);
        if self.global {
            if rung {
                table.armed.begin();
            }
            table.sweep(mailbox, 1);
        }
        rung
    }

    /// For a function with nothing else to do: looks at every page once, and at those rung lately all the while, so that neither
    /// is a quiet page overlooked nor does a busy one wait for the quiet ones. True if one was stored to.
    pub(crate) fn search(&self, mailbox: &Mailbox, asleep: u32, missed: Missed<'_>) -> bool {
        let cold = self.connected.load(Ordering::Acquire).saturating_sub(HOT);
        if !self.polled || cold == 0 || asleep == ALL_NODES {
            return false;
        }
        let Ok(mut table) = self.table.try_lock() else { return false };
        if cold <= LOOKS * COLD {
            // From the first on, so that these looks reach all of them.
            table.cursor = HOT;
        }
        (0..cold.div_ceil(COLD).min(LOOKS)).any(|_| self.look(&mut table, mailbox, asleep, missed))
    }

    /// For a function with nothing else to do: looks for stores to the global page that were overwritten unseen. True while there may
    /// be some.
    pub(crate) fn sweep(&self, mailbox: &Mailbox) -> bool {
        self.global && lock(&self.table).sweep(mailbox, IDLE_SWEEP)
    }

    /// Checks that `queue` could be connected to doorbell `page` now.
    pub(crate) fn check(&self, mailbox: &Mailbox, page: u32, queue: u32) -> Result<(), BadDoorbell> {
        let table = lock(&self.table);
        let taken = !self.global && table.places.get(page as usize).copied().flatten().is_some();
        if page >= self.count || taken || mailbox.doorbell_of(queue).is_some() { Err(BadDoorbell) } else { Ok(()) }
    }

    /// Connects `queue` to doorbell `page` and clears the page, unless others use it already.
    pub(crate) fn connect(&self, mailbox: &Mailbox, page: u32, queue: u32) -> Result<(), BadDoorbell> {
        self.check(mailbox, page, queue)?;
        let mut table = lock(&self.table);
        let place = table.connected.len() as u32;
        let slot = table.places.get_mut(page as usize).ok_or(BadDoorbell)?;
        if slot.is_none() {
            *slot = Some(place);
            self.clear_page(page);
            let nodes = if self.global { ALL_NODES } else { mailbox.node_of(queue).map_or(0, |node| 1 << node) };
            table.connected.push(Connection { page, queue, nodes, seen: 0 });
        }
        if self.global {
            table.armed.add(queue);
        }
        mailbox.set_doorbell(queue, Some(page));
        self.connected.store(table.connected.len(), Ordering::Release);
        Ok(())
    }

    /// Disconnects `queue` from doorbell `page`. Whatever was submitted before is found, by a last look at the
    /// queue's write pointer; later stores are ignored.
    pub(crate) fn disconnect(&self, mailbox: &Mailbox, page: u32, queue: u32) -> Result<(), BadDoorbell> {
        if mailbox.doorbell_of(queue) != Some(page) {
            return Err(BadDoorbell);
        }
        let mut table = lock(&self.table);
        let table = &mut *table;
        let place = table.places.get(page as usize).copied().flatten().ok_or(BadDoorbell)?;
        let connection = table.connected.get_mut(place as usize).filter(|_| self.polled);
        let rung = connection.is_some_and(|connection| self.examine(mailbox, connection, &|| false));
        if self.global {
            table.armed.remove(queue);
            // The store that was taken out may have hidden one of a queue that stays.
            if rung {
                table.armed.begin();
            }
        }
        // The store to the page may still be on its way when user mode reads its status, but the write pointer is not.
        mailbox.look(queue);
        mailbox.set_doorbell(queue, None);
        if table.armed.is_empty() {
            table.connected.swap_remove(place as usize);
            if let Some(slot) = table.places.get_mut(page as usize) {
                *slot = None;
            }
            let moved = table.connected.get(place as usize).map(|connection| connection.page);
            if let Some(slot) = moved.and_then(|page| table.places.get_mut(page as usize)) {
                *slot = Some(place);
            }
        }
        self.connected.store(table.connected.len(), Ordering::Release);
        Ok(())
    }

    /// Disconnects everything.
    pub(crate) fn reset(&self) {
        let mut table = lock(&self.table);
        *table = Table { places: vec![None; self.count as usize], ..Table::default() };
        self.connected.store(0, Ordering::Release);
        self.rings.store(0, Ordering::Relaxed);
        self.reads.store(0, Ordering::Relaxed);
        (0..self.count).for_each(|page| self.clear_page(page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn taking_queues_off_a_search_costs_no_more_than_there_are() {
        const QUEUES: u32 = 4096;
        let mut armed = Armed::default();
        (0..QUEUES).for_each(|queue| armed.add(queue));
        armed.begin();
        for queue in 0..QUEUES {
            armed.search(1, |_| ());
            armed.remove(queue);
        }
        while armed.search(1, |_| ()) {}
        assert!(armed.is_empty());
        assert!(armed.looked <= 3 * u64::from(QUEUES), "{} places were looked at", armed.looked);
    }

    #[test]
    fn a_circle_that_most_queues_have_left_is_searched_as_if_they_had_not_been_there() {
        for queues in [64, 65] {
            let mut armed = Armed::default();
            (0..queues).for_each(|queue| armed.add(queue));
            (1..queues).for_each(|queue| armed.remove(queue));
            armed.begin();
            let mut found = Vec::new();
            while armed.search(1, |queue| found.push(queue)) {}
            assert_eq!(found, [0]);
            assert!(armed.looked <= 2, "{} places were looked at, of {queues} queues before", armed.looked);
        }
    }

    #[test]
    fn a_page_that_is_rung_is_hot_instead_of_the_one_that_was_hot_for_longest() {
        let connection = |page| Connection { page, queue: page, nodes: ALL_NODES, seen: 0 };
        let places = (0..12).map(Some).collect();
        let mut table = Table { connected: (0..12).map(connection).collect(), places, ..Table::default() };
        for (rung, expected) in
            [(4, [4, 1, 2, 3]), (5, [4, 5, 2, 3]), (9, [4, 5, 9, 3]), (0, [4, 5, 9, 0]), (7, [7, 5, 9, 0])]
        {
            let place = table.places[rung as usize].expect("a place");
            table.heat(place as usize);
            let hot: Vec<u32> = table.connected.iter().take(HOT).map(|connection| connection.page).collect();
            assert_eq!(hot, expected, "after page {rung} was rung");
            let found = |(page, place): (usize, &Option<u32>)| {
                place.is_some_and(|place| table.connected[place as usize].page as usize == page)
            };
            assert!(table.places.iter().enumerate().all(found), "{:?}", table.places);
        }
    }

    #[test]
    fn a_search_finds_everybody_who_was_there_at_its_beginning_and_stays() {
        let mut state = 0x1234_5678_9abc_def1_u64;
        let mut below = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        for _ in 0..500 {
            let mut armed = Armed::default();
            let mut there: HashSet<u32> = (0..1 + below(40) as u32).collect();
            there.iter().for_each(|queue| armed.add(*queue));
            for _ in 0..below(50) {
                armed.search(1, |_| ());
            }
            armed.begin();
            let (mut wanted, mut next, mut found) = (there.clone(), 1000, HashSet::new());
            while armed.left != 0 {
                match below(4) {
                    0 => {
                        armed.add(next);
                        there.insert(next);
                        next += 1;
                    }
                    1 => {
                        if let Some(queue) = there.iter().next().copied() {
                            there.remove(&queue);
                            wanted.remove(&queue);
                            armed.remove(queue);
                        }
                    }
                    _ => {
                        armed.search(1 + below(3) as usize, |queue| {
                            found.insert(queue);
                        });
                    }
                }
            }
            assert!(wanted.is_subset(&found), "{wanted:?} {found:?}");
            assert!(found.iter().all(|queue| *queue < next));
        }
    }
}
