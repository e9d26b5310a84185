//! Kernel addresses that are good for one DDI call.
//!
//! A driver must not keep the addresses at which it updates fence values. [d3dkmddi: DXGKARG_UPDATEMONITOREDVALUES] A
//! machine that checks drivers therefore maps the page for the call and takes the address away after it; another machine lends
//! the address that it uses itself.

use std::io;

use nt::lock::{Mutex, lock};

use crate::adapter::Adapter;
use crate::vidmm::UserMapping;
use nt::ram::PAGE_SIZE;

use super::VidSch;
use super::storage::{Place, Word};

/// Pages of addresses, used one after the other, so that one that was taken away is not soon given out again.
const PAGES: u64 = 16 * 1024;

/// Addresses that show nothing except what is lent out at the moment.
pub(super) struct Window {
    range: UserMapping,
    next: Mutex<u64>,
}

impl Window {
    /// An empty window.
    ///
    /// # Errors
    /// The host has no addresses left.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { range: UserMapping::reserve(PAGES * PAGE_SIZE)?, next: Mutex::new(0) })
    }

    /// Shows the page with the word at kernel address `word` for a while.
    fn lend<'a>(&'a self, adapter: &Adapter, place: Place<'a>) -> Result<Lent<'a>, Place<'a>> {
        match self.show(adapter, place.address()) {
            Some((address, at)) => Ok(Lent { address, from: Some((self, at)), _place: place }),
            None => Err(place),
        }
    }

    fn show(&self, adapter: &Adapter, word: *mut u64) -> Option<(*mut u64, u64)> {
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
            Some(physical) => self.range.show(at, ram.file(), physical, PAGE_SIZE, true),
            None => {
                let place = adapter.bar_at_segment_address(page)?;
                self.range.show(at, &place.file, place.offset, PAGE_SIZE, true)
            }
        };
        shown.ok()?;
        let address = self.range.address().as_ptr().wrapping_add((at + within) as usize).cast();
        Some((address, at))
    }
}

/// A kernel address of a fence value; it may be gone when this is dropped.
pub(super) struct Lent<'a> {
    address: *mut u64,
    from: Option<(&'a Window, u64)>,
    _place: Place<'a>,
}

impl Lent<'_> {
    /// The address.
    pub(super) fn address(&self) -> *mut u64 {
        self.address
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some((window, at)) = self.from {
            // Cannot fail: the page is inside the range. Were it to, the address would only stay good longer.
            let _ = window.range.hide(at, PAGE_SIZE);
        }
    }
}

impl VidSch {
    /// A kernel address of `word` for one DDI call, during which the word stays where it is.
    pub(super) fn lend<'a>(&'a self, word: &'a Word) -> Lent<'a> {
        let lasting = |place: Place<'a>| Lent { address: place.address(), from: None, _place: place };
        let Some((window, adapter)) = self.window.as_ref().zip(self.adapter().ok()) else {
            return lasting(word.place());
        };
        window.lend(&adapter, word.place()).unwrap_or_else(lasting)
    }
}
