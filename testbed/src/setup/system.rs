//! A system: a machine with its GPUs on their bus, from the options to the started adapters, and down again.

use std::sync::Arc;
use std::time::Duration;

use dxgkrnl::bus::Bus;
use dxgkrnl::{DRIVER_LIMIT, DriverId, DriverImage, DriverMemory, Idle, Machine, MachineConfig, Rescue};
use wddm_ddi::types::LUID;

use super::bus::BusChoice;
use super::counters::GpuCounters;
use super::driver_limit::DriverLimit;
use super::error::{ADVICE_BUS, ADVICE_FOREIGN, ADVICE_IMAGE, ADVICE_LEAK, ADVICE_MEMORY, ADVICE_VARIABLE, SetupError};
use super::gpu_handle::GpuHandle;
use super::options::{AdapterOptions, SystemOptions};
use super::part::{Function, Part, Slot};
use super::special_pool::PoolChoice;
use super::timeouts::TdrChoice;
use super::{installation, log, rescues};
use crate::driver::DriverChoice;
use crate::user;

/// A booted machine with its GPUs, the driver loaded and the adapters started.
///
/// Taking it down with [`System::shutdown`] reports what went wrong on the way; dropping it takes it down too, and prints.
pub struct System {
    machine: Machine,
    driver: DriverId,
    loaded: bool,
    parts: Vec<Part>,
}

/// Reads the selected kernel-mode driver and loads the user-mode driver that belongs to it.
fn read_drivers() -> Result<DriverImage, SetupError> {
    let choice = DriverChoice::selected();
    let advice = if choice.is_shipped() { ADVICE_IMAGE } else { ADVICE_FOREIGN };
    let image = choice.image().map_err(|e| SetupError::input("The driver could not be read", e, advice))?;
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
    machine.unload(driver).map_err(|e| SetupError::step("The driver could not be unloaded cleanly", &e))
}

/// Reaches the GPUs that others serve, to find out whether there is anything to start a machine with; the first machine goes on with the connections.
///
/// # Errors
/// As [`System::boot`], as far as it is about these GPUs.
pub fn check_bus(options: &SystemOptions) -> Result<(), SetupError> {
    let choice = bus(options)?;
    let first = AdapterOptions { variant: options.variant.clone(), features: options.features };
    let slot = Slot { bus: choice.clone(), threads: options.threads, options: first };
    (0..choice.named()).try_for_each(|place| Function::reach(place, &slot))
}

/// Number of functions that an adapter is.
fn functions_of(adapter: &AdapterOptions) -> usize {
    if adapter.variant.linked { campanile_hw::pci::LINKED_FUNCTIONS as usize } else { 1 }
}

/// The bus of a machine.
fn bus(options: &SystemOptions) -> Result<&BusChoice, SetupError> {
    match &options.bus {
        Some(choice) => Ok(choice),
        None => BusChoice::selected().map_err(|e| SetupError::new("Unknown bus", e, ADVICE_VARIABLE)),
    }
}

impl System {
    /// Builds the GPUs, plugs them in, loads the driver and starts the adapters.
    ///
    /// # Errors
    /// A part refused; the message names the part, its reason and what to do.
    pub fn boot(options: &SystemOptions) -> Result<Self, SetupError> {
        Self::boot_seen(options, |_| ())
    }

    /// As [`System::boot`]; `seen` is given the machine before a driver runs on it.
    ///
    /// # Errors
    /// As [`System::boot`].
    pub fn boot_seen(options: &SystemOptions, seen: impl FnOnce(&Machine)) -> Result<Self, SetupError> {
        let image = read_drivers()?;
        let first = AdapterOptions { variant: options.variant.clone(), features: options.features };
        let mut wanted: Vec<&AdapterOptions> = [&first].into_iter().chain(&options.others).collect();
        let choice = bus(options)?;
        // Whoever names more functions than that has more adapters, which are as the first one is.
        while wanted.iter().map(|adapter| functions_of(adapter)).sum::<usize>() < choice.named() {
            wanted.push(&first);
        }
        let mut places = 0..;
        let attach = |adapter: &&AdapterOptions| {
            let slot = Slot { bus: choice.clone(), threads: options.threads, options: (*adapter).clone() };
            let attached = places.by_ref().take(functions_of(adapter)).map(|place| Function::attach(place, &slot));
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
        let tdr = TdrChoice::selected().and_then(|chosen| chosen.over(options.tdr));
        let tdr = tdr.map_err(|e| SetupError::new("Unknown timeout setting", e, ADVICE_VARIABLE))?;
        let config = MachineConfig {
            ram: choice.memory().unwrap_or(MachineConfig::default().ram),
            isolated_memory: choice.maps_here(),
            features: options.features,
            interrupt_thread: options.threads,
            short_lived_addresses: options.short_lived_addresses,
            special_pool,
            tdr,
            clock: options.clock.clone(),
            power: options.power,
            driver_limit: driver_limit(options.driver_limit)?,
            registration: options.registration,
            idle: (!options.threads).then(|| Arc::new(step) as Idle),
        };
        let machine =
            Machine::new(config).map_err(|e| SetupError::new("The machine could not be built", e, ADVICE_MEMORY))?;
        seen(&machine);
        let heard = machine.clone();
        let started = || {
            let parts = boards.into_iter().map(|(functions, slot)| Part::plug_in(&machine, functions, slot));
            let parts = parts.collect::<Result<_, _>>()?;
            let driver = installation::load(&machine, image, &options.software)?;
            let mut system = Self { machine, driver, loaded: true, parts };
            system.start()?;
            Ok(system)
        };
        started().map_err(|error: SetupError| error.with_log(heard.debug_log()))
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
        let none = || SetupError::new("The adapter could not be removed", "there is no such adapter", "");
        self.parts.get_mut(place).ok_or_else(none)?.remove(&self.machine)
    }

    /// Pulls one GPU out of its slot, by its place in [`System::adapters`], whatever it is doing. Nobody is told: the machine finds out
    /// with [`System::notice_removal`].
    ///
    /// # Errors
    /// There is no such adapter.
    pub fn pull_out(&self, place: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The GPU could not be pulled out", "there is no such adapter", "");
        self.parts.get(place).ok_or_else(none)?.pull_out(0)
    }

    /// As [`System::pull_out`], one of the GPUs of a linked board, by its engine.
    ///
    /// # Errors
    /// There is no such adapter or engine.
    pub fn pull_out_engine(&self, place: usize, engine: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The GPU could not be pulled out", "there is no such adapter", "");
        self.parts.get(place).ok_or_else(none)?.pull_out(engine)
    }

    /// Lets the machine find that a GPU was pulled out. The others go on; [`System::start`] plugs another one into the slot.
    ///
    /// # Errors
    /// There is no such adapter, or the driver broke its contract.
    pub fn notice_removal(&mut self, place: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The adapter could not be removed", "there is no such adapter", "");
        self.parts.get_mut(place).ok_or_else(none)?.notice_removal(&self.machine)
    }

    /// Lets the machine find that the bus has reset a GPU, whatever that was doing. What there was is gone as if the GPU had been pulled out;
    /// [`System::start`] starts the same one anew.
    ///
    /// # Errors
    /// As [`System::notice_removal`].
    pub fn notice_reset(&mut self, place: usize) -> Result<(), SetupError> {
        let none = || SetupError::new("The adapter could not be removed", "there is no such adapter", "");
        self.parts.get_mut(place).ok_or_else(none)?.notice_reset(&self.machine)
    }

    /// Stops, removes, unloads, and looks for leaks.
    ///
    /// # Errors
    /// The first of: a step failed, the machine made good what the driver left out or did wrong, the machine had stopped with a bugcheck.
    pub fn shutdown(self) -> Result<(), SetupError> {
        self.shutdown_with(&[])
    }

    /// As [`System::shutdown`], for a case that breaks something that the machine makes good in the `announced` ways.
    ///
    /// # Errors
    /// As there, but for what was announced.
    pub fn shutdown_with(mut self, announced: &[Rescue]) -> Result<(), SetupError> {
        self.take_down(announced)
    }

    fn take_down(&mut self, announced: &[Rescue]) -> Result<(), SetupError> {
        let mut outcome = self.remove();
        if self.loaded {
            self.loaded = false;
            let unloaded = self
                .machine
                .unload(self.driver)
                .map_err(|e| SetupError::step("The driver could not be unloaded cleanly", &e));
            outcome = outcome.and(unloaded);
        }
        for part in &mut self.parts {
            outcome = outcome.and(part.end_keepers());
        }
        outcome = outcome.and(rescues::check(&self.machine.take_rescues(), announced, &self.machine.debug_log()));
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
        if let Err(error) = self.take_down(&[]) {
            crate::complain!("campanile: {error}");
        }
    }
}
