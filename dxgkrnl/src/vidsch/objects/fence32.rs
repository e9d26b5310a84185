//! Values of monitored fences on a GPU that writes 32 bits at once.
//!
//! Such a GPU stores the low half of a value and nothing of the high one. The kernel keeps the whole value: whenever it looks, it takes the
//! low half in memory as the nearest step from the value it saw last, in either direction, and writes the high half that goes with it. So a
//! fence goes on through every multiple of 2^32, for as long as nothing that is waited for or signalled is further than [`REACH`](crate::vidsch::fences::reach) from the value
//! that the kernel saw last; the thunks refuse what is. Fences of such an adapter are looked at with every interrupt that may mean them, whether or not somebody
//! waits. Between the GPU's store and that look, user mode finds the new low half beside the old high one. [context-monitoring: creating a
//! monitored fence; d3dkmddi: DXGK_VIDSCHCAPS, No64BitAtomics]

use nt::lock::{Mutex, lock};

use super::storage::Word;

/// The whole value, as it was when the kernel last looked.
pub(in crate::vidsch) struct Fence32(Mutex<u64>);

impl Fence32 {
    /// A fence that starts at `initial`, which is in memory already.
    pub(in crate::vidsch) fn new(initial: u64) -> Self {
        Self(Mutex::new(initial))
    }

    /// The value, of which the GPU may have written the low half.
    pub(in crate::vidsch) fn load(&self, word: &Word) -> u64 {
        let mut last = lock(&self.0);
        let value = nearest(*last, word.load_low());
        if value >> 32 != *last >> 32 {
            word.store_high((value >> 32) as u32);
        }
        *last = value;
        value
    }

    /// The processor writes the value.
    pub(in crate::vidsch) fn store(&self, word: &Word, value: u64) {
        let mut last = lock(&self.0);
        word.store(value);
        *last = value;
    }
}

/// The value with this low half that is nearest to `last`; where there is none on that side, the next one on the other.
fn nearest(last: u64, low: u32) -> u64 {
    let ahead = low.wrapping_sub(last as u32);
    let (step, other) = (i64::from(ahead as i32), if ahead as i32 >= 0 { -(1 << 32) } else { 1 << 32 });
    last.checked_add_signed(step).or_else(|| last.checked_add_signed(step + other)).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_low_half_stands_for_the_nearest_value_in_either_direction() {
        for (last, low, value) in [
            (0, 0, 0),
            (0, 5, 5),
            (0, 0x7fff_ffff, 0x7fff_ffff),
            (0xffff_ffff, 0, 0x1_0000_0000),
            (0x1_0000_0000, 0xffff_ffff, 0xffff_ffff),
            (0x7_8000_0000, 0xffff_ffff, 0x7_ffff_ffff),
            (0x7_8000_0000, 0, 0x7_0000_0000),
            (0x7_8000_0001, 0, 0x8_0000_0000),
            // There is nothing below 0 and nothing above all ones.
            (0, 0x8000_0000, 0x8000_0000),
            (3, 0xffff_ffff, 0xffff_ffff),
            (u64::MAX, 5, 0xffff_ffff_0000_0005),
            (u64::MAX, 0xffff_ffff, u64::MAX),
        ] {
            assert_eq!(nearest(last, low), value, "{last:#x} {low:#x}");
        }
    }

    proptest! {
        #[test]
        fn steps_within_reach_are_followed_through_any_number_of_wraps(
            first in any::<u64>(),
            steps in prop::collection::vec(-i64::from(i32::MAX)..=i64::from(i32::MAX), 1..60),
        ) {
            let mut value = first;
            for step in steps {
                let Some(next) = value.checked_add_signed(step) else { continue };
                prop_assert_eq!(nearest(value, next as u32), next);
                value = next;
            }
        }
    }
}
