//! Options of the machine that a command boots: those that stand in front of the command's name or behind it, and those that only some commands take.

use std::time::Duration;

use clap::{Args, Command};

use dxgkrnl::PowerSettings;
use testbed::setup::{
    BusChoice, DriverChoice, DriverLimit, Feature, FenceStorage, MachineOptions, PoolChoice, TdrChoice, VariantOptions,
    select_user_mode_name, show_log, variant_help,
};

/// Options that every command takes by the same names.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(super) struct SystemArguments {
    /// Kernel-mode driver to load: `linked` (the one in this program), `pe` (the image that `cargo xtask pe` built), or the path of a
    /// driver image. The default is the value of the environment variable CAMPANILE_DRIVER, or `linked`.
    #[arg(long, global = true, value_name = "DRIVER")]
    pub(super) driver: Option<DriverChoice>,
    /// How the GPUs are reached: `direct` (in this process, by calls), `vfio-user` (in this process, over the vfio-user protocol),
    /// `vfio-user-process` (each in a process of its own, which is started for it), `vfio-user=SOCKET` (served by `campanile device`, with the
    /// variant that was given there; a socket for each GPU, separated by commas), or `vfio=FUNCTION` (a PCI function of this machine that is
    /// bound to vfio-pci, such as 0000:01:00.0; one for each GPU, separated by commas). The default is the value of the environment variable
    /// CAMPANILE_BUS, or `direct`.
    #[arg(long, global = true, value_name = "BUS")]
    pub(super) bus: Option<BusChoice>,
    /// Gives each pool block of the driver pages of its own, between pages that cannot be accessed: at `end` (without a value) the
    /// instruction that overruns a block or accesses it after it was freed faults, at `start` the one that underruns it.
    /// Best with a driver image, whose faults become bug checks; a fault of the linked driver ends the program. The default is the value of the
    /// environment variable CAMPANILE_SPECIAL_POOL (`off`, `end` or `start`), or `off`.
    #[arg(long, global = true, value_name = "END", num_args = 0..=1, require_equals = true, default_missing_value = "end")]
    pub(super) special_pool: Option<PoolChoice>,
    /// UserModeDriverName in the software key of the driver, which its INF file has on Windows: an adapter that is not compute-only does not start
    /// without one. Nothing of that name is loaded. The default is the value of the environment variable CAMPANILE_USER_MODE_DRIVER_NAME.
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) user_mode_driver_name: Option<String>,
    /// Seconds that a call into the driver may take; half of that at DISPATCH_LEVEL and above. A call that takes longer stops the machine with a
    /// bug check that names it; if the driver cannot be interrupted, the program ends. The default is the value of the environment variable
    /// CAMPANILE_DRIVER_LIMIT, or 300; in conformance cases it is five sixths of the time that a case may take.
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(super) driver_limit: Option<DriverLimit>,
    /// Values of timeout detection and recovery, by their names below Control\GraphicsDrivers: TdrLevel, TdrDelay, TdrDdiDelay, TdrLimitTime,
    /// TdrLimitCount, TdrDebugMode, TdrTestMode, such as `TdrDelay=60,TdrTestMode=1`; times are in seconds. Not for conformance cases, which have
    /// settings of their own. The default is the value of the environment variable CAMPANILE_TDR, or what Windows has without such values.
    #[arg(long, global = true, value_name = "SETTINGS")]
    pub(super) tdr: Option<TdrChoice>,
    /// Prints the drivers' DbgPrint output, and the operating-system side's diagnostics about them, to standard error as they come. Setting the
    /// environment variable CAMPANILE_LOG to anything but 0 does the same.
    #[arg(long, global = true)]
    pub(super) log: bool,
}

impl SystemArguments {
    /// True if something is named that belongs to whoever boots the machine. What is logged is printed by every process.
    pub(super) fn names_what_is_booted(&self) -> bool {
        *self != Self { log: self.log, ..Self::default() }
    }

    /// Machines that are booted from now on have what was named.
    pub(super) fn select(self) {
        let Self { driver, bus, special_pool, user_mode_driver_name, driver_limit, tdr, log } = self;
        driver.into_iter().for_each(DriverChoice::select);
        bus.into_iter().for_each(BusChoice::select);
        special_pool.into_iter().for_each(PoolChoice::select);
        user_mode_driver_name.into_iter().for_each(select_user_mode_name);
        driver_limit.into_iter().for_each(DriverLimit::select);
        tdr.into_iter().for_each(TdrChoice::select);
        if log {
            show_log();
        }
    }
}

/// Options of commands that boot a machine.
#[derive(Args, Debug, Default, PartialEq)]
pub(super) struct MachineArguments {
    /// Variant of the GPU: `default`, or a list such as `doorbells=4,vram=64M`.
    #[arg(long, value_name = "VARIANT", default_value = "default", long_help = variant_help())]
    pub(super) device_variant: VariantOptions,
    /// Memory for values of native fences: `system` memory, or the GPU's `local` memory wherever that is possible.
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(super) fence_storage: FenceStorage,
    /// Features that the operating system does not enable, separated by commas; Windows decides about each, partly by its registry. Without
    /// `hardware-scheduling` it submits one packet after the other, without `native-fence` engines do not wait for each other, and
    /// without `user-mode-submission`, which needs both others, each submission is a system call.
    #[arg(long, value_name = "FEATURES", value_enum, value_delimiter = ',', hide_possible_values = true)]
    pub(super) without: Vec<Feature>,
    /// Seconds without work after which the GPU goes to D3, or `never` [default: 10, for conformance cases `never`].
    #[arg(long, value_name = "SECONDS", value_parser = idle_time)]
    pub(super) idle_time: Option<PowerSettings>,
}

/// Settings with the idle time of devices that a text names.
fn idle_time(text: &str) -> Result<PowerSettings, String> {
    let seconds = match text {
        "never" => None,
        _ => match text.parse::<u32>() {
            Ok(seconds) if seconds > 0 => Some(Duration::from_secs(seconds.into())),
            _ => return Err(format!("`{text}` is neither a number of seconds from 1 on nor `never`")),
        },
    };
    Ok(PowerSettings { device_idle_time: seconds, ..PowerSettings::in_use() })
}

impl From<MachineArguments> for MachineOptions {
    fn from(arguments: MachineArguments) -> Self {
        Self {
            variant: arguments.device_variant,
            fences: arguments.fence_storage,
            bus: None,
            without: arguments.without,
            power: arguments.idle_time,
            faults: Vec::new(),
        }
    }
}

/// Has the help of a command, and of the commands below it, be silent about these options.
pub(super) fn without_help(command: Command) -> Command {
    let options = SystemArguments::augment_args(Command::new(""));
    let hidden = move |argument: clap::Arg| {
        let is_of_system = options.get_arguments().any(|option| option.get_id() == argument.get_id());
        argument.hide(is_of_system)
    };
    command.mut_args(hidden).mut_subcommands(without_help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_seconds_or_never() {
        let device = |text: &str| idle_time(text).map(|power| power.device_idle_time);
        assert_eq!(device("7"), Ok(Some(Duration::from_secs(7))));
        assert_eq!(device("never"), Ok(None));
        for text in ["", "0", "-1", "soon", "4294967296"] {
            assert!(device(text).unwrap_err().contains("never"), "{text}");
        }
    }
}
