//! The miniport's packet engine, run by the test: it keeps what it is handed, and reports what it is told to report.
//!
//! DDIs are plain functions, so each machine has an engine of its own in a table, and functions that know its number.

pub(crate) mod app;

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dxgkrnl::bus::Bus;
use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{Clock, MachineConfig, Process, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use crate::minimal::bus::REPORT;
use crate::minimal::{Bench, Mutant, SOUND, driver};

/// Time limit of each wait for something that must happen, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Calls a thunk and answers its arguments.
pub(crate) fn call<A>(thunk: unsafe extern "win64" fn(*mut A) -> NTSTATUS, mut args: A) -> Result<A, NTSTATUS> {
    // SAFETY: the structure lives across the call and its pointers are NULL or good.
    unsafe { thunk(&raw mut args) }.ok().map(|()| args)
}

/// A packet that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Submitted {
    pub(crate) fence: u32,
    pub(crate) node: u32,
    pub(crate) context: usize,
    pub(crate) address: u64,
    pub(crate) paging: bool,
    pub(crate) again: bool,
}

/// A packet that the system has dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled {
    pub(crate) context: usize,
    pub(crate) address: u64,
    /// The first byte of the private data.
    pub(crate) mark: u8,
    pub(crate) level: KIRQL,
}

#[derive(Default)]
struct State {
    submitted: Vec<Submitted>,
    /// Address of the DXGKARG_SUBMITCOMMANDVIRTUAL of the last render packet.
    arguments: usize,
    preemptions: Vec<u32>,
    reports: VecDeque<DXGKARGCB_NOTIFY_INTERRUPT_DATA>,
    answer: Option<NTSTATUS>,
    preemption_answer: Option<NTSTATUS>,
    /// A node that lets go of its packets while it is asked to, and the last one it has completed.
    lets_go: Option<(u32, u32)>,
    holds_paging: bool,
    /// What DxgkDdiQueryDependentEngineGroup answers; the node itself unless a test wants otherwise.
    mask: Option<u64>,
    /// What DxgkDdiResetEngine answers, and which nodes it was called for.
    resets: VecDeque<(NTSTATUS, u32)>,
    reset_nodes: Vec<u32>,
    /// Reported when the system asks for the state of the engine.
    late: VecDeque<DXGKARGCB_NOTIFY_INTERRUPT_DATA>,
    /// DxgkDdiResetEngine does not return.
    stuck: bool,
    /// DxgkDdiPreemptCommand does not return.
    stuck_preemption: bool,
    /// Reasons given to the calls of DxgkDdiCollectDbgInfo, in order.
    reasons: Vec<u32>,
    /// Calls of DxgkDdiCancelCommand, the address of the arguments of the last, and what it answers.
    cancelled: Vec<Cancelled>,
    cancel_arguments: usize,
    cancel_answer: Option<NTSTATUS>,
}

// SAFETY: what is kept of the reports are numbers.
unsafe impl Send for State {}

/// The engine of one machine.
#[derive(Default)]
pub(crate) struct Script {
    state: Mutex<State>,
}

impl Script {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const COUNT: usize = 27;
static SCRIPTS: [Script; COUNT] = [const { Script { state: Mutex::new(EMPTY) } }; COUNT];
const EMPTY: State = State {
    submitted: Vec::new(),
    arguments: 0,
    preemptions: Vec::new(),
    reports: VecDeque::new(),
    answer: None,
    preemption_answer: None,
    lets_go: None,
    holds_paging: false,
    mask: None,
    resets: VecDeque::new(),
    reset_nodes: Vec::new(),
    late: VecDeque::new(),
    stuck: false,
    stuck_preemption: false,
    reasons: Vec::new(),
    cancelled: Vec::new(),
    cancel_arguments: 0,
    cancel_answer: None,
};

pub(crate) fn completed(node: u32, fence: u32) -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
    data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED;
    data.u.DmaCompleted.SubmissionFenceId = fence;
    data.u.DmaCompleted.NodeOrdinal = node;
    data
}

pub(crate) fn preempted(preemption: u32, completed: u32) -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
    data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_PREEMPTED;
    data.u.DmaPreempted.PreemptionFenceId = preemption;
    data.u.DmaPreempted.LastCompletedFenceId = completed;
    data
}

pub(crate) fn faulted(fence: u32, address: u64, flags: i32) -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
    data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_PAGE_FAULTED;
    let mut arm = DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPageFaulted::zeroed();
    (arm.FaultedFenceId, arm.FaultedVirtualAddress) = (fence, address);
    arm.PageFaultFlags = DXGK_PAGE_FAULT_FLAGS(flags);
    data.u.DmaPageFaulted = arm;
    data
}

pub(crate) fn hung() -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
    data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT;
    data
}

pub(crate) unsafe extern "win64" fn submit<const N: usize>(
    context: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    let arguments = args.addr();
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    let mut state = SCRIPTS[N].lock();
    let packet = Submitted {
        fence: args.SubmissionFenceId,
        node: args.NodeOrdinal,
        context: args.hContext.addr(),
        address: args.DmaBufferVirtualAddress,
        paging: args.Flags.Paging(),
        again: args.Flags.Resubmission(),
    };
    state.submitted.push(packet);
    if packet.paging && !state.holds_paging {
        state.reports.push_back(completed(packet.node, packet.fence));
        // SAFETY: the registers are mapped.
        unsafe { driver::adapter(context).registers.write_volatile(1) };
    }
    if packet.paging {
        return STATUS_SUCCESS;
    }
    state.arguments = arguments;
    state.answer.unwrap_or(STATUS_SUCCESS)
}

pub(crate) unsafe extern "win64" fn preempt<const N: usize>(
    context: HANDLE,
    args: *const DXGKARG_PREEMPTCOMMAND,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    SCRIPTS[N].lock().preemptions.push(args.PreemptionFenceId);
    let started = Instant::now();
    while SCRIPTS[N].lock().stuck_preemption && started.elapsed() < TIMEOUT {
        std::thread::yield_now();
    }
    let mut state = SCRIPTS[N].lock();
    if let Some((node, completed)) = state.lets_go
        && node == args.NodeOrdinal
    {
        let mut done = preempted(args.PreemptionFenceId, completed);
        done.u.DmaPreempted.NodeOrdinal = node;
        state.reports.push_back(done);
        // SAFETY: the registers are mapped.
        unsafe { driver::adapter(context).registers.write_volatile(1) };
    }
    state.preemption_answer.unwrap_or(STATUS_SUCCESS)
}

unsafe extern "win64" fn interrupt<const N: usize>(context: *mut c_void, _message: u32) -> BOOLEAN {
    let adapter = driver::adapter(context);
    // SAFETY: the registers are mapped.
    while unsafe { adapter.registers.read_volatile() } != 0 {}
    let mut any = false;
    // Taking a report and passing it on are one step, as for any driver: the interrupt routine runs on one processor at a time.
    loop {
        let Some(data) = SCRIPTS[N].lock().reports.pop_front() else { break };
        any = true;
        // SAFETY: handle and data are good.
        unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
    }
    if any {
        // SAFETY: the handle is good.
        unsafe { adapter.interface.DxgkCbQueueDpc.unwrap()(adapter.handle) };
    }
    any.into()
}

unsafe extern "win64" fn query_dependent<const N: usize>(
    _context: HANDLE,
    args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    args.DependentNodeOrdinalMask = SCRIPTS[N].lock().mask.unwrap_or(1 << args.NodeOrdinal);
    STATUS_SUCCESS
}

unsafe extern "win64" fn query_status<const N: usize>(
    context: HANDLE,
    _args: *mut DXGKARG_QUERYENGINESTATUS,
) -> NTSTATUS {
    let mut state = SCRIPTS[N].lock();
    let late = core::mem::take(&mut state.late);
    let any = !late.is_empty();
    state.reports.extend(late);
    drop(state);
    if any {
        // SAFETY: the registers are mapped.
        unsafe { driver::adapter(context).registers.write_volatile(1) };
        let started = Instant::now();
        while !SCRIPTS[N].lock().reports.is_empty() && started.elapsed() < TIMEOUT {
            std::thread::yield_now();
        }
    }
    STATUS_SUCCESS
}

unsafe extern "win64" fn reset_engine<const N: usize>(_context: HANDLE, args: *mut DXGKARG_RESETENGINE) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    SCRIPTS[N].lock().reset_nodes.push(args.NodeOrdinal);
    let started = Instant::now();
    while SCRIPTS[N].lock().stuck && started.elapsed() < TIMEOUT {
        std::thread::yield_now();
    }
    let mut state = SCRIPTS[N].lock();
    let (status, aborted) = state.resets.pop_front().unwrap_or((STATUS_UNSUCCESSFUL, 0));
    args.LastAbortedFenceId = aborted;
    status
}

unsafe extern "win64" fn collect<const N: usize>(_context: HANDLE, args: *const DXGKARG_COLLECTDBGINFO) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    SCRIPTS[N].lock().reasons.push(unsafe { (*args).Reason });
    STATUS_SUCCESS
}

unsafe extern "win64" fn cancel<const N: usize>(_context: HANDLE, args: *const DXGKARG_CANCELCOMMAND) -> NTSTATUS {
    let mut state = SCRIPTS[N].lock();
    state.cancel_arguments = args.addr();
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    let mark = match args.DmaBufferPrivateDataSize {
        0 => 0,
        // SAFETY: the private data have as many bytes as the size says.
        _ => unsafe { args.pDmaBufferPrivateData.cast::<u8>().read() },
    };
    let packet = Cancelled {
        context: args.hContext.addr(),
        address: args.DmaBufferVirtualAddress,
        mark,
        // SAFETY: no arguments.
        level: unsafe { (driver::imports().KeGetCurrentIrql)() },
    };
    state.cancelled.push(packet);
    state.cancel_answer.unwrap_or(STATUS_SUCCESS)
}

/// Sets the DDIs of the packet engine of machine `N` in a driver's table.
pub(crate) fn fill<const N: usize>(table: &mut DRIVER_INITIALIZATION_DATA) {
    table.DxgkDdiCollectDbgInfo = Some(collect::<N>);
    table.DxgkDdiSubmitCommandVirtual = Some(submit::<N>);
    table.DxgkDdiPreemptCommand = Some(preempt::<N>);
    table.DxgkDdiCancelCommand = Some(cancel::<N>);
    table.DxgkDdiInterruptRoutine = Some(interrupt::<N>);
    table.DxgkDdiQueryDependentEngineGroup = Some(query_dependent::<N>);
    table.DxgkDdiQueryEngineStatus = Some(query_status::<N>);
    table.DxgkDdiResetEngine = Some(reset_engine::<N>);
}

/// A machine that can be started, once.
pub(crate) struct Kind {
    pub(crate) number: usize,
    pub(crate) table: fn(&mut DRIVER_INITIALIZATION_DATA),
}

macro_rules! kinds {
    ($($number:literal)*) => { [$(Kind { number: $number, table: fill::<$number> }),*] };
}

/// One for each test that starts one.
pub(crate) static MACHINES: [Kind; COUNT] =
    kinds![0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26];

/// The capability of a driver that can stop a packet while it runs.
pub(crate) fn stops_packets_that_run(caps: &mut DXGK_DRIVERCAPS) {
    caps.PreemptionCaps.ComputePreemptionGranularity =
        D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY;
}

/// A started machine.
pub(crate) struct Machine {
    pub(crate) bench: Bench,
    pub(crate) luid: LUID,
    pub(crate) engine: Engine,
}

/// The hand on the engine.
pub(crate) struct Engine {
    number: usize,
    bus: Arc<crate::minimal::FakeBus>,
}

impl Machine {
    pub(crate) fn start(kind: &Kind) -> Self {
        Self::start_with(kind, |_| ())
    }

    pub(crate) fn start_with(kind: &Kind, caps: fn(&mut DXGK_DRIVERCAPS)) -> Self {
        Self::start_as(kind, Mutant { caps, ..SOUND })
    }

    /// A machine whose driver deviates so besides.
    pub(crate) fn start_as(kind: &Kind, mutant: Mutant) -> Self {
        let in_vram = |info: &mut DXGK_ALLOCATIONINFO| {
            info.SupportedWriteSegmentSet = 2;
            info.PreferredSegment.set_SegmentId0(2);
        };
        let bench = Bench::with_config(
            Mutant { table: kind.table, allocation: in_vram, ..mutant },
            // No time passes, so that no time slice ends by itself.
            MachineConfig { ram: 64 << 20, isolated_memory: false, clock: Clock::manual(), ..MachineConfig::default() },
        )
        .unwrap();
        // An adapter that is not compute-only has to have one.
        bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
        let luid = bench.start().unwrap();
        let engine = Engine { number: kind.number, bus: Arc::clone(&bench.bus) };
        engine.script().lock().submitted.clear();
        Self { bench, luid, engine }
    }

    /// The bugcheck that the machine stops with.
    pub(crate) fn bugcheck(&self) -> Bugcheck {
        let started = Instant::now();
        loop {
            if let Some(bugcheck) = self.bench.machine.bugcheck() {
                return bugcheck;
            }
            assert!(started.elapsed() < TIMEOUT, "no bugcheck");
            std::thread::yield_now();
        }
    }

    /// The parameters of the bugcheck 0x119 that the machine stops with.
    pub(crate) fn scheduler_bugcheck(&self) -> [u64; 4] {
        let bugcheck = self.bugcheck();
        assert_eq!(bugcheck.code, Bugcheck::VIDEO_SCHEDULER_INTERNAL_ERROR, "{bugcheck}");
        bugcheck.parameters
    }

    /// Ends a process and the machine, which nothing has stopped.
    pub(crate) fn end(self, process: &Process) {
        process.exit();
        self.bench.machine.remove(self.luid).unwrap();
        assert_eq!(self.bench.machine.bugcheck(), None);
    }
}

impl Engine {
    fn script(&self) -> &'static Script {
        &SCRIPTS[self.number]
    }

    pub(crate) fn report(&self, data: DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
        self.script().lock().reports.push_back(data);
        self.bus.register_write(0, REPORT, 4, 1);
    }

    /// Several reports in one interrupt.
    pub(crate) fn report_all(&self, reports: impl IntoIterator<Item = DXGKARGCB_NOTIFY_INTERRUPT_DATA>) {
        self.script().lock().reports.extend(reports);
        self.bus.register_write(0, REPORT, 4, 1);
    }

    fn when<T>(&self, what: &str, mut look: impl FnMut(&State) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = look(&self.script().lock()) {
                return found;
            }
            assert!(started.elapsed() < TIMEOUT, "{what}: {:?}", self.script().lock().submitted);
            std::thread::yield_now();
        }
    }

    /// Everything handed over so far.
    pub(crate) fn everything(&self) -> Vec<Submitted> {
        self.script().lock().submitted.clone()
    }

    fn some(&self, paging: bool, count: usize) -> Vec<Submitted> {
        self.when("packets", |state| {
            let found: Vec<_> = state.submitted.iter().filter(|packet| packet.paging == paging).copied().collect();
            (found.len() >= count).then_some(found)
        })
    }

    /// Render packets handed over, once there are `count` of them.
    pub(crate) fn rendered(&self, count: usize) -> Vec<Submitted> {
        self.some(false, count)
    }

    /// Address of the DXGKARG_SUBMITCOMMANDVIRTUAL of the last render packet.
    pub(crate) fn arguments(&self) -> usize {
        self.script().lock().arguments
    }

    /// Paging packets handed over, once there are `count` of them.
    pub(crate) fn paged(&self, count: usize) -> Vec<Submitted> {
        self.some(true, count)
    }

    /// Preemptions asked for, once there are `count` of them.
    pub(crate) fn preemptions(&self, count: usize) -> Vec<u32> {
        self.when("preemptions", |state| (state.preemptions.len() >= count).then(|| state.preemptions.clone()))
    }

    /// Sets the status that DxgkDdiSubmitCommandVirtual returns for render packets from now on.
    pub(crate) fn answer(&self, status: NTSTATUS) {
        self.script().lock().answer = Some(status);
    }

    /// Sets the status that DxgkDdiPreemptCommand returns from now on.
    pub(crate) fn answer_preemptions(&self, status: NTSTATUS) {
        self.script().lock().preemption_answer = Some(status);
    }

    /// Sets the status that DxgkDdiCancelCommand returns from now on.
    pub(crate) fn answer_cancellations(&self, status: NTSTATUS) {
        self.script().lock().cancel_answer = Some(status);
    }

    /// Calls of DxgkDdiCancelCommand so far, and the address of the arguments of the last.
    pub(crate) fn cancelled(&self) -> (Vec<Cancelled>, usize) {
        let state = self.script().lock();
        (state.cancelled.clone(), state.cancel_arguments)
    }

    /// A node lets go of its packets at once when it is asked to; `completed` is the last one it has done.
    pub(crate) fn let_go_of(&self, node: u32, completed: u32) {
        self.script().lock().lets_go = Some((node, completed));
    }

    /// Paging packets stay on the hardware from now on.
    pub(crate) fn hold_paging(&self) {
        let mut state = self.script().lock();
        state.holds_paging = true;
        state.submitted.retain(|packet| !packet.paging);
    }

    /// Paging packets are done at once again; those on the hardware are the test's.
    pub(crate) fn release_paging(&self) {
        self.script().lock().holds_paging = false;
    }

    /// DMA_COMPLETED.
    pub(crate) fn complete(&self, fence: u32) {
        self.report(completed(0, fence));
    }

    /// DMA_PREEMPTED.
    pub(crate) fn preempted(&self, preemption: u32, completed: u32) {
        self.report(preempted(preemption, completed));
    }

    /// GPU_ENGINE_STATE_CHANGE: the driver says that an engine is idle.
    pub(crate) fn idle(&self, node: u32) {
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE;
        data.u.EngineStateChange.NodeOrdinal = node;
        data.u.EngineStateChange.NewState = DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_TRANSITION_TO_F1;
        self.report(data);
    }

    /// DMA_PAGE_FAULTED.
    pub(crate) fn faulted(&self, fence: u32, address: u64) {
        self.report(faulted(fence, address, 0));
    }

    /// What DxgkDdiResetEngine answers next: a status, and the last aborted fence id.
    pub(crate) fn answer_resets(&self, answers: &[(NTSTATUS, u32)]) {
        self.script().lock().resets.extend(answers);
    }

    /// Nodes that DxgkDdiResetEngine was called for.
    pub(crate) fn reset_nodes(&self) -> Vec<u32> {
        self.script().lock().reset_nodes.clone()
    }

    /// Reasons given to the calls of DxgkDdiCollectDbgInfo so far, in order.
    pub(crate) fn reasons(&self) -> Vec<u32> {
        self.script().lock().reasons.clone()
    }

    /// DxgkDdiResetEngine does not return, or does again.
    pub(crate) fn hold_resets(&self, stuck: bool) {
        self.script().lock().stuck = stuck;
    }

    /// DxgkDdiPreemptCommand does not return, or does again.
    pub(crate) fn hold_preemptions(&self, stuck: bool) {
        self.script().lock().stuck_preemption = stuck;
    }

    /// Sets the mask that DxgkDdiQueryDependentEngineGroup returns from now on.
    pub(crate) fn answer_dependents(&self, mask: u64) {
        self.script().lock().mask = Some(mask);
    }

    /// Reported while the engine is being reset, before DxgkDdiResetEngine.
    pub(crate) fn report_late(&self, reports: impl IntoIterator<Item = DXGKARGCB_NOTIFY_INTERRUPT_DATA>) {
        self.script().lock().late.extend(reports);
    }
}

/// Has the memory manager do something that takes the GPU: an allocation is mapped and made resident. Answers the fence that says when it is, and the
/// value for which it does; the engine of these tests carries nothing out, so it never has it.
pub(crate) fn page(device: D3DKMT_HANDLE, process: &Arc<Process>) -> (D3DKMT_HANDLE, u64) {
    let _attached = process.attach();
    let mut queue = D3DKMT_CREATEPAGINGQUEUE::zeroed();
    queue.hDevice = device;
    let queue = call(thunks().D3DKMTCreatePagingQueue, queue).unwrap();
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    let mut create = D3DKMT_CREATEALLOCATION::zeroed();
    (create.hDevice, create.NumAllocations) = (device, 1);
    create.u1.pAllocationInfo2 = &raw mut info;
    call(thunks().D3DKMTCreateAllocation2, create).unwrap();
    let mut map = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
    (map.hPagingQueue, map.hAllocation, map.SizeInPages) = (queue.hPagingQueue, info.hAllocation, 16);
    map.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true);
    let status = {
        // SAFETY: the structure lives across the call and its pointers are NULL.
        unsafe { (thunks().D3DKMTMapGpuVirtualAddress)(&raw mut map) }
    };
    assert!(status.is_success(), "{status}");
    let mut list = info.hAllocation;
    let mut resident = D3DDDI_MAKERESIDENT::zeroed();
    (resident.hPagingQueue, resident.NumAllocations) = (queue.hPagingQueue, 1);
    resident.AllocationList = &raw mut list;
    // SAFETY: the structure lives across the call, and so does its list.
    let status = unsafe { (thunks().D3DKMTMakeResident)(&raw mut resident) };
    assert!(status.is_success(), "{status}");
    (queue.hSyncObject, resident.PagingFenceValue)
}
