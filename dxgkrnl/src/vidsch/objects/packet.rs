//! Packets, and whose they are.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use crate::kmd_handle::KmdHandle;

use super::device::Device;
use super::packet_context::PacketContext;
use super::preempting::Stood;
use super::render_adapter::RenderAdapter;

/// A context of the system on one node, scheduled packet by packet.
pub(crate) struct SystemContext {
    pub(in crate::vidsch) adapter: Arc<RenderAdapter>,
    pub(in crate::vidsch) node: u32,
    pub(in crate::vidsch) kmd: KmdHandle,
    pub(in crate::vidsch) system: KmdHandle,
    pub(in crate::vidsch) destroyed: AtomicBool,
}

impl SystemContext {
    /// The node.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// The driver's handle.
    pub(crate) fn kmd(&self) -> KmdHandle {
        self.kmd
    }
}

/// The context, or the paging process, that a submission to a node is of.
#[derive(Clone)]
pub(in crate::vidsch) enum Owner {
    /// The memory manager's.
    Paging(Arc<SystemContext>),
    /// The packet of a context with this number.
    Render(Arc<PacketContext>, u64),
}

/// One buffer of commands.
#[derive(Clone)]
pub(in crate::vidsch) struct Packet {
    pub(in crate::vidsch) owner: Owner,
    pub(in crate::vidsch) address: u64,
    pub(in crate::vidsch) size: u32,
    pub(in crate::vidsch) private: Vec<u8>,
    /// Bytes of the private data that the user-mode driver wrote.
    pub(in crate::vidsch) user_private: u32,
    /// Completed without being run.
    pub(in crate::vidsch) null: bool,
    /// It was handed over before and preempted.
    pub(in crate::vidsch) again: bool,
    /// Its fence id, once it has one.
    pub(in crate::vidsch) id: u32,
    /// The driver refused it; it completes when everything before it has.
    pub(in crate::vidsch) refused: bool,
    pub(in crate::vidsch) stood: Stood,
}

impl Packet {
    pub(in crate::vidsch) fn context(&self) -> Option<&Arc<PacketContext>> {
        match &self.owner {
            Owner::Paging(_) => None,
            Owner::Render(context, _) => Some(context),
        }
    }

    /// The device of a render packet.
    pub(in crate::vidsch) fn device(&self) -> Option<&Arc<Device>> {
        self.context().map(|context| context.device())
    }

    /// Its context, as something to compare; paging work has none.
    pub(in crate::vidsch) fn weak_context(&self) -> Weak<PacketContext> {
        self.context().map_or_else(Weak::new, Arc::downgrade)
    }

    /// Number of its process; `None` for the paging process.
    pub(in crate::vidsch) fn process(&self) -> Option<u64> {
        self.device().map(|device| device.process.id)
    }

    pub(in crate::vidsch) fn is_of(&self, other: &PacketContext) -> bool {
        self.context().is_some_and(|context| core::ptr::eq(&raw const **context, other))
    }

    /// False for one that may run as long as it likes, or whose device is lost.
    pub(in crate::vidsch) fn must_end(&self) -> bool {
        self.context().is_none_or(|context| !context.is_unlimited() && !context.is_lost())
    }
}

/// Next step of the node.
pub(in crate::vidsch) enum Next {
    /// Nothing until something is reported or submitted.
    Nothing,
    /// Hand this packet over.
    Submit(Packet),
    /// Take everything off the hardware; the id of the preemption.
    Preempt(u32),
}
