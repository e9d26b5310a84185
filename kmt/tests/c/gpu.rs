//! Private driver data, rings and packets of the GPU.

use std::fmt::Write as _;

use campanile_hw::packet::PACKETS;
use campanile_hw::private::{
    AdapterData, AllocationData, DoorbellAnswer, DoorbellData, FenceData, HwQueueData, MAGIC, Placement,
};
use campanile_hw::queue::{CONTROL_READ_POINTER, CONTROL_WRITE_POINTER, RingEntry};
use campanile_hw::{Field, registers};

const ABOUT: &str = "\
/*
 * What a user-mode driver must know of the Campanile GPU: private data of the thunks, rings and command packets. docs/hardware.md explains them.
 *
 * Generated from the Rust sources; do not edit.
 */
#ifndef CAMPANILE_GPU_H
#define CAMPANILE_GPU_H

#include <stdint.h>

";

type Record = (&'static str, &'static str, usize, &'static [Field]);

const RECORDS: [Record; 7] = [
    ("campanile_adapter_data", AdapterData::DOC, AdapterData::SIZE, AdapterData::FIELDS),
    ("campanile_allocation_data", AllocationData::DOC, AllocationData::SIZE, AllocationData::FIELDS),
    ("campanile_hw_queue_data", HwQueueData::DOC, HwQueueData::SIZE, HwQueueData::FIELDS),
    ("campanile_fence_data", FenceData::DOC, FenceData::SIZE, FenceData::FIELDS),
    ("campanile_doorbell_data", DoorbellData::DOC, DoorbellData::SIZE, DoorbellData::FIELDS),
    ("campanile_doorbell_answer", DoorbellAnswer::DOC, DoorbellAnswer::SIZE, DoorbellAnswer::FIELDS),
    ("campanile_ring_entry", RingEntry::DOC, RingEntry::SIZE, RingEntry::FIELDS),
];

fn plain(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ").replace(['`', '[', ']'], "")
}

/// Fields with the gaps between them filled.
fn members(size: usize, fields: &[Field], text: &mut String) {
    let mut at = 0;
    let mut gaps = 0;
    let mut fill = |at: usize, to: usize, text: &mut String| {
        if at < to {
            let _ = writeln!(text, "    uint8_t reserved_{gaps}[{}];", to - at);
            gaps += 1;
        }
    };
    for field in fields {
        fill(at, field.offset, text);
        let _ = writeln!(text, "    /* {} */\n    uint{}_t {};", plain(field.doc), 8 * field.size, field.name);
        at = field.offset + field.size;
    }
    fill(at, size, text);
}

fn packet_name(name: &str) -> String {
    format!("campanile_packet_{}", name.to_lowercase())
}

const HEADER: [Field; 2] = [
    Field { name: "opcode", offset: 0, size: 1, doc: "Opcode number." },
    Field { name: "length", offset: 1, size: 1, doc: "Length of the packet in units of 16 bytes." },
];

fn packet_fields(fields: &'static [Field]) -> Vec<Field> {
    HEADER.iter().chain(fields).copied().collect()
}

pub(crate) fn header() -> String {
    let mut text = String::from(ABOUT);
    let _ = writeln!(text, "/* First word of private data. */\n#define CAMPANILE_MAGIC 0x{MAGIC:08x}u\n");
    text.push_str("/* Where an allocation lives. */\n");
    for (name, placement) in [
        ("SYSTEM", Placement::System),
        ("VRAM_VISIBLE", Placement::VramVisible),
        ("VRAM", Placement::Vram),
        ("VRAM_LOCKABLE", Placement::VramLockable),
        ("SYSTEM_UNCACHED", Placement::SystemUncached),
    ] {
        let _ = writeln!(text, "#define CAMPANILE_PLACEMENT_{name} {}u", placement as u32);
    }
    text.push_str("\n/* Nodes. */\n");
    let _ = writeln!(text, "#define CAMPANILE_NODE_COMPUTE {}u", registers::NODE_COMPUTE);
    let _ = writeln!(text, "#define CAMPANILE_NODE_COPY {}u", registers::NODE_COPY);
    text.push_str("\n/* Pointers in the ring-control page, which count entries. */\n");
    let _ = writeln!(text, "#define CAMPANILE_WRITE_POINTER {CONTROL_WRITE_POINTER}u");
    let _ = writeln!(text, "#define CAMPANILE_READ_POINTER {CONTROL_READ_POINTER}u");
    text.push_str("\n/* What a doorbell is rung with: the write pointer, and the queue's number where all queues share a doorbell. */\n");
    text.push_str(
        "#define CAMPANILE_DOORBELL_VALUE(write_pointer, queue) \\\n    \
         (((uint64_t)(write_pointer) & 0xffffffffffffull) | (uint64_t)(queue) << 48)\n\n",
    );
    for (name, doc, size, fields) in RECORDS {
        let _ = writeln!(text, "/* {} */\nstruct {name} {{", plain(doc));
        members(size, fields, &mut text);
        text.push_str("};\n\n");
    }
    for packet in PACKETS {
        let upper = packet.name.to_uppercase();
        let _ = writeln!(text, "#define CAMPANILE_OPCODE_{upper} 0x{:02x}u", packet.opcode);
        let _ = writeln!(text, "/* {} */\nstruct {} {{", plain(packet.doc), packet_name(packet.name));
        members(packet.size, &packet_fields(packet.fields), &mut text);
        text.push_str("};\n\n");
    }
    text.push_str("#endif /* CAMPANILE_GPU_H */\n");
    text
}

/// A program that compiles only if C has the layouts of the manual.
pub(crate) fn layout_program() -> String {
    let mut text = String::from("#include <campanile_gpu.h>\n#include <stddef.h>\n");
    let mut check = |name: &str, size: usize, fields: &[Field]| {
        let _ = writeln!(text, "_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");");
        for field in fields {
            let (path, offset, width) = (field.name, field.offset, field.size);
            let _ = writeln!(text, "_Static_assert(offsetof(struct {name}, {path}) == {offset}, \"{name}.{path}\");");
            let _ =
                writeln!(text, "_Static_assert(sizeof(((struct {name} *)0)->{path}) == {width}, \"{name}.{path}\");");
        }
    };
    for (name, _, size, fields) in RECORDS {
        check(name, size, fields);
    }
    for packet in PACKETS {
        check(&packet_name(packet.name), packet.size, &packet_fields(packet.fields));
    }
    text.push_str("int main(void) { return CAMPANILE_DOORBELL_VALUE(~0ull, 0x1234) != 0x1234ffffffffffffull; }\n");
    text
}

#[test]
fn the_macro_is_the_word_of_the_doorbell() {
    use campanile_hw::doorbell::DoorbellValue;
    let word = DoorbellValue::of_write_pointer(u64::MAX).with_queue(0x1234);
    assert_eq!(word.into_bits(), 0x1234_ffff_ffff_ffff);
}
