// UNSAFETY: calls the kernel.
//! Registration with the graphics kernel, in short.

use core::ffi::c_void;
use core::ptr::null_mut;

use wddm_ddi::nt::{IOCTL_VIDEO_DDI_FUNC_REGISTER, PDXGK_INITIALIZE};
use wddm_ddi::types::*;

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    fn RtlInitUnicodeString(string: *mut UNICODE_STRING, text: *const u16);
    fn IoGetDeviceObjectPointer(
        name: *mut UNICODE_STRING,
        access: u32,
        file: *mut *mut c_void,
        device: *mut *mut c_void,
    ) -> NTSTATUS;
    fn IoBuildDeviceIoControlRequest(
        code: u32,
        device: *mut c_void,
        input: *mut c_void,
        input_bytes: u32,
        output: *mut c_void,
        output_bytes: u32,
        internal: BOOLEAN,
        event: *mut c_void,
        status: *mut c_void,
    ) -> *mut c_void;
    pub(crate) fn IofCallDriver(device: *mut c_void, irp: *mut c_void) -> NTSTATUS;
}

/// Name of the graphics kernel's device, terminated.
pub(crate) const DEVICE: &[u16] = &{
    let text = *b"\\Device\\DxgKrnl\0";
    let mut wide = [0; 16];
    let mut at = 0;
    while at < wide.len() {
        wide[at] = text[at] as u16;
        at += 1;
    }
    wide
};

/// Asks the graphics kernel to write its registration function to `output`, and the status to `status` unless that is a local.
pub(crate) fn ask(output: *mut Option<PDXGK_INITIALIZE>, status: Option<*mut c_void>) -> NTSTATUS {
    let mut name = UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: null_mut() };
    let (mut file, mut device) = (null_mut(), null_mut());
    let (mut event, mut block) = ([0_u64; 3], [0_u64; 2]);
    let mut function = None;
    let output = if status.is_some() { &raw mut function } else { output };
    // SAFETY: terminated text.
    unsafe { RtlInitUnicodeString(&raw mut name, DEVICE.as_ptr()) };
    // SAFETY: all pointers are to locals.
    let _ = unsafe { IoGetDeviceObjectPointer(&raw mut name, 0, &raw mut file, &raw mut device) };
    // SAFETY: event and status live until the request is complete.
    let irp = unsafe {
        IoBuildDeviceIoControlRequest(
            IOCTL_VIDEO_DDI_FUNC_REGISTER,
            device,
            null_mut(),
            0,
            output.cast(),
            8,
            1,
            (&raw mut event).cast(),
            status.unwrap_or((&raw mut block).cast()),
        )
    };
    // SAFETY: the request was built for this device.
    unsafe { IofCallDriver(device, irp) }
}

/// DxgkInitialize.
pub(crate) fn function() -> PDXGK_INITIALIZE {
    let mut function = None;
    let _ = ask(&raw mut function, None);
    match function {
        Some(function) => function,
        // SAFETY: may be called at any level.
        None => unsafe { crate::KeBugCheckEx(0xe000_0002, 0, 0, 0, 0) },
    }
}
