//! The first message of a connection: version and capabilities.

use serde_json::{Value, json};

use crate::message::{MAX_FDS, MAX_MAPS, MAX_TRANSFER, Reader, Writer};

/// Major version of the protocol. Peers of another do not understand each other.
const MAJOR: u16 = 0;
/// Minor version; the peers speak the smaller one.
const MINOR: u16 = 1;

/// Limits that a peer announces when the connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Minor version.
    pub(crate) minor: u16,
    /// Descriptors a message.
    pub(crate) fds: usize,
    /// Bytes a transfer.
    pub(crate) transfer: usize,
}

/// The reason why a hello is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloError {
    /// Too short, or no JSON object that ends in a zero.
    Malformed,
    /// Another major version.
    Version(u16),
}

/// Version and capabilities to send; `minor` is what the peer speaks.
pub(crate) fn body(minor: u16) -> Vec<u8> {
    let capabilities = json!({"capabilities": {
        "max_msg_fds": MAX_FDS,
        "max_data_xfer_size": MAX_TRANSFER,
        "max_dma_maps": MAX_MAPS,
        "pgsizes": 4096,
    }});
    let mut out = Writer::default();
    out.u16(MAJOR).u16(minor.min(MINOR)).bytes(capabilities.to_string().as_bytes()).bytes(&[0]);
    out.done()
}

/// The hello that a client starts with.
pub(crate) fn first() -> Vec<u8> {
    body(MINOR)
}

/// Reads the peer's. Limits that it does not name are the protocol's defaults, those it names are checked against ours.
pub(crate) fn parse(body: &[u8]) -> Result<Limits, HelloError> {
    let mut fields = Reader::new(body);
    let major = fields.u16().ok_or(HelloError::Malformed)?;
    let minor = fields.u16().ok_or(HelloError::Malformed)?;
    if major != MAJOR {
        return Err(HelloError::Version(major));
    }
    let mut limits = Limits { minor: minor.min(MINOR), fds: 1, transfer: MAX_TRANSFER };
    let Some((end, text)) = fields.rest().split_last() else { return Ok(limits) };
    let value: Value = serde_json::from_slice(text).map_err(|_| HelloError::Malformed)?;
    if *end != 0 || !value.is_object() {
        return Err(HelloError::Malformed);
    }
    let number = |name: &str| {
        let number = value.get("capabilities")?.get(name)?.as_u64()?;
        Some(usize::try_from(number).unwrap_or(usize::MAX).max(1))
    };
    limits.fds = number("max_msg_fds").unwrap_or(limits.fds).min(MAX_FDS);
    limits.transfer = number("max_data_xfer_size").unwrap_or(limits.transfer).min(MAX_TRANSFER);
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let limits = Limits { minor: MINOR, fds: MAX_FDS, transfer: MAX_TRANSFER };
        assert_eq!(parse(&first()), Ok(limits));
        assert_eq!(parse(&body(0)), Ok(Limits { minor: 0, ..limits }));
    }

    #[test]
    fn limits_are_the_smaller_ones_and_never_zero() {
        let hello = |text: &str| parse(&[&[0, 0, 0, 0], text.as_bytes(), &[0]].concat());
        let small = r#"{"capabilities":{"max_msg_fds":0,"max_data_xfer_size":100,"else":[]}}"#;
        assert_eq!(hello(small), Ok(Limits { minor: 0, fds: 1, transfer: 100 }));
        let large = r#"{"capabilities":{"max_msg_fds":99999999999999,"max_data_xfer_size":18446744073709551615}}"#;
        assert_eq!(hello(large), Ok(Limits { minor: 0, fds: MAX_FDS, transfer: MAX_TRANSFER }));
        assert_eq!(hello("{}"), Ok(Limits { minor: 0, fds: 1, transfer: MAX_TRANSFER }));
        assert_eq!(parse(&[0, 0, 7, 0]), Ok(Limits { minor: MINOR, fds: 1, transfer: MAX_TRANSFER }));
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(parse(&[1, 0, 0, 0]), Err(HelloError::Version(1)));
        for bad in [&[][..], &[0, 0, 0], &[0, 0, 0, 0, b'{'], &[0, 0, 0, 0, 0], b"\0\0\0\0{}1", b"\0\0\0\0[]\0"] {
            assert_eq!(parse(bad), Err(HelloError::Malformed), "{bad:?}");
        }
        let deep = [&[0, 0, 0, 0][..], &[b'['; 100_000], &[0]].concat();
        assert_eq!(parse(&deep), Err(HelloError::Malformed));
    }
}
