//! The worker thread: what reports ask for that only PASSIVE_LEVEL may do.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::verifier::Listener;
use wddm_ddi::status::{NTSTATUS, STATUS_DEVICE_REMOVED};

use crate::tdr_report::TdrReason;

use super::fences::batch;
use super::objects::device::{Device, DeviceError};
use super::objects::render_adapter::RenderAdapter;
use super::objects::worker::Work;
use super::scheduler::VidSch;
use super::update_queue;

impl VidSch {
    /// Starts the threads. They look at the adapter, so that its scheduler and its memory manager have to be known before.
    pub(crate) fn start_threads(self: &Arc<Self>) {
        let target = Arc::downgrade(self);
        let told = Weak::clone(&target);
        let stopped: Arc<Listener> = Arc::new(move || {
            if let Some(sch) = told.upgrade() {
                sch.worker.add(Work::EndWaits);
            }
        });
        self.verifier.listen(&stopped);
        let _ = self.stop_listener.set(stopped);
        self.worker.start("vidsch", &self.verifier, move |receive| run(&receive, &target));
        self.updates.start("vidsch-updates", &self.verifier, |receive| update_queue::run(&receive));
    }
}

/// Interval at which the worker checks time slices while several packet contexts compete for a node.
const TICK: Duration = Duration::from_millis(5);

/// The next work; `None` when it is time to look for timeouts, or at the time slices of contexts.
///
/// # Errors
/// The scheduler stops.
fn next(receive: &Receiver<Work>, target: &Weak<VidSch>) -> Result<Option<Work>, ()> {
    let sch = target.upgrade();
    let slices = sch.as_ref().is_some_and(|sch| sch.is_contended()).then_some(TICK);
    let timeouts = sch.and_then(|sch| sch.timeouts.check_interval());
    let check_interval = slices.into_iter().chain(timeouts).min();
    match check_interval.map(|check_interval| receive.recv_timeout(check_interval)) {
        None => receive.recv().map(Some).map_err(|_| ()),
        Some(Ok(work)) => Ok(Some(work)),
        Some(Err(RecvTimeoutError::Timeout)) => Ok(None),
        Some(Err(RecvTimeoutError::Disconnected)) => Err(()),
    }
}

/// The thread for what reports ask for.
pub(super) fn run(receive: &Receiver<Work>, target: &Weak<VidSch>) {
    while let Ok(work) = next(receive, target) {
        let Some(sch) = target.upgrade() else { return };
        let Some(work) = work else {
            if let Ok(adapter) = sch.adapter()
                && let Some(_powered) = adapter.machine.gate().enter_awake()
            {
                sch.end_time_slices();
            }
            // With a manual clock the test that moves it looks for timeouts; this wake-up may have been for time slices only.
            if sch.timeouts.check_interval().is_some() {
                sch.recovery().look_for_timeouts();
            }
            continue;
        };
        let Ok(adapter) = sch.adapter() else { return };
        do_work(&sch, &adapter, work);
    }
}

fn do_work(sch: &Arc<VidSch>, adapter: &RenderAdapter, work: Work) {
    let gate = adapter.machine.gate();
    match work {
        Work::Lose(device, error) => {
            let _powered = gate.enter(&adapter.machine);
            sch.lose_device(&device, error);
        }
        Work::EngineIdle(node) => {
            // A device in D3 has no component in F0.
            if let Some(_powered) = gate.enter_awake() {
                sch.engine_reported_idle(node);
            }
        }
        Work::SchedulingLog(node) => {
            let _powered = gate.enter(&adapter.machine);
            sch.renew_scheduling_log(node);
        }
        Work::Recover(complaint) => sch.recovery().recover(&[complaint]),
        Work::PutBack => sch.recovery().resume_suspended(),
        Work::ResetAdapter(reason, resets) => sch.recovery().reset_adapter(reason, resets),
        Work::Force(node, done) => {
            sch.recovery().force(node);
            // Whoever asked waits for this.
            let _ = done.send(());
        }
        Work::Advance(queue) => {
            let _powered = gate.enter(&adapter.machine);
            if let Some(queue) = queue.upgrade() {
                queue.advance();
            }
        }
        Work::AdvanceContext(context) => {
            let _powered = gate.enter(&adapter.machine);
            if let Some(context) = context.upgrade() {
                context.advance();
            }
        }
        Work::Dispatch(node) => {
            let _powered = gate.enter(&adapter.machine);
            sch.dispatch(node);
        }
        // Looked at when the next work is waited for.
        Work::CheckTimeSlices => {}
        Work::ForgetWaits(fences) => {
            batch::remove_over(&fences.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
        }
        Work::EndWaits => sch.end_waits_for_events(),
        Work::Other(act) => {
            let _powered = gate.enter(&adapter.machine);
            act();
        }
    }
}

impl VidSch {
    /// Ends the waits that signal an event, on a machine that has stopped; a thread that waits looks for that itself. The fences of other adapters are those of their schedulers.
    fn end_waits_for_events(&self) {
        for fence in [true, false].into_iter().flat_map(|native| self.watched_fences(native)) {
            fence.lock_waits().watch.list.iter().for_each(|wait| wait.finish_event(STATUS_DEVICE_REMOVED));
        }
    }

    /// Has the worker thread lose a device.
    pub(crate) fn lose_soon(&self, device: Arc<Device>, error: DeviceError) {
        self.worker.add(Work::Lose(device, error));
    }

    /// Has the worker thread do something, without any locks and with the device in D0. It is not done if the scheduler stops before.
    pub(crate) fn do_soon(&self, act: impl FnOnce() + Send + 'static) {
        self.worker.add(Work::Other(Box::new(act)));
    }

    /// Has the worker thread reset the adapter, unless it was reset more often than `resets`.
    pub(crate) fn reset_adapter_soon(&self, reason: TdrReason, resets: u64) {
        self.worker.add(Work::ResetAdapter(reason, resets));
    }

    /// Has the worker thread recover from a timeout that a program asks for, and waits until it has. The caller is not inside the power gate.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED for a scheduler that has stopped.
    pub(crate) fn force_timeout(&self, node: Option<u32>) -> Result<(), NTSTATUS> {
        let (send, done) = channel();
        self.worker.add(Work::Force(node, send));
        done.recv().map_err(|_| STATUS_DEVICE_REMOVED)
    }

    /// Has the worker thread resume the contexts that the watchdog had suspended and that have left their engines: one may have, or the device is
    /// in D0 again.
    pub(crate) fn resume_suspended_soon(&self) {
        self.worker.add(Work::PutBack);
    }
}
