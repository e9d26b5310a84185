//! Processes that are resident for a time slice each, when one of them ends, hangs or is lost, and when the device is in D3 or is reset.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use campanile_device::FaultRule;
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use dxgkrnl::{Clock, TdrOutcome, TdrReport};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::hang::{self, ACTIVE, FATAL, HUNG, time_out};
use super::hog::{Hog, counts};
use super::power_device::power_down;
use super::residency_slices::{Busy, EACH, Guest, SIZE, WAYS, Way, request, tiny_vram};
use crate::kmt::DEVICE_LOST;
use crate::rig::{RawFence, Rig, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "Residency", needs UserModeSubmission, behind "it is several processes on a GPU whose memory it chooses, and moves the clock on";
    "Residency.SuspendedProcessIsKilled" on Boot::With(by_hand), "driver-residency-in-wddm-2-0":
        "A process is terminated while it is suspended with work to do: nobody waits for its time slice, the others go on, and all it had is free."
        => killed;
    "Residency.SuspendedProcessOutOfD0" on Boot::With(by_hand), "driver-residency-in-wddm-2-0":
        "The device goes to D3 and comes back while a process is suspended with work to do, which is then done; every byte of each process is right."
        => out_of_d0;
    "Residency.SuspendedProcessOverAnEngineReset" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "The engine of the process whose time slice it is hangs and is reset: the one that was suspended gets the memory, and goes on with every byte right."
        holds [Tdr 14]
        => over_an_engine_reset;
    "Residency.SuspendedProcessOverAReset" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A reset of the adapter while a process is suspended loses the devices of both, nobody waits for a time slice, and new ones get time slices in turn."
        holds [Tdr 14]
        => over_a_reset;
    "Residency.ProcessThatHangsGivesWay" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A process that is to be suspended and does not leave its engine within TdrDelay is recovered from, and the request with CantTrimFurther gets its memory."
        holds [Tdr 14]
        => hung_gives_way;
    "Residency.PlainRequestSuspendsNobody" on Boot::With(by_hand), "d3dkmtmakeresident":
        "A process whose work was done and whose residency list had to leave may trim further: its request is refused, and says how much to give back, rather than that one that works is suspended; one that cannot trim gets its list back, and more."
        => plain_suspends_nobody;
    "Residency.PacketLongerThanATimeSlice" on Boot::With(patient), "driver-residency-in-wddm-2-0":
        "Two processes that do not fit beside each other both get to the end of a FILL that takes longer than their time slices, and of what comes behind it, by doorbells, through the kernel and as packets."
        => long_packets;
}

fn by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..tiny_vram() }
}

/// Time slices end all the time, and no work takes so long that it is a timeout.
fn patient() -> SystemOptions {
    let mut options = by_hand();
    options.tdr.delay = Duration::from_hours(24);
    options
}

/// Does what needs time slices to end, while the clock goes on.
fn while_time_passes<R>(system: &System, work: impl FnOnce() -> R) -> R {
    while_time_flies(system, Duration::from_millis(1), work)
}

/// Does this, while the clock goes on by `step` every millisecond.
fn while_time_flies<R>(system: &System, step: Duration, work: impl FnOnce() -> R) -> R {
    /// Ends the other thread also when the work panics.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                system.machine().advance(step);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let _ends = Ends(&done);
        work()
    })
}

/// Two processes whose lists do not fit together. Both have work that waits; as long as no time passes it is the time slice of the first, and the
/// second is suspended.
struct Pair {
    first: Guest<Busy>,
    second: Guest<Busy>,
}

impl Pair {
    fn new(system: &System, way: Way) -> Result<Self, Failure> {
        let mut first = Guest::new(system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        first.inside(|busy| busy.write_all(0x100))?;
        let before = counts(system).suspended;
        let second = Guest::new(system, |rig| Busy::resident(rig, way, NODE_COPY))?;
        // The first was suspended, and resumed as soon as its memory fitted, which was at once.
        wait_until("the second to be suspended", || counts(system).suspended >= before + 2)?;
        Ok(Self { first, second })
    }

    /// Both work, have what they wrote, and end.
    fn goes_on(mut self, system: &System) -> Result<(), Failure> {
        while_time_passes(system, || {
            self.first.inside(|busy| busy.check())?;
            self.second.inside(|busy| busy.work(0x200, 1))?;
            self.first.inside(|busy| busy.work(0x300, 1))?;
            self.second.inside(|busy| busy.check())?;
            self.first.inside(|busy| busy.finish())?;
            self.second.inside(|busy| busy.finish())
        })
    }
}

/// Bytes that a process gets when nobody works.
fn free_bytes(system: &System) -> Result<u64, Failure> {
    let mut hog = Hog::new(system)?;
    hog.take()?;
    Ok(hog.taken())
}

fn killed(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = free_bytes(case.system)?;
    for way in WAYS {
        let Pair { mut first, second } = Pair::new(case.system, way)?;
        let suspended = counts(case.system).suspended;
        second.process.terminate();
        first.inside(|busy| busy.work(0x10, 1))?;
        ensure_eq!(
            counts(case.system).suspended,
            suspended,
            "how often somebody was suspended, nobody else being there"
        );
        // The other way round: the process that has the time slice ends, and the suspended one is resumed although no time passes.
        let third =
            Guest::new(case.system, |rig| while_time_passes(case.system, || Busy::resident(rig, way, NODE_COPY)));
        let mut third = third?;
        first.process.terminate();
        third.inside(|busy| busy.work(0x20, 1))?;
        third.process.terminate();
        ensure_eq!(free_bytes(case.system)?, before, "bytes that there are when all have ended, by {way:?}");
    }
    Ok(())
}

fn out_of_d0(case: &mut Case<'_>) -> Result<(), Failure> {
    for way in WAYS {
        let pair = Pair::new(case.system, way)?;
        for _ in 0..2 {
            power_down(case.system)?;
            let up = case.system.machine().power_up(case.system.luid());
            up.map_err(|error| Failure::new(format!("the device was not powered up: {error}")))?;
        }
        power_down(case.system)?;
        pair.goes_on(case.system)?;
    }
    Ok(())
}

/// A process with everything resident, and one that hangs at once when its gate opens.
fn armed(system: &System) -> Result<(Guest<Busy>, RawFence), Failure> {
    let mut first = Guest::new(system, |rig| Busy::resident(rig, Way::Doorbell, NODE_COPY))?;
    let gate = first.inside(|busy| {
        let (gate, fatal) = (busy.rig.fence(0)?, busy.rig.fence(0)?);
        busy.queue.submit(&busy.rig, &[gate.wait(1), fatal.signal(FATAL)])?;
        Ok(gate)
    })?;
    Ok((first, gate))
}

/// Lets the process hang.
fn hang(system: &System, first: &mut Guest<Busy>, gate: &RawFence) -> Result<(), Failure> {
    let fault = hang::arm(system, NODE_COPY, false);
    first.inside(|busy| granted(busy.rig.signal(&[gate.handle], &[1]), "a signal of the CPU"))?;
    wait_until("the hang", || system.gpu().faults().fired(fault) == 1)
}

/// As [`Pair`], with the first hanging.
fn hanging_pair(system: &System) -> Result<Pair, Failure> {
    let (mut first, gate) = armed(system)?;
    let before = counts(system).suspended;
    let second = Guest::new(system, |rig| Busy::resident(rig, Way::Doorbell, NODE_COPY))?;
    wait_until("the second to be suspended", || counts(system).suspended >= before + 2)?;
    hang(system, &mut first, &gate)?;
    Ok(Pair { first, second })
}

fn over_an_engine_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    let Pair { mut first, mut second } = hanging_pair(case.system)?;
    time_out(case.system);
    // Where the hanging context was just being suspended, the wait for that ends by itself when more time has passed.
    while_time_passes(case.system, || {
        wait_until("the recovery", || first.inside(|busy| hang::state(&busy.rig)).is_ok_and(|state| state == HUNG))
    })?;
    while_time_passes(case.system, || {
        second.inside(|busy| {
            busy.work(0x50, 2)?;
            busy.finish()
        })
    })?;
    ensure_eq!(second.inside(|busy| hang::state(&busy.rig))?, ACTIVE, "state of the other one");
    let reports = hang::reports(case.system);
    ensure!(reports.len() == 1, "the engine was reset {} times: {reports:#?}", reports.len());
    first.process.terminate();
    Pair::new(case.system, Way::Doorbell)?.goes_on(case.system)
}

fn over_a_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = free_bytes(case.system)?;
    let Pair { mut first, mut second } = hanging_pair(case.system)?;
    case.system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COPY });
    time_out(case.system);
    // The time slice of the context that hangs ends, too: where it is just being suspended for that, the wait for it ends by itself when more time has passed.
    while_time_passes(case.system, || {
        let was_reset = |report: &TdrReport| report.outcome == TdrOutcome::AdapterReset;
        wait_until("the reset of the adapter", || hang::reports(case.system).iter().any(was_reset))
    })?;
    for guest in [&mut first, &mut second] {
        let state = guest.inside(|busy| hang::state(&busy.rig))?;
        ensure!(state != ACTIVE, "a device outlived the reset of its adapter");
        let status = guest.inside(|busy| request(&busy.rig, &busy.handles(), true));
        ensure!(
            status.is_err() || status.is_ok_and(|status| DEVICE_LOST.contains(&status)),
            "a lost device got memory"
        );
    }
    first.process.terminate();
    second.process.exit();
    ensure_eq!(free_bytes(case.system)?, before, "bytes that there are when all have ended");
    Pair::new(case.system, Way::Packets)?.goes_on(case.system)
}

fn hung_gives_way(case: &mut Case<'_>) -> Result<(), Failure> {
    let (mut first, gate) = armed(case.system)?;
    hang(case.system, &mut first, &gate)?;
    let system = &*case.system;
    while_time_passes(system, || {
        let mut second = Guest::new(system, |rig| Busy::resident(rig, Way::Doorbell, NODE_COPY))?;
        second.inside(|busy| {
            let value = busy.queue.submit(&busy.rig, &[fill(busy.seen.address, SIZE, 3)])?;
            busy.queue.wait(value)?;
            busy.work(0x60, 1)?;
            busy.finish()
        })
    })?;
    ensure_eq!(first.inside(|busy| hang::state(&busy.rig))?, HUNG, "state of the device that hangs");
    let report = hang::only_report(system)?;
    ensure_eq!(report.reason, dxgkrnl::TdrReason::SuspensionTimeout, "{report}");
    Ok(())
}

fn plain_suspends_nobody(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    let mut first = Guest::new(system, |rig| Busy::resident(rig, Way::Doorbell, NODE_COPY))?;
    first.inside(|busy| {
        busy.write_all(0x100)?;
        busy.finish()
    })?;
    let mut second = Guest::new(system, |rig| Busy::resident(rig, Way::Doorbell, NODE_COPY))?;
    let before = counts(system);
    ensure_eq!(before.suspended, 0, "how often somebody with work was suspended");
    let one = first.inside(|busy| {
        let one = busy.rig.create(SIZE, Placement::Vram);
        let one = one.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
        let (status, missing) = request_plainly(&busy.rig, one);
        refused(status, &[STATUS_NO_MEMORY], "a request without CantTrimFurther")?;
        ensure!(missing >= SIZE, "{missing} bytes to trim");
        Ok(one)
    })?;
    ensure_eq!(counts(system).suspended, 0, "how often somebody was suspended for a plain request");
    while_time_passes(system, || {
        first.inside(|busy| {
            granted(request(&busy.rig, &[one], true)?, "the request with CantTrimFurther")?;
            busy.check()
        })?;
        ensure!(counts(system).suspended > 0, "nobody was suspended for a request with CantTrimFurther");
        second.inside(|busy| {
            busy.work(0x200, 1)?;
            busy.finish()
        })
    })
}

/// What MakeResident of one allocation says, without a flag, and how much to give back.
fn request_plainly(rig: &Rig, mut one: D3DKMT_HANDLE) -> (NTSTATUS, u64) {
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations, request.AllocationList) = (rig.paging_queue, 1, &mut one);
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
    (status, request.NumBytesToTrim)
}

/// Number of mappings of the same memory that one long FILL goes through.
const TIMES: u64 = 12;
const FAR: u64 = 1 << 40;

/// A process that can write the same memory many times with one packet.
fn far_reaching(system: &System, way: Way) -> Result<Guest<Busy>, Failure> {
    Guest::new(system, |rig| {
        let busy = Busy::new(rig, way, NODE_COPY)?;
        for time in 0..TIMES {
            let mut request = busy.rig.map_request(busy.seen.handle, busy.seen.size);
            request.BaseAddress = FAR + time * busy.seen.size;
            busy.rig.map(request)?;
        }
        granted(request(&busy.rig, &busy.handles(), true)?, "a request with CantTrimFurther")?;
        Ok(busy)
    })
}

fn long_packets(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    for way in WAYS {
        while_time_flies(system, Duration::from_millis(60), || {
            let (mut first, mut second) = (far_reaching(system, way)?, far_reaching(system, way)?);
            let before = counts(system).suspended;
            let mut values = Vec::new();
            for (pattern, guest) in [(0x11, &mut first), (0x22, &mut second)] {
                let value = guest.inside(|busy| {
                    busy.queue.submit(&busy.rig, &[fill(FAR, TIMES * busy.seen.size, pattern)])?;
                    busy.write(1, pattern)
                })?;
                values.push((pattern, guest, value));
            }
            wait_until("several time slices", || counts(system).suspended >= before + 6)?;
            for (pattern, guest, value) in values {
                guest.inside(|busy| {
                    busy.queue.wait(value)?;
                    (0..EACH).try_for_each(|place| busy.saw(place, pattern))?;
                    busy.check()?;
                    busy.finish()
                })?;
            }
            Ok::<(), Failure>(())
        })?;
    }
    Ok(())
}
