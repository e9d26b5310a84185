//! Values are refused that are too far from the last one of a fence of which the GPU writes 32 bits, see [`Fence32`](crate::vidsch::objects::fence32).

use std::sync::Arc;

use wddm_ddi::status::*;

use crate::refusal::{Failure, refused};

use crate::vidsch::objects::fence::SyncObject;

/// Largest distance from the last value of what is waited for or signalled: UINT_MAX / 2.
const REACH: u64 = (u32::MAX / 2) as u64;

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
