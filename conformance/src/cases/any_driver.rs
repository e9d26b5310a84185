//! Cases for the driver of any GPU: nothing is known of it but what a file of a few lines says, see [`crate::opaque`].

use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_ENGINE_TYPE;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::any_driver_error::{fault, hang};
use crate::cases::any_driver_lab::{Lab, QUEUED, SIZE, holds, lab};
use crate::installed::metadata;
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE};
use crate::opaque::Values;
use crate::rig::{Memory, Rig};
use crate::{Boot, Case, Failure, granted, refused};

cases! { neutral "AnyDriver";
    "AnyDriver.AdapterTellsWhatItIs" on Boot::Shared, "mcdm-implementation-guidelines":
        "The adapter renders or computes and has no display, each of its nodes describes itself, and one that it does not have is refused."
        => tells;
    "AnyDriver.CapabilitiesAgreeWithEachOther" on Boot::Shared, "mcdm-implementation-guidelines":
        "What the adapter tells of itself in several places is the same in each, and is what an adapter without displays may tell."
        => capabilities;
    "AnyDriver.DevicesAndContextsComeAndGo" on Boot::Shared, "d3dkmtcreatecontextvirtual":
        "Devices and contexts are made and destroyed in any order, time after time; a handle of a destroyed one is refused."
        => come_and_go;
    "AnyDriver.BadPrivateDataIsRefusedOrTaken" on Boot::Shared, "dxgkddi_createallocation":
        "Private data of user mode that is missing, short or made of anything is refused or taken; the system goes on either way."
        => bad_data;
    "AnyDriver.MemoryKeepsWhatTheProcessorWrites" on Boot::Shared, "d3dkmtlock2":
        "What the processor writes into an allocation of each kind of memory is there after an eviction and after it became resident again."
        => processor_writes;
    "AnyDriver.MappingsHaveAnySize" on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "Commands reach each page of mappings of one page, of several and of part of an allocation, and nothing beside them."
        => mappings;
    "AnyDriver.CommandsRunInTheirOrder" on Boot::Shared, "d3dkmtsubmitcommand":
        "Packets of a context run in the order in which they were submitted, and the fence behind each says when it is done."
        => in_order;
    "AnyDriver.WorkWaitsForItsFence" on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromgpu":
        "A packet behind a wait does nothing before the fence has its value, whoever signals it."
        => waits;
    "AnyDriver.EvictedMemoryComesBack" on Boot::Shared, "dxgkddi_buildpagingbuffer":
        "Half as much memory again as the GPU has of its own keeps its contents while parts of it are resident in turn."
        => pressure;
    "AnyDriver.MemoryThatRunsOutIsRefusedAndNothingElse" on Boot::Fresh, "d3dkmtmakeresident":
        "When no more memory can be made resident, that is refused by its status; what is there keeps its contents, and what is given back can be had again."
        => low_memory;
    "AnyDriver.ThreadsWorkAtOnce" on Boot::Shared, "threading-and-synchronization-first-level":
        "Threads with devices of their own, which create, page, submit and destroy at the same time, do not disturb each other."
        => threads;
    "AnyDriver.FaultCostsItsDevice" on Boot::Fresh, "dxgk_interrupt_dma_page_faulted":
        "Commands that reach an address without memory put their own device into error; another device goes on."
        => fault;
    "AnyDriver.HangCostsItsDevice" needs HangingCommands on Boot::Fresh, "timeout-detection-and-recovery":
        "Commands that do not end are ended by the system and put their own device into error; another device goes on."
        => hang;
}

/// The first version with GPU virtual addresses. [d3dkmthk: D3DKMT_DRIVERVERSION]
const WDDM_2_0: u32 = 2000;

fn tells(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let word = rig.kmt.query_word(rig.adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERTYPE);
    let word = word.map_err(|status| Failure::new(format!("the adapter type: {status}")))?;
    let kind = D3DKMT_ADAPTERTYPE::from_bits(word);
    ensure!(kind.RenderSupported() && !kind.DisplaySupported(), "the adapter type is {kind:?}");
    let mut nodes = 0;
    while let Ok(node) = metadata(rig.kmt, rig.adapter, nodes) {
        ensure!(node.NodeData.GpuMmuSupported != 0, "node {nodes} has no GPU virtual addresses");
        nodes += 1;
        ensure!(nodes <= 64, "the nodes do not end");
    }
    ensure!(nodes > 0, "the adapter has no node");
    match metadata(rig.kmt, rig.adapter, nodes) {
        Ok(_) => Err(Failure::new("a node that there is not describes itself")),
        Err(status) => refused(status, BAD_ARGUMENT, "metadata of a node that there is not"),
    }
}

fn capabilities(case: &Case) -> Result<(), Failure> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let rig = case.rig()?;
    let word = |kind: Kind| {
        let word = rig.kmt.query_word(rig.adapter, kind);
        word.map_err(|status| Failure::new(format!("query {}: {status}", kind.0)))
    };
    let kind = D3DKMT_ADAPTERTYPE::from_bits(word(Kind::KMTQAITYPE_ADAPTERTYPE)?);
    ensure!(!kind.SoftwareDevice() && !kind.PostDevice(), "an adapter without displays is {kind:?}");
    let scheduling = D3DKMT_WDDM_2_7_CAPS::from_bits(word(Kind::KMTQAITYPE_WDDM_2_7_CAPS)?);
    ensure!(scheduling.HwSchSupported() || !scheduling.HwSchEnabled(), "enabled and not supported: {scheduling:?}");
    let version = word(Kind::KMTQAITYPE_DRIVERVERSION)?;
    ensure!(version >= WDDM_2_0, "the driver is one of WDDM {version}");
    let (mut node, mut scheduled) = (0, 0);
    while let Ok(metadata) = metadata(rig.kmt, rig.adapter, node) {
        let data = metadata.NodeData;
        let (engine, flags) = (data.EngineType, data.Flags);
        ensure!(is_engine_type(engine), "node {node} is of type {engine:?}, which is none of DXGK_ENGINE_TYPE");
        let contexts = flags.ContextSchedulingSupported();
        ensure!(contexts || !flags.UserModeSubmission(), "node {node}: user-mode submission without hardware contexts");
        scheduled += u32::from(contexts);
        clock(&rig, node)?;
        node += 1;
    }
    ensure!(
        scheduled != 0 || !scheduling.HwSchEnabled(),
        "hardware scheduling is enabled, and no node has hardware contexts"
    );
    let sizes = Lab::new(case.rig()?)?.sizes()?;
    ensure!(sizes.SharedSystemMemorySize > 0, "no memory is shared with the processor: {sizes:?}");
    Ok(())
}

/// True for the values of the enumeration: a driver selects the one that describes what the engine does. [d3dkmdt: DXGK_ENGINE_TYPE]
fn is_engine_type(kind: DXGK_ENGINE_TYPE) -> bool {
    let last = DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_VIDEO_CODEC;
    (DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_OTHER.0..=last.0).contains(&kind.0)
}

/// The driver tells the frequency of a node's clock, unless it has none.
fn clock(rig: &Rig, node: u32) -> Result<(), Failure> {
    let mut args = D3DKMT_QUERYCLOCKCALIBRATION { hAdapter: rig.adapter, NodeOrdinal: node, ..Zeroed::zeroed() };
    match rig.kmt.call(rig.kmt.table().D3DKMTQueryClockCalibration, &mut args) {
        STATUS_SUCCESS | STATUS_NOT_SUPPORTED => Ok(()),
        status => Err(Failure::new(format!("D3DKMTQueryClockCalibration of node {node}: {status}"))),
    }
}

fn come_and_go(case: &Case) -> Result<(), Failure> {
    let made = |status| Failure::new(format!("D3DKMTCreateContextVirtual: {status}"));
    for round in 0..8_u32 {
        let labs = [lab(case)?, lab(case)?];
        for lab in &labs {
            let contexts = [lab.context().map_err(made)?, lab.context().map_err(made)?, lab.context().map_err(made)?];
            let order = if round % 2 == 0 { [0, 1, 2] } else { [2, 0, 1] };
            for context in order.map(|place| contexts[place]) {
                granted(lab.rig.destroy_packet_context(context), "destroying a context")?;
                refused(lab.rig.destroy_packet_context(context), BAD_HANDLE, "destroying it again")?;
            }
        }
        // The one with a context left takes it along.
        labs[0].context().map_err(made)?;
        for lab in &labs {
            granted(lab.rig.destroy(), "destroying a device")?;
        }
    }
    Ok(())
}

fn bad_data(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let good = lab.opaque.allocation(SIZE, false).unwrap_or_default();
    let mut bad = vec![Vec::new(), vec![0; good.len()], vec![0xff; good.len()], vec![0xff; 4096]];
    bad.extend((0..good.len()).map(|len| good[..len].to_vec()));
    for mut data in bad {
        if let Ok(handle) = lab.rig.create_raw(&mut data) {
            granted(lab.rig.destroy_allocation(handle), "destroying an allocation of odd private data")?;
        }
    }
    lab.work()
}

fn processor_writes(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    for local in lab.kinds() {
        let memory = lab.memory(SIZE, local)?;
        let bytes: Vec<u8> = (0..SIZE).map(|at| (at * 7 + at / 4096) as u8).collect();
        lab.rig.view(memory)?.write(0, &bytes);
        for _ in 0..3 {
            granted(lab.rig.unlock(memory.handle), "unlocking")?;
            granted(lab.rig.evict(memory.handle), "evicting")?;
            lab.rig.make_resident(memory.handle)?;
            ensure!(lab.rig.view(memory)?.read(0, SIZE) == bytes, "bytes changed, local {local}");
        }
    }
    // A GPU without memory of its own has had nothing to do so far.
    lab.work()
}

fn mappings(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let mut worker = lab.worker()?;
    for local in lab.kinds() {
        let memory = lab.memory(SIZE, local)?;
        let view = lab.rig.view(memory)?;
        for (first, pages) in [(0, 1), (3, 1), (1, 2), (2, 7), (0, SIZE / 4096)] {
            view.fill(0x11);
            let mut request = lab.rig.map_request(memory.handle, pages * 4096);
            request.OffsetInPages = first;
            let address = lab.rig.map(request)?;
            lab.fill(&mut worker, address, pages * 4096, 0x2233_4455)?;
            let (from, size) = (first * 4096, pages * 4096);
            holds(&view, 0, from, 0x1111_1111, "the part before the mapping")?;
            holds(&view, from, size, 0x2233_4455, "the part that was mapped")?;
            holds(&view, from + size, SIZE - from - size, 0x1111_1111, "the part behind the mapping")?;
            granted(lab.rig.free(address, size), "freeing the addresses")?;
        }
    }
    Ok(())
}

/// Each packet fills one step less than the one before, and all are submitted before anything is waited for: a step shows which was the last to fill it.
fn in_order(case: &Case) -> Result<(), Failure> {
    const STEP: u64 = 4096;
    let lab = lab(case)?;
    let memory = lab.memory(2 * QUEUED as u64 * STEP, false)?;
    let view = lab.rig.view(memory)?;
    let mut workers = [lab.worker()?, lab.worker()?];
    for round in 0..4_u32 {
        let pattern = |half: u64, packet: u32| round << 16 | (half as u32) << 8 | packet;
        let half_of = |half: u64| half * u64::from(QUEUED) * STEP;
        for packet in 0..QUEUED {
            for (half, worker) in (0..).zip(&mut workers) {
                let (target, size) = (memory.address + half_of(half), u64::from(QUEUED - packet) * STEP);
                let commands =
                    lab.opaque.fill(Values { size, target, pattern: pattern(half, packet), ..Values::default() });
                lab.submit(worker, &commands)?;
            }
        }
        for (half, worker) in (0..).zip(&workers) {
            lab.wait(worker)?;
            ensure_eq!(
                worker.fence.value.load(),
                u64::from(round + 1) * u64::from(QUEUED),
                "the fence behind the packets"
            );
            for step in 0..QUEUED {
                let (offset, last) = (half_of(half) + u64::from(step) * STEP, QUEUED - 1 - step);
                holds(&view, offset, STEP, pattern(half, last), "a step that packets filled in their order")?;
            }
        }
    }
    Ok(())
}

fn waits(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let memory = lab.memory(SIZE, false)?;
    let view = lab.rig.view(memory)?;
    let gate = lab.rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    let (mut held, mut other) = (lab.worker()?, lab.worker()?);
    for round in 1..=10_u32 {
        granted(lab.rig.context_wait(held.context, &[(gate.handle, round.into())]), "the wait of a context")?;
        let commands =
            lab.opaque.fill(Values { size: SIZE, target: memory.address, pattern: round, ..Values::default() });
        lab.submit(&mut held, &commands)?;
        lab.fill(&mut other, memory.address, SIZE, 0x7700)?;
        holds(&view, 0, SIZE, 0x7700, "memory while the packet waits")?;
        if round % 2 == 0 {
            granted(lab.rig.signal(&[gate.handle], &[round.into()]), "the signal of the processor")?;
        } else {
            granted(lab.rig.context_signal(other.context, &[(gate.handle, round.into())]), "the signal of a context")?;
        }
        lab.wait(&held)?;
        holds(&view, 0, SIZE, round, "memory behind the wait")?;
    }
    Ok(())
}

fn pressure(case: &Case) -> Result<(), Failure> {
    const PARTS: u32 = 24;
    let lab = lab(case)?;
    let mut worker = lab.worker()?;
    let own = lab.sizes()?.DedicatedVideoMemorySize;
    for local in lab.kinds() {
        // No word of one kind of memory is one of the other's: memory that is used again must not pass for what came back.
        let word = |number: u32| if local { 0x1ca1_0000 | number } else { 0x5e57_0000 | number };
        // A sixteenth of the GPU's own memory each, so that a third of them has to lie elsewhere.
        let part = if local { (own / 16).max(1 << 16).next_multiple_of(1 << 16) } else { 1 << 20 };
        ensure!(!local || u64::from(PARTS) * part > own, "{PARTS} parts of {part} bytes fit into {own}");
        let mut parts = Vec::new();
        for number in 0..PARTS {
            let memory = lab.memory(part, local)?;
            lab.fill(&mut worker, memory.address, part, word(number))?;
            granted(lab.rig.evict(memory.handle), "evicting")?;
            parts.push(memory);
        }
        for (number, memory) in (0..).zip(&parts) {
            lab.rig.make_resident(memory.handle)?;
            // The half that the GPU writes again, and the half that only came back.
            lab.fill(&mut worker, memory.address, part / 2, word(number + 1000))?;
            let view = lab.rig.view(*memory)?;
            holds(&view, 0, part / 2, word(number + 1000), "the half that was filled again")?;
            holds(&view, part / 2, part / 2, word(number), "the half that came back")?;
            granted(lab.rig.destroy_allocation(memory.handle), "destroying a part")?;
        }
    }
    Ok(())
}

/// Parts of the GPU's own memory, or of what it has for both if it has none, are made resident until one is refused.
fn low_memory(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let mut worker = lab.worker()?;
    let sizes = lab.sizes()?;
    if let Some(local) = lab.kinds().last() {
        let all = if local { sizes.DedicatedVideoMemorySize } else { sizes.SharedSystemMemorySize };
        let part = (all / 16).clamp(1 << 16, 16 << 20).next_multiple_of(1 << 16);
        // What the processor is to see may lie in the aperture as well, where the segments of the driver's allocation say so.
        let most = 2 * (sizes.DedicatedVideoMemorySize + sizes.SharedSystemMemorySize);
        let mut parts: Vec<Memory> = Vec::new();
        let refusal = loop {
            ensure!(
                parts.len() as u64 * part <= most,
                "{} parts of {part} bytes are resident in {all}, and what is shared is {}",
                parts.len(),
                sizes.SharedSystemMemorySize
            );
            let handle = lab.create(part, local)?;
            // What is resident may be more than page tables are left for: then the mapping is refused.
            let mapped = match lab.try_resident(handle)? {
                Ok(()) => lab.rig.try_map(lab.rig.map_request(handle, part))?,
                Err(status) => Err(status),
            };
            match mapped {
                Ok(address) => {
                    lab.fill(&mut worker, address, part, parts.len() as u32)?;
                    parts.push(Memory { handle, address, size: part });
                }
                Err(status) => {
                    granted(lab.rig.destroy_allocation(handle), "destroying what does not fit")?;
                    break status;
                }
            }
        };
        refused(refusal, &[STATUS_NO_MEMORY], "making resident what does not fit")?;
        ensure!(!parts.is_empty(), "nothing fits, local {local}");
        for (number, memory) in (0..).zip(&parts) {
            let view = lab.rig.view(*memory)?;
            holds(&view, 0, memory.size, number, "memory that was there when no more was to be had")?;
            granted(lab.rig.unlock(memory.handle), "unlocking")?;
        }
        for memory in parts {
            granted(lab.rig.destroy_allocation(memory.handle), "giving memory back")?;
        }
        let again = lab.memory(part, local)?;
        lab.fill(&mut worker, again.address, part, 7)?;
        granted(lab.rig.destroy_allocation(again.handle), "destroying what could be had again")?;
    }
    lab.work()
}

fn threads(case: &Case) -> Result<(), Failure> {
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let work = || -> Result<(), Failure> {
            let _entered = case.enter();
            for _ in 0..4 {
                let lab = lab(case)?;
                lab.work()?;
                granted(lab.rig.destroy(), "destroying the device")?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|outcome| outcome.unwrap_or_else(|_| Err(Failure::new("a thread panicked")))).collect()
    });
    outcomes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_of_any_type_of_the_enumeration() {
        use DXGK_ENGINE_TYPE as Type;
        for kind in [
            Type::DXGK_ENGINE_TYPE_OTHER,
            Type::DXGK_ENGINE_TYPE_3D,
            Type::DXGK_ENGINE_TYPE_VIDEO_DECODE,
            Type::DXGK_ENGINE_TYPE_SCENE_ASSEMBLY,
            Type::DXGK_ENGINE_TYPE_COPY,
            Type::DXGK_ENGINE_TYPE_CRYPTO,
            Type::DXGK_ENGINE_TYPE_VIDEO_CODEC,
        ] {
            assert!(is_engine_type(kind), "{kind:?}");
        }
        assert!(!is_engine_type(Type(-1)) && !is_engine_type(Type(10)));
    }
}
