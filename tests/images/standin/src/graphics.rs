// UNSAFETY: the registered driver's table and image.
//! A stand-in for the graphics kernel: hands out a function for DxgkInitialize, and says what it was called with.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use wddm_ddi::km::{DRIVER_INITIALIZATION_DATA, SLOT_NAMES};
use wddm_ddi::nt::{IOCTL_VIDEO_DDI_FUNC_REGISTER, IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, PDXGK_INITIALIZE};
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use crate::log::{Wide, line};
use crate::wdm::{self, DriverObject, Irp};

/// The registration request with its bit in [`ANSWERED`].
const REQUESTS: [(u32, u32); 2] = [(IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, 1), (IOCTL_VIDEO_DDI_FUNC_REGISTER, 2)];

/// Which requests are answered.
static ANSWERED: AtomicU32 = AtomicU32::new(3);

/// DxgkDdiUnload of the registered driver, and its image.
static UNLOAD: AtomicUsize = AtomicUsize::new(0);
static START: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static SIZE: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn begin(driver: *mut DriverObject) -> NTSTATUS {
    // SAFETY: the system passes its driver object.
    let object = unsafe { driver.as_ref_unchecked() };
    line(format_args!("standin base={:#x} size={:#x}", object.DriverStart.addr(), object.DriverSize));
    STATUS_SUCCESS
}

/// Chooses the requests that are answered: 1 that of Windows 8 and later, 2 that of Windows 7.
pub(crate) fn answer(requests: u32) {
    ANSWERED.store(requests, Ordering::Release);
}

/// Requests of other drivers: registration, whose answer is a function.
pub(crate) unsafe extern "win64" fn internal_control(_: *mut c_void, irp: *mut Irp) -> NTSTATUS {
    // SAFETY: the system passes a request with its location.
    let control = unsafe { wdm::control(irp) };
    let known = REQUESTS.iter().find(|(code, _)| *code == control.code);
    let answered = known.is_some_and(|(_, bit)| ANSWERED.load(Ordering::Acquire) & bit != 0);
    line(format_args!("asked code={:#x} answered={answered} output={}", control.code, control.output));
    if !answered || control.output != size_of::<PDXGK_INITIALIZE>() {
        return wdm::complete(irp, STATUS_INVALID_DEVICE_REQUEST, 0);
    }
    // SAFETY: a valid request.
    let output = unsafe { (*irp).UserBuffer }.cast::<PDXGK_INITIALIZE>();
    // SAFETY: METHOD_NEITHER passes the asking driver's own buffer, which has space for a function.
    unsafe { output.write(initialize) };
    wdm::complete(irp, STATUS_SUCCESS, size_of::<PDXGK_INITIALIZE>())
}

/// DxgkInitialize: keeps what is needed for the driver's end, takes over its unloading as the graphics kernel does, and says what came.
/// [dispmprt: DxgkInitialize]
unsafe extern "win64" fn initialize(
    driver: PDRIVER_OBJECT,
    path: *mut UNICODE_STRING,
    data: *mut DRIVER_INITIALIZATION_DATA,
) -> NTSTATUS {
    // SAFETY: the driver passes its object, which nothing else uses during DriverEntry.
    let object = unsafe { &mut *driver.cast::<DriverObject>() };
    // SAFETY: the driver passes a table.
    let data = unsafe { data.read() };
    let start = object.DriverStart.addr();
    // SAFETY: the driver passes the string that it was given.
    let path = unsafe { crate::text(path) };
    line(format_args!(
        "registered version={:#x} base={start:#x} size={:#x} path={}",
        data.Version,
        object.DriverSize,
        Wide(path)
    ));
    // SAFETY: behind the version, the table consists of as many pointers.
    let slots = unsafe { (&raw const data).wrapping_byte_add(8).cast::<[usize; SLOT_NAMES.len()]>().read() };
    for (name, slot) in SLOT_NAMES.iter().zip(slots).filter(|(_, slot)| *slot != 0) {
        // An address outside of the image gives a number that no image is large enough for.
        line(format_args!("slot {name} {:#x}", slot.wrapping_sub(start)));
    }
    UNLOAD.store(data.DxgkDdiUnload.map_or(0, |unload| unload as usize), Ordering::Release);
    START.store(object.DriverStart, Ordering::Release);
    SIZE.store(object.DriverSize as usize, Ordering::Release);
    line(format_args!("own-unload {}", object.DriverUnload.is_some()));
    object.DriverUnload = Some(unload);
    STATUS_SUCCESS
}

/// DriverUnload of the registered driver.
unsafe extern "win64" fn unload(driver: *mut DriverObject) {
    SIZE.store(0, Ordering::Release);
    let function = UNLOAD.swap(0, Ordering::AcqRel);
    // SAFETY: the system passes its driver object.
    let start = unsafe { (*driver).DriverStart };
    if function != 0 {
        // SAFETY: the table had this function in this slot.
        let function = unsafe { core::mem::transmute::<usize, unsafe extern "win64" fn()>(function) };
        // SAFETY: the driver has no devices, and nothing of it runs any more.
        unsafe { function() };
    }
    line(format_args!("unloaded base={:#x} called={}", start.addr(), function != 0));
}

/// Copies the registered driver's image to a buffer of so many bytes; status and number of bytes of the request.
pub(crate) fn copy_image(buffer: *mut u8, capacity: usize) -> (NTSTATUS, usize) {
    let size = SIZE.load(Ordering::Acquire);
    if size == 0 || capacity < size {
        return (STATUS_BUFFER_TOO_SMALL, 0);
    }
    // SAFETY: the request has a buffer of this size; the image is loaded until `unload`, and every page of it can be read under Wine.
    unsafe { buffer.copy_from_nonoverlapping(START.load(Ordering::Acquire), size) };
    (STATUS_SUCCESS, size)
}
