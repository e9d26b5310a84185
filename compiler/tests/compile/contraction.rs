//! Products and the sums that they go into are rounded once where NoContraction does not decorate them, and each by itself where it does. [SPIR-V: NoContraction]

use crate::bench::{glsl, run};

/// Types by the bits of their fractions.
const TYPES: [(&str, i32); 3] = [("float16_t", 10), ("float", 23), ("double", 52)];

/// Runs statements that give `o` from `a`, `b` and `c`, numbers of a type, and `n`, which is 1.
fn result(ty: &str, body: &str, numbers: [f64; 3]) -> f64 {
    result_of(&module(ty, body), numbers)
}

fn module(ty: &str, body: &str) -> Vec<u32> {
    glsl(&format!(
        "#extension GL_EXT_shader_explicit_arithmetic_types : require
        layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) buffer X {{ double x[3]; uint n; }};
        layout(set = 0, binding = 1) buffer Y {{ double y; }};
        void main() {{ {ty} a = {ty}(x[0]), b = {ty}(x[1]), c = {ty}(x[2]); {body} y = double(o); }}"
    ))
}

fn result_of(module: &[u32], numbers: [f64; 3]) -> f64 {
    let numbers = numbers.into_iter().flat_map(f64::to_le_bytes).chain(1u64.to_le_bytes()).collect();
    let y = run(module, [1, 1, 1], &[], &[numbers, vec![0; 8]])[1].clone();
    f64::from_le_bytes(y.try_into().expect("eight bytes"))
}

/// Compares the result of statements with one rounding, or with two. The square of the number next to 1 has a last bit that only one rounding keeps.
fn expect(body: &str, is_once: bool) {
    for (ty, fraction) in TYPES {
        let (next, square) = (1.0 + 2f64.powi(-fraction), 1.0 + 2f64.powi(1 - fraction));
        let expected = if is_once { 2f64.powi(-2 * fraction) } else { 0.0 };
        let body = body.replace('T', ty);
        assert_eq!(result(ty, &body, [next, next, -square]), expected, "{body}");
    }
}

#[test]
fn a_product_and_its_sum_are_rounded_once() {
    for body in ["T o = a * b + c;", "T o = c + a * b;", "T d = a * b; T o = c; o += d;"] {
        expect(body, true);
    }
}

#[test]
fn where_either_is_precise_each_is_rounded() {
    for body in ["precise T o = a * b + c;", "precise T d = a * b; T o = d + c;", "T d = a * b; precise T o = d + c;"] {
        expect(body, false);
    }
}

#[test]
fn a_product_that_is_used_twice_is_rounded_for_both() {
    expect("T d = a * b; T o = (d + c) + (d - d);", false);
}

#[test]
fn a_product_whose_numbers_change_before_the_sum_is_rounded_by_itself() {
    expect("T d = a * b; if (n == 1) a = T(0); T o = d + c + T(0) * a;", false);
}

#[test]
fn sums_of_products_are_rounded_once_for_each_product_but_one() {
    let vectors = [("float", "vec2"), ("double", "dvec2")];
    for (ty, vector) in vectors {
        let fraction = TYPES.iter().find(|(name, _)| *name == ty).map_or(0, |(_, fraction)| *fraction);
        let (next, square) = (1.0 + 2f64.powi(-fraction), 1.0 + 2f64.powi(1 - fraction));
        let mut module = module(ty, &format!("{ty} o = dot({vector}(c, a), {vector}(1, b));"));
        let numbers = [next, next, -square];
        assert_eq!(result_of(&module, numbers), 2f64.powi(-2 * fraction));
        decorate_dots(&mut module);
        assert_eq!(result_of(&module, numbers), 0.0);
    }
}

/// Decorates each OpDot with NoContraction, which the front end does for operators only.
fn decorate_dots(module: &mut Vec<u32>) {
    const DOT: u32 = 148;
    const DECORATE: u32 = 71;
    const NO_CONTRACTION: u32 = 42;
    let (mut at, mut dots, mut first) = (5, Vec::new(), None);
    while let Some(word) = module.get(at) {
        match word & 0xffff {
            DOT => dots.push(module[at + 2]),
            DECORATE => first = first.or(Some(at)),
            _ => {}
        }
        at += (word >> 16) as usize;
    }
    assert!(!dots.is_empty());
    let first = first.expect("a decoration");
    let decorations = dots.into_iter().flat_map(|dot| [3 << 16 | DECORATE, dot, NO_CONTRACTION]);
    module.splice(first..first, decorations);
}
