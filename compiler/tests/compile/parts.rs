//! Modf, Frexp and Ldexp of GLSL.std.450, of zeros, subnormal numbers, infinities and NaNs too.

use campanile_hw::isa::{f16_to_f64, f64_to_f16};

use crate::bench::{as_u32, assemble, glsl, run, u32s};

/// A floating-point type: its name in GLSL, its bits as a number, and the nearest of it to a number.
struct Float {
    name: &'static str,
    of_bits: fn(u64) -> f64,
    to_bits: fn(f64) -> u64,
    bits: u32,
    mantissa: u32,
}

const FLOATS: [Float; 3] = [
    Float {
        name: "float16_t",
        of_bits: |bits| f16_to_f64(bits as u16),
        to_bits: |value| f64_to_f16(value).into(),
        bits: 16,
        mantissa: 10,
    },
    Float {
        name: "float",
        of_bits: |bits| f32::from_bits(bits as u32).into(),
        to_bits: |value| (value as f32).to_bits().into(),
        bits: 32,
        mantissa: 23,
    },
    Float { name: "double", of_bits: f64::from_bits, to_bits: f64::to_bits, bits: 64, mantissa: 52 },
];

impl Float {
    fn infinity(&self) -> u64 {
        (1 << (self.bits - 1)) - (1 << self.mantissa)
    }

    /// Numbers of every sort, and such as have any bits.
    fn samples(&self) -> Vec<u64> {
        let (unit, top) = (1u64 << self.mantissa, self.infinity());
        let one = (self.to_bits)(1.0);
        let mut all =
            vec![0, 1, 2, 3, unit / 2 - 1, unit - 1, unit, unit + 1, 2 * unit - 1, top - 1, top, top + unit / 2];
        all.extend([one, one - 1, one + 1, one + unit, one - unit, one + unit / 2, (self.to_bits)(5.75)]);
        let mut random = fastrand::Rng::with_seed(self.bits.into());
        all.extend((0..45).map(|_| random.u64(..) & ((1 << (self.bits - 1)) - 1)));
        let sign = 1u64 << (self.bits - 1);
        all.iter().flat_map(|bits| [*bits, *bits | sign]).collect()
    }

    fn assert(&self, what: &str, x: u64, found: u64, expected: f64) {
        if expected.is_nan() {
            assert!((self.of_bits)(found).is_nan(), "{what} of the {} {x:#x}: {found:#x}", self.name);
        } else {
            let expected = (self.to_bits)(expected);
            assert_eq!(found, expected, "{what} of the {} {x:#x}: {found:#x}, not {expected:#x}", self.name);
        }
    }

    /// Runs a body for each pair of a number and a power of two; three results of 64 bits each.
    fn run(&self, body: &str, inputs: &[(u64, i32)]) -> Vec<[u64; 3]> {
        let (to, from) = match self.bits {
            16 => ("uint64_t(float16BitsToUint16(v))", "uint16BitsToFloat16(uint16_t(bits[i]))"),
            32 => ("uint64_t(floatBitsToUint(v))", "uintBitsToFloat(uint(bits[i]))"),
            _ => ("doubleBitsToUint64(v)", "uint64BitsToDouble(bits[i])"),
        };
        let module = glsl(&format!(
            "#extension GL_EXT_shader_explicit_arithmetic_types : require
            layout(local_size_x = 64) in;
            layout(set = 0, binding = 0) readonly buffer A {{ uint64_t bits[]; }};
            layout(set = 0, binding = 1) readonly buffer B {{ int powers[]; }};
            layout(set = 0, binding = 2) buffer C {{ uint64_t o[]; }};
            uint64_t raw({0} v) {{ return {to}; }}
            void main() {{
                uint i = gl_GlobalInvocationID.x; if (i >= bits.length()) return;
                {0} x = {from}; {0} y = x; int n = powers[i];
                {body}
            }}",
            self.name
        ));
        let long = |words: Vec<u64>| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let bits = long(inputs.iter().map(|input| input.0).collect());
        let powers = inputs.iter().flat_map(|input| input.1.to_le_bytes()).collect();
        let grid = [inputs.len().div_ceil(64) as u32, 1, 1];
        let found = run(&module, grid, &[], &[bits, powers, long(vec![0; inputs.len() * 3])]);
        let (words, _) = found[2].as_chunks::<8>();
        words.as_chunks::<3>().0.iter().map(|three| three.map(u64::from_le_bytes)).collect()
    }
}

/// The significand and the exponent of a number, as C's frexp.
fn frexp(mut x: f64) -> (f64, i32) {
    let mut exponent = 0;
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    while x.abs() >= 1.0 {
        (x, exponent) = (x / 2.0, exponent + 1);
    }
    while x.abs() < 0.5 {
        (x, exponent) = (x * 2.0, exponent - 1);
    }
    (x, exponent)
}

/// A number times a power of two. Only the last product rounds.
fn ldexp(x: f64, power: i32) -> f64 {
    let (significand, exponent) = frexp(x);
    let exponent = exponent + power.clamp(-5000, 5000);
    match exponent {
        ..-1000 => significand * 2f64.powi((exponent + 200).max(-1021)) * 2f64.powi(-200),
        -1000..1000 => significand * 2f64.powi(exponent),
        _ => significand * 2f64.powi(1000) * 2f64.powi((exponent - 1000).min(1000)),
    }
}

#[test]
fn modf_keeps_signs_and_infinities() {
    for float in FLOATS {
        let inputs: Vec<(u64, i32)> = float.samples().iter().map(|x| (*x, 0)).collect();
        let found = float.run("o[i * 3] = raw(modf(x, y)); o[i * 3 + 1] = raw(y);", &inputs);
        for ((bits, _), [fraction, whole, _]) in inputs.iter().zip(found) {
            let x = (float.of_bits)(*bits);
            let expected = if x.is_infinite() { 0f64 } else { x - x.trunc() };
            float.assert("fraction", *bits, fraction, expected.copysign(x));
            float.assert("whole", *bits, whole, x.trunc());
        }
    }
}

#[test]
fn frexp_takes_every_number_apart() {
    for float in FLOATS {
        let inputs: Vec<(u64, i32)> = float.samples().iter().map(|x| (*x, 0)).collect();
        let found = float.run("o[i * 3] = raw(frexp(x, n)); o[i * 3 + 1] = uint64_t(uint(n));", &inputs);
        for ((bits, _), [significand, exponent, _]) in inputs.iter().zip(found) {
            let (expected, power) = frexp((float.of_bits)(*bits));
            float.assert("significand", *bits, significand, expected);
            assert_eq!(exponent as u32 as i32, power, "exponent of the {} {bits:#x}", float.name);
        }
    }
}

#[test]
fn ldexp_rounds_once_and_saturates() {
    for float in FLOATS {
        let around = 1 << (float.bits.min(63) / 8 + 2);
        let powers = [0, 1, -1, 2, 23, -23, around, -around, 2100, -2100, i32::MAX, i32::MIN];
        let mut random = fastrand::Rng::with_seed(7);
        let mut inputs = Vec::new();
        for x in float.samples() {
            let near = frexp((float.of_bits)(x)).1;
            let least = frexp((float.of_bits)(1)).1;
            inputs.extend(powers.map(|power| (x, power)));
            // Results around the smallest number.
            inputs.extend((0..8).map(|_| (x, least - near + random.i32(-3..=float.mantissa as i32 + 2))));
        }
        let found = float.run("o[i * 3] = raw(ldexp(x, n));", &inputs);
        for ((bits, power), [value, ..]) in inputs.iter().zip(found) {
            float.assert(&format!("ldexp by {power}"), *bits, value, ldexp((float.of_bits)(*bits), *power));
        }
    }
}

#[test]
fn modf_and_frexp_write_through_pointers() {
    let module = assemble(
        "OpCapability Shader
        %std = OpExtInstImport \"GLSL.std.450\"
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
        %u32 = OpTypeInt 32 0
        %i32 = OpTypeInt 32 1
        %f32 = OpTypeFloat 32
        %words = OpTypeRuntimeArray %u32
        %block = OpTypeStruct %words
        %to_block = OpTypePointer StorageBuffer %block
        %to_word = OpTypePointer StorageBuffer %u32
        %to_f32 = OpTypePointer Function %f32
        %to_i32 = OpTypePointer Function %i32
        %o = OpVariable %to_block StorageBuffer
        %0 = OpConstant %u32 0
        %1 = OpConstant %u32 1
        %2 = OpConstant %u32 2
        %3 = OpConstant %u32 3
        %main = OpFunction %void None %function
        %start = OpLabel
        %whole = OpVariable %to_f32 Function
        %power = OpVariable %to_i32 Function
        %p0 = OpAccessChain %to_word %o %0 %0
        %p1 = OpAccessChain %to_word %o %0 %1
        %p2 = OpAccessChain %to_word %o %0 %2
        %p3 = OpAccessChain %to_word %o %0 %3
        %bits = OpLoad %u32 %p0
        %x = OpBitcast %f32 %bits
        %fraction = OpExtInst %f32 %std Modf %x %whole
        %significand = OpExtInst %f32 %std Frexp %x %power
        %w = OpLoad %f32 %whole
        %n = OpLoad %i32 %power
        %r0 = OpBitcast %u32 %fraction
        %r1 = OpBitcast %u32 %w
        %r2 = OpBitcast %u32 %significand
        %r3 = OpBitcast %u32 %n
        OpStore %p0 %r0
        OpStore %p1 %r1
        OpStore %p2 %r2
        OpStore %p3 %r3
        OpReturn
        OpFunctionEnd",
    );
    let found = as_u32(&run(&module, [1, 1, 1], &[], &[u32s(&[(-5.75f32).to_bits(), 0, 0, 0])])[0]);
    assert_eq!(found, [(-0.75f32).to_bits(), (-5f32).to_bits(), (-0.71875f32).to_bits(), 3]);
}
