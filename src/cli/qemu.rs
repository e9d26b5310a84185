//! Command line of the guest in a virtual machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::qemu;
use testbed::setup::VariantOptions;

#[derive(Args, Debug)]
pub(super) struct QemuArguments {
    /// QEMU to use, of version 10.1 or later [default: qemu-system-x86_64 where it is new enough, else Debian's, unpacked].
    #[arg(long, value_name = "PROGRAM")]
    qemu: Option<PathBuf>,
    /// Kernel of the guest, with vfio and an IOMMU driver [default: Debian's cloud kernel, unpacked].
    #[arg(long, value_name = "FILE", requires = "modules")]
    kernel: Option<PathBuf>,
    /// Folder that has the modules of that kernel, at any depth.
    #[arg(long, value_name = "FOLDER", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Accelerator that executes the guest's instructions; `auto` takes KVM if it can run a few instructions here, else TCG.
    #[arg(long, value_enum, default_value_t)]
    accelerator: qemu::Accelerator,
    /// Runs only the conformance cases whose name, area or page contains this, and the faults whose name does, such as `Qemu.Faults`. May be
    /// given several times [default: the core areas and all faults].
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Also writes the result as JUnit's XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Boots a guest such as Windows from this disk instead, with the GPU beside a display; docs/windows.md has all steps. Files whose names end
    /// in .qcow2 and .vhdx have these formats, all others are raw images.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filter", "junit", "bench", "kernel"])]
    disk: Option<PathBuf>,
    /// ISO image of a disc to install from.
    #[arg(long, value_name = "FILE", requires = "disk")]
    iso: Option<PathBuf>,
    /// Folder that this guest sees as a drive [default: the package of `cargo xtask package`, if it is there].
    #[arg(long, value_name = "FOLDER", requires = "disk")]
    package: Option<PathBuf>,
    /// UEFI firmware, with CODE in its name [default: the machine's own, else Debian's, unpacked].
    #[arg(long, value_name = "FILE", requires = "disk")]
    firmware: Option<PathBuf>,
    /// TCP address of this guest's first serial port, for a kernel debugger.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "disk", default_value = "127.0.0.1:5510")]
    debugger: String,
    /// Display of this guest, as QEMU's option `-display` takes it.
    #[arg(long, value_name = "DISPLAY", requires = "disk", default_value = "vnc=127.0.0.1:0")]
    display: String,
    /// Memory of this guest in MiB.
    #[arg(long, value_name = "MIB", requires = "disk", default_value_t = 8192)]
    memory: u64,
    /// Number of processors of this guest.
    #[arg(long, value_name = "N", requires = "disk", default_value_t = 4)]
    processors: u32,
    /// Measures in the guest what a doorbell store costs and how soon the GPU responds, for mapped and for trapped doorbells.
    #[arg(long, conflicts_with_all = ["filter", "junit"])]
    bench: bool,
    /// Prints the command line of QEMU, and runs nothing.
    #[arg(long)]
    dry_run: bool,
    /// Seconds after which the guest is stopped.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Variant of the GPU, see `campanile run --help`.
    #[arg(long, value_name = "VARIANT", default_value = "default")]
    device_variant: VariantOptions,
}

impl From<QemuArguments> for qemu::Options {
    fn from(arguments: QemuArguments) -> Self {
        let disk = arguments.disk.map(|disk| qemu::DiskOptions {
            disk,
            iso: arguments.iso,
            package: arguments.package,
            firmware: arguments.firmware,
            debugger: arguments.debugger,
            display: arguments.display,
            memory: arguments.memory,
            processors: arguments.processors,
        });
        Self {
            disk,
            qemu: arguments.qemu,
            kernel: arguments.kernel.zip(arguments.modules),
            accelerator: arguments.accelerator,
            filters: arguments.filter,
            junit: arguments.junit,
            bench: arguments.bench,
            dry_run: arguments.dry_run,
            time_limit: Duration::from_secs(arguments.timeout),
            variant: arguments.device_variant.0,
        }
    }
}
