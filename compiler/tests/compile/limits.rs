//! How large and how deep modules may be. [SPIR-V: Universal Limits]

use std::fmt::Write;

use campanile_compiler::{Options, compile};

use crate::bench::{as_u32, assemble, glsl, interpret, run, u32s};

/// `main` of a GLSL shader with 64 lanes, whose functions and body are given; `i` is the lane and `o[i]` its result.
fn shader(functions: &str, body: &str) -> Vec<u32> {
    glsl(&format!(
        "layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) buffer Output {{ uint o[]; }};
        {functions}
        void main() {{ uint i = gl_LocalInvocationIndex; {body} }}"
    ))
}

/// Runs it, by the interpreter.
fn lanes(functions: &str, body: &str) -> Vec<u32> {
    as_u32(&interpret(&shader(functions, body), [1, 1, 1], &[u32s(&[0xdead; 64])])[0])
}

/// Selections in one another, whose conditions are unlike from lane to lane: `then` and `otherwise` are what stands in each behind the next one.
fn nested(depth: u32, then: impl Fn(u32) -> String, otherwise: impl Fn(u32) -> String) -> String {
    let (mut before, mut after) = (String::new(), Vec::new());
    for level in 0..depth {
        write!(before, "if ((i + {level}u) % 97u != 5u) {{ r = r * 3u + {level}u;").expect("written");
        after.push(format!("{} }} {}", then(level), otherwise(level)));
    }
    after.reverse();
    before + &after.concat()
}

/// The same: what the levels add on the way in, until a condition is false, and how deep that is.
fn way_in(i: u32, depth: u32, r: &mut u32) -> u32 {
    for level in 0..depth {
        if (i + level) % 97 == 5 {
            return level;
        }
        *r = r.wrapping_mul(3).wrapping_add(level);
    }
    depth
}

#[test]
fn selections_nest_deeper_than_the_stack_of_masks() {
    for depth in [30, 65, 200] {
        let body = nested(depth, |level| format!("r ^= {level}u;"), |level| format!("else r += {level}u;"));
        let result = lanes("", &format!("uint r = i; {body} o[i] = r;"));
        for (i, found) in (0u32..).zip(result) {
            let mut r = i;
            let deepest = way_in(i, depth, &mut r);
            if deepest < depth {
                r = r.wrapping_add(deepest);
            }
            (0..deepest).rev().for_each(|level| r ^= level);
            assert_eq!(found, r, "lane {i} of {depth} levels");
        }
    }
}

#[test]
fn both_executors_run_selections_whose_masks_are_predicates() {
    let body = nested(
        66,
        |level| if level == 60 { "if (r % 3u == 1u) break; r++;".into() } else { String::new() },
        |_| "else r++;".into(),
    );
    let module = shader("", &format!("uint r = i; for (uint k = 0u; k < 2u; k++) {{ {body} }} o[i] = r;"));
    run(&module, [1, 1, 1], &[], &[u32s(&[0xdead; 64])]);
}

#[test]
fn deep_selections_are_left_early() {
    let leave = |level: u32| match level % 3 {
        0 => format!("if (r % 7u == {}u) return r; r++;", level % 7),
        _ => "r += 5u;".into(),
    };
    let functions =
        format!("uint f(uint i) {{ uint r = i; {} return r + 1000u; }}", nested(150, leave, |_| String::new()));
    let f = |i: u32| {
        let mut r = i;
        for level in (0..way_in(i, 150, &mut r)).rev() {
            match level % 3 {
                0 if r % 7 == level % 7 => return r,
                0 => r = r.wrapping_add(1),
                _ => r = r.wrapping_add(5),
            }
        }
        r.wrapping_add(1000)
    };
    let result = lanes(&functions, "o[i] = f(i) * 2u + f(i * 5u);");
    for (i, found) in (0u32..).zip(result) {
        assert_eq!(found, f(i).wrapping_mul(2).wrapping_add(f(i * 5)), "lane {i}");
    }
}

#[test]
fn loops_in_deep_selections_and_deep_selections_in_loops() {
    let inner = nested(
        80,
        |level| match level % 20 {
            3 => format!("if (r % 5u == {}u) continue; r++;", level % 5),
            7 => format!("if (r % 11u == {}u) break; r++;", level % 11),
            11 => "if (r % 13u == 1u) return r;".into(),
            _ => "r += 3u;".into(),
        },
        |_| "else r += k;".into(),
    );
    let looped = format!("for (uint k = 0u; k < 4u; k++) {{ {inner} r += 100u; }}");
    let outer = |level: u32| match level {
        40 => looped.clone(),
        20 => "if (r % 3u == 0u) return r;".into(),
        _ => "r += 7u;".into(),
    };
    let functions = format!("uint f(uint i) {{ uint r = i; {} return r; }}", nested(90, outer, |_| String::new()));
    let f = |i: u32| -> u32 {
        let mut r = i;
        for level in (0..way_in(i, 90, &mut r)).rev() {
            match level {
                40 => {
                    'turns: for k in 0..4u32 {
                        let deepest = way_in(i, 80, &mut r);
                        if deepest < 80 {
                            r = r.wrapping_add(k);
                        }
                        for level in (0..deepest).rev() {
                            match level % 20 {
                                3 if r % 5 == level % 5 => continue 'turns,
                                7 if r % 11 == level % 11 => break 'turns,
                                11 if r % 13 == 1 => return r,
                                3 | 7 => r = r.wrapping_add(1),
                                11 => {}
                                _ => r = r.wrapping_add(3),
                            }
                        }
                        r = r.wrapping_add(100);
                    }
                }
                20 if r.is_multiple_of(3) => return r,
                20 => {}
                _ => r = r.wrapping_add(7),
            }
        }
        r
    };
    let result = lanes(&functions, "o[i] = f(i) + f(i + 64u) * 3u + f(i * 31u);");
    for (i, found) in (0u32..).zip(result) {
        let expected = f(i).wrapping_add(f(i + 64).wrapping_mul(3)).wrapping_add(f(i * 31));
        assert_eq!(found, expected, "lane {i}");
    }
}

/// A module whose selections nest, written as words: the tools recurse.
fn deep(depth: u32) -> Vec<u32> {
    let start = assemble(
        "OpCapability Shader
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main \"main\" %o
        OpExecutionMode %main LocalSize 1 1 1
        OpDecorate %words ArrayStride 4
        OpDecorate %block Block
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %o DescriptorSet 0
        OpDecorate %o Binding 0
        %void = OpTypeVoid
        %function = OpTypeFunction %void
        %bool = OpTypeBool
        %u32 = OpTypeInt 32 0
        %words = OpTypeRuntimeArray %u32
        %block = OpTypeStruct %words
        %to_block = OpTypePointer StorageBuffer %block
        %to_word = OpTypePointer StorageBuffer %u32
        %o = OpVariable %to_block StorageBuffer
        %0 = OpConstant %u32 0
        %main = OpFunction %void None %function
        %start = OpLabel
        %p = OpAccessChain %to_word %o %0 %0
        %x = OpLoad %u32 %p
        %y = OpIAdd %u32 %x %x
        %c = OpULessThan %bool %x %y
        OpReturn
        OpFunctionEnd",
    );
    // Without OpReturn and OpFunctionEnd. What is before them has 6, 4, 5 and 5 words; the second one is the type, the third one the result.
    let mut module = start[..start.len() - 2].to_vec();
    let end = module.len();
    let (pointer, word, sum, condition) = (module[end - 18], module[end - 9], module[end - 8], module[end - 3]);
    let bound = start[3];
    let inst = |op: u32, words: &[u32]| [&[op | (words.len() as u32 + 1) << 16], words].concat();
    for level in 0..depth {
        let (then, merge, next) = (bound + level * 3, bound + level * 3 + 1, bound + level * 3 + 2);
        module.extend(inst(247, &[merge, 0]));
        module.extend(inst(250, &[condition, then, merge]));
        module.extend(inst(248, &[then]));
        module.extend(inst(128, &[word, next, sum, sum]));
        module.extend(inst(62, &[pointer, next]));
    }
    for level in (0..depth).rev() {
        let merge = bound + level * 3 + 1;
        module.extend(inst(249, &[merge]));
        module.extend(inst(248, &[merge]));
    }
    module.extend(inst(253, &[]));
    module.extend(inst(56, &[]));
    module[3] = bound + depth * 3;
    module
}

#[test]
fn a_thousand_selections_in_one_another_compile_and_a_hundred_thousand_are_refused() {
    let result = as_u32(&interpret(&deep(1023), [1, 1, 1], &[u32s(&[3])])[0]);
    assert_eq!(result, [12]);
    compile(&deep(1535), &Options::default()).expect("compiled");
    compile(&deep(1536), &Options::default()).expect_err("refused");
    let error = compile(&deep(100_000), &Options::default()).expect_err("refused");
    assert!(error.to_string().contains("control flow and calls nested deeper than"), "{error}");
}

#[test]
fn private_memory_of_a_lane_ends_at_4096_bytes_and_the_refusal_names_limit_and_need() {
    let indexed = |words: u32| {
        format!("uint t[{words}]; for (uint k = 0u; k < {words}u; k++) t[k] = k * i; o[i] = t[(i * 7u) % {words}u];")
    };
    assert_eq!(lanes("", &indexed(1024)), (0..64).map(|i| i * i * 7).collect::<Vec<u32>>());
    let error = compile(&shader("", &indexed(1025)), &Options::default()).expect_err("refused").to_string();
    assert!(error.contains("4100 bytes of private memory of a lane, at most 4096 are possible"), "{error}");
}

/// Variables of a function live as long as a call of it. [SPIR-V: Function storage class]
#[test]
fn calls_one_after_the_other_share_their_private_memory_and_calls_inside_of_calls_do_not() {
    let module = glsl(
        "layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) buffer Output { uint o[]; };
        uint inner(uint n) { uint q[256]; for (uint k = 0; k < 256; k++) q[k] = k * n; return q[n % 256]; }
        uint outer(uint n) {
            uint q[256];
            for (uint k = 0; k < 256; k++) q[k] = k + n;
            uint other = inner(n + 1);
            return q[n % 256] + other + q[(n * 7) % 256];
        }
        void main() {
            uint i = gl_LocalInvocationIndex, own[256];
            for (uint k = 0; k < 256; k++) own[k] = k ^ i;
            uint r = outer(i) + outer(i + 1) + outer(i + 2) + inner(i + 3) + inner(i + 4);
            o[i] = r + own[i] + own[255 - i];
        }",
    );
    let result = as_u32(&run(&module, [1, 1, 1], &[], &[u32s(&[0; 64])])[0]);
    let inner = |n: u32| n % 256 * n;
    let outer = |n: u32| n % 256 + n + inner(n + 1) + (n * 7) % 256 + n;
    for (i, value) in (0..).zip(result) {
        let r = outer(i) + outer(i + 1) + outer(i + 2) + inner(i + 3) + inner(i + 4);
        assert_eq!(value, r + ((255 - i) ^ i), "lane {i}");
    }
}

#[test]
fn switches_have_thousands_of_cases() {
    let cases: String = (0..10_000).map(|k| format!("case {}: r = {}u; break;", k * 3, k ^ 1)).collect();
    let body = format!("uint r = 7u; switch (i * 450u + i % 2u) {{ {cases} default: r += 4u; }} o[i] = r;");
    let expected = |i: u32| if i.is_multiple_of(2) && i * 150 < 10_000 { (i * 150) ^ 1 } else { 11 };
    assert_eq!(lanes("", &body), (0..64).map(expected).collect::<Vec<_>>());
    // The most pairs of a literal and a label that SPIR-V asks for.
    let labels = |from: u32| (from..16_383).step_by(3).map(|k| format!("case {k}:")).collect::<String>();
    let (first, second, third) = (labels(0), labels(1), labels(2));
    let body =
        format!("uint r = 0u; switch (i * 301u) {{ {first} r = 1u; break; {second} r = 5u; {third} r++; }} o[i] = r;");
    let expected = |i: u32| match i * 301 {
        16_383.. => 0,
        k if k % 3 == 1 => 6,
        _ => 1,
    };
    assert_eq!(lanes("", &body), (0..64).map(expected).collect::<Vec<_>>());
}

#[test]
fn structures_and_calls_nest() {
    let mut functions = "struct S0 { uint x; }; uint f0(uint x) { return x + 1u; }".to_string();
    for level in 1..250 {
        write!(functions, "struct S{level} {{ S{} y; uint z; }};", level - 1).expect("written");
        write!(functions, "uint f{level}(uint x) {{ return f{}(x) + 1u; }}", level - 1).expect("written");
    }
    let inner = ".y".repeat(249);
    let result = lanes(&functions, &format!("S249 s; s{inner}.x = i; s.y.z = 5u; o[i] = f249(s{inner}.x) + s.y.z;"));
    assert_eq!(result, (0..64).map(|i| i + 255).collect::<Vec<u32>>());
}
