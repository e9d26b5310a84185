//! Thunks about adapters by name, features and clocks, and what is said of a device as a whole.

use std::sync::Arc;
use std::time::Duration;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use super::adapter::{self, is_compute_only};
use super::adapter_answer::{instance_path, node_at};
use super::call::{enter, enter_read_only};
use super::power::where_needed;
use super::{process, user};
use crate::adapter::Adapter;
use crate::platform::Use;
use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidsch::Device;

/// Version of every feature here.
const FEATURE_VERSION: u16 = 1;
/// Longest name of a device interface, in units of 16 bits.
const NAME_MAX: usize = 1024;
/// The interval at which a thread that waits for a device looks at it.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// GUID_COMPUTE_DEVICE_ARRIVAL and GUID_DISPLAY_DEVICE_ARRIVAL, the interfaces of adapters. [ntddvdeo]
const INTERFACES: [&str; 2] = ["{1024e4c9-47c9-48d3-b4a8-f9df78523b53}", "{1ca05180-a699-450a-9a0c-de4fbe3ddd89}"];

/// As D3DKMTEnumAdapters2, in a structure that has space for 16: nothing of compute-only adapters is told. [d3dkmthk: D3DKMTEnumAdapters]
pub(super) unsafe extern "win64" fn enum_adapters(args: *mut D3DKMT_ENUMADAPTERS) -> NTSTATUS {
    enter("D3DKMTEnumAdapters", args, |process, args| {
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let shown = |adapter: &Arc<Adapter>| adapter.is_running() && !is_compute_only(adapter);
        let adapters: Vec<_> = machine.adapters().into_iter().filter(shown).take(args.Adapters.len()).collect();
        args.NumAdapters = adapters.len() as u32;
        adapter::open_all(process, &adapters, |place, info| {
            *args.Adapters.get_mut(place).ok_or(STATUS_INTERNAL_ERROR)? = info;
            Ok(())
        })?;
        Ok(STATUS_SUCCESS)
    })
}

/// Text of user mode up to its NUL.
fn read_text(at: *const u16) -> Result<String, Failure> {
    let mut units = Vec::new();
    for place in 0..NAME_MAX {
        let bytes = user::read_array(at.wrapping_add(place).cast::<u8>(), 2)?;
        match bytes.as_slice() {
            [0, 0] => return Ok(String::from_utf16_lossy(&units)),
            &[low, high] => units.push(u16::from_le_bytes([low, high])),
            _ => break,
        }
    }
    Err(refused(STATUS_INVALID_PARAMETER, format!("pDeviceName has no end within {NAME_MAX} characters")))
}

/// Opens an adapter by the symbolic link of its device interface, whatever the case of its letters: `\\\\?\\PCI#VEN_…#…#{GUID}`, where `#` stands between
/// the parts of the instance path that KMTQAITYPE_PHYSICALADAPTERPNPKEY tells. Errors: STATUS_OBJECT_NAME_NOT_FOUND for the name of no running
/// adapter; STATUS_INVALID_PARAMETER for one without an end. [d3dkmthk: D3DKMTOpenAdapterFromDeviceName]
pub(super) unsafe extern "win64" fn open_adapter_from_device_name(
    args: *mut D3DKMT_OPENADAPTERFROMDEVICENAME,
) -> NTSTATUS {
    enter("D3DKMTOpenAdapterFromDeviceName", args, |process, args| {
        let name = read_text(args.pDeviceName)?;
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let is_named = |adapter: &Arc<Adapter>| {
            let path = instance_path(adapter, 0).unwrap_or_default().replace('\\', "#");
            INTERFACES.iter().any(|guid| name.eq_ignore_ascii_case(&format!("\\\\?\\{path}#{guid}")))
        };
        let found = machine.adapters().into_iter().filter(|adapter| adapter.is_running()).find(is_named);
        let why = || format!("pDeviceName {name:?} is the device interface of no running adapter");
        let adapter = found.ok_or_else(|| refused(STATUS_OBJECT_NAME_NOT_FOUND, why()))?;
        args.hAdapter = adapter::open(process, &adapter)?;
        args.AdapterLuid = adapter.luid;
        Ok(STATUS_SUCCESS)
    })
}

/// A feature of the whole system is asked for without an adapter: the GPU's virtual addresses behind an IOMMU, which this system does not use. Any other is one
/// of an adapter. Errors: STATUS_INVALID_PARAMETER for a feature that nobody knows, and a global one of an adapter. [d3dkmthk: D3DKMTIsFeatureEnabled,
/// D3DKMT_ISFEATUREENABLED; querying-wddm-feature-support-and-enablement: global and adapter features]
pub(super) unsafe extern "win64" fn is_feature_enabled(args: *mut D3DKMT_ISFEATUREENABLED) -> NTSTATUS {
    enter("D3DKMTIsFeatureEnabled", args, |process, args| {
        if args.FeatureId == DXGK_FEATURE_ID::DXGK_FEATURE_GPUVAIOMMU {
            if args.hAdapter != 0 {
                let why = "hAdapter is not 0, and DXGK_FEATURE_GPUVAIOMMU is a feature of the whole system";
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            args.Result.Version = 0;
            args.Result.Bits = DXGK_ISFEATUREENABLED_RESULT_Bits::new().with_KnownFeature(true);
            return Ok(STATUS_SUCCESS);
        }
        let adapter = &process.get_adapter(args.hAdapter)?.adapter;
        adapter::check_running(adapter)?;
        let decision = adapter.feature(args.FeatureId);
        if !decision.known {
            let why = format!("FeatureId is {}, which is no feature that the system knows", args.FeatureId.0);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        args.Result.Version = if decision.enabled { FEATURE_VERSION } else { 0 };
        args.Result.Bits = DXGK_ISFEATUREENABLED_RESULT_Bits::new()
            .with_Enabled(decision.enabled)
            .with_KnownFeature(true)
            .with_SupportedByDriver(decision.supported_by_driver)
            .with_SupportedOnCurrentConfig(decision.supported_on_current_config);
        Ok(STATUS_SUCCESS)
    })
}

/// Asks the driver; the clock of the processor is in units of 100 ns. [d3dkmddi: DXGKDDI_CALIBRATEGPUCLOCK; d3dkmthk:
/// D3DKMTQueryClockCalibration]
pub(super) unsafe extern "win64" fn query_clock_calibration(args: *mut D3DKMT_QUERYCLOCKCALIBRATION) -> NTSTATUS {
    enter("D3DKMTQueryClockCalibration", args, |process, args| {
        let adapter = &process.get_adapter(args.hAdapter)?.adapter;
        adapter::check_running(adapter)?;
        let (node, engine) = (args.NodeOrdinal, args.PhysicalAdapterIndex);
        node_at(adapter, node, engine)?;
        let mut data = DXGK_GPUCLOCKDATA::zeroed();
        adapter.miniport.calibrate_gpu_clock(adapter.context().raw(), node, engine, &mut data).ok()?;
        // This system's rule: the page says what the number is, and nothing of 0.
        if data.GpuFrequency == 0 {
            let why = format!(
                "DxgkDdiCalibrateGpuClock of node {node} answered GpuFrequency 0, and expected are ticks a second [d3dkmdt: DXGK_GPUCLOCKDATA]"
            );
            return Err(refused(STATUS_DRIVER_INTERNAL_ERROR, why));
        }
        args.ClockData = data;
        Ok(STATUS_SUCCESS)
    })
}

/// Tells the driver. [d3dkmddi: DXGKDDI_SETSTABLEPOWERSTATE; d3dkmthk: D3DKMTSetStablePowerState]
pub(super) unsafe extern "win64" fn set_stable_power_state(args: *mut D3DKMT_SETSTABLEPOWERSTATE) -> NTSTATUS {
    enter_read_only("D3DKMTSetStablePowerState", args, |process, args| {
        let adapter = &process.get_adapter(args.hAdapter)?.adapter;
        adapter::check_running(adapter)?;
        if !matches!(args.Enabled, 0 | 1) {
            let why = format!("Enabled is {}, and expected is 0 or 1", args.Enabled);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let told = DXGKARG_SETSTABLEPOWERSTATE { Enabled: args.Enabled };
        adapter.miniport.set_stable_power_state(adapter.context().raw(), &told).ok()?;
        Ok(STATUS_SUCCESS)
    })
}

/// Puts the device in error, as a fault of its work does; for good. Errors: STATUS_INVALID_PARAMETER for a reason that there is not.
/// [d3dkmthk: D3DKMTMarkDeviceAsError]
pub(super) unsafe extern "win64" fn mark_device_as_error(args: *mut D3DKMT_MARKDEVICEASERROR) -> NTSTATUS {
    enter_read_only("D3DKMTMarkDeviceAsError", args, |process, args| {
        use D3DKMT_DEVICE_ERROR_REASON as Reason;
        let device = process.get_device(args.hDevice)?;
        let reasons = [Reason::D3DKMT_DEVICE_ERROR_REASON_GENERIC, Reason::D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR];
        if !reasons.contains(&args.Reason) {
            let why = format!("Reason is {}, which is none of D3DKMT_DEVICE_ERROR_REASON", args.Reason.0);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        device.adapter.vidsch().give_device_up(&device);
        Ok(STATUS_SUCCESS)
    })
}

/// Every process here outlives the removal of an adapter: its devices are in error, and nothing else of it is touched. [d3dkmthk:
/// D3DKMTGetProcessDeviceRemovalSupport]
pub(super) unsafe extern "win64" fn get_process_device_removal_support(
    args: *mut D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT,
) -> NTSTATUS {
    enter("D3DKMTGetProcessDeviceRemovalSupport", args, |process, args| {
        process::with(process, args.hProcess, PROCESS_QUERY_INFORMATION | PROCESS_QUERY_LIMITED_INFORMATION, |_| {
            Ok(())
        })?;
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let why = || refused(STATUS_INVALID_PARAMETER, "AdapterLuid is that of no adapter");
        machine.adapter(args.AdapterLuid).ok_or_else(why)?;
        args.Support = 1;
        Ok(STATUS_SUCCESS)
    })
}

/// Waits until everything that the device had queued when it was called is done, waits and signals too. Errors: STATUS_DEVICE_REMOVED for a device in error, also one
/// that comes to be while this waits. [d3dkmthk: D3DKMTWaitForIdle]
pub(super) unsafe extern "win64" fn wait_for_idle(args: *mut D3DKMT_WAITFORIDLE) -> NTSTATUS {
    enter_read_only("D3DKMTWaitForIdle", args, |process, args| {
        // Whoever destroys the device ends the wait.
        let device = process.get_device(args.hDevice)?.let_go();
        device.check()?;
        let work = device.adapter.vidsch().work_of(&device);
        await_work(process, &device, || work.is_over())?;
        device.check()?;
        Ok(STATUS_SUCCESS)
    })
}

/// Waits until work of a device is done, or the device is in error. The caller is outside the power gate, for that may take for ever.
///
/// # Errors
/// Why nobody should wait any longer.
fn await_work(process: &Process, device: &Device, is_done: impl Fn() -> bool) -> Result<(), Failure> {
    while !is_done() && device.error().is_none() {
        ends(process)?;
        if !device.adapter.relax() {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(())
}

/// What is about to be destroyed does its work first, for which the device is woken. The device is in D0 until the answer is dropped.
///
/// # Errors
/// Why nobody should wait any longer.
pub(super) fn finish_work<'a>(
    process: &'a Process,
    device: &Device,
    is_done: impl Fn() -> bool,
) -> Result<Use<'a>, Failure> {
    drop(where_needed(process, || true));
    await_work(process, device, is_done)?;
    Ok(where_needed(process, || true))
}

/// # Errors
/// Why nobody should wait any longer.
fn ends(process: &Process) -> Result<(), Failure> {
    match process.has_exited() {
        true => Err(refused(STATUS_ACCESS_DENIED, "the process has exited")),
        false if process.machine().verifier().is_stopped() => Err(STATUS_DEVICE_REMOVED.into()),
        false => Ok(()),
    }
}

/// The device keeps the number, as an OpenGL driver wants it; nothing is presented that it could limit. Setting 0 is setting the default. Errors:
/// STATUS_INVALID_PARAMETER for a kind that the enumeration does not have. [d3dkmthk: D3DKMT_SETQUEUEDLIMIT]
pub(super) unsafe extern "win64" fn set_queued_limit(args: *mut D3DKMT_SETQUEUEDLIMIT) -> NTSTATUS {
    enter("D3DKMTSetQueuedLimit", args, |process, args| {
        use D3DKMT_QUEUEDLIMIT_TYPE as Kind;
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        match args.Type {
            // SAFETY: both arms of the union are numbers.
            Kind::D3DKMT_SET_QUEUEDLIMIT_PRESENT => device.set_present_limit(unsafe { args.u.QueuedPresentLimit }),
            Kind::D3DKMT_GET_QUEUEDLIMIT_PRESENT => args.u.QueuedPresentLimit = device.present_limit(),
            other => {
                let why = format!("Type is {}, which is none of D3DKMT_QUEUEDLIMIT_TYPE", other.0);
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
        }
        Ok(STATUS_SUCCESS)
    })
}

/// Contexts here have GPU virtual addresses: D3DKMTCreateContextVirtual and D3DKMTCreateHwContext create them, and
/// D3DKMTCreateDevice refuses LegacyMode. [d3dkmthk: D3DKMTCreateContext]
pub(super) unsafe extern "win64" fn create_context(args: *mut D3DKMT_CREATECONTEXT) -> NTSTATUS {
    enter("D3DKMTCreateContext", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        let why = "the adapter has GPU virtual addresses: D3DKMTCreateContextVirtual and D3DKMTCreateHwContext make its contexts";
        Err(refused(STATUS_NOT_SUPPORTED, why))
    })
}

/// Lists of allocations and patch locations are for contexts without GPU virtual addresses, which there are none of; contexts take
/// D3DKMTSubmitCommand. [d3dkmthk: D3DKMTRender]
pub(super) unsafe extern "win64" fn render(args: *mut D3DKMT_RENDER) -> NTSTATUS {
    enter("D3DKMTRender", args, |process, args| {
        // SAFETY: both arms of the union are handles.
        let context = unsafe { args.u.hContext };
        if process.get_packet_context(context).is_err() {
            process.get_hw_context(context)?;
        }
        let why = "hContext has GPU virtual addresses, and lists of allocations and patch locations are for others: D3DKMTSubmitCommand submits to it";
        Err(refused(STATUS_NOT_SUPPORTED, why))
    })
}
