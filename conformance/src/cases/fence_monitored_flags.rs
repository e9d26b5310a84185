//! Flags of monitored fences: who may wait and signal, and what becomes of the value when the device is lost.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags;
use wddm_ddi::kmt::{D3DDDI_SYNCHRONIZATIONOBJECT_TYPE, D3DDDICB_SIGNALFLAGS, D3DKMT_DEVICEEXECUTION_STATE};
use wddm_ddi::status::*;

use crate::rig::{KernelHandle, RawFence, Rig, fill, shared_flags, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { thunks "MonitoredFence";
    "MonitoredFence.NoSignalLeavesWaits" needs HardwareScheduling, NativeFence on Boot::Shared, "context-monitoring":
        "A monitored fence with NoSignal is signalled neither by the processor nor by queues and contexts, a GPU that writes it faults, and everybody waits for it."
        holds [NativeFence 78, ContextMonitoring 2]
        => no_signal;
    "MonitoredFence.NoWaitLeavesSignals" needs HardwareScheduling, NativeFence on Boot::Shared, "context-monitoring":
        "For a monitored fence with NoWait neither the processor nor queues and contexts can wait, and all of them signal it; both flags together are refused."
        holds [NativeFence 78, ContextMonitoring 2]
        => no_wait;
    "MonitoredFence.ValueIsKeptWhenTheDeviceIsLost" needs NativeFence on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A monitored fence with NoSignalMaxValueOnTdr keeps its value when its device is lost, while one without becomes all ones."
        holds [NativeFence 78, ContextMonitoring 2]
        => value_kept;
    "MonitoredFence.NoGpuAccessHoldsInEveryOpening" on Boot::Shared, "d3dkmt_opensyncobjectfromnthandle2":
        "A shared monitored fence with NoGPUAccess has no GPU address in any opening, with the flag as without, and the processor and contexts use it; of another fence the flag takes the address of one opening and of what is shared from there."
        holds [ContextMonitoring 6]
        => no_gpu_access;
}

const DENIED: &[NTSTATUS] = &[STATUS_ACCESS_DENIED];
const PLAIN: D3DDDICB_SIGNALFLAGS = D3DDDICB_SIGNALFLAGS::new();

fn is_lost(rig: &Rig) -> bool {
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    rig.kmt.execution_state(rig.device).is_ok_and(|now| now != active)
}

fn no_signal(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    // The loss of the device, at the end, is not to change the value.
    let fence = rig.monitored_fence(3, Flags::new().with_NoSignal(true).with_NoSignalMaxValueOnTdr(true))?;
    let (queue, mut packets) = (rig.kernel_queue(NODE_COMPUTE)?, rig.packet_queue(NODE_COPY)?);
    let more = [(fence.handle, 4)];
    refused(rig.signal(&[fence.handle], &[4]), DENIED, "a signal of the processor")?;
    refused(rig.queue_signal(&[queue.queue], &more, PLAIN), DENIED, "a signal of a queue")?;
    refused(rig.context_signal(queue.context, &more), DENIED, "a signal of the queue's context")?;
    refused(rig.context_signal(packets.context, &more), DENIED, "a signal of a context of packets")?;
    refused(rig.context_signal2(&[packets.context], &more, PLAIN), DENIED, "the same with flags")?;
    let there = [(fence.handle, 3)];
    granted(rig.wait(&[fence.handle], &[3], false), "a wait of the processor")?;
    granted(rig.queue_wait(queue.queue, &there), "a wait of a queue")?;
    granted(rig.context_wait(packets.context, &there), "a wait of a context of packets")?;
    ensure!(!is_lost(&rig), "the device is lost already");
    rig.packet_submit(&mut packets, &[fence.signal(9)])?;
    wait_until("the fault of the GPU's signal", || is_lost(&rig))?;
    ensure_eq!(fence.value.load(), 3, "value after everybody tried");
    Ok(())
}

fn no_wait(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let flags = Flags::new().with_NoWait(true);
    let fence = rig.monitored_fence(3, flags)?;
    let (queue, packets) = (rig.kernel_queue(NODE_COMPUTE)?, rig.packet_queue(NODE_COPY)?);
    let there = [(fence.handle, 3)];
    let event = Event::new()?;
    refused(rig.wait(&[fence.handle], &[3], false), DENIED, "a wait of the processor")?;
    let with_event = rig.wait_with_event(&[fence.handle], &[3], false, Some(event.number()));
    refused(with_event, DENIED, "a wait with an event")?;
    refused(rig.queue_wait(queue.queue, &there), DENIED, "a wait of a queue")?;
    refused(rig.context_wait(queue.context, &there), DENIED, "a wait of the queue's context")?;
    refused(rig.context_wait(packets.context, &there), DENIED, "a wait of a context of packets")?;
    ensure!(!event.is_set()?, "the event of a wait that was refused is set");
    granted(rig.signal(&[fence.handle], &[4]), "a signal of the processor")?;
    ensure_eq!(fence.value.load(), 4, "value that the processor signalled");
    granted(rig.queue_signal(&[queue.queue], &[(fence.handle, 5)], PLAIN), "a signal of a queue")?;
    wait_until("the signal of the queue", || fence.value.load() == 5)?;
    granted(rig.context_signal(packets.context, &[(fence.handle, 6)]), "a signal of a context of packets")?;
    wait_until("the signal of the context", || fence.value.load() == 6)?;
    let kind = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
    match rig.create_sync_object(kind, 0, flags.with_NoSignal(true)) {
        Ok(_) => Err(Failure::new("a fence that nobody may wait for or signal was created")),
        Err(status) => refused(status, &[STATUS_INVALID_PARAMETER], "NoWait and NoSignal"),
    }
}

fn value_kept(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let kept = rig.monitored_fence(3, Flags::new().with_NoSignalMaxValueOnTdr(true))?;
    let plain = rig.monitored_fence(3, Flags::new())?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    rig.packet_submit(&mut queue, &[fill(0x7000_0000_0000, 4, 0)])?;
    wait_until("the signal for good", || plain.value.load() == u64::MAX)?;
    ensure_eq!(kept.value.load(), 3, "value of the fence that keeps it");
    Ok(())
}

fn shared(rig: &Rig, fence: &RawFence) -> Result<KernelHandle, Failure> {
    rig.share(&[fence.handle]).map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))
}

fn opened(rig: &Rig, handle: KernelHandle, flags: Flags) -> Result<RawFence, Failure> {
    let opened = rig.try_open_monitored_with(handle, flags);
    opened.map_err(|status| Failure::new(format!("D3DKMTOpenSyncObjectFromNtHandle2 with {flags:?}: {status}")))
}

fn no_gpu_access(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = rig.packet_queue(NODE_COPY)?;
    let other = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let fence = rig.monitored_fence(2, shared_flags().with_NoGPUAccess(true))?;
    ensure_eq!(fence.current, 0, "address for GPUs at the creation");
    let handle = shared(&rig, &fence)?;
    for flags in [Flags::new(), shared_flags(), Flags::new().with_NoGPUAccess(true)] {
        let again = opened(&other, handle, flags)?;
        ensure_eq!(again.current, 0, "address for GPUs of an opening with {flags:?}");
        ensure_eq!(again.value.load(), 2, "value that the processor reads");
        granted(other.destroy_fence(again.handle), "closing it")?;
    }
    let again = opened(&other, handle, Flags::new())?;
    granted(other.signal(&[again.handle], &[3]), "a signal of the processor")?;
    granted(rig.context_signal(queue.context, &[(fence.handle, 4)]), "a signal of a context")?;
    wait_until("the signal of the context", || again.value.load() == 4)?;
    let plain = rig.monitored_fence(5, shared_flags())?;
    let handle = shared(&rig, &plain)?;
    let without = opened(&other, handle, Flags::new().with_NoGPUAccess(true))?;
    ensure_eq!((without.current, without.value.load()), (0, 5), "address and value of an opening with the flag");
    let from_there = opened(&other, shared(&other, &without)?, Flags::new())?;
    ensure_eq!(from_there.current, 0, "address for GPUs of what was shared from there");
    ensure!(opened(&other, handle, Flags::new())?.current != 0, "an opening without the flag has no address");
    Ok(())
}
