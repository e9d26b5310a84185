//! `campanile qemu`: the GPU in a virtual machine, as a card in a slot.
//!
//! The GPU is served over vfio-user and plugged into QEMU. A small Linux guest boots, whose only process is this program; there the machine
//! of the operating-system side is on the bus `vfio`, with the Windows images, and does the main job and conformance cases.

mod archive;
mod doorbells;
mod function;
mod guest;
mod image;
mod machine;
mod protocol;
mod report;
mod session;
mod suite;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use campanile_device::Variant;

use crate::cli::{EXIT_FAILED, EXIT_INPUT, EXIT_MACHINE, EXIT_OK, print};
pub use guest::command as guest_command;
pub use machine::Accelerator;

/// What to run, and on what.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// QEMU, if not the one that is found.
    pub qemu: Option<PathBuf>,
    /// Kernel of the guest and its modules, if not those that are found.
    pub kernel: Option<(PathBuf, PathBuf)>,
    /// Who executes the guest's instructions.
    pub accelerator: Accelerator,
    /// Conformance cases by what their names, areas or pages contain; a step each. None means [`suite::CORE`].
    pub filters: Vec<String>,
    /// Where to write a report as JUnit's XML.
    pub junit: Option<PathBuf>,
    /// Measure doorbells instead of running anything.
    pub bench: bool,
    /// Only print the command line of QEMU.
    pub dry_run: bool,
    /// How long the guest may take.
    pub patience: Duration,
    /// The GPU.
    pub variant: Variant,
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let steps = match suite::Suite::new(&options.filters) {
        Ok(steps) => steps,
        Err(reason) => return refuse(&reason, EXIT_INPUT),
    };
    let mut setting = match setting(options) {
        Ok(setting) => setting,
        Err(reason) => return refuse(&reason, EXIT_MACHINE),
    };
    if options.dry_run {
        print(&suite::Suite::show(&setting));
        return EXIT_OK;
    }
    if options.bench {
        return match doorbells::bench(&mut setting) {
            Ok(table) => {
                print(&table);
                EXIT_OK
            }
            Err(reason) => refuse(&reason, EXIT_MACHINE),
        };
    }
    let report = match steps.run(&setting) {
        Ok(report) => report,
        Err(reason) => return refuse(&reason, EXIT_MACHINE),
    };
    if let Some(path) = &options.junit
        && let Err(reason) = report.write(path)
    {
        return refuse(&reason, EXIT_INPUT);
    }
    print(&report.summary());
    if report.is_good() { EXIT_OK } else { EXIT_FAILED }
}

/// Measures the doorbells of two GPUs, in the guest.
pub fn doorbells_command() -> u8 {
    doorbells::measure()
}

fn refuse(reason: &str, code: u8) -> u8 {
    eprintln!("campanile: {reason}");
    code
}

fn setting(options: &Options) -> Result<session::Setting, String> {
    let folder = tools::folder();
    let named = options.kernel.as_ref().map(|(image, modules)| (image.as_path(), modules.as_path()));
    Ok(session::Setting {
        qemu: tools::qemu(options.qemu.as_deref(), &folder)?,
        kernel: tools::kernel(named, &folder)?,
        accelerator: options.accelerator,
        gpus: vec![session::Served { variant: options.variant.clone(), trapped_doorbells: false }],
        patience: options.patience,
    })
}
