//! Native fences towards the driver: create, open, close, destroy.

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;

use crate::kmd_handle::KmdHandle;
use crate::refusal::Failure;

use crate::vidsch::objects::device::Device;
use crate::vidsch::objects::fence_options::PrivateData;
use crate::vidsch::objects::render_adapter::RenderAdapter;
use crate::vidsch::objects::storage::{FenceKind, GpuAddresses, Home};
use crate::vidsch::scheduler::VidSch;

/// Creates the fence on the driver; the answer is the driver's handle.
pub(in crate::vidsch) fn create(
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

pub(in crate::vidsch) fn open(
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
pub(in crate::vidsch) fn close(sch: &VidSch, adapter: &RenderAdapter, local: KmdHandle) {
    let mut args = DXGKARG_CLOSENATIVEFENCE::zeroed();
    args.hLocalNativeFence = local.raw();
    sch.must_not_fail(adapter.miniport.close_native_fence(adapter.context().raw(), &args));
}

/// Destroys the fence, which is closed everywhere.
pub(in crate::vidsch) fn destroy_global(adapter: &RenderAdapter, global: KmdHandle) {
    let mut args = DXGKARG_DESTROYNATIVEFENCE::zeroed();
    args.hGlobalNativeFence = global.raw();
    adapter.vidsch().must_not_fail(adapter.miniport.destroy_native_fence(&args));
}
