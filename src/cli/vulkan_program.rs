//! Command line of `campanile vulkan`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::vulkan;
use testbed::setup::{VariantOptions, variant_help};

/// Exit codes of the command.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  that of the program, or 128 and the number of the signal that ended it
  2  the driver's manifest is missing, the program does not start, the trace cannot be written, or the command line is wrong
  3  the machine of a traced program could not be booted, or stopped while in use";

#[derive(Args, Debug)]
pub(super) struct VulkanArguments {
    /// Manifest of the driver [default: the one that `cargo xtask vulkan` made].
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Has the program use the machine that `campanile machine` serves at this socket. Its GPU, driver and features are that machine's.
    #[arg(long = "machine", value_name = "PATH", conflicts_with_all = ["trace", "device_variant"])]
    pub(super) machine_at: Option<PathBuf>,
    /// Also writes what GPU and queues did in the last minute, as a Perfetto trace for ui.perfetto.dev or `campanile timeline`. The machine is then in a process
    /// of its own, and ends with the program.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Variant of the GPU: `default`, or a list such as `doorbells=4,vram=64M`.
    #[arg(long, value_name = "VARIANT", long_help = variant_help(), value_parser = variant_text)]
    device_variant: Option<String>,
    /// Has the driver say VK_QUEUE_GRAPHICS_BIT, for programs that take no device without it although they draw nothing.
    #[arg(long)]
    graphics_bit: bool,
    /// The program and its arguments.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// A text that names a variant.
fn variant_text(text: &str) -> Result<String, String> {
    text.parse::<VariantOptions>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl VulkanArguments {
    /// The command's options; `log`: the log is printed.
    pub(super) fn options(self, log: bool) -> vulkan::Options {
        vulkan::Options {
            manifest: self.manifest,
            machine_at: self.machine_at,
            device_variant: self.device_variant,
            trace: self.trace,
            graphics_bit: self.graphics_bit,
            log,
            program: self.program,
        }
    }
}
