//! Preemption of programs: where the compute node leaves a dispatch is what the adapter says, and what other processes have of it.

use std::time::Duration;

use campanile_device::Preemption;
use campanile_hw::event::FaultKind;
use campanile_hw::isa::{ProgramHeader, SAVE_SIZE_MAX};
use campanile_hw::packet::{self, DISPATCH_DONE, DISPATCH_FAULTED, Packet};
use campanile_hw::registers::{
    NODE_COMPUTE, PREEMPTION_BUFFER, PREEMPTION_DISPATCH, PREEMPTION_INSTRUCTION, PREEMPTION_WORKGROUP,
};
use dxgkrnl::{TdrFate, TdrOutcome, TdrSettings};
use testbed::debug::DebugInformation;
use testbed::setup::SystemOptions;
use wddm_ddi::km::{D3DDDI_CREATEHWQUEUEFLAGS, D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY as Granularity};
use wddm_ddi::kmt::{D3DKMT_WDDM_1_2_CAPS, KMTQUERYADAPTERINFOTYPE as Kind};
use wddm_ddi::status::STATUS_INVALID_PARAMETER;

use super::hang::{ACTIVE, Guest, HUNG, by_hand, only_report, reports, state, time_out, until_ended, wait_watched};
use super::power_device::power_down;
use crate::cases::adapter_info::get;
use crate::cases::compute_dispatch::UNTIL_TOLD;
use crate::cases::compute_lab::Lab;
use crate::rig::{Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Preemption", needs HardwareScheduling, behind "it reads a register, chooses where the GPU can be preempted, and moves the clock on";
    "Preemption.CapsSayWhatTheHardwareDoes" on Boot::Shared, "d3dkmdt_compute_preemption_granularity":
        "The compute preemption granularity that user mode is told is the one of the hardware."
        => caps_agree;
    "Preemption.EndlessBufferIsATimeout" needs UserModeSubmission on Boot::With(at_buffers), "tdr-changes-in-windows-8":
        "A program without an end on hardware that is preempted between command buffers is a timeout: its owner loses its device, and the queue of another process on the same engine loses nothing."
        holds [Tdr 11, Tdr 38]
        => endless_is_a_timeout;
    "Preemption.EndlessDispatchIsATimeout" needs UserModeSubmission on Boot::With(at_dispatches), "tdr-changes-in-windows-8":
        "The same on hardware that is preempted between dispatches."
        holds [Tdr 11, Tdr 38]
        => endless_is_a_timeout;
    "Preemption.EndlessWorkgroupIsATimeout" needs UserModeSubmission on Boot::With(at_workgroups), "tdr-changes-in-windows-8":
        "The same on hardware that is preempted between workgroups, if one of them never ends."
        holds [Tdr 11, Tdr 38]
        => endless_is_a_timeout;
    "Preemption.ManyWorkgroupsLetOthersRun" needs UserModeSubmission on Boot::With(at_workgroups), "tdr-changes-in-windows-8":
        "A dispatch of more workgroups than will ever end, on hardware that is preempted between them: another process works beside it, and however much time passes nobody is reset."
        holds [Tdr 10]
        => many_workgroups;
    "Preemption.EndlessProgramLetsOthersRun" needs UserModeSubmission on Boot::With(at_instructions), "tdr-changes-in-windows-8":
        "A program without an end on hardware that is preempted between instructions: another process works beside it, and however much time passes nobody is reset."
        holds [Tdr 10]
        => endless_program;
    "Preemption.TimeoutTellsWhereTheProgramStands" needs UserModeSubmission on Boot::With(at_dispatches), "dxgkddi_collectdbginfo":
        "What DxgkDdiCollectDbgInfo collects for the timeout of a program without an end says whose queue it is of, and program counter, instruction, source line and lanes of where it stands."
        => position_is_told;
    "Preemption.EndlessDispatchKeepsTheDeviceInD0" needs UserModeSubmission on Boot::With(at_dispatches), "user-mode-work-submission":
        "A device that is to leave D0 while a program without an end cannot leave its engine stays in D0, and nobody loses anything by that. The program is a timeout, for which its owner pays alone; then the device goes to D3, and another process goes on after it."
        holds [Tdr 14, UserModeSubmission 50]
        => stays_in_d0;
    "Preemption.StateOfAProgramSurvivesD3" needs UserModeSubmission on Boot::With(at_instructions), "user-mode-work-submission":
        "A program that is preempted between instructions because the device leaves D0 goes on after it with what it had in its registers: each of its lanes adds what it has counted, once."
        holds [UserModeSubmission 55]
        => survives_d3;
    "Preemption.StateThatDoesNotFitIsRefused" needs UserModeSubmission on Boot::With(at_instructions), "dxgkddi_createhwqueue":
        "A program whose state does not fit into the save area of its queue is a fault before its first instruction; a queue with a larger area runs it, and one for which more is asked than any program needs is not made."
        => fits_or_is_refused;
}

const STORE: &str = "arguments d0\nmov.i32 w0, VALUE\nstore.w1 [d0], w0\nexit";
/// Each of its workgroups counts, and ends.
const COUNTING: &str =
    ".workgroup 1, 1, 1\narguments d0\nmov.i32 w1, 1\natomic.i32.add.device.relaxed w2, [d0], w1\nexit";

fn at(preemption: Preemption) -> SystemOptions {
    let mut options = by_hand();
    options.variant.preemption = preemption;
    options
}

fn at_buffers() -> SystemOptions {
    at(Preemption::Buffer)
}

fn at_dispatches() -> SystemOptions {
    at(Preemption::Dispatch)
}

fn at_workgroups() -> SystemOptions {
    at(Preemption::Workgroup)
}

fn at_instructions() -> SystemOptions {
    at(Preemption::Instruction)
}

fn caps_agree(case: &mut Case<'_>) -> Result<(), Failure> {
    let told: D3DKMT_WDDM_1_2_CAPS = get(case, Kind::KMTQAITYPE_WDDM_1_2_CAPS)?;
    let expected = match case.caps().preemption() {
        PREEMPTION_BUFFER => Granularity::D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY,
        PREEMPTION_DISPATCH => Granularity::D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY,
        PREEMPTION_WORKGROUP => Granularity::D3DKMDT_COMPUTE_PREEMPTION_THREAD_GROUP_BOUNDARY,
        PREEMPTION_INSTRUCTION => Granularity::D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY,
        other => return Err(Failure::new(format!("CAPS.PREEMPTION is {other}"))),
    };
    ensure_eq!(told.PreemptionCaps.ComputePreemptionGranularity, expected, "compute preemption granularity");
    Ok(())
}

/// A device of another process, on which `text` runs in a grid of this size.
fn guest_runs(case: &Case<'_>, text: &str, grid: [u32; 3]) -> Result<(Guest, Lab), Failure> {
    let guest = Guest::new(case.system, "endless")?;
    let luid = case.system.luid();
    let mut lab = guest.inside(|_| Lab::on(Rig::open(luid)?))?;
    let dispatch = lab.load(text, grid)?;
    guest.inside(|_| lab.rig.submit(&mut lab.queue, &[Packet::Dispatch(dispatch)]))?;
    wait_until("iterations of the program", || lab.word(0) > 100)?;
    Ok((guest, lab))
}

fn endless_is_a_timeout(case: &mut Case<'_>) -> Result<(), Failure> {
    caps_agree(case)?;
    let mut innocent = Lab::new(case)?;
    innocent.run(&STORE.replace("VALUE", "5"), [1, 1, 1])?;
    let (guest, endless) = guest_runs(case, UNTIL_TOLD, [1, 1, 1])?;
    let dispatch = innocent.load(&STORE.replace("VALUE", "6"), [1, 1, 1])?;
    let value = innocent.rig.submit(&mut innocent.queue, &[Packet::Dispatch(dispatch)])?;
    let before = endless.word(0);
    wait_until("further iterations of the program", || endless.word(0) > before + 1000)?;
    ensure_eq!(innocent.word(0), 5, "what the other process stored while the node cannot be left");
    time_out(case.system);
    let report = only_report(case.system)?;
    ensure_eq!((report.node, report.outcome), (Some(NODE_COMPUTE), TdrOutcome::EngineReset), "recovery");
    let guilty: Vec<_> = report.with(TdrFate::Guilty).map(|line| line.handle).collect();
    ensure_eq!(guilty, [endless.queue.queue], "guilty in {report}");
    wait_watched(case.system, "the work of the other process", || innocent.queue.progress.load() >= value)?;
    ensure_eq!((innocent.word(0), state(&innocent.rig)?), (6, ACTIVE), "what the other process stored, its device");
    innocent.run(&STORE.replace("VALUE", "7"), [1, 1, 1])?;
    ensure_eq!(innocent.word(0), 7, "what it stored after the reset");
    let (last, lost) = (endless.word(0), guest.inside(|_| state(&endless.rig))?);
    innocent.run(&STORE.replace("VALUE", "8"), [1, 1, 1])?;
    let end = (endless.word(0), endless.word(2));
    guest.process.exit();
    ensure_eq!((lost, end), (HUNG, (last, 0)), "the device of the program; its iterations after the reset and its end");
    ensure_eq!(reports(case.system).len(), 1, "recoveries");
    Ok(())
}

fn others_run(case: &mut Case<'_>, text: &str, grid: [u32; 3]) -> Result<(), Failure> {
    caps_agree(case)?;
    let (guest, endless) = guest_runs(case, text, grid)?;
    let mut lab = Lab::new(case)?;
    let fence = lab.rig.fence(0)?;
    for round in 1..=30_u32 {
        let before = endless.word(0);
        let dispatch: packet::Dispatch = lab.load(&STORE.replace("VALUE", &round.to_string()), [1, 1, 1])?;
        lab.rig.execute(&mut lab.queue, &[Packet::Dispatch(dispatch), fence.signal(round.into())])?;
        ensure_eq!((lab.word(0), fence.value.load()), (round, round.into()), "what round {round} stored and signalled");
        if round % 10 == 0 {
            time_out(case.system);
            wait_watched(case.system, "further iterations of the program", || endless.word(0) > before)?;
        }
    }
    let found = (guest.inside(|_| state(&endless.rig))?, endless.queue.progress.load(), state(&lab.rig)?);
    // It waits for the program until TdrDelay is over.
    until_ended(case.system, || {
        guest.process.exit();
        Ok(())
    })?;
    ensure_eq!(found, (ACTIVE, 0, ACTIVE), "device and progress of the program, device of the other process");
    ensure_eq!(reports(case.system).len(), 0, "recoveries");
    lab.run(&STORE.replace("VALUE", "99"), [1, 1, 1])?;
    ensure_eq!(lab.word(0), 99, "what was stored after the end of the other process");
    Ok(())
}

/// Waits in its loop, in the lower 20 lanes of its second subgroup, until a word of memory says otherwise.
const AT_LINE_4: &str = ".workgroup 64, 1, 1
    .line 1
    arguments d0
    mov.i32 w2, 1
    system.local_index w3
    cmp.i32.ge_u p1, w3, 32
    cmp.i32.lt_u p2, w3, 52
    and.b1 p1, p1, p2
    if p1
        loop
            .line 4
            atomic.i32.add.device.relaxed w4, [d0], w2
            load.w1 w5, [d0 + 4]
            cmp.i32.ne p0, w5, 0
            break_if p0
        end_loop
    end_if
    .line 9
    exit";

fn position_is_told(case: &mut Case<'_>) -> Result<(), Failure> {
    let (guest, endless) = guest_runs(case, AT_LINE_4, [3, 1, 1])?;
    time_out(case.system);
    let report = only_report(case.system)?;
    let told = DebugInformation::decode(&report.debug_information).map_err(|bad| Failure::new(bad.to_string()))?;
    let program = endless.program.address;
    guest.process.exit();
    ensure_eq!(told.dispatches.len(), 1, "dispatches in {told}");
    for dispatch in told.dispatches {
        ensure!(told.queues.iter().any(|queue| queue.handle == dispatch.queue), "no such queue: {dispatch}");
        ensure_eq!((dispatch.node, dispatch.saved, dispatch.program), (NODE_COMPUTE, false, program), "{dispatch}");
        ensure_eq!((dispatch.workgroup, dispatch.subgroup, dispatch.line), (Some([0, 0, 0]), 1, 4), "{dispatch}");
        ensure_eq!((dispatch.active, dispatch.alive), (0x000f_ffff, u32::MAX), "lanes of {dispatch}");
        ensure!((8..13).contains(&dispatch.instruction), "not in the loop: {dispatch}");
        let texts = ["atomic.i32", "load.w1", "cmp.i32.ne", "break_if", "end_loop"];
        ensure!(texts.iter().any(|text| dispatch.text.starts_with(text)), "not of the loop: {dispatch}");
        ensure!(dispatch.instructions > 100 && dispatch.done == 0, "counts of {dispatch}");
    }
    Ok(())
}

fn stays_in_d0(case: &mut Case<'_>) -> Result<(), Failure> {
    caps_agree(case)?;
    let mut innocent = Lab::new(case)?;
    innocent.run(&STORE.replace("VALUE", "5"), [1, 1, 1])?;
    let (guest, endless) = guest_runs(case, UNTIL_TOLD, [1, 1, 1])?;
    let (machine, luid) = (case.system.machine(), case.system.luid());
    // Whoever puts the device to sleep waits by the machine's clock, and keeps everybody out who would look for timeouts.
    let slept = std::thread::scope(|scope| {
        let thread = scope.spawn(|| machine.power_down(luid));
        while !thread.is_finished() {
            machine.clock().advance(TdrSettings::default().delay / 8);
            std::thread::sleep(Duration::from_millis(1));
        }
        thread.join()
    });
    ensure!(matches!(slept, Ok(Err(_))), "the device went to D3 with a program on its engine");
    let stayed = (machine.is_powered_down(luid), reports(case.system).len(), state(&innocent.rig)?);
    ensure_eq!(stayed, (false, 0, ACTIVE), "D3, recoveries, device of the other process");
    let before = endless.word(0);
    wait_until("further iterations of the program", || endless.word(0) > before + 1000)?;
    time_out(case.system);
    let system = &*case.system;
    let report = only_report(system)?;
    ensure_eq!((report.node, report.outcome), (Some(NODE_COMPUTE), TdrOutcome::EngineReset), "recovery");
    let guilty: Vec<_> = report.with(TdrFate::Guilty).map(|line| line.handle).collect();
    ensure_eq!(guilty, [endless.queue.queue], "guilty in {report}");
    power_down(system)?;
    innocent.run(&STORE.replace("VALUE", "6"), [1, 1, 1])?;
    let found = (innocent.word(0), state(&innocent.rig)?, guest.inside(|_| state(&endless.rig))?);
    guest.process.exit();
    ensure_eq!(found, (6, ACTIVE, HUNG), "what the other process stored after D3, its device, that of the program");
    ensure_eq!(reports(system).len(), 1, "recoveries");
    Ok(())
}

/// Each lane says that it begins, counts to a large number in a register, and adds that to a word at the end, when the third word is 1.
const COUNTS: &str = ".workgroup 40, 1, 1
    arguments d0
    mov.i32 w2, 1
    mov.i32 w3, 0
    atomic.i32.add.device.relaxed w1, [d0 + 4], w2
    loop
        add.i32 w3, w3, w2
        cmp.i32.eq p0, w3, 1000000
        break_if p0
    end_loop
    loop
        load.w1 w4, [d0 + 8]
        cmp.i32.eq p0, w4, 1
        break_if p0
    end_loop
    atomic.i32.add.device.relaxed w1, [d0], w3
    exit";

fn survives_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let dispatch = lab.load(COUNTS, [2, 1, 1])?;
    let value = lab.rig.submit(&mut lab.queue, &[Packet::Dispatch(dispatch)])?;
    wait_until("the start of the program", || lab.word(1) >= 32)?;
    power_down(case.system)?;
    let slept = (lab.word(0), lab.report()?.state);
    case.system.machine().power_up(case.system.luid()).map_err(|error| Failure::new(error.to_string()))?;
    lab.set_word(2, 1);
    wait_until("the end of the program", || lab.queue.progress.load() >= value)?;
    let report = lab.report()?;
    ensure_eq!(slept, (0, 0), "sum and report while the device is in D3");
    ensure_eq!((lab.word(0), report.state), (2 * 40 * 1_000_000, DISPATCH_DONE), "sum and report");
    ensure_eq!((lab.word(1), report.lanes, report.atomics), (80, 80, 160), "lanes that began, as counted and as told");
    Ok(())
}

fn fits_or_is_refused(case: &mut Case<'_>) -> Result<(), Failure> {
    let text = |what: &'static str| move |status| Failure::new(format!("{what}: {status}"));
    let big = ".workgroup 1024, 1, 1\n.registers 200, 100, 1\narguments d0\nmov.i32 w0, 7\nstore.w1 [d0], w0\nexit";
    let mut lab = Lab::new(case)?;
    let needed = ProgramHeader { words: 200, doubles: 100, predicates: 1, workgroup_x: 1024, ..ProgramHeader::new() };
    let needed = needed.save_size();
    let context = lab.rig.context(NODE_COMPUTE).map_err(text("a context"))?;
    let flags = D3DDDI_CREATEHWQUEUEFLAGS::new();
    for size in [SAVE_SIZE_MAX + 1, u32::MAX] {
        let made = lab.rig.hw_queue_with_area(context, flags, size).err();
        ensure_eq!(made, Some(STATUS_INVALID_PARAMETER), "a queue with a save area of {size} bytes");
    }
    for mut bytes in [vec![1; 15], vec![0; 16], vec![0; 17]] {
        let made = lab.rig.hw_queue_of(context, flags, &mut bytes).err();
        ensure_eq!(made, Some(STATUS_INVALID_PARAMETER), "a queue with {} bytes of something else", bytes.len());
    }
    for (size, fits) in [(needed - 4096, false), (needed, true)] {
        let mut lab = Lab::new(case)?;
        lab.queue = lab.rig.queue_with_area(NODE_COMPUTE, size)?;
        let dispatch = lab.load(big, [1, 1, 1])?;
        if fits {
            ensure_eq!((lab.execute(dispatch)?.lanes, lab.word(0)), (1024, 7), "lanes, and what they stored");
            continue;
        }
        lab.rig.submit_doomed(&mut lab.queue, &[Packet::Dispatch(dispatch)])?;
        wait_watched(case.system, "the loss of the device", || state(&lab.rig).is_ok_and(|state| state != ACTIVE))?;
        let report = lab.report()?;
        ensure_eq!((report.state, report.fault), (DISPATCH_FAULTED, FaultKind::SaveArea as u16), "report");
        ensure_eq!(lab.word(0), 0, "what it stored");
    }
    lab.run(&STORE.replace("VALUE", "5"), [1, 1, 1])?;
    ensure_eq!(lab.word(0), 5, "what another device stored");
    Ok(())
}

fn many_workgroups(case: &mut Case<'_>) -> Result<(), Failure> {
    others_run(case, COUNTING, [65_535, 65_535, 1])
}

fn endless_program(case: &mut Case<'_>) -> Result<(), Failure> {
    others_run(case, UNTIL_TOLD, [1, 1, 1])
}
