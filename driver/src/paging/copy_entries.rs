//! COPY_PAGE_TABLE_ENTRIES: entries of page tables that become entries of other ones.
//!
//! Page tables are mapped in the paging process at the addresses given, so the paging node copies their entries like any memory. A range
//! that reaches outside of its tables, or that no packet can express, does not fail the operation, as no update of page tables fails: the
//! entries that it was to write become invalid, so that an access through them faults instead of reaching a page of before. Where they are
//! no entries of one table nothing is written.

use core::ptr::NonNull;

use campanile_hw::page_table::{Pte, TABLE_SIZE};
use wddm_ddi::km::{DXGK_BUILDPAGINGBUFFER_COPY_RANGE, DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES};

use super::buffer::{Buffer, PagingError};
use crate::memory::page_table::{self, LeafPages};

/// Bytes of an entry.
const ENTRY: u32 = size_of::<Pte>() as u32;
/// The value that a fill writes into entries so that they are invalid.
const INVALID: u32 = {
    assert!(Pte::new().into_bits() == 0);
    0
};

/// Builds a packet for each range from number `multipass` on. `leave_out` hears of each range that is not copied.
///
/// # Errors
/// The buffer is full, or there are no ranges where some are announced.
pub(super) fn build(
    copies: &DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES,
    multipass: &mut u32,
    buffer: &mut Buffer,
    mut leave_out: impl FnMut(),
) -> Result<(), PagingError> {
    let ranges = NonNull::new(copies.pRanges);
    while *multipass < copies.NumRanges {
        let ranges = ranges.ok_or(PagingError::Impossible)?;
        // SAFETY: the array has NumRanges elements.
        let range = unsafe { ranges.add(*multipass as usize) };
        // SAFETY: as above.
        let range = unsafe { range.read() };
        match copy(&range, buffer) {
            Err(PagingError::Impossible) => {
                invalidate(&range, buffer)?;
                leave_out();
            }
            result => result?,
        }
        *multipass += 1;
    }
    Ok(())
}

/// The address of the entries of a range from `start` on, if there is a table at the address, which has them.
fn entries(range: &DXGK_BUILDPAGINGBUFFER_COPY_RANGE, table: u64, start: u32) -> Option<u64> {
    let has = table.is_multiple_of(TABLE_SIZE) && page_table::fits(start, range.NumPageTableEntries, LeafPages::Small);
    has.then(|| table.wrapping_add(u64::from(start) * u64::from(ENTRY)))
}

fn copy(range: &DXGK_BUILDPAGINGBUFFER_COPY_RANGE, buffer: &mut Buffer) -> Result<(), PagingError> {
    if range.NumPageTableEntries == 0 {
        return Ok(());
    }
    let source = entries(range, range.SrcPageTableAddress, range.SrcStartPteIndex);
    let destination = entries(range, range.DstPageTableAddress, range.DstStartPteIndex);
    let (source, destination) = source.zip(destination).ok_or(PagingError::Impossible)?;
    buffer.push_copy(source, destination, range.NumPageTableEntries * ENTRY)
}

/// Makes the destination of a range invalid, unless it is no part of a table.
fn invalidate(range: &DXGK_BUILDPAGINGBUFFER_COPY_RANGE, buffer: &mut Buffer) -> Result<(), PagingError> {
    let Some(destination) = entries(range, range.DstPageTableAddress, range.DstStartPteIndex) else { return Ok(()) };
    match buffer.push_fill(destination, u64::from(range.NumPageTableEntries) * u64::from(ENTRY), INVALID) {
        Err(PagingError::Impossible) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::packet::Packet;

    fn range(count: u32, source: (u64, u32), destination: (u64, u32)) -> DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
        DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
            NumPageTableEntries: count,
            SrcPageTableAddress: source.0,
            DstPageTableAddress: destination.0,
            SrcStartPteIndex: source.1,
            DstStartPteIndex: destination.1,
        }
    }

    /// What a buffer of so many words holds after the ranges from `multipass` on, the result, and how many ranges were left out.
    fn built(
        ranges: &mut [DXGK_BUILDPAGINGBUFFER_COPY_RANGE],
        multipass: &mut u32,
        words: usize,
    ) -> (Vec<Packet>, Result<(), PagingError>, usize) {
        let mut memory = vec![0_u64; words];
        let mut buffer = Buffer { next: memory.as_mut_ptr().cast(), left: words * 8 };
        let copies = DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
            NumRanges: ranges.len() as u32,
            pRanges: ranges.as_mut_ptr(),
        };
        let mut left_out = 0;
        let result = build(&copies, multipass, &mut buffer, || left_out += 1);
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (mut rest, mut packets) = (&bytes[..bytes.len() - buffer.left], Vec::new());
        while !rest.is_empty() {
            let packet = Packet::decode(rest).unwrap();
            rest = &rest[packet.size()..];
            packets.push(packet);
        }
        (packets, result, left_out)
    }

    #[test]
    fn copies_of_page_table_entries_address_the_entries() {
        let mut ranges = [range(16, (0x10_0000, 32), (0x20_0000, 496)), range(0, (0x10_0000, 600), (0x20_0000, 0))];
        let mut multipass = 0;
        let (packets, result, left_out) = built(&mut ranges, &mut multipass, 64);
        let [Packet::Copy(copy)] = packets[..] else { panic!("one copy: {packets:?}") };
        assert_eq!((copy.source, copy.destination, copy.row_bytes), (0x10_0100, 0x20_0f80, 128));
        assert_eq!((result, multipass, left_out), (Ok(()), 2, 0));
    }

    #[test]
    fn a_range_that_cannot_be_copied_becomes_invalid_and_those_beside_it_are_copied() {
        let good = range(2, (0x10_0000, 0), (0x20_0000, 8));
        for bad in [
            range(2, (0x10_0000, 511), (0x20_0000, 16)),
            range(2, (0x10_0000, u32::MAX), (0x20_0000, 16)),
            range(2, (0x10_0008, 1), (0x20_0000, 16)),
            range(2, (u64::MAX << 12, 1), (0x20_0000, 16)),
        ] {
            let mut multipass = 0;
            let (packets, result, left_out) = built(&mut [good, bad, good], &mut multipass, 64);
            let [Packet::Copy(_), Packet::Fill(fill), Packet::Copy(_)] = packets[..] else { panic!("{packets:?}") };
            assert_eq!((fill.destination, fill.size, fill.pattern), (0x20_0080, 16, 0));
            assert_eq!((result, multipass, left_out), (Ok(()), 3, 1));
        }
    }

    #[test]
    fn nothing_is_written_where_no_entry_of_a_table_is() {
        let good = range(2, (0x10_0000, 0), (0x20_0000, 8));
        for bad in [
            range(2, (0x10_0000, 0), (0x20_0000, 511)),
            range(u32::MAX, (0x10_0000, 1), (0x20_0000, 1)),
            range(2, (0x10_0000, 0), (0x20_0002, 0)),
            range(2, (0x10_0000, 0), (u64::MAX << 12, 0)),
        ] {
            let mut multipass = 0;
            let (packets, result, left_out) = built(&mut [bad, good], &mut multipass, 64);
            let [Packet::Copy(copy)] = packets[..] else { panic!("{packets:?}") };
            assert_eq!((copy.destination, result, multipass, left_out), (0x20_0040, Ok(()), 2, 1));
        }
    }

    #[test]
    fn a_range_is_left_out_once_in_however_many_buffers() {
        let mut ranges = [range(2, (0x10_0000, 0), (0x20_0000, 8)), range(2, (0x10_0000, 511), (0x20_0000, 16))];
        let mut multipass = 0;
        let first = built(&mut ranges, &mut multipass, 7);
        assert_eq!((first.0.len(), first.1, first.2), (1, Err(PagingError::InsufficientDmaBuffer), 0));
        let second = built(&mut ranges, &mut multipass, 7);
        assert_eq!((second.0.len(), second.1, second.2), (1, Ok(()), 1));
    }

    #[test]
    fn without_the_announced_ranges_nothing_is_written() {
        let copies = DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES { NumRanges: 1, pRanges: core::ptr::null_mut() };
        let mut memory = [0_u64; 8];
        let mut buffer = Buffer { next: memory.as_mut_ptr().cast(), left: 64 };
        let result = build(&copies, &mut 0, &mut buffer, || panic!("no range"));
        assert_eq!((result, buffer.left), (Err(PagingError::Impossible), 64));
    }
}
