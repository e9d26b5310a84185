//! DISPATCH: grids, reports, and the order of dispatches among themselves and with other packets.
//!
//! The packet and the report are the hardware's own: where a case names no other page, their chapters of the hardware manual are the requirement.

use campanile_hw::packet::{self, DISPATCH_DONE, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use super::compute_lab::{Lab, assembled};
use crate::rig::{copy, wait_until};
use crate::{Boot, Case, Failure, granted};

cases! { thunks "Compute", needs HardwareScheduling;
    "Compute.GridComesFromMemory" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A dispatch with an indirect grid runs as many workgroups as memory says when it begins, also when the dispatch before it wrote that."
        => indirect;
    "Compute.EmptyGridRunsNothing" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A dispatch whose grid is zero in some dimension, in the packet or in memory, ends without running a lane."
        => empty_grid;
    "Compute.ReportCountsWhatWasDone" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "The report of a dispatch has the exact numbers of lanes, instructions of subgroups, loads, stores and atomic operations, however often it was interrupted."
        => counters;
    "Compute.ReportHasTheTimes" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "The times of the report lie between those of TIMESTAMP packets before and behind the dispatch, the end not before the beginning."
        => times;
    "Compute.DispatchesRunInOrder" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A dispatch sees everything that the dispatches before it in its queue stored, in one submission and in several."
        => in_order;
    "Compute.CopySeesTheResults" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A COPY behind a dispatch moves what the dispatch stored, and a dispatch behind a COPY loads what that moved."
        => copies;
    "Compute.FenceComesBehindTheDispatch" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A fence that is signalled behind a dispatch has its value when all workgroups have ended, for the processor and for a queue that waits for it, and not before."
        holds [NativeFence 5]
        => fence_behind;
    "Compute.ProgramIsCopiedBeforeItRuns" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A program that overwrites its own instructions runs on as it was; the next dispatch runs what is in memory then."
        => copied_whole;
    "Compute.PacketContextsDispatch" needs UserModeSubmission on Boot::Shared, "dxgkarg_submitcommandvirtual":
        "Dispatches in contexts of packets compute as those of hardware queues do, and more than one slice of them is one packet."
        => packet_context;
}

/// Each lane adds 1 to the word of its place.
const COUNTING: &str = ".workgroup 32, 1, 1
    arguments d0
    system.global_id_x w0
    index d1, d0, w0, 4
    load.w1 w1, [d1]
    add.i32 w1, w1, 1
    store.w1 [d1], w1
    exit";

/// Counts iterations of a loop in word 0 of the data until word 1 is set; then sets word 2.
pub const UNTIL_TOLD: &str = ".workgroup 1, 1, 1
    arguments d0
    mov.i32 w1, 1
    loop
        atomic.i32.add.device.relaxed w2, [d0], w1
        atomic.i32.load.system.acquire w3, [d0 + 4]
        cmp.i32.ne p0, w3, 0
        break_if p0
    end_loop
    store.w1 [d0 + 8], w1
    exit";

fn indirect(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let dispatch = packet::Dispatch { indirect: lab.address(1000), ..lab.load(COUNTING, [0; 3])? };
    for groups in [1, 5] {
        (0..3).for_each(|index| lab.set_word(1000 + index, 1));
        lab.set_word(1000, groups);
        let report = lab.execute(dispatch)?;
        ensure_eq!(report.lanes, u64::from(32 * groups), "lanes of {groups} workgroups");
    }
    ensure_eq!((lab.word(31), lab.word(32), lab.word(159), lab.word(160)), (2, 1, 1, 0), "how often places were run");
    // The program of the dispatch before it writes the numbers.
    let writes =
        assembled("arguments d0\nmov.i32 w0, 3\nmov.i32 w1, 2\nmov.i32 w2, 1\nstore.w3 [d0 + 4000], w0\nexit")?;
    let before = packet::Dispatch { report: 0, ..lab.load_at(4096, &writes, [1, 1, 1]) };
    lab.rig.execute(&mut lab.queue, &[Packet::Dispatch(before), Packet::Dispatch(dispatch)])?;
    ensure_eq!(lab.report()?.lanes, 32 * 3 * 2, "lanes of a grid that a dispatch wrote");
    Ok(())
}

fn empty_grid(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    for grid in [[0, 1, 1], [5, 0, 1], [65535, 65535, 0], [0, 0, 0]] {
        let dispatch = lab.load(COUNTING, grid)?;
        let report = lab.execute(dispatch)?;
        ensure_eq!((report.lanes, report.instructions), (0, 0), "lanes and instructions of {grid:?}");
        (0u64..).zip(grid).for_each(|(index, size)| lab.set_word(1000 + index, size));
        let dispatch = packet::Dispatch { indirect: lab.address(1000), ..lab.load(COUNTING, [0; 3])? };
        let report = lab.execute(dispatch)?;
        ensure_eq!((report.lanes, report.instructions), (0, 0), "lanes and instructions of {grid:?} in memory");
    }
    ensure_eq!(lab.words(0, 64), [0; 64], "what no lane wrote");
    Ok(())
}

fn counters(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    // Five instructions, ten iterations of six, three to leave the loop, and two behind it.
    let text = ".workgroup 40, 1, 1
        arguments d0
        system.global_id_x w0
        index d1, d0, w0, 4
        mov.i32 w1, 0
        loop
            cmp.i32.ge_u p0, w1, 10
            break_if p0
            load.w1 w2, [d1]
            add.i32 w1, w1, 1
            store.w1 [d1], w1
        end_loop
        atomic.i32.add.device.relaxed w2, [d1], w1
        exit";
    // Also enough of it for many slices.
    for groups in [1_u64, 3, 50] {
        let report = lab.run(text, [groups as u32, 1, 1])?;
        let (lanes, subgroups) = (40 * groups, 2 * groups);
        ensure_eq!(report.lanes, lanes, "lanes");
        ensure_eq!((report.loads, report.stores, report.atomics), (10 * lanes, 10 * lanes, lanes), "of the lanes");
        let each = 5 + 10 * 6 + 3 + 2;
        ensure_eq!(report.instructions, each * subgroups, "instructions of subgroups in {groups} workgroups");
        ensure_eq!((report.instruction, report.line, report.lane, report.address), (0, 0, 0, 0), "what a fault says");
    }
    Ok(())
}

fn times(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let dispatch = lab.load(COUNTING, [100, 1, 1])?;
    let stamp = |lab: &Lab, index| Packet::Timestamp(packet::Timestamp { destination: lab.address(index) });
    let packets = [stamp(&lab, 8000), Packet::Dispatch(dispatch), stamp(&lab, 8002)];
    lab.rig.execute(&mut lab.queue, &packets)?;
    let report = lab.report()?;
    let order = [lab.double(4000), report.begun, report.ended, lab.double(4001)];
    ensure!(order.is_sorted() && order[0] > 0, "times around and of the dispatch: {order:?}");
    Ok(())
}

fn in_order(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    // Each lane takes what the lane beside it had: workgroups that began before the others had ended would take wrong values.
    let double = ".workgroup 64, 1, 1
        arguments d0
        system.global_id_x w0
        xor.i32 w1, w0, 2047
        index d1, d0, w0, 4
        index d2, d0, w1, 4
        load.w1 w2, [d2 + FROM]
        add.i32 w2, w2, w0
        store.w1 [d1 + TO], w2
        exit";
    let there = assembled(&double.replace("FROM", "0").replace("TO", "8192"))?;
    let back = assembled(&double.replace("FROM", "8192").replace("TO", "0"))?;
    let there = Packet::Dispatch(packet::Dispatch { report: 0, ..lab.load_at(0, &there, [32, 1, 1]) });
    let back = Packet::Dispatch(packet::Dispatch { report: 0, ..lab.load_at(4096, &back, [32, 1, 1]) });
    lab.rig.submit(&mut lab.queue, &[there, back, there, back])?;
    lab.rig.submit(&mut lab.queue, &[there])?;
    let last = lab.rig.submit(&mut lab.queue, &[back])?;
    wait_until("the last dispatch", || lab.queue.progress.load() >= last)?;
    let mut values = vec![0_u32; 2048];
    for _ in 0..6 {
        values = (0..2048_u32).map(|place| values[place as usize ^ 2047] + place).collect();
    }
    ensure_eq!(lab.words(0, 2048), values, "what three times there and back come to");
    Ok(())
}

fn copies(case: &Case) -> Result<(), Failure> {
    const BYTES: u32 = 64 * 32 * 4;
    let mut lab = Lab::new(case)?;
    let vram = lab.rig.memory(BYTES.into(), Placement::Vram)?;
    let dispatch = lab.load(COUNTING, [64, 1, 1])?;
    let (dispatch, target) = (Packet::Dispatch(dispatch), lab.address(10_000));
    let packets = [
        dispatch,
        copy(vram.address, lab.data.address, BYTES),
        dispatch,
        copy(target, vram.address, BYTES),
        copy(lab.data.address + u64::from(BYTES) / 2, vram.address, BYTES / 2),
        dispatch,
    ];
    lab.rig.execute(&mut lab.queue, &packets)?;
    ensure_eq!(lab.words(10_000, 2048), [1; 2048], "what was copied between two dispatches");
    ensure_eq!(lab.words(0, 1024), [3; 1024], "words that three dispatches added to");
    ensure_eq!(lab.words(1024, 1024), [2; 1024], "words that a copy set back to 1 in between");
    Ok(())
}

fn fence_behind(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let (fence, dispatch) = (lab.rig.fence(0)?, lab.load(UNTIL_TOLD, [1, 1, 1])?);
    let mut waiting = lab.rig.queue(NODE_COPY)?;
    let target = lab.address(100);
    let there = lab.rig.submit(&mut waiting, &[fence.wait(1), copy(target, lab.address(2), 4)])?;
    lab.rig.submit(&mut lab.queue, &[Packet::Dispatch(dispatch), fence.signal(1)])?;
    wait_until("iterations of the program", || lab.word(0) > 1000)?;
    ensure_eq!(
        (fence.value.load(), waiting.progress.load(), lab.report()?.state),
        (0, 0, 0),
        "while the dispatch runs"
    );
    lab.set_word(1, 1);
    granted(lab.rig.wait(&[fence.handle], &[1], false), "the wait for the fence")?;
    ensure_eq!((lab.word(2), lab.report()?.state), (1, DISPATCH_DONE), "what the program stored, and its report");
    wait_until("the queue that waits for the fence", || waiting.progress.load() >= there)?;
    ensure_eq!(lab.word(100), 1, "what the other queue copied");
    Ok(())
}

fn copied_whole(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    // Every subgroup overwrites the last 16 instructions of the program with those of the version in the data, which stores 2 and not 1.
    let version = |amount: u32| {
        assembled(&format!(
            ".workgroup 32, 1, 1
            arguments d0
            load.d1 d1, [d0 + 1024]
            system.lane_id w0
            index d2, d0, w0, 4
            index d1, d1, w0, 4
            load.w1 w1, [d2 + 2048]\nstore.w1 [d1], w1
            load.w1 w1, [d2 + 2176]\nstore.w1 [d1 + 128], w1
            mov.i32 w1, {amount}
            system.workgroup_id_x w2
            mul.i32 w2, w2, 32
            add.i32 w2, w2, w0
            index d2, d0, w2, 4
            store.w1 [d2 + 8192], w1
            exit"
        ))
    };
    let (first, second) = (version(1)?, version(2)?);
    let words = second.as_chunks::<4>().0;
    let dispatch = lab.load_bytes(&first, [20, 1, 1]);
    lab.set_double(128, dispatch.program + second.len() as u64 - 256);
    (512..).zip(&words[words.len() - 64..]).for_each(|(index, word)| lab.set_word(index, u32::from_le_bytes(*word)));
    lab.execute(dispatch)?;
    ensure_eq!(lab.words(2048, 640), [1; 640], "what the program as it was stored");
    lab.execute(dispatch)?;
    ensure_eq!(lab.words(2048, 640), [2; 640], "what the program as it became stored");
    Ok(())
}

fn packet_context(case: &Case) -> Result<(), Failure> {
    const GROUPS: u32 = 60;
    let lab = Lab::new(case)?;
    let mut contexts = [lab.rig.packet_queue(NODE_COMPUTE)?, lab.rig.packet_queue(NODE_COMPUTE)?];
    let dispatch = Packet::Dispatch(lab.load(COUNTING, [GROUPS, 1, 1])?);
    for context in &mut contexts {
        for _ in 0..2 {
            lab.rig.packet_submit(context, &[dispatch])?;
            lab.rig.packet_submit(context, &[dispatch, dispatch])?;
        }
        lab.rig.packet_wait(context, 4)?;
    }
    ensure_eq!(lab.words(0, 32 * u64::from(GROUPS)), [12; 32 * GROUPS as usize], "how often each word was counted");
    ensure_eq!(lab.report()?.lanes, u64::from(32 * GROUPS), "lanes of the last dispatch");
    Ok(())
}
