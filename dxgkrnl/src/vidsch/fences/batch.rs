//! Several fences at once: waits that name many, and signals that name many.

use std::collections::BTreeMap;
use std::sync::Arc;

use nt::lock::MutexGuard;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::fence::Wait;
use crate::rank;
use crate::refusal::{Failure, refused};

use super::cross_adapter::{self, Signalling};
use super::values::{write_current, write_monitored};
use crate::vidsch::objects::fence::{Fence, SyncObject, Waits};

/// Fences whose waits are locked, each once, in the order of their handles.
struct Locked<'a>(BTreeMap<usize, (&'a Arc<Fence>, MutexGuard<'a, Waits, rank::FenceWaits>)>);

impl<'a> Locked<'a> {
    fn new(fences: impl Iterator<Item = &'a Arc<Fence>>) -> Self {
        let ordered: BTreeMap<usize, &Arc<Fence>> = fences.map(|fence| (fence.system().raw().addr(), fence)).collect();
        // A map visits its keys in order, so that two threads never lock two fences crosswise.
        Self(ordered.into_iter().map(|(key, fence)| (key, (fence, fence.lock_waits()))).collect())
    }

    fn of(&mut self, fence: &Fence) -> Option<&mut Waits> {
        self.0.get_mut(&fence.system().raw().addr()).map(|(_, waits)| &mut **waits)
    }

    /// As [`Fence::settle`] for each, with one DDI call for all the values that change.
    fn settle(&mut self) -> usize {
        loop {
            let changed: Vec<(&Fence, u64)> = self
                .0
                .values_mut()
                .filter_map(|(fence, waits)| Some((&***fence, waits.watch.plan(fence.current())?)))
                .collect();
            if changed.is_empty() {
                break;
            }
            write_monitored(&changed);
        }
        let mut woken = 0;
        for (fence, waits) in self.0.values_mut() {
            woken += waits.watch.wake();
            fence.look_after(waits);
        }
        woken
    }
}

/// `wait` has these conditions; those that are met count at once.
///
/// # Errors
/// A fence is closed, or its device lost.
pub(in crate::vidsch) fn add_waits(conditions: &[(Arc<SyncObject>, u64)], wait: &Arc<Wait>) -> Result<(), NTSTATUS> {
    for (open, _) in conditions {
        open.admit(wait)?;
    }
    if let [(open, value)] = conditions {
        return add_wait_on(open.fence(), *value, wait);
    }
    let mut locked = Locked::new(conditions.iter().map(|(open, _)| open.fence()));
    for (open, value) in conditions {
        if let Some(waits) = locked.of(open.fence()) {
            add_wait(open.fence(), waits, *value, wait)?;
        }
    }
    locked.settle();
    Ok(())
}

/// `wait` has one condition, whoever has the fence open.
///
/// # Errors
/// STATUS_CANCELLED if nobody can wait for the fence any more.
pub(in crate::vidsch) fn add_wait_on(fence: &Arc<Fence>, value: u64, wait: &Arc<Wait>) -> Result<(), NTSTATUS> {
    let mut waits = fence.lock_waits();
    add_wait(fence, &mut waits, value, wait)?;
    fence.settle(&mut waits);
    Ok(())
}

/// One condition of `wait`, unless that is over.
fn add_wait(fence: &Arc<Fence>, waits: &mut Waits, value: u64, wait: &Arc<Wait>) -> Result<(), NTSTATUS> {
    if wait.outcome().is_some() {
        return Ok(());
    }
    if waits.closed {
        return Err(STATUS_CANCELLED);
    }
    if fence.current() >= value {
        wait.satisfy();
        return Ok(());
    }
    if !waits.watched {
        waits.watched = true;
        fence.sch().watch(fence);
    }
    waits.watch.list.add(value, Arc::clone(wait));
    Ok(())
}

/// `wait` is over; it has no conditions on these fences any more.
pub(in crate::vidsch) fn remove_waits(conditions: &[(Arc<SyncObject>, u64)], wait: &Arc<Wait>) {
    let mut locked = Locked::new(conditions.iter().map(|(open, _)| open.fence()));
    for (_, waits) in locked.0.values_mut() {
        waits.watch.list.remove(wait);
    }
    locked.settle();
}

/// Forgets waits on these fences that are over.
pub(in crate::vidsch) fn remove_over(fences: &[Arc<Fence>]) {
    let mut locked = Locked::new(fences.iter());
    for (_, waits) in locked.0.values_mut() {
        waits.watch.list.remove_over();
    }
    locked.settle();
}

/// The CurrentValue of these fences may have changed: wakes those whose value is reached. Returns how many conditions came
/// true.
pub(in crate::vidsch) fn evaluate(fences: &[Arc<Fence>]) -> usize {
    match fences {
        [] => 0,
        [fence] => fence.evaluate(),
        _ => Locked::new(fences.iter()).settle(),
    }
}

/// Writes CurrentValues from the CPU, tells the GPU, and wakes those whose values are reached: all of them or none.
///
/// # Errors
/// STATUS_INVALID_PARAMETER if a value would go back and `rewind` is not set; why a fence is ended.
pub(crate) fn signal(signals: &[(Arc<SyncObject>, u64)], rewind: bool) -> Result<(), Failure> {
    let signalling = Signalling::new(signals.iter().map(|(open, _)| open.fence()));
    let mut locked = Locked::new(signals.iter().map(|(open, _)| open.fence()));
    for (open, _) in signals {
        open.check()?;
        if locked.of(open.fence()).is_some_and(|waits| waits.closed) {
            return Err(STATUS_CANCELLED.into());
        }
    }
    let mut last: BTreeMap<usize, (&Fence, u64)> = BTreeMap::new();
    for (open, value) in signals {
        let fence = open.fence();
        // By their value, which two of them have in common if they are one fence of several adapters.
        let entry =
            last.entry(fence.current_word().place().address().addr()).or_insert_with(|| (fence, fence.current()));
        if *value < entry.1 && !rewind {
            let why =
                format!("a value is {value:#x}, its fence has {:#x}, and Flags.AllowFenceRewind is not set", entry.1);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        entry.1 = *value;
    }
    let (native, monitored): (Vec<_>, Vec<_>) = last.into_values().partition(|(fence, _)| fence.is_native());
    for (fence, value) in monitored {
        fence.write_current(value);
    }
    write_current(&native, DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new());
    locked.settle();
    drop(locked);
    drop(signalling);
    cross_adapter::propagate(signals.iter().map(|(open, _)| open.fence()));
    Ok(())
}
