//! Memory that the GPU reaches: VRAM, doorbell pages and system memory, all mappings of shared files.
//!
//! An access that snoops sees what the processors of the host see. One that does not goes past their caches. In the files of the host both
//! are the same: what the host caches, and what it is told to write back, is up to the bus that gives the GPU its memory. A variant with
//! `cached_host` simulates a host instead whose caches contain all of its memory and never write a line back: there an access that does not
//! snoop reaches memory of its own beside each file, which no processor ever reads or writes.
//!
//! UNSAFETY: this module maps files that other processes change at any time and reaches into them. Everything it hands out is a
//! bounds-checked [`Span`]; single words are accessed atomically, bulk bytes are moved by raw copies, and no reference to the
//! bytes ever exists.

mod held;
mod kept;
mod lent;
mod shared_file;
mod small;
mod stream;

use campanile_hw::queue::{Location, SYSTEM_PAGE_SIZE};
pub(crate) use kept::KeptWords;
pub use lent::LentMemory;
pub(crate) use shared_file::shared_file;
use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
pub(crate) use stream::streamed;

/// Most ranges that system memory may consist of.
const RANGES_MAX: usize = 65_536;
/// Most files that system memory may lie in: each takes address space and one of the mappings that a process may have.
const FILES_MAX: usize = 1024;

/// A part of a shared file mapped into this process.
#[derive(Debug)]
pub(crate) struct HostMapping {
    base: NonNull<u8>,
    len: usize,
    writable: bool,
    /// The memory that accesses reach which do not snoop the host's caches; `None` if it is the same memory.
    behind_caches: Option<Box<Self>>,
    /// Whose mapping it is, if it is not its own.
    lender: Option<Arc<dyn LentMemory>>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed through atomics and raw copies only.
unsafe impl Send for HostMapping {}
// SAFETY: as above; no method hands out a reference to the mapped bytes.
unsafe impl Sync for HostMapping {}

impl HostMapping {
    /// Maps `len` bytes of `file` from `offset`. The file must not shrink while it is mapped.
    pub(crate) fn new(file: &File, offset: u64, len: u64, writable: bool) -> io::Result<Self> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let len = usize::try_from(len).map_err(invalid)?;
        let offset = libc::off_t::try_from(offset).map_err(invalid)?;
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new shared mapping at an address that the system chooses replaces nothing.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the range is the mapping just made; advice changes no contents, and a refusal is of no importance.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        Ok(Self { base, len, writable, behind_caches: None, lender: None })
    }

    /// The mapping on a simulated host whose caches never write it back.
    fn behind_caches(mut self) -> io::Result<Self> {
        let memory = shared_file(c"behind caches", self.len as u64)?;
        self.behind_caches = Some(Box::new(Self::new(&memory, 0, self.len as u64, self.writable)?));
        Ok(self)
    }

    /// The bytes for accesses that snoop the host's caches, or for those that do not.
    #[inline]
    fn seen_by(&self, snoops: bool) -> &Self {
        self.behind_caches.as_deref().filter(|_| !snoops).unwrap_or(self)
    }

    /// Up to `len` bytes from `offset`; `None` when `offset` lies outside or writing is asked for and not allowed.
    pub(crate) fn span(&self, offset: u64, len: u64, write: bool) -> Option<Span<'_>> {
        let start = usize::try_from(offset).ok()?;
        let room = self.len.checked_sub(start).filter(|room| *room > 0)?;
        if write && !self.writable {
            return None;
        }
        // SAFETY: `start` lies inside the mapping.
        let base = unsafe { self.base.add(start) };
        let len = usize::try_from(len).map_or(room, |len| len.min(room));
        let rights = if write { Rights::Write } else { Rights::Read };
        Some(Span { base, len, rights, mapping: PhantomData })
    }
}

impl HostMapping {
    /// The 64-bit word at `offset`, read as [`Span::load`] does; `None` outside the mapping or when misaligned.
    #[inline]
    pub(crate) fn load(&self, offset: u64) -> Option<u64> {
        let start = usize::try_from(offset).ok()?;
        let fits = self.len.checked_sub(start).is_some_and(|room| room >= size_of::<AtomicU64>());
        if !fits || !start.is_multiple_of(align_of::<AtomicU64>()) {
            return None;
        }
        // SAFETY: the word lies inside the mapping.
        let place = unsafe { self.base.add(start) }.cast::<AtomicU64>();
        // SAFETY: a mapping begins on a page, so the word is aligned as its offset is; it lives as long as the mapping, and an atomic may
        // change at any time.
        let word = unsafe { place.as_ref() };
        Some(u64::from_le(word.load(Ordering::Acquire)))
    }
}

impl Drop for HostMapping {
    fn drop(&mut self) {
        if self.lender.is_some() {
            return;
        }
        // SAFETY: base and len are what mmap returned, and spans cannot outlive the mapping.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Bytes of a mapping, valid as long as `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    base: NonNull<u8>,
    len: usize,
    rights: Rights,
    mapping: PhantomData<&'a HostMapping>,
}

/// A range of VRAM or of system memory that is contiguous in the host too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// Address of its first byte, of the same kind as the location that was asked for.
    pub(crate) start: u64,
    pub(crate) span: Span<'a>,
}

impl<'a> Surroundings<'a> {
    /// The bytes of the range from an address of the same kind on.
    #[inline(always)]
    pub(crate) fn from(&self, address: u64) -> Option<Span<'a>> {
        self.span.after(address.wrapping_sub(self.start))
    }

    /// No bytes at all.
    pub(crate) const NOTHING: Self =
        Self { start: 0, span: Span { base: NonNull::dangling(), len: 0, rights: Rights::Read, mapping: PhantomData } };
}

/// Access rights of a span. As large as a word, like the other fields: spans are copied often, and reading a word whose bytes were just written
/// one by one stalls the processor (store forwarding fails).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum Rights {
    Read,
    Write,
}

impl<'a> Span<'a> {
    #[inline]
    fn writable(self) -> bool {
        self.rights == Rights::Write
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(self) -> u64 {
        self.len as u64
    }

    /// The first `len` bytes, or all if there are fewer.
    #[inline]
    pub(crate) fn first(self, len: u64) -> Self {
        Self { len: usize::try_from(len).map_or(self.len, |len| len.min(self.len)), ..self }
    }

    /// True if this span begins with all bytes of `other`.
    pub(crate) fn begins_with(self, other: Span<'_>) -> bool {
        self.base == other.base && self.len >= other.len
    }

    /// The span without its first `offset` bytes; `None` when nothing would be left.
    #[inline]
    pub(crate) fn after(self, offset: u64) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let len = self.len.checked_sub(offset).filter(|len| *len > 0)?;
        // SAFETY: `offset` is smaller than the length of the span.
        let base = unsafe { self.base.add(offset) };
        Some(Self { base, len, ..self })
    }

    fn at<T>(self, offset: u64) -> Option<NonNull<T>> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(size_of::<T>())?;
        if end > self.len {
            return None;
        }
        // SAFETY: `offset` is smaller than the length of the span.
        let place = unsafe { self.base.add(offset) }.cast::<T>();
        place.is_aligned().then_some(place)
    }

    fn word(self, offset: u64) -> Option<&'a AtomicU64> {
        let place = self.at::<AtomicU64>(offset)?;
        // SAFETY: `at` checked bounds and alignment, the bytes live as long as the span, and an atomic may change at any time.
        Some(unsafe { place.as_ref() })
    }

    /// `count` 64-bit words from `offset`, as they lie in memory; `None` when not all of them lie in the span, or when misaligned.
    #[inline]
    pub(crate) fn words(self, offset: u64, count: usize) -> Option<&'a [AtomicU64]> {
        let start = usize::try_from(offset).ok()?;
        let fits = self.len.checked_sub(start).is_some_and(|room| room / size_of::<AtomicU64>() >= count);
        if !fits {
            return None;
        }
        // SAFETY: `offset` is at most the length of the span.
        let place = unsafe { self.base.add(start) }.cast::<AtomicU64>();
        if !place.is_aligned() {
            return None;
        }
        // SAFETY: checked above, the words lie in the span and live as long as it, and an atomic may change at any time.
        Some(unsafe { std::slice::from_raw_parts(place.as_ptr(), count) })
    }

    /// The 64-bit word at `offset`, read once with acquire order; `None` outside the span or when misaligned.
    #[inline]
    pub(crate) fn load(self, offset: u64) -> Option<u64> {
        Some(u64::from_le(self.word(offset)?.load(Ordering::Acquire)))
    }

    /// Stores the 64-bit word at `offset` once, with release order. False when that is not possible.
    #[inline]
    pub(crate) fn store(self, offset: u64, value: u64) -> bool {
        match self.word(offset) {
            Some(word) if self.writable() => {
                store(word, value);
                true
            }
            _ => false,
        }
    }

    /// Takes the 64-bit word at `offset` and leaves zero, at once; `None` when that is not possible.
    pub(crate) fn take(self, offset: u64) -> Option<u64> {
        let word = self.word(offset).filter(|_| self.writable())?;
        Some(u64::from_le(word.swap(0, Ordering::AcqRel)))
    }

    /// Writes `value` to the 64-bit word at `offset` unless the word is `last`, in one atomic step with release order. Returns the value of
    /// the word afterwards; `None` when that is not possible.
    #[inline]
    pub(crate) fn store_unless(self, offset: u64, last: u64, value: u64) -> Option<u64> {
        let word = self.word(offset).filter(|_| self.writable())?;
        let written = |found: u64| (u64::from_le(found) != last).then_some(value.to_le());
        let outcome = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, written);
        Some(if outcome.is_ok() { value } else { last })
    }

    /// Stores the low half of the 64-bit word at `offset` once, with release order. False when that is not possible.
    pub(crate) fn store_low(self, offset: u64, value: u32) -> bool {
        let Some(low) = self.word(offset).and_then(|_| self.at::<AtomicU32>(offset)).filter(|_| self.writable()) else {
            return false;
        };
        // SAFETY: `at` checked bounds and alignment, and an atomic may change at any time.
        let low = unsafe { low.as_ref() };
        low.store(value.to_le(), Ordering::Release);
        true
    }

    /// Copies bytes out, each read once. Returns how many fitted.
    pub(crate) fn read(self, out: &mut [u8]) -> usize {
        let count = out.len().min(self.len);
        let Some(out) = out.get_mut(..count) else { return 0 };
        let (chunks, _) = out.as_chunks_mut::<8>();
        let words = self.words(0, chunks.len()).unwrap_or(&[]);
        for (chunk, word) in chunks.iter_mut().zip(words) {
            *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        for (offset, byte) in out.iter_mut().enumerate().skip(size_of_val(words)) {
            let Some(place) = self.at::<AtomicU8>(offset as u64) else { return offset };
            // SAFETY: `at` checked bounds, and an atomic may change at any time.
            *byte = unsafe { place.as_ref() }.load(Ordering::Relaxed);
        }
        std::sync::atomic::fence(Ordering::Acquire);
        count
    }

    /// Copies bytes from `source` at memcpy speed. Returns how many: the least of `len` and both lengths, 0 if not writable.
    #[inline]
    pub(crate) fn copy_from(self, source: Span<'_>, len: u64) -> u64 {
        if !self.writable() {
            return 0;
        }
        let len = (len.min(usize::MAX as u64) as usize).min(self.len).min(source.len);
        // SAFETY: both ranges lie inside live mappings and may overlap; racing writers make the bytes arbitrary, nothing else.
        unsafe { std::ptr::copy(source.base.as_ptr(), self.base.as_ptr(), len) };
        len as u64
    }

    /// Prefetches the first lines into the host's caches, as they are about to be read or written.
    #[inline]
    pub(crate) fn prefetch(self) {
        for line in 0..PREFETCH.min(self.len / LINE) {
            // SAFETY: the line lies inside the span.
            let place = unsafe { self.base.add(line * LINE) };
            // SAFETY: the instruction is part of SSE, which every x86-64 processor has, and has no effect that can be observed.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(place.as_ptr().cast()) };
        }
    }

    /// Writes zeros. Returns the bytes written.
    pub(crate) fn zero(self, len: u64) -> u64 {
        if !self.writable() {
            return 0;
        }
        let len = (len.min(usize::MAX as u64) as usize).min(self.len);
        // SAFETY: the range lies inside a live mapping.
        unsafe { std::ptr::write_bytes(self.base.as_ptr(), 0, len) };
        len as u64
    }

    /// Writes `pattern` over and over; a remainder shorter than the pattern stays as it is. Returns the bytes written.
    pub(crate) fn fill(self, pattern: u32, len: u64) -> u64 {
        if !self.writable() {
            return 0;
        }
        let words = (len.min(usize::MAX as u64) as usize).min(self.len) / 4;
        // SAFETY: the words lie inside a live mapping and need no alignment; the instruction writes them and nothing else, at the
        // rate of memset, upwards as the calling convention leaves the direction flag.
        unsafe {
            asm!("rep stosd", inout("rcx") words => _, inout("rdi") self.base.as_ptr() => _, in("eax") pattern.to_le(),
                options(nostack, preserves_flags));
        }
        (words * 4) as u64
    }
}

/// Stores a word as [`Span::store`] does.
#[inline]
pub(crate) fn store(word: &AtomicU64, value: u64) {
    word.store(value.to_le(), Ordering::Release);
}

/// Stores words one after the other, each as [`Span::store`] does.
#[inline]
pub(crate) fn store_all<const COUNT: usize>(words: &[AtomicU64; COUNT], values: [u64; COUNT]) {
    for (word, value) in words.iter().zip(values) {
        store(word, value);
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines that [`Span::prefetch`] brings; what follows them the processor prefetches by itself.
const PREFETCH: usize = 4;

/// Says for a location whether accesses to it snoop the host's caches, which is a bit of the page-table entry. Locations that do not come
/// from a page table always snoop. Inside the GPU it is a bit of the location that has no meaning elsewhere, so that whatever is kept by
/// location is kept apart.
pub(crate) trait Snooping {
    /// The location, for accesses that go past the caches.
    fn unsnooped(self) -> Self;
    /// True for such a location.
    fn goes_past_caches(self) -> bool;
}

/// Reserved in every location that the GPU is told.
const UNSNOOPED: u64 = 1 << 63;

impl Snooping for Location {
    #[inline]
    fn unsnooped(self) -> Self {
        Self::from_bits(self.into_bits() | UNSNOOPED)
    }

    #[inline]
    fn goes_past_caches(self) -> bool {
        self.into_bits() & UNSNOOPED != 0
    }
}

/// One piece of system memory.
#[derive(Clone, Debug)]
struct Range {
    start: u64,
    end: u64,
    mapping: Arc<HostMapping>,
    /// Offset in the mapping of the byte at `start`.
    offset: u64,
    writable: bool,
}

/// A file whose mapping may be shared by several ranges.
#[derive(Debug)]
struct KnownFile {
    identity: (u64, u64),
    writable: bool,
    size: u64,
    mapping: Weak<HostMapping>,
}

/// System memory as the GPU sees it: ranges of bus addresses, in order, none overlapping.
#[derive(Debug, Default)]
pub(crate) struct SystemMemory {
    ranges: Vec<Range>,
    files: Vec<KnownFile>,
    /// True while the function may start accesses: bus mastering is enabled and the function is in D0.
    enabled: bool,
    /// True if only accesses that snoop see what the host writes.
    cached_host: bool,
    /// Generation of the fields above: every change of them gives it a new number, which no other memory of the process has or had. Holders of
    /// [`KeptWords`] compare it.
    shape: u64,
}

/// The next generation number of the process.
fn new_shape() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl SystemMemory {
    fn mapping_for(
        &mut self,
        file: &File,
        offset: u64,
        len: u64,
        writable: bool,
    ) -> io::Result<(Arc<HostMapping>, u64)> {
        let metadata = file.metadata()?;
        let (identity, size) = ((metadata.dev(), metadata.ino()), metadata.len());
        if metadata.is_file() && offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the range leaves the file"));
        }
        if !metadata.is_file() {
            return Ok((Arc::new(self.new_mapping(file, offset, len, writable)?), 0));
        }
        self.files.retain(|known| known.mapping.strong_count() > 0);
        let same =
            |known: &&KnownFile| known.identity == identity && known.writable == writable && known.size >= offset + len;
        if let Some(mapping) = self.files.iter().find(same).and_then(|known| known.mapping.upgrade()) {
            return Ok((mapping, offset));
        }
        if self.files.len() >= FILES_MAX {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too many files of system memory"));
        }
        let mapping = Arc::new(self.new_mapping(file, 0, size, writable)?);
        self.files.push(KnownFile { identity, writable, size, mapping: Arc::downgrade(&mapping) });
        Ok((mapping, offset))
    }

    fn new_mapping(&self, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<HostMapping> {
        let mapping = HostMapping::new(file, offset, len, writable)?;
        if self.cached_host { mapping.behind_caches() } else { Ok(mapping) }
    }

    fn insert(&mut self, range: Range) -> io::Result<()> {
        let at = self.ranges.partition_point(|known| known.end <= range.start);
        if self.ranges.get(at).is_some_and(|next| next.start < range.end) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the range overlaps a mapped one"));
        }
        if let Some(before) = at.checked_sub(1).and_then(|before| self.ranges.get_mut(before)) {
            let continues = before.end == range.start
                && Arc::ptr_eq(&before.mapping, &range.mapping)
                && before.offset + (before.end - before.start) == range.offset
                && before.writable == range.writable;
            if continues {
                before.end = range.end;
                return Ok(());
            }
        }
        if self.ranges.len() >= RANGES_MAX {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too many ranges of system memory"));
        }
        self.ranges.insert(at, range);
        Ok(())
    }

    fn remove(&mut self, start: u64, end: u64) -> Vec<Range> {
        let first = self.ranges.partition_point(|known| known.end <= start);
        let last = self.ranges.partition_point(|known| known.start < end);
        if first >= last {
            return Vec::new();
        }
        let removed: Vec<Range> = self.ranges.drain(first..last).collect();
        let mut at = first;
        for range in &removed {
            if range.start < start {
                self.ranges.insert(at, Range { end: start, ..range.clone() });
                at += 1;
            }
            if range.end > end {
                let offset = range.offset + (end - range.start);
                self.ranges.insert(at, Range { start: end, offset, ..range.clone() });
            }
        }
        removed
    }
}

/// The end of `len` bytes of bus addresses from `start` on, which show a file from `offset` on.
fn end_of(start: u64, offset: u64, len: u64) -> io::Result<u64> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    if len == 0 || !(start | offset | len).is_multiple_of(SYSTEM_PAGE_SIZE) {
        return Err(invalid("system memory is mapped in whole pages"));
    }
    start.checked_add(len).filter(|end| *end <= 1 << 52).ok_or(invalid("beyond 52-bit bus addresses"))
}

/// Everything that the GPU can address by locations: VRAM and system memory.
#[derive(Debug)]
pub(crate) struct Memory {
    vram: HostMapping,
    system: RwLock<SystemMemory>,
}

impl Memory {
    /// The memory of a function with this VRAM and no system memory.
    pub(crate) fn new(vram: HostMapping) -> Self {
        Self { vram, system: RwLock::new(SystemMemory { shape: new_shape(), ..SystemMemory::default() }) }
    }

    /// The memory on a simulated host whose caches never write it back, if `cached_host` is set.
    pub(crate) fn on_host(self, cached_host: bool) -> Self {
        self.change().cached_host = cached_host;
        self
    }

    /// The lock for a change of system memory. It gives the memory a new shape, which tells every holder of a [`KeptWords`] to look again.
    fn change(&self) -> RwLockWriteGuard<'_, SystemMemory> {
        let mut system = self.system.write().unwrap_or_else(PoisonError::into_inner);
        system.shape = new_shape();
        system
    }

    /// Makes `len` bytes of `file` from `offset` visible at bus address `start`.
    pub(crate) fn map(&self, start: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        let end = end_of(start, offset, len)?;
        let mut system = self.change();
        let (mapping, offset) = system.mapping_for(file, offset, len, writable)?;
        system.insert(Range { start, end, mapping, offset, writable })
    }

    /// Takes the bus addresses from `start` away. No access to them is under way when it returns.
    pub(crate) fn unmap(&self, start: u64, len: u64) {
        // The mappings are released after the lock, so that engines do not wait for munmap.
        let removed = self.change().remove(start, start.saturating_add(len));
        drop(removed);
    }

    /// Allows or forbids accesses to system memory. None is under way when a refusal returns.
    pub(crate) fn enable(&self, enabled: bool) {
        self.change().enabled = enabled;
    }

    /// A view for one slice of work; system memory keeps its shape as long as it lives.
    pub(crate) fn access(&self) -> Access<'_> {
        Access {
            vram: &self.vram,
            system: self.system.read().unwrap_or_else(PoisonError::into_inner),
            hint: Cell::new(0),
            resolved: Cell::new(0),
        }
    }
}

/// VRAM and the shape of system memory at one moment. A thread has at most one.
#[derive(Debug)]
pub(crate) struct Access<'m> {
    vram: &'m HostMapping,
    system: RwLockReadGuard<'m, SystemMemory>,
    /// The range that was found last, which is looked at first.
    hint: Cell<usize>,
    /// Spans handed out.
    resolved: Cell<u64>,
}

impl Access<'_> {
    /// True if the function may access system memory: bus mastering is enabled.
    pub(crate) fn dma_enabled(&self) -> bool {
        self.system.enabled
    }

    /// Spans handed out so far: a measure of how much memory was touched.
    pub(crate) fn resolved(&self) -> u64 {
        self.resolved.get()
    }

    /// Up to `len` bytes at a location; `None` if there is no memory.
    #[inline]
    pub(crate) fn resolve(&self, location: Location, len: u64, write: bool) -> Option<Span<'_>> {
        let span = self.surroundings(location, write)?.from(location.address())?;
        Some(span.first(len))
    }

    /// The contiguous range of memory around a location; `None` if there is no memory.
    #[inline]
    pub(crate) fn surroundings(&self, location: Location, write: bool) -> Option<Surroundings<'_>> {
        self.resolved.set(self.resolved.get() + 1);
        let address = location.address();
        if !location.system() {
            let span = self.vram.span(0, u64::MAX, write).filter(|span| address < span.len())?;
            return Some(Surroundings { start: 0, span });
        }
        if !self.system.enabled {
            return None;
        }
        let ranges = &self.system.ranges;
        let range = match ranges.get(self.hint.get()) {
            Some(range) if range.start <= address && address < range.end => range,
            _ => {
                let at = ranges.partition_point(|range| range.end <= address);
                let range = ranges.get(at).filter(|range| range.start <= address)?;
                self.hint.set(at);
                range
            }
        };
        if write && !range.writable {
            return None;
        }
        let mapping = range.mapping.seen_by(!location.goes_past_caches());
        let span = mapping.span(range.offset, range.end - range.start, write)?;
        Some(Surroundings { start: range.start, span })
    }
}

#[cfg(test)]
mod tests;
