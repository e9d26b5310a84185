//! Allocations and resources of the fake.

use super::*;

pub(super) fn create_allocation(fake: &mut Fake, args: &mut D3DKMT_CREATEALLOCATION) -> NTSTATUS {
    assert_eq!(args.NumAllocations, 1);
    // SAFETY: the arm that this thunk uses.
    let info = unsafe { args.u1.pAllocationInfo2 };
    // SAFETY: one record, as counted.
    let info = unsafe { &mut *info };
    assert_eq!(info.PrivateDriverDataSize as usize, AllocationData::SIZE);
    // SAFETY: the record has the size it says.
    let data = unsafe { info.pPrivateDriverData.cast::<[u8; AllocationData::SIZE]>().read() };
    let data = AllocationData::from_bytes(&data);
    assert_eq!((data.magic, data.reserved), (MAGIC, 0));
    assert!(Placement::from_number(data.placement).is_some() && data.size > 0);
    if data.size > 1 << 34 {
        return STATUS_NO_MEMORY;
    }
    let flags = args.Flags;
    let shared = flags.NtSecuritySharing();
    assert_eq!((flags.CreateResource(), flags.CreateShared()), (shared, shared));
    info.hAllocation = insert_allocation(fake, Rc::new(Pages::new(data.size as usize)), data, shared);
    args.hResource = if shared { info.hAllocation + 1 } else { 0 };
    STATUS_SUCCESS
}

fn insert_allocation(fake: &mut Fake, memory: Rc<Pages>, data: AllocationData, shared: bool) -> u32 {
    let protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
    let allocation = Allocation { memory, data, resident: 0, address: 0, protection, locks: 0, offered: false, shared };
    fake.insert(Object::Allocation(allocation))
}

/// The memory behind a kernel handle of a resource.
fn kernel_resource(fake: &Fake, handle: HANDLE) -> Result<(Rc<Pages>, AllocationData), NTSTATUS> {
    match fake.objects.get(&(handle.addr() as u32)) {
        Some(Object::KernelResource { memory, data }) => Ok((memory.clone(), *data)),
        Some(Object::Kernel(_)) => Err(STATUS_OBJECT_TYPE_MISMATCH),
        _ => Err(STATUS_INVALID_HANDLE),
    }
}

pub(super) fn query_resource(fake: &mut Fake, args: &mut D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE) -> NTSTATUS {
    if let Err(status) = kernel_resource(fake, args.hNtHandle) {
        return status;
    }
    (args.NumAllocations, args.TotalPrivateDriverDataSize) = (1, AllocationData::SIZE as u32);
    STATUS_SUCCESS
}

pub(super) fn open_resource(fake: &mut Fake, args: &mut D3DKMT_OPENRESOURCEFROMNTHANDLE) -> NTSTATUS {
    let (memory, data) = match kernel_resource(fake, args.hNtHandle) {
        Ok(found) => found,
        Err(status) => return status,
    };
    assert_eq!((args.NumAllocations, args.TotalPrivateDriverDataBufferSize as usize), (1, AllocationData::SIZE));
    // SAFETY: a place for the data of the one allocation, as sized.
    unsafe { args.pTotalPrivateDriverDataBuffer.cast::<[u8; AllocationData::SIZE]>().write(data.to_bytes()) };
    let handle = insert_allocation(fake, memory, data, true);
    // SAFETY: a place for one allocation, as counted.
    unsafe { (*args.pOpenAllocationInfo2).hAllocation = handle };
    args.hResource = handle + 1;
    STATUS_SUCCESS
}
