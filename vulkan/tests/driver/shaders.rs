//! What shaders may do with a feature of its own: integer dot products, gathering with four offsets; and how much private memory a lane has.

use ash::vk;

use crate::images::{COMBINED, sampler};
use crate::kit::{Bench, Recipe, STORAGE, glsl};
use crate::picture::Sketch;

/// "shaderIntegerDotProduct", and what is accelerated, of which nothing is. [Vulkan: VkPhysicalDeviceShaderIntegerDotProductProperties]
#[test]
fn integer_dot_products_are_there_and_none_is_said_to_be_accelerated() {
    let bench = Bench::new();
    let module = glsl(
        "#extension GL_EXT_spirv_intrinsics : require
        spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6018, 6019], id = 4450)
            int sdot(int x, int y, spirv_literal int format);
        spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6018, 6019], id = 4454)
            uint udot_sat(uint x, uint y, uint z, spirv_literal int format);
        layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) buffer Data { uint data[]; };
        void main() {
            data[2] = uint(sdot(int(data[0]), int(data[1]), 0));
            data[3] = udot_sat(data[0], data[1], 0xffffff00u, 0);
        }",
    );
    let (kernel, data) = (bench.kernel(&module, 1, 0, &[]), bench.words(&[0x7f80_ff01, 0x7f80_0203, 0, 0]));
    bench.dispatch(&kernel, &[&data], [1, 1, 1], &[]);
    let signed = 127 * 127 + 128 * 128 - 2 + 3;
    assert_eq!(data.read()[2..], [signed as u32, u32::MAX]);
    // What the structure was filled with is overwritten.
    let mut told = vk::PhysicalDeviceShaderIntegerDotProductProperties::default()
        .integer_dot_product4x8_bit_packed_signed_accelerated(true);
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut told);
    // SAFETY: the physical device is of the instance.
    unsafe { bench.instance.get_physical_device_properties2(bench.physical, &mut properties) };
    assert_eq!(told.integer_dot_product4x8_bit_packed_signed_accelerated, vk::FALSE);
    assert_eq!(told.integer_dot_product_accumulating_saturating4x8_bit_packed_unsigned_accelerated, vk::FALSE);
}

/// "shaderImageGatherExtended" [Vulkan: VkPhysicalDeviceFeatures]
#[test]
fn four_offsets_gather_four_texels() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) uniform sampler2D source;
        layout(set = 0, binding = 1) buffer Data { vec4 data[]; };
        void main() {
            const ivec2 four[4] = ivec2[](ivec2(0, 0), ivec2(1, 0), ivec2(2, -1), ivec2(-1, 2));
            data[0] = textureGatherOffsets(source, vec2(0.5), four);
            data[1] = textureGatherOffset(source, vec2(0.5), ivec2(data[1].xy));
        }",
    );
    let kernel = bench.make(&Recipe::new(&module, &[COMBINED, STORAGE])).expect("a pipeline");
    let sketch = Sketch::plain(vk::Format::R32_SFLOAT, vk::ImageViewType::TYPE_2D, [4, 4, 1]);
    let picture = bench.picture(sketch);
    let texels: Vec<u32> = (0..16).map(|texel| (texel as f32).to_bits()).collect();
    bench.transfer(&bench.words(&texels), &picture, 0, true);
    let data = bench.words(&[0, 0, 0, 0, 1.0f32.to_bits(), 0, 0, 0]);
    let nearest = bench.sampler(&sampler(vk::Filter::NEAREST, vk::SamplerAddressMode::CLAMP_TO_EDGE));
    let set = bench.picture_set(&kernel, &[(&picture, COMBINED)], nearest, &[&data]);
    bench.run_set(&kernel, set, [1, 1, 1]);
    let read: Vec<f32> = data.read().into_iter().map(f32::from_bits).collect();
    assert_eq!(read, [5.0, 6.0, 3.0, 12.0, 10.0, 11.0, 7.0, 6.0]);
}

/// The registers and private memory of one workgroup fit into the save area of every queue.
#[test]
fn the_largest_workgroup_may_have_all_the_private_memory() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 1024) in;
        layout(set = 0, binding = 0) buffer Data { uint data[]; };
        void main() {
            uint lane = gl_LocalInvocationIndex;
            uint t[1000];
            for (uint k = 0; k < 1000; k++) t[k] = k * lane;
            barrier();
            data[lane] = t[(data[lane] + lane) % 1000];
        }",
    );
    let (kernel, data) = (bench.kernel(&module, 1, 0, &[]), bench.words(&[500; 1024]));
    bench.dispatch(&kernel, &[&data], [1, 1, 1], &[]);
    let expected: Vec<u32> = (0..1024).map(|lane| (500 + lane) % 1000 * lane).collect();
    assert_eq!(data.read(), expected);
}

#[test]
fn a_lane_has_4096_bytes_of_private_memory() {
    let bench = Bench::new();
    let module = |words: u32| {
        glsl(&format!(
            "layout(local_size_x = 1) in;
            layout(set = 0, binding = 0) buffer Data {{ uint data[]; }};
            void main() {{
                uint t[{words}];
                for (uint k = 0; k < {words}; k++) t[k] = k + data[1];
                data[0] = t[data[1]];
            }}"
        ))
    };
    let (kernel, data) = (bench.kernel(&module(1024), 1, 0, &[]), bench.words(&[0, 500]));
    bench.dispatch(&kernel, &[&data], [1, 1, 1], &[]);
    assert_eq!(data.read()[0], 1000);
    assert_eq!(bench.try_kernel(&module(1025), 1, 0, &[]).err(), Some(vk::Result::ERROR_UNKNOWN));
}
