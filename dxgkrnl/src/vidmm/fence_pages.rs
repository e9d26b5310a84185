//! Pages of fence values, in system memory or in a memory segment.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use nt::lock::lock;
use nt::page::PAGE_SIZE;
use nt::ram::Pages;

use crate::vidmm::cpu_cache::SharedPages;
use crate::vidmm::fence_place::{FencePageLocation, FencePageState, MovablePage};
use crate::vidmm::ids::FencePageId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::va_space::Source;

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
