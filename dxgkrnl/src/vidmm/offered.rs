//! Offers of memory whose contents user mode can do without.

use wddm_ddi::kmt::D3DKMT_OFFER_PRIORITY;

use crate::vidmm::scheduler::IdlePoint;

/// Order in which offered memory is reclaimed by the system, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OfferPriority {
    Low,
    Normal,
    High,
}

impl OfferPriority {
    /// What user mode says; `None` for what it may not say. The system's own choice is the middle.
    pub(crate) fn of(priority: D3DKMT_OFFER_PRIORITY) -> Option<Self> {
        match priority {
            D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_LOW => Some(Self::Low),
            D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_NORMAL | D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_AUTO => {
                Some(Self::Normal)
            }
            D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_HIGH => Some(Self::High),
            _ => None,
        }
    }
}

/// Conditions of an offer.
#[derive(Clone)]
pub(crate) struct OfferTerms {
    pub(crate) priority: OfferPriority,
    /// System memory may be taken too.
    pub(crate) decommit: bool,
    /// The queues that may still use it; `None` for none.
    pub(crate) idle: Option<IdlePoint>,
}

/// An allocation is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(super) priority: OfferPriority,
    pub(super) decommit: bool,
    /// When.
    pub(super) since: u64,
    /// It was taken.
    pub(super) discarded: bool,
}

impl Offered {
    /// True if the contents are gone.
    pub(super) fn is_discarded(&self) -> bool {
        self.discarded
    }

    /// The contents are gone.
    pub(crate) fn take(&mut self) {
        self.discarded = true;
    }
}
