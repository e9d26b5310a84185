//! Traces as Perfetto files, for ui.perfetto.dev and for `campanile timeline`.
//!
//! Every process of the trace is a process track. Below a queue hang its signals and its waits, drawn from queued to executed, as
//! many tracks of each as overlap, and one track for what the engine did for it. Every engine has a track of its own again.
//! A wait that blocked its queue ends an arrow from the signal that released it; both ends are instants of the queue's own track.
//!
//! Reading takes only the category [`CATEGORY`]; what is there for the eye alone has another one. What is read is what was
//! written, event by event.

mod decode;
mod encode;
mod proto;

pub use decode::{ReadError, read};
pub use encode::write;

/// Category of what is read back.
pub const CATEGORY: &str = "campanile";
/// Category of what only repeats for the eye.
pub const VIEW: &str = "view";

/// Interned categories, by number from 1.
const CATEGORIES: [&str; 2] = [CATEGORY, VIEW];
/// Interned annotation names, by number from 1.
const ANNOTATIONS: [&str; 8] = ["fence", "value", "observed", "lane", "amount", "kind", "detail", "name"];
const FENCE: u64 = 1;
const VALUE: u64 = 2;
const OBSERVED: u64 = 3;
const LANE: u64 = 4;
const AMOUNT: u64 = 5;
/// A number of [`crate::trace::code`].
const KIND: u64 = 6;
const DETAIL: u64 = 7;
/// The name of a fence, or the text that an event is about.
const NAME: u64 = 8;

/// Lanes are track uuids from here on: `LANES + lane * TRACKS + track`.
const LANES: u64 = 1 << 32;
/// Tracks that a lane can have.
const TRACKS: u64 = 1 << 20;
/// Processes are track uuids from here on.
const PROCESSES: u64 = 1 << 20;
/// Engines are track uuids from here on.
const ENGINES: u64 = 1 << 60;
/// Tracks that an engine can have.
const ENGINE_ROWS: u64 = 4096;

/// Text form of a lane's kind and handle in the name of its track.
mod lane_name {
    use crate::trace::{Lane, LaneKind};

    /// `queue 0x40000040 on node 1: copy up`
    pub(super) fn write(lane: &Lane) -> String {
        match lane.kind {
            LaneKind::Queue { node } => format!("queue {:#x} on node {node}: {}", lane.handle, lane.name),
            LaneKind::Cpu => format!("CPU: {}", lane.name),
            LaneKind::Paging => format!("paging {:#x}: {}", lane.handle, lane.name),
            LaneKind::Machine => format!("machine: {}", lane.name),
        }
    }

    fn handle(text: &str) -> Option<u32> {
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }

    pub(super) fn read(text: &str, process: u32) -> Option<Lane> {
        let (head, name) = text.split_once(": ")?;
        let words: Vec<&str> = head.split(' ').collect();
        let (kind, handle) = match words.as_slice() {
            ["queue", queue, "on", "node", node] => (LaneKind::Queue { node: node.parse().ok()? }, handle(queue)?),
            ["paging", queue] => (LaneKind::Paging, handle(queue)?),
            ["CPU"] => (LaneKind::Cpu, 0),
            ["machine"] => (LaneKind::Machine, 0),
            _ => return None,
        };
        Some(Lane { process, kind, name: name.to_owned(), handle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, EventKind, FenceValue, Lane, LaneKind, NONE, Trace, synthetic};

    /// As files keep no order among events of one moment.
    fn canonical(mut trace: Trace) -> Trace {
        trace.events.sort_by_key(|event| (event.time, event.lane, event.kind.name(), format!("{:?}", event.kind)));
        trace
    }

    fn round_trip(trace: &Trace) -> Trace {
        read(&write(trace)).expect("what was written can be read")
    }

    #[test]
    fn what_was_written_is_read_back_event_by_event() {
        for count in [0, 1, 10, 5000] {
            let trace = synthetic(count);
            assert_eq!(canonical(round_trip(&trace)), canonical(trace));
        }
    }

    #[test]
    fn every_kind_of_event_survives() {
        let mut trace = Trace::default();
        let process = trace.add_process(77, "a process: with a colon");
        trace.add_lane(Lane { process, kind: LaneKind::Queue { node: 1 }, name: "q: r".into(), handle: 0x40 });
        trace.add_lane(Lane { process, kind: LaneKind::Paging, name: "p".into(), handle: 0x80 });
        trace.add_lane(Lane { process, kind: LaneKind::Cpu, name: "".into(), handle: 0 });
        trace.add_lane(Lane { process, kind: LaneKind::Machine, name: "m".into(), handle: 0 });
        let target = FenceValue { fence: u32::MAX, value: u64::MAX };
        let kinds = [
            EventKind::FenceWaitQueued(target),
            EventKind::FenceWaitUnblocked { target, observed: Some(3) },
            EventKind::FenceWaitUnblocked { target, observed: None },
            EventKind::FenceSignalQueued(target),
            EventKind::FenceSignalExecuted(target),
            EventKind::FenceSignalExecuted(target),
            EventKind::Submission { progress: 3 },
            EventKind::DoorbellRing { progress: 4 },
            EventKind::DoorbellReconnect { progress: 5 },
            EventKind::Work { progress: 6, duration: 7 },
            EventKind::CpuWait { target, duration: 0 },
            EventKind::Paging { bytes: 4096, fence: u32::MAX, duration: 9 },
            EventKind::PagingOperation { bytes: 0, operation: 7, duration: 11 },
            EventKind::Resident { bytes: 1 << 40 },
            EventKind::Evicted { bytes: 3 },
            EventKind::Interrupt { message: 1, duration: 12 },
            EventKind::Dpc { duration: 2 },
            EventKind::Report { kind: 19, node: NONE, amount: u64::MAX },
            EventKind::Report { kind: 1, node: 2, amount: 7 },
            EventKind::DoorbellConnect,
            EventKind::DoorbellDisconnect { status: 2 },
            EventKind::Reset { node: NONE },
            EventKind::PowerState { component: 3, state: 1 },
            EventKind::EventsLost { count: 4 },
            EventKind::LogViolation { count: 1 },
            EventKind::FenceSignalQueued(FenceValue { fence: 1, value: 1 }),
            EventKind::Label { name: 1, duration: 4 },
            EventKind::Named { name: 0 },
        ];
        trace.names = vec!["a buffer".into(), "a label: with a colon".into()];
        trace.fences.insert((process, u32::MAX), "a fence".into());
        for lane in 0..4 {
            trace.events.extend((10..).zip(kinds).map(|(time, kind)| Event { time, lane, kind }));
        }
        assert_eq!(canonical(round_trip(&trace)), canonical(trace));
    }

    #[test]
    fn damaged_files_are_refused_or_read_but_never_fatal() {
        let bytes = write(&synthetic(60));
        for end in 0..bytes.len() {
            let _ = read(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x41;
            let _ = read(&bytes);
        }
        assert!(read(b"no trace at all").is_err());
        assert!(read(b"").is_err(), "a file without a single packet is no trace");
    }

    #[test]
    fn slices_of_a_track_never_overlap_and_arrows_have_two_ends() {
        use prost::Message;
        use std::collections::HashMap;
        let file = proto::PerfettoTrace::decode(write(&synthetic(4000)).as_slice()).unwrap();
        let mut open: HashMap<u64, u32> = HashMap::new();
        let (mut starts, mut ends) = (Vec::<u64>::new(), Vec::<u64>::new());
        let mut last = 0;
        for packet in &file.packet {
            let Some(event) = &packet.track_event else { continue };
            let time = packet.timestamp.unwrap();
            assert!(time >= last, "packets are in order of time");
            last = time;
            let depth = open.entry(event.track_uuid.unwrap()).or_default();
            match event.kind.unwrap() {
                proto::SLICE_BEGIN => {
                    assert_eq!(*depth, 0);
                    *depth += 1;
                }
                proto::SLICE_END => *depth = depth.checked_sub(1).expect("an end has a beginning"),
                _ => {}
            }
            starts.extend(&event.flow_ids);
            ends.extend(&event.terminating_flow_ids);
        }
        assert!(starts.len() > 100);
        starts.sort_unstable();
        starts.dedup();
        ends.sort_unstable();
        assert_eq!(starts, ends, "every arrow starts once and ends once");
    }
}
