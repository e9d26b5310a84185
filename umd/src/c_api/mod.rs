//! The same for C. `include/campanile.h` is generated from this module and those beside it.
//!
//! Every function returns 0 or says what went wrong: a positive number is a [`Status`], a negative one the `NTSTATUS` with which
//! the operating system refused. Handles are numbers; a stale, foreign or invented one is refused. Out parameters are written
//! only on success. Using an object from two threads at a time gives CAMPANILE_STATUS_BUSY where the object allows only one.

use alloc::boxed::Box;
use core::{
    ffi::{CStr, c_char, c_void},
    time::Duration,
};

use wddm_ddi::types::LUID;

use crate::buffer::{OfferPriority, Reclaimed};
use crate::{
    Adapter, Buffer, Device, Fence, Mapping, Node, Placement, Queue, QueueOptions, SubmissionModel, Thunks, thunks,
};

mod batch;
mod dynamic;
mod fault;
mod fence;
mod handles;
mod program;
mod record;
mod recovery;
mod share;
mod trace;

pub use batch::*;
pub use dynamic::*;
pub(crate) use fault::Fault;
pub use fence::*;
use handles::Object;
pub use program::*;
pub use record::*;
pub use recovery::*;
pub use share::*;
pub use trace::*;

/// Result of a function.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing.
    Ok = 0,
    /// A pointer that must not be null is null, or is not aligned for what it points to.
    BadPointer = 1,
    /// The handle was never given out, was destroyed, or stands for an object of another kind.
    BadHandle = 2,
    /// Another thread uses the object.
    Busy = 3,
    /// An argument is out of range.
    BadArgument = 4,
    /// No Campanile GPU found.
    NoAdapter = 5,
    /// The kernel-mode driver has another version.
    Version = 6,
    /// The GPU was reset or removed: destroy everything but the adapter and create it anew.
    DeviceLost = 7,
    /// A native fence was asked for by name, and they are not enabled.
    NativeFencesDisabled = 8,
    /// User-mode submission is not enabled.
    UserSubmissionDisabled = 9,
    /// The command would fault the queue.
    BadPacket = 10,
    /// The buffer lies in memory that the CPU cannot map.
    NotMappable = 11,
    /// The fence belongs to another adapter.
    ForeignFence = 12,
    /// The submission is too large for the queue's command memory or above 1 MiB.
    CommandsTooLarge = 13,
    /// Every ring entry is in use.
    RingFull = 14,
    /// Command memory is in use.
    CommandMemoryFull = 15,
    /// The time limit passed first.
    Timeout = 16,
    /// The doorbell's status is unknown.
    DoorbellStatus = 17,
    /// The operating system broke its contract.
    BadAnswer = 18,
    /// Nothing is being recorded: call campanile_begin first.
    NotRecording = 19,
    /// A recording is open: submit or cancel it first.
    Recording = 20,
    /// The buffer is not mapped.
    NotMapped = 21,
    /// Too many objects.
    TooManyHandles = 22,
    /// Queued work uses the buffer, and the call was not to wait.
    WasStillDrawing = 23,
    /// All that the buffer could be renamed to is mapped.
    AllMapped = 24,
    /// The fence was opened to be waited for only.
    WaitOnlyFence = 25,
    /// The fence was not created to be shared.
    NotShared = 26,
    /// The fence was created or opened to be signalled only.
    SignalOnlyFence = 27,
    /// A monitored fence, or a wait or signal of the operating system, for a queue with user-mode submission.
    NeedsKernelSubmission = 28,
    /// On a GPU that writes 32 bits of a monitored fence at once: a value further from the last one than UINT_MAX / 2.
    OutOfReach = 29,
    /// The program breaks a rule of the instruction set.
    BadProgram = 30,
    /// The first of a row, one for each function of the table of thunks and in its order: the call needs that function, and the Windows of this
    /// machine is older than it. campanile_status_text names it.
    MissingThunk = 256,
}

impl Status {
    const ALL: [(Self, &'static CStr); 31] = [
        (Self::Ok, c"success"),
        (Self::BadPointer, c"a pointer is null or not aligned"),
        (Self::BadHandle, c"the handle is stale, invented, or of another kind"),
        (Self::Busy, c"another thread uses the object; use one queue or buffer from one thread at a time"),
        (Self::BadArgument, c"an argument is out of range; the header says what is allowed"),
        (Self::NoAdapter, c"no Campanile GPU found; check that its driver is installed and started"),
        (Self::Version, c"kernel-mode driver and library have different versions; install both from one package"),
        (Self::DeviceLost, c"the GPU was reset or removed; destroy everything but the adapter and create it anew"),
        (Self::NativeFencesDisabled, c"native fences are not enabled for this GPU; let the fence choose its kind"),
        (
            Self::UserSubmissionDisabled,
            c"user-mode submission is not enabled for this GPU; let the queue choose its model",
        ),
        (Self::BadPacket, c"the command has a size of zero or too large, is not aligned, or leaves the address space"),
        (Self::NotMappable, c"the buffer lies in VRAM the CPU cannot see"),
        (Self::ForeignFence, c"the fence belongs to another adapter; use one that was opened on the queue's device"),
        (Self::CommandsTooLarge, c"the submission is larger than the command memory or 1 MiB; split it"),
        (Self::RingFull, c"the ring is full; wait for progress"),
        (Self::CommandMemoryFull, c"the command memory is full; wait for progress"),
        (Self::Timeout, c"the time limit passed before the value was reached"),
        (Self::DoorbellStatus, c"the doorbell's status word holds an unknown value; create the queue anew"),
        (Self::BadAnswer, c"the operating system answered without something it must deliver"),
        (Self::NotRecording, c"nothing is being recorded; call campanile_begin first"),
        (Self::Recording, c"a recording is open; submit or cancel it first"),
        (Self::NotMapped, c"the buffer is not mapped"),
        (Self::TooManyHandles, c"too many objects; destroy some"),
        (Self::WasStillDrawing, c"queued work still uses the buffer; map it again later, or let the call wait"),
        (
            Self::AllMapped,
            c"each copy of the buffer's contents is mapped; unmap one, or create the buffer with more copies",
        ),
        (Self::WaitOnlyFence, c"the fence was opened to be waited for only; open it with full access to signal it"),
        (Self::NotShared, c"the fence was not created to be shared; use campanile_fence_create_shared"),
        (Self::SignalOnlyFence, c"the fence was opened to be signalled only; open it with full access to wait for it"),
        (
            Self::NeedsKernelSubmission,
            c"a queue with user-mode submission uses native fences only; create such a fence, or a queue for submission through the kernel",
        ),
        (
            Self::OutOfReach,
            c"the value is further from the fence's last value than UINT_MAX / 2; a GPU that writes 32 bits cannot tell it from others",
        ),
        (Self::BadProgram, c"the program breaks a rule of the instruction set; the GPU's manual has them"),
    ];
}

/// Memory of a buffer, and the CPU's access to it.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferPlacement {
    /// System memory.
    System = 0,
    /// VRAM that the CPU can map.
    VramVisible = 1,
    /// VRAM that the CPU never maps.
    Vram = 2,
    /// VRAM that the CPU maps at times: through the window, the host aperture, or from system memory. A map can fail.
    VramLockable = 3,
    /// System memory that the CPU does not cache.
    SystemUncached = 4,
}

/// Engine that runs a queue.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueNode {
    /// General work.
    Compute = 0,
    /// Transfers.
    Copy = 1,
}

/// Submission model of a queue.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueModel {
    /// User mode where it works, the kernel's otherwise; packets where the system does not schedule in hardware.
    Auto = 0,
    /// By ring and doorbell.
    User = 1,
    /// By a call for every submission to a hardware queue.
    Kernel = 2,
    /// By a call for every submission to a context that the operating system schedules packet by packet.
    Packet = 3,
}

/// An adapter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdapterHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// A device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// A buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BufferHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// A fence, native or monitored.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FenceHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// A queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct QueueHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// Properties of a new queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CQueueOptions {
    /// Most submissions in flight: a power of two, 128 to 65536; 0 means 256.
    pub ring_entries: u32,
    /// Bytes of command memory: a multiple of 4096, up to 256 MiB; 0 means 1 MiB.
    pub command_bytes: u32,
    /// A campanile_model.
    pub model: i32,
    /// Bytes of memory that keep the state of a program while the queue is off the compute node, up to 7471992; 0 means 256 KiB. A program with more state than that (campanile_program_save_bytes) is a fault.
    pub save_bytes: u32,
}

/// Order in which the system reclaims offered memory.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum COfferPriority {
    /// Before anything else.
    Low = 0,
    /// In between.
    Normal = 1,
    /// After the others.
    High = 2,
}

/// A buffer and its mapping, of which C has one at a time.
pub(crate) struct CBuffer {
    buffer: Buffer,
    mapping: Option<Mapping>,
}

/// A queue and the submission that is being recorded.
pub(crate) struct CQueue {
    queue: Queue,
    open: Option<Recording>,
}

/// A submission that is being recorded.
#[derive(Clone, Copy)]
pub(crate) struct Recording {
    /// Bytes it has so far.
    recorded: usize,
    /// True if the call may wait for the GPU.
    wait: bool,
}

fn size(bytes: u64) -> Result<usize, Fault> {
    Ok(usize::try_from(bytes).map_err(|_| Status::BadArgument)?)
}

fn finish(outcome: Result<(), Fault>) -> i32 {
    match outcome {
        Ok(()) => Status::Ok as i32,
        Err(fault) => fault.number(),
    }
}

/// A pointer that a result is written through, checked before the work is done.
struct Out<T>(*mut T);

impl<T> Out<T> {
    fn new(pointer: *mut T) -> Result<Self, Fault> {
        if pointer.is_null() || !pointer.is_aligned() { Err(Status::BadPointer.into()) } else { Ok(Self(pointer)) }
    }

    /// # Safety
    /// The pointer is writable, which its caller in C owes.
    unsafe fn set(self, value: T) {
        // SAFETY: not null, aligned, and writable by the caller's promise.
        unsafe { self.0.write(value) };
    }
}

/// What a status means, as a sentence that says what to do. Never null; any number is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_status_text(status: i32) -> *const c_char {
    let known = Status::ALL.iter().find(|(known, _)| *known as i32 == status).map(|(_, text)| *text);
    let known = known.or_else(|| fault::missing_thunk(status));
    let text = match known {
        Some(text) => text,
        None if status < 0 => c"the operating system refused; the number is its NTSTATUS",
        None => c"no such status",
    };
    text.as_ptr()
}

/// The operating system's own table of thunks, valid for ever; null where it has none, which is everywhere but on Windows. The functions are looked up
/// by the first call. Those that the Windows of this machine lacks answer STATUS_PROCEDURE_NOT_FOUND, and what needs them a status from
/// CAMPANILE_STATUS_MISSING_THUNK on.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_thunks() -> *const c_void {
    #[cfg(windows)]
    return core::ptr::from_ref(crate::system_thunks()).cast();
    #[cfg(not(windows))]
    core::ptr::null()
}

/// Opens the first Campanile GPU. `thunks` is the table of D3DKMT functions listed at the top, each with the calling
/// convention of Windows; it must stay valid for ever.
///
/// # Safety
/// `thunks` is such a table or null; `adapter` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_adapter_open(thunks: *const c_void, adapter: *mut AdapterHandle) -> i32 {
    finish((|| {
        let out = Out::new(adapter)?;
        // SAFETY: as the caller promises.
        let thunks = unsafe { thunks::from_c(thunks.cast::<Thunks>()) }.ok_or(Status::BadPointer)?;
        let id = handles::insert(Object::Adapter(Adapter::open(thunks)?))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(AdapterHandle { id }) };
        Ok(())
    })())
}

/// Opens the Campanile GPU with a LUID.
///
/// # Safety
/// As for campanile_adapter_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_adapter_open_luid(
    thunks: *const c_void,
    low: u32,
    high: i32,
    adapter: *mut AdapterHandle,
) -> i32 {
    finish((|| {
        let out = Out::new(adapter)?;
        // SAFETY: as the caller promises.
        let thunks = unsafe { thunks::from_c(thunks.cast::<Thunks>()) }.ok_or(Status::BadPointer)?;
        let opened = Adapter::open_luid(thunks, LUID { LowPart: low, HighPart: high })?;
        let id = handles::insert(Object::Adapter(opened))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(AdapterHandle { id }) };
        Ok(())
    })())
}

/// Closes an adapter. What was made on it stays usable.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_adapter_close(adapter: AdapterHandle) -> i32 {
    finish(handles::remove::<Adapter>(adapter.id))
}

/// Creates a device.
///
/// # Safety
/// `device` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_device_create(adapter: AdapterHandle, device: *mut DeviceHandle) -> i32 {
    finish((|| {
        let out = Out::new(device)?;
        let created = handles::with(adapter.id, |adapter: &Adapter| Ok(Device::new(adapter)?))?;
        let id = handles::insert(Object::Device(created))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(DeviceHandle { id }) };
        Ok(())
    })())
}

/// Destroys a device, once everything made on it is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_device_destroy(device: DeviceHandle) -> i32 {
    finish(handles::remove::<Device>(device.id))
}

/// Succeeds as long as the device works; CAMPANILE_STATUS_DEVICE_LOST otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_device_check(device: DeviceHandle) -> i32 {
    finish(handles::with(device.id, |device: &Device| Ok(device.check()?)))
}

/// Creates a buffer of `size` bytes that the GPU can use; `placement` is a campanile_placement.
///
/// # Safety
/// `buffer` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_buffer_create(
    device: DeviceHandle,
    size: u64,
    placement: i32,
    buffer: *mut BufferHandle,
) -> i32 {
    finish((|| {
        let out = Out::new(buffer)?;
        let placement = u32::try_from(placement).ok().and_then(Placement::from_number).ok_or(Status::BadArgument)?;
        let created = handles::with(device.id, |device: &Device| Ok(device.create_buffer(size, placement)?))?;
        let id = handles::insert(Object::Buffer(CBuffer { buffer: created, mapping: None }))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(BufferHandle { id }) };
        Ok(())
    })())
}

/// Destroys a buffer and its mapping. Work that uses it must be done.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_buffer_destroy(buffer: BufferHandle) -> i32 {
    finish(handles::remove::<CBuffer>(buffer.id))
}

/// First GPU address of a buffer.
///
/// # Safety
/// `address` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_buffer_gpu_address(buffer: BufferHandle, address: *mut u64) -> i32 {
    finish((|| {
        let out = Out::new(address)?;
        let value = handles::with(buffer.id, |buffer: &CBuffer| Ok(buffer.buffer.gpu_address()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(value) };
        Ok(())
    })())
}

/// Maps a buffer for the CPU. Mapping it again gives the same address; one campanile_buffer_unmap ends it.
///
/// # Safety
/// `address` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_buffer_map(buffer: BufferHandle, address: *mut *mut c_void) -> i32 {
    finish((|| {
        let out = Out::new(address)?;
        let start = handles::with_mut(buffer.id, |buffer: &mut CBuffer| {
            let mapping = match buffer.mapping.take() {
                Some(mapping) => mapping,
                None => buffer.buffer.map()?,
            };
            Ok(buffer.mapping.insert(mapping).as_ptr())
        })?;
        // SAFETY: as the caller promises.
        unsafe { out.set(start.cast()) };
        Ok(())
    })())
}

/// Lets the system take the memory of a buffer when it is short, without saving its contents, until campanile_buffer_reclaim; `priority`
/// is a campanile_offer_priority. Work that is queued by now may still use it. A buffer that is mapped is refused.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_buffer_offer(buffer: BufferHandle, priority: i32) -> i32 {
    let priority = match priority {
        0 => OfferPriority::Low,
        1 => OfferPriority::Normal,
        2 => OfferPriority::High,
        _ => return finish(Err(Status::BadArgument.into())),
    };
    finish(handles::with(buffer.id, |buffer: &CBuffer| Ok(buffer.buffer.offer(priority)?)))
}

/// Takes the memory of a buffer back; it may be used when the call returns. `discarded` becomes 1 if the contents are lost, 0 otherwise.
///
/// # Safety
/// `discarded` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_buffer_reclaim(buffer: BufferHandle, discarded: *mut i32) -> i32 {
    finish((|| {
        let out = Out::new(discarded)?;
        let result = handles::with(buffer.id, |buffer: &CBuffer| Ok(buffer.buffer.reclaim()?))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(i32::from(result == Reclaimed::Discarded)) };
        Ok(())
    })())
}

/// Makes stores of the CPU to a range of a mapped buffer visible to the GPU, and those of the GPU to the CPU: after the CPU has written
/// and before the GPU reads, and after the GPU has written and before the CPU reads. Does nothing on an adapter whose DMA snoops
/// the CPU's caches.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_buffer_synchronize(buffer: BufferHandle, offset: u64, length: u64) -> i32 {
    finish(handles::with_mut(buffer.id, |buffer: &mut CBuffer| {
        let mapping = buffer.mapping.as_ref().ok_or(Status::NotMapped)?;
        Ok(mapping.synchronize(size(offset)?, size(length)?)?)
    }))
}

/// Ends a buffer's mapping; the address is not to be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_buffer_unmap(buffer: BufferHandle) -> i32 {
    finish(handles::with_mut(buffer.id, |buffer: &mut CBuffer| match buffer.mapping.take() {
        Some(_) => Ok(()),
        None => Err(Status::NotMapped.into()),
    }))
}

/// Gives a fence that `create` makes on a device a handle.
///
/// # Safety
/// `fence` is writable or null.
unsafe fn make_fence(
    device: DeviceHandle,
    fence: *mut FenceHandle,
    create: impl FnOnce(&Device) -> crate::Result<Fence>,
) -> i32 {
    finish((|| {
        let out = Out::new(fence)?;
        let created = handles::with(device.id, |device: &Device| Ok(create(device)?))?;
        let id = handles::insert(Object::Fence(created))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(FenceHandle { id }) };
        Ok(())
    })())
}

/// Creates a fence with an initial value: a native one where the GPU has them, a monitored one elsewhere.
///
/// # Safety
/// `fence` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_create(device: DeviceHandle, initial: u64, fence: *mut FenceHandle) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { make_fence(device, fence, |device| Fence::new(device, initial)) }
}

/// Destroys a fence. Work that names it must be done; CAMPANILE_STATUS_BUSY while a thread waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_fence_destroy(fence: FenceHandle) -> i32 {
    finish(handles::remove::<Fence>(fence.id))
}

/// The fence's current value.
///
/// # Safety
/// `value` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_value(fence: FenceHandle, value: *mut u64) -> i32 {
    finish((|| {
        let out = Out::new(value)?;
        let current = handles::with(fence.id, |fence: &Fence| Ok(fence.value()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(current) };
        Ok(())
    })())
}

/// Where the fence's current value can be read, an aligned word that only the GPU and the operating system write; read it
/// as volatile or atomic. Good until campanile_fence_destroy.
///
/// # Safety
/// `address` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_mapping(fence: FenceHandle, address: *mut *const u64) -> i32 {
    finish((|| {
        let out = Out::new(address)?;
        let mapped = handles::with(fence.id, |fence: &Fence| Ok(fence.mapping()))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(mapped) };
        Ok(())
    })())
}

/// Waits until the fence's value is at least `value`, for `nanoseconds` at most; all ones waits as long as the device lives.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_fence_wait(fence: FenceHandle, value: u64, nanoseconds: u64) -> i32 {
    let limit = (nanoseconds != u64::MAX).then(|| Duration::from_nanos(nanoseconds));
    finish(handles::with(fence.id, |fence: &Fence| Ok(fence.wait(value, limit)?)))
}

/// Sets the fence's value from the CPU.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_fence_signal(fence: FenceHandle, value: u64) -> i32 {
    finish(handles::with(fence.id, |fence: &Fence| Ok(fence.signal(value)?)))
}

/// Creates a queue; `node` is a campanile_node, `options` may be null.
///
/// # Safety
/// `options` is readable or null; `queue` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_queue_create(
    device: DeviceHandle,
    node: i32,
    options: *const CQueueOptions,
    queue: *mut QueueHandle,
) -> i32 {
    finish((|| {
        let out = Out::new(queue)?;
        if !options.is_aligned() {
            return Err(Status::BadPointer.into());
        }
        let node = match node {
            0 => Node::Compute,
            1 => Node::Copy,
            _ => return Err(Status::BadArgument.into()),
        };
        // SAFETY: null, or readable as the caller promises; aligned as checked.
        let options = queue_options(unsafe { options.as_ref() })?;
        let created = handles::with(device.id, |device: &Device| Ok(Queue::new(device, node, options)?))?;
        let id = handles::insert(Object::Queue(Box::new(CQueue { queue: created, open: None })))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(QueueHandle { id }) };
        Ok(())
    })())
}

fn queue_options(given: Option<&CQueueOptions>) -> Result<QueueOptions, Fault> {
    let mut options = QueueOptions::default();
    let Some(given) = given else { return Ok(options) };
    if given.ring_entries != 0 {
        options.ring_entries = given.ring_entries;
    }
    if given.command_bytes != 0 {
        options.command_bytes = given.command_bytes;
    }
    if given.save_bytes != 0 {
        options.save_bytes = given.save_bytes;
    }
    options.model = model_of(given.model)?;
    Ok(options)
}

/// The campanile_model with this number; `None` leaves the choice to the driver.
fn model_of(number: i32) -> Result<Option<SubmissionModel>, Fault> {
    Ok(match number {
        0 => None,
        1 => Some(SubmissionModel::User),
        2 => Some(SubmissionModel::Kernel),
        3 => Some(SubmissionModel::Packet),
        _ => return Err(Status::BadArgument.into()),
    })
}

/// Gives a queue a ring of another number of entries, a power of two from 128 to 65536, with whatever is under way: what was
/// submitted ends in the old ring, and progress values go on. CAMPANILE_STATUS_TIMEOUT if it does not end within two seconds;
/// CAMPANILE_STATUS_RECORDING while a recording is open.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_queue_resize(queue: QueueHandle, ring_entries: u32) -> i32 {
    finish(handles::with_mut(queue.id, |queue: &mut CQueue| match queue.open {
        Some(_) => Err(Status::Recording.into()),
        None => Ok(queue.queue.resize(ring_entries)?),
    }))
}

/// Destroys a queue. A recording that is open is dropped.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_queue_destroy(queue: QueueHandle) -> i32 {
    finish(handles::remove::<CQueue>(queue.id))
}
