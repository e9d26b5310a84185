//! The run list of a node: which queue with work has the node, and for how long.
//!
//! There are two levels. Queues of one process with the same band and level form a group. The groups of one such class run one after
//! another, each for a time slice of the process quantum of its band. Within a group the queues with the highest priority run one after
//! another, each for a time slice of its own quantum.
//!
//! Queues and groups that wait for the node are on lists that are linked through a table, and the classes and priorities whose lists are
//! not empty are bits of a word. So each operation costs the same however many queues there are, and only [`RunList::insert`] and
//! [`RunList::set_rank`] allocate.

use super::linked_list::{Link, Linked, List};
use super::share::{BAND_FOCUS, BAND_NORMAL, Share};
use campanile_hw::queue::QueueRank;
use std::collections::HashMap;

/// Packets of a time slice where neither descriptor nor command says otherwise.
const QUANTUM: u32 = 64;
/// Packets that a node runs at most before the run list chooses again. A time slice consists of one or more such slices.
const SLICE_PACKETS: u32 = 64;
/// Priority bands.
pub(crate) const BANDS: usize = 4;
const BAND_REALTIME: usize = 3;
/// Levels of the realtime band.
const LEVELS: u8 = 32;
/// Number of classes, which are bands and levels in one row: idle, normal, focus, and the levels of the realtime band.
const CLASSES: usize = BAND_REALTIME + LEVELS as usize;
/// Priorities within a process.
const PRIORITIES: usize = 15;
const LOWEST_PRIORITY: i8 = -7;

/// The quantum that a word of a descriptor or command asks for.
fn quantum_of(word: u32) -> u32 {
    if word == 0 { QUANTUM } else { word }
}

/// The place of a queue's rank in the order of classes and priorities. It is made of legal words only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    class: usize,
    priority: usize,
}

impl Rank {
    /// The rank that a word of a descriptor or command names; `None` if the word is not legal.
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

/// Scheduling parameters of a queue: its rank on the run list and the lengths of its time slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) rank: Rank,
    /// Packets of a time slice; 0 means [`QUANTUM`].
    pub(crate) quantum: u32,
    /// Packets that a running queue of the same process and rank may go on for when its time slice is over and this queue waits.
    pub(crate) grace_same: u32,
    /// Packets that a running queue of the same process and a lower rank may go on for while this queue waits.
    pub(crate) grace_lower: u32,
}

/// Times of a band, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BandTimes {
    /// Time slice of a process; 0 means [`QUANTUM`].
    pub(crate) process_quantum: u32,
    /// Packets that a running queue of a lower band may go on for while a queue of this band waits.
    pub(crate) grace: u32,
    /// Packets that a running queue of this band may go on for while a queue of another process is to run instead.
    pub(crate) process_grace: u32,
}

/// What the queue that has the node may run before the run list chooses again: a time slice, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) queue: u32,
    /// The most packets that may run; at least one.
    pub(crate) packets: u32,
    /// True while another queue is to have the node: the slice then ends with the command buffer in progress.
    pub(crate) ends_with_buffer: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    link: Link,
    listed: bool,
    group: u32,
    terms: Terms,
    /// Packets left of the queue's time slice; 0 before it begins.
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
    /// The number of queues that belong to the group, listed or not. A group without members is free.
    members: u32,
    /// Priorities with a listed queue, a bit each. The group is on the list of its class while there is one.
    ready: u16,
    lists: [List; PRIORITIES],
    /// Packets left of the process's time slice; 0 before it begins.
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

/// The run list of a node.
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
    /// The packets that the normal band is owed beside a busy focus band.
    share: Share,
    /// The queue that has the node. It is on no list.
    current: Option<u32>,
    /// Packets that the current queue has run since another one is to have the node.
    graced: u32,
    in_grace: bool,
}

#[derive(Debug)]
struct Classes {
    lists: [List; CLASSES],
    /// Classes with a listed group, a bit each.
    ready: u64,
}

impl Default for Classes {
    fn default() -> Self {
        Self { lists: [List::default(); CLASSES], ready: 0 }
    }
}

impl RunList {
    /// The queue that has the node.
    pub(crate) fn current(&self) -> Option<u32> {
        self.current
    }

    /// True if a queue has the node or waits for it.
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

    /// Adds a queue of `process`, which has nothing to run yet.
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
                lists: Default::default(),
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

    /// Takes a member that is not listed out of its group. A group without members becomes free.
    fn leave(&mut self, group: u32) {
        let Some(state) = self.group_mut(group) else { return };
        state.members -= 1;
        let (members, key) = (state.members, (state.process, state.class));
        self.end_time_slice(group);
        if members == 0 {
            self.by_key.remove(&key);
            self.free.push(group);
        }
    }

    /// Ends the time slice of a process if none of its queues is listed or has the node.
    fn end_time_slice(&mut self, group: u32) {
        let runs = self.current.and_then(|queue| self.entry(queue)).is_some_and(|entry| entry.group == group);
        if let Some(state) = self.group_mut(group).filter(|state| state.ready == 0 && !runs) {
            state.left = 0;
        }
    }

    /// Gives a queue other terms, which hold from the next choice on. A queue that waits for the node goes to the end of its new list if its
    /// rank is another. `None` if there is no such queue.
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

    /// Puts a queue that has work to the end of its list, unless it is listed or has the node already.
    pub(crate) fn push(&mut self, queue: u32) {
        if self.current != Some(queue) {
            self.put(queue, false);
        }
    }

    /// Puts a queue on its list: at the head if it had the node, as `again` says, and has a part of its time slice left.
    fn put(&mut self, queue: u32, again: bool) {
        let Some(entry) = self.entry_mut(queue).filter(|entry| !entry.listed) else { return };
        entry.listed = true;
        let (at, priority, first) = (entry.group, entry.terms.rank.priority, again && entry.left != 0);
        let Some(group) = self.groups.get_mut(at as usize) else { return };
        let Some(list) = group.lists.get_mut(priority) else { return };
        list.insert(&mut self.entries, queue, first);
        let listed = group.ready != 0;
        group.ready |= 1 << priority;
        let (class, left) = (group.class, group.left);
        let Some(list) = self.classes.lists.get_mut(class) else { return };
        // A process whose time slice is over goes behind the others, with all its queues.
        let over = again && left == 0;
        if listed && over {
            list.remove(&mut self.groups, at);
        }
        if !listed || over {
            list.insert(&mut self.groups, at, again && !over);
        }
        self.classes.ready |= 1 << class;
    }

    /// Takes a listed queue off its list, and its group off the list of its class if it was the last one.
    fn take_out(&mut self, queue: u32) {
        let Some(entry) = self.entry_mut(queue).filter(|entry| entry.listed) else { return };
        entry.listed = false;
        let (at, priority) = (entry.group, entry.terms.rank.priority);
        let Some(group) = self.groups.get_mut(at as usize) else { return };
        let Some(list) = group.lists.get_mut(priority) else { return };
        list.remove(&mut self.entries, queue);
        if !list.is_empty() {
            return;
        }
        group.ready &= !(1 << priority);
        if group.ready != 0 {
            return;
        }
        let class = group.class;
        let Some(list) = self.classes.lists.get_mut(class) else { return };
        list.remove(&mut self.groups, at);
        if list.is_empty() {
            self.classes.ready &= !(1 << class);
        }
    }

    /// Takes a queue off its list and off the node, and ends its time slice.
    pub(crate) fn unlist(&mut self, queue: u32) {
        if self.current == Some(queue) {
            self.current = None;
        }
        self.take_out(queue);
        let Some(entry) = self.entry_mut(queue) else { return };
        entry.left = 0;
        let group = entry.group;
        self.end_time_slice(group);
    }

    /// The class that runs first among those with a listed group.
    fn first_class(&self) -> Option<usize> {
        let highest = self.classes.ready.checked_ilog2()? as usize;
        let due = highest == BAND_FOCUS && self.share.is_due() && self.classes.ready & 1 << BAND_NORMAL != 0;
        Some(if due { BAND_NORMAL } else { highest })
    }

    /// True if queues of `class` run before queues of `other`.
    fn outranks(&self, class: usize, other: usize) -> bool {
        match (class, other) {
            (BAND_NORMAL, BAND_FOCUS) => self.share.is_due(),
            (BAND_FOCUS, BAND_NORMAL) => !self.share.is_due(),
            _ => class > other,
        }
    }

    /// True if a group other than `at` is on the list of its class.
    fn has_rivals(&self, at: u32, class: usize) -> bool {
        self.classes.lists.get(class).is_some_and(|list| !list.is_empty() && !list.holds_only(at))
    }

    /// The packets that `entry`, which has the node, may go on for before the queue that is to have the node instead; `None` if no other
    /// queue is to have it.
    fn rival_grace(&self, entry: &Entry) -> Option<u32> {
        let first = self.first_class()?;
        let group = self.group(entry.group)?;
        if self.outranks(first, group.class) {
            let band = band_of(first);
            let times = self.times.get(band)?;
            if band != band_of(group.class) {
                return Some(times.grace);
            }
            let rival = self.group(self.classes.lists.get(first)?.head)?;
            if rival.process != group.process {
                return Some(times.process_grace);
            }
            let rival = rival.lists.get(rival.highest()?)?.head;
            return Some(self.entry(rival)?.terms.grace_lower);
        }
        if first != group.class {
            return None;
        }
        if group.left == 0 && self.has_rivals(entry.group, group.class) {
            return Some(self.times.get(band_of(group.class))?.process_grace);
        }
        let highest = group.highest()?;
        let rival = &self.entry(group.lists.get(highest)?.head)?.terms;
        if highest > entry.terms.rank.priority {
            return Some(rival.grace_lower);
        }
        (highest == entry.terms.rank.priority && entry.left == 0).then_some(rival.grace_same)
    }

    /// Chooses the queue that runs next. `at_boundary` is true if the queue that has the node is between two command buffers.
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
        let group = self.group(self.classes.lists.get(self.first_class()?)?.head)?;
        let queue = group.lists.get(group.highest()?)?.head;
        self.take_out(queue);
        (self.current, self.graced, self.in_grace) = (Some(queue), 0, false);
        self.slice(queue)
    }

    /// The next slice of the queue that has the node and cannot leave it. What it runs while another queue is to have the node counts as grace.
    pub(crate) fn hold(&mut self) -> Option<Slice> {
        let queue = self.current?;
        let entry = *self.entry(queue)?;
        let Some(grace) = self.rival_grace(&entry) else {
            (self.graced, self.in_grace) = (0, false);
            return self.slice(queue);
        };
        self.in_grace = true;
        let packets = grace.saturating_sub(self.graced).clamp(1, SLICE_PACKETS);
        Some(Slice { queue, packets, ends_with_buffer: true })
    }

    /// The next slice of the queue that has the node. It begins a new time slice if nothing is left of the old one.
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

    /// Takes `packets`, which the queue that has the node ran, off its time slice and that of its process.
    pub(crate) fn charge(&mut self, packets: u32) {
        let Some(entry) = self.current.and_then(|queue| self.entries.get_mut(queue as usize)?.as_mut()) else { return };
        entry.left = entry.left.saturating_sub(packets);
        let Some(group) = self.groups.get_mut(entry.group as usize) else { return };
        group.left = group.left.saturating_sub(packets);
        if self.in_grace {
            self.graced = self.graced.saturating_add(packets);
        }
        let listed = |band: usize| self.classes.ready & 1 << band != 0;
        self.share.charge(band_of(group.class), packets, listed(BAND_NORMAL), listed(BAND_FOCUS));
    }
}

#[cfg(test)]
#[path = "run_list_tests.rs"]
mod tests;
