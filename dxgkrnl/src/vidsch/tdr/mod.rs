//! Timeout detection and recovery.

mod settings;

pub use settings::{TdrDebugMode, TdrLevel, TdrSettingError, TdrSettings};

use super::VidSch;

impl VidSch {
    /// Finds what has timed out by the machine's clock, and recovers from it. [tdr-changes-in-windows-8]
    pub(crate) fn look_for_timeouts(&self) {}
}
