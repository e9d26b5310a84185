//! The kernels, and what each is to compute.

/// Elements of each buffer.
pub(crate) const N: usize = 256;

/// Names and types of the elements of the three buffers.
const FLOATS: [&str; 3] = ["f32", "f32", "f32"];
const WORDS: [&str; 3] = ["u32", "u32", "u32"];
const ATOMICS: [&str; 3] = ["u32", "u32", "atomic<u32>"];

/// A workgroup of all elements, with memory for each.
const WORKGROUP: &str = "var<workgroup> w: array<f32, 256>;
    @compute @workgroup_size(256) fn main(@builtin(local_invocation_index) i: u32) {";
const EACH: &str = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { let i = id.x;";

/// A kernel that computes buffer `c` from buffers `a` and `b`.
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    types: [&'static str; 3],
    body: String,
    pub(crate) groups: u32,
    pub(crate) a: [u32; N],
    pub(crate) b: [u32; N],
    expected: Vec<u32>,
}

impl Kernel {
    /// In WGSL.
    pub(crate) fn source(&self) -> String {
        let [a, b, c] = self.types;
        format!(
            "@group(0) @binding(0) var<storage, read> a: array<{a}>;
            @group(0) @binding(1) var<storage, read> b: array<{b}>;
            @group(0) @binding(2) var<storage, read_write> c: array<{c}>;
            {}",
            self.body
        )
    }

    /// True if these are the elements of `c`. Floating-point numbers may be rounded otherwise.
    pub(crate) fn is_right(&self, found: &[u32]) -> bool {
        let is_float = self.types == FLOATS;
        let same = |(found, expected): (&u32, &u32)| {
            let [found_number, expected_number] = [found, expected].map(|bits| f32::from_bits(*bits));
            let error = (found_number - expected_number).abs();
            if is_float { error <= 1e-4 + 1e-4 * expected_number.abs() } else { found == expected }
        };
        found.len() == self.expected.len() && found.iter().zip(&self.expected).all(same)
    }
}

/// Numbers that look random, another sequence for each seed.
fn words(seed: u32) -> [u32; N] {
    let mut state = seed;
    std::array::from_fn(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 16
    })
}

/// Likewise, between -4 and 4.
fn floats(seed: u32) -> [f32; N] {
    words(seed).map(|word| (word >> 8) as f32 / (1 << 21) as f32 - 4.0)
}

/// A kernel on floating-point numbers.
fn of_floats(
    name: &'static str,
    body: String,
    groups: u32,
    compute: impl Fn(&[f32; N], &[f32; N]) -> Vec<f32>,
) -> Kernel {
    let [a, b] = [1, 2].map(floats);
    let expected = compute(&a, &b).into_iter().map(f32::to_bits).collect();
    Kernel { name, types: FLOATS, body, groups, a: a.map(f32::to_bits), b: b.map(f32::to_bits), expected }
}

/// A kernel of an expression of the elements `x` and `y`, of which each lane computes one.
fn of_each_float(name: &'static str, expression: &str, compute: fn(f32, f32) -> f32) -> Kernel {
    let body = format!("{EACH} let x = a[i]; let y = b[i]; c[i] = {expression}; }}");
    of_floats(name, body, 4, |a, b| (0..N).map(|i| compute(a[i], b[i])).collect())
}

/// Likewise, of integers.
fn of_each_word(name: &'static str, expression: &str, compute: fn(u32, u32) -> u32) -> Kernel {
    let body = format!("{EACH} let x = a[i]; let y = b[i]; c[i] = {expression}; }}");
    let [a, b] = [3, 4].map(words);
    let expected = (0..N).map(|i| compute(a[i], b[i])).collect();
    Kernel { name, types: WORDS, body, groups: 4, a, b, expected }
}

/// Steps until a number is 1 that is halved if it is even, and else tripled and increased.
fn steps(mut number: u32) -> u32 {
    let mut count = 0;
    while number != 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        count += 1;
    }
    count
}

fn histogram() -> Kernel {
    let body = format!("{EACH} atomicAdd(&c[a[i] % 16u], 1u + (b[i] & 1u)); }}");
    let [a, b] = [3, 4].map(words);
    let mut expected = vec![0; N];
    for (a, b) in a.iter().zip(&b) {
        expected[*a as usize % 16] += 1 + (b & 1);
    }
    Kernel { name: "histogram", types: ATOMICS, body, groups: 4, a, b, expected }
}

/// Kernels whose lanes have something to do with each other.
fn of_workgroups() -> [Kernel; 3] {
    let sum = "w[i] = a[i] + b[i]; for (var s = 128u; s > 0u; s /= 2u) { workgroupBarrier(); if (i < s) { w[i] += w[i + s]; } }
        workgroupBarrier(); c[i] = w[0]; }";
    let turned = "w[i] = a[i]; workgroupBarrier(); c[i] = w[(i % 16u) * 16u + i / 16u] + b[i]; }";
    let product =
        "for (var k = 0u; k < 16u; k++) { w[i] += a[i / 16u * 16u + k] * b[k * 16u + i % 16u]; } c[i] = w[i]; }";
    let on = |body: &str| format!("{WORKGROUP} {body}");
    [
        of_floats("sum of a workgroup", on(sum), 1, |a, b| vec![a.iter().chain(b).sum(); N]),
        of_floats("transposition", on(turned), 1, |a, b| (0..N).map(|i| a[i % 16 * 16 + i / 16] + b[i]).collect()),
        of_floats("matrix product", on(product), 1, |a, b| {
            (0..N).map(|i| (0..16).map(|k| a[i / 16 * 16 + k] * b[k * 16 + i % 16]).sum()).collect()
        }),
    ]
}

/// All of them.
pub(crate) fn all() -> Vec<Kernel> {
    let loops = "select(0u, 1u, x == 0u); var n = x % 1000u + 1u;
        while (n != 1u) { if (n % 2u == 0u) { n /= 2u; } else { n = 3u * n + 1u; } c[i]++; } c[i] += y & 1u";
    let mut all = vec![
        of_each_float("sum", "x + y", |x, y| x + y),
        of_each_float("product and sum", "x * y + 1.5", |x, y| x * y + 1.5),
        of_each_float("root", "sqrt(abs(x)) - y", |x, y| x.abs().sqrt() - y),
        of_each_float("choice", "select(x, y, x > y)", |x, y| if x > y { y } else { x }),
        of_each_word("exclusive or", "x ^ y", |x, y| x ^ y),
        of_each_word("shift", "x << (y % 32u)", |x, y| x << (y % 32)),
        of_each_word("remainder", "x % (y / 2u + 1u)", |x, y| x % (y / 2 + 1)),
        of_each_word("reversed bits", "reverseBits(x) ^ y", |x, y| x.reverse_bits() ^ y),
        of_each_word("loops of different lengths", loops, |x, y| u32::from(x == 0) + steps(x % 1000 + 1) + (y & 1)),
        histogram(),
    ];
    all.extend(of_workgroups());
    all
}
