//! DISPATCH: programs of several processes, and such that never end.

use std::thread;
use std::time::Duration;

use campanile_hw::event::FaultKind;
use campanile_hw::packet::{self, DISPATCH_DONE, DISPATCH_FAULTED, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COMPUTE;
use dxgkrnl::{Process, TdrFate, TdrOutcome, TdrSettings};

use super::hang::{ACTIVE, Guest, HUNG, by_hand, only_report, reports, state, time_out_packets};
use crate::cases::compute_dispatch::UNTIL_TOLD;
use crate::cases::compute_lab::{Lab, assembled};
use crate::cases::fault::{NOWHERE, wait_for_error};
use crate::rig::{Memory, Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Compute", needs HardwareScheduling, behind "it is several processes at a time, and moves the clock on";
    "Compute.ForeignProgramIsNotReachable" needs UserModeSubmission on Boot::Shared, "gpu-virtual-memory":
        "A dispatch of an address where another process has a program is a page fault with that address in its own process; the other's program runs as before."
        => foreign_program;
    "Compute.ProgramIsThatOfItsProcess" needs UserModeSubmission on Boot::Shared, "gpu-virtual-memory":
        "Two processes with different programs and data at the same addresses each run their own, in turn on one node."
        => own_program;
    "Compute.FaultLeavesOtherProcesses" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "While a program of one process runs, programs of another fault in different ways; the first runs on and ends as it should."
        holds [UserModeSubmission 65]
        => others_go_on;
    "Compute.EndlessProgramStarvesNobody" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A program without an end on a hardware queue has the node in turn with the queue of another process, whose dispatches and fences are done; it goes on itself."
        holds [UserModeSubmission 70]
        => starves_nobody;
    "Compute.LongProgramMissedNoWakeUp" needs UserModeSubmission on Boot::With(by_hand), "user-mode-work-submission":
        "A program that runs longer than TdrDelay is suspended, leaves its engine and is resumed; the system does not take its end right after that for a wake-up that the engine had missed."
        holds [UserModeSubmission 70]
        => long_program;
    "Compute.EndlessProgramEndsWithItsProcess" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A process that ends while a program without an end runs on its hardware queue takes the program off the node; nobody is reset for it."
        holds [UserModeSubmission 43]
        => ends_with_process;
    "Compute.EndlessPacketIsATimeout" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A dispatch without an end in a packet is found hung: packets are preempted between command buffers only, whatever the GPU can do in the queues that it schedules. Its engine is reset, its device is lost, and another process computes on."
        holds [Tdr 25]
        => endless_packet;
}

const STORE: &str = "arguments d0\nmov.i32 w0, VALUE\nstore.w1 [d0], w0\nexit";

/// Memory at a chosen address, for programs and for data.
fn memory_at(rig: &Rig, address: u64) -> Result<Memory, Failure> {
    let handle = rig.create(4096, Placement::SystemUncached);
    let handle = handle.map_err(|status| Failure::new(format!("create: {status}")))?;
    rig.make_resident(handle)?;
    let mut request = rig.map_request(handle, 4096);
    request.BaseAddress = address;
    request.Protection = request.Protection.with_Execute(true);
    Ok(Memory { handle, address: rig.map(request)?, size: 4096 })
}

fn foreign_program(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let bytes = assembled(&STORE.replace("VALUE", "1"))?;
    let memory = memory_at(&lab.rig, NOWHERE)?;
    lab.rig.view(memory)?.write(0, &bytes);
    let dispatch = packet::Dispatch { program: memory.address, ..lab.load_bytes(&bytes, [1, 1, 1]) };
    lab.execute(dispatch)?;
    case.in_other_process(|system| {
        let mut other = Lab::on(Rig::open(system.luid())?)?;
        let dispatch = packet::Dispatch { program: memory.address, ..other.load_bytes(&bytes, [1, 1, 1]) };
        other.rig.submit_doomed(&mut other.queue, &[Packet::Dispatch(dispatch)])?;
        wait_for_error(other.rig.kmt, other.rig.device)?;
        let (report, told) = (other.report()?, other.rig.kmt.page_fault_state(other.rig.device)?);
        ensure_eq!((report.state, report.fault), (DISPATCH_FAULTED, FaultKind::PageFault as u16), "report");
        ensure_eq!((report.address, told.FaultedVirtualAddress), (NOWHERE, NOWHERE), "address of the fault");
        ensure_eq!(other.word(0), 0, "what the foreign program would have stored");
        Ok(())
    })?;
    lab.set_word(0, 0);
    lab.execute(dispatch)?;
    ensure_eq!((lab.word(0), state(&lab.rig)?), (1, ACTIVE), "what the program of this process stored, its state");
    Ok(())
}

/// A device that has program and data at the same addresses in every process.
fn at_common_places(rig: Rig, value: u32) -> Result<(Lab, packet::Dispatch, Memory), Failure> {
    let lab = Lab::on(rig)?;
    let bytes = assembled(&STORE.replace("VALUE", &value.to_string()))?;
    let (program, data) = (memory_at(&lab.rig, NOWHERE)?, memory_at(&lab.rig, NOWHERE + 0x1_0000)?);
    lab.rig.view(program)?.write(0, &bytes);
    lab.rig.view(data)?.fill(0);
    let (program, arguments) = (program.address, data.address);
    let dispatch = packet::Dispatch { program, arguments, report: 0, ..lab.load_bytes(&bytes, [1, 1, 1]) };
    Ok((lab, dispatch, data))
}

fn own_program(case: &mut Case<'_>) -> Result<(), Failure> {
    let guest = Guest::new(case.system, "other")?;
    let (mut here, dispatch, data) = at_common_places(case.rig()?, 11)?;
    let luid = case.system.luid();
    let (mut there, same, far) = guest.inside(|_| at_common_places(Rig::open(luid)?, 22))?;
    ensure_eq!((dispatch.program, dispatch.arguments), (same.program, same.arguments), "addresses of both");
    for _ in 0..20 {
        here.rig.submit(&mut here.queue, &[Packet::Dispatch(dispatch)])?;
        guest.inside(|_| there.rig.submit(&mut there.queue, &[Packet::Dispatch(same)]))?;
    }
    wait_until("both", || here.queue.progress.load() >= 20 && there.queue.progress.load() >= 20)?;
    let word = |lab: &Lab, memory| -> Result<_, Failure> { Ok(lab.rig.view(memory)?.read(0, 4)) };
    ensure_eq!(word(&here, data)?, 11_u32.to_le_bytes(), "what the program of this process stored");
    let found = guest.inside(|_| word(&there, far))?;
    guest.process.exit();
    ensure_eq!(found, 22_u32.to_le_bytes(), "what that of the other process stored");
    Ok(())
}

fn others_go_on(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_preemption_between_instructions()?;
    let guest = Guest::new(case.system, "innocent")?;
    let luid = case.system.luid();
    let mut innocent = guest.inside(|_| Lab::on(Rig::open(luid)?))?;
    let dispatch = innocent.load(UNTIL_TOLD, [1, 1, 1])?;
    let value = guest.inside(|_| innocent.rig.submit(&mut innocent.queue, &[Packet::Dispatch(dispatch)]))?;
    wait_until("iterations of the program", || innocent.word(0) > 100)?;
    for access in ["store.w1 [d1], w0", "load.w1 w0, [d1]", "atomic.i32.add.device.relaxed w0, [d1 + 1], w0"] {
        let mut guilty = Lab::new(case)?;
        guilty.set_double(0, NOWHERE);
        let text = format!("arguments d0\nload.d1 d1, [d0]\nmov.i32 w0, 1\n{access}\nexit");
        let dispatch = guilty.load(&text, [1, 1, 1])?;
        guilty.rig.submit_doomed(&mut guilty.queue, &[Packet::Dispatch(dispatch)])?;
        wait_for_error(guilty.rig.kmt, guilty.rig.device)?;
        let before = innocent.word(0);
        wait_until("further iterations of the other process", || innocent.word(0) != before)?;
        ensure_eq!(guest.inside(state)?, ACTIVE, "state of the other process's device");
    }
    innocent.set_word(1, 1);
    wait_until("the end of the program", || innocent.queue.progress.load() >= value)?;
    let end = (innocent.word(2), innocent.report()?.state, guest.inside(|_| state(&innocent.rig))?);
    guest.process.exit();
    ensure_eq!(end, (1, DISPATCH_DONE, ACTIVE), "what the program stored, its report, its device");
    Ok(())
}

fn starves_nobody(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_preemption_between_instructions()?;
    let guest = Guest::new(case.system, "endless")?;
    let luid = case.system.luid();
    let mut endless = guest.inside(|_| Lab::on(Rig::open(luid)?))?;
    let dispatch = endless.load(UNTIL_TOLD, [1, 1, 1])?;
    guest.inside(|_| endless.rig.submit(&mut endless.queue, &[Packet::Dispatch(dispatch)]))?;
    wait_until("iterations of the endless program", || endless.word(0) > 100)?;
    let mut lab = Lab::new(case)?;
    let fence = lab.rig.fence(0)?;
    for round in 1..=100_u32 {
        let before = endless.word(0);
        let dispatch = lab.load(&STORE.replace("VALUE", &round.to_string()), [1, 1, 1])?;
        lab.rig.execute(&mut lab.queue, &[Packet::Dispatch(dispatch), fence.signal(round.into())])?;
        ensure_eq!((lab.word(0), fence.value.load()), (round, round.into()), "what round {round} stored and signalled");
        if round % 20 == 0 {
            wait_until("further iterations of the endless program", || endless.word(0) != before)?;
        }
    }
    let (stands, report) = (endless.queue.progress.load(), endless.report()?.state);
    endless.set_word(1, 1);
    wait_until("the end of the program", || endless.queue.progress.load() == 1)?;
    guest.process.exit();
    ensure_eq!((stands, report), (0, 0), "progress and report of the endless program meanwhile");
    Ok(())
}

fn long_program(case: &mut Case<'_>) -> Result<(), Failure> {
    /// Longer than the system, by the clock of the host, lets a queue stand before it counts what makes it go on.
    const LONG: Duration = Duration::from_millis(1100);
    /// The system looks for 5 ms before it suspends the context, and for 5 ms after it has resumed it.
    const RIGHT_AFTER: Duration = Duration::from_millis(7);
    case.needs_preemption_between_instructions()?;
    let mut lab = Lab::new(case)?;
    let dispatch = lab.load(UNTIL_TOLD, [1, 1, 1])?;
    let value = lab.rig.submit(&mut lab.queue, &[Packet::Dispatch(dispatch)])?;
    wait_until("iterations of the program", || lab.word(0) > 100)?;
    let machine = case.system.machine();
    machine.advance(Duration::ZERO);
    thread::sleep(LONG);
    thread::scope(|scope| {
        scope.spawn(|| machine.advance(TdrSettings::default().delay));
        thread::sleep(RIGHT_AFTER);
        lab.set_word(1, 1);
    });
    wait_until("the end of the program", || lab.queue.progress.load() >= value)?;
    let end = (lab.report()?.state, reports(case.system).len(), state(&lab.rig)?);
    ensure_eq!(end, (DISPATCH_DONE, 0, ACTIVE), "report of the program, recoveries, state of its device");
    Ok(())
}

fn ends_with_process(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_preemption_between_instructions()?;
    let luid = case.system.luid();
    let before = reports(case.system).len();
    // The first waits until no more work of the process is to be expected, the second for nothing.
    for end in [Process::exit, Process::terminate] {
        let guest = Guest::new(case.system, "endless")?;
        guest.inside(|_| {
            let mut endless = Lab::on(Rig::open(luid)?)?;
            let dispatch = endless.load(UNTIL_TOLD, [1, 1, 1])?;
            endless.rig.submit(&mut endless.queue, &[Packet::Dispatch(dispatch)])?;
            wait_until("iterations of the endless program", || endless.word(0) > 100)
        })?;
        end(&guest.process);
        let mut lab = Lab::new(case)?;
        lab.run(&STORE.replace("VALUE", "5"), [1, 1, 1])?;
        ensure_eq!((lab.word(0), reports(case.system).len()), (5, before), "what another process stored, resets");
    }
    Ok(())
}

fn endless_packet(case: &mut Case<'_>) -> Result<(), Failure> {
    let guest = Guest::new(case.system, "innocent")?;
    let luid = case.system.luid();
    let mut innocent = guest.inside(|_| Lab::on(Rig::open(luid)?))?;
    let lab = Lab::new(case)?;
    let mut context = lab.rig.packet_queue(NODE_COMPUTE)?;
    let dispatch = lab.load(UNTIL_TOLD, [1, 1, 1])?;
    lab.rig.packet_submit(&mut context, &[Packet::Dispatch(dispatch)])?;
    wait_until("iterations of the program", || lab.word(0) > 100)?;
    time_out_packets(case.system);
    let report = only_report(case.system)?;
    ensure_eq!((report.node, report.outcome), (Some(NODE_COMPUTE), TdrOutcome::EngineReset), "recovery");
    let guilty: Vec<_> = report.with(TdrFate::Guilty).map(|line| line.handle).collect();
    ensure_eq!(guilty, [context.context], "guilty in {report}");
    ensure_eq!(state(&lab.rig)?, HUNG, "state of its device");
    let last = lab.word(0);
    guest.inside(|_| innocent.run(&STORE.replace("VALUE", "6"), [1, 1, 1]))?;
    let found = (innocent.word(0), guest.inside(|_| state(&innocent.rig))?);
    guest.process.exit();
    ensure_eq!(found, (6, ACTIVE), "what the other process stored, its device");
    ensure_eq!((lab.word(0), lab.word(2)), (last, 0), "iterations after the reset, and the end of the program");
    Ok(())
}
