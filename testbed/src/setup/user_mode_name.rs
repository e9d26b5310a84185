//! The option `--user-mode-driver-name`: what the software key of the kernel-mode driver of this process says of its user-mode driver.

use std::sync::OnceLock;

/// Environment variable that has the name when the command line does not.
pub const USER_MODE_NAME_VARIABLE: &str = "CAMPANILE_USER_MODE_DRIVER_NAME";

static CHOICE: OnceLock<Option<String>> = OnceLock::new();

/// Makes this the UserModeDriverName of the driver of every machine that this process boots; the first choice counts.
pub fn select_user_mode_name(name: String) {
    let _ = CHOICE.set(Some(name));
}

/// The selected name, or what the environment says, if any. Only an adapter that is compute-only starts without one.
pub(super) fn user_mode_name() -> Option<&'static str> {
    let named = CHOICE.get_or_init(|| std::env::var(USER_MODE_NAME_VARIABLE).ok().filter(|name| !name.is_empty()));
    named.as_deref()
}
