//! User devices: the unit that owns allocations, contexts and queues, and that fails as a whole.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use nt::lock::{Innermost, Mutex, lock};
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmd_handle::KmdHandle;
use crate::rundown::{Destroyed, Rundown};

use super::process_adapter::ProcessAdapter;
use super::render_adapter::RenderAdapter;

/// The reason why a device is in error and every later submission of it is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DeviceError {
    /// A queue of the device touched memory that does not translate, or broke a rule of its commands.
    PageFault {
        /// GPU virtual address, 0 if not an address fault.
        address: u64,
        /// Flags of the driver's report.
        flags: DXGK_PAGE_FAULT_FLAGS,
        /// Error code of the driver's report.
        code: DXGK_FAULT_ERROR_CODE,
    },
    /// The driver refused a packet of the device.
    Refused,
    /// An engine was reset because work of this device did not end.
    Hung,
    /// The adapter was reset for somebody else's sake.
    Reset,
    /// The allocations of its residency list do not fit into memory together.
    OutOfMemory,
    /// The adapter is gone or stopped.
    Stopped,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PageFault { address, flags, code } => {
                write!(f, "page fault at {address:#x}, flags {:#x}, error {:#x}", flags.0, code.into_bits())
            }
            Self::Refused => f.write_str("the driver refused a packet"),
            Self::Hung => f.write_str("it hung"),
            Self::Reset => f.write_str("reset with others"),
            Self::OutOfMemory => f.write_str("its residency list does not fit into memory"),
            Self::Stopped => f.write_str("the adapter is gone or stopped"),
        }
    }
}

impl DeviceError {
    /// As `D3DKMTGetDeviceState` reports it.
    pub(crate) fn execution_state(self) -> D3DKMT_DEVICEEXECUTION_STATE {
        match self {
            Self::PageFault { .. } => D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT,
            Self::Refused => D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT,
            Self::Hung => D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_HUNG,
            Self::Reset => D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_RESET,
            Self::OutOfMemory => D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY,
            Self::Stopped => D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_STOPPED,
        }
    }
}

/// A device of a process on an adapter.
pub(crate) struct Device {
    /// The adapter.
    pub(crate) adapter: Arc<RenderAdapter>,
    /// The process as the adapter knows it.
    pub(crate) process: Arc<ProcessAdapter>,
    /// The driver's handle.
    pub(crate) kmd: KmdHandle,
    rundown: Rundown,
    pub(in crate::vidsch) id: u64,
    handle: OnceLock<D3DKMT_HANDLE>,
    error: Mutex<Option<DeviceError>, Innermost>,
    present_limit: AtomicU32,
}

/// Presents that a device may queue unless it says otherwise. [d3dkmthk: D3DKMT_SETQUEUEDLIMIT]
const PRESENT_LIMIT: u32 = 3;

impl Destroyed for Device {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.error().is_some()
    }
}

impl Device {
    /// A device that has no handle yet.
    pub(crate) fn new(
        adapter: &Arc<RenderAdapter>,
        process: Arc<ProcessAdapter>,
        (id, kmd): (u64, KmdHandle),
    ) -> Arc<Self> {
        Arc::new(Self {
            adapter: Arc::clone(adapter),
            process,
            kmd,
            rundown: Rundown::default(),
            id,
            handle: OnceLock::new(),
            error: Mutex::new(None),
            present_limit: AtomicU32::new(PRESENT_LIMIT),
        })
    }

    /// Records the handle by which the process names the device; the first one stays.
    pub(crate) fn set_handle(&self, handle: D3DKMT_HANDLE) {
        let _ = self.handle.set(handle);
    }

    /// Handle of the device in its process; 0 before it has one.
    pub(crate) fn handle(&self) -> D3DKMT_HANDLE {
        self.handle.get().copied().unwrap_or(0)
    }

    /// Identity of the device, never used again.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Presents that it may queue.
    pub(crate) fn present_limit(&self) -> u32 {
        self.present_limit.load(Ordering::Relaxed)
    }

    /// Changes how many presents it may queue; 0 stands for the default.
    pub(crate) fn set_present_limit(&self, limit: u32) {
        self.present_limit.store(if limit == 0 { PRESENT_LIMIT } else { limit }, Ordering::Relaxed);
    }

    /// Puts the device in error; the first error stays.
    pub(crate) fn set_error(&self, error: DeviceError) {
        lock(&self.error).get_or_insert(error);
    }

    /// The reason why the device is in error; `None` while it works.
    pub(crate) fn error(&self) -> Option<DeviceError> {
        if let Some(error) = *lock(&self.error) {
            return Some(error);
        }
        (!self.adapter.is_running()).then_some(DeviceError::Stopped)
    }
}
