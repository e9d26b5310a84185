//! What an adapter of this driver tells of itself over the thunks: a text for reports from machines that nobody here has seen.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_ENGINE_TYPE;
use wddm_ddi::kmt::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID, NTSTATUS};

use crate::kmt::Kmt;
use crate::rig::{RawQueue, Rig, user_mode_flags};
use crate::{Failure, granted};

/// More nodes than an adapter has, whose masks of nodes are 64 bits wide.
const NODES_MAX: u32 = 64;

/// Lines of a name and what the adapter answers. A question that fails is told with its status, and the others are asked all the same.
///
/// # Errors
/// The adapter cannot be opened.
pub fn describe(kmt: Kmt, luid: LUID) -> Result<Vec<String>, NTSTATUS> {
    let adapter = kmt.open_adapter(luid)?;
    let LUID { HighPart: high, LowPart: low } = luid;
    let mut lines = vec![format!("adapter: {high:x}:{low:08x}")];
    lines.extend(name(kmt, adapter));
    lines.extend(driver(kmt, adapter));
    lines.extend(system(kmt, adapter));
    lines.extend(nodes(kmt, adapter));
    // A handle that the system refuses to close ends with the process.
    let _ = kmt.close_adapter(adapter);
    Ok(lines)
}

/// How queues submit on each node of the adapter, and why not from user mode where they do not: each step that user-mode submission needs
/// is tried, and the first that fails is told.
///
/// # Errors
/// A sentence if the adapter cannot be opened or no device can be created on it.
pub fn submission(kmt: Kmt, luid: LUID) -> Result<Vec<String>, Failure> {
    let adapter = kmt.open_adapter(luid).map_err(|status| Failure::new(format!("opening the adapter: {status}")))?;
    let rig = Rig::on_adapter(kmt, adapter)?;
    let nodes = [(NODE_COMPUTE, "compute"), (NODE_COPY, "copy")];
    Ok(nodes.map(|(node, name)| format!("node {node} ({name}): {}", submission_of(&rig, node))).to_vec())
}

/// What is not enabled on the way to user-mode submission, as driver and operating system tell it; `None` if all of it is.
fn withheld(rig: &Rig) -> Option<(bool, String)> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let told = |kind, name: &str, is_set: fn(u32) -> bool| match rig.kmt.query_word(rig.adapter, kind) {
        Ok(word) if is_set(word) => None,
        Ok(_) => Some(format!("the operating system reports {name} as 0")),
        Err(status) => Some(format!("the question for {name} failed with {status}")),
    };
    let scheduling = told(Kind::KMTQAITYPE_WDDM_2_7_CAPS, "HwSchEnabled of D3DKMT_WDDM_2_7_CAPS", |word| {
        D3DKMT_WDDM_2_7_CAPS::from_bits(word).HwSchEnabled()
    });
    if let Some(reason) = scheduling {
        return Some((false, format!("hardware scheduling is not enabled: {reason}")));
    }
    let fences = told(Kind::KMTQAITYPE_WDDM_3_1_CAPS, "NativeGpuFenceSupported of D3DKMT_WDDM_3_1_CAPS", |word| {
        D3DKMT_WDDM_3_1_CAPS::from_bits(word).NativeGpuFenceSupported()
    });
    if let Some(reason) = fences {
        return Some((true, format!("native fences are not enabled: {reason}")));
    }
    let features = match rig.kmt.driver_data(rig.adapter) {
        Ok(Some(data)) => data.features,
        Ok(None) => return Some((true, "the driver is another one".to_owned())),
        Err(status) => return Some((true, format!("KMTQAITYPE_UMDRIVERPRIVATE failed with {status}"))),
    };
    let missing = [(1, "native fences"), (2, "user-mode submission")].into_iter().find(|(bit, _)| features & bit == 0);
    missing.map(|(_, name)| (true, format!("{name} is not enabled: the driver was not granted it")))
}

/// A sentence that says by which call or store a queue of the node submits, and what user-mode submission is withheld for, or which step
/// towards it failed.
fn submission_of(rig: &Rig, node: u32) -> String {
    const CALL: &str = "each submission is a call that the GPU schedules (D3DKMTSubmitCommandToHwQueue)";
    const PACKETS: &str = "each submission is a call that the operating system schedules (D3DKMTSubmitCommand)";
    if let Some((schedules_in_hardware, reason)) = withheld(rig) {
        return format!("{}, because {reason}", if schedules_in_hardware { CALL } else { PACKETS });
    }
    let context = match rig.context(node) {
        Ok(context) => context,
        Err(status) => return format!("{PACKETS}, because D3DKMTCreateHwContext answers {status}"),
    };
    if let Err(status) = rig.create_fence(0) {
        return format!("{CALL}, because D3DKMTCreateNativeFence answers {status}");
    }
    if let Err(status) = rig.hw_queue(context, user_mode_flags()) {
        return format!("{CALL}, because D3DKMTCreateHwQueue answers {status}");
    }
    let connected = |queue: RawQueue| granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell");
    match rig.queue(node).and_then(connected) {
        Ok(()) => "user mode writes the ring and rings the doorbell: hardware scheduling, native fences and user-mode \
                   submission are enabled"
            .to_owned(),
        Err(failure) => format!("{CALL}, because no doorbell could be had: {failure}"),
    }
}

fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

/// What the driver answers to its own user-mode driver.
/// What setup has called the driver, and its version.
fn name(kmt: Kmt, adapter: D3DKMT_HANDLE) -> Vec<String> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let mut description = D3DKMT_DRIVER_DESCRIPTION::zeroed();
    let described = match kmt.ask(adapter, Kind::KMTQAITYPE_DRIVER_DESCRIPTION, &mut description).ok() {
        Ok(()) => {
            let units = description.DriverDescription.split(|unit| *unit == 0).next().unwrap_or_default();
            format!("description: {}", String::from_utf16_lossy(units))
        }
        Err(status) => format!("description: the question failed with {status}"),
    };
    let mut version = D3DKMT_KMD_DRIVER_VERSION::zeroed();
    let numbered = match kmt.ask(adapter, Kind::KMTQAITYPE_KMD_DRIVER_VERSION, &mut version).ok() {
        Ok(()) => {
            let bits = version.DriverVersion.QuadPart.cast_unsigned();
            let fields = [48, 32, 16, 0].map(|shift| (bits >> shift & 0xffff).to_string());
            format!("version of the driver: {}", fields.join("."))
        }
        Err(status) => format!("version of the driver: the question failed with {status}"),
    };
    vec![described, numbered]
}

fn driver(kmt: Kmt, adapter: D3DKMT_HANDLE) -> Vec<String> {
    let data = match kmt.driver_data(adapter) {
        Ok(Some(data)) => data,
        Ok(None) => return vec!["driver: another one".to_owned()],
        Err(status) => return vec![format!("driver: KMTQAITYPE_UMDRIVERPRIVATE failed with {status}")],
    };
    let features = data.features;
    vec![
        format!("interface of the hardware: {:#x}", data.version),
        format!("capabilities of the hardware: {:#x}", data.caps),
        format!("doorbells: {}", data.doorbells),
        format!("VRAM: {} MiB", data.vram >> 20),
        format!("clock: {} Hz", data.clock_hz),
        format!("native fences, granted to the driver: {}", yes(features & 1 != 0)),
        format!("user-mode submission, granted to the driver: {}", yes(features & 2 != 0)),
    ]
}

/// The capabilities of the adapter that the operating system reports.
fn system(kmt: Kmt, adapter: D3DKMT_HANDLE) -> Vec<String> {
    let ask = |kind, name: &str, lines: &dyn Fn(u32) -> Vec<String>| match kmt.query_word(adapter, kind) {
        Ok(word) => lines(word),
        Err(status) => vec![format!("{name}: the question failed with {status}")],
    };
    let kind = ask(KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERTYPE, "compute-only", &|word| {
        vec![format!("compute-only: {}", yes(D3DKMT_ADAPTERTYPE::from_bits(word).ComputeOnly()))]
    });
    let scheduling = ask(KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_2_7_CAPS, "hardware scheduling", &|word| {
        let caps = D3DKMT_WDDM_2_7_CAPS::from_bits(word);
        let (supported, enabled) = (yes(caps.HwSchSupported()), yes(caps.HwSchEnabled()));
        vec![format!("hardware scheduling, supported: {supported}"), format!("hardware scheduling, enabled: {enabled}")]
    });
    let fences = ask(KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_3_1_CAPS, "native fences of the system", &|word| {
        let supported = D3DKMT_WDDM_3_1_CAPS::from_bits(word).NativeGpuFenceSupported();
        vec![format!("native fences, as the system tells: {}", yes(supported))]
    });
    let model = ask(KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_DRIVERVERSION, "driver model", &|version| {
        vec![format!("driver model: WDDM {}.{}", version / 1000, version % 1000 / 100)]
    });
    [model, kind, scheduling, fences].concat()
}

/// The nodes, up to the first that does not exist.
fn nodes(kmt: Kmt, adapter: D3DKMT_HANDLE) -> Vec<String> {
    let mut lines = Vec::new();
    for ordinal in 0..NODES_MAX {
        match node(kmt, adapter, ordinal) {
            Ok(line) => lines.push(line),
            Err(status) if ordinal == 0 => return vec![format!("nodes: the first one failed with {status}")],
            Err(_) => break,
        }
    }
    lines
}

/// The metadata of a node.
///
/// # Errors
/// What D3DKMTQueryAdapterInfo answers: STATUS_INVALID_PARAMETER for a node that the adapter does not have. [d3dkmthk: D3DKMT_NODEMETADATA]
pub(crate) fn metadata(kmt: Kmt, adapter: D3DKMT_HANDLE, ordinal: u32) -> Result<D3DKMT_NODEMETADATA, NTSTATUS> {
    let mut metadata = D3DKMT_NODEMETADATA::zeroed();
    metadata.NodeOrdinalAndAdapterIndex = ordinal;
    let bytes = std::ptr::from_mut(&mut metadata).cast::<u8>();
    // SAFETY: a packed structure of integers is as many bytes as its size, borrowed exclusively for the call.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, size_of::<D3DKMT_NODEMETADATA>()) };
    kmt.query(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_NODEMETADATA, bytes).ok()?;
    Ok(metadata)
}

/// The type of an engine in words. [d3dkmddi: DXGK_ENGINE_TYPE]
fn kind_of(kind: DXGK_ENGINE_TYPE) -> String {
    const NAMES: [&str; 10] = [
        "other",
        "3D",
        "video decode",
        "video encode",
        "video processing",
        "scene assembly",
        "copy",
        "overlay",
        "crypto",
        "video codec",
    ];
    let name = usize::try_from(kind.0).ok().and_then(|number| NAMES.get(number));
    name.map_or_else(|| format!("type {}", kind.0), |name| (*name).to_owned())
}

fn node(kmt: Kmt, adapter: D3DKMT_HANDLE, ordinal: u32) -> Result<String, NTSTATUS> {
    let metadata = metadata(kmt, adapter, ordinal)?;
    let (kind, name, flags) = (metadata.NodeData.EngineType, metadata.NodeData.FriendlyName, metadata.NodeData.Flags);
    let name: Vec<u16> = name.into_iter().take_while(|unit| *unit != 0).collect();
    let kind = kind_of(kind);
    let (contexts, user) = (yes(flags.ContextSchedulingSupported()), yes(flags.UserModeSubmission()));
    // Only nodes of type other have to have a name.
    let name = if name.is_empty() { String::new() } else { format!(" \"{}\"", String::from_utf16_lossy(&name)) };
    Ok(format!("node {ordinal}: {kind}{name}, hardware contexts: {contexts}, user-mode submission: {user}"))
}

#[cfg(all(test, feature = "inside"))]
mod tests {
    use campanile_hw::registers::NODES;
    use dxgkrnl::Process;
    use testbed::setup::{System, SystemOptions};

    use super::*;

    #[test]
    fn the_simulated_adapter_tells_its_features_and_nodes() {
        let system = System::boot(&SystemOptions::default()).unwrap();
        let process = Process::new(system.machine(), "describe");
        let lines = {
            let _attached = process.attach();
            describe(Kmt::new(), system.luid()).unwrap()
        };
        process.exit();
        system.shutdown().unwrap();
        let text = lines.join("\n");
        for line in [
            "native fences, granted to the driver: yes",
            "user-mode submission, granted to the driver: yes",
            "driver model: WDDM 3.2",
            "compute-only: yes",
            "hardware scheduling, enabled: yes",
            "native fences, as the system tells: yes",
        ] {
            assert!(lines.iter().any(|other| other == line), "{line}: {text}");
        }
        assert_eq!(lines.iter().filter(|line| line.starts_with("node ")).count() as u32, NODES, "{text}");
        assert!(!text.contains("failed"), "{text}");
    }

    #[test]
    fn engines_are_named_by_their_types() {
        use DXGK_ENGINE_TYPE as Type;
        for (kind, name) in [
            (Type::DXGK_ENGINE_TYPE_OTHER, "other"),
            (Type::DXGK_ENGINE_TYPE_3D, "3D"),
            (Type::DXGK_ENGINE_TYPE_COPY, "copy"),
            (Type::DXGK_ENGINE_TYPE_CRYPTO, "crypto"),
            (DXGK_ENGINE_TYPE(99), "type 99"),
        ] {
            assert_eq!(kind_of(kind), name);
        }
    }

    #[test]
    fn each_withheld_feature_is_named_as_the_reason_of_slower_submission() {
        for subset in 0..8 {
            let mut options = SystemOptions::default();
            let [scheduling, fences, user_mode] = [1, 2, 4].map(|bit| subset & bit != 0);
            options.features.hardware_scheduling = scheduling;
            options.features.native_fence = fences;
            options.features.user_mode_submission = user_mode;
            let (how, why) = match (scheduling, fences, user_mode) {
                (false, _, _) => ("the operating system schedules", "because hardware scheduling is not enabled"),
                (true, false, _) => ("the GPU schedules", "because native fences are not enabled"),
                (true, true, false) => ("the GPU schedules", "because user-mode submission is not enabled"),
                (true, true, true) => ("user mode writes the ring", "are enabled"),
            };
            let system = System::boot(&options).unwrap();
            let process = Process::new(system.machine(), "submission");
            let lines = {
                let _attached = process.attach();
                submission(Kmt::new(), system.luid()).unwrap()
            };
            process.exit();
            system.shutdown().unwrap();
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert!(lines.iter().all(|line| line.contains(how) && line.contains(why)), "{why}: {lines:?}");
        }
    }
}
