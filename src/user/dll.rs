//! The DLL's C API behind types that own what the handles stand for.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use campanile_umd::c_api::*;
use campanile_umd::{CopyRows, Node, Placement, QueueOptions, QueueStats, SubmissionModel};
use wddm_ddi::types::LUID;

use super::error::{Error, Result};
use super::library::Library;

/// Calls a function of the DLL; a status other than 0 becomes an error with the function's name.
macro_rules! call {
    ($library:expr, $name:ident($($argument:expr),*)) => {{
        let library: &'static Library = $library;
        // SAFETY: pointers are to variables of this frame or null; everything else may be any number.
        let status = unsafe { (library.functions().$name)($($argument),*) };
        match status {
            0 => Ok(()),
            status => Err(failed(library, stringify!($name), status)),
        }
    }};
}

#[cold]
fn failed(library: &'static Library, function: &'static str, status: i32) -> Error {
    Error::of_status(function, status, library.text(status))
}

/// Declares the owner of a handle: destroyed when the last clone is dropped.
macro_rules! owner {
    ($name:ident, $handle:ident, $destroy:ident) => {
        struct $name {
            library: &'static Library,
            handle: $handle,
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Err(error) = call!(self.library, $destroy(self.handle)) {
                    // Nothing else can use the object any more, so the DLL has no reason to refuse.
                    eprintln!("campanile: {error}");
                }
            }
        }
    };
}

owner!(OwnedAdapter, AdapterHandle, campanile_adapter_close);
owner!(OwnedDevice, DeviceHandle, campanile_device_destroy);
owner!(OwnedBuffer, BufferHandle, campanile_buffer_destroy);
owner!(OwnedFence, FenceHandle, campanile_fence_destroy);
owner!(OwnedQueue, QueueHandle, campanile_queue_destroy);

#[derive(Clone)]
pub(super) struct Adapter(Arc<OwnedAdapter>);

#[derive(Clone)]
pub(super) struct Device(Arc<OwnedDevice>);

#[derive(Clone)]
pub(super) struct Buffer(Arc<BufferInner>);

struct BufferInner {
    owned: OwnedBuffer,
    address: u64,
    size: u64,
    /// Mappings that exist. The DLL has one at a time for each buffer, which they share.
    mappings: Mutex<usize>,
}

#[derive(Clone)]
pub(super) struct Fence(Arc<FenceInner>);

struct FenceInner {
    owned: OwnedFence,
    value: *const AtomicU64,
}

// SAFETY: the word is shared memory, mapped as long as the fence lives; the DLL's functions may be called from any thread.
unsafe impl Send for FenceInner {}
// SAFETY: as for Send.
unsafe impl Sync for FenceInner {}

pub(super) struct Queue(OwnedQueue);

impl Adapter {
    pub(super) fn open_luid(library: &'static Library, luid: LUID) -> Result<Self> {
        // SAFETY: takes no arguments.
        let thunks = unsafe { (library.functions().campanile_thunks)() };
        let mut handle = AdapterHandle { id: 0 };
        call!(library, campanile_adapter_open_luid(thunks, luid.LowPart, luid.HighPart, &raw mut handle))?;
        Ok(Self(Arc::new(OwnedAdapter { library, handle })))
    }
}

impl Device {
    pub(super) fn new(adapter: &Adapter) -> Result<Self> {
        let library = adapter.0.library;
        let mut handle = DeviceHandle { id: 0 };
        call!(library, campanile_device_create(adapter.0.handle, &raw mut handle))?;
        Ok(Self(Arc::new(OwnedDevice { library, handle })))
    }

    pub(super) fn check(&self) -> Result<()> {
        call!(self.0.library, campanile_device_check(self.0.handle))
    }

    pub(super) fn create_buffer(&self, size: u64, placement: Placement) -> Result<Buffer> {
        let library = self.0.library;
        let mut handle = BufferHandle { id: 0 };
        call!(library, campanile_buffer_create(self.0.handle, size, placement as i32, &raw mut handle))?;
        let owned = OwnedBuffer { library, handle };
        let mut address = 0;
        call!(library, campanile_buffer_gpu_address(handle, &raw mut address))?;
        Ok(Buffer(Arc::new(BufferInner { owned, address, size, mappings: Mutex::new(0) })))
    }
}

impl Buffer {
    pub(super) fn gpu_address(&self) -> u64 {
        self.0.address
    }

    pub(super) fn size(&self) -> u64 {
        self.0.size
    }

    pub(super) fn map(&self) -> Result<Mapping> {
        let OwnedBuffer { library, handle } = self.0.owned;
        let len = usize::try_from(self.0.size).map_err(|_| Error::BadArgument("the buffer's size"))?;
        let mut mappings = self.0.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut start: *mut c_void = null_mut();
        call!(library, campanile_buffer_map(handle, &raw mut start))?;
        *mappings += 1;
        Ok(Mapping { buffer: self.clone(), start: start.cast(), len })
    }
}

/// A buffer as the CPU sees it.
pub(super) struct Mapping {
    buffer: Buffer,
    start: *mut u8,
    len: usize,
}

// SAFETY: a mapping is an address range of the process, good on every thread until the drop.
unsafe impl Send for Mapping {}
// SAFETY: shared use copies bytes through raw pointers only; racing copies yield unspecified bytes, as the type's owner documents.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let target = self.range(offset, bytes.len())?;
        // SAFETY: the range lies in the mapping, which outlives the call and to which no reference exists.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let source = self.range(offset, bytes.len())?;
        // SAFETY: as above.
        unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn range(&self, offset: usize, len: usize) -> Result<*mut u8> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.start.wrapping_add(offset)),
            _ => Err(Error::BadArgument("the range lies outside the buffer")),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let OwnedBuffer { library, handle } = self.buffer.0.owned;
        let mut mappings = self.buffer.0.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        *mappings -= 1;
        if *mappings == 0
            && let Err(error) = call!(library, campanile_buffer_unmap(handle))
        {
            eprintln!("campanile: {error}");
        }
    }
}

impl Fence {
    pub(super) fn new(device: &Device, initial: u64) -> Result<Self> {
        let library = device.0.library;
        let mut handle = FenceHandle { id: 0 };
        call!(library, campanile_fence_create(device.0.handle, initial, &raw mut handle))?;
        let owned = OwnedFence { library, handle };
        let mut value: *const u64 = null();
        call!(library, campanile_fence_mapping(handle, &raw mut value))?;
        Ok(Self(Arc::new(FenceInner { owned, value: value.cast() })))
    }

    #[inline]
    pub(super) fn value(&self) -> u64 {
        // SAFETY: the DLL gave the address of an aligned word that stays mapped until the fence is destroyed.
        unsafe { &*self.0.value }.load(Ordering::Acquire)
    }

    pub(super) fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        call!(self.0.owned.library, campanile_fence_wait(self.0.owned.handle, value, nanoseconds(timeout)))
    }

    pub(super) fn signal(&self, value: u64) -> Result<()> {
        call!(self.0.owned.library, campanile_fence_signal(self.0.owned.handle, value))
    }
}

/// A time limit as the C API takes it: all ones for none.
fn nanoseconds(limit: Option<Duration>) -> u64 {
    limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1))
}

impl Queue {
    pub(super) fn new(device: &Device, node: Node, options: QueueOptions) -> Result<Self> {
        let library = device.0.library;
        let node = match node {
            Node::Compute => QueueNode::Compute,
            Node::Copy => QueueNode::Copy,
        };
        let model = match options.model {
            None => QueueModel::Auto,
            Some(SubmissionModel::User) => QueueModel::User,
            Some(SubmissionModel::Kernel) => QueueModel::Kernel,
        };
        let QueueOptions { ring_entries, command_bytes, .. } = options;
        if ring_entries == 0 || command_bytes == 0 {
            // To the C API zero means the default.
            return Err(Error::BadArgument("a queue of no entries or no command memory"));
        }
        let options = CQueueOptions { ring_entries, command_bytes, model: model as i32 };
        let mut handle = QueueHandle { id: 0 };
        call!(library, campanile_queue_create(device.0.handle, node as i32, &raw const options, &raw mut handle))?;
        Ok(Self(OwnedQueue { library, handle }))
    }

    pub(super) fn begin(&mut self, wait: bool) -> Result<Recorder<'_>> {
        if wait {
            call!(self.0.library, campanile_begin(self.0.handle))?;
        } else {
            call!(self.0.library, campanile_try_begin(self.0.handle))?;
        }
        Ok(Recorder { queue: self, open: true })
    }

    pub(super) fn progress(&self) -> Result<u64> {
        let mut value = 0;
        call!(self.0.library, campanile_queue_progress(self.0.handle, &raw mut value))?;
        Ok(value)
    }

    pub(super) fn last_submitted(&self) -> Result<u64> {
        let mut value = 0;
        call!(self.0.library, campanile_queue_last_submitted(self.0.handle, &raw mut value))?;
        Ok(value)
    }

    pub(super) fn wait_progress(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        call!(self.0.library, campanile_queue_wait(self.0.handle, value, nanoseconds(timeout)))
    }

    pub(super) fn model(&self) -> Result<SubmissionModel> {
        let mut model = 0;
        call!(self.0.library, campanile_queue_model(self.0.handle, &raw mut model))?;
        Ok(if model == QueueModel::User as i32 { SubmissionModel::User } else { SubmissionModel::Kernel })
    }

    pub(super) fn stats(&self) -> Result<QueueStats> {
        let mut stats = CQueueStats { submissions: 0, doorbell_rings: 0, doorbell_reconnects: 0, notifications: 0 };
        call!(self.0.library, campanile_queue_stats(self.0.handle, &raw mut stats))?;
        let CQueueStats { submissions, doorbell_rings, doorbell_reconnects, notifications } = stats;
        Ok(QueueStats { submissions, doorbell_rings, doorbell_reconnects, notifications })
    }
}

/// An open recording; dropped by the DLL too unless it is submitted.
pub(super) struct Recorder<'q> {
    queue: &'q Queue,
    open: bool,
}

impl Recorder<'_> {
    pub(super) fn submit(mut self) -> Result<u64> {
        let mut progress = 0;
        self.open = false;
        call!(self.queue.0.library, campanile_submit(self.queue.0.handle, &raw mut progress))?;
        Ok(progress)
    }

    pub(super) fn copy(&mut self, destination: u64, source: u64, size: u64) -> Result<()> {
        call!(self.queue.0.library, campanile_record_copy(self.queue.0.handle, destination, source, size))
    }

    pub(super) fn copy_rows(&mut self, copy: &CopyRows) -> Result<()> {
        let CopyRows { source, destination, row_bytes, rows, source_pitch, destination_pitch } = *copy;
        let copy = CCopyRows { source, destination, row_bytes, rows, source_pitch, destination_pitch };
        call!(self.queue.0.library, campanile_record_copy_rows(self.queue.0.handle, &raw const copy))
    }

    pub(super) fn fill(&mut self, destination: u64, size: u64, pattern: u32) -> Result<()> {
        call!(self.queue.0.library, campanile_record_fill(self.queue.0.handle, destination, size, pattern))
    }

    pub(super) fn signal(&mut self, fence: &Fence, value: u64) -> Result<()> {
        let queue = &self.queue.0;
        call!(queue.library, campanile_record_signal(queue.handle, fence.0.owned.handle, value))
    }

    pub(super) fn wait(&mut self, fence: &Fence, value: u64) -> Result<()> {
        call!(self.queue.0.library, campanile_record_wait(self.queue.0.handle, fence.0.owned.handle, value))
    }

    pub(super) fn timestamp(&mut self, destination: u64) -> Result<()> {
        call!(self.queue.0.library, campanile_record_timestamp(self.queue.0.handle, destination))
    }

    pub(super) fn nop(&mut self) -> Result<()> {
        call!(self.queue.0.library, campanile_record_nop(self.queue.0.handle))
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        if self.open {
            let _ = call!(self.queue.0.library, campanile_cancel(self.queue.0.handle));
        }
    }
}
