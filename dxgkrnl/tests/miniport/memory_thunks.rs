//! Thunks of adapters, devices and memory on the minimal miniport: what they do, and what they refuse.

mod every_thunk;
use std::ffi::c_void;
use std::sync::Arc;

use crate::minimal::driver::{IN_NONE, IN_RESOURCE};
use crate::minimal::memory::{LOCAL, ask, call};
use crate::minimal::{Bench, FakeBus, Mutant, SOUND};
use dxgkrnl::{Process, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID, NTSTATUS};

/// Every allocation of the minimal miniport has this size.
const SIZE: usize = 1 << 16;

fn nowhere<T>() -> *mut T {
    std::ptr::without_provenance_mut(0x1000)
}

/// A process with a device and its paging queue. The thread that made it is attached.
struct User {
    process: Arc<Process>,
    adapter: D3DKMT_HANDLE,
    device: D3DKMT_HANDLE,
    queue: D3DKMT_HANDLE,
    fence: D3DKMT_HANDLE,
    fence_value: *const u64,
    _attached: dxgkrnl::Attached,
}

impl User {
    fn new(bench: &Bench, luid: LUID) -> Self {
        let process = Process::new(&bench.machine, "user");
        let attached = process.attach();
        let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
        let adapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).hAdapter;
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = adapter;
        let device = call(thunks().D3DKMTCreateDevice, args).hDevice;
        let mut args = D3DKMT_CREATEPAGINGQUEUE::zeroed();
        args.hDevice = device;
        let made = call(thunks().D3DKMTCreatePagingQueue, args);
        let fence_value = made.FenceValueCPUVirtualAddress.cast_const().cast();
        let (queue, fence) = (made.hPagingQueue, made.hSyncObject);
        Self { process, adapter, device, queue, fence, fence_value, _attached: attached }
    }

    fn create_args(&self, infos: &mut [D3DDDI_ALLOCATIONINFO2]) -> D3DKMT_CREATEALLOCATION {
        let mut args = D3DKMT_CREATEALLOCATION::zeroed();
        args.hDevice = self.device;
        args.NumAllocations = infos.len() as u32;
        args.u1.pAllocationInfo2 = infos.as_mut_ptr();
        args
    }

    fn create(&self) -> D3DKMT_HANDLE {
        let (mut private, mut info) = ([0u8; IN_NONE as usize], [D3DDDI_ALLOCATIONINFO2::zeroed()]);
        (info[0].pPrivateDriverData, info[0].PrivateDriverDataSize) = (private.as_mut_ptr().cast(), IN_NONE);
        call(thunks().D3DKMTCreateAllocation2, self.create_args(&mut info));
        info[0].hAllocation
    }

    fn destroy(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let mut list = [allocation];
        let mut args = D3DKMT_DESTROYALLOCATION2::zeroed();
        args.hDevice = self.device;
        args.AllocationCount = 1;
        args.phAllocationList = list.as_mut_ptr();
        ask(thunks().D3DKMTDestroyAllocation2, args).0
    }

    fn resident(&self, list: &mut [D3DKMT_HANDLE]) -> (NTSTATUS, D3DDDI_MAKERESIDENT) {
        let mut args = D3DDDI_MAKERESIDENT::zeroed();
        args.hPagingQueue = self.queue;
        args.NumAllocations = list.len() as u32;
        args.AllocationList = list.as_mut_ptr();
        ask(thunks().D3DKMTMakeResident, args)
    }

    fn evict(&self, list: &mut [D3DKMT_HANDLE]) -> NTSTATUS {
        let mut args = D3DKMT_EVICT::zeroed();
        args.hDevice = self.device;
        args.NumAllocations = list.len() as u32;
        args.AllocationList = list.as_mut_ptr();
        ask(thunks().D3DKMTEvict, args).0
    }

    fn map_args(&self, allocation: D3DKMT_HANDLE, pages: u64) -> D3DDDI_MAPGPUVIRTUALADDRESS {
        let mut args = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
        args.hPagingQueue = self.queue;
        args.hAllocation = allocation;
        args.SizeInPages = pages;
        args.Protection.set_Write(true);
        args
    }

    fn map(&self, args: D3DDDI_MAPGPUVIRTUALADDRESS) -> Result<u64, NTSTATUS> {
        let (status, args) = ask(thunks().D3DKMTMapGpuVirtualAddress, args);
        status.ok().map(|()| args.VirtualAddress)
    }

    fn free(&self, base: u64, size: u64) -> NTSTATUS {
        let args = D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: self.adapter, BaseAddress: base, Size: size };
        ask(thunks().D3DKMTFreeGpuVirtualAddress, args).0
    }

    fn lock(&self, allocation: D3DKMT_HANDLE) -> Result<*mut u8, NTSTATUS> {
        let mut args = D3DKMT_LOCK2::zeroed();
        (args.hDevice, args.hAllocation) = (self.device, allocation);
        let (status, args) = ask(thunks().D3DKMTLock2, args);
        status.ok().map(|()| args.pData.cast())
    }

    fn unlock(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        ask(thunks().D3DKMTUnlock2, D3DKMT_UNLOCK2 { hDevice: self.device, hAllocation: allocation }).0
    }

    fn reserve_args(&self, size: u64) -> D3DDDI_RESERVEGPUVIRTUALADDRESS {
        let mut args = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
        args.u.hPagingQueue = self.queue;
        args.Size = size;
        args
    }
}

/// The driver puts allocations into system memory that the CPU sees.
const VISIBLE: Mutant = Mutant {
    allocation: |info| info.u3.FlagsWddm2 = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new().with_CpuVisible(true),
    ..SOUND
};

fn start(mutant: Mutant) -> (Bench, LUID) {
    let bench = Bench::new(mutant).unwrap();
    let luid = bench.start().unwrap();
    (bench, luid)
}

/// Everything must be given back: the driver's pool is checked at unload.
fn end(bench: Bench, luid: LUID) {
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

/// The driver of both asserts in DxgkDdiOpenAllocation that DxgkCbAcquireHandleData answers the object that its DxgkDdiCreateAllocation made on the same
/// adapter: the function is given a handle and no adapter. [d3dkmddi: DXGKARGCB_GETHANDLEDATA]
#[test]
fn allocations_of_two_adapters_of_a_driver_have_different_kernel_handles() {
    let bench = Bench::new(SOUND).unwrap();
    let first = bench.start().unwrap();
    let device = bench.machine.plug_in(FakeBus::new(SOUND.class));
    let second = bench.machine.start(device, bench.driver).unwrap();
    let users = [User::new(&bench, first), User::new(&bench, second)];
    let made = users.each_ref().map(|user| {
        let _attached = user.process.attach();
        user.create()
    });
    for (user, allocation) in users.iter().zip(made) {
        let _attached = user.process.attach();
        assert!(user.destroy(allocation).is_success());
    }
    drop(users);
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn handles_of_another_kind_and_stale_handles_are_refused() {
    let (bench, luid) = start(VISIBLE);
    let user = User::new(&bench, luid);
    let allocation = user.create();
    let stale = user.create();
    assert_eq!(user.destroy(stale), STATUS_SUCCESS);
    let kinds = [user.adapter, user.device, user.queue, user.fence, allocation];
    for handle in kinds.into_iter().chain([stale, 0, u32::MAX, 0x8000_0000]) {
        let device = |status| if handle == user.device { STATUS_SUCCESS } else { status };
        let mut state = D3DKMT_GETDEVICESTATE::zeroed();
        (state.hDevice, state.StateType) = (handle, D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION);
        assert_eq!(ask(thunks().D3DKMTGetDeviceState, state).0, device(STATUS_INVALID_HANDLE));
        if handle != user.device {
            let destroy = D3DKMT_DESTROYDEVICE { hDevice: handle };
            assert_eq!(ask(thunks().D3DKMTDestroyDevice, destroy).0, STATUS_INVALID_HANDLE);
        }
        if handle != user.adapter {
            let close = D3DKMT_CLOSEADAPTER { hAdapter: handle };
            assert_eq!(ask(thunks().D3DKMTCloseAdapter, close).0, STATUS_INVALID_HANDLE);
            let mut create = D3DKMT_CREATEDEVICE::zeroed();
            create.u.hAdapter = handle;
            assert_eq!(ask(thunks().D3DKMTCreateDevice, create).0, STATUS_INVALID_HANDLE);
            let free = D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: handle, BaseAddress: 0, Size: 0 };
            assert_eq!(ask(thunks().D3DKMTFreeGpuVirtualAddress, free).0, STATUS_INVALID_HANDLE);
        }
        if handle != user.queue {
            let destroy = D3DDDI_DESTROYPAGINGQUEUE { hPagingQueue: handle };
            assert_eq!(ask(thunks().D3DKMTDestroyPagingQueue, destroy).0, STATUS_INVALID_HANDLE);
            let map = D3DDDI_MAPGPUVIRTUALADDRESS { hPagingQueue: handle, ..user.map_args(allocation, 1) };
            assert_eq!(user.map(map), Err(STATUS_INVALID_HANDLE));
        }
        if handle != allocation {
            assert_eq!(user.destroy(handle), STATUS_INVALID_HANDLE);
            assert_eq!(user.resident(&mut [handle]).0, STATUS_INVALID_HANDLE);
            assert_eq!(user.lock(handle), Err(STATUS_INVALID_HANDLE));
        }
    }
    // A foreign process's handles mean nothing here, whatever their value.
    let other = User::new(&bench, luid);
    assert_eq!(other.lock(allocation).err(), Some(STATUS_INVALID_HANDLE));
    drop(other);
    drop(user);
    end(bench, luid);
}

#[test]
fn an_allocation_lives_through_all_its_states() {
    let (bench, luid) = start(VISIBLE);
    let user = User::new(&bench, luid);
    let allocation = user.create();
    let address = user.lock(allocation).unwrap();
    // SAFETY: the allocation is locked and this long.
    let bytes = unsafe { std::slice::from_raw_parts_mut(address, SIZE) };
    assert!(bytes.iter().all(|byte| *byte == 0), "new memory is zero");
    bytes.fill(0x5a);
    assert_eq!(user.lock(allocation), Ok(address), "locks nest");
    let (status, answer) = user.resident(&mut [allocation]);
    assert_eq!((status, answer.PagingFenceValue, answer.NumBytesToTrim), (STATUS_SUCCESS, 0, 0), "nothing was to do");
    let base = user.map(user.map_args(allocation, 16)).unwrap();
    assert!(base != 0 && base.is_multiple_of(SIZE as u64));
    let second = user.map(user.map_args(allocation, 4)).unwrap();
    assert_ne!(base, second);
    assert_eq!(user.evict(&mut [allocation]), STATUS_SUCCESS);
    assert_eq!(user.evict(&mut [allocation]), STATUS_INVALID_PARAMETER, "it is not on the list any more");
    assert_eq!(user.unlock(allocation), STATUS_SUCCESS);
    assert_eq!(user.unlock(allocation), STATUS_SUCCESS);
    assert_eq!(user.unlock(allocation), STATUS_INVALID_PARAMETER);
    assert_eq!(user.free(base, 16 * 4096 - 4096), STATUS_INVALID_PARAMETER, "regions are freed whole");
    assert_eq!(user.free(base, 16 * 4096), STATUS_SUCCESS);
    assert_eq!(user.free(base, 16 * 4096), STATUS_INVALID_PARAMETER);
    assert_eq!(user.destroy(allocation), STATUS_SUCCESS);
    assert_eq!(user.destroy(allocation), STATUS_INVALID_HANDLE);
    assert_eq!(user.free(second, 4 * 4096), STATUS_INVALID_PARAMETER, "its addresses went with it");
    drop(user);
    end(bench, luid);
}

#[test]
fn residency_in_vram_is_counted_by_the_paging_fence() {
    let (bench, luid) = start(LOCAL);
    let user = User::new(&bench, luid);
    let mut list: Vec<_> = (0..5).map(|_| user.create()).collect();
    let (status, answer) = user.resident(&mut list);
    assert_eq!((status, answer.PagingFenceValue), (STATUS_PENDING, 1));
    let (status, answer) = user.resident(&mut list[..2]);
    assert!(status.is_success() && answer.PagingFenceValue <= 2);
    let first = user.lock(list[0]).unwrap();
    // SAFETY: the allocation is locked.
    unsafe { first.write_volatile(7) };
    assert_eq!(user.unlock(list[0]), STATUS_SUCCESS);
    // SAFETY: the fence is mapped as long as the queue lives. This device executes nothing, so the value stays.
    assert_eq!(unsafe { user.fence_value.read_volatile() }, 0);
    assert_eq!(user.evict(&mut list), STATUS_SUCCESS);
    assert_eq!(user.evict(&mut list), STATUS_INVALID_PARAMETER, "all or none: only two of five are still listed");
    assert_eq!(user.evict(&mut list[..2]), STATUS_SUCCESS);
    drop(user);
    end(bench, luid);
}

#[test]
fn more_than_vram_holds_is_refused_with_what_is_missing_and_leaves_no_mark() {
    let (bench, luid) = start(LOCAL);
    let user = User::new(&bench, luid);
    let mut list: Vec<_> = (0..150).map(|_| user.create()).collect();
    let (status, answer) = user.resident(&mut list);
    assert_eq!(status, STATUS_NO_MEMORY);
    assert!(answer.NumBytesToTrim > 0 && answer.NumBytesToTrim <= SIZE as u64);
    assert_eq!(user.evict(&mut list[..1]), STATUS_INVALID_PARAMETER, "nothing was put on the list");
    // One after the other they fit, because those that were there leave.
    for round in list.chunks_mut(50) {
        assert!(user.resident(round).0.is_success());
        assert_eq!(user.evict(round), STATUS_SUCCESS);
    }
    drop(user);
    end(bench, luid);
}

#[test]
fn absurd_numbers_are_refused_before_anything_happens() {
    let (bench, luid) = start(VISIBLE);
    let user = User::new(&bench, luid);
    let handles = user.process.handle_count();
    let create = |change: fn(&mut D3DKMT_CREATEALLOCATION, &mut D3DDDI_ALLOCATIONINFO2)| {
        let mut info = [D3DDDI_ALLOCATIONINFO2::zeroed()];
        let mut args = user.create_args(&mut info);
        change(&mut args, &mut info[0]);
        ask(thunks().D3DKMTCreateAllocation2, args).0
    };
    assert_eq!(create(|args, _| args.NumAllocations = 0), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.NumAllocations = u32::MAX), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.u1.pAllocationInfo2 = std::ptr::null_mut()), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.u1.pAllocationInfo2 = nowhere()), STATUS_ACCESS_VIOLATION);
    assert_eq!(create(|args, _| args.PrivateDriverDataSize = u32::MAX), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.PrivateDriverDataSize = 8), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|_, info| info.PrivateDriverDataSize = u32::MAX), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|_, info| info.PrivateDriverDataSize = 16), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|_, info| info.u.pSystemMem = nowhere()), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|_, info| info.Flags.set_Primary(true)), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.hGlobalShare = 1), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.hResource = 1), STATUS_NOT_SUPPORTED);
    assert_eq!(create(|args, _| args.Flags.set_CreateShared(true)), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.Flags.set_StandardAllocation(true)), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.Flags.set_ExistingSysMem(true)), STATUS_INVALID_PARAMETER);
    assert_eq!(create(|args, _| args.Flags.set_ExistingSection(true)), STATUS_NOT_SUPPORTED);
    assert_eq!(
        create(|args, _| args.Flags = D3DKMT_CREATEALLOCATIONFLAGS::from_bits(1 << 31)),
        STATUS_INVALID_PARAMETER
    );
    assert_eq!(user.process.handle_count(), handles);

    let allocation = user.create();
    let map = |change: fn(&mut D3DDDI_MAPGPUVIRTUALADDRESS)| {
        let mut args = user.map_args(allocation, 1);
        change(&mut args);
        user.map(args).map(|_| ())
    };
    assert_eq!(map(|args| args.SizeInPages = 0), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.SizeInPages = 17), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.SizeInPages = u64::MAX), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.SizeInPages = u64::MAX / 4096), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.OffsetInPages = 16), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.OffsetInPages = u64::MAX), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.BaseAddress = 0x123), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.BaseAddress = 1 << 39), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.BaseAddress = u64::MAX << 16), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.MinimumAddress = 1 << 40), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.hAllocation = 0), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.Protection.set_Zero(true)), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(map(|args| args.Protection.set_SystemUseOnly(true)), Err(STATUS_INVALID_PARAMETER));
    let reserve = |size| ask(thunks().D3DKMTReserveGpuVirtualAddress, user.reserve_args(size)).0;
    assert_eq!(reserve(0), STATUS_INVALID_PARAMETER);
    assert_eq!(reserve(4096), STATUS_INVALID_PARAMETER, "regions are multiples of 64 KiB");
    assert_eq!(reserve(1 << 39), STATUS_NO_MEMORY);
    assert_eq!(reserve(u64::MAX << 16), STATUS_INVALID_PARAMETER);
    let count = |count, list| {
        let mut args = D3DDDI_MAKERESIDENT::zeroed();
        (args.hPagingQueue, args.NumAllocations, args.AllocationList) = (user.queue, count, list);
        ask(thunks().D3DKMTMakeResident, args).0
    };
    let mut one = [allocation];
    assert_eq!(count(0, one.as_mut_ptr()), STATUS_INVALID_PARAMETER);
    assert_eq!(count(u32::MAX, one.as_mut_ptr()), STATUS_INVALID_PARAMETER);
    assert_eq!(count(1, std::ptr::null_mut()), STATUS_INVALID_PARAMETER);
    assert_eq!(count(1, nowhere()), STATUS_ACCESS_VIOLATION);
    let mut twice = [allocation; 2];
    let mut args = D3DKMT_DESTROYALLOCATION2::zeroed();
    (args.hDevice, args.AllocationCount, args.phAllocationList) = (user.device, 2, twice.as_mut_ptr());
    assert_eq!(ask(thunks().D3DKMTDestroyAllocation2, args).0, STATUS_INVALID_PARAMETER, "named twice");
    assert_eq!(user.destroy(allocation), STATUS_SUCCESS);
    drop(user);
    end(bench, luid);
}

#[test]
fn a_reserved_region_takes_mappings_and_keeps_its_place() {
    let (bench, luid) = start(VISIBLE);
    let user = User::new(&bench, luid);
    let base = call(thunks().D3DKMTReserveGpuVirtualAddress, user.reserve_args(1 << 20)).VirtualAddress;
    let allocation = user.create();
    let at = |address, allocation, pages| {
        let mut args = user.map_args(allocation, pages);
        args.BaseAddress = address;
        args
    };
    assert_eq!(user.map(at(base + 0x5000, allocation, 16)), Ok(base + 0x5000));
    assert_eq!(user.map(at(base + 0x7000, allocation, 2)), Ok(base + 0x7000), "mappings replace each other");
    assert_eq!(
        user.map(at(base + (1 << 20) - 4096, allocation, 2)),
        Err(STATUS_INVALID_PARAMETER),
        "beyond the region"
    );
    assert_eq!(user.map(at(base + (1 << 20), allocation, 1)), Ok(base + (1 << 20)), "a region of its own");
    let mut nothing = at(base + 0x5000, 0, 3);
    nothing.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_NoAccess(true);
    assert_eq!(user.map(nothing), Ok(base + 0x5000));
    assert_eq!(user.destroy(allocation), STATUS_SUCCESS);
    assert_eq!(user.free(base, 1 << 20), STATUS_SUCCESS, "a reservation outlives what it shows");
    drop(user);
    end(bench, luid);
}

#[test]
fn a_resource_is_destroyed_with_its_allocations() {
    let (bench, luid) = start(SOUND);
    let user = User::new(&bench, luid);
    let before = user.process.handle_count();
    let mut private = [0u8; IN_RESOURCE as usize];
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    (info.pPrivateDriverData, info.PrivateDriverDataSize) = (private.as_mut_ptr().cast(), IN_RESOURCE);
    let mut infos = [info; 3];
    let mut args = user.create_args(&mut infos);
    args.Flags.set_CreateResource(true);
    // The driver asserts of each which resource it belongs to, and as which of its allocations.
    let resource = call(thunks().D3DKMTCreateAllocation2, args).hResource;
    assert_eq!(user.process.handle_count(), before + 4);
    assert_eq!(user.destroy(infos[1].hAllocation), STATUS_SUCCESS);
    let mut args = D3DKMT_DESTROYALLOCATION2::zeroed();
    (args.hDevice, args.hResource) = (user.device, resource);
    assert_eq!(ask(thunks().D3DKMTDestroyAllocation2, args).0, STATUS_SUCCESS);
    assert_eq!(user.process.handle_count(), before);
    assert_eq!(ask(thunks().D3DKMTDestroyAllocation2, args).0, STATUS_INVALID_HANDLE);
    drop(user);
    end(bench, luid);
}

#[test]
fn a_device_takes_everything_with_it() {
    let (bench, luid) = start(VISIBLE);
    let user = User::new(&bench, luid);
    let mut list: Vec<_> = (0..4).map(|_| user.create()).collect();
    user.resident(&mut list).0.ok().unwrap();
    user.lock(list[0]).unwrap();
    user.map(user.map_args(list[1], 16)).unwrap();
    call(thunks().D3DKMTDestroyDevice, D3DKMT_DESTROYDEVICE { hDevice: user.device });
    assert_eq!(user.process.handle_count(), 1, "the adapter handle");
    assert_eq!(user.resident(&mut list).0, STATUS_INVALID_HANDLE);
    drop(user);
    end(bench, luid);
}

#[test]
fn answers_of_the_driver_that_break_a_rule_create_nothing() {
    for mutant in [
        Mutant { allocation: |info| info.SupportedWriteSegmentSet = 0b100, ..SOUND },
        Mutant { allocation: |info| info.PreferredSegment.set_SegmentId0(2), ..SOUND },
        Mutant { allocation: |info| info.AllocationPriority = 0, ..SOUND },
        Mutant { allocation: |info| info.EvictionSegmentSet = 0b10, ..SOUND },
        Mutant { allocation: |info| info.Size = usize::MAX, ..SOUND },
    ] {
        let (bench, luid) = start(mutant);
        let user = User::new(&bench, luid);
        let before = user.process.handle_count();
        let mut info = [D3DDDI_ALLOCATIONINFO2::zeroed()];
        let status = ask(thunks().D3DKMTCreateAllocation2, user.create_args(&mut info)).0;
        assert_eq!((status, info[0].hAllocation), (STATUS_INVALID_PARAMETER, 0));
        assert_eq!(user.process.handle_count(), before);
        drop(user);
        end(bench, luid);
    }
}

#[test]
fn adapters_are_listed_by_kind_and_answer_for_themselves() {
    let (bench, luid) = start(SOUND);
    let user = User::new(&bench, luid);
    let mut infos = [D3DKMT_ADAPTERINFO::zeroed(); 2];
    let mut args = D3DKMT_ENUMADAPTERS3::zeroed();
    assert_eq!(call(thunks().D3DKMTEnumAdapters3, args).NumAdapters, 0, "compute-only adapters are listed on request");
    args.Filter.set_IncludeComputeOnly(true);
    assert_eq!(call(thunks().D3DKMTEnumAdapters3, args).NumAdapters, 1);
    args.pAdapters = infos.as_mut_ptr();
    let (status, answer) = ask(thunks().D3DKMTEnumAdapters3, args);
    assert_eq!((status, answer.NumAdapters), (STATUS_BUFFER_TOO_SMALL, 1));
    let handles = user.process.handle_count();
    args.NumAdapters = 2;
    args.pAdapters = nowhere();
    assert_eq!(ask(thunks().D3DKMTEnumAdapters3, args).0, STATUS_ACCESS_VIOLATION);
    assert_eq!(user.process.handle_count(), handles, "handles that nobody got are closed");
    args.pAdapters = infos.as_mut_ptr();
    assert_eq!(call(thunks().D3DKMTEnumAdapters3, args).NumAdapters, 1);
    assert_eq!(infos[0].AdapterLuid, luid);
    let query = |kind, data: &mut [u8]| {
        let mut args = D3DKMT_QUERYADAPTERINFO::zeroed();
        (args.hAdapter, args.Type) = (infos[0].hAdapter, kind);
        (args.pPrivateDriverData, args.PrivateDriverDataSize) = (data.as_mut_ptr().cast(), data.len() as u32);
        ask(thunks().D3DKMTQueryAdapterInfo, args).0
    };
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let mut word = [0; 4];
    assert_eq!(query(Kind::KMTQAITYPE_ADAPTERTYPE, &mut word), STATUS_SUCCESS);
    let kind = D3DKMT_ADAPTERTYPE::from_bits(u32::from_le_bytes(word));
    assert!(kind.RenderSupported() && kind.ComputeOnly() && !kind.DisplaySupported());
    assert_eq!(query(Kind::KMTQAITYPE_WDDM_3_1_CAPS, &mut word), STATUS_SUCCESS);
    assert_eq!(word, [0; 4], "no native fences here");
    assert_eq!(query(Kind::KMTQAITYPE_WDDM_2_7_CAPS, &mut word), STATUS_SUCCESS);
    assert!(D3DKMT_WDDM_2_7_CAPS::from_bits(u32::from_le_bytes(word)).HwSchEnabled());
    assert_eq!(query(Kind::KMTQAITYPE_ADAPTERTYPE, &mut word[..3]), STATUS_BUFFER_TOO_SMALL);
    assert_eq!(query(Kind(12345), &mut word), STATUS_NOT_SUPPORTED);
    assert_eq!(query(Kind::KMTQAITYPE_UMDRIVERPRIVATE, &mut []), STATUS_INVALID_PARAMETER);
    let mut metadata = [0u8; size_of::<D3DKMT_NODEMETADATA>()];
    assert_eq!(query(Kind::KMTQAITYPE_NODEMETADATA, &mut metadata), STATUS_SUCCESS);
    metadata[0] = 1;
    assert_eq!(query(Kind::KMTQAITYPE_NODEMETADATA, &mut metadata), STATUS_INVALID_PARAMETER);
    let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: LUID { LowPart: 99, HighPart: 99 }, hAdapter: 0 };
    assert_eq!(ask(thunks().D3DKMTOpenAdapterFromLuid, open).0, STATUS_INVALID_PARAMETER);
    drop(user);
    end(bench, luid);
}

#[test]
fn a_stopped_adapter_fails_requests_and_processes_still_end() {
    let (bench, luid) = start(LOCAL);
    let user = User::new(&bench, luid);
    let mut list = [user.create()];
    user.resident(&mut list).0.ok().unwrap();
    user.lock(list[0]).unwrap();
    bench.machine.stop(luid).unwrap();
    let mut info = [D3DDDI_ALLOCATIONINFO2::zeroed()];
    let created = ask(thunks().D3DKMTCreateAllocation2, user.create_args(&mut info)).0;
    assert_eq!((created, user.resident(&mut list).0), (STATUS_DEVICE_REMOVED, STATUS_DEVICE_REMOVED));
    let mut state = D3DKMT_GETDEVICESTATE::zeroed();
    (state.hDevice, state.StateType) = (user.device, D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION);
    let state = call(thunks().D3DKMTGetDeviceState, state);
    // SAFETY: the arm that was asked for.
    let state = unsafe { state.u.ExecutionState };
    assert_ne!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE);
    user.process.exit();
    assert_eq!(user.process.handle_count(), 0);
    drop(user);
    end(bench, luid);
}

#[test]
fn many_threads_of_many_processes_leave_nothing_behind() {
    let (bench, luid) = start(LOCAL);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let bench = &bench;
            scope.spawn(move || {
                let user = User::new(bench, luid);
                for round in 0..20 {
                    let mut list: Vec<_> = (0..1 + (thread + round) % 5).map(|_| user.create()).collect();
                    let resident = user.resident(&mut list).0.is_success();
                    let address = user.lock(list[0]).unwrap();
                    // SAFETY: the allocation is locked.
                    unsafe { address.write_volatile(thread as u8) };
                    for allocation in &list {
                        let base = user.map(user.map_args(*allocation, 16)).unwrap();
                        if round % 2 == 0 {
                            assert_eq!(user.free(base, SIZE as u64), STATUS_SUCCESS);
                        }
                    }
                    // SAFETY: the allocation is still locked, and no other process reaches it.
                    assert_eq!(unsafe { address.read_volatile() }, thread as u8);
                    assert_eq!(user.unlock(list[0]), STATUS_SUCCESS);
                    if resident {
                        assert_eq!(user.evict(&mut list), STATUS_SUCCESS);
                    }
                    if round % 3 != 0 {
                        list.iter().for_each(|allocation| assert_eq!(user.destroy(*allocation), STATUS_SUCCESS));
                    }
                }
            });
        }
    });
    end(bench, luid);
}

/// Memory of a program, 64 KiB from a page on.
#[repr(C, align(4096))]
struct Own([u8; SIZE]);

#[test]
fn memory_that_a_program_has_becomes_an_allocation_when_the_driver_says_so_too() {
    let says_so = Mutant { allocation: |info| set_flags(info, true), ..SOUND };
    for (mutant, with, expected) in [
        (says_so, true, STATUS_SUCCESS),
        (SOUND, true, STATUS_INVALID_PARAMETER),
        (says_so, false, STATUS_INVALID_PARAMETER),
        (SOUND, false, STATUS_SUCCESS),
    ] {
        let (bench, luid) = start(mutant);
        let user = User::new(&bench, luid);
        let mut own = Box::new(Own([7; SIZE]));
        let at = (&raw mut own.0).cast::<u8>();
        let mut info = [D3DDDI_ALLOCATIONINFO2::zeroed()];
        let mut args = user.create_args(&mut info);
        if with {
            args.Flags.set_ExistingSysMem(true);
            info[0].u.pSystemMem = at.cast::<c_void>();
        }
        args.u1.pAllocationInfo2 = info.as_mut_ptr();
        assert_eq!(ask(thunks().D3DKMTCreateAllocation2, args).0, expected);
        if expected.is_success() {
            let locked = user.lock(info[0].hAllocation).unwrap();
            assert_eq!(locked == at, with);
            // SAFETY: the allocation is locked.
            assert_eq!(unsafe { locked.read_volatile() }, if with { 7 } else { 0 });
            assert_eq!(user.destroy(info[0].hAllocation), STATUS_SUCCESS);
        }
        // SAFETY: memory of this test, to which nothing else refers.
        assert_eq!(unsafe { at.wrapping_add(SIZE - 1).read_volatile() }, 7);
        drop(user);
        end(bench, luid);
    }
}

fn set_flags(info: &mut DXGK_ALLOCATIONINFO, existing: bool) {
    info.u3.FlagsWddm2 = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new().with_CpuVisible(true).with_ExistingSysMem(existing);
}
