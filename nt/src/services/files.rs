//! Files, and notifications of other devices, of a machine that has neither: a path leads nowhere, and nobody is notified. So a driver that keeps a log, or looks
//! for a device beside its own, is loaded and goes on as on a machine without them. [wdm: ZwCreateFile, IoRegisterPlugPlayNotification]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::status::{
    NTSTATUS, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER,
    STATUS_OBJECT_PATH_NOT_FOUND, STATUS_OBJECT_PATH_SYNTAX_BAD, STATUS_OBJECT_TYPE_MISMATCH, STATUS_SUCCESS,
};
use wddm_ddi::types::{HANDLE, PDRIVER_OBJECT};

use super::call::require_passive;
use super::memory::{get, put};
use super::registry::root_and_name;
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{self, on_host_stack, stop};
use crate::lock::{Mutex, lock};

pub(super) const EXPORTS: &[Export] = &[
    ("ZwCreateFile", || zw_create_file as *const () as usize),
    ("ZwReadFile", || zw_read_file as *const () as usize),
    ("ZwWriteFile", || zw_read_file as *const () as usize),
    ("ZwSetInformationFile", || zw_set_information_file as *const () as usize),
    ("IoRegisterPlugPlayNotification", || io_register_plug_play_notification as *const () as usize),
    ("IoUnregisterPlugPlayNotification", || io_unregister_plug_play_notification as *const () as usize),
];

/// Opens no file. Errors: STATUS_OBJECT_PATH_NOT_FOUND for every path, for the machine has no volume; STATUS_OBJECT_PATH_SYNTAX_BAD for one that does not begin
/// with `\`; STATUS_OBJECT_TYPE_MISMATCH for one below a handle, which is none of a file; STATUS_INVALID_PARAMETER for attributes of another size. [wdm: ZwCreateFile]
extern "win64" fn zw_create_file(_opened: *mut HANDLE, _access: u32, attributes: *mut c_void) -> NTSTATUS {
    const NAME: &str = "ZwCreateFile";
    require_passive(NAME);
    if attributes.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    match root_and_name(NAME, attributes) {
        Err(status) => status,
        Ok((0, name)) if name.starts_with('\\') => STATUS_OBJECT_PATH_NOT_FOUND,
        Ok((0, _)) => STATUS_OBJECT_PATH_SYNTAX_BAD,
        Ok(_) => STATUS_OBJECT_TYPE_MISMATCH,
    }
}

/// A handle is of a key, or of nothing: of a file there is none.
fn no_file(handle: HANDLE) -> NTSTATUS {
    let is_key =
        driver_call::current().is_some_and(|driver| on_host_stack(|| driver.keys().get(handle.addr()).is_some()));
    if is_key { STATUS_OBJECT_TYPE_MISMATCH } else { STATUS_INVALID_HANDLE }
}

/// ZwReadFile and ZwWriteFile. Errors: STATUS_INVALID_HANDLE; STATUS_OBJECT_TYPE_MISMATCH for a handle of something else. [wdm: ZwReadFile, ZwWriteFile]
extern "win64" fn zw_read_file(handle: HANDLE) -> NTSTATUS {
    require_passive("ZwReadFile or ZwWriteFile");
    no_file(handle)
}

/// Errors: as [`zw_read_file`]. [wdm: ZwSetInformationFile]
extern "win64" fn zw_set_information_file(handle: HANDLE) -> NTSTATUS {
    require_passive("ZwSetInformationFile");
    no_file(handle)
}

/// Registrations by the entries that drivers hold, and whose each is.
static NOTIFICATIONS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Registers a routine that is never called: no device comes or goes but the adapter itself, and there is one hardware profile. Errors: STATUS_INVALID_PARAMETER
/// for a category that does not exist, no routine or no class of interfaces; STATUS_INVALID_DEVICE_REQUEST for changes of one device, of which no driver here can
/// report. [wdm: IoRegisterPlugPlayNotification]
extern "win64" fn io_register_plug_play_notification(
    category: i32,
    _flags: u32,
    data: *mut c_void,
    driver: PDRIVER_OBJECT,
    routine: usize,
    _context: *mut c_void,
    entry: *mut usize,
) -> NTSTATUS {
    const NAME: &str = "IoRegisterPlugPlayNotification";
    const HARDWARE_PROFILE: i32 = 1;
    const DEVICE_INTERFACE: i32 = 2;
    const TARGET_DEVICE: i32 = 3;
    require_passive(NAME);
    match category {
        TARGET_DEVICE => return STATUS_INVALID_DEVICE_REQUEST,
        HARDWARE_PROFILE if routine != 0 => {}
        DEVICE_INTERFACE if routine != 0 && !data.is_null() => {
            let _class: u64 = get(NAME, data.cast());
        }
        _ => return STATUS_INVALID_PARAMETER,
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0xffff_fa80_0000_1000);
    let made = NEXT.fetch_add(16, Ordering::Relaxed);
    on_host_stack(|| lock(&NOTIFICATIONS).insert(made, driver.addr()));
    put(NAME, entry, made);
    STATUS_SUCCESS
}

/// Ends a registration; one that is none, or ended already, stops the machine. [wdm: IoUnregisterPlugPlayNotification]
extern "win64" fn io_unregister_plug_play_notification(entry: usize) -> NTSTATUS {
    const NAME: &str = "IoUnregisterPlugPlayNotification";
    require_passive(NAME);
    if on_host_stack(|| lock(&NOTIFICATIONS).remove(&entry)).is_none() {
        stop(Bugcheck::fatal(format!(
            "{NAME} of {entry:#x}, which is no entry that IoRegisterPlugPlayNotification gave"
        )));
    }
    STATUS_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use wddm_ddi::types::UNICODE_STRING;

    fn run<T>(driver: &std::sync::Arc<Driver>, call: impl FnOnce() -> T) -> Option<T> {
        driver_call::run(driver, "a function", call).0
    }

    /// ZwCreateFile of a path below a handle.
    fn create(root: usize, path: &str, size: u32) -> NTSTATUS {
        let mut units: Vec<u16> = path.encode_utf16().collect();
        let bytes = (units.len() * 2) as u16;
        let name = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: units.as_mut_ptr() };
        let mut attributes = [u64::from(size), root as u64, (&raw const name).expose_provenance() as u64, 0x240, 0, 0];
        let mut handle = std::ptr::without_provenance_mut(7);
        let status = zw_create_file(&raw mut handle, 1, attributes.as_mut_ptr().cast());
        assert_eq!(handle.addr(), 7, "no handle is given");
        status
    }

    #[test]
    fn every_path_of_a_file_leads_nowhere_and_no_handle_is_one_of_a_file() {
        let driver = Driver::for_tests("writer");
        let key = driver.keys().open(crate::registry::RegistryKey::default(), crate::registry::KeyRights::default(), 0);
        let told = run(&driver, || {
            let created = [
                create(0, "\\??\\C:\\log.txt", 48),
                create(0, "log.txt", 48),
                create(0, "", 48),
                create(key, "log.txt", 48),
                create(0, "\\SystemRoot\\log.txt", 40),
            ];
            let handles = [key, 0, 0x1234].map(std::ptr::without_provenance_mut);
            (created, handles.map(|it| zw_read_file(it)), handles.map(|it| zw_set_information_file(it)))
        });
        let used = [STATUS_OBJECT_TYPE_MISMATCH, STATUS_INVALID_HANDLE, STATUS_INVALID_HANDLE];
        let created = [
            STATUS_OBJECT_PATH_NOT_FOUND,
            STATUS_OBJECT_PATH_SYNTAX_BAD,
            STATUS_OBJECT_PATH_SYNTAX_BAD,
            STATUS_OBJECT_TYPE_MISMATCH,
            STATUS_INVALID_PARAMETER,
        ];
        assert_eq!(told, Some((created, used, used)));
        assert!(driver.keys().close(key));
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn notifications_are_registered_once_and_ended_once() {
        let driver = Driver::for_tests("listener");
        let class = [1_u64, 2];
        let register = |category, data: *const [u64; 2], routine| {
            let (mut entry, data) = (0, data.cast_mut().cast());
            let none = std::ptr::null_mut();
            let status =
                io_register_plug_play_notification(category, 0, data, none, routine, none.cast(), &raw mut entry);
            (status, entry)
        };
        let entries = run(&driver, || {
            let (first, second) = (register(2, &raw const class, 0x1000), register(1, std::ptr::null(), 0x1000));
            assert_eq!((first.0, second.0), (STATUS_SUCCESS, STATUS_SUCCESS));
            for (category, data, routine, status) in [
                (0, &raw const class, 0x1000, STATUS_INVALID_PARAMETER),
                (2, std::ptr::null(), 0x1000, STATUS_INVALID_PARAMETER),
                (2, &raw const class, 0, STATUS_INVALID_PARAMETER),
                (3, &raw const class, 0x1000, STATUS_INVALID_DEVICE_REQUEST),
            ] {
                assert_eq!(register(category, data, routine), (status, 0));
            }
            assert_eq!(io_unregister_plug_play_notification(first.1), STATUS_SUCCESS);
            assert_eq!(io_unregister_plug_play_notification(second.1), STATUS_SUCCESS);
            first.1
        });
        let entry = entries.expect("it came back");
        let again = run(&driver, || io_unregister_plug_play_notification(entry));
        assert_eq!(again, None);
        let bugcheck = driver.verifier().bugcheck().expect("an entry that is none");
        assert!(bugcheck.reason.contains("IoUnregisterPlugPlayNotification"), "{bugcheck}");
    }
}
