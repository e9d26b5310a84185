//! A function that is pulled out of its slot.

use crate::host::Host;
use campanile_hw::packet::{Fill, Packet, Signal, Wait};
use campanile_hw::registers::{self as reg, NODE_COMPUTE, NODE_COPY, REGISTERS};

const FENCE: u64 = 0x50_0000_0000;
const TARGET: u64 = 0x51_0000_0000;
const LEN: u64 = 4 << 20;

fn signal(value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current: FENCE, monitored: 0, value })
}

#[test]
fn everything_reads_as_ones_nothing_moves_and_nobody_is_told() {
    let mut host = Host::new();
    let space = host.space();
    let fence = host.map_new_ram(space, FENCE, 4096);
    let target = host.map_new_ram(space, TARGET, LEN);
    let mut working = host.queue(0, space, NODE_COMPUTE);
    let mut waiting = host.queue(1, space, NODE_COPY);
    host.submit(&mut waiting, &[Packet::Wait(Wait { handle: 0, current: FENCE, value: 1 }), signal(2)]);
    let fill = Packet::Fill(Fill { destination: TARGET, size: LEN, pattern: 7 });
    host.write_packets(&mut working, &[fill, signal(1)]);
    host.ring(&working);
    assert!(host.gpu.step(), "the work is begun and not done");
    let before = (host.read64(target), host.read64(target.with_address(target.address() + LEN - 8)), host.interrupts());
    host.gpu.pull_out();
    assert!(host.gpu.is_gone());
    assert!((0..1000).all(|_| !host.gpu.step()), "something moved");
    let after = (host.read64(target), host.read64(target.with_address(target.address() + LEN - 8)), host.interrupts());
    assert_eq!((host.read64(fence), after), (0, before), "what the function could have written");
    assert_eq!(host.gpu.missed_accesses(), 0);
    for register in REGISTERS {
        let ones = if register.width == 4 { u64::from(u32::MAX) } else { u64::MAX };
        assert_eq!(host.get(register.offset, register.width), ones, "{}", register.name);
    }
    assert_eq!(host.gpu.missed_accesses(), REGISTERS.len() as u64);
    for (size, ones) in [(1, 0xff), (2, 0xffff), (4, u32::MAX)] {
        assert_eq!(host.gpu.config_read(0, size), ones);
    }
}

#[test]
fn it_does_not_come_back() {
    let host = Host::new();
    host.gpu.pull_out();
    host.enable();
    host.set(reg::CONTROL, 4, 1);
    host.gpu.reset();
    host.enable();
    assert_eq!(host.get(reg::ID, 4), u64::from(u32::MAX));
    assert_eq!(host.gpu.config_read(0, 4), u32::MAX);
}
