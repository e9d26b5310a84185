//! What the adapter tells user mode about itself, for every set of enabled features.

use campanile_hw::private::{AdapterData, MAGIC};
use campanile_hw::registers::{INTERFACE_VERSION, NODE_COMPUTE, NODE_COPY, NODE_PAGING, NODES};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::cases::any_driver_lab::{is_campanile, knows_how_to_hang};
use crate::installed::metadata;
use crate::kmt::BAD_ARGUMENT;
use crate::rig::user_mode_flags;
use crate::{Boot, Case, Failure, Need, refused};

cases! { thunks "Capabilities";
    "Capabilities.NativeFencesAreToldToUserMode" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "User mode finds native fences in the WDDM 3.1 capabilities once driver and system agreed on the feature."
        holds [NativeFence 33]
        => native_fences_told;
    "Capabilities.HardwareSchedulingIsToldToUserMode" on Boot::Shared, "d3dkmt_wddm_2_7_caps":
        "User mode finds hardware scheduling supported and enabled in the WDDM 2.7 capabilities exactly where it can create hardware contexts."
        => hardware_scheduling_told;
    "Capabilities.AdapterIsComputeOnly" on Boot::Shared, "mcdm-implementation-guidelines":
        "The adapter type says compute-only and claims neither display nor software rendering."
        => adapter_is_compute_only;
    "Capabilities.NodesSayWhereUserModeMaySubmit" on Boot::Shared, "user-mode-work-submission":
        "Node metadata carries the user-mode submission flag for the compute and copy nodes exactly where they have queues for it, and never for the paging node."
        holds [UserModeSubmission 8]
        => nodes_say_where;
    "Capabilities.NodeBeyondTheLastIsRefused" on Boot::Shared, "enumerating-gpu-nodes":
        "Metadata of a node number that the adapter does not have is refused as an invalid parameter."
        => node_beyond_last;
    "Capabilities.DriverPrivateAnswerFitsAnyBuffer" on Boot::Shared, "queryadapterinfotype":
        "The driver's private answer never writes past the buffer that user mode gave, whatever its length."
        => private_answer_fits;
}

pub fn adapter(case: &Case) -> Result<D3DKMT_HANDLE, Failure> {
    let open = case.kmt().open_adapter(case.luid());
    open.map_err(|status| Failure::new(format!("opening the adapter failed with {status}")))
}

impl Need {
    /// Asks the adapter of a case.
    ///
    /// # Errors
    /// [`Failure::NotApplicable`] if the adapter does not have it; [`Failure::Unmet`] if the adapter cannot be asked.
    pub fn check(self, case: &Case) -> Result<(), Failure> {
        let met = match self {
            Self::Campanile => is_campanile(&case.rig()?),
            Self::HangingCommands => knows_how_to_hang(case)?,
            Self::HardwareScheduling => scheduling(case)?.HwSchEnabled(),
            Self::NativeFence => fences_supported(case)?,
            Self::UserModeSubmission => submits_from_user_mode(case)?,
            Self::IoCoherency => case.rig()?.is_coherent(),
        };
        // The thunks do not tell which of these it is.
        let why = match self {
            Self::HardwareScheduling => {
                ": its driver lacks the functions, no node says ContextSchedulingSupported, or from WDDM 2.9 on it has not offered them by DxgkCbQueryFeatureSupport or DXGKDDI_FEATURE_INTERFACE; \
                 `campanile run --log` says which"
            }
            _ => "",
        };
        if met { Ok(()) } else { Err(Failure::NotApplicable(format!("the adapter is without {self}{why}"))) }
    }
}

fn word(case: &Case, kind: KMTQUERYADAPTERINFOTYPE) -> Result<u32, Failure> {
    let answer = case.kmt().query_word(adapter(case)?, kind);
    answer.map_err(|status| Failure::new(format!("query {} failed with {status}", kind.0)))
}

pub fn fences_supported(case: &Case) -> Result<bool, Failure> {
    let caps = word(case, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_3_1_CAPS)?;
    Ok(D3DKMT_WDDM_3_1_CAPS::from_bits(caps).NativeGpuFenceSupported())
}

pub fn scheduling(case: &Case) -> Result<D3DKMT_WDDM_2_7_CAPS, Failure> {
    Ok(D3DKMT_WDDM_2_7_CAPS::from_bits(word(case, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_2_7_CAPS)?))
}

/// True if the node for copies takes submissions from user mode, which its metadata say.
pub fn submits_from_user_mode(case: &Case) -> Result<bool, Failure> {
    let data = node(case, NODE_COPY)?.NodeData;
    let flags = data.Flags;
    Ok(flags.UserModeSubmission())
}

fn native_fences_told(case: &Case) -> Result<(), Failure> {
    ensure!(fences_supported(case)?, "NativeGpuFenceSupported is not set");
    Ok(())
}

fn hardware_scheduling_told(case: &Case) -> Result<(), Failure> {
    let caps = scheduling(case)?;
    match case.rig()?.context(NODE_COPY) {
        Ok(_) => {
            ensure!(
                caps.HwSchSupported() && caps.HwSchEnabled(),
                "there are hardware contexts where {caps:?} are told"
            );
            Ok(())
        }
        Err(status) => {
            ensure!(!caps.HwSchEnabled(), "a hardware context is refused with {status} where {caps:?} are told");
            refused(status, &[STATUS_NOT_SUPPORTED], "a hardware context without hardware scheduling")
        }
    }
}

fn adapter_is_compute_only(case: &Case) -> Result<(), Failure> {
    let kind = D3DKMT_ADAPTERTYPE::from_bits(word(case, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERTYPE)?);
    ensure!(kind.ComputeOnly(), "ComputeOnly is not set");
    ensure!(!kind.DisplaySupported() && !kind.SoftwareDevice() && !kind.PostDevice(), "the adapter claims {kind:?}");
    Ok(())
}

/// The metadata of a node that the adapter has.
fn node(case: &Case, ordinal: u32) -> Result<D3DKMT_NODEMETADATA, Failure> {
    metadata(case.kmt(), adapter(case)?, ordinal)
        .map_err(|status| Failure::new(format!("metadata of node {ordinal} failed with {status}")))
}

fn nodes_say_where(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let takes = |node| rig.context(node).is_ok_and(|context| rig.hw_queue(context, user_mode_flags()).is_ok());
    let (compute, copy) = (takes(NODE_COMPUTE), takes(NODE_COPY));
    for (ordinal, expected) in [(NODE_COMPUTE, compute), (NODE_COPY, copy), (NODE_PAGING, false)] {
        let data = node(case, ordinal)?.NodeData;
        let flags = data.Flags;
        ensure_eq!(flags.UserModeSubmission(), expected, "user-mode submission of node {ordinal}");
    }
    Ok(())
}

fn node_beyond_last(case: &Case) -> Result<(), Failure> {
    let adapter = adapter(case)?;
    for ordinal in [NODES, NODES + 1, 63, 64, 0xffff] {
        match metadata(case.kmt(), adapter, ordinal) {
            Ok(_) => return Err(Failure::new(format!("node {ordinal} has metadata"))),
            Err(status) => refused(status, BAD_ARGUMENT, "metadata of a node that does not exist")?,
        }
    }
    Ok(())
}

fn private_answer_fits(case: &Case) -> Result<(), Failure> {
    const GUARD: u8 = 0xa5;
    let (kmt, adapter) = (case.kmt(), adapter(case)?);
    let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE;
    for length in [0, 1, 4, 63, AdapterData::SIZE, AdapterData::SIZE + 1, 4096] {
        let mut buffer = vec![GUARD; length + 64];
        let status = kmt.query(adapter, kind, &mut buffer[..length]);
        ensure!(buffer[length..].iter().all(|byte| *byte == GUARD), "{length} bytes: written past the end");
        if length == AdapterData::SIZE {
            let head = buffer.first_chunk().copied().unwrap_or([0; AdapterData::SIZE]);
            let data = AdapterData::from_bytes(&head);
            ensure!(status.is_success(), "the exact length failed with {status}");
            ensure_eq!((data.magic, data.version), (MAGIC, INTERFACE_VERSION), "magic and version");
        }
    }
    Ok(())
}
