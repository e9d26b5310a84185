// UNSAFETY: memory that the application passes by pointers.
//! Memory of the application, as far as a call may use it.

use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;

use ash::vk::{self, TaggedStructure};

use crate::failure::Answer;

/// The duration of a call.
pub(crate) struct Scope;

/// The application's promise for one call: what it passes obeys Vulkan's valid usage, so that a pointer which is not null points to as much as its
/// command says, for as long as the call lasts. It is made where a command enters the driver, and nowhere else.
#[derive(Clone, Copy)]
pub(crate) struct App<'c>(PhantomData<&'c Scope>);

impl<'c> App<'c> {
    /// The promise for the call that `_scope` stands for.
    ///
    /// # Safety
    /// Pointers that reach the driver in this call, in arguments and in what they point to, are null or valid as the command's valid usage says,
    /// and nothing else writes what they point to meanwhile. [Vulkan: Valid Usage]
    pub(crate) unsafe fn promised(_scope: &'c Scope) -> Self {
        Self(PhantomData)
    }

    /// The value that `pointer` points to; `None` for null.
    pub(crate) fn get<T>(self, pointer: *const T) -> Option<&'c T> {
        // SAFETY: null or valid for the call, as promised.
        unsafe { pointer.as_ref() }
    }

    /// As [`App::get`], for what the command cannot do without.
    pub(crate) fn need<T>(self, pointer: *const T) -> Answer<&'c T> {
        self.get(pointer).ok_or(vk::Result::ERROR_UNKNOWN)
    }

    /// `count` elements from `start` on; none if that is null.
    pub(crate) fn slice<T>(self, start: *const T, count: u32) -> &'c [T] {
        if start.is_null() || count == 0 {
            return &[];
        }
        // SAFETY: so many elements are valid for the call, as promised.
        unsafe { core::slice::from_raw_parts(start, count as usize) }
    }

    /// `count` bytes from `start` on; none if that is null.
    pub(crate) fn bytes(self, start: *const c_void, count: usize) -> &'c [u8] {
        if start.is_null() || count == 0 {
            return &[];
        }
        // SAFETY: so many bytes are valid for the call, as promised.
        unsafe { core::slice::from_raw_parts(start.cast::<u8>(), count) }
    }

    /// The `size` bytes at `offset` from `start`, which the application laid out itself.
    pub(crate) fn part<T: Copy>(self, start: *const c_void, offset: usize) -> Option<T> {
        if start.is_null() {
            return None;
        }
        let at = start.cast::<u8>().wrapping_add(offset).cast::<T>();
        // SAFETY: a value of this type lies there, as promised; its alignment is the application's.
        Some(unsafe { at.read_unaligned() })
    }

    /// The `count` words that follow the first `header` bytes of a structure, which has no more fields.
    pub(crate) fn fields<T>(self, structure: &'c T, header: usize, count: usize) -> &'c [u32] {
        debug_assert!(header + count * 4 <= size_of::<T>());
        let start = core::ptr::from_ref(structure).cast::<u8>().wrapping_add(header).cast::<u32>();
        self.slice(start, count as u32)
    }

    /// A name.
    pub(crate) fn name(self, start: *const c_char) -> Option<&'c CStr> {
        if start.is_null() {
            return None;
        }
        // SAFETY: a terminated string that is valid for the call, as promised.
        Some(unsafe { CStr::from_ptr(start) })
    }

    /// Writes a result, unless `to` is null.
    pub(crate) fn put<T>(self, to: *mut T, value: T) {
        if !to.is_null() {
            // SAFETY: valid for a write, as promised.
            unsafe { to.write(value) };
        }
    }

    /// Changes fields of a result that has a type and a chain of its own.
    pub(crate) fn change<T>(self, what: *mut T, change: impl FnOnce(&mut T)) {
        // SAFETY: null or valid, initialised and not used by others during the call, as promised.
        if let Some(what) = unsafe { what.as_mut() } {
            change(what);
        }
    }

    /// Writes element `index` of results that begin at `start`.
    pub(crate) fn put_at<T>(self, start: *mut T, index: usize, value: T) {
        self.put(if start.is_null() { start } else { start.wrapping_add(index) }, value);
    }

    /// Writes bytes at `offset` from `start`.
    pub(crate) fn put_bytes(self, start: *mut c_void, offset: usize, bytes: &[u8]) {
        if !start.is_null() {
            let to = start.cast::<u8>().wrapping_add(offset);
            // SAFETY: valid for so many bytes, as promised; `bytes` belongs to the driver.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
    }

    /// The structure of a type in a chain of extending structures.
    pub(crate) fn find<T: TaggedStructure>(self, chain: *const c_void) -> Option<&'c T> {
        let mut next = chain.cast::<vk::BaseInStructure<'c>>();
        while let Some(base) = self.get(next) {
            if base.s_type == T::STRUCTURE_TYPE {
                return self.get(next.cast::<T>());
            }
            next = base.p_next;
        }
        None
    }

    /// Writes the structure of a type in a chain of results, if there is one: whatever stands in it becomes zero, then `fill` sets what is not.
    pub(crate) fn extend<T: TaggedStructure>(self, chain: *mut c_void, fill: impl FnOnce(&mut T)) {
        let mut next = chain.cast::<vk::BaseOutStructure<'c>>();
        while let Some(base) = self.get(next.cast_const()) {
            if base.s_type == T::STRUCTURE_TYPE {
                let header = size_of::<vk::BaseOutStructure<'_>>();
                let body = next.cast::<u8>().wrapping_add(header);
                // SAFETY: the rest of a structure that is valid for writes, as promised; zero is a value of every type that a result has.
                unsafe { body.write_bytes(0, size_of::<T>().saturating_sub(header)) };
                self.change(next.cast::<T>(), fill);
                return;
            }
            next = base.p_next;
        }
    }

    /// Answers a question for a list: the number of elements if `to` is null, otherwise as many as fit.
    pub(crate) fn list<T, U>(
        self,
        count: *mut u32,
        to: *mut T,
        from: &[U],
        write: impl Fn(Self, *mut T, &U),
    ) -> Answer<vk::Result> {
        let capacity = *self.need(count.cast_const())?;
        if to.is_null() {
            self.put(count, from.len() as u32);
            return Ok(vk::Result::SUCCESS);
        }
        let written = from.len().min(capacity as usize);
        for (index, item) in from.iter().take(written).enumerate() {
            write(self, to.wrapping_add(index), item);
        }
        self.put(count, written as u32);
        Ok(if written < from.len() { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS })
    }
}
