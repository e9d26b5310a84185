// UNSAFETY: reads and writes memory that a driver writes.
//! Memory that a DDI writes, with a guard behind it: what a driver writes too much hits the guard, and no memory of the host.
//!
//! Whatever was written past the end stops the machine with 0x113, which names the DDI, the field and its size. With special pool a page that cannot be accessed lies there instead: it
//! finds what is read too, at the instruction.

use std::ffi::c_void;

use wddm_ddi::km::*;

use nt::bugcheck::Bugcheck;
use nt::lent::{ALIGN, LentPages};
use nt::verifier::Verifier;

/// Bytes behind each buffer that the driver must leave alone.
const GUARD: usize = 4096;
/// The value of bytes that a driver has not written.
pub(crate) const PATTERN: u8 = 0xcc;
static UNTOUCHED: [u8; GUARD] = [PATTERN; GUARD];

/// Stops the machine because of a write past the end of a buffer.
fn stop(verifier: &Verifier, ddi: &str, field: &str, len: usize, behind: usize) {
    let text =
        format!("{ddi} wrote past the {len} bytes of {field}: the byte {behind} behind its end is not as it was");
    verifier.raise(Bugcheck::fatal(text));
}

/// Place of the first byte of a guard that differs from [`PATTERN`]; `None` for an untouched guard.
fn first_written(guard: &[u8]) -> Option<usize> {
    if guard == UNTOUCHED { None } else { guard.iter().position(|byte| *byte != PATTERN) }
}

/// A buffer whose address a driver is given to read and write it. Its address is a multiple of 8.
pub(crate) struct DdiBuffer {
    memory: Memory,
    len: usize,
}

/// Memory of a buffer.
enum Memory {
    /// The buffer, and the guard behind it.
    Words(Vec<u64>),
    /// The buffer alone, with a page behind it that cannot be accessed.
    Pages(LentPages),
}

impl DdiBuffer {
    /// One of `len` bytes that hold [`PATTERN`].
    pub(crate) fn patterned(len: usize) -> Self {
        let Some(pages) = LentPages::new(len) else {
            let words = vec![u64::from_ne_bytes([PATTERN; 8]); (len + GUARD).div_ceil(8)];
            return Self { memory: Memory::Words(words), len };
        };
        // SAFETY: the pages have so many bytes, and nobody else knows them.
        unsafe { pages.start().write_bytes(PATTERN, len.next_multiple_of(ALIGN)) };
        Self { memory: Memory::Pages(pages), len }
    }

    /// One of `len` zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::patterned(len);
        buffer.bytes_mut().fill(0);
        buffer
    }

    /// One that holds these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut buffer = Self::patterned(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first byte, and how many can be accessed, with those that the driver must leave alone.
    fn extent(&self) -> (*const u8, usize) {
        match &self.memory {
            Memory::Words(words) => (words.as_ptr().cast(), words.len() * 8),
            Memory::Pages(pages) => (pages.start(), self.len.next_multiple_of(ALIGN)),
        }
    }

    /// The first byte, to be written.
    fn start(&mut self) -> *mut u8 {
        match &mut self.memory {
            Memory::Words(words) => words.as_mut_ptr().cast(),
            Memory::Pages(pages) => pages.start(),
        }
    }

    fn all(&self) -> &[u8] {
        let (first, count) = self.extent();
        // SAFETY: so many bytes are initialised, and bytes need no alignment.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// All bytes in front of the guard.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.all().get(..self.len).unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let (first, len) = (self.start(), self.len);
        // SAFETY: the memory holds `len` bytes, and bytes need no alignment.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }

    /// The address for the driver; NULL if the buffer is empty.
    pub(crate) fn address(&mut self) -> *mut c_void {
        if self.len == 0 { std::ptr::null_mut() } else { self.start().cast() }
    }

    fn written_behind(&self) -> Option<usize> {
        let behind = self.all().get(self.len..).unwrap_or_default();
        first_written(behind.get(..GUARD).unwrap_or(behind))
    }

    /// Nothing was written past the end.
    pub(crate) fn is_intact(&self) -> bool {
        self.written_behind().is_none()
    }

    /// After the DDI: stops the machine if it wrote past the end. True if it did not.
    pub(crate) fn check(&self, verifier: &Verifier, ddi: &str, field: &str) -> bool {
        let written = self.written_behind();
        if let Some(behind) = written {
            stop(verifier, ddi, field, self.len, behind);
        }
        written.is_none()
    }
}

/// Bytes of the caller that a driver reads and writes in a buffer.
pub(crate) struct LentBytes<'a> {
    data: &'a mut [u8],
    buffer: DdiBuffer,
}

impl<'a> LentBytes<'a> {
    pub(crate) fn new(data: &'a mut [u8]) -> Self {
        let buffer = DdiBuffer::of(data);
        Self { data, buffer }
    }

    /// Address and size as DDIs take private data: NULL and 0 for none.
    pub(crate) fn place(&mut self) -> (*mut c_void, u32) {
        (self.buffer.address(), self.buffer.len() as u32)
    }

    /// After the DDI: the caller's bytes are as the driver left them; stops the machine if it wrote past the end.
    pub(crate) fn end(self, verifier: &Verifier, ddi: &str, field: &str) {
        self.buffer.check(verifier, ddi, field);
        self.data.copy_from_slice(self.buffer.bytes());
    }
}

/// Elements that a driver reads and writes through the address of the first.
pub(crate) struct DdiArray<T> {
    buffer: DdiBuffer,
    elements: Vec<T>,
}

impl<T: Copy> DdiArray<T> {
    /// Elements whose alignment is that of a word or less, as in all structures of the interface.
    pub(crate) fn new(elements: Vec<T>) -> Self {
        const { assert!(align_of::<T>() <= 8) };
        let mut buffer = DdiBuffer::patterned(size_of_val(elements.as_slice()));
        let first = buffer.start().cast::<T>();
        // SAFETY: the buffer has space for all of them, and is none of them.
        unsafe { first.copy_from_nonoverlapping(elements.as_ptr(), elements.len()) };
        Self { buffer, elements }
    }

    /// The address of the first for the driver.
    pub(crate) fn address(&mut self) -> *mut T {
        self.buffer.start().cast()
    }

    /// Nothing was written past the last.
    pub(crate) fn is_intact(&self) -> bool {
        self.buffer.is_intact()
    }

    /// After a DDI that only reads the elements: stops the machine if it wrote past the last.
    pub(crate) fn check(&self, verifier: &Verifier, ddi: &str, field: &str) {
        self.buffer.check(verifier, ddi, field);
    }

    /// After the DDI: the elements as the driver left them; stops the machine if it wrote past the last.
    ///
    /// # Safety
    /// Any bytes are a `T`, as for structures of the C interface.
    pub(crate) unsafe fn take(mut self, verifier: &Verifier, ddi: &str, field: &str) -> Vec<T> {
        self.check(verifier, ddi, field);
        let first = self.buffer.extent().0.cast::<T>();
        // SAFETY: the buffer holds as many elements as there are; the caller says that any bytes will do.
        unsafe { self.elements.as_mut_ptr().copy_from_nonoverlapping(first, self.elements.len()) };
        self.elements
    }
}

/// An argument of a DDI. Where it is a structure that the driver writes, the driver is given a copy with a guard behind it.
pub(crate) trait Argument {
    /// The copy, if there is one.
    type Held;
    /// Type of the argument in the prototype of the DDI.
    type Passed;
    fn hold(&self) -> Self::Held;
    fn pass(&self, held: &mut Self::Held) -> Self::Passed;
    /// Takes the copy over, and tells the size of the structure and how far behind its end something was written.
    fn take_back(&mut self, held: Self::Held) -> Option<(usize, usize)>;
}

impl<T: Copy> Argument for &mut T {
    type Held = DdiBuffer;
    type Passed = *mut T;

    fn hold(&self) -> DdiBuffer {
        const { assert!(align_of::<T>() <= ALIGN) };
        let mut buffer = DdiBuffer::patterned(size_of::<T>());
        let place = buffer.start().cast::<T>();
        // SAFETY: the buffer has so many bytes at a multiple of 8, and nobody else knows them.
        unsafe { place.write(**self) };
        buffer
    }

    fn pass(&self, held: &mut DdiBuffer) -> *mut T {
        held.start().cast()
    }

    fn take_back(&mut self, mut held: DdiBuffer) -> Option<(usize, usize)> {
        let place = held.start().cast::<T>();
        // SAFETY: `hold` has put a structure there, and any bytes are one, as for structures of the C interface.
        **self = unsafe { place.read() };
        let written = held.written_behind().map(|behind| (size_of::<T>(), behind));
        held.bytes_mut().fill(0);
        // A driver that has kept the address finds nothing there.
        std::hint::black_box(held.bytes());
        written
    }
}

/// Arguments that the driver only reads.
macro_rules! read_only {
    ($([$($param:ident)?] $ty:ty),* $(,)?) => {
        $(
            impl<$($param)?> Argument for $ty {
                type Held = ();
                type Passed = Self;

                fn hold(&self) {}

                fn pass(&self, (): &mut ()) -> Self {
                    *self
                }

                fn take_back(&mut self, (): ()) -> Option<(usize, usize)> {
                    None
                }
            }
        )*
    };
}

read_only! {
    [T] &T, [T] *mut T, [T] *const T, [] u8, [] u32, [] i32, [] usize, [] DEVICE_POWER_STATE, [] DXGK_EVENT_TYPE,
    [] DXGK_SURPRISE_REMOVAL_TYPE,
}

/// An argument while the DDI runs.
pub(crate) struct Lent<'a, A: Argument> {
    argument: &'a mut A,
    held: A::Held,
}

impl<'a, A: Argument> Lent<'a, A> {
    pub(crate) fn new(argument: &'a mut A) -> Self {
        let held = argument.hold();
        Self { argument, held }
    }

    pub(crate) fn pass(&mut self) -> A::Passed {
        self.argument.pass(&mut self.held)
    }

    /// Ends the call of `ddi`: stops the machine if the driver wrote past the end.
    pub(crate) fn end(self, verifier: &Verifier, ddi: &str, name: &str) {
        if let Some((len, behind)) = self.argument.take_back(self.held) {
            stop(verifier, ddi, name, len, behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_past_the_end_of_a_buffer_is_found() {
        for len in [1, 7, 8, 100] {
            let mut buffer = DdiBuffer::of(&vec![1; len]);
            assert!(buffer.check(&Verifier::default(), "DxgkDdiEscape", "pPrivateDriverData"));
            // SAFETY: the guard is behind the bytes.
            unsafe { buffer.address().cast::<u8>().wrapping_add(len).write(0x5a) };
            let verifier = Verifier::default();
            assert!(!buffer.check(&verifier, "DxgkDdiEscape", "pPrivateDriverData"));
            let bugcheck = verifier.bugcheck().expect("the machine stops");
            assert_eq!(bugcheck.code, 0x113);
            assert!(
                bugcheck.reason.contains(&format!("DxgkDdiEscape wrote past the {len} bytes of pPrivateDriverData"))
            );
            assert_eq!(buffer.bytes(), vec![1; len]);
        }
    }

    #[test]
    fn one_byte_past_a_structure_is_found_and_what_is_inside_is_kept() {
        for over in [None, Some(0), Some(GUARD - 1)] {
            let (mut value, verifier) = (7_u64, Verifier::default());
            let mut argument = &mut value;
            let mut lent = Lent::new(&mut argument);
            let place = lent.pass();
            // SAFETY: a place for a number.
            unsafe { place.write(8) };
            if let Some(over) = over {
                // SAFETY: the guard is behind the number.
                unsafe { place.cast::<u8>().wrapping_add(8 + over).write(0) };
            }
            lent.end(&verifier, "DxgkDdiCreateDevice", "args");
            assert_eq!((value, verifier.is_stopped()), (8, over.is_some()));
        }
    }
}
