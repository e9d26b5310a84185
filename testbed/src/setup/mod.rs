//! Boots a machine: builds or reaches the GPUs, plugs them into a bus, loads the driver and starts the adapters.

mod bus;
mod direct_bus;
mod driver_limit;
mod drivers;
mod error;
mod fault;
mod gpu_handle;
mod installation;
mod listener;
mod log;
mod machine;
mod msix;
mod options;
mod process;
mod special_pool;
mod variant;
mod vfio_bus;
mod vfio_user_bus;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use dxgkrnl::bus::Bus;
use dxgkrnl::{DRIVER_LIMIT, DeviceId, DriverId, DriverImage, DriverMemory, Idle, Machine, MachineConfig, PnpError};
use wddm_ddi::types::LUID;

pub use crate::driver::{DRIVER_VARIABLE, DriverChoice, shipped};
use crate::user;
use bus::{Attached, Keeper};
pub use bus::{BUS_VARIABLE, BusChoice};
pub use direct_bus::DirectBus;
pub use driver_limit::{DriverLimit, LIMIT_VARIABLE};
pub use drivers::Drivers;
pub use error::SetupError;
use error::{
    ADVICE_BUS, ADVICE_DEFECT, ADVICE_FUNCTION, ADVICE_IMAGE, ADVICE_LEAK, ADVICE_MEMORY, ADVICE_PROGRAM, ADVICE_RULE,
    ADVICE_SOCKET, ADVICE_VARIABLE,
};
pub use fault::{FaultOption, help as fault_help};
pub use gpu_handle::{FaultsHandle, GpuHandle};
pub use log::{LOG_VARIABLE, show_log};
pub use machine::{Feature, FenceStorage, MachineOptions};
pub use msix::capability;
pub use options::{AdapterOptions, SystemOptions};
pub use process::Program;
pub use special_pool::{POOL_VARIABLE, PoolChoice};
pub use variant::{VariantOptions, help as variant_help};
pub use vfio_bus::{VfioBus, reset_functions};
pub use vfio_user_bus::VfioUserBus;
use watch::RemovalWatch;

/// A booted machine with its GPUs, the driver loaded and the adapters started.
///
/// Taking it down with [`System::shutdown`] reports what went wrong on the way; dropping it takes it down too, and prints.
pub struct System {
    machine: Machine,
    driver: DriverId,
    loaded: bool,
    parts: Vec<Part>,
}

/// A GPU of a system, or the GPUs of a linked board, and the adapter.
pub struct Part {
    luid: LUID,
    first: Function,
    /// The other functions of a linked board.
    others: Vec<Function>,
    stage: Stage,
    slot: Slot,
    /// Notice that a started GPU goes.
    watches: Vec<RemovalWatch>,
}

/// A function on the bus.
struct Function {
    device: DeviceId,
    attached: Attached,
    /// Among all functions of the system.
    place: usize,
}

/// Configuration of a slot, with which a GPU is plugged in again after it was pulled out.
struct Slot {
    bus: BusChoice,
    threads: bool,
    options: AdapterOptions,
}

/// Payload with which [`Part::gpu`] unwinds.
#[derive(Clone, Copy, Debug)]
pub struct GpuElsewhere;

/// State of an adapter between plugging in and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Removed,
    Stopped,
    Started,
}

impl Part {
    /// The adapter.
    pub fn luid(&self) -> LUID {
        self.luid
    }

    /// The GPU behind the bus, to look into it and to step it.
    ///
    /// Unwinds with [`GpuElsewhere`] if the GPU is in another process: who calls this cannot go on there.
    pub fn gpu(&self) -> &GpuHandle {
        self.first.gpu()
    }

    /// As [`Part::gpu`], the GPU of each function: by engine, if they are linked.
    pub fn gpus(&self) -> Vec<&GpuHandle> {
        self.functions().map(Function::gpu).collect()
    }

    /// Engines of each node: the GPUs that are linked.
    pub fn engines(&self) -> u32 {
        self.functions().count() as u32
    }

    fn functions(&self) -> impl Iterator<Item = &Function> {
        [&self.first].into_iter().chain(&self.others)
    }

    /// The GPU behind the bus, for faults to be injected.
    ///
    /// # Errors
    /// The GPU is in another process; an error of input.
    pub fn faulty_gpu(&self) -> Result<&GpuHandle, SetupError> {
        let cause = "the GPU is in another process, which takes no faults";
        self.first.attached.gpu.as_ref().ok_or_else(|| SetupError::input("No faults on this bus", cause, ADVICE_BUS))
    }

    /// The bus that the first GPU is on.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.first.attached.bus
    }

    /// As [`BusChoice::is_by_messages`], of the bus that it is on.
    pub fn is_by_messages(&self) -> bool {
        self.slot.bus.is_by_messages()
    }

    /// A register of the GPU, `size` bytes at `offset`.
    pub fn register(&self, offset: u64, size: u8) -> u64 {
        self.bus().register_read(campanile_hw::pci::BAR_REGISTERS, offset, size)
    }

    /// The GPU's own counters.
    pub fn counters(&self) -> GpuCounters {
        GpuCounters::read(self)
    }

    /// True if its nodes report that they have been idle for a while, so that they may enter F1 and lose their doorbells.
    pub fn reports_idle_engines(&self) -> bool {
        !matches!(self.register(campanile_hw::registers::IDLE_TICKS, 8), 0 | u64::MAX)
    }

    /// Plugs the functions of a device in.
    fn plug_in(machine: &Machine, functions: Vec<(usize, Attached)>, slot: Slot) -> Result<Self, SetupError> {
        let mut functions = functions.into_iter();
        let (place, attached) = functions.next().expect("a device has a first function");
        let first = Function::plug_in(machine, place, attached, &slot.options, None)?;
        let beside = Some(first.device);
        let others =
            functions.map(|(place, attached)| Function::plug_in(machine, place, attached, &slot.options, beside));
        let others = others.collect::<Result<_, _>>()?;
        let luid = LUID { LowPart: 0, HighPart: 0 };
        Ok(Self { luid, first, others, stage: Stage::Removed, slot, watches: Vec::new() })
    }

    fn start(&mut self, machine: &Machine, driver: DriverId) -> Result<(), SetupError> {
        if self.watches.iter().any(RemovalWatch::has_seen_the_end) {
            self.settle()?;
        }
        if self.stage == Stage::Started {
            return Ok(());
        }
        for function in [&mut self.first].into_iter().chain(&mut self.others) {
            // Nobody answers where a GPU was pulled out, or its server has gone.
            if function.attached.bus.config_read(0, 4) == u32::MAX {
                function.replace(machine, &self.slot)?;
            }
        }
        self.luid = machine
            .start(self.first.device, driver)
            .map_err(|e| SetupError::new("The adapter could not be started", e, ADVICE_RULE))?;
        self.stage = Stage::Started;
        let watch = |function: &Function| {
            let bus = || Arc::clone(&function.attached.bus);
            let watch = |sign| RemovalWatch::start(sign, bus(), machine.clone(), self.luid);
            function.attached.sign().and_then(|sign| sign.map(watch).transpose()).transpose()
        };
        let watches = self.functions().filter_map(watch).collect::<Result<_, _>>();
        self.watches = watches.map_err(|e| SetupError::new("The GPU cannot be watched", e, ADVICE_MEMORY))?;
        Ok(())
    }

    /// Ends the watches over the functions. One that has gone meanwhile has taken the adapter along, for all of them.
    fn settle(&mut self) -> Result<(), SetupError> {
        let outcomes: Vec<_> = self.watches.drain(..).filter_map(RemovalWatch::end).collect();
        if outcomes.is_empty() {
            return Ok(());
        }
        self.stage = Stage::Removed;
        let done = outcomes.iter().any(Result::is_ok);
        let failed = outcomes.into_iter().find_map(Result::err).filter(|_| !done);
        failed.map_or(Ok(()), |error| Err(removal_error(error)))
    }

    /// Pulls one of the GPUs out. The machine is not told.
    fn pull_out(&self, engine: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The GPU could not be pulled out", "there is no such GPU", ADVICE_RULE);
        self.functions().nth(engine).ok_or_else(none)?.gpu().pull_out();
        Ok(())
    }

    /// Tells the machine that the GPU was pulled out.
    fn notice_removal(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.settle()?;
        if self.stage < Stage::Started {
            return Ok(());
        }
        self.stage = Stage::Removed;
        machine.surprise_remove(self.luid).map_err(removal_error)
    }

    /// Tells the machine that the GPU was reset by its bus: what there was is removed as if it had been pulled out, and the function is
    /// found anew. [wdm: FunctionLevelDeviceReset]
    fn notice_reset(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.notice_removal(machine)?;
        [&mut self.first].into_iter().chain(&mut self.others).try_for_each(|function| {
            let again = machine.plug_in_again(Arc::clone(&function.attached.bus), function.device);
            function.device = again.map_err(plug_in_error)?;
            machine.set_features(function.device, self.slot.options.features).map_err(plug_in_error)
        })
    }

    fn stop(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.settle()?;
        if self.stage < Stage::Started {
            return Ok(());
        }
        self.stage = Stage::Stopped;
        machine.stop(self.luid).map_err(|e| SetupError::new("The adapter could not be stopped", e, ADVICE_LEAK))
    }

    fn remove(&mut self, machine: &Machine) -> Result<(), SetupError> {
        self.stop(machine)?;
        if self.stage < Stage::Stopped {
            return Ok(());
        }
        self.stage = Stage::Removed;
        machine.remove(self.luid).map_err(|e| SetupError::new("The adapter could not be removed", e, ADVICE_LEAK))
    }
}

impl Function {
    /// Makes or reaches function number `place` of a system.
    fn attach(place: usize, slot: &Slot) -> Result<(usize, Attached), SetupError> {
        let attached = Attached::new(&slot.bus, place, &slot.options.variant, slot.threads);
        Ok((place, attached.map_err(|e| attach_error(&slot.bus, e))?))
    }

    /// Plugs a function in, as the next one of the device of `other`.
    fn plug_in(
        machine: &Machine,
        place: usize,
        attached: Attached,
        options: &AdapterOptions,
        other: Option<DeviceId>,
    ) -> Result<Self, SetupError> {
        let bus = Arc::clone(&attached.bus);
        let device = match other {
            None => machine.plug_in(bus),
            Some(other) => machine.plug_in_beside(bus, other).map_err(plug_in_error)?,
        };
        machine.set_features(device, options.features).map_err(plug_in_error)?;
        Ok(Self { device, attached, place })
    }

    /// Puts a GPU like the one that was pulled out into its place.
    fn replace(&mut self, machine: &Machine, slot: &Slot) -> Result<(), SetupError> {
        (_, self.attached) = Self::attach(self.place, slot)?;
        let bus = Arc::clone(&self.attached.bus);
        self.device = machine.plug_in_again(bus, self.device).map_err(plug_in_error)?;
        machine.set_features(self.device, slot.options.features).map_err(plug_in_error)
    }

    fn gpu(&self) -> &GpuHandle {
        match &self.attached.gpu {
            Some(gpu) => gpu,
            // Not a panic: no hook speaks of a defect where there is none.
            None => std::panic::resume_unwind(Box::new(GpuElsewhere)),
        }
    }
}

fn plug_in_error(error: PnpError) -> SetupError {
    SetupError::new("The GPU could not be plugged in", error, ADVICE_RULE)
}

/// The error of an adapter that could not be removed after its GPU was pulled out.
fn removal_error(error: PnpError) -> SetupError {
    SetupError::new("The adapter that was pulled out could not be removed", error, ADVICE_LEAK)
}

/// The error of a GPU that could not be built or reached.
fn attach_error(choice: &BusChoice, error: std::io::Error) -> SetupError {
    match choice {
        BusChoice::Sockets(_) => SetupError::input("The GPU could not be reached", error, ADVICE_SOCKET),
        BusChoice::Process(_) => SetupError::input("The GPU could not be reached", error, ADVICE_PROGRAM),
        BusChoice::Functions(_) => SetupError::input("The GPU could not be reached", error, ADVICE_FUNCTION),
        _ => SetupError::new("The GPU could not be built", error, ADVICE_MEMORY),
    }
}

/// Reads the selected kernel-mode driver and loads the user-mode driver that belongs to it.
fn read_drivers() -> Result<DriverImage, SetupError> {
    let image = DriverChoice::selected()
        .image()
        .map_err(|e| SetupError::input("The driver could not be read", e, ADVICE_IMAGE))?;
    user::selected().map_err(|e| SetupError::input("The user-mode driver could not be loaded", e, ADVICE_IMAGE))?;
    Ok(image)
}

/// How long a call into the driver may take: the selected time, or else `otherwise`.
fn driver_limit(otherwise: Duration) -> Result<Duration, SetupError> {
    DriverLimit::selected_or(otherwise).map_err(|e| SetupError::new("Bad driver limit", e, ADVICE_VARIABLE))
}

/// Loads the selected drivers on a machine without devices, and unloads them, to find out whether they can be used at all.
///
/// # Errors
/// As [`System::boot`], as far as it is about drivers.
pub fn check_drivers() -> Result<(), SetupError> {
    let image = read_drivers()?;
    let config = MachineConfig { driver_limit: driver_limit(DRIVER_LIMIT)?, ..MachineConfig::default() };
    let machine =
        Machine::new(config).map_err(|e| SetupError::new("The machine could not be built", e, ADVICE_MEMORY))?;
    let driver = machine.load_driver(image).map_err(|e| SetupError::load(&e))?;
    machine.unload(driver).map_err(|e| SetupError::new("The driver could not be unloaded cleanly", e, ADVICE_LEAK))
}

impl System {
    /// Builds the GPUs, plugs them in, loads the driver and starts the adapters.
    ///
    /// # Errors
    /// A part refused; the message names the part, its reason and what to do.
    pub fn boot(options: &SystemOptions) -> Result<Self, SetupError> {
        let image = read_drivers()?;
        let first = AdapterOptions { variant: options.variant.clone(), features: options.features };
        let wanted: Vec<&AdapterOptions> = [&first].into_iter().chain(&options.others).collect();
        let choice = match &options.bus {
            Some(choice) => choice,
            None => BusChoice::selected().map_err(|e| SetupError::new("Unknown bus", e, ADVICE_VARIABLE))?,
        };
        let mut places = 0..;
        let attach = |adapter: &&AdapterOptions| {
            let slot = Slot { bus: choice.clone(), threads: options.threads, options: (*adapter).clone() };
            let functions = if adapter.variant.linked { campanile_hw::pci::LINKED_FUNCTIONS as usize } else { 1 };
            let attached = places.by_ref().take(functions).map(|place| Function::attach(place, &slot));
            Ok((attached.collect::<Result<Vec<_>, _>>()?, slot))
        };
        let boards = wanted.iter().map(attach).collect::<Result<Vec<_>, SetupError>>()?;
        let functions = || boards.iter().flat_map(|(functions, _)| functions);
        let stepped: Vec<_> = functions().filter_map(|(_, attached)| attached.gpu.clone()).collect();
        if !options.threads && stepped.len() < functions().count() {
            let cause = "this machine steps its GPUs on one thread, and one of them is in another process";
            return Err(SetupError::new("The GPU cannot be stepped", cause, ADVICE_BUS));
        }
        let step = move || stepped.iter().filter(|gpu| gpu.step()).count() > 0;
        log::apply();
        let special_pool = match options.special_pool {
            Some(mode) => mode,
            None => PoolChoice::selected().map_err(|e| SetupError::new("Unknown pool", e, ADVICE_VARIABLE))?.0,
        };
        let config = MachineConfig {
            ram: choice.memory().unwrap_or(MachineConfig::default().ram),
            features: options.features,
            interrupt_thread: options.threads,
            short_lived_addresses: options.short_lived_addresses,
            special_pool,
            tdr: options.tdr,
            clock: options.clock.clone(),
            power: options.power,
            driver_limit: driver_limit(options.driver_limit)?,
            registration: options.registration,
            idle: (!options.threads).then(|| Arc::new(step) as Idle),
        };
        let machine =
            Machine::new(config).map_err(|e| SetupError::new("The machine could not be built", e, ADVICE_MEMORY))?;
        let parts = boards.into_iter().map(|(functions, slot)| Part::plug_in(&machine, functions, slot));
        let parts = parts.collect::<Result<_, _>>()?;
        let driver = installation::load(&machine, image, &options.software)?;
        let mut system = Self { machine, driver, loaded: true, parts };
        system.start()?;
        Ok(system)
    }

    /// Starts every adapter that is not; also again after [`System::stop`].
    ///
    /// # Errors
    /// The driver failed, or the operating-system side rejects what it claims.
    pub fn start(&mut self) -> Result<(), SetupError> {
        self.parts.iter_mut().try_for_each(|part| part.start(&self.machine, self.driver))
    }

    /// Stops every adapter; their device objects stay.
    ///
    /// # Errors
    /// The driver broke its contract.
    pub fn stop(&mut self) -> Result<(), SetupError> {
        self.parts.iter_mut().rev().try_for_each(|part| part.stop(&self.machine))
    }

    /// Stops and removes every adapter; [`System::start`] adds the devices again.
    ///
    /// # Errors
    /// The driver broke its contract.
    pub fn remove(&mut self) -> Result<(), SetupError> {
        self.parts.iter_mut().rev().try_for_each(|part| part.remove(&self.machine))
    }

    /// Stops and removes one adapter, by its place in [`System::adapters`]. The others go on.
    ///
    /// # Errors
    /// There is no such adapter, or the driver broke its contract.
    pub fn remove_adapter(&mut self, place: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The adapter could not be removed", "there is no such adapter", ADVICE_RULE);
        self.parts.get_mut(place).ok_or_else(none)?.remove(&self.machine)
    }

    /// Pulls one GPU out of its slot, by its place in [`System::adapters`], whatever it is doing. Nobody is told: the machine finds out
    /// with [`System::notice_removal`].
    ///
    /// # Errors
    /// There is no such adapter.
    pub fn pull_out(&self, place: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The GPU could not be pulled out", "there is no such adapter", ADVICE_RULE);
        self.parts.get(place).ok_or_else(none)?.pull_out(0)
    }

    /// As [`System::pull_out`], one of the GPUs of a linked board, by its engine.
    ///
    /// # Errors
    /// There is no such adapter or engine.
    pub fn pull_out_engine(&self, place: usize, engine: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The GPU could not be pulled out", "there is no such adapter", ADVICE_RULE);
        self.parts.get(place).ok_or_else(none)?.pull_out(engine)
    }

    /// Lets the machine find that a GPU was pulled out. The others go on; [`System::start`] plugs another one into the slot.
    ///
    /// # Errors
    /// There is no such adapter, or the driver broke its contract.
    pub fn notice_removal(&mut self, place: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The adapter could not be removed", "there is no such adapter", ADVICE_RULE);
        self.parts.get_mut(place).ok_or_else(none)?.notice_removal(&self.machine)
    }

    /// Lets the machine find that the bus has reset a GPU, whatever that was doing. What there was is gone as if the GPU had been pulled out;
    /// [`System::start`] starts the same one anew.
    ///
    /// # Errors
    /// As [`System::notice_removal`].
    pub fn notice_reset(&mut self, place: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The adapter could not be removed", "there is no such adapter", ADVICE_RULE);
        self.parts.get_mut(place).ok_or_else(none)?.notice_reset(&self.machine)
    }

    /// Stops, removes, unloads, and looks for leaks.
    ///
    /// # Errors
    /// The first of: a step failed, the driver left something behind, the machine had stopped with a bugcheck.
    pub fn shutdown(mut self) -> Result<(), SetupError> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), SetupError> {
        let mut outcome = self.remove();
        if self.loaded {
            self.loaded = false;
            let unloaded = self
                .machine
                .unload(self.driver)
                .map_err(|e| SetupError::new("The driver could not be unloaded cleanly", e, ADVICE_LEAK));
            outcome = outcome.and(unloaded);
        }
        for part in &mut self.parts {
            for function in [&mut part.first].into_iter().chain(&mut part.others) {
                let ended = std::mem::replace(&mut function.attached.keeper, Keeper::Nobody).end();
                outcome = outcome.and(ended.map_err(|e| SetupError::new("The GPU was given up", e, ADVICE_DEFECT)));
            }
        }
        match self.machine.bugcheck() {
            Some(bugcheck) => Err(SetupError::new("The machine stopped with a bugcheck", bugcheck, ADVICE_LEAK)),
            None => outcome,
        }
    }

    /// Image and pool of the driver, as a debugger would read them now.
    ///
    /// # Errors
    /// The host does not let the process read its own memory.
    pub fn driver_memory(&self) -> std::io::Result<DriverMemory> {
        self.machine.driver_memory(self.driver)
    }

    /// The driver of its GPUs.
    pub fn driver(&self) -> DriverId {
        self.driver
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The GPUs with their adapters, in the order of the options; there is at least one.
    pub fn adapters(&self) -> &[Part] {
        &self.parts
    }

    fn first(&self) -> &Part {
        self.parts.first().expect("a system is built with a first GPU")
    }

    /// The first adapter.
    pub fn luid(&self) -> LUID {
        self.first().luid()
    }

    /// Engines of each node of the first adapter.
    pub fn engines(&self) -> u32 {
        self.first().engines()
    }

    /// The first GPU.
    pub fn gpu(&self) -> &GpuHandle {
        self.first().gpu()
    }

    /// The first GPU, see [`Part::faulty_gpu`].
    ///
    /// # Errors
    /// As for [`Part::faulty_gpu`].
    pub fn faulty_gpu(&self) -> Result<&GpuHandle, SetupError> {
        self.first().faulty_gpu()
    }

    /// The first GPU's bus.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        self.first().bus()
    }

    /// True if a register access of the first GPU is a message, which is slow: a case with very many accesses then makes fewer.
    pub fn is_by_messages(&self) -> bool {
        self.first().is_by_messages()
    }

    /// Nodes that the first GPU has in F1, a bit each.
    pub fn gpu_nodes_asleep(&self) -> u64 {
        self.first().register(campanile_hw::registers::NODE_ASLEEP, 4)
    }

    /// See [`Part::register`], of the first GPU.
    pub fn register(&self, offset: u64, size: u8) -> u64 {
        self.first().register(offset, size)
    }

    /// See [`Part::reports_idle_engines`], of the first GPU.
    pub fn reports_idle_engines(&self) -> bool {
        self.first().reports_idle_engines()
    }

    /// The first GPU's own counters.
    pub fn counters(&self) -> GpuCounters {
        self.first().counters()
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if !self.loaded {
            return;
        }
        if let Err(error) = self.take_down() {
            crate::complain!("campanile: {error}");
        }
    }
}

/// Counters in the GPU's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCounters {
    /// Doorbell stores seen.
    pub doorbells: u64,
    /// WAIT packets satisfied.
    pub waits: u64,
    /// SIGNAL packets executed.
    pub signals: u64,
    /// Interrupt messages sent.
    pub interrupts: u64,
    /// Command buffers retired.
    pub retired: u64,
    /// Times that a queue left the compute node in a dispatch.
    pub preemptions: u64,
}

impl GpuCounters {
    fn read(part: &Part) -> Self {
        use campanile_hw::registers as register;
        let count = |offset| part.register(offset, 8);
        Self {
            doorbells: count(register::COUNT_DOORBELLS),
            waits: count(register::COUNT_WAITS),
            signals: count(register::COUNT_SIGNALS),
            interrupts: count(register::COUNT_INTERRUPTS),
            retired: count(register::COUNT_RETIRED),
            preemptions: count(register::COUNT_PREEMPTIONS),
        }
    }

    /// Difference between these counts and `earlier` ones.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            doorbells: self.doorbells.wrapping_sub(earlier.doorbells),
            waits: self.waits.wrapping_sub(earlier.waits),
            signals: self.signals.wrapping_sub(earlier.signals),
            interrupts: self.interrupts.wrapping_sub(earlier.interrupts),
            retired: self.retired.wrapping_sub(earlier.retired),
            preemptions: self.preemptions.wrapping_sub(earlier.preemptions),
        }
    }
}
