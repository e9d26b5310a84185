//! How many allocations are looked at, as their number grows.

use super::*;

#[test]
fn thousands_of_allocations_destroyed_while_a_queue_is_busy_are_looked_at_a_few_times_each() {
    const COUNT: u64 = 3000;
    let mut world = World::new(16 << 20, 64 * PAGES, 0);
    let done = Arc::new(AtomicBool::new(false));
    for _ in 0..COUNT {
        let index = world.create(1, &[0], CpuAccess::Visible);
        let model = world.models.swap_remove(index);
        world.memory.destroy_when_idle(model.id, Some(busy_until(&done)));
        assert!(!world.memory.free_destroyed().unwrap(), "freed while a queue may use it");
    }
    // Those that wait for nothing do not wait behind the others.
    let at_once = world.create(1, &[0], CpuAccess::Visible);
    let at_once = world.models.swap_remove(at_once).id;
    world.memory.destroy_when_idle(at_once, None);
    assert!(world.memory.free_destroyed().unwrap() && !world.memory.allocations.contains_key(&at_once));
    done.store(true, Ordering::Release);
    assert!(world.memory.free_destroyed().unwrap() && world.memory.allocations.is_empty());
    assert!(world.memory.looks <= 2 * COUNT + 8, "{} looks", world.memory.looks);
    assert!(!world.memory.free_destroyed().unwrap(), "nothing is left");
}

#[test]
fn the_cost_of_one_more_allocation_does_not_grow_while_nothing_was_evicted() {
    let mut world = World::new(16 << 20, 2048 * PAGES, 0);
    for _ in 0..1000 {
        let index = world.create(1, &[2], CpuAccess::Visible);
        assert!(!world.memory.is_list_away(world.space));
        world.make_resident(index).unwrap();
    }
    assert_eq!(world.memory.looks, 0);
    // What was evicted is found, and when it is back nobody looks any more.
    assert_eq!(world.memory.evict(world.models[0].id), Ok(true));
    assert!(world.memory.is_list_away(world.space));
    world.memory.make_resident(world.models[0].id, &mut waiting()).unwrap();
    assert!(!world.memory.is_list_away(world.space));
    let looks = world.memory.looks;
    assert!(!world.memory.is_list_away(world.space));
    assert_eq!(world.memory.looks, looks);
}
