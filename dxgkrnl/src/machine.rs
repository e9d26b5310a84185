//! The machine: physical memory, what is plugged in, which drivers are loaded, and plug and play.
//!
//! The functions of [`Machine`] stand in the files of this module, one for each subject, because all of them in one file would have several thousand lines.
//! No other module has an `impl Machine`; `cargo xtask layers` sees to that.

mod debug_names;
mod descriptors;
mod installed;
mod left;
mod observe;
mod overview;
mod plug;
mod power;
mod removal;
mod shared;

pub use debug_names::{DebugName, DebugNameOf};
pub(crate) use descriptors::Described;
pub use left::DESCRIPTORS_LEFT;
pub use observe::Remains;
pub use overview::{EngineOverview, Overview, SegmentOverview};
pub use power::EngineSleepError;
pub(crate) use shared::{KernelObject, Name, ResourceHandle, SharedSync, Together, WeakAnyProcess};

use std::fmt;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use nt::lock::{Mutex, RwLock, lock};
use wddm_ddi::types::{GUID, LUID};

use crate::adapter::{self, Adapter, DeviceSettings, DeviceStack};
use crate::callbacks;
use crate::config::{FeaturePolicy, Installation, MachineConfig, RegistryKey};
use crate::ddi_calls::DdiCalls;
use crate::miniport::Miniport;
use crate::platform::{Owner, Parts, Platform, PowerGate};
use crate::port::Member;
use crate::rank;
use crate::registration::{self, DriverId, LoadError};
use crate::rescue::Rescues;
use crate::start_error::StartError;
use nt::bugcheck::Bugcheck;
use nt::clock::Clock;
use nt::device_object::{self, DeviceObject, Location};
use nt::driver::{DriverMemory, Host};
use nt::etw::{EtwEvent, EtwSession};
use nt::loader::DriverImage;
use nt::pci::{BusAddresses, Function, PciError};
use nt::pool::{LowResources, SpecialPool};
use nt::ram::Ram;
use nt::verifier::{Verifier, Witness};
use nt::watchdog;

/// A machine could not be built.
#[derive(Debug)]
pub enum Error {
    /// Physical memory could not be set up.
    Memory(io::Error),
    /// There is no thread for the watchdog of driver calls.
    Watchdog(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "physical memory could not be set up: {error}"),
            Self::Watchdog(error) => write!(f, "the watchdog of driver calls has no thread: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// A function that was plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(pub(crate) usize);

/// A computer with its own memory, devices, drivers and graphics kernel. Several live side by side in one process.
#[derive(Clone)]
pub struct Machine(Arc<MachineInner>);

struct MachineInner {
    config: MachineConfig,
    ram: Arc<Ram>,
    verifier: Arc<Verifier>,
    rescues: Arc<Rescues>,
    ddi_calls: Arc<DdiCalls>,
    gate: Arc<PowerGate>,
    shared: shared::Shared,
    /// The root of the registry.
    registry: RegistryKey,
    descriptors: descriptors::Descriptors,
    left: left::Left,
    debug_names: debug_names::DebugNames,
    adapters: RwLock<Vec<Arc<Adapter>>>,
    /// Held over whole plug-and-play operations, which therefore never overlap. No driver callback takes it.
    pnp: Mutex<Pnp, rank::PlugAndPlay>,
    /// Ends the thread of the idle policy when it is dropped.
    idle: OnceLock<Sender<()>>,
}

struct Pnp {
    /// Number of the bus that functions sit on.
    bus: u32,
    addresses: BusAddresses,
    devices: Vec<Device>,
    drivers: Vec<Option<LoadedDriver>>,
}

/// A device node.
struct Device {
    object: DeviceObject,
    location: Location,
    function: Result<Arc<Function>, PciError>,
    /// Tells a stop of the machine that the function was pulled out; until it has been removed.
    witness: Option<Arc<Witness>>,
    features: FeaturePolicy,
    /// Set from AddDevice to RemoveDevice.
    stack: Option<DeviceStack>,
    started: Option<LUID>,
    /// The last adapter of this device, also after it was stopped.
    last: Option<LUID>,
}

impl Device {
    /// DxgkDdiRemoveDevice, if the device was added.
    fn remove(&mut self) {
        self.last = None;
        self.stack.take().into_iter().for_each(DeviceStack::remove);
    }

    /// True if plug and play would give the device to the same driver as `other`, and nobody has it yet.
    fn is_like(&self, other: &Function) -> bool {
        let same = |function: &Arc<Function>| (function.vendor, function.device) == (other.vendor, other.device);
        self.started.is_none() && self.stack.is_none() && self.function.as_ref().is_ok_and(same)
    }
}

/// Adds a device, and with one that is linked every other like it that nobody has. The answer is the place of the one that leads in the
/// list of those that are linked, and that list, which is not empty.
fn find_chain(
    machine: &Platform,
    devices: &mut [Device],
    first: usize,
    loaded: &LoadedDriver,
) -> (Result<usize, StartError>, Vec<usize>) {
    let LoadedDriver { miniport, installation } = loaded;
    let add = |node: &Device| adapter::add(machine, &node.object, miniport, &installation.software);
    let Some(node) = devices.get_mut(first) else { return (Err(StartError::NoSuchDevice), vec![first]) };
    if node.stack.is_none() {
        match add(node) {
            Ok(stack) => node.stack = Some(stack),
            Err(error) => return (Err(error), vec![first]),
        }
    }
    let chain = node.stack.as_ref().and_then(|stack| stack.chain);
    let (Some(chain), Ok(function)) = (chain, node.function.clone()) else { return (Ok(0), vec![first]) };
    for node in devices.iter_mut().filter(|node| node.is_like(&function)) {
        // One that the driver does not take is missing from the chain.
        node.stack = add(node).ok();
    }
    let of_chain = |(place, node): (usize, &Device)| {
        let stack = node.stack.as_ref().filter(|stack| Arc::ptr_eq(&stack.miniport, miniport))?;
        let answer = stack.chain.filter(|answer| node.started.is_none() && answer.ChainUid == chain.ChainUid)?;
        Some((place, answer))
    };
    let (places, answers): (Vec<usize>, Vec<_>) = devices.iter().enumerate().filter_map(of_chain).unzip();
    (adapter::check_chain(&answers), places)
}

struct LoadedDriver {
    miniport: Arc<Miniport>,
    installation: Installation,
}

impl LoadedDriver {
    /// DriverUnload of its driver object, by which DxgkDdiUnload is called.
    fn unload(&self) -> Result<(), PnpError> {
        let miniport = Arc::clone(&self.miniport);
        registration::unload(self.miniport.driver(), move || miniport.unload()).map_err(|_| PnpError::NotUnloadable)
    }
}

/// A device or driver could not be stopped, removed or unloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PnpError {
    /// No adapter has this identifier, or it is not started.
    NoSuchAdapter,
    /// No such driver is loaded.
    NoSuchDriver,
    /// A device still belongs to the driver.
    InUse,
    /// DriverUnload in the driver's object is NULL. [wdm: ZwUnloadDriver]
    NotUnloadable,
    /// The device is in use all the while, or work did not leave its engine in time.
    Busy,
    /// There is no memory for what the device would lose.
    NoMemory,
    /// The machine has stopped; nothing is called any more.
    Stopped(Box<Bugcheck>),
}

/// Sleep state of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemSleep {
    /// Devices have little power, and keep the memory that they said they would.
    Standby,
    /// Devices have none.
    Hibernate,
}

impl fmt::Display for PnpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchAdapter => f.write_str("no such adapter"),
            Self::NoSuchDriver => f.write_str("no such driver is loaded"),
            Self::InUse => f.write_str("a device still belongs to the driver; remove it first"),
            Self::NotUnloadable => {
                f.write_str("DriverUnload in the object of the driver is NULL, so that it stays loaded")
            }
            Self::Busy => f.write_str("the device is in use, or work did not leave its engine in time"),
            Self::NoMemory => f.write_str("there is no memory for what the device would lose"),
            Self::Stopped(bugcheck) => write!(f, "the machine stopped: {bugcheck}"),
        }
    }
}

impl std::error::Error for PnpError {}

impl Machine {
    /// Builds a machine with nothing plugged in.
    ///
    /// # Errors
    /// Physical memory cannot be reserved, or a thread not started.
    pub fn new(config: MachineConfig) -> Result<Self, Error> {
        let ram = if config.isolated_memory { Ram::new(config.ram) } else { Ram::in_one_file(config.ram) };
        let ram = ram.map_err(Error::Memory)?;
        if config.special_pool != SpecialPool::Off {
            nt::lent::guard();
        }
        let machine = Self(Arc::new(MachineInner {
            config,
            ram,
            verifier: Arc::new(Verifier::default()),
            rescues: Arc::default(),
            ddi_calls: Arc::default(),
            gate: Arc::default(),
            shared: shared::Shared::default(),
            registry: RegistryKey::default(),
            descriptors: descriptors::Descriptors::default(),
            left: left::Left::default(),
            debug_names: debug_names::DebugNames::default(),
            adapters: RwLock::default(),
            pnp: Mutex::new(Pnp {
                bus: device_object::next_bus(),
                addresses: BusAddresses::default(),
                devices: Vec::new(),
                drivers: Vec::new(),
            }),
            idle: OnceLock::new(),
        }));
        watchdog::start(&machine.0.verifier, machine.0.config.driver_limit).map_err(Error::Watchdog)?;
        machine.start_idle_thread();
        Ok(machine)
    }

    /// A thread that looks for idle devices as long as the machine lives. Where time is moved by hand, or a host has no thread left,
    /// [`Machine::advance`] looks alone.
    fn start_idle_thread(&self) {
        let config = &self.0.config;
        let Some(cadence) = config.power.cadence().filter(|_| !config.clock.is_manual()) else { return };
        let (stop, stopped) = channel();
        let inner = Arc::downgrade(&self.0);
        let run = move || {
            while stopped.recv_timeout(cadence) == Err(RecvTimeoutError::Timeout) {
                let Some(inner) = inner.upgrade() else { return };
                Self(inner).look_for_idle();
            }
        };
        match std::thread::Builder::new().name("power".to_owned()).spawn(run) {
            Ok(_) => drop(self.0.idle.set(stop)),
            Err(error) => self.0.verifier.log(format!("the idle policy has no thread: {error}")),
        }
    }

    /// Has engines and devices that were idle for long enter lower power states. Nothing happens while plug and play is under way.
    fn look_for_idle(&self) {
        let Some(_pnp) = self.0.pnp.try_lock() else { return };
        self.adapters().iter().for_each(|adapter| adapter.look_for_idle());
    }

    /// Loads a driver: DriverEntry, DxgkInitialize and the checks of its DDI table.
    ///
    /// # Errors
    /// DriverEntry failed or its table breaks a rule; see [`LoadError`].
    pub fn load_driver(&self, image: DriverImage) -> Result<DriverId, LoadError> {
        let mut pnp = lock(&self.0.pnp);
        if self.0.verifier.is_stopped() {
            return Err(LoadError::Stopped(self.0.verifier.bugcheck()));
        }
        let host = Host {
            verifier: &self.0.verifier,
            ram: &self.0.ram,
            special_pool: self.0.config.special_pool,
            registry: &self.0.registry,
            services: registration::services(self.0.config.registration),
        };
        let id = DriverId(pnp.drivers.len());
        // The driver finds its service's key when DriverEntry runs.
        let installation = installed::not_installed(&self.0.registry, id, image.name());
        let (driver, registered) = registration::load(image, &host, &self.0.rescues)?;
        let (calls, rescues) = (Arc::clone(&self.0.ddi_calls), Arc::clone(&self.0.rescues));
        let miniport = Arc::new(Miniport::new(registered, driver, calls, rescues));
        pnp.drivers.push(Some(LoadedDriver { miniport, installation }));
        Ok(id)
    }

    fn miniport(&self, driver: DriverId) -> Result<Arc<Miniport>, PnpError> {
        let pnp = lock(&self.0.pnp);
        let loaded = pnp.drivers.get(driver.0).and_then(Option::as_ref).ok_or(PnpError::NoSuchDriver)?;
        Ok(Arc::clone(&loaded.miniport))
    }

    /// Has a session want the events of a provider that the driver registered, or registers later; `None` ends it. The driver hears of
    /// it before this returns. There is one session a provider.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn set_etw_session(
        &self,
        driver: DriverId,
        provider: GUID,
        session: Option<EtwSession>,
    ) -> Result<(), PnpError> {
        let miniport = self.miniport(driver)?;
        for notice in miniport.driver().etw().set_session(provider, session) {
            miniport.call_interface("the ETW enable callback", || nt::services::notify(&notice));
        }
        Ok(())
    }

    /// Tells the driver that the graphics kernel's own trace wants its events up to `level`, or no more
    /// (DxgkDdiControlEtwLogging).
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn control_etw_logging(&self, driver: DriverId, enable: bool, level: u8) -> Result<(), PnpError> {
        let miniport = self.miniport(driver)?;
        miniport.driver().etw().set_logging(enable);
        miniport.control_etw_logging(enable.into(), 0, level);
        Ok(())
    }

    /// Has the driver of an adapter tell what it knows, as for a live dump (DxgkDdiCollectDbgInfo with a buffer of `bytes`).
    ///
    /// # Errors
    /// [`PnpError::NoSuchAdapter`]; [`PnpError::Busy`] if the driver does not tell.
    pub fn collect_debug_information(&self, luid: LUID, reason: u32, bytes: usize) -> Result<Vec<u8>, PnpError> {
        let adapter = self.adapter(luid).ok_or(PnpError::NoSuchAdapter)?;
        adapter.collect_debug_information(reason, bytes, None).map_err(|_| PnpError::Busy)
    }

    /// The events that a driver wrote for whoever wanted them since the last question, and how many more were lost.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn take_etw_events(&self, driver: DriverId) -> Result<(Vec<EtwEvent>, u64), PnpError> {
        Ok(self.miniport(driver)?.driver().etw().take_events())
    }

    /// Identifier, and name and traits, of each provider that a driver has registered.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn etw_providers(&self, driver: DriverId) -> Result<Vec<(GUID, Vec<u8>)>, PnpError> {
        Ok(self.miniport(driver)?.driver().etw().providers())
    }

    /// Has allocations of a driver fail at random from now on, or no more; the number of those that failed since this was called last.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn simulate_low_resources(&self, driver: DriverId, low: Option<LowResources>) -> Result<u64, PnpError> {
        Ok(self.miniport(driver)?.driver().pool().simulate(low))
    }

    /// Starts a device under a driver: AddDevice and LinkDevice unless that has happened, StartDevice, every capability query, scheduler,
    /// memory manager and paging process. Devices that the driver has linked are added and started with it, as one adapter.
    ///
    /// # Errors
    /// A step failed or a rule is broken; see [`StartError`]. The device is then removed again, and those linked with it.
    pub fn start(&self, device: DeviceId, driver: DriverId) -> Result<LUID, StartError> {
        let mut pnp = lock(&self.0.pnp);
        let Pnp { devices, drivers, .. } = &mut *pnp;
        let node = devices.get_mut(device.0).ok_or(StartError::NoSuchDevice)?;
        let loaded = drivers.get(driver.0).and_then(Option::as_ref).ok_or(StartError::NoSuchDriver)?;
        if node.started.is_some() {
            return Err(StartError::AlreadyStarted);
        }
        if node.stack.as_ref().is_some_and(|stack| !Arc::ptr_eq(&stack.miniport, &loaded.miniport)) {
            return Err(StartError::OtherDriver);
        }
        if let Err(error) = &node.function {
            return Err(StartError::Pci(error.clone()));
        }
        let verifier = &self.0.verifier;
        if verifier.is_stopped() {
            return Err(StartError::Stopped(verifier.bugcheck()));
        }
        loaded.miniport.start_trace();
        let started = self.start_chain(devices, device.0, loaded);
        let log = loaded.miniport.take_trace();
        // Whatever a stopped machine answered, the stop is the reason.
        let told = |error| if verifier.is_stopped() { StartError::Stopped(verifier.bugcheck()) } else { error };
        let adapter = started.map_err(told)?;
        adapter.set_start_log(log);
        let luid = adapter.luid;
        self.0.adapters.write().push(adapter);
        Ok(luid)
    }

    /// Starts a device with those that it is linked with. On failure none of them is added any more.
    fn start_chain(
        &self,
        devices: &mut [Device],
        first: usize,
        loaded: &LoadedDriver,
    ) -> Result<Arc<Adapter>, StartError> {
        let (machine, miniport) = (self.downgrade(), &loaded.miniport);
        let found = find_chain(&machine, devices, first, loaded);
        let started = found.0.and_then(|lead| {
            let mut chain = found.1.clone();
            // The one that leads comes first.
            chain.swap(0, lead);
            let nodes: Vec<&Device> = chain.iter().filter_map(|place| devices.get(*place)).collect();
            let features = nodes.first().map_or(self.0.config.features, |node| node.features);
            let members = nodes.into_iter().map(|node| {
                let function = node.function.clone().map_err(StartError::Pci)?;
                let context = node.stack.as_ref().ok_or(StartError::NoSuchDevice)?.context;
                Ok(Member { function, context, location: node.location, device_object: node.object.address() })
            });
            let about = DeviceSettings { features, installation: loaded.installation.clone() };
            adapter::start(&machine, about, members.collect::<Result<_, StartError>>()?, miniport)
        });
        for place in found.1 {
            let Some(node) = devices.get_mut(place) else { continue };
            match &started {
                Ok(adapter) => (node.started, node.last) = (Some(adapter.luid), Some(adapter.luid)),
                Err(_) => {
                    node.function.iter().filter_map(|of| of.fault()).for_each(|told| self.0.verifier.log(told));
                    node.remove();
                }
            }
        }
        started
    }

    /// The adapter that a device belongs to, while it is started.
    pub fn adapter_of(&self, device: DeviceId) -> Option<LUID> {
        lock(&self.0.pnp).devices.get(device.0)?.started
    }

    /// Image and pool of a driver, as a debugger would read them now.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the driver is not loaded, or the host does not let the process read its memory.
    pub fn driver_memory(&self, driver: DriverId) -> io::Result<DriverMemory> {
        let loaded = {
            let pnp = lock(&self.0.pnp);
            let loaded = pnp.drivers.get(driver.0).and_then(Option::as_ref);
            loaded.map(|loaded| Arc::clone(&loaded.miniport)).ok_or(io::ErrorKind::NotFound)?
        };
        loaded.driver().memory()
    }

    /// Delivers what is pending on a machine without interrupt threads; false when nothing was.
    pub fn deliver_interrupts(&self) -> bool {
        self.adapters().iter().filter(|adapter| adapter.deliver_interrupts()).count() > 0
    }

    /// When this returns, the driver's routines have run for every message that a device sent before.
    pub fn settle_interrupts(&self) {
        self.adapters().iter().for_each(|adapter| adapter.settle_interrupts());
    }

    /// Moves a manual clock on by `time`, then looks for timeouts on every adapter and recovers from those found, and for idle ones,
    /// before it returns. The host's clock moves by itself; then only the looks are taken.
    pub fn advance(&self, time: Duration) {
        self.0.config.clock.advance(time);
        for adapter in self.adapters() {
            if let Some(scheduler) = adapter.scheduler() {
                scheduler.recovery().look_for_timeouts();
            }
        }
        self.look_for_idle();
    }

    /// The clock that timeouts are measured by.
    pub fn clock(&self) -> &Clock {
        &self.0.config.clock
    }

    /// The bugcheck that stopped the machine, if any.
    pub fn bugcheck(&self) -> Option<Bugcheck> {
        self.0.verifier.bugcheck()
    }

    /// Has `watcher` called when a bugcheck stops the machine, at once if one has: on any thread, which may hold anything, so that it must not wait. The latest
    /// one counts, and may be called twice.
    pub fn watch_for_bugcheck(&self, watcher: impl Fn() + Send + Sync + 'static) {
        self.0.verifier.watch(watcher);
    }

    /// What the HAL does when a machine has stopped, so that it can show why: DxgkDdiResetDevice of every started adapter, at the highest
    /// level. Whoever has seen the stop does it here, because the thread that stopped the machine may hold anything. True if all came
    /// back as they should; false too on a machine that runs, where nothing is called. [dispmprt: DXGKDDI_RESET_DEVICE]
    pub fn reset_devices(&self) -> bool {
        let reset = |adapter: &Arc<Adapter>| {
            let failed =
                |link: &&crate::port::Link| !adapter.miniport.reset_device_of_stopped_machine(link.context.raw());
            adapter.links().iter().filter(failed).count()
        };
        self.0.verifier.is_stopped() && self.adapters().iter().map(reset).sum::<usize>() == 0
    }

    /// The adapter with this identifier, while it is started.
    pub(crate) fn adapter(&self, luid: LUID) -> Option<Arc<Adapter>> {
        self.adapters().into_iter().find(|adapter| adapter.luid == luid)
    }

    /// Every adapter that was started and not yet stopped.
    pub(crate) fn adapters(&self) -> Vec<Arc<Adapter>> {
        self.0.adapters.read().clone()
    }

    /// Reference to the machine that parts of it keep without keeping it alive.
    pub(crate) fn downgrade(&self) -> Platform {
        let owner: Weak<dyn Owner> = Arc::downgrade(&self.0) as Weak<dyn Owner>;
        Platform::new(
            Parts {
                ram: Arc::clone(&self.0.ram),
                verifier: Arc::clone(&self.0.verifier),
                rescues: Arc::clone(&self.0.rescues),
                gate: Arc::clone(&self.0.gate),
                config: self.0.config.clone(),
                interface: callbacks::interface,
            },
            owner,
        )
    }

    /// Reference to the machine that a process keeps without keeping it alive.
    pub(crate) fn weak(&self) -> WeakMachine {
        WeakMachine(Arc::downgrade(&self.0))
    }
}

/// A machine that may be gone.
pub(crate) struct WeakMachine(Weak<MachineInner>);

impl WeakMachine {
    /// The machine, unless it is gone.
    pub(crate) fn upgrade(&self) -> Option<Machine> {
        self.0.upgrade().map(Machine)
    }
}

impl MachineInner {
    fn started(&self) -> Vec<Arc<Adapter>> {
        self.adapters.read().clone()
    }
}

impl Owner for MachineInner {
    fn deliver_interrupts(&self) -> bool {
        // Every adapter, also behind one that has had some.
        self.started().iter().filter(|adapter| adapter.deliver_interrupts()).count() != 0
    }

    fn wake_devices(&self) {
        self.started().iter().for_each(|adapter| adapter.wake(|| ()));
    }
}

impl Drop for MachineInner {
    fn drop(&mut self) {
        let adapters = std::mem::take(self.adapters.get_mut());
        for adapter in adapters {
            adapter.stop();
        }
        let pnp = self.pnp.get_mut();
        pnp.devices.iter_mut().filter_map(|node| node.stack.take()).for_each(DeviceStack::remove);
        for loaded in pnp.drivers.drain(..).flatten() {
            let _ = loaded.unload();
        }
    }
}
