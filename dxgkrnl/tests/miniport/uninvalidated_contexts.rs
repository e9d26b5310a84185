//! A reset of hardware queues after which no context is invalidated, and what is told of it.
//! [d3dkmddi: DXGKDDI_RESETHWENGINE, DXGKCB_INVALIDATEHWCONTEXT; debugger: 0x116]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::minimal::queue::open;
use crate::minimal::{Bench, Mutant, SOUND, driver};
use dxgkrnl::{Clock, MachineConfig, Rescue, TdrSettings};
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

/// The statics below belong to one test at a time.
static ONE: Mutex<()> = Mutex::new(());
/// The engine keeps its context until it is reset.
static HANGS: AtomicBool = AtomicBool::new(false);
/// The reset of the engine ends what it does.
static RESETS: AtomicBool = AtomicBool::new(false);
/// Calls of DxgkDdiResetHwEngine.
static RESET: AtomicUsize = AtomicUsize::new(0);

unsafe extern "win64" fn never_done(_: HANDLE, _: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS {
    HANGS.store(true, Ordering::Release);
    STATUS_SUCCESS
}

unsafe extern "win64" fn never_off(_: HANDLE, _: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    if HANGS.load(Ordering::Acquire) { STATUS_PENDING } else { STATUS_SUCCESS }
}

unsafe extern "win64" fn names_nothing(_: HANDLE, _: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    RESET.fetch_add(1, Ordering::AcqRel);
    if RESETS.load(Ordering::Acquire) {
        HANGS.store(false, Ordering::Release);
    }
    STATUS_SUCCESS
}

/// Names a context by a handle that nobody has.
unsafe extern "win64" fn names_another(context: HANDLE, args: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    let adapter = driver::adapter(context);
    let named = DXGKARGCB_INVALIDATEHWCONTEXT {
        hAdapter: adapter.handle,
        hHwContext: std::ptr::without_provenance_mut(0x7777),
        Flags: DXGK_INVALIDATEHWCONTEXTFLAGS::new(),
    };
    // SAFETY: the arguments live during the call.
    let status = unsafe { adapter.interface.DxgkCbInvalidateHwContext.unwrap()(&raw const named) };
    assert_eq!(status, STATUS_INVALID_PARAMETER);
    // SAFETY: the arguments are the system's.
    unsafe { names_nothing(context, args) }
}

/// A machine with a submission that never ends, and whose resets do this.
fn hangs(reset: PDXGKDDI_RESETHWENGINE, resets: bool) -> Bench {
    RESETS.store(resets, Ordering::Release);
    RESET.store(0, Ordering::Release);
    HANGS.store(false, Ordering::Release);
    static ENTRY: Mutex<Option<PDXGKDDI_RESETHWENGINE>> = Mutex::new(None);
    *ENTRY.lock().unwrap() = Some(reset);
    let table = |table: &mut DRIVER_INITIALIZATION_DATA| {
        table.DxgkDdiSubmitCommandToHwQueue = Some(never_done);
        table.DxgkDdiSuspendContext = Some(never_off);
        table.DxgkDdiResetHwEngine = *ENTRY.lock().unwrap();
    };
    let config = MachineConfig { ram: 64 << 20, clock: Clock::manual(), ..MachineConfig::default() };
    Bench::with_config(Mutant { table, ..SOUND }, config).unwrap()
}

/// Moves the clock on until DxgkDdiResetHwEngine was called: the queue is seen to stand, then its context is asked off the engine, then the engine is reset.
fn until_reset(bench: &Bench) {
    for _ in 0..8 {
        if RESET.load(Ordering::Acquire) == 0 {
            bench.machine.advance(TdrSettings::default().delay);
        }
    }
    assert_ne!(RESET.load(Ordering::Acquire), 0, "{:?}: {:?}", bench.machine.bugcheck(), bench.machine.debug_log());
}

/// "A DxgkDdiResetHwEngine implementation should call the DxgkCbInvalidateHwContext callback to inform the OS of all running contexts that were affected": a context
/// that did not leave the engine was running. [d3dkmddi: DXGKDDI_RESETHWENGINE]
#[test]
fn a_queue_that_stands_after_a_reset_that_invalidated_nothing_is_0x116_with_what_was_expected() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for resets in [true, false] {
        let bench = hangs(names_nothing, resets);
        let luid = bench.start().unwrap();
        let queue = open(&bench, luid).unwrap();
        queue.submit(9).unwrap();
        let delay = TdrSettings::default().delay;
        until_reset(&bench);
        bench.machine.advance(delay / 2);
        assert_eq!(bench.machine.bugcheck(), None, "one such reset is counted");
        assert!(bench.machine.take_rescues().contains(&(Rescue::FruitlessReset, 1)));
        let told = bench.machine.debug_log().join("\n");
        for part in [
            "DxgkDdiResetHwEngine of node 0 answered STATUS_SUCCESS",
            "DxgkCbInvalidateHwContext was called for no context",
            "progress fence has 0x0, and expected is 0x9",
            "[d3dkmddi: DXGKDDI_RESETHWENGINE]",
        ] {
            assert!(told.contains(part), "{part:?}: {told}");
        }
        let limit = TdrSettings::default().limit_count;
        for _ in 0..3 * limit {
            if bench.machine.bugcheck().is_none() {
                bench.machine.advance(delay);
            }
        }
        let bugcheck = bench.machine.bugcheck().expect("the queue never goes on");
        assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(STATUS_TIMEOUT.0 as u32)), "{bugcheck}");
        for part in ["DxgkDdiResetHwEngine", "of node 0", "progress fence has 0x0, and expected is 0x9"] {
            assert!(bugcheck.reason.contains(part), "{part:?}: {bugcheck}");
        }
        queue.process.terminate();
    }
}

#[test]
fn a_handle_that_names_no_hardware_context_is_told_with_the_rule() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let bench = hangs(names_another, true);
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    queue.submit(1).unwrap();
    until_reset(&bench);
    let told = bench.machine.debug_log().join("\n");
    for part in [
        "DxgkCbInvalidateHwContext answers STATUS_INVALID_PARAMETER",
        "hHwContext 0x7777 is no hardware context of the adapter",
        "[d3dkmddi: DXGKARGCB_INVALIDATEHWCONTEXT]",
    ] {
        assert!(told.contains(part), "{part:?}: {told}");
    }
    // Its work is never done.
    queue.process.terminate();
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}
