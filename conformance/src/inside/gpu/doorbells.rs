//! Doorbells: which stores count, and for whom.

use campanile_device::Variant;
use campanile_device::testing::{Host, TestQueue, small_variant};
use campanile_hw::doorbell::DoorbellValue;
use campanile_hw::packet::{Nop, Packet};
use campanile_hw::registers::{self, Command, NODE_COMPUTE, NODE_COPY};

use super::one_queue;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Gpu", behind "it works the GPU itself, without a driver";
    "Gpu.ConnectionClearsThePage" on Boot::Shared, "docs/hardware.md":
        "A page is zero when its doorbell is connected, so that what an earlier owner stored rings nobody and cannot be read."
        holds [UserModeSubmission 60]
        => a_connection_clears_the_page;
    "Gpu.DisconnectedDoorbellsAreNotHeard" on Boot::Shared, "docs/hardware.md":
        "A store to the page of a doorbell that was disconnected, or whose queue was unmapped, rings nobody, and the page serves the next queue."
        => stores_to_pages_that_are_not_connected_are_ignored;
    "Gpu.GlobalDoorbellRingsWhomItNames" on Boot::Shared, "docs/hardware.md":
        "A store to the global doorbell has the queue looked at that it names at once, if that is connected, and no other queue runs for it."
        holds [UserModeSubmission 4, UserModeSubmission 5]
        => the_global_doorbell_rings_whom_the_value_names;
    "Gpu.SleepingNodesHearNoDoorbell" on Boot::Shared, "docs/hardware.md":
        "The pages of doorbells whose node is in F1 are not read, and a ring of that time is found when the node is back in F0."
        => doorbells_of_a_sleeping_node_are_not_read;
}

const NOP: Packet = Packet::Nop(Nop {});

/// Rings seen, and command buffers done.
fn counts(host: &Host) -> (u64, u64) {
    (host.get(registers::COUNT_DOORBELLS, 8), host.get(registers::COUNT_RETIRED, 8))
}

fn a_connection_clears_the_page(_: &mut Case<'_>) -> Result<(), Failure> {
    let (mut host, space, mut first) = one_queue();
    let mut second = host.queue(1, space, NODE_COPY);
    host.store_doorbell(4, 0x7777);
    host.connect(&mut first, 4);
    ensure_eq!(host.load_doorbell(4), 0, "the word of an earlier owner");
    host.run();
    ensure_eq!(counts(&host), (0, 0));
    host.submit(&mut first, &[NOP]);
    host.command(Command::DisconnectDoorbell, 4, 0, 0);
    host.connect(&mut second, 4);
    ensure_eq!(host.load_doorbell(4), 0, "the word of the last owner");
    host.run();
    ensure_eq!(counts(&host), (1, 1));
    Ok(())
}

fn stores_to_pages_that_are_not_connected_are_ignored(_: &mut Case<'_>) -> Result<(), Failure> {
    let (mut host, space, mut queue) = one_queue();
    host.connect(&mut queue, 4);
    host.command(Command::DisconnectDoorbell, 4, 0, 0);
    // The last look at the write pointer comes first.
    host.run();
    host.submit(&mut queue, &[NOP]);
    ensure_eq!(counts(&host), (0, 0), "a ring of a doorbell that was disconnected");
    host.connect(&mut queue, 5);
    host.run();
    ensure_eq!(counts(&host), (0, 1), "the next connection finds it");
    host.write_packets(&mut queue, &[NOP]);
    host.ring(&queue);
    host.command(Command::UnmapQueue, 0, 0, 0);
    ensure_eq!(host.gpu.held().doorbells, 0, "doorbells that are connected");
    host.run();
    ensure_eq!(counts(&host).1, 1, "buffers done after the queue was unmapped");
    let mut next = host.queue(1, space, NODE_COMPUTE);
    host.connect(&mut next, 5);
    host.submit(&mut next, &[NOP]);
    ensure_eq!(counts(&host).1, 2, "buffers done, with the page of the next queue");
    Ok(())
}

fn the_global_doorbell_rings_whom_the_value_names(_: &mut Case<'_>) -> Result<(), Failure> {
    const QUEUES: u32 = 64;
    let mut host = Host::with(&Variant { global_doorbell: true, ..small_variant() });
    let space = host.space();
    let mut queues: Vec<TestQueue> = (0..QUEUES).map(|number| host.queue(number, space, NODE_COMPUTE)).collect();
    for queue in &mut queues[1..] {
        host.connect(queue, 0);
    }
    host.run();
    let ring = |host: &Host, queue: &mut TestQueue| {
        host.write_packets(queue, &[NOP]);
        let value = DoorbellValue::new().with_queue(queue.number as u16).with_write_pointer(queue.write);
        host.store_doorbell(0, value.into_bits());
    };
    // The search that looks for stores which another one hid comes to a few queues at a step, and to this one late.
    let mut steps = Vec::new();
    for number in [63, 1, 32] {
        ring(&host, &mut queues[number]);
        let mut taken = 0;
        while host.read_pointer(&queues[number]) == 0 && host.gpu.step() {
            taken += 1;
        }
        steps.push(taken);
        host.run();
    }
    ensure!(steps.iter().all(|steps| *steps <= 3), "steps until the queue that a value names has run: {steps:?}");
    ring(&host, &mut queues[0]);
    host.run();
    ensure_eq!(host.read_pointer(&queues[0]), 0, "buffers that a queue has run which is not connected");
    Ok(())
}

fn doorbells_of_a_sleeping_node_are_not_read(_: &mut Case<'_>) -> Result<(), Failure> {
    let (host, _, mut queue) = one_queue();
    host.connect(&mut queue, 0);
    host.command(Command::SetNodePower, NODE_COMPUTE.into(), 1, 0);
    let reads = host.gpu.activity().doorbell_reads;
    host.write_packets(&mut queue, &[NOP]);
    host.ring(&queue);
    ensure!((0..1000).all(|_| !host.gpu.step()), "a node in F1 works");
    ensure_eq!((host.gpu.activity().doorbell_reads - reads, counts(&host).1), (0, 0), "words read, buffers done");
    host.command(Command::SetNodePower, NODE_COMPUTE.into(), 0, 0);
    host.run();
    ensure_eq!(counts(&host).1, 1);
    Ok(())
}
