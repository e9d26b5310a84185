//! Sampling with a projection: coordinates and reference are divided first. [Vulkan: Projection Operation]

use campanile_compiler::Options;
use campanile_compiler::record::{AddressMode, ImageRecord, Kind, LevelRecord, SamplerRecord, Texel};

use crate::bench::{BASE, as_f32, f32s, glsl, program, run_in};

const SIZE: u32 = 4;

/// Runs the body of a shader that has an image of 4 texels in each direction, whose texels are 1/16 of `x + 4 * y`.
fn sample(body: &str, results: usize) -> Vec<f32> {
    let module = glsl(&format!(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) buffer O {{ float o[]; }};
        layout(set = 0, binding = 1) uniform sampler2D t;
        layout(set = 0, binding = 2) uniform sampler2DShadow s;
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
    let record = ImageRecord { texel: Texel::new(Kind::Float, &[32]), levels: vec![level] };
    let state = SamplerRecord {
        magnify_linear: false,
        minify_linear: false,
        levels_linear: false,
        comparison: 1,
        addressing: [AddressMode::ClampToEdge; 3],
        unnormalized: false,
        bias: 0.0,
        lod_min: 0.0,
        lod_max: 0.0,
        border: [0; 4],
    };
    let mut memory = vec![0; 16384];
    let mut put = |at: u64, bytes: &[u8]| memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    put(output, &f32s(&vec![2.0; results]));
    put(texture, &f32s(&texels));
    put(image, &record.bytes());
    put(sampler, &state.bytes());
    for descriptor in &compiled.arguments.descriptors {
        let words =
            if descriptor.binding == 0 { [BASE + output, results as u64 * 4] } else { [BASE + image, BASE + sampler] };
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
