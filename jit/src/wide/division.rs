//! Quotients and remainders of words with AVX-512, by way of binary64. A quotient that is no integer is at least one part in 2^32 away from the next one, which 53 bits tell apart, so rounding
//! towards zero gives the integer.

use super::bytes::{Source, With};
use super::opcodes;
use super::plain::{Plain, Value};
use campanile_hw::isa::{Comparison, Op};

impl Plain<'_> {
    /// DIV or REM of one vector. Division by zero gives an infinity or no number, which becomes what an unsigned quotient is to be, all ones; the product of that and zero leaves `a` as the remainder.
    pub(super) fn divide(&mut self, op: Op, to: u8, [a, b]: [Value; 2]) {
        let signed = matches!(op, Op::DivS | Op::RemS);
        let [divisor, low, high] = self.free();
        let [as_number, as_word] = [opcodes::NUMBERS, opcodes::WORDS].map(|forms| forms[usize::from(signed)]);
        let [_, zero] = self.form().free_masks();
        let from = a.vector(0);
        let by = self.in_vector(false, b, 0);
        self.emit(as_number, [low, 0], Source::Register(from));
        self.emit(as_number, [high, 0], Source::Register(by));
        self.emit(opcodes::DIVIDE, [low, low], Source::Register(high));
        self.emit(as_word, [low, 0], Source::Register(low));
        if signed {
            let nothing = self.number(false, 0);
            self.code().compare_integers((Comparison::Eq, false), [zero, by], nothing, With::default());
        }
        self.with(opcodes::TAKE_UPPER, [from, 0], Source::Register(high), With::immediate(1));
        self.emit(as_number, [high, 0], Source::Register(high));
        self.with(opcodes::TAKE_UPPER, [by, 0], Source::Register(divisor), With::immediate(1));
        self.emit(as_number, [divisor, 0], Source::Register(divisor));
        self.emit(opcodes::DIVIDE, [high, high], Source::Register(divisor));
        self.emit(as_word, [high, 0], Source::Register(high));
        self.with(opcodes::PUT_UPPER, [low, low], Source::Register(high), With::immediate(1));
        if matches!(op, Op::RemS | Op::RemU) {
            self.emit(opcodes::MULTIPLY, [low, low], b.part(0));
            return self.emit(opcodes::subtract(false), [to, from], Source::Register(low));
        }
        if signed {
            let ones = self.code().constant(&u32::MAX.to_le_bytes());
            self.with(opcodes::SPREAD, [low, 0], Source::Constant(ones), With::mask(zero));
        }
        self.emit(opcodes::LOAD, [to, 0], Source::Register(low));
    }
}
