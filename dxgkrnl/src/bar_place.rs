//! Where device memory behind a BAR is found, for those who map it.

use std::fs::File;
use std::sync::Arc;

use nt::bus::Bar;

/// A page-granular place in the file behind a BAR.
#[derive(Clone)]
pub(crate) struct BarPlace {
    /// File that holds the BAR.
    pub(crate) file: Arc<File>,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Bytes from there to the end of the BAR.
    pub(crate) len: u64,
}

impl BarPlace {
    /// Byte `offset` of a BAR; `None` for trapped BARs.
    pub(crate) fn of(bar: &Bar, offset: u64) -> Option<Self> {
        match bar {
            Bar::Trapped { .. } => None,
            Bar::Mapped { file, offset: start, size, .. } => Some(Self {
                file: Arc::clone(file),
                offset: start.checked_add(offset)?,
                len: size.checked_sub(offset).filter(|len| *len > 0)?,
            }),
        }
    }
}
