//! Suites side by side: most wait more than they compute, for a timeout of the contract or a process of their own.

use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::build::Suite;

/// The suite of the conformance cases: it divides its cases among all processors itself.
const ALONE: &str = "campanile: test hlk";

/// Those that take longest, so that none of them is left over when all others are done. It is a matter of time alone: every suite runs, and
/// a name that is no suite changes nothing.
const LONG: [&str; 20] = [
    "campanile: test foreign",
    "campanile_vulkan: test driver",
    "xtask: bin xtask",
    "campanile: test command",
    "campanile: test pe",
    "campanile: test soak",
    "campanile_kmt: test c",
    "dxgkrnl: test miniport",
    "campanile-compiler: test compile",
    "wddm-ddi-kit: test headers",
    "campanile-models: test random",
    "campanile: test machine",
    "campanile: unit tests",
    "campanile: test timeline",
    "campanile: test pointers",
    "dxgkrnl: test bug_checks",
    "campanile: test faulted",
    "campanile-models: test exhaustive",
    "campanile-conformance: unit tests",
    "campanile-jit: test same",
];

/// Suites of one build in the order in which they start: one that has all processors, then those that share them.
pub(super) struct Order<'a> {
    pub(super) alone: Vec<&'a Suite>,
    pub(super) shared: VecDeque<&'a Suite>,
}

impl<'a> Order<'a> {
    pub(super) fn of(suites: impl Iterator<Item = &'a Suite>) -> Self {
        let (alone, mut shared): (Vec<_>, Vec<_>) = suites.partition(|suite| suite.name == ALONE);
        // Stable: the others keep their order.
        shared.sort_by_key(|suite| LONG.iter().position(|long| *long == suite.name).unwrap_or(LONG.len()));
        Self { alone, shared: shared.into() }
    }
}

/// Takes `tasks` off their queue with as many threads as `workers` says, and hands each result to `done` on the thread that calls.
pub(super) fn side_by_side<Task: Send, Done: Send>(
    tasks: VecDeque<Task>,
    workers: usize,
    work: impl Fn(Task) -> Done + Sync,
    mut done: impl FnMut(Done),
) {
    let tasks = Mutex::new(tasks);
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        let (sender, results) = channel();
        for _ in 0..workers.max(1) {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                while let Some(task) = next() {
                    // Received as long as a sender lives.
                    let _ = sender.send(work(task));
                }
            });
        }
        drop(sender);
        results.into_iter().for_each(&mut done);
    });
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn suite(name: &str) -> Suite {
        Suite { name: name.into(), executable: PathBuf::new(), folder: PathBuf::new() }
    }

    #[test]
    fn every_suite_has_its_place_and_the_longest_start_first() {
        let suites = ["a: test x", ALONE, LONG[1], "b: test y", LONG[0]].map(suite);
        let order = Order::of(suites.iter());
        let names = |suites: Vec<&Suite>| suites.iter().map(|suite| suite.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(order.alone), [ALONE]);
        assert_eq!(names(order.shared.into()), [LONG[0], LONG[1], "a: test x", "b: test y"]);
    }

    #[test]
    fn every_task_is_done_once_by_any_number_of_workers() {
        for workers in [0, 1, 3, 20] {
            let mut results = Vec::new();
            side_by_side((0..10).collect(), workers, |task| task * 2, |result| results.push(result));
            results.sort_unstable();
            assert_eq!(results, (0..10).map(|task| task * 2).collect::<Vec<_>>(), "{workers} workers");
        }
    }
}
