//! The events as the page reads them: columns of variable-length numbers.
//!
//! Numbers are little-endian base 128; signed ones are zigzag. Items are ordered by lane and start, and lane, start and value are
//! differences to the item before. The script's decode() is the other half of this file.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::trace::operation::{Operation, Side, operations};
use crate::trace::{Event, EventKind, LaneKind, Trace, operation_name, report_name};

/// Largest integer that a number of JavaScript holds exactly.
const EXACT: u64 = (1 << 53) - 1;

/// DXGK_INTERRUPT_TYPE numbers whose names the page knows.
const REPORTS: u32 = 21;
/// DXGK_BUILDPAGINGBUFFER_OPERATION numbers whose names the page knows.
const PAGING_OPERATIONS: u32 = 23;

/// Contents of the page.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) operations: Vec<Operation>,
    pub(super) spans: Vec<Event>,
    pub(super) points: Vec<Event>,
}

impl Picture {
    pub(super) fn new(trace: &Trace) -> Self {
        let (mut spans, mut points) = (Vec::new(), Vec::new());
        for event in &trace.events {
            match event.kind {
                EventKind::FenceWaitQueued(_)
                | EventKind::FenceSignalQueued(_)
                | EventKind::FenceSignalExecuted(_)
                | EventKind::FenceWaitUnblocked { .. } => {}
                kind if kind.duration().is_some() => spans.push(*event),
                _ => points.push(*event),
            }
        }
        spans.sort_by_key(|event| (event.lane, event.time));
        points.sort_by_key(|event| (event.lane, event.time));
        Self { operations: by_lane(operations(trace)), spans, points }
    }

    pub(super) fn len(&self) -> usize {
        self.operations.len() + self.spans.len() + self.points.len()
    }
}

/// Orders by lane and start, and leads the links to the new places.
fn by_lane(operations: Vec<Operation>) -> Vec<Operation> {
    let mut order: Vec<u32> = (0..operations.len() as u32).collect();
    order.sort_by_key(|&index| (operations[index as usize].lane, operations[index as usize].start()));
    let mut place = vec![0; operations.len()];
    for (new, &old) in (0..).zip(&order) {
        place[old as usize] = new;
    }
    let moved = |&old: &u32| {
        let operation = operations[old as usize];
        Operation { released_by: operation.released_by.map(|by| place[by as usize]), ..operation }
    };
    order.iter().map(moved).collect()
}

/// A column in the making.
#[derive(Default)]
struct Column(Vec<u8>);

impl Column {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn difference(&mut self, now: u64, before: u64) {
        let apart = now.wrapping_sub(before) as i64;
        self.number(((apart << 1) ^ (apart >> 63)) as u64);
    }
}

/// Encodes one trace.
struct Encoder<'a> {
    trace: &'a Trace,
    start: u64,
    fences: HashMap<(u32, u32), usize>,
    names: Vec<Value>,
    /// Value last written for each fence.
    values: Vec<u64>,
    /// Values beyond [`EXACT`], in the order in which they occur.
    large: Vec<String>,
}

impl Encoder<'_> {
    fn fence(&mut self, lane: u32, handle: u32) -> usize {
        let process = self.trace.lanes.get(lane as usize).map_or(0, |lane| lane.process);
        let next = self.names.len();
        *self.fences.entry((process, handle)).or_insert_with(|| {
            self.names.push(json!([process, handle, self.trace.fences.get(&(process, handle))]));
            self.values.push(0);
            next
        })
    }

    /// A value of a fence. One too large for the page is written as none, and its digits elsewhere.
    fn value(&mut self, column: &mut Column, fence: usize, value: u64) {
        if value > EXACT {
            self.large.push(value.to_string());
            // No other difference is this: values are below 2^53.
            return column.number(1 << 54);
        }
        column.difference(value, self.values[fence]);
        self.values[fence] = value;
    }

    fn time(&self, time: u64) -> u64 {
        time.saturating_sub(self.start).min(EXACT)
    }

    fn operations(&mut self, operations: &[Operation]) -> Vec<Column> {
        let mut columns: [Column; 8] = Default::default();
        let [lanes, flags, starts, lengths, observed, fences, values, links] = &mut columns;
        let (mut lane, mut start) = (0, 0);
        for (index, operation) in (0_u64..).zip(operations) {
            let begins = self.time(operation.start());
            let flag = u64::from(operation.side == Side::Wait)
                | u64::from(operation.observed.is_some()) << 1
                | u64::from(operation.done.is_none()) << 2
                | u64::from(operation.queued.is_none()) << 3;
            lanes.number(u64::from(operation.lane - lane));
            flags.number(flag);
            starts.difference(begins, start);
            lengths.number(operation.done.map_or(0, |done| self.time(done) - begins));
            if let Some(time) = operation.observed {
                observed.difference(self.time(time), begins);
            }
            let fence = self.fence(operation.lane, operation.target.fence);
            fences.number(fence as u64);
            self.value(values, fence, operation.target.value);
            // 0 is no link; an operation never links to itself.
            links.difference(operation.released_by.map_or(index, u64::from), index);
            (lane, start) = (operation.lane, begins);
        }
        columns.into()
    }

    fn spans(&mut self, spans: &[Event]) -> Vec<Column> {
        let mut columns: [Column; 7] = Default::default();
        let [lanes, kinds, starts, lengths, amounts, details, fences] = &mut columns;
        let (mut lane, mut start) = (0, 0);
        for span in spans {
            let Some(parts) = span.kind.parts() else { continue };
            let fence = if let EventKind::CpuWait { target, .. } = span.kind { Some(target.fence) } else { None };
            let begins = self.time(span.time);
            lanes.number(u64::from(span.lane - lane));
            kinds.number(parts.code);
            starts.difference(begins, start);
            lengths.number(parts.duration.unwrap_or(0).min(EXACT));
            amounts.number(parts.amount.min(EXACT));
            details.number(parts.detail.min(EXACT));
            fences.number(fence.map_or(0, |fence| self.fence(span.lane, fence) as u64 + 1));
            (lane, start) = (span.lane, begins);
        }
        columns.into()
    }

    fn points(&self, points: &[Event]) -> Vec<Column> {
        let mut columns: [Column; 5] = Default::default();
        let [lanes, kinds, times, amounts, details] = &mut columns;
        let (mut lane, mut time) = (0, 0);
        for point in points {
            let Some(parts) = point.kind.parts() else { continue };
            let now = self.time(point.time);
            lanes.number(u64::from(point.lane - lane));
            kinds.number(parts.code);
            times.difference(now, time);
            amounts.number(parts.amount.min(EXACT));
            details.number(parts.detail.min(EXACT));
            (lane, time) = (point.lane, now);
        }
        columns.into()
    }
}

/// The page's description of the trace, and the columns one after the other.
pub(super) fn encode(trace: &Trace, picture: &Picture) -> (Value, Vec<u8>) {
    let ends = |event: &Event| event.time.saturating_add(event.kind.duration().unwrap_or(0));
    let start = trace.events.iter().map(|event| event.time).min().unwrap_or(0);
    let end = trace.events.iter().map(ends).max().unwrap_or(0);
    let mut encoder =
        Encoder { trace, start, fences: HashMap::new(), names: Vec::new(), values: Vec::new(), large: Vec::new() };
    let mut bytes = Vec::new();
    let groups =
        [encoder.operations(&picture.operations), encoder.spans(&picture.spans), encoder.points(&picture.points)];
    for column in groups.into_iter().flatten() {
        bytes.extend(column.0);
    }
    let lane = |lane: &crate::trace::Lane| {
        let (kind, node) = match lane.kind {
            LaneKind::Queue { node } => ("queue", Some(node)),
            LaneKind::Cpu => ("cpu", None),
            LaneKind::Paging => ("paging", None),
            LaneKind::Machine => ("machine", None),
        };
        json!({ "process": lane.process, "kind": kind, "node": node, "handle": lane.handle, "name": lane.name })
    };
    let description = json!({
        "processes": trace.processes.iter().map(|process| json!({ "id": process.id, "name": process.name })).collect::<Vec<_>>(),
        "lanes": trace.lanes.iter().map(lane).collect::<Vec<_>>(),
        "fences": encoder.names,
        "large": encoder.large,
        "names": trace.names,
        "events": trace.events.len(),
        "reports": (0..REPORTS).map(report_name).collect::<Vec<_>>(),
        "pagingOperations": (0..PAGING_OPERATIONS).map(operation_name).collect::<Vec<_>>(),
        "operations": picture.operations.len(),
        "spans": picture.spans.len(),
        "points": picture.points.len(),
        "length": (end - start).min(EXACT),
    });
    (description, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_take_one_byte_either_way() {
        let mut column = Column::default();
        column.difference(63, 0);
        column.difference(0, 64);
        column.difference(0, 65);
        column.number(300);
        assert_eq!(column.0, [126, 127, 0x81, 1, 0xac, 2]);
    }

    #[test]
    fn values_beyond_the_exact_ones_stand_beside() {
        use crate::trace::{FenceValue, Lane};
        let mut trace = Trace::default();
        let process = trace.add_process(1, "p");
        trace.add_lane(Lane { process, kind: LaneKind::Queue { node: 0 }, name: "q".into(), handle: 1 });
        for value in [1, u64::MAX, EXACT] {
            let kind = EventKind::FenceSignalQueued(FenceValue { fence: 3, value });
            trace.events.push(Event { time: 0, lane: 0, kind });
        }
        let (description, _) = encode(&trace, &Picture::new(&trace));
        assert_eq!(description["large"], json!([u64::MAX.to_string()]));
    }
}
