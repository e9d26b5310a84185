//! Decodes the data that DxgkDdiCollectDbgInfo of this driver writes, whose layout is [`campanile_hw::debug`], and prints it.

mod dispatch;

pub use dispatch::DebugDispatch;

use std::fmt;

use campanile_hw::debug::{CUT, HEADER_WORDS, MAGIC, NO_PAGE, POWERED, RUNNING, Section, WORDS_AT};
use campanile_hw::trace::Component;
use campanile_hw::trace::entry::{TraceEntry, from_words};
use campanile_hw::trace::event::{EventInfo, FieldInfo, FieldKind};
use campanile_hw::trace::reason::Reason;
use serde::Serialize;
use wddm_ddi::km::SLOT_NAMES;
use wddm_ddi::status::NTSTATUS;

/// The device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DebugDevice {
    /// Bytes of VRAM that allocations may use.
    pub vram: u64,
    /// The register CAPS.
    pub caps: u64,
    /// Doorbell pages.
    pub doorbells: u32,
    /// Queues that the hardware can have.
    pub queues: u32,
    /// Performance counter when the information was collected.
    pub counter: u64,
    /// Ticks a second of the performance counter.
    pub frequency: u64,
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DebugNode {
    /// Last packet submitted.
    pub submitted: u32,
    /// Last packet complete.
    pub completed: u32,
    /// True between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine, while nothing of the node is reported.
    pub silent: bool,
    /// The F-state that the operating system requested last.
    pub fstate: u32,
}

/// A reason of refusal, and how often there was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DebugReason {
    /// Its name, or its number if this program does not know it.
    pub reason: String,
    /// Meaning of the reason, a sentence.
    pub meaning: String,
    /// Calls that were refused.
    pub refused: u64,
    /// Events and values that could not be refused and were ignored.
    pub passed_over: u64,
}

/// A hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DebugQueue {
    /// The driver's handle.
    pub handle: u64,
    /// The operating system's handle.
    pub system: u64,
    /// The driver's handle of its context.
    pub context: u64,
    /// Number of the queue on the hardware.
    pub number: u32,
    /// Node that executes the queue.
    pub node: u32,
    /// True if user mode writes its ring.
    pub user_mode: bool,
    /// Submissions that wait for a free entry of the kernel's ring.
    pub waiting: u32,
    /// The driver's handle of its doorbell, 0 for none.
    pub doorbell: u64,
    /// Address of its progress value.
    pub progress: u64,
}

/// A doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DebugDoorbell {
    /// The driver's handle.
    pub handle: u64,
    /// The operating system's handle.
    pub system: u64,
    /// The driver's handle of its queue.
    pub queue: u64,
    /// The physical doorbell that it is connected to.
    pub page: Option<u64>,
}

/// A native fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DebugFence {
    /// The driver's handle.
    pub handle: u64,
    /// The operating system's handle.
    pub system: u64,
    /// True if its device is in error, so that every wait for it is satisfied.
    pub always_signaled: bool,
    /// Objects of this fence, one for each process that opened it.
    pub open: Vec<DebugOpenFence>,
}

/// A native fence in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DebugOpenFence {
    /// The driver's handle.
    pub handle: u64,
    /// The driver's handle of the process.
    pub process: u64,
    /// Address of the current value.
    pub current: u64,
    /// Address of the monitored value.
    pub monitored: u64,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DebugField {
    pub name: &'static str,
    /// The value as bits.
    pub value: u64,
    /// The value as text, according to the kind of the field.
    pub text: String,
}

/// An event of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DebugEvent {
    /// Number of the event in the ring, from 0.
    pub number: u64,
    /// Performance counter when it happened.
    pub time: u64,
    /// Interrupt request level.
    pub irql: u8,
    /// Processor.
    pub processor: u32,
    /// Its name, or its number if this program does not know it.
    pub event: String,
    /// Fields of the event.
    pub fields: Vec<DebugField>,
}

/// A ring of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DebugRing {
    /// The component.
    pub component: String,
    /// Events ever written.
    pub written: u64,
    /// Events that were dropped because another writer was writing the same entry.
    pub dropped: u64,
    /// The last of them, oldest first.
    pub events: Vec<DebugEvent>,
}

/// Decoded debug information. The layout is that of [`campanile_hw::debug`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DebugInformation {
    /// Bug-check code for which it was collected.
    pub reason: u32,
    /// True if the device was running.
    pub running: bool,
    /// True if the device was in D0.
    pub powered: bool,
    /// True if the buffer was too small, so that the rest is missing.
    pub cut: bool,
    /// The driver's handle of the adapter.
    pub adapter: u64,
    /// The device, if it was started.
    pub device: Option<DebugDevice>,
    /// The nodes.
    pub nodes: Vec<DebugNode>,
    /// Dispatches in progress, if it was collected for a timeout.
    pub dispatches: Vec<DebugDispatch>,
    /// The reasons of refusals.
    pub reasons: Vec<DebugReason>,
    /// Hardware queues.
    pub queues: Vec<DebugQueue>,
    /// Doorbells.
    pub doorbells: Vec<DebugDoorbell>,
    /// Native fences.
    pub fences: Vec<DebugFence>,
    /// The last events of each component.
    pub rings: Vec<DebugRing>,
}

/// The reason why bytes cannot be decoded as debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadDebugInformation {
    /// The first word is not that of this version.
    Magic(u64),
    /// So many bytes end within what they announce.
    Truncated(usize),
    /// The section that begins at this word announces more than there is, or items that are too short for it.
    Section(usize),
}

impl fmt::Display for BadDebugInformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(word) => write!(
                f,
                "this is no debug information of version 3: the first 8 bytes are \"{}\"",
                word.to_le_bytes().escape_ascii()
            ),
            Self::Truncated(bytes) => write!(f, "the information was cut off after {bytes} bytes"),
            Self::Section(word) => write!(f, "the section at byte {} does not hold what it announces", 8 * word),
        }
    }
}

impl std::error::Error for BadDebugInformation {}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl DebugInformation {
    /// Reads what DxgkDdiCollectDbgInfo wrote; what follows the words that it counts is not looked at.
    ///
    /// # Errors
    /// [`BadDebugInformation`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BadDebugInformation> {
        let cut = BadDebugInformation::Truncated(bytes.len());
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let magic = *words.first().ok_or(cut)?;
        if magic != MAGIC {
            return Err(BadDebugInformation::Magic(magic));
        }
        let count = words.get(WORDS_AT).and_then(|count| usize::try_from(*count).ok()).ok_or(cut)?;
        let words = words.get(..count).ok_or(cut)?;
        let [_, _, state, adapter] = *words.first_chunk::<HEADER_WORDS>().ok_or(cut)?;
        let mut information = Self {
            reason: low(state),
            running: state & RUNNING != 0,
            powered: state & POWERED != 0,
            cut: state & CUT != 0,
            adapter,
            ..Self::default()
        };
        let mut open = Vec::new();
        let mut at = HEADER_WORDS;
        while let Some(header) = words.get(at) {
            let bad = BadDebugInformation::Section(at);
            let (section, item, items) = (*header as u16, (*header >> 16) as u16, high(*header));
            let size = usize::from(item).checked_mul(items as usize).ok_or(bad)?;
            let end = size.checked_add(at + 1).ok_or(bad)?;
            let body = words.get(at + 1..end).ok_or(bad)?;
            if item == 0 && items != 0 {
                return Err(bad);
            }
            for item in body.chunks_exact(usize::from(item).max(1)) {
                information.item(section, item, &mut open).ok_or(bad)?;
            }
            at = end;
        }
        for (fence, place) in open {
            if let Some(fence) = information.fences.iter_mut().find(|known| known.handle == fence) {
                fence.open.push(place);
            }
        }
        Ok(information)
    }

    /// Takes an item in; `None` if it is too short. Those of sections that this program does not know are passed over.
    fn item(&mut self, section: u16, item: &[u64], open: &mut Vec<(u64, DebugOpenFence)>) -> Option<()> {
        const DEVICE: u16 = Section::Device as u16;
        const NODES: u16 = Section::Nodes as u16;
        const REASONS: u16 = Section::Reasons as u16;
        const RINGS: u16 = Section::Rings as u16;
        const QUEUES: u16 = Section::Queues as u16;
        const DOORBELLS: u16 = Section::Doorbells as u16;
        const FENCES: u16 = Section::Fences as u16;
        const OPEN_FENCES: u16 = Section::OpenFences as u16;
        const DISPATCHES: u16 = Section::Dispatches as u16;
        const EVENTS: u16 = Section::Events as u16;
        match section {
            DEVICE => self.device = Some(device(item.first_chunk()?)),
            NODES => self.nodes.push(node(item.first_chunk()?)),
            DISPATCHES => self.dispatches.push(DebugDispatch::of(item.first_chunk()?)),
            REASONS => self.reasons.push(reason(item.first_chunk()?)),
            RINGS => {
                let [component, written, dropped] = *item.first_chunk()?;
                self.rings.push(DebugRing {
                    component: component_name(component),
                    written,
                    dropped,
                    events: Vec::new(),
                });
            }
            QUEUES => self.queues.push(queue(item.first_chunk()?)),
            DOORBELLS => {
                let [handle, system, queue, page] = *item.first_chunk()?;
                self.doorbells.push(DebugDoorbell {
                    handle,
                    system,
                    queue,
                    page: Some(page).filter(|p| *p != NO_PAGE),
                });
            }
            FENCES => {
                let [handle, system, flags] = *item.first_chunk()?;
                self.fences.push(DebugFence { handle, system, always_signaled: flags & 1 != 0, open: Vec::new() });
            }
            OPEN_FENCES => {
                let [handle, fence, process, current, monitored] = *item.first_chunk()?;
                open.push((fence, DebugOpenFence { handle, process, current, monitored }));
            }
            EVENTS..0x200 => {
                let event = event(item.first_chunk()?);
                let name = component_name((section - EVENTS).into());
                let ring = self.rings.iter_mut().find(|ring| ring.component == name);
                if let (Some(ring), Some(event)) = (ring, event) {
                    ring.events.push(event);
                }
            }
            _ => {}
        }
        Some(())
    }

    /// The ring of a component.
    pub fn ring(&self, component: Component) -> Option<&DebugRing> {
        self.rings.iter().find(|ring| ring.component == component.name())
    }
}

fn component_name(number: u64) -> String {
    let known = u8::try_from(number).ok().and_then(Component::from_number);
    known.map_or_else(|| format!("component {number}"), |component| component.name().to_owned())
}

fn device(&[vram, caps, numbers, counter, frequency]: &[u64; 5]) -> DebugDevice {
    DebugDevice { vram, caps, doorbells: low(numbers), queues: high(numbers), counter, frequency }
}

fn node(&[packets, state]: &[u64; 2]) -> DebugNode {
    DebugNode { submitted: low(packets), completed: high(packets), silent: state & 1 != 0, fstate: high(state) }
}

fn known_reason(number: u64) -> Option<Reason> {
    u16::try_from(number).ok().and_then(Reason::from_number)
}

fn reason(&[number, refused, passed_over]: &[u64; 3]) -> DebugReason {
    let known = known_reason(number);
    DebugReason {
        reason: known.map_or_else(|| number.to_string(), |reason| reason.name().to_owned()),
        meaning: known.map_or_else(String::new, |reason| reason.meaning().trim().to_owned()),
        refused,
        passed_over,
    }
}

fn queue(&[handle, system, context, about, doorbell, progress]: &[u64; 6]) -> DebugQueue {
    DebugQueue {
        handle,
        system,
        context,
        number: low(about),
        node: high(about) & 0xff,
        user_mode: about >> 40 & 1 != 0,
        waiting: high(about) >> 16,
        doorbell,
        progress,
    }
}

/// Decodes an event; `None` for an entry that was not complete.
fn event(words: &[u64; TraceEntry::WORDS]) -> Option<DebugEvent> {
    let read = from_words(words)?;
    let info = EventInfo::of(read.event);
    let fields = info.into_iter().flat_map(|info| info.values(read.arguments));
    Some(DebugEvent {
        number: read.number,
        time: read.moment.time,
        irql: read.moment.irql,
        processor: read.moment.processor,
        event: info.map_or_else(|| format!("event {}", read.event), |info| info.name.to_owned()),
        fields: fields
            .map(|(field, value)| DebugField { name: field.name, value, text: field_text(field, value) })
            .collect(),
    })
}

/// The functions of interfaces, which come behind the slots of the table.
const INTERFACE_FUNCTIONS: [&str; 3] = ["QueryFeatureSupport", "QueryFeatureInterface", "BuildTestCommandBuffer"];

fn field_text(field: FieldInfo, value: u64) -> String {
    match field.kind {
        FieldKind::U64 | FieldKind::U32 | FieldKind::U16 | FieldKind::U8 => value.to_string(),
        FieldKind::Hex64 | FieldKind::Hex32 => format!("{value:#x}"),
        FieldKind::Status => NTSTATUS((value as u32).cast_signed()).to_string(),
        FieldKind::Reason => known_reason(value).map_or_else(|| value.to_string(), |reason| reason.name().to_owned()),
        FieldKind::Ddi => {
            let mut names = SLOT_NAMES.iter().chain(&INTERFACE_FUNCTIONS);
            let name = usize::try_from(value).ok().and_then(|index| names.nth(index));
            name.map_or_else(|| value.to_string(), |name| (*name).to_owned())
        }
    }
}

impl fmt::Display for DebugInformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.running { "is running" } else { "is stopped" };
        let power = if self.powered { "" } else { ", not in D0" };
        writeln!(f, "Debug information for bug check {:#x}: the device {state}{power}", self.reason)?;
        if self.cut {
            writeln!(f, "  the driver's buffer was too small: what does not fit is missing")?;
        }
        if let Some(device) = &self.device {
            let DebugDevice { vram, caps, doorbells, queues, .. } = device;
            writeln!(f, "  {vram} bytes of VRAM, {doorbells} doorbell pages, {queues} queues, caps {caps:#x}")?;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let silent = if node.silent { ", not reported until DxgkDdiResumeHwEngine" } else { "" };
            let DebugNode { completed, submitted, fstate, .. } = node;
            writeln!(f, "  node {number}: packet {completed} of {submitted} complete, F{fstate}{silent}")?;
        }
        for dispatch in &self.dispatches {
            writeln!(f, "  {dispatch}")?;
        }
        for DebugReason { reason, meaning, refused, passed_over } in &self.reasons {
            writeln!(f, "  {reason}: {refused} refused, {passed_over} ignored. {meaning}")?;
        }
        for queue in &self.queues {
            let kind = if queue.user_mode { "user-mode" } else { "kernel-mode" };
            let DebugQueue { number, node, handle, system, doorbell, progress, waiting, .. } = queue;
            write!(f, "  queue {number} on node {node}: {kind}, {handle:#x}, system handle {system:#x}")?;
            writeln!(f, ", doorbell {doorbell:#x}, progress at {progress:#x}, {waiting} submissions wait")?;
        }
        for DebugDoorbell { handle, system, queue, page } in &self.doorbells {
            let page = page.map_or_else(|| "not connected".to_owned(), |page| format!("physical doorbell {page}"));
            writeln!(f, "  doorbell {handle:#x}, system handle {system:#x}, of queue {queue:#x}: {page}")?;
        }
        for fence in &self.fences {
            let always = if fence.always_signaled { ", satisfies every wait" } else { "" };
            writeln!(f, "  fence {:#x}, system handle {:#x}{always}", fence.handle, fence.system)?;
            for DebugOpenFence { process, current, monitored, .. } in &fence.open {
                writeln!(f, "    in process {process:#x}: current value at {current:#x}, monitored at {monitored:#x}")?;
            }
        }
        self.rings.iter().try_for_each(|ring| self.fmt_ring(f, ring))
    }
}

impl DebugInformation {
    fn fmt_ring(&self, f: &mut fmt::Formatter<'_>, ring: &DebugRing) -> fmt::Result {
        let dropped = if ring.dropped == 0 { String::new() } else { format!(", {} dropped", ring.dropped) };
        writeln!(f, "  {}: {} events{dropped}", ring.component, ring.written)?;
        for event in &ring.events {
            let fields: Vec<String> =
                event.fields.iter().map(|field| format!("{} {}", field.name, field.text)).collect();
            let DebugEvent { number, irql, processor, .. } = event;
            let ago = self.device.filter(|device| device.frequency != 0).map_or_else(String::new, |device| {
                let ticks = device.counter.saturating_sub(event.time);
                let microseconds = u128::from(ticks) * 1_000_000 / u128::from(device.frequency);
                format!(" {microseconds} us before")
            });
            writeln!(f, "    #{number}{ago}, CPU {processor}, IRQL {irql}: {} {}", event.event, fields.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::trace::entry::{Moment, Read, to_words};
    use campanile_hw::trace::event::Event;
    use proptest::prelude::*;

    fn section(section: u16, words: usize, items: &[&[u64]]) -> Vec<u64> {
        let header = u64::from(section) | (words as u64) << 16 | (items.len() as u64) << 32;
        std::iter::once(header).chain(items.iter().flat_map(|item| item.iter().copied())).collect()
    }

    fn blob(sections: &[Vec<u64>]) -> Vec<u64> {
        let mut words = vec![MAGIC, 0, 0x141 | RUNNING | POWERED, 0x71];
        words.extend(sections.iter().flatten());
        words[WORDS_AT] = words.len() as u64;
        words
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn good() -> Vec<u64> {
        let event = Event::Refused { object: 0x86, status: 0xc000_000d, reason: Reason::Ring as u16, ddi: 165 };
        let moment = Moment { time: 900, irql: 2, processor: 1 };
        let entry = Read { number: 4, moment, event: event.id() as u16, arguments: event.arguments() };
        let queues = Component::Queue as u16;
        blob(&[
            section(Section::Device as u16, 5, &[&[64 << 20, 3, 16 | 256 << 32, 1000, 10_000_000]]),
            section(Section::Nodes as u16, 2, &[&[7 | 5 << 32, 1 | 1 << 32]]),
            section(Section::Reasons as u16, 3, &[&[Reason::Ring as u64, 3, 0], &[999, 0, 4]]),
            section(Section::Rings as u16, 3, &[&[queues.into(), 5, 1]]),
            section(Section::Queues as u16, 6, &[&[0x86, 0xabc, 0x85, 8 | 1 << 32 | 1 << 40 | 2 << 48, 0x87, 0x5000]]),
            section(Section::Doorbells as u16, 4, &[&[0x87, 0xdef, 0x86, 3], &[0x97, 0, 0, NO_PAGE]]),
            section(Section::Fences as u16, 3, &[&[0x88, 0x111, 1]]),
            section(Section::OpenFences as u16, 5, &[&[0x89, 0x88, 0x82, 0x6000, 0x6008]]),
            section(Section::Events as u16 + queues, 6, &[&to_words(&entry), &[3, 0, 0, 0, 0, 0]]),
            section(77, 2, &[&[1, 2]]),
        ])
    }

    #[test]
    fn the_tree_is_read_by_its_layout() {
        let decoded = DebugInformation::decode(&bytes(&good())).unwrap();
        assert_eq!((decoded.reason, decoded.running, decoded.powered, decoded.cut), (0x141, true, true, false));
        assert_eq!(decoded.nodes, [DebugNode { submitted: 7, completed: 5, silent: true, fstate: 1 }]);
        let queue = decoded.queues[0];
        assert_eq!((queue.number, queue.node, queue.user_mode, queue.waiting), (8, 1, true, 2));
        assert_eq!((decoded.doorbells[0].page, decoded.doorbells[1].page), (Some(3), None));
        assert_eq!((decoded.fences[0].always_signaled, decoded.fences[0].open[0].current), (true, 0x6000));
        let reasons: Vec<_> = decoded.reasons.iter().map(|r| (r.reason.as_str(), r.refused, r.passed_over)).collect();
        assert_eq!(reasons, [("Ring", 3, 0), ("999", 0, 4)]);
        let ring = decoded.ring(Component::Queue).unwrap();
        assert_eq!((ring.written, ring.dropped, ring.events.len()), (5, 1, 1), "an incomplete entry is no event");
        let text = decoded.to_string();
        for part in [
            "node 0: packet 5 of 7 complete, F1, not reported until DxgkDdiResumeHwEngine",
            "queue 8 on node 1: user-mode",
            "of queue 0x86: physical doorbell 3",
            "#4 10 us before, CPU 1, IRQL 2: Refused object 0x86, status STATUS_INVALID_PARAMETER (0xc000000d), reason Ring, ddi DxgkDdiCreateDoorbell",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let json = serde_json::to_value(&decoded).unwrap();
        assert_eq!(json["rings"][0]["events"][0]["fields"][2]["text"], "Ring");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = good();
        for len in 0..good.len() {
            let cut = DebugInformation::decode(&bytes(&good[..len]));
            assert_eq!(cut, Err(BadDebugInformation::Truncated(8 * len)), "{len}");
        }
        assert!(matches!(DebugInformation::decode(&[b'x'; 80]), Err(BadDebugInformation::Magic(_))));
        let too_short = blob(&[section(Section::Queues as u16, 5, &[&[0; 5]])]);
        let no_items = blob(&[vec![7 << 32 | 2]]);
        let beyond = blob(&[vec![u64::MAX]]);
        for words in [too_short, no_items, beyond] {
            assert_eq!(DebugInformation::decode(&bytes(&words)), Err(BadDebugInformation::Section(HEADER_WORDS)));
        }
        assert_eq!(DebugInformation::decode(&bytes(&blob(&[]))).unwrap().reason, 0x141);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(noise in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = DebugInformation::decode(&noise).map(|information| information.to_string());
        }

        #[test]
        fn any_change_of_good_information_is_read_or_refused(
            changes in prop::collection::vec((0..64_usize, any::<u64>()), 1..6),
            small in any::<bool>(),
        ) {
            let mut words = good();
            let len = words.len();
            for (at, value) in changes {
                words[1 + at % (len - 1)] = if small { value & 0xff_0007_0007 } else { value };
            }
            if let Ok(information) = DebugInformation::decode(&bytes(&words)) {
                prop_assert!(!information.to_string().is_empty());
                prop_assert!(serde_json::to_string(&information).is_ok());
            }
        }
    }
}
