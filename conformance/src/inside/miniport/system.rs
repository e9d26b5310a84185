// UNSAFETY: calls a driver's entry points, and answers its callbacks, with raw arguments.
//! The least operating system that drives a miniport through its registered table, above a device that is plain memory.
//!
//! Scheduler commands succeed at once and do nothing (their status register reads as zero); what a device would do, a case does:
//! it puts records into the event ring and calls the interrupt routine. Everything the driver reports is kept in order. Pool, locks and levels are those of the
//! machine that the case runs on, with their checks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::rc::Rc;

use campanile_hw::event::{self, Event, EventKind};
use campanile_hw::queue::{Location, QueueDescriptor, RING_ENTRY_SIZE, RingFlags};
use campanile_hw::registers::{self, Caps};
use dxgkrnl::irql::{self, Raised};
use dxgkrnl::{ContiguousMemory, RegisteredDriver};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::{DISPATCH_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::kernel_ring::KernelRing;
use super::report::read;
use crate::simulated::Case;

pub(crate) use super::report::Report;

/// Features that the system enables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) scheduling: bool,
    pub(crate) native_fence: bool,
    pub(crate) user_mode: bool,
    /// The system can place native fences of one GPU, and says so.
    pub(crate) intra_gpu: bool,
}

pub(crate) const ALL: Features = Features { scheduling: true, native_fence: true, user_mode: true, intra_gpu: false };

pub(crate) const VRAM: u64 = 16 << 20;
pub(crate) const REGISTERS: usize = 0x1_0000;

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) reports: Vec<Report>,
    /// Handles with which doorbells were taken away: (queue, doorbell).
    pub(crate) disconnected: Vec<(usize, usize)>,
    /// Handles of contexts that lost work.
    pub(crate) invalidated: Vec<usize>,
    /// Components whose transition was completed.
    pub(crate) completed_components: Vec<u32>,
    /// Memory types of the contiguous memory that was allocated.
    pub(crate) caching: Vec<DXGK_MEMORY_CACHING_TYPE>,
    pub(crate) dpc: bool,
    /// Mappings and contiguous memory that the driver was given and has not given back.
    given: isize,
    /// Rules of callbacks that the driver broke: a callback cannot end the case.
    broken: Vec<String>,
    /// Lines of the machine's debug log that were looked at.
    log_position: u64,
}

/// Text that every line of this driver has, behind the name under which it is loaded.
const DRIVER_PREFIX: &str = "campanile: DxgkDdi";

/// What the system does while it is told that a doorbell is taken away; false if it was refused.
type Meanwhile = Box<dyn FnMut() -> bool>;

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
    static MEANWHILE: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
}

/// Works on what was logged on this thread.
pub(crate) fn log<R>(body: impl FnOnce(&mut Log) -> R) -> R {
    LOG.with_borrow_mut(body)
}

/// Takes the reports made so far.
pub(crate) fn reports() -> Vec<Report> {
    let (reports, broken) = log(|log| (std::mem::take(&mut log.reports), std::mem::take(&mut log.broken)));
    assert!(broken.is_empty(), "{broken:?}");
    reports
}

/// Runs `body` inside the next DxgkCbDisconnectDoorbell.
pub(crate) fn on_disconnect(body: impl FnMut() -> bool + 'static) {
    MEANWHILE.set(Some(Box::new(body)));
}

/// Notes a broken rule of a callback.
fn broken(rule: String) {
    log(|log| log.broken.push(rule));
}

/// Notes that a callback came at another level than it may.
fn require(callback: &str, level: KIRQL, allowed: bool) {
    if !allowed {
        broken(format!("{callback} at IRQL {level}"));
    }
}

/// Runs `body` at a level.
pub(crate) fn level<R>(level: KIRQL, body: impl FnOnce() -> R) -> R {
    let _raised = Raised::to(level);
    body()
}

/// The driver of the machine that the case runs on.
fn driver(case: &Case<'_>) -> RegisteredDriver {
    case.system.machine().registered(case.system.driver()).expect("the driver is loaded")
}

/// Blocks of pool, mappings and contiguous memory that the driver has not given back.
pub(crate) fn allocations(case: &Case<'_>) -> isize {
    driver(case).pool_blocks() as isize + log(|log| log.given)
}

/// The lines that the driver has printed since the last look. The log of the machine has remarks of the system as well, which come at any time.
pub(crate) fn printed(case: &Case<'_>) -> Vec<String> {
    let (lines, seen) = driver(case).debug_log_since(log(|log| log.log_position));
    log(|log| log.log_position = seen);
    lines.into_iter().filter(|line| line.contains(DRIVER_PREFIX)).collect()
}

/// Calls a function of the driver.
pub(crate) fn called<R>(driver: &RegisteredDriver, name: &'static str, call: impl FnOnce() -> R) -> R {
    match driver.call(name, call) {
        Some(result) => result,
        None => panic!("{name}: the machine stopped: {:?}", driver.bugcheck()),
    }
}

/// One adapter and its device.
pub(crate) struct System {
    pub(crate) driver: Rc<RegisteredDriver>,
    pub(crate) table: DRIVER_INITIALIZATION_DATA,
    pub(crate) adapter: HANDLE,
    /// True if the adapter was removed.
    pub(super) removed: bool,
    /// Contiguous memory of the driver, by its handle.
    contiguous: RefCell<BTreeMap<usize, ContiguousMemory>>,
    registers: Vec<u64>,
    doorbells: Vec<u64>,
    vram: Vec<u64>,
    resources: Box<CM_RESOURCE_LIST>,
    features: Features,
}

macro_rules! ddi {
    ($system:expr, $slot:ident, $($arg:expr),* $(,)?) => {{
        let entry = $system.table.$slot.expect(stringify!($slot));
        // SAFETY: the driver's own entry point; the case passes what its prototype asks for.
        $crate::inside::miniport::system::called(&$system.driver, stringify!($slot), || unsafe { entry($($arg),*) })
    }};
}
pub(crate) use ddi;

impl System {
    /// A device with `doorbells` pages and an adapter that was added but not started.
    pub(crate) fn added(case: &Case<'_>, features: Features, doorbells: u32) -> Box<Self> {
        let driver = Rc::new(driver(case));
        let mut system = Box::new(Self {
            table: *driver.table(),
            driver,
            adapter: null_mut(),
            removed: false,
            contiguous: RefCell::default(),
            registers: vec![0; REGISTERS / 8],
            doorbells: vec![0; 512 * doorbells.max(1) as usize],
            vram: vec![0; VRAM as usize / 8],
            resources: Box::new(CM_RESOURCE_LIST::zeroed()),
            features,
        });
        let caps = Caps::new().with_atomics64(true).with_native_fence(true);
        system.set(registers::ID, u64::from(registers::ID_VALUE) | 1 << 32);
        system.set(registers::CAPS, u64::from(caps.into_bits()) | 3 << 32);
        system.set(registers::VRAM_SIZE, VRAM);
        system.set(registers::VRAM_WINDOW_SIZE, VRAM);
        system.set(registers::DOORBELL_COUNT, u64::from(doorbells) | 64 << 32);
        system.set(registers::CLOCK_HZ, 1_000_000);
        let ranges = [
            (system.registers.as_mut_ptr(), REGISTERS as u64),
            (system.doorbells.as_mut_ptr(), u64::from(doorbells.max(1)) * 4096),
            (system.vram.as_mut_ptr(), VRAM),
        ];
        system.resources.Count = 1;
        system.resources.PartialCount = 3;
        for (place, (start, size)) in system.resources.PartialDescriptors.iter_mut().zip(ranges) {
            place.Type = CM_PARTIAL_RESOURCE_DESCRIPTOR::MEMORY;
            let start = LARGE_INTEGER { QuadPart: start.expose_provenance() as i64 };
            place.u.Memory = CM_MEMORY_RESOURCE { Start: start, Length: size as u32 };
        }
        let mut adapter = null_mut();
        let object = system.driver.device_object();
        assert_eq!(ddi!(system, DxgkDdiAddDevice, object, &raw mut adapter), STATUS_SUCCESS);
        system.adapter = adapter;
        system
    }

    /// A started adapter.
    pub(crate) fn started(case: &Case<'_>, features: Features, doorbells: u32) -> Box<Self> {
        let mut system = Self::added(case, features, doorbells);
        assert_eq!(system.start(), STATUS_SUCCESS);
        system
    }

    pub(crate) fn start(&mut self) -> NTSTATUS {
        self.start_with_table_of(size_of::<DXGKRNL_INTERFACE>())
    }

    /// Starts the device with a table of callbacks that ends after so many bytes. What lies behind it, and is no callback, faults when it is called.
    pub(crate) fn start_with_table_of(&mut self, size: usize) -> NTSTATUS {
        const WORDS: usize = size_of::<DXGKRNL_INTERFACE>() / 8;
        let table = DXGKRNL_INTERFACE { Size: size as u32, ..self.interface() };
        let mut interface = [0x0bad_0bad_0bad_0bad_u64; WORDS + 8];
        let room = size.min(size_of_val(&table));
        // SAFETY: `room` bytes are in both, which do not overlap.
        unsafe { (&raw const table).cast::<u8>().copy_to_nonoverlapping(interface.as_mut_ptr().cast(), room) };
        let mut info = DXGK_START_INFO::zeroed();
        let (mut sources, mut children) = (9, 9);
        let status = ddi!(
            self,
            DxgkDdiStartDevice,
            self.adapter,
            &raw mut info,
            interface.as_mut_ptr().cast(),
            &raw mut sources,
            &raw mut children
        );
        assert_eq!((sources, children), (0, 0));
        status
    }

    fn interface(&mut self) -> DXGKRNL_INTERFACE {
        DXGKRNL_INTERFACE {
            Size: size_of::<DXGKRNL_INTERFACE>() as u32,
            DeviceHandle: (&raw mut *self).cast(),
            DxgkCbGetDeviceInformation: Some(device_information),
            DxgkCbMapMemory: Some(map_memory),
            DxgkCbUnmapMemory: Some(unmap_memory),
            DxgkCbQueueDpc: Some(queue_dpc),
            DxgkCbQueryServices: Some(query_services),
            DxgkCbSynchronizeExecution: Some(synchronize),
            DxgkCbNotifyInterrupt: Some(notify_interrupt),
            DxgkCbNotifyDpc: Some(notify_dpc),
            DxgkCbInvalidateHwContext: Some(invalidate_hw_context),
            DxgkCbAllocateContiguousMemory: Some(allocate_contiguous),
            DxgkCbFreeContiguousMemory: Some(free_contiguous),
            DxgkCbDisconnectDoorbell: Some(disconnect_doorbell),
            DxgkCbCompleteFStateTransition: Some(complete_f_state_transition),
            ..DXGKRNL_INTERFACE::zeroed()
        }
    }

    /// Writes 8 bytes of registers, as the device would.
    pub(crate) fn set(&mut self, register: u64, value: u64) {
        let place = &raw mut self.registers[register as usize / 8];
        // SAFETY: a word of the registers.
        unsafe { place.write_volatile(value) };
    }

    /// Reads 8 bytes of registers.
    pub(crate) fn get(&self, register: u64) -> u64 {
        let place = &raw const self.registers[register as usize / 8];
        // SAFETY: a word of the registers.
        unsafe { place.read_volatile() }
    }

    /// The event ring, where the driver told the device that it is.
    fn event_ring(&self) -> *mut u64 {
        let base = self.get(registers::EVENT_RING_BASE);
        let contiguous = self.contiguous.borrow();
        let ring = contiguous.values().find(|memory| memory.physical_address() == base);
        ring.expect("the event ring is contiguous memory").kernel_address().cast()
    }

    /// Puts a record into the event ring.
    pub(crate) fn event(&self, kind: EventKind, node: u8, queue: u32, data: [u64; 2]) {
        self.record(kind as u8, node, queue, data);
    }

    /// Puts a record of any kind into the event ring.
    pub(super) fn record(&self, kind: u8, node: u8, queue: u32, data: [u64; 2]) {
        let ring = self.event_ring();
        let entries = self.get(registers::EVENT_RING_ENTRIES) as u32;
        let word = |offset: u64| ring.wrapping_add(offset as usize / 8);
        let record = Event { kind, node, queue, data0: data[0], data1: data[1], timestamp: 0 };
        // SAFETY: the driver gave the device this memory.
        let write = unsafe { word(event::WRITE_POINTER).read_volatile() };
        let slot = event::HEADER_SIZE + write % u64::from(entries) * Event::SIZE as u64;
        for (bytes, offset) in record.to_bytes().as_chunks::<8>().0.iter().zip((0..).step_by(8)) {
            // SAFETY: a word of the record's slot.
            unsafe { word(slot + offset).write_volatile(u64::from_le_bytes(*bytes)) };
        }
        self.set_ring_word(event::WRITE_POINTER, write + 1);
    }

    /// Writes a word of the event ring's header.
    pub(super) fn set_ring_word(&self, offset: u64, value: u64) {
        // SAFETY: the driver gave the device this memory.
        unsafe { self.event_ring().wrapping_add(offset as usize / 8).write_volatile(value) };
    }

    /// The 8 bytes at this offset of VRAM.
    pub(super) fn vram_word(&self, offset: u64) -> u64 {
        let place = &raw const self.vram[offset as usize / 8];
        // SAFETY: a word of VRAM.
        unsafe { place.read_volatile() }
    }

    /// The words of entry `number` of a node's ring: address, size and flags of the command buffer, tag, root.
    pub(crate) fn entry_words(&self, node: u32, number: usize) -> [u64; 4] {
        let descriptor = self.get(registers::QUEUE_TABLE_BASE) + u64::from(node) * QueueDescriptor::SIZE as u64;
        let entry = self.vram_word(descriptor) + number as u64 * RING_ENTRY_SIZE;
        [0, 8, 16, 24].map(|offset| self.vram_word(entry + offset))
    }

    /// Address and size of the command buffer that entry `number` of a node's ring names.
    pub(crate) fn entry(&self, node: u32, number: usize) -> (u64, u32) {
        let [address, size, ..] = self.entry_words(node, number);
        (address, size as u32)
    }

    /// Flags of entry `number` of a node's ring.
    pub(crate) fn entry_flags(&self, node: u32, number: usize) -> RingFlags {
        RingFlags::from_bits((self.entry_words(node, number)[1] >> 32) as u32)
    }

    /// Control page, with the ring behind it, of the queue with this number, which the kernel writes.
    pub(crate) fn kernel_ring(&self, queue: u32) -> KernelRing {
        let descriptor = self.get(registers::QUEUE_TABLE_BASE) + u64::from(queue) * QueueDescriptor::SIZE as u64;
        let control = Location::from_bits(self.vram_word(descriptor + 8)).address();
        let contiguous = self.contiguous.borrow();
        let memory = contiguous.get(&(control as usize)).expect("the ring of a queue is contiguous memory");
        KernelRing::at(memory.kernel_address().cast())
    }

    /// Write and read pointer of the event ring.
    pub(crate) fn ring_pointers(&self) -> [u64; 2] {
        let ring = self.event_ring();
        [event::WRITE_POINTER, event::READ_POINTER].map(|offset| {
            // SAFETY: the driver gave the device this memory.
            unsafe { ring.wrapping_add(offset as usize / 8).read_volatile() }
        })
    }

    /// Retires the packet with `fence` on `node`, in the driver's first epoch unless told otherwise.
    pub(crate) fn retire(&self, node: u32, fence: u32, epoch: u32) {
        self.event(EventKind::Retired, node as u8, node, [u64::from(fence) | u64::from(epoch) << 32, 0]);
    }

    /// The interrupt routine, then the DPC if it was queued.
    pub(crate) fn interrupt(&self) {
        self.interrupt_routine();
        self.run_dpc();
    }

    /// The interrupt routine alone.
    pub(crate) fn interrupt_routine(&self) {
        let mine = level(5, || ddi!(self, DxgkDdiInterruptRoutine, self.adapter, 0));
        assert_eq!(mine, 1);
    }

    /// Runs the DPC if it was queued.
    pub(crate) fn run_dpc(&self) {
        while log(|log| std::mem::take(&mut log.dpc)) {
            level(2, || ddi!(self, DxgkDdiDpcRoutine, self.adapter));
        }
    }

    /// Stops and removes the adapter.
    pub(crate) fn remove(&mut self) {
        assert_eq!(ddi!(self, DxgkDdiStopDevice, self.adapter), STATUS_SUCCESS);
        self.remove_stopped();
    }

    /// Removes the adapter, which is stopped or was never started.
    pub(crate) fn remove_stopped(&mut self) {
        assert_eq!(ddi!(self, DxgkDdiRemoveDevice, self.adapter), STATUS_SUCCESS);
        self.removed = true;
        reports();
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if !self.removed && !std::thread::panicking() {
            self.remove();
        }
    }
}

/// Serves a callback of the driver that came with a device handle.
///
/// # Safety
/// The handle is the one given at start.
unsafe fn serve<R>(device: HANDLE, answer: impl FnOnce(&System) -> R) -> R {
    // SAFETY: device handles are boxed systems, which the cases keep until their adapter is removed.
    let system = unsafe { &*device.cast::<System>() };
    RegisteredDriver::serve(|| answer(system))
}

unsafe extern "win64" fn device_information(device: HANDLE, info: *mut DXGK_DEVICE_INFO) -> NTSTATUS {
    // SAFETY: the handle is the one given at start.
    let resources = unsafe { serve(device, |system| (&raw const *system.resources).cast_mut()) };
    // SAFETY: the driver passes its own structure.
    unsafe { (*info).TranslatedResourceList = resources };
    STATUS_SUCCESS
}

unsafe extern "win64" fn map_memory(
    _device: HANDLE,
    address: PHYSICAL_ADDRESS,
    _len: u32,
    _io: BOOLEAN,
    _user: BOOLEAN,
    _cache: MEMORY_CACHING_TYPE,
    mapped: *mut *mut c_void,
) -> NTSTATUS {
    RegisteredDriver::serve(|| log(|log| log.given += 1));
    // SAFETY: the driver passes its own variable.
    unsafe { *mapped = with_exposed_provenance_mut(address.QuadPart as usize) };
    STATUS_SUCCESS
}

unsafe extern "win64" fn unmap_memory(_device: HANDLE, _mapped: *mut c_void) -> NTSTATUS {
    RegisteredDriver::serve(|| log(|log| log.given -= 1));
    STATUS_SUCCESS
}

unsafe extern "win64" fn allocate_contiguous(
    device: HANDLE,
    args: *mut DXGKARGCB_ALLOCATECONTIGUOUSMEMORY,
) -> NTSTATUS {
    // SAFETY: the driver passes its own structure.
    let args = unsafe { &mut *args };
    let (bytes, caching) = (args.NumberOfBytes, args.CacheType);
    let allocate = |system: &System| {
        require("DxgkCbAllocateContiguousMemory", irql::current(), irql::current() < DISPATCH_LEVEL);
        log(|log| {
            log.caching.push(caching);
            log.given += 1;
        });
        let memory = system.driver.allocate_contiguous(bytes)?;
        let (address, handle) = (memory.kernel_address(), memory.physical_address() as usize);
        system.contiguous.borrow_mut().insert(handle, memory);
        Some((address, handle))
    };
    // SAFETY: the handle is the one given at start.
    let Some((address, handle)) = (unsafe { serve(device, allocate) }) else { return STATUS_NO_MEMORY };
    args.pMemory = address.cast();
    args.hMemoryHandle = std::ptr::without_provenance_mut(handle);
    STATUS_SUCCESS
}

unsafe extern "win64" fn free_contiguous(device: HANDLE, args: *const DXGKARGCB_FREECONTIGUOUSMEMORY) -> NTSTATUS {
    // SAFETY: the driver passes its own structure.
    let handle = unsafe { (*args).hMemoryHandle }.addr();
    let free = |system: &System| {
        require("DxgkCbFreeContiguousMemory", irql::current(), irql::current() < DISPATCH_LEVEL);
        log(|log| log.given -= 1);
        if system.contiguous.borrow_mut().remove(&handle).is_none() {
            broken(format!("DxgkCbFreeContiguousMemory of {handle:#x}, which is not the driver's"));
        }
    };
    // SAFETY: the handle is the one given at start.
    unsafe { serve(device, free) };
    STATUS_SUCCESS
}

unsafe extern "win64" fn queue_dpc(_device: HANDLE) -> BOOLEAN {
    RegisteredDriver::serve(|| BOOLEAN::from(!log(|log| std::mem::replace(&mut log.dpc, true))))
}

unsafe extern "win64" fn notify_dpc(_device: HANDLE) {}

unsafe extern "win64" fn query_services(device: HANDLE, services: DXGK_SERVICES, out: *mut INTERFACE) -> NTSTATUS {
    if services != DXGK_SERVICES::DxgkServicesFeature {
        return STATUS_NOT_SUPPORTED;
    }
    // SAFETY: the driver passes the structure that the services name.
    let out = unsafe { &mut *out.cast::<DXGK_FEATURE_INTERFACE>() };
    out.IsFeatureEnabled = Some(is_feature_enabled);
    // SAFETY: the handle is the one given at start.
    if unsafe { serve(device, |system| system.features.intra_gpu) } {
        out.QueryFeatureInterface = Some(query_feature_interface);
    }
    STATUS_SUCCESS
}

unsafe extern "win64" fn query_feature_interface(
    _device: HANDLE,
    args: *mut DXGKARGCB_QUERYFEATUREINTERFACE,
) -> NTSTATUS {
    // SAFETY: the driver passes its own structure.
    let args = unsafe { &mut *args };
    let asked = (args.FeatureId, usize::from(args.InterfaceSize));
    if asked != (DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE, size_of::<DXGKCBINT_FEATURE_NATIVEFENCE_1>()) {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: the driver's own place for the table, of the size that was asked for.
    unsafe { args.Interface.cast::<DXGKCBINT_FEATURE_NATIVEFENCE_1>().write(NATIVE_FENCE_CALLBACKS) };
    STATUS_SUCCESS
}

const NATIVE_FENCE_CALLBACKS: DXGKCBINT_FEATURE_NATIVEFENCE_1 =
    DXGKCBINT_FEATURE_NATIVEFENCE_1 { GetOSCaps: Some(get_os_caps) };

unsafe extern "win64" fn get_os_caps(caps: *mut DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1) -> NTSTATUS {
    let known = DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1::new().with_SupportIntraGpuFenceType(true);
    // SAFETY: the driver's own place for the capabilities.
    unsafe { caps.write(known) };
    STATUS_SUCCESS
}

unsafe extern "win64" fn is_feature_enabled(device: HANDLE, args: *mut DXGKARGCB_ISFEATUREENABLED2) -> NTSTATUS {
    // SAFETY: the handle is the one given at start.
    let features = unsafe { serve(device, |system| system.features) };
    // SAFETY: the driver passes its own structure.
    let args = unsafe { &mut *args };
    let enabled = match args.FeatureId {
        DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH => features.scheduling,
        DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE => features.native_fence,
        DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION => features.user_mode,
        _ => return STATUS_INVALID_PARAMETER,
    };
    args.Result.Version = 1;
    args.Result.Bits = DXGK_ISFEATUREENABLED_RESULT_Bits::new().with_Enabled(enabled);
    STATUS_SUCCESS
}

unsafe extern "win64" fn synchronize(
    device: HANDLE,
    routine: PKSYNCHRONIZE_ROUTINE,
    context: *mut c_void,
    message: u32,
    result: *mut BOOLEAN,
) -> NTSTATUS {
    let Some(routine) = routine else { return STATUS_INVALID_PARAMETER };
    let run = |system: &System| {
        if message != 0 {
            broken(format!("DxgkCbSynchronizeExecution with message {message} of 1"));
        }
        // SAFETY: the driver's own routine and context.
        level(irql::DEVICE_LEVEL, || system.driver.call("a synchronised routine", || unsafe { routine(context) }))
    };
    // SAFETY: the handle is the one given at start.
    let Some(returned) = (unsafe { serve(device, run) }) else { return STATUS_DEVICE_REMOVED };
    // SAFETY: the driver's own variable.
    unsafe { *result = returned };
    STATUS_SUCCESS
}

unsafe extern "win64" fn notify_interrupt(_device: HANDLE, data: *const DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
    let at = irql::current();
    let note = || {
        require("DxgkCbNotifyInterrupt", at, at == irql::DEVICE_LEVEL);
        // SAFETY: the driver passes filled data for the length of the call.
        let data = unsafe { &*data };
        // SAFETY: the driver filled the arm that the type selects.
        match unsafe { read(data) } {
            Ok(report) => log(|log| log.reports.push(report)),
            Err(other) => broken(format!("a report of {other:?}")),
        }
    };
    RegisteredDriver::serve(note);
}

unsafe extern "win64" fn complete_f_state_transition(_device: HANDLE, component: u32) {
    RegisteredDriver::serve(|| log(|log| log.completed_components.push(component)));
}

unsafe extern "win64" fn invalidate_hw_context(args: *const DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS {
    // SAFETY: the driver passes its own structure.
    let context = unsafe { (*args).hHwContext }.addr();
    RegisteredDriver::serve(|| log(|log| log.invalidated.push(context)));
    STATUS_SUCCESS
}

unsafe extern "win64" fn disconnect_doorbell(args: *const DXGKARGCB_DISCONNECTDOORBELL) -> NTSTATUS {
    // SAFETY: the driver passes its own structure.
    let args = unsafe { &*args };
    RegisteredDriver::serve(|| {
        require("DxgkCbDisconnectDoorbell", irql::current(), irql::current() == PASSIVE_LEVEL);
        let reason = args.DisconnectReason;
        if reason != D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY {
            broken(format!("a doorbell that another queue takes is disconnected with {reason:?}"));
        }
        log(|log| log.disconnected.push((args.hHwQueue.addr(), args.hDoorbell.addr())));
        if MEANWHILE.take().is_some_and(|mut body| !body()) {
            broken("what the system did inside DxgkCbDisconnectDoorbell was refused".into());
        }
    });
    STATUS_SUCCESS
}
