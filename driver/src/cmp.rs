//! The scheduler's command registers and its queue descriptor table.

use campanile_hw::log::{LogKind, LogTarget};
use campanile_hw::queue::QueueDescriptor;
use campanile_hw::registers::{self, Command, CommandStatus};

use crate::irql::UpToDispatch;
use crate::lock::SpinLock;
use crate::mmio::{Mapping, Registers};

/// Why a command had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// The scheduler says why.
    Refused(CommandStatus),
    /// The function does not answer any more.
    Lost,
}

/// Commands to the scheduler, one at a time.
pub(crate) struct Cmp {
    registers: Registers,
    /// The table at QUEUE_TABLE_BASE.
    descriptors: Mapping,
    /// Innermost spin lock: held for the argument registers, the command and its result.
    lock: SpinLock<()>,
}

impl Cmp {
    /// The scheduler behind `registers`, whose descriptors lie at `descriptors`.
    pub(crate) fn new(registers: Registers, descriptors: Mapping) -> Self {
        Self { registers, descriptors, lock: SpinLock::new(()) }
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

    fn run_with(&self, irql: &impl UpToDispatch, command: Command, args: &[u64]) -> Result<u64, CommandError> {
        const ARGUMENTS: [u64; 5] =
            [registers::CMP_ARG0, registers::CMP_ARG1, registers::CMP_ARG2, registers::CMP_ARG3, registers::CMP_ARG4];
        let _held = self.lock.lock(irql);
        for (register, value) in ARGUMENTS.into_iter().zip(args) {
            self.registers.write64(register, *value);
        }
        self.registers.write32(registers::CMP_COMMAND, command as u32);
        match CommandStatus::from_number(self.registers.read32(registers::CMP_STATUS)) {
            Some(CommandStatus::Done) => Ok(self.registers.read64(registers::CMP_RESULT)),
            Some(refused) => Err(CommandError::Refused(refused)),
            None => Err(CommandError::Lost),
        }
    }

    /// Writes descriptor `number` and puts the queue on the run list.
    pub(crate) fn map_queue(
        &self,
        irql: &impl UpToDispatch,
        number: u32,
        descriptor: &QueueDescriptor,
    ) -> Result<(), CommandError> {
        let offset = u64::from(number) * QueueDescriptor::SIZE as u64;
        self.descriptors.write_bytes(offset, &descriptor.to_bytes());
        self.run(irql, Command::MapQueue, [u64::from(number), 0, 0]).map(drop)
    }

    /// Takes a queue off the run list; the device touches nothing on its behalf afterwards.
    pub(crate) fn unmap_queue(&self, irql: &impl UpToDispatch, number: u32) -> Result<(), CommandError> {
        self.run(irql, Command::UnmapQueue, [u64::from(number), 0, 0]).map(drop)
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
