//! Drivers whose paging operations do not end.

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
