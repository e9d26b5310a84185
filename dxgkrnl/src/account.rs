//! What the system keeps of objects that several processes may have, and to whom it is charged.
//!
//! Such an object lives as long as somebody has it, whoever made it. So all of it is charged to each process that has it, once, however many handles the process has of it: nobody has more
//! than it may have, also of what others made who have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nt::lock::{Innermost, Mutex, lock};
use wddm_ddi::status::NTSTATUS;

use crate::quota::{
    Count, DataPlace, DataQuota, DescribedQuota, EventQuota, FilePlace, FileQuota, FunctionQuota, HardwareQuota,
    KnownPlace, KnownQuota, Quota, Share, SparePlace, SpareQuota,
};

/// Numbers of objects.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Descriptors, bytes and numbers that the system keeps for one object.
#[derive(Debug)]
pub(crate) struct Upkeep {
    number: u64,
    files: usize,
    /// Descriptors beside those of its files.
    spare: usize,
    bytes: usize,
    mutexes: usize,
    syncs: usize,
}

impl Upkeep {
    fn nothing() -> Self {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self { number, files: 0, spare: 0, bytes: 0, mutexes: 0, syncs: 0 }
    }

    /// That of a fence.
    pub(crate) fn of_fence() -> Self {
        Self { files: 1, ..Self::nothing() }
    }

    /// That of a resource with so many allocations and bytes of private data. An allocation that was evicted has another file of system memory beside its own.
    pub(crate) fn of_resource(allocations: usize, bytes: usize) -> Self {
        Self { files: allocations, spare: allocations, bytes, ..Self::nothing() }
    }

    /// That of a keyed mutex, whose data are bounded.
    pub(crate) fn of_mutex() -> Self {
        Self { mutexes: 1, ..Self::nothing() }
    }

    /// That of a synchronization object of before monitored fences.
    pub(crate) fn of_older_sync() -> Self {
        Self { syncs: 1, ..Self::nothing() }
    }
}

/// The places that one object takes.
type Places = (FilePlace, SparePlace, DataPlace, KnownPlace, KnownPlace);

#[derive(Debug, Default)]
struct Charged {
    files: FileQuota,
    spare: SpareQuota,
    bytes: DataQuota,
    mutexes: KnownQuota,
    syncs: KnownQuota,
    /// The objects that the process has, by number: how often, and what each takes.
    objects: Mutex<BTreeMap<u64, (usize, Places)>, Innermost>,
}

/// The objects that are charged to one process. Clones are of the same process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account(Arc<Charged>);

/// An object that a process has, which is charged to it until the last of these is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Account,
    number: u64,
}

impl Account {
    fn within(descriptors: &Arc<Count>) -> Self {
        let (files, spare) = (Quota::within(descriptors), Quota::within(descriptors));
        Self(Arc::new(Charged { files, spare, ..Charged::default() }))
    }

    /// Charges an object, once more if it is charged already, which takes nothing then.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the process would have more than it may have.
    pub(crate) fn charge(&self, upkeep: &Upkeep) -> Result<Charge, NTSTATUS> {
        let mut objects = lock(&self.0.objects);
        match objects.get_mut(&upkeep.number) {
            Some((times, _)) => *times += 1,
            None => {
                objects.insert(upkeep.number, (1, self.0.take(upkeep)?));
            }
        }
        Ok(Charge { account: self.clone(), number: upkeep.number })
    }
}

impl Charged {
    fn take(&self, upkeep: &Upkeep) -> Result<Places, NTSTATUS> {
        Ok((
            self.files.take_many(upkeep.files)?,
            self.spare.take_many(upkeep.spare)?,
            self.bytes.take_many(upkeep.bytes)?,
            self.mutexes.take_many(upkeep.mutexes)?,
            self.syncs.take_many(upkeep.syncs)?,
        ))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut objects = lock(&self.account.0.objects);
        let Some((times, _)) = objects.get_mut(&self.number) else { return };
        *times -= 1;
        if *times == 0 {
            objects.remove(&self.number);
        }
    }
}

/// Counts of the resources that the system has taken for a process.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub(crate) events: EventQuota,
    pub(crate) functions: FunctionQuota,
    pub(crate) names: KnownQuota,
    pub(crate) described: DescribedQuota,
    /// The objects that it shares with others.
    pub(crate) shared: Account,
    share: Share,
}

impl Quotas {
    /// Those of a program that has this share of its machine.
    pub(crate) fn of(share: Share) -> Self {
        let descriptors = Arc::new(Count::new(share.descriptors));
        Self {
            events: Quota::within(&descriptors),
            described: Quota::within(&descriptors),
            shared: Account::within(&descriptors),
            share,
            ..Self::default()
        }
    }

    /// A new limit of hardware queues, or of hardware contexts, on an adapter.
    pub(crate) fn hardware(&self) -> HardwareQuota {
        Quota::within(&Arc::new(Count::new(self.share.hardware_queues)))
    }
}

#[cfg(test)]
mod tests {
    use wddm_ddi::status::STATUS_INSUFFICIENT_RESOURCES;

    use super::*;

    #[test]
    fn what_a_program_has_the_machine_hold_is_counted_together_and_a_refusal_takes_nothing() {
        let quotas = Quotas::of(Share { descriptors: 3, hardware_queues: 1 });
        let (fence, resource) = (Upkeep::of_fence(), Upkeep::of_resource(1, 8));
        let (event, _file, described) =
            (quotas.events.take().unwrap(), quotas.shared.charge(&fence).unwrap(), quotas.described.take().unwrap());
        let refused = Some(STATUS_INSUFFICIENT_RESOURCES);
        assert_eq!([quotas.events.take().err(), quotas.described.take().err()], [refused; 2]);
        drop(event);
        assert_eq!(quotas.shared.charge(&resource).err(), refused, "it takes two");
        drop(described);
        let _two = quotas.shared.charge(&resource).unwrap();
        assert_eq!(quotas.events.take().err(), refused);
        assert_eq!(quotas.names.take_many(1024).err(), None, "names take no descriptors");
        let (queues, contexts) = (quotas.hardware(), quotas.hardware());
        let _first = (queues.take().unwrap(), contexts.take().unwrap());
        assert_eq!(queues.take().err(), refused);
    }

    #[test]
    fn an_object_is_charged_once_to_each_who_has_it_and_until_it_has_it_no_more() {
        let [one, other] = [1, 1].map(|descriptors| Quotas::of(Share { descriptors, hardware_queues: 0 }).shared);
        let fences = [Upkeep::of_fence(), Upkeep::of_fence()];
        let (first, again) = (one.charge(&fences[0]).unwrap(), one.charge(&fences[0]).unwrap());
        let _others = other.charge(&fences[0]).unwrap();
        drop(first);
        assert_eq!(one.charge(&fences[1]).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
        drop(again);
        let _second = one.charge(&fences[1]).unwrap();
    }
}
