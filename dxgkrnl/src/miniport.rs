//! Calls into a miniport driver, each at the IRQL its DDI is documented for.
//!
//! Every method checks that the machine still runs and that the slot is filled, raises to the level of the DDI, makes the call,
//! and has the verifier look at the level the driver returned at.

use core::ffi::c_void;
use core::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nt::lock::{Innermost, Mutex, lock};
use wddm_ddi::km::*;
use wddm_ddi::nt::{DISPATCH_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::status::{STATUS_PENDING, STATUS_SUCCESS};
use wddm_ddi::types::*;

use crate::ddi_buffer::Lent;
use crate::ddi_calls::{Ddi, DdiCalls};
use crate::handles::{Part, Parts};
use crate::kmd_handle::KmdHandle;
use crate::lifetimes::Lifetimes;
use crate::refusal::DriverAnswer;
use crate::registration::Registered;
use crate::rescue::{Rescue, Rescues};
use crate::trace::{Events, TraceKind};
use nt::bugcheck::Bugcheck;
use nt::driver::Driver;
use nt::driver_call;
use nt::irql::{self, DEVICE_LEVEL, HIGH_LEVEL, Raised};

/// What the functions of a driver return, and what stands for it where no call is made.
pub(crate) trait Returned {
    /// The type that the caller gets: a status comes with the name of the function.
    type Told;
    /// The function of this name returned it.
    fn told(self, name: &'static str) -> Self::Told;
    /// The machine has stopped before the function of this name was called, or before it returned.
    fn stopped(name: &'static str) -> Self::Told;
    /// The driver lacks the function of this name.
    fn absent(name: &'static str) -> Self::Told;
    /// True for a status that says that the call is done later.
    fn is_pending(&self) -> bool {
        false
    }
    /// A status that is a success and none that a page has.
    fn other_success(&self) -> Option<NTSTATUS> {
        None
    }
}

impl Returned for NTSTATUS {
    type Told = DriverAnswer;
    fn told(self, name: &'static str) -> DriverAnswer {
        DriverAnswer::of(name, self)
    }
    fn stopped(name: &'static str) -> DriverAnswer {
        DriverAnswer::stopped(name)
    }
    fn absent(name: &'static str) -> DriverAnswer {
        DriverAnswer::absent(name)
    }
    fn is_pending(&self) -> bool {
        *self == STATUS_PENDING
    }
    fn other_success(&self) -> Option<NTSTATUS> {
        (self.is_success() && *self != STATUS_SUCCESS && *self != STATUS_PENDING).then_some(*self)
    }
}

macro_rules! returned_as_they_are {
    ($($ty:ty),*) => {
        $(impl Returned for $ty {
            type Told = Self;
            fn told(self, _: &'static str) -> Self {
                self
            }
            fn stopped(_: &'static str) -> Self {
                Self::default()
            }
            fn absent(_: &'static str) -> Self {
                Self::default()
            }
        })*
    };
}

returned_as_they_are!((), BOOLEAN, usize);

/// A registered driver: its table, and what the kernel services keep about it.
pub(crate) struct Miniport {
    table: DRIVER_INITIALIZATION_DATA,
    version: &'static InterfaceVersion,
    driver: Arc<Driver>,
    calls: Arc<DdiCalls>,
    tracing: AtomicBool,
    detail: Mutex<Option<String>, Innermost>,
    trace: Mutex<Vec<String>, Innermost>,
    events: Events,
    lifetimes: Lifetimes,
    rescues: Arc<Rescues>,
    /// Kernel handles of allocations and resources: each adapter's are of a part of its own.
    handle_parts: Arc<Parts>,
}

impl Miniport {
    /// Takes a copy of the table that the driver registered, which has the length of its version.
    pub(crate) fn new(
        registered: Registered,
        driver: Arc<Driver>,
        calls: Arc<DdiCalls>,
        rescues: Arc<Rescues>,
    ) -> Self {
        Self {
            table: *registered.table,
            version: registered.version,
            driver,
            calls,
            tracing: AtomicBool::new(false),
            detail: Mutex::new(None),
            trace: Mutex::new(Vec::new()),
            events: Events::default(),
            lifetimes: Lifetimes::default(),
            rescues,
            handle_parts: Arc::default(),
        }
    }

    /// A part of the kernel handles that no other adapter of the driver has: DxgkCbGetHandleData names no adapter. [d3dkmddi: DXGKARGCB_GETHANDLEDATA]
    pub(crate) fn part_of_handles(&self) -> Part {
        Part::of(&self.handle_parts)
    }

    pub(crate) fn table(&self) -> &DRIVER_INITIALIZATION_DATA {
        &self.table
    }

    /// The version of the interface that the driver is written for.
    pub(crate) fn version(&self) -> &'static InterfaceVersion {
        self.version
    }

    /// What happens on the driver's adapters, for whoever traces.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// The watch over the lives of the driver's objects.
    pub(crate) fn lifetimes(&self) -> &Lifetimes {
        &self.lifetimes
    }

    /// The driver behind the table.
    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// The number of times that each DDI was called on the machine.
    pub(crate) fn calls(&self) -> &DdiCalls {
        &self.calls
    }

    /// Starts to note the names of DDIs in the order they are called.
    pub(crate) fn start_trace(&self) {
        lock(&self.trace).clear();
        self.tracing.store(true, Ordering::Release);
    }

    /// Notes the next DDI with a detail behind its name, for example what kind of query it is.
    pub(crate) fn trace_detail(&self, detail: String) {
        if self.tracing.load(Ordering::Acquire) {
            *lock(&self.detail) = Some(detail);
        }
    }

    /// Ends [`Miniport::start_trace`] and returns the names.
    pub(crate) fn take_trace(&self) -> Vec<String> {
        self.tracing.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.trace))
    }

    fn call<R: Returned>(&self, name: &'static str, level: KIRQL, call: impl FnOnce() -> R) -> R::Told {
        let verifier = self.driver.verifier();
        if verifier.is_stopped() {
            return R::stopped(name);
        }
        if level == PASSIVE_LEVEL && irql::current() > APC_MAX {
            verifier.raise(Bugcheck::fatal(format!(
                "{name} must be called at PASSIVE_LEVEL, the caller is at {}",
                irql::current()
            )));
            return R::stopped(name);
        }
        if self.tracing.load(Ordering::Acquire) {
            let name = match lock(&self.detail).take() {
                Some(detail) => format!("{name}({detail})"),
                None => name.to_owned(),
            };
            lock(&self.trace).push(name);
        }
        let _raised = Raised::to(level);
        let (result, leftovers) = driver_call::run(&self.driver, name, call);
        leftovers.check(name, verifier);
        if result.as_ref().is_some_and(R::is_pending) && !JUDGED_BY_CALLER.contains(&name) {
            // NT_SUCCESS is true of it.
            verifier.raise(Bugcheck::fatal(format!(
                "{name} answered {STATUS_PENDING}, and expected was STATUS_SUCCESS or an error: only DxgkDdiSuspendContext has a report for what is done later \
                 [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]"
            )));
            return R::stopped(name);
        }
        let other = result.as_ref().and_then(R::other_success);
        if let Some(status) = other.filter(|_| !JUDGED_BY_CALLER.contains(&name)) {
            let told = "expected was STATUS_SUCCESS or an error: it counts as STATUS_SUCCESS, as for NT_SUCCESS";
            self.rescued(Rescue::OtherSuccess, format!("{name} answered {status}, and {told}"));
        }
        result.map_or_else(|| R::stopped(name), |returned| returned.told(name))
    }

    /// Counts what was made good of the driver, and tells of it.
    pub(crate) fn rescued(&self, rescue: Rescue, told: String) {
        self.rescues.add(rescue, 1);
        self.driver.verifier().log(told);
    }

    /// DxgkDdiResetDevice on a machine that has stopped: at the highest level, and whatever the driver was in the middle of elsewhere. It
    /// touches nothing but its device: callbacks and locks of others are not there any more. False if it did not come back from that,
    /// or from another level. [dispmprt: DXGKDDI_RESET_DEVICE]
    pub(crate) fn reset_device_of_stopped_machine(&self, context: *mut c_void) -> bool {
        const NAME: &str = "DxgkDdiResetDevice";
        let Some(entry) = self.table.DxgkDdiResetDevice else { return false };
        let _raised = Raised::to(HIGH_LEVEL);
        let (returned, leftovers) = driver_call::run(&self.driver, NAME, || {
            // SAFETY: the driver registered this function under this prototype; the context is its own.
            unsafe { entry(context) }
        });
        leftovers.check(NAME, self.driver.verifier());
        returned.is_some() && leftovers == driver_call::Leftovers::default()
    }

    /// Calls a function of an interface that the driver handed out, at PASSIVE_LEVEL.
    pub(crate) fn call_interface<R: Returned>(&self, name: &'static str, call: impl FnOnce() -> R) -> R::Told {
        self.call(name, PASSIVE_LEVEL, call)
    }

    /// Calls a routine that the driver passed to a callback, at device level.
    pub(crate) fn call_at_device_level<R: Returned>(&self, name: &'static str, call: impl FnOnce() -> R) -> R::Told {
        self.call(name, DEVICE_LEVEL, call)
    }
}

/// DDIs of which STATUS_PENDING is an answer (the first), and those whose caller has the documented bug check for every wrong one.
const JUDGED_BY_CALLER: [&str; 12] = [
    "DxgkDdiSuspendContext",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiSubmitCommandToHwQueue",
    "DxgkDdiPreemptCommand",
    "DxgkDdiCancelCommand",
    "DxgkDdiMapCpuHostAperture",
    "DxgkDdiUnmapCpuHostAperture",
    "DxgkDdiUpdateMonitoredValues",
    "DxgkDdiUpdateCurrentValuesFromCpu",
    "DxgkDdiResetFromTimeout",
    "DxgkDdiRestartFromTimeout",
];

/// PASSIVE-level DDIs may be called while normal kernel APCs are disabled.
const APC_MAX: KIRQL = wddm_ddi::nt::APC_LEVEL;

macro_rules! level {
    (passive) => {
        PASSIVE_LEVEL
    };
    (dispatch) => {
        DISPATCH_LEVEL
    };
    (device) => {
        DEVICE_LEVEL
    };
    // The caller's choice, for a function whose level depends on a capability of the driver.
    (chosen $level:ident) => {
        $level
    };
}

macro_rules! ddis {
    ($(
        $level:ident $method:ident = $slot:ident($($arg:ident: $ty:ty),*) -> $ret:ty
            $(, at $chosen:ident)?
            $(, traced $adapter:expr, $kind:expr)?
            $(, about $used:expr)?
            $(, makes $made:expr, of $parent:expr)?
            $(, ends $ended:expr)?;
    )*) => {
        /// Every DDI that this module calls.
        pub(crate) const DDIS: &[Ddi] = &[$((stringify!($slot), offset_of!(DRIVER_INITIALIZATION_DATA, $slot))),*];

        impl Miniport {
            $(
                #[allow(dead_code, unused_mut, clippy::too_many_arguments)]
                pub(crate) fn $method(&self, $($chosen: KIRQL,)? $(mut $arg: $ty),*) -> <$ret as Returned>::Told {
                    let Some(entry) = self.table.$slot else {
                        return <$ret>::absent(stringify!($slot));
                    };
                    $(self.events.note(KmdHandle::new($adapter), || $kind);)?
                    $(let _about = self.lifetimes.begin(stringify!($slot), KmdHandle::new($used), false);)?
                    $(let _of = self.lifetimes.begin(stringify!($slot), KmdHandle::new($parent), false);)?
                    $(let _ends = self.lifetimes.begin(stringify!($slot), KmdHandle::new($ended), true);)?
                    #[allow(clippy::let_and_return, clippy::let_unit_value)] // where nothing is made or answered
                    let result = {
                        $(let mut $arg = Lent::new(&mut $arg);)*
                        let result = self.call(stringify!($slot), level!($level $($chosen)?), || {
                            self.calls.add(offset_of!(DRIVER_INITIALIZATION_DATA, $slot));
                            // SAFETY: the driver registered this function under this prototype; what is lent lives across the
                            // call and handles are the driver's own or this machine's.
                            unsafe { entry($($arg.pass()),*) }
                        });
                        $($arg.end(self.driver.verifier(), stringify!($slot), stringify!($arg));)*
                        result
                    };
                    $(if result.is_success() {
                        self.lifetimes.made(KmdHandle::new($made), KmdHandle::new($parent));
                    })?
                    result
                }
            )*
        }
    };
}

ddis! {
    passive add_device = DxgkDdiAddDevice(physical_device_object: *mut c_void, context: &mut *mut c_void) -> NTSTATUS;
    passive link_device = DxgkDdiLinkDevice(physical_device_object: *const c_void, context: *const c_void, linked_device: &mut LINKED_DEVICE) -> NTSTATUS;
    passive start_device = DxgkDdiStartDevice(context: *mut c_void, dxgk_start_info: &mut DXGK_START_INFO, dxgk_interface: &mut DXGKRNL_INTERFACE, number_of_video_present_sources: &mut u32, number_of_children: &mut u32) -> NTSTATUS;
    passive stop_device = DxgkDdiStopDevice(context: *mut c_void) -> NTSTATUS;
    passive remove_device = DxgkDdiRemoveDevice(context: *mut c_void) -> NTSTATUS;
    passive dispatch_io_request = DxgkDdiDispatchIoRequest(context: *mut c_void, vid_pn_source_id: u32, video_request_packet: *mut c_void) -> NTSTATUS;
    device interrupt_routine = DxgkDdiInterruptRoutine(context: *mut c_void, message_number: u32) -> BOOLEAN;
    dispatch dpc_routine = DxgkDdiDpcRoutine(context: *mut c_void) -> ();
    passive query_child_relations = DxgkDdiQueryChildRelations(context: *mut c_void, child_relations: *mut DXGK_CHILD_DESCRIPTOR, child_relations_size: u32) -> NTSTATUS;
    passive query_child_status = DxgkDdiQueryChildStatus(context: *mut c_void, child_status: &mut DXGK_CHILD_STATUS, non_destructive_only: BOOLEAN) -> NTSTATUS;
    passive query_device_descriptor = DxgkDdiQueryDeviceDescriptor(context: *mut c_void, child_uid: u32, device_descriptor: &mut DXGK_DEVICE_DESCRIPTOR) -> NTSTATUS;
    passive set_power_state = DxgkDdiSetPowerState(context: *mut c_void, device_uid: u32, device_power_state: DEVICE_POWER_STATE, action_type: i32) -> NTSTATUS,
        traced context, TraceKind::DevicePower { state: device_power_state.0 };
    passive notify_acpi_event = DxgkDdiNotifyAcpiEvent(context: *mut c_void, event_type: DXGK_EVENT_TYPE, event: u32, argument: *mut c_void, acpi_flags: &mut u32) -> NTSTATUS;
    passive notify_surprise_removal = DxgkDdiNotifySurpriseRemoval(context: *mut c_void, removal_type: DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS;
    passive unload = DxgkDdiUnload() -> ();
    passive query_interface = DxgkDdiQueryInterface(context: *mut c_void, query_interface: &mut QUERY_INTERFACE) -> NTSTATUS;
    passive control_etw_logging = DxgkDdiControlEtwLogging(enable: BOOLEAN, flags: u32, level: u8) -> ();
    passive query_adapter_info = DxgkDdiQueryAdapterInfo(adapter: HANDLE, args: &DXGKARG_QUERYADAPTERINFO) -> NTSTATUS;
    passive create_device = DxgkDdiCreateDevice(adapter: HANDLE, args: &mut DXGKARG_CREATEDEVICE) -> NTSTATUS, makes args.hDevice, of args.hKmdProcess;
    passive create_allocation = DxgkDdiCreateAllocation(adapter: HANDLE, args: &mut DXGKARG_CREATEALLOCATION) -> NTSTATUS;
    passive destroy_allocation = DxgkDdiDestroyAllocation(adapter: HANDLE, args: &DXGKARG_DESTROYALLOCATION) -> NTSTATUS;
    passive describe_allocation = DxgkDdiDescribeAllocation(adapter: HANDLE, args: &mut DXGKARG_DESCRIBEALLOCATION) -> NTSTATUS;
    passive get_standard_allocation_driver_data = DxgkDdiGetStandardAllocationDriverData(adapter: HANDLE, args: &mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA) -> NTSTATUS;
    dispatch submit_command = DxgkDdiSubmitCommand(adapter: HANDLE, args: &DXGKARG_SUBMITCOMMAND) -> NTSTATUS;
    chosen preempt_command = DxgkDdiPreemptCommand(adapter: HANDLE, args: &DXGKARG_PREEMPTCOMMAND) -> NTSTATUS, at level;
    passive build_paging_buffer = DxgkDdiBuildPagingBuffer(adapter: HANDLE, args: &mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS;
    passive reset_from_timeout = DxgkDdiResetFromTimeout(adapter: HANDLE) -> NTSTATUS,
        traced adapter, TraceKind::AdapterReset;
    passive restart_from_timeout = DxgkDdiRestartFromTimeout(adapter: HANDLE) -> NTSTATUS;
    passive escape = DxgkDdiEscape(adapter: HANDLE, args: &DXGKARG_ESCAPE) -> NTSTATUS;
    passive collect_dbg_info = DxgkDdiCollectDbgInfo(adapter: HANDLE, args: &DXGKARG_COLLECTDBGINFO) -> NTSTATUS;
    passive collect_dbg_info2 = DxgkDdiCollectDbgInfo2(adapter: HANDLE, args: &mut DXGKARG_COLLECTDBGINFO2) -> NTSTATUS;
    passive destroy_device = DxgkDdiDestroyDevice(device: HANDLE) -> NTSTATUS, ends device;
    passive open_allocation = DxgkDdiOpenAllocation(device: HANDLE, args: &DXGKARG_OPENALLOCATION) -> NTSTATUS, about device;
    passive close_allocation = DxgkDdiCloseAllocation(device: HANDLE, args: &DXGKARG_CLOSEALLOCATION) -> NTSTATUS, about device;
    passive create_context = DxgkDdiCreateContext(device: HANDLE, args: &mut DXGKARG_CREATECONTEXT) -> NTSTATUS, makes args.hContext, of device;
    passive destroy_context = DxgkDdiDestroyContext(context: HANDLE) -> NTSTATUS, ends context;
    dispatch set_power_component_fstate = DxgkDdiSetPowerComponentFState(context: *mut c_void, component_index: u32, fstate: u32) -> NTSTATUS,
        traced context, TraceKind::ComponentPower { component: component_index, state: fstate };
    passive power_runtime_control_request = DxgkDdiPowerRuntimeControlRequest(context: *mut c_void, power_control_code: &GUID, in_buffer: *mut c_void, in_buffer_size: usize, out_buffer: *mut c_void, out_buffer_size: usize, bytes_returned: &mut usize) -> NTSTATUS;
    passive query_dependent_engine_group = DxgkDdiQueryDependentEngineGroup(adapter: HANDLE, args: &mut DXGKARG_QUERYDEPENDENTENGINEGROUP) -> NTSTATUS;
    passive query_engine_status = DxgkDdiQueryEngineStatus(adapter: HANDLE, args: &mut DXGKARG_QUERYENGINESTATUS) -> NTSTATUS;
    passive reset_engine = DxgkDdiResetEngine(adapter: HANDLE, args: &mut DXGKARG_RESETENGINE) -> NTSTATUS,
        traced adapter, TraceKind::EngineReset { node: args.NodeOrdinal };
    passive cancel_command = DxgkDdiCancelCommand(adapter: HANDLE, args: &DXGKARG_CANCELCOMMAND) -> NTSTATUS, about args.hContext;
    passive get_node_metadata = DxgkDdiGetNodeMetadata(adapter: HANDLE, node_ordinal_and_adapter_index: u32, metadata: &mut DXGK_NODEMETADATA) -> NTSTATUS;
    dispatch calibrate_gpu_clock = DxgkDdiCalibrateGpuClock(adapter: HANDLE, node_ordinal: u32, engine_ordinal: u32, clock_calibration: &mut DXGK_GPUCLOCKDATA) -> NTSTATUS;
    dispatch format_history_buffer = DxgkDdiFormatHistoryBuffer(context: HANDLE, format_data: &mut DXGKARG_FORMATHISTORYBUFFER) -> NTSTATUS;
    passive submit_command_virtual = DxgkDdiSubmitCommandVirtual(adapter: HANDLE, args: &DXGKARG_SUBMITCOMMANDVIRTUAL) -> NTSTATUS,
        traced adapter, TraceKind::PacketSubmitted {
            node: args.NodeOrdinal,
            fence: args.SubmissionFenceId,
            bytes: args.DmaBufferSize,
            paging: args.Flags.Paging(),
        }, about args.hContext;
    passive set_root_page_table = DxgkDdiSetRootPageTable(adapter: HANDLE, args: &DXGKARG_SETROOTPAGETABLE) -> (), about args.hContext;
    passive get_root_page_table_size = DxgkDdiGetRootPageTableSize(adapter: HANDLE, args: &mut DXGKARG_GETROOTPAGETABLESIZE) -> usize;
    passive map_cpu_host_aperture = DxgkDdiMapCpuHostAperture(adapter: HANDLE, args: &DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS;
    passive unmap_cpu_host_aperture = DxgkDdiUnmapCpuHostAperture(adapter: HANDLE, args: &DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS;
    passive create_process = DxgkDdiCreateProcess(adapter: HANDLE, args: &mut DXGKARG_CREATEPROCESS) -> NTSTATUS, makes args.hKmdProcess, of core::ptr::null_mut();
    passive destroy_process = DxgkDdiDestroyProcess(adapter: HANDLE, kmd_process: HANDLE) -> NTSTATUS, ends kmd_process;
    passive set_stable_power_state = DxgkDdiSetStablePowerState(adapter: HANDLE, args: &DXGKARG_SETSTABLEPOWERSTATE) -> NTSTATUS;
    passive create_hw_context = DxgkDdiCreateHwContext(device: HANDLE, args: &mut DXGKARG_CREATEHWCONTEXT) -> NTSTATUS, makes args.hHwContext, of device;
    passive destroy_hw_context = DxgkDdiDestroyHwContext(hw_context: HANDLE) -> NTSTATUS, ends hw_context;
    passive create_hw_queue = DxgkDdiCreateHwQueue(hw_context: HANDLE, args: &mut DXGKARG_CREATEHWQUEUE) -> NTSTATUS, makes args.hHwQueue, of hw_context;
    passive destroy_hw_queue = DxgkDdiDestroyHwQueue(hw_queue: HANDLE) -> NTSTATUS, ends hw_queue;
    dispatch submit_command_to_hw_queue = DxgkDdiSubmitCommandToHwQueue(adapter: HANDLE, args: &DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS, about args.hHwQueue;
    passive switch_to_hw_context_list = DxgkDdiSwitchToHwContextList(adapter: HANDLE, args: &DXGKARG_SWITCHTOHWCONTEXTLIST) -> NTSTATUS;
    passive reset_hw_engine = DxgkDdiResetHwEngine(adapter: HANDLE, args: &mut DXGKARG_RESETHWENGINE) -> NTSTATUS,
        traced adapter, TraceKind::EngineReset { node: args.NodeOrdinal };
    passive update_hw_context_state = DxgkDdiUpdateHwContextState(adapter: HANDLE, args: &DXGKARG_UPDATEHWCONTEXTSTATE) -> NTSTATUS;
    passive set_scheduling_log_buffer = DxgkDdiSetSchedulingLogBuffer(adapter: HANDLE, args: &DXGKARG_SETSCHEDULINGLOGBUFFER) -> NTSTATUS;
    passive setup_priority_bands = DxgkDdiSetupPriorityBands(adapter: HANDLE, args: &DXGKARG_SETUPPRIORITYBANDS) -> NTSTATUS;
    passive set_context_scheduling_properties = DxgkDdiSetContextSchedulingProperties(adapter: HANDLE, args: &DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES) -> NTSTATUS, about args.hContext;
    passive suspend_context = DxgkDdiSuspendContext(adapter: HANDLE, args: &DXGKARG_SUSPENDCONTEXT) -> NTSTATUS, about args.hContext;
    passive resume_context = DxgkDdiResumeContext(adapter: HANDLE, args: &DXGKARG_RESUMECONTEXT) -> NTSTATUS, about args.hContext;
    passive set_virtual_machine_data = DxgkDdiSetVirtualMachineData(adapter: HANDLE, args: &DXGKARG_SETVIRTUALMACHINEDATA) -> NTSTATUS;
    passive resume_hw_engine = DxgkDdiResumeHwEngine(adapter: HANDLE, args: &mut DXGKARG_RESUMEHWENGINE) -> NTSTATUS;
    passive signal_monitored_fence = DxgkDdiSignalMonitoredFence(context: HANDLE, args: &mut DXGKARG_SIGNALMONITOREDFENCE) -> NTSTATUS;
    passive create_native_fence = DxgkDdiCreateNativeFence(adapter: HANDLE, args: &mut DXGKARG_CREATENATIVEFENCE) -> NTSTATUS;
    passive destroy_native_fence = DxgkDdiDestroyNativeFence(args: &DXGKARG_DESTROYNATIVEFENCE) -> NTSTATUS;
    passive open_native_fence = DxgkDdiOpenNativeFence(adapter: HANDLE, args: &mut DXGKARG_OPENNATIVEFENCE) -> NTSTATUS;
    passive close_native_fence = DxgkDdiCloseNativeFence(adapter: HANDLE, args: &DXGKARG_CLOSENATIVEFENCE) -> NTSTATUS;
    device update_monitored_values = DxgkDdiUpdateMonitoredValues(args: &DXGKARG_UPDATEMONITOREDVALUES) -> NTSTATUS;
    dispatch update_current_values_from_cpu = DxgkDdiUpdateCurrentValuesFromCpu(args: &DXGKARG_UPDATECURRENTVALUESFROMCPU) -> NTSTATUS;
    dispatch set_native_fence_log_buffer = DxgkDdiSetNativeFenceLogBuffer(args: &DXGKARG_SETNATIVEFENCELOGBUFFER) -> NTSTATUS, about args.hHwQueue;
    dispatch update_native_fence_logs = DxgkDdiUpdateNativeFenceLogs(args: &DXGKARG_UPDATENATIVEFENCELOGS) -> NTSTATUS;
    passive create_doorbell = DxgkDdiCreateDoorbell(args: &mut DXGKARG_CREATEDOORBELL) -> NTSTATUS, makes args.hDoorbell, of args.hHwQueue;
    passive connect_doorbell = DxgkDdiConnectDoorbell(args: &mut DXGKARG_CONNECTDOORBELL) -> NTSTATUS, about args.hDoorbell;
    passive disconnect_doorbell = DxgkDdiDisconnectDoorbell(args: &DXGKARG_DISCONNECTDOORBELL) -> NTSTATUS, about args.hDoorbell;
    passive destroy_doorbell = DxgkDdiDestroyDoorbell(args: &DXGKARG_DESTROYDOORBELL) -> NTSTATUS, ends args.hDoorbell;
    passive notify_work_submission = DxgkDdiNotifyWorkSubmission(args: &DXGKARG_NOTIFYWORKSUBMISSION) -> NTSTATUS, about args.hHwQueue;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ddi_has_a_count_of_its_own_that_is_taken_once() {
        let calls = DdiCalls::default();
        for (number, (_, offset)) in (1..).zip(DDIS) {
            (0..number).for_each(|_| calls.add(*offset));
        }
        let expected: Vec<_> = (1..).zip(DDIS).map(|(number, (name, _))| (*name, number)).collect();
        assert_eq!(calls.take(DDIS), expected);
        assert_eq!(calls.take(DDIS), []);
        assert!(DDIS.len() > 60, "{}", DDIS.len());
    }
}
