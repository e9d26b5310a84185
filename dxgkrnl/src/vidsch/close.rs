//! How work ends: devices that are closed, lost or stopped, and engines that go idle or hang.
//! [user-mode-work-submission: normal and abnormal process termination, engine state transitions]

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::lock::{Mutex, lock};
use nt::user_space::UserSpace;
use wddm_ddi::status::*;

use crate::port::{IdleEngines, Port};
use crate::rank;
use crate::vidmm::joint_limit::beside_each_other;
use crate::vidsch::{Device, DeviceError};

use super::VidSch;
use super::active::Active;
use super::deadline::Waiter;
use super::doorbell::Doorbell;
use super::fence::Fence;
use super::hw_context::HwContext;
use super::hw_queue::HwQueue;
use super::node::NodeState;
use super::packet_context::PacketContext;
use super::sync_object::SyncObject;
use super::timeouts::{POLL_INTERVAL, Subject};
use super::worker::Work;

/// Time limit for the packets of a device that is leaving D0.
const SLEEP_LIMIT: Duration = Duration::from_secs(2);

/// Time without progress after which the queues of a process that has ended are taken to be blocked.
const STANDSTILL: Duration = Duration::from_millis(50);

/// The scheduler's objects of one device.
#[derive(Default)]
pub(super) struct DeviceWork {
    /// By our handle, which grows.
    contexts: Mutex<BTreeMap<usize, Weak<HwContext>>>,
    pub(super) active: Active,
    packet_contexts: Mutex<Vec<Weak<PacketContext>>>,
    /// Held while the device is being taken off the hardware; true when that is done.
    lost: Mutex<bool, rank::DeviceLost>,
}

/// The queues and packet contexts of a device whose process has ended and whose work is still to be dropped or waited for.
struct Remains {
    queues: Vec<Arc<HwQueue>>,
    contexts: Vec<Arc<PacketContext>>,
}

impl Remains {
    /// Progress of all queues and contexts, to see whether anything still moves.
    fn done(&self) -> Vec<u64> {
        let queues = self.queues.iter().map(|queue| queue.progress().current());
        queues.chain(self.contexts.iter().map(|context| context.finished())).collect()
    }

    /// True if the hardware has nothing of it.
    fn has_ended(&self) -> bool {
        let ended = |queue: &Arc<HwQueue>| queue.progress().is_reached(queue.on_hardware());
        self.queues.iter().all(ended) && self.contexts.iter().all(|context| !context.runs())
    }

    /// True if something of it waits in the system.
    fn is_holding(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_done()) || self.contexts.iter().any(|context| context.held() != 0)
    }

    /// For each queue and packet context the number of its submissions, waits and signals that the scheduler has still to process.
    fn unsettled(&self) -> Vec<usize> {
        let queues = self.queues.iter().map(|queue| queue.held.load(Ordering::Acquire));
        queues.chain(self.contexts.iter().map(|context| context.unsettled())).collect()
    }

    /// True if something waits in the system that the hardware has released, and whose interrupt is under way.
    fn is_about_to_move(&self) -> bool {
        self.queues.iter().any(|queue| queue.is_about_to_move())
            || self.contexts.iter().any(|context| context.is_about_to_move())
    }

    fn drop_held(&self) {
        self.queues.iter().for_each(|queue| queue.drop_held());
        self.contexts.iter().for_each(|context| context.drop_held());
    }
}

impl VidSch {
    pub(super) fn add_context(&self, context: &Arc<HwContext>) {
        let work = Arc::clone(lock(&self.devices).entry(context.device().id()).or_default());
        lock(&work.contexts).insert(context.handles().0.raw().addr(), Arc::downgrade(context));
    }

    pub(super) fn remove_context(&self, context: &HwContext) {
        self.remove_work(context.device(), |work| {
            lock(&work.contexts).remove(&context.handles().0.raw().addr());
        });
    }

    pub(super) fn add_packet_context(&self, context: &Arc<PacketContext>) {
        let work = Arc::clone(lock(&self.devices).entry(context.device().id()).or_default());
        lock(&work.packet_contexts).push(Arc::downgrade(context));
    }

    pub(super) fn remove_packet_context(&self, context: &PacketContext) {
        self.remove_work(context.device(), |work| {
            lock(&work.packet_contexts).retain(|other| !core::ptr::eq(other.as_ptr(), context));
        });
    }

    /// Takes something out of the work of a device, which is forgotten when nothing is left of it.
    fn remove_work(&self, device: &Device, remove: impl FnOnce(&DeviceWork)) {
        let mut devices = lock(&self.devices);
        let Some(work) = devices.get(&device.id()) else { return };
        remove(work);
        let is_unused = Arc::strong_count(work) == 1;
        if is_unused && lock(&work.contexts).is_empty() && lock(&work.packet_contexts).is_empty() {
            devices.remove(&device.id());
        }
    }

    /// Live contexts of packets of a device, oldest first.
    pub(super) fn packet_contexts_of(&self, device: &Device) -> Vec<Arc<PacketContext>> {
        let work = self.device_work(device);
        work.map_or_else(Vec::new, |work| lock(&work.packet_contexts).iter().filter_map(Weak::upgrade).collect())
    }

    /// The work of a context does not end: its device is lost.
    pub(super) fn lose_blocked(&self, context: &PacketContext) {
        let device = context.device();
        if device.error().is_none() {
            self.verifier.log(format!(
                "a context of packets on node {} was closed with work that does not end: {} submitted, {} held",
                context.node(),
                context.last_submitted(),
                context.held()
            ));
        }
        self.lose_device(device, device.error().unwrap_or(DeviceError::Hung));
    }

    fn drain_contexts(&self, device: &Device) {
        for context in self.packet_contexts_of(device) {
            if !context.drain() {
                return self.lose_blocked(&context);
            }
        }
    }

    pub(super) fn device_work(&self, device: &Device) -> Option<Arc<DeviceWork>> {
        lock(&self.devices).get(&device.id()).cloned()
    }

    /// Live contexts of a device, oldest first.
    fn contexts_of(&self, device: &Device) -> Vec<Arc<HwContext>> {
        let work = self.device_work(device);
        work.map_or_else(Vec::new, |work| lock(&work.contexts).values().filter_map(Weak::upgrade).collect())
    }

    /// Waits until `queues` (of one device) have done what they had queued; a device whose work does not end in time is
    /// lost, and so is taken off the hardware one that was lost already.
    pub(super) fn drain(&self, queues: &[&HwQueue]) {
        let Some(first) = queues.first() else { return };
        let device = first.context().device();
        let _running = self.keep_running_if_work(device, || queues.iter().any(|queue| !queue.is_done()));
        // Queued work may still run for as long as an engine may stand still. [tdr-registry-keys: TdrDelay]
        let limit = self.timeouts.limit();
        for queue in queues {
            queue.check_order();
            if let Some(error) = device.error() {
                return self.lose_device(device, error);
            }
            let done = self.wait_by_clock(&[(Arc::clone(queue.progress()), queue.last_queued())], limit);
            if done != STATUS_SUCCESS || !queue.wait_until_empty(limit) {
                self.verifier.log(format!(
                    "a queue was closed at progress {} with {} queued",
                    queue.progress().current(),
                    queue.last_queued()
                ));
                return self.lose_device(device, device.error().unwrap_or(DeviceError::Hung));
            }
        }
    }

    /// The device is about to be destroyed: its doorbells are disconnected and its work runs out, or is cut off if the
    /// device is lost or the work does not end. Its objects can be destroyed without waiting afterwards.
    pub(crate) fn close_device(&self, device: &Arc<Device>) {
        self.drain(&self.disconnect_device(device).iter().map(|queue| &**queue).collect::<Vec<_>>());
        self.drain_contexts(device);
    }

    /// As [`VidSch::close_device`] for a device whose process is gone. What the hardware has of it runs out; work that has stood still
    /// for a while may wait for a fence that only this process could signal from the CPU, and such waits fall through. What the
    /// system itself has queued when nothing of the device runs any more is dropped: nobody is left whose work it is.
    ///
    /// Work that makes no progress for TdrDelay by the machine's clock is given up, and a context that does not leave its engine in
    /// another TdrDelay costs the engine a reset. So a device whose work hangs is gone after two of them.
    pub(crate) fn close_device_of_exit(&self, device: &Arc<Device>) {
        let work = Remains { queues: self.disconnect_device(device), contexts: self.packet_contexts_of(device) };
        let _running = self.keep_running_if_work(device, || !work.has_ended() || work.is_holding());
        let mut limit = self.timeouts.limit();
        let (mut before, mut stands) = (work.done(), false);
        while device.error().is_none() && !self.verifier.is_stopped() {
            // What is let go of may signal what holds more, without anything for the hardware between them.
            while work.has_ended() {
                let unsettled = work.unsettled();
                self.let_go_of_held(&work);
                if work.has_ended() && work.unsettled() == unsettled {
                    // Time is for an interrupt that never comes.
                    let waits = work.is_about_to_move() && self.timeouts.clock().now() < limit;
                    if !waits || device.error().is_some() || self.verifier.is_stopped() {
                        return work.drop_held();
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
            let ended = self.await_progress(&work, limit);
            let done = work.done();
            if done != before {
                limit = self.timeouts.limit();
            } else if !ended && stands {
                self.fall_through(device);
            }
            (stands, before) = (done == before && !ended, done);
            if stands && self.timeouts.clock().now() >= limit {
                self.verifier.log(format!("work of a process that is gone stands still at {before:?}"));
                device.set_error(DeviceError::Hung);
            }
        }
        self.lose_device(device, device.error().unwrap_or(DeviceError::Stopped));
    }

    /// Waits for a while until what the hardware has of a device is done; true if it is.
    fn await_progress(&self, work: &Remains, limit: Duration) -> bool {
        let _waits = self.timeouts.clock().deadline(limit);
        let end = Instant::now() + STANDSTILL;
        let conditions: Vec<_> =
            work.queues.iter().map(|queue| (Arc::clone(queue.progress()), queue.on_hardware())).collect();
        if self.wait_told(&conditions, || end.saturating_duration_since(Instant::now())) != STATUS_SUCCESS {
            return false;
        }
        work.contexts.iter().all(|context| context.wait_until_run(end))
    }

    /// Moves on what waited for fences that the last work has signalled.
    fn let_go_of_held(&self, work: &Remains) {
        if !work.is_holding() {
            return;
        }
        if let Ok(adapter) = self.adapter() {
            adapter.flush_interrupts();
        }
        work.queues.iter().for_each(|queue| queue.advance());
        work.contexts.iter().for_each(|context| context.advance());
    }

    /// Disconnects the doorbells of a device and returns its queues.
    fn disconnect_device(&self, device: &Device) -> Vec<Arc<HwQueue>> {
        let queues: Vec<_> = self.contexts_of(device).iter().flat_map(|context| context.queues()).collect();
        for doorbell in queues.iter().filter_map(|queue| queue.doorbell()) {
            doorbell.finish();
        }
        queues
    }

    /// Ends GPU waits on fences of a device whose process is gone, unless another process may signal them.
    fn fall_through(&self, device: &Device) {
        let own = |fence: &Arc<Fence>| {
            let opened = fence.opened();
            !fence.is_shareable()
                && opened.iter().all(|open| !open.is_of_queue())
                && opened.iter().any(|open| open.device() == device.id())
        };
        self.fences.all().iter().filter(|fence| own(fence)).for_each(|fence| fence.fall_through());
    }

    /// Lets user mode see at every doorbell of a device in error that it is lost.
    pub(crate) fn show_aborts(&self, device: &Device) {
        let contexts = self.contexts_of(device);
        let doorbells = contexts.iter().flat_map(|context| context.queues()).filter_map(|queue| queue.doorbell());
        doorbells.for_each(|doorbell| doorbell.show_abort());
    }

    /// The process of a device was terminated: the device is in error, its contexts are suspended, its doorbells
    /// disconnected; nothing is waited for. Its objects can be destroyed afterwards. [user-mode-work-submission: abnormal
    /// process termination]
    pub(crate) fn abandon_device(&self, device: &Arc<Device>) {
        self.lose_device(device, DeviceError::Stopped);
    }

    /// A device could not get memory that it cannot do without.
    pub(crate) fn starve_device(&self, device: &Arc<Device>) {
        self.lose_device(device, DeviceError::OutOfMemory);
    }

    /// User mode gives a device up: it is in error as after a fault of its work. [d3dkmthk: D3DKMTMarkDeviceAsError]
    pub(crate) fn give_device_up(&self, device: &Arc<Device>) {
        self.lose_device(device, DeviceError::Refused);
    }

    /// The device is in error: its doorbells say ABORT, then its waiters are released, then its contexts leave the hardware
    /// and its doorbells are disconnected there. When the call returns, nothing of the device touches memory any more, as
    /// far as its engines obey.
    pub(crate) fn lose_device(&self, device: &Arc<Device>, error: DeviceError) {
        self.lose_device_by(Waiter::Other, device, error);
    }

    /// As [`VidSch::lose_device`], for a thread of either kind.
    pub(crate) fn lose_device_by(&self, waiter: Waiter, device: &Arc<Device>, error: DeviceError) {
        device.set_error(error);
        let work = self.device_work(device);
        let mut lost = work.as_ref().map(|work| lock(&work.lost));
        if lost.as_deref() == Some(&true) {
            return;
        }
        let contexts = self.contexts_of(device);
        let fences = self.release(device);
        // All of them are asked before the first is waited for, so that engines which hang cost no more time than one.
        let limit = self.timeouts.limit();
        let asked: Vec<_> = contexts.iter().map(|context| context.ask_off()).collect();
        for (context, asked) in contexts.iter().zip(&asked) {
            if !context.leaves(asked, limit) {
                self.verifier
                    .log(format!("a context on node {} of a lost device did not leave its engine", context.node()));
                self.recovery().recover_while_losing(device, context.node(), Subject::Context(Arc::clone(context)));
            }
            for queue in context.queues() {
                queue.drop_held();
                // Also of queues that were created meanwhile.
                queue.progress().end(STATUS_DEVICE_REMOVED);
                if let Some(doorbell) = queue.doorbell() {
                    doorbell.abort();
                }
            }
        }
        for context in self.packet_contexts_of(device) {
            if !context.abandon(waiter) {
                self.verifier.log(format!("packets of a lost device did not leave node {}", context.node()));
                let suspects = self.nodes.get(context.node() as usize).and_then(|node| node.state().suspects());
                if let Some(suspects) = suspects {
                    self.recovery().recover_while_losing(device, context.node(), Subject::Packets(suspects));
                }
            }
        }
        for fence in &fences {
            fence.fence().device_lost();
        }
        if let Some(lost) = lost.as_deref_mut() {
            *lost = true;
        }
    }

    /// Ends every wait that a device in error keeps, after its doorbells say ABORT. Its open fences.
    pub(crate) fn release(&self, device: &Device) -> Vec<Arc<SyncObject>> {
        // Whoever is released below finds the reason at its doorbell.
        self.show_aborts(device);
        for queue in self.contexts_of(device).iter().flat_map(|context| context.queues()) {
            queue.count_given_up();
            queue.progress().end(STATUS_DEVICE_REMOVED);
        }
        let opened = self.fences.all().into_iter().flat_map(|fence| fence.opened());
        let fences: Vec<_> = opened.filter(|open| open.device() == device.id()).collect();
        for fence in &fences {
            fence.end(STATUS_DEVICE_REMOVED);
        }
        fences
    }

    /// An engine is idle: its doorbells are disconnected, then its power component goes from F0 to F1. The next submission
    /// connects a doorbell again, which brings F0 back. If one came meanwhile, the engine stays in F0 and says so again when
    /// it is idle again. [user-mode-work-submission: engine state transitions]
    /// False if it stays as it is.
    pub(crate) fn engine_idle(&self, node: u32) -> bool {
        let Ok(adapter) = self.adapter() else { return false };
        let queues = self.active_queues();
        for doorbell in
            queues.iter().filter(|queue| queue.context().node() == node).filter_map(|queue| queue.doorbell())
        {
            doorbell.disconnect();
        }
        adapter.power().enter_f1_if_idle(&adapter, node, || self.is_engine_idle(node))
    }

    /// The driver says that an engine is idle. A report about an engine in F1, and a repeated one about an engine whose unfinished work has not moved since
    /// the first, are logged and change nothing; a submission that came after the report is no fault of the driver.
    pub(super) fn engine_reported_idle(&self, node: u32) {
        let Ok(adapter) = self.adapter() else { return };
        let below_f0 = adapter.power().is_below_f0(node);
        self.engine_idle(node);
        let unfinished = self.trace_of_work(node);
        let before = match unfinished {
            Some(trace) => lock(&self.claims).insert(node, trace),
            None => lock(&self.claims).remove(&node),
        };
        if below_f0 {
            self.verifier.log(format!("the driver reported engine {node} to be in transition to F1, where it is"));
        } else if unfinished.is_some() && unfinished == before {
            self.verifier.log(format!(
                "the driver reported engine {node} to be in transition to F1 twice, with the same work unfinished"
            ));
        }
    }

    /// What is unfinished on a node, as a number that changes with everything that is done or submitted; `None` if nothing is.
    fn trace_of_work(&self, node: u32) -> Option<u64> {
        let mut trace = None;
        let mut add = |name: u64, value: u64| trace = Some(mix(trace.unwrap_or_default(), name, value));
        if let Some(state) = self.nodes.get(node as usize).map(|node| node.state()).filter(|state| !state.is_idle()) {
            let (flying, queued) = state.counts();
            add(0, u64::from(state.fences.last_completed()));
            add(flying as u64 + 1, queued as u64);
        }
        // The engine knows nothing of the work of processes that are suspended.
        let works =
            |queue: &HwQueue| !queue.context().device().process.space.suspension.is_suspended() && !queue.is_done();
        for queue in self.active_queues().iter().filter(|queue| queue.context().node() == node && works(queue)) {
            let key = queue.handles().0.raw().addr() as u64;
            add(key, queue.last_queued());
            add(key + 1, queue.progress().current());
        }
        trace
    }

    /// True if nothing is under way on a node and no doorbell of it can be rung. User mode announces a submission before it
    /// becomes visible to the engine, so what the engine may have found is known here.
    fn is_engine_idle(&self, node: u32) -> bool {
        let packets = self.nodes.get(node as usize).is_none_or(|node| node.state().is_idle());
        let quiet = |queue: &Arc<HwQueue>| {
            queue.context().node() != node
                || queue.is_idle() && queue.doorbell().is_none_or(|doorbell| doorbell.is_disconnected())
        };
        packets && self.active_queues().iter().all(quiet)
    }

    /// What was submitted to a node, or to all, as a number that changes with everything that is; `None` unless all of it is done.
    /// Packets that wait are not, wherever they wait. Devices in error have nothing to do any more.
    pub(crate) fn trace_of_idle(&self, node: Option<u32>) -> Option<u64> {
        let concerned = |other: u32| node.is_none_or(|node| node == other);
        let mut trace = 0_u64;
        for (number, node) in (0_u32..).zip(&self.nodes).filter(|(number, _)| concerned(*number)) {
            let state = node.state();
            if !state.is_idle() {
                return None;
            }
            trace = mix(trace, u64::from(number), u64::from(state.fences.last_completed()));
        }
        if self.packet_contexts.all().iter().any(|context| concerned(context.node()) && context.held() != 0) {
            return None;
        }
        for queue in self.active_queues().iter().filter(|queue| concerned(queue.context().node())) {
            if queue.context().device().error().is_some() {
                continue;
            }
            if !queue.is_idle() {
                return None;
            }
            trace = mix(trace, queue.handles().0.raw().addr() as u64, queue.last_queued());
        }
        Some(trace)
    }

    /// Queues of all devices that may have work under way; of the others none can ring.
    fn active_queues(&self) -> Vec<Arc<HwQueue>> {
        let works: Vec<_> = lock(&self.devices).values().cloned().collect();
        works.iter().flat_map(|work| work.active.queues(&self.looks)).collect()
    }

    /// Suspends every context that is not suspended, and returns those.
    ///
    /// # Errors
    /// The same, after a context did not leave its engine in time.
    pub(crate) fn suspend_everything(&self) -> Result<Vec<Arc<HwContext>>, Vec<Arc<HwContext>>> {
        let mut suspended = Vec::new();
        let mut waits = Vec::new();
        for context in self.contexts.all() {
            let asked = context.ask_off();
            if matches!(asked.answer, Ok(Some(_))) {
                waits.push((Arc::clone(&context), asked));
                suspended.push(context);
            }
        }
        self.pause_packets(true);
        let limit = self.timeouts.limit();
        let left = waits.iter().all(|(context, asked)| {
            let left = context.leaves(asked, limit);
            if !left && !self.verifier.is_stopped() {
                self.verifier.log(format!(
                    "DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED of a context of node {} did not come within TdrDelay after DxgkDdiSuspendContext answered STATUS_PENDING: \
                     the device stays in D0 [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]",
                    context.node()
                ));
            }
            left
        });
        let packets = (0..self.nodes.len() as u32)
            .all(|node| self.wait_node(node, self.timeouts.delay(), |state| !state.is_rendering()));
        if left && packets { Ok(suspended) } else { Err(suspended) }
    }

    /// Render packets leave the hardware and wait, or go on.
    pub(crate) fn pause_packets(&self, paused: bool) {
        for (number, node) in (0..).zip(&self.nodes) {
            node.state().set_paused(paused);
            self.dispatch(number);
        }
    }

    /// Disconnects every doorbell.
    pub(crate) fn disconnect_everything(&self) {
        let user = |doorbell: &Arc<Doorbell>| vec![user_of(doorbell.queue().context().device())];
        beside_each_other(self.doorbells.all(), user, |doorbell| doorbell.disconnect());
    }

    /// Waits until every packet that was submitted has ended; false if one does not in time.
    pub(crate) fn packets_end(&self) -> bool {
        (0u32..self.nodes.len() as u32).all(|node| self.wait_node(node, SLEEP_LIMIT, NodeState::is_off_hardware))
    }

    /// Writes MonitoredValues in memory of a device that was not in D0 again: somebody may have begun to wait meanwhile.
    pub(crate) fn renew_monitored_values(&self) {
        self.fences.all().iter().filter(|fence| fence.is_local().1).for_each(|fence| fence.renew());
    }

    /// The adapter's function was pulled out: every packet counts as complete and every device is lost, whatever it waits for.
    pub(crate) fn abandon_hardware(&self, adapter: &Port) {
        adapter.lose();
        for node in &self.nodes {
            node.state().abandon();
            node.announce();
        }
        self.lose_everything();
        // Of devices without a context.
        for open in self.fences.all().into_iter().flat_map(|fence| fence.opened()) {
            open.end(STATUS_DEVICE_REMOVED);
        }
    }

    /// Every device that has a context is lost.
    fn lose_everything(&self) {
        let (contexts, packet_contexts) = (self.contexts.all(), self.packet_contexts.all());
        let of_contexts = contexts.iter().map(|context| context.device());
        let devices = of_contexts.chain(packet_contexts.iter().map(|context| context.device()));
        let lose = |device: &Arc<Device>| self.lose_device(device, DeviceError::Stopped);
        beside_each_other(devices, |device| vec![user_of(device)], lose);
    }

    /// The adapter stops: every device is lost and its objects leave the driver, those of one process newest first.
    pub(super) fn close_everything(&self) {
        self.lose_everything();
        let contexts = self.contexts.all().into_iter().rev();
        beside_each_other(contexts, |context| vec![user_of(context.device())], |context| context.destroy());
        let contexts = self.packet_contexts.all().into_iter().rev();
        beside_each_other(contexts, |context| vec![user_of(context.device())], |context| context.destroy());
        let users = |fence: &Arc<Fence>| fence.opened().iter().filter_map(|open| open.user()).collect();
        beside_each_other(self.fences.all(), users, |fence| fence.abandon());
    }
}

/// The user-mode side of the process of a device.
fn user_of(device: &Device) -> Arc<dyn UserSpace> {
    Arc::clone(device.process.kept.user())
}

/// Adds a name and a value to a sum, in whichever order they come.
fn mix(sum: u64, name: u64, value: u64) -> u64 {
    let word = (name ^ value.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum.wrapping_add((word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

impl IdleEngines for VidSch {
    /// The driver reported the engine idle: the worker thread decides whether it enters F1.
    fn note_idle(&self, node: u32) {
        self.worker.add(Work::EngineIdle(node));
    }
}
