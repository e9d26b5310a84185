//! Where fence values live: pages of current and of monitored values, apart.
//!
//! Private fences of one process share pages with others of their class; a fence that may be shared has its pages to itself, in
//! system memory whatever its type, and each process that opens it maps them anew. User mode reads the page of current values,
//! unless the fence is for engines only, and has no mapping of the monitored ones; the GPU reads and writes current values and
//! reads monitored ones. [native-gpu-fence-objects: physical memory storage]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nt::lock::{Mutex, lock};
use nt::page::PAGE_SIZE;
use nt::ram::Owner;
use nt::user_space::UserSpace;
use wddm_ddi::km::{D3DDDI_NATIVEFENCE_TYPE, DXGKARG_FENCESTORAGEVALUETYPE};
use wddm_ddi::status::{STATUS_DRIVER_INTERNAL_ERROR, STATUS_NO_MEMORY};
use wddm_ddi::types::D3DGPU_VIRTUAL_ADDRESS;

use crate::account::{Charge, Upkeep};
use crate::config::FeaturePolicy;
use crate::fence::UNMONITORED;
use crate::rank;
use crate::refusal::Failure;
use crate::vidmm::{
    AddressSpace, FencePage, FencePageAccess, FenceValueKind, GpuMapping, PagePin, Protection, UserMapping, VidMm,
};

use super::process_adapter::ProcessAdapter;
use super::render_adapter::RenderAdapter;

const CURRENT: FenceValueKind = DXGKARG_FENCESTORAGEVALUETYPE::D3DKARG_FENCESTORAGETYPE_CURRENTVALUE;

const MONITORED: FenceValueKind = DXGKARG_FENCESTORAGEVALUETYPE::D3DKARG_FENCESTORAGETYPE_MONITOREDVALUE;

const DEFAULT: D3DDDI_NATIVEFENCE_TYPE = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;

const INTRA_GPU: D3DDDI_NATIVEFENCE_TYPE = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU;

/// Distance of values when the driver asks for none: a cache line, so that fences of different engines do not disturb
/// each other.
const STRIDE: u64 = 64;

/// A 64-bit fence value, read and written whole.
pub(crate) struct Word {
    page: FencePageAccess,
    offset: usize,
}

// SAFETY: the word lies in memory of the machine or of the adapter, which outlive every fence, and is only accessed atomically, where it is
// at the moment.
unsafe impl Send for Word {}

// SAFETY: as for Send.
unsafe impl Sync for Word {}

/// Address of a word, which does not move until this is dropped.
pub(crate) struct WordAddress<'a> {
    address: *mut u64,
    _stay: Option<PagePin<'a>>,
}

impl WordAddress<'_> {
    /// Kernel address, as DDIs get it.
    pub(crate) fn address(&self) -> *mut u64 {
        self.address
    }

    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: the word is 8-aligned and mapped as long as the machine's memory, and stays where it is as long as this; everyone
        // accesses it as 64 bits at once.
        unsafe { AtomicU64::from_ptr(self.address) }
    }

    fn half(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a word has two halves.
        let half = unsafe { self.address.cast::<u32>().add(index) };
        // SAFETY: aligned and mapped as the word is; whoever writes it whole meanwhile does so atomically too, and the caller is
        // content with either value.
        unsafe { AtomicU32::from_ptr(half) }
    }
}

impl Word {
    fn at(page: &FencePage, offset: u64) -> Self {
        Self { page: page.find(), offset: offset as usize }
    }

    /// Where it is, and stays until the answer is dropped.
    pub(crate) fn place(&self) -> WordAddress<'_> {
        let (page, stay) = match &self.page {
            FencePageAccess::Fixed(page) => (page.as_ptr(), None),
            FencePageAccess::Movable(page) => {
                let (page, stay) = page.pin();
                (page, Some(stay))
            }
        };
        // Slots are multiples of 8 within the page.
        WordAddress { address: page.wrapping_add(self.offset).cast(), _stay: stay }
    }

    /// Reads it; ordered after everything before.
    pub(crate) fn load(&self) -> u64 {
        self.place().atomic().load(Ordering::SeqCst)
    }

    /// Writes it; ordered before everything after.
    pub(crate) fn store(&self, value: u64) {
        self.place().atomic().store(value, Ordering::SeqCst);
    }

    /// Reads the low half alone; ordered after everything before.
    pub(crate) fn load_low(&self) -> u32 {
        self.place().half(0).load(Ordering::SeqCst)
    }

    /// Writes the high half alone, which no GPU of 32-bit values writes; ordered before everything after.
    pub(crate) fn store_high(&self, value: u32) {
        self.place().half(1).store(value, Ordering::SeqCst);
    }
}

/// A pair of GPU virtual addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuAddresses {
    pub(crate) current: D3DGPU_VIRTUAL_ADDRESS,
    pub(crate) monitored: D3DGPU_VIRTUAL_ADDRESS,
}

/// What a fence is for, which says where its values lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FenceKind {
    /// The driver knows it only by its addresses: both values in system memory.
    #[default]
    Monitored,
    /// A monitored fence that no GPU reads or writes, and the driver does not know at all.
    WithoutGpu,
    /// A native fence for everybody. Its current value is in system memory.
    Default,
    /// A native fence for engines only: no CPU waits for it, signals it or sees it.
    IntraGpu,
}

impl FenceKind {
    /// The type that the driver is told; a monitored fence has none.
    pub(crate) fn native_type(self) -> D3DDDI_NATIVEFENCE_TYPE {
        if self == Self::IntraGpu { INTRA_GPU } else { DEFAULT }
    }
}

/// Where private fences lie; those of one class share pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Both values in system memory.
    System,
    /// As those, with no address of a GPU.
    WithoutGpu,
    /// The monitored value in local memory, if the driver wants it there.
    LocalMonitored,
    /// Both values in local memory.
    Local,
}

impl Class {
    /// The system's policy. [d3dkmddi: DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1]
    fn of(kind: FenceKind, policy: &FeaturePolicy) -> Self {
        match kind {
            FenceKind::Default if policy.optimized_default_fences => Self::LocalMonitored,
            FenceKind::Monitored | FenceKind::Default => Self::System,
            FenceKind::WithoutGpu => Self::WithoutGpu,
            FenceKind::IntraGpu => Self::Local,
        }
    }
}

/// Two pages, and where the paging process has them if the driver wants them there.
pub(crate) struct Frames {
    /// One for all adapters if the fence is of several.
    current: Arc<FencePage>,
    monitored: FencePage,
    /// User mode gets an address of the current values.
    for_cpu: bool,
    /// GPUs get addresses of the values.
    for_gpu: bool,
    system: Option<Mapped>,
    /// Descriptors, bytes and numbers that a fence takes that may be shared; `None` for another one.
    upkeep: Option<Arc<Upkeep>>,
}

/// The pages as one process sees them.
pub(crate) struct View {
    /// Mapped here, so they must not be given back before.
    _frames: Arc<Frames>,
    user: Option<UserMapping>,
    /// `None` if the GPU has no addresses of them.
    process: Option<Mapped>,
    /// Rights of the GPU to the current values; `None` if it has no addresses of them.
    protection: Option<Protection>,
    owner: Arc<ProcessAdapter>,
    /// That of a fence that may be shared.
    _charge: Option<Charge>,
}

impl View {
    /// The user-mode side of the process that sees the pages.
    pub(in crate::vidsch) fn user(&self) -> Arc<dyn UserSpace> {
        Arc::clone(self.owner.kept.user())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Nobody asked the process whether the adapter may stop: it may still read what it got.
        if let Some(user) = self.user.take().filter(|_| !self.owner.adapter.is_running()) {
            self.owner.kept.keep(user);
        }
    }
}

/// Pages that private fences share.
struct Page {
    class: Class,
    frames: Arc<Frames>,
    view: Arc<View>,
    free: Mutex<Vec<u16>>,
    slots: usize,
}

/// Both pages in one GPU address space; taken out of it when dropped.
pub(crate) struct Mapped {
    current: GpuMapping,
    monitored: GpuMapping,
}

impl Mapped {
    fn new(
        (vidmm, space): (&Arc<VidMm>, &Arc<AddressSpace>),
        bounds: (u64, u64),
        current: (&FencePage, Protection),
        monitored: &FencePage,
    ) -> Result<Self, Failure> {
        let (current, protection) = current;
        Ok(Self {
            current: vidmm.map_fence_page(space, current, bounds, protection)?,
            monitored: vidmm.map_fence_page(space, monitored, bounds, Protection::ReadOnly)?,
        })
    }
}

/// Fence storage of one process on one adapter.
pub(crate) struct Storage {
    process: Arc<ProcessAdapter>,
    stride: u64,
    bounds: (u64, u64),
    in_system_process: bool,
    /// Held while VidMm maps a new page.
    pages: Mutex<Vec<Arc<Page>>, rank::FenceStorage>,
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
        // Start has refused strides that are no multiple of 8, or larger than a page.
        let stride = if stride == 0 { STRIDE } else { stride };
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
    /// STATUS_NO_MEMORY; what the driver answered about local memory, or STATUS_DRIVER_INTERNAL_ERROR if the answer breaks a rule;
    /// why its pages cannot be mapped.
    pub(crate) fn take(self: &Arc<Self>, kind: FenceKind, initial: u64) -> Result<(Home, Arc<View>), Failure> {
        let class = Class::of(kind, self.process.adapter.policy());
        let mut pages = lock(&self.pages);
        let same = pages.iter().rev().filter(|page| page.class == class);
        let taken = same.into_iter().find_map(|page| Some((Arc::clone(page), lock(&page.free).pop()?)));
        let (page, index) = match taken {
            Some(taken) => taken,
            None => {
                let page = Arc::new(self.new_page(class)?);
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

    /// As [`Storage::take`], for a fence that may be shared: nothing else lies on its pages, which are of system memory whatever segments the
    /// driver has named. [d3dkmddi: D3DKMDT_FENCESTORAGESURFACEDATA]
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the process has as many of these as it may; STATUS_NO_MEMORY, or why its pages cannot be mapped.
    pub(crate) fn take_alone(&self, kind: FenceKind, initial: u64) -> Result<(Home, Arc<View>), Failure> {
        let class = if kind == FenceKind::WithoutGpu { Class::WithoutGpu } else { Class::System };
        let upkeep = Upkeep::of_fence();
        let _before_there_is_a_file = self.process.shared.charge(&upkeep)?;
        let owner = shared_to_read(&self.process.adapter)?;
        let frames = self.new_frames(class, kind != FenceKind::IntraGpu, &owner)?;
        self.take_all(frames, Some(initial), Arc::new(upkeep))
    }

    /// As [`Storage::take_alone`], with a current value that exists already. Nobody monitors it here yet.
    ///
    /// # Errors
    /// As [`Storage::take_alone`].
    pub(crate) fn take_on(
        &self,
        kind: FenceKind,
        (current, upkeep): (Arc<FencePage>, Arc<Upkeep>),
    ) -> Result<(Home, Arc<View>), Failure> {
        let monitored = self.process.adapter.vidmm().system_fence_page()?;
        self.take_all(self.map_frames(current, monitored, (true, kind != FenceKind::WithoutGpu))?, None, upkeep)
    }

    fn take_all(
        &self,
        frames: Frames,
        initial: Option<u64>,
        upkeep: Arc<Upkeep>,
    ) -> Result<(Home, Arc<View>), Failure> {
        let frames = Arc::new(Frames { upkeep: Some(upkeep), ..frames });
        let view = self.view(&frames, Some(Protection::ReadWrite))?;
        let home = Home { frames, offset: 0, slot: None };
        match initial {
            Some(initial) => home.begin(initial),
            None => home.monitored().store(UNMONITORED),
        }
        Ok((home, view))
    }

    /// Maps the pages of a fence into this process; the GPU gets the current value with `protection`, and nothing without or if the fence is not for GPUs.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY, or why they cannot be mapped; STATUS_INSUFFICIENT_RESOURCES if the process has as many fences that may be shared as it may have.
    pub(crate) fn view(&self, frames: &Arc<Frames>, protection: Option<Protection>) -> Result<Arc<View>, Failure> {
        let charge = frames.upkeep.as_deref().map(|upkeep| self.process.shared.charge(upkeep)).transpose()?;
        let user = match (frames.for_cpu, frames.current.system()) {
            (true, Some(pages)) => {
                Some(UserMapping::of_pages(self.process.kept.user(), pages).map_err(|_| STATUS_NO_MEMORY)?)
            }
            _ => None,
        };
        let protection = protection.filter(|_| frames.for_gpu);
        let map = |protection| {
            let place = (self.process.adapter.vidmm(), &self.process.space);
            Mapped::new(place, self.bounds, (&frames.current, protection), &frames.monitored)
        };
        let process = protection.map(map).transpose()?;
        let (_frames, owner) = (Arc::clone(frames), Arc::clone(&self.process));
        Ok(Arc::new(View { _frames, user, process, protection, owner, _charge: charge }))
    }

    /// Pages for a class of fences. Where user mode reads the current values, the page of those belongs to `owner`.
    fn new_frames(&self, class: Class, for_cpu: bool, owner: &Arc<Owner>) -> Result<Frames, Failure> {
        let vidmm = self.process.adapter.vidmm();
        let (current, monitored) = match class {
            Class::System | Class::WithoutGpu => (vidmm.fence_page_of(owner)?, vidmm.system_fence_page()?),
            Class::LocalMonitored => {
                let monitored = match vidmm.fence_page(&self.process.space, MONITORED, DEFAULT) {
                    // The driver answered, and the answer cannot be used; or there is no memory.
                    Err(failure) if matches!(failure.status(), STATUS_DRIVER_INTERNAL_ERROR | STATUS_NO_MEMORY) => {
                        return Err(failure);
                    }
                    // The driver knows of no such storage: the fence is a plain one.
                    Err(_) => vidmm.system_fence_page()?,
                    Ok(page) => page,
                };
                (vidmm.fence_page_of(owner)?, monitored)
            }
            Class::Local => {
                let page = |kind| vidmm.fence_page(&self.process.space, kind, INTRA_GPU);
                (page(CURRENT)?, page(MONITORED)?)
            }
        };
        self.map_frames(Arc::new(current), monitored, (for_cpu, class != Class::WithoutGpu))
    }

    /// Maps two pages for the paging process, if the driver wants them there and they are for GPUs.
    fn map_frames(
        &self,
        current: Arc<FencePage>,
        monitored: FencePage,
        (for_cpu, for_gpu): (bool, bool),
    ) -> Result<Frames, Failure> {
        let vidmm = self.process.adapter.vidmm();
        let system = match self.in_system_process && for_gpu {
            true => {
                let current = (&*current, Protection::ReadWrite);
                Some(Mapped::new((vidmm, &vidmm.system_space()?), self.bounds, current, &monitored)?)
            }
            false => None,
        };
        Ok(Frames { current, monitored, for_cpu, for_gpu, system, upkeep: None })
    }

    fn new_page(&self, class: Class) -> Result<Page, Failure> {
        let owner = self.process.kept.memory().read(self.process.adapter.machine.ram())?;
        let frames = Arc::new(self.new_frames(class, class != Class::Local, &owner)?);
        let view = self.view(&frames, Some(Protection::ReadWrite))?;
        let slots = (PAGE_SIZE / self.stride) as usize;
        let free = (0..slots as u16).rev().collect();
        Ok(Page { class, frames, view, free: Mutex::new(free), slots })
    }
}

/// The owner of values that several processes may read.
///
/// # Errors
/// STATUS_NO_MEMORY.
fn shared_to_read(adapter: &RenderAdapter) -> Result<Arc<Owner>, Failure> {
    Owner::shared_to_read(adapter.machine.ram()).map_err(|_| STATUS_NO_MEMORY.into())
}

/// A page of system memory for the current value of one fence, which is `initial`.
///
/// # Errors
/// STATUS_NO_MEMORY.
pub(crate) fn new_current(adapter: &RenderAdapter, initial: u64) -> Result<Arc<FencePage>, Failure> {
    let page = adapter.vidmm().fence_page_of(&shared_to_read(adapter)?)?;
    Word::at(&page, 0).store(initial);
    Ok(Arc::new(page))
}

impl Mapped {
    fn at(&self, offset: u64) -> GpuAddresses {
        GpuAddresses { current: self.current.address() + offset, monitored: self.monitored.address() + offset }
    }
}

impl View {
    /// Where user mode reads the current value of the fence at `offset`; 0 if it does not.
    pub(crate) fn user_address(&self, offset: u64) -> usize {
        self.user.as_ref().map_or(0, |user| user.address() + offset as usize)
    }

    /// Where the GPU finds both values of the fence at `offset`; 0 if it does not.
    pub(crate) fn gpu_addresses(&self, offset: u64) -> GpuAddresses {
        self.process.as_ref().map_or(GpuAddresses::default(), |process| process.at(offset))
    }

    /// How the GPU has the current values; `None` if it does not.
    pub(crate) fn protection(&self) -> Option<Protection> {
        self.protection
    }
}

impl Home {
    /// The first values. Where the CPU takes no part, the user-mode driver has the GPU write the current one. [d3dkmddi:
    /// D3DKMDT_FENCESTORAGESURFACEDATA]
    fn begin(&self, initial: u64) {
        self.monitored().store(UNMONITORED);
        if self.frames.for_cpu {
            self.current().store(initial);
        }
    }

    /// Two flags, for the current and the monitored value: true if the value lies in local memory.
    pub(crate) fn is_local(&self) -> (bool, bool) {
        (self.frames.current.system().is_none(), self.frames.monitored.system().is_none())
    }

    /// Offset of both values on their pages.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Descriptors, bytes and numbers that a fence takes that may be shared; `None` for another one.
    pub(crate) fn upkeep(&self) -> Option<Arc<Upkeep>> {
        self.frames.upkeep.clone()
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
