//! Starting and stopping an adapter, in the order that Windows uses.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_SUCCESS;
use wddm_ddi::types::*;

use super::features::Features;
use super::power::PowerComponents;
use super::resources::Resources;
use super::rules::{self, Surroundings};
use super::{Adapter, AdapterCaps, NodeCaps, Segment, StartError};
use crate::callbacks;
use crate::interrupt::{Interrupts, Sink};
use crate::machine::{FeaturePolicy, MachineRef, lock};
use crate::miniport::{KmdHandle, Miniport};
use crate::pci::Function;
use crate::ram::PAGE_SIZE;
use crate::verifier::Bugcheck;
use crate::vidmm::VidMm;
use crate::vidsch::VidSch;

/// Device objects are numbers that no address has.
const DEVICE_OBJECTS: usize = 0xd0de_0000_0000_0010;

/// What plug and play keeps of a device between AddDevice and RemoveDevice.
pub(crate) struct DeviceStack {
    pub(crate) miniport: Arc<Miniport>,
    pub(crate) context: KmdHandle,
}

/// What plug and play knows of a device beside its function.
#[derive(Clone, Copy)]
pub(crate) struct DeviceSettings {
    /// Which device it is.
    pub(crate) number: usize,
    /// What the system is willing to enable.
    pub(crate) features: FeaturePolicy,
    /// Its driver has a user-mode driver.
    pub(crate) has_user_mode_driver: bool,
}

fn next_luid() -> LUID {
    static NEXT: AtomicU32 = AtomicU32::new(0x1_0000);
    LUID { LowPart: NEXT.fetch_add(0x11, Ordering::Relaxed), HighPart: 0 }
}

/// DxgkDdiAddDevice.
fn add_device(miniport: &Arc<Miniport>, device: usize) -> Result<DeviceStack, StartError> {
    let mut context = std::ptr::null_mut();
    let object = core::ptr::without_provenance_mut(DEVICE_OBJECTS + device * 0x10);
    let status = miniport.add_device(object, &mut context);
    if !status.is_success() {
        return Err(StartError::AddDevice(status));
    }
    if context.is_null() {
        return Err(StartError::NotSupportedByDriver);
    }
    Ok(DeviceStack { miniport: Arc::clone(miniport), context: KmdHandle::new(context) })
}

/// Starts a device under a driver. On failure everything is undone up to and including RemoveDevice.
pub(crate) fn start(
    machine: &MachineRef,
    settings: DeviceSettings,
    function: &Arc<Function>,
    stack: &mut Option<DeviceStack>,
    miniport: &Arc<Miniport>,
) -> Result<Arc<Adapter>, StartError> {
    let verifier = machine.verifier();
    if verifier.is_stopped() {
        return Err(StartError::Stopped(verifier.bugcheck()));
    }
    // Whatever a stopped machine answered, the stop is the reason.
    let told = |error| if verifier.is_stopped() { StartError::Stopped(verifier.bugcheck()) } else { error };
    miniport.start_trace();
    let context = match stack {
        Some(added) => added.context,
        None => stack.insert(add_device(miniport, settings.number).map_err(told)?).context,
    };
    let result = start_added(machine, settings, function, miniport, context);
    let log = miniport.take_trace();
    match result {
        Ok(adapter) => {
            let _ = adapter.start_log.set(log);
            Ok(adapter)
        }
        Err(error) => {
            if let Some(added) = stack.take() {
                let _ = added.miniport.remove_device(added.context.raw());
            }
            Err(told(error))
        }
    }
}

fn start_added(
    machine: &MachineRef,
    settings: DeviceSettings,
    function: &Arc<Function>,
    miniport: &Arc<Miniport>,
    context: KmdHandle,
) -> Result<Arc<Adapter>, StartError> {
    let host = |error: std::io::Error| StartError::Resources(error.to_string());
    let resources = Resources::new(Arc::clone(function)).map_err(host)?;
    let adapter = Arc::new_cyclic(|weak| Adapter {
        machine: machine.clone(),
        luid: next_luid(),
        miniport: Arc::clone(miniport),
        context,
        handle: callbacks::register(weak.clone()),
        running: AtomicBool::new(false),
        gone: AtomicBool::new(false),
        function: Arc::clone(function),
        resource_list: Box::new(function.resources()),
        interrupts: Arc::new(Interrupts::default()),
        interrupt_thread: Mutex::new(None),
        policy: settings.features,
        features: Features::default(),
        resources,
        power: PowerComponents::default(),
        asleep: Mutex::default(),
        transitions: Default::default(),
        idle: Mutex::default(),
        caps: OnceLock::new(),
        vidsch: OnceLock::new(),
        vidmm: OnceLock::new(),
        refusal: Mutex::new(None),
        start_log: OnceLock::new(),
        acquired: Mutex::new(HashSet::new()),
    });
    adapter.query_before_start();
    adapter.connect_hardware()?;
    let started = adapter.start_device();
    if let Err(error) = started {
        adapter.disconnect_hardware();
        callbacks::unregister(adapter.handle);
        return Err(error);
    }
    match adapter.start_rendering(settings.has_user_mode_driver) {
        Ok(()) => Ok(adapter),
        Err(error) => {
            adapter.stop();
            Err(error)
        }
    }
}

impl Adapter {
    /// Queries that the driver answers without having seen its hardware. Refusing them is allowed.
    fn query_before_start(&self) {
        let physical = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_PHYSICAL_MEMORY_CAPS;
        let _ = self.query::<DXGK_PHYSICAL_MEMORY_CAPS>(physical, "PHYSICAL_MEMORY_CAPS", &mut []);
        let iommu = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_IOMMU_CAPS;
        let _ = self.query::<DXGK_IOMMU_CAPS>(iommu, "IOMMU_CAPS", &mut []);
    }

    /// Memory for DMA, interrupt messages and the interrupt thread.
    fn connect_hardware(&self) -> Result<(), StartError> {
        let bus = &self.function.bus;
        let ram = self.machine.ram();
        bus.map_memory(0, ram.file(), 0, ram.size())
            .map_err(|error| StartError::Resources(format!("memory for DMA: {error}")))?;
        self.function.enable();
        let result = self.connect_messages();
        if result.is_err() {
            self.function.disable();
            bus.unmap_memory(0, ram.size());
        }
        result
    }

    fn connect_messages(&self) -> Result<(), StartError> {
        if self.machine.config().interrupt_thread {
            let thread = self
                .interrupts
                .start_thread(Arc::clone(&self.miniport), self.context)
                .map_err(|error| StartError::Resources(format!("interrupt thread: {error}")))?;
            *lock(&self.interrupt_thread) = Some(thread);
        }
        self.connect_vectors().map_err(|error| StartError::Resources(format!("message interrupts: {error}")))
    }

    /// Sends the messages of the function here; also when it has forgotten in D3 where they go.
    pub(super) fn connect_vectors(&self) -> std::io::Result<()> {
        if self.function.vectors == 0 {
            return Ok(());
        }
        let sink = Arc::new(Sink(Arc::downgrade(&self.interrupts)));
        self.function.bus.connect_interrupts(self.function.vectors, sink)
    }

    /// Makes a function that somebody has reset answer again where the driver looks for it; true if it was. Nobody is in the driver.
    pub(crate) fn restore_function(&self) -> bool {
        let was_reset = self.function.was_reset();
        if was_reset {
            self.function.bus.disconnect_interrupts();
            self.function.restore();
            if let Err(error) = self.connect_vectors() {
                self.machine.verifier().log(format!("message interrupts after a reset: {error}"));
            }
        }
        was_reset
    }

    fn disconnect_hardware(&self) {
        self.interrupts.disconnect();
        if self.function.vectors > 0 {
            self.function.bus.disconnect_interrupts();
        }
        let thread = lock(&self.interrupt_thread).take();
        drop(thread);
        self.function.disable();
        self.function.bus.unmap_memory(0, self.machine.ram().size());
    }

    /// DxgkDdiStartDevice. Afterwards the storage of the interface is reused, so that a driver that kept a pointer to it notices.
    fn start_device(&self) -> Result<(), StartError> {
        let mut info = DXGK_START_INFO::zeroed();
        info.AdapterLuid = self.luid;
        info.AdapterGuid.Data1 = self.luid.LowPart;
        let mut interface = Box::new(callbacks::interface(self.device_handle()));
        let (mut sources, mut children) = (u32::MAX, u32::MAX);
        let context = self.context.raw();
        let status = self.miniport.start_device(context, &mut info, &mut interface, &mut sources, &mut children);
        *interface = DXGKRNL_INTERFACE::zeroed();
        if !status.is_success() {
            return Err(StartError::StartDevice(status));
        }
        self.interrupts.connect();
        if sources != 0 || children != 0 {
            self.stop_device();
            return Err(StartError::NotRenderOnly { sources, children });
        }
        Ok(())
    }

    /// Everything after StartDevice: capabilities, rules, scheduler and memory manager.
    fn start_rendering(self: &Arc<Self>, has_user_mode_driver: bool) -> Result<(), StartError> {
        let caps = self.query_caps(has_user_mode_driver)?;
        let _ = self.caps.set(caps);
        self.running.store(true, Ordering::Release);
        let failed = |status| lock(&self.refusal).take().unwrap_or(StartError::RenderCore(status));
        let _ = self.vidsch.set(VidSch::new(self));
        let vidmm = VidMm::new(self).map_err(failed)?;
        let _ = self.vidmm.set(Arc::clone(&vidmm));
        vidmm.start(self).map_err(failed)?;
        self.power_control(&GUID_DXGKDDI_POWER_MANAGEMENT_STARTED);
        self.power.take_early().for_each(|node| self.vidsch().note_idle(node));
        let verifier = self.machine.verifier();
        if verifier.is_stopped() { Err(StartError::Stopped(verifier.bugcheck())) } else { Ok(()) }
    }

    /// Asks for every capability in the observed order and checks the rules as soon as their inputs are known.
    fn query_caps(&self, has_user_mode_driver: bool) -> Result<AdapterCaps, StartError> {
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        let driver: DXGK_DRIVERCAPS = self.require(Kind::DXGKQAITYPE_DRIVERCAPS, "DRIVERCAPS", &mut [])?;
        let driver = Box::new(driver);
        let features = self.negotiate();
        let around = Surroundings {
            memory: self.machine.ram().size(),
            is_display: self.function.is_display(),
            has_user_mode_driver,
            features,
        };
        rules::check_driver_caps(&driver, &around)?;
        let node_count = driver.GpuEngineTopology.NbAsymetricProcessingNodes;
        self.query_device_caps(node_count)?;
        let native_fence = self.query_native_fence(&driver)?;
        let user_mode_submission = self.query_user_mode_submission(features.user_mode_submission)?;
        let (gpummu, levels) = self.query_page_tables()?;
        let nodes = self.query_nodes(node_count)?;
        rules::check_nodes(&nodes, features)?;
        let _ = self.query::<DXGK_GPUVERSION>(Kind::DXGKQAITYPE_GPUVERSION, "GPUVERSION", &mut [0]);
        let (out, descriptors) = self.query_segments()?;
        let segments: Vec<Segment> =
            (1..).zip(&descriptors).map(|(id, descriptor)| self.describe_segment(id, descriptor)).collect();
        rules::check_segments(&segments, out.PagingBufferSegmentId)?;
        rules::check_page_tables(&gpummu, &levels, &segments)?;
        rules::check_slots(self.miniport.table(), &driver, features, &segments)?;
        let precision = Kind::DXGKQAITYPE_HISTORYBUFFERPRECISION;
        let bits = self.require_array(precision, "HISTORYBUFFERPRECISION", node_count as usize)?;
        rules::check_history_precision(&bits)?;
        self.query_power_components(&driver, node_count)?;
        Ok(AdapterCaps {
            nodes,
            segments,
            paging_buffer_size: out.PagingBufferSize,
            paging_buffer_private_data_size: out.PagingBufferPrivateDataSize,
            paging_node: driver.MemoryManagementCaps.PagingNode,
            gpummu,
            levels,
            native_fence,
            user_mode_submission,
            features,
            driver,
        })
    }

    /// The queries that follow DRIVERCAPS; most may be refused.
    fn query_device_caps(&self, nodes: u32) -> Result<(), StartError> {
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        let device: DXGK_WDDMDEVICECAPS = self.require(Kind::DXGKQAITYPE_WDDMDEVICECAPS, "WDDMDEVICECAPS", &mut [])?;
        rules::check_device_caps(&device)?;
        let _ = self.query::<[u8; 64]>(Kind::DXGKQAITYPE_64BITONLYCAPS, "64BITONLYCAPS", &mut []);
        let physical = Kind::DXGKQAITYPE_PHYSICALADAPTERCAPS;
        if let Ok(caps) = self.query::<DXGK_PHYSICALADAPTERCAPS>(physical, "PHYSICALADAPTERCAPS", &mut [0]) {
            rules::check_physical_adapter(&caps, nodes)?;
        }
        let display = Kind::DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION;
        let _ = self.query::<DXGK_DISPLAY_DRIVERCAPS_EXTENSION>(display, "DISPLAY_DRIVERCAPS_EXTENSION", &mut []);
        let _ = self.query::<[u8; 256]>(Kind::DXGKQAITYPE_DIRTYBITTRACKINGCAPS, "DIRTYBITTRACKINGCAPS", &mut []);
        Ok(())
    }

    fn query_native_fence(&self, driver: &DXGK_DRIVERCAPS) -> Result<Option<DXGK_NATIVE_FENCE_CAPS>, StartError> {
        if !driver.SchedulingCaps.NativeGpuFence() {
            return Ok(None);
        }
        let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_NATIVE_FENCE_CAPS;
        let caps: DXGK_NATIVE_FENCE_CAPS = self
            .query(kind, "NATIVE_FENCE_CAPS", &mut [])
            .map_err(|status| StartError::NativeFenceCaps(format!("the query failed with {status}")))?;
        rules::check_native_fence(&caps)?;
        Ok(Some(caps))
    }

    fn query_user_mode_submission(&self, enabled: bool) -> Result<Option<DXGK_USERMODESUBMISSION_CAPS>, StartError> {
        if !enabled {
            return Ok(None);
        }
        let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_USERMODESUBMISSION_CAPS;
        let caps: DXGK_USERMODESUBMISSION_CAPS = self
            .query(kind, "USERMODESUBMISSION_CAPS", &mut [])
            .map_err(|status| StartError::UserModeSubmissionCaps(format!("the query failed with {status}")))?;
        rules::check_user_mode_submission(&caps)?;
        Ok(Some(caps))
    }

    fn query_page_tables(&self) -> Result<(DXGK_GPUMMUCAPS, Vec<DXGK_PAGE_TABLE_LEVEL_DESC>), StartError> {
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        let caps: DXGK_GPUMMUCAPS = self.require(Kind::DXGKQAITYPE_GPUMMUCAPS, "GPUMMUCAPS", &mut [0])?;
        let count = caps.PageTableLevelCount;
        if !(2..=6).contains(&count) {
            return Err(StartError::PageTables(format!("{count} levels; 2 to 6 are possible")));
        }
        let levels = (0..count)
            .map(|level| self.require(Kind::DXGKQAITYPE_PAGETABLELEVELDESC, "PAGETABLELEVELDESC", &mut [level]))
            .collect::<Result<_, _>>()?;
        Ok((caps, levels))
    }

    fn query_nodes(&self, count: u32) -> Result<Vec<NodeCaps>, StartError> {
        (0..count)
            .map(|node| {
                let mut metadata = DXGK_NODEMETADATA::zeroed();
                self.miniport
                    .get_node_metadata(self.context.raw(), node, &mut metadata)
                    .ok()
                    .map_err(|status| StartError::NodeMetadata { node, status })?;
                let flags = metadata.Flags;
                Ok(NodeCaps {
                    user_mode_submission: flags.UserModeSubmission(),
                    context_scheduling: flags.ContextSchedulingSupported(),
                    test_commands: flags.SupportBuildTestCommandBuffer(),
                    metadata,
                })
            })
            .collect()
    }

    fn describe_segment(&self, id: u32, descriptor: &DXGK_SEGMENTDESCRIPTOR4) -> Segment {
        let flags = descriptor.Flags;
        let size = descriptor.Size as u64;
        let visible = flags.CpuVisible() && !flags.Aperture() && !flags.SupportsCpuHostAperture();
        // SAFETY: both arms are integers; without a CPU host aperture the address is the one in use.
        let address = unsafe { descriptor.u.CpuTranslatedAddress }.QuadPart as u64;
        // SAFETY: both arms are integers; with a CPU host aperture it is the one in use.
        let aperture = unsafe { descriptor.u.CpuHostAperture };
        let host_aperture = flags.SupportsCpuHostAperture().then_some((aperture.PhysicalAddress, aperture.SizeInPages));
        Segment {
            id,
            base_address: descriptor.BaseAddress.QuadPart as u64,
            size,
            commit_limit: descriptor.CommitLimit as u64,
            flags,
            cpu_address: visible.then_some(address),
            kernel: if visible { self.resources.kernel_view(address, size) } else { None },
            host_aperture: host_aperture.filter(|(address, pages)| self.is_window(*address, *pages)),
        }
    }

    /// Whether so many pages from a translated address are memory of this device.
    fn is_window(&self, address: u64, pages: u32) -> bool {
        pages > 0 && self.resources.kernel_view(address, u64::from(pages) * PAGE_SIZE).is_some()
    }

    fn stop_device(&self) {
        let status = self.miniport.stop_device(self.context.raw());
        if status != STATUS_SUCCESS {
            self.machine.verifier().log(format!("DxgkDdiStopDevice returned {status}"));
        }
    }

    /// Ends the adapter: scheduler, memory manager, StopDevice, hardware. Nothing the driver held may be left.
    pub(crate) fn stop(&self) {
        // What follows needs the hardware, unless there is none any more.
        self.wake(|| ());
        self.running.store(false, Ordering::Release);
        if let Some(vidsch) = self.vidsch.get() {
            vidsch.stop();
        }
        if let Some(vidmm) = self.vidmm.get() {
            vidmm.stop();
        }
        self.power_control(&GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED);
        self.release_features();
        self.stop_device();
        self.disconnect_hardware();
        callbacks::unregister(self.handle);
        self.check_leftovers();
    }

    fn check_leftovers(&self) {
        let verifier = self.machine.verifier();
        if verifier.is_stopped() {
            return;
        }
        let (mappings, memory) = self.resources.leftovers();
        if mappings > 0 {
            verifier.log(format!("StopDevice left {mappings} mappings of DxgkCbMapMemory behind"));
        }
        if memory > 0 {
            verifier.raise(Bugcheck::new(
                Bugcheck::VIDEO_DXGKRNL_SYSMM_FATAL_ERROR,
                [6, memory as u64, 0, 0],
                format!("StopDevice left {memory} objects of DxgkCbAllocateContiguousMemory behind"),
            ));
        }
        let acquired = lock(&self.acquired).len();
        if acquired > 0 {
            verifier.log(format!("StopDevice left {acquired} handles of DxgkCbAcquireHandleData unreleased"));
        }
    }
}
