//! Instructions of the processor by what they do: AVX-512 with the extensions that [`Form::is_there`](super::form::Form::is_there) asks for. Those of AVX2 are [`half`](super::halves::half).

use campanile_hw::isa::{Comparison, Op, Type};
use iced_x86::Code;
use iced_x86::Code::*;

/// Copies of whole vectors: into a register, and into memory.
pub(crate) const LOAD: Code = EVEX_Vmovdqu32_zmm_k1z_zmmm512;
pub(crate) const STORE: Code = EVEX_Vmovdqu32_zmmm512_k1z_zmm;
/// Stores doubles, where some elements are left out.
pub(crate) const STORE_DOUBLES: Code = EVEX_Vmovdqu64_zmmm512_k1z_zmm;
/// A word or double in memory, in all elements.
pub(crate) const SPREAD: Code = EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
pub(crate) const SPREAD_DOUBLE: Code = EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
/// A double of a general register, in all elements.
pub(crate) const SPREAD_GENERAL: Code = EVEX_Vpbroadcastq_zmm_k1z_r64;
/// Eight words as doubles, and doubles as words.
pub(crate) const SIGNED: Code = EVEX_Vpmovsxdq_zmm_k1z_ymmm256;
pub(crate) const UNSIGNED: Code = EVEX_Vpmovzxdq_zmm_k1z_ymmm256;
pub(crate) const NARROW: Code = EVEX_Vpmovqd_ymmm256_k1z_zmm;
/// Takes the upper half out of a vector, and puts it in.
pub(crate) const TAKE_UPPER: Code = EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
pub(crate) const PUT_UPPER: Code = EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
/// Elements of two vectors, by the numbers that the elements of the first operand have before.
pub(crate) fn pick(wide: bool) -> Code {
    form(wide, [EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32, EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64])
}
/// Quarters of two vectors, two of each.
pub(crate) const QUARTERS: Code = EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8;
/// The products of words.
pub(crate) const MULTIPLY: Code = EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
/// The products of the low halves of doubles.
pub(crate) const MULTIPLY_LOW: Code = EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64;
/// Eight words as numbers of binary64, and such numbers as words, rounded towards zero: unsigned and signed. A number that does not fit becomes all ones, or the smallest.
pub(crate) const NUMBERS: [Code; 2] = [EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er, EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er];
pub(crate) const WORDS: [Code; 2] = [EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae, EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae];
/// Elements from addresses, and to addresses.
pub(crate) const GATHER: Code = EVEX_Vpgatherqd_ymm_k1_vm64z;
pub(crate) const GATHER_DOUBLES: Code = EVEX_Vpgatherqq_zmm_k1_vm64z;
pub(crate) const SCATTER: Code = EVEX_Vpscatterqd_vm64z_k1_ymm;
pub(crate) const SCATTER_DOUBLES: Code = EVEX_Vpscatterqq_vm64z_k1_zmm;

/// The form of an instruction for words or doubles.
fn form(wide: bool, [of_words, of_doubles]: [Code; 2]) -> Code {
    if wide { of_doubles } else { of_words }
}

pub(crate) fn and(wide: bool) -> Code {
    form(wide, [EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64])
}

pub(crate) fn and_not(wide: bool) -> Code {
    form(wide, [EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpandnq_zmm_k1z_zmm_zmmm512b64])
}

pub(crate) fn or(wide: bool) -> Code {
    form(wide, [EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, EVEX_Vporq_zmm_k1z_zmm_zmmm512b64])
}

pub(crate) fn xor(wide: bool) -> Code {
    form(wide, [EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64])
}

pub(crate) fn add(wide: bool) -> Code {
    form(wide, [EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64])
}

pub(crate) fn subtract(wide: bool) -> Code {
    form(wide, [EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64])
}

/// The second operand where the mask is not set, the third where it is.
pub(crate) fn blend(wide: bool) -> Code {
    form(wide, [EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64])
}

/// A mask of the elements whose common bits are not zero, or are.
pub(crate) fn test(wide: bool, zero: bool) -> Code {
    match zero {
        true => form(wide, [EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32, EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64]),
        false => form(wide, [EVEX_Vptestmd_kr_k1_zmm_zmmm512b32, EVEX_Vptestmq_kr_k1_zmm_zmmm512b64]),
    }
}

pub(crate) fn count_ones(wide: bool) -> Code {
    form(wide, [EVEX_Vpopcntd_zmm_k1z_zmmm512b32, EVEX_Vpopcntq_zmm_k1z_zmmm512b64])
}

/// Shifts by an immediate.
pub(crate) fn shift(kind: Op, wide: bool) -> Code {
    let forms = match kind {
        Op::Shl => [EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8],
        Op::ShrU => [EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8],
        Op::ShrS => [EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8],
        _ => [EVEX_Vprold_zmm_k1z_zmmm512b32_imm8, EVEX_Vprolq_zmm_k1z_zmmm512b64_imm8],
    };
    form(wide, forms)
}

/// Shifts by the elements of the third operand.
pub(crate) fn shift_each(kind: Op, wide: bool) -> Code {
    let forms = match kind {
        Op::Shl => [EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64],
        Op::ShrU => [EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64],
        Op::ShrS => [EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64],
        _ => [EVEX_Vprolvd_zmm_k1z_zmm_zmmm512b32, EVEX_Vprolvq_zmm_k1z_zmm_zmmm512b64],
    };
    form(wide, forms)
}

/// Operations on one or two vectors that are one instruction. True if it has one operand.
pub(crate) fn simple(kind: Op, ty: Type) -> Option<(Code, bool)> {
    let alone = matches!(kind, Op::Sqrt | Op::Abs | Op::CountOnes | Op::LeadingZeros);
    let forms = match (kind, ty.is_float()) {
        (Op::Add, true) => [EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er],
        (Op::Sub, true) => [EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er],
        (Op::Mul, true) => [EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er],
        (Op::Div, true) => [EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er],
        (Op::Sqrt, true) => [EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er],
        (_, true) => return None,
        (Op::Add, _) => [EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64],
        (Op::Sub, _) => [EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64],
        (Op::Mul, _) => [EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64],
        (Op::And, _) => [EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64],
        (Op::Or, _) => [EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, EVEX_Vporq_zmm_k1z_zmm_zmmm512b64],
        (Op::Xor, _) => [EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64],
        (Op::Min, _) => [EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64],
        (Op::MinU, _) => [EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32, EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64],
        (Op::Max, _) => [EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64],
        (Op::MaxU, _) => [EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32, EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64],
        (Op::Abs, _) => [EVEX_Vpabsd_zmm_k1z_zmmm512b32, EVEX_Vpabsq_zmm_k1z_zmmm512b64],
        (Op::CountOnes, _) => [EVEX_Vpopcntd_zmm_k1z_zmmm512b32, EVEX_Vpopcntq_zmm_k1z_zmmm512b64],
        (Op::LeadingZeros, _) => [EVEX_Vplzcntd_zmm_k1z_zmmm512b32, EVEX_Vplzcntq_zmm_k1z_zmmm512b64],
        _ => return None,
    };
    Some((form(matches!(ty, Type::I64 | Type::F64), forms), alone))
}

/// The sum of a product, rounded once: the first operand is a factor, or the number that is added.
pub(crate) fn multiply_add(adds_to_first: bool, wide: bool) -> Code {
    let forms = match adds_to_first {
        true => [EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er],
        false => [EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er],
    };
    form(wide, forms)
}

/// Rounds to an integer, and how.
pub(crate) fn round(kind: Op, wide: bool) -> (Code, u8) {
    let how = match kind {
        Op::RoundEven => 0,
        Op::Floor => 1,
        Op::Ceil => 2,
        _ => 3,
    };
    let forms = [EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae];
    (form(wide, forms), how | 8)
}

/// Compares numbers; the relations of its immediate are those of [`relation`].
pub(crate) fn compare_numbers(wide: bool) -> Code {
    form(wide, [EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae])
}

/// A comparison that is true if one of both is a NaN.
pub(crate) const UNORDERED: u8 = 3;

/// The relation of a comparison of numbers.
pub(crate) fn relation(comparison: Comparison) -> u8 {
    match comparison {
        Comparison::Eq => 0,
        Comparison::Ne => 4,
        Comparison::Lt | Comparison::LtU => 0x11,
        Comparison::Le | Comparison::LeU => 0x12,
        Comparison::Gt | Comparison::GtU => 0x1e,
        Comparison::Ge | Comparison::GeU => 0x1d,
    }
}

/// Compares integers, and the relation.
pub(crate) fn compare(comparison: Comparison, wide: bool) -> (Code, u8) {
    let signed = form(wide, [EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8]);
    let unsigned = form(wide, [EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8]);
    match comparison {
        Comparison::Eq => (signed, 0),
        Comparison::Ne => (signed, 4),
        Comparison::Lt => (signed, 1),
        Comparison::Le => (signed, 2),
        Comparison::Gt => (signed, 6),
        Comparison::Ge => (signed, 5),
        Comparison::LtU => (unsigned, 1),
        Comparison::LeU => (unsigned, 2),
        Comparison::GtU => (unsigned, 6),
        Comparison::GeU => (unsigned, 5),
    }
}

/// Between words and numbers of binary32.
pub(crate) fn convert(kind: Op) -> Code {
    match kind {
        Op::FromS => EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
        Op::FromU => EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er,
        Op::ToS => EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae,
        _ => EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae,
    }
}
