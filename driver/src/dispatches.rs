//! Where the dispatches in progress stood at the last timeout: memory that a debugger reads by its type.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use campanile_hw::debug::Section;

/// Words of a dispatch, those of [`Section::Dispatches`].
pub(crate) const WORDS: usize = Section::Dispatches.words();
/// Dispatches that are kept; of more the first ones.
const KEPT: usize = 16;

/// The dispatches, written by one DxgkDdiCollectDbgInfo at a time.
pub(crate) struct Dispatches {
    count: AtomicU32,
    words: [[AtomicU64; WORDS]; KEPT],
}

impl Dispatches {
    pub(crate) const fn new() -> Self {
        Self { count: AtomicU32::new(0), words: [const { [const { AtomicU64::new(0) }; WORDS] }; KEPT] }
    }

    /// Forgets those of an earlier timeout.
    pub(crate) fn clear(&self) {
        self.count.store(0, Ordering::Release);
    }

    /// Notes one more.
    pub(crate) fn note(&self, words: [u64; WORDS]) {
        let count = self.count.load(Ordering::Acquire);
        let Some(place) = self.words.get(count as usize) else { return };
        for (word, value) in place.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        self.count.store(count + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_are_kept_until_the_next_timeout() {
        let dispatches = Dispatches::new();
        for number in 0..KEPT as u64 + 5 {
            dispatches.note([number; WORDS]);
        }
        assert_eq!(dispatches.count.load(Ordering::Relaxed), KEPT as u32);
        assert_eq!(dispatches.words[3][7].load(Ordering::Relaxed), 3);
        dispatches.clear();
        dispatches.note([9; WORDS]);
        assert_eq!(dispatches.words[0][0].load(Ordering::Relaxed), 9);
        assert_eq!(dispatches.count.load(Ordering::Relaxed), 1);
    }
}
