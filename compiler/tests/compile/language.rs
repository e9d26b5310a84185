//! What the language has: control flow, types, specialization, addresses, atomics.

use campanile_compiler::{Options, compile};

use crate::bench::{as_f32, as_u32, assemble, f32s, glsl, run, run_with, u32s, wgsl};

/// Runs `main` of a GLSL shader with 64 lanes, whose functions and body are given; `i` is the lane and `o[i]` its result.
fn lanes(extensions: &str, functions: &str, body: &str) -> Vec<u32> {
    let module = glsl(&format!(
        "{extensions}
        layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) buffer Output {{ uint o[]; }};
        {functions}
        void main() {{ uint i = gl_LocalInvocationIndex; {body} }}"
    ));
    as_u32(&run(&module, [1, 1, 1], &[], &[u32s(&[0xdead; 64])])[0])
}

fn expect(result: &[u32], expected: impl Fn(u32) -> u32) {
    for (i, value) in (0u32..).zip(result) {
        assert_eq!(*value, expected(i), "lane {i}");
    }
}

#[test]
fn switch_with_fallthrough_and_default_in_the_middle() {
    let result = lanes(
        "",
        "",
        "uint r = 0; switch (i % 7) { case 0: r += 1; case 1: r += 2; break; default: r += 100; case 3: r += 4; break; case 5: case 6: if (i > 30) break; r += 8; } o[i] = r;",
    );
    expect(&result, |i| match i % 7 {
        0 => 3,
        1 => 2,
        3 => 4,
        5 | 6 => {
            if i > 30 {
                0
            } else {
                8
            }
        }
        _ => 104,
    });
}

#[test]
fn literals_of_a_switch_inside_of_a_case_that_others_fall_into_are_no_blocks() {
    // Among a hundred literals are the numbers of the module's first blocks.
    let literals: String = (0..100).map(|literal| format!("case {literal}: r += {}u; break; ", literal + 1)).collect();
    let body = format!(
        "uint r = 0; switch (i % 3) {{ case 0: r += 1000u; default: {{ switch (i) {{ {literals} }} }} }} o[i] = r;"
    );
    expect(&lanes("", "", &body), |i| i + 1 + if i % 3 == 0 { 1000 } else { 0 });
}

#[test]
fn nested_loops_with_break_continue_and_early_return() {
    let functions = "uint f(uint n) {
        uint sum = 0;
        for (uint a = 0; a < 10; a++) {
            for (uint b = 0; b < 10; b++) {
                if ((a + b) % 3 == n % 3) continue;
                if (b > a + 4) break;
                switch (b) { case 2: continue; case 7: return sum + 1000; default: sum += a * b; }
                if (sum > 40 + n) return sum;
            }
            if (a == n) break;
        }
        return sum + 5000;
    }";
    let result = lanes("", functions, "o[i] = f(i) + f(i / 2);");
    let f = |n: u32| {
        let mut sum = 0;
        for a in 0..10 {
            for b in 0..10 {
                if (a + b) % 3 == n % 3 {
                    continue;
                }
                if b > a + 4 {
                    break;
                }
                match b {
                    2 => continue,
                    7 => return sum + 1000,
                    _ => sum += a * b,
                }
                if sum > 40 + n {
                    return sum;
                }
            }
            if a == n {
                break;
            }
        }
        sum + 5000
    };
    expect(&result, |i| f(i) + f(i / 2));
}

#[test]
fn arrays_and_structs_with_dynamic_indices() {
    let result = lanes("", "struct S { uint a; uvec2 b[3]; }; uint g[5] = uint[](3, 1, 4, 1, 5);",
        "S s[4]; for (uint k = 0; k < 4; k++) { s[k].a = k; for (uint j = 0; j < 3; j++) s[k].b[j] = uvec2(k * 10 + j, i); }
        S t = s[i % 4]; g[i % 5] += 7; o[i] = t.a * 1000 + t.b[i % 3][0] + t.b[1].y + g[3];");
    expect(&result, |i| (i % 4) * 1000 + (i % 4) * 10 + i % 3 + i + if i % 5 == 3 { 8 } else { 1 });
}

#[test]
fn integers_of_every_width() {
    let extensions = "#extension GL_EXT_shader_explicit_arithmetic_types : require";
    let result = lanes(extensions, "", "int8_t a = int8_t(i * 5); uint16_t b = uint16_t(i * 3000); int16_t c = int16_t(a) * int16_t(300);
        int64_t d = int64_t(c) * 5000000000L; uint64_t e = uint64_t(b) << 40;
        o[i] = uint(int(a) / 3) ^ uint(b >> 3) ^ uint(c >> 2) ^ uint(d >> 32) ^ uint(e >> 33) ^ uint(a < int8_t(0) ? 1 : 0);");
    expect(&result, |i| {
        let (a, b) = ((i * 5) as i8, (i * 3000) as u16);
        let c = i16::from(a).wrapping_mul(300);
        let (d, e) = (i64::from(c).wrapping_mul(5_000_000_000), u64::from(b) << 40);
        (i32::from(a) / 3) as u32
            ^ u32::from(b >> 3)
            ^ i32::from(c >> 2) as u32
            ^ (d >> 32) as u32
            ^ (e >> 33) as u32
            ^ u32::from(a < 0)
    });
}

#[test]
fn bit_fields_and_wide_products() {
    let result = lanes("", "", "uint h, l; umulExtended(i * 0x1234567u, 0x89abcdefu, h, l); uint c; uint s = uaddCarry(l, 0xf0000000u, c);
        o[i] = h ^ s ^ c ^ bitfieldInsert(h, l, 5, 9) ^ uint(bitfieldExtract(int(l), 3, 12)) ^ bitfieldExtract(h, 0, 32) ^ bitfieldReverse(i) ^ uint(findMSB(i)) ^ uint(findLSB(i)) ^ uint(bitCount(l)) ^ bitfieldExtract(h, 9, 0);");
    expect(&result, |i| {
        let product = u64::from(i.wrapping_mul(0x0123_4567)) * 0x89ab_cdef;
        let (h, l) = ((product >> 32) as u32, product as u32);
        let (s, c) = l.overflowing_add(0xf000_0000);
        let insert = h & !(0x1ff << 5) | (l & 0x1ff) << 5;
        let extract = ((l << 17) as i32 >> 20) as u32;
        let msb = 31u32.wrapping_sub(i.leading_zeros());
        let lsb = if i == 0 { u32::MAX } else { i.trailing_zeros() };
        h ^ s ^ u32::from(c) ^ insert ^ extract ^ h ^ i.reverse_bits() ^ msb ^ lsb ^ l.count_ones()
    });
}

#[test]
fn halves_and_doubles() {
    let extensions = "#extension GL_EXT_shader_explicit_arithmetic_types : require";
    let result = lanes(
        extensions,
        "",
        "double d = double(i) / 3.0; float16_t h = float16_t(i) / float16_t(4); o[i] = uint(d * 1000.0LF) + uint(h * float16_t(2)) + (isnan(float(i) / 0.0) ? 1 : 0);",
    );
    expect(&result, |i| (f64::from(i) / 3.0 * 1000.0) as u32 + (i as f32 / 4.0 * 2.0) as u32 + u32::from(i == 0));
}

#[test]
fn matrices_and_vectors_in_memory_of_both_orders() {
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0, std140) uniform U { layout(row_major) mat3 r; mat3 c; vec3 v[2]; };
        layout(set = 0, binding = 1, std430) buffer O { vec3 a; vec3 b; float d; mat2 m; float l; };
        void main() { a = r * v[0]; b = v[1] * c; d = determinant(c) + r[1][2]; m = inverse(mat2(2, 1, 1, 1)); l = length(cross(v[0], v[1])); }",
    );
    let mut input = [0f32; 32];
    for (row, column) in (0..3).flat_map(|row| (0..3).map(move |column| (row, column))) {
        input[row * 4 + column] = (row * 3 + column) as f32;
        input[12 + column * 4 + row] = ((row + 1) * (column + 2) + row * row) as f32;
    }
    input[24..27].copy_from_slice(&[1.0, 2.0, 3.0]);
    input[28..31].copy_from_slice(&[4.0, 5.0, 7.0]);
    let result = as_f32(&run(&module, [1, 1, 1], &[], &[f32s(&input), f32s(&[0.0; 16])])[1]);
    let v = [[1.0, 2.0, 3.0], [4.0, 5.0, 7.0f32]];
    let c = |row: usize, column: usize| ((row + 1) * (column + 2) + row * row) as f32;
    for row in 0..3 {
        assert_eq!(result[row], (0..3).map(|k| (row * 3 + k) as f32 * v[0][k]).sum::<f32>());
        assert_eq!(result[4 + row], (0..3).map(|k| c(k, row) * v[1][k]).sum::<f32>());
    }
    assert_eq!(result[7], 0.0 + 7.0, "the matrix has rank 2; row 2 of column 1 of the other is 7");
    assert_eq!(result[8..12], [1.0, -1.0, -1.0, 2.0]);
    assert_eq!(result[12], 14f32.sqrt() / 14f32.sqrt() * (1.0f32 + 25.0 + 9.0).sqrt());
}

#[test]
fn specialization_constants_change_sizes_and_values() {
    let module = glsl(
        "layout(local_size_x_id = 3) in;
        layout(constant_id = 0) const uint N = 4;
        layout(constant_id = 1) const bool B = false;
        layout(constant_id = 2) const float F = 1.5;
        shared uint s[N * 2 + 1];
        layout(set = 0, binding = 0) buffer Output { uint o[]; };
        void main() { uint i = gl_LocalInvocationIndex; s[i] = i * N; barrier(); o[i] = s[i] + (B ? 100 : 0) + uint(F * 2.0) + s.length() * 1000 + gl_WorkGroupSize.x * 100000; }",
    );
    let mut options = Options::default();
    options.specialization.extend([(0, 7), (1, 1), (2, u64::from(2.5f32.to_bits())), (3, 8)]);
    let result = as_u32(&run_with(&module, &options, [1, 1, 1], &[], &[u32s(&[0; 8])])[0]);
    expect(&result, |i| i * 7 + 100 + 5 + 15_000 + 800_000);
}

#[test]
fn subgroups_vote_shuffle_and_scan() {
    let extensions = "#extension GL_KHR_shader_subgroup_basic : require
        #extension GL_KHR_shader_subgroup_vote : require
        #extension GL_KHR_shader_subgroup_ballot : require
        #extension GL_KHR_shader_subgroup_shuffle : require
        #extension GL_KHR_shader_subgroup_shuffle_relative : require
        #extension GL_KHR_shader_subgroup_arithmetic : require";
    let result = lanes(extensions, "", "uint l = gl_SubgroupInvocationID; uint r = 0;
        if (l % 3 == 1) { r = subgroupAdd(l) + subgroupBallotBitCount(subgroupBallot(l > 15)) * 1000 + (subgroupElect() ? 100000 : 0); }
        r += subgroupShuffleXor(l, 5) * 7 + subgroupShuffleDown(l, 1) % 32 * 3 + (subgroupAll(l < 32) ? 1 : 0) + (subgroupAny(l == 40) ? 2 : 0) + subgroupMax(i % 32) + subgroupBroadcast(l, 9);
        o[i] = r;");
    expect(&result, |i| {
        let l = i % 32;
        let some = (0..32).filter(|l| l % 3 == 1);
        let part = if l % 3 == 1 {
            some.clone().sum::<u32>() + some.filter(|l| *l > 15).count() as u32 * 1000 + u32::from(l == 1) * 100_000
        } else {
            0
        };
        // What a lane reads that is not there is 0 of lane 0 here: lane numbers count modulo the lanes.
        part + (l ^ 5) * 7 + (l + 1) % 32 * 3 + 1 + 31 + 9
    });
}

#[test]
fn exclusive_scans_of_narrow_integers_begin_with_the_bound_of_their_type() {
    let extensions = "#extension GL_KHR_shader_subgroup_basic : require
        #extension GL_KHR_shader_subgroup_arithmetic : require
        #extension GL_EXT_shader_explicit_arithmetic_types : require
        #extension GL_EXT_shader_subgroup_extended_types_int8 : require
        #extension GL_EXT_shader_subgroup_extended_types_int16 : require";
    let result = lanes(
        extensions,
        "",
        "int8_t b = int8_t(i % 32) - int8_t(5); int16_t h = int16_t(b) * int16_t(100);
        int8_t least = subgroupExclusiveMin(b), most = subgroupExclusiveMax(b);
        int16_t low = subgroupExclusiveMin(h), high = subgroupExclusiveMax(h);
        o[i] = uint(int(least) & 0xff) | uint(int(most) & 0xff) << 8 | uint(int(low) ^ int(high) * 3) << 16;",
    );
    expect(&result, |i| {
        let l = i % 32;
        // The values grow with the lanes: the least before a lane is that of lane 0, the greatest that of its neighbour.
        let (least, most) = if l == 0 { (127, -128) } else { (-5, l as i32 - 6) };
        let (low, high) = if l == 0 { (32767, -32768) } else { (-500, (l as i32 - 6) * 100) };
        (least & 0xff) as u32 | ((most & 0xff) as u32) << 8 | ((low ^ (high * 3)) as u32) << 16
    });
}

#[test]
fn physical_addresses_and_atomics() {
    let module = glsl(
        "#extension GL_EXT_buffer_reference : require
        #extension GL_EXT_buffer_reference2 : require
        layout(local_size_x = 64) in;
        layout(buffer_reference) buffer Node;
        layout(buffer_reference, std430, buffer_reference_align = 8) buffer Node { uint value; uint pad; Node next; };
        layout(push_constant) uniform Push { Node head; };
        layout(set = 0, binding = 0, std430) buffer O { uint sum; uint most; uint last; };
        void main() { Node node = head; node = node.next; uint i = gl_LocalInvocationIndex;
            atomicAdd(sum, node.value + i); atomicMax(most, i ^ 21); atomicCompSwap(last, i, i + 1); atomicAdd((head + 1).pad, 1); }",
    );
    // The argument block is 32 bytes, and the first buffer is at the next multiple of 256: nodes lie behind it.
    let node = |value: u32, next: u64| [u32s(&[value, 0]), next.to_le_bytes().to_vec()].concat();
    let nodes = [node(1, 0x1_0210), node(50, 0)].concat();
    let result = run(&module, [1, 1, 1], &0x1_0200u64.to_le_bytes(), &[u32s(&[0; 3]), nodes]);
    assert_eq!(as_u32(&result[0]), [50 * 64 + 2016, 63, 64]);
    assert_eq!(as_u32(&result[1])[5], 64);
}

#[test]
fn small_types_in_storage() {
    let module = glsl(
        "#extension GL_EXT_shader_explicit_arithmetic_types : require
        #extension GL_EXT_shader_8bit_storage : require
        #extension GL_EXT_shader_16bit_storage : require
        layout(local_size_x = 32) in;
        layout(set = 0, binding = 0) buffer A { int8_t a[]; };
        layout(set = 0, binding = 1) buffer B { f16vec2 b[]; };
        layout(set = 0, binding = 2) buffer C { double c[]; };
        void main() { uint i = gl_LocalInvocationIndex; c[i] = double(a[i]) + double(b[i].y); a[i] = int8_t(-a[i]); b[i].x = float16_t(i); }",
    );
    let a: Vec<u8> = (0..32).map(|i| (i * 7) as u8).collect();
    let b: Vec<u32> = (0..32).map(|_| 0x3c00 << 16).collect();
    let result = run(&module, [1, 1, 1], &[], &[a.clone(), u32s(&b), vec![0; 256]]);
    let c: Vec<f64> = result[2].chunks(8).map(|c| f64::from_le_bytes(c.try_into().expect("eight"))).collect();
    for i in 0..32usize {
        assert_eq!(c[i], f64::from(a[i] as i8) + 1.0);
        assert_eq!(result[0][i], (a[i] as i8).wrapping_neg() as u8);
    }
    assert_eq!(as_u32(&result[1])[3], 0x3c00 << 16 | 0x4200);
}

#[test]
fn more_values_than_registers_lie_in_scratch_memory() {
    let names = |f: &dyn Fn(usize) -> String| (0..320).map(f).collect::<String>();
    let body = format!(
        "{}{}o[i] = 0;{}",
        names(&|k| format!("uint v{k} = o[(i + {k}) % 64] * {};", k + 1)),
        "barrier();",
        names(&|k| format!("o[i] = o[i] * 3 + v{k};"))
    );
    let result = lanes("", "", &body);
    let start = 0xdeadu32;
    expect(&result, |_| (0..320).fold(0u32, |sum, k| sum.wrapping_mul(3).wrapping_add(start.wrapping_mul(k + 1))));
}

#[test]
fn refusals_name_instruction_and_capability() {
    let image = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0, r32ui) uniform uimage2DMS image;
        void main() { imageStore(image, ivec2(0), 0, uvec4(1)); }",
    );
    let error = compile(&image, &Options::default()).expect_err("refused");
    assert_eq!(error.to_string(), "OpTypeImage is not supported");
    let clustered = glsl(
        "#extension GL_KHR_shader_subgroup_quad : require
        layout(local_size_x = 32) in;
        layout(set = 0, binding = 0) buffer O { uint o[]; };
        void main() { o[0] = subgroupQuadBroadcast(gl_LocalInvocationIndex, 1); }",
    );
    let error = compile(&clustered, &Options::default()).expect_err("refused");
    assert_eq!(error.to_string(), "OpGroupNonUniformQuadBroadcast (capability GroupNonUniformQuad) is not supported");
    let plain = wgsl("@compute @workgroup_size(1) fn other() {}");
    let error = compile(&plain, &Options::default()).expect_err("refused");
    assert_eq!(error.to_string(), "the module has no compute entry point \"main\"");
    assert!(compile(&plain[..4], &Options::default()).is_err());
}

#[test]
fn continue_out_of_a_switch_that_is_left_early() {
    let body = "uint r = 0;
        for (uint k = 0; k < 12; k++) {
            switch ((i + k) % 3) {
                case 0: if (k % 4 == 1) break; if (k % 4 == 3) continue; r += 7; break;
                case 1: r += k; break;
            }
            r = r * 3 + 1;
        }
        o[i] = r * 5 + bitfieldInsert(r, i, 7, 0);";
    expect(&lanes("", "", body), |i| {
        let mut r = 0u32;
        for k in 0..12 {
            match (i + k) % 3 {
                0 if k % 4 == 1 => {}
                0 if k % 4 == 3 => continue,
                0 => r = r.wrapping_add(7),
                1 => r = r.wrapping_add(k),
                _ => {}
            }
            r = r.wrapping_mul(3).wrapping_add(1);
        }
        // An insertion of no bits leaves the value as it was.
        r.wrapping_mul(6)
    });
}

/// Arrays inside one another, so many and each of a stride, in a buffer: a store with a constant index into the outermost one, and a store and a load with an index that is read for each.
fn arrays_inside_one_another(levels: usize, stride: u32, index: u32) -> Vec<u32> {
    let strides: String = (1..levels).map(|level| format!("OpDecorate %a{level} ArrayStride {stride}\n")).collect();
    let types: String = (1..levels).map(|level| format!("%a{level} = OpTypeArray %a{} %one\n", level - 1)).collect();
    assemble(&format!(
        "OpCapability Shader
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main \"main\" %huge %o
        OpExecutionMode %main LocalSize 1 1 1
        OpDecorate %a0 ArrayStride 4
        {strides}
        OpDecorate %elements ArrayStride {stride}
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %block Block
        OpDecorate %plain ArrayStride 4
        OpMemberDecorate %output 0 Offset 0
        OpDecorate %output Block
        OpDecorate %huge DescriptorSet 0
        OpDecorate %huge Binding 0
        OpDecorate %o DescriptorSet 0
        OpDecorate %o Binding 1
        %void = OpTypeVoid
        %function = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %zero = OpConstant %uint 0
        %one = OpConstant %uint 1
        %count = OpConstant %uint {count}
        %index = OpConstant %uint {index}
        %a0 = OpTypeArray %uint %count
        {types}
        %elements = OpTypeRuntimeArray %a{outermost}
        %block = OpTypeStruct %elements
        %plain = OpTypeRuntimeArray %uint
        %output = OpTypeStruct %plain
        %pointer_block = OpTypePointer StorageBuffer %block
        %pointer_output = OpTypePointer StorageBuffer %output
        %pointer = OpTypePointer StorageBuffer %uint
        %huge = OpVariable %pointer_block StorageBuffer
        %o = OpVariable %pointer_output StorageBuffer
        %main = OpFunction %void None %function
        %label = OpLabel
        %first = OpAccessChain %pointer %o %zero %zero
        %read = OpLoad %uint %first
        %known = OpAccessChain %pointer %huge %zero %index{zeros} %one
        OpStore %known %one
        %unknown = OpAccessChain %pointer %huge %zero{reads} %one
        OpStore %unknown %one
        %taken = OpLoad %uint %unknown
        OpStore %first %taken
        OpReturn
        OpFunctionEnd",
        count = stride / 4,
        outermost = levels - 1,
        zeros = " %zero".repeat(levels - 1),
        reads = " %read".repeat(levels),
    ))
}

/// Holds that no access of [`arrays_inside_one_another`] reaches a small buffer, whatever the sum of their steps. [vulkan: robustBufferAccess]
fn leads_nowhere(levels: usize, stride: u32, index: u32) {
    let module = arrays_inside_one_another(levels, stride, index);
    let found = run(&module, [1, 1, 1], &[], &[u32s(&[7; 64]), u32s(&[index])]);
    assert_eq!((as_u32(&found[0]), as_u32(&found[1])), (vec![7; 64], vec![0]), "{levels} {stride:#x} {index:#x}");
}

/// Elements of 2 GiB and more: the product of index and stride would be beyond all addresses, and the sum with the address of the buffer below it again.
#[test]
fn an_index_into_huge_elements_leads_nowhere_and_not_back_into_memory() {
    for (stride, index) in [
        (1 << 31, 0xffff_ffff),
        (1 << 31, 0xc000_0000),
        (0xffff_fffc, 0xffff_ffff),
        (0xffff_fff0, 0x8000_0001),
        (1 << 29, 0xffff_ffff),
    ] {
        leads_nowhere(1, stride, index);
    }
}

/// Arrays of one element inside one another: each index leads by less than 2^62, and all together beyond all addresses.
#[test]
fn indices_into_many_arrays_inside_one_another_lead_nowhere_together() {
    for levels in [1, 2, 5, 9] {
        for index in [0xffff_ffff, 0x8000_0001] {
            leads_nowhere(levels, (1 << 29) - 4, index);
        }
    }
}
