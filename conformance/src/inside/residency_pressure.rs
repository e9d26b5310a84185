//! Residency when memory is short and several processes are busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use fastrand::Rng;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::BAD_ARGUMENT;
use crate::rig::{Memory, RawQueue, Rig, View, copy, fill};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;
use testbed::user::{Adapter, Device, Node, Queue, QueueOptions};

cases! { inside "Residency", behind "it is several processes on a GPU whose memory it chooses";
    "Residency.ThreeBusyProcessesShareVram" needs UserModeSubmission on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "Three processes work with four times as much memory as VRAM has, in any order, and every byte of each is right all the time."
        => three_processes;
    "Residency.FailedRequestLeavesNothingListed" on Boot::With(small_vram), "d3dkmtmakeresident":
        "A request of which a part does not fit makes none of it resident, says how much is missing, and succeeds when that was given back."
        => partial_failure;
    "Residency.UserModeDriverCannotTrimFurther" on Boot::With(small_vram), "driver-residency-in-wddm-2-0":
        "The user-mode driver, which has nothing to trim, says so when memory is short: two processes with buffers of more than half of VRAM each work in turn, and every byte of both is right."
        => driver_cannot_trim;
}

const VRAM: u64 = 8 << 20;
const SIZE: u64 = 512 << 10;
/// Allocations of each process.
const EACH: usize = 22;
/// Most that a process needs at once; what all need together fits into VRAM.
const SET: usize = 4;
const STEPS: usize = 20;

fn small_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (VRAM, VRAM);
    // Tables of queues take VRAM too.
    options.variant.queue_limit = 256;
    options
}

/// What the thunk returned, and how much is missing; a paging fence is waited for.
fn make_resident(rig: &Rig, list: &[D3DKMT_HANDLE]) -> Result<(NTSTATUS, u64), Failure> {
    let mut list = list.to_vec();
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations) = (rig.paging_queue, list.len() as u32);
    request.AllocationList = list.as_mut_ptr();
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
    if status.is_success() {
        rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?;
    }
    Ok((status, request.NumBytesToTrim))
}

/// Allocations of one process, and what they hold.
struct Worker {
    rig: Rig,
    queue: RawQueue,
    all: Vec<(Memory, u32)>,
    seen: Memory,
    view: View,
}

impl Worker {
    fn new(rig: Rig, node: u32) -> Result<Self, Failure> {
        let queue = rig.queue(node)?;
        let mut all = Vec::new();
        for _ in 0..EACH {
            let created = rig.create(SIZE, Placement::Vram);
            let handle = created.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
            let address = rig.map(rig.map_request(handle, SIZE))?;
            all.push((Memory { handle, address, size: SIZE }, 0));
        }
        let seen = rig.memory(SIZE, Placement::System)?;
        let view = rig.view(seen)?;
        Ok(Self { rig, queue, all, seen, view })
    }

    /// Others give memory back all the time.
    fn wait_resident(&self, list: &[D3DKMT_HANDLE]) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match make_resident(&self.rig, list)?.0 {
                STATUS_NO_MEMORY if Instant::now() < deadline => std::thread::yield_now(),
                status => return granted(status, "D3DKMTMakeResident"),
            }
        }
    }

    fn check(&mut self, place: usize) -> Result<(), Failure> {
        let (memory, pattern) = self.all[place];
        self.view.fill(0xee);
        self.rig.execute(&mut self.queue, &[copy(self.seen.address, memory.address, SIZE as u32)])?;
        let wrong = self.view.read(0, SIZE).chunks(4).position(|word| word != pattern.to_le_bytes());
        ensure!(wrong.is_none(), "word {wrong:?} of allocation {place} is not {pattern:#x}");
        Ok(())
    }

    /// Works with a few allocations that are resident meanwhile.
    fn step(&mut self, random: &mut Rng) -> Result<(), Failure> {
        let mut set: Vec<usize> = (0..=random.usize(..SET)).map(|_| random.usize(..EACH)).collect();
        set.sort_unstable();
        set.dedup();
        let handles: Vec<D3DKMT_HANDLE> = set.iter().map(|place| self.all[*place].0.handle).collect();
        self.wait_resident(&handles)?;
        for _ in 0..3 {
            let (to, from) = (set[random.usize(..set.len())], set[random.usize(..set.len())]);
            let (target, source) = (self.all[to].0, self.all[from]);
            if to == from {
                let pattern = random.u32(..);
                self.rig.execute(&mut self.queue, &[fill(target.address, SIZE, pattern)])?;
                self.all[to].1 = pattern;
            } else {
                self.rig.execute(&mut self.queue, &[copy(target.address, source.0.address, SIZE as u32)])?;
                self.all[to].1 = source.1;
            }
        }
        set.iter().try_for_each(|place| self.check(*place))?;
        handles.into_iter().try_for_each(|handle| granted(self.rig.evict(handle), "evict"))
    }

    fn run(mut self, seed: u64) -> Result<(), Failure> {
        let mut random = Rng::with_seed(seed);
        (0..STEPS).try_for_each(|_| self.step(&mut random))?;
        for place in 0..EACH {
            let handle = self.all[place].0.handle;
            self.wait_resident(&[handle])?;
            self.check(place)?;
            granted(self.rig.evict(handle), "evict")?;
        }
        Ok(())
    }
}

fn three_processes(case: &mut Case<'_>) -> Result<(), Failure> {
    let (luid, machine) = (case.system.luid(), case.system.machine());
    let processes = [1, 2, 3].map(|_| dxgkrnl::Process::new(machine, "busy"));
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0u64..)
            .zip(&processes)
            .map(|(number, process)| {
                scope.spawn(move || {
                    let node = if number == 1 { NODE_COMPUTE } else { NODE_COPY };
                    on_thread(process, || Worker::new(Rig::open(luid)?, node)?.run(crate::seed::of(number)))
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a worker panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    for process in &processes {
        process.exit();
    }
    outcomes.into_iter().collect::<Result<Vec<()>, Failure>>()?;
    let counts = case.system.machine().residency(luid).unwrap_or_default();
    ensure!(counts.evicted as usize > EACH, "hardly anything had to leave: {counts:?}");
    Ok(())
}

fn partial_failure(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let count = (VRAM / SIZE) as usize;
    let list: Vec<D3DKMT_HANDLE> = (0..count)
        .map(|_| rig.create(SIZE, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}"))))
        .collect::<Result<_, _>>()?;
    // All of VRAM, of which page tables need a part.
    let (status, missing) = make_resident(&rig, &list)?;
    refused(status, &[STATUS_NO_MEMORY], "a request that does not fit")?;
    ensure!(missing > 0 && missing < VRAM / 2, "{missing} bytes are said to be too many");
    for handle in &list {
        refused(rig.evict(*handle), BAD_ARGUMENT, "evicting what the failed request named")?;
    }
    let fits = &list[missing.div_ceil(SIZE) as usize..];
    granted(make_resident(&rig, fits)?.0, "the request without what was too much")?;
    fits.iter().try_for_each(|handle| granted(rig.evict(*handle), "evict"))?;
    let (half, rest) = list.split_at(count / 2);
    granted(make_resident(&rig, half)?.0, "half of them")?;
    refused(make_resident(&rig, rest)?.0, &[STATUS_NO_MEMORY], "the other half beside it")?;
    half.iter().try_for_each(|handle| granted(rig.evict(*handle), "evict"))?;
    granted(make_resident(&rig, rest)?.0, "the other half alone")?;
    rest.iter().try_for_each(|handle| granted(rig.evict(*handle), "evict"))
}

/// More than half of what there is for applications.
const LARGE: u64 = 9 << 19;
/// Fills of each process while the other has its buffer, too.
const ROUNDS: u64 = 10;

/// Fills a large buffer until both processes have done so for some rounds, and looks at its end each time.
fn works_beside(adapter: &Adapter, rounds: [&AtomicU64; 2]) -> Result<(), Failure> {
    let device = Device::new(adapter)?;
    let (large, seen) = (device.create_buffer(LARGE, Placement::Vram)?, device.create_buffer(4096, Placement::System)?);
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default())?;
    while rounds.iter().any(|rounds| rounds.load(Ordering::Acquire) < ROUNDS) {
        let pattern = rounds[0].load(Ordering::Acquire) as u32;
        let done = queue.submit(|commands| {
            commands.fill(large.gpu_address(), LARGE, pattern)?;
            commands.copy(seen.gpu_address(), large.gpu_address() + LARGE - 4096, 4096)
        })?;
        queue.wait_progress(done)?;
        let mut bytes = [0; 4096];
        seen.map()?.read(0, &mut bytes)?;
        ensure!(bytes.chunks(4).all(|word| word == pattern.to_le_bytes()), "other bytes after round {pattern}");
        rounds[0].fetch_add(1, Ordering::AcqRel);
    }
    Ok(())
}

fn driver_cannot_trim(case: &mut Case<'_>) -> Result<(), Failure> {
    let (luid, machine) = (case.system.luid(), case.system.machine());
    let rounds = [AtomicU64::new(0), AtomicU64::new(0)];
    let process = |own: usize| {
        let process = dxgkrnl::Process::new(machine, "large");
        let rounds = [&rounds[own], &rounds[1 - own]];
        let outcome = on_thread(&process, || works_beside(&Adapter::open_luid(luid)?, rounds));
        // Whoever fails does not keep the other one waiting.
        rounds[0].fetch_max(ROUNDS, Ordering::AcqRel);
        process.exit();
        outcome
    };
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|own| scope.spawn(move || process(own)));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("panicked"))))
    })?;
    let counts = machine.residency(luid).unwrap_or_default();
    ensure!(counts.evicted > 0, "nothing had to leave: {counts:?}");
    Ok(())
}
