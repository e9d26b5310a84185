//! Native fences, doorbells and the ends of queues, on a miniport whose GPU the test plays.
//! [native-gpu-fence-objects, user-mode-work-submission]

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;
mod user_mode;

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{DriverImage, Machine, MachineConfig, Process, thunks};
use minimal::{FakeBus, Mutant, driver};
use user_mode::{DRIVER, Report, World};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID, NTSTATUS};

const CONNECTED: u64 = 0;
const RETRY: u64 = 2;
const ABORT: u64 = 3;

/// A started adapter.
struct Bench {
    machine: Machine,
    bus: Arc<FakeBus>,
    luid: LUID,
    world: Arc<World>,
}

fn bench_of(mutant: Mutant) -> Bench {
    let machine = Machine::new(MachineConfig { ram: 64 << 20, ..MachineConfig::default() }).unwrap();
    let bus = FakeBus::new(mutant.class);
    let device = machine.plug_in(Arc::<FakeBus>::clone(&bus));
    driver::MUTANT.set(mutant);
    let image = DriverImage::Linked { name: "user-mode".into(), bind: driver::bind, entry: driver::driver_entry };
    let driver = machine.load_driver(image).unwrap();
    let luid = machine.start(device, driver).unwrap();
    Bench { machine, bus, luid, world: user_mode::started() }
}

fn bench() -> Bench {
    bench_of(DRIVER)
}

impl Bench {
    /// Stops the adapter; nothing may be left and no rule broken.
    fn end(self) {
        self.machine.remove(self.luid).unwrap();
        assert_eq!(self.machine.bugcheck(), None);
    }

    /// Waits until the driver broke a rule.
    fn stop(&self) -> Bugcheck {
        eventually("the machine stops", || self.machine.bugcheck().is_some());
        self.machine.bugcheck().unwrap()
    }
}

/// Waits for something that another thread is about to do.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    panic!("never happened: {what}");
}

/// Calls a thunk and answers its arguments.
fn call<A>(thunk: unsafe extern "win64" fn(*mut A) -> NTSTATUS, mut args: A) -> Result<A, NTSTATUS> {
    // SAFETY: the structure lives across the call and its pointers are NULL or good.
    unsafe { thunk(&raw mut args) }.ok().map(|()| args)
}

/// A word that the system mapped.
fn word<'a>(address: *mut c_void) -> &'a AtomicU64 {
    // SAFETY: the system maps 8 aligned bytes, which outlive the test's use of them.
    unsafe { &*address.cast::<AtomicU64>() }
}

/// Makes the page of a read-only word writable, for a test that plays the GPU.
fn as_gpu<'a>(address: *mut c_void) -> &'a AtomicU64 {
    let page = address.map_addr(|address| address & !0xfff);
    // SAFETY: the page is a mapping of this process that stays.
    assert_eq!(unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) }, 0);
    word(address)
}

/// Whether user mode could write there.
fn is_writable(address: *mut c_void) -> bool {
    let byte = 0u8;
    let local = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: address, iov_len: 1 };
    // SAFETY: the local side is a byte of this frame; the remote one is checked by the host's kernel.
    unsafe { libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) == 1 }
}

/// A process with a device.
struct App {
    process: Arc<Process>,
    device: D3DKMT_HANDLE,
}

struct Fence {
    handle: D3DKMT_HANDLE,
    system: usize,
    user: *mut c_void,
}

// SAFETY: the address is that of a shared word.
unsafe impl Send for Fence {}
// SAFETY: as for Send.
unsafe impl Sync for Fence {}

impl App {
    fn new(bench: &Bench) -> Self {
        let process = bench.machine.create_process("test");
        let _attached = process.attach();
        let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: bench.luid, hAdapter: 0 };
        let adapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).unwrap().hAdapter;
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = adapter;
        let device = call(thunks().D3DKMTCreateDevice, args).unwrap().hDevice;
        Self { process, device }
    }

    fn try_fence(&self, initial: u64) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
        let _attached = self.process.attach();
        let mut args = D3DKMT_CREATENATIVEFENCE { hDevice: self.device, ..Zeroed::zeroed() };
        args.Info.InitialFenceValue = initial;
        args.Info.EngineAffinity = 1;
        call(thunks().D3DKMTCreateNativeFence, args)
    }

    fn fence(&self, bench: &Bench, initial: u64) -> Fence {
        let made = self.try_fence(initial).unwrap();
        let user = made.Info.NativeFenceMapping.CurrentValueCpuVa;
        Fence { handle: made.hSyncObject, system: bench.world.last_created(), user }
    }

    fn destroy_fence(&self, fence: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: fence };
        call(thunks().D3DKMTDestroySynchronizationObject, args).map(|_| ())
    }

    /// Waits; with an event it returns at once.
    fn wait(&self, fences: &[(D3DKMT_HANDLE, u64)], any: bool, event: Option<&OwnedFd>) -> Result<(), NTSTATUS> {
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

    fn signal(&self, fence: D3DKMT_HANDLE, value: u64, flags: D3DDDICB_SIGNALFLAGS) -> Result<(), NTSTATUS> {
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

    fn state(&self) -> D3DKMT_DEVICEEXECUTION_STATE {
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

    fn destroy_device(&self) {
        let _attached = self.process.attach();
        call(thunks().D3DKMTDestroyDevice, D3DKMT_DESTROYDEVICE { hDevice: self.device }).unwrap();
    }
}

/// A queue of user-mode submission with its doorbell.
struct Queue {
    context: D3DKMT_HANDLE,
    queue: D3DKMT_HANDLE,
    system: usize,
    progress: Fence,
    doorbell: D3DKMT_HANDLE,
    bell: *mut c_void,
    status: *mut c_void,
    last_queued: *mut c_void,
    ring: D3DKMT_HANDLE,
}

// SAFETY: the addresses are those of shared words.
unsafe impl Send for Queue {}
// SAFETY: as for Send.
unsafe impl Sync for Queue {}

impl App {
    fn allocations(&self) -> [D3DKMT_HANDLE; 2] {
        let mut infos = [D3DDDI_ALLOCATIONINFO2::zeroed(), D3DDDI_ALLOCATIONINFO2::zeroed()];
        let mut args = D3DKMT_CREATEALLOCATION { hDevice: self.device, NumAllocations: 2, ..Zeroed::zeroed() };
        args.u1.pAllocationInfo2 = infos.as_mut_ptr();
        call(thunks().D3DKMTCreateAllocation2, args).unwrap();
        infos.map(|info| info.hAllocation)
    }

    fn make_resident(&self, mut handles: [D3DKMT_HANDLE; 2]) {
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

    fn context(&self) -> D3DKMT_HANDLE {
        let args = D3DKMT_CREATEHWCONTEXT { hDevice: self.device, EngineAffinity: 1, ..Zeroed::zeroed() };
        call(thunks().D3DKMTCreateHwContext, args).unwrap().hHwContext
    }

    fn create_doorbell(
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

    fn queue(&self, bench: &Bench) -> Queue {
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

    fn connect(&self, queue: &Queue) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let args = D3DKMT_CONNECT_DOORBELL { hDoorbell: queue.doorbell, ..Zeroed::zeroed() };
        call(thunks().D3DKMTConnectDoorbell, args).map(|_| ())
    }

    fn close_queue(&self, queue: &Queue) {
        let _attached = self.process.attach();
        let thunks = thunks();
        call(thunks.D3DKMTDestroyDoorbell, D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell }).unwrap();
        call(thunks.D3DKMTDestroyHwQueue, D3DKMT_DESTROYHWQUEUE { hHwQueue: queue.queue }).unwrap();
        call(thunks.D3DKMTDestroyHwContext, D3DKMT_DESTROYHWCONTEXT { hHwContext: queue.context }).unwrap();
    }
}

impl Queue {
    fn status(&self) -> u64 {
        word(self.status).load(Ordering::SeqCst)
    }

    fn ring(&self, value: u64) {
        word(self.bell).store(value, Ordering::SeqCst);
    }
}

fn event() -> OwnedFd {
    // SAFETY: creating an eventfd touches no memory.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    assert!(fd >= 0);
    // SAFETY: the descriptor was just created and is owned by nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn is_signaled(event: &OwnedFd) -> bool {
    let mut value = 0u64;
    // SAFETY: there is room for the eight bytes that are read.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut value).cast(), 8) == 8 }
}

fn native_reports(bench: &Bench) -> u64 {
    bench.machine.counters(bench.luid).unwrap().notifications[19]
}

#[test]
fn an_unwatched_fence_raises_no_interrupt_and_a_watched_one_exactly_when_its_value_comes() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    let current = as_gpu(fence.user);
    for value in 1..=1000 {
        assert!(!bench.world.signal(&bench.bus, fence.system, current, value));
    }
    assert_eq!((native_reports(&bench), bench.world.updates.load(Ordering::Relaxed)), (0, 0));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.wait(&[(fence.handle, 1003)], false, None));
        eventually("the wait is monitored", || bench.world.monitored(fence.system) == 1002);
        assert!(!bench.world.signal(&bench.bus, fence.system, current, 1002));
        assert!(bench.world.signal(&bench.bus, fence.system, current, 1003));
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    eventually("nobody waits any more", || bench.world.monitored(fence.system) == u64::MAX);
    assert_eq!((native_reports(&bench), bench.world.updates.load(Ordering::Relaxed)), (1, 2));
    app.destroy_fence(fence.handle).unwrap();
    bench.end();
}

#[test]
fn monitored_value_follows_the_least_of_several_waiters() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 41);
    let current = as_gpu(fence.user);
    let events: Vec<OwnedFd> = [50, 42, 45]
        .map(|value| {
            let event = event();
            app.wait(&[(fence.handle, value)], false, Some(&event)).unwrap();
            event
        })
        .into();
    assert_eq!(bench.world.monitored(fence.system), 41);
    bench.world.signal(&bench.bus, fence.system, current, 42);
    eventually("the next waiter counts", || bench.world.monitored(fence.system) == 44);
    assert_eq!([0, 1, 2].map(|index| is_signaled(&events[index])), [false, true, false]);
    bench.world.signal(&bench.bus, fence.system, current, 60);
    eventually("nobody waits any more", || bench.world.monitored(fence.system) == u64::MAX);
    assert_eq!([0, 1, 2].map(|index| is_signaled(&events[index])), [true, false, true]);
    assert_eq!(app.wait(&[(fence.handle, 60)], false, None), Ok(()), "a value that is passed needs no wait");
    bench.end();
}

#[test]
fn a_report_without_names_is_a_look_at_every_fence_that_is_waited_for() {
    let bench = bench();
    let app = App::new(&bench);
    let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
    let currents = [0, 1].map(|index| as_gpu(fences[index].user));
    let all = event();
    app.wait(&[(fences[0].handle, 1), (fences[1].handle, 1)], false, Some(&all)).unwrap();
    currents[0].store(1, Ordering::SeqCst);
    bench.world.report(&bench.bus, Report::Scan);
    eventually("one condition came true", || bench.world.monitored(fences[0].system) == u64::MAX);
    assert!(!is_signaled(&all), "one of two is not all");
    currents[1].store(1, Ordering::SeqCst);
    bench.world.report(&bench.bus, Report::Scan);
    eventually("all conditions came true", || is_signaled(&all));
    // A report too many is allowed.
    bench.world.report(&bench.bus, Report::Fences(fences.iter().map(|fence| fence.system).collect()));
    eventually("the report was read", || native_reports(&bench) == 3);
    bench.end();
}

#[test]
fn a_wait_for_any_ends_once_and_leaves_no_fence_monitored() {
    let bench = bench();
    let app = App::new(&bench);
    let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
    let any = event();
    app.wait(&[(fences[0].handle, 7), (fences[1].handle, 9)], true, Some(&any)).unwrap();
    assert_eq!(fences.each_ref().map(|fence| bench.world.monitored(fence.system)), [6, 8]);
    bench.world.signal(&bench.bus, fences[1].system, as_gpu(fences[1].user), 9);
    eventually("the other fence is let go", || {
        fences.iter().all(|fence| bench.world.monitored(fence.system) == u64::MAX)
    });
    assert!(is_signaled(&any));
    assert!(!is_signaled(&any));
    bench.end();
}

#[test]
fn a_signal_of_the_cpu_goes_through_the_driver_and_wakes() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 5);
    let woken = event();
    app.wait(&[(fence.handle, 6)], false, Some(&woken)).unwrap();
    app.signal(fence.handle, 6, D3DDDICB_SIGNALFLAGS::new()).unwrap();
    assert!(is_signaled(&woken), "without any interrupt");
    assert_eq!(*bench.world.currents.lock().unwrap(), [(6, 0)]);
    assert_eq!(word(fence.user).load(Ordering::SeqCst), 6);
    assert_eq!(app.signal(fence.handle, 5, D3DDDICB_SIGNALFLAGS::new()), Err(STATUS_INVALID_PARAMETER));
    let event_flag = D3DDDICB_SIGNALFLAGS::new().with_EnqueueCpuEvent(true);
    assert_eq!(app.signal(fence.handle, 9, event_flag), Err(STATUS_INVALID_PARAMETER));
    app.signal(fence.handle, 1, D3DDDICB_SIGNALFLAGS::new().with_AllowFenceRewind(true)).unwrap();
    assert_eq!(word(fence.user).load(Ordering::SeqCst), 1);
    assert_eq!(native_reports(&bench), 0);
    bench.end();
}

#[test]
fn private_fences_share_a_page_that_user_mode_reads_and_never_writes() {
    let bench = bench();
    let app = App::new(&bench);
    let made = [app.try_fence(1).unwrap(), app.try_fence(2).unwrap()];
    let [a, b] = made.each_ref().map(|made| made.Info.NativeFenceMapping);
    assert_eq!(a.CurrentValueCpuVa.addr() >> 12, b.CurrentValueCpuVa.addr() >> 12);
    assert_eq!(a.CurrentValueGpuVa >> 12, b.CurrentValueGpuVa >> 12);
    assert_ne!(a.CurrentValueGpuVa >> 12, a.MonitoredValueGpuVa >> 12, "apart from the monitored ones");
    assert!(!is_writable(a.CurrentValueCpuVa));
    assert_eq!(
        (word(a.CurrentValueCpuVa).load(Ordering::SeqCst), word(b.CurrentValueCpuVa).load(Ordering::SeqCst)),
        (1, 2)
    );
    let mut many: Vec<_> = (0..200).map(|value| app.try_fence(value).unwrap()).collect();
    let mut places: Vec<_> = many.iter().map(|made| made.Info.NativeFenceMapping.CurrentValueGpuVa).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 200, "each has its own place");
    many.drain(..).for_each(|made| app.destroy_fence(made.hSyncObject).unwrap());
    bench.end();
}

#[test]
fn a_fence_is_closed_before_it_is_destroyed_and_who_waits_is_released() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    let (woken, _) = (event(), bench.world.take_calls());
    app.wait(&[(fence.handle, 1)], false, Some(&woken)).unwrap();
    app.destroy_fence(fence.handle).unwrap();
    assert!(is_signaled(&woken));
    assert_eq!(bench.world.take_calls(), ["CloseNativeFence", "DestroyNativeFence"]);
    assert_eq!(app.destroy_fence(fence.handle), Err(STATUS_INVALID_HANDLE));
    assert_eq!(app.wait(&[(fence.handle, 1)], false, None), Err(STATUS_INVALID_HANDLE));
    bench.end();
}

#[test]
fn a_destroyed_fence_in_a_report_stops_the_machine() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    app.destroy_fence(fence.handle).unwrap();
    bench.world.report(&bench.bus, Report::Fences(vec![fence.system]));
    let bugcheck = bench.stop();
    assert!(bugcheck.reason.contains("NATIVE_FENCE_SIGNALED"), "{bugcheck}");
}

#[test]
fn failing_updates_of_fence_values_have_their_documented_subcodes() {
    for (name, subcode) in [("UpdateMonitoredValues", 0x12), ("UpdateCurrentValuesFromCpu", 0x13)] {
        let bench = bench();
        let app = App::new(&bench);
        let fence = app.fence(&bench, 0);
        bench.world.failing.lock().unwrap().insert(name, STATUS_UNSUCCESSFUL);
        let _ = match subcode {
            0x12 => app.wait(&[(fence.handle, 1)], false, Some(&event())),
            _ => app.signal(fence.handle, 1, D3DDDICB_SIGNALFLAGS::new()),
        };
        let bugcheck = bench.stop();
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x119, subcode), "{bugcheck}");
        assert_eq!(bugcheck.parameters[1], u64::from(STATUS_UNSUCCESSFUL.0 as u32));
        assert_eq!(app.try_fence(0).err(), Some(STATUS_DEVICE_REMOVED), "nothing goes on after a stop");
    }
}

#[test]
fn a_suspend_fence_that_was_never_issued_is_0x119_11() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    bench.world.report(&bench.bus, Report::Suspended { context: queue.system, fence: 1 });
    assert_eq!(bench.stop().parameters[0], 0x11, "a queue is no context");
    let bench = crate::bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    bench.world.ignore_suspend.store(true, Ordering::Relaxed);
    bench.world.report(&bench.bus, Report::Fault { queue: queue.system, address: 0 });
    eventually("the context is being suspended", || bench.world.calls.lock().unwrap().contains(&"SuspendContext"));
    let context = bench.machine.inspect(bench.luid).expect("an adapter").to_string();
    assert!(context.contains("suspended 0 of 1"), "{context}");
}

#[test]
fn waits_and_signals_with_bad_arguments_are_refused_by_name() {
    let bench = bench();
    let (app, other) = (App::new(&bench), App::new(&bench));
    let (fence, foreign) = (app.fence(&bench, 0), other.fence(&bench, 0));
    assert_eq!(app.wait(&[], false, None), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.wait(&[(fence.handle, 0); 65], false, None), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.wait(&[(app.device, 0)], false, None), Err(STATUS_INVALID_HANDLE), "a device is no fence");
    let stranger = foreign.handle.wrapping_add(0x1000);
    assert_eq!(app.wait(&[(stranger, 0)], false, None), Err(STATUS_INVALID_HANDLE));
    let file = std::fs::File::open("/proc/self/status").unwrap().into();
    assert_eq!(app.wait(&[(fence.handle, 1)], false, Some(&file)), Err(STATUS_OBJECT_TYPE_MISMATCH));
    assert_eq!(bench.world.monitored(fence.system), u64::MAX, "a refused wait leaves nothing behind");
    let intra = D3DKMT_CREATENATIVEFENCE { hDevice: app.device, ..Zeroed::zeroed() };
    let _attached = app.process.attach();
    let refused = |change: fn(&mut D3DKMT_CREATENATIVEFENCE)| {
        let mut args = intra;
        change(&mut args);
        call(thunks().D3DKMTCreateNativeFence, args).err()
    };
    assert_eq!(refused(|args| args.Info.Type = D3DDDI_NATIVEFENCE_TYPE(1)), Some(STATUS_NOT_SUPPORTED));
    assert_eq!(refused(|args| args.Info.Type = D3DDDI_NATIVEFENCE_TYPE(7)), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(refused(|args| args.Reserved[3] = 1), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(refused(|args| args.Info.EngineAffinity = 2), Some(STATUS_INVALID_PARAMETER));
    drop(_attached);
    bench.end();
}

#[test]
fn a_doorbell_shows_the_dummy_page_until_it_is_connected() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    assert_eq!(queue.status(), RETRY);
    queue.ring(11);
    assert_eq!(bench.world.rung(), 0, "nothing reaches the hardware");
    app.connect(&queue).unwrap();
    assert_eq!((queue.status(), bench.world.connected()), (CONNECTED, Some(queue.system)));
    queue.ring(12);
    assert_eq!(bench.world.rung(), 12);
    assert!(is_writable(queue.last_queued) && !is_writable(queue.status) && !is_writable(queue.progress.user));
    app.connect(&queue).unwrap();
    let connects = bench.world.take_calls().iter().filter(|name| **name == "ConnectDoorbell").count();
    assert_eq!(connects, 1, "a connected doorbell needs no driver");
    app.close_queue(&queue);
    bench.end();
}

#[test]
fn the_driver_takes_a_doorbell_away_for_another_queue_and_its_owner_gets_it_back() {
    let bench = bench();
    let app = App::new(&bench);
    let (first, second) = (app.queue(&bench), app.queue(&bench));
    app.connect(&first).unwrap();
    app.connect(&second).unwrap();
    assert_eq!((first.status(), second.status()), (RETRY, CONNECTED));
    second.ring(2);
    first.ring(1);
    assert_eq!(bench.world.rung(), 2, "the victim rings its dummy page");
    app.connect(&first).unwrap();
    assert_eq!((first.status(), second.status()), (CONNECTED, RETRY));
    first.ring(3);
    assert_eq!(bench.world.rung(), 3);
    app.close_queue(&first);
    app.close_queue(&second);
    bench.end();
}

#[test]
fn an_idle_engine_gives_up_its_doorbells() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    app.connect(&queue).unwrap();
    bench.world.report(&bench.bus, Report::Idle);
    eventually("the doorbell is taken", || queue.status() == RETRY);
    eventually("the driver is told", || bench.world.connected().is_none());
    app.connect(&queue).unwrap();
    assert_eq!(queue.status(), CONNECTED);
    app.close_queue(&queue);
    bench.end();
}

#[test]
fn two_threads_that_take_the_doorbell_from_each_other_never_stop_and_never_ring_the_wrong_page() {
    let bench = bench();
    let apps = [App::new(&bench), App::new(&bench)];
    let queues = apps.each_ref().map(|app| app.queue(&bench));
    std::thread::scope(|scope| {
        for (app, queue) in apps.iter().zip(&queues) {
            scope.spawn(move || {
                for _ in 0..2000 {
                    app.connect(queue).unwrap();
                    assert!(matches!(queue.status(), CONNECTED | RETRY));
                }
            });
        }
    });
    let shown = queues.each_ref().map(|queue| queue.status() == CONNECTED);
    let owner = queues.each_ref().map(|queue| bench.world.connected() == Some(queue.system));
    for (index, shown) in shown.into_iter().enumerate() {
        assert!(!shown || owner[index], "a queue is shown a page that the driver gave to another");
    }
    apps.iter().zip(&queues).for_each(|(app, queue)| app.close_queue(queue));
    bench.end();
}

#[test]
fn each_model_of_submission_refuses_the_other() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let _attached = app.process.attach();
    let submit = |queue| {
        let args = D3DKMT_SUBMITCOMMANDTOHWQUEUE { hHwQueue: queue, HwQueueProgressFenceId: 1, ..Zeroed::zeroed() };
        call(thunks().D3DKMTSubmitCommandToHwQueue, args).err()
    };
    assert_eq!(submit(queue.queue), Some(STATUS_INVALID_PARAMETER));
    let kernel = D3DKMT_CREATEHWQUEUE { hHwContext: queue.context, ..Zeroed::zeroed() };
    let kernel = call(thunks().D3DKMTCreateHwQueue, kernel).unwrap().hHwQueue;
    let rings = app.allocations();
    app.make_resident(rings);
    assert_eq!(app.create_doorbell(kernel, rings).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(app.create_doorbell(queue.queue, rings).err(), Some(STATUS_INVALID_PARAMETER), "it has one");
    let monitored = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true);
    let args = D3DKMT_CREATEHWQUEUE { hHwContext: queue.context, Flags: monitored, ..Zeroed::zeroed() };
    assert_eq!(call(thunks().D3DKMTCreateHwQueue, args).err(), Some(STATUS_INVALID_PARAMETER), "progress is native");
    let destroy = D3DKMT_DESTROYHWQUEUE { hHwQueue: queue.queue };
    assert_eq!(call(thunks().D3DKMTDestroyHwQueue, destroy).err(), Some(STATUS_INVALID_PARAMETER), "doorbell first");
    let destroy = D3DKMT_DESTROYHWCONTEXT { hHwContext: queue.context };
    assert_eq!(call(thunks().D3DKMTDestroyHwContext, destroy).err(), Some(STATUS_INVALID_PARAMETER), "queues first");
    assert_eq!(app.destroy_fence(queue.progress.handle), Err(STATUS_INVALID_PARAMETER), "it goes with the queue");
    let flags = D3DDDICB_SIGNALFLAGS::new();
    assert_eq!(app.signal(queue.progress.handle, 9, flags), Err(STATUS_INVALID_PARAMETER), "only the GPU signals it");
    drop(_attached);
    bench.end();
}

#[test]
fn a_device_that_is_closed_lets_its_queued_work_finish() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    app.connect(&queue).unwrap();
    word(queue.last_queued).store(3, Ordering::SeqCst);
    bench.world.take_calls();
    let progress = as_gpu(queue.progress.user);
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| app.destroy_device());
        eventually("the end of the work is waited for", || bench.world.monitored(queue.progress.system) == 2);
        assert_eq!(queue.status(), RETRY, "disconnected, not aborted");
        bench.world.signal(&bench.bus, queue.progress.system, progress, 3);
        closing.join().unwrap();
    });
    assert_eq!(
        bench.world.take_calls(),
        [
            "DisconnectDoorbell",
            "DestroyDoorbell",
            "DestroyHwQueue",
            "CloseNativeFence",
            "DestroyNativeFence",
            "DestroyHwContext"
        ]
    );
    bench.end();
}

#[test]
fn work_that_never_ends_is_cut_off_when_its_process_exits() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    app.connect(&queue).unwrap();
    word(queue.last_queued).store(1, Ordering::SeqCst);
    bench.world.take_calls();
    app.process.exit();
    assert_eq!(
        bench.world.take_calls(),
        [
            "DisconnectDoorbell",
            "SuspendContext",
            "DestroyDoorbell",
            "DestroyHwQueue",
            "CloseNativeFence",
            "DestroyNativeFence",
            "DestroyHwContext"
        ]
    );
    bench.end();
}

#[test]
fn a_queue_that_faults_loses_its_device_and_nobody_elses() {
    let bench = bench();
    let (app, other) = (App::new(&bench), App::new(&bench));
    let (queue, bystander) = (app.queue(&bench), other.queue(&bench));
    let fence = app.fence(&bench, 0);
    app.connect(&queue).unwrap();
    bench.world.take_calls();
    let released = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.wait(&[(fence.handle, 1)], false, None));
        eventually("the wait is monitored", || bench.world.monitored(fence.system) == 0);
        bench.world.report(&bench.bus, Report::Fault { queue: queue.system, address: 0xdead_0000 });
        waiter.join().unwrap()
    });
    assert_eq!(released, Err(STATUS_DEVICE_REMOVED));
    eventually("the doorbell says so", || queue.status() == ABORT);
    eventually("the driver is told", || bench.world.calls.lock().unwrap().contains(&"DisconnectDoorbell"));
    let calls = bench.world.take_calls();
    let order = ["SuspendContext", "DisconnectDoorbell"].map(|name| calls.iter().position(|call| *call == name));
    assert!(order[0].is_some() && order[0] < order[1], "suspended first: {calls:?}");
    assert_eq!(app.connect(&queue), Err(STATUS_DEVICE_REMOVED));
    assert_eq!(app.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    let always = DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new().with_AlwaysSignaled(true).into_bits();
    eventually("waits of the GPU fall through", || bench.world.currents.lock().unwrap().contains(&(u64::MAX, always)));
    other.connect(&bystander).unwrap();
    assert_eq!(bystander.status(), CONNECTED);
    assert_eq!(other.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE);
    app.process.exit();
    other.close_queue(&bystander);
    bench.end();
}

#[test]
fn a_fault_of_a_queue_that_does_not_exist_stops_the_machine() {
    let bench = bench();
    bench.world.report(&bench.bus, Report::Fault { queue: 0x1234, address: 0 });
    assert!(bench.stop().reason.contains("HWQUEUE_PAGE_FAULTED"));
}

#[test]
fn an_adapter_that_stops_under_a_waiting_process_releases_it() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let fence = app.fence(&bench, 0);
    app.connect(&queue).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.wait(&[(fence.handle, 1)], false, None));
        eventually("the wait is monitored", || bench.world.monitored(fence.system) == 0);
        bench.machine.remove(bench.luid).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(STATUS_DEVICE_REMOVED));
    });
    assert_eq!(queue.status(), ABORT);
    assert!(app.connect(&queue).is_err());
    assert!(app.try_fence(0).is_err());
    app.process.exit();
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn a_ring_is_kept_while_a_doorbell_uses_it() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let _attached = app.process.attach();
    let mut ring = queue.ring;
    let args = D3DKMT_DESTROYALLOCATION2 {
        hDevice: app.device,
        phAllocationList: &raw mut ring,
        AllocationCount: 1,
        ..Zeroed::zeroed()
    };
    assert!(call(thunks().D3DKMTDestroyAllocation2, args).is_err(), "the doorbell refers to it");
    app.close_queue(&queue);
    assert!(call(thunks().D3DKMTDestroyAllocation2, args).is_ok());
    drop(_attached);
    bench.end();
}
