//! When engines worked: what fence logs tell of it.
//!
//! A log says when a wait was over and when a signal was executed. A submission can run from the last of: it was handed over, its
//! waits were over, and its engine, which runs one thing at a time, had executed the last signal of what it ran before. It has run
//! when its last signal is executed. A submission without a signal leaves nothing in a log.

use std::collections::{BTreeMap, HashMap};

use super::operation::{Operation, Side, operations};
use super::{Event, EventKind, LaneKind, Trace};

/// Times of one submission, from the fence logs and the queue's own events.
#[derive(Default)]
struct Submission {
    /// When its waits were over.
    released: Vec<u64>,
    /// When its last signal was executed.
    end: Option<u64>,
}

/// Adds the work of every submission that a log shows to the queue's lane.
pub(super) fn add(trace: &mut Trace) {
    let mut handed_over: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for event in &trace.events {
        if let EventKind::Submission { progress } = event.kind {
            handed_over.entry(event.lane).or_default().push((event.time, progress));
        }
    }
    let mut submissions: BTreeMap<(u32, usize), Submission> = BTreeMap::new();
    for Operation { lane, side, queued, done, .. } in operations(trace) {
        let (Some(queued), Some(done), Some(list)) = (queued, done, handed_over.get(&lane)) else { continue };
        // What was recorded belongs to the first submission after it.
        let submission = submissions.entry((lane, list.partition_point(|(time, _)| *time < queued))).or_default();
        match side {
            Side::Wait => submission.released.push(done),
            Side::Signal => submission.end = submission.end.max(Some(done)),
        }
    }
    let mut by_node: BTreeMap<u32, Vec<(u64, u64, u32, u64)>> = BTreeMap::new();
    for ((lane, index), Submission { released, end }) in submissions {
        let place = handed_over.get(&lane).and_then(|list| list.get(index));
        let node = trace.lanes.get(lane as usize).map(|lane| lane.kind);
        let (Some(&(time, progress)), Some(end), Some(LaneKind::Queue { node })) = (place, end, node) else { continue };
        let released = released.into_iter().filter(|released| *released <= end).max().unwrap_or(0);
        by_node.entry(node).or_default().push((end, time.max(released), lane, progress));
    }
    for mut jobs in by_node.into_values() {
        jobs.sort_unstable();
        let mut free = 0;
        for (end, ready, lane, progress) in jobs {
            let time = ready.max(free).min(end);
            free = end;
            trace.events.push(Event { time, lane, kind: EventKind::Work { progress, duration: end - time } });
        }
    }
    trace.sort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{FenceValue, Lane};

    fn at(value: u64) -> FenceValue {
        FenceValue { fence: 7, value }
    }

    #[test]
    fn work_lasts_from_the_release_to_the_signal_and_an_engine_does_one_thing_at_a_time() {
        let mut trace = Trace::default();
        let process = trace.add_process(1, "test");
        let lanes: Vec<u32> = [(0, 0x40), (1, 0x80), (1, 0xc0)]
            .map(|(node, handle)| {
                trace.add_lane(Lane { process, kind: LaneKind::Queue { node }, name: "queue".into(), handle })
            })
            .to_vec();
        let mut add = |time, lane: usize, kind| trace.events.push(Event { time, lane: lanes[lane], kind });
        // Queue 0 waits for 1, which queue 1 signals; queue 2 shares its engine with queue 1.
        add(10, 0, EventKind::FenceWaitQueued(at(1)));
        add(11, 0, EventKind::FenceSignalQueued(at(2)));
        add(12, 0, EventKind::Submission { progress: 5 });
        add(20, 1, EventKind::FenceSignalQueued(at(1)));
        add(21, 1, EventKind::Submission { progress: 3 });
        add(22, 2, EventKind::FenceSignalQueued(at(9)));
        add(23, 2, EventKind::Submission { progress: 4 });
        add(30, 2, EventKind::Submission { progress: 6 });
        add(40, 1, EventKind::FenceSignalExecuted(at(1)));
        add(44, 0, EventKind::FenceWaitUnblocked { target: at(1), observed: Some(13) });
        add(60, 2, EventKind::FenceSignalExecuted(at(9)));
        add(90, 0, EventKind::FenceSignalExecuted(at(2)));
        super::add(&mut trace);
        let work: Vec<(u64, u32, u64, u64)> = trace
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Work { progress, duration } => Some((event.time, event.lane, progress, duration)),
                _ => None,
            })
            .collect();
        assert_eq!(work, [(21, 1, 3, 19), (40, 2, 4, 20), (44, 0, 5, 46)]);
    }
}
