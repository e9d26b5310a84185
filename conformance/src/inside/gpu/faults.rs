//! Faults and resets: what they name, and that what faulted stays so.

use campanile_device::testing::{EVENTS, Host, TestQueue, vram};
use campanile_hw::event::{EventKind, FaultKind, WAITING_STALLS};
use campanile_hw::packet::{Fill, Nop, Packet};
use campanile_hw::queue::{QueueDescriptor, QueueFlags, RingEntry, RingFlags};
use campanile_hw::registers::{self, Command, CommandStatus, NODE_COMPUTE};

use super::{VA, fill, one_queue};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Gpu", behind "it works the GPU itself, without a driver";
    "Gpu.FaultNamesEntryAndLevel" on Boot::Shared, "docs/hardware.md":
        "A page fault names the ring entry that it came from, and the level of the page table at which the walk ended."
        => a_page_fault_names_its_ring_entry_and_the_level_of_the_walk;
    "Gpu.FaultedQueueStaysFaulted" on Boot::Shared, "docs/hardware.md":
        "A queue that faulted runs no more, also when it is kicked, resumed or saved and restored, and no doorbell can be connected to it."
        => a_queue_that_faulted_runs_no_more;
    "Gpu.StoppedNodeTakesTheQueueThatRuns" on Boot::Shared, "docs/hardware.md":
        "ResetNode names the queue that was running and leaves it faulted; its packet goes no further."
        => a_reset_takes_the_queue_that_runs;
    "Gpu.StalledQueuesGoOn" on Boot::Shared, "docs/hardware.md":
        "A queue that stopped because too many events wait for the event ring goes on when there are free records, and every event comes once and in order."
        => queues_that_wait_for_the_event_ring_go_on;
}

fn a_page_fault_names_its_ring_entry_and_the_level_of_the_walk(_: &mut Case<'_>) -> Result<(), Failure> {
    // Another page, another table of pages, another table above it, another one below the root.
    for (level, distance) in [(0, 12), (1, 21), (2, 30), (3, 39)] {
        for before in [0u32, 1, 5] {
            let (mut host, space, mut queue) = one_queue();
            host.map_new_ram(space, VA, 4096);
            for _ in 0..before {
                host.write_packets(&mut queue, &[fill(VA, 1)]);
            }
            host.submit(&mut queue, &[fill(VA, 2), fill(VA + (1 << distance), 3)]);
            let (address, info) = host.fault_of(&queue);
            ensure_eq!((address, info.kind()), (VA + (1 << distance), FaultKind::PageFault as u8));
            ensure_eq!((info.level(), info.entry()), (level, before), "level and ring entry");
        }
    }
    Ok(())
}

fn a_queue_that_faulted_runs_no_more(_: &mut Case<'_>) -> Result<(), Failure> {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, VA, 4096);
    let (mut queue, descriptor) = host.prepare_queue(4, space);
    host.write_descriptor(4, &descriptor);
    host.command(Command::MapQueue, 4, 0, 0);
    host.submit(&mut queue, &[fill(VA + 4096, 1)]);
    host.fault_of(&queue);
    let still = |host: &Host, queue: &mut TestQueue, after: &str| {
        host.write_packets(queue, &[fill(VA, 2)]);
        let kicked = host.try_command(Command::KickQueue, 4, 0, 0).0;
        host.run();
        ensure_eq!((kicked, host.state(queue)), (CommandStatus::BadState, 5), "{after}: a kick, and the state");
        ensure_eq!(host.read64(at), 0, "{after}: what a queue that faulted writes");
        Ok(())
    };
    still(&host, &mut queue, "after the fault")?;
    ensure_eq!(host.try_command(Command::ResumeQueue, 4, 0, 0).0, CommandStatus::BadState);
    ensure_eq!(host.try_command(Command::ConnectDoorbell, 2, 4, 0).0, CommandStatus::BadState);
    still(&host, &mut queue, "after a doorbell was refused")?;
    let record = vram(host.take_vram(4096, 4096)).into_bits();
    host.command(Command::SaveQueue, 4, record, 0);
    host.command(Command::UnmapQueue, 4, 0, 0);
    let flags = QueueFlags::from_bits(descriptor.flags).with_suspended(true).into_bits();
    host.write_descriptor(4, &QueueDescriptor { flags, ..descriptor });
    host.command(Command::MapQueue, 4, 0, 0);
    host.command(Command::RestoreQueue, 4, record, 0);
    ensure_eq!(host.try_command(Command::ResumeQueue, 4, 0, 0).0, CommandStatus::BadState);
    still(&host, &mut queue, "after it was saved and restored")
}

fn a_reset_takes_the_queue_that_runs(_: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 16 << 20;
    let (mut host, space, mut queue) = one_queue();
    let at = host.take_vram(SIZE, 4096);
    host.map(space, VA, vram(at), SIZE);
    host.write_packets(&mut queue, &[Packet::Fill(Fill { destination: VA, size: SIZE, pattern: 7 })]);
    host.ring(&queue);
    ensure!(host.gpu.step() && host.gpu.step(), "nothing to do");
    ensure_eq!(host.state(&queue), 2, "the state of a queue that runs");
    ensure_eq!(host.command(Command::ResetNode, u64::from(NODE_COMPUTE), 0, 0), 0, "the queue that ran");
    let (address, info) = host.fault_of(&queue);
    ensure_eq!((address, info.kind()), (0, FaultKind::Reset as u8));
    host.run();
    ensure_eq!(host.read64(vram(at + SIZE - 8)), 0, "the end of what the packet fills");
    ensure_eq!(host.get(registers::COUNT_RETIRED, 8), 0);
    Ok(())
}

fn queues_that_wait_for_the_event_ring_go_on(_: &mut Case<'_>) -> Result<(), Failure> {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue_with(0, space, |descriptor| {
        descriptor.flags = QueueFlags::new().with_privileged(true).into_bits();
    });
    let mut other = host.queue(1, space, NODE_COMPUTE);
    let flags = RingFlags::new().with_retire_event(true).into_bits();
    let fits = WAITING_STALLS as u64 + u64::from(EVENTS);
    let mut tag = 0;
    while tag < 2 * fits && tag - host.read_pointer(&queue) < u64::from(queue.geometry.entries()) {
        while tag - host.read_pointer(&queue) < u64::from(queue.geometry.entries()) {
            host.write_entry(&mut queue, &RingEntry { commands: 0, size: 0, flags, tag, root: 0 });
            tag += 1;
        }
        host.ring(&queue);
        host.run();
    }
    ensure_eq!(host.read_pointer(&queue), fits, "buffers done while nobody takes events");
    host.submit(&mut other, &[Packet::Nop(Nop {})]);
    ensure_eq!(host.read_pointer(&other), 1, "a queue that sends no event goes on");
    let mut taken = 0;
    loop {
        let events = host.events();
        if events.is_empty() {
            break;
        }
        for event in events {
            ensure_eq!((event.kind, event.data0), (EventKind::Retired as u8, taken));
            taken += 1;
        }
        host.run();
    }
    ensure_eq!(
        (taken, host.read_pointer(&queue)),
        (tag, tag),
        "events taken and buffers done, of all that were queued"
    );
    Ok(())
}
