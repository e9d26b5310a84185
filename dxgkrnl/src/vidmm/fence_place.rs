//! Where a page of fence values is, in its segment or on leave from it.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use nt::lock::{RwLock, RwLockReadGuard};
use nt::page::PAGE_SIZE;
use nt::ram::Pages;

use crate::rank;
use crate::vidmm::ids::SpaceId;

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
