//! Small services: exports by name, processors, version, threads, floating point, and trace points of the preprocessor WPP.

use std::ffi::c_void;
use std::fs::File;
use std::io::Read;

use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_HANDLE, STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use wddm_ddi::types::{HANDLE, UNICODE_STRING};

use super::call::{caller, require_passive, text_of, thread_token};
use super::memory::{field, get, put, put_if};
use crate::bugcheck::Bugcheck;
use crate::deferred::ThreadObject;
use crate::driver::Export;
use crate::driver_call::{on_host_stack, stop};

pub(super) const EXPORTS: &[Export] = &[
    ("MmGetSystemRoutineAddress", || mm_get_system_routine_address as *const () as usize),
    ("KeQueryActiveProcessorCount", || ke_query_active_processor_count as *const () as usize),
    ("KeQueryActiveProcessorCountEx", || ke_query_processor_count_ex as *const () as usize),
    ("KeQueryMaximumProcessorCountEx", || ke_query_processor_count_ex as *const () as usize),
    ("RtlGetVersion", || rtl_get_version as *const () as usize),
    ("PsGetCurrentThreadId", || ps_get_current_thread_id as *const () as usize),
    ("PsGetCurrentProcessId", || ps_get_current_process_id as *const () as usize),
    ("PsGetCurrentProcess", || ps_get_current_process as *const () as usize),
    ("IoGetCurrentProcess", || ps_get_current_process as *const () as usize),
    ("PsGetProcessId", || ps_get_process_id as *const () as usize),
    ("PsGetThreadProcessId", || ps_get_thread_process_id as *const () as usize),
    ("ExUuidCreate", || ex_uuid_create as *const () as usize),
    ("KeInvalidateAllCaches", || ke_invalidate_all_caches as *const () as usize),
    ("ExGetPreviousMode", || ex_get_previous_mode as *const () as usize),
    ("KeSaveFloatingPointState", || ke_floating_point_state as *const () as usize),
    ("KeRestoreFloatingPointState", || ke_floating_point_state as *const () as usize),
    ("IoWMIRegistrationControl", || io_wmi_registration_control as *const () as usize),
    ("EtwRegisterClassicProvider", || etw_register_classic_provider as *const () as usize),
    ("WmiQueryTraceInformation", || wmi_query_trace_information as *const () as usize),
    ("WmiTraceMessage", || wmi_trace_message as *const () as usize),
];

/// The system is not ready; the caller may try again. [ntstatus: STATUS_RETRY]
const STATUS_RETRY: NTSTATUS = NTSTATUS(0xc000_022d_u32.cast_signed());

/// NULL for a name that the kernel does not export.
extern "win64" fn mm_get_system_routine_address(name: *const UNICODE_STRING) -> usize {
    const NAME: &str = "MmGetSystemRoutineAddress";
    require_passive(NAME);
    let name = text_of(NAME, name).unwrap_or_default();
    caller(NAME).services().export(&name).unwrap_or(0)
}

pub(super) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

extern "win64" fn ke_query_active_processor_count(mask: *mut usize) -> u32 {
    let count = processors().min(usize::BITS);
    put_if("KeQueryActiveProcessorCount", mask, usize::MAX >> (usize::BITS - count));
    count
}

/// The processors of all groups, or of group 0, which is the only one.
extern "win64" fn ke_query_processor_count_ex(group: u16) -> u32 {
    const ALL_PROCESSOR_GROUPS: u16 = 0xffff;
    if [0, ALL_PROCESSOR_GROUPS].contains(&group) { processors() } else { 0 }
}

/// Windows 11 24H2, whose interface this is: 10.0.26100. [wdm: RTL_OSVERSIONINFOW, RTL_OSVERSIONINFOEXW]
pub(super) extern "win64" fn rtl_get_version(version: *mut c_void) -> NTSTATUS {
    const NAME: &str = "RtlGetVersion";
    const SERVICE_PACK: usize = 20;
    const EXTENDED: u32 = 284;
    const PRODUCT_TYPE: usize = 282;
    require_passive(NAME);
    let size: u32 = get(NAME, version.cast());
    put(NAME, field(version, 4), [10_u32, 0, 26100, 2]);
    put(NAME, field(version, SERVICE_PACK), 0_u16);
    if size == EXTENDED {
        put(NAME, field(version, 276), [0_u16, 0, 0]);
        put(NAME, field(version, PRODUCT_TYPE), [1_u8, 0]);
    }
    STATUS_SUCCESS
}

extern "win64" fn ps_get_current_thread_id() -> HANDLE {
    std::ptr::without_provenance_mut(thread_token() * 4)
}

/// System threads and callbacks run in the system process.
extern "win64" fn ps_get_current_process_id() -> HANDLE {
    std::ptr::without_provenance_mut(4)
}

/// The system process: a header of the kind ProcessObject, and nothing that drivers may look at. [wdm: DISPATCHER_HEADER]
static SYSTEM_PROCESS: [u64; 16] = [3; 16];

/// Opaque to drivers.
pub(super) extern "win64" fn ps_get_current_process() -> *mut c_void {
    SYSTEM_PROCESS.as_ptr().cast_mut().cast()
}

extern "win64" fn ps_get_process_id(process: *mut c_void) -> HANDLE {
    if process != ps_get_current_process() {
        stop(Bugcheck::fatal(format!("PsGetProcessId of {process:p}, which is no process that the driver was given")));
    }
    ps_get_current_process_id()
}

extern "win64" fn ps_get_thread_process_id(thread: *mut c_void) -> HANDLE {
    const NAME: &str = "PsGetThreadProcessId";
    if get::<u32>(NAME, thread.cast()) & 0xff != ThreadObject::KIND {
        stop(Bugcheck::fatal(format!("{NAME} of {thread:p}, which is no thread")));
    }
    ps_get_current_process_id()
}

/// A random one. [ntddk: ExUuidCreate]
extern "win64" fn ex_uuid_create(uuid: *mut [u8; 16]) -> NTSTATUS {
    const NAME: &str = "ExUuidCreate";
    require_passive(NAME);
    let mut bytes = [0; 16];
    let read = on_host_stack(|| File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)));
    if read.is_err() {
        return STATUS_RETRY;
    }
    // Version 4, of random numbers, in the upper half of Data3, and the variant of RFC 4122.
    bytes[7] = bytes[7] & 0xf | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    put(NAME, uuid, bytes);
    STATUS_SUCCESS
}

/// TRUE: the caches of the host's processors are coherent, and devices read what they hold.
extern "win64" fn ke_invalidate_all_caches() -> u8 {
    1
}

/// KernelMode.
extern "win64" fn ex_get_previous_mode() -> i8 {
    0
}

/// On x64 the kernel keeps the state of the SSE registers by itself, and these functions do nothing. [wdm: KeSaveFloatingPointState]
extern "win64" fn ke_floating_point_state(_state: *mut c_void) -> NTSTATUS {
    STATUS_SUCCESS
}

/// No consumer of WMI asks the driver for anything.
extern "win64" fn io_wmi_registration_control(_device: *mut c_void, _action: u32) -> NTSTATUS {
    require_passive("IoWMIRegistrationControl");
    STATUS_SUCCESS
}

/// Registers a provider that no session ever enables, so that its trace points stay silent.
extern "win64" fn etw_register_classic_provider(
    _provider: *const c_void,
    _kind: u32,
    _callback: usize,
    _context: *mut c_void,
    handle: *mut u64,
) -> NTSTATUS {
    require_passive("EtwRegisterClassicProvider");
    put("EtwRegisterClassicProvider", handle, 0);
    STATUS_NOT_SUPPORTED
}

extern "win64" fn wmi_query_trace_information(_: u32, _: *mut c_void, _: u32, _: *mut u32, _: *mut c_void) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

/// No session has given the driver a handle.
extern "win64" fn wmi_trace_message(_handle: u64) -> NTSTATUS {
    STATUS_INVALID_HANDLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;
    use std::collections::BTreeSet;

    #[test]
    fn the_version_is_that_of_the_interface() {
        let mut version = [0_u32; 71];
        version[0] = 284;
        let driver = Driver::for_tests("version");
        let status = driver_call::run(&driver, "a function", || rtl_get_version(version.as_mut_ptr().cast())).0;
        assert_eq!(status, Some(STATUS_SUCCESS));
        assert_eq!(version[1..4], [10, 0, 26100]);
        assert_eq!(version[70] >> 16, 1);
    }

    #[test]
    fn uuids_are_random_and_say_so_and_threads_are_of_the_system_process() {
        let driver = Driver::for_tests("uuids");
        let (uuids, _) = driver_call::run(&driver, "a function", || {
            let mut uuids = [[0; 16]; 2];
            uuids.iter_mut().for_each(|uuid| assert_eq!(ex_uuid_create(uuid), STATUS_SUCCESS));
            assert_eq!(ps_get_process_id(ps_get_current_process()).addr(), 4);
            let thread = super::super::dispatcher::ke_get_current_thread();
            assert_eq!(ps_get_thread_process_id(thread), ps_get_current_process_id());
            uuids
        });
        let [one, other] = uuids.unwrap();
        assert_ne!(one, other);
        assert_eq!((one[7] >> 4, one[8] >> 6), (4, 2));
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn a_uuid_is_made_at_passive_level_and_what_is_no_thread_or_process_stops_the_machine() {
        type Misuse = fn() -> HANDLE;
        let misuses: [(Misuse, &str); 3] = [
            (
                || {
                    crate::irql::set(1);
                    std::ptr::without_provenance_mut(ex_uuid_create(&mut [0; 16]).0 as usize)
                },
                "ExUuidCreate at IRQL 1",
            ),
            (|| ps_get_process_id(std::ptr::null_mut()), "PsGetProcessId"),
            (|| ps_get_thread_process_id(Box::into_raw(Box::new([0_u64; 2])).cast()), "no thread"),
        ];
        for (misuse, told) in misuses {
            let driver = Driver::for_tests("misuse");
            assert_eq!(driver_call::run(&driver, "a function", misuse).0, None);
            let bugcheck = driver.verifier().bugcheck().unwrap();
            assert!(bugcheck.reason.contains(told), "{bugcheck}");
        }
    }

    fn provided() -> BTreeSet<&'static str> {
        let names: Vec<&str> = super::super::EXPORTS.iter().copied().flatten().map(|(name, _)| *name).collect();
        let set: BTreeSet<&str> = names.iter().copied().chain(wddm_ddi::nt::NtImports::NAMES.iter().copied()).collect();
        let twice = names.len() + wddm_ddi::nt::NtImports::NAMES.len() - set.len();
        assert_eq!(twice, 0, "a name stands twice");
        set
    }

    /// The rows of the table in `docs/kernel-services.md`: name and state.
    fn documented() -> BTreeSet<(String, String)> {
        let rows = include_str!("../../../docs/kernel-services.md").lines().filter(|line| line.starts_with("| `"));
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert!(cells[2] != "missing" || !cells[5].is_empty(), "{} is missing, and nothing says why", cells[1]);
            (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())
        };
        rows.map(row).collect()
    }

    #[test]
    fn the_document_says_of_every_name_that_public_drivers_use_whether_it_is_provided() {
        let provided = provided();
        let used = include_str!("../../../tests/imports/drivers.toml").split("[used]").nth(1).unwrap().lines();
        let used: BTreeSet<&str> = used.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        let all: BTreeSet<&str> = used.union(&provided).copied().collect();
        let state = |name: &str| if provided.contains(name) { "provided" } else { "missing" };
        let expected: BTreeSet<_> = all.into_iter().map(|name| (name.to_owned(), state(name).to_owned())).collect();
        // Names that none of these drivers uses may be documented as missing.
        let others = |(name, state): &(String, String)| state == "missing" && !used.contains(name.as_str());
        let documented: BTreeSet<_> =
            documented().into_iter().filter(|row| !others(row) || provided.contains(row.0.as_str())).collect();
        let wrong: Vec<_> = expected.symmetric_difference(&documented).collect();
        assert_eq!(wrong, Vec::<&(String, String)>::new(), "rows of docs/kernel-services.md that are wrong or missing");
    }

    /// The words of a header behind which a parenthesis or a semicolon stands: what it declares, among others.
    fn declared(header: &str) -> BTreeSet<&str> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let before = |(at, _): (usize, &str)| header[..at].rsplit(|c| !word(c)).next();
        header.match_indices(['(', ';']).filter_map(before).collect()
    }

    #[test]
    fn the_headers_for_drivers_in_c_declare_every_service_and_no_other_and_the_import_library_has_them_all() {
        let own = include_str!("../../../kmt/include/km/campanile_services.h");
        let headers = [own, include_str!("../../../kmt/include/km/ntddk.h")].map(declared);
        // The graphics kernel's own is in the header of its table.
        let provided: BTreeSet<&str> = provided().into_iter().filter(|name| *name != "DxgkInitialize").collect();
        let missing: Vec<_> = provided.iter().filter(|name| !headers.iter().any(|of| of.contains(**name))).collect();
        assert_eq!(missing, Vec::<&&str>::new(), "services that kmt/include/km does not declare");
        let imported =
            own.lines().filter(|line| line.starts_with("NTSYSAPI ")).filter_map(|line| line.split('(').next());
        let others: Vec<_> = imported
            .filter_map(|line| line.rsplit([' ', '*']).next())
            .filter(|name| !provided.contains(name))
            .collect();
        assert_eq!(others, Vec::<&str>::new(), "declared, and no service");
        let library =
            include_str!("../../../kmt/include/km/ntoskrnl.def").lines().filter_map(|line| line.strip_prefix("    "));
        let library: BTreeSet<&str> = library.map(|line| line.trim_end_matches(" DATA")).collect();
        let differ: Vec<_> = library.symmetric_difference(&provided).collect();
        assert_eq!(differ, Vec::<&&str>::new(), "kmt/include/km/ntoskrnl.def and the services differ");
    }
}
