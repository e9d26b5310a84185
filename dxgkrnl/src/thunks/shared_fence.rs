//! Opening of a shared fence.

use std::sync::Arc;

use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::sync;
use crate::fence::Rights;
use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidsch::{Device, SharedFence, SyncObject};

/// Opens a shared fence for `device` as what it was created: its handle.
pub(super) fn open_as_created(
    process: &Process,
    device: &Arc<Device>,
    shared: &SharedFence,
    rights: Rights,
) -> Result<D3DKMT_HANDLE, Failure> {
    let native = match shared {
        SharedFence::OneAdapter(reference) => reference.fence().is_native(),
        SharedFence::CrossAdapter(_) => false,
    };
    let fence = open(device, shared, native, rights, &mut [0; 64])?;
    sync::insert(process, device, &fence)
}

/// Opens a shared fence for `device`. One of several adapters is `native` or not as asked; one of a single adapter is what it
/// was created as, and of that adapter. One without access for GPUs is no native fence: the driver would be told its addresses.
pub(super) fn open(
    device: &Arc<Device>,
    shared: &SharedFence,
    native: bool,
    rights: Rights,
    private: &mut [u8; 64],
) -> Result<Arc<SyncObject>, Failure> {
    if native && !rights.gpu {
        return Err(refused(STATUS_INVALID_PARAMETER, "a native fence is opened without access for GPUs"));
    }
    match shared {
        SharedFence::CrossAdapter(cross) => cross.open(device, native, rights, private),
        SharedFence::OneAdapter(reference) if reference.fence().is_native() == native => {
            device.adapter.vidsch().open_fence(device, reference.fence(), rights, private)
        }
        SharedFence::OneAdapter(_) => {
            let (is, thunk) = match native {
                true => ("monitored", "D3DKMTOpenSyncObjectFromNtHandle2"),
                false => ("native", "D3DKMTOpenNativeFenceFromNtHandle"),
            };
            Err(refused(STATUS_INVALID_PARAMETER, format!("hNtHandle is of a {is} fence, which {thunk} opens")))
        }
    }
}
