//! What setup has written to the registry for a driver.

use std::collections::BTreeMap;

/// A value of a registry key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryValue {
    /// REG_SZ.
    Text(String),
    /// REG_MULTI_SZ.
    Texts(Vec<String>),
    /// REG_DWORD.
    Number(u32),
}

impl RegistryValue {
    /// The number of the type. [winnt: REG_SZ, REG_DWORD, REG_MULTI_SZ]
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Self::Text(_) => 1,
            Self::Number(_) => 4,
            Self::Texts(_) => 7,
        }
    }

    /// The bytes of the value: texts in UTF-16, each with a NUL, and one more behind a list.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let units = |text: &String| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        match self {
            Self::Text(text) => units(text),
            Self::Texts(texts) => texts.iter().flat_map(units).chain([0, 0]).collect(),
            Self::Number(number) => number.to_le_bytes().to_vec(),
        }
    }
}

/// The values of a registry key. Their names are found in capital and small letters alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryKey(BTreeMap<String, RegistryValue>);

impl RegistryKey {
    /// The key with one more value; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &str, value: RegistryValue) -> Self {
        self.0.insert(name.to_lowercase(), value);
        self
    }

    /// The key with one more text.
    #[must_use]
    pub fn with_text(self, name: &str, text: &str) -> Self {
        self.with(name, RegistryValue::Text(text.to_owned()))
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&RegistryValue> {
        self.0.get(&name.to_lowercase())
    }

    /// The text of a name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            RegistryValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The keys of an installed driver. A driver that nobody has installed has empty ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// The software key of its devices: DriverDesc, DriverVersion, and what the AddReg directives of its INF file write.
    pub software: RegistryKey,
    /// The key of its service.
    pub service: RegistryKey,
}

/// The value that names the user-mode drivers.
pub(crate) const USER_MODE_DRIVER_NAME: &str = "UserModeDriverName";

impl Installation {
    /// Four numbers of 16 bits, the first uppermost, of DriverVersion.
    pub(crate) fn driver_version(&self) -> Option<u64> {
        let mut numbers = self.software.text("DriverVersion")?.split('.').map(str::parse::<u16>);
        let mut version = 0;
        for _ in 0..4 {
            version = version << 16 | u64::from(numbers.next()?.ok()?);
        }
        numbers.next().is_none().then_some(version)
    }

    /// The user-mode driver with this place in the list.
    pub(crate) fn user_mode_driver(&self, place: usize) -> Option<&str> {
        match self.software.get(USER_MODE_DRIVER_NAME)? {
            RegistryValue::Texts(names) => names.get(place).map(String::as_str),
            RegistryValue::Text(name) => (place == 0).then_some(name),
            RegistryValue::Number(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Option<u64> {
        let software = RegistryKey::default().with_text("DRIVERVERSION", text);
        Installation { software, ..Installation::default() }.driver_version()
    }

    #[test]
    fn versions_have_four_numbers_of_sixteen_bits() {
        assert_eq!(version("1.2.3.65535"), Some(0x0001_0002_0003_ffff));
        assert_eq!(
            ["", "1.2.3", "1.2.3.4.5", "1.2.3.65536", "1.2.3.x", "1..2.3"].map(version),
            [const { None }; 6],
            "no version"
        );
    }

    #[test]
    fn values_have_the_bytes_of_their_types() {
        let texts = RegistryValue::Texts(vec!["a".into(), "b".into()]);
        assert_eq!((texts.kind(), texts.bytes()), (7, vec![b'a', 0, 0, 0, b'b', 0, 0, 0, 0, 0]));
        let text = RegistryValue::Text("é".into());
        assert_eq!((text.kind(), text.bytes()), (1, vec![0xe9, 0, 0, 0]));
        let number = RegistryValue::Number(0x0102_0304);
        assert_eq!((number.kind(), number.bytes()), (4, vec![4, 3, 2, 1]));
    }
}
