//! Queues whose work that has not begun is dropped.

use super::*;

/// Cookie and offset of the only preemption among the new events.
fn preempted(host: &mut Host) -> (u64, u64) {
    let events = host.events();
    let kind = EventKind::Preempted as u8;
    let found: Vec<_> = events.iter().filter(|event| event.kind == kind).collect();
    let [event] = found.as_slice() else { panic!("expected one preemption, got {events:?}") };
    (event.data0, event.data1)
}

#[test]
fn a_preempted_queue_drops_what_it_has_not_started_and_gives_up_its_buffer_at_a_wait() {
    let (mut host, space, mut queue) = one_queue();
    host.submit(&mut queue, &[fill(VA, 1), wait(1), fill(VA, 2)]);
    for value in 3..6 {
        host.write_packets(&mut queue, &[fill(VA, value)]);
    }
    host.command(Command::PreemptQueue, 0, 77, 0);
    let before_wait = encode(&[fill(VA, 1)]).len() as u64;
    assert_eq!(preempted(&mut host), (77, before_wait));
    assert_eq!((host.state(&queue), host.read_pointer(&queue), host.get(reg::COUNT_RETIRED, 8)), (0, 4, 0));
    // Nobody waits any more, and the queue takes new entries: the rest of the buffer, for one.
    host.write64(host.locate(space, FENCE), 1);
    host.command(Command::RescanWaits, 0, 0, 0);
    host.run();
    assert_eq!(host.read64(host.locate(space, VA)), 1);
    host.submit(&mut queue, &[wait(1), fill(VA, 2)]);
    assert_eq!((host.read64(host.locate(space, VA)), host.get(reg::COUNT_RETIRED, 8)), (2, 1));
}

#[test]
fn a_preemption_lets_the_buffer_in_progress_run_to_its_end() {
    let (mut host, space, mut queue) = mid_copy();
    host.write_packets(&mut queue, &[fill(VA, 7)]);
    host.command(Command::PreemptQueue, 0, 5, 0);
    assert!(host.events().is_empty(), "the buffer still runs");
    assert_eq!(host.try_command(Command::PreemptQueue, 0, 6, 0).0, CommandStatus::BadState, "once at a time");
    // What is written afterwards runs after the preemption.
    host.write_packets(&mut queue, &[fill(VA + (2 << 20), 8)]);
    host.run();
    assert_eq!(preempted(&mut host), (5, 0));
    assert_eq!(progress_of_copy(&host, space), 6);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
    host.ring(&queue);
    host.run();
    assert_eq!(host.read64(host.locate(space, VA + (2 << 20))), 8);
    assert_eq!((host.read64(host.locate(space, VA)), host.state(&queue)), (0x5555_5555, 0), "7 was dropped");
}

#[test]
fn a_queue_that_comes_to_a_wait_while_it_is_preempted_stops_there() {
    let (mut host, space, mut queue) = one_queue();
    let copy = Copy {
        source: VA,
        destination: VA + (3 << 20),
        row_bytes: 2 << 20,
        rows: 1,
        source_pitch: 0,
        destination_pitch: 0,
    };
    let packets = [Packet::Copy(copy), wait(1), fill(VA, 2)];
    host.write_packets(&mut queue, &packets);
    host.ring(&queue);
    assert!(host.gpu.step());
    host.command(Command::PreemptQueue, 0, 1, 0);
    host.run();
    assert_eq!(preempted(&mut host), (1, encode(&packets[..1]).len() as u64));
    assert_eq!(host.read64(host.locate(space, VA)), 0);
}

#[test]
fn an_idle_queue_is_preempted_at_once_and_a_stopped_one_not_at_all() {
    let (mut host, _, mut queue) = one_queue();
    host.command(Command::PreemptQueue, 0, 9, 0);
    assert_eq!(preempted(&mut host), (9, 0));
    host.write_packets(&mut queue, &[]);
    host.command(Command::PreemptQueue, 0, 10, 0);
    assert_eq!(preempted(&mut host), (10, 0));
    assert_eq!((host.read_pointer(&queue), host.get(reg::COUNT_RETIRED, 8)), (1, 0));
    host.command(Command::SuspendQueue, 0, 0, 0);
    assert_eq!(host.try_command(Command::PreemptQueue, 0, 0, 0).0, CommandStatus::BadState);
    host.command(Command::ResumeQueue, 0, 0, 0);
    host.set_write_pointer(&queue, 1 << 40);
    assert_eq!(host.try_command(Command::PreemptQueue, 0, 0, 0).0, CommandStatus::BadState);
    assert_eq!(host.state(&queue), 5, "a write pointer that cannot be true faults the queue");
}
