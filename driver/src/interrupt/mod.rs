//! From the device's event ring to the scheduler.
//!
//! The ring is drained at device level only: in the interrupt routine, or in a routine of DxgkCbSynchronizeExecution where events of a
//! queue or device that is going away must be handled first. Taking an event and reporting it are one step there, so nothing is reported
//! out of order or for a handle that was withdrawn. Completions are merged per node and reported before fences.

pub(crate) mod report;

use campanile_hw::event::{Event, EventKind, FaultInfo, FaultKind};
use campanile_hw::registers::NODES;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event as TraceEvent;
use wddm_ddi::km::DXGK_ENGINE_STATE;
use wddm_ddi::types::HANDLE;

use crate::adapter::Adapter;
use crate::events::Next;
use crate::gpu::Gpu;
use crate::handle::Handle;
use crate::irql::{Device, Dispatch};
use crate::node::flight::PreemptedBuffer;
use crate::queue::context::{Context, HwContext};
use crate::queue::hw_queue::{self, HwQueue};
use crate::refusal::Reason;

const NODE_COUNT: usize = NODES as usize;
/// Fences that one report names; more of them make it a report without names.
const NAMED: usize = 32;

/// Reports collected in one pass over the event ring; per node the last completed packet, and the signalled fences.
struct Batch {
    completed: [Option<u32>; NODE_COUNT],
    fences: [HANDLE; NAMED],
    named: usize,
    /// Node of the named fences.
    fence_node: usize,
    /// The driver's handles of queues that signalled, where queues are named instead of fences; null for none.
    queues: [HANDLE; NODE_COUNT],
    /// Nodes on which some native fence was signalled that cannot be named, nor its queue.
    unnamed: [bool; NODE_COUNT],
    /// Nodes on which a monitored fence was written.
    monitored: [bool; NODE_COUNT],
}

impl Batch {
    const fn new() -> Self {
        Self {
            completed: [None; NODE_COUNT],
            fences: [core::ptr::null_mut(); NAMED],
            named: 0,
            fence_node: 0,
            queues: [core::ptr::null_mut(); NODE_COUNT],
            unnamed: [false; NODE_COUNT],
            monitored: [false; NODE_COUNT],
        }
    }

    /// Adds a signalled fence; false if the batch must be reported first.
    fn add_fence(&mut self, node: usize, fence: Option<HANDLE>) -> bool {
        let Some(fence) = fence else {
            mark(&mut self.unnamed, node);
            return true;
        };
        if self.named != 0 && self.fence_node != node {
            return false;
        }
        self.fence_node = node;
        let named = self.fences.iter().take(self.named);
        if named.copied().any(|other| other == fence) {
            return true;
        }
        match self.fences.get_mut(self.named) {
            Some(place) => {
                *place = fence;
                self.named += 1;
            }
            // Too many to name: the report without names covers all of the node.
            None => mark(&mut self.unnamed, node),
        }
        true
    }

    /// Adds a queue that signalled; a second one of a node makes it a report of all the node's queues.
    fn add_queue(&mut self, node: usize, queue: Option<HANDLE>) {
        match (self.queues.get_mut(node), queue) {
            (Some(place), Some(queue)) if place.is_null() || *place == queue => *place = queue,
            _ => mark(&mut self.unnamed, node),
        }
    }

    fn flush(&mut self, irql: &Device, gpu: &Gpu) {
        for (node, completed) in gpu.nodes.iter().zip(self.completed) {
            if let Some(fence) = completed {
                report::completed(irql, gpu, node, fence);
            }
        }
        if let Some(node) = gpu.nodes.get(self.fence_node)
            && self.named != 0
        {
            report::native(irql, gpu, node, self.fences.get_mut(..self.named).unwrap_or_default());
        }
        for (((node, unnamed), queue), monitored) in
            gpu.nodes.iter().zip(self.unnamed).zip(self.queues).zip(self.monitored)
        {
            if monitored && gpu.claims.native_fence && gpu.claims.one_fence_event {
                report::every(irql, gpu, node);
                continue;
            }
            if unnamed {
                report::native(irql, gpu, node, &mut []);
            } else if !queue.is_null() {
                report::native_of_queue(irql, gpu, node, queue);
            }
            if monitored {
                report::monitored(irql, gpu, node);
            }
        }
        *self = Self::new();
    }
}

fn mark(flags: &mut [bool; NODE_COUNT], node: usize) {
    if let Some(flag) = flags.get_mut(node) {
        *flag = true;
    }
}

/// DxgkDdiInterruptRoutine. True if the message was this adapter's.
pub(crate) fn routine(irql: &Device, adapter: &Adapter, message: u32) -> bool {
    if message != crate::dxgk::INTERRUPT_MESSAGE {
        return false;
    }
    let Some(gpu) = adapter.gpu().filter(|gpu| gpu.is_running()) else { return false };
    // The message belongs to this function alone, also when an earlier pass already took what it announces.
    drain(irql, adapter.owner(), gpu);
    true
}

/// Handles everything in the ring of a device, which is an engine of `adapter`. Queues the DPC if anything was there.
pub(crate) fn drain(irql: &Device, adapter: &Adapter, gpu: &Gpu) {
    if !gpu.is_running() {
        return;
    }
    let mut batch = Batch::new();
    let mut any = false;
    while let Some(next) = gpu.events.next(irql) {
        any = true;
        match next {
            Next::Event(event) => handle(irql, adapter, gpu, &event, &mut batch),
            Next::Overflow => {
                gpu.note(Component::Interrupt, &TraceEvent::EventsCollapsed {});
                all_fences(gpu, &mut batch);
            }
            Next::Lost => {
                adapter.trace.passed_over(Component::Interrupt, Reason::EventsLost, 0);
                all_fences(gpu, &mut batch);
            }
        }
    }
    if any {
        batch.flush(irql, gpu);
        gpu.dxgk.queue_dpc();
    }
}

fn all_fences(gpu: &Gpu, batch: &mut Batch) {
    batch.unnamed = [gpu.claims.native_fence; NODE_COUNT];
    batch.monitored = [true; NODE_COUNT];
}

fn handle(irql: &Device, adapter: &Adapter, gpu: &Gpu, event: &Event, batch: &mut Batch) {
    let node = usize::from(event.node);
    let kind = EventKind::from_number(event.kind);
    gpu.note(
        Component::Interrupt,
        &TraceEvent::DeviceEvent {
            data0: event.data0,
            data1: event.data1,
            queue: event.queue,
            kind: event.kind.into(),
            node: event.node,
        },
    );
    if node >= NODE_COUNT || kind.is_none() {
        unknown(adapter, event);
        return;
    }
    match kind {
        // It may have been either kind; without native fences it was a monitored one.
        Some(EventKind::FenceSignaled) if gpu.claims.one_fence_event => mark(&mut batch.monitored, node),
        Some(EventKind::FenceSignaled) if gpu.claims.optimised_fence_interrupt => {
            batch.add_queue(node, gpu.queues.get(event.queue).map(Handle::raw));
        }
        Some(EventKind::FenceSignaled) => {
            let process = process_of(adapter, gpu, event.queue);
            let fence = process.and_then(|process| gpu.fences.find(irql, process, event.data0));
            if !batch.add_fence(node, fence) {
                batch.flush(irql, gpu);
                batch.add_fence(node, fence);
            }
        }
        Some(EventKind::Progress) => mark(&mut batch.monitored, node),
        Some(EventKind::Retired) => retired(irql, adapter, gpu, event, batch),
        Some(EventKind::Suspended) => suspended(irql, adapter, gpu, event, batch),
        Some(EventKind::Preempted) => preempted(irql, adapter, gpu, event, batch),
        Some(EventKind::Fault) => fault(irql, adapter, gpu, event, batch),
        Some(EventKind::NodeIdle) => {
            engine_state(irql, gpu, event, batch, DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_TRANSITION_TO_F1);
        }
        Some(EventKind::NodeHung) => {
            engine_state(irql, gpu, event, batch, DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_HUNG);
        }
        Some(EventKind::SchedulingLog) => {
            if let Some(node) = gpu.nodes.get(node) {
                report::scheduling_log(irql, gpu, node);
            }
        }
        None => {}
    }
}

/// Passes over an event that names nothing.
fn unknown(adapter: &Adapter, event: &Event) {
    adapter.trace.passed_over(Component::Interrupt, Reason::DeviceEvent, event.queue.into());
}

/// The hardware queue with a number.
fn queue_of<'a>(adapter: &'a Adapter, gpu: &Gpu, number: u32) -> Option<&'a HwQueue> {
    adapter.objects.get(gpu.queues.get(number)?).ok()
}

/// Handle bits of the process that a queue runs for.
fn process_of(adapter: &Adapter, gpu: &Gpu, number: u32) -> Option<u64> {
    match gpu.nodes.get(number as usize) {
        Some(node) => Some(node.current_process()).filter(|process| *process != 0),
        None => queue_of(adapter, gpu, number).map(|queue| queue.process.into_bits()),
    }
}

fn retired(irql: &Device, adapter: &Adapter, gpu: &Gpu, event: &Event, batch: &mut Batch) {
    let Some(node) = gpu.nodes.get(event.queue as usize) else {
        match queue_of(adapter, gpu, event.queue) {
            Some(queue) if queue.note_retired() => gpu.note_waiting(),
            Some(_) => {}
            None => unknown(adapter, event),
        }
        return;
    };
    if let Some(fence) = node.retire(irql, event.data0) {
        if let Some(completed) = batch.completed.get_mut(event.queue as usize) {
            *completed = Some(fence);
        }
        if gpu.builds_monitored_signals() {
            mark(&mut batch.monitored, event.queue as usize);
        }
    }
}

/// Notes in a packet context how much of a preempted buffer has run, so that only the rest runs when it is submitted again. A context that was
/// destroyed meanwhile is left out.
pub(crate) fn keep(adapter: &Adapter, context: u64, preempted: PreemptedBuffer) {
    if let Ok(context) = adapter.objects.get::<Context>(Handle::from_bits(context)) {
        context.note_preempted(preempted);
    }
}

/// A packet queue was preempted; whatever it completed before is told first.
fn preempted(irql: &Device, adapter: &Adapter, gpu: &Gpu, event: &Event, batch: &mut Batch) {
    let Some(node) = gpu.nodes.get(event.queue as usize) else { return unknown(adapter, event) };
    batch.flush(irql, gpu);
    node.stopped(irql, event.data0, event.data1, |(context, preempted)| keep(adapter, context, preempted));
    node.report_preemption(irql, &gpu.dxgk);
}

fn suspended(irql: &Device, adapter: &Adapter, gpu: &Gpu, event: &Event, batch: &mut Batch) {
    let queue = queue_of(adapter, gpu, event.queue);
    match queue.and_then(|queue| Some((queue, adapter.objects.get::<HwContext>(queue.context).ok()?))) {
        Some((queue, context)) => {
            // Whatever the queue completed before it stopped is told first.
            batch.flush(irql, gpu);
            queue.note_suspended(event.data0);
            context.answer(irql, gpu, event.data0);
        }
        None => unknown(adapter, event),
    }
}

/// The node is idle or hangs; whatever it did before is told first.
fn engine_state(irql: &Device, gpu: &Gpu, event: &Event, batch: &mut Batch, state: DXGK_ENGINE_STATE) {
    batch.flush(irql, gpu);
    if let Some(node) = gpu.nodes.get(usize::from(event.node)) {
        report::engine_state(irql, gpu, node, state);
    }
}

fn fault(irql: &Device, adapter: &Adapter, gpu: &Gpu, event: &Event, batch: &mut Batch) {
    batch.flush(irql, gpu);
    let info = FaultInfo::from_bits(event.data1);
    if let Some(node) = gpu.nodes.get(event.queue as usize) {
        if FaultKind::from_number(info.kind()) == Some(FaultKind::Reset) {
            if node.is_stopping() {
                return;
            }
            node.note_reset(irql, |(context, preempted)| keep(adapter, context, preempted));
            node.report_preemption(irql, &gpu.dxgk);
            return;
        }
        if let Some(packet) = node.fault(irql, |(context, preempted)| keep(adapter, context, preempted)) {
            report::packet_fault(irql, gpu, node, &packet, event.data0, info);
        }
        node.report_preemption(irql, &gpu.dxgk);
        return;
    }
    match (queue_of(adapter, gpu, event.queue), gpu.nodes.get(usize::from(event.node))) {
        (Some(queue), Some(node)) => report::queue_fault(irql, gpu, node, queue, event.data0, info),
        _ => unknown(adapter, event),
    }
}

/// DxgkDdiDpcRoutine.
pub(crate) fn dpc(irql: &Dispatch, adapter: &Adapter) {
    let Some(gpu) = adapter.gpu() else { return };
    gpu.note(Component::Interrupt, &TraceEvent::Dpc {});
    // No lock is taken here: the scheduler may be waiting for a DDI that waits for the lock below.
    gpu.dxgk.notify_dpc(irql);
    // Taken so that stopping the device and destroying a queue can wait for this.
    let mut serviced = gpu.dpc.lock(irql);
    let (_, irql) = serviced.parts();
    if !gpu.is_running() {
        return;
    }
    for node in gpu.nodes.iter() {
        node.service(irql, &gpu.dxgk, &gpu.cmp);
    }
    if gpu.take_waiting() {
        let objects = &adapter.owner().objects;
        for queue in gpu.queues.iter().filter_map(|handle| objects.get::<HwQueue>(handle).ok()) {
            hw_queue::refill(irql, gpu, queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_names_each_fence_once_and_gives_up_when_there_are_too_many() {
        let handle = |number: usize| Some(core::ptr::without_provenance_mut(number));
        let mut batch = Batch::new();
        assert!(batch.add_fence(0, handle(1)) && batch.add_fence(0, handle(1)) && batch.add_fence(0, handle(2)));
        assert_eq!((batch.named, batch.unnamed), (2, [false; 3]));
        assert!(!batch.add_fence(1, handle(3)), "another node needs its own report");
        assert!(batch.add_fence(1, None));
        assert_eq!(batch.unnamed, [false, true, false]);
        assert!((10..100).all(|number| batch.add_fence(0, handle(number))));
        assert_eq!((batch.named, batch.unnamed), (NAMED, [true, true, false]));
    }

    #[test]
    fn a_batch_names_the_one_queue_of_a_node_that_signalled_and_none_of_several() {
        let handle = |number: usize| Some(core::ptr::without_provenance_mut(number));
        let mut batch = Batch::new();
        for (node, queue) in [(0, 1), (1, 2), (0, 1), (1, 3)] {
            batch.add_queue(node, handle(queue));
        }
        assert_eq!(batch.queues.map(|queue| queue.addr()), [1, 2, 0]);
        assert_eq!(batch.unnamed, [false, true, false]);
        batch.add_queue(2, None);
        assert_eq!(batch.unnamed, [false, true, true], "a ring of the kernel is no queue that a report could name");
        batch.add_queue(NODE_COUNT, handle(9));
        assert_eq!(batch.unnamed, [false, true, true]);
    }
}
