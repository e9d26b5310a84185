//! The option `--log`: drivers' DbgPrint output and the operating-system side's diagnostics on standard error.

use std::sync::OnceLock;

/// The environment variable that stands in for the option: any value but the empty one and 0 shows the log.
pub const LOG_VARIABLE: &str = "CAMPANILE_LOG";

static CHOICE: OnceLock<()> = OnceLock::new();

/// Has the log printed to standard error as it comes. For `--log`.
pub fn show_log() {
    let _ = CHOICE.set(());
}

/// True if the option or the variable asks for the log.
pub fn shows_log() -> bool {
    let wanted = || std::env::var_os(LOG_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    CHOICE.get().is_some() || wanted()
}

/// Has the log printed if it is asked for.
pub(super) fn apply() {
    if shows_log() {
        dxgkrnl::verifier::show_log();
    }
}
