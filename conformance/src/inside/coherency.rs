//! I/O coherency: who sees whose stores to system memory, on adapters that snoop the CPU's caches and on those that do not.

use crate::cases::coherency::{SIZE, all, gpu_reads, gpu_writes, invalidate};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;

use super::fence_log::{log_of, told};
use crate::rig::{RING_ENTRIES, copy, wait_until};
use crate::simulated::{Case, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;
use testbed::user::{Fence, Node, Queue, QueueOptions};

cases! { inside "Memory", behind "it chooses whether the GPU sees caches";
    "IoCoherency.CpuStoresReachTheGpuWhenInvalidated" needs UserModeSubmission on Boot::With(non_coherent), "allocation-usage-tracking":
        "Without I/O coherency what the CPU has stored reaches the GPU when the range is invalidated after the store, and not before."
        holds [AllocationUsage 29]
        => cpu_stores;
    "IoCoherency.GpuStoresReachTheCpuWhenInvalidated" needs UserModeSubmission on Boot::With(non_coherent), "allocation-usage-tracking":
        "Without I/O coherency what the GPU has stored reaches the CPU when the range is invalidated after the store, though the CPU had never read it before."
        holds [AllocationUsage 29, AllocationUsage 31]
        => gpu_stores;
    "IoCoherency.RangeIsWrittenBackByLines" needs UserModeSubmission on Boot::With(non_coherent), "allocation-usage-tracking":
        "InvalidateCache concerns the cache lines of the range, and no others."
        holds [AllocationUsage 29]
        => by_lines;
    "IoCoherency.UncachedMemoryNeedsNoInvalidation" needs UserModeSubmission on Boot::With(non_coherent), "allocation-usage-tracking":
        "Memory that the CPU does not cache is shared with the GPU at once on every adapter."
        holds [AllocationUsage 30]
        => uncached;
    "IoCoherency.UnlockWritesBack" needs UserModeSubmission on Boot::With(non_coherent), "allocation-usage-tracking":
        "Stores are not lost with the lock they were made through."
        holds [AllocationUsage 29]
        => unlock_writes_back;
    "IoCoherency.UserModeDriverInvalidates" on Boot::With(non_coherent), "allocation-usage-tracking":
        "The user-mode driver invalidates where the adapter needs it: its copies into and out of buffers are right in every round."
        holds [AllocationUsage 31]
        => by_the_driver;
    "IoCoherency.FenceValuesNeedNoInvalidation" on Boot::With(non_coherent), "context-monitoring":
        "Without I/O coherency the value of a monitored fence is still seen as it is: by the processor when the GPU has signalled, by the GPU when the processor has."
        holds [AllocationUsage 30, ContextMonitoring 5, ContextMonitoring 6]
        => fence_values;
    "IoCoherency.FenceLogsNeedNoInvalidation" needs UserModeSubmission on Boot::With(non_coherent), "native-gpu-fence-objects":
        "Without I/O coherency the system finds in the log of a queue every wait and signal that the GPU has written there, in order and more of them than the log has entries."
        holds [AllocationUsage 30, NativeFence 56]
        => fence_logs;
    "IoCoherency.PagingBuffersNeedNoInvalidation" needs UserModeSubmission on Boot::With(non_coherent), "d3dkmddi-dxgkarg_buildpagingbuffer":
        "Without I/O coherency the GPU executes what the driver has written to a paging buffer, however often the buffers are used: contents that leave VRAM and come back are the same."
        holds [AllocationUsage 30]
        => paging_buffers;
    "IoCoherency.RingsAreUncachedOrWrittenBack" needs UserModeSubmission on Boot::With(non_coherent), "allocation-usage-tracking":
        "Without I/O coherency a ring, its control words and commands in cached memory are seen by the GPU when they are written back, and not before."
        holds [AllocationUsage 30]
        => cached_ring;
    "IoCoherency.EveryLeafSnoops" needs UserModeSubmission on Boot::With(cached_host), "allocation-usage-tracking":
        "A surface of cacheable system memory is mapped as coherent: on a host whose caches never write back, the GPU and the CPU see each other's stores to memory of either kind, rings and fence values, and what was paged."
        holds [AllocationUsage 28]
        => every_leaf;
}

/// A GPU that snoops where page tables say so, and a host whose caches hold all of its memory.
fn cached_host() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.cached_host = true;
    (options.variant.vram_size, options.variant.vram_window) = (64 << 20, 32 << 20);
    options
}

fn non_coherent() -> SystemOptions {
    with_gpu(|gpu| gpu.non_coherent = true)
}

fn cpu_stores(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    rig.plain_view(memory)?.fill(7);
    ensure!(all(&gpu_reads(&rig, memory)?, 0), "the machine has no cache that could be forgotten");
    granted(invalidate(&rig, memory.handle, 0, SIZE), "InvalidateCache")?;
    ensure!(all(&gpu_reads(&rig, memory)?, 7), "the GPU does not see what was written back");
    Ok(())
}

fn gpu_stores(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let view = rig.plain_view(memory)?;
    gpu_writes(&rig, memory, 0x0909_0909)?;
    ensure!(all(&view.read(0, SIZE), 0), "the machine has no cache that could hold old data");
    granted(invalidate(&rig, memory.handle, 0, SIZE), "InvalidateCache")?;
    ensure!(all(&view.read(0, SIZE), 9), "the CPU does not see the GPU's stores");
    Ok(())
}

fn by_lines(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    rig.plain_view(memory)?.fill(1);
    granted(invalidate(&rig, memory.handle, 4096 + 100, 1), "InvalidateCache")?;
    let seen = gpu_reads(&rig, memory)?;
    let written: Vec<u64> = (0..SIZE).filter(|at| seen[*at as usize] == 1).collect();
    ensure!(written.contains(&(4096 + 100)), "the byte that was named was not written back");
    // No line is longer than 256 bytes.
    ensure!(
        written.iter().all(|at| (4096 + 100 - 256..4096 + 100 + 256).contains(at)),
        "other lines were written back"
    );
    Ok(())
}

fn uncached(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::SystemUncached)?;
    let view = rig.plain_view(memory)?;
    view.fill(7);
    ensure!(all(&gpu_reads(&rig, memory)?, 7), "the GPU does not see the CPU's stores");
    gpu_writes(&rig, memory, 0x0909_0909)?;
    ensure!(all(&view.read(0, SIZE), 9), "the CPU does not see the GPU's stores");
    Ok(())
}

fn unlock_writes_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    rig.plain_view(memory)?.fill(7);
    granted(rig.unlock(memory.handle), "unlock")?;
    ensure!(all(&gpu_reads(&rig, memory)?, 7), "stores were lost with the lock");
    gpu_writes(&rig, memory, 0x0909_0909)?;
    ensure!(all(&rig.plain_view(memory)?.read(0, SIZE), 9), "a new lock shows old data");
    Ok(())
}

fn by_the_driver(case: &mut Case<'_>) -> Result<(), Failure> {
    const BYTES: usize = SIZE as usize;
    let device = case.device()?;
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default())?;
    let fence = Fence::new(&device, 0)?;
    let (source, target) =
        (device.create_buffer(SIZE, Placement::System)?, device.create_buffer(SIZE, Placement::System)?);
    let (from, to) = (source.map()?, target.map()?);
    for round in 1..=20u64 {
        let mut bytes: Vec<u8> =
            (0..BYTES).map(|index| (index as u64 * 3 + index as u64 / 256 + round) as u8).collect();
        // In pieces that share cache lines with their neighbours.
        for (piece, chunk) in bytes.chunks(1000).enumerate() {
            from.write(piece * 1000, chunk)?;
        }
        queue.submit(|commands| {
            commands.copy(target.gpu_address(), source.gpu_address(), SIZE)?;
            commands.signal(&fence, round)
        })?;
        fence.wait(round, None)?;
        // Written before anything is read: the rest of its cache line is what the GPU has just written.
        let patch = [round as u8; 10];
        to.write(133, &patch)?;
        bytes[133..143].copy_from_slice(&patch);
        let mut seen = vec![0; BYTES];
        to.read(0, &mut seen)?;
        ensure!(seen == bytes, "round {round}: the copy, with a piece written over it, differs from what was written");
    }
    Ok(())
}

fn cached_ring(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COPY).map_err(|status| Failure::new(format!("a context: {status}")))?;
    let mut queue = rig.queue_placed(context, RING_ENTRIES, Placement::System)?;
    granted(rig.connect(queue.doorbell), "connecting the doorbell")?;
    let fence = rig.fence(0)?;
    for round in 1..=3 {
        let value = queue.append(&[fence.signal(round)])?;
        // Whoever rings names the write pointer; commands and entry are still on their way.
        for memory in [queue.commands, queue.ring] {
            let seen = gpu_reads(&rig, memory)?;
            let view = rig.plain_view(memory)?;
            ensure!(
                seen != view.read(0, memory.size),
                "round {round}: the machine has no cache that could be forgotten"
            );
            granted(invalidate(&rig, memory.handle, 0, memory.size), "InvalidateCache")?;
            ensure!(gpu_reads(&rig, memory)? == view.read(0, memory.size), "round {round}: nothing was written back");
        }
        granted(invalidate(&rig, queue.control.handle, 0, queue.control.size), "InvalidateCache of the control words")?;
        rig.ring(&queue)?;
        wait_until("the work in cached memory", || queue.progress.load() == value)?;
        ensure_eq!(fence.value.load(), round, "value that the GPU signalled");
    }
    Ok(())
}

fn every_leaf(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for placement in [Placement::System, Placement::SystemUncached] {
        let memory = rig.memory(SIZE, placement)?;
        let view = rig.plain_view(memory)?;
        view.fill(7);
        ensure!(all(&gpu_reads(&rig, memory)?, 7), "the GPU does not see the CPU's stores to {placement:?}");
        gpu_writes(&rig, memory, 0x0909_0909)?;
        ensure!(all(&view.read(0, SIZE), 9), "the CPU does not see the GPU's stores to {placement:?}");
    }
    // The paging process maps coherently as well: what leaves VRAM is seen in system memory, and comes back.
    let moved = rig.memory(SIZE, Placement::VramLockable)?;
    gpu_writes(&rig, moved, 0x0303_0303)?;
    granted(rig.evict(moved.handle), "evict")?;
    let view = rig.plain_view(moved)?;
    ensure!(all(&view.read(0, SIZE), 3), "the CPU does not see what was paged out");
    view.fill(4);
    granted(rig.unlock(moved.handle), "unlock")?;
    rig.make_resident(moved.handle)?;
    ensure!(all(&gpu_reads(&rig, moved)?, 4), "the GPU does not see what was stored to memory that was paged out");
    fence_values(case)?;
    by_the_driver(case)
}

fn fence_logs(case: &mut Case<'_>) -> Result<(), Failure> {
    // More than a log of one page holds.
    const VALUES: u64 = 200;
    let rig = case.rig()?;
    let (mut queue, fence, gate) = (rig.queue(NODE_COPY)?, rig.fence(0)?, rig.fence(1)?);
    for value in 1..=VALUES {
        rig.execute(&mut queue, &[gate.wait(1), fence.signal(value)])?;
        let log = log_of(case, &queue)?;
        let seen = (told(&log.waits.entries), told(&log.signals.entries));
        ensure_eq!(seen, (vec![(gate.handle, 1)], vec![(fence.handle, value)]), "waits and signals that were logged");
    }
    Ok(())
}

fn paging_buffers(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    // Every buffer is used several times.
    for round in 1..=20 {
        gpu_writes(&rig, memory, round)?;
        granted(rig.evict(memory.handle), "evict")?;
        rig.make_resident(memory.handle)?;
        let seen = gpu_reads(&rig, memory)?;
        ensure!(
            seen.chunks(4).all(|word| word == round.to_le_bytes()),
            "round {round}: the contents changed on the way"
        );
    }
    Ok(())
}

fn fence_values(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.monitored_fence(0, Default::default())?;
    let memory = rig.memory(SIZE, Placement::SystemUncached)?;
    let view = rig.plain_view(memory)?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    for round in 0..10 {
        ensure_eq!(fence.value.load(), 2 * round, "value that the processor has read before");
        rig.packet_execute(&mut queue, &[fence.signal(2 * round + 1)])?;
        ensure_eq!(fence.value.load(), 2 * round + 1, "value after the GPU's signal");
        granted(rig.signal(&[fence.handle], &[2 * round + 2]), "signal")?;
        rig.packet_execute(&mut queue, &[copy(memory.address, fence.current, 8)])?;
        ensure!(view.read(0, 8) == (2 * round + 2).to_le_bytes(), "the GPU reads {:?}", view.read(0, 8));
    }
    Ok(())
}
