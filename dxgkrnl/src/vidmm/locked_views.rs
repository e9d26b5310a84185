//! The addresses at which processes see a locked allocation, and where its move to another place has got to.

use std::sync::Arc;

use crate::vidmm::aperture_pages::ApertureWindow;
use crate::vidmm::cpu_cache::CpuCache;
use crate::vidmm::ids::AllocationId;
use crate::vidmm::location::Location;
use crate::vidmm::user_mapping::{Kept, UserMapping};

/// The address at which one process sees a locked allocation, and how often the process has locked it.
pub(super) struct View {
    pub(super) kept: Arc<Kept>,
    pub(super) mapping: Arc<UserMapping>,
    pub(super) count: u32,
    /// The address at which the process gave the memory of the allocation, by this opening of it; it is seen there without any lock.
    pub(super) existing: Option<u64>,
    /// The address shows the allocation, which does not move before.
    pub(super) shown: bool,
}

/// An allocation that user mode has locked.
pub(crate) struct Lock {
    /// One of each process that has locked it, which are several for a shared allocation only.
    pub(super) views: Vec<View>,
    /// Pages of a host aperture that the address goes through.
    pub(super) window: Option<ApertureWindow>,
    /// The processor's cache, where the device does not snoop it.
    pub(super) cache: Option<CpuCache>,
    /// The addresses show nothing, because the new place could not be shown.
    pub(super) hidden: bool,
    /// Processes are asked, without the memory lock, to wait with their stores and to show another place.
    pub(super) moving: Option<Moved>,
}

impl Lock {
    pub(super) fn new(view: View, window: Option<ApertureWindow>, cache: Option<CpuCache>) -> Self {
        Self { views: vec![view], window, cache, hidden: false, moving: None }
    }

    /// Its addresses, one of each process that has locked it.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = &UserMapping> {
        self.views.iter().map(|view| &*view.mapping)
    }

    pub(super) fn views(&self) -> &[View] {
        &self.views
    }

    /// True if it may begin to move.
    pub(super) fn may_move(&self) -> bool {
        self.moving.is_none() && self.is_shown()
    }

    pub(super) fn into_views(self) -> Vec<View> {
        self.views
    }

    /// True if it cannot move before processes have been asked for something, or have answered.
    pub(super) fn must_be_asked(&self) -> bool {
        let asked = || self.moving.is_some() || self.mappings().any(UserMapping::waits);
        !self.is_shown() || asked() && !self.moving.as_ref().is_some_and(|moved| moved.frozen)
    }

    /// True unless a process is yet to be shown it for the first time.
    pub(super) fn is_shown(&self) -> bool {
        self.views.iter().all(|view| view.shown)
    }

    pub(super) fn view(&mut self, kept: &Arc<Kept>) -> Option<&mut View> {
        self.views.iter_mut().find(|view| Arc::ptr_eq(&view.kept, kept))
    }

    /// The pages of a host aperture that the address does not go through any more.
    pub(crate) fn take_window(&mut self) -> Option<ApertureWindow> {
        self.window.take()
    }
}

/// What addresses of processes may show still, although an allocation has left it.
#[derive(Default)]
pub(crate) struct Moved {
    /// Which of the moves of all allocations it is.
    pub(super) number: u64,
    /// Stores wait: it may move.
    pub(super) frozen: bool,
    /// It has moved, and is to be shown where it is now.
    pub(super) stale: bool,
    /// It could not come back: its addresses are to show a copy, which is the process' own.
    pub(super) given_away: bool,
    /// Places, and how many bytes each has.
    pub(super) places: Vec<(Location, u64)>,
    pub(super) windows: Vec<ApertureWindow>,
}

impl Moved {
    pub(super) fn is_of(&self, segment: u32) -> bool {
        self.places.iter().any(|(place, _)| matches!(place, Location::Local { segment: here, .. } if *here == segment))
    }
}

/// Addresses that are not to show an allocation any more.
pub(crate) struct Ended {
    pub(super) id: AllocationId,
    /// Empty while their processes give them back.
    pub(super) views: Vec<View>,
    pub(super) moved: Moved,
}
