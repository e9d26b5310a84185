//! Where fence values live: pages of system memory, current and monitored values apart.
//!
//! Private fences of one process share pages; a fence that may be shared has its pages to itself, and each process that
//! opens it maps them anew. User mode reads the page of current values and has no mapping of the monitored ones; the GPU
//! reads and writes current values and reads monitored ones. [native-gpu-fence-objects: physical memory storage]

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

/// Two pages of physical memory, and where the paging process has them if the driver wants them there.
pub(crate) struct Frames {
    current: Pages,
    monitored: Pages,
    system: Option<Mapped>,
}

/// The pages as one process sees them.
pub(crate) struct View {
    /// Mapped here, so they must not be given back before.
    _frames: Arc<Frames>,
    user: UserMapping,
    process: Mapped,
}

/// Pages that private fences share.
struct Page {
    frames: Arc<Frames>,
    view: Arc<View>,
    free: Mutex<Vec<u16>>,
    slots: usize,
}

/// Both pages in one GPU address space; taken out of it when dropped.
pub(crate) struct Mapped {
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

/// A place on shared pages.
struct Slot {
    storage: Arc<Storage>,
    page: Arc<Page>,
    index: u16,
}

/// Storage of one fence.
pub(crate) struct Home {
    frames: Arc<Frames>,
    offset: u64,
    /// `None` for a fence that has its pages to itself.
    slot: Option<Slot>,
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

    /// Takes storage for a private fence that starts at `initial`, monitored by nobody.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY, or why its pages cannot be mapped.
    pub(crate) fn take(self: &Arc<Self>, initial: u64) -> Result<(Home, Arc<View>), NTSTATUS> {
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
        let (frames, view) = (Arc::clone(&page.frames), Arc::clone(&page.view));
        let offset = u64::from(index) * self.stride;
        let home = Home { frames, offset, slot: Some(Slot { storage: Arc::clone(self), page, index }) };
        home.begin(initial);
        Ok((home, view))
    }

    /// As [`Storage::take`], for a fence that may be shared: nothing else lies on its pages.
    ///
    /// # Errors
    /// As [`Storage::take`].
    pub(crate) fn take_alone(&self, initial: u64) -> Result<(Home, Arc<View>), NTSTATUS> {
        let frames = Arc::new(self.new_frames()?);
        let view = self.view(&frames)?;
        let home = Home { frames, offset: 0, slot: None };
        home.begin(initial);
        Ok((home, view))
    }

    /// Maps the pages of a fence into this process.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY, or why they cannot be mapped.
    pub(crate) fn view(&self, frames: &Arc<Frames>) -> Result<Arc<View>, NTSTATUS> {
        let user = UserMapping::of_pages(&frames.current, false).map_err(|_| STATUS_NO_MEMORY)?;
        let process = Mapped::new(Arc::clone(&self.process.space), &frames.current, &frames.monitored)?;
        if !process.within(self.bounds) {
            return Err(STATUS_NO_MEMORY);
        }
        Ok(Arc::new(View { _frames: Arc::clone(frames), user, process }))
    }

    fn new_frames(&self) -> Result<Frames, NTSTATUS> {
        let adapter: &Adapter = &self.process.adapter;
        let ram = adapter.machine.ram();
        let current = ram.allocate(PAGE_SIZE, PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        let monitored = ram.allocate(PAGE_SIZE, PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        current.zero();
        monitored.zero();
        let system = match self.in_system_process {
            true => Some(Mapped::new(adapter.vidmm().system_space()?, &current, &monitored)?),
            false => None,
        };
        if system.as_ref().is_some_and(|system| !system.within(self.bounds)) {
            return Err(STATUS_NO_MEMORY);
        }
        Ok(Frames { current, monitored, system })
    }

    fn new_page(&self) -> Result<Page, NTSTATUS> {
        let frames = Arc::new(self.new_frames()?);
        let view = self.view(&frames)?;
        let slots = (PAGE_SIZE / self.stride) as usize;
        let free = (0..slots as u16).rev().collect();
        Ok(Page { frames, view, free: Mutex::new(free), slots })
    }
}

impl Mapped {
    fn at(&self, offset: u64) -> GpuAddresses {
        GpuAddresses { current: self.at.current + offset, monitored: self.at.monitored + offset }
    }
}

impl View {
    /// Where user mode reads the current value of the fence at `offset`.
    pub(crate) fn user_address(&self, offset: u64) -> usize {
        self.user.address().as_ptr().expose_provenance() + offset as usize
    }

    /// Where the GPU finds both values of the fence at `offset`.
    pub(crate) fn gpu_addresses(&self, offset: u64) -> GpuAddresses {
        self.process.at(offset)
    }
}

impl Home {
    fn begin(&self, initial: u64) {
        self.monitored().store(UNMONITORED);
        self.current().store(initial);
    }

    /// Offset of both values on their pages.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The pages.
    pub(crate) fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// The current value.
    pub(crate) fn current(&self) -> Word {
        Word::at(&self.frames.current, self.offset)
    }

    /// The monitored value.
    pub(crate) fn monitored(&self) -> Word {
        Word::at(&self.frames.monitored, self.offset)
    }

    /// Where the GPU finds both in the paging process, if the driver wants them there; 0 otherwise.
    pub(crate) fn system_addresses(&self) -> GpuAddresses {
        self.frames.system.as_ref().map_or(GpuAddresses::default(), |mapped| mapped.at(self.offset))
    }

    /// Gives the storage back. Only at PASSIVE_LEVEL: the last fence of a page takes its mappings away.
    pub(crate) fn release(self) {
        let Some(Slot { storage, page, index }) = self.slot else { return };
        let mut pages = lock(&storage.pages);
        let mut free = lock(&page.free);
        free.push(index);
        let unused = free.len() == page.slots;
        drop(free);
        if unused {
            pages.retain(|other| !Arc::ptr_eq(other, &page));
        }
    }
}
