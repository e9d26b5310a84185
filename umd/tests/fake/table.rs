//! The thunks of the fake.

use campanile_hw::private::{DoorbellAnswer, FenceData, HwQueueData, MAGIC};
use wddm_ddi::Zeroed;

use super::resource::{create_allocation, open_resource, query_resource};
use super::*;

macro_rules! thunks {
    ($( $name:ident($arg:ty) = $body:expr; )*) => {
        $(
            #[allow(non_snake_case)]
            unsafe extern "win64" fn $name(args: *mut $arg) -> NTSTATUS {
                os(|fake| match fake.enter(stringify!($name)) {
                    Err(status) => status,
                    Ok(()) => {
                        // SAFETY: the caller passes one valid structure of its own.
                        let args = unsafe { &mut *args };
                        let body: fn(&mut Fake, &mut $arg) -> NTSTATUS = $body;
                        body(fake, args)
                    }
                })
            }
        )*

        /// Thunks of the stand-in, which a test hands to the user-mode driver.
        pub(crate) static THUNKS: Thunks = Thunks { $( $name, )* D3DKMTShareObjects, NtClose };
    };
}

thunks! {
    D3DKMTEnumAdapters3(D3DKMT_ENUMADAPTERS3) = enum_adapters;
    D3DKMTOpenAdapterFromLuid(D3DKMT_OPENADAPTERFROMLUID) = |fake, args| {
        if ![LUID_OURS, LUID_TWIN, LUID_OTHER].contains(&args.AdapterLuid) {
            return STATUS_INVALID_PARAMETER;
        }
        args.hAdapter = fake.insert(Object::Adapter) | (args.AdapterLuid == LUID_OTHER) as u32;
        if args.hAdapter & 1 != 0 {
            let adapter = fake.objects.remove(&(args.hAdapter & !1)).expect("just made");
            fake.objects.insert(args.hAdapter, adapter);
        }
        STATUS_SUCCESS
    };
    D3DKMTCloseAdapter(D3DKMT_CLOSEADAPTER) = |fake, args| fake.remove(args.hAdapter, "adapter");
    D3DKMTQueryAdapterInfo(D3DKMT_QUERYADAPTERINFO) = query_adapter;
    D3DKMTQueryClockCalibration(D3DKMT_QUERYCLOCKCALIBRATION) = |fake, args| {
        let adapter = args.hAdapter;
        if !matches!(fake.objects.get(&adapter), Some(Object::Adapter)) {
            return fake.violation("the clock of no adapter".into());
        }
        let mut clocks = wddm_ddi::km::DXGK_GPUCLOCKDATA::zeroed();
        (clocks.GpuFrequency, clocks.GpuClockCounter, clocks.CpuClockCounter) = (1_000_000_000, 5000, 70);
        args.ClockData = clocks;
        STATUS_SUCCESS
    };
    D3DKMTCreateDevice(D3DKMT_CREATEDEVICE) = |fake, args| {
        // SAFETY: the handle is the arm in use.
        let adapter = unsafe { args.u.hAdapter };
        if !matches!(fake.objects.get(&adapter), Some(Object::Adapter)) {
            return fake.violation("device on no adapter".into());
        }
        args.hDevice = fake.insert(Object::Device);
        STATUS_SUCCESS
    };
    D3DKMTDestroyDevice(D3DKMT_DESTROYDEVICE) = |fake, args| {
        // What is there may be on another device, while there is one.
        let last = fake.objects.values().filter(|object| matches!(object, Object::Device)).count() == 1;
        if last && fake.any(|object| !matches!(object, Object::Device | Object::Adapter | Object::Kernel(_) | Object::KernelResource { .. })) {
            fake.violations.push("device destroyed before what is on it".into());
        }
        fake.remove(args.hDevice, "device")
    };
    D3DKMTGetDeviceState(D3DKMT_GETDEVICESTATE) = |fake, args| {
        args.u.ExecutionState = if fake.lost {
            D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_RESET
        } else {
            D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE
        };
        STATUS_SUCCESS
    };
    D3DKMTCreatePagingQueue(D3DKMT_CREATEPAGINGQUEUE) = |fake, args| {
        let value = Pages::new(8);
        args.FenceValueCPUVirtualAddress = value.address();
        args.hPagingQueue = fake.insert(Object::PagingQueue { fence: 0, value });
        args.hSyncObject = args.hPagingQueue + 1;
        if let Some(Object::PagingQueue { fence, .. }) = fake.objects.get_mut(&args.hPagingQueue) {
            *fence = args.hSyncObject;
        }
        STATUS_SUCCESS
    };
    D3DKMTDestroyPagingQueue(D3DDDI_DESTROYPAGINGQUEUE) = |fake, args| fake.remove(args.hPagingQueue, "paging queue");
    D3DKMTCreateAllocation2(D3DKMT_CREATEALLOCATION) = create_allocation;
    D3DKMTQueryResourceInfoFromNtHandle(D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE) = query_resource;
    D3DKMTOpenResourceFromNtHandle(D3DKMT_OPENRESOURCEFROMNTHANDLE) = open_resource;
    D3DKMTDestroyAllocation2(D3DKMT_DESTROYALLOCATION2) = |fake, args| {
        let handle = match args.hResource {
            0 => {
                assert_eq!(args.AllocationCount, 1);
                // SAFETY: one handle, as counted.
                unsafe { *args.phAllocationList }
            }
            // The resource of an allocation has the number behind it.
            resource => {
                assert_eq!((args.AllocationCount, args.phAllocationList.is_null()), (0, true));
                resource - 1
            }
        };
        let allocation = fake.allocation(handle);
        assert_eq!(allocation.shared, args.hResource != 0);
        if (allocation.resident, allocation.address, allocation.locks) != (0, 0, 0) {
            fake.violations.push("allocation destroyed in use".into());
        }
        if fake.any(|object| matches!(object, Object::Doorbell(it) if it.ring == handle || it.control == handle)) {
            fake.violations.push("ring destroyed before its doorbell".into());
        }
        fake.remove(handle, "allocation")
    };
    D3DKMTMakeResident(D3DDDI_MAKERESIDENT) = |fake, args| {
        assert_eq!(args.NumAllocations, 1);
        // SAFETY: one handle, as counted.
        let handle = unsafe { *args.AllocationList };
        fake.allocation_mut(handle).resident += 1;
        let (status, value) = fake.page();
        args.PagingFenceValue = value;
        status
    };
    D3DKMTEvict(D3DKMT_EVICT) = |fake, args| {
        assert_eq!(args.NumAllocations, 1);
        // SAFETY: one handle, as counted.
        let handle = unsafe { *args.AllocationList };
        fake.allocation_mut(handle).resident -= 1;
        STATUS_SUCCESS
    };
    D3DKMTOfferAllocations(D3DKMT_OFFERALLOCATIONS) = |fake, args| {
        assert_eq!((args.NumAllocations, args.pResources.is_null()), (1, true));
        // SAFETY: one handle, as counted.
        let handle = unsafe { *args.HandleList };
        let allocation = fake.allocation_mut(handle);
        if allocation.offered || allocation.locks != 0 {
            return STATUS_INVALID_PARAMETER;
        }
        allocation.offered = true;
        fake.offers.push(args.Priority);
        STATUS_SUCCESS
    };
    D3DKMTReclaimAllocations2(D3DKMT_RECLAIMALLOCATIONS2) = |fake, args| {
        assert_eq!((args.NumAllocations, args.pResources.is_null()), (1, true));
        // SAFETY: one handle, as counted.
        let handle = unsafe { *args.HandleList };
        if !std::mem::take(&mut fake.allocation_mut(handle).offered) {
            return STATUS_INVALID_PARAMETER;
        }
        // SAFETY: both arms of the union are pointers.
        let results = unsafe { args.u.pResults };
        // SAFETY: one result, as counted.
        unsafe { *results = fake.reclaims };
        let (status, value) = fake.page();
        args.PagingFenceValue = value;
        status
    };
    D3DKMTReserveGpuVirtualAddress(D3DDDI_RESERVEGPUVIRTUALADDRESS) = |_, _| STATUS_NOT_SUPPORTED;
    D3DKMTMapGpuVirtualAddress(D3DDDI_MAPGPUVIRTUALADDRESS) = |fake, args| {
        let pages = args.SizeInPages;
        let allowed = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(true).with_Execute(true);
        assert_eq!(args.Protection.into_bits() & !allowed.into_bits(), 0);
        assert_eq!(fake.allocation(args.hAllocation).data.size.div_ceil(4096), pages);
        let address = fake.reserve(pages * 4096);
        let allocation = fake.allocation_mut(args.hAllocation);
        (allocation.address, allocation.protection) = (address, args.Protection);
        args.VirtualAddress = address;
        let (status, value) = fake.page();
        args.PagingFenceValue = value;
        status
    };
    D3DKMTFreeGpuVirtualAddress(D3DKMT_FREEGPUVIRTUALADDRESS) = |fake, args| {
        for object in fake.objects.values_mut() {
            if let Object::Allocation(allocation) = object
                && allocation.address == args.BaseAddress
                && allocation.data.size.next_multiple_of(4096) == args.Size
            {
                allocation.address = 0;
                return STATUS_SUCCESS;
            }
        }
        fake.violation("unknown GPU addresses freed".into())
    };
    D3DKMTLock2(D3DKMT_LOCK2) = |fake, args| {
        let allocation = fake.allocation_mut(args.hAllocation);
        assert_ne!(allocation.data.placement, Placement::Vram as u32);
        allocation.locks += 1;
        args.pData = allocation.memory.address();
        STATUS_SUCCESS
    };
    D3DKMTUnlock2(D3DKMT_UNLOCK2) = |fake, args| {
        fake.allocation_mut(args.hAllocation).locks -= 1;
        STATUS_SUCCESS
    };
    D3DKMTInvalidateCache(D3DKMT_INVALIDATECACHE) = |fake, args| {
        assert!(args.Offset as u64 + args.Length as u64 <= fake.allocation(args.hAllocation).data.size);
        STATUS_SUCCESS
    };
    D3DKMTQueryVideoMemoryInfo(D3DKMT_QUERYVIDEOMEMORYINFO) = |fake, args| {
        assert!(args.hProcess.is_null());
        fake.violation("a question for a budget".into())
    };
    D3DKMTChangeVideoMemoryReservation(D3DKMT_CHANGEVIDEOMEMORYRESERVATION) =
        |fake, _args| fake.violation("a reservation".into());
    D3DKMTRegisterTrimNotification(D3DKMT_REGISTERTRIMNOTIFICATION) =
        |fake, _args| fake.violation("a registration for trim notifications".into());
    D3DKMTUnregisterTrimNotification(D3DKMT_UNREGISTERTRIMNOTIFICATION) =
        |fake, _args| fake.violation("the end of a registration for trim notifications".into());
    D3DKMTCreateContextVirtual(D3DKMT_CREATECONTEXTVIRTUAL) = |fake, args| {
        assert!(args.NodeOrdinal < 2);
        fake.nodes.push(args.NodeOrdinal);
        args.hContext = fake.insert(Object::PacketContext);
        STATUS_SUCCESS
    };
    D3DKMTDestroyContext(D3DKMT_DESTROYCONTEXT) = |fake, args| fake.remove(args.hContext, "context of packets");
    D3DKMTSubmitCommand(D3DKMT_SUBMITCOMMAND) = |fake, args| {
        assert_eq!((args.BroadcastContextCount, args.NumPrimaries, args.NumHistoryBuffers), (1, 0, 0));
        assert!(matches!(fake.objects.get(&args.BroadcastContext[0]), Some(Object::PacketContext)));
        fake.hand_over(args.BroadcastContext[0], kernel_queue::Item::Packet(args.Commands, args.CommandLength))
    };
    D3DKMTCreateHwContext(D3DKMT_CREATEHWCONTEXT) = |fake, args| {
        assert!(args.NodeOrdinal < 2);
        fake.nodes.push(args.NodeOrdinal);
        args.hHwContext = fake.insert(Object::Context);
        STATUS_SUCCESS
    };
    D3DKMTDestroyHwContext(D3DKMT_DESTROYHWCONTEXT) = |fake, args| {
        let context = args.hHwContext;
        if fake.any(|object| matches!(object, Object::HwQueue(queue) if queue.context == context)) {
            fake.violations.push("context destroyed before its queue".into());
        }
        fake.remove(context, "context")
    };
    D3DKMTSetContextSchedulingPriority(D3DKMT_SETCONTEXTSCHEDULINGPRIORITY) = |fake, args| {
        if !matches!(fake.objects.get(&args.hContext), Some(Object::Context | Object::PacketContext)) {
            return fake.violation("the priority of no context".into());
        }
        fake.priorities.push(args.Priority);
        STATUS_SUCCESS
    };
    D3DKMTCreateHwQueue(D3DKMT_CREATEHWQUEUE) = |fake, args| {
        assert_eq!(args.PrivateDriverDataSize as usize, HwQueueData::SIZE);
        // SAFETY: the driver passes so many bytes.
        let data = unsafe { args.pPrivateDriverData.cast::<[u8; HwQueueData::SIZE]>().read() };
        let data = HwQueueData::from_bytes(&data);
        assert_eq!(data.magic, MAGIC);
        fake.save_sizes.push(data.save_size);
        let progress = Pages::new(8);
        args.HwQueueProgressFenceCPUVirtualAddress = progress.address();
        let queue = HwQueue {
            context: args.hHwContext,
            user: args.Flags.UserModeSubmission(),
            native: args.Flags.NativeProgressFence(),
            fence: 0,
            progress,
        };
        assert!(matches!(fake.objects.get(&args.hHwContext), Some(Object::Context)));
        args.hHwQueue = fake.insert(Object::HwQueue(queue));
        args.hHwQueueProgressFence = args.hHwQueue + 1;
        if let Some(Object::HwQueue(queue)) = fake.objects.get_mut(&args.hHwQueue) {
            queue.fence = args.hHwQueueProgressFence;
        }
        STATUS_SUCCESS
    };
    D3DKMTDestroyHwQueue(D3DKMT_DESTROYHWQUEUE) = |fake, args| {
        let queue = args.hHwQueue;
        if fake.any(|object| matches!(object, Object::Doorbell(doorbell) if doorbell.queue == queue)) {
            fake.violations.push("queue destroyed before its doorbell".into());
        }
        fake.remove(queue, "queue")
    };
    D3DKMTSubmitCommandToHwQueue(D3DKMT_SUBMITCOMMANDTOHWQUEUE) = |fake, args| {
        let user = match fake.objects.get(&args.hHwQueue) {
            Some(Object::HwQueue(queue)) => queue.user,
            _ => return fake.violation("submission to no queue".into()),
        };
        if user {
            return fake.violation("kernel submission to a user-mode queue".into());
        }
        let (commands, size, value) = (args.CommandBuffer, args.CommandLength, args.HwQueueProgressFenceId);
        fake.hand_over(args.hHwQueue, kernel_queue::Item::Buffer(commands, size, value))
    };
    D3DKMTCreateDoorbell(D3DKMT_CREATE_DOORBELL) = create_doorbell;
    D3DKMTConnectDoorbell(D3DKMT_CONNECT_DOORBELL) = |fake, args| {
        let status = fake.connect.pop_front().unwrap_or(CONNECTED);
        match fake.objects.get(&args.hDoorbell) {
            Some(Object::Doorbell(doorbell)) => doorbell.status.set(0, status),
            _ => return fake.violation("connection of no doorbell".into()),
        }
        STATUS_SUCCESS
    };
    D3DKMTDestroyDoorbell(D3DKMT_DESTROY_DOORBELL) = |fake, args| fake.remove(args.hDoorbell, "doorbell");
    D3DKMTNotifyWorkSubmission(D3DKMT_NOTIFY_WORK_SUBMISSION) = |fake, args| {
        match fake.objects.get(&args.hDoorbell) {
            Some(Object::Doorbell(_)) => STATUS_SUCCESS,
            _ => fake.violation("notification of no doorbell".into()),
        }
    };
    D3DKMTGetNativeFenceLogDetail(D3DKMT_GETNATIVEFENCELOGDETAIL) = |fake, args| {
        match fake.objects.get(&args.hHwQueue) {
            // A queue without logs.
            Some(Object::HwQueue(_)) => STATUS_SUCCESS,
            _ => fake.violation("fence logs of no queue".into()),
        }
    };
    D3DKMTCreateNativeFence(D3DKMT_CREATENATIVEFENCE) = |fake, args| {
        let current = Rc::new(Pages::new(16));
        current.set(0, args.Info.InitialFenceValue);
        let address = fake.reserve(4096);
        args.Info.NativeFenceMapping.CurrentValueCpuVa = current.address();
        args.Info.NativeFenceMapping.CurrentValueGpuVa = address;
        args.Info.NativeFenceMapping.MonitoredValueGpuVa = address + 8;
        let FenceData { purpose, .. } = FenceData::from_bytes(&args.PrivateDriverData);
        let fence = AnyFence { purpose, ..AnyFence::new(true, current, address, args.Info.Flags) };
        args.hSyncObject = fake.insert(Object::Fence(fence));
        STATUS_SUCCESS
    };
    D3DKMTOpenNativeFenceFromNtHandle(D3DKMT_OPENNATIVEFENCEFROMNTHANDLE) = |fake, args| {
        if !matches!(fake.objects.get(&args.hDevice), Some(Object::Device)) {
            return fake.violation("a fence opened on no device".into());
        }
        let Some(Object::Kernel(shared)) = fake.objects.get(&(args.hNtHandle.addr() as u32)) else {
            return STATUS_INVALID_HANDLE;
        };
        if !shared.native {
            return STATUS_INVALID_PARAMETER;
        }
        let fence = shared.limited(args.Flags);
        args.PrivateDriverData = FenceData { magic: MAGIC, purpose: fence.purpose }.to_bytes();
        args.NativeFenceMapping.CurrentValueCpuVa = fence.current.address();
        args.NativeFenceMapping.CurrentValueGpuVa = fence.address;
        args.NativeFenceMapping.MonitoredValueGpuVa = fence.address + 8;
        args.hSyncObject = fake.insert(Object::Fence(fence));
        STATUS_SUCCESS
    };
    D3DKMTCreateSynchronizationObject2(D3DKMT_CREATESYNCHRONIZATIONOBJECT2) = kernel_queue::create_monitored;
    D3DKMTOpenSyncObjectFromNtHandle2(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2) = kernel_queue::open_monitored;
    D3DKMTWaitForSynchronizationObjectFromGpu(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU) = |fake, args| {
        assert_eq!(args.ObjectCount, 1);
        // SAFETY: the arm of monitored fences is the only one in use.
        let values = unsafe { args.u.MonitoredFenceValueArray };
        let pair = first_of(args.ObjectHandleArray, values);
        fake.hand_over(args.hContext, kernel_queue::Item::Wait(pair.0, pair.1))
    };
    D3DKMTSignalSynchronizationObjectFromGpu(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU) = |fake, args| {
        assert_eq!(args.ObjectCount, 1);
        // SAFETY: the arm of monitored fences is the only one in use.
        let values = unsafe { args.u.MonitoredFenceValueArray };
        let pair = first_of(args.ObjectHandleArray, values);
        fake.hand_over(args.hContext, kernel_queue::Item::Signal(pair.0, pair.1))
    };
    D3DKMTSubmitWaitForSyncObjectsToHwQueue(D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE) = |fake, args| {
        assert_eq!(args.ObjectCount, 1);
        let pair = first_of(args.ObjectHandleArray, args.FenceValueArray);
        fake.hand_over(args.hHwQueue, kernel_queue::Item::Wait(pair.0, pair.1))
    };
    D3DKMTSubmitSignalSyncObjectsToHwQueue(D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE) = |fake, args| {
        assert_eq!((args.ObjectCount, args.BroadcastHwQueueCount, args.Flags.into_bits()), (1, 1, 0));
        // SAFETY: one queue, as counted.
        let queue = unsafe { *args.BroadcastHwQueueArray };
        let (fence, value) = first_of(args.ObjectHandleArray, args.FenceValueArray);
        fake.hand_over(queue, kernel_queue::Item::Signal(fence, value))
    };
    D3DKMTDestroySynchronizationObject(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT) = |fake, args| fake.remove(args.hSyncObject, "fence");
    D3DKMTWaitForSynchronizationObjectFromCpu(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU) = |fake, args| {
        assert_eq!(args.ObjectCount, 1);
        // SAFETY: one handle, as counted.
        let object = unsafe { *args.ObjectHandleArray };
        // SAFETY: one value, as counted.
        let value = unsafe { *args.FenceValueArray };
        fake.wait(object, value, args.hAsyncEvent)
    };
    D3DKMTSignalSynchronizationObjectFromCpu(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU) = |fake, args| {
        // SAFETY: one handle, as counted.
        let object = unsafe { *args.ObjectHandleArray };
        // SAFETY: one value, as counted.
        let value = unsafe { *args.FenceValueArray };
        match fake.objects.get(&object) {
            Some(Object::Fence(fence)) if fence.may_signal => {
                if value < fence.current.get(0) && !args.Flags.AllowFenceRewind() {
                    return STATUS_INVALID_PARAMETER;
                }
                fence.set(value);
            }
            _ => return fake.violation("signal of no fence, or of one that may not be signalled".into()),
        }
        fake.wake();
        STATUS_SUCCESS
    };
}

#[allow(non_snake_case)]
unsafe extern "win64" fn D3DKMTShareObjects(
    count: u32,
    objects: *const u32,
    attributes: *const c_void,
    access: u32,
    handle: *mut HANDLE,
) -> NTSTATUS {
    os(|fake| {
        if let Err(status) = fake.enter("D3DKMTShareObjects") {
            return status;
        }
        // SAFETY: attributes of the caller's, which begin with their length.
        let length = unsafe { attributes.cast::<u32>().read() };
        assert_eq!((count, length), (1, 48));
        // SAFETY: one object, as counted.
        let object = unsafe { objects.read() };
        if let Some(Object::Allocation(allocation)) = fake.objects.get(&(object - 1)).filter(|_| access == 0x1000_0000)
        {
            let (memory, data) = (allocation.memory.clone(), allocation.data);
            if !allocation.shared {
                return fake.violation("sharing of a private allocation".into());
            }
            let number = fake.insert(Object::KernelResource { memory, data });
            // SAFETY: the caller's place for the handle.
            unsafe { handle.write(std::ptr::without_provenance_mut(number as usize)) };
            return STATUS_SUCCESS;
        }
        let Some(Object::Fence(fence)) =
            fake.objects.get(&object).filter(|_| [0x1000_0000, 0x2_0001, 0x2_0002].contains(&access))
        else {
            return fake.violation(format!("sharing of no fence {object:#x}, or with access {access:#x}"));
        };
        let (may_signal, may_wait) = (access != 0x2_0001, access != 0x2_0002);
        if !fence.shared || may_signal && !fence.may_signal || may_wait && !fence.may_wait {
            return fake.violation("sharing of a private fence, or with more access than there is".into());
        }
        let shared = AnyFence { may_signal, may_wait, ..fence.clone() };
        let number = fake.insert(Object::Kernel(shared));
        // SAFETY: the caller's place for the handle.
        unsafe { handle.write(std::ptr::without_provenance_mut(number as usize)) };
        STATUS_SUCCESS
    })
}

#[allow(non_snake_case)]
unsafe extern "win64" fn NtClose(handle: HANDLE) -> NTSTATUS {
    os(|fake| {
        if let Err(status) = fake.enter("NtClose") {
            return status;
        }
        let number = u32::try_from(handle.addr()).unwrap_or(0);
        match fake.objects.get(&number) {
            Some(Object::Kernel(_) | Object::KernelResource { .. }) => fake.remove(number, "kernel handle"),
            _ => STATUS_INVALID_HANDLE,
        }
    })
}

/// The only fence of a wait or signal, and its value; the caller passes arrays of one.
fn first_of(handles: *const u32, values: *const u64) -> (u32, u64) {
    // SAFETY: one handle, as counted.
    let handle = unsafe { *handles };
    // SAFETY: one value, as counted.
    (handle, unsafe { *values })
}

impl Fake {
    fn allocation_mut(&mut self, handle: u32) -> &mut Allocation {
        match self.objects.get_mut(&handle) {
            Some(Object::Allocation(allocation)) => allocation,
            _ => panic!("no allocation {handle:#x}"),
        }
    }
}

fn enum_adapters(fake: &mut Fake, args: &mut D3DKMT_ENUMADAPTERS3) -> NTSTATUS {
    if !args.Filter.IncludeComputeOnly() {
        args.NumAdapters = 0;
        return STATUS_SUCCESS;
    }
    if args.pAdapters.is_null() {
        args.NumAdapters = 2;
        return STATUS_SUCCESS;
    }
    if args.NumAdapters < 2 {
        return STATUS_BUFFER_TOO_SMALL;
    }
    for (index, luid) in [LUID_OTHER, LUID_OURS].into_iter().enumerate() {
        let mut info = D3DKMT_ADAPTERINFO::zeroed();
        info.hAdapter = fake.insert(Object::Adapter);
        info.AdapterLuid = luid;
        // SAFETY: the caller has space for two.
        let slot = unsafe { args.pAdapters.add(index) };
        // SAFETY: as above.
        unsafe { slot.write(info) };
    }
    args.NumAdapters = 2;
    STATUS_SUCCESS
}

fn query_adapter(fake: &mut Fake, args: &mut D3DKMT_QUERYADAPTERINFO) -> NTSTATUS {
    if args.hAdapter & 1 != 0 {
        return STATUS_INVALID_PARAMETER;
    }
    let answer = match args.Type {
        KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE => fake.adapter.to_bytes().to_vec(),
        KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_3_1_CAPS => u32::from(fake.native).to_le_bytes().to_vec(),
        KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_2_7_CAPS => match fake.hardware_scheduling {
            Some(enabled) => D3DKMT_WDDM_2_7_CAPS::new().with_HwSchEnabled(enabled).into_bits().to_le_bytes().to_vec(),
            None => return STATUS_INVALID_PARAMETER,
        },
        other => return fake.violation(format!("question {other:?}")),
    };
    if args.PrivateDriverDataSize as usize != answer.len() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: the caller's buffer has the size it says.
    unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), args.pPrivateDriverData.cast::<u8>(), answer.len()) };
    STATUS_SUCCESS
}

fn create_doorbell(fake: &mut Fake, args: &mut D3DKMT_CREATE_DOORBELL) -> NTSTATUS {
    assert_eq!(args.PrivateDriverDataSize as usize, DoorbellData::SIZE);
    // SAFETY: the record has the size it says.
    let data = unsafe { args.PrivateDriverData.cast::<[u8; DoorbellData::SIZE]>().read() };
    let data = DoorbellData::from_bytes(&data);
    for (handle, address) in [(args.hRingBuffer, data.ring), (args.hRingBufferControl, data.control)] {
        let allocation = fake.allocation(handle);
        assert!(allocation.resident > 0 && allocation.address == address, "ring and control are resident and mapped");
    }
    let user = matches!(fake.objects.get(&args.hHwQueue), Some(Object::HwQueue(queue)) if queue.user && queue.native);
    if !user {
        return fake.violation("doorbell of a queue without user-mode submission".into());
    }
    let of_queue = |object: &Object| matches!(object, Object::Doorbell(doorbell) if doorbell.queue == args.hHwQueue);
    let last_queued = match fake.objects.iter().find(|(_, object)| of_queue(object)).map(|(handle, _)| *handle) {
        None => 0,
        Some(_) if !args.Flags.ResizeRingBufferOperation() => return fake.violation("a second doorbell".into()),
        Some(old) => {
            fake.run();
            let Some(Object::Doorbell(old)) = fake.objects.get(&old) else { return STATUS_INVALID_HANDLE };
            old.status.set(0, RETRY);
            let control = &fake.allocation(old.control).memory;
            if control.get(campanile_hw::queue::CONTROL_WRITE_POINTER as usize) != old.read {
                return STATUS_GRAPHICS_ALLOCATION_BUSY;
            }
            old.last_queued.get(0)
        }
    };
    let doorbell = Doorbell {
        queue: args.hHwQueue,
        ring: args.hRingBuffer,
        control: args.hRingBufferControl,
        doorbell: Pages::new(8),
        status: Pages::new(8),
        last_queued: Pages::new(8),
        read: 0,
        at: 0,
    };
    doorbell.status.set(0, RETRY);
    doorbell.last_queued.set(0, last_queued);
    if let Some(queue) = fake.queue_number {
        let answer = DoorbellAnswer { queue }.to_bytes();
        // SAFETY: the record has the size of DoorbellData, as was checked.
        unsafe { args.PrivateDriverData.cast::<[u8; DoorbellAnswer::SIZE]>().write(answer) };
    }
    args.DoorbellCPUVirtualAddress = doorbell.doorbell.address();
    args.DoorbellStatusCPUVirtualAddress = doorbell.status.address();
    args.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress = doorbell.last_queued.address();
    args.hDoorbell = fake.insert(Object::Doorbell(doorbell));
    STATUS_SUCCESS
}
