//! The events: one table for their encoding in a ring, their ETW metadata and their documentation.
//!
//! The fields of an event are those of a C structure without padding, at most 24 bytes, which lie in the arguments of a ring's entry.

use super::ring::ARGUMENTS;
use super::{Component, KEYWORD_REFUSAL, KEYWORD_WORK, Level};

/// Type of an event's field, and the base it is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number of 64 bits.
    U64,
    /// Bits, an address or a handle of 64 bits.
    Hex64,
    /// A number of 32 bits.
    U32,
    /// Bits of 32 bits.
    Hex32,
    /// An NTSTATUS.
    Status,
    /// A number of 16 bits.
    U16,
    /// Number of a [`super::reason::Reason`], 16 bits.
    Reason,
    /// Number of a slot of DRIVER_INITIALIZATION_DATA, from 0 for DxgkDdiAddDevice; 16 bits.
    Ddi,
    /// A number of 8 bits.
    U8,
}

impl FieldKind {
    /// Bytes of the field.
    pub const fn size(self) -> usize {
        match self {
            Self::U64 | Self::Hex64 => 8,
            Self::U32 | Self::Hex32 | Self::Status => 4,
            Self::U16 | Self::Reason | Self::Ddi => 2,
            Self::U8 => 1,
        }
    }

    /// Name of the kind in the manual.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U64 => "u64",
            Self::Hex64 => "hex64",
            Self::U32 => "u32",
            Self::Hex32 => "hex32",
            Self::Status => "status",
            Self::U16 => "u16",
            Self::Reason => "reason",
            Self::Ddi => "ddi",
            Self::U8 => "u8",
        }
    }
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    pub name: &'static str,
    /// Kind of the field, which says how its bits are read and printed.
    pub kind: FieldKind,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventInfo {
    /// Number of the event in ring entries and in the manifest.
    pub id: u16,
    pub name: &'static str,
    /// Meaning of the event, a sentence for the manual and for the manifest.
    pub meaning: &'static str,
    /// The component in whose ring it is; `None` for what any component may write.
    pub component: Option<Component>,
    /// ETW level of the event.
    pub level: Level,
    /// ETW keywords besides that of the component.
    pub keywords: u64,
    /// Fields, in the order in which an entry has them.
    pub fields: &'static [FieldInfo],
}

/// Bytes of all fields.
pub const fn payload_size(fields: &[FieldInfo]) -> usize {
    let (mut size, mut index) = (0, 0);
    while index < fields.len() {
        size += fields[index].kind.size();
        index += 1;
    }
    size
}

/// True if the fields are those of a C structure without padding that fits into an entry.
const fn well_laid(fields: &[FieldInfo]) -> bool {
    let (mut size, mut index) = (0, 0);
    while index < fields.len() {
        if size % fields[index].kind.size() != 0 {
            return false;
        }
        size += fields[index].kind.size();
        index += 1;
    }
    size <= 8 * ARGUMENTS
}

/// Puts fields one behind the other.
struct Packer {
    words: [u64; ARGUMENTS],
    at: usize,
}

impl Packer {
    fn put(&mut self, value: u64, size: usize) {
        if let Some(word) = self.words.get_mut(self.at / 8) {
            *word |= value << (8 * (self.at % 8));
        }
        self.at += size;
    }
}

impl EventInfo {
    /// The fields' values in an entry's arguments.
    pub fn values(&self, arguments: [u64; ARGUMENTS]) -> impl Iterator<Item = (FieldInfo, u64)> {
        let mut at = 0;
        self.fields.iter().map(move |field| {
            let (size, start) = (field.kind.size(), at);
            at += size;
            let word = arguments.get(start / 8).copied().unwrap_or(0) >> (8 * (start % 8));
            (*field, if size < 8 { word & ((1 << (8 * size)) - 1) } else { word })
        })
    }

    /// ETW keywords in the ring of `component`.
    pub const fn keyword(&self, component: Component) -> u64 {
        component.keyword() | self.keywords
    }

    /// The kind of event with a number.
    pub fn of(id: u16) -> Option<&'static Self> {
        EVENTS.iter().find(|event| event.id == id)
    }
}

macro_rules! kind {
    (U64) => {
        u64
    };
    (Hex64) => {
        u64
    };
    (U32) => {
        u32
    };
    (Hex32) => {
        u32
    };
    (Status) => {
        u32
    };
    (U16) => {
        u16
    };
    (Reason) => {
        u16
    };
    (Ddi) => {
        u16
    };
    (U8) => {
        u8
    };
}

macro_rules! component {
    (any) => {
        None
    };
    ($name:ident) => {
        Some(Component::$name)
    };
}

macro_rules! events {
    ($(
        $(#[doc = $doc:literal])+
        $id:literal $component:ident $level:ident $(+ $keyword:ident)* $name:ident { $($field:ident: $kind:ident),* $(,)? }
    )*) => {
        /// Numbers of the events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum EventId {
            $( $(#[doc = $doc])+ $name = $id, )*
        }

        /// An event with its fields.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the fields' names say it")]
        pub enum Event {
            $( $(#[doc = $doc])+ $name { $($field: kind!($kind)),* }, )*
        }

        /// Every kind of event, in the order of their numbers.
        pub const EVENTS: &[EventInfo] = &[$(
            EventInfo {
                id: $id,
                name: stringify!($name),
                meaning: concat!($($doc),+),
                component: component!($component),
                level: Level::$level,
                keywords: 0 $(| $keyword)*,
                fields: {
                    const FIELDS: &[FieldInfo] =
                        &[$(FieldInfo { name: stringify!($field), kind: FieldKind::$kind }),*];
                    const { assert!(well_laid(FIELDS), stringify!($name)) };
                    FIELDS
                },
            },
        )*];

        impl Event {
            /// Number of the event.
            pub const fn id(&self) -> EventId {
                match self {
                    $( Self::$name { .. } => EventId::$name, )*
                }
            }

            /// Place of its kind in [`EVENTS`].
            pub const fn index(&self) -> usize {
                #[allow(clippy::enum_glob_use, reason = "positions by name")]
                enum Position { $($name),* }
                match self {
                    $( Self::$name { .. } => Position::$name as usize, )*
                }
            }

            /// The fields, packed as the arguments of an entry.
            pub fn arguments(&self) -> [u64; ARGUMENTS] {
                #[allow(unused_mut, reason = "some have no fields")]
                let mut packer = Packer { words: [0; ARGUMENTS], at: 0 };
                match self {
                    $( Self::$name { $($field),* } => {
                        $( packer.put(u64::from(*$field), FieldKind::$kind.size()); )*
                    } )*
                }
                packer.words
            }
        }
    };
}

events! {
    /// A call was refused: what the DDI answered, and why.
    1 any Warning + KEYWORD_REFUSAL Refused { object: Hex64, status: Status, reason: Reason, ddi: Ddi }
    /// Something that could not be refused made no sense and was passed over.
    2 any Warning + KEYWORD_REFUSAL PassedOver { object: Hex64, reason: Reason }

    /// The driver registered its entry points.
    8 Driver Information Loaded { interface: Hex32 }
    /// The driver is about to be unloaded.
    9 Driver Information Unloaded {}
    /// An adapter was added; it has no hardware yet.
    10 Driver Information AdapterAdded { adapter: Hex64 }
    /// An adapter was removed with all that was left of it.
    11 Driver Information AdapterRemoved { adapter: Hex64 }
    /// The graphics kernel switched the logging of events on or off.
    12 Driver Information LoggingSwitched { flags: Hex32, enabled: U8, level: U8 }
    /// The graphics kernel handed out its registration function for this control request: 0x230047 of Windows 8 and later, or 0x23003F of Windows 7.
    13 Driver Information RegistrationAnswered { request: Hex32 }

    /// The device runs.
    16 Adapter Information Started { vram: U64, caps: Hex64, doorbells: U32, queues: U32 }
    /// The device was stopped and given back.
    17 Adapter Information Stopped {}
    /// The device enters a power state, D0 being 1.
    18 Adapter Information PowerState { state: U32 }
    /// The device is in the power state that it was asked into.
    19 Adapter Information PowerStateReached { state: U32, running: U8 }
    /// A power component was asked into an F-state: a node by its number, or behind the nodes the transition to D3.
    20 Adapter Verbose ComponentState { component: U32, state: U32 }
    /// The function was removed by surprise.
    21 Adapter Error SurpriseRemoved {}
    /// The machine stops or has no use for the device: its scheduler was halted.
    22 Adapter Warning Halted {}
    /// The control request of RegistrationAnswered, told again as each adapter is added: in DriverEntry no session can listen yet. 0 from a driver that the kit's DxgkInitialize registered, which does not tell.
    23 Adapter Information RegisteredBy { request: Hex32 }

    /// A context that is scheduled packet by packet.
    32 Queue Information ContextCreated { context: Hex64, process: Hex64, node: U32 }
    /// A context whose queues the hardware schedules.
    33 Queue Information HwContextCreated { context: Hex64, process: Hex64, node: U32 }
    /// A context of either kind is gone.
    34 Queue Information ContextDestroyed { context: Hex64 }
    /// A hardware queue.
    35 Queue Information QueueCreated { queue: Hex64, context: Hex64, number: U32, node: U16, user: U8 }
    /// A hardware queue is gone.
    36 Queue Information QueueDestroyed { queue: Hex64, number: U32 }
    /// The hardware got a queue.
    37 Queue Information QueueMapped { number: U32, node: U32 }
    /// The hardware gave a queue up.
    38 Queue Information QueueUnmapped { number: U32, node: U32 }
    /// A doorbell, and the ring that came with it.
    39 Queue Information DoorbellCreated { doorbell: Hex64, ring: Hex64, number: U32, entries: U32 }
    /// A doorbell is gone.
    40 Queue Information DoorbellDestroyed { doorbell: Hex64 }
    /// A doorbell has a page.
    41 Queue Information DoorbellConnected { doorbell: Hex64, number: U32, page: U32 }
    /// A doorbell has its page no more.
    42 Queue Information DoorbellDisconnected { doorbell: Hex64, number: U32, page: U32 }
    /// The page of a doorbell is wanted for another one.
    43 Queue Information DoorbellVictim { doorbell: Hex64, number: U32, page: U32 }
    /// The operating system told of work in a user-mode queue.
    44 Queue Verbose + KEYWORD_WORK WorkNotified { number: U32 }
    /// A submission to a kernel-mode hardware queue.
    45 Queue Verbose + KEYWORD_WORK QueueSubmitted { fence: U64, commands: Hex64, number: U32, size: U32 }
    /// A packet to a node.
    46 Queue Verbose + KEYWORD_WORK PacketSubmitted { commands: Hex64, fence: U32, size: U32, node: U32 }
    /// A node was asked to give up its packets.
    47 Queue Information PreemptionRequested { fence: U32, node: U32 }
    /// A context is to stop.
    48 Queue Information ContextSuspended { context: Hex64, fence: U64 }
    /// A context may run.
    49 Queue Information ContextResumed { context: Hex64 }

    /// A native fence.
    64 Fence Information FenceCreated { fence: Hex64, system: Hex64 }
    /// A native fence is gone.
    65 Fence Information FenceDestroyed { fence: Hex64 }
    /// A native fence was opened in a process.
    66 Fence Information FenceOpened { open: Hex64, process: Hex64, current: Hex64 }
    /// A native fence was closed in a process.
    67 Fence Information FenceClosed { open: Hex64 }
    /// The operating system waits for a value of a fence, or no more.
    68 Fence Verbose + KEYWORD_WORK MonitoredValue { fence: Hex64, value: U64 }
    /// A processor signalled a fence.
    69 Fence Verbose + KEYWORD_WORK CurrentValue { fence: Hex64, value: U64 }
    /// A queue got a log of its waits (1) or signals (2).
    70 Fence Information LogSet { buffer: Hex64, number: U32, entries: U32, kind: U8 }

    /// An event of the device.
    80 Interrupt Verbose + KEYWORD_WORK DeviceEvent { data0: Hex64, data1: Hex64, queue: U32, kind: U16, node: U8 }
    /// The device collapsed fence events: every fence may have been signalled.
    81 Interrupt Warning EventsCollapsed {}
    /// The operating system was told that a packet is complete.
    82 Interrupt Verbose + KEYWORD_WORK PacketCompleted { fence: U32, node: U32 }
    /// The operating system was told of native fences, of all of the node if there are none.
    83 Interrupt Verbose + KEYWORD_WORK FencesSignaled { node: U32, fences: U32 }
    /// The operating system was told of a monitored fence.
    84 Interrupt Verbose + KEYWORD_WORK MonitoredFenceSignaled { node: U32 }
    /// The operating system was told of a fault of a packet or a queue.
    85 Interrupt Error Fault { address: Hex64, info: Hex64, fence: U64 }
    /// The operating system was told that a preemption is complete.
    86 Interrupt Information Preempted { node: U32, fence: U32 }
    /// The DPC ran.
    87 Interrupt Verbose + KEYWORD_WORK Dpc {}

    /// A process uses the adapter.
    96 Memory Information ProcessCreated { process: Hex64, system: Hex64 }
    /// A process uses it no more.
    97 Memory Information ProcessDestroyed { process: Hex64 }
    /// An allocation.
    98 Memory Information AllocationCreated { allocation: Hex64, size: U64, placement: U32 }
    /// An allocation is gone.
    99 Memory Information AllocationDestroyed { allocation: Hex64 }
    /// An allocation was opened on a device.
    100 Memory Information AllocationOpened { open: Hex64, size: U64 }
    /// An allocation was closed on a device.
    101 Memory Information AllocationClosed { open: Hex64 }
    /// A paging operation was written to a buffer or done at once.
    102 Memory Verbose + KEYWORD_WORK Paging { operation: U32, bytes: U32, more: U8 }
    /// A context has a root page table.
    103 Memory Information RootPageTableSet { context: Hex64, location: Hex64 }

    /// An engine was asked whether it answers.
    112 Reset Warning EngineQueried { node: U32, responsive: U8 }
    /// An engine with packets was reset.
    113 Reset Error EngineReset { node: U32, aborted: U32 }
    /// An engine with hardware queues was reset; the queue that ran, or 4294967295.
    114 Reset Error HwEngineReset { node: U32, queue: U32 }
    /// An engine reports again after its reset.
    115 Reset Warning HwEngineResumed { node: U32 }
    /// The adapter was reset.
    116 Reset Error AdapterReset {}
    /// The adapter runs again.
    117 Reset Warning AdapterRestarted {}
    /// The operating system collected debug information.
    118 Reset Warning InformationCollected { code: Hex32, bytes: U32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn numbers_rise_and_events_find_their_description() {
        assert!(EVENTS.is_sorted_by(|one, other| one.id < other.id));
        for event in EVENTS {
            assert_eq!(EventInfo::of(event.id), Some(event));
            assert!(event.meaning.trim().ends_with('.'), "{}", event.name);
        }
        let event = Event::AdapterAdded { adapter: 7 };
        assert_eq!((EVENTS[event.index()].id, EVENTS[event.index()].name), (event.id() as u16, "AdapterAdded"));
    }

    #[test]
    fn fields_are_laid_as_in_a_structure_without_padding_that_fits_into_an_entry() {
        use FieldKind::{Hex64, Status, U8, U16, U32, U64};
        for (kinds, bytes, fits) in [
            (&[][..], 0, true),
            (&[U8], 1, true),
            (&[U8, U8, U16, U32], 8, true),
            (&[U8, U16], 3, false),
            (&[U16, U32], 6, false),
            (&[U32, U64], 12, false),
            (&[U64, U32, U16, U8], 15, true),
            (&[Hex64, U64, Status, U32], 24, true),
            (&[Hex64, U64, Status, U32, U8], 25, false),
            (&[U64, U64, U64, U64], 32, false),
        ] {
            let fields: Vec<FieldInfo> = kinds.iter().map(|kind| FieldInfo { name: "field", kind: *kind }).collect();
            assert_eq!((payload_size(&fields), well_laid(&fields)), (bytes, fits), "{kinds:?}");
        }
    }

    #[test]
    fn an_event_has_the_keywords_of_its_component_and_its_own() {
        use crate::trace::{Component, KEYWORD_REFUSAL};
        let refused = EventInfo::of(EventId::Refused as u16).unwrap();
        assert_eq!(refused.keyword(Component::Queue), Component::Queue.keyword() | KEYWORD_REFUSAL);
        let added = EventInfo::of(EventId::AdapterAdded as u16).unwrap();
        assert_eq!(added.keyword(Component::Driver), Component::Driver.keyword());
    }

    #[test]
    fn fields_come_back_as_they_were_written() {
        let event = Event::Refused { object: u64::MAX, status: 0xc000_000d, reason: 27, ddi: 190 };
        let info = &EVENTS[event.index()];
        let values: Vec<_> = info.values(event.arguments()).map(|(field, value)| (field.name, value)).collect();
        assert_eq!(values, [("object", u64::MAX), ("status", 0xc000_000d), ("reason", 27), ("ddi", 190)]);
        assert_eq!(event.arguments(), [u64::MAX, 0x00be_001b_c000_000d, 0]);
        let event = Event::DeviceEvent { data0: 1, data1: 2, queue: 3, kind: 4, node: 5 };
        let values: Vec<_> = EVENTS[event.index()].values(event.arguments()).map(|(_, value)| value).collect();
        assert_eq!(values, [1, 2, 3, 4, 5]);
    }
}
