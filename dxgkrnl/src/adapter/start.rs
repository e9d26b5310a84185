//! Starting and stopping an adapter, in the order that open drivers saw on Windows.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_SUCCESS;
use wddm_ddi::types::*;

use super::link::{self, EngineCaps};
use super::object::Adapter;
use super::registry;
use super::rules::{self, Surroundings};
use super::segments::overlaps;
use super::{mcdm, reserved_bits, versions};
use crate::caps::{AdapterCaps, EnabledFeatures, NodeCaps, Segment};
use crate::config::{FeaturePolicy, Installation, RegistryKey, USER_MODE_DRIVER_NAME};
use crate::kmd_handle::KmdHandle;
use crate::miniport::Miniport;
use crate::platform::Platform;
use crate::port::Link;
use crate::port::{IdleEngines, LeftMapping, Member, Parts, Port, Resources};
use crate::refusal::Failure;
use crate::rescue::Rescue;
use crate::start_error::StartError;
use crate::tdr::Tdr;
use crate::vidmm::VidMm;
use crate::vidmm::joint_limit::JointLimit;
use crate::vidmm::table_rules;
use crate::vidsch::{RenderAdapter, VidSch};
use nt::bugcheck::Bugcheck;
use nt::device_object::DeviceObject;

/// The state that plug and play keeps of a device between AddDevice and RemoveDevice.
pub(crate) struct DeviceStack {
    pub(crate) miniport: Arc<Miniport>,
    pub(crate) context: KmdHandle,
    /// The chain that the device belongs to, if it is one of several.
    pub(crate) chain: Option<LINKED_DEVICE>,
}

impl DeviceStack {
    /// DxgkDdiRemoveDevice. An error of it is a finding: there is nothing left to try.
    pub(crate) fn remove(self) {
        let status = self.miniport.remove_device(self.context.raw()).status();
        // On a machine that has stopped it was not called.
        if !status.is_success() && !self.miniport.driver().verifier().is_stopped() {
            self.miniport.rescued(
                Rescue::FailedStop,
                format!(
                    "DxgkDdiRemoveDevice answered {status}, and expected was STATUS_SUCCESS: the device counts as removed [dispmprt: DXGKDDI_REMOVE_DEVICE]"
                ),
            );
        }
    }
}

/// The settings of an adapter that do not belong to one of its functions.
pub(crate) struct DeviceSettings {
    /// Features that the system is willing to enable.
    pub(crate) features: FeaturePolicy,
    /// The registry keys of its driver.
    pub(crate) installation: Installation,
}

fn next_luid() -> LUID {
    static NEXT: AtomicU32 = AtomicU32::new(0x1_0000);
    LUID { LowPart: NEXT.fetch_add(0x11, Ordering::Relaxed), HighPart: 0 }
}

/// DxgkDdiAddDevice, and DxgkDdiLinkDevice of a driver that has it; the driver finds `software` as the software key of the device. A driver that cannot tell the chain of a device has one that is alone.
///
/// # Errors
/// [`StartError::AddDevice`], [`StartError::NotSupportedByDriver`].
pub(crate) fn add(
    machine: &Platform,
    object: &DeviceObject,
    miniport: &Arc<Miniport>,
    software: &RegistryKey,
) -> Result<DeviceStack, StartError> {
    object.set_software_key(software.clone());
    let mut context = std::ptr::null_mut();
    let object = core::ptr::without_provenance_mut(object.address());
    let status = miniport.add_device(object, &mut context).status();
    if !status.is_success() {
        return Err(StartError::AddDevice(status));
    }
    if context.is_null() {
        return Err(StartError::NotSupportedByDriver);
    }
    let mut chain = LINKED_DEVICE::zeroed();
    if miniport.table().DxgkDdiLinkDevice.is_some() {
        let status = miniport.link_device(object, context, &mut chain).status();
        if !status.is_success() {
            machine.verifier().log(format!("DxgkDdiLinkDevice answered {status}: the device is not linked"));
            chain = LINKED_DEVICE::zeroed();
        }
    }
    let chain = (chain.NumberOfLinksInChain > 1).then_some(chain);
    Ok(DeviceStack { miniport: Arc::clone(miniport), context: KmdHandle::new(context), chain })
}

/// Starts devices that were added, of which the first leads, as one adapter. On failure everything is undone but AddDevice.
///
/// # Errors
/// A step failed or a rule is broken.
pub(crate) fn start(
    machine: &Platform,
    settings: DeviceSettings,
    members: Vec<Member>,
    miniport: &Arc<Miniport>,
) -> Result<Arc<Adapter>, StartError> {
    let host = |error: std::io::Error| StartError::Resources(error.to_string());
    let resources = members
        .into_iter()
        .map(|member| Ok((Resources::new(Arc::clone(&member.function)).map_err(host)?, member)))
        .collect::<Result<Vec<_>, StartError>>()?;
    let adapter = Arc::new_cyclic(|weak| {
        let links = resources.into_iter().map(|(resources, member)| {
            Link::new(registry::register(Weak::clone(weak)), &member, resources, &settings.installation.software)
        });
        Adapter {
            render: RenderAdapter::new(Port::new(machine, next_luid(), miniport, links.collect(), settings.features)),
            installation: settings.installation,
            interrupt_thread: Mutex::new(None),
            asleep: Mutex::default(),
            transitions: Default::default(),
            idle: Mutex::default(),
            start_log: OnceLock::new(),
            acquired: Mutex::new(HashSet::new()),
        }
    });
    let power: Weak<Adapter> = Arc::downgrade(&adapter);
    adapter.set_device_power(power);
    let started = adapter.start_functions();
    if let Err(error) = started {
        adapter.links().iter().for_each(registry::unregister);
        return Err(error);
    }
    match adapter.start_rendering() {
        Ok(()) => Ok(adapter),
        Err(error) => {
            adapter.stop();
            Err(error)
        }
    }
}

/// Ends a table of callbacks where a version of the interface has its end: those behind it are NULL. `Version` stays that of the system.
/// [dispmprt: DXGKRNL_INTERFACE; d3dkmddi: DXGK_WDDMDEVICECAPSIN]
fn cut(interface: &mut DXGKRNL_INTERFACE, bytes: usize) {
    let tail = size_of::<DXGKRNL_INTERFACE>().saturating_sub(bytes);
    let end = (&raw mut *interface).cast::<u8>().wrapping_add(size_of::<DXGKRNL_INTERFACE>() - tail);
    // SAFETY: the bytes are the last ones of the table, whose members are all valid as zero.
    unsafe { end.write_bytes(0, tail) };
    interface.Size = (size_of::<DXGKRNL_INTERFACE>() - tail) as u32;
}

impl Adapter {
    /// Queries that the driver answers without having seen its hardware. Refusing them is allowed.
    fn query_before_start(&self) {
        let physical = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_PHYSICAL_MEMORY_CAPS;
        let _ = self.query::<DXGK_PHYSICAL_MEMORY_CAPS>(physical, "PHYSICAL_MEMORY_CAPS", &mut []);
        let iommu = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_IOMMU_CAPS;
        let _ = self.query::<DXGK_IOMMU_CAPS>(iommu, "IOMMU_CAPS", &mut []);
    }

    /// Hardware and StartDevice of every function, the one that leads last. All or none. [dispmprt: DXGKDDI_LINK_DEVICE]
    fn start_functions(&self) -> Result<(), StartError> {
        self.query_before_start();
        self.start_interrupts()?;
        let mut started = 0;
        let result = self.in_order().try_for_each(|(place, link)| {
            self.connect_hardware(place, link)?;
            let result = self.start_device(link);
            match result {
                Ok(()) => started += 1,
                Err(_) => self.disconnect_hardware(link),
            }
            result
        });
        if result.is_err() {
            let undo: Vec<&Link> = self.in_order().take(started).map(|(_, link)| link).collect();
            for link in undo.into_iter().rev() {
                self.stop_device(link);
                self.disconnect_hardware(link);
            }
            self.end_interrupts();
            return result;
        }
        self.interrupts().connect();
        Ok(())
    }

    /// The functions in the order in which they start, each with its place.
    fn in_order(&self) -> impl Iterator<Item = (u32, &Link)> {
        let mut links = (0u32..).zip(self.links());
        let lead = links.next();
        links.chain(lead)
    }

    fn start_interrupts(&self) -> Result<(), StartError> {
        if self.machine.config().interrupt_thread {
            let thread = self
                .interrupts()
                .start_thread(Arc::clone(&self.miniport), self.contexts())
                .map_err(|error| StartError::Resources(format!("interrupt thread: {error}")))?;
            *lock(&self.interrupt_thread) = Some(thread);
        }
        Ok(())
    }

    fn end_interrupts(&self) {
        self.interrupts().disconnect();
        let thread = lock(&self.interrupt_thread).take();
        drop(thread);
    }

    /// Memory for DMA and interrupts of a function.
    fn connect_hardware(&self, place: u32, link: &Link) -> Result<(), StartError> {
        let bus = &link.function.bus;
        let ram = self.machine.ram();
        bus.map_memory(ram).map_err(|error| StartError::Resources(format!("memory for DMA: {error}")))?;
        let result = link.function.enable().map_err(StartError::Pci).and_then(|()| {
            let interrupt = |error| StartError::Resources(format!("{}: {error}", link.function.interrupt));
            self.connect_vectors(place, link).map_err(interrupt)
        });
        if result.is_err() {
            link.function.disable();
            bus.unmap_memory(ram);
        }
        result
    }

    fn disconnect_hardware(&self, link: &Link) {
        if link.function.interrupt.count() != 0 {
            link.function.bus.disconnect_interrupts();
        }
        link.function.disable();
        link.function.bus.unmap_memory(self.machine.ram());
    }

    /// DxgkDdiStartDevice.
    fn start_device(&self, link: &Link) -> Result<(), StartError> {
        let mut info = DXGK_START_INFO::zeroed();
        info.AdapterLuid = self.luid;
        info.AdapterGuid = self.guid();
        let mut interface = self.machine.interface(link.handle());
        cut(&mut interface, self.miniport.version().callback_table);
        let (mut sources, mut children) = (u32::MAX, u32::MAX);
        let context = link.context.raw();
        let status =
            self.miniport.start_device(context, &mut info, &mut interface, &mut sources, &mut children).status();
        if !status.is_success() {
            return Err(StartError::StartDevice(status));
        }
        if sources != 0 || children != 0 {
            self.stop_device(link);
            return Err(StartError::NotRenderOnly { sources, children });
        }
        Ok(())
    }

    /// Everything after StartDevice: capabilities, rules, scheduler and memory manager.
    fn start_rendering(self: &Arc<Self>) -> Result<(), StartError> {
        let caps = self.query_caps()?;
        self.run(caps);
        let failed = |failure: Failure| self.take_refusal().unwrap_or_else(|| render_core(&failure));
        let vidsch = VidSch::new(self.render(), Tdr::new(self.render()));
        let idle_engines: Weak<VidSch> = Arc::downgrade(&vidsch);
        self.set_idle_engines(idle_engines);
        self.set_scheduler(vidsch);
        let vidmm = VidMm::new(self.port(), Arc::<VidSch>::clone(self.vidsch()));
        self.set_memory_manager(Arc::clone(&vidmm));
        self.vidsch().start_threads();
        vidmm.start(self.port()).map_err(failed)?;
        self.vidsch().start_scheduling_logs(self.render()).map_err(failed)?;
        self.power_control(&GUID_DXGKDDI_POWER_MANAGEMENT_STARTED);
        let early = self.power().take_early().filter_map(|(node, engine)| self.caps().node_at(node, engine));
        early.for_each(|node| self.vidsch().note_idle(node));
        let verifier = self.machine.verifier();
        if verifier.is_stopped() { Err(StartError::Stopped(verifier.bugcheck())) } else { Ok(()) }
    }

    /// Asks for every capability in the observed order and checks the rules as soon as their inputs are known.
    fn query_caps(&self) -> Result<AdapterCaps, StartError> {
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        rules::check_slots_of_queries(self.miniport.table())?;
        let driver: DXGK_DRIVERCAPS = self.require(Kind::DXGKQAITYPE_DRIVERCAPS, "DRIVERCAPS", &mut [])?;
        let driver = Box::new(driver);
        let features = self.negotiate();
        self.check_feature_interface()?;
        let around = Surroundings {
            memory: self.machine.ram().size(),
            is_post_device: self.links().iter().any(|link| link.function.is_vga_compatible()),
            has_user_mode_driver: self.installation.software.get(USER_MODE_DRIVER_NAME).is_some(),
            features,
            version: self.miniport.version(),
        };
        let caps = (Kind::DXGKQAITYPE_DRIVERCAPS, "DRIVERCAPS");
        self.judged::<DXGK_DRIVERCAPS, _>(caps, &mut [], rules::check_driver_caps(&driver, &around))?;
        let node_count = driver.GpuEngineTopology.NbAsymetricProcessingNodes;
        let engines = self.links().len() as u32;
        self.query_device_caps(&driver)?;
        let native_fence = self.query_native_fence(&driver)?;
        let user_mode_submission = self.query_user_mode_submission(features.user_mode_submission)?;
        let described = (0..engines)
            .map(|engine| self.query_engine(engine, node_count, features))
            .collect::<Result<Vec<EngineCaps>, _>>()?;
        link::check_alike(&described)?;
        let (mut nodes, mut segments, mut versions, mut first) = (Vec::new(), Vec::new(), Vec::new(), None);
        for mut part in described {
            nodes.append(&mut part.nodes);
            segments.append(&mut part.segments);
            versions.push(part.version);
            first.get_or_insert(part);
        }
        let Some(EngineCaps { gpummu, levels, shape, out, .. }) = first else { return Err(StartError::NodeCount(0)) };
        rules::check_iommu(&nodes, &driver)?;
        rules::check_slots(self.miniport.table(), &driver, features, &segments)?;
        rules::check_slots_of_nodes(self.miniport.table(), &nodes, self.miniport.version())?;
        let features = self.features_on(features, &nodes);
        let precision = Kind::DXGKQAITYPE_HISTORYBUFFERPRECISION;
        let bits = self.require_array(precision, "HISTORYBUFFERPRECISION", node_count as usize)?;
        rules::check_history_precision(&bits)?;
        let of_engine = |engine| segments.iter().filter(|segment| segment.engine == engine).count() as u32;
        let parts = (0..engines).map(|engine| Parts { nodes: node_count, segments: of_engine(engine) });
        self.query_power_components(&driver, &parts.collect::<Vec<_>>())?;
        Ok(AdapterCaps {
            engines,
            nodes,
            segments,
            versions,
            paging_buffer_size: out.PagingBufferSize,
            paging_buffer_private_data_size: out.PagingBufferPrivateDataSize,
            paging_node: driver.MemoryManagementCaps.PagingNode,
            gpummu,
            levels,
            shape,
            native_fence,
            user_mode_submission,
            features,
            driver,
        })
    }

    /// The features that are enabled on these nodes: without a node that has hardware contexts, all but hardware scheduling.
    fn features_on(&self, features: EnabledFeatures, nodes: &[NodeCaps]) -> EnabledFeatures {
        let hardware_scheduling = features.hardware_scheduling && nodes.iter().any(|node| node.context_scheduling);
        if features.hardware_scheduling && !hardware_scheduling {
            let why = "no node says ContextSchedulingSupported, so that none has hardware contexts [d3dkmdt: DXGK_NODEMETADATA_FLAGS]";
            self.machine
                .verifier()
                .log(format!("hardware scheduling is not enabled, although the driver supports it: {why}"));
        }
        EnabledFeatures { hardware_scheduling, ..features }
    }

    /// The queries that each physical adapter answers for itself.
    fn query_engine(&self, engine: u32, nodes: u32, features: EnabledFeatures) -> Result<EngineCaps, StartError> {
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        let (gpummu, mut levels) = self.query_page_tables(engine)?;
        let nodes = self.query_nodes(engine, nodes)?;
        rules::check_nodes(&nodes, features)?;
        reserved_bits::check_nodes(&nodes)?;
        let version = self.query::<DXGK_GPUVERSION>(Kind::DXGKQAITYPE_GPUVERSION, "GPUVERSION", &mut [engine]).ok();
        let (out, descriptors) = self.query_segments(engine)?;
        let mut segments: Vec<Segment> =
            (1..).zip(&descriptors).map(|(id, descriptor)| self.describe_segment(engine, id, descriptor)).collect();
        rules::check_segments(&segments, out.PagingBufferSegmentId)?;
        reserved_bits::check_segments(&segments)?;
        overlaps(&segments).into_iter().for_each(|line| self.machine.verifier().log(line));
        let counts = descriptors.iter().map(|descriptor| descriptor.NumInvalidMemoryRanges);
        segments.iter_mut().zip(counts).try_for_each(|(segment, count)| self.query_invalid_ranges(segment, count))?;
        if let [leaf, root] = levels.as_mut_slice() {
            self.size_root_page_table(engine, &gpummu, (leaf, root), &segments)?;
        }
        let checked = table_rules::check(&gpummu, &levels, &segments)
            .map_err(StartError::PageTables)
            .and_then(|shape| reserved_bits::check_page_tables(&gpummu).map(|()| shape));
        let caps = (Kind::DXGKQAITYPE_GPUMMUCAPS, "GPUMMUCAPS");
        let shape = self.judged::<DXGK_GPUMMUCAPS, _>(caps, &mut [engine], checked)?;
        Ok(EngineCaps { nodes, segments, gpummu, levels, shape, version, out })
    }

    /// The queries that follow DRIVERCAPS; most may be refused.
    fn query_device_caps(&self, driver: &DXGK_DRIVERCAPS) -> Result<(), StartError> {
        const WDDMDEVICECAPS: &str = "WDDMDEVICECAPS";
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        let nodes = driver.GpuEngineTopology.NbAsymetricProcessingNodes;
        let version = self.miniport.version();
        let kind = Kind::DXGKQAITYPE_WDDMDEVICECAPS;
        if versions::has_query(kind, version.version) {
            // The question is told the version of the system's callbacks. [d3dkmddi: DXGK_WDDMDEVICECAPSIN] Microsoft's compute-only sample, of WDDM 2.6, leaves it
            // open, so that drivers of older versions may (inferred).
            let mut system = [DXGKDDI_INTERFACE_VERSION_WDDM3_2];
            match self.query_whole::<DXGK_WDDMDEVICECAPS>(kind, WDDMDEVICECAPS, &mut system)? {
                Ok(device) => rules::check_device_caps(&device, version)?,
                Err(status) if version.version >= DXGKDDI_INTERFACE_VERSION_WDDM3_2 => {
                    return Err(self.refused::<DXGK_WDDMDEVICECAPS>((kind, WDDMDEVICECAPS), status));
                }
                Err(_) => {}
            }
        }
        let _ = self.query::<[u8; 64]>(Kind::DXGKQAITYPE_64BITONLYCAPS, "64BITONLYCAPS", &mut []);
        let physical = Kind::DXGKQAITYPE_PHYSICALADAPTERCAPS;
        let mut handles = Vec::new();
        for index in 0..self.links().len() as u32 {
            match self.query_whole::<DXGK_PHYSICALADAPTERCAPS>(physical, "PHYSICALADAPTERCAPS", &mut [index])? {
                Ok(caps) => {
                    let checked = rules::check_physical_adapter(&caps, nodes)
                        .and_then(|()| reserved_bits::check_physical_adapter(&caps));
                    let asked = (physical, "PHYSICALADAPTERCAPS");
                    self.judged::<DXGK_PHYSICALADAPTERCAPS, _>(asked, &mut [index], checked)?;
                    handles.push(caps.DxgkPhysicalAdapterHandle);
                }
                // One that is not linked may leave the question open.
                Err(_) if self.links().len() == 1 => {}
                Err(status) => {
                    return Err(self.refused::<DXGK_PHYSICALADAPTERCAPS>((physical, "PHYSICALADAPTERCAPS"), status));
                }
            }
        }
        self.check_handles(&handles)?;
        if driver.MemoryManagementCaps.Bits.IoMmuSecureModeSupported() {
            self.query_iommu_isolation()?;
        }
        self.query_displays(driver)?;
        let _ = self.query::<[u8; 256]>(Kind::DXGKQAITYPE_DIRTYBITTRACKINGCAPS, "DIRTYBITTRACKINGCAPS", &mut []);
        Ok(())
    }

    /// What a driver for displays may answer, and one of a compute-only adapter refuses.
    fn query_displays(&self, driver: &DXGK_DRIVERCAPS) -> Result<(), StartError> {
        if driver.MiscCaps.ComputeOnly() {
            return match mcdm::UNANSWERED.into_iter().find(|query| self.answers(query)) {
                Some(query) => Err(StartError::McdmQuery(query.name)),
                None => Ok(()),
            };
        }
        let display = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION;
        let _ = self.query::<DXGK_DISPLAY_DRIVERCAPS_EXTENSION>(display, "DISPLAY_DRIVERCAPS_EXTENSION", &mut []);
        Ok(())
    }

    fn query_native_fence(&self, driver: &DXGK_DRIVERCAPS) -> Result<Option<DXGK_NATIVE_FENCE_CAPS>, StartError> {
        if !driver.SchedulingCaps.NativeGpuFence() {
            return Ok(None);
        }
        let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_NATIVE_FENCE_CAPS;
        let caps: DXGK_NATIVE_FENCE_CAPS = self.query_whole(kind, "NATIVE_FENCE_CAPS", &mut [])?.map_err(|status| {
            let size = self.output_size(kind, size_of::<DXGK_NATIVE_FENCE_CAPS>());
            StartError::NativeFenceCaps(format!("the query failed with {status}; {size}"))
        })?;
        let checked = rules::check_native_fence(&caps);
        self.judged::<DXGK_NATIVE_FENCE_CAPS, _>((kind, "NATIVE_FENCE_CAPS"), &mut [], checked)?;
        Ok(Some(caps))
    }

    fn query_user_mode_submission(&self, enabled: bool) -> Result<Option<DXGK_USERMODESUBMISSION_CAPS>, StartError> {
        if !enabled {
            return Ok(None);
        }
        let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_USERMODESUBMISSION_CAPS;
        let caps: DXGK_USERMODESUBMISSION_CAPS =
            self.query_whole(kind, "USERMODESUBMISSION_CAPS", &mut [])?.map_err(|status| {
                let size = self.output_size(kind, size_of::<DXGK_USERMODESUBMISSION_CAPS>());
                StartError::UserModeSubmissionCaps(format!("the query failed with {status}; {size}"))
            })?;
        let checked = rules::check_user_mode_submission(&caps);
        self.judged::<DXGK_USERMODESUBMISSION_CAPS, _>((kind, "USERMODESUBMISSION_CAPS"), &mut [], checked)?;
        Ok(Some(caps))
    }

    fn query_nodes(&self, engine: u32, count: u32) -> Result<Vec<NodeCaps>, StartError> {
        (0..count)
            .map(|node| {
                let mut metadata = DXGK_NODEMETADATA::zeroed();
                self.miniport
                    .get_node_metadata(self.context().raw(), node | engine << 16, &mut metadata)
                    .status()
                    .ok()
                    .map_err(|status| StartError::NodeMetadata { node, status })?;
                // The member was reserved before WDDM 2.2. [d3dkmdt: DXGK_NODEMETADATA]
                if self.miniport.version().version < DXGKDDI_INTERFACE_VERSION_WDDM2_2 {
                    metadata.Flags = DXGK_NODEMETADATA_FLAGS::zeroed();
                }
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

    fn stop_device(&self, link: &Link) {
        let status = self.miniport.stop_device(link.context.raw()).status();
        // On a machine that has stopped it was not called.
        if status != STATUS_SUCCESS && !self.machine.verifier().is_stopped() {
            self.machine.rescues().add(Rescue::FailedStop, 1);
            let told = "the device counts as stopped [dispmprt: DXGKDDI_STOP_DEVICE]";
            self.machine
                .verifier()
                .log(format!("DxgkDdiStopDevice answered {status}, and expected was STATUS_SUCCESS: {told}"));
        }
    }

    /// Ends the adapter: scheduler, memory manager, StopDevice of every function, the one that leads first, hardware. Nothing the driver
    /// held may be left.
    pub(crate) fn stop(&self) {
        // What follows needs the hardware, unless there is none any more.
        self.wake(|| ());
        let _limit = self.joint_limit();
        self.end();
        if let Some(vidsch) = self.scheduler() {
            vidsch.stop();
        }
        if let Some(vidmm) = self.memory_manager() {
            vidmm.stop();
        }
        self.power_control(&GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED);
        self.release_features();
        self.links().iter().for_each(|link| self.stop_device(link));
        self.end_interrupts();
        for link in self.links() {
            self.disconnect_hardware(link);
            registry::unregister(link);
            self.check_leftovers(link);
        }
        if let Some(vidsch) = self.scheduler() {
            vidsch.forget();
        }
        let acquired = lock(&self.acquired).len();
        if acquired > 0 {
            self.machine.rescues().add(Rescue::LeftBehind, acquired as u64);
            self.machine
                .verifier()
                .log(format!("StopDevice left {acquired} handles of DxgkCbAcquireHandleData unreleased"));
        }
    }

    /// All answers of a process that uses the adapter have one limit together while the answer exists.
    pub(crate) fn joint_limit(&self) -> JointLimit {
        let processes = self.scheduler().map(|vidsch| vidsch.processes()).unwrap_or_default();
        JointLimit::of(processes.into_iter().map(|process| Arc::clone(process.kept.user())))
    }

    fn check_leftovers(&self, link: &Link) {
        let verifier = self.machine.verifier();
        if verifier.is_stopped() {
            return;
        }
        let (mappings, memory) = link.resources.leftovers();
        self.machine.rescues().add(Rescue::LeftBehind, mappings.len() as u64);
        let mut by_service = BTreeMap::<&str, Vec<LeftMapping>>::new();
        for mapping in mappings {
            by_service.entry(mapping.by.service).or_default().push(mapping);
        }
        for (service, left) in &by_service {
            let Some(LeftMapping { len, physical, by }) = left.first() else { continue };
            let place = self.miniport.driver().place(by.from);
            let place = place.map_or_else(String::new, |place| format!(" in {place}"));
            verifier.log(format!(
                "StopDevice left {} mappings of {service} behind, of which the first, of {len:#x} bytes at {physical:#x}, was made{place}",
                left.len()
            ));
        }
        if memory > 0 {
            verifier.raise(Bugcheck::new(
                Bugcheck::VIDEO_DXGKRNL_SYSMM_FATAL_ERROR,
                [6, memory as u64, 0, 0],
                format!("StopDevice left {memory} objects of DxgkCbAllocateContiguousMemory behind"),
            ));
        }
    }
}

/// Why memory manager or scheduler failed: because of a DDI, if one answered so.
fn render_core(failure: &Failure) -> StartError {
    let status = failure.status();
    match failure.answer() {
        Some(answer) => StartError::Refused { ddi: answer.ddi(), status },
        None => StartError::RenderCore { status, why: failure.why().unwrap_or_default() },
    }
}
