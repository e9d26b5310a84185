//! Fences that two adapters share: what each driver is asked, and when. [native-gpu-fence-objects: cross-adapter native fences]

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::minimal::Mutant;
use crate::user_mode::app::*;
use crate::user_mode::{Batch, DRIVER, Report};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

/// Flags of DxgkDdiUpdateCurrentValuesFromCpu.
const WRITTEN: u32 = 0;
const NOTIFICATION_ONLY: u32 = 2;

/// The same driver on a GPU without native fences.
const WITHOUT: Mutant = Mutant {
    caps: |_| (),
    native_fence_caps: None,
    submission_caps: None,
    node: |_| (),
    features: &[DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH],
    ..DRIVER
};

fn cross() -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true).with_NtSecuritySharing(true).with_CrossAdapter(true)
}

/// A fence as one process on one adapter has it.
struct Open {
    app: App,
    handle: D3DKMT_HANDLE,
    /// The system's handle that this adapter's driver got; 0 for a monitored fence.
    system: usize,
    value: *mut c_void,
    kernel: HANDLE,
}

// SAFETY: the addresses are those of shared words, the handle is a number.
unsafe impl Send for Open {}
// SAFETY: as for Send.
unsafe impl Sync for Open {}

impl Open {
    fn current(&self) -> u64 {
        word(self.value).load(Ordering::SeqCst)
    }

    fn signal(&self, value: u64) {
        self.app.signal(self.handle, value, D3DDDICB_SIGNALFLAGS::new()).unwrap();
    }

    fn destroy(&self) {
        self.app.destroy_fence(self.handle).unwrap();
    }

    fn close(&self) {
        self.app.close(self.kernel).unwrap();
    }
}

fn create(bench: &Bench, initial: u64) -> Open {
    let app = App::new(bench);
    let _attached = app.process.attach();
    let mut args = D3DKMT_CREATENATIVEFENCE { hDevice: app.device, ..Zeroed::zeroed() };
    (args.Info.InitialFenceValue, args.Info.Flags) = (initial, cross());
    let made = call(thunk(), args).unwrap();
    let kernel = app.share(made.hSyncObject).unwrap();
    let value = made.Info.NativeFenceMapping.CurrentValueCpuVa;
    drop(_attached);
    Open { app, handle: made.hSyncObject, system: bench.world.last_created(), value, kernel }
}

fn thunk() -> unsafe extern "win64" fn(*mut D3DKMT_CREATENATIVEFENCE) -> NTSTATUS {
    dxgkrnl::thunks().D3DKMTCreateNativeFence
}

fn open_native(bench: &Bench, other: &Open) -> Open {
    let app = App::new(bench);
    let kernel = other.app.process.duplicate_handle(other.kernel, &app.process).unwrap();
    let opened = app.open(kernel).unwrap();
    let value = opened.NativeFenceMapping.CurrentValueCpuVa;
    Open { app, handle: opened.hSyncObject, system: bench.world.last_created(), value, kernel }
}

fn open_monitored(bench: &Bench, other: &Open) -> Open {
    let app = App::new(bench);
    let kernel = other.app.process.duplicate_handle(other.kernel, &app.process).unwrap();
    let attached = app.process.attach();
    let mut args = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2::zeroed();
    (args.hNtHandle, args.hDevice) = (kernel, app.device);
    let opened = call(dxgkrnl::D3DKMTOpenSyncObjectFromNtHandle2, args).unwrap();
    drop(attached);
    // SAFETY: every arm is plain numbers.
    let value = unsafe { opened.u.MonitoredFence }.FenceValueCPUVirtualAddress;
    Open { app, handle: opened.hSyncObject, system: 0, value, kernel }
}

/// A fence on two adapters with native fences: of one driver, and of two.
fn pairs(initial: u64) -> impl Iterator<Item = ([Bench; 2], [Open; 2])> {
    [false, true].into_iter().map(move |own_driver| {
        let one = bench();
        let two = if own_driver { one.beside_with(DRIVER) } else { one.beside() };
        let first = create(&one, initial);
        let second = open_native(&two, &first);
        for bench in [&one, &two] {
            bench.world.take_calls();
        }
        ([one, two], [first, second])
    })
}

fn currents(bench: &Bench) -> Vec<(u64, u32)> {
    std::mem::take(&mut *bench.world.currents.lock().unwrap())
}

fn batches(bench: &Bench) -> Vec<Batch> {
    std::mem::take(&mut *bench.world.batches.lock().unwrap())
}

fn end(benches: [Bench; 2]) {
    for bench in &benches {
        bench.machine.remove(bench.luid).unwrap();
    }
    assert_eq!(benches[0].machine.bugcheck(), None);
}

#[test]
fn each_driver_is_told_once_that_the_monitored_value_is_zero() {
    for (benches, sides) in pairs(7) {
        assert_eq!(sides.each_ref().map(Open::current), [7, 7]);
        for (bench, side) in benches.iter().zip(&sides) {
            assert_eq!(bench.world.monitored(side.system), 0);
            let told: Vec<_> = batches(bench).into_iter().map(|batch| (batch.monitored, batch.values)).collect();
            assert_eq!(told, [(true, vec![(side.system, 0)])]);
        }
        let waits = sides.each_ref().map(|side| {
            let woken = event();
            side.app.wait(&[(side.handle, 9)], false, Some(&woken)).unwrap();
            woken
        });
        assert!(benches.iter().all(|bench| batches(bench).is_empty()), "waits change nothing");
        sides[0].signal(9);
        assert!(waits.iter().all(is_signaled));
        assert!(benches.iter().all(|bench| batches(bench).iter().all(|batch| !batch.monitored)));
        end(benches);
    }
}

#[test]
fn a_signal_of_one_gpu_is_told_to_the_other_and_wakes_both_sides() {
    for (benches, sides) in pairs(0) {
        for (from, to) in [(0, 1), (1, 0)] {
            let value = 10 * (from as u64 + 1);
            let waits = sides.each_ref().map(|side| {
                let woken = event();
                side.app.wait(&[(side.handle, value)], false, Some(&woken)).unwrap();
                woken
            });
            let (bench, side) = (&benches[from], &sides[from]);
            assert!(bench.world.signal(&bench.bus, side.system, as_gpu(side.value), value), "every signal interrupts");
            eventually("both are woken", || waits.each_ref().map(is_set) == [true, true]);
            eventually("the other driver is told", || !benches[to].world.currents.lock().unwrap().is_empty());
            assert_eq!(currents(&benches[to]), [(value, NOTIFICATION_ONLY)]);
            assert_eq!(currents(&benches[from]), [], "its own GPU saw it");
        }
        end(benches);
    }
}

/// True if the event is signalled; asking does not reset it.
fn is_set(event: &std::os::fd::OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, and a timeout of zero.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[test]
fn a_signal_of_the_processor_is_written_on_its_adapter_and_told_to_the_other() {
    for (benches, sides) in pairs(0) {
        for (from, to) in [(0, 1), (1, 0)] {
            let value = 5 + from as u64;
            sides[from].signal(value);
            assert_eq!(sides.each_ref().map(Open::current), [value, value]);
            assert_eq!(currents(&benches[from]), [(value, WRITTEN)]);
            assert_eq!(currents(&benches[to]), [(value, NOTIFICATION_ONLY)]);
        }
        let late = sides[0].app.signal(sides[0].handle, 4, D3DDDICB_SIGNALFLAGS::new());
        assert_eq!(late, Err(STATUS_INVALID_PARAMETER));
        assert!(benches.iter().all(|bench| currents(bench).is_empty()), "a refused signal is told to nobody");
        end(benches);
    }
}

#[test]
fn a_report_without_names_is_for_the_other_adapter_too() {
    for (benches, sides) in pairs(0) {
        let woken = event();
        sides[1].app.wait(&[(sides[1].handle, 3)], false, Some(&woken)).unwrap();
        as_gpu(sides[0].value).store(3, Ordering::SeqCst);
        benches[0].world.report(&benches[0].bus, Report::Scan);
        eventually("the waiter of the other adapter", || is_set(&woken));
        assert_eq!(currents(&benches[1]), [(3, NOTIFICATION_ONLY)]);
        end(benches);
    }
}

#[test]
fn a_monitored_side_is_no_business_of_its_driver() {
    for monitored_made in [false, true] {
        let one = bench();
        let two = one.beside_with(WITHOUT);
        let (native, monitored) = if monitored_made {
            let app = App::new(&two);
            let attached = app.process.attach();
            let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: app.device, ..Zeroed::zeroed() };
            args.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
            args.Info.Flags = cross();
            let made = call(dxgkrnl::D3DKMTCreateSynchronizationObject2, args).unwrap();
            let kernel = app.share(made.hSyncObject).unwrap();
            drop(attached);
            // SAFETY: every arm is plain numbers.
            let value = unsafe { made.Info.u.MonitoredFence }.FenceValueCPUVirtualAddress;
            let made = Open { app, handle: made.hSyncObject, system: 0, value, kernel };
            (open_native(&one, &made), made)
        } else {
            let native = create(&one, 0);
            let monitored = open_monitored(&two, &native);
            (native, monitored)
        };
        let woken = event();
        monitored.app.wait(&[(monitored.handle, 5)], false, Some(&woken)).unwrap();
        assert!(one.world.signal(&one.bus, native.system, as_gpu(native.value), 5));
        eventually("the monitored side is woken", || is_set(&woken));
        assert_eq!(currents(&one), []);
        monitored.signal(6);
        assert_eq!(native.current(), 6);
        assert_eq!(currents(&one), [(6, NOTIFICATION_ONLY)]);
        let calls = two.world.take_calls();
        assert!(!calls.iter().any(|name| name.contains("NativeFence")), "{calls:?}");
        assert!(batches(&two).is_empty() && currents(&two).is_empty());
        // As a native fence it opens there too, and is none.
        let app = App::new(&two);
        let kernel = native.app.process.duplicate_handle(native.kernel, &app.process).unwrap();
        assert_eq!(app.open(kernel).unwrap().NativeFenceMapping.MonitoredValueGpuVa, 0);
        assert_eq!(app.try_shared(cross()).err(), Some(STATUS_NOT_SUPPORTED));
        end([one, two]);
    }
}

#[test]
fn each_driver_has_the_fence_while_a_process_has_it_open_there() {
    for first_goes in [0, 1] {
        for (benches, sides) in pairs(1) {
            let again = open_native(&benches[first_goes], &sides[0]);
            assert_eq!(benches[first_goes].world.take_calls(), ["OpenNativeFence"], "one fence an adapter");
            let (goes, stays) = (&sides[first_goes], &sides[1 - first_goes]);
            goes.destroy();
            assert_eq!(benches[first_goes].world.take_calls(), ["CloseNativeFence"]);
            again.destroy();
            assert_eq!(benches[first_goes].world.take_calls(), ["CloseNativeFence", "DestroyNativeFence"]);
            assert_eq!(benches[1 - first_goes].world.take_calls(), [""; 0]);
            currents(&benches[first_goes]);
            stays.signal(8);
            assert_eq!(currents(&benches[first_goes]), [], "nobody is told of a fence it does not have");
            let back = open_native(&benches[first_goes], stays);
            assert_eq!(benches[first_goes].world.take_calls(), ["CreateNativeFence", "OpenNativeFence"]);
            assert_eq!(back.current(), 8);
            for open in [stays, &back] {
                open.destroy();
            }
            for open in [goes, stays, &back, &again] {
                open.close();
            }
            assert_eq!(back.app.open(back.kernel).err(), Some(STATUS_INVALID_HANDLE));
            end(benches);
        }
    }
}

#[test]
fn what_the_gpu_signalled_before_its_side_was_closed_is_not_lost() {
    for (benches, sides) in pairs(0) {
        let woken = event();
        sides[0].app.wait(&[(sides[0].handle, 4)], false, Some(&woken)).unwrap();
        // Written, and the interrupt on its way does not find the fence any more.
        as_gpu(sides[1].value).store(4, Ordering::SeqCst);
        assert!(!is_set(&woken));
        sides[1].destroy();
        assert!(is_set(&woken));
        assert_eq!(currents(&benches[0]), [(4, NOTIFICATION_ONLY)]);
        end(benches);
    }
}

#[test]
fn an_adapter_that_is_removed_takes_only_its_own_side() {
    for gone in [0, 1] {
        for (benches, sides) in pairs(0) {
            let waits = sides.each_ref().map(|side| {
                let woken = event();
                side.app.wait(&[(side.handle, 2)], false, Some(&woken)).unwrap();
                woken
            });
            let (left, other) = (&sides[1 - gone], &sides[gone]);
            benches[gone].machine.remove(benches[gone].luid).unwrap();
            assert_eq!(benches[gone].world.take_calls(), ["CloseNativeFence", "DestroyNativeFence"]);
            assert!(is_set(&waits[gone]) && !is_set(&waits[1 - gone]));
            left.signal(2);
            assert!(is_set(&waits[1 - gone]));
            other.destroy();
            other.close();
            left.destroy();
            left.close();
            let last = &benches[1 - gone];
            last.machine.remove(last.luid).unwrap();
            assert_eq!(last.machine.bugcheck(), None);
        }
    }
}

#[test]
fn a_fence_of_one_adapter_is_unknown_to_the_driver_of_the_other() {
    let (benches, sides) = pairs(0).next().unwrap();
    benches[1].world.report(&benches[1].bus, Report::Fences(vec![sides[0].system]));
    assert!(benches[1].stop().reason.contains("no native fence"));
}

#[test]
fn a_report_of_a_side_that_is_gone_is_a_broken_contract() {
    let (benches, sides) = pairs(0).next().unwrap();
    sides[1].destroy();
    benches[1].world.report(&benches[1].bus, Report::Fences(vec![sides[1].system]));
    assert!(benches[1].stop().reason.contains("destroyed"));
}

#[test]
fn a_driver_that_refuses_a_notification_stops_the_machine() {
    let (benches, sides) = pairs(0).next().unwrap();
    benches[1].world.failing.lock().unwrap().insert("UpdateCurrentValuesFromCpu", STATUS_UNSUCCESSFUL);
    sides[0].signal(1);
    let bugcheck = benches[0].stop();
    assert_eq!(bugcheck.parameters[0], 0x13);
}

#[test]
fn a_failed_opening_on_the_other_adapter_leaves_nothing_there() {
    let one = bench();
    let two = one.beside();
    let made = create(&one, 3);
    let app = App::new(&two);
    let kernel = made.app.process.duplicate_handle(made.kernel, &app.process).unwrap();
    for (step, calls) in [
        ("CreateNativeFence", ["CreateNativeFence"].as_slice()),
        ("OpenNativeFence", &["CreateNativeFence", "OpenNativeFence", "DestroyNativeFence"]),
    ] {
        two.world.failing.lock().unwrap().insert(step, STATUS_NO_MEMORY);
        two.world.take_calls();
        assert_eq!(app.open(kernel).err(), Some(STATUS_NO_MEMORY));
        assert_eq!(two.world.take_calls(), calls);
        two.world.failing.lock().unwrap().clear();
        currents(&two);
        made.signal(made.current() + 1);
        assert_eq!(currents(&two), []);
    }
    app.open(kernel).unwrap();
    end([one, two]);
}

#[test]
fn two_adapters_that_signal_each_other_never_wait_for_each_other() {
    const ROUNDS: u64 = 500;
    for (benches, sides) in pairs(0) {
        std::thread::scope(|scope| {
            for (me, (bench, side)) in benches.iter().zip(&sides).enumerate() {
                scope.spawn(move || {
                    // Odd values are the first adapter's, by its GPU; even ones the other's, by its processor too.
                    for round in 0..ROUNDS {
                        let turn = 2 * round + me as u64;
                        side.app.wait(&[(side.handle, turn)], false, None).unwrap();
                        if round % 2 == 0 {
                            bench.world.signal(&bench.bus, side.system, as_gpu(side.value), turn + 1);
                        } else {
                            side.signal(turn + 1);
                        }
                    }
                });
            }
        });
        assert_eq!(sides.each_ref().map(Open::current), [2 * ROUNDS; 2]);
        end(benches);
    }
}
