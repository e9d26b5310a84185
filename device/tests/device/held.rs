//! What a function holds of its user, and that no kind of reset leaves any of it.

use crate::host::{Host, RAM_BASE, RAM_SIZE};
use campanile_device::{Gpu, Held};
use campanile_hw::packet::{Fill, Packet, Signal, Wait};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

const FENCE: u64 = 0x50_0000_0000;
const TARGET: u64 = 0x51_0000_0000;
const LEN: u64 = 1 << 20;

/// A function with two queues, of which one works and one waits, a doorbell that was rung, and a message that cannot be sent.
fn loaded() -> Host {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    host.map_new_ram(space, TARGET, LEN);
    let mut working = host.queue(0, space, NODE_COMPUTE);
    let mut waiting = host.queue(1, space, NODE_COPY);
    host.connect(&mut working, 0);
    host.connect(&mut waiting, 1);
    host.gpu.mask_vector(0, true);
    let never = Packet::Wait(Wait { handle: 0, current: FENCE, value: 100 });
    host.submit(&mut waiting, &[never]);
    let signal = Packet::Signal(Signal { handle: 0, current: FENCE, monitored: 0, value: 1 });
    host.submit(&mut working, &[Packet::Fill(Fill { destination: TARGET, size: LEN, pattern: 7 }), signal]);
    // A packet that is none: a fault, of which an event tells.
    host.write_packets(&mut working, &[Packet::Fill(Fill { destination: 0, size: 8, pattern: 7 })]);
    host.ring(&working);
    while host.gpu.step() {}
    host
}

fn clean() -> Held {
    Held { dma: vec![(RAM_BASE, RAM_SIZE)], ..Held::default() }
}

#[test]
fn a_function_at_work_tells_what_it_holds() {
    let held = loaded().gpu.held();
    assert!(held.running && held.messages && held.visible && held.bus_master, "{held}");
    assert_eq!((held.queues, held.doorbells, held.waits), (2, 2, 1), "{held}");
    assert!(held.rung > 0 && held.event_index > 0 && held.registers > 0, "{held}");
    assert_eq!((held.open_vectors, held.pending_vectors), (0, 1), "{held}");
    assert_eq!(held.dma, [(RAM_BASE, RAM_SIZE)]);
    assert!(held.to_string().contains("2 queues, 2 doorbells connected"), "{held}");
}

#[test]
fn no_kind_of_reset_leaves_any_of_it() {
    type Reset = (&'static str, fn(&Gpu));
    let resets: [Reset; 4] = [
        ("conventional", Gpu::reset),
        ("power", Gpu::power_cycle),
        ("function-level", |gpu| {
            // Device control of the Express capability. [PCIe base specification, 7.5.3.4]
            let mut at = gpu.config_read(0x34, 1) as u16;
            while gpu.config_read(at, 1) != 0x10 {
                at = gpu.config_read(at + 1, 1) as u16;
            }
            gpu.config_write(at + 8, 2, 1 << 15);
        }),
        ("D3hot and back", |gpu| {
            let at = gpu.config_read(0x34, 1) as u16;
            gpu.config_write(at + 4, 2, 3);
            gpu.config_write(at + 4, 2, 0);
        }),
    ];
    for (name, reset) in resets {
        let host = loaded();
        reset(&host.gpu);
        assert_eq!(host.gpu.held(), clean(), "{name}");
        // Nothing comes of what user mode still does to pages that it has mapped.
        assert!((0..100).all(|_| !host.gpu.step()), "{name}: something moved");
    }
}
