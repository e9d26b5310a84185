//! Changes of GPU virtual addresses, and what the driver is asked for.

use crate::rig::{NO_ACCESS, RawFence, RawQueue, ZERO, copy_operation, map_operation, unmap_operation};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use dxgkrnl::TraceKind;
use wddm_ddi::km::DXGK_BUILDPAGINGBUFFER_OPERATION;
use wddm_ddi::kmt::D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;

use crate::rig::{Rig, copy, fill};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};

cases! { inside "GpuUpdate", needs HardwareScheduling, behind "it reads the trace of paging operations";
    "GpuUpdate.CopiesByTheDriverAndByUpdatesAreTheSame" needs UserModeSubmission on Boot::Fresh, "dxgk_buildpagingbuffer_copypagetableentries":
        "Entries that the driver copies from table to table translate as those that page-table updates write for the same mappings."
        => copies_are_the_same;
    "GpuUpdate.CopiesAreInOrderWithUpdates" needs UserModeSubmission on Boot::Fresh, "dxgk_buildpagingbuffer_copypagetableentries":
        "In one request entries are copied as the operations before left them, and operations behind change what was copied, and where it came from."
        => copies_are_in_order;
}

const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;
/// Pages of a region: more than one table maps.
const PAGES: u64 = 1024;

/// Paging operations that copied entries since the last look.
fn copies(case: &Case<'_>) -> Result<usize, Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let log = machine.take_trace(luid).ok_or_else(|| Failure::new("there is no trace"))?;
    let copied = DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES.0;
    let is_copy =
        |kind: &TraceKind| matches!(kind, TraceKind::PagingOperation { operation, .. } if *operation == copied);
    Ok(log.events.iter().filter(|event| is_copy(&event.kind)).count())
}

fn change(
    rig: &Rig,
    queue: &RawQueue,
    fence: &RawFence,
    operations: &[D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION],
) -> Result<(), Failure> {
    let value = fence.value.load();
    let request = rig.update_request(queue.context, (fence.handle, value), operations);
    granted(rig.update(&request), "D3DKMTUpdateGpuVirtualAddress")?;
    granted(rig.wait(&[fence.handle], &[value + 1], false), "the wait for the update")
}

fn copies_are_the_same(case: &mut Case<'_>) -> Result<(), Failure> {
    let traced = case.system.machine().trace(case.system.luid(), Some(1 << 16));
    traced.map_err(|status| Failure::new(format!("tracing: {status}")))?;
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COPY)?, rig.fence(0)?);
    let memory = rig.memory(8 * PAGE, Placement::Vram)?;
    for page in 0..8 {
        rig.execute(&mut queue, &[fill(memory.address + page * PAGE, PAGE, 0x0101_0101 * (1 + page as u32))])?;
    }
    let seen = rig.memory(PAGES * PAGE, Placement::SystemUncached)?;
    let view = rig.view(seen)?;
    let [by_driver, by_updates] = [rig.reserve(PAGES * PAGE, true)?, rig.reserve(PAGES * PAGE, true)?];
    let source = rig.reserve(PAGES * PAGE, true)?;
    // The same mappings twice: allocation pages over and over, zeros, and a hole that is filled again.
    for base in [source, by_updates] {
        let mapped = map_operation((base + 5 * PAGE, 600 * PAGE), memory.handle, 0, 8 * PAGE);
        let hole = [
            unmap_operation((base + 77 * PAGE, 9 * PAGE), NO_ACCESS),
            map_operation((base + 77 * PAGE, 9 * PAGE), memory.handle, PAGE, PAGE),
        ];
        change(&rig, &queue, &fence, &[mapped, hole[0], hole[1]])?;
    }
    ensure_eq!(copies(case)?, 0, "copies by the driver before there was one to do");
    // Down by three pages: apart from each other for the driver, over itself for updates.
    let len = (PAGES - 3) * PAGE;
    change(&rig, &queue, &fence, &[copy_operation((by_driver, len), source + 3 * PAGE)])?;
    ensure!(copies(case)? > 0, "the driver was not asked to copy");
    change(&rig, &queue, &fence, &[copy_operation((by_updates, len), by_updates + 3 * PAGE)])?;
    ensure_eq!(copies(case)?, 0, "copies by the driver over themselves");
    change(&rig, &queue, &fence, &[unmap_operation((source, PAGES * PAGE), ZERO)])?;
    let mut read = |base: u64| {
        view.fill(0xee);
        rig.execute(&mut queue, &[copy(seen.address, base, len as u32)])?;
        Ok((0..PAGES - 3).map(|page| view.read(page * PAGE, 1)[0]).collect::<Vec<u8>>())
    };
    let found: [Result<Vec<u8>, Failure>; 2] = [read(by_driver), read(by_updates)];
    let [one, other] = found;
    let (one, other) = (one?, other?);
    ensure!(one == other, "the copies show other pages");
    let expected = |page: u64| match page + 3 {
        77..86 => 2,
        page @ 5..605 => ((page - 5) % 8) as u8 + 1,
        _ => 0,
    };
    ensure!((0..PAGES - 3).all(|page| one[page as usize] == expected(page)), "the copies show wrong pages");
    Ok(())
}

/// Also where the GPU writes page tables: copies are then packets among others that write the same tables.
pub(super) fn copies_are_in_order(case: &mut Case<'_>) -> Result<(), Failure> {
    const PAGES: u64 = 320;
    let traced = case.system.machine().trace(case.system.luid(), Some(1 << 16));
    traced.map_err(|status| Failure::new(format!("tracing: {status}")))?;
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COPY)?, rig.fence(0)?);
    let memory = rig.memory(8 * PAGE, Placement::Vram)?;
    for page in 0..8 {
        rig.execute(&mut queue, &[fill(memory.address + page * PAGE, PAGE, 0x0101_0101 * (1 + page as u32))])?;
    }
    let seen = rig.memory(PAGES * PAGE, Placement::SystemUncached)?;
    let view = rig.view(seen)?;
    // The first half is copied over and over; each round leaves other pages there and in the second half.
    let (base, half) = (rig.reserve(PAGES * PAGE, true)?, PAGES / 2);
    let other = base + half * PAGE;
    let show = |at: u64, pages: u64, page: u64| map_operation((at, pages * PAGE), memory.handle, page * PAGE, PAGE);
    for round in 0..3 {
        let (one, two) = (round, 4 + round);
        let operations = [
            show(base, half, one),
            copy_operation((other, half * PAGE), base),
            unmap_operation((base, half * PAGE), ZERO),
            show(other + 9 * PAGE, 30, two),
            copy_operation((base + 100 * PAGE, 20 * PAGE), other),
            show(other, 5, two),
        ];
        // What the GPU knows of the round before is forgotten.
        change(&rig, &queue, &fence, &operations)?;
        view.fill(0xee);
        rig.execute(&mut queue, &[copy(seen.address, base, (PAGES * PAGE) as u32)])?;
        let expected = |page: u64| match page.checked_sub(half) {
            None => match page {
                109..120 => two + 1,
                100..109 => one + 1,
                _ => 0,
            },
            Some(0..5 | 9..39) => two + 1,
            Some(_) => one + 1,
        };
        for page in 0..PAGES {
            ensure_eq!(u64::from(view.read(page * PAGE, 1)[0]), expected(page), "page {page} in round {round}");
        }
    }
    ensure!(copies(case)? >= 6, "the driver was not asked to copy");
    Ok(())
}
