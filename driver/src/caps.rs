//! The capabilities that the adapter reports: pure functions of the hardware's registers and of the features that the operating system enabled.
//!
//! The large functions lie in pageable code (section PAGE): only queries at PASSIVE_LEVEL call them, and they call nothing that raises the
//! level. They are not inlined, because then they would lie in the section of the caller.

use campanile_hw::isa::SAVE_SIZE_MAX;
use campanile_hw::page_table;
use campanile_hw::registers::{
    self, Caps, NODE_COMPUTE, NODE_COPY, NODE_PAGING, NODES, PAGE_TABLES_BY_WRITE, PAGE_TABLES_BY_WRITE_PHYSICAL,
    PREEMPTION_BUFFER, PREEMPTION_DISPATCH, PREEMPTION_INSTRUCTION, PREEMPTION_WORKGROUP,
};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::types::{BOOLEAN, GUID, LARGE_INTEGER};

use crate::dxgk::INTERRUPT_MESSAGE;
use crate::feature::Enabled;
use crate::mmio::Registers;

/// The WDDM version that the driver reports in all capabilities.
pub(crate) const WDDM_VERSION: DXGK_WDDMVERSION = DXGK_WDDMVERSION::DXGKDDI_WDDMv3_2;
/// The same level as the version of the driver's table.
pub(crate) const INTERFACE_VERSION: u32 = DXGKDDI_INTERFACE_VERSION_WDDM3_2;

/// Submissions that a kernel-mode hardware queue may have in progress. The ring has more entries, so that submitting never waits.
pub(crate) const HW_QUEUE_BUFFERS: u16 = 64;

/// Bytes of a paging buffer.
pub(crate) const PAGING_BUFFER_SIZE: u32 = 64 << 10;

/// Bytes of a DMA buffer of a context. User mode submits its own buffers, so this serves the system only.
pub(crate) const DMA_BUFFER_SIZE: u32 = 64 << 10;

/// Segments that a DMA buffer may lie in, a mask: the aperture.
pub(crate) const DMA_BUFFER_SEGMENTS: u32 = 1 << (crate::segment::APERTURE - 1);

/// Pages of a host aperture that the driver makes use of: 4 GiB.
const HOST_APERTURE_PAGES_MAX: u32 = 1 << 20;

/// Properties of the device, as its registers report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hardware {
    pub(crate) caps: Caps,
    pub(crate) vram_size: u64,
    /// Bytes of VRAM that BAR4 shows from VRAM offset 0.
    pub(crate) vram_window: u64,
    /// Pages of BAR4 behind those that show any page of VRAM.
    pub(crate) host_aperture_pages: u32,
    /// Distance in bytes that values of fences are to have, 0 for any.
    pub(crate) fence_stride: u32,
    pub(crate) doorbells: u32,
    pub(crate) queue_limit: u32,
    pub(crate) clock_hz: u64,
    /// The most bytes that the state of a dispatch takes in a save area, 0 where none is left.
    pub(crate) save_size: u32,
}

impl Hardware {
    /// Reads the registers; `None` for a function that this driver does not support.
    pub(crate) fn read(registers: &Registers) -> Option<Self> {
        let known = registers.is_present()
            && registers.read32(registers::VERSION) == registers::INTERFACE_VERSION
            && registers.read32(registers::NODE_COUNT) == NODES;
        known.then(|| Self {
            caps: Caps::from_bits(registers.read32(registers::CAPS)),
            vram_size: registers.read64(registers::VRAM_SIZE),
            vram_window: registers.read64(registers::VRAM_WINDOW_SIZE),
            host_aperture_pages: registers.read32(registers::HOST_APERTURE_PAGES).min(HOST_APERTURE_PAGES_MAX),
            fence_stride: registers.read32(registers::FENCE_STRIDE),
            doorbells: registers.read32(registers::DOORBELL_COUNT),
            queue_limit: registers.read32(registers::QUEUE_LIMIT),
            clock_hz: registers.read64(registers::CLOCK_HZ),
            // More than the state of a valid program takes is nothing that this driver would allocate.
            save_size: registers.read32(registers::SAVE_SIZE).min(SAVE_SIZE_MAX),
        })
    }

    /// Native fences need their packets and 64-bit atomic values.
    pub(crate) fn native_fences(&self) -> bool {
        self.caps.native_fence() && self.caps.atomics64()
    }

    /// True if an event of a native fence says which fence it is.
    pub(crate) fn names_fences(&self) -> bool {
        !self.caps.optimised_fence_interrupt()
    }
}

/// What is claimed of the features. Every combination is a working adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// True if contexts and queues are claimed that the hardware schedules.
    pub(crate) context_scheduling: bool,
    /// True if native fences are claimed, which engines wait for.
    pub(crate) native_fence: bool,
    /// True if queues are claimed to which user mode submits.
    pub(crate) user_mode_submission: bool,
    /// True if command buffers for tests are claimed.
    pub(crate) test_commands: bool,
    /// True if interrupts of native fences name a queue; its log, which only queues of user-mode submission have, names the fences.
    pub(crate) optimised_fence_interrupt: bool,
    /// True if events of fences name neither the fence nor its kind.
    pub(crate) one_fence_event: bool,
    /// True if monitored values of private fences of the default type are wanted in VRAM.
    pub(crate) local_monitored_values: bool,
    /// True if fences between engines are claimed, with both values in VRAM.
    pub(crate) intra_gpu_fences: bool,
}

impl Claims {
    /// A feature is claimed when it is enabled, the hardware has it, and what it depends on is claimed: user-mode queues are hardware
    /// queues and can only use native fences.
    pub(crate) fn new(hardware: &Hardware, enabled: Enabled) -> Self {
        let context_scheduling = enabled.hardware_scheduling;
        let native_fence = enabled.native_fence && hardware.native_fences();
        let user_mode_submission =
            enabled.user_mode_submission && context_scheduling && native_fence && hardware.doorbells != 0;
        let optimised_fence_interrupt = user_mode_submission && !hardware.names_fences();
        Self {
            context_scheduling,
            native_fence,
            user_mode_submission,
            test_commands: enabled.kernel_mode_testing,
            optimised_fence_interrupt,
            one_fence_event: hardware.caps.one_fence_event(),
            local_monitored_values: native_fence && enabled.optimized_default_fences,
            intra_gpu_fences: native_fence && enabled.intra_gpu_fences,
        }
    }
}

/// True if user mode may submit to `node`.
pub(crate) fn node_takes_user_queues(node: u32) -> bool {
    matches!(node, NODE_COMPUTE | NODE_COPY)
}

fn flag(value: bool) -> BOOLEAN {
    BOOLEAN::from(value)
}

/// Where the hardware can take a queue off its node that has begun a DISPATCH. That between two instructions has the name of a shader boundary
/// here; DXGI calls the same level an instruction boundary. Without hardware scheduling the system preempts packets, which run to the end of their
/// buffer. [d3dkmdt: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY]
fn compute_preemption(caps: Caps, claims: Claims) -> D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY {
    let granularity = if claims.context_scheduling { caps.preemption() } else { PREEMPTION_BUFFER };
    match granularity {
        PREEMPTION_DISPATCH => D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY,
        PREEMPTION_WORKGROUP => {
            D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_THREAD_GROUP_BOUNDARY
        }
        PREEMPTION_INSTRUCTION => D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY,
        _ => D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY,
    }
}

/// DXGKQAITYPE_DRIVERCAPS.
#[cfg_attr(windows, inline(never), unsafe(link_section = "PAGE"))]
pub(crate) fn driver_caps(hardware: &Hardware, claims: Claims) -> DXGK_DRIVERCAPS {
    let mut caps = DXGK_DRIVERCAPS::zeroed();
    caps.HighestAcceptableAddress = LARGE_INTEGER { QuadPart: -1 };
    caps.InterruptMessageNumber = INTERRUPT_MESSAGE;
    caps.SchedulingCaps = DXGK_VIDSCHCAPS::new()
        .with_MultiEngineAware(true)
        .with_PreemptionAware(true)
        .with_No64BitAtomics(!hardware.caps.atomics64())
        .with_LowIrqlPreemptCommand(true)
        .with_NativeGpuFence(claims.native_fence)
        .with_OptimizedNativeFenceSignaledInterrupt(claims.optimised_fence_interrupt);
    // The GPU is not split among virtual machines, and guests may use it as it is.
    caps.MemoryManagementCaps.Bits = DXGK_VIDMMCAPS_Bits::new()
        .with_VirtualAddressingSupported(true)
        .with_GpuMmuSupported(true)
        .with_ParavirtualizationSupported(true);
    caps.MemoryManagementCaps.PagingNode = NODE_PAGING;
    caps.GpuEngineTopology.NbAsymetricProcessingNodes = NODES;
    caps.WDDMVersion = WDDM_VERSION;
    caps.PreemptionCaps = D3DKMDT_PREEMPTION_CAPS {
        GraphicsPreemptionGranularity:
            D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY::D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY,
        ComputePreemptionGranularity: compute_preemption(hardware.caps, claims),
    };
    caps.SupportPerEngineTDR = flag(true);
    caps.SupportRuntimePowerManagement = flag(true);
    caps.SupportSurpriseRemovalInHibernation = flag(true);
    caps.SupportSurpriseRemoval = flag(true);
    caps.MiscCaps = DXGK_DRIVERCAPS_MiscCaps::new().with_ComputeOnly(true);
    caps
}

/// DxgkDdiGetNodeMetadata; `None` beyond the last node.
#[cfg_attr(windows, inline(never), unsafe(link_section = "PAGE"))]
pub(crate) fn node_metadata(node: u32, claims: Claims) -> Option<DXGK_NODEMETADATA> {
    let (engine, name) = match node {
        NODE_COMPUTE => (DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_OTHER, "Compute"),
        NODE_COPY => (DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_COPY, "Copy"),
        NODE_PAGING => (DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_COPY, "Paging"),
        _ => return None,
    };
    let user = node_takes_user_queues(node);
    let mut metadata = DXGK_NODEMETADATA::zeroed();
    metadata.EngineType = engine;
    metadata.FriendlyName = wide(name);
    metadata.Flags = DXGK_NODEMETADATA_FLAGS::new()
        .with_ContextSchedulingSupported(user && claims.context_scheduling)
        .with_UserModeSubmission(user && claims.user_mode_submission)
        .with_SupportBuildTestCommandBuffer(claims.test_commands)
        .with_MaxInFlightHwQueueBuffers(HW_QUEUE_BUFFERS);
    metadata.GpuMmuSupported = flag(true);
    Some(metadata)
}

/// DXGKQAITYPE_NODEPERFDATA of a node that is in `fstate`, or of a device outside D0. All nodes have the one clock of the GPU, which cannot be
/// made faster and does not reach a node in F1. Nothing measures voltages; they are zero.
pub(crate) fn node_figures(hardware: &Hardware, powered: bool, fstate: u32) -> DXGK_NODE_PERFDATA {
    let mut figures = DXGK_NODE_PERFDATA::zeroed();
    figures.Frequency = if powered && fstate == 0 { hardware.clock_hz } else { 0 };
    figures.MaxFrequency = hardware.clock_hz;
    figures.MaxFrequencyOC = hardware.clock_hz;
    figures.MaxTransitionLatency = F1_LATENCY;
    figures
}

/// DXGKQAITYPE_ADAPTERPERFDATA. The GPU has neither a fan nor a sensor, and does not count the bytes that it moves: all of these are zero.
pub(crate) fn adapter_figures(powered: bool) -> DXGK_ADAPTER_PERFDATA {
    let mut figures = DXGK_ADAPTER_PERFDATA::zeroed();
    figures.PowerStateOverride = powered.into();
    figures
}

/// Power components: one for each node, with the node's number, and the transition of the device to D3.
pub(crate) const POWER_COMPONENTS: u32 = NODES + 1;
/// The component that says by F1 that the device may leave D0. That this is what its type is for is inferred: the page has only the type's name.
/// [d3dkmddi: DXGK_POWER_COMPONENT_TYPE]
pub(crate) const D3_TRANSITION: u32 = NODES;
/// F-states of a component: in F0 the node works, in F1 it executes nothing.
pub(crate) const FSTATES: u32 = 2;
/// From F1 to F0, in 100 ns: one scheduler command.
const F1_LATENCY: u64 = 100;
/// Shortest stay in F1 that pays, in 100 ns.
const F1_RESIDENCY: u64 = 10_000;
/// From D3 to D0, in 100 ns: the 10 ms that a function may take to leave D3hot. [PCI Power Management: D3hot to D0 recovery time]
const D3_LATENCY: u64 = 100_000;
/// Shortest stay in D3 that pays, in 100 ns: what VRAM loses has to be copied out and in.
const D3_RESIDENCY: u64 = 10_000_000;

/// Names of the components, by number.
static COMPONENT_NAMES: [&[u8]; POWER_COMPONENTS as usize] = [b"Compute", b"Copy", b"Paging", b"D3"];
const _: () = assert!(NODE_COMPUTE == 0 && NODE_COPY == 1 && NODE_PAGING == 2 && D3_TRANSITION == 3);

/// DXGKQAITYPE_POWERCOMPONENTINFO; `None` beyond the last component.
#[cfg_attr(windows, inline(never), unsafe(link_section = "PAGE"))]
pub(crate) fn power_component(component: u32) -> Option<DXGK_POWER_RUNTIME_COMPONENT> {
    let name = COMPONENT_NAMES.get(component as usize)?;
    let mut info = DXGK_POWER_RUNTIME_COMPONENT::zeroed();
    info.StateCount = FSTATES;
    let state = |latency, residency| DXGK_POWER_RUNTIME_STATE {
        TransitionLatency: latency,
        ResidencyRequirement: residency,
        NominalPower: DXGK_FSTATE_UNKNOWN_POWER,
    };
    let low =
        if component == D3_TRANSITION { state(D3_LATENCY, D3_RESIDENCY) } else { state(F1_LATENCY, F1_RESIDENCY) };
    let states = [state(0, 0), low];
    for (place, state) in info.States.iter_mut().zip(states) {
        *place = state;
    }
    if component == D3_TRANSITION {
        info.ComponentMapping.ComponentType = DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_D3_TRANSITION;
    } else {
        info.ComponentMapping.ComponentType = DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_ENGINE;
        info.ComponentMapping.u.EngineDesc = DXGK_POWER_COMPONENT_MAPPING_EngineDesc { NodeIndex: component };
    }
    info.Flags = DXGK_POWER_COMPONENT_FLAGS::new().with_DriverCompletesFStateTransition(true);
    // No assigned identity: a name-based one of this driver, different for each component.
    info.ComponentGuid = GUID { Data1: 0x8f0d_61c4 + component, Data2: 0x52a3, Data3: 0x5e10, Data4: *b"\x9bcampani" };
    for (place, byte) in info.ComponentName.iter_mut().zip(*name) {
        *place = *byte;
    }
    Some(info)
}

/// A terminated UTF-16 string; what does not fit is cut off.
pub(crate) fn wide<const N: usize>(text: &str) -> [u16; N] {
    let mut out = [0; N];
    for (place, unit) in out.iter_mut().take(N.saturating_sub(1)).zip(text.encode_utf16()) {
        *place = unit;
    }
    out
}

/// The update mode of page tables: the processor or the GPU writes them, as the hardware says.
pub(crate) fn page_table_update_mode(hardware: &Hardware) -> DXGK_PAGETABLEUPDATEMODE {
    match hardware.caps.page_table_updates() {
        PAGE_TABLES_BY_WRITE => DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL,
        PAGE_TABLES_BY_WRITE_PHYSICAL => DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
        _ => DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
    }
}

/// DXGKQAITYPE_GPUMMUCAPS.
#[cfg_attr(windows, inline(never), unsafe(link_section = "PAGE"))]
pub(crate) fn gpu_mmu_caps(hardware: &Hardware) -> DXGK_GPUMMUCAPS {
    let mut caps = DXGK_GPUMMUCAPS::zeroed();
    caps.Bits = DXGK_GPUMMUCAPS_Bits::new()
        .with_ReadOnlyMemorySupported(true)
        .with_NoExecuteMemorySupported(true)
        .with_ZeroInPteSupported(true)
        .with_ExplicitPageTableInvalidation(true)
        .with_CacheCoherentMemorySupported(!hardware.caps.non_coherent())
        .with_LargePageSupported(true)
        .with_SysMem64KBPageSupported(true)
        .with_SysMemLargePageSupported(true);
    caps.PageTableUpdateMode = page_table_update_mode(hardware);
    caps.VirtualAddressBitCount = page_table::VA_BITS;
    // The hardware reads the first 256 bytes; a table of any kind is allocated as one page.
    caps.LeafPageTableSizeFor64KPagesInBytes = page_table::TABLE_SIZE as u32;
    caps.PageTableLevelCount = page_table::LEVELS;
    caps
}

/// DXGKQAITYPE_PAGETABLELEVELDESC; level 0 is the leaf.
pub(crate) fn page_table_level(level: u32) -> Option<DXGK_PAGE_TABLE_LEVEL_DESC> {
    (level < page_table::LEVELS).then_some(DXGK_PAGE_TABLE_LEVEL_DESC {
        PageTableIndexBitCount: page_table::INDEX_BITS,
        PageTableSegmentId: crate::segment::VRAM,
        PagingProcessPageTableSegmentId: crate::segment::VRAM,
        PageTableSizeInBytes: page_table::TABLE_SIZE as u32,
        PageTableAlignmentInBytes: page_table::TABLE_SIZE as u32,
    })
}

/// DXGKQAITYPE_NATIVE_FENCE_CAPS. A stride of 0 leaves the distance of values to the operating system, which refuses one that cannot be.
pub(crate) fn native_fence_caps(hardware: &Hardware) -> DXGK_NATIVE_FENCE_CAPS {
    let mut caps = DXGK_NATIVE_FENCE_CAPS::zeroed();
    caps.MonitoredValueStride = hardware.fence_stride;
    caps.MapToGpuSystemProcess = flag(hardware.caps.system_process_fences());
    caps.MinimumAddress = 0;
    caps.MaximumAddress = (1 << page_table::VA_BITS) - 1;
    caps
}

/// DXGKQAITYPE_USERMODESUBMISSION_CAPS.
pub(crate) fn user_mode_submission_caps() -> DXGK_USERMODESUBMISSION_CAPS {
    let mut caps = DXGK_USERMODESUBMISSION_CAPS::zeroed();
    caps.DoorbellSizeInBytes = campanile_hw::doorbell::DOORBELL_PAGE_SIZE as u32;
    caps
}

#[cfg(test)]
impl Hardware {
    /// A GPU with this VRAM, 1024 queues, one doorbell and no optional feature.
    pub(crate) const fn for_tests(vram_size: u64, vram_window: u64) -> Self {
        Self {
            caps: Caps::new(),
            vram_size,
            vram_window,
            host_aperture_pages: 0,
            fence_stride: 0,
            doorbells: 1,
            queue_limit: 1024,
            clock_hz: 1_000_000_000,
            save_size: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware(atomics64: bool, native_fence: bool, doorbells: u32) -> Hardware {
        let caps = Caps::new().with_atomics64(atomics64).with_native_fence(native_fence);
        Hardware { caps, doorbells, ..Hardware::for_tests(256 << 20, 256 << 20) }
    }

    fn subsets() -> impl Iterator<Item = Enabled> {
        (0..64).map(|bits| Enabled {
            hardware_scheduling: bits & 1 != 0,
            native_fence: bits & 2 != 0,
            user_mode_submission: bits & 4 != 0,
            optimized_default_fences: bits & 8 != 0,
            intra_gpu_fences: bits & 16 != 0,
            kernel_mode_testing: bits & 32 != 0,
        })
    }

    #[test]
    fn nothing_is_claimed_that_is_not_enabled() {
        for enabled in subsets() {
            let claims = Claims::new(&hardware(true, true, 64), enabled);
            assert_eq!(claims.context_scheduling, enabled.hardware_scheduling);
            assert_eq!(claims.native_fence, enabled.native_fence);
            let all = enabled.hardware_scheduling && enabled.native_fence && enabled.user_mode_submission;
            assert_eq!(claims.user_mode_submission, all, "{enabled:?}");
            assert_eq!(claims.test_commands, enabled.kernel_mode_testing);
            let local = (claims.local_monitored_values, claims.intra_gpu_fences);
            let fences = enabled.native_fence;
            assert_eq!(local, (fences && enabled.optimized_default_fences, fences && enabled.intra_gpu_fences));
        }
    }

    #[test]
    fn nothing_is_claimed_that_the_hardware_lacks() {
        let everything = Enabled {
            hardware_scheduling: true,
            native_fence: true,
            user_mode_submission: true,
            kernel_mode_testing: true,
            optimized_default_fences: true,
            intra_gpu_fences: true,
        };
        for (atomics64, native_fence, doorbells, fences, queues) in [
            (true, true, 1, true, true),
            (false, true, 64, false, false),
            (true, false, 64, false, false),
            (true, true, 0, true, false),
        ] {
            let claims = Claims::new(&hardware(atomics64, native_fence, doorbells), everything);
            assert_eq!((claims.native_fence, claims.user_mode_submission), (fences, queues));
            assert_eq!((claims.local_monitored_values, claims.intra_gpu_fences), (fences, fences));
        }
    }

    #[test]
    fn the_optimised_interrupt_is_claimed_with_the_logs_that_it_needs_and_only_there() {
        for named in [true, false] {
            for enabled in subsets() {
                let mut hardware = hardware(true, true, 64);
                hardware.caps = hardware.caps.with_optimised_fence_interrupt(!named);
                let claims = Claims::new(&hardware, enabled);
                assert_eq!(claims.optimised_fence_interrupt, !named && claims.user_mode_submission, "{enabled:?}");
                let caps = driver_caps(&hardware, claims).SchedulingCaps;
                assert_eq!(caps.OptimizedNativeFenceSignaledInterrupt(), claims.optimised_fence_interrupt);
                assert!(caps.NativeGpuFence() || !caps.OptimizedNativeFenceSignaledInterrupt());
            }
        }
    }

    #[test]
    fn driver_caps_follow_the_claims_and_never_contradict_themselves() {
        for enabled in subsets() {
            let hardware = hardware(true, true, 64);
            let claims = Claims::new(&hardware, enabled);
            let caps = driver_caps(&hardware, claims);
            let scheduling = caps.SchedulingCaps;
            assert_eq!(scheduling.NativeGpuFence(), claims.native_fence);
            assert!(scheduling.MultiEngineAware() || !scheduling.PreemptionAware());
            assert!(!(scheduling.NativeGpuFence() && scheduling.No64BitAtomics()));
            assert_eq!(scheduling.HwQueuePacketCap(), 0);
            assert!(!scheduling.NoDmaPatching() && !scheduling.VSyncPowerSaveAware());
            let memory = caps.MemoryManagementCaps;
            assert!(memory.Bits.GpuMmuSupported() && memory.Bits.VirtualAddressingSupported());
            assert!(memory.PagingNode < caps.GpuEngineTopology.NbAsymetricProcessingNodes);
            assert_eq!(caps.HighestAcceptableAddress.QuadPart, -1);
            assert_eq!(caps.WDDMVersion, DXGK_WDDMVERSION(0x3200));
            assert!(caps.MiscCaps.ComputeOnly() && caps.SupportPerEngineTDR == 1);
            assert_ne!(caps.PreemptionCaps.ComputePreemptionGranularity.0, 0);
        }
    }

    #[test]
    fn only_compute_and_copy_take_user_queues_and_only_when_claimed() {
        for enabled in subsets() {
            let claims = Claims::new(&hardware(true, true, 64), enabled);
            for node in 0..NODES {
                let metadata = node_metadata(node, claims).unwrap();
                let flags = metadata.Flags;
                assert_eq!(flags.UserModeSubmission(), node != NODE_PAGING && claims.user_mode_submission);
                assert_eq!(flags.ContextSchedulingSupported(), node != NODE_PAGING && claims.context_scheduling);
                assert!(!flags.RingBufferFenceRelease(), "the command buffer holds the progress write");
                assert_eq!(metadata.GpuMmuSupported, 1);
            }
            assert!(node_metadata(NODES, claims).is_none());
        }
    }

    #[test]
    fn levels_cover_the_address_space_exactly() {
        let bits: u32 =
            (0..page_table::LEVELS).map(|level| page_table_level(level).unwrap().PageTableIndexBitCount).sum();
        assert_eq!(bits + 12, gpu_mmu_caps(&hardware(true, true, 1)).VirtualAddressBitCount);
        assert!(page_table_level(page_table::LEVELS).is_none());
    }

    #[test]
    fn every_node_and_the_transition_to_d3_is_a_power_component_of_its_own() {
        for component in 0..POWER_COMPONENTS {
            let info = power_component(component).unwrap();
            if component == D3_TRANSITION {
                assert_eq!(info.ComponentMapping.ComponentType.0, 6, "a D3 transition");
            } else {
                assert_eq!(info.ComponentMapping.ComponentType.0, 0, "an engine");
                // SAFETY: the type says that this arm holds the engine.
                assert_eq!(unsafe { info.ComponentMapping.u.EngineDesc }.NodeIndex, component);
            }
            assert_eq!((info.StateCount, info.ProviderCount), (2, 0));
            assert_eq!((info.States[0].TransitionLatency, info.States[0].ResidencyRequirement), (0, 0));
            assert!(info.States[..2].iter().all(|state| state.NominalPower == DXGK_FSTATE_UNKNOWN_POWER));
            assert!(info.States[1].TransitionLatency > 0 && info.ComponentName[39] == 0);
            for other in 0..component {
                assert_ne!(power_component(other).unwrap().ComponentGuid.Data1, info.ComponentGuid.Data1);
            }
        }
        assert!(power_component(POWER_COMPONENTS).is_none());
    }

    #[test]
    fn names_are_cut_and_terminated() {
        assert_eq!(wide::<4>("abcdef"), [97, 98, 99, 0]);
        assert_eq!(wide::<4>("a"), [97, 0, 0, 0]);
    }
}
