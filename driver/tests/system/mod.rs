//! The least operating system that drives the miniport through its registered table, above a device that is plain memory.
//!
//! Scheduler commands succeed at once and do nothing (their status register reads as zero); what a device would do, a test does:
//! it puts records into the event ring and calls the interrupt routine. Everything the driver reports is kept in order.

#![allow(clippy::multiple_unsafe_ops_per_block)] // one match reads the arm that the type selects

mod inert;
mod kernel;

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use campanile_hw::event::{self, Event, EventKind};
use campanile_hw::queue::{QueueDescriptor, RING_ENTRY_SIZE, RingFlags};
use campanile_hw::registers::{self, Caps};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

pub(crate) use kernel::{allocations, driver_table, level, printed_errors};

/// A report of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Completed { node: u32, fence: u32 },
    Preempted { node: u32, preemption: u32, completed: u32 },
    Faulted { node: u32, fence: u32, address: u64 },
    Native { node: u32, fences: Vec<usize> },
    Monitored { node: u32 },
    Suspended { context: usize, fence: u64 },
    Switched { node: u32, fence: u64 },
    QueueFaulted { queue: usize, fence: u64, address: u64 },
    EngineState { node: u32, state: i32 },
}

/// Features that the system enables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) scheduling: bool,
    pub(crate) native_fence: bool,
    pub(crate) user_mode: bool,
}

pub(crate) const ALL: Features = Features { scheduling: true, native_fence: true, user_mode: true };

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
}

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
    static VICTIM: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Works on what was logged on this thread.
pub(crate) fn log<R>(body: impl FnOnce(&mut Log) -> R) -> R {
    LOG.with_borrow_mut(body)
}

/// Takes the reports made so far.
pub(crate) fn reports() -> Vec<Report> {
    log(|log| std::mem::take(&mut log.reports))
}

/// Runs `body` inside the next DxgkCbDisconnectDoorbell.
pub(crate) fn on_disconnect(body: impl FnMut() + 'static) {
    VICTIM.with_borrow_mut(|victim| *victim = Some(Box::new(body)));
}

/// One adapter and its device.
pub(crate) struct System {
    pub(crate) table: DRIVER_INITIALIZATION_DATA,
    pub(crate) adapter: HANDLE,
    registers: Vec<u64>,
    doorbells: Vec<u64>,
    vram: Vec<u64>,
    resources: Box<CM_RESOURCE_LIST>,
    features: Features,
}

macro_rules! ddi {
    ($system:expr, $slot:ident, $($arg:expr),* $(,)?) => {{
        let entry = $system.table.$slot.expect(stringify!($slot));
        // SAFETY: the driver's own entry point; the test passes what its prototype asks for.
        unsafe { entry($($arg),*) }
    }};
}
pub(crate) use ddi;

impl System {
    /// A device with `doorbells` pages and an adapter that was added but not started.
    pub(crate) fn added(features: Features, doorbells: u32) -> Box<Self> {
        let mut system = Box::new(Self {
            table: driver_table(),
            adapter: null_mut(),
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
        assert_eq!(ddi!(system, DxgkDdiAddDevice, null_mut(), &raw mut adapter), STATUS_SUCCESS);
        system.adapter = adapter;
        system
    }

    /// A started adapter.
    pub(crate) fn started(features: Features, doorbells: u32) -> Box<Self> {
        let mut system = Self::added(features, doorbells);
        assert_eq!(system.start(), STATUS_SUCCESS);
        system
    }

    pub(crate) fn start(&mut self) -> NTSTATUS {
        let mut info = DXGK_START_INFO::zeroed();
        let mut interface = self.interface();
        let (mut sources, mut children) = (9, 9);
        let status = ddi!(
            self,
            DxgkDdiStartDevice,
            self.adapter,
            &raw mut info,
            &raw mut interface,
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
            DxgkCbAllocateContiguousMemory: Some(kernel::allocate_contiguous),
            DxgkCbFreeContiguousMemory: Some(kernel::free_contiguous),
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

    /// Puts a record into the event ring.
    pub(crate) fn event(&self, kind: EventKind, node: u8, queue: u32, data: [u64; 2]) {
        let ring: *mut u64 = with_exposed_provenance_mut(self.get(registers::EVENT_RING_BASE) as usize);
        let entries = self.get(registers::EVENT_RING_ENTRIES) as u32;
        let word = |offset: u64| ring.wrapping_add(offset as usize / 8);
        let record = Event { kind: kind as u8, node, queue, data0: data[0], data1: data[1], timestamp: 0 };
        // SAFETY: the driver gave the device this memory.
        let write = unsafe { word(event::WRITE_POINTER).read_volatile() };
        let slot = event::HEADER_SIZE + write % u64::from(entries) * Event::SIZE as u64;
        for (bytes, offset) in record.to_bytes().as_chunks::<8>().0.iter().zip((0..).step_by(8)) {
            // SAFETY: a word of the record's slot.
            unsafe { word(slot + offset).write_volatile(u64::from_le_bytes(*bytes)) };
        }
        // SAFETY: as above.
        unsafe { word(event::WRITE_POINTER).write_volatile(write + 1) };
    }

    /// Address and size of the command buffer that entry `number` of a node's ring names.
    pub(crate) fn entry(&self, node: u32, number: usize) -> (u64, u32) {
        let word = |offset: u64| {
            let place = &raw const self.vram[offset as usize / 8];
            // SAFETY: a word of VRAM.
            unsafe { place.read_volatile() }
        };
        let descriptor = self.get(registers::QUEUE_TABLE_BASE) + u64::from(node) * QueueDescriptor::SIZE as u64;
        let entry = word(descriptor) + number as u64 * RING_ENTRY_SIZE;
        (word(entry), word(entry + 8) as u32)
    }

    /// Flags of entry `number` of a node's ring.
    pub(crate) fn entry_flags(&self, node: u32, number: usize) -> RingFlags {
        let word = |offset: u64| {
            let place = &raw const self.vram[offset as usize / 8];
            // SAFETY: a word of VRAM.
            unsafe { place.read_volatile() }
        };
        let descriptor = self.get(registers::QUEUE_TABLE_BASE) + u64::from(node) * QueueDescriptor::SIZE as u64;
        RingFlags::from_bits((word(word(descriptor) + number as u64 * RING_ENTRY_SIZE + 8) >> 32) as u32)
    }

    /// Write and read pointer of the event ring.
    pub(crate) fn ring_pointers(&self) -> [u64; 2] {
        let ring: *mut u64 = with_exposed_provenance_mut(self.get(registers::EVENT_RING_BASE) as usize);
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
        let mine = level(5, || ddi!(self, DxgkDdiInterruptRoutine, self.adapter, 0));
        assert_eq!(mine, 1);
        self.run_dpc();
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
        assert_eq!(ddi!(self, DxgkDdiRemoveDevice, self.adapter), STATUS_SUCCESS);
    }
}

/// The system behind a device handle.
unsafe fn system<'a>(handle: HANDLE) -> &'a System {
    // SAFETY: device handles are boxed systems, which the tests keep.
    unsafe { &*handle.cast::<System>() }
}

unsafe extern "win64" fn device_information(device: HANDLE, info: *mut DXGK_DEVICE_INFO) -> NTSTATUS {
    // SAFETY: the driver passes its own structure.
    let info = unsafe { &mut *info };
    // SAFETY: the handle is the one given at start.
    info.TranslatedResourceList = (&raw const *unsafe { system(device) }.resources).cast_mut();
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
    kernel::count_mapping(1);
    // SAFETY: the driver passes its own variable.
    unsafe { *mapped = with_exposed_provenance_mut(address.QuadPart as usize) };
    STATUS_SUCCESS
}

unsafe extern "win64" fn unmap_memory(_device: HANDLE, _mapped: *mut c_void) -> NTSTATUS {
    kernel::count_mapping(-1);
    STATUS_SUCCESS
}

unsafe extern "win64" fn queue_dpc(_device: HANDLE) -> BOOLEAN {
    BOOLEAN::from(!log(|log| std::mem::replace(&mut log.dpc, true)))
}

unsafe extern "win64" fn notify_dpc(_device: HANDLE) {}

unsafe extern "win64" fn query_services(_device: HANDLE, services: DXGK_SERVICES, out: *mut INTERFACE) -> NTSTATUS {
    assert_eq!(services, DXGK_SERVICES::DxgkServicesFeature);
    // SAFETY: the driver passes the structure that the services name.
    let out = unsafe { &mut *out.cast::<DXGK_FEATURE_INTERFACE>() };
    out.IsFeatureEnabled = Some(is_feature_enabled);
    STATUS_SUCCESS
}

unsafe extern "win64" fn is_feature_enabled(device: HANDLE, args: *mut DXGKARGCB_ISFEATUREENABLED2) -> NTSTATUS {
    // SAFETY: the handle is the one given at start.
    let features = unsafe { system(device) }.features;
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
    _device: HANDLE,
    routine: PKSYNCHRONIZE_ROUTINE,
    context: *mut c_void,
    message: u32,
    result: *mut BOOLEAN,
) -> NTSTATUS {
    assert_eq!(message, 0);
    let routine = routine.expect("a routine");
    // SAFETY: the driver's own routine and context.
    let returned = level(5, || unsafe { routine(context) });
    // SAFETY: the driver's own variable.
    unsafe { *result = returned };
    STATUS_SUCCESS
}

unsafe extern "win64" fn notify_interrupt(_device: HANDLE, data: *const DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
    assert_eq!(kernel::current_level(), 5, "reports are made at device level");
    // SAFETY: the driver passes filled data for the length of the call.
    let report = unsafe { read(&*data) };
    log(|log| log.reports.push(report));
}

unsafe fn read(data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) -> Report {
    use DXGK_INTERRUPT_TYPE as T;
    // SAFETY: the type selects the arm that the driver filled, in each case.
    unsafe {
        match data.InterruptType {
            T::DXGK_INTERRUPT_DMA_COMPLETED => {
                let arm = data.u.DmaCompleted;
                Report::Completed { node: arm.NodeOrdinal, fence: arm.SubmissionFenceId }
            }
            T::DXGK_INTERRUPT_DMA_PREEMPTED => {
                let arm = data.u.DmaPreempted;
                Report::Preempted {
                    node: arm.NodeOrdinal,
                    preemption: arm.PreemptionFenceId,
                    completed: arm.LastCompletedFenceId,
                }
            }
            T::DXGK_INTERRUPT_DMA_PAGE_FAULTED => {
                let arm = data.u.DmaPageFaulted;
                Report::Faulted { node: arm.NodeOrdinal, fence: arm.FaultedFenceId, address: arm.FaultedVirtualAddress }
            }
            T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED => {
                let arm = data.u.NativeFenceSignaled;
                let count = arm.SignaledNativeFenceCount as usize;
                let fences = (0..count).map(|index| (*arm.pSignaledNativeFenceArray.add(index)).addr()).collect();
                Report::Native { node: arm.NodeOrdinal, fences }
            }
            T::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED => {
                Report::Monitored { node: data.u.MonitoredFenceSignaled.NodeOrdinal }
            }
            T::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED => {
                let arm = data.u.SuspendContextCompleted;
                Report::Suspended { context: arm.hContext.addr(), fence: arm.ContextSuspendFence }
            }
            T::DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED => {
                let arm = data.u.HwContextListSwitchCompleted;
                Report::Switched { node: arm.NodeOrdinal, fence: arm.ContextSwitchFence }
            }
            T::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED => {
                let arm = data.u.HwQueuePageFaulted;
                Report::QueueFaulted {
                    queue: arm.u.FaultedHwQueue.addr(),
                    fence: arm.FaultedFenceId,
                    address: arm.FaultedVirtualAddress,
                }
            }
            T::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE => {
                let arm = data.u.EngineStateChange;
                Report::EngineState { node: arm.NodeOrdinal, state: arm.NewState.0 }
            }
            other => panic!("{other:?}"),
        }
    }
}

unsafe extern "win64" fn complete_f_state_transition(_: HANDLE, component: u32) {
    log(|log| log.completed_components.push(component));
}

unsafe extern "win64" fn invalidate_hw_context(args: *const DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS {
    // SAFETY: the driver passes its own structure.
    let context = unsafe { (*args).hHwContext };
    log(|log| log.invalidated.push(context.addr()));
    STATUS_SUCCESS
}

unsafe extern "win64" fn disconnect_doorbell(args: *const DXGKARGCB_DISCONNECTDOORBELL) -> NTSTATUS {
    assert_eq!(kernel::current_level(), 0, "doorbells are taken away at PASSIVE_LEVEL");
    // SAFETY: the driver passes its own structure.
    let args = unsafe { &*args };
    assert_eq!(args.DisconnectReason, D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY);
    log(|log| log.disconnected.push((args.hHwQueue.addr(), args.hDoorbell.addr())));
    if let Some(mut body) = VICTIM.with_borrow_mut(Option::take) {
        body();
    }
    STATUS_SUCCESS
}
