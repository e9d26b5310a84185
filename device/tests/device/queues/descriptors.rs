//! Descriptors of queues: which are refused, and what a queue is mapped with.

use super::*;

/// Tries to map queue 7 with a changed descriptor.
fn map_changed(change: impl FnOnce(&mut QueueDescriptor)) -> CommandStatus {
    let mut host = Host::new();
    let space = host.space();
    let (_, mut descriptor) = host.prepare_queue(7, space);
    change(&mut descriptor);
    host.write_descriptor(7, &descriptor);
    let status = host.try_command(Command::MapQueue, 7, 0, 0).0;
    if status != CommandStatus::Done {
        assert_eq!(host.try_command(Command::QueryQueue, 7, 0, 0).0, CommandStatus::BadQueue, "state unchanged");
    }
    status
}

#[test]
fn descriptors_that_break_a_rule_are_refused() {
    type Change = fn(&mut QueueDescriptor);
    let changes: [(&str, Change); 26] = [
        ("ring not aligned", |descriptor| descriptor.ring += 8),
        ("ring beyond 48 bits", |descriptor| descriptor.ring = 1 << 48),
        ("ring wraps", |descriptor| descriptor.ring = u64::MAX - 4095),
        ("control not aligned", |descriptor| descriptor.control += 64),
        ("control beyond 48 bits", |descriptor| descriptor.control = 1 << 48),
        ("no root", |descriptor| descriptor.root = 0),
        ("root not aligned", |descriptor| descriptor.root += 8),
        ("root with reserved bits", |descriptor| descriptor.root |= 1 << 53),
        ("root outside VRAM", |descriptor| descriptor.root = crate::host::VRAM_SIZE),
        ("one entry", |descriptor| descriptor.ring_entries = 1),
        ("no entries", |descriptor| descriptor.ring_entries = 0),
        ("not a power of two", |descriptor| descriptor.ring_entries = 48),
        ("too many entries", |descriptor| descriptor.ring_entries = 131_072),
        ("reserved flag", |descriptor| descriptor.flags = 16),
        ("physical ring of a queue that is not privileged", |descriptor| {
            (descriptor.ring, descriptor.control) = (0x10_0000, 0x10_1000);
            descriptor.flags = QueueFlags::new().with_physical_ring(true).into_bits();
        }),
        ("no such node", |descriptor| descriptor.node = 3),
        ("user queue on the paging node", |descriptor| descriptor.node = NODE_PAGING),
        ("no such band", |descriptor| descriptor.rank = 4),
        ("no such band at all", |descriptor| descriptor.rank = u32::MAX),
        ("progress not aligned", |descriptor| descriptor.progress_current = VA + 4),
        ("progress beyond 48 bits", |descriptor| descriptor.progress_current = 1 << 48),
        ("monitored without native", |descriptor| {
            (descriptor.progress_current, descriptor.progress_monitored) = (VA, VA + 8);
        }),
        ("monitored not aligned", |descriptor| {
            (descriptor.progress_current, descriptor.progress_monitored, descriptor.flags) = (VA, VA + 9, 4);
        }),
        ("virtual ring without a root", |descriptor| (descriptor.root, descriptor.flags) = (0, PRIVILEGED)),
        ("physical ring outside VRAM", |descriptor| {
            (descriptor.ring, descriptor.flags) = (crate::host::VRAM_SIZE, KERNEL);
        }),
        ("progress without a root", |descriptor| {
            (descriptor.ring, descriptor.control, descriptor.root) = (0x10_0000, 0x10_1000, 0);
            (descriptor.flags, descriptor.progress_current) = (KERNEL, VA);
        }),
    ];
    for (what, change) in changes {
        assert_eq!(map_changed(change), CommandStatus::BadDescriptor, "{what}");
    }
}

#[test]
fn a_byte_that_the_descriptor_does_not_name_is_zero() {
    let named = |byte: usize| {
        QueueDescriptor::FIELDS.iter().any(|field| (field.offset..field.offset + field.size).contains(&byte))
    };
    let unnamed: Vec<usize> = (0..QueueDescriptor::SIZE).filter(|byte| !named(*byte)).collect();
    assert_eq!(unnamed.len(), 4 + 4 + 4);
    let mut host = Host::new();
    let space = host.space();
    let (_, descriptor) = host.prepare_queue(7, space);
    for byte in unnamed {
        let mut bytes = descriptor.to_bytes();
        bytes[byte] = 0x40;
        host.write(vram(7 * QueueDescriptor::SIZE as u64), &bytes);
        assert_eq!(host.try_command(Command::MapQueue, 7, 0, 0).0, CommandStatus::BadDescriptor, "byte {byte:#x}");
    }
    host.write_descriptor(7, &descriptor);
    host.command(Command::MapQueue, 7, 0, 0);
}

#[test]
fn legal_descriptors_at_the_limits_are_accepted() {
    type Change = fn(&mut QueueDescriptor);
    let changes: [(&str, Change); 5] = [
        ("unchanged", |_| ()),
        ("smallest ring", |descriptor| descriptor.ring_entries = 2),
        ("largest ring", |descriptor| descriptor.ring_entries = 65_536),
        ("realtime", |descriptor| descriptor.rank = 3),
        ("largest quantum", |descriptor| descriptor.quantum = u32::MAX),
    ];
    for (what, change) in changes {
        assert_eq!(map_changed(change), CommandStatus::Done, "{what}");
    }
}

#[test]
fn a_control_page_that_does_not_translate_refuses_the_queue() {
    assert_eq!(map_changed(|descriptor| descriptor.control = VA), CommandStatus::PageFault);
}
