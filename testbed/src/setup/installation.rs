//! What setup writes to the registry when the driver package is installed, that of this project or another one.

use dxgkrnl::{DriverId, DriverImage, Installation, Machine, RegistryKey, RegistryValue};

use super::error::SetupError;
use super::foreign;
use super::user_mode_name::user_mode_name;
use crate::driver::DriverChoice;

/// The image of this project's own driver.
const OWN: &str = "campanile_kmd.sys";
/// %Provider% and %Device% of the INF file.
const PROVIDER: &str = "Campanile";
const DEVICE: &str = "Campanile GPU";

/// The keys of the driver as `inf/campanile.inx` and setup write them. Date, name of the INF file, and paths of the driver store are left
/// out: this machine has none.
fn installation() -> Installation {
    let software = RegistryKey::default()
        .with_text("DriverDesc", DEVICE)
        .with_text("ProviderName", PROVIDER)
        .with_text("DriverVersion", concat!(env!("CARGO_PKG_VERSION"), ".0"))
        .with_text("InfSection", "Campanile")
        .with_text("HardwareInformation.AdapterString", DEVICE)
        .with_text("HardwareInformation.ChipType", DEVICE);
    let service = RegistryKey::default()
        .with_text("DisplayName", DEVICE)
        .with("Type", RegistryValue::Number(1))
        .with("Start", RegistryValue::Number(3))
        .with("ErrorControl", RegistryValue::Number(0));
    Installation { software, service }
}

/// Loads a driver that is installed, and whose software key has further values.
///
/// # Errors
/// As [`Machine::load_driver`].
pub(super) fn load(
    machine: &Machine,
    image: DriverImage,
    software: &[(&str, RegistryValue)],
) -> Result<DriverId, SetupError> {
    let driver = machine.load_driver(image).map_err(|e| SetupError::load(&e))?;
    let mut installed = match DriverChoice::selected() {
        DriverChoice::Image(path) if path.file_name() != Some(OWN.as_ref()) => foreign::installation(path),
        DriverChoice::Linked | DriverChoice::Image(_) => installation(),
    };
    for (name, value) in software {
        installed.software = installed.software.with(name, value.clone());
    }
    let keys = machine.set_installation(driver, installed);
    let keys = keys.and_then(|()| user_mode_name().map_or(Ok(()), |name| machine.set_user_mode_driver(driver, name)));
    keys.map_err(|e| SetupError::step("The driver could not be installed", &e))?;
    Ok(driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text behind the first `=` of a line, without quotes.
    fn directive(inf: &str, name: &str) -> String {
        let line = inf.lines().filter_map(|line| line.split_once('=')).find(|(left, _)| left.trim() == name);
        let (_, value) = line.unwrap_or_else(|| panic!("no {name}"));
        value.trim().trim_matches('"').to_owned()
    }

    #[test]
    fn the_keys_are_those_that_the_inf_writes() {
        let inf = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../inf/campanile.inx")).unwrap();
        let installed = installation();
        let text = |text: &str| Some(RegistryValue::Text(text.to_owned()));
        let strings = inf.split("[Strings]").nth(1).expect("strings");
        assert_eq!((directive(strings, "Device"), directive(strings, "Provider")), (DEVICE.into(), PROVIDER.into()));
        let lines = || inf.lines().filter_map(|line| line.strip_prefix("HKR,, "));
        assert_eq!(lines().count(), 2);
        for line in lines() {
            let (name, value) = line.split_once(", 0x00000000, ").unwrap_or_else(|| panic!("{line}: no REG_SZ"));
            assert_eq!(value, "%Device%", "{line}");
            assert_eq!(installed.software.get(name), text(DEVICE), "{line}");
        }
        for (directive_name, name) in
            [("ServiceType", "Type"), ("StartType", "Start"), ("ErrorControl", "ErrorControl")]
        {
            let number = directive(&inf, directive_name).parse().map(RegistryValue::Number).ok();
            assert_eq!(installed.service.get(name), number, "{name}");
        }
        assert_eq!(directive(&inf, "DisplayName"), "%Device%");
    }
}
