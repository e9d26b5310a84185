//! Requests to many processes at a moment at which everybody waits for their answers: each process is asked on a thread of its own, and all that it answers has
//! together the time that one answer has at other times. So the slowest process decides how long everybody waits, and has one limit for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use nt::lock::{Mutex, lock};
use nt::user_space::UserSpace;

/// All answers of some processes have one limit together while this exists.
pub(crate) struct JointLimit(Vec<Arc<dyn UserSpace>>);

impl JointLimit {
    /// Begins it for processes, each of which may be named more than once.
    pub(crate) fn of(processes: impl IntoIterator<Item = Arc<dyn UserSpace>>) -> Self {
        let processes: Vec<_> = processes.into_iter().collect();
        processes.iter().for_each(|process| process.begin_joint_limit());
        Self(processes)
    }
}

impl Drop for JointLimit {
    fn drop(&mut self) {
        self.0.iter().for_each(|process| process.end_joint_limit());
    }
}

/// Does `act` with each of `items`, which has it ask the processes that `processes` tells. Items whose first process that is waited for differs are done beside each other, as far
/// as the host has threads, and the others in turn: an item of several processes may ask one beside another item.
pub(crate) fn beside_each_other<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    processes: impl Fn(&T) -> Vec<Arc<dyn UserSpace>>,
    act: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut limits = Vec::new();
    let mut of_processes: BTreeMap<*const (), Vec<T>> = BTreeMap::new();
    for item in items {
        let processes = processes(&item);
        let first = processes.iter().find(|process| process.waits());
        let place = first.map_or(std::ptr::null(), |process| Arc::as_ptr(process).cast());
        of_processes.entry(place).or_default().push(item);
        limits.push(JointLimit::of(processes));
    }
    let further = of_processes.len().saturating_sub(1);
    let left: Mutex<Vec<Vec<T>>> = Mutex::new(of_processes.into_values().collect());
    let done: Mutex<Vec<R>> = Mutex::new(Vec::new());
    let ask = || {
        while let Some(items) = { lock(&left).pop() } {
            let answers: Vec<R> = items.into_iter().map(&act).collect();
            lock(&done).extend(answers);
        }
    };
    thread::scope(|scope| {
        for _ in 0..further {
            // Without a thread the others do what it would have done.
            let _ = thread::Builder::new().name("vidmm-asks".to_owned()).spawn_scoped(scope, ask);
        }
        ask();
    });
    std::mem::take(&mut *lock(&done))
}
