//! The versions of the interface from WDDM 2.0 on: what a driver names in its table, and how long the two tables of functions are in each.

use core::mem::offset_of;

use super::constants::*;
use super::{DXGK_DRIVERCAPS, DXGK_PHYSICALADAPTERCAPS, DXGK_WDDMVERSION as Model};

/// One version of the interface.
#[derive(Debug, PartialEq, Eq)]
pub struct InterfaceVersion {
    /// `Version` of the table that the driver registers. [dispmprt: DRIVER_INITIALIZATION_DATA]
    pub version: u32,
    /// The driver model that belongs to it, as capabilities name it. [d3dkmddi: DXGK_WDDMVERSION]
    pub model: Model,
    /// The driver model in words.
    pub name: &'static str,
    /// Bytes of `DRIVER_INITIALIZATION_DATA`.
    pub driver_table: usize,
    /// Bytes of `DXGKRNL_INTERFACE`.
    pub callback_table: usize,
}

const fn of(version: u32, model: Model, name: &'static str, driver: usize, callbacks: usize) -> InterfaceVersion {
    InterfaceVersion { version, model, name, driver_table: driver, callback_table: callbacks }
}

/// Every version from WDDM 2.0 to 3.2, from the oldest to the newest. Each has what the one before it has, and more behind it.
pub static INTERFACE_VERSIONS: [InterfaceVersion; 15] = [
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_0, Model::DXGKDDI_WDDMv2, "WDDM 2.0", 832, 312),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_1, Model::DXGKDDI_WDDMv2_1, "WDDM 2.1", 880, 328),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_1_5, Model::DXGKDDI_WDDMv2_1_5, "WDDM 2.1.5", 880, 328),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_1_6, Model::DXGKDDI_WDDMv2_1_6, "WDDM 2.1.6", 880, 328),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_2, Model::DXGKDDI_WDDMv2_2, "WDDM 2.2", 1032, 360),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_3, Model::DXGKDDI_WDDMv2_3, "WDDM 2.3", 1056, 368),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_4, Model::DXGKDDI_WDDMv2_4, "WDDM 2.4", 1152, 456),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_5, Model::DXGKDDI_WDDMv2_5, "WDDM 2.5", 1192, 464),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_6, Model::DXGKDDI_WDDMv2_6, "WDDM 2.6", 1224, 480),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_7, Model::DXGKDDI_WDDMv2_7, "WDDM 2.7", 1232, 480),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_8, Model::DXGKDDI_WDDMv2_8, "WDDM 2.8", 1232, 488),
    of(DXGKDDI_INTERFACE_VERSION_WDDM2_9, Model::DXGKDDI_WDDMv2_9, "WDDM 2.9", 1264, 568),
    of(DXGKDDI_INTERFACE_VERSION_WDDM3_0, Model::DXGKDDI_WDDMv3_0, "WDDM 3.0", 1296, 568),
    of(DXGKDDI_INTERFACE_VERSION_WDDM3_1, Model::DXGKDDI_WDDMv3_1, "WDDM 3.1", 1376, 576),
    of(DXGKDDI_INTERFACE_VERSION_WDDM3_2, Model::DXGKDDI_WDDMv3_2, "WDDM 3.2", 1544, 576),
];

/// A member that an answer of the driver ends before, in versions older than the one that it came with.
#[derive(Debug)]
pub struct GrownMember {
    /// The structure.
    pub owner: &'static str,
    /// The member.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// The version of the interface that it came with.
    pub since: u32,
}

macro_rules! grown {
    ($($owner:ident { $($name:ident, $since:ident;)* })*) => {
        [$($(GrownMember {
            owner: stringify!($owner),
            name: stringify!($name),
            offset: offset_of!($owner, $name),
            since: $since,
        }),*),*]
    };
}

/// Members that came after WDDM 2.0, of the answers of the driver that have grown since, in their order. Answers are not longer than a driver of a version knows them.
/// [d3dkmddi: DXGK_DRIVERCAPS; d3dkmddi: DXGK_PHYSICALADAPTERCAPS]
pub static GROWN_MEMBERS: [GrownMember; 9] = grown! {
    DXGK_DRIVERCAPS {
        SupportMultiPlaneOverlayImmediateFlip, DXGKDDI_INTERFACE_VERSION_WDDM2_1;
        CursorScaledWithMultiPlaneOverlayPlane0, DXGKDDI_INTERFACE_VERSION_WDDM2_1;
        HybridAcpiChainingRequired, DXGKDDI_INTERFACE_VERSION_WDDM2_1;
        MaxQueuedMultiPlaneOverlayFlipVSync, DXGKDDI_INTERFACE_VERSION_WDDM2_1;
        MiscCaps, DXGKDDI_INTERFACE_VERSION_WDDM2_4;
        MaxHwQueuedFlips, DXGKDDI_INTERFACE_VERSION_WDDM2_9;
        HwQueuedFlipCaps, DXGKDDI_INTERFACE_VERSION_WDDM2_9;
    }
    DXGK_PHYSICALADAPTERCAPS {
        VPRPagingNode, DXGKDDI_INTERFACE_VERSION_WDDM2_1;
        VirtualCopyNodeIndex, DXGKDDI_INTERFACE_VERSION_WDDM2_7;
    }
};

/// Bytes of a structure in a version of the interface: `whole` in the newest.
pub fn bytes_in_version(owner: &str, whole: usize, version: u32) -> usize {
    /// The structures that have grown are aligned to pointers.
    const ALIGN: usize = align_of::<usize>();
    let later = GROWN_MEMBERS.iter().find(|member| member.owner == owner && member.since > version);
    later.map_or(whole, |member| member.offset.next_multiple_of(ALIGN))
}
