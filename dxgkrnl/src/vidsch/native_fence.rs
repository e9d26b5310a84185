//! Native fences towards the driver: create, open, close, destroy.

use std::sync::Arc;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::adapter::Adapter;
use crate::device::Device;
use crate::miniport::KmdHandle;

use super::VidSch;
use super::storage::Slot;
use super::sync_object::{NativeHandles, SyncObject};

/// Private data that user-mode driver and kernel-mode driver exchange about a fence. [d3dukmdt:
/// D3DDDI_NATIVE_FENCE_PDD_SIZE]
pub(crate) type PrivateData = [u8; 64];

impl VidSch {
    /// Creates a native fence of the default type and opens it in the process of `device`. The driver's words for the
    /// user-mode driver replace `private`.
    ///
    /// # Errors
    /// STATUS_NOT_SUPPORTED without native fences; no memory; what the driver answered.
    pub(crate) fn create_native_fence(
        &self,
        device: &Arc<Device>,
        initial: u64,
        private: &mut PrivateData,
        of_queue: bool,
    ) -> Result<Arc<SyncObject>, NTSTATUS> {
        let _running = self.enter()?;
        let adapter = &device.adapter;
        if adapter.caps().native_fence.is_none() || !adapter.caps().features.native_fence {
            return Err(STATUS_NOT_SUPPORTED);
        }
        let slot = self.storage(&device.process).take(initial)?;
        let system = self.fences.reserve();
        let mut words = *private;
        let native = match create(adapter, device, &slot, system, &mut words) {
            Ok(native) => native,
            Err(status) => {
                slot.release();
                return Err(status);
            }
        };
        *private = words;
        Ok(SyncObject::new(device, system, slot, Some(native), of_queue))
    }

    /// Creates a fence that the driver knows only by its addresses: for paging queues and for queues without native
    /// progress fence.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn create_monitored_fence(
        &self,
        device: &Arc<Device>,
        initial: u64,
        of_queue: bool,
    ) -> Result<Arc<SyncObject>, NTSTATUS> {
        let _running = self.enter()?;
        let slot = self.storage(&device.process).take(initial)?;
        Ok(SyncObject::new(device, self.fences.reserve(), slot, None, of_queue))
    }
}

fn create(
    adapter: &Arc<Adapter>,
    device: &Device,
    slot: &Slot,
    system: KmdHandle,
    private: &mut PrivateData,
) -> Result<NativeHandles, NTSTATUS> {
    let in_system = slot.system_addresses();
    let mut args = DXGKARG_CREATENATIVEFENCE::zeroed();
    args.hGlobalNativeFence = system.raw();
    args.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
    args.CurrentValueSystemProcessGpuVa = in_system.current;
    args.MonitoredValueSystemProcessGpuVa = in_system.monitored;
    args.pPrivateDriverData = *private;
    adapter.miniport.create_native_fence(adapter.context().raw(), &mut args).ok()?;
    let global = KmdHandle::new(args.hGlobalNativeFence);
    if global.is_null() || global == system {
        return Err(STATUS_DRIVER_INTERNAL_ERROR);
    }
    let created = args.pPrivateDriverData;
    match open(adapter, device, slot, global, created) {
        Ok((local, opened)) => {
            *private = opened;
            Ok(NativeHandles { global, local })
        }
        Err(status) => {
            destroy_global(adapter, global);
            Err(status)
        }
    }
}

fn open(
    adapter: &Arc<Adapter>,
    device: &Device,
    slot: &Slot,
    global: KmdHandle,
    private: PrivateData,
) -> Result<(KmdHandle, PrivateData), NTSTATUS> {
    let addresses = slot.process_addresses();
    let given = adapter.vidsch().fences.reserve();
    let mut args = DXGKARG_OPENNATIVEFENCE::zeroed();
    args.hGlobalNativeFence = global.raw();
    args.hLocalNativeFence = given.raw();
    args.hDevice = device.kmd.raw();
    args.CurrentValueGpuVa = addresses.current;
    args.MonitoredValueGpuVa = addresses.monitored;
    args.pPrivateDriverData = private;
    adapter.miniport.open_native_fence(adapter.context().raw(), &mut args).ok()?;
    let local = KmdHandle::new(args.hLocalNativeFence);
    if local.is_null() || local == given {
        return Err(STATUS_DRIVER_INTERNAL_ERROR);
    }
    Ok((local, args.pPrivateDriverData))
}

/// Closes the fence in its process and destroys it.
pub(super) fn close(sch: &VidSch, adapter: &Arc<Adapter>, native: NativeHandles) {
    let mut args = DXGKARG_CLOSENATIVEFENCE::zeroed();
    args.hLocalNativeFence = native.local.raw();
    let status = adapter.miniport.close_native_fence(adapter.context().raw(), &args);
    sch.must_not_fail("DxgkDdiCloseNativeFence", status);
    destroy_global(adapter, native.global);
}

fn destroy_global(adapter: &Arc<Adapter>, global: KmdHandle) {
    let mut args = DXGKARG_DESTROYNATIVEFENCE::zeroed();
    args.hGlobalNativeFence = global.raw();
    let status = adapter.miniport.destroy_native_fence(&args);
    adapter.vidsch().must_not_fail("DxgkDdiDestroyNativeFence", status);
}
