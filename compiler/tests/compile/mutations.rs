//! No module makes the compiler panic, run for ever or take memory without bound.

use campanile_compiler::{Options, compile};

use crate::bench::{glsl, wgsl};

#[test]
fn mutated_modules_compile_or_are_refused() {
    let modules = [
        glsl(
            "layout(local_size_x = 64) in;
            layout(constant_id = 0) const uint N = 4;
            layout(set = 0, binding = 0) buffer O { mat3 m; uint o[]; };
            shared float s[N + 1];
            float f(float x, inout uint k) { for (uint i = 0; i < N; i++) { if (x > 3.0) return x; x += s[i]; k += i; } return mix(x, 2.0, 0.5); }
            void main() { uint i = gl_LocalInvocationIndex, k = 0; s[i % N] = f(float(i), k); barrier();
                switch (k) { case 1: k = 5; case 2: k++; break; default: atomicAdd(o[0], k); } o[i] = k + uint(m[i % 3].x); }",
        ),
        wgsl(
            "struct P { a: vec3<f32>, b: array<vec4<u32>, 3> };
            @group(0) @binding(0) var<storage, read_write> p: array<P>;
            var<workgroup> w: array<i32, 8>;
            fn g(n: u32) -> f32 { var x = 1.0; loop { if (x > f32(n)) { break; } x = x * 2.0; continuing { x = x + 1.0; } } return x; }
            @compute @workgroup_size(8)
            fn main(@builtin(local_invocation_index) i: u32) { w[i] = i32(g(i)); workgroupBarrier(); var l = p[i].b; l[i % 3u].x = u32(w[7u - i]); p[i].b = l; p[i].a = normalize(p[0].a); }",
        ),
    ];
    let mut random = fastrand::Rng::with_seed(25);
    let (mut compiled, mut refused) = (0, 0);
    for _ in 0..1500 {
        for module in &modules {
            let mut mutated = module.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..mutated.len());
                mutated[at] = match random.u32(..5) {
                    0 => random.u32(..),
                    1 => mutated[random.usize(..mutated.len())],
                    2 => mutated[at] ^ 1 << random.u32(..32),
                    3 => random.u32(..256),
                    _ => mutated[at].wrapping_add(1),
                };
            }
            if random.u32(..20) == 0 {
                mutated.truncate(random.usize(..mutated.len()));
            }
            match compile(&mutated, &Options::default()) {
                Ok(_) => compiled += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(compiled > 100 && refused > 1000, "{compiled} compiled, {refused} refused");
}
