//! The processor's cache on a machine whose devices do not snoop it.
//!
//! The host's own caches are coherent, so the cache is played: user mode sees a copy of the memory, and what it stores stays in the copy
//! until it is written back. Nothing is read again from memory until it is invalidated, as if the processor had read everything ahead. So
//! leaving out an invalidation shows as wrong data, every time. Memory of other types is shown as it is. Which type a mapping has is said
//! by whoever makes it: user mode for its allocations (rings and ring control among them), the system for fence values, logs of fences and DMA buffers. One who says the wrong
//! one shares nothing with the device. [allocation-usage-tracking: I/O coherency]

use crate::vidmm::system_memory::SystemMemory;
use crate::vidmm::user_mapping::Part;
use nt::page::PAGE_SIZE;
use nt::ram::{Owner, Pages, Ram};
use wddm_ddi::status::*;

/// Bytes of a cache line: what is written back and invalidated at least.
const LINE: u64 = 64;
type CacheLine = [u8; LINE as usize];

/// The cache policy of the processor for memory that it shares with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryType {
    /// Through its caches: for memory that the device snoops.
    Cached,
    /// Past its caches, so that either side sees the other's stores at once, whatever the device does.
    Uncached,
}

impl MemoryType {
    /// For memory in which either side must see what the other one stores, where the device snoops or does not: fence values, logs of
    /// fences, DMA buffers. [docs/hardware.md: memory types and snooping]
    pub(crate) fn of_words(snoops: bool) -> Self {
        if snoops { Self::Cached } else { Self::Uncached }
    }
}

/// Pages that the processor shares with a device for good, of one memory type in all mappings of the processor.
pub(crate) struct SharedPages {
    memory: Pages,
    /// What the processor sees instead: its cache, of which nothing is ever written back or read again.
    cache: Option<Pages>,
}

impl SharedPages {
    /// Pages of a memory type, all zero to either side, beside a device that snoops or does not.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY.
    pub(crate) fn new(memory: Pages, kind: MemoryType, snoops: bool) -> Result<Self, NTSTATUS> {
        memory.zero();
        let cache = match kind {
            MemoryType::Cached if !snoops => {
                let cache = memory.allocate_beside(memory.len(), PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
                cache.zero();
                Some(cache)
            }
            MemoryType::Cached | MemoryType::Uncached => None,
        };
        Ok(Self { memory, cache })
    }

    /// The pages as devices reach them.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// The pages as the processor sees them.
    pub(crate) fn seen(&self) -> &Pages {
        self.cache.as_ref().unwrap_or(&self.memory)
    }
}

/// What the processor has of an allocation in its cache: all of it.
pub(crate) struct CpuCache {
    /// Pages as user mode sees them, through the simulated cache.
    seen: Pages,
    /// The bytes as they were when last read from memory. A line that differs is dirty.
    clean: Vec<u8>,
}

/// Copies one line, which user mode may be writing.
fn read_line(pages: &Pages, at: u64) -> CacheLine {
    // SAFETY: `at` is a line of the pages, of which the kernel's mapping shows all.
    let line = unsafe { pages.kernel_address().add(at as usize) }.cast::<CacheLine>();
    // SAFETY: mapped, aligned to its size; racing stores leave any of their bytes, which is what a cache sees too.
    unsafe { line.as_ptr().read_volatile() }
}

fn write_line(pages: &Pages, at: u64, bytes: CacheLine) {
    // SAFETY: as in `read_line`.
    let line = unsafe { pages.kernel_address().add(at as usize) }.cast::<CacheLine>();
    // SAFETY: as in `read_line`.
    unsafe { line.as_ptr().write_volatile(bytes) };
}

impl CpuCache {
    /// A cache that has just read `len` bytes of `memory`.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY.
    pub(crate) fn new(memory: &SystemMemory, len: u64) -> Result<Self, NTSTATUS> {
        // The file has nothing else in it.
        let store = Ram::in_one_file(len + PAGE_SIZE).and_then(|ram| Owner::shared(&ram));
        let seen = store.map_err(|_| STATUS_NO_MEMORY)?.allocate(len, PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        let mut clean = Vec::new();
        clean.try_reserve_exact(len as usize).map_err(|_| STATUS_NO_MEMORY)?;
        clean.resize(len as usize, 0);
        seen.zero();
        let mut cache = Self { seen, clean };
        cache.invalidate(memory, 0, len);
        Ok(cache)
    }

    /// What a user address is to show, which is the cache.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY.
    pub(crate) fn parts(&self) -> Result<Vec<Part>, NTSTATUS> {
        Ok(vec![Part::of_pages(0, &self.seen).map_err(|_| STATUS_NO_MEMORY)?])
    }

    /// Writes dirty lines of a range back to memory, then reads all of its lines again.
    pub(crate) fn invalidate(&mut self, memory: &SystemMemory, offset: u64, len: u64) {
        let (start, end) = (offset / LINE * LINE, (offset + len).next_multiple_of(LINE).min(self.seen.len()));
        for (first, pages) in memory.chunks() {
            let chunk = first * PAGE_SIZE;
            let lines = start.max(chunk)..end.min(chunk + pages.len());
            for at in lines.step_by(LINE as usize) {
                let seen = read_line(&self.seen, at);
                let Some(clean) = self.clean.get_mut(at as usize..(at + LINE) as usize) else { return };
                if seen != *clean {
                    write_line(pages, at - chunk, seen);
                }
                let now = read_line(pages, at - chunk);
                clean.copy_from_slice(&now);
                if now != seen {
                    write_line(&self.seen, at, now);
                }
            }
        }
    }

    /// Writes dirty lines back, and forgets the rest: what happens to lines that nobody uses any more.
    pub(crate) fn end(mut self, memory: &SystemMemory) {
        let len = self.seen.len();
        self.invalidate(memory, 0, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(pages: &Pages, at: u64) -> *mut u8 {
        // SAFETY: the tests stay inside.
        unsafe { pages.kernel_address().add(at as usize) }.as_ptr()
    }

    fn get(pages: &Pages, at: u64) -> u8 {
        // SAFETY: mapped.
        unsafe { byte(pages, at).read_volatile() }
    }

    fn set(pages: &Pages, at: u64, value: u8) {
        // SAFETY: mapped.
        unsafe { byte(pages, at).write_volatile(value) };
    }

    #[test]
    fn cached_pages_are_shared_with_a_device_that_snoops_and_uncached_ones_with_every_device() {
        let ram = Ram::new(1 << 20).unwrap();
        for (kind, snoops) in [(MemoryType::Cached, true), (MemoryType::Cached, false), (MemoryType::Uncached, false)] {
            let shared = SharedPages::new(ram.allocate(PAGE_SIZE, PAGE_SIZE).unwrap(), kind, snoops).unwrap();
            set(shared.seen(), 8, 1);
            set(shared.memory(), 16, 2);
            let seen = (get(shared.memory(), 8), get(shared.seen(), 16));
            assert_eq!(seen, if kind == MemoryType::Cached && !snoops { (0, 0) } else { (1, 2) }, "{kind:?}");
        }
        assert_eq!([true, false].map(MemoryType::of_words), [MemoryType::Cached, MemoryType::Uncached]);
    }

    #[test]
    fn stores_stay_in_the_cache_and_memory_stays_out_of_it_until_their_line_is_invalidated() {
        let ram = Ram::new(1 << 20).unwrap();
        let memory = SystemMemory::allocate(&Owner::process(&ram).unwrap(), 2).unwrap();
        memory.zero();
        let (_, pages) = memory.chunks().next().unwrap();
        let mut cache = CpuCache::new(&memory, 2 * PAGE_SIZE).unwrap();
        set(&cache.seen, 100, 1);
        set(pages, 300, 2);
        assert_eq!((get(pages, 100), get(&cache.seen, 300)), (0, 0));
        cache.invalidate(&memory, 127, 1);
        assert_eq!((get(pages, 100), get(&cache.seen, 300)), (1, 0), "bytes 64 to 127 are one line");
        cache.invalidate(&memory, 299, 2);
        assert_eq!(get(&cache.seen, 300), 2);
        // A processor that writes the same line as the device loses the device's bytes.
        set(&cache.seen, 640, 3);
        set(pages, 641, 4);
        cache.invalidate(&memory, 640, 1);
        assert_eq!((get(pages, 640), get(pages, 641)), (3, 0));
        set(&cache.seen, PAGE_SIZE, 5);
        cache.end(&memory);
        assert_eq!(get(pages, PAGE_SIZE), 5);
    }
}
