//! Kernel addresses that are good for one DDI call.
//!
//! A driver must not keep the addresses at which it updates fence values. [d3dkmddi: DXGKARG_UPDATEMONITOREDVALUES] A
//! machine that checks drivers therefore maps the page for the call and unmaps it after it; another machine passes
//! the address that it uses itself.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use nt::lock::{Mutex, lock};
use nt::page::PAGE_SIZE;
use nt::user_space::{ThisProcess, UserSpace};

use crate::vidmm::UserMapping;

use super::render_adapter::RenderAdapter;
use super::storage::WordAddress;

/// Pages of addresses, used one after the other, so that an address that was unmapped is not soon used again.
const PAGES: u64 = 16 * 1024;

/// The addresses that are mapped for single DDI calls; between calls no memory is behind them.
pub(in crate::vidsch) struct CallMappings {
    range: UserMapping,
    next: Mutex<u64>,
}

impl CallMappings {
    /// Reserves the addresses, with nothing mapped.
    ///
    /// # Errors
    /// The host has no addresses left.
    pub(in crate::vidsch) fn new() -> io::Result<Self> {
        let this: Arc<dyn UserSpace> = Arc::new(ThisProcess);
        Ok(Self { range: UserMapping::reserve(&this, PAGES * PAGE_SIZE)?, next: Mutex::new(0) })
    }

    /// Maps the page of a word until the answer is dropped; gives `place` back where that is not possible.
    pub(in crate::vidsch) fn map_for_call<'a>(
        &'a self,
        adapter: &RenderAdapter,
        place: WordAddress<'a>,
    ) -> Result<CallMapping<'a>, WordAddress<'a>> {
        match self.show(adapter, place.address()) {
            Some((address, at)) => Ok(CallMapping { address, from: Some((self, at)), _place: place }),
            None => Err(place),
        }
    }

    fn show(&self, adapter: &RenderAdapter, word: *mut u64) -> Option<(*mut u64, u64)> {
        let within = word.addr() as u64 % PAGE_SIZE;
        let page = word.addr() - within as usize;
        let at = {
            let mut next = lock(&self.next);
            let at = *next * PAGE_SIZE;
            *next = (*next + 1) % PAGES;
            at
        };
        let ram = adapter.machine.ram();
        let shown = match ram.physical_address(page) {
            Some(physical) => {
                let to = std::ptr::with_exposed_provenance_mut(self.range.address() + at as usize);
                // SAFETY: the page is one of the reservation, and between calls nothing refers to its bytes.
                unsafe { ram.show_page_again(physical, NonNull::new(to)?) }
            }
            None => {
                let place = adapter.bar_at_segment_address(page)?;
                self.range.show(at, &place.file, place.offset, PAGE_SIZE, true)
            }
        };
        shown.ok()?;
        let address = std::ptr::with_exposed_provenance_mut(self.range.address() + (at + within) as usize);
        Some((address, at))
    }
}

/// A kernel address of a fence value, which may be unmapped when this is dropped.
pub(in crate::vidsch) struct CallMapping<'a> {
    pub(in crate::vidsch) address: *mut u64,
    pub(in crate::vidsch) from: Option<(&'a CallMappings, u64)>,
    pub(in crate::vidsch) _place: WordAddress<'a>,
}

impl CallMapping<'_> {
    /// The address.
    pub(in crate::vidsch) fn address(&self) -> *mut u64 {
        self.address
    }
}

impl Drop for CallMapping<'_> {
    fn drop(&mut self) {
        if let Some((mappings, at)) = self.from {
            // Cannot fail: the page is inside the range. Were it to, the address would only stay good longer.
            let _ = mappings.range.hide(at, PAGE_SIZE);
        }
    }
}
