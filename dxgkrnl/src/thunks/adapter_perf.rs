//! D3DKMTQueryAdapterInfo about the hardware's figures and the registry keys of physical adapters.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::adapter::Adapter;

use super::adapter::answer;
use super::adapter_info::{engine, read};
use super::{control, user};

/// A question about figures that the driver would be asked for: STATUS_NOT_SUPPORTED from a driver that does not report them, which is this system's
/// answer for every driver, once it is sure that there is such a physical adapter and node.
fn unreported<T: Copy + Zeroed>(
    args: &D3DKMT_QUERYADAPTERINFO,
    exists: impl FnOnce(&T) -> bool,
) -> Result<NTSTATUS, NTSTATUS> {
    let question: T = read(args)?;
    Err(if exists(&question) { STATUS_NOT_SUPPORTED } else { STATUS_INVALID_PARAMETER })
}

/// Answers what is about figures and keys; the rest is not supported.
pub(super) fn query(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, NTSTATUS> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let caps = adapter.caps();
    match args.Type {
        Kind::KMTQAITYPE_NODEPERFDATA => unreported(args, |asked: &D3DKMT_NODE_PERFDATA| {
            caps.node_at(asked.NodeOrdinal, asked.PhysicalAdapterIndex).is_some()
        }),
        Kind::KMTQAITYPE_ADAPTERPERFDATA => {
            unreported(args, |asked: &D3DKMT_ADAPTER_PERFDATA| asked.PhysicalAdapterIndex < caps.engines)
        }
        Kind::KMTQAITYPE_ADAPTERPERFDATA_CAPS => {
            unreported(args, |asked: &D3DKMT_ADAPTER_PERFDATACAPS| asked.PhysicalAdapterIndex < caps.engines)
        }
        Kind::KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT => {
            let mut asked: D3DKMT_TRACKEDWORKLOAD_SUPPORT = read(args)?;
            engine(adapter, asked.PhysicalAdapterIndex)?;
            // No engine here changes its clock for a workload.
            asked.Support = 0;
            answer(args, &asked)
        }
        Kind::KMTQAITYPE_PHYSICALADAPTERPNPKEY => key(adapter, args),
        _ => Err(STATUS_NOT_SUPPORTED),
    }
}

/// The path of the hardware or the software key of a physical adapter, with a NUL at its end. The number of units that it takes is told also where
/// they have no room: STATUS_BUFFER_TOO_SMALL. [d3dkmthk: D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY]
fn key(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, NTSTATUS> {
    use D3DKMT_PNP_KEY_TYPE as Key;
    let asked: D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY = read(args)?;
    let index = engine(adapter, asked.PhysicalAdapterIndex)?;
    let root = "\\Registry\\Machine\\System\\CurrentControlSet";
    let path = match asked.PnPKeyType {
        Key::D3DKMT_PNP_KEY_HARDWARE => format!("{root}\\Enum\\{}", control::instance_path(adapter, index)?),
        // All adapters of a driver have the one key.
        Key::D3DKMT_PNP_KEY_SOFTWARE => adapter.installation.software.path(),
        _ => return Err(STATUS_INVALID_PARAMETER),
    };
    let bytes: Vec<u8> = path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let needed = u32::try_from(bytes.len() / 2).map_err(|_| STATUS_INTERNAL_ERROR)?;
    let room = user::read_array(asked.pCchDest.cast_const(), 1)?.first().copied().unwrap_or(0);
    user::write_array(asked.pCchDest, &[needed])?;
    if room < needed {
        return Err(STATUS_BUFFER_TOO_SMALL);
    }
    user::write_array(asked.pDest.cast(), &bytes)?;
    Ok(STATUS_SUCCESS)
}
