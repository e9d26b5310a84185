//! Options of the machine that a command boots, which every command takes by the same names, in front of its own name or behind it.

use clap::{Args, Command};

use testbed::setup::{BusChoice, DriverChoice, DriverLimit, PoolChoice, TdrChoice, select_user_mode_name, show_log};

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

/// Has the help of a command, and of the commands below it, be silent about these options.
pub(super) fn without_help(command: Command) -> Command {
    let options = SystemArguments::augment_args(Command::new(""));
    let hidden = move |argument: clap::Arg| {
        let is_of_system = options.get_arguments().any(|option| option.get_id() == argument.get_id());
        argument.hide(is_of_system)
    };
    command.mut_args(hidden).mut_subcommands(without_help)
}
