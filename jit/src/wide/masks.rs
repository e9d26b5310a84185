//! Masks of lanes, in whatever a form has them: registers of masks, or vectors.

use super::bytes::{Bytes, MaskOp, RAX, RDI, Source, With};
use super::form::Form;
use super::opcodes;
use crate::context::ACTIVE;
use campanile_hw::isa::{Comparison, Op, Type};
use iced_x86::Code;

impl Bytes {
    pub(crate) fn masks(&mut self, op: MaskOp, to: u8, first: u8, second: u8) {
        let [of_masks, of_vectors] = match op {
            MaskOp::And => [Code::VEX_Kandw_kr_kr_kr, opcodes::and(false)],
            MaskOp::AndNot => [Code::VEX_Kandnw_kr_kr_kr, opcodes::and_not(false)],
            MaskOp::Or => [Code::VEX_Korw_kr_kr_kr, opcodes::or(false)],
            MaskOp::Xor => [Code::VEX_Kxorw_kr_kr_kr, opcodes::xor(false)],
        };
        let code = self.either(of_masks, of_vectors);
        self.vector(code, [to, first], Source::Register(second), With::default());
    }

    /// Sets no element of a mask, or all of them.
    pub(crate) fn set_mask(&mut self, to: u8, all: bool) {
        let code = match (self.form(), all) {
            (Form::Avx512, true) => Code::VEX_Kxnorw_kr_kr_kr,
            (Form::Avx2, true) => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
            (_, false) => return self.masks(MaskOp::Xor, to, to, to),
        };
        self.vector(code, [to, to], Source::Register(to), With::default());
    }

    pub(crate) fn not_mask(&mut self, to: u8, from: u8) {
        match self.form() {
            Form::Avx512 => self.two(Code::VEX_Knotw_kr_kr, to, from),
            Form::Avx2 => {
                let ones = Source::Spread(self.constant(&[0xff; 4]));
                self.vector(opcodes::xor(false), [to, from], ones, With::default());
            }
        }
    }

    pub(crate) fn copy_mask(&mut self, to: u8, from: u8) {
        let code = self.either(Code::VEX_Kmovw_kr_km16, opcodes::LOAD);
        self.two(code, to, from);
    }

    /// The mask of a vector of doubles, by its number among those of the lanes of a vector of words, from the mask of that; it may be `free`.
    pub(crate) fn part_of_mask(&mut self, free: u8, mask: u8, part: u8) -> u8 {
        match self.form() {
            Form::Avx512 if part == 0 => return mask,
            Form::Avx512 => {
                self.vector(
                    Code::VEX_Kshiftrw_kr_kr_imm8,
                    [free, 0],
                    Source::Register(mask),
                    With::immediate(part * 8),
                );
            }
            Form::Avx2 => {
                let mut words = mask;
                if part != 0 {
                    self.vector(opcodes::TAKE_UPPER, [mask, 0], Source::Register(free), With::immediate(1));
                    words = free;
                }
                self.two(opcodes::SIGNED, free, words);
            }
        }
        free
    }

    /// The mask for words from those of two vectors of doubles.
    pub(crate) fn join_masks(&mut self, to: u8, [low, high]: [u8; 2]) {
        match self.form() {
            Form::Avx512 => {
                self.vector(Code::VEX_Kunpckbw_kr_kr_kr, [to, high], Source::Register(low), With::default());
            }
            Form::Avx2 => self.low_words(to, [low, high]),
        }
    }

    /// The low words of the elements of two vectors of doubles, without masks.
    pub(crate) fn low_words(&mut self, to: u8, [low, high]: [u8; 2]) {
        let (shuffle, order) = (Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, Code::VEX_Vpermq_ymm_ymmm256_imm8);
        self.vector(shuffle, [to, low], Source::Register(high), With::immediate(0x88));
        self.vector(order, [to, 0], Source::Register(to), With::immediate(0xd8));
    }

    /// Loads the mask of a group of lanes from the bits of all lanes.
    pub(crate) fn load_mask(&mut self, to: u8, (base, offset): (u8, i32), group: i32) {
        match self.form() {
            Form::Avx512 => self.with_memory(Code::VEX_Kmovw_kr_km16, to, base, offset + group * 2),
            Form::Avx2 => {
                let bits: Vec<u8> = (0..8).flat_map(|lane| (1u32 << (group * 8 + lane)).to_le_bytes()).collect();
                let bits = Source::Constant(self.constant(&bits));
                self.vector(opcodes::SPREAD, [to, 0], Source::Element(base, offset), With::default());
                self.vector(opcodes::and(false), [to, to], bits, With::default());
                self.vector(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, [to, to], bits, With::default());
            }
        }
    }

    /// The mask of a group of as many lanes as a vector has doubles, of which RAX has the bits of those that are active.
    pub(crate) fn mask_of_group(&mut self, to: u8, group: u8) {
        match self.form() {
            Form::Avx512 => self.mask_of(to, RAX),
            Form::Avx2 => {
                let bits: Vec<u8> = (0..4).flat_map(|lane| (1u64 << (group * 4 + lane)).to_le_bytes()).collect();
                let bits = Source::Constant(self.constant(&bits));
                self.vector(opcodes::SPREAD_DOUBLE, [to, 0], Source::Element(RDI, ACTIVE), With::default());
                self.vector(opcodes::and(true), [to, to], bits, With::default());
                self.vector(Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, [to, to], bits, With::default());
            }
        }
    }

    /// A mask of the low 16 bits of a general register, of AVX-512 alone.
    pub(crate) fn mask_of(&mut self, to: u8, general: u8) {
        self.two(Code::VEX_Kmovw_kr_r32, to, general);
    }

    /// The bits of a mask in a general register.
    pub(crate) fn bits_of(&mut self, general: u8, mask: u8) {
        let code = self.either(Code::VEX_Kmovw_r32_kr, Code::VEX_Vmovmskps_r32_ymm);
        self.two(code, general, mask);
    }

    /// Stores the bits of a mask of a group of lanes, which are in RAX, at those of all lanes.
    pub(crate) fn store_bits(&mut self, base: u8, offset: i32, group: i32) {
        let bytes = self.form().lanes() as i32 / 8;
        let code = if bytes == 1 { Code::Mov_rm8_r8 } else { Code::Mov_rm16_r16 };
        self.with_memory(code, RAX, base, offset + group * bytes);
    }

    /// Stores the elements of a vector of words or doubles that a mask has.
    pub(crate) fn store_masked(&mut self, wide: bool, from: u8, place: Source, mask: u8) {
        match self.form() {
            Form::Avx512 => {
                let opcode = if wide { opcodes::STORE_DOUBLES } else { opcodes::STORE };
                self.vector(opcode, [from, 0], place, With::mask(mask));
            }
            Form::Avx2 => {
                let [all, ..] = self.form().free();
                self.vector(opcodes::LOAD, [all, 0], place, With::default());
                self.vector(opcodes::blend(wide), [all, all], Source::Register(from), With::mask(mask));
                self.vector(opcodes::STORE, [all, 0], place, With::default());
            }
        }
    }

    /// A mask of the elements that compare so, among those of the mask in `with`.
    pub(crate) fn compare_integers(
        &mut self,
        (comparison, wide): (Comparison, bool),
        [to, first]: [u8; 2],
        second: Source,
        with: With,
    ) {
        match self.form() {
            Form::Avx512 => {
                let (opcode, relation) = opcodes::compare(comparison, wide);
                let with = With { immediate: Some(relation.into()), ..with };
                self.vector(opcode, [to, first], second, with);
            }
            Form::Avx2 => {
                let (direct, inverse) = direct(Form::Avx2, comparison, wide);
                self.compare_halves(direct, wide, [to, first], second);
                if inverse {
                    self.not_mask(to, to);
                }
                if with.mask != 0 {
                    self.masks(MaskOp::And, to, to, with.mask);
                }
            }
        }
    }

    /// A mask, for [`Bytes::test_mask`] alone, that is zero if the elements of a mask, or all where that is 0, are equal.
    pub(crate) fn find_unequal(&mut self, wide: bool, [to, first]: [u8; 2], second: Source, mask: u8) {
        match self.form() {
            Form::Avx512 => {
                self.compare_integers((Comparison::Ne, wide), [to, first], second, With::mask(mask));
            }
            Form::Avx2 => {
                self.vector(opcodes::xor(wide), [to, first], second, With::default());
                if mask != 0 {
                    self.masks(MaskOp::And, to, to, mask);
                }
            }
        }
    }

    /// A mask, for [`Bytes::test_mask`] alone, that is zero if no element of doubles, among those of a mask, has one of some bits.
    pub(crate) fn test_elements(&mut self, [to, number]: [u8; 2], bits: Source, mask: u8) {
        match self.form() {
            Form::Avx512 => self.vector(opcodes::test(true, false), [to, number], bits, With::mask(mask)),
            Form::Avx2 => {
                self.vector(opcodes::and(true), [to, number], bits, With::default());
                if mask != 0 {
                    self.masks(MaskOp::And, to, to, mask);
                }
            }
        }
    }

    /// Doubles from addresses, of the elements of a mask, which is lost.
    pub(crate) fn gather_doubles(&mut self, [to, mask]: [u8; 2], places: Source) {
        match self.form() {
            Form::Avx512 => self.vector(opcodes::GATHER_DOUBLES, [to, 0], places, With::mask(mask)),
            Form::Avx2 => {
                self.vector(Code::VEX_Vpgatherqq_ymm_vm64y_ymm, [to, mask], places, With::default());
            }
        }
    }

    /// A double of a general register in all elements.
    pub(crate) fn spread_general(&mut self, to: u8, general: u8) {
        match self.form() {
            Form::Avx512 => self.two(opcodes::SPREAD_GENERAL, to, general),
            Form::Avx2 => {
                self.two(Code::VEX_Vmovq_xmm_rm64, to, general);
                self.two(opcodes::SPREAD_DOUBLE, to, to);
            }
        }
    }

    /// A [`direct`] comparison of AVX2; `to` is neither source but of a comparison for equality.
    fn compare_halves(&mut self, comparison: Comparison, wide: bool, [to, mut first]: [u8; 2], mut second: Source) {
        use Comparison::*;
        let [.., free] = self.form().free();
        let (equal, greater) = match wide {
            true => (Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256),
            false => (Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256),
        };
        if matches!(comparison, LeU | GeU) {
            // The lesser or greater one of both is the first.
            let extreme = if comparison == LeU { Op::MinU } else { Op::MaxU };
            if let Some((extreme, _)) = opcodes::simple(extreme, Type::I32) {
                self.vector(extreme, [to, first], second, With::default());
            }
            return self.vector(equal, [to, to], Source::Register(first), With::default());
        }
        if matches!(comparison, LtU | GtU) {
            second = self.moved(free, second);
            first = match self.moved(to, Source::Register(first)) {
                Source::Register(first) => first,
                _ => to,
            };
        }
        match (comparison, second) {
            (Eq, _) => self.vector(equal, [to, first], second, With::default()),
            (Gt | GtU, _) => self.vector(greater, [to, first], second, With::default()),
            (_, Source::Register(lesser)) => {
                self.vector(greater, [to, lesser], Source::Register(first), With::default());
            }
            _ => {
                self.vector(opcodes::LOAD, [free, 0], second, With::default());
                self.vector(greater, [to, free], Source::Register(first), With::default());
            }
        }
    }

    /// Doubles moved by half of their range, so that their order as signed numbers is that without signs: in a vector, or as a constant.
    fn moved(&mut self, to: u8, doubles: Source) -> Source {
        const HALF: u64 = 1 << 63;
        if let Source::Spread(number) = doubles {
            let Some(bytes) = self.bytes_of(number).first_chunk().copied() else {
                self.refuse(format!("constant {number} has {} bytes, no double", self.bytes_of(number).len()));
                return doubles;
            };
            let moved = u64::from_le_bytes(bytes) ^ HALF;
            return Source::Spread(self.constant(&moved.to_le_bytes()));
        }
        let mut from = to;
        match doubles {
            Source::Register(number) => from = number,
            _ => self.vector(opcodes::LOAD, [to, 0], doubles, With::default()),
        }
        let half = Source::Spread(self.constant(&HALF.to_le_bytes()));
        self.vector(opcodes::xor(true), [to, from], half, With::default());
        Source::Register(to)
    }

    /// A mask of the elements of numbers for which a relation holds, among those of the mask in `with`.
    pub(crate) fn compare_numbers(
        &mut self,
        (relation, wide): (u8, bool),
        operands: [u8; 2],
        second: Source,
        with: With,
    ) {
        let with = With { immediate: Some(relation.into()), ..with };
        self.vector(opcodes::compare_numbers(wide), operands, second, with);
    }

    /// Leaves in a mask the elements whose number has the sign, or those whose number has it not.
    pub(crate) fn keep_signs(&mut self, wide: bool, mask: u8, number: u8, negative: bool) {
        match self.form() {
            Form::Avx512 => {
                let sign = if wide { (1u64 << 63).to_le_bytes().to_vec() } else { (1u32 << 31).to_le_bytes().to_vec() };
                let sign = Source::Spread(self.constant(&sign));
                self.vector(opcodes::test(wide, !negative), [mask, number], sign, With::mask(mask));
            }
            // A mask that chooses elements does so by its highest bits.
            Form::Avx2 if negative => self.masks(MaskOp::And, mask, mask, number),
            Form::Avx2 => self.masks(MaskOp::AndNot, mask, number, mask),
        }
    }

    /// Compares a mask with zero.
    pub(crate) fn test_mask(&mut self, mask: u8) {
        let code = self.either(Code::VEX_Kortestw_kr_kr, Code::VEX_Vptest_ymm_ymmm256);
        self.two(code, mask, mask);
    }

    fn either(&self, of_masks: Code, of_vectors: Code) -> Code {
        match self.form() {
            Form::Avx512 => of_masks,
            Form::Avx2 => of_vectors,
        }
    }
}

/// A comparison of integers that a form has as such, and whether the one at hand is its complement: AVX2 compares signed numbers for one being greater, words without signs by the lesser or greater of
/// both, and doubles without signs as signed ones.
pub(crate) fn direct(form: Form, comparison: Comparison, wide: bool) -> (Comparison, bool) {
    use Comparison::*;
    match (form, comparison) {
        (Form::Avx512, _) => (comparison, false),
        (_, Ne) => (Eq, true),
        (_, Le) => (Gt, true),
        (_, Ge) => (Lt, true),
        (_, LeU) if wide => (GtU, true),
        (_, GeU) if wide => (LtU, true),
        (_, LtU) if !wide => (GeU, true),
        (_, GtU) if !wide => (LeU, true),
        _ => (comparison, false),
    }
}
