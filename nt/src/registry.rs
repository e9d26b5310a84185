//! Keys of the registry: their values, the keys below them, and the handles by which drivers have them open.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use wddm_ddi::nt::REG_DWORD;
use wddm_ddi::status::{
    NTSTATUS, STATUS_CANNOT_DELETE, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_KEY_DELETED,
    STATUS_NO_MORE_ENTRIES, STATUS_OBJECT_NAME_INVALID, STATUS_OBJECT_NAME_NOT_FOUND,
};

use crate::lock::{Mutex, lock};

/// The rights of a handle that let a key be changed. [wdm: ZwCreateKey, DesiredAccess]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRights {
    /// KEY_SET_VALUE: to set and delete values.
    pub set_value: bool,
    /// DELETE: to delete the key.
    pub delete: bool,
}

impl KeyRights {
    /// Those of an ACCESS_MASK. [winnt: ACCESS_MASK]
    pub fn of(access: u32) -> Self {
        const GENERIC_ALL: u32 = 0x1000_0000;
        const GENERIC_WRITE: u32 = 0x4000_0000;
        const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
        const KEY_SET_VALUE: u32 = 0x2;
        const DELETE: u32 = 0x1_0000;
        let has = |rights: u32| access & rights != 0;
        Self {
            set_value: has(KEY_SET_VALUE | GENERIC_WRITE | GENERIC_ALL | MAXIMUM_ALLOWED),
            delete: has(DELETE | GENERIC_ALL | MAXIMUM_ALLOWED),
        }
    }
}

/// The keys that a driver has open, by handle.
#[derive(Default)]
pub struct OpenKeys(Mutex<BTreeMap<usize, (RegistryKey, KeyRights, usize)>>);

impl OpenKeys {
    /// A handle to a key, to be closed by whoever asked for it at the instruction `from`. No two drivers get the same.
    pub fn open(&self, key: RegistryKey, rights: KeyRights, from: usize) -> usize {
        // Kernel handles have the uppermost bits set, and the lowest two belong to the caller.
        static NEXT: AtomicUsize = AtomicUsize::new(0xffff_ffff_8000_1000);
        let handle = NEXT.fetch_add(4, Ordering::Relaxed);
        lock(&self.0).insert(handle, (key, rights, from));
        handle
    }

    /// The key of a handle that is open, and the rights of the handle.
    pub fn get(&self, handle: usize) -> Option<(RegistryKey, KeyRights)> {
        lock(&self.0).get(&handle).map(|(key, rights, _)| (key.clone(), *rights))
    }

    /// True if the handle was open, which it is no more.
    pub fn close(&self, handle: usize) -> bool {
        lock(&self.0).remove(&handle).is_some()
    }

    /// The key that was opened first of those that are open, and the instruction that asked for it.
    pub fn first(&self) -> Option<(RegistryKey, usize)> {
        lock(&self.0).first_key_value().map(|(_, (key, _, from))| (key.clone(), *from))
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
    /// Bytes of the largest value.
    pub const LARGEST: u32 = VALUE_MAX as u32;

    /// A value of a type with these bytes. Numbers and texts that are what their type says are told as such.
    pub fn of_bytes(kind: u32, bytes: Vec<u8>) -> Self {
        let text = |bytes: &[u8]| {
            let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
            String::from_utf16(&units).ok()
        };
        let value = match kind {
            1 => text(&bytes).and_then(|text| text.strip_suffix('\0').map(str::to_owned)).map(Self::Text),
            REG_DWORD => bytes.as_slice().try_into().ok().map(|bytes| Self::Number(u32::from_le_bytes(bytes))),
            7 => text(&bytes).and_then(|text| {
                let texts = text.strip_suffix("\0\0")?.split('\0').map(str::to_owned).collect();
                Some(Self::Texts(texts))
            }),
            _ => None,
        };
        value.filter(|value| value.bytes() == bytes).unwrap_or(Self::Other { kind, bytes })
    }

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

/// Most values, and most keys, that one key has.
const MOST: usize = 1 << 16;
/// Keys from the root to the deepest one. [sysinfo: registry-element-size-limits]
const DEPTH: u32 = 512;
/// Units of the longest name of a key, and of a value. [sysinfo: registry-element-size-limits]
const KEY_NAME_MAX: usize = 255;
const VALUE_NAME_MAX: usize = 16_383;
/// Bytes of the largest value. [sysinfo: registry-element-size-limits]
const VALUE_MAX: usize = 1 << 20;
/// The key that the link CurrentControlSet leads to.
const CONTROL_SET: &str = "ControlSet001";

/// A key of the registry: values, and keys below it. Their names are found in capital and small letters alike. Copies are the same key.
#[derive(Clone, Default)]
pub struct RegistryKey(Arc<Mutex<Node>>);

/// What a key has, by names in small letters; each with the name as it was written.
#[derive(Default)]
struct Node {
    name: String,
    values: BTreeMap<String, (String, RegistryValue)>,
    keys: BTreeMap<String, RegistryKey>,
    parent: Weak<Mutex<Node>>,
    depth: u32,
    deleted: bool,
}

impl Node {
    /// # Errors
    /// STATUS_KEY_DELETED
    fn check(&self) -> Result<(), NTSTATUS> {
        if self.deleted { Err(STATUS_KEY_DELETED) } else { Ok(()) }
    }
}

/// Numbers and largest sizes of what a key has, in bytes of UTF-16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub keys: u32,
    pub key_name: u32,
    pub values: u32,
    pub value_name: u32,
    pub value_data: u32,
}

fn utf16_bytes(text: &str) -> u32 {
    u32::try_from(text.encode_utf16().count() * 2).unwrap_or(u32::MAX)
}

impl RegistryKey {
    /// The key with one more value; one of the same name is replaced.
    #[must_use]
    pub fn with(self, name: &str, value: RegistryValue) -> Self {
        lock(&self.0).values.insert(name.to_lowercase(), (name.to_owned(), value));
        self
    }

    /// The key with one more text.
    #[must_use]
    pub fn with_text(self, name: &str, text: &str) -> Self {
        self.with(name, RegistryValue::Text(text.to_owned()))
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<RegistryValue> {
        lock(&self.0).values.get(&name.to_lowercase()).map(|(_, value)| value.clone())
    }

    /// The text of a name.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.get(name)? {
            RegistryValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Name of the key below the one that it was made in.
    pub fn name(&self) -> String {
        lock(&self.0).name.clone()
    }

    /// The key that this one is below.
    pub fn parent(&self) -> Option<Self> {
        lock(&self.0).parent.upgrade().map(Self)
    }

    /// Names from the root to this key, each behind a backslash.
    pub fn path(&self) -> String {
        let mut names = Vec::new();
        let mut key = Some(self.clone());
        while let Some(at) = key {
            let node = lock(&at.0);
            let parent = node.parent.upgrade().map(Self);
            if parent.is_some() {
                names.push(format!("\\{}", node.name));
            }
            key = parent;
        }
        names.reverse();
        names.concat()
    }

    /// A value with its name as it was written.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED; STATUS_OBJECT_NAME_NOT_FOUND
    pub fn value(&self, name: &str) -> Result<(String, RegistryValue), NTSTATUS> {
        let node = lock(&self.0);
        node.check()?;
        node.values.get(&name.to_lowercase()).cloned().ok_or(STATUS_OBJECT_NAME_NOT_FOUND)
    }

    /// The value at a place in the order of their names.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED; STATUS_NO_MORE_ENTRIES
    pub fn value_at(&self, place: u32) -> Result<(String, RegistryValue), NTSTATUS> {
        let node = lock(&self.0);
        node.check()?;
        node.values.values().nth(place as usize).cloned().ok_or(STATUS_NO_MORE_ENTRIES)
    }

    /// The key at a place in the order of their names.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED; STATUS_NO_MORE_ENTRIES
    pub fn key_at(&self, place: u32) -> Result<Self, NTSTATUS> {
        let node = lock(&self.0);
        node.check()?;
        node.keys.values().nth(place as usize).cloned().ok_or(STATUS_NO_MORE_ENTRIES)
    }

    /// Numbers and sizes of what the key has.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED
    pub fn sizes(&self) -> Result<Sizes, NTSTATUS> {
        let node = lock(&self.0);
        node.check()?;
        let largest = |sizes: &mut dyn Iterator<Item = u32>| sizes.max().unwrap_or(0);
        let keys: Vec<Self> = node.keys.values().cloned().collect();
        let mut sizes = Sizes {
            keys: keys.len() as u32,
            values: node.values.len() as u32,
            value_name: largest(&mut node.values.values().map(|(name, _)| utf16_bytes(name))),
            value_data: largest(&mut node.values.values().map(|(_, value)| value.bytes().len() as u32)),
            ..Sizes::default()
        };
        drop(node);
        sizes.key_name = largest(&mut keys.iter().map(|key| utf16_bytes(&key.name())));
        Ok(sizes)
    }

    /// Sets a value.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED; STATUS_INVALID_PARAMETER for a name that is too long; STATUS_INSUFFICIENT_RESOURCES for one value too many or one that is too large.
    pub fn set(&self, name: &str, value: RegistryValue) -> Result<(), NTSTATUS> {
        if name.encode_utf16().count() > VALUE_NAME_MAX {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let mut node = lock(&self.0);
        node.check()?;
        let lower = name.to_lowercase();
        if value.bytes().len() > VALUE_MAX || node.values.len() >= MOST && !node.values.contains_key(&lower) {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        // A value that is set again keeps the name that it was made with.
        let (_, old) = node.values.entry(lower).or_insert_with(|| (name.to_owned(), RegistryValue::Number(0)));
        *old = value;
        Ok(())
    }

    /// Deletes a value.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED; STATUS_OBJECT_NAME_NOT_FOUND
    pub fn delete_value(&self, name: &str) -> Result<(), NTSTATUS> {
        let mut node = lock(&self.0);
        node.check()?;
        node.values.remove(&name.to_lowercase()).map(drop).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)
    }

    /// The key that a path leads to from this one; names are divided by backslashes, and CurrentControlSet is a link.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED; STATUS_OBJECT_NAME_NOT_FOUND; STATUS_OBJECT_NAME_INVALID for a name that is empty or too long.
    pub fn open(&self, path: &str) -> Result<Self, NTSTATUS> {
        let mut key = self.clone();
        for name in names(path) {
            key = key.below(name?)?.ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        }
        Ok(key)
    }

    /// As [`Self::open`]; the last key of the path is made if there is none: true then.
    ///
    /// # Errors
    /// Those of [`Self::open`] for the keys before it; STATUS_INSUFFICIENT_RESOURCES for one too many, or too deep.
    pub fn create(&self, path: &str) -> Result<(Self, bool), NTSTATUS> {
        let (before, last) = path.rsplit_once('\\').unwrap_or(("", path));
        let parent = self.open(before)?;
        match names(last).next() {
            None => Ok((parent, false)),
            Some(name) => parent.create_below(name?),
        }
    }

    fn below(&self, name: &str) -> Result<Option<Self>, NTSTATUS> {
        let node = lock(&self.0);
        node.check()?;
        Ok(node.keys.get(&name.to_lowercase()).cloned())
    }

    fn create_below(&self, name: &str) -> Result<(Self, bool), NTSTATUS> {
        let mut node = lock(&self.0);
        node.check()?;
        if let Some(key) = node.keys.get(&name.to_lowercase()) {
            return Ok((key.clone(), false));
        }
        if node.keys.len() >= MOST || node.depth >= DEPTH {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let (depth, parent) = (node.depth + 1, Arc::downgrade(&self.0));
        let new = Node { name: name.to_owned(), parent, depth, ..Node::default() };
        let key = Self(Arc::new(Mutex::new(new)));
        node.keys.insert(name.to_lowercase(), key.clone());
        Ok((key, true))
    }

    /// Puts a key in a place of its own below this one, with the keys on the way there; what was in that place is no more found.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn link(&self, path: &str, key: &Self) -> Result<(), NTSTATUS> {
        let mut parent = self.clone();
        let mut names = names(path).peekable();
        while let Some(name) = names.next() {
            let name = name?;
            if names.peek().is_some() {
                parent = parent.create_below(name)?.0;
                continue;
            }
            let mut node = lock(&parent.0);
            node.check()?;
            let depth = node.depth + 1;
            node.keys.insert(name.to_lowercase(), key.clone());
            drop(node);
            let mut linked = lock(&key.0);
            (linked.name, linked.depth, linked.parent) = (name.to_owned(), depth, Arc::downgrade(&parent.0));
        }
        Ok(())
    }

    /// Deletes a key that has no keys below it. Whoever has it open finds nothing in it any more.
    ///
    /// # Errors
    /// STATUS_KEY_DELETED; STATUS_CANNOT_DELETE for one with keys below it, or without one above it.
    pub fn delete(&self) -> Result<(), NTSTATUS> {
        let mut node = lock(&self.0);
        node.check()?;
        let parent = node.parent.upgrade().filter(|_| node.keys.is_empty()).ok_or(STATUS_CANNOT_DELETE)?;
        node.deleted = true;
        node.values.clear();
        let name = node.name.to_lowercase();
        drop(node);
        let mut parent = lock(&parent);
        let removed = parent.keys.get(&name).is_some_and(|key| Arc::ptr_eq(&key.0, &self.0));
        let removed = removed.then(|| parent.keys.remove(&name));
        drop(parent);
        drop(removed);
        Ok(())
    }
}

/// The names of a path; none in an empty one.
fn names(path: &str) -> impl Iterator<Item = Result<&str, NTSTATUS>> {
    let names = (!path.is_empty()).then(|| path.split('\\')).into_iter().flatten();
    names.map(|name| match name {
        name if name.is_empty() || name.encode_utf16().count() > KEY_NAME_MAX => Err(STATUS_OBJECT_NAME_INVALID),
        name if name.eq_ignore_ascii_case("CurrentControlSet") => Ok(CONTROL_SET),
        name => Ok(name),
    })
}

impl PartialEq for RegistryKey {
    /// True for keys with the same values.
    fn eq(&self, other: &Self) -> bool {
        let values = lock(&self.0).values.clone();
        values == lock(&other.0).values
    }
}

impl Eq for RegistryKey {}

impl fmt::Debug for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = lock(&self.0).values.clone();
        f.debug_map().entries(values.values().map(|(name, value)| (name, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_the_access_mask() {
        let rights = |set_value, delete| KeyRights { set_value, delete };
        // KEY_READ, KEY_SET_VALUE, KEY_WRITE, DELETE, KEY_ALL_ACCESS, GENERIC_READ, GENERIC_WRITE, GENERIC_ALL, MAXIMUM_ALLOWED.
        let masks = [0x2_0019, 2, 0x2_0006, 0x1_0000, 0xf_003f, 0x8000_0000, 0x4000_0000, 0x1000_0000, 0x0200_0000];
        let set = [false, true, true, false, true, false, true, true, true];
        let delete = [false, false, false, true, true, false, false, true, true];
        for ((mask, set), delete) in masks.into_iter().zip(set).zip(delete) {
            assert_eq!(KeyRights::of(mask), rights(set, delete), "{mask:#x}");
        }
    }

    #[test]
    fn a_key_is_open_until_its_handle_is_closed() {
        let key = RegistryKey::default().with_text("Name", "text");
        let keys = OpenKeys::default();
        let handle = keys.open(key.clone(), KeyRights::default(), 0x40);
        assert_eq!((keys.get(handle), keys.count()), (Some((key, KeyRights::default())), 1));
        assert_eq!(keys.first().map(|(_, from)| from), Some(0x40));
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

    #[test]
    fn a_tree_is_walked_by_names_in_any_case_and_through_the_link() {
        let root = RegistryKey::default();
        let service = RegistryKey::default().with_text("DisplayName", "a driver");
        root.link("Machine\\System\\ControlSet001\\Services\\One", &service).unwrap();
        let found = root.open("MACHINE\\system\\CurrentControlSet\\services\\one").unwrap();
        assert_eq!((found.text("displayname"), found.name()), (Some("a driver".into()), "One".into()));
        found.set("Start", RegistryValue::Number(3)).unwrap();
        assert_eq!(service.get("START"), Some(RegistryValue::Number(3)), "they are one key");
        assert_eq!(root.open("Machine\\None").unwrap_err(), STATUS_OBJECT_NAME_NOT_FOUND);
        assert_eq!(root.open("Machine\\\\System").unwrap_err(), STATUS_OBJECT_NAME_INVALID);
        assert_eq!(root.open(&"x".repeat(256)).unwrap_err(), STATUS_OBJECT_NAME_INVALID);
        let sizes = root.open("Machine\\System\\ControlSet001").unwrap().sizes().unwrap();
        assert_eq!(sizes, Sizes { keys: 1, key_name: 16, ..Sizes::default() });
        let largest = Sizes { values: 2, value_name: 22, value_data: 18, ..Sizes::default() };
        assert_eq!(service.sizes(), Ok(largest));
    }

    #[test]
    fn the_last_key_of_a_path_is_made_and_no_other() {
        let root = RegistryKey::default();
        let (key, made) = root.create("Software").unwrap();
        assert!(made && !root.create("SOFTWARE").unwrap().1);
        assert_eq!(root.create("None\\Below").unwrap_err(), STATUS_OBJECT_NAME_NOT_FOUND);
        let (below, _) = key.create("B").unwrap();
        key.create("a").unwrap();
        assert_eq!([0, 1].map(|place| key.key_at(place).unwrap().name()), ["a", "B"]);
        assert_eq!(key.key_at(2).unwrap_err(), STATUS_NO_MORE_ENTRIES);
        let mut deepest = below;
        for depth in 3..=DEPTH {
            deepest = deepest.create("k").unwrap_or_else(|status| panic!("{depth}: {status}")).0;
        }
        assert_eq!(deepest.create("k").unwrap_err(), STATUS_INSUFFICIENT_RESOURCES);
    }

    #[test]
    fn what_is_deleted_is_found_no_more_by_whoever_has_it_open() {
        let root = RegistryKey::default();
        let (parent, _) = root.create("Parent").unwrap();
        let (key, _) = parent.create("Key").unwrap();
        key.set("Value", RegistryValue::Number(1)).unwrap();
        assert_eq!(key.delete_value("other"), Err(STATUS_OBJECT_NAME_NOT_FOUND));
        assert_eq!(key.delete_value("VALUE"), Ok(()));
        assert_eq!((parent.delete(), root.delete()), (Err(STATUS_CANNOT_DELETE), Err(STATUS_CANNOT_DELETE)));
        assert_eq!(key.delete(), Ok(()));
        let gone = (key.set("a", RegistryValue::Number(0)), key.delete(), key.create("b").unwrap_err());
        assert_eq!(gone, (Err(STATUS_KEY_DELETED), Err(STATUS_KEY_DELETED), STATUS_KEY_DELETED));
        assert_eq!(parent.open("Key").unwrap_err(), STATUS_OBJECT_NAME_NOT_FOUND);
        assert!(parent.create("Key").unwrap().1, "a key of the same name is another one");
        assert_eq!(key.delete(), Err(STATUS_KEY_DELETED));
        assert!(parent.open("Key").is_ok());
    }

    #[test]
    fn sizes_are_bounded() {
        let key = RegistryKey::default();
        let bytes = |count| RegistryValue::Other { kind: 3, bytes: vec![0; count] };
        assert_eq!(key.set("a", bytes(VALUE_MAX)), Ok(()));
        assert_eq!(key.set("a", bytes(VALUE_MAX + 1)), Err(STATUS_INSUFFICIENT_RESOURCES));
        assert_eq!(key.set(&"n".repeat(VALUE_NAME_MAX + 1), bytes(1)), Err(STATUS_INVALID_PARAMETER));
        for number in 1..MOST {
            key.set(&number.to_string(), bytes(0)).unwrap();
        }
        assert_eq!(key.set("one more", bytes(0)), Err(STATUS_INSUFFICIENT_RESOURCES));
        assert_eq!(key.set("A", bytes(1)), Ok(()), "a value that there is can be set");
    }
}
