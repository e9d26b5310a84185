//! SaveQueue, RestoreQueue and QueryDispatch: the state of a queue is written to a record in memory, and read from it again.
//!
//! Rings, control pages and command buffers lie in the owner's memory; the record has only the state that the scheduler keeps itself: the entries
//! consumed, and the position in the command buffer. Packets that are done have had their effect, and are not executed again.

use super::processor::Cmp;
use crate::compute::Running;
use crate::memory::{Access, Memory};
use crate::queue::{Buffer, Queue, RunState, legal_location};
use campanile_hw::page_table::VA_BITS;
use campanile_hw::queue::{COMMANDS_SIZE_MAX, Location, QueueState, QueueStateFlags};
use campanile_hw::registers::CommandStatus;

/// Alignment of a record.
const ALIGN: u64 = 64;

/// Decodes the location of a queue-state record from a command's argument.
fn place(argument: u64) -> Result<Location, CommandStatus> {
    let location = Location::from_bits(argument);
    let legal = argument >> 53 == 0 && location.address().is_multiple_of(ALIGN);
    if legal { Ok(location) } else { Err(CommandStatus::BadArgument) }
}

/// Writes a record, a multiple of 8 bytes.
fn write(memory: &Access<'_>, to: Location, bytes: &[u8]) -> Result<u64, CommandStatus> {
    let size = bytes.len() as u64;
    let span = memory.resolve(to, size, true).filter(|span| span.len() >= size).ok_or(CommandStatus::PageFault)?;
    for (offset, word) in (0..).step_by(8).zip(bytes.as_chunks::<8>().0) {
        span.store(offset, u64::from_le_bytes(*word));
    }
    Ok(0)
}

/// The record of a queue's position and of its command buffer in progress, for SaveQueue.
fn state_of(queue: &Queue) -> QueueState {
    let buffer = queue.buffer;
    let flags = QueueStateFlags::new()
        .with_buffer(buffer.is_some())
        .with_retire_event(buffer.is_some_and(|buffer| buffer.retire.is_some()))
        .with_write_progress(buffer.is_some_and(|buffer| buffer.progress.is_some()))
        .with_privileged(buffer.is_some_and(|buffer| buffer.privileged))
        .with_faulted(queue.state == RunState::Faulted);
    QueueState {
        fetched: queue.fetched,
        written: queue.write,
        commands: buffer.map_or(0, |buffer| buffer.commands),
        root: buffer.and_then(|buffer| buffer.own_root).map_or(0, Location::into_bits),
        partial: buffer.map_or(0, |buffer| buffer.partial),
        tag: buffer.and_then(|buffer| buffer.retire.or(buffer.progress)).unwrap_or(0),
        observed: queue.logs.as_ref().map_or(0, |logs| logs.observed()),
        size: buffer.map_or(0, |buffer| buffer.size),
        offset: buffer.map_or(0, |buffer| buffer.offset),
        flags: flags.into_bits(),
    }
}

/// The buffer of a record: `Some(None)` if it has none, `None` if its fields are not valid.
fn buffer_of(queue: &Queue, state: &QueueState, vram: u64) -> Option<Option<Buffer>> {
    let flags = QueueStateFlags::from_bits(state.flags);
    let kernel = flags.retire_event() || flags.write_progress() || flags.privileged();
    if state.flags >> 5 != 0 || (kernel && !(flags.buffer() && queue.is_privileged())) {
        return None;
    }
    if flags.write_progress() && queue.progress().is_none() {
        return None;
    }
    if !flags.buffer() {
        return Some(None);
    }
    let end = state.commands.checked_add(u64::from(state.size))?;
    let aligned = (state.commands | u64::from(state.size) | u64::from(state.offset)).is_multiple_of(4);
    let inside = state.size <= COMMANDS_SIZE_MAX && state.offset <= state.size && end <= 1 << VA_BITS;
    let own_root = match state.root {
        0 => None,
        bits => Some(legal_location(bits, 4096, vram)?),
    };
    // Only a queue of the kernel runs in another address space than its own.
    let legal = queue.is_privileged() || own_root.is_none();
    let somewhere = state.size == 0 || own_root.or(queue.root()).is_some();
    if !(aligned && inside && legal && somewhere && state.fetched != 0) {
        return None;
    }
    Some(Some(Buffer {
        commands: state.commands,
        size: state.size,
        offset: state.offset,
        partial: state.partial,
        dispatched: false,
        own_root,
        retire: flags.retire_event().then_some(state.tag),
        progress: flags.write_progress().then_some(state.tag),
        privileged: flags.privileged(),
    }))
}

impl Cmp {
    pub(super) fn save_queue(&self, memory: &Memory, number: u32, to: u64) -> Result<u64, CommandStatus> {
        let to = place(to)?;
        self.with_queue(memory, number, |node, context| {
            let queue = node.queue(number).ok_or(CommandStatus::BadQueue)?;
            if !matches!(queue.state, RunState::Suspended | RunState::Faulted) {
                return Err(CommandStatus::BadState);
            }
            write(context.memory, to, &state_of(queue).to_bytes())
        })
    }

    pub(super) fn query_dispatch(&self, memory: &Memory, number: u32, to: u64) -> Result<u64, CommandStatus> {
        let to = place(to)?;
        self.with_queue(memory, number, |node, context| {
            let queue = node.queue(number).ok_or(CommandStatus::BadQueue)?;
            let running = queue.dispatch.as_deref().map(Running::position);
            let position = running.or(queue.saved_at.as_deref().copied()).ok_or(CommandStatus::BadState)?;
            write(context.memory, to, &position.to_bytes())
        })
    }

    pub(super) fn restore_queue(&self, memory: &Memory, number: u32, from: u64) -> Result<u64, CommandStatus> {
        let from = place(from)?;
        self.with_queue(memory, number, |node, context| {
            let queue = node.queue(number).ok_or(CommandStatus::BadQueue)?;
            if queue.state != RunState::Suspended || !queue.is_fresh() {
                return Err(CommandStatus::BadState);
            }
            let mut bytes = [0; QueueState::SIZE];
            let span = context.memory.resolve(from, bytes.len() as u64, false);
            if span.is_none_or(|span| span.read(&mut bytes) != bytes.len()) {
                return Err(CommandStatus::PageFault);
            }
            if !QueueState::unnamed_are_zero(&bytes) {
                return Err(CommandStatus::BadArgument);
            }
            let state = QueueState::from_bytes(&bytes);
            let buffer = buffer_of(queue, &state, context.features.vram).ok_or(CommandStatus::BadArgument)?;
            if !queue.believes(state.written, state.fetched) {
                return Err(CommandStatus::BadArgument);
            }
            (queue.write, queue.fetched, queue.buffer) = (state.written, state.fetched, buffer);
            if let Some(logs) = &mut queue.logs {
                logs.set_observed(state.observed);
            }
            if QueueStateFlags::from_bits(state.flags).faulted() {
                queue.state = RunState::Faulted;
            }
            Ok(0)
        })
    }
}
