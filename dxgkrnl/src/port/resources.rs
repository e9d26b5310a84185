// UNSAFETY: maps device memory into the kernel and lends contiguous memory to drivers.
//! Hardware resources that a driver has taken: mappings of its BARs and contiguous memory.

use std::collections::HashMap;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nt::lock::{Mutex, lock};
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER};

use crate::bar_place::BarPlace;
use crate::rank;
use nt::bus::Bar;
use nt::bus::trap::{FunctionMapping, TrapRange};
use nt::page::PAGE_SIZE;
use nt::pci::Function;
use nt::ram::{Pages, map_shared};

/// The kernel's mapping of a BAR that is plain memory.
struct View {
    bar: usize,
    base: NonNull<u8>,
    len: u64,
    /// A function that sleeps does not answer there.
    window: Option<FunctionMapping>,
}

// SAFETY: the view is a shared mapping that lives as long as this object; nobody holds references into it.
unsafe impl Send for View {}
// SAFETY: as for Send.
unsafe impl Sync for View {}

impl Drop for View {
    fn drop(&mut self) {
        drop(self.window.take());
        // SAFETY: the mapping was made with this address and size; the adapter that handed it out is gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len as usize) };
    }
}

/// A mapping made by DxgkCbMapMemory.
enum Mapping {
    /// Part of a view.
    View,
    /// Register pages; kept for the drop that ends the trap.
    Trap { _range: TrapRange },
}

/// Views and mappings of the device that a driver holds.
pub(crate) struct Resources {
    function: Arc<Function>,
    views: Vec<View>,
    mappings: Mutex<Vec<(usize, Mapping)>, rank::ResourceMappings>,
    contiguous: Mutex<HashMap<usize, Pages>>,
}

/// Handles of contiguous memory are numbers that no address has.
static NEXT_MEMORY: AtomicUsize = AtomicUsize::new(0xd0c0_0000_0000_0010);

impl Resources {
    /// Maps the BARs that are plain memory.
    pub(crate) fn new(function: Arc<Function>) -> io::Result<Self> {
        let mut views = Vec::new();
        for (index, window) in function.bars.iter().enumerate() {
            if let Bar::Mapped { file, offset, size, .. } = &window.bar {
                let base = map_shared(file, *offset, *size, true)?;
                let mut view = View { bar: index, base, len: *size, window: None };
                view.window = Some(FunctionMapping::new(base.as_ptr().addr(), *size)?);
                views.push(view);
            }
        }
        Ok(Self { function, views, mappings: Mutex::default(), contiguous: Mutex::default() })
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

    pub(crate) fn place_of_kernel_address(&self, address: usize) -> Option<BarPlace> {
        self.views.iter().find_map(|view| {
            let offset = address.checked_sub(view.base.as_ptr().addr())? as u64;
            let window = self.function.bars.get(view.bar)?;
            (offset < view.len).then(|| BarPlace::of(&window.bar, offset)).flatten()
        })
    }

    /// DxgkCbMapMemory.
    pub(crate) fn map(&self, address: u64, len: u64) -> Result<usize, NTSTATUS> {
        let (index, offset) = self.locate(address, len).filter(|_| len > 0).ok_or(STATUS_INVALID_PARAMETER)?;
        let window = self.function.bars.get(index).ok_or(STATUS_INVALID_PARAMETER)?;
        let (base, mapping) = match &window.bar {
            Bar::Mapped { .. } => {
                let base = self.kernel_view(address, len).ok_or(STATUS_INVALID_PARAMETER)?;
                (base.as_ptr().expose_provenance(), Mapping::View)
            }
            Bar::Trapped { .. } => {
                // The trap covers whole pages so that the offset in the page is kept.
                let in_page = offset % PAGE_SIZE;
                let bus = Arc::clone(&self.function.bus);
                let range = TrapRange::new(bus, window.index, offset - in_page, len + in_page)
                    .map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
                (range.address().addr() + in_page as usize, Mapping::Trap { _range: range })
            }
        };
        lock(&self.mappings).push((base, mapping));
        Ok(base)
    }

    /// DxgkCbUnmapMemory; false if there is no such mapping.
    pub(crate) fn unmap(&self, address: usize) -> bool {
        let mut mappings = lock(&self.mappings);
        let position = mappings.iter().position(|(base, _)| *base == address);
        let removed = position.map(|position| mappings.swap_remove(position));
        drop(mappings);
        removed.is_some()
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

    /// Mappings and memory objects that the driver did not give back.
    pub(crate) fn leftovers(&self) -> (usize, usize) {
        (lock(&self.mappings).len(), lock(&self.contiguous).len())
    }
}
