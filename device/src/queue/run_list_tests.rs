//! The run list against a plain model that searches through vectors, and its shares counted.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A rank by band, level and priority within the process.
fn rank(band: u8, level: u8, in_process: i8) -> Rank {
    let word = QueueRank::new().with_band(band).with_level(level).with_in_process(in_process);
    Rank::of(word.into_bits()).expect("legal")
}

fn terms(rank: Rank, quantum: u32) -> Terms {
    Terms { rank, quantum, grace_same: 0, grace_lower: 0 }
}

#[test]
fn words_are_ranks_or_refused() {
    for (word, class, priority) in [
        (QueueRank::new(), 0, 7),
        (QueueRank::new().with_band(2).with_in_process(-7), 2, 0),
        (QueueRank::new().with_band(3).with_in_process(7), 3, 14),
        (QueueRank::new().with_band(3).with_level(31), 34, 7),
    ] {
        assert_eq!(Rank::of(word.into_bits()), Some(Rank { class, priority }));
    }
    for word in [
        QueueRank::new().with_band(4),
        QueueRank::new().with_band(255),
        QueueRank::new().with_band(3).with_level(32),
        QueueRank::new().with_band(2).with_level(1),
        QueueRank::new().with_in_process(8),
        QueueRank::new().with_in_process(-8),
        QueueRank::new().with_in_process(i8::MAX),
        QueueRank::new().with_in_process(i8::MIN),
        QueueRank::from_bits(1 << 24),
    ] {
        assert_eq!(Rank::of(word.into_bits()), None, "{word:?}");
    }
}

#[derive(Clone, Debug)]
struct ModelQueue {
    process: u32,
    terms: Terms,
    left: u32,
}

type GroupKey = (u32, usize);

/// The rules once more, in the simplest form: searches where the run list has links and bits.
#[derive(Default)]
struct Model {
    queues: BTreeMap<u32, ModelQueue>,
    /// Queues that wait for the node, the next one of equals first.
    order: Vec<u32>,
    /// Processes in each class with a queue that waits for the node, the next one of equals first.
    groups: Vec<GroupKey>,
    process_left: BTreeMap<GroupKey, u32>,
    times: [BandTimes; BANDS],
    share: Share,
    current: Option<u32>,
    graced: u32,
    in_grace: bool,
}

impl Model {
    fn group_of(&self, queue: u32) -> GroupKey {
        let queue = &self.queues[&queue];
        (queue.process, queue.terms.rank.class)
    }

    fn left_of(&self, group: GroupKey) -> u32 {
        self.process_left.get(&group).copied().unwrap_or(0)
    }

    fn put(&mut self, queue: u32, again: bool) {
        if self.order.contains(&queue) {
            return;
        }
        let at = if again && self.queues[&queue].left != 0 { 0 } else { self.order.len() };
        self.order.insert(at, queue);
        let group = self.group_of(queue);
        let over = self.left_of(group) == 0;
        if again && over {
            self.groups.retain(|other| *other != group);
        }
        if !self.groups.contains(&group) {
            let at = if again && !over { 0 } else { self.groups.len() };
            self.groups.insert(at, group);
        }
    }

    fn take_out(&mut self, queue: u32) {
        self.order.retain(|other| *other != queue);
        let mut groups = std::mem::take(&mut self.groups);
        groups.retain(|group| self.order.iter().any(|queue| self.group_of(*queue) == *group));
        self.groups = groups;
    }

    fn end_time_slices(&mut self) {
        let (groups, running) = (&self.groups, self.current.map(|queue| self.group_of(queue)));
        self.process_left.retain(|group, _| groups.contains(group) || Some(*group) == running);
    }

    fn unlist(&mut self, queue: u32) {
        if !self.queues.contains_key(&queue) {
            return;
        }
        if self.current == Some(queue) {
            self.current = None;
        }
        self.take_out(queue);
        self.queues.get_mut(&queue).unwrap().left = 0;
        self.end_time_slices();
    }

    fn set_rank(&mut self, queue: u32, terms: Terms) {
        let Some(state) = self.queues.get_mut(&queue) else { return };
        state.left = state.left.min(quantum_of(terms.quantum));
        if state.terms.rank == terms.rank {
            state.terms = terms;
            return;
        }
        let listed = self.order.contains(&queue);
        self.take_out(queue);
        self.queues.get_mut(&queue).unwrap().terms = terms;
        self.end_time_slices();
        if listed {
            self.put(queue, false);
        }
    }

    fn before(&self, class: usize, other: usize) -> bool {
        let key = |class: usize| if class == BAND_NORMAL && self.share.is_due() { 5 } else { class * 2 };
        key(class) > key(other)
    }

    /// The queue that would get the node if it were free.
    fn next(&self) -> Option<u32> {
        let mut first: Option<GroupKey> = None;
        for group in &self.groups {
            if first.is_none_or(|first| self.before(group.1, first.1)) {
                first = Some(*group);
            }
        }
        self.highest_of(first?)
    }

    fn highest_of(&self, group: GroupKey) -> Option<u32> {
        let mine = || self.order.iter().filter(|queue| self.group_of(**queue) == group);
        let priority = mine().map(|queue| self.queues[queue].terms.rank.priority).max()?;
        mine().find(|queue| self.queues[*queue].terms.rank.priority == priority).copied()
    }

    fn grace(&self, current: u32) -> Option<u32> {
        let (group, mine) = (self.group_of(current), &self.queues[&current]);
        let next = self.next()?;
        let (to, rival) = (self.group_of(next), &self.queues[&next]);
        let times = self.times[band_of(to.1)];
        if self.before(to.1, group.1) {
            return Some(match (band_of(to.1) == band_of(group.1), to.0 == group.0) {
                (false, _) => times.grace,
                (true, false) => times.process_grace,
                (true, true) => rival.terms.grace_lower,
            });
        }
        if self.left_of(group) == 0 && self.groups.iter().any(|other| other.1 == group.1 && *other != group) {
            return Some(self.times[band_of(group.1)].process_grace);
        }
        let rival = &self.queues[&self.highest_of(group)?].terms;
        match rival.rank.priority.cmp(&mine.terms.rank.priority) {
            std::cmp::Ordering::Greater => Some(rival.grace_lower),
            std::cmp::Ordering::Equal if mine.left == 0 => Some(rival.grace_same),
            _ => None,
        }
    }

    fn choose(&mut self, at_boundary: bool) -> Option<Slice> {
        if let Some(queue) = self.current {
            let Some(grace) = self.grace(queue) else { return Some(self.slice(queue)) };
            if grace > self.graced && !at_boundary {
                self.in_grace = true;
                let packets = (grace - self.graced).min(SLICE_PACKETS);
                return Some(Slice { queue, packets, ends_with_buffer: true });
            }
            self.current = None;
            self.put(queue, true);
        }
        let queue = self.next()?;
        self.take_out(queue);
        self.current = Some(queue);
        Some(self.slice(queue))
    }

    fn slice(&mut self, queue: u32) -> Slice {
        (self.graced, self.in_grace) = (0, false);
        let group = self.group_of(queue);
        let band = band_of(group.1);
        let state = self.queues.get_mut(&queue).unwrap();
        if state.left == 0 {
            state.left = quantum_of(state.terms.quantum);
        }
        let (left, priority) = (state.left, state.terms.rank.priority);
        let ours = self.process_left.entry(group).or_default();
        if *ours == 0 {
            *ours = quantum_of(self.times[band].process_quantum);
        }
        let mut packets = SLICE_PACKETS.min(self.share.limit(band));
        let equal =
            |other: &&u32| self.group_of(**other) == group && self.queues[*other].terms.rank.priority == priority;
        if self.order.iter().any(|other| equal(&other)) {
            packets = packets.min(left);
        }
        if self.groups.iter().any(|other| other.1 == group.1 && *other != group) {
            packets = packets.min(self.process_left[&group]);
        }
        Slice { queue, packets, ends_with_buffer: false }
    }

    fn charge(&mut self, packets: u32) {
        let Some(queue) = self.current else { return };
        let group = self.group_of(queue);
        let state = self.queues.get_mut(&queue).unwrap();
        state.left = state.left.saturating_sub(packets);
        let ours = self.process_left.entry(group).or_default();
        *ours = ours.saturating_sub(packets);
        if self.in_grace {
            self.graced += packets;
        }
        let waits = |band: usize| self.groups.iter().any(|group| group.1 == band);
        self.share.charge(band_of(group.1), packets, waits(BAND_NORMAL), waits(BAND_FOCUS));
    }
}

#[derive(Clone, Debug)]
enum Event {
    Insert(u32, u32, Terms),
    Remove(u32),
    SetRank(u32, Terms),
    Push(u32),
    Unlist(u32),
    /// A slice of which so much is used, 255 being all; then the queue goes on or stops, and stands between two buffers or not.
    Run {
        used: u8,
        stops: bool,
        at_boundary: bool,
    },
    Times(usize, BandTimes),
    Share(u32),
}

fn any_terms() -> impl Strategy<Value = Terms> {
    let place = prop_oneof![
        (0..3u8).prop_map(|band| (band, 0)),
        (0..32u8).prop_map(|level| (3, level)),
        (0..2u8).prop_map(|level| (3, level)),
    ];
    let priority = prop_oneof![-7..=7i8, Just(0), 0..=1i8];
    (place, priority, 0..100u32, 0..20u32, 0..20u32).prop_map(|((band, level), priority, quantum, same, lower)| Terms {
        rank: rank(band, level, priority),
        quantum,
        grace_same: same,
        grace_lower: lower,
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let queue = || 0..12u32;
    let times = (0..100u32, 0..20u32, 0..20u32);
    let times =
        times.prop_map(|(process_quantum, grace, process_grace)| BandTimes { process_quantum, grace, process_grace });
    prop_oneof![
        3 => (queue(), 0..4u32, any_terms()).prop_map(|(queue, process, terms)| Event::Insert(queue, process, terms)),
        1 => queue().prop_map(Event::Remove),
        4 => (queue(), any_terms()).prop_map(|(queue, terms)| Event::SetRank(queue, terms)),
        12 => queue().prop_map(Event::Push),
        2 => queue().prop_map(Event::Unlist),
        24 => (any::<u8>(), prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(used, stops, at_boundary)| Event::Run { used: used.saturating_mul(2), stops, at_boundary }),
        1 => (0..BANDS, times).prop_map(|(band, times)| Event::Times(band, times)),
        1 => (0..=50u32).prop_map(Event::Share),
    ]
}

/// Does the same to both; what the run list answered is what the model answered.
fn apply(list: &mut RunList, model: &mut Model, event: &Event) {
    match *event {
        Event::Insert(queue, process, terms) => {
            list.insert(queue, process, terms);
            model.unlist(queue);
            model.queues.insert(queue, ModelQueue { process, terms, left: 0 });
        }
        Event::Remove(queue) => {
            list.remove(queue);
            model.unlist(queue);
            model.queues.remove(&queue);
        }
        Event::SetRank(queue, terms) => {
            assert_eq!(list.set_rank(queue, terms).is_some(), model.queues.contains_key(&queue));
            model.set_rank(queue, terms);
        }
        Event::Push(queue) => {
            list.push(queue);
            if model.queues.contains_key(&queue) && model.current != Some(queue) {
                model.put(queue, false);
            }
        }
        Event::Unlist(queue) => {
            list.unlist(queue);
            model.unlist(queue);
        }
        Event::Run { used, stops, at_boundary } => {
            let slice = list.choose(at_boundary);
            assert_eq!(slice, model.choose(at_boundary));
            let Some(slice) = slice else { return };
            assert!(slice.packets != 0);
            let packets = slice.packets * u32::from(used) / 255;
            list.charge(packets);
            model.charge(packets);
            if stops {
                list.unlist(slice.queue);
                model.unlist(slice.queue);
            }
        }
        Event::Times(band, times) => {
            list.set_times(band, times);
            model.times[band] = times;
        }
        Event::Share(percent) => {
            let share = Share::new(percent).expect("legal");
            list.set_share(share);
            model.share = share;
        }
    }
    assert_eq!(list.current(), model.current);
    assert_eq!(list.has_runnable(), model.current.is_some() || !model.order.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn who_runs_next_is_who_the_model_says(events in prop::collection::vec(any_event(), 1..160)) {
        let (mut list, mut model) = (RunList::default(), Model::default());
        for event in &events {
            apply(&mut list, &mut model, event);
        }
        // A queue that is removed leaves nothing behind.
        for queue in 0..12 {
            list.remove(queue);
        }
        prop_assert!(!list.has_runnable() && list.by_key.is_empty() && list.free.len() == list.groups.len());
    }
}

/// Packets that each queue gets of so many, if all of them always have work.
fn contest(list: &mut RunList, queues: u32, packets: u32) -> Vec<u32> {
    let mut got = vec![0; queues as usize];
    (0..queues).for_each(|queue| list.push(queue));
    let mut all = 0;
    while all < packets {
        let slice = list.choose(true).expect("all have work");
        list.charge(slice.packets);
        got[slice.queue as usize] += slice.packets;
        all += slice.packets;
    }
    got
}

#[test]
fn processes_share_by_their_quantum_however_many_queues_they_have() {
    let mut list = RunList::default();
    list.set_times(1, BandTimes { process_quantum: 40, ..BandTimes::default() });
    // One process with a single queue, another one with four.
    for (queue, process) in [(0, 1), (1, 2), (2, 2), (3, 2), (4, 2)] {
        list.insert(queue, process, terms(rank(1, 0, 0), 10));
    }
    assert_eq!(contest(&mut list, 5, 1600), [800, 200, 200, 200, 200]);
}

#[test]
fn a_part_of_a_time_slice_that_a_process_could_not_give_is_given_next_time() {
    let mut list = RunList::default();
    list.set_times(1, BandTimes { process_quantum: 15, ..BandTimes::default() });
    for (queue, process) in [(0, 1), (1, 1), (2, 2)] {
        list.insert(queue, process, terms(rank(1, 0, 0), 10));
    }
    // The first process: 10 and 5, 5 and 10, and so on.
    assert_eq!(contest(&mut list, 3, 120), [30, 30, 60]);
}

#[test]
fn levels_and_priorities_are_absolute_and_priorities_stay_within_a_process() {
    for (ranks, processes, expected) in [
        ([rank(3, 1, 0), rank(3, 0, 7)], [1, 2], [640, 0]),
        ([rank(3, 1, -7), rank(3, 0, 7)], [1, 1], [640, 0]),
        ([rank(1, 0, 1), rank(1, 0, 0)], [1, 1], [640, 0]),
        ([rank(1, 0, 7), rank(1, 0, -7)], [1, 2], [320, 320]),
        ([rank(3, 5, 7), rank(3, 5, -7)], [1, 2], [320, 320]),
    ] {
        let mut list = RunList::default();
        for (queue, (rank, process)) in (0..).zip(ranks.into_iter().zip(processes)) {
            list.insert(queue, process, terms(rank, 0));
        }
        assert_eq!(contest(&mut list, 2, 640), expected, "{ranks:?} of {processes:?}");
    }
}
