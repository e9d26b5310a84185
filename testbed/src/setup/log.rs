//! The option `--log`: drivers' DbgPrint output and the operating-system side's diagnostics on standard error.

use std::sync::OnceLock;

/// The environment variable that stands in for the option: any value but the empty one and 0 shows the log.
pub const LOG_VARIABLE: &str = "CAMPANILE_LOG";

static CHOICE: OnceLock<()> = OnceLock::new();

/// Has the log printed to standard error as it comes. For `--log`.
pub fn show_log() {
    let _ = CHOICE.set(());
}

/// Has the log printed if the option or the variable asks for it.
pub(super) fn apply() {
    let wanted = || std::env::var_os(LOG_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    if CHOICE.get().is_some() || wanted() {
        dxgkrnl::verifier::show_log();
    }
}
