//! Hardware queues for user-mode submission: ring, doorbell, and the order of the page.

use campanile_hw::doorbell::DoorbellValue;
use campanile_hw::packet::{self, Packet};
use campanile_hw::private::{DoorbellAnswer, DoorbellData, HwQueueData, MAGIC, Placement};
use campanile_hw::queue::{CONTROL_SIZE, CONTROL_WRITE_POINTER, RING_ENTRY_SIZE, RingEntry, RingGeometry};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::STATUS_INVALID_PARAMETER;
use wddm_ddi::types::*;

use super::{Memory, Rig, View, wait_until};
use crate::kmt::{DEVICE_LOST, Word};
use crate::{Failure, granted};

/// Command memory of one submission.
const COMMANDS_PER_ENTRY: u64 = 512;
/// Bytes of the save area of a queue that runs programs: enough for a workgroup of 1024 lanes with 200 bytes of registers and scratch memory each.
pub(super) const SAVE_SIZE: u32 = 256 << 10;
/// Entries of the smallest ring that fills its allocation, which is what tells the driver their number.
pub const RING_ENTRIES: u32 = 4096 / RING_ENTRY_SIZE as u32;

/// A hardware queue for user-mode submission with everything that submission needs, doorbell not yet connected.
pub struct RawQueue {
    pub context: D3DKMT_HANDLE,
    pub queue: D3DKMT_HANDLE,
    pub progress: Word,
    pub progress_fence: D3DKMT_HANDLE,
    pub ring: Memory,
    pub control: Memory,
    pub commands: Memory,
    pub doorbell: RawDoorbell,
    pub ring_view: View,
    pub control_view: View,
    pub commands_view: View,
    geometry: RingGeometry,
    /// Entries written to the ring.
    written: u64,
    /// Progress value when the ring was new.
    base: u64,
}

/// A doorbell's handle and its three mappings.
#[derive(Clone, Copy)]
pub struct RawDoorbell {
    pub handle: D3DKMT_HANDLE,
    pub page: Word,
    pub status: Word,
    pub last_queued: Word,
    /// Number of the queue, where all queues have one doorbell; 0 elsewhere.
    pub number: u16,
}

/// Result of D3DKMTCreateDoorbell.
pub struct CreatedDoorbell {
    arguments: D3DKMT_CREATE_DOORBELL,
    /// Number of the queue, where the doorbell must be told.
    number: u32,
}

impl CreatedDoorbell {
    /// The doorbell's handle.
    pub fn handle(&self) -> D3DKMT_HANDLE {
        self.arguments.hDoorbell
    }
}

/// Result of ringing a doorbell.
enum Rung {
    /// The doorbell was not connected, for this reason.
    Refused(NTSTATUS),
    /// After so many connections.
    Heard(u64),
    Lost,
}

fn not_connected(status: NTSTATUS) -> Failure {
    Failure::new(format!("D3DKMTConnectDoorbell failed with {status}"))
}

impl Rig {
    /// Creates a hardware context.
    pub fn context(&self, node: u32) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        self.context_of(node, &mut [])
    }

    /// The same with private data.
    pub fn context_of(&self, node: u32, private: &mut [u8]) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATEHWCONTEXT::zeroed();
        arguments.hDevice = self.device;
        arguments.NodeOrdinal = node;
        arguments.EngineAffinity = self.affinity();
        if !private.is_empty() {
            arguments.pPrivateDriverData = private.as_mut_ptr().cast();
            arguments.PrivateDriverDataSize = private.len() as u32;
        }
        self.kmt.call(self.kmt.table().D3DKMTCreateHwContext, &mut arguments).ok()?;
        Ok(arguments.hHwContext)
    }

    /// Creates a hardware queue with these flags. It has no save area, so that it runs no programs where dispatches are preempted.
    pub fn hw_queue(
        &self,
        context: D3DKMT_HANDLE,
        flags: D3DDDI_CREATEHWQUEUEFLAGS,
    ) -> Result<D3DKMT_CREATEHWQUEUE, NTSTATUS> {
        self.hw_queue_of(context, flags, &mut [])
    }

    /// The same with a save area of so many bytes.
    pub fn hw_queue_with_area(
        &self,
        context: D3DKMT_HANDLE,
        flags: D3DDDI_CREATEHWQUEUEFLAGS,
        save_size: u32,
    ) -> Result<D3DKMT_CREATEHWQUEUE, NTSTATUS> {
        self.hw_queue_of(context, flags, &mut HwQueueData { magic: MAGIC, save_size }.to_bytes())
    }

    /// The same with private data.
    pub fn hw_queue_of(
        &self,
        context: D3DKMT_HANDLE,
        flags: D3DDDI_CREATEHWQUEUEFLAGS,
        private: &mut [u8],
    ) -> Result<D3DKMT_CREATEHWQUEUE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATEHWQUEUE::zeroed();
        arguments.hHwContext = context;
        arguments.Flags = flags;
        if !private.is_empty() {
            arguments.pPrivateDriverData = private.as_mut_ptr().cast();
            arguments.PrivateDriverDataSize = private.len() as u32;
        }
        self.kmt.call(self.kmt.table().D3DKMTCreateHwQueue, &mut arguments).ok()?;
        arguments.pPrivateDriverData = std::ptr::null_mut();
        Ok(arguments)
    }

    /// Creates a doorbell.
    pub fn doorbell(&self, queue: D3DKMT_HANDLE, ring: Memory, control: Memory) -> Result<CreatedDoorbell, NTSTATUS> {
        self.doorbell_with_flags(queue, ring, control, D3DKMT_CREATE_DOORBELL_FLAGS::new())
    }

    /// Creates a doorbell with flags.
    pub fn doorbell_with_flags(
        &self,
        queue: D3DKMT_HANDLE,
        ring: Memory,
        control: Memory,
        flags: D3DKMT_CREATE_DOORBELL_FLAGS,
    ) -> Result<CreatedDoorbell, NTSTATUS> {
        let asked = DoorbellData { ring: ring.address, control: control.address }.to_bytes();
        let mut data = asked;
        let arguments = self.doorbell_of(queue, [ring, control], flags, &mut data)?;
        // Data that came back as it was is no answer: the doorbell is the queue's own.
        let number = if data == asked { 0 } else { DoorbellAnswer::from_bytes(&data).queue };
        Ok(CreatedDoorbell { arguments, number })
    }

    /// Creates a doorbell for a ring and its control with this private data, whatever the driver; what the thunk answered.
    pub fn doorbell_of(
        &self,
        queue: D3DKMT_HANDLE,
        [ring, control]: [Memory; 2],
        flags: D3DKMT_CREATE_DOORBELL_FLAGS,
        private: &mut [u8],
    ) -> Result<D3DKMT_CREATE_DOORBELL, NTSTATUS> {
        let mut arguments = D3DKMT_CREATE_DOORBELL::zeroed();
        arguments.hHwQueue = queue;
        arguments.hRingBuffer = ring.handle;
        arguments.hRingBufferControl = control.handle;
        if !private.is_empty() {
            arguments.PrivateDriverData = private.as_mut_ptr().cast();
            arguments.PrivateDriverDataSize = private.len() as u32;
        }
        arguments.Flags = flags;
        self.kmt.call(self.kmt.table().D3DKMTCreateDoorbell, &mut arguments).ok()?;
        arguments.PrivateDriverData = std::ptr::null_mut();
        Ok(arguments)
    }

    /// A queue on `node` with the smallest ring, ready to be connected.
    pub fn queue(&self, node: u32) -> Result<RawQueue, Failure> {
        self.queue_with_ring(node, RING_ENTRIES)
    }

    /// A queue on `node` with a ring of `entries`, ready to be connected.
    pub fn queue_with_ring(&self, node: u32, entries: u32) -> Result<RawQueue, Failure> {
        let status = |what: &'static str| move |status: NTSTATUS| Failure::new(format!("{what}: {status}"));
        let context = self.context(node).map_err(status("D3DKMTCreateHwContext"))?;
        self.queue_on(context, entries)
    }

    /// A queue of a context with a ring of `entries`, ready to be connected.
    pub fn queue_on(&self, context: D3DKMT_HANDLE, entries: u32) -> Result<RawQueue, Failure> {
        self.queue_placed(context, entries, Placement::SystemUncached)
    }

    /// A queue on `node` with the smallest ring and a save area of so many bytes.
    pub fn queue_with_area(&self, node: u32, save_size: u32) -> Result<RawQueue, Failure> {
        let context = self.context(node).map_err(|status| Failure::new(format!("D3DKMTCreateHwContext: {status}")))?;
        self.queue_of(context, RING_ENTRIES, Placement::SystemUncached, save_size)
    }

    /// As [`Rig::queue_on`], with ring, ring control and commands in memory of this kind.
    pub fn queue_placed(
        &self,
        context: D3DKMT_HANDLE,
        entries: u32,
        placement: Placement,
    ) -> Result<RawQueue, Failure> {
        self.queue_of(context, entries, placement, SAVE_SIZE)
    }

    fn queue_of(
        &self,
        context: D3DKMT_HANDLE,
        entries: u32,
        placement: Placement,
        save_size: u32,
    ) -> Result<RawQueue, Failure> {
        let status = |what: &'static str| move |status: NTSTATUS| Failure::new(format!("{what}: {status}"));
        let geometry = RingGeometry::new(entries).ok_or_else(|| Failure::new("the case asks for an illegal ring"))?;
        let queue = self.hw_queue_with_area(context, user_mode_flags(), save_size);
        let queue = queue.map_err(status("D3DKMTCreateHwQueue"))?;
        let ring = self.memory(u64::from(entries) * RING_ENTRY_SIZE, placement)?;
        let control = self.memory(CONTROL_SIZE, placement)?;
        let commands = self.memory(u64::from(entries) * COMMANDS_PER_ENTRY, placement)?;
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
            ring_view: self.plain_view(ring)?,
            control_view: self.plain_view(control)?,
            commands_view: self.plain_view(commands)?,
            geometry,
            written: 0,
            base: 0,
        })
    }

    /// Gives a queue a ring of `entries` in the place of the one it has. What the thunk said if it refused; the queue then has
    /// its old ring.
    pub fn resize(&self, queue: &mut RawQueue, entries: u32) -> Result<NTSTATUS, Failure> {
        self.resize_to(queue, entries, false)
    }

    /// Gives a queue a new ring in which a submission stands before anybody but user mode knows it; nobody rings for it.
    pub fn resize_written(&self, queue: &mut RawQueue) -> Result<(), Failure> {
        let status = self.resize_to(queue, queue.geometry.entries(), true)?;
        queue.written = 1;
        granted(status, "giving a queue a ring with work in it")
    }

    fn resize_to(&self, queue: &mut RawQueue, entries: u32, written: bool) -> Result<NTSTATUS, Failure> {
        let geometry = RingGeometry::new(entries).ok_or_else(|| Failure::new("the case asks for an illegal ring"))?;
        let ring = self.memory(u64::from(entries) * RING_ENTRY_SIZE, Placement::SystemUncached)?;
        let control = self.memory(CONTROL_SIZE, Placement::SystemUncached)?;
        let commands = self.memory(u64::from(entries) * COMMANDS_PER_ENTRY, Placement::SystemUncached)?;
        if written {
            let value = queue.base + queue.written + 1;
            let packet = Packet::Progress(packet::Progress { handle: queue.progress_fence, value });
            self.plain_view(commands)?.write(0, &packet.encode()[..packet.size()]);
            let entry = RingEntry { commands: commands.address, size: packet.size() as u32, flags: 0, tag: 0, root: 0 };
            self.plain_view(ring)?.write(0, &entry.to_bytes());
            self.plain_view(control)?.store(CONTROL_WRITE_POINTER, 1);
        }
        let status = self.resize_onto(queue, ring, control)?;
        if status.is_success() {
            (queue.commands, queue.commands_view) = (commands, self.plain_view(commands)?);
            queue.geometry = geometry;
        }
        Ok(status)
    }

    /// As [`Rig::resize`], with this memory as the new ring, of as many entries as the old one, and as its control.
    pub fn resize_onto(&self, queue: &mut RawQueue, ring: Memory, control: Memory) -> Result<NTSTATUS, Failure> {
        let flags = D3DKMT_CREATE_DOORBELL_FLAGS::new().with_ResizeRingBufferOperation(true);
        let created = match self.doorbell_with_flags(queue.queue, ring, control, flags) {
            Ok(created) => created,
            Err(status) => return Ok(status),
        };
        (queue.ring, queue.ring_view) = (ring, self.plain_view(ring)?);
        (queue.control, queue.control_view) = (control, self.plain_view(control)?);
        queue.doorbell = RawDoorbell::new(&created)?;
        (queue.base, queue.written) = (queue.base + queue.written, 0);
        Ok(wddm_ddi::status::STATUS_SUCCESS)
    }

    /// Connects a doorbell.
    pub fn connect(&self, doorbell: RawDoorbell) -> NTSTATUS {
        let mut arguments = D3DKMT_CONNECT_DOORBELL::zeroed();
        arguments.hDoorbell = doorbell.handle;
        self.kmt.call(self.kmt.table().D3DKMTConnectDoorbell, &mut arguments)
    }

    /// Rings a queue's doorbell and follows its status: connects again on RETRY, tells the driver on NOTIFY. How often it had to
    /// connect.
    pub fn ring(&self, queue: &RawQueue) -> Result<u64, Failure> {
        match self.ring_once(queue, queue.written)? {
            Rung::Heard(connections) => Ok(connections),
            Rung::Lost => Err(Failure::new("the device is lost: its doorbell says abort or cannot be connected")),
            Rung::Refused(status) => Err(not_connected(status)),
        }
    }

    fn ring_once(&self, queue: &RawQueue, value: u64) -> Result<Rung, Failure> {
        let mut connections = 0;
        loop {
            queue.doorbell.store(value);
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            match queue.doorbell.state() {
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED => return Ok(Rung::Heard(connections)),
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD => {
                    let status = self.notify(queue.doorbell);
                    if DEVICE_LOST.contains(&status) {
                        return Ok(Rung::Lost);
                    }
                    granted(status, "D3DKMTNotifyWorkSubmission")?;
                    return Ok(Rung::Heard(connections));
                }
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY => {
                    let status = self.connect(queue.doorbell);
                    if DEVICE_LOST.contains(&status) {
                        return Ok(Rung::Lost);
                    }
                    if !status.is_success() {
                        return Ok(Rung::Refused(status));
                    }
                    connections += 1;
                }
                D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT => return Ok(Rung::Lost),
                other => return Err(Failure::new(format!("the doorbell's status is {other:?}"))),
            }
        }
    }

    /// Rings for work that puts the device in error, which may have happened before the status is read.
    pub fn ring_doomed(&self, queue: &RawQueue) -> Result<(), Failure> {
        self.ring_whatever(queue, queue.written)
    }

    /// As [`Rig::ring_doomed`], for a ring that the GPU may not be able to read: false if its doorbell is not connected for that.
    pub fn ring_unreadable(&self, queue: &RawQueue) -> Result<bool, Failure> {
        match self.ring_once(queue, queue.written)? {
            Rung::Refused(STATUS_INVALID_PARAMETER) => Ok(false),
            Rung::Refused(status) => Err(not_connected(status)),
            Rung::Heard(_) | Rung::Lost => Ok(true),
        }
    }

    /// As [`Rig::ring_once`]; it is no matter whether the device is lost.
    fn ring_whatever(&self, queue: &RawQueue, value: u64) -> Result<(), Failure> {
        match self.ring_once(queue, value)? {
            Rung::Refused(status) => Err(not_connected(status)),
            Rung::Heard(_) | Rung::Lost => Ok(()),
        }
    }

    /// Rings with `write_pointer` until something has happened, and again whenever the doorbell was taken away meanwhile: of work that the
    /// last queued value does not announce nobody knows but the GPU, which may not have seen the ring.
    pub fn ring_until(
        &self,
        queue: &RawQueue,
        write_pointer: u64,
        what: &str,
        mut reached: impl FnMut() -> bool,
    ) -> Result<(), Failure> {
        const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
        self.ring_whatever(queue, write_pointer)?;
        let mut failed = Ok(());
        wait_until(what, || {
            if queue.doorbell.state() == RETRY {
                failed = self.ring_whatever(queue, write_pointer);
            }
            failed.is_err() || reached()
        })?;
        failed
    }

    /// Submits work that puts the device in error.
    pub fn submit_doomed(&self, queue: &mut RawQueue, packets: &[Packet]) -> Result<u64, Failure> {
        self.wait_for_room(queue)?;
        let value = queue.append(packets)?;
        self.ring_doomed(queue)?;
        Ok(value)
    }

    /// Tells the driver of new work.
    pub fn notify(&self, doorbell: RawDoorbell) -> NTSTATUS {
        let mut arguments = D3DKMT_NOTIFY_WORK_SUBMISSION::zeroed();
        arguments.hDoorbell = doorbell.handle;
        self.kmt.call(self.kmt.table().D3DKMTNotifyWorkSubmission, &mut arguments)
    }

    /// Waits until another entry fits into the ring. A device that sleeps meanwhile with a full ring, or an engine that has no doorbell, goes on when
    /// the doorbell is connected and rung again, for which nobody but user mode asks.
    fn wait_for_room(&self, queue: &RawQueue) -> Result<(), Failure> {
        const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
        let mut rung = Ok(());
        wait_until("a free entry of the ring", || {
            let room = queue.has_room();
            if !room && queue.doorbell.state() == RETRY {
                rung = self.ring_whatever(queue, queue.written);
            }
            room || rung.is_err()
        })?;
        rung
    }

    /// Submits packets in the order of the page; the progress value that marks their end.
    pub fn submit(&self, queue: &mut RawQueue, packets: &[Packet]) -> Result<u64, Failure> {
        self.wait_for_room(queue)?;
        let value = queue.append(packets)?;
        self.ring(queue)?;
        Ok(value)
    }

    /// As [`Rig::submit`]; how often the doorbell had to be connected.
    pub fn submit_counted(&self, queue: &mut RawQueue, packets: &[Packet]) -> Result<u64, Failure> {
        self.wait_for_room(queue)?;
        queue.append(packets)?;
        self.ring(queue)
    }

    /// Destroys doorbell, queue and context; the first refusal.
    pub fn destroy_queue(&self, queue: &RawQueue) -> NTSTATUS {
        let table = self.kmt.table();
        let mut doorbell = D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell.handle };
        let mut context = D3DKMT_DESTROYHWCONTEXT { hHwContext: queue.context };
        let doorbell = self.kmt.call(table.D3DKMTDestroyDoorbell, &mut doorbell);
        if !doorbell.is_success() {
            return doorbell;
        }
        let hw_queue = self.destroy_hw_queue(queue.queue);
        if hw_queue.is_success() { self.kmt.call(table.D3DKMTDestroyHwContext, &mut context) } else { hw_queue }
    }

    /// Submits packets and waits until they are done.
    pub fn execute(&self, queue: &mut RawQueue, packets: &[Packet]) -> Result<(), Failure> {
        let value = self.submit(queue, packets)?;
        wait_until("the queue's progress", || queue.progress.load() >= value)?;
        ensure!(queue.progress.load() != u64::MAX, "the device was lost while its queue worked");
        Ok(())
    }
}

/// Flags of a queue for user-mode submission.
pub fn user_mode_flags() -> D3DDDI_CREATEHWQUEUEFLAGS {
    D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true).with_NativeProgressFence(true)
}

impl RawDoorbell {
    pub fn new(created: &CreatedDoorbell) -> Result<Self, Failure> {
        let CreatedDoorbell { arguments: created, number } = created;
        let number = u16::try_from(*number).map_err(|_| Failure::new(format!("the queue's number is {number}")))?;
        Ok(Self {
            number,
            handle: created.hDoorbell,
            page: Word::new(created.DoorbellCPUVirtualAddress, "the doorbell")?,
            status: Word::new(created.DoorbellStatusCPUVirtualAddress, "the doorbell's status")?,
            last_queued: Word::new(
                created.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress,
                "the last queued value",
            )?,
        })
    }

    /// Rings with a write pointer, once, whatever the status.
    pub fn store(self, write_pointer: u64) {
        self.page.store(DoorbellValue::of_write_pointer(write_pointer).with_queue(self.number).into_bits());
    }

    /// The status word.
    pub fn state(self) -> D3DDDI_DOORBELLSTATUS {
        i32::try_from(self.status.load()).map_or(D3DDDI_DOORBELLSTATUS(-1), D3DDDI_DOORBELLSTATUS)
    }

    /// True if the status word says connected, with or without a wish to be told of submissions.
    pub fn is_connected(self) -> bool {
        [
            D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED,
            D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD,
        ]
        .contains(&self.state())
    }
}

impl RawQueue {
    /// Ends the case unless progress stands at `value`, or at all ones as on a device in error: work beyond `value` is not told
    /// as done by its own number.
    pub fn stands_at(&self, value: u64, what: &str) -> Result<(), Failure> {
        let progress = self.progress.load();
        ensure!(progress == value || progress == u64::MAX, "progress after {what} is {progress}, {value} expected");
        Ok(())
    }

    /// Submissions written so far: the write pointer.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes packets with their PROGRESS, the last queued value, the ring entry and the write pointer; does not ring.
    pub fn append(&mut self, packets: &[Packet]) -> Result<u64, Failure> {
        let value = self.base + self.written + 1;
        let mut bytes = Vec::new();
        for packet in packets.iter().chain([&Packet::Progress(packet::Progress { handle: self.progress_fence, value })])
        {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        self.append_bytes(&bytes)
    }

    /// True while the oldest entry of the ring is done, so that another one fits.
    fn has_room(&self) -> bool {
        let done = (self.base + self.written).saturating_sub(u64::from(self.geometry.entries()) - 1);
        self.progress.load() >= done
    }

    /// As [`RawQueue::append`], with any bytes as the command buffer.
    pub fn append_bytes(&mut self, bytes: &[u8]) -> Result<u64, Failure> {
        if bytes.len() as u64 > COMMANDS_PER_ENTRY {
            return Err(Failure::new("the case's command buffer is too long"));
        }
        let entries = u64::from(self.geometry.entries());
        wait_until("a free entry of the ring", || self.has_room())?;
        let offset = (self.written % entries) * COMMANDS_PER_ENTRY;
        self.commands_view.write(offset, bytes);
        let commands = self.commands.address + offset;
        let entry = RingEntry { commands, size: bytes.len() as u32, flags: 0, tag: 0, root: 0 };
        Ok(self.append_entry(entry))
    }

    /// Writes packets with their PROGRESS and the ring entry where the next submission belongs, and moves no pointer: nobody may know
    /// of it.
    pub fn write_ahead(&self, packets: &[Packet]) {
        let mut bytes = Vec::new();
        let done =
            Packet::Progress(packet::Progress { handle: self.progress_fence, value: self.base + self.written + 1 });
        for packet in packets.iter().chain([&done]) {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        let offset = (self.written % u64::from(self.geometry.entries())) * COMMANDS_PER_ENTRY;
        self.commands_view.write(offset, &bytes);
        let commands = self.commands.address + offset;
        let entry = RingEntry { commands, size: bytes.len() as u32, flags: 0, tag: 0, root: 0 };
        self.ring_view.write(self.geometry.slot(self.written), &entry.to_bytes());
    }

    /// Writes a ring entry as it is, with last queued value and write pointer around it.
    pub fn append_entry(&mut self, entry: RingEntry) -> u64 {
        let value = self.base + self.written + 1;
        self.doorbell.last_queued.store(value);
        self.ring_view.write(self.geometry.slot(self.written), &entry.to_bytes());
        self.written += 1;
        self.set_write_pointer(self.written);
        value
    }

    /// Writes the write pointer alone.
    pub fn set_write_pointer(&self, value: u64) {
        self.control_view.store(CONTROL_WRITE_POINTER, value);
    }
}
