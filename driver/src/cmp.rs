//! The scheduler's command registers and its queue descriptor table.

use core::sync::atomic::{AtomicBool, Ordering};

use campanile_hw::isa::DispatchPosition;
use campanile_hw::log::{LogKind, LogTarget};
use campanile_hw::queue::{Location, QueueDescriptor, QueueState};
use campanile_hw::registers::{self, Command, CommandStatus, Control};

use crate::irql::UpToDispatch;
use crate::lock::SpinLock;
use crate::mmio::{Mapping, Registers};
use crate::refusal::{Reason, Refused, refused};

/// The reason why a command had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// The scheduler says why.
    Refused(CommandStatus),
    /// The function does not answer any more, does not finish a command, or answers with a status that this command cannot have.
    Lost,
    /// The function was reset although the driver has not stopped it: it has lost its queues and settings, and carries out nothing.
    Reset,
    /// The device is not in D0, where nothing of it may be touched.
    PoweredDown,
}

/// The outcome of a command whose status, once it is not busy, reads as `status`.
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
    /// The driver's part of VRAM, which begins with the table at QUEUE_TABLE_BASE.
    descriptors: Mapping,
    /// VRAM offset of the record in which SaveQueue, RestoreQueue and QueryDispatch pass what they are about; guarded by `lock`.
    record: u64,
    /// True while the device is in D0.
    powered: AtomicBool,
    /// True while the driver has RUN set.
    run: AtomicBool,
    /// True if a command did not end and the function was not started anew since. It takes no other command.
    stuck: AtomicBool,
    /// Innermost spin lock: taken for the argument registers, the command and its result.
    lock: SpinLock<()>,
}

impl Cmp {
    /// The scheduler behind `registers`, whose descriptors lie at `descriptors`; `record` is the VRAM offset of the record of a queue's
    /// state.
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

    /// True while the device is in D0, as far as the operating system has said.
    pub(crate) fn is_powered(&self) -> bool {
        self.powered.load(Ordering::Acquire)
    }

    /// Notes that the device is about to leave D0, or has come back to it. When this returns for the former, no command is in progress and
    /// later ones are refused.
    pub(crate) fn set_powered(&self, irql: &impl UpToDispatch, powered: bool) {
        let _held = self.lock.lock(irql);
        self.powered.store(powered, Ordering::Release);
    }

    /// Notes that the driver has set RUN, or is about to clear it. A reset of the function clears RUN too, so a RUN that is clear against
    /// this note tells of a reset.
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

    /// Runs a command with the arguments that it takes, at most five; effects are complete when this returns. The other argument registers keep what
    /// they have, since each access to a register costs more than all the rest of this.
    pub(crate) fn run(&self, irql: &impl UpToDispatch, command: Command, args: &[u64]) -> Result<(), CommandError> {
        let _held = self.lock.lock(irql);
        self.execute(command, args)
    }

    /// As [`Cmp::run`], for a command that has a result.
    pub(crate) fn ask(&self, irql: &impl UpToDispatch, command: Command, args: &[u64]) -> Result<u64, CommandError> {
        let _held = self.lock.lock(irql);
        self.execute(command, args)?;
        Ok(self.registers.read64(registers::CMP_RESULT))
    }

    /// As [`Cmp::run`], with arguments that `find` looks up while no other command can run, so that they never name what another command has
    /// just removed from the scheduler. If `find` returns `None`, no command is run.
    pub(crate) fn run_looked_up(
        &self,
        irql: &impl UpToDispatch,
        command: Command,
        find: impl FnOnce() -> Option<[u64; 2]>,
    ) -> Result<(), CommandError> {
        let _held = self.lock.lock(irql);
        find().map_or(Ok(()), |args| self.execute(command, &args))
    }

    /// Carries out a command. The caller has `lock`.
    fn execute(&self, command: Command, args: &[u64]) -> Result<(), CommandError> {
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
            Err(CommandError::Refused(CommandStatus::NotRunning)) if self.has_stopped() => Err(CommandError::Reset),
            outcome => outcome,
        }
    }

    /// True if RUN is clear although the driver has not cleared it, because the function was reset. A function that is gone, or no longer
    /// answers at its addresses, reads as if RUN were set.
    pub(crate) fn was_reset(&self, irql: &impl UpToDispatch) -> bool {
        let _held = self.lock.lock(irql);
        self.has_stopped()
    }

    /// As [`Cmp::was_reset`]. The caller has `lock`.
    fn has_stopped(&self) -> bool {
        // Outside D0 no register is touched. The driver notes that it clears RUN before it does, so the note is read again after the
        // register: if it still says set, the driver has not cleared RUN.
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
        self.run(irql, Command::MapQueue, &[u64::from(number)])
    }

    /// Takes a queue off the run list; the device touches nothing on its behalf afterwards.
    pub(crate) fn unmap_queue(&self, irql: &impl UpToDispatch, number: u32) -> Result<(), CommandError> {
        self.run(irql, Command::UnmapQueue, &[u64::from(number)])
    }

    fn record(&self) -> u64 {
        Location::new().with_address(self.record).into_bits()
    }

    /// Saves the state of a queue that does not run and unmaps the queue. Returns the state, with which [`Cmp::restore_queue`] lets it go
    /// on later.
    pub(crate) fn save_queue(&self, irql: &impl UpToDispatch, number: u32) -> Result<QueueState, CommandError> {
        let _held = self.lock.lock(irql);
        self.execute(Command::SaveQueue, &[u64::from(number), self.record()])?;
        let bytes = self.read_record();
        self.execute(Command::UnmapQueue, &[u64::from(number)])?;
        Ok(QueueState::from_bytes(&bytes))
    }

    /// What the device has written to the record. The caller has `lock`.
    fn read_record<const SIZE: usize>(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        for (offset, word) in (0..).step_by(8).zip(bytes.as_chunks_mut::<8>().0) {
            *word = self.descriptors.read64(self.record + offset).to_le_bytes();
        }
        bytes
    }

    /// Where the dispatch in progress of a queue stands; refused as BadState if there is none.
    pub(crate) fn query_dispatch(
        &self,
        irql: &impl UpToDispatch,
        number: u32,
    ) -> Result<DispatchPosition, CommandError> {
        let _held = self.lock.lock(irql);
        self.execute(Command::QueryDispatch, &[u64::from(number), self.record()])?;
        Ok(DispatchPosition::from_bytes(&self.read_record()))
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
        self.execute(Command::RestoreQueue, &[u64::from(number), self.record()])
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
        self.run(irql, Command::SetFenceLog, &[target, header, u64::from(entries)])
    }

    /// Makes the scheduler look at a queue's write pointer.
    pub(crate) fn kick(&self, irql: &impl UpToDispatch, number: u32) -> Result<(), CommandError> {
        self.run(irql, Command::KickQueue, &[u64::from(number)])
    }
}

/// The answer of a DDI whose scheduler command was refused.
pub(crate) fn refused_command(error: CommandError) -> Refused {
    match error {
        CommandError::Lost
        | CommandError::Reset
        | CommandError::PoweredDown
        | CommandError::Refused(CommandStatus::NotRunning) => refused(Reason::NotRunning),
        CommandError::Refused(_) => refused(Reason::CommandRefused),
    }
}

/// As [`refused_command`], of a command that only a queue which has faulted refuses as BadState, whether or not the fault is reported yet.
pub(crate) fn refused_by_queue(error: CommandError) -> Refused {
    match error {
        CommandError::Refused(CommandStatus::BadState) => refused(Reason::QueueLost),
        error => refused_command(error),
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
        let table_is_full = CommandStatus::TableFull as u32;
        assert_eq!(outcome(Command::MapFence, table_is_full), Err(CommandError::Refused(CommandStatus::TableFull)));
        assert_eq!([outcome(Command::MapQueue, table_is_full), outcome(Command::RescanWaits, 3)], [lost, lost]);
    }
}
