//! Programs through the C API, which records a dispatch call by call, and the clock of their reports.

use std::sync::Arc;

use campanile_umd::Dispatch;
use campanile_umd::c_api::{CDispatch, ProgramHandle};

use super::{Adapter, Device, Library, OwnedQueue, Recorder, Result, failed};

owner!(OwnedProgram, ProgramHandle, campanile_program_destroy);

#[derive(Clone)]
pub(in super::super) struct Program {
    /// Destroyed with the last clone.
    _owned: Arc<OwnedProgram>,
    address: u64,
    size: u32,
}

impl Adapter {
    pub(in super::super) fn clock_hz(&self) -> Result<u64> {
        let mut hertz = 0;
        call!(self.0.library, campanile_adapter_clock(self.0.handle, &raw mut hertz))?;
        Ok(hertz)
    }
}

impl Device {
    pub(in super::super) fn create_program(&self, program: &[u8]) -> Result<Program> {
        let library = self.0.library;
        let mut handle = ProgramHandle { id: 0 };
        let (first, size) = (program.as_ptr().cast(), program.len() as u64);
        call!(library, campanile_program_create(self.0.handle, first, size, &raw mut handle))?;
        let owned = Arc::new(OwnedProgram { library, handle });
        let mut address = 0;
        call!(library, campanile_program_address(handle, &raw mut address))?;
        Ok(Program { _owned: owned, address, size: program.len() as u32 })
    }
}

impl Program {
    pub(in super::super) fn dispatch(&self, groups: [u32; 3], arguments: u64) -> Dispatch {
        let [grid_x, grid_y, grid_z] = groups;
        let (program, program_size) = (self.address, self.size);
        Dispatch { program_size, program, arguments, indirect: 0, grid_x, grid_y, grid_z, report: 0 }
    }
}

impl Recorder<'_> {
    pub(in super::super) fn dispatch(&mut self, dispatch: &Dispatch) -> Result<()> {
        let Dispatch { program_size, program, arguments, indirect, grid_x, grid_y, grid_z, report } = *dispatch;
        let groups = [grid_x, grid_y, grid_z];
        let dispatch = CDispatch { program, program_size, groups, arguments, indirect, report };
        self.open()?;
        let OwnedQueue { library, handle } = self.queue.owned;
        call!(library, campanile_record_dispatch(handle, &raw const dispatch))
    }
}
