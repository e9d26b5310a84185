//! The port to a driver: what scheduler and memory manager know of the adapter that they serve.
//!
//! It has the driver with the context of each of its functions, what the driver said of itself, interrupts, and the power components. It
//! knows nobody above it. What it asks of those goes
//! through [`IdleEngines`] and [`DevicePower`], which plug and play wires.

mod bar_owners;
mod features;
mod link;
mod power;
mod resources;
mod window;

pub(crate) use bar_owners::{BarOwner, NO_BAR_OWNER};
pub(crate) use features::DXGK_FEATURE_SUPPORT_ALWAYS_ON;
pub(crate) use link::{Link, Member};
pub use power::PowerComponentState;
pub(crate) use power::{COMPONENTS_MAX, Component, NodeUse, Parts, PowerComponents, check_component};
pub(crate) use resources::{LeftMapping, Resources};

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use nt::driver::{IoMapping, IoSpace, MapCall};
use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::{GUID, HANDLE, LUID};

use crate::bar_place::BarPlace;
use crate::caps::AdapterCaps;
use crate::config::FeaturePolicy;
use crate::interrupt::{Interrupts, Sink};
use crate::kmd_handle::KmdHandle;
use crate::miniport::Miniport;
use crate::platform::Platform;
use crate::start_error::StartError;
use features::Features;
use nt::page::PAGE_SIZE;
use nt::pci::Interrupt;

/// Who is told that an engine has asked to enter F1 while it was used, and is not used any more.
pub(crate) trait IdleEngines: Send + Sync {
    /// The engine of `node` may be idle.
    fn note_idle(&self, node: u32);
}

/// Brings the device of an adapter back to D0; the adapter implements it.
pub(crate) trait DevicePower: Send + Sync {
    /// D3 to D0; `between` runs before contexts that were suspended for D3 are resumed. Nothing happens to a device in D0.
    fn wake(&self, between: &mut dyn FnMut());
}

/// The driver of one adapter between StartDevice and StopDevice, and what it said of the adapter.
pub(crate) struct Port {
    pub(crate) machine: Platform,
    pub(crate) luid: LUID,
    pub(crate) miniport: Arc<Miniport>,
    /// Its functions, the one that leads first.
    links: Vec<Link>,
    running: AtomicBool,
    /// A function was pulled out.
    gone: AtomicBool,
    interrupts: Arc<Interrupts>,
    /// Features that the system is willing to enable here.
    policy: FeaturePolicy,
    power: PowerComponents,
    features: Features,
    caps: OnceLock<AdapterCaps>,
    refusal: Mutex<Option<StartError>>,
    idle_engines: OnceLock<Weak<dyn IdleEngines>>,
    device_power: OnceLock<Weak<dyn DevicePower>>,
}

/// MmMapIoSpace, which names no device.
impl IoSpace for Port {
    fn map(&self, address: u64, len: u64, by: MapCall) -> Option<usize> {
        self.links.iter().find_map(|link| link.resources.map_guarded(address, len, by).ok())
    }

    fn unmap(&self, address: usize, by: MapCall) -> io::Result<bool> {
        for link in &self.links {
            if link.resources.unmap(address, by)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn mapping_near(&self, address: usize) -> Option<IoMapping> {
        self.links.iter().find_map(|link| link.resources.mapping_near(address))
    }
}

impl Port {
    /// The port to the driver of these functions, of which the first leads; nothing of them is started.
    pub(crate) fn new(
        machine: &Platform,
        luid: LUID,
        miniport: &Arc<Miniport>,
        links: Vec<Link>,
        policy: FeaturePolicy,
    ) -> Arc<Self> {
        let port = Arc::new(Self {
            machine: machine.clone(),
            luid,
            miniport: Arc::clone(miniport),
            links,
            running: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            interrupts: Arc::new(Interrupts::new(machine.rescues())),
            policy,
            power: PowerComponents::default(),
            features: Features::default(),
            caps: OnceLock::new(),
            refusal: Mutex::new(None),
            idle_engines: OnceLock::new(),
            device_power: OnceLock::new(),
        });
        let space: Weak<Self> = Arc::downgrade(&port);
        miniport.driver().add_io_space(space);
        port
    }

    /// What the driver said about itself is known; from now on the adapter runs.
    pub(crate) fn run(&self, caps: AdapterCaps) {
        let _ = self.caps.set(caps);
        self.running.store(true, Ordering::Release);
    }

    /// The adapter is being stopped.
    pub(crate) fn end(&self) {
        self.running.store(false, Ordering::Release);
    }

    /// A function was pulled out: nothing of the adapter will answer any more.
    pub(crate) fn lose(&self) {
        self.gone.store(true, Ordering::Release);
        self.running.store(false, Ordering::Release);
    }

    /// Sets the listener that is told of engines that may be idle.
    pub(crate) fn set_idle_engines(&self, listener: Weak<dyn IdleEngines>) {
        let _ = self.idle_engines.set(listener);
    }

    /// Sets the object that brings the device back to D0.
    pub(crate) fn set_device_power(&self, power: Weak<dyn DevicePower>) {
        let _ = self.device_power.set(power);
    }

    /// Brings the device back to D0 if it is in D3, as [`DevicePower::wake`].
    pub(crate) fn wake_device(&self, between: &mut dyn FnMut()) {
        if let Some(power) = self.device_power.get().and_then(Weak::upgrade) {
            power.wake(between);
        }
    }

    /// The engine of `node` may be idle.
    fn tell_idle(&self, node: u32) {
        if let Some(listener) = self.idle_engines.get().and_then(Weak::upgrade) {
            listener.note_idle(node);
        }
    }

    /// Why start cannot go on, if [`Port::refuse`] has noted it.
    pub(crate) fn take_refusal(&self) -> Option<StartError> {
        lock(&self.refusal).take()
    }

    /// MiniportDeviceContext of the function that leads, the `hAdapter` argument of DDIs.
    pub(crate) fn context(&self) -> KmdHandle {
        self.links.first().map_or(KmdHandle::NULL, |link| link.context)
    }

    /// What names the adapter as long as it is started; its driver was told it at DxgkDdiStartDevice. [dispmprt: DXGK_START_INFO]
    pub(crate) fn guid(&self) -> GUID {
        GUID { Data1: self.luid.LowPart, ..GUID::zeroed() }
    }

    /// Its functions, the one that leads first.
    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    /// The function with this device handle.
    pub(crate) fn link_of(&self, handle: HANDLE) -> Option<(u32, &Link)> {
        (0..).zip(&self.links).find(|(_, link)| link.handle() == handle)
    }

    /// MiniportDeviceContext of every function.
    pub(crate) fn contexts(&self) -> Vec<KmdHandle> {
        self.links.iter().map(|link| link.context).collect()
    }

    /// What the driver said about itself. Only valid once VidSch and VidMm are being created.
    pub(crate) fn caps(&self) -> &AdapterCaps {
        self.caps.get().expect("capabilities are known before anything else of the adapter exists")
    }

    /// Features that the system is willing to enable here.
    pub(crate) fn policy(&self) -> &FeaturePolicy {
        &self.policy
    }

    /// True if driver and system have agreed on native fences.
    pub(crate) fn has_native_fences(&self) -> bool {
        self.caps().features.native_fence && self.caps().native_fence.is_some()
    }

    /// True if the GPU writes the 64 bits of a fence value at once.
    pub(crate) fn has_64_bit_fences(&self) -> bool {
        !self.caps().driver.SchedulingCaps.No64BitAtomics()
    }

    /// Runs `body` at device level with the interrupt lock held, as the interrupt routine runs. May be nested.
    pub(crate) fn at_device_level<R>(&self, body: impl FnOnce() -> R) -> R {
        let _device = self.interrupts.acquire();
        body()
    }

    /// False once the adapter is stopped or removed, or the machine has bugchecked.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) && !self.machine.verifier().is_stopped()
    }

    /// True if the function was pulled out: nothing of it will ever answer.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Why the adapter does not run any more; `None` while it runs, and if the whole machine has stopped.
    pub(crate) fn why_ended(&self) -> Option<&'static str> {
        match (self.is_gone(), self.running.load(Ordering::Acquire)) {
            (true, _) => Some("a function of it was pulled out [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]"),
            (false, false) => Some("it was stopped by plug and play"),
            (false, true) => None,
        }
    }

    /// For waits of the kernel on a machine without interrupt threads: delivers the interrupts of every adapter, for the one that
    /// is waited for may need another, and lets devices work. True if anything was done; on a machine with interrupt threads
    /// nothing is done here.
    pub(crate) fn relax(&self) -> bool {
        let config = self.machine.config();
        if config.interrupt_thread {
            return false;
        }
        let worked = config.idle.as_ref().is_some_and(|idle| idle());
        let own = self.deliver_interrupts();
        // An adapter that is starting is not yet among those of the machine.
        let all = self.machine.deliver_interrupts();
        own || all || worked
    }

    /// Runs interrupt routine and DPC for what is pending; false when nothing was.
    pub(crate) fn deliver_interrupts(&self) -> bool {
        self.settle_messages();
        self.interrupts.deliver(&self.miniport, &self.contexts())
    }

    /// Returns when every interrupt that the function sent before, and its DPC, has been handled.
    pub(crate) fn flush_interrupts(&self) {
        self.settle_messages();
        self.interrupts.flush(&self.miniport, &self.contexts());
    }

    /// As [`Adapter::flush_interrupts`]; no routine of the driver runs then, and none will until the next message.
    pub(crate) fn settle_interrupts(&self) {
        self.settle_messages();
        self.interrupts.settle(&self.miniport, &self.contexts());
    }

    fn settle_messages(&self) {
        self.links().iter().for_each(|link| link.function.bus.settle_messages());
    }

    pub(crate) fn interrupts(&self) -> &Arc<Interrupts> {
        &self.interrupts
    }

    pub(crate) fn power(&self) -> &PowerComponents {
        &self.power
    }

    /// Keeps the engine of `node` in F0 until the answer is dropped.
    pub(crate) fn use_node(&self, node: u32) -> NodeUse<'_> {
        self.power.use_node(self, node)
    }

    /// Notes why start cannot go on, for a rule found broken by memory manager or scheduler; the status is to be returned.
    pub(crate) fn refuse(&self, refusal: StartError) -> NTSTATUS {
        let status = refusal.status();
        lock(&self.refusal).get_or_insert(refusal);
        status
    }

    /// The place in a BAR that the driver's mapping shows at kernel address `address` (DxgkCbMapMemory). `None` for
    /// addresses that are not such a mapping, or of a trapped BAR.
    pub(crate) fn bar_at_kernel_address(&self, address: usize) -> Option<BarPlace> {
        self.links.iter().find_map(|link| link.resources.place_of_kernel_address(address))
    }

    /// The place in a BAR that translated bus address `address` shows at the moment. Its length goes beyond pages that the device
    /// remaps, so those are asked for one by one.
    pub(crate) fn bar_at_bus_address(&self, address: u64) -> Option<BarPlace> {
        let found = self.links.iter().find_map(|link| Some((link, link.function.bar_at(address, 1)?)));
        let (link, (window, offset)) = found?;
        let page = offset / PAGE_SIZE;
        let shown = link.function.bus.shown_page(window.index, page)?;
        if shown == page {
            return link.resources.place_in_bar(window.index, offset);
        }
        let place = BarPlace::of(&window.bar, offset)?;
        let start = place.offset.checked_sub(offset)?.checked_add(shown.checked_mul(PAGE_SIZE)?)?;
        let in_page = offset % PAGE_SIZE;
        // Beyond the end of the BAR nobody has a page.
        let file = link.resources.place_in_bar(window.index, shown * PAGE_SIZE).map_or(place.file, |place| place.file);
        Some(BarPlace { file, offset: start + in_page, len: PAGE_SIZE - in_page })
    }

    /// Gives whole pages of a BAR at a translated bus address to an owner, where the BAR is not one file for good.
    ///
    /// # Errors
    /// They are no such pages; the host refuses.
    pub(crate) fn give_bar_pages(&self, address: u64, len: u64, owner: &BarOwner) -> io::Result<()> {
        let mut given = self.links.iter().filter_map(|link| link.resources.give_at(address, len, owner));
        given.next().unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()))
    }

    /// As [`Port::give_bar_pages`], at an address of the driver's mapping.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn give_mapped_bar_pages(&self, address: usize, len: u64, owner: &BarOwner) -> io::Result<()> {
        let links = self.links.iter();
        let mut given = links.filter_map(|link| link.resources.give_at_kernel_address(address, len, owner));
        given.next().unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()))
    }

    /// The place in a BAR that the kernel's mapping of a memory segment shows at `address`.
    pub(crate) fn bar_at_segment_address(&self, address: usize) -> Option<BarPlace> {
        let bus = self.caps().segments.iter().find_map(|segment| {
            let offset = address.checked_sub(segment.kernel?.addr().get())? as u64;
            (offset < segment.size).then(|| segment.cpu_address?.checked_add(offset))?
        })?;
        self.bar_at_bus_address(bus)
    }

    /// Sends the interrupts of a function here; also when it has forgotten in D3 where they go.
    pub(crate) fn connect_vectors(&self, place: u32, link: &Link) -> io::Result<()> {
        let sink = Arc::new(Sink { interrupts: Arc::downgrade(&self.interrupts), function: place });
        let bus = &link.function.bus;
        match link.function.interrupt {
            Interrupt::Messages(vectors) => bus.connect_interrupts(vectors, sink),
            Interrupt::Line(_) => {
                self.interrupts.add_line(place, bus);
                bus.connect_line(sink)
            }
            Interrupt::NoLine(_) | Interrupt::None => Ok(()),
        }
    }

    /// Makes functions that somebody has reset answer again where the driver looks for them; true if one was. Nobody is in the driver.
    pub(crate) fn restore_function(&self) -> bool {
        let mut was_reset = false;
        for (place, link) in (0..).zip(self.links()).filter(|(_, link)| link.function.was_reset()) {
            was_reset = true;
            link.function.bus.disconnect_interrupts();
            link.function.restore();
            if let Err(error) = self.connect_vectors(place, link) {
                self.machine.verifier().log(format!("interrupts after a reset: {error}"));
            }
        }
        was_reset
    }

    /// True while every function answers in configuration space.
    pub(crate) fn is_there(&self) -> bool {
        self.links().iter().all(|link| link.function.is_there())
    }

    /// True if a function was pulled out, also if nobody has told of it yet.
    pub(crate) fn is_absent(&self) -> bool {
        self.is_gone() || !self.is_there()
    }

    /// The functions that do not answer any more, or all if each does.
    pub(crate) fn pulled_out(&self) -> Vec<&Link> {
        let silent: Vec<&Link> = self.links().iter().filter(|link| !link.function.is_there()).collect();
        if silent.is_empty() { self.links().iter().collect() } else { silent }
    }

    /// DmaBufferSegmentSet of a context: 0, or aperture segments only.
    ///
    /// # Errors
    /// The set names another segment, or one that does not exist.
    pub(crate) fn check_dma_buffer_segment_set(&self, node: u32, set: u32) -> Result<(), StartError> {
        let apertures = self
            .caps()
            .segments
            .iter()
            .filter(|segment| segment.flags.Aperture())
            .fold(0, |mask, segment| mask | 1_u32.checked_shl(segment.id - 1).unwrap_or(0));
        if set & !apertures == 0 { Ok(()) } else { Err(StartError::DmaBufferSegmentSet { node, set }) }
    }
}
