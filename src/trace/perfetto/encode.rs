//! Writing.

use std::collections::{BTreeSet, HashMap};

use prost::Message;

use super::lane_name;
use super::proto::{
    DebugAnnotation, INCREMENTAL_STATE_CLEARED, INSTANT, InternedData, InternedName, NEEDS_INCREMENTAL_STATE,
    PerfettoTrace, ProcessDescriptor, SLICE_BEGIN, SLICE_END, TracePacket, TrackDescriptor, TrackEvent,
};
use super::{
    AMOUNT, ANNOTATIONS, CATEGORIES, DETAIL, ENGINE_ROWS, ENGINES, FENCE, KIND, LANE, LANES, NAME, OBSERVED, PROCESSES,
    TRACKS, VALUE,
};
use crate::trace::operation::{Operation, Side, operations};
use crate::trace::{Event, EventKind, FenceValue, LaneKind, Trace, code};

/// The one writer of the file.
const SEQUENCE: u32 = 1;
/// Category of what is read back, and of what only repeats.
const OWN: u64 = 1;
const VIEW: u64 = 2;
/// Process number of the track of the GPU's engines, which no process of a system has.
const GPU_PROCESS: i32 = i32::MAX;

/// Tracks of a lane: moments, and the engine's work, the labels, the waits and the signals from where these begin.
const MOMENTS: u64 = 0;
const SPANS: u64 = 1;
const LABELS: u64 = TRACKS / 8;
const WAITS: u64 = TRACKS / 4;
const SIGNALS: u64 = TRACKS / 2;

/// Writes a trace as a Perfetto file.
pub fn write(trace: &Trace) -> Vec<u8> {
    let mut writer =
        Writer { trace, tracks: BTreeSet::new(), rows: Rows::default(), engines: BTreeSet::new(), events: Vec::new() };
    let operations = operations(trace);
    writer.operations(&operations);
    for event in &trace.events {
        writer.event(event);
    }
    writer.finish()
}

/// An event of the file with its place among those of the same moment: ends, moments, beginnings.
struct Placed {
    time: u64,
    order: u8,
    event: TrackEvent,
}

struct Writer<'a> {
    trace: &'a Trace,
    /// Tracks of lanes that hold something.
    tracks: BTreeSet<(u32, u64)>,
    rows: Rows,
    /// Tracks of engines, by node.
    engines: BTreeSet<(u32, u64)>,
    events: Vec<Placed>,
}

fn number(name: u64, value: u64) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(name), uint_value: Some(value), ..DebugAnnotation::default() }
}

fn handle(name: u64, value: u32) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(name), pointer_value: Some(value.into()), ..DebugAnnotation::default() }
}

fn text(name: u64, value: &str) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(name), string_value: Some(value.to_owned()), ..DebugAnnotation::default() }
}

impl Writer<'_> {
    fn of_fence(&self, lane: u32, kind: u64, target: FenceValue) -> Vec<DebugAnnotation> {
        let mut all = vec![number(KIND, kind), handle(FENCE, target.fence), number(VALUE, target.value)];
        all.extend(self.trace.fence_name(lane, target.fence).map(|name| text(NAME, name)));
        all
    }

    /// What happens to a fence: its name, if it has one, and its handle.
    fn title(&self, what: &str, lane: u32, target: FenceValue) -> String {
        match self.trace.fence_name(lane, target.fence) {
            Some(name) => format!("{what} {name} ({:#x}) = {}", target.fence, target.value),
            None => format!("{what} {:#x} = {}", target.fence, target.value),
        }
    }

    fn uuid(&mut self, lane: u32, track: u64) -> u64 {
        self.tracks.insert((lane, track));
        LANES + u64::from(lane) * TRACKS + track
    }

    fn push(&mut self, time: u64, order: u8, event: TrackEvent) {
        self.events.push(Placed { time, order, event });
    }

    fn moment(&mut self, time: u64, lane: u32, name: &str, annotations: Vec<DebugAnnotation>) {
        let track = self.uuid(lane, MOMENTS);
        self.push(time, 1, instant(track, OWN, name, annotations));
    }

    /// A slice; without an end it stays open.
    fn slice(&mut self, track: u64, (start, end): (u64, Option<u64>), begin: TrackEvent, last: Vec<DebugAnnotation>) {
        let category_iids = begin.category_iids.clone();
        // A slice without length ends after it began, before anything else of that moment.
        let empty = end == Some(start);
        self.push(start, if empty { 1 } else { 2 }, begin);
        if let Some(end) = end {
            let event = TrackEvent {
                kind: Some(SLICE_END),
                track_uuid: Some(track),
                category_iids,
                debug_annotations: last,
                ..TrackEvent::default()
            };
            self.push(end, u8::from(empty), event);
        }
    }

    fn operations(&mut self, operations: &[Operation]) {
        for (id, operation) in (1..).zip(operations) {
            self.operation(operation);
            let signal = operation.released_by.and_then(|by| operations.get(by as usize));
            if let Some(signal) = signal {
                self.arrow(signal, operation, id);
            }
        }
    }

    /// The two moments that an arrow connects.
    fn arrow(&mut self, signal: &Operation, wait: &Operation, id: u64) {
        let (Some(from), Some(to)) = (signal.done, wait.done) else { return };
        let track = self.uuid(signal.lane, MOMENTS);
        let title = self.title("signalled", signal.lane, signal.target);
        let mut event = instant(track, VIEW, &title, Vec::new());
        event.flow_ids = vec![id];
        self.push(from, 1, event);
        let track = self.uuid(wait.lane, MOMENTS);
        let mut event = instant(track, VIEW, &self.title("released", wait.lane, wait.target), Vec::new());
        event.terminating_flow_ids = vec![id];
        self.push(to, 3, event);
    }

    fn operation(&mut self, operation: &Operation) {
        let Operation { lane, side, target, queued, observed, done, .. } = *operation;
        let observed = observed.map(|time| number(OBSERVED, time));
        let Some(start) = queued else {
            let (name, kind) = match side {
                Side::Signal => ("FENCE_SIGNAL_EXECUTED", code::LONE_SIGNAL),
                Side::Wait => ("FENCE_WAIT_UNBLOCKED", code::LONE_WAIT),
            };
            let mut annotations = self.of_fence(lane, kind, target);
            annotations.extend(observed);
            return self.moment(done.unwrap_or(0), lane, name, annotations);
        };
        let (name, kind, first) = match side {
            Side::Signal => ("signal", code::SIGNAL, SIGNALS),
            Side::Wait => ("wait", code::WAIT, WAITS),
        };
        let row = self.rows.place((lane.into(), first), start, done.unwrap_or(u64::MAX));
        let track = self.uuid(lane, first + row);
        let begin = begin(track, OWN, &self.title(name, lane, target), self.of_fence(lane, kind, target));
        self.slice(track, (start, done), begin, observed.into_iter().collect());
    }

    fn event(&mut self, event: &Event) {
        let Some(parts) = event.kind.parts() else { return };
        let title = self.trace.title(event);
        let mut annotations = vec![number(KIND, parts.code), number(AMOUNT, parts.amount)];
        if parts.detail != 0 {
            annotations.push(number(DETAIL, parts.detail));
        }
        if event.kind.name_index().is_some() {
            annotations.push(text(NAME, &title));
        }
        match parts.duration {
            None => self.moment(event.time, event.lane, &title, annotations),
            Some(duration) => self.span(event, duration, &title, annotations),
        }
        if let EventKind::Work { progress, duration } = event.kind {
            self.engine(event, progress, duration);
        }
    }

    /// Something with a duration.
    fn span(&mut self, event: &Event, duration: u64, name: &str, annotations: Vec<DebugAnnotation>) {
        let first = if matches!(event.kind, EventKind::Label { .. }) { LABELS } else { SPANS };
        let row = self.rows.place((event.lane.into(), first), event.time, event.time.saturating_add(duration));
        let track = self.uuid(event.lane, first + row);
        let begin = begin(track, OWN, name, annotations);
        self.slice(track, (event.time, event.time.checked_add(duration)), begin, Vec::new());
    }

    /// The same once more on the engine's track, with the lane that it worked for.
    fn engine(&mut self, event: &Event, progress: u64, duration: u64) {
        let Some(lane) = self.trace.lanes.get(event.lane as usize) else { return };
        let LaneKind::Queue { node } = lane.kind else { return };
        let name = format!("{} {progress}", lane.name);
        let engine = engine_track(node);
        let row = self.rows.place((engine, 0), event.time, event.time.saturating_add(duration));
        let track = engine + row.min(ENGINE_ROWS - 1);
        self.engines.insert((node, track));
        let begin = begin(track, VIEW, &name, vec![handle(LANE, lane.handle)]);
        self.slice(track, (event.time, event.time.checked_add(duration)), begin, Vec::new());
    }

    fn descriptors(&self) -> Vec<TrackDescriptor> {
        let mut all = Vec::new();
        for (index, process) in (0..).zip(&self.trace.processes) {
            all.push(root(PROCESSES + index, process.id as i32, &process.name));
        }
        if !self.engines.is_empty() {
            all.push(root(ENGINES, GPU_PROCESS, "GPU engines"));
        }
        for (rank, (node, track)) in (0..).zip(&self.engines) {
            all.push(child(*track, ENGINES, &format!("node {node}"), rank));
        }
        for (index, lane) in (0_u64..).zip(&self.trace.lanes) {
            let uuid = LANES + index * TRACKS;
            all.push(child(uuid, PROCESSES + u64::from(lane.process), &lane_name::write(lane), index as i32));
        }
        for &(lane, track) in self.tracks.iter().filter(|(_, track)| *track != MOMENTS) {
            let name = match track {
                SIGNALS.. => "signals",
                WAITS.. => "waits",
                LABELS.. => "labels",
                _ => match self.trace.lanes.get(lane as usize).map(|lane| lane.kind) {
                    Some(LaneKind::Queue { .. }) | None => "work",
                    Some(LaneKind::Cpu) => "CPU waits",
                    Some(LaneKind::Paging) => "paging",
                    Some(LaneKind::Machine) => "routines",
                },
            };
            let parent = LANES + u64::from(lane) * TRACKS;
            all.push(child(parent + track, parent, name, track as i32));
        }
        all
    }

    fn finish(mut self) -> Vec<u8> {
        self.events.sort_by_key(|placed| (placed.time, placed.order));
        let names = |names: &[&str]| -> Vec<InternedName> {
            let name = |(iid, name): (u64, &&str)| InternedName { iid: Some(iid), name: Some((*name).to_owned()) };
            (1..).zip(names).map(name).collect()
        };
        let mut packets = vec![TracePacket {
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            interned_data: Some(InternedData {
                event_categories: names(&CATEGORIES),
                event_names: Vec::new(),
                debug_annotation_names: names(&ANNOTATIONS),
            }),
            ..TracePacket::default()
        }];
        let descriptor = |track| TracePacket { track_descriptor: Some(track), ..TracePacket::default() };
        packets.extend(self.descriptors().into_iter().map(descriptor));
        packets.extend(self.events.into_iter().map(|placed| TracePacket {
            timestamp: Some(placed.time),
            sequence_flags: Some(NEEDS_INCREMENTAL_STATE),
            track_event: Some(placed.event),
            ..TracePacket::default()
        }));
        for packet in &mut packets {
            packet.trusted_packet_sequence_id = Some(SEQUENCE);
        }
        PerfettoTrace { packet: packets }.encode_to_vec()
    }
}

/// The first track of an engine.
fn engine_track(node: u32) -> u64 {
    ENGINES + (1 + u64::from(node)) * ENGINE_ROWS
}

fn begin(track: u64, category: u64, name: &str, debug_annotations: Vec<DebugAnnotation>) -> TrackEvent {
    TrackEvent { kind: Some(SLICE_BEGIN), ..instant(track, category, name, debug_annotations) }
}

fn instant(track: u64, category: u64, name: &str, debug_annotations: Vec<DebugAnnotation>) -> TrackEvent {
    TrackEvent {
        kind: Some(INSTANT),
        track_uuid: Some(track),
        category_iids: vec![category],
        name: Some(name.to_owned()),
        debug_annotations,
        ..TrackEvent::default()
    }
}

fn root(uuid: u64, pid: i32, name: &str) -> TrackDescriptor {
    let process = ProcessDescriptor { pid: Some(pid), process_name: Some(name.to_owned()) };
    TrackDescriptor { uuid: Some(uuid), process: Some(process), child_ordering: Some(3), ..TrackDescriptor::default() }
}

fn child(uuid: u64, parent: u64, name: &str, rank: i32) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid),
        parent_uuid: Some(parent),
        name: Some(name.to_owned()),
        child_ordering: Some(3),
        sibling_order_rank: Some(rank),
        ..TrackDescriptor::default()
    }
}

/// When each row of each group of tracks is free again.
#[derive(Default)]
struct Rows(HashMap<(u64, u64), Vec<u64>>);

impl Rows {
    /// The first row that is free from `start` on.
    fn place(&mut self, group: (u64, u64), start: u64, end: u64) -> u64 {
        let rows = self.0.entry(group).or_default();
        let free = rows.iter().position(|until| *until <= start).unwrap_or(rows.len());
        match rows.get_mut(free) {
            Some(until) => *until = end,
            None => rows.push(end),
        }
        free as u64
    }
}
