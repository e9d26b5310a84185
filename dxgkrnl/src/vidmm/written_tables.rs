// UNSAFETY: reads and writes page tables that a driver writes.
//! Page tables that a driver writes with the processor, looked at before and after. What entries look like is the driver's own, so that two things can be told, whatever their format is:
//!
//! - A new table holds anything. It is filled with a pattern before the driver writes it for the first time, and afterwards each entry must have changed as many bytes as the
//!   shortest entry has.
//! - The first valid entry must change a table whose entries are all invalid, or else the GPU could not tell the one from the other.
//!
//! [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, DXGK_UPDATEPAGETABLEFLAGS]

use std::sync::atomic::Ordering;

use wddm_ddi::km::DXGK_PTE;

use crate::vidmm::table::Table;
use crate::vidmm::table_memory::{Entries, Phase};

/// Byte of a table that the driver has not written.
const PATTERN: u8 = 0xcc;
/// Bytes of the shortest entry that a page of a 64-bit address fits into.
const SHORTEST: u64 = 4;

/// An update of a table, from before the driver is asked for it.
pub(crate) struct Watched<'a> {
    table: &'a Table,
    /// Entries of a table that is written for the first time; `None` for one that is in use.
    first: Option<u32>,
}

fn bytes_of(table: &Table) -> Vec<u8> {
    let Some(start) = table.kernel_address() else { return Vec::new() };
    let mut bytes = vec![0; usize::try_from(table.len()).unwrap_or(0)];
    // SAFETY: the table has so many bytes there, which are its own, and the driver that writes them has returned. What a GPU that notes accesses writes there meanwhile is
    // bytes, of which any value will do.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(start.as_ptr(), bytes.len()) };
    bytes
}

fn sum(bytes: &[u8]) -> u64 {
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add).max(1)
}

/// True for an entry that maps a page or names a table, and is not the one of page 0, which may look as if it were none.
fn maps(entry: &DXGK_PTE) -> bool {
    // SAFETY: every arm is a number.
    entry.Bits.Valid() && !entry.Bits.Zero() && unsafe { entry.u1.PageAddress } != 0
}

impl<'a> Watched<'a> {
    /// Before the update.
    pub(crate) fn new(table: &'a Table, phase: Phase, entries: &Entries<'_>) -> Self {
        let first = match entries {
            Entries::Same(_, count) if phase == Phase::Initial => Some(*count),
            _ => None,
        };
        if let (Some(_), Some(start)) = (first, table.kernel_address()) {
            // SAFETY: the table has so many bytes there. It is new, or its contents are lost and all its entries are written anew, so that nobody uses what was there.
            unsafe { start.as_ptr().write_bytes(PATTERN, usize::try_from(table.len()).unwrap_or(0)) };
        }
        Self { table, first }
    }

    /// After the update: what was not done of it, if that can be seen.
    pub(crate) fn left_out(&self, phase: Phase, entries: &[DXGK_PTE]) -> Option<String> {
        let blank = &self.table.blank().0;
        if let Some(count) = self.first {
            let bytes = bytes_of(self.table);
            let written = bytes.iter().filter(|byte| **byte != PATTERN).count() as u64;
            blank.store(sum(&bytes), Ordering::Relaxed);
            return (written < u64::from(count) * SHORTEST).then(|| {
                format!("with Flags.Repeat and NumPageTableEntries {count}, and wrote {written} bytes of the table [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS]")
            });
        }
        if phase != Phase::InUse || !entries.iter().any(maps) {
            return None;
        }
        let before = blank.swap(0, Ordering::Relaxed);
        let bytes = if before == 0 { Vec::new() } else { bytes_of(self.table) };
        // Memory of a function that was pulled out reads as all ones.
        let is_there = bytes.iter().any(|byte| *byte != 0xff);
        (is_there && before == sum(&bytes)).then(|| {
            "for entries that are valid, and the table is as it was when every entry was invalid [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]".to_owned()
        })
    }
}
