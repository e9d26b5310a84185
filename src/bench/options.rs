//! Options of the command.

use std::path::PathBuf;

use testbed::setup::MachineOptions;

/// Options of `campanile bench`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print JSON instead of a table.
    pub json: bool,
    /// Few rounds and samples.
    pub quick: bool,
    /// Take only rows whose id or description contains this.
    pub filter: Option<String>,
    /// The GPU to build.
    pub machine: MachineOptions,
    /// The words of the command line by which another process builds the same machine.
    pub machine_words: Vec<String>,
    /// Socket of a machine in another process: only the rows about such a machine are measured.
    pub machine_at: Option<PathBuf>,
    /// An earlier report, beside which this one is put.
    pub compare: Option<PathBuf>,
}
