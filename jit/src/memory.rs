//! Loads and stores: of all lanes at once where their addresses follow one another or are one, otherwise lane by lane. In either case every address is translated before a register or a byte of
//! memory changes; one that is misaligned, out of range or not among the [`Pages`](crate::Pages) leaves the whole instruction to the interpreter.

use crate::block::{Kind, extent, kind};
use crate::emitter::{ACTIVE, BUDGET, Emitter, LOADS, STORES};
use crate::files::{DOUBLE, WORD};
use crate::lanes::{cast, registers, shuffle_words};
use crate::pages::{COUNT, FOLDS, PAGE, Page};
use crate::wide::{self, Guarded, Space};
use campanile_hw::isa::{Instruction, LANES, MemoryFormat, Op};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::types::{I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use std::mem::offset_of;

/// A load or store.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    space: Space,
    store: bool,
    format: MemoryFormat,
    /// Added to the address.
    offset: i64,
    /// Place of the register of addresses in its file, and of the first one of data.
    address: i32,
    data: i32,
}

impl Access {
    pub(crate) fn of(emitter: &Emitter<'_, '_>, instruction: &Instruction) -> Self {
        let header = emitter.kernel.header();
        let space = match instruction.op {
            Op::Load | Op::Store | Op::Atomic => Space::Global,
            Op::LoadShared | Op::StoreShared | Op::AtomicShared => Space::Shared(header.shared.into()),
            _ => Space::Scratch(header.scratch.into()),
        };
        // An atomic operation may write too, whatever it is.
        let store = !matches!(instruction.op, Op::Load | Op::LoadShared | Op::LoadScratch);
        let single = if instruction.ty.bits() == 64 { MemoryFormat::D1 } else { MemoryFormat::W1 };
        let format = instruction.memory().unwrap_or(single);
        let [to, from, _, data] = instruction.registers();
        let address = i32::from(from.1) * if matches!(space, Space::Global) { DOUBLE } else { WORD };
        let data = i32::from(if store { data.1 } else { to.1 }) * if format.is_double() { DOUBLE } else { WORD };
        Self { space, store, format, offset: instruction.immediate as i64, address, data }
    }

    /// Bytes from a register of the data to the next.
    fn stride(&self) -> i32 {
        if self.format.is_double() { DOUBLE } else { WORD }
    }

    fn of_wide(&self) -> wide::Access {
        wide::Access { space: self.space, store: self.store, format: self.format }
    }

    fn elements(&self) -> impl Iterator<Item = i32> + use<> {
        0..self.format.registers() as i32
    }
}

impl<'k> Emitter<'_, 'k> {
    /// Executes a load or store.
    pub(crate) fn memory(&mut self, at: u32, instruction: &Instruction) {
        let next = self.label(at + 1);
        let give_up = self.give_up(at);
        self.make(instruction, (next, give_up));
    }

    /// At an IF with nothing in it but a load or store that there is one function for, such as the bounds of a buffer have: where the condition holds for all lanes, which have got `taken`, the access is made
    /// without a block around it. Where it does not, or the budget ends before END_IF, or the access is not made, nothing has changed, and the code goes on behind.
    pub(crate) fn without_block(&mut self, at: u32, [active, taken]: [Value; 2]) {
        let Some(instruction) = self.alone_in_block(at) else { return };
        let [some, whole, made, block] = [0; 4].map(|_| self.b.create_block());
        self.b.ins().brif(taken, some, &[], block, &[]);
        self.b.switch_to_block(some);
        let budget = self.field(BUDGET);
        let is_enough = self.b.ins().icmp_imm_s(IntCC::UnsignedGreaterThanOrEqual, budget, 2);
        let is_all = self.b.ins().icmp(IntCC::Equal, taken, active);
        let both = self.b.ins().band(is_all, is_enough);
        self.b.ins().brif(both, whole, &[], block, &[]);
        self.b.switch_to_block(whole);
        self.make(instruction, (made, block));
        self.b.switch_to_block(made);
        self.go_on_behind_block(at, block);
    }

    /// Counts the two instructions of the block of the IF `at`, which has been made, and goes on behind it. What follows here is in `block`.
    fn go_on_behind_block(&mut self, at: u32, block: Block) {
        let budget = self.field(BUDGET);
        let left = self.b.ins().iadd_imm_s(budget, -2);
        self.set_field(BUDGET, left);
        let behind = self.label(at + 3);
        self.b.ins().jump(behind, &[]);
        self.b.switch_to_block(block);
    }

    /// The load or store that stands alone in the block of an IF, if there is one function for it.
    fn alone_in_block(&self, at: u32) -> Option<&'k Instruction> {
        let [instruction, end] = self.kernel.code().get(at as usize + 1..)?.first_chunk()?;
        let is_access = matches!(kind(instruction, true), Kind::Memory) && end.op == Op::EndIf;
        (self.wide.is_some() && is_access && Access::of(self, instruction).of_wide().has_code()).then_some(instruction)
    }

    /// The load or store that stands alone in the block of the instruction, if that is an IF.
    pub(crate) fn guarded(&self, at: u32) -> Option<Guarded> {
        let condition = self.kernel.code().get(at as usize).filter(|instruction| instruction.op == Op::If)?.a;
        let instruction = self.alone_in_block(at)?;
        let (access, [to, from, _, data]) = (Access::of(self, instruction).of_wide(), instruction.registers());
        let data = if access.store { data.1 } else { to.1 };
        let offset = i32::try_from(instruction.immediate as i64).ok()?;
        Some(Guarded { access, condition, address: from.1, data, offset })
    }

    /// Executes plain instructions with wider vectors, and what stands in the block of the IF behind them where its condition holds for all lanes. Where that is not made the code goes on behind.
    pub(crate) fn with_access(&mut self, code: &[Instruction], (at, guarded): (u32, &Guarded)) {
        let header = self.kernel.header();
        let Some(place) = self.wide.as_mut().map(|wide| wide.guarded(header, code, guarded)) else { return };
        let Some(undone) = self.call_guarded(place) else { return };
        let (made, block) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(undone, block, &[], made, &[]);
        self.b.switch_to_block(made);
        if matches!(guarded.access.space, Space::Global) {
            let count = self.b.ins().iconst(I64, LANES as i64);
            self.add_to(if guarded.access.store { STORES } else { LOADS }, count);
        }
        self.go_on_behind_block(at, block);
    }

    /// Makes an access and goes to `next`, or leaves everything as it is and goes to `give_up`.
    fn make(&mut self, instruction: &Instruction, (next, give_up): (Block, Block)) {
        let access = Access::of(self, instruction);
        let active = self.field(ACTIVE);
        let (done, apart) = (self.b.create_block(), self.b.create_block());
        let of_wide = access.of_wide();
        let place = self.wide.as_mut().filter(|_| of_wide.has_code()).map(|wide| wide.access(of_wide));
        let row = matches!(access.format.bytes(), 4 | 8 | 16);
        if let Some(place) = place {
            self.at_once(&access, place, give_up);
            return self.count_access(&access, active, next);
        } else if !matches!(access.space, Space::Scratch(_)) {
            let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, active, -1);
            self.unless(some, apart);
            let first = self.lane_address(&access, 0);
            let second = self.lane_address(&access, 1);
            let step = self.b.ins().isub(second, first);
            let (follows, other) = (self.b.create_block(), self.b.create_block());
            let size = i64::from(access.format.bytes());
            let is_row = self.b.ins().icmp_imm_s(IntCC::Equal, step, size);
            if row {
                self.b.ins().brif(is_row, follows, &[], other, &[]);
                self.b.switch_to_block(follows);
                self.in_steps(&access, first, size, apart);
                let place = self.translate(&access, first, (extent(access.format).1, give_up));
                self.row(&access, place);
                self.b.ins().jump(done, &[]);
                self.b.switch_to_block(other);
            }
            if access.store {
                self.b.ins().jump(apart, &[]);
            } else {
                self.unless(step, apart);
                self.in_steps(&access, first, 0, apart);
                let place = self.translate(&access, first, (extent(access.format).0, give_up));
                self.one(&access, place);
                self.b.ins().jump(done, &[]);
            }
        } else {
            self.b.ins().jump(apart, &[]);
        }
        self.b.switch_to_block(apart);
        self.apart(&access, active, give_up);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.count_access(&access, active, next);
    }

    /// Counts an access that was made, and goes on.
    fn count_access(&mut self, access: &Access, active: Value, next: Block) {
        if matches!(access.space, Space::Global) {
            let count = self.b.ins().popcnt(active);
            let count = self.b.ins().uextend(I64, count);
            self.add_to(if access.store { STORES } else { LOADS }, count);
        }
        self.b.ins().jump(next, &[]);
    }

    /// Makes the access by the function for wider vectors at this place.
    fn at_once(&mut self, access: &Access, place: usize, give_up: Block) {
        let file = if matches!(access.space, Space::Global) { self.files.doubles } else { self.files.words };
        let addresses = self.b.ins().iadd_imm_s(file, i64::from(access.address));
        let file = if access.format.is_double() { self.files.doubles } else { self.files.words };
        let data = self.b.ins().iadd_imm_s(file, i64::from(access.data));
        let offset = self.b.ins().iconst(I64, access.offset);
        if let Some(failed) = self.call_wide(place, Some([addresses, data, offset])) {
            self.unless(failed, give_up);
        }
    }

    /// The address that a register has, extended, without the offset, of the lane with a constant number.
    fn lane_address(&mut self, access: &Access, lane: i32) -> Value {
        match access.space {
            Space::Global => self.b.ins().load(I64, registers(), self.files.doubles, access.address + lane * 8),
            _ => self.b.ins().uload32(registers(), self.files.words, access.address + lane * 4),
        }
    }

    /// Goes to `other` unless the address of every lane is `step` greater than that of the one before. Addresses of workgroup memory are compared modulo 2^32: of a range that lies in
    /// that memory no address has wrapped around.
    fn in_steps(&mut self, access: &Access, first: Value, step: i64, other: Block) {
        let global = matches!(access.space, Space::Global);
        let (ty, file, lanes) = if global { (I64X2, self.files.doubles, 2) } else { (I32X4, self.files.words, 4) };
        let b = &mut self.b;
        let scalar = if global { first } else { b.ins().ireduce(I32, first) };
        let mut expected = b.ins().splat(ty, scalar);
        if step != 0 {
            for lane in 1..lanes {
                let ahead = b.ins().iadd_imm_s(scalar, i64::from(lane) * step);
                expected = b.ins().insertlane(expected, ahead, lane);
            }
        }
        let scalar_type = if global { I64 } else { I32 };
        let ahead = b.ins().iconst(scalar_type, Imm64::new(i64::from(lanes) * step));
        let ahead = b.ins().splat(ty, ahead);
        let mut differs = None;
        for vector in 0..LANES as i32 / i32::from(lanes) {
            let found = b.ins().load(ty, registers(), file, access.address + vector * 16);
            let bits = b.ins().bxor(found, expected);
            differs = Some(differs.map_or(bits, |before| b.ins().bor(before, bits)));
            if step != 0 {
                expected = b.ins().iadd(expected, ahead);
            }
        }
        if let Some(differs) = differs {
            let differs = b.ins().vany_true(differs);
            self.unless(differs, other);
        }
    }

    /// The place in the host of `len` bytes at an address without the offset; to `give_up` if they are not there.
    fn translate(&mut self, access: &Access, address: Value, (len, give_up): (u64, Block)) -> Value {
        let b = &mut self.b;
        let address = b.ins().iadd_imm_s(address, access.offset);
        let element = i64::from(access.format.element());
        let misaligned = b.ins().band_imm_s(address, element - 1);
        let size = match access.space {
            Space::Global => {
                let number = b.ins().ushr_imm_s(address, i64::from(PAGE.trailing_zeros()));
                let folded = FOLDS.iter().fold(number, |folded, by| {
                    let high = b.ins().ushr_imm_s(number, i64::from(*by));
                    b.ins().bxor(folded, high)
                });
                let entry = b.ins().band_imm_s(folded, COUNT as i64 - 1);
                let entry = b.ins().imul_imm_s(entry, size_of::<Page>() as i64);
                let entry = b.ins().iadd(self.pages, entry);
                let tag = if access.store { offset_of!(Page, write) } else { offset_of!(Page, read) };
                let tag = b.ins().load(I64, registers(), entry, tag as i32);
                let differs = b.ins().bxor(tag, number);
                let wrong = b.ins().bor(differs, misaligned);
                self.unless(wrong, give_up);
                let b = &mut self.b;
                if len > element as u64 {
                    let offset = b.ins().band_imm_s(address, PAGE as i64 - 1);
                    let most = (PAGE - len) as i64;
                    let leaves = b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, offset, most);
                    self.unless(leaves, give_up);
                }
                let place = self.b.ins().load(I64, registers(), entry, offset_of!(Page, place) as i32);
                return self.b.ins().iadd(address, place);
            }
            Space::Shared(size) | Space::Scratch(size) => size,
        };
        let Some(most) = size.checked_sub(len) else {
            let outside = b.ins().iconst(I32, 1);
            self.unless(outside, give_up);
            return address;
        };
        let outside = b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, address, most as i64);
        let outside = b.ins().uextend(I64, outside);
        let wrong = b.ins().bor(outside, misaligned);
        self.unless(wrong, give_up);
        let base = if matches!(access.space, Space::Scratch(_)) { self.scratch } else { self.shared };
        self.b.ins().iadd(base, address)
    }

    /// Moves the data of all lanes, which lies in one piece at `place`.
    fn row(&mut self, access: &Access, place: Value) {
        let count = access.format.registers() as i32;
        let double = access.format.is_double();
        let (ty, file, lanes) = if double { (I64X2, self.files.doubles, 2) } else { (I32X4, self.files.words, 4) };
        for group in 0..LANES as i32 / lanes {
            let b = &mut self.b;
            let register = |element: i32| access.data + element * access.stride() + group * 16;
            let piece = |number: i32| (group * count + number) * 16;
            let vectors: Vec<Value> = (0..count)
                .map(|number| match access.store {
                    true => b.ins().load(ty, registers(), file, register(number)),
                    false => b.ins().load(ty, registers(), place, piece(number)),
                })
                .collect();
            let turned = turn(b, &vectors, double, access.store);
            for (number, value) in (0..).zip(turned) {
                match access.store {
                    true => b.ins().store(registers(), value, place, piece(number)),
                    false => b.ins().store(registers(), value, file, register(number)),
                };
            }
        }
    }

    /// Loads for all lanes what lies at one place.
    fn one(&mut self, access: &Access, place: Value) {
        let double = access.format.is_double();
        let (ty, file) = if double { (I64X2, self.files.doubles) } else { (I32X4, self.files.words) };
        for element in access.elements() {
            let value = self.load_element(access, place, element);
            let all = self.b.ins().splat(ty, value);
            for offset in (0..access.stride()).step_by(16) {
                let to = access.data + element * access.stride() + offset;
                self.b.ins().store(registers(), all, file, to);
            }
        }
    }

    /// Moves the data of each active lane: first all addresses are translated, then the data is moved.
    fn apart(&mut self, access: &Access, active: Value, give_up: Block) {
        self.translate_each(access, active, give_up);
        self.each_lane(active, &mut |emitter, lane| {
            let place = emitter.translated(lane);
            emitter.move_lane(access, place, lane);
        });
    }

    /// Translates the address of each active lane, for [`Emitter::translated`].
    pub(crate) fn translate_each(&mut self, access: &Access, active: Value, give_up: Block) {
        let places = self.b.ins().stack_addr(I64, self.places, 0);
        let len = extent(access.format).0;
        self.each_lane(active, &mut |emitter, lane| {
            let address = emitter.address_of(access, lane);
            let mut place = emitter.translate(access, address, (len, give_up));
            if let Space::Scratch(size) = access.space {
                let own = emitter.b.ins().imul_imm_s(lane, size as i64);
                place = emitter.b.ins().iadd(place, own);
            }
            let entry = emitter.scaled(places, lane, 8);
            emitter.b.ins().store(registers(), place, entry, 0);
        });
    }

    /// The place in the host of the address of a lane.
    pub(crate) fn translated(&mut self, lane: Value) -> Value {
        let places = self.b.ins().stack_addr(I64, self.places, 0);
        let entry = self.scaled(places, lane, 8);
        self.b.ins().load(I64, registers(), entry, 0)
    }

    /// An address and a number of things of a size behind it.
    pub(crate) fn scaled(&mut self, base: Value, number: Value, size: i64) -> Value {
        let offset = self.b.ins().imul_imm_s(number, size);
        self.b.ins().iadd(base, offset)
    }

    /// As [`Emitter::lane_address`], of any lane.
    fn address_of(&mut self, access: &Access, lane: Value) -> Value {
        match access.space {
            Space::Global => {
                let register = self.scaled(self.files.doubles, lane, 8);
                self.b.ins().load(I64, registers(), register, access.address)
            }
            _ => {
                let register = self.scaled(self.files.words, lane, 4);
                self.b.ins().uload32(registers(), register, access.address)
            }
        }
    }

    /// A loop over the lanes that are set in `active`, upwards.
    pub(crate) fn each_lane(&mut self, active: Value, body: &mut dyn FnMut(&mut Self, Value)) {
        let (head, on) = (self.b.create_block(), self.b.create_block());
        let rest = self.b.append_block_param(head, I32);
        self.b.ins().brif(active, head, &[active.into()], on, &[]);
        self.b.switch_to_block(head);
        let lane = self.b.ins().ctz(rest);
        let lane = self.b.ins().uextend(I64, lane);
        body(self, lane);
        let below = self.b.ins().iadd_imm_s(rest, -1);
        let left = self.b.ins().band(rest, below);
        self.b.ins().brif(left, head, &[left.into()], on, &[]);
        self.b.switch_to_block(on);
    }

    /// An element of the data of a lane, which lies at `place`, as the bits of a register.
    fn load_element(&mut self, access: &Access, place: Value, element: i32) -> Value {
        let (b, offset) = (&mut self.b, element * access.format.element() as i32);
        match access.format {
            MemoryFormat::U8 => b.ins().uload8(I32, registers(), place, offset),
            MemoryFormat::S8 => b.ins().sload8(I32, registers(), place, offset),
            MemoryFormat::U16 => b.ins().uload16(I32, registers(), place, offset),
            MemoryFormat::S16 => b.ins().sload16(I32, registers(), place, offset),
            MemoryFormat::D1 | MemoryFormat::D2 => b.ins().load(I64, registers(), place, offset),
            _ => b.ins().load(I32, registers(), place, offset),
        }
    }

    /// Moves the data of one lane.
    fn move_lane(&mut self, access: &Access, place: Value, lane: Value) {
        let double = access.format.is_double();
        let (file, size, ty) = if double { (self.files.doubles, 8, I64) } else { (self.files.words, 4, I32) };
        let register = self.scaled(file, lane, size);
        let element_size = access.format.element() as i32;
        // All of it is read before some is written: a register of addresses may be among those of the data, but no longer counts.
        for element in access.elements() {
            let at = access.data + element * access.stride();
            if !access.store {
                let value = self.load_element(access, place, element);
                self.b.ins().store(registers(), value, register, at);
                continue;
            }
            let value = self.b.ins().load(ty, registers(), register, at);
            let offset = element * element_size;
            match access.format.element() {
                1 => self.b.ins().istore8(registers(), value, place, offset),
                2 => self.b.ins().istore16(registers(), value, place, offset),
                _ => self.b.ins().store(registers(), value, place, offset),
            };
        }
    }
}

/// The registers of consecutive lanes from their data as it lies in memory, or the other way round.
fn turn(b: &mut cranelift_frontend::FunctionBuilder<'_>, vectors: &[Value], double: bool, store: bool) -> Vec<Value> {
    match (vectors, double) {
        (&[x, y], true) => {
            let (low, high) = (shuffle_words(b, x, y, [0, 1, 4, 5]), shuffle_words(b, x, y, [2, 3, 6, 7]));
            [low, high].map(|value| cast(b, I64X2, value)).to_vec()
        }
        (&[x, y], false) if store => {
            vec![shuffle_words(b, x, y, [0, 4, 1, 5]), shuffle_words(b, x, y, [2, 6, 3, 7])]
        }
        (&[x, y], false) => vec![shuffle_words(b, x, y, [0, 2, 4, 6]), shuffle_words(b, x, y, [1, 3, 5, 7])],
        (&[v, w, x, y], _) => {
            // A transposition, which is its own inverse.
            let low = [(v, w), (x, y)].map(|(one, two)| shuffle_words(b, one, two, [0, 4, 1, 5]));
            let high = [(v, w), (x, y)].map(|(one, two)| shuffle_words(b, one, two, [2, 6, 3, 7]));
            let mut pair = |[one, two]: [Value; 2], order| shuffle_words(b, one, two, order);
            vec![pair(low, [0, 1, 4, 5]), pair(low, [2, 3, 6, 7]), pair(high, [0, 1, 4, 5]), pair(high, [2, 3, 6, 7])]
        }
        _ => vectors.to_vec(),
    }
}
