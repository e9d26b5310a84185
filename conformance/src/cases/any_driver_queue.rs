//! Cases for the driver of any GPU about hardware queues, whose work the GPU schedules itself. What the driver wants is known of [`crate::opaque`].

use wddm_ddi::Zeroed;
use wddm_ddi::km::{D3DDDI_CREATEHWQUEUEFLAGS, DXGK_NODEMETADATA_FLAGS};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::any_driver_lab::{Lab, QUEUED, SIZE, holds, lab};
use crate::event::Event;
use crate::installed::metadata;
use crate::kmt::{BAD_HANDLE, Word};
use crate::opaque::Values;
use crate::rig::{Memory, RawFence, View, wait_until};
use crate::{Boot, Case, Failure, granted, refused};

cases! { neutral "AnyDriver", needs HardwareScheduling;
    "AnyDriver.HardwareQueuesComeAndGo" on Boot::Shared, "dxgkddi_createhwqueue":
        "On each node that says ContextSchedulingSupported, hardware contexts with several hardware queues are made and destroyed in any order, time after time, and work; a handle of a destroyed one is refused, and so is a hardware context on another node."
        => come_and_go;
    "AnyDriver.HardwareQueueProgressIsWhatIsDone" on Boot::Shared, "dxgkarg_submitcommandtohwqueue":
        "The progress fence of a hardware queue rises to the value of each submission when its commands are done, not before, in the order of the submissions, and never has a value that was not submitted."
        => progress;
    "AnyDriver.HardwareQueueProgressIsReported" on Boot::Shared, "dxgk_interrupt_type":
        "Whoever waits for a value of a hardware queue's progress fence before the commands begin goes on when they are done: the interrupt tells of it."
        => progress_reported;
    "AnyDriver.HardwareQueuesDoNotWaitForEachOther" on Boot::Shared, "d3dkmt_submitwaitforsyncobjectstohwqueue":
        "While a hardware queue waits for a fence, it does nothing, and other queues of its context, of its node and of other nodes work; it goes on when the fence is signalled."
        => side_by_side;
    "AnyDriver.HardwareQueuesWaitForFencesOfEachOther" on Boot::Shared, "d3dkmt_submitsignalsyncobjectstohwqueue":
        "Hardware queues of all nodes, each behind a wait for the fence that the one before it signals, work in the order of the fences, whatever the order in which they were given their work."
        => chain;
    "AnyDriver.HardwareQueuesWorkWhileMemoryMoves" on Boot::Shared, "dxgkddi_suspendcontext":
        "Memory is evicted and made resident while hardware queues are busy with other memory: what it holds comes back, and each submission is done once."
        => memory_moves;
    "AnyDriver.HardwareQueueThatFaultsCostsItsDevice" on Boot::Fresh, "dxgk_interrupt_hwqueue_page_faulted":
        "Commands of a hardware queue that reach an address without memory put their own device into error; hardware queues of another device go on."
        => fault;
}

/// Bytes of one submission's commands, and of the memory for all of a queue.
const SLOT: u64 = 4096;
const STEP: u64 = 4096;

/// A hardware queue with its context, and memory for its commands.
pub struct Queue {
    context: D3DKMT_HANDLE,
    pub handle: D3DKMT_HANDLE,
    fence: D3DKMT_HANDLE,
    pub progress: Word,
    /// GPU virtual address of its progress fence.
    progress_address: u64,
    commands: Memory,
    view: View,
    count: u64,
    /// Value of the last submission.
    pub submitted: u64,
}

/// Flags of a node; `None` for one that the adapter does not have.
pub fn node_flags(lab: &Lab, node: u32) -> Option<DXGK_NODEMETADATA_FLAGS> {
    let data = metadata(lab.rig.kmt, lab.rig.adapter, node).ok()?.NodeData;
    Some(data.Flags)
}

impl Lab {
    /// Submissions that a hardware queue of a node takes without a wait for the oldest, but no more than `QUEUED`. (MaxInFlightHwQueueBuffers)
    fn depth(&self, node: u32) -> u32 {
        let most = node_flags(self, node).map_or(0, |flags| u32::from(flags.MaxInFlightHwQueueBuffers()));
        if most == 0 { QUEUED } else { most.min(QUEUED) }
    }

    /// The nodes that take the commands and have hardware contexts.
    pub fn scheduled(&self) -> Result<Vec<u32>, Failure> {
        let is_scheduled = |node: u32| node_flags(self, node).is_some_and(|flags| flags.ContextSchedulingSupported());
        let nodes: Vec<u32> = self.opaque.nodes().iter().copied().filter(|node| is_scheduled(*node)).collect();
        if nodes.is_empty() {
            let told = format!(
                "none of the nodes {:?} of the description says ContextSchedulingSupported",
                self.opaque.nodes()
            );
            return Err(Failure::NotApplicable(told));
        }
        Ok(nodes)
    }

    fn hw_context(&self, node: u32) -> Result<D3DKMT_HANDLE, Failure> {
        let context = self.rig.context_of(node, &mut self.opaque.context());
        context.map_err(|status| {
            let rule = "the node says ContextSchedulingSupported, so DxgkDdiCreateHwContext makes them [dxgkddi_createhwcontext]";
            Failure::new(format!("D3DKMTCreateHwContext on node {node}: {status}; {rule}"))
        })
    }

    fn queue_on(&self, context: D3DKMT_HANDLE) -> Result<Queue, Failure> {
        let flags = D3DDDI_CREATEHWQUEUEFLAGS::new();
        let created = self.rig.hw_queue_of(context, flags, &mut self.opaque.queue()).map_err(|status| {
            let rule = "DxgkDdiCreateHwQueue makes any number of queues on a context [dxgkddi_createhwqueue]";
            Failure::new(format!("D3DKMTCreateHwQueue: {status}; {rule}"))
        })?;
        let commands = self.memory(SLOT * u64::from(QUEUED), false)?;
        Ok(Queue {
            context,
            handle: created.hHwQueue,
            fence: created.hHwQueueProgressFence,
            progress: Word::new(created.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?,
            progress_address: created.HwQueueProgressFenceGPUVirtualAddress,
            commands,
            view: self.rig.view(commands)?,
            count: 0,
            submitted: 0,
        })
    }

    /// A hardware queue on a context of its own.
    pub fn queue(&self, node: u32) -> Result<Queue, Failure> {
        self.queue_on(self.hw_context(node)?)
    }

    /// Submits commands whose end has this value; no more than `QUEUED` are under way.
    pub fn queue_submit_as(&self, queue: &mut Queue, commands: &[u8], value: u64) -> Result<(), Failure> {
        let values = Values { target: queue.progress_address, value, size: 8, ..Values::default() };
        let commands = [commands, &self.opaque.progress(values)].concat();
        ensure!(commands.len() as u64 <= SLOT, "the description's commands are longer than {SLOT} bytes");
        let offset = queue.count % u64::from(QUEUED) * SLOT;
        queue.view.write(offset, &commands);
        let mut data = self.opaque.submission();
        let mut arguments = D3DKMT_SUBMITCOMMANDTOHWQUEUE::zeroed();
        (arguments.hHwQueue, arguments.HwQueueProgressFenceId) = (queue.handle, value);
        (arguments.CommandBuffer, arguments.CommandLength) = (queue.commands.address + offset, commands.len() as u32);
        if !data.is_empty() {
            arguments.pPrivateDriverData = data.as_mut_ptr().cast();
            arguments.PrivateDriverDataSize = data.len() as u32;
        }
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTSubmitCommandToHwQueue, &mut arguments);
        (queue.count, queue.submitted) = (queue.count + 1, value);
        granted(status, "D3DKMTSubmitCommandToHwQueue")
    }

    /// As [`Lab::queue_submit_as`], with the next value, of commands that fill memory.
    pub fn queue_fill(&self, queue: &mut Queue, target: u64, size: u64, pattern: u32) -> Result<(), Failure> {
        let commands = self.opaque.fill(Values { size, target, pattern, ..Values::default() });
        let value = queue.submitted + 1;
        self.queue_submit_as(queue, &commands, value)
    }

    /// Waits until everything of the queue is done: as the processor reads the progress fence, and as the system knows it.
    pub fn queue_wait_for(&self, queue: &Queue) -> Result<(), Failure> {
        let value = queue.submitted;
        reaches(queue, value)?;
        granted(self.rig.wait(&[queue.fence], &[value], false), "the wait for the progress fence")?;
        let found = queue.progress.load();
        ensure!(
            found == value,
            "the progress fence of a hardware queue is {found:#x}, and {value:#x} was submitted last: {PROGRESS}"
        );
        Ok(())
    }

    /// Destroys a queue and the context that it has of its own.
    fn queue_destroy(&self, queue: &Queue) -> Result<(), Failure> {
        granted(self.rig.destroy_hw_queue(queue.handle), "destroying a hardware queue")?;
        granted(self.hw_context_destroy(queue.context), "destroying a hardware context")
    }

    fn hw_context_destroy(&self, context: D3DKMT_HANDLE) -> NTSTATUS {
        let mut arguments = D3DKMT_DESTROYHWCONTEXT { hHwContext: context };
        self.rig.kmt.call(self.rig.kmt.table().D3DKMTDestroyHwContext, &mut arguments)
    }

    /// Work on hardware queues as a program would do it: memory, queues, submissions, the result.
    pub fn queue_work(&self) -> Result<(), Failure> {
        for node in self.scheduled()? {
            let mut queue = self.queue(node)?;
            for local in self.kinds() {
                let memory = self.memory(SIZE, local)?;
                let view = self.rig.view(memory)?;
                view.fill(0);
                self.queue_fill(&mut queue, memory.address, SIZE, 0x5a5a_0002)?;
                self.queue_wait_for(&queue)?;
                holds(&view, 0, SIZE, 0x5a5a_0002, "memory that a hardware queue filled")?;
                granted(self.rig.destroy_allocation(memory.handle), "destroying the memory")?;
            }
            self.queue_destroy(&queue)?;
        }
        Ok(())
    }

    fn new_fence(&self) -> Result<RawFence, Failure> {
        self.rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())
    }

    /// Work that is under way on hardware queues of each node when nobody waits for it, and more that waits for what never comes.
    #[cfg(feature = "inside")]
    pub fn leave_queue_work(&self) -> Result<(), Failure> {
        let memory = self.memory(SIZE, false)?;
        let never = self.new_fence()?;
        for node in self.scheduled()? {
            let mut queue = self.queue(node)?;
            for pattern in 1..QUEUED {
                self.queue_fill(&mut queue, memory.address, SIZE, pattern)?;
            }
            granted(self.rig.queue_wait(queue.handle, &[(never.handle, 1)]), "the wait of a hardware queue")?;
            self.queue_fill(&mut queue, memory.address, SIZE, QUEUED)?;
        }
        Ok(())
    }
}

/// Whose work the progress fence is.
const PROGRESS: &str = "HwQueueProgressFenceId of DxgkDdiSubmitCommandToHwQueue is stored to HwQueueProgressFenceGpuVa when the commands are done, and nothing else is [dxgkarg_submitcommandtohwqueue]";

/// Waits until the progress fence of a queue has reached a value.
pub fn reaches(queue: &Queue, value: u64) -> Result<(), Failure> {
    let reached = wait_until("progress", || queue.progress.load() >= value);
    let found = queue.progress.load();
    ensure!(
        reached.is_ok(),
        "the progress fence of a hardware queue stays at {found:#x} before {value:#x}: {PROGRESS}"
    );
    ensure!(found != u64::MAX, "the device was lost while a hardware queue of it worked");
    Ok(())
}

fn come_and_go(case: &Case) -> Result<(), Failure> {
    let every = |lab: &Lab| (0..64).map_while(|node| Some((node, node_flags(lab, node)?))).collect::<Vec<_>>();
    for round in 0..4_usize {
        let lab = lab(case)?;
        for (node, flags) in every(&lab) {
            if !flags.ContextSchedulingSupported() {
                let refusal = lab.rig.context_of(node, &mut lab.opaque.context());
                let Err(refusal) = refusal else {
                    return Err(Failure::new(format!(
                        "node {node} has a hardware context without ContextSchedulingSupported"
                    )));
                };
                refused(
                    refusal,
                    &[STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED],
                    "a hardware context on another node",
                )?;
                continue;
            }
            let contexts = [lab.hw_context(node)?, lab.hw_context(node)?];
            let mut queues = Vec::new();
            for number in 0..6 {
                queues.push(lab.queue_on(contexts[number % 2])?);
            }
            queues.rotate_left(round);
            for queue in &queues {
                granted(lab.rig.destroy_hw_queue(queue.handle), "destroying a hardware queue")?;
                refused(lab.rig.destroy_hw_queue(queue.handle), BAD_HANDLE, "destroying it again")?;
            }
            for context in [contexts[round % 2], contexts[(round + 1) % 2]] {
                granted(lab.hw_context_destroy(context), "destroying a hardware context")?;
                refused(lab.hw_context_destroy(context), BAD_HANDLE, "destroying it again")?;
            }
            // The one that is left goes with the device.
            lab.queue(node)?;
        }
        lab.queue_work()?;
        granted(lab.rig.destroy(), "destroying the device")?;
    }
    Ok(())
}

/// Each submission fills one step less than the one before, so that a step says which was the last to fill it: when the fence has the value of a
/// submission, the last of its steps has its pattern, and keeps it.
fn progress(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    for node in lab.scheduled()? {
        let depth = lab.depth(node);
        let memory = lab.memory(u64::from(depth) * STEP, false)?;
        let view = lab.rig.view(memory)?;
        let mut queue = lab.queue(node)?;
        for round in 1..=4_u32 {
            let pattern = |number: u32| 0x4000_0000 | node << 16 | round << 8 | number;
            let mut values = Vec::new();
            for number in 0..depth {
                let size = u64::from(depth - number) * STEP;
                let commands = lab.opaque.fill(Values {
                    size,
                    target: memory.address,
                    pattern: pattern(number),
                    ..Values::default()
                });
                // Values need not follow each other.
                let value = queue.submitted + 1 + u64::from(number % 3);
                lab.queue_submit_as(&mut queue, &commands, value)?;
                values.push(value);
            }
            let mut known = queue.progress.load();
            for (number, value) in (0..depth).zip(&values) {
                reaches(&queue, *value)?;
                let found = queue.progress.load();
                ensure!(found >= known, "the progress fence went from {known:#x} to {found:#x}: {PROGRESS}");
                ensure!(
                    values.contains(&found),
                    "the progress fence is {found:#x}, which was not submitted: {PROGRESS}"
                );
                known = found;
                let what = format!("memory of a submission whose progress value {value:#x} is reached ({PROGRESS})");
                holds(&view, u64::from(depth - 1 - number) * STEP, STEP, pattern(number), &what)?;
            }
            lab.queue_wait_for(&queue)?;
        }
        lab.queue_destroy(&queue)?;
    }
    Ok(())
}

/// The wait begins while the commands are delayed, so that only a report can end it.
fn progress_reported(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let gate = lab.new_fence()?;
    let memory = lab.memory(SIZE, false)?;
    for (node, round) in lab.scheduled()?.into_iter().zip(1..) {
        let mut queue = lab.queue(node)?;
        granted(lab.rig.queue_wait(queue.handle, &[(gate.handle, round)]), "the wait of a hardware queue")?;
        lab.queue_fill(&mut queue, memory.address, SIZE, 0x5e70_0000)?;
        let event = Event::new()?;
        let waits = lab.rig.wait_with_event(&[queue.fence], &[queue.submitted], false, Some(event.number()));
        granted(waits, "a wait for the progress fence with an event")?;
        ensure!(event.times_set()? == 0, "an event is set before the commands are begun that it waits for");
        granted(lab.rig.signal(&[gate.handle], &[round]), "the signal for which the hardware queue waits")?;
        event.wait()?;
        lab.queue_wait_for(&queue)?;
        lab.queue_destroy(&queue)?;
    }
    Ok(())
}

const NO_WAIT: &str = "work of DxgkDdiSubmitCommandToHwQueue waits for earlier work of its own queue alone [dxgkddi_submitcommandtohwqueue]";

fn side_by_side(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let nodes = lab.scheduled()?;
    let gate = lab.new_fence()?;
    let memory = lab.memory(SIZE, false)?;
    let view = lab.rig.view(memory)?;
    let mut round = 0;
    for node in &nodes {
        let context = lab.hw_context(*node)?;
        let mut held = lab.queue_on(context)?;
        let mut others = vec![lab.queue_on(context)?];
        for node in &nodes {
            others.push(lab.queue(*node)?);
        }
        for _ in 0..4 {
            round += 1;
            let before = held.progress.load();
            granted(lab.rig.queue_wait(held.handle, &[(gate.handle, round)]), "the wait of a hardware queue")?;
            lab.queue_fill(&mut held, memory.address, SIZE, 0x1234_0000 | round as u32)?;
            for (number, other) in (0..).zip(&mut others) {
                lab.queue_fill(other, memory.address, SIZE, 0x7700 + number)?;
                reaches(other, other.submitted)
                    .map_err(|failure| Failure::new(format!("beside a queue that waits, {failure}; {NO_WAIT}")))?;
                lab.queue_wait_for(other)?;
                holds(&view, 0, SIZE, 0x7700 + number, "memory while a hardware queue waits")?;
            }
            ensure_eq!(held.progress.load(), before, "progress of the queue that waits");
            if round % 2 == 0 {
                granted(lab.rig.signal(&[gate.handle], &[round]), "the signal of the processor")?;
            } else {
                let by = [others[0].handle];
                let signal = lab.rig.queue_signal(&by, &[(gate.handle, round)], D3DDDICB_SIGNALFLAGS::new());
                granted(signal, "the signal of a hardware queue")?;
            }
            lab.queue_wait_for(&held)?;
            holds(&view, 0, SIZE, 0x1234_0000 | round as u32, "memory behind the wait")?;
        }
    }
    Ok(())
}

fn chain(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let mut queues = Vec::new();
    for _ in 0..3 {
        for node in lab.scheduled()? {
            queues.push(lab.queue(node)?);
        }
    }
    let fences = (0..=queues.len()).map(|_| lab.new_fence()).collect::<Result<Vec<_>, Failure>>()?;
    let all = queues.len() as u64;
    let memory = lab.memory(all * STEP, false)?;
    let view = lab.rig.view(memory)?;
    for round in 1..=8_u64 {
        let pattern = |number: usize| 0x6000_0000 | (round as u32) << 8 | number as u32;
        // The last is given its work first.
        for (number, queue) in queues.iter_mut().enumerate().rev() {
            let (before, behind) = (fences[number].handle, fences[number + 1].handle);
            granted(lab.rig.queue_wait(queue.handle, &[(before, round)]), "the wait of a hardware queue")?;
            lab.queue_fill(queue, memory.address, (all - number as u64) * STEP, pattern(number))?;
            let signal = lab.rig.queue_signal(&[queue.handle], &[(behind, round)], D3DDDICB_SIGNALFLAGS::new());
            granted(signal, "the signal of a hardware queue")?;
        }
        for queue in &queues {
            ensure_eq!(queue.progress.load(), queue.submitted - 1, "progress of a queue whose fence is not signalled");
        }
        granted(lab.rig.signal(&[fences[0].handle], &[round]), "the signal of the processor")?;
        let last = fences[queues.len()];
        granted(lab.rig.wait(&[last.handle], &[round], false), "the wait for the last fence")?;
        ensure_eq!(last.value.load(), round, "the last fence");
        for (number, queue) in queues.iter().enumerate() {
            lab.queue_wait_for(queue)?;
            let offset = (all - 1 - number as u64) * STEP;
            holds(&view, offset, STEP, pattern(number), "a step of queues that work in the order of their fences")?;
        }
    }
    Ok(())
}

fn memory_moves(case: &Case) -> Result<(), Failure> {
    const PARTS: u32 = 24;
    let lab = lab(case)?;
    let own = lab.sizes()?.DedicatedVideoMemorySize;
    let nodes = lab.scheduled()?;
    let mut filler = lab.queue(nodes[0])?;
    let mut queues = nodes.iter().map(|node| lab.queue(*node)).collect::<Result<Vec<_>, Failure>>()?;
    let busy = lab.memory(SIZE * nodes.len() as u64, false)?;
    let busy_view = lab.rig.view(busy)?;
    let mut pattern = 0;
    let mut keep_busy = |queues: &mut [Queue]| {
        pattern += 1;
        for (place, queue) in (0..).zip(queues) {
            lab.queue_fill(queue, busy.address + place * SIZE, SIZE, pattern)?;
        }
        Ok::<_, Failure>(pattern)
    };
    for local in lab.kinds() {
        let word = |number: u32| if local { 0x3c3c_0000 | number } else { 0x2d2d_0000 | number };
        // Half as much again as the GPU has of its own, so that a third of the parts has to lie elsewhere.
        let part = if local { (own / 16).max(1 << 16).next_multiple_of(1 << 16) } else { 1 << 20 };
        let mut parts = Vec::new();
        for number in 0..PARTS {
            keep_busy(&mut queues)?;
            let memory = lab.memory(part, local)?;
            lab.queue_fill(&mut filler, memory.address, part, word(number))?;
            lab.queue_wait_for(&filler)?;
            granted(lab.rig.evict(memory.handle), "evicting beside busy hardware queues")?;
            parts.push(memory);
        }
        for (number, memory) in (0..).zip(&parts) {
            let last = keep_busy(&mut queues)?;
            lab.rig.make_resident(memory.handle)?;
            let view = lab.rig.view(*memory)?;
            holds(&view, 0, part, word(number), "memory that came back while hardware queues worked")?;
            granted(lab.rig.destroy_allocation(memory.handle), "destroying a part")?;
            for (place, queue) in (0..).zip(&queues) {
                lab.queue_wait_for(queue)?;
                holds(&busy_view, place * SIZE, SIZE, last, "memory that a busy hardware queue filled last")?;
            }
        }
    }
    Ok(())
}

/// Submits commands to a hardware queue that must cost the device, beside another device with work on its way and more to come; `rule` says whose
/// error it is. That is done for each node.
pub fn queue_costs_its_device(
    case: &Case,
    rule: &str,
    commands: impl Fn(&Lab) -> Result<Vec<u8>, Failure>,
) -> Result<(), Failure> {
    let other = lab(case)?;
    let (memory, nodes) = (other.memory(SIZE, false)?, other.scheduled()?);
    let view = other.rig.view(memory)?;
    for node in &nodes {
        let lab = lab(case)?;
        let mut queue = lab.queue(*node)?;
        let mut others = nodes.iter().map(|node| other.queue(*node)).collect::<Result<Vec<_>, Failure>>()?;
        let commands = commands(&lab)?;
        let value = queue.submitted + 1;
        lab.queue_submit_as(&mut queue, &commands, value)?;
        // No more than what is taken without a wait, which would not end where the other queues stand still.
        let depth = nodes.iter().map(|node| other.depth(*node)).min().unwrap_or(1);
        for pattern in 1..=depth {
            for other_queue in &mut others {
                let told =
                    |failure| Failure::new(format!("a device without fault beside one in error: {failure}; {rule}"));
                other.queue_fill(other_queue, memory.address, SIZE, 0x0e00 | pattern).map_err(told)?;
            }
        }
        let lost = wait_until("an error of the device", || lab.is_active().is_ok_and(|active| !active));
        ensure!(lost.is_ok(), "a hardware queue of node {node} put its device into no error: {rule}");
        ensure!(other.is_active()?, "a device without fault is in error too: {rule}");
        for other_queue in &others {
            let told = |failure| Failure::new(format!("a device without fault beside one in error: {failure}; {rule}"));
            other.queue_wait_for(other_queue).map_err(told)?;
        }
        holds(&view, 0, SIZE, 0x0e00 | depth, "memory that queues of a device without fault filled")?;
        other.queue_work()?;
        granted(lab.rig.destroy(), "destroying the device in error")?;
        other.queue_work()?;
    }
    Ok(())
}

fn fault(case: &Case) -> Result<(), Failure> {
    const RULE: &str = "DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED names the hardware queue or context whose address it was [dxgk_interrupt_type]";
    queue_costs_its_device(case, RULE, |lab| {
        let memory = lab.memory(SIZE, false)?;
        granted(lab.rig.free(memory.address, SIZE), "freeing the addresses")?;
        Ok(lab.opaque.fill(Values { size: SIZE, target: memory.address, pattern: 1, ..Values::default() }))
    })
}
