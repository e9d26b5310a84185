//! Page tables that the GPU writes: the same requests, with entries that are work of the paging node.

use campanile_device::PageTableUpdates;
use campanile_hw::packet::Packet;
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::{gpu_update, hog, power_loss, suspended_process, tdr_packet};
use crate::rig::{Rig, copy, fill};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "PageTables", behind "it chooses who writes page tables, and the moments at which the paging node works";
    "PageTables.ProcessorWritesBeforeTheCallReturns" on Boot::With(stepped_cpu), "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "Where the processor writes page tables, a mapping is there when the call returns, and the value of the paging fence is 0."
        => at_once;
    "PageTables.MappingIsPendingByGpuVirtual" needs UserModeSubmission on Boot::With(stepped_virtual), "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "Where the GPU writes page tables by address, a mapping answers STATUS_PENDING and a value that the paging fence reaches when the entries are written, not before the paging node works; values of requests follow each other."
        => pending;
    "PageTables.MappingIsPendingByGpuPhysical" needs UserModeSubmission on Boot::With(stepped_physical), "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "The same where the GPU writes page tables by their place in a segment."
        => pending;
    "PageTables.TablesLeaveByGpuVirtual" needs UserModeSubmission on Boot::With(small_virtual), "driver-residency-in-wddm-2-0":
        "Page tables of a suspended process leave VRAM, and are back before it works, where the GPU writes them by address."
        => suspended_process::tables_leave;
    "PageTables.TablesLeaveByGpuPhysical" needs UserModeSubmission on Boot::With(small_physical), "driver-residency-in-wddm-2-0":
        "The same where the GPU writes them by their place in a segment."
        => suspended_process::tables_leave;
    "PageTables.LostInD3ByGpuVirtual" needs UserModeSubmission on Boot::With(lost_virtual), "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "Tables that were lost in D3 are written anew by the GPU, by address, before anybody else works; all memory is where it was."
        => power_loss::memory_outlives;
    "PageTables.LostInD3ByGpuPhysical" needs UserModeSubmission on Boot::With(lost_physical), "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "The same by their place in a segment."
        => power_loss::memory_outlives;
    "PageTables.HangAmongEntriesByGpuVirtual" on Boot::With(virtually), "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "When the paging node hangs with entries half written, the adapter is reset and every table of every process written anew."
        => hang_among_entries;
    "PageTables.HangAmongEntriesByGpuPhysical" on Boot::With(physically), "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "The same where the GPU writes them by their place in a segment."
        => hang_among_entries;
    "PageTables.LinkedGpusByGpuVirtual" needs UserModeSubmission on Boot::With(linked_virtual), "linked-display-adapter":
        "Of two GPUs that are one adapter each writes its own tables, by address, and both find what they show."
        => linked;
    "PageTables.LinkedGpusByGpuPhysical" needs UserModeSubmission on Boot::With(linked_physical), "linked-display-adapter":
        "The same by their place in a segment."
        => linked;
    "PageTables.CopiesAreInOrderByGpuVirtual" needs UserModeSubmission on Boot::With(virtually), "dxgk_buildpagingbuffer_copypagetableentries":
        "Copies of entries are behind updates that the GPU is to make before, by address, and before later ones of both tables."
        => gpu_update::copies_are_in_order;
    "PageTables.CopiesAreInOrderByGpuPhysical" needs UserModeSubmission on Boot::With(physically), "dxgk_buildpagingbuffer_copypagetableentries":
        "The same where the GPU writes them by their place in a segment."
        => gpu_update::copies_are_in_order;
}

fn by(updates: PageTableUpdates, mut options: SystemOptions) -> SystemOptions {
    options.variant.page_table_updates = updates;
    options
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..SystemOptions::default() }
}

fn stepped_cpu() -> SystemOptions {
    stepped()
}

pub(super) fn stepped_virtual() -> SystemOptions {
    by(PageTableUpdates::GpuVirtual, stepped())
}

fn stepped_physical() -> SystemOptions {
    by(PageTableUpdates::GpuPhysical, stepped())
}

fn small_virtual() -> SystemOptions {
    by(PageTableUpdates::GpuVirtual, hog::small_vram())
}

fn small_physical() -> SystemOptions {
    by(PageTableUpdates::GpuPhysical, hog::small_vram())
}

fn lost_virtual() -> SystemOptions {
    by(PageTableUpdates::GpuVirtual, power_loss::lost())
}

fn lost_physical() -> SystemOptions {
    by(PageTableUpdates::GpuPhysical, power_loss::lost())
}

fn virtually() -> SystemOptions {
    by(PageTableUpdates::GpuVirtual, SystemOptions::default())
}

fn physically() -> SystemOptions {
    by(PageTableUpdates::GpuPhysical, SystemOptions::default())
}

fn linked_of(updates: PageTableUpdates) -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.linked = true;
    by(updates, options)
}

fn linked_virtual() -> SystemOptions {
    linked_of(PageTableUpdates::GpuVirtual)
}

fn linked_physical() -> SystemOptions {
    linked_of(PageTableUpdates::GpuPhysical)
}

const SIZE: u64 = 64 << 10;

/// Asks for a mapping; what was answered.
fn map(rig: &Rig, request: &mut D3DDDI_MAPGPUVIRTUALADDRESS) -> (NTSTATUS, u64) {
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMapGpuVirtualAddress, request);
    (status, request.PagingFenceValue)
}

/// A resident allocation that is mapped nowhere.
fn resident(rig: &Rig) -> Result<wddm_ddi::types::D3DKMT_HANDLE, Failure> {
    let handle = rig.create(SIZE, Placement::System).map_err(|status| Failure::new(format!("create: {status}")))?;
    rig.make_resident(handle)?;
    Ok(handle)
}

/// The fill of the memory and the signal are two packets, and the 256 entries that show it more than forty.
fn hang_among_entries(case: &mut Case<'_>) -> Result<(), Failure> {
    tdr_packet::hang_in_paging(case, 20)
}

fn at_once(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let handle = resident(&rig)?;
    let before = rig.paged();
    let mut request = rig.map_request(handle, SIZE);
    ensure_eq!(map(&rig, &mut request), (STATUS_SUCCESS, 0), "a mapping");
    ensure_eq!(rig.paged(), before, "the paging fence");
    Ok(())
}

fn pending(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let target = rig.memory(SIZE, Placement::SystemUncached)?;
    let handle = resident(&rig)?;
    let mut requests = [rig.map_request(handle, SIZE), rig.map_request(handle, SIZE)];
    let mut last = rig.paged();
    for request in &mut requests {
        let (status, value) = map(&rig, request);
        ensure_eq!(status, STATUS_PENDING, "a mapping whose entries a GPU is to write that stands still");
        ensure!(value > last && rig.paged() < value, "value {value} behind {last}, the fence is at {}", rig.paged());
        last = value;
    }
    for request in &requests {
        rig.settle(STATUS_PENDING, request.PagingFenceValue, "D3DKMTMapGpuVirtualAddress")?;
    }
    let [first, second] = requests.map(|request| request.VirtualAddress);
    let mut execute = |packets: &[Packet]| {
        let value = rig.submit(&mut queue, packets)?;
        while case.system.gpu().step() {}
        ensure!(queue.progress.load() >= value, "the GPU has nothing to do, and has not done what it was given");
        Ok(())
    };
    execute(&[fill(first, SIZE, 0x1234_5678), copy(target.address, second, SIZE as u32)])?;
    let seen = rig.view(target)?.read(0, SIZE);
    ensure!(seen.chunks(4).all(|word| *word == 0x1234_5678u32.to_le_bytes()), "both mappings show the allocation");
    // One that replaces another waits for its entries too.
    let other = resident(&rig)?;
    let mut replaced = rig.map_request(other, SIZE);
    replaced.BaseAddress = second;
    let (status, value) = map(&rig, &mut replaced);
    ensure!(status == STATUS_PENDING && rig.paged() < value, "{status} with {value}, the fence is at {}", rig.paged());
    rig.settle(status, value, "D3DKMTMapGpuVirtualAddress")?;
    execute(&[copy(target.address, second, SIZE as u32)])?;
    let seen = rig.view(target)?.read(0, SIZE);
    ensure!(seen.iter().all(|byte| *byte == 0), "an address shows what it showed before it was mapped anew");
    granted(rig.free(first, SIZE), "D3DKMTFreeGpuVirtualAddress")
}

fn linked(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for engine in 0..2 {
        let rig = Rig::on_engine(rig.kmt, rig.adapter, engine)?;
        let mut queue = rig.queue(NODE_COPY)?;
        let memory = rig.memory(SIZE, Placement::Vram)?;
        let target = rig.memory(SIZE, Placement::SystemUncached)?;
        for round in 1..=3u32 {
            let packets = [fill(memory.address, SIZE, round), copy(target.address, memory.address, SIZE as u32)];
            rig.execute(&mut queue, &packets)?;
            let seen = rig.view(target)?.read(0, SIZE);
            ensure!(seen.chunks(4).all(|word| *word == round.to_le_bytes()), "engine {engine}, round {round}");
            granted(rig.evict(memory.handle), "D3DKMTEvict")?;
            rig.make_resident(memory.handle)?;
        }
    }
    Ok(())
}
