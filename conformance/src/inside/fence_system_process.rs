//! The variant whose scheduler reaches fences by the addresses of the paging process.

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::Clock;
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;
use wddm_ddi::status::*;

use super::fence_storage::both_kinds_of_progress;
use super::hang::adapter_timeout;
use crate::rig::{Rig, wait_until};
use crate::simulated::{Case, with_gpu};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "FenceSystemProcess", needs UserModeSubmission, behind "it looks into the system process's address space";
    "FenceSystemProcess.AddressesOfThePagingProcessAreUsed" on Boot::With(mapped), "native-gpu-fence-objects":
        "Where the driver asks for it, every wait, signal and native progress on the GPU goes by the addresses that a fence has in the \
         paging process."
        holds [NativeFence 34]
        => addresses_are_used;
    "FenceSystemProcess.AddressesOfThePagingProcessAreNotUsedUnasked" on Boot::With(SystemOptions::default), "native-gpu-fence-objects":
        "Where the driver does not ask for it, no fence is reached through the paging process."
        holds [NativeFence 34]
        => addresses_are_not_used;
    "FenceSystemProcess.FenceBeforeTheFirstQueue" on Boot::With(mapped), "native-gpu-fence-objects":
        "A fence that was made before its process had any queue works in queues made later."
        holds [NativeFence 34]
        => fence_before_queue;
    "FenceSystemProcess.FenceOpenedTwiceStaysKnown" on Boot::With(mapped), "native-gpu-fence-objects":
        "When a fence that a process has open twice is closed once, the GPU still reaches it; closed twice it does not."
        holds [NativeFence 34]
        => opened_twice;
    "FenceSystemProcess.AddressesAreNotForged" on Boot::With(mapped), "native-gpu-fence-objects":
        "A packet that names memory that is no fence, or a fence with another's monitored value, faults its own queue only."
        holds [NativeFence 34]
        => not_forged;
    "FenceSystemProcess.FullTableIsRefusedByName" on Boot::With(few_fences), "dxgkddi_createnativefence":
        "When the hardware can know no more fences, the next is refused for lack of resources, and those that exist work on."
        holds [NativeFence 34]
        => full_table;
    "FenceSystemProcess.BothKindsOfProgress" on Boot::With(mapped_local), "dxgkarg_createhwqueue":
        "Native and monitored progress work side by side where fences are in the paging process and their values in local memory."
        holds [NativeFence 34]
        => both_kinds_of_progress;
    "FenceSystemProcess.WorksAfterTheDeviceWasStartedAgain" on Boot::With(mapped), "dxgkddi_startdevice":
        "After the device was stopped and started again, fences and their logs are reached through the new paging process."
        holds [NativeFence 34]
        => started_again;
    "FenceSystemProcess.WorksAfterTheAdapterWasReset" on Boot::With(mapped_by_hand), "native-gpu-fence-objects":
        "Fences, which outlive the devices that a reset of the adapter takes along, are reached through the paging process after it too, where their mappings are written anew."
        holds [NativeFence 34, NativeFence 39]
        => adapter_was_reset;
}

fn mapped_by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..mapped() }
}

fn mapped() -> SystemOptions {
    with_gpu(|gpu| gpu.system_process_fences = true)
}

fn mapped_local() -> SystemOptions {
    let mut options = mapped();
    options.features.optimized_default_fences = true;
    options.features.intra_gpu_fences = true;
    options
}

const FEW: u32 = 12;

fn few_fences() -> SystemOptions {
    let mut options = mapped();
    options.variant.fence_limit = FEW;
    options
}

fn through_system_process(case: &Case<'_>) -> u64 {
    case.system.gpu().activity().system_fences
}

fn is_lost(rig: &Rig) -> bool {
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    rig.kmt.execution_state(rig.device).is_ok_and(|now| now != active)
}

/// One wait, one signal and one progress on a queue of each node.
fn use_fences(case: &Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut compute, mut copies) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(0)?;
    let held = rig.submit(&mut compute, &[fence.wait(1), fence.signal(2)])?;
    rig.execute(&mut copies, &[fence.signal(1), fence.wait(2)])?;
    wait_until("the other queue", || compute.progress.load() >= held)?;
    granted(rig.wait(&[fence.handle], &[2], false), "a wait of the CPU")?;
    granted(rig.signal(&[fence.handle], &[3]), "a signal of the CPU")?;
    rig.execute(&mut compute, &[fence.wait(3)])
}

fn addresses_are_used(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = through_system_process(case);
    use_fences(case)?;
    let found = through_system_process(case) - before;
    // Two signals, three waits (each looked at once, or again when it was released) and three progress values.
    ensure!((8..=10).contains(&found), "{found} fences were reached through the paging process, 8 to 10 expected");
    Ok(())
}

fn addresses_are_not_used(case: &mut Case<'_>) -> Result<(), Failure> {
    use_fences(case)?;
    ensure_eq!(through_system_process(case), 0, "fences reached through the paging process");
    Ok(())
}

fn fence_before_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fences = (0..100).map(|value| rig.fence(value)).collect::<Result<Vec<_>, _>>()?;
    granted(rig.destroy_fence(fences[40].handle), "destroying one before there is a queue")?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for (value, fence) in (0..).zip(&fences).filter(|(value, _)| *value != 40) {
        rig.execute(&mut queue, &[fence.wait(value), fence.signal(value + 1000)])?;
        ensure_eq!(fence.value.load(), value + 1000, "value of fence {value}");
    }
    Ok(())
}

fn opened_twice(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.shared_fence(0)?;
    let handle = rig.share(&[fence.handle]).map_err(|status| Failure::new(format!("sharing: {status}")))?;
    let second = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let again = second.open_fence(handle)?;
    ensure_eq!(again.current, fence.current, "address on another device of the process");
    granted(second.destroy_fence(again.handle), "closing the second")?;
    rig.execute(&mut queue, &[fence.signal(1), fence.wait(1)])?;
    let third = second.open_fence(handle)?;
    granted(rig.destroy_fence(fence.handle), "closing the first")?;
    rig.execute(&mut queue, &[third.signal(2), third.wait(2)])?;
    granted(second.destroy_fence(third.handle), "closing the last")?;
    rig.submit_doomed(&mut queue, &[third.signal(3)])?;
    wait_until("the fault", || is_lost(&rig))?;
    granted(handle.close(), "closing the kernel handle")
}

fn not_forged(case: &mut Case<'_>) -> Result<(), Failure> {
    let witness = case.rig()?;
    let mut working = witness.queue(NODE_COPY)?;
    let (fence, other) = (witness.fence(0)?, witness.fence(0)?);
    let memory = witness.memory(4096, Placement::System)?;
    let view = witness.view(memory)?;
    let signal = |current, monitored| Packet::Signal(packet::Signal { handle: 0, current, monitored, value: 9 });
    let wait = |current| Packet::Wait(packet::Wait { handle: 0, current, value: 0 });
    for (what, packet) in [
        ("a signal at memory with a monitored value", signal(memory.address, memory.address + 8)),
        ("a signal at memory with the monitored value of a fence", signal(memory.address, fence.monitored)),
        ("a signal at a fence with memory for a monitored value", signal(fence.current, memory.address)),
        ("a signal at a fence with another's monitored value", signal(fence.current, other.monitored)),
        ("a signal between two fences", signal(fence.current + 8, fence.monitored + 8)),
        ("a wait at memory", wait(memory.address)),
        ("a wait between two fences", wait(fence.current + 8)),
    ] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        rig.submit_doomed(&mut queue, &[packet])?;
        wait_until(what, || is_lost(&rig))?;
        queue.stands_at(0, what)?;
        ensure_eq!((fence.value.load(), other.value.load()), (0, 0), "values after {what}");
        ensure_eq!(view.read(0, 16), vec![0; 16], "memory after {what}");
    }
    // A word that no CPU waits for is the queue's own affair.
    witness.execute(&mut working, &[signal(memory.address, 0), fence.signal(4), fence.wait(4)])?;
    ensure_eq!(view.read(0, 8), 9_u64.to_le_bytes().to_vec(), "a word written by a signal");
    Ok(())
}

fn full_table(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let mut fences = Vec::new();
    let refusal = loop {
        match rig.create_fence(7) {
            Err(status) => break status,
            Ok(_) if fences.len() > FEW as usize => return Err(Failure::new("the table has no end")),
            Ok(made) => fences.push(made),
        }
    };
    refused(refusal, &[STATUS_INSUFFICIENT_RESOURCES], "one fence more than the hardware knows")?;
    ensure!(fences.len() + 1 == FEW as usize, "{} fences beside the queue's progress", fences.len());
    let Some(first) = fences.first() else { return Err(Failure::new("no fence was made")) };
    let at = first.Info.NativeFenceMapping;
    let wait = Packet::Wait(packet::Wait { handle: first.hSyncObject, current: at.CurrentValueGpuVa, value: 7 });
    rig.execute(&mut queue, &[wait])?;
    for made in &fences {
        granted(rig.destroy_fence(made.hSyncObject), "destroying a fence")?;
    }
    let fence = rig.fence(1)?;
    rig.execute(&mut queue, &[fence.wait(1), fence.signal(2)])
}

fn adapter_was_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    let shared = case.rig()?;
    let fence = shared.shared_fence(0)?;
    let handle = shared.share(&[fence.handle]).map_err(|status| Failure::new(format!("sharing: {status}")))?;
    shared.execute(&mut shared.queue(NODE_COMPUTE)?, &[fence.signal(1), fence.wait(1)])?;
    adapter_timeout(case.system)?;
    let before = through_system_process(case);
    let rig = case.rig()?;
    let opened = rig.open_fence(handle)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[opened.wait(1), opened.signal(2), opened.wait(2)])?;
    granted(rig.wait(&[opened.handle], &[2], false), "a wait of the CPU")?;
    use_fences(case)?;
    ensure!(through_system_process(case) > before, "no fence was reached through the paging process");
    granted(handle.close(), "closing the kernel handle")
}

fn started_again(case: &mut Case<'_>) -> Result<(), Failure> {
    use_fences(case)?;
    case.process.exit();
    case.system.stop()?;
    case.system.start()?;
    let before = through_system_process(case);
    case.in_other_process(|system| {
        let rig = Rig::open(system.luid())?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        let fence = rig.fence(0)?;
        rig.execute(&mut queue, &[fence.signal(1), fence.wait(1)])
    })?;
    ensure!(through_system_process(case) > before, "no fence was reached through the paging process");
    Ok(())
}
