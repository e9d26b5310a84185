//! Commands of the command processor (CMP): each is carried out, or refused without effect, when it returns.
//!
//! The register file runs one command at a time, so what a command checks first still holds when it acts.

use super::node::NodeState;
use super::processor::Cmp;
use crate::context::Context;
use crate::context::doorbells::BadDoorbell;
use crate::context::fences::FencePlace;
use crate::log::{BadLog, Logs};
use crate::memory::Memory;
use crate::mmu::{self, Fault, Intent};
use crate::queue::run_list::{BANDS, BandTimes, Rank, Terms};
use crate::queue::share::Share;
use crate::queue::{self, Queue, RunState, legal_location};
use campanile_hw::event::EventKind;
use campanile_hw::page_table::VA_BITS;
use campanile_hw::queue::{Location, QueueDescriptor};
use campanile_hw::registers::{Command, CommandStatus, NODES};
use std::sync::atomic::Ordering;

/// RESULT of ResetNode when nothing was running.
const NO_QUEUE: u64 = u64::MAX;

type Result<T> = std::result::Result<T, CommandStatus>;

impl From<BadDoorbell> for CommandStatus {
    fn from(BadDoorbell: BadDoorbell) -> Self {
        Self::BadDoorbell
    }
}

fn number(argument: u64, otherwise: CommandStatus) -> Result<u32> {
    u32::try_from(argument).map_err(|_| otherwise)
}

/// Arguments that are words of 32 bits.
fn words<const COUNT: usize>(arguments: [u64; COUNT]) -> Result<[u32; COUNT]> {
    let mut words = [0; COUNT];
    for (word, argument) in words.iter_mut().zip(arguments) {
        *word = number(argument, CommandStatus::BadArgument)?;
    }
    Ok(words)
}

fn root(argument: u64) -> Result<Location> {
    let location = Location::from_bits(argument);
    let legal = argument >> 53 == 0 && location.address().is_multiple_of(4096);
    if legal { Ok(location) } else { Err(CommandStatus::BadArgument) }
}

fn unreachable_page(_: Fault) -> CommandStatus {
    CommandStatus::PageFault
}

impl Cmp {
    /// Runs command `command` and returns the value of RESULT.
    ///
    /// # Errors
    /// The status that says why the command was refused.
    pub(crate) fn command(&self, memory: &Memory, command: u32, arguments: [u64; 5]) -> Result<u64> {
        let command = Command::from_number(command).ok_or(CommandStatus::UnknownCommand)?;
        if !self.running() {
            return Err(CommandStatus::NotRunning);
        }
        let [first, second, third, fourth, fifth] = arguments;
        let queue = || number(first, CommandStatus::BadQueue);
        match command {
            Command::MapQueue => self.map(memory, queue()?),
            Command::UnmapQueue => self.unmap(memory, queue()?),
            Command::SuspendQueue => self.suspend(memory, queue()?, second),
            Command::ResumeQueue => self.resume(memory, queue()?),
            Command::KickQueue => self.kick(memory, queue()?),
            Command::ConnectDoorbell => self.connect(memory, first, number(second, CommandStatus::BadQueue)?),
            Command::DisconnectDoorbell => self.disconnect(first, number(second, CommandStatus::BadQueue)?),
            Command::FenceChanged => self.fence_changed(memory, root(first)?, second),
            Command::RescanWaits => {
                self.waits.rescan(&self.mailbox);
                Ok(0)
            }
            Command::InvalidateTlb => self.invalidate(root(first)?, second, third),
            Command::ResetNode => self.reset_node(memory, number(first, CommandStatus::BadArgument)?),
            Command::QueryQueue => self.query(memory, queue()?),
            Command::DiscardQueue => self.discard(memory, queue()?),
            Command::SetFenceLog => self.set_fence_log(memory, first, second, third),
            Command::FlushFenceLogs => self.flush_fence_logs(memory, queue()?),
            Command::MapFence => {
                let process = FencePlace { root: root(first)?, current: second, monitored: third };
                self.map_fence(process, fourth, fifth)
            }
            Command::UnmapFence => self.unmap_fence(root(first)?, second),
            Command::SetNodePower => self.set_power(number(first, CommandStatus::BadArgument)?, second),
            Command::SetQueuePriority => self.set_priority(memory, queue()?, [second, third, fourth, fifth]),
            Command::SetBandShare => self.set_band_share(first),
            Command::SaveQueue => self.save_queue(memory, queue()?, second),
            Command::RestoreQueue => self.restore_queue(memory, queue()?, second),
            Command::QueryDispatch => self.query_dispatch(memory, queue()?, second),
            Command::PreemptQueue => self.preempt(memory, queue()?, second),
            Command::SetBandTimes => self.set_band_times(first, [second, third, fourth]),
            Command::SetQueueRoot => self.set_queue_root(memory, queue()?, second),
            Command::SetSchedulingLog => {
                let node = number(first, CommandStatus::BadArgument)?;
                self.set_scheduling_log(memory, node, [second, third, fourth])
            }
        }
    }

    fn map_fence(&self, process: FencePlace, current: u64, monitored: u64) -> Result<u64> {
        if self.features.system_fences.is_none() {
            return Err(CommandStatus::UnknownCommand);
        }
        let legal = |address: u64| address != 0 && address.is_multiple_of(8) && address >> VA_BITS == 0;
        if ![process.current, process.monitored, current, monitored].into_iter().all(legal) {
            return Err(CommandStatus::BadArgument);
        }
        let root = self.paging_root().ok_or(CommandStatus::BadState)?;
        self.fences.insert(process, FencePlace { root, current, monitored }).map(|()| 0)
    }

    fn unmap_fence(&self, root: Location, current: u64) -> Result<u64> {
        if self.features.system_fences.is_none() {
            return Err(CommandStatus::UnknownCommand);
        }
        if !self.fences.remove(root, current) {
            return Err(CommandStatus::BadArgument);
        }
        // A node that found the fence before has finished with it when its slice is over.
        for node in &self.nodes {
            drop(node.claim());
        }
        Ok(0)
    }

    /// Works on a node between two slices of its engine, after the node has taken in what the mailbox has for it.
    pub(super) fn with_node<T>(
        &self,
        memory: &Memory,
        node: u32,
        act: impl FnOnce(&mut NodeState, &Context<'_>) -> Result<T>,
    ) -> Result<T> {
        let place = self.nodes.get(node as usize).ok_or(CommandStatus::BadArgument)?;
        let mut state = place.claim();
        self.power.note_activity(node);
        let access = memory.access();
        let context = self.context(place, &access);
        if access.dma_enabled() {
            state.drain(node, &context);
        }
        let result = act(&mut state, &context);
        place.tallies.note_hung(state.is_hung());
        if state.has_runnable() {
            self.mailbox.set_pending(node, true);
        }
        state.add_accesses(access.resolved());
        result
    }

    /// The node of a mapped queue.
    pub(super) fn node_of(&self, queue: u32) -> Result<u32> {
        self.mailbox.node_of(queue).ok_or(CommandStatus::BadQueue)
    }

    pub(super) fn with_queue<T>(
        &self,
        memory: &Memory,
        queue: u32,
        act: impl FnOnce(&mut NodeState, &Context<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_node(memory, self.node_of(queue)?, act)
    }

    fn map(&self, memory: &Memory, number: u32) -> Result<u64> {
        if number >= self.table_count.load(Ordering::Relaxed) || self.mailbox.node_of(number).is_some() {
            return Err(CommandStatus::BadQueue);
        }
        if self.events.full() {
            return Err(CommandStatus::BadState);
        }
        let mut bytes = [0u8; QueueDescriptor::SIZE];
        let at = self.table_base.load(Ordering::Relaxed) + u64::from(number) * QueueDescriptor::SIZE as u64;
        let access = memory.access();
        let span = access.resolve(Location::new().with_address(at), bytes.len() as u64, false);
        if span.is_none_or(|span| span.read(&mut bytes) != bytes.len()) {
            return Err(CommandStatus::BadDescriptor);
        }
        drop(access);
        if !QueueDescriptor::unnamed_are_zero(&bytes) {
            return Err(CommandStatus::BadDescriptor);
        }
        let descriptor = QueueDescriptor::from_bytes(&bytes);
        let mut queue = Queue::new(number, &descriptor, self.features).ok_or(CommandStatus::BadDescriptor)?;
        let terms = queue::terms_of(&descriptor).ok_or(CommandStatus::BadDescriptor)?;
        let node = queue.node;
        self.with_node(memory, node, |state, context| {
            let tlb = &mut state.engine.tlb;
            let write = queue.read_write_pointer(tlb, context.memory).map_err(unreachable_page)?;
            queue.logs = Logs::of_descriptor(tlb, context, context.log_root(queue.root()), &descriptor).map_err(
                |bad| match bad {
                    BadLog::Argument => CommandStatus::BadDescriptor,
                    BadLog::Unreachable => CommandStatus::PageFault,
                },
            )?;
            state.insert(queue, descriptor.process, terms);
            self.mailbox.set_node(number, Some(node));
            state.observe(number, write, true, context);
            Ok(0)
        })
    }

    fn unmap(&self, memory: &Memory, number: u32) -> Result<u64> {
        let node = self.node_of(number)?;
        if let Some(doorbell) = self.mailbox.doorbell_of(number) {
            self.doorbells.disconnect(&self.mailbox, doorbell, number)?;
        }
        self.with_node(memory, node, |state, context| {
            if let Some((queue, engine)) = state.queue_and_engine(number)
                && let Some(logs) = &mut queue.logs
            {
                logs.flush(&mut engine.tlb, context);
            }
            state.remove(number, context);
            self.mailbox.close(number, node);
            Ok(0)
        })
    }

    fn suspend(&self, memory: &Memory, number: u32, cookie: u64) -> Result<u64> {
        if self.events.full() {
            return Err(CommandStatus::BadState);
        }
        self.with_queue(memory, number, |state, context| {
            let faulted = state.queue(number).is_some_and(|queue| queue.state == RunState::Faulted);
            let stuck = |queue: &mut Queue| context.faults.stuck_suspend(queue.node);
            if state.is_hung_in(number) || !faulted && state.queue(number).is_some_and(stuck) {
                state.leave_unanswered(number, cookie);
                return Ok(0);
            }
            let holds = |queue: &mut Queue| queue.holds_node(context.features.preemption);
            if state.queue(number).is_some_and(holds) {
                state.leave_later(number, cookie);
                return Ok(0);
            }
            if !faulted {
                state.stop(number, context);
            }
            let queue = state.queue(number).ok_or(CommandStatus::BadQueue)?;
            context.report(EventKind::Suspended, queue.node, number, [cookie, 0]);
            Ok(0)
        })
    }

    fn resume(&self, memory: &Memory, number: u32) -> Result<u64> {
        self.with_queue(memory, number, |state, context| {
            if state.is_leaving(number) {
                // It is as if the queue had left the node and got it back at once.
                state.answer_leaving(number, context);
            } else if state.queue(number).ok_or(CommandStatus::BadQueue)?.state != RunState::Suspended {
                return Err(CommandStatus::BadState);
            } else {
                state.settle(number, context);
            }
            // A write pointer that went away meanwhile stops the queue for good, as it would have while running.
            state.look(number, context);
            Ok(0)
        })
    }

    fn set_queue_root(&self, memory: &Memory, number: u32, bits: u64) -> Result<u64> {
        let root = match bits {
            0 => None,
            bits => Some(legal_location(bits, 4096, self.features.vram).ok_or(CommandStatus::BadArgument)?),
        };
        self.with_queue(memory, number, |state, context| {
            let (queue, engine) = state.queue_and_engine(number).ok_or(CommandStatus::BadQueue)?;
            if !matches!(queue.state, RunState::Suspended | RunState::Faulted) {
                return Err(CommandStatus::BadState);
            }
            queue.set_root(root);
            if let Some(logs) = &mut queue.logs {
                logs.set_root(context.log_root(root), &mut engine.tlb, context);
            }
            Ok(0)
        })
    }

    fn kick(&self, memory: &Memory, number: u32) -> Result<u64> {
        self.with_queue(memory, number, |state, context| {
            match state.queue(number).ok_or(CommandStatus::BadQueue)?.state {
                RunState::Faulted => return Err(CommandStatus::BadState),
                // It is looked at when it is resumed; until then nothing of it need be in memory.
                RunState::Suspended => {}
                RunState::Idle | RunState::Runnable | RunState::Waiting { .. } => state.look(number, context),
            }
            Ok(0)
        })
    }

    fn connect(&self, memory: &Memory, doorbell: u64, number: u32) -> Result<u64> {
        let page = u32::try_from(doorbell).map_err(|_| CommandStatus::BadDoorbell)?;
        let node = self.node_of(number)?;
        self.doorbells.check(&self.mailbox, page, number)?;
        if self.faults.connect_fails(node) {
            return Err(CommandStatus::TableFull);
        }
        self.with_queue(memory, number, |state, context| {
            let (queue, engine) = state.queue_and_engine(number).ok_or(CommandStatus::BadQueue)?;
            if queue.state == RunState::Faulted {
                return Err(CommandStatus::BadState);
            }
            queue.read_write_pointer(&mut engine.tlb, context.memory).map_err(unreachable_page)?;
            self.doorbells.connect(&self.mailbox, page, number)?;
            // Read after the word was cleared: a store before that is in the control page, one after it is seen by polling. One that went
            // away since the check stops the queue, as it would later.
            state.look(number, context);
            Ok(0)
        })
    }

    fn disconnect(&self, doorbell: u64, number: u32) -> Result<u64> {
        let page = u32::try_from(doorbell).map_err(|_| CommandStatus::BadDoorbell)?;
        self.node_of(number)?;
        self.doorbells.disconnect(&self.mailbox, page, number)?;
        Ok(0)
    }

    fn fence_changed(&self, memory: &Memory, root: Location, va: u64) -> Result<u64> {
        if !va.is_multiple_of(8) {
            return Err(CommandStatus::BadArgument);
        }
        let access = memory.access();
        let translation = mmu::walk(&access, root, va, Intent::Read).map_err(unreachable_page)?;
        if let Some(location) = translation.location {
            access.resolve(location, 8, false).ok_or(CommandStatus::PageFault)?;
            self.waits.changed(&self.mailbox, &access, location.into_bits());
        }
        Ok(0)
    }

    fn invalidate(&self, root: Location, start: u64, end: u64) -> Result<u64> {
        if start > end || end > 1 << VA_BITS {
            return Err(CommandStatus::BadArgument);
        }
        let (start, end) = mmu::named_range(start, end);
        for node in &self.nodes {
            node.claim().engine.tlb.forget(root, start, end);
        }
        Ok(0)
    }

    fn reset_node(&self, memory: &Memory, node: u32) -> Result<u64> {
        if node >= NODES {
            return Err(CommandStatus::BadArgument);
        }
        if self.faults.reset_fails(node) {
            return Err(CommandStatus::BadState);
        }
        self.with_node(memory, node, |state, context| {
            if self.faults.completion_races_reset(node) {
                state.let_go(node, context);
            }
            let along = self.faults.reset_takes_along(node);
            Ok(state.reset(along, context).map_or(NO_QUEUE, u64::from))
        })
    }

    fn query(&self, memory: &Memory, number: u32) -> Result<u64> {
        let connected = u64::from(self.mailbox.doorbell_of(number).is_some());
        self.with_queue(memory, number, |state, _| {
            let running = state.current() == Some(number);
            let code = match state.queue(number).ok_or(CommandStatus::BadQueue)?.state {
                RunState::Idle => 0,
                RunState::Runnable if running => 2,
                RunState::Runnable => 1,
                RunState::Waiting { .. } => 3,
                RunState::Suspended => 4,
                RunState::Faulted => 5,
            };
            Ok(code | connected << 8)
        })
    }

    fn set_priority(&self, memory: &Memory, queue: u32, arguments: [u64; 4]) -> Result<u64> {
        let [rank, quantum, grace_same, grace_lower] = words(arguments)?;
        let rank = Rank::of(rank).ok_or(CommandStatus::BadArgument)?;
        let terms = Terms { rank, quantum, grace_same, grace_lower };
        self.with_queue(memory, queue, |state, _| {
            state.run_list.set_rank(queue, terms).ok_or(CommandStatus::BadQueue)?;
            Ok(0)
        })
    }

    fn set_band_share(&self, percent: u64) -> Result<u64> {
        let percent = number(percent, CommandStatus::BadArgument)?;
        let share = Share::new(percent).ok_or(CommandStatus::BadArgument)?;
        for node in &self.nodes {
            node.claim().run_list.set_share(share);
        }
        Ok(0)
    }

    fn set_band_times(&self, band: u64, arguments: [u64; 3]) -> Result<u64> {
        let band = usize::try_from(band).ok().filter(|band| *band < BANDS).ok_or(CommandStatus::BadArgument)?;
        let [process_quantum, grace, process_grace] = words(arguments)?;
        for node in &self.nodes {
            node.claim().run_list.set_times(band, BandTimes { process_quantum, grace, process_grace });
        }
        Ok(0)
    }

    fn preempt(&self, memory: &Memory, number: u32, cookie: u64) -> Result<u64> {
        if self.events.full() {
            return Err(CommandStatus::BadState);
        }
        self.with_queue(memory, number, |state, context| {
            let (queue, engine) = state.queue_and_engine(number).ok_or(CommandStatus::BadQueue)?;
            if matches!(queue.state, RunState::Suspended | RunState::Faulted) || queue.preemption.is_some() {
                return Err(CommandStatus::BadState);
            }
            // What was written until now is dropped, whether or not the queue was told of it.
            let write = queue.read_write_pointer(&mut engine.tlb, context.memory).map_err(unreachable_page)?;
            state.observe(number, write, true, context);
            if state.queue(number).is_some_and(|queue| queue.state == RunState::Faulted) {
                return Err(CommandStatus::BadState);
            }
            let stuck = |queue: &mut Queue| context.faults.stuck_suspend(queue.node);
            if !state.queue(number).is_some_and(stuck) {
                state.preempt(number, cookie, context);
            }
            Ok(0)
        })
    }

    fn discard(&self, memory: &Memory, number: u32) -> Result<u64> {
        self.with_queue(memory, number, |state, context| {
            let (queue, engine) = state.queue_and_engine(number).ok_or(CommandStatus::BadQueue)?;
            if queue.state != RunState::Suspended {
                return Err(CommandStatus::BadState);
            }
            let write = queue.read_write_pointer(&mut engine.tlb, context.memory).map_err(unreachable_page)?;
            if !queue.believes(write, queue.fetched) {
                return Err(CommandStatus::BadArgument);
            }
            if queue.buffer.is_none() {
                queue.write_read_pointer(&mut engine.tlb, context.memory, write).map_err(unreachable_page)?;
            }
            let dropped = write.saturating_sub(queue.fetched);
            (queue.write, queue.fetched) = (write, write);
            Ok(dropped)
        })
    }
}
