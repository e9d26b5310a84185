//! GPU virtual addresses.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::kmt::BAD_ARGUMENT;
use crate::rig::{copy, fill};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "GpuAddress";
    "GpuAddress.TwoMappingsShowTheSameBytes" needs UserModeSubmission on Boot::Shared, "gpu-virtual-memory":
        "An allocation mapped at two GPU addresses shows the same bytes at both."
        => two_mappings;
    "GpuAddress.PartOfAnAllocationCanBeMapped" needs UserModeSubmission on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "A mapping that starts inside the allocation and is shorter than it shows exactly those pages."
        => part_of_an_allocation;
    "GpuAddress.RangesAreHonoured" on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "A mapping lies between the least and the largest address asked for, at the base asked for if there is one."
        => ranges_are_honoured;
    "GpuAddress.MappingOverAMappingReplacesIt" needs UserModeSubmission on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "A mapping with a base inside a mapped range replaces what those pages showed, and leaves the other pages as they were."
        => mapping_over_mapping;
    "GpuAddress.RangeHalfInUseIsRefused" needs UserModeSubmission on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "A mapping whose range is neither free nor inside one range of the process is refused and changes nothing."
        => range_half_in_use;
    "GpuAddress.BadRangesAreRefused" on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "Mappings of no pages, beyond the allocation's end, at misaligned or impossible addresses are invalid parameters."
        => bad_ranges;
    "GpuAddress.ReservedRangeIsKeptFree" on Boot::Shared, "d3dkmtreservegpuvirtualaddress":
        "No mapping without a base address lands in a reserved range, while one with a base inside it may."
        => reserved_range;
    "GpuAddress.FreeOfAForeignRangeIsRefused" on Boot::Shared, "d3dkmtfreegpuvirtualaddress":
        "Freeing a range that is not allocated, or only partly, is refused."
        => free_of_nothing;
}

const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;

pub const SIZE: u64 = 16 * PAGE;

fn two_mappings(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let second = rig.map(rig.map_request(memory.handle, SIZE))?;
    ensure!(second != memory.address, "the second mapping lies where the first one is");
    let seen = rig.memory(SIZE, Placement::System)?;
    let view = rig.view(seen)?;
    let packets = [fill(memory.address, SIZE, 0x1357_9bdf), copy(seen.address, second, SIZE as u32)];
    rig.execute(&mut queue, &packets)?;
    let expected = 0x1357_9bdf_u32.to_le_bytes();
    ensure!(view.read(0, SIZE).chunks(4).all(|word| word == expected), "the second mapping shows other bytes");
    Ok(())
}

fn part_of_an_allocation(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let view = rig.view(memory)?;
    view.fill(0);
    let mut request = rig.map_request(memory.handle, 2 * PAGE);
    request.OffsetInPages = 5;
    let part = rig.map(request)?;
    rig.execute(&mut queue, &[fill(part, 2 * PAGE, u32::MAX)])?;
    let bytes = view.read(0, SIZE);
    let (from, to) = (5 * PAGE as usize, 7 * PAGE as usize);
    ensure!(bytes[from..to].iter().all(|byte| *byte == 0xff), "the mapped pages were not written");
    ensure!(bytes[..from].iter().chain(&bytes[to..]).all(|byte| *byte == 0), "other pages were written");
    Ok(())
}

fn ranges_are_honoured(case: &Case) -> Result<(), Failure> {
    const LEAST: u64 = 0x40_0000_0000;
    let rig = case.rig()?;
    let handle = rig.memory(SIZE, Placement::System)?.handle;
    let mut between = rig.map_request(handle, SIZE);
    between.MinimumAddress = LEAST;
    between.MaximumAddress = LEAST + (1 << 30);
    let address = rig.map(between)?;
    ensure!((LEAST..=LEAST + (1 << 30) - SIZE).contains(&address), "mapped at {address:#x}, outside the range");
    let mut at = rig.map_request(handle, SIZE);
    at.BaseAddress = LEAST + (4 << 30);
    ensure_eq!(rig.map(at)?, LEAST + (4 << 30), "address of a mapping with a base");
    Ok(())
}

fn mapping_over_mapping(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let (first, other) = (rig.memory(SIZE, Placement::System)?, rig.memory(SIZE, Placement::System)?);
    let (first_view, other_view) = (rig.view(first)?, rig.view(other)?);
    first_view.fill(0);
    other_view.fill(0);
    let mut request = rig.map_request(other.handle, 3 * PAGE);
    request.BaseAddress = first.address + 4 * PAGE;
    ensure_eq!(rig.map(request)?, first.address + 4 * PAGE, "address of the mapping over the first one");
    rig.execute(&mut queue, &[fill(first.address, SIZE, u32::MAX)])?;
    let set = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == 0xff).count() as u64 / PAGE;
    let (in_first, in_other) = (first_view.read(0, SIZE), other_view.read(0, SIZE));
    ensure_eq!((set(&in_first), set(&in_other)), (SIZE / PAGE - 3, 3), "pages written in each allocation");
    let replaced = 4 * PAGE as usize..7 * PAGE as usize;
    ensure!(in_first[replaced].iter().all(|byte| *byte == 0), "the replaced pages still show the first allocation");
    ensure_eq!(set(&in_other[..3 * PAGE as usize]), 3, "pages written at the start of the other allocation");
    Ok(())
}

fn range_half_in_use(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let other = rig.memory(SIZE, Placement::System)?;
    let (first, view) = {
        let handle = rig.create(SIZE, Placement::System).map_err(|status| Failure::new(format!("create: {status}")))?;
        rig.make_resident(handle)?;
        let mut request = rig.map_request(handle, SIZE);
        // Far from everything else, so that the neighbourhood is free.
        request.BaseAddress = 0x55_0000_0000;
        let address = rig.map(request)?;
        let memory = crate::rig::Memory { handle, address, size: SIZE };
        (memory, rig.view(memory)?)
    };
    for base in [first.address - PAGE, first.address + PAGE, first.address - SIZE + PAGE] {
        let mut request = rig.map_request(other.handle, SIZE);
        request.BaseAddress = base;
        let status = rig.kmt.call(rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
        refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY], "mapping a range that is half in use")?;
    }
    view.fill(0);
    rig.execute(&mut queue, &[fill(first.address, SIZE, u32::MAX)])?;
    ensure!(view.read(0, SIZE).iter().all(|byte| *byte == 0xff), "the first mapping no longer works");
    Ok(())
}

fn bad_ranges(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let handle = rig.memory(SIZE, Placement::System)?.handle;
    type Change = fn(&mut D3DDDI_MAPGPUVIRTUALADDRESS);
    let changes: [(&str, Change); 7] = [
        ("more pages than the allocation has", |request| request.SizeInPages += 1),
        ("an offset at the end", |request| request.OffsetInPages = SIZE / PAGE),
        ("an offset that wraps", |request| request.OffsetInPages = u64::MAX),
        ("a size that wraps", |request| request.SizeInPages = u64::MAX),
        ("a misaligned base", |request| request.BaseAddress = 0x1_0000_0001),
        ("a base beyond the address space", |request| request.BaseAddress = 1 << 52),
        ("a least address above the largest", |request| {
            request.MinimumAddress = 2 << 30;
            request.MaximumAddress = 1 << 30;
        }),
    ];
    for (what, change) in changes {
        let mut request = rig.map_request(handle, SIZE);
        change(&mut request);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
        refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY], what)?;
    }
    Ok(())
}

fn reserved_range(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut reserve = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
    reserve.u = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union { hAdapter: rig.adapter };
    reserve.Size = 64 * SIZE;
    granted(rig.kmt.call(rig.kmt.table().D3DKMTReserveGpuVirtualAddress, &mut reserve), "reserving")?;
    let reserved = reserve.VirtualAddress..reserve.VirtualAddress + 64 * SIZE;
    ensure!(reserved.start != 0 && reserved.start % PAGE == 0, "reserved at {:#x}", reserved.start);
    for _ in 0..16 {
        let memory = rig.memory(SIZE, Placement::System)?;
        let outside = memory.address + SIZE <= reserved.start || memory.address >= reserved.end;
        ensure!(outside, "a mapping landed at {:#x} in the reserved range", memory.address);
    }
    let handle = rig.memory(SIZE, Placement::System)?.handle;
    let mut inside = rig.map_request(handle, SIZE);
    inside.BaseAddress = reserved.start + 8 * SIZE;
    ensure_eq!(rig.map(inside)?, reserved.start + 8 * SIZE, "address of a mapping in the reserved range");
    granted(rig.free(reserved.start, 64 * SIZE), "freeing the reserved range")
}

fn free_of_nothing(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    refused(rig.free(memory.address + (1 << 40), SIZE), BAD_ARGUMENT, "freeing what is not allocated")?;
    refused(rig.free(memory.address, u64::MAX), BAD_ARGUMENT, "freeing a size that wraps")?;
    granted(rig.free(memory.address, SIZE), "freeing the mapping")?;
    refused(rig.free(memory.address, SIZE), BAD_ARGUMENT, "freeing the mapping again")
}
