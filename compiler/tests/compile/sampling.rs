//! Sampling with a projection: coordinates and reference are divided first. [Vulkan: Projection Operation]

use campanile_compiler::Options;
use campanile_compiler::record::{AddressMode, ImageRecord, Kind, LevelRecord, SamplerRecord, Texel};

use crate::bench::{BASE, as_f32, f32s, glsl, program, run_in};

const SIZE: u32 = 4;

/// Runs the body of a shader that has an image of 4 texels in each direction, whose texels are 1/16 of `x + 4 * y`.
fn sample(body: &str, results: usize) -> Vec<f32> {
    sampled("", body, results, 0.0)
}

/// As [`sample`], with a cube `cube` and an image `levels`, both of two levels: the texels of the second one are -1. The sampler has a bias.
fn sampled(extensions: &str, body: &str, results: usize, bias: f32) -> Vec<f32> {
    let module = glsl(&format!(
        "{extensions}
        layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) buffer O {{ float o[]; }};
        layout(set = 0, binding = 1) uniform sampler2D t;
        layout(set = 0, binding = 2) uniform sampler2DShadow s;
        layout(set = 0, binding = 3) uniform sampler2D levels;
        layout(set = 0, binding = 4) uniform samplerCube cube;
        void main() {{ float q = o[0]; {body} }}"
    ));
    let compiled = program(&module, &Options::default());
    let texels: Vec<f32> = (0..SIZE * SIZE).map(|texel| texel as f32 / 16.0).collect();
    let [output, texture, image, sampler] = [1024u64, 2048, 4096, 8192];
    let level = LevelRecord {
        address: BASE + texture,
        row_pitch: SIZE * 4,
        slice_pitch: SIZE * SIZE * 4,
        extent: [SIZE, SIZE, 1],
    };
    let second =
        LevelRecord { address: BASE + 12288, row_pitch: SIZE * 2, slice_pitch: SIZE * SIZE, extent: [SIZE / 2; 3] };
    let record = |levels: &[LevelRecord]| {
        let layers = |level: &LevelRecord| LevelRecord { extent: [level.extent[0], level.extent[1], 1], ..*level };
        ImageRecord { texel: Texel::new(Kind::Float, &[32]), levels: levels.iter().map(layers).collect() }
    };
    // All faces of the cube are one: the slices lie at one place.
    let face = |of: &LevelRecord| LevelRecord { slice_pitch: 0, extent: [of.extent[0], of.extent[1], 6], ..*of };
    let faces = ImageRecord { levels: vec![face(&level), face(&second)], ..record(&[]) };
    let state = SamplerRecord {
        magnify_linear: false,
        minify_linear: false,
        levels_linear: false,
        comparison: 1,
        addressing: [AddressMode::ClampToEdge; 3],
        unnormalized: false,
        bias,
        lod_min: 0.0,
        lod_max: 8.0,
        border: [0; 4],
    };
    let mut memory = vec![0; 16384];
    let mut put = |at: u64, bytes: &[u8]| memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    put(output, &f32s(&vec![2.0; results]));
    put(texture, &f32s(&texels));
    put(12288, &f32s(&[-1.0; (SIZE * SIZE / 4) as usize]));
    put(image, &record(&[level]).bytes());
    put(image + 1024, &record(&[level, second]).bytes());
    put(image + 2048, &faces.bytes());
    put(sampler, &state.bytes());
    for descriptor in &compiled.arguments.descriptors {
        let words = match descriptor.binding {
            0 => [BASE + output, results as u64 * 4],
            3 => [BASE + image + 1024, BASE + sampler],
            4 => [BASE + image + 2048, BASE + sampler],
            _ => [BASE + image, BASE + sampler],
        };
        put(descriptor.offset.into(), &words.map(u64::to_le_bytes).concat());
    }
    let memory = run_in(&compiled, [1, 1, 1], memory);
    as_f32(&memory[output as usize..][..results * 4])
}

#[test]
fn coordinates_are_divided_by_the_component_behind_them() {
    // 1.25 / 2 and 0.75 / 2 are in the texel (2, 1); the third one of four components is none of the coordinates.
    let body = "o[0] = textureProj(t, vec3(1.25, 0.75, q)).x;
        o[1] = textureProjLod(t, vec4(1.25, 0.75, 77.0, q), 0.0).x;
        o[2] = textureProjGrad(t, vec3(1.25, 0.75, q), vec2(0.1), vec2(0.1)).x;
        o[3] = textureProjLodOffset(t, vec3(1.25, 0.75, q), 0.0, ivec2(1, -1)).x;
        o[4] = textureProj(t, vec3(-1.25, -0.75, -q)).x;
        o[5] = textureProj(t, vec3(1.25, 0.75, q * 2.0)).x;";
    assert_eq!(sample(body, 6), [6.0, 6.0, 6.0, 3.0, 6.0, 1.0].map(|texel: f32| texel / 16.0));
}

#[test]
fn the_reference_is_divided_too() {
    // The texel is 6/16: the reference has to be less than it after the division.
    let body = "o[0] = textureProj(s, vec4(1.25, 0.75, 0.7, q));
        o[1] = textureProjLod(s, vec4(1.25, 0.75, 0.8, q), 0.0);
        o[2] = textureProjGrad(s, vec4(1.25, 0.75, 0.7, q), vec2(0.1), vec2(0.1));";
    assert_eq!(sample(body, 3), [1.0, 0.0, 1.0]);
}

/// "ConstOffsets": each of the four texels is the first one of the texels around a place of its own. [SPIR-V: Image Operands]
#[test]
fn four_offsets_gather_four_texels() {
    // The four texels around (2, 2) begin with the texel (1, 1).
    let body = "const ivec2 four[4] = ivec2[](ivec2(0, 0), ivec2(1, 0), ivec2(2, -1), ivec2(-1, 2));
        vec4 g = textureGatherOffsets(t, vec2(0.5), four);
        o[0] = g.x; o[1] = g.y; o[2] = g.z; o[3] = g.w;
        g = textureGatherOffsets(s, vec2(0.5), 0.4, four);
        o[4] = g.x; o[5] = g.y; o[6] = g.z; o[7] = g.w;
        g = textureGatherOffset(t, vec2(0.5), ivec2(1, 0));
        o[8] = g.x; o[9] = g.y; o[10] = g.z; o[11] = g.w;";
    let texels = [5.0, 6.0, 3.0, 12.0].map(|texel: f32| texel / 16.0);
    let compared = texels.map(|texel| if 0.4 < texel { 1.0 } else { 0.0 });
    let moved = [10.0, 11.0, 7.0, 6.0].map(|texel: f32| texel / 16.0);
    assert_eq!(sample(body, 12), [texels, compared, moved].concat());
}

/// "lambda_base + clamp(bias_sampler + bias_shaderOperand)" [Vulkan: Level-of-Detail Operation]
#[test]
fn levels_follow_the_operand_the_gradients_and_the_bias() {
    let body = "o[0] = textureLod(levels, vec2(0.1), 0.0).x;
        o[1] = textureLod(levels, vec2(0.1), 1.0).x;
        o[2] = textureLod(levels, vec2(0.1), 7.0).x;
        o[3] = textureGrad(levels, vec2(0.1), vec2(0.25, 0.0), vec2(0.0, 0.25)).x;
        o[4] = textureGrad(levels, vec2(0.1), vec2(0.0), vec2(0.0, 0.5)).x;
        o[5] = textureLodOffset(levels, vec2(0.1), 0.0, ivec2(1, 0)).x;
        o[6] = textureGradOffset(levels, vec2(0.1), vec2(0.0), vec2(0.0), ivec2(0, 2)).x;
        o[7] = texelFetch(levels, ivec2(1, 1), 1).x;
        o[8] = texelFetchOffset(levels, ivec2(1, 1), 0, ivec2(2, -1)).x;
        o[9] = texelFetchOffset(levels, ivec2(1, 1), 1, ivec2(1, 0)).x;
        o[10] = texelFetch(levels, ivec2(0, 0), 2).x;";
    let plain = [0.0, -1.0, -1.0, 0.0, -1.0, 1.0 / 16.0, 8.0 / 16.0, -1.0, 3.0 / 16.0, 0.0, 0.0];
    assert_eq!(sampled("", body, 11, 0.0), plain);
    // The bias is of what samples, and not of what fetches.
    let biased = [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 8.0 / 16.0, -1.0, 3.0 / 16.0, 0.0, 0.0];
    assert_eq!(sampled("", body, 11, 1.0), biased);
}

/// The gradients of a direction are those of the coordinates on its face. [Vulkan: Cube Map Derivative Transformation]
#[test]
fn gradients_of_a_direction_are_turned_onto_the_face() {
    let mut body = String::new();
    let none = "vec3(0.0)";
    for (index, (direction, x, y)) in [
        // Half a unit along the face is one texel of the first level, and a unit is two of them.
        ("vec3(1.0, 0.1, 0.1)", "vec3(0.0, 0.0, 0.5)", none),
        ("vec3(1.0, 0.1, 0.1)", "vec3(0.0, 0.0, 1.0)", none),
        ("vec3(0.1, -2.0, 0.1)", none, "vec3(1.0, 0.0, 0.0)"),
        ("vec3(0.1, -2.0, 0.1)", none, "vec3(2.0, 0.0, 0.0)"),
        ("vec3(0.1, 0.1, -1.0)", "vec3(0.0, 1.0, 0.0)", none),
        // Along the direction nothing moves on the face.
        ("vec3(0.5, 0.5, -1.0)", "vec3(4.0, 4.0, -8.0)", none),
        ("vec3(0.5, 0.5, -1.0)", "vec3(0.0, 0.0, -8.0)", none),
    ]
    .into_iter()
    .enumerate()
    {
        body += &format!("o[{index}] = textureGrad(cube, {direction}, {x}, {y}).x < 0.0 ? 1.0 : 0.0;");
    }
    assert_eq!(sampled("", &body, 7, 0.0), [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]);
}
