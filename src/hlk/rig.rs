//! User mode by hand: device, memory, queue, doorbell and fence over the raw thunks.
//!
//! Does what the user-mode driver does, one visible step at a time, so that a case can leave a step out, reorder it or put a hostile
//! value in its place. Nothing is destroyed here: a case that does not destroy leaves it to the exit of its process.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::{AllocationData, DoorbellData, MAGIC, Placement};
use campanile_hw::queue::{CONTROL_SIZE, CONTROL_WRITE_POINTER, RING_ENTRY_SIZE, RingEntry, RingGeometry};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::case::{Failure, granted};
use super::kmt::{DEVICE_LOST, Kmt, Word};

/// How long something that must happen may take, on a machine busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);
/// Command memory of one submission.
const COMMANDS_PER_ENTRY: u64 = 512;
/// Entries of the smallest ring that fills its allocation, which is what tells the driver their number.
pub(super) const RING_ENTRIES: u32 = 4096 / RING_ENTRY_SIZE as u32;

/// A device and its paging queue.
pub(super) struct Rig {
    pub(super) kmt: Kmt,
    pub(super) adapter: D3DKMT_HANDLE,
    pub(super) device: D3DKMT_HANDLE,
    pub(super) paging_queue: D3DKMT_HANDLE,
    paging_fence: D3DKMT_HANDLE,
    paging_value: Word,
}

/// An allocation, resident and mapped for the GPU.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) handle: D3DKMT_HANDLE,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// An allocation as the CPU sees it, until unlocked.
#[derive(Clone, Copy)]
pub(super) struct View {
    start: NonNull<u8>,
    size: u64,
}

/// A native fence.
#[derive(Clone, Copy)]
pub(super) struct RawFence {
    pub(super) handle: D3DKMT_HANDLE,
    pub(super) value: Word,
    pub(super) current: u64,
    pub(super) monitored: u64,
}

/// A hardware queue for user-mode submission with everything that submission needs, doorbell not yet connected.
pub(super) struct RawQueue {
    pub(super) context: D3DKMT_HANDLE,
    pub(super) queue: D3DKMT_HANDLE,
    pub(super) progress: Word,
    pub(super) progress_fence: D3DKMT_HANDLE,
    pub(super) ring: Memory,
    pub(super) control: Memory,
    pub(super) commands: Memory,
    pub(super) doorbell: RawDoorbell,
    pub(super) ring_view: View,
    pub(super) control_view: View,
    pub(super) commands_view: View,
    geometry: RingGeometry,
    written: u64,
}

/// A doorbell's handle and its three mappings.
#[derive(Clone, Copy)]
pub(super) struct RawDoorbell {
    pub(super) handle: D3DKMT_HANDLE,
    pub(super) page: Word,
    pub(super) status: Word,
    pub(super) last_queued: Word,
}

/// What a doorbell said to a ring.
enum Rung {
    Heard,
    Lost,
}

/// Waits until `done`; says `what` never happened otherwise.
pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), Failure> {
    let started = Instant::now();
    while !done() {
        if started.elapsed() > PATIENCE {
            return Err(Failure::new(format!("{what} did not happen within {} s", PATIENCE.as_secs())));
        }
        std::thread::yield_now();
    }
    Ok(())
}

impl Rig {
    /// Opens the adapter and creates a device with a paging queue.
    pub(super) fn open(luid: LUID) -> Result<Self, Failure> {
        let kmt = Kmt::new();
        let adapter = kmt.open_adapter(luid).map_err(|status| Failure::new(format!("open adapter: {status}")))?;
        Self::on_adapter(kmt, adapter)
    }

    /// Creates another device on an opened adapter.
    pub(super) fn on_adapter(kmt: Kmt, adapter: D3DKMT_HANDLE) -> Result<Self, Failure> {
        let mut device = D3DKMT_CREATEDEVICE::zeroed();
        device.u = D3DKMT_CREATEDEVICE_Union { hAdapter: adapter };
        granted(kmt.call(kmt.table().D3DKMTCreateDevice, &mut device), "D3DKMTCreateDevice")?;
        let mut paging = D3DKMT_CREATEPAGINGQUEUE::zeroed();
        paging.hDevice = device.hDevice;
        granted(kmt.call(kmt.table().D3DKMTCreatePagingQueue, &mut paging), "D3DKMTCreatePagingQueue")?;
        Ok(Self {
            kmt,
            adapter,
            device: device.hDevice,
            paging_queue: paging.hPagingQueue,
            paging_fence: paging.hSyncObject,
            paging_value: Word::new(paging.FenceValueCPUVirtualAddress, "the paging fence")?,
        })
    }

    /// Destroys the device with everything on it.
    pub(super) fn destroy(&self) -> NTSTATUS {
        let mut arguments = D3DKMT_DESTROYDEVICE { hDevice: self.device };
        self.kmt.call(self.kmt.table().D3DKMTDestroyDevice, &mut arguments)
    }

    /// Waits for a paging request that was answered with `status`.
    pub(super) fn settle(&self, status: NTSTATUS, value: u64, what: &str) -> Result<(), Failure> {
        granted(status, what)?;
        if self.paging_value.load() < value {
            granted(self.wait(&[self.paging_fence], &[value], false), "the wait for the paging fence")?;
        }
        ensure!(self.paging_value.load() >= value, "the wait for {what} ended before its paging fence value");
        Ok(())
    }

    /// Creates an allocation with this private data, neither resident nor mapped.
    pub(super) fn create_raw(&self, data: &mut [u8]) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        info.pPrivateDriverData = data.as_mut_ptr().cast::<c_void>();
        info.PrivateDriverDataSize = data.len() as u32;
        let mut create = D3DKMT_CREATEALLOCATION::zeroed();
        create.hDevice = self.device;
        create.NumAllocations = 1;
        create.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: &mut info };
        self.kmt.call(self.kmt.table().D3DKMTCreateAllocation2, &mut create).ok()?;
        Ok(info.hAllocation)
    }

    /// Creates an allocation, neither resident nor mapped.
    pub(super) fn create(&self, size: u64, placement: Placement) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let data = AllocationData { magic: MAGIC, placement: placement as u32, size, reserved: 0 };
        self.create_raw(&mut data.to_bytes())
    }

    /// Makes an allocation resident and waits for it.
    pub(super) fn make_resident(&self, allocation: D3DKMT_HANDLE) -> Result<(), Failure> {
        let mut handle = allocation;
        let mut arguments = D3DDDI_MAKERESIDENT::zeroed();
        arguments.hPagingQueue = self.paging_queue;
        arguments.NumAllocations = 1;
        arguments.AllocationList = &mut handle;
        let status = self.kmt.call(self.kmt.table().D3DKMTMakeResident, &mut arguments);
        self.settle(status, arguments.PagingFenceValue, "D3DKMTMakeResident")
    }

    /// Takes an allocation off the residency list.
    pub(super) fn evict(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let mut handle = allocation;
        let mut arguments = D3DKMT_EVICT::zeroed();
        arguments.hDevice = self.device;
        arguments.NumAllocations = 1;
        arguments.AllocationList = &mut handle;
        self.kmt.call(self.kmt.table().D3DKMTEvict, &mut arguments)
    }

    /// A request to map a whole allocation of `size` bytes, to be changed by the case.
    pub(super) fn map_request(&self, allocation: D3DKMT_HANDLE, size: u64) -> D3DDDI_MAPGPUVIRTUALADDRESS {
        let mut arguments = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
        arguments.hPagingQueue = self.paging_queue;
        arguments.hAllocation = allocation;
        arguments.SizeInPages = size.div_ceil(4096);
        arguments.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true);
        arguments
    }

    /// Maps and waits; the GPU virtual address.
    pub(super) fn map(&self, mut request: D3DDDI_MAPGPUVIRTUALADDRESS) -> Result<u64, Failure> {
        let status = self.kmt.call(self.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
        self.settle(status, request.PagingFenceValue, "D3DKMTMapGpuVirtualAddress")?;
        Ok(request.VirtualAddress)
    }

    /// Frees a range of GPU virtual addresses.
    pub(super) fn free(&self, address: u64, size: u64) -> NTSTATUS {
        let mut arguments = D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: self.adapter, BaseAddress: address, Size: size };
        self.kmt.call(self.kmt.table().D3DKMTFreeGpuVirtualAddress, &mut arguments)
    }

    /// An allocation that the GPU can use: created, resident, mapped.
    pub(super) fn memory(&self, size: u64, placement: Placement) -> Result<Memory, Failure> {
        let handle = self
            .create(size, placement)
            .map_err(|status| Failure::new(format!("an allocation of {size} bytes: {status}")))?;
        self.make_resident(handle)?;
        let address = self.map(self.map_request(handle, size))?;
        Ok(Memory { handle, address, size })
    }

    /// Destroys an allocation.
    pub(super) fn destroy_allocation(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let mut handle = allocation;
        let mut arguments = D3DKMT_DESTROYALLOCATION2::zeroed();
        arguments.hDevice = self.device;
        arguments.phAllocationList = &mut handle;
        arguments.AllocationCount = 1;
        self.kmt.call(self.kmt.table().D3DKMTDestroyAllocation2, &mut arguments)
    }

    /// Locks an allocation; its address.
    pub(super) fn lock(&self, allocation: D3DKMT_HANDLE) -> Result<NonNull<u8>, NTSTATUS> {
        let mut arguments = D3DKMT_LOCK2::zeroed();
        arguments.hDevice = self.device;
        arguments.hAllocation = allocation;
        self.kmt.call(self.kmt.table().D3DKMTLock2, &mut arguments).ok()?;
        NonNull::new(arguments.pData.cast()).ok_or(STATUS_UNSUCCESSFUL)
    }

    /// Unlocks an allocation.
    pub(super) fn unlock(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let mut arguments = D3DKMT_UNLOCK2 { hDevice: self.device, hAllocation: allocation };
        self.kmt.call(self.kmt.table().D3DKMTUnlock2, &mut arguments)
    }

    /// Locks memory for as long as the case runs.
    pub(super) fn view(&self, memory: Memory) -> Result<View, Failure> {
        let start = self.lock(memory.handle).map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
        Ok(View { start, size: memory.size })
    }

    /// Creates a hardware context.
    pub(super) fn context(&self, node: u32) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATEHWCONTEXT::zeroed();
        arguments.hDevice = self.device;
        arguments.NodeOrdinal = node;
        arguments.EngineAffinity = 1;
        self.kmt.call(self.kmt.table().D3DKMTCreateHwContext, &mut arguments).ok()?;
        Ok(arguments.hHwContext)
    }

    /// Creates a hardware queue with these flags.
    pub(super) fn hw_queue(
        &self,
        context: D3DKMT_HANDLE,
        flags: D3DDDI_CREATEHWQUEUEFLAGS,
    ) -> Result<D3DKMT_CREATEHWQUEUE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATEHWQUEUE::zeroed();
        arguments.hHwContext = context;
        arguments.Flags = flags;
        self.kmt.call(self.kmt.table().D3DKMTCreateHwQueue, &mut arguments).ok()?;
        Ok(arguments)
    }

    /// Creates a doorbell.
    pub(super) fn doorbell(
        &self,
        queue: D3DKMT_HANDLE,
        ring: Memory,
        control: Memory,
    ) -> Result<D3DKMT_CREATE_DOORBELL, NTSTATUS> {
        let mut data = DoorbellData { ring: ring.address, control: control.address }.to_bytes();
        let mut arguments = D3DKMT_CREATE_DOORBELL::zeroed();
        arguments.hHwQueue = queue;
        arguments.hRingBuffer = ring.handle;
        arguments.hRingBufferControl = control.handle;
        arguments.PrivateDriverData = data.as_mut_ptr().cast();
        arguments.PrivateDriverDataSize = data.len() as u32;
        self.kmt.call(self.kmt.table().D3DKMTCreateDoorbell, &mut arguments).ok()?;
        Ok(arguments)
    }

    /// A queue on `node` with the smallest ring, ready to be connected.
    pub(super) fn queue(&self, node: u32) -> Result<RawQueue, Failure> {
        self.queue_with_ring(node, RING_ENTRIES)
    }

    /// A queue on `node` with a ring of `entries`, ready to be connected.
    pub(super) fn queue_with_ring(&self, node: u32, entries: u32) -> Result<RawQueue, Failure> {
        let status = |what: &'static str| move |status: NTSTATUS| Failure::new(format!("{what}: {status}"));
        let geometry = RingGeometry::new(entries).ok_or_else(|| Failure::new("the case asks for an illegal ring"))?;
        let context = self.context(node).map_err(status("D3DKMTCreateHwContext"))?;
        let queue = self.hw_queue(context, user_mode_flags()).map_err(status("D3DKMTCreateHwQueue"))?;
        let ring = self.memory(u64::from(entries) * RING_ENTRY_SIZE, Placement::System)?;
        let control = self.memory(CONTROL_SIZE, Placement::System)?;
        let commands = self.memory(u64::from(entries) * COMMANDS_PER_ENTRY, Placement::System)?;
        let created = self.doorbell(queue.hHwQueue, ring, control).map_err(status("D3DKMTCreateDoorbell"))?;
        Ok(RawQueue {
            context,
            queue: queue.hHwQueue,
            progress: Word::new(queue.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?,
            progress_fence: queue.hHwQueueProgressFence,
            ring,
            control,
            commands,
            doorbell: RawDoorbell::new(&created)?,
            ring_view: self.view(ring)?,
            control_view: self.view(control)?,
            commands_view: self.view(commands)?,
            geometry,
            written: 0,
        })
    }

    /// Connects a doorbell.
    pub(super) fn connect(&self, doorbell: RawDoorbell) -> NTSTATUS {
        let mut arguments = D3DKMT_CONNECT_DOORBELL::zeroed();
        arguments.hDoorbell = doorbell.handle;
        self.kmt.call(self.kmt.table().D3DKMTConnectDoorbell, &mut arguments)
    }

    /// Rings a queue's doorbell and follows its status: connects again on RETRY, tells the driver on NOTIFY.
    pub(super) fn ring(&self, queue: &RawQueue) -> Result<(), Failure> {
        match self.ring_once(queue)? {
            Rung::Heard => Ok(()),
            Rung::Lost => Err(Failure::new("the device is lost: its doorbell says abort or cannot be connected")),
        }
    }

    fn ring_once(&self, queue: &RawQueue) -> Result<Rung, Failure> {
        loop {
            queue.doorbell.page.store(queue.written);
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            match queue.doorbell.state() {
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED => return Ok(Rung::Heard),
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD => {
                    granted(self.notify(queue.doorbell), "D3DKMTNotifyWorkSubmission")?;
                    return Ok(Rung::Heard);
                }
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY => {
                    let status = self.connect(queue.doorbell);
                    if DEVICE_LOST.contains(&status) {
                        return Ok(Rung::Lost);
                    }
                    granted(status, "D3DKMTConnectDoorbell")?;
                }
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT => return Ok(Rung::Lost),
                other => return Err(Failure::new(format!("the doorbell's status is {other:?}"))),
            }
        }
    }

    /// Rings for work that puts the device in error, which may have happened before the status is read.
    pub(super) fn ring_doomed(&self, queue: &RawQueue) -> Result<(), Failure> {
        self.ring_once(queue).map(drop)
    }

    /// Submits work that puts the device in error.
    pub(super) fn submit_doomed(&self, queue: &mut RawQueue, packets: &[Packet]) -> Result<u64, Failure> {
        let value = queue.append(packets)?;
        self.ring_doomed(queue)?;
        Ok(value)
    }

    /// Tells the driver of new work.
    pub(super) fn notify(&self, doorbell: RawDoorbell) -> NTSTATUS {
        let mut arguments = D3DKMT_NOTIFY_WORK_SUBMISSION::zeroed();
        arguments.hDoorbell = doorbell.handle;
        self.kmt.call(self.kmt.table().D3DKMTNotifyWorkSubmission, &mut arguments)
    }

    /// Submits packets in the order of the page; the progress value that marks their end.
    pub(super) fn submit(&self, queue: &mut RawQueue, packets: &[Packet]) -> Result<u64, Failure> {
        let value = queue.append(packets)?;
        self.ring(queue)?;
        Ok(value)
    }

    /// Submits packets and waits until they are done.
    pub(super) fn execute(&self, queue: &mut RawQueue, packets: &[Packet]) -> Result<(), Failure> {
        let value = self.submit(queue, packets)?;
        wait_until("the queue's progress", || queue.progress.load() >= value)
    }

    /// Creates a native fence.
    pub(super) fn fence(&self, initial: u64) -> Result<RawFence, Failure> {
        let created =
            self.create_fence(initial).map_err(|status| Failure::new(format!("D3DKMTCreateNativeFence: {status}")))?;
        let mapping = created.Info.NativeFenceMapping;
        Ok(RawFence {
            handle: created.hSyncObject,
            value: Word::new(mapping.CurrentValueCpuVa, "the fence's current value")?,
            current: mapping.CurrentValueGpuVa,
            monitored: mapping.MonitoredValueGpuVa,
        })
    }

    /// Creates a native fence; what the thunk returned.
    pub(super) fn create_fence(&self, initial: u64) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
        arguments.hDevice = self.device;
        arguments.Info.InitialFenceValue = initial;
        arguments.Info.EngineAffinity = 1;
        arguments.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
        self.kmt.call(self.kmt.table().D3DKMTCreateNativeFence, &mut arguments).ok()?;
        Ok(arguments)
    }

    /// Destroys a fence.
    pub(super) fn destroy_fence(&self, fence: D3DKMT_HANDLE) -> NTSTATUS {
        let mut arguments = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: fence };
        self.kmt.call(self.kmt.table().D3DKMTDestroySynchronizationObject, &mut arguments)
    }

    /// Signals fences from the CPU.
    pub(super) fn signal(&self, fences: &[D3DKMT_HANDLE], values: &[u64]) -> NTSTATUS {
        let (mut fences, mut values) = (fences.to_vec(), values.to_vec());
        let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        arguments.hDevice = self.device;
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = fences.as_mut_ptr();
        arguments.FenceValueArray = values.as_mut_ptr();
        self.kmt.call(self.kmt.table().D3DKMTSignalSynchronizationObjectFromCpu, &mut arguments)
    }

    /// Waits on the CPU for all fences, or any of them.
    pub(super) fn wait(&self, fences: &[D3DKMT_HANDLE], values: &[u64], any: bool) -> NTSTATUS {
        self.wait_with_event(fences, values, any, None)
    }

    /// Waits on the CPU; with an event (an eventfd) the call returns at once.
    pub(super) fn wait_with_event(
        &self,
        fences: &[D3DKMT_HANDLE],
        values: &[u64],
        any: bool,
        event: Option<i32>,
    ) -> NTSTATUS {
        let (mut fences, mut values) = (fences.to_vec(), values.to_vec());
        let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        arguments.hDevice = self.device;
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = fences.as_mut_ptr();
        arguments.FenceValueArray = values.as_mut_ptr();
        arguments.Flags = D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS::new().with_WaitAny(any);
        arguments.hAsyncEvent = event.map_or(std::ptr::null_mut(), |fd| std::ptr::without_provenance_mut(fd as usize));
        self.kmt.call(self.kmt.table().D3DKMTWaitForSynchronizationObjectFromCpu, &mut arguments)
    }
}

/// Flags of a queue for user-mode submission.
pub(super) fn user_mode_flags() -> D3DDDI_CREATEHWQUEUEFLAGS {
    D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true).with_NativeProgressFence(true)
}

impl RawDoorbell {
    fn new(created: &D3DKMT_CREATE_DOORBELL) -> Result<Self, Failure> {
        Ok(Self {
            handle: created.hDoorbell,
            page: Word::new(created.DoorbellCPUVirtualAddress, "the doorbell")?,
            status: Word::new(created.DoorbellStatusCPUVirtualAddress, "the doorbell's status")?,
            last_queued: Word::new(
                created.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress,
                "the last queued value",
            )?,
        })
    }

    /// The status word.
    pub(super) fn state(self) -> D3DDDI_DOORBELLSTATUS {
        i32::try_from(self.status.load()).map_or(D3DDDI_DOORBELLSTATUS(-1), D3DDDI_DOORBELLSTATUS)
    }
}

impl RawQueue {
    /// Ends the case unless progress stands at `value`, or at all ones as on a device in error: work beyond `value` is not told
    /// as done by its own number.
    pub(super) fn stands_at(&self, value: u64, what: &str) -> Result<(), Failure> {
        let progress = self.progress.load();
        ensure!(progress == value || progress == u64::MAX, "progress after {what} is {progress}, {value} expected");
        Ok(())
    }

    /// Submissions written so far: the write pointer.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes packets with their PROGRESS, the last queued value, the ring entry and the write pointer; does not ring.
    pub(super) fn append(&mut self, packets: &[Packet]) -> Result<u64, Failure> {
        let value = self.written + 1;
        let mut bytes = Vec::new();
        for packet in packets.iter().chain([&Packet::Progress(packet::Progress { value })]) {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        self.append_bytes(&bytes)
    }

    /// As [`RawQueue::append`], with any bytes as the command buffer.
    pub(super) fn append_bytes(&mut self, bytes: &[u8]) -> Result<u64, Failure> {
        if bytes.len() as u64 > COMMANDS_PER_ENTRY {
            return Err(Failure::new("the case's command buffer is too long"));
        }
        let entries = u64::from(self.geometry.entries());
        let done = self.written.saturating_sub(entries - 1);
        wait_until("room in the ring", || self.progress.load() >= done)?;
        let offset = (self.written % entries) * COMMANDS_PER_ENTRY;
        self.commands_view.write(offset, bytes);
        let commands = self.commands.address + offset;
        let entry = RingEntry { commands, size: bytes.len() as u32, flags: 0, tag: 0, root: 0 };
        Ok(self.append_entry(entry))
    }

    /// Writes a ring entry as it is, with last queued value and write pointer around it.
    pub(super) fn append_entry(&mut self, entry: RingEntry) -> u64 {
        let value = self.written + 1;
        self.doorbell.last_queued.store(value);
        self.ring_view.write(self.geometry.slot(self.written), &entry.to_bytes());
        self.written = value;
        self.set_write_pointer(value);
        value
    }

    /// Writes the write pointer alone.
    pub(super) fn set_write_pointer(&self, value: u64) {
        self.control_view.store(CONTROL_WRITE_POINTER, value);
    }
}

impl View {
    /// Writes bytes at an offset.
    ///
    /// # Panics
    /// The range leaves the memory; a mistake of the case.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        let target = self.at(offset, bytes.len() as u64);
        // SAFETY: the range was just checked, and the memory stays locked while the case runs; the GPU may read it meanwhile,
        // which is what it is for.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Reads bytes at an offset.
    ///
    /// # Panics
    /// The range leaves the memory; a mistake of the case.
    pub(super) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let source = self.at(offset, len);
        // SAFETY: as in `write`.
        unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// Fills everything with one byte.
    pub(super) fn fill(&self, byte: u8) {
        // SAFETY: as in `write`.
        unsafe { self.start.as_ptr().write_bytes(byte, self.size as usize) };
    }

    /// Stores a word with release order.
    pub(super) fn store(&self, offset: u64, value: u64) {
        let word = self.at(offset, 8).cast::<std::sync::atomic::AtomicU64>();
        assert!(word.is_aligned(), "the case stores a misaligned word");
        // SAFETY: the word lies in the memory and is aligned; nothing but atomic accesses and copies touch it.
        let word = unsafe { &*word };
        word.store(value, std::sync::atomic::Ordering::Release);
    }

    /// First address.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn at(&self, offset: u64, len: u64) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.size), "the case reaches outside its memory");
        // SAFETY: the offset lies within the locked memory.
        unsafe { self.start.as_ptr().add(offset as usize) }
    }
}

/// A FILL packet.
pub(super) fn fill(destination: u64, size: u64, pattern: u32) -> Packet {
    Packet::Fill(packet::Fill { destination, size, pattern })
}

/// A COPY packet of one run.
pub(super) fn copy(destination: u64, source: u64, size: u32) -> Packet {
    Packet::Copy(packet::Copy { source, destination, row_bytes: size, rows: 1, source_pitch: 0, destination_pitch: 0 })
}

impl RawFence {
    /// A SIGNAL packet.
    pub(super) fn signal(&self, value: u64) -> Packet {
        Packet::Signal(packet::Signal { handle: self.handle, current: self.current, monitored: self.monitored, value })
    }

    /// A WAIT packet.
    pub(super) fn wait(&self, value: u64) -> Packet {
        Packet::Wait(packet::Wait { handle: self.handle, current: self.current, value })
    }
}
