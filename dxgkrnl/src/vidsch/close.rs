//! The work of devices ends that are closed, or whose process or adapter ends, and is held while an adapter leaves D0.
//! [user-mode-work-submission: normal process termination]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nt::user_space::UserSpace;
use wddm_ddi::status::*;

use crate::port::Port;
use crate::vidmm::joint_limit::beside_each_other;

use super::objects::device::{Device, DeviceError};
use super::objects::fence::Fence;
use super::objects::hardware::{Doorbell, HwContext, HwQueue};
use super::objects::node::NodeState;
use super::objects::packet_context::PacketContext;
use super::objects::timeouts::POLL_INTERVAL;
use super::scheduler::VidSch;

/// Time limit for the packets of a device that is leaving D0.
const SLEEP_LIMIT: Duration = Duration::from_secs(2);

/// Time without progress after which the queues of a process that has ended are taken to be blocked.
const STANDSTILL: Duration = Duration::from_millis(50);

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
    fn drain_contexts(&self, device: &Device) {
        for context in self.packet_contexts_of(device) {
            if !context.drain() {
                return self.lose_blocked(&context);
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
    fn close_everything(&self) {
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

impl VidSch {
    /// Ends all work of processes: devices are lost, and everything made for them is destroyed on the driver. System
    /// contexts stay usable until VidMm destroys them.
    pub(crate) fn stop(&self) {
        {
            let mut stopped = self.stopped.write();
            if core::mem::replace(&mut *stopped, true) {
                return;
            }
        }
        self.residency_slices.stop();
        self.worker.stop();
        self.updates.stop();
        self.recovery().stop();
        self.close_everything();
        self.stop_scheduling_logs();
    }
}
