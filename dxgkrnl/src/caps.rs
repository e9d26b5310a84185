//! What an adapter is capable of, as its driver said and the rules allowed.

use std::ptr::NonNull;

use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::refusal::{Failure, refused};
use crate::table_shape::Shape;

/// Features that both the operating system and the driver agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnabledFeatures {
    /// DXGK_FEATURE_HWSCH.
    pub(crate) hardware_scheduling: bool,
    /// DXGK_FEATURE_NATIVE_FENCE.
    pub(crate) native_fence: bool,
    /// DXGK_FEATURE_USER_MODE_SUBMISSION.
    pub(crate) user_mode_submission: bool,
    /// DXGK_FEATURE_KERNEL_MODE_TESTING.
    pub(crate) kernel_mode_testing: bool,
}

/// Capabilities of one node.
pub(crate) struct NodeCaps {
    /// As the driver answered.
    pub(crate) metadata: DXGK_NODEMETADATA,
    /// The node takes work from user mode.
    pub(crate) user_mode_submission: bool,
    /// The node has hardware contexts and queues.
    pub(crate) context_scheduling: bool,
    /// The driver builds test command buffers for the node.
    pub(crate) test_commands: bool,
}

/// One memory segment.
#[derive(Default)]
pub(crate) struct Segment {
    /// The engine whose memory it is.
    pub(crate) engine: u32,
    /// 1-based identifier among the segments of the engine.
    pub(crate) id: u32,
    /// GPU-physical address of its start, as the driver said.
    pub(crate) base_address: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes that may be committed (aperture segments).
    pub(crate) commit_limit: u64,
    pub(crate) flags: DXGK_SEGMENTFLAGS,
    /// Translated bus address of its start, for CPU-visible segments.
    pub(crate) cpu_address: Option<u64>,
    /// Kernel mapping of the whole segment, for CPU-visible segments.
    pub(crate) kernel: Option<NonNull<u8>>,
    /// Window on a segment that is not CPU-visible: translated bus address, and number of pages.
    pub(crate) host_aperture: Option<(u64, u32)>,
    /// Offset and bytes of what must not be used: whole pages, in order, none beside another.
    pub(crate) invalid: Vec<(u64, u64)>,
    /// For errors: the place where the CPU is to reach it, as the driver said, and why that is no memory of the device if it is none.
    pub(crate) unreached: String,
}

// SAFETY: `kernel` is a shared mapping that lives as long as the adapter; it is accessed by raw pointer only.
unsafe impl Send for Segment {}
// SAFETY: as for Send.
unsafe impl Sync for Segment {}

/// Everything the driver answered at start.
pub(crate) struct AdapterCaps {
    pub(crate) driver: Box<DXGK_DRIVERCAPS>,
    /// Linked physical adapters, 1 where nothing is linked.
    pub(crate) engines: u32,
    /// Nodes of every engine, one engine after the other. A number in this list is what the rest of the system calls a node.
    pub(crate) nodes: Vec<NodeCaps>,
    /// Segments of every engine, one engine after the other, in order of identifier.
    pub(crate) segments: Vec<Segment>,
    /// Texts of every engine for users, of a driver that has them.
    pub(crate) versions: Vec<Option<DXGK_GPUVERSION>>,
    /// Bytes of a paging buffer that the driver asked for.
    pub(crate) paging_buffer_size: u32,
    /// Bytes of private data of a paging buffer.
    pub(crate) paging_buffer_private_data_size: u32,
    /// Node of an engine.
    pub(crate) paging_node: u32,
    pub(crate) gpummu: DXGK_GPUMMUCAPS,
    /// Page-table levels, leaf first.
    pub(crate) levels: Vec<DXGK_PAGE_TABLE_LEVEL_DESC>,
    /// Index bits of the levels, which have passed the rules for page tables.
    pub(crate) shape: Shape,
    pub(crate) native_fence: Option<DXGK_NATIVE_FENCE_CAPS>,
    pub(crate) user_mode_submission: Option<DXGK_USERMODESUBMISSION_CAPS>,
    pub(crate) features: EnabledFeatures,
}

impl AdapterCaps {
    /// Nodes of one engine.
    pub(crate) fn nodes_of_engine(&self) -> u32 {
        self.nodes.len() as u32 / self.engines.max(1)
    }

    /// NodeOrdinal and EngineOrdinal of a node.
    pub(crate) fn ordinals(&self, node: u32) -> (u32, u32) {
        let count = self.nodes_of_engine().max(1);
        (node % count, node / count)
    }

    /// The ordinals of a node as text: `1`, or `0.1` with the physical adapter in front where there are several.
    pub(crate) fn place(&self, node: u32) -> String {
        let (ordinal, engine) = self.ordinals(node);
        if self.engines > 1 { format!("{engine}.{ordinal}") } else { ordinal.to_string() }
    }

    /// The node with these ordinals.
    pub(crate) fn node_at(&self, ordinal: u32, engine: u32) -> Option<u32> {
        let count = self.nodes_of_engine();
        (ordinal < count && engine < self.engines).then(|| engine * count + ordinal)
    }

    /// The engine that an affinity means. Where there is one, no bit says as much. [tdr-changes-in-windows-8: EngineAffinity]
    pub(crate) fn engine_of_affinity(&self, affinity: u32) -> Option<u32> {
        let engine = affinity.trailing_zeros();
        match affinity {
            0 => (self.engines == 1).then_some(0),
            _ => (affinity.is_power_of_two() && engine < self.engines).then_some(engine),
        }
    }

    /// The node that a thunk names by ordinal and affinity, and its engine.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for one that the adapter has not.
    pub(crate) fn named_node(&self, ordinal: u32, affinity: u32) -> Result<(u32, u32), Failure> {
        let engine = self.engine_of_affinity(affinity).ok_or_else(|| {
            let why = format!(
                "EngineAffinity {affinity:#x} is not the bit of one of the adapter's {} engine(s)",
                self.engines
            );
            refused(STATUS_INVALID_PARAMETER, why)
        })?;
        let node = self.node_at(ordinal, engine).ok_or_else(|| {
            let why = format!("NodeOrdinal {ordinal} is none of the engine's {} node(s)", self.nodes_of_engine());
            refused(STATUS_INVALID_PARAMETER, why)
        })?;
        Ok((node, engine))
    }

    /// True if a packet on the node with this number, once begun, runs to its end: PreemptionCaps say so of every kind of work that the adapter does. They are said of
    /// engines that compute or draw, so of others nothing is known. Compute has no type of its own: its nodes report as other. Nor is anything known of a driver with native
    /// fences, whose packets may be taken off while they wait in hardware. [d3dkmdt: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY, DXGK_ENGINE_TYPE; tdr-changes-in-windows-8]
    pub(crate) fn cannot_stop_packets(&self, node: usize) -> bool {
        use D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY as Compute;
        use D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY as Graphics;
        use DXGK_ENGINE_TYPE as Type;
        let D3DKMDT_PREEMPTION_CAPS { GraphicsPreemptionGranularity: graphics, ComputePreemptionGranularity: compute } =
            self.driver.PreemptionCaps;
        let draws = !self.driver.MiscCaps.ComputeOnly();
        let kind = self.nodes.get(node).map(|node| node.metadata.EngineType);
        matches!(kind, Some(Type::DXGK_ENGINE_TYPE_OTHER | Type::DXGK_ENGINE_TYPE_3D))
            && !self.driver.SchedulingCaps.NativeGpuFence()
            && compute.0 <= Compute::D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY.0
            && !(draws && graphics.0 > Graphics::D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY.0)
    }

    /// True if an affinity names engines that there are, or none.
    pub(crate) fn has_engines(&self, affinity: u32) -> bool {
        affinity.checked_shr(self.engines).unwrap_or(0) == 0
    }
}
