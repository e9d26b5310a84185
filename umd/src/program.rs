//! Programs of the compute node: checked, and copied to memory that the GPU executes.

use campanile_hw::isa::{self, ProgramHeader};
use wddm_ddi::kmt::D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE;

use crate::{
    buffer::{Buffer, Placement},
    commands::Dispatch,
    device::Device,
    error::{Error, Result},
};

/// A program in memory that the GPU may read and execute but not write. Clones share it. As with a [`Buffer`], keep it until what dispatches it is done.
#[derive(Clone)]
pub struct Program {
    memory: Buffer,
    header: ProgramHeader,
}

impl Device {
    /// Copies a program of the GPU's instruction set, as `campanile asm` writes it, or the crate campanile-compiler makes it of SPIR-V, to memory of its own.
    ///
    /// # Errors
    /// [`Error::BadProgram`] with the rule that it breaks: the GPU would refuse it as well, by a fault. Otherwise as [`Device::create_buffer`] and
    /// [`Buffer::map`]. [d3dkmthk: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::Execute]
    pub fn create_program(&self, program: &[u8]) -> Result<Program> {
        let header = *isa::Program::validate(program).map_err(Error::BadProgram)?.header();
        let protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Execute(true);
        let memory = Buffer::mapped_for(self, program.len() as u64, Placement::SystemUncached, protection)?;
        memory.map()?.write(0, program)?;
        Ok(Program { memory, header })
    }
}

impl Program {
    /// First GPU virtual address, a multiple of 4096.
    pub fn gpu_address(&self) -> u64 {
        self.memory.gpu_address()
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.memory.size()
    }

    /// Bytes that the state of a dispatch takes at most while its queue is off the node, for [`crate::QueueOptions::save_bytes`].
    pub fn save_bytes(&self) -> u32 {
        self.header.save_size()
    }

    /// Lanes of a workgroup in three dimensions.
    pub fn workgroup(&self) -> [u32; 3] {
        [self.header.workgroup_x, self.header.workgroup_y, self.header.workgroup_z]
    }

    /// A dispatch of so many workgroups in three dimensions, which is given the GPU virtual address `arguments`.
    pub fn dispatch(&self, groups: [u32; 3], arguments: u64) -> Dispatch {
        let [grid_x, grid_y, grid_z] = groups;
        Dispatch {
            program_size: self.size() as u32,
            program: self.gpu_address(),
            arguments,
            indirect: 0,
            grid_x,
            grid_y,
            grid_z,
            report: 0,
        }
    }
}
