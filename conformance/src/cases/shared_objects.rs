//! What one kernel handle stands for: a resource, a fence, or a resource with its keyed mutex and its fence, and what it lets who opens them do.

use campanile_hw::private::{AllocationData, MAGIC, Placement};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::keyed_mutex_calls::{AT_ONCE, acquire, data_of, destroy, for_kernel_handles};
use crate::kmt::WRONG_KIND;
use crate::rig::{KernelHandle, Rig, shared_flags};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "SharedObjects";
    "SharedObjects.ResourceComesWithMutexAndFence" on Boot::Shared, "d3dkmt_openresourcefromnthandle":
        "One kernel handle of a resource, a keyed mutex and a synchronization object opens all three, keeps all three when their creator has closed them, and an opening gives a mutex without data of the runtime its first."
        => together;
    "SharedObjects.OtherCombinationsAreRefused" on Boot::Shared, "d3dkmtshareobjects":
        "Only a resource, a synchronization object, or a resource, a keyed mutex and a synchronization object have a kernel handle; a keyed mutex alone, pairs, two of a kind and a fourth object are refused."
        => combinations;
    "SharedObjects.AccessSaysWhatAnOpeningMayDo" on Boot::Shared, "d3dkmtshareobjects":
        "A kernel handle without STANDARD_RIGHTS_READ opens no resource, one without SHARED_ALLOCATION_WRITE opens it to be read only, so that nothing can be mapped to be written, and one with both opens it to be written."
        => access;
}

const SIZE: u64 = 65536;

/// A resource of one allocation.
pub(super) struct Resource {
    pub(super) allocation: D3DKMT_HANDLE,
    pub(super) resource: D3DKMT_HANDLE,
}

fn failed(what: &'static str) -> impl Fn(NTSTATUS) -> Failure {
    move |status| Failure::new(format!("{what}: {status}"))
}

/// A resource that is shared by kernel handles.
pub(super) fn create(rig: &Rig) -> Result<Resource, Failure> {
    let placement = Placement::System as u32;
    let data = AllocationData { magic: MAGIC, placement, size: SIZE, adapter: rig.engine, reserved: 0 };
    let mut data = data.to_bytes();
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    (info.pPrivateDriverData, info.PrivateDriverDataSize) = (data.as_mut_ptr().cast(), data.len() as u32);
    let mut arguments = D3DKMT_CREATEALLOCATION::zeroed();
    (arguments.hDevice, arguments.NumAllocations) = (rig.device, 1);
    arguments.Flags = D3DKMT_CREATEALLOCATIONFLAGS::new().with_CreateResource(true).with_CreateShared(true);
    arguments.Flags.set_NtSecuritySharing(true);
    arguments.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: &raw mut info };
    granted(rig.kmt.call(rig.kmt.table().D3DKMTCreateAllocation2, &mut arguments), "D3DKMTCreateAllocation2")?;
    Ok(Resource { allocation: info.hAllocation, resource: arguments.hResource })
}

/// Opens a resource by a kernel handle, with data for a keyed mutex that has none.
fn open(rig: &Rig, handle: KernelHandle, data: &[u8]) -> Result<(Resource, D3DKMT_OPENRESOURCEFROMNTHANDLE), NTSTATUS> {
    open_at(rig, handle, data.as_ptr(), data.len())
}

/// As [`open`], with data of so many bytes at an address.
fn open_at(
    rig: &Rig,
    handle: KernelHandle,
    data: *const u8,
    size: usize,
) -> Result<(Resource, D3DKMT_OPENRESOURCEFROMNTHANDLE), NTSTATUS> {
    let (mut info, mut total) = (D3DDDI_OPENALLOCATIONINFO2::zeroed(), [0u8; AllocationData::SIZE]);
    let mut arguments = D3DKMT_OPENRESOURCEFROMNTHANDLE::zeroed();
    (arguments.hDevice, arguments.hNtHandle) = (rig.device, handle.raw());
    (arguments.NumAllocations, arguments.pOpenAllocationInfo2) = (1, &raw mut info);
    arguments.pTotalPrivateDriverDataBuffer = total.as_mut_ptr().cast();
    arguments.TotalPrivateDriverDataBufferSize = total.len() as u32;
    arguments.pKeyedMutexPrivateRuntimeData = data.cast_mut().cast();
    arguments.KeyedMutexPrivateRuntimeDataSize = size as u32;
    rig.kmt.call(rig.kmt.table().D3DKMTOpenResourceFromNtHandle, &mut arguments).ok()?;
    Ok((Resource { allocation: info.hAllocation, resource: arguments.hResource }, arguments))
}

fn close(rig: &Rig, resource: &Resource) -> NTSTATUS {
    let mut arguments = D3DKMT_DESTROYALLOCATION2::zeroed();
    (arguments.hDevice, arguments.hResource) = (rig.device, resource.resource);
    rig.kmt.call(rig.kmt.table().D3DKMTDestroyAllocation2, &mut arguments)
}

fn together(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let kmt = rig.kmt;
    let (resource, mutex) = (create(&rig)?, for_kernel_handles(kmt, 3)?.hKeyedMutex);
    let fence = rig.monitored_fence(5, shared_flags())?;
    let handle = rig.share(&[resource.resource, mutex, fence.handle]).map_err(failed("D3DKMTShareObjects"))?;
    let other = Rig::on_adapter(kmt, rig.adapter)?;
    match open_at(&other, handle, std::ptr::without_provenance(0x1000), 8) {
        Ok(_) => return Err(Failure::new("a resource was opened with data that is nowhere")),
        Err(status) => refused(status, &[STATUS_ACCESS_VIOLATION], "data that is nowhere")?,
    }
    let (opened, told) = open(&other, handle, b"first").map_err(failed("D3DKMTOpenResourceFromNtHandle"))?;
    ensure!(told.hResource != 0 && told.hResource != resource.resource, "the resource has no handle of its own");
    ensure!(told.hKeyedMutex != 0 && told.hKeyedMutex != mutex, "the mutex has no handle of its own");
    ensure!(told.hSyncObject != 0 && told.hSyncObject != fence.handle, "the fence has no handle of its own");
    ensure_eq!(&data_of(kmt, mutex, 3)?, b"first\0\0\0", "data of the mutex");
    ensure_eq!(acquire(kmt, told.hKeyedMutex, 3, Some(AT_ONCE)).0, STATUS_SUCCESS, "taking the mutex");
    ensure_eq!(acquire(kmt, mutex, 3, Some(AT_ONCE)).0, STATUS_TIMEOUT, "it is the same mutex");
    granted(other.signal(&[told.hSyncObject], &[6]), "signalling the fence")?;
    ensure_eq!(fence.value.load(), 6, "value that the creator reads");
    granted(destroy(kmt, mutex), "the creator closes the mutex")?;
    granted(rig.destroy_fence(fence.handle), "the creator closes the fence")?;
    granted(close(&rig, &resource), "the creator closes the resource")?;
    granted(close(&other, &opened), "closing the opened resource")?;
    granted(other.destroy_fence(told.hSyncObject), "closing the opened fence")?;
    let (again, told_again) = open(&other, handle, b"later").map_err(failed("opening what only the handle keeps"))?;
    granted(other.wait(&[told_again.hSyncObject], &[6], false), "the value that the fence had")?;
    ensure_eq!(acquire(kmt, told_again.hKeyedMutex, 3, Some(AT_ONCE)).0, STATUS_TIMEOUT, "the mutex is taken still");
    granted(destroy(kmt, told_again.hKeyedMutex), "closing the mutex")?;
    granted(destroy(kmt, told.hKeyedMutex), "closing the mutex that is taken")?;
    granted(close(&other, &again), "closing the resource")?;
    granted(handle.close(), "closing the handle")?;
    let alone = create(&rig)?;
    let handle = rig.share(&[alone.resource]).map_err(failed("D3DKMTShareObjects of a resource"))?;
    let (_, told) = open(&other, handle, b"").map_err(failed("opening a resource alone"))?;
    ensure_eq!((told.hKeyedMutex, told.hSyncObject), (0, 0), "what comes with a resource alone");
    granted(handle.close(), "closing the handle")
}

fn combinations(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (resource, another) = (create(&rig)?.resource, create(&rig)?.resource);
    let mutex = for_kernel_handles(rig.kmt, 0)?.hKeyedMutex;
    let fence = rig.monitored_fence(0, shared_flags())?.handle;
    for (what, objects) in [
        ("nothing", &[][..]),
        ("a keyed mutex", &[mutex]),
        ("a resource and a keyed mutex", &[resource, mutex]),
        ("a resource and a fence", &[resource, fence]),
        ("a keyed mutex and a fence", &[mutex, fence]),
        ("two resources", &[resource, another]),
        ("two fences and a resource", &[resource, fence, fence]),
        ("two resources and a fence", &[resource, another, fence]),
        ("a device between them", &[resource, rig.device, fence]),
        ("four objects", &[resource, mutex, fence, fence]),
    ] {
        match rig.share(objects) {
            Ok(_) => return Err(Failure::new(format!("{what} has a kernel handle"))),
            Err(status) => refused(status, WRONG_KIND, what)?,
        }
    }
    for (what, object) in [("a resource", resource), ("a fence", fence)] {
        granted(rig.share(&[object]).map_err(failed(what))?.close(), what)?;
    }
    Ok(())
}

/// What comes of mapping all of an allocation, to be written or not.
fn map(rig: &Rig, allocation: D3DKMT_HANDLE, write: bool) -> NTSTATUS {
    let mut request = rig.map_request(allocation, SIZE);
    request.Protection.set_Write(write);
    rig.kmt.call(rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request)
}

fn access(case: &Case) -> Result<(), Failure> {
    const READ: u32 = 0x2_0000;
    const WRITE: u32 = 1;
    const ALL: u32 = 0xf_0001;
    let rig = case.rig()?;
    let created = create(&rig)?;
    for access in [0, WRITE, WRITE | 0x4_0000] {
        let handle = rig.share_with(&[created.resource], access).map_err(failed("D3DKMTShareObjects"))?;
        match open(&rig, handle, b"") {
            Ok(_) => return Err(Failure::new(format!("access {access:#x} opened a resource"))),
            Err(status) => refused(status, &[STATUS_ACCESS_DENIED], "a handle that may not be read")?,
        }
        granted(handle.close(), "closing it")?;
    }
    for (access, writes) in [(READ, false), (0x8000_0000, false), (READ | WRITE, true), (ALL, true)] {
        let handle = rig.share_with(&[created.resource], access).map_err(failed("D3DKMTShareObjects"))?;
        let (opened, _) = open(&rig, handle, b"").map_err(failed("an opening with the right to read"))?;
        rig.make_resident(opened.allocation)?;
        granted(map(&rig, opened.allocation, false), "a mapping to read")?;
        let (mapped, locked) = (map(&rig, opened.allocation, true), rig.lock(opened.allocation));
        if writes {
            granted(mapped, "a mapping to write")?;
            locked.map_err(failed("D3DKMTLock2"))?;
            granted(rig.unlock(opened.allocation), "D3DKMTUnlock2")?;
        } else {
            refused(mapped, &[STATUS_ACCESS_DENIED], "a mapping to write")?;
            refused(locked.err().unwrap_or(STATUS_SUCCESS), &[STATUS_ACCESS_DENIED], "an address to write at")?;
        }
        granted(close(&rig, &opened), "closing it")?;
        granted(handle.close(), "closing the handle")?;
    }
    rig.make_resident(created.allocation)?;
    granted(map(&rig, created.allocation, true), "a mapping of the creator")?;
    granted(close(&rig, &created), "destroying it")
}
