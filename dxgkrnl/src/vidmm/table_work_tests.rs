//! Page tables that the GPU writes: the order of what is done about them, seen while the paging node has come only so far.

use super::*;

/// The two ways in which the GPU does it.
const BY_GPU: [fake_gpu::Mode; 2] = [fake_gpu::MODES[1], fake_gpu::MODES[2]];

impl World {
    /// As [`World::unmap`], and the paging node comes to it when it comes to it.
    pub(super) fn unmap_unseen(&mut self, index: usize) {
        if let Some(at) = self.models[index].mapped.take() {
            let len = self.models[index].pages.len() as u64 * PAGES;
            self.memory.free_region(self.space, at, len).unwrap();
            self.stale.push(at..at + len);
        }
    }

    /// The paging node has done everything.
    pub(super) fn settle(&mut self) {
        self.memory.finish_tables().unwrap();
        self.stale.clear();
    }

    /// At any moment, whatever is under way, the GPU reaches through a mapping nothing that belongs to another allocation by now.
    pub(super) fn reaches_nothing_else(&self) {
        let fake = lock(&self.fake);
        for model in &self.models {
            let pages = model
                .mapped
                .into_iter()
                .flat_map(|at| (0..model.pages.len() as u64).map(move |page| at + page * PAGES));
            // A process that was given addresses that others have just given back waits for the fence before it uses them.
            let pages = pages.filter(|address| !self.stale.iter().any(|stale| stale.contains(address)));
            let root = self.root();
            for led in pages.filter_map(|address| fake.leads_to(root?, address)) {
                for (id, state) in self.memory.allocations.iter().filter(|(id, _)| **id != model.id) {
                    let pages = state.allocation.size() / PAGES;
                    let inside = match &state.place {
                        Location::Uncommitted => false,
                        Location::System(memory) => {
                            led.0 == 0 && (0..pages).any(|page| memory.frame(page) * PAGES == led.1)
                        }
                        Location::Local { segment, offset } => {
                            led.0 == *segment && (*offset..offset + pages * PAGES).contains(&led.1)
                        }
                    };
                    assert!(!inside, "{:?} is mapped and leads to {led:x?}, which is of {id:?}", model.id);
                }
            }
        }
    }

    /// Runs packets one by one; after each, `seen` is called.
    fn run_slowly(&mut self, mut seen: impl FnMut(&Self)) {
        self.memory.submit().unwrap();
        while self.node.run_one() {
            self.reaches_nothing_else();
            seen(self);
        }
    }
}

#[test]
fn entries_are_valid_only_behind_the_bytes_that_they_show_and_invalid_before_those_leave() {
    for (mode, tables) in BY_GPU.into_iter().flat_map(|mode| [0, 2, 3].map(|tables| (mode, tables))) {
        let mut world = World::of_mode(mode, 16 << 20, 96 * PAGES, tables);
        let a = world.create(40, &[2], CpuAccess::Visible);
        let at = world.map(a).unwrap();
        world.memory.finish_tables().unwrap();
        world.make_resident(a).unwrap();
        let leads = |world: &World| lock(&world.fake).leads_to(world.root()?, at + 39 * PAGES);
        let Location::Local { segment, offset } = *world.place(a) else { panic!("it is in VRAM") };
        assert_eq!(leads(&world), None, "nothing has run yet");
        let mut moments = Vec::new();
        world.run_slowly(|world| moments.push(leads(world)));
        assert_eq!(moments.last(), Some(&Some((segment, offset + 39 * PAGES))), "{mode:?} {tables}");
        assert_eq!(moments[0], None, "the first packets only fill");
        world.gpu_write(a, 39, 7);
        // It leaves: what is copied out is not written through the mapping any more.
        world.evict(a, &idle());
        assert!(world.memory.evict(world.models[a].id).unwrap());
        let free = world.memory.segments.free_bytes(segment);
        assert!(leads(&world).is_some(), "nothing has run yet");
        let mut moments = Vec::new();
        world.run_slowly(|world| moments.push((leads(world), world.memory.segments.free_bytes(segment))));
        assert!(
            moments.iter().all(|(_, free_then)| *free_then == free),
            "memory is free before the work is known to be done"
        );
        assert!(moments.last().unwrap().0.is_none());
        world.make_resident(a).unwrap();
        world.check();
        world.finish();
    }
}

#[test]
fn several_changes_share_a_buffer_and_one_that_does_not_fit_goes_on_in_the_next() {
    for mode in BY_GPU {
        let mut world = World::of_mode(mode, 32 << 20, 4 << 20, 0);
        // Small ones: maps and their tables, packed into one packet.
        let small: Vec<usize> = (0..4).map(|_| world.create(2, &[1], CpuAccess::Visible)).collect();
        for index in &small {
            world.make_resident(*index).unwrap();
        }
        world.memory.finish_tables().unwrap();
        let before = world.memory.paging.submitted();
        for index in &small {
            world.map(*index).unwrap();
        }
        assert_eq!(world.memory.paging.submitted(), before, "there is space for more");
        world.memory.finish_tables().unwrap();
        assert_eq!(world.memory.paging.submitted(), before + 1, "one packet for all of them");
        // The buffer has a page, which is 128 packets of this GPU: one an entry.
        // Segment 2 has small pages where there are too few for a large one.
        let large = world.create(500, &[2], CpuAccess::Visible);
        world.make_resident(large).unwrap();
        world.memory.finish_tables().unwrap();
        let before = world.memory.paging.submitted();
        world.map(large).unwrap();
        world.memory.finish_tables().unwrap();
        assert!(world.memory.paging.submitted() >= before + 4, "500 entries do not fit into three buffers");
        world.gpu_write(large, 499, 9);
        world.check();
        world.finish();
    }
}

#[test]
fn a_tables_memory_is_free_only_when_the_gpu_has_forgotten_it() {
    for mode in BY_GPU {
        let mut world = World::of_mode(mode, 16 << 20, 128 * PAGES, 2);
        let a = world.create(4, &[1], CpuAccess::Visible);
        world.make_resident(a).unwrap();
        let before = world.memory.segments.free_bytes(2);
        let at = world.map(a).unwrap();
        world.memory.finish_tables().unwrap();
        world.gpu_write(a, 1, 3);
        let mapped = world.memory.segments.free_bytes(2);
        assert!(mapped < before);
        world.models[a].mapped = None;
        world.memory.free_region(world.space, at, 4 * PAGES).unwrap();
        world.memory.submit().unwrap();
        assert_eq!(world.memory.segments.free_bytes(2), mapped, "the paging node has not come to it");
        world.memory.finish_tables().unwrap();
        assert_eq!(world.memory.segments.free_bytes(2), before);
        assert_eq!(world.gpu(at, false), Err(Fault));
        world.finish();
    }
}

#[test]
fn work_that_a_reset_drops_is_written_anew_from_what_is_known() {
    for mode in BY_GPU {
        let mut world = World::of_mode(mode, 16 << 20, 128 * PAGES, 2);
        let [a, b] = [30, 20].map(|pages| world.create(pages, &[2, 1], CpuAccess::Visible));
        for index in [a, b] {
            world.map(index).unwrap();
            world.make_resident(index).unwrap();
        }
        world.gpu_write(a, 3, 4);
        // Half of an eviction and of what comes in its place has run; the rest never does.
        world.evict(a, &idle());
        assert!(world.memory.evict(world.models[a].id).unwrap());
        world.unmap_unseen(b);
        world.memory.submit().unwrap();
        world.node.run_one();
        world.node.drop_all();
        lock(&world.fake).lose_everything();
        world.memory.rebuild_tables().unwrap();
        world.reaches_nothing_else();
        let root = world.root().unwrap();
        let fake = lock(&world.fake);
        let Some(at) = world.models[a].mapped else { panic!("it is mapped") };
        assert_eq!(fake.leads_to(root, at), None, "it was evicted");
        drop(fake);
        // What was in VRAM is lost with it, and so no page of it is looked at.
        world.make_resident(a).unwrap();
        world.memory.finish_tables().unwrap();
        assert!(world.gpu(at, true).is_ok());
        world.finish();
    }
}

#[test]
fn a_driver_that_puts_its_tables_off_for_ever_stops_the_machine() {
    for mode in BY_GPU {
        let mut world = World::of_mode(mode, 16 << 20, 1 << 20, 0);
        let a = world.create(4, &[1], CpuAccess::Visible);
        world.make_resident(a).unwrap();
        lock(&world.fake).refuse.push_back(STATUS_GRAPHICS_ALLOCATION_BUSY);
        world.map(a).unwrap();
        world.check();
        world.unmap(a);
        lock(&world.fake).refuse.extend([STATUS_GRAPHICS_ALLOCATION_BUSY; 2]);
        assert_eq!(world.map(a), Err(STATUS_DEVICE_REMOVED));
        let bugcheck = world.memory.driver.verifier.bugcheck().unwrap();
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x10e, 0x30));
        let mut world = World::of_mode(mode, 16 << 20, 1 << 20, 0);
        let a = world.create(4, &[1], CpuAccess::Visible);
        world.make_resident(a).unwrap();
        lock(&world.fake).overrun = true;
        assert_eq!(world.map(a), Err(STATUS_DEVICE_REMOVED));
        let bugcheck = world.memory.driver.verifier.bugcheck().unwrap();
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x10e, 0x12));
    }
}

#[test]
fn a_driver_that_forgets_an_entry_is_found() {
    for mode in BY_GPU {
        let mut world = World::of_mode(mode, 16 << 20, 1 << 20, 0);
        let a = world.create(4, &[1], CpuAccess::Visible);
        world.make_resident(a).unwrap();
        lock(&world.fake).forget = 1;
        let at = world.map(a).unwrap();
        world.memory.finish_tables().unwrap();
        assert_eq!(world.gpu(at, false), Err(Fault), "a forgotten entry shows");
    }
}
