// UNSAFETY: maps device memory into the kernel and lends contiguous memory to drivers.
//! Hardware resources that a driver has taken: mappings of its BARs and contiguous memory.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Innermost, Mutex, lock};
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER};

use super::bar_owners::{BarOwner, BarOwners, NOBODY, OwnerId, TakeBack};
use super::window::Window;
use crate::bar_place::BarPlace;
use nt::bus::Bar;
use nt::bus::trap::TrapRange;
use nt::driver::{IoMapping, MapCall};
use nt::page::PAGE_SIZE;
use nt::pci::{BarWindow, Function};
use nt::ram::{Pages, punch, replace_shared};

/// The kernel's mapping of a BAR that is plain memory.
struct View {
    function: Arc<Function>,
    bar: usize,
    base: NonNull<u8>,
    len: u64,
    /// Its address space, with pages around it that cannot be accessed: what runs over an end reaches nothing of this process.
    window: Window,
    owners: Mutex<BarOwners, Innermost>,
}

// SAFETY: the view is a shared mapping that lives as long as this object; nobody holds references into it.
unsafe impl Send for View {}
// SAFETY: as for Send.
unsafe impl Sync for View {}

impl View {
    /// The BAR with this place among those of a function; `None` for one that is no plain memory.
    ///
    /// # Errors
    /// The host has no address space, or refuses to map the file.
    fn of_bar(function: &Arc<Function>, bar: usize) -> io::Result<Option<Self>> {
        /// Large pages of the host begin at its multiples.
        const HUGE: u64 = 2 << 20;
        let window = function.bars.get(bar).ok_or(io::ErrorKind::InvalidInput)?;
        let Bar::Mapped { file, offset, size: len, .. } = &window.bar else { return Ok(None) };
        let pages = 0..len.div_ceil(PAGE_SIZE);
        let window = Window::reserve(pages.clone(), HUGE)?;
        window.show(&pages, file, *offset)?;
        let base = std::ptr::with_exposed_provenance_mut(window.start());
        let base = NonNull::new(base).ok_or(io::ErrorKind::InvalidInput)?;
        let owners = Mutex::new(BarOwners::new(*len));
        Ok(Some(Self { function: Arc::clone(function), bar, base, len: *len, window, owners }))
    }

    /// The view as a mapping, if an address lies in the page before or behind it.
    fn beside(&self, address: usize) -> Option<IoMapping> {
        let start = self.window.start();
        let physical = self.function.bars.get(self.bar)?.address;
        let by = MapCall { service: "the system", from: 0 };
        let mapping = IoMapping { start, len: self.len, physical, ended: false, by };
        (is_near(&mapping, address, PAGE_SIZE) && !is_near(&mapping, address, 0)).then_some(mapping)
    }

    /// Gives pages to an owner, for the function and in the kernel's mapping. What they held is lost. Where the BAR is one file for good, nothing changes.
    fn give(self: &Arc<Self>, offset: u64, len: u64, owner: &BarOwner) -> io::Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len).ok_or(io::ErrorKind::InvalidInput)?;
        let giver: Weak<dyn TakeBack> = Arc::<Self>::downgrade(self);
        owner.tells(&giver);
        self.give_pages(&mut lock(&self.owners), offset / PAGE_SIZE..end.div_ceil(PAGE_SIZE), owner.id())
    }

    fn give_pages(&self, owners: &mut BarOwners, pages: Range<u64>, owner: OwnerId) -> io::Result<()> {
        let window = self.function.bars.get(self.bar).ok_or(io::ErrorKind::InvalidInput)?;
        let Bar::Mapped { file, offset: 0, .. } = &window.bar else { return Ok(()) };
        if owners.one_file {
            return Ok(());
        }
        let windows = owners.windows();
        for (pages, had) in owners.of_others(pages, owner) {
            let to = owners.file(owner)?.unwrap_or_else(|| Arc::clone(file));
            let from = owners.known_file(had).unwrap_or_else(|| Arc::clone(file));
            match self.show(window.index, pages.clone(), (&from, &to), &windows) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    owners.one_file = true;
                    break;
                }
                shown => shown?,
            }
            if !owners.kept {
                punch(&from, pages.start * PAGE_SIZE, (pages.end - pages.start) * PAGE_SIZE);
            }
            owners.set(pages, owner);
        }
        owners.close_unused();
        Ok(())
    }

    /// Has pages lie in another file, for the function and here. On an error they lie where they did.
    fn show(
        &self,
        bar: u8,
        pages: Range<u64>,
        (from, to): (&Arc<File>, &Arc<File>),
        windows: &[Arc<Window>],
    ) -> io::Result<()> {
        let bus = &self.function.bus;
        let count = pages.end - pages.start;
        let (start, len) = (pages.start * PAGE_SIZE, count * PAGE_SIZE);
        bus.show_bar_pages(bar, pages.start, count, to)?;
        // SAFETY: the pages lie in the view.
        let at = unsafe { self.base.add(start as usize) };
        // SAFETY: they belong to the view, whose bytes are reached by raw pointers only.
        let shown = unsafe { replace_shared(at, len, to, start) };
        let shown = shown.and_then(|()| windows.iter().try_for_each(|window| window.show(&pages, to, start)));
        if let Err(error) = shown {
            // What was shown before can be shown again: it takes no more of the host than it did.
            let _ = bus.show_bar_pages(bar, pages.start, count, from);
            // SAFETY: as above.
            let _ = unsafe { replace_shared(at, len, from, start) };
            let _ = windows.iter().try_for_each(|window| window.show(&pages, from, start));
            return Err(error);
        }
        Ok(())
    }

    /// Shows part of the BAR at addresses of its own.
    fn open(&self, offset: u64, len: u64) -> io::Result<Arc<Window>> {
        let bar = self.function.bars.get(self.bar).ok_or(io::ErrorKind::InvalidInput)?;
        let Bar::Mapped { file, offset: start, .. } = &bar.bar else { return Err(io::ErrorKind::InvalidInput.into()) };
        let (first, end) = (offset / PAGE_SIZE, (offset + len).div_ceil(PAGE_SIZE));
        let window = Arc::new(Window::reserve(first..end, PAGE_SIZE)?);
        let mut owners = lock(&self.owners);
        let mut page = first;
        while page < end {
            let (owner, until) = owners.at(page);
            let pages = page..until.min(end);
            match owners.known_file(owner) {
                Some(own) => window.show(&pages, &own, page * PAGE_SIZE)?,
                None => window.show(&pages, file, start + page * PAGE_SIZE)?,
            }
            page = pages.end;
        }
        owners.add_window(&window);
        Ok(window)
    }

    /// Nothing can be accessed in a window any more.
    ///
    /// # Errors
    /// The host refuses.
    fn close(&self, window: &Arc<Window>) -> io::Result<()> {
        lock(&self.owners).remove_window(window);
        window.end()
    }

    /// Offset in the BAR of a byte that the view or a window shows at an address.
    fn offset_of(&self, address: usize) -> Option<u64> {
        let offset = address.checked_sub(self.base.as_ptr().addr()).map(|offset| offset as u64);
        let windows = || lock(&self.owners).windows();
        offset
            .filter(|offset| *offset < self.len)
            .or_else(|| windows().iter().find_map(|window| window.offset_of(address)))
    }

    /// Where byte `offset` lies, up to the next page of another owner.
    fn place(&self, bar: &Bar, offset: u64) -> Option<BarPlace> {
        let place = BarPlace::of(bar, offset)?;
        let owners = lock(&self.owners);
        let (owner, end) = owners.at(offset / PAGE_SIZE);
        let len = place.len.min(end.saturating_mul(PAGE_SIZE).saturating_sub(offset));
        Some(match owners.known_file(owner) {
            Some(file) => BarPlace { file, offset, len },
            None => BarPlace { len, ..place },
        })
    }
}

impl TakeBack for View {
    fn take_back(&self, owner: OwnerId) {
        let mut owners = lock(&self.owners);
        for pages in owners.pages_of(owner) {
            // Where the host refuses, they stay with a file that nobody uses.
            let _ = self.give_pages(&mut owners, pages, NOBODY);
        }
    }
}

/// Memory behind a mapping.
enum Memory {
    /// Part of a view.
    View,
    /// A window of a view.
    Window(Arc<View>, Arc<Window>),
    /// Register pages, whose trap ends when this is dropped.
    Trap(TrapRange),
}

/// A mapping made by DxgkCbMapMemory or MmMapIoSpace.
struct Mapping {
    base: usize,
    len: u64,
    physical: u64,
    by: MapCall,
    memory: Memory,
}

/// Mappings that the driver has ended, whose addresses are not used again meanwhile; the newest ones.
const UNMAPPED_MAX: usize = 256;

/// The mappings of a driver. Whoever asks at a fault waits for the lock, under which nothing of the driver's is accessed, so that the answer does not depend on others.
#[derive(Default)]
struct Mappings(Mutex<MappingTable, Innermost>);

#[derive(Default)]
struct MappingTable {
    live: Vec<Mapping>,
    /// Those that have ended, oldest first.
    ended: VecDeque<(IoMapping, Memory)>,
}

impl Mappings {
    /// The mapping that was at an address before it was unmapped, or in or beside whose pages the address lies: of those that have pages without access around them.
    fn near(&self, address: usize) -> Option<IoMapping> {
        let table = lock(&self.0);
        let ended = table.ended.iter().rev().map(|(known, memory)| (*known, memory));
        let live = table.live.iter().map(|mapping| {
            let &Mapping { base, len, physical, by, ref memory } = mapping;
            (IoMapping { start: base, len, physical, ended: false, by }, memory)
        });
        let known: Vec<_> = ended.chain(live).collect();
        let inside = known.iter().find(|(known, _)| known.ended && is_near(known, address, 0));
        let guarded = |memory: &Memory| matches!(memory, Memory::Window(..));
        let beside = || known.iter().find(|(known, memory)| guarded(memory) && is_near(known, address, PAGE_SIZE));
        inside.or_else(beside).map(|(known, _)| *known)
    }

    /// Takes the mapping at an address out.
    fn take(&self, address: usize) -> Option<Mapping> {
        let mut table = lock(&self.0);
        let position = table.live.iter().position(|mapping| mapping.base == address)?;
        Some(table.live.swap_remove(position))
    }

    /// Keeps the addresses of one that has ended.
    fn keep_ended(&self, ended: IoMapping, memory: Memory) {
        let mut table = lock(&self.0);
        table.ended.push_back((ended, memory));
        let oldest = if table.ended.len() > UNMAPPED_MAX { table.ended.pop_front() } else { None };
        drop(table);
        // The memory is given back under locks of its own.
        drop(oldest);
    }

    /// The addresses of those that have ended may be used again.
    fn forget_ended(&self) {
        let ended = std::mem::take(&mut lock(&self.0).ended);
        drop(ended);
    }
}

/// A mapping that the driver did not end.
pub(crate) struct LeftMapping {
    pub(crate) len: u64,
    pub(crate) physical: u64,
    pub(crate) by: MapCall,
}

/// Views and mappings of the device that a driver holds.
pub(crate) struct Resources {
    function: Arc<Function>,
    views: Vec<Arc<View>>,
    mappings: Mappings,
    contiguous: Mutex<HashMap<usize, Pages>>,
}

impl Drop for Resources {
    fn drop(&mut self) {
        // Whoever starts the function next finds the BAR in its own file.
        for view in &self.views {
            let _ = view.give_pages(&mut lock(&view.owners), 0..view.len / PAGE_SIZE, NOBODY);
        }
    }
}

/// Handles of contiguous memory are numbers that no address has.
static NEXT_MEMORY: AtomicUsize = AtomicUsize::new(0xd0c0_0000_0000_0010);

impl Resources {
    /// Maps the BARs that are plain memory.
    pub(crate) fn new(function: Arc<Function>) -> io::Result<Self> {
        let mut views = Vec::new();
        for bar in 0..function.bars.len() {
            views.extend(View::of_bar(&function, bar)?.map(Arc::new));
        }
        let (mappings, contiguous) = Default::default();
        Ok(Self { function, views, mappings, contiguous })
    }

    /// The machine is about to end: what pages of BARs hold stays in the files of their owners.
    pub(crate) fn keep_for_owners(&self) {
        self.views.iter().for_each(|view| lock(&view.owners).kept = true);
    }

    /// The function.
    pub(crate) fn function(&self) -> &Arc<Function> {
        &self.function
    }

    /// Kernel address of `len` bytes at a translated address, if they are plain memory of one BAR.
    pub(crate) fn kernel_view(&self, address: u64, len: u64) -> Option<NonNull<u8>> {
        let (index, offset) = self.locate(address, len)?;
        let view = self.views.iter().find(|view| view.bar == index)?;
        // SAFETY: the offset lies within the BAR, and the view has the BAR's size.
        Some(unsafe { view.base.add(usize::try_from(offset).ok()?) })
    }

    /// Index of the BAR that holds a range, and the offset in it.
    fn locate(&self, address: u64, len: u64) -> Option<(usize, u64)> {
        let (window, offset) = self.function.bar_at(address, len)?;
        let index = self.function.bars.iter().position(|bar| bar.index == window.index)?;
        Some((index, offset))
    }

    /// The place that the kernel's mapping of a BAR shows at `address`.
    pub(crate) fn place_of_kernel_address(&self, address: usize) -> Option<BarPlace> {
        let (view, offset) = self.view_at(address)?;
        view.place(&self.function.bars.get(view.bar)?.bar, offset)
    }

    /// The place of a byte in the file behind a BAR, counted from the BAR's start there.
    pub(crate) fn place_in_bar(&self, bar: u8, offset: u64) -> Option<BarPlace> {
        let index = self.function.bars.iter().position(|window| window.index == bar)?;
        let view = self.views.iter().find(|view| view.bar == index)?;
        view.place(&self.function.bars.get(index)?.bar, offset)
    }

    fn view_at(&self, address: usize) -> Option<(&Arc<View>, u64)> {
        self.views.iter().find_map(|view| view.offset_of(address).map(|offset| (view, offset)))
    }

    /// Gives whole pages at a kernel address in a mapping of a BAR to an owner; `None` if they are no such pages.
    pub(crate) fn give_at_kernel_address(&self, address: usize, len: u64, owner: &BarOwner) -> Option<io::Result<()>> {
        let (view, offset) = self.view_at(address)?;
        Some(view.give(offset, len, owner))
    }

    /// Gives whole pages at a translated address in a BAR to an owner; `None` if they are no such pages.
    pub(crate) fn give_at(&self, address: u64, len: u64, owner: &BarOwner) -> Option<io::Result<()>> {
        let (index, offset) = self.locate(address, len)?;
        let view = self.views.iter().find(|view| view.bar == index)?;
        Some(view.give(offset, len, owner))
    }

    /// DxgkCbMapMemory.
    pub(crate) fn map(&self, address: u64, len: u64, by: MapCall) -> Result<usize, NTSTATUS> {
        self.map_as(address, len, by, false)
    }

    /// MmMapIoSpace: memory that is found to be used when it is unmapped.
    pub(crate) fn map_guarded(&self, address: u64, len: u64, by: MapCall) -> Result<usize, NTSTATUS> {
        self.map_as(address, len, by, true)
    }

    fn map_as(&self, address: u64, len: u64, by: MapCall, guarded: bool) -> Result<usize, NTSTATUS> {
        let (index, offset) = self.locate(address, len).filter(|_| len > 0).ok_or(STATUS_INVALID_PARAMETER)?;
        let window = self.function.bars.get(index).ok_or(STATUS_INVALID_PARAMETER)?;
        let in_page = offset % PAGE_SIZE;
        let (base, memory) = match &window.bar {
            Bar::Mapped { .. } if guarded => {
                let view = self.views.iter().find(|view| view.bar == index).ok_or(STATUS_INVALID_PARAMETER)?;
                let window = view.open(offset, len).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
                (window.start() + in_page as usize, Memory::Window(Arc::clone(view), window))
            }
            Bar::Mapped { .. } => {
                let base = self.kernel_view(address, len).ok_or(STATUS_INVALID_PARAMETER)?;
                (base.as_ptr().expose_provenance(), Memory::View)
            }
            Bar::Trapped { .. } => {
                // The trap covers whole pages so that the offset in the page is kept.
                let trap =
                    || TrapRange::new(Arc::clone(&self.function.bus), window.index, offset - in_page, len + in_page);
                // What was unmapped keeps its addresses no longer than there are others.
                let range = trap().or_else(|_| {
                    self.mappings.forget_ended();
                    trap()
                });
                let range = range.map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
                (range.address().addr() + in_page as usize, Memory::Trap(range))
            }
        };
        lock(&self.mappings.0).live.push(Mapping { base, len, physical: address, by, memory });
        Ok(base)
    }

    /// The rule for which [`Resources::map`] refuses a range.
    pub(crate) fn why_not_mapped(&self, address: u64, len: u64) -> String {
        if len == 0 {
            return "Length is 0, and expected is at least one byte".to_owned();
        }
        format!("TranslatedAddress {address:#x} with Length {len:#x} {}", self.why_no_memory(address, len))
    }

    /// Why [`Resources::kernel_view`] finds nothing, as the rest of a sentence about the range.
    pub(crate) fn why_no_memory(&self, address: u64, len: u64) -> String {
        let begun = |bar: &&BarWindow| address.checked_sub(bar.address).is_some_and(|offset| offset < bar.size);
        let Some(bar) = self.function.bars.iter().find(begun) else {
            return format!("is of no BAR of the device: {}", self.function);
        };
        let place = format!("BAR{}, which has {:#x} bytes at {:#x}", bar.index, bar.size, bar.address);
        match self.function.bar_at(address, len) {
            None => format!("reaches past the end of {place}"),
            Some(_) => {
                format!("is in {place} and is not mapped memory: its accesses are calls of what serves the function")
            }
        }
    }

    /// DxgkCbUnmapMemory and MmUnmapIoSpace; false if there is no such mapping.
    ///
    /// # Errors
    /// The host has not taken the addresses back: what is mapped there can still be accessed.
    pub(crate) fn unmap(&self, address: usize, by: MapCall) -> io::Result<bool> {
        let Some(Mapping { base, len, physical, memory, .. }) = self.mappings.take(address) else { return Ok(false) };
        let closed = match &memory {
            Memory::View => return Ok(true),
            Memory::Window(view, window) => view.close(window),
            Memory::Trap(range) => {
                range.end();
                Ok(())
            }
        };
        self.mappings.keep_ended(IoMapping { start: base, len, physical, ended: true, by }, memory);
        closed.map(|()| true)
    }

    /// As [`Mappings::near`], or what the system has mapped itself, if the address lies beside that.
    pub(crate) fn mapping_near(&self, address: usize) -> Option<IoMapping> {
        let beside = || self.views.iter().find_map(|view| view.beside(address));
        self.mappings.near(address).or_else(beside)
    }

    /// Keeps pages for the driver and names them by a handle.
    pub(crate) fn keep(&self, pages: Pages) -> usize {
        let handle = NEXT_MEMORY.fetch_add(0x10, Ordering::Relaxed);
        lock(&self.contiguous).insert(handle, pages);
        handle
    }

    /// Gives kept pages back; false if the handle is unknown.
    pub(crate) fn release(&self, handle: usize) -> bool {
        let pages = lock(&self.contiguous).remove(&handle);
        pages.is_some()
    }

    /// Mappings, and the number of memory objects, that the driver did not give back.
    pub(crate) fn leftovers(&self) -> (Vec<LeftMapping>, usize) {
        let left = |&Mapping { len, physical, by, .. }: &Mapping| LeftMapping { len, physical, by };
        let mappings = lock(&self.mappings.0).live.iter().map(left).collect();
        (mappings, lock(&self.contiguous).len())
    }
}

/// True if an address lies in the pages of a mapping, or up to `beside` bytes before or behind them.
fn is_near(mapping: &IoMapping, address: usize, beside: u64) -> bool {
    let (start, at) = (mapping.start as u64, address as u64);
    let first = (start - start % PAGE_SIZE).saturating_sub(beside);
    let end = start
        .saturating_add(mapping.len)
        .checked_next_multiple_of(PAGE_SIZE)
        .map_or(u64::MAX, |end| end.saturating_add(beside));
    (first..end).contains(&at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: MapCall = MapCall { service: "MmUnmapIoSpace", from: 0 };

    #[test]
    fn the_mapping_at_an_address_is_found_also_while_another_thread_works_on_the_mappings() {
        let mappings = Mappings::default();
        let ended = IoMapping { start: 0x7000, len: 0x1000, physical: 0x1000, ended: true, by: BY };
        mappings.keep_ended(ended, Memory::View);
        let table = lock(&mappings.0);
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| mappings.near(0x7010));
            // Time enough to find the lock taken; whoever comes later finds it free, with the same answer.
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(table);
            assert_eq!(asks.join().expect("an answer"), Some(ended));
        });
        assert_eq!(mappings.near(0x8000), None);
        mappings.forget_ended();
        assert_eq!(mappings.near(0x7010), None);
    }
}
