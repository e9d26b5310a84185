//! Kernels that everybody knows.

use crate::bench::{as_f32, as_u32, f32s, glsl, run, u32s, wgsl};

/// Random words, the same each time.
fn random(count: usize, seed: u64) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u32(..)).collect()
}

fn random_f32(count: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.f32() * 8.0 - 4.0).collect()
}

#[test]
fn saxpy() {
    let module = glsl(
        "layout(local_size_x = 64) in;
        layout(push_constant) uniform Push { float a; uint n; };
        layout(set = 0, binding = 0) readonly buffer X { float x[]; };
        layout(set = 0, binding = 1) buffer Y { float y[]; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) { y[i] = a * x[i] + y[i]; } }",
    );
    let (x, y) = (random_f32(1000, 1), random_f32(1000, 2));
    let push = [2.5f32.to_le_bytes(), 1000u32.to_le_bytes()].concat();
    let result = as_f32(&run(&module, [16, 1, 1], &push, &[f32s(&x), f32s(&y)])[1]);
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.5 * x + y).collect();
    assert_eq!(result, expected);
}

#[test]
fn accesses_outside_of_a_buffer_load_zeros_and_store_nothing() {
    let module = glsl(
        "layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) readonly buffer X { uint x[]; };
        layout(set = 0, binding = 1) buffer Y { uint y[]; };
        void main() { uint i = gl_GlobalInvocationID.x; y[i ^ 1] = x[i] + 1; if (i == 0) y[0x40000001] = 9; }",
    );
    let x: Vec<u32> = (100..110).collect();
    let result = as_u32(&run(&module, [2, 1, 1], &[], &[u32s(&x), u32s(&[7; 20])])[1]);
    let expected: Vec<u32> = (0..20u32).map(|i| i ^ 1).map(|i| if i < 10 { 101 + i } else { 1 }).collect();
    assert_eq!(result, expected);
}

#[test]
fn reduction_in_workgroup_memory() {
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> output: array<u32>;
        var<workgroup> part: array<u32, 128>;
        @compute @workgroup_size(128)
        fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32, @builtin(workgroup_id) group: vec3<u32>) {
            part[local] = input[id.x];
            workgroupBarrier();
            for (var step = 64u; step > 0u; step = step / 2u) {
                if (local < step) { part[local] += part[local + step]; }
                workgroupBarrier();
            }
            if (local == 0u) { output[group.x] = part[0]; }
        }",
    );
    let input = random(512, 3);
    let result = as_u32(&run(&module, [4, 1, 1], &[], &[u32s(&input), u32s(&[0; 4])])[1]);
    let expected: Vec<u32> =
        input.chunks(128).map(|chunk| chunk.iter().fold(0, |a: u32, b| a.wrapping_add(*b))).collect();
    assert_eq!(result, expected);
}

#[test]
fn scan_in_subgroups() {
    let module = glsl(
        "#extension GL_KHR_shader_subgroup_arithmetic : require
        layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) buffer X { uint x[]; };
        layout(set = 0, binding = 1) buffer Y { uint y[]; };
        shared uint sums[2];
        void main() {
            uint own = x[gl_LocalInvocationIndex];
            uint before = subgroupExclusiveAdd(own);
            if (gl_SubgroupInvocationID == gl_SubgroupSize - 1) sums[gl_SubgroupID] = before + own;
            barrier();
            if (gl_SubgroupID == 1) before += sums[0];
            y[gl_LocalInvocationIndex] = before;
        }",
    );
    let input = random(64, 4);
    let result = as_u32(&run(&module, [1, 1, 1], &[], &[u32s(&input), u32s(&[0; 64])])[1]);
    let mut sum = 0u32;
    for (value, before) in input.iter().zip(result) {
        assert_eq!(before, sum);
        sum = sum.wrapping_add(*value);
    }
}

#[test]
fn histogram() {
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> bins: array<atomic<u32>, 16>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if (id.x >= arrayLength(&input)) { return; }
            atomicAdd(&bins[input[id.x] & 15u], 1u);
        }",
    );
    let input = random(1001, 5);
    let result = as_u32(&run(&module, [16, 1, 1], &[], &[u32s(&input), u32s(&[0; 16])])[1]);
    let mut expected = vec![0; 16];
    input.iter().for_each(|value| expected[(value & 15) as usize] += 1);
    assert_eq!(result, expected);
}

#[test]
fn mandelbrot() {
    let module = glsl(
        "layout(local_size_x = 8, local_size_y = 8) in;
        layout(set = 0, binding = 0) buffer Image { uint image[]; };
        uint iterations(vec2 c) {
            vec2 z = vec2(0);
            for (uint i = 0; i < 100; i++) {
                if (dot(z, z) > 4.0) return i;
                z = vec2(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y) + c;
            }
            return 100;
        }
        void main() {
            vec2 c = vec2(gl_GlobalInvocationID.xy) / 16.0 - vec2(1.5, 1.0);
            image[gl_GlobalInvocationID.y * 32 + gl_GlobalInvocationID.x] = iterations(c);
        }",
    );
    let result = as_u32(&run(&module, [4, 4, 1], &[], &[u32s(&[0; 1024])])[0]);
    for (place, value) in result.iter().enumerate() {
        let c = ((place % 32) as f32 / 16.0 - 1.5, (place / 32) as f32 / 16.0 - 1.0);
        let (mut z, mut count) = ((0f32, 0f32), 0);
        while count < 100 && z.0 * z.0 + z.1 * z.1 <= 4.0 {
            z = (z.0 * z.0 - z.1 * z.1 + c.0, 2.0 * z.0 * z.1 + c.1);
            count += 1;
        }
        assert_eq!(*value, count, "at {place}");
    }
}

#[test]
fn matrix_product() {
    let module = glsl(
        "layout(local_size_x = 8, local_size_y = 8) in;
        layout(set = 0, binding = 0) readonly buffer A { float a[]; };
        layout(set = 0, binding = 1) readonly buffer B { float b[]; };
        layout(set = 0, binding = 2) buffer C { float c[]; };
        shared float left[8][8];
        shared float right[8][8];
        void main() {
            uint x = gl_GlobalInvocationID.x, y = gl_GlobalInvocationID.y;
            float sum = 0;
            for (uint tile = 0; tile < 3; tile++) {
                left[gl_LocalInvocationID.y][gl_LocalInvocationID.x] = a[y * 24 + tile * 8 + gl_LocalInvocationID.x];
                right[gl_LocalInvocationID.y][gl_LocalInvocationID.x] = b[(tile * 8 + gl_LocalInvocationID.y) * 24 + x];
                barrier();
                for (uint k = 0; k < 8; k++) sum += left[gl_LocalInvocationID.y][k] * right[k][gl_LocalInvocationID.x];
                barrier();
            }
            c[y * 24 + x] = sum;
        }",
    );
    let (a, b) = (random_f32(576, 6), random_f32(576, 7));
    let result = as_f32(&run(&module, [3, 3, 1], &[], &[f32s(&a), f32s(&b), f32s(&[0.0; 576])])[2]);
    for (place, value) in result.iter().enumerate() {
        // Nothing says that a product is to be rounded by itself.
        let sum = (0..24).fold(0f32, |sum, k| a[place / 24 * 24 + k].mul_add(b[k * 24 + place % 24], sum));
        assert_eq!(*value, sum, "at {place}");
    }
}

#[test]
fn bitonic_sort() {
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
        var<workgroup> part: array<u32, 256>;
        @compute @workgroup_size(256)
        fn main(@builtin(local_invocation_index) i: u32) {
            part[i] = data[i];
            workgroupBarrier();
            for (var k = 2u; k <= 256u; k = k << 1u) {
                for (var j = k >> 1u; j > 0u; j = j >> 1u) {
                    let other = i ^ j;
                    if (other > i) {
                        let a = part[i];
                        let b = part[other];
                        if ((a > b) == ((i & k) == 0u)) { part[i] = b; part[other] = a; }
                    }
                    workgroupBarrier();
                }
            }
            data[i] = part[i];
        }",
    );
    let input = random(256, 8);
    let result = as_u32(&run(&module, [1, 1, 1], &[], &[u32s(&input)])[0]);
    let mut expected = input;
    expected.sort_unstable();
    assert_eq!(result, expected);
}
