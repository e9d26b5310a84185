//! What the driver says through DxgkCbNotifyInterrupt, checked as far as the data alone allows.
//!
//! Checks against the state of the adapter (is the id submitted, does the handle exist) follow where that state is.

use std::{fmt, slice};

use nt::bugcheck::Bugcheck;
use nt::driver_call::bad_pointer;
use nt::fault::guarded;
use wddm_ddi::km::*;
use wddm_ddi::types::{D3DGPU_VIRTUAL_ADDRESS, HANDLE};

/// Subcodes of VIDEO_SCHEDULER_INTERNAL_ERROR (its parameter 1). [debugger: 0x119]
pub(crate) mod subcode {
    /// A fence id that is not under way.
    pub(crate) const INVALID_FENCE: u64 = 0x1;
    /// A submission or preemption returned an error.
    pub(crate) const SUBMISSION_FAILED: u64 = 0x2;
    /// A system or paging packet faulted.
    pub(crate) const SYSTEM_PACKET_FAULTED: u64 = 0x5;
    /// A report of a vertical sync from an adapter without displays.
    pub(crate) const VSYNC_WITHOUT_DISPLAY: u64 = 0x7;
    /// An answer of DxgkDdiQueryDependentEngineGroup without the node that was asked about, or with nodes that do not exist.
    pub(crate) const DEPENDENT_ENGINES: u64 = 0x8;
    /// DxgkDdiCancelCommand failed.
    pub(crate) const CANCELLATION_FAILED: u64 = 0x9;
    /// An aborted fence id that no packet on the hardware has, nor the last one completed.
    pub(crate) const INVALID_ABORTED_FENCE: u64 = 0xa;
    /// A page fault that says the hardware is broken.
    pub(crate) const FATAL_HARDWARE_ERROR: u64 = 0xc;
    /// Page fault flags that contradict each other.
    pub(crate) const INCONSISTENT_FAULT_FLAGS: u64 = 0xd;
    /// A report of an engine between its reset and its resumption.
    pub(crate) const REPORT_BEFORE_RESUME: u64 = 0x10;
    /// A suspend fence that was never issued.
    pub(crate) const INVALID_SUSPEND_FENCE: u64 = 0x11;
    /// DxgkDdiUpdateMonitoredValues failed.
    pub(crate) const UPDATE_MONITORED_FAILED: u64 = 0x12;
    /// DxgkDdiUpdateCurrentValuesFromCpu failed.
    pub(crate) const UPDATE_CURRENT_FAILED: u64 = 0x13;
}

/// Most handles that one report may carry.
const SIGNALED_MAX: u32 = 1 << 16;

/// The queue, context or process that a fault is reported of, by the handle that the driver named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultTarget {
    Queue(HANDLE),
    Context(HANDLE),
    Process(HANDLE),
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(handle) => write!(f, "hardware queue {:p}", *handle),
            Self::Context(handle) => write!(f, "hardware context {:p}", *handle),
            Self::Process(handle) => write!(f, "process {:p}", *handle),
        }
    }
}

/// Extent of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Engine,
    Adapter,
}

/// A page fault of hardware queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFault {
    pub(crate) target: FaultTarget,
    pub(crate) node: u32,
    pub(crate) address: D3DGPU_VIRTUAL_ADDRESS,
    pub(crate) fence: u64,
    pub(crate) level: u32,
    pub(crate) flags: DXGK_PAGE_FAULT_FLAGS,
    pub(crate) error: DXGK_FAULT_ERROR_CODE,
}

impl QueueFault {
    /// The reset that the driver demands before the engine runs anything again; `None` if it demands none.
    pub(crate) fn reset(&self) -> Option<Scope> {
        reset(self.flags)
    }
}

/// A page fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketFault {
    pub(crate) node: u32,
    /// `None` if the driver does not know which packet it was; the engine must be reset then.
    pub(crate) fence: Option<u32>,
    pub(crate) address: D3DGPU_VIRTUAL_ADDRESS,
    pub(crate) level: u32,
    pub(crate) flags: DXGK_PAGE_FAULT_FLAGS,
    pub(crate) error: DXGK_FAULT_ERROR_CODE,
}

/// One report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report<'a> {
    /// All packets of the node up to this id are complete.
    Completed { node: u32, fence: u32 },
    /// These native fences passed their monitored values.
    NativeFences { handles: &'a [HANDLE], legacy: bool },
    /// Some native fences passed theirs; look at all that are waited for. `legacy`: at monitored fences too.
    NativeScan { legacy: bool },
    /// This queue, by the driver's handle, signalled native fences that passed theirs; its logs tell which.
    NativeQueue { queue: HANDLE, legacy: bool },
    /// Some queues of the node did.
    NativeNode { node: u32, legacy: bool },
    /// Some monitored fences were written.
    MonitoredScan,
    /// A preemption is done: everything up to the packet `completed` ran, nothing else is on the hardware.
    Preempted { node: u32, preemption: u32, completed: u32 },
    /// A packet faulted; it counts as complete, with everything before it.
    PacketFaulted(PacketFault),
    /// Queues faulted.
    QueueFaulted(QueueFault),
    /// A context is suspended.
    Suspended { context: HANDLE, fence: u64 },
    /// The entry of the node's scheduling log was written that was asked for.
    SchedulingLog { node: u32 },
    /// The engine is idle and may enter F1.
    EngineIdle { node: u32 },
    /// The engine hangs.
    EngineHung { node: u32 },
    /// Nothing to do.
    Nothing,
}

impl PacketFault {
    /// The reset that the driver demands before the engine runs anything again; `None` if it demands none.
    pub(crate) fn reset(&self) -> Option<Scope> {
        reset(self.flags)
    }
}

/// Kind of a faulted access.
pub(crate) fn access(flags: DXGK_PAGE_FAULT_FLAGS) -> &'static str {
    if flags.0 & DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_WRITE.0 != 0 { "write" } else { "read" }
}

fn reset(flags: DXGK_PAGE_FAULT_FLAGS) -> Option<Scope> {
    type F = DXGK_PAGE_FAULT_FLAGS;
    let has = |flag: F| flags.0 & flag.0 != 0;
    if has(F::DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED) {
        return Some(Scope::Adapter);
    }
    has(F::DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED).then_some(Scope::Engine)
}

/// Properties of the adapter against which reports of its driver are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Nodes of each engine.
    pub(crate) nodes: u32,
    /// Linked physical adapters, 1 where nothing is linked.
    pub(crate) engines: u32,
    /// Reports name the queue instead of the fences (OptimizedNativeFenceSignaledInterrupt).
    pub(crate) optimized: bool,
}

impl Limits {
    /// The node among those of all engines.
    pub(crate) fn node(self, kind: DXGK_INTERRUPT_TYPE, node: u32, engine: u32) -> Result<u32, Bugcheck> {
        let Self { nodes, engines, .. } = self;
        if node < nodes && engine < engines {
            return Ok(engine * nodes + node);
        }
        Err(contract(
            kind,
            format!("node {node}, engine {engine}: the adapter has {nodes} nodes of {engines} engine(s)"),
        ))
    }
}

/// A broken rule for which no parameters are documented.
fn contract(kind: DXGK_INTERRUPT_TYPE, rule: impl AsRef<str>) -> Bugcheck {
    Bugcheck::new(
        Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR,
        [0; 4],
        format!("DxgkCbNotifyInterrupt, interrupt type {}: {}", kind.0, rule.as_ref()),
    )
}

/// Reads one report.
///
/// # Errors
/// The bugcheck that the driver earned.
///
/// # Safety
/// The arm of `data.u` that the type selects must be filled; a fence array of the stated count must be readable as long
/// as `data` is.
pub(crate) unsafe fn read(data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA, limits: Limits) -> Result<Report<'_>, Bugcheck> {
    use DXGK_INTERRUPT_TYPE as T;
    let reserved = data.Flags.into_bits() & u32::MAX << 3;
    if reserved != 0 {
        let rule = format!(
            "the bits {reserved:#x} of Flags are reserved, and expected is 0 [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS]"
        );
        return Err(contract(data.InterruptType, rule));
    }
    match data.InterruptType {
        T::DXGK_INTERRUPT_DMA_COMPLETED | T::DXGK_INTERRUPT_DMA_PREEMPTED | T::DXGK_INTERRUPT_DMA_PAGE_FAULTED => {
            // SAFETY: the caller says so.
            unsafe { read_packet(data, limits) }
        }
        T::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED => {
            // SAFETY: the type selects this arm, says the caller.
            let arm = unsafe { data.u.MonitoredFenceSignaled };
            limits.node(data.InterruptType, arm.NodeOrdinal, arm.EngineOrdinal)?;
            Ok(Report::MonitoredScan)
        }
        // SAFETY: the caller says so.
        T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED => unsafe { read_native(data, limits) },
        T::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.HwQueuePageFaulted };
            read_queue_fault(&arm, limits.node(data.InterruptType, arm.NodeOrdinal, arm.EngineOrdinal)?)
        }
        T::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED => {
            // SAFETY: as above.
            let arm = unsafe { data.u.SuspendContextCompleted };
            Ok(Report::Suspended { context: arm.hContext, fence: arm.ContextSuspendFence })
        }
        T::DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT => {
            // SAFETY: as above.
            let arm = unsafe { data.u.SchedulingLogInterrupt };
            Ok(Report::SchedulingLog { node: limits.node(data.InterruptType, arm.NodeOrdinal, arm.EngineOrdinal)? })
        }
        T::DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT => {
            // SAFETY: as above.
            let arm = unsafe { data.u.GpuEngineTimeout };
            Ok(Report::EngineHung { node: limits.node(data.InterruptType, arm.NodeOrdinal, arm.EngineOrdinal)? })
        }
        T::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE => {
            // SAFETY: as above.
            let arm = unsafe { data.u.EngineStateChange };
            read_engine_state(&arm, limits.node(data.InterruptType, arm.NodeOrdinal, arm.EngineOrdinal)?)
        }
        other => Err(unexpected(other)),
    }
}

/// # Safety
/// As for [`read`], with one of the three types for packets.
unsafe fn read_packet(data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA, limits: Limits) -> Result<Report<'_>, Bugcheck> {
    use DXGK_INTERRUPT_TYPE as T;
    let kind = data.InterruptType;
    if kind == T::DXGK_INTERRUPT_DMA_COMPLETED {
        // SAFETY: the type selects this arm, says the caller.
        let arm = unsafe { data.u.DmaCompleted };
        let node = limits.node(kind, arm.NodeOrdinal, arm.EngineOrdinal)?;
        return Ok(Report::Completed { node, fence: arm.SubmissionFenceId });
    }
    if kind == T::DXGK_INTERRUPT_DMA_PREEMPTED {
        // SAFETY: as above.
        let arm = unsafe { data.u.DmaPreempted };
        let node = limits.node(kind, arm.NodeOrdinal, arm.EngineOrdinal)?;
        return Ok(Report::Preempted { node, preemption: arm.PreemptionFenceId, completed: arm.LastCompletedFenceId });
    }
    // SAFETY: as above.
    let arm = unsafe { data.u.DmaPageFaulted };
    let node = limits.node(kind, arm.NodeOrdinal, arm.EngineOrdinal)?;
    check_fault_flags(arm.PageFaultFlags, arm.FaultedVirtualAddress)?;
    let known = arm.PageFaultFlags.0 & DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_FENCE_INVALID.0 == 0;
    Ok(Report::PacketFaulted(PacketFault {
        node,
        fence: known.then_some(arm.FaultedFenceId),
        address: arm.FaultedVirtualAddress,
        level: arm.PageTableLevel,
        flags: arm.PageFaultFlags,
        error: arm.FaultErrorCode,
    }))
}

fn read_engine_state(
    arm: &DXGKARGCB_NOTIFY_INTERRUPT_DATA_EngineStateChange,
    node: u32,
) -> Result<Report<'static>, Bugcheck> {
    match arm.NewState {
        DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_ACTIVE => Ok(Report::Nothing),
        DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_TRANSITION_TO_F1 => Ok(Report::EngineIdle { node }),
        DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_HUNG => Ok(Report::EngineHung { node }),
        other => Err(contract(
            DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE,
            format!("engine state {} does not exist", other.0),
        )),
    }
}

/// Types that no adapter of this kind reports.
fn unexpected(kind: DXGK_INTERRUPT_TYPE) -> Bugcheck {
    use DXGK_INTERRUPT_TYPE as T;
    match kind {
        T::DXGK_INTERRUPT_CRTC_VSYNC
        | T::DXGK_INTERRUPT_DISPLAYONLY_VSYNC
        | T::DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS
        | T::DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY
        | T::DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2
        | T::DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3 => Bugcheck::scheduler(
            subcode::VSYNC_WITHOUT_DISPLAY,
            kind.0 as u64,
            0,
            0,
            "a vertical sync was reported by an adapter without displays",
        ),
        T::DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED => contract(kind, "reported for a switch never requested"),
        T::DXGK_INTERRUPT_DMA_FAULTED => contract(
            kind,
            "DXGK_INTERRUPT_DMA_FAULTED is reserved for the system, and no driver may use it; expected is DXGK_INTERRUPT_DMA_PAGE_FAULTED (9) for a packet \
             whose device is to be put into error [d3dkmddi: DXGK_INTERRUPT_TYPE]",
        ),
        _ => contract(kind, "not a type that this adapter may report"),
    }
}

/// # Safety
/// As for [`read`], with `NativeFenceSignaled` as the arm.
unsafe fn read_native(data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA, limits: Limits) -> Result<Report<'_>, Bugcheck> {
    let kind = data.InterruptType;
    // SAFETY: the caller says that this arm is filled.
    let arm = unsafe { data.u.NativeFenceSignaled };
    let node = limits.node(kind, arm.NodeOrdinal, arm.EngineOrdinal)?;
    let legacy = data.Flags.EvaluateLegacyMonitoredFences();
    if limits.optimized {
        return match (arm.SignaledNativeFenceCount, arm.pSignaledNativeFenceArray.is_null(), arm.hHWQueue) {
            (0, true, queue) if queue.is_null() => Ok(Report::NativeNode { node, legacy }),
            (0, true, queue) => Ok(Report::NativeQueue { queue, legacy }),
            _ => Err(contract(kind, "fences are named beside OptimizedNativeFenceSignaledInterrupt")),
        };
    }
    if !arm.hHWQueue.is_null() {
        return Err(contract(kind, "hHWQueue must be NULL without OptimizedNativeFenceSignaledInterrupt"));
    }
    match (arm.SignaledNativeFenceCount, arm.pSignaledNativeFenceArray.is_null()) {
        (_, true) if arm.SignaledNativeFenceCount != 0 => {
            Err(contract(kind, format!("{} fences and a NULL array", arm.SignaledNativeFenceCount)))
        }
        (_, true) => Ok(Report::NativeScan { legacy }),
        (count, false) if count > SIGNALED_MAX => Err(contract(kind, format!("{count} fences in one report"))),
        (count, false) => {
            let bytes = count as usize * size_of::<HANDLE>();
            guarded::probe(arm.pSignaledNativeFenceArray.cast(), bytes)
                .map_err(|fault| bad_pointer("DxgkCbNotifyInterrupt", fault))?;
            // SAFETY: the array has `count` elements for as long as `data` lives, says the caller; they were just seen to be readable.
            let handles = unsafe { slice::from_raw_parts(arm.pSignaledNativeFenceArray, count as usize) };
            Ok(Report::NativeFences { handles, legacy })
        }
    }
}

fn read_queue_fault(
    arm: &DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted,
    node: u32,
) -> Result<Report<'static>, Bugcheck> {
    type F = DXGK_PAGE_FAULT_FLAGS;
    let flags = arm.PageFaultFlags;
    check_fault_flags(flags, arm.FaultedVirtualAddress)?;
    let has = |bit: F| flags.0 & bit.0 != 0;
    // SAFETY: all arms of the union are a handle.
    let handle = unsafe { arm.u.FaultedHwQueue };
    let target = match (has(F::DXGK_PAGE_FAULT_HW_CONTEXT_VALID), has(F::DXGK_PAGE_FAULT_PROCESS_HANDLE_VALID)) {
        (false, false) => FaultTarget::Queue(handle),
        (true, false) => FaultTarget::Context(handle),
        (false, true) => FaultTarget::Process(handle),
        (true, true) => return Err(inconsistent(flags, "context and process both named")),
    };
    Ok(Report::QueueFaulted(QueueFault {
        target,
        node,
        address: arm.FaultedVirtualAddress,
        fence: arm.FaultedFenceId,
        level: arm.PageTableLevel,
        flags,
        error: arm.FaultErrorCode,
    }))
}

fn check_fault_flags(flags: DXGK_PAGE_FAULT_FLAGS, address: u64) -> Result<(), Bugcheck> {
    type F = DXGK_PAGE_FAULT_FLAGS;
    const KNOWN: i32 = 0xff;
    let severe = F::DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED.0
        | F::DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED.0
        | F::DXGK_PAGE_FAULT_FATAL_HARDWARE_ERROR.0;
    if flags.0 & !KNOWN != 0 {
        return Err(inconsistent(flags, "bits that no flag has"));
    }
    if flags.0 & F::DXGK_PAGE_FAULT_FENCE_INVALID.0 != 0 && flags.0 & severe == 0 {
        return Err(inconsistent(flags, "FENCE_INVALID without a flag that asks for a reset"));
    }
    if flags.0 & F::DXGK_PAGE_FAULT_FATAL_HARDWARE_ERROR.0 != 0 {
        return Err(Bugcheck::scheduler(
            subcode::FATAL_HARDWARE_ERROR,
            flags.0 as u64,
            address,
            0,
            format!("a page fault at {address:#x} was flagged FATAL_HARDWARE_ERROR"),
        ));
    }
    Ok(())
}

fn inconsistent(flags: DXGK_PAGE_FAULT_FLAGS, rule: &str) -> Bugcheck {
    Bugcheck::scheduler(
        subcode::INCONSISTENT_FAULT_FLAGS,
        flags.0 as u64,
        0,
        0,
        format!("page fault flags {:#x}: {rule}", flags.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::Zeroed;

    const LIMITS: Limits = Limits { nodes: 3, engines: 1, optimized: false };

    fn data(kind: i32) -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        data.InterruptType = DXGK_INTERRUPT_TYPE(kind);
        data
    }

    fn check(data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) -> Result<Report<'_>, Bugcheck> {
        // SAFETY: zeroed data is valid for every arm, and the tests' arrays are as long as they say.
        unsafe { read(data, LIMITS) }
    }

    fn subcode_of(result: Result<Report<'_>, Bugcheck>) -> u64 {
        let bugcheck = result.expect_err("the report is accepted");
        assert_eq!(bugcheck.code, Bugcheck::VIDEO_SCHEDULER_INTERNAL_ERROR, "{bugcheck}");
        bugcheck.parameters[0]
    }

    fn fault(flags: i32) -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
        let mut data = data(12);
        let mut arm = DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted::zeroed();
        arm.PageFaultFlags = DXGK_PAGE_FAULT_FLAGS(flags);
        arm.FaultedVirtualAddress = 0x4000;
        arm.NodeOrdinal = 1;
        data.u.HwQueuePageFaulted = arm;
        data
    }

    #[test]
    fn vertical_syncs_are_0x119_7() {
        for kind in [3, 5, 6, 7, 10, 18] {
            assert_eq!(subcode_of(check(&data(kind))), 0x7, "type {kind}");
        }
    }

    #[test]
    fn a_fatal_page_fault_is_0x119_c_and_names_the_address() {
        let data = fault(0x10);
        let bugcheck = check(&data).unwrap_err();
        assert_eq!((bugcheck.code, bugcheck.parameters), (0x119, [0xc, 0x10, 0x4000, 0]));
    }

    #[test]
    fn contradicting_page_fault_flags_are_0x119_d() {
        for flags in [0x2, 0x3, 0xc0, 0x100, -1] {
            assert_eq!(subcode_of(check(&fault(flags))), 0xd, "flags {flags:#x}");
        }
    }

    #[test]
    fn flags_select_who_faulted() {
        let null = core::ptr::null_mut();
        for (flags, target) in [
            (0x1, FaultTarget::Queue(null)),
            (0xa, FaultTarget::Queue(null)),
            (0x40, FaultTarget::Context(null)),
            (0x81, FaultTarget::Process(null)),
        ] {
            let data = fault(flags);
            let Ok(Report::QueueFaulted(fault)) = check(&data) else { panic!("flags {flags:#x}") };
            let kind = if flags & 1 != 0 { "write" } else { "read" };
            assert_eq!((fault.target, access(fault.flags)), (target, kind), "flags {flags:#x}");
        }
    }

    #[test]
    fn a_faulted_packet_has_a_fence_unless_the_flags_say_otherwise() {
        for (flags, fence) in [(0, Some(7)), (0x1, Some(7)), (0xa, None), (0xb, None)] {
            let mut data = data(9);
            let mut arm = DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPageFaulted::zeroed();
            (arm.FaultedFenceId, arm.FaultedVirtualAddress, arm.NodeOrdinal) = (7, 0x1000, 2);
            arm.PageFaultFlags = DXGK_PAGE_FAULT_FLAGS(flags);
            data.u.DmaPageFaulted = arm;
            let Ok(Report::PacketFaulted(fault)) = check(&data) else { panic!("flags {flags:#x}") };
            assert_eq!((fault.node, fault.fence, fault.address), (2, fence, 0x1000), "flags {flags:#x}");
            assert_eq!(fault.reset().is_some(), fence.is_none());
        }
    }

    #[test]
    fn a_preemption_names_itself_and_the_last_packet_that_ran() {
        let mut data = data(2);
        data.u.DmaPreempted = DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPreempted {
            PreemptionFenceId: 3,
            LastCompletedFenceId: 9,
            NodeOrdinal: 1,
            EngineOrdinal: 0,
        };
        assert_eq!(check(&data), Ok(Report::Preempted { node: 1, preemption: 3, completed: 9 }));
        data.u.DmaPreempted.NodeOrdinal = 3;
        assert!(check(&data).is_err(), "no such node");
    }

    #[test]
    fn engines_that_do_not_exist_and_reports_never_asked_for_break_the_contract() {
        let mut wrong = Vec::new();
        for (node, engine) in [(3, 0), (0, 1), (u32::MAX, u32::MAX)] {
            for kind in [1, 9, 11, 12, 15, 16, 19, 20] {
                let mut data = data(kind);
                let reserved = &mut DXGKARGCB_NOTIFY_INTERRUPT_DATA_Reserved { Reserved: [0; 16] };
                data.u.Reserved = *reserved;
                match kind {
                    1 => (data.u.DmaCompleted.NodeOrdinal, data.u.DmaCompleted.EngineOrdinal) = (node, engine),
                    9 => (data.u.DmaPageFaulted.NodeOrdinal, data.u.DmaPageFaulted.EngineOrdinal) = (node, engine),
                    12 => {
                        (data.u.HwQueuePageFaulted.NodeOrdinal, data.u.HwQueuePageFaulted.EngineOrdinal) =
                            (node, engine)
                    }
                    _ => (data.u.GpuEngineTimeout.NodeOrdinal, data.u.GpuEngineTimeout.EngineOrdinal) = (node, engine),
                }
                wrong.push(data);
            }
        }
        wrong.extend([0, 4, 8, 13, 14, 21, -1].map(data));
        for data in &wrong {
            let bugcheck = check(data).expect_err("accepted");
            assert_eq!(bugcheck.code, Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, "{bugcheck}");
        }
        assert_eq!(check(&data(15)), Ok(Report::SchedulingLog { node: 0 }), "whether the node has one is asked later");
    }

    #[test]
    fn what_is_reserved_for_the_system_is_refused_by_name() {
        let faulted = check(&data(4)).expect_err("accepted");
        assert!(faulted.reason.contains("DXGK_INTERRUPT_DMA_FAULTED is reserved for the system"), "{faulted}");
        let mut flagged = data(11);
        flagged.Flags = DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS::from_bits(0x14);
        let flagged = check(&flagged).expect_err("accepted");
        assert!(flagged.reason.contains("the bits 0x10 of Flags are reserved"), "{flagged}");
    }

    #[test]
    fn native_fences_come_by_handle_or_not_at_all() {
        let mut handles = [core::ptr::without_provenance_mut::<core::ffi::c_void>(0x10); 3];
        let mut exact = data(19);
        exact.u.NativeFenceSignaled.SignaledNativeFenceCount = 3;
        exact.u.NativeFenceSignaled.pSignaledNativeFenceArray = handles.as_mut_ptr();
        let expected = handles;
        assert_eq!(check(&exact), Ok(Report::NativeFences { handles: &expected, legacy: false }));
        let mut scan = data(19);
        assert_eq!(check(&scan), Ok(Report::NativeScan { legacy: false }));
        scan.Flags = scan.Flags.with_EvaluateLegacyMonitoredFences(true);
        assert_eq!(check(&scan), Ok(Report::NativeScan { legacy: true }));
        scan.u.NativeFenceSignaled.SignaledNativeFenceCount = 1;
        assert!(check(&scan).is_err(), "a count without an array");
        exact.u.NativeFenceSignaled.SignaledNativeFenceCount = SIGNALED_MAX + 1;
        assert!(check(&exact).is_err(), "an array beyond all reason");
        let mut queue = data(19);
        queue.u.NativeFenceSignaled.hHWQueue = handles[0];
        assert!(check(&queue).is_err(), "a queue without the optimised interrupt");
        // SAFETY: the data is filled as its type says.
        let optimized = |data| unsafe { read(data, Limits { nodes: 3, engines: 1, optimized: true }) };
        assert_eq!(optimized(&queue), Ok(Report::NativeQueue { queue: handles[0], legacy: false }));
        scan.u.NativeFenceSignaled.SignaledNativeFenceCount = 0;
        assert_eq!(optimized(&scan), Ok(Report::NativeNode { node: 0, legacy: true }));
        exact.u.NativeFenceSignaled.SignaledNativeFenceCount = 3;
        assert!(optimized(&exact).is_err(), "fences where a queue belongs");
    }

    #[test]
    fn engine_states_have_three_values() {
        for (state, expected) in [
            (0, Some(Report::Nothing)),
            (1, Some(Report::EngineIdle { node: 0 })),
            (2, Some(Report::EngineHung { node: 0 })),
            (3, None),
            (-1, None),
        ] {
            let mut data = data(20);
            data.u.EngineStateChange.NewState = DXGK_ENGINE_STATE(state);
            assert_eq!(check(&data).ok(), expected, "state {state}");
        }
    }
}
