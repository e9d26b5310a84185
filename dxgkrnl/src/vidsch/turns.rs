//! Turns: processes that work take turns where memory does not hold all of them.
//!
//! Whoever needs memory of processes that work stands in line, and only the first in the line has one suspended
//! ([`VidSch::suspend`]). A process that was suspended with work to do comes back by itself: a thread stands in line for it, one
//! process after the other, in the order in which they were suspended. Once it is back it keeps its memory for a turn: [`TURN`] of the machine's
//! clock, or until it has done [`TURN_WORK`] pieces of work. So each gets its turn, however many there are, and whatever it
//! waits for that another one must do.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::device::DeviceError;
use crate::vidmm::{AddressSpace, Search};

use super::VidSch;

/// How long a process that was suspended works at least, by the machine's clock, when it is back.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// Submissions after which its turn is over sooner.
pub(super) const TURN_WORK: u64 = 1024;

/// How often the thread looks whether a device that sleeps is awake again.
const GLANCE: Duration = Duration::from_millis(2);

#[derive(Default)]
struct Line {
    next: u64,
    numbers: VecDeque<u64>,
}

/// Processes whose suspended work waits for memory, and the thread that brings them back.
#[derive(Default)]
struct Waiting {
    spaces: VecDeque<Weak<AddressSpace>>,
    running: bool,
    stopped: bool,
}

/// The requests that wait for memory, in the order in which they go on.
#[derive(Default)]
pub(crate) struct Turns {
    line: Arc<Mutex<Line>>,
    waiting: Mutex<Waiting>,
}

/// A place in the line, left when dropped.
pub(crate) struct Place {
    line: Arc<Mutex<Line>>,
    number: u64,
}

impl Place {
    /// Whether nobody is in front.
    pub(crate) fn is_first(&self) -> bool {
        lock(&self.line).numbers.front() == Some(&self.number)
    }

    /// Whoever is behind goes first.
    pub(crate) fn go_to_the_end(&self) {
        let mut line = lock(&self.line);
        line.numbers.retain(|number| *number != self.number);
        line.numbers.push_back(self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.line).numbers.retain(|number| *number != self.number);
    }
}

impl Turns {
    /// A place at the end of the line.
    pub(crate) fn stand_in_line(&self) -> Place {
        let mut line = lock(&self.line);
        line.next += 1;
        let number = line.next;
        line.numbers.push_back(number);
        Place { line: Arc::clone(&self.line), number }
    }

    /// Brings no process back any more; returns when the thread has ended.
    pub(super) fn stop(&self) {
        lock(&self.waiting).stopped = true;
        while lock(&self.waiting).running {
            std::thread::sleep(GLANCE);
        }
    }

    fn is_stopped(&self) -> bool {
        lock(&self.waiting).stopped
    }

    /// The next process that wants to come back; the thread ends for want of one.
    fn next(&self) -> Option<Weak<AddressSpace>> {
        let mut waiting = lock(&self.waiting);
        let next = if waiting.stopped { None } else { waiting.spaces.pop_front() };
        waiting.running = next.is_some();
        next
    }
}

impl VidSch {
    /// The requests that wait for memory.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Whether somebody who waits for memory may go on doing so: the adapter works.
    pub(crate) fn may_wait(&self) -> bool {
        !self.tdr.is_abandoning() && self.adapter().is_ok_and(|adapter| !adapter.is_gone())
    }

    /// A process was suspended with work to do: it comes back by itself.
    pub(super) fn note_suspended(&self, space: &Arc<AddressSpace>) {
        let Ok(adapter) = self.adapter() else { return };
        let mut waiting = lock(&self.turns.waiting);
        if waiting.stopped {
            return;
        }
        waiting.spaces.push_back(Arc::downgrade(space));
        if waiting.running {
            return;
        }
        let sch = Arc::clone(adapter.vidsch());
        let thread = std::thread::Builder::new().name("turns".to_owned()).spawn(move || sch.give_turns());
        waiting.running = thread.is_ok();
        if let Err(error) = thread {
            self.verifier.log(format!("suspended processes wait for their own threads: {error}"));
        }
    }

    fn give_turns(&self) {
        while let Some(space) = self.turns.next() {
            if let Some(space) = space.upgrade() {
                self.give_turn(&space);
            }
        }
    }

    /// Brings a process back that was suspended with work to do, unless it is back, or has none left.
    fn give_turn(&self, space: &AddressSpace) {
        let Ok(adapter) = self.adapter() else { return };
        let mut search = Search::default();
        while !self.turns.is_stopped() && !self.verifier.is_stopped() {
            let Some(powered) = adapter.machine.gate().enter_awake() else {
                search.leave_line();
                std::thread::sleep(GLANCE);
                continue;
            };
            if adapter.is_gone() || !self.has_work(space) {
                return space.suspension.give_up_turn();
            }
            match self.try_resume(space, &mut search) {
                Some(Ok(())) => return,
                None => {}
                Some(Err(status)) => {
                    drop(powered);
                    return self.starve(space, status);
                }
            }
            drop(powered);
            adapter.vidmm().pause_for_room();
        }
    }

    /// What a process must have resident does not fit any more: its devices are lost for want of memory.
    fn starve(&self, space: &AddressSpace, status: NTSTATUS) {
        let Ok(adapter) = self.adapter() else { return };
        if self.verifier.is_stopped() || self.tdr.is_abandoning() || adapter.is_gone() {
            return;
        }
        self.verifier.log(format!("the memory of a process that was suspended does not come back: {status}"));
        let _powered = adapter.machine.gate().enter(&adapter.machine);
        for device in self.devices_at(space) {
            self.lose_device(&device, DeviceError::OutOfMemory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_first_come_first_served_and_whoever_gives_way_is_last() {
        let turns = Turns::default();
        let places: Vec<Place> = (0..3).map(|_| turns.stand_in_line()).collect();
        let first = |places: &[Place]| places.iter().map(Place::is_first).collect::<Vec<_>>();
        assert_eq!(first(&places), [true, false, false]);
        places[0].go_to_the_end();
        assert_eq!(first(&places), [false, true, false]);
        let mut places = places;
        drop(places.remove(1));
        assert_eq!(first(&places), [false, true]);
        drop(places.remove(1));
        assert_eq!(first(&places), [true]);
    }
}
