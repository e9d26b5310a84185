//! Races: two threads of a process meet on one object, which one of them may be destroying.
//!
//! A table of operations says which objects each needs and which it takes away; every pair that has an object in common is run, again and
//! again, and must leave a system that works. What either call answers is its own affair, unless both took the same object away.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COMPUTE;
use fastrand::Rng;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use super::fault::Bystander;
use super::race_table::{OPERATIONS, Operation, Scene};
use crate::rig::{Memory, Rig, user_mode_flags, wait_until};
use crate::wait::Looks;
use crate::{Boot, Case, Failure, granted, seed};

cases! { thunks "Races", needs HardwareScheduling;
    "Races.DoorbellsMeetTheEndOfTheirQueue" needs UserModeSubmission on Boot::Fresh, "threading-and-synchronization-zero-level":
        "While one thread creates doorbells without pause and another destroys their queue, its context and its device, the driver gets no call about an object that it was told the end of (inferred from the pages: a handle is valid until its destruction)."
        => doorbells_and_their_queue;
    "Races.EveryPairOnOneObject" needs UserModeSubmission on Boot::Fresh, "threading-and-synchronization-zero-level":
        "Every two thunks that create, use or destroy one object at the same time leave a working system, and of two that destroy the same object one is refused (inferred from the pages: a handle is valid until its destruction)."
        => every_pair;
}

/// Rounds of two threads: what the second one does next, and how far both are.
#[derive(Default)]
struct Turns {
    /// Operation, scene, and how long to hesitate. Taken by the other hand.
    next: Mutex<Option<(&'static Operation, Arc<Scene>, u32)>>,
    begun: AtomicU64,
    done: AtomicU64,
    /// What the other hand's operation answered, as bits.
    answer: AtomicU64,
}

/// Meetings of a pair. Those that have no more than their device in common are most of all, and meet once.
const ROUNDS: u32 = 4;

/// The round after which the second thread ends.
const OVER: u64 = u64::MAX;

/// Passes a little time that is not the same for two hands.
fn hesitate(steps: u32) {
    (0..steps).for_each(|_| std::hint::spin_loop());
}

impl Turns {
    fn next(&self) -> MutexGuard<'_, Option<(&'static Operation, Arc<Scene>, u32)>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes the operations that the second thread gets, one a round, until [`OVER`] ends it.
    fn follow(&self) {
        let mut turn = 0;
        loop {
            let mut looks = Looks::default();
            while self.begun.load(Ordering::Acquire) == turn {
                looks.pause();
            }
            turn += 1;
            if self.begun.load(Ordering::Acquire) == OVER {
                return;
            }
            if let Some((operation, scene, steps)) = self.next().take() {
                hesitate(steps);
                let status = operation.run(&scene);
                self.answer.store(u64::from(status.0 as u32), Ordering::Relaxed);
            }
            self.done.store(turn, Ordering::Release);
        }
    }

    /// Both hands act on a scene at once; what they answered.
    fn meet(
        &self,
        [mine, other]: [&'static Operation; 2],
        scene: &Arc<Scene>,
        random: &mut Rng,
    ) -> Result<[NTSTATUS; 2], Failure> {
        let mut steps = || 1 << random.u32(..14);
        *self.next() = Some((other, Arc::clone(scene), steps()));
        let own = steps();
        let turn = self.begun.load(Ordering::Relaxed) + 1;
        self.begun.store(turn, Ordering::Release);
        hesitate(own);
        let status = mine.run(scene);
        wait_until("the return of the other call", || {
            let done = self.done.load(Ordering::Acquire) == turn;
            if !done && other.blocks() {
                let _ = scene.let_go();
            }
            done
        })?;
        Ok([status, NTSTATUS(self.answer.load(Ordering::Relaxed) as u32 as i32)])
    }
}

/// Runs `work` with another hand, which leaves afterwards.
fn with_other_hand(case: &Case, work: impl FnOnce(&Turns) -> Result<(), Failure>) -> Result<(), Failure> {
    let turns = Turns::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = case.enter();
            turns.follow();
        });
        let outcome = work(&turns);
        turns.begun.store(OVER, Ordering::Release);
        outcome
    })
}

/// Lets a pair meet, each time on a new scene if one of them destroys something.
fn pair(
    adapter: &Rig,
    turns: &Turns,
    [first, second]: [&'static Operation; 2],
    rounds: u32,
    random: &mut Rng,
) -> Result<(), Failure> {
    let spoils = first.destroys() || second.destroys();
    let same = std::ptr::eq(first, second) && first.destroys();
    let scene =
        || Ok::<_, Failure>(Arc::new(Scene::new(Rig::on_adapter(adapter.kmt, adapter.adapter)?, [first, second])?));
    let mut stage = scene()?;
    for round in 0..rounds {
        if spoils && round > 0 {
            stage = scene()?;
        }
        let answers = turns.meet([first, second], &stage, random)?;
        let granted = answers.iter().filter(|status| status.is_success()).count();
        ensure!(!same || granted == 1, "{granted} of two calls destroyed the object, with the answers {answers:?}");
        if spoils || round + 1 == rounds {
            // It may be gone.
            let _ = stage.end();
        }
    }
    Ok(())
}

fn every_pair(case: &Case) -> Result<(), Failure> {
    pairs(case, ROUNDS, |_| true)
}

/// Lets every pair of operations meet so often that has an object in common and is `wanted`.
pub fn pairs(case: &Case, rounds: u32, wanted: impl Fn([&Operation; 2]) -> bool) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut bystander = Bystander::new(&rig)?;
    let mut random = Rng::with_seed(seed::of(3));
    with_other_hand(case, |turns| {
        for (place, first) in OPERATIONS.iter().enumerate() {
            for second in OPERATIONS.iter().skip(place) {
                let [first, second] = if first.blocks() { [second, first] } else { [first, second] };
                if !first.meets(second) || first.blocks() || !wanted([first, second]) {
                    continue;
                }
                let rounds = if first.meets_closely(second) { rounds } else { 1 };
                let met = pair(&rig, turns, [first, second], rounds, &mut random).and_then(|()| bystander.works());
                met.map_err(|failure| Failure::new(format!("{} against {}: {failure}", first.name, second.name)))?;
            }
        }
        Ok(())
    })
}

/// A queue for whoever creates doorbells, and memory for its ring.
type Offered = Mutex<Option<(D3DKMT_HANDLE, [Memory; 2])>>;

/// Creates doorbells of the queue that is offered, and destroys them, until told to stop.
fn create_doorbells(rig: &Rig, offered: &Offered, [created, stop]: [&AtomicU64; 2]) {
    while stop.load(Ordering::Relaxed) == 0 {
        let Some((queue, [ring, control])) = *offered.lock().unwrap_or_else(PoisonError::into_inner) else {
            std::thread::yield_now();
            continue;
        };
        if let Ok(doorbell) = rig.doorbell(queue, ring, control) {
            created.fetch_add(1, Ordering::Relaxed);
            let mut doorbell = D3DKMT_DESTROY_DOORBELL { hDoorbell: doorbell.handle() };
            let _ = rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut doorbell);
        }
    }
}

fn doorbells_and_their_queue(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut bystander = Bystander::new(&rig)?;
    let mut random = Rng::with_seed(seed::of(4));
    let (offered, created, stop) = (Offered::default(), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = case.enter();
            create_doorbells(&rig, &offered, [&created, &stop]);
        });
        let outcome = (0..400).try_for_each(|round| {
            // On a machine with little time for the other thread many queues are gone before a doorbell of theirs is there; the last stays until then.
            let least = if round == 399 { 1 } else { 0 };
            offer_queue(&rig, (&offered, &created, least), round, &mut random).and_then(|()| bystander.works())
        });
        stop.store(1, Ordering::Relaxed);
        outcome
    })
}

/// Makes a device with a queue, offers that, and takes it away again: the queue and its context first in every second round.
/// Not before `least` doorbells were created.
fn offer_queue(
    rig: &Rig,
    (offered, created, least): (&Offered, &AtomicU64, u64),
    round: u32,
    random: &mut Rng,
) -> Result<(), Failure> {
    let offer = |queue| *offered.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    let text = |status: NTSTATUS| Failure::new(format!("a queue to create doorbells of: {status}"));
    let rig = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let rings = [rig.memory(4096, Placement::SystemUncached)?, rig.memory(4096, Placement::SystemUncached)?];
    let context = rig.context(NODE_COMPUTE).map_err(text)?;
    let queue = rig.hw_queue(context, user_mode_flags()).map_err(text)?.hHwQueue;
    offer(Some((queue, rings)));
    hesitate(1 << random.u32(..14));
    wait_until("a doorbell", || created.load(Ordering::Relaxed) >= least)?;
    if round.is_multiple_of(2) {
        let mut context = D3DKMT_DESTROYHWCONTEXT { hHwContext: context };
        // Refused while the queue has a doorbell.
        wait_until("the end of the queue", || rig.destroy_hw_queue(queue).is_success())?;
        granted(rig.kmt.call(rig.kmt.table().D3DKMTDestroyHwContext, &mut context), "D3DKMTDestroyHwContext")?;
    }
    let ended = rig.destroy();
    offer(None);
    granted(ended, "D3DKMTDestroyDevice")
}
