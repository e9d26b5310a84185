//! The contexts of a device, and its queues that may have work under way.

use std::collections::BTreeMap;
use std::sync::Weak;

use nt::lock::Mutex;

use crate::rank;

use super::active::Active;
use super::hardware::HwContext;
use super::packet_context::PacketContext;

/// The scheduler's objects of one device.
#[derive(Default)]
pub(in crate::vidsch) struct DeviceWork {
    /// By our handle, which grows.
    pub(in crate::vidsch) contexts: Mutex<BTreeMap<usize, Weak<HwContext>>>,
    pub(in crate::vidsch) active: Active,
    pub(in crate::vidsch) packet_contexts: Mutex<Vec<Weak<PacketContext>>>,
    /// Held while the device is being taken off the hardware; true when that is done.
    pub(in crate::vidsch) lost: Mutex<bool, rank::DeviceLost>,
}
