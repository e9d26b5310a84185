//! An adapter: one started function, its driver, and everything the system keeps about it.

mod caps;

pub(crate) use caps::{AdapterCaps, EnabledFeatures, NodeCaps, Segment};

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use wddm_ddi::types::{HANDLE, LUID};

use crate::interrupt::Interrupts;
use crate::machine::MachineRef;
use crate::miniport::{KmdHandle, Miniport};
use crate::vidmm::VidMm;
use crate::vidsch::VidSch;

/// One adapter between AddDevice and RemoveDevice.
pub(crate) struct Adapter {
    pub(crate) machine: MachineRef,
    pub(crate) luid: LUID,
    pub(crate) miniport: Arc<Miniport>,
    context: KmdHandle,
    handle: usize,
    running: AtomicBool,
    interrupts: Interrupts,
    caps: OnceLock<AdapterCaps>,
    vidsch: OnceLock<Arc<VidSch>>,
    vidmm: OnceLock<Arc<VidMm>>,
}

/// A page-granular place in the file behind a BAR.
#[derive(Clone)]
pub(crate) struct BarPlace {
    /// File that holds the BAR.
    pub(crate) file: Arc<File>,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Bytes from there to the end of the BAR or of the mapping.
    pub(crate) len: u64,
}

impl Adapter {
    /// MiniportDeviceContext, the `hAdapter` argument of DDIs.
    pub(crate) fn context(&self) -> KmdHandle {
        self.context
    }

    /// What the driver passes to DxgkCb* as device handle.
    pub(crate) fn device_handle(&self) -> HANDLE {
        core::ptr::without_provenance_mut(self.handle)
    }

    /// What the driver said about itself. Only valid once VidSch and VidMm are being created.
    pub(crate) fn caps(&self) -> &AdapterCaps {
        self.caps.get().expect("capabilities are known before anything else of the adapter exists")
    }

    /// The scheduler. Only valid once it was created during start.
    pub(crate) fn vidsch(&self) -> &Arc<VidSch> {
        self.vidsch.get().expect("the scheduler exists before anything can be submitted")
    }

    /// The memory manager. Only valid once it was created during start.
    pub(crate) fn vidmm(&self) -> &Arc<VidMm> {
        self.vidmm.get().expect("the memory manager exists before any process does")
    }

    /// Runs `body` at device level with the interrupt lock held, as the interrupt routine runs. May be nested.
    pub(crate) fn at_device_level<R>(&self, body: impl FnOnce() -> R) -> R {
        let _device = self.interrupts.acquire();
        body()
    }

    /// False once the adapter is stopped or removed, or the machine has bugchecked.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) && !self.machine.verifier().is_stopped()
    }

    /// For waits of the kernel on a machine without interrupt threads: delivers interrupts and lets devices work. True if
    /// anything was done; on a machine with interrupt threads nothing is done here.
    pub(crate) fn relax(&self) -> bool {
        false
    }

    /// The place in a BAR that the driver's mapping shows at kernel address `address` (DxgkCbMapMemory). `None` for
    /// addresses that are not such a mapping, or of a trapped BAR.
    pub(crate) fn bar_at_kernel_address(&self, address: usize) -> Option<BarPlace> {
        let _ = address;
        None
    }

    /// The place in a BAR at translated bus address `address`.
    pub(crate) fn bar_at_bus_address(&self, address: u64) -> Option<BarPlace> {
        let _ = address;
        None
    }
}
