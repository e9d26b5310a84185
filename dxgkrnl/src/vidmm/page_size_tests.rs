//! Pages larger than 4 KiB: where they are used, and what becomes of them.

use proptest::test_runner::{TestCaseError, TestRunner};

use super::fake_gpu::LARGE;
use super::*;

/// A random step: the operation, the index of the allocation, the page in it, and the value that the operation uses.
type Step = (u8, usize, u64, u8);

impl World {
    /// Pages of the page that translates page `page` of an allocation.
    fn size_at(&self, index: usize, page: u64) -> u64 {
        let at = self.models[index].mapped.unwrap();
        lock(&self.fake).page_size(self.root().unwrap(), at + page * PAGES)
    }

    fn sizes(&self, index: usize) -> Vec<u64> {
        (0..self.models[index].pages.len() as u64).map(|page| self.size_at(index, page)).collect()
    }

    /// Resident and mapped, with something in each page.
    fn fresh(&mut self, pages: u64, places: &[u8]) -> usize {
        let index = self.create(pages, places, CpuAccess::Visible);
        self.map(index).unwrap();
        self.make_resident(index).unwrap();
        for page in 0..pages as usize {
            self.gpu_write(index, page, page as u8 | 1);
        }
        index
    }

    /// Has one page of an allocation's range show nothing.
    fn hole(&mut self, index: usize, page: u64) {
        let at = self.models[index].mapped.unwrap() + page * PAGES;
        self.memory.unmap(self.space, at, 1).unwrap();
        assert_eq!(self.gpu(at, false), Err(Fault));
    }

    /// Shows an allocation again where it was, with nothing missing.
    fn mend(&mut self, index: usize) {
        let (id, at) = (self.models[index].id, self.models[index].mapped.unwrap());
        let pages = self.models[index].pages.len() as u64;
        let source = Source::Allocation { id, user: 0, first: 0 };
        self.memory.map(self.space, at, Mapping { pages, source, access: Access::WRITE }, &mut waiting()).unwrap();
    }

    /// Does what a step says, and looks at every page.
    fn step(&mut self, (kind, index, page, value): Step, tables: u32) -> Result<(), TestCaseError> {
        if self.models.is_empty() || (kind == 0 && self.models.len() < 3) {
            let pages = [5, 160, LARGE, LARGE + 16, 2 * LARGE + 3][page as usize % 5];
            let places: &[u8] = [&[1][..], &[2, 1], &[3, 1]][value as usize % 3];
            let index = self.create(pages, places, CpuAccess::Visible);
            if self.map(index).is_ok() {
                let _ = self.make_resident(index);
            }
            return Ok(());
        }
        let index = index % self.models.len();
        let pages = self.models[index].pages.len() as u64;
        match kind {
            1 | 2 => self.gpu_write(index, page as usize, value),
            3 if self.models[index].mapped.is_some() => {
                // A hole, and another page looked at beside it while it is there.
                let (at, page) = (self.models[index].mapped.unwrap(), page % pages);
                self.resume();
                self.memory.unmap(self.space, at + page * PAGES, 1).unwrap();
                if !self.suspended {
                    prop_assert_eq!(self.gpu(at + page * PAGES, false), Err(Fault));
                    let other = (page + 1) % pages;
                    if other != page && self.models[index].listed > 0 {
                        prop_assert!(self.gpu(at + other * PAGES, false).is_ok());
                    }
                }
                let (id, source) = (self.models[index].id, page);
                let one = Source::Allocation { id, user: 0, first: source };
                let (pages, at) = if value % 2 == 0 { (1, at + page * PAGES) } else { (pages, at) };
                let source = if pages == 1 { one } else { Source::Allocation { id, user: 0, first: 0 } };
                match self.memory.map(self.space, at, Mapping { pages, source, access: Access::WRITE }, &mut waiting())
                {
                    Ok(()) => {}
                    Err(status) => {
                        prop_assert_eq!(status, STATUS_NO_MEMORY);
                        self.unmap(index);
                    }
                }
            }
            4 => {
                self.evict(index, &idle());
                if self.models[index].listed == 0 {
                    let _ = self.memory.evict(self.models[index].id);
                    let _ = self.make_resident(index);
                }
            }
            5 => self.sleep(value % 2 == 0, index, page as usize, value),
            6 => {
                self.suspend();
                let _ = self.memory.evict_one(tables, &mut waiting());
            }
            7 => self.destroy(index),
            _ => {}
        }
        self.check();
        Ok(())
    }
}

#[test]
fn contiguous_memory_of_either_kind_is_mapped_by_the_largest_pages() {
    for places in [[2], [1]] {
        let mut world = World::new(32 << 20, 10 << 20, 0);
        let a = world.fresh(3 * LARGE, &places);
        assert_eq!(world.sizes(a), vec![LARGE; 3 * LARGE as usize], "in {places:?}");
        assert_eq!(world.memory.counts.large_pages, 3);
        world.check();
        world.finish();
    }
}

#[test]
fn only_segments_in_64_kib_pages_and_system_memory_are_mapped_by_them() {
    // A few of them in system memory are not worth a table of their own.
    for (places, pages, size) in [([3], 16, 16), ([2], 160, 1), ([1], 16, 1), ([1], 160, 16)] {
        let mut world = World::new(32 << 20, 10 << 20, 0);
        let a = world.fresh(pages, &places);
        assert_eq!(world.sizes(a), vec![size; pages as usize], "in {places:?}");
        // What is no whole 64-KiB page is mapped by small ones, wherever it is.
        let b = world.fresh(5, &places);
        assert_eq!(world.sizes(b), vec![1; 5]);
        world.check();
        world.finish();
    }
}

#[test]
fn part_of_a_large_page_goes_and_the_rest_stays_where_no_memory_is_left() {
    for pages in [LARGE, 16] {
        let mut world = World::new(32 << 20, 10 << 20, 0);
        let a = world.fresh(pages, &[3]);
        assert_eq!(world.sizes(a), vec![pages; pages as usize]);
        let ram = Arc::clone(&world.memory.segments.ram);
        let taken: Vec<_> = std::iter::from_fn(|| ram.allocate(PAGES, PAGES)).collect();
        world.hole(a, 3);
        drop(taken);
        assert!((0..pages).all(|page| world.size_at(a, page) == 1 || page == 3));
        assert_eq!(world.memory.counts.demoted, 1);
        for page in (0..pages).filter(|page| *page != 3) {
            let byte = world.gpu(world.models[a].mapped.unwrap() + page * PAGES, false).unwrap();
            // SAFETY: what translates is mapped.
            assert_eq!(unsafe { byte.as_ptr().read_volatile() }, page as u8 | 1, "page {page}");
        }
        // Mapped anew as a whole, it is a larger page again.
        world.mend(a);
        assert_eq!(world.sizes(a), vec![pages; pages as usize]);
        world.check();
        world.finish();
    }
}

#[test]
fn pages_keep_to_their_size_over_moves_suspension_and_loss_of_power() {
    let mut world = World::new(32 << 20, 10 << 20, 2);
    let a = world.fresh(2 * LARGE, &[2]);
    let large = vec![LARGE; 2 * LARGE as usize];
    world.evict(a, &idle());
    assert!(world.memory.evict(world.models[a].id).unwrap());
    assert_eq!(world.gpu(world.models[a].mapped.unwrap(), false), Err(Fault));
    world.make_resident(a).unwrap();
    world.check();
    assert_eq!(world.sizes(a), large, "back from system memory");
    world.suspend();
    world.memory.evict_tables(world.space).unwrap();
    assert!(world.resume());
    world.check();
    assert_eq!(world.sizes(a), large, "the tables are back");
    world.sleep(false, a, 0, 1);
    assert_eq!(world.sizes(a), large, "D3 is over");
    world.finish();
}

#[test]
fn a_driver_that_mistakes_the_size_of_pages_is_noticed() {
    for (places, pages) in [([2], LARGE), ([3], 32)] {
        let mut world = World::new(32 << 20, 10 << 20, 0);
        lock(&world.fake).missizes = true;
        let a = world.create(pages, &places, CpuAccess::Visible);
        world.map(a).unwrap();
        world.make_resident(a).unwrap();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.check()));
        assert!(found.is_err(), "pages of segment {places:?} have the wrong size, and nobody noticed");
    }
}

#[test]
fn the_gpu_finds_every_page_whatever_its_size() {
    let steps = prop::collection::vec((0..8u8, 0..6usize, 0..1000u64, 1..=255u8), 1..24);
    let tables = prop_oneof![Just(0u32), Just(2)];
    // Each case looks at thousands of pages after each step: an eighth of the cases that other properties have.
    let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(ProptestConfig { cases: config.cases.div_ceil(8), ..config });
    let outcome = runner.run(&(steps, tables), |(steps, tables)| {
        let mut world = World::new(48 << 20, 10 << 20, tables);
        let before = (world.memory.segments.free_bytes(2), world.memory.segments.ram.free_bytes());
        for step in steps {
            world.step(step, tables)?;
        }
        world.finish();
        let after = (world.memory.segments.free_bytes(2), world.memory.segments.ram.free_bytes());
        let root = if tables == 2 { (PAGES, 0) } else { (0, PAGES) };
        prop_assert_eq!((after.0 - root.0, after.1 - root.1), before, "memory leaked");
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
