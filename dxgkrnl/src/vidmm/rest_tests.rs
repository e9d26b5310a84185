//! Page tables and rings of processes at rest leave and come back.

use super::*;
use crate::vidmm::rest::Standing;

impl World {
    /// The work of the process is done, and more comes only through [`World::wake`].
    pub(super) fn rest(&mut self) {
        self.rests = true;
        self.memory.rest(self.space);
    }

    /// The process works on; false if what it needs finds no room.
    pub(super) fn wake(&mut self) -> bool {
        if self.rests {
            match self.memory.wake(self.space) {
                Ok(()) => self.rests = false,
                Err(status) => assert_eq!(status, STATUS_NO_MEMORY),
            }
        }
        assert_eq!(self.memory.is_at_rest(self.space), self.rests);
        !self.rests
    }

    fn standing(&self) -> Standing {
        self.memory.spaces[&self.space].standing
    }

    /// Another process, which wants `pages` pages of VRAM and nothing else.
    fn other(&mut self, pages: u64) -> usize {
        let mine = self.space;
        let process = KmdHandle::new(core::ptr::without_provenance_mut(3));
        self.space = self.memory.create_space(process, false, VaSpace::new(29, (0, 0))).unwrap();
        let index = self.create(pages, &[2], CpuAccess::None);
        self.space = mine;
        index
    }
}

#[test]
fn tables_of_a_process_at_rest_make_room_and_are_back_when_it_works() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    // All there is beside its root.
    let other = world.other(world.memory.segments.free_bytes(2) / PAGES - 1);
    let a = world.create(4, &[1], CpuAccess::Visible);
    let at = world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.gpu_write(a, 3, 9);
    assert_eq!(world.make_resident(other), Err(STATUS_NO_MEMORY), "its work may walk the tables");
    world.rest();
    world.make_resident(other).unwrap();
    assert_eq!(world.standing(), Standing::Evicted);
    assert_eq!(world.gpu(at, false), Err(Fault), "the tables are gone, and the GPU has forgotten them");
    assert_eq!(world.memory.root(world.space), Some(world.root), "the root stays");
    assert_eq!(world.memory.wake(world.space), Err(STATUS_NO_MEMORY), "there is no room yet");
    assert_eq!(world.standing(), Standing::Evicted);
    world.evict(other, &idle());
    assert!(world.wake());
    world.check();
    let counts = world.memory.counts;
    assert_eq!(
        (counts.tables_evicted, counts.tables_restored),
        (2, 1),
        "the attempt without room counts as one that left"
    );
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
    world.rest();
    let before = world.memory.segments.free_bytes(2);
    world.memory.evict_tables(world.space).unwrap();
    assert_eq!(world.memory.segments.free_bytes(2), before + 2 * PAGES, "a leaf and the directory above it");
    world.unmap(a);
    world.evict(b, &idle());
    world.memory.evict(world.models[b].id).unwrap();
    world.map(c).unwrap();
    world.make_resident(c).unwrap();
    world.destroy(a);
    assert_eq!(world.standing(), Standing::Evicted, "nothing of that brings tables");
    assert!(world.wake());
    world.check();
    world.finish();
}

#[test]
fn a_ring_leaves_only_while_its_process_rests_and_is_back_before_it_works() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let ring = world.create(40, &[2], CpuAccess::Visible);
    world.map(ring).unwrap();
    world.make_resident(ring).unwrap();
    world.memory.allocations.get_mut(&world.models[ring].id).unwrap().references = 1;
    world.gpu_write(ring, 8, 5);
    let other = world.other(40);
    world.rest();
    assert_eq!(world.make_resident(other), Err(STATUS_NO_MEMORY), "the ring is on the residency list");
    world.evict(ring, &idle());
    assert!(world.wake());
    assert_eq!(world.make_resident(other), Err(STATUS_NO_MEMORY), "the process works");
    world.rest();
    world.make_resident(other).unwrap();
    assert!(matches!(world.place(ring), Place::System(_)));
    assert!(!world.wake(), "it does not work without its ring");
    world.evict(other, &idle());
    assert!(world.wake());
    assert!(matches!(world.place(ring), Place::Local { .. }) && !world.memory.is_busy(world.models[ring].id));
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
    world.rest();
    assert_eq!(world.memory.evict_one(2), Ok(true));
    assert_eq!(world.standing(), Standing::Evicted, "the allocation was used later");
    assert!(world.wake());
    world.rest();
    assert_eq!(world.memory.evict_one(2), Ok(true));
    assert!(matches!(world.place(old), Place::System(_)) && world.standing() == Standing::Resting);
    assert_eq!((world.memory.evict_one(2), world.memory.evict_one(2)), (Ok(true), Ok(false)));
    world.finish();
}

#[test]
fn tables_that_come_back_wrong_are_found() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    let a = world.create(4, &[2], CpuAccess::Visible);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.check();
    world.rest();
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
    world.rest();
    world.memory.evict_tables(world.space).unwrap();
    world.memory.park(false).unwrap();
    lock(&world.fake).lose_everything();
    world.memory.unpark(true).unwrap();
    assert_eq!(world.standing(), Standing::Evicted);
    world.check();
    world.finish();
}
