//! Drivers that break rules of the scheduler.

use std::sync::atomic::{AtomicUsize, Ordering};

use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{Clock, MachineConfig, TdrSettings};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

use crate::minimal::Mutant;
use crate::minimal::driver::adapter;
use crate::packet_engine::app::App;
use crate::packet_engine::{self, MACHINES, Machine, Submitted, completed, faulted};
use crate::user_mode::app::{self, bench_with, event, eventually};
use crate::user_mode::{DRIVER, Report, world};

type Outcome = Option<(Bugcheck, [u64; 3])>;

const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
const HUNG: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_HUNG;

fn code(status: NTSTATUS) -> u64 {
    u64::from(status.0 as u32)
}

/// A machine with a packet engine that nobody else uses.
pub(crate) fn machine() -> Machine {
    machine_with(|_| ())
}

/// As [`machine`], whose driver has other capabilities.
fn machine_with(caps: fn(&mut DXGK_DRIVERCAPS)) -> Machine {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    Machine::start_with(&MACHINES[NEXT.fetch_add(1, Ordering::Relaxed)], caps)
}

/// A packet on the hardware, and what the driver does about it: the parameters that it earns.
fn with_packet(breaks: bool, act: impl FnOnce(&Machine, &App, Submitted) -> [u64; 3]) -> Outcome {
    let machine = machine();
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let packet = machine.engine.rendered(1)[0];
    let earned = act(&machine, &app, packet);
    if breaks {
        let bugcheck = machine.bugcheck();
        app.process.exit();
        return Some((bugcheck, earned));
    }
    machine.end(&app.process);
    None
}

/// Moves time until the packet was recovered from, or the machine has stopped.
fn time_out(machine: &Machine) {
    (0..3).for_each(|_| machine.bench.machine.advance(TdrSettings::default().delay));
}

/// Waits until the device has lost its work.
fn until_lost(app: &App) {
    while app.state() == ACTIVE {
        std::thread::yield_now();
    }
}

pub(crate) fn invalid_fence(breaks: bool) -> Outcome {
    with_packet(breaks, |machine, _, packet| {
        machine.engine.complete(packet.fence + u32::from(breaks));
        [u64::from(packet.fence) + 1, u64::from(packet.fence) - 1, packet.fence.into()]
    })
}

pub(crate) fn refused_packet(breaks: bool) -> Outcome {
    with_packet(breaks, |machine, app, _| {
        machine.engine.answer(if breaks { STATUS_UNSUCCESSFUL } else { STATUS_SUCCESS });
        app.submit(app.context(), 2 << 16);
        let second = machine.engine.rendered(2)[1];
        if !breaks {
            machine.engine.complete(second.fence);
        }
        [code(STATUS_UNSUCCESSFUL), machine.engine.arguments() as u64, 0]
    })
}

pub(crate) fn uncancelled_packet(breaks: bool) -> Outcome {
    let machine = machine_with(|caps| caps.SchedulingCaps.set_CancelCommandAware(true));
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let packet = machine.engine.rendered(1)[0];
    machine.engine.let_go_of(0, packet.fence - 1);
    machine.engine.answer_cancellations(if breaks { STATUS_UNSUCCESSFUL } else { STATUS_SUCCESS });
    app.mark_as_error();
    let (cancelled, arguments) = machine.engine.cancelled();
    assert_eq!(cancelled.len(), 1);
    if breaks {
        let bugcheck = machine.bugcheck();
        app.process.exit();
        return Some((bugcheck, [code(STATUS_UNSUCCESSFUL), arguments as u64, 0]));
    }
    machine.end(&app.process);
    None
}

pub(crate) fn faulted_paging(breaks: bool) -> Outcome {
    with_packet(breaks, |machine, app, _| {
        machine.engine.hold_paging();
        packet_engine::page(app.device, &app.process);
        let paging = machine.engine.paged(1);
        let (first, last) = (paging[0], paging[paging.len() - 1]);
        machine.engine.release_paging();
        if breaks {
            machine.engine.faulted(first.fence, 0x4000);
        } else {
            machine.engine.complete(last.fence);
        }
        [first.fence.into(), 0x4000, first.node.into()]
    })
}

pub(crate) fn vertical_sync(breaks: bool) -> Outcome {
    with_packet(breaks, |machine, _, packet| {
        let sync = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_CRTC_VSYNC;
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        data.InterruptType = if breaks { sync } else { DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED };
        machine.engine.report(data);
        if !breaks {
            machine.engine.complete(packet.fence);
        }
        [sync.0 as u64, 0, 0]
    })
}

pub(crate) fn dependent_engines(breaks: bool) -> Outcome {
    with_packet(breaks, |machine, app, packet| {
        machine.engine.answer_dependents(if breaks { 0b10 } else { 0b1 });
        machine.engine.answer_resets(&[(STATUS_SUCCESS, packet.fence)]);
        time_out(machine);
        let expected: (&[u32], _) = if breaks { (&[], ACTIVE) } else { (&[0], HUNG) };
        assert_eq!(machine.engine.reset_nodes(), expected.0, "engines that were reset");
        if !breaks {
            assert_eq!(app.state(), expected.1);
        }
        [0b10, 0, 0]
    })
}

pub(crate) fn aborted_fence(breaks: bool) -> Outcome {
    with_packet(breaks, |machine, app, packet| {
        machine.engine.answer_resets(&[(STATUS_SUCCESS, packet.fence + u32::from(breaks))]);
        time_out(machine);
        assert_eq!(machine.engine.reset_nodes(), [0]);
        if !breaks {
            assert_eq!(app.state(), HUNG);
        }
        [u64::from(packet.fence) + 1, u64::from(packet.fence) - 1, packet.fence.into()]
    })
}

pub(crate) fn fatal_fault(breaks: bool) -> Outcome {
    const FATAL_HARDWARE_ERROR: i32 = 0x10;
    with_packet(breaks, |machine, app, packet| {
        machine.engine.report(faulted(packet.fence, 0x4000, if breaks { FATAL_HARDWARE_ERROR } else { 0 }));
        if !breaks {
            until_lost(app);
        }
        [FATAL_HARDWARE_ERROR as u64, 0x4000, 0]
    })
}

pub(crate) fn inconsistent_flags(breaks: bool) -> Outcome {
    const FENCE_INVALID: i32 = 0x2;
    const ENGINE_RESET_REQUIRED: i32 = 0x8;
    with_packet(breaks, |machine, app, packet| {
        machine.engine.answer_resets(&[(STATUS_SUCCESS, packet.fence)]);
        machine.engine.report(faulted(0, 0x4000, FENCE_INVALID | if breaks { 0 } else { ENGINE_RESET_REQUIRED }));
        if !breaks {
            until_lost(app);
        }
        [FENCE_INVALID as u64, 0, 0]
    })
}

unsafe extern "win64" fn reports_when_reset(context: HANDLE, _: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    world(context).report_from(adapter(context), Report::Idle);
    STATUS_SUCCESS
}

unsafe extern "win64" fn reports_when_resumed(context: HANDLE, _: *mut DXGKARG_RESUMEHWENGINE) -> NTSTATUS {
    world(context).report_from(adapter(context), Report::Idle);
    STATUS_SUCCESS
}

pub(crate) fn early_report(breaks: bool) -> Outcome {
    let early = Mutant {
        table: |table| {
            (DRIVER.table)(table);
            table.DxgkDdiResetHwEngine = Some(reports_when_reset);
        },
        ..DRIVER
    };
    let late = Mutant {
        table: |table| {
            (DRIVER.table)(table);
            table.DxgkDdiResumeHwEngine = Some(reports_when_resumed);
        },
        ..DRIVER
    };
    // The interrupt is raised in the reset; one that is served before the reset returns is in time, and proves nothing.
    for _ in 0..50 {
        let config = MachineConfig { clock: Clock::manual(), ..MachineConfig::default() };
        let bench = bench_with(if breaks { early } else { late }, config);
        let app = app::App::new(&bench);
        let _queue = app.queue(&bench);
        bench.world.report(&bench.bus, Report::Hung);
        let is_over = || bench.machine.bugcheck().is_some() || !bench.machine.tdr_reports(bench.luid).is_empty();
        eventually("the end of the recovery", is_over);
        let stopped = bench.machine.bugcheck();
        app.process.exit();
        if let Some(bugcheck) = stopped {
            let kind = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE;
            return Some((bugcheck, [0, kind.0 as u64, 0]));
        }
        bench.end();
        if !breaks {
            return None;
        }
    }
    panic!("no interrupt was served between reset and resumption");
}

pub(crate) fn unknown_suspension(breaks: bool) -> Outcome {
    let bench = app::bench();
    let app = app::App::new(&bench);
    let queue = app.queue(&bench);
    let context = *bench.world.contexts.lock().unwrap().last().expect("a context was created");
    bench.world.ignore_suspend.store(breaks, Ordering::Relaxed);
    bench.world.report(&bench.bus, Report::Fault { queue: queue.system, address: 0 });
    eventually("the context is being suspended", || bench.world.calls.lock().unwrap().contains(&"SuspendContext"));
    if breaks {
        bench.world.report(&bench.bus, Report::Suspended { context, fence: 99 });
        let bugcheck = bench.stop();
        app.process.exit();
        return Some((bugcheck, [context as u64, 99, 0]));
    }
    eventually("the doorbell says so", || queue.status() == app::ABORT);
    app.process.exit();
    bench.end();
    None
}

/// A call that goes through the update of values by this name.
fn update(breaks: bool, name: &'static str, act: impl FnOnce(&app::App, &[app::Fence; 2])) -> Outcome {
    let bench = app::bench();
    let app = app::App::new(&bench);
    let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
    if breaks {
        bench.world.failing.lock().unwrap().insert(name, STATUS_UNSUCCESSFUL);
    }
    act(&app, &fences);
    if breaks {
        let bugcheck = bench.stop();
        app.process.exit();
        return Some((bugcheck, [code(STATUS_UNSUCCESSFUL), 0, 0]));
    }
    let monitored = name == "UpdateMonitoredValues";
    assert!(bench.world.batches.lock().unwrap().iter().any(|batch| batch.monitored == monitored), "{name} was called");
    app.process.exit();
    bench.end();
    None
}

pub(crate) fn monitored_values(breaks: bool) -> Outcome {
    let event = event();
    update(breaks, "UpdateMonitoredValues", |app, fences| {
        let conditions = fences.each_ref().map(|fence| (fence.handle, 3));
        let _ = app.wait(&conditions, false, Some(&event));
    })
}

pub(crate) fn current_values(breaks: bool) -> Outcome {
    update(breaks, "UpdateCurrentValuesFromCpu", |app, fences| {
        let values = fences.each_ref().map(|fence| (fence.handle, 3));
        let _ = app.signal_all(&values);
    })
}

/// A report of a packet that goes to its end, so that what it says is known.
#[test]
fn ids_of_a_new_node_begin_behind_one_that_is_complete() {
    assert!(
        with_packet(false, |machine, _, packet| {
            assert!(packet.fence > 0);
            machine.engine.report(completed(0, packet.fence));
            [0; 3]
        })
        .is_none()
    );
}
