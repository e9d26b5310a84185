// UNSAFETY: DDIs, whose arguments are raw pointers, and mistakes in them.
//! Mistakes that are made after DriverEntry: the image registers, starts its device as far as it takes, and errs.

use core::arch::asm;
use core::ffi::c_void;
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use crate::KeAcquireSpinLockRaiseToDpc;

/// Name of the service and what its table has that others have not.
pub(crate) const MISTAKES: &[(&str, fn(&mut DRIVER_INITIALIZATION_DATA))] = &[
    ("in-add-device", |table| table.DxgkDdiAddDevice = Some(in_add_device)),
    ("in-isr", |table| table.DxgkDdiInterruptRoutine = Some(in_isr)),
    ("in-synchronized", |table| table.DxgkDdiQueryAdapterInfo = Some(synchronizes)),
    ("in-dpc-with-lock", |table| {
        table.DxgkDdiDpcRoutine = Some(in_dpc_with_lock);
        table.DxgkDdiQueryAdapterInfo = Some(waits_for_lock);
    }),
    ("bad-callback", |table| table.DxgkDdiStartDevice = Some(bad_callback)),
    ("freed-argument", |table| table.DxgkDdiStartDevice = Some(freed_argument)),
    ("short-argument", |table| table.DxgkDdiStartDevice = Some(short_argument)),
    ("overwrite-and-fault", |table| table.DxgkDdiQueryAdapterInfo = Some(overwrite_and_fault)),
    ("overwrite-and-call", |table| table.DxgkDdiQueryAdapterInfo = Some(overwrite_and_call)),
    ("loop-in-start", |table| table.DxgkDdiStartDevice = Some(loop_in_start)),
    ("loop-in-isr", |table| table.DxgkDdiInterruptRoutine = Some(loop_in_isr)),
    ("loop-in-dpc", |table| table.DxgkDdiDpcRoutine = Some(loop_in_dpc)),
    ("freed-in-service", |table| table.DxgkDdiStartDevice = Some(freed_in_service)),
];

static REGISTERS: AtomicPtr<u32> = AtomicPtr::new(null_mut());
static HANDLE_OF_DEVICE: AtomicUsize = AtomicUsize::new(0);
static INTERFACE: AtomicPtr<DXGKRNL_INTERFACE> = AtomicPtr::new(null_mut());
static LOCK: AtomicUsize = AtomicUsize::new(0);
static LOCKED: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicBool = AtomicBool::new(false);

/// Any address but NULL.
fn context() -> *mut c_void {
    (&raw const CONTEXT).cast_mut().cast()
}

static CONTEXT: u8 = 0;

unsafe extern "win64" fn add_device(_: *mut c_void, place: *mut *mut c_void) -> NTSTATUS {
    // SAFETY: the system passes a place for the context.
    unsafe { place.write(context()) };
    STATUS_SUCCESS
}

#[inline(never)]
unsafe extern "win64" fn in_add_device(_: *mut c_void, _: *mut *mut c_void) -> NTSTATUS {
    let place = black_box(null_mut::<u32>());
    // SAFETY: none, NULL is not writable.
    unsafe { place.write_volatile(1) }; // in-add-device
    STATUS_SUCCESS
}

/// Keeps what StartDevice gets.
///
/// # Safety
/// The interface is the system's.
unsafe fn keep(interface: *mut DXGKRNL_INTERFACE) -> DXGKRNL_INTERFACE {
    static mut KEPT: MaybeUninit<DXGKRNL_INTERFACE> = MaybeUninit::uninit();
    // SAFETY: the system passes its interface.
    let interface = unsafe { interface.read() };
    let kept = (&raw mut KEPT).cast::<DXGKRNL_INTERFACE>();
    // SAFETY: nothing reads it before INTERFACE is set.
    unsafe { kept.write(interface) };
    HANDLE_OF_DEVICE.store(interface.DeviceHandle.addr(), Ordering::Release);
    INTERFACE.store(kept, Ordering::Release);
    interface
}

fn interface() -> (DXGKRNL_INTERFACE, HANDLE) {
    // SAFETY: StartDevice has set it, and it stays as it is.
    let interface = unsafe { INTERFACE.load(Ordering::Acquire).read() };
    (interface, core::ptr::without_provenance_mut(HANDLE_OF_DEVICE.load(Ordering::Acquire)))
}

unsafe extern "win64" fn start_device(
    _: *mut c_void,
    _: *mut DXGK_START_INFO,
    given: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    // SAFETY: the system passes its interface.
    let interface = unsafe { keep(given) };
    let handle = interface.DeviceHandle;
    let mut info = DXGK_DEVICE_INFO::zeroed();
    let Some(information) = interface.DxgkCbGetDeviceInformation else { return STATUS_UNSUCCESSFUL };
    // SAFETY: handle and place are good.
    let _ = unsafe { information(handle, &raw mut info) };
    // SAFETY: the list lives as long as the adapter.
    let list = unsafe { info.TranslatedResourceList.read() };
    let [registers, ..] = list.PartialDescriptors;
    // SAFETY: the first descriptor is memory.
    let start = unsafe { registers.u.Memory.Start };
    let mut mapped = null_mut();
    let Some(map) = interface.DxgkCbMapMemory else { return STATUS_UNSUCCESSFUL };
    // SAFETY: handle and place are good.
    let status = unsafe { map(handle, start, 4096, 0, 0, MEMORY_CACHING_TYPE::MmNonCached, &raw mut mapped) };
    REGISTERS.store(mapped.cast(), Ordering::Release);
    // SAFETY: the system passes places for both numbers.
    unsafe { sources.write(0) };
    // SAFETY: as above.
    unsafe { children.write(0) };
    status
}

/// Makes the device interrupt once, when the interrupt is connected.
fn ring(args: *const DXGKARG_QUERYADAPTERINFO) -> bool {
    let registers = REGISTERS.load(Ordering::Acquire);
    // SAFETY: the system passes the structure.
    let kind = unsafe { (*args).Type };
    let now = kind == DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_DRIVERCAPS && !registers.is_null();
    if now {
        // SAFETY: the registers are mapped.
        unsafe { registers.write_volatile(1) };
    }
    now
}

unsafe extern "win64" fn query_adapter_info(_: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    if ring(args) {
        // What was interrupted for stops the machine, and with it this call as soon as it asks for anything.
        wait(&AtomicBool::new(false));
    }
    STATUS_NOT_SUPPORTED
}

/// Waits until the flag is set or the machine stops. A service that finds it stopped does not return.
fn wait(flag: &AtomicBool) {
    let (interface, handle) = interface();
    while !flag.load(Ordering::Acquire) {
        if let Some(information) = interface.DxgkCbGetDeviceInformation {
            let mut info = DXGK_DEVICE_INFO::zeroed();
            // SAFETY: handle and place are good.
            let _ = unsafe { information(handle, &raw mut info) };
        }
    }
}

unsafe extern "win64" fn interrupt_routine(_: *mut c_void, _: u32) -> BOOLEAN {
    let (interface, handle) = interface();
    // SAFETY: the handle is good.
    interface.DxgkCbQueueDpc.map_or(0, |queue| unsafe { queue(handle) })
}

#[inline(never)]
unsafe extern "win64" fn in_isr(_: *mut c_void, _: u32) -> BOOLEAN {
    let place = black_box(null_mut::<u32>());
    // SAFETY: none, NULL is not writable.
    unsafe { place.write_volatile(1) }; // in-isr
    1
}

unsafe extern "win64" fn dpc_routine(_: *mut c_void) {}

#[inline(never)]
unsafe extern "win64" fn loop_in_isr(_: *mut c_void, _: u32) -> BOOLEAN {
    // SAFETY: a jump to itself.
    unsafe { asm!("2: jmp 2b", options(nomem, nostack)) }; // loop-in-isr
    1
}

/// Waits for a register that takes the device a while, and never becomes 0.
#[inline(never)]
unsafe extern "win64" fn loop_in_dpc(_: *mut c_void) {
    let registers = REGISTERS.load(Ordering::Acquire);
    // SAFETY: the registers are mapped.
    while unsafe { registers.add(1).read_volatile() } != 0 {}
}

#[inline(never)]
unsafe extern "win64" fn routine(_: *mut c_void) -> BOOLEAN {
    let place = black_box(with_exposed_provenance_mut::<u32>(0x7fff_ffff_f120));
    // SAFETY: none, nothing is there.
    black_box(unsafe { place.read_volatile() }); // in-synchronized
    1
}

unsafe extern "win64" fn synchronizes(_: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let kind = unsafe { (*args).Type };
    if kind == DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_DRIVERCAPS {
        let (interface, handle) = interface();
        let mut result = 0;
        if let Some(synchronize) = interface.DxgkCbSynchronizeExecution {
            // SAFETY: all arguments are good.
            let _ = unsafe { synchronize(handle, Some(routine), null_mut(), 0, &raw mut result) };
        }
    }
    STATUS_NOT_SUPPORTED
}

/// Faults with the lock that [`waits_for_lock`] waits for.
#[inline(never)]
unsafe extern "win64" fn in_dpc_with_lock(_: *mut c_void) {
    // SAFETY: DISPATCH_LEVEL, and the lock lives for ever.
    unsafe { KeAcquireSpinLockRaiseToDpc(LOCK.as_ptr()) };
    LOCKED.store(true, Ordering::Release);
    while !WAITING.load(Ordering::Acquire) {
        core::hint::spin_loop();
    }
    let place = black_box(null_mut::<u32>());
    // SAFETY: none, NULL is not writable.
    unsafe { place.write_volatile(1) }; // in-dpc-with-lock
}

unsafe extern "win64" fn waits_for_lock(_: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    if ring(args) {
        wait(&LOCKED);
        WAITING.store(true, Ordering::Release);
        // SAFETY: PASSIVE_LEVEL, and the lock lives for ever. It never comes free.
        unsafe { KeAcquireSpinLockRaiseToDpc(LOCK.as_ptr()) };
    }
    STATUS_NOT_SUPPORTED
}

type Start = (*mut c_void, *mut DXGK_START_INFO, *mut DXGKRNL_INTERFACE, *mut u32, *mut u32);

/// DxgkCbGetDeviceInformation with a place.
#[inline(never)]
fn information(start: Start, place: *mut DXGK_DEVICE_INFO) -> NTSTATUS {
    // SAFETY: the system passes its interface.
    let interface = unsafe { start.2.read() };
    let Some(information) = interface.DxgkCbGetDeviceInformation else { return STATUS_UNSUCCESSFUL };
    // SAFETY: none, the place is bad.
    black_box(unsafe { information(interface.DeviceHandle, place) }) // callback
}

/// Defines a StartDevice that runs a mistake.
macro_rules! starts {
    ($name:ident: $mistake:expr) => {
        unsafe extern "win64" fn $name(
            context: *mut c_void,
            info: *mut DXGK_START_INFO,
            interface: *mut DXGKRNL_INTERFACE,
            sources: *mut u32,
            children: *mut u32,
        ) -> NTSTATUS {
            let mistake: fn(Start) -> NTSTATUS = $mistake;
            mistake((context, info, interface, sources, children))
        }
    };
}

starts!(bad_callback: |start| information(start, with_exposed_provenance_mut(0x7fff_ffff_f120)));
/// Overwrites the frames of the kernel below a variable of the function that calls QueryAdapterInfo.
fn overwrite(variable: *const DXGKARG_QUERYADAPTERINFO) {
    const BYTES: usize = 16 << 10;
    let below = variable.cast_mut().wrapping_byte_sub(BYTES).cast::<u8>();
    // SAFETY: none, what is there belongs to the kernel.
    unsafe { below.write_bytes(0, BYTES) };
}

unsafe extern "win64" fn overwrite_and_call(_: *mut c_void, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    overwrite(args);
    crate::mistakes::block(16);
    STATUS_SUCCESS
}

unsafe extern "win64" fn overwrite_and_fault(_: *mut c_void, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    overwrite(args);
    // SAFETY: none, NULL is not writable.
    unsafe { black_box(null_mut::<u32>()).write_volatile(1) };
    STATUS_SUCCESS
}

starts!(loop_in_start: |_| {
    // SAFETY: a jump to itself.
    unsafe { asm!("2: jmp 2b", options(nomem, nostack)) }; // loop-in-start
    STATUS_SUCCESS
});
starts!(freed_argument: |start| {
    let block = crate::mistakes::block(size_of::<DXGK_DEVICE_INFO>());
    // SAFETY: the block came from the pool with this tag.
    unsafe { crate::ExFreePoolWithTag(block.cast(), crate::mistakes::TAG) };
    information(start, block.cast())
});
starts!(short_argument: |start| information(start, crate::mistakes::block(size_of::<DXGK_DEVICE_INFO>() - 16).cast()));
starts!(freed_in_service: |_| {
    let block = crate::mistakes::block(64);
    // SAFETY: the block came from the pool with this tag.
    unsafe { crate::ExFreePoolWithTag(block.cast(), crate::mistakes::TAG) };
    // SAFETY: none, the block is gone.
    unsafe { crate::memset(black_box(block), 0, 64) }; // freed-in-service
    STATUS_SUCCESS
});

macro_rules! trivial {
    ($table:ident: $($slot:ident($($ty:ty),*);)*) => {
        $($table.$slot = {
            unsafe extern "win64" fn trivial($(_: $ty),*) -> NTSTATUS {
                STATUS_SUCCESS
            }
            Some(trivial)
        };)*
    };
}

unsafe extern "win64" fn nothing() {}
unsafe extern "win64" fn nothing_with_context(_: *mut c_void) {}
unsafe extern "win64" fn no_logging(_: BOOLEAN, _: u32, _: u8) {}

/// The least that can be registered.
pub(crate) fn table() -> DRIVER_INITIALIZATION_DATA {
    let mut table = DRIVER_INITIALIZATION_DATA::zeroed();
    table.Version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
    table.DxgkDdiAddDevice = Some(add_device);
    table.DxgkDdiStartDevice = Some(start_device);
    table.DxgkDdiInterruptRoutine = Some(interrupt_routine);
    table.DxgkDdiDpcRoutine = Some(dpc_routine);
    table.DxgkDdiResetDevice = Some(nothing_with_context);
    table.DxgkDdiUnload = Some(nothing);
    table.DxgkDdiControlEtwLogging = Some(no_logging);
    table.DxgkDdiQueryAdapterInfo = Some(query_adapter_info);
    trivial! { table:
        DxgkDdiStopDevice(*mut c_void);
        DxgkDdiRemoveDevice(*mut c_void);
        DxgkDdiDispatchIoRequest(*mut c_void, u32, *mut c_void);
        DxgkDdiQueryChildRelations(*mut c_void, *mut DXGK_CHILD_DESCRIPTOR, u32);
        DxgkDdiQueryChildStatus(*mut c_void, *mut DXGK_CHILD_STATUS, BOOLEAN);
        DxgkDdiQueryDeviceDescriptor(*mut c_void, u32, *mut DXGK_DEVICE_DESCRIPTOR);
        DxgkDdiSetPowerState(*mut c_void, u32, DEVICE_POWER_STATE, i32);
        DxgkDdiQueryInterface(*mut c_void, *mut QUERY_INTERFACE);
        DxgkDdiGetNodeMetadata(HANDLE, u32, *mut DXGK_NODEMETADATA);
    }
    table
}
