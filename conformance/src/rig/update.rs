//! Changes of mappings in the order of a context's work.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use super::Rig;
use crate::Failure;

type Operation = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;
type Kind = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE;
type Arms = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Union;

/// No rights to what shows zeros.
pub const ZERO: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE =
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Zero(true);
/// No rights at all.
pub const NO_ACCESS: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE =
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_NoAccess(true);

/// Shows `part` bytes of an allocation from a byte on; 0 for as many as the range has.
pub fn map_operation(to: (u64, u64), allocation: D3DKMT_HANDLE, offset: u64, part: u64) -> Operation {
    let map = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Map {
        BaseAddress: to.0,
        SizeInBytes: to.1,
        hAllocation: allocation,
        AllocationOffsetInBytes: offset,
        AllocationSizeInBytes: part,
    };
    Operation { OperationType: Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP, u: Arms { Map: map } }
}

/// As [`map_operation`], with rights.
pub fn protect_operation(
    to: (u64, u64),
    allocation: D3DKMT_HANDLE,
    offset: u64,
    protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
) -> Operation {
    let map = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_MapProtect {
        BaseAddress: to.0,
        SizeInBytes: to.1,
        hAllocation: allocation,
        AllocationOffsetInBytes: offset,
        AllocationSizeInBytes: 0,
        Protection: protection,
        DriverProtection: 0,
    };
    Operation { OperationType: Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT, u: Arms { MapProtect: map } }
}

/// Shows nothing of an allocation any more: [`ZERO`] or [`NO_ACCESS`].
pub fn unmap_operation(to: (u64, u64), protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE) -> Operation {
    let unmap =
        D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Unmap { BaseAddress: to.0, SizeInBytes: to.1, Protection: protection };
    Operation { OperationType: Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP, u: Arms { Unmap: unmap } }
}

/// Shows what the same number of bytes from `from` on show.
pub fn copy_operation(to: (u64, u64), from: u64) -> Operation {
    let copy =
        D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Copy { SourceAddress: from, SizeInBytes: to.1, DestAddress: to.0 };
    Operation { OperationType: Kind::D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY, u: Arms { Copy: copy } }
}

impl Rig {
    /// Reserves a range that reads as zero, or one that faults.
    pub fn reserve(&self, size: u64, zero: bool) -> Result<u64, Failure> {
        let reserved = self.try_reserve(size, zero);
        reserved.map_err(|status| Failure::new(format!("D3DKMTReserveGpuVirtualAddress failed with {status}")))
    }

    /// As [`Rig::reserve`], where a refusal is an answer.
    pub fn try_reserve(&self, size: u64, zero: bool) -> Result<u64, NTSTATUS> {
        use D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE as Type;
        let mut reserve = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
        reserve.u = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union { hAdapter: self.adapter };
        let kind = match zero {
            true => Type::D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO,
            false => Type::D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS,
        };
        reserve.u1 = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union1 { ReservationType: kind };
        reserve.Size = size;
        self.kmt.call(self.kmt.table().D3DKMTReserveGpuVirtualAddress, &mut reserve).ok()?;
        Ok(reserve.VirtualAddress)
    }

    /// A request that waits for a value of a fence, to be changed by the case.
    pub fn update_request(
        &self,
        context: D3DKMT_HANDLE,
        fence: (D3DKMT_HANDLE, u64),
        operations: &[Operation],
    ) -> D3DKMT_UPDATEGPUVIRTUALADDRESS {
        let mut update = D3DKMT_UPDATEGPUVIRTUALADDRESS::zeroed();
        (update.hDevice, update.hContext) = (self.device, context);
        (update.hFenceObject, update.FenceValue) = fence;
        (update.NumOperations, update.Operations) = (operations.len() as u32, operations.as_ptr().cast_mut());
        update
    }

    /// Status of D3DKMTUpdateGpuVirtualAddress for a request.
    pub fn update(&self, request: &D3DKMT_UPDATEGPUVIRTUALADDRESS) -> NTSTATUS {
        self.kmt.call_read_only(self.kmt.further().D3DKMTUpdateGpuVirtualAddress, request)
    }

    /// Status of D3DKMTUpdateGpuVirtualAddress for a null pointer.
    pub fn update_nothing(&self) -> NTSTATUS {
        // SAFETY: the thunk refuses the null pointer itself.
        unsafe { (self.kmt.further().D3DKMTUpdateGpuVirtualAddress)(std::ptr::null()) }
    }
}
