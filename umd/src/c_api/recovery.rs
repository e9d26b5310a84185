//! Recovery after CAMPANILE_STATUS_DEVICE_LOST, for C.

use super::{CQueue, DeviceHandle, Out, QueueHandle, finish, handles, model_of};
use crate::{Device, LossReason, c_api::handles::Object};

/// The reason why a device was lost.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It works.
    None = 0,
    /// Its own work did not end, and its engine was reset.
    Hung = 1,
    /// An engine or the adapter was reset because of work of another device.
    Reset = 2,
    /// It touched memory that is not there, or its commands made no sense.
    Fault = 3,
    /// The adapter is gone, or was stopped.
    Removed = 4,
    /// The operating system gives another reason.
    Other = 5,
}

/// Why a device was lost: a campanile_loss.
///
/// # Safety
/// `loss` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_device_loss(device: DeviceHandle, loss: *mut i32) -> i32 {
    finish((|| {
        let out = Out::new(loss)?;
        let reason = handles::with(device.id, |device: &Device| Ok(device.loss()?))?;
        let loss = match reason {
            None => Loss::None,
            Some(LossReason::Hung) => Loss::Hung,
            Some(LossReason::Reset) => Loss::Reset,
            Some(LossReason::Fault) => Loss::Fault,
            Some(LossReason::Removed) => Loss::Removed,
            Some(LossReason::Other(_)) => Loss::Other,
        };
        // SAFETY: as the caller promises.
        unsafe { out.set(loss as i32) };
        Ok(())
    })())
}

/// Creates a device in the place of one that is lost, on its adapter or on one that is found in its place. The lost one is destroyed as
/// any other, with its buffers and fences; its queues may be moved to the new one by campanile_queue_recover before. May be tried again.
///
/// # Safety
/// `replacement` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_device_replace(device: DeviceHandle, replacement: *mut DeviceHandle) -> i32 {
    finish((|| {
        let out = Out::new(replacement)?;
        let created = handles::with(device.id, |device: &Device| Ok(device.replacement()?))?;
        let id = handles::insert(Object::Device(created))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(DeviceHandle { id }) };
        Ok(())
    })())
}

/// Goes on in a queue on another device; `model` is a campanile_model, CAMPANILE_MODEL_KERNEL the way around a doorbell. Progress
/// starts over. `count` submissions from progress value `first` on were not seen done: those that may be done twice can be recorded
/// again. A recording that is open is dropped. On failure the queue is as it was.
///
/// # Safety
/// `first` and `count` are writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_recover(
    queue: QueueHandle,
    device: DeviceHandle,
    model: i32,
    first: *mut u64,
    count: *mut u64,
) -> i32 {
    finish((|| {
        let (first, count) = (Out::new(first)?, Out::new(count)?);
        let model = model_of(model)?;
        let device = handles::with(device.id, |device: &Device| Ok(device.clone()))?;
        let unfinished = handles::with_mut(queue.id, |queue: &mut CQueue| {
            let unfinished = queue.queue.recover(&device, model)?;
            queue.open = None;
            Ok(unfinished)
        })?;
        // SAFETY: as the caller promises.
        unsafe { first.set(unfinished.first) };
        // SAFETY: as the caller promises.
        unsafe { count.set(unfinished.count) };
        Ok(())
    })())
}
