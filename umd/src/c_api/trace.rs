//! What queues tell a tracing tool, for C.

use alloc::boxed::Box;
use core::ffi::c_void;

use super::{
    CQueue, FenceHandle, Out, QueueHandle, finish,
    handles::{with, with_mut},
};
use crate::{Fence, QueueEvent, Tracer};

/// What happened on a queue. It uses the members named.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A wait of the GPU for a fence was recorded: fence, value.
    WaitQueued = 0,
    /// A signal of a fence by the GPU was recorded: fence, value.
    SignalQueued = 1,
    /// A submission was handed over: value is its progress value; rung is 1 if a doorbell was rung for it, 0 if it went through
    /// the kernel.
    Submitted = 2,
    /// The doorbell had been taken away and was connected again: value is the progress value that was submitted last.
    Reconnected = 3,
}

/// One thing that happened on a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CQueueEvent {
    /// A campanile_event_kind.
    pub kind: i32,
    /// The operating system's handle of the fence.
    pub fence: u32,
    /// Value of the fence or progress value.
    pub value: u64,
    /// 1 if a doorbell was rung, otherwise 0.
    pub rung: i32,
}

/// Is told of an event, on the thread that uses the queue. It should note and return; the queue is busy meanwhile.
pub type TracerFunction = Option<unsafe extern "C" fn(context: *mut c_void, event: *const CQueueEvent)>;

/// A tracer of C.
struct CTracer {
    function: unsafe extern "C" fn(context: *mut c_void, event: *const CQueueEvent),
    context: *mut c_void,
}

// SAFETY: the program that sets a tracer guarantees that it may be called with its context on every thread that uses the queue.
unsafe impl Send for CTracer {}

impl Tracer for CTracer {
    fn event(&mut self, event: QueueEvent) {
        let event = CQueueEvent::from(event);
        // SAFETY: the function may be called until it is replaced or its queue destroyed, and the event lives during the call.
        unsafe { (self.function)(self.context, &raw const event) };
    }
}

impl From<QueueEvent> for CQueueEvent {
    fn from(event: QueueEvent) -> Self {
        let (kind, fence, value, rung) = match event {
            QueueEvent::WaitQueued { fence, value } => (EventKind::WaitQueued, fence, value, false),
            QueueEvent::SignalQueued { fence, value } => (EventKind::SignalQueued, fence, value, false),
            QueueEvent::Submitted { progress, rung } => (EventKind::Submitted, 0, progress, rung),
            QueueEvent::Reconnected { progress } => (EventKind::Reconnected, 0, progress, false),
        };
        Self { kind: kind as i32, fence, value, rung: i32::from(rung) }
    }
}

/// Tells `tracer` of everything that happens on the queue from now on; null ends it.
///
/// # Safety
/// `tracer` may be called with `context`, from every thread that uses the queue, until it is replaced or the queue destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_set_tracer(
    queue: QueueHandle,
    tracer: TracerFunction,
    context: *mut c_void,
) -> i32 {
    finish(with_mut(queue.id, |queue: &mut CQueue| {
        let tracer = tracer.map(|function| -> Box<dyn Tracer> { Box::new(CTracer { function, context }) });
        queue.queue.set_tracer(tracer);
        Ok(())
    }))
}

/// The operating system's handle of the queue, by which logs and traces name it.
///
/// # Safety
/// `object` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_object(queue: QueueHandle, object: *mut u32) -> i32 {
    finish((|| {
        let out = Out::new(object)?;
        let handle = with_mut(queue.id, |queue: &mut CQueue| Ok(queue.queue.handle()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(handle) };
        Ok(())
    })())
}

/// The operating system's handle of the fence, by which logs and traces name it.
///
/// # Safety
/// `object` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_object(fence: FenceHandle, object: *mut u32) -> i32 {
    finish((|| {
        let out = Out::new(object)?;
        let handle = with(fence.id, |fence: &Fence| Ok(fence.handle()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(handle) };
        Ok(())
    })())
}
