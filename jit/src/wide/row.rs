//! Loads and stores of all lanes whose addresses follow one another or are one.

use super::access::{Access, Space};
use super::bytes::{Bytes, Label, MaskOp, R8, RAX, RCX, RDI, RDX, RSI, Source, With};
use super::form::Form;
use super::opcodes;
use crate::context::{ACTIVE, Context};
use crate::files::{DOUBLE, WORD};
use crate::pages::{COUNT, FOLDS, PAGE, Page};
use campanile_hw::isa::{Comparison, LANES};
use iced_x86::Code;
use std::mem::offset_of;

const FREE: [u8; 3] = Form::Avx512.free();
/// The vector with the address of the first lane in all elements, and masks for what was found.
const FIRST: u8 = 23;
const FOUND: u8 = 3;
const DIFFERS: u8 = 5;

impl Access {
    /// Generates the access for all lanes if all are active and their addresses are in one of these orders; otherwise, and where one is wrong, the code goes on behind.
    pub(crate) fn in_order(&self, code: &mut Bytes) {
        if matches!(self.space, Space::Scratch(_)) {
            return;
        }
        let other = code.label();
        code.load(false, RAX, RDI, ACTIVE);
        code.compare(RAX, -1);
        code.jump_if(false, other);
        let (row, same) = (code.label(), code.label());
        let (is_row, is_same) = (matches!(self.format.registers(), 1 | 2), !self.store);
        let size = self.format.bytes();
        // The first two lanes say which order it can be.
        code.load(self.is_global(), RAX, RSI, 0);
        code.load(self.is_global(), R8, RSI, if self.is_global() { 8 } else { 4 });
        code.two(if self.is_global() { Code::Sub_r64_rm64 } else { Code::Sub_r32_rm32 }, R8, RAX);
        for (may_be, step, label) in [(is_row, size, row), (is_same, 0, same)] {
            if may_be {
                code.compare_number(self.is_global(), R8, step);
                code.jump_if(true, label);
            }
        }
        code.jump(other);
        for (may_be, step, label, bytes) in [(is_row, size, row, size * LANES as u32), (is_same, 0, same, size)] {
            if !may_be {
                continue;
            }
            code.place(label);
            self.in_steps(code, step.into(), other);
            self.place(code, bytes.into(), other);
            if step != 0 {
                self.row(code);
            } else {
                self.same(code);
            }
            code.set(RAX, 0);
            code.end();
        }
        code.place(other);
    }

    fn is_global(&self) -> bool {
        matches!(self.space, Space::Global)
    }

    /// Goes to `other` unless the address of every lane is `step` greater than that of the one before.
    fn in_steps(&self, code: &mut Bytes, step: u64, other: Label) {
        let global = self.is_global();
        let lanes = if global { 8 } else { 16 };
        let spread = if global { opcodes::SPREAD_DOUBLE } else { opcodes::SPREAD };
        code.vector(spread, [FIRST, 0], Source::Element(RSI, 0), With::default());
        let (opcode, relation) = opcodes::compare(Comparison::Ne, global);
        for vector in 0..LANES as u64 / lanes {
            let mut expected = FIRST;
            if step != 0 {
                let numbers = (vector * lanes..(vector + 1) * lanes).map(|lane| lane * step);
                let bytes: Vec<u8> = numbers
                    .flat_map(|number| number.to_le_bytes().into_iter().take(if global { 8 } else { 4 }))
                    .collect();
                let ahead = Source::Constant(code.constant(&bytes));
                expected = FREE[0];
                code.vector(opcodes::add(global), [expected, FIRST], ahead, With::default());
            }
            let to = if vector == 0 { DIFFERS } else { FOUND };
            code.vector(opcode, [to, expected], Source::At(RSI, vector as i32 * 64), With::immediate(relation));
            if vector != 0 {
                code.masks(MaskOp::Or, DIFFERS, DIFFERS, FOUND);
            }
        }
        code.test_mask(DIFFERS);
        code.jump_if(false, other);
    }

    /// The place in the host of so many bytes at an address; to `other` if they are not there. The address is that of a register without the offset, and the place is in the same register.
    fn place(&self, code: &mut Bytes, len: u64, other: Label) {
        let [page, entry, folded] = [R8, R8 + 1, R8 + 2];
        code.add(RAX, RCX);
        code.test_low(self.format.element() as u8 - 1);
        code.jump_if(false, other);
        if let Space::Shared(size) | Space::Scratch(size) = self.space {
            // No place is beyond the greatest one of nothing.
            let Some(most) = size.checked_sub(len) else { return code.jump(other) };
            code.compare_number(true, RAX, most as u32);
            code.jump_above(other);
            return code.add_from(RAX, RDI, offset_of!(Context, shared) as i32);
        }
        code.copy(folded, RAX);
        code.and_number(folded, PAGE as u32 - 1);
        code.compare_number(false, folded, (PAGE - len) as u32);
        code.jump_above(other);
        code.copy(page, RAX);
        Self::entry(code, [page, entry, folded]);
        code.compare_with(page, entry, self.tag());
        code.jump_if(false, other);
        code.add_from(RAX, entry, offset_of!(Page, place) as i32);
    }

    /// The number of a page from an address, and the address of its entry.
    pub(crate) fn entry(code: &mut Bytes, [page, entry, folded]: [u8; 3]) {
        code.shift_double(page, false, PAGE.trailing_zeros() as u8);
        code.copy(entry, page);
        for by in FOLDS {
            code.copy(folded, page);
            code.shift_double(folded, false, by as u8);
            code.exclusive_or(entry, folded);
        }
        code.and_number(entry, COUNT as u32 - 1);
        code.shift_double(entry, true, size_of::<Page>().trailing_zeros() as u8);
        code.add_from(entry, RDI, offset_of!(Context, pages) as i32);
    }

    /// Moves the data of all lanes, which lies in one piece.
    fn row(&self, code: &mut Bytes) {
        let double = self.format.is_double();
        let (stride, vectors) = if double { (DOUBLE, 4) } else { (WORD, 2) };
        let [low, high, turned] = FREE;
        for vector in 0..vectors {
            let register = Source::At(RDX, vector * 64);
            if self.format.registers() == 1 {
                let place = Source::At(RAX, vector * 64);
                let (from, to) = if self.store { (register, place) } else { (place, register) };
                code.vector(opcodes::LOAD, [low, 0], from, With::default());
                code.vector(opcodes::STORE, [low, 0], to, With::default());
                continue;
            }
            code.vector(opcodes::LOAD, [low, 0], Source::At(RAX, vector * 128), With::default());
            code.vector(opcodes::LOAD, [high, 0], Source::At(RAX, vector * 128 + 64), With::default());
            for element in 0..2 {
                let lanes = if double { 8u64 } else { 16 };
                let numbers = (0..lanes).map(|lane| lane * 2 + element as u64);
                let bytes: Vec<u8> = numbers
                    .flat_map(|number| number.to_le_bytes().into_iter().take(if double { 8 } else { 4 }))
                    .collect();
                let order = Source::Constant(code.constant(&bytes));
                code.vector(opcodes::LOAD, [turned, 0], order, With::default());
                code.vector(opcodes::pick(double), [turned, low], Source::Register(high), With::default());
                code.vector(
                    opcodes::STORE,
                    [turned, 0],
                    Source::At(RDX, element * stride + vector * 64),
                    With::default(),
                );
            }
        }
    }

    /// Loads for all lanes what lies at one place.
    fn same(&self, code: &mut Bytes) {
        let double = self.format.is_double();
        let (stride, opcode) = if double { (DOUBLE, opcodes::SPREAD_DOUBLE) } else { (WORD, opcodes::SPREAD) };
        for element in 0..self.format.registers() as i32 {
            let place = Source::Element(RAX, element * self.format.element() as i32);
            code.vector(opcode, [FREE[0], 0], place, With::default());
            for at in (0..stride).step_by(64) {
                code.vector(opcodes::STORE, [FREE[0], 0], Source::At(RDX, element * stride + at), With::default());
            }
        }
    }
}
