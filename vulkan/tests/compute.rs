//! Shaders run, and leave what the same computation leaves on the processor.

mod kit;

use kit::{Bench, wgsl};

const SAXPY: &str = "
    struct Push { a: f32, n: u32 }
    var<immediate> push: Push;
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if (id.x < push.n) { y[id.x] = push.a * x[id.x] + y[id.x]; }
    }";

#[test]
fn saxpy_with_push_constants() {
    let bench = Bench::new();
    let kernel = bench.kernel(&wgsl(SAXPY), 2, 8, &[]);
    let (x, y): (Vec<f32>, Vec<f32>) = (0..1000u32).map(|i| (i as f32 * 0.5, 1000.0 - i as f32)).unzip();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let (in_x, in_y) = (bench.words(&bits(&x)), bench.words(&bits(&y)));
    let push = [2.5f32.to_le_bytes(), 1000u32.to_le_bytes()].concat();
    bench.dispatch(&kernel, &[&in_x, &in_y], [16, 1, 1], &push);
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.5 * x + y).collect();
    assert_eq!(in_y.read(), bits(&expected));
    assert_eq!(in_x.read(), bits(&x));
}
