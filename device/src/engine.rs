//! The engine of a node: fetches ring entries and command buffers and runs packets.
//!
//! Ring entries and packets are copied out before they are looked at, and a packet is decoded whole before it has an effect.
//! Long COPY and FILL packets are done in slices; how far one has come is kept in the queue's buffer.

use crate::cmp::fences::FencePlace;
use crate::cmp::queue::{Buffer, Queue};
use crate::cmp::{Context, Tallies, waits};
use crate::log;
use crate::memory::{self, Access, Span};
use crate::mmu::{Ahead, Fault, Intent, Tlb};
use campanile_hw::event::{EventKind, FaultKind};
use campanile_hw::fence::{self, Barrier, FenceWord, RisingWord, UNMONITORED};
use campanile_hw::log::LogKind;
use campanile_hw::packet::{BadPacket, Copy, Fill, MAX_SIZE, Packet, Timestamp, Wait};
use campanile_hw::queue::{Location, RingEntry};
use std::sync::atomic::Ordering;

/// Bytes of command buffer copied out at a time.
const WINDOW: usize = 512;
/// Bytes copied out when a queue comes to the engine: often it is held again by the next packets.
const FIRST_WINDOW: usize = 128;
/// Bytes of a COPY from which on it passes by the caches of the host, which would not hold it anyway.
const STREAMED: u64 = 16 << 20;
/// Least bytes of its runs.
const STREAMED_RUN: u64 = 4096;
/// Least bytes that one run of a COPY counts for: short runs cost address translation.
const RUN_COST: u64 = 64;

/// What is left of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Packets.
    pub(crate) packets: u32,
    /// Bytes moved.
    pub(crate) bytes: u64,
    /// The slice ends with the command buffer in progress.
    pub(crate) ends_with_buffer: bool,
}

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything written is consumed.
    Idle,
    /// The slice is over, the queue goes on.
    More,
    /// A WAIT holds the queue, which is in the wait list of `key`.
    Wait {
        /// The wait list.
        key: u64,
    },
    /// The next buffer ends in an event that there is no room for.
    Stalled,
    /// The queue did something wrong.
    Fault(Fault),
    /// The engine stands still in a packet and lets go of nothing; its watchdog may have noticed.
    Hang {
        /// The watchdog says so.
        reported: bool,
    },
}

/// What became of a packet in this slice.
enum Step {
    Done,
    Partial,
    Wait { key: u64 },
}

/// The part of a command buffer that was copied out.
#[derive(Debug)]
struct Window {
    bytes: [u8; WINDOW],
    /// Offset in the buffer of the first byte.
    start: u32,
    len: usize,
}

/// A fence value in memory, or what stands for one.
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

impl RisingWord for FenceValue<'_> {
    fn raise(&self, value: u64) -> u64 {
        match self {
            Self::Word { span, atomics64: true } => span.raise(0, value).unwrap_or(0),
            // Native fences, which several write, need 64-bit atomics. Half a value has no order but the shorter way round.
            Self::Word { atomics64: false, .. } => {
                let found = self.load();
                let step = (value as u32).wrapping_sub(found as u32) as i32;
                if found == fence::SIGNALED_FOR_GOOD {
                    return found;
                }
                if step >= 0 {
                    self.store(value);
                }
                value.wrapping_sub(i64::from(step) as u64)
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

/// A stretch of virtual memory that is known to be contiguous.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    va: u64,
    len: u64,
    /// `None` reads as zero and drops writes.
    span: Option<Span<'a>>,
}

impl Stretch<'_> {
    const NOTHING: Self = Stretch { va: 0, len: 0, span: None };

    fn holds(&self, va: u64) -> bool {
        va.checked_sub(self.va).is_some_and(|offset| offset < self.len)
    }
}

/// One side of a transfer: where it is, and where it will be.
struct Side<'a> {
    root: Location,
    intent: Intent,
    now: Stretch<'a>,
    next: Stretch<'a>,
    ahead: Ahead<'a>,
}

impl<'a> Side<'a> {
    fn new(root: Location, intent: Intent) -> Self {
        Self { root, intent, now: Stretch::NOTHING, next: Stretch::NOTHING, ahead: Ahead::NOTHING }
    }

    /// The contiguous memory at `va`, of a transfer that wants `want` bytes there.
    #[inline]
    fn reach(&mut self, tlb: &mut Tlb, memory: &'a Access<'_>, va: u64, want: u64) -> Result<(), Fault> {
        if self.now.holds(va) {
            return Ok(());
        }
        self.now = if self.next.holds(va) { self.next } else { self.translate(tlb, memory, va, want)? };
        let end = self.now.va + self.now.len;
        if let Some(rest) = (va + want).checked_sub(end).filter(|rest| *rest != 0) {
            self.look_ahead(memory, end, rest);
        }
        Ok(())
    }

    fn translate(&mut self, tlb: &mut Tlb, memory: &'a Access<'_>, va: u64, want: u64) -> Result<Stretch<'a>, Fault> {
        let translation = tlb.translate_ahead(memory, self.root, (va, want), self.intent, &mut self.ahead)?;
        let Some(location) = translation.location else {
            return Ok(Stretch { va, len: translation.run, span: None });
        };
        let span = memory.resolve(location, translation.run, self.intent == Intent::Write);
        let span = span.ok_or(Fault::nowhere(location, self.intent))?;
        Ok(Stretch { va, len: span.len(), span: Some(span) })
    }

    /// Finds the stretch that follows, if that is an ordinary one, and has the processor fetch it while this one is worked on.
    fn look_ahead(&mut self, memory: &'a Access<'_>, va: u64, want: u64) {
        let found = || {
            let translation = self.ahead.translate(va, want, self.intent)?;
            let span = memory.resolve(translation.location?, translation.run, self.intent == Intent::Write)?;
            span.prefetch();
            Some(Stretch { va, len: span.len(), span: Some(span) })
        };
        self.next = found().unwrap_or(Stretch::NOTHING);
    }
}

/// One node's engine.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) tlb: Tlb,
    window: Window,
}

impl Default for Engine {
    fn default() -> Self {
        Self { tlb: Tlb::new(), window: Window { bytes: [0; WINDOW], start: 0, len: 0 } }
    }
}

fn bad_packet(rule: BadPacket, address: u64) -> Fault {
    Fault { rule: rule as u8, ..Fault::plain(FaultKind::BadPacket, address) }
}

/// A native fence passed its monitored value.
fn announce_native(queue: &Queue, current: u64, value: u64, context: &Context<'_>) {
    let data = if context.features.optimised_fence_interrupt { [0, 0] } else { [current, value] };
    context.report(EventKind::FenceSignaled, queue.node, queue.number, data);
}

fn no_fence(process: FencePlace) -> Fault {
    Fault::page(process.current, Intent::Write, 0)
}

impl Engine {
    /// Runs a queue until it has nothing to do or the budget is spent.
    pub(crate) fn run(&mut self, queue: &mut Queue, context: &Context<'_>, budget: &mut Budget) -> Outcome {
        self.window.len = 0;
        log::time_passes(queue);
        loop {
            let result = match queue.buffer {
                Some(buffer) => self.run_buffer(queue, buffer, context, budget),
                // What came after a preemption runs when that is reported.
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
        while let Some(root) = buffer.root.filter(|_| buffer.offset < buffer.size) {
            if budget.packets == 0 || budget.bytes == 0 {
                return Ok(Some(Outcome::More));
            }
            let packet = self.decode(buffer, root, context)?;
            if let Some(faults) = context.faults.filter(|_| buffer.partial == 0)
                && let Some(reported) = faults.hang(queue.node, queue.number, &packet)
            {
                return Ok(Some(Outcome::Hang { reported }));
            }
            match self.execute(queue, buffer, root, &packet, context, budget)? {
                Step::Partial => return Ok(Some(Outcome::More)),
                Step::Wait { key } => return Ok(Some(Outcome::Wait { key })),
                Step::Done => {}
            }
            buffer.offset += packet.size() as u32;
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
            self.raise_progress(queue, value, context)?.ok_or_else(|| Fault::plain(FaultKind::BadRingEntry, 0))?;
        }
        queue.write_read_pointer(&mut self.tlb, context.memory)?;
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

    /// Copies out as much of the buffer from its current offset as the window holds and translates.
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
        let known = |window: &Window| {
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
                // The packet goes on where the window could not: say what is wrong there.
                let va = address + len as u64;
                let translation = self.tlb.translate(context.memory, root, va, Intent::Read)?;
                Err(Fault::nowhere(translation.location.unwrap_or_default(), Intent::Read))
            }
            Err(rule) => Err(bad_packet(rule, address)),
        }
    }

    fn execute(
        &mut self,
        queue: &mut Queue,
        buffer: &mut Buffer,
        root: Location,
        packet: &Packet,
        context: &Context<'_>,
        budget: &mut Budget,
    ) -> Result<Step, Fault> {
        let native = context.features.native_fence;
        let at = buffer.commands + u64::from(buffer.offset);
        match packet {
            Packet::Nop(_) => Ok(Step::Done),
            Packet::Copy(copy) => {
                log::time_passes(queue);
                self.copy(root, copy, &mut buffer.partial, context, budget)
            }
            Packet::Fill(fill) => {
                log::time_passes(queue);
                self.fill(root, fill, &mut buffer.partial, context, budget)
            }
            Packet::Signal(signal) if native || signal.monitored == 0 => {
                log::keep(queue, LogKind::Signals, &mut self.tlb, context)?;
                let entry = (signal.handle, signal.value);
                let process = FencePlace { root, current: signal.current, monitored: signal.monitored };
                let place = match self.fence_place(process, Intent::Write, context)? {
                    Some(place) => place,
                    // A word that no CPU waits for need be no fence.
                    None if signal.monitored == 0 => process,
                    None => return Err(no_fence(process)),
                };
                let logged = || log::signalled(queue, entry, context);
                let announce = match signal.monitored != 0 || signal.handle != 0 {
                    true => self.signal(place, (signal.current, signal.value), context, logged)?,
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
                    log::stalled(queue, context);
                    return Ok(Step::Wait { key });
                }
                log::keep(queue, LogKind::Waits, &mut self.tlb, context)?;
                log::unblocked(queue, (wait.handle, wait.value), context);
                Tallies::add(&context.tallies.waits);
                Ok(Step::Done)
            }
            Packet::Signal(_) | Packet::Wait(_) => Err(bad_packet(BadPacket::Opcode, at)),
            Packet::Progress(progress) => {
                let raised = self.raise_progress(queue, progress.value, context)?;
                raised.map(|()| Step::Done).ok_or(bad_packet(BadPacket::Opcode, at))
            }
            Packet::Timestamp(timestamp) => {
                log::time_passes(queue);
                self.timestamp(root, timestamp, context)
            }
        }
    }

    /// Raises the progress fence of a queue and tells of it; `None` if it has none.
    fn raise_progress(&mut self, queue: &Queue, value: u64, context: &Context<'_>) -> Result<Option<()>, Fault> {
        let Some((root, fence)) = queue.progress() else { return Ok(None) };
        let process = FencePlace { root, current: fence.current, monitored: fence.monitored };
        let current = fence.current;
        if !fence.native {
            // A monitored progress fence is the engine's own business: it is told of every time.
            self.write(process, value, context, || {})?;
            context.report(EventKind::Progress, queue.node, queue.number, [current, value]);
            return Ok(Some(()));
        }
        let place = self.fence_place(process, Intent::Write, context)?.ok_or(no_fence(process))?;
        if self.signal(place, (current, value), context, || {})? {
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

    /// Raises a fence, then writes what `log` writes, and wakes the queues that wait for it. True if a CPU waits for it. `va` is where
    /// the process has its current value.
    fn signal(
        &mut self,
        place: FencePlace,
        (va, value): (u64, u64),
        context: &Context<'_>,
        log: impl FnOnce(),
    ) -> Result<bool, Fault> {
        let (current, key) = self.word(place.root, place.current, Intent::Write, context)?;
        let monitored = match place.monitored {
            0 => FenceValue::Unmonitored,
            va => self.word(place.root, va, Intent::Read, context)?.0,
        };
        let announce = fence::signal_and_log(&current, &monitored, &Full, value, log);
        let announce = announce.map_err(|_| Fault { write: true, ..Fault::plain(FaultKind::FenceBackwards, va) })?;
        context.waits.signalled(context.mail, key, value);
        Ok(announce)
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
        context.waits.signalled(context.mail, key, value);
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

    fn copy(
        &mut self,
        root: Location,
        copy: &Copy,
        partial: &mut u64,
        context: &Context<'_>,
        budget: &mut Budget,
    ) -> Result<Step, Fault> {
        let row_bytes = u64::from(copy.row_bytes);
        let streams = row_bytes >= STREAMED_RUN && row_bytes * u64::from(copy.rows) >= STREAMED;
        let result = self.copy_rows(root, copy, partial, context, budget, streams);
        if streams {
            memory::streamed();
        }
        result
    }

    fn copy_rows(
        &mut self,
        root: Location,
        copy: &Copy,
        partial: &mut u64,
        context: &Context<'_>,
        budget: &mut Budget,
        streams: bool,
    ) -> Result<Step, Fault> {
        let row_bytes = u64::from(copy.row_bytes);
        let total = row_bytes * u64::from(copy.rows);
        let (mut row, mut column) = (*partial / row_bytes, *partial % row_bytes);
        let (mut from, mut to) = (Side::new(root, Intent::Read), Side::new(root, Intent::Write));
        while *partial < total {
            if budget.bytes == 0 {
                return Ok(Step::Partial);
            }
            let want = (row_bytes - column).min(budget.bytes);
            let source = copy.source + row * u64::from(copy.source_pitch) + column;
            let destination = copy.destination + row * u64::from(copy.destination_pitch) + column;
            from.reach(&mut self.tlb, context.memory, source, want)?;
            to.reach(&mut self.tlb, context.memory, destination, want)?;
            let count = move_bytes((&to.now, destination), (&from.now, source), want, streams);
            *partial += count;
            column += count;
            if column == row_bytes {
                (row, column) = (row + 1, 0);
            }
            budget.bytes = budget.bytes.saturating_sub(count.max(RUN_COST));
        }
        Ok(Step::Done)
    }

    fn fill(
        &mut self,
        root: Location,
        fill: &Fill,
        partial: &mut u64,
        context: &Context<'_>,
        budget: &mut Budget,
    ) -> Result<Step, Fault> {
        let mut to = Side::new(root, Intent::Write);
        while *partial < fill.size {
            if budget.bytes == 0 {
                return Ok(Step::Partial);
            }
            let va = fill.destination + *partial;
            let want = (fill.size - *partial).min(budget.bytes.next_multiple_of(4));
            to.reach(&mut self.tlb, context.memory, va, want)?;
            let count = (to.now.va + to.now.len - va).min(want);
            if let Some(span) = to.now.span {
                span.fill(fill.pattern, count);
            }
            *partial += count;
            budget.bytes = budget.bytes.saturating_sub(count.max(RUN_COST));
        }
        Ok(Step::Done)
    }
}

/// Moves up to `want` bytes between two stretches, at least one. Returns how many.
fn move_bytes(
    (to, destination): (&Stretch<'_>, u64),
    (from, source): (&Stretch<'_>, u64),
    want: u64,
    streams: bool,
) -> u64 {
    let (skip_to, skip_from) = (destination - to.va, source - from.va);
    let count = want.min(to.len - skip_to).min(from.len - skip_from);
    match (to.span.and_then(|span| span.after(skip_to)), from.span.and_then(|span| span.after(skip_from))) {
        (Some(to), Some(from)) if streams => to.stream_from(from, count),
        (Some(to), Some(from)) => to.copy_from(from, count),
        (Some(to), None) => {
            to.zero(count);
            count
        }
        (None, _) => count,
    }
}
