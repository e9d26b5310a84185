//! Cases for the driver of any GPU about paging operations beside moves of memory: where an address leads, how far apart addresses lie, changes between packets, memory that was offered.

use wddm_ddi::kmt::*;
use wddm_ddi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use wddm_ddi::types::D3DKMT_HANDLE;

use super::any_driver_lab::{Lab, SIZE, Worker, holds, lab};
use super::offer::{HIGH, KEPT, offer, try_reclaim};
use crate::rig::{Memory, View, ZERO, copy_operation, map_operation, unmap_operation};
use crate::{Boot, Case, Failure, granted};

cases! { neutral "AnyDriver";
    "AnyDriver.AddressLeadsToWhatIsMappedThere" on Boot::Shared, "dxgk_buildpagingbuffer_flushtlb":
        "Commands that use an address at which one allocation after the other is mapped reach the one that is mapped there, in memory of each kind, and no longer the ones before it."
        => one_after_the_other;
    "AnyDriver.AddressesMayLieFarApart" on Boot::Shared, "dxgk_buildpagingbuffer_updatepagetable":
        "Commands reach memory at addresses at which each bit of VirtualAddressBitCount is set in turn, while all of them are mapped, and on both sides of the border of two page tables."
        => far_apart;
    "AnyDriver.MappingsChangeBetweenPackets" on Boot::Shared, "d3dkmtupdategpuvirtualaddress":
        "Mappings that D3DKMTUpdateGpuVirtualAddress makes, copies and takes away are those that packets behind it find, and packets before it do not, if the GPU claims ZeroInPteSupported."
        => between_packets;
    "AnyDriver.OfferedMemoryIsKeptOrToldToBeLost" on Boot::Shared, "d3dkmtreclaimallocations2":
        "Memory that was offered and reclaimed has the contents that it had, or its contents are told to be lost; either way commands work with it as before."
        => offered;
}

const PAGE: u64 = 4096;

fn one_after_the_other(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let mut worker = lab.worker()?;
    let first = lab.memory(SIZE, false)?;
    let address = first.address;
    let mut shown: Vec<(View, u32)> = vec![(lab.rig.view(first)?, 0x4400_0000)];
    lab.fill(&mut worker, address, SIZE, 0x4400_0000)?;
    for round in 1..=4_u32 {
        for local in lab.kinds() {
            granted(lab.rig.free(address, SIZE), "freeing the address")?;
            let handle = lab.create(SIZE, local)?;
            lab.rig.make_resident(handle)?;
            let mut request = lab.rig.map_request(handle, SIZE);
            request.BaseAddress = address;
            let memory = Memory { handle, address: lab.rig.map(request)?, size: SIZE };
            ensure_eq!(memory.address, address, "the address that was asked for");
            let pattern = 0x4400_0000 | round << 8 | (u32::from(local) + 1);
            let view = lab.rig.view(memory)?;
            lab.fill(&mut worker, address, SIZE, pattern)?;
            shown.push((view, pattern));
            for (view, pattern) in &shown {
                holds(view, 0, SIZE, *pattern, "memory that was mapped at the same address before or is now")?;
            }
        }
    }
    Ok(())
}

fn far_apart(case: &Case) -> Result<(), Failure> {
    /// The granularity of addresses.
    const UNIT: u64 = 64 << 10;
    /// The lowest power of two with space before it.
    const FIRST: u32 = 18;
    let lab = lab(case)?;
    let bits = lab.gpu_mmu_caps()?.VirtualAddressBitCount;
    ensure!((FIRST + 1..=64).contains(&bits), "VirtualAddressBitCount is {bits}");
    let mut worker = lab.worker()?;
    let powers = FIRST..bits;
    let memory = lab.memory(2 * UNIT * powers.len() as u64, false)?;
    let view = lab.rig.view(memory)?;
    view.fill(0);
    // At each power of two: one half lies before it, where a table of a level may end, too, and one behind it.
    let mut mapped = Vec::new();
    for (number, bit) in (0..).zip(powers.clone()) {
        let mut request = lab.rig.map_request(memory.handle, 2 * UNIT);
        request.OffsetInPages = number * 2 * UNIT / PAGE;
        // One address alone is within these bounds; the system refuses it where something is mapped there.
        (request.MinimumAddress, request.MaximumAddress) = ((1 << bit) - UNIT, (1 << bit) + UNIT);
        if let Ok(address) = lab.rig.try_map(request)? {
            ensure_eq!(address, request.MinimumAddress, "the only address within the bounds");
            mapped.push((bit, address, number * 2 * UNIT));
        }
    }
    ensure!(2 * mapped.len() > powers.len(), "only {} of {} addresses are free", mapped.len(), powers.len());
    let word = |bit: u32| 0x5500_0000 | bit;
    for (bit, address, _) in &mapped {
        let filled = lab.fill(&mut worker, *address, 2 * UNIT, word(*bit));
        filled.map_err(|failure| Failure::new(format!("memory at an address with bit {bit}: {failure}")))?;
    }
    for (bit, _, offset) in &mapped {
        holds(&view, *offset, 2 * UNIT, word(*bit), &format!("memory at an address with bit {bit}"))?;
    }
    for (_, address, _) in &mapped {
        granted(lab.rig.free(*address, 2 * UNIT), "freeing an address")?;
    }
    lab.work()
}

fn between_packets(case: &Case) -> Result<(), Failure> {
    const REGION: u64 = 64 << 10;
    let lab = lab(case)?;
    let mut worker = lab.worker()?;
    let fence = lab.rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    for local in lab.kinds() {
        let base = match lab.rig.try_reserve(REGION, true) {
            Err(STATUS_NOT_SUPPORTED) => {
                return Err(Failure::NotApplicable("the driver does not claim ZeroInPteSupported".to_owned()));
            }
            reserved => reserved.map_err(|status| Failure::new(format!("D3DKMTReserveGpuVirtualAddress: {status}")))?,
        };
        let (shown, seen) = (lab.memory(REGION, local)?, lab.memory(REGION, false)?);
        for page in 0..REGION / PAGE {
            lab.fill(&mut worker, shown.address + page * PAGE, PAGE, 0x6600_0000 | page as u32)?;
        }
        let view = lab.rig.view(seen)?;
        view.fill(0xee);
        let page = |number: u64| (base + number * PAGE, PAGE);
        let steps = [
            vec![map_operation(page(0), shown.handle, 5 * PAGE, 0)],
            vec![map_operation(page(0), shown.handle, 7 * PAGE, 0), copy_operation(page(3), base)],
            vec![unmap_operation(page(0), ZERO)],
        ];
        // Pages 0 and 3, before the first step and behind each: what is not mapped is zero.
        let expected = [[0, 0], [0x6600_0005, 0], [0x6600_0007, 0x6600_0007], [0, 0x6600_0007]];
        let start = fence.value.load();
        for (slot, step) in (0..).zip([None].into_iter().chain(steps.iter().map(Some))) {
            if let Some(operations) = step {
                change_behind(&lab, &worker, fence.handle, start + 2 * slot - 1, operations)?;
            }
            lab.submit_copy(&mut worker, base, seen.address + 2 * slot * PAGE, PAGE)?;
            lab.submit_copy(&mut worker, base + 3 * PAGE, seen.address + (2 * slot + 1) * PAGE, PAGE)?;
        }
        lab.wait(&worker)?;
        for (place, pattern) in (0..).zip(expected.into_iter().flatten()) {
            let what = format!("page {} behind {} changes, local {local}", place % 2 * 3, place / 2);
            holds(&view, place * PAGE, PAGE, pattern, &what)?;
        }
        granted(lab.rig.free(base, REGION), "freeing the region")?;
    }
    Ok(())
}

/// Has mappings changed behind the packets that were submitted and before those that come: the context signals a value, of which the system makes the next one when it has changed them, for
/// which the context waits.
fn change_behind(
    lab: &Lab,
    worker: &Worker,
    fence: D3DKMT_HANDLE,
    value: u64,
    operations: &[D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION],
) -> Result<(), Failure> {
    granted(lab.rig.context_signal(worker.context, &[(fence, value)]), "the signal behind packets")?;
    let request = lab.rig.update_request(worker.context, (fence, value), operations);
    granted(lab.rig.update(&request), "D3DKMTUpdateGpuVirtualAddress")?;
    granted(lab.rig.context_wait(worker.context, &[(fence, value + 1)]), "the wait for the change")
}

fn offered(case: &Case) -> Result<(), Failure> {
    const PARTS: u32 = 4;
    let lab = lab(case)?;
    let mut worker = lab.worker()?;
    for local in lab.kinds() {
        let parts = (0..PARTS).map(|_| lab.memory(SIZE, local)).collect::<Result<Vec<_>, Failure>>()?;
        for round in 1..=4_u32 {
            let word = |part: u32| 0x7700_0000 | round << 8 | part;
            for (part, memory) in (0..).zip(&parts) {
                lab.fill(&mut worker, memory.address, SIZE, word(part))?;
                offer(&lab.rig, *memory, HIGH)?;
            }
            for (part, memory) in (0..).zip(&parts) {
                let (status, told) = try_reclaim(&lab.rig, &[memory.handle])?;
                ensure!(status.is_success(), "D3DKMTReclaimAllocations2: {status}, not {STATUS_SUCCESS} or pending");
                let view = lab.rig.view(*memory)?;
                if told == [KEPT] {
                    holds(&view, 0, SIZE, word(part), "memory that was offered and is told to be kept")?;
                }
                lab.fill(&mut worker, memory.address, SIZE, !word(part))?;
                holds(&view, 0, SIZE, !word(part), "memory that was reclaimed")?;
                granted(lab.rig.unlock(memory.handle), "unlocking")?;
            }
        }
        for memory in parts {
            granted(lab.rig.destroy_allocation(memory.handle), "destroying the memory")?;
        }
    }
    Ok(())
}
