//! Quotients and remainders of words, by way of binary64. A quotient that is no integer is at least one part in 2^32 away from the next one, which 53 bits tell apart, so rounding towards zero gives
//! the integer.

use super::bytes::{Source, With};
use super::form::Form;
use super::opcodes;
use super::plain::{Plain, Value};
use campanile_hw::isa::{Comparison, Op, Type};
use iced_x86::Code;

/// 2^52, whose sum with a word has that as its low word, and a number with which that holds for signed words too.
const WORD: f64 = (1u64 << 52) as f64;
const SIGNED_WORD: f64 = WORD + (1u64 << 51) as f64;

impl Plain<'_> {
    /// DIV or REM of one vector. Division by zero gives all ones as the quotient, and whatever quotient is multiplied by zero, `a` is the remainder.
    pub(super) fn divide(&mut self, op: Op, to: u8, [a, b]: [Value; 2]) {
        let signed = matches!(op, Op::DivS | Op::RemS);
        let ([divisor, low, high], [_, zero]) = (self.free(), self.form().free_masks());
        let from = a.vector(0);
        let by = self.in_vector(false, b, 0);
        let nothing = self.number(false, 0);
        self.code().compare_integers((Comparison::Eq, false), [zero, by], nothing, With::default());
        self.as_numbers(signed, low, from);
        self.as_numbers(signed, high, by);
        self.quotients(signed, low, high);
        for (half, whole) in [(high, from), (divisor, by)] {
            self.with(opcodes::TAKE_UPPER, [whole, 0], Source::Register(half), With::immediate(1));
            self.as_numbers(signed, half, half);
        }
        self.quotients(signed, high, divisor);
        match self.form() {
            Form::Avx512 => self.with(opcodes::PUT_UPPER, [low, low], Source::Register(high), With::immediate(1)),
            Form::Avx2 => self.code().low_words(low, [low, high]),
        }
        if matches!(op, Op::RemS | Op::RemU) {
            self.emit(opcodes::MULTIPLY, [low, low], b.part(0));
            return self.emit(opcodes::subtract(false), [to, from], Source::Register(low));
        }
        match self.form() {
            Form::Avx512 => {
                let ones = self.code().constant(&u32::MAX.to_le_bytes());
                self.with(opcodes::SPREAD, [low, 0], Source::Constant(ones), With::mask(zero));
                self.emit(opcodes::LOAD, [to, 0], Source::Register(low));
            }
            Form::Avx2 => self.emit(opcodes::or(false), [to, low], Source::Register(zero)),
        }
    }

    /// The words of the lower half of a vector as numbers.
    fn as_numbers(&mut self, signed: bool, to: u8, from: u8) {
        match (self.form(), signed) {
            (Form::Avx512, _) => self.emit(opcodes::NUMBERS[usize::from(signed)], [to, 0], Source::Register(from)),
            (Form::Avx2, true) => self.emit(Code::VEX_Vcvtdq2pd_ymm_xmmm128, [to, 0], Source::Register(from)),
            (Form::Avx2, false) => {
                let word = self.number(true, WORD.to_bits());
                self.emit(opcodes::UNSIGNED, [to, 0], Source::Register(from));
                self.emit(opcodes::or(true), [to, to], word);
                self.of_numbers(Op::Sub, [to, to], word);
            }
        }
    }

    /// Divides numbers, and makes words of the quotients: with AVX-512 in the lower half of the vector, with AVX2 the low words of its elements.
    fn quotients(&mut self, signed: bool, to: u8, by: u8) {
        self.of_numbers(Op::Div, [to, to], Source::Register(by));
        match self.form() {
            Form::Avx512 => self.emit(opcodes::WORDS[usize::from(signed)], [to, 0], Source::Register(to)),
            Form::Avx2 => {
                let (round, how) = opcodes::round(Op::Trunc, true);
                self.with(round, [to, 0], Source::Register(to), With::immediate(how));
                let word = self.number(true, SIGNED_WORD.to_bits());
                self.of_numbers(Op::Add, [to, to], word);
            }
        }
    }

    fn of_numbers(&mut self, op: Op, operands: [u8; 2], source: Source) {
        if let Some((opcode, _)) = opcodes::simple(op, Type::F64) {
            self.emit(opcode, operands, source);
        }
    }
}
