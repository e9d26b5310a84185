//! D3DKMTQueryAdapterInfo about the hardware's figures and the registry keys of physical adapters.

use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::adapter_answer::{answer, engine, node_at, read};
use super::{adapter_answer, user};
use crate::adapter::Adapter;
use crate::refusal::{Failure, refused};

/// Clock and voltage of a node, as the driver reports them.
///
/// # Errors
/// STATUS_INVALID_PARAMETER if there is no such node, STATUS_NOT_SUPPORTED if the driver reports none. [d3dkmthk: D3DKMT_NODE_PERFDATA]
pub(super) fn of_node(adapter: &Adapter, ordinal: u32, engine: u32) -> Result<D3DKMT_NODE_PERFDATA, Failure> {
    node_at(adapter, ordinal, engine)?;
    let index = engine << 16 | ordinal;
    let told: DXGK_NODE_PERFDATA =
        adapter.figures(DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_NODEPERFDATA, "NODEPERFDATA", index)?;
    Ok(D3DKMT_NODE_PERFDATA {
        NodeOrdinal: ordinal,
        PhysicalAdapterIndex: engine,
        Frequency: told.Frequency,
        MaxFrequency: told.MaxFrequency,
        MaxFrequencyOC: told.MaxFrequencyOC,
        Voltage: told.Voltage,
        VoltageMax: told.VoltageMax,
        VoltageMaxOC: told.VoltageMaxOC,
        MaxTransitionLatency: told.MaxTransitionLatency,
    })
}

/// Memory clock, bandwidths, fan, power and temperature of a physical adapter, as the driver reports them. Errors as before.
/// [d3dkmthk: D3DKMT_ADAPTER_PERFDATA]
pub(super) fn of_adapter(adapter: &Adapter, index: u32) -> Result<D3DKMT_ADAPTER_PERFDATA, Failure> {
    let index = engine(adapter, index)?;
    let told: DXGK_ADAPTER_PERFDATA =
        adapter.figures(DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_ADAPTERPERFDATA, "ADAPTERPERFDATA", index)?;
    Ok(D3DKMT_ADAPTER_PERFDATA {
        PhysicalAdapterIndex: index,
        MemoryFrequency: told.MemoryFrequency,
        MaxMemoryFrequency: told.MaxMemoryFrequency,
        MaxMemoryFrequencyOC: told.MaxMemoryFrequencyOC,
        MemoryBandwidth: told.MemoryBandwidth,
        PCIEBandwidth: told.PCIEBandwidth,
        FanRPM: told.FanRPM,
        Power: told.Power,
        Temperature: told.Temperature,
        PowerStateOverride: told.PowerStateOverride,
    })
}

/// The limits of these figures. Errors as before. [d3dkmthk: D3DKMT_ADAPTER_PERFDATACAPS]
pub(super) fn limits(adapter: &Adapter, index: u32) -> Result<D3DKMT_ADAPTER_PERFDATACAPS, Failure> {
    let index = engine(adapter, index)?;
    let told: DXGK_ADAPTER_PERFDATACAPS =
        adapter.figures(DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_ADAPTERPERFDATA_CAPS, "ADAPTERPERFDATA_CAPS", index)?;
    Ok(D3DKMT_ADAPTER_PERFDATACAPS {
        PhysicalAdapterIndex: index,
        MaxMemoryBandwidth: told.MaxMemoryBandwidth,
        MaxPCIEBandwidth: told.MaxPCIEBandwidth,
        MaxFanRPM: told.MaxFanRPM,
        TemperatureMax: told.TemperatureMax,
        TemperatureWarning: told.TemperatureWarning,
    })
}

/// Answers what is about figures and keys; the rest is not supported.
pub(super) fn query(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    match args.Type {
        Kind::KMTQAITYPE_NODEPERFDATA => {
            let asked: D3DKMT_NODE_PERFDATA = read(args)?;
            answer(args, &of_node(adapter, asked.NodeOrdinal, asked.PhysicalAdapterIndex)?)
        }
        Kind::KMTQAITYPE_ADAPTERPERFDATA => {
            let asked: D3DKMT_ADAPTER_PERFDATA = read(args)?;
            answer(args, &of_adapter(adapter, asked.PhysicalAdapterIndex)?)
        }
        Kind::KMTQAITYPE_ADAPTERPERFDATA_CAPS => {
            let asked: D3DKMT_ADAPTER_PERFDATACAPS = read(args)?;
            answer(args, &limits(adapter, asked.PhysicalAdapterIndex)?)
        }
        Kind::KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT => {
            let mut asked: D3DKMT_TRACKEDWORKLOAD_SUPPORT = read(args)?;
            engine(adapter, asked.PhysicalAdapterIndex)?;
            // No engine here changes its clock for a workload.
            asked.Support = 0;
            answer(args, &asked)
        }
        Kind::KMTQAITYPE_PHYSICALADAPTERPNPKEY => key(adapter, args),
        Kind(other) => {
            let why = format!("Type is {other}, which is about displays or is not answered for this adapter");
            Err(refused(STATUS_NOT_SUPPORTED, why))
        }
    }
}

/// The path of the hardware or the software key of a physical adapter, with a NUL at its end. The number of units that it takes is told also where
/// they do not fit: STATUS_BUFFER_TOO_SMALL. [d3dkmthk: D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY]
fn key(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    use D3DKMT_PNP_KEY_TYPE as Key;
    let asked: D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY = read(args)?;
    let index = engine(adapter, asked.PhysicalAdapterIndex)?;
    let root = "\\Registry\\Machine\\System\\CurrentControlSet";
    let path = match asked.PnPKeyType {
        Key::D3DKMT_PNP_KEY_HARDWARE => format!("{root}\\Enum\\{}", adapter_answer::instance_path(adapter, index)?),
        // All adapters of a driver have the one key.
        Key::D3DKMT_PNP_KEY_SOFTWARE => adapter.installation.software.path(),
        Key(other) => {
            let why = format!("PnPKeyType is {other}, which is none of D3DKMT_PNP_KEY_TYPE");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
    };
    let bytes: Vec<u8> = path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let needed = u32::try_from(bytes.len() / 2).map_err(|_| STATUS_INTERNAL_ERROR)?;
    let room = user::read_array(asked.pCchDest.cast_const(), 1)?.first().copied().unwrap_or(0);
    user::write_array(asked.pCchDest, &[needed])?;
    if room < needed {
        let why = format!("the number at pCchDest has {room}, and the path takes {needed} characters");
        return Err(refused(STATUS_BUFFER_TOO_SMALL, why));
    }
    user::write_array(asked.pDest.cast(), &bytes)?;
    Ok(STATUS_SUCCESS)
}
