//! Which drivers a process runs, for reports.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::special_pool::PoolChoice;
use crate::driver::DriverChoice;
use crate::user;

/// The drivers of this process, for reports: what was measured or tested must be known later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drivers {
    /// Kernel-mode driver: `linked`, or path and PDB of its image.
    pub driver: String,
    /// SHA-256 of the kernel-mode driver's image, in hexadecimal digits; none of the linked driver, which is part of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_sha256: Option<String>,
    /// User-mode driver: `linked`, or path and PDB of the DLL.
    pub user_mode_driver: String,
    /// Special pool of the kernel-mode driver: `off`, or the end of each block that is verified; empty for a driver in another process.
    pub special_pool: String,
}

impl Drivers {
    /// Those of a machine that another process serves at this path, which has its kernel-mode driver; the user-mode driver is the one that is linked into this program.
    pub fn of_machine(path: &Path) -> Self {
        let driver = format!("that of the machine at {}", path.display());
        Self { driver, user_mode_driver: "linked".to_owned(), ..Self::default() }
    }

    /// Those that were selected.
    pub fn selected() -> Self {
        let choice = DriverChoice::selected();
        Self {
            driver: choice.identity(),
            driver_sha256: choice.sha256(),
            user_mode_driver: user::selected_identity(),
            special_pool: PoolChoice::name(),
        }
    }
}

impl fmt::Display for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { driver, user_mode_driver, special_pool, .. } = self;
        write!(f, "driver: {driver}\nuser-mode driver: {user_mode_driver}")?;
        if special_pool.is_empty() { Ok(()) } else { write!(f, "\nspecial pool: {special_pool}") }
    }
}
