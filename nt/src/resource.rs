//! Executive resources of a driver: locks that one thread has alone or several share, by the address of their structure. [wdm: ERESOURCE]

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::lock::{Condvar, Innermost, Mutex};

/// A thread, by a number above zero that no two threads share.
pub type ThreadToken = usize;

/// The resources that a driver has initialised.
#[derive(Default)]
pub struct Resources {
    all: Mutex<BTreeMap<usize, Resource>, Innermost>,
    changed: Condvar,
}

/// Kind of acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Alone.
    Exclusive,
    /// With others, behind threads that wait to have it alone.
    Shared,
    /// With others, before threads that wait to have it alone.
    SharedFirst,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The thread has it, once more if it had it before.
    Yes,
    /// Others have it.
    NotNow,
    /// The thread shares it and wants it alone, for which it would wait for itself.
    Never,
    /// It was not initialised.
    Unknown,
}

/// Owners and waiters of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Resource {
    /// The thread that has it alone, and how often.
    owner: Option<(ThreadToken, u32)>,
    /// Threads that share it, and how often each.
    sharers: BTreeMap<ThreadToken, u32>,
    waiting: [u32; 2],
    /// An address inside the instruction that has initialised it, 0 if that is not known.
    from: usize,
}

impl Resource {
    fn try_acquire(&mut self, wanted: Wanted, thread: ThreadToken) -> Acquired {
        match &mut self.owner {
            Some((owner, count)) if *owner == thread => {
                *count += 1;
                return Acquired::Yes;
            }
            Some(_) => return Acquired::NotNow,
            None => {}
        }
        let shares = self.sharers.contains_key(&thread);
        match wanted {
            Wanted::Exclusive if shares => return Acquired::Never,
            Wanted::Exclusive if !self.sharers.is_empty() => return Acquired::NotNow,
            Wanted::Exclusive => self.owner = Some((thread, 1)),
            Wanted::Shared if self.waiting(Wanted::Exclusive) != 0 && !shares => return Acquired::NotNow,
            Wanted::Shared | Wanted::SharedFirst => *self.sharers.entry(thread).or_insert(0) += 1,
        }
        Acquired::Yes
    }

    fn release(&mut self, thread: ThreadToken) -> bool {
        if let Some((owner, count)) = &mut self.owner {
            if *owner != thread {
                return false;
            }
            *count -= 1;
            if *count == 0 {
                self.owner = None;
            }
            return true;
        }
        let Some(count) = self.sharers.get_mut(&thread) else { return false };
        *count -= 1;
        if *count == 0 {
            self.sharers.remove(&thread);
        }
        true
    }

    fn waiting(&self, wanted: Wanted) -> u32 {
        let [exclusive, shared] = self.waiting;
        if wanted == Wanted::Exclusive { exclusive } else { shared }
    }

    fn count_waiting(&mut self, wanted: Wanted) -> &mut u32 {
        let [exclusive, shared] = &mut self.waiting;
        if wanted == Wanted::Exclusive { exclusive } else { shared }
    }
}

impl Resources {
    /// A resource that nobody has; false if there was one at the address before, which is forgotten.
    pub fn initialize(&self, address: usize, from: usize) -> bool {
        self.all.lock().insert(address, Resource { from, ..Resource::default() }).is_none()
    }

    /// The first resource that lies in a range, and the instruction that has initialised it.
    pub fn first_in(&self, range: &Range<usize>) -> Option<(usize, usize)> {
        self.all.lock().range(range.clone()).next().map(|(address, resource)| (*address, resource.from))
    }

    /// Forgets a resource. `None` if there is none, else true if nobody had it or waited for it.
    pub fn delete(&self, address: usize) -> Option<bool> {
        let gone = self.all.lock().remove(&address)?;
        self.changed.notify_all();
        Some(gone == Resource { from: gone.from, ..Resource::default() })
    }

    /// Takes a resource if it can be had now.
    pub fn try_acquire(&self, address: usize, wanted: Wanted, thread: ThreadToken) -> Acquired {
        let mut all = self.all.lock();
        all.get_mut(&address).map_or(Acquired::Unknown, |resource| resource.try_acquire(wanted, thread))
    }

    /// As [`Resources::try_acquire`], after a wait of at most `timeout`, in which the thread counts among those that wait.
    pub fn acquire_within(&self, address: usize, wanted: Wanted, thread: ThreadToken, timeout: Duration) -> Acquired {
        let mut all = self.all.lock();
        let Some(resource) = all.get_mut(&address) else { return Acquired::Unknown };
        match resource.try_acquire(wanted, thread) {
            Acquired::NotNow => *resource.count_waiting(wanted) += 1,
            other => return other,
        }
        let mut all = self.changed.wait_timeout(all, timeout);
        let Some(resource) = all.get_mut(&address) else { return Acquired::Unknown };
        let waiting = resource.count_waiting(wanted);
        *waiting = waiting.saturating_sub(1);
        resource.try_acquire(wanted, thread)
    }

    /// Gives a resource back once; false if the thread does not have it.
    pub fn release(&self, address: usize, thread: ThreadToken) -> bool {
        let released = self.all.lock().get_mut(&address).is_some_and(|resource| resource.release(thread));
        self.changed.notify_all();
        released
    }

    /// A thread that has the resource alone shares it from now on, as often; false if the thread does not have it alone.
    pub fn convert_to_shared(&self, address: usize, thread: ThreadToken) -> bool {
        let mut all = self.all.lock();
        let Some(resource) = all.get_mut(&address) else { return false };
        let Some((_, count)) = resource.owner.take_if(|(owner, _)| *owner == thread) else { return false };
        resource.sharers.insert(thread, count);
        drop(all);
        self.changed.notify_all();
        true
    }

    /// How often the thread has the resource: alone, and in either way. `None` if it was not initialised.
    pub fn held_by(&self, address: usize, thread: ThreadToken) -> Option<(u32, u32)> {
        let all = self.all.lock();
        let resource = all.get(&address)?;
        let alone = resource.owner.filter(|(owner, _)| *owner == thread).map_or(0, |(_, count)| count);
        Some((alone, alone + resource.sharers.get(&thread).copied().unwrap_or(0)))
    }

    /// Threads that wait for a resource.
    pub fn waiting(&self, address: usize, wanted: Wanted) -> u32 {
        self.all.lock().get(&address).map_or(0, |resource| resource.waiting(wanted))
    }

    /// Resources that were not deleted.
    pub fn count(&self) -> usize {
        self.all.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 0x1000;

    #[test]
    fn one_has_it_alone_or_several_share_it_each_as_often_as_it_was_taken() {
        let resources = Resources::default();
        assert_eq!(resources.try_acquire(AT, Wanted::Shared, 1), Acquired::Unknown);
        assert!(resources.initialize(AT, 0));
        for _ in 0..2 {
            assert_eq!(resources.try_acquire(AT, Wanted::Exclusive, 1), Acquired::Yes);
        }
        assert_eq!(
            resources.try_acquire(AT, Wanted::Shared, 1),
            Acquired::Yes,
            "a thread that has it alone may share it with itself"
        );
        assert_eq!(resources.try_acquire(AT, Wanted::Shared, 2), Acquired::NotNow);
        assert_eq!((resources.held_by(AT, 1), resources.held_by(AT, 2)), (Some((3, 3)), Some((0, 0))));
        assert!(!resources.release(AT, 2));
        assert!((0..3).all(|_| resources.release(AT, 1)));
        assert!(!resources.release(AT, 1), "it was taken three times");
        for thread in [1, 2, 2] {
            assert_eq!(resources.try_acquire(AT, Wanted::Shared, thread), Acquired::Yes);
        }
        assert_eq!(resources.held_by(AT, 2), Some((0, 2)));
        assert_eq!(resources.try_acquire(AT, Wanted::Exclusive, 3), Acquired::NotNow);
        assert_eq!(resources.try_acquire(AT, Wanted::Exclusive, 2), Acquired::Never, "it would wait for itself");
        assert_eq!(resources.delete(AT), Some(false));
        assert_eq!((resources.delete(AT), resources.count()), (None, 0));
    }

    #[test]
    fn who_waits_to_have_it_alone_comes_before_those_who_do_not_share_it_yet() {
        let resources = Resources::default();
        assert!(resources.initialize(AT, 0));
        assert_eq!(resources.try_acquire(AT, Wanted::Shared, 1), Acquired::Yes);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let hour = Duration::from_secs(3600);
                while resources.acquire_within(AT, Wanted::Exclusive, 2, hour) == Acquired::NotNow {}
            });
            while resources.waiting(AT, Wanted::Exclusive) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(resources.try_acquire(AT, Wanted::Shared, 3), Acquired::NotNow);
            assert_eq!(
                resources.try_acquire(AT, Wanted::Shared, 1),
                Acquired::Yes,
                "a thread that shares it already goes on"
            );
            assert_eq!(resources.try_acquire(AT, Wanted::SharedFirst, 4), Acquired::Yes);
            for thread in [1, 1, 4] {
                assert!(resources.release(AT, thread));
            }
            waiter.join().expect("the waiter ends");
        });
        assert_eq!((resources.held_by(AT, 2), resources.waiting(AT, Wanted::Exclusive)), (Some((1, 1)), 0));
        assert!(!resources.convert_to_shared(AT, 1));
        assert!(resources.convert_to_shared(AT, 2));
        assert_eq!(resources.held_by(AT, 2), Some((0, 1)));
        assert_eq!(resources.try_acquire(AT, Wanted::Shared, 3), Acquired::Yes);
    }
}
