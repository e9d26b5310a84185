//! Buffers that user mode rewrites while queued work uses them: discard, plain and no-overwrite maps of the user-mode driver.

use crate::simulated::Case;
use crate::{Boot, Failure};
use testbed::user::{
    Buffer, Device, DynamicBuffer, DynamicMapping, Error, Fence, MapMode, Node, Placement, Queue, QueueOptions,
};

cases! { inside "Memory", behind "it maps buffers by the user-mode driver of this project";
    "DynamicBuffer.DiscardLeavesQueuedWorkItsContents" on Boot::Fresh, "allocation-usage-tracking":
        "A map that discards answers at once with contents that no queued work uses, as long as there are some; the work finds what was written for it."
        holds [AllocationUsage 5]
        => discard;
    "DynamicBuffer.BusyMapThatMustNotWaitIsRefused" on Boot::Fresh, "allocation-usage-tracking":
        "A plain map that must not wait, and a discard without contents left, answer WasStillDrawing while queued work uses the buffer; one that promises not to overwrite answers at once."
        holds [AllocationUsage 7]
        => busy;
    "DynamicBuffer.PlainMapWaitsForEveryUse" on Boot::Fresh, "allocation-usage-tracking":
        "A plain map is there when the last of the fences that were named for the contents has its value, and not before."
        holds [AllocationUsage 8]
        => plain;
}

const SIZE: usize = 4096;

/// A queue whose copies wait until a gate is at their number.
struct Gated {
    queue: Queue,
    gate: Fence,
    done: Fence,
    submitted: u64,
}

impl Gated {
    fn new(device: &Device) -> Result<Self, Failure> {
        let queue = Queue::new(device, Node::Copy, QueueOptions::default())?;
        Ok(Self { queue, gate: Fence::new(device, 0)?, done: Fence::new(device, 0)?, submitted: 0 })
    }

    /// Queues a copy of mapped contents; the answer is its number.
    fn copy(&mut self, to: u64, from: &DynamicMapping) -> Result<u64, Failure> {
        self.submitted += 1;
        let number = self.submitted;
        self.queue.submit(|commands| {
            commands.wait(&self.gate, number)?;
            commands.copy(to, from.gpu_address(), SIZE as u64)?;
            commands.signal(&self.done, number)
        })?;
        from.use_until(&self.done, number)?;
        Ok(number)
    }
}

fn system_buffers(device: &Device, most: u32, copies: usize) -> Result<(DynamicBuffer, Buffer), Failure> {
    let dynamic = device.create_dynamic_buffer(SIZE as u64, Placement::System, most)?;
    Ok((dynamic, device.create_buffer((copies * SIZE) as u64, Placement::System)?))
}

/// A map that must answer at once that queued work is in the way.
fn still_drawing(buffer: &DynamicBuffer, mode: MapMode, what: &str) -> Result<(), Failure> {
    ensure_eq!(buffer.map(mode, false).err(), Some(Error::WasStillDrawing), "{what}");
    Ok(())
}

fn discard(case: &mut Case<'_>) -> Result<(), Failure> {
    const COPIES: usize = 4;
    let device = case.device()?;
    let ((buffer, target), mut gated) = (system_buffers(&device, COPIES as u32, COPIES)?, Gated::new(&device)?);
    let mut addresses = Vec::new();
    for copy in 0..COPIES {
        let mapping = buffer.map(MapMode::Discard, false)?;
        mapping.write(&[copy as u8 + 1; SIZE])?;
        gated.copy(target.gpu_address() + (copy * SIZE) as u64, &mapping)?;
        addresses.push(mapping.gpu_address());
    }
    addresses.sort_unstable();
    addresses.dedup();
    ensure_eq!(addresses.len(), COPIES, "contents that the discards answered");
    still_drawing(&buffer, MapMode::Discard, "a discard without contents left")?;
    gated.gate.signal(1)?;
    buffer.map(MapMode::Discard, true)?;
    ensure_eq!(gated.done.value(), 1, "copies done when the first contents are free");
    gated.gate.signal(COPIES as u64)?;
    gated.done.wait(COPIES as u64, None)?;
    let seen = target.map()?;
    for copy in 0..COPIES {
        let mut bytes = vec![0; SIZE];
        seen.read(copy * SIZE, &mut bytes)?;
        ensure!(bytes.iter().all(|byte| usize::from(*byte) == copy + 1), "copy {copy} found other contents");
    }
    Ok(())
}

fn busy(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let ((buffer, target), mut gated) = (system_buffers(&device, 1, 1)?, Gated::new(&device)?);
    let mapping = buffer.map(MapMode::Plain, false)?;
    mapping.write(&[1; SIZE])?;
    let number = gated.copy(target.gpu_address(), &mapping)?;
    drop(mapping);
    still_drawing(&buffer, MapMode::Plain, "a plain map")?;
    still_drawing(&buffer, MapMode::Discard, "a discard without contents left")?;
    buffer.map(MapMode::NoOverwrite, false)?;
    gated.gate.signal(number)?;
    buffer.map(MapMode::Plain, true)?.write(&[2; SIZE])?;
    let mut bytes = [0; SIZE];
    target.map()?.read(0, &mut bytes)?;
    ensure!(bytes.iter().all(|byte| *byte == 1), "the wait ended before the work that uses the buffer");
    Ok(())
}

fn plain(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let (buffer, _) = system_buffers(&device, 1, 1)?;
    let fences = [Fence::new(&device, 0)?, Fence::new(&device, 0)?, Fence::new(&device, 0)?];
    let mapping = buffer.map(MapMode::Plain, true)?;
    for fence in &fences {
        mapping.use_until(fence, 5)?;
        mapping.use_until(fence, 3)?;
    }
    drop(mapping);
    for fence in &fences {
        fence.signal(4)?;
        still_drawing(&buffer, MapMode::Plain, "a plain map at 4 of 5")?;
        fence.signal(5)?;
    }
    buffer.map(MapMode::Plain, false)?;
    Ok(())
}
