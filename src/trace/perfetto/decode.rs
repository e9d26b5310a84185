//! Reading what [`super::write`] wrote, from a file that anybody may have changed.

use std::collections::HashMap;
use std::fmt;

use prost::Message;

use super::proto::{DebugAnnotation, INSTANT, PerfettoTrace, SLICE_BEGIN, SLICE_END, TracePacket, TrackEvent};
use super::{AMOUNT, DETAIL, ENGINES, FENCE, KIND, LANES, NAME, OBSERVED, PROCESSES, TRACKS, VALUE, lane_name};
use crate::trace::{Event, EventKind, FenceValue, Parts, Trace, code};

/// The reason why a file cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The file has no bytes.
    Empty,
    /// It is no sequence of Perfetto packets.
    NotPerfetto(String),
    /// It holds packets, and none of them is from here.
    Foreign,
    /// A track names a process that does not exist, or has no name that this program gives.
    BadTrack(u64),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty: the run that was to write it did not come to its end"),
            Self::NotPerfetto(why) => write!(f, "is not a Perfetto trace: {why}"),
            Self::Foreign => f.write_str("is a trace of another program; take one from `campanile run --trace`"),
            Self::BadTrack(uuid) => write!(f, "has a track {uuid:#x} that does not belong where it stands"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Most texts that events name: as many as the names of as many programs as a machine keeps.
const NAMES_MAX: usize = 1 << 20;

/// Reads a trace.
///
/// # Errors
/// The bytes are no trace of this program. Single events that make no sense are left out.
pub fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    let file = PerfettoTrace::decode(bytes).map_err(|error| ReadError::NotPerfetto(error.to_string()))?;
    let mut reader = Reader::default();
    let own = |packet: &TracePacket| packet.interned_data.as_ref().is_some_and(|data| names_us(&data.event_categories));
    if !file.packet.iter().any(own) {
        return Err(ReadError::Foreign);
    }
    for packet in &file.packet {
        reader.descriptor(packet)?;
    }
    for packet in &file.packet {
        if let (Some(time), Some(event)) = (packet.timestamp, &packet.track_event) {
            reader.event(time, event);
        }
    }
    reader.trace.sort();
    Ok(reader.trace)
}

fn names_us(categories: &[super::proto::InternedName]) -> bool {
    categories.first().is_some_and(|first| first.name.as_deref() == Some(super::CATEGORY))
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    /// The slice that is open on each track.
    open: HashMap<u64, Open>,
}

struct Open {
    index: usize,
    kind: u64,
    target: FenceValue,
}

impl Reader {
    fn descriptor(&mut self, packet: &TracePacket) -> Result<(), ReadError> {
        let Some(track) = &packet.track_descriptor else { return Ok(()) };
        let uuid = track.uuid.unwrap_or(0);
        if uuid == PROCESSES + self.trace.processes.len() as u64
            && let Some(process) = &track.process
        {
            let name = process.process_name.clone().unwrap_or_default();
            self.trace.add_process(process.pid.unwrap_or(0) as u32, &name);
        } else if (LANES..ENGINES).contains(&uuid) && (uuid - LANES).is_multiple_of(TRACKS) {
            let process = track.parent_uuid.and_then(|parent| parent.checked_sub(PROCESSES));
            let process = process.filter(|process| *process < self.trace.processes.len() as u64);
            let lane = process.and_then(|process| lane_name::read(track.name.as_deref()?, process as u32));
            match lane {
                Some(lane) if (uuid - LANES) / TRACKS == self.trace.lanes.len() as u64 => {
                    self.trace.add_lane(lane);
                }
                _ => return Err(ReadError::BadTrack(uuid)),
            }
        }
        Ok(())
    }

    fn lane(&self, track: u64) -> Option<u32> {
        let lane = track.checked_sub(LANES)? / TRACKS;
        (lane < self.trace.lanes.len() as u64).then_some(lane as u32)
    }

    fn event(&mut self, time: u64, event: &TrackEvent) {
        let Some(track) = event.track_uuid else { return };
        let Some(lane) = self.lane(track).filter(|_| event.category_iids.first() == Some(&1)) else { return };
        let fields = Fields(&event.debug_annotations);
        self.name(lane, &fields);
        match event.kind {
            Some(SLICE_BEGIN) => {
                if let (Some(what), Some(kind)) = (fields.get(KIND), fields.begin()) {
                    self.open
                        .insert(track, Open { index: self.trace.events.len(), kind: what, target: fields.target() });
                    self.trace.events.push(Event { time, lane, kind });
                }
            }
            Some(SLICE_END) => self.end(time, lane, track, fields.get(OBSERVED)),
            Some(INSTANT) => {
                if let Some(kind) = fields.moment() {
                    self.trace.events.push(Event { time, lane, kind });
                }
            }
            _ => {}
        }
    }

    /// Takes the name that stands with an event: of the fence, or the text that it is about.
    fn name(&mut self, lane: u32, fields: &Fields<'_>) {
        let Some(text) = fields.text(NAME) else { return };
        let process = self.trace.lanes.get(lane as usize).map_or(0, |lane| lane.process);
        if let Some(fence) = fields.get(FENCE).and_then(|fence| u32::try_from(fence).ok()) {
            self.trace.fences.insert((process, fence), text.to_owned());
        } else if let Some(index) = fields.get(AMOUNT).and_then(|index| usize::try_from(index).ok())
            && index < NAMES_MAX
        {
            if self.trace.names.len() <= index {
                self.trace.names.resize(index + 1, String::new());
            }
            if let Some(name) = self.trace.names.get_mut(index) {
                text.clone_into(name);
            }
        }
    }

    fn end(&mut self, time: u64, lane: u32, track: u64, observed: Option<u64>) {
        let Some(Open { index, kind, target }) = self.open.remove(&track) else { return };
        match kind {
            code::WAIT => {
                let kind = EventKind::FenceWaitUnblocked { target, observed };
                self.trace.events.push(Event { time, lane, kind });
            }
            code::SIGNAL => {
                self.trace.events.push(Event { time, lane, kind: EventKind::FenceSignalExecuted(target) });
            }
            _ => {
                let Some(event) = self.trace.events.get_mut(index) else { return };
                let duration = Some(time.saturating_sub(event.time));
                let parts = event.kind.parts().map(|parts| Parts { duration, ..parts });
                if let Some(kind) = parts.and_then(|parts| EventKind::of_parts(&parts)) {
                    event.kind = kind;
                }
            }
        }
    }
}

/// The annotations of an event.
struct Fields<'a>(&'a [DebugAnnotation]);

impl Fields<'_> {
    fn get(&self, name: u64) -> Option<u64> {
        let field = self.0.iter().find(|annotation| annotation.name_iid == Some(name))?;
        field.uint_value.or(field.pointer_value)
    }

    fn text(&self, name: u64) -> Option<&str> {
        self.0.iter().find(|annotation| annotation.name_iid == Some(name))?.string_value.as_deref()
    }

    fn target(&self) -> FenceValue {
        let fence = self.get(FENCE).and_then(|fence| u32::try_from(fence).ok()).unwrap_or(0);
        FenceValue { fence, value: self.get(VALUE).unwrap_or(0) }
    }

    fn parts(&self, code: u64, duration: Option<u64>) -> Option<EventKind> {
        let (amount, detail) = (self.get(AMOUNT).unwrap_or(0), self.get(DETAIL).unwrap_or(0));
        EventKind::of_parts(&Parts { code, amount, detail, duration })
    }

    /// What begins here; durations come with the end.
    fn begin(&self) -> Option<EventKind> {
        match self.get(KIND)? {
            code::WAIT => Some(EventKind::FenceWaitQueued(self.target())),
            code::SIGNAL => Some(EventKind::FenceSignalQueued(self.target())),
            code => self.parts(code, Some(0)),
        }
    }

    fn moment(&self) -> Option<EventKind> {
        let target = self.target();
        match self.get(KIND)? {
            code::LONE_SIGNAL => Some(EventKind::FenceSignalExecuted(target)),
            code::LONE_WAIT => Some(EventKind::FenceWaitUnblocked { target, observed: self.get(OBSERVED) }),
            code => self.parts(code, None),
        }
    }
}
