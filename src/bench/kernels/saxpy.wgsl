@group(0) @binding(0) var<storage, read> pairs: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;

// The second number of a pair and a multiple of the first.
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let pair = pairs[id.x];
    sums[id.x] = 1.5 * pair.x + pair.y;
}
