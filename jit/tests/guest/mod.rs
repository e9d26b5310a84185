//! Memory with pages that compiled code reaches by itself once they were accessed, and pages that nobody may access.

use campanile_hw::isa::{Order, Scope};
use campanile_jit::{Paged, Pages, Vectors};
use campanile_shader::GlobalMemory;
use std::ptr::NonNull;

/// The vectors that programs are compiled for in tests. Those that the processor lacks are said to be not tested.
pub(crate) fn vectors() -> Vec<Vectors> {
    let (there, lacking): (Vec<_>, Vec<_>) = Vectors::ALL.into_iter().partition(|vectors| vectors.is_there());
    for vectors in lacking {
        println!("NOT TESTED: PROGRAMS COMPILED FOR {vectors:?}: this processor lacks the instructions");
    }
    there
}

/// First address.
pub(crate) const BASE: u64 = 0x1_0000;
/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// The pages from [`BASE`] on: what may be done with them.
const RIGHTS: [Rights; 4] = [Rights::Write, Rights::Write, Rights::Read, Rights::Nothing];

#[derive(Clone, Copy, PartialEq)]
enum Rights {
    Write,
    Read,
    Nothing,
}

/// An access that may not be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Forbidden(pub(crate) u64);

const SIZE: usize = RIGHTS.len() * PAGE as usize;

/// Memory of a test.
pub(crate) struct Guest {
    bytes: NonNull<[u64; SIZE / 8]>,
    pages: Pages,
    /// Accesses that were not made by compiled code.
    pub(crate) asked: u64,
}

impl Guest {
    /// Memory in which every word has another value.
    pub(crate) fn new() -> Self {
        let numbers = std::array::from_fn(|place| (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bytes = NonNull::from(Box::leak(Box::new(numbers)));
        Self { bytes, pages: Pages::default(), asked: 0 }
    }

    /// Forgets the translations, as after an invalidation.
    pub(crate) fn invalidate(&mut self) {
        self.pages.clear();
    }

    pub(crate) fn contents(&self) -> Vec<u64> {
        // SAFETY: the memory is this value's own, and no program runs.
        unsafe { self.bytes.read() }.to_vec()
    }

    /// The place of bytes in one page.
    fn place(&mut self, address: u64, write: bool) -> Result<NonNull<u8>, Forbidden> {
        self.asked += 1;
        let offset = address.wrapping_sub(BASE);
        let rights = RIGHTS.get((offset / PAGE) as usize).copied().unwrap_or(Rights::Nothing);
        if rights == Rights::Nothing || write && rights != Rights::Write {
            return Err(Forbidden(address));
        }
        let byte = |offset: u64| {
            // SAFETY: a page of the table lies in the memory.
            unsafe { self.bytes.cast::<u8>().add(offset as usize) }
        };
        let (start, place) = (byte(offset / PAGE * PAGE), byte(offset));
        // SAFETY: all of the page is this value's memory, which it only reaches by raw accesses and which lives as long as the translations.
        unsafe { self.pages.insert(address, start, write) };
        Ok(place)
    }

    fn read(&mut self, address: u64, size: usize, write: bool) -> Result<u64, Forbidden> {
        assert!(address.is_multiple_of(size as u64), "elements are aligned");
        let place = self.place(address, write)?;
        let mut raw = [0; 8];
        // SAFETY: an aligned element lies in one page.
        unsafe { place.as_ptr().copy_to_nonoverlapping(raw.as_mut_ptr(), size) };
        Ok(u64::from_le_bytes(raw))
    }

    fn write(&mut self, address: u64, size: usize, value: u64) -> Result<(), Forbidden> {
        assert!(address.is_multiple_of(size as u64), "elements are aligned");
        let place = self.place(address, true)?;
        // SAFETY: as above.
        unsafe { place.as_ptr().copy_from_nonoverlapping(value.to_le_bytes().as_ptr(), size) };
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // SAFETY: it was a box, and nobody has it any more.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

impl GlobalMemory for Guest {
    type Fault = Forbidden;

    fn load(&mut self, address: u64, element: usize, bytes: &mut [u8]) -> Result<(), Forbidden> {
        for (piece, at) in bytes.chunks_mut(element).zip((address..).step_by(element)) {
            piece.copy_from_slice(&self.read(at, element, false)?.to_le_bytes()[..element]);
        }
        Ok(())
    }

    fn store(&mut self, address: u64, element: usize, bytes: &[u8]) -> Result<(), Forbidden> {
        for (piece, at) in bytes.chunks(element).zip((address..).step_by(element)) {
            let value = piece.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            self.write(at, element, value)?;
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        address: u64,
        size: usize,
        update: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, Forbidden> {
        let old = self.read(address, size, true)?;
        if let Some(new) = update(old) {
            self.write(address, size, new)?;
        }
        Ok(old)
    }

    fn fence(&mut self, _: Scope, _: Order) {}
}

impl Paged for Guest {
    fn pages(&self) -> &Pages {
        &self.pages
    }

    fn touch(&mut self, address: u64, write: bool) -> bool {
        self.place(address, write).is_ok()
    }
}
