//! What setup has written for the drivers of a machine.

use nt::lock::lock;

use super::{Machine, PnpError};
use crate::config::{Installation, RegistryValue, USER_MODE_DRIVER_NAME};
use crate::registration::DriverId;

impl Machine {
    /// Sets the registry keys of a driver, for the adapters that are started from now on.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn set_installation(&self, driver: DriverId, installation: Installation) -> Result<(), PnpError> {
        self.change_installation(driver, |installed| *installed = installation)
    }

    /// Sets UserModeDriverName in the driver's software key, which adapters that are not compute-only must have.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn set_user_mode_driver(&self, driver: DriverId, path: &str) -> Result<(), PnpError> {
        let names = RegistryValue::Texts(vec![path.to_owned()]);
        self.change_installation(driver, |installed| {
            installed.software = std::mem::take(&mut installed.software).with(USER_MODE_DRIVER_NAME, names);
        })
    }

    fn change_installation(&self, driver: DriverId, change: impl FnOnce(&mut Installation)) -> Result<(), PnpError> {
        let mut pnp = lock(&self.0.pnp);
        let loaded = pnp.drivers.get_mut(driver.0).and_then(Option::as_mut).ok_or(PnpError::NoSuchDriver)?;
        change(&mut loaded.installation);
        Ok(())
    }
}
