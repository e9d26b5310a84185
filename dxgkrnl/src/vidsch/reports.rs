//! Reports of interrupts are checked, and noted for the DPC and the worker thread.

use std::sync::Arc;

use nt::bugcheck::Bugcheck;
use nt::lock::lock;
use wddm_ddi::status::STATUS_TIMEOUT;
use wddm_ddi::types::HANDLE;

use crate::fence::InvalidFence;
use crate::rescue::Rescue;
use crate::tdr_report::TdrReason;

use super::objects::device::{Device, DeviceError};
use super::objects::fence::Fence;
use super::objects::hardware::{HwContext, HwQueue};
use super::objects::pending::FaultedDevices;
use super::objects::preempting::{InvalidPreemption, Standing, TakenOff, Verdict};
use super::objects::process_adapter::ProcessAdapter;
use super::objects::running::Leaving;
use super::objects::timeouts::Subject;
use super::objects::worker::Work;
use super::report::{self, FaultTarget, PacketFault, QueueFault, Scope, subcode};
use super::scheduler::VidSch;
use super::scheduling_log;

/// A report that names in `member` a packet that is not under way.
fn invalid_fence((report, member): (&str, &str), node: u32, invalid: InvalidFence) -> Bugcheck {
    let InvalidFence { reported, last_completed, last_submitted } = invalid;
    Bugcheck::scheduler(
        subcode::INVALID_FENCE,
        u64::from(reported),
        u64::from(last_completed),
        u64::from(last_submitted),
        format!(
            "{report} on node {node} with {member} {reported:#x}, which is not under way: {last_completed:#x} is complete \
             and {last_submitted:#x} the last submitted"
        ),
    )
}

/// A report about a suspension that is not under way.
pub(super) fn invalid_suspension(context: HANDLE, fence: u64) -> Bugcheck {
    Bugcheck::scheduler(
        subcode::INVALID_SUSPEND_FENCE,
        context.addr() as u64,
        fence,
        0,
        format!("SUSPEND_CONTEXT_COMPLETED of {context:p} with fence {fence}, which is not under way"),
    )
}

impl VidSch {
    /// The scheduling log of a node is half full.
    ///
    /// # Errors
    /// The node has none.
    pub(super) fn note_scheduling_log(&self, node: u32) -> Result<(), Bugcheck> {
        if !self.has_scheduling_log(node) {
            return Err(scheduling_log::never_set(node));
        }
        lock(&self.pending).work.push(Work::SchedulingLog(node));
        Ok(())
    }

    pub(super) fn note_completed(&self, node: u32, fence: u32) -> Result<(), Bugcheck> {
        let Some(state) = self.nodes.get(node as usize) else { return Ok(()) };
        state
            .state()
            .complete(fence, Leaving::Completed)
            .map_err(|invalid| invalid_fence(("DMA_COMPLETED", "SubmissionFenceId"), node, invalid))?;
        self.note_finished_packets(node);
        Ok(())
    }

    /// Packets of a node are done, or came back.
    fn note_finished_packets(&self, node: u32) {
        let mut pending = lock(&self.pending);
        pending.completed |= 1 << (node & 63);
        // A packet may have written monitored fences, those of paging queues above all.
        pending.scan_monitored = true;
    }

    pub(super) fn note_preempted(&self, node: u32, preemption: u32, completed: u32) -> Result<(), Bugcheck> {
        let Some(state) = self.nodes.get(node as usize) else { return Ok(()) };
        let delay = self.timeouts.delay();
        let taken_off = state.state().preempted(preemption, completed, delay).map_err(|invalid| match invalid {
            InvalidPreemption::Fence(invalid) => {
                invalid_fence(("DMA_PREEMPTED", "LastCompletedFenceId"), node, invalid)
            }
            InvalidPreemption::Unknown => Bugcheck::scheduler(
                subcode::INVALID_FENCE,
                u64::from(preemption),
                u64::from(completed),
                u64::from(node),
                format!("DMA_PREEMPTED on node {node} for PreemptionFenceId {preemption:#x}, which is not under way"),
            ),
        })?;
        match taken_off {
            TakenOff::Nothing => {}
            TakenOff::Done => {
                self.rescued(Rescue::UnreportedCompletion, 1);
                self.verifier.log(format!(
                    "the driver did not report packet {completed:#x} of node {node} with DXGK_INTERRUPT_DMA_COMPLETED for TdrDelay: only \
                     DXGK_INTERRUPT_DMA_PREEMPTED, when the packet was asked off the engine, called it complete"
                ));
            }
            TakenOff::Standing(standing) => self.note_standing(node, &standing)?,
        }
        self.note_finished_packets(node);
        Ok(())
    }

    /// A packet has had its node for TdrDelay, was taken off and is not done.
    ///
    /// # Errors
    /// VIDEO_TDR_FAILURE for one that was lost more often than TdrLimitCount. [debugger: 0x116]
    fn note_standing(&self, node: u32, standing: &Standing) -> Result<(), Bugcheck> {
        let Standing { id, times, completed, verdict } = *standing;
        let Some(limit) = self.timeouts.limit_of_losses() else { return Ok(()) };
        let kind = if verdict == Verdict::Paging { "paging packet" } else { "packet" };
        let found = format!(
            "{kind} {id:#x} of node {node} was the oldest there for TdrDelay, and DXGK_INTERRUPT_DMA_PREEMPTED took it off with last \
             completed {completed:#x}"
        );
        let lost = match verdict {
            Verdict::Unknown => {
                self.rescued(Rescue::RepeatedPacket, 1);
                if times == 1 {
                    self.verifier.log(format!(
                        "{found}: it is long or lost, and nothing tells which, because PreemptionCaps do not say that a packet of this node runs \
                         to its end once it was begun; it is handed over again as often as that happens"
                    ));
                }
                return Ok(());
            }
            Verdict::NotBegun => {
                "which a driver with D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY can do only with a packet that it has not begun"
            }
            Verdict::Paging => "and what DxgkDdiBuildPagingBuffer puts into one packet never takes so long",
        };
        if times <= limit {
            self.rescued(Rescue::LostPacket, 1);
            self.verifier.log(format!("{found}, {lost}: the packet was lost, and is handed over again"));
            return Ok(());
        }
        let reason = format!(
            "{found}, {lost}: it, or whatever the node was handed, was lost {times} times, which is more often than TdrLimitCount; expected is \
             DXGK_INTERRUPT_DMA_COMPLETED with {id:#x}"
        );
        let parameters = [0, 0, u64::from(STATUS_TIMEOUT.0 as u32), 0];
        Err(Bugcheck::new(Bugcheck::VIDEO_TDR_FAILURE, parameters, reason))
    }

    pub(super) fn note_packet_fault(&self, fault: &PacketFault) -> Result<(), Bugcheck> {
        let Some(state) = self.nodes.get(fault.node as usize) else { return Ok(()) };
        let Some(fence) = fault.fence else {
            let suspects = state.state().suspects().map(Subject::Packets);
            let reset = suspects.and_then(|subject| self.reset_after(fault.node, subject, fault.reset()));
            lock(&self.pending).work.extend(reset);
            return Ok(());
        };
        let device = {
            let mut state = state.state();
            if state.fences.is_abandoned() || state.in_flight(fence).is_none() && state.is_given_up(fence) {
                return Ok(());
            }
            let device = state.in_flight(fence).map(|packet| packet.device().cloned());
            if !matches!(device, Some(None)) {
                let invalid = |invalid| invalid_fence(("DMA_PAGE_FAULTED", "FaultedFenceId"), fault.node, invalid);
                state.complete(fence, Leaving::Faulted).map_err(invalid)?;
            }
            device.flatten()
        };
        let Some(device) = device else {
            return Err(Bugcheck::scheduler(
                subcode::SYSTEM_PACKET_FAULTED,
                u64::from(fence),
                fault.address,
                u64::from(fault.node),
                format!("a system packet faulted: id {fence:#x} on node {} at {:#x}", fault.node, fault.address),
            ));
        };
        let error = DeviceError::PageFault { address: fault.address, flags: fault.flags, code: fault.error };
        self.verifier.log(format!(
            "packet {fence:#x} of {} faulted on node {}: {} at {:#x}, level {}, error {:#x}",
            device.process.owner(),
            fault.node,
            report::access(fault.flags),
            fault.address,
            fault.level,
            fault.error.into_bits()
        ));
        device.set_error(error);
        self.note_finished_packets(fault.node);
        let mut pending = lock(&self.pending);
        pending.work.push(Work::Lose(device, error));
        pending.work.extend(self.reset_after(fault.node, Subject::Engine, fault.reset()));
        Ok(())
    }

    /// The native fence that a report names.
    pub(super) fn reported_fence(&self, handle: HANDLE) -> Result<Arc<Fence>, Bugcheck> {
        self.fences.get(handle).filter(|fence| fence.is_native()).ok_or_else(|| {
            let reason = format!("NATIVE_FENCE_SIGNALED names {handle:p}, no native fence or a destroyed one");
            Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], reason)
        })
    }

    /// The queue that a report names.
    pub(super) fn reported_queue(&self, handle: HANDLE) -> Result<Arc<HwQueue>, Bugcheck> {
        self.find_queue(handle).ok_or_else(|| {
            let reason = format!("NATIVE_FENCE_SIGNALED names {handle:p}, no hardware queue or a destroyed one");
            Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], reason)
        })
    }

    /// A suspension is complete.
    pub(super) fn note_suspension(&self, context: &Arc<HwContext>, fence: u64) -> Result<(), Bugcheck> {
        if !context.suspend_completed(fence) {
            return Err(invalid_suspension(context.handles().0.raw(), fence));
        }
        lock(&self.pending).suspended.push(Arc::clone(context));
        Ok(())
    }

    /// Whom a fault of hardware queues concerns. The reset that it asks for is one of the engine as it is now.
    pub(super) fn queues_fault(&self, fault: &QueueFault) -> Result<FaultedDevices, Bugcheck> {
        let devices: Vec<Arc<Device>> = match fault.target {
            FaultTarget::Queue(handle) => {
                self.find_queue(handle).iter().map(|queue| Arc::clone(queue.context().device())).collect()
            }
            FaultTarget::Context(handle) => {
                self.find_context(handle).iter().map(|context| Arc::clone(context.device())).collect()
            }
            FaultTarget::Process(handle) => self.devices_of_process(handle),
        };
        if devices.is_empty() {
            return Err(Bugcheck::new(
                Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR,
                [0; 4],
                format!(
                    "HWQUEUE_PAGE_FAULTED names {}, which does not exist: expected is {} [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA]",
                    fault.target,
                    expected(fault.target)
                ),
            ));
        }
        let error = DeviceError::PageFault { address: fault.address, flags: fault.flags, code: fault.error };
        self.verifier.log(format!(
            "{} faulted on node {}: {} at {:#x}, level {}, progress {}, error {:#x}",
            fault.target,
            fault.node,
            report::access(fault.flags),
            fault.address,
            fault.level,
            fault.fence,
            fault.error.into_bits()
        ));
        let reset = self.reset_after(fault.node, Subject::Engine, fault.reset());
        Ok(FaultedDevices { devices, error, reset })
    }

    /// The devices with hardware contexts of the process with this handle, the system's or the driver's.
    fn devices_of_process(&self, handle: HANDLE) -> Vec<Arc<Device>> {
        let contexts = self.contexts.all();
        let having = |is_process: &dyn Fn(&ProcessAdapter) -> bool| {
            let own = contexts.iter().filter(|context| is_process(&context.device().process));
            own.map(|context| Arc::clone(context.device())).collect::<Vec<_>>()
        };
        // The driver may choose its handles as it likes, also like those of the system.
        let mut devices = having(&|process| process.kmd_process.raw() == handle);
        if devices.is_empty() {
            devices = having(&|process| process.system_handle() == handle);
        }
        devices.sort_by_key(|device| device.id());
        devices.dedup_by_key(|device| device.id());
        devices
    }

    /// Hardware queues faulted: their devices are lost.
    pub(super) fn note_fault(&self, faulted: FaultedDevices) {
        let FaultedDevices { devices, error, reset } = faulted;
        let mut pending = lock(&self.pending);
        for device in devices {
            // From now on no thunk accepts work for it, and its state tells why.
            device.set_error(error);
            pending.work.push(Work::Lose(device, error));
        }
        pending.work.extend(reset);
    }

    /// The reset that a fault of this node asks for.
    fn reset_after(&self, node: u32, subject: Subject, scope: Option<Scope>) -> Option<Work> {
        Some(match scope? {
            Scope::Engine => Work::Recover(self.timeouts.complaint_about(node, TdrReason::PageFault, subject)),
            Scope::Adapter => Work::ResetAdapter(TdrReason::PageFault, self.timeouts.adapter_resets()),
        })
    }
}

/// What the handle of a fault has to be. The page does not say whose, so that both are taken where there are two.
fn expected(target: FaultTarget) -> &'static str {
    match target {
        FaultTarget::Queue(_) => {
            "hHwQueue of DXGKARG_CREATEHWQUEUE, as the system gave it or as the driver answered it"
        }
        FaultTarget::Context(_) => {
            "hHwContext of DXGKARG_CREATEHWCONTEXT, as the system gave it or as the driver answered it"
        }
        FaultTarget::Process(_) => "hDxgkProcess or hKmdProcess of DXGKARG_CREATEPROCESS",
    }
}
