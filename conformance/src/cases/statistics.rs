//! D3DKMTQueryStatistics: figures of memory and engines, of the adapter and of the process.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::D3DKMT_QUERYSTATISTICS_TYPE as Type;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE};
use crate::rig::{Rig, fill};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Statistics";
    "Statistics.SegmentsAndNodesAreCounted" on Boot::Shared, "d3dkmtquerystatistics":
        "The adapter has as many segments and nodes as can be asked for, and no more; commit limits of memory segments are the sizes of video memory."
        => counts;
    "Statistics.MemoryFollowsResidency" on Boot::Fresh, "d3dkmt_querystatistics_segment_information":
        "Bytes of the process that are committed and resident in a segment grow by an allocation, go when it is gone, and are part of those of all processes."
        => memory;
    "Statistics.SystemMemoryIsWhatAllocationsTake" on Boot::Fresh, "d3dkmt_querystatistics_process_information":
        "The machine's memory of the process grows by an allocation that is made resident there, and not by one in video memory; it goes with the allocation."
        => system_memory;
    "Statistics.RunningTimeIsOfPackets" on Boot::Fresh, "d3dkmt_querystatistics_process_node_information":
        "Packets of the process are counted on the node that ran them, with a time that grows, and are part of what the node has done altogether."
        => running;
    "Statistics.RunningTimeIsOfHardwareQueues" needs UserModeSubmission on Boot::Fresh, "d3dkmt_querystatistics_process_node_information":
        "The time for which queues of the process have had a node, whether the kernel or user mode submits to them, is no more than has passed, is part of the node's, and stands still while they have no work."
        => running_hardware;
    "Statistics.RunningTimeIsThatOfNow" needs NativeFence on Boot::Fresh, "d3dkmt_querystatistics_process_node_information":
        "The running time of a process and of its node grow while a packet is under way, which is not counted as completed before it is."
        => running_now;
    "Statistics.PagingIsTheSystems" on Boot::Fresh, "d3dkmt_querystatistics_node_information":
        "Packets that move memory are paging buffers of the system in the figures of a node altogether, too, and no client buffers of the process that the memory is of."
        => paging;
    "Statistics.BuffersOfQueuesAreCounted" needs HardwareScheduling on Boot::Fresh, "d3dkmt_querystatistics_dma_packet_type_information":
        "Command buffers that the kernel submits to hardware queues of the process are counted on their node, as completed when their progress is reached, and are part of what the node has done altogether."
        => buffers_of_queues;
    "Statistics.ContextSwitchesAreCounted" needs HardwareScheduling on Boot::Fresh, "d3dkmt_querystatistics_process_node_information":
        "Each time that a hardware context gets a node is counted for its process and for the node."
        => switches;
    "Statistics.PacketsSwitchContexts" on Boot::Fresh, "d3dkmt_querystatistics_process_node_information":
        "A node that runs packets of two contexts in turn has a switch for each turn, for the process and altogether."
        => packets_switch;
    "Statistics.WaitsAndSignalsAreCounted" on Boot::Fresh, "d3dkmt_querystatistics_queue_packet_type_information":
        "Waits and signals of the process' contexts are counted on their node when they are submitted and again when they are over, and are part of what the node has done altogether."
        => synchronization;
    "Statistics.QueuesCountTheirWaits" needs HardwareScheduling on Boot::Fresh, "d3dkmt_querystatistics_queue_packet_type_information":
        "Waits and signals of a hardware queue are counted as those of a context are."
        => synchronization_of_queues;
    "Statistics.FiguresAreTheDriversOwn" on Boot::Shared, "d3dkmt_querystatistics_node_information":
        "Clocks of a node and figures of a physical adapter are those that D3DKMTQueryAdapterInfo tells."
        => figures_of_hardware;
    "Statistics.GroupsAreThoseOfBudgets" on Boot::Shared, "d3dkmt_querystatistics_process_segment_group_information":
        "Budget and usage of a group of segments are those that D3DKMTQueryVideoMemoryInfo tells, and what is allocated of either group is told."
        => groups;
    "Statistics.BadQuestionsAreRefused" on Boot::Shared, "d3dkmtquerystatistics":
        "Kinds, adapters, segments, nodes and physical adapters that there are not are refused, so are displays and other processes; nothing is written then."
        => refusals;
}

/// A question of a kind, its answer, and what the thunk returned.
pub(crate) fn ask(
    case: &Case,
    rig: &Rig,
    kind: Type,
    change: impl FnOnce(&mut D3DKMT_QUERYSTATISTICS),
) -> (NTSTATUS, D3DKMT_QUERYSTATISTICS) {
    let mut arguments = D3DKMT_QUERYSTATISTICS::zeroed();
    (arguments.Type, arguments.AdapterLuid) = (kind, case.luid());
    arguments.hProcess = std::ptr::without_provenance_mut(usize::MAX);
    change(&mut arguments);
    (rig.kmt.call(rig.kmt.further().D3DKMTQueryStatistics, &mut arguments), arguments)
}

pub(super) fn get(
    case: &Case,
    rig: &Rig,
    kind: Type,
    change: impl FnOnce(&mut D3DKMT_QUERYSTATISTICS),
) -> Result<D3DKMT_QUERYSTATISTICS_RESULT, Failure> {
    let (status, arguments) = ask(case, rig, kind, change);
    granted(status, &format!("D3DKMTQueryStatistics of kind {}", kind.0))?;
    Ok(arguments.QueryResult)
}

fn of_segment(id: u32) -> impl Fn(&mut D3DKMT_QUERYSTATISTICS) {
    move |arguments| {
        arguments.u.QuerySegment = D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT { SegmentId: id };
    }
}

fn of_node(id: u32) -> impl Fn(&mut D3DKMT_QUERYSTATISTICS) {
    move |arguments| arguments.u.QueryNode = D3DKMT_QUERYSTATISTICS_QUERY_NODE { NodeId: id }
}

pub(super) fn segment(case: &Case, rig: &Rig, id: u32) -> Result<D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION, Failure> {
    // SAFETY: every arm of the union is plain numbers.
    Ok(unsafe { get(case, rig, Type::D3DKMT_QUERYSTATISTICS_SEGMENT, of_segment(id))?.SegmentInformation })
}

fn process_segment(
    case: &Case,
    rig: &Rig,
    id: u32,
) -> Result<D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION, Failure> {
    let result = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, of_segment(id))?;
    // SAFETY: every arm of the union is plain numbers.
    Ok(unsafe { result.ProcessSegmentInformation })
}

pub(super) fn adapter(case: &Case, rig: &Rig) -> Result<D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION, Failure> {
    // SAFETY: every arm of the union is plain numbers.
    Ok(unsafe { get(case, rig, Type::D3DKMT_QUERYSTATISTICS_ADAPTER, |_| ())?.AdapterInformation })
}

fn counts(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let whole = adapter(case, &rig)?;
    ensure!(whole.NbSegments > 0 && whole.NodeCount > 0 && whole.VidPnSourceCount == 0, "segments, nodes and displays");
    // Of several linked GPUs each has as many.
    let first = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_ADAPTER2, |arguments| {
        arguments.u.QueryAdapter2 = D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 { PhysicalAdapterIndex: 0 };
    })?;
    // SAFETY: every arm of the union is plain numbers.
    let each = unsafe { first.AdapterInformation.NbSegments };
    ensure!(each > 0 && whole.NbSegments.is_multiple_of(each), "{each} segments of {}", whole.NbSegments);
    let mut memory = 0;
    for id in 0..whole.NbSegments {
        let told = segment(case, &rig, id)?;
        ensure!(told.BytesResident <= told.BytesCommitted, "segment {id}: more resident than committed");
        memory += if told.Aperture == 0 { told.CommitLimit } else { 0 };
        let usage = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE, |arguments| {
            arguments.u.QuerySegmentUsage = D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE {
                PhysicalAdapterIndex: (id / each) as u16,
                SegmentId: (id % each) as u16,
            };
        });
        // SAFETY: every arm of the union is plain numbers.
        let usage = unsafe { usage?.SegmentUsageInformation };
        ensure_eq!(usage.AllocatedBytes + usage.FreeBytes, told.CommitLimit, "taken and free bytes of segment {id}");
    }
    let sizes: D3DKMT_SEGMENTSIZEINFO =
        super::adapter_info::get(case, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_GETSEGMENTSIZE)?;
    ensure_eq!(memory, sizes.DedicatedVideoMemorySize, "commit limits of the memory segments");
    for id in 0..whole.NodeCount {
        get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_NODE, of_node(id)).map(drop)?;
    }
    refused(
        ask(case, &rig, Type::D3DKMT_QUERYSTATISTICS_SEGMENT, of_segment(whole.NbSegments)).0,
        BAD_ARGUMENT,
        "one segment more",
    )?;
    refused(
        ask(case, &rig, Type::D3DKMT_QUERYSTATISTICS_NODE, of_node(whole.NodeCount)).0,
        BAD_ARGUMENT,
        "one node more",
    )
}

fn figures_of_hardware(case: &Case) -> Result<(), Failure> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let rig = case.rig()?;
    let count = adapter(case, &rig)?.NodeCount;
    for id in 0..count {
        let result = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_NODE, of_node(id))?;
        // SAFETY: every arm of the union is plain numbers.
        let told = unsafe { result.NodeInformation.NodePerfData };
        let mut asked = told;
        (asked.MaxFrequency, asked.MaxTransitionLatency) = (0, 0);
        granted(rig.kmt.ask(rig.adapter, Kind::KMTQAITYPE_NODEPERFDATA, &mut asked), "figures of a node")?;
        let figures = |of: &D3DKMT_NODE_PERFDATA| (of.MaxFrequency, of.MaxFrequencyOC, of.MaxTransitionLatency);
        ensure_eq!(figures(&told), figures(&asked), "highest clocks of node {id}, and how long they take to change");
        ensure!(told.MaxFrequency != 0, "node {id} has no clock");
    }
    let result = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER, |arguments| {
        arguments.u.QueryPhysAdapter = D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER { PhysicalAdapterIndex: 0 };
    })?;
    // SAFETY: every arm of the union is plain numbers.
    let told = unsafe { result.PhysAdapterInformation.AdapterPerfData };
    let mut asked = D3DKMT_ADAPTER_PERFDATA::zeroed();
    granted(rig.kmt.ask(rig.adapter, Kind::KMTQAITYPE_ADAPTERPERFDATA, &mut asked), "figures of the adapter")?;
    ensure_eq!((told.PowerStateOverride, asked.PowerStateOverride), (1, 1), "a physical adapter that is powered on");
    Ok(())
}

/// Committed, resident and the same of the process, in all segments together.
fn totals(case: &Case, rig: &Rig) -> Result<[u64; 4], Failure> {
    let mut sums = [0; 4];
    for id in 0..adapter(case, rig)?.NbSegments {
        let (all, own) = (segment(case, rig, id)?, process_segment(case, rig, id)?);
        let [first, ..] = own.VideoMemory.AllocsResidentInP;
        let [committed, resident] = [own.BytesCommitted, first.Bytes];
        ensure!(
            all.BytesCommitted >= committed && all.BytesResident >= resident,
            "segment {id}: more of the process than of all"
        );
        for (sum, value) in
            sums.iter_mut().zip([all.BytesCommitted, all.BytesResident, own.BytesCommitted, first.Bytes])
        {
            *sum += value;
        }
    }
    Ok(sums)
}

/// Those of the process alone: others may commit memory at the same time.
fn memory(case: &Case) -> Result<(), Failure> {
    memory_follows(case, &case.rig()?, |[_, _, committed, resident]| [committed, resident])
}

/// The sums that `counted` picks grow by an allocation, and go with it.
pub(crate) fn memory_follows<const N: usize>(
    case: &Case,
    rig: &Rig,
    counted: fn([u64; 4]) -> [u64; N],
) -> Result<(), Failure> {
    const SIZE: u64 = 2 << 20;
    let told = || totals(case, rig);
    for placement in [Placement::Vram, Placement::System] {
        let before = told()?;
        let handle = rig.create(SIZE, placement).map_err(|status| Failure::new(format!("an allocation: {status}")))?;
        let grown = |by: [u64; 4]| counted(std::array::from_fn::<u64, 4, _>(|at| before[at] + by[at]));
        ensure_eq!(counted(told()?), grown([SIZE, 0, SIZE, 0]), "bytes with an allocation in {placement:?}");
        rig.make_resident(handle)?;
        ensure_eq!(counted(told()?), grown([SIZE; 4]), "bytes with it resident");
        let flags = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_AssumeNotInUse(true).with_SynchronousDestroy(true);
        granted(rig.destroy_allocation_with(handle, flags), "the destruction")?;
        ensure_eq!(counted(told()?), counted(before), "bytes without it");
    }
    Ok(())
}

fn system_memory(case: &Case) -> Result<(), Failure> {
    const SIZE: u64 = 2 << 20;
    let rig = case.rig()?;
    let taken = || -> Result<u64, Failure> {
        let result = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS, |_| ())?;
        // SAFETY: every arm of the union is plain numbers.
        Ok(unsafe { result.ProcessInformation.SystemMemory.BytesAllocated })
    };
    for (placement, by) in [(Placement::System, SIZE), (Placement::Vram, 0)] {
        let before = taken()?;
        let handle = rig.create(SIZE, placement).map_err(|status| Failure::new(format!("an allocation: {status}")))?;
        ensure_eq!(taken()?, before, "bytes with an allocation in {placement:?} that is nowhere yet");
        rig.make_resident(handle)?;
        ensure_eq!(taken()?, before + by, "bytes with it resident");
        let flags = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_AssumeNotInUse(true).with_SynchronousDestroy(true);
        granted(rig.destroy_allocation_with(handle, flags), "the destruction")?;
        ensure_eq!(taken()?, before, "bytes without it");
    }
    Ok(())
}

/// Running time, and packets handed over and completed. One that is preempted for the work of others is handed over again, and counted once here.
fn figures(told: &D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION) -> (i64, u32, u32) {
    let [render, ..] = told.PacketStatistics.DmaPacket;
    let handed_over = render.PacketSubmited.wrapping_sub(render.PacketPreempted);
    (told.RunningTime.QuadPart, handed_over, render.PacketCompleted)
}

fn running(case: &Case) -> Result<(), Failure> {
    const PACKETS: u32 = 5;
    const SIZE: u64 = 8 << 20;
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let node = |id| -> Result<_, Failure> {
        let own = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE, of_node(id))?;
        let all = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_NODE, of_node(id))?;
        // SAFETY: every arm of the union is plain numbers.
        let own = unsafe { &own.ProcessNodeInformation };
        // SAFETY: as above.
        let all = unsafe { &all.NodeInformation.GlobalInformation };
        Ok((figures(own), figures(all)))
    };
    ensure_eq!(node(NODE_COPY)?.0, (0, 0, 0), "figures of a process without packets");
    for round in 1..=PACKETS {
        let before = node(NODE_COPY)?.0;
        rig.packet_execute(&mut queue, &[fill(memory.address, SIZE, round)])?;
        crate::rig::wait_until("the packet to be counted", || node(NODE_COPY).is_ok_and(|(own, _)| own.2 == round))?;
        let (own, all) = node(NODE_COPY)?;
        ensure_eq!((own.1, own.2), (round, round), "packets handed over and completed");
        ensure!(own.0 > before.0, "the running time stays {} with packet {round}", own.0);
        ensure!(all.0 >= own.0 && all.1 >= own.1 && all.2 >= own.2, "{own:?} of {all:?} altogether");
    }
    for id in 0..adapter(case, &rig)?.NodeCount {
        if id != NODE_COPY {
            ensure_eq!(node(id)?.0, (0, 0, 0), "figures of the process on node {id}");
        }
    }
    Ok(())
}

/// Running time of the process on a node, and of the node altogether, in units of 100 ns.
fn times(case: &Case, rig: &Rig, id: u32) -> Result<(i64, i64), Failure> {
    let own = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE, of_node(id))?;
    let all = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_NODE, of_node(id))?;
    // SAFETY: every arm of the union is plain numbers.
    let own = figures(unsafe { &own.ProcessNodeInformation }).0;
    // SAFETY: as above.
    let all = figures(unsafe { &all.NodeInformation.GlobalInformation }).0;
    ensure!(all >= own, "{own} of {all} altogether");
    Ok((own, all))
}

fn running_hardware(case: &Case) -> Result<(), Failure> {
    const SIZE: u64 = 8 << 20;
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let mut of_kernel = rig.kernel_queue(NODE_COPY)?;
    let mut of_user = rig.queue(NODE_COPY)?;
    ensure_eq!(times(case, &rig, NODE_COPY)?.0, 0, "time of a process whose queues had no work");
    for round in 0..6 {
        let (before, began) = (times(case, &rig, NODE_COPY)?.0, std::time::Instant::now());
        let work = [fill(memory.address, SIZE, round)];
        if round % 2 == 0 {
            let value = rig.kernel_submit(&mut of_kernel, &work)?;
            crate::rig::wait_until("the kernel's queue", || of_kernel.progress.load() >= value)?;
        } else {
            rig.execute(&mut of_user, &work)?;
        }
        // The engine ends what it is at after the fence that was waited for.
        let mut last = (0, 0);
        crate::rig::wait_until("the running time to stand still", || {
            times(case, &rig, NODE_COPY).is_ok_and(|now| std::mem::replace(&mut last, now) == now)
        })?;
        let passed = i64::try_from(began.elapsed().as_nanos() / 100).unwrap_or(i64::MAX);
        let own = times(case, &rig, NODE_COPY)?.0;
        ensure!(own > before, "the running time stays {own} in round {round}");
        ensure!(own - before <= passed, "{} of {passed} units have passed in round {round}", own - before);
    }
    for id in 0..adapter(case, &rig)?.NodeCount {
        if id != NODE_COPY {
            ensure_eq!(times(case, &rig, id)?.0, 0, "time of the process on node {id}");
        }
    }
    Ok(())
}

/// Figures of the process on a node, of the node altogether, and of that for the system.
pub(super) fn node_figures(
    case: &Case,
    rig: &Rig,
    id: u32,
) -> Result<[D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION; 3], Failure> {
    let own = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE, of_node(id))?;
    let all = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_NODE, of_node(id))?;
    // SAFETY: every arm of the union is plain numbers.
    let own = unsafe { own.ProcessNodeInformation };
    // SAFETY: as above.
    let all = unsafe { all.NodeInformation };
    Ok([own, all.GlobalInformation, all.SystemInformation])
}

fn running_now(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let counted = || -> Result<_, Failure> {
        let [own, ..] = node_figures(case, &rig, NODE_COPY)?;
        Ok(figures(&own))
    };
    let mut last = times(case, &rig, NODE_COPY)?;
    // The GPU itself is blocked, so that the packet is under way.
    let value = rig.packet_submit(&mut queue, &[gate.wait(1)])?;
    for look in 0..3 {
        crate::rig::wait_until("the time of the packet under way to grow", || {
            times(case, &rig, NODE_COPY).is_ok_and(|now| now.0 > last.0 && now.1 > last.1)
        })?;
        last = times(case, &rig, NODE_COPY)?;
        ensure_eq!(counted()?.2, 0, "packets completed at look {look}");
    }
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    rig.packet_wait(&queue, value)?;
    crate::rig::wait_until("the packet to be counted", || counted().is_ok_and(|now| now.2 == 1))?;
    let done = times(case, &rig, NODE_COPY)?;
    ensure!(done.0 >= last.0 && done.1 >= last.1, "the times went from {last:?} back to {done:?}");
    ensure_eq!(times(case, &rig, NODE_COPY)?.0, done.0, "time of the process without a packet");
    Ok(())
}

/// Whatever node other programs may submit to.
fn paging(case: &Case) -> Result<(), Failure> {
    paging_is_the_systems(case, &case.rig()?, |_| true)
}

/// Nodes to which nobody but the system submits have no client buffers; `others` tells those to which programs beside the case may submit.
pub(crate) fn paging_is_the_systems(case: &Case, rig: &Rig, others: fn(u32) -> bool) -> Result<(), Failure> {
    const SIZE: u64 = 2 << 20;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    rig.packet_execute(&mut queue, &[fill(memory.address, SIZE, 1)])?;
    crate::rig::wait_until("the packet to be counted", || {
        node_figures(case, rig, NODE_COPY).is_ok_and(|[own, ..]| figures(&own).2 == 1)
    })?;
    let mut moved = 0;
    for id in 0..adapter(case, rig)?.NodeCount {
        let [own, all, system] = node_figures(case, rig, id)?;
        let [client, _, paging, _] =
            all.PacketStatistics.DmaPacket.map(|packets| (packets.PacketSubmited, packets.PacketCompleted));
        let [_, _, systems, _] =
            system.PacketStatistics.DmaPacket.map(|packets| (packets.PacketSubmited, packets.PacketCompleted));
        let (_, submitted, completed) = figures(&own);
        ensure!(client.0 >= submitted && client.1 >= completed, "{client:?} client buffers of node {id}");
        if id != NODE_COPY {
            ensure_eq!((submitted, completed), (0, 0), "client buffers of the process on node {id}");
        }
        if id != NODE_COPY && !others(id) {
            ensure_eq!(client, (0, 0), "client buffers of node {id}, to which only the system submits");
        }
        ensure_eq!(paging, systems, "paging buffers of node {id} altogether, and of the system");
        moved += paging.0;
    }
    ensure!(moved > 0, "memory was cleared, and no packet was counted for that");
    Ok(())
}

fn buffers_of_queues(case: &Case) -> Result<(), Failure> {
    const SIZE: u64 = 64 << 10;
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let mut queues = [rig.kernel_queue(NODE_COPY)?, rig.kernel_queue(NODE_COPY)?];
    for round in 1..=6 {
        let queue = &mut queues[round as usize % 2];
        let value = rig.kernel_submit(queue, &[fill(memory.address, SIZE, round)])?;
        crate::rig::wait_until("the kernel's queue", || queue.progress.load() >= value)?;
        let [own, all, _] = node_figures(case, &rig, NODE_COPY)?;
        let (own, all) = (figures(&own), figures(&all));
        ensure_eq!((own.1, own.2), (round, round), "buffers handed over and completed");
        ensure!(all.1 >= own.1 && all.2 >= own.2, "{own:?} of {all:?} altogether");
    }
    for queue in queues {
        granted(rig.destroy_hw_queue(queue.queue), "destroying a queue")?;
    }
    let [own, ..] = node_figures(case, &rig, NODE_COPY)?;
    ensure_eq!((figures(&own).1, figures(&own).2), (6, 6), "buffers of queues that are gone");
    Ok(())
}

fn switches(case: &Case) -> Result<(), Failure> {
    const SIZE: u64 = 64 << 10;
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let mut queues = [rig.kernel_queue(NODE_COPY)?, rig.kernel_queue(NODE_COPY)?];
    let counted = || -> Result<_, Failure> {
        let [own, all, _] = node_figures(case, &rig, NODE_COPY)?;
        ensure!(all.ContextSwitch >= own.ContextSwitch, "{} of {} switches", own.ContextSwitch, all.ContextSwitch);
        Ok(own.ContextSwitch)
    };
    ensure_eq!(counted()?, 0, "switches of a process whose queues had no work");
    for round in 0..6 {
        let before = counted()?;
        let queue = &mut queues[round as usize % 2];
        let value = rig.kernel_submit(queue, &[fill(memory.address, SIZE, round)])?;
        crate::rig::wait_until("the kernel's queue", || queue.progress.load() >= value)?;
        crate::rig::wait_until("a switch to the other context", || counted().is_ok_and(|now| now > before))?;
    }
    Ok(())
}

fn packets_switch(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(4096, Placement::Vram)?;
    let mut contexts = [rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?];
    let counted = || -> Result<u32, Failure> {
        let [own, all, _] = node_figures(case, &rig, NODE_COPY)?;
        ensure!(all.ContextSwitch >= own.ContextSwitch, "{} of {} switches", own.ContextSwitch, all.ContextSwitch);
        Ok(own.ContextSwitch)
    };
    let mut before = 0;
    for turn in 0..6 {
        rig.packet_execute(&mut contexts[turn % 2], &[fill(memory.address, 4096, 1)])?;
        // It is counted when the report of the packet before has been dealt with. Other programs may have had the node in between.
        crate::rig::wait_until("a switch to the other context", || counted().is_ok_and(|now| now > before))?;
        before = counted()?;
    }
    Ok(())
}

/// Waits submitted and over, and signals submitted and made, of the process on a node.
fn commands(case: &Case, rig: &Rig, id: u32) -> Result<[u32; 4], Failure> {
    let count = |told: &D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION| {
        let [_, _, _, _, waits, signals, ..] = told.PacketStatistics.QueuePacket;
        [waits.PacketSubmited, waits.PacketCompleted, signals.PacketSubmited, signals.PacketCompleted]
    };
    let own = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE, of_node(id))?;
    let all = get(case, rig, Type::D3DKMT_QUERYSTATISTICS_NODE, of_node(id))?;
    // SAFETY: every arm of the union is plain numbers.
    let own = count(unsafe { &own.ProcessNodeInformation });
    // SAFETY: as above.
    let all = count(unsafe { &all.NodeInformation.GlobalInformation });
    ensure!(own.iter().zip(all).all(|(own, all)| *own <= all), "{own:?} of {all:?} altogether");
    Ok(own)
}

fn counted(
    case: &Case,
    rig: &Rig,
    wait: impl Fn(&[(D3DKMT_HANDLE, u64)]) -> NTSTATUS,
    signal: impl Fn(&[(D3DKMT_HANDLE, u64)]) -> NTSTATUS,
) -> Result<(), Failure> {
    let gate = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    let [waits, over, signals, made] = commands(case, rig, NODE_COPY)?;
    granted(wait(&[(gate.handle, 1)]), "a wait")?;
    granted(signal(&[(gate.handle, 2)]), "a signal behind it")?;
    ensure_eq!(commands(case, rig, NODE_COPY)?, [waits + 1, over, signals + 1, made], "counts while the wait lasts");
    granted(rig.signal(&[gate.handle], &[1]), "letting it go on")?;
    granted(rig.wait(&[gate.handle], &[2], false), "waiting for the signal")?;
    let done = [waits + 1, over + 1, signals + 1, made + 1];
    crate::rig::wait_until("the signal to be counted", || commands(case, rig, NODE_COPY).is_ok_and(|told| told == done))
}

fn synchronization(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.packet_context(NODE_COPY).map_err(|status| Failure::new(format!("a context: {status}")))?;
    ensure_eq!(commands(case, &rig, NODE_COPY)?, [0; 4], "counts of a process without waits");
    counted(case, &rig, |list| rig.context_wait(context, list), |list| rig.context_signal(context, list))
}

fn synchronization_of_queues(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = rig.kernel_queue(NODE_COPY)?.queue;
    let flags = D3DDDICB_SIGNALFLAGS::new();
    counted(case, &rig, |list| rig.queue_wait(queue, list), |list| rig.queue_signal(&[queue], list, flags))
}

fn groups(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for placement in [Placement::Vram, Placement::System] {
        rig.memory(1 << 20, placement)?;
    }
    for group in [
        D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL,
        D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL,
    ] {
        let mut info = D3DKMT_QUERYVIDEOMEMORYINFO::zeroed();
        (info.hAdapter, info.MemorySegmentGroup) = (rig.adapter, group);
        granted(rig.kmt.call(rig.kmt.table().D3DKMTQueryVideoMemoryInfo, &mut info), "D3DKMTQueryVideoMemoryInfo")?;
        let result = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, |arguments| {
            arguments.u.QueryProcessSegmentGroup = group;
        })?;
        // SAFETY: every arm of the union is plain numbers.
        let told = unsafe { result.ProcessSegmentGroupInformation };
        ensure_eq!(told.Usage, info.CurrentUsage, "usage of {group:?}");
        ensure!(told.Budget > 0 && told.Usage <= told.Budget, "usage {} of budget {}", told.Usage, told.Budget);
        let result = get(case, &rig, Type::D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE, |arguments| {
            arguments.u.QuerySegmentGroupUsage = D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE {
                PhysicalAdapterIndex: 0,
                SegmentGroup: group.0 as u16,
            };
        })?;
        // SAFETY: every arm of the union is plain numbers.
        let whole = unsafe { result.SegmentGroupUsageInformation };
        ensure!(whole.AllocatedBytes >= 1 << 20, "{} bytes of {group:?} are allocated", whole.AllocatedBytes);
        ensure!(whole.FreeBytes > 0, "nothing of {group:?} is free");
    }
    Ok(())
}

fn refusals(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let displays = [Type::D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, Type::D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE];
    for kind in displays {
        refused(ask(case, &rig, kind, |_| ()).0, &[STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER], "displays")?;
    }
    for kind in [Type(-1), Type(20), Type(i32::MAX)] {
        refused(ask(case, &rig, kind, |_| ()).0, BAD_ARGUMENT, &format!("kind {}", kind.0))?;
    }
    let nobody = |arguments: &mut D3DKMT_QUERYSTATISTICS| arguments.AdapterLuid.LowPart ^= 0x7777_0000;
    refused(
        ask(case, &rig, Type::D3DKMT_QUERYSTATISTICS_ADAPTER, nobody).0,
        BAD_ARGUMENT,
        "an adapter that there is not",
    )?;
    let none = |arguments: &mut D3DKMT_QUERYSTATISTICS| arguments.hProcess = std::ptr::without_provenance_mut(0x1234);
    refused(ask(case, &rig, Type::D3DKMT_QUERYSTATISTICS_PROCESS, none).0, BAD_HANDLE, "a process that there is not")?;
    let far = |arguments: &mut D3DKMT_QUERYSTATISTICS| {
        arguments.u.QueryPhysAdapter = D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER { PhysicalAdapterIndex: 77 };
    };
    refused(ask(case, &rig, Type::D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER, far).0, BAD_ARGUMENT, "physical adapter 77")
}
