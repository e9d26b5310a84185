//! The registers of the GPU that vectors of the host hold on their way through a stretch of instructions: of each as many lanes as a vector has words.

use super::bytes::{Bytes, MaskOp, R8, RAX, RCX, RDI, RDX, RSI, Source, With};
use super::form::Form;
use super::opcodes;
use crate::context::ACTIVE;
use crate::files::{DOUBLE, WORD};
use crate::segment::File;
use campanile_hw::isa::Type;
use iced_x86::Code;
use std::collections::BTreeMap;

/// What one vector or mask has of a register: its file, its number, and which half of a double.
pub(crate) type Part = (File, u8, u8);

/// The instructions of a stretch that read each part, and those that write it, upwards.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) reads: BTreeMap<Part, Vec<usize>>,
    pub(crate) writes: BTreeMap<Part, Vec<usize>>,
    /// True if the code of each instruction uses few vectors for what is in between ([`Form::held`]).
    pub(crate) simple: bool,
}

/// The first of the instructions that use a part from one on.
fn next(uses: &BTreeMap<Part, Vec<usize>>, part: Part, from: usize) -> Option<usize> {
    let all = uses.get(&part)?;
    all.get(all.partition_point(|at| *at < from)).copied()
}

/// The vector for the result of an instruction that is computed for all lanes where only some get it.
pub(crate) const ASIDE: u8 = Form::Avx512.free()[0] - 1;
/// Most vectors that hold something.
const MOST: usize = Form::Avx512.held(false);
/// Registers of masks that hold predicates, where a form has such.
const MASKS: std::ops::Range<usize> = 2..6;
/// The mask that holds a predicate that is read where masks hold nothing for good.
const SOURCE_MASK: u8 = 5;
/// Predicates whose bits of all lanes are put together in general registers.
pub(crate) const GATHERED: usize = 4;

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
pub(crate) type Vectors = [Option<Held>; MOST];

/// Vectors that hold these words of a group of lanes for good, from this vector on.
pub(crate) fn fixed(words: &[u8], first: usize) -> Vectors {
    let mut vectors = [None; MOST];
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
    /// Which lanes: so many vectors of words of others are before them.
    pub(crate) group: i32,
    uses: &'b Uses,
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
        uses: &'b Uses,
        group: i32,
        vectors: Vectors,
        fixed: (u8, u8),
    ) -> Self {
        Self { vectors, fixed: Some(fixed), ..Self::new(code, uses, false, group) }
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

    pub(crate) fn new(code: &'b mut Bytes, uses: &'b Uses, some: bool, group: i32) -> Self {
        let this = Self {
            code,
            vectors: [None; MOST],
            masks: [None; MASKS.end],
            used: (0, 0),
            some,
            fixed: None,
            aside: false,
            group,
            uses,
            at: 0,
        };
        if some {
            this.code.load_mask(this.form().active(), (RDI, ACTIVE), group);
        }
        this
    }

    pub(crate) fn form(&self) -> Form {
        self.code.form()
    }

    /// Nothing is used by the next instruction yet.
    pub(crate) fn next(&mut self) {
        self.used = (0, 0);
        self.at += 1;
    }

    fn place(&self, (file, number, half): Part) -> (u8, i32) {
        let (number, bytes) = (i32::from(number), self.form().bytes() as i32);
        match file {
            File::Word => (RSI, number * WORD + self.group * bytes),
            File::Double => (RDX, number * DOUBLE + (self.group * 2 + i32::from(half)) * bytes),
            File::Predicate => (RCX, number * 4),
        }
    }

    /// Instructions until the next one that reads what a part has now; the greatest number if none does.
    fn distance(&self, part: Part) -> usize {
        let read = next(&self.uses.reads, part, self.at);
        let write = next(&self.uses.writes, part, self.at);
        read.filter(|read| write.is_none_or(|write| *read <= write)).map_or(usize::MAX, |read| read - self.at)
    }

    /// True if what a part has now is neither read any more nor left behind the stretch.
    fn is_overwritten(&self, part: Part) -> bool {
        self.distance(part) == usize::MAX && next(&self.uses.writes, part, self.at).is_some()
    }

    /// The place of a part that no vector holds, if the instruction at hand is the last one that reads what it has now.
    pub(crate) fn read_once(&self, part: Part) -> Option<Source> {
        let again = next(&self.uses.reads, part, self.at + 1);
        let write = next(&self.uses.writes, part, self.at);
        let is_last = again.is_none_or(|again| write.is_some_and(|write| write < again));
        let (base, offset) = self.place(part);
        (self.known(part).is_none() && is_last).then_some(Source::At(base, offset))
    }

    /// The one of these places that holds nothing or else what is needed last, and is not in use.
    fn worst(&self, held: &[Option<Held>], used: u32) -> usize {
        let free = |place: &usize| used >> place & 1 == 0;
        let places = (0..held.len()).filter(free);
        let need = |place: &usize| match held[*place] {
            None => (2, 0),
            Some(held) if self.is_overwritten(held.part) => (1, 0),
            Some(held) => (0, self.distance(held.part)),
        };
        places.max_by_key(need).unwrap_or(0)
    }

    /// A vector for a part, whatever it held before stored.
    fn take(&mut self, part: Part) -> u8 {
        let known = self.vectors.iter().position(|held| held.is_some_and(|held| held.part == part));
        let place = known.unwrap_or_else(|| {
            self.worst(self.vectors.get(..self.form().held(self.uses.simple && !self.some)).unwrap_or(&[]), self.used.0)
        });
        if known.is_none() {
            if self.vectors[place].is_some_and(|held| self.is_overwritten(held.part)) {
                self.vectors[place] = None;
            }
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
            match part.0 {
                File::Predicate => self.code.load_mask(place, (base, offset), self.group),
                _ => self.code.vector(opcodes::LOAD, [place, 0], Source::At(base, offset), With::default()),
            }
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
        let [_, mask] = self.form().free_masks();
        let lanes = self.fixed.map_or(0, |(lanes, _)| lanes);
        let number = Source::Register(place);
        self.code.compare_numbers((opcodes::UNORDERED, wide), [mask, place], number, With::mask(lanes));
        let nan = Source::Spread(self.code.constant(&canonical(ty)));
        self.code.vector(opcodes::blend(wide), [place, place], nan, With::mask(mask));
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
        if held.part.0 == File::Predicate {
            return self.store_bits(place, held.part.1);
        }
        let (base, offset) = self.place(held.part);
        let to = Source::At(base, offset);
        if !self.some {
            return self.code.vector(opcodes::STORE, [place as u8, 0], to, With::default());
        }
        let (wide, mut mask) = (held.part.0 == File::Double, self.form().active());
        if wide {
            let [_, free] = self.form().free_masks();
            mask = self.code.part_of_mask(free, mask, held.part.2);
        }
        self.code.store_masked(wide, place as u8, to, mask);
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
            let place = self.place((File::Predicate, number, 0));
            self.code.load_mask(SOURCE_MASK, place, self.group);
            return SOURCE_MASK;
        }
        if self.form() == Form::Avx2 {
            return self.read((File::Predicate, number, 0), None);
        }
        let (mask, known) = self.take_mask(number);
        if !known {
            let place = self.place((File::Predicate, number, 0));
            self.code.load_mask(mask, place, self.group);
        }
        mask
    }

    /// The mask that an instruction writes a predicate to, behind everything that it reads.
    pub(crate) fn write_mask(&mut self, number: u8) -> u8 {
        if let Some((_, result)) = self.fixed {
            return result;
        }
        if self.form() == Form::Avx2 {
            return self.write((File::Predicate, number, 0), None);
        }
        let (mask, _) = self.take_mask(number);
        self.masks[usize::from(mask)] = Some(Held { part: (File::Predicate, number, 0), changed: true, raw: None });
        mask
    }

    /// Puts the bits of a predicate into a general register, those of lanes that are not active as they were.
    fn bits(&mut self, general: u8, mask: usize, number: u8) {
        let mut mask = mask as u8;
        if self.some {
            let ([new, old], active) = (self.form().free_masks(), self.form().active());
            let place = self.place((File::Predicate, number, 0));
            self.code.load_mask(old, place, self.group);
            self.code.masks(MaskOp::AndNot, old, active, old);
            self.code.masks(MaskOp::And, new, active, mask);
            self.code.masks(MaskOp::Or, new, new, old);
            mask = new;
        }
        self.code.bits_of(general, mask);
    }

    fn store_mask(&mut self, place: usize) {
        let Some(held) = self.masks[place].take().filter(|held| held.changed) else { return };
        self.store_bits(place, held.part.1);
    }

    /// Stores the bits of a predicate that a mask has.
    fn store_bits(&mut self, mask: usize, number: u8) {
        let (base, offset) = self.place((File::Predicate, number, 0));
        self.bits(RAX, mask, number);
        self.code.store_bits(base, offset, self.group);
    }

    /// The masks with predicates that changed, which then hold nothing any more.
    fn changed_predicates(&mut self) -> Vec<(usize, u8)> {
        let is_vector = self.form() == Form::Avx2;
        let held = if is_vector { &mut self.vectors[..] } else { &mut self.masks[..] };
        let changed = |held: &Held| held.changed && held.part.0 == File::Predicate;
        let taken =
            held.iter_mut().enumerate().filter_map(|(place, held)| Some((place, held.take_if(|held| changed(held))?)));
        taken.map(|(place, held)| (place, held.part.1)).collect()
    }

    /// Stores all that changed, but for the first few predicates: their bits are in general registers, from R8 on, together with those of the groups before, and wait there for [`store_predicates`], so that
    /// one store writes what one load reads. Gives their numbers.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let (group, lanes) = (self.group as u8, self.form().lanes() as u8);
        let changed = self.changed_predicates();
        for (count, (place, number)) in changed.iter().enumerate() {
            if count >= GATHERED {
                self.store_bits(*place, *number);
                continue;
            }
            let whole = R8 + count as u8;
            let is_first = group == 0 && !self.some;
            self.code.bits_of(if is_first { whole } else { RAX }, *place as u8);
            if group != 0 {
                self.code.shift(true, RAX, group * lanes);
            }
            if !is_first {
                self.code.or(whole, RAX);
            }
        }
        for place in 0..self.vectors.len() {
            self.store(place);
        }
        changed.into_iter().take(GATHERED).map(|(_, number)| number).collect()
    }
}

/// Stores the predicates that wait in general registers. Where some lanes may be inactive, these keep what they have.
pub(crate) fn store_predicates(code: &mut Bytes, predicates: &[u8], some: bool) {
    for (whole, number) in (R8..).zip(predicates) {
        let place = i32::from(*number) * 4;
        if some {
            code.load(false, RAX, RDI, ACTIVE);
            code.two(Code::And_r32_rm32, whole, RAX);
            code.number(Code::Not_rm32, RAX, 0);
            code.with_memory(Code::And_r32_rm32, RAX, RCX, place);
            code.or(whole, RAX);
        }
        code.store(false, whole, RCX, place);
    }
}
