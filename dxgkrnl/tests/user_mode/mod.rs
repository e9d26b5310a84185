//! The minimal miniport with native fences, user-mode queues, one physical doorbell and suspension.
//!
//! There is no GPU: a test plays it, with [`World::signal`] and [`World::report`]. What the driver is asked to do is
//! written down.

pub(crate) mod app;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dxgkrnl::bus::Bus;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::minimal::bus::{FakeBus, REPORT};
use super::minimal::driver::{self, allocate, free, imports};
use super::minimal::{Adapter, Mutant, SOUND};

/// Where the doorbell page lies in VRAM, behind the segment.
const DOORBELL: i64 = 4 << 20;

/// A driver object: pool that begins as the minimal driver's objects do.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) adapter: *mut c_void,
    /// The system's handle.
    pub(crate) system: usize,
    /// The system's handle of the object it belongs to.
    pub(crate) owner: usize,
}

/// A doorbell that has the page.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Connection {
    /// Address of the doorbell's object.
    object: usize,
    /// The system's handles.
    queue: usize,
    doorbell: usize,
    /// Which connection it is: a doorbell that connects again has another one.
    number: u64,
}

/// What the driver did and is to do, for one adapter.
#[derive(Default)]
pub(crate) struct World {
    /// DDIs in the order they were called.
    pub(crate) calls: Mutex<Vec<&'static str>>,
    /// Reports of the next interrupt, oldest first.
    reports: Mutex<VecDeque<Report>>,
    /// MonitoredValue of each native fence, by the system's handle.
    monitored: Mutex<HashMap<usize, Arc<AtomicU64>>>,
    /// The system's handles of native fences, queues and doorbells in the order of their creation.
    pub(crate) created: Mutex<Vec<usize>>,
    /// Calls of DxgkDdiUpdateMonitoredValues.
    pub(crate) updates: AtomicU64,
    /// Runs in the next DxgkDdiUpdateMonitoredValues, once the new values are written.
    pub(crate) during_update: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Runs in the next DxgkDdiCreateDoorbell.
    pub(crate) during_creation: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// DxgkDdiUpdateMonitoredValues is under way.
    updating: AtomicBool,
    /// Calls of the interrupt routine, and those of them that came during an update of monitored values.
    pub(crate) interrupts: AtomicU64,
    pub(crate) overlaps: AtomicU64,
    /// Values and flags of DxgkDdiUpdateCurrentValuesFromCpu.
    pub(crate) currents: Mutex<Vec<(u64, u32)>>,
    /// Fences and addresses of each call that updates values, oldest first.
    pub(crate) batches: Mutex<Vec<Batch>>,
    /// Addresses in the paging process of each fence that was created.
    pub(crate) system_addresses: Mutex<Vec<(u64, u64)>>,
    /// Capabilities of the operating system for native fences, as the driver got them in StartDevice.
    pub(crate) os_caps: Mutex<DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1>,
    /// What this driver says about storage of fences; system memory unless a test wants otherwise.
    pub(crate) storage: Mutex<Option<StorageAnswer>>,
    /// Values and types of fences that the system asked about storage for.
    pub(crate) storage_asked: Mutex<Vec<(i32, i32)>>,
    /// Types of the fences that were created.
    pub(crate) types: Mutex<Vec<i32>>,
    /// Addresses of log buffers: in the process, in the paging process.
    pub(crate) log_addresses: Mutex<Vec<(u64, u64)>>,
    /// Addresses of fences in their processes: current, monitored.
    pub(crate) opened: Mutex<Vec<(u64, u64)>>,
    /// The driver's handles of fences that were opened: global, local; and of those that were closed and destroyed.
    pub(crate) locals: Mutex<Vec<(usize, usize)>>,
    pub(crate) closed: Mutex<Vec<usize>>,
    pub(crate) destroyed: Mutex<Vec<usize>>,
    /// The doorbell that is connected to the physical page.
    page: Mutex<Option<Connection>>,
    /// Connections that were made.
    connections: AtomicU64,
    /// Kernel address of the page.
    doorbell: AtomicU64,
    /// Status that DxgkDdiConnectDoorbell answers.
    pub(crate) connect_status: AtomicU64,
    /// The driver keeps suspensions to itself.
    pub(crate) ignore_suspend: AtomicBool,
    /// Log buffers as DxgkDdiSetNativeFenceLogBuffer told of them.
    pub(crate) logs: Mutex<Vec<LogBuffer>>,
    /// Queues of each DxgkDdiUpdateNativeFenceLogs, by the system's handles.
    pub(crate) flushes: Mutex<Vec<Vec<usize>>>,
    /// The system's handles of hardware contexts in the order of their creation.
    pub(crate) contexts: Mutex<Vec<usize>>,
    /// The driver's handle of each queue by the system's.
    pub(crate) queues: Mutex<HashMap<usize, usize>>,
    /// Answers of DDIs that fail, by name.
    pub(crate) failing: Mutex<HashMap<&'static str, NTSTATUS>>,
}

/// An answer to DxgkDdiGetStandardAllocationDriverData for storage of fences.
pub(crate) type StorageAnswer = fn(&mut D3DKMDT_FENCESTORAGESURFACEDATA) -> NTSTATUS;

/// One call of DxgkDdiUpdateMonitoredValues or DxgkDdiUpdateCurrentValuesFromCpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) monitored: bool,
    /// The system's handle of each fence and its value.
    pub(crate) values: Vec<(usize, u64)>,
    /// Kernel addresses that were good during the call.
    pub(crate) addresses: Vec<usize>,
}

/// A log buffer of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogBuffer {
    /// The system's handle of the queue.
    pub(crate) queue: usize,
    /// 1 for waits, 2 for signals: what the header says.
    pub(crate) kind: i32,
    pub(crate) entries: u32,
    /// NumberOfEntries of the header.
    pub(crate) header_entries: u64,
    /// Kernel address.
    pub(crate) address: usize,
    pub(crate) gpu: u64,
}

impl LogBuffer {
    fn word(&self, offset: usize) -> &AtomicU64 {
        let place = std::ptr::with_exposed_provenance::<AtomicU64>(self.address + offset);
        // SAFETY: tests write to buffers that the system keeps.
        unsafe { &*place }
    }

    /// The GPU writes to entry `index` out of order.
    pub(crate) fn stray(&self, index: u32) {
        self.word(40 + 48 * index as usize).store(1, Ordering::SeqCst);
    }

    /// The GPU writes an entry and then the position, as hardware does.
    pub(crate) fn write(&self, handle: u32, value: u64, end: u64) {
        let position = self.word(0).load(Ordering::SeqCst);
        let (index, wraps) = (position as u32, (position >> 32) as u32);
        let operation = u64::from(self.kind == 1);
        let entry = [value, u64::from(handle) | operation << 32, 0, 0, 0, end];
        for (word, offset) in entry.into_iter().zip((40 + 48 * index as usize..).step_by(8)) {
            self.word(offset).store(word, Ordering::SeqCst);
        }
        let next = if index + 1 == self.entries { u64::from(wraps + 1) << 32 } else { position + 1 };
        self.word(0).store(next, Ordering::SeqCst);
    }
}

/// What this driver does to the private data of a fence: the creation adds this to each byte, an opening takes it twice.
pub(crate) const PRIVATE_STEP: u8 = 1;

/// One report of the interrupt routine.
#[derive(Clone)]
pub(crate) enum Report {
    Fences(Vec<usize>),
    Scan,
    /// No array, and monitored fences are to be looked at too.
    ScanAll,
    /// Only a queue is named.
    OfQueue(usize),
    Suspended {
        context: usize,
        fence: u64,
    },
    Fault {
        queue: usize,
        address: u64,
    },
    Idle,
    Hung,
}

static WORLDS: Mutex<Option<HashMap<usize, Arc<World>>>> = Mutex::new(None);

thread_local! {
    static STARTED: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// The world of the adapter that this thread started last.
pub(crate) fn started() -> Arc<World> {
    STARTED.with_borrow(|world| Arc::clone(world.as_ref().expect("an adapter was started")))
}

pub(crate) fn world(adapter: *mut c_void) -> Arc<World> {
    let worlds = WORLDS.lock().unwrap();
    Arc::clone(worlds.as_ref().and_then(|worlds| worlds.get(&adapter.addr())).expect("the adapter is started"))
}

impl World {
    pub(crate) fn note(&self, name: &'static str) -> NTSTATUS {
        self.calls.lock().unwrap().push(name);
        self.failing.lock().unwrap().get(name).copied().unwrap_or(STATUS_SUCCESS)
    }

    /// Names of DDIs called since the last time, without those in which order means nothing.
    pub(crate) fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    pub(crate) fn last_created(&self) -> usize {
        *self.created.lock().unwrap().last().expect("something was created")
    }

    /// Reports at the next interrupt, which comes at once.
    pub(crate) fn report(&self, bus: &FakeBus, report: Report) {
        self.reports.lock().unwrap().push_back(report);
        bus.register_write(0, REPORT, 4, 0);
    }

    pub(crate) fn monitored(&self, fence: usize) -> u64 {
        self.monitored.lock().unwrap()[&fence].load(Ordering::SeqCst)
    }

    /// The GPU signals a native fence whose CurrentValue is at `current`; true if that interrupts.
    pub(crate) fn signal(&self, bus: &FakeBus, fence: usize, current: &AtomicU64, value: u64) -> bool {
        current.store(value, Ordering::SeqCst);
        let interrupts = value > self.monitored(fence);
        if interrupts {
            self.report(bus, Report::Fences(vec![fence]));
        }
        interrupts
    }

    /// Reports at the next interrupt, which the device raises at once; for DDIs of a driver that is told to.
    pub(crate) fn report_from(&self, adapter: &Adapter, report: Report) {
        self.reports.lock().unwrap().push_back(report);
        // SAFETY: the registers are mapped.
        unsafe { adapter.registers.write_volatile(0) };
    }

    /// The word that was stored last to the physical doorbell.
    pub(crate) fn rung(&self) -> u64 {
        let page = std::ptr::with_exposed_provenance::<AtomicU64>(self.doorbell.load(Ordering::Relaxed) as usize);
        // SAFETY: the page stays mapped until the device is stopped.
        unsafe { &*page }.load(Ordering::SeqCst)
    }

    /// The system's handle of the queue that has the page.
    pub(crate) fn connected(&self) -> Option<usize> {
        self.page.lock().unwrap().map(|page| page.queue)
    }
}

/// The driver with everything that user-mode submission needs.
pub(crate) const DRIVER: Mutant = Mutant {
    table: fill,
    caps: |caps| caps.SchedulingCaps.set_NativeGpuFence(true),
    native_fence_caps: Some(DXGK_NATIVE_FENCE_CAPS {
        MonitoredValueStride: 0,
        MapToGpuSystemProcess: 0,
        MinimumAddress: 0,
        MaximumAddress: (1 << 39) - 1,
        Reserved: [0; 28],
    }),
    submission_caps: Some(DXGK_USERMODESUBMISSION_CAPS {
        Flags: DXGK_USERMODESUBMISSION_CAPS_Flags::new(),
        DoorbellSizeInBytes: 4096,
        SecondaryDoorbellSizeInBytes: 0,
        Reserved: [0; 16],
    }),
    node: |node| node.Flags = { node.Flags }.with_UserModeSubmission(true),
    segments: |[_, vram]| vram.Size = DOORBELL as usize,
    features: &[
        DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH,
        DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE,
        DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION,
    ],
    in_start: start,
    in_stop: stop,
    ..SOUND
};

fn start(adapter: &mut Adapter) {
    let world = Arc::new(World::default());
    let mut page = std::ptr::null_mut();
    // SAFETY: handle and place are good.
    let status = unsafe {
        adapter.interface.DxgkCbMapMemory.unwrap()(
            adapter.handle,
            LARGE_INTEGER { QuadPart: adapter.vram + DOORBELL },
            4096,
            0,
            0,
            MEMORY_CACHING_TYPE::MmNonCached,
            &raw mut page,
        )
    };
    assert!(status.is_success());
    world.doorbell.store(page.expose_provenance() as u64, Ordering::Relaxed);
    ask_os_caps(adapter, &world);
    let key = std::ptr::from_mut(adapter).addr();
    WORLDS.lock().unwrap().get_or_insert_default().insert(key, Arc::clone(&world));
    STARTED.set(Some(world));
}

/// GetOSCaps, asked for as the page's sample does it. Without the feature the system has no such interface.
pub(crate) fn get_os_caps(adapter: &Adapter) -> Option<PDXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1> {
    let mut table = std::mem::MaybeUninit::<DXGKCBINT_FEATURE_NATIVEFENCE_1>::uninit();
    let mut query = DXGKARGCB_QUERYFEATUREINTERFACE::zeroed();
    (query.FeatureId, query.Version) = (DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE, 1);
    query.Interface = table.as_mut_ptr().cast();
    query.InterfaceSize = size_of::<DXGKCBINT_FEATURE_NATIVEFENCE_1>() as u16;
    // SAFETY: handle and structure are good.
    unsafe { adapter.features.QueryFeatureInterface.unwrap()(adapter.handle, &raw mut query) }.ok().ok()?;
    // SAFETY: the system has filled the table.
    unsafe { table.assume_init() }.GetOSCaps
}

fn ask_os_caps(adapter: &Adapter, world: &World) {
    if let Some(ask) = get_os_caps(adapter) {
        let mut caps = world.os_caps.lock().unwrap();
        // SAFETY: the place is good.
        assert_eq!(unsafe { ask(&raw mut *caps) }, STATUS_SUCCESS);
    }
}

fn stop(adapter: &mut Adapter) {
    let key = std::ptr::from_mut(adapter).addr();
    let world = WORLDS.lock().unwrap().as_mut().and_then(|worlds| worlds.remove(&key)).expect("started");
    let page = std::ptr::with_exposed_provenance_mut(world.doorbell.load(Ordering::Relaxed) as usize);
    // SAFETY: the mapping was made in StartDevice.
    let status = unsafe { adapter.interface.DxgkCbUnmapMemory.unwrap()(adapter.handle, page) };
    assert!(status.is_success());
}

fn fill(table: &mut DRIVER_INITIALIZATION_DATA) {
    table.DxgkDdiInterruptRoutine = Some(interrupt_routine);
    table.DxgkDdiGetStandardAllocationDriverData = Some(get_standard_allocation_driver_data);
    table.DxgkDdiCreateNativeFence = Some(create_native_fence);
    table.DxgkDdiOpenNativeFence = Some(open_native_fence);
    table.DxgkDdiCloseNativeFence = Some(close_native_fence);
    table.DxgkDdiDestroyNativeFence = Some(destroy_native_fence);
    table.DxgkDdiUpdateMonitoredValues = Some(update_monitored_values);
    table.DxgkDdiUpdateCurrentValuesFromCpu = Some(update_current_values);
    table.DxgkDdiSetNativeFenceLogBuffer = Some(set_log_buffer);
    table.DxgkDdiUpdateNativeFenceLogs = Some(update_logs);
    table.DxgkDdiCreateHwContext = Some(create_hw_context);
    table.DxgkDdiDestroyHwContext = Some(destroy_hw_context);
    table.DxgkDdiSuspendContext = Some(suspend_context);
    table.DxgkDdiCreateHwQueue = Some(create_hw_queue);
    table.DxgkDdiDestroyHwQueue = Some(destroy_hw_queue);
    table.DxgkDdiCreateDoorbell = Some(create_doorbell);
    table.DxgkDdiConnectDoorbell = Some(connect_doorbell);
    table.DxgkDdiDisconnectDoorbell = Some(disconnect_doorbell);
    table.DxgkDdiDestroyDoorbell = Some(destroy_doorbell);
    table.DxgkDdiNotifyWorkSubmission = Some(notify_work_submission);
}

fn make(adapter: *mut c_void, system: HANDLE, owner: usize) -> HANDLE {
    let block = allocate(size_of::<Object>());
    // SAFETY: the block has space for an object.
    unsafe { block.cast::<Object>().write(Object { adapter, system: system.addr(), owner }) };
    block
}

fn object(handle: HANDLE) -> (Object, Arc<World>) {
    // SAFETY: every handle of this driver is a block that `make` filled, or one that begins the same.
    let object = unsafe { handle.cast::<Object>().read() };
    (object, world(object.adapter))
}

fn raw(handle: usize) -> HANDLE {
    std::ptr::without_provenance_mut(handle)
}

/// The argument structure of a DDI.
fn args<'a, T>(pointer: *mut T) -> &'a mut T {
    // SAFETY: the system passes a structure of this type that lives during the call.
    unsafe { &mut *pointer }
}

unsafe extern "win64" fn interrupt_routine(context: *mut c_void, message: u32) -> BOOLEAN {
    let adapter = driver::adapter(context);
    let world = world(context);
    world.overlaps.fetch_add(u64::from(world.updating.load(Ordering::SeqCst)), Ordering::SeqCst);
    world.interrupts.fetch_add(1, Ordering::SeqCst);
    let reports: Vec<Report> = world.reports.lock().unwrap().drain(..).collect();
    for report in &reports {
        notify(adapter, report);
    }
    if !reports.is_empty() {
        // SAFETY: the handle is good.
        unsafe { adapter.interface.DxgkCbQueueDpc.unwrap()(adapter.handle) };
    }
    // SAFETY: packets are reported as the minimal driver does.
    unsafe { driver::interrupt_routine(context, message) };
    1
}

fn notify(adapter: &Adapter, report: &Report) {
    use DXGK_INTERRUPT_TYPE as T;
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
    let mut handles: Vec<HANDLE> = Vec::new();
    match report {
        Report::Fences(fences) => {
            handles.extend(fences.iter().copied().map(raw));
            data.InterruptType = T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED;
            data.u.NativeFenceSignaled.SignaledNativeFenceCount = handles.len() as u32;
            data.u.NativeFenceSignaled.pSignaledNativeFenceArray = handles.as_mut_ptr();
        }
        Report::Scan => data.InterruptType = T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED,
        Report::ScanAll => {
            data.InterruptType = T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED;
            data.Flags = data.Flags.with_EvaluateLegacyMonitoredFences(true);
        }
        Report::OfQueue(queue) => {
            data.InterruptType = T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED;
            data.u.NativeFenceSignaled.hHWQueue = raw(*queue);
        }
        Report::Suspended { context, fence } => {
            data.InterruptType = T::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED;
            data.u.SuspendContextCompleted.hContext = raw(*context);
            data.u.SuspendContextCompleted.ContextSuspendFence = *fence;
        }
        Report::Fault { queue, address } => {
            data.InterruptType = T::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED;
            data.u.HwQueuePageFaulted.FaultedVirtualAddress = *address;
            data.u.HwQueuePageFaulted.u.FaultedHwQueue = raw(*queue);
        }
        Report::Idle => {
            data.InterruptType = T::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE;
            data.u.EngineStateChange.NewState = DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_TRANSITION_TO_F1;
        }
        Report::Hung => {
            data.InterruptType = T::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE;
            data.u.EngineStateChange.NewState = DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_HUNG;
        }
    }
    // SAFETY: handle and data are good.
    unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
}

unsafe extern "win64" fn get_standard_allocation_driver_data(
    context: HANDLE,
    a: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    let (a, world) = (args(a), world(context));
    assert_eq!(
        a.StandardAllocationType,
        D3DKMDT_STANDARDALLOCATION_TYPE::D3DKMDT_STANDARDALLOCATION_FENCESTORAGE,
        "nothing else is asked for"
    );
    // SAFETY: the type selects this arm.
    let data = args(unsafe { a.u.pCreateFenceStorageData });
    world.storage_asked.lock().unwrap().push((data.FenceStorageValueType.0, data.FenceStorageType.0));
    let answer = world.storage.lock().unwrap().unwrap_or(in_system_memory);
    answer(data)
}

/// The conservative answer: the aperture.
fn in_system_memory(data: &mut D3DKMDT_FENCESTORAGESURFACEDATA) -> NTSTATUS {
    data.AllocationInfo.SupportedWriteSegmentSet = 0b01;
    data.AllocationInfo.PreferredSegment = D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(1);
    STATUS_SUCCESS
}

unsafe extern "win64" fn create_native_fence(context: HANDLE, a: *mut DXGKARG_CREATENATIVEFENCE) -> NTSTATUS {
    let (a, world) = (args(a), world(context));
    let system = a.hGlobalNativeFence.addr();
    world.monitored.lock().unwrap().insert(system, Arc::new(AtomicU64::new(u64::MAX)));
    world.created.lock().unwrap().push(system);
    let in_system = (a.CurrentValueSystemProcessGpuVa, a.MonitoredValueSystemProcessGpuVa);
    world.system_addresses.lock().unwrap().push(in_system);
    world.types.lock().unwrap().push(a.Type.0);
    a.pPrivateDriverData = a.pPrivateDriverData.map(|byte| byte.wrapping_add(PRIVATE_STEP));
    a.hGlobalNativeFence = make(context, a.hGlobalNativeFence, 0);
    world.note("CreateNativeFence")
}

unsafe extern "win64" fn open_native_fence(context: HANDLE, a: *mut DXGKARG_OPENNATIVEFENCE) -> NTSTATUS {
    let a = args(a);
    assert!(a.CurrentValueGpuVa != 0 && a.CurrentValueGpuVa % 8 == 0 && a.CurrentValueGpuVa != a.MonitoredValueGpuVa);
    a.pPrivateDriverData = a.pPrivateDriverData.map(|byte| byte.wrapping_add(2 * PRIVATE_STEP));
    world(context).opened.lock().unwrap().push((a.CurrentValueGpuVa, a.MonitoredValueGpuVa));
    a.hLocalNativeFence = make(context, a.hLocalNativeFence, a.hGlobalNativeFence.addr());
    world(context).locals.lock().unwrap().push((a.hGlobalNativeFence.addr(), a.hLocalNativeFence.addr()));
    world(context).note("OpenNativeFence")
}

unsafe extern "win64" fn close_native_fence(context: HANDLE, a: *const DXGKARG_CLOSENATIVEFENCE) -> NTSTATUS {
    let local = args(a.cast_mut()).hLocalNativeFence;
    world(context).closed.lock().unwrap().push(local.addr());
    free(local);
    world(context).note("CloseNativeFence")
}

unsafe extern "win64" fn destroy_native_fence(a: *const DXGKARG_DESTROYNATIVEFENCE) -> NTSTATUS {
    let handle = args(a.cast_mut()).hGlobalNativeFence;
    let (fence, world) = object(handle);
    world.monitored.lock().unwrap().remove(&fence.system);
    world.destroyed.lock().unwrap().push(handle.addr());
    free(handle);
    world.note("DestroyNativeFence")
}

/// Fences, values and addresses of an update, from its arrays.
fn elements(
    count: u32,
    fences: *mut HANDLE,
    values: *mut u64,
    places: *mut *mut c_void,
) -> Vec<(HANDLE, u64, *mut c_void)> {
    let element = |index| {
        // SAFETY: the arrays have as many elements as the call says.
        let fence = unsafe { fences.wrapping_add(index).read() };
        // SAFETY: as above.
        let value = unsafe { values.wrapping_add(index).read() };
        // SAFETY: as above.
        let place = unsafe { places.wrapping_add(index).read() };
        (fence, value, place)
    };
    (0..count as usize).map(element).collect()
}

fn note_batch(monitored: bool, elements: &[(HANDLE, u64, *mut c_void)]) -> Arc<World> {
    let (_, world) = object(elements.first().expect("an update of nothing").0);
    world.batches.lock().unwrap().push(Batch {
        monitored,
        values: elements.iter().map(|(fence, value, _)| (object(*fence).0.system, *value)).collect(),
        addresses: elements.iter().map(|(_, _, place)| place.expose_provenance()).collect(),
    });
    world
}

unsafe extern "win64" fn update_monitored_values(a: *const DXGKARG_UPDATEMONITOREDVALUES) -> NTSTATUS {
    let a = args(a.cast_mut());
    // SAFETY: no arguments.
    assert_eq!(unsafe { (imports().KeGetCurrentIrql)() }, dxgkrnl::irql::DEVICE_LEVEL);
    let elements = elements(a.NumFences, a.NativeFenceArray, a.UpdatedValueArray, a.MonitoredValueKernelCpuVa);
    let world = note_batch(true, &elements);
    world.updating.store(true, Ordering::SeqCst);
    for (fence, value, place) in elements {
        // SAFETY: the address is good during the call.
        unsafe { place.cast::<u64>().write_volatile(value) };
        world.monitored.lock().unwrap()[&object(fence).0.system].store(value, Ordering::SeqCst);
        world.updates.fetch_add(1, Ordering::Relaxed);
    }
    let during = world.during_update.lock().unwrap().take();
    if let Some(during) = during {
        during();
    }
    world.updating.store(false, Ordering::SeqCst);
    world.failing.lock().unwrap().get("UpdateMonitoredValues").copied().unwrap_or(STATUS_SUCCESS)
}

unsafe extern "win64" fn update_current_values(a: *const DXGKARG_UPDATECURRENTVALUESFROMCPU) -> NTSTATUS {
    let a = args(a.cast_mut());
    let elements = elements(a.NumFences, a.NativeFenceArray, a.UpdatedValueArray, a.CurrentValueKernelCpuVa);
    let world = note_batch(false, &elements);
    for (_, value, place) in elements {
        if !a.Flags.NotificationOnly() {
            // SAFETY: the address is good during the call.
            unsafe { place.cast::<u64>().write_volatile(value) };
        }
        world.currents.lock().unwrap().push((value, a.Flags.into_bits()));
    }
    world.failing.lock().unwrap().get("UpdateCurrentValuesFromCpu").copied().unwrap_or(STATUS_SUCCESS)
}

unsafe extern "win64" fn set_log_buffer(a: *const DXGKARG_SETNATIVEFENCELOGBUFFER) -> NTSTATUS {
    let a = args(a.cast_mut());
    let (queue, world) = object(a.hHwQueue);
    // SAFETY: the buffer begins with its header.
    let header = unsafe { &(*a.LogBufferCpuVa).Header };
    // SAFETY: both arms are plain numbers.
    let position = unsafe { header.u.AtomicWraparoundAndEntryIndex };
    assert_eq!(position, 0, "a new buffer is empty");
    world.logs.lock().unwrap().push(LogBuffer {
        queue: queue.system,
        kind: header.Type.0,
        entries: a.NumberOfEntries,
        header_entries: header.NumberOfEntries,
        address: a.LogBufferCpuVa.expose_provenance(),
        gpu: a.LogBufferGpuVa,
    });
    world.log_addresses.lock().unwrap().push((a.LogBufferGpuVa, a.LogBufferSystemProcessGpuVa));
    world.note("SetNativeFenceLogBuffer")
}

unsafe extern "win64" fn update_logs(a: *const DXGKARG_UPDATENATIVEFENCELOGS) -> NTSTATUS {
    let a = args(a.cast_mut());
    // SAFETY: the array has as many handles as the call says.
    let handle = |index: usize| unsafe { a.hHWQueue.wrapping_add(index).read() };
    let queues: Vec<HANDLE> = (0..a.NumberOfQueues as usize).map(handle).collect();
    let (_, world) = object(*queues.first().expect("a barrier for no queue"));
    world.flushes.lock().unwrap().push(queues.iter().map(|queue| object(*queue).0.system).collect());
    world.note("UpdateNativeFenceLogs")
}

unsafe extern "win64" fn create_hw_context(device: HANDLE, a: *mut DXGKARG_CREATEHWCONTEXT) -> NTSTATUS {
    let a = args(a);
    // SAFETY: devices of the minimal driver begin with their adapter.
    let adapter = unsafe { device.cast::<*mut c_void>().read() };
    world(adapter).contexts.lock().unwrap().push(a.hHwContext.addr());
    a.hHwContext = make(adapter, a.hHwContext, 0);
    world(adapter).note("CreateHwContext")
}

unsafe extern "win64" fn destroy_hw_context(context: HANDLE) -> NTSTATUS {
    let (_, world) = object(context);
    free(context);
    world.note("DestroyHwContext")
}

unsafe extern "win64" fn suspend_context(context: HANDLE, a: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    let a = args(a.cast_mut());
    let (object, world) = object(a.hContext);
    let _ = world.note("SuspendContext");
    if !world.ignore_suspend.load(Ordering::Relaxed) {
        let report = Report::Suspended { context: object.system, fence: a.contextSuspendFence };
        world.reports.lock().unwrap().push_back(report);
        // SAFETY: the registers are mapped.
        unsafe { driver::adapter(context).registers.write_volatile(0) };
    }
    STATUS_PENDING
}

unsafe extern "win64" fn create_hw_queue(context: HANDLE, a: *mut DXGKARG_CREATEHWQUEUE) -> NTSTATUS {
    let (a, (owner, world)) = (args(a), object(context));
    world.created.lock().unwrap().push(a.hHwQueue.addr());
    let system = a.hHwQueue.addr();
    a.hHwQueue = make(owner.adapter, a.hHwQueue, owner.system);
    world.queues.lock().unwrap().insert(system, a.hHwQueue.addr());
    world.note("CreateHwQueue")
}

unsafe extern "win64" fn destroy_hw_queue(queue: HANDLE) -> NTSTATUS {
    let (_, world) = object(queue);
    free(queue);
    world.note("DestroyHwQueue")
}

unsafe extern "win64" fn create_doorbell(a: *mut DXGKARG_CREATEDOORBELL) -> NTSTATUS {
    let a = args(a);
    let (queue, world) = object(a.hHwQueue);
    assert!(!a.hRingBuffer.is_null() && !a.hRingBufferControl.is_null());
    a.hDoorbell = make(queue.adapter, a.hDoorbell, queue.system);
    let during = world.during_creation.lock().unwrap().take();
    if let Some(during) = during {
        during();
    }
    world.note("CreateDoorbell")
}

unsafe extern "win64" fn connect_doorbell(a: *mut DXGKARG_CONNECTDOORBELL) -> NTSTATUS {
    let a = args(a);
    let (this, world) = object(a.hDoorbell);
    loop {
        let victim = *world.page.lock().unwrap();
        if let Some(victim) = victim.filter(|page| page.object != a.hDoorbell.addr()) {
            let args = DXGKARGCB_DISCONNECTDOORBELL {
                hHwQueue: raw(victim.queue),
                hDoorbell: raw(victim.doorbell),
                Flags: DXGKARGCB_DISCONNECTDOORBELL_FLAGS::new(),
                DisconnectReason: D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY,
            };
            let disconnect = driver::adapter(this.adapter).interface.DxgkCbDisconnectDoorbell.unwrap();
            // SAFETY: the arguments are good.
            let status = unsafe { disconnect(&raw const args) };
            assert!(status == STATUS_SUCCESS || status == STATUS_INVALID_PARAMETER, "{status}");
            let mut page = world.page.lock().unwrap();
            // A victim that connected again meanwhile keeps it.
            if *page == Some(victim) {
                *page = None;
            }
            continue;
        }
        let mut page = world.page.lock().unwrap();
        if page.is_none_or(|page| page.object == a.hDoorbell.addr()) {
            let number = world.connections.fetch_add(1, Ordering::Relaxed);
            *page = Some(Connection { object: a.hDoorbell.addr(), queue: this.owner, doorbell: this.system, number });
            break;
        }
    }
    a.KernelCpuVirtualAddress = std::ptr::with_exposed_provenance_mut(world.doorbell.load(Ordering::Relaxed) as usize);
    a.Status = D3DDDI_DOORBELLSTATUS(world.connect_status.load(Ordering::Relaxed) as i32);
    world.note("ConnectDoorbell")
}

fn drop_page(world: &World, doorbell: HANDLE) {
    let mut page = world.page.lock().unwrap();
    if page.is_some_and(|page| page.object == doorbell.addr()) {
        *page = None;
    }
}

unsafe extern "win64" fn disconnect_doorbell(a: *const DXGKARG_DISCONNECTDOORBELL) -> NTSTATUS {
    let handle = args(a.cast_mut()).hDoorbell;
    let (_, world) = object(handle);
    drop_page(&world, handle);
    world.note("DisconnectDoorbell")
}

unsafe extern "win64" fn destroy_doorbell(a: *const DXGKARG_DESTROYDOORBELL) -> NTSTATUS {
    let handle = args(a.cast_mut()).hDoorbell;
    let (_, world) = object(handle);
    drop_page(&world, handle);
    free(handle);
    world.note("DestroyDoorbell")
}

unsafe extern "win64" fn notify_work_submission(a: *const DXGKARG_NOTIFYWORKSUBMISSION) -> NTSTATUS {
    let (_, world) = object(args(a.cast_mut()).hHwQueue);
    world.note("NotifyWorkSubmission")
}
