//! A process that is asked for something and does not answer: others go on meanwhile, whatever it was asked for.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::minimal::Bench;
use crate::minimal::memory::{LOCAL, ask, call};
use dxgkrnl::{Process, Share, thunks};
use nt::user_space::{ARGUMENT_WORDS, FileId, TakeDescriptor, ThisProcess, UserSpace};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID, NTSTATUS};

/// Every allocation of the minimal miniport has this size.
const SIZE: usize = 1 << 16;
/// Rounds of memory calls that another process makes meanwhile.
const ROUNDS: usize = 50;
/// A call that has not come back by then waits for the process that is stopped.
const HANGS: Duration = Duration::from_secs(60);

/// A process that answers what it is asked for, unless it is stopped.
#[derive(Default)]
struct Stoppable {
    /// True while it is stopped, and what it was asked for meanwhile.
    state: Mutex<(bool, Vec<&'static str>)>,
    changed: Condvar,
    /// How often its answers have one time limit together at the moment, and how often they had.
    joint: Mutex<(usize, usize)>,
}

impl Stoppable {
    fn stop(&self) {
        self.state.lock().unwrap().0 = true;
    }

    fn go_on(&self) {
        *self.state.lock().unwrap() = (false, Vec::new());
        self.changed.notify_all();
    }

    /// The first thing that the process is asked for while it is stopped; `None` if nothing comes.
    fn first_asked(&self) -> Option<&'static str> {
        let state = self.state.lock().unwrap();
        let (state, _) = self.changed.wait_timeout_while(state, HANGS, |(_, asked)| asked.is_empty()).unwrap();
        state.1.first().copied()
    }

    /// Waits until the process is asked for something while it is stopped.
    fn until_asked(&self) -> &'static str {
        self.first_asked().expect("it was asked for nothing")
    }

    fn answer(&self, name: &'static str) -> ThisProcess {
        let mut state = self.state.lock().unwrap();
        if state.0 {
            state.1.push(name);
            self.changed.notify_all();
        }
        drop(self.changed.wait_while(state, |(stopped, _)| *stopped).unwrap());
        ThisProcess
    }
}

impl UserSpace for Stoppable {
    fn waits(&self) -> bool {
        true
    }

    fn begin_joint_limit(&self) {
        let mut joint = self.joint.lock().unwrap();
        *joint = (joint.0 + 1, joint.1 + usize::from(joint.0 == 0));
    }

    fn end_joint_limit(&self) {
        self.joint.lock().unwrap().0 -= 1;
    }

    fn read(&self, address: usize, bytes: &mut [u8]) -> io::Result<()> {
        ThisProcess.read(address, bytes)
    }

    fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        ThisProcess.write(address, bytes)
    }

    fn hand_descriptor(&self, number: RawFd, take: TakeDescriptor) -> io::Result<()> {
        ThisProcess.hand_descriptor(number, take)
    }

    fn give(&self, descriptor: OwnedFd) -> io::Result<RawFd> {
        self.answer("give").give(descriptor)
    }

    fn reserve(&self, len: usize) -> io::Result<usize> {
        self.answer("reserve").reserve(len)
    }

    fn show(&self, range: Range<usize>, file: &File, offset: u64, writable: bool) -> io::Result<()> {
        self.answer("show").show(range, file, offset, writable)
    }

    fn hide(&self, range: Range<usize>) -> io::Result<()> {
        self.answer("hide").hide(range)
    }

    fn freeze(&self, range: Range<usize>) -> io::Result<()> {
        self.answer("freeze").freeze(range)
    }

    fn thaw(&self, start: usize) {
        self.answer("thaw").thaw(start);
    }

    fn allow_stores(&self, range: Range<usize>) -> io::Result<()> {
        self.answer("allow_stores").allow_stores(range)
    }

    fn detach(&self, range: Range<usize>, writable: bool) -> io::Result<()> {
        self.answer("detach").detach(range, writable)
    }

    fn blank(&self, range: Range<usize>) -> io::Result<()> {
        self.answer("blank").blank(range)
    }

    fn answer_for_function(&self, range: Range<usize>) -> io::Result<()> {
        self.answer("answer_for_function").answer_for_function(range)
    }

    fn release(&self, range: Range<usize>) {
        self.answer("release").release(range);
    }

    fn adopt(&self, range: Range<usize>) -> io::Result<()> {
        self.answer("adopt").adopt(range)
    }

    fn give_back(&self, range: Range<usize>, file: FileId) -> io::Result<()> {
        self.answer("give_back").give_back(range, file)
    }

    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool {
        self.answer("call").call(function, argument, caller)
    }
}

/// A process with a device and its paging queue, which any thread may act for.
struct User {
    process: Arc<Process>,
    device: D3DKMT_HANDLE,
    queue: D3DKMT_HANDLE,
}

impl User {
    fn new(process: Arc<Process>, luid: LUID) -> Self {
        let _attached = process.attach();
        let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).hAdapter;
        let device = call(thunks().D3DKMTCreateDevice, args).hDevice;
        let mut args = D3DKMT_CREATEPAGINGQUEUE::zeroed();
        args.hDevice = device;
        let queue = call(thunks().D3DKMTCreatePagingQueue, args).hPagingQueue;
        drop(_attached);
        Self { process, device, queue }
    }

    fn create(&self) -> D3DKMT_HANDLE {
        let _attached = self.process.attach();
        let mut info = [D3DDDI_ALLOCATIONINFO2::zeroed()];
        let mut args = D3DKMT_CREATEALLOCATION::zeroed();
        args.hDevice = self.device;
        args.NumAllocations = 1;
        args.u1.pAllocationInfo2 = info.as_mut_ptr();
        call(thunks().D3DKMTCreateAllocation2, args);
        info[0].hAllocation
    }

    fn destroy(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let _attached = self.process.attach();
        let mut list = [allocation];
        let mut args = D3DKMT_DESTROYALLOCATION2::zeroed();
        args.hDevice = self.device;
        args.AllocationCount = 1;
        args.phAllocationList = list.as_mut_ptr();
        ask(thunks().D3DKMTDestroyAllocation2, args).0
    }

    fn resident(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let _attached = self.process.attach();
        let mut list = [allocation];
        let mut args = D3DDDI_MAKERESIDENT::zeroed();
        args.hPagingQueue = self.queue;
        args.NumAllocations = 1;
        args.AllocationList = list.as_mut_ptr();
        ask(thunks().D3DKMTMakeResident, args).0
    }

    fn evict(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let _attached = self.process.attach();
        let mut list = [allocation];
        let mut args = D3DKMT_EVICT::zeroed();
        args.hDevice = self.device;
        args.NumAllocations = 1;
        args.AllocationList = list.as_mut_ptr();
        ask(thunks().D3DKMTEvict, args).0
    }

    fn lock(&self, allocation: D3DKMT_HANDLE) -> *mut u8 {
        let _attached = self.process.attach();
        let mut args = D3DKMT_LOCK2::zeroed();
        (args.hDevice, args.hAllocation) = (self.device, allocation);
        call(thunks().D3DKMTLock2, args).pData.cast()
    }

    fn unlock(&self, allocation: D3DKMT_HANDLE) -> NTSTATUS {
        let _attached = self.process.attach();
        ask(thunks().D3DKMTUnlock2, D3DKMT_UNLOCK2 { hDevice: self.device, hAllocation: allocation }).0
    }

    /// Where the bytes of an allocation are that the GPU finds; `None` for one that it does not.
    fn is_in_vram(&self, allocation: D3DKMT_HANDLE) -> bool {
        let _attached = self.process.attach();
        let mut list = [allocation];
        let mut told = [D3DKMT_ALLOCATIONRESIDENCYSTATUS(0)];
        let mut args = D3DKMT_QUERYALLOCATIONRESIDENCY::zeroed();
        (args.hDevice, args.AllocationCount) = (self.device, 1);
        args.phAllocationList = list.as_mut_ptr();
        args.pResidencyStatus = told.as_mut_ptr();
        call(dxgkrnl::further_thunks().D3DKMTQueryAllocationResidency, args);
        told[0] == D3DKMT_ALLOCATIONRESIDENCYSTATUS::D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY
    }
}

/// Bytes of a locked allocation.
fn bytes<'a>(address: *mut u8) -> &'a mut [u8] {
    // SAFETY: the allocation is locked and this long, and the tests use the bytes while it is.
    unsafe { std::slice::from_raw_parts_mut(address, SIZE) }
}

/// A machine with a process that can be stopped, and others beside it.
struct World {
    bench: Bench,
    luid: LUID,
    stoppable: Arc<Stoppable>,
    slow: Arc<User>,
}

impl World {
    fn new() -> Self {
        let bench = Bench::new(LOCAL).unwrap();
        let luid = bench.start().unwrap();
        let stoppable = Arc::new(Stoppable::default());
        let user: Arc<dyn UserSpace> = Arc::clone(&stoppable) as Arc<dyn UserSpace>;
        let slow = Arc::new(User::new(Process::elsewhere(&bench.machine, "slow", 77, user, 0, Share::default()), luid));
        Self { bench, luid, stoppable, slow }
    }

    fn another(&self) -> Arc<User> {
        Arc::new(User::new(Process::new(&self.bench.machine, "another"), self.luid))
    }

    /// Stops the process, does `act` on a thread, and waits until the process is asked for something; the answer says for what, and when `act` is done.
    fn stop_and(&self, act: impl FnOnce() + Send + 'static) -> (&'static str, Receiver<()>) {
        let (tell, done) = channel();
        self.stoppable.stop();
        thread::spawn(move || {
            act();
            let _ = tell.send(());
        });
        (self.stoppable.until_asked(), done)
    }

    /// Another process makes, locks, writes, unlocks and destroys allocations while the first one is stopped: the number that it came to.
    fn rounds_meanwhile(&self, why: &str) {
        let (count, (tell, done)) = (Arc::new(AtomicUsize::new(0)), channel());
        let (counted, machine, luid) = (Arc::clone(&count), self.bench.machine.clone(), self.luid);
        thread::spawn(move || {
            let another = User::new(Process::new(&machine, "bystander"), luid);
            for round in 0..ROUNDS {
                let allocation = another.create();
                let locked = bytes(another.lock(allocation));
                locked.fill(round as u8);
                assert_eq!(another.unlock(allocation), STATUS_SUCCESS);
                assert_eq!(another.destroy(allocation), STATUS_SUCCESS);
                counted.fetch_add(1, Ordering::SeqCst);
            }
            another.process.exit();
            let _ = tell.send(());
        });
        let outcome = done.recv_timeout(HANGS);
        if outcome != Ok(()) {
            self.stoppable.go_on();
        }
        assert_ne!(outcome, Err(RecvTimeoutError::Timeout), "{why}: another process waits");
        assert_eq!(count.load(Ordering::SeqCst), ROUNDS, "{why}");
    }

    /// The process goes on, and what waited for it is done.
    fn go_on(&self, done: &Receiver<()>) {
        self.stoppable.go_on();
        assert_eq!(done.recv_timeout(HANGS), Ok(()), "what waited for the process is not done");
    }

    fn end(self) {
        self.slow.process.exit();
        drop(self.slow);
        self.bench.machine.remove(self.luid).unwrap();
        self.bench.machine.unload(self.bench.driver).unwrap();
        assert_eq!(self.bench.machine.bugcheck(), None);
    }
}

#[test]
fn a_locked_allocation_that_leaves_vram_for_another_process_holds_up_nobody_but_that_one() {
    let world = World::new();
    let allocation = world.slow.create();
    assert!(world.slow.resident(allocation).is_success());
    let locked = bytes(world.slow.lock(allocation));
    locked.fill(0x5a);
    assert_eq!(world.slow.evict(allocation), STATUS_SUCCESS);
    let needs = world.another();
    let (asked, done) = world.stop_and(move || {
        // As much as there is: the last of them need the place of the one that is locked.
        let made = std::iter::from_fn(|| {
            let allocation = needs.create();
            needs.resident(allocation).is_success().then_some(allocation)
        });
        assert!(made.count() > 4);
        needs.process.exit();
    });
    assert_eq!(asked, "freeze");
    world.rounds_meanwhile("a process moves whose allocation is locked");
    assert!(locked.iter().all(|byte| *byte == 0x5a), "it is read where it was");
    world.go_on(&done);
    assert!(!world.slow.is_in_vram(allocation));
    // The device of this test copies nothing, so each place has what was stored there.
    assert!(locked.iter().all(|byte| *byte != 0x5a), "the address shows the other place");
    locked.fill(0xa5);
    let (asked, done) = {
        let slow = Arc::clone(&world.slow);
        world.stop_and(move || assert!(slow.resident(allocation).is_success()))
    };
    assert_eq!(asked, "freeze");
    world.rounds_meanwhile("its owner has it brought back");
    world.go_on(&done);
    assert!(world.slow.is_in_vram(allocation));
    assert!(locked.iter().all(|byte| *byte != 0xa5), "the address shows the place in VRAM");
    locked.fill(1);
    assert_eq!(world.slow.unlock(allocation), STATUS_SUCCESS);
    assert_eq!(world.slow.destroy(allocation), STATUS_SUCCESS);
    world.end();
}

#[test]
fn locking_unlocking_and_destroying_for_a_stopped_process_holds_nobody_up() {
    let world = World::new();
    let [first, second] = [(); 2].map(|()| world.slow.create());
    let slow = || Arc::clone(&world.slow);
    let user = slow();
    let (asked, done) = world.stop_and(move || assert!(!user.lock(first).is_null()));
    assert_eq!(asked, "reserve");
    world.rounds_meanwhile("it is to reserve addresses");
    world.go_on(&done);
    let user = slow();
    let (asked, done) = world.stop_and(move || assert_eq!(user.unlock(first), STATUS_SUCCESS));
    assert_eq!(asked, "release");
    world.rounds_meanwhile("it is to give addresses back");
    world.go_on(&done);
    world.slow.lock(second);
    let user = slow();
    let (asked, done) = world.stop_and(move || assert_eq!(user.destroy(second), STATUS_SUCCESS));
    assert_eq!(asked, "release");
    world.rounds_meanwhile("what it has locked is destroyed");
    world.go_on(&done);
    assert_eq!(world.slow.destroy(first), STATUS_SUCCESS);
    world.end();
}

/// An allocation in VRAM that its process has locked, and has written.
fn lock_in_vram(user: &User, byte: u8) -> (D3DKMT_HANDLE, &'static mut [u8]) {
    let allocation = user.create();
    assert!(user.resident(allocation).is_success());
    let locked = bytes(user.lock(allocation));
    locked.fill(byte);
    (allocation, locked)
}

/// Everybody waits while memory leaves the device for D3 and comes back: a process that takes its time for its answers does not wait for another one that does.
#[test]
fn processes_are_asked_beside_each_other_when_memory_leaves_for_d3_and_comes_back() {
    let world = World::new();
    let other = Arc::new(Stoppable::default());
    let other_user: Arc<dyn UserSpace> = Arc::clone(&other) as Arc<dyn UserSpace>;
    let second = User::new(
        Process::elsewhere(&world.bench.machine, "slow too", 78, other_user, 0, Share::default()),
        world.luid,
    );
    let locked = [lock_in_vram(&world.slow, 1), lock_in_vram(&second, 2), lock_in_vram(&second, 3)];
    let (machine, luid) = (world.bench.machine.clone(), world.luid);
    let power = |up: bool| {
        let machine = machine.clone();
        move || (if up { machine.power_up(luid) } else { machine.power_down(luid) }).unwrap()
    };
    let asked = |done: &Receiver<()>, times: usize| {
        let of_other = other.first_asked();
        let joint = [&world.stoppable, &other].map(|one| *one.joint.lock().unwrap());
        other.go_on();
        world.go_on(done);
        assert_eq!(of_other, Some("freeze"), "it is asked although the first one has not answered");
        assert_eq!(joint.map(|(under_way, begun)| (under_way > 0, begun)), [(true, times); 2]);
        assert_eq!([&world.stoppable, &other].map(|one| *one.joint.lock().unwrap()), [(0, times + 1); 2]);
    };
    for (up, times) in [(false, 1), (true, 3)] {
        other.stop();
        let (first, done) = world.stop_and(power(up));
        assert_eq!(first, "freeze");
        asked(&done, times);
        assert_eq!(machine.is_powered_down(luid), !up);
    }
    for ((_, bytes), byte) in locked.into_iter().zip(4..) {
        bytes.fill(byte);
    }
    let (_, done) = world.stop_and(move || machine.stop(luid).unwrap());
    let under_way = [&world.stoppable, &other].map(|one| one.joint.lock().unwrap().0 > 0);
    assert_eq!(under_way, [true; 2], "all that a stop asks for");
    world.go_on(&done);
    assert_eq!([&world.stoppable, &other].map(|one| one.joint.lock().unwrap().0), [0; 2]);
    second.process.exit();
    world.end();
}
