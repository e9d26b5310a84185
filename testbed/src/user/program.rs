//! Programs of the compute node, the command that runs one, and the clock of its report.

use campanile_umd::Dispatch;

use super::{Adapter, AdapterInner, Device, DeviceInner, Recorder, RecorderInner, Result, dll};

either! {
    #[doc = "A program in memory that the GPU executes. Clones share it; keep it until what dispatches it is done."]
    #[derive(Clone)]
    Program, ProgramInner
}

impl Adapter {
    /// Frequency of the clock that the GPU writes to timestamps and reports of dispatches, in hertz.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn clock_hz(&self) -> Result<u64> {
        on!(&self.0, AdapterInner, it => Ok(it.clock_hz()), it.clock_hz())
    }
}

impl Device {
    /// Copies a program to memory that the GPU executes.
    ///
    /// # Errors
    /// The program breaks a rule of the instruction set, or the operating system refused.
    pub fn create_program(&self, program: &[u8]) -> Result<Program> {
        Ok(Program(match &self.0 {
            DeviceInner::Linked(device) => ProgramInner::Linked(device.create_program(program)?),
            DeviceInner::Dll(device) => ProgramInner::Dll(device.create_program(program)?),
        }))
    }
}

impl Program {
    /// A dispatch of so many workgroups in three dimensions, which is given the GPU virtual address `arguments`.
    pub fn dispatch(&self, groups: [u32; 3], arguments: u64) -> Dispatch {
        on!(&self.0, ProgramInner, it => it.dispatch(groups, arguments), it.dispatch(groups, arguments))
    }
}

impl Recorder<'_, '_> {
    /// Runs a program in a grid of workgroups, on a queue of the compute node. The next command begins when it has ended.
    ///
    /// # Errors
    /// As for [`Recorder::copy`].
    pub fn dispatch(&mut self, dispatch: &Dispatch) -> Result<()> {
        on!(&mut self.0, RecorderInner, it => Ok(it.dispatch(dispatch)?), it.dispatch(dispatch))
    }
}
