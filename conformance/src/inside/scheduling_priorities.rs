//! Levels of the realtime band, priorities within a process, classes of processes, and grace periods, from the thunk to what the
//! engine runs. Counted on a machine that moves step by step: in submissions, and in packets where it is about parts of them.

use std::sync::Arc;

use campanile_hw::packet::{Packet, Progress};
use campanile_hw::private::Placement;
use campanile_hw::queue::RingEntry;
use campanile_hw::registers::NODE_COMPUTE;
use dxgkrnl::{D3DKMTGetProcessSchedulingPriorityClass, D3DKMTSetProcessSchedulingPriorityClass, Process, Suspensions};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::D3DKMT_SCHEDULINGPRIORITYCLASS;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::scheduling::{
    FOCUS, GRACE, IDLE, NORMAL, REALTIME, TURN, finish, get, load, queue, set, set_in_process, step, stepped, work,
};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, Word};
use crate::rig::{RawQueue, Rig, View, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "Scheduling", behind "it steps the GPU and reads the scheduler's state";
    "Scheduling.RealtimeLevelsInOrder" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setcontextschedulingproperties":
        "Of queues in the realtime band those of a higher level finish first, whatever their priorities within the process."
        holds [UserModeSubmission 71]
        => levels_in_order;
    "Scheduling.HigherLevelTakesTheEngine" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setcontextschedulingproperties":
        "A realtime queue does not move while one of a higher level, of its own or of another process, has work that came later."
        holds [UserModeSubmission 71]
        => higher_level;
    "Scheduling.InProcessPrioritiesInOrder" needs UserModeSubmission on Boot::With(stepped), "d3dkmtsetcontextinprocessschedulingpriority":
        "Of queues of one process in one band, for user-mode and kernel-mode submission alike, those with a higher priority within the process finish first, from 7 down to -7."
        holds [UserModeSubmission 72]
        => in_process_order;
    "Scheduling.InProcessPriorityMeansNothingToOthers" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setcontextschedulingproperties":
        "Queues of two processes share in turn whatever their priorities within their processes."
        holds [UserModeSubmission 72]
        => in_process_elsewhere;
    "Scheduling.ProcessesShareByTheirQuantum" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setupprioritybands":
        "A process with one busy queue gets as much of a band as one with four, to within the process quantum."
        holds [UserModeSubmission 73]
        => processes_share;
    "Scheduling.GracePeriodEndsTheBuffer" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_setupprioritybands":
        "A queue that a higher band, a higher priority of its process or the end of its time slice takes the engine from goes on for the grace period that concerns it, and not one packet more; a realtime queue waits for none."
        holds [UserModeSubmission 74]
        => graces;
    "Scheduling.ChangeReachesQueuesThatDoNotRun" needs UserModeSubmission on Boot::With(one_doorbell), "dxgkddi_setcontextschedulingproperties":
        "Priorities that change while a queue is idle, waits for a fence, is suspended or has lost its doorbell count once it runs again."
        holds [UserModeSubmission 75]
        => changed_while_away;
    "Scheduling.ClassMovesTheContextsOfAProcess" needs UserModeSubmission on Boot::With(stepped), "d3dkmtsetprocessschedulingpriorityclass":
        "The class of a process moves all its contexts, those with work and those to come, below or above those of others."
        holds [UserModeSubmission 77]
        => class_moves;
    "Scheduling.ClassesAreCheckedAndReadBack" on Boot::Fresh, "d3dkmtsetprocessschedulingpriorityclass":
        "A class is read back as it was set; classes above normal without the right, values that are none and handles of no process are refused, and nothing changes."
        holds [UserModeSubmission 76]
        => class_checks;
}

const CLASS_NORMAL: D3DKMT_SCHEDULINGPRIORITYCLASS =
    D3DKMT_SCHEDULINGPRIORITYCLASS::D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL;
/// Handle that `GetCurrentProcess` returns.
const CURRENT: usize = usize::MAX;
/// Packets of a slice of the engine, which is over before anybody else is looked at.
const SLICE: u64 = 64;

fn one_doorbell() -> SystemOptions {
    let mut options = stepped();
    options.variant.doorbells = 1;
    options
}

fn handle(process: usize) -> HANDLE {
    std::ptr::without_provenance_mut(process)
}

fn set_class(process: usize, class: D3DKMT_SCHEDULINGPRIORITYCLASS) -> NTSTATUS {
    // SAFETY: takes any arguments.
    unsafe { D3DKMTSetProcessSchedulingPriorityClass(handle(process), class) }
}

fn class_of(process: usize) -> Result<D3DKMT_SCHEDULINGPRIORITYCLASS, NTSTATUS> {
    let mut class = D3DKMT_SCHEDULINGPRIORITYCLASS(-1);
    // SAFETY: takes any arguments.
    unsafe { D3DKMTGetProcessSchedulingPriorityClass(handle(process), &raw mut class) }.ok()?;
    Ok(class)
}

/// A process beside that of the case, with its own device.
struct Other {
    process: Arc<Process>,
    rig: Rig,
}

impl Other {
    fn new(case: &Case<'_>) -> Result<Self, Failure> {
        let process = Process::new(case.system.machine(), "other");
        process.grant_increase_priority();
        let attached = process.attach();
        let rig = Rig::open(case.system.luid())?;
        drop(attached);
        Ok(Self { process, rig })
    }

    /// A queue with this priority that has so much work.
    fn loaded(&self, priority: i32, count: u64) -> Result<RawQueue, Failure> {
        let _attached = self.process.attach();
        loaded(&self.rig, priority, count)
    }

    fn run<T>(&self, work: impl FnOnce(&Rig) -> T) -> T {
        let _attached = self.process.attach();
        work(&self.rig)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.process.exit();
    }
}

fn loaded(rig: &Rig, priority: i32, count: u64) -> Result<RawQueue, Failure> {
    let mut queue = queue(rig, priority, 128)?;
    load(rig, &mut queue, count)?;
    Ok(queue)
}

/// Moves the GPU until all are at `end`; which one finished first, second and so on.
fn order_of_ends(case: &Case<'_>, words: &[Word], end: u64) -> Result<Vec<usize>, Failure> {
    let mut order = Vec::new();
    let look = || {
        for (number, word) in words.iter().enumerate() {
            if word.load() == end && !order.contains(&number) {
                order.push(number);
            }
        }
    };
    step(case.system, "the end of all work", look, || words.iter().all(|word| word.load() == end))?;
    Ok(order)
}

fn levels_in_order(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 30;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let levels = [8, 31, 20, 9, 30];
    let mut words = Vec::new();
    for (level, own) in levels.into_iter().zip([7, -7, 0, 3, -3]) {
        let mut queue = queue(&rig, level, 64)?;
        granted(set_in_process(queue.context, own), "a priority within the process")?;
        load(&rig, &mut queue, WORK)?;
        words.push(queue.progress);
    }
    let order: Vec<i32> =
        order_of_ends(case, &words, WORK)?.into_iter().filter_map(|number| levels.get(number).copied()).collect();
    ensure_eq!(order, [31, 30, 20, 9, 8], "levels in the order of completion");
    Ok(())
}

fn higher_level(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 100;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let other = Other::new(case)?;
    for elsewhere in [false, true] {
        let low = loaded(&rig, REALTIME, WORK)?;
        step(case.system, "a beginning of the lower level", || (), || low.progress.load() > TURN)?;
        let high = if elsewhere { other.loaded(REALTIME + 1, WORK)? } else { loaded(&rig, REALTIME + 1, WORK)? };
        let stood_at = low.progress.load();
        ensure!(stood_at < WORK, "the lower level was done before the higher one came");
        finish(case.system, high.progress, WORK)?;
        // No grace in the realtime band.
        ensure_eq!(low.progress.load(), stood_at, "progress of the lower level");
        finish(case.system, low.progress, WORK)?;
    }
    Ok(())
}

fn in_process_order(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 20;
    let rig = case.rig()?;
    // Every other one is for kernel-mode submission. The order of creation is none.
    let priorities: Vec<i32> = (0..15).map(|number| number * 4 % 15 - 7).collect();
    let (mut words, mut user, mut kernel) = (Vec::new(), Vec::new(), Vec::new());
    for (number, priority) in priorities.iter().enumerate() {
        if number % 2 == 0 {
            let queue = queue(&rig, NORMAL, 64)?;
            granted(set_in_process(queue.context, *priority), "a priority within the process")?;
            words.push(queue.progress);
            user.push(queue);
        } else {
            let queue = rig.kernel_queue(NODE_COMPUTE)?;
            granted(set_in_process(queue.context, *priority), "a priority within the process")?;
            words.push(queue.progress);
            kernel.push(queue);
        }
    }
    for queue in &mut user {
        load(&rig, queue, WORK)?;
    }
    for queue in &mut kernel {
        for _ in 0..WORK {
            rig.kernel_submit(queue, &work())?;
        }
    }
    let order: Vec<i32> =
        order_of_ends(case, &words, WORK)?.into_iter().filter_map(|number| priorities.get(number).copied()).collect();
    let expected: Vec<i32> = (-7..=7).rev().collect();
    ensure_eq!(order, expected, "priorities in the order of completion");
    Ok(())
}

/// Greatest distance between the work of two processes until one of them has done so much.
fn distance(case: &Case<'_>, ours: &[Word], theirs: &[Word], end: u64) -> Result<u64, Failure> {
    let sum = |words: &[Word]| words.iter().map(|word| word.load()).sum::<u64>();
    let mut most = 0;
    let look = || most = most.max(sum(ours).abs_diff(sum(theirs)));
    step(case.system, "the end of one process's work", look, || sum(ours) >= end || sum(theirs) >= end)?;
    Ok(most)
}

fn in_process_elsewhere(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 100;
    let rig = case.rig()?;
    let other = Other::new(case)?;
    for (ours, theirs) in [(7, -7), (-7, 7), (0, 7)] {
        let (first, second) = (loaded(&rig, NORMAL, WORK)?, other.loaded(NORMAL, WORK)?);
        granted(set_in_process(first.context, ours), "a priority within the process")?;
        other.run(|_| granted(set_in_process(second.context, theirs), "a priority within the other process"))?;
        let most = distance(case, &[first.progress], &[second.progress], WORK)?;
        ensure!((1..=TURN + GRACE).contains(&most), "{ours} and {theirs} came {most} submissions apart");
        finish(case.system, first.progress, WORK)?;
        finish(case.system, second.progress, WORK)?;
    }
    Ok(())
}

fn processes_share(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 100;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let other = Other::new(case)?;
    // Process quanta of 5, 10, 10 and 20 ms.
    for (band, turn) in [(IDLE, TURN / 2), (NORMAL, TURN), (FOCUS, TURN), (REALTIME, 2 * TURN)] {
        let one = loaded(&rig, band, WORK)?;
        let four = (0..4).map(|_| other.loaded(band, WORK)).collect::<Result<Vec<_>, _>>()?;
        let theirs: Vec<Word> = four.iter().map(|queue| queue.progress).collect();
        let most = distance(case, &[one.progress], &theirs, WORK)?;
        ensure!((1..=turn + GRACE).contains(&most), "processes in band {band} came {most} submissions apart");
        let got: Vec<u64> = theirs.iter().map(|word| word.load()).collect();
        let apart = got.iter().max().zip(got.iter().min()).map_or(0, |(most, least)| most - least);
        ensure!(apart <= turn + GRACE, "queues of one process came {apart} submissions apart: {got:?}");
        finish(case.system, one.progress, WORK)?;
        theirs.iter().try_for_each(|word| finish(case.system, *word, WORK))?;
    }
    Ok(())
}

/// A long submission whose packets leave a trace each, to see how many ran.
struct Trail {
    view: View,
    address: u64,
}

impl Trail {
    const PACKETS: u64 = 300;
    /// Where the commands lie, behind a word for each packet.
    const COMMANDS: u64 = 4096;

    fn new(rig: &Rig) -> Result<Self, Failure> {
        let memory = rig.memory(0x4000, Placement::System)?;
        Ok(Self { address: memory.address, view: rig.view(memory)? })
    }

    /// The first submission of a queue.
    fn submit(&self, rig: &Rig, queue: &mut RawQueue) -> Result<(), Failure> {
        self.view.fill(0);
        let trace = (0..Self::PACKETS).map(|number| fill(self.address + 4 * number, 4, 1));
        let mut bytes = Vec::new();
        for packet in trace.chain([Packet::Progress(Progress { handle: 0, value: 1 })]) {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        self.view.write(Self::COMMANDS, &bytes);
        let (commands, size) = (self.address + Self::COMMANDS, bytes.len() as u32);
        queue.append_entry(RingEntry { commands, size, flags: 0, tag: 0, root: 0 });
        rig.ring(queue).map(drop)
    }

    fn ran(&self) -> u64 {
        let bytes = self.view.read(0, 4 * Self::PACKETS);
        bytes.chunks(4).filter(|word| word.first() == Some(&1)).count() as u64
    }
}

fn graces(case: &mut Case<'_>) -> Result<(), Failure> {
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let other = Other::new(case)?;
    let trail = Trail::new(&rig)?;
    // 1 ms at 100 us a packet; half of it for a higher priority of the process; none in the realtime band. Time slices of 10 ms.
    let (band, lower, turn) = (10, 5, 100);
    for (what, low, high, own, elsewhere, expected) in [
        ("a higher band", IDLE, NORMAL, 0, false, SLICE + band),
        ("a higher band of another process", NORMAL, FOCUS, 0, true, SLICE + band),
        ("the realtime band", FOCUS, REALTIME, 0, true, SLICE),
        ("a higher level", REALTIME, REALTIME + 1, 0, false, SLICE),
        ("a higher priority within the process", NORMAL, NORMAL, 1, false, SLICE + lower),
        ("the end of the time slice", NORMAL, NORMAL, 0, false, turn + band),
        ("the end of the time slice of the process", NORMAL, NORMAL, 7, true, turn + band),
    ] {
        let mut first = queue(&rig, low, 64)?;
        trail.submit(&rig, &mut first)?;
        step(case.system, "the first slice", || (), || trail.ran() != 0)?;
        ensure_eq!(trail.ran(), SLICE, "packets before there was a choice, {what}");
        let second = if elsewhere {
            let second = other.loaded(high, 1)?;
            other.run(|_| granted(set_in_process(second.context, own), "a priority within the other process"))?;
            second
        } else {
            let mut second = queue(&rig, high, 64)?;
            granted(set_in_process(second.context, own), "a priority within the process")?;
            load(&rig, &mut second, 1)?;
            second
        };
        finish(case.system, second.progress, 1)?;
        ensure_eq!(trail.ran(), expected, "packets before {what} got the engine");
        finish(case.system, first.progress, 1)?;
        ensure_eq!(trail.ran(), Trail::PACKETS, "packets in the end");
    }
    Ok(())
}

fn suspended(case: &Case<'_>, queue: &RawQueue) -> Result<(), Failure> {
    let text = |status| Failure::new(format!("suspending failed with {status}"));
    case.process.suspend_hw_context(queue.context).map_err(text)?;
    // The report comes on a thread of its own.
    wait_until("the report of a suspension", || {
        case.system.gpu().step();
        case.process.suspensions(queue.context).is_ok_and(|Suspensions { asked, answered }| asked == answered)
    })
}

fn changed_while_away(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 60;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    for (round, state) in (1..).zip(["idle", "waiting", "suspended", "without a doorbell"]) {
        let (mut changed, mut other) = (queue(&rig, FOCUS, 256)?, queue(&rig, NORMAL, 256)?);
        load(&rig, &mut changed, 1)?;
        finish(case.system, changed.progress, 1)?;
        match state {
            "waiting" => {
                changed.append(&[fence.wait(round)])?;
                rig.ring(&changed)?;
                while case.system.gpu().step() {}
            }
            "suspended" => suspended(case, &changed)?,
            "without a doorbell" => {
                load(&rig, &mut other, 1)?;
                finish(case.system, other.progress, 1)?;
                let retry = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
                ensure_eq!(changed.doorbell.state(), retry, "status of a doorbell that another queue took");
            }
            _ => {}
        }
        let before = changed.progress.load();
        granted(set(changed.context, IDLE), "lowering")?;
        ensure_eq!(get(changed.context), Ok(IDLE), "priority");
        load(&rig, &mut other, WORK)?;
        load(&rig, &mut changed, WORK)?;
        match state {
            "waiting" => granted(rig.signal(&[fence.handle], &[round]), "signalling")?,
            "suspended" => case
                .process
                .resume_hw_context(changed.context)
                .map_err(|status| Failure::new(format!("resuming failed with {status}")))?,
            _ => {}
        }
        finish(case.system, other.progress, other.written())?;
        ensure!(
            changed.progress.load() <= before + GRACE,
            "a queue that was lowered while {state} did {} submissions beside a higher one",
            changed.progress.load()
        );
        finish(case.system, changed.progress, changed.written())?;
    }
    Ok(())
}

fn class_moves(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORK: u64 = 60;
    case.process.grant_increase_priority();
    let rig = case.rig()?;
    let other = Other::new(case)?;
    let class = |class| granted(other.run(|_| set_class(CURRENT, D3DKMT_SCHEDULINGPRIORITYCLASS(class))), "a class");
    // The class of the other process, its context's priority, ours, and whether it goes before us.
    for (number, theirs, ours, first) in [
        (0, FOCUS, NORMAL, false),
        (1, NORMAL, NORMAL, false),
        (1, FOCUS, FOCUS, false),
        (3, NORMAL, NORMAL, true),
        (3, IDLE, IDLE, true),
        (4, IDLE, NORMAL, true),
        (5, NORMAL, 7, true),
        (5, 7, REALTIME, false),
        (0, REALTIME, FOCUS, true),
    ] {
        for early in [true, false] {
            class(if early { CLASS_NORMAL.0 } else { number })?;
            let (mine, its) = (loaded(&rig, ours, WORK)?, other.loaded(theirs, WORK)?);
            class(number)?;
            let (high, low) = if first { (&its, &mine) } else { (&mine, &its) };
            let most = WORK / 2;
            finish(case.system, high.progress, WORK)?;
            // The normal band has its share beside the focus band.
            let got = low.progress.load();
            ensure!(
                got < most,
                "class {number}, {theirs} beside {ours}: the lower one did {got} of {WORK} submissions"
            );
            finish(case.system, low.progress, WORK)?;
        }
    }
    // With its class back, the two share again.
    class(CLASS_NORMAL.0)?;
    let (mine, its) = (loaded(&rig, NORMAL, WORK)?, other.loaded(NORMAL, WORK)?);
    let most = distance(case, &[mine.progress], &[its.progress], WORK)?;
    ensure!(most <= TURN + GRACE, "after the class was taken back they came {most} submissions apart");
    Ok(())
}

fn class_checks(case: &mut Case<'_>) -> Result<(), Failure> {
    let _rig = case.rig()?;
    ensure_eq!(class_of(CURRENT), Ok(CLASS_NORMAL), "class of a new process");
    for class in [0, 1, 2] {
        let class = D3DKMT_SCHEDULINGPRIORITYCLASS(class);
        granted(set_class(CURRENT, class), "a class up to normal")?;
        ensure_eq!(class_of(CURRENT), Ok(class), "class");
    }
    for class in [3, 4, 5] {
        let status = set_class(CURRENT, D3DKMT_SCHEDULINGPRIORITYCLASS(class));
        refused(status, &[STATUS_PRIVILEGE_NOT_HELD], "a class above normal without the right")?;
    }
    for class in [-1, 6, i32::MIN, i32::MAX] {
        refused(set_class(CURRENT, D3DKMT_SCHEDULINGPRIORITYCLASS(class)), BAD_ARGUMENT, "a class that is none")?;
    }
    for process in [0, 4, CURRENT - 1] {
        refused(set_class(process, CLASS_NORMAL), BAD_HANDLE, "setting by a handle of no process")?;
        refused(class_of(process).err().unwrap_or(STATUS_SUCCESS), BAD_HANDLE, "asking by a handle of no process")?;
    }
    // SAFETY: takes any arguments.
    let status = unsafe { D3DKMTGetProcessSchedulingPriorityClass(handle(CURRENT), std::ptr::null_mut()) };
    refused(status, &[STATUS_INVALID_PARAMETER, STATUS_ACCESS_VIOLATION], "asking for the null pointer")?;
    ensure_eq!(class_of(CURRENT), Ok(CLASS_NORMAL), "class after all refusals");
    case.process.grant_increase_priority();
    for class in [3, 4, 5, 0] {
        let class = D3DKMT_SCHEDULINGPRIORITYCLASS(class);
        granted(set_class(CURRENT, class), "a class with the right")?;
        ensure_eq!(class_of(CURRENT), Ok(class), "class");
    }
    case.in_other_process(|_| {
        ensure_eq!(class_of(CURRENT), Ok(CLASS_NORMAL), "class of another process");
        Ok(())
    })
}
