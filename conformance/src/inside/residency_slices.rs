//! Processes that always have work to do, with more on their residency lists than memory holds: each is resident for a time slice.

use std::sync::Arc;

use campanile_hw::packet::Packet;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Process, ResidencyCounts};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::fence_storage::{intra, local};
use super::hog::counts;
use crate::kmt::BAD_ARGUMENT;
use crate::rig::{
    KernelHandle, KernelQueue, Memory, PacketQueue, RawFence, RawQueue, Rig, View, copy, fill, wait_until,
};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "Residency", needs UserModeSubmission, behind "it is several processes on a GPU whose memory it chooses";
    "Residency.BusyProcessesGetTimeSlices" on Boot::With(tiny_vram), "driver-residency-in-wddm-2-0":
        "Processes that never run out of work and whose residency lists together are four times what VRAM holds, by doorbells, through the kernel and as packets, all get on, and every byte of each is right."
        => alternate;
    "Residency.WorkOfASuspendedProcessGoesOn" on Boot::With(tiny_vram), "driver-residency-in-wddm-2-0":
        "A process that works is suspended for another one that cannot trim further; what it has queued by then is executed in its next time slice, without the process doing anything, and finds its allocations, page tables, fence values and rings."
        => goes_on;
    "Residency.WaitForASuspendedProcessEnds" on Boot::With(tiny_vram), "driver-residency-in-wddm-2-0":
        "A process waits on the GPU for a fence that another one signals, which was suspended so that it has memory: both get on."
        => waiter_and_signaller;
    "Residency.QueuedWorkKeepsWhatItUses" on Boot::With(tiny_vram), "d3dkmtevict":
        "An allocation that is evicted while queued work uses it still comes back with its process when that was suspended in between."
        => evicted_while_queued;
    "Residency.BusyProcessGivesWayToTables" on Boot::With(tiny_vram), "d3dkmtmapgpuvirtualaddress":
        "Mappings and fences of a process find memory for page tables and fence values although processes that work keep all of VRAM resident."
        => gives_way_to_tables;
    "Residency.WhatNeverFitsSuspendsNobody" on Boot::With(tiny_vram), "d3dkmtmakeresident":
        "A request that does not fit with everybody else away is refused for want of memory, and so is one of a process that may trim further; for neither is anybody suspended."
        => never_fits;
}

/// Half of it is the driver's.
const VRAM: u64 = 4 << 20;
pub(super) const SIZE: u64 = 128 << 10;
/// Allocations on the residency list of each process: more than half of what there is for applications.
pub(super) const EACH: usize = 11;

pub(super) fn tiny_vram() -> SystemOptions {
    let mut options = local();
    (options.variant.vram_size, options.variant.vram_window) = (VRAM, VRAM);
    options.variant.queue_limit = 64;
    options
}

/// What MakeResident says; a paging fence is waited for.
pub(super) fn request(rig: &Rig, list: &[D3DKMT_HANDLE], cannot_trim: bool) -> Result<NTSTATUS, Failure> {
    let mut list = list.to_vec();
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations) = (rig.paging_queue, list.len() as u32);
    (request.AllocationList, request.Flags) =
        (list.as_mut_ptr(), D3DDDI_MAKERESIDENT_FLAGS::new().with_CantTrimFurther(cannot_trim));
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
    if status.is_success() {
        rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?;
    }
    Ok(status)
}

/// Submission model of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Doorbell,
    Kernel,
    Packets,
}

pub(super) const WAYS: [Way; 3] = [Way::Doorbell, Way::Kernel, Way::Packets];

pub(super) enum Queue {
    Doorbell(RawQueue),
    Kernel(KernelQueue),
    Packets(PacketQueue),
}

impl Queue {
    fn new(rig: &Rig, way: Way, node: u32) -> Result<Self, Failure> {
        Ok(match way {
            Way::Doorbell => Self::Doorbell(rig.queue(node)?),
            Way::Kernel => Self::Kernel(rig.kernel_queue(node)?),
            Way::Packets => Self::Packets(rig.packet_queue(node)?),
        })
    }

    pub(super) fn submit(&mut self, rig: &Rig, packets: &[Packet]) -> Result<u64, Failure> {
        match self {
            Self::Doorbell(queue) => rig.submit(queue, packets),
            Self::Kernel(queue) => rig.kernel_submit(queue, packets),
            Self::Packets(queue) => rig.packet_submit(queue, packets),
        }
    }

    fn progress(&self) -> u64 {
        match self {
            Self::Doorbell(queue) => queue.progress.load(),
            Self::Kernel(queue) => queue.progress.load(),
            Self::Packets(queue) => queue.progress.value.load(),
        }
    }

    pub(super) fn wait(&self, value: u64) -> Result<(), Failure> {
        wait_until("the end of a job", || self.progress() >= value)
    }
}

/// A process that has work under way until the case ends it.
pub(super) struct Busy {
    pub(super) rig: Rig,
    pub(super) queue: Queue,
    /// Work of the same way that waits for a fence, and so never ends by itself.
    held: (Queue, RawFence, u64),
    /// Allocations on the residency list, and what is in each.
    all: Vec<(Memory, u32)>,
    pub(super) seen: Memory,
    view: View,
}

impl Busy {
    pub(super) fn new(rig: Rig, way: Way, node: u32) -> Result<Self, Failure> {
        let (queue, mut held) = (Queue::new(&rig, way, node)?, Queue::new(&rig, way, NODE_COMPUTE)?);
        let seen = rig.memory(EACH as u64 * SIZE, Placement::System)?;
        let view = rig.view(seen)?;
        let gate = rig.fence(0)?;
        let value = held.submit(&rig, &[gate.wait(1)])?;
        let mut all = Vec::new();
        for _ in 0..EACH {
            let created = rig.create(SIZE, Placement::Vram);
            let handle = created.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
            let address = rig.map(rig.map_request(handle, SIZE))?;
            all.push((Memory { handle, address, size: SIZE }, 0));
        }
        Ok(Self { rig, queue, held: (held, gate, value), all, seen, view })
    }

    /// As [`Busy::new`], with everything resident at once.
    pub(super) fn resident(rig: Rig, way: Way, node: u32) -> Result<Self, Failure> {
        let busy = Self::new(rig, way, node)?;
        granted(request(&busy.rig, &busy.handles(), true)?, "a request with CantTrimFurther")?;
        Ok(busy)
    }

    pub(super) fn handles(&self) -> Vec<D3DKMT_HANDLE> {
        self.all.iter().map(|(memory, _)| memory.handle).collect()
    }

    /// Queues work that writes an allocation.
    pub(super) fn write(&mut self, place: usize, pattern: u32) -> Result<u64, Failure> {
        self.all[place].1 = pattern;
        self.queue.submit(&self.rig, &[fill(self.all[place].0.address, SIZE, pattern)])
    }

    /// Queues work that writes every allocation, and waits for its end.
    pub(super) fn write_all(&mut self, seed: u32) -> Result<(), Failure> {
        let values = (0..EACH).map(|place| self.write(place, seed + place as u32));
        let values = values.collect::<Result<Vec<u64>, Failure>>()?;
        self.queue.wait(values[EACH - 1])
    }

    /// Every allocation holds what was written last.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        self.view.fill(0xee);
        let mut value = 0;
        for (place, (memory, _)) in (0..).zip(&self.all) {
            let packets = [copy(self.seen.address + place * SIZE, memory.address, SIZE as u32)];
            value = self.queue.submit(&self.rig, &packets)?;
        }
        self.queue.wait(value)?;
        (0..EACH).try_for_each(|place| self.saw(place, self.all[place].1))
    }

    pub(super) fn saw(&self, place: usize, pattern: u32) -> Result<(), Failure> {
        let wrong = self.view.read(place as u64 * SIZE, SIZE).chunks(4).position(|word| word != pattern.to_le_bytes());
        ensure!(wrong.is_none(), "word {wrong:?} of allocation {place} is not {pattern:#x}");
        Ok(())
    }

    /// Writes and reads everything, so many times.
    pub(super) fn work(&mut self, seed: u32, jobs: u32) -> Result<(), Failure> {
        for job in 0..jobs {
            self.write_all(seed + 100 * job)?;
            self.check()?;
        }
        Ok(())
    }

    /// Lets the work that waits end.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let (held, gate, value) = &self.held;
        ensure!(held.progress() < *value, "the work that waits for the case is over");
        granted(self.rig.signal(&[gate.handle], &[1]), "a signal of the CPU")?;
        held.wait(*value)
    }
}

/// Another process and what it does; it ends with this.
pub(super) struct Guest<T> {
    pub(super) process: Arc<Process>,
    it: Option<T>,
}

impl<T: Send> Guest<T> {
    pub(super) fn new(system: &System, make: impl FnOnce(Rig) -> Result<T, Failure> + Send) -> Result<Self, Failure> {
        let process = Process::new(system.machine(), "busy");
        let it = on_thread(&process, || make(Rig::open(system.luid())?));
        match it {
            Ok(it) => Ok(Self { process, it: Some(it) }),
            Err(failure) => {
                process.exit();
                Err(failure)
            }
        }
    }

    pub(super) fn inside<R: Send>(
        &mut self,
        work: impl FnOnce(&mut T) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        let Self { process, it } = self;
        let it = it.as_mut().ok_or_else(|| Failure::new("the process is gone"))?;
        on_thread(process, || work(it))
    }
}

impl<T> Drop for Guest<T> {
    fn drop(&mut self) {
        self.process.exit();
    }
}

fn alternate(case: &mut Case<'_>) -> Result<(), Failure> {
    // Of the two MiB that there are each has eleven eighths: all together more than four times as much.
    const PROCESSES: u32 = 6;
    let system = &*case.system;
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PROCESSES)
            .map(|number| {
                scope.spawn(move || {
                    let way = WAYS[number as usize % WAYS.len()];
                    let node = if number % 2 == 0 { NODE_COPY } else { NODE_COMPUTE };
                    let mut guest = Guest::new(system, |rig| Busy::resident(rig, way, node))?;
                    let mut seed = 0x1000_0000 * (number + 1);
                    guest.inside(|busy| busy.work(seed, 2))?;
                    // A process that is done early submits more until every process was suspended once.
                    while counts(system).suspended < u64::from(PROCESSES) {
                        seed += 1000;
                        guest.inside(|busy| busy.work(seed, 1))?;
                    }
                    guest.inside(|busy| busy.finish())
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a worker panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect::<Result<Vec<()>, Failure>>()?;
    let counts = counts(case.system);
    ensure!(counts.suspended >= u64::from(PROCESSES), "hardly anybody was suspended: {counts:?}");
    Ok(())
}

/// Takes what is left, down to the last page, from processes that have nothing on their residency lists there.
fn take_the_rest(rig: &Rig) -> Result<(), Failure> {
    for size in [64 << 10, 4096] {
        loop {
            let handle = rig.create(size, Placement::Vram);
            let handle = handle.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
            if request(rig, &[handle], true)? == STATUS_NO_MEMORY {
                break granted(rig.destroy_allocation(handle), "destroying what did not fit")?;
            }
        }
    }
    Ok(())
}

fn goes_on(case: &mut Case<'_>) -> Result<(), Failure> {
    for (round, way) in (1u32..).zip(WAYS) {
        let mut first = Guest::new(case.system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        // A fence of engines, whose value lies in VRAM, and work that needs both behind a gate.
        let (gate, values) = first.inside(|busy| {
            let mut ring = busy.rig.queue(NODE_COPY)?;
            let engines = intra(&busy.rig, &mut ring, 5)?;
            let gate = busy.rig.fence(0)?;
            busy.queue.submit(&busy.rig, &[gate.wait(1), engines.wait(5), engines.signal(6)])?;
            let values = (0..EACH).map(|place| busy.write(place, 0x100 * round + place as u32));
            let values = values.collect::<Result<Vec<u64>, Failure>>()?;
            busy.queue.submit(&busy.rig, &[engines.wait(6)])?;
            Ok((gate, values))
        })?;
        let before = counts(case.system);
        let mut second = Guest::new(case.system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        let after = counts(case.system);
        ensure!(after.suspended > before.suspended, "nobody was suspended: {after:?}");
        ensure!(after.evicted >= before.evicted + 4, "what was on the list did not leave: {after:?}");
        second.inside(|busy| {
            if way == Way::Doorbell {
                take_the_rest(&busy.rig)?;
            }
            busy.write_all(7)
        })?;
        first.inside(|busy| {
            granted(busy.rig.signal(&[gate.handle], &[1]), "a signal of the CPU")?;
            // No thunk is called for what was queued.
            wait_until("the queued work", || busy.queue.progress() > values[EACH - 1])?;
            busy.check()?;
            busy.finish()
        })?;
        second.inside(|busy| {
            busy.check()?;
            busy.finish()
        })?;
        let last = counts(case.system);
        let restored = |counts: &ResidencyCounts| (counts.tables_restored, counts.fences_restored);
        let ((tables, fences), (tables_before, fences_before)) = (restored(&last), restored(&before));
        let back = tables > tables_before && fences > fences_before;
        ensure!(way != Way::Doorbell || back, "page tables or fence values stayed where they were: {last:?}");
    }
    Ok(())
}

fn waiter_and_signaller(case: &mut Case<'_>) -> Result<(), Failure> {
    for way in WAYS {
        let mut signaller = Guest::new(case.system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        let (shared, gate, handle) = signaller.inside(|busy| {
            let (shared, gate) = (busy.rig.shared_fence(0)?, busy.rig.fence(0)?);
            let handle = busy.rig.share(&[shared.handle]);
            let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
            busy.write(3, 0x3333)?;
            busy.queue.submit(&busy.rig, &[gate.wait(1), shared.signal(9)])?;
            Ok((shared, gate, handle))
        })?;
        let before = counts(case.system).suspended;
        let mut waiter = Guest::new(case.system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        let theirs = signaller.process.duplicate_handle(handle.raw(), &waiter.process);
        let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
        let theirs = KernelHandle(theirs.addr());
        let value = waiter.inside(|busy| {
            let opened = busy.rig.open_fence(theirs)?;
            busy.queue.submit(&busy.rig, &[opened.wait(9), fill(busy.all[1].0.address, SIZE, 0x1111)])
        })?;
        ensure!(counts(case.system).suspended > before, "the signaller kept its memory");
        ensure_eq!(shared.value.load(), 0, "the fence before its signal");
        signaller.inside(|busy| granted(busy.rig.signal(&[gate.handle], &[1]), "a signal of the CPU"))?;
        waiter.inside(|busy| {
            busy.queue.wait(value)?;
            busy.all[1].1 = 0x1111;
            busy.check()?;
            busy.finish()
        })?;
        signaller.inside(|busy| {
            busy.check()?;
            busy.finish()
        })?;
    }
    Ok(())
}

fn evicted_while_queued(case: &mut Case<'_>) -> Result<(), Failure> {
    for way in WAYS {
        let mut first = Guest::new(case.system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        let (gate, value) = first.inside(|busy| {
            let written = busy.write(2, 0x2222)?;
            busy.queue.wait(written)?;
            let gate = busy.rig.fence(0)?;
            let packets = [gate.wait(1), copy(busy.seen.address, busy.all[2].0.address, SIZE as u32)];
            let value = busy.queue.submit(&busy.rig, &packets)?;
            granted(busy.rig.evict(busy.all[2].0.handle), "evict")?;
            Ok((gate, value))
        })?;
        let before = counts(case.system).suspended;
        let mut second = Guest::new(case.system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        ensure!(counts(case.system).suspended > before, "nobody was suspended");
        second.inside(|busy| busy.write_all(7))?;
        first.inside(|busy| {
            granted(busy.rig.signal(&[gate.handle], &[1]), "a signal of the CPU")?;
            busy.queue.wait(value)?;
            busy.saw(0, 0x2222)?;
            refused(busy.rig.evict(busy.all[2].0.handle), BAD_ARGUMENT, "evicting it again")?;
            busy.finish()
        })?;
        second.inside(|busy| busy.finish())?;
    }
    Ok(())
}

fn gives_way_to_tables(case: &mut Case<'_>) -> Result<(), Failure> {
    const FAR: u64 = 1 << 40;
    let mut second = Guest::new(case.system, |rig| {
        let memory = rig.memory(SIZE, Placement::System)?;
        Ok((rig.queue(NODE_COPY)?, memory, rig.view(memory)?, rig))
    })?;
    let mut first = Guest::new(case.system, |rig| Busy::resident(rig, Way::Doorbell, NODE_COPY))?;
    first.inside(|busy| {
        take_the_rest(&busy.rig)?;
        busy.write(0, 0x77).map(drop)
    })?;
    let before = counts(case.system).suspended;
    second.inside(|(queue, memory, view, rig)| {
        let engines = intra(rig, queue, 5)?;
        let mut far = rig.map_request(memory.handle, SIZE);
        far.BaseAddress = FAR;
        rig.map(far)?;
        rig.execute(queue, &[engines.wait(5), fill(FAR, SIZE, 0x5555_5555), engines.signal(6)])?;
        ensure!(view.read(0, SIZE).iter().all(|byte| *byte == 0x55), "other bytes");
        Ok(())
    })?;
    ensure!(counts(case.system).suspended > before, "the process that works kept its memory");
    first.inside(|busy| {
        busy.check()?;
        busy.finish()
    })
}

fn never_fits(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut first = Guest::new(case.system, |rig| Busy::resident(rig, Way::Doorbell, NODE_COPY))?;
    let before = counts(case.system);
    let mut second = Guest::new(case.system, |rig| Busy::new(rig, Way::Doorbell, NODE_COPY))?;
    second.inside(|busy| {
        refused(request(&busy.rig, &busy.handles(), false)?, &[STATUS_NO_MEMORY], "a request without CantTrimFurther")?;
        let more = (0..8).map(|_| busy.rig.create(SIZE, Placement::Vram));
        let more = more.collect::<Result<Vec<_>, NTSTATUS>>();
        let mut all = more.map_err(|status| Failure::new(format!("allocations: {status}")))?;
        all.extend(busy.handles());
        refused(request(&busy.rig, &all, true)?, &[STATUS_NO_MEMORY], "more than VRAM")?;
        refused(busy.rig.evict(all[0]), BAD_ARGUMENT, "evicting what the refused request named")
    })?;
    ensure_eq!(counts(case.system).suspended, before.suspended, "how often somebody was suspended");
    second.inside(|busy| {
        granted(request(&busy.rig, &busy.handles(), true)?, "as much as fits")?;
        // Beside its own list: others cannot help.
        let more = (0..5).map(|_| busy.rig.create(SIZE, Placement::Vram));
        let all = more
            .collect::<Result<Vec<_>, NTSTATUS>>()
            .map_err(|status| Failure::new(format!("allocations: {status}")))?;
        refused(request(&busy.rig, &all, true)?, &[STATUS_NO_MEMORY], "what does not fit beside its own list")?;
        busy.work(3, 1)?;
        busy.finish()
    })?;
    first.inside(|busy| {
        busy.work(5, 1)?;
        busy.finish()
    })
}
