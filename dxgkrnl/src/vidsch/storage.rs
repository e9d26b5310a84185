//! Where fence values live: pages of system memory, current and monitored values apart.
//!
//! Private fences of one process share pages. User mode reads the page of current values and has no mapping of the
//! monitored ones; the GPU reads and writes current values and reads monitored ones. [native-gpu-fence-objects:
//! physical memory storage]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wddm_ddi::status::{NTSTATUS, STATUS_NO_MEMORY};
use wddm_ddi::types::D3DGPU_VIRTUAL_ADDRESS;

use crate::adapter::Adapter;
use crate::machine::lock;
use crate::process::ProcessAdapter;
use crate::ram::{PAGE_SIZE, Pages};
use crate::vidmm::{AddressSpace, Protection, UserMapping};

use super::wait::UNMONITORED;

/// Distance of values when the driver asks for none: a cache line, so that fences of different engines do not disturb
/// each other.
const STRIDE: u64 = 64;

/// A 64-bit fence value, read and written whole.
#[derive(Clone, Copy)]
pub(crate) struct Word(NonNull<u64>);

// SAFETY: the word lies in physical memory of the machine, which outlives every fence, and is only accessed atomically.
unsafe impl Send for Word {}
// SAFETY: as for Send.
unsafe impl Sync for Word {}

impl Word {
    fn at(pages: &Pages, offset: u64) -> Self {
        // SAFETY: slots are multiples of 8 within the page.
        Self(unsafe { pages.kernel_address().add(offset as usize) }.cast())
    }

    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: the word is 8-aligned and mapped as long as the machine's memory; everyone accesses it as 64 bits at
        // once.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr()) }
    }

    /// Reads it; ordered after everything before.
    pub(crate) fn load(self) -> u64 {
        self.atomic().load(Ordering::SeqCst)
    }

    /// Writes it; ordered before everything after.
    pub(crate) fn store(self, value: u64) {
        self.atomic().store(value, Ordering::SeqCst);
    }

    /// Kernel address, as DDIs get it.
    pub(crate) fn address(self) -> *mut u64 {
        self.0.as_ptr()
    }
}

/// A pair of GPU virtual addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuAddresses {
    pub(crate) current: D3DGPU_VIRTUAL_ADDRESS,
    pub(crate) monitored: D3DGPU_VIRTUAL_ADDRESS,
}

/// Two pages and their mappings.
struct Page {
    current: Pages,
    monitored: Pages,
    user: UserMapping,
    process: Mapped,
    system: Option<Mapped>,
    free: Mutex<Vec<u16>>,
    slots: usize,
}

/// Both pages in one GPU address space; taken out of it when dropped.
struct Mapped {
    space: Arc<AddressSpace>,
    at: GpuAddresses,
}

impl Mapped {
    fn new(space: Arc<AddressSpace>, current: &Pages, monitored: &Pages) -> Result<Self, NTSTATUS> {
        let mut mapped = Self { space, at: GpuAddresses::default() };
        mapped.at.current = mapped.space.map_pages(current, Protection::ReadWrite)?;
        mapped.at.monitored = mapped.space.map_pages(monitored, Protection::ReadOnly)?;
        Ok(mapped)
    }

    fn within(&self, bounds: (u64, u64)) -> bool {
        let (least, most) = bounds;
        [self.at.current, self.at.monitored]
            .into_iter()
            .all(|page| page >= least && page.checked_add(PAGE_SIZE - 1).is_some_and(|end| end <= most))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        for address in [self.at.current, self.at.monitored] {
            if address != 0 {
                self.space.unmap(address);
            }
        }
    }
}

/// Fence storage of one process on one adapter.
pub(crate) struct Storage {
    process: Arc<ProcessAdapter>,
    stride: u64,
    bounds: (u64, u64),
    in_system_process: bool,
    /// Lock order: before the locks of VidMm, which maps new pages under it.
    pages: Mutex<Vec<Arc<Page>>>,
}

/// Storage of one fence.
pub(crate) struct Slot {
    storage: Arc<Storage>,
    page: Arc<Page>,
    index: u16,
}

impl Storage {
    /// No storage yet for `process`.
    pub(crate) fn new(process: &Arc<ProcessAdapter>) -> Arc<Self> {
        let caps = process.adapter.caps().native_fence;
        let stride = caps.map_or(0, |caps| u64::from(caps.MonitoredValueStride));
        let stride = if stride == 0 { STRIDE } else { stride.next_multiple_of(8).min(PAGE_SIZE) };
        let bounds = match caps {
            Some(caps) if caps.MaximumAddress != 0 => (caps.MinimumAddress, caps.MaximumAddress),
            _ => (0, u64::MAX),
        };
        Arc::new(Self {
            process: Arc::clone(process),
            stride,
            bounds,
            in_system_process: caps.is_some_and(|caps| caps.MapToGpuSystemProcess != 0),
            pages: Mutex::new(Vec::new()),
        })
    }

    /// Takes storage for one fence that starts at `initial`, monitored by nobody.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY, or why its pages cannot be mapped.
    pub(crate) fn take(self: &Arc<Self>, initial: u64) -> Result<Slot, NTSTATUS> {
        let mut pages = lock(&self.pages);
        let taken = pages.iter().find_map(|page| Some((Arc::clone(page), lock(&page.free).pop()?)));
        let (page, index) = match taken {
            Some(taken) => taken,
            None => {
                let page = Arc::new(self.new_page()?);
                let index = lock(&page.free).pop().ok_or(STATUS_NO_MEMORY)?;
                pages.push(Arc::clone(&page));
                (page, index)
            }
        };
        drop(pages);
        let slot = Slot { storage: Arc::clone(self), page, index };
        slot.monitored().store(UNMONITORED);
        slot.current().store(initial);
        Ok(slot)
    }

    fn new_page(&self) -> Result<Page, NTSTATUS> {
        let adapter: &Adapter = &self.process.adapter;
        let ram = adapter.machine.ram();
        let current = ram.allocate(PAGE_SIZE, PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        let monitored = ram.allocate(PAGE_SIZE, PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        current.zero();
        monitored.zero();
        let user = UserMapping::of_pages(&current, false).map_err(|_| STATUS_NO_MEMORY)?;
        let process = Mapped::new(Arc::clone(&self.process.space), &current, &monitored)?;
        let system = match self.in_system_process {
            true => Some(Mapped::new(adapter.vidmm().system_space()?, &current, &monitored)?),
            false => None,
        };
        if !process.within(self.bounds) || system.as_ref().is_some_and(|system| !system.within(self.bounds)) {
            return Err(STATUS_NO_MEMORY);
        }
        let slots = (PAGE_SIZE / self.stride) as usize;
        let free = (0..slots as u16).rev().collect();
        Ok(Page { current, monitored, user, process, system, free: Mutex::new(free), slots })
    }
}

impl Slot {
    fn offset(&self) -> u64 {
        u64::from(self.index) * self.storage.stride
    }

    fn in_space(&self, mapped: &Mapped) -> GpuAddresses {
        GpuAddresses { current: mapped.at.current + self.offset(), monitored: mapped.at.monitored + self.offset() }
    }

    /// The current value.
    pub(crate) fn current(&self) -> Word {
        Word::at(&self.page.current, self.offset())
    }

    /// The monitored value.
    pub(crate) fn monitored(&self) -> Word {
        Word::at(&self.page.monitored, self.offset())
    }

    /// Where user mode reads the current value.
    pub(crate) fn user_address(&self) -> usize {
        self.page.user.address().as_ptr().expose_provenance() + self.offset() as usize
    }

    /// Where the GPU finds both in the process.
    pub(crate) fn process_addresses(&self) -> GpuAddresses {
        self.in_space(&self.page.process)
    }

    /// Where the GPU finds both in the paging process, if the driver wants them there; 0 otherwise.
    pub(crate) fn system_addresses(&self) -> GpuAddresses {
        self.page.system.as_ref().map_or(GpuAddresses::default(), |mapped| self.in_space(mapped))
    }

    /// Gives the storage back. Only at PASSIVE_LEVEL: the last fence of a page takes its mappings away.
    pub(crate) fn release(self) {
        let mut pages = lock(&self.storage.pages);
        let mut free = lock(&self.page.free);
        free.push(self.index);
        let unused = free.len() == self.page.slots;
        drop(free);
        if unused {
            pages.retain(|page| !Arc::ptr_eq(page, &self.page));
        }
    }
}
