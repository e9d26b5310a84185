//! Queues: when the scheduler looks at them, which of them runs, and where they go on.

use campanile_device::testing::{Host, vram};
use campanile_hw::packet::{Fill, Packet, Timestamp};
use campanile_hw::queue::{QueueDescriptor, QueueFlags};
use campanile_hw::registers::{self, Command};

use super::{VA, fill, one_queue};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Gpu", behind "it works the GPU itself, without a driver";
    "Gpu.MapQueueFindsWhatIsInTheRing" on Boot::Shared, "docs/hardware.md":
        "MapQueue looks at the write pointer of the queue: what its ring holds by then is executed without a ring."
        => work_that_is_in_the_ring_of_a_queue_that_is_mapped_is_found;
    "Gpu.ConnectDoorbellFindsWhatIsInTheRing" on Boot::Shared, "docs/hardware.md":
        "ConnectDoorbell looks at the write pointer of the queue: what its ring holds by then is executed without a ring."
        => work_that_is_in_the_ring_of_a_queue_that_is_connected_is_found;
    "Gpu.NormalBandTakesNoMoreThanItIsOwed" on Boot::Shared, "docs/hardware.md":
        "While the focus band waits, a queue of the normal band runs the packets that its band is owed and leaves the node then, however long its time slice is."
        => the_normal_band_runs_what_it_is_owed_and_no_more;
    "Gpu.RestoredPacketGoesOnWhereItWas" on Boot::Shared, "docs/hardware.md":
        "A packet that was in progress when its queue was saved goes on behind what it had done when the queue is restored."
        => a_packet_that_was_saved_half_way_goes_on_where_it_was;
}

fn work_that_is_in_the_ring_of_a_queue_that_is_mapped_is_found(_: &mut Case<'_>) -> Result<(), Failure> {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, VA, 4096);
    let (mut queue, descriptor) = host.prepare_queue(3, space);
    host.write_descriptor(3, &descriptor);
    for value in 1..=2 {
        host.write_packets(&mut queue, &[fill(VA, value)]);
    }
    host.command(Command::MapQueue, 3, 0, 0);
    host.run();
    ensure_eq!((host.read64(at), host.read_pointer(&queue)), (2, 2));
    Ok(())
}

fn work_that_is_in_the_ring_of_a_queue_that_is_connected_is_found(_: &mut Case<'_>) -> Result<(), Failure> {
    let (mut host, space, mut queue) = one_queue();
    let at = host.map_new_ram(space, VA, 4096);
    host.write_packets(&mut queue, &[fill(VA, 1)]);
    host.run();
    ensure_eq!(host.read64(at), 0, "nobody has told the scheduler");
    host.connect(&mut queue, 4);
    host.run();
    ensure_eq!(host.read64(at), 1);
    ensure_eq!(host.get(registers::COUNT_DOORBELLS, 8), 0, "rings");
    Ok(())
}

fn the_normal_band_runs_what_it_is_owed_and_no_more(_: &mut Case<'_>) -> Result<(), Failure> {
    /// Share of the normal band in percent, and what it is owed for that when the focus band has run for as long as any queue runs at a time.
    const SHARE: u64 = 25;
    const OWED: usize = (64 * SHARE / (100 - SHARE)) as usize;
    const BUFFERS: u64 = 60;
    const PACKETS: u64 = BUFFERS * 8;
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, VA, 2 * PACKETS * 8);
    for band in [1, 2u32] {
        let (mut queue, mut descriptor) = host.prepare_queue(band, space);
        (descriptor.rank, descriptor.quantum) = (band, 256);
        host.write_descriptor(band, &descriptor);
        let first = u64::from(band - 1) * PACKETS;
        let stamps: Vec<Packet> =
            (first..first + PACKETS).map(|slot| Packet::Timestamp(Timestamp { destination: VA + slot * 8 })).collect();
        stamps.chunks(8).for_each(|packets| host.write_packets(&mut queue, packets));
    }
    host.command(Command::SetBandShare, SHARE, 0, 0);
    for band in [1, 2] {
        host.command(Command::MapQueue, band, 0, 0);
    }
    host.run();
    // The packets in the order in which they were executed: true for one of the normal band.
    let stamp = |slot: u64| host.read64(at.with_address(at.address() + slot * 8));
    let mut order: Vec<(u64, u64)> = (0..2 * PACKETS).map(|slot| (stamp(slot), slot)).collect();
    order.sort_unstable();
    let order: Vec<bool> = order.into_iter().map(|(_, slot)| slot < PACKETS).collect();
    let end = order.iter().rposition(|normal| !normal).unwrap_or(0);
    let slices: Vec<usize> =
        order[..end].chunk_by(|one, next| one == next).filter(|slice| slice[0]).map(<[_]>::len).collect();
    ensure!(!slices.is_empty(), "the normal band did not run beside the focus band");
    // Hundredths of a packet that are left over make up one more at times.
    ensure!(slices.iter().all(|slice| *slice <= OWED + 1), "packets of the normal band at a time: {slices:?}");
    Ok(())
}

fn a_packet_that_was_saved_half_way_goes_on_where_it_was(_: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 16 << 20;
    let mut host = Host::new();
    let space = host.space();
    let (at, record) = (host.take_vram(SIZE, 4096), host.take_vram(4096, 4096));
    host.map(space, VA, vram(at), SIZE);
    let (mut queue, descriptor) = host.prepare_queue(4, space);
    host.write_descriptor(4, &descriptor);
    host.command(Command::MapQueue, 4, 0, 0);
    host.write_packets(&mut queue, &[Packet::Fill(Fill { destination: VA, size: SIZE, pattern: 7 })]);
    host.ring(&queue);
    let (begin, end) = (vram(at), vram(at + SIZE - 8));
    while host.read64(begin) == 0 && host.gpu.step() {}
    host.command(Command::SuspendQueue, 4, 1, 0);
    ensure_eq!((host.read64(begin), host.read64(end)), (7 << 32 | 7, 0), "what half a packet has done");
    host.command(Command::SaveQueue, 4, vram(record).into_bits(), 0);
    host.command(Command::UnmapQueue, 4, 0, 0);
    host.write64(begin, 99);
    let flags = QueueFlags::from_bits(descriptor.flags).with_suspended(true).into_bits();
    host.write_descriptor(4, &QueueDescriptor { flags, ..descriptor });
    host.command(Command::MapQueue, 4, 0, 0);
    host.command(Command::RestoreQueue, 4, vram(record).into_bits(), 0);
    host.command(Command::ResumeQueue, 4, 0, 0);
    host.run();
    ensure_eq!((host.read64(begin), host.read64(end)), (99, 7 << 32 | 7), "the begin, written since, and the end");
    Ok(())
}
