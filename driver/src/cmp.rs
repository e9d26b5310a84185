//! The scheduler's command registers and its queue descriptor table.

use core::sync::atomic::{AtomicBool, Ordering};

use campanile_hw::log::{LogKind, LogTarget};
use campanile_hw::queue::{Location, QueueDescriptor, QueueState};
use campanile_hw::registers::{self, Command, CommandStatus, Control};

use crate::irql::UpToDispatch;
use crate::lock::SpinLock;
use crate::mmio::{Mapping, Registers};

/// Why a command had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// The scheduler says why.
    Refused(CommandStatus),
    /// The function does not answer any more, does not come to the end of a command, or answers what this command cannot.
    Lost,
    /// The function was reset, though nobody here has stopped it: it has forgotten all that it was told, and does nothing of it.
    Reset,
    /// The device is not in D0, where nothing of it may be touched.
    PoweredDown,
}

/// What a command came to whose status, once it is not busy, reads as `status`.
fn outcome(command: Command, status: u32) -> Result<(), CommandError> {
    match CommandStatus::from_number(status).filter(|status| command.may_answer(*status)) {
        Some(CommandStatus::Done) => Ok(()),
        Some(refused) => Err(CommandError::Refused(refused)),
        None => Err(CommandError::Lost),
    }
}

/// Commands to the scheduler, one at a time.
pub(crate) struct Cmp {
    registers: Registers,
    /// The table at QUEUE_TABLE_BASE, from the start of VRAM, and what of the driver's lies behind it.
    descriptors: Mapping,
    /// VRAM offset of the record that SaveQueue and RestoreQueue go through; belongs to who holds `lock`.
    record: u64,
    /// The device is in D0.
    powered: AtomicBool,
    /// RUN was set, and nobody has cleared it since.
    run: AtomicBool,
    /// A command did not end, and the function was not started anew since: it takes no other.
    stuck: AtomicBool,
    /// Innermost spin lock: held for the argument registers, the command and its result.
    lock: SpinLock<()>,
}

impl Cmp {
    /// The scheduler behind `registers`, whose descriptors lie at `descriptors`, with room for a record at `record`.
    pub(crate) fn new(registers: Registers, descriptors: Mapping, record: u64) -> Self {
        Self {
            registers,
            descriptors,
            record,
            powered: AtomicBool::new(true),
            run: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            lock: SpinLock::new(()),
        }
    }

    /// Whether the device is in D0, as far as the operating system has said.
    pub(crate) fn is_powered(&self) -> bool {
        self.powered.load(Ordering::Acquire)
    }

    /// The device leaves D0 after this, or has come back to it. No command is under way when a refusal of them returns.
    pub(crate) fn set_powered(&self, irql: &impl UpToDispatch, powered: bool) {
        let _held = self.lock.lock(irql);
        self.powered.store(powered, Ordering::Release);
    }

    /// Whether RUN is set, as far as the driver did that. Told after it was set, and before it is cleared: every reset of the function clears
    /// it too, which is how one is told from what the driver asked for.
    pub(crate) fn set_run(&self, run: bool) {
        if run {
            self.stuck.store(false, Ordering::SeqCst);
        }
        self.run.store(run, Ordering::SeqCst);
    }

    /// The function was removed by surprise: every command fails from now on without touching it.
    pub(crate) fn lose(&self) {
        self.registers.lose();
    }

    /// Runs a command and returns its result; effects are complete when this returns.
    pub(crate) fn run(&self, irql: &impl UpToDispatch, command: Command, args: [u64; 3]) -> Result<u64, CommandError> {
        self.run_with(irql, command, &args)
    }

    /// As [`Cmp::run`], for commands with more arguments.
    pub(crate) fn run_long(
        &self,
        irql: &impl UpToDispatch,
        command: Command,
        args: [u64; 5],
    ) -> Result<u64, CommandError> {
        self.run_with(irql, command, &args)
    }

    /// As [`Cmp::run`], with arguments that are looked up while no other command runs: what a later command makes the scheduler forget is
    /// not named by this one any more. Without arguments nothing is done.
    pub(crate) fn run_found(
        &self,
        irql: &impl UpToDispatch,
        command: Command,
        find: impl FnOnce() -> Option<[u64; 3]>,
    ) -> Result<(), CommandError> {
        let _held = self.lock.lock(irql);
        find().map_or(Ok(()), |args| self.execute(command, &args).map(drop))
    }

    fn run_with(&self, irql: &impl UpToDispatch, command: Command, args: &[u64]) -> Result<u64, CommandError> {
        let _held = self.lock.lock(irql);
        self.execute(command, args)
    }

    /// A command of who holds `lock`.
    fn execute(&self, command: Command, args: &[u64]) -> Result<u64, CommandError> {
        const ARGUMENTS: [u64; 5] =
            [registers::CMP_ARG0, registers::CMP_ARG1, registers::CMP_ARG2, registers::CMP_ARG3, registers::CMP_ARG4];
        if self.registers.is_gone() || self.stuck.load(Ordering::SeqCst) {
            return Err(CommandError::Lost);
        }
        if !self.is_powered() {
            return Err(CommandError::PoweredDown);
        }
        for (register, value) in ARGUMENTS.into_iter().zip(args) {
            self.registers.write64(register, *value);
        }
        self.registers.write32(registers::CMP_COMMAND, command as u32);
        // Writes are posted: only a read tells that the command has arrived, and that it is done.
        let busy = CommandStatus::Busy as u32;
        let Some(status) = self.registers.poll32(registers::CMP_STATUS, |status| status != busy) else {
            self.stuck.store(true, Ordering::SeqCst);
            return Err(CommandError::Lost);
        };
        match outcome(command, status) {
            Ok(()) => Ok(self.registers.read64(registers::CMP_RESULT)),
            Err(CommandError::Refused(CommandStatus::NotRunning)) if self.has_stopped() => Err(CommandError::Reset),
            Err(error) => Err(error),
        }
    }

    /// Whether RUN is clear though nobody here has cleared it: the function was reset. One that is gone, or answers at its addresses no
    /// more, reads as if it were set.
    pub(crate) fn was_reset(&self, irql: &impl UpToDispatch) -> bool {
        let _held = self.lock.lock(irql);
        self.has_stopped()
    }

    /// As [`Cmp::was_reset`], of who holds `lock`.
    fn has_stopped(&self) -> bool {
        // Outside D0 nothing is touched. Whoever clears RUN says so first: if it is asked again afterwards, it was nobody here.
        let is_set = || self.run.load(Ordering::SeqCst);
        is_set() && !Control::from_bits(self.registers.read32(registers::CONTROL)).run() && is_set()
    }

    /// Writes descriptor `number` and puts the queue on the run list.
    pub(crate) fn map_queue(
        &self,
        irql: &impl UpToDispatch,
        number: u32,
        descriptor: &QueueDescriptor,
    ) -> Result<(), CommandError> {
        let offset = u64::from(number) * QueueDescriptor::SIZE as u64;
        if self.registers.is_gone() {
            return Err(CommandError::Lost);
        }
        self.descriptors.write_bytes(offset, &descriptor.to_bytes());
        self.run(irql, Command::MapQueue, [u64::from(number), 0, 0]).map(drop)
    }

    /// Takes a queue off the run list; the device touches nothing on its behalf afterwards.
    pub(crate) fn unmap_queue(&self, irql: &impl UpToDispatch, number: u32) -> Result<(), CommandError> {
        self.run(irql, Command::UnmapQueue, [u64::from(number), 0, 0]).map(drop)
    }

    fn record(&self) -> u64 {
        Location::new().with_address(self.record).into_bits()
    }

    /// Takes a queue that stands still off the run list; the answer is how far it had come.
    pub(crate) fn save_queue(&self, irql: &impl UpToDispatch, number: u32) -> Result<QueueState, CommandError> {
        let _held = self.lock.lock(irql);
        self.execute(Command::SaveQueue, &[u64::from(number), self.record(), 0])?;
        let mut bytes = [0; QueueState::SIZE];
        for (offset, word) in (0..).step_by(8).zip(bytes.as_chunks_mut::<8>().0) {
            *word = self.descriptors.read64(self.record + offset).to_le_bytes();
        }
        self.execute(Command::UnmapQueue, &[u64::from(number), 0, 0])?;
        Ok(QueueState::from_bytes(&bytes))
    }

    /// Lets a queue that was mapped suspended go on where it was.
    pub(crate) fn restore_queue(
        &self,
        irql: &impl UpToDispatch,
        number: u32,
        state: &QueueState,
    ) -> Result<(), CommandError> {
        let _held = self.lock.lock(irql);
        self.descriptors.write_bytes(self.record, &state.to_bytes());
        self.execute(Command::RestoreQueue, &[u64::from(number), self.record(), 0]).map(drop)
    }

    /// Gives a queue a fence log in place of the one of this kind that it has.
    pub(crate) fn set_log(
        &self,
        irql: &impl UpToDispatch,
        number: u32,
        kind: LogKind,
        header: u64,
        entries: u32,
    ) -> Result<(), CommandError> {
        let target = LogTarget::new().with_queue(number).with_kind(kind as u8).into_bits();
        self.run(irql, Command::SetFenceLog, [target, header, u64::from(entries)]).map(drop)
    }

    /// Makes the scheduler look at a queue's write pointer.
    pub(crate) fn kick(&self, irql: &impl UpToDispatch, number: u32) -> Result<(), CommandError> {
        self.run(irql, Command::KickQueue, [u64::from(number), 0, 0]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_the_command_does_not_have_is_that_of_a_broken_function() {
        for (number, ..) in Command::ALL {
            let command = Command::from_number(*number).unwrap();
            for status in (0..=CommandStatus::ALL.len() as u32).chain([u32::MAX]) {
                let known = CommandStatus::from_number(status).filter(|known| command.may_answer(*known));
                let expected = match known {
                    Some(CommandStatus::Done) => Ok(()),
                    Some(refused) => Err(CommandError::Refused(refused)),
                    None => Err(CommandError::Lost),
                };
                assert_eq!(outcome(command, status), expected, "{command:?} {status}");
            }
        }
        let lost = Err(CommandError::Lost);
        let no_room = CommandStatus::NoRoom as u32;
        assert_eq!(outcome(Command::MapFence, no_room), Err(CommandError::Refused(CommandStatus::NoRoom)));
        assert_eq!([outcome(Command::MapQueue, no_room), outcome(Command::RescanWaits, 3)], [lost, lost]);
    }
}
