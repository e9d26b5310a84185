//! Floating-point arithmetic of each type, in bits.

use campanile_hw::isa::{Op, f16_to_f64, f64_to_f16};

/// Arithmetic of binary32 or binary64.
macro_rules! arithmetic {
    ($name:ident, $ty:ident, $bits:ident, $nan:literal, $fma:ident, $($libm:ident)*) => {
        /// The result of an operation on these bits.
        pub(crate) fn $name(op: Op, a: $bits, b: $bits, c: $bits) -> $bits {
            const SIGN: $bits = 1 << ($bits::BITS - 1);
            match op {
                Op::Neg => return a ^ SIGN,
                Op::Abs => return a & !SIGN,
                _ => {}
            }
            let (x, y, z) = ($ty::from_bits(a), $ty::from_bits(b), $ty::from_bits(c));
            arithmetic!(@match op, x, y, z, $bits, $nan, $fma, $($libm)*)
        }
    };
    (@match $op:ident, $x:ident, $y:ident, $z:ident, $bits:ident, $nan:literal, $fma:ident,
        $floor:ident $ceil:ident $trunc:ident $rint:ident $sqrt:ident $exp2:ident $log2:ident $exp:ident $log:ident $pow:ident $sin:ident $cos:ident $tan:ident
        $asin:ident $acos:ident $atan:ident $atan2:ident $sinh:ident $cosh:ident $tanh:ident $asinh:ident $acosh:ident $atanh:ident $fmod:ident) => {{
        let result = match $op {
            Op::Add => $x + $y,
            Op::Sub => $x - $y,
            Op::Mul => $x * $y,
            Op::Div => $x / $y,
            Op::Fma => libm::$fma($x, $y, $z),
            Op::Min if $y.is_nan() || $x < $y || ($x == $y && $x.is_sign_negative()) => $x,
            Op::Min => $y,
            Op::Max if $y.is_nan() || $x > $y || ($x == $y && $x.is_sign_positive()) => $x,
            Op::Max => $y,
            Op::Floor => libm::$floor($x),
            Op::Ceil => libm::$ceil($x),
            Op::Trunc => libm::$trunc($x),
            Op::RoundEven => libm::$rint($x),
            Op::Sqrt => libm::$sqrt($x),
            Op::Exp2 => libm::$exp2($x),
            Op::Log2 => libm::$log2($x),
            Op::Exp => libm::$exp($x),
            Op::Log => libm::$log($x),
            Op::Pow => libm::$pow($x, $y),
            Op::Sin => libm::$sin($x),
            Op::Cos => libm::$cos($x),
            Op::Tan => libm::$tan($x),
            Op::Asin => libm::$asin($x),
            Op::Acos => libm::$acos($x),
            Op::Atan => libm::$atan($x),
            Op::Atan2 => libm::$atan2($x, $y),
            Op::Sinh => libm::$sinh($x),
            Op::Cosh => libm::$cosh($x),
            Op::Tanh => libm::$tanh($x),
            Op::Asinh => libm::$asinh($x),
            Op::Acosh => libm::$acosh($x),
            Op::Atanh => libm::$atanh($x),
            Op::Rem => libm::$fmod($x, $y),
            _ => return 0,
        };
        if result.is_nan() { $nan } else { result.to_bits() }
    }};
}

arithmetic!(binary32, f32, u32, 0x7fc0_0000, fmaf,
    floorf ceilf truncf rintf sqrtf exp2f log2f expf logf powf sinf cosf tanf asinf acosf atanf atan2f sinhf coshf tanhf asinhf acoshf atanhf fmodf);
arithmetic!(binary64, f64, u64, 0x7ff8_0000_0000_0000, fma,
    floor ceil trunc rint sqrt exp2 log2 exp log pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh fmod);

/// The result of an operation on binary16. Sums, products, quotients and roots of binary16 are rounded once when they are rounded from binary64, which has more than
/// twice the digits; a fused multiply-add is rounded to odd before.
pub(crate) fn binary16(op: Op, a: u16, b: u16, c: u16) -> u16 {
    match op {
        Op::Neg => return a ^ 0x8000,
        Op::Abs => return a & 0x7fff,
        _ => {}
    }
    let (x, y, z) = (f16_to_f64(a), f16_to_f64(b), f16_to_f64(c));
    let wide = match op {
        Op::Fma => add_to_odd(x * y, z),
        _ => f64::from_bits(binary64(op, x.to_bits(), y.to_bits(), z.to_bits())),
    };
    f64_to_f16(wide)
}

/// The sum; if it is not exact, the one of its two neighbours whose last digit is odd.
fn add_to_odd(x: f64, y: f64) -> f64 {
    let sum = x + y;
    let other = sum - x;
    let error = (x - (sum - other)) + (y - other);
    if !sum.is_finite() || error == 0.0 || sum.to_bits() & 1 != 0 {
        return sum;
    }
    let away = error.is_sign_negative() == sum.is_sign_negative();
    f64::from_bits(if away { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}
