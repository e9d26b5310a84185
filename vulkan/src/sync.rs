//! Semaphores, fences and events. All of them are native fences of the GPU.

use core::ffi::c_int;
use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ash::vk;
use campanile_umd::{Access, Error, Fence as NativeFence, FenceOptions, Sharing};

use crate::device::Device;
use crate::external;
use crate::failure::{Answer, result};
use crate::handle::objects;

objects! {
    Semaphore => vk::Semaphore,
    Fence => vk::Fence,
    Event => vk::Event,
}

/// What a native fence is to reach, or is set to.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) native: NativeFence,
    pub(crate) value: u64,
}

/// A payload, and the one in its place until a wait or a reset brings it back.
struct Payloads<P> {
    permanent: Arc<P>,
    temporary: Option<Arc<P>>,
    /// The temporary one that was waited for last. The GPU may still wait for it, until the object ends or imports another one, both of which the application
    /// does when no submission that names the object is pending. [Vulkan: VUID-vkImportSemaphoreFdKHR-semaphore-01142]
    waited: Option<Arc<P>>,
}

/// The payloads of an object, which an import replaces.
struct Imported<P>(Mutex<Payloads<P>>);

impl<P> Imported<P> {
    fn new(payload: P) -> Self {
        Self(Mutex::new(Payloads { permanent: Arc::new(payload), temporary: None, waited: None }))
    }

    fn lock(&self) -> MutexGuard<'_, Payloads<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The payload that the object has now.
    fn current(&self) -> Arc<P> {
        let payloads = self.lock();
        payloads.temporary.as_ref().unwrap_or(&payloads.permanent).clone()
    }

    /// The payload that the object has now; afterwards it has the permanent one.
    fn used_up(&self) -> Arc<P> {
        let mut payloads = self.lock();
        match payloads.temporary.take() {
            Some(temporary) => payloads.waited.insert(temporary).clone(),
            None => payloads.permanent.clone(),
        }
    }

    /// The permanent payload, which the object has from now on.
    fn restored(&self) -> Arc<P> {
        let mut payloads = self.lock();
        payloads.temporary = None;
        payloads.permanent.clone()
    }

    fn replace(&self, payload: P, is_temporary: bool) {
        let (mut payloads, payload) = (self.lock(), Arc::new(payload));
        payloads.waited = None;
        if is_temporary {
            payloads.temporary = Some(payload);
        } else {
            (payloads.permanent, payloads.temporary) = (payload, None);
        }
    }
}

/// What a payload is of. The number stands in the native fence, so that a payload of another kind is not imported.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Purpose {
    Timeline = 1,
    Binary = 2,
    Fence = 3,
    /// Events are not exported.
    Event = 4,
}

/// A native fence that others may open or not.
fn native(device: &Device, purpose: Purpose, initial: u64, exportable: bool) -> Answer<NativeFence> {
    let sharing = if exportable { Sharing::Adapter } else { Sharing::Private };
    let options = FenceOptions { initial, sharing, purpose: purpose as u32, ..FenceOptions::default() };
    NativeFence::with_options(device.umd(), options).map_err(result)
}

/// The native fence that a descriptor is of, if that is of the purpose. A monitored fence, which stands for native ones where the adapter has none, does not say its.
fn import<P>(
    device: &Device,
    descriptor: c_int,
    purpose: Purpose,
    payload: impl FnOnce(NativeFence) -> P,
) -> Answer<P> {
    external::import(device.umd(), descriptor, |handle| {
        let native = NativeFence::open(device.umd(), handle.raw(), Access::Full).map_err(external::refused)?;
        match native.purpose() {
            Some(other) if other != purpose as u32 => Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE),
            _ => Ok(payload(native)),
        }
    })
}

/// A semaphore.
pub(crate) struct Semaphore {
    is_timeline: bool,
    payload: Imported<SemaphorePayload>,
}

struct SemaphorePayload {
    native: NativeFence,
    meaning: Meaning,
}

/// Meaning of the values of a semaphore's native fence.
enum Meaning {
    /// The application's values.
    Timeline,
    /// A binary semaphore of this device alone: the value goes up with every signal, and this is the one of the latest that was submitted.
    Signals(AtomicU64),
    /// A binary semaphore that others may have. They share nothing but the native fence, which is 1 while it is signalled; a queue that has waited makes it 0.
    Flag,
}

impl Semaphore {
    /// A timeline semaphore with its first value, or a binary one.
    ///
    /// # Errors
    /// The error of the operating system, as [`result`](crate::failure::result) translates it.
    pub(crate) fn new(device: &Device, timeline: Option<u64>, exportable: bool) -> Answer<Self> {
        let purpose = if timeline.is_some() { Purpose::Timeline } else { Purpose::Binary };
        let native = native(device, purpose, timeline.unwrap_or(0), exportable)?;
        let meaning = match timeline {
            Some(_) => Meaning::Timeline,
            None if exportable => Meaning::Flag,
            None => Meaning::Signals(AtomicU64::new(0)),
        };
        let payload = Imported::new(SemaphorePayload { native, meaning });
        Ok(Self { is_timeline: timeline.is_some(), payload })
    }

    /// Takes the payload that a descriptor is of in place of its own, for ever or until a wait. The descriptor is the driver's from then on.
    ///
    /// # Errors
    /// VK_ERROR_INVALID_EXTERNAL_HANDLE for a temporary payload of a timeline semaphore, and for the payload of a semaphore of the other type or of a fence; as
    /// [`external::import`].
    pub(crate) fn import(&self, device: &Device, descriptor: c_int, is_temporary: bool) -> Answer<()> {
        if self.is_timeline && is_temporary {
            return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
        }
        let (purpose, meaning) = match self.is_timeline {
            true => (Purpose::Timeline, Meaning::Timeline),
            false => (Purpose::Binary, Meaning::Flag),
        };
        let payload = import(device, descriptor, purpose, |native| SemaphorePayload { native, meaning })?;
        self.payload.replace(payload, is_temporary);
        Ok(())
    }

    /// Handle of the native fence that the payload is.
    pub(crate) fn native_handle(&self) -> u32 {
        self.payload.current().native.handle()
    }

    /// A descriptor of the payload.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for a semaphore that was created without VkExportSemaphoreCreateInfo and has no imported payload; as [`external::export`].
    pub(crate) fn export(&self) -> Answer<c_int> {
        external::export(&self.payload.current().native.share(Access::Full).map_err(result)?)
    }

    /// What a submission waits for: the value of a timeline semaphore, or the latest signal of a binary one; and what it signals when it has waited.
    pub(crate) fn wait(&self, value: u64) -> (Point, Option<Point>) {
        let payload = self.payload.used_up();
        let point = |value| Point { native: payload.native.clone(), value };
        match &payload.meaning {
            Meaning::Timeline => (point(value), None),
            Meaning::Signals(latest) => (point(latest.load(Ordering::Acquire)), None),
            Meaning::Flag => (point(1), Some(point(0))),
        }
    }

    /// The value that a submission is to signal; of a binary semaphore the next one.
    pub(crate) fn signal(&self, value: u64) -> Point {
        let payload = self.payload.current();
        let value = match &payload.meaning {
            Meaning::Timeline => value,
            Meaning::Signals(latest) => latest.fetch_add(1, Ordering::AcqRel) + 1,
            Meaning::Flag => 1,
        };
        Point { native: payload.native.clone(), value }
    }

    /// A value of a timeline semaphore, which the processor waits for.
    pub(crate) fn point(&self, value: u64) -> Point {
        Point { native: self.payload.current().native.clone(), value }
    }

    /// The value of a timeline semaphore.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn value(&self) -> Answer<u64> {
        value(&self.payload.current().native)
    }

    /// Sets the value of a timeline semaphore from the processor.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn signal_now(&self, value: u64) -> Answer<()> {
        self.payload.current().native.signal(value).map_err(result)
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

/// A fence.
pub(crate) struct Fence {
    payload: Imported<FencePayload>,
}

/// It is signalled while its native fence is at the target or above; a reset raises the target. What others may have shares nothing but the native fence: it is
/// signalled while that is 1, and a reset makes it 0.
struct FencePayload {
    native: NativeFence,
    target: Option<AtomicU64>,
}

impl FencePayload {
    fn target(&self) -> u64 {
        self.target.as_ref().map_or(1, |target| target.load(Ordering::Acquire))
    }
}

impl Fence {
    /// A fence that is signalled already or not.
    ///
    /// # Errors
    /// The error of the operating system, as [`result`](crate::failure::result) translates it.
    pub(crate) fn new(device: &Device, signalled: bool, exportable: bool) -> Answer<Self> {
        let native = native(device, Purpose::Fence, if exportable { signalled.into() } else { 0 }, exportable)?;
        let target = (!exportable).then(|| AtomicU64::new(u64::from(!signalled)));
        Ok(Self { payload: Imported::new(FencePayload { native, target }) })
    }

    /// Takes the payload that a descriptor is of in place of its own, for ever or until a reset. The descriptor is the driver's from then on.
    ///
    /// # Errors
    /// VK_ERROR_INVALID_EXTERNAL_HANDLE for the payload of a semaphore; as [`external::import`].
    pub(crate) fn import(&self, device: &Device, descriptor: c_int, is_temporary: bool) -> Answer<()> {
        let payload = import(device, descriptor, Purpose::Fence, |native| FencePayload { native, target: None })?;
        self.payload.replace(payload, is_temporary);
        Ok(())
    }

    /// Handle of the native fence that the payload is.
    pub(crate) fn native_handle(&self) -> u32 {
        self.payload.current().native.handle()
    }

    /// A descriptor of the payload.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for a fence that was created without VkExportFenceCreateInfo and has no imported payload; as [`external::export`].
    pub(crate) fn export(&self) -> Answer<c_int> {
        external::export(&self.payload.current().native.share(Access::Full).map_err(result)?)
    }

    /// The target, which a submission signals and a wait is for.
    pub(crate) fn point(&self) -> Point {
        let payload = self.payload.current();
        Point { native: payload.native.clone(), value: payload.target() }
    }

    /// True if it is signalled.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn is_signalled(&self) -> Answer<bool> {
        let payload = self.payload.current();
        Ok(value(&payload.native)? >= payload.target())
    }

    /// Makes it unsignalled, with its permanent payload. No submission that signals it is pending.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn reset(&self) -> Answer<()> {
        let payload = self.payload.restored();
        match &payload.target {
            Some(target) => target.store(payload.native.value().wrapping_add(1), Ordering::Release),
            None => payload.native.rewind(0).map_err(result)?,
        }
        Ok(())
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
        Ok(Self { native: native(device, Purpose::Event, 0, false)? })
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
        self.native.rewind(u64::from(set)).map_err(result)
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
