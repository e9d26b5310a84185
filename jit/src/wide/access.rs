//! Loads and stores whose addresses do not follow one another, for as many lanes at a time as a vector has doubles: every address is translated before a register or a byte of memory changes.

use super::bytes::{Bytes, Label, MaskOp, R8, RAX, RCX, RDI, RDX, RSI, Source, With};
use super::form::Form;
use super::opcodes;
use crate::context::{ACTIVE, Context};
use crate::files::{DOUBLE, WORD};
use crate::pages::{COUNT, FOLDS, PAGE, Page};
use campanile_hw::isa::{self, Comparison, MemoryFormat, Op};
use iced_x86::Code;
use std::mem::offset_of;
use std::ops::Range;

/// Address space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    /// Workgroup memory, of this size.
    Shared(u64),
    /// Scratch memory, of this size in each lane.
    Scratch(u64),
}

/// A load or store, but for its registers and offset. Its function gets the addresses of the registers of addresses and data, and the offset, behind that of the context; it returns 0 if the
/// access was made, and has done nothing otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) store: bool,
    pub(crate) format: MemoryFormat,
}

/// Vectors with a number of all lanes: the offset, what is added to an address, and the number of the page of the first lane.
const OFFSET: u8 = 6;
const BASE: u8 = 7;
const FIRST_PAGE: u8 = 8;
/// Masks: the lanes of a group that are active, those that are still to be moved, what was found last, whether an address is wrong, and whether one is of another page than the first.
const LANES: u8 = 1;
const MOVED: u8 = 2;
const FOUND: u8 = 3;
const WRONG: u8 = 4;
const ELSEWHERE: u8 = 5;

/// Places of the fields of a context about the pages that the lanes used last.
const LAST: i32 = offset_of!(Context, last) as i32;
const LAST_PAGES: i32 = offset_of!(Context, last_pages) as i32;
const LAST_PLACES: i32 = offset_of!(Context, last_places) as i32;
/// Place of the field with the places in the host of all lanes, where these do not fit into vectors.
const PLACES: i32 = offset_of!(Context, places) as i32;

/// Lanes of a group, whose addresses are in one vector.
fn lanes_of(form: Form) -> u8 {
    form.lanes() as u8 / 2
}

/// The groups of a subgroup.
fn groups(form: Form) -> Range<u8> {
    0..form.groups() as u8 * 2
}

/// The vector with the places in the host of a group: one of its own, or one from which they go to [`PLACES`].
fn places(form: Form, group: u8) -> u8 {
    match form {
        Form::Avx512 => 16 + group,
        Form::Avx2 => 9,
    }
}

impl Access {
    /// True if there is code for it. A store of several elements goes lane by lane, because lanes may overlap.
    pub(crate) fn has_code(&self) -> bool {
        let fits = match self.space {
            Space::Global => true,
            Space::Shared(size) | Space::Scratch(size) => size >= u64::from(self.format.bytes()),
        };
        fits && self.format.element() >= 4 && !(self.store && self.format.registers() != 1)
    }

    /// Generates the function.
    pub(crate) fn generate(&self, code: &mut Bytes) {
        let (wrong, ready, done) = (code.label(), code.label(), code.label());
        self.in_order(code);
        code.load(false, RAX, RDI, ACTIVE);
        code.test(32);
        code.jump_if(true, done);
        self.alone(code);
        code.masks(MaskOp::Xor, WRONG, WRONG, WRONG);
        code.spread_general(OFFSET, RCX);
        match self.space {
            Space::Global => self.global(code, ready),
            Space::Shared(size) => self.inside(code, offset_of!(Context, shared), size, 0),
            Space::Scratch(size) => self.inside(code, offset_of!(Context, scratch), size, size),
        }
        code.place(ready);
        code.test_mask(WRONG);
        code.jump_if(false, wrong);
        match (code.form(), self.store) {
            (Form::Avx512, true) => self.scatter(code),
            (Form::Avx512, false) => self.gather(code),
            (Form::Avx2, _) => self.lane_by_lane(code),
        }
        code.place(done);
        code.set(RAX, 0);
        code.end();
        code.place(wrong);
        code.set(RAX, 1);
        code.end();
    }

    /// Takes the lanes of a group as the mask of lanes, and goes to `none` if of so many lanes from the first of them on none is active.
    fn lanes_or(code: &mut Bytes, group: u8, (count, none): (u8, Label)) {
        Self::lanes_in_rax(code, group);
        code.test(count);
        code.jump_if(true, none);
        code.mask_of_group(LANES, group);
    }

    /// Takes the lanes of a group as the mask of lanes.
    fn lanes(code: &mut Bytes, group: u8) {
        Self::lanes_in_rax(code, group);
        code.mask_of_group(LANES, group);
    }

    fn lanes_in_rax(code: &mut Bytes, group: u8) {
        code.load(false, RAX, RDI, ACTIVE);
        if group != 0 {
            code.shift(false, RAX, group * lanes_of(code.form()));
        }
    }

    /// The addresses of a group, and a look at each by itself: those of [`LANES`], to `none` if none is active, or all where the mask is 0.
    fn addresses(&self, code: &mut Bytes, group: u8, (mask, none): (u8, Label)) -> u8 {
        let (form, bytes) = (code.form(), code.form().bytes() as i32);
        let (place, at) = (places(form, group), i32::from(group) * bytes);
        if mask == LANES {
            Self::lanes_or(code, group, (lanes_of(form), none));
        }
        match self.space {
            Space::Global => code.vector(opcodes::LOAD, [place, 0], Source::At(RSI, at), With::default()),
            _ => code.vector(opcodes::UNSIGNED, [place, 0], Source::Element(RSI, at / 2), With::default()),
        }
        code.vector(opcodes::add(true), [place, place], Source::Register(OFFSET), With::default());
        let low = number(code, u64::from(self.format.element()) - 1);
        code.test_elements([FOUND, place], low, mask);
        code.masks(MaskOp::Or, WRONG, WRONG, FOUND);
        place
    }

    /// Adds the active lanes whose number in a vector is greater than this one to those that are wrong.
    fn limit(code: &mut Bytes, vector: u8, most: u64, mask: u8) {
        let most = number(code, most);
        code.compare_integers((Comparison::GtU, true), [FOUND, vector], most, With::mask(mask));
        code.masks(MaskOp::Or, WRONG, WRONG, FOUND);
    }

    /// Workgroup or scratch memory, of which each lane has `apart` bytes.
    fn inside(&self, code: &mut Bytes, base: usize, size: u64, apart: u64) {
        code.vector(opcodes::SPREAD_DOUBLE, [BASE, 0], Source::Element(RDI, base as i32), With::default());
        for group in groups(code.form()) {
            let next = code.label();
            let place = self.addresses(code, group, (LANES, next));
            Self::limit(code, place, size.saturating_sub(self.format.bytes().into()), LANES);
            code.vector(opcodes::add(true), [place, place], Source::Register(BASE), With::default());
            if apart != 0 {
                let count = u64::from(lanes_of(code.form()));
                let first = u64::from(group) * count;
                let own: Vec<u8> = (first..first + count).flat_map(|lane| (lane * apart).to_le_bytes()).collect();
                let own = Source::Constant(code.constant(&own));
                code.vector(opcodes::add(true), [place, place], own, With::default());
            }
            keep(code, group);
            code.place(next);
        }
    }

    /// Memory behind page tables: by the page of the first lane if it is that of all, otherwise each lane by its own.
    fn global(&self, code: &mut Bytes, ready: Label) {
        let apart = code.label();
        self.first_page(code, apart);
        self.by_pages(code, |_, _| [FIRST_PAGE, BASE].map(Source::Register));
        code.jump_if(true, ready);
        code.place(apart);
        self.last_pages(code, ready);
        code.vector(
            opcodes::SPREAD_DOUBLE,
            [BASE, 0],
            Source::Element(RDI, offset_of!(Context, pages) as i32),
            With::default(),
        );
        for group in groups(code.form()) {
            self.own_pages(code, group);
        }
        let incomplete = code.label();
        code.test_mask(WRONG);
        code.jump_if(false, incomplete);
        code.load(false, RAX, RDI, ACTIVE);
        code.compare(RAX, -1);
        code.jump_if(false, incomplete);
        code.memory_number(Code::Mov_rm32_imm32, RDI, LAST, self.kind());
        code.place(incomplete);
    }

    /// Translates the addresses of each group by what gives the numbers of their pages and what is added in these; compares the lanes that are in other pages with none.
    fn by_pages(&self, code: &mut Bytes, pages: impl Fn(&Bytes, u8) -> [Source; 2]) {
        let [page, ..] = code.form().free();
        let (some, done) = (code.label(), code.label());
        code.masks(MaskOp::Xor, ELSEWHERE, ELSEWHERE, ELSEWHERE);
        code.load(false, RAX, RDI, ACTIVE);
        code.compare(RAX, -1);
        code.jump_if(false, some);
        // All lanes are active in the first of both, which has no masks.
        for mask in [0, LANES] {
            if mask == LANES {
                code.jump(done);
                code.place(some);
            }
            for group in groups(code.form()) {
                let next = code.label();
                let place = self.addresses(code, group, (mask, next));
                self.crossing(code, place, mask);
                shift_down(code, page, place, PAGE.trailing_zeros());
                let [known, added] = pages(code, group);
                code.find_unequal(true, [FOUND, page], known, mask);
                code.masks(MaskOp::Or, ELSEWHERE, ELSEWHERE, FOUND);
                code.vector(opcodes::add(true), [place, place], added, With::default());
                keep(code, group);
                code.place(next);
            }
        }
        code.place(done);
        code.test_mask(ELSEWHERE);
    }

    /// What [`Context::last`] is after an access of this kind.
    fn kind(&self) -> u32 {
        1 + u32::from(self.store)
    }

    /// Translates the addresses by the pages that the lanes used last; goes to `ready` if they still do.
    fn last_pages(&self, code: &mut Bytes, ready: Label) {
        let others = code.label();
        code.memory_number(Code::Cmp_rm32_imm32, RDI, LAST, self.kind());
        code.memory_number(Code::Mov_rm32_imm32, RDI, LAST, 0);
        code.jump_if(false, others);
        self.by_pages(code, |code, group| [LAST_PAGES, LAST_PLACES].map(|array| at_group(code, array, group)));
        code.jump_if(false, others);
        code.memory_number(Code::Mov_rm32_imm32, RDI, LAST, self.kind());
        code.jump(ready);
        code.place(others);
    }

    /// Offset in an entry of the page number that an address is compared with.
    pub(crate) fn tag(&self) -> i32 {
        if self.store { offset_of!(Page, write) as i32 } else { offset_of!(Page, read) as i32 }
    }

    /// An access of several elements may leave its page.
    fn crossing(&self, code: &mut Bytes, address: u8, mask: u8) {
        if self.format.registers() != 1 {
            let [offset, ..] = code.form().free();
            let bits = number(code, PAGE - 1);
            code.vector(opcodes::and(true), [offset, address], bits, With::default());
            Self::limit(code, offset, PAGE - u64::from(self.format.bytes()), mask);
        }
    }

    /// The page of the first active lane, and what is added to an address in it; to `apart` if it is not known.
    fn first_page(&self, code: &mut Bytes, apart: Label) {
        let [page, entry, folded] = [R8, R8 + 1, R8 + 2];
        code.lowest(folded, RAX);
        code.load_numbered(true, page, (RSI, folded), 0);
        code.add(page, RCX);
        Self::entry(code, [page, entry, folded]);
        code.compare_with(page, entry, self.tag());
        code.jump_if(false, apart);
        // Mostly the last lane is the one that is farthest away.
        code.two(Code::Bsr_r32_rm32, folded, RAX);
        code.load_numbered(true, folded, (RSI, folded), 0);
        code.add(folded, RCX);
        code.shift_double(folded, false, PAGE.trailing_zeros() as u8);
        code.two(Code::Cmp_r64_rm64, folded, page);
        code.jump_if(false, apart);
        code.spread_general(FIRST_PAGE, page);
        code.vector(
            opcodes::SPREAD_DOUBLE,
            [BASE, 0],
            Source::Element(entry, offset_of!(Page, place) as i32),
            With::default(),
        );
    }

    /// Translates the addresses of a group, each by its own page.
    fn own_pages(&self, code: &mut Bytes, group: u8) {
        let next = code.label();
        let place = self.addresses(code, group, (LANES, next));
        self.crossing(code, place, LANES);
        let [page, entry, other] = code.form().free();
        shift_down(code, page, place, PAGE.trailing_zeros());
        let mut folded = page;
        for by in FOLDS {
            shift_down(code, other, page, by);
            code.vector(opcodes::xor(true), [entry, folded], Source::Register(other), With::default());
            folded = entry;
        }
        let bits = number(code, COUNT as u64 - 1);
        code.vector(opcodes::and(true), [entry, entry], bits, With::default());
        let opcode = opcodes::shift(Op::Shl, true);
        let by = With::immediate(size_of::<Page>().trailing_zeros() as u8);
        code.vector(opcode, [0, entry], Source::Register(entry), by);
        code.vector(opcodes::add(true), [entry, entry], Source::Register(BASE), With::default());
        code.copy_mask(MOVED, LANES);
        code.gather_doubles([other, MOVED], Source::Each(entry, self.tag()));
        code.find_unequal(true, [FOUND, page], Source::Register(other), LANES);
        code.masks(MaskOp::Or, WRONG, WRONG, FOUND);
        let (known, added) = (at_group(code, LAST_PAGES, group), at_group(code, LAST_PLACES, group));
        code.vector(opcodes::STORE, [page, 0], known, With::default());
        code.copy_mask(MOVED, LANES);
        let at = offset_of!(Page, place) as i32;
        code.gather_doubles([other, MOVED], Source::Each(entry, at));
        code.vector(opcodes::STORE, [other, 0], added, With::default());
        code.vector(opcodes::add(true), [place, place], Source::Register(other), With::default());
        keep(code, group);
        code.place(next);
    }

    /// Loads from the places.
    fn gather(&self, code: &mut Bytes) {
        let (double, form) = (self.format.is_double(), code.form());
        let count = lanes_of(form);
        for element in 0..self.format.registers() as i32 {
            let offset = element * self.format.element() as i32;
            let get = |code: &mut Bytes, to: u8, group: u8| {
                Self::lanes(code, group);
                code.copy_mask(MOVED, LANES);
                let opcode = if double { opcodes::GATHER_DOUBLES } else { opcodes::GATHER };
                let place = Source::Each(places(form, group), offset);
                code.vector(opcode, [to, 0], place, With::mask(MOVED));
            };
            for group in groups(form).filter(|group| double || group % 2 == 0) {
                let [low, high, _] = form.free();
                let next = code.label();
                Self::lanes_or(code, group, (if double { count } else { 2 * count }, next));
                get(code, low, group);
                let stride = if double { DOUBLE } else { WORD };
                let at = element * stride + i32::from(group) * if double { 64 } else { 32 };
                if double {
                    code.vector(opcodes::STORE_DOUBLES, [low, 0], Source::At(RDX, at), With::mask(LANES));
                } else {
                    get(code, high, group + 1);
                    code.vector(opcodes::PUT_UPPER, [low, low], Source::Register(high), With::immediate(1));
                    Self::lanes(code, group);
                    code.vector(opcodes::STORE, [low, 0], Source::At(RDX, at), With::mask(LANES));
                }
                code.place(next);
            }
        }
    }

    /// Stores to the places, those of later lanes last.
    fn scatter(&self, code: &mut Bytes) {
        let (double, form) = (self.format.is_double(), code.form());
        let [low, high, _] = form.free();
        let put = |code: &mut Bytes, from: u8, group: u8| {
            let next = code.label();
            Self::lanes_or(code, group, (lanes_of(form), next));
            let opcode = if double { opcodes::SCATTER_DOUBLES } else { opcodes::SCATTER };
            code.vector(opcode, [from, 0], Source::Each(places(form, group), 0), With::mask(LANES));
            code.place(next);
        };
        for group in groups(form).filter(|group| double || group % 2 == 0) {
            let at = i32::from(group) * if double { 64 } else { 32 };
            code.vector(opcodes::LOAD, [low, 0], Source::At(RDX, at), With::default());
            if !double {
                code.vector(opcodes::TAKE_UPPER, [low, 0], Source::Register(high), With::immediate(1));
            }
            put(code, low, group);
            if !double {
                put(code, high, group + 1);
            }
        }
    }

    /// Loads from [`PLACES`], or stores to them, the active lanes upwards.
    fn lane_by_lane(&self, code: &mut Bytes) {
        let [lane, place] = [R8, R8 + 1];
        code.load(false, RAX, RDI, ACTIVE);
        let (some, next, done) = (code.label(), code.label(), code.label());
        code.compare(RAX, -1);
        code.jump_if(false, some);
        for number in 0..isa::LANES as i32 {
            code.load(true, place, RDI, PLACES + number * 8);
            self.move_lane(code, Lane::Constant(number), place);
        }
        code.jump(done);
        code.place(some);
        code.place(next);
        code.lowest(lane, RAX);
        code.load_numbered(true, place, (RDI, lane), PLACES);
        self.move_lane(code, Lane::Register(lane), place);
        code.without_lowest(RAX, lane);
        code.jump_if(false, next);
        code.place(done);
    }

    /// Moves the data of a lane to or from its place in the host.
    pub(crate) fn move_lane(&self, code: &mut Bytes, lane: Lane, place: u8) {
        let data = R8 + 2;
        let wide = self.format.is_double();
        let (size, stride) = if wide { (8, DOUBLE) } else { (4, WORD) };
        for element in 0..self.format.registers() as i32 {
            let (own, at) = (element * stride, element * size);
            match (self.store, lane) {
                (true, Lane::Constant(number)) => code.load(wide, data, RDX, own + number * size),
                (true, Lane::Register(number)) => code.load_numbered(wide, data, (RDX, number), own),
                (false, _) => code.load(wide, data, place, at),
            }
            match (self.store, lane) {
                (true, _) => code.store(wide, data, place, at),
                (false, Lane::Constant(number)) => code.store(wide, data, RDX, own + number * size),
                (false, Lane::Register(number)) => code.store_numbered(wide, data, (RDX, number), own),
            }
        }
    }
}

/// The number of a lane, or the general register that has it.
#[derive(Clone, Copy)]
pub(crate) enum Lane {
    Constant(i32),
    Register(u8),
}

/// The part of a group of lanes in an array of the context that has a double of each lane.
fn at_group(code: &Bytes, array: i32, group: u8) -> Source {
    Source::At(RDI, array + i32::from(group) * code.form().bytes() as i32)
}

/// Stores the places of a group if no vector keeps them.
fn keep(code: &mut Bytes, group: u8) {
    if code.form() == Form::Avx2 {
        let to = at_group(code, PLACES, group);
        code.vector(opcodes::STORE, [places(Form::Avx2, group), 0], to, With::default());
    }
}

/// A number in all elements.
fn number(code: &mut Bytes, number: u64) -> Source {
    Source::Spread(code.constant(&number.to_le_bytes()))
}

fn shift_down(code: &mut Bytes, to: u8, from: u8, by: u32) {
    let opcode = opcodes::shift(Op::ShrU, true);
    code.vector(opcode, [0, to], Source::Register(from), With::immediate(by as u8));
}
