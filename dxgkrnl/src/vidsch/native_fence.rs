//! Native fences towards the driver: create, open, close, destroy.

use std::sync::Arc;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::refusal::Failure;
use crate::vidmm::Protection;
use crate::vidsch::{Device, RenderAdapter};

use super::VidSch;
use super::cross_adapter::CrossAdapter;
use super::fence::Fence;
use super::storage::{FenceKind, GpuAddresses, Home, View};
use super::sync_object::SyncObject;
use crate::fence::Rights;

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
    pub(super) fn monitored_kind(self) -> FenceKind {
        if self.rights.gpu { FenceKind::Monitored } else { FenceKind::WithoutGpu }
    }

    fn native_kind(self) -> FenceKind {
        if self.intra_gpu { FenceKind::IntraGpu } else { FenceKind::Default }
    }
}

impl VidSch {
    /// Creates a native fence and opens it in the process of `device`. The driver's words for the user-mode driver replace
    /// `private`.
    ///
    /// # Errors
    /// STATUS_NOT_SUPPORTED without native fences, or those between engines; STATUS_DRIVER_INTERNAL_ERROR if what the driver says about
    /// their storage breaks a rule; no memory; what the driver answered.
    pub(crate) fn create_native_fence(
        &self,
        device: &Arc<Device>,
        options: FenceOptions,
        private: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        let adapter = &device.adapter;
        if !adapter.has_native_fences() {
            return Err(STATUS_NOT_SUPPORTED.into());
        }
        if options.intra_gpu && !adapter.policy().intra_gpu_fences {
            return Err(STATUS_NOT_SUPPORTED.into());
        }
        if options.cross_adapter {
            return CrossAdapter::new(device, options)?.open(device, true, options.rights, private);
        }
        let _running = self.enter()?;
        let kind = options.native_kind();
        let (home, view) = self.home(device, kind, options)?;
        let system = self.fences.reserve();
        let mut words = *private;
        let global = match create(adapter, kind, &home, system, &mut words) {
            Ok(global) => global,
            Err(status) => {
                drop(view);
                home.release();
                return Err(status);
            }
        };
        let fence = Fence::new(adapter, system, Some(global), kind, home, options, None);
        let opened = self.open_in(&fence, device, Some(view), (options.rights, options.of_queue), &mut words);
        let opened = opened.inspect_err(|_| fence.abandon())?;
        *private = words;
        Ok(opened)
    }

    /// Opens a fence of one adapter, of whatever process, in that of `device`, with these rights. The driver's words replace
    /// `private`.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a fence of another adapter; STATUS_INVALID_HANDLE for one that is destroyed; no memory;
    /// what the driver answered.
    pub(crate) fn open_fence(
        &self,
        device: &Arc<Device>,
        fence: &Arc<Fence>,
        rights: Rights,
        private: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        let _running = self.enter()?;
        if !Arc::ptr_eq(fence.adapter(), &device.adapter) {
            return Err(STATUS_INVALID_PARAMETER.into());
        }
        let mut words = *private;
        let opened = self.open_in(fence, device, None, (rights, false), &mut words)?;
        *private = words;
        Ok(opened)
    }

    /// Creates a fence that the driver knows only by its addresses: for user mode, for paging queues, and for queues without
    /// native progress fence.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn create_monitored_fence(
        &self,
        device: &Arc<Device>,
        options: FenceOptions,
    ) -> Result<Arc<SyncObject>, Failure> {
        if options.cross_adapter {
            return CrossAdapter::new(device, options)?.open(device, false, options.rights, &mut [0; 64]);
        }
        let _running = self.enter()?;
        let kind = options.monitored_kind();
        let (home, view) = self.home(device, kind, options)?;
        let fence = Fence::new(&device.adapter, self.fences.reserve(), None, kind, home, options, None);
        let opened = self.open_in(&fence, device, Some(view), (options.rights, options.of_queue), &mut [0; 64]);
        opened.inspect_err(|_| fence.abandon())
    }

    fn home(&self, device: &Device, kind: FenceKind, options: FenceOptions) -> Result<(Home, Arc<View>), Failure> {
        let storage = self.storage(&device.process);
        if options.shareable { storage.take_alone(kind, options.initial) } else { storage.take(kind, options.initial) }
    }

    pub(super) fn open_in(
        &self,
        fence: &Arc<Fence>,
        device: &Arc<Device>,
        view: Option<Arc<View>>,
        (rights, of_queue): (Rights, bool),
        private: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        let protection = if rights.signal { Protection::ReadWrite } else { Protection::ReadOnly };
        let protection = rights.gpu.then_some(protection);
        let process = Arc::as_ptr(&device.process).addr();
        let storage = self.storage(&device.process);
        fence.open(
            (process, protection),
            // The page is writable through the creator's handle only if that handle may signal.
            |frames| {
                view.filter(|view| view.protection() == protection).map_or_else(|| storage.view(frames, protection), Ok)
            },
            |view| {
                let local = match fence.global() {
                    Some(global) => {
                        let addresses = view.gpu_addresses(fence.offset());
                        let (local, words) = open(fence.adapter(), device, addresses, global, *private)?;
                        *private = words;
                        Some(local)
                    }
                    None => None,
                };
                Ok(SyncObject::new(fence, device, local, view, rights, of_queue))
            },
        )
    }
}

/// Creates the fence on the driver; the answer is the driver's handle.
pub(super) fn create(
    adapter: &RenderAdapter,
    kind: FenceKind,
    home: &Home,
    system: KmdHandle,
    private: &mut PrivateData,
) -> Result<KmdHandle, Failure> {
    let in_system = home.system_addresses();
    let mut args = DXGKARG_CREATENATIVEFENCE::zeroed();
    args.hGlobalNativeFence = system.raw();
    args.Type = kind.native_type();
    args.CurrentValueSystemProcessGpuVa = in_system.current;
    args.MonitoredValueSystemProcessGpuVa = in_system.monitored;
    args.pPrivateDriverData = *private;
    adapter.miniport.create_native_fence(adapter.context().raw(), &mut args).ok()?;
    let member = ("DXGKARG_CREATENATIVEFENCE", "hGlobalNativeFence");
    let global = KmdHandle::new(args.hGlobalNativeFence);
    let global = global.answered(system.raw(), "DxgkDdiCreateNativeFence", member)?;
    *private = args.pPrivateDriverData;
    Ok(global)
}

fn open(
    adapter: &RenderAdapter,
    device: &Device,
    addresses: GpuAddresses,
    global: KmdHandle,
    private: PrivateData,
) -> Result<(KmdHandle, PrivateData), Failure> {
    let given = adapter.vidsch().fences.reserve();
    let mut args = DXGKARG_OPENNATIVEFENCE::zeroed();
    args.hGlobalNativeFence = global.raw();
    args.hLocalNativeFence = given.raw();
    args.hDevice = device.kmd.raw();
    args.CurrentValueGpuVa = addresses.current;
    args.MonitoredValueGpuVa = addresses.monitored;
    args.pPrivateDriverData = private;
    adapter.miniport.open_native_fence(adapter.context().raw(), &mut args).ok()?;
    let member = ("DXGKARG_OPENNATIVEFENCE", "hLocalNativeFence");
    let local = KmdHandle::new(args.hLocalNativeFence);
    let local = local.answered(given.raw(), "DxgkDdiOpenNativeFence", member)?;
    Ok((local, args.pPrivateDriverData))
}

/// Closes the fence in its process.
pub(super) fn close(sch: &VidSch, adapter: &RenderAdapter, local: KmdHandle) {
    let mut args = DXGKARG_CLOSENATIVEFENCE::zeroed();
    args.hLocalNativeFence = local.raw();
    sch.must_not_fail(adapter.miniport.close_native_fence(adapter.context().raw(), &args));
}

/// Destroys the fence, which is closed everywhere.
pub(super) fn destroy_global(adapter: &RenderAdapter, global: KmdHandle) {
    let mut args = DXGKARG_DESTROYNATIVEFENCE::zeroed();
    args.hGlobalNativeFence = global.raw();
    adapter.vidsch().must_not_fail(adapter.miniport.destroy_native_fence(&args));
}
