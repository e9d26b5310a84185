//! What an adapter of this driver tells of itself over the thunks: a text for reports from machines that nobody here has seen.

use campanile_hw::private::{AdapterData, MAGIC};
use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_ENGINE_TYPE;
use wddm_ddi::kmt::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID, NTSTATUS};

use crate::kmt::Kmt;

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
    lines.extend(driver(kmt, adapter));
    lines.extend(system(kmt, adapter));
    lines.extend(nodes(kmt, adapter));
    // A handle that the system refuses to close ends with the process.
    let _ = kmt.close_adapter(adapter);
    Ok(lines)
}

fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

/// What the driver answers to its own user-mode driver.
fn driver(kmt: Kmt, adapter: D3DKMT_HANDLE) -> Vec<String> {
    let mut bytes = [0; AdapterData::SIZE];
    let status = kmt.query(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE, &mut bytes);
    if !status.is_success() {
        return vec![format!("driver: KMTQAITYPE_UMDRIVERPRIVATE failed with {status}")];
    }
    let data = AdapterData::from_bytes(&bytes);
    if data.magic != MAGIC {
        return vec!["driver: another one".to_owned()];
    }
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
    [kind, scheduling, fences].concat()
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

fn node(kmt: Kmt, adapter: D3DKMT_HANDLE, ordinal: u32) -> Result<String, NTSTATUS> {
    let mut metadata = D3DKMT_NODEMETADATA::zeroed();
    metadata.NodeOrdinalAndAdapterIndex = ordinal;
    let bytes = std::ptr::from_mut(&mut metadata).cast::<u8>();
    // SAFETY: a packed structure of integers is as many bytes as its size, borrowed exclusively for the call.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, size_of::<D3DKMT_NODEMETADATA>()) };
    kmt.query(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_NODEMETADATA, bytes).ok()?;
    let (kind, name, flags) = (metadata.NodeData.EngineType, metadata.NodeData.FriendlyName, metadata.NodeData.Flags);
    let name: Vec<u16> = name.into_iter().take_while(|unit| *unit != 0).collect();
    let kind = match kind {
        DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_OTHER => "other".to_owned(),
        DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_COPY => "copy".to_owned(),
        DXGK_ENGINE_TYPE(number) => format!("type {number}"),
    };
    let (contexts, user) = (yes(flags.ContextSchedulingSupported()), yes(flags.UserModeSubmission()));
    let name = String::from_utf16_lossy(&name);
    Ok(format!("node {ordinal}: {kind} \"{name}\", hardware contexts: {contexts}, user-mode submission: {user}"))
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
            "compute-only: yes",
            "hardware scheduling, enabled: yes",
            "native fences, as the system tells: yes",
        ] {
            assert!(lines.iter().any(|other| other == line), "{line}: {text}");
        }
        assert_eq!(lines.iter().filter(|line| line.starts_with("node ")).count() as u32, NODES, "{text}");
        assert!(!text.contains("failed"), "{text}");
    }
}
