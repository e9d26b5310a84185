//! Texels: where they lie, and how their bits become components and the other way round.

use campanile_hw::isa::{Comparison, MemoryFormat, Op as I, Type as T};

use crate::error::Result;
use crate::ir::{Class, Inst as Ir, Src, V};
use crate::lower::Lower;
use crate::record::{Component, Kind, Texel, image};
use crate::types::Scalar;

/// Registers or constants that say how texels are made: logarithm of their bytes, kind, and for each component its word and greatest value.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) size_log2: Src,
    kind: Src,
    components: [Src; 4],
    /// Greatest values as floating-point numbers.
    greatest: [Src; 4],
}

/// A level of an image: address, pitches, and extents in three dimensions.
#[derive(Clone, Copy)]
pub(crate) struct Level {
    address: V,
    pitches: V,
    pub(crate) extent: [Src; 3],
}

/// A floating-point number as a constant.
pub(crate) const fn float(value: f32) -> Src {
    Src::Const(value.to_bits() as u64)
}

/// An integer as a constant.
pub(crate) const fn word(value: u32) -> Src {
    Src::Const(value as u64)
}

impl Format {
    /// The format that is known here already.
    pub(crate) fn known(texel: &Texel) -> Self {
        let greatest = |component: Component| float(texel.greatest(component) as f32);
        Self {
            size_log2: word(texel.size_log2()),
            kind: word(texel.kind as u32),
            components: texel.components.map(|component| word(component.word())),
            greatest: texel.components.map(greatest),
        }
    }
}

/// Registers that follow one another.
fn row<const N: usize>(first: V) -> [Src; N] {
    core::array::from_fn(|index| Src::Reg(first + index as V))
}

impl Lower<'_> {
    /// Runs what `inner` lowers where a predicate is set.
    pub(crate) fn guarded(&mut self, condition: Src, inner: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        match condition {
            Src::Const(0) => Ok(()),
            Src::Const(_) => inner(self),
            Src::Reg(cond) => {
                self.ir.open()?;
                inner(self)?;
                let then = self.ir.close();
                self.ir.push(crate::ir::Node::If { cond, then, otherwise: Vec::new() })
            }
        }
    }

    /// All of some predicates.
    pub(crate) fn all(&mut self, predicates: &[Src]) -> Result<Src> {
        let mut all = Src::Const(1);
        for predicate in predicates {
            all = self.ir.op2(I::And, T::B1, all, *predicate)?;
        }
        Ok(all)
    }

    /// A predicate that is set where a word is one of these numbers.
    fn is_one_of(&mut self, value: Src, numbers: &[u32]) -> Result<Src> {
        let mut any = Src::Const(0);
        for number in numbers {
            let same = self.ir.cmp(Comparison::Eq, T::I32, value, word(*number))?;
            any = self.ir.op2(I::Or, T::B1, any, same)?;
        }
        Ok(any)
    }

    /// The format in the record of an image.
    pub(crate) fn format(&mut self, record: V) -> Result<Format> {
        let [size_log2, kind] = row(self.fetch(record, image::TEXEL, MemoryFormat::W2)?);
        let components = row(self.fetch(record, image::COMPONENTS, MemoryFormat::W4)?);
        let greatest = row(self.fetch(record, image::GREATEST, MemoryFormat::W4)?);
        Ok(Format { size_log2, kind, components, greatest })
    }

    /// A level of an image. The number of one that there is not gives one of the record all the same.
    pub(crate) fn level(&mut self, record: V, level: Src) -> Result<Level> {
        let (at, offset) = match level.constant() {
            Some(0) => (record, image::FIRST_LEVEL),
            _ => {
                let last = word(crate::record::LEVELS_MAX as u32 - 1);
                let level = self.ir.op2(I::MinU, T::I32, level, last)?;
                let at = self.index(Src::Reg(record), level, image::LEVEL)?;
                (self.ir.reg(T::I64, at)?, image::FIRST_LEVEL)
            }
        };
        let address = self.fetch(at, offset, MemoryFormat::D1)?;
        let pitches = self.fetch(at, offset + image::PITCHES, MemoryFormat::W2)?;
        let extent = row(self.fetch(at, offset + image::EXTENT, MemoryFormat::W3)?);
        Ok(Level { address, pitches, extent })
    }

    /// The address of a texel, and whether there is one.
    pub(crate) fn texel(&mut self, level: &Level, size_log2: Src, place: [Src; 3]) -> Result<(V, Src)> {
        let mut inside = Vec::new();
        // Levels that there are not have no extent in any dimension, so that one tells.
        for (dimension, (place, extent)) in place.iter().zip(level.extent).enumerate() {
            if dimension == 0 || *place != Src::Const(0) {
                inside.push(self.ir.cmp(Comparison::LtU, T::I32, *place, extent)?);
            }
        }
        let [row_pitch, slice_pitch] = row(level.pitches);
        let [x, y, z] = place;
        // Where the texel is inside, a row begins and ends less than 2 GiB behind its slice.
        let mut offset = self.ir.op2(I::Shl, T::I32, x, size_log2)?;
        if y != Src::Const(0) {
            let rows = self.ir.op2(I::Mul, T::I32, y, row_pitch)?;
            offset = self.ir.op2(I::Add, T::I32, offset, rows)?;
        }
        let mut address = self.index(Src::Reg(level.address), offset, 1)?;
        if z != Src::Const(0) {
            let (z, pitch) = (self.ir.op1(I::WidenU, T::I32, z)?, self.ir.op1(I::WidenU, T::I32, slice_pitch)?);
            let slices = self.ir.op2(I::Mul, T::I64, z, pitch)?;
            address = self.ir.op2(I::Add, T::I64, address, slices)?;
        }
        Ok((self.ir.reg(T::I64, address)?, self.all(&inside)?))
    }

    /// Stores the words of a texel, as many as it has.
    pub(crate) fn store_texel(&mut self, address: V, size_log2: Src, words: [Src; 4]) -> Result<()> {
        let [first, ..] = words;
        let store = |lower: &mut Self, here: Src, value: Src, (format, immediate): (MemoryFormat, u64)| {
            let value = Some(lower.ir.reg(T::I32, value)?);
            let inst = Ir { a: Some(address), c: value, immediate, ..Ir::new(I::Store, T::None) };
            lower.ir.when(here, |ir| ir.emit(Ir { modifier: format as u8, ..inst }))
        };
        for (log2, format) in [(0, MemoryFormat::U8), (1, MemoryFormat::U16)] {
            let here = self.ir.cmp(Comparison::Eq, T::I32, size_log2, word(log2))?;
            store(self, here, first, (format, 0))?;
        }
        // A word is there if a texel has more bytes than stand before it.
        for (index, (least, value)) in (0u64..).zip([2, 3, 4, 4].into_iter().zip(words)) {
            let here = self.ir.cmp(Comparison::LtU, T::I32, word(least - 1), size_log2)?;
            store(self, here, value, (MemoryFormat::W1, index * 4))?;
        }
        Ok(())
    }

    /// The words of a texel; zeros where there is none.
    pub(crate) fn load_texel(&mut self, address: V, inside: Src, size_log2: Src) -> Result<[Src; 4]> {
        let first = self.ir.group(Class::Word, 4);
        for register in first..first + 4 {
            self.ir.set_mutable(register);
            self.ir.copy(register, Class::Word, Src::Const(0))?;
        }
        let formats = [MemoryFormat::U8, MemoryFormat::U16, MemoryFormat::W1, MemoryFormat::W2, MemoryFormat::W4];
        self.guarded(inside, |lower| {
            for (log2, format) in (0..).zip(formats) {
                let here = lower.ir.cmp(Comparison::Eq, T::I32, size_log2, word(log2))?;
                let inst =
                    Ir { dst: Some(first), a: Some(address), modifier: format as u8, ..Ir::new(I::Load, T::None) };
                lower.ir.when(here, |ir| ir.emit(inst))?;
            }
            Ok(())
        })?;
        let mut words = row(first);
        for (index, place) in words.iter_mut().enumerate() {
            *place = self.ir.read(Class::Word, first + index as V)?;
        }
        Ok(words)
    }

    /// The components of a texel, as floating-point numbers or as words.
    pub(crate) fn decode(&mut self, format: &Format, words: [Src; 4], scalar: Scalar) -> Result<[Src; 4]> {
        let mut all = [Src::Const(0); 4];
        for (place, (component, greatest)) in all.iter_mut().zip(format.components.into_iter().zip(format.greatest)) {
            let number = self.ir.op2(I::And, T::I32, component, word(3))?;
            let raw = self.pick(T::I32, &words, number)?;
            let left = self.ir.op2(I::ShrU, T::I32, component, word(8))?;
            let right = self.ir.op2(I::ShrU, T::I32, component, word(16))?;
            let moved = self.ir.op2(I::Shl, T::I32, raw, left)?;
            let unsigned = self.ir.op2(I::ShrU, T::I32, moved, right)?;
            let signed = self.ir.op2(I::ShrS, T::I32, moved, right)?;
            let bits = Bits { component, unsigned, signed, greatest, right };
            let value = if scalar == Scalar::I32 {
                let is_signed = self.is_one_of(format.kind, &[Kind::Sint as u32])?;
                self.ir.select(T::I32, is_signed, signed, unsigned)?
            } else {
                self.decode_float(format.kind, &bits, words.first().copied().unwrap_or(Src::Const(0)))?
            };
            let one = if scalar == Scalar::I32 { word(1) } else { float(1.0) };
            let (constant, is_one) = (self.bit(component, 24)?, self.bit(component, 25)?);
            let instead = self.ir.select(T::I32, is_one, one, Src::Const(0))?;
            *place = self.ir.select(T::I32, constant, instead, value)?;
        }
        Ok(all)
    }

    /// `colour` inside of the image, and outside what the border's colour makes of the components that the format has. Red, green and blue of a border are
    /// the same; the alpha component is the linear one. [Vulkan: Texel Replacement, Conversion to RGBA, Component Swizzle]
    pub(crate) fn bordered(
        &mut self,
        format: &Format,
        inside: Src,
        colour: [Src; 4],
        border: [Src; 4],
    ) -> Result<[Src; 4]> {
        let [grey, .., alpha] = border;
        let mut all = colour;
        for (place, component) in all.iter_mut().zip(format.components) {
            let (constant, is_alpha) = (self.bit(component, 24)?, self.bit(component, 26)?);
            let kept = self.ir.op2(I::Or, T::B1, inside, constant)?;
            let border = self.ir.select(T::I32, is_alpha, alpha, grey)?;
            *place = self.ir.select(T::I32, kept, *place, border)?;
        }
        Ok(all)
    }

    /// A predicate that is set where a bit of a word is.
    fn bit(&mut self, value: Src, number: u32) -> Result<Src> {
        let masked = self.ir.op2(I::And, T::I32, value, word(1 << number))?;
        self.ir.cmp(Comparison::Ne, T::I32, masked, Src::Const(0))
    }

    fn decode_float(&mut self, kind: Src, bits: &Bits, first: Src) -> Result<Src> {
        let value = self.ir.variable(Class::Word);
        self.ir.copy(value, Class::Word, Src::Const(0))?;
        let normalized = self.is_one_of(kind, &[Kind::Unorm as u32, Kind::Srgb as u32])?;
        self.guarded(normalized, |lower| {
            let number = lower.ir.convert(I::FromU, T::F32, T::I32, bits.unsigned)?;
            let ratio = lower.ir.op2(I::Div, T::F32, number, bits.greatest)?;
            lower.ir.copy(value, Class::Word, ratio)?;
            let (curved, linear) = (lower.is_one_of(kind, &[Kind::Srgb as u32])?, lower.bit(bits.component, 26)?);
            let plain = lower.ir.not(linear)?;
            let curved = lower.all(&[curved, plain])?;
            lower.guarded(curved, |lower| {
                let lit = lower.linear_of_srgb(ratio)?;
                lower.ir.copy(value, Class::Word, lit)
            })
        })?;
        let is_snorm = self.is_one_of(kind, &[Kind::Snorm as u32])?;
        self.guarded(is_snorm, |lower| {
            let number = lower.ir.convert(I::FromS, T::F32, T::I32, bits.signed)?;
            let ratio = lower.ir.op2(I::Div, T::F32, number, bits.greatest)?;
            let ratio = lower.ir.op2(I::Max, T::F32, ratio, float(-1.0))?;
            lower.ir.copy(value, Class::Word, ratio)
        })?;
        let is_float = self.is_one_of(kind, &[Kind::Float as u32])?;
        self.guarded(is_float, |lower| {
            let by = lower.ir.op2(I::ShrU, T::I32, bits.component, word(28))?;
            let half = lower.ir.op2(I::Shl, T::I32, bits.unsigned, by)?;
            // A number of 32 bits has more than one of 16, which are not looked at.
            let half = lower.ir.op2(I::And, T::I32, half, word(0xffff))?;
            let widened = lower.ir.convert(I::Convert, T::F32, T::F16, half)?;
            let right = lower.ir.op2(I::And, T::I32, bits.right, word(0xff))?;
            let whole = lower.ir.cmp(Comparison::Eq, T::I32, right, Src::Const(0))?;
            let number = lower.ir.select(T::I32, whole, bits.unsigned, widened)?;
            lower.ir.copy(value, Class::Word, number)
        })?;
        let is_shared = self.is_one_of(kind, &[Kind::SharedExponent as u32])?;
        self.guarded(is_shared, |lower| {
            let number = lower.ir.convert(I::FromU, T::F32, T::I32, bits.unsigned)?;
            // 2 to the power of the exponent without its bias of 15 and the 9 bits of the mantissa.
            let exponent = lower.ir.op2(I::ShrU, T::I32, first, word(27))?;
            let exponent = lower.ir.op2(I::Add, T::I32, exponent, word(127 - 15 - 9))?;
            let scale = lower.ir.op2(I::Shl, T::I32, exponent, word(23))?;
            let number = lower.ir.op2(I::Mul, T::F32, number, scale)?;
            lower.ir.copy(value, Class::Word, number)
        })?;
        self.ir.read(Class::Word, value)
    }

    /// A component of sRGB as a linear one. [Khronos Data Format: sRGB EOTF]
    fn linear_of_srgb(&mut self, value: Src) -> Result<Src> {
        let straight = self.ir.op2(I::Div, T::F32, value, float(12.92))?;
        let base = self.ir.op2(I::Add, T::F32, value, float(0.055))?;
        let base = self.ir.op2(I::Div, T::F32, base, float(1.055))?;
        let curve = self.ir.op2(I::Pow, T::F32, base, float(2.4))?;
        let dark = self.ir.cmp(Comparison::Le, T::F32, value, float(0.04045))?;
        self.ir.select(T::F32, dark, straight, curve)
    }

    /// Components as the words of a texel of a known format.
    pub(crate) fn encode(&mut self, texel: &Texel, values: &[Src]) -> Result<Vec<Src>> {
        let mut words = vec![Src::Const(0); texel.bytes.div_ceil(4) as usize];
        for (component, value) in texel.components.into_iter().zip(values) {
            let Component::Bits { first, count, .. } = component else { continue };
            let bits = self.encode_component(texel, component, *value)?;
            let bits = match count {
                32.. => bits,
                _ => self.ir.op2(I::And, T::I32, bits, word((1 << count) - 1))?,
            };
            let moved = self.ir.op2(I::Shl, T::I32, bits, word(u32::from(first % 32)))?;
            if let Some(place) = words.get_mut(usize::from(first / 32)) {
                *place = self.ir.op2(I::Or, T::I32, *place, moved)?;
            }
        }
        Ok(words)
    }

    /// Components as the words of a texel of a format that is known when the program runs, and is one of those that can be stored.
    pub(crate) fn encode_any(&mut self, format: &Format, values: &[Src], scalar: Scalar) -> Result<[Src; 4]> {
        let mut words = [Src::Const(0); 4];
        let shown = format.components.into_iter().zip(format.greatest).zip(values);
        for ((component, greatest), value) in shown {
            let bits = if scalar == Scalar::I32 {
                *value
            } else {
                self.encode_float(format.kind, component, greatest, *value)?
            };
            // Only the lowest five bits of a shift count, so that the fields above need not be taken away.
            let left = self.ir.op2(I::ShrU, T::I32, component, word(8))?;
            let right = self.ir.op2(I::ShrU, T::I32, component, word(16))?;
            let mask = self.ir.op2(I::ShrU, T::I32, word(u32::MAX), right)?;
            let bits = self.ir.op2(I::And, T::I32, bits, mask)?;
            let first = self.ir.op2(I::Sub, T::I32, right, left)?;
            let moved = self.ir.op2(I::Shl, T::I32, bits, first)?;
            let constant = self.bit(component, 24)?;
            let moved = self.ir.select(T::I32, constant, Src::Const(0), moved)?;
            let number = self.ir.op2(I::And, T::I32, component, word(3))?;
            for (index, place) in (0..).zip(&mut words) {
                let here = self.ir.cmp(Comparison::Eq, T::I32, number, word(index))?;
                let part = self.ir.select(T::I32, here, moved, Src::Const(0))?;
                *place = self.ir.op2(I::Or, T::I32, *place, part)?;
            }
        }
        Ok(words)
    }

    /// As [`Self::encode_component`], for a floating-point number and a component that is known when the program runs.
    fn encode_float(&mut self, kind: Src, component: Src, greatest: Src, value: Src) -> Result<Src> {
        let is_snorm = self.is_one_of(kind, &[Kind::Snorm as u32])?;
        let least = self.ir.select(T::F32, is_snorm, float(-1.0), float(0.0))?;
        let clamped = self.ir.op2(I::Max, T::F32, value, least)?;
        let clamped = self.ir.op2(I::Min, T::F32, clamped, float(1.0))?;
        let scaled = self.ir.op2(I::Mul, T::F32, clamped, greatest)?;
        let whole = self.ir.op1(I::RoundEven, T::F32, scaled)?;
        let unsigned = self.ir.convert(I::ToU, T::I32, T::F32, whole)?;
        let signed = self.ir.convert(I::ToS, T::I32, T::F32, whole)?;
        let normalized = self.ir.select(T::I32, is_snorm, signed, unsigned)?;
        // What has no sign has a shift that makes a number of 16 bits of it.
        let by = self.ir.op2(I::ShrU, T::I32, component, word(28))?;
        let has_sign = self.ir.cmp(Comparison::Eq, T::I32, by, Src::Const(0))?;
        let positive = self.ir.op2(I::Max, T::F32, value, float(0.0))?;
        let number = self.ir.select(T::F32, has_sign, value, positive)?;
        let half = self.ir.convert(I::Convert, T::F16, T::F32, number)?;
        let half = self.ir.op2(I::ShrU, T::I32, half, by)?;
        let right = self.ir.op2(I::And, T::I32, component, word(0xff << 16))?;
        let is_whole = self.ir.cmp(Comparison::Eq, T::I32, right, Src::Const(0))?;
        let floating = self.ir.select(T::I32, is_whole, value, half)?;
        let is_float = self.is_one_of(kind, &[Kind::Float as u32])?;
        self.ir.select(T::I32, is_float, floating, normalized)
    }

    fn encode_component(&mut self, texel: &Texel, component: Component, value: Src) -> Result<Src> {
        let greatest = float(texel.greatest(component) as f32);
        let is_unsigned = matches!(texel.kind, Kind::Unorm);
        match (texel.kind, component) {
            (Kind::Unorm | Kind::Snorm, _) => {
                let least = float(if is_unsigned { 0.0 } else { -1.0 });
                let value = self.ir.op2(I::Max, T::F32, value, least)?;
                let value = self.ir.op2(I::Min, T::F32, value, float(1.0))?;
                let scaled = self.ir.op2(I::Mul, T::F32, value, greatest)?;
                let whole = self.ir.op1(I::RoundEven, T::F32, scaled)?;
                self.ir.convert(if is_unsigned { I::ToU } else { I::ToS }, T::I32, T::F32, whole)
            }
            (Kind::Float, Component::Bits { count: 16, .. }) => self.ir.convert(I::Convert, T::F16, T::F32, value),
            (Kind::Float, Component::Bits { count: count @ (10 | 11), .. }) => {
                // They have no sign: what is less than 0 becomes 0. Bits that there is no place for are cut off, which is one of the two nearest numbers.
                let value = self.ir.op2(I::Max, T::F32, value, float(0.0))?;
                let half = self.ir.convert(I::Convert, T::F16, T::F32, value)?;
                self.ir.op2(I::ShrU, T::I32, half, word(15 - u32::from(count)))
            }
            _ => Ok(value),
        }
    }
}

/// A component's bits, in both readings, and what says how they are read.
struct Bits {
    component: Src,
    unsigned: Src,
    signed: Src,
    greatest: Src,
    right: Src,
}
