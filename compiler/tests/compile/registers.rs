//! Local arrays, structures and matrices lie in registers where every index into them is known when the module is compiled.

use campanile_compiler::{Options, compile};
use campanile_hw::isa::{Instruction, Op, Program, Type};

use crate::bench::{as_u32, assemble, glsl, in_ssa_form, run, u32s, wgsl};

/// The program of a module.
fn code(module: &[u32]) -> Vec<Instruction> {
    let compiled = compile(module, &Options::default()).expect("compiled");
    let program = Program::validate(&compiled.program).expect("valid");
    (0..).map_while(|number| program.instruction(number)).collect()
}

fn count(module: &[u32], ops: &[Op]) -> usize {
    code(module).iter().filter(|inst| ops.contains(&inst.op)).count()
}

/// Loads and stores of scratch memory in a program.
fn scratch_accesses(module: &[u32]) -> usize {
    count(module, &[Op::LoadScratch, Op::StoreScratch])
}

/// What 64 lanes leave of a module, in both executors, with its variables as they are and in the form that an optimizer gives them.
fn lanes(module: &[u32]) -> Vec<u32> {
    let result = |module: &[u32]| as_u32(&run(module, [1, 1, 1], &[], &[u32s(&[0xdead; 64])])[0]);
    let plain = result(module);
    assert_eq!(result(&in_ssa_form(module)), plain, "in SSA form");
    plain
}

/// `main` of a GLSL shader with 64 lanes, whose functions and body are given; `i` is the lane and `o[i]` its result.
fn in_glsl(functions: &str, body: &str) -> Vec<u32> {
    glsl(&format!(
        "layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) buffer Output {{ uint o[]; }};
        {functions}
        void main() {{ uint i = gl_LocalInvocationIndex; {body} }}"
    ))
}

/// The same in WGSL.
fn in_wgsl(functions: &str, body: &str) -> Vec<u32> {
    wgsl(&format!(
        "@group(0) @binding(0) var<storage, read_write> o: array<u32>;
        {functions}
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {{ {body} }}"
    ))
}

/// Asserts that a module keeps everything in registers, and what its lanes compute.
fn in_registers(module: &[u32], expected: impl Fn(u32) -> u32) {
    assert_eq!((scratch_accesses(module), scratch_accesses(&in_ssa_form(module))), (0, 0));
    expect(module, expected);
}

/// Asserts that a module has something in scratch memory, and what its lanes compute.
fn in_memory(module: &[u32], expected: impl Fn(u32) -> u32) {
    assert_ne!(scratch_accesses(module), 0);
    expect(module, expected);
}

fn expect(module: &[u32], expected: impl Fn(u32) -> u32) {
    assert_eq!(lanes(module), (0..64).map(expected).collect::<Vec<_>>());
}

#[test]
fn the_state_of_chacha20_in_wgsl_lies_in_registers() {
    assert_eq!(scratch_accesses(&wgsl(include_str!("../../../src/bench/kernels/chacha20.wgsl"))), 0);
}

#[test]
fn the_state_and_message_of_blake3_in_wgsl_lie_in_registers() {
    assert_eq!(scratch_accesses(&wgsl(include_str!("../../../src/bench/kernels/blake3.wgsl"))), 0);
}

/// A permutation of words is a table and a loop over it.
#[test]
fn a_constant_table_is_read_in_an_unrolled_loop_in_glsl() {
    let module = in_glsl(
        "const uint P[16] = uint[](2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8);
        uint v[16];
        void mixed(int a, int b, uint x) { v[a] += v[b] ^ x; v[b] = v[b] >> 3 | v[b] << 29; }",
        "for (int k = 0; k < 16; k++) v[k] = i * 31u + uint(k);
        for (int round = 0; round < 5; round++) {
            mixed(0, 4, i); mixed(1, 5, v[0]); mixed(15, 3, v[1]);
            uint t[16] = v;
            for (int k = 0; k < 16; k++) v[k] = t[P[k]];
        }
        uint r = 0; for (int k = 0; k < 16; k++) r = r * 5u + v[k]; o[i] = r;",
    );
    const P: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    in_registers(&module, |i| {
        let mut v: [u32; 16] = core::array::from_fn(|k| i * 31 + k as u32);
        let mixed = |v: &mut [u32; 16], a: usize, b: usize, x: u32| {
            v[a] = v[a].wrapping_add(v[b] ^ x);
            v[b] = v[b].rotate_right(3);
        };
        for _ in 0..5 {
            mixed(&mut v, 0, 4, i);
            let x = v[0];
            mixed(&mut v, 1, 5, x);
            let x = v[1];
            mixed(&mut v, 15, 3, x);
            let t = v;
            v = P.map(|k| t[k]);
        }
        v.iter().fold(0u32, |r, word| r.wrapping_mul(5).wrapping_add(*word))
    });
}

#[test]
fn two_pointers_to_the_same_array_see_what_is_written_through_each_other() {
    let module = in_wgsl(
        "fn swap(a: ptr<function, array<u32, 4>>, x: u32, b: ptr<function, u32>) { (*a)[x] += 5u; *b = *b * 3u; (*a)[x] ^= *b; }",
        "var s = array<u32, 4>(i, i + 1u, i + 2u, i + 3u); var t = s; var w = 7u;
        swap(&s, 2u, &w); swap(&t, 3u, &w); swap(&s, 2u, &w);
        o[i] = s[0] + s[1] * 3u + s[2] * 5u + s[3] * 7u + t[3] * 11u + w;",
    );
    in_registers(&module, |i| {
        let (a, b) = (((i + 2 + 5) ^ 21) + 5, (i + 3 + 5) ^ 63);
        i + (i + 1) * 3 + (a ^ 189) * 5 + (i + 3) * 7 + b * 11 + 189
    });
    let aliased = ALIASED.replace("INDEX", "%two");
    in_registers(&assemble(&aliased), |i| (i + 5) * 3 + (i + 5));
}

/// A function whose two parameters are pointers to the same array, which it copies onto itself, too.
const ALIASED: &str = "OpCapability Shader
    OpMemoryModel Logical GLSL450
    OpEntryPoint GLCompute %main \"main\" %o %index
    OpExecutionMode %main LocalSize 64 1 1
    OpDecorate %words ArrayStride 4
    OpDecorate %block Block
    OpMemberDecorate %block 0 Offset 0
    OpDecorate %o DescriptorSet 0
    OpDecorate %o Binding 0
    OpDecorate %index BuiltIn LocalInvocationIndex
    %void = OpTypeVoid
    %function = OpTypeFunction %void
    %u32 = OpTypeInt 32 0
    %zero = OpConstant %u32 0
    %one = OpConstant %u32 1
    %two = OpConstant %u32 2
    %three = OpConstant %u32 3
    %four = OpConstant %u32 4
    %five = OpConstant %u32 5
    %array = OpTypeArray %u32 %four
    %start = OpConstantComposite %array %one %two %three %four
    %to_array = OpTypePointer Function %array
    %to_own = OpTypePointer Function %u32
    %mixing = OpTypeFunction %u32 %to_array %to_array %u32
    %words = OpTypeRuntimeArray %u32
    %block = OpTypeStruct %words
    %to_block = OpTypePointer StorageBuffer %block
    %to_word = OpTypePointer StorageBuffer %u32
    %to_input = OpTypePointer Input %u32
    %o = OpVariable %to_block StorageBuffer
    %index = OpVariable %to_input Input
    %mix = OpFunction %u32 None %mixing
    %a = OpFunctionParameter %to_array
    %b = OpFunctionParameter %to_array
    %at = OpFunctionParameter %u32
    %mix_start = OpLabel
    %pa = OpAccessChain %to_own %a %at
    %pb = OpAccessChain %to_own %b %at
    %x = OpLoad %u32 %pa
    %sum = OpIAdd %u32 %x %five
    OpStore %pb %sum
    %y = OpLoad %u32 %pa
    %triple = OpIMul %u32 %y %three
    OpCopyMemory %a %b
    OpReturnValue %triple
    OpFunctionEnd
    %main = OpFunction %void None %function
    %first = OpLabel
    %s = OpVariable %to_array Function %start
    %t = OpVariable %to_array Function
    %i = OpLoad %u32 %index
    %p = OpAccessChain %to_own %s %two
    OpStore %p %i
    %got = OpFunctionCall %u32 %mix %s %s %two
    OpCopyMemory %t %s
    %q = OpAccessChain %to_own %t INDEX
    %z = OpLoad %u32 %q
    %whole = OpIAdd %u32 %got %z
    %out = OpAccessChain %to_word %o %zero %i
    OpStore %out %whole
    OpReturn
    OpFunctionEnd";

#[test]
fn arrays_of_arrays_of_vectors_of_booleans_and_of_matrices() {
    let module = in_glsl(
        "struct S { uint a[3]; bool b[2]; };",
        "uint n[3][4]; uvec4 v[5]; bool f[6]; mat3 m[2]; S s[2];
        for (uint x = 0; x < 3; x++) for (uint y = 0; y < 4; y++) n[x][y] = i * (x + 1) + y;
        for (int x = 0; x < 5; x++) { v[x] = uvec4(i, x, 1, 2); v[x].z += n[x % 3][1]; }
        for (int x = 5; x >= 0; x--) f[x] = (v[x % 5].z & (1u << x)) != 0u;
        for (int x = 0; x < 2; x++) for (int y = 0; y < 3; y++) for (int z = 0; z < 3; z++) m[x][y][z] = float(x * 9 + y * 3 + z);
        for (int x = 0; x < 2; x++) { s[x].a = uint[](i, uint(x), 9u); s[x].b[x] = f[x]; s[x].b[1 - x] = !f[5 - x]; }
        uint r = 0;
        for (int x = 0; x < 6; x++) if (f[x]) r += 1u << x;
        for (int x = 0; x < 3; x++) r += uint(m[1][x][2 - x]) + n[x][x] * 100u;
        for (int x = 0; x < 2; x++) r += s[x].a[0] + s[x].a[1] + s[x].a[2] + (s[x].b[0] ? 1000u : 0u) + (s[x].b[1] ? 2000u : 0u);
        o[i] = r;",
    );
    in_registers(&module, |i| {
        let n = |x: u32, y: u32| i * (x + 1) + y;
        let z = |x: u32| 1 + n(x % 3, 1);
        let f = |x: u32| z(x % 5) & 1 << x != 0;
        let mut r: u32 = (0..6).map(|x| u32::from(f(x)) << x).sum();
        r += (0..3).map(|x| 9 + x * 3 + 2 - x + n(x, x) * 100).sum::<u32>();
        for x in 0..2 {
            let b = if x == 0 { [f(0), !f(5)] } else { [!f(4), f(1)] };
            r += i + x + 9 + u32::from(b[0]) * 1000 + u32::from(b[1]) * 2000;
        }
        r
    });
}

#[test]
fn arrays_are_passed_and_returned_by_value() {
    let module = in_wgsl(
        "fn turned(m: array<u32, 6>) -> array<u32, 6> { var t = m; t = array<u32, 6>(t[5], t[0], t[1], t[2], t[3], t[4]); return t; }",
        "var m: array<u32, 6>;
        for (var k = 0u; k < 6u; k++) { m[k] = i * k + 1u; }
        for (var turn = 0u; turn < i % 5u; turn++) { m = turned(m); m = array<u32, 6>(m[1], m[0], m[2], m[3], m[4], m[5] + turn); }
        o[i] = m[0] + m[1] * 7u + m[2] * 49u + m[3] * 343u + m[4] * 2401u + m[5] * 16807u;",
    );
    in_registers(&module, |i| {
        let mut m: [u32; 6] = core::array::from_fn(|k| i * k as u32 + 1);
        for turn in 0..i % 5 {
            m.rotate_right(1);
            m.swap(0, 1);
            m[5] += turn;
        }
        m.iter().rev().fold(0u32, |sum, word| sum.wrapping_mul(7).wrapping_add(*word))
    });
}

#[test]
fn an_array_with_one_index_that_is_not_constant_lies_in_memory_and_the_others_do_not() {
    let module = in_wgsl(
        "",
        "var a: array<u32, 8>; var b: array<u32, 8>;
        for (var k = 0u; k < 8u; k++) { a[k] = i * k; b[k] = i + k; }
        b[i % 8u] = 77u;
        var r = 0u; for (var k = 0u; k < 8u; k++) { r = r * 3u + (a[k] ^ b[k]); } o[i] = r;",
    );
    in_memory(&module, |i| {
        let b = |k: u32| if k == i % 8 { 77 } else { i + k };
        (0..8).fold(0u32, |r, k| r.wrapping_mul(3).wrapping_add((i * k) ^ b(k)))
    });
    // Of `b` there are eight zeros, eight numbers, the one with an index that is not constant, and eight reads; `a` has no access.
    assert_eq!(scratch_accesses(&module), 25);
}

#[test]
fn loops_that_are_left_and_continued_where_lanes_differ() {
    let module = in_glsl(
        "uint f(uint i) {
            uint a[6]; uint r = 0;
            for (int k = 0; k < 6; k++) a[k] = 100u;
            for (int k = 0; k < 6; k++) {
                if (i % 7u == uint(k)) continue;
                a[k] = i + uint(k);
                if (i % 11u == uint(k) + 3u) break;
                if (i % 13u == uint(k) + 5u) return 5000u + a[k];
                for (int j = 0; j < k; j++) { if (a[j] > 60u) break; a[j] += 2u; if ((a[j] & 1u) == 0u) continue; r++; }
                a[k] *= 2u;
            }
            for (int k = 5; k >= 0; k--) r = r * 3u + a[k];
            return r;
        }",
        "o[i] = f(i) + f(i * 3u) * 7u;",
    );
    let f = |i: u32| {
        let (mut a, mut r) = ([100u32; 6], 0u32);
        for k in 0..6 {
            if i % 7 == k {
                continue;
            }
            let at = k as usize;
            a[at] = i + k;
            if i % 11 == k + 3 {
                break;
            }
            if i % 13 == k + 5 {
                return 5000 + a[at];
            }
            for word in &mut a[..at] {
                if *word > 60 {
                    break;
                }
                *word += 2;
                if *word & 1 != 0 {
                    r += 1;
                }
            }
            a[at] *= 2;
        }
        a.iter().rev().fold(r, |r, word| r.wrapping_mul(3).wrapping_add(*word))
    };
    // In SSA form values of the loop are used behind it, of whichever iteration was the last: it stays a loop.
    assert_eq!(scratch_accesses(&module), 0);
    expect(&module, |i| f(i).wrapping_add(f(i * 3).wrapping_mul(7)));
}

#[test]
fn every_form_of_loop_that_counts_is_unrolled() {
    let module = in_glsl(
        "",
        "uint a[8]; uint r = i; int k = 0;
        while (k < 8) { a[k] = r + uint(k); k++; }
        k = 7;
        do { r = r * 3u + a[k]; k -= 2; } while (k > 0);
        for (uint x = 1u; x < 8u; x <<= 1) a[x] ^= r;
        for (int x = 0, y = 7; x < y; x++, y--) { uint t = a[x]; a[x] = a[y]; a[y] = t; }
        o[i] = a[0] + a[3] * 5u + a[5] * 25u + a[6] * 125u + a[7];",
    );
    in_registers(&module, |i| {
        let mut a: [u32; 8] = core::array::from_fn(|k| i + k as u32);
        let r = [7, 5, 3, 1].iter().fold(i, |r, k| r.wrapping_mul(3).wrapping_add(a[*k]));
        [1, 2, 4].iter().for_each(|k| a[*k] ^= r);
        a.reverse();
        [5, 25, 125]
            .iter()
            .zip([3, 5, 6])
            .fold(a[0].wrapping_add(a[7]), |sum, (by, k)| sum.wrapping_add(a[k].wrapping_mul(*by)))
    });
    let module = in_wgsl(
        "",
        "var a: array<i32, 5>; var k = 4;
        loop { if k < 0 { break; } a[k] = k * 10 + i32(i); continuing { k = k - 1; } }
        var n = 0; loop { a[n] += 1; n++; if n == 3 { continue; } if n > 4 { break; } }
        o[i] = u32(a[0] + a[1] + a[2] + a[3] * 2 + a[4] * 4);",
    );
    in_registers(&module, |i| (1 + i) + (11 + i) + (21 + i) + (31 + i) * 2 + (41 + i) * 4);
}

#[test]
fn constants_of_variables_end_where_loops_calls_switches_and_other_lanes_write_them() {
    let module = in_glsl(
        "uint g; void next() { g += 3u; } void put(inout uint x, uint y) { if (y > 40u) { x = y; return; } x++; }",
        "uint a = 1u, b = 2u, c = 3u, d = 4u, e = 5u, h = 6u; g = 7u;
        for (uint k = 0u; k < i % 4u; k++) { a += g; next(); if (k == 1u) { b = 20u; continue; } put(c, i); }
        switch (i % 5u) { case 0u: d = 40u; case 1u: if (i > 30u) break; e = 50u; break; case 2u: d = 41u; break; default: h = 60u; }
        bool odd = (i & 1u) != 0u;
        if (odd) { h = 61u; } else if (i > 50u) { h = 61u; }
        for (;;) { if (i > 20u) { a += 1000u; break; } b += 500u; break; }
        o[i] = a + b * 3u + c * 5u + d * 7u + e * 11u + h * 13u + g * 17u;",
    );
    in_registers(&module, |i| {
        let (mut a, mut b, mut c, mut d, mut e, mut h, mut g) = (1, 2, 3, 4, 5, 6, 7);
        for k in 0..i % 4 {
            a += g;
            g += 3;
            if k == 1 {
                b = 20;
                continue;
            }
            c = if i > 40 { i } else { c + 1 };
        }
        match i % 5 {
            0 | 1 => {
                if i % 5 == 0 {
                    d = 40;
                }
                if i <= 30 {
                    e = 50;
                }
            }
            2 => d = 41,
            _ => h = 60,
        }
        if i & 1 != 0 || i > 50 {
            h = 61;
        }
        if i > 20 {
            a += 1000
        } else {
            b += 500
        }
        a + b * 3 + c * 5 + d * 7 + e * 11 + h * 13 + g * 17
    });
}

/// A value of a loop is that of the iteration in which the lane left it.
#[test]
fn what_is_used_behind_a_loop_is_of_the_turn_that_was_the_last() {
    let module = in_glsl(
        "",
        "uint a[5]; uint x = 0;
        for (uint k = 0; k < 5u; k++) a[k] = i * k;
        for (uint k = 0; k < 5u; k++) { x = a[k] + 3u; if (x % 4u == 1u) break; }
        o[i] = x * 2u;",
    );
    expect(&module, |i| {
        let turn = (0..5).map(|k| i * k + 3).find(|x| x % 4 == 1);
        turn.unwrap_or(i * 4 + 3) * 2
    });
}

/// Zeros that nobody reads cost nothing: there is no copy for each element.
#[test]
fn zeros_that_are_overwritten_are_not_written() {
    let body = |first: &str| {
        format!(
            "var r = i; for (var turn = 0u; turn < i; turn++) {{
                {first}
                for (var k = 0u; k < 16u; k++) {{ m[k] = o[k + turn] + r; }}
                for (var k = 0u; k < 16u; k++) {{ r = r * 3u + m[k]; }}
            }} o[i] = r;"
        )
    };
    let moves = |body: &str| count(&in_wgsl("", body), &[Op::Mov]);
    let zeroed = moves(&body("var m: array<u32, 16>;"));
    let outside = moves(&format!("var m: array<u32, 16>; {}", body("")));
    // A load outside of its buffer gives zero, which is one of them for each element.
    assert!(zeroed <= 16 * 2 + 8 && outside <= 16 * 2 + 8, "{zeroed} and {outside} moves");
}

#[test]
fn loops_that_would_be_millions_of_instructions_stay_loops() {
    let nest = |count: u32, depth: u32| {
        let open: String = (0..depth).map(|d| format!("for (uint k{d} = 0u; k{d} < {count}u; k{d}++) {{")).collect();
        let sum: String = (0..depth).map(|d| format!("k{d} + ")).collect();
        format!(
            "uint a[32]; for (uint k = 0u; k < 32u; k++) a[k] = i; {open} a[({sum} 1u) % 32u] += k0; {} o[i] = a[3] + a[31];",
            "}".repeat(depth as usize)
        )
    };
    for (count, depth) in [(100, 3), (20, 6), (2, 24), (100_000_000, 1)] {
        let code = code(&in_glsl("", &nest(count, depth)));
        let loops = code.iter().filter(|inst| inst.op == Op::Loop).count();
        assert!(code.len() < 5000 && loops > 0, "{} instructions, {loops} loops", code.len());
    }
    // One loop after the other, each of which could be unrolled alone.
    let many: String =
        (0..200).map(|n| format!("for (uint k = 0u; k < 32u; k++) {{ a[k] = a[k] * {n}u + (a[k] >> 3); }}")).collect();
    let code = code(&in_glsl("", &format!("uint a[32]; {many} o[i] = a[5];")));
    assert!(code.len() < 20_000, "{} instructions", code.len());
}

#[test]
fn arrays_that_registers_have_no_room_for_lie_in_memory() {
    let declared: String = (0..10).map(|n| format!("uint a{n}[40];")).collect();
    let first: String = (0..10).map(|n| format!("a{n}[k] = i * k + {n}u;")).collect();
    let sum: String = (0..10).map(|n| format!("r = r * 3u + a{n}[k];")).collect();
    let body = format!(
        "{declared} uint r = 0; for (uint k = 0; k < 40u; k++) {{ {first} }} for (uint k = 0; k < 40u; k++) {{ {sum} }} o[i] = r;"
    );
    in_memory(&in_glsl("", &body), |i| {
        let words = (0..40u32).flat_map(|k| (0..10).map(move |n| i * k + n));
        words.fold(0u32, |r, word| r.wrapping_mul(3).wrapping_add(word))
    });
}

#[test]
fn an_index_behind_the_end_is_no_error_of_the_module() {
    let module = in_glsl(
        "",
        "uint a[4]; for (uint k = 0u; k < 4u; k++) a[k] = i; for (uint k = 0u; k < 5u; k++) if (k < 4u) a[k] += k; o[i] = a[3];",
    );
    expect(&module, |i| i + 3);
}

#[test]
fn two_shifts_that_make_a_rotation_are_one() {
    let module = in_wgsl(
        "",
        "let x = i * 0x01234567u + 5u; o[i] = ((x << 7u) | (x >> 25u)) + ((x >> 3u) ^ (x << 29u)) + ((x << 7u) | (x >> 24u));",
    );
    assert_eq!((count(&module, &[Op::Rotl]), count(&module, &[Op::Shl, Op::ShrU])), (2, 2));
    expect(&module, |i| {
        let x = i.wrapping_mul(0x0123_4567) + 5;
        x.rotate_left(7).wrapping_add(x.rotate_right(3)).wrapping_add(x << 7 | x >> 24)
    });
}

#[test]
fn an_access_in_a_loop_is_compared_with_an_address_that_is_computed_before_it() {
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read_write> o: array<vec4<u32>>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
            for (var k = 0u; k < 100u; k++) { o[i] += o[i + k] * k; }
        }",
    );
    let code = code(&module);
    let robust = Options::default().robust;
    let begin = code.iter().position(|inst| inst.op == Op::Loop).expect("a loop");
    // An index, a comparison and a condition for each of three accesses, two of which have the same address.
    let of = |op: Op, ty: Type| code[begin..].iter().filter(|inst| inst.op == op && inst.ty == ty).count();
    assert!(robust);
    assert_eq!((of(Op::Index, Type::None), of(Op::Add, Type::I64), of(Op::Sub, Type::I64)), (2, 0, 0));
    assert_eq!(of(Op::Cmp, Type::I64), 2);
}
