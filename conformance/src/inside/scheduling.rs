//! Queues of one node beside each other: priority bands, quanta, and changes of them. Counted on a machine that moves step by step.

use campanile_hw::packet::{Nop, Packet};
use campanile_hw::registers::NODE_COMPUTE;
use dxgkrnl::{
    D3DKMTGetContextInProcessSchedulingPriority, D3DKMTGetContextSchedulingPriority,
    D3DKMTSetContextInProcessSchedulingPriority, D3DKMTSetContextSchedulingPriority, SchedulingLogCounts,
};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, Kmt, WRONG_KIND, Word};
use crate::rig::{RawQueue, Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "Scheduling", needs HardwareScheduling, behind "it steps the GPU and reads the scheduler's state";
    "Scheduling.HigherBandsFinishFirst" needs UserModeSubmission on Boot::With(stepped), "user-mode-work-submission":
        "Of queues of all four bands that get the same work at once, each band finishes before the next lower one."
        holds [UserModeSubmission 2]
        => bands_in_order;
    "Scheduling.LowerBandGivesWay" needs UserModeSubmission on Boot::With(stepped), "user-mode-work-submission":
        "A busy queue of a lower band ends the command buffer that it is in, does not move while a queue of a higher band that came later has work, and goes on after that."
        holds [UserModeSubmission 2]
        => lower_band_gives_way;
    "Scheduling.EqualBandsShareByQuantum" needs UserModeSubmission on Boot::With(stepped), "user-mode-work-submission":
        "Two busy queues of one band never are further apart than the quantum of their band."
        holds [UserModeSubmission 70]
        => equal_bands;
    "Scheduling.NormalBandKeepsItsShare" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setupprioritybands":
        "Beside a busy focus band the normal band gets its target percentage of the engine; the idle band gets nothing."
        holds [UserModeSubmission 69]
        => normal_share;
    "Scheduling.RealtimeBandSharesWithNobody" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setupprioritybands":
        "Beside a busy realtime band no other band gets anything."
        holds [UserModeSubmission 69]
        => realtime_shares_nothing;
    "Scheduling.BothKindsOfSubmissionShareByBand" needs UserModeSubmission on Boot::With(stepped), "user-mode-work-submission":
        "Queues for user-mode and for kernel-mode submission run on one engine by band, whichever of them has the higher one."
        holds [UserModeSubmission 2]
        => both_kinds;
    "Scheduling.BothKindsOfSubmissionRunInTurn" needs UserModeSubmission on Boot::With(stepped), "user-mode-work-submission":
        "A queue for user-mode and one for kernel-mode submission in one band never are further apart than their quantum."
        holds [UserModeSubmission 2]
        => both_kinds_alternate;
    "Scheduling.ChangeReachesQueuedWork" needs UserModeSubmission on Boot::With(stepped), "d3dkmtsetcontextschedulingpriority":
        "A priority that is changed while work is queued and running counts from then on, and no work is lost or done twice."
        holds [UserModeSubmission 69]
        => change_under_load;
    "Scheduling.PriorityHoldsForQueuesToCome" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setcontextschedulingproperties":
        "Queues that a context gets after its priority was set, and rings that they get later, have the band of the context."
        holds [UserModeSubmission 69]
        => queues_to_come;
    "Scheduling.PrioritiesAreReadBack" on Boot::Fresh, "d3dkmtgetcontextschedulingpriority":
        "Contexts start with priority 0 among all and within their process, and each is read back as it was set last."
        => read_back;
    "Scheduling.RefusedPrioritiesChangeNothing" needs UserModeSubmission on Boot::Fresh, "d3dkmtsetcontextschedulingpriority":
        "Priorities out of range, handles of nothing, of other objects and of other processes are refused, and nothing changes."
        holds [UserModeSubmission 69]
        => refusals;
    "Scheduling.LogTellsEveryChange" needs UserModeSubmission on Boot::Fresh, "dxgkddi_setschedulinglogbuffer":
        "The scheduling log of a node has an entry when a context gets the node and one when it has no more work, however many there are; whenever a buffer is half full the driver is given another one, and no entry is lost."
        => log_tells_every_change;
    "Scheduling.LogOutlivesSleep" needs UserModeSubmission on Boot::Fresh, "dxgkddi_setschedulinglogbuffer":
        "After the device was in D3 the scheduling log of a node goes on."
        => log_outlives_sleep;
    "Scheduling.HighBandsTakeARight" on Boot::Fresh, "dxgkddi_setcontextschedulingproperties":
        "Priorities of the focus and the realtime band are refused without the right to increase priorities, and granted with it."
        holds [UserModeSubmission 76]
        => high_bands_right;
}

/// Packets of a submission, with its PROGRESS.
const PACKETS: u64 = 10;
/// Submissions in the time slice of a queue of the normal band: 10 ms, at 100 us a packet.
pub(super) const TURN: u64 = 10;
/// Percentage of the normal band beside the focus band.
const NORMAL_PERCENTAGE: u64 = 10;
/// Submissions that a queue may end when a higher one is to have the engine: the one it is in, within the grace period.
pub(super) const GRACE: u64 = 1;
/// Steps after which whatever was queued must be done.
const STEPS: u32 = 100_000;

/// Priorities of the four bands.
pub(super) const IDLE: i32 = -1;
pub(super) const NORMAL: i32 = 0;
pub(super) const FOCUS: i32 = 1;
pub(super) const REALTIME: i32 = 8;

pub(super) fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..SystemOptions::default() }
}

pub(super) fn set(context: D3DKMT_HANDLE, priority: i32) -> NTSTATUS {
    let mut arguments = D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: priority };
    Kmt::new().call(D3DKMTSetContextSchedulingPriority, &mut arguments)
}

pub(super) fn get(context: D3DKMT_HANDLE) -> Result<i32, NTSTATUS> {
    let mut arguments = D3DKMT_GETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: i32::MIN };
    Kmt::new().call(D3DKMTGetContextSchedulingPriority, &mut arguments).ok()?;
    Ok(arguments.Priority)
}

pub(super) fn set_in_process(context: D3DKMT_HANDLE, priority: i32) -> NTSTATUS {
    let mut arguments = D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext: context, Priority: priority };
    Kmt::new().call(D3DKMTSetContextInProcessSchedulingPriority, &mut arguments)
}

fn get_in_process(context: D3DKMT_HANDLE) -> Result<i32, NTSTATUS> {
    let mut arguments = D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext: context, Priority: i32::MIN };
    Kmt::new().call(D3DKMTGetContextInProcessSchedulingPriority, &mut arguments).ok()?;
    Ok(arguments.Priority)
}

/// The packets of a submission but for its PROGRESS.
pub(super) fn work() -> Vec<Packet> {
    vec![Packet::Nop(Nop {}); PACKETS as usize - 1]
}

/// A queue of a new context with this priority and space for `entries`.
pub(super) fn queue(rig: &Rig, priority: i32, entries: u32) -> Result<RawQueue, Failure> {
    let queue = rig.queue_with_ring(NODE_COMPUTE, entries)?;
    granted(set(queue.context, priority), "setting a priority")?;
    Ok(queue)
}

/// Submits so much, without a step of the GPU.
pub(super) fn load(rig: &Rig, queue: &mut RawQueue, count: u64) -> Result<(), Failure> {
    (0..count).try_for_each(|_| queue.append(&work()).map(drop))?;
    rig.ring(queue).map(drop)
}

/// Moves the GPU until `done`; `look` sees it after every step.
pub(super) fn step(
    system: &System,
    what: &str,
    mut look: impl FnMut(),
    mut done: impl FnMut() -> bool,
) -> Result<(), Failure> {
    for _ in 0..STEPS {
        if done() {
            return Ok(());
        }
        system.gpu().step();
        look();
    }
    Err(Failure::new(format!("{what} did not happen within {STEPS} steps")))
}

pub(super) fn finish(system: &System, progress: Word, value: u64) -> Result<(), Failure> {
    step(system, "the end of a queue's work", || (), || progress.load() >= value)?;
    ensure_eq!(progress.load(), value, "progress at the end");
    Ok(())
}

/// A queue that was preempted did no more since `stood_at` than its grace period allows.
pub(super) fn gave_way(progress: Word, stood_at: u64) -> Result<(), Failure> {
    let got = progress.load() - stood_at;
    ensure!(got <= GRACE, "the lower queue did {got} submissions beside a higher one, at most {GRACE} expected");
    Ok(())
}

/// Greatest distance between two queues until one of them is at `end`.
fn distance(system: &System, queues: [Word; 2], end: u64) -> Result<u64, Failure> {
    let [first, second] = queues;
    let start = [first.load(), second.load()];
    let mut most = 0;
    let look = || most = most.max((first.load() - start[0]).abs_diff(second.load() - start[1]));
    step(system, "the end of one of two queues", look, || first.load() == end || second.load() == end)?;
    Ok(most)
}

fn bands_in_order(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 100;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let priorities = [IDLE, FOCUS, NORMAL, REALTIME];
    let mut queues = priorities.iter().map(|band| queue(&rig, *band, 128)).collect::<Result<Vec<_>, _>>()?;
    for queue in &mut queues {
        load(&rig, queue, WORK)?;
    }
    let mut order = Vec::new();
    let look = || {
        for (queue, priority) in queues.iter().zip(priorities) {
            if queue.progress.load() == WORK && !order.contains(&priority) {
                order.push(priority);
            }
        }
    };
    step(case.system, "the end of all work", look, || queues.iter().all(|queue| queue.progress.load() == WORK))?;
    ensure_eq!(order, [REALTIME, FOCUS, NORMAL, IDLE], "order of completion");
    Ok(())
}

fn lower_band_gives_way(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 100;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    for (low, high) in [(IDLE, NORMAL), (IDLE, FOCUS), (NORMAL, REALTIME), (FOCUS, REALTIME)] {
        let (mut low, mut high) = (queue(&rig, low, 128)?, queue(&rig, high, 128)?);
        load(&rig, &mut low, WORK)?;
        step(case.system, "a beginning of the lower band", || (), || low.progress.load() > TURN)?;
        load(&rig, &mut high, WORK)?;
        let stood_at = low.progress.load();
        ensure!(stood_at < WORK, "the lower band was done before the higher one came");
        finish(case.system, high.progress, WORK)?;
        gave_way(low.progress, stood_at)?;
        finish(case.system, low.progress, WORK)?;
    }
    Ok(())
}

fn equal_bands(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 200;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    // Quanta of 5, 10, 10 and 20 ms.
    for (band, turn) in [(IDLE, TURN / 2), (NORMAL, TURN), (FOCUS, TURN), (REALTIME, 2 * TURN)] {
        let (mut first, mut second) = (queue(&rig, band, 256)?, queue(&rig, band, 256)?);
        load(&rig, &mut first, WORK)?;
        load(&rig, &mut second, WORK)?;
        let most = distance(case.system, [first.progress, second.progress], WORK)?;
        ensure_eq!(most, turn, "greatest distance of two queues with priority {band}");
        finish(case.system, first.progress, WORK)?;
        finish(case.system, second.progress, WORK)?;
    }
    Ok(())
}

fn normal_share(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 900;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let mut idle = queue(&rig, IDLE, 1024)?;
    let (mut normal, mut focus) = (queue(&rig, NORMAL, 1024)?, queue(&rig, FOCUS, 1024)?);
    for queue in [&mut idle, &mut normal, &mut focus] {
        load(&rig, queue, WORK)?;
    }
    finish(case.system, focus.progress, WORK)?;
    let got = normal.progress.load();
    let expected = WORK * NORMAL_PERCENTAGE / (100 - NORMAL_PERCENTAGE);
    ensure!(got.abs_diff(expected) <= TURN, "the normal band got {got} submissions beside {WORK}, {expected} expected");
    ensure_eq!(idle.progress.load(), 0, "progress of the idle band beside the focus band");
    finish(case.system, normal.progress, WORK)?;
    ensure_eq!(idle.progress.load(), 0, "progress of the idle band beside the normal band");
    finish(case.system, idle.progress, WORK)
}

fn realtime_shares_nothing(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 400;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let mut others = [IDLE, NORMAL, FOCUS].iter().map(|band| queue(&rig, *band, 512)).collect::<Result<Vec<_>, _>>()?;
    let mut realtime = queue(&rig, REALTIME, 512)?;
    for queue in others.iter_mut().chain([&mut realtime]) {
        load(&rig, queue, WORK)?;
    }
    finish(case.system, realtime.progress, WORK)?;
    let got: Vec<u64> = others.iter().map(|queue| queue.progress.load()).collect();
    ensure_eq!(got, [0, 0, 0], "progress of idle, normal and focus band beside the realtime band");
    others.iter().try_for_each(|queue| finish(case.system, queue.progress, WORK))
}

fn both_kinds(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 60;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    for (of_user, of_kernel) in [(NORMAL, IDLE), (IDLE, NORMAL), (FOCUS, IDLE), (IDLE, FOCUS)] {
        let mut user = queue(&rig, of_user, 128)?;
        let mut kernel = rig.kernel_queue(NODE_COMPUTE)?;
        granted(set(kernel.context, of_kernel), "setting the priority of the kernel's queue")?;
        for _ in 0..WORK {
            rig.kernel_submit(&mut kernel, &work())?;
        }
        load(&rig, &mut user, WORK)?;
        let (high, low) =
            if of_user > of_kernel { (user.progress, kernel.progress) } else { (kernel.progress, user.progress) };
        let stood_at = low.load();
        ensure!(stood_at < WORK, "the lower band was done before there was a choice");
        finish(case.system, high, WORK)?;
        gave_way(low, stood_at)?;
        finish(case.system, low, WORK)?;
    }
    Ok(())
}

fn both_kinds_alternate(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 100;
    let rig = case.rig()?;
    let (mut user, mut kernel) = (queue(&rig, NORMAL, 128)?, rig.kernel_queue(NODE_COMPUTE)?);
    load(&rig, &mut user, WORK)?;
    for _ in 0..WORK {
        rig.kernel_submit(&mut kernel, &work())?;
    }
    let most = distance(case.system, [user.progress, kernel.progress], WORK)?;
    ensure!((1..=TURN).contains(&most), "greatest distance of the two kinds is {most}, at most {TURN} expected");
    finish(case.system, user.progress, WORK)?;
    finish(case.system, kernel.progress, WORK)
}

fn change_under_load(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 200;
    let rig = case.rig()?;
    let before = case.system.counters();
    let (mut first, mut second) = (queue(&rig, NORMAL, 256)?, queue(&rig, NORMAL, 256)?);
    load(&rig, &mut first, WORK)?;
    load(&rig, &mut second, WORK)?;
    let both = || first.progress.load().min(second.progress.load());
    step(case.system, "a beginning of both", || (), || both() > TURN)?;
    // Each in turn is put below the other: whether it has the engine or waits for it, it stands.
    for (low, high) in [(&first, &second), (&second, &first), (&first, &second)] {
        granted(set(low.context, IDLE), "lowering")?;
        granted(set(high.context, NORMAL), "raising")?;
        let (stood_at, from) = (low.progress.load(), high.progress.load());
        step(case.system, "two time slices of the higher one", || (), || high.progress.load() > from + 2 * TURN)?;
        gave_way(low.progress, stood_at)?;
    }
    granted(set(first.context, NORMAL), "raising again")?;
    let most = distance(case.system, [first.progress, second.progress], WORK)?;
    ensure!(most <= 2 * TURN, "in one band again, they came {most} submissions apart");
    finish(case.system, first.progress, WORK)?;
    finish(case.system, second.progress, WORK)?;
    ensure_eq!(case.system.counters().since(&before).retired, 2 * WORK, "command buffers retired");
    Ok(())
}

fn queues_to_come(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 60;
    let rig = case.rig()?;
    let mut high = queue(&rig, NORMAL, 128)?;
    let text = |status| Failure::new(format!("D3DKMTCreateHwContext: {status}"));
    let context = rig.context(NODE_COMPUTE).map_err(text)?;
    granted(set(context, IDLE), "setting the priority of a context without queues")?;
    let mut low = rig.queue_on(context, 128)?;
    for round in 1..=2 {
        load(&rig, &mut low, WORK)?;
        load(&rig, &mut high, WORK)?;
        let stood_at = low.progress.load();
        finish(case.system, high.progress, round * WORK)?;
        ensure_eq!(low.progress.load(), stood_at, "progress of the idle band in round {round}");
        finish(case.system, low.progress, round * WORK)?;
        if round == 1 {
            granted(rig.resize(&mut low, 256)?, "a new ring")?;
        }
    }
    Ok(())
}

fn read_back(case: &mut Case<'_>) -> Result<(), Failure> {
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let text = |status| Failure::new(format!("D3DKMTCreateHwContext: {status}"));
    let (context, other) = (rig.context(NODE_COMPUTE).map_err(text)?, rig.context(NODE_COMPUTE).map_err(text)?);
    ensure_eq!((get(context), get_in_process(context)), (Ok(0), Ok(0)), "priorities of a new context");
    for priority in -7..=7 {
        granted(set(context, priority), "setting a priority")?;
        granted(set_in_process(context, -priority), "setting a priority within the process")?;
        ensure_eq!((get(context), get_in_process(context)), (Ok(priority), Ok(-priority)), "priorities");
    }
    ensure_eq!((get(other), get_in_process(other)), (Ok(0), Ok(0)), "priorities of another context");
    Ok(())
}

fn refusals(case: &mut Case<'_>) -> Result<(), Failure> {
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let queue = queue(&rig, 3, 128)?;
    granted(set_in_process(queue.context, -4), "setting a priority within the process")?;
    for wrong in [-8, -1000, 32, 10_000, i32::MIN, i32::MAX] {
        refused(set(queue.context, wrong), BAD_ARGUMENT, "a priority out of range")?;
        refused(set_in_process(queue.context, wrong), BAD_ARGUMENT, "a priority within the process out of range")?;
    }
    refused(set_in_process(queue.context, 8), BAD_ARGUMENT, "a priority within the process above 7")?;
    for (handle, statuses) in
        [(0, BAD_HANDLE), (u32::MAX, BAD_HANDLE), (queue.queue, WRONG_KIND), (rig.device, WRONG_KIND)]
    {
        refused(set(handle, 1), statuses, "setting by a wrong handle")?;
        refused(set_in_process(handle, 1), statuses, "setting within the process by a wrong handle")?;
        for answer in [get(handle), get_in_process(handle)] {
            refused(answer.err().unwrap_or(STATUS_SUCCESS), statuses, "asking by a wrong handle")?;
        }
    }
    let context = queue.context;
    case.in_other_process(|_| {
        refused(set(context, 1), BAD_HANDLE, "setting by another process")?;
        refused(get(context).err().unwrap_or(STATUS_SUCCESS), BAD_HANDLE, "asking by another process")
    })?;
    let kmt = Kmt::new();
    let faults = [STATUS_INVALID_PARAMETER, STATUS_ACCESS_VIOLATION];
    refused(kmt.call_null(D3DKMTSetContextSchedulingPriority), &faults, "setting from the null pointer")?;
    refused(kmt.call_null(D3DKMTGetContextSchedulingPriority), &faults, "asking for the null pointer")?;
    refused(kmt.call_null(D3DKMTSetContextInProcessSchedulingPriority), &faults, "setting from the null pointer")?;
    refused(kmt.call_null(D3DKMTGetContextInProcessSchedulingPriority), &faults, "asking for the null pointer")?;
    ensure_eq!((get(context), get_in_process(context)), (Ok(3), Ok(-4)), "priorities after all refusals");
    granted(rig.destroy_queue(&queue), "destroying the queue")?;
    refused(set(context, 1), BAD_HANDLE, "setting by the handle of a destroyed context")
}

fn high_bands_right(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    for priority in FOCUS..=31 {
        refused(set(context, priority), &[STATUS_PRIVILEGE_NOT_HELD], "a high band without the right")?;
    }
    ensure_eq!(get(context), Ok(0), "priority after the refusals");
    case.process.grant_increase_priority();
    for priority in FOCUS..=31 {
        granted(set(context, priority), "a high band with the right")?;
        ensure_eq!(get(context), Ok(priority), "priority");
    }
    refused(set(context, 32), BAD_ARGUMENT, "a level that does not exist")
}

/// Runs packets on a queue, one submission after the other, each when the engine has nothing left of the one before. Answers what the log has then.
fn run_apart(case: &Case<'_>, rig: &Rig, queue: &mut RawQueue, times: u64) -> Result<SchedulingLogCounts, Failure> {
    let counts = || case.system.machine().scheduling_log(case.system.luid(), NODE_COMPUTE);
    let before = counts().ok_or_else(|| Failure::new("the node has no scheduling log"))?;
    for done in 1..=times {
        rig.execute(queue, &[])?;
        let due = before.entries + 2 * done;
        wait_until("both entries of a submission", || counts().is_some_and(|counts| counts.entries >= due))?;
    }
    counts().ok_or_else(|| Failure::new("the node has no scheduling log any more"))
}

fn log_tells_every_change(case: &mut Case<'_>) -> Result<(), Failure> {
    const SUBMISSIONS: u64 = 3000;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let begun = run_apart(case, &rig, &mut queue, 1)?;
    let counts = run_apart(case, &rig, &mut queue, SUBMISSIONS)?;
    ensure_eq!((counts.entries - begun.entries, counts.lost), (2 * SUBMISSIONS, 0), "entries read, and lost");
    // The interrupt has been sent; a thread of the system answers it, whenever the host runs that.
    let renewals = || case.system.machine().scheduling_log(case.system.luid(), NODE_COMPUTE).map(|log| log.renewals);
    wait_until("another buffer", || renewals() > Some(begun.renewals))
}

fn log_outlives_sleep(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let before = run_apart(case, &rig, &mut queue, 3)?;
    super::power_device::power_down(case.system)?;
    let after = run_apart(case, &rig, &mut queue, 3)?;
    ensure_eq!(after.lost, 0, "entries lost");
    ensure!(after.entries >= before.entries + 6, "{} entries after {}", after.entries, before.entries);
    Ok(())
}
