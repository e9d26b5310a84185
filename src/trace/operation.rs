//! Waits and signals from queued to executed, and which signal released which wait.

use std::collections::{HashMap, VecDeque};

use super::{EventKind, FenceValue, Trace};

/// Which side of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The GPU sets the value.
    Signal,
    /// The GPU waits for it.
    Wait,
}

/// A wait or a signal with its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Index in [`Trace::lanes`].
    pub lane: u32,
    /// Wait or signal.
    pub side: Side,
    /// Fence and value of the operation.
    pub target: FenceValue,
    /// When the user-mode driver recorded it, if that was traced.
    pub queued: Option<u64>,
    /// When the GPU came to a wait, if that is known.
    pub observed: Option<u64>,
    /// When the GPU was done with it.
    pub done: Option<u64>,
    /// For a wait that blocked its queue: index of the signal that released it.
    pub released_by: Option<u32>,
}

impl Operation {
    /// Start of its box in the picture: the earliest time that is known of it.
    pub fn start(&self) -> u64 {
        let first = self.queued.or(self.observed).or(self.done).unwrap_or(0);
        self.done.map_or(first, |done| first.min(done))
    }

    /// From when on a wait blocked its queue, as far as is known.
    pub fn blocked_from(&self) -> u64 {
        self.observed.unwrap_or_else(|| self.start())
    }
}

/// Joins the events of fences to operations, in the order in which they were queued.
///
/// An execution belongs to the oldest operation of its queue with the same fence and value that has none yet; one that was
/// never seen queued stands by itself.
pub fn operations(trace: &Trace) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut open: HashMap<(u32, Side, FenceValue), VecDeque<usize>> = HashMap::new();
    // Clocks may disagree by a little, so an execution can carry an earlier time than its queueing.
    for event in &trace.events {
        let (side, target) = match event.kind {
            EventKind::FenceWaitQueued(target) => (Side::Wait, target),
            EventKind::FenceSignalQueued(target) => (Side::Signal, target),
            _ => continue,
        };
        open.entry((event.lane, side, target)).or_default().push_back(operations.len());
        operations.push(Operation {
            lane: event.lane,
            side,
            target,
            queued: Some(event.time),
            observed: None,
            done: None,
            released_by: None,
        });
    }
    for event in &trace.events {
        let (side, target, observed) = match event.kind {
            EventKind::FenceWaitUnblocked { target, observed } => (Side::Wait, target, observed),
            EventKind::FenceSignalExecuted(target) => (Side::Signal, target, None),
            _ => continue,
        };
        let queued = open.get_mut(&(event.lane, side, target)).and_then(VecDeque::pop_front);
        match queued.and_then(|index| operations.get_mut(index)) {
            Some(operation) => {
                operation.observed = observed;
                operation.done = Some(event.time.max(operation.queued.unwrap_or(0)));
            }
            None => operations.push(Operation {
                lane: event.lane,
                side,
                target,
                queued: None,
                observed,
                done: Some(event.time),
                released_by: None,
            }),
        }
    }
    operations.sort_by_key(Operation::start);
    link(trace, &mut operations);
    operations
}

/// Executed signals of one fence by time, each with the highest value so far.
#[derive(Default)]
struct History(Vec<(u64, u64, u32)>);

/// Finds for every wait that blocked its queue the signal that brought its fence to the value.
fn link(trace: &Trace, operations: &mut [Operation]) {
    let process = |lane: u32| trace.lanes.get(lane as usize).map_or(u32::MAX, |lane| lane.process);
    let mut signals: Vec<(u64, u32)> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        if let (Side::Signal, Some(done)) = (operation.side, operation.done) {
            signals.push((done, index as u32));
        }
    }
    signals.sort_unstable();
    let mut histories: HashMap<(u32, u32), History> = HashMap::new();
    for (done, index) in signals {
        let Some(operation) = operations.get(index as usize) else { continue };
        let history = histories.entry((process(operation.lane), operation.target.fence)).or_default();
        let highest = history.0.last().map_or(0, |last| last.1).max(operation.target.value);
        history.0.push((done, highest, index));
    }
    for operation in operations.iter_mut().filter(|operation| operation.side == Side::Wait) {
        let key = (process(operation.lane), operation.target.fence);
        let (Some(history), Some(done)) = (histories.get(&key), operation.done) else { continue };
        let first = history.0.partition_point(|entry| entry.1 < operation.target.value);
        operation.released_by = history
            .0
            .get(first)
            .filter(|(signalled, ..)| *signalled >= operation.blocked_from() && *signalled <= done)
            .map(|(.., index)| *index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Lane, LaneKind};

    const A: u32 = 0;
    const B: u32 = 1;

    fn trace(events: &[(u64, u32, EventKind)]) -> Trace {
        let mut trace = Trace::default();
        let process = trace.add_process(1, "test");
        for handle in [0x40, 0x80] {
            trace.add_lane(Lane { process, kind: LaneKind::Queue { node: 0 }, name: "queue".into(), handle });
        }
        trace.events = events.iter().map(|&(time, lane, kind)| Event { time, lane, kind }).collect();
        trace
    }

    fn at(value: u64) -> FenceValue {
        FenceValue { fence: 7, value }
    }

    fn unblocked(value: u64, observed: u64) -> EventKind {
        EventKind::FenceWaitUnblocked { target: at(value), observed: Some(observed) }
    }

    #[test]
    fn a_wait_is_released_by_the_first_signal_that_reaches_its_value() {
        let operations = operations(&trace(&[
            (10, A, EventKind::FenceSignalQueued(at(1))),
            (11, A, EventKind::FenceSignalQueued(at(3))),
            (12, A, EventKind::FenceSignalQueued(at(4))),
            (20, B, EventKind::FenceWaitQueued(at(2))),
            (30, A, EventKind::FenceSignalExecuted(at(1))),
            (40, A, EventKind::FenceSignalExecuted(at(3))),
            (41, B, unblocked(2, 25)),
            (50, A, EventKind::FenceSignalExecuted(at(4))),
        ]));
        let wait = operations.iter().find(|operation| operation.side == Side::Wait).unwrap();
        assert_eq!((wait.queued, wait.observed, wait.done), (Some(20), Some(25), Some(41)));
        let signal = operations[wait.released_by.unwrap() as usize];
        assert_eq!((signal.target, signal.done), (at(3), Some(40)));
    }

    #[test]
    fn a_wait_that_was_satisfied_before_the_gpu_came_to_it_was_released_by_nobody() {
        let operations = operations(&trace(&[
            (10, A, EventKind::FenceSignalQueued(at(1))),
            (20, A, EventKind::FenceSignalExecuted(at(1))),
            (5, B, EventKind::FenceWaitQueued(at(1))),
            (31, B, unblocked(1, 30)),
        ]));
        assert!(operations.iter().all(|operation| operation.released_by.is_none()));
    }

    #[test]
    fn equal_operations_are_paired_in_their_order() {
        let operations = operations(&trace(&[
            (1, A, EventKind::FenceSignalQueued(at(1))),
            (2, A, EventKind::FenceSignalQueued(at(1))),
            (8, A, EventKind::FenceSignalExecuted(at(1))),
        ]));
        let ends: Vec<_> = operations.iter().map(|operation| (operation.queued, operation.done)).collect();
        assert_eq!(ends, [(Some(1), Some(8)), (Some(2), None)]);
    }

    #[test]
    fn an_execution_never_seen_queued_stands_alone_and_one_before_its_queueing_ends_with_it() {
        let operations = operations(&trace(&[
            (9, A, EventKind::FenceSignalExecuted(at(1))),
            (20, A, EventKind::FenceSignalQueued(at(2))),
            (19, A, EventKind::FenceSignalExecuted(at(2))),
        ]));
        let ends: Vec<_> = operations.iter().map(|operation| (operation.queued, operation.done)).collect();
        assert_eq!(ends, [(None, Some(9)), (Some(20), Some(20))]);
    }

    #[test]
    fn fences_of_two_processes_are_never_mixed_up() {
        let mut trace = trace(&[
            (1, A, EventKind::FenceSignalQueued(at(1))),
            (2, B, EventKind::FenceWaitQueued(at(1))),
            (5, A, EventKind::FenceSignalExecuted(at(1))),
            (9, B, unblocked(1, 3)),
        ]);
        assert!(operations(&trace).iter().any(|operation| operation.released_by.is_some()));
        trace.lanes[1].process = trace.add_process(2, "another");
        assert!(operations(&trace).iter().all(|operation| operation.released_by.is_none()));
    }
}
