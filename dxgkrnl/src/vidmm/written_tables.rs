// UNSAFETY: reads and writes page tables that a driver writes.
//! Page tables that a driver writes with the processor, looked at before and after. What entries look like is the driver's own, so that three things can be told, whatever their format is:
//!
//! - A new table holds anything. It is filled with a pattern before the driver writes it for the first time, and afterwards each entry must have changed as many bytes as the
//!   shortest entry has.
//! - What lies behind a table in its segment stays as it is, where that is free or another table.
//! - The first valid entry must change a table whose entries are all invalid, or else the GPU could not tell the one from the other.
//!
//! [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, DXGK_UPDATEPAGETABLEFLAGS]

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use wddm_ddi::km::DXGK_PTE;

use crate::vidmm::table::Table;
use crate::vidmm::table_memory::{Entries, Phase};

/// Byte of a table that the driver has not written.
const PATTERN: u8 = 0xcc;
/// Bytes of the shortest entry that a page of a 64-bit address fits into.
const SHORTEST: u64 = 4;

/// Bytes behind a table that are looked at: a few entries.
const BEHIND: usize = 64;
/// Most bits of an entry that a GPU sets which notes accesses.
const NOTED_BITS: u32 = 2;

/// What lies behind a table in its segment, before the update.
pub(crate) struct Behind {
    at: NonNull<u8>,
    /// It is another table, which a GPU may note accesses in; else it is free.
    of_table: bool,
    before: [u64; BEHIND / 8],
}

impl Behind {
    /// Before the update. `at` is the page behind the table.
    pub(crate) fn new((at, of_table): (NonNull<u8>, bool)) -> Self {
        Self { at, of_table, before: words_at(at) }
    }

    /// After the update of a table of `len` bytes: what the driver has written behind it.
    pub(crate) fn overrun(&self, len: u64) -> Option<String> {
        let after = words_at(self.at);
        let wrote = |(before, after): (&u64, &u64)| {
            let noted = before & !after == 0 && (before ^ after).count_ones() <= NOTED_BITS;
            // Memory of a function that was pulled out reads as all ones.
            before != after && *after != u64::MAX && !(self.of_table && noted)
        };
        let word = self.before.iter().zip(&after).position(wrote)?;
        let (before, after) = (self.before.get(word)?, after.get(word)?);
        let what = if self.of_table { "another page table" } else { "free memory" };
        Some(format!(
            "and wrote behind the {len:#x} bytes of the page table, where {what} is: at offset {:#x} was {before:#x} and is {after:#x}; the size is PageTableSizeInBytes \
             [d3dkmddi: DXGK_PAGE_TABLE_LEVEL_DESC]",
            len + 8 * word as u64
        ))
    }
}

fn words_at(at: NonNull<u8>) -> [u64; BEHIND / 8] {
    // SAFETY: a page of a segment is there, which is mapped as long as the segment, and any bytes are numbers. Only a driver that has returned writes there, and a GPU that notes
    // accesses, of which any value will do.
    unsafe { at.cast::<[u64; BEHIND / 8]>().read_volatile() }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The finding about a change of a word behind a table, if it is one.
    fn told(of_table: bool, before: u64, after: u64) -> Option<String> {
        let mut page = [before; BEHIND / 8];
        let at = NonNull::from(&mut page).cast();
        let behind = Behind::new((at, of_table));
        // SAFETY: the array above has a second word.
        let second = unsafe { at.cast::<u64>().add(1) };
        // SAFETY: it lives as long as this function, and nothing refers to it.
        unsafe { second.write_volatile(after) };
        behind.overrun(0x1000)
    }

    #[test]
    fn what_a_driver_writes_behind_a_table_is_told_and_what_a_gpu_notes_is_not() {
        for (of_table, before, after) in
            [(false, 0, 1), (true, 0, 0xbad_0001), (true, 0x5001, 0), (true, 0x5001, 0x5000), (true, 0x5001, 0x6001)]
        {
            let told = told(of_table, before, after).expect("an overrun");
            assert!(told.contains("wrote behind the 0x1000 bytes") && told.contains("at offset 0x1008 was"), "{told}");
        }
        for (of_table, before, after) in [(false, 7, 7), (true, 7, 7), (true, 0x5001, 0x5021), (true, 0x5001, 0x5061)] {
            assert_eq!(told(of_table, before, after), None, "{before:#x} {after:#x}");
        }
    }
}
