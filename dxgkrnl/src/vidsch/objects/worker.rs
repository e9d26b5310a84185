//! Work of the scheduler that only PASSIVE_LEVEL may do, and the threads that do it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use nt::lock::{Mutex, lock};
use nt::verifier::Verifier;

use crate::tdr_report::TdrReason;

use super::device::{Device, DeviceError};
use super::fence::Fence;
use super::hardware::HwQueue;
use super::packet_context::PacketContext;
use super::timeouts::Complaint;

/// One piece of work.
pub(in crate::vidsch) enum Work {
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
    /// The machine has stopped: nobody signals what is waited for.
    EndWaits,
    /// Something that whoever asked for it may not do where it is.
    Other(Box<dyn FnOnce() + Send>),
}

/// A thread that does work of a kind, while the scheduler runs.
pub(in crate::vidsch) struct Worker<W>(Mutex<Stage<W>>);

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
    pub(in crate::vidsch) fn start(
        &self,
        name: &str,
        verifier: &Verifier,
        run: impl FnOnce(Receiver<W>) + Send + 'static,
    ) {
        let mut stage = lock(&self.0);
        match core::mem::replace(&mut *stage, Stage::Stopped) {
            Stage::Made(send, receive) => {
                match std::thread::Builder::new().name(name.to_owned()).spawn(move || run(receive)) {
                    Ok(thread) => *stage = Stage::Running(send, thread),
                    Err(error) => verifier.log(format!("the scheduler has no thread {name}: {error}")),
                }
            }
            other => *stage = other,
        }
    }

    /// Adds work; none is taken any more after [`Worker::stop`].
    pub(in crate::vidsch) fn add(&self, work: W) {
        if let Stage::Made(send, _) | Stage::Running(send, _) = &*lock(&self.0) {
            // Fails only when the thread has ended, with the machine.
            let _ = send.send(work);
        }
    }

    /// Finishes what was added and ends the thread.
    pub(in crate::vidsch) fn stop(&self) {
        let stage = core::mem::replace(&mut *lock(&self.0), Stage::Stopped);
        let Stage::Running(send, thread) = stage else { return };
        drop(send);
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}
