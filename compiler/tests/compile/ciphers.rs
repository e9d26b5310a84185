//! Kernels with much integer or floating-point work.

use crate::bench::{as_f32, as_u32, f32s, glsl, run, u32s, wgsl};

fn chacha_block(key: &[u32], counter: u32, nonce: &[u32]) -> Vec<u32> {
    let start: Vec<u32> = [&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574], key, &[counter], nonce].concat();
    let mut s = start.clone();
    for round in 0..20 {
        for k in 0..4 {
            let diagonal = if round % 2 == 0 {
                [k, k + 4, k + 8, k + 12]
            } else {
                [k, (k + 1) % 4 + 4, (k + 2) % 4 + 8, (k + 3) % 4 + 12]
            };
            let [a, b, c, d] = diagonal;
            for (x, y, z, by) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                s[x] = s[x].wrapping_add(s[y]);
                s[z] = (s[z] ^ s[x]).rotate_left(by);
            }
        }
    }
    s.iter().zip(start).map(|(s, start)| s.wrapping_add(start)).collect()
}

#[test]
fn chacha20() {
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read> key: array<u32, 12>;
        @group(0) @binding(1) var<storage, read_write> stream: array<u32>;
        fn rotl(x: u32, by: u32) -> u32 { return (x << by) | (x >> (32u - by)); }
        fn quarter(s: ptr<function, array<u32, 16>>, a: u32, b: u32, c: u32, d: u32) {
            (*s)[a] += (*s)[b]; (*s)[d] = rotl((*s)[d] ^ (*s)[a], 16u);
            (*s)[c] += (*s)[d]; (*s)[b] = rotl((*s)[b] ^ (*s)[c], 12u);
            (*s)[a] += (*s)[b]; (*s)[d] = rotl((*s)[d] ^ (*s)[a], 8u);
            (*s)[c] += (*s)[d]; (*s)[b] = rotl((*s)[b] ^ (*s)[c], 7u);
        }
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            var s: array<u32, 16>;
            s[0] = 0x61707865u; s[1] = 0x3320646eu; s[2] = 0x79622d32u; s[3] = 0x6b206574u;
            for (var i = 0u; i < 8u; i++) { s[i + 4u] = key[i]; }
            s[12] = key[8] + id.x; s[13] = key[9]; s[14] = key[10]; s[15] = key[11];
            var t = s;
            for (var round = 0; round < 10; round++) {
                quarter(&s, 0u, 4u, 8u, 12u); quarter(&s, 1u, 5u, 9u, 13u); quarter(&s, 2u, 6u, 10u, 14u); quarter(&s, 3u, 7u, 11u, 15u);
                quarter(&s, 0u, 5u, 10u, 15u); quarter(&s, 1u, 6u, 11u, 12u); quarter(&s, 2u, 7u, 8u, 13u); quarter(&s, 3u, 4u, 9u, 14u);
            }
            for (var i = 0u; i < 16u; i++) { stream[id.x * 16u + i] = s[i] + t[i]; }
        }",
    );
    // The key and nonce of RFC 8439, 2.3.2, whose block is that of lane 0.
    let key: Vec<u32> =
        (0..8u32).map(|word| u32::from_le_bytes([0, 1, 2, 3].map(|byte| (word * 4 + byte) as u8))).collect();
    let nonce = [0x0900_0000, 0x4a00_0000, 0];
    let arguments = [key.as_slice(), &[1], &nonce].concat();
    let result = as_u32(&run(&module, [2, 1, 1], &[], &[u32s(&arguments), u32s(&[0; 2048])])[1]);
    assert_eq!(result[..4], [0xe4e7_f110, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3]);
    for (lane, block) in result.chunks(16).enumerate() {
        assert_eq!(block, chacha_block(&key, 1 + lane as u32, &nonce), "lane {lane}");
    }
}

#[test]
fn blake3() {
    let module = glsl(
        "layout(local_size_x = 32) in;
        layout(set = 0, binding = 0) readonly buffer Input { uint m[]; };
        layout(set = 0, binding = 1) writeonly buffer Output { uint h[]; };
        const uint IV[8] = uint[](0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au, 0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u);
        const uint P[16] = uint[](2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8);
        uint v[16];
        uint rotr(uint x, int by) { return x >> by | x << (32 - by); }
        void g(int a, int b, int c, int d, uint x, uint y) {
            v[a] += v[b] + x; v[d] = rotr(v[d] ^ v[a], 16); v[c] += v[d]; v[b] = rotr(v[b] ^ v[c], 12);
            v[a] += v[b] + y; v[d] = rotr(v[d] ^ v[a], 8); v[c] += v[d]; v[b] = rotr(v[b] ^ v[c], 7);
        }
        void main() {
            uint lane = gl_GlobalInvocationID.x;
            uint cv[8] = IV;
            for (uint block = 0; block < 16; block++) {
                uint w[16];
                for (int k = 0; k < 16; k++) w[k] = m[lane * 256 + block * 16 + k];
                for (int k = 0; k < 8; k++) v[k] = cv[k];
                for (int k = 0; k < 4; k++) v[8 + k] = IV[k];
                v[12] = 0; v[13] = 0; v[14] = 64; v[15] = (block == 0 ? 1 : 0) | (block == 15 ? 10 : 0);
                for (int round = 0; round < 7; round++) {
                    g(0, 4, 8, 12, w[0], w[1]); g(1, 5, 9, 13, w[2], w[3]); g(2, 6, 10, 14, w[4], w[5]); g(3, 7, 11, 15, w[6], w[7]);
                    g(0, 5, 10, 15, w[8], w[9]); g(1, 6, 11, 12, w[10], w[11]); g(2, 7, 8, 13, w[12], w[13]); g(3, 4, 9, 14, w[14], w[15]);
                    uint o[16] = w;
                    for (int k = 0; k < 16; k++) w[k] = o[P[k]];
                }
                for (int k = 0; k < 8; k++) cv[k] = v[k] ^ v[k + 8];
            }
            for (int k = 0; k < 8; k++) h[lane * 8 + k] = cv[k];
        }",
    );
    let mut random = fastrand::Rng::with_seed(9);
    let input: Vec<u8> = (0..32 * 1024).map(|_| random.u8(..)).collect();
    let result = &run(&module, [1, 1, 1], &[], &[input.clone(), vec![0; 1024]])[1];
    for (chunk, hash) in input.chunks(1024).zip(result.chunks(32)) {
        assert_eq!(hash, blake3::hash(chunk).as_bytes());
    }
}

#[test]
fn n_body() {
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read> bodies: array<vec4<f32>>;
        @group(0) @binding(1) var<storage, read_write> forces: array<vec4<f32>>;
        @compute @workgroup_size(32)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            var force = vec3<f32>();
            let own = bodies[id.x].xyz;
            for (var i = 0u; i < arrayLength(&bodies); i++) {
                let d = bodies[i].xyz - own;
                let square = dot(d, d) + 0.01;
                force += d * (bodies[i].w / (square * sqrt(square)));
            }
            forces[id.x] = vec4<f32>(force, 0.0);
        }",
    );
    let mut random = fastrand::Rng::with_seed(10);
    let bodies: Vec<f32> = (0..256).map(|_| random.f32()).collect();
    let result = as_f32(&run(&module, [2, 1, 1], &[], &[f32s(&bodies), f32s(&[9.0; 256])])[1]);
    for (own, force) in bodies.chunks(4).zip(result.chunks(4)) {
        let mut expected = [0f32; 3];
        for body in bodies.chunks(4) {
            let d: Vec<f32> = (0..3).map(|k| body[k] - own[k]).collect();
            // Each product but the first is rounded with the sum that it goes into.
            let square = d[2].mul_add(d[2], d[1].mul_add(d[1], d[0] * d[0])) + 0.01;
            let scale = body[3] / (square * square.sqrt());
            (0..3).for_each(|k| expected[k] = d[k].mul_add(scale, expected[k]));
        }
        assert_eq!(force, [&expected[..], &[0.0]].concat());
    }
}

#[test]
fn stencil() {
    let module = glsl(
        "layout(local_size_x = 8, local_size_y = 8) in;
        layout(set = 0, binding = 0) readonly buffer From { float f[]; };
        layout(set = 0, binding = 1) writeonly buffer To { float t[]; };
        const ivec2 around[4] = ivec2[](ivec2(-1, 0), ivec2(1, 0), ivec2(0, -1), ivec2(0, 1));
        void main() {
            ivec2 p = ivec2(gl_GlobalInvocationID.xy);
            float sum = f[p.y * 24 + p.x] * -4.0;
            for (int k = 0; k < 4; k++) {
                ivec2 q = clamp(p + around[k], ivec2(0), ivec2(23));
                sum += f[q.y * 24 + q.x];
            }
            t[p.y * 24 + p.x] = sum;
        }",
    );
    let mut random = fastrand::Rng::with_seed(11);
    let from: Vec<f32> = (0..576).map(|_| random.f32()).collect();
    let result = as_f32(&run(&module, [3, 3, 1], &[], &[f32s(&from), f32s(&[0.0; 576])])[1]);
    for (place, value) in result.iter().enumerate() {
        let (x, y) = (place as i32 % 24, place as i32 / 24);
        let mut sum = from[place] * -4.0;
        for (dx, dy) in [(-1, 0), (1, 0), (0, -1), (0, 1)] {
            sum += from[((y + dy).clamp(0, 23) * 24 + (x + dx).clamp(0, 23)) as usize];
        }
        assert_eq!(*value, sum);
    }
}
