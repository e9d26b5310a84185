//! The user-mode driver of this process: the one linked into this program, or the DLL, through which programs on Windows reach it.
//!
//! Which of them is decided once, by the kernel-mode driver that was selected ([`DriverChoice`](crate::driver::DriverChoice)): an image
//! brings its DLL with it. Everything else uses the types here and does not see the difference. They are those of [`campanile_umd`], with the linked
//! driver behind one branch, and the DLL's C API behind the other, so every case runs on the Rust API and on the C API.

mod dll;
mod error;
mod library;
mod trace;
mod windows;

use std::time::Duration;

use wddm_ddi::kmt::Thunks;
use wddm_ddi::types::{HANDLE, LUID};

pub use campanile_umd::{
    Access, CopyRows, Dispatch, DispatchReport, FenceKind, FenceOptions, LossReason, Node, OfferPriority, Placement,
    QueueOptions, QueueStats, Reclaimed, Sharing, SubmissionModel, Unfinished,
};
pub use dynamic::{DynamicBuffer, DynamicMapping, MapMode};
pub use error::{Error, Result};
pub use library::{FILE, Functions, Library, Refusal, selected, selected_identity};
pub use program::Program;
pub use windows::on_older_windows;

/// Declares a type of which there are two.
macro_rules! either {
    ($(#[$attribute:meta])* $name:ident, $inner:ident) => {
        $(#[$attribute])*
        pub struct $name($inner);

        // One or the other for a whole process; a box around the linked one would cost every call a load.
        #[allow(clippy::large_enum_variant)]
        $(#[$attribute])*
        enum $inner {
            Linked(campanile_umd::$name),
            Dll(dll::$name),
        }
    };
}

/// The same call on either driver. The linked one's result is given as it is, for the caller to wrap.
macro_rules! on {
    ($self:expr, $inner:ident, $it:ident => $linked:expr, $dll:expr) => {
        match $self {
            $inner::Linked($it) => $linked,
            $inner::Dll($it) => $dll,
        }
    };
}

mod dynamic;
mod program;

either! {
    #[doc = "An opened Campanile GPU."]
    #[derive(Clone)]
    Adapter, AdapterInner
}

either! {
    #[doc = "A device on an adapter. Clones share it."]
    #[derive(Clone)]
    Device, DeviceInner
}

either! {
    #[doc = "Memory that the GPU can use. Clones share it; it is destroyed with the last clone and the last [`Mapping`]."]
    #[derive(Clone)]
    Buffer, BufferInner
}

either! {
    #[doc = "A buffer as the CPU sees it, until dropped.\n\nThe GPU may change the bytes at any time while work that writes them is queued; copies made meanwhile have unspecified contents."]
    Mapping, MappingInner
}

either! {
    #[doc = "A fence of either kind. Clones share it."]
    #[derive(Clone)]
    Fence, FenceInner
}

either! {
    #[doc = "A kernel handle of a fence in this process, closed on drop."]
    SharedHandle, SharedHandleInner
}

either! {
    #[doc = "A hardware queue, used by one thread at a time."]
    Queue, QueueInner
}

/// Records the commands of one submission.
pub struct Recorder<'r, 'q>(RecorderInner<'r, 'q>);

enum RecorderInner<'r, 'q> {
    Linked(&'r mut campanile_umd::Recorder<'q>),
    Dll(dll::Recorder<'r>),
}

impl Adapter {
    /// Opens the adapter with this LUID.
    ///
    /// # Errors
    /// The DLL could not be loaded, the adapter's driver is not ours, or the operating system refused.
    pub fn open_luid(luid: LUID) -> Result<Self> {
        match selected().map_err(Error::NotLoaded)? {
            None => Ok(Self(AdapterInner::Linked(campanile_umd::Adapter::open_luid(dxgkrnl::thunks(), luid)?))),
            Some(library) => Self::open_luid_by(library, luid),
        }
    }

    /// Opens the first adapter of this driver that these thunks list, by the driver that is linked into this program.
    ///
    /// # Errors
    /// There is none, or the operating system refused.
    pub fn open_by(thunks: &'static Thunks) -> Result<Self> {
        Ok(Self(AdapterInner::Linked(campanile_umd::Adapter::open(thunks)?)))
    }

    /// Opens the adapter with this LUID by a certain DLL.
    ///
    /// # Errors
    /// The adapter's driver is not ours, or the operating system refused.
    pub fn open_luid_by(library: &'static Library, luid: LUID) -> Result<Self> {
        Ok(Self(AdapterInner::Dll(dll::Adapter::open_luid(library, luid)?)))
    }
}

impl Device {
    /// Creates a device.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn new(adapter: &Adapter) -> Result<Self> {
        Ok(Self(match &adapter.0 {
            AdapterInner::Linked(adapter) => DeviceInner::Linked(campanile_umd::Device::new(adapter)?),
            AdapterInner::Dll(adapter) => DeviceInner::Dll(dll::Device::new(adapter)?),
        }))
    }

    /// Asks the operating system whether the device still works.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] after a reset, fault or removal.
    pub fn check(&self) -> Result<()> {
        on!(&self.0, DeviceInner, device => Ok(device.check()?), device.check())
    }

    /// Why the device was lost; `None` while it works.
    ///
    /// # Errors
    /// As [`campanile_umd::Device::loss`].
    pub fn loss(&self) -> Result<Option<LossReason>> {
        on!(&self.0, DeviceInner, device => Ok(device.loss()?), device.loss())
    }

    /// A device in the place of this one, which is lost.
    ///
    /// # Errors
    /// As [`campanile_umd::Device::replacement`].
    pub fn replacement(&self) -> Result<Self> {
        Ok(Self(match &self.0 {
            DeviceInner::Linked(device) => DeviceInner::Linked(device.replacement()?),
            DeviceInner::Dll(device) => DeviceInner::Dll(device.replacement()?),
        }))
    }

    /// Creates a buffer of `size` bytes, makes it resident and maps it for the GPU.
    ///
    /// # Errors
    /// The size is out of range, or the operating system refused.
    pub fn create_buffer(&self, size: u64, placement: Placement) -> Result<Buffer> {
        Ok(Buffer(match &self.0 {
            DeviceInner::Linked(device) => BufferInner::Linked(device.create_buffer(size, placement)?),
            DeviceInner::Dll(device) => BufferInner::Dll(device.create_buffer(size, placement)?),
        }))
    }
}

impl Buffer {
    /// First GPU virtual address.
    pub fn gpu_address(&self) -> u64 {
        on!(&self.0, BufferInner, buffer => buffer.gpu_address(), buffer.gpu_address())
    }

    /// Lets the system take the memory when it is short, without saving the contents.
    ///
    /// # Errors
    /// The buffer is mapped, or offered already; the operating system refused.
    pub fn offer(&self, priority: OfferPriority) -> Result<()> {
        on!(&self.0, BufferInner, buffer => Ok(buffer.offer(priority)?), buffer.offer(priority))
    }

    /// Takes the memory back, and says what has become of the contents.
    ///
    /// # Errors
    /// The buffer is not offered, or there is no memory.
    pub fn reclaim(&self) -> Result<Reclaimed> {
        on!(&self.0, BufferInner, buffer => Ok(buffer.reclaim()?), buffer.reclaim())
    }

    /// Bytes asked for.
    pub fn size(&self) -> u64 {
        on!(&self.0, BufferInner, buffer => buffer.size(), buffer.size())
    }

    /// Maps the buffer for the CPU. Several mappings may exist at a time.
    ///
    /// # Errors
    /// The buffer lies where the CPU cannot map it, or the operating system refused.
    pub fn map(&self) -> Result<Mapping> {
        Ok(Mapping(match &self.0 {
            BufferInner::Linked(buffer) => MappingInner::Linked(buffer.map()?),
            BufferInner::Dll(buffer) => MappingInner::Dll(buffer.map()?),
        }))
    }
}

impl Mapping {
    /// Copies `bytes` into the buffer at `offset`.
    ///
    /// # Errors
    /// They do not fit; nothing is copied.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        on!(&self.0, MappingInner, mapping => Ok(mapping.write(offset, bytes)?), mapping.write(offset, bytes))
    }

    /// Copies from the buffer at `offset` into `bytes`.
    ///
    /// # Errors
    /// The range leaves the buffer; nothing is copied.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        on!(&self.0, MappingInner, mapping => Ok(mapping.read(offset, bytes)?), mapping.read(offset, bytes))
    }
}

impl Fence {
    /// Creates a fence whose value is `initial`, a native one where the adapter has them.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn new(device: &Device, initial: u64) -> Result<Self> {
        Ok(Self(match &device.0 {
            DeviceInner::Linked(device) => FenceInner::Linked(campanile_umd::Fence::new(device, initial)?),
            DeviceInner::Dll(device) => FenceInner::Dll(dll::Fence::new(device, initial)?),
        }))
    }

    /// As [`Fence::new`], for a fence that [`Fence::share`] gives to other devices and processes.
    ///
    /// # Errors
    /// As for [`Fence::new`].
    pub fn new_shared(device: &Device, initial: u64) -> Result<Self> {
        Ok(Self(match &device.0 {
            DeviceInner::Linked(device) => FenceInner::Linked(campanile_umd::Fence::new_shared(device, initial)?),
            DeviceInner::Dll(device) => FenceInner::Dll(dll::Fence::new_shared(device, initial)?),
        }))
    }

    /// As [`Fence::new_shared`], for a fence that devices of other adapters open too.
    ///
    /// # Errors
    /// As for [`Fence::new`].
    pub fn new_cross_adapter(device: &Device, initial: u64) -> Result<Self> {
        Ok(Self(match &device.0 {
            DeviceInner::Linked(device) => {
                FenceInner::Linked(campanile_umd::Fence::new_cross_adapter(device, initial)?)
            }
            DeviceInner::Dll(device) => FenceInner::Dll(dll::Fence::new_cross_adapter(device, initial)?),
        }))
    }

    /// Creates a fence.
    ///
    /// # Errors
    /// As [`campanile_umd::Fence::with_options`].
    pub fn with_options(device: &Device, options: FenceOptions) -> Result<Self> {
        Ok(Self(match &device.0 {
            DeviceInner::Linked(device) => FenceInner::Linked(campanile_umd::Fence::with_options(device, options)?),
            DeviceInner::Dll(device) => FenceInner::Dll(dll::Fence::with_options(device, options)?),
        }))
    }

    /// Type of the fence in the operating system.
    ///
    /// # Errors
    /// None of a fence that exists.
    pub fn kind(&self) -> Result<FenceKind> {
        on!(&self.0, FenceInner, fence => Ok(fence.kind()), fence.kind())
    }

    /// Opens a shared fence by a kernel handle of this process, which stays the caller's.
    ///
    /// # Errors
    /// It is no handle of a fence, or the operating system refused.
    pub fn open(device: &Device, handle: HANDLE, access: Access) -> Result<Self> {
        Ok(Self(match &device.0 {
            DeviceInner::Linked(device) => FenceInner::Linked(campanile_umd::Fence::open(device, handle, access)?),
            DeviceInner::Dll(device) => FenceInner::Dll(dll::Fence::open(device, handle, access)?),
        }))
    }

    /// Gives the fence a kernel handle by which it is opened with at most `access`.
    ///
    /// # Errors
    /// It was not created to be shared, this opening has less access, or the operating system refused.
    pub fn share(&self, access: Access) -> Result<SharedHandle> {
        Ok(SharedHandle(match &self.0 {
            FenceInner::Linked(fence) => SharedHandleInner::Linked(fence.share(access)?),
            FenceInner::Dll(fence) => SharedHandleInner::Dll(fence.share(access)?),
        }))
    }

    /// The current value, read from its user-mode mapping.
    #[inline]
    pub fn value(&self) -> u64 {
        on!(&self.0, FenceInner, fence => fence.value(), fence.value())
    }

    /// Looks at the value up to `looks` times, pausing in between, and says whether it reached `value`.
    #[inline]
    pub fn spin(&self, value: u64, looks: u32) -> bool {
        for _ in 0..looks {
            if self.value() >= value {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Waits until the value is at least `value`; `None` waits as long as the device lives.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::DeviceLost`], or the operating system refused.
    pub fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        on!(&self.0, FenceInner, fence => Ok(fence.wait(value, timeout)?), fence.wait(value, timeout))
    }

    /// Sets the value from the CPU.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn signal(&self, value: u64) -> Result<()> {
        on!(&self.0, FenceInner, fence => Ok(fence.signal(value)?), fence.signal(value))
    }
}

impl SharedHandle {
    /// The handle, to open the fence by and to duplicate. Good until the drop.
    pub fn raw(&self) -> HANDLE {
        on!(&self.0, SharedHandleInner, handle => handle.raw(), handle.raw())
    }
}

impl Queue {
    /// Creates a queue on a node of the device.
    ///
    /// # Errors
    /// Options out of range, or the operating system refused.
    pub fn new(device: &Device, node: Node, options: QueueOptions) -> Result<Self> {
        Ok(Self(match &device.0 {
            DeviceInner::Linked(device) => QueueInner::Linked(campanile_umd::Queue::new(device, node, options)?),
            DeviceInner::Dll(device) => QueueInner::Dll(dll::Queue::new(device, node, options)?),
        }))
    }

    /// Has the operating system delay what is submitted from now on until the fence has the value.
    ///
    /// # Errors
    /// As [`campanile_umd::Queue::enqueue_wait`].
    pub fn enqueue_wait(&mut self, fence: &Fence, value: u64) -> Result<()> {
        match (&mut self.0, &fence.0) {
            (QueueInner::Linked(queue), FenceInner::Linked(fence)) => Ok(queue.enqueue_wait(fence, value)?),
            (QueueInner::Dll(queue), FenceInner::Dll(fence)) => queue.enqueue_wait(fence, value),
            _ => Err(STRANGER),
        }
    }

    /// Has the operating system signal the fence when all is done that was submitted so far.
    ///
    /// # Errors
    /// As [`campanile_umd::Queue::enqueue_signal`].
    pub fn enqueue_signal(&mut self, fence: &Fence, value: u64) -> Result<()> {
        match (&mut self.0, &fence.0) {
            (QueueInner::Linked(queue), FenceInner::Linked(fence)) => Ok(queue.enqueue_signal(fence, value)?),
            (QueueInner::Dll(queue), FenceInner::Dll(fence)) => queue.enqueue_signal(fence, value),
            _ => Err(STRANGER),
        }
    }

    /// Records commands and submits them; returns the progress value that says they are done.
    ///
    /// # Errors
    /// What `record` returned, or why the work could not be submitted.
    #[inline]
    pub fn submit(&mut self, record: impl FnOnce(&mut Recorder<'_, '_>) -> Result<()>) -> Result<u64> {
        match &mut self.0 {
            QueueInner::Linked(queue) => {
                let mut refused = None;
                let outcome = queue.submit(|commands| by_linked(commands, record, &mut refused));
                outcome.map_err(|error| refused.unwrap_or_else(|| error.into()))
            }
            QueueInner::Dll(queue) => by_dll(queue, true, record),
        }
    }

    /// As [`Queue::submit`], but never waits.
    ///
    /// # Errors
    /// Also [`Error::RingFull`] and [`Error::CommandMemoryFull`].
    #[inline]
    pub fn try_submit(&mut self, record: impl FnOnce(&mut Recorder<'_, '_>) -> Result<()>) -> Result<u64> {
        match &mut self.0 {
            QueueInner::Linked(queue) => {
                let mut refused = None;
                let outcome = queue.try_submit(|commands| by_linked(commands, record, &mut refused));
                outcome.map_err(|error| refused.unwrap_or_else(|| error.into()))
            }
            QueueInner::Dll(queue) => by_dll(queue, false, record),
        }
    }

    /// The progress value reached so far.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn progress(&self) -> Result<u64> {
        on!(&self.0, QueueInner, queue => Ok(queue.progress()), queue.progress())
    }

    /// The progress value of the latest submission.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn last_submitted(&self) -> Result<u64> {
        on!(&self.0, QueueInner, queue => Ok(queue.last_submitted()), queue.last_submitted())
    }

    /// Waits until the submission with this progress value is done.
    ///
    /// # Errors
    /// Nothing with this value was submitted, [`Error::DeviceLost`], or the operating system refused.
    pub fn wait_progress(&self, value: u64) -> Result<()> {
        self.wait_progress_for(value, None)
    }

    /// As [`Queue::wait_progress`], with a time limit.
    ///
    /// # Errors
    /// Also [`Error::Timeout`].
    pub fn wait_progress_for(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        on!(&self.0, QueueInner, queue => Ok(queue.wait_progress_for(value, timeout)?), queue.wait_progress(value, timeout))
    }

    /// Submission model of the queue.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn model(&self) -> Result<SubmissionModel> {
        on!(&self.0, QueueInner, queue => Ok(queue.model()), queue.model())
    }

    /// Why the queue submits as it does, as text.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn model_reason(&self) -> Result<String> {
        on!(&self.0, QueueInner, queue => Ok(queue.model_reason().to_string()), queue.model_reason())
    }

    /// Gives the queue a ring of another number of entries, with whatever is under way.
    ///
    /// # Errors
    /// As [`campanile_umd::Queue::resize`].
    pub fn resize(&mut self, ring_entries: u32) -> Result<()> {
        on!(&mut self.0, QueueInner, queue => Ok(queue.resize(ring_entries)?), queue.resize(ring_entries))
    }

    /// Goes on in a queue on `device`; progress starts over. The answer names what was not seen done.
    ///
    /// # Errors
    /// As [`campanile_umd::Queue::recover`].
    pub fn recover(&mut self, device: &Device) -> Result<Unfinished> {
        match (&mut self.0, &device.0) {
            (QueueInner::Linked(queue), DeviceInner::Linked(device)) => Ok(queue.recover(device, None)?),
            (QueueInner::Dll(queue), DeviceInner::Dll(device)) => queue.recover(device),
            _ => Err(STRANGER),
        }
    }

    /// Counts since the queue was created.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn stats(&self) -> Result<QueueStats> {
        on!(&self.0, QueueInner, queue => Ok(queue.stats()), queue.stats())
    }
}

/// Lets `record` write through the linked driver's recorder. Its own error goes into `refused`, for the linked driver has no place for it.
#[inline(always)]
fn by_linked(
    commands: &mut campanile_umd::Recorder<'_>,
    record: impl FnOnce(&mut Recorder<'_, '_>) -> Result<()>,
    refused: &mut Option<Error>,
) -> campanile_umd::Result<()> {
    record(&mut Recorder(RecorderInner::Linked(commands))).map_err(|error| {
        *refused = Some(error);
        campanile_umd::Error::BadArgument("the recording was given up")
    })
}

#[inline(always)]
fn by_dll(queue: &mut dll::Queue, wait: bool, record: impl FnOnce(&mut Recorder<'_, '_>) -> Result<()>) -> Result<u64> {
    let mut recorder = Recorder(RecorderInner::Dll(queue.recorder(wait)));
    record(&mut recorder)?;
    match recorder.0 {
        RecorderInner::Dll(recorder) => recorder.submit(),
        RecorderInner::Linked(_) => Err(STRANGER),
    }
}

/// Objects of the two drivers do not mix.
const STRANGER: Error = Error::BadArgument("the object belongs to the other user-mode driver");

impl Recorder<'_, '_> {
    /// Copies `size` bytes between GPU addresses; source and destination do not overlap.
    ///
    /// # Errors
    /// A range is not allowed, or does not fit any more; see [`Recorder::nop`] for the rest.
    #[inline(always)]
    pub fn copy(&mut self, destination: u64, source: u64, size: u64) -> Result<()> {
        on!(&mut self.0, RecorderInner, it => Ok(it.copy(destination, source, size)?), it.copy(destination, source, size))
    }

    /// Copies rows.
    ///
    /// # Errors
    /// As for [`Recorder::copy`].
    #[inline(always)]
    pub fn copy_rows(&mut self, copy: &CopyRows) -> Result<()> {
        on!(&mut self.0, RecorderInner, it => Ok(it.copy_rows(copy)?), it.copy_rows(copy))
    }

    /// Fills `size` bytes with a 32-bit pattern.
    ///
    /// # Errors
    /// As for [`Recorder::copy`].
    #[inline(always)]
    pub fn fill(&mut self, destination: u64, size: u64, pattern: u32) -> Result<()> {
        on!(&mut self.0, RecorderInner, it => Ok(it.fill(destination, size, pattern)?), it.fill(destination, size, pattern))
    }

    /// Sets the fence's value after every earlier effect of the queue and releases its waiters.
    ///
    /// # Errors
    /// The fence belongs to another adapter; see [`Recorder::nop`].
    #[inline(always)]
    pub fn signal(&mut self, fence: &Fence, value: u64) -> Result<()> {
        match (&mut self.0, &fence.0) {
            (RecorderInner::Linked(it), FenceInner::Linked(fence)) => Ok(it.signal(fence, value)?),
            (RecorderInner::Dll(it), FenceInner::Dll(fence)) => it.signal(fence, value),
            _ => Err(STRANGER),
        }
    }

    /// Blocks the queue until the fence's value is at least `value`, without the CPU.
    ///
    /// # Errors
    /// The fence belongs to another adapter; see [`Recorder::nop`].
    #[inline(always)]
    pub fn wait(&mut self, fence: &Fence, value: u64) -> Result<()> {
        match (&mut self.0, &fence.0) {
            (RecorderInner::Linked(it), FenceInner::Linked(fence)) => Ok(it.wait(fence, value)?),
            (RecorderInner::Dll(it), FenceInner::Dll(fence)) => it.wait(fence, value),
            _ => Err(STRANGER),
        }
    }

    /// Writes the GPU clock as 64 bits to an address that is a multiple of 8.
    ///
    /// # Errors
    /// As for [`Recorder::copy`].
    #[inline(always)]
    pub fn timestamp(&mut self, destination: u64) -> Result<()> {
        on!(&mut self.0, RecorderInner, it => Ok(it.timestamp(destination)?), it.timestamp(destination))
    }

    /// Does nothing on the GPU.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::CommandMemoryFull`] if the submission must not wait, or more commands than fit.
    #[inline(always)]
    pub fn nop(&mut self) -> Result<()> {
        on!(&mut self.0, RecorderInner, it => Ok(it.nop()?), it.nop())
    }
}
