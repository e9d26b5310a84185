//! Timeouts that a program forces: D3DKMTEscape of the type D3DKMT_ESCAPE_TDRDBGCTRL, for tests. [d3dkmthk: D3DKMT_ESCAPE, D3DKMT_TDRDBGCTRLTYPE]
//!
//! Any process may call it on a machine whose TdrTestMode is 1, and none on others. The pages do not say with which status the others are refused: that is our
//! rule.

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::adapter::Adapter;
use crate::config::{TdrDebugMode, TdrLevel};
use crate::refusal::{Failure, refused};
use crate::vidsch::Timeouts;

use super::user;

/// Request of an escape to timeout detection and recovery.
enum Asked {
    /// A timeout of the engine of a node, or of the whole adapter.
    Timeout(Option<u32>),
    /// Another TdrDebugMode, until the adapter stops.
    Mode(TdrDebugMode),
}

/// Reads the data of the escape: nothing and the type alone are a forced timeout, and a node is given behind the type.
/// [d3dkmddi: DXGK_TDR_TYPE, d3dkmthk: D3DKMT_TDRDBGCTRL_ESCAPE]
fn read(args: &D3DKMT_ESCAPE) -> Result<(D3DKMT_TDRDBGCTRLTYPE, Option<u32>), Failure> {
    const TYPE: u32 = size_of::<D3DKMT_TDRDBGCTRLTYPE>() as u32;
    const WHOLE: u32 = size_of::<D3DKMT_TDRDBGCTRL_ESCAPE>() as u32;
    match args.PrivateDriverDataSize {
        0 => Ok((D3DKMT_TDRDBGCTRLTYPE::D3DKMT_TDRDBGCTRLTYPE_FORCETDR, None)),
        TYPE => Ok((user::read(args.pPrivateDriverData.cast())?, None)),
        WHOLE => {
            let data = user::read(args.pPrivateDriverData.cast::<D3DKMT_TDRDBGCTRL_ESCAPE>())?;
            Ok((data.TdrControl, Some(data.NodeOrdinal)))
        }
        size => {
            let why = format!(
                "PrivateDriverDataSize is {size}, and expected is {TYPE} bytes of D3DKMT_TDRDBGCTRLTYPE, {WHOLE} of D3DKMT_TDRDBGCTRL_ESCAPE, or none"
            );
            Err(refused(STATUS_INVALID_PARAMETER, why))
        }
    }
}

fn asked(control: D3DKMT_TDRDBGCTRLTYPE, node: Option<u32>, nodes: usize) -> Result<Asked, Failure> {
    type Control = D3DKMT_TDRDBGCTRLTYPE;
    Ok(match control {
        Control::D3DKMT_TDRDBGCTRLTYPE_FORCETDR | Control::D3DKMT_TDRDBGCTRLTYPE_GPUTDR => Asked::Timeout(None),
        Control::D3DKMT_TDRDBGCTRLTYPE_ENGINETDR => {
            let node = node.ok_or_else(|| {
                let why =
                    "NodeOrdinal is missing, which D3DKMT_TDRDBGCTRL_ESCAPE has for D3DKMT_TDRDBGCTRLTYPE_ENGINETDR";
                refused(STATUS_INVALID_PARAMETER, why)
            })?;
            if node as usize >= nodes {
                let why = format!("NodeOrdinal is {node}, and the adapter has {nodes} node(s)");
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            Asked::Timeout(Some(node))
        }
        Control::D3DKMT_TDRDBGCTRLTYPE_DISABLEBREAK => Asked::Mode(TdrDebugMode::Recover),
        Control::D3DKMT_TDRDBGCTRLTYPE_ENABLEBREAK => Asked::Mode(TdrDebugMode::Break),
        Control::D3DKMT_TDRDBGCTRLTYPE_UNCONDITIONAL => Asked::Mode(TdrDebugMode::Always),
        Control::D3DKMT_TDRDBGCTRLTYPE_VSYNCTDR
        | Control::D3DKMT_TDRDBGCTRLTYPE_FORCEDODTDR
        | Control::D3DKMT_TDRDBGCTRLTYPE_FORCEDODVSYNCTDR => {
            let why = format!("TdrControl is {}, a timeout of a display, and the adapter has no display", control.0);
            return Err(refused(STATUS_NOT_SUPPORTED, why));
        }
        D3DKMT_TDRDBGCTRLTYPE(other) => {
            let why = format!("TdrControl is {other}, which is none of D3DKMT_TDRDBGCTRLTYPE");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
    })
}

/// Fails on a machine on which no program may force timeouts.
fn check_allowed(timeouts: &Timeouts) -> Result<(), Failure> {
    let settings = timeouts.settings();
    if !settings.test_mode {
        let why = "TdrTestMode is not 1, so that no program forces timeouts [d3dkmthk: D3DKMT_ESCAPE]";
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    if settings.level == TdrLevel::Off {
        return Err(refused(STATUS_NOT_SUPPORTED, "TdrLevel is 0, so that nothing is recovered from a timeout"));
    }
    Ok(())
}

/// Does what a program asks of timeout detection and recovery, which is done when this returns. The caller is not inside the power gate.
///
/// Errors: STATUS_NOT_SUPPORTED without TdrTestMode, with TdrLevel 0 and for timeouts of displays; STATUS_INVALID_PARAMETER for flags, sizes, types and nodes that
/// there are none of; STATUS_DEVICE_REMOVED for an adapter that stops.
pub(super) fn control(adapter: &Arc<Adapter>, args: &D3DKMT_ESCAPE) -> Result<NTSTATUS, Failure> {
    let flags = args.Flags.into_bits();
    if flags != 0 {
        let why = format!("Flags is {flags:#x}, and this escape has none");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let render = adapter.render();
    let sch = render.vidsch();
    check_allowed(sch.timeouts())?;
    let (control, node) = read(args)?;
    match asked(control, node, render.caps().nodes.len())? {
        Asked::Mode(mode) => sch.timeouts().set_debug_mode(mode),
        Asked::Timeout(node) => {
            // A device in D3 has nothing that could time out before it is in D0 again.
            drop(adapter.machine.gate().enter(&adapter.machine));
            sch.force_timeout(node)?;
        }
    }
    Ok(STATUS_SUCCESS)
}
