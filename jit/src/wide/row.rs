//! Loads and stores of all lanes whose addresses follow one another or are one, and those of a single lane.

use super::access::{Access, Lane, Space};
use super::bytes::{Bytes, Label, MaskOp, R8, RAX, RCX, RDI, RDX, RSI, Source, With};
use super::form::Form;
use super::opcodes;
use crate::context::{ACTIVE, Context};
use crate::files::{DOUBLE, WORD};
use crate::pages::{COUNT, FOLDS, PAGE, Page};
use campanile_hw::isa::LANES;
use iced_x86::Code;
use std::mem::offset_of;

/// The vector with the address of the first lane in all elements, and masks for what was found.
const FIRST: u8 = 9;
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
        let (is_row, is_same) = (matches!(self.format.registers(), 1 | 2 | 4), !self.store);
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

    /// Generates the access for a single lane, if only one of those in RAX is active; otherwise, and where its address is wrong, the code goes on behind, with the same in RAX.
    pub(crate) fn alone(&self, code: &mut Bytes) {
        if matches!(self.space, Space::Scratch(_)) {
            return;
        }
        let (other, lane) = (code.label(), R8 + 3);
        code.two(Code::Mov_r32_rm32, lane, RAX);
        code.without_lowest(lane, R8);
        code.jump_if(false, other);
        code.lowest(lane, RAX);
        code.load_numbered(self.is_global(), RAX, (RSI, lane), 0);
        self.place(code, self.format.bytes().into(), other);
        self.move_lane(code, Lane::Register(lane), RAX);
        code.set(RAX, 0);
        code.end();
        code.place(other);
        code.load(false, RAX, RDI, ACTIVE);
    }

    fn is_global(&self) -> bool {
        matches!(self.space, Space::Global)
    }

    /// Goes to `other` unless the address of every lane is `step` greater than that of the one before.
    fn in_steps(&self, code: &mut Bytes, step: u64, other: Label) {
        let global = self.is_global();
        let (bytes, [free, ..]) = (code.form().bytes(), code.form().free());
        let lanes = bytes as u64 / if global { 8 } else { 4 };
        let spread = if global { opcodes::SPREAD_DOUBLE } else { opcodes::SPREAD };
        code.vector(spread, [FIRST, 0], Source::Element(RSI, 0), With::default());
        for vector in 0..LANES as u64 / lanes {
            let mut expected = FIRST;
            if step != 0 {
                let numbers = (vector * lanes..(vector + 1) * lanes).map(|lane| lane * step);
                let bytes: Vec<u8> = numbers
                    .flat_map(|number| number.to_le_bytes().into_iter().take(if global { 8 } else { 4 }))
                    .collect();
                let ahead = Source::Constant(code.constant(&bytes));
                expected = free;
                code.vector(opcodes::add(global), [expected, FIRST], ahead, With::default());
            }
            let to = if vector == 0 { DIFFERS } else { FOUND };
            let found = Source::At(RSI, vector as i32 * bytes as i32);
            code.find_unequal(global, [to, expected], found, 0);
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
        match (self.format.registers(), code.form()) {
            (1, _) => {}
            (_, Form::Avx512) => return self.whole_rows(code),
            (_, Form::Avx2) => return self.rows(code),
        }
        let [free, ..] = code.form().free();
        let bytes = code.form().bytes();
        let all = if self.format.is_double() { DOUBLE } else { WORD };
        for at in (0..all).step_by(bytes) {
            let (register, place) = (Source::At(RDX, at), Source::At(RAX, at));
            let (from, to) = if self.store { (register, place) } else { (place, register) };
            code.vector(opcodes::LOAD, [free, 0], from, With::default());
            code.vector(opcodes::STORE, [free, 0], to, With::default());
        }
    }

    /// Loads data of all lanes that lies in one piece, the elements of each lane behind one another, by vectors of 512 bits: what is stored is as wide as what reads it next, which then need not wait.
    fn whole_rows(&self, code: &mut Bytes) {
        let double = self.format.is_double();
        let (stride, size) = if double { (DOUBLE, 8) } else { (WORD, 4) };
        let count = self.format.registers() as u8;
        let bytes = Form::Avx512.bytes() as i32;
        for at in (0..stride).step_by(bytes as usize) {
            for vector in 0..count {
                let place = Source::At(RAX, at * i32::from(count) + i32::from(vector) * bytes);
                code.vector(opcodes::LOAD, [vector, 0], place, With::default());
            }
            // Of each two vectors one element of all lanes, or one behind the other in the halves of a vector.
            for pair in 0..count / 2 {
                for half in 0..2 {
                    let to = 4 + pair * 2 + half;
                    let order = Self::order(code, size, (count, half * (count / 2)));
                    code.vector(opcodes::LOAD, [to, 0], order, With::default());
                    let second = Source::Register(pair * 2 + 1);
                    code.vector(opcodes::pick(double), [to, pair * 2], second, With::default());
                }
            }
            for element in 0..count {
                let mut from = 4 + element;
                if count == 4 {
                    from = 8 + element;
                    let quarters = With::immediate(if element % 2 == 0 { 0x44 } else { 0xee });
                    let [first, second] = [4, 6].map(|vector| vector + element / 2);
                    code.vector(opcodes::QUARTERS, [from, first], Source::Register(second), quarters);
                }
                let to = Source::At(RDX, i32::from(element) * stride + at);
                code.vector(opcodes::STORE, [from, 0], to, With::default());
            }
        }
    }

    /// The numbers of elements in two vectors whose lanes have `count` elements each: an element of all lanes, and then the next one, until a vector is full.
    fn order(code: &mut Bytes, size: usize, (count, first): (u8, u8)) -> Source {
        let (all, lanes) = (Form::Avx512.bytes() / size, 2 * Form::Avx512.bytes() / size / usize::from(count));
        let number = |place: usize| (usize::from(first) + place / lanes + place % lanes * usize::from(count)) as u64;
        let bytes: Vec<u8> = (0..all).flat_map(|place| number(place).to_le_bytes().into_iter().take(size)).collect();
        Source::Constant(code.constant(&bytes))
    }

    /// The same by vectors of 256 bits, which have the elements of lanes that are half a vector apart in their halves.
    fn rows(&self, code: &mut Bytes) {
        let double = self.format.is_double();
        let (stride, lanes) = if double { (DOUBLE, 4) } else { (WORD, 8) };
        let count = self.format.registers() as i32;
        let size = if double { 8 } else { 4 };
        for first in (0..LANES as i32).step_by(lanes) {
            // Each of these vectors has 128 bits at the places of a lower and an upper lane.
            let (place, half) = (first * count * size, lanes as i32 / 2 * count * size);
            for vector in 0..count {
                let at = place + vector * 16;
                code.with_memory(Code::VEX_Vmovdqu_xmm_xmmm128, vector as u8, RAX, at);
                let upper = Source::Element(RAX, at + half);
                let insert = Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
                code.vector(insert, [vector as u8; 2], upper, With::immediate(1));
            }
            for (element, vector) in (0..).zip(Self::turned(code, double, count)) {
                let to = element * stride + first * size;
                code.with_memory(Code::VEX_Vmovdqu_ymmm256_ymm, vector, RDX, to);
            }
        }
    }

    /// In each half, vectors 0 to `count` with elements of a lane or two behind one another become vectors with one element of all lanes: their numbers.
    fn turned(code: &mut Bytes, double: bool, count: i32) -> impl Iterator<Item = u8> + use<> {
        use Code::*;
        let mut step = |op: Code, to: u8, [low, high]: [u8; 2], order: u8| {
            code.vector(op, [to, low], Source::Register(high), With::immediate(order));
        };
        let (shuffle, low, high) =
            (VEX_Vshufps_ymm_ymm_ymmm256_imm8, VEX_Vpunpcklqdq_ymm_ymm_ymmm256, VEX_Vpunpckhqdq_ymm_ymm_ymmm256);
        match (double, count) {
            (true, _) => {
                step(low, 4, [0, 1], 0);
                step(high, 5, [0, 1], 0);
            }
            (false, 2) => {
                step(shuffle, 4, [0, 1], 0x88);
                step(shuffle, 5, [0, 1], 0xdd);
            }
            (false, _) => {
                for (to, from) in [(8, [0, 1]), (9, [2, 3])] {
                    step(VEX_Vpunpckldq_ymm_ymm_ymmm256, to, from, 0);
                    step(VEX_Vpunpckhdq_ymm_ymm_ymmm256, to + 2, from, 0);
                }
                step(low, 4, [8, 9], 0);
                step(high, 5, [8, 9], 0);
                step(low, 6, [10, 11], 0);
                step(high, 7, [10, 11], 0);
            }
        }
        4..4 + count as u8
    }

    /// Loads for all lanes what lies at one place.
    fn same(&self, code: &mut Bytes) {
        let double = self.format.is_double();
        let [free, ..] = code.form().free();
        let (stride, opcode) = if double { (DOUBLE, opcodes::SPREAD_DOUBLE) } else { (WORD, opcodes::SPREAD) };
        for element in 0..self.format.registers() as i32 {
            let place = Source::Element(RAX, element * self.format.element() as i32);
            code.vector(opcode, [free, 0], place, With::default());
            for at in (0..stride).step_by(code.form().bytes()) {
                code.vector(opcodes::STORE, [free, 0], Source::At(RDX, element * stride + at), With::default());
            }
        }
    }
}
