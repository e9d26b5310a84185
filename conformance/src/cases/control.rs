//! Adapters by name, features and clocks, devices as a whole, and what an adapter with GPU virtual addresses only refuses.

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COPY, NODES};
use wddm_ddi::Zeroed;
use wddm_ddi::km::{DXGK_FEATURE_ID, DXGK_GPUCLOCKDATA};
use wddm_ddi::kmt::KMTQUERYADAPTERINFOTYPE as Kind;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::caps::adapter;
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, DEVICE_LOST, WRONG_KIND};
use crate::rig::fill;
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Control";
    "Control.ComputeAdaptersAreNotListed" on Boot::Shared, "d3dkmtenumadapters":
        "D3DKMTEnumAdapters, which has no filter, lists no adapter that only computes, and opens none."
        => enumeration;
    "Control.DeviceNameOpensTheAdapter" on Boot::Shared, "d3dkmtopenadapterfromdevicename":
        "The path of the hardware key names the adapter's device interface, which opens it whatever the case of the letters; other names are not found."
        => device_name;
    "Control.RegistryKeysHaveTheirLength" on Boot::Shared, "d3dkmt_query_physical_adapter_pnp_key":
        "The paths of both keys of a physical adapter come with their length, which is told too where the place is too small; other keys and adapters are refused."
        => keys;
    "Control.FeaturesAgreeWithCapabilities" on Boot::Shared, "d3dkmtisfeatureenabled":
        "Hardware scheduling and native fences are enabled if the capabilities say so; a feature that nobody knows is refused."
        => features;
    "Control.GlobalFeaturesHaveNoAdapter" on Boot::Shared, "d3dkmt_isfeatureenabled":
        "A global feature is asked for without an adapter, and is refused with one; a feature of adapters is refused without."
        => global_features;
    "Control.ClocksGoOnTogether" on Boot::Shared, "d3dkmtqueryclockcalibration":
        "Both clocks of a node have moved on at a second look, by times that agree; nodes that there are not are refused."
        => clocks;
    "Control.FiguresOfTheHardwareAreTold" on Boot::Shared, "kmtqueryadapterinfotype":
        "The clock of every node and its highest are those of the clock calibration, or zero for an idle node, and what nobody measures is zero. What there is not is refused, and no workload is tracked."
        => figures;
    "Control.MarkedDeviceIsInError" on Boot::Shared, "d3dkmtmarkdeviceaserror":
        "A device that user mode gives up is in error and takes no request any more; others go on, and another reason is refused."
        => mark;
    "Control.IdleWaitEndsWithTheWork" on Boot::Shared, "d3dkmtwaitforidle":
        "D3DKMTWaitForIdle returns when everything that the device has queued is done, signals behind the work too."
        => idle;
    "Control.StablePowerStateIsTaken" on Boot::Shared, "d3dkmtsetstablepowerstate":
        "The driver takes a stable power state and its end; other values are refused."
        => stable;
    "Control.RemovalIsSupported" on Boot::Shared, "d3dkmtgetprocessdeviceremovalsupport":
        "The calling process outlives the removal of an adapter; other processes and adapters are refused."
        => removal;
    "Control.FirstModelIsNotSupported" on Boot::Shared, "d3dkmtrender":
        "Contexts and submissions of the model before GPU virtual addresses are not supported, and handles that are bad are named."
        => first_model;
    "Control.QueuedLimitIsKept" on Boot::Shared, "d3dkmt_setqueuedlimit":
        "The limit of queued presents of a device is 3, then what it was set to, and 3 again after a 0; other devices keep theirs. Other kinds and handles are refused and change nothing."
        => queued_limit;
    "Control.NothingIsAResourceOfOthers" on Boot::Shared, "d3dkmtqueryresourceinfo":
        "Thunks about shared resources refuse handles of nothing and of other objects. This system's rule for the status: it shares no allocations."
        => resources;
}

fn enumeration(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let mut arguments = D3DKMT_ENUMADAPTERS::zeroed();
    arguments.NumAdapters = 77;
    granted(kmt.call(kmt.further().D3DKMTEnumAdapters, &mut arguments), "D3DKMTEnumAdapters")?;
    let listed = arguments.Adapters.get(..arguments.NumAdapters as usize);
    let listed = listed.ok_or_else(|| Failure::new(format!("{} adapters", arguments.NumAdapters)))?;
    ensure!(listed.iter().all(|one| one.AdapterLuid != case.luid()), "the adapter is listed");
    ensure!(listed.iter().all(|one| one.hAdapter != 0), "a listed adapter is not open");
    for one in listed {
        granted(kmt.close_adapter(one.hAdapter), "closing what was listed")?;
    }
    Ok(())
}

/// What the thunk returned, the text without its NUL, and the number of units.
fn key(case: &Case, index: u32, kind: D3DKMT_PNP_KEY_TYPE, capacity: u32) -> Result<(NTSTATUS, String, u32), Failure> {
    let mut text = [0xffffu16; 260];
    let mut count = capacity;
    let mut question = D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY::zeroed();
    (question.PhysicalAdapterIndex, question.PnPKeyType) = (index, kind);
    (question.pDest, question.pCchDest) = (text.as_mut_ptr(), &raw mut count);
    let status = case.kmt().ask(adapter(case)?, Kind::KMTQAITYPE_PHYSICALADAPTERPNPKEY, &mut question);
    let written = text.split(|unit| *unit == 0).next().unwrap_or_default();
    let touched = text.contains(&0);
    Ok((status, if touched { String::from_utf16_lossy(written) } else { String::new() }, count))
}

const HARDWARE: D3DKMT_PNP_KEY_TYPE = D3DKMT_PNP_KEY_TYPE::D3DKMT_PNP_KEY_HARDWARE;
const SOFTWARE: D3DKMT_PNP_KEY_TYPE = D3DKMT_PNP_KEY_TYPE::D3DKMT_PNP_KEY_SOFTWARE;

fn keys(case: &Case) -> Result<(), Failure> {
    for (kind, part) in [(HARDWARE, "\\Enum\\"), (SOFTWARE, "\\Class\\")] {
        let (status, text, count) = key(case, 0, kind, 260)?;
        granted(status, "the key")?;
        ensure!(text.starts_with("\\Registry\\Machine\\") && text.contains(part), "the key is {text}");
        ensure_eq!(count as usize, text.encode_utf16().count() + 1, "units of {text} with the NUL");
        let (status, short, needed) = key(case, 0, kind, count - 1)?;
        refused(status, &[STATUS_BUFFER_TOO_SMALL], "a place that is one unit short")?;
        ensure_eq!((short.as_str(), needed), ("", count), "what a short place holds, and the units that are needed");
    }
    refused(key(case, 0, D3DKMT_PNP_KEY_TYPE(0), 260)?.0, BAD_ARGUMENT, "key 0")?;
    refused(key(case, 77, HARDWARE, 260)?.0, BAD_ARGUMENT, "physical adapter 77")
}

fn open(case: &Case, name: &str) -> (NTSTATUS, D3DKMT_OPENADAPTERFROMDEVICENAME) {
    let units: Vec<u16> = name.encode_utf16().chain([0]).collect();
    let mut arguments = D3DKMT_OPENADAPTERFROMDEVICENAME::zeroed();
    arguments.pDeviceName = units.as_ptr();
    (case.kmt().call(case.kmt().further().D3DKMTOpenAdapterFromDeviceName, &mut arguments), arguments)
}

fn device_name(case: &Case) -> Result<(), Failure> {
    let (status, path, _) = key(case, 0, HARDWARE, 260)?;
    granted(status, "the hardware key")?;
    let (_, instance) = path.split_once("\\Enum\\").ok_or_else(|| Failure::new(format!("the key is {path}")))?;
    let name = format!("\\\\?\\{}#{{1024e4c9-47c9-48d3-b4a8-f9df78523b53}}", instance.replace('\\', "#"));
    for name in [name.clone(), name.to_uppercase(), name.to_lowercase()] {
        let (status, opened) = open(case, &name);
        granted(status, &name)?;
        ensure_eq!(opened.AdapterLuid, case.luid(), "adapter of {name}");
        granted(case.kmt().close_adapter(opened.hAdapter), "closing it")?;
    }
    for name in ["", "\\\\.\\DISPLAY1", &name[..name.len() - 1]] {
        refused(open(case, name).0, &[STATUS_OBJECT_NAME_NOT_FOUND, STATUS_INVALID_PARAMETER], name)?;
    }
    Ok(())
}

fn features(case: &Case) -> Result<(), Failure> {
    let ask = |feature| -> Result<(NTSTATUS, D3DKMT_ISFEATUREENABLED), Failure> {
        let mut arguments = D3DKMT_ISFEATUREENABLED::zeroed();
        (arguments.hAdapter, arguments.FeatureId) = (adapter(case)?, feature);
        Ok((case.kmt().call(case.kmt().further().D3DKMTIsFeatureEnabled, &mut arguments), arguments))
    };
    let scheduling: D3DKMT_WDDM_2_7_CAPS = super::adapter_info::get(case, Kind::KMTQAITYPE_WDDM_2_7_CAPS)?;
    let fences: D3DKMT_WDDM_3_1_CAPS = super::adapter_info::get(case, Kind::KMTQAITYPE_WDDM_3_1_CAPS)?;
    for (feature, enabled) in [
        (DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH, scheduling.HwSchEnabled()),
        (DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE, fences.NativeGpuFenceSupported()),
    ] {
        let (status, told) = ask(feature)?;
        granted(status, "D3DKMTIsFeatureEnabled")?;
        ensure_eq!(told.Result.Bits.Enabled(), enabled, "feature {}", feature.0);
        ensure_eq!(told.Result.Version != 0, enabled, "a version of feature {}", feature.0);
        ensure!(told.Result.Bits.KnownFeature(), "feature {} is known", feature.0);
    }
    refused(ask(DXGK_FEATURE_ID(0x0fff_ffff))?.0, BAD_ARGUMENT, "a feature that nobody knows")
}

fn global_features(case: &Case) -> Result<(), Failure> {
    let ask = |adapter, feature| {
        let mut arguments = D3DKMT_ISFEATUREENABLED::zeroed();
        (arguments.hAdapter, arguments.FeatureId) = (adapter, feature);
        (case.kmt().call(case.kmt().further().D3DKMTIsFeatureEnabled, &mut arguments), arguments.Result.Bits)
    };
    let global = DXGK_FEATURE_ID::DXGK_FEATURE_GPUVAIOMMU;
    let (status, told) = ask(0, global);
    granted(status, "a global feature without an adapter")?;
    ensure!(told.KnownFeature(), "the feature is not known");
    refused(ask(adapter(case)?, global).0, BAD_ARGUMENT, "a global feature with an adapter")?;
    for feature in [DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE, DXGK_FEATURE_ID(0x0fff_ffff)] {
        refused(ask(0, feature).0, BAD_HANDLE, "a feature of adapters without an adapter")?;
    }
    Ok(())
}

fn clocks(case: &Case) -> Result<(), Failure> {
    let read = |node: u32, engine: u32| -> Result<(NTSTATUS, DXGK_GPUCLOCKDATA), Failure> {
        let mut arguments = D3DKMT_QUERYCLOCKCALIBRATION::zeroed();
        (arguments.hAdapter, arguments.NodeOrdinal, arguments.PhysicalAdapterIndex) = (adapter(case)?, node, engine);
        let status = case.kmt().call(case.kmt().table().D3DKMTQueryClockCalibration, &mut arguments);
        Ok((status, arguments.ClockData))
    };
    let (status, first) = read(0, 0)?;
    granted(status, "D3DKMTQueryClockCalibration")?;
    std::thread::sleep(std::time::Duration::from_millis(5));
    let (_, second) = read(0, 0)?;
    let (frequency, before, after) = (first.GpuFrequency, first.GpuClockCounter, second.GpuClockCounter);
    let (cpu_before, cpu_after) = (first.CpuClockCounter, second.CpuClockCounter);
    ensure!(
        frequency > 0 && after > before && cpu_after > cpu_before,
        "{before} to {after}, {cpu_before} to {cpu_after}"
    );
    let gpu = (after - before) as u128 * 10_000_000 / u128::from(frequency);
    let cpu = u128::from(cpu_after - cpu_before);
    ensure!(gpu <= cpu * 2 + 10_000 && cpu <= gpu * 2 + 10_000, "{gpu} ticks of the GPU in {cpu} of the processor");
    refused(read(77, 0)?.0, BAD_ARGUMENT, "node 77")?;
    refused(read(0, 77)?.0, BAD_ARGUMENT, "physical adapter 77")
}

fn figures(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let adapter = adapter(case)?;
    for ordinal in 0..NODES {
        let mut clock = D3DKMT_QUERYCLOCKCALIBRATION::zeroed();
        (clock.hAdapter, clock.NodeOrdinal) = (adapter, ordinal);
        granted(kmt.call(kmt.table().D3DKMTQueryClockCalibration, &mut clock), "D3DKMTQueryClockCalibration")?;
        let hertz = clock.ClockData.GpuFrequency;
        let mut node = D3DKMT_NODE_PERFDATA::zeroed();
        (node.NodeOrdinal, node.Voltage) = (ordinal, 77);
        granted(kmt.ask(adapter, Kind::KMTQAITYPE_NODEPERFDATA, &mut node), "figures of a node")?;
        ensure!(node.Frequency == hertz || node.Frequency == 0, "node {ordinal} at {} Hz of {hertz}", node.Frequency);
        ensure_eq!((node.MaxFrequency, node.MaxFrequencyOC), (hertz, hertz), "highest clock of node {ordinal}");
        ensure_eq!((node.NodeOrdinal, node.PhysicalAdapterIndex), (ordinal, 0), "whose figures these are");
        ensure_eq!((node.Voltage, node.VoltageMax, node.VoltageMaxOC), (0, 0, 0), "voltages that nobody measures");
        ensure!(node.MaxTransitionLatency != 0, "a clock that changes at once");
    }
    let mut node = D3DKMT_NODE_PERFDATA { NodeOrdinal: 77, ..D3DKMT_NODE_PERFDATA::zeroed() };
    refused(kmt.ask(adapter, Kind::KMTQAITYPE_NODEPERFDATA, &mut node), BAD_ARGUMENT, "figures of node 77")?;
    let mut whole = D3DKMT_ADAPTER_PERFDATA { Temperature: 77, ..D3DKMT_ADAPTER_PERFDATA::zeroed() };
    granted(kmt.ask(adapter, Kind::KMTQAITYPE_ADAPTERPERFDATA, &mut whole), "figures of the adapter")?;
    ensure_eq!((whole.Temperature, whole.FanRPM), (0, 0), "what nobody measures");
    let mut limits = D3DKMT_ADAPTER_PERFDATACAPS { TemperatureMax: 77, ..D3DKMT_ADAPTER_PERFDATACAPS::zeroed() };
    granted(kmt.ask(adapter, Kind::KMTQAITYPE_ADAPTERPERFDATA_CAPS, &mut limits), "limits")?;
    ensure_eq!((limits.TemperatureMax, limits.MaxFanRPM), (0, 0), "limits of what nobody measures");
    (whole.PhysicalAdapterIndex, limits.PhysicalAdapterIndex) = (77, 77);
    refused(kmt.ask(adapter, Kind::KMTQAITYPE_ADAPTERPERFDATA, &mut whole), BAD_ARGUMENT, "physical adapter 77")?;
    refused(kmt.ask(adapter, Kind::KMTQAITYPE_ADAPTERPERFDATA_CAPS, &mut limits), BAD_ARGUMENT, "its limits")?;
    let mut tracked = D3DKMT_TRACKEDWORKLOAD_SUPPORT::zeroed();
    tracked.Support = 7;
    granted(kmt.ask(adapter, Kind::KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT, &mut tracked), "tracked workloads")?;
    let support = tracked.Support;
    ensure_eq!(support, 0, "support of tracked workloads");
    Ok(())
}

fn mark(case: &Case) -> Result<(), Failure> {
    let (lost, other) = (case.rig()?, case.rig()?);
    let mark = |reason| {
        let mut arguments = D3DKMT_MARKDEVICEASERROR { hDevice: lost.device, Reason: reason };
        lost.kmt.call(lost.kmt.further().D3DKMTMarkDeviceAsError, &mut arguments)
    };
    refused(mark(D3DKMT_DEVICE_ERROR_REASON(0)), BAD_ARGUMENT, "reason 0")?;
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    ensure_eq!(lost.kmt.execution_state(lost.device)?, active, "state after a refusal");
    granted(mark(D3DKMT_DEVICE_ERROR_REASON::D3DKMT_DEVICE_ERROR_REASON_GENERIC), "D3DKMTMarkDeviceAsError")?;
    ensure!(lost.kmt.execution_state(lost.device)? != active, "the device is active");
    match lost.create(4096, Placement::System) {
        Ok(_) => return Err(Failure::new("a device in error made an allocation")),
        Err(status) => refused(status, DEVICE_LOST, "an allocation of a device in error")?,
    }
    granted(mark(D3DKMT_DEVICE_ERROR_REASON::D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR), "marking it again")?;
    other.memory(4096, Placement::System).map(drop)
}

fn idle(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let wait = |device| {
        let mut arguments = D3DKMT_WAITFORIDLE { hDevice: device };
        rig.kmt.call(rig.kmt.further().D3DKMTWaitForIdle, &mut arguments)
    };
    granted(wait(rig.device), "a device without work")?;
    let memory = rig.memory(4 << 20, Placement::Vram)?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let behind = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    for round in 1..=8u32 {
        let value = rig.packet_submit(&mut queue, &[fill(memory.address, 4 << 20, round)])?;
        granted(rig.context_signal(queue.context, &[(behind.handle, round.into())]), "a signal behind it")?;
        granted(wait(rig.device), "D3DKMTWaitForIdle")?;
        ensure_eq!(behind.value.load(), u64::from(round), "value that is signalled behind the packet");
        ensure!(queue.progress.value.load() >= value, "packet {round} is under way after the wait");
    }
    refused(wait(rig.adapter), WRONG_KIND, "an adapter")?;
    refused(wait(0), BAD_HANDLE, "no device")
}

fn stable(case: &Case) -> Result<(), Failure> {
    let handle = adapter(case)?;
    let set = |adapter, enabled| {
        let mut arguments = D3DKMT_SETSTABLEPOWERSTATE { hAdapter: adapter, Enabled: enabled };
        case.kmt().call(case.kmt().further().D3DKMTSetStablePowerState, &mut arguments)
    };
    for enabled in [1, 0] {
        granted(set(handle, enabled), "D3DKMTSetStablePowerState")?;
    }
    refused(set(handle, 2), BAD_ARGUMENT, "a value of 2")?;
    refused(set(0, 1), BAD_HANDLE, "no adapter")
}

fn removal(case: &Case) -> Result<(), Failure> {
    let ask = |process: usize, luid| {
        let mut arguments = D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT::zeroed();
        (arguments.hProcess, arguments.AdapterLuid) = (std::ptr::without_provenance_mut(process), luid);
        (case.kmt().call(case.kmt().further().D3DKMTGetProcessDeviceRemovalSupport, &mut arguments), arguments.Support)
    };
    ensure_eq!(ask(usize::MAX, case.luid()), (STATUS_SUCCESS, 1), "support of the calling process");
    refused(ask(0x1234, case.luid()).0, BAD_HANDLE, "another process")?;
    let mut nobody = case.luid();
    nobody.LowPart ^= 0x7777_0000;
    refused(ask(usize::MAX, nobody).0, BAD_ARGUMENT, "another adapter")
}

fn first_model(case: &Case) -> Result<(), Failure> {
    const NONE: &[NTSTATUS] = &[STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER];
    let rig = case.rig()?;
    let mut create = D3DKMT_CREATECONTEXT::zeroed();
    create.hDevice = rig.device;
    refused(rig.kmt.call(rig.kmt.further().D3DKMTCreateContext, &mut create), NONE, "D3DKMTCreateContext")?;
    ensure_eq!(create.hContext, 0, "handle of a refused creation");
    create.hDevice = rig.adapter;
    refused(rig.kmt.call(rig.kmt.further().D3DKMTCreateContext, &mut create), WRONG_KIND, "a context of an adapter")?;
    let context = rig.packet_context(NODE_COPY);
    let context = context.map_err(|status| Failure::new(format!("a context: {status}")))?;
    let mut render = D3DKMT_RENDER::zeroed();
    for (handle, allowed) in [(context, NONE), (rig.device, WRONG_KIND)] {
        render.u = D3DKMT_RENDER_Union { hContext: handle };
        refused(rig.kmt.call(rig.kmt.further().D3DKMTRender, &mut render), allowed, "D3DKMTRender")?;
    }
    Ok(())
}

fn queued_limit(case: &Case) -> Result<(), Failure> {
    use D3DKMT_QUEUEDLIMIT_TYPE as Limit;
    const DEFAULT: u32 = 3;
    let (rig, other) = (case.rig()?, case.rig()?);
    let call = |device, kind, limit| {
        let mut arguments = D3DKMT_SETQUEUEDLIMIT::zeroed();
        (arguments.hDevice, arguments.Type) = (device, kind);
        arguments.u = D3DKMT_SETQUEUEDLIMIT_Union { QueuedPresentLimit: limit };
        let status = rig.kmt.call(rig.kmt.further().D3DKMTSetQueuedLimit, &mut arguments);
        // SAFETY: both arms of the union are numbers.
        (status, unsafe { arguments.u.QueuedPresentLimit })
    };
    let get = |device| call(device, Limit::D3DKMT_GET_QUEUEDLIMIT_PRESENT, 77);
    ensure_eq!(get(rig.device), (STATUS_SUCCESS, DEFAULT), "limit of a new device");
    for (set, expected) in [(1, 1), (16, 16), (0, DEFAULT), (5, 5)] {
        granted(call(rig.device, Limit::D3DKMT_SET_QUEUEDLIMIT_PRESENT, set).0, "D3DKMTSetQueuedLimit")?;
        ensure_eq!(get(rig.device), (STATUS_SUCCESS, expected), "limit after {set}");
    }
    ensure_eq!(get(other.device), (STATUS_SUCCESS, DEFAULT), "limit of another device");
    for kind in [Limit(0), Limit(-1), Limit(77)] {
        refused(call(rig.device, kind, 9).0, BAD_ARGUMENT, &format!("kind {}", kind.0))?;
    }
    for kind in [Limit::D3DKMT_SET_QUEUEDLIMIT_PRESENT, Limit::D3DKMT_GET_QUEUEDLIMIT_PRESENT] {
        refused(call(rig.adapter, kind, 9).0, WRONG_KIND, "an adapter")?;
        refused(call(0, kind, 9).0, BAD_HANDLE, "no device")?;
    }
    ensure_eq!(get(rig.device), (STATUS_SUCCESS, 5), "limit after refusals");
    Ok(())
}

fn resources(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let further = rig.kmt.further();
    for handle in [0, rig.device, 0xc000_0042] {
        let mut query = D3DKMT_QUERYRESOURCEINFO::zeroed();
        (query.hDevice, query.hGlobalShare) = (rig.device, handle);
        refused(rig.kmt.call(further.D3DKMTQueryResourceInfo, &mut query), WRONG_KIND, "D3DKMTQueryResourceInfo")?;
        let mut open = D3DKMT_OPENRESOURCE::zeroed();
        (open.hDevice, open.hGlobalShare) = (rig.device, handle);
        refused(rig.kmt.call(further.D3DKMTOpenResource, &mut open), WRONG_KIND, "D3DKMTOpenResource")?;
        refused(rig.kmt.call(further.D3DKMTOpenResource2, &mut open), WRONG_KIND, "D3DKMTOpenResource2")?;
        let mut luid = D3DKMT_GETSHAREDRESOURCEADAPTERLUID::zeroed();
        luid.hGlobalShare = handle;
        refused(rig.kmt.call(further.D3DKMTGetSharedResourceAdapterLuid, &mut luid), WRONG_KIND, "its adapter")?;
        let mut kernel = D3DKMT_OPENRESOURCEFROMNTHANDLE::zeroed();
        (kernel.hDevice, kernel.hNtHandle) = (rig.device, std::ptr::without_provenance_mut(handle as usize));
        refused(
            rig.kmt.call(rig.kmt.table().D3DKMTOpenResourceFromNtHandle, &mut kernel),
            WRONG_KIND,
            "a kernel handle",
        )?;
    }
    Ok(())
}
