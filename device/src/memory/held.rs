//! The system memory that is mapped for a function, for tests.

use std::sync::PoisonError;

use super::Memory;

impl Memory {
    /// True if system memory may be accessed, and the ranges of it: first address and length of each, adjacent ones as one.
    pub(crate) fn held(&self) -> (bool, Vec<(u64, u64)>) {
        let system = self.system.read().unwrap_or_else(PoisonError::into_inner);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for range in &system.ranges {
            let len = range.end - range.start;
            match ranges.last_mut() {
                Some((start, before)) if *start + *before == range.start => *before += len,
                _ => ranges.push((range.start, len)),
            }
        }
        (system.enabled, ranges)
    }
}
