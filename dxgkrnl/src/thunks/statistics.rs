//! D3DKMTQueryStatistics: what a task manager shows.
//!
//! Every figure that is told is counted; what this system does not count, or does not have (allocation lists, renaming, swizzling ranges, displays), is 0.
//! Running times and context switches are those of packets, and those of contexts that the hardware schedules by the scheduling log of their node. Of hardware queues the command buffers, waits and signals are counted that the kernel submits: what user mode
//! submits by itself the system does not see. Microsoft's pages reserve the structure for the system and say no more than its members. [d3dkmthk:
//! D3DKMT_QUERYSTATISTICS; d3dkmddi: DXGKDDI_SETSCHEDULINGLOGBUFFER]

use std::sync::Arc;
use std::time::Duration;

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, LARGE_INTEGER, NTSTATUS};

use crate::adapter::Adapter;
use crate::caps::Segment;
use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::tdr_report::TdrReport;
use crate::vidmm::{Group, SegmentFigures, Total};
use crate::vidsch::{NodeFigures, ProcessAdapter};

use super::call::enter;
use super::{adapter_perf, process};

type Result_ = D3DKMT_QUERYSTATISTICS_RESULT;
type Type = D3DKMT_QUERYSTATISTICS_TYPE;

/// Errors: STATUS_INVALID_PARAMETER for a kind, an adapter, a physical adapter, a segment or a node that there is not; STATUS_NOT_SUPPORTED for what is about
/// displays; those of the handle of a process, which needs PROCESS_QUERY_LIMITED_INFORMATION (the calling one is named by what `GetCurrentProcess` returns); all 0
/// for a process that has not used the adapter. [d3dkmthk: D3DKMTQueryStatistics]
pub(super) unsafe extern "win64" fn query_statistics(args: *mut D3DKMT_QUERYSTATISTICS) -> NTSTATUS {
    enter("D3DKMTQueryStatistics", args, |process, args| {
        if !(0..=Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE2.0).contains(&args.Type.0) {
            let why = format!("Type is {}, which is none of D3DKMT_QUERYSTATISTICS_TYPE", args.Type.0);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let adapter = machine.adapter(args.AdapterLuid).filter(|adapter| adapter.is_running());
        let why = || refused(STATUS_INVALID_PARAMETER, "AdapterLuid is that of no running adapter");
        let adapter = adapter.ok_or_else(why)?;
        args.QueryResult = answer(process, &adapter, args)?;
        Ok(STATUS_SUCCESS)
    })
}

fn answer(process: &Arc<Process>, adapter: &Arc<Adapter>, args: &D3DKMT_QUERYSTATISTICS) -> Result<Result_, Failure> {
    let mut result = Result_::zeroed();
    match args.Type {
        Type::D3DKMT_QUERYSTATISTICS_VIDPNSOURCE | Type::D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE => {
            let why = format!("Type is {}, a question about displays, which the adapter has none of", args.Type.0);
            return Err(refused(STATUS_NOT_SUPPORTED, why));
        }
        Type::D3DKMT_QUERYSTATISTICS_ADAPTER => result.AdapterInformation = whole(adapter, None)?,
        Type::D3DKMT_QUERYSTATISTICS_ADAPTER2 => {
            // SAFETY: every arm of the union is plain numbers.
            let engine = unsafe { args.u.QueryAdapter2.PhysicalAdapterIndex };
            result.AdapterInformation = whole(adapter, Some(engine.into()))?;
        }
        Type::D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER => {
            // SAFETY: as above.
            let engine = unsafe { args.u.QueryPhysAdapter.PhysicalAdapterIndex };
            result.PhysAdapterInformation = physical(adapter, engine)?;
        }
        Type::D3DKMT_QUERYSTATISTICS_PROCESS => {
            let mut told = D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION::zeroed();
            told.NodeCount = count(adapter.caps().nodes.len());
            if let Some(known) = known(process, adapter, args.hProcess)? {
                told.SystemMemory.BytesAllocated = adapter.vidmm().system_bytes(&known.space);
            }
            result.ProcessInformation = told;
        }
        Type::D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER | Type::D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2 => {
            let known = known(process, adapter, args.hProcess)?;
            // SAFETY: as above.
            let engine = unsafe { args.u.QueryProcessAdapter2.PhysicalAdapterIndex };
            let second = args.Type == Type::D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2;
            let counted = whole(adapter, second.then_some(engine.into()))?;
            let mut told = D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION::zeroed();
            (told.NbSegments, told.NodeCount) = (counted.NbSegments, counted.NodeCount);
            let evicted = known.map_or(0, |known| adapter.vidmm().evicted_bytes(&known.space));
            told.CommitmentData.TotalBytesEvictedFromProcess = evicted;
            result.ProcessAdapterInformation = told;
        }
        Type::D3DKMT_QUERYSTATISTICS_NODE
        | Type::D3DKMT_QUERYSTATISTICS_NODE2
        | Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE
        | Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE2 => node(process, adapter, args, &mut result)?,
        Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP
        | Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2
        | Type::D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE => group(process, adapter, args, &mut result)?,
        _ => segment(process, adapter, args, &mut result)?,
    }
    Ok(result)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The process that a handle stands for, on the adapter; `None` if it has not used it.
fn known(
    process: &Arc<Process>,
    adapter: &Arc<Adapter>,
    handle: HANDLE,
) -> Result<Option<Arc<ProcessAdapter>>, Failure> {
    process::with(process, handle, PROCESS_QUERY_INFORMATION | PROCESS_QUERY_LIMITED_INFORMATION, |process| {
        Ok(process.known_adapters().into_iter().find(|known| Arc::ptr_eq(&known.adapter, adapter.render())))
    })
}

fn no_engine(adapter: &Adapter, engine: u32) -> Failure {
    let engines = adapter.caps().engines;
    refused(STATUS_INVALID_PARAMETER, format!("PhysicalAdapterIndex is {engine}, and the adapter has {engines}"))
}

fn no_node(node: u32, engine: u32) -> Failure {
    refused(STATUS_INVALID_PARAMETER, format!("node {node} of PhysicalAdapterIndex {engine} is none of the adapter"))
}

fn no_segment(segment: u32) -> Failure {
    refused(STATUS_INVALID_PARAMETER, format!("SegmentId is {segment}, which is no segment of the adapter"))
}

/// Figures of the adapter, or those of one of its physical adapters.
fn whole(adapter: &Adapter, engine: Option<u32>) -> Result<D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION, Failure> {
    let caps = adapter.caps();
    if let Some(engine) = engine.filter(|engine| *engine >= caps.engines) {
        return Err(no_engine(adapter, engine));
    }
    let mut told = D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION::zeroed();
    let here = |segment: &&Segment| engine.is_none_or(|engine| segment.engine == engine);
    told.NbSegments = count(caps.segments.iter().filter(here).count());
    told.NodeCount = engine.map_or(count(caps.nodes.len()), |_| caps.nodes_of_engine());
    // A reset of the adapter resets each physical adapter.
    let resets =
        |report: &&TdrReport| engine.is_none() || report.node.is_none_or(|node| Some(caps.ordinals(node).1) == engine);
    told.TdrDetectedCount = count(adapter.vidsch().recovery().reports().iter().filter(resets).count());
    told.Flags.set_NumberOfMemoryGroups(2);
    // Of linked adapters all of them are told.
    let totals = adapter.vidmm().totals();
    let counter = |total: Total| D3DKMT_QUERYSTATISTICS_COUNTER { Count: total.count, Bytes: total.bytes };
    (told.Allocations.Created, told.Allocations.Destroyed) = (counter(totals.created), counter(totals.destroyed));
    told.Locks.NbLocks = totals.locks;
    let evictions = &mut told.PagingFault.Evictions;
    for (id, _) in (1..).zip(&caps.segments).filter(|(_, segment)| here(segment)) {
        let figures = adapter.vidmm().segment_figures(id, None);
        evictions.Count = evictions.Count.saturating_add(figures.evictions);
        evictions.Bytes = evictions.Bytes.saturating_add(figures.evicted);
    }
    Ok(told)
}

fn physical(adapter: &Adapter, engine: u32) -> Result<D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION, Failure> {
    let version = adapter.caps().versions.get(engine as usize).ok_or_else(|| no_engine(adapter, engine))?;
    let mut told = D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION::zeroed();
    (told.AdapterPerfData.PhysicalAdapterIndex, told.AdapterPerfDataCaps.PhysicalAdapterIndex) = (engine, engine);
    // Figures that the driver does not report are zero.
    if let Ok(figures) = adapter_perf::of_adapter(adapter, engine) {
        told.AdapterPerfData = figures;
    }
    if let Ok(limits) = adapter_perf::limits(adapter, engine) {
        told.AdapterPerfDataCaps = limits;
    }
    told.GpuVersion.PhysicalAdapterIndex = engine;
    if let Some(version) = version {
        told.GpuVersion = D3DKMT_GPUVERSION::new(engine, version);
    }
    Ok(told)
}

/// Units of 100 ns.
fn ticks(time: Duration) -> LARGE_INTEGER {
    LARGE_INTEGER { QuadPart: i64::try_from(time.as_nanos() / 100).unwrap_or(i64::MAX) }
}

/// Figures, of which `paging` are those of the paging process.
fn node_information(figures: NodeFigures, paging: NodeFigures) -> D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION {
    use D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE as Packet;
    use D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE as Queued;
    let mut told = D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION::zeroed();
    told.RunningTime = ticks(figures.time);
    told.ContextSwitch = figures.switches;
    let packets =
        [(Packet::D3DKMT_ClientRenderBuffer, figures.without(paging)), (Packet::D3DKMT_SystemPagingBuffer, paging)];
    for (kind, counted) in packets {
        if let Some(packets) = told.PacketStatistics.DmaPacket.get_mut(kind.0 as usize) {
            packets.PacketSubmited = counted.submitted;
            packets.PacketCompleted = counted.completed;
            packets.PacketPreempted = counted.preempted;
            packets.PacketFaulted = counted.faulted;
        }
    }
    let commands =
        [(Queued::D3DKMT_WaitCommandBuffer, figures.waits), (Queued::D3DKMT_SignalCommandBuffer, figures.signals)];
    for (kind, counted) in commands {
        if let Some(packets) = told.PacketStatistics.QueuePacket.get_mut(kind.0 as usize) {
            (packets.PacketSubmited, packets.PacketCompleted) = (counted.submitted, counted.completed);
        }
    }
    told
}

fn node(
    process: &Arc<Process>,
    adapter: &Arc<Adapter>,
    args: &D3DKMT_QUERYSTATISTICS,
    result: &mut Result_,
) -> Result<(), Failure> {
    let second = matches!(args.Type, Type::D3DKMT_QUERYSTATISTICS_NODE2 | Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE2);
    // SAFETY: every arm of the union is plain numbers.
    let id = unsafe { args.u.QueryNode.NodeId };
    // SAFETY: as above.
    let place = unsafe { args.u.QueryNode2 };
    let caps = adapter.caps();
    let id = match second {
        true => {
            let (ordinal, engine) = (place.NodeOrdinal.into(), place.PhysicalAdapterIndex.into());
            caps.node_at(ordinal, engine).ok_or_else(|| no_node(ordinal, engine))?
        }
        false => id,
    };
    let scheduler = adapter.vidsch();
    let (all, system) = scheduler.node_figures(id).ok_or_else(|| no_node(id, 0))?;
    if matches!(args.Type, Type::D3DKMT_QUERYSTATISTICS_NODE | Type::D3DKMT_QUERYSTATISTICS_NODE2) {
        let mut told = D3DKMT_QUERYSTATISTICS_NODE_INFORMATION::zeroed();
        told.GlobalInformation = node_information(all, system);
        told.SystemInformation = node_information(system, system);
        let (ordinal, engine) = caps.ordinals(id);
        (told.NodePerfData.NodeOrdinal, told.NodePerfData.PhysicalAdapterIndex) = (ordinal, engine);
        // Figures that the driver does not report are zero.
        if let Ok(figures) = adapter_perf::of_node(adapter, ordinal, engine) {
            told.NodePerfData = figures;
        }
        result.NodeInformation = told;
        return Ok(());
    }
    let known = known(process, adapter, args.hProcess)?;
    let figures = known.and_then(|known| scheduler.node_figures_of(id, known.id)).unwrap_or_default();
    result.ProcessNodeInformation = node_information(figures, NodeFigures::default());
    Ok(())
}

/// Place of a segment among those of all physical adapters, from 0 on.
fn segment_place(adapter: &Adapter, args: &D3DKMT_QUERYSTATISTICS) -> Result<usize, Failure> {
    let caps = adapter.caps();
    // SAFETY: every arm of the union is plain numbers.
    let id = unsafe { args.u.QuerySegment.SegmentId };
    // SAFETY: as above.
    let place = unsafe { args.u.QuerySegment2 };
    let segments = caps.segments.len();
    let of_engine = segments / (caps.engines as usize).max(1);
    let place = match args.Type {
        Type::D3DKMT_QUERYSTATISTICS_SEGMENT | Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT => id as usize,
        _ if usize::from(place.SegmentId) < of_engine => {
            usize::from(place.PhysicalAdapterIndex) * of_engine + usize::from(place.SegmentId)
        }
        _ => return Err(no_segment(place.SegmentId.into())),
    };
    if place < segments { Ok(place) } else { Err(no_segment(count(place))) }
}

fn segment(
    process: &Arc<Process>,
    adapter: &Arc<Adapter>,
    args: &D3DKMT_QUERYSTATISTICS,
    result: &mut Result_,
) -> Result<(), Failure> {
    let place = segment_place(adapter, args)?;
    let described = adapter.caps().segments.get(place).ok_or_else(|| no_segment(count(place)))?;
    let id = count(place) + 1;
    match args.Type {
        Type::D3DKMT_QUERYSTATISTICS_SEGMENT | Type::D3DKMT_QUERYSTATISTICS_SEGMENT2 => {
            result.SegmentInformation = segment_information(described, adapter.vidmm().segment_figures(id, None));
        }
        Type::D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE => {
            result.SegmentUsageInformation = usage(described, adapter.vidmm().segment_figures(id, None));
        }
        _ => {
            let known = known(process, adapter, args.hProcess)?;
            let figures = known.map(|known| adapter.vidmm().segment_figures(id, Some(&known.space)));
            let figures = figures.unwrap_or_default();
            let mut told = D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION::zeroed();
            told.BytesCommitted = figures.committed;
            told.VideoMemory.AllocsCommitted = figures.allocations_committed;
            if let Some(first) = told.VideoMemory.AllocsResidentInP.first_mut() {
                (first.Count, first.Bytes) = (figures.allocations_resident, figures.resident);
            }
            result.ProcessSegmentInformation = told;
        }
    }
    Ok(())
}

fn segment_information(described: &Segment, figures: SegmentFigures) -> D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
    use D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE as Kind;
    let mut told = D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION::zeroed();
    let aperture = described.flags.Aperture();
    told.CommitLimit = if aperture { described.commit_limit } else { described.size };
    (told.BytesCommitted, told.BytesResident) = (figures.committed, figures.resident);
    told.Memory.TotalBytesEvicted = figures.evicted;
    (told.Memory.AllocsCommitted, told.Memory.AllocsResident) =
        (figures.allocations_committed, figures.allocations_resident);
    told.Aperture = aperture.into();
    told.PowerFlags.set_PreservedDuringStandby(described.flags.PreservedDuringStandby());
    told.PowerFlags.set_PreservedDuringHibernate(described.flags.PreservedDuringHibernate());
    let kind = if aperture {
        Kind::D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_APERTURE
    } else {
        Kind::D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_MEMORY
    };
    told.SegmentProperties.set_SegmentType(kind.0 as u8);
    told.SegmentProperties.set_SegmentGroup(u8::from(group_of(described) == Some(Group::NonLocal)));
    told.SegmentProperties.set_FullyCPUVisible(described.cpu_address.is_some());
    told
}

/// How much of a segment is taken and free. What an aperture shows is memory of the machine, of which the driver says how much it may be.
fn usage(described: &Segment, figures: SegmentFigures) -> D3DKMT_QUERYSTATISTICS_MEMORY_USAGE {
    let mut told = D3DKMT_QUERYSTATISTICS_MEMORY_USAGE::zeroed();
    let (taken, size) = if described.flags.Aperture() {
        (figures.resident, described.commit_limit)
    } else {
        (figures.taken, described.size)
    };
    (told.AllocatedBytes, told.FreeBytes) = (taken, size.saturating_sub(taken));
    told
}

/// The group that the usage of a segment counts for.
fn group_of(described: &Segment) -> Option<Group> {
    if described.flags.Aperture() { Some(Group::NonLocal) } else { Group::of_segment(described.flags) }
}

fn group(
    process: &Arc<Process>,
    adapter: &Arc<Adapter>,
    args: &D3DKMT_QUERYSTATISTICS,
    result: &mut Result_,
) -> Result<(), Failure> {
    // SAFETY: every arm of the union is plain numbers.
    let first = unsafe { args.u.QueryProcessSegmentGroup };
    // SAFETY: as above.
    let second = unsafe { args.u.QueryProcessSegmentGroup2 };
    let by_engine = args.Type != Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP;
    let wanted = match by_engine {
        true if u32::from(second.PhysicalAdapterIndex) >= adapter.caps().engines => {
            return Err(no_engine(adapter, second.PhysicalAdapterIndex.into()));
        }
        true => Group::new(D3DKMT_MEMORY_SEGMENT_GROUP(second.SegmentGroup.into()))?,
        false => Group::new(first)?,
    };
    if args.Type == Type::D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE {
        let mut told = D3DKMT_QUERYSTATISTICS_MEMORY_USAGE::zeroed();
        let here = (1..).zip(&adapter.caps().segments).filter(|(_, segment)| {
            segment.engine == u32::from(second.PhysicalAdapterIndex) && group_of(segment) == Some(wanted)
        });
        for (id, described) in here {
            let one = usage(described, adapter.vidmm().segment_figures(id, None));
            told.AllocatedBytes = told.AllocatedBytes.saturating_add(one.AllocatedBytes);
            told.FreeBytes = told.FreeBytes.saturating_add(one.FreeBytes);
        }
        result.SegmentGroupUsageInformation = told;
        return Ok(());
    }
    let mut told = D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION::zeroed();
    if let Some(known) = known(process, adapter, args.hProcess)? {
        let info = adapter.vidmm().video_memory_info(&known.space, wanted);
        (told.Budget, told.Usage) = (info.budget, info.usage);
        told.Requested = info.usage;
    }
    result.ProcessSegmentGroupInformation = told;
    Ok(())
}
