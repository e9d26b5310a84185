//! Command line of what serves GPUs, and of what looks on at a machine that is served and interferes with it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::control::PowerState;
use crate::ctl::{self, Order};
use crate::{serve, top};
use testbed::device::Messages;
use testbed::setup::{VariantOptions, fault_help};

#[derive(Args, Debug)]
pub(super) struct TopArguments {
    /// Socket of the machine [default: the one of CAMPANILE_MACHINE].
    #[arg(long, value_name = "PATH")]
    machine: Option<PathBuf>,
    /// Prints each look as a line of JSON.
    #[arg(long)]
    json: bool,
    /// Seconds between two looks, such as 0.5.
    #[arg(long, value_name = "SECONDS", value_parser = interval, default_value = "1")]
    interval: Duration,
    /// Ends after so many looks. The first has no rates.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

#[derive(Args, Debug)]
pub(super) struct DeviceArguments {
    /// Path of the socket to listen on, at most 107 bytes. Give it several times to serve several GPUs.
    #[arg(long = "socket", value_name = "PATH", required = true)]
    sockets: Vec<PathBuf>,
    /// How the GPUs send messages; QEMU up to 11.1.3 can unplug them only with `msi`.
    #[arg(long, value_enum, default_value_t)]
    interrupts: Messages,
    /// Prints errors only.
    #[arg(long)]
    quiet: bool,
    /// Keeps what a GPU does not need: files, programs, network, other processes.
    #[arg(long)]
    no_sandbox: bool,
    /// Variant of the GPUs, see `campanile run --help`.
    #[arg(long, value_name = "VARIANT", default_value = "default")]
    device_variant: VariantOptions,
}

/// A time between two looks.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "name seconds from 0.01 to 3600".to_owned())
}

#[derive(Args, Debug)]
pub(super) struct CtlArguments {
    /// Socket of the machine [default: the one of CAMPANILE_MACHINE].
    #[arg(id = "controlled", long = "machine", value_name = "PATH", global = true)]
    machine: Option<PathBuf>,
    /// Prints the answer as JSON.
    #[arg(id = "answer-json", long = "json", global = true)]
    json: bool,
    #[command(subcommand)]
    order: CtlOrder,
}

#[derive(Debug, Subcommand)]
enum CtlOrder {
    /// Prints adapters, engines, memory segments and processes.
    Look,
    /// Prints the scheduler's state: nodes, contexts, queues, doorbells, fences.
    Tree,
    /// Prints what driver and system have logged.
    Log,
    /// Injects a fault into the first GPU, and prints the faults with their numbers.
    Fault {
        /// The fault.
        #[arg(value_name = "FAULT", long_help = fault_help("Injects a fault into the first GPU, now."))]
        fault: String,
        /// Seed of the draws of a fault that comes by chance.
        #[arg(long, value_name = "N", default_value_t = 24301)]
        seed: u64,
    },
    /// Prints the faults that were injected, and how often each has struck.
    Faults,
    /// Takes a fault away; what it blocks goes on.
    Withdraw {
        /// Number of the fault.
        number: usize,
    },
    /// Changes the power of the first adapter (d0, d3) or lets the whole machine sleep and wake again (standby, hibernate).
    Power {
        /// The power state.
        state: PowerState,
    },
    /// Sends an engine of the first adapter that has nothing to do to F1; the next work wakes it.
    SleepEngine {
        /// The node.
        node: u32,
        /// The physical adapter, where adapters are linked.
        #[arg(long, value_name = "N", default_value_t = 0)]
        physical_adapter: u32,
    },
    /// Pulls the first adapter out, as if somebody had unplugged it: whoever works with it loses its devices.
    PullOut,
    /// Plugs another adapter in where one was pulled out.
    PlugIn,
}

impl From<CtlOrder> for Order {
    fn from(order: CtlOrder) -> Self {
        match order {
            CtlOrder::Look => Self::Look,
            CtlOrder::Tree => Self::Tree,
            CtlOrder::Log => Self::Log,
            CtlOrder::Fault { fault, seed } => Self::Fault { fault, seed },
            CtlOrder::Faults => Self::Faults,
            CtlOrder::Withdraw { number } => Self::Withdraw { number },
            CtlOrder::Power { state } => Self::Power { state },
            CtlOrder::SleepEngine { node, physical_adapter } => Self::SleepEngine { node, physical_adapter },
            CtlOrder::PullOut => Self::PullOut,
            CtlOrder::PlugIn => Self::PlugIn,
        }
    }
}

impl From<DeviceArguments> for serve::Options {
    fn from(arguments: DeviceArguments) -> Self {
        let DeviceArguments { sockets, interrupts, quiet, no_sandbox, device_variant } = arguments;
        Self { sockets, variant: device_variant.in_use().0, interrupts, quiet, sandbox: !no_sandbox }
    }
}

impl From<TopArguments> for top::Options {
    fn from(arguments: TopArguments) -> Self {
        let TopArguments { machine, json, interval, count } = arguments;
        Self { machine, json, interval, count }
    }
}

impl From<CtlArguments> for ctl::Options {
    fn from(arguments: CtlArguments) -> Self {
        let CtlArguments { machine, json, order } = arguments;
        Self { machine, json, order: order.into() }
    }
}
