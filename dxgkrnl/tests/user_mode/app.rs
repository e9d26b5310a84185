//! Processes, devices, fences and queues as an application makes them, and the machine they run on.

pub(crate) mod elsewhere;

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{DriverId, DriverImage, Machine, MachineConfig, Process, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID, NTSTATUS};

use super::{DRIVER, World};
use crate::minimal::{FakeBus, Mutant, driver};

pub(crate) const CONNECTED: u64 = 0;
pub(crate) const RETRY: u64 = 2;
pub(crate) const ABORT: u64 = 3;

/// A started adapter.
pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) bus: Arc<FakeBus>,
    pub(crate) driver: DriverId,
    pub(crate) luid: LUID,
    pub(crate) world: Arc<World>,
}

pub(crate) fn bench_of(mutant: Mutant) -> Bench {
    bench_with(mutant, MachineConfig::default())
}

pub(crate) fn bench_with(mutant: Mutant, config: MachineConfig) -> Bench {
    // Tests that play the GPU store to pages that user mode only reads; where each owner of memory has a file, nobody but the kernel can.
    let config = MachineConfig { ram: 64 << 20, isolated_memory: false, ..config };
    let machine = Machine::new(config).unwrap();
    let bus = FakeBus::new(mutant.class);
    let device = machine.plug_in(Arc::<FakeBus>::clone(&bus));
    driver::MUTANT.set(mutant);
    let driver = machine.load_driver(image()).unwrap();
    let luid = machine.start(device, driver).unwrap();
    Bench { machine, bus, driver, luid, world: super::started() }
}

fn image() -> DriverImage {
    DriverImage::Linked { name: "user-mode".into(), bind: driver::bind, entry: driver::driver_entry }
}

pub(crate) fn bench() -> Bench {
    bench_of(DRIVER)
}

impl Bench {
    /// Another adapter of the same machine and driver.
    pub(crate) fn beside(&self) -> Self {
        self.start_beside(driver::MUTANT.get(), self.driver)
    }

    /// Another adapter of the same machine, with a driver of its own.
    pub(crate) fn beside_with(&self, mutant: Mutant) -> Self {
        driver::MUTANT.set(mutant);
        self.start_beside(mutant, self.machine.load_driver(image()).unwrap())
    }

    fn start_beside(&self, mutant: Mutant, driver: DriverId) -> Self {
        let bus = FakeBus::new(mutant.class);
        let device = self.machine.plug_in(Arc::<FakeBus>::clone(&bus));
        let luid = self.machine.start(device, driver).unwrap();
        Self { machine: self.machine.clone(), bus, driver, luid, world: super::started() }
    }

    /// Stops the adapter; nothing may be left and no rule broken.
    pub(crate) fn end(self) {
        self.machine.remove(self.luid).unwrap();
        assert_eq!(self.machine.bugcheck(), None);
    }

    /// Waits until the driver broke a rule.
    pub(crate) fn stop(&self) -> Bugcheck {
        eventually("the machine stops", || self.machine.bugcheck().is_some());
        self.machine.bugcheck().unwrap()
    }
}

/// Waits for something that another thread is about to do.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    panic!("never happened: {what}");
}

/// Calls a thunk and answers its arguments.
pub(crate) fn call<A>(thunk: unsafe extern "win64" fn(*mut A) -> NTSTATUS, mut args: A) -> Result<A, NTSTATUS> {
    // SAFETY: the structure lives across the call and its pointers are NULL or good.
    unsafe { thunk(&raw mut args) }.ok().map(|()| args)
}

/// A word that the system mapped.
pub(crate) fn word<'a>(address: *mut c_void) -> &'a AtomicU64 {
    // SAFETY: the system maps 8 aligned bytes, which outlive the test's use of them.
    unsafe { &*address.cast::<AtomicU64>() }
}

/// Makes the page of a read-only word writable, for a test that plays the GPU.
pub(crate) fn as_gpu<'a>(address: *mut c_void) -> &'a AtomicU64 {
    let page = address.map_addr(|address| address & !0xfff);
    // SAFETY: the page is a mapping of this process that stays.
    assert_eq!(unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) }, 0);
    word(address)
}

/// True if user mode may write the byte.
pub(crate) fn is_writable(address: *mut c_void) -> bool {
    let byte = 0u8;
    let local = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: address, iov_len: 1 };
    // SAFETY: no preconditions.
    let this = unsafe { libc::getpid() };
    // SAFETY: the local side is a byte of this frame; the remote one is checked by the host's kernel.
    unsafe { libc::process_vm_writev(this, &raw const local, 1, &raw const remote, 1, 0) == 1 }
}

/// True if a page is mapped at the address.
pub(crate) fn is_mapped(address: usize) -> bool {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: 1 };
    // SAFETY: no preconditions.
    let this = unsafe { libc::getpid() };
    // SAFETY: the local side is a byte of this frame; the remote one is checked by the host's kernel.
    unsafe { libc::process_vm_readv(this, &raw const local, 1, &raw const remote, 1, 0) == 1 }
}

/// A process with a device.
pub(crate) struct App {
    pub(crate) process: Arc<Process>,
    pub(crate) device: D3DKMT_HANDLE,
}

/// A test that fails says so: nobody plays the GPU any more, for which the end of the process would wait.
impl Drop for App {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(Arc::clone(&self.process));
        }
    }
}

pub(crate) struct Fence {
    pub(crate) handle: D3DKMT_HANDLE,
    pub(crate) system: usize,
    pub(crate) user: *mut c_void,
}

// SAFETY: the address is that of a shared word.
unsafe impl Send for Fence {}
// SAFETY: as for Send.
unsafe impl Sync for Fence {}

impl App {
    pub(crate) fn new(bench: &Bench) -> Self {
        Self::of(Process::new(&bench.machine, "test"), bench)
    }

    pub(crate) fn of(process: Arc<Process>, bench: &Bench) -> Self {
        let attached = process.attach();
        let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: bench.luid, hAdapter: 0 };
        let adapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).unwrap().hAdapter;
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = adapter;
        let device = call(thunks().D3DKMTCreateDevice, args).unwrap().hDevice;
        drop(attached);
        Self { process, device }
    }

    pub(crate) fn try_fence(&self, initial: u64) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
        let _attached = self.process.attach();
        let mut args = D3DKMT_CREATENATIVEFENCE { hDevice: self.device, ..Zeroed::zeroed() };
        args.Info.InitialFenceValue = initial;
        args.Info.EngineAffinity = 1;
        call(thunks().D3DKMTCreateNativeFence, args)
    }

    pub(crate) fn fence(&self, bench: &Bench, initial: u64) -> Fence {
        let made = self.try_fence(initial).unwrap();
        let user = made.Info.NativeFenceMapping.CurrentValueCpuVa;
        Fence { handle: made.hSyncObject, system: bench.world.last_created(), user }
    }

    /// Creates a fence that can be shared.
    pub(crate) fn try_shared(
        &self,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
        let _attached = self.process.attach();
        let mut args = D3DKMT_CREATENATIVEFENCE { hDevice: self.device, ..Zeroed::zeroed() };
        args.Info.Flags = flags;
        args.PrivateDriverData = [10; 64];
        call(thunks().D3DKMTCreateNativeFence, args)
    }

    /// Gives a fence a kernel handle in this process.
    pub(crate) fn share(&self, fence: D3DKMT_HANDLE) -> Result<HANDLE, NTSTATUS> {
        let _attached = self.process.attach();
        let mut handle = std::ptr::null_mut();
        // SAFETY: both places live across the call.
        let status = unsafe {
            (thunks().D3DKMTShareObjects)(1, &raw const fence, std::ptr::null(), 0x1000_0000, &raw mut handle)
        };
        status.ok().map(|()| handle)
    }

    /// Opens a fence by a kernel handle of this process.
    pub(crate) fn open(&self, handle: HANDLE) -> Result<D3DKMT_OPENNATIVEFENCEFROMNTHANDLE, NTSTATUS> {
        let _attached = self.process.attach();
        let mut args = D3DKMT_OPENNATIVEFENCEFROMNTHANDLE::zeroed();
        (args.hNtHandle, args.hDevice, args.PrivateDriverData) = (handle, self.device, [40; 64]);
        call(thunks().D3DKMTOpenNativeFenceFromNtHandle, args)
    }

    /// Closes a kernel handle.
    pub(crate) fn close(&self, handle: HANDLE) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        // SAFETY: takes any handle.
        unsafe { (thunks().NtClose)(handle) }.ok()
    }

    /// Signals several fences in one call.
    pub(crate) fn signal_all(&self, fences: &[(D3DKMT_HANDLE, u64)]) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let (mut handles, mut values): (Vec<_>, Vec<_>) = fences.iter().copied().unzip();
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.device,
            ObjectCount: handles.len() as u32,
            ObjectHandleArray: handles.as_mut_ptr(),
            FenceValueArray: values.as_mut_ptr(),
            Flags: D3DDDICB_SIGNALFLAGS::new(),
        };
        call(thunks().D3DKMTSignalSynchronizationObjectFromCpu, args).map(|_| ())
    }

    pub(crate) fn destroy_fence(&self, fence: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: fence };
        call(thunks().D3DKMTDestroySynchronizationObject, args).map(|_| ())
    }

    /// Waits; with an event it returns at once.
    pub(crate) fn wait(
        &self,
        fences: &[(D3DKMT_HANDLE, u64)],
        any: bool,
        event: Option<&OwnedFd>,
    ) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let (mut handles, mut values): (Vec<_>, Vec<_>) = fences.iter().copied().unzip();
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.device,
            ObjectCount: handles.len() as u32,
            ObjectHandleArray: handles.as_mut_ptr(),
            FenceValueArray: values.as_mut_ptr(),
            hAsyncEvent: std::ptr::without_provenance_mut(event.map_or(0, |event| event.as_raw_fd() as usize)),
            Flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS::new().with_WaitAny(any),
        };
        call(thunks().D3DKMTWaitForSynchronizationObjectFromCpu, args).map(|_| ())
    }

    pub(crate) fn signal(&self, fence: D3DKMT_HANDLE, value: u64, flags: D3DDDICB_SIGNALFLAGS) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let (mut handle, mut value) = (fence, value);
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.device,
            ObjectCount: 1,
            ObjectHandleArray: &raw mut handle,
            FenceValueArray: &raw mut value,
            Flags: flags,
        };
        call(thunks().D3DKMTSignalSynchronizationObjectFromCpu, args).map(|_| ())
    }

    pub(crate) fn state(&self) -> D3DKMT_DEVICEEXECUTION_STATE {
        let _attached = self.process.attach();
        let args = D3DKMT_GETDEVICESTATE {
            hDevice: self.device,
            StateType: D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION,
            ..Zeroed::zeroed()
        };
        let answer = call(thunks().D3DKMTGetDeviceState, args).unwrap();
        // SAFETY: the type selects this arm.
        unsafe { answer.u.ExecutionState }
    }

    pub(crate) fn destroy_device(&self) {
        let _attached = self.process.attach();
        call(thunks().D3DKMTDestroyDevice, D3DKMT_DESTROYDEVICE { hDevice: self.device }).unwrap();
    }
}

/// A queue of user-mode submission with its doorbell.
pub(crate) struct Queue {
    pub(crate) context: D3DKMT_HANDLE,
    pub(crate) queue: D3DKMT_HANDLE,
    pub(crate) system: usize,
    pub(crate) progress: Fence,
    pub(crate) doorbell: D3DKMT_HANDLE,
    pub(crate) bell: *mut c_void,
    pub(crate) status: *mut c_void,
    pub(crate) last_queued: *mut c_void,
    pub(crate) ring: D3DKMT_HANDLE,
}

// SAFETY: the addresses are those of shared words.
unsafe impl Send for Queue {}
// SAFETY: as for Send.
unsafe impl Sync for Queue {}

impl App {
    pub(crate) fn allocations(&self) -> [D3DKMT_HANDLE; 2] {
        let mut infos = [D3DDDI_ALLOCATIONINFO2::zeroed(), D3DDDI_ALLOCATIONINFO2::zeroed()];
        let mut args = D3DKMT_CREATEALLOCATION { hDevice: self.device, NumAllocations: 2, ..Zeroed::zeroed() };
        args.u1.pAllocationInfo2 = infos.as_mut_ptr();
        call(thunks().D3DKMTCreateAllocation2, args).unwrap();
        infos.map(|info| info.hAllocation)
    }

    pub(crate) fn make_resident(&self, mut handles: [D3DKMT_HANDLE; 2]) {
        let paging = D3DKMT_CREATEPAGINGQUEUE { hDevice: self.device, ..Zeroed::zeroed() };
        let paging = call(thunks().D3DKMTCreatePagingQueue, paging).unwrap();
        let resident = D3DDDI_MAKERESIDENT {
            hPagingQueue: paging.hPagingQueue,
            NumAllocations: 2,
            AllocationList: handles.as_mut_ptr(),
            ..Zeroed::zeroed()
        };
        call(thunks().D3DKMTMakeResident, resident).unwrap();
    }

    pub(crate) fn context(&self) -> D3DKMT_HANDLE {
        let args = D3DKMT_CREATEHWCONTEXT { hDevice: self.device, EngineAffinity: 1, ..Zeroed::zeroed() };
        call(thunks().D3DKMTCreateHwContext, args).unwrap().hHwContext
    }

    pub(crate) fn create_doorbell(
        &self,
        queue: D3DKMT_HANDLE,
        rings: [D3DKMT_HANDLE; 2],
    ) -> Result<D3DKMT_CREATE_DOORBELL, NTSTATUS> {
        let [ring, control] = rings;
        let args = D3DKMT_CREATE_DOORBELL {
            hHwQueue: queue,
            hRingBuffer: ring,
            hRingBufferControl: control,
            ..Zeroed::zeroed()
        };
        call(thunks().D3DKMTCreateDoorbell, args)
    }

    pub(crate) fn queue(&self, bench: &Bench) -> Queue {
        let _attached = self.process.attach();
        let context = self.context();
        let flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true).with_NativeProgressFence(true);
        let args = D3DKMT_CREATEHWQUEUE { hHwContext: context, Flags: flags, ..Zeroed::zeroed() };
        let made = call(thunks().D3DKMTCreateHwQueue, args).unwrap();
        let created = bench.world.created.lock().unwrap().clone();
        let [.., fence, system] = created[..] else { panic!("a fence and a queue were created") };
        let rings = self.allocations();
        assert_eq!(self.create_doorbell(made.hHwQueue, rings).err(), Some(STATUS_INVALID_PARAMETER), "not resident");
        self.make_resident(rings);
        let bell = self.create_doorbell(made.hHwQueue, rings).unwrap();
        Queue {
            context,
            queue: made.hHwQueue,
            system,
            progress: Fence {
                handle: made.hHwQueueProgressFence,
                system: fence,
                user: made.HwQueueProgressFenceCPUVirtualAddress,
            },
            doorbell: bell.hDoorbell,
            bell: bell.DoorbellCPUVirtualAddress,
            status: bell.DoorbellStatusCPUVirtualAddress,
            last_queued: bell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress,
            ring: rings[0],
        }
    }

    pub(crate) fn connect(&self, queue: &Queue) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let args = D3DKMT_CONNECT_DOORBELL { hDoorbell: queue.doorbell, ..Zeroed::zeroed() };
        call(thunks().D3DKMTConnectDoorbell, args).map(|_| ())
    }

    pub(crate) fn close_queue(&self, queue: &Queue) {
        let _attached = self.process.attach();
        let thunks = thunks();
        call(thunks.D3DKMTDestroyDoorbell, D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell }).unwrap();
        call(thunks.D3DKMTDestroyHwQueue, D3DKMT_DESTROYHWQUEUE { hHwQueue: queue.queue }).unwrap();
        call(thunks.D3DKMTDestroyHwContext, D3DKMT_DESTROYHWCONTEXT { hHwContext: queue.context }).unwrap();
    }
}

impl Queue {
    pub(crate) fn status(&self) -> u64 {
        word(self.status).load(Ordering::SeqCst)
    }

    pub(crate) fn ring(&self, value: u64) {
        word(self.bell).store(value, Ordering::SeqCst);
    }
}

pub(crate) fn event() -> OwnedFd {
    // SAFETY: creating an eventfd touches no memory.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    assert!(fd >= 0);
    // SAFETY: the descriptor was just created and is owned by nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(crate) fn is_signaled(event: &OwnedFd) -> bool {
    let mut value = 0u64;
    // SAFETY: there is space for the eight bytes that are read.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut value).cast(), 8) == 8 }
}

pub(crate) fn native_reports(bench: &Bench) -> u64 {
    bench.machine.counters(bench.luid).unwrap().notifications[19]
}
