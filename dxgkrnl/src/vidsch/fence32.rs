//! Values of monitored fences on a GPU that writes 32 bits at once.
//!
//! Such a GPU stores the low half of a value and nothing of the high one. The kernel keeps the whole value: whenever it looks, it takes the
//! low half in memory as the nearest step from the value it saw last, in either direction, and writes the high half that goes with it. So a
//! fence goes on through every multiple of 2^32, for as long as nothing that is waited for or signalled is further than [`REACH`] from the value
//! that the kernel saw last; the thunks refuse what is. Fences of such an adapter are looked at with every interrupt that may mean them, whether or not somebody
//! waits. Between the GPU's store and that look, user mode finds the new low half beside the old high one. [context-monitoring: creating a
//! monitored fence; d3dkmddi: DXGK_VIDSCHCAPS, No64BitAtomics]

use std::sync::Arc;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use super::storage::Word;
use super::sync_object::SyncObject;
use crate::refusal::{Failure, refused};

/// Largest distance from the last value of what is waited for or signalled: UINT_MAX / 2.
const REACH: u64 = (u32::MAX / 2) as u64;

/// The whole value, as it was when the kernel last looked.
pub(super) struct Fence32(Mutex<u64>);

impl Fence32 {
    /// A fence that starts at `initial`, which is in memory already.
    pub(super) fn new(initial: u64) -> Self {
        Self(Mutex::new(initial))
    }

    /// The value, of which the GPU may have written the low half.
    pub(super) fn load(&self, word: &Word) -> u64 {
        let mut last = lock(&self.0);
        let value = nearest(*last, word.load_low());
        if value >> 32 != *last >> 32 {
            word.store_high((value >> 32) as u32);
        }
        *last = value;
        value
    }

    /// The processor writes the value.
    pub(super) fn store(&self, word: &Word, value: u64) {
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

/// Refuses what a GPU with 32-bit values cannot tell from something else.
///
/// # Errors
/// STATUS_INVALID_PARAMETER if a value that is still to come, or a signal, is further from the last value than UINT_MAX / 2.
pub(crate) fn check_waits(conditions: &[(Arc<SyncObject>, u64)]) -> Result<(), Failure> {
    check(conditions, |last, value| value.saturating_sub(last))
}

/// As [`check_waits`], for values that are going to be written.
///
/// # Errors
/// As [`check_waits`].
pub(crate) fn check_signals(signals: &[(Arc<SyncObject>, u64)]) -> Result<(), Failure> {
    check(signals, u64::abs_diff)
}

fn check(pairs: &[(Arc<SyncObject>, u64)], distance: fn(u64, u64) -> u64) -> Result<(), Failure> {
    let far = |(open, value): &&(Arc<SyncObject>, u64)| {
        open.fence().has_32_bits() && distance(open.fence().current(), *value) > REACH
    };
    let Some((open, value)) = pairs.iter().find(far) else { return Ok(()) };
    let why = format!(
        "a value is {value:#x}, more than {REACH:#x} from {:#x}, which its fence has, and the GPU writes 32 bits of it",
        open.fence().current()
    );
    Err(refused(STATUS_INVALID_PARAMETER, why))
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
