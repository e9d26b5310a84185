//! Timeouts of the whole adapter that a case forces, for the driver of any GPU.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::any_driver_lab::{SIZE, lab};
use crate::rig::Rig;
use crate::{Boot, Case, Failure, granted};

cases! { neutral "AnyDriver";
    "AnyDriver.ForcedTimeoutCostsEveryDevice" on Boot::Fresh, "d3dkmt_tdrdbgctrltype":
        "A timeout that a test forces puts every device of the adapter into error as reset, and those that are made after it work."
        => costs_every_device;
}

/// Has the system recover from a timeout that there is not, of the whole adapter or of one engine.
///
/// # Errors
/// [`Failure::NotApplicable`] on a system that lets no program force timeouts.
pub fn force(rig: &Rig, node: Option<u32>) -> Result<(), Failure> {
    let control = match node {
        None => D3DKMT_TDRDBGCTRLTYPE::D3DKMT_TDRDBGCTRLTYPE_FORCETDR,
        Some(_) => D3DKMT_TDRDBGCTRLTYPE::D3DKMT_TDRDBGCTRLTYPE_ENGINETDR,
    };
    let mut data = D3DKMT_TDRDBGCTRL_ESCAPE { TdrControl: control, NodeOrdinal: node.unwrap_or_default() };
    let mut arguments = D3DKMT_ESCAPE { hAdapter: rig.adapter, ..Zeroed::zeroed() };
    arguments.Type = D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_TDRDBGCTRL;
    arguments.pPrivateDriverData = (&raw mut data).cast();
    // The type alone is what every version of Windows takes; the node came with Windows 8.
    arguments.PrivateDriverDataSize = match node {
        None => size_of::<D3DKMT_TDRDBGCTRLTYPE>() as u32,
        Some(_) => size_of::<D3DKMT_TDRDBGCTRL_ESCAPE>() as u32,
    };
    match rig.kmt.call_read_only(rig.kmt.further().D3DKMTEscape, &arguments) {
        status @ (STATUS_NOT_SUPPORTED | STATUS_ACCESS_DENIED) => Err(Failure::NotApplicable(format!(
            "D3DKMTEscape forces no timeout, {status}: TdrTestMode below Control\\GraphicsDrivers has to be 1 [d3dkmthk: D3DKMT_ESCAPE]"
        ))),
        status => granted(status, "D3DKMTEscape of the type D3DKMT_ESCAPE_TDRDBGCTRL"),
    }
}

fn costs_every_device(case: &Case) -> Result<(), Failure> {
    for _ in 0..2 {
        let (one, other) = (lab(case)?, lab(case)?);
        let mut worker = one.worker()?;
        let memory = one.memory(SIZE, false)?;
        one.fill(&mut worker, memory.address, SIZE, 1)?;
        other.work()?;
        force(&one.rig, None)?;
        for device in [&one, &other] {
            let state = device.rig.kmt.execution_state(device.rig.device)?;
            ensure_eq!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_RESET, "state of a device");
            granted(device.rig.destroy(), "destroying a device in error")?;
        }
        lab(case)?.work()?;
    }
    Ok(())
}
