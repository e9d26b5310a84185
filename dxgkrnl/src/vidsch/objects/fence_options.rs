//! Properties of new fences.

use crate::fence::Rights;

use super::storage::FenceKind;

/// Private data that user-mode driver and kernel-mode driver exchange about a fence. [d3dukmdt:
/// D3DDDI_NATIVE_FENCE_PDD_SIZE]
pub(crate) type PrivateData = [u8; 64];

/// Properties of a new fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FenceOptions {
    /// CurrentValue at first.
    pub(crate) initial: u64,
    /// Other processes may open it.
    pub(crate) shareable: bool,
    /// Other adapters may open it.
    pub(crate) cross_adapter: bool,
    /// It reports the progress of a queue, and goes with it.
    pub(crate) of_queue: bool,
    /// It is for engines only: nothing of it is for the CPU.
    pub(crate) intra_gpu: bool,
    /// Rights of the handle that the creator gets.
    pub(crate) rights: Rights,
    /// The value stays as it is when the devices are lost, instead of becoming all ones. [d3dukmdt:
    /// D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, NoSignalMaxValueOnTdr]
    pub(crate) keeps_value: bool,
    /// The processor's waits go on when what they were made through is closed, until the fence is destroyed. [d3dukmdt:
    /// D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, UnwaitCpuWaitersOnlyOnDestroy]
    pub(crate) waiters_stay: bool,
}

impl Default for FenceOptions {
    fn default() -> Self {
        Self {
            initial: 0,
            shareable: false,
            cross_adapter: false,
            of_queue: false,
            intra_gpu: false,
            rights: Rights::ALL,
            keeps_value: false,
            waiters_stay: false,
        }
    }
}

impl FenceOptions {
    /// The kind of fence that is created for these options where native fences are not enabled.
    pub(in crate::vidsch) fn monitored_kind(self) -> FenceKind {
        if self.rights.gpu { FenceKind::Monitored } else { FenceKind::WithoutGpu }
    }

    pub(in crate::vidsch) fn native_kind(self) -> FenceKind {
        if self.intra_gpu { FenceKind::IntraGpu } else { FenceKind::Default }
    }
}
