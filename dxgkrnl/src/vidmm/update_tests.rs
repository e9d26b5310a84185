//! Changes of mappings against a model of what every page of a region should show.

use super::*;
use crate::refusal::Failure;
use crate::vidmm::update::{Change, Span, Update};
use crate::vidmm::va_space::REGION_ALIGN;

/// Pages of the region that is changed.
const REGION: u64 = 48;
/// Pages of each allocation.
const SIZE: u64 = 6;

/// Expected contents of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Zero,
    Nothing,
    Of { model: usize, page: u64, write: bool },
}

/// A region that is reserved as zero.
fn reserve(world: &mut World, pages: u64) -> u64 {
    let space = world.space;
    let base = world.memory.reserve_everywhere(space, 0, (0, 0), pages * PAGES, false).unwrap();
    world.memory.spaces.get_mut(&space).unwrap().va.set_zero(base);
    world.memory.map(space, base, zeros(pages), &mut waiting()).unwrap();
    base
}

fn zeros(pages: u64) -> Mapping {
    Mapping { pages, source: Source::Zero, access: Access::READ }
}

fn span(at: u64, pages: u64) -> Span {
    Span::new(at, pages * PAGES).unwrap()
}

impl World {
    /// An update of these changes, which are legal.
    fn update(&self, changes: Vec<Change>) -> Update {
        Update::new(&self.memory.spaces[&self.space].va, changes).unwrap()
    }

    fn show(&self, to: Span, model: usize, (first, part): (u64, u64), write: bool) -> Change {
        let allocation = &self.memory.allocations[&self.models[model].id].allocation;
        let access = if write { Access::WRITE } else { Access::READ };
        Change::show(to, allocation, (first * PAGES, part * PAGES), access).unwrap()
    }

    /// Fails unless the GPU finds at every page what the model has there.
    fn check_region(&self, base: u64, pages: &[Page]) {
        for (page, at) in pages.iter().zip((base..).step_by(PAGES as usize)) {
            match page {
                Page::Zero => assert!(
                    lock(&self.fake).is_zero_page(self.root().expect("the process works"), at),
                    "{at:#x} is not zero"
                ),
                Page::Nothing => assert_eq!(self.gpu(at, false), Err(Fault), "{at:#x} shows something"),
                Page::Of { model, page, write } => match self.gpu(at, false) {
                    Ok(byte) => {
                        self.memory.allocations.get(&self.models[*model].id).expect("it exists");
                        // SAFETY: what translates is mapped.
                        let seen = unsafe { byte.as_ptr().read_volatile() };
                        assert_eq!(seen, self.models[*model].pages[*page as usize], "{at:#x}, page {page} of {model}");
                        assert_eq!(self.gpu(at, true).is_ok(), *write, "protection of {at:#x}");
                    }
                    Err(Fault) => assert_eq!(self.models[*model].listed, 0, "{at:#x} is resident and faults"),
                },
            }
        }
    }
}

/// A step: what kind, and numbers that mean what the kind makes of them.
type Step = (u8, u64, u64, u64);

/// One change of a step, and the same in the model.
fn change(world: &World, base: u64, pages: &mut [Page], (kind, a, b, c): Step) -> Change {
    let at = a % REGION;
    let count = 1 + b % (REGION - at).min(12);
    let to = span(base + at * PAGES, count);
    let range = at as usize..(at + count) as usize;
    match kind % 4 {
        0 => {
            pages[range].fill(Page::Zero);
            Change::Zero(to)
        }
        1 => {
            pages[range].fill(Page::Nothing);
            Change::Hide(to)
        }
        2 => {
            let from = c % (REGION - count + 1);
            pages.copy_within(from as usize..(from + count) as usize, at as usize);
            Change::Copy { from: base + from * PAGES, to }
        }
        _ => {
            let model = c as usize % world.models.len();
            // The largest part that fills the range in whole times and is in the allocation.
            let part = (1..=SIZE.min(count)).rev().find(|part| count.is_multiple_of(*part)).unwrap();
            let first = c % (SIZE - part + 1);
            let write = c % 2 == 0;
            for (index, place) in pages[range].iter_mut().enumerate() {
                *place = Page::Of { model, page: first + index as u64 % part, write };
            }
            world.show(to, model, (first, part), write)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_updates_translates_as_the_model_says(
        steps in prop::collection::vec((0..9u8, prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<u64>()), 1..5)), 1..30),
        tables in prop_oneof![Just(0u32), Just(2)],
    ) {
        let mut world = World::new(16 << 20, 96 * PAGES, tables);
        for number in 0..4u8 {
            let index = world.create(SIZE, &[2], CpuAccess::Visible);
            world.map(index).unwrap();
            world.make_resident(index).unwrap();
            for page in 0..SIZE as u8 {
                world.gpu_write(index, page.into(), 1 + number * 16 + page);
            }
        }
        let base = reserve(&mut world, REGION);
        let mut pages = vec![Page::Zero; REGION as usize];
        for (kind, numbers) in steps {
            let index = numbers[0].1 as usize % world.models.len();
            match kind {
                0 => world.evict(index, &idle()),
                1 => drop(world.make_resident(index)),
                2 => world.suspend(),
                3 => {
                    let id = world.models[index].id;
                    if world.models[index].listed == 0 {
                        world.memory.evict(id).unwrap();
                    }
                }
                4 => {
                    world.suspend();
                    world.memory.evict_tables(world.space).unwrap();
                }
                _ => {
                    let changes: Vec<Change> =
                        numbers.into_iter().map(|step| change(&world, base, &mut pages, step)).collect();
                    let update = world.update(changes);
                    world.memory.update(world.space, &update, &mut waiting()).unwrap();
                }
            }
            if world.resume() {
                for index in 0..world.models.len() {
                    let id = world.models[index].id;
                    world.memory.wait_until_quiet(id).unwrap();
                }
                world.check_region(base, &pages);
            }
        }
        prop_assert!(world.resume());
        world.check();
        world.check_region(base, &pages);
        world.memory.free_region(world.space, base, REGION * PAGES).unwrap();
        world.check_region(base, &vec![Page::Nothing; REGION as usize]);
        world.finish();
    }
}

#[test]
fn entries_that_the_driver_copies_are_those_that_updates_write() {
    // Over several tables, whose ends are not those of the ranges.
    const LEN: u64 = 3 * 512 + 77;
    let shown = |busy: bool| {
        let mut world = World::new(32 << 20, 2048 * PAGES, 2);
        let a = world.create(SIZE, &[2], CpuAccess::Visible);
        world.map(a).unwrap();
        world.make_resident(a).unwrap();
        for page in 0..SIZE {
            world.gpu_write(a, page as usize, 1 + page as u8);
        }
        let (from, to) = (reserve(&mut world, LEN + 13), reserve(&mut world, LEN + 200));
        let source = [
            world.show(span(from + 13 * PAGES, 600), a, (0, SIZE), true),
            world.show(span(from + 900 * PAGES, 6), a, (0, 6), false),
            Change::Hide(span(from + 700 * PAGES, 50)),
        ];
        world.memory.update(world.space, &world.update(source.to_vec()), &mut waiting()).unwrap();
        if busy {
            lock(&world.fake).refuse.extend([STATUS_GRAPHICS_ALLOCATION_BUSY; 2]);
        }
        let copy = Change::Copy { from: from + 13 * PAGES, to: span(to + 200 * PAGES, LEN) };
        world.memory.update(world.space, &world.update(vec![copy]), &mut waiting()).unwrap();
        // The copy lives on without its source.
        world.memory.free_region(world.space, from, (LEN + 13) * PAGES).unwrap();
        let copies = lock(&world.fake).copies;
        let seen = |page: u64| {
            let at = to + page * PAGES;
            if lock(&world.fake).is_zero_page(world.root().unwrap(), at) {
                return Ok((0, false));
            }
            // SAFETY: what translates is mapped.
            let byte = world.gpu(at, false).map(|byte| unsafe { byte.as_ptr().read_volatile() })?;
            Ok((byte, world.gpu(at, true).is_ok()))
        };
        let pages: Vec<Result<(u8, bool), Fault>> = (0..LEN + 200).map(seen).collect();
        world.evict(a, &idle());
        world.memory.evict(world.models[a].id).unwrap();
        assert_eq!(world.gpu(to + 200 * PAGES, false), Err(Fault), "the copy shows what has left");
        world.finish();
        (copies, pages)
    };
    let (copies, by_driver) = shown(false);
    let (none, by_updates) = shown(true);
    assert!(copies > 1 && none == 0, "{copies} and {none} operations");
    assert!(by_driver == by_updates, "entries differ");
    let of = |page: u64| by_driver[200 + page as usize];
    assert_eq!((of(0), of(599), of(600)), (Ok((1, true)), Ok((6, true)), Ok((0, false))));
    assert_eq!((of(690), of(888), of(LEN - 1)), (Err(Fault), Ok((2, false)), Ok((0, false))));
}

#[test]
fn changes_without_memory_for_page_tables_change_nothing() {
    // A table of this GPU covers 512 pages.
    const FAR: u64 = 4 * 512;
    let mut world = World::new(16 << 20, 64 * PAGES, 2);
    let a = world.create(2, &[1], CpuAccess::Visible);
    world.make_resident(a).unwrap();
    let space = world.space;
    let base = world.memory.reserve_everywhere(space, 0, (0, 0), FAR * PAGES, false).unwrap();
    world.memory.spaces.get_mut(&space).unwrap().va.set_zero(base);
    let before = world.show(span(base, 2), a, (0, 2), true);
    world.memory.update(space, &world.update(vec![before]), &mut waiting()).unwrap();
    let free = world.memory.segments.free_bytes(2);
    let taken = world.memory.segments.allocate(2, free, PAGES, &crate::port::NO_BAR_OWNER).unwrap();
    let last = span(base + (FAR - 2) * PAGES, 2);
    let changes = vec![Change::Zero(span(base, 2)), Change::Copy { from: base, to: last }];
    let update = world.update(changes);
    assert_eq!(world.memory.update(space, &update, &mut waiting()), Err(STATUS_NO_MEMORY));
    let of = |page| Page::Of { model: a, page, write: true };
    world.check_region(base, &[of(0), of(1), Page::Nothing]);
    world.check_region(last.at, &[Page::Nothing, Page::Nothing]);
    world.memory.segments.release(2, taken, free);
    world.memory.update(space, &update, &mut waiting()).unwrap();
    world.check_region(base, &[Page::Zero, Page::Zero, Page::Nothing]);
    world.check_region(last.at, &[Page::Zero, Page::Zero]);
    world.finish();
}

#[test]
fn tables_that_changes_leave_empty_are_given_back() {
    let mut world = World::new(16 << 20, 64 * PAGES, 2);
    let free = world.memory.segments.free_bytes(2);
    let base = reserve(&mut world, REGION);
    assert!(world.memory.segments.free_bytes(2) < free);
    let update = world.update(vec![Change::Zero(span(base, 3)), Change::Hide(span(base, REGION))]);
    world.memory.update(world.space, &update, &mut waiting()).unwrap();
    assert_eq!(world.memory.segments.free_bytes(2), free);
    world.finish();
}

#[test]
fn what_was_freed_or_destroyed_meanwhile_is_left_alone() {
    let mut world = World::new(16 << 20, 64 * PAGES, 2);
    let a = world.create(SIZE, &[2], CpuAccess::Visible);
    world.make_resident(a).unwrap();
    let base = reserve(&mut world, 16);
    let late = world.update(vec![world.show(span(base, SIZE), a, (0, SIZE), true)]);
    // The same place again, for somebody else.
    world.memory.free_region(world.space, base, 16 * PAGES).unwrap();
    assert_eq!(reserve(&mut world, 16), base);
    world.memory.update(world.space, &late, &mut waiting()).unwrap();
    world.check_region(base, &[Page::Zero; 16]);
    let gone = world.update(vec![world.show(span(base, SIZE), a, (0, SIZE), true)]);
    world.destroy(a);
    world.memory.update(world.space, &gone, &mut waiting()).unwrap();
    world.check_region(base, &[Page::Nothing; SIZE as usize]);
    world.finish();
}

#[test]
fn changes_outside_one_region_of_zeros_are_refused() {
    let mut world = World::new(16 << 20, 64 * PAGES, 2);
    let (base, other) = (reserve(&mut world, 16), reserve(&mut world, 16));
    assert_eq!(other, base + REGION_ALIGN);
    let space = world.space;
    let plain = world.memory.reserve_everywhere(space, 0, (0, 0), 16 * PAGES, false).unwrap();
    let va = &world.memory.spaces[&space].va;
    let refused = |changes: Vec<Change>, expected| {
        assert_eq!(Update::new(va, changes.clone()).map(|_| ()), Err(Failure::from(expected)), "{changes:?}");
    };
    let zero = |at, pages| Change::Zero(span(at, pages));
    let copy = |from, to| Change::Copy { from, to: span(to, 2) };
    let invalid = STATUS_INVALID_PARAMETER;
    refused(vec![], invalid);
    refused(vec![zero(plain, 1)], invalid);
    refused(vec![zero(base, 17)], invalid);
    refused(vec![zero(base, 1), zero(other, 1)], invalid);
    refused(vec![zero(base - PAGES, 1)], invalid);
    refused(vec![copy(plain, base)], invalid);
    refused(vec![copy(base + 15 * PAGES, base)], invalid);
    refused(vec![copy(base, base), copy(other, base)], invalid);
    assert!(Update::new(va, vec![zero(base, 1), copy(other, base), copy(other + PAGES, base)]).is_ok());
    for (at, len) in [(1, PAGES), (0, PAGES + 1), (0, 0), (!(PAGES - 1), 2 * PAGES)] {
        assert_eq!(Span::new(at, len), Err(Failure::from(invalid)), "{at:#x} {len:#x}");
    }
}
