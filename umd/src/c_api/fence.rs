//! Kinds of fences, and waits and signals of the operating system, for C.

use super::{
    CQueue, DeviceHandle, Fault, FenceHandle, Out, QueueHandle, Status, finish, handles, make_fence, share::access,
};
use crate::{Fence, FenceKind, FenceOptions, Queue, Sharing};

/// Type of a fence in the operating system.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CFenceKind {
    /// Native where the GPU has them, monitored elsewhere. No fence is of this kind.
    Auto = 0,
    /// The GPU waits for it by itself.
    Native = 1,
    /// The GPU signals it; the operating system delays work that waits for it. Not for queues with user-mode submission.
    Monitored = 2,
}

/// The devices and processes that can have a fence besides the device it is created on.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CSharing {
    /// No other device.
    Private = 0,
    /// Devices of the same GPU, in this process and others.
    Adapter = 1,
    /// Devices of other GPUs too, as for campanile_fence_create_cross_adapter.
    CrossAdapter = 2,
}

/// Properties of a new fence.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CFenceOptions {
    /// The value at first.
    pub initial: u64,
    /// A campanile_kind.
    pub kind: i32,
    /// A campanile_sharing.
    pub sharing: i32,
    /// What may be done with the fence through this handle: a campanile_access.
    pub access: i32,
    /// Not 0 if the fence keeps its value when its device is lost; the value of others becomes all ones.
    pub keeps_value: i32,
}

fn options(given: &CFenceOptions) -> Result<FenceOptions, Fault> {
    Ok(FenceOptions {
        initial: given.initial,
        kind: match given.kind {
            0 => None,
            1 => Some(FenceKind::Native),
            2 => Some(FenceKind::Monitored),
            _ => return Err(Status::BadArgument.into()),
        },
        sharing: match given.sharing {
            0 => Sharing::Private,
            1 => Sharing::Adapter,
            2 => Sharing::CrossAdapter,
            _ => return Err(Status::BadArgument.into()),
        },
        access: access(given.access)?,
        purpose: 0,
        keeps_value: given.keeps_value != 0,
    })
}

/// Creates a fence with these properties. CAMPANILE_STATUS_NATIVE_FENCES_DISABLED if a native one was asked for by name and the GPU has none.
///
/// # Safety
/// `options` is readable or null; `fence` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_create_with(
    device: DeviceHandle,
    options: *const CFenceOptions,
    fence: *mut FenceHandle,
) -> i32 {
    if options.is_null() || !options.is_aligned() {
        return Status::BadPointer as i32;
    }
    // SAFETY: not null, aligned, and readable as the caller promises.
    match self::options(&unsafe { options.read() }) {
        // SAFETY: as the caller promises.
        Ok(options) => unsafe { make_fence(device, fence, |device| Fence::with_options(device, options)) },
        Err(fault) => finish(Err(fault)),
    }
}

/// What a fence is: CAMPANILE_KIND_NATIVE or CAMPANILE_KIND_MONITORED.
///
/// # Safety
/// `kind` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_kind(fence: FenceHandle, kind: *mut i32) -> i32 {
    finish((|| {
        let out = Out::new(kind)?;
        let kind = match handles::with(fence.id, |fence: &Fence| Ok(fence.kind()))? {
            FenceKind::Native => CFenceKind::Native,
            FenceKind::Monitored => CFenceKind::Monitored,
        };
        // SAFETY: as the caller promises.
        unsafe { out.set(kind as i32) };
        Ok(())
    })())
}

/// Uses a queue that nothing is being recorded on, and a fence.
fn enqueue(queue: QueueHandle, fence: FenceHandle, f: impl FnOnce(&mut Queue, &Fence) -> crate::Result<()>) -> i32 {
    finish(handles::with(fence.id, |fence: &Fence| {
        handles::with_mut(queue.id, |queue: &mut CQueue| match queue.open {
            Some(_) => Err(Status::Recording.into()),
            None => Ok(f(&mut queue.queue, fence)?),
        })
    }))
}

/// Has the operating system delay what is submitted to a queue from now on until the fence's value is at least `value`. Returns at once.
/// CAMPANILE_STATUS_NEEDS_KERNEL_SUBMISSION for a queue with user-mode submission, CAMPANILE_STATUS_RECORDING while a recording is open.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_queue_enqueue_wait(queue: QueueHandle, fence: FenceHandle, value: u64) -> i32 {
    enqueue(queue, fence, |queue, fence| queue.enqueue_wait(fence, value))
}

/// Has the operating system signal the fence when all is done that was submitted to a queue so far. Returns at once. Statuses as for
/// campanile_queue_enqueue_wait.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_queue_enqueue_signal(queue: QueueHandle, fence: FenceHandle, value: u64) -> i32 {
    enqueue(queue, fence, |queue, fence| queue.enqueue_signal(fence, value))
}
