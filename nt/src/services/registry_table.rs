// UNSAFETY: kernel services with raw arguments.
//! RtlQueryRegistryValues: the values that a table of the driver names, handed to functions of the driver or written where it says. [wdm:
//! RtlQueryRegistryValues, RTL_QUERY_REGISTRY_TABLE]

use std::ffi::c_void;

use wddm_ddi::nt::REG_DWORD;
use wddm_ddi::status::{
    NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_PATH_SYNTAX_BAD, STATUS_OBJECT_TYPE_MISMATCH, STATUS_SUCCESS,
};
use wddm_ddi::types::UNICODE_STRING;

use super::call::{good, passive_caller};
use super::memory::{bytes, field, get, put, units};
use super::registry::key_of;
use super::strings::TAG;
use crate::driver::{Driver, Export};
use crate::driver_call::{on_host_stack, stop};
use crate::fault::guarded;
use crate::registry::{RegistryKey, RegistryValue};

pub(super) const EXPORTS: &[Export] = &[
    ("RtlQueryRegistryValues", || rtl_query_registry_values as *const () as usize),
    ("RtlQueryRegistryValuesEx", || rtl_query_registry_values as *const () as usize),
];

/// Flags of an entry. [wdm: RTL_QUERY_REGISTRY_TABLE]
const SUBKEY: u32 = 0x1;
const TOPKEY: u32 = 0x2;
const REQUIRED: u32 = 0x4;
const NOVALUE: u32 = 0x8;
const NOEXPAND: u32 = 0x10;
const DIRECT: u32 = 0x20;
const DELETE: u32 = 0x40;
const NOSTRING: u32 = 0x80;
const TYPECHECK: u32 = 0x100;

/// Types of values. [winnt]
const REG_NONE: u32 = 0;
const REG_SZ: u32 = 1;
const REG_EXPAND_SZ: u32 = 2;
const REG_MULTI_SZ: u32 = 7;

const POOL_FLAG_PAGED: u64 = 0x100;
/// Longest path or name that is read.
const NAME_MAX: usize = 32_767;
/// Most entries of a table.
const ENTRIES_MAX: usize = 4096;

type Routine = extern "win64" fn(*const u16, u32, *const u8, u32, *mut c_void, *mut c_void) -> NTSTATUS;

/// An entry of the table.
struct Entry {
    routine: usize,
    flags: u32,
    name: *const u16,
    context: *mut c_void,
    default_type: u32,
    default_data: *const u8,
    default_length: u32,
}

/// One call of the function.
struct Query<'a> {
    service: &'static str,
    driver: &'a Driver,
    top: RegistryKey,
    /// The key that entries are about, which SUBKEY and TOPKEY change.
    key: RegistryKey,
    context: *mut c_void,
}

fn entry(service: &'static str, at: *mut c_void) -> Entry {
    let address = |offset| get::<usize>(service, field(at, offset));
    Entry {
        routine: address(0),
        flags: get(service, field(at, 8)),
        name: std::ptr::with_exposed_provenance(address(16)),
        context: std::ptr::with_exposed_provenance_mut(address(24)),
        default_type: get(service, field(at, 32)),
        default_data: std::ptr::with_exposed_provenance(address(40)),
        default_length: get(service, field(at, 48)),
    }
}

fn text(service: &'static str, name: *const u16) -> String {
    String::from_utf16_lossy(&units(service, name, NAME_MAX))
}

/// The key that RelativeTo and Path name.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a place that is none; STATUS_OBJECT_PATH_SYNTAX_BAD for an absolute path without a backslash; STATUS_OBJECT_NAME_NOT_FOUND.
fn start(service: &'static str, driver: &Driver, relative_to: u32, path: *const u16) -> Result<RegistryKey, NTSTATUS> {
    const HANDLE: u32 = 0x4000_0000;
    const OPTIONAL: u32 = 0x8000_0000;
    if relative_to & HANDLE != 0 {
        return Ok(key_of(service, driver, path.cast_mut().cast()));
    }
    let place = match relative_to & !OPTIONAL {
        0 => "",
        1 => "Registry\\Machine\\System\\CurrentControlSet\\Services",
        2 => "Registry\\Machine\\System\\CurrentControlSet\\Control",
        3 => "Registry\\Machine\\Software\\Microsoft\\Windows NT\\CurrentVersion",
        4 => "Registry\\Machine\\Hardware\\DeviceMap",
        5 => "Registry\\User\\.Default",
        _ => return Err(STATUS_INVALID_PARAMETER),
    };
    let path = if path.is_null() { String::new() } else { text(service, path) };
    if place.is_empty() {
        let path = path.strip_prefix('\\').ok_or(STATUS_OBJECT_PATH_SYNTAX_BAD)?.to_owned();
        return on_host_stack(|| driver.registry().open(&path));
    }
    on_host_stack(|| driver.registry().open(place)?.open(&path))
}

/// Errors: those of [`start`] and of each entry; what a function of the driver answered, if it failed. Entries before the one that failed are done.
extern "win64" fn rtl_query_registry_values(
    relative_to: u32,
    path: *const u16,
    table: *mut c_void,
    context: *mut c_void,
    _environment: *mut c_void,
) -> NTSTATUS {
    const NAME: &str = "RtlQueryRegistryValues";
    const ENTRY_SIZE: usize = 56;
    let driver = passive_caller(NAME);
    let top = match start(NAME, &driver, relative_to, path) {
        Ok(top) => top,
        Err(status) => return status,
    };
    let mut query = Query { service: NAME, driver: &driver, key: top.clone(), top, context };
    for number in 0..ENTRIES_MAX {
        let entry = entry(NAME, table.wrapping_byte_add(number * ENTRY_SIZE));
        if entry.routine == 0 && entry.flags & (SUBKEY | DIRECT) == 0 {
            return STATUS_SUCCESS;
        }
        if let Err(status) = query.one(&entry) {
            return status;
        }
    }
    STATUS_INVALID_PARAMETER
}

impl Query<'_> {
    fn one(&mut self, entry: &Entry) -> Result<(), NTSTATUS> {
        let has = |flag| entry.flags & flag != 0;
        if has(DIRECT) && (entry.name.is_null() || entry.routine != 0 || has(SUBKEY)) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        if has(TOPKEY | SUBKEY) {
            self.key = self.top.clone();
        }
        let name = (!entry.name.is_null()).then(|| text(self.service, entry.name));
        if has(SUBKEY) {
            let path = name.ok_or(STATUS_INVALID_PARAMETER)?;
            match on_host_stack(|| self.top.open(&path)) {
                Ok(key) => self.key = key,
                Err(STATUS_OBJECT_NAME_NOT_FOUND) if !has(REQUIRED) => {
                    // Entries below a key that is not there find nothing.
                    self.key = RegistryKey::default();
                    return if entry.routine == 0 { Ok(()) } else { self.hand_default(entry, &path) };
                }
                Err(status) => return Err(status),
            }
            return if entry.routine == 0 { Ok(()) } else { self.every_value(entry) };
        }
        if has(NOVALUE) {
            return self.call(entry, name.as_deref().unwrap_or(""), REG_NONE, &[]);
        }
        match name {
            None => self.every_value(entry),
            Some(name) => self.named(entry, &name),
        }
    }

    /// Hands over all values of the key.
    fn every_value(&self, entry: &Entry) -> Result<(), NTSTATUS> {
        let (mut place, mut any) = (0, false);
        while let Ok((name, value)) = on_host_stack(|| self.key.value_at(place)) {
            self.hand(entry, &name, value.kind(), &value.bytes())?;
            any = true;
            if entry.flags & DELETE == 0 {
                place += 1;
            } else {
                on_host_stack(|| self.key.delete_value(&name))?;
            }
        }
        if any || entry.flags & REQUIRED == 0 { Ok(()) } else { Err(STATUS_OBJECT_NAME_NOT_FOUND) }
    }

    /// Hands over the value with a name, or the default of the table.
    fn named(&self, entry: &Entry, name: &str) -> Result<(), NTSTATUS> {
        match on_host_stack(|| self.key.value(name)) {
            Ok((stored, value)) => {
                self.hand(entry, &stored, value.kind(), &value.bytes())?;
                if entry.flags & DELETE != 0 {
                    on_host_stack(|| self.key.delete_value(name))?;
                }
                Ok(())
            }
            Err(_) if entry.flags & REQUIRED != 0 => Err(STATUS_OBJECT_NAME_NOT_FOUND),
            Err(_) => self.hand_default(entry, name),
        }
    }

    /// Hands over the default of the table, if the entry has one.
    fn hand_default(&self, entry: &Entry, name: &str) -> Result<(), NTSTATUS> {
        let kind = entry.default_type & !EXPECTED;
        if kind == REG_NONE {
            return Ok(());
        }
        let data = self.default_of(entry, kind);
        self.hand(entry, name, kind, &data)
    }

    /// The default of an entry. The length of a text may be left out.
    fn default_of(&self, entry: &Entry, kind: u32) -> Vec<u8> {
        let length = if entry.default_length == 0 && [REG_SZ, REG_EXPAND_SZ].contains(&kind) {
            2 * (units(self.service, entry.default_data.cast::<u16>(), NAME_MAX).len() + 1)
        } else {
            entry.default_length.min(RegistryValue::LARGEST) as usize
        };
        bytes(self.service, entry.default_data, length)
    }

    /// Hands a value to the function of an entry, a list of texts one by one, or writes it where the entry says.
    fn hand(&self, entry: &Entry, name: &str, kind: u32, data: &[u8]) -> Result<(), NTSTATUS> {
        if entry.flags & TYPECHECK != 0 && entry.default_type >> 24 != kind {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        if entry.flags & DIRECT != 0 {
            return self.write(entry, kind, data);
        }
        if kind != REG_MULTI_SZ || entry.flags & NOEXPAND != 0 {
            return self.call(entry, name, if kind == REG_EXPAND_SZ { REG_SZ } else { kind }, data);
        }
        let units: Vec<u16> = data.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
        for part in units.split_inclusive(|unit| *unit == 0).take_while(|part| *part != [0]) {
            let part: Vec<u8> = part.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            self.call(entry, name, REG_SZ, &part)?;
        }
        Ok(())
    }

    /// Calls the function of an entry. That its own buffer is too small does not end the table. [wdm: RtlQueryRegistryValues]
    fn call(&self, entry: &Entry, name: &str, kind: u32, data: &[u8]) -> Result<(), NTSTATUS> {
        let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
        // SAFETY: the driver gave the address as that of such a function.
        let routine = unsafe { std::mem::transmute::<usize, Routine>(entry.routine) };
        match routine(name.as_ptr(), kind, data.as_ptr(), data.len() as u32, self.context, entry.context) {
            STATUS_BUFFER_TOO_SMALL => Ok(()),
            status => status.ok(),
        }
    }

    /// Writes a value where `EntryContext` says: a text into a counted string, which gets memory if it has none, for RtlFreeUnicodeString; others as they are up to 32 bits, or with their
    /// size. [wdm: RTL_QUERY_REGISTRY_DIRECT]
    fn write(&self, entry: &Entry, kind: u32, data: &[u8]) -> Result<(), NTSTATUS> {
        let to = entry.context;
        if [REG_SZ, REG_EXPAND_SZ, REG_MULTI_SZ].contains(&kind) {
            return if entry.flags & NOSTRING == 0 { self.write_text(to.cast(), data) } else { Ok(()) };
        }
        if data.len() <= 4 {
            let mut word = [0; 4];
            word.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
            // A number of another size than its type says does not reach behind the caller's variable.
            let length = if kind == REG_DWORD { 4 } else { data.len() };
            // SAFETY: the caller has space for a value of up to 32 bits.
            good(self.service, unsafe { guarded::write_bytes(to.cast(), word.get(..length).unwrap_or(&word)) });
            return Ok(());
        }
        // The first word is the size of the buffer, negated; without that sign, of what is behind two words for size and type.
        let size: i32 = get(self.service, to.cast_const().cast());
        let (to, capacity) =
            if size < 0 { (to, size.unsigned_abs()) } else { (to.wrapping_byte_add(8), size.unsigned_abs()) };
        if (capacity as usize) < data.len() {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        if size >= 0 {
            put(self.service, entry.context.cast(), [data.len() as u32, kind]);
        }
        // SAFETY: the caller says that the buffer has so many bytes.
        good(self.service, unsafe { guarded::write_bytes(to.cast(), data) });
        Ok(())
    }

    fn write_text(&self, to: *mut UNICODE_STRING, data: &[u8]) -> Result<(), NTSTATUS> {
        let mut string = get(self.service, to.cast_const());
        let size = u16::try_from(data.len()).map_err(|_| STATUS_BUFFER_TOO_SMALL)?;
        if string.Buffer.is_null() {
            let capacity = usize::from(size).max(2);
            let allocated = on_host_stack(|| self.driver.pool().allocate(POOL_FLAG_PAGED, capacity, TAG));
            let buffer = allocated.unwrap_or_else(|bugcheck| stop(bugcheck));
            if buffer.is_null() {
                return Err(STATUS_NO_MEMORY);
            }
            (string.Buffer, string.MaximumLength) = (buffer.cast(), size);
        } else if string.MaximumLength < size {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        string.Length = size.saturating_sub(2);
        // SAFETY: the caller says that the buffer has `MaximumLength` bytes, or it was just allocated with them.
        good(self.service, unsafe { guarded::write_bytes(string.Buffer.cast(), data) });
        put(self.service, to, string);
        Ok(())
    }
}

/// The byte of `DefaultType` that names the type which TYPECHECK expects.
const EXPECTED: u32 = 0xff00_0000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver_call;
    use std::sync::Arc;

    const KEY: &str = "Registry\\Machine\\System\\ControlSet001\\Services\\reader";

    fn reader() -> Arc<Driver> {
        let driver = Driver::for_tests("reader");
        let texts = RegistryValue::Texts(vec!["one".into(), "two".into()]);
        let key = RegistryKey::default()
            .with("Number", RegistryValue::Number(7))
            .with("Large", RegistryValue::Other { kind: 3, bytes: (1..=8).collect() })
            .with_text("Text", "abc")
            .with("Texts", texts);
        driver.registry().link(KEY, &key).unwrap();
        driver.registry().link(&format!("{KEY}\\Parameters"), &RegistryKey::default().with_text("Deep", "d")).unwrap();
        driver
    }

    fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().chain([0]).collect()
    }

    /// Words of an entry.
    fn words(routine: usize, flags: u32, name: &[u16], context: usize, default: [usize; 3]) -> [usize; 7] {
        let name = if name.is_empty() { 0 } else { name.as_ptr().expose_provenance() };
        [routine, flags as usize, name, context, default[0], default[1], default[2]]
    }

    fn query(driver: &Arc<Driver>, entries: &[[usize; 7]], context: *mut c_void) -> Option<NTSTATUS> {
        let mut table = [entries, &[[0; 7]]].concat();
        let path = wide("reader");
        let call = || {
            let table = table.as_mut_ptr().cast();
            rtl_query_registry_values(1, path.as_ptr(), table, context, std::ptr::null_mut())
        };
        driver_call::run(driver, "a function", call).0
    }

    /// Notes name, type and length of each value that it is handed.
    extern "win64" fn note(
        name: *const u16,
        kind: u32,
        _: *const u8,
        length: u32,
        context: *mut c_void,
        _: *mut c_void,
    ) -> NTSTATUS {
        let name = text("note", name);
        // SAFETY: the tests pass such a list.
        let list = unsafe { &mut *context.cast::<Vec<(String, u32, u32)>>() };
        list.push((name, kind, length));
        STATUS_SUCCESS
    }

    fn noted(driver: &Arc<Driver>, entries: &[[usize; 7]]) -> (Option<NTSTATUS>, Vec<(String, u32, u32)>) {
        let mut list = Vec::with_capacity(16);
        let status = query(driver, entries, (&raw mut list).cast());
        (status, list)
    }

    const NOTE: fn() -> usize = || note as *const () as usize;

    #[test]
    fn values_are_handed_to_the_functions_of_their_entries() {
        let driver = reader();
        let names = ["Number", "Texts", "Parameters", "Deep", "None"].map(wide);
        let [number, texts, parameters, deep, none] = &names;
        let default = wide("xy");
        let (status, list) = noted(
            &driver,
            &[
                words(NOTE(), 0, number, 0, [0; 3]),
                words(NOTE(), 0, texts, 0, [0; 3]),
                words(NOTE(), NOEXPAND, texts, 0, [0; 3]),
                words(0, SUBKEY, parameters, 0, [0; 3]),
                words(NOTE(), 0, deep, 0, [0; 3]),
                words(NOTE(), TOPKEY, none, 0, [REG_SZ as usize, default.as_ptr().expose_provenance(), 0]),
                words(NOTE(), SUBKEY, parameters, 0, [0; 3]),
            ],
        );
        let expected = [("Number", 4, 4), ("Texts", 1, 8), ("Texts", 1, 8), ("Texts", 7, 18), ("Deep", 1, 4)];
        let expected = expected.into_iter().chain([("None", 1, 6), ("Deep", 1, 4)]);
        let expected: Vec<_> = expected.map(|(name, kind, length)| (name.to_owned(), kind, length)).collect();
        assert_eq!((status, list), (Some(STATUS_SUCCESS), expected));
    }

    #[test]
    fn values_are_written_where_the_table_says_and_only_with_room() {
        let driver = reader();
        let names = ["Number", "Text", "Large"].map(wide);
        let [number, text, large] = &names;
        let (mut word, mut long) = (0_u32, [-8_i32, 0]);
        let mut string = UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: std::ptr::null_mut() };
        let checked = [(REG_DWORD as usize) << 24, 0, 0];
        let status = query(
            &driver,
            &[
                words(0, DIRECT | TYPECHECK | REQUIRED, number, (&raw mut word).expose_provenance(), checked),
                words(0, DIRECT, text, (&raw mut string).expose_provenance(), [0; 3]),
                words(0, DIRECT, large, long.as_mut_ptr().expose_provenance(), [0; 3]),
            ],
            std::ptr::null_mut(),
        );
        assert_eq!((status, word, string.Length), (Some(STATUS_SUCCESS), 7, 6));
        assert_eq!(long, [0x0403_0201, 0x0807_0605]);
        let free = || {
            // SAFETY: the buffer of the string is a block of the driver's pool.
            let text = units("test", string.Buffer.cast_const(), 8);
            assert_eq!(String::from_utf16_lossy(&text), "abc");
            driver.pool().free(string.Buffer.cast(), TAG).unwrap();
        };
        driver_call::run(&driver, "a function", free).0.unwrap();
        let mut sized = [4_u32, 0, 0, 0];
        let entry = words(0, DIRECT, large, sized.as_mut_ptr().expose_provenance(), [0; 3]);
        assert_eq!(query(&driver, &[entry], std::ptr::null_mut()), Some(STATUS_BUFFER_TOO_SMALL));
        sized[0] = 8;
        assert_eq!(query(&driver, &[entry], std::ptr::null_mut()), Some(STATUS_SUCCESS));
        assert_eq!(sized, [8, 3, 0x0403_0201, 0x0807_0605]);
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    extern "win64" fn too_small(
        _: *const u16,
        _: u32,
        _: *const u8,
        _: u32,
        _: *mut c_void,
        _: *mut c_void,
    ) -> NTSTATUS {
        STATUS_BUFFER_TOO_SMALL
    }

    /// "If this flag is not specified, then when no match is found for a non-NULL Name, the routine uses the DefaultValue member as the value"; entries behind one of a subkey "are for
    /// that key rather than the key specified by the Path parameter". [wdm: RtlQueryRegistryValues, RTL_QUERY_REGISTRY_REQUIRED, RTL_QUERY_REGISTRY_SUBKEY]
    #[test]
    fn a_subkey_that_is_not_there_has_its_default_and_no_values_until_the_top_key_comes_back() {
        let driver = reader();
        let names = ["None", "Number", "Deep"].map(wide);
        let [none, number, deep] = &names;
        let default = wide("xy");
        let default = [REG_SZ as usize, default.as_ptr().expose_provenance(), 0];
        let (status, list) = noted(
            &driver,
            &[
                words(NOTE(), SUBKEY, none, 0, default),
                words(NOTE(), 0, number, 0, [0; 3]),
                words(NOTE(), 0, deep, 0, default),
                words(NOTE(), TOPKEY, number, 0, [0; 3]),
            ],
        );
        let expected = [("None", 1, 6), ("Deep", 1, 6), ("Number", 4, 4)];
        let expected = expected.map(|(name, kind, length)| (name.to_owned(), kind, length));
        assert_eq!((status, list), (Some(STATUS_SUCCESS), expected.to_vec()));
        let (status, list) =
            noted(&driver, &[words(0, SUBKEY, none, 0, [0; 3]), words(NOTE(), REQUIRED, number, 0, [0; 3])]);
        assert_eq!((status, list), (Some(STATUS_OBJECT_NAME_NOT_FOUND), vec![]), "the value is one of the top key");
    }

    /// "If QueryRoutine returns STATUS_BUFFER_TOO_SMALL, the error code is ignored"; values may be deleted "after they have been queried". [wdm: RtlQueryRegistryValues]
    #[test]
    fn a_routine_that_finds_its_buffer_too_small_does_not_end_the_table_and_deleted_values_were_there() {
        let driver = reader();
        let names = ["Number", "Parameters"].map(wide);
        let [number, parameters] = &names;
        let (status, list) = noted(
            &driver,
            &[
                words(too_small as *const () as usize, 0, number, 0, [0; 3]),
                words(NOTE(), SUBKEY | DELETE | REQUIRED, parameters, 0, [0; 3]),
            ],
        );
        assert_eq!((status, list), (Some(STATUS_SUCCESS), vec![("Deep".to_owned(), 1, 4)]));
        let again = noted(&driver, &[words(NOTE(), SUBKEY | REQUIRED, parameters, 0, [0; 3])]);
        assert_eq!(again, (Some(STATUS_OBJECT_NAME_NOT_FOUND), vec![]), "no value is left");
    }

    #[test]
    fn what_is_required_and_missing_or_of_another_type_is_refused() {
        let driver = reader();
        let names = ["None", "Text", "Number"].map(wide);
        let [none, text, number] = &names;
        let mut word = 0_u32;
        let to = (&raw mut word).expose_provenance();
        let as_number = [(REG_DWORD as usize) << 24, 0, 0];
        let one = |entry| query(&driver, &[entry], std::ptr::null_mut());
        assert_eq!(one(words(0, DIRECT | REQUIRED, none, to, [0; 3])), Some(STATUS_OBJECT_NAME_NOT_FOUND));
        assert_eq!(one(words(0, SUBKEY | REQUIRED, none, 0, [0; 3])), Some(STATUS_OBJECT_NAME_NOT_FOUND));
        assert_eq!(one(words(0, DIRECT | TYPECHECK, text, to, as_number)), Some(STATUS_OBJECT_TYPE_MISMATCH));
        assert_eq!(one(words(NOTE(), DIRECT, number, to, [0; 3])), Some(STATUS_INVALID_PARAMETER));
        assert_eq!((one(words(0, DIRECT, none, to, [0; 3])), word), (Some(STATUS_SUCCESS), 0));
        assert_eq!(one(words(0, DIRECT | DELETE, number, to, [0; 3])), Some(STATUS_SUCCESS));
        assert_eq!(
            (one(words(0, DIRECT | REQUIRED, number, to, [0; 3])), word),
            (Some(STATUS_OBJECT_NAME_NOT_FOUND), 7)
        );
        let path = wide("reader");
        let mut end = [0_usize; 7];
        let wrong = |relative_to| {
            let table = end.as_mut_ptr().cast();
            rtl_query_registry_values(relative_to, path.as_ptr(), table, std::ptr::null_mut(), std::ptr::null_mut())
        };
        let answers = driver_call::run(&driver, "a function", || [0, 2, 6].map(wrong)).0;
        let expected = [STATUS_OBJECT_PATH_SYNTAX_BAD, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_INVALID_PARAMETER];
        assert_eq!(answers, Some(expected));
    }
}
