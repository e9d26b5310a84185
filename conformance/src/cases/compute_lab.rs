//! What cases of DISPATCH work with: a queue of the compute node with a program, data and a report in memory that the processor sees.

use campanile_hw::packet::{DISPATCH_DONE, Dispatch, DispatchReport, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COMPUTE;

use crate::rig::{Memory, RawQueue, Rig, View};
use crate::{Case, Failure};

/// Bytes of the memory that ARGUMENTS is the address of.
const DATA_SIZE: u64 = 128 << 10;
/// Bytes of the memory of a program.
const PROGRAM_SIZE: u64 = 64 << 10;

/// A device with everything that a dispatch needs.
pub struct Lab {
    pub rig: Rig,
    pub queue: RawQueue,
    pub program: Memory,
    pub program_view: View,
    /// Memory whose address is the argument of every dispatch.
    pub data: Memory,
    view: View,
    report: Memory,
    report_view: View,
}

/// The bytes of a program.
pub fn assembled(text: &str) -> Result<Vec<u8>, Failure> {
    campanile_isa::assemble(text).map_err(|error| Failure::new(format!("the case's program: {error}\n{text}")))
}

impl Lab {
    pub fn new(case: &Case) -> Result<Self, Failure> {
        Self::on(case.rig()?)
    }

    /// The same of a device that is there.
    pub fn on(rig: Rig) -> Result<Self, Failure> {
        let queue = rig.queue(NODE_COMPUTE)?;
        let program = rig.program_memory(PROGRAM_SIZE)?;
        let data = rig.memory(DATA_SIZE, Placement::SystemUncached)?;
        let report = rig.memory(4096, Placement::SystemUncached)?;
        let (program_view, view, report_view) = (rig.view(program)?, rig.view(data)?, rig.view(report)?);
        view.fill(0);
        report_view.fill(0);
        Ok(Self { rig, queue, program, program_view, data, view, report, report_view })
    }

    /// Puts a program into memory; a dispatch of it with the report of this device.
    pub fn load(&self, text: &str, grid: [u32; 3]) -> Result<Dispatch, Failure> {
        Ok(self.load_bytes(&assembled(text)?, grid))
    }

    /// As [`Lab::load`], with any bytes as the program.
    pub fn load_bytes(&self, bytes: &[u8], grid: [u32; 3]) -> Dispatch {
        self.load_at(0, bytes, grid)
    }

    /// As [`Lab::load_bytes`], at an offset of the memory for programs.
    pub fn load_at(&self, offset: u64, bytes: &[u8], grid: [u32; 3]) -> Dispatch {
        self.program_view.write(offset, bytes);
        let [grid_x, grid_y, grid_z] = grid;
        Dispatch {
            program_size: bytes.len() as u32,
            program: self.program.address + offset,
            arguments: self.data.address,
            indirect: 0,
            grid_x,
            grid_y,
            grid_z,
            report: self.report.address,
        }
    }

    /// Executes a dispatch and waits for it; its report.
    pub fn execute(&mut self, dispatch: Dispatch) -> Result<DispatchReport, Failure> {
        self.report_view.fill(0);
        self.rig.execute(&mut self.queue, &[Packet::Dispatch(dispatch)])?;
        let report = self.report()?;
        ensure_eq!((report.state, report.fault), (DISPATCH_DONE, 0), "state and fault of the report");
        Ok(report)
    }

    /// Runs a program on a grid and waits for it; its report.
    pub fn run(&mut self, text: &str, grid: [u32; 3]) -> Result<DispatchReport, Failure> {
        let dispatch = self.load(text, grid)?;
        self.execute(dispatch)
    }

    /// The report as it is in memory.
    pub fn report(&self) -> Result<DispatchReport, Failure> {
        let bytes = self.report_view.read(0, DispatchReport::SIZE as u64);
        let bytes = bytes.try_into().map_err(|_| Failure::new("the report has another size"))?;
        Ok(DispatchReport::from_bytes(&bytes))
    }

    pub fn set_word(&self, index: u64, value: u32) {
        self.view.write(4 * index, &value.to_le_bytes());
    }

    pub fn word(&self, index: u64) -> u32 {
        self.words(index, 1).first().copied().unwrap_or(0)
    }

    pub fn words(&self, first: u64, count: u64) -> Vec<u32> {
        self.view.read(4 * first, 4 * count).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }

    pub fn set_double(&self, index: u64, value: u64) {
        self.view.write(8 * index, &value.to_le_bytes());
    }

    pub fn double(&self, index: u64) -> u64 {
        self.view.read(8 * index, 8).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Address of a word of the data.
    pub fn address(&self, index: u64) -> u64 {
        self.data.address + 4 * index
    }
}
