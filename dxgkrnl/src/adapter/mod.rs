//! An adapter: one started function or several that are linked, their driver, and everything the system keeps about it.

mod device_power;
mod features;
mod idle;
mod link;
mod mcdm;
mod power;
mod query;
mod registry;
mod resources;
mod rules;
mod start;
mod start_error;
mod surprise;

pub(crate) use device_power::{NotAsleep, PowerAction};
pub(crate) use link::{Link, check_chain};
pub(crate) use registry::{adapter_of, adapters_of};
pub(crate) use rules::check_dma_buffer_segment_set;
pub(crate) use start::{DeviceSettings, DeviceStack, Member, add, start};
pub use start_error::{ProblemCode, StartError};

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::{GUID, HANDLE, LUID};

use crate::bar_place::BarPlace;
use crate::caps::{AdapterCaps, EnabledFeatures, NodeCaps, Segment};
use crate::config::{FeaturePolicy, Installation};
use crate::interrupt::{InterruptThread, Interrupts};
use crate::kmd_handle::KmdHandle;
use crate::miniport::Miniport;
use crate::platform::Platform;
use crate::rank;
use crate::vidmm::VidMm;
use crate::vidsch::VidSch;
use features::Features;
use nt::ram::PAGE_SIZE;
pub(crate) use power::NodeUse;
pub use power::PowerComponentState;
use power::PowerComponents;

/// One adapter between StartDevice and StopDevice.
pub(crate) struct Adapter {
    pub(crate) machine: Platform,
    pub(crate) luid: LUID,
    pub(crate) miniport: Arc<Miniport>,
    /// Its functions, the one that leads first.
    links: Vec<Link>,
    /// The registry keys of its driver.
    pub(crate) installation: Installation,
    running: AtomicBool,
    /// A function was pulled out.
    gone: AtomicBool,
    interrupts: Arc<Interrupts>,
    interrupt_thread: Mutex<Option<InterruptThread>>,
    /// What the system is willing to enable here.
    policy: FeaturePolicy,
    features: Features,
    power: PowerComponents,
    /// Set while the adapter is in D3; held over the transitions.
    asleep: Mutex<Option<device_power::Asleep>, rank::DevicePower>,
    /// Ways from D0 to D3, and back.
    transitions: (AtomicU64, AtomicU64),
    /// Since when nothing happens.
    idle: Mutex<idle::Watch, rank::IdlePolicy>,
    caps: OnceLock<AdapterCaps>,
    vidsch: OnceLock<Arc<VidSch>>,
    vidmm: OnceLock<Arc<VidMm>>,
    refusal: Mutex<Option<StartError>>,
    start_log: OnceLock<Vec<String>>,
    /// Tokens of DxgkCbAcquireHandleData that were not released.
    pub(crate) acquired: Mutex<HashSet<usize>>,
}

impl Adapter {
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

    fn contexts(&self) -> Vec<KmdHandle> {
        self.links.iter().map(|link| link.context).collect()
    }

    /// What the driver said about itself. Only valid once VidSch and VidMm are being created.
    pub(crate) fn caps(&self) -> &AdapterCaps {
        self.caps.get().expect("capabilities are known before anything else of the adapter exists")
    }

    /// What the system is willing to enable here.
    pub(crate) fn policy(&self) -> &FeaturePolicy {
        &self.policy
    }

    /// Whether driver and system have agreed on native fences.
    pub(crate) fn has_native_fences(&self) -> bool {
        self.caps().features.native_fence && self.caps().native_fence.is_some()
    }

    /// Whether the GPU writes the 64 bits of a fence value at once.
    pub(crate) fn has_64_bit_fences(&self) -> bool {
        !self.caps().driver.SchedulingCaps.No64BitAtomics()
    }

    /// The scheduler. Only valid once it was created during start.
    pub(crate) fn vidsch(&self) -> &Arc<VidSch> {
        self.vidsch.get().expect("the scheduler exists before anything can be submitted")
    }

    /// The scheduler, if start has come that far.
    pub(crate) fn scheduler(&self) -> Option<&Arc<VidSch>> {
        self.vidsch.get()
    }

    /// The memory manager. Only valid once it was created during start.
    pub(crate) fn vidmm(&self) -> &Arc<VidMm> {
        self.vidmm.get().expect("the memory manager exists before any process does")
    }

    /// The memory manager, if start has come that far.
    pub(crate) fn memory_manager(&self) -> Option<&Arc<VidMm>> {
        self.vidmm.get()
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

    /// Whether the function was pulled out: nothing of it will ever answer.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
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

    pub(crate) fn interrupts(&self) -> &Interrupts {
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
        let place = BarPlace::of(&window.bar, offset)?;
        if shown == page {
            return Some(place);
        }
        let start = place.offset.checked_sub(offset)?.checked_add(shown.checked_mul(PAGE_SIZE)?)?;
        let in_page = offset % PAGE_SIZE;
        Some(BarPlace { file: place.file, offset: start + in_page, len: PAGE_SIZE - in_page })
    }

    /// The place in a BAR that the kernel's mapping of a memory segment shows at `address`.
    pub(crate) fn bar_at_segment_address(&self, address: usize) -> Option<BarPlace> {
        let bus = self.caps().segments.iter().find_map(|segment| {
            let offset = address.checked_sub(segment.kernel?.addr().get())? as u64;
            (offset < segment.size).then(|| segment.cpu_address?.checked_add(offset))?
        })?;
        self.bar_at_bus_address(bus)
    }

    /// Notes the DDIs called at start, once.
    pub(crate) fn set_start_log(&self, log: Vec<String>) {
        let _ = self.start_log.set(log);
    }

    /// The DDIs called at start, in order.
    pub(crate) fn start_log(&self) -> &[String] {
        self.start_log.get().map_or(&[], Vec::as_slice)
    }
}
