//! Page tables, fence values and rings while allocations fight for a small VRAM.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::fence_storage::{Intra, intra, local};
use crate::kmt::BAD_ARGUMENT;
use crate::rig::{Memory, RawFence, RawQueue, Rig, View, copy, fill};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "Residency", needs UserModeSubmission, behind "it is several processes on a GPU whose memory it chooses";
    "Residency.TablesAndFencesOutlastPressure" on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "Three processes whose allocations push each other out of VRAM find every translation, every fence value and every byte as they were, in page tables and fence storage that share VRAM with them; rings stay where they are."
        => outlast;
    "Residency.FullVramRefusesTablesByName" on Boot::With(small_vram), "d3dkmtmapgpuvirtualaddress":
        "Where resident allocations leave no memory for page tables, a mapping is refused for want of memory and leaves nothing behind; it works when memory was freed."
        => no_memory_for_tables;
}

const VRAM: u64 = 16 << 20;
const SIZE: u64 = 512 << 10;
/// Allocations of each process: three have more than VRAM.
const EACH: usize = 14;
/// Ranges of each process, so far from each other that none shares a page table with another.
const RANGES: usize = 40;
const APART: u64 = 1 << 31;
const STEPS: usize = 24;

fn small_vram() -> SystemOptions {
    let mut options = local();
    (options.variant.vram_size, options.variant.vram_window) = (VRAM, VRAM);
    options.variant.queue_limit = 256;
    options
}

/// A process, and what it must find.
struct Worker {
    rig: Rig,
    queue: RawQueue,
    /// Allocation, pattern.
    all: Vec<(Memory, u32)>,
    /// Which allocation each range shows.
    ranges: Vec<Option<usize>>,
    native: RawFence,
    monitored: RawFence,
    engines: Intra,
    value: u64,
    seen: Memory,
    view: View,
    random: fastrand::Rng,
}

impl Worker {
    fn new(rig: Rig, node: u32, seed: u64) -> Result<Self, Failure> {
        let mut queue = rig.queue(node)?;
        let create = |_| {
            let created = rig.create(SIZE, Placement::Vram);
            let handle = created.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
            Ok((Memory { handle, address: 0, size: SIZE }, 0))
        };
        let all = (0..EACH).map(create).collect::<Result<_, Failure>>()?;
        let (native, engines) = (rig.fence(0)?, intra(&rig, &mut queue, 0)?);
        let monitored = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
        let seen = rig.memory(SIZE, Placement::System)?;
        let (view, ranges) = (rig.view(seen)?, vec![None; RANGES]);
        Ok(Self {
            rig,
            queue,
            all,
            ranges,
            native,
            monitored,
            engines,
            value: 0,
            seen,
            view,
            random: fastrand::Rng::with_seed(seed),
        })
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.usize(..bound)
    }

    fn address(range: usize) -> u64 {
        (range as u64 + 1) * APART
    }

    /// Others give memory back all the time.
    fn until_memory_suffices(&self, mut request: impl FnMut() -> NTSTATUS) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match request() {
                STATUS_NO_MEMORY if Instant::now() < deadline => std::thread::yield_now(),
                status => return granted(status, "a request while memory is short"),
            }
        }
    }

    fn make_resident(&self, place: usize) -> Result<(), Failure> {
        use wddm_ddi::Zeroed;
        let mut list = self.all[place].0.handle;
        let mut request = D3DDDI_MAKERESIDENT::zeroed();
        (request.hPagingQueue, request.NumAllocations) = (self.rig.paging_queue, 1);
        request.AllocationList = &mut list;
        self.until_memory_suffices(|| {
            request.NumAllocations = 1;
            self.rig.kmt.call(self.rig.kmt.table().D3DKMTMakeResident, &mut request)
        })?;
        self.rig.settle(STATUS_SUCCESS, request.PagingFenceValue, "D3DKMTMakeResident")
    }

    /// Fails unless the GPU reads, through the addresses of a range, the pattern of the allocation that is mapped there.
    fn check(&mut self, range: usize) -> Result<(), Failure> {
        let Some(place) = self.ranges[range] else { return Ok(()) };
        let pattern = self.all[place].1;
        self.view.fill(0xee);
        self.rig.execute(&mut self.queue, &[copy(self.seen.address, Self::address(range), SIZE as u32)])?;
        let wrong = self.view.read(0, SIZE).chunks(4).position(|word| word != pattern.to_le_bytes());
        ensure!(wrong.is_none(), "word {wrong:?} at range {range} is not {pattern:#x}");
        Ok(())
    }

    /// Every fence takes one step, once the GPU has found each where the last step left it.
    fn fences(&mut self) -> Result<(), Failure> {
        let found = (self.native.value.load(), self.monitored.value.load());
        ensure_eq!(found, (self.value, self.value), "values of the native and the monitored fence");
        let (value, native, monitored, engines) = (self.value + 1, self.native, self.monitored, self.engines);
        let found = [native.wait(self.value), monitored.wait(self.value), engines.wait(self.value)];
        self.rig.execute(&mut self.queue, &found)?;
        let packets = [engines.signal(value), monitored.signal(value), native.signal(value)];
        self.rig.execute(&mut self.queue, &packets)?;
        self.value = value;
        granted(self.rig.wait(&[native.handle], &[value], false), "a wait of the CPU")
    }

    fn step(&mut self) -> Result<(), Failure> {
        let (place, range) = (self.below(EACH), self.below(RANGES));
        self.make_resident(place)?;
        if self.ranges[range].take().is_some() {
            granted(self.rig.free(Self::address(range), SIZE), "freeing a range")?;
        }
        let mut request = self.rig.map_request(self.all[place].0.handle, SIZE);
        request.BaseAddress = Self::address(range);
        self.until_memory_suffices(|| {
            self.rig.kmt.call(self.rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request)
        })?;
        self.ranges[range] = Some(place);
        // Freshly written through the new range, read through every one that shows it.
        let pattern = self.below(u32::MAX as usize) as u32;
        self.rig.execute(&mut self.queue, &[fill(Self::address(range), SIZE, pattern)])?;
        self.all[place].1 = pattern;
        let shows: Vec<usize> = (0..RANGES).filter(|range| self.ranges[*range] == Some(place)).collect();
        shows.into_iter().try_for_each(|range| self.check(range))?;
        self.fences()?;
        granted(self.rig.evict(self.all[place].0.handle), "evict")
    }

    /// Uses every allocation once, so that all of them together do not fit.
    fn tour(self) -> Result<Self, Failure> {
        for place in 0..EACH {
            self.make_resident(place)?;
            granted(self.rig.evict(self.all[place].0.handle), "evict")?;
        }
        Ok(self)
    }

    fn run(mut self) -> Result<(), Failure> {
        let rings = [self.queue.ring.handle, self.queue.control.handle];
        for ring in rings {
            let destroyed = self.rig.destroy_allocation(ring);
            refused(destroyed, &[STATUS_GRAPHICS_ALLOCATION_BUSY], "destroying a ring of a doorbell")?;
            refused(self.offer(ring), &[STATUS_GRAPHICS_ALLOCATION_BUSY], "offering a ring of a doorbell")?;
            granted(self.rig.evict(ring), "taking a ring off the list")?;
        }
        (0..STEPS).try_for_each(|_| self.step())?;
        for range in 0..RANGES {
            if let Some(place) = self.ranges[range] {
                self.make_resident(place)?;
                self.check(range)?;
                granted(self.rig.evict(self.all[place].0.handle), "evict")?;
            }
        }
        self.fences()
    }

    fn offer(&self, allocation: u32) -> NTSTATUS {
        use wddm_ddi::Zeroed;
        let mut list = allocation;
        let mut offer = D3DKMT_OFFERALLOCATIONS::zeroed();
        (offer.hDevice, offer.HandleList, offer.NumAllocations) = (self.rig.device, &mut list, 1);
        offer.Priority = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_NORMAL;
        self.rig.kmt.call(self.rig.kmt.table().D3DKMTOfferAllocations, &mut offer)
    }
}

fn outlast(case: &mut Case<'_>) -> Result<(), Failure> {
    let (luid, machine) = (case.system.luid(), case.system.machine());
    let processes = [1, 2, 3].map(|_| dxgkrnl::Process::new(machine, "busy"));
    // Nobody ends before everybody has used all that is its own.
    let all_there = Barrier::new(processes.len());
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1u64..)
            .zip(&processes)
            .map(|(number, process)| {
                let node = if number == 2 { NODE_COMPUTE } else { NODE_COPY };
                let all_there = &all_there;
                let work = move || {
                    let rig = Rig::open(luid);
                    let worker =
                        rig.and_then(|rig| Worker::new(rig, node, crate::seed::of(number))).and_then(Worker::tour);
                    all_there.wait();
                    worker?.run()
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
    let counts = machine.residency(luid).unwrap_or_default();
    let too_many = processes.len() * EACH - (VRAM / SIZE) as usize;
    ensure!(counts.evicted as usize >= too_many, "less left than did not fit: {counts:?}");
    Ok(())
}

fn no_memory_for_tables(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut worker = Worker::new(case.rig()?, NODE_COPY, 1)?;
    worker.make_resident(0)?;
    let rig = case.rig()?;
    // Everything down to the last page stays resident.
    let mut resident = Vec::new();
    for size in [1 << 20, 64 << 10, 4096] {
        while let Ok(handle) = rig.create(size, Placement::Vram) {
            if rig.make_resident(handle).is_err() {
                granted(rig.destroy_allocation(handle), "destroying what did not fit")?;
                break;
            }
            resident.push(handle);
        }
    }
    let mut request = worker.rig.map_request(worker.all[0].0.handle, SIZE);
    request.BaseAddress = Worker::address(3);
    for _ in 0..2 {
        let status = worker.rig.kmt.call(worker.rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
        refused(status, &[STATUS_NO_MEMORY], "a mapping without memory for its tables")?;
        refused(worker.rig.free(Worker::address(3), SIZE), BAD_ARGUMENT, "freeing what was refused")?;
    }
    resident.iter().try_for_each(|handle| granted(rig.destroy_allocation(*handle), "destroying an allocation"))?;
    let status = worker.rig.kmt.call(worker.rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
    granted(status, "the mapping, with memory for its tables")?;
    worker.ranges[3] = Some(0);
    worker.rig.execute(&mut worker.queue, &[fill(Worker::address(3), SIZE, 0x1357)])?;
    worker.all[0].1 = 0x1357;
    worker.check(3)?;
    worker.fences()
}
