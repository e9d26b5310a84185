//! Cases for the driver of any GPU about who may see and write what, and whose packets come first.

use wddm_ddi::kmt::*;
use wddm_ddi::status::STATUS_NOT_SUPPORTED;

use super::any_driver_error::{PAGE_FAULT, costs_its_device};
use super::any_driver_lab::{SIZE, holds, lab};
use crate::opaque::Values;
use crate::rig::ZERO;
use crate::{Boot, Case, Failure, granted};

cases! { neutral "AnyDriver";
    "AnyDriver.NewMemoryIsZero" on Boot::Fresh, "dxgk_buildpagingbuffer_fillvirtual":
        "Memory of each kind that programs have used and given back is zero, every word of it, for the program that gets it next."
        => new_memory;
    "AnyDriver.ReadOnlyMappingIsNotWritten" on Boot::Fresh, "d3dddigpuvirtualaddress_protection_type":
        "Commands that write through a mapping without the right to write change nothing and put their own device into error, if the GPU claims read-only memory; another device goes on."
        => read_only;
    "AnyDriver.ZerosAreReadWhereTheyAreMapped" on Boot::Fresh, "dxgk_pte":
        "Commands that read a mapping of zeros find zeros, if the GPU claims ZeroInPteSupported."
        => zeros;
    "AnyDriver.PacketsOfHigherPriorityAreNotLost" on Boot::Shared, "dxgkddi_preemptcommand":
        "Packets of a context of higher priority come between those of another one, time after time, and each packet of both is done once and in the order of its context."
        => priorities;
    "AnyDriver.HalfMadeAllocationsAreGivenBack" on Boot::Fresh, "dxgkddi_createallocation":
        "Of several allocations in one call, of which the driver refuses one, the others do not stay either: the system goes on, and the driver has nothing of them when it is unloaded."
        => half_made;
}

fn new_memory(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    for round in 1..=4_u32 {
        for local in lab.kinds() {
            // Odd sizes in turn, so that what is used again begins and ends elsewhere.
            let size = SIZE * u64::from(round) + 4096;
            let memories = (0..4).map(|_| lab.memory(size, local)).collect::<Result<Vec<_>, Failure>>()?;
            let mut worker = lab.worker()?;
            for memory in &memories {
                let what = format!("new memory, round {round}, local {local}");
                holds(&lab.rig.view(*memory)?, 0, size, 0, &what)?;
                lab.fill(&mut worker, memory.address, size, 0xdead_0000 | round)?;
            }
            for memory in memories {
                granted(lab.rig.destroy_allocation(memory.handle), "giving memory back")?;
            }
            granted(lab.rig.destroy_packet_context(worker.context), "destroying the context")?;
        }
    }
    Ok(())
}

fn zeros(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let mut request = lab.rig.map_request(0, SIZE);
    request.Protection = ZERO;
    let status = lab.rig.kmt.call(lab.rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
    if status == STATUS_NOT_SUPPORTED {
        return Err(Failure::NotApplicable("the driver does not claim ZeroInPteSupported".to_owned()));
    }
    lab.rig.settle(status, request.PagingFenceValue, "D3DKMTMapGpuVirtualAddress")?;
    let mut worker = lab.worker()?;
    // An entry that names a page instead of zeros names the first one of a kind of memory, most likely: what is there is not zero.
    for local in lab.kinds() {
        for pattern in 1..=4 {
            let memory = lab.memory(SIZE, local)?;
            lab.fill(&mut worker, memory.address, SIZE, 0x0f1e_0000 | pattern)?;
        }
    }
    for local in lab.kinds() {
        let memory = lab.memory(SIZE, local)?;
        let view = lab.rig.view(memory)?;
        lab.fill(&mut worker, memory.address, SIZE, 0x5a5a_0003)?;
        holds(&view, 0, SIZE, 0x5a5a_0003, "memory that was filled")?;
        lab.submit_copy(&mut worker, request.VirtualAddress, memory.address, SIZE)?;
        lab.wait(&worker)?;
        holds(&view, 0, SIZE, 0, "memory to which zeros were copied")?;
    }
    Ok(())
}

fn half_made(case: &Case) -> Result<(), Failure> {
    const SEVERAL: usize = 3;
    let lab = lab(case)?;
    let good = lab.opaque.allocation(SIZE, false).unwrap_or_default();
    let bad = [Vec::new(), vec![0; good.len()], good[..good.len() / 2].to_vec()];
    let Some(bad) = bad.into_iter().find(|bad| match lab.rig.create_raw(&mut bad.clone()) {
        Ok(handle) => {
            let _ = lab.rig.destroy_allocation(handle);
            false
        }
        Err(_) => true,
    }) else {
        return Err(Failure::NotApplicable("the driver takes private data that are missing, short or zero".to_owned()));
    };
    for place in 0..SEVERAL {
        let mut data = vec![good.clone(); SEVERAL];
        data[place].clone_from(&bad);
        match lab.rig.create_several(&mut data) {
            Ok(_) => {
                let what = "a call with private data that are refused when they come alone";
                return Err(Failure::new(format!("{what}, as allocation {place} of {SEVERAL}, was granted")));
            }
            Err(_) => lab.work()?,
        }
    }
    Ok(())
}

fn read_only(case: &Case) -> Result<(), Failure> {
    let (mut lab, mut other) = (lab(case)?, lab(case)?);
    if !lab.gpu_mmu_caps()?.Flags.ReadOnlyMemorySupported() {
        return Err(Failure::NotApplicable("the driver does not claim ReadOnlyMemorySupported".to_owned()));
    }
    for local in other.kinds().collect::<Vec<_>>() {
        let memory = lab.memory(SIZE, local)?;
        let view = lab.rig.view(memory)?;
        view.fill(0x11);
        let commands = || {
            let mut request = lab.rig.map_request(memory.handle, SIZE);
            request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
            let target = lab.rig.map(request)?;
            Ok(lab.opaque.fill(Values { size: SIZE, target, pattern: 0x2222_2222, ..Values::default() }))
        };
        let unchanged = || holds(&view, 0, SIZE, 0x1111_1111, "memory without the right to write");
        costs_its_device((&lab, &other, PAGE_FAULT), commands, unchanged)?;
        (lab, other) = (super::any_driver_lab::lab(case)?, super::any_driver_lab::lab(case)?);
    }
    Ok(())
}

fn priorities(case: &Case) -> Result<(), Failure> {
    const ROUNDS: u32 = 8;
    const STEP: u64 = 4096;
    let lab = lab(case)?;
    let memory = lab.memory(2 * SIZE, false)?;
    let view = lab.rig.view(memory)?;
    let (mut low, mut high) = (lab.worker()?, lab.worker()?);
    granted(lab.rig.set_priority(low.context, -7), "the lowest priority")?;
    granted(lab.rig.set_priority(high.context, 7), "the highest priority")?;
    for round in 1..=ROUNDS {
        let word = |packet: u32| 0x3000_0000 | round << 8 | packet;
        for packet in 1..=8_u32 {
            // Each packet fills one step less than the one before: a step shows which was the last to fill it.
            let size = SIZE - u64::from(packet - 1) * STEP;
            let commands =
                lab.opaque.fill(Values { size, target: memory.address, pattern: word(packet), ..Values::default() });
            lab.submit(&mut low, &commands)?;
            let target = memory.address + SIZE;
            let commands = lab.opaque.fill(Values { size, target, pattern: !word(packet), ..Values::default() });
            lab.submit(&mut high, &commands)?;
        }
        lab.wait(&high)?;
        lab.wait(&low)?;
        for packet in 1..8_u32 {
            let offset = SIZE - u64::from(packet) * STEP;
            holds(&view, offset, STEP, word(packet), "a step of the context of low priority")?;
            holds(&view, SIZE + offset, STEP, !word(packet), "a step of the context of high priority")?;
        }
    }
    Ok(())
}
