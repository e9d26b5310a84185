//! I/O coherency: who sees whose stores to system memory, on adapters that snoop the CPU's caches and on those that do not.

use campanile_hlk::cases::coherency::{SIZE, all, gpu_reads, gpu_writes, invalidate};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;

use super::case::{Boot, Case, Failure, granted};
use super::rig::copy;
use crate::setup::SystemOptions;
use crate::user::{Fence, Node, Queue, QueueOptions};

cases! { "Memory", behind "it chooses whether the GPU sees caches";
    "IoCoherency.CpuStoresReachTheGpuWhenInvalidated" on Boot::With(non_coherent), "allocation-usage-tracking":
        "Without I/O coherency what the CPU has stored reaches the GPU when the range is invalidated after the store, and not before."
        => cpu_stores;
    "IoCoherency.GpuStoresReachTheCpuWhenInvalidated" on Boot::With(non_coherent), "allocation-usage-tracking":
        "Without I/O coherency what the GPU has stored reaches the CPU when the range is invalidated after the store, though the CPU had never read it before."
        => gpu_stores;
    "IoCoherency.RangeIsWrittenBackByLines" on Boot::With(non_coherent), "allocation-usage-tracking":
        "InvalidateCache concerns the cache lines of the range, and no others."
        => by_lines;
    "IoCoherency.UncachedMemoryNeedsNoInvalidation" on Boot::With(non_coherent), "allocation-usage-tracking":
        "Memory that the CPU does not cache is shared with the GPU at once on every adapter."
        => uncached;
    "IoCoherency.UnlockWritesBack" on Boot::With(non_coherent), "allocation-usage-tracking":
        "Stores are not lost with the lock they were made through."
        => unlock_writes_back;
    "IoCoherency.UserModeDriverInvalidates" on Boot::With(non_coherent), "allocation-usage-tracking":
        "The user-mode driver invalidates where the adapter needs it: its copies into and out of buffers are right in every round."
        => by_the_driver;
    "IoCoherency.FenceValuesNeedNoInvalidation" on Boot::With(non_coherent), "context-monitoring":
        "Without I/O coherency the value of a monitored fence is still seen as it is: by the processor when the GPU has signalled, by the GPU when the processor has."
        => fence_values;
}

fn non_coherent() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.non_coherent = true;
    options
}

fn cpu_stores(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    rig.view(memory)?.fill(7);
    ensure!(all(&gpu_reads(&rig, memory)?, 0), "the machine has no cache that could be forgotten");
    granted(invalidate(&rig, memory.handle, 0, SIZE), "InvalidateCache")?;
    ensure!(all(&gpu_reads(&rig, memory)?, 7), "the GPU does not see what was written back");
    Ok(())
}

fn gpu_stores(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let view = rig.view(memory)?;
    gpu_writes(&rig, memory, 0x0909_0909)?;
    ensure!(all(&view.read(0, SIZE), 0), "the machine has no cache that could hold old data");
    granted(invalidate(&rig, memory.handle, 0, SIZE), "InvalidateCache")?;
    ensure!(all(&view.read(0, SIZE), 9), "the CPU does not see the GPU's stores");
    Ok(())
}

fn by_lines(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    rig.view(memory)?.fill(1);
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
    let view = rig.view(memory)?;
    view.fill(7);
    ensure!(all(&gpu_reads(&rig, memory)?, 7), "the GPU does not see the CPU's stores");
    gpu_writes(&rig, memory, 0x0909_0909)?;
    ensure!(all(&view.read(0, SIZE), 9), "the CPU does not see the GPU's stores");
    Ok(())
}

fn unlock_writes_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    rig.view(memory)?.fill(7);
    granted(rig.unlock(memory.handle), "unlock")?;
    ensure!(all(&gpu_reads(&rig, memory)?, 7), "stores were lost with the lock");
    gpu_writes(&rig, memory, 0x0909_0909)?;
    ensure!(all(&rig.view(memory)?.read(0, SIZE), 9), "a new lock shows old data");
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

fn fence_values(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.monitored_fence(0, Default::default())?;
    let memory = rig.memory(SIZE, Placement::SystemUncached)?;
    let view = rig.view(memory)?;
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
