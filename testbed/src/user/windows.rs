//! The part of Windows that the DLL needs: a few functions of `kernel32.dll` and `ntdll.dll`, which it imports, and the thunks behind `gdi32.dll` and
//! `ntdll.dll`, which it looks up.
//!
//! Handles of events are numbers of eventfds, as the thunks here expect them. What the DLL has no use for is refused.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use wddm_ddi::kmt::Thunks;
use wddm_ddi::nt::EXCEPTION_RECORD;
use wddm_ddi::types::HANDLE;

thread_local! {
    /// Thunks that the Windows of this thread lacks.
    static LACKING: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Does something on a Windows that lacks some thunks: a DLL that first asks for them meanwhile does without from then on.
pub fn on_older_windows<R>(lacking: &[&'static str], work: impl FnOnce() -> R) -> R {
    let before = LACKING.replace(lacking.to_vec());
    let result = work();
    LACKING.set(before);
    result
}

/// Modules that export thunks; the place of one, counted from 1, is its handle.
const MODULES: [&str; 2] = ["gdi32.dll", "ntdll.dll"];
/// LOAD_LIBRARY_SEARCH_SYSTEM32: the only folder that the DLL may search. [libloaderapi: LoadLibraryExA]
const SYSTEM32: u32 = 0x800;

unsafe extern "win64" fn load_library_ex_a(name: *const c_char, file: HANDLE, flags: u32) -> HANDLE {
    // SAFETY: the DLL passes terminated text.
    let name = unsafe { CStr::from_ptr(name) };
    let known = MODULES.iter().position(|module| name.to_bytes().eq_ignore_ascii_case(module.as_bytes()));
    let module = known.filter(|_| file.is_null() && flags == SYSTEM32);
    without_provenance_mut(module.map_or(0, |index| index + 1))
}

unsafe extern "win64" fn get_proc_address(module: HANDLE, name: *const c_char) -> *mut c_void {
    // SAFETY: the DLL passes terminated text and no ordinal.
    let name = unsafe { CStr::from_ptr(name) };
    let module = module.addr().checked_sub(1).and_then(|index| MODULES.get(index));
    let address = module.zip(name.to_str().ok()).and_then(|(module, name)| thunk(module, name));
    address.map_or(null_mut(), std::ptr::with_exposed_provenance_mut)
}

/// Address of a thunk that this Windows has.
fn thunk(module: &str, name: &str) -> Option<usize> {
    let mut thunks = Thunks::MODULES.iter().zip(Thunks::NAMES).zip(addresses());
    let (_, address) = thunks.find(|((of, thunk), _)| **of == module && **thunk == name)?;
    let lacks = LACKING.with_borrow(|lacking| lacking.contains(&name));
    (!lacks).then_some(*address)
}

/// Address of a function that the DLL imports.
pub(super) fn resolve(module: &str, name: &str) -> Option<usize> {
    let export =
        |(export_module, export_name, _): &&Export| export_module.eq_ignore_ascii_case(module) && *export_name == name;
    EXPORTS.iter().find(export).map(|(_, _, address)| address())
}

/// The thunks as plain addresses, in the order of their names.
fn addresses() -> &'static [usize] {
    words(dxgkrnl::thunks())
}

/// A table as plain addresses.
fn words(table: &Thunks) -> &[usize] {
    const COUNT: usize = Thunks::NAMES.len();
    const { assert!(size_of::<Thunks>() == size_of::<[usize; COUNT]>()) };
    let table: *const Thunks = table;
    // SAFETY: the table consists of exactly this many function pointers.
    unsafe { &*table.cast::<[usize; COUNT]>() }
}

type Export = (&'static str, &'static str, fn() -> usize);

const EXPORTS: &[Export] = &[
    ("kernel32.dll", "LoadLibraryExA", || load_library_ex_a as *const () as usize),
    ("kernel32.dll", "GetProcAddress", || get_proc_address as *const () as usize),
    ("kernel32.dll", "GetProcessHeap", || get_process_heap as *const () as usize),
    ("kernel32.dll", "HeapAlloc", || heap_alloc as *const () as usize),
    ("kernel32.dll", "HeapFree", || heap_free as *const () as usize),
    ("kernel32.dll", "CreateEventW", || create_event_w as *const () as usize),
    ("kernel32.dll", "WaitForSingleObject", || wait_for_single_object as *const () as usize),
    ("kernel32.dll", "CloseHandle", || close_handle as *const () as usize),
    ("kernel32.dll", "RaiseFailFastException", || raise_fail_fast_exception as *const () as usize),
    ("ntdll.dll", "memcpy", || memcpy as *const () as usize),
    ("ntdll.dll", "memmove", || memmove as *const () as usize),
    ("ntdll.dll", "memset", || memset as *const () as usize),
    ("ntdll.dll", "memcmp", || memcmp as *const () as usize),
    ("ntdll.dll", "strlen", || strlen as *const () as usize),
];

/// The heap of the process; only its address counts.
static HEAP: u8 = 0;
/// HEAP_ZERO_MEMORY. [heapapi: HeapAlloc]
const HEAP_ZEROED: u32 = 8;

extern "win64" fn get_process_heap() -> HANDLE {
    (&raw const HEAP).cast_mut().cast()
}

/// The host's allocator aligns to 16 bytes, as this heap does.
extern "win64" fn heap_alloc(heap: HANDLE, flags: u32, bytes: usize) -> *mut c_void {
    match flags {
        _ if heap != get_process_heap() => null_mut(),
        // SAFETY: any size may be asked for.
        0 => unsafe { libc::malloc(bytes) },
        // SAFETY: as above.
        HEAP_ZEROED => unsafe { libc::calloc(bytes, 1) },
        _ => null_mut(),
    }
}

unsafe extern "win64" fn heap_free(heap: HANDLE, flags: u32, memory: *mut c_void) -> i32 {
    if heap != get_process_heap() || flags != 0 {
        return 0;
    }
    // SAFETY: the DLL gives back what it got from `heap_alloc`, or null.
    unsafe { libc::free(memory) };
    1
}

/// Events that are open. A number that is not among them is no handle, so that a stale one never reaches a stranger's descriptor.
static EVENTS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn events<R>(f: impl FnOnce(&mut BTreeSet<i32>) -> R) -> R {
    f(&mut EVENTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The descriptor behind an event's handle.
fn descriptor(event: HANDLE) -> Option<i32> {
    i32::try_from(event.addr()).ok().filter(|descriptor| events(|open| open.contains(descriptor)))
}

/// Unnamed events that stay set. [synchapi: CreateEventW]
extern "win64" fn create_event_w(
    attributes: *const c_void,
    manual_reset: i32,
    initial: i32,
    name: *const u16,
) -> HANDLE {
    if !attributes.is_null() || !name.is_null() || manual_reset == 0 {
        return null_mut();
    }
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    // SAFETY: takes no pointers.
    let mut descriptor = unsafe { libc::eventfd(u32::from(initial != 0), flags) };
    if descriptor == 0 {
        // A null handle is none: take a higher number for the same event.
        // SAFETY: takes no pointers.
        descriptor = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 1) };
        // SAFETY: the descriptor is ours and not used again.
        unsafe { libc::close(0) };
    }
    if descriptor < 0 {
        return null_mut();
    }
    events(|open| open.insert(descriptor));
    without_provenance_mut(descriptor as usize)
}

/// Results of a wait. [synchapi: WaitForSingleObject]
const WAIT_OBJECT_0: u32 = 0;
const WAIT_TIMEOUT: u32 = 0x102;
const WAIT_FAILED: u32 = u32::MAX;
/// No time limit.
const INFINITE: u32 = u32::MAX;

extern "win64" fn wait_for_single_object(event: HANDLE, milliseconds: u32) -> u32 {
    let Some(descriptor) = descriptor(event) else { return WAIT_FAILED };
    let end = (milliseconds != INFINITE).then(|| Instant::now() + Duration::from_millis(u64::from(milliseconds)));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        match poll(descriptor, left) {
            Ok(true) => return WAIT_OBJECT_0,
            Ok(false) => return WAIT_TIMEOUT,
            // A signal handler ran: wait for the rest of the time.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return WAIT_FAILED,
        }
    }
}

/// True if the event was set within `limit`; `None` waits without one.
fn poll(descriptor: i32, limit: Option<Duration>) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one descriptor record and a time or null, both of this frame; no signal mask.
    match unsafe { libc::ppoll(&mut poll, 1, limit, std::ptr::null()) } {
        0 => Ok(false),
        1.. => Ok(poll.revents & libc::POLLIN != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "win64" fn close_handle(event: HANDLE) -> i32 {
    let Ok(descriptor) = i32::try_from(event.addr()) else { return 0 };
    if !events(|open| open.remove(&descriptor)) {
        return 0;
    }
    // SAFETY: the descriptor was ours, and nobody finds it any more.
    i32::from(unsafe { libc::close(descriptor) } == 0)
}

/// Ends the process, as it does on Windows: the DLL's state cannot be trusted any more. Says where it stood.
unsafe extern "win64" fn raise_fail_fast_exception(
    record: *const EXCEPTION_RECORD,
    _context: *const c_void,
    _flags: u32,
) {
    // SAFETY: the DLL passes null or a record that lives during the call.
    if let Some(record) = unsafe { record.as_ref() } {
        let [file, length, line, ..] = record.ExceptionInformation;
        let place = if record.NumberParameters == 3 && file != 0 && length < 4096 {
            let text = std::ptr::with_exposed_provenance::<u8>(file);
            // SAFETY: the DLL's record of a panic has the address and length of a file name, which lies in its image.
            let text = unsafe { std::slice::from_raw_parts(text, length) };
            format!(" at {}:{line}", String::from_utf8_lossy(text))
        } else {
            String::new()
        };
        crate::complain!("campanile: the user-mode driver failed with exception {:#010x}{place}", record.ExceptionCode);
    }
    std::process::abort()
}

unsafe extern "win64" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the DLL promises two separate ranges of this length.
    unsafe { to.copy_from_nonoverlapping(from, bytes) };
    to
}

unsafe extern "win64" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the DLL promises two ranges of this length.
    unsafe { to.copy_from(from, bytes) };
    to
}

unsafe extern "win64" fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    // SAFETY: the DLL promises a writable range of this length.
    unsafe { to.write_bytes(value as u8, bytes) };
    to
}

unsafe extern "win64" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the DLL promises two readable ranges of this length.
    unsafe { libc::memcmp(a.cast(), b.cast(), bytes) }
}

unsafe extern "win64" fn strlen(text: *const u8) -> usize {
    // SAFETY: the DLL promises terminated text.
    unsafe { libc::strlen(text.cast()) }
}

#[cfg(test)]
mod tests {
    use wddm_ddi::kmt::NotFound;
    use wddm_ddi::status::STATUS_PROCEDURE_NOT_FOUND;

    use super::*;

    #[test]
    fn every_thunk_is_found_in_its_module_and_strangers_are_not() {
        let find = |module: &CStr, name: &CStr| {
            // SAFETY: terminated text and no file.
            let module = unsafe { load_library_ex_a(module.as_ptr(), null_mut(), SYSTEM32) };
            // SAFETY: terminated text.
            unsafe { get_proc_address(module, name.as_ptr()) }
        };
        // SAFETY: what is found are the thunks of the operating-system side.
        let table = unsafe { Thunks::look_up::<NotFound>(find) };
        assert_eq!(words(&table), addresses());
        // SAFETY: as above.
        let older = unsafe {
            Thunks::look_up::<NotFound>(|module, name| on_older_windows(&["NtClose"], || find(module, name)))
        };
        let last = addresses().len() - 1;
        assert_eq!(words(&older)[..last], addresses()[..last]);
        // SAFETY: what stands in for it takes anything.
        assert_eq!(unsafe { (older.NtClose)(null_mut()) }, STATUS_PROCEDURE_NOT_FOUND);
        for (module, name) in
            [(c"gdi32.dll", c"NtClose"), (c"gdi32.dll", c"D3DKMTEscape"), (c"kernel32.dll", c"NtClose")]
        {
            assert!(find(module, name).is_null(), "{module:?} {name:?}");
        }
        // SAFETY: terminated text and no file.
        let elsewhere = unsafe { load_library_ex_a(c"gdi32.dll".as_ptr(), null_mut(), 0) };
        assert!(elsewhere.is_null(), "other folders are searched");
        assert!(resolve("gdi32.dll", "D3DKMTEnumAdapters3").is_none() && resolve("ntdll.dll", "HeapAlloc").is_none());
    }

    #[test]
    fn the_heap_zeroes_when_asked_and_refuses_what_is_not_its_own() {
        let heap = get_process_heap();
        let block = heap_alloc(heap, HEAP_ZEROED, 64).cast::<u8>();
        // SAFETY: 64 bytes were just allocated.
        let bytes = unsafe { std::slice::from_raw_parts(block, 64) };
        assert!(bytes.iter().all(|byte| *byte == 0) && block.addr() % 16 == 0);
        // SAFETY: another heap's block is refused, ours is given back once.
        assert_eq!(unsafe { heap_free(null_mut(), 0, block.cast()) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { heap_free(heap, 0, block.cast()) }, 1);
        assert!(heap_alloc(null_mut(), 0, 1).is_null());
        assert!(heap_alloc(heap, 1 << 20, 1).is_null());
    }

    #[test]
    fn events_are_eventfds_that_stay_set() {
        let none = std::ptr::null();
        let event = create_event_w(none, 1, 0, none.cast());
        assert_eq!(wait_for_single_object(event, 0), WAIT_TIMEOUT);
        assert_eq!(wait_for_single_object(event, 2), WAIT_TIMEOUT);
        let one = 1_u64;
        // SAFETY: eight bytes of this frame.
        let written = unsafe { libc::write(event.addr() as i32, (&raw const one).cast(), 8) };
        assert_eq!(written, 8);
        for limit in [0, 5, INFINITE] {
            assert_eq!(wait_for_single_object(event, limit), WAIT_OBJECT_0);
        }
        assert_eq!((close_handle(event), close_handle(event)), (1, 0), "a stale handle is refused");
        let set = create_event_w(none, 1, 1, none.cast());
        assert_eq!(wait_for_single_object(set, 0), WAIT_OBJECT_0);
        assert_eq!(close_handle(set), 1);
    }

    #[test]
    fn what_is_no_event_is_no_handle() {
        let none = std::ptr::null();
        for stranger in [without_provenance_mut(1), null_mut(), without_provenance_mut(usize::MAX)] {
            assert_eq!(wait_for_single_object(stranger, 0), WAIT_FAILED);
            assert_eq!(close_handle(stranger), 0);
        }
        assert!(create_event_w(none, 0, 0, none.cast()).is_null(), "events that reset themselves");
        assert!(create_event_w(none, 1, 0, [0_u16].as_ptr()).is_null(), "named events");
    }
}
