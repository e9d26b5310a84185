//! Objects of one process, created as the operating system creates them.

use std::cell::RefCell;
use std::ptr::without_provenance_mut;

use campanile_hw::private::{AllocationData, DoorbellData, MAGIC, Placement};
use campanile_hw::queue::QueueDescriptor;
use campanile_hw::registers::{self, Caps};
use dxgkrnl::RegisteredDriver;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::system::{ALL, Features, Report, System, called, ddi, level};
use crate::simulated::Case;

pub(crate) fn handle(number: usize) -> HANDLE {
    without_provenance_mut(number)
}

/// A process with one device.
pub(crate) struct Rig {
    pub(crate) system: Box<System>,
    pub(crate) process: HANDLE,
    pub(crate) device: HANDLE,
    fences: RefCell<Vec<(HANDLE, HANDLE)>>,
    allocations: RefCell<Vec<HANDLE>>,
}

pub(crate) const VA: u64 = 0x10_0000;

impl Rig {
    pub(crate) fn new(case: &Case<'_>, features: Features, doorbells: u32) -> Self {
        Self::on(System::started(case, features, doorbells))
    }

    /// Above a device whose scheduler reaches fences through the paging process.
    pub(crate) fn with_system_fences(case: &Case<'_>) -> Self {
        let mut system = System::added(case, ALL, 4);
        let word = system.get(registers::CAPS);
        let caps = Caps::from_bits(word as u32).with_system_process_fences(true);
        system.set(registers::CAPS, word >> 32 << 32 | u64::from(caps.into_bits()));
        assert_eq!(system.start(), STATUS_SUCCESS);
        Self::on(system)
    }

    pub(crate) fn on(system: Box<System>) -> Self {
        let (process, device) = process(&system, 0x9000);
        let (fences, allocations) = Default::default();
        Self { system, process, device, fences, allocations }
    }

    pub(crate) fn root(&self, context: HANDLE) {
        self.root_at(context, 2, 0x1000);
    }

    /// DxgkDdiSetRootPageTable with a table at this place of a segment.
    pub(crate) fn root_at(&self, context: HANDLE, segment: u32, offset: u64) {
        let mut root = DXGKARG_SETROOTPAGETABLE::zeroed();
        root.hContext = context;
        root.Address = D3DGPU_PHYSICAL_ADDRESS { SegmentId: segment, Padding: 0, SegmentOffset: offset };
        ddi!(self.system, DxgkDdiSetRootPageTable, self.system.adapter, &raw const root);
    }

    pub(crate) fn context(&self, node: u32) -> HANDLE {
        self.context_of(node, true)
    }

    /// A context of the system or of user mode.
    pub(crate) fn context_of(&self, node: u32, system: bool) -> HANDLE {
        let mut args = DXGKARG_CREATECONTEXT::zeroed();
        args.NodeOrdinal = node;
        args.Flags = DXGK_CREATECONTEXTFLAGS::new().with_VirtualAddressing(true).with_SystemContext(system);
        assert_eq!(ddi!(self.system, DxgkDdiCreateContext, self.device, &raw mut args), STATUS_SUCCESS);
        assert!(args.ContextInfo.Caps.NoPatchingRequired());
        self.root(args.hContext);
        args.hContext
    }

    pub(crate) fn submit(&self, context: HANDLE, fence: u32, size: u32) -> NTSTATUS {
        self.submit_flagged(context, fence, size, DXGK_SUBMITCOMMANDFLAGS::new())
    }

    pub(crate) fn submit_flagged(
        &self,
        context: HANDLE,
        fence: u32,
        size: u32,
        flags: DXGK_SUBMITCOMMANDFLAGS,
    ) -> NTSTATUS {
        let mut args = DXGKARG_SUBMITCOMMANDVIRTUAL::zeroed();
        args.hContext = context;
        args.DmaBufferVirtualAddress = VA;
        args.DmaBufferSize = size;
        args.SubmissionFenceId = fence;
        args.Flags = flags;
        ddi!(self.system, DxgkDdiSubmitCommandVirtual, self.system.adapter, &raw const args)
    }

    pub(crate) fn preempt(&self, node: u32, preemption: u32) {
        let mut args = DXGKARG_PREEMPTCOMMAND::zeroed();
        args.PreemptionFenceId = preemption;
        args.NodeOrdinal = node;
        let preempt = || ddi!(self.system, DxgkDdiPreemptCommand, self.system.adapter, &raw const args);
        assert_eq!(level(2, preempt), STATUS_SUCCESS);
        self.system.run_dpc();
    }

    pub(crate) fn hw_context(&self, dxgk: usize, node: u32) -> HANDLE {
        let context = self.hw_context_of(self.device, dxgk, node);
        self.root(context);
        context
    }

    /// A context of a device, which has no root page table yet.
    pub(crate) fn hw_context_of(&self, device: HANDLE, dxgk: usize, node: u32) -> HANDLE {
        let mut args = DXGKARG_CREATEHWCONTEXT::zeroed();
        args.hHwContext = handle(dxgk);
        args.NodeOrdinal = node;
        assert_eq!(ddi!(self.system, DxgkDdiCreateHwContext, device, &raw mut args), STATUS_SUCCESS);
        args.hHwContext
    }

    /// Creates a native fence.
    pub(crate) fn create(&self, dxgk: usize) -> HANDLE {
        let mut create = DXGKARG_CREATENATIVEFENCE::zeroed();
        create.hGlobalNativeFence = handle(dxgk);
        assert_eq!(ddi!(self.system, DxgkDdiCreateNativeFence, self.system.adapter, &raw mut create), STATUS_SUCCESS);
        create.hGlobalNativeFence
    }

    /// Creates and opens a native fence whose current value is at `current`: (global, local).
    pub(crate) fn fence(&self, dxgk: usize, current: u64) -> (HANDLE, HANDLE) {
        let global = self.create(dxgk);
        (global, self.open(self.device, global, current))
    }

    /// Opens a native fence on a device whose process has its current value at `current`.
    pub(crate) fn open(&self, device: HANDLE, global: HANDLE, current: u64) -> HANDLE {
        let mut open = DXGKARG_OPENNATIVEFENCE::zeroed();
        (open.hGlobalNativeFence, open.hDevice) = (global, device);
        open.CurrentValueGpuVa = current;
        open.MonitoredValueGpuVa = current + 0x1000;
        assert_eq!(ddi!(self.system, DxgkDdiOpenNativeFence, self.system.adapter, &raw mut open), STATUS_SUCCESS);
        self.fences.borrow_mut().push((global, open.hLocalNativeFence));
        open.hLocalNativeFence
    }

    pub(crate) fn close(&self, local: HANDLE) -> NTSTATUS {
        let mut args = DXGKARG_CLOSENATIVEFENCE::zeroed();
        args.hLocalNativeFence = local;
        ddi!(self.system, DxgkDdiCloseNativeFence, self.system.adapter, &raw const args)
    }

    pub(crate) fn destroy(&self, global: HANDLE) -> NTSTATUS {
        let mut args = DXGKARG_DESTROYNATIVEFENCE::zeroed();
        args.hGlobalNativeFence = global;
        ddi!(self.system, DxgkDdiDestroyNativeFence, &raw const args)
    }

    pub(crate) fn hw_queue(&self, context: HANDLE, dxgk: usize, progress: u64, user: bool) -> (NTSTATUS, HANDLE) {
        let mut args = DXGKARG_CREATEHWQUEUE::zeroed();
        args.hHwQueue = handle(dxgk);
        args.Flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(user).with_NativeProgressFence(true);
        args.HwQueueProgressFenceGPUVirtualAddress = progress;
        let status = ddi!(self.system, DxgkDdiCreateHwQueue, context, &raw mut args);
        (status, args.hHwQueue)
    }

    /// The descriptor with which the queue of this number was mapped.
    pub(crate) fn descriptor(&self, queue: u32) -> QueueDescriptor {
        let at = self.system.get(registers::QUEUE_TABLE_BASE) + u64::from(queue) * QueueDescriptor::SIZE as u64;
        let mut bytes = [0; QueueDescriptor::SIZE];
        for (place, offset) in bytes.as_chunks_mut::<8>().0.iter_mut().zip((0..).step_by(8)) {
            *place = self.system.vram_word(at + offset).to_le_bytes();
        }
        QueueDescriptor::from_bytes(&bytes)
    }

    pub(crate) fn allocation(&self, size: u64) -> HANDLE {
        let data = AllocationData { magic: MAGIC, placement: Placement::System as u32, size, adapter: 0, reserved: 0 };
        let mut bytes = data.to_bytes();
        let mut info = DXGK_ALLOCATIONINFO::zeroed();
        info.pPrivateDriverData = bytes.as_mut_ptr().cast();
        info.PrivateDriverDataSize = AllocationData::SIZE as u32;
        let mut args = DXGKARG_CREATEALLOCATION::zeroed();
        args.NumAllocations = 1;
        args.pAllocationInfo = &raw mut info;
        assert_eq!(ddi!(self.system, DxgkDdiCreateAllocation, self.system.adapter, &raw mut args), STATUS_SUCCESS);
        self.allocations.borrow_mut().push(info.hAllocation);
        info.hAllocation
    }

    /// A user-mode queue with a doorbell: (queue, doorbell). `number` makes its handles and addresses different from others'.
    pub(crate) fn user_queue(&self, context: HANDLE, number: usize) -> (HANDLE, HANDLE) {
        let progress = VA + 0x10_0000 * number as u64;
        self.fence(0x5000 + number, progress);
        let (status, queue) = self.hw_queue(context, 0x6000 + number, progress, true);
        assert_eq!(status, STATUS_SUCCESS);
        let (status, doorbell) = self.doorbell(&Ring::of(self, queue, number));
        assert_eq!(status, STATUS_SUCCESS);
        (queue, doorbell)
    }

    /// DxgkDdiCreateDoorbell.
    pub(crate) fn doorbell(&self, ring: &Ring) -> (NTSTATUS, HANDLE) {
        let mut data = DoorbellData { ring: ring.ring, control: ring.control }.to_bytes();
        let mut args = DXGKARG_CREATEDOORBELL::zeroed();
        (args.hHwQueue, args.hDoorbell) = (ring.queue, handle(ring.dxgk));
        args.PrivateDriverDataSize = ring.bytes;
        args.PrivateDriverData = data.as_mut_ptr().cast();
        (args.hRingBuffer, args.hRingBufferControl) = ring.memory;
        args.Flags.set_ResizeRingBufferOperation(ring.resize);
        let status = ddi!(self.system, DxgkDdiCreateDoorbell, &raw mut args);
        (status, args.hDoorbell)
    }

    pub(crate) fn connect(&self, doorbell: HANDLE) -> (NTSTATUS, usize) {
        connect(&self.system.driver, doorbell)
    }

    pub(crate) fn suspend(&self, context: HANDLE, fence: u64) -> NTSTATUS {
        let args = DXGKARG_SUSPENDCONTEXT { hContext: context, contextSuspendFence: fence };
        ddi!(self.system, DxgkDdiSuspendContext, self.system.adapter, &raw const args)
    }
}

/// Arguments of DxgkDdiCreateDoorbell; [`Ring::of`] fills them so that they are legal.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    pub(crate) queue: HANDLE,
    /// The doorbell's handle of the system.
    pub(crate) dxgk: usize,
    /// Bytes of the private data.
    pub(crate) bytes: u32,
    pub(crate) ring: u64,
    pub(crate) control: u64,
    /// Allocations of ring and control page.
    pub(crate) memory: (HANDLE, HANDLE),
    pub(crate) resize: bool,
}

impl Ring {
    /// A ring of two pages for a queue, by a number that makes its handle and addresses different from others'.
    pub(crate) fn of(rig: &Rig, queue: HANDLE, number: usize) -> Self {
        let start = VA + 0x10_0000 * number as u64;
        Self {
            queue,
            dxgk: 0x7000 + number,
            bytes: DoorbellData::SIZE as u32,
            ring: start + 0x2000,
            control: start + 0x4000,
            memory: (rig.allocation(8192), rig.allocation(4096)),
            resize: false,
        }
    }
}

/// A process, by the handle that the system has for it, and a device of it.
pub(crate) fn process(system: &System, dxgk: usize) -> (HANDLE, HANDLE) {
    let mut process = DXGKARG_CREATEPROCESS::zeroed();
    process.hDxgkProcess = handle(dxgk);
    assert_eq!(ddi!(system, DxgkDdiCreateProcess, system.adapter, &raw mut process), STATUS_SUCCESS);
    let mut device = DXGKARG_CREATEDEVICE::zeroed();
    device.hKmdProcess = process.hKmdProcess;
    assert_eq!(ddi!(system, DxgkDdiCreateDevice, system.adapter, &raw mut device), STATUS_SUCCESS);
    (process.hKmdProcess, device.hDevice)
}

impl Drop for Rig {
    /// Destroys the fences and allocations that the case has not destroyed, because the adapter can be stopped only without them.
    fn drop(&mut self) {
        if self.system.removed || std::thread::panicking() {
            return;
        }
        for (global, local) in self.fences.take() {
            // Invalid handles where the case did it itself.
            let _ = (self.close(local), self.destroy(global));
        }
        for mut allocation in self.allocations.take() {
            let mut args = DXGKARG_DESTROYALLOCATION::zeroed();
            (args.NumAllocations, args.pAllocationList) = (1, &raw mut allocation);
            let _ = ddi!(self.system, DxgkDdiDestroyAllocation, self.system.adapter, &raw const args);
        }
    }
}

pub(crate) fn connect(driver: &RegisteredDriver, doorbell: HANDLE) -> (NTSTATUS, usize) {
    let mut args = DXGKARG_CONNECTDOORBELL::zeroed();
    args.hDoorbell = doorbell;
    let entry = driver.table().DxgkDdiConnectDoorbell.expect("filled");
    // SAFETY: the driver's own entry point with a local structure.
    let status = called(driver, "DxgkDdiConnectDoorbell", || unsafe { entry(&raw mut args) });
    (status, args.KernelCpuVirtualAddress.addr())
}

pub(crate) fn completed(node: u32, fence: u32) -> Report {
    Report::Completed { node, fence }
}
