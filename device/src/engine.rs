//! The engine of a node: fetches ring entries and command buffers and runs packets.
//!
//! Ring entries and packets are copied out before they are looked at, and a packet is decoded whole before it has an effect.
//! Long COPY and FILL packets are done in slices; how far one has come is kept in the queue's buffer.

use crate::compute;
use crate::context::fences::FencePlace;
use crate::context::{Context, Tallies, waits};
use crate::log;
use crate::memory::{Access, Span};
use crate::mmu::{self, Fault, Intent, Tlb};
use crate::programs::Programs;
use crate::queue::{Buffer, Queue};
use crate::transfer;
use crate::translations::Translations;
use campanile_hw::event::{EventKind, FaultKind};
use campanile_hw::fence::{self, Barrier, FenceWord, SIGNALED_FOR_GOOD, SignaledWord, UNMONITORED};
use campanile_hw::log::{LogKind, LogOperation};
use campanile_hw::packet::{self, BadPacket, MAX_SIZE, Packet, Timestamp, Wait};
use campanile_hw::queue::{Location, RingEntry};
use campanile_hw::registers::{NODE_COMPUTE, NODE_PAGING};
use std::sync::atomic::Ordering;

/// Bytes of command buffer copied out at a time.
const WINDOW: usize = 512;
/// Bytes copied out when a queue gets the engine: often it waits again after a few packets.
const FIRST_WINDOW: usize = 128;

/// Remaining budget of a time slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Packets.
    pub(crate) packets: u32,
    /// Bytes moved. A dispatch counts as so many as a slice would move in its time.
    pub(crate) bytes: u64,
    /// True if the slice ends with the command buffer in progress.
    pub(crate) ends_with_buffer: bool,
    /// True if the queue is to leave the node as soon as it can.
    pub(crate) leaves: bool,
}

/// Reason why a time slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything written is consumed.
    Idle,
    /// The slice is over, the queue goes on.
    More,
    /// The queue waits in a WAIT and is in the wait list of `key`.
    Wait {
        /// The wait list.
        key: u64,
    },
    /// The next command buffer ends in an event for which the event ring has no free entry.
    Stalled,
    /// The queue faulted.
    Fault(Fault),
    /// The engine hangs in a packet, by an injected fault, and runs no other queue until it is reset.
    Hang {
        /// True if the node's watchdog reports the hang by an event.
        reported: bool,
    },
}

/// A packet of a command buffer as it was decoded, with the LOG packet behind it if it has one.
#[derive(Clone, Copy)]
struct Decoded<'a> {
    packet: &'a Packet,
    log: Option<&'a packet::Log>,
}

/// Result of executing one packet within a time slice.
enum Step {
    Done,
    Partial,
    Wait { key: u64 },
}

impl Step {
    fn of(done: bool) -> Self {
        if done { Self::Done } else { Self::Partial }
    }
}

/// The part of a command buffer that was copied out.
#[derive(Debug)]
struct FetchBuffer {
    bytes: [u8; WINDOW],
    /// Offset in the buffer of the first byte.
    start: u32,
    len: usize,
}

/// A fence value in memory, or a page that reads as zero in its place.
#[derive(Clone, Copy, Debug)]
enum FenceValue<'a> {
    /// No monitored value.
    Unmonitored,
    /// On a page that reads as zero and drops writes.
    Zero,
    Word {
        span: Span<'a>,
        atomics64: bool,
    },
}

impl FenceWord for FenceValue<'_> {
    fn load(&self) -> u64 {
        match self {
            Self::Unmonitored => UNMONITORED,
            Self::Zero => 0,
            Self::Word { span, .. } => span.load(0).unwrap_or(0),
        }
    }

    fn store(&self, value: u64) {
        if let Self::Word { span, atomics64 } = self {
            let _ = if *atomics64 { span.store(0, value) } else { span.store_low(0, value as u32) };
        }
    }
}

impl SignaledWord for FenceValue<'_> {
    fn signal(&self, value: u64) -> u64 {
        match self {
            Self::Word { span, atomics64: true } => span.store_unless(0, SIGNALED_FOR_GOOD, value).unwrap_or(0),
            // Native fences, which several write, need 64-bit atomics.
            Self::Word { atomics64: false, .. } => {
                if self.load() == SIGNALED_FOR_GOOD {
                    return SIGNALED_FOR_GOOD;
                }
                self.store(value);
                value
            }
            Self::Unmonitored | Self::Zero => self.load(),
        }
    }
}

/// The full barrier between the two values.
struct Full;

impl Barrier for Full {
    fn full(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// One node's engine.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) tlb: Tlb,
    window: FetchBuffer,
    programs: Programs,
    known: Translations,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            tlb: Tlb::new(),
            window: FetchBuffer { bytes: [0; WINDOW], start: 0, len: 0 },
            programs: Programs::default(),
            known: Translations::default(),
        }
    }
}

fn bad_packet(rule: BadPacket, address: u64) -> Fault {
    Fault { rule: rule as u8, ..Fault::plain(FaultKind::BadPacket, address) }
}

/// A native fence passed its monitored value.
fn announce_native(queue: &Queue, current: u64, value: u64, context: &Context<'_>) {
    let silent = context.features.optimised_fence_interrupt || context.features.one_fence_event;
    let data = if silent { [0, 0] } else { [current, value] };
    context.report(EventKind::FenceSignaled, queue.node, queue.number, data);
}

fn no_fence(process: FencePlace) -> Fault {
    Fault::page(process.current, Intent::Write, 0)
}

impl Engine {
    /// Runs a queue until it has nothing to do or the budget is spent.
    pub(crate) fn run(&mut self, queue: &mut Queue, context: &Context<'_>, budget: &mut Budget) -> Outcome {
        self.window.len = 0;
        loop {
            let result = match queue.buffer {
                Some(buffer) => self.run_buffer(queue, buffer, context, budget),
                // Submissions after a preemption run once the preemption is reported.
                None if queue.pending() == 0 || queue.preemption.is_some() => return Outcome::Idle,
                None if budget.packets == 0 || budget.ends_with_buffer => return Outcome::More,
                None => self.fetch_entry(queue, context),
            };
            match result {
                Ok(None) => {}
                Ok(Some(outcome)) => return outcome,
                Err(fault) => return Outcome::Fault(fault),
            }
        }
    }

    fn fetch_entry(&mut self, queue: &mut Queue, context: &Context<'_>) -> Result<Option<Outcome>, Fault> {
        let place = queue.next_entry();
        let mut bytes = [0u8; RingEntry::SIZE];
        if let Some(span) = place.reach(&mut self.tlb, context.memory, RingEntry::SIZE as u64, Intent::Read)?
            && span.read(&mut bytes) != bytes.len()
        {
            return Err(Fault::plain(FaultKind::BadPhysical, place.address()));
        }
        let bad = Fault::plain(FaultKind::BadRingEntry, place.address());
        let buffer = queue.buffer_of(&RingEntry::from_bytes(&bytes), context.features.vram).ok_or(bad)?;
        if (buffer.retire.is_some() || buffer.progress.is_some()) && context.events.stalled() {
            return Ok(Some(Outcome::Stalled));
        }
        queue.fetched += 1;
        queue.buffer = Some(buffer);
        self.window.len = 0;
        Ok(None)
    }

    fn run_buffer(
        &mut self,
        queue: &mut Queue,
        mut buffer: Buffer,
        context: &Context<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Outcome>, Fault> {
        let result = self.run_packets(queue, &mut buffer, context, budget);
        queue.buffer = Some(buffer);
        match result {
            Ok(None) => self.retire(queue, &buffer, context, budget).map(|()| None),
            other => other,
        }
    }

    /// `Ok(None)` when the buffer is done.
    fn run_packets(
        &mut self,
        queue: &mut Queue,
        buffer: &mut Buffer,
        context: &Context<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Outcome>, Fault> {
        while buffer.offset < buffer.size {
            let root = queue.root_of(buffer).ok_or(Fault::rootless(buffer.commands, Intent::Read))?;
            if budget.packets == 0 || budget.bytes == 0 {
                return Ok(Some(Outcome::More));
            }
            let packet = self.decode(buffer, root, context)?;
            if buffer.partial == 0
                && let Some(reported) = context.faults.hang(queue.node, queue.number, &packet)
            {
                return Ok(Some(Outcome::Hang { reported }));
            }
            let log = self.log_behind(buffer, root, &packet, context);
            let decoded = Decoded { packet: &packet, log: log.as_ref() };
            buffer.dispatched |= matches!(packet, Packet::Dispatch(_));
            match self.execute(queue, buffer, root, decoded, context, budget)? {
                Step::Partial => return Ok(Some(Outcome::More)),
                Step::Wait { key } => {
                    buffer.dispatched = false;
                    return Ok(Some(Outcome::Wait { key }));
                }
                Step::Done => {}
            }
            buffer.offset += (packet.size() + log.map_or(0, |_| packet::Log::SIZE)) as u32;
            buffer.partial = 0;
            budget.packets -= 1;
        }
        Ok(None)
    }

    fn retire(
        &mut self,
        queue: &mut Queue,
        buffer: &Buffer,
        context: &Context<'_>,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        if let Some(value) = buffer.progress {
            self.progress(queue, 0, value, None, context)?.ok_or_else(|| Fault::plain(FaultKind::BadRingEntry, 0))?;
        }
        queue.write_read_pointer(&mut self.tlb, context.memory, queue.fetched)?;
        queue.buffer = None;
        if buffer.size == 0 {
            budget.packets = budget.packets.saturating_sub(1);
        }
        Tallies::add(&context.tallies.retired);
        if let Some(tag) = buffer.retire {
            context.report(EventKind::Retired, queue.node, queue.number, [tag, 0]);
        }
        Ok(())
    }

    /// Copies out as much of the buffer from its current offset as fits into the window and translates.
    fn refill(&mut self, buffer: &Buffer, root: Location, memory: &Access<'_>) -> Result<(), Fault> {
        let most = if self.window.len == 0 { FIRST_WINDOW } else { WINDOW };
        let want = ((buffer.size - buffer.offset) as usize).min(most);
        (self.window.start, self.window.len) = (buffer.offset, 0);
        while self.window.len < want {
            let va = buffer.commands + u64::from(buffer.offset) + self.window.len as u64;
            let rest = (want - self.window.len) as u64;
            let translation = match self.tlb.translate(memory, root, va, Intent::Read) {
                Ok(translation) => translation,
                // What lies before the fault may be all that the packet needs.
                Err(_) if self.window.len > 0 => break,
                Err(fault) => return Err(fault),
            };
            let count = rest.min(translation.run) as usize;
            let Some(out) = self.window.bytes.get_mut(self.window.len..self.window.len + count) else { break };
            let copied = match translation.location {
                None => {
                    out.fill(0);
                    count
                }
                Some(location) => match memory.resolve(location, count as u64, false) {
                    Some(span) => span.read(out),
                    None if self.window.len > 0 => break,
                    None => return Err(Fault::nowhere(location, Intent::Read)),
                },
            };
            self.window.len += copied;
        }
        Ok(())
    }

    fn decode(&mut self, buffer: &Buffer, root: Location, context: &Context<'_>) -> Result<Packet, Fault> {
        let rest = (buffer.size - buffer.offset) as usize;
        let need = rest.min(MAX_SIZE);
        let known = |window: &FetchBuffer| {
            let skip = buffer.offset.checked_sub(window.start)? as usize;
            window.len.checked_sub(skip).map(|len| (skip, len)).filter(|(_, len)| *len > 0)
        };
        if known(&self.window).is_none_or(|(_, len)| len < need) {
            self.refill(buffer, root, context.memory)?;
        }
        let (skip, len) = known(&self.window).unwrap_or((0, 0));
        let bytes = self.window.bytes.get(skip..skip + len).unwrap_or(&[]);
        let address = buffer.commands + u64::from(buffer.offset);
        match Packet::decode(bytes) {
            Ok(packet) => Ok(packet),
            Err(BadPacket::Truncated) if len < need => {
                // The packet continues at the address where the window ends: report the fault of that address.
                let va = address + len as u64;
                let translation = self.tlb.translate(context.memory, root, va, Intent::Read)?;
                Err(Fault::nowhere(translation.location.unwrap_or_default(), Intent::Read))
            }
            Err(rule) => Err(bad_packet(rule, address)),
        }
    }

    /// The LOG that belongs to a packet. A LOG that belongs to no packet, or is not legal, faults when the engine comes to it.
    #[inline]
    fn log_behind(
        &mut self,
        buffer: &Buffer,
        root: Location,
        packet: &Packet,
        context: &Context<'_>,
    ) -> Option<packet::Log> {
        let operation = match packet {
            Packet::Signal(_) | Packet::Progress(_) => LogOperation::SignalExecuted,
            Packet::Wait(_) => LogOperation::WaitUnblocked,
            _ => return None,
        };
        let behind = Buffer { offset: buffer.offset + packet.size() as u32, ..*buffer };
        if behind.offset >= behind.size {
            return None;
        }
        match self.decode(&behind, root, context) {
            Ok(Packet::Log(log)) if log.operation == operation as u32 => Some(log),
            _ => None,
        }
    }

    fn execute(
        &mut self,
        queue: &mut Queue,
        buffer: &mut Buffer,
        root: Location,
        Decoded { packet, log: said }: Decoded<'_>,
        context: &Context<'_>,
        budget: &mut Budget,
    ) -> Result<Step, Fault> {
        let native = context.features.native_fence;
        let at = buffer.commands + u64::from(buffer.offset);
        if packet.is_privileged() && !buffer.privileged {
            return Err(bad_packet(BadPacket::Privilege, at));
        }
        match packet {
            Packet::Nop(_) => Ok(Step::Done),
            Packet::Copy(copy) => {
                let progress = transfer::Progress { partial: &mut buffer.partial, bytes: &mut budget.bytes };
                transfer::copy(&mut self.tlb, context.memory, root, copy, progress).map(Step::of)
            }
            Packet::Fill(fill) => {
                let progress = transfer::Progress { partial: &mut buffer.partial, bytes: &mut budget.bytes };
                transfer::fill(&mut self.tlb, context.memory, root, fill, progress).map(Step::of)
            }
            Packet::Signal(signal) if native || signal.monitored == 0 => {
                log::keep(&mut queue.logs, LogKind::Signals, said, &mut self.tlb, context)?;
                let (handle, logged_value) = log::told(said, signal.handle, signal.value);
                let process = FencePlace { root, current: signal.current, monitored: signal.monitored };
                let place = match self.fence_place(process, Intent::Write, context)? {
                    Some(place) => place,
                    // Without a monitored value any word may be signalled, also one that is no fence.
                    None if signal.monitored == 0 => process,
                    None => return Err(no_fence(process)),
                };
                let logged = || log::signalled(&mut queue.logs, handle, logged_value, context);
                let announce = match signal.monitored != 0 || signal.handle != 0 {
                    true => self.signal(place, signal.value, context, logged)?,
                    false => self.write(place, signal.value, context, logged)?,
                };
                Tallies::add(&context.tallies.signals);
                if announce {
                    announce_native(queue, signal.current, signal.value, context);
                }
                Ok(Step::Done)
            }
            Packet::Wait(wait) if native => {
                if let Some(key) = self.wait(queue, root, wait, context)? {
                    log::stalled(&mut queue.logs, context);
                    return Ok(Step::Wait { key });
                }
                log::keep(&mut queue.logs, LogKind::Waits, said, &mut self.tlb, context)?;
                let (handle, logged_value) = log::told(said, wait.handle, wait.value);
                log::unblocked(&mut queue.logs, handle, logged_value, context);
                Tallies::add(&context.tallies.waits);
                Ok(Step::Done)
            }
            Packet::Signal(_) | Packet::Wait(_) | Packet::Log(_) => Err(bad_packet(BadPacket::Opcode, at)),
            Packet::Progress(progress) => {
                let written = self.progress(queue, progress.handle, progress.value, said, context)?;
                written.map(|()| Step::Done).ok_or(bad_packet(BadPacket::Opcode, at))
            }
            Packet::Timestamp(timestamp) => self.timestamp(root, timestamp, context),
            Packet::Write(write) => {
                transfer::write(&mut self.tlb, context.memory, root, write, &mut budget.bytes).map(|()| Step::Done)
            }
            Packet::WritePhysical(write) => {
                transfer::write_physical(context.memory, write, &mut budget.bytes).map(|()| Step::Done)
            }
            Packet::Dispatch(_) if queue.node != NODE_COMPUTE => Err(bad_packet(BadPacket::Privilege, at)),
            Packet::Dispatch(dispatch) => {
                let (tlb, programs) = ((&mut self.tlb, &mut self.known), &mut self.programs);
                let progress = transfer::Progress { partial: &mut buffer.partial, bytes: &mut budget.bytes };
                let state = queue.dispatch_state(progress, budget.leaves);
                compute::dispatch(tlb, programs, root, dispatch, state, context).map(Step::of)
            }
            // A node takes the locks of the others here, so there can be only one that does.
            Packet::InvalidateTlb(_) if queue.node != NODE_PAGING => Err(bad_packet(BadPacket::Privilege, at)),
            Packet::InvalidateTlb(invalidate) => {
                let root = Location::from_bits(invalidate.root);
                let (start, end) = mmu::named_range(invalidate.start, invalidate.end);
                self.tlb.forget(root, start, end);
                context.others.forget(queue.node, root, start, end);
                Ok(Step::Done)
            }
        }
    }

    /// Reports that a dispatch has ended because this engine was reset.
    pub(crate) fn report_reset(&mut self, running: &compute::Running, context: &Context<'_>) {
        compute::report_reset((&mut self.tlb, &mut self.known), running, context);
    }

    /// Writes the progress fence of a queue, logs that under a handle and tells of it; `None` if it has none.
    fn progress(
        &mut self,
        queue: &mut Queue,
        handle: u32,
        value: u64,
        said: Option<&packet::Log>,
        context: &Context<'_>,
    ) -> Result<Option<()>, Fault> {
        let Some((root, fence)) = queue.progress() else { return Ok(None) };
        let process = FencePlace { root, current: fence.current, monitored: fence.monitored };
        let current = fence.current;
        if !fence.native {
            // A monitored progress fence has no monitored value: the engine raises an event every time.
            self.write(process, value, context, || {})?;
            match context.features.one_fence_event {
                true => announce_native(queue, current, value, context),
                false => context.report(EventKind::Progress, queue.node, queue.number, [current, value]),
            }
            return Ok(Some(()));
        }
        log::keep(&mut queue.logs, LogKind::Signals, said, &mut self.tlb, context)?;
        let (handle, logged_value) = log::told(said, handle, value);
        let place = self.fence_place(process, Intent::Write, context)?.ok_or(no_fence(process))?;
        if self.signal(place, value, context, || log::signalled(&mut queue.logs, handle, logged_value, context))? {
            announce_native(queue, current, value, context);
        }
        Ok(Some(()))
    }

    /// Where a fence is reached that a process names by these addresses: there, or through the paging process. Then the page tables of
    /// the process say whether it may do what it wants to, and those of the paging process where the values are. `None` if the
    /// scheduler knows no such fence.
    #[inline]
    fn fence_place(
        &mut self,
        process: FencePlace,
        intent: Intent,
        context: &Context<'_>,
    ) -> Result<Option<FencePlace>, Fault> {
        let Some(fences) = context.fences else { return Ok(Some(process)) };
        let place = fences.find(process)?;
        if place.is_some() {
            self.tlb.translate(context.memory, process.root, process.current, intent)?;
            Tallies::add(&context.tallies.system_fences);
        }
        Ok(place)
    }

    /// A word in memory for a fence or timestamp, with the key of its wait list.
    fn word<'a>(
        &mut self,
        root: Location,
        va: u64,
        intent: Intent,
        context: &Context<'a>,
    ) -> Result<(FenceValue<'a>, u64), Fault> {
        let translation = self.tlb.translate(context.memory, root, va, intent)?;
        let Some(location) = translation.location else { return Ok((FenceValue::Zero, waits::NOWHERE)) };
        let span = context.memory.resolve(location, 8, intent == Intent::Write);
        let span = span.ok_or(Fault::nowhere(location, intent))?;
        Ok((FenceValue::Word { span, atomics64: context.features.atomics64 }, location.into_bits()))
    }

    /// Sets a fence, then writes what `log` writes, and wakes the queues that wait for it. True if a CPU waits for it.
    fn signal(
        &mut self,
        place: FencePlace,
        value: u64,
        context: &Context<'_>,
        log: impl FnOnce(),
    ) -> Result<bool, Fault> {
        let (current, key) = self.word(place.root, place.current, Intent::Write, context)?;
        let monitored = match place.monitored {
            0 => FenceValue::Unmonitored,
            va => self.word(place.root, va, Intent::Read, context)?.0,
        };
        let signaled = fence::signal_and_log(&current, &monitored, &Full, value, log);
        context.waits.signalled(context.mailbox, key, signaled.current);
        Ok(signaled.announce)
    }

    /// Writes a word that need be no fence, then what `log` writes, and wakes the queues that wait for it. No CPU waits for it.
    fn write(
        &mut self,
        place: FencePlace,
        value: u64,
        context: &Context<'_>,
        log: impl FnOnce(),
    ) -> Result<bool, Fault> {
        let (current, key) = self.word(place.root, place.current, Intent::Write, context)?;
        current.store(value);
        log();
        Full.full();
        context.waits.signalled(context.mailbox, key, value);
        Ok(false)
    }

    /// The wait list that the queue is in from now on; `None` if the fence has the value.
    fn wait(
        &mut self,
        queue: &mut Queue,
        root: Location,
        wait: &Wait,
        context: &Context<'_>,
    ) -> Result<Option<u64>, Fault> {
        let process = FencePlace { root, current: wait.current, monitored: 0 };
        let place =
            self.fence_place(process, Intent::Read, context)?.ok_or(Fault::page(wait.current, Intent::Read, 0))?;
        let (current, key) = self.word(place.root, place.current, Intent::Read, context)?;
        let number = queue.number;
        let enter = || {
            queue.ticket += 1;
            context.waits.enter(key, number, queue.ticket, wait.value);
            queue.ticket
        };
        let passed = fence::wait(&current, wait.value, enter, |ticket| context.waits.leave(key, number, ticket));
        Ok((!passed).then_some(key))
    }

    fn timestamp(&mut self, root: Location, timestamp: &Timestamp, context: &Context<'_>) -> Result<Step, Fault> {
        if let (FenceValue::Word { span, .. }, _) = self.word(root, timestamp.destination, Intent::Write, context)? {
            span.store(0, context.clock.now());
        }
        Ok(Step::Done)
    }
}
