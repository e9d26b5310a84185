//! Rings: which entries are pending, which are free, and where they lie, against a ring made of a queue of numbers.

use std::collections::VecDeque;

use campanile_hw::queue::{BadWritePointer, RING_ENTRIES_MAX, RING_ENTRIES_MIN, RING_ENTRY_SIZE, RingGeometry};
use proptest::prelude::*;

fn geometry() -> impl Strategy<Value = RingGeometry> {
    (1u32..=16).prop_map(|power| RingGeometry::new(1 << power).expect("a legal ring"))
}

#[test]
fn a_ring_has_a_power_of_two_of_entries_between_2_and_65536() {
    let legal: Vec<u32> = (0..=RING_ENTRIES_MAX + 2).filter(|n| RingGeometry::new(*n).is_some()).collect();
    let powers: Vec<u32> = (1..=16).map(|power| 1 << power).collect();
    assert_eq!(legal, powers);
    assert_eq!((RING_ENTRIES_MIN, RING_ENTRIES_MAX), (2, 65536));
    assert_eq!(RingGeometry::new(1 << 17), None);
    assert_eq!(RingGeometry::new(u32::MAX), None);
}

#[test]
fn a_ring_of_bytes_is_exactly_a_ring() {
    assert_eq!(RingGeometry::of_bytes(8192).map(RingGeometry::entries), Some(256));
    assert_eq!(RingGeometry::of_bytes(2 << 20).map(RingGeometry::entries), Some(65536));
    for bytes in [0, 1, 31, 32, 63, 65, 8191, 8193, 96, RING_ENTRY_SIZE * 131_072, u64::MAX, u64::MAX - 31] {
        assert_eq!(RingGeometry::of_bytes(bytes), None, "{bytes}");
    }
    // A size whose entry count is a legal ring only modulo 2^32.
    assert_eq!(RingGeometry::of_bytes(((1 << 32) + 256) * RING_ENTRY_SIZE), None);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Read,
}

proptest! {
    #[test]
    fn slots_are_visited_in_order_and_wrap(ring in geometry(), start in 0u64..1 << 48) {
        let entries = u64::from(ring.entries());
        for pointer in start..start + entries.min(300) + 1 {
            let slot = ring.slot(pointer);
            prop_assert_eq!(slot % RING_ENTRY_SIZE, 0);
            prop_assert!(slot < entries * RING_ENTRY_SIZE);
            prop_assert_eq!(slot, (pointer % entries) * RING_ENTRY_SIZE);
            let next = ring.slot(pointer + 1);
            prop_assert!(next == slot + RING_ENTRY_SIZE || (next == 0 && slot == (entries - 1) * RING_ENTRY_SIZE));
        }
    }

    #[test]
    fn pending_and_free_agree_with_a_queue_of_numbers(
        power in 1u32..=5,
        start in prop_oneof![Just(0u64), Just((1 << 48) - 20), 0u64..1 << 48],
        steps in prop::collection::vec(prop_oneof![Just(Step::Write), Just(Step::Read)], 0..200),
    ) {
        let ring = RingGeometry::new(1 << power).expect("a legal ring");
        let (mut write, mut read) = (start, start);
        let mut model = VecDeque::new();
        let mut slots = vec![None; ring.entries() as usize];
        for step in steps {
            let at = |pointer| (ring.slot(pointer) / RING_ENTRY_SIZE) as usize;
            match step {
                Step::Write if ring.free(write, read) > 0 => {
                    prop_assert_eq!(slots[at(write)], None, "a pending entry is overwritten");
                    slots[at(write)] = Some(write);
                    model.push_back(write);
                    write += 1;
                }
                Step::Read if !model.is_empty() => {
                    prop_assert_eq!(slots[at(read)].take(), model.pop_front());
                    read += 1;
                }
                Step::Write => prop_assert_eq!(model.len(), ring.entries() as usize),
                Step::Read => {}
            }
            prop_assert_eq!(ring.pending(write, read), Ok(model.len() as u32));
            prop_assert_eq!(ring.free(write, read), ring.entries() - model.len() as u32);
        }
    }

    #[test]
    fn a_write_pointer_behind_or_too_far_ahead_is_refused(ring in geometry(), read in any::<u64>(), write in any::<u64>()) {
        let believable = write >= read && write - read <= u64::from(ring.entries());
        prop_assert_eq!(ring.pending(write, read).is_ok(), believable);
        if !believable {
            prop_assert_eq!(ring.pending(write, read), Err(BadWritePointer));
            prop_assert_eq!(ring.free(write, read), 0);
        }
    }
}

#[test]
fn the_edges_of_a_full_ring_are_exact() {
    let ring = RingGeometry::new(4).expect("a legal ring");
    assert_eq!(ring.pending(10, 10), Ok(0));
    assert_eq!(ring.pending(14, 10), Ok(4));
    assert_eq!(ring.pending(15, 10), Err(BadWritePointer));
    assert_eq!(ring.pending(9, 10), Err(BadWritePointer));
    assert_eq!((ring.free(10, 10), ring.free(14, 10), ring.free(15, 10), ring.free(9, 10)), (4, 0, 0, 0));
    assert_eq!(ring.pending(u64::MAX, u64::MAX - 4), Ok(4));
    assert_eq!(ring.pending(0, u64::MAX), Err(BadWritePointer));
}
