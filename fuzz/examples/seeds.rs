//! Writes the files of the corpora: `cargo run -p campanile-fuzz --example seeds`. What a fuzzer found and somebody committed stays.

use std::fs;
use std::path::Path;

use campanile_compiler::{Options, compile};
use campanile_hw::packet::PACKETS;
use campanile_isa::assemble;
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// The smallest image that the loader takes; the tests of the loader use it, too.
#[allow(dead_code)] // the tests change more of it than this program does
#[path = "../../dxgkrnl/tests/hostile/minimal.rs"]
mod minimal;

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
const RINGS: [(&str, &[u8]); 5] = [
    ("packets", &[0, 1, 0, 1, 0, 0, 1, 0, 0, 16, 2, 0, 9, 6, 0, 2, 0, 32, 0, 64, 7, 6, 0, 7, 0, 0, 2, 6]),
    ("dispatch", &[0, 1, 0, 11, 0, 0, 1, 2, 1, 1, 0, 64, 0, 6]),
    (
        "entries",
        &[
            1, 1, 8, 0, 0, 3, 32, 1, 0, 0, 0, 0, 0, 0, 0, 8, 1, 0, 3, 0, 0x41, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 48, 0,
            200, 7, 6,
        ],
    ),
    ("wait", &[0, 1, 0, 4, 5, 0, 0, 0, 1, 6, 0, 3, 5, 0, 0, 0, 0, 0, 0, 2, 6]),
    (
        "ring",
        &[0, 1, 10, 0, 6, 0, 0x20, 16, 11, 9, 12, 0, 1, 14, 1, 0, 14, 2, 0, 13, 0, 0, 0, 0, 0, 0, 14, 5, 0, 14, 6, 0],
    ),
];

fn main() {
    for (name, bytes) in RINGS {
        write("rings", name, bytes);
    }
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
