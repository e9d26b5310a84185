//! Whether what drivers and the system log is shown.

use std::sync::OnceLock;

/// The variable that counts without the option: anything but nothing and 0 shows the log.
pub const LOG_VARIABLE: &str = "CAMPANILE_LOG";

static CHOICE: OnceLock<()> = OnceLock::new();

/// Prints what drivers say and what the system remarks to standard error, as it comes. For `--log`.
pub fn show_log() {
    let _ = CHOICE.set(());
}

/// Has the log printed, if option or variable say so.
pub(super) fn apply() {
    let wanted = || std::env::var_os(LOG_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    if CHOICE.get().is_some() || wanted() {
        dxgkrnl::verifier::show_log();
    }
}
