//! Images and samplers: what shaders read, write, fetch and sample, compared with the same on the processor.

use ash::vk;

use crate::kit::{Bench, Made, Recipe, STORAGE, glsl};
use crate::picture::{Picture, Sketch, everything, layers};

type Format = vk::Format;
type View = vk::ImageViewType;

const STORED: vk::DescriptorType = vk::DescriptorType::STORAGE_IMAGE;
pub(crate) const COMBINED: vk::DescriptorType = vk::DescriptorType::COMBINED_IMAGE_SAMPLER;

/// How the test reads components: `u`, `s` for normalized ones, `U`, `S` for integers, `f` for floating point; and their bits, the lowest first.
type Layout = (char, &'static [u32]);

/// Formats that shaders store, by their names in GLSL.
const STORED_FORMATS: [(&str, Format, Layout); 20] = [
    ("rgba8", Format::R8G8B8A8_UNORM, ('u', &[8; 4])),
    ("rgba8_snorm", Format::R8G8B8A8_SNORM, ('s', &[8; 4])),
    ("rgba8ui", Format::R8G8B8A8_UINT, ('U', &[8; 4])),
    ("rgba8i", Format::R8G8B8A8_SINT, ('S', &[8; 4])),
    ("rgba16ui", Format::R16G16B16A16_UINT, ('U', &[16; 4])),
    ("rgba16i", Format::R16G16B16A16_SINT, ('S', &[16; 4])),
    ("rgba16f", Format::R16G16B16A16_SFLOAT, ('f', &[16; 4])),
    ("rgba16", Format::R16G16B16A16_UNORM, ('u', &[16; 4])),
    ("rgba16_snorm", Format::R16G16B16A16_SNORM, ('s', &[16; 4])),
    ("r32ui", Format::R32_UINT, ('U', &[32])),
    ("r32i", Format::R32_SINT, ('S', &[32])),
    ("r32f", Format::R32_SFLOAT, ('f', &[32])),
    ("rg32ui", Format::R32G32_UINT, ('U', &[32; 2])),
    ("rg32f", Format::R32G32_SFLOAT, ('f', &[32; 2])),
    ("rgba32ui", Format::R32G32B32A32_UINT, ('U', &[32; 4])),
    ("rgba32f", Format::R32G32B32A32_SFLOAT, ('f', &[32; 4])),
    ("r8", Format::R8_UNORM, ('u', &[8])),
    ("rg16f", Format::R16G16_SFLOAT, ('f', &[16; 2])),
    ("rgb10_a2", Format::A2B10G10R10_UNORM_PACK32, ('u', &[10, 10, 10, 2])),
    ("r11f_g11f_b10f", Format::B10G11R11_UFLOAT_PACK32, ('f', &[11, 11, 10])),
];

/// A floating-point number of a few bits: exponents of 5 bits, a sign if there are 16.
fn small_float(bits: u32, count: u32) -> f32 {
    let mantissa_bits = if count == 16 { 10 } else { count - 5 };
    let (mantissa, exponent) = (bits & ((1 << mantissa_bits) - 1), bits >> mantissa_bits & 31);
    let sign = if count == 16 && bits >> 15 != 0 { -1.0 } else { 1.0 };
    let fraction = mantissa as f32 / (1 << mantissa_bits) as f32;
    sign * if exponent == 0 { fraction * 2f32.powi(-14) } else { (1.0 + fraction) * 2f32.powi(exponent as i32 - 15) }
}

/// The components of a texel, as bits of what a shader reads.
fn components(texel: u128, (kind, counts): Layout) -> [u32; 4] {
    let one = if kind.is_uppercase() { 1 } else { 1f32.to_bits() };
    let (mut all, mut first) = ([0, 0, 0, one], 0);
    for (place, count) in all.iter_mut().zip(counts) {
        let raw = (texel >> first) as u32 & (u32::MAX >> (32 - count));
        let signed = (raw << (32 - count)) as i32 >> (32 - count);
        *place = match (kind, count) {
            ('U', _) | ('f', 32) => raw,
            ('S', _) => signed as u32,
            ('u', _) => (raw as f32 / (u32::MAX >> (32 - count)) as f32).to_bits(),
            ('s', _) => (signed as f32 / (u32::MAX >> (33 - count)) as f32).max(-1.0).to_bits(),
            _ => small_float(raw, *count).to_bits(),
        };
        first += count;
    }
    all
}

/// Texels of bytes that differ, without what has several codes or no number: the smallest signed numbers, infinities, NaN.
fn texels(count: u32, (kind, counts): Layout) -> Vec<u128> {
    let mut state = 0x9e37_79b9u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 3 ^ state << 11
    };
    let mut one = || {
        let mut first = 0;
        counts.iter().fold(0u128, |texel, count| {
            let mut raw = next() & (u32::MAX >> (32 - count));
            if kind == 's' && raw == 1 << (count - 1) {
                raw = 0;
            }
            if kind == 'f' {
                // The highest bit of the exponent goes.
                raw &= !(1 << if *count == 32 || *count == 16 { count - 2 } else { count - 1 });
            }
            first += count;
            texel | u128::from(raw) << (first - count)
        })
    };
    (0..count).map(|_| one()).collect()
}

/// Texels as the words of a buffer.
fn words(texels: &[u128], bits: u32) -> Vec<u32> {
    let bytes: Vec<u8> = texels.iter().flat_map(|texel| texel.to_le_bytes()[..bits as usize / 8].to_vec()).collect();
    bytes.chunks(4).map(|word| word.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte))).collect()
}

#[test]
fn every_stored_format_is_read_and_written_as_its_bits_say() {
    let bench = Bench::new();
    for (name, format, layout) in STORED_FORMATS {
        let prefix = match layout.0 {
            'U' => "u",
            'S' => "i",
            _ => "",
        };
        let module = glsl(&format!(
            "layout(local_size_x = 8, local_size_y = 4) in;
            layout(set = 0, binding = 0, {name}) readonly uniform {prefix}image2D source;
            layout(set = 0, binding = 1, {name}) writeonly uniform {prefix}image2D target;
            layout(set = 0, binding = 2) buffer Data {{ {prefix}vec4 data[]; }};
            void main() {{
                ivec2 at = ivec2(gl_GlobalInvocationID.xy);
                {prefix}vec4 texel = imageLoad(source, at);
                data[at.y * 8 + at.x] = texel;
                imageStore(target, at, texel);
            }}"
        ));
        let kernel = bench.make(&Recipe::new(&module, &[STORED, STORED, STORAGE])).expect("a pipeline");
        let sketch = Sketch::plain(format, View::TYPE_2D, [8, 4, 1]);
        let (source, target) = (bench.picture(sketch), bench.picture(sketch));
        let (all, bits) = (texels(32, layout), layout.1.iter().sum());
        let (before, after) = (bench.words(&words(&all, bits)), bench.words(&vec![0; words(&all, bits).len()]));
        bench.transfer(&before, &source, 0, true);
        let data = bench.words(&[0; 4 * 32]);
        let pictures = [(&source, STORED), (&target, STORED)];
        bench.run_set(&kernel, bench.picture_set(&kernel, &pictures, vk::Sampler::null(), &[&data]), [1, 1, 1]);
        let expected: Vec<u32> = all.iter().flat_map(|texel| components(*texel, layout)).collect();
        assert_eq!(data.read(), expected, "{name}");
        bench.transfer(&after, &target, 0, false);
        assert_eq!(after.read(), before.read(), "{name}");
    }
}

/// A store converts as the format of the view says, whether the module names it or not. [Vulkan: Texel Output Format Conversion]
#[test]
fn a_store_without_a_format_in_the_shader_is_that_of_the_view() {
    let bench = Bench::new();
    for (name, format, layout) in STORED_FORMATS {
        let (prefix, values) = match layout.0 {
            'U' => ("u", "uvec4(data[0], 300u, 70000u, 9u)"),
            'S' => ("i", "ivec4(-int(data[0]), 300, -70000, 9)"),
            _ => ("", "vec4(2.5 * float(data[0]), -3.0, 0.3, 0.7)"),
        };
        let module = glsl(&format!(
            "layout(local_size_x = 1) in;
            layout(set = 0, binding = 0, {name}) writeonly uniform {prefix}image2D named;
            layout(set = 0, binding = 1) writeonly uniform {prefix}image2D unnamed;
            layout(set = 0, binding = 2) buffer Data {{ uint data[]; }};
            void main() {{
                {prefix}vec4 values = {values};
                for (int x = 0; x < 5; ++x) {{
                    imageStore(named, ivec2(x, 1), values);
                    imageStore(unnamed, ivec2(x, 1), values);
                    values = values.yzwx;
                }}
            }}"
        ));
        let kernel = bench.make(&Recipe::new(&module, &[STORED, STORED, STORAGE])).expect("a pipeline");
        // The fifth column is outside.
        let sketch = Sketch::plain(format, View::TYPE_2D, [4, 2, 1]);
        let pictures = [bench.picture(sketch), bench.picture(sketch)];
        let bits = layout.1.iter().sum();
        let data = bench.words(&[1; 4]);
        let filled = bench.words(&vec![0x5a5a_5a5a; words(&[0; 8], bits).len()]);
        pictures.iter().for_each(|picture| bench.transfer(&filled, picture, 0, true));
        let [named, unnamed] = pictures.each_ref();
        let set = bench.picture_set(&kernel, &[(named, STORED), (unnamed, STORED)], vk::Sampler::null(), &[&data]);
        bench.run_set(&kernel, set, [1, 1, 1]);
        let read = pictures.each_ref().map(|picture| {
            bench.transfer(&filled, picture, 0, false);
            filled.read()
        });
        assert_eq!(read[0], read[1], "{name}");
        assert_ne!(read[0][read[0].len() / 2..], vec![0x5a5a_5a5a; read[0].len() / 2], "{name}");
    }
}

/// Samplers of these tests.
pub(crate) fn sampler(filter: vk::Filter, mode: vk::SamplerAddressMode) -> vk::SamplerCreateInfo<'static> {
    let mip = if filter == vk::Filter::LINEAR { vk::SamplerMipmapMode::LINEAR } else { vk::SamplerMipmapMode::NEAREST };
    vk::SamplerCreateInfo::default()
        .mag_filter(filter)
        .min_filter(filter)
        .mipmap_mode(mip)
        .address_mode_u(mode)
        .address_mode_v(mode)
        .address_mode_w(mode)
        .border_color(vk::BorderColor::FLOAT_OPAQUE_WHITE)
        .max_lod(vk::LOD_CLAMP_NONE)
}

#[test]
fn formats_that_are_only_sampled_have_their_components_in_order() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) uniform sampler2D source;
        layout(set = 0, binding = 1) buffer Data { vec4 data[]; };
        void main() { data[gl_WorkGroupID.x] = texelFetch(source, ivec2(gl_WorkGroupID.x, 0), 0); }",
    );
    let kernel = bench.make(&Recipe::new(&module, &[COMBINED, STORAGE])).expect("a pipeline");
    let sampler = bench.sampler(&sampler(vk::Filter::NEAREST, vk::SamplerAddressMode::REPEAT));
    let near = |value: f32, expected: f32| (value - expected).abs() < 1e-5;
    for (format, texel, expected) in [
        (Format::B8G8R8A8_UNORM, 0x80ff_3300, [1.0, 0.2, 0.0, 128.0 / 255.0]),
        (Format::R8G8B8A8_SRGB, 0x8000_ff80, [0.215_860_5, 1.0, 0.0, 128.0 / 255.0]),
        (Format::R5G6B5_UNORM_PACK16, 0xf81f, [1.0, 0.0, 1.0, 1.0]),
        (Format::A1R5G5B5_UNORM_PACK16, 0x83e0, [0.0, 1.0, 0.0, 1.0]),
        (Format::B4G4R4A4_UNORM_PACK16, 0xf0a5, [10.0 / 15.0, 0.0, 1.0, 5.0 / 15.0]),
        (Format::E5B9G9R9_UFLOAT_PACK32, 16 << 27 | 3 << 18 | 2 << 9 | 256, [1.0, 2.0 / 256.0, 3.0 / 256.0, 1.0]),
    ] {
        let picture = bench.picture(Sketch::plain(format, View::TYPE_2D, [2, 1, 1]));
        let bits = if format.as_raw() <= Format::A1R5G5B5_UNORM_PACK16.as_raw() { 16 } else { 32 };
        bench.transfer(&bench.words(&words(&[texel, texel], bits)), &picture, 0, true);
        let data = bench.words(&[0; 12]);
        // The third texel is outside, where components are 0 and a missing alpha may be 1.
        bench.run_set(&kernel, bench.picture_set(&kernel, &[(&picture, COMBINED)], sampler, &[&data]), [3, 1, 1]);
        let read: Vec<f32> = data.read().into_iter().map(f32::from_bits).collect();
        for place in [&read[..4], &read[4..8]] {
            assert!(place.iter().zip(expected).all(|(value, wanted)| near(*value, wanted)), "{format:?}: {read:?}");
        }
        assert!(read[8..11] == [0.0; 3] && (read[11] == 0.0 || read[11] == 1.0), "{format:?}: {read:?}");
    }
}

/// A coordinate as an address mode has it; `None` for the border.
fn wrapped(at: i64, size: i64, mode: vk::SamplerAddressMode) -> Option<i64> {
    match mode {
        vk::SamplerAddressMode::REPEAT => Some(at.rem_euclid(size)),
        vk::SamplerAddressMode::MIRRORED_REPEAT => {
            let at = at.rem_euclid(2 * size);
            Some(if at < size { at } else { 2 * size - 1 - at })
        }
        vk::SamplerAddressMode::CLAMP_TO_EDGE => Some(at.clamp(0, size - 1)),
        vk::SamplerAddressMode::MIRROR_CLAMP_TO_EDGE => Some((if at < 0 { -1 - at } else { at }).min(size - 1)),
        _ => (0..size).contains(&at).then_some(at),
    }
}

/// The value that a sampler reads from a level of single components.
fn sampled(level: &[f32], extent: [i64; 3], at: [f32; 3], linear: bool, mode: vk::SamplerAddressMode) -> f32 {
    let mut sum = 0.0;
    for corner in 0..8 {
        let (mut weight, mut place) = (1.0, Some(0));
        for (dimension, step) in [(0, 1), (1, extent[0]), (2, extent[0] * extent[1])] {
            let size = extent[dimension];
            let texels = at[dimension] * size as f32 - if linear { 0.5 } else { 0.0 };
            let second = corner >> dimension & 1;
            let fraction = if linear { texels - texels.floor() } else { 0.0 };
            weight *= if second == 1 { fraction } else { 1.0 - fraction };
            // A dimension that there is not is one texel, as the edge has it.
            let mode = if size == 1 { vk::SamplerAddressMode::CLAMP_TO_EDGE } else { mode };
            let along = wrapped(texels.floor() as i64 + second, size, mode);
            place = place.zip(along).map(|(place, along)| place + along * step);
        }
        if weight != 0.0 {
            sum += weight * place.map_or(1.0, |place| level[place as usize]);
        }
    }
    sum
}

#[test]
fn samplers_filter_and_wrap_in_one_two_and_three_dimensions() {
    let bench = Bench::new();
    type Mode = vk::SamplerAddressMode;
    let points: Vec<f32> = (0..24).map(|i| -1.35 + i as f32 * 0.155).collect();
    let push: Vec<u32> = points.iter().map(|point| point.to_bits()).collect();
    for (kind, name, place, extent) in [
        (View::TYPE_1D, "sampler1D", "p.x", [7, 1, 1]),
        (View::TYPE_2D, "sampler2D", "p.xy", [7, 5, 1]),
        (View::TYPE_3D, "sampler3D", "p", [7, 5, 3]),
    ] {
        let module = glsl(&format!(
            "layout(local_size_x = 1) in;
            layout(set = 0, binding = 0) uniform {name} source;
            layout(set = 0, binding = 1) buffer Points {{ float points[]; }};
            layout(set = 0, binding = 2) buffer Data {{ float data[]; }};
            void main() {{
                uint i = gl_WorkGroupID.x;
                vec3 p = vec3(points[i], points[(i + 5) % 24], points[(i + 11) % 24]);
                data[i] = textureLod(source, {place}, 0.0).x;
            }}"
        ));
        let kernel = bench.make(&Recipe::new(&module, &[COMBINED, STORAGE, STORAGE])).expect("a pipeline");
        let picture = bench.picture(Sketch::plain(Format::R32_SFLOAT, kind, extent));
        let level: Vec<f32> = (0..extent.iter().product()).map(|i: u32| ((i * 37) % 101) as f32 * 0.25).collect();
        let bits: Vec<u32> = level.iter().map(|value| value.to_bits()).collect();
        bench.transfer(&bench.words(&bits), &picture, 0, true);
        let modes = [
            Mode::REPEAT,
            Mode::MIRRORED_REPEAT,
            Mode::CLAMP_TO_EDGE,
            Mode::CLAMP_TO_BORDER,
            Mode::MIRROR_CLAMP_TO_EDGE,
        ];
        for mode in modes {
            for filter in [vk::Filter::NEAREST, vk::Filter::LINEAR] {
                let (data, input) = (bench.words(&[0; 24]), bench.words(&push));
                let sampler = bench.sampler(&sampler(filter, mode));
                let set = bench.picture_set(&kernel, &[(&picture, COMBINED)], sampler, &[&input, &data]);
                bench.run_set(&kernel, set, [24, 1, 1]);
                for (i, value) in data.read().into_iter().map(f32::from_bits).enumerate() {
                    let at = [points[i], points[(i + 5) % 24], points[(i + 11) % 24]];
                    let at = [0, 1, 2].map(|d| if extent[d] == 1 { 0.5 } else { at[d] });
                    let linear = filter == vk::Filter::LINEAR;
                    let expected = sampled(&level, extent.map(i64::from), at, linear, mode);
                    assert!((value - expected).abs() < 1e-3, "{name} {mode:?} {filter:?} {i}: {value}, {expected}");
                }
            }
        }
    }
}

/// "One component color format: Color_r = B_r": what a format lacks is as in any texel, 0 or 1. [Vulkan: Border Texel Components After Replacement]
#[test]
fn a_border_has_the_components_of_the_format_and_no_others() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) uniform sampler2D source;
        layout(set = 0, binding = 1) buffer Data { vec4 data[]; };
        void main() {
            data[0] = textureLod(source, vec2(-1.0), 0);
            data[1] = textureGather(source, vec2(-1.0), 1);
        }",
    );
    let kernel = bench.make(&Recipe::new(&module, &[COMBINED, STORAGE])).expect("a pipeline");
    for (format, white, transparent) in [
        (Format::R8_UNORM, [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]),
        (Format::R32_SFLOAT, [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]),
        (Format::R16G16_SFLOAT, [1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]),
        (Format::R8G8B8A8_UNORM, [1.0; 4], [0.0; 4]),
        (Format::B8G8R8A8_UNORM, [1.0; 4], [0.0; 4]),
    ] {
        let picture = bench.picture(Sketch::plain(format, View::TYPE_2D, [4, 4, 1]));
        for (border, expected) in [
            (vk::BorderColor::FLOAT_OPAQUE_WHITE, white),
            (vk::BorderColor::FLOAT_OPAQUE_BLACK, [0.0, 0.0, 0.0, 1.0]),
            (vk::BorderColor::FLOAT_TRANSPARENT_BLACK, transparent),
        ] {
            let info = sampler(vk::Filter::NEAREST, vk::SamplerAddressMode::CLAMP_TO_BORDER).border_color(border);
            let data = bench.words(&[0; 8]);
            let set = bench.picture_set(&kernel, &[(&picture, COMBINED)], bench.sampler(&info), &[&data]);
            bench.run_set(&kernel, set, [1, 1, 1]);
            let read: Vec<f32> = data.read().into_iter().map(f32::from_bits).collect();
            assert_eq!(read[..4], expected, "{format:?} {border:?}");
            assert_eq!(read[4..], [expected[1]; 4], "{format:?} {border:?}, gathered");
        }
    }
}

#[test]
fn images_of_an_array_are_picked_by_a_number_and_read_without_a_format_in_the_shader() {
    let bench = Bench::new();
    let module = glsl(
        "#extension GL_EXT_shader_image_load_formatted : require
        #extension GL_EXT_nonuniform_qualifier : require
        layout(local_size_x = 4) in;
        layout(set = 0, binding = 0) readonly uniform image2D images[2];
        layout(set = 0, binding = 1) buffer Data { vec4 data[]; };
        void main() {
            uint i = gl_LocalInvocationIndex;
            data[i] = imageLoad(images[nonuniformEXT(i % 2)], ivec2(i / 2, 0));
        }",
    );
    let kernel = bench.make(&Recipe { count: 2, ..Recipe::new(&module, &[STORED, STORAGE]) }).expect("a pipeline");
    let bytes = bench.picture(Sketch::plain(Format::R8G8B8A8_UNORM, View::TYPE_2D, [2, 1, 1]));
    bench.transfer(&bench.words(&[0xff00_0033, 0x0000_ff00]), &bytes, 0, true);
    let numbers = bench.picture(Sketch::plain(Format::R32_SFLOAT, View::TYPE_2D, [2, 1, 1]));
    bench.transfer(&bench.words(&[7.5f32, -2.0].map(f32::to_bits)), &numbers, 0, true);
    let data = bench.words(&[0; 16]);
    let set = bench.picture_set(&kernel, &[(&bytes, STORED)], vk::Sampler::null(), &[&data]);
    let info = [vk::DescriptorImageInfo {
        sampler: vk::Sampler::null(),
        image_view: numbers.view,
        image_layout: vk::ImageLayout::GENERAL,
    }];
    let write = vk::WriteDescriptorSet::default().dst_set(set).dst_array_element(1).descriptor_type(STORED);
    // SAFETY: the set has such a descriptor.
    unsafe { bench.device.update_descriptor_sets(&[write.image_info(&info)], &[]) };
    bench.run_set(&kernel, set, [1, 1, 1]);
    let read: Vec<f32> = data.read().into_iter().map(f32::from_bits).collect();
    let expected = [[0.2, 0.0, 0.0, 1.0], [7.5, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0], [-2.0, 0.0, 0.0, 1.0]];
    assert_eq!(read, expected.concat());
}

#[test]
fn levels_are_chosen_and_interpolated_and_their_sizes_are_told() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) uniform sampler2DArray source;
        layout(set = 0, binding = 1) buffer Data { vec4 data[]; };
        void main() {
            for (int i = 0; i < 9; i++) { data[i].x = textureLod(source, vec3(0.5, 0.5, 1.2), i * 0.5 - 0.5).x; }
            data[9] = vec4(textureSize(source, 1), textureQueryLevels(source));
            data[10] = texelFetch(source, ivec3(1, 0, 1), 2);
            data[11] = textureGather(source, vec3(0.25, 0.5, 0.0), 0);
            data[12] = texelFetch(source, ivec3(0, 0, 0), 7);
        }",
    );
    let kernel = bench.make(&Recipe::new(&module, &[COMBINED, STORAGE])).expect("a pipeline");
    let sketch = Sketch { levels: 3, layers: 2, ..Sketch::plain(Format::R32_SFLOAT, View::TYPE_2D_ARRAY, [8, 4, 1]) };
    let picture = bench.picture(sketch);
    for level in 0..3u32 {
        // Each layer has one value, ten times the number of its level, and a hundred for the second one.
        let texels = (8 >> level) * (4 >> level);
        let value = |i: u32| if level == 0 && i < texels { i as f32 } else { level as f32 * 10.0 + 100.0 };
        let bits: Vec<u32> = (0..2 * texels).map(|i| value(i).to_bits()).collect();
        bench.transfer(&bench.words(&bits), &picture, level, true);
    }
    let data = bench.words(&[0; 4 * 13]);
    let linear = sampler(vk::Filter::LINEAR, vk::SamplerAddressMode::CLAMP_TO_EDGE);
    let set = bench.picture_set(&kernel, &[(&picture, COMBINED)], bench.sampler(&linear), &[&data]);
    bench.run_set(&kernel, set, [1, 1, 1]);
    let read: Vec<f32> = data.read().into_iter().map(f32::from_bits).collect();
    let row = |index: usize| read[index * 4..index * 4 + 4].to_vec();
    let chosen: Vec<f32> = (0..9).map(|index| read[index * 4]).collect();
    assert_eq!(chosen, [100.0, 100.0, 105.0, 110.0, 115.0, 120.0, 120.0, 120.0, 120.0]);
    assert_eq!(row(9), [4.0, 2.0, 2.0, 3.0]);
    assert_eq!(row(10), [120.0, 0.0, 0.0, 1.0]);
    // Texels 1 and 2 of rows 1 and 2, from the lower left one on round.
    assert_eq!(row(11), [17.0, 18.0, 10.0, 9.0]);
    assert_eq!(row(12)[0], 0.0, "there is no such level");
}

#[test]
fn depth_is_compared_and_faces_of_a_cube_are_found() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) uniform sampler2DShadow shadow;
        layout(set = 0, binding = 1) uniform samplerCube cube;
        layout(set = 0, binding = 2) buffer Data { float data[]; };
        void main() {
            for (int i = 0; i < 3; i++) { data[i] = textureLod(shadow, vec3(0.5, 0.5, 0.25 + 0.25 * i), 0.0); }
            const vec3 to[6] = { vec3(1, 0, 0), vec3(-1, 0, 0), vec3(0, 1, 0), vec3(0, -1, 0), vec3(0, 0, 1), vec3(0, 0, -1) };
            for (int i = 0; i < 6; i++) { data[3 + i] = textureLod(cube, to[i] * 3.0 + vec3(0.5), 0.0).x; }
        }",
    );
    let kernel = bench.make(&Recipe::new(&module, &[COMBINED, COMBINED, STORAGE])).expect("a pipeline");
    let depth = bench.picture(Sketch::plain(Format::R32_SFLOAT, View::TYPE_2D, [2, 1, 1]));
    bench.transfer(&bench.words(&[0.5f32, 0.25].map(f32::to_bits)), &depth, 0, true);
    let sketch = Sketch { layers: 6, ..Sketch::plain(Format::R32_SFLOAT, View::CUBE, [2, 2, 1]) };
    let cube = bench.picture(sketch);
    let texels: Vec<u32> = (0..24u32).map(|i| (i as f32).to_bits()).collect();
    bench.transfer(&bench.words(&texels), &cube, 0, true);
    let info = sampler(vk::Filter::LINEAR, vk::SamplerAddressMode::CLAMP_TO_EDGE)
        .compare_enable(true)
        .compare_op(vk::CompareOp::LESS_OR_EQUAL);
    let nearest = sampler(vk::Filter::NEAREST, vk::SamplerAddressMode::CLAMP_TO_EDGE);
    let (compares, shows) = (bench.sampler(&info), bench.sampler(&nearest));
    let data = bench.words(&[0; 9]);
    let set = bench.picture_set(&kernel, &[(&depth, COMBINED), (&cube, COMBINED)], compares, &[&data]);
    let layout = vk::ImageLayout::GENERAL;
    let info = [vk::DescriptorImageInfo { sampler: shows, image_view: cube.view, image_layout: layout }];
    let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(1).descriptor_type(COMBINED);
    // SAFETY: the set has such a binding.
    unsafe { bench.device.update_descriptor_sets(&[write.image_info(&info)], &[]) };
    bench.run_set(&kernel, set, [1, 1, 1]);
    let read: Vec<f32> = data.read().into_iter().map(f32::from_bits).collect();
    assert_eq!(read[..3], [1.0, 0.5, 0.0]);
    // Directions a little towards +x, +y and +z, by the table of faces.
    assert_eq!(read[3..], [0.0, 5.0, 11.0, 13.0, 17.0, 20.0]);
}

#[test]
fn texel_buffers_and_atomics_on_images_stay_inside() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 32) in;
        layout(set = 0, binding = 0, r32ui) uniform uimage2D counts;
        layout(set = 0, binding = 1) buffer Data { uint data[]; };
        layout(set = 0, binding = 2) uniform usamplerBuffer source;
        layout(set = 0, binding = 3, r32ui) uniform uimageBuffer target;
        void main() {
            int i = int(gl_LocalInvocationIndex);
            imageAtomicAdd(counts, ivec2(i % 4 - 1, i / 8), 1u);
            data[i] = texelFetch(source, i - 2).x;
            imageStore(target, i - 2, uvec4(i + 100));
            if (i == 0) { data[32] = textureSize(source) * 100 + imageSize(target); }
        }",
    );
    type Kind = vk::DescriptorType;
    let bindings = [STORED, STORAGE, Kind::UNIFORM_TEXEL_BUFFER, Kind::STORAGE_TEXEL_BUFFER];
    let kernel = bench.make(&Recipe::new(&module, &bindings)).expect("a pipeline");
    let counts = bench.picture(Sketch::plain(Format::R32_UINT, View::TYPE_2D, [2, 3, 1]));
    bench.transfer(&bench.words(&[0; 6]), &counts, 0, true);
    let (data, source) = (bench.words(&[7; 33]), bench.words(&(50..66).collect::<Vec<_>>()));
    let target = bench.words(&[1; 16]);
    let set = bench.picture_set(&kernel, &[(&counts, STORED)], vk::Sampler::null(), &[&data]);
    for (binding, kind, bytes) in [(2, bindings[2], &source), (3, bindings[3], &target)] {
        // Four words from the sixteenth byte on, behind which the buffer goes on.
        let info =
            vk::BufferViewCreateInfo::default().buffer(bytes.buffer).format(Format::R32_UINT).offset(16).range(16);
        // SAFETY: valid information, and a set that has such a binding.
        unsafe {
            let view = bench.device.create_buffer_view(&info, None).expect("a view");
            bench.keep(Made::BufferView(view));
            let (views, write) = ([view], vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding));
            let write = write.descriptor_type(kind).texel_buffer_view(&views);
            bench.device.update_descriptor_sets(&[write], &[]);
        }
    }
    bench.run_set(&kernel, set, [1, 1, 1]);
    let mut expected = vec![0; 32];
    expected[2..6].copy_from_slice(&[54, 55, 56, 57]);
    expected.push(404);
    assert_eq!(data.read(), expected);
    let mut stored = [1; 16];
    stored[4..8].copy_from_slice(&[102, 103, 104, 105]);
    assert_eq!(target.read(), stored);
    let after = bench.words(&[0; 6]);
    bench.transfer(&after, &counts, 0, false);
    assert_eq!(after.read(), [2; 6]);
}

#[test]
fn images_are_cleared_and_parts_of_them_copied_on_both_families() {
    let bench = Bench::new();
    let layout = vk::ImageLayout::GENERAL;
    let at = |x, y, z| vk::Offset3D { x, y, z };
    let size = |width, height, depth| vk::Extent3D { width, height, depth };
    for (tiling, family) in [(vk::ImageTiling::OPTIMAL, 0), (vk::ImageTiling::LINEAR, 1)] {
        let flat = Sketch { tiling, ..Sketch::plain(Format::R8G8_UINT, View::TYPE_2D, [5, 3, 1]) };
        let pictures: [Picture; 2] = [bench.picture(flat), bench.picture(flat)];
        let [first, second] = pictures.map(|picture| picture.image);
        let (bytes, after) = (bench.words(&(0..16).collect::<Vec<_>>()), bench.words(&[0; 8]));
        // Queues that only copy do not clear.
        bench.run_on(
            0,
            bench.record(|device, buffer| {
                let colour = vk::ClearColorValue { uint32: [0xaa, 0xbb, 9, 9] };
                for image in [first, second] {
                    // SAFETY: the buffer is being recorded.
                    unsafe { device.cmd_clear_color_image(buffer, image, layout, &colour, &[everything()]) };
                }
            }),
        );
        let buffer = bench.record_for(family as usize, |device, buffer| {
            let into = vk::BufferImageCopy {
                buffer_offset: 4,
                buffer_row_length: 4,
                image_subresource: layers(0, 1),
                image_offset: at(1, 1, 0),
                image_extent: size(2, 2, 1),
                ..Default::default()
            };
            let across = vk::ImageCopy {
                src_subresource: layers(0, 1),
                src_offset: at(1, 1, 0),
                dst_subresource: layers(0, 1),
                dst_offset: at(3, 0, 0),
                extent: size(2, 2, 1),
            };
            let out = vk::BufferImageCopy {
                image_subresource: layers(0, 1),
                image_extent: size(5, 3, 1),
                ..Default::default()
            };
            // SAFETY: the buffer is being recorded, and the regions lie in their images and buffers.
            unsafe {
                device.cmd_copy_buffer_to_image(buffer, bytes.buffer, first, layout, &[into]);
                device.cmd_copy_image(buffer, first, layout, second, layout, &[across]);
                device.cmd_copy_image_to_buffer(buffer, second, layout, after.buffer, &[out]);
            }
        });
        bench.run_on(family, buffer);
        let read: Vec<u16> = after.read().iter().flat_map(|word| [*word as u16, (*word >> 16) as u16]).collect();
        let mut expected = [0xbbaa; 16];
        // Texels of two bytes: the words 1 and 3 of the buffer, two texels each.
        expected[3..5].copy_from_slice(&[1, 0]);
        expected[8..10].copy_from_slice(&[3, 0]);
        expected[15] = 0;
        assert_eq!(read, expected, "family {family}");
    }
}
