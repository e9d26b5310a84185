//! Which objects of a process are alive, and what a thunk answers to a handle.

use std::collections::BTreeMap;

use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::input::Input;

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Adapter,
    Device,
    PagingQueue,
    /// A native fence.
    Fence,
    /// The fence of a paging queue, or the progress fence of a hardware queue.
    QueueFence,
    /// An allocation that the processor may lock, or one that it may not.
    Allocation {
        lockable: bool,
    },
    HwContext,
    HwQueue,
    PacketContext,
    Doorbell,
}

impl Kind {
    pub(super) const ALLOCATION: Self = Self::Allocation { lockable: true };

    /// Both are handles of the same kind of object.
    fn is(self, other: Self) -> bool {
        matches!((self, other), (Self::Allocation { .. }, Self::Allocation { .. })) || self == other
    }
}

/// An object that is alive.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    /// The device that it ends with, 0 for none.
    pub(super) device: D3DKMT_HANDLE,
    /// The context of a queue, the queue of a doorbell or a fence.
    pub(super) parent: D3DKMT_HANDLE,
    /// Current value of a fence, address of an allocation in the process of the GPU.
    pub(super) value: u64,
    /// Number of times that an allocation is in the device's residency list.
    pub(super) listed: u32,
    pub(super) locks: u32,
    /// Ring and ring control of a doorbell.
    pub(super) rings: [D3DKMT_HANDLE; 2],
}

impl Object {
    pub(super) fn new(kind: Kind, device: D3DKMT_HANDLE, parent: D3DKMT_HANDLE) -> Self {
        Self { kind, device, parent, value: 0, listed: 0, locks: 0, rings: [0; 2] }
    }
}

/// The objects of a process.
#[derive(Default)]
pub(super) struct Model {
    alive: BTreeMap<D3DKMT_HANDLE, Object>,
    /// Every handle that was ever given out, none of them twice.
    given: Vec<D3DKMT_HANDLE>,
}

impl Model {
    pub(super) fn count(&self) -> usize {
        self.alive.len()
    }

    /// A handle was given out.
    pub(super) fn add(&mut self, handle: D3DKMT_HANDLE, object: Object) {
        assert!(handle != 0 && !self.given.contains(&handle), "handle {handle:#x} was given out before");
        self.given.push(handle);
        self.alive.insert(handle, object);
    }

    /// A handle of the input: mostly of an object of that kind, or any that was given out, or any number.
    pub(super) fn pick(&self, input: &mut Input<'_>, kind: Kind) -> D3DKMT_HANDLE {
        let choice = usize::from(input.u8());
        let mut those = self.alive.iter().filter(|(_, object)| object.kind.is(kind)).map(|(handle, _)| *handle);
        match choice {
            0..192 => those.nth(choice % those.clone().count().max(1)).unwrap_or(0),
            192..248 if !self.given.is_empty() => self.given[choice % self.given.len()],
            248..252 => self.given.last().map_or(0, |handle| handle.wrapping_add(1 << (choice - 240))),
            _ => input.u64() as u32,
        }
    }

    /// The object of that kind, or what a thunk answers to a handle that stands for none.
    pub(super) fn get(&self, handle: D3DKMT_HANDLE, kind: Kind) -> Result<&Object, NTSTATUS> {
        self.alive.get(&handle).filter(|object| object.kind.is(kind)).ok_or(STATUS_INVALID_HANDLE)
    }

    pub(super) fn get_mut(&mut self, handle: D3DKMT_HANDLE) -> &mut Object {
        self.alive.get_mut(&handle).expect("an object that is alive")
    }

    /// An allocation that must be one of this device.
    pub(super) fn allocation(&self, handle: D3DKMT_HANDLE, device: D3DKMT_HANDLE) -> Result<&Object, NTSTATUS> {
        self.get(device, Kind::Device)?;
        let allocation = self.get(handle, Kind::ALLOCATION)?;
        if allocation.device == device { Ok(allocation) } else { Err(STATUS_INVALID_PARAMETER) }
    }

    /// A fence of either kind.
    pub(super) fn fence(&self, handle: D3DKMT_HANDLE) -> Result<&Object, NTSTATUS> {
        self.get(handle, Kind::Fence).or_else(|_| self.get(handle, Kind::QueueFence))
    }

    /// The fence of a queue that is alive.
    pub(super) fn fence_of(&self, queue: D3DKMT_HANDLE) -> D3DKMT_HANDLE {
        let own = |object: &Object| object.kind == Kind::QueueFence && object.parent == queue;
        self.alive.iter().find(|(_, object)| own(object)).map(|(handle, _)| *handle).expect("a queue with its fence")
    }

    /// Some object of that kind has this parent.
    pub(super) fn has_children(&self, handle: D3DKMT_HANDLE, kind: Kind) -> bool {
        self.alive.values().any(|object| object.kind == kind && object.parent == handle)
    }

    /// A doorbell uses the allocation.
    pub(super) fn is_ring(&self, allocation: D3DKMT_HANDLE) -> bool {
        self.alive.values().any(|object| object.rings.contains(&allocation))
    }

    /// The object ends, and its own fence with it.
    pub(super) fn end(&mut self, handle: D3DKMT_HANDLE) {
        self.alive.remove(&handle);
        self.alive.retain(|_, object| object.kind != Kind::QueueFence || object.parent != handle);
    }

    /// The device ends, and everything on it.
    pub(super) fn end_device(&mut self, device: D3DKMT_HANDLE) {
        self.alive.remove(&device);
        self.alive.retain(|_, object| object.device != device);
    }
}
