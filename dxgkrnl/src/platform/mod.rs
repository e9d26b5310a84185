//! The machine as its parts know it: what is the same for all of them, and what they ask of whoever has them all.

mod power_gate;

use std::sync::{Arc, Weak};

use nt::ram::Ram;
use nt::verifier::Verifier;
use wddm_ddi::km::DXGKRNL_INTERFACE;
use wddm_ddi::types::HANDLE;

use crate::config::MachineConfig;
use crate::rescue::Rescues;

pub(crate) use power_gate::{PowerGate, Use};

/// Whoever has every adapter of the machine.
pub(crate) trait Owner: Send + Sync {
    /// Delivers the interrupts of every adapter; false when there were none.
    fn deliver_interrupts(&self) -> bool;

    /// Has every device enter D0.
    fn wake_devices(&self);
}

/// Services that all parts of the machine share.
#[derive(Clone)]
pub(crate) struct Parts {
    /// Physical memory.
    pub(crate) ram: Arc<Ram>,
    /// The verifier.
    pub(crate) verifier: Arc<Verifier>,
    /// Counts of what was made good.
    pub(crate) rescues: Arc<Rescues>,
    /// The power gate.
    pub(crate) gate: Arc<PowerGate>,
    /// The configuration with which the machine was made.
    pub(crate) config: MachineConfig,
    /// The callbacks of a driver for a device handle.
    pub(crate) interface: fn(HANDLE) -> DXGKRNL_INTERFACE,
}

/// The parts for good, and their owner while it lives.
#[derive(Clone)]
pub(crate) struct Platform {
    parts: Parts,
    owner: Weak<dyn Owner>,
}

impl Platform {
    pub(crate) fn new(parts: Parts, owner: Weak<dyn Owner>) -> Self {
        Self { parts, owner }
    }

    pub(crate) fn ram(&self) -> &Arc<Ram> {
        &self.parts.ram
    }

    pub(crate) fn verifier(&self) -> &Arc<Verifier> {
        &self.parts.verifier
    }

    /// Counts of what was made good.
    pub(crate) fn rescues(&self) -> &Arc<Rescues> {
        &self.parts.rescues
    }

    /// The power gate, which whoever calls DDIs enters.
    pub(crate) fn gate(&self) -> &Arc<PowerGate> {
        &self.parts.gate
    }

    pub(crate) fn config(&self) -> &MachineConfig {
        &self.parts.config
    }

    /// The callbacks of a driver for a device handle.
    pub(crate) fn interface(&self, handle: HANDLE) -> DXGKRNL_INTERFACE {
        (self.parts.interface)(handle)
    }

    /// Delivers the interrupts of every adapter; false when there were none, or the machine is gone.
    pub(crate) fn deliver_interrupts(&self) -> bool {
        self.owner.upgrade().is_some_and(|owner| owner.deliver_interrupts())
    }

    /// Has every device enter D0; false if the machine is gone.
    pub(crate) fn wake_devices(&self) -> bool {
        self.owner.upgrade().map(|owner| owner.wake_devices()).is_some()
    }

    /// True if `other` is the same machine.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.owner.ptr_eq(&other.owner)
    }
}
