//! The memory manager against a model of what every page of every allocation should contain, on a GPU whose TLB and paging node make the
//! most of every freedom.

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use nt::lock::{Mutex, lock};

#[path = "memory_cost_tests.rs"]
mod costs;
#[path = "memory_lock_tests.rs"]
mod locks;
#[path = "memory_paging_tests.rs"]
mod paging;

use super::fake_gpu::{self, Fake, FakeGpu, Fault};
use super::*;
use crate::vidmm::answer::CpuAccess;
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::residency;
use crate::vidmm::user_mapping::Kept;
use crate::vidmm::va_space::{Access, Mapping, Refused, Source};
use nt::page::PAGE_SIZE;
use std::time::Duration;
use wddm_ddi::status::*;

const PAGES: u64 = PAGE_SIZE;

/// A request that is not made again.
fn waiting() -> MemoryRequest {
    MemoryRequest::waiting()
}

/// Expected state of an allocation.
#[derive(Clone)]
struct Model {
    id: AllocationId,
    pages: Vec<u8>,
    mapped: Option<u64>,
    listed: u32,
    locked: Vec<usize>,
    access: CpuAccess,
}

struct World {
    /// True while its process is suspended.
    suspended: bool,
    memory: Memory,
    fake: Arc<Mutex<Fake, FakeGpu>>,
    node: Arc<fake_gpu::FakeNode>,
    space: SpaceId,
    models: Vec<Model>,
    /// Addresses that were given back since the paging node had done everything.
    stale: Vec<std::ops::Range<u64>>,
    next: u64,
    /// Of the process that locks.
    kept: Arc<Kept>,
}

fn busy_until(flag: &Arc<AtomicBool>) -> IdlePoint {
    let flag = Arc::clone(flag);
    Arc::new(move || flag.load(Ordering::Acquire))
}

fn idle() -> IdlePoint {
    Arc::new(|| true)
}

impl World {
    fn new(ram: u64, vram: u64, tables: u32) -> Self {
        Self::of_mode(fake_gpu::MODES[0], ram, vram, tables)
    }

    /// With page tables that the CPU or the GPU writes.
    fn of_mode(mode: fake_gpu::Mode, ram: u64, vram: u64, tables: u32) -> Self {
        let (mut memory, fake) = fake_gpu::memory(mode, ram, vram, tables);
        let handle = |id: usize| KmdHandle::new(core::ptr::without_provenance_mut(id));
        let addresses = || VaSpace::new(29, (0, 0)).with_large_pages(Some(fake_gpu::LARGE * PAGES));
        let system = memory.create_space(handle(fake_gpu::PAGING_PROCESS), true, addresses(), &mut waiting()).unwrap();
        memory.prepare_paging(system).unwrap();
        let root = memory.root(system).unwrap();
        let node = fake_gpu::node(&fake, root);
        memory.set_paging_node(node.clone());
        let space = memory.create_space(handle(2), false, addresses(), &mut waiting()).unwrap();
        Self {
            suspended: false,
            memory,
            fake,
            node,
            space,
            models: Vec::new(),
            stale: Vec::new(),
            next: 100,
            kept: Arc::default(),
        }
    }

    fn create(&mut self, pages: u64, places: &[u8], access: CpuAccess) -> usize {
        self.next += 1;
        let allocation = Allocation::unknown(self.next, self.space, pages * PAGES, places, access);
        let id = allocation.id();
        self.memory.allocations.insert(id, AllocationState::new(allocation, 0));
        let pages = vec![0; pages as usize];
        self.models.push(Model { id, pages, mapped: None, listed: 0, locked: Vec::new(), access });
        self.models.len() - 1
    }

    fn map(&mut self, index: usize) -> Result<u64, NTSTATUS> {
        let (id, pages) = (self.models[index].id, self.models[index].pages.len() as u64);
        let va = &mut self.memory.spaces.get_mut(&self.space).unwrap().va;
        let at = va.reserve_automatic(0, 0, 0, pages * PAGES).map_err(Refused::status)?;
        let source = Source::Allocation { id, user: 0, first: 0 };
        if let Err(status) =
            self.memory.map(self.space, at, Mapping { pages, source, access: Access::WRITE }, &mut waiting())
        {
            self.memory.free_region(self.space, at, pages * PAGES)?;
            return Err(status);
        }
        self.models[index].mapped = Some(at);
        Ok(at)
    }

    fn unmap(&mut self, index: usize) {
        if let Some(at) = self.models[index].mapped {
            self.unmap_unseen(index);
            self.settle();
            assert_eq!(self.gpu(at, true), Err(Fault), "the GPU reaches what was unmapped");
        }
    }

    fn make_resident(&mut self, index: usize) -> Result<(), NTSTATUS> {
        self.memory.make_resident(self.models[index].id, &mut waiting())?;
        self.models[index].listed += 1;
        Ok(())
    }

    fn evict(&mut self, index: usize, idle: &IdlePoint) {
        let result = self.memory.leave_list(self.models[index].id, idle);
        assert_eq!(result.is_ok(), self.models[index].listed > 0);
        self.models[index].listed = self.models[index].listed.saturating_sub(1);
    }

    fn lock(&mut self, index: usize) -> Result<usize, NTSTATUS> {
        let address = locks::lock_for(&mut self.memory, self.models[index].id, &self.kept)?;
        if let Some(first) = self.models[index].locked.first() {
            assert_eq!(*first, address, "the address of a lock changed");
        }
        self.models[index].locked.push(address);
        Ok(address)
    }

    fn unlock(&mut self, index: usize) {
        self.memory.unlock(self.models[index].id, &self.kept).unwrap();
        self.models[index].locked.pop();
    }

    fn place(&self, index: usize) -> &Location {
        &self.memory.allocations[&self.models[index].id].place
    }

    fn destroy(&mut self, index: usize) {
        let model = self.models.swap_remove(index);
        self.memory.destroy_when_idle(model.id, Some(idle()));
        self.memory.free_destroyed().unwrap();
        assert!(!self.memory.allocations.contains_key(&model.id));
        self.settle();
        if let Some(at) = model.mapped {
            assert_eq!(self.gpu(at, false), Err(Fault), "the GPU reaches what was destroyed");
        }
    }

    /// Segment and offset of the root page table of the process; `None` while it has no page tables.
    fn root(&self) -> Option<(u32, u64)> {
        self.memory.root(self.space)
    }

    fn gpu(&self, address: u64, write: bool) -> Result<std::ptr::NonNull<u8>, Fault> {
        let Some(root) = self.root() else { return Err(Fault) };
        lock(&self.fake).translate(root, address, write)
    }

    fn gpu_write(&mut self, index: usize, page: usize, value: u8) {
        if !self.resume() {
            return;
        }
        let model = &mut self.models[index];
        let (Some(at), true) = (model.mapped, model.listed > 0) else { return };
        let page = page % model.pages.len();
        model.pages[page] = value;
        let id = model.id;
        self.memory.wait_until_quiet(id).unwrap();
        self.settle();
        let byte = self.gpu(at + page as u64 * PAGES, true).unwrap();
        // SAFETY: the byte is mapped and belongs to the machine.
        unsafe { byte.as_ptr().write_volatile(value) };
    }

    fn cpu_write(&mut self, index: usize, page: usize, value: u8) {
        let Some(base) = self.models[index].locked.first().copied() else { return };
        let id = self.models[index].id;
        self.memory.wait_until_quiet(id).unwrap();
        let page = page % self.models[index].pages.len();
        self.models[index].pages[page] = value;
        let at = std::ptr::with_exposed_provenance_mut::<u8>(base + page * PAGES as usize);
        // SAFETY: the address is locked.
        unsafe { at.write_volatile(value) };
    }

    /// Every page of every allocation is as the model says, seen by the CPU where it is locked and by the GPU where it is resident.
    fn check(&mut self) {
        let works = self.resume();
        self.settle();
        for model in self.models.clone() {
            self.memory.wait_until_quiet(model.id).unwrap();
            for (page, expected) in model.pages.iter().enumerate() {
                if let Some(base) = model.locked.first() {
                    let at = std::ptr::with_exposed_provenance::<u8>(base + page * PAGES as usize);
                    // SAFETY: the address is locked.
                    assert_eq!(unsafe { at.read_volatile() }, *expected, "CPU, {:?} page {page}", model.id);
                }
                let Some(at) = model.mapped.filter(|_| works) else { continue };
                match self.gpu(at + page as u64 * PAGES, true) {
                    Ok(byte) => {
                        // SAFETY: what translates is mapped.
                        let seen = unsafe { byte.as_ptr().read_volatile() };
                        assert_eq!(seen, *expected, "GPU, {:?} page {page}", model.id);
                    }
                    Err(Fault) => assert_eq!(model.listed, 0, "{:?} is resident and faults", model.id),
                }
            }
        }
    }

    /// Out of D0 and back; user mode stores to what it has locked meanwhile.
    fn sleep(&mut self, hibernates: bool, index: usize, page: usize, value: u8) {
        match self.memory.park(hibernates) {
            Err(status) => return assert_eq!(status, STATUS_NO_MEMORY),
            Ok(()) => assert_eq!(lock(&self.fake).aperture_in_use(), 0, "the host aperture is in use outside D0"),
        }
        lock(&self.fake).lose_everything();
        self.cpu_write(index, page, value);
        self.memory.unpark(true).unwrap();
        self.check();
    }

    fn finish(&mut self) {
        while !self.models.is_empty() {
            self.destroy(0);
        }
        self.memory.submit().unwrap();
        while self.memory.wait_oldest().unwrap() {}
        self.memory.destroy_space(self.space).unwrap();
        self.settle();
        assert_eq!(self.memory.driver.verifier.bugcheck(), None);
    }
}

#[test]
fn what_a_segment_keeps_stays_there_unless_user_mode_has_it_locked() {
    for (preserved, hibernates, stays) in [(false, false, false), (true, false, true), (true, true, false)] {
        let mut world = World::new(4 << 20, 96 * PAGES, 2);
        world.memory.segments.preserve(preserved);
        let quiet = world.create(3, &[2], CpuAccess::Visible);
        let locked = world.create(3, &[2], CpuAccess::Visible);
        for index in [quiet, locked] {
            world.map(index).unwrap();
            world.make_resident(index).unwrap();
        }
        world.lock(locked).unwrap();
        let free = world.memory.segments.ram.free_bytes();
        world.memory.park(hibernates).unwrap();
        let parked = |index: usize| world.memory.allocations[&world.models[index].id].parked.is_some();
        assert_eq!((parked(quiet), parked(locked)), (!stays, true));
        if !stays {
            lock(&world.fake).lose_everything();
        }
        world.cpu_write(locked, 1, 77);
        world.memory.unpark(true).unwrap();
        world.check();
        assert_eq!(world.memory.segments.ram.free_bytes(), free);
        world.finish();
    }
}

#[test]
fn without_memory_for_it_nothing_leaves() {
    let mut world = World::new(4 << 20, 96 * PAGES, 2);
    let a = world.create(40, &[2], CpuAccess::Visible);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.lock(a).unwrap();
    world.cpu_write(a, 3, 9);
    let ram = Arc::clone(&world.memory.segments.ram);
    let taken: Vec<_> = std::iter::from_fn(|| ram.allocate(PAGES, PAGES)).collect();
    assert_eq!(world.memory.park(false), Err(STATUS_NO_MEMORY));
    assert_eq!(world.memory.standby, None);
    world.check();
    drop(taken);
    world.sleep(false, a, 3, 8);
    world.finish();
}

#[test]
fn fresh_vram_is_zero_though_it_held_something_else() {
    let mut world = World::new(16 << 20, 1 << 20, 0);
    let a = world.create(20, &[2], CpuAccess::Visible);
    world.map(a).unwrap();
    assert_eq!(world.gpu(world.models[a].mapped.unwrap(), false), Err(Fault), "not resident yet");
    world.make_resident(a).unwrap();
    assert!(world.memory.is_busy(world.models[a].id), "the fill runs on the paging node");
    world.check();
    world.finish();
}

#[test]
fn what_leaves_vram_comes_back_unchanged() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, b) = (world.create(40, &[2], CpuAccess::Visible), world.create(40, &[2], CpuAccess::Visible));
    world.map(a).unwrap();
    world.map(b).unwrap();
    world.make_resident(a).unwrap();
    for page in 0..40 {
        world.gpu_write(a, page, page as u8 + 1);
    }
    world.evict(a, &idle());
    world.make_resident(b).unwrap();
    assert!(matches!(world.memory.allocations[&world.models[a].id].place, Location::System(_)));
    assert_eq!(world.gpu(world.models[a].mapped.unwrap(), false), Err(Fault));
    world.gpu_write(b, 3, 0x77);
    world.evict(b, &idle());
    world.make_resident(a).unwrap();
    world.check();
    world.finish();
}

#[test]
fn what_is_wanted_resident_never_leaves_and_the_request_says_what_is_missing() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, b) = (world.create(40, &[2], CpuAccess::Visible), world.create(40, &[2], CpuAccess::Visible));
    world.make_resident(a).unwrap();
    assert_eq!(world.make_resident(b), Err(STATUS_NO_MEMORY));
    assert!(matches!(world.memory.allocations[&world.models[b].id].place, Location::Uncommitted));
    assert_eq!(world.memory.bytes_missing(world.models[b].id), 16 * PAGES);
    let too_large = world.create(65, &[2], CpuAccess::Visible);
    assert_eq!(world.make_resident(too_large), Err(STATUS_NO_MEMORY));
    world.check();
    world.finish();
}

#[test]
fn an_allocation_with_an_aperture_falls_back_to_system_memory() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, b) = (world.create(40, &[2, 1], CpuAccess::Visible), world.create(40, &[2, 1], CpuAccess::Visible));
    for index in [a, b] {
        world.map(index).unwrap();
        world.make_resident(index).unwrap();
    }
    assert!(matches!(world.memory.allocations[&world.models[a].id].place, Location::Local { .. }));
    assert!(matches!(world.memory.allocations[&world.models[b].id].place, Location::System(_)));
    world.gpu_write(b, 1, 9);
    world.check();
    world.finish();
}

#[test]
fn queues_that_may_still_use_an_allocation_keep_it_in_place() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, b) = (world.create(40, &[2], CpuAccess::Visible), world.create(40, &[2], CpuAccess::Visible));
    world.make_resident(a).unwrap();
    let passed = Arc::new(AtomicBool::new(false));
    world.evict(a, &busy_until(&passed));
    assert_eq!(residency::victim(&world.memory, 2, &MemoryRequest::default()), None);
    let flag = Arc::clone(&passed);
    let queue = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        flag.store(true, Ordering::Release);
    });
    world.make_resident(b).unwrap();
    assert!(passed.load(Ordering::Acquire), "it left before the queue was beyond it");
    queue.join().unwrap();
    world.finish();
}

#[test]
fn a_doorbell_keeps_its_ring_in_place() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, b) = (world.create(40, &[2], CpuAccess::Visible), world.create(40, &[2], CpuAccess::Visible));
    world.make_resident(a).unwrap();
    world.memory.allocations.get_mut(&world.models[a].id).unwrap().references = 1;
    world.evict(a, &idle());
    assert_eq!(world.make_resident(b), Err(STATUS_NO_MEMORY));
    world.memory.allocations.get_mut(&world.models[a].id).unwrap().references = 0;
    world.make_resident(b).unwrap();
    world.finish();
}

#[test]
fn page_tables_push_idle_allocations_out_of_vram() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    let free = world.memory.segments.free_bytes(2) / PAGES;
    let (a, b) = (world.create(free, &[2], CpuAccess::Visible), world.create(1, &[1], CpuAccess::Visible));
    world.make_resident(a).unwrap();
    assert_eq!(world.memory.segments.free_bytes(2), 0);
    world.make_resident(b).unwrap();
    assert_eq!(world.map(b), Err(STATUS_NO_MEMORY), "no memory for page tables");
    world.evict(a, &idle());
    world.map(b).unwrap();
    world.gpu_write(b, 0, 5);
    world.check();
    world.finish();
}

#[test]
fn a_range_is_used_again_only_when_the_gpu_has_copied_what_was_there() {
    let mut world = World::new(16 << 20, 128 * PAGES, 2);
    let free = world.memory.segments.free_bytes(2) / PAGES;
    let (a, b) = (world.create(free, &[2], CpuAccess::Visible), world.create(1, &[1], CpuAccess::Visible));
    world.make_resident(a).unwrap();
    world.lock(a).unwrap();
    for page in 0..free as usize {
        world.cpu_write(a, page, page as u8 | 1);
    }
    world.memory.unlock(world.models[a].id, &world.kept).unwrap();
    world.models[a].locked.clear();
    world.evict(a, &idle());
    assert_eq!(world.memory.evict(world.models[a].id), Ok(true));
    world.make_resident(b).unwrap();
    // Its page tables lie where the copy still reads.
    world.map(b).unwrap();
    world.lock(a).unwrap();
    world.check();
    world.finish();
}

#[test]
fn work_larger_than_a_paging_buffer_goes_on_in_the_next_ones() {
    let mut world = World::new(64 << 20, 20 << 20, 0);
    let pages = (9 << 20) / PAGES;
    let (a, b) = (world.create(pages, &[2], CpuAccess::Visible), world.create(pages, &[2], CpuAccess::Visible));
    for round in 1..4u8 {
        for index in [a, b] {
            world.make_resident(index).unwrap();
            if world.models[index].mapped.is_none() {
                world.map(index).unwrap();
            }
        }
        for index in [a, b] {
            for page in (0..pages as usize).step_by(97) {
                world.gpu_write(index, page, round + index as u8);
            }
        }
        for index in [a, b] {
            world.evict(index, &idle());
            assert_eq!(world.memory.evict(world.models[index].id), Ok(true));
        }
    }
    assert!(world.memory.paging.submitted() > 20, "every transfer fills several buffers");
    for index in [a, b] {
        world.make_resident(index).unwrap();
    }
    world.check();
    world.finish();
}

#[test]
fn a_zero_mapping_reads_zero_and_replaces_what_was_there() {
    let mut world = World::new(16 << 20, 1 << 20, 0);
    let a = world.create(4, &[1], CpuAccess::Visible);
    let at = world.map(a).unwrap();
    world.make_resident(a).unwrap();
    let mapping = Mapping { pages: 2, source: Source::Zero, access: Access::READ };
    assert!(world.gpu(at, true).is_ok());
    world.memory.map(world.space, at, mapping, &mut waiting()).unwrap();
    assert!(lock(&world.fake).is_zero_page(world.root().unwrap(), at));
    assert!(world.gpu(at + 2 * PAGES, true).is_ok(), "the rest is still there");
    world.models[a].mapped = None;
    world.finish();
}

#[test]
fn a_new_address_space_knows_nothing_of_the_one_before_it() {
    let mut world = World::new(16 << 20, 1 << 20, 2);
    let a = world.create(4, &[1], CpuAccess::Visible);
    let at = world.map(a).unwrap();
    world.make_resident(a).unwrap();
    assert!(world.gpu(at, true).is_ok());
    let root = world.root();
    world.memory.destroy_space(world.space).unwrap();
    let process = KmdHandle::new(core::ptr::without_provenance_mut(3));
    world.space = world
        .memory
        .create_space(
            process,
            false,
            VaSpace::new(29, (0, 0)).with_large_pages(Some(fake_gpu::LARGE * PAGES)),
            &mut waiting(),
        )
        .unwrap();
    assert_eq!(world.memory.root(world.space), root, "the root table is used again");
    world.models[a].mapped = None;
    assert_eq!(world.gpu(at, true), Err(Fault));
    world.finish();
}

#[path = "lock_tests.rs"]
mod lock_tests;
#[path = "page_size_tests.rs"]
mod page_size_tests;
#[path = "suspended_tests.rs"]
mod suspended_tests;
#[path = "table_work_tests.rs"]
mod table_work_tests;
#[path = "update_tests.rs"]
mod update_tests;

fn steps() -> impl Strategy<Value = Vec<(u8, usize, usize, u8)>> {
    prop::collection::vec((0..15u8, 0..8usize, 0..30usize, 1..=255u8), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn contents_survive_any_sequence_of_requests(steps in steps(), tables in prop_oneof![Just(0u32), Just(2)], pages in prop_oneof![Just(40u64), Just(96)], mode in 0..3usize) {
        let mut world = World::of_mode(fake_gpu::MODES[mode], 4 << 20, pages * PAGES, tables);
        let before = (world.memory.segments.free_bytes(2), world.memory.segments.ram.free_bytes());
        for (kind, index, page, value) in steps {
            if kind == 0 || world.models.is_empty() {
                let (places, access): (&[u8], _) = match page % 8 {
                    0 => (&[2], CpuAccess::Visible),
                    1 => (&[2, 1], CpuAccess::Cached),
                    2 => (&[1], CpuAccess::Cached),
                    3 => (&[1, 2], CpuAccess::Visible),
                    4 => (&[2, 3], CpuAccess::None),
                    5 => (&[3, 1], CpuAccess::None),
                    6 => (&[3, 1], CpuAccess::Visible),
                    _ => (&[3, 2, 1], CpuAccess::Visible),
                };
                world.create(1 + page as u64, places, access);
                continue;
            }
            let index = index % world.models.len();
            match kind {
                1 | 2 => if world.models[index].mapped.is_none() { let _ = world.map(index); },
                3 if value % 2 == 0 => world.unmap(index),
                3 => world.unmap_unseen(index),
                4..=6 => if let Err(status) = world.make_resident(index) { prop_assert_eq!(status, STATUS_NO_MEMORY) },
                7 => world.evict(index, &idle()),
                8 => {
                    let access = world.models[index].access;
                    let seen = access == CpuAccess::Visible && matches!(world.place(index), Location::Local { segment: 2, .. });
                    let stays = world.models[index].listed > 0 && !seen;
                    let apertures = world.memory.has_aperture(&world.memory.allocations[&world.models[index].id].allocation);
                    let mut result = world.lock(index);
                    if result == Err(STATUS_GRAPHICS_ALLOCATION_BUSY) {
                        prop_assert!(stays && apertures, "{:?} has not to move", access);
                        world.suspend();
                        result = world.lock(index);
                    }
                    let refused = matches!(
                        result,
                        Err(STATUS_GRAPHICS_CANT_LOCK_MEMORY | STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE)
                    );
                    prop_assert!(!refused || (stays && !apertures), "{:?} {:?}", result, access);
                    prop_assert!(refused || matches!(result, Ok(_) | Err(STATUS_NO_MEMORY)), "{:?}", result);
                }
                9 => if world.models[index].locked.pop().is_some() {
                    world.memory.unlock(world.models[index].id, &world.kept).unwrap();
                },
                10 => { world.gpu_write(index, page, value); world.cpu_write(index, page / 2, value ^ 1) }
                11 => world.sleep(value % 2 == 0, index, page, value),
                12 => world.suspend(),
                13 => if world.suspended { let _ = world.memory.evict_one(tables, &mut waiting()); },
                _ => world.destroy(index),
            }
            // The paging node is somewhere in what it was given.
            world.reaches_nothing_else();
            for _ in 0..page % 3 {
                world.node.run_one();
                world.reaches_nothing_else();
            }
            if value % 4 == 0 {
                world.check();
            }
        }
        world.check();
        world.finish();
        let after = (world.memory.segments.free_bytes(2), world.memory.segments.ram.free_bytes());
        // The process's root table is gone as well now.
        let root = if tables == 2 { (PAGES, 0) } else { (0, PAGES) };
        prop_assert_eq!((after.0 - root.0, after.1 - root.1), before, "memory leaked");
        prop_assert_eq!(lock(&world.fake).aperture_in_use(), 0, "the host aperture leaked");
    }
}
