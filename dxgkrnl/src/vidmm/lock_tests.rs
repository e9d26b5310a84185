//! What can be locked where, and what has to move for it.

use super::*;

impl World {
    /// Locks as a thunk does: the process is off its engines, and goes on behind that.
    fn lock_while_suspended(&mut self, index: usize) -> Result<usize, NTSTATUS> {
        self.suspend();
        let locked = self.lock(index);
        assert!(self.resume());
        locked
    }
}

#[test]
fn memory_that_is_not_for_the_cpu_is_locked_in_system_memory_and_stays_there() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (local, either) = (world.create(4, &[2], CpuAccess::None), world.create(4, &[2, 1], CpuAccess::None));
    for index in [local, either] {
        world.map(index).unwrap();
        world.make_resident(index).unwrap();
        world.gpu_write(index, 1, 3);
    }
    assert_eq!(world.lock(local), Err(STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE));
    assert_eq!(
        world.lock_while_suspended(local),
        Err(STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE),
        "it is wanted resident"
    );
    assert_eq!(world.lock(either), Err(STATUS_GRAPHICS_ALLOCATION_BUSY), "engines may be using it");
    world.lock_while_suspended(either).unwrap();
    world.evict(local, &idle());
    world.lock(local).unwrap();
    world.check();
    for index in [local, either] {
        assert!(matches!(world.place(index), Location::System(_)));
    }
    assert_eq!(world.make_resident(local), Err(STATUS_NO_MEMORY), "it would be committed to a memory segment");
    world.gpu_write(either, 2, 4);
    world.cpu_write(either, 3, 5);
    world.check();
    world.unlock(local);
    world.make_resident(local).unwrap();
    world.finish();
}

#[test]
fn cached_memory_is_never_shown_in_a_memory_segment() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, local) = (world.create(4, &[2, 1], CpuAccess::Cached), world.create(4, &[2], CpuAccess::Cached));
    for index in [a, local] {
        world.map(index).unwrap();
        world.make_resident(index).unwrap();
        world.gpu_write(index, 0, 9);
    }
    assert_eq!(world.lock_while_suspended(local), Err(STATUS_GRAPHICS_CANT_LOCK_MEMORY));
    world.lock_while_suspended(a).unwrap();
    assert!(matches!(world.place(a), Location::System(_)));
    world.cpu_write(a, 1, 8);
    world.check();
    world.unlock(a);
    world.evict(a, &idle());
    world.lock(a).unwrap();
    world.make_resident(a).unwrap();
    assert!(matches!(world.place(a), Location::System(_)));
    world.check();
    world.finish();
}

#[test]
fn an_exhausted_host_aperture_sends_a_lock_to_system_memory() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let [a, b, c] = [(); 3].map(|()| world.create(20, &[3, 1], CpuAccess::Visible));
    for index in [a, b, c] {
        world.map(index).unwrap();
        world.make_resident(index).unwrap();
        world.gpu_write(index, 2, index as u8 + 1);
    }
    world.lock(a).unwrap();
    assert_eq!(world.lock(b), Err(STATUS_GRAPHICS_ALLOCATION_BUSY), "engines may be using it");
    world.lock_while_suspended(b).unwrap();
    world.evict(c, &idle());
    world.lock(c).unwrap();
    world.make_resident(c).unwrap();
    for index in [b, c] {
        assert!(matches!(world.place(index), Location::System(_)), "the aperture is still full");
    }
    world.check();
    world.finish();
}

#[test]
fn what_queued_work_may_use_does_not_move_for_a_lock_before_that_is_done_or_off_its_engine() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (local, either) = (world.create(4, &[2], CpuAccess::None), world.create(4, &[2, 1], CpuAccess::None));
    let done = Arc::new(AtomicBool::new(false));
    for index in [local, either] {
        world.map(index).unwrap();
        world.make_resident(index).unwrap();
        world.gpu_write(index, 1, 3);
        world.evict(index, &busy_until(&done));
        assert_eq!(world.lock(index), Err(STATUS_GRAPHICS_ALLOCATION_BUSY));
    }
    assert_eq!(
        world.lock_while_suspended(local),
        Err(STATUS_GRAPHICS_ALLOCATION_BUSY),
        "its work would not find it any more"
    );
    world.lock_while_suspended(either).unwrap();
    // The work goes on, and finds it in system memory.
    let (_, at) = (world.settle(), world.models[either].mapped.unwrap());
    assert!(world.gpu(at, true).is_ok());
    done.store(true, Ordering::Release);
    world.lock(local).unwrap();
    world.check();
    world.finish();
}

#[test]
fn without_memory_for_it_nothing_moves_for_a_lock() {
    let mut world = World::new(4 << 20, 96 * PAGES, 2);
    let a = world.create(40, &[2, 1], CpuAccess::None);
    world.map(a).unwrap();
    world.make_resident(a).unwrap();
    world.gpu_write(a, 3, 9);
    let ram = Arc::clone(&world.memory.segments.ram);
    let taken: Vec<_> = std::iter::from_fn(|| ram.allocate(PAGES, PAGES)).collect();
    assert_eq!(world.lock_while_suspended(a), Err(STATUS_NO_MEMORY));
    assert!(matches!(world.place(a), Location::Local { .. }));
    world.check();
    drop(taken);
    world.lock_while_suspended(a).unwrap();
    world.check();
    world.finish();
}

#[test]
fn each_process_has_an_address_of_its_own_that_shows_the_same_memory_wherever_it_goes() {
    let read = |address: usize, at: usize| {
        // SAFETY: the tests read inside of what is locked only.
        unsafe { std::ptr::with_exposed_provenance::<u8>(address + at).read_volatile() }
    };
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let shared = world.create(4, &[2, 1], CpuAccess::Visible);
    world.map(shared).unwrap();
    let (id, other) = (world.models[shared].id, Arc::<Kept>::default());
    let first = world.lock(shared).unwrap();
    let second = locks::lock_for(&mut world.memory, id, &other).unwrap();
    assert_eq!(locks::lock_for(&mut world.memory, id, &other), Ok(second), "locks of a process share its address");
    assert_ne!(first, second);
    world.cpu_write(shared, 1, 5);
    assert_eq!(read(second, PAGES as usize), 5);
    // It moves to local memory, and both addresses with it.
    world.make_resident(shared).unwrap();
    world.gpu_write(shared, 2, 6);
    world.check();
    world.settle();
    assert_eq!((read(first, 2 * PAGES as usize), read(second, 2 * PAGES as usize)), (6, 6));
    world.unlock(shared);
    assert_eq!(world.memory.unlock(id, &world.kept), Err(STATUS_INVALID_PARAMETER), "the lock of another process");
    assert_eq!(read(second, PAGES as usize), 5);
    world.memory.unlock(id, &other).unwrap();
    world.memory.unlock(id, &other).unwrap();
    assert_eq!(world.memory.unlock(id, &other), Err(STATUS_INVALID_PARAMETER));
    world.finish();
}
