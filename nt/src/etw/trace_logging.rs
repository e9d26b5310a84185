//! Events that describe themselves: the format TraceLogging.
//!
//! The first two parts of an event's data describe provider and event; after them comes the payload, field behind field without padding. A
//! description begins with its size in bytes (16 bits). That of a provider goes on with a name that ends in 0; that of an event with tag
//! bytes, of which the last has bit 7 clear, a name, and for each field its name and the type of its value. Bit 7 of the type says that a
//! format follows, bit 7 of the format that tag bytes follow. [traceloggingprovider.h]

use std::fmt;

use wddm_ddi::nt::{
    EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA, EVENT_DATA_DESCRIPTOR_TYPE_NONE,
    EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA, EVENT_DESCRIPTOR, WINEVENT_CHANNEL_TRACELOGGING,
};

/// Bits 4:0 of a field's type: the value. Bits 6:5 say how many there are, 0 for one.
const TYPE_BITS: u8 = 0x1f;
const COUNT_BITS: u8 = 0x60;
const MORE: u8 = 0x80;

/// A value of a field, and how it is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceLoggingValue {
    /// A number of so many bytes.
    Unsigned(u64, usize),
    /// A number of so many bytes, to be shown in hexadecimal.
    Hexadecimal(u64, usize),
    /// An NTSTATUS.
    Status(u32),
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLoggingField {
    /// Name of the field.
    pub name: String,
    /// Value of the field.
    pub value: TraceLoggingValue,
}

/// An event that described itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLoggingEvent {
    /// Name of the provider.
    pub provider: String,
    /// Name of the event.
    pub name: String,
    /// The fields of the event, in their order.
    pub fields: Vec<TraceLoggingField>,
}

impl TraceLoggingEvent {
    /// The value of a field as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        Some(match field.value {
            TraceLoggingValue::Unsigned(value, _) | TraceLoggingValue::Hexadecimal(value, _) => value,
            TraceLoggingValue::Status(status) => status.into(),
        })
    }
}

/// The reason why an event cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTraceLogging {
    /// It is on another channel.
    Channel(u8),
    /// A description is missing, or is not where it belongs.
    Parts,
    /// A description does not have the size that it says.
    Size,
    /// A name is not UTF-8 or has no end.
    Name,
    /// A type or format of a field that no driver here uses.
    Type(u8),
    /// The payload is shorter or longer than its fields.
    Payload,
}

impl fmt::Display for BadTraceLogging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(channel) => write!(f, "an event on channel {channel} does not describe itself"),
            Self::Parts => f.write_str("the descriptions of provider and event must come first"),
            Self::Size => f.write_str("a description does not have the size that it says"),
            Self::Name => f.write_str("a name has no end or is not UTF-8"),
            Self::Type(kind) => write!(f, "a field has the unknown type {kind:#x}"),
            Self::Payload => f.write_str("the payload is not as long as the fields"),
        }
    }
}

impl std::error::Error for BadTraceLogging {}

/// The part of a description that was not read yet.
struct Description<'a>(&'a [u8]);

impl<'a> Description<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, BadTraceLogging> {
        let (size, rest) = bytes.split_first_chunk::<2>().ok_or(BadTraceLogging::Size)?;
        if usize::from(u16::from_le_bytes(*size)) == bytes.len() { Ok(Self(rest)) } else { Err(BadTraceLogging::Size) }
    }

    fn byte(&mut self) -> Result<u8, BadTraceLogging> {
        let (byte, rest) = self.0.split_first().ok_or(BadTraceLogging::Size)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn tag(&mut self) -> Result<(), BadTraceLogging> {
        while self.byte()? & MORE != 0 {}
        Ok(())
    }

    fn name(&mut self) -> Result<String, BadTraceLogging> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(BadTraceLogging::Name)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        String::from_utf8(name.to_vec()).map_err(|_| BadTraceLogging::Name)
    }
}

/// Understands an event.
pub(super) fn decode(event: EVENT_DESCRIPTOR, parts: &[(u8, Vec<u8>)]) -> Result<TraceLoggingEvent, BadTraceLogging> {
    if event.Channel != WINEVENT_CHANNEL_TRACELOGGING {
        return Err(BadTraceLogging::Channel(event.Channel));
    }
    let [(provider_type, provider), (event_type, about), data @ ..] = parts else { return Err(BadTraceLogging::Parts) };
    let in_place = u32::from(*provider_type) == EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA
        && u32::from(*event_type) == EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA
        && data.iter().all(|(kind, _)| u32::from(*kind) == EVENT_DATA_DESCRIPTOR_TYPE_NONE);
    if !in_place {
        return Err(BadTraceLogging::Parts);
    }
    let provider = Description::new(provider)?.name()?;
    let mut about = Description::new(about)?;
    about.tag()?;
    let name = about.name()?;
    let payload: Vec<u8> = data.iter().flat_map(|(_, bytes)| bytes).copied().collect();
    let mut rest = &payload[..];
    let mut fields = Vec::new();
    while !about.0.is_empty() {
        let name = about.name()?;
        let kind = about.byte()?;
        let format = if kind & MORE != 0 { about.byte()? } else { 0 };
        if format & MORE != 0 {
            about.tag()?;
        }
        fields.push(TraceLoggingField { name, value: value(kind, format & !MORE, &mut rest)? });
    }
    if rest.is_empty() { Ok(TraceLoggingEvent { provider, name, fields }) } else { Err(BadTraceLogging::Payload) }
}

/// Takes a value off the payload.
fn value(kind: u8, format: u8, payload: &mut &[u8]) -> Result<TraceLoggingValue, BadTraceLogging> {
    const FORMAT_DEFAULT: u8 = 0;
    const FORMAT_STATUS: u8 = 14;
    if kind & COUNT_BITS != 0 {
        return Err(BadTraceLogging::Type(kind));
    }
    let (size, hexadecimal) = match kind & TYPE_BITS {
        4 => (1, false),
        6 => (2, false),
        8 => (4, false),
        10 => (8, false),
        20 => (4, true),
        21 => (8, true),
        _ => return Err(BadTraceLogging::Type(kind)),
    };
    let (bytes, rest) = payload.split_at_checked(size).ok_or(BadTraceLogging::Payload)?;
    *payload = rest;
    let number = bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    match (format, hexadecimal) {
        (FORMAT_STATUS, _) if size == 4 => Ok(TraceLoggingValue::Status(number as u32)),
        (FORMAT_DEFAULT, true) => Ok(TraceLoggingValue::Hexadecimal(number, size)),
        (FORMAT_DEFAULT, false) => Ok(TraceLoggingValue::Unsigned(number, size)),
        _ => Err(BadTraceLogging::Type(format)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parts;
    use super::*;

    const EVENT: EVENT_DESCRIPTOR = EVENT_DESCRIPTOR {
        Id: 0,
        Version: 0,
        Channel: WINEVENT_CHANNEL_TRACELOGGING,
        Level: 4,
        Opcode: 0,
        Task: 0,
        Keyword: 1,
    };

    /// As traceloggingprovider.h lays it out: "P" with an event "E" of a status, a byte and a hexadecimal word.
    fn good() -> Parts {
        vec![
            (2, b"\x04\0P\0".to_vec()),
            (1, b"\x0f\0\0E\0s\0\x94\x0eb\0\x04w\0\x15".to_vec()),
            (0, vec![13, 0, 0, 0xc0, 7]),
            (0, 0x1234_u64.to_le_bytes().to_vec()),
        ]
    }

    #[test]
    fn fields_are_read_by_their_descriptions() {
        let event = decode(EVENT, &good()).unwrap();
        assert_eq!((event.provider.as_str(), event.name.as_str()), ("P", "E"));
        let values: Vec<_> = event.fields.iter().map(|field| (field.name.as_str(), field.value)).collect();
        let expected = [
            ("s", TraceLoggingValue::Status(0xc000_000d)),
            ("b", TraceLoggingValue::Unsigned(7, 1)),
            ("w", TraceLoggingValue::Hexadecimal(0x1234, 8)),
        ];
        assert_eq!(values, expected);
        assert_eq!((event.number("w"), event.number("none")), (Some(0x1234), None));
    }

    #[test]
    fn what_is_wrong_with_an_event_is_named() {
        let changed = |change: &dyn Fn(&mut Parts)| {
            let mut parts = good();
            change(&mut parts);
            decode(EVENT, &parts)
        };
        assert_eq!(changed(&|parts| parts.truncate(1)), Err(BadTraceLogging::Parts));
        assert_eq!(changed(&|parts| parts.swap(0, 1)), Err(BadTraceLogging::Parts));
        assert_eq!(changed(&|parts| parts[1].1[0] = 9), Err(BadTraceLogging::Size));
        assert_eq!(changed(&|parts| parts[0].1[3] = b'x'), Err(BadTraceLogging::Name));
        assert_eq!(changed(&|parts| parts[1].1[11] = 0x1f), Err(BadTraceLogging::Type(0x1f)));
        assert_eq!(changed(&|parts| parts[1].1[11] = 0x24), Err(BadTraceLogging::Type(0x24)));
        assert_eq!(changed(&|parts| parts[2].1.truncate(4)), Err(BadTraceLogging::Payload));
        assert_eq!(changed(&|parts| parts[3].1.push(0)), Err(BadTraceLogging::Payload));
        let other = EVENT_DESCRIPTOR { Channel: 0, ..EVENT };
        assert_eq!(decode(other, &good()), Err(BadTraceLogging::Channel(0)));
    }
}
