//! The DLL's C API behind types that own what the handles stand for.

use std::ffi::c_void;
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use campanile_umd::c_api::*;
use campanile_umd::{
    Access, CopyRows, FenceKind, FenceOptions, LossReason, Node, OfferPriority, Placement, QueueEvent, QueueOptions,
    QueueStats, Reclaimed, Sharing, SubmissionModel, Tracer, Unfinished,
};
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID};

use super::error::{Error, Result};
use super::library::{self, Library};
pub(super) use dynamic::{DynamicBuffer, DynamicMapping};
pub(super) use program::Program;

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
                    crate::complain!("campanile: {error}");
                }
            }
        }
    };
}

mod dynamic;
mod program;

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
    device: Device,
    object: D3DKMT_HANDLE,
    value: *const AtomicU64,
}

// SAFETY: the word is shared memory, mapped as long as the fence lives; the DLL's functions may be called from any thread.
unsafe impl Send for FenceInner {}
// SAFETY: as for Send.
unsafe impl Sync for FenceInner {}

/// Fields are dropped in order: the DLL forgets the tracer before it goes.
pub(super) struct Queue {
    owned: OwnedQueue,
    object: D3DKMT_HANDLE,
    /// Commands of the submission that is being recorded.
    collected: Vec<CCommand>,
    tracer: Option<Context>,
}

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

    pub(super) fn loss(&self) -> Result<Option<LossReason>> {
        let mut loss = 0;
        call!(self.0.library, campanile_device_loss(self.0.handle, &raw mut loss))?;
        let known = [LossReason::Hung, LossReason::Reset, LossReason::Fault, LossReason::Removed];
        let numbers = [Loss::Hung, Loss::Reset, Loss::Fault, Loss::Removed].map(|number| number as i32);
        let found = known.into_iter().zip(numbers).find(|(_, number)| *number == loss);
        Ok(found.map(|(found, _)| found).or((loss != Loss::None as i32).then_some(LossReason::Other(loss))))
    }

    pub(super) fn replacement(&self) -> Result<Self> {
        let library = self.0.library;
        let mut handle = DeviceHandle { id: 0 };
        call!(library, campanile_device_replace(self.0.handle, &raw mut handle))?;
        Ok(Self(Arc::new(OwnedDevice { library, handle })))
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

    pub(super) fn offer(&self, priority: OfferPriority) -> Result<()> {
        let OwnedBuffer { library, handle } = self.0.owned;
        let priority = match priority {
            OfferPriority::Low => COfferPriority::Low,
            OfferPriority::Normal => COfferPriority::Normal,
            OfferPriority::High => COfferPriority::High,
        };
        call!(library, campanile_buffer_offer(handle, priority as i32))
    }

    pub(super) fn reclaim(&self) -> Result<Reclaimed> {
        let OwnedBuffer { library, handle } = self.0.owned;
        let mut discarded = 0;
        call!(library, campanile_buffer_reclaim(handle, &raw mut discarded))?;
        Ok(if discarded == 0 { Reclaimed::Kept } else { Reclaimed::Discarded })
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
        self.synchronize(offset, bytes.len())?;
        // SAFETY: the range lies in the mapping, which outlives the call and to which no reference exists.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.synchronize(offset, bytes.len())
    }

    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let source = self.range(offset, bytes.len())?;
        self.synchronize(offset, bytes.len())?;
        // SAFETY: as above.
        unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// As the linked driver does it inside.
    fn synchronize(&self, offset: usize, len: usize) -> Result<()> {
        let OwnedBuffer { library, handle } = self.buffer.0.owned;
        call!(library, campanile_buffer_synchronize(handle, offset as u64, len as u64))
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
            crate::complain!("campanile: {error}");
        }
    }
}

impl Fence {
    pub(super) fn new(device: &Device, initial: u64) -> Result<Self> {
        Self::make(device, |new| call!(device.0.library, campanile_fence_create(device.0.handle, initial, new)))
    }

    pub(super) fn new_shared(device: &Device, initial: u64) -> Result<Self> {
        Self::make(device, |new| call!(device.0.library, campanile_fence_create_shared(device.0.handle, initial, new)))
    }

    pub(super) fn new_cross_adapter(device: &Device, initial: u64) -> Result<Self> {
        let OwnedDevice { library, handle } = *device.0;
        Self::make(device, |new| call!(library, campanile_fence_create_cross_adapter(handle, initial, new)))
    }

    pub(super) fn with_options(device: &Device, options: FenceOptions) -> Result<Self> {
        let FenceOptions { initial, kind, sharing, access, keeps_value, purpose: _ } = options;
        let options = CFenceOptions {
            initial,
            kind: match kind {
                None => CFenceKind::Auto,
                Some(FenceKind::Native) => CFenceKind::Native,
                Some(FenceKind::Monitored) => CFenceKind::Monitored,
            } as i32,
            sharing: match sharing {
                Sharing::Private => CSharing::Private,
                Sharing::Adapter => CSharing::Adapter,
                Sharing::CrossAdapter => CSharing::CrossAdapter,
            } as i32,
            access: number(access),
            keeps_value: i32::from(keeps_value),
        };
        let OwnedDevice { library, handle } = *device.0;
        Self::make(device, |new| call!(library, campanile_fence_create_with(handle, &raw const options, new)))
    }

    pub(super) fn open(device: &Device, shared: HANDLE, access: Access) -> Result<Self> {
        let OwnedDevice { library, handle } = *device.0;
        Self::make(device, |new| call!(library, campanile_fence_open(handle, shared, number(access), new)))
    }

    fn make(device: &Device, make: impl FnOnce(*mut FenceHandle) -> Result<()>) -> Result<Self> {
        let mut handle = FenceHandle { id: 0 };
        make(&raw mut handle)?;
        Self::of(device, handle)
    }

    pub(super) fn kind(&self) -> Result<FenceKind> {
        let mut kind = 0;
        call!(self.0.owned.library, campanile_fence_kind(self.0.owned.handle, &raw mut kind))?;
        Ok(if kind == CFenceKind::Monitored as i32 { FenceKind::Monitored } else { FenceKind::Native })
    }

    /// A handle of the fence, to be closed by way of `device`.
    pub(super) fn share(&self, access: Access) -> Result<SharedHandle> {
        let FenceInner { owned, device, .. } = &*self.0;
        let mut handle: HANDLE = null_mut();
        call!(owned.library, campanile_fence_share(owned.handle, number(access), &raw mut handle))?;
        Ok(SharedHandle { device: device.clone(), handle: handle.addr() })
    }

    /// Takes over a fence that was made on `device`.
    fn of(device: &Device, handle: FenceHandle) -> Result<Self> {
        let library = device.0.library;
        let owned = OwnedFence { library, handle };
        let mut value: *const u64 = null();
        call!(library, campanile_fence_mapping(handle, &raw mut value))?;
        let mut object = 0;
        call!(library, campanile_fence_object(handle, &raw mut object))?;
        Ok(Self(Arc::new(FenceInner { owned, device: device.clone(), object, value: value.cast() })))
    }

    pub(super) fn handle(&self) -> D3DKMT_HANDLE {
        self.0.object
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

/// A kernel handle of a fence, closed on drop.
pub(super) struct SharedHandle {
    device: Device,
    /// Only a number, never followed.
    handle: usize,
}

impl SharedHandle {
    pub(super) fn raw(&self) -> HANDLE {
        without_provenance_mut(self.handle)
    }
}

impl Drop for SharedHandle {
    fn drop(&mut self) {
        let OwnedDevice { library, handle } = *self.device.0;
        if let Err(error) = call!(library, campanile_handle_close(handle, self.raw())) {
            // It is nobody else's.
            crate::complain!("campanile: {error}");
        }
    }
}

fn number(access: Access) -> i32 {
    match access {
        Access::Wait => FenceAccess::Wait as i32,
        Access::Full => FenceAccess::Full as i32,
        Access::Signal => FenceAccess::Signal as i32,
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
            Some(SubmissionModel::Packet) => QueueModel::Packet,
        };
        let QueueOptions { ring_entries, command_bytes, save_bytes, .. } = options;
        if ring_entries == 0 || command_bytes == 0 || save_bytes == 0 {
            // To the C API zero means the default.
            return Err(Error::BadArgument("a queue of no entries, no command memory or no save area"));
        }
        let options = CQueueOptions { ring_entries, command_bytes, model: model as i32, save_bytes };
        let mut handle = QueueHandle { id: 0 };
        call!(library, campanile_queue_create(device.0.handle, node as i32, &raw const options, &raw mut handle))?;
        let owned = OwnedQueue { library, handle };
        let mut object = 0;
        call!(library, campanile_queue_object(handle, &raw mut object))?;
        Ok(Self { owned, object, collected: Vec::with_capacity(COLLECTED), tracer: None })
    }

    pub(super) fn handle(&self) -> D3DKMT_HANDLE {
        self.object
    }

    pub(super) fn set_tracer(&mut self, tracer: Option<Box<dyn Tracer>>) -> Result<()> {
        let context = tracer.map(Context::new);
        let function: library::Tracer = context.is_some().then_some(tell);
        let pointer = context.as_ref().map_or(null_mut(), |context| context.0.cast());
        call!(self.owned.library, campanile_queue_set_tracer(self.owned.handle, function, pointer))?;
        self.tracer = context;
        Ok(())
    }

    /// A recording. Its commands are passed to the DLL when it is submitted, or when it has more than [`COLLECTED`].
    pub(super) fn recorder(&mut self, wait: bool) -> Recorder<'_> {
        self.collected.clear();
        Recorder { queue: self, wait, open: false }
    }

    pub(super) fn progress(&self) -> Result<u64> {
        let mut value = 0;
        call!(self.owned.library, campanile_queue_progress(self.owned.handle, &raw mut value))?;
        Ok(value)
    }

    pub(super) fn last_submitted(&self) -> Result<u64> {
        let mut value = 0;
        call!(self.owned.library, campanile_queue_last_submitted(self.owned.handle, &raw mut value))?;
        Ok(value)
    }

    pub(super) fn wait_progress(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        call!(self.owned.library, campanile_queue_wait(self.owned.handle, value, nanoseconds(timeout)))
    }

    pub(super) fn model(&self) -> Result<SubmissionModel> {
        let mut model = 0;
        call!(self.owned.library, campanile_queue_model(self.owned.handle, &raw mut model))?;
        let all = [SubmissionModel::User, SubmissionModel::Kernel, SubmissionModel::Packet];
        let numbers = [QueueModel::User, QueueModel::Kernel, QueueModel::Packet].map(|number| number as i32);
        let found = all.into_iter().zip(numbers).find(|(_, number)| *number == model);
        Ok(found.map_or(SubmissionModel::Kernel, |(found, _)| found))
    }

    pub(super) fn model_reason(&self) -> Result<String> {
        const CAPACITY: usize = 512;
        let (mut text, mut needed) = (vec![0_u8; CAPACITY], 0);
        let place = text.as_mut_ptr().cast();
        call!(
            self.owned.library,
            campanile_queue_model_reason(self.owned.handle, place, CAPACITY as u64, &raw mut needed)
        )?;
        text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(CAPACITY));
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub(super) fn resize(&mut self, ring_entries: u32) -> Result<()> {
        call!(self.owned.library, campanile_queue_resize(self.owned.handle, ring_entries))
    }

    pub(super) fn recover(&mut self, device: &Device) -> Result<Unfinished> {
        let (library, handle) = (self.owned.library, self.owned.handle);
        let mut unfinished = Unfinished { first: 0, count: 0 };
        let (first, count) = (&raw mut unfinished.first, &raw mut unfinished.count);
        call!(library, campanile_queue_recover(handle, device.0.handle, 0, first, count))?;
        call!(library, campanile_queue_object(handle, &raw mut self.object))?;
        Ok(unfinished)
    }

    pub(super) fn enqueue_wait(&mut self, fence: &Fence, value: u64) -> Result<()> {
        call!(self.owned.library, campanile_queue_enqueue_wait(self.owned.handle, fence.0.owned.handle, value))
    }

    pub(super) fn enqueue_signal(&mut self, fence: &Fence, value: u64) -> Result<()> {
        call!(self.owned.library, campanile_queue_enqueue_signal(self.owned.handle, fence.0.owned.handle, value))
    }

    pub(super) fn stats(&self) -> Result<QueueStats> {
        let mut stats = CQueueStats { submissions: 0, doorbell_rings: 0, doorbell_reconnects: 0, notifications: 0 };
        call!(self.owned.library, campanile_queue_stats(self.owned.handle, &raw mut stats))?;
        let CQueueStats { submissions, doorbell_rings, doorbell_reconnects, notifications } = stats;
        Ok(QueueStats { submissions, doorbell_rings, doorbell_reconnects, notifications })
    }
}

/// A tracer at an address that stays, which the DLL hands to [`tell`].
struct Context(*mut Box<dyn Tracer>);

// SAFETY: the tracer is Send, and only the thread that uses the queue reaches it.
unsafe impl Send for Context {}

impl Context {
    fn new(tracer: Box<dyn Tracer>) -> Self {
        Self(Box::into_raw(Box::new(tracer)))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `into_raw`; the DLL has another tracer by now, or no queue.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Tells a tracer what the DLL reports. A tracer that panics ends the process: a panic cannot unwind through the DLL.
unsafe extern "win64" fn tell(context: *mut c_void, event: *const CQueueEvent) {
    const WAIT_QUEUED: i32 = EventKind::WaitQueued as i32;
    const SIGNAL_QUEUED: i32 = EventKind::SignalQueued as i32;
    const SUBMITTED: i32 = EventKind::Submitted as i32;
    const RECONNECTED: i32 = EventKind::Reconnected as i32;
    // SAFETY: the context given with this function; nobody else uses it while the queue is used.
    let tracer = unsafe { &mut *context.cast::<Box<dyn Tracer>>() };
    // SAFETY: good during the call.
    let CQueueEvent { kind, fence, value, rung } = unsafe { *event };
    tracer.event(match kind {
        WAIT_QUEUED => QueueEvent::WaitQueued { fence, value },
        SIGNAL_QUEUED => QueueEvent::SignalQueued { fence, value },
        SUBMITTED => QueueEvent::Submitted { progress: value, rung: rung != 0 },
        RECONNECTED => QueueEvent::Reconnected { progress: value },
        // A newer DLL may know more.
        _ => return,
    });
}

/// Commands of a submission that are kept here, to be handed over in one call; one that has more is recorded call by call.
const COLLECTED: usize = 8;

/// The commands of one submission, dropped unless it is submitted.
pub(super) struct Recorder<'q> {
    queue: &'q mut Queue,
    wait: bool,
    /// True while the DLL has a recording open, which the drop then has to discard.
    open: bool,
}

impl Recorder<'_> {
    #[inline(always)]
    pub(super) fn submit(mut self) -> Result<u64> {
        if !self.wait {
            self.open()?;
        }
        let OwnedQueue { library, handle } = self.queue.owned;
        let mut progress = 0;
        if self.open {
            self.open = false;
            call!(library, campanile_submit(handle, &raw mut progress))?;
        } else {
            let collected = &self.queue.collected;
            let (first, count) = (collected.as_ptr(), collected.len() as u32);
            call!(library, campanile_submit_commands(handle, first, count, &raw mut progress))?;
        }
        Ok(progress)
    }

    #[inline(always)]
    fn add(&mut self, command: CCommand) -> Result<()> {
        if self.wait && !self.open && self.queue.collected.len() < COLLECTED {
            self.queue.collected.push(command);
            return Ok(());
        }
        self.open_and_record(&command)
    }

    #[inline(never)]
    fn open_and_record(&mut self, command: &CCommand) -> Result<()> {
        self.open()?;
        self.record(command)
    }

    /// Sees that the DLL has a recording, with what was collected in it.
    fn open(&mut self) -> Result<()> {
        if self.open {
            return Ok(());
        }
        let OwnedQueue { library, handle } = self.queue.owned;
        if self.wait {
            call!(library, campanile_begin(handle))?;
        } else {
            call!(library, campanile_try_begin(handle))?;
        }
        self.open = true;
        self.queue.collected.iter().try_for_each(|command| self.record(command))
    }

    fn record(&self, command: &CCommand) -> Result<()> {
        const COPY: i32 = CommandKind::Copy as i32;
        const COPY_ROWS: i32 = CommandKind::CopyRows as i32;
        const FILL: i32 = CommandKind::Fill as i32;
        const SIGNAL: i32 = CommandKind::Signal as i32;
        const WAIT: i32 = CommandKind::Wait as i32;
        const TIMESTAMP: i32 = CommandKind::Timestamp as i32;
        let OwnedQueue { library, handle } = self.queue.owned;
        let CCommand { kind, pattern, destination, source, size, fence, value, .. } = *command;
        match kind {
            COPY => call!(library, campanile_record_copy(handle, destination, source, size)),
            COPY_ROWS => {
                let CCommand { row_bytes, rows, source_pitch, destination_pitch, .. } = *command;
                let copy = CCopyRows { source, destination, row_bytes, rows, source_pitch, destination_pitch };
                call!(library, campanile_record_copy_rows(handle, &raw const copy))
            }
            FILL => call!(library, campanile_record_fill(handle, destination, size, pattern)),
            SIGNAL => call!(library, campanile_record_signal(handle, fence, value)),
            WAIT => call!(library, campanile_record_wait(handle, fence, value)),
            TIMESTAMP => call!(library, campanile_record_timestamp(handle, destination)),
            _ => call!(library, campanile_record_nop(handle)),
        }
    }

    #[inline(always)]
    pub(super) fn copy(&mut self, destination: u64, source: u64, size: u64) -> Result<()> {
        self.add(CCommand { kind: CommandKind::Copy as i32, destination, source, size, ..CCommand::NOP })
    }

    #[inline(always)]
    pub(super) fn copy_rows(&mut self, copy: &CopyRows) -> Result<()> {
        let CopyRows { source, destination, row_bytes, rows, source_pitch, destination_pitch } = *copy;
        let kind = CommandKind::CopyRows as i32;
        self.add(CCommand {
            kind,
            source,
            destination,
            row_bytes,
            rows,
            source_pitch,
            destination_pitch,
            ..CCommand::NOP
        })
    }

    #[inline(always)]
    pub(super) fn fill(&mut self, destination: u64, size: u64, pattern: u32) -> Result<()> {
        self.add(CCommand { kind: CommandKind::Fill as i32, destination, size, pattern, ..CCommand::NOP })
    }

    #[inline(always)]
    pub(super) fn signal(&mut self, fence: &Fence, value: u64) -> Result<()> {
        let fence = fence.0.owned.handle;
        self.add(CCommand { kind: CommandKind::Signal as i32, fence, value, ..CCommand::NOP })
    }

    #[inline(always)]
    pub(super) fn wait(&mut self, fence: &Fence, value: u64) -> Result<()> {
        let fence = fence.0.owned.handle;
        self.add(CCommand { kind: CommandKind::Wait as i32, fence, value, ..CCommand::NOP })
    }

    #[inline(always)]
    pub(super) fn timestamp(&mut self, destination: u64) -> Result<()> {
        self.add(CCommand { kind: CommandKind::Timestamp as i32, destination, ..CCommand::NOP })
    }

    #[inline(always)]
    pub(super) fn nop(&mut self) -> Result<()> {
        self.add(CCommand::NOP)
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        if self.open {
            let _ = call!(self.queue.owned.library, campanile_cancel(self.queue.owned.handle));
        }
    }
}
