//! The GPU alone, by its manual (docs/hardware.md): what its commands and packets do in orders that the operating system and the driver never need.
//!
//! Here the case is the bus, the driver and user mode at once ([`campanile_device::testing`]).

pub(super) mod doorbells;
pub(super) mod faults;
pub(super) mod queues;
pub(super) mod translations;
pub(super) mod waits;

use campanile_device::testing::{Host, Space, TestQueue};
use campanile_hw::packet::{Fill, Packet};
use campanile_hw::registers::NODE_COMPUTE;

/// An address that cases map.
const VA: u64 = 0x40_0000_0000;

/// Four bytes.
fn fill(destination: u64, pattern: u32) -> Packet {
    Packet::Fill(Fill { destination, size: 4, pattern })
}

/// A function that runs, with a queue of the compute node.
fn one_queue() -> (Host, Space, TestQueue) {
    let mut host = Host::new();
    let space = host.space();
    let queue = host.queue(0, space, NODE_COMPUTE);
    (host, space, queue)
}
