//! DxgkCbSetPowerComponentActive of one thread while another makes a transition of the component. [d3dkmddi: DXGKCB_SETPOWERCOMPONENTACTIVE,
//! DXGKDDISETPOWERCOMPONENTFSTATE]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::power::{completing, engine, eventually, idle, interface, interrupt, managed};
use crate::minimal::{Adapter, Bench, Mutant};
use dxgkrnl::{Process, further_thunks, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

/// The tests use what follows one after the other.
static ONE: Mutex<()> = Mutex::new(());
/// The engine may be said to be idle.
static MAY_REST: AtomicBool = AtomicBool::new(false);
/// DxgkDdiSetPowerComponentFState was called for F1.
static IN_TRANSITION: AtomicBool = AtomicBool::new(false);
/// Some thread is about to call DxgkCbSetPowerComponentActive.
static ASKS: AtomicBool = AtomicBool::new(false);
/// It has come back from that.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// It had come back when the transition was not over yet.
static EARLY: AtomicBool = AtomicBool::new(false);
/// DxgkDdiSetPowerComponentFState returns, whoever asks.
static RELEASED: AtomicBool = AtomicBool::new(false);

/// Gives a thread that waits for nothing the time to come back.
fn let_it_come_back() {
    std::thread::sleep(Duration::from_millis(50));
    EARLY.fetch_or(ACTIVE.load(Ordering::SeqCst), Ordering::SeqCst);
}

fn begin() {
    for flag in [&MAY_REST, &IN_TRANSITION, &ASKS, &ACTIVE, &EARLY, &RELEASED] {
        flag.store(false, Ordering::SeqCst);
    }
}

/// Returns when another thread has asked for the component.
unsafe extern "win64" fn stays_inside(_: *mut c_void, _: u32, fstate: u32) -> NTSTATUS {
    if fstate == 1 {
        IN_TRANSITION.store(true, Ordering::SeqCst);
        eventually("another thread asks", || ASKS.load(Ordering::SeqCst) || RELEASED.load(Ordering::SeqCst));
        let_it_come_back();
    }
    STATUS_SUCCESS
}

/// Returns at once; another thread completes the transition to F1.
unsafe extern "win64" fn returns_at_once(context: *mut c_void, component: u32, fstate: u32) -> NTSTATUS {
    if fstate == 1 {
        IN_TRANSITION.store(true, Ordering::SeqCst);
        return STATUS_SUCCESS;
    }
    let (handle, interface) = interface(context);
    // SAFETY: the handle is good.
    unsafe { interface.DxgkCbCompleteFStateTransition.unwrap()(handle, component) };
    STATUS_SUCCESS
}

/// The escape that calls DxgkCbSetPowerComponentActive; any other calls DxgkCbCompleteFStateTransition.
const BECOME_ACTIVE: u8 = 1;
const COMPLETE: u8 = 2;

unsafe extern "win64" fn escape(context: HANDLE, args: *const DXGKARG_ESCAPE) -> NTSTATUS {
    let (handle, interface) = interface(context);
    // SAFETY: the system passes the structure.
    let data = unsafe { (*args).pPrivateDriverData };
    // SAFETY: the test passes one byte.
    if unsafe { data.cast::<u8>().read() } == COMPLETE {
        // SAFETY: the handle is good.
        unsafe { interface.DxgkCbCompleteFStateTransition.unwrap()(handle, 0) };
        return STATUS_SUCCESS;
    }
    ASKS.store(true, Ordering::SeqCst);
    // SAFETY: the handle is good.
    let status = unsafe { interface.DxgkCbSetPowerComponentActive.unwrap()(handle, 0) };
    ACTIVE.store(true, Ordering::SeqCst);
    status
}

/// In a DPC: the engine is idle, as soon as it may be.
fn rest(adapter: &mut Adapter) {
    if MAY_REST.load(Ordering::SeqCst) {
        idle(adapter);
    }
}

fn ask(process: &std::sync::Arc<Process>, adapter: D3DKMT_HANDLE, mut what: u8) -> NTSTATUS {
    let _attached = process.attach();
    let mut args = D3DKMT_ESCAPE { hAdapter: adapter, ..Zeroed::zeroed() };
    args.Type = D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_DRIVERPRIVATE;
    args.Flags = D3DDDI_ESCAPEFLAGS::new().with_NoAdapterSynchronization(true);
    (args.pPrivateDriverData, args.PrivateDriverDataSize) = ((&raw mut what).cast(), 1);
    // SAFETY: the structure and its data live across the call.
    unsafe { (further_thunks().D3DKMTEscape)(&raw const args) }
}

/// A program on a machine whose engine enters F1.
fn resting(
    component: fn() -> Vec<DXGK_POWER_RUNTIME_COMPONENT>,
    table: fn(&mut DRIVER_INITIALIZATION_DATA),
    in_dpc: fn(&mut Adapter),
) -> (Bench, LUID, std::sync::Arc<Process>, D3DKMT_HANDLE) {
    begin();
    let bench = Bench::new(Mutant { table, in_dpc, ..managed(component) }).unwrap();
    let luid = bench.start().unwrap();
    let process = Process::new(&bench.machine, "user");
    let attached = process.attach();
    let mut open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
    // SAFETY: the structure lives across the call.
    assert_eq!(unsafe { (thunks().D3DKMTOpenAdapterFromLuid)(&raw mut open) }, STATUS_SUCCESS);
    drop(attached);
    MAY_REST.store(true, Ordering::SeqCst);
    interrupt(&bench);
    eventually("the transition", || IN_TRANSITION.load(Ordering::SeqCst));
    (bench, luid, process, open.hAdapter)
}

#[test]
fn a_thread_that_needs_a_component_waits_for_the_end_of_a_transition_that_another_makes() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (component, table, completes) in [
        (
            (|| vec![engine()]) as fn() -> _,
            (|table| {
                table.DxgkDdiSetPowerComponentFState = Some(stays_inside);
                table.DxgkDdiEscape = Some(escape);
            }) as fn(&mut DRIVER_INITIALIZATION_DATA),
            false,
        ),
        (
            || vec![completing()],
            |table| {
                table.DxgkDdiSetPowerComponentFState = Some(returns_at_once);
                table.DxgkDdiEscape = Some(escape);
            },
            true,
        ),
    ] {
        let (bench, luid, process, adapter) = resting(component, table, rest);
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| ask(&process, adapter, BECOME_ACTIVE));
            if completes {
                eventually("the thread asks", || ASKS.load(Ordering::SeqCst));
                let_it_come_back();
                assert_eq!(ask(&process, adapter, COMPLETE), STATUS_SUCCESS);
            }
            assert_eq!(asks.join().unwrap(), STATUS_SUCCESS);
        });
        assert!(!EARLY.load(Ordering::SeqCst), "it waits for the end of the transition");
        let state = bench.machine.power_components(luid)[0];
        assert_eq!((state.fstate, state.wakes), (0, state.left_f0), "the component is in F0");
        assert_eq!(bench.machine.take_rescues(), [], "at the level of the page it is no finding");
        process.exit();
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
    }
}

#[test]
fn a_dpc_that_needs_a_component_during_a_transition_stops_the_machine_for_it_may_not_wait() {
    fn in_dpc(adapter: &mut Adapter) {
        if !IN_TRANSITION.load(Ordering::SeqCst) {
            return rest(adapter);
        }
        // SAFETY: the handle is good.
        let _ = unsafe { adapter.interface.DxgkCbSetPowerComponentActive.unwrap()(adapter.handle, 0) };
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiSetPowerComponentFState = Some(stays_inside);
    let (bench, _, process, _) = resting(|| vec![engine()], table, in_dpc);
    interrupt(&bench);
    eventually("the bugcheck", || bench.machine.bugcheck().is_some());
    RELEASED.store(true, Ordering::SeqCst);
    let bugcheck = bench.machine.bugcheck().unwrap();
    assert_eq!(bugcheck.code, 0x113);
    let rule = "DxgkCbSetPowerComponentActive(0) at IRQL 2 during a transition of the component";
    assert!(bugcheck.reason.contains(rule), "{bugcheck}");
    process.exit();
}
