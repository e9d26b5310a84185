//! Processes that are suspended and resumed, over and over, at random: their page tables, the root with them, come back elsewhere, and every
//! address shows what it is said to show, by every way of submission, on every kind of adapter.

use campanile_hw::packet::Packet;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use super::hog::{Hog, counts, small_vram};
use super::power_device::power_down;
use crate::rig::{KernelQueue, Memory, PacketQueue, RawQueue, Rig, View, copy, fill};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Residency", behind "it is several processes on a GPU whose memory it chooses";
    "Residency.RootsMoveAtRandom" needs UserModeSubmission on Boot::With(small_vram), "dxgkddi_setrootpagetable":
        "A process whose page tables leave again and again, and come back with their root elsewhere, finds at every address what its requests so far put there, by doorbell, by the kernel and by packets, over D3 as well."
        => all_ways;
    "Residency.RootsMoveWithPacketsAlone" on Boot::With(packets_alone), "dxgkddi_setrootpagetable":
        "The same where the operating system schedules packets and there are no hardware queues."
        => packets;
    "Residency.RootsMoveWithAGlobalDoorbell" needs UserModeSubmission on Boot::With(global_doorbell), "dxgkddi_setrootpagetable":
        "The same where all queues have one doorbell."
        => all_ways;
    "Residency.RootsMoveInThePagingProcess" needs UserModeSubmission on Boot::With(system_process), "dxgkddi_setrootpagetable":
        "The same on a GPU that knows fences by the root page table of their process, and reaches their values through the paging process."
        => all_ways;
    "Residency.RootsMoveOnASteppedGpu" on Boot::With(stepped), "dxgkddi_setrootpagetable":
        "The same on a GPU that moves only while somebody waits for it."
        => packets;
    "Residency.RootsMoveOnLinkedGpus" needs UserModeSubmission on Boot::With(linked), "linked-display-adapter":
        "A process is suspended on all GPUs of a linked adapter and gives up its page tables on that which is short of memory; when it works, each engine finds its own tables, wherever their roots are."
        => linked_gpus;
}

const SIZE: u64 = 16 << 10;
const RANGES: usize = 12;
/// Distance of ranges that share no page table of the two lowest levels.
const APART: u64 = 1 << 31;
const ROUNDS: usize = 6;

fn packets_alone() -> SystemOptions {
    let mut options = SystemOptions { variant: small_vram().variant, ..SystemOptions::default() };
    options.features.hardware_scheduling = false;
    options
}

fn global_doorbell() -> SystemOptions {
    let mut options = small_vram();
    options.variant.global_doorbell = true;
    options
}

fn system_process() -> SystemOptions {
    let mut options = small_vram();
    options.variant.system_process_fences = true;
    options
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..small_vram() }
}

fn linked() -> SystemOptions {
    let mut options = SystemOptions { variant: small_vram().variant, ..SystemOptions::default() };
    options.variant.linked = true;
    options
}

/// A way of having work done.
enum Way {
    Doorbell(RawQueue),
    Kernel(KernelQueue),
    Packets(PacketQueue),
}

impl Way {
    /// Has packets done, by thunks that have a stepped GPU move.
    fn execute(&mut self, rig: &Rig, packets: &[Packet]) -> Result<(), Failure> {
        match self {
            Self::Packets(queue) => rig.packet_execute(queue, packets),
            Self::Kernel(queue) => {
                let value = rig.kernel_submit(queue, packets)?;
                crate::rig::wait_until("the kernel's work", || queue.progress.load() >= value)
            }
            Self::Doorbell(queue) => {
                let value = rig.submit(queue, packets)?;
                granted(rig.wait(&[queue.progress_fence], &[value], false), "the wait for a queue")
            }
        }
    }
}

/// A device that works at addresses of its own, and what must be there.
struct Roamer {
    rig: Rig,
    ways: Vec<Way>,
    /// Allocation, pattern.
    all: Vec<(Memory, u32)>,
    /// Which allocation each range shows.
    ranges: Vec<Option<usize>>,
    /// First address of the ranges.
    base: u64,
    seen: Memory,
    view: View,
    random: fastrand::Rng,
}

impl Roamer {
    fn new(rig: Rig, ways: Vec<Way>, number: u64) -> Result<Self, Failure> {
        let all = (0..3).map(|_| Ok((rig.memory(SIZE, Placement::System)?, 0)));
        let all = all.collect::<Result<Vec<_>, Failure>>()?;
        let seen = rig.memory(SIZE, Placement::System)?;
        let view = rig.view(seen)?;
        let random = fastrand::Rng::with_seed(crate::seed::of(number));
        let base = (1 + number * RANGES as u64) * APART;
        Ok(Self { rig, ways, all, ranges: vec![None; RANGES], base, seen, view, random })
    }

    fn address(&self, range: usize) -> u64 {
        self.base + range as u64 * APART
    }

    fn execute(&mut self, packets: &[Packet]) -> Result<(), Failure> {
        let way = self.random.usize(..self.ways.len());
        self.ways[way].execute(&self.rig, packets)
    }

    /// A range shows another allocation than before, or none.
    fn remap(&mut self) -> Result<(), Failure> {
        let range = self.random.usize(..RANGES);
        if self.ranges[range].take().is_some() {
            granted(self.rig.free(self.address(range), SIZE), "freeing a range")?;
        }
        if self.random.u8(..4) != 0 {
            let place = self.random.usize(..self.all.len());
            let mut request = self.rig.map_request(self.all[place].0.handle, SIZE);
            request.BaseAddress = self.address(range);
            self.rig.map(request)?;
            self.ranges[range] = Some(place);
        }
        Ok(())
    }

    /// Writes through one range.
    fn write(&mut self) -> Result<(), Failure> {
        let range = self.random.usize(..RANGES);
        let Some(place) = self.ranges[range] else { return Ok(()) };
        let pattern = self.random.u32(1..);
        self.execute(&[fill(self.address(range), SIZE, pattern)])?;
        self.all[place].1 = pattern;
        Ok(())
    }

    /// Every range shows its allocation.
    fn check(&mut self) -> Result<(), Failure> {
        for range in 0..RANGES {
            let Some(place) = self.ranges[range] else { continue };
            let pattern = self.all[place].1;
            self.view.fill(0xee);
            self.execute(&[copy(self.seen.address, self.address(range), SIZE as u32)])?;
            let wrong = self.view.read(0, SIZE).chunks(4).position(|word| word != pattern.to_le_bytes());
            ensure!(wrong.is_none(), "word {wrong:?} at range {range} is not {pattern:#x}");
        }
        Ok(())
    }

    fn steps(&mut self, count: usize) -> Result<(), Failure> {
        for _ in 0..count {
            self.remap()?;
            self.write()?;
        }
        self.check()
    }
}

/// Takes all memory away again and again, and gives back other parts of it than it took from the tables.
fn rounds(case: &Case<'_>, roamers: &mut [Roamer], hog: &mut Hog, sleeps: bool) -> Result<(), Failure> {
    let begin = counts(case.system);
    for round in 0..ROUNDS {
        roamers.iter_mut().try_for_each(|roamer| roamer.steps(4))?;
        let before = counts(case.system);
        hog.take()?;
        ensure!(counts(case.system).tables_evicted > before.tables_evicted, "no tables left in round {round}");
        for roamer in &mut *roamers {
            // Noted, and so when the tables are back.
            roamer.remap()?;
        }
        if sleeps && round % 3 == 1 {
            power_down(case.system)?;
        }
        // Pieces as small as tables stay taken, so that these come back elsewhere.
        hog.give_back_from(if round % 3 == 2 { 0 } else { 64 << 10 })?;
        if sleeps && round % 3 == 0 {
            power_down(case.system)?;
        }
        roamers.iter_mut().try_for_each(Roamer::check)?;
    }
    let end = counts(case.system);
    ensure!(end.roots_moved > begin.roots_moved, "every root came back where it was: {end:?}");
    Ok(())
}

fn all_ways(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let ways = vec![
        Way::Doorbell(rig.queue(NODE_COPY)?),
        Way::Doorbell(rig.queue(NODE_COMPUTE)?),
        Way::Kernel(rig.kernel_queue(NODE_COPY)?),
        Way::Packets(rig.packet_queue(NODE_COMPUTE)?),
    ];
    let mut roamers = [Roamer::new(rig, ways, 0)?];
    rounds(case, &mut roamers, &mut Hog::new(case.system)?, true)
}

fn packets(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let ways = vec![Way::Packets(rig.packet_queue(NODE_COMPUTE)?), Way::Packets(rig.packet_queue(NODE_COPY)?)];
    let mut roamers = [Roamer::new(rig, ways, 1)?];
    rounds(case, &mut roamers, &mut Hog::new(case.system)?, false)
}

fn linked_gpus(case: &mut Case<'_>) -> Result<(), Failure> {
    let first = case.rig()?;
    let second = Rig::on_engine(first.kmt, first.adapter, 1)?;
    let mut roamers = Vec::new();
    for (number, rig) in (0..).zip([first, second]) {
        let ways = vec![Way::Doorbell(rig.queue(NODE_COPY)?), Way::Packets(rig.packet_queue(NODE_COMPUTE)?)];
        roamers.push(Roamer::new(rig, ways, number)?);
    }
    for engine in [1, 0] {
        rounds(case, &mut roamers, &mut Hog::on_engine(case.system, engine)?, engine == 0)?;
    }
    // Both are short at once.
    let mut hogs = [Hog::on_engine(case.system, 0)?, Hog::on_engine(case.system, 1)?];
    hogs.iter_mut().try_for_each(Hog::take)?;
    hogs.iter_mut().try_for_each(|hog| hog.give_back_from(64 << 10))?;
    roamers.iter_mut().try_for_each(|roamer| roamer.steps(3))
}
