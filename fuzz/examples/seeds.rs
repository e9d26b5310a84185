//! Writes the files of the corpora: `cargo run -p campanile-fuzz --example seeds`. What a fuzzer found and somebody committed stays.

use std::fs;
use std::path::Path;

use campanile_compiler::{Options, compile};
use campanile_hw::debug::{self, Section};
use campanile_hw::isa::{FORMS, Op};
use campanile_hw::packet::PACKETS;
use campanile_isa::assemble;
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// The smallest image that the loader takes; the tests of the loader use it, too.
#[allow(dead_code)] // the tests change more of it than this program does
#[path = "../../dxgkrnl/tests/hostile/minimal.rs"]
mod minimal;

/// Legal instructions, for the choices of programs.
#[path = "../../hw/tests/kit/drawn.rs"]
mod drawn;

/// Programs of the compute engine as text.
const TEXTS: [(&str, &str); 2] = [
    ("query", include_str!("../../vulkan/src/query.asm")),
    (
        "control_flow",
        ".workgroup 64, 1, 1\n.registers 4, 2, 1\n.shared 1024\n\n.function main\n.line 12\n    arguments d0\n    load.d1 d1, [d0 + 8]\n    \
         system.global_id_x w0\n    index d1, d1, w0, 4\n    cmp.i32.lt_u p0, w0, 100\n    if p0\n        loop\n            load.w1 w1, [d1 - 16]\n            \
         break_if p0\n        continuing\n            mul.f32 w1, w1, 0.5\n        end_loop\n    else\n.line 20\n        store.w1 [d1], w1\n        \
         call function1\n    end_if\n    barrier.workgroup.acquire_release\n    exit\n\n.function function1\n    \
         atomic.i32.compare_exchange.device.relaxed w1, [d1], w2, w3\n    atomic_shared.f32.add.workgroup.acquire w1, [w0 + 4], w2\n    shuffle_xor.f16 w1, w2, 16\n    \
         mov.b1 p0, 1\n    ret\n",
    ),
];

/// Shaders as WGSL.
const SHADERS: [(&str, &str); 2] = [
    (
        "loops",
        "@group(0) @binding(0) var<storage, read_write> p: array<u32>; var<workgroup> w: array<i32, 8>;
         fn g(n: u32) -> f32 { var x = 1.0; loop { if (x > f32(n)) { break; } x = x * 2.0; continuing { x = x + 1.0; } } return x; }
         @compute @workgroup_size(8) fn main(@builtin(local_invocation_index) i: u32) { w[i] = i32(g(i)); workgroupBarrier(); p[i] = u32(w[7u - i]); }",
    ),
    (
        "atomics",
        "@group(0) @binding(0) var<storage, read_write> a: array<atomic<u32>>;
         @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) i: vec3<u32>) { switch (i.x) { case 1u: { atomicAdd(&a[0], 2u); } default: { atomicMax(&a[1], i.x); } } }",
    ),
];

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), bytes).expect("a file");
}

fn spirv(source: &str) -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(source).expect("WGSL");
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect("valid");
    spv::write_vec(&module, &info, &spv::Options::default(), None).expect("SPIR-V")
}

/// Operations on a queue: every packet with addresses that are mapped and then submitted, a dispatch, entries of page tables, a ring entry, doorbells and commands.
const RINGS: [(&str, &[u8]); 7] = [
    ("packets", &[0, 1, 0, 1, 0, 0, 1, 0, 0, 16, 2, 0, 9, 6, 0, 2, 0, 32, 0, 64, 7, 6, 0, 7, 0, 0, 2, 6]),
    ("dispatch", &[0, 1, 0, 11, 0, 0, 1, 2, 1, 1, 0, 64, 0, 6]),
    (
        "entries",
        &[
            1, 1, 8, 0, 0, 3, 32, 1, 0, 0, 0, 0, 0, 0, 0, 8, 1, 0, 3, 0, 0x41, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 48, 0,
            200, 7, 6,
        ],
    ),
    // A FILL of a page that may only be read, and a FILL and a WRITE over the end of the last page.
    ("read_only", &[0, 1, 0, 2, 0, 0, 0x90, 32, 7, 6]),
    ("over_pages", &[0, 1, 0, 2, 0, 0xe0, 0xcf, 100, 7, 6, 0, 7, 2, 2, 0, 0xf0, 0xcf, 9, 9, 0, 0, 0, 0, 6]),
    ("wait", &[0, 1, 0, 4, 5, 0, 0, 0, 1, 6, 0, 3, 5, 0, 0, 0, 0, 0, 0, 2, 6]),
    (
        "ring",
        &[0, 1, 10, 0, 6, 0, 0x20, 16, 11, 9, 12, 0, 1, 14, 1, 0, 14, 2, 0, 13, 0, 0, 0, 0, 0, 0, 14, 5, 0, 14, 6, 0],
    ),
];

/// Messages of a vfio-user client: number, flags, descriptors, fields.
const MESSAGES: [(&str, &[u8]); 6] = [
    // DMA_MAP with memory, one that overlaps it, DMA_UNMAP of a part and of all of it.
    ("ranges", &[2, 0, 2, 0, 3, 0, 16, 2, 0, 2, 0, 0, 3, 17, 1, 0, 3, 0, 0, 0, 17, 1, 0, 3, 0, 0, 0, 16, 2, 0]),
    // The last bytes of the smallest region, which is read and not written, and the interrupt that has one vector and is never sent.
    (
        "edges",
        &[9, 0, 0, 0, 0, 9, 8, 0, 10, 0, 0, 0, 0, 9, 8, 0, 1, 0, 8, 0, 2, 2, 36, 3, 0, 1, 0, 9, 0, 0, 0, 7, 9, 1, 0],
    ),
    ("unmap_all", &[2, 0, 0, 1, 0, 8, 8, 0, 2, 0, 0, 1, 0, 32, 8, 0, 3, 0, 0, 2, 0, 0, 0]),
    // DEVICE_SET_IRQS with two eventfds, then without.
    ("vectors", &[8, 0, 4, 2, 2, 36, 2, 1, 2, 0, 8, 0, 0, 33, 2, 0, 0, 0]),
    ("regions", &[5, 0, 0, 32, 0, 2, 0, 0, 9, 0, 0, 0, 4, 7, 8, 0, 10, 0, 0, 0, 4, 2, 8, 0, 5, 0]),
    ("further", &[4, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 2, 0, 0, 13, 210, 0, 0, 0, 0, 0, 0, 13, 255, 1, 0]),
];

/// Entries of page tables and accesses by them.
const WALKS: [(&str, &[u8]); 5] = [
    // A page of VRAM and one of system memory, which are written and read, the second one read-only after that.
    (
        "small",
        &[
            0, 0, 0, 3, 24, 1, 0, 1, 5, 0, 0, 3, 1, 1, 0, 0, 0, 3, 1, 0, 0, 0, 4, 9, 1, 0, 1, 3, 0, 0, 4, 0, 0, 0, 0,
            4, 9, 9, 0, 1, 4, 0, 0, 4, 0,
        ],
    ),
    // A directory of 64-KiB pages, one of them misplaced.
    (
        "medium",
        &[0, 1, 0, 0, 0, 0x81, 0, 1, 0, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2, 8, 0, 0, 1, 3, 8, 1, 0, 1, 5, 0, 1, 3, 8],
    ),
    // A page of 2 MiB, a zero page of 2 MiB, one of 1 GiB, and one where there is no memory.
    (
        "large",
        &[
            0, 1, 0, 4, 0, 0x41, 0, 1, 5, 5, 0, 9, 1, 0, 1, 0, 5, 0, 0x43, 0, 1, 0, 5, 1, 9, 1, 0, 2, 0, 1, 1, 0x41, 0,
            1, 0, 6, 0, 9, 1, 0, 3, 0, 1, 3, 0x41, 0, 1, 5, 7, 0, 9, 1,
        ],
    ),
    // After a fault, whose event is the first word of system memory, a page of 1 GiB and reads behind its first 2 MiB.
    (
        "gigabyte",
        &[
            1, 5, 7, 0, 0, 0, 0, 2, 0, 0, 1, 0x41, 0, 1, 0, 3, 0, 0, 0, 1, 0, 3, 0, 0, 1, 1, 0, 3, 0, 0, 2, 1, 0, 4, 0,
            1, 3,
        ],
    ),
    ("directories", &[0, 1, 0, 3, 2, 1, 0, 1, 0, 2, 0, 2, 2, 1, 0, 1, 1, 0, 3, 0, 1, 2, 1, 0, 1, 1, 5, 7, 0, 3, 2]),
];

/// Sequences of thunks by their numbers, with handles: 0 is the oldest of the kind.
const THUNKS: [(&str, &[u8]); 4] = [
    // Adapter, device, paging queue, contexts, a queue, memory for a ring and its control, a doorbell; then their ends in wrong and right order.
    (
        "doorbell",
        &[
            0, 2, 0, 4, 0, 8, 0, 0, 10, 0, 24, 0, 24, 0, 25, 0, 0, 1, 26, 0, 23, 0, 11, 0, 9, 0, 7, 0, 0, 27, 0, 11, 0,
            9, 0, 7, 0, 0, 5, 0, 3, 0, 1, 0,
        ],
    ),
    (
        "fences",
        &[
            0, 2, 0, 12, 0, 5, 20, 0, 0, 0, 9, 20, 0, 0, 0, 3, 21, 0, 0, 0, 13, 0, 0, 13, 0, 192, 4, 0, 13, 2, 0, 21,
            0, 2, 0, 22, 0,
        ],
    ),
    (
        "memory",
        &[
            0, 2, 0, 2, 0, 4, 0, 6, 0, 0, 6, 0, 2, 16, 0, 0, 18, 0, 0, 18, 0, 1, 18, 1, 0, 17, 0, 0, 17, 0, 0, 19, 0,
            0, 19, 0, 0, 7, 1, 0, 7, 0, 0,
        ],
    ),
    (
        "devices",
        &[0, 2, 0, 14, 0, 1, 8, 0, 0, 10, 0, 12, 0, 1, 1, 0, 2, 192, 3, 0, 15, 194, 9, 195, 22, 193, 0, 2, 0, 15, 0],
    ),
];

/// Calls with private data: kind, the numbers of the record, the bytes that are changed, and the length.
const PRIVATE: [(&str, &[u8]); 4] = [
    (
        "records",
        &[
            0, 0, 16, 2, 0, 0, 1, 0, 4, 0, 0, 2, 0, 0, 3, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 5, 64, 5, 63, 6, 0, 0,
            0,
        ],
    ),
    (
        "changed",
        &[0, 0, 16, 1, 1, 0, 7, 0, 1, 0, 4, 1, 0, 7, 0, 2, 1, 8, 1, 0, 2, 0, 250, 16, 0, 0, 0, 16, 0, 1, 20, 1, 0],
    ),
    ("lengths", &[0, 0, 16, 0, 0, 223, 1, 0, 0, 0, 192, 2, 0, 193, 4, 0, 255, 0, 16, 5, 0, 5, 255]),
    ("escapes", &[6, 1, 0, 3, 0, 0, 6, 1, 0, 3, 193, 0, 6, 0, 0, 7, 6, 2, 0, 3, 4, 1, 0, 0]),
];

/// Datagrams: kind, changes of words, length, descriptors.
const DATAGRAMS: [(&str, &[u8]); 3] = [
    (
        "program",
        &[1, 3, 1, 4, 2, 130, 10, 1, 0, 0, 2, 3, 1, 1, 2, 9, 4, 140, 0, 0, 3, 2, 1, 5, 3, 7, 0, 0, 3, 1, 2, 11, 0, 64],
    ),
    (
        "machine",
        &[
            16, 0, 0, 0, 17, 1, 1, 3, 0, 0, 18, 2, 1, 4, 2, 194, 0, 0, 33, 4, 2, 130, 3, 132, 4, 0, 5, 1, 0, 64, 38, 3,
            2, 130, 3, 131, 4, 1, 0, 0, 45, 4, 2, 1, 3, 2, 4, 3, 5, 4, 0, 0,
        ],
    ),
    ("sizes", &[16, 0, 200, 0, 16, 0, 223, 0, 16, 0, 224, 192, 16, 0, 225, 128, 17, 1, 1, 9, 0, 0, 46, 0, 0, 0]),
];

/// Debug data with these sections, each with items of so many words, which count up.
fn debug_data(sections: &[(Section, usize)]) -> Vec<u8> {
    let mut words = vec![debug::MAGIC, 0, 0x141 | debug::RUNNING | debug::POWERED, 0x71];
    for (section, items) in sections {
        words.push(*section as u64 | (section.words() as u64) << 16 | (*items as u64) << 32);
        words.extend((1..).take(items * section.words()));
    }
    words[debug::WORDS_AT] = words.len() as u64;
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Choices for programs of the executors: grid, argument block, eight budgets, from choices, and then 18 bytes for each instruction.
fn choices() -> Vec<(String, Vec<u8>)> {
    let begin = |kind: u8| [1, 1, 0, 1, 20, 3, 200, 7, 90, 2, 30, kind];
    let choice = |kind: u8, row: u8, numbers: [u8; 8]| [&[kind, row][..], &numbers, &5_u64.to_le_bytes()].concat();
    // Every row of the table of instructions with each type that it has, with registers and with a constant.
    let numbers = |ty: u8, constant: u8| [ty, 0, 0, 3, 1, 2, 0, constant];
    let rows = (0..FORMS.len() as u8).flat_map(|row| (0..7).flat_map(move |ty| [(row, ty, 0), (row, ty, 1)]));
    let is_legal = |&(row, ty, constant): &(u8, u8, u8)| {
        drawn::instruction(row.into(), numbers(ty, constant), 5, 3, |offset| offset % 4 * 16).is_some()
    };
    let legal: Vec<Vec<u8>> =
        rows.filter(is_legal).map(|(row, ty, constant)| choice(11, row, numbers(ty, constant))).collect();
    // Registers begin as zeros; the instructions before load some of memory, where every word has another value.
    let load = FORMS.iter().position(|form| form.op == Op::Load).expect("an instruction that loads") as u8;
    let loads = (0..7_u8)
        .flat_map(|ty| (0..19_u8).flat_map(move |format| (0..4_u8).map(move |dst| [ty, format, 0, dst, 0, 0, 1, 0])));
    let loads = loads.filter(|numbers| drawn::instruction(load.into(), *numbers, 0, 3, |offset| offset).is_some());
    let loads: Vec<u8> = loads.flat_map(|numbers| choice(11, load, numbers)).take(40 * 18).collect();
    let blocks = [0_u8, 11, 1, 11, 5, 2, 11, 0, 3, 5, 4, 5, 5].into_iter().enumerate();
    let blocks = blocks.flat_map(|(row, kind)| choice(kind, row as u8 * 7 + 20, numbers(2, 1)));
    let whole = assemble(include_str!("../src/targets/rings.asm")).expect("a program");
    let straight = legal
        .chunks(100)
        .enumerate()
        .map(|(part, list)| (format!("instructions{part}"), [&begin(0)[..], &loads, &list.concat()].concat()));
    let further = [
        ("blocks".to_owned(), begin(1).into_iter().chain(blocks).collect()),
        ("whole".to_owned(), begin(3).into_iter().chain(whole).collect()),
    ];
    straight.chain(further).collect()
}

fn main() {
    let device = [(Section::Device, 1), (Section::Nodes, 3), (Section::Reasons, 2), (Section::Dispatches, 1)];
    write("debug_data", "device", &debug_data(&device));
    let objects = [(Section::Queues, 2), (Section::Doorbells, 2), (Section::Fences, 1), (Section::OpenFences, 1)];
    write("debug_data", "objects", &debug_data(&objects));
    write("debug_data", "events", &debug_data(&[(Section::Rings, 4), (Section::Events, 3)]));
    for (name, bytes) in DATAGRAMS {
        write("machine_messages", name, bytes);
    }
    for (name, bytes) in PRIVATE {
        write("private", name, bytes);
    }
    for (name, bytes) in THUNKS {
        write("thunks", name, bytes);
    }
    for (name, bytes) in WALKS {
        write("walks", name, bytes);
    }
    for (name, bytes) in choices() {
        write("executors", &name, &bytes);
    }
    for (name, bytes) in MESSAGES {
        write("vfio_user", name, bytes);
    }
    for (name, bytes) in RINGS {
        write("rings", name, bytes);
    }
    write("trace", "pipelines", &campanile::trace::perfetto::write(&campanile::trace::synthetic(20)));
    write("planted", "text", b"text");
    write("pe", "driver", &minimal::Minimal::new().0);
    write("pe", "dll", &minimal::Minimal::dll().0);
    write("inf", "campanile.inf", include_bytes!("../../inf/campanile.inx"));
    write(
        "inf",
        "strings.inf",
        b"[A]\nkey = %x%, \"%y% ; no comment\", \\\n  1\n[Strings]\nx = \"one\"\ny = \"%x%\"\n",
    );
    let mut all = Vec::new();
    for format in PACKETS {
        let mut bytes = vec![0; format.size];
        let header = u64::from(format.opcode) | (format.size as u64 / 16) << 8;
        bytes[..8].copy_from_slice(&header.to_le_bytes());
        all.extend_from_slice(&bytes);
        write("packets", format.name, &bytes);
    }
    for (name, text) in TEXTS {
        write("assembly", name, text.as_bytes());
        write("programs", name, &assemble(text).expect("a program"));
    }
    for (name, source) in SHADERS {
        let words = spirv(source);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        write("spirv", name, &bytes);
        let compiled = compile(&words, &Options::default()).expect("compiled");
        write("programs", name, &compiled.program);
    }
}
