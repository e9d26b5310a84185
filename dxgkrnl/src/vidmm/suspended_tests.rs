//! Page tables and rings of suspended processes are evicted and come back.

use super::*;
use crate::vidmm::memory::ProcessState;

impl World {
    /// The work of the process is done, and more comes only through [`World::resume`].
    pub(super) fn suspend(&mut self) {
        self.suspended = true;
        self.memory.note_suspended(self.space);
    }

    /// Resumes the process; false if there is no memory for what it needs.
    pub(super) fn resume(&mut self) -> bool {
        if self.suspended {
            match self.memory.resume(self.space, &mut waiting()) {
                Ok(_) => self.suspended = false,
                Err(status) => assert_eq!(status, STATUS_NO_MEMORY),
            }
        }
        assert_eq!(self.memory.is_suspended(self.space), self.suspended);
        !self.suspended
    }

    /// True while the page tables are evicted.
    fn is_bare(&self) -> bool {
        let space = &self.memory.spaces[&self.space];
        space.process_state == ProcessState::Suspended && space.tables.is_none()
    }

    /// Another process, which wants `pages` pages of VRAM and nothing else.
    fn other(&mut self, pages: u64) -> usize {
        let mine = self.space;
        let process = KmdHandle::new(core::ptr::without_provenance_mut(3));
        self.space = self.memory.create_space(process, false, VaSpace::new(29, (0, 0)), &mut waiting()).unwrap();
        let index = self.create(pages, &[2], CpuAccess::None);
        self.space = mine;
        index
    }
}

#[test]
fn tables_of_a_suspended_process_are_evicted_and_are_back_when_it_works() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    // All there is beside the roots.
    let other = world.other(world.memory.segments.free_bytes(2) / PAGES - 1);
    let root = world.root();
    let a = world.create(4, &[1], CpuAccess::Visible);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.gpu_write(a, 3, 9);
    assert_eq!(world.make_resident(other), Err(STATUS_NO_MEMORY), "its work may walk the tables");
    world.suspend();
    world.make_resident(other).unwrap();
    assert!(world.is_bare());
    assert_eq!(world.memory.root(world.space), None);
    let gone = lock(&world.fake).has_translations_of(root.unwrap());
    assert!(!gone, "the GPU has not forgotten what the tables said");
    assert_eq!(
        world.memory.resume(world.space, &mut waiting()),
        Err(STATUS_NO_MEMORY),
        "there is not enough memory yet"
    );
    assert!(world.is_bare());
    world.evict(other, &idle());
    assert!(world.resume());
    world.check();
    let counts = world.memory.counts;
    assert_eq!(
        (counts.tables_evicted, counts.tables_restored),
        (2, 1),
        "the attempt without enough memory counts as one that left"
    );
    world.finish();
}

#[test]
fn a_root_comes_back_elsewhere_when_its_page_is_taken() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    let a = world.create(4, &[1], CpuAccess::Visible);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.gpu_write(a, 3, 9);
    let (segment, offset) = world.root().unwrap();
    world.suspend();
    world.memory.evict_tables(world.space).unwrap();
    // Somebody else's pages, until one of them lies where the root was.
    let takes = |world: &mut World| {
        let page = world.create(1, &[2], CpuAccess::None);
        world.make_resident(page).unwrap();
        let there = |place: &Location| matches!(place, Location::Local { segment: at, offset: place } if (*at, *place) == (segment, offset));
        let found = there(world.place(page));
        if !found {
            world.evict(page, &idle());
        }
        found
    };
    assert!((0..128).any(|_| takes(&mut world)), "the memory of the root is not used again");
    assert_eq!(world.memory.resume(world.space, &mut waiting()), Ok(true), "the driver has to be told of another root");
    world.suspended = false;
    assert_ne!(world.root(), Some((segment, offset)));
    world.check();
    world.suspend();
    assert_eq!(world.memory.resume(world.space, &mut waiting()), Ok(false), "it stayed where it was");
    world.suspended = false;
    world.finish();
}

#[test]
fn what_is_asked_of_an_address_space_without_tables_is_there_when_they_are_back() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    let [a, b, c] = [4, 5, 6].map(|pages| world.create(pages, &[2], CpuAccess::Visible));
    for index in [a, b] {
        world.map(index).unwrap();
        world.make_resident(index).unwrap();
        world.gpu_write(index, 1, 7);
    }
    world.suspend();
    let before = world.memory.segments.free_bytes(2);
    world.memory.evict_tables(world.space).unwrap();
    assert_eq!(world.memory.segments.free_bytes(2), before + 3 * PAGES, "a leaf, the directory above it and the root");
    world.unmap(a);
    world.evict(b, &idle());
    world.memory.evict(world.models[b].id).unwrap();
    world.map(c).unwrap();
    world.make_resident(c).unwrap();
    world.destroy(a);
    assert!(world.is_bare(), "nothing of that brings tables");
    assert!(world.resume());
    world.check();
    world.finish();
}

#[test]
fn a_ring_leaves_only_while_its_process_is_suspended_and_is_back_before_it_works() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let ring = world.create(40, &[2], CpuAccess::Visible);
    world.map(ring).unwrap();
    world.make_resident(ring).unwrap();
    world.memory.allocations.get_mut(&world.models[ring].id).unwrap().references = 1;
    world.gpu_write(ring, 8, 5);
    let other = world.other(40);
    world.suspend();
    assert_eq!(world.make_resident(other), Err(STATUS_NO_MEMORY), "the ring is on the residency list");
    world.evict(ring, &idle());
    assert!(world.resume());
    assert_eq!(world.make_resident(other), Err(STATUS_NO_MEMORY), "the process works");
    world.suspend();
    world.make_resident(other).unwrap();
    assert!(matches!(world.place(ring), Location::System(_)));
    assert!(!world.resume(), "it does not work without its ring");
    world.evict(other, &idle());
    assert!(world.resume());
    assert!(matches!(world.place(ring), Location::Local { .. }) && !world.memory.is_busy(world.models[ring].id));
    world.check();
    world.memory.allocations.get_mut(&world.models[ring].id).unwrap().references = 0;
    world.finish();
}

#[test]
fn who_used_its_tables_longest_ago_goes_first() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    let a = world.create(1, &[1], CpuAccess::Visible);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    let old = world.create(30, &[2], CpuAccess::None);
    world.make_resident(old).unwrap();
    world.evict(old, &idle());
    world.suspend();
    assert_eq!(world.memory.evict_one(2, &mut waiting()), Ok(true));
    assert!(world.is_bare(), "the allocation was used later");
    assert!(world.resume());
    world.suspend();
    assert_eq!(world.memory.evict_one(2, &mut waiting()), Ok(true));
    assert!(matches!(world.place(old), Location::System(_)) && !world.is_bare());
    assert_eq!(
        (world.memory.evict_one(2, &mut waiting()), world.memory.evict_one(2, &mut waiting())),
        (Ok(true), Ok(false))
    );
    world.finish();
}

#[test]
fn tables_that_come_back_wrong_are_found() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    let a = world.create(4, &[2], CpuAccess::Visible);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.check();
    world.suspend();
    world.memory.evict_tables(world.space).unwrap();
    lock(&world.fake).forget = 1;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.check()));
    assert!(found.is_err(), "an entry was not written, and nobody noticed");
}

#[test]
fn out_of_d0_and_back_without_tables() {
    let mut world = World::new(4 << 20, 96 * PAGES, 2);
    let a = world.create(4, &[2], CpuAccess::Visible);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.gpu_write(a, 2, 6);
    world.suspend();
    world.memory.evict_tables(world.space).unwrap();
    world.memory.park(false).unwrap();
    lock(&world.fake).lose_everything();
    world.memory.unpark(true).unwrap();
    assert!(world.is_bare());
    world.check();
    world.finish();
}
