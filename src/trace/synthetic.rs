//! Traces made up to any size, the same for the same size: for looking at the page and for tests.

use super::{Event, EventKind, FenceValue, Lane, LaneKind, Trace};

/// Queues of one process, a pipeline: node and name.
const STAGES: [(u32, &str); 3] = [(1, "copy up"), (0, "transform"), (1, "copy down")];
const PROCESSES: [(u32, &str); 2] = [(4100, "render.exe"), (5208, "encode.exe")];
/// Chunks of a process on the GPU at once.
const DEPTH: usize = 4;

/// A simple random number generator; any 64-bit state will do.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// State of one process's pipeline.
struct Flow {
    lanes: [u32; STAGES.len()],
    cpu: u32,
    handles: u32,
    /// When the CPU goes on.
    host: u64,
    /// When each queue is free.
    free: [u64; STAGES.len()],
    /// When the last stage of each chunk ended.
    ends: Vec<u64>,
}

/// A trace with `count` events of two processes that stream chunks through three queues each.
pub fn synthetic(count: usize) -> Trace {
    let mut trace = Trace::default();
    let system = trace.add_process(4, "System");
    let machine = Lane { process: system, kind: LaneKind::Machine, name: "interrupts".into(), handle: 0 };
    let machine = trace.add_lane(machine);
    let mut flows: Vec<Flow> = (0..).zip(PROCESSES).map(|(index, who)| flow(&mut trace, index, who)).collect();
    let mut dice = Dice(count as u64);
    let mut engines = [0_u64; 2];
    while trace.events.len() < count {
        // The process whose CPU is furthest behind comes next.
        let next = if flows.len() > 1 && flows[1].host < flows[0].host { 1 } else { 0 };
        chunk(&mut trace.events, &mut flows[next], &mut engines, machine, &mut dice);
    }
    trace.sort();
    trace.events.truncate(count);
    trace
}

fn flow(trace: &mut Trace, index: u32, (id, name): (u32, &str)) -> Flow {
    let process = trace.add_process(id, name);
    let handles = 0x4000_0000 + index * 0x1000;
    let cpu = trace.add_lane(Lane { process, kind: LaneKind::Cpu, name: "main thread".into(), handle: 0 });
    let mut lanes = [0; STAGES.len()];
    for ((lane, (node, name)), number) in lanes.iter_mut().zip(STAGES).zip(1..) {
        let kind = LaneKind::Queue { node };
        *lane = trace.add_lane(Lane { process, kind, name: name.into(), handle: handles + number * 0x40 });
    }
    let host = u64::from(index) * 70_000;
    Flow { lanes, cpu, handles, host, free: [0; STAGES.len()], ends: Vec::new() }
}

/// One chunk through three queues, linked by fences.
fn chunk(events: &mut Vec<Event>, flow: &mut Flow, engines: &mut [u64; 2], machine: u32, dice: &mut Dice) {
    let number = flow.ends.len() as u64 + 1;
    let mut add = |time, lane, kind| events.push(Event { time, lane, kind });
    let fence = |stage: usize| flow.handles + 0x800 + stage as u32 * 0x40;
    let mut released = 0;
    for (stage, (node, _)) in STAGES.into_iter().enumerate() {
        let lane = flow.lanes[stage];
        let mut came = flow.host.max(flow.free[stage]);
        let wait = stage.checked_sub(1).map(|before| FenceValue { fence: fence(before), value: number });
        if let Some(target) = wait {
            add(flow.host, lane, EventKind::FenceWaitQueued(target));
            came = came.max(flow.host + 1500);
            let unblocked = came.max(released + 400);
            add(unblocked, lane, EventKind::FenceWaitUnblocked { target, observed: Some(came) });
            came = unblocked;
        }
        let target = FenceValue { fence: fence(stage), value: number };
        add(flow.host + 300, lane, EventKind::FenceSignalQueued(target));
        add(flow.host + 600, lane, EventKind::Submission { progress: number });
        add(flow.host + 650, lane, EventKind::DoorbellRing { progress: number });
        if dice.below(61) == 0 {
            add(flow.host + 700, lane, EventKind::DoorbellReconnect { progress: number });
        }
        let begin = (came + 1200).max(engines[node as usize]);
        let rare = if dice.below(40) == 0 { 160_000 } else { 0 };
        let duration = 9000 + dice.below(26_000) + if node == 0 { 12_000 } else { 0 } + rare;
        add(begin, lane, EventKind::Work { progress: number, duration });
        add(begin + duration, lane, EventKind::FenceSignalExecuted(target));
        released = begin + duration;
        flow.free[stage] = released;
        engines[node as usize] = released;
        flow.host += 1800 + dice.below(1500);
    }
    flow.ends.push(released);
    if let Some(index) = flow.ends.len().checked_sub(DEPTH) {
        let until = flow.ends[index] + 2500;
        if until > flow.host {
            let target = FenceValue { fence: fence(STAGES.len() - 1), value: index as u64 + 1 };
            add(flow.host, flow.cpu, EventKind::CpuWait { target, duration: until - flow.host });
            add(until - 2000, machine, EventKind::Interrupt { message: 0, duration: 600 });
            add(until - 1700, machine, EventKind::Report { kind: 19, node: 1, amount: 1 });
            add(until - 1200, machine, EventKind::Dpc { duration: 900 });
            flow.host = until;
        }
    }
    flow.host += 6000 + dice.below(9000);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::operation::operations;

    #[test]
    fn a_synthetic_trace_has_the_size_asked_for_in_order_of_time() {
        for count in [0, 1, 10, 1000] {
            let trace = synthetic(count);
            assert_eq!(trace.events.len(), count);
            assert!(trace.events.is_sorted_by_key(|event| event.time));
        }
    }

    #[test]
    fn a_synthetic_trace_has_waits_that_were_held_up() {
        let operations = operations(&synthetic(1000));
        assert!(operations.iter().filter(|operation| operation.released_by.is_some()).count() > 50);
    }
}
