//! Memory that begins at a boundary of the host's cache lines, so that no vector of a compiled program lies in two of them.

use campanile_hw::isa::LANES;
use std::ops::{Deref, DerefMut};

/// Bytes of a line of the cache, and of the widest vectors.
const LINE: usize = 64;

/// Numbers, the first of which is at the beginning of a line. A place in memory says nothing about a value: two are equal if their numbers are.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    /// The numbers, and some before and behind them that nobody sees.
    all: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// So many zeros.
    pub(crate) fn new(len: usize) -> Self {
        let spare = LINE / size_of::<T>();
        let all = vec![T::default(); len + spare];
        let first = all.as_ptr().align_offset(LINE).min(spare);
        Self { all, first, len }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.all.get(self.first..self.first + self.len).unwrap_or(&[])
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.all.get_mut(self.first..self.first + self.len).unwrap_or(&mut [])
    }
}

impl<T: Copy + Default> Clone for Aligned<T> {
    fn clone(&self) -> Self {
        let mut new = Self::new(self.len);
        new.copy_from_slice(self);
        new
    }
}

impl<T: PartialEq> PartialEq for Aligned<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Aligned<T> {}

/// Registers of a file, of all lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registers<T: Copy + Default>(Aligned<T>);

impl<T: Copy + Default> Registers<T> {
    /// So many registers, which are zero.
    pub(crate) fn new(count: usize) -> Self {
        Self(Aligned::new(count * LANES))
    }
}

impl<T: Copy + Default> Deref for Registers<T> {
    type Target = [[T; LANES]];

    fn deref(&self) -> &[[T; LANES]] {
        self.0.as_chunks().0
    }
}

impl<T: Copy + Default> DerefMut for Registers<T> {
    fn deref_mut(&mut self) -> &mut [[T; LANES]] {
        self.0.as_chunks_mut().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned<T>(numbers: &[T]) -> bool {
        numbers.as_ptr().align_offset(LINE) == 0
    }

    #[test]
    fn registers_and_bytes_begin_at_a_line_of_the_cache_also_in_a_copy() {
        // As many at once as make it unlikely that all are there by chance.
        for count in 0..40 {
            let (words, doubles, bytes) =
                (Registers::<u32>::new(count), Registers::<u64>::new(count), Aligned::<u8>::new(count));
            assert!(is_aligned(&words) && is_aligned(&doubles) && is_aligned(&bytes));
            assert_eq!([words.len(), doubles.len(), bytes.len()], [count; 3]);
            assert!(is_aligned(&words.clone()) && is_aligned(&bytes.clone()));
        }
    }

    #[test]
    fn what_is_compared_and_copied_are_the_numbers() {
        let mut one = Registers::<u32>::new(3);
        one[1][7] = 5;
        let mut other = Registers::new(3);
        assert!(one != other);
        other[1][7] = 5;
        assert!(one == other && one.clone() == one);
    }
}
