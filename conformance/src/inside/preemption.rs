//! Preemption of programs: where the compute node leaves a dispatch is what the adapter says, and what other processes have of it.

use campanile_device::Preemption;
use campanile_hw::packet::{self, Packet};
use campanile_hw::registers::{
    NODE_COMPUTE, PREEMPTION_BUFFER, PREEMPTION_DISPATCH, PREEMPTION_INSTRUCTION, PREEMPTION_WORKGROUP,
};
use dxgkrnl::{TdrFate, TdrOutcome};
use testbed::setup::SystemOptions;
use wddm_ddi::km::D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY as Granularity;
use wddm_ddi::kmt::{D3DKMT_WDDM_1_2_CAPS, KMTQUERYADAPTERINFOTYPE as Kind};

use super::hang::{ACTIVE, Guest, HUNG, by_hand, only_report, reports, state, time_out, until_ended, wait_watched};
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
    wait_until("turns of the program", || lab.word(0) > 100)?;
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
    wait_until("further turns of the program", || endless.word(0) > before + 1000)?;
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
    ensure_eq!((lost, end), (HUNG, (last, 0)), "the device of the program; its turns after the reset and its end");
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
            wait_watched(case.system, "further turns of the program", || endless.word(0) > before)?;
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

fn many_workgroups(case: &mut Case<'_>) -> Result<(), Failure> {
    others_run(case, COUNTING, [65_535, 65_535, 1])
}

fn endless_program(case: &mut Case<'_>) -> Result<(), Failure> {
    others_run(case, UNTIL_TOLD, [1, 1, 1])
}
