//! `campanile qemu`: the GPU in a virtual machine, as a card in a slot.
//!
//! The GPU is served over vfio-user and plugged into QEMU. A small Linux guest boots, whose only process is this program; there the machine
//! of the operating-system side is on the bus `vfio`, with the Windows images, and does the main job and conformance cases.

mod archive;
mod conversation;
mod doorbells;
mod faults;
mod function;
mod guest;
mod image;
mod images;
#[allow(unsafe_code)]
mod kvm;
mod load;
mod lspci;
mod machine;
mod monitor;
mod plug;
#[allow(unsafe_code)]
mod process;
mod protocol;
mod report;
mod session;
mod slot;
mod suite;
mod tools;
mod wgpu;
mod windows;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use campanile_device::Variant;

use conversation::Heard;

use crate::print::print;
pub use guest::command as guest_command;
pub use load::{Then, command as load_command};
pub use machine::Accelerator;
use testbed::exit::{EXIT_FAILED, EXIT_INPUT, EXIT_MACHINE, EXIT_OK};

/// Options of `campanile qemu`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// QEMU, if not the one that is found.
    pub qemu: Option<PathBuf>,
    /// Kernel of the guest and its modules, if not those that are found.
    pub kernel: Option<(PathBuf, PathBuf)>,
    /// Accelerator of the guest; KVM where it works, if automatic.
    pub accelerator: Accelerator,
    /// Conformance cases by what their names, areas or pages contain; a step each. None means the core of them.
    pub filters: Vec<String>,
    /// File for a report as JUnit's XML.
    pub junit: Option<PathBuf>,
    /// A guest with a disk of its own, instead of running anything.
    pub disk: Option<DiskOptions>,
    /// Measure doorbells instead of running anything.
    pub bench: bool,
    /// Only print the command line of QEMU.
    pub dry_run: bool,
    /// Longest time for the whole run of the guest.
    pub time_limit: Duration,
    /// The GPU.
    pub variant: Variant,
}

/// A guest with a disk of its own.
#[derive(Clone, Debug, Default)]
pub struct DiskOptions {
    /// Image of the guest's disk.
    pub disk: PathBuf,
    /// A disc to install from.
    pub iso: Option<PathBuf>,
    /// Folder that it sees as a drive, if there is one.
    pub package: Option<PathBuf>,
    /// UEFI firmware, if not the one that is found.
    pub firmware: Option<PathBuf>,
    /// Host and port at which a kernel debugger connects to the guest's first serial port, such as `127.0.0.1:5510`.
    pub debugger: String,
    /// Display option of QEMU, such as `vnc=127.0.0.1:0`.
    pub display: String,
    /// Mebibytes of memory.
    pub memory: u64,
    /// Processors.
    pub processors: u32,
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    if let Some(disk) = &options.disk {
        return match boot(options, disk) {
            Ok(code) => code,
            Err(reason) => refuse(&reason, EXIT_INPUT),
        };
    }
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
    print(&setting.accelerator.to_string());
    let (report, ended) = match steps.run(&mut setting) {
        Ok(ran) => ran,
        Err(reason) => return refuse(&reason, EXIT_MACHINE),
    };
    if let Some(path) = &options.junit
        && let Err(reason) = report.write(path)
    {
        return refuse(&reason, EXIT_INPUT);
    }
    print(&report.summary());
    if let session::Ended::Stopped(signal) = ended {
        return stopped(signal);
    }
    if report.is_good() { EXIT_OK } else { EXIT_FAILED }
}

/// Measures the doorbells of two GPUs, in the guest.
pub fn doorbells_command() -> u8 {
    doorbells::measure()
}

/// Boots a guest from its disk, until it is shut down.
fn boot(options: &Options, disk: &DiskOptions) -> Result<u8, String> {
    let folder = tools::folder();
    if !options.dry_run {
        windows::check(&disk.disk, disk.iso.as_deref())?;
    }
    let firmware = tools::firmware(disk.firmware.as_deref(), &folder, options.dry_run)?;
    let package = match &disk.package {
        Some(named) if !named.is_dir() => return Err(format!("{} is no folder", named.display())),
        Some(named) => Some(named.clone()),
        None => Some(shipped_package()).filter(|folder| folder.is_dir()),
    };
    let chosen = options.accelerator.settled(|| kvm::probe(kvm::DEVICE));
    let line = |sockets: &[PathBuf], variables: PathBuf| {
        let machine = machine::Machine {
            accelerator: chosen.accelerator,
            memory_mib: disk.memory,
            processors: disk.processors,
            windows: true,
            sockets,
            empty_slot: None,
        };
        let all = windows::Disk {
            disk: disk.disk.clone(),
            iso: disk.iso.clone(),
            package: package.clone(),
            firmware: (firmware.clone(), variables),
            debugger: disk.debugger.clone(),
            display: disk.display.clone(),
        };
        windows::line(&machine, &all)
    };
    if options.dry_run {
        let program = options.qemu.clone().unwrap_or_else(|| "qemu-system-x86_64".into());
        let line = line(&[Path::new("/tmp/campanile-qemu/gpu0").to_owned()], windows::variables_path(&disk.disk))?;
        print(&line.to_shell(&program));
        return Ok(EXIT_OK);
    }
    let qemu = tools::qemu(options.qemu.as_deref(), &folder)?;
    let variables = windows::variables(&firmware, &disk.disk)?;
    let folder = session::Folder::new()?;
    let (news, heard) = channel();
    let asked = process::Asked::tell(news.clone(), Heard::Signal);
    let _asked = asked.map_err(|error| format!("signals cannot be waited for: {error}"))?;
    let gpus = [session::Served::new(&options.variant)];
    session::with_gpus(&gpus, &folder, &news, |servers| {
        let line = line(&servers.sockets, variables)?;
        print(&chosen.to_string());
        print(&format!("screen: {}; kernel debugger: {}", disk.display, disk.debugger));
        let started = process::Running::start(Command::new(&qemu).args(&line.0));
        let mut running = started.map_err(|error| format!("{} does not start: {error}", qemu.display()))?;
        match running.wait_or(&heard).map_err(|error| error.to_string())? {
            Ok(status) if status.success() => Ok(EXIT_OK),
            Ok(status) => Ok(refuse(&format!("QEMU ended badly: {status}"), EXIT_MACHINE)),
            Err(Heard::Signal(signal)) => {
                // Asks QEMU to end by itself, so that the guest's writes reach its disk.
                running.ask_to_end();
                Ok(stopped(signal))
            }
            Err(Heard::Server(reason)) => {
                running.ask_to_end();
                Ok(refuse(&format!("{reason}; the guest is ended"), EXIT_MACHINE))
            }
            Err(Heard::Line(_) | Heard::End) => Ok(EXIT_MACHINE),
        }
    })?
}

/// Says that a signal has ended the guest, and returns the exit code for that.
fn stopped(signal: i32) -> u8 {
    refuse(&format!("stopped by {}, and the guest with it", process::name(signal)), process::exit_code(signal))
}

/// Folder into which `cargo xtask package` writes the driver package.
fn shipped_package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("package")
}

fn refuse(reason: &str, code: u8) -> u8 {
    testbed::complain!("campanile: {reason}");
    code
}

fn setting(options: &Options) -> Result<session::Setting, String> {
    let folder = tools::folder();
    let named = options.kernel.as_ref().map(|(image, modules)| (image.as_path(), modules.as_path()));
    Ok(session::Setting {
        qemu: tools::qemu(options.qemu.as_deref(), &folder)?,
        kernel: tools::kernel(named, &folder)?,
        accelerator: options.accelerator.settled(|| kvm::probe(kvm::DEVICE)),
        gpus: vec![session::Served::new(&options.variant)],
        spare: None,
        time_limit: options.time_limit,
    })
}
