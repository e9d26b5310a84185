//! The run list of a node: which queue with work has the node, and for how long.
//!
//! Two levels. Queues of one process with the same band and level form a group; the groups of such a class take turns of the process
//! quantum of their band. Within a group the queues with the highest priority run, and take turns of their own quanta.
//!
//! Whatever has a place stands in a list that is linked through a table, and the classes and priorities with somebody in them are bits
//! of a word: each operation costs the same however many queues there are, and none allocates but [`RunList::insert`] and
//! [`RunList::set_rank`].

use super::line::{Line, Link, Linked};
use super::share::{BAND_FOCUS, BAND_NORMAL, Share};
use campanile_hw::queue::QueueRank;
use std::collections::HashMap;

/// Packets of a turn where nothing says otherwise.
const QUANTUM: u32 = 64;
/// Packets that one slice runs at most.
const SLICE_PACKETS: u32 = 64;
/// Priority bands.
pub(crate) const BANDS: usize = 4;
const BAND_REALTIME: usize = 3;
/// Levels of the realtime band.
const LEVELS: u8 = 32;
/// Bands and levels in one row: idle, normal, focus, and the levels of the realtime band.
const CLASSES: usize = BAND_REALTIME + LEVELS as usize;
/// Priorities within a process.
const PRIORITIES: usize = 15;
const LOWEST_PRIORITY: i8 = -7;

/// The quantum that a word of a descriptor or command asks for.
fn quantum_of(word: u32) -> u32 {
    if word == 0 { QUANTUM } else { word }
}

/// Where a queue stands among others. Made only of legal words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    class: usize,
    priority: usize,
}

impl Rank {
    /// `None` for a word that breaks a rule.
    pub(crate) fn of(word: u32) -> Option<Self> {
        let rank = QueueRank::from_bits(word);
        let band = usize::from(rank.band());
        let level_legal = if band == BAND_REALTIME { rank.level() < LEVELS } else { rank.level() == 0 };
        let priority = usize::try_from(rank.in_process().checked_sub(LOWEST_PRIORITY)?).ok()?;
        let legal = word >> 24 == 0 && band < BANDS && level_legal && priority < PRIORITIES;
        legal.then_some(Self { class: band + usize::from(rank.level()), priority })
    }
}

fn band_of(class: usize) -> usize {
    class.min(BAND_REALTIME)
}

/// What decides about the turns of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) rank: Rank,
    /// Packets of a turn, 0 for the usual ones.
    pub(crate) quantum: u32,
    /// Packets that one of the same process and rank may go on for when its turn is over.
    pub(crate) grace_same: u32,
    /// Packets that one of the same process and a lower rank may go on for.
    pub(crate) grace_lower: u32,
}

/// Times of a band, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BandTimes {
    /// Turn of a process, 0 for the usual one.
    pub(crate) process_quantum: u32,
    /// Grace of lower bands.
    pub(crate) grace: u32,
    /// Grace between processes.
    pub(crate) process_grace: u32,
}

/// What the queue that has the node may do before the next choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) queue: u32,
    /// Packets at most, at least one.
    pub(crate) packets: u32,
    /// Another one is to have the node: the slice ends with the command buffer in progress.
    pub(crate) ends_with_buffer: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    link: Link,
    listed: bool,
    group: u32,
    terms: Terms,
    /// Packets left of this turn.
    left: u32,
}

impl Linked for Option<Entry> {
    fn link(&mut self) -> Option<&mut Link> {
        self.as_mut().map(|entry| &mut entry.link)
    }
}

#[derive(Clone, Copy, Debug)]
struct Group {
    link: Link,
    process: u32,
    class: usize,
    /// Queues that belong to it, listed or not. A group without any is free.
    members: u32,
    /// Priorities with a listed queue, a bit each. The group is listed while there is one.
    ready: u16,
    lines: [Line; PRIORITIES],
    /// Packets left of the process's turn.
    left: u32,
}

impl Linked for Group {
    fn link(&mut self) -> Option<&mut Link> {
        Some(&mut self.link)
    }
}

impl Group {
    fn highest(&self) -> Option<usize> {
        self.ready.checked_ilog2().map(|priority| priority as usize)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RunList {
    /// Queues by number.
    entries: Vec<Option<Entry>>,
    groups: Vec<Group>,
    /// Groups without members, to be used again.
    free: Vec<u32>,
    /// Groups by process and class.
    by_key: HashMap<(u32, usize), u32>,
    classes: Classes,
    times: [BandTimes; BANDS],
    /// What the normal band is owed.
    share: Share,
    /// The queue that has the node. It is not listed.
    current: Option<u32>,
    /// Packets that it has run since another one is to have the node.
    graced: u32,
    in_grace: bool,
}

#[derive(Debug)]
struct Classes {
    lines: [Line; CLASSES],
    /// Classes with a listed group, a bit each.
    ready: u64,
}

impl Default for Classes {
    fn default() -> Self {
        Self { lines: [Line::default(); CLASSES], ready: 0 }
    }
}

impl RunList {
    /// The queue that has the node.
    pub(crate) fn current(&self) -> Option<u32> {
        self.current
    }

    /// Some queue could run.
    pub(crate) fn has_runnable(&self) -> bool {
        self.current.is_some() || self.classes.ready != 0
    }

    pub(crate) fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    pub(crate) fn set_times(&mut self, band: usize, times: BandTimes) {
        if let Some(known) = self.times.get_mut(band) {
            *known = times;
        }
    }

    fn entry(&self, queue: u32) -> Option<&Entry> {
        self.entries.get(queue as usize)?.as_ref()
    }

    fn entry_mut(&mut self, queue: u32) -> Option<&mut Entry> {
        self.entries.get_mut(queue as usize)?.as_mut()
    }

    fn group(&self, group: u32) -> Option<&Group> {
        self.groups.get(group as usize)
    }

    fn group_mut(&mut self, group: u32) -> Option<&mut Group> {
        self.groups.get_mut(group as usize)
    }

    /// A queue of this process, which has nothing to run yet.
    pub(crate) fn insert(&mut self, queue: u32, process: u32, terms: Terms) {
        self.remove(queue);
        let at = queue as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, None);
        }
        let group = self.join(process, terms.rank.class);
        if let Some(slot) = self.entries.get_mut(at) {
            *slot = Some(Entry { link: Link::default(), listed: false, group, terms, left: 0 });
        }
    }

    /// Forgets a queue.
    pub(crate) fn remove(&mut self, queue: u32) {
        self.unlist(queue);
        if let Some(entry) = self.entries.get_mut(queue as usize).and_then(Option::take) {
            self.leave(entry.group);
        }
    }

    fn join(&mut self, process: u32, class: usize) -> u32 {
        let known = self.by_key.get(&(process, class)).copied();
        let group = known.unwrap_or_else(|| {
            let fresh = Group {
                link: Link::default(),
                process,
                class,
                members: 0,
                ready: 0,
                lines: Default::default(),
                left: 0,
            };
            let at = match self.free.pop() {
                Some(at) => at,
                None => self.groups.len() as u32,
            };
            match self.groups.get_mut(at as usize) {
                Some(slot) => *slot = fresh,
                None => self.groups.push(fresh),
            }
            self.by_key.insert((process, class), at);
            at
        });
        if let Some(group) = self.group_mut(group) {
            group.members += 1;
        }
        group
    }

    /// A member that is not listed leaves its group.
    fn leave(&mut self, group: u32) {
        let Some(state) = self.group_mut(group) else { return };
        state.members -= 1;
        let (members, key) = (state.members, (state.process, state.class));
        self.end_turn(group);
        if members == 0 {
            self.by_key.remove(&key);
            self.free.push(group);
        }
    }

    /// The turn of a process ends when none of its queues is listed or has the node.
    fn end_turn(&mut self, group: u32) {
        let runs = self.current.and_then(|queue| self.entry(queue)).is_some_and(|entry| entry.group == group);
        if let Some(state) = self.group_mut(group).filter(|state| state.ready == 0 && !runs) {
            state.left = 0;
        }
    }

    /// Gives a queue other terms, from the next choice on. One that waits for the node goes to the end of its new line if its rank is
    /// another. `None` if there is no such queue.
    pub(crate) fn set_rank(&mut self, queue: u32, terms: Terms) -> Option<()> {
        let entry = self.entry_mut(queue)?;
        let (old, was_listed) = (entry.terms, entry.listed);
        entry.left = entry.left.min(quantum_of(terms.quantum));
        if old.rank == terms.rank {
            entry.terms = terms;
            return Some(());
        }
        let (from, left) = (entry.group, entry.left);
        if was_listed {
            self.take_out(queue);
        }
        let process = self.group(from)?.process;
        let group = self.join(process, terms.rank.class);
        let entry = self.entry_mut(queue)?;
        (entry.terms, entry.group, entry.left) = (terms, group, left);
        self.leave(from);
        if was_listed {
            self.push(queue);
        }
        Some(())
    }

    /// A queue has work: it goes to the end of its line, unless it is listed or has the node already.
    pub(crate) fn push(&mut self, queue: u32) {
        if self.current != Some(queue) {
            self.put(queue, false);
        }
    }

    /// Lists a queue, at the head of its line if it has a part of its turn left and `again` says that it had the node.
    fn put(&mut self, queue: u32, again: bool) {
        let Some(entry) = self.entry_mut(queue).filter(|entry| !entry.listed) else { return };
        entry.listed = true;
        let (at, priority, first) = (entry.group, entry.terms.rank.priority, again && entry.left != 0);
        let Some(group) = self.groups.get_mut(at as usize) else { return };
        let Some(line) = group.lines.get_mut(priority) else { return };
        line.insert(&mut self.entries, queue, first);
        let listed = group.ready != 0;
        group.ready |= 1 << priority;
        let (class, left) = (group.class, group.left);
        let Some(line) = self.classes.lines.get_mut(class) else { return };
        // A process whose turn is over goes behind the others, with all its queues.
        let over = again && left == 0;
        if listed && over {
            line.remove(&mut self.groups, at);
        }
        if !listed || over {
            line.insert(&mut self.groups, at, again && !over);
        }
        self.classes.ready |= 1 << class;
    }

    /// Takes a listed queue out of its line, and its group out of its own if it was the last one.
    fn take_out(&mut self, queue: u32) {
        let Some(entry) = self.entry_mut(queue).filter(|entry| entry.listed) else { return };
        entry.listed = false;
        let (at, priority) = (entry.group, entry.terms.rank.priority);
        let Some(group) = self.groups.get_mut(at as usize) else { return };
        let Some(line) = group.lines.get_mut(priority) else { return };
        line.remove(&mut self.entries, queue);
        if !line.is_empty() {
            return;
        }
        group.ready &= !(1 << priority);
        if group.ready != 0 {
            return;
        }
        let class = group.class;
        let Some(line) = self.classes.lines.get_mut(class) else { return };
        line.remove(&mut self.groups, at);
        if line.is_empty() {
            self.classes.ready &= !(1 << class);
        }
    }

    /// Takes a queue off its line and off the node. Its turn is over.
    pub(crate) fn unlist(&mut self, queue: u32) {
        if self.current == Some(queue) {
            self.current = None;
        }
        self.take_out(queue);
        let Some(entry) = self.entry_mut(queue) else { return };
        entry.left = 0;
        let group = entry.group;
        self.end_turn(group);
    }

    /// The class that goes first among those with a listed group.
    fn first_class(&self) -> Option<usize> {
        let highest = self.classes.ready.checked_ilog2()? as usize;
        let due = highest == BAND_FOCUS && self.share.is_due() && self.classes.ready & 1 << BAND_NORMAL != 0;
        Some(if due { BAND_NORMAL } else { highest })
    }

    /// Whether a class goes before another one.
    fn outranks(&self, class: usize, other: usize) -> bool {
        match (class, other) {
            (BAND_NORMAL, BAND_FOCUS) => self.share.is_due(),
            (BAND_FOCUS, BAND_NORMAL) => !self.share.is_due(),
            _ => class > other,
        }
    }

    /// Another group than this one is listed in its class.
    fn has_rivals(&self, at: u32, class: usize) -> bool {
        self.classes.lines.get(class).is_some_and(|line| !line.is_empty() && !line.holds_only(at))
    }

    /// The grace of `entry`, which has the node, before the one that is to have it instead; `None` if nobody is.
    fn rival_grace(&self, entry: &Entry) -> Option<u32> {
        let first = self.first_class()?;
        let group = self.group(entry.group)?;
        if self.outranks(first, group.class) {
            let band = band_of(first);
            let times = self.times.get(band)?;
            if band != band_of(group.class) {
                return Some(times.grace);
            }
            let rival = self.group(self.classes.lines.get(first)?.head)?;
            if rival.process != group.process {
                return Some(times.process_grace);
            }
            let rival = rival.lines.get(rival.highest()?)?.head;
            return Some(self.entry(rival)?.terms.grace_lower);
        }
        if first != group.class {
            return None;
        }
        if group.left == 0 && self.has_rivals(entry.group, group.class) {
            return Some(self.times.get(band_of(group.class))?.process_grace);
        }
        let highest = group.highest()?;
        let rival = &self.entry(group.lines.get(highest)?.head)?.terms;
        if highest > entry.terms.rank.priority {
            return Some(rival.grace_lower);
        }
        (highest == entry.terms.rank.priority && entry.left == 0).then_some(rival.grace_same)
    }

    /// Chooses who runs next. `at_boundary` says that the queue that has the node is between two command buffers.
    pub(crate) fn choose(&mut self, at_boundary: bool) -> Option<Slice> {
        if let Some(queue) = self.current {
            let entry = *self.entry(queue)?;
            let Some(grace) = self.rival_grace(&entry) else {
                (self.graced, self.in_grace) = (0, false);
                return self.slice(queue);
            };
            let grace = grace.saturating_sub(self.graced);
            if grace != 0 && !at_boundary {
                self.in_grace = true;
                return Some(Slice { queue, packets: grace.min(SLICE_PACKETS), ends_with_buffer: true });
            }
            self.current = None;
            self.put(queue, true);
        }
        let group = self.group(self.classes.lines.get(self.first_class()?)?.head)?;
        let queue = group.lines.get(group.highest()?)?.head;
        self.take_out(queue);
        (self.current, self.graced, self.in_grace) = (Some(queue), 0, false);
        self.slice(queue)
    }

    /// The next slice of the queue that has the node, of a new turn if it has nothing left of the old one.
    fn slice(&mut self, queue: u32) -> Option<Slice> {
        let entry = self.entries.get_mut(queue as usize)?.as_mut()?;
        let group = self.groups.get_mut(entry.group as usize)?;
        let band = band_of(group.class);
        if entry.left == 0 {
            entry.left = quantum_of(entry.terms.quantum);
        }
        if group.left == 0 {
            group.left = quantum_of(self.times.get(band)?.process_quantum);
        }
        let (mine, ours, at, class) = (entry.left, group.left, entry.group, group.class);
        let peers = group.ready & 1 << entry.terms.rank.priority != 0;
        let mut packets = SLICE_PACKETS.min(self.share.limit(band));
        if peers {
            packets = packets.min(mine);
        }
        if self.has_rivals(at, class) {
            packets = packets.min(ours);
        }
        Some(Slice { queue, packets, ends_with_buffer: false })
    }

    /// The queue that has the node ran so many packets.
    pub(crate) fn charge(&mut self, packets: u32) {
        let Some(entry) = self.current.and_then(|queue| self.entries.get_mut(queue as usize)?.as_mut()) else { return };
        entry.left = entry.left.saturating_sub(packets);
        let Some(group) = self.groups.get_mut(entry.group as usize) else { return };
        group.left = group.left.saturating_sub(packets);
        if self.in_grace {
            self.graced = self.graced.saturating_add(packets);
        }
        let listed = |band: usize| self.classes.ready & 1 << band != 0;
        self.share.charge(band_of(group.class), packets, (listed(BAND_NORMAL), listed(BAND_FOCUS)));
    }
}

#[cfg(test)]
#[path = "run_list_tests.rs"]
mod tests;
