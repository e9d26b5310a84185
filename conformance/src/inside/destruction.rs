//! Destruction of allocations that queued work may use.

use std::cell::RefCell;

use campanile_hw::packet::Packet;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::rig::{Memory, RawFence, RawQueue, Rig, copy, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Memory", needs HardwareScheduling, behind "it counts handles, or chooses the hardware";
    "Destruction.IsDeferredUntilQueuedWorkIsDone" needs UserModeSubmission on Boot::With(small_vram), "allocation-usage-tracking":
        "Destroying an allocation returns at once and leaves it to the work that was queued before; its memory is used again only afterwards."
        holds [AllocationUsage 2, AllocationUsage 3]
        => deferred;
    "Destruction.AssumeNotInUseFreesAtOnce" needs UserModeSubmission on Boot::With(small_vram), "allocation-usage-tracking":
        "With AssumeNotInUse the memory of a destroyed allocation is free at once, though work is queued; without it, it is not."
        holds [AllocationUsage 4]
        => assume_not_in_use;
    "Destruction.SynchronousDestroyReturnsWhenItIsGone" needs UserModeSubmission on Boot::Fresh, "d3dkmtdestroyallocation2":
        "With SynchronousDestroy the call returns when the allocation is gone, which is after the work that was queued before."
        => synchronous;
    "Destruction.SynchronousDestroyGivesTheMemoryBack" on Boot::With(small_vram), "d3dddicb_destroyallocation2flags":
        "With SynchronousDestroy the call waits until the memory of the allocation is reclaimed: the segment then has as much free as before the allocation was made."
        => given_back;
    "Destruction.ManyAreDeferredAndAllAreFreed" needs UserModeSubmission on Boot::With(small_vram), "allocation-usage-tracking":
        "Any number of allocations can be destroyed while work is blocked, and all of their memory comes back when it is done."
        holds [AllocationUsage 2]
        => many;
    "Destruction.WorkQueuedLaterKeepsNothing" needs UserModeSubmission on Boot::With(small_vram), "allocation-usage-tracking":
        "Only work that was queued before the destruction defers it: work that is blocked later does not."
        holds [AllocationUsage 3]
        => queued_later;
    "Destruction.PacketsQueuedLaterKeepNothing" needs NativeFence on Boot::With(small_vram), "allocation-usage-tracking":
        "As little do packets of a context that were submitted later, and those that are done."
        holds [AllocationUsage 3]
        => queued_later_in_packets;
    "Destruction.EveryKindOfWorkDefersIt" needs UserModeSubmission on Boot::With(small_vram), "allocation-usage-tracking":
        "Packets that wait on the hardware, and buffers of contexts and kernel-mode queues that wait in the system for a fence, keep what they use."
        holds [AllocationUsage 2]
        => every_kind;
    "Destruction.AddressOfALockEndsAtOnce" needs UserModeSubmission on Boot::With(small_vram), "allocation-usage-tracking":
        "The address of a locked allocation shows nothing of it once it is destroyed, while queued work still uses it."
        holds [AllocationUsage 2]
        => address_ends;
}

/// More than half of the VRAM of [`small_vram`].
const LARGE: u64 = 18 << 20;

fn small_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.vram_size = 32 << 20;
    options.variant.vram_window = 32 << 20;
    options
}

/// A queue that is blocked by a fence.
struct Held {
    queue: RawQueue,
    gate: RawFence,
}

impl Held {
    fn new(rig: &Rig) -> Result<Self, Failure> {
        Ok(Self { queue: rig.queue(NODE_COPY)?, gate: rig.fence(0)? })
    }

    fn release(&self, rig: &Rig) -> Result<(), Failure> {
        granted(rig.signal(&[self.gate.handle], &[1]), "signal of the gate")
    }

    fn finish(&self, last: u64) -> Result<(), Failure> {
        wait_until("the work that was blocked", || self.queue.progress.load() >= last)
    }
}

fn large(rig: &Rig) -> Result<Memory, Failure> {
    rig.memory(LARGE, Placement::VramVisible)
}

fn deferred(case: &mut Case<'_>) -> Result<(), Failure> {
    const PART: u64 = 64 << 10;
    let rig = case.rig()?;
    let mut held = Held::new(&rig)?;
    let (source, target) = (large(&rig)?, rig.memory(PART, Placement::System)?);
    let bytes: Vec<u8> = (0..PART).map(|index| (index * 5 + index / 256) as u8).collect();
    rig.view(source)?.write(LARGE - PART, &bytes);
    granted(rig.unlock(source.handle), "unlock")?;
    let packets = [held.gate.wait(1), copy(target.address, source.address + LARGE - PART, PART as u32)];
    let last = rig.submit(&mut held.queue, &packets)?;
    granted(rig.destroy_allocation(source.handle), "destroy")?;
    // Whoever gets the memory of the destroyed one too early overwrites it here.
    let mut other = rig.queue(NODE_COMPUTE)?;
    for _ in 0..8 {
        let memory = rig.memory(1 << 20, Placement::VramVisible)?;
        rig.execute(&mut other, &[fill(memory.address, 1 << 20, u32::MAX)])?;
    }
    held.release(&rig)?;
    held.finish(last)?;
    ensure!(rig.view(target)?.read(0, PART) == bytes, "the work found other bytes in the destroyed allocation");
    large(&rig).map(drop)
}

fn assume_not_in_use(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut held = Held::new(&rig)?;
    let first = large(&rig)?;
    let last = rig.submit(&mut held.queue, &[held.gate.wait(1)])?;
    let flags = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_AssumeNotInUse(true);
    granted(rig.destroy_allocation_with(first.handle, flags), "destroy with AssumeNotInUse")?;
    let second = large(&rig)?;
    granted(rig.destroy_allocation(second.handle), "destroy")?;
    let third = rig.create(LARGE, Placement::VramVisible);
    let third = third.map_err(|status| Failure::new(format!("create: {status}")))?;
    ensure!(rig.make_resident(third).is_err(), "the memory was given away while work was queued");
    held.release(&rig)?;
    held.finish(last)?;
    rig.make_resident(third)
}

fn synchronous(case: &mut Case<'_>) -> Result<(), Failure> {
    // The call gives up after two seconds, which a loaded machine can let pass before this side has opened the gate.
    for _ in 0..5 {
        if synchronous_once(case)? == STATUS_SUCCESS {
            return Ok(());
        }
    }
    Err(Failure::new("the call gave up again and again although the work was let go"))
}

fn given_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let free = || {
        let mut arguments = D3DKMT_QUERYSTATISTICS::zeroed();
        arguments.Type = D3DKMT_QUERYSTATISTICS_TYPE::D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE;
        arguments.AdapterLuid = case.luid();
        arguments.u.QuerySegmentGroupUsage = D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE {
            PhysicalAdapterIndex: 0,
            SegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL.0 as u16,
        };
        granted(rig.kmt.call(rig.kmt.further().D3DKMTQueryStatistics, &mut arguments), "D3DKMTQueryStatistics")?;
        // SAFETY: every arm of the union is plain numbers.
        Ok::<u64, Failure>(unsafe { arguments.QueryResult.SegmentGroupUsageInformation.FreeBytes })
    };
    // What the first paging work needs stays for the next.
    let flags = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_SynchronousDestroy(true);
    granted(rig.destroy_allocation_with(rig.memory(LARGE, Placement::Vram)?.handle, flags), "the first destruction")?;
    let before = free()?;
    let memory = rig.memory(LARGE, Placement::Vram)?;
    // Page tables lie in the same segment.
    let during = free()?;
    ensure!(before >= during + LARGE, "an allocation of {LARGE} bytes took {} bytes", before - during);
    granted(rig.destroy_allocation_with(memory.handle, flags), "the destruction")?;
    ensure_eq!(free()?, before, "bytes that are free afterwards");
    Ok(())
}

/// What a synchronous destruction under blocked work returned: STATUS_SUCCESS after the work, or STATUS_TIMEOUT.
fn synchronous_once(case: &Case<'_>) -> Result<NTSTATUS, Failure> {
    let rig = case.rig()?;
    let mut held = Held::new(&rig)?;
    let memory = rig.memory(64 << 10, Placement::System)?;
    let last = rig.submit(&mut held.queue, &[held.gate.wait(1), fill(memory.address, 4096, 1)])?;
    let (process, progress) = (&case.process, &held.queue.progress);
    let before = process.handle_count();
    let (status, done) = std::thread::scope(|scope| {
        let rig = &rig;
        let destroyer = scope.spawn(move || {
            on_thread(process, || {
                let flags = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_SynchronousDestroy(true);
                let status = rig.destroy_allocation_with(memory.handle, flags);
                Ok((status, progress.load() >= last))
            })
        });
        // The call takes the handle away before it waits; one that does not wait has some time slices to return.
        let begun = wait_until("the beginning of the destruction", || process.handle_count() < before);
        for _ in 0..5 {
            std::thread::yield_now();
        }
        held.release(rig)?;
        begun?;
        held.finish(last)?;
        destroyer.join().map_err(|_| Failure::new("the thread that destroys panicked"))?
    })?;
    ensure!([STATUS_SUCCESS, STATUS_TIMEOUT].contains(&status), "synchronous destruction: {status}");
    ensure!(status != STATUS_SUCCESS || done, "the call returned while work that was queued before was blocked");
    Ok(status)
}

fn many(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 64 << 10;
    let rig = case.rig()?;
    for round in 0..2 {
        let mut held = Held::new(&rig)?;
        let all: Vec<Memory> = (0..LARGE / SIZE)
            .map(|_| rig.memory(SIZE, Placement::VramVisible))
            .collect::<Result<_, Failure>>()
            .map_err(|failure| Failure::new(format!("round {round}: {failure}")))?;
        let last = rig.submit(&mut held.queue, &[held.gate.wait(1)])?;
        for memory in &all {
            granted(rig.destroy_allocation(memory.handle), "destroy")?;
        }
        held.release(&rig)?;
        held.finish(last)?;
    }
    large(&rig).map(drop)
}

fn queued_later(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut held = Held::new(&rig)?;
    let memory = large(&rig)?;
    rig.execute(&mut held.queue, &[fill(memory.address, 4096, 1)])?;
    granted(rig.destroy_allocation(memory.handle), "destroy")?;
    let last = rig.submit(&mut held.queue, &[held.gate.wait(1)])?;
    large(&rig)?;
    held.release(&rig)?;
    held.finish(last)
}

fn queued_later_in_packets(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut packets = rig.packet_queue(NODE_COMPUTE)?;
    let gate = rig.fence(0)?;
    let memory = large(&rig)?;
    rig.packet_execute(&mut packets, &[fill(memory.address, 4096, 1)])?;
    granted(rig.destroy_allocation(memory.handle), "destroy")?;
    let last = rig.packet_submit(&mut packets, &[gate.wait(1)])?;
    large(&rig)?;
    granted(rig.signal(&[gate.handle], &[1]), "signal of the gate")?;
    rig.packet_wait(&packets, last)
}

/// Destroys a source that work copies from when a gate opens, and looks at what was copied.
fn copies_to_the_end(
    rig: &Rig,
    what: &str,
    submit: impl FnOnce(&RawFence, Packet) -> Result<(), Failure>,
    done: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    const SIZE: u64 = 64 << 10;
    let gate = rig.fence(0)?;
    let (source, target) = (rig.memory(SIZE, Placement::VramVisible)?, rig.memory(SIZE, Placement::System)?);
    rig.view(source)?.fill(0x5a);
    granted(rig.unlock(source.handle), "unlock")?;
    submit(&gate, copy(target.address, source.address, SIZE as u32))?;
    granted(rig.destroy_allocation(source.handle), "destroy")?;
    // Whoever gets its memory too early overwrites it here.
    let mut other = rig.queue(NODE_COPY)?;
    for _ in 0..4 {
        let memory = rig.memory(SIZE, Placement::VramVisible)?;
        rig.execute(&mut other, &[fill(memory.address, SIZE, u32::MAX)])?;
    }
    granted(rig.signal(&[gate.handle], &[1]), "signal of the gate")?;
    done()?;
    let seen = rig.view(target)?.read(0, SIZE);
    ensure!(seen.iter().all(|byte| *byte == 0x5a), "{what} found other bytes in the destroyed allocation");
    Ok(())
}

fn every_kind(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let packets = RefCell::new(rig.packet_queue(NODE_COMPUTE)?);
    let context = packets.borrow().context;
    let on_hardware = |gate: &RawFence, work| rig.packet_submit(&mut packets.borrow_mut(), &[gate.wait(1), work]);
    let done = |value| rig.packet_wait(&packets.borrow(), value);
    copies_to_the_end(&rig, "a packet on the hardware", |gate, work| on_hardware(gate, work).map(drop), || done(1))?;
    let held = |gate: &RawFence, work| {
        granted(rig.context_wait(context, &[(gate.handle, 1)]), "a wait of the context")?;
        rig.packet_submit(&mut packets.borrow_mut(), &[work]).map(drop)
    };
    copies_to_the_end(&rig, "a packet that is blocked", held, || done(2))?;
    let queue = RefCell::new(rig.kernel_queue(NODE_COMPUTE)?);
    let held = |gate: &RawFence, work| {
        granted(rig.queue_wait(queue.borrow().queue, &[(gate.handle, 1)]), "a wait of the queue")?;
        rig.kernel_submit(&mut queue.borrow_mut(), &[work]).map(drop)
    };
    let done = || wait_until("the blocked buffer", || queue.borrow().progress.load() >= 1);
    copies_to_the_end(&rig, "a buffer that is blocked", held, done)
}

/// What this process has mapped at an address: the start of the file's part, and the file.
fn mapped_at(address: usize) -> Result<Option<(u64, String)>, Failure> {
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split_whitespace();
        let number = |text: Option<&str>| text.and_then(|text| u64::from_str_radix(text, 16).ok());
        let (from, to) = words.next().and_then(|range| range.split_once('-')).unwrap_or_default();
        let (Some(from), Some(to)) = (number(Some(from)), number(Some(to))) else { continue };
        if !(from..to).contains(&(address as u64)) {
            continue;
        }
        let offset = number(words.nth(1)).unwrap_or_default() + (address as u64 - from);
        return Ok(Some((offset, words.collect::<Vec<_>>().join(" "))));
    }
    Ok(None)
}

fn address_ends(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for placement in [Placement::System, Placement::VramVisible] {
        let mut held = Held::new(&rig)?;
        let memory = rig.memory(64 << 10, placement)?;
        let address = rig.view(memory)?.start().addr();
        let shown = mapped_at(address)?;
        ensure!(shown.is_some(), "the locked allocation is mapped nowhere");
        let last = rig.submit(&mut held.queue, &[held.gate.wait(1), fill(memory.address, 4096, 1)])?;
        granted(rig.destroy_allocation(memory.handle), "destroy")?;
        // The memory is still the allocation's, so that nobody else has it there.
        ensure!(mapped_at(address)? != shown, "the address of the lock still shows the destroyed allocation");
        held.release(&rig)?;
        held.finish(last)?;
    }
    Ok(())
}
