//! The driver: adapter, answers, interrupts, packets.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::{NtImports, POOL_FLAG_NON_PAGED};
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::bus::{MONITORED, REGISTERS_SIZE, VRAM_SIZE};
use super::{Mutant, SOUND, table};

/// Pool tag of everything.
pub(crate) const TAG: u32 = u32::from_le_bytes(*b"mini");

thread_local! {
    /// Deviations from the correct driver of those that this thread loads and starts.
    pub(crate) static MUTANT: Cell<Mutant> = const { Cell::new(SOUND) };
}

static IMPORTS: OnceLock<&'static NtImports> = OnceLock::new();

pub(crate) fn bind(imports: &'static NtImports) {
    let _ = IMPORTS.set(imports);
}

pub(crate) fn imports() -> &'static NtImports {
    IMPORTS.get().expect("bound before use")
}

/// One adapter of the driver, in pool.
pub(crate) struct Adapter {
    pub(crate) mutant: Mutant,
    pub(crate) interface: DXGKRNL_INTERFACE,
    pub(crate) handle: HANDLE,
    pub(crate) registers: *mut u32,
    /// Written at device level, where no interrupt routine runs.
    pub(crate) stopped: bool,
    /// Address of the physical device object.
    pub(crate) device_object: usize,
    pub(crate) vram: i64,
    pub(crate) features: DXGK_FEATURE_INTERFACE,
    /// Memory that a test left behind.
    pub(crate) forgotten: *mut c_void,
}

/// The driver's handle of every resource.
const RESOURCE: usize = 0x5e50_0000;
/// Bytes of private data with which a test says that an allocation is created with a resource.
pub(crate) const IN_RESOURCE: u32 = 0x52;
/// As [`IN_RESOURCE`], that it is created without one.
pub(crate) const IN_NONE: u32 = 0x50;

/// Takes pool; NULL-free in these tests.
pub(crate) fn allocate(size: usize) -> *mut c_void {
    // SAFETY: a plain request.
    let block = unsafe { (imports().ExAllocatePool2)(POOL_FLAG_NON_PAGED, size, TAG) };
    assert!(!block.is_null());
    block
}

pub(crate) fn free(block: *mut c_void) {
    // SAFETY: the block came from `allocate`.
    unsafe { (imports().ExFreePoolWithTag)(block, TAG) };
}

pub(crate) fn adapter<'a>(context: *mut c_void) -> &'a mut Adapter {
    // SAFETY: the context is the block that AddDevice filled; these tests never use one from two threads at once, other than
    // for the fields that stay the same after StartDevice.
    unsafe { &mut *context.cast::<Adapter>() }
}

pub(crate) unsafe extern "win64" fn driver_entry(object: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    let mut table = table::table();
    let version = MUTANT.get().version;
    table.Version = version.version;
    (MUTANT.get().table)(&mut table);
    let end = (&raw mut table).cast::<u8>().wrapping_add(version.driver_table);
    // SAFETY: the bytes are the end of the table, which no driver of this version has: what is there is anything.
    unsafe { end.write_bytes(0xcc, size_of::<DRIVER_INITIALIZATION_DATA>() - version.driver_table) };
    // SAFETY: all three live across the call.
    unsafe { (imports().DxgkInitialize)(object, path, &raw mut table) }
}

pub(crate) unsafe extern "win64" fn add_device(object: *mut c_void, context: *mut *mut c_void) -> NTSTATUS {
    let block = allocate(size_of::<Adapter>()).cast::<Adapter>();
    let adapter = Adapter {
        mutant: MUTANT.get(),
        interface: DXGKRNL_INTERFACE::zeroed(),
        handle: std::ptr::null_mut(),
        registers: std::ptr::null_mut(),
        stopped: false,
        device_object: object.addr(),
        vram: 0,
        features: DXGK_FEATURE_INTERFACE::zeroed(),
        forgotten: std::ptr::null_mut(),
    };
    // SAFETY: the block has the size of an adapter.
    unsafe { block.write(adapter) };
    // SAFETY: the system passes a place for the context.
    unsafe { context.write(block.cast()) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn remove_device(context: *mut c_void) -> NTSTATUS {
    free(context);
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn start_device(
    context: *mut c_void,
    _info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    let adapter = adapter(context);
    // SAFETY: the system passes its interface.
    adapter.interface = unsafe { interface.read() };
    adapter.handle = adapter.interface.DeviceHandle;
    adapter.stopped = false;
    let mut info = DXGK_DEVICE_INFO::zeroed();
    // SAFETY: handle and place are good.
    let status = unsafe { adapter.interface.DxgkCbGetDeviceInformation.unwrap()(adapter.handle, &raw mut info) };
    assert!(status.is_success());
    assert_eq!(info.PhysicalDeviceObject.addr(), adapter.device_object);
    let path = info.DeviceRegistryPath;
    // SAFETY: the text lives as long as the adapter.
    let path = unsafe { std::slice::from_raw_parts(path.Buffer, usize::from(path.Length / 2)) };
    let path = String::from_utf16(path).expect("a path");
    assert!(path.starts_with(r"\Registry\Machine\System\ControlSet001\Control\Class\{f01a9d53"), "{path}");
    // SAFETY: the list lives as long as the adapter.
    let list = unsafe { info.TranslatedResourceList.read() };
    assert_eq!({ list.PartialCount }, 3);
    let [registers, vram, interrupt, ..] = list.PartialDescriptors;
    assert_eq!(interrupt.Type, CM_PARTIAL_RESOURCE_DESCRIPTOR::INTERRUPT);
    // SAFETY: the descriptor is memory.
    let registers = unsafe { registers.u.Memory };
    // SAFETY: as above.
    let vram = unsafe { vram.u.Memory };
    assert_eq!({ vram.Length }, VRAM_SIZE as u32);
    adapter.vram = { vram.Start }.QuadPart;
    let mut mapped = std::ptr::null_mut();
    // SAFETY: handle and place are good.
    let status = unsafe {
        adapter.interface.DxgkCbMapMemory.unwrap()(
            adapter.handle,
            registers.Start,
            REGISTERS_SIZE as u32,
            0,
            0,
            MEMORY_CACHING_TYPE::MmNonCached,
            &raw mut mapped,
        )
    };
    assert!(status.is_success());
    adapter.registers = mapped.cast();
    adapter.features.Size = size_of::<DXGK_FEATURE_INTERFACE>() as u16;
    adapter.features.Version = DXGK_FEATURE_INTERFACE_VERSION_1;
    let place = (&raw mut adapter.features).cast();
    // SAFETY: handle and place are good.
    let status = unsafe {
        adapter.interface.DxgkCbQueryServices.unwrap()(adapter.handle, DXGK_SERVICES::DxgkServicesFeature, place)
    };
    assert_eq!(status.is_success(), adapter.mutant.version.version >= DXGKDDI_INTERFACE_VERSION_WDDM3_2);
    // SAFETY: the system passes places for both numbers.
    unsafe { sources.write(0) };
    // SAFETY: as above.
    unsafe { children.write(0) };
    (adapter.mutant.in_start)(adapter);
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn stop_device(context: *mut c_void) -> NTSTATUS {
    let adapter = adapter(context);
    (adapter.mutant.in_stop)(adapter);
    let mut done = 0;
    let synchronize = adapter.interface.DxgkCbSynchronizeExecution.unwrap();
    // SAFETY: the routine is given the adapter.
    let status = unsafe { synchronize(adapter.handle, Some(end_interrupts), context, 0, &raw mut done) };
    assert!(status.is_success() && done == 1);
    // SAFETY: the mapping was made in StartDevice, and no interrupt routine uses it any more.
    let status = unsafe { adapter.interface.DxgkCbUnmapMemory.unwrap()(adapter.handle, adapter.registers.cast()) };
    assert!(status.is_success());
    STATUS_SUCCESS
}

unsafe extern "win64" fn end_interrupts(context: *mut c_void) -> BOOLEAN {
    adapter(context).stopped = true;
    1
}

pub(crate) unsafe extern "win64" fn interrupt_routine(context: *mut c_void, _message: u32) -> BOOLEAN {
    let adapter = adapter(context);
    if adapter.stopped {
        return 0;
    }
    let mut any = false;
    loop {
        // SAFETY: the registers are mapped.
        let report = unsafe { adapter.registers.read_volatile() };
        if report == 0 {
            break;
        }
        any = true;
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        if report == MONITORED {
            data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
        } else {
            data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED;
            data.u.DmaCompleted.SubmissionFenceId = report;
        }
        // SAFETY: handle and data are good.
        unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
    }
    if any {
        // SAFETY: the handle is good.
        unsafe { adapter.interface.DxgkCbQueueDpc.unwrap()(adapter.handle) };
    }
    any.into()
}

pub(crate) unsafe extern "win64" fn dpc_routine(context: *mut c_void) {
    let adapter = adapter(context);
    (adapter.mutant.in_dpc)(adapter);
    // SAFETY: the handle is good.
    unsafe { adapter.interface.DxgkCbNotifyDpc.unwrap()(adapter.handle) };
}

unsafe extern "win64" fn query_feature_support(context: HANDLE, args: *mut DXGKARG_QUERYFEATURESUPPORT) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    if !adapter(context).mutant.features.contains(&args.FeatureId) {
        return STATUS_INVALID_PARAMETER;
    }
    (args.MinSupportedVersion, args.MaxSupportedVersion) = (1, 1);
    (args.SupportedByDriver, args.SupportedOnCurrentConfig) = (1, 1);
    STATUS_SUCCESS
}

unsafe extern "win64" fn query_feature_interface(_: HANDLE, _: *mut DXGKARG_QUERYFEATUREINTERFACE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

unsafe extern "win64" fn reference(_context: *mut c_void) {}

pub(crate) unsafe extern "win64" fn query_interface(context: *mut c_void, query: *mut QUERY_INTERFACE) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let query = unsafe { &*query };
    // SAFETY: the system names the interface by a GUID.
    let kind = unsafe { query.InterfaceType.read() };
    if kind != GUID_WDDM_INTERFACE_FEATURE {
        return STATUS_NOT_SUPPORTED;
    }
    let interface = DXGKDDI_FEATURE_INTERFACE {
        Size: size_of::<DXGKDDI_FEATURE_INTERFACE>() as u16,
        Version: DXGKDDI_FEATURE_INTERFACE_VERSION_1,
        Context: context,
        InterfaceReference: Some(reference),
        InterfaceDereference: Some(reference),
        QueryFeatureSupport: Some(query_feature_support),
        QueryFeatureInterface: Some(query_feature_interface),
    };
    // SAFETY: the system passes a place of this size.
    unsafe { query.Interface.cast::<DXGKDDI_FEATURE_INTERFACE>().write(interface) };
    STATUS_SUCCESS
}

/// A driver object: a block of pool that remembers its adapter.
fn object(adapter: *mut c_void) -> *mut c_void {
    let block = allocate(16);
    // SAFETY: the block has space for a pointer.
    unsafe { block.cast::<*mut c_void>().write(adapter) };
    block
}

fn adapter_of(object: *mut c_void) -> *mut c_void {
    // SAFETY: objects begin with their adapter.
    unsafe { object.cast::<*mut c_void>().read() }
}

pub(crate) unsafe extern "win64" fn destroy(object: HANDLE) -> NTSTATUS {
    free(object);
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn create_process(context: HANDLE, args: *mut DXGKARG_CREATEPROCESS) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    unsafe { (*args).hKmdProcess = object(context) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn destroy_process(_context: HANDLE, process: HANDLE) -> NTSTATUS {
    free(process);
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn create_device(context: HANDLE, args: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    unsafe { (*args).hDevice = object(context) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn create_context(device: HANDLE, args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    let context = adapter_of(device);
    args.hContext = object(context);
    args.ContextInfo.DmaBufferSize = 4096;
    args.ContextInfo.DmaBufferSegmentSet = adapter(context).mutant.dma_buffer_segment_set;
    args.ContextInfo.Caps.set_NoPatchingRequired(true);
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn create_hw_context(device: HANDLE, args: *mut DXGKARG_CREATEHWCONTEXT) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    unsafe { (*args).hHwContext = object(adapter_of(device)) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn create_hw_queue(context: HANDLE, args: *mut DXGKARG_CREATEHWQUEUE) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    unsafe { (*args).hHwQueue = object(adapter_of(context)) };
    STATUS_SUCCESS
}

/// Every allocation is 64 KiB of system memory.
pub(crate) unsafe extern "win64" fn create_allocation(
    context: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    if args.Flags.Resource() {
        args.hResource = std::ptr::without_provenance_mut(RESOURCE);
    }
    // SAFETY: the system passes as many elements as it says.
    let infos = unsafe { std::slice::from_raw_parts_mut(args.pAllocationInfo, args.NumAllocations as usize) };
    for info in infos {
        info.hAllocation = object(context);
        info.Size = 1 << 16;
        info.SupportedWriteSegmentSet = 1;
        info.PreferredSegment.set_SegmentId0(1);
        info.AllocationPriority = 0x7800_0000;
        (adapter(context).mutant.allocation)(info);
    }
    STATUS_SUCCESS
}

/// Frees a list of objects.
fn free_all(list: *mut HANDLE, count: u32) -> NTSTATUS {
    for index in 0..count as usize {
        // SAFETY: the system passes as many elements as it says.
        free(unsafe { list.wrapping_add(index).read() });
    }
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn destroy_allocation(
    _context: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    free_all(args.pAllocationList, args.NumAllocations)
}

/// Takes the allocation's own object from the system, which must be the one that CreateAllocation answered.
pub(crate) unsafe extern "win64" fn open_allocation(device: HANDLE, args: *const DXGKARG_OPENALLOCATION) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    let adapter = adapter(adapter_of(device));
    for index in 0..args.NumAllocations as usize {
        let info = args.pOpenAllocation.wrapping_add(index);
        // SAFETY: the system passes as many elements as it says.
        let info = unsafe { &mut *info };
        let mut data = DXGKARGCB_GETHANDLEDATA::zeroed();
        data.hObject = info.hAllocation;
        data.Type = DXGK_HANDLE_TYPE::DXGK_HANDLE_ALLOCATION;
        let mut release = std::ptr::null_mut();
        // SAFETY: both places are good.
        let found = unsafe { adapter.interface.DxgkCbAcquireHandleData.unwrap()(&raw const data, &raw mut release) };
        assert_eq!(adapter_of(found), std::ptr::from_mut(adapter).cast(), "the object of CreateAllocation");
        let given_back = DXGKARGCB_RELEASEHANDLEDATA { ReleaseHandle: release, Type: data.Type };
        // SAFETY: the handle was just acquired.
        unsafe { adapter.interface.DxgkCbReleaseHandleData.unwrap()(given_back) };
        data.hObject ^= 0x4000;
        // SAFETY: the place is good.
        let foreign = unsafe { adapter.interface.DxgkCbGetHandleData.unwrap()(&raw const data) };
        assert!(foreign.is_null(), "a handle of nothing has no data");
        check_relatives(adapter, info, args.NumAllocations, index);
        info.hDeviceSpecificAllocation = object(std::ptr::from_mut(adapter).cast());
    }
    STATUS_SUCCESS
}

/// An allocation that was created with a resource is the one at its place among those of the resource; one without is of none.
/// [d3dkmddi: DXGKCB_GETHANDLEPARENT, DXGKCB_ENUMHANDLECHILDREN]
fn check_relatives(adapter: &Adapter, info: &DXGK_OPENALLOCATIONINFO, count: u32, index: usize) {
    let allocation = info.hAllocation;
    let (parent_of, child_of) =
        (adapter.interface.DxgkCbGetHandleParent.unwrap(), adapter.interface.DxgkCbEnumHandleChildren.unwrap());
    let child = |resource, index| {
        let data = DXGKARGCB_ENUMHANDLECHILDREN { hObject: resource, Index: index };
        // SAFETY: the place is good.
        unsafe { child_of(&raw const data) }
    };
    // SAFETY: any number may be asked about.
    let parent = unsafe { parent_of(allocation) };
    // SAFETY: as above.
    assert_eq!(unsafe { parent_of(allocation ^ 0x4000) }, 0, "a handle of nothing has no resource");
    assert_eq!(child(allocation, 0), 0, "an allocation has no allocations");
    match info.PrivateDriverDataSize {
        IN_RESOURCE => assert_ne!(parent, 0, "it was created with a resource"),
        IN_NONE => assert_eq!(parent, 0, "it was created without one"),
        _ => {}
    }
    if parent == 0 {
        return;
    }
    let mut data = DXGKARGCB_GETHANDLEDATA::zeroed();
    (data.hObject, data.Type) = (parent, DXGK_HANDLE_TYPE::DXGK_HANDLE_RESOURCE);
    // SAFETY: the place is good.
    let found = unsafe { adapter.interface.DxgkCbGetHandleData.unwrap()(&raw const data) };
    assert_eq!(found.addr(), RESOURCE, "the object of CreateAllocation");
    // SAFETY: as above.
    assert_eq!(unsafe { parent_of(parent) }, 0, "a resource belongs to none");
    assert_eq!(child(parent, index as u32), allocation);
    assert_eq!(child(parent, count), 0, "past the last one");
    assert_eq!(child(parent, u32::MAX), 0);
}

pub(crate) unsafe extern "win64" fn close_allocation(
    _device: HANDLE,
    args: *const DXGKARG_CLOSEALLOCATION,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    free_all(args.pOpenHandleList, args.NumAllocations)
}

/// The engine is the processor: entries are 8 bytes, packets are done when they are submitted.
pub(crate) unsafe extern "win64" fn build_paging_buffer(
    _context: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    // Whatever size is moved, of 0 bytes too: a command of its own, for which there has to be room.
    let is_transfer = args.Operation == DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_VIRTUAL_TRANSFER;
    if args.Operation == DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: the operation says which arm is valid.
        let update = unsafe { args.u.UpdatePageTable };
        for index in 0..update.NumPageTableEntries as usize {
            let from = if update.Flags.Repeat() { 0 } else { index };
            // SAFETY: the system passes as many entries as it says.
            let entry = unsafe { update.pPageTableEntries.wrapping_add(from).read() };
            // SAFETY: every arm is a number.
            let address = unsafe { entry.u1.PageAddress };
            // SAFETY: in this update mode the address is one of the CPU.
            let table = unsafe { update.PageTableAddress.CpuVirtual }.cast::<u64>();
            // SAFETY: tables have 512 entries.
            unsafe { table.wrapping_add(update.StartIndex as usize + index).write_volatile(address << 12 | 1) };
        }
    } else if !args.pDmaBuffer.is_null() || is_transfer {
        if args.DmaSize < 8 {
            return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        }
        args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(8);
    }
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn submit_command_virtual(
    context: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let fence = unsafe { (*args).SubmissionFenceId };
    // SAFETY: the registers are mapped.
    unsafe { adapter(context).registers.write_volatile(fence) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn submit_command_to_hw_queue(
    context: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    // SAFETY: the system passes the kernel address of the progress fence.
    unsafe { args.HwQueueProgressFenceCpuVa.cast::<u64>().write_volatile(args.HwQueueProgressFenceId) };
    // SAFETY: the registers are mapped.
    unsafe { adapter(context).registers.write_volatile(MONITORED) };
    STATUS_SUCCESS
}
