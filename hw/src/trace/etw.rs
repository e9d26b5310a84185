//! The events in the format TraceLogging: what describes provider and events in front of the data of each event.
//!
//! Every event carries, before its own fields, the driver's handle of the adapter, the event's number in its ring, and the interrupt
//! request level; time and processor are those of ETW. A description is its size in 16 bits, a byte without tags, a name, and each
//! field's name and type. [traceloggingprovider.h]

use super::PROVIDER;
use super::event::{EVENTS, EventInfo, FieldInfo, FieldKind};

/// Fields in front of those of each event.
pub const PREFIX: &[FieldInfo] = &[
    FieldInfo { name: "adapter", kind: FieldKind::Hex64 },
    FieldInfo { name: "sequence", kind: FieldKind::U64 },
    FieldInfo { name: "irql", kind: FieldKind::U8 },
];

/// Bytes of [`PREFIX`] in an event's data, without padding.
pub const PREFIX_SIZE: usize = 17;

/// Bytes for the longest description.
const CAPACITY: usize = 128;

/// The type of a value, and its format, 0 for the one that goes without saying.
const fn types(kind: FieldKind) -> (u8, u8) {
    const FORMAT_NTSTATUS: u8 = 14;
    match kind {
        FieldKind::U64 => (10, 0),
        FieldKind::Hex64 => (21, 0),
        FieldKind::U32 => (8, 0),
        FieldKind::Hex32 => (20, 0),
        FieldKind::Status => (8, FORMAT_NTSTATUS),
        FieldKind::U16 | FieldKind::Reason | FieldKind::Ddi => (6, 0),
        FieldKind::U8 => (4, 0),
    }
}

/// A description.
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Metadata {
    const fn new() -> Self {
        Self { bytes: [0; CAPACITY], len: 2 }
    }

    const fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    const fn name(&mut self, name: &str) {
        let mut index = 0;
        while index < name.len() {
            self.byte(name.as_bytes()[index]);
            index += 1;
        }
        self.byte(0);
    }

    const fn fields(&mut self, fields: &[FieldInfo]) {
        let mut index = 0;
        while index < fields.len() {
            self.name(fields[index].name);
            match types(fields[index].kind) {
                (kind, 0) => self.byte(kind),
                (kind, format) => {
                    self.byte(kind | 0x80);
                    self.byte(format);
                }
            }
            index += 1;
        }
    }

    const fn finish(mut self) -> Self {
        [self.bytes[0], self.bytes[1]] = (self.len as u16).to_le_bytes();
        self
    }

    /// Of an event.
    const fn of(event: &EventInfo) -> Self {
        let mut metadata = Self::new();
        metadata.byte(0);
        metadata.name(event.name);
        metadata.fields(PREFIX);
        metadata.fields(event.fields);
        metadata.finish()
    }

    const fn of_provider() -> Self {
        let mut metadata = Self::new();
        metadata.name(PROVIDER);
        metadata.finish()
    }

    /// The metadata as bytes: its length, then names and types.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Describes the provider.
pub static PROVIDER_METADATA: Metadata = Metadata::of_provider();

/// Describes each of [`EVENTS`].
pub static METADATA: [Metadata; EVENTS.len()] = {
    let mut all = [Metadata::new(); EVENTS.len()];
    let mut index = 0;
    while index < EVENTS.len() {
        all[index] = Metadata::of(&EVENTS[index]);
        index += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::super::event::payload_size;
    use super::*;

    #[test]
    fn descriptions_say_how_long_they_are() {
        assert_eq!(payload_size(PREFIX), PREFIX_SIZE);
        assert_eq!(PROVIDER_METADATA.bytes(), b"\x1d\0Campanile.KernelModeDriver\0");
        for (event, metadata) in EVENTS.iter().zip(&METADATA) {
            let bytes = metadata.bytes();
            assert_eq!(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])), bytes.len(), "{}", event.name);
        }
        // Of a field with a format: 0x88 is a 32-bit number of which the next byte says more, 14 that it is an NTSTATUS.
        let refused = EVENTS.iter().position(|event| event.name == "Refused").unwrap();
        let fields = b"\x0aobject\0\x15status\0\x88\x0ereason\0\x06ddi\0\x06";
        assert!(METADATA[refused].bytes().windows(fields.len() - 1).any(|bytes| bytes == &fields[1..]));
        for (kind, number) in [
            (FieldKind::U64, 10),
            (FieldKind::Hex64, 21),
            (FieldKind::U32, 8),
            (FieldKind::Hex32, 20),
            (FieldKind::U16, 6),
            (FieldKind::Reason, 6),
            (FieldKind::Ddi, 6),
            (FieldKind::U8, 4),
        ] {
            assert_eq!(types(kind), (number, 0), "{kind:?}");
        }
        let stopped = EVENTS.iter().position(|event| event.name == "Stopped").unwrap();
        assert_eq!(METADATA[stopped].bytes(), b"\x24\0\0Stopped\0adapter\0\x15sequence\0\x0airql\0\x04");
    }
}
