//! The worker thread: what reports ask for that only PASSIVE_LEVEL may do.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;

use crate::device::{Device, DeviceError};
use crate::machine::lock;

use super::VidSch;
use super::batch;
use super::fence::Fence;
use super::hw_queue::HwQueue;

/// One piece of work.
pub(super) enum Work {
    /// A device is lost.
    Lose(Arc<Device>, DeviceError),
    /// An engine is idle and wants to enter F1.
    EngineIdle(u32),
    /// An engine hangs.
    EngineHung(u32),
    /// What held a queue is over.
    Advance(Weak<HwQueue>),
    /// A wait that was on these fences is over.
    ForgetWaits(Vec<Weak<Fence>>),
}

/// The thread, while the scheduler runs.
#[derive(Default)]
pub(super) struct Worker {
    /// Lock order: a leaf.
    running: Mutex<Option<(Sender<Work>, JoinHandle<()>)>>,
}

impl Worker {
    /// Starts the thread. A host that has no thread left leaves the work undone, and the log says so.
    pub(super) fn start(&self, sch: &Arc<VidSch>) {
        let (send, receive) = channel();
        let target = Arc::downgrade(sch);
        let thread = std::thread::Builder::new().name("vidsch".to_owned()).spawn(move || run(&receive, &target));
        match thread {
            Ok(thread) => *lock(&self.running) = Some((send, thread)),
            Err(error) => sch.verifier.log(format!("the scheduler has no worker thread: {error}")),
        }
    }

    /// Adds work; none is taken any more after [`Worker::stop`].
    pub(super) fn add(&self, work: Work) {
        if let Some((send, _)) = lock(&self.running).as_ref() {
            // Fails only when the thread has ended, with the machine.
            let _ = send.send(work);
        }
    }

    /// Finishes what was added and ends the thread.
    pub(super) fn stop(&self) {
        let Some((send, thread)) = lock(&self.running).take() else { return };
        drop(send);
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

fn run(receive: &Receiver<Work>, target: &Weak<VidSch>) {
    while let Ok(work) = receive.recv() {
        let Some(sch) = target.upgrade() else { return };
        let Ok(adapter) = sch.adapter() else { return };
        let gate = adapter.machine.gate();
        match work {
            Work::Lose(device, error) => {
                let _powered = gate.enter(&adapter.machine);
                sch.lose_device(&device, error);
            }
            Work::EngineIdle(node) => {
                // A device that sleeps needs no rest.
                if let Some(_powered) = gate.enter_awake() {
                    sch.engine_idle(node);
                }
            }
            Work::EngineHung(node) => {
                let _powered = gate.enter(&adapter.machine);
                sch.engine_hung(node);
            }
            Work::Advance(queue) => {
                let _powered = gate.enter(&adapter.machine);
                if let Some(queue) = queue.upgrade() {
                    queue.advance();
                }
            }
            Work::ForgetWaits(fences) => {
                batch::remove_over(&fences.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
            }
        }
    }
}
