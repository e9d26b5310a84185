//! A driver image for Wine's kernel, in one of two roles that the name of its service chooses.
//!
//! `DXGKrnl` (`graphics`) stands in for Windows' graphics kernel as far as the registration of a miniport goes: it has the device `\Device\DxgKrnl`, hands out
//! a function for DxgkInitialize there, and says what it was called with. Every other service (`supply`) gives the driver under test what Wine's kernel
//! lacks, before DriverEntry runs, and says of each import which module has it.
//!
//! Both keep a text of what happened, which a program reads by a control request (`log`). Nothing here runs on Windows, nor needs to.

#![no_std]
#![cfg(windows)]

mod graphics;
mod log;
mod supply;
mod wdm;

use core::ffi::c_void;
use core::ptr::null_mut;

use wddm_ddi::status::*;
use wddm_ddi::types::{NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING};

use wdm::{CONTROL, Control, DriverObject, Irp, KeBugCheckEx, utf16};

/// One of the two roles: its device, and what is done at the beginning and at the end.
struct Role {
    /// Name of its device, and of the link by which programs open it; both are terminated.
    device: &'static [u16],
    link: &'static [u16],
    /// Called once, with the driver object.
    begin: fn(*mut DriverObject) -> NTSTATUS,
    end: fn(),
}

const GRAPHICS: Role = Role {
    device: &utf16(*b"\\Device\\DxgKrnl\0"),
    link: &utf16(*b"\\DosDevices\\DxgKrnl\0"),
    begin: graphics::begin,
    end: || {},
};

const SUPPLY: Role = Role {
    device: &utf16(*b"\\Device\\KernelSupply\0"),
    link: &utf16(*b"\\DosDevices\\KernelSupply\0"),
    begin: supply::begin,
    end: supply::end,
};

/// The text of a string of the kernel.
///
/// # Safety
/// The string is valid, and stays so as long as the text is used.
unsafe fn text<'a>(string: *const UNICODE_STRING) -> &'a [u16] {
    // SAFETY: the caller vouches for the string.
    let string = unsafe { string.read() };
    // SAFETY: a valid string has so many units.
    unsafe { core::slice::from_raw_parts(string.Buffer, usize::from(string.Length / 2)) }
}

/// True if a UTF-16 text ends with this one of ASCII characters, whatever their case.
fn ends_with(text: &[u16], end: &str) -> bool {
    let same = |(unit, byte): (&u16, u8)| u8::try_from(*unit).is_ok_and(|unit| unit.eq_ignore_ascii_case(&byte));
    text.len() >= end.len() && text.iter().rev().zip(end.bytes().rev()).all(same)
}

fn role(path: &[u16]) -> &'static Role {
    if ends_with(path, "\\DXGKrnl") { &GRAPHICS } else { &SUPPLY }
}

/// The role of this image, which is loaded once for each.
static ROLE: core::sync::atomic::AtomicPtr<Role> = core::sync::atomic::AtomicPtr::new(null_mut());

/// # Safety
/// Called once by the image loader, with its driver object and the path of the service's key.
#[unsafe(export_name = "DriverEntry")]
unsafe extern "win64" fn entry(driver: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    // SAFETY: the loader passes a valid string.
    let role = role(unsafe { text(path) });
    ROLE.store(core::ptr::from_ref(role).cast_mut(), core::sync::atomic::Ordering::Release);
    let driver = driver.cast::<DriverObject>();
    // SAFETY: the loader passes its driver object, which nothing else uses now.
    let object = unsafe { &mut *driver };
    object.DriverUnload = Some(unload);
    for major in [wdm::IRP_MJ_CREATE, wdm::IRP_MJ_CLOSE] {
        object.MajorFunction[major] = Some(accept);
    }
    object.MajorFunction[wdm::IRP_MJ_DEVICE_CONTROL] = Some(control);
    object.MajorFunction[wdm::IRP_MJ_INTERNAL_DEVICE_CONTROL] = Some(graphics::internal_control);
    wdm::create_device(driver, role.device, role.link).map_or_else(|status| status, |()| (role.begin)(driver))
}

unsafe extern "win64" fn unload(driver: *mut DriverObject) {
    // SAFETY: `entry` stored a role that lives for ever.
    let Some(role) = (unsafe { ROLE.load(core::sync::atomic::Ordering::Acquire).as_ref() }) else { return };
    (role.end)();
    wdm::delete_device(driver, role.link);
}

unsafe extern "win64" fn accept(_: *mut c_void, irp: *mut Irp) -> NTSTATUS {
    wdm::complete(irp, STATUS_SUCCESS, 0)
}

/// Requests of the program: its buffer holds the input, and gets the output.
unsafe extern "win64" fn control(_: *mut c_void, irp: *mut Irp) -> NTSTATUS {
    // SAFETY: the system passes a request with its location.
    let Control { code, input, output } = unsafe { wdm::control(irp) };
    // SAFETY: a valid request.
    let buffer = unsafe { (*irp).SystemBuffer }.cast::<u8>();
    let (status, bytes) = match code {
        CONTROL::READ_LOG => log::copy(buffer, output),
        CONTROL::READ_IMAGE => graphics::copy_image(buffer, output),
        CONTROL::ANSWER if input >= size_of::<u32>() => {
            // SAFETY: the input has as many bytes.
            graphics::answer(unsafe { buffer.cast::<u32>().read_unaligned() });
            (STATUS_SUCCESS, 0)
        }
        _ => (STATUS_INVALID_DEVICE_REQUEST, 0),
    };
    wdm::complete(irp, status, bytes)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: may be called at any level.
    unsafe { KeBugCheckEx(0xe000_0003, 0, 0, 0, 0) }
}

// Named in the unwind tables of the precompiled core library; nothing unwinds here.
core::arch::global_asm!(".globl __CxxFrameHandler3", "__CxxFrameHandler3:", "mov eax, 1", "ret");

/// Named by the compiler wherever a module holds floating-point types.
#[unsafe(no_mangle)]
#[used]
static _fltused: i32 = 0x9875;
