//! Suspended processes: page tables, fence values and rings leave a VRAM that others need, and are back before work goes on.

use std::sync::Barrier;

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Clock, Process, ResidencyCounts};
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::fence_interrupts::Event;
use super::fence_storage::{Intra, intra, places_in_vram};
use super::hog::{Hog, counts, make_resident, small_vram};
use super::power_device::power_down;
use crate::rig::{Memory, RawFence, RawQueue, Rig, View, copy, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "Residency", needs UserModeSubmission;
    "Residency.TablesOfIdleProcessLeave" on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "Page tables of a process whose work is done leave VRAM when another process needs all of it; its next work finds every translation, for which an idle process is evicted."
        => tables_leave;
    "Residency.BusyProcessKeepsItsTables" on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "A process with work under way keeps page tables, fence values and ring where they are, whatever others need; when the work is done they may leave."
        => busy_keeps;
    "Residency.MakeResidentBringsTablesBack" on Boot::With(small_vram), "d3dkmtmakeresident":
        "MakeResident of a process whose page tables left brings them back behind the allocation, before any work needs them."
        => make_resident_brings_back;
    "Residency.EveryWayOfWorkFindsItsTables" on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "Page tables are back before work that comes by a doorbell, through the kernel to a hardware queue, as a packet, or with a context that is resumed."
        => every_way;
    "Residency.SuspendedContextsStaySuspended" on Boot::With(small_vram), "dxgkddi_suspendcontext":
        "A context that was suspended before its process rested stays suspended when the process works again, and another one goes on."
        => suspended_stays;
    "Residency.NothingHangsAtRest" on Boot::With(small_vram), "tdr-changes-in-windows-8":
        "A process whose residency list leaves no memory for its page tables, whichever process is evicted, is told so when it connects a doorbell; work that it announced and could not ring for is no hang however long it takes, and is done when there is memory."
        holds [Tdr 13]
        => nothing_hangs;
    "Residency.TablesThatDoNotFitTogether" on Boot::With(tiny_vram), "driver-residency-in-wddm-2-0":
        "Three busy processes whose page tables do not fit into VRAM together find every byte right at every address, in any order."
        => tables_of_three;
    "Residency.RingLeavesWithItsProcess" on Boot::With(small_vram), "user-mode-work-submission":
        "A ring in VRAM that is off the residency list stays as long as its queue may be looked at; it leaves when the process is suspended, what user mode stores to it meanwhile is kept, and it is back before its doorbell is connected."
        holds [UserModeSubmission 24]
        => ring_leaves;
    "Residency.EvictedFencesKeepTheirValues" on Boot::With(small_vram), "native-gpu-fence-objects":
        "Fence values in VRAM leave it with an idle process; the processor waits and signals meanwhile, addresses stay, and engines go on with the values as they are."
        holds [NativeFence 22]
        => fences_leave;
    "Residency.EvictedFencesOfThePagingProcess" on Boot::With(system_process), "native-gpu-fence-objects":
        "The same on a GPU that reaches fence values by addresses in the paging process, which stay as well."
        holds [NativeFence 22]
        => fences_leave;
    "Residency.WithoutTablesOutOfD0" on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "A device that goes to D3 and comes back while page tables and fence values of a process are away finds them when the process works."
        => out_of_d0;
    "Residency.WithoutTablesOverAReset" on Boot::With(by_hand), "driver-residency-in-wddm-2-0":
        "After a reset of the adapter a process whose page tables were away works with a new device."
        => over_a_reset;
    "Residency.WithoutTablesToTheEnd" on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "Processes whose page tables are away exit and are terminated, and adapters are pulled out, without any of it coming back."
        => to_the_end;
}

const SIZE: u64 = 64 << 10;
/// Distance of ranges that share no page table of the two lowest levels.
const APART: u64 = 1 << 31;

/// With a clock that the case moves, so that a timeout is over when the clock was moved.
fn by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..small_vram() }
}

fn system_process() -> SystemOptions {
    let mut options = small_vram();
    options.variant.system_process_fences = true;
    options
}

fn tiny_vram() -> SystemOptions {
    let mut options = small_vram();
    (options.variant.vram_size, options.variant.vram_window) = (4 << 20, 4 << 20);
    options.variant.queue_limit = 64;
    options
}

/// A process with allocations at many addresses, and what is there.
struct Spread {
    rig: Rig,
    queue: RawQueue,
    all: Vec<(Memory, u32)>,
    ranges: usize,
    seen: Memory,
    view: View,
}

impl Spread {
    /// `ranges` ranges show some allocations of system memory in turn, so that only tables are in VRAM.
    fn new(rig: Rig, node: u32, ranges: usize, seed: u32) -> Result<Self, Failure> {
        let queue = rig.queue(node)?;
        let all = (0..3).map(|_| Ok((rig.memory(SIZE, Placement::System)?, 0)));
        let all = all.collect::<Result<Vec<(Memory, u32)>, Failure>>()?;
        for range in 0..ranges {
            let mut request = rig.map_request(all[range % all.len()].0.handle, SIZE);
            request.BaseAddress = Self::address(range);
            rig.map(request)?;
        }
        let seen = rig.memory(SIZE, Placement::System)?;
        let view = rig.view(seen)?;
        let mut spread = Self { rig, queue, all, ranges, seen, view };
        for place in 0..spread.all.len() {
            spread.fill(place, seed + place as u32)?;
        }
        Ok(spread)
    }

    fn address(range: usize) -> u64 {
        (range as u64 + 1) * APART
    }

    /// Writes an allocation through the range with this number.
    fn fill(&mut self, range: usize, pattern: u32) -> Result<(), Failure> {
        let place = range % self.all.len();
        self.rig.execute(&mut self.queue, &[fill(Self::address(range), SIZE, pattern)])?;
        self.all[place].1 = pattern;
        Ok(())
    }

    /// The range shows its allocation.
    fn check(&mut self, range: usize) -> Result<(), Failure> {
        let pattern = self.all[range % self.all.len()].1;
        self.view.fill(0xee);
        self.rig.execute(&mut self.queue, &[copy(self.seen.address, Self::address(range), SIZE as u32)])?;
        let wrong = self.view.read(0, SIZE).chunks(4).position(|word| word != pattern.to_le_bytes());
        ensure!(wrong.is_none(), "word {wrong:?} at range {range} is not {pattern:#x}");
        Ok(())
    }

    fn check_all(&mut self) -> Result<(), Failure> {
        (0..self.ranges).try_for_each(|range| self.check(range))
    }
}

pub(super) fn tables_leave(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 40, 1)?;
    let mut hog = Hog::new(case.system)?;
    for round in 1..=3 {
        let before = counts(case.system);
        hog.take()?;
        let after = counts(case.system);
        ensure!(after.tables_evicted > before.tables_evicted, "no tables left: {after:?}");
        let retry = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
        ensure_eq!(spread.queue.doorbell.state(), retry, "status of the doorbell of a suspended process");
        // What is mapped and unmapped meanwhile is so when the tables are back.
        granted(spread.rig.free(Spread::address(spread.ranges - 1), SIZE), "freeing a range")?;
        spread.ranges -= 1;
        spread.check_all()?;
        hog.give_back()?;
        spread.fill(round, 100 + round as u32)?;
        spread.check_all()?;
        ensure!(counts(case.system).tables_restored > after.tables_restored, "no tables came back");
    }
    Ok(())
}

/// Work that waits for a fence of the case.
fn blocked(rig: &Rig, queue: &mut RawQueue) -> Result<(RawFence, u64), Failure> {
    let gate = rig.fence(0)?;
    let value = rig.submit(queue, &[gate.wait(1)])?;
    Ok((gate, value))
}

fn busy_keeps(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 20, 1)?;
    let engines = intra(&spread.rig, &mut spread.queue, 5)?;
    let (gate, value) = blocked(&spread.rig, &mut spread.queue)?;
    let mut hog = Hog::new(case.system)?;
    let before = counts(case.system);
    hog.take()?;
    let after = counts(case.system);
    let left = |counts: &ResidencyCounts| (counts.tables_evicted, counts.fences_evicted);
    ensure_eq!(left(&after), left(&before), "what left a process that works");
    granted(spread.rig.signal(&[gate.handle], &[1]), "a signal of the CPU")?;
    wait_until("the work", || spread.queue.progress.load() >= value)?;
    spread.rig.execute(&mut spread.queue, &[engines.wait(5), engines.signal(6)])?;
    spread.check_all()?;
    hog.take()?;
    let last = counts(case.system);
    ensure!(last.tables_evicted > after.tables_evicted, "the tables of a process whose work is done did not leave");
    ensure!(last.fences_evicted > after.fences_evicted, "the fences of a process whose work is done did not leave");
    hog.give_back()?;
    spread.rig.execute(&mut spread.queue, &[engines.wait(6)])?;
    spread.check_all()
}

fn make_resident_brings_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 20, 1)?;
    let in_vram = spread.rig.memory(SIZE, Placement::Vram)?;
    spread.rig.execute(&mut spread.queue, &[fill(in_vram.address, SIZE, 0x77)])?;
    granted(spread.rig.evict(in_vram.handle), "evict")?;
    let mut hog = Hog::new(case.system)?;
    hog.take()?;
    let before = counts(case.system);
    refused(make_resident(&spread.rig, in_vram.handle)?, &[STATUS_NO_MEMORY], "a request that does not fit")?;
    let listed = spread.rig.evict(in_vram.handle);
    refused(listed, crate::kmt::BAD_ARGUMENT, "evicting what the refused request named")?;
    hog.give_back()?;
    granted(make_resident(&spread.rig, in_vram.handle)?, "the request that fits")?;
    ensure!(counts(case.system).tables_restored > before.tables_restored, "MakeResident brought no tables back");
    spread.rig.execute(&mut spread.queue, &[copy(spread.seen.address, in_vram.address, SIZE as u32)])?;
    let bytes = spread.view.read(0, SIZE);
    ensure!(bytes.chunks(4).all(|word| word == 0x77u32.to_le_bytes()), "the allocation has other bytes");
    spread.check_all()
}

fn every_way(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 10, 1)?;
    let (mut kernel, mut packets) = (spread.rig.kernel_queue(NODE_COPY)?, spread.rig.packet_queue(NODE_COPY)?);
    let mut hog = Hog::new(case.system)?;
    for (round, way) in (2u32..).zip(["a doorbell", "the kernel", "a packet", "a resumption"]) {
        hog.take()?;
        let before = counts(case.system);
        hog.give_back()?;
        let work = [fill(Spread::address(7), SIZE, round)];
        spread.all[7 % 3].1 = round;
        match way {
            "a doorbell" => spread.rig.execute(&mut spread.queue, &work)?,
            "the kernel" => {
                let value = spread.rig.kernel_submit(&mut kernel, &work)?;
                wait_until("the kernel's work", || kernel.progress.load() >= value)?;
            }
            "a packet" => spread.rig.packet_execute(&mut packets, &work)?,
            _ => {
                let resumed = case.process.resume_hw_context(spread.queue.context);
                granted(resumed.err().unwrap_or(STATUS_SUCCESS), "resuming a context")?;
                spread.rig.execute(&mut spread.queue, &work)?;
            }
        }
        let restored = counts(case.system).tables_restored - before.tables_restored;
        ensure!(restored > 0, "no tables came back by {way}");
        spread.check_all()?;
    }
    Ok(())
}

fn suspended_stays(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 10, 1)?;
    let mut other = spread.rig.queue(NODE_COMPUTE)?;
    spread.rig.execute(&mut other, &[])?;
    let suspended = case.process.suspend_hw_context(other.context);
    granted(suspended.err().unwrap_or(STATUS_SUCCESS), "suspending a context")?;
    let answered = || case.process.suspensions(other.context).is_ok_and(|of| of.asked == of.answered);
    wait_until("the suspension", answered)?;
    let mut hog = Hog::new(case.system)?;
    hog.take()?;
    ensure_eq!(counts(case.system).tables_evicted, 1, "address spaces whose tables left");
    hog.give_back()?;
    spread.check_all()?;
    let value = spread.rig.submit(&mut other, &[])?;
    spread.check_all()?;
    ensure!(other.progress.load() < value, "a suspended context ran");
    let resumed = case.process.resume_hw_context(other.context);
    granted(resumed.err().unwrap_or(STATUS_SUCCESS), "resuming a context")?;
    wait_until("the work of the context", || other.progress.load() >= value)
}

fn nothing_hangs(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 10, 1)?;
    // As much as there is without the page tables of this process, which then asks for as much itself.
    let mut hog = Hog::new(case.system)?;
    hog.take()?;
    let list = hog.sizes().map(|size| spread.rig.create(size, Placement::Vram));
    let mut list = list.collect::<Result<Vec<_>, _>>().map_err(|status| Failure::new(format!("create: {status}")))?;
    hog.give_back()?;
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations) = (spread.rig.paging_queue, list.len() as u32);
    request.AllocationList = list.as_mut_ptr();
    let status = spread.rig.kmt.call(spread.rig.kmt.table().D3DKMTMakeResident, &mut request);
    granted(status, "D3DKMTMakeResident of all there is")?;
    let value = spread.queue.append(&[fill(Spread::address(4), SIZE, 0x4444)])?;
    for _ in 0..2 {
        let connected = spread.rig.connect(spread.queue.doorbell);
        refused(connected, &[STATUS_NO_MEMORY], "a connection without memory for tables beside the own list")?;
    }
    (0..4).for_each(|_| super::hang::time_out(case.system));
    ensure!(super::hang::reports(case.system).is_empty(), "a suspended process counts as hung");
    ensure!(spread.queue.progress.load() < value, "work ran without page tables");
    // What is announced may use them as far as anybody knows.
    let unused = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_AssumeNotInUse(true);
    let destroyed = list.into_iter().map(|handle| spread.rig.destroy_allocation_with(handle, unused));
    destroyed.into_iter().try_for_each(|status| granted(status, "destroying one"))?;
    spread.rig.ring(&spread.queue)?;
    wait_until("the work", || spread.queue.progress.load() >= value)?;
    spread.all[1].1 = 0x4444;
    spread.check_all()
}

/// Works at addresses in an order of its own.
fn wander(spread: &mut Spread, seed: u64, steps: usize) -> Result<(), Failure> {
    let mut random = seed;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % bound as u64) as usize
    };
    for _ in 0..steps {
        let (written, read) = (below(spread.ranges), below(spread.ranges));
        spread.fill(written, below(u32::MAX as usize) as u32)?;
        spread.check(written)?;
        spread.check(read)?;
    }
    Ok(())
}

fn tables_of_three(case: &mut Case<'_>) -> Result<(), Failure> {
    // Two tables each, of a page: 1.6 MiB for each process.
    const RANGES: usize = 200;
    let (luid, machine) = (case.system.luid(), case.system.machine());
    let processes = [1, 2, 3].map(|_| Process::new(machine, "spread"));
    let all_there = Barrier::new(processes.len());
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1u64..)
            .zip(&processes)
            .map(|(number, process)| {
                let (node, all_there) = (if number == 2 { NODE_COMPUTE } else { NODE_COPY }, &all_there);
                let work = move || {
                    let made = Rig::open(luid).and_then(|rig| Spread::new(rig, node, RANGES, 1000 * number as u32));
                    // Nobody ends before everybody has used all that is its own.
                    all_there.wait();
                    let mut spread = made?;
                    wander(&mut spread, 0x9e37_79b9 * number, 12)?;
                    spread.check(RANGES - 1)
                };
                scope.spawn(move || on_thread(process, work))
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a worker panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    processes.iter().for_each(|process| process.exit());
    outcomes.into_iter().collect::<Result<Vec<()>, Failure>>()?;
    let counts = counts(case.system);
    ensure!(counts.tables_evicted > 0 && counts.tables_restored > 0, "the tables of all three fit: {counts:?}");
    Ok(())
}

fn ring_leaves(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("a context: {status}")))?;
    let mut queue = rig.queue_placed(context, 64, Placement::VramVisible)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[fence.signal(1)])?;
    for memory in [queue.ring, queue.control, queue.commands] {
        granted(rig.evict(memory.handle), "taking what a doorbell uses off the list")?;
    }
    // Commands are the case's own care.
    rig.make_resident(queue.commands.handle)?;
    let mut hog = Hog::new(case.system)?;
    for round in 1..=3u64 {
        let (gate, value) = blocked(&rig, &mut queue)?;
        let before = counts(case.system).evicted;
        hog.take()?;
        ensure_eq!(counts(case.system).evicted, before, "allocations that left while the queue waited");
        granted(rig.signal(&[gate.handle], &[1]), "a signal of the CPU")?;
        wait_until("the work", || queue.progress.load() >= value)?;
        hog.take()?;
        ensure_eq!(counts(case.system).evicted - before, 2, "ring and ring control, which left when the work was done");
        // Stored where the ring is now, at the address where it always was.
        let value = queue.append(&[fence.signal(1 + round)])?;
        hog.give_back()?;
        rig.ring(&queue)?;
        wait_until("what was stored while the ring was away", || queue.progress.load() >= value)?;
        ensure_eq!(fence.value.load(), 1 + round, "the fence");
        let destroyed = rig.destroy_allocation(queue.ring.handle);
        refused(destroyed, &[STATUS_GRAPHICS_ALLOCATION_BUSY], "destroying a ring of a doorbell")?;
    }
    Ok(())
}

/// A value that nothing else in memory has.
fn unlike(number: u64) -> u64 {
    0x7ab1_e5ee_0000_0000 + number
}

fn watch(rig: &Rig, fence: &RawFence, value: u64) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number())), "a wait")?;
    Ok(event)
}

fn is_away(system: &System, number: u64) -> Result<bool, Failure> {
    Ok(places_in_vram(system, unlike(number))?.is_empty())
}

fn fences_leave(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut copies) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let mut hog = Hog::new(case.system)?;
    for round in 0..2u64 {
        let base = 100 * round;
        let (engines, watched): (Intra, RawFence) =
            (intra(&rig, &mut queue, unlike(base + 50))?, rig.fence(unlike(base))?);
        let before = watch(&rig, &watched, unlike(base + 8))?;
        ensure!(!is_away(case.system, base + 50)? && !is_away(case.system, base + 7)?, "the values are not in VRAM");
        hog.take()?;
        ensure!(is_away(case.system, base + 50)?, "the current value of a fence between engines stayed");
        ensure!(is_away(case.system, base + 7)?, "a monitored value stayed");
        // The processor finds both values where they are.
        let inside = watch(&rig, &watched, unlike(base + 20))?;
        granted(rig.signal(&[watched.handle], &[unlike(base + 8)]), "a signal of the CPU")?;
        before.wait()?;
        ensure!(is_away(case.system, base + 19)?, "a monitored value was written to VRAM, which is somebody else's");
        ensure_eq!(watched.value.load(), unlike(base + 8), "the value that user mode reads");
        hog.give_back()?;
        let held = rig.submit(&mut copies, &[engines.wait(unlike(base + 51)), watched.signal(unlike(base + 20))])?;
        rig.execute(&mut queue, &[engines.wait(unlike(base + 50)), watched.signal(unlike(base + 9))])?;
        ensure!(!is_away(case.system, base + 19)?, "the monitored value is not back");
        ensure!(copies.progress.load() < held, "a wait for a larger value was over");
        rig.execute(&mut queue, &[engines.signal(unlike(base + 51))])?;
        inside.wait()?;
        wait_until("the other engine", || copies.progress.load() >= held)?;
    }
    let counts = counts(case.system);
    ensure!(counts.fences_evicted >= 4 && counts.fences_restored >= 4, "pages that left and came back: {counts:?}");
    Ok(())
}

fn out_of_d0(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 10, 1)?;
    let engines = intra(&spread.rig, &mut spread.queue, 5)?;
    let watched = spread.rig.fence(0)?;
    let mut hog = Hog::new(case.system)?;
    for round in 1..=3 {
        let event = watch(&spread.rig, &watched, round)?;
        hog.take()?;
        let before = counts(case.system);
        ensure!(before.tables_evicted >= round, "no tables left: {before:?}");
        power_down(case.system)?;
        let value =
            spread.queue.append(&[engines.wait(4 + round), engines.signal(5 + round), watched.signal(round)])?;
        hog.give_back()?;
        if round != 2 {
            // The doorbell wakes the device and the process.
            power_down(case.system)?;
        }
        spread.rig.ring(&spread.queue)?;
        wait_until("the work of D3", || spread.queue.progress.load() >= value)?;
        event.wait()?;
        ensure!(counts(case.system).tables_restored > before.tables_restored, "no tables came back");
        spread.check_all()?;
    }
    Ok(())
}

fn over_a_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 10, 1)?;
    intra(&spread.rig, &mut spread.queue, 5)?;
    let mut hog = Hog::new(case.system)?;
    hog.take()?;
    hog.give_back()?;
    let before = counts(case.system);
    ensure_eq!(
        (before.tables_evicted, before.tables_restored),
        (1, 0),
        "address spaces whose tables left and came back"
    );
    case.in_other_process(super::hang::adapter_timeout)?;
    refused(spread.rig.connect(spread.queue.doorbell), crate::kmt::DEVICE_LOST, "a doorbell of a device that is lost")?;
    granted(spread.rig.destroy(), "destroying the lost device")?;
    let mut fresh = Spread::new(case.rig()?, NODE_COPY, 10, 9)?;
    fresh.check_all()?;
    let mut other = Hog::new(case.system)?;
    other.take()?;
    other.give_back()?;
    fresh.check_all()?;
    let after = counts(case.system);
    ensure!(after.tables_evicted > 1 && after.tables_restored > 1, "tables left and came back no more: {after:?}");
    Ok(())
}

fn to_the_end(case: &mut Case<'_>) -> Result<(), Failure> {
    let machine = case.system.machine();
    for terminated in [false, true] {
        let process = Process::new(machine, "spread");
        let luid = case.system.luid();
        on_thread(&process, || {
            let mut spread = Spread::new(Rig::open(luid)?, NODE_COPY, 10, 1)?;
            intra(&spread.rig, &mut spread.queue, 5).map(drop)
        })?;
        let mut hog = Hog::new(case.system)?;
        hog.take()?;
        let before = counts(case.system);
        ensure!(before.tables_evicted > 0 && before.fences_evicted > 0, "nothing left: {before:?}");
        if terminated {
            process.terminate();
        } else {
            process.exit();
        }
        ensure_eq!(
            counts(case.system).tables_restored,
            before.tables_restored,
            "address spaces whose tables came back"
        );
    }
    let mut spread = Spread::new(case.rig()?, NODE_COPY, 10, 1)?;
    intra(&spread.rig, &mut spread.queue, 5)?;
    let mut hog = Hog::new(case.system)?;
    hog.take()?;
    case.system.pull_out(0)?;
    case.system.notice_removal(0)?;
    refused(spread.rig.connect(spread.queue.doorbell), crate::kmt::DEVICE_LOST, "connecting a doorbell")?;
    granted(spread.rig.destroy(), "destroying the device")?;
    drop(hog);
    Ok(case.system.start()?)
}
