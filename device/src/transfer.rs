//! COPY, FILL and WRITE: memory moved and filled, through page tables but for WRITE_PHYSICAL.
//!
//! A transfer is done in contiguous pieces. Several are translated before the first of them is moved: just after a whole page was written, the
//! reads of page-table entries would wait for stores whose addresses have the same low 12 bits (4K aliasing), which takes longer than moving the
//! page.

use crate::memory::{self, Access, Span};
use crate::mmu::{Ahead, Fault, Intent, Tlb};
use arrayvec::ArrayVec;
use campanile_hw::packet::{Copy, Fill, WRITE_WORDS, Write, WritePhysical};
use campanile_hw::queue::Location;

/// Bytes that one slice moves at most: what a leaf table maps, so that contiguous memory is one piece of it.
pub(crate) const SLICE_BYTES: u64 = 2 << 20;
/// Bytes from which on a transfer bypasses the caches of the host, which are smaller anyway.
const STREAMED: u64 = 32 << 20;
/// Fewest bytes of a run for which such a transfer bypasses the caches.
const STREAMED_RUN: u64 = 4096;
/// Bytes that a shorter piece counts as, because address translation costs as much.
const PIECE_COST: u64 = 64;
/// Pieces that are found before they are moved.
const PIECES: usize = 16;

/// A piece of a transfer. Memory that is not there reads as zero and drops writes.
struct Piece<'a> {
    to: Option<Span<'a>>,
    from: Option<Span<'a>>,
    len: u64,
}

/// How far a transfer has come, and how far it may go in this slice.
pub(crate) struct Progress<'a> {
    /// Bytes of the transfer that are done.
    pub(crate) partial: &'a mut u64,
    /// Bytes that the slice has left.
    pub(crate) bytes: &'a mut u64,
}

impl Progress<'_> {
    /// Takes so many bytes of what the slice has left, or all.
    pub(crate) fn take(&mut self, bytes: u64) {
        *self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Goes on with a transfer of `total` bytes from where `progress` says, for as many bytes as the slice has left. True when it is done.
#[inline]
fn go_on<'a>(
    total: u64,
    progress: Progress<'_>,
    mut find: impl FnMut(u64, u64) -> Result<Piece<'a>, Fault>,
    work: impl Fn(&Piece<'a>),
) -> Result<bool, Fault> {
    let Progress { partial, bytes } = progress;
    let mut pieces = ArrayVec::<Piece<'a>, PIECES>::new();
    let mut fault = None;
    while fault.is_none() && *partial < total && *bytes != 0 {
        while *partial < total && *bytes != 0 && !pieces.is_full() {
            match find(*partial, *bytes) {
                Ok(piece) => {
                    *partial += piece.len;
                    *bytes = bytes.saturating_sub(piece.len.max(PIECE_COST));
                    pieces.push(piece);
                }
                // The part before the faulting address is transferred.
                Err(found) => {
                    fault = Some(found);
                    break;
                }
            }
        }
        for (index, piece) in pieces.iter().enumerate() {
            // The processor fetches it while it moves this one.
            if let Some(next) = pieces.get(index + 1) {
                [next.from, next.to].into_iter().flatten().for_each(Span::prefetch);
            }
            work(piece);
        }
        pieces.clear();
    }
    fault.map_or(Ok(*partial == total), Err)
}

/// One side of a transfer: the stretch of virtual memory that was found last, which is contiguous.
struct Side<'a> {
    va: u64,
    len: u64,
    span: Option<Span<'a>>,
    ahead: Ahead<'a>,
}

impl<'a> Side<'a> {
    fn new(root: Location, intent: Intent) -> Self {
        Self { va: 0, len: 0, span: None, ahead: Ahead::new(root, intent) }
    }

    /// The contiguous memory at `va`, of a transfer that wants `want` bytes there, and how much of that it is.
    #[inline(always)]
    fn reach(
        &mut self,
        tlb: &mut Tlb,
        memory: &'a Access<'_>,
        va: u64,
        want: u64,
    ) -> Result<(Option<Span<'a>>, u64), Fault> {
        let mut skip = va.wrapping_sub(self.va);
        if skip >= self.len {
            (self.span, self.len) = tlb.reach(memory, va, want, &mut self.ahead)?;
            (self.va, skip) = (va, 0);
        }
        Ok((self.span.and_then(|span| span.after(skip)), (self.len - skip).min(want)))
    }
}

/// Goes on with a COPY, as far as `progress` allows. True when it is done.
pub(crate) fn copy(
    tlb: &mut Tlb,
    memory: &Access<'_>,
    root: Location,
    copy: &Copy,
    progress: Progress<'_>,
) -> Result<bool, Fault> {
    let row_bytes = u64::from(copy.row_bytes);
    let total = row_bytes * u64::from(copy.rows);
    let streams = row_bytes >= STREAMED_RUN && total >= STREAMED / 2;
    let (mut row, mut column) = (*progress.partial / row_bytes, *progress.partial % row_bytes);
    let (mut from, mut to) = (Side::new(root, Intent::Read), Side::new(root, Intent::Write));
    let find = |_, bytes: u64| {
        let want = (row_bytes - column).min(bytes);
        let source = copy.source + row * u64::from(copy.source_pitch) + column;
        let destination = copy.destination + row * u64::from(copy.destination_pitch) + column;
        let (from, readable) = from.reach(tlb, memory, source, want)?;
        let (to, writable) = to.reach(tlb, memory, destination, want)?;
        let len = readable.min(writable);
        column += len;
        if column == row_bytes {
            (row, column) = (row + 1, 0);
        }
        Ok(Piece { to, from, len })
    };
    let result = go_on(total, progress, find, |piece| {
        match (piece.to, piece.from) {
            (Some(to), Some(from)) if streams => to.stream_from(from, piece.len),
            (Some(to), Some(from)) => to.copy_from(from, piece.len),
            (Some(to), None) => to.zero(piece.len),
            (None, _) => 0,
        };
    });
    if streams {
        memory::streamed();
    }
    result
}

/// As [`copy`], for a FILL.
pub(crate) fn fill(
    tlb: &mut Tlb,
    memory: &Access<'_>,
    root: Location,
    fill: &Fill,
    progress: Progress<'_>,
) -> Result<bool, Fault> {
    let streams = fill.size >= STREAMED;
    let mut to = Side::new(root, Intent::Write);
    let find = |partial: u64, bytes: u64| {
        let want = (fill.size - partial).min(bytes.next_multiple_of(4));
        let (to, len) = to.reach(tlb, memory, fill.destination + partial, want)?;
        Ok(Piece { to, from: None, len })
    };
    let result = go_on(fill.size, progress, find, |piece| {
        match piece.to {
            Some(to) if streams => to.stream_fill(fill.pattern, piece.len),
            Some(to) => to.fill(fill.pattern, piece.len),
            None => 0,
        };
    });
    if streams {
        memory::streamed();
    }
    result
}

/// Words of a packet, again and again.
fn repeated(words: [u64; WRITE_WORDS], count: usize) -> impl Iterator<Item = u64> {
    words.into_iter().take(count).cycle()
}

/// Stores the words of a WRITE, which are few enough to be written in one go. What comes before a fault is done.
pub(crate) fn write(
    tlb: &mut Tlb,
    memory: &Access<'_>,
    root: Location,
    write: &Write,
    bytes: &mut u64,
) -> Result<(), Fault> {
    let (words, count) = write.words();
    let mut values = repeated(words, count);
    let mut done = 0;
    while done < write.bytes() {
        let va = write.destination + done;
        let translation = tlb.translate(memory, root, va, Intent::Write)?;
        let run = translation.run.min(write.bytes() - done);
        let stored = match translation.location {
            // Writes to a zero page are dropped.
            None => values.by_ref().take(run as usize / 8).count() as u64 * 8,
            Some(location) => store_words(memory, location, run, &mut values)?,
        };
        done += stored;
    }
    *bytes = bytes.saturating_sub(done.max(PIECE_COST));
    Ok(())
}

/// As [`write`], for WRITE_PHYSICAL, which names a location.
pub(crate) fn write_physical(memory: &Access<'_>, write: &WritePhysical, bytes: &mut u64) -> Result<(), Fault> {
    let (words, count) = write.words();
    let mut values = repeated(words, count);
    let to = Location::from_bits(write.destination);
    let mut done = 0;
    while done < write.bytes() {
        let at = to.with_address(to.address() + done);
        done += store_words(memory, at, write.bytes() - done, &mut values)?;
    }
    *bytes = bytes.saturating_sub(done.max(PIECE_COST));
    Ok(())
}

/// Stores words one by one into the contiguous memory at a location, `len` bytes of them at most; the answer is how many bytes.
fn store_words(
    memory: &Access<'_>,
    at: Location,
    len: u64,
    values: &mut impl Iterator<Item = u64>,
) -> Result<u64, Fault> {
    let nowhere = || Fault::nowhere(at, Intent::Write);
    let span = memory.resolve(at, len, true).ok_or_else(nowhere)?;
    let whole = span.len() / 8 * 8;
    if whole == 0 {
        return Err(nowhere());
    }
    for (offset, value) in (0..whole).step_by(8).zip(values) {
        span.store(offset, value);
    }
    Ok(whole)
}
