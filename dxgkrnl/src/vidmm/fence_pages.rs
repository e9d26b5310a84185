//! Pages of fence values, in system memory or in a memory segment.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{RwLock, RwLockReadGuard, lock};
use nt::page::PAGE_SIZE;
use nt::ram::Pages;

use crate::rank;
use crate::vidmm::VidMm;
use crate::vidmm::cpu_cache::SharedPages;
use crate::vidmm::ids::{FencePageId, SpaceId};
use crate::vidmm::va_space::Source;

/// Kernel address of a page that may move.
pub(crate) struct MovablePage {
    address: AtomicPtr<u8>,
    /// Held for reading while the page is accessed, for writing while it moves. Nobody waits to write: a reader may read twice.
    /// Device level takes it.
    moving: RwLock<(), rank::FencePage>,
}

/// The page stays where it is until this is dropped.
pub(crate) struct PagePin<'a> {
    _guard: RwLockReadGuard<'a, (), rank::FencePage>,
}

impl MovablePage {
    pub(super) fn new(address: NonNull<u8>) -> Arc<Self> {
        Arc::new(Self { address: AtomicPtr::new(address.as_ptr()), moving: RwLock::new(()) })
    }

    /// The address of the page, which stays there until the answer is dropped.
    pub(crate) fn pin(&self) -> (*mut u8, PagePin<'_>) {
        let guard = self.moving.read();
        (self.address.load(Ordering::Acquire), PagePin { _guard: guard })
    }

    /// Copies the page to `to`, where it is from then on; false if somebody is using it.
    pub(super) fn move_to(&self, to: NonNull<u8>) -> bool {
        let Some(_moving) = self.moving.try_write() else { return false };
        let from = self.address.load(Ordering::Acquire);
        // SAFETY: both are whole pages that are mapped for the kernel and belong to this fence page, and no engine or thread writes them now.
        unsafe { from.copy_to_nonoverlapping(to.as_ptr(), PAGE_SIZE as usize) };
        self.address.store(to.as_ptr(), Ordering::Release);
        true
    }
}

/// Memory of a page of fence values.
pub(super) enum FencePageLocation {
    /// In its segment.
    Local { offset: u64 },
    /// On leave.
    System(Pages),
}

/// A page of fence values as the memory manager knows it.
pub(crate) struct FencePageState {
    /// The process whose fences lie on it.
    pub(super) owner: SpaceId,
    pub(super) segment: u32,
    pub(super) alignment: u64,
    pub(super) at: FencePageLocation,
    pub(super) page_address: Arc<MovablePage>,
    /// Contents that are kept while the device is not in D0; `None` while it is.
    pub(super) kept: Option<Vec<u8>>,
}

impl FencePageState {
    /// Segment and page frame, for page tables.
    pub(super) fn frame(&self) -> (u32, u64) {
        match &self.at {
            FencePageLocation::Local { offset } => (self.segment, offset / PAGE_SIZE),
            FencePageLocation::System(pages) => (0, pages.address() / PAGE_SIZE),
        }
    }

    pub(super) fn is_in(&self, segment: u32) -> bool {
        self.segment == segment && matches!(self.at, FencePageLocation::Local { .. })
    }
}

/// A page of a segment; given back when dropped.
pub(crate) struct LocalPage {
    pub(super) vidmm: Weak<VidMm>,
    pub(super) id: FencePageId,
    pub(super) page_address: Arc<MovablePage>,
}

impl Drop for LocalPage {
    fn drop(&mut self) {
        // A manager that is gone has no memory to give it back to.
        if let Some(vidmm) = self.vidmm.upgrade() {
            let mut memory = lock(&vidmm.memory);
            if let Some(FencePageState { segment, at: FencePageLocation::Local { offset }, .. }) =
                memory.fence_pages.remove(&self.id)
            {
                memory.segments.release(segment, offset, PAGE_SIZE);
            }
        }
    }
}

/// A page that holds fence values.
pub(crate) enum FencePage {
    /// Of system memory.
    System(SharedPages),
    /// Of a memory segment.
    Local(LocalPage),
}

/// Way by which the kernel reads and writes a page of fence values.
pub(crate) enum FencePageAccess {
    /// It is always there.
    Fixed(NonNull<u8>),
    /// It may move.
    Movable(Arc<MovablePage>),
}

impl FencePage {
    /// Way by which the kernel reads and writes the page.
    pub(crate) fn find(&self) -> FencePageAccess {
        match self {
            Self::System(pages) => FencePageAccess::Fixed(pages.seen().kernel_address()),
            Self::Local(page) => FencePageAccess::Movable(Arc::clone(&page.page_address)),
        }
    }

    /// The page as the processor sees it, if it is of system memory for good.
    pub(crate) fn system(&self) -> Option<&Pages> {
        match self {
            Self::System(pages) => Some(pages.seen()),
            Self::Local(_) => None,
        }
    }

    /// Source of a mapping of the page.
    pub(super) fn source(&self) -> Source {
        match self {
            Self::System(pages) => Source::Frames { segment: 0, frame: pages.memory().address() / PAGE_SIZE },
            Self::Local(page) => Source::Fence(page.id),
        }
    }

    /// Fills the page with zeros, so that nothing of an earlier owner is seen.
    pub(super) fn cleared(self) -> Self {
        let clear = |address: *mut u8| {
            // SAFETY: the page is mapped for the kernel, belongs to this object, and nobody else knows it yet.
            unsafe { address.write_bytes(0, PAGE_SIZE as usize) };
        };
        match self.find() {
            FencePageAccess::Fixed(address) => clear(address.as_ptr()),
            FencePageAccess::Movable(page_address) => clear(page_address.pin().0),
        }
        self
    }
}
