//! Operations that take several instructions of AVX2.

use super::bytes::{MaskOp, Source, With};
use super::opcodes;
use super::plain::Plain;
use campanile_hw::isa::{Comparison, Op, Type};
use iced_x86::Code;

impl Plain<'_> {
    /// Rotates all elements left by one number, which is less than their bits.
    pub(super) fn rotate(&mut self, wide: bool, [to, from]: [u8; 2], by: u8) {
        let bits = if wide { 64 } else { 32 };
        if by.is_multiple_of(8) {
            // Whole bytes in another order.
            let (size, by) = (bits / 8, by / 8);
            let order: Vec<u8> = (0..16).map(|byte| byte / size * size + (byte % size + size - by) % size).collect();
            let order = order.repeat(2);
            let order = Source::Constant(self.code().constant(&order));
            return self.emit(Code::VEX_Vpshufb_ymm_ymm_ymmm256, [to, from], order);
        }
        let [.., free] = self.free();
        self.shift(Op::ShrU, wide, [free, from], bits - by);
        self.shift(Op::Shl, wide, [to, from], by);
        self.emit(opcodes::or(wide), [to, to], Source::Register(free));
    }

    /// Rotates each element left by that of another vector, which is less than its bits.
    pub(super) fn rotate_each(&mut self, wide: bool, [to, from]: [u8; 2], by: u8) {
        let [_, free, rest] = self.free();
        let bits = self.number(wide, if wide { 64 } else { 32 });
        self.emit(opcodes::LOAD, [rest, 0], bits);
        self.emit(opcodes::subtract(wide), [rest, rest], Source::Register(by));
        // By as many as it has bits an element becomes zero.
        self.emit(opcodes::shift_each(Op::ShrU, wide), [free, from], Source::Register(rest));
        self.emit(opcodes::shift_each(Op::Shl, wide), [to, from], Source::Register(by));
        self.emit(opcodes::or(wide), [to, to], Source::Register(free));
    }

    /// Between words and binary32, as `convert`.
    pub(super) fn convert_halves(&mut self, op: Op, to: u8, from: u8) {
        match op {
            Op::FromU => self.unsigned_as_number(to, from),
            Op::ToS => {
                let ([result, beyond, _], [_, mask]) = (self.free(), self.form().free_masks());
                self.emit(opcodes::convert(op), [result, 0], Source::Register(from));
                // What is too great has become the least number, whose complement is the greatest.
                let end = self.number(false, f32::to_bits(2_147_483_648.0).into());
                let is = |comparison| (opcodes::relation(comparison), false);
                self.code().compare_numbers(is(Comparison::Ge), [beyond, from], end, With::default());
                let own = Source::Register(from);
                self.code().compare_numbers(is(Comparison::Eq), [mask, from], own, With::default());
                self.emit(opcodes::xor(false), [result, result], Source::Register(beyond));
                self.code().masks(MaskOp::And, to, result, mask);
            }
            Op::ToU => self.number_as_unsigned(to, from),
            _ => self.emit(opcodes::convert(op), [to, 0], Source::Register(from)),
        }
    }

    /// Both halves of a word as numbers whose exponents say which half they are: the sum of these is rounded once.
    fn unsigned_as_number(&mut self, to: u8, from: u8) {
        let [low, high, _] = self.free();
        let [half, of_low, of_high, both] = [
            0xffff,
            f32::to_bits((1u64 << 23) as f32),
            f32::to_bits((1u64 << 39) as f32),
            f32::to_bits((1u64 << 39) as f32 + (1u64 << 23) as f32),
        ]
        .map(|bits| self.number(false, bits.into()));
        self.emit(opcodes::and(false), [low, from], half);
        self.emit(opcodes::or(false), [low, low], of_low);
        self.shift(Op::ShrU, false, [high, from], 16);
        self.emit(opcodes::or(false), [high, high], of_high);
        for (op, operands, source) in [(Op::Sub, [high, high], both), (Op::Add, [to, low], Source::Register(high))] {
            if let Some((opcode, _)) = opcodes::simple(op, Type::F32) {
                self.emit(opcode, operands, source);
            }
        }
    }

    /// What is below 2^31 and what is beyond it, each by a conversion to signed words, added.
    fn number_as_unsigned(&mut self, to: u8, from: u8) {
        let ([number, above, _], [_, mask]) = (self.free(), self.form().free_masks());
        let half = self.number(false, f32::to_bits(2_147_483_648.0).into());
        self.emit(opcodes::xor(false), [above, above], Source::Register(above));
        // Of a number that is none the second operand is taken.
        self.emit(Code::VEX_Vmaxps_ymm_ymm_ymmm256, [number, from], Source::Register(above));
        for (op, ty, operands, source) in
            [(Op::Sub, Type::F32, [above, number], half), (Op::ToS, Type::F32, [number, 0], Source::Register(number))]
        {
            let opcode = opcodes::simple(op, ty).map_or(opcodes::convert(op), |(opcode, _)| opcode);
            self.emit(opcode, operands, source);
        }
        let relation = (opcodes::relation(Comparison::Ge), false);
        self.code().compare_numbers(relation, [mask, above], half, With::default());
        self.emit(opcodes::convert(Op::ToS), [above, 0], Source::Register(above));
        self.emit(opcodes::xor(false), [above, above], Source::Register(mask));
        let [_, _, zero] = self.free();
        self.emit(opcodes::xor(false), [zero, zero], Source::Register(zero));
        for (op, operands, source) in
            [(Op::Max, [above, above], Source::Register(zero)), (Op::Add, [to, number], Source::Register(above))]
        {
            if let Some((opcode, _)) = opcodes::simple(op, Type::I32) {
                self.emit(opcode, operands, source);
            }
        }
    }
}
