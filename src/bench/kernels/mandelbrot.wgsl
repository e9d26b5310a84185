@group(0) @binding(0) var<storage, read> corner: array<f32>;
@group(0) @binding(1) var<storage, read_write> steps: array<u32>;

// The number of steps, 128 at most, after which each of 256 rows and columns leaves the circle of radius 2.
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let point = vec2<f32>(corner[0] + f32(id.x) * corner[2], corner[1] + f32(id.y) * corner[2]);
    var at = vec2<f32>();
    var count = 0u;
    while count < 128u && dot(at, at) <= 4.0 {
        at = vec2<f32>(at.x * at.x - at.y * at.y, 2.0 * at.x * at.y) + point;
        count++;
    }
    steps[id.y * 256u + id.x] = count;
}
