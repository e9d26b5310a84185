//! `services.exe VERB…`: does to kernel services what the verbs say, one line of output for each. For the test of loading, where there is a Wine.
//!
//! - `create NAME PATH`, `start NAME`, `query NAME`, `stop NAME`: by the service manager. `error` is its error code, 0 for none.
//! - `log LINK`, `answer NUMBER`, `image FILE`: requests to the stand-in for the graphics kernel (tests/images/standin).
//! - `library FILE`: loads the user-mode driver, and lets it look for an adapter without a table of thunks, and with that of a system that has no adapters.

use std::io::Write;
use std::process::ExitCode;

#[cfg(all(windows, feature = "start"))]
mod start;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    while let Some(verb) = arguments.next() {
        let mut next = || arguments.next().ok_or_else(|| format!("{verb} of what?"));
        match os::carry_out(&verb, &mut next) {
            Ok(line) => println!("{line}"),
            Err(reason) => {
                let _ = writeln!(std::io::stderr(), "services: {reason}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}

/// What a verb prints, or why it cannot be carried out at all.
type Done = Result<String, String>;

#[cfg(not(windows))]
mod os {
    use super::Done;

    pub(crate) fn carry_out(_: &str, _: &mut dyn FnMut() -> Done) -> Done {
        Err("only Windows has kernel services".to_owned())
    }
}

#[cfg(windows)]
mod os {
    use std::ffi::{c_char, c_void};
    use std::fs::{File, OpenOptions};
    use std::os::windows::io::AsRawHandle;
    use std::ptr::{null, null_mut};
    use std::sync::atomic::{AtomicU32, Ordering};

    use wddm_ddi::kmt::{D3DKMT_ENUMADAPTERS3, Thunks};

    use super::Done;

    type Handle = *mut c_void;

    /// [winsvc: SERVICE_STATUS]
    #[repr(C)]
    #[derive(Default)]
    struct Status {
        kind: u32,
        state: u32,
        accepted: u32,
        exit: u32,
        rest: [u32; 3],
    }

    #[link(name = "advapi32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn OpenSCManagerW(machine: *const u16, database: *const u16, access: u32) -> Handle;
        fn CreateServiceW(
            manager: Handle,
            name: *const u16,
            shown: *const u16,
            access: u32,
            kind: u32,
            start: u32,
            error: u32,
            path: *const u16,
            group: *const u16,
            tag: *mut u32,
            dependencies: *const u16,
            account: *const u16,
            password: *const u16,
        ) -> Handle;
        fn OpenServiceW(manager: Handle, name: *const u16, access: u32) -> Handle;
        fn StartServiceW(service: Handle, count: u32, arguments: *const *const u16) -> i32;
        fn QueryServiceStatus(service: Handle, status: *mut Status) -> i32;
        fn ControlService(service: Handle, control: u32, status: *mut Status) -> i32;
        fn CloseServiceHandle(handle: Handle) -> i32;
    }

    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn DeviceIoControl(
            device: Handle,
            code: u32,
            input: *const c_void,
            input_bytes: u32,
            output: *mut c_void,
            output_bytes: u32,
            returned: *mut u32,
            overlapped: *mut c_void,
        ) -> i32;
        fn LoadLibraryW(file: *const u16) -> Handle;
        fn GetProcAddress(module: Handle, name: *const c_char) -> *const c_void;
    }

    const ALL_ACCESS: u32 = 0x000f_01ff;
    const MANAGER_ALL_ACCESS: u32 = 0x000f_003f;
    const SERVICE_KERNEL_DRIVER: u32 = 1;
    const SERVICE_DEMAND_START: u32 = 3;
    const SERVICE_CONTROL_STOP: u32 = 1;

    /// The requests of tests/images/standin.
    const READ_LOG: u32 = 0x8000_2000;
    const READ_IMAGE: u32 = 0x8000_2004;
    const ANSWER: u32 = 0x8000_2008;

    /// Carries out a verb, whose arguments are `next`.
    pub(crate) fn carry_out(verb: &str, next: &mut dyn FnMut() -> Done) -> Done {
        match verb {
            "create" => create(&next()?, &next()?),
            "start" => start(&next()?),
            "query" => query(&next()?),
            "stop" => stop(&next()?),
            "log" => log(&next()?),
            "answer" => answer(&next()?),
            "image" => image(&next()?),
            "library" => library(&next()?),
            _ => Err(format!("{verb} is no verb")),
        }
    }

    fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().chain([0]).collect()
    }

    fn last_error() -> i32 {
        std::io::Error::last_os_error().raw_os_error().unwrap_or(-1)
    }

    /// 0, or the error of a function that returned FALSE.
    fn error_of(result: i32) -> i32 {
        if result == 0 { last_error() } else { 0 }
    }

    fn manager() -> Result<Handle, String> {
        // SAFETY: this machine and its database.
        let manager = unsafe { OpenSCManagerW(null(), null(), MANAGER_ALL_ACCESS) };
        if manager.is_null() { Err(format!("no service manager, error {}", last_error())) } else { Ok(manager) }
    }

    /// Calls a function with the open service; its line begins with `verb` and the name.
    fn with(verb: &str, name: &str, call: impl FnOnce(Handle) -> String) -> Done {
        let manager = manager()?;
        let service_name = wide(name);
        // SAFETY: an open manager and a terminated name.
        let service = unsafe { OpenServiceW(manager, service_name.as_ptr(), ALL_ACCESS) };
        let said = if service.is_null() { format!("error={}", last_error()) } else { call(service) };
        for handle in [service, manager] {
            // SAFETY: not used any more; closing NULL fails, and does no more.
            unsafe { CloseServiceHandle(handle) };
        }
        Ok(format!("{verb} {name} {said}"))
    }

    /// All services are of one group, whose drivers Wine loads into one process.
    fn create(name: &str, path: &str) -> Done {
        let manager = manager()?;
        let (service_name, path, group) = (wide(name), wide(path), wide("Video"));
        let (start, error) = (SERVICE_DEMAND_START, 1);
        // SAFETY: an open manager, terminated texts, and NULL where that stands for nothing.
        let service = unsafe {
            CreateServiceW(
                manager,
                service_name.as_ptr(),
                null(),
                ALL_ACCESS,
                SERVICE_KERNEL_DRIVER,
                start,
                error,
                path.as_ptr(),
                group.as_ptr(),
                null_mut(),
                null(),
                null(),
                null(),
            )
        };
        let error = if service.is_null() { last_error() } else { 0 };
        for handle in [service, manager] {
            // SAFETY: as in `with`.
            unsafe { CloseServiceHandle(handle) };
        }
        Ok(format!("create {name} error={error}"))
    }

    fn start(name: &str) -> Done {
        // SAFETY: an open service, no arguments.
        with("start", name, |service| format!("error={}", error_of(unsafe { StartServiceW(service, 0, null()) })))
    }

    fn query(name: &str) -> Done {
        with("query", name, |service| {
            let mut status = Status::default();
            // SAFETY: an open service and a place of this frame.
            let error = error_of(unsafe { QueryServiceStatus(service, &raw mut status) });
            format!("error={error} kind={} state={} exit={}", status.kind, status.state, status.exit)
        })
    }

    fn stop(name: &str) -> Done {
        with("stop", name, |service| {
            let mut status = Status::default();
            // SAFETY: as in `query`.
            let error = error_of(unsafe { ControlService(service, SERVICE_CONTROL_STOP, &raw mut status) });
            format!("error={error} state={}", status.state)
        })
    }

    /// A request to a stand-in; as many bytes of the output as it wrote.
    fn request(link: &str, code: u32, input: &[u8], capacity: usize) -> Result<Vec<u8>, String> {
        let path = format!(r"\\.\{link}");
        let device: File =
            OpenOptions::new().read(true).write(true).open(&path).map_err(|error| format!("{path}: {error}"))?;
        let mut output = vec![0; capacity];
        let mut returned = 0;
        // SAFETY: an open device, and buffers of these sizes.
        let done = unsafe {
            DeviceIoControl(
                device.as_raw_handle(),
                code,
                input.as_ptr().cast(),
                input.len() as u32,
                output.as_mut_ptr().cast(),
                capacity as u32,
                &raw mut returned,
                null_mut(),
            )
        };
        if done == 0 {
            return Err(format!("{path}: request {code:#x}: error {}", last_error()));
        }
        output.truncate(returned as usize);
        Ok(output)
    }

    fn log(link: &str) -> Done {
        let text = request(link, READ_LOG, &[], 1 << 16)?;
        Ok(format!("log {link}\n{}end", String::from_utf8_lossy(&text)))
    }

    fn answer(number: &str) -> Done {
        let bits: u32 = number.parse().map_err(|error| format!("{number}: {error}"))?;
        request("DxgKrnl", ANSWER, &bits.to_le_bytes(), 0).map(|_| format!("answer {bits}"))
    }

    fn image(file: &str) -> Done {
        let bytes = request("DxgKrnl", READ_IMAGE, &[], 1 << 24)?;
        std::fs::write(file, &bytes).map_err(|error| format!("{file}: {error}"))?;
        Ok(format!("image bytes={}", bytes.len()))
    }

    /// `campanile_adapter_open` of the user-mode driver.
    type Open = unsafe extern "system" fn(*const *const c_void, *mut u64) -> i32;

    /// Number of calls of [`no_adapters`].
    static LISTED: AtomicU32 = AtomicU32::new(0);

    /// D3DKMTEnumAdapters3 of a system without adapters.
    unsafe extern "system" fn no_adapters(list: *mut D3DKMT_ENUMADAPTERS3) -> i32 {
        LISTED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller passes its structure.
        unsafe { (*list).NumAdapters = 0 };
        0
    }

    /// Any other thunk: there is no adapter to call it for.
    extern "system" fn uncalled() -> i32 {
        panic!("a thunk was called for an adapter that does not exist")
    }

    fn library(file: &str) -> Done {
        let path = wide(file);
        // SAFETY: a terminated path.
        let module = unsafe { LoadLibraryW(path.as_ptr()) };
        if module.is_null() {
            return Ok(format!("library base=0 error={}", last_error()));
        }
        // SAFETY: a loaded module and a terminated name.
        let address = unsafe { GetProcAddress(module, c"campanile_adapter_open".as_ptr()) };
        if address.is_null() {
            return Ok(format!("library base={:#x} error={}", module.addr(), last_error()));
        }
        // SAFETY: the header of the DLL declares this function so.
        let open = unsafe { std::mem::transmute::<*const c_void, Open>(address) };
        let mut thunks = vec![uncalled as *const c_void; Thunks::NAMES.len()];
        let place = Thunks::NAMES.iter().position(|name| *name == "D3DKMTEnumAdapters3");
        *place.and_then(|place| thunks.get_mut(place)).ok_or("no D3DKMTEnumAdapters3 in the table")? =
            no_adapters as *const c_void;
        // It must stay valid for ever.
        let thunks: &'static [_] = Vec::leak(thunks);
        let mut handle = 0;
        // SAFETY: NULL is refused.
        let none = unsafe { open(null(), &raw mut handle) };
        // SAFETY: a table with every thunk that is listed, and a place for a handle.
        let empty = unsafe { open(thunks.as_ptr(), &raw mut handle) };
        let listed = LISTED.load(Ordering::Relaxed);
        Ok(format!(
            "library base={:#x} error=0 without={none} empty={empty} listed={listed} handle={handle:#x}",
            module.addr()
        ))
    }
}
