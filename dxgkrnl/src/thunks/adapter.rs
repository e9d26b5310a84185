//! Thunks of adapters.

use std::sync::Arc;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::LUID;

use super::adapter_answer::node_at;
use super::adapter_answer::{answer, answer_word, read};
use super::call::{enter, enter_read_only};
use super::{adapter_info, user};
use crate::adapter::Adapter;
use crate::ddi_buffer::DdiBuffer;
use crate::process::{AdapterOpen, Object, Process};
use crate::refusal::{Failure, refused};

/// Most bytes of UMDRIVERPRIVATE data.
const PRIVATE_MAX: u32 = 1 << 16;
/// The driver model that the driver is of, whose hexadecimal digits are decimal ones for programs. [d3dkmthk: D3DKMT_DRIVERVERSION]
fn driver_version(adapter: &Adapter) -> u32 {
    let model = adapter.miniport.version().model.0 as u32;
    (model >> 12) * 1000 + (model >> 8 & 0xf) * 100 + (model & 0xf)
}

pub(super) fn is_compute_only(adapter: &Adapter) -> bool {
    adapter.caps().driver.MiscCaps.ComputeOnly()
}

pub(super) fn open(process: &Process, adapter: &Arc<Adapter>) -> Result<u32, Failure> {
    process.insert(Object::Adapter(Arc::new(AdapterOpen { adapter: Arc::clone(adapter) })))
}

/// Every adapter that is listed comes with an open handle. Compute-only ones are listed when the filter asks for them.
/// [d3dkmthk: D3DKMTEnumAdapters3]
pub(super) unsafe extern "win64" fn enum_adapters3(args: *mut D3DKMT_ENUMADAPTERS3) -> NTSTATUS {
    enter("D3DKMTEnumAdapters3", args, |process, args| {
        let known = D3DKMT_ENUMADAPTERS_FILTER::new()
            .with_IncludeComputeOnly(true)
            .with_IncludeDisplayOnly(true)
            .with_IncludeVirtualGpuOnly(true);
        if args.Filter.into_bits() & !known.into_bits() != 0 {
            let why = format!(
                "Filter is {:#x}, and known are IncludeComputeOnly, IncludeDisplayOnly and IncludeVirtualGpuOnly",
                args.Filter.into_bits()
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        enumerate(process, args.Filter.IncludeComputeOnly(), &mut args.NumAdapters, args.pAdapters)
    })
}

/// As [`enum_adapters3`] without a filter: nothing of compute-only adapters is told. [d3dkmthk: D3DKMTEnumAdapters2]
pub(super) unsafe extern "win64" fn enum_adapters2(args: *mut D3DKMT_ENUMADAPTERS2) -> NTSTATUS {
    enter("D3DKMTEnumAdapters2", args, |process, args| enumerate(process, false, &mut args.NumAdapters, args.pAdapters))
}

/// Lists adapters in `out`, which has space for `number` of them; that many there are when it returns. Without `out` they are only counted.
fn enumerate(
    process: &Process,
    compute_only: bool,
    number: &mut u32,
    out: *mut D3DKMT_ADAPTERINFO,
) -> Result<NTSTATUS, Failure> {
    let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
    let adapters = machine.adapters().into_iter().filter(|adapter| adapter.is_running());
    let adapters: Vec<_> = adapters.filter(|adapter| compute_only || !is_compute_only(adapter)).collect();
    let count = u32::try_from(adapters.len()).map_err(|_| STATUS_INTERNAL_ERROR)?;
    let room = std::mem::replace(number, count);
    match (out.is_null(), room < count) {
        (true, _) => Ok(STATUS_SUCCESS),
        (false, true) => {
            Err(refused(STATUS_BUFFER_TOO_SMALL, format!("NumAdapters is {room}, and there are {count} adapters")))
        }
        (false, false) => list(process, &adapters, out),
    }
}

fn list(process: &Process, adapters: &[Arc<Adapter>], out: *mut D3DKMT_ADAPTERINFO) -> Result<NTSTATUS, Failure> {
    open_all(process, adapters, |place, info| user::write(out.wrapping_add(place), &info))?;
    Ok(STATUS_SUCCESS)
}

/// Opens adapters and tells of each, with its place among them. All or none are open when it returns.
pub(super) fn open_all(
    process: &Process,
    adapters: &[Arc<Adapter>],
    mut tell: impl FnMut(usize, D3DKMT_ADAPTERINFO) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut opened = Vec::with_capacity(adapters.len());
    let told = adapters.iter().enumerate().try_for_each(|(place, adapter)| {
        let mut info = D3DKMT_ADAPTERINFO::zeroed();
        info.hAdapter = open(process, adapter)?;
        opened.push(info.hAdapter);
        info.AdapterLuid = adapter.luid;
        tell(place, info)
    });
    told.inspect_err(|_| {
        for handle in opened {
            // Just made, and known to nobody.
            let _ = process.remove(handle);
        }
    })
}

/// [d3dkmthk: D3DKMTOpenAdapterFromLuid]
pub(super) unsafe extern "win64" fn open_adapter_from_luid(args: *mut D3DKMT_OPENADAPTERFROMLUID) -> NTSTATUS {
    enter("D3DKMTOpenAdapterFromLuid", args, |process, args| {
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let adapter = machine.adapter(args.AdapterLuid).filter(|adapter| adapter.is_running());
        let LUID { HighPart: high, LowPart: low } = args.AdapterLuid;
        let why = || format!("AdapterLuid {high}:{low:#x} is that of no adapter that is started");
        args.hAdapter = open(process, &adapter.ok_or_else(|| refused(STATUS_INVALID_PARAMETER, why()))?)?;
        Ok(STATUS_SUCCESS)
    })
}

/// Devices of the adapter stay. [d3dkmthk: D3DKMTCloseAdapter]
pub(super) unsafe extern "win64" fn close_adapter(args: *mut D3DKMT_CLOSEADAPTER) -> NTSTATUS {
    enter_read_only("D3DKMTCloseAdapter", args, |process, args| {
        process.remove_if(args.hAdapter, |object| matches!(object, Object::Adapter(_)))?;
        Ok(STATUS_SUCCESS)
    })
}

/// The answer goes to the first bytes of the caller's buffer; a larger buffer is fine. [d3dkmthk: D3DKMTQueryAdapterInfo]
pub(super) unsafe extern "win64" fn query_adapter_info(args: *mut D3DKMT_QUERYADAPTERINFO) -> NTSTATUS {
    enter_read_only("D3DKMTQueryAdapterInfo", args, |process, args| {
        use KMTQUERYADAPTERINFOTYPE as Kind;
        let adapter = &process.get_adapter(args.hAdapter)?.adapter;
        check_running(adapter)?;
        match args.Type {
            Kind::KMTQAITYPE_UMDRIVERPRIVATE => driver_private(adapter, args),
            Kind::KMTQAITYPE_NODEMETADATA => node_metadata(adapter, args),
            Kind::KMTQAITYPE_ADAPTERTYPE | Kind::KMTQAITYPE_ADAPTERTYPE_RENDER => {
                let kind = D3DKMT_ADAPTERTYPE::new()
                    .with_RenderSupported(true)
                    .with_ComputeOnly(is_compute_only(adapter))
                    .with_RuntimePowerManagement(adapter.caps().driver.SupportRuntimePowerManagement != 0);
                answer(args, &kind)
            }
            Kind::KMTQAITYPE_WDDM_2_7_CAPS => {
                let scheduling = adapter.caps().features.hardware_scheduling;
                let supported = adapter.caps().nodes.iter().any(|node| node.context_scheduling);
                let caps = D3DKMT_WDDM_2_7_CAPS::new().with_HwSchSupported(supported).with_HwSchEnabled(scheduling);
                answer(args, &caps.with_HwSchEnabledByDefault(scheduling))
            }
            Kind::KMTQAITYPE_WDDM_3_1_CAPS => {
                answer(args, &D3DKMT_WDDM_3_1_CAPS::new().with_NativeGpuFenceSupported(adapter.has_native_fences()))
            }
            Kind::KMTQAITYPE_DRIVERVERSION | Kind::KMTQAITYPE_DRIVERVERSION_RENDER => {
                answer_word(args, driver_version(adapter))
            }
            Kind::KMTQAITYPE_PHYSICALADAPTERCOUNT => answer_word(args, adapter.caps().engines),
            _ => adapter_info::query(adapter, args),
        }
    })
}

/// # Errors
/// STATUS_DEVICE_REMOVED for an adapter that has stopped.
pub(super) fn check_running(adapter: &Adapter) -> Result<(), Failure> {
    let stopped = || refused(STATUS_DEVICE_REMOVED, "the adapter of hAdapter is stopped");
    if adapter.is_running() { Ok(()) } else { Err(stopped()) }
}

fn node_metadata(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let mut data: D3DKMT_NODEMETADATA = read(args)?;
    // The upper half is the physical adapter.
    let (ordinal, engine) = (data.NodeOrdinalAndAdapterIndex & 0xffff, data.NodeOrdinalAndAdapterIndex >> 16);
    let node = node_at(adapter, ordinal, engine)?;
    data.NodeData = adapter.caps().nodes.get(node as usize).ok_or(STATUS_INTERNAL_ERROR)?.metadata;
    answer(args, &data)
}

/// The driver sees a copy of the caller's bytes and answers in it. [d3dkmddi: DXGKQAITYPE_UMDRIVERPRIVATE]
fn driver_private(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let size = args.PrivateDriverDataSize;
    if size == 0 || size > PRIVATE_MAX {
        let why = format!("PrivateDriverDataSize is {size}, and expected is 1 to {PRIVATE_MAX} of UMDRIVERPRIVATE");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let input: Vec<u8> = user::read_array(args.pPrivateDriverData.cast_const().cast(), size)?;
    let mut buffer = DdiBuffer::of(&input);
    let mut query = DXGKARG_QUERYADAPTERINFO::zeroed();
    query.Type = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_UMDRIVERPRIVATE;
    query.pOutputData = buffer.address();
    query.OutputDataSize = size;
    let answered = adapter.vidmm().query_driver(&query);
    if !buffer.check(adapter.machine.verifier(), "DxgkDdiQueryAdapterInfo(UMDRIVERPRIVATE)", "pOutputData") {
        return Err(STATUS_DEVICE_REMOVED.into());
    }
    answered?;
    user::write_array(args.pPrivateDriverData.cast(), buffer.bytes())?;
    Ok(STATUS_SUCCESS)
}
