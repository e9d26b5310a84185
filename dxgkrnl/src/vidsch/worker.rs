//! The worker thread: what reports ask for that only PASSIVE_LEVEL may do.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::{NTSTATUS, STATUS_DEVICE_REMOVED};

use crate::vidsch::{Device, DeviceError, RenderAdapter};

use super::VidSch;
use super::batch;
use super::fence::Fence;
use super::hw_queue::HwQueue;
use super::packet_context::PacketContext;
use super::timeouts::Complaint;
use crate::tdr_report::TdrReason;

/// One piece of work.
pub(super) enum Work {
    /// A device is lost.
    Lose(Arc<Device>, DeviceError),
    /// An engine is idle and wants to enter F1.
    EngineIdle(u32),
    /// The scheduling log of a node is half full.
    SchedulingLog(u32),
    /// An engine hangs.
    Recover(Complaint),
    /// Contexts whose suspension was requested may have left their engines.
    PutBack,
    /// The adapter is to be reset, unless it was reset more often than so.
    ResetAdapter(TdrReason, u64),
    /// A program asks for a timeout of the engine of a node, or of the adapter, and waits until it is recovered from.
    Force(Option<u32>, Sender<()>),
    /// The reason for which the queue waited is gone: its next submissions are examined.
    Advance(Weak<HwQueue>),
    /// A packet of a context is done, or what held it over.
    AdvanceContext(Weak<PacketContext>),
    /// Packets of a node wait for the driver.
    Dispatch(u32),
    /// Packet contexts wait for their time slices.
    CheckTimeSlices,
    /// A wait that was on these fences is over.
    ForgetWaits(Vec<Weak<Fence>>),
    /// Something that whoever asked for it may not do where it is.
    Other(Box<dyn FnOnce() + Send>),
}

/// A thread that does work of a kind, while the scheduler runs.
pub(super) struct Worker<W>(Mutex<Stage<W>>);

enum Stage<W> {
    /// Work is taken, and waits for the thread.
    Made(Sender<W>, Receiver<W>),
    Running(Sender<W>, JoinHandle<()>),
    Stopped,
}

impl<W> Default for Worker<W> {
    fn default() -> Self {
        let (send, receive) = channel();
        Self(Mutex::new(Stage::Made(send, receive)))
    }
}

impl<W: Send + 'static> Worker<W> {
    /// Starts the thread, which does what it receives. A host that has no thread left leaves the work undone, and the log says so.
    pub(super) fn start(&self, name: &str, sch: &VidSch, run: impl FnOnce(Receiver<W>) + Send + 'static) {
        let mut stage = lock(&self.0);
        match core::mem::replace(&mut *stage, Stage::Stopped) {
            Stage::Made(send, receive) => {
                match std::thread::Builder::new().name(name.to_owned()).spawn(move || run(receive)) {
                    Ok(thread) => *stage = Stage::Running(send, thread),
                    Err(error) => sch.verifier.log(format!("the scheduler has no thread {name}: {error}")),
                }
            }
            other => *stage = other,
        }
    }

    /// Adds work; none is taken any more after [`Worker::stop`].
    pub(super) fn add(&self, work: W) {
        if let Stage::Made(send, _) | Stage::Running(send, _) = &*lock(&self.0) {
            // Fails only when the thread has ended, with the machine.
            let _ = send.send(work);
        }
    }

    /// Finishes what was added and ends the thread.
    pub(super) fn stop(&self) {
        let stage = core::mem::replace(&mut *lock(&self.0), Stage::Stopped);
        let Stage::Running(send, thread) = stage else { return };
        drop(send);
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
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
        Work::Other(act) => {
            let _powered = gate.enter(&adapter.machine);
            act();
        }
    }
}

impl VidSch {
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
