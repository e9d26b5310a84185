//! Who has which pages of a BAR. Each owner has a file of its own, so that what user mode gets to map one page shows nothing of others.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Innermost, Mutex, lock};
use nt::ram::new_file;

use super::window::Window;

/// Whoever user mode's pages of BARs belong to: a process, or what several processes may open. When the last copy of this is dropped, they belong to nobody.
#[derive(Clone)]
pub(crate) struct BarOwner(Option<Arc<Identity>>);

/// Pages of nobody are those that the kernel and the driver use.
pub(crate) const NO_BAR_OWNER: BarOwner = BarOwner(None);

/// Takes pages of a BAR back.
pub(super) trait TakeBack: Send + Sync {
    /// The owner is gone.
    fn take_back(&self, owner: OwnerId);
}

struct Identity {
    id: OwnerId,
    /// Those that have given it pages.
    givers: Mutex<Vec<Weak<dyn TakeBack>>, Innermost>,
}

impl BarOwner {
    /// Another one.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(NOBODY + 1);
        Self(Some(Arc::new(Identity { id: NEXT.fetch_add(1, Ordering::Relaxed), givers: Mutex::default() })))
    }

    pub(super) fn id(&self) -> OwnerId {
        self.0.as_ref().map_or(NOBODY, |identity| identity.id)
    }

    /// It gets pages, and tells when it is gone.
    pub(super) fn tells(&self, giver: &Weak<dyn TakeBack>) {
        let Some(identity) = &self.0 else { return };
        let mut givers = lock(&identity.givers);
        givers.retain(|known| known.strong_count() > 0);
        if !givers.iter().any(|known| known.ptr_eq(giver)) {
            givers.push(Weak::clone(giver));
        }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let givers = std::mem::take(&mut *lock(&self.givers));
        givers.iter().filter_map(Weak::upgrade).for_each(|giver| giver.take_back(self.id));
    }
}

/// An owner among those of a BAR.
pub(super) type OwnerId = u64;

/// Nobody.
pub(super) const NOBODY: OwnerId = 0;

/// The owners of the pages of a BAR. In the file of each a page has the place that it has in the BAR.
pub(super) struct BarOwners {
    /// Pages of owners, none of nobody: the first of each range, its end and its owner.
    ranges: BTreeMap<u64, (u64, OwnerId)>,
    files: HashMap<OwnerId, Arc<File>>,
    size: u64,
    /// Further mappings of the BAR.
    windows: Vec<Weak<Window>>,
    /// The bus has one file for all pages, or all processes use the same ones.
    pub(super) one_file: bool,
    /// The machine is about to end: files keep what their owners give back.
    pub(super) kept: bool,
}

impl BarOwners {
    /// Those of a BAR of `size` bytes of which all belongs to nobody.
    pub(super) fn new(size: u64) -> Self {
        Self { ranges: BTreeMap::new(), files: HashMap::new(), size, windows: Vec::new(), one_file: false, kept: false }
    }

    /// The owner of a page, and the end of the pages from there on that are the same owner's.
    pub(super) fn at(&self, page: u64) -> (OwnerId, u64) {
        match self.ranges.range(..=page).next_back() {
            Some((_, &(end, owner))) if page < end => (owner, end),
            _ => (NOBODY, self.ranges.range(page..).next().map_or(u64::MAX, |(&start, _)| start)),
        }
    }

    /// The parts of `pages` that are not `owner`'s, and whose they are.
    pub(super) fn of_others(&self, pages: Range<u64>, owner: OwnerId) -> Vec<(Range<u64>, OwnerId)> {
        let mut parts = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let (has, end) = self.at(page);
            let end = end.min(pages.end);
            if has != owner {
                parts.push((page..end, has));
            }
            page = end;
        }
        parts
    }

    /// From now on the pages belong to `owner`.
    pub(super) fn set(&mut self, pages: Range<u64>, owner: OwnerId) {
        for (part, has) in self.of_others(pages.clone(), owner).into_iter().filter(|(_, has)| *has != NOBODY) {
            let Some((start, (end, _))) = self.ranges.range(..=part.start).next_back().map(|(start, of)| (*start, *of))
            else {
                continue;
            };
            self.ranges.remove(&start);
            if start < part.start {
                self.ranges.insert(start, (part.start, has));
            }
            if part.end < end {
                self.ranges.insert(part.end, (end, has));
            }
        }
        if owner != NOBODY {
            self.add(pages, owner);
        }
    }

    /// Adds pages of which each is nobody's or the owner's.
    fn add(&mut self, pages: Range<u64>, owner: OwnerId) {
        let (mut start, mut end) = (pages.start, pages.end);
        let touching = self.ranges.range(..=end).rev().take_while(|(_, (end, _))| *end >= start);
        let same: Vec<u64> = touching.filter(|(_, (_, has))| *has == owner).map(|(start, _)| *start).collect();
        for known in same {
            if let Some((known_end, _)) = self.ranges.remove(&known) {
                (start, end) = (start.min(known), end.max(known_end));
            }
        }
        self.ranges.insert(start, (end, owner));
    }

    /// The file of an owner, which is made for its first pages; `None` for nobody.
    ///
    /// # Errors
    /// The host has no file left.
    pub(super) fn file(&mut self, owner: OwnerId) -> io::Result<Option<Arc<File>>> {
        if owner == NOBODY {
            return Ok(None);
        }
        if let Some(file) = self.known_file(owner) {
            return Ok(Some(file));
        }
        let file = Arc::new(new_file(c"campanile-bar", self.size)?);
        self.files.insert(owner, Arc::clone(&file));
        Ok(Some(file))
    }

    /// The file of an owner that has pages.
    pub(super) fn known_file(&self, owner: OwnerId) -> Option<Arc<File>> {
        self.files.get(&owner).cloned()
    }

    /// The pages of an owner.
    pub(super) fn pages_of(&self, owner: OwnerId) -> Vec<Range<u64>> {
        let of = self.ranges.iter().filter(|(_, (_, has))| *has == owner);
        of.map(|(start, (end, _))| *start..*end).collect()
    }

    /// Further mappings, which show each page in the file of its owner.
    pub(super) fn windows(&self) -> Vec<Arc<Window>> {
        self.windows.iter().filter_map(Weak::upgrade).collect()
    }

    /// Another mapping of the BAR shows its pages.
    pub(super) fn add_window(&mut self, window: &Arc<Window>) {
        self.windows.retain(|known| known.strong_count() > 0);
        self.windows.push(Arc::downgrade(window));
    }

    /// The mapping is about to show nothing any more.
    pub(super) fn remove_window(&mut self, window: &Arc<Window>) {
        self.windows.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(window)));
    }

    /// Forgets the files of those that have no pages left.
    pub(super) fn close_unused(&mut self) {
        let Self { ranges, files, .. } = self;
        files.retain(|owner, _| ranges.values().any(|(_, has)| has == owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(owners: &BarOwners) -> Vec<(u64, u64, OwnerId)> {
        owners.ranges.iter().map(|(start, (end, owner))| (*start, *end, *owner)).collect()
    }

    #[test]
    fn pages_have_the_owner_that_was_set_last() {
        let mut owners = BarOwners::new(1 << 20);
        owners.set(4..8, 1);
        owners.set(8..10, 1);
        assert_eq!(ranges(&owners), [(4, 10, 1)]);
        owners.set(6..7, 2);
        assert_eq!(ranges(&owners), [(4, 6, 1), (6, 7, 2), (7, 10, 1)]);
        assert_eq!([3, 4, 6, 9, 10].map(|page| owners.at(page)), [(0, 4), (1, 6), (2, 7), (1, 10), (0, u64::MAX)]);
        assert_eq!(owners.of_others(0..12, 1), [(0..4, 0), (6..7, 2), (10..12, 0)]);
        owners.set(5..9, NOBODY);
        assert_eq!(ranges(&owners), [(4, 5, 1), (9, 10, 1)]);
        owners.set(0..12, 3);
        assert_eq!(ranges(&owners), [(0, 12, 3)]);
        owners.set(0..12, NOBODY);
        assert_eq!(ranges(&owners), []);
    }

    #[derive(Default)]
    struct Told(Mutex<Vec<OwnerId>, Innermost>);

    impl TakeBack for Told {
        fn take_back(&self, owner: OwnerId) {
            lock(&self.0).push(owner);
        }
    }

    #[test]
    fn whoever_gave_pages_is_told_once_when_their_owner_is_gone() {
        let told: Arc<Told> = Arc::default();
        let giver: Weak<dyn TakeBack> = Arc::<Told>::downgrade(&told);
        let owner = BarOwner::new();
        let (id, copy) = (owner.id(), owner.clone());
        owner.tells(&giver);
        copy.tells(&giver);
        NO_BAR_OWNER.tells(&giver);
        drop(owner);
        assert!(lock(&told.0).is_empty());
        drop(copy);
        assert_eq!(*lock(&told.0), [id]);
        assert_ne!(BarOwner::new().id(), id);
    }

    #[test]
    fn every_owner_has_a_file_as_long_as_it_has_pages() {
        let mut owners = BarOwners::new(1 << 20);
        assert!(owners.file(NOBODY).unwrap().is_none());
        let [one, other] = [1, 2].map(|owner| owners.file(owner).unwrap().unwrap());
        owners.set(0..1, 1);
        assert!(!Arc::ptr_eq(&one, &other) && Arc::ptr_eq(&one, &owners.known_file(1).unwrap()));
        owners.close_unused();
        assert!(owners.known_file(1).is_some() && owners.known_file(2).is_none());
    }
}
