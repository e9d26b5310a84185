//! What an engine says between the snapshot of its fence ids and the return of DxgkDdiResetEngine. [tdr-changes-in-windows-8]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::minimal::Mutant;
use crate::minimal::driver;
use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, Report};
use dxgkrnl::{Clock, MachineConfig, TdrOutcome, TdrSettings, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

type State = D3DKMT_DEVICEEXECUTION_STATE;
const ACTIVE: State = State::D3DKMT_DEVICEEXECUTION_ACTIVE;

/// The render packet on the hardware, which never ends.
static PACKET: AtomicU32 = AtomicU32::new(0);
/// DxgkDdiResetEngine was called, and may return.
static RESETTING: AtomicBool = AtomicBool::new(false);
static MAY_RETURN: AtomicBool = AtomicBool::new(false);

unsafe extern "win64" fn submit(context: HANDLE, args: *const DXGKARG_SUBMITCOMMANDVIRTUAL) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let packet = unsafe { &*args };
    if packet.Flags.Paging() {
        // SAFETY: as above.
        return unsafe { driver::submit_command_virtual(context, args) };
    }
    PACKET.store(packet.SubmissionFenceId, Ordering::SeqCst);
    STATUS_SUCCESS
}

unsafe extern "win64" fn preempt(_: HANDLE, _: *const DXGKARG_PREEMPTCOMMAND) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64" fn depends_on_itself(_: HANDLE, args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    args.DependentNodeOrdinalMask = 1 << args.NodeOrdinal;
    STATUS_SUCCESS
}

unsafe extern "win64" fn is_stuck(_: HANDLE, _: *mut DXGKARG_QUERYENGINESTATUS) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64" fn resets(_: HANDLE, args: *mut DXGKARG_RESETENGINE) -> NTSTATUS {
    RESETTING.store(true, Ordering::SeqCst);
    while !MAY_RETURN.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    // SAFETY: the system passes the structure.
    unsafe { (*args).LastAbortedFenceId = PACKET.load(Ordering::SeqCst) };
    STATUS_SUCCESS
}

fn fill(table: &mut DRIVER_INITIALIZATION_DATA) {
    (DRIVER.table)(table);
    table.DxgkDdiSubmitCommandVirtual = Some(submit);
    table.DxgkDdiPreemptCommand = Some(preempt);
    table.DxgkDdiQueryDependentEngineGroup = Some(depends_on_itself);
    table.DxgkDdiQueryEngineStatus = Some(is_stuck);
    table.DxgkDdiResetEngine = Some(resets);
}

/// DxgkDdiResetEngine returns when this is dropped, even where a test fails.
struct Hold;

impl Drop for Hold {
    fn drop(&mut self) {
        MAY_RETURN.store(true, Ordering::SeqCst);
    }
}

/// A packet that never ends.
fn hang(app: &App) {
    let _attached = app.process.attach();
    let args = D3DKMT_CREATECONTEXTVIRTUAL { hDevice: app.device, EngineAffinity: 1, ..Zeroed::zeroed() };
    let context = call(thunks().D3DKMTCreateContextVirtual, args).unwrap().hContext;
    let mut args = D3DKMT_SUBMITCOMMAND { BroadcastContextCount: 1, ..Zeroed::zeroed() };
    args.BroadcastContext[0] = context;
    (args.Commands, args.CommandLength) = (1 << 16, 64);
    call(thunks().D3DKMTSubmitCommand, args).unwrap();
    eventually("the packet", || PACKET.load(Ordering::SeqCst) != 0);
}

/// Raises interrupts until `report` and everything before it went through an interrupt and its DPC.
fn say(bench: &Bench, reports: impl IntoIterator<Item = Report>) {
    for report in reports {
        bench.world.report(&bench.bus, report);
    }
    for _ in 0..2 {
        let dpcs = bench.machine.counters(bench.luid).unwrap().dpc_notifications;
        // Says nothing: a report that leads to a look is one, whoever made it.
        bench.world.report(&bench.bus, Report::Idle);
        eventually("a DPC", || bench.machine.counters(bench.luid).unwrap().dpc_notifications > dpcs);
    }
}

#[test]
fn nothing_that_an_engine_says_is_heard_from_the_snapshot_until_its_reset_has_returned() {
    let bench = bench_with(
        Mutant { table: fill, ..DRIVER },
        MachineConfig { clock: Clock::manual(), ..MachineConfig::default() },
    );
    let (guilty, faulting, innocent) = (App::new(&bench), App::new(&bench), App::new(&bench));
    let (faulty, queue) = (faulting.queue(&bench), innocent.queue(&bench));
    faulting.connect(&faulty).unwrap();
    let [.., context] = bench.world.contexts.lock().unwrap()[..] else { panic!("there are contexts") };
    let (fence, event) = (innocent.fence(&bench, 0), event());
    innocent.wait(&[(fence.handle, 5)], false, Some(&event)).unwrap();
    let answered = || {
        let _attached = innocent.process.attach();
        innocent.process.suspensions(queue.context).unwrap().answered
    };
    let seen = || (faulting.state(), faulty.status(), is_signaled(&event), answered());
    hang(&guilty);
    std::thread::scope(|scope| {
        let recovery = scope.spawn(|| (0..3).for_each(|_| bench.machine.advance(TdrSettings::default().delay)));
        let hold = Hold;
        eventually("the reset of the engine", || RESETTING.load(Ordering::SeqCst) || recovery.is_finished());
        bench.world.ignore_suspend.store(true, Ordering::SeqCst);
        let asked = {
            let _attached = innocent.process.attach();
            innocent.process.suspend_hw_context(queue.context).unwrap();
            innocent.process.suspensions(queue.context).unwrap().asked
        };
        bench.world.ignore_suspend.store(false, Ordering::SeqCst);
        as_gpu(fence.user).store(5, Ordering::SeqCst);
        let before = seen();
        assert_eq!(before, (ACTIVE, CONNECTED, false, before.3));
        say(
            &bench,
            [
                Report::Fences(vec![fence.system]),
                Report::Scan,
                Report::ScanAll,
                Report::Suspended { context, fence: asked },
                Report::Fault { queue: faulty.system, address: 0x4000 },
                Report::Hung,
            ],
        );
        assert_eq!(seen(), before, "while the engine is being reset");
        drop(hold);
        recovery.join().unwrap();
        assert_eq!(answered(), asked, "the suspension is heard");
    });
    eventually("the signal is seen", || is_signaled(&event));
    eventually("the doorbell says so", || faulty.status() == ABORT);
    assert_eq!(faulting.state(), State::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    assert_eq!((guilty.state(), innocent.state()), (State::D3DKMT_DEVICEEXECUTION_HUNG, ACTIVE));
    let reports = bench.machine.tdr_reports(bench.luid);
    let outcomes: Vec<_> = reports.iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [TdrOutcome::EngineReset], "the hang that was reported is over");
    [guilty, faulting, innocent].iter().for_each(|app| app.process.exit());
    bench.end();
}
