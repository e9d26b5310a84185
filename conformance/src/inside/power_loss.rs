//! D-states: the device loses its memory and its queues in D3, and programs find both again in D0.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campanile_hw::private::Placement;
use campanile_hw::registers::{self as reg, NODE_COMPUTE, NODE_COPY};
use dxgkrnl::SystemSleep;

use super::fence_interrupts::Event;
use super::fence_storage::{intra, local, places_in_vram};
use super::host_aperture::{aperture, count};
use super::power_device::power_down;
use crate::rig::{Memory, RawQueue, Rig, copy, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "Power", behind "it takes the power away and looks at what the GPU keeps";
    "Power.DeviceLosesEverythingInD3" needs UserModeSubmission on Boot::With(lost), "dispmprt-dxgkddi_set_power_state":
        "In D3 no register answers, VRAM holds nothing of what was in it, and back in D0 counters begin at zero: the driver has programmed everything anew."
        => everything_is_lost;
    "Power.MemoryOutlivesD3" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "Allocations in VRAM, resident or not, locked or not, are evicted before D3 and back with their contents, at their addresses, behind it."
        holds [UserModeSubmission 53]
        => memory_outlives;
    "Power.MemoryThatIsKeptOutlivesD3" needs UserModeSubmission on Boot::With(kept), "d3dkmddi-dxgk_segmentflags":
        "A segment that is preserved during standby is not evicted, and what is locked in it can be read and written all the same."
        => memory_outlives;
    "Power.HostApertureIsEmptyInD3" needs UserModeSubmission on Boot::With(aperture), "allocation-usage-tracking":
        "Locks through the host aperture are good in D3, where the aperture shows nothing, and behind it, where it shows what is still locked."
        holds [AllocationUsage 24]
        => aperture_is_empty;
    "Power.StoresToLockedMemoryAreNotLost" on Boot::With(lost), "allocation-usage-tracking":
        "A thread that stores to locked memory of VRAM all the while the device goes to D3 and comes back loses no store."
        holds [AllocationUsage 21]
        => stores_race;
    "Power.RingsInVramOutliveD3" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "Rings and ring-control pages in VRAM are evicted before D3 and resident again before their doorbell is connected; what was written to them in D3 runs."
        holds [UserModeSubmission 53, UserModeSubmission 54]
        => rings_in_vram;
    "Power.FencesInVramKeepTheirValues" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "Fence values in VRAM are what they were behind D3, and CPU waiters from before D3 and from within it are woken by interrupts of their fences."
        holds [NativeFence 21]
        => fences_keep_values;
    "Power.ProgressAndWaitsOutliveD3" needs UserModeSubmission on Boot::With(system_process), "user-mode-work-submission":
        "Where the scheduler reaches fences through the paging process, it knows them again behind D3."
        holds [UserModeSubmission 55]
        => blocked_queues;
    "Power.BlockedQueuesStayBlocked" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "A queue that waits for a fence in the middle of its commands waits behind D3, and then goes on from there; nothing before the wait runs twice."
        holds [UserModeSubmission 55]
        => blocked_queues;
    "Power.GlobalDoorbellOutlivesD3" needs UserModeSubmission on Boot::With(global), "user-mode-work-submission":
        "With one doorbell for all queues, each queue reconnects behind D3 and its work runs."
        holds [UserModeSubmission 54]
        => blocked_queues;
    "Power.KernelModeQueuesOutliveD3" needs NativeFence, HardwareScheduling on Boot::With(lost), "user-mode-work-submission":
        "Hardware queues for kernel-mode submission go on behind D3 too, with what was submitted before it and what is submitted behind it."
        holds [UserModeSubmission 55]
        => kernel_queues;
    "Power.LogsGoOnBehindD3" needs UserModeSubmission on Boot::With(delayed), "native-gpu-fence-objects":
        "Fence logs have each signal and wait once, and their timestamps never go back, though the GPU's clock was lost in D3 and entries were delayed."
        holds [NativeFence 64]
        => logs_go_on;
    "Power.GpuClockGoesOnBehindD3" on Boot::With(lost), "dxgkddi_calibrategpuclock":
        "The GPU clock keeps its relation to the CPU's over D3, and can be calibrated in D3 without touching the device."
        => clock_goes_on;
    "Power.NoRegisterIsTouchedInD3" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "Between the ways to D3 and to D0 the driver is asked for nothing that needs the device; whoever needs it wakes it first."
        holds [UserModeSubmission 50, UserModeSubmission 52]
        => nothing_in_between;
    "Power.ObjectsComeAndGoInD3" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "Queues, doorbells, fences and allocations are made and destroyed when the device is in D3, and work."
        holds [UserModeSubmission 56]
        => made_in_d3;
    "Power.ManyProcessesComeBack" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "The queues of many processes come back from D3, each when its process needs it, and nobody's memory is another's."
        holds [UserModeSubmission 55]
        => many_processes;
    "Power.HundredSleepsUnderChurnLoseNothing" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "A device that goes to D3 a hundred times while three processes submit executes every submission, once."
        holds [UserModeSubmission 56]
        => hundred_sleeps;
    "Power.HibernationLosesWhatStandbyKeeps" needs UserModeSubmission on Boot::With(kept), "d3dkmddi-dxgk_segmentflags":
        "In standby a preserved segment keeps its contents; in hibernation it does not, and everything is evicted before it and back behind it."
        => system_sleeps;
    "Power.WorkLeftBySleepGoesOn" needs UserModeSubmission on Boot::With(lost), "user-mode-work-submission":
        "A machine that is back from sleep brings an adapter with work left back to D0, so that whoever waits for the work need not ask for anything; one without work stays in D3."
        holds [UserModeSubmission 55]
        => work_goes_on;
}

pub(super) fn lost() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.vram_size = 64 << 20;
    options.variant.vram_window = 32 << 20;
    options
}

fn kept() -> SystemOptions {
    let mut options = lost();
    options.variant.vram_kept_in_d3 = true;
    options
}

fn system_process() -> SystemOptions {
    let mut options = lost();
    options.variant.system_process_fences = true;
    options
}

fn global() -> SystemOptions {
    let mut options = lost();
    options.variant.global_doorbell = true;
    options
}

fn delayed() -> SystemOptions {
    let mut options = lost();
    options.variant.delayed_log_writes = true;
    options
}

const SIZE: u64 = 64 << 10;
/// Two words of a pattern that nothing else has.
const MARK: u64 = 0x0bad_cafe_0bad_cafe;

fn power_up(system: &System) -> Result<(), Failure> {
    let woken = system.machine().power_up(system.luid());
    woken.map_err(|error| Failure::new(format!("the device was not powered up: {error}")))
}

fn everything_is_lost(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.execute(&mut queue, &[fence.signal(7), fill(memory.address, SIZE, 0x0bad_cafe)])?;
    let gpu = case.system.gpu().clone();
    let register = |offset: u64| gpu.register_read(offset, 4);
    ensure!(!places_in_vram(case.system, MARK)?.is_empty(), "VRAM does not hold the allocation in D0");
    ensure!(register(reg::COUNT_SIGNALS) != 0 && register(reg::CONTROL) == 1, "the device does not run");
    power_down(case.system)?;
    for offset in [reg::ID, reg::CONTROL, reg::COUNT_SIGNALS] {
        ensure_eq!(register(offset), u64::from(u32::MAX), "register {offset:#x} in D3");
    }
    ensure!(places_in_vram(case.system, MARK)?.is_empty(), "VRAM holds the allocation in D3");
    power_up(case.system)?;
    ensure_eq!(register(reg::COUNT_SIGNALS), 0, "signals counted behind D3");
    ensure_eq!(register(reg::CONTROL), 1, "RUN behind D3");
    rig.execute(&mut queue, &[fence.signal(8)])?;
    ensure_eq!((fence.value.load(), register(reg::COUNT_SIGNALS)), (8, 1), "the fence and signals counted");
    Ok(())
}

/// The bytes that the GPU finds in memory.
fn gpu_sees(rig: &Rig, queue: &mut RawQueue, memory: Memory) -> Result<Vec<u8>, Failure> {
    let target = rig.memory(memory.size, Placement::SystemUncached)?;
    rig.execute(queue, &[copy(target.address, memory.address, memory.size as u32)])?;
    let bytes = rig.view(target)?.read(0, memory.size);
    granted(rig.destroy_allocation(target.handle), "destroying the copy")?;
    Ok(bytes)
}

pub(super) fn memory_outlives(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let placements = [Placement::VramVisible, Placement::Vram, Placement::VramLockable, Placement::System];
    let mut all = Vec::new();
    for (number, placement) in (1u32..).zip(placements.into_iter().cycle().take(12)) {
        let memory = rig.memory(SIZE, placement)?;
        rig.execute(&mut queue, &[fill(memory.address, SIZE, number)])?;
        all.push((number, memory));
    }
    // Locked all the while: what the CPU sees in the window, and where there is a host aperture, what it sees there.
    let mut views = vec![(1u32, rig.view(all[0].1)?)];
    if rig.lock(all[2].1.handle).is_ok() {
        views.push((3, rig.view(all[2].1)?));
    }
    granted(rig.evict(all[5].1.handle), "evict")?;
    for round in 0..3u8 {
        power_down(case.system)?;
        for (number, view) in &views {
            ensure_eq!(view.read(8, 4), number.to_le_bytes().to_vec(), "what the CPU sees of {number} in D3");
            view.write(0, &[round; 4]);
        }
        power_up(case.system)?;
        for (number, view) in &views {
            ensure_eq!(view.read(0, 4), vec![round; 4], "what the CPU stored to {number} in D3, behind it");
        }
        for (number, memory) in all.iter().filter(|(number, _)| *number != 6) {
            let bytes = gpu_sees(&rig, &mut queue, *memory)?;
            let locked = views.iter().any(|(locked, _)| locked == number);
            let (head, rest) = bytes.split_at(4);
            let expected = if locked { [round; 4] } else { number.to_le_bytes() };
            ensure_eq!(head, expected, "the first word of {number} behind D3");
            ensure!(
                rest.chunks(4).all(|word| *word == number.to_le_bytes()),
                "allocation {number} has other bytes behind D3"
            );
        }
    }
    rig.make_resident(all[5].1.handle)?;
    let evicted = gpu_sees(&rig, &mut queue, all[5].1)?;
    ensure!(evicted.chunks(4).all(|word| *word == 6u32.to_le_bytes()), "what was not resident has other bytes");
    Ok(())
}

fn aperture_is_empty(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (kept, left) = (rig.memory(SIZE, Placement::VramLockable)?, rig.memory(2 * SIZE, Placement::VramLockable)?);
    let (view, other) = (rig.view(kept)?, rig.view(left)?);
    let mut queue = rig.queue(NODE_COPY)?;
    for (round, unlocks) in [(1u8, false), (2, true), (3, false)] {
        view.write(0, &[round; 4]);
        power_down(case.system)?;
        ensure_eq!(count(case.system, 0)?, 0, "pages that the aperture shows in D3");
        ensure_eq!(view.read(0, 4), vec![round; 4], "what the CPU sees in D3");
        view.write(4, &[round; 4]);
        if unlocks {
            other.write(0, &[round; 4]);
            granted(rig.unlock(left.handle), "an unlock in D3")?;
        }
        power_up(case.system)?;
        ensure!(gpu_sees(&rig, &mut queue, kept)?.starts_with(&[round; 8]), "what the CPU stored is not what there is");
        ensure_eq!(view.read(0, 8), vec![round; 8], "what the CPU sees behind D3");
        let locked = if round < 2 { 3 * SIZE } else { SIZE };
        ensure_eq!(count(case.system, 0)?, locked / 4096, "pages that the aperture shows behind D3");
    }
    Ok(())
}

fn stores_race(case: &mut Case<'_>) -> Result<(), Failure> {
    const SLEEPS: usize = 20;
    let rig = case.rig()?;
    let memory = rig.memory(4096, Placement::VramVisible)?;
    let view = rig.view(memory)?;
    let start = view.start().expose_provenance();
    let end = AtomicBool::new(false);
    let lost = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // SAFETY: the view stays mapped and takes stores until its process ends, also when the machine stops, and the scope ends this thread before; it is
            // page-aligned, and accessed as 64 bits at once.
            let word = unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(start)) };
            (1..).take_while(|_| !end.load(Ordering::Relaxed)).find(|value| {
                word.store(*value, Ordering::Relaxed);
                word.load(Ordering::Relaxed) != *value
            })
        });
        let cycles = (0..SLEEPS).try_for_each(|_| power_down(case.system).and_then(|()| power_up(case.system)));
        end.store(true, Ordering::Relaxed);
        let lost = writer.join().unwrap_or(Some(0));
        cycles.map(|()| lost)
    })?;
    ensure_eq!(lost, None, "the value of a store that was lost");
    Ok(())
}

fn rings_in_vram(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("a context: {status}")))?;
    let mut queue = rig.queue_placed(context, 64, Placement::VramVisible)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[fence.signal(1)])?;
    for round in 1..=5u64 {
        let before = queue.append(&[fence.signal(3 * round)])?;
        power_down(case.system)?;
        let inside = queue.append(&[fence.signal(3 * round + 1)])?;
        ensure!(queue.progress.load() < before, "something ran in D3");
        rig.ring(&queue)?;
        wait_until("the work of D3", || queue.progress.load() == inside)?;
        rig.execute(&mut queue, &[fence.signal(3 * round + 2)])?;
        ensure_eq!(fence.value.load(), 3 * round + 2, "the fence");
    }
    Ok(())
}

fn fences_keep_values(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    // Both values in VRAM, and the monitored one alone.
    let engines = intra(&rig, &mut queue, 5)?;
    let (early, late, plain) = (rig.fence(0)?, rig.fence(0)?, rig.fence(0)?);
    for round in 1..=5u64 {
        rig.submit(&mut other, &[engines.wait(5 + round), plain.signal(round)])?;
        let (before, inside) = (Event::new()?, Event::new()?);
        granted(rig.wait_with_event(&[early.handle], &[round], false, Some(before.number())), "a wait before D3")?;
        power_down(case.system)?;
        granted(rig.wait_with_event(&[late.handle], &[round], false, Some(inside.number())), "a wait in D3")?;
        ensure!(case.system.machine().is_powered_down(case.system.luid()), "a wait woke the device");
        rig.submit(&mut queue, &[engines.signal(5 + round), early.signal(round), late.signal(round)])?;
        before.wait()?;
        inside.wait()?;
        wait_until("the engine's fence", || plain.value.load() == round)?;
        ensure_eq!((early.value.load(), late.value.load()), (round, round), "fences");
    }
    Ok(())
}

fn blocked_queues(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, behind) = (rig.fence(0)?, rig.fence(0)?);
    let memory = rig.memory(4096, Placement::Vram)?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?, rig.queue(NODE_COMPUTE)?];
    let before = case.system.gpu().signals_ever();
    for round in 1..=5u64 {
        let fences: Vec<_> = queues.iter().map(|_| rig.fence(0)).collect::<Result<_, _>>()?;
        for (queue, fence) in queues.iter_mut().zip(&fences) {
            let packets = [fence.signal(1), fill(memory.address, 4096, 1), gate.wait(round), fence.signal(2)];
            rig.submit(queue, &packets)?;
            wait_until("the signal before the wait", || fence.value.load() == 1)?;
        }
        for _ in 0..3 {
            power_down(case.system)?;
            power_up(case.system)?;
            ensure!(fences.iter().all(|fence| fence.value.load() == 1), "a queue did not stay blocked");
        }
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        for (queue, fence) in queues.iter_mut().zip(&fences) {
            wait_until("the rest", || queue.progress.load() == round)?;
            ensure_eq!(fence.value.load(), 2, "the fence behind the wait");
        }
        rig.ring(&queues[0])?;
    }
    ensure_eq!(case.system.gpu().signals_ever() - before, 2 * 3 * 5, "signals executed");
    ensure_eq!(behind.value.load(), 0, "a fence nobody signals");
    Ok(())
}

fn kernel_queues(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, gate, fence) = (rig.kernel_queue(NODE_COMPUTE)?, rig.fence(0)?, rig.fence(0)?);
    for round in 1..=5u64 {
        rig.kernel_submit(&mut queue, &[gate.wait(round), fence.signal(2 * round)])?;
        let second = rig.kernel_submit(&mut queue, &[fence.signal(2 * round + 1)])?;
        power_down(case.system)?;
        ensure!(fence.value.load() < 2 * round, "something ran before its fence");
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        wait_until("the work of D3", || queue.progress.load() == second)?;
        ensure_eq!(fence.value.load(), 2 * round + 1, "the fence");
    }
    Ok(())
}

fn logs_go_on(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 12;
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (fence, gate) = (rig.fence(0)?, rig.fence(0)?);
    let (mut last, mut signals, mut waits) = (0, 0, 0);
    for round in 1..=ROUNDS {
        rig.submit(&mut queue, &[fence.signal(2 * round - 1), gate.wait(round), fence.signal(2 * round)])?;
        wait_until("the signal", || fence.value.load() == 2 * round - 1)?;
        power_down(case.system)?;
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        wait_until("the work", || queue.progress.load() == round)?;
        let mut logs = machine.fence_log(luid).ok_or_else(|| Failure::new("no fence logs"))?;
        let [log] = logs.as_mut_slice() else { return Err(Failure::new("the queue has no log")) };
        for log in [&log.waits, &log.signals] {
            ensure_eq!((log.lost, log.violations), (0, 0), "entries lost, and broken rules");
            ensure!(log.entries.is_sorted_by_key(|entry| entry.end), "time goes back in round {round}");
            ensure!(log.entries.iter().all(|entry| entry.end >= last), "time went back over D3 in round {round}");
            ensure!(log.entries.iter().all(|entry| entry.observed <= entry.end), "a wait ended before it began");
        }
        let newest = log.signals.entries.last().map_or(0, |entry| entry.end);
        ensure!(newest > last, "the clock stands still");
        last = newest;
        log.signals.entries.retain(|entry| entry.fence != log.progress_fence);
        signals += log.signals.entries.len() as u64;
        waits += log.waits.entries.len() as u64;
    }
    ensure_eq!((signals, waits), (2 * ROUNDS, ROUNDS), "signals and waits in the logs");
    Ok(())
}

fn clock_goes_on(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    let read = || {
        let clock = system.machine().gpu_clock(system.luid(), NODE_COMPUTE);
        clock.ok_or_else(|| Failure::new("the clocks cannot be read together"))
    };
    let mut before = read()?;
    for _ in 0..5 {
        power_down(system)?;
        let inside = read()?;
        ensure!(system.machine().is_powered_down(system.luid()), "reading the clocks woke the device");
        power_up(system)?;
        let behind = read()?;
        for (earlier, later) in [(before, inside), (inside, behind)] {
            ensure!(earlier.gpu <= later.gpu && earlier.cpu <= later.cpu, "a clock goes back: {earlier:?} {later:?}");
        }
        // The two are read one after the other, and a thread may be interrupted for long between them.
        let passed = i128::from(behind.cpu - before.cpu) * 100;
        let error = (i128::from(behind.gpu - before.gpu) - passed).abs();
        ensure!(error < 5_000_000_000, "the GPU clock is off by {error} ns: {before:?} {behind:?}");
        before = behind;
    }
    Ok(())
}

fn nothing_in_between(case: &mut Case<'_>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    rig.execute(&mut queue, &[fence.signal(1)])?;
    for round in 2..=6 {
        power_down(case.system)?;
        machine.start_ddi_log(luid);
        granted(rig.wait(&[fence.handle], &[1], false), "a wait for what has been reached")?;
        let value = queue.append(&[fence.signal(round)])?;
        ensure!(machine.is_powered_down(luid), "a wait for what has been reached woke the device");
        let rung = rig.ring(&queue);
        let log = machine.take_ddi_log(luid);
        rung?;
        wait_until("the work", || queue.progress.load() == value)?;
        let until_woken = log.iter().take_while(|name| *name != "DxgkDdiSetPowerState");
        let asked: Vec<_> = until_woken.filter(|name| *name != "DxgkDdiUpdateMonitoredValues").collect();
        ensure!(asked.is_empty(), "asked of the driver in D3: {asked:?}");
        ensure!(log.iter().any(|name| name == "DxgkDdiSetPowerState"), "nobody woke the device: {log:?}");
    }
    Ok(())
}

fn made_in_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut old = rig.queue(NODE_COPY)?;
    rig.execute(&mut old, &[])?;
    for round in 0..4u32 {
        power_down(case.system)?;
        let memory = rig.memory(SIZE, Placement::Vram)?;
        power_down(case.system)?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        power_down(case.system)?;
        let fence = rig.fence(u64::from(round))?;
        power_down(case.system)?;
        rig.execute(&mut queue, &[fill(memory.address, SIZE, round), fence.signal(99)])?;
        ensure_eq!(fence.value.load(), 99, "the fence that was made in D3");
        power_down(case.system)?;
        let bytes = gpu_sees(&rig, &mut old, memory)?;
        ensure!(bytes.chunks(4).all(|word| *word == round.to_le_bytes()), "wrong bytes");
        power_down(case.system)?;
        granted(rig.destroy_fence(fence.handle), "destroying the fence in D3")?;
        power_down(case.system)?;
        granted(rig.destroy_queue(&queue), "destroying the queue in D3")?;
        power_down(case.system)?;
        granted(rig.destroy_allocation(memory.handle), "destroying the allocation in D3")?;
    }
    Ok(())
}

fn many_processes(case: &mut Case<'_>) -> Result<(), Failure> {
    const PROCESSES: u32 = 8;
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let processes: Vec<_> =
        (0..PROCESSES).map(|number| dxgkrnl::Process::new(machine, &format!("sleeper {number}"))).collect();
    let mut made = Vec::new();
    for (number, process) in (1u32..).zip(&processes) {
        made.push(on_thread(process, || {
            let rig = Rig::open(luid)?;
            let mut queue = rig.queue(if number % 2 == 0 { NODE_COMPUTE } else { NODE_COPY })?;
            let memory = rig.memory(SIZE, Placement::Vram)?;
            rig.execute(&mut queue, &[fill(memory.address, SIZE, number)])?;
            Ok((rig, queue, memory))
        })?);
    }
    for _ in 0..2 {
        power_down(case.system)?;
        for ((number, process), (rig, queue, memory)) in (1u32..).zip(&processes).zip(&mut made) {
            let bytes = on_thread(process, || gpu_sees(rig, queue, *memory))?;
            ensure!(bytes.chunks(4).all(|word| *word == number.to_le_bytes()), "process {number} finds other bytes");
        }
    }
    power_down(case.system)?;
    for process in processes {
        process.exit();
    }
    let rig = case.rig()?;
    rig.execute(&mut rig.queue(NODE_COMPUTE)?, &[])
}

fn hundred_sleeps(case: &mut Case<'_>) -> Result<(), Failure> {
    const SLEEPS: u64 = 100;
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let (end, before) = (AtomicBool::new(false), case.system.gpu().signals_ever());
    let work = |node: u32| {
        let process = dxgkrnl::Process::new(machine, "worker");
        let outcome = on_thread(&process, || {
            let rig = Rig::open(luid)?;
            let (mut queue, fence) = (rig.queue(node)?, rig.fence(0)?);
            let mut value = 0;
            while !end.load(Ordering::SeqCst) {
                value += 1;
                rig.submit(&mut queue, &[fence.signal(value)])?;
                if value % 3 == 0 {
                    wait_until("work", || fence.value.load() >= value)?;
                }
            }
            rig.ring(&queue)?;
            wait_until("all work", || queue.progress.load() == value && fence.value.load() == value)?;
            Ok(value)
        });
        process.exit();
        outcome
    };
    let total = std::thread::scope(|scope| {
        let work = &work;
        let workers = [NODE_COMPUTE, NODE_COPY, NODE_COMPUTE].map(|node| scope.spawn(move || work(node)));
        let slept = (0..SLEEPS).try_for_each(|_| power_down(case.system).and_then(|()| power_up(case.system)));
        end.store(true, Ordering::SeqCst);
        let done = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(Failure::new("panicked"))));
        let total: Result<u64, Failure> = done.sum();
        slept.and(total)
    })?;
    ensure_eq!(case.system.gpu().signals_ever() - before, total, "signals executed");
    Ok(())
}

fn system_sleeps(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, fence, gate) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?, rig.fence(0)?);
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x0bad_cafe)])?;
    for (round, state) in (1u64..).zip([SystemSleep::Standby, SystemSleep::Hibernate, SystemSleep::Standby]) {
        rig.submit(&mut queue, &[gate.wait(round), fence.signal(round)])?;
        let slept = case.system.machine().sleep(state);
        slept.map_err(|error| Failure::new(format!("{state:?}: {error}")))?;
        ensure_eq!(!places_in_vram(case.system, MARK)?.is_empty(), state == SystemSleep::Standby, "kept in {state:?}");
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        wait_until("the work of before", || fence.value.load() == round)?;
        let bytes = gpu_sees(&rig, &mut queue, memory)?;
        ensure!(bytes.chunks(4).all(|word| *word == 0x0bad_cafe_u32.to_le_bytes()), "other bytes behind {state:?}");
    }
    Ok(())
}

fn work_goes_on(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, fence, gate) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?, rig.fence(0)?);
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let sleep = |state| machine.sleep(state).map_err(|error| Failure::new(format!("{state:?}: {error}")));
    for (round, state) in (1u64..).zip([SystemSleep::Standby, SystemSleep::Hibernate]) {
        sleep(state)?;
        machine.wake_for_work();
        ensure!(machine.is_powered_down(luid), "an adapter without work was woken behind {state:?}");
        rig.submit(&mut queue, &[gate.wait(round), fence.signal(round)])?;
        sleep(state)?;
        machine.wake_for_work();
        ensure!(!machine.is_powered_down(luid), "an adapter with work stays in D3 behind {state:?}");
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        granted(rig.wait(&[fence.handle], &[round], false), "wait")?;
    }
    Ok(())
}
