//! Requests that list adapters, open them and ask about them.

use dxgkrnl::thunks;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::LUID;

use super::minimal::queue::call;
use super::{Given, Refused};

use KMTQUERYADAPTERINFOTYPE as Kind;

/// Asks with so many bytes of a question.
fn ask<T>(given: Given, kind: KMTQUERYADAPTERINFOTYPE, mut question: T, size: usize) -> Option<NTSTATUS> {
    let args = D3DKMT_QUERYADAPTERINFO {
        hAdapter: given.adapter,
        Type: kind,
        pPrivateDriverData: (&raw mut question).cast(),
        PrivateDriverDataSize: size as u32,
    };
    call(thunks().D3DKMTQueryAdapterInfo, args).err()
}

fn ask_whole<T>(given: Given, kind: KMTQUERYADAPTERINFOTYPE, question: T) -> Option<NTSTATUS> {
    ask(given, kind, question, size_of::<T>())
}

pub(super) const OF_ADAPTERS: [Refused; 7] = [
    (
        |_| {
            let filter = D3DKMT_ENUMADAPTERS_FILTER::from_bits(1 << 20);
            let args = D3DKMT_ENUMADAPTERS3 { Filter: filter, ..Zeroed::zeroed() };
            call(thunks().D3DKMTEnumAdapters3, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTEnumAdapters3 fails with STATUS_INVALID_PARAMETER", "Filter is 0x100000", "IncludeComputeOnly"],
    ),
    (
        |_| {
            let mut place = D3DKMT_ADAPTERINFO::zeroed();
            let filter = D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(true);
            let args = D3DKMT_ENUMADAPTERS3 { Filter: filter, NumAdapters: 0, pAdapters: &raw mut place };
            call(thunks().D3DKMTEnumAdapters3, args).err()
        },
        STATUS_BUFFER_TOO_SMALL,
        &["D3DKMTEnumAdapters3 fails with", "NumAdapters is 0, and there are 1"],
    ),
    (
        |_| {
            let args = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: LUID { LowPart: 0x77, HighPart: 1 }, hAdapter: 0 };
            call(thunks().D3DKMTOpenAdapterFromLuid, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTOpenAdapterFromLuid fails with", "AdapterLuid 1:0x77 is that of no adapter that is started"],
    ),
    (
        |given| ask(given, Kind::KMTQAITYPE_ADAPTERTYPE, 0_u32, 0),
        STATUS_BUFFER_TOO_SMALL,
        &["D3DKMTQueryAdapterInfo fails with", "PrivateDriverDataSize is 0, and expected is at least 4"],
    ),
    (
        |given| {
            let question = D3DKMT_NODEMETADATA { NodeOrdinalAndAdapterIndex: 0x3_0009, ..Zeroed::zeroed() };
            ask_whole(given, Kind::KMTQAITYPE_NODEMETADATA, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "NodeOrdinal 9 of PhysicalAdapterIndex 3"],
    ),
    (
        |given| ask(given, Kind::KMTQAITYPE_UMDRIVERPRIVATE, 0_u32, 0),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "PrivateDriverDataSize is 0, and expected is 1 to 65536"],
    ),
    (
        |given| ask_whole(given, Kind::KMTQAITYPE_UMDRIVERPRIVATE, 0_u32),
        STATUS_NOT_SUPPORTED,
        &["D3DKMTQueryAdapterInfo fails with", "DxgkDdiQueryAdapterInfo answered STATUS_NOT_SUPPORTED"],
    ),
];

pub(super) const OF_INFORMATION: [Refused; 9] = [
    (
        |given| {
            let question = D3DKMT_UMDFILENAMEINFO { Version: KMTUMDVERSION(99), ..Zeroed::zeroed() };
            ask_whole(given, Kind::KMTQAITYPE_UMDRIVERNAME, question)
        },
        STATUS_INVALID_PARAMETER,
        &[
            "D3DKMTQueryAdapterInfo fails with STATUS_INVALID_PARAMETER",
            "Version is 99, which is none of KMTUMDVERSION",
        ],
    ),
    (
        |given| ask_whole(given, Kind::KMTQAITYPE_UMDRIVERNAME, D3DKMT_UMDFILENAMEINFO::zeroed()),
        STATUS_OBJECT_NAME_NOT_FOUND,
        &["D3DKMTQueryAdapterInfo fails with", "the software key of the driver has no UserModeDriverName 0"],
    ),
    (
        |given| ask_whole(given, Kind::KMTQAITYPE_UMD_DRIVER_VERSION, D3DKMT_KMD_DRIVER_VERSION::zeroed()),
        STATUS_OBJECT_NAME_NOT_FOUND,
        &["D3DKMTQueryAdapterInfo fails with", "the software key of the driver has no UserModeDriverName 0"],
    ),
    (
        |given| ask_whole(given, Kind::KMTQAITYPE_KMD_DRIVER_VERSION, D3DKMT_KMD_DRIVER_VERSION::zeroed()),
        STATUS_OBJECT_NAME_NOT_FOUND,
        &["D3DKMTQueryAdapterInfo fails with", "the software key of the driver has no DriverVersion of four numbers"],
    ),
    (
        |given| ask_whole(given, Kind::KMTQAITYPE_DRIVER_DESCRIPTION, D3DKMT_DRIVER_DESCRIPTION::zeroed()),
        STATUS_OBJECT_NAME_NOT_FOUND,
        &["D3DKMTQueryAdapterInfo fails with", "the software key of the driver has no DriverDesc"],
    ),
    (
        |given| ask(given, Kind::KMTQAITYPE_GETSEGMENTGROUPSIZE, 0_u32, 4),
        STATUS_BUFFER_TOO_SMALL,
        &["D3DKMTQueryAdapterInfo fails with", "PrivateDriverDataSize is 4, and expected is at least "],
    ),
    (
        |given| {
            let question = D3DKMT_SEGMENTGROUPSIZEINFO { PhysicalAdapterIndex: 7, ..Zeroed::zeroed() };
            ask_whole(given, Kind::KMTQAITYPE_GETSEGMENTGROUPSIZE, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "PhysicalAdapterIndex is 7, and the adapter has 1"],
    ),
    (
        |given| {
            let question = D3DKMT_QUERY_DEVICE_IDS { PhysicalAdapterIndex: 7, ..Zeroed::zeroed() };
            ask_whole(given, Kind::KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "PhysicalAdapterIndex is 7, and the adapter has 1"],
    ),
    (
        |given| ask_whole(given, Kind::KMTQUITYPE_GPUVERSION, D3DKMT_GPUVERSION::zeroed()),
        STATUS_NOT_SUPPORTED,
        &["D3DKMTQueryAdapterInfo fails with", "the driver answered no DxgkDdiQueryAdapterInfo(GPUVERSION)"],
    ),
];

pub(super) const OF_FIGURES: [Refused; 6] = [
    (
        |given| {
            let question = D3DKMT_NODE_PERFDATA { NodeOrdinal: 9, ..Zeroed::zeroed() };
            ask_whole(given, Kind::KMTQAITYPE_NODEPERFDATA, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "NodeOrdinal 9 of PhysicalAdapterIndex 0"],
    ),
    (
        |given| ask_whole(given, Kind::KMTQAITYPE_NODEPERFDATA, D3DKMT_NODE_PERFDATA::zeroed()),
        STATUS_NOT_SUPPORTED,
        &["D3DKMTQueryAdapterInfo fails with", "DxgkDdiQueryAdapterInfo(NODEPERFDATA) answered STATUS_NOT_SUPPORTED"],
    ),
    (
        |given| {
            let question = D3DKMT_ADAPTER_PERFDATA { PhysicalAdapterIndex: 3, ..Zeroed::zeroed() };
            ask_whole(given, Kind::KMTQAITYPE_ADAPTERPERFDATA, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "PhysicalAdapterIndex is 3, and the adapter has 1"],
    ),
    (
        |given| {
            let key = D3DKMT_PNP_KEY_TYPE(9);
            let question = D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY { PnPKeyType: key, ..Zeroed::zeroed() };
            ask_whole(given, Kind::KMTQAITYPE_PHYSICALADAPTERPNPKEY, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "PnPKeyType is 9"],
    ),
    (
        |given| {
            let mut room = 5;
            let key = D3DKMT_PNP_KEY_TYPE::D3DKMT_PNP_KEY_HARDWARE;
            let mut question = D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY { PnPKeyType: key, ..Zeroed::zeroed() };
            question.pCchDest = &raw mut room;
            ask_whole(given, Kind::KMTQAITYPE_PHYSICALADAPTERPNPKEY, question)
        },
        STATUS_BUFFER_TOO_SMALL,
        &["D3DKMTQueryAdapterInfo fails with", "pCchDest has 5, and the path takes "],
    ),
    (
        |given| ask_whole(given, KMTQUERYADAPTERINFOTYPE(9999), 0_u32),
        STATUS_NOT_SUPPORTED,
        &["D3DKMTQueryAdapterInfo fails with", "Type is 9999"],
    ),
];

/// A question about a value of the driver's software key.
fn value(name: &str) -> D3DDDI_QUERYREGISTRY_INFO {
    let mut question = D3DDDI_QUERYREGISTRY_INFO::zeroed();
    question.QueryType = D3DDDI_QUERYREGISTRY_TYPE::D3DDDI_QUERYREGISTRY_ADAPTERKEY;
    for (unit, letter) in question.ValueName.iter_mut().zip(name.encode_utf16()) {
        *unit = letter;
    }
    question
}

pub(super) const OF_REGISTRY: [Refused; 6] = [
    (
        |given| {
            let mut question = value("Some");
            question.QueryFlags = D3DDDI_QUERYREGISTRY_FLAGS::from_bits(1 << 9);
            ask_whole(given, Kind::KMTQAITYPE_QUERYREGISTRY, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "QueryFlags is 0x200", "TranslatePath and MutableValue"],
    ),
    (
        |given| {
            let question = D3DDDI_QUERYREGISTRY_INFO { QueryType: D3DDDI_QUERYREGISTRY_TYPE(9), ..value("Some") };
            ask_whole(given, Kind::KMTQAITYPE_QUERYREGISTRY, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "QueryType is 9"],
    ),
    (
        |given| {
            let path = D3DDDI_QUERYREGISTRY_TYPE::D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH;
            let question = D3DDDI_QUERYREGISTRY_INFO { QueryType: path, ValueType: 1, ..value("") };
            ask_whole(given, Kind::KMTQAITYPE_QUERYREGISTRY, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "ValueType is 1, and expected is 0 for a path"],
    ),
    (
        |given| {
            let path = D3DDDI_QUERYREGISTRY_TYPE::D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH;
            ask_whole(given, Kind::KMTQAITYPE_QUERYREGISTRY, D3DDDI_QUERYREGISTRY_INFO { QueryType: path, ..value("") })
        },
        STATUS_OBJECT_NAME_NOT_FOUND,
        &["D3DKMTQueryAdapterInfo fails with", "there is no driver store"],
    ),
    (
        |given| {
            let question = D3DDDI_QUERYREGISTRY_INFO { ValueName: [65; 260], ..value("") };
            ask_whole(given, Kind::KMTQAITYPE_QUERYREGISTRY, question)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryAdapterInfo fails with", "ValueName has no NUL"],
    ),
    (
        |given| ask_whole(given, Kind::KMTQAITYPE_QUERYREGISTRY, value("Absent")),
        STATUS_OBJECT_NAME_NOT_FOUND,
        &["D3DKMTQueryAdapterInfo fails with", "the key has no value Absent"],
    ),
];
