//! Keys of the registry: their values, and the handles by which drivers have them open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::nt::REG_DWORD;

use crate::lock::{Mutex, lock};

/// The keys that a driver has open, by handle.
#[derive(Default)]
pub struct OpenKeys(Mutex<BTreeMap<usize, Arc<RegistryKey>>>);

impl OpenKeys {
    /// A handle to a key, to be closed by whoever asked for it. No two drivers get the same.
    pub fn open(&self, key: Arc<RegistryKey>) -> usize {
        // Kernel handles have the uppermost bits set, and the lowest two belong to the caller.
        static NEXT: AtomicUsize = AtomicUsize::new(0xffff_ffff_8000_1000);
        let handle = NEXT.fetch_add(4, Ordering::Relaxed);
        lock(&self.0).insert(handle, key);
        handle
    }

    /// The key of a handle that is open.
    pub fn get(&self, handle: usize) -> Option<Arc<RegistryKey>> {
        lock(&self.0).get(&handle).cloned()
    }

    /// True if the handle was open, which it is no more.
    pub fn close(&self, handle: usize) -> bool {
        lock(&self.0).remove(&handle).is_some()
    }

    /// The number of open handles.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

/// A value of a registry key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryValue {
    /// REG_SZ.
    Text(String),
    /// REG_MULTI_SZ.
    Texts(Vec<String>),
    /// REG_DWORD.
    Number(u32),
    /// Any type with any bytes: the registry does not check that they agree.
    Other { kind: u32, bytes: Vec<u8> },
}

impl RegistryValue {
    /// The number of the type. [winnt: REG_SZ, REG_DWORD, REG_MULTI_SZ]
    pub fn kind(&self) -> u32 {
        match self {
            Self::Text(_) => 1,
            Self::Number(_) => REG_DWORD,
            Self::Texts(_) => 7,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// The bytes of the value: texts in UTF-16, each with a NUL, and one more behind a list.
    pub fn bytes(&self) -> Vec<u8> {
        let units = |text: &String| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        match self {
            Self::Text(text) => units(text),
            Self::Texts(texts) => texts.iter().flat_map(units).chain([0, 0]).collect(),
            Self::Number(number) => number.to_le_bytes().to_vec(),
            Self::Other { bytes, .. } => bytes.clone(),
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
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            RegistryValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_open_until_its_handle_is_closed() {
        let key = Arc::new(RegistryKey::default().with_text("Name", "text"));
        let keys = OpenKeys::default();
        let handle = keys.open(Arc::clone(&key));
        assert_eq!((keys.get(handle), keys.count()), (Some(key), 1));
        assert!(keys.close(handle));
        assert_eq!((keys.get(handle), keys.count()), (None, 0));
        assert!(!keys.close(handle), "a handle is closed once");
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
