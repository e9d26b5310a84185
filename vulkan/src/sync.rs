//! Semaphores, fences and events. All of them are native fences of the GPU.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ash::vk;
use campanile_umd::{Error, Fence as NativeFence};

use crate::device::Device;
use crate::failure::{Answer, result};
use crate::handle::objects;

objects! {
    Semaphore => vk::Semaphore,
    Fence => vk::Fence,
    Event => vk::Event,
}

/// A semaphore.
pub(crate) struct Semaphore {
    native: NativeFence,
    /// The value of the latest signal that was submitted; `None` for a timeline semaphore, whose values are the application's.
    signals: Option<AtomicU64>,
}

/// What a native fence is to reach, or is set to.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) native: NativeFence,
    pub(crate) value: u64,
}

impl Semaphore {
    /// A timeline semaphore with its first value, or a binary one.
    ///
    /// # Errors
    /// The error of the operating system, as [`result`](crate::failure::result) translates it.
    pub(crate) fn new(device: &Device, timeline: Option<u64>) -> Answer<Self> {
        let native = NativeFence::new(device.umd(), timeline.unwrap_or(0)).map_err(result)?;
        Ok(Self { native, signals: timeline.is_none().then(AtomicU64::default) })
    }

    /// What a submission waits for: the value of a timeline semaphore, or the latest signal of a binary one.
    pub(crate) fn wait(&self, value: u64) -> Point {
        let value = self.signals.as_ref().map_or(value, |signals| signals.load(Ordering::Acquire));
        Point { native: self.native.clone(), value }
    }

    /// The value that a submission is to signal; of a binary semaphore the next one.
    pub(crate) fn signal(&self, value: u64) -> Point {
        let value = self.signals.as_ref().map_or(value, |signals| signals.fetch_add(1, Ordering::AcqRel) + 1);
        Point { native: self.native.clone(), value }
    }

    /// The value of a timeline semaphore.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn value(&self) -> Answer<u64> {
        value(&self.native)
    }

    /// Sets the value of a timeline semaphore from the processor.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn signal_now(&self, value: u64) -> Answer<()> {
        self.native.signal(value).map_err(result)
    }
}

/// The value of a native fence, unless the loss of its device has left it.
fn value(native: &NativeFence) -> Answer<u64> {
    let value = native.value();
    if value == u64::MAX {
        native.device().check().map_err(result)?;
    }
    Ok(value)
}

/// A fence. It is signalled while its native fence is at the target or above; a reset raises the target.
pub(crate) struct Fence {
    native: NativeFence,
    target: AtomicU64,
}

impl Fence {
    /// A fence that is signalled already or not.
    ///
    /// # Errors
    /// The error of the operating system, as [`result`](crate::failure::result) translates it.
    pub(crate) fn new(device: &Device, signalled: bool) -> Answer<Self> {
        let native = NativeFence::new(device.umd(), 0).map_err(result)?;
        Ok(Self { native, target: AtomicU64::new(u64::from(!signalled)) })
    }

    /// The target, which a submission signals and a wait is for.
    pub(crate) fn point(&self) -> Point {
        Point { native: self.native.clone(), value: self.target.load(Ordering::Acquire) }
    }

    /// True if it is signalled.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn is_signalled(&self) -> Answer<bool> {
        Ok(value(&self.native)? >= self.target.load(Ordering::Acquire))
    }

    /// Makes it unsignalled. No submission that signals it is pending.
    pub(crate) fn reset(&self) {
        self.target.store(self.native.value().wrapping_add(1), Ordering::Release);
    }
}

/// An event: a native fence that is 1 while it is set.
pub(crate) struct Event {
    native: NativeFence,
}

impl Event {
    /// An event that is not set.
    ///
    /// # Errors
    /// The error of the operating system, as [`result`](crate::failure::result) translates it.
    pub(crate) fn new(device: &Device) -> Answer<Self> {
        Ok(Self { native: NativeFence::new(device.umd(), 0).map_err(result)? })
    }

    /// The native fence with the value that sets the event, or with the one that resets it.
    pub(crate) fn point(&self, set: bool) -> Point {
        Point { native: self.native.clone(), value: u64::from(set) }
    }

    /// True if it is set.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn is_set(&self) -> Answer<bool> {
        Ok(value(&self.native)? == 1)
    }

    /// Sets or resets it from the processor.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn set(&self, set: bool) -> Answer<()> {
        self.native.signal(u64::from(set)).map_err(result)
    }
}

/// Waits for all of the points, or for one of them; a limit of 2^64-1 nanoseconds is none.
///
/// # Errors
/// VK_ERROR_DEVICE_LOST; VK_TIMEOUT, which is a success to the application.
pub(crate) fn wait(points: &[Point], all: bool, limit: u64) -> Answer<vk::Result> {
    let limit = (limit != u64::MAX).then(|| Duration::from_nanos(limit));
    let waited = if all || points.len() < 2 { wait_all(points, limit) } else { wait_any(points, limit) };
    match waited {
        Ok(()) => Ok(vk::Result::SUCCESS),
        Err(Error::Timeout) => Ok(vk::Result::TIMEOUT),
        Err(error) => Err(result(error)),
    }
}

fn wait_all(points: &[Point], limit: Option<Duration>) -> Result<(), Error> {
    let begun = Instant::now();
    for point in points {
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        point.native.wait(point.value, left)?;
    }
    Ok(())
}

fn wait_any(points: &[Point], limit: Option<Duration>) -> Result<(), Error> {
    let fences: Vec<_> = points.iter().map(|point| (point.native.clone(), point.value)).collect();
    NativeFence::wait_any(&fences, limit)
}
