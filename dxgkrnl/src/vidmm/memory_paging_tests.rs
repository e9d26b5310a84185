//! What drivers are asked in paging operations, and answers that break a rule.

use super::*;

#[test]
fn a_driver_that_wants_another_buffer_for_ever_stops_the_machine_by_name() {
    for with_commands in [false, true] {
        let mut world = World::new(16 << 20, 1 << 20, 0);
        let a = world.create(4, &[2], CpuAccess::Visible);
        lock(&world.fake).never_ends = Some(with_commands);
        assert_eq!(world.make_resident(a), Err(STATUS_DEVICE_REMOVED));
        let bugcheck = world.memory.driver.verifier.bugcheck().expect("the machine stopped");
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x10e, 0xb), "{bugcheck}");
        for part in
            ["DXGK_OPERATION_VIRTUAL_FILL", "for 1029 buffers of 0x1000 bytes", "at most 1028", "MultipassOffset"]
        {
            assert!(bugcheck.reason.contains(part), "{part:?} is not in {bugcheck}");
        }
    }
}

#[test]
fn illegal_results_and_overruns_of_the_driver_are_bugchecks() {
    let stop = |world: &World| {
        let bugcheck = world.memory.driver.verifier.bugcheck().expect("the machine stopped");
        (bugcheck.code, bugcheck.parameters[0])
    };
    let mut world = World::new(16 << 20, 1 << 20, 0);
    let a = world.create(4, &[2], CpuAccess::Visible);
    lock(&world.fake).refuse.push_back(STATUS_NO_MEMORY);
    assert_eq!(world.make_resident(a), Err(STATUS_DEVICE_REMOVED));
    assert_eq!(stop(&world), (0x10e, 0xb));

    let mut world = World::new(16 << 20, 1 << 20, 0);
    let a = world.create(4, &[2], CpuAccess::Visible);
    // An empty buffer is never too small for one step more.
    lock(&world.fake).refuse.push_back(STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
    assert_eq!(world.make_resident(a), Err(STATUS_DEVICE_REMOVED));
    assert_eq!(stop(&world), (0x10e, 0xb));

    let mut world = World::new(16 << 20, 1 << 20, 0);
    let a = world.create(4, &[2], CpuAccess::Visible);
    lock(&world.fake).overrun = true;
    assert_eq!(world.make_resident(a), Err(STATUS_DEVICE_REMOVED));
    assert_eq!(stop(&world), (0x10e, 0x12));

    let mut world = World::new(16 << 20, 1 << 20, 0);
    let a = world.create(4, &[2], CpuAccess::Visible);
    lock(&world.fake).private_overrun = true;
    assert_eq!(world.make_resident(a), Err(STATUS_DEVICE_REMOVED));
    assert_eq!(stop(&world), (0x10e, 0x13));
}

#[test]
fn operations_say_which_part_of_which_allocation_they_are_about_and_where_it_goes() {
    type To = wddm_ddi::km::DXGK_MEMORY_TRANSFER_DIRECTION;
    // More than one window shows.
    const WINDOW: u64 = 8 << 20;
    let mut world = World::new(96 << 20, 24 << 20, 0);
    let a = world.create(WINDOW / PAGES + 3, &[2], CpuAccess::Visible);
    let id = world.models[a].id;
    let kmd = world.memory.allocations[&id].allocation.kmd().raw();
    let at = world.map(a).unwrap();
    let va = &mut world.memory.spaces.get_mut(&world.space).unwrap().va;
    let part = va.reserve_automatic(0, 0, 0, 2 * PAGES).unwrap();
    let access = Access { driver: 0x5a, ..Access::READ };
    let shown = Mapping { pages: 2, source: Source::Allocation { id, user: 0, first: 7 }, access };
    world.memory.map(world.space, part, shown, &mut waiting()).unwrap();
    let initial = std::mem::take(&mut lock(&world.fake).initial);
    assert!(initial > 0, "no table was written for the first time");
    lock(&world.fake).leaves.clear();
    world.make_resident(a).unwrap();
    let leaves = std::mem::take(&mut lock(&world.fake).leaves);
    let of_a: Vec<_> = leaves.into_iter().filter(|(of, ..)| *of == kmd).collect();
    assert!(of_a.contains(&(kmd, 7 * PAGES, part, 0x5a)), "the part, with the driver's bits: {of_a:x?}");
    let whole: Vec<_> = of_a.into_iter().filter(|(_, _, _, driver)| *driver == 0).collect();
    assert!(whole.len() > 1 && whole.iter().all(|(_, offset, first, _)| first - at == *offset), "{whole:x?}");
    world.evict(a, &idle());
    assert!(world.memory.evict(id).unwrap());
    world.make_resident(a).unwrap();
    let parts = |to: Option<To>| [(to, kmd, 0, WINDOW), (to, kmd, WINDOW, 3 * PAGES)];
    let expected =
        [None, Some(To::DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM), Some(To::DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL)];
    assert_eq!(std::mem::take(&mut lock(&world.fake).moves), expected.map(parts).concat());
    world.check();
    world.finish();
}

#[test]
fn a_busy_driver_is_asked_once_more() {
    let mut world = World::new(16 << 20, 1 << 20, 0);
    let a = world.create(4, &[2], CpuAccess::Visible);
    world.map(a).unwrap();
    lock(&world.fake).refuse.extend([STATUS_GRAPHICS_ALLOCATION_BUSY; 2]);
    assert_eq!(world.make_resident(a), Err(STATUS_GRAPHICS_ALLOCATION_BUSY));
    lock(&world.fake).refuse.push_back(STATUS_GRAPHICS_ALLOCATION_BUSY);
    world.make_resident(a).unwrap();
    world.check();
    lock(&world.fake).refuse_at_once.push_back(STATUS_GRAPHICS_ALLOCATION_BUSY);
    assert!(world.memory.unmap_everywhere(world.models[a].id, None).is_err(), "page tables have nothing to wait for");
    let bugcheck = world.memory.driver.verifier.bugcheck().unwrap();
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x10e, 0x30));
}
