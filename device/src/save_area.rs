//! The save area of a queue: memory that keeps the state of a DISPATCH while another queue has the node.

use crate::memory::{self, Access};
use crate::mmu::{Fault, Intent};
use campanile_hw::event::FaultKind;
use campanile_hw::queue::Location;

/// Memory that a descriptor names as a save area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SaveArea {
    location: Location,
    size: u32,
}

impl SaveArea {
    /// The area with so many bytes; a queue without one has none of 0 bytes.
    pub(crate) fn new(location: Location, size: u32) -> Self {
        Self { location, size }
    }

    /// Checks that the area has so many bytes.
    ///
    /// # Errors
    /// A fault that says how many it has.
    pub(crate) fn holds(&self, bytes: u32) -> Result<(), Fault> {
        if bytes <= self.size { Ok(()) } else { Err(Fault::plain(FaultKind::SaveArea, self.size.into())) }
    }

    /// The fault of an area that cannot be reached, or that does not hold what it should.
    pub(crate) fn fault(&self, intent: Intent) -> Fault {
        let write = intent == Intent::Write;
        Fault { write, ..Fault::plain(FaultKind::SaveArea, self.location.into_bits()) }
    }

    /// Writes bytes, a multiple of 8 of them.
    ///
    /// # Errors
    /// The area is too small, or a part of it cannot be reached.
    pub(crate) fn write(&self, memory: &Access<'_>, bytes: &[u8]) -> Result<(), Fault> {
        self.holds(bytes.len() as u32)?;
        let mut rest = bytes.as_chunks::<8>().0;
        let mut at = self.location;
        while !rest.is_empty() {
            let span = memory.resolve(at, rest.len() as u64 * 8, true).ok_or(self.fault(Intent::Write))?;
            let count = rest.len().min(span.len() as usize / 8);
            let words = span.words(0, count).filter(|words| !words.is_empty()).ok_or(self.fault(Intent::Write))?;
            let (now, later) = rest.split_at(words.len());
            for (word, value) in words.iter().zip(now) {
                memory::store(word, u64::from_le_bytes(*value));
            }
            (rest, at) = (later, at.with_address(at.address() + words.len() as u64 * 8));
        }
        Ok(())
    }

    /// Reads bytes, as many as there are and `most` at most.
    ///
    /// # Errors
    /// A part of the area cannot be reached.
    pub(crate) fn read(&self, memory: &Access<'_>, most: u32) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; most.min(self.size) as usize];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = self.location.with_address(self.location.address() + done as u64);
            let span = memory.resolve(at, rest.len() as u64, false);
            let count = span.map_or(0, |span| span.read(rest));
            if count == 0 {
                return Err(self.fault(Intent::Read));
            }
            done += count;
        }
        Ok(bytes)
    }
}
