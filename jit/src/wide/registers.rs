//! The registers of the GPU that vectors of the host hold on their way through a stretch of instructions: sixteen lanes of each.

use super::bytes::{Bytes, MaskOp, R8, RAX, RCX, RDI, RDX, RSI, Source, With};
use super::opcodes;
use crate::context::ACTIVE;
use crate::files::{DOUBLE, WORD};
use crate::segment::File;
use campanile_hw::isa::Type;
use std::collections::BTreeMap;

/// What one vector or mask has of a register: its file, its number, and which half of a double.
pub(crate) type Part = (File, u8, u8);

/// The instructions that read each part.
pub(crate) type Reads = BTreeMap<Part, Vec<usize>>;

/// Vectors and masks that an instruction may use for what is in between.
pub(crate) const FREE: [u8; 3] = [29, 30, 31];
pub(crate) const FREE_MASKS: [u8; 2] = [6, 7];
/// The vector for the result of an instruction that is computed for all lanes where only some get it.
pub(crate) const ASIDE: u8 = FREE[0] - 1;
/// The lanes that are active, where not all are.
const ACTIVE_MASK: u8 = 1;
/// Masks that hold predicates.
const MASKS: std::ops::Range<usize> = 2..6;
/// The mask that holds a predicate that is read where masks hold nothing for good.
const SOURCE_MASK: u8 = 5;
/// Predicates whose bits of all lanes are put together in general registers.
const GATHERED: usize = 4;

/// A part that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    part: Part,
    /// True if it is to be stored.
    changed: bool,
    /// Set for a result of floating point whose NaN may be any.
    raw: Option<Type>,
}

impl Held {
    /// A NaN has the bits of the canonical one, or there is none.
    pub(crate) fn settled(&mut self) {
        self.raw = None;
    }
}

/// For each vector the part that it holds; `None` if it is free.
pub(crate) type Vectors = [Option<Held>; FREE[0] as usize];

/// Vectors that hold these words of sixteen lanes for good, from this vector on.
pub(crate) fn fixed(words: &[u8], first: usize) -> Vectors {
    let mut vectors = [None; FREE[0] as usize];
    for (vector, word) in vectors.iter_mut().skip(first).zip(words) {
        *vector = Some(Held { part: (File::Word, *word, 0), changed: false, raw: None });
    }
    vectors
}

/// The vectors and masks, and what they hold.
pub(crate) struct Registers<'b> {
    pub(crate) code: &'b mut Bytes,
    vectors: Vectors,
    masks: [Option<Held>; MASKS.end],
    /// Vectors and masks that the instruction at hand uses.
    used: (u32, u32),
    /// True if some lanes may be inactive.
    pub(crate) some: bool,
    /// Set where every part that is used has a vector of its own for good: the mask of the active lanes, and a place for a predicate.
    fixed: Option<(u8, u8)>,
    /// True if results go to [`ASIDE`].
    pub(crate) aside: bool,
    /// Which sixteen lanes.
    pub(crate) half: i32,
    /// For each part the numbers of the instructions that read it, upwards.
    reads: &'b Reads,
    /// The instruction at hand.
    pub(crate) at: usize,
}

/// A constant of a floating-point type: the canonical NaN.
fn canonical(ty: Type) -> Vec<u8> {
    if ty == Type::F64 {
        0x7ff8_u64.rotate_left(48).to_le_bytes().to_vec()
    } else {
        0x7fc0_0000_u32.to_le_bytes().to_vec()
    }
}

impl<'b> Registers<'b> {
    /// Registers that are held as [`fixed`] says: the mask of the active lanes, and a mask for a predicate that is written.
    pub(crate) fn with_fixed(
        code: &'b mut Bytes,
        reads: &'b Reads,
        half: i32,
        vectors: Vectors,
        fixed: (u8, u8),
    ) -> Self {
        Self { vectors, fixed: Some(fixed), ..Self::new(code, reads, false, half) }
    }

    /// The parts that the vectors hold after the instructions so far.
    pub(crate) fn vectors(&self) -> Vectors {
        self.vectors
    }

    /// The vectors with a result whose NaN may be any, and the type of that.
    pub(crate) fn all_raw(&self) -> impl Iterator<Item = (u8, Type)> {
        (0..).zip(self.vectors).filter_map(|(place, held)| Some((place, held?.raw?)))
    }

    /// Gives all such results the bits of the canonical NaN.
    pub(crate) fn settle_all(&mut self) {
        (0..self.vectors.len()).for_each(|place| self.settle(place as u8));
    }

    pub(crate) fn new(code: &'b mut Bytes, reads: &'b Reads, some: bool, half: i32) -> Self {
        let this = Self {
            code,
            vectors: [None; FREE[0] as usize],
            masks: [None; MASKS.end],
            used: (0, 0),
            some,
            fixed: None,
            aside: false,
            half,
            reads,
            at: 0,
        };
        if some {
            this.code.load(false, RAX, RDI, ACTIVE);
            if half != 0 {
                this.code.shift(false, RAX, 16);
            }
            this.code.mask_of(ACTIVE_MASK, RAX);
        }
        this
    }

    /// Nothing is used by the next instruction yet.
    pub(crate) fn next(&mut self) {
        self.used = (0, 0);
        self.at += 1;
    }

    fn place(&self, (file, number, half): Part) -> (u8, i32) {
        let number = i32::from(number);
        match file {
            File::Word => (RSI, number * WORD + self.half * 64),
            File::Double => (RDX, number * DOUBLE + self.half * 128 + i32::from(half) * 64),
            File::Predicate => (RCX, number * 4 + self.half * 2),
        }
    }

    /// Instructions until the next one that reads a part; the greatest number if none does.
    fn distance(&self, part: Part) -> usize {
        let reads = self.reads.get(&part).map_or(&[][..], Vec::as_slice);
        let next = reads.get(reads.partition_point(|at| *at < self.at));
        next.map_or(usize::MAX, |next| next - self.at)
    }

    /// The one of these places that holds nothing or else what is needed last, and is not in use.
    fn worst(&self, held: &[Option<Held>], used: u32) -> usize {
        let free = |place: &usize| used >> place & 1 == 0;
        let places = (0..held.len()).filter(free);
        let need = |place: &usize| held[*place].map_or((1, 0), |held| (0, self.distance(held.part)));
        places.max_by_key(need).unwrap_or(0)
    }

    /// A vector for a part, whatever it held before stored.
    fn take(&mut self, part: Part) -> u8 {
        let known = self.vectors.iter().position(|held| held.is_some_and(|held| held.part == part));
        let place = known.unwrap_or_else(|| self.worst(&self.vectors, self.used.0));
        if known.is_none() {
            self.store(place);
            self.vectors[place] = Some(Held { part, changed: false, raw: None });
        }
        self.used.0 |= 1 << place;
        place as u8
    }

    /// The vector with a part of a register. A NaN of it counts as a NaN only, if it is used by floating-point arithmetic of the type `of`.
    pub(crate) fn read(&mut self, part: Part, of: Option<Type>) -> u8 {
        let known = self.vectors.iter().any(|held| held.is_some_and(|held| held.part == part));
        let place = self.take(part);
        if !known {
            let (base, offset) = self.place(part);
            self.code.vector(opcodes::LOAD, [place, 0], Source::At(base, offset), With::default());
        }
        if self.raw(place).is_some_and(|raw| of != Some(raw)) {
            self.settle(place);
        }
        place
    }

    /// The type of a result whose NaN may be any.
    pub(crate) fn raw(&self, place: u8) -> Option<Type> {
        self.vectors[usize::from(place)].and_then(|held| held.raw)
    }

    /// As [`Registers::raw`], of a part if it is held.
    pub(crate) fn raw_of(&self, part: Part) -> Option<Type> {
        self.vectors.iter().flatten().find(|held| held.part == part).and_then(|held| held.raw)
    }

    /// Gives a NaN that may be any the bits of the canonical one.
    fn settle(&mut self, place: u8) {
        let Some(ty) = self.vectors[usize::from(place)].as_mut().and_then(|held| held.raw.take()) else { return };
        let wide = ty == Type::F64;
        let mask = FREE_MASKS[1];
        let lanes = self.fixed.map_or(0, |(lanes, _)| lanes);
        let unordered = With { mask: lanes, ..With::immediate(opcodes::UNORDERED) };
        self.code.vector(opcodes::compare_numbers(wide), [mask, place], Source::Register(place), unordered);
        let nan = self.code.constant(&canonical(ty));
        let opcode = if wide { opcodes::SPREAD_DOUBLE } else { opcodes::SPREAD };
        // The instruction itself spreads, so that the operand is a single element.
        self.code.vector(opcode, [place, 0], Source::Constant(nan), With::mask(mask));
    }

    /// The vector that an instruction writes a part to, behind everything that it reads.
    pub(crate) fn write(&mut self, part: Part, raw: Option<Type>) -> u8 {
        let place = self.take(part);
        self.vectors[usize::from(place)] = Some(Held { part, changed: true, raw });
        if self.aside { ASIDE } else { place }
    }

    /// The vector that holds a part.
    pub(crate) fn known(&self, part: Part) -> Option<u8> {
        let place = self.vectors.iter().position(|held| held.is_some_and(|held| held.part == part));
        place.map(|place| place as u8)
    }

    /// Stores what a vector holds if it changed, and holds nothing there any more.
    fn store(&mut self, place: usize) {
        self.settle(place as u8);
        let Some(held) = self.vectors[place].take().filter(|held| held.changed) else { return };
        let (base, offset) = self.place(held.part);
        let with = With::mask(if self.some { ACTIVE_MASK } else { 0 });
        let opcode = if held.part.0 == File::Double { opcodes::STORE_DOUBLES } else { opcodes::STORE };
        if self.some && held.part.2 != 0 {
            let upper = FREE_MASKS[1];
            self.code.shift_mask(upper, ACTIVE_MASK, 8);
            self.code.vector(opcode, [place as u8, 0], Source::At(base, offset), With::mask(upper));
        } else {
            self.code.vector(opcode, [place as u8, 0], Source::At(base, offset), with);
        }
    }

    fn take_mask(&mut self, number: u8) -> (u8, bool) {
        let part = (File::Predicate, number, 0);
        let known = self.masks.iter().position(|held| held.is_some_and(|held| held.part == part));
        let reserved = (1 << MASKS.start) - 1;
        let place = known.unwrap_or_else(|| self.worst(&self.masks, self.used.1 | reserved));
        if known.is_none() {
            self.store_mask(place);
            self.masks[place] = Some(Held { part, changed: false, raw: None });
        }
        self.used.1 |= 1 << place;
        (place as u8, known.is_some())
    }

    /// The mask with a predicate.
    pub(crate) fn read_mask(&mut self, number: u8) -> u8 {
        if self.fixed.is_some() {
            let (base, offset) = self.place((File::Predicate, number, 0));
            self.code.load_mask(SOURCE_MASK, base, offset);
            return SOURCE_MASK;
        }
        let (mask, known) = self.take_mask(number);
        if !known {
            let (base, offset) = self.place((File::Predicate, number, 0));
            self.code.load_mask(mask, base, offset);
        }
        mask
    }

    /// The mask that an instruction writes a predicate to, behind everything that it reads.
    pub(crate) fn write_mask(&mut self, number: u8) -> u8 {
        if let Some((_, result)) = self.fixed {
            return result;
        }
        let (mask, _) = self.take_mask(number);
        self.masks[usize::from(mask)] = Some(Held { part: (File::Predicate, number, 0), changed: true, raw: None });
        mask
    }

    /// Puts the bits of a predicate into a general register, those of lanes that are not active as they were.
    fn bits(&mut self, general: u8, mask: usize, number: u8) {
        let mut mask = mask as u8;
        if self.some {
            let [new, old] = FREE_MASKS;
            let (base, offset) = self.place((File::Predicate, number, 0));
            self.code.load_mask(old, base, offset);
            self.code.masks(MaskOp::AndNot, old, ACTIVE_MASK, old);
            self.code.masks(MaskOp::And, new, ACTIVE_MASK, mask);
            self.code.masks(MaskOp::Or, new, new, old);
            mask = new;
        }
        self.code.bits_of(general, mask);
    }

    fn store_mask(&mut self, place: usize) {
        let Some(held) = self.masks[place].take().filter(|held| held.changed) else { return };
        let (base, offset) = self.place(held.part);
        self.bits(RAX, place, held.part.1);
        self.code.store_short(RAX, base, offset);
    }

    /// Stores all that changed. Bits of predicates wait in general registers for those of the upper lanes, so that one store writes what one load reads.
    pub(crate) fn finish(mut self) {
        for place in 0..self.vectors.len() {
            self.store(place);
        }
        let changed = MASKS.filter(|place| self.masks[*place].is_some_and(|held| held.changed));
        for (count, place) in changed.collect::<Vec<_>>().into_iter().enumerate().take(GATHERED) {
            let Some((_, number, _)) = self.masks[place].take().map(|held| held.part) else { continue };
            let whole = R8 + count as u8;
            if self.half == 0 {
                self.bits(whole, place, number);
            } else {
                self.bits(RAX, place, number);
                self.code.shift(true, RAX, 16);
                self.code.or(whole, RAX);
                self.code.store(false, whole, RCX, i32::from(number) * 4);
            }
        }
    }
}
