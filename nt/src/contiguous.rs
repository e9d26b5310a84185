// UNSAFETY: maps pages a second time, between pages that cannot be accessed, and fills and reads what a block leaves of them.
//! Contiguous memory of one driver: each block on addresses of its own between pages that cannot be accessed, so that the instruction that runs over its pages or
//! uses it after it was freed faults. What the block leaves of its last page is looked at when it is freed.
//!
//! Devices reach the same pages by their physical addresses, which are not guarded.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ptr::NonNull;

use crate::bugcheck::Bugcheck;
use crate::lock::{Innermost, Mutex};
use crate::page::PAGE;
use crate::pool::{Misuse, SLOP, first_other};
use crate::ram::Pages;

/// Freed blocks that are remembered, and whose addresses are not used again meanwhile.
const FREED_MAX: usize = 1024;

/// The blocks of a driver.
#[derive(Default)]
pub struct Contiguous(Mutex<State, Innermost>);

#[derive(Default)]
struct State {
    blocks: BTreeMap<usize, Block>,
    freed: BTreeMap<usize, Freed>,
    /// Addresses of freed blocks, oldest first.
    oldest: VecDeque<usize>,
}

/// A block in use.
struct Block {
    view: View,
    pages: Pages,
    size: usize,
    /// An address inside the instruction of the driver that asked for it, 0 if that is not known.
    from: usize,
}

/// Addresses where a block was.
struct Freed {
    _view: View,
    len: usize,
    size: usize,
    /// As in [`Block`], of the instruction that freed it.
    from: usize,
}

/// Address space of a block, with a page before and a page behind it.
struct View {
    base: usize,
    len: usize,
}

/// The block that an address belongs to or lies beside, which cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// First address of the block.
    pub start: usize,
    pub size: usize,
    /// `None` if the block was freed, else so many bytes behind the last byte of the block, or before its first if negative.
    pub by: Option<isize>,
    /// An address inside the instruction that freed the block, or asked for one in use; 0 if that is not known.
    pub from: usize,
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, size, by, .. } = *self;
        match by {
            None => write!(f, "freed contiguous memory: {size} bytes were at {start:#x}"),
            Some(by) => {
                let side = if by < 0 { "before the start" } else { "beyond the end" };
                write!(f, "{} bytes {side} of {size} bytes of contiguous memory at {start:#x}", by.unsigned_abs())
            }
        }
    }
}

impl View {
    /// Address space for so many bytes of whole pages, none of which can be accessed yet. `None` where the host has none.
    fn reserve(len: usize) -> Option<Self> {
        let len = len.checked_add(2 * PAGE)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        (base != libc::MAP_FAILED).then(|| Self { base: base.expose_provenance(), len })
    }

    /// The first byte of the block.
    fn start(&self) -> usize {
        self.base + PAGE
    }

    /// Shows pages, as many as there is address space for.
    fn show(&self, pages: &Pages) -> Option<()> {
        let at = NonNull::new(std::ptr::with_exposed_provenance_mut(self.start()))?;
        // SAFETY: the addresses are reserved by this view, and nothing refers to their bytes.
        unsafe { pages.show_again(at) }.ok()
    }

    /// The processor may execute what is shown.
    fn make_executable(&self) -> Option<()> {
        let at = std::ptr::with_exposed_provenance_mut(self.start());
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: the addresses belong to this view, and may be read and written before and after.
        (unsafe { libc::mprotect(at, self.len - 2 * PAGE, rights) } == 0).then_some(())
    }

    /// From now on nothing can be accessed here.
    ///
    /// # Errors
    /// The host refuses: the pages show still.
    fn hide(&self) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let at = std::ptr::with_exposed_provenance_mut(self.start());
        // SAFETY: the addresses belong to this view, and their block is no more.
        let hidden = unsafe { libc::mmap(at, self.len - 2 * PAGE, libc::PROT_NONE, flags, -1, 0) };
        if hidden == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and size, and its block is no more.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.base), self.len) };
    }
}

impl Block {
    /// Address and number of the bytes of the last page that are not the block's.
    fn slop(&self) -> (usize, usize) {
        let end = self.view.start() + self.size;
        (end, self.pages.len() as usize - self.size)
    }

    /// Fails if one of these was written. [debugger: 0xc1]
    fn check(&self) -> Result<(), Misuse> {
        const PAST_THE_END: u64 = 0x24;
        let (end, len) = self.slop();
        let slop = std::ptr::with_exposed_provenance::<u8>(end);
        let bytes: Vec<u8> = (0..len)
            .map(|at| {
                let byte = slop.wrapping_add(at);
                // SAFETY: the byte lies in the pages of the block, which are mapped. A device may write it meanwhile, which a volatile read allows.
                unsafe { byte.read_volatile() }
            })
            .collect();
        let Some(at) = first_other(&bytes, SLOP) else { return Ok(()) };
        let start = self.view.start();
        let reason = format!(
            "written {} bytes past the end of {} bytes of contiguous memory at {start:#x}, by the driver or by its device",
            at + 1,
            self.size
        );
        let parameters = [start as u64, (end + at) as u64, 0, PAST_THE_END];
        let bugcheck = Bugcheck::new(Bugcheck::SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION, parameters, reason);
        Err(Misuse { bugcheck, from: [self.from, 0, 0] })
    }
}

/// The host has refused to take the addresses of a freed block back: they show pages that others get.
fn still_shown(address: usize, error: &io::Error) -> Misuse {
    let reason = format!(
        "MmFreeContiguousMemory of {address:#x}: the host has not taken its addresses back ({error}), so that a use of the freed block would change memory of others"
    );
    Misuse { bugcheck: Bugcheck::fatal_of(address, reason), from: [0; 3] }
}

impl Contiguous {
    /// Keeps pages for the driver as a block of `size` bytes, which the instruction at `from` asked for; its address. `None` where the host has no address space, or lets
    /// nothing be executed there.
    pub fn keep(&self, pages: Pages, size: usize, from: usize, executable: bool) -> Option<usize> {
        let view = View::reserve(pages.len() as usize)?;
        view.show(&pages)?;
        if executable {
            view.make_executable()?;
        }
        let start = view.start();
        let block = Block { view, pages, size, from };
        let (end, len) = block.slop();
        let slop = std::ptr::with_exposed_provenance_mut::<u8>(end);
        // SAFETY: the bytes lie in the pages of the block, which nobody else has.
        unsafe { slop.write_bytes(SLOP, len) };
        self.0.lock().blocks.insert(start, block);
        Some(start)
    }

    /// Frees the block at an address, which the instruction at `from` asks for.
    ///
    /// # Errors
    /// There is none, something was written behind it, or the host has not taken its addresses back.
    pub fn release(&self, address: usize, from: usize) -> Result<(), Misuse> {
        const NONE: u64 = 0x46;
        let mut state = self.0.lock();
        let Some(block) = state.blocks.remove(&address) else {
            let freed = state.freed.get(&address);
            let what = match freed {
                Some(Freed { size, .. }) => format!("a block of {size} bytes that is freed already"),
                None => "which is no memory of MmAllocateContiguousMemory".to_owned(),
            };
            let reason = format!("MmFreeContiguousMemory of {address:#x}, {what}");
            let bugcheck = Bugcheck::new(Bugcheck::BAD_POOL_CALLER, [NONE, address as u64, 0, 0], reason);
            return Err(Misuse { bugcheck, from: [freed.map_or(0, |freed| freed.from), 0, 0] });
        };
        let whole = block.check();
        let Block { view, pages, size, .. } = block;
        let hidden = view.hide().map_err(|error| still_shown(address, &error));
        let len = pages.len() as usize;
        state.freed.insert(address, Freed { _view: view, len, size, from });
        state.oldest.push_back(address);
        if state.oldest.len() > FREED_MAX
            && let Some(oldest) = state.oldest.pop_front()
        {
            state.freed.remove(&oldest);
        }
        drop(state);
        // Others may have the pages from here on.
        drop(pages);
        whole.and(hidden)
    }

    /// Fails for the first block in use behind which something was written.
    pub fn check(&self) -> Result<(), Misuse> {
        self.0.lock().blocks.values().try_for_each(Block::check)
    }

    /// The physical address of a byte in a block.
    pub fn physical_address(&self, address: usize) -> Option<u64> {
        let state = self.0.lock();
        let (start, block) = state.blocks.range(..=address).next_back()?;
        let offset = (address - start) as u64;
        (offset < block.pages.len()).then(|| block.pages.address() + offset)
    }

    /// Number of blocks in use, and the instruction that asked for the first of them.
    pub fn outstanding(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.blocks.len(), state.blocks.values().next().map_or(0, |block| block.from))
    }

    /// What an address is that faulted: in a block that was freed, or in the page before or behind a block.
    pub fn fault_at(&self, address: usize) -> Option<Near> {
        let state = self.0.lock();
        if let Some((start, freed)) = state.freed.range(..=address.saturating_add(PAGE)).next_back()
            && address.wrapping_sub(start - PAGE) < freed.len + 2 * PAGE
        {
            return Some(Near { start: *start, size: freed.size, by: None, from: freed.from });
        }
        let (start, block) = state.blocks.range(..=address.saturating_add(PAGE)).next_back()?;
        let by = match address.checked_sub(*start) {
            None => -((start - address) as isize),
            Some(offset) if offset < block.pages.len() as usize + PAGE => (offset + 1) as isize - block.size as isize,
            Some(_) => return None,
        };
        Some(Near { start: *start, size: block.size, by: Some(by), from: block.from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_the_host_does_not_take_back_are_told_by_name() {
        // The host refuses a mapping of no bytes.
        let view = View::reserve(0).expect("address space");
        let error = view.hide().expect_err("the host refuses");
        let Misuse { bugcheck, .. } = still_shown(view.start(), &error);
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x113, view.start() as u64));
        assert!(bugcheck.reason.contains("the host has not taken its addresses back (Invalid argument"), "{bugcheck}");
    }
}
