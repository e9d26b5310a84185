@group(0) @binding(0) var<storage, read> bodies: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<vec4<f32>>;
var<workgroup> tile: array<vec4<f32>, 128>;

// The acceleration of each of 1024 bodies, with a place and a mass, by all of them.
@compute @workgroup_size(128)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let here = bodies[id.x].xyz;
    var sum = vec3<f32>();
    for (var first = 0u; first < 1024u; first += 128u) {
        tile[lane] = bodies[first + lane];
        workgroupBarrier();
        for (var other = 0u; other < 128u; other++) {
            let body = tile[other];
            let way = body.xyz - here;
            let inverse = inverseSqrt(dot(way, way) + 0.01);
            sum += body.w * inverse * inverse * inverse * way;
        }
        workgroupBarrier();
    }
    accelerations[id.x] = vec4<f32>(sum, 0.0);
}
