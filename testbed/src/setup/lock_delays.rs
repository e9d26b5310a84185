//! The option `--lock-delays`: threads of this process wait at locks now and then.

use std::str::FromStr;

use nt::lock::delays;

use super::fault::chance;

/// The chance of a delay at each place where a thread takes a lock or gives one back, parsed from text such as `1%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockDelays {
    millionths: u32,
}

impl FromStr for LockDelays {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        chance(text).map(|millionths| Self { millionths })
    }
}

impl LockDelays {
    /// Delays the threads of this process from now on, by draws from `seed`.
    pub fn begin(self, seed: u64) {
        delays::delay(self.millionths, seed);
    }

    /// Number of delays so far.
    pub fn count() -> u64 {
        delays::count()
    }
}
