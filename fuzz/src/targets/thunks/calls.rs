//! One function for each thunk: what the model foresees, the call, and what is alive then.

use campanile_hw::private::{AllocationData, DoorbellData, MAGIC, Placement};
use wddm_ddi::Zeroed;
use wddm_ddi::km::{D3DDDI_CREATEHWQUEUEFLAGS, D3DDDI_NATIVEFENCE_TYPE};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::hold;
use super::model::{Kind, Model, Object};
use crate::input::Input;
use crate::targets::machine::User;

/// Calls one thunk, sometimes several.
pub(super) type Operation = fn(&User, &mut Model, &mut Input<'_>);

/// In the order of their numbers in an input.
pub(super) const OPERATIONS: [Operation; 28] = [
    open_adapter,
    close_adapter,
    create_device,
    destroy_device,
    create_paging_queue,
    destroy_paging_queue,
    create_allocation,
    destroy_allocation,
    create_hw_context,
    destroy_hw_context,
    create_hw_queue,
    destroy_hw_queue,
    create_fence,
    destroy_fence,
    create_packet_context,
    destroy_packet_context,
    make_resident,
    evict,
    lock,
    unlock,
    signal,
    wait,
    device_state,
    fence_log,
    create_memory,
    create_doorbell,
    connect_doorbell,
    destroy_doorbell,
];

/// State of a device that is not in error.
const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
/// Bytes of an allocation.
const SIZE: u64 = 4096;

fn open_adapter(user: &User, model: &mut Model, _: &mut Input<'_>) {
    let mut arguments = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: user.luid(), hAdapter: 0 };
    hold(user.call(user.kmt().table().D3DKMTOpenAdapterFromLuid, &mut arguments), Ok(()));
    model.add(arguments.hAdapter, Object::new(Kind::Adapter, 0, 0));
}

/// Devices of the adapter go on.
fn close_adapter(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_CLOSEADAPTER { hAdapter: model.pick(input, Kind::Adapter) };
    let foreseen = model.get(arguments.hAdapter, Kind::Adapter).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTCloseAdapter, &mut arguments), foreseen) {
        model.end(arguments.hAdapter);
    }
}

fn create_device(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let adapter = model.pick(input, Kind::Adapter);
    let mut arguments = D3DKMT_CREATEDEVICE::zeroed();
    arguments.u = D3DKMT_CREATEDEVICE_Union { hAdapter: adapter };
    let foreseen = model.get(adapter, Kind::Adapter).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTCreateDevice, &mut arguments), foreseen) {
        model.add(arguments.hDevice, Object::new(Kind::Device, 0, 0));
    }
}

fn destroy_device(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_DESTROYDEVICE { hDevice: model.pick(input, Kind::Device) };
    let foreseen = model.get(arguments.hDevice, Kind::Device).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTDestroyDevice, &mut arguments), foreseen) {
        model.end_device(arguments.hDevice);
    }
}

fn create_paging_queue(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let device = model.pick(input, Kind::Device);
    let mut arguments = D3DKMT_CREATEPAGINGQUEUE::zeroed();
    arguments.hDevice = device;
    let foreseen = model.get(device, Kind::Device).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTCreatePagingQueue, &mut arguments), foreseen) {
        model.add(arguments.hPagingQueue, Object::new(Kind::PagingQueue, device, 0));
        model.add(arguments.hSyncObject, Object::new(Kind::QueueFence, device, arguments.hPagingQueue));
    }
}

fn destroy_paging_queue(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DDDI_DESTROYPAGINGQUEUE::zeroed();
    arguments.hPagingQueue = model.pick(input, Kind::PagingQueue);
    let foreseen = model.get(arguments.hPagingQueue, Kind::PagingQueue).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTDestroyPagingQueue, &mut arguments), foreseen) {
        model.end(arguments.hPagingQueue);
    }
}

/// Creates an allocation on a device, if the device is one.
fn allocate(user: &User, model: &mut Model, device: D3DKMT_HANDLE, placement: Placement) -> Option<D3DKMT_HANDLE> {
    let data = AllocationData { magic: MAGIC, placement: placement as u32, size: SIZE, adapter: 0, reserved: 0 };
    let mut data = data.to_bytes();
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    info.pPrivateDriverData = data.as_mut_ptr().cast();
    info.PrivateDriverDataSize = data.len() as u32;
    let mut arguments = D3DKMT_CREATEALLOCATION::zeroed();
    (arguments.hDevice, arguments.NumAllocations) = (device, 1);
    arguments.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: &mut info };
    let foreseen = model.get(device, Kind::Device).map(drop);
    hold(user.call(user.kmt().table().D3DKMTCreateAllocation2, &mut arguments), foreseen).then(|| {
        let kind = Kind::Allocation { lockable: placement != Placement::Vram };
        model.add(info.hAllocation, Object::new(kind, device, 0));
        info.hAllocation
    })
}

fn create_allocation(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let device = model.pick(input, Kind::Device);
    let placement = input.pick(&[Placement::System, Placement::SystemUncached, Placement::Vram]);
    allocate(user, model, device, placement);
}

/// Refused for memory that a doorbell uses.
fn destroy_allocation(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let (device, mut allocation) = (model.pick(input, Kind::Device), model.pick(input, Kind::ALLOCATION));
    let mut arguments = D3DKMT_DESTROYALLOCATION2::zeroed();
    (arguments.hDevice, arguments.AllocationCount) = (device, 1);
    arguments.phAllocationList = &raw mut allocation;
    let foreseen = match model.allocation(allocation, device) {
        Ok(_) if model.is_ring(allocation) => Err(STATUS_GRAPHICS_ALLOCATION_BUSY),
        found => found.map(drop),
    };
    if hold(user.call(user.kmt().table().D3DKMTDestroyAllocation2, &mut arguments), foreseen) {
        model.end(allocation);
    }
}

fn create_hw_context(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let device = model.pick(input, Kind::Device);
    let mut arguments = D3DKMT_CREATEHWCONTEXT::zeroed();
    (arguments.hDevice, arguments.NodeOrdinal, arguments.EngineAffinity) = (device, u32::from(input.u8() % 2), 1);
    let foreseen = model.get(device, Kind::Device).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTCreateHwContext, &mut arguments), foreseen) {
        model.add(arguments.hHwContext, Object::new(Kind::HwContext, device, 0));
    }
}

/// Refused while it has queues.
fn destroy_hw_context(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_DESTROYHWCONTEXT { hHwContext: model.pick(input, Kind::HwContext) };
    let foreseen = match model.get(arguments.hHwContext, Kind::HwContext) {
        Ok(_) if model.has_children(arguments.hHwContext, Kind::HwQueue) => Err(STATUS_INVALID_PARAMETER),
        found => found.map(drop),
    };
    if hold(user.call(user.kmt().table().D3DKMTDestroyHwContext, &mut arguments), foreseen) {
        model.end(arguments.hHwContext);
    }
}

fn create_hw_queue(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let context = model.pick(input, Kind::HwContext);
    let mut arguments = D3DKMT_CREATEHWQUEUE::zeroed();
    arguments.hHwContext = context;
    arguments.Flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true).with_NativeProgressFence(true);
    let foreseen = model.get(context, Kind::HwContext).map(|context| context.device);
    if hold(user.call(user.kmt().table().D3DKMTCreateHwQueue, &mut arguments), foreseen.map(drop)) {
        let device = model.get_mut(context).device;
        model.add(arguments.hHwQueue, Object::new(Kind::HwQueue, device, context));
        let fence = Object::new(Kind::QueueFence, device, arguments.hHwQueue);
        model.add(arguments.hHwQueueProgressFence, fence);
    }
}

/// Refused while it has a doorbell.
fn destroy_hw_queue(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_DESTROYHWQUEUE { hHwQueue: model.pick(input, Kind::HwQueue) };
    let foreseen = match model.get(arguments.hHwQueue, Kind::HwQueue) {
        Ok(_) if model.has_children(arguments.hHwQueue, Kind::Doorbell) => Err(STATUS_INVALID_PARAMETER),
        found => found.map(drop),
    };
    if hold(user.call(user.kmt().table().D3DKMTDestroyHwQueue, &mut arguments), foreseen) {
        model.end(arguments.hHwQueue);
    }
}

fn create_fence(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let device = model.pick(input, Kind::Device);
    let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
    arguments.hDevice = device;
    arguments.Info.InitialFenceValue = u64::from(input.u8());
    arguments.Info.EngineAffinity = 1;
    arguments.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
    let foreseen = model.get(device, Kind::Device).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTCreateNativeFence, &mut arguments), foreseen) {
        let value = arguments.Info.InitialFenceValue;
        model.add(arguments.hSyncObject, Object { value, ..Object::new(Kind::Fence, device, 0) });
    }
}

/// Refused for the fence of a queue, which goes with the queue.
fn destroy_fence(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: fence(model, input) };
    let foreseen = model.fence(arguments.hSyncObject).and_then(|fence| match fence.kind {
        Kind::QueueFence => Err(STATUS_INVALID_PARAMETER),
        _ => Ok(()),
    });
    if hold(user.call(user.kmt().table().D3DKMTDestroySynchronizationObject, &mut arguments), foreseen) {
        model.end(arguments.hSyncObject);
    }
}

/// The handle of a fence of either kind, most of the time.
fn fence(model: &Model, input: &mut Input<'_>) -> D3DKMT_HANDLE {
    let kind = input.pick(&[Kind::Fence, Kind::Fence, Kind::QueueFence]);
    model.pick(input, kind)
}

fn create_packet_context(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let device = model.pick(input, Kind::Device);
    let mut arguments = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
    (arguments.hDevice, arguments.NodeOrdinal, arguments.EngineAffinity) = (device, u32::from(input.u8() % 2), 1);
    let foreseen = model.get(device, Kind::Device).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTCreateContextVirtual, &mut arguments), foreseen) {
        model.add(arguments.hContext, Object::new(Kind::PacketContext, device, 0));
    }
}

fn destroy_packet_context(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_DESTROYCONTEXT { hContext: model.pick(input, Kind::PacketContext) };
    let foreseen = model.get(arguments.hContext, Kind::PacketContext).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTDestroyContext, &mut arguments), foreseen) {
        model.end(arguments.hContext);
    }
}

/// Makes an allocation resident by a paging queue; the value of the queue's fence at which it is.
fn list(user: &User, model: &mut Model, queue: D3DKMT_HANDLE, mut allocation: D3DKMT_HANDLE) -> u64 {
    let mut arguments = D3DDDI_MAKERESIDENT::zeroed();
    (arguments.hPagingQueue, arguments.NumAllocations) = (queue, 1);
    arguments.AllocationList = &raw mut allocation;
    let device = model.get(queue, Kind::PagingQueue).map(|queue| queue.device);
    let foreseen = device.and_then(|device| model.allocation(allocation, device).map(drop));
    if hold(user.call(user.kmt().table().D3DKMTMakeResident, &mut arguments), foreseen) {
        model.get_mut(allocation).listed += 1;
    }
    arguments.PagingFenceValue
}

fn make_resident(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let (queue, allocation) = (model.pick(input, Kind::PagingQueue), model.pick(input, Kind::ALLOCATION));
    list(user, model, queue, allocation);
}

/// Rings stay resident here: when memory that is on no list leaves is up to the system.
fn evict(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let (device, mut allocation) = (model.pick(input, Kind::Device), model.pick(input, Kind::ALLOCATION));
    if model.is_ring(allocation) {
        return;
    }
    let mut arguments = D3DKMT_EVICT::zeroed();
    (arguments.hDevice, arguments.NumAllocations) = (device, 1);
    arguments.AllocationList = &raw mut allocation;
    let foreseen = match model.allocation(allocation, device) {
        Ok(found) if found.listed == 0 => Err(STATUS_INVALID_PARAMETER),
        found => found.map(drop),
    };
    if hold(user.call(user.kmt().table().D3DKMTEvict, &mut arguments), foreseen) {
        model.get_mut(allocation).listed -= 1;
    }
}

/// Locks an allocation, but not memory for the GPU alone, of which the model does not know where it is.
fn lock(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let (device, allocation) = (model.pick(input, Kind::Device), model.pick(input, Kind::ALLOCATION));
    let mut arguments = D3DKMT_LOCK2::zeroed();
    (arguments.hDevice, arguments.hAllocation) = (device, allocation);
    let found = model.allocation(allocation, device);
    if found.is_ok_and(|found| found.kind == Kind::Allocation { lockable: false }) {
        return;
    }
    let foreseen = found.map(drop);
    if hold(user.call(user.kmt().table().D3DKMTLock2, &mut arguments), foreseen) {
        model.get_mut(allocation).locks += 1;
    }
}

fn unlock(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let (device, allocation) = (model.pick(input, Kind::Device), model.pick(input, Kind::ALLOCATION));
    let mut arguments = D3DKMT_UNLOCK2 { hDevice: device, hAllocation: allocation };
    let foreseen = match model.allocation(allocation, device) {
        Ok(found) if found.locks == 0 => Err(STATUS_INVALID_PARAMETER),
        found => found.map(drop),
    };
    if hold(user.call(user.kmt().table().D3DKMTUnlock2, &mut arguments), foreseen) {
        model.get_mut(allocation).locks -= 1;
    }
}

/// A value below the current one is refused, and the fence of a queue.
fn signal(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let (device, mut fence) = (model.pick(input, Kind::Device), fence(model, input));
    let mut value = u64::from(input.u8());
    let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
    (arguments.hDevice, arguments.ObjectCount) = (device, 1);
    (arguments.ObjectHandleArray, arguments.FenceValueArray) = (&raw mut fence, &raw mut value);
    let found = model.get(device, Kind::Device).and_then(|_| model.fence(fence));
    let foreseen = found.and_then(|found| match found.kind {
        Kind::Fence if value >= found.value => Ok(()),
        _ => Err(STATUS_INVALID_PARAMETER),
    });
    if hold(user.call(user.kmt().table().D3DKMTSignalSynchronizationObjectFromCpu, &mut arguments), foreseen) {
        model.get_mut(fence).value = value;
    }
}

/// Waits for a value that a fence has.
fn wait(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let (device, fence) = (model.pick(input, Kind::Device), fence(model, input));
    let value = model.fence(fence).map_or(0, |fence| fence.value);
    let foreseen = model.get(device, Kind::Device).and_then(|_| model.fence(fence)).map(drop);
    hold(wait_for(user, device, fence, value), foreseen);
}

fn wait_for(user: &User, device: D3DKMT_HANDLE, mut fence: D3DKMT_HANDLE, mut value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
    (arguments.hDevice, arguments.ObjectCount) = (device, 1);
    (arguments.ObjectHandleArray, arguments.FenceValueArray) = (&raw mut fence, &raw mut value);
    user.call(user.kmt().table().D3DKMTWaitForSynchronizationObjectFromCpu, &mut arguments)
}

fn device_state(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let device = model.pick(input, Kind::Device);
    let mut arguments = D3DKMT_GETDEVICESTATE::zeroed();
    (arguments.hDevice, arguments.StateType) = (device, D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION);
    let foreseen = model.get(device, Kind::Device).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTGetDeviceState, &mut arguments), foreseen) {
        assert_eq!(user.kmt().execution_state(device).expect("a state"), ACTIVE, "the device is in error");
    }
}

fn fence_log(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let queue = model.pick(input, Kind::HwQueue);
    let mut arguments = D3DKMT_GETNATIVEFENCELOGDETAIL::zeroed();
    arguments.hHwQueue = queue;
    let foreseen = model.get(queue, Kind::HwQueue).map(drop);
    hold(user.call(user.kmt().table().D3DKMTGetNativeFenceLogDetail, &mut arguments), foreseen);
}

/// An allocation that a paging queue makes resident and maps for the GPU; nothing without a paging queue.
fn create_memory(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let queue = model.pick(input, Kind::PagingQueue);
    let Ok(device) = model.get(queue, Kind::PagingQueue).map(|queue| queue.device) else { return };
    let Some(allocation) = allocate(user, model, device, Placement::SystemUncached) else { return };
    let listed = list(user, model, queue, allocation);
    let mut request = D3DDDI_MAPGPUVIRTUALADDRESS::zeroed();
    (request.hPagingQueue, request.hAllocation, request.SizeInPages) = (queue, allocation, 1);
    request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true);
    hold(user.call(user.kmt().table().D3DKMTMapGpuVirtualAddress, &mut request), Ok(()));
    let fence = model.fence_of(queue);
    hold(wait_for(user, device, fence, listed.max(request.PagingFenceValue)), Ok(()));
    model.get_mut(allocation).value = request.VirtualAddress;
}

/// A queue has one doorbell, over two allocations of its device that are resident and mapped.
fn create_doorbell(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let queue = model.pick(input, Kind::HwQueue);
    let rings = [(); 2].map(|()| model.pick(input, Kind::ALLOCATION));
    let found = rings.map(|ring| model.get(ring, Kind::ALLOCATION));
    // Whether memory is resident that is on no list, and rings that are another doorbell's, are not foreseen.
    if found.iter().flatten().any(|ring| ring.listed == 0 || ring.value == 0)
        || rings.iter().any(|ring| model.is_ring(*ring))
    {
        return;
    }
    let addresses = found.map(|ring| ring.map_or(0, |ring| ring.value));
    let mut data = DoorbellData { ring: addresses[0], control: addresses[1] }.to_bytes();
    let mut arguments = D3DKMT_CREATE_DOORBELL::zeroed();
    (arguments.hHwQueue, arguments.hRingBuffer, arguments.hRingBufferControl) = (queue, rings[0], rings[1]);
    arguments.PrivateDriverData = data.as_mut_ptr().cast();
    arguments.PrivateDriverDataSize = data.len() as u32;
    let foreseen = model.get(queue, Kind::HwQueue).and_then(|of| {
        let [ring, control] = found;
        let (ring, control) = (ring?, control?);
        let misplaced = rings[0] == rings[1] || ring.device != of.device || control.device != of.device;
        let refused = misplaced || model.has_children(queue, Kind::Doorbell);
        if refused { Err(STATUS_INVALID_PARAMETER) } else { Ok(of.device) }
    });
    let status = user.call(user.kmt().table().D3DKMTCreateDoorbell, &mut arguments);
    if let (true, Ok(device)) = (hold(status, foreseen.map(drop)), foreseen) {
        let doorbell = Object { rings, ..Object::new(Kind::Doorbell, device, queue) };
        model.add(arguments.hDoorbell, doorbell);
    }
}

fn connect_doorbell(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_CONNECT_DOORBELL::zeroed();
    arguments.hDoorbell = model.pick(input, Kind::Doorbell);
    let foreseen = model.get(arguments.hDoorbell, Kind::Doorbell).map(drop);
    hold(user.call(user.kmt().table().D3DKMTConnectDoorbell, &mut arguments), foreseen);
}

fn destroy_doorbell(user: &User, model: &mut Model, input: &mut Input<'_>) {
    let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: model.pick(input, Kind::Doorbell) };
    let foreseen = model.get(arguments.hDoorbell, Kind::Doorbell).map(drop);
    if hold(user.call(user.kmt().table().D3DKMTDestroyDoorbell, &mut arguments), foreseen) {
        model.end(arguments.hDoorbell);
    }
}
