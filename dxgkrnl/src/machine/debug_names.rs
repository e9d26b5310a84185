//! Names of programs that have ended, and those that programs give their objects, for traces. The store is bounded, and outlives the programs for a while: a trace is looked at
//! when they have ended.

use std::collections::VecDeque;
use std::sync::Arc;

use nt::lock::{Mutex, lock};
use nt::services;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::Machine;

/// Most names of a program; the oldest one goes when there is one more.
const NAMES_MAX: usize = 4096;
/// Most programs that have ended and whose names are kept; those of the one that ended first go when there is one more.
const ENDED_MAX: usize = 16;
/// Most programs that have ended and that are known by name themselves: the ones that ended last.
const ENDED_PROGRAMS_MAX: usize = 1024;

/// Object that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugNameOf {
    /// A hardware queue.
    Queue,
    /// A fence.
    Fence,
    /// An allocation.
    Memory,
}

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugName {
    /// Number of the process, as [`QueueFenceLog::process`](crate::QueueFenceLog::process).
    pub process: u64,
    /// Kind of the object.
    pub of: DebugNameOf,
    /// D3DKMT handle of the object in that process.
    pub object: u32,
    /// Number of a part of the object, 0 for the object itself.
    pub part: u32,
    /// When it was given, in nanoseconds of [`nanoseconds`](crate::nanoseconds).
    pub given: u64,
    /// The name.
    pub text: Arc<str>,
}

/// Names of one process, the latest given last.
struct OfProcess {
    process: u64,
    has_ended: bool,
    names: VecDeque<DebugName>,
}

/// Names by process, the process that named something first in front, and the programs that have ended, the last one behind.
#[derive(Default)]
pub(super) struct DebugNames {
    all: Mutex<Vec<OfProcess>>,
    ended: Mutex<VecDeque<(u64, Arc<str>)>>,
}

impl DebugNames {
    fn set(&self, name: DebugName) {
        let mut all = lock(&self.all);
        let place = match all.iter().position(|other| other.process == name.process) {
            Some(place) => place,
            None => {
                all.push(OfProcess { process: name.process, has_ended: false, names: VecDeque::new() });
                all.len() - 1
            }
        };
        let Some(of) = all.get_mut(place) else { return };
        of.names.retain(|other| (other.object, other.part) != (name.object, name.part));
        if name.text.is_empty() {
            return;
        }
        if of.names.len() == NAMES_MAX {
            of.names.pop_front();
        }
        of.names.push_back(name);
    }

    fn end(&self, process: u64, name: &str) {
        {
            let mut ended = lock(&self.ended);
            if ended.len() == ENDED_PROGRAMS_MAX {
                ended.pop_front();
            }
            ended.push_back((process, name.into()));
        }
        let mut all = lock(&self.all);
        all.iter_mut().filter(|of| of.process == process).for_each(|of| of.has_ended = true);
        if all.iter().filter(|of| of.has_ended).count() > ENDED_MAX
            && let Some(first) = all.iter().position(|of| of.has_ended)
        {
            all.remove(first);
        }
    }
}

impl Machine {
    /// Names an object of a process, or a part of it, in place of the name that it has; an empty text takes the name away.
    pub(crate) fn set_debug_name(
        &self,
        process: u64,
        (of, object): (DebugNameOf, D3DKMT_HANDLE),
        part: u32,
        text: &str,
    ) {
        let given = services::nanoseconds();
        self.0.debug_names.set(DebugName { process, of, object, part, given, text: text.into() });
    }

    /// A process of this name has ended: its names are kept until others have ended after it.
    pub(crate) fn end_debug_names(&self, process: u64, name: &str) {
        self.0.debug_names.end(process, name);
    }

    /// Numbers and names of the programs that have ended, of the last 1024 of them.
    pub fn ended_programs(&self) -> Vec<(u64, Arc<str>)> {
        lock(&self.0.debug_names.ended).iter().cloned().collect()
    }

    /// The names that the objects of programs have, also of those that ended lately.
    pub fn debug_names(&self) -> Vec<DebugName> {
        lock(&self.0.debug_names.all).iter().flat_map(|of| of.names.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(process: u64, object: u32, text: &str) -> DebugName {
        DebugName { process, of: DebugNameOf::Fence, object, part: 0, given: 0, text: text.into() }
    }

    fn texts(names: &DebugNames) -> Vec<String> {
        lock(&names.all).iter().flat_map(|of| of.names.iter().map(|name| name.text.to_string())).collect()
    }

    #[test]
    fn a_name_replaces_the_one_before_and_an_empty_one_takes_it_away() {
        let names = DebugNames::default();
        for (object, text) in [(1, "one"), (2, "two"), (1, "other"), (2, "")] {
            names.set(name(9, object, text));
        }
        names.set(DebugName { part: 5, ..name(9, 1, "part") });
        assert_eq!(texts(&names), ["other", "part"]);
    }

    #[test]
    fn a_program_has_4096_names_and_loses_the_oldest_one() {
        let names = DebugNames::default();
        for object in 0..5000 {
            names.set(name(9, object, &object.to_string()));
        }
        names.set(name(7, 1, "of another program"));
        let texts = texts(&names);
        assert_eq!((texts.len(), texts[0].as_str()), (NAMES_MAX + 1, "904"));
    }

    #[test]
    fn names_of_sixteen_programs_that_have_ended_are_kept() {
        let names = DebugNames::default();
        for process in 0..20 {
            names.set(name(process, 1, &process.to_string()));
        }
        for process in 1..20 {
            names.end(process, "program");
        }
        names.end(77, "program");
        assert_eq!(texts(&names).len(), 17);
        assert_eq!(texts(&names)[..2], ["0", "4"], "a program that runs keeps its names");
    }

    #[test]
    fn the_last_1024_programs_that_have_ended_are_known_by_name() {
        let names = DebugNames::default();
        for process in 0..1030 {
            names.end(process, &process.to_string());
        }
        let ended = lock(&names.ended);
        assert_eq!(
            (ended.len(), ended.front(), ended.back()),
            (1024, Some(&(6, "6".into())), Some(&(1029, "1029".into())))
        );
    }
}
