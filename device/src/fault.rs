//! Fault injection: rules that a test or a user sets on one device, each of which makes something go wrong as in faulty hardware.
//!
//! A rule applies a number of times and counts how often it did, so that a test can tell whether its fault happened. While no rule is armed, the
//! check for one costs the read of one word.

use crate::lock::lock;
use campanile_hw::packet::Packet;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time for which a rule delays a reset. A test that ends before it releases the reset must not leave its threads waiting.
const HOLD_MAX: Duration = Duration::from_secs(60);

/// Position in the work of a node at which an engine hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HangAt {
    /// After so many more packets.
    After(u64),
    /// At the SIGNAL of this value.
    Signal(u64),
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultRule {
    /// The engine of a node hangs in a packet until the node is reset: it neither goes on nor leaves the queue.
    Hang {
        /// The node.
        node: u32,
        /// Only packets of this queue count; `None` for those of any.
        queue: Option<u32>,
        /// The packet.
        at: HangAt,
        /// True if the watchdog of the node notices the hang at once and reports it by an event.
        reported: bool,
    },
    /// SuspendQueue or PreemptQueue is accepted and never answered, until the node is reset; the queue goes on.
    StuckSuspend {
        /// The node of the queue.
        node: u32,
    },
    /// An interrupt message is not sent.
    LostInterrupt,
    /// An interrupt message is sent so many steps of the function later.
    LateInterrupt {
        /// Steps, at least 1.
        steps: u64,
    },
    /// An interrupt message is sent twice.
    DoubledInterrupt,
    /// An interrupt message is overtaken by the next one, or sent 64 steps later if none comes.
    ReorderedInterrupt,
    /// An entry of a fence log is neither written nor counted in the position of the log.
    LostLogEntry,
    /// The scheduler sees a store to a doorbell, and ignores it.
    MissedRing,
    /// A queue that was asked to stop by SuspendQueue has stopped, and neither an event nor an interrupt says so.
    LostSuspension,
    /// ResetNode is refused with BadState; nothing happens.
    ResetFails {
        /// The node.
        node: u32,
    },
    /// ConnectDoorbell for a queue of the node is refused with TableFull; nothing happens.
    ConnectFails {
        /// The node.
        node: u32,
    },
    /// ResetNode does not begin before the time is over, or [`Faults::release`] is called.
    ResetHeld {
        /// The node.
        node: u32,
        /// Milliseconds; at most a minute counts.
        milliseconds: u64,
    },
    /// ResetNode also loses every other queue of the node that has work.
    ResetTakesAlong {
        /// The node.
        node: u32,
    },
    /// A reset of the whole function loses the contents of VRAM.
    ResetLosesMemory,
    /// A hang of the node ends and its packet completes, right before ResetNode takes effect.
    CompletionRacesReset {
        /// The node.
        node: u32,
    },
    /// A register reads as another value.
    Register {
        /// Byte offset of the register in BAR0.
        offset: u64,
        /// Value that it reads as.
        value: u64,
    },
}

/// Frequency of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Often {
    /// The first so many times that the fault can happen.
    Times(u64),
    /// Each time that the fault can happen it does with this chance, drawn from a seed.
    Chance {
        /// In millionths.
        millionths: u32,
        /// Seed of the draws; the same seed draws the same.
        seed: u64,
    },
}

/// Names a rule that was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FaultId(u64);

#[derive(Debug)]
struct Armed {
    id: u64,
    rule: FaultRule,
    /// Times it may still apply.
    left: u64,
    /// Chance in millionths, and the generator for its draws.
    chance: Option<(u32, Rng)>,
    fired: u64,
    /// Packets of [`HangAt::After`] that still run.
    packets: u64,
    /// True while the rule delays a reset.
    holding: bool,
}

/// An interrupt message that a rule has delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LateMessage {
    vector: u16,
    /// Number of the step in which it is sent at the latest.
    step: u64,
    /// True if the next message that is sent releases it.
    overtaken: bool,
}

/// Steps after which a message is sent that no other one overtook.
const OVERTAKEN: u64 = 64;

impl Armed {
    /// Draws whether the rule applies this time.
    fn draw(&mut self) -> bool {
        self.chance.as_mut().is_none_or(|(millionths, random)| random.u32(..1_000_000) < *millionths)
    }
}

/// Fate of an interrupt message under the injected faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Now,
    Twice,
    Later,
    Never,
}

/// The rules of one function.
#[derive(Debug, Default)]
pub struct Faults {
    armed: AtomicBool,
    waiting: AtomicBool,
    next: AtomicU64,
    rules: Mutex<Vec<Armed>>,
    late: Mutex<Vec<LateMessage>>,
    released: Condvar,
}

impl Faults {
    /// Arms a rule that applies once.
    pub fn inject(&self, rule: FaultRule) -> FaultId {
        self.inject_times(rule, 1)
    }

    /// Arms a rule that applies `times` times.
    pub fn inject_times(&self, rule: FaultRule, times: u64) -> FaultId {
        self.inject_often(rule, Often::Times(times))
    }

    /// Arms a rule with a frequency.
    pub fn inject_often(&self, rule: FaultRule, often: Often) -> FaultId {
        let (left, chance) = match often {
            Often::Times(times) => (times, None),
            Often::Chance { millionths, seed } => (u64::MAX, Some((millionths, Rng::with_seed(seed)))),
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let packets = match rule {
            FaultRule::Hang { at: HangAt::After(packets), .. } => packets,
            _ => 0,
        };
        let mut rules = lock(&self.rules);
        rules.push(Armed { id, rule, left, chance, fired: 0, packets, holding: false });
        self.armed.store(true, Ordering::Release);
        FaultId(id)
    }

    /// How often a rule has applied; 0 for one that was removed.
    pub fn fired(&self, id: FaultId) -> u64 {
        lock(&self.rules).iter().find(|armed| armed.id == id.0).map_or(0, |armed| armed.fired)
    }

    /// Sum of the times that the armed rules have applied.
    pub fn total_fired(&self) -> u64 {
        lock(&self.rules).iter().map(|armed| armed.fired).sum()
    }

    /// Takes a rule away, and returns how often it has applied.
    pub fn remove(&self, id: FaultId) -> u64 {
        let mut rules = lock(&self.rules);
        let place = rules.iter().position(|armed| armed.id == id.0);
        let fired = place.map_or(0, |place| rules.remove(place).fired);
        self.armed.store(!rules.is_empty(), Ordering::Release);
        self.released.notify_all();
        fired
    }

    /// Lets a reset begin that [`FaultRule::ResetHeld`] delays, and any later one.
    pub fn release(&self, id: FaultId) {
        let mut rules = lock(&self.rules);
        for armed in rules.iter_mut().filter(|armed| armed.id == id.0) {
            (armed.left, armed.holding) = (0, false);
        }
        self.released.notify_all();
    }

    /// True if any rule is armed.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Applies the first rule that `matches` and is not spent.
    fn apply(&self, mut matches: impl FnMut(&mut Armed) -> bool) -> Option<FaultRule> {
        if !self.any() {
            return None;
        }
        let mut rules = lock(&self.rules);
        let mut applies = |armed: &mut Armed| armed.left != 0 && matches(armed) && armed.draw();
        let armed = rules.iter_mut().find_map(|armed| applies(armed).then_some(armed))?;
        armed.left -= 1;
        armed.fired += 1;
        Some(armed.rule)
    }

    /// `Some` if the engine hangs at this packet, with true if its watchdog reports it.
    pub(crate) fn hang(&self, node: u32, queue: u32, packet: &Packet) -> Option<bool> {
        let value = match packet {
            Packet::Signal(signal) => Some(signal.value),
            _ => None,
        };
        let rule = self.apply(|armed| {
            let FaultRule::Hang { node: wanted, queue: only, at, .. } = armed.rule else { return false };
            if wanted != node || only.is_some_and(|only| only != queue) {
                return false;
            }
            match at {
                HangAt::Signal(wanted) => value == Some(wanted),
                HangAt::After(_) if armed.packets == 0 => true,
                HangAt::After(_) => {
                    armed.packets -= 1;
                    false
                }
            }
        })?;
        Some(matches!(rule, FaultRule::Hang { reported: true, .. }))
    }

    pub(crate) fn loses_log_entry(&self) -> bool {
        self.apply(|armed| armed.rule == FaultRule::LostLogEntry).is_some()
    }

    pub(crate) fn misses_ring(&self) -> bool {
        self.apply(|armed| armed.rule == FaultRule::MissedRing).is_some()
    }

    pub(crate) fn loses_suspension(&self) -> bool {
        self.apply(|armed| armed.rule == FaultRule::LostSuspension).is_some()
    }

    pub(crate) fn stuck_suspend(&self, node: u32) -> bool {
        self.apply(|armed| armed.rule == FaultRule::StuckSuspend { node }).is_some()
    }

    pub(crate) fn reset_fails(&self, node: u32) -> bool {
        self.apply(|armed| armed.rule == FaultRule::ResetFails { node }).is_some()
    }

    pub(crate) fn connect_fails(&self, node: u32) -> bool {
        self.apply(|armed| armed.rule == FaultRule::ConnectFails { node }).is_some()
    }

    pub(crate) fn reset_takes_along(&self, node: u32) -> bool {
        self.apply(|armed| armed.rule == FaultRule::ResetTakesAlong { node }).is_some()
    }

    pub(crate) fn reset_loses_memory(&self) -> bool {
        self.apply(|armed| armed.rule == FaultRule::ResetLosesMemory).is_some()
    }

    pub(crate) fn completion_races_reset(&self, node: u32) -> bool {
        self.apply(|armed| armed.rule == FaultRule::CompletionRacesReset { node }).is_some()
    }

    /// Returns when a reset of `node` may begin. The caller has no lock of the function.
    pub(crate) fn hold_reset(&self, node: u32) {
        let mut held = None;
        let rule = self.apply(|armed| {
            armed.holding = matches!(armed.rule, FaultRule::ResetHeld { node: wanted, .. } if wanted == node);
            held = armed.holding.then_some(armed.id);
            armed.holding
        });
        let Some(FaultRule::ResetHeld { milliseconds, .. }) = rule else { return };
        let end = Instant::now() + Duration::from_millis(milliseconds).min(HOLD_MAX);
        let mut rules = lock(&self.rules);
        while rules.iter().any(|armed| Some(armed.id) == held && armed.holding) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            rules = self.released.wait_timeout(rules, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The value that a register reads as, if a rule replaces it.
    pub(crate) fn register(&self, offset: u64) -> Option<u64> {
        match self.apply(|armed| matches!(armed.rule, FaultRule::Register { offset: lies, .. } if lies == offset))? {
            FaultRule::Register { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Delivery of the interrupt message of `vector` that is sent in step `step`: at once unless an armed rule delays, doubles, reorders or drops it.
    pub(crate) fn delivery(&self, vector: u16, step: u64) -> Delivery {
        let rule = self.apply(|armed| {
            use FaultRule::{DoubledInterrupt, LateInterrupt, LostInterrupt, ReorderedInterrupt};
            matches!(armed.rule, LostInterrupt | LateInterrupt { .. } | DoubledInterrupt | ReorderedInterrupt)
        });
        match rule {
            None => Delivery::Now,
            Some(FaultRule::DoubledInterrupt) => Delivery::Twice,
            Some(FaultRule::LateInterrupt { steps }) => self.hold(vector, step.saturating_add(steps.max(1)), false),
            Some(FaultRule::ReorderedInterrupt) => self.hold(vector, step.saturating_add(OVERTAKEN), true),
            Some(_) => Delivery::Never,
        }
    }

    fn hold(&self, vector: u16, step: u64, overtaken: bool) -> Delivery {
        lock(&self.late).push(LateMessage { vector, step, overtaken });
        self.waiting.store(true, Ordering::Release);
        Delivery::Later
    }

    /// True while a message is delayed.
    #[inline]
    pub(crate) fn has_late(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Forgets the delayed messages, because the function that sent them was reset.
    pub(crate) fn drop_late(&self) {
        lock(&self.late).clear();
        self.waiting.store(false, Ordering::Release);
    }

    /// Takes the messages that are due in step `step`.
    pub(crate) fn take_late(&self, step: u64) -> Vec<u16> {
        self.take_messages(|message| message.step <= step)
    }

    /// Takes the messages that the one just sent has overtaken.
    pub(crate) fn take_overtaken(&self) -> Vec<u16> {
        if self.has_late() { self.take_messages(|message| message.overtaken) } else { Vec::new() }
    }

    fn take_messages(&self, due: impl Fn(&LateMessage) -> bool) -> Vec<u16> {
        let mut late = lock(&self.late);
        let (due, kept): (Vec<LateMessage>, _) = std::mem::take(&mut *late).into_iter().partition(due);
        *late = kept;
        self.waiting.store(!late.is_empty(), Ordering::Release);
        due.into_iter().map(|message| message.vector).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::packet::Nop;

    #[test]
    fn a_rule_applies_so_often_and_counts() {
        let faults = Faults::default();
        assert!(!faults.any() && !faults.reset_fails(1));
        let id = faults.inject_times(FaultRule::ResetFails { node: 1 }, 2);
        let outcomes = [0, 1, 1, 1].map(|node| faults.reset_fails(node));
        assert_eq!((outcomes, faults.fired(id)), ([false, true, true, false], 2));
        assert_eq!((faults.remove(id), faults.fired(id), faults.any()), (2, 0, false));
    }

    #[test]
    fn a_hang_counts_packets_of_its_node_and_queue_only() {
        let faults = Faults::default();
        let rule = FaultRule::Hang { node: 1, queue: Some(7), at: HangAt::After(2), reported: true };
        let id = faults.inject(rule);
        let nop = Packet::Nop(Nop {});
        for (node, queue, expected) in
            [(1, 7, None), (0, 7, None), (1, 8, None), (1, 7, None), (1, 7, Some(true)), (1, 7, None)]
        {
            assert_eq!(faults.hang(node, queue, &nop), expected, "node {node}, queue {queue}");
        }
        assert_eq!(faults.fired(id), 1);
    }

    #[test]
    fn messages_are_lost_or_come_in_their_step() {
        let faults = Faults::default();
        faults.inject(FaultRule::LostInterrupt);
        assert_eq!([faults.delivery(0, 5), faults.delivery(0, 5)], [Delivery::Never, Delivery::Now]);
        faults.inject(FaultRule::LateInterrupt { steps: 3 });
        assert_eq!(faults.delivery(4, 5), Delivery::Later);
        assert_eq!((faults.take_late(7), faults.has_late()), (Vec::new(), true));
        assert_eq!((faults.take_late(8), faults.has_late()), (vec![4], false));
    }

    #[test]
    fn messages_are_doubled_or_overtaken_by_the_next_one() {
        let faults = Faults::default();
        faults.inject(FaultRule::DoubledInterrupt);
        assert_eq!([faults.delivery(0, 5), faults.delivery(0, 5)], [Delivery::Twice, Delivery::Now]);
        faults.inject_times(FaultRule::ReorderedInterrupt, 2);
        assert_eq!((faults.delivery(1, 5), faults.take_late(5)), (Delivery::Later, Vec::new()));
        assert_eq!((faults.take_overtaken(), faults.has_late()), (vec![1], false));
        assert_eq!(faults.delivery(2, 5), Delivery::Later);
        assert_eq!(faults.take_late(5 + OVERTAKEN), [2], "nothing overtook it");
    }

    #[test]
    fn a_chance_is_drawn_each_time_and_the_same_seed_draws_the_same() {
        let draws = |millionths, seed| {
            let faults = Faults::default();
            let id = faults.inject_often(FaultRule::LostInterrupt, Often::Chance { millionths, seed });
            let lost: Vec<bool> = (0..10_000).map(|step| faults.delivery(0, step) == Delivery::Never).collect();
            assert_eq!(faults.fired(id), lost.iter().filter(|lost| **lost).count() as u64);
            lost
        };
        let some = draws(10_000, 1);
        assert!((50..200).contains(&some.iter().filter(|lost| **lost).count()), "about one in a hundred");
        assert!(some == draws(10_000, 1) && some != draws(10_000, 2));
        assert!(draws(0, 1).iter().all(|lost| !lost) && draws(1_000_000, 1).iter().all(|lost| *lost));
    }

    #[test]
    fn a_held_reset_begins_when_it_is_released() {
        let faults = Faults::default();
        let id = faults.inject(FaultRule::ResetHeld { node: 0, milliseconds: u64::MAX });
        faults.hold_reset(1);
        std::thread::scope(|scope| {
            let held = scope.spawn(|| faults.hold_reset(0));
            while faults.fired(id) == 0 {
                std::thread::yield_now();
            }
            assert!(!held.is_finished());
            faults.release(id);
        });
        faults.hold_reset(0);
        assert_eq!(faults.fired(id), 1);
    }
}
