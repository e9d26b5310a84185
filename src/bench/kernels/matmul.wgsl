@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c: array<vec4<f32>>;

// Each invocation has four rows of four columns of the product of matrices of 512 rows and columns.
@compute @workgroup_size(32, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y * 4u * 128u;
    let column = id.x;
    var r0 = vec4<f32>(); var r1 = vec4<f32>(); var r2 = vec4<f32>(); var r3 = vec4<f32>();
    for (var k = 0u; k < 128u; k++) {
        let a0 = a[row + k]; let a1 = a[row + 128u + k]; let a2 = a[row + 256u + k]; let a3 = a[row + 384u + k];
        let at = k * 512u + column;
        let b0 = b[at]; let b1 = b[at + 128u]; let b2 = b[at + 256u]; let b3 = b[at + 384u];
        r0 += a0.x * b0; r1 += a1.x * b0; r2 += a2.x * b0; r3 += a3.x * b0;
        r0 += a0.y * b1; r1 += a1.y * b1; r2 += a2.y * b1; r3 += a3.y * b1;
        r0 += a0.z * b2; r1 += a1.z * b2; r2 += a2.z * b2; r3 += a3.z * b2;
        r0 += a0.w * b3; r1 += a1.w * b3; r2 += a2.w * b3; r3 += a3.w * b3;
    }
    let to = row + column;
    c[to] = r0; c[to + 128u] = r1; c[to + 256u] = r2; c[to + 384u] = r3;
}
