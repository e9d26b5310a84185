//! Requests about GPU virtual addresses.

use dxgkrnl::{further_thunks, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use super::minimal::queue::call;
use super::{Given, Refused};

fn map(given: Given, change: fn(&mut D3DDDI_MAPGPUVIRTUALADDRESS)) -> Option<NTSTATUS> {
    let mut args = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
    (args.hPagingQueue, args.hAllocation, args.SizeInPages) = (given.paging_queue, given.allocation, 1);
    change(&mut args);
    call(thunks().D3DKMTMapGpuVirtualAddress, args).err()
}

fn reserve(given: Given, change: fn(&mut D3DDDI_RESERVEGPUVIRTUALADDRESS)) -> Option<NTSTATUS> {
    let mut args = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
    args.u.hPagingQueue = given.paging_queue;
    args.Size = 1 << 16;
    change(&mut args);
    call(thunks().D3DKMTReserveGpuVirtualAddress, args).err()
}

/// Mappings. The allocation has 64 KiB, as the driver answered, and the address space 39 bits.
pub(super) const OF_MAPPINGS: [Refused; 9] = [
    (
        |given| map(given, |args| args.SizeInPages = 17),
        STATUS_INVALID_PARAMETER,
        &[
            "D3DKMTMapGpuVirtualAddress fails with STATUS_INVALID_PARAMETER",
            "OffsetInPages 0x0 and SizeInPages 0x11",
            "the allocation has 0x10 pages",
            "DxgkDdiCreateAllocation answered Size 0x10000",
        ],
    ),
    (
        |given| map(given, |args| args.OffsetInPages = 16),
        STATUS_INVALID_PARAMETER,
        &["OffsetInPages 0x10 and SizeInPages 0x1", "DxgkDdiCreateAllocation answered Size 0x10000"],
    ),
    (
        |given| map(given, |args| args.OffsetInPages = u64::MAX),
        STATUS_INVALID_PARAMETER,
        &["OffsetInPages 0xffffffffffffffff and SizeInPages 0x1", "answered Size 0x10000"],
    ),
    (
        |given| map(given, |args| args.SizeInPages = 0),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTMapGpuVirtualAddress fails with", "SizeInPages is 0x0"],
    ),
    (
        |given| map(given, |args| args.SizeInPages = 1 << 62),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTMapGpuVirtualAddress fails with", "SizeInPages is 0x4000000000000000"],
    ),
    (
        |given| map(given, |args| args.BaseAddress = 0x1_0000_0001),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTMapGpuVirtualAddress fails with", "BaseAddress is 0x100000001, which is no multiple of 0x1000"],
    ),
    (
        |given| map(given, |args| args.BaseAddress = 0x1_0000_1000),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTMapGpuVirtualAddress fails with", "BaseAddress 0x100001000", "no multiple of 0x10000"],
    ),
    (
        |given| map(given, |args| args.MinimumAddress = 1 << 62),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTMapGpuVirtualAddress fails with", "MinimumAddress 0x4000000000000000", "ends at 0x"],
    ),
    (
        |given| map(given, |args| args.BaseAddress = 1 << 62),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTMapGpuVirtualAddress fails with", "BaseAddress 0x4000000000000000", "ends at 0x"],
    ),
];

/// Reservations, and what is given back or changed of them.
pub(super) const OF_REGIONS: [Refused; 9] = [
    (
        |given| reserve(given, |args| args.Size = 0),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTReserveGpuVirtualAddress fails with STATUS_INVALID_PARAMETER", "the size is 0x0"],
    ),
    (
        |given| reserve(given, |args| args.Size = 1 << 62),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTReserveGpuVirtualAddress fails with", "the size is 0x4000000000000000", "ends at 0x"],
    ),
    (
        |given| reserve(given, |args| args.BaseAddress = 0x1_0000_1000),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTReserveGpuVirtualAddress fails with", "BaseAddress 0x100001000", "no multiple of 0x10000"],
    ),
    (
        |given| reserve(given, |args| (args.MinimumAddress, args.MaximumAddress) = (0x20_0000, 0x10_0000)),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTReserveGpuVirtualAddress fails with", "MinimumAddress 0x200000", "MaximumAddress 0x100000"],
    ),
    (
        |given| {
            let args =
                D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: given.adapter, BaseAddress: 0x1_2345_0000, Size: 1 << 16 };
            free(args)
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTFreeGpuVirtualAddress fails with STATUS_INVALID_PARAMETER", "0x123450000", "no region begins there"],
    ),
    (
        |given| {
            let mut args = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
            args.u.hPagingQueue = given.paging_queue;
            args.Size = 1 << 17;
            let at = call(thunks().D3DKMTReserveGpuVirtualAddress, args).ok()?.VirtualAddress;
            free(D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: given.adapter, BaseAddress: at, Size: 1 << 16 })
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTFreeGpuVirtualAddress fails with", "Size is 0x10000, and the region there has 0x20000"],
    ),
    (
        |given| update(given, 0x1_2345_0001, 0x1000),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUpdateGpuVirtualAddress fails with", "0x123450001", "no whole pages of 0x1000"],
    ),
    (
        |given| update(given, 0x1_2345_0000, 0),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUpdateGpuVirtualAddress fails with", "0x123450000", "SizeInBytes 0x0"],
    ),
    (
        |given| update(given, 0x1_2345_0000, 0x1000),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUpdateGpuVirtualAddress fails with", "0x123450000", "D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO"],
    ),
];

fn free(args: D3DKMT_FREEGPUVIRTUALADDRESS) -> Option<NTSTATUS> {
    call(thunks().D3DKMTFreeGpuVirtualAddress, args).err()
}

/// Asks for a range to show nothing from now on.
fn update(given: Given, at: u64, len: u64) -> Option<NTSTATUS> {
    let mut made = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: given.device, ..Zeroed::zeroed() };
    made.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
    let fence = call(thunks().D3DKMTCreateSynchronizationObject2, made).ok()?.hSyncObject;
    let mut operation = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION::zeroed();
    operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE::D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP;
    operation.u.Unmap.BaseAddress = at;
    operation.u.Unmap.SizeInBytes = len;
    operation.u.Unmap.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_NoAccess(true);
    let mut args = D3DKMT_UPDATEGPUVIRTUALADDRESS { hDevice: given.device, ..Zeroed::zeroed() };
    (args.hContext, args.hFenceObject) = (given.context, fence);
    (args.NumOperations, args.Operations) = (1, &raw mut operation);
    // SAFETY: the structure and its list live across the call.
    unsafe { (further_thunks().D3DKMTUpdateGpuVirtualAddress)(&raw const args) }.ok().err()
}
