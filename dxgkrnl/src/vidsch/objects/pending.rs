//! Reports of interrupts that have not been acted upon yet.

use std::sync::Arc;

use super::device::{Device, DeviceError};
use super::fence::Fence;
use super::hardware::{HwContext, HwQueue};
use super::worker::Work;

/// Reports of interrupts that the DPC has still to handle.
#[derive(Default)]
pub(in crate::vidsch) struct Pending {
    pub(in crate::vidsch) fences: Vec<Arc<Fence>>,
    /// Queues that signalled, and nodes of which some queue did, one bit each; their logs tell what.
    pub(in crate::vidsch) queues: Vec<Arc<HwQueue>>,
    pub(in crate::vidsch) logged_nodes: u64,
    pub(in crate::vidsch) scan_native: bool,
    pub(in crate::vidsch) scan_monitored: bool,
    /// Nodes with completed packets, one bit each.
    pub(in crate::vidsch) completed: u64,
    pub(in crate::vidsch) suspended: Vec<Arc<HwContext>>,
    pub(in crate::vidsch) work: Vec<Work>,
}

/// Devices that a fault of hardware queues puts into an error state, and the reset that it asks for.
pub(in crate::vidsch) struct FaultedDevices {
    pub(in crate::vidsch) devices: Vec<Arc<Device>>,
    pub(in crate::vidsch) error: DeviceError,
    pub(in crate::vidsch) reset: Option<Work>,
}

impl FaultedDevices {
    /// True if nothing is lost when this replaces the earlier fault `other`.
    fn covers(&self, other: &Self) -> bool {
        let ids = |faulted: &Self| faulted.devices.iter().map(|device| device.id()).collect::<Vec<_>>();
        other.reset.is_none() && ids(self) == ids(other)
    }
}

/// A report about hardware queues that came while the engine was being reset; it takes effect after the reset.
pub(in crate::vidsch) struct SetAside {
    pub(in crate::vidsch) node: u32,
    pub(in crate::vidsch) said: Said,
}

pub(in crate::vidsch) enum Said {
    /// Fences were signalled.
    Signalled,
    /// A suspension is complete.
    Suspended(Arc<HwContext>, u64),
    Faulted(FaultedDevices),
}

impl Said {
    /// True if nothing is lost when `later` replaces this.
    pub(in crate::vidsch) fn is_covered_by(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Signalled, Self::Signalled) => true,
            (Self::Suspended(context, fence), Self::Suspended(other, later)) => {
                Arc::ptr_eq(context, other) && fence <= later
            }
            (Self::Faulted(fault), Self::Faulted(later)) => later.covers(fault),
            _ => false,
        }
    }
}
