//! Posted register writes: on PCI Express a write is posted, so that the processor which has stored to a register does not know whether the
//! function has received it.
//!
//! A function of this variant makes that visible. A write arrives when a register is read, because a read pushes the writes before it,
//! or a while later. A command and a change of CONTROL then take a while longer: CMP_STATUS reads as Busy, CONTROL.BUSY as one.

use super::Gpu;
use crate::lock::lock;
use campanile_hw::registers::{self as reg, Command, CommandStatus, Control};
use std::collections::VecDeque;

/// Steps of the function after which a write arrives that no read pushes.
const ARRIVAL_STEPS: u64 = 16;
/// Reads of CMP_STATUS or CONTROL, and steps, after which a command or a change of CONTROL is done, for one command after the other. Never 1,
/// so that a driver has to poll.
const LOOKS_UNTIL_DONE: [u64; 4] = [3, 2, 6, 2];

/// A register write.
#[derive(Clone, Copy, Debug)]
struct Write {
    offset: u64,
    size: u8,
    value: u64,
    /// The step in which it arrives if no read pushes it earlier.
    due: u64,
}

/// A command, or a change of CONTROL, that has arrived and is not done.
#[derive(Clone, Copy, Debug)]
struct Begun {
    write: Write,
    /// Looks until it is done.
    left: u64,
}

/// Writes that were not carried out yet.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    under_way: VecDeque<Write>,
    command: Option<Begun>,
    control: Option<Begun>,
    begun: usize,
    owed: Owed,
    /// The number of ends that the driver has not read in time.
    unread: u64,
}

/// True for a command, or a change of CONTROL, that has begun and whose end the driver has not read.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    command: bool,
    control: bool,
}

impl Owed {
    fn count(self) -> u64 {
        u64::from(self.command) + u64::from(self.control)
    }
}

impl Posted {
    fn begin(&mut self, write: Write) -> Option<Begun> {
        let left = LOOKS_UNTIL_DONE.get(self.begun % LOOKS_UNTIL_DONE.len()).copied().unwrap_or(1);
        self.begun += 1;
        let owed = if write.offset == reg::CONTROL { &mut self.owed.control } else { &mut self.owed.command };
        self.unread += u64::from(std::mem::replace(owed, true));
        Some(Begun { write, left })
    }

    /// Notes that the driver has read, in the status register at `offset`, that nothing is in progress.
    fn tell(&mut self, offset: u64) {
        match offset {
            reg::CMP_STATUS => self.owed.command = false,
            reg::CONTROL => self.owed.control = false,
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.command.is_none() && self.control.is_none()
    }
}

/// True if the register is an argument of commands, or starts one.
fn is_of_commands(offset: u64) -> bool {
    matches!(offset, reg::CMP_COMMAND | reg::CMP_ARG3 | reg::CMP_ARG4)
        || (reg::CMP_ARG0..reg::CMP_COMMAND).contains(&offset)
}

impl Gpu {
    /// Takes a write to a register; it is carried out later.
    pub(crate) fn post(&self, offset: u64, size: u8, value: u64) {
        if offset == reg::CMP_COMMAND && value as u32 == Command::ResetNode as u32 {
            // A command reads its argument registers, so the writes before it arrive first.
            self.arrive(&mut lock(&self.posted), u64::MAX);
            self.hold_reset(offset, value);
        }
        let due = self.steps() + ARRIVAL_STEPS;
        lock(&self.posted).under_way.push_back(Write { offset, size, value, due });
    }

    /// Makes the posted writes arrive, as a read of the register at `offset` does. Returns what the register reads as while a command or a
    /// change of CONTROL is in progress.
    pub(crate) fn push_by_read(&self, offset: u64) -> Option<u64> {
        let mut posted = lock(&self.posted);
        if posted.is_empty() {
            posted.tell(offset);
            return None;
        }
        self.arrive(&mut posted, u64::MAX);
        let answer = match offset {
            reg::CMP_STATUS => self.look_at_command(&mut posted).then_some(CommandStatus::Busy as u64),
            reg::CONTROL => {
                let busy = self.look_at_control(&mut posted);
                let run = Control::new().with_run(self.cmp.running()).with_busy(true);
                busy.then_some(u64::from(run.into_bits()))
            }
            _ => None,
        };
        if answer.is_none() {
            posted.tell(offset);
        }
        drop(posted);
        self.deliver();
        answer
    }

    /// A step of the function: what was under way for long arrives, and what was begun comes nearer to its end. True if there was anything.
    pub(crate) fn step_posted(&self) -> bool {
        let mut posted = lock(&self.posted);
        if posted.is_empty() {
            return false;
        }
        self.arrive(&mut posted, self.steps());
        self.look_at_command(&mut posted);
        self.look_at_control(&mut posted);
        true
    }

    /// Carries out all posted writes, as before an access to configuration space.
    pub(crate) fn settle_posted(&self) {
        let mut posted = lock(&self.posted);
        self.arrive(&mut posted, u64::MAX);
        while self.look_at_command(&mut posted) | self.look_at_control(&mut posted) {}
    }

    /// Drops all posted writes, because the function was reset.
    pub(crate) fn drop_posted(&self) {
        let mut posted = lock(&self.posted);
        let Posted { begun, unread, .. } = *posted;
        *posted = Posted { begun, unread, ..Posted::default() };
    }

    /// Called when the function may not access memory any more: a driver regards its commands as done from now on, so it should have read their
    /// ends.
    pub(crate) fn end_posted(&self) {
        let mut posted = lock(&self.posted);
        posted.unread += std::mem::take(&mut posted.owed).count();
    }

    /// The number of commands and changes of CONTROL whose end the driver has not read before the next one, or before the function lost its
    /// access to memory. Only a function that posts writes counts them.
    pub fn ends_unread(&self) -> u64 {
        lock(&self.posted).unread
    }

    /// Writes arrive in their order: those that are due in step `now`.
    fn arrive(&self, posted: &mut Posted, now: u64) {
        while let Some(write) = posted.under_way.front().copied().filter(|write| write.due <= now || now == u64::MAX) {
            posted.under_way.pop_front();
            match write.offset {
                // One command at a time: what belongs to the next one is not taken before this one is done.
                offset if is_of_commands(offset) && posted.command.is_some() => {}
                reg::CMP_COMMAND => posted.command = posted.begin(write),
                reg::CONTROL => {
                    self.end_control(posted);
                    posted.control = posted.begin(write);
                }
                _ => self.write_now(write.offset, write.size, write.value),
            }
        }
    }

    /// Counts a look at the command in progress. True if it is still in progress.
    fn look_at_command(&self, posted: &mut Posted) -> bool {
        let Some(begun) = &mut posted.command else { return false };
        begun.left = begun.left.saturating_sub(1);
        if begun.left > 0 {
            return true;
        }
        let Write { offset, size, value, .. } = begun.write;
        posted.command = None;
        self.write_now(offset, size, value);
        false
    }

    /// Counts a look at the change of CONTROL in progress. True if it is still in progress.
    fn look_at_control(&self, posted: &mut Posted) -> bool {
        let Some(begun) = &mut posted.control else { return false };
        begun.left = begun.left.saturating_sub(1);
        if begun.left > 0 {
            return true;
        }
        self.end_control(posted);
        false
    }

    fn end_control(&self, posted: &mut Posted) {
        let Some(Begun { write, .. }) = posted.control.take() else { return };
        if Control::from_bits(write.value as u32).reset() {
            (posted.command, posted.owed.command) = (None, false);
        }
        self.write_now(write.offset, write.size, write.value);
    }
}
