//! The state of an adapter in D3 that it needs to be in D0 again.

use std::sync::Arc;

use nt::pci::Sleeping;

use crate::vidsch::HwContext;

/// An adapter in D3, with all its functions.
pub(super) struct Asleep {
    /// Contexts that were not suspended before: they are resumed.
    pub(super) suspended: Vec<Arc<HwContext>>,
    /// In the order of the adapter's functions.
    pub(super) functions: Vec<Sleeping>,
    /// Work that was submitted was not done.
    pub(super) has_work: bool,
}
