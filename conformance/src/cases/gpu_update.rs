//! Changes of GPU virtual addresses between the work of a context.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::context_destruction::joined;
use super::fault::wait_for_error;
use super::fence_monitored::{private, queue_signal, queue_wait};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, DEVICE_LOST, WRONG_KIND};
use crate::rig::{
    Memory, NO_ACCESS, RawFence, RawQueue, Rig, View, ZERO, copy, copy_operation, fill, map_operation,
    protect_operation, unmap_operation, wait_until,
};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "GpuUpdate", needs HardwareScheduling;
    "GpuUpdate.ComesBetweenWorkOfItsContext" needs UserModeSubmission on Boot::Shared, "d3dkmtupdategpuvirtualaddress":
        "An update is made after the context has signalled the value that it waits for, and before what waits for the next value; then the fence has that."
        => between_work;
    "GpuUpdate.OfAKernelQueueAndAContextOfPackets" needs UserModeSubmission on Boot::Shared, "d3dkmtupdategpuvirtualaddress":
        "Contexts whose work the kernel submits have their updates between that work too, with monitored fences."
        => between_kernel_work;
    "GpuUpdate.DestructionMakesQueuedUpdates" needs UserModeSubmission on Boot::Shared, "pfnd3dddi_destroycontextcb":
        "The destruction of a context blocks until the updates that were queued to it are made, and their fences have their values."
        => destroyed;
    "GpuUpdate.DoNotWaitIsMadeAtOnce" needs UserModeSubmission on Boot::Shared, "d3dkmt_updategpuvirtualaddress":
        "With DoNotWait the value of the fence is not waited for, whatever the context is at; the fence gets the next value all the same."
        => at_once;
    "GpuUpdate.OperationsAreAppliedInOrder" needs UserModeSubmission on Boot::Shared, "d3dddi_updategpuvirtualaddress_operation":
        "Ranges of operations may intersect, those of a copy too: each page shows what the last operation on it said, and a copy what its source showed before."
        => in_order;
    "GpuUpdate.PartOfAnAllocationFillsTheRange" needs UserModeSubmission on Boot::Shared, "d3dddi_updategpuvirtualaddress_operation":
        "An allocation range that is smaller than the virtual range is mapped over and over until that is full."
        => repeated_part;
    "GpuUpdate.UnmappedPagesAreZeroOrFault" needs UserModeSubmission on Boot::Shared, "d3dddi_updategpuvirtualaddress_operation":
        "Pages that are unmapped with Zero read as zero, those with NoAccess fault, and both can be mapped again."
        => unmapped;
    "GpuUpdate.ProtectionHolds" needs UserModeSubmission on Boot::Shared, "d3dddi_updategpuvirtualaddress_operation":
        "Pages that were mapped with a protection that forbids writes can be read, copies of them too, and a write faults."
        => protection;
    "GpuUpdate.AllocationNeedNotBeResident" needs UserModeSubmission on Boot::Shared, "d3dddi_updategpuvirtualaddress_operation":
        "An allocation that is not resident can be mapped; its pages are there once it is."
        => not_resident;
    "GpuUpdate.BadRequestsAreRefused" needs UserModeSubmission on Boot::Shared, "d3dkmtupdategpuvirtualaddress":
        "Bad handles, ranges, sizes, protections and fences are named errors; nothing is mapped, and no fence gets a value."
        => bad_requests;
    "GpuUpdate.ManyQueuedOperationsBlock" needs UserModeSubmission on Boot::Shared, "d3dkmtupdategpuvirtualaddress":
        "While more than 128 operations are queued the calling thread is blocked; it goes on when they are processed."
        => many_block;
    "GpuUpdate.BlockedCallerIsReleased" needs UserModeSubmission on Boot::Shared, "d3dkmtupdategpuvirtualaddress":
        "A thread that is blocked by queued operations is released with an error when the device is destroyed, and what was queued is dropped."
        => released;
    "GpuUpdate.LateUpdatesLeaveOthersAlone" needs UserModeSubmission on Boot::Shared, "d3dkmtupdategpuvirtualaddress":
        "An update whose range was freed, or whose allocation was destroyed before it is made, maps nothing there; its fence goes on."
        => late;
}

const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;
/// Bytes of a region: a unit of reservations.
const REGION: u64 = 64 << 10;

/// A region, an allocation of as many pages with a byte of its own in each, and where pages are read to.
struct Tiles {
    rig: Rig,
    base: u64,
    memory: Memory,
    seen: Memory,
    view: View,
    reader: RawQueue,
}

impl Tiles {
    fn new(case: &Case) -> Result<Self, Failure> {
        let rig = case.rig()?;
        let base = rig.reserve(REGION, true)?;
        let memory = rig.memory(REGION, Placement::Vram)?;
        let seen = rig.memory(REGION, Placement::SystemUncached)?;
        let view = rig.view(seen)?;
        let mut reader = rig.queue(NODE_COPY)?;
        for page in 0..REGION / PAGE {
            rig.execute(&mut reader, &[fill(memory.address + page * PAGE, PAGE, byte(page) * 0x0101_0101)])?;
        }
        Ok(Self { rig, base, memory, seen, view, reader })
    }

    fn page(&self, page: u64) -> (u64, u64) {
        (self.base + page * PAGE, PAGE)
    }

    fn pages(&self, page: u64, count: u64) -> (u64, u64) {
        (self.base + page * PAGE, count * PAGE)
    }

    /// The first byte of each page, as the GPU reads it.
    fn read(&mut self, count: u64) -> Result<Vec<u8>, Failure> {
        self.view.fill(0xee);
        self.rig.execute(&mut self.reader, &[copy(self.seen.address, self.base, (count * PAGE) as u32)])?;
        Ok((0..count).map(|page| self.view.read(page * PAGE, 1)[0]).collect())
    }

    /// Changes mappings at once, and waits until they are.
    fn change(&self, fence: &RawFence, operations: &[D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION]) -> Result<(), Failure> {
        let value = fence.value.load();
        let request = self.rig.update_request(self.reader.context, (fence.handle, value), operations);
        granted(self.rig.update(&request), "D3DKMTUpdateGpuVirtualAddress")?;
        granted(self.rig.wait(&[fence.handle], &[value + 1], false), "the wait for the update")?;
        ensure_eq!(fence.value.load(), value + 1, "value after the update");
        Ok(())
    }

    fn map(&self, page: u64, of: u64) -> D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION {
        map_operation(self.page(page), self.memory.handle, of * PAGE, 0)
    }
}

/// Byte that fills a page of the allocation in these cases.
fn byte(page: u64) -> u32 {
    0x10 + page as u32
}

fn between_work(case: &Case) -> Result<(), Failure> {
    let tiles = Tiles::new(case)?;
    let rig = &tiles.rig;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (gate, fence) = (rig.fence(0)?, rig.fence(0)?);
    tiles.view.fill(0xee);
    let read = |slot: u64| copy(tiles.seen.address + slot * PAGE, tiles.base, PAGE as u32);
    rig.submit(&mut queue, &[gate.wait(1), read(0), fence.signal(1)])?;
    // What waits for the updates is queued before they are.
    rig.submit(&mut queue, &[fence.wait(2), read(1), fence.signal(3)])?;
    rig.submit(&mut queue, &[fence.wait(4), read(2), fence.signal(5)])?;
    let last = rig.submit(&mut queue, &[fence.wait(6), read(3)])?;
    let update = |value, operations: &[_]| {
        granted(rig.update(&rig.update_request(queue.context, (fence.handle, value), operations)), "an update")
    };
    update(1, &[tiles.map(0, 5)])?;
    update(3, &[tiles.map(0, 9)])?;
    update(5, &[unmap_operation(tiles.page(0), ZERO)])?;
    ensure_eq!(fence.value.load(), 0, "value while the work before the updates is blocked");
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    wait_until("the work behind the updates", || queue.progress.load() >= last)?;
    let seen: Vec<u8> = (0..4).map(|slot| tiles.view.read(slot * PAGE, 1)[0]).collect();
    ensure_eq!(seen, [0, byte(5) as u8, byte(9) as u8, 0], "what the work before and after each update read");
    ensure_eq!(fence.value.load(), 6, "value in the end");
    Ok(())
}

fn between_kernel_work(case: &Case) -> Result<(), Failure> {
    let tiles = Tiles::new(case)?;
    let rig = &tiles.rig;
    let read = |slot: u64| copy(tiles.seen.address + slot * PAGE, tiles.base, PAGE as u32);
    let mut kernel = rig.kernel_queue(NODE_COMPUTE)?;
    let (gate, fence) = (private(rig, 0)?, private(rig, 0)?);
    queue_wait(rig, &kernel, &gate, 1)?;
    rig.kernel_submit(&mut kernel, &[read(0)])?;
    queue_signal(rig, &kernel, &fence, 1)?;
    let update = |context, fence: &RawFence, operations: &[_]| {
        granted(rig.update(&rig.update_request(context, (fence.handle, 1), operations)), "an update")
    };
    update(kernel.context, &fence, &[tiles.map(0, 5)])?;
    queue_wait(rig, &kernel, &fence, 2)?;
    let last = rig.kernel_submit(&mut kernel, &[read(1)])?;
    ensure_eq!(fence.value.load(), 0, "value while the kernel queue is blocked");
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    wait_until("the kernel queue", || kernel.progress.load() >= last)?;
    let (gate, fence) = (private(rig, 0)?, private(rig, 0)?);
    let mut packets = rig.packet_queue(NODE_COPY)?;
    granted(rig.context_wait(packets.context, &[(gate.handle, 1)]), "the wait of the context")?;
    rig.packet_submit(&mut packets, &[read(2)])?;
    granted(rig.context_signal(packets.context, &[(fence.handle, 1)]), "the signal of the context")?;
    update(packets.context, &fence, &[tiles.map(0, 9)])?;
    granted(rig.context_wait(packets.context, &[(fence.handle, 2)]), "the wait for the update")?;
    let last = rig.packet_submit(&mut packets, &[read(3)])?;
    ensure_eq!(fence.value.load(), 0, "value while the context is blocked");
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    rig.packet_wait(&packets, last)?;
    let seen: Vec<u8> = (0..4).map(|slot| tiles.view.read(slot * PAGE, 1)[0]).collect();
    let (five, nine) = (byte(5) as u8, byte(9) as u8);
    ensure_eq!(seen, [0, five, five, nine], "what the work before and after each update read");
    Ok(())
}

fn destroyed(case: &Case) -> Result<(), Failure> {
    let tiles = Tiles::new(case)?;
    let rig = &tiles.rig;
    let fence = private(rig, 0)?;
    let packets = rig.packet_queue(NODE_COPY)?;
    let operations = [tiles.map(0, 5)];
    let request = rig.update_request(packets.context, (fence.handle, 1), &operations);
    granted(rig.update(&request), "an update that waits")?;
    std::thread::scope(|scope| {
        let context = packets.context;
        let destroyer = scope.spawn(move || case.on_thread(|| Ok(rig.destroy_packet_context(context))));
        for _ in 0..20 {
            ensure!(!destroyer.is_finished(), "the destruction did not wait for the update");
            std::thread::yield_now();
        }
        granted(rig.signal(&[fence.handle], &[1]), "what the update waits for")?;
        granted(joined(destroyer)?, "destroying the context")
    })?;
    ensure_eq!(fence.value.load(), 2, "value after the update");
    Ok(())
}

fn at_once(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let (gate, fence) = (tiles.rig.fence(0)?, tiles.rig.fence(3)?);
    let mut held = tiles.rig.queue(NODE_COMPUTE)?;
    let last = tiles.rig.submit(&mut held, &[gate.wait(1)])?;
    let mut request = tiles.rig.update_request(held.context, (fence.handle, 7), &[]);
    let operations = [tiles.map(0, 5)];
    (request.NumOperations, request.Operations) = (1, operations.as_ptr().cast_mut());
    request.Flags = D3DKMT_UPDATEGPUVIRTUALADDRESS_Flags::new().with_DoNotWait(true);
    granted(tiles.rig.update(&request), "the update")?;
    granted(tiles.rig.wait(&[fence.handle], &[8], false), "the wait for the update")?;
    ensure_eq!(fence.value.load(), 8, "value after the update");
    ensure_eq!(tiles.read(2)?, [byte(5) as u8, 0], "what is mapped");
    ensure!(held.progress.load() < last, "the context was not blocked");
    granted(tiles.rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    wait_until("the context", || held.progress.load() >= last)
}

fn in_order(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let fence = tiles.rig.fence(0)?;
    let whole = map_operation(tiles.pages(0, 8), tiles.memory.handle, 0, 0);
    // Down by one and up by two, each over itself.
    let down = copy_operation(tiles.pages(0, 7), tiles.base + PAGE);
    let up = copy_operation(tiles.pages(3, 5), tiles.base + PAGE);
    let other = unmap_operation(tiles.page(5), ZERO);
    tiles.change(&fence, &[unmap_operation(tiles.pages(0, 8), ZERO), whole, down, tiles.map(7, 15)])?;
    let numbers = |pages: &[u64]| pages.iter().map(|page| byte(*page) as u8).collect::<Vec<_>>();
    ensure_eq!(tiles.read(8)?, numbers(&[1, 2, 3, 4, 5, 6, 7, 15]), "pages after a copy to lower addresses");
    tiles.change(&fence, &[up])?;
    ensure_eq!(tiles.read(8)?, numbers(&[1, 2, 3, 2, 3, 4, 5, 6]), "pages after a copy to higher addresses");
    // Between two regions, and what shows zeros is copied as that.
    let far = tiles.rig.reserve(REGION, true)?;
    tiles.change(&fence, &[other])?;
    let request = [copy_operation((far, 8 * PAGE), tiles.base)];
    tiles.change(&fence, &request)?;
    tiles.change(&fence, &[unmap_operation(tiles.pages(0, 8), ZERO)])?;
    ensure_eq!(tiles.read(8)?, [0; 8], "the source after it was unmapped");
    tiles.base = far;
    let mut expected = numbers(&[1, 2, 3, 2, 3, 4, 5, 6]);
    expected[5] = 0;
    ensure_eq!(tiles.read(8)?, expected, "the copy in another region");
    Ok(())
}

fn repeated_part(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let fence = tiles.rig.fence(0)?;
    tiles.change(&fence, &[map_operation(tiles.pages(1, 6), tiles.memory.handle, 4 * PAGE, 2 * PAGE)])?;
    let (four, five) = (byte(4) as u8, byte(5) as u8);
    ensure_eq!(tiles.read(8)?, [0, four, five, four, five, four, five, 0], "pages");
    // A write to one is a write to all.
    let written = fill(tiles.base + 3 * PAGE, PAGE, 0x7777_7777);
    tiles.rig.execute(&mut tiles.reader, &[written])?;
    ensure_eq!(tiles.read(8)?, [0, 0x77, five, 0x77, five, 0x77, five, 0], "pages after a write to one of them");
    Ok(())
}

/// An access of another device of the process that must fault.
fn faults(tiles: &Tiles, address: u64, write: bool) -> Result<(), Failure> {
    let guilty = Rig::on_adapter(tiles.rig.kmt, tiles.rig.adapter)?;
    let mut queue = guilty.queue(NODE_COPY)?;
    let packet = if write { fill(address, 8, 0) } else { copy(tiles.seen.address, address, 8) };
    guilty.submit_doomed(&mut queue, &[packet])?;
    let lost = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
    ensure_eq!(wait_for_error(guilty.kmt, guilty.device)?, lost, "an access to {address:#x}");
    let at = guilty.kmt.page_fault_state(guilty.device)?.FaultedVirtualAddress;
    ensure_eq!(at & !(PAGE - 1), address, "where it faulted");
    granted(guilty.destroy(), "destroying a device that faulted")
}

fn unmapped(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let fence = tiles.rig.fence(0)?;
    let whole = map_operation(tiles.pages(0, 4), tiles.memory.handle, 0, 0);
    tiles.change(&fence, &[whole])?;
    tiles.change(&fence, &[unmap_operation(tiles.page(1), ZERO), unmap_operation(tiles.page(2), NO_ACCESS)])?;
    ensure_eq!(tiles.read(2)?, [byte(0) as u8, 0], "pages before the hole");
    faults(&tiles, tiles.base + 2 * PAGE, false)?;
    tiles.change(&fence, &[tiles.map(1, 8), tiles.map(2, 9)])?;
    let expected = [0, 8, 9, 3].map(|page| byte(page) as u8);
    ensure_eq!(tiles.read(4)?, expected, "pages after they were mapped again");
    Ok(())
}

fn protection(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let fence = tiles.rig.fence(0)?;
    let read_only = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
    let handle = tiles.memory.handle;
    let changes = [
        protect_operation(tiles.page(0), handle, PAGE, read_only),
        copy_operation(tiles.page(1), tiles.base),
        protect_operation(tiles.page(2), handle, 2 * PAGE, read_only.with_Write(true)),
    ];
    tiles.change(&fence, &changes)?;
    let written = fill(tiles.base + 2 * PAGE, PAGE, 0x5555_5555);
    tiles.rig.execute(&mut tiles.reader, &[written])?;
    faults(&tiles, tiles.base, true)?;
    faults(&tiles, tiles.base + PAGE, true)?;
    let one = byte(1) as u8;
    ensure_eq!(tiles.read(4)?, [one, one, 0x55, 0], "pages");
    Ok(())
}

fn not_resident(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let fence = tiles.rig.fence(0)?;
    let handle = tiles.rig.create(PAGE, Placement::Vram);
    let handle = handle.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
    tiles.change(&fence, &[map_operation(tiles.page(0), handle, 0, 0)])?;
    tiles.rig.make_resident(handle)?;
    let written = fill(tiles.base, PAGE, 0x4242_4242);
    tiles.rig.execute(&mut tiles.reader, &[written])?;
    ensure_eq!(tiles.read(2)?, [0x42, 0], "pages");
    Ok(())
}

type Request = D3DKMT_UPDATEGPUVIRTUALADDRESS;
type Bad = (&'static str, &'static [NTSTATUS], Box<dyn Fn(&mut Request)>);

/// Requests that are wrong in one thing each, but for their operations.
fn wrong_requests(tiles: &Tiles, progress: D3DKMT_HANDLE, silent: D3DKMT_HANDLE) -> Vec<Bad> {
    fn bad(what: &'static str, statuses: &'static [NTSTATUS], change: impl Fn(&mut Request) + 'static) -> Bad {
        (what, statuses, Box::new(change))
    }
    let (device, allocation, paging) = (tiles.rig.device, tiles.memory.handle, tiles.rig.paging_queue);
    let other = Rig::on_adapter(tiles.rig.kmt, tiles.rig.adapter).map_or(0, |rig| rig.device);
    vec![
        bad("no device", BAD_HANDLE, |request| request.hDevice = 0),
        bad("an allocation for the device", WRONG_KIND, move |request| request.hDevice = allocation),
        bad("another device than the context's", BAD_ARGUMENT, move |request| request.hDevice = other),
        bad("no context", BAD_HANDLE, |request| request.hContext = 0),
        bad("a paging queue for the context", WRONG_KIND, move |request| request.hContext = paging),
        bad("no fence", BAD_HANDLE, |request| request.hFenceObject = 0),
        bad("a device for the fence", WRONG_KIND, move |request| request.hFenceObject = device),
        bad("a fence that belongs to a queue", BAD_ARGUMENT, move |request| request.hFenceObject = progress),
        bad("a fence that must not be signalled", &[STATUS_ACCESS_DENIED], move |request| {
            request.hFenceObject = silent
        }),
        bad("a value without a next one", BAD_ARGUMENT, |request| request.FenceValue = u64::MAX),
        bad("no operations", BAD_ARGUMENT, |request| request.NumOperations = 0),
        bad("operations nowhere", &[STATUS_INVALID_PARAMETER, STATUS_ACCESS_VIOLATION], |request| {
            request.Operations = std::ptr::null_mut();
        }),
        bad("operations that cannot be read", &[STATUS_ACCESS_VIOLATION], |request| {
            request.Operations = std::ptr::without_provenance_mut(8);
        }),
        bad("too many operations", BAD_ARGUMENT, |request| request.NumOperations = u32::MAX),
        bad("a reserved number", BAD_ARGUMENT, |request| request.Reserved0 = 1),
        bad("another reserved number", BAD_ARGUMENT, |request| request.Reserved1 = 1),
        bad("an unknown flag", BAD_ARGUMENT, |request| {
            request.Flags = D3DKMT_UPDATEGPUVIRTUALADDRESS_Flags::from_bits(2);
        }),
    ]
}

/// Operations that are wrong in one thing each.
fn wrong_operations(
    tiles: &Tiles,
    foreign: D3DKMT_HANDLE,
) -> Result<Vec<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION>, Failure> {
    let (base, handle) = (tiles.base, tiles.memory.handle);
    let (plain, other) = (tiles.rig.reserve(REGION, false)?, tiles.rig.reserve(REGION, true)?);
    let map = |to, offset, part| map_operation(to, handle, offset, part);
    let protect = |protection| protect_operation((base, PAGE), handle, 0, protection);
    let none = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
    let mut unknown = map((base, PAGE), 0, 0);
    unknown.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE(4);
    Ok(vec![
        unknown,
        map((base + 1, PAGE), 0, 0),
        map((base, PAGE + 1), 0, 0),
        map((base, 0), 0, 0),
        map((base, !(PAGE - 1)), 0, 0),
        map((base + REGION, PAGE), 0, 0),
        map((base - PAGE, 2 * PAGE), 0, 0),
        map((base, REGION + PAGE), 0, 0),
        map((plain, PAGE), 0, 0),
        map((tiles.memory.address, PAGE), 0, 0),
        map((0, PAGE), 0, 0),
        map((base, PAGE), 1, 0),
        map((base, PAGE), REGION, 0),
        map((base, PAGE), !(PAGE - 1), 0),
        map((base, 2 * PAGE), REGION - PAGE, 0),
        map((base, 2 * PAGE), 0, 1),
        map((base, 3 * PAGE), 0, 2 * PAGE),
        map((base, PAGE), 0, 2 * PAGE),
        map_operation((base, PAGE), 0, 0, 0),
        map_operation((base, PAGE), foreign, 0, 0),
        map_operation((base, PAGE), tiles.rig.device, 0, 0),
        protect(ZERO),
        protect(NO_ACCESS),
        protect(none.with_SystemUseOnly(true)),
        unmap_operation((base, PAGE), none),
        unmap_operation((base, PAGE), none.with_Write(true)),
        unmap_operation((base, PAGE), ZERO.with_NoAccess(true)),
        unmap_operation((base + 1, PAGE), ZERO),
        copy_operation((base, PAGE), base + 1),
        copy_operation((base, PAGE), plain),
        copy_operation((base, PAGE), tiles.memory.address),
        copy_operation((base, PAGE), !(PAGE - 1)),
        copy_operation((base, 2 * PAGE), other + REGION - PAGE),
        copy_operation((other, PAGE), base),
    ])
}

fn bad_requests(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let stranger = Rig::on_adapter(tiles.rig.kmt, tiles.rig.adapter)?;
    let foreign = stranger.memory(PAGE, Placement::System)?.handle;
    let fence = tiles.rig.fence(0)?;
    let no_signal = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_NoSignal(true);
    let silent = tiles.rig.monitored_fence(0, no_signal)?.handle;
    tiles.change(&fence, &[tiles.map(0, 3)])?;
    let context = tiles.reader.context;
    // A good operation first, which must not be made either.
    let good = tiles.map(0, 5);
    for (what, statuses, change) in wrong_requests(&tiles, tiles.reader.progress_fence, silent) {
        let operations = [good];
        let mut request = tiles.rig.update_request(context, (fence.handle, 1), &operations);
        change(&mut request);
        refused(tiles.rig.update(&request), statuses, what)?;
    }
    for (number, operation) in wrong_operations(&tiles, foreign)?.into_iter().enumerate() {
        let operations = [good, operation];
        let request = tiles.rig.update_request(context, (fence.handle, 1), &operations);
        refused(tiles.rig.update(&request), WRONG_KIND, &format!("operation {number}"))?;
    }
    ensure_eq!(fence.value.load(), 1, "value of the fence");
    ensure_eq!(tiles.read(2)?, [byte(3) as u8, 0], "pages");
    refused(tiles.rig.update_nothing(), BAD_ARGUMENT, "no request at all")?;
    tiles.change(&fence, &[good])?;
    ensure_eq!(tiles.read(2)?, [byte(5) as u8, 0], "pages after a good request");
    Ok(())
}

fn many_block(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let fence = tiles.rig.fence(0)?;
    let (rig, context) = (&tiles.rig, tiles.reader.context);
    let many: Vec<_> = (0..129).map(|number| tiles.map(number % 2, number % 16)).collect();
    let (few, last) = (&many[..128], [tiles.map(2, 9)]);
    granted(rig.update(&rig.update_request(context, (fence.handle, 1), few)), "128 operations")?;
    // With as many in the queue another one is taken, and with one more none.
    granted(rig.update(&rig.update_request(context, (fence.handle, 3), &many[128..])), "one more operation")?;
    let (entered, returned) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            case.on_thread(|| {
                entered.store(true, Ordering::SeqCst);
                let status = rig.update(&rig.update_request(context, (fence.handle, 5), &last));
                returned.store(true, Ordering::SeqCst);
                Ok(status)
            })
        });
        wait_until("the caller", || entered.load(Ordering::SeqCst))?;
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            ensure!(!returned.load(Ordering::SeqCst), "a caller was not blocked by 129 operations");
        }
        granted(rig.signal(&[fence.handle], &[1]), "the signal for the first")?;
        let status = blocked.join().map_err(|_| Failure::new("the blocked thread panicked"))??;
        granted(status, "the blocked request")
    })?;
    for value in [2, 4] {
        granted(rig.wait(&[fence.handle], &[value], false), "the wait for an update")?;
        granted(rig.signal(&[fence.handle], &[value + 1]), "the signal for the next")?;
    }
    granted(rig.wait(&[fence.handle], &[6], false), "the wait for the last update")?;
    // Of the 129 the last two on each page count.
    let expected = [128 % 16, 127 % 16, 9].map(|page| byte(page) as u8);
    ensure_eq!(tiles.read(3)?, expected, "pages");
    Ok(())
}

fn released(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let (rig, doomed) = (&tiles.rig, Rig::on_adapter(tiles.rig.kmt, tiles.rig.adapter)?);
    let fence = rig.fence(0)?;
    let context = doomed.packet_context(NODE_COMPUTE);
    let context = context.map_err(|status| Failure::new(format!("a context: {status}")))?;
    let many: Vec<_> = (0..129).map(|_| unmap_operation(tiles.page(0), NO_ACCESS)).collect();
    granted(doomed.update(&doomed.update_request(context, (fence.handle, 1), &many)), "129 operations")?;
    let request = || Ok(doomed.update(&doomed.update_request(context, (fence.handle, 1), &many[..1])));
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| case.on_thread(request));
        granted(doomed.destroy(), "destroying the device")?;
        let status = blocked.join().map_err(|_| Failure::new("the blocked thread panicked"))??;
        refused(status, &[BAD_HANDLE, DEVICE_LOST].concat(), "a request on a context that is gone")
    })?;
    granted(rig.signal(&[fence.handle], &[1]), "the signal that nobody waits for any more")?;
    ensure_eq!(tiles.read(1)?, [0], "what a dropped update would have hidden");
    ensure_eq!(fence.value.load(), 1, "value of the fence");
    Ok(())
}

fn late(case: &Case) -> Result<(), Failure> {
    let mut tiles = Tiles::new(case)?;
    let fence = tiles.rig.fence(0)?;
    let (rig, context) = (&tiles.rig, tiles.reader.context);
    let mine = rig.reserve(REGION, true)?;
    let doomed = rig.memory(PAGE, Placement::System)?;
    let of_freed = [map_operation((mine, PAGE), tiles.memory.handle, 0, 0)];
    granted(rig.update(&rig.update_request(context, (fence.handle, 1), &of_freed)), "an update")?;
    let of_doomed = [tiles.map(1, 4), map_operation(tiles.page(0), doomed.handle, 0, 0)];
    granted(rig.update(&rig.update_request(context, (fence.handle, 2), &of_doomed)), "another update")?;
    granted(rig.free(mine, REGION), "freeing the range")?;
    let synchronous = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_SynchronousDestroy(true);
    granted(rig.destroy_allocation_with(doomed.handle, synchronous), "destroying the allocation")?;
    let again = rig.reserve(REGION, true)?;
    granted(rig.signal(&[fence.handle], &[1]), "the signal")?;
    granted(rig.wait(&[fence.handle], &[3], false), "the wait for both updates")?;
    ensure_eq!(fence.value.load(), 3, "value of the fence");
    faults(&tiles, tiles.base, false)?;
    let base = std::mem::replace(&mut tiles.base, again);
    ensure_eq!(tiles.read(1)?, [0], "the range that somebody else got");
    tiles.base = base + PAGE;
    ensure_eq!(tiles.read(1)?, [byte(4) as u8], "the page beside the one of the destroyed allocation");
    Ok(())
}
