//! Locked allocations of the memory manager, by way of the host aperture too.

use super::*;
use crate::vidmm::lock::Taken;
use crate::vidmm::user_mapping::UserMapping;
use nt::user_space::{ThisProcess, UserSpace};

/// Locks an allocation for a process, and has the process show it.
pub(super) fn lock_for(memory: &mut Memory, id: AllocationId, kept: &Arc<Kept>) -> Result<usize, NTSTATUS> {
    let mut reserved = None;
    loop {
        match memory.lock(id, kept, &mut reserved)? {
            Taken::At(address) => return Ok(address),
            Taken::Reserve(size) => reserved = Some(UserMapping::reserve(kept.user(), size).unwrap()),
            Taken::ToShow(mapping, parts) => {
                mapping.show_parts(&parts).unwrap();
                memory.end_showing(id, &mapping, true)?;
                return Ok(mapping.address());
            }
            Taken::Moves => unreachable!("a process that is not waited for"),
        }
    }
}

#[test]
fn a_lock_keeps_its_address_while_the_bytes_move() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, b) = (world.create(40, &[2], CpuAccess::Visible), world.create(40, &[2], CpuAccess::Visible));
    world.map(a).unwrap();
    world.lock(a).unwrap();
    world.cpu_write(a, 7, 1);
    world.make_resident(a).unwrap();
    world.cpu_write(a, 8, 2);
    world.evict(a, &idle());
    world.make_resident(b).unwrap();
    assert!(matches!(world.memory.allocations[&world.models[a].id].place, Location::System(_)));
    world.cpu_write(a, 9, 3);
    world.check();
    world.lock(a).unwrap();
    world.memory.unlock(world.models[a].id, &world.kept).unwrap();
    world.memory.unlock(world.models[a].id, &world.kept).unwrap();
    assert_eq!(world.memory.unlock(world.models[a].id, &world.kept), Err(STATUS_INVALID_PARAMETER));
    world.models[a].locked.clear();
    world.finish();
}

#[test]
fn the_host_aperture_shows_scattered_pages_and_is_given_back() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let all: Vec<usize> = (0..3).map(|_| world.create(8, &[3, 1], CpuAccess::Visible)).collect();
    for index in &all {
        world.map(*index).unwrap();
        world.make_resident(*index).unwrap();
        world.lock(*index).unwrap();
        world.cpu_write(*index, 5, *index as u8 + 1);
    }
    world.check();
    assert_eq!(lock(&world.fake).aperture_in_use(), 24);
    // Pages of the first and the third become free, so that the next lock has two pieces.
    world.unlock(all[0]);
    world.unlock(all[2]);
    assert_eq!(lock(&world.fake).aperture_in_use(), 8);
    let large = world.create(16, &[3, 1], CpuAccess::Visible);
    world.map(large).unwrap();
    world.make_resident(large).unwrap();
    world.lock(large).unwrap();
    world.gpu_write(large, 15, 7);
    world.cpu_write(large, 3, 6);
    world.check();
    world.finish();
    assert_eq!(lock(&world.fake).aperture_in_use(), 0);
}

#[test]
fn a_lock_through_the_host_aperture_follows_the_bytes() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let (a, b) = (world.create(20, &[3, 1], CpuAccess::Visible), world.create(60, &[3], CpuAccess::None));
    world.map(a).unwrap();
    world.lock(a).unwrap();
    world.cpu_write(a, 1, 1);
    world.make_resident(a).unwrap();
    assert_eq!(lock(&world.fake).aperture_in_use(), 20);
    world.cpu_write(a, 2, 2);
    world.evict(a, &idle());
    world.make_resident(b).unwrap();
    assert_eq!(lock(&world.fake).aperture_in_use(), 0);
    world.cpu_write(a, 3, 3);
    world.check();
    world.finish();
}

#[test]
fn a_driver_short_of_memory_for_the_aperture_is_not_at_fault_and_any_other_refusal_is() {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let a = world.create(4, &[3, 1], CpuAccess::Visible);
    world.make_resident(a).unwrap();
    lock(&world.fake).refuse_aperture.push_back(STATUS_NO_MEMORY);
    assert_eq!(world.lock(a), Err(STATUS_GRAPHICS_ALLOCATION_BUSY), "it has to move");
    assert_eq!(world.memory.driver.verifier.bugcheck(), None);
    lock(&world.fake).refuse_aperture.push_back(STATUS_UNSUCCESSFUL);
    assert!(world.lock(a).is_err());
    let bugcheck = world.memory.driver.verifier.bugcheck().unwrap();
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x10e, 0x2d));
}

/// Two allocations that are locked in VRAM, and a driver whose answer to the next paging operation is yes for the first of them only.
fn locked_in_vram() -> (World, Vec<usize>) {
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let all: Vec<usize> = (0..2).map(|_| world.create(4, &[2], CpuAccess::Visible)).collect();
    for index in &all {
        world.map(*index).unwrap();
        world.make_resident(*index).unwrap();
        world.lock(*index).unwrap();
        world.cpu_write(*index, 1, 11);
    }
    (world, all)
}

/// Stores to every lock as user mode does, but with an error where user mode would end with a fault.
fn assert_locks_take_stores(world: &World, all: &[usize]) {
    for index in all {
        let at = world.models[*index].locked[0];
        let mut seen = [0];
        ThisProcess.read(at + PAGES as usize, &mut seen).unwrap();
        assert_eq!(seen, [11], "what the lock {index} shows");
        ThisProcess.write(at, &[12]).unwrap_or_else(|error| panic!("a store to the lock {index}: {error}"));
    }
}

#[test]
fn a_lock_takes_stores_after_memory_could_not_leave_the_device_or_come_back() {
    for way_back in [false, true] {
        let (mut world, all) = locked_in_vram();
        if way_back {
            world.memory.park(false).unwrap();
        }
        lock(&world.fake).refuse.extend([STATUS_SUCCESS, STATUS_UNSUCCESSFUL]);
        let moved = if way_back { world.memory.unpark(true) } else { world.memory.park(false) };
        assert!(moved.is_err() && world.memory.driver.verifier.bugcheck().is_some(), "{way_back}");
        assert_locks_take_stores(&world, &all);
    }
}
