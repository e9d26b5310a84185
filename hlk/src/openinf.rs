//! `openinf.exe FILE`: what the system's own reader says about an INF. For tests of the package, where there is a Windows or a Wine.

use std::process::ExitCode;

mod one_file;
#[cfg(all(windows, feature = "start"))]
mod start;

fn main() -> ExitCode {
    one_file::main("openinf", os::open)
}

#[cfg(not(windows))]
mod os {
    pub(crate) fn open(_: &std::ffi::OsStr) -> Result<(), String> {
        Err("only Windows reads INFs".to_owned())
    }
}

#[cfg(windows)]
mod os {
    use std::ffi::{OsStr, c_void};
    use std::os::windows::ffi::OsStrExt;

    #[link(name = "setupapi", kind = "raw-dylib")]
    unsafe extern "system" {
        fn SetupOpenInfFileW(file: *const u16, class: *const u16, style: u32, error_line: *mut u32) -> *mut c_void;
        fn SetupCloseInfFile(inf: *mut c_void);
    }

    /// An INF with a signature. [setupapi: INF_STYLE_WIN4]
    const STYLE: u32 = 2;

    /// Opens an INF, which reads all of it.
    pub(crate) fn open(path: &OsStr) -> Result<(), String> {
        let path: Vec<u16> = path.encode_wide().chain([0]).collect();
        let mut line = 0;
        // SAFETY: a terminated path, no class, and a number of this frame.
        let inf = unsafe { SetupOpenInfFileW(path.as_ptr(), std::ptr::null(), STYLE, &raw mut line) };
        if inf.addr() == usize::MAX {
            let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(format!("error {code:#010x} in line {line}"));
        }
        // SAFETY: the INF was just opened, and is not used any more.
        unsafe { SetupCloseInfFile(inf) };
        Ok(())
    }
}
