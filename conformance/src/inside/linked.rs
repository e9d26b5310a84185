//! Linked adapters: two GPUs that are one adapter, and the engines of its nodes.

use campanile_device::{FaultRule, HangAt, Variant};
use campanile_hw::private::Placement;
use campanile_hw::registers::{COUNT_RETIRED, NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Clock, TdrOutcome, TdrSettings};
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::*;
use wddm_ddi::types::NTSTATUS;

use super::hang::{ACTIVE, FATAL, HUNG, RESET, reports, state, time_out, time_out_packets};
use super::power_device::power_down;
use crate::installed::metadata;
use crate::kmt::{BAD_ARGUMENT, DEVICE_LOST};
use crate::rig::{PacketQueue, RawQueue, Rig, copy, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{GpuHandle, System, SystemOptions};

cases! { inside "Linked", behind "it needs a board with two GPUs, and looks at each";
    "Linked.TwoGpusAreOneAdapter" on Boot::With(board), "linked-display-adapter":
        "GPUs that are linked are listed as one adapter with as many physical adapters; each node has an engine on each of them, and there is none beyond."
        holds [Tdr 4]
        => one_adapter;
    "Linked.LeadStartsLastAndStopsFirst" needs UserModeSubmission on Boot::With(board), "dxgkddi_link_device":
        "Every GPU is asked for its link after it was added; the one that leads starts when the others have started, and stops before them."
        => lead_last;
    "Linked.EngineIsOneBitOfTheAffinity" needs UserModeSubmission on Boot::With(board), "tdr-changes-in-windows-8":
        "A context is on the engine whose bit is set in EngineAffinity; no bit, two, or one of an engine that does not exist is refused."
        holds [Tdr 4]
        => one_bit;
    "Linked.EnginesWorkInTheirOwnMemory" needs UserModeSubmission on Boot::With(board), "linked-display-adapter":
        "Work is executed by the GPU that its context names, with the memory of that GPU and with the system's, at the addresses that the process has."
        => own_memory;
    "Linked.FenceOrdersEngines" needs UserModeSubmission on Boot::With(board), "native-gpu-fence-objects":
        "A native fence that one engine signals releases a wait of the other, in both directions, from hardware queues and from packets."
        holds [NativeFence 9]
        => fence_orders;
    "Linked.QueueResetLeavesTheOtherEngine" needs UserModeSubmission on Boot::With(board_by_hand), "tdr-changes-in-windows-8":
        "A hardware queue that hangs on one engine of a node costs that engine a reset; the other engine of the node works before, during and after it, and its devices stay."
        holds [Tdr 5]
        => queue_reset;
    "Linked.PacketResetLeavesTheOtherEngine" needs UserModeSubmission on Boot::With(board_by_hand), "tdr-changes-in-windows-8":
        "A packet that hangs on one engine of a node costs that engine a reset; the other engine of the node works before, during and after it, and its devices stay."
        holds [Tdr 5]
        => packet_reset;
    "Linked.AdapterResetTakesEveryEngine" needs UserModeSubmission on Boot::With(board_by_hand), "tdr-changes-in-windows-8":
        "When an engine cannot be reset the adapter is, with every GPU that is linked: devices of all engines are lost, and new ones work."
        holds [Tdr 6]
        => adapter_reset;
    "Linked.StatisticsAreOfTheAskedEngine" needs UserModeSubmission on Boot::With(board_by_hand), "d3dkmt_querystatistics_query_adapter2":
        "Recoveries and evictions are told of the physical adapter that is asked for, and of all together for the adapter; a reset of the adapter is one of each."
        => statistics;
    "Linked.EverybodySleepsAndWakes" needs UserModeSubmission on Boot::With(board), "user-mode-work-submission":
        "Linked GPUs go to D3 together with work that waits, and come back together when it may go on; memory of each is as it was."
        holds [UserModeSubmission 54]
        => sleep;
    "Linked.PullingOneOutEndsTheAdapter" needs UserModeSubmission on Boot::With(board), "dxgkddi_notify_surprise_removal":
        "When one of the linked GPUs is pulled out, in D0 or D3, the adapter ends for all engines, whichever it was; with another in its place there is an adapter of two again."
        => pulled_out;
    "Linked.StartsAgain" needs UserModeSubmission on Boot::With(board), "dxgkddi_link_device":
        "A linked adapter that was stopped, or removed, starts again with all of its engines."
        => starts_again;
}

const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;
const ENGINES: [u32; 2] = [0, 1];
const SIZE: u64 = 64 << 10;

fn board() -> SystemOptions {
    SystemOptions { variant: Variant { linked: true, ..Variant::default() }, ..SystemOptions::default() }
}

fn board_by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..board() }
}

/// The GPU that is an engine.
pub(super) fn gpu(system: &System, engine: u32) -> Result<&GpuHandle, Failure> {
    let gpus = system.adapters().first().map(|part| part.gpus()).unwrap_or_default();
    gpus.get(engine as usize).copied().ok_or_else(|| Failure::new(format!("there is no GPU {engine}")))
}

fn retired(system: &System, engine: u32) -> Result<u64, Failure> {
    Ok(gpu(system, engine)?.register_read(COUNT_RETIRED, 8))
}

/// A device for each engine.
fn rigs(case: &Case<'_>) -> Result<[Rig; 2], Failure> {
    let first = case.rig()?;
    let second = Rig::on_engine(first.kmt, first.adapter, 1)?;
    Ok([first, second])
}

/// The number by which reports name an engine of a node.
fn numbered(rig: &Rig, node: u32) -> u32 {
    rig.engine * campanile_hw::registers::NODES + node
}

/// Queues and packets of the device work on its engine.
fn works(rig: &Rig) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        rig.execute(&mut rig.queue(node)?, &[])?;
        rig.packet_execute(&mut rig.packet_queue(node)?, &[])?;
    }
    Ok(())
}

fn node_of(rig: &Rig, node: u32, engine: u32) -> Result<D3DKMT_NODEMETADATA, NTSTATUS> {
    metadata(rig.kmt, rig.adapter, node | engine << 16)
}

fn one_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut infos = [D3DKMT_ADAPTERINFO::zeroed(); 8];
    let mut list = D3DKMT_ENUMADAPTERS3 {
        Filter: D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(true),
        NumAdapters: 8,
        pAdapters: infos.as_mut_ptr(),
    };
    granted(rig.kmt.call(rig.kmt.table().D3DKMTEnumAdapters3, &mut list), "D3DKMTEnumAdapters3")?;
    let listed: Vec<_> = infos.iter().take(list.NumAdapters as usize).map(|info| info.AdapterLuid).collect();
    ensure_eq!(listed, [case.system.luid()], "adapters that are listed");
    let count = rig.kmt.query_word(rig.adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_PHYSICALADAPTERCOUNT);
    ensure_eq!(count, Ok(2), "physical adapters");
    for node in [NODE_COMPUTE, NODE_COPY] {
        let engines = ENGINES.map(|engine| node_of(&rig, node, engine).map(|metadata| metadata.NodeData.EngineType));
        ensure!(engines[0].is_ok() && engines[0] == engines[1], "engines of node {node}: {engines:?}");
        let Err(status) = node_of(&rig, node, 2) else { return Err(Failure::new("there is a third engine")) };
        refused(status, BAD_ARGUMENT, "metadata of a third engine")?;
    }
    Ok(())
}

fn lead_last(case: &mut Case<'_>) -> Result<(), Failure> {
    let called = |log: &[String]| {
        let wanted = ["AddDevice", "LinkDevice", "StartDevice", "StopDevice", "RemoveDevice"];
        let named = log.iter().filter_map(|name| name.strip_prefix("DxgkDdi"));
        named.filter(|name| wanted.contains(name)).map(str::to_owned).collect::<Vec<_>>()
    };
    let log = called(&case.system.machine().start_log(case.system.luid()));
    let added = ["AddDevice", "LinkDevice", "AddDevice", "LinkDevice", "StartDevice", "StartDevice"];
    ensure_eq!(log, added, "DDIs of the start");
    works(&case.rig()?)
}

fn one_bit(case: &mut Case<'_>) -> Result<(), Failure> {
    let [rig, _] = rigs(case)?;
    for affinity in [0, 0b11, 0b100, 0b101, 1 << 31, u32::MAX] {
        let mut context = D3DKMT_CREATEHWCONTEXT::zeroed();
        (context.hDevice, context.NodeOrdinal, context.EngineAffinity) = (rig.device, NODE_COMPUTE, affinity);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateHwContext, &mut context);
        refused(status, BAD_ARGUMENT, "a hardware context")?;
        let mut context = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
        (context.hDevice, context.NodeOrdinal, context.EngineAffinity) = (rig.device, NODE_COMPUTE, affinity);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateContextVirtual, &mut context);
        refused(status, BAD_ARGUMENT, "a context of packets")?;
    }
    let mut paging = D3DKMT_CREATEPAGINGQUEUE::zeroed();
    (paging.hDevice, paging.PhysicalAdapterIndex) = (rig.device, 2);
    let status = rig.kmt.call(rig.kmt.table().D3DKMTCreatePagingQueue, &mut paging);
    refused(status, BAD_ARGUMENT, "a paging queue of a third engine")?;
    for engine in ENGINES {
        works(&Rig::on_engine(rig.kmt, rig.adapter, engine)?)?;
    }
    Ok(())
}

fn own_memory(case: &mut Case<'_>) -> Result<(), Failure> {
    for rig in &rigs(case)? {
        let before = [retired(case.system, 0)?, retired(case.system, 1)?];
        let vram = rig.memory(SIZE, Placement::Vram)?;
        let system = rig.memory(2 * SIZE, Placement::System)?;
        let view = rig.view(system)?;
        let pattern = 0x1111_1111 << rig.engine;
        view.fill(0);
        let mut queue = rig.queue(NODE_COMPUTE)?;
        rig.execute(&mut queue, &[fill(vram.address, SIZE, pattern), copy(system.address, vram.address, SIZE as u32)])?;
        let mut packets = rig.packet_queue(NODE_COPY)?;
        rig.packet_execute(&mut packets, &[copy(system.address + SIZE, vram.address, SIZE as u32)])?;
        let expected = pattern.to_le_bytes().repeat(2 * SIZE as usize / 4);
        ensure!(view.read(0, 2 * SIZE) == expected, "what engine {} copied is not what it wrote", rig.engine);
        let after = [retired(case.system, 0)?, retired(case.system, 1)?];
        let [own, other] = [rig.engine as usize, 1 - rig.engine as usize];
        ensure!(after[own] > before[own], "GPU {own} retired nothing");
        ensure_eq!(after[other], before[other], "work that GPU {other} retired meanwhile");
    }
    Ok(())
}

fn fence_orders(case: &mut Case<'_>) -> Result<(), Failure> {
    let [first, second] = rigs(case)?;
    let fences = [first.fence(0)?, second.fence(0)?];
    let (mut one, mut other) = (first.queue(NODE_COMPUTE)?, second.queue(NODE_COMPUTE)?);
    let (mut packets, mut more) = (first.packet_queue(NODE_COPY)?, second.packet_queue(NODE_COPY)?);
    for round in 0..8 {
        // Through all four: each waits for the one before, and whoever starts last releases them.
        let value = 4 * round;
        let last = second.packet_submit(&mut more, &[fences[0].wait(value + 3), fences[1].signal(value + 4)])?;
        first.packet_submit(&mut packets, &[fences[1].wait(value + 2), fences[0].signal(value + 3)])?;
        second.submit(&mut other, &[fences[0].wait(value + 1), fences[1].signal(value + 2)])?;
        let counted = fences.map(|fence| fence.value.load());
        ensure!(counted.iter().all(|count| *count <= value), "fences are at {counted:?} before {value} + 1");
        first.submit(&mut one, &[fences[0].signal(value + 1)])?;
        second.packet_wait(&more, last)?;
        granted(first.wait(&[fences[1].handle], &[value + 4], false), "a wait of the processor")?;
    }
    Ok(())
}

/// Arms a hang on an engine.
pub(super) fn arm(system: &System, rig: &Rig, node: u32) -> Result<(), Failure> {
    let rule = FaultRule::Hang { node, queue: None, at: HangAt::Signal(FATAL), reported: false };
    gpu(system, rig.engine)?.faults().inject(rule);
    Ok(())
}

/// The only recovery since `before` is that of an engine of a node.
fn only_engine(system: &System, before: usize, rig: &Rig, node: u32) -> Result<(), Failure> {
    let seen = reports(system).split_off(before);
    let seen: Vec<_> = seen.iter().map(|report| (report.node, report.outcome)).collect();
    ensure_eq!(seen, [(Some(numbered(rig, node)), TdrOutcome::EngineReset)], "recoveries");
    Ok(())
}

/// Which is guilty, and which goes on.
fn turns(case: &Case<'_>) -> Result<Vec<(Rig, Rig, u32)>, Failure> {
    let mut turns = Vec::new();
    for node in [NODE_COMPUTE, NODE_COPY] {
        let [first, second] = rigs(case)?;
        turns.push((second, first, node));
        let [first, second] = rigs(case)?;
        turns.push((first, second, node));
    }
    Ok(turns)
}

fn queue_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    for (guilty, innocent, node) in turns(case)? {
        let before = reports(case.system).len();
        let (mut queue, mut beside): (RawQueue, RawQueue) = (guilty.queue(node)?, innocent.queue(node)?);
        let fence = guilty.fence(0)?;
        innocent.execute(&mut beside, &[])?;
        arm(case.system, &guilty, node)?;
        guilty.submit(&mut queue, &[fence.signal(1), fence.signal(FATAL)])?;
        wait_until("the work before the hang", || fence.value.load() == 1)?;
        for _ in 0..3 {
            innocent.execute(&mut beside, &[])?;
            case.system.machine().advance(TdrSettings::default().delay);
        }
        time_out(case.system);
        only_engine(case.system, before, &guilty, node)?;
        ensure_eq!((state(&guilty)?, state(&innocent)?), (HUNG, ACTIVE), "states of the devices");
        ensure_eq!(queue.doorbell.state(), ABORT, "status of the guilty doorbell");
        innocent.execute(&mut beside, &[])?;
        rigs(case)?.iter().try_for_each(works)?;
    }
    Ok(())
}

fn packet_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    for (guilty, innocent, node) in turns(case)? {
        let before = reports(case.system).len();
        let (mut queue, mut beside): (PacketQueue, PacketQueue) =
            (guilty.packet_queue(node)?, innocent.packet_queue(node)?);
        let fence = guilty.fence(0)?;
        innocent.packet_execute(&mut beside, &[])?;
        arm(case.system, &guilty, node)?;
        guilty.packet_submit(&mut queue, &[fence.signal(1), fence.signal(FATAL)])?;
        wait_until("the work before the hang", || fence.value.load() == 1)?;
        for _ in 0..2 {
            innocent.packet_execute(&mut beside, &[])?;
            case.system.machine().advance(TdrSettings::default().delay);
        }
        time_out_packets(case.system);
        only_engine(case.system, before, &guilty, node)?;
        ensure_eq!((state(&guilty)?, state(&innocent)?), (HUNG, ACTIVE), "states of the devices");
        innocent.packet_execute(&mut beside, &[])?;
        rigs(case)?.iter().try_for_each(works)?;
    }
    Ok(())
}

fn adapter_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    for engine in ENGINES {
        let devices = rigs(case)?;
        let guilty = &devices[engine as usize];
        let (mut queue, fence) = (guilty.packet_queue(NODE_COMPUTE)?, guilty.fence(0)?);
        arm(case.system, guilty, NODE_COMPUTE)?;
        guilty.packet_submit(&mut queue, &[fence.signal(1), fence.signal(FATAL)])?;
        wait_until("the work before the hang", || fence.value.load() == 1)?;
        gpu(case.system, engine)?.faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
        time_out_packets(case.system);
        let last = reports(case.system).pop().map(|report| report.node);
        ensure_eq!(last, Some(None), "the last recovery, after an engine could not be reset");
        ensure_eq!(state(&devices[1 - engine as usize])?, RESET, "state of the device on the other engine");
        ensure!(state(guilty)? != ACTIVE, "the guilty device goes on");
        rigs(case)?.iter().try_for_each(works)?;
    }
    Ok(())
}

/// Recoveries, and evictions with their bytes, of a physical adapter, or of the adapter.
fn counted(case: &Case<'_>, rig: &Rig, engine: Option<u16>) -> Result<(u32, u32, u64), Failure> {
    use D3DKMT_QUERYSTATISTICS_TYPE as Type;
    let mut arguments = D3DKMT_QUERYSTATISTICS::zeroed();
    (arguments.Type, arguments.AdapterLuid) = (Type::D3DKMT_QUERYSTATISTICS_ADAPTER, case.system.luid());
    if let Some(engine) = engine {
        arguments.Type = Type::D3DKMT_QUERYSTATISTICS_ADAPTER2;
        arguments.u.QueryAdapter2 = D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 { PhysicalAdapterIndex: engine };
    }
    granted(rig.kmt.call(rig.kmt.further().D3DKMTQueryStatistics, &mut arguments), "D3DKMTQueryStatistics")?;
    // SAFETY: every arm of the union is plain numbers.
    let told = unsafe { arguments.QueryResult.AdapterInformation };
    Ok((told.TdrDetectedCount, told.PagingFault.Evictions.Count, told.PagingFault.Evictions.Bytes))
}

fn statistics(case: &mut Case<'_>) -> Result<(), Failure> {
    let [first, second] = rigs(case)?;
    let all = |case: &Case<'_>| -> Result<_, Failure> {
        Ok([counted(case, &first, None)?, counted(case, &first, Some(0))?, counted(case, &first, Some(1))?])
    };
    ensure_eq!(all(case)?, [(0, 0, 0); 3], "figures of an adapter that works");
    // The processor reaches it in memory of the machine only.
    let memory = second.memory(SIZE, Placement::Vram)?;
    granted(second.evict(memory.handle), "D3DKMTEvict")?;
    let locked = second.lock(memory.handle);
    locked.map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
    ensure_eq!(all(case)?, [(0, 1, SIZE), (0, 0, 0), (0, 1, SIZE)], "figures after an eviction from engine 1");
    let [_, guilty] = rigs(case)?;
    let (mut queue, fence) = (guilty.queue(NODE_COPY)?, guilty.fence(0)?);
    arm(case.system, &guilty, NODE_COPY)?;
    guilty.submit(&mut queue, &[fence.signal(1), fence.signal(FATAL)])?;
    wait_until("the work before the hang", || fence.value.load() == 1)?;
    time_out(case.system);
    let resets = all(case)?.map(|(resets, ..)| resets);
    ensure_eq!(resets, [1, 0, 1], "recoveries after a hang of engine 1");
    let [guilty, _] = rigs(case)?;
    let (mut queue, fence) = (guilty.packet_queue(NODE_COMPUTE)?, guilty.fence(0)?);
    arm(case.system, &guilty, NODE_COMPUTE)?;
    guilty.packet_submit(&mut queue, &[fence.signal(1), fence.signal(FATAL)])?;
    wait_until("the work before the hang", || fence.value.load() == 1)?;
    gpu(case.system, 0)?.faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    time_out_packets(case.system);
    let adapter = reports(case.system).iter().filter(|report| report.node.is_none()).count() as u32;
    ensure!(adapter > 0, "the adapter was not reset");
    let engines = reports(case.system).len() as u32 - adapter;
    let resets = all(case)?.map(|(resets, ..)| resets);
    ensure_eq!(
        resets,
        [engines + adapter, engines - 1 + adapter, 1 + adapter],
        "recoveries after a reset of the adapter"
    );
    Ok(())
}

fn sleep(case: &mut Case<'_>) -> Result<(), Failure> {
    let devices = rigs(case)?;
    for round in 1..=3 {
        let mut waiting = Vec::new();
        for rig in &devices {
            let (vram, system) = (rig.memory(SIZE, Placement::Vram)?, rig.memory(SIZE, Placement::System)?);
            let (mut queue, gate) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
            let pattern = round << 8 | rig.engine;
            rig.execute(&mut queue, &[fill(vram.address, SIZE, pattern)])?;
            rig.submit(&mut queue, &[gate.wait(1), copy(system.address, vram.address, SIZE as u32)])?;
            waiting.push((rig, queue, gate, rig.view(system)?, pattern));
        }
        power_down(case.system)?;
        for (rig, queue, gate, view, pattern) in &waiting {
            granted(rig.signal(&[gate.handle], &[1]), "signal")?;
            // The first one wakes both.
            if rig.engine == 0 {
                granted(rig.connect(queue.doorbell), "connecting a doorbell")?;
            }
            wait_until("the work that waited", || queue.progress.load() == queue.written())?;
            let expected = pattern.to_le_bytes().repeat(SIZE as usize / 4);
            ensure!(view.read(0, SIZE) == expected, "memory of engine {} is not what it was", rig.engine);
        }
        devices.iter().try_for_each(works)?;
    }
    Ok(())
}

fn pulled_out(case: &mut Case<'_>) -> Result<(), Failure> {
    for (engine, sleeps) in [(1, false), (0, false), (1, true), (0, true), (1, false)] {
        let devices = rigs(case)?;
        let mut queues = Vec::new();
        for rig in &devices {
            let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
            rig.execute(&mut queue, &[fence.signal(1)])?;
            rig.submit(&mut queue, &[fence.wait(2)])?;
            queues.push((queue, fence));
        }
        let gone = gpu(case.system, engine)?.clone();
        if sleeps {
            power_down(case.system)?;
        }
        case.system.pull_out_engine(0, engine as usize)?;
        case.system.notice_removal(0)?;
        ensure_eq!(gone.missed_accesses(), 0, "accesses to registers after the GPU was pulled out");
        for (rig, (queue, fence)) in devices.iter().zip(&queues) {
            ensure!(
                rig.context(NODE_COMPUTE).is_err_and(|status| DEVICE_LOST.contains(&status)),
                "a context was created"
            );
            ensure_eq!(queue.doorbell.state(), ABORT, "status of a doorbell of engine {}", rig.engine);
            refused(rig.wait(&[fence.handle], &[2], false), DEVICE_LOST, "a wait of the processor")?;
            granted(rig.destroy(), "destroying the device")?;
        }
        case.system.start()?;
        rigs(case)?.iter().try_for_each(works)?;
    }
    Ok(())
}

fn starts_again(case: &mut Case<'_>) -> Result<(), Failure> {
    for removed in [false, true, false] {
        rigs(case)?.iter().try_for_each(works)?;
        if removed {
            case.system.remove()?
        } else {
            case.system.stop()?
        }
        case.system.start()?;
    }
    rigs(case)?.iter().try_for_each(works)
}
