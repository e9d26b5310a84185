//! Dot products of integers, of vectors and of packed words, with and without an accumulator. [SPV_KHR_integer_dot_product]

use campanile_compiler::{Options, compile};

use crate::bench::{as_u32, assemble, glsl, run, u32s};

const LANES: u32 = 64;

/// Words of which some are all ones, all zeros, or of the greatest and the least bytes.
fn drawn(seed: u64) -> Vec<u32> {
    let mut draw = fastrand::Rng::with_seed(seed);
    let special = [0, u32::MAX, 0x8080_8080, 0x7f7f_7f7f, 0x8000_0000, 0x7fff_ffff, 0x8000_7fff];
    (0..LANES).map(|_| if draw.bool() { draw.u32(..) } else { special[draw.usize(0..special.len())] }).collect()
}

/// Runs statements for each lane `i`, with the words `a[i]`, `b[i]` and `c[i]` and a result `o[i]`; `sdot` to `sudot_sat` are the instructions for the types.
fn lanes(types: &str, body: &str) -> Vec<u32> {
    let mut instructions = String::new();
    for line in types.lines().filter(|line| !line.trim().is_empty()) {
        let [name, number, parameters] =
            line.trim().splitn(3, ' ').collect::<Vec<_>>()[..].try_into().expect("three words");
        let (result, name) = name.split_once(':').expect("a type and a name");
        instructions += &format!(
            "spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6016, 6017, 6018, 6019], id = {number})
            {result} {name}({parameters});"
        );
    }
    let module = glsl(&format!(
        "#extension GL_EXT_spirv_intrinsics : require
        #extension GL_EXT_shader_explicit_arithmetic_types : require
        layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) buffer A {{ uint a[]; }};
        layout(set = 0, binding = 1) buffer B {{ uint b[]; }};
        layout(set = 0, binding = 2) buffer C {{ uint c[]; }};
        layout(set = 0, binding = 3) buffer O {{ uint o[]; }};
        {instructions}
        void main() {{ uint i = gl_LocalInvocationIndex; {body} }}"
    ));
    let all = [drawn(1), drawn(2), drawn(3), vec![0xdead; LANES as usize]].map(|words| u32s(&words));
    as_u32(&run(&module, [1, 1, 1], &[], &all)[3])
}

/// Compares the results of [`lanes`] with those of a function of three words.
fn expect(result: &[u32], expected: impl Fn(u32, u32, u32) -> u32) {
    let (a, b, c) = (drawn(1), drawn(2), drawn(3));
    for (i, value) in result.iter().enumerate() {
        let (a, b, c) = (a[i], b[i], c[i]);
        assert_eq!(*value, expected(a, b, c), "{a:#x} {b:#x} {c:#x}");
    }
}

fn bytes(word: u32, signed: bool) -> [i64; 4] {
    word.to_le_bytes().map(|byte| if signed { i64::from(byte as i8) } else { i64::from(byte) })
}

fn dot<const N: usize>(a: [i64; N], b: [i64; N]) -> i64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// "each component is sign-extended, or zero-extended, to the bit width of the result's type"
#[test]
fn words_of_four_bytes() {
    let packed = "int:sdot 4450 int x, int y, spirv_literal int format
        uint:udot 4451 uint x, uint y, spirv_literal int format
        int:sudot 4452 int x, uint y, spirv_literal int format";
    expect(&lanes(packed, "o[i] = uint(sdot(int(a[i]), int(b[i]), 0));"), |a, b, _| {
        dot(bytes(a, true), bytes(b, true)) as u32
    });
    expect(&lanes(packed, "o[i] = udot(a[i], b[i], 0);"), |a, b, _| dot(bytes(a, false), bytes(b, false)) as u32);
    expect(&lanes(packed, "o[i] = uint(sudot(int(a[i]), b[i], 0));"), |a, b, _| {
        dot(bytes(a, true), bytes(b, false)) as u32
    });
}

/// "the sum is added to the accumulator with saturation"
#[test]
fn the_accumulator_saturates() {
    let packed = "int:sdot 4453 int x, int y, int z, spirv_literal int format
        uint:udot 4454 uint x, uint y, uint z, spirv_literal int format
        int:sudot 4455 int x, uint y, int z, spirv_literal int format";
    let signed = |sum: i64, c: u32| (sum + i64::from(c as i32)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32;
    expect(&lanes(packed, "o[i] = uint(sdot(int(a[i]), int(b[i]), int(c[i]), 0));"), |a, b, c| {
        signed(dot(bytes(a, true), bytes(b, true)), c)
    });
    expect(&lanes(packed, "o[i] = udot(a[i], b[i], c[i], 0);"), |a, b, c| {
        (dot(bytes(a, false), bytes(b, false)) as u32).saturating_add(c)
    });
    expect(&lanes(packed, "o[i] = uint(sudot(int(a[i]), b[i], int(c[i]), 0));"), |a, b, c| {
        signed(dot(bytes(a, true), bytes(b, false)), c)
    });
}

/// Vectors of other widths, into results that are wider, and as wide.
#[test]
fn vectors_of_every_width() {
    let vectors = "int64_t:wide 4450 i16vec2 x, i16vec2 y
        uint:words 4451 uvec3 x, uvec3 y
        int16_t:narrow 4453 i8vec2 x, i8vec2 y, int16_t z
        uint16_t:unsigned_narrow 4454 u8vec2 x, u8vec2 y, uint16_t z
        int64_t:wide_sum 4455 i16vec2 x, u16vec2 y, int64_t z";
    let halves = |word: u32| [word as i16, (word >> 16) as i16].map(i64::from);
    let unsigned = |word: u32| [word as u16, (word >> 16) as u16].map(i64::from);
    let two = |word: u32| [word as i8, (word >> 8) as i8].map(i64::from);
    let result =
        lanes(vectors, "int64_t r = wide(unpack16(int(a[i])), unpack16(int(b[i]))); o[i] = uint(r) ^ uint(r >> 32);");
    expect(&result, |a, b, _| {
        let sum = dot(halves(a), halves(b));
        sum as u32 ^ (sum >> 32) as u32
    });
    let result = lanes(vectors, "o[i] = words(uvec3(a[i], b[i], c[i]), uvec3(b[i], c[i], a[i]));");
    expect(&result, |a, b, c| a.wrapping_mul(b).wrapping_add(b.wrapping_mul(c)).wrapping_add(c.wrapping_mul(a)));
    let result =
        lanes(vectors, "o[i] = uint(int(narrow(unpack8(int16_t(a[i])), unpack8(int16_t(b[i])), int16_t(c[i]))));");
    expect(&result, |a, b, c| {
        let sum = dot(two(a), two(b)) as i16;
        i32::from(sum.saturating_add(c as i16)) as u32
    });
    let result = lanes(
        vectors,
        "o[i] = uint(unsigned_narrow(unpack8(uint16_t(a[i] & 0x7f7fu)), unpack8(uint16_t(b[i])), uint16_t(c[i])));",
    );
    expect(&result, |a, b, c| {
        let pair = |word: u32| [u16::from(word as u8), u16::from((word >> 8) as u8)];
        let ([x, y], [z, w]) = (pair(a & 0x7f7f), pair(b));
        u32::from((x * z).wrapping_add(y * w).saturating_add(c as u16))
    });
    let result = lanes(
        vectors,
        "int64_t z = int64_t(uint64_t(c[i]) << 32 | 0x7fffffffu);
        int64_t r = wide_sum(unpack16(int(a[i])), unpack16(b[i]), z); o[i] = uint(r) ^ uint(r >> 32);",
    );
    expect(&result, |a, b, c| {
        let z = (u64::from(c) << 32 | 0x7fff_ffff) as i64;
        let sum = dot(halves(a), unsigned(b)).saturating_add(z);
        sum as u32 ^ (sum >> 32) as u32
    });
}

/// A scalar is a packed word only with a format that says how.
#[test]
fn words_in_another_format_are_refused() {
    let mut module = assemble(
        "OpCapability Shader
        OpCapability DotProduct
        OpCapability DotProductInput4x8BitPacked
        OpExtension \"SPV_KHR_integer_dot_product\"
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main \"main\"
        OpExecutionMode %main LocalSize 1 1 1
        %void = OpTypeVoid
        %function = OpTypeFunction %void
        %u32 = OpTypeInt 32 0
        %word = OpConstant %u32 3
        %main = OpFunction %void None %function
        %start = OpLabel
        %sum = OpUDot %u32 %word %word PackedVectorFormat4x8Bit
        OpReturn
        OpFunctionEnd",
    );
    compile(&module, &Options::default()).expect("compiled");
    let at = module.iter().position(|word| *word == 6 << 16 | 4451).expect("OpUDot");
    module[at + 5] = 7;
    let error = compile(&module, &Options::default()).expect_err("refused").to_string();
    assert!(error.contains("PackedVectorFormat4x8Bit"), "{error}");
}
