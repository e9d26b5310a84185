//! Totals of D3DKMTQueryStatistics: what became of allocations, and of work that was given up.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::kmt::D3DKMT_QUERYSTATISTICS_TYPE as Type;
use wddm_ddi::kmt::*;

use super::statistics::{adapter, get, node_figures, segment};
use crate::rig::{Rig, fill, wait_until};
use crate::{Boot, Case, Failure, granted};

cases! { thunks "Statistics";
    "Statistics.AllocationsAndLocksAreCounted" on Boot::Fresh, "d3dkmt_querystatstics_allocations":
        "Allocations of the adapter are counted with their bytes when they are created and again when they are gone, and so are locks."
        => allocations;
    "Statistics.EvictedBytesAreOfTheirProcess" on Boot::Fresh, "d3dkmt_querystatistics_commitment_data":
        "What leaves video memory with its contents counts for the process that it is of."
        => evicted;
    "Statistics.BuffersThatAreDoneStayCompleted" needs HardwareScheduling on Boot::Fresh, "d3dkmt_querystatistics_dma_packet_type_information":
        "Command buffers of a hardware queue that were done when its device was lost count as completed, whoever asked before."
        => done_before;
    "Statistics.WorkThatIsGivenUpDoesNotStayQueued" on Boot::Fresh, "d3dkmt_querystatistics_dma_packet_type_information":
        "When a device is lost, its packets on the hardware count as faulted, and what its contexts had queued as over: nothing of it stays submitted. Which count has them is this system's rule."
        => given_up;
}

/// At least those of the case: others may have some at the same time.
fn allocations(case: &Case) -> Result<(), Failure> {
    allocations_are_counted(case, &case.rig()?, |counted, own| counted >= own)
}

/// Of an allocation and three locks of it the adapter counts what `is_right` says of its count and that of the case.
pub(crate) fn allocations_are_counted(case: &Case, rig: &Rig, is_right: fn(u64, u64) -> bool) -> Result<(), Failure> {
    const SIZE: u64 = 1 << 20;
    let right = |what: &str, counted: u64, own: u64| -> Result<(), Failure> {
        ensure!(is_right(counted, own), "{what}: {counted} of all, {own} of the case");
        Ok(())
    };
    let before = adapter(case, rig)?;
    let memory = rig.memory(SIZE, Placement::System)?;
    for _ in 0..3 {
        granted(
            rig.lock(memory.handle).map_or_else(|status| status, |_| rig.unlock(memory.handle)),
            "lock and unlock",
        )?;
    }
    let during = adapter(case, rig)?;
    let (made, gone) = (before.Allocations.Created, before.Allocations.Destroyed);
    right("allocations created", u64::from(during.Allocations.Created.Count - made.Count), 1)?;
    right("bytes created", during.Allocations.Created.Bytes - made.Bytes, SIZE)?;
    right("destroyed while it is there", u64::from(during.Allocations.Destroyed.Count - gone.Count), 0)?;
    right("locks", u64::from(during.Locks.NbLocks - before.Locks.NbLocks), 3)?;
    granted(rig.destroy_allocation(memory.handle), "destroying it")?;
    let now = || adapter(case, rig).map(|after| after.Allocations.Destroyed);
    wait_until("the allocation to be gone", || now().is_ok_and(|now| now.Bytes - gone.Bytes >= SIZE))?;
    right("allocations that are gone", u64::from(now()?.Count - gone.Count), 1)?;
    right("bytes that are gone", now()?.Bytes - gone.Bytes, SIZE)
}

/// Bytes that have left video memory of the calling process.
fn evicted_bytes(case: &Case, rig: &Rig) -> Result<u64, Failure> {
    let told = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER, |_| ())?;
    // SAFETY: every arm of the union is plain numbers.
    Ok(unsafe { told.ProcessAdapterInformation.CommitmentData.TotalBytesEvictedFromProcess })
}

fn evicted(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let segments = adapter(case, &rig)?.NbSegments;
    let told: Vec<_> = (0..segments).map(|id| segment(case, &rig, id)).collect::<Result<_, _>>()?;
    let memory = told.iter().find(|told| told.Aperture == 0).ok_or_else(|| Failure::new("a segment of memory"))?;
    // Two of them do not fit.
    let size = (memory.CommitLimit / 5 * 3).next_multiple_of(1 << 16);
    ensure_eq!(evicted_bytes(case, &rig)?, 0, "bytes evicted of a process without memory");
    let first = rig.memory(size, Placement::Vram)?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    rig.packet_execute(&mut queue, &[fill(first.address, 1 << 16, 7)])?;
    granted(rig.evict(first.handle), "giving the first one up")?;
    let second = rig.memory(size, Placement::Vram)?;
    ensure_eq!(evicted_bytes(case, &rig)?, size, "bytes evicted for the second one");
    granted(rig.destroy_allocation(second.handle), "destroying it")
}

fn done_before(case: &Case) -> Result<(), Failure> {
    const BUFFERS: u32 = 5;
    let (lost, watcher) = (case.rig()?, case.rig()?);
    let mut queue = lost.kernel_queue(NODE_COPY)?;
    for _ in 0..BUFFERS {
        let value = lost.kernel_submit(&mut queue, &[])?;
        wait_until("a buffer", || queue.progress.load() >= value)?;
    }
    let reason = D3DKMT_DEVICE_ERROR_REASON::D3DKMT_DEVICE_ERROR_REASON_GENERIC;
    let mut mark = D3DKMT_MARKDEVICEASERROR { hDevice: lost.device, Reason: reason };
    granted(lost.kmt.call(lost.kmt.further().D3DKMTMarkDeviceAsError, &mut mark), "giving the device up")?;
    granted(lost.destroy(), "destroying the lost device")?;
    let [own, ..] = node_figures(case, &watcher, NODE_COPY)?;
    let [render, ..] = own.PacketStatistics.DmaPacket;
    let counted = (render.PacketSubmited, render.PacketCompleted, render.PacketFaulted);
    ensure_eq!(counted, (BUFFERS, BUFFERS, 0), "buffers that were submitted, completed and given up");
    Ok(())
}

fn given_up(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let gate = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    let (mut good, mut bad) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    rig.packet_execute(&mut good, &[])?;
    granted(rig.context_wait(good.context, &[(gate.handle, 1)]), "a wait for what nobody signals")?;
    rig.packet_submit(&mut good, &[])?;
    granted(rig.context_signal(good.context, &[(gate.handle, 9)]), "a signal behind it")?;
    // Nothing is mapped there.
    rig.packet_submit(&mut bad, &[fill(0x7000_0000_0000, 4, 0)])?;
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    wait_until("the device to be lost", || rig.kmt.execution_state(rig.device).is_ok_and(|now| now != active))?;
    granted(rig.destroy(), "destroying the lost device")?;
    let watcher = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let [own, ..] = node_figures(case, &watcher, NODE_COPY)?;
    let [render, ..] = own.PacketStatistics.DmaPacket;
    ensure!(render.PacketFaulted >= 1, "packets of the lost device that count as faulted: {}", render.PacketFaulted);
    let over = render.PacketCompleted + render.PacketPreempted + render.PacketFaulted;
    ensure_eq!(over, render.PacketSubmited, "packets that are completed, preempted or faulted");
    let kinds = [
        ("waits", D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE::D3DKMT_WaitCommandBuffer),
        ("signals", D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE::D3DKMT_SignalCommandBuffer),
    ];
    for (what, kind) in kinds {
        let counted = own.PacketStatistics.QueuePacket[kind.0 as usize];
        ensure_eq!(
            (counted.PacketSubmited, counted.PacketCompleted),
            (1, 1),
            "{what} that were submitted and are over"
        );
    }
    Ok(())
}
