//! Starting, listing and opening the adapter.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::LUID;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, Kmt};
use crate::{Boot, Case, Failure, granted, refused};

cases! { neutral "Adapter";
    "Adapter.ComputeOnlyIsHiddenFromDefaultListing" on Boot::Shared, "mcdm":
        "A compute-only adapter appears in a listing only when the filter asks for compute-only adapters, and any other in every listing."
        => hidden_from_default_listing;
    "Adapter.ListingCountsThenFills" on Boot::Shared, "d3dkmtenumadapters3":
        "A listing without an array answers with the number of adapters, and one with an array of that size fills it."
        => listing_counts_then_fills;
    "Adapter.ListingWithoutSpaceWritesNothing" on Boot::Shared, "d3dkmtenumadapters3":
        "A listing into an array that is too small is refused by name and leaves the array untouched."
        => listing_without_capacity;
    "Adapter.UnknownLuidIsRefused" on Boot::Shared, "d3dkmtopenadapterfromluid":
        "Opening an adapter by a locally unique identifier that nobody has is refused and gives no handle."
        => unknown_luid;
    "Adapter.ClosedHandleIsRefused" on Boot::Shared, "d3dkmtcloseadapter":
        "A closed adapter handle is refused by every later call, also when its slot is used again."
        => closed_handle;
    "Adapter.NullArgumentIsRefused" on Boot::Shared, "d3dkmtopenadapterfromluid":
        "A thunk that is called without its argument structure, or with unreadable memory, refuses instead of crashing."
        => null_argument;
}

/// Lists adapters into an array of `capacity` elements; the number reported and the entries.
fn list(kmt: Kmt, compute_only: bool, capacity: usize) -> (NTSTATUS, u32, Vec<D3DKMT_ADAPTERINFO>) {
    let mut infos = vec![D3DKMT_ADAPTERINFO::zeroed(); capacity];
    let mut arguments = D3DKMT_ENUMADAPTERS3 {
        Filter: D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(compute_only),
        NumAdapters: capacity as u32,
        pAdapters: if capacity == 0 { std::ptr::null_mut() } else { infos.as_mut_ptr() },
    };
    let status = kmt.call(kmt.table().D3DKMTEnumAdapters3, &mut arguments);
    (status, arguments.NumAdapters, infos)
}

/// True if the adapter reports itself as compute-only. [d3dkmthk: D3DKMT_ADAPTERTYPE]
fn is_compute_only(case: &Case) -> Result<bool, Failure> {
    let (kmt, adapter) = (case.kmt(), opened(case)?);
    let told = kmt.query_word(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERTYPE);
    granted(kmt.close_adapter(adapter), "closing")?;
    let word = told.map_err(|status| Failure::new(format!("KMTQAITYPE_ADAPTERTYPE failed with {status}")))?;
    Ok(D3DKMT_ADAPTERTYPE::from_bits(word).ComputeOnly())
}

fn hidden_from_default_listing(case: &Case) -> Result<(), Failure> {
    let (kmt, luid) = (case.kmt(), case.luid());
    let is_compute_only = is_compute_only(case)?;
    for (compute_only, expected) in [(false, !is_compute_only), (true, true)] {
        let (status, count, infos) = list(kmt, compute_only, 8);
        granted(status, "D3DKMTEnumAdapters3")?;
        let listed = infos.iter().take(count as usize).any(|info| info.AdapterLuid == luid);
        ensure_eq!(listed, expected, "listed with compute-only filter {compute_only}");
    }
    let mut infos = [D3DKMT_ADAPTERINFO::zeroed(); 8];
    let mut arguments = D3DKMT_ENUMADAPTERS2 { NumAdapters: 8, pAdapters: infos.as_mut_ptr() };
    granted(kmt.call(kmt.further().D3DKMTEnumAdapters2, &mut arguments), "D3DKMTEnumAdapters2")?;
    let listed = infos.iter().take(arguments.NumAdapters as usize).any(|info| info.AdapterLuid == luid);
    ensure_eq!(listed, !is_compute_only, "listed by D3DKMTEnumAdapters2");
    Ok(())
}

fn listing_counts_then_fills(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let (status, count, _) = list(kmt, true, 0);
    granted(status, "counting")?;
    ensure!(count >= 1, "no adapter counted");
    let (status, filled, infos) = list(kmt, true, count as usize);
    granted(status, "filling")?;
    ensure_eq!(filled, count, "adapters filled in");
    for info in infos {
        ensure!(info.hAdapter != 0, "an adapter is listed without a handle");
        ensure_eq!(info.NumOfSources, 0, "video present sources of a compute-only adapter");
        granted(kmt.close_adapter(info.hAdapter), "closing a listed adapter")?;
    }
    Ok(())
}

fn listing_without_capacity(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let mut info = D3DKMT_ADAPTERINFO::zeroed();
    let mut arguments = D3DKMT_ENUMADAPTERS3 {
        Filter: D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(true),
        NumAdapters: 0,
        pAdapters: &mut info,
    };
    let status = kmt.call(kmt.table().D3DKMTEnumAdapters3, &mut arguments);
    refused(status, &[STATUS_BUFFER_TOO_SMALL], "a listing into no places")?;
    ensure_eq!(info.hAdapter, 0, "handle written where there was no place for one");
    Ok(())
}

fn unknown_luid(case: &Case) -> Result<(), Failure> {
    let luid = case.luid();
    let kmt = case.kmt();
    for wrong in [
        LUID { LowPart: luid.LowPart ^ 0x5555, HighPart: luid.HighPart },
        LUID { LowPart: luid.LowPart, HighPart: luid.HighPart.wrapping_add(1) },
        LUID { LowPart: 0, HighPart: 0 },
    ] {
        let mut open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: wrong, hAdapter: 0 };
        let status = kmt.call(kmt.table().D3DKMTOpenAdapterFromLuid, &mut open);
        refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NO_SUCH_DEVICE], "opening an unknown adapter")?;
        ensure_eq!(open.hAdapter, 0, "handle of an unknown adapter");
    }
    Ok(())
}

pub fn opened(case: &Case) -> Result<u32, Failure> {
    let open = case.kmt().open_adapter(case.luid());
    open.map_err(|status| Failure::new(format!("opening the adapter failed with {status}")))
}

fn closed_handle(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let old = opened(case)?;
    granted(kmt.close_adapter(old), "closing")?;
    refused(kmt.close_adapter(old), BAD_HANDLE, "closing again")?;
    let new = opened(case)?;
    ensure!(new != old, "the stale handle {old:#x} was given out again");
    let mut word = [0; 4];
    let stale = kmt.query(old, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERTYPE, &mut word);
    refused(stale, BAD_HANDLE, "a query through the stale handle")?;
    granted(kmt.close_adapter(new), "closing the new handle")
}

fn null_argument(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    refused(kmt.call_null(kmt.table().D3DKMTOpenAdapterFromLuid), BAD_ARGUMENT, "opening with no argument")?;
    refused(kmt.call_null(kmt.table().D3DKMTCreateDevice), BAD_ARGUMENT, "creating a device with no argument")?;
    let adapter = opened(case)?;
    let mut query = D3DKMT_QUERYADAPTERINFO {
        hAdapter: adapter,
        Type: KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERTYPE,
        pPrivateDriverData: std::ptr::without_provenance_mut(8),
        PrivateDriverDataSize: 4,
    };
    let status = kmt.call(kmt.table().D3DKMTQueryAdapterInfo, &mut query);
    refused(status, &[STATUS_ACCESS_VIOLATION, STATUS_INVALID_PARAMETER], "a query into unmapped memory")?;
    granted(kmt.close_adapter(adapter), "closing")
}
