//! What programs read of images and samplers: records in memory, to which descriptors point, and how texels of a format are made of bits.
//!
//! The descriptor of an image or a texel buffer is the address of its [`ImageRecord`] as a `u64`, that of a sampler has the address of its [`SamplerRecord`] as the second one,
//! and a combined one has both. Records lie at multiples of 8.

use rspirv::spirv::ImageFormat;

/// Most levels of an image.
pub const LEVELS_MAX: usize = 14;

/// Offsets in the record of an image.
pub(crate) mod image {
    /// Number of levels.
    pub(crate) const LEVELS: u64 = 0;
    /// Logarithm of the bytes of a texel, and the kind of its components.
    pub(crate) const TEXEL: u64 = 8;
    /// Four words, see `Component::word`.
    pub(crate) const COMPONENTS: u64 = 16;
    /// The greatest values of the components, as floating-point numbers.
    pub(crate) const GREATEST: u64 = 32;
    /// The levels, [`LEVEL`] bytes each.
    pub(crate) const FIRST_LEVEL: u64 = 64;
    /// Address, two pitches, three extents.
    pub(crate) const LEVEL: u32 = 32;
    /// Offset of the pitches in a level.
    pub(crate) const PITCHES: u64 = 8;
    /// Offset of the extents in a level.
    pub(crate) const EXTENT: u64 = 16;
}

/// Offsets in the record of a sampler.
pub(crate) mod sampler {
    /// Whether texels are interpolated where the image is magnified, where it is minified, and between levels; the comparison.
    pub(crate) const FILTERS: u64 = 0;
    /// The address modes of the three dimensions; whether coordinates count texels.
    pub(crate) const ADDRESSING: u64 = 16;
    /// Bias, smallest and greatest level of detail.
    pub(crate) const LOD: u64 = 32;
    /// Components of the border.
    pub(crate) const BORDER: u64 = 48;
}

/// Bytes of the record of an image.
pub const IMAGE_RECORD: usize = image::FIRST_LEVEL as usize + LEVELS_MAX * image::LEVEL as usize;
/// Bytes of the record of a sampler.
pub const SAMPLER_RECORD: usize = 64;

/// Reading of the bits of a component: integer, normalized or floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// An unsigned integer divided by its greatest value.
    Unorm = 0,
    /// A signed integer divided by its greatest value, -1 at least.
    Snorm = 1,
    /// An unsigned integer.
    Uint = 2,
    /// A signed integer.
    Sint = 3,
    /// A floating-point number of 32, 16, 11 or 10 bits; the last two have no sign.
    Float = 4,
    /// As `Unorm`, and then by the transfer function of sRGB; the alpha component is linear.
    Srgb = 5,
    /// Three mantissas of 9 bits, and an exponent of 5 bits in the highest bits.
    SharedExponent = 6,
}

/// Source of a component: bits of the texel, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Bits of the texel: number of the lowest one, and how many, 32 at most and all in one word.
    Bits {
        /// Number of the lowest bit in the texel.
        first: u8,
        /// Number of bits.
        count: u8,
        /// True for a component that the transfer function of sRGB does not concern.
        linear: bool,
    },
    /// 0.
    Zero,
    /// 1.
    One,
}

impl Component {
    /// Number of the word, shift to the left that drops the bits above, shift to the right that drops those below, and flags in a byte each: 1 for a constant, 2 for that
    /// being one, 4 for linear; the highest four bits are the shift that makes a floating-point number of 16 bits.
    pub(crate) const fn word(self) -> u32 {
        match self {
            Self::Zero => 1 << 24,
            Self::One => 3 << 24,
            Self::Bits { first, count, linear } => {
                let (first, count) = (first as u32, count as u32);
                let half = match count {
                    10 => 5,
                    11 => 4,
                    _ => 0,
                };
                let flags = (linear as u32) << 2 | half << 4;
                u32::from_le_bytes([
                    (first / 32) as u8,
                    (32 - first % 32 - count) as u8,
                    (32 - count) as u8,
                    flags as u8,
                ])
            }
        }
    }

    const fn count(self) -> u32 {
        match self {
            Self::Bits { count, .. } => count as u32,
            _ => 1,
        }
    }
}

/// The texels of a format, or of a view with a swizzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texel {
    /// Bytes of one: 1, 2, 4, 8 or 16.
    pub bytes: u32,
    /// Reading of the components.
    pub kind: Kind,
    /// The components that a program sees, red first.
    pub components: [Component; 4],
}

impl Texel {
    /// Texels with components of these numbers of bits, red in the lowest ones; what is missing is 0, and a missing alpha 1.
    pub const fn new(kind: Kind, bits: &[u8]) -> Self {
        let mut components = [Component::Zero, Component::Zero, Component::Zero, Component::One];
        let (mut first, mut index) = (0, 0);
        while index < bits.len() {
            components[index] = Component::Bits { first, count: bits[index], linear: index == 3 };
            first += bits[index];
            index += 1;
        }
        let bytes = (first as u32).div_ceil(8);
        Self { bytes, kind, components }
    }

    /// The greatest value of a component, by which it is divided.
    pub(crate) const fn greatest(&self, component: Component) -> u32 {
        let count = component.count();
        let count = if matches!(self.kind, Kind::Snorm) { count - 1 } else { count };
        match count {
            0 => 1,
            32.. => u32::MAX,
            count => (1 << count) - 1,
        }
    }

    /// The bits of a texel whose components have these values: floating-point numbers of 32 bits where the kind shows such, otherwise integers.
    pub fn bits(&self, colour: [u32; 4]) -> u128 {
        let mut bits = 0u128;
        if self.kind == Kind::SharedExponent {
            return shared_exponent([colour[0], colour[1], colour[2]].map(f32::from_bits)).into();
        }
        for (component, value) in self.components.into_iter().zip(colour) {
            let Component::Bits { first, count, linear } = component else { continue };
            let greatest = self.greatest(component) as f32;
            let number = f32::from_bits(value);
            let value = match self.kind {
                Kind::Unorm => (number.clamp(0.0, 1.0) * greatest).round_ties_even() as u32,
                Kind::Srgb if linear => (number.clamp(0.0, 1.0) * greatest).round_ties_even() as u32,
                Kind::Srgb => (to_srgb(number.clamp(0.0, 1.0)) * greatest).round_ties_even() as u32,
                Kind::Snorm => (number.clamp(-1.0, 1.0) * greatest).round_ties_even() as i32 as u32,
                Kind::Float if count == 16 => half(number),
                Kind::Float if count < 16 => half(number.max(0.0)) >> (15 - count),
                _ => value,
            };
            bits |= (u128::from(value) & ((1 << count) - 1)) << first;
        }
        bits
    }

    pub(crate) const fn size_log2(&self) -> u32 {
        self.bytes.trailing_zeros()
    }
}

/// A level of an image, or of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelRecord {
    /// GPU virtual address of the first texel.
    pub address: u64,
    /// Bytes from row to row.
    pub row_pitch: u32,
    /// Bytes from slice to slice of a three-dimensional image, or from layer to layer.
    pub slice_pitch: u32,
    /// Texels in each dimension; layers are the third one.
    pub extent: [u32; 3],
}

/// The record in memory from which a program reads an image view or a view of a texel buffer: format, and address and extent of each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRecord {
    /// The texels.
    pub texel: Texel,
    /// The levels, [`LEVELS_MAX`] at most.
    pub levels: Vec<LevelRecord>,
}

impl ImageRecord {
    /// The bytes of the record.
    pub fn bytes(&self) -> [u8; IMAGE_RECORD] {
        let levels = self.levels.len().min(LEVELS_MAX) as u32;
        let mut words = vec![levels, 0, self.texel.size_log2(), self.texel.kind as u32];
        words.extend(self.texel.components.map(Component::word));
        words.extend(self.texel.components.map(|component| (self.texel.greatest(component) as f32).to_bits()));
        words.resize(image::FIRST_LEVEL as usize / 4, 0);
        for level in self.levels.iter().take(LEVELS_MAX) {
            words.extend([level.address as u32, (level.address >> 32) as u32, level.row_pitch, level.slice_pitch]);
            words.extend(level.extent);
            words.push(0);
        }
        bytes(&words)
    }
}

/// The texel that a coordinate outside of an image means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AddressMode {
    /// The image repeats.
    Repeat = 0,
    /// The image repeats, every other time mirrored.
    MirroredRepeat = 1,
    /// The texel at the edge.
    ClampToEdge = 2,
    /// The colour of the border.
    ClampToBorder = 3,
    /// The image mirrored once, and then the texel at the edge.
    MirrorClampToEdge = 4,
}

/// State of a sampler, as programs read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerRecord {
    /// Interpolate texels where the image is magnified.
    pub magnify_linear: bool,
    /// Interpolate texels where the image is minified.
    pub minify_linear: bool,
    /// Interpolate between levels.
    pub levels_linear: bool,
    /// When a comparison of a reference with a texel is true: bit 0 if it is less, bit 1 if equal, bit 2 if greater.
    pub comparison: u32,
    /// For each dimension.
    pub addressing: [AddressMode; 3],
    /// Coordinates count texels instead of going from 0 to 1.
    pub unnormalized: bool,
    /// Added to the level of detail.
    pub bias: f32,
    /// Smallest level of detail.
    pub lod_min: f32,
    /// Greatest level of detail.
    pub lod_max: f32,
    /// Bits of the components of the border's colour.
    pub border: [u32; 4],
}

impl SamplerRecord {
    /// The bytes of the record.
    pub fn bytes(&self) -> [u8; SAMPLER_RECORD] {
        let mut words = [self.magnify_linear, self.minify_linear, self.levels_linear].map(u32::from).to_vec();
        words.push(self.comparison);
        words.extend(self.addressing.map(|mode| mode as u32));
        words.push(self.unnormalized.into());
        words.extend([self.bias, self.lod_min, self.lod_max].map(f32::to_bits));
        words.push(0);
        words.extend(self.border);
        bytes(&words)
    }
}

/// Words as bytes, with zeros behind them.
fn bytes<const N: usize>(words: &[u32]) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, byte) in bytes.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())) {
        *to = byte;
    }
    bytes
}

/// The texels of a format that a module names; `None` for one that there is not, or that it leaves open.
pub(crate) const fn texel_of(format: ImageFormat) -> Option<Texel> {
    use ImageFormat as F;
    use Kind::{Float, Sint, Snorm, Uint, Unorm};
    let (kind, bits): (Kind, &[u8]) = match format {
        F::Rgba32f => (Float, &[32; 4]),
        F::Rgba16f => (Float, &[16; 4]),
        F::R32f => (Float, &[32]),
        F::Rgba8 => (Unorm, &[8; 4]),
        F::Rgba8Snorm => (Snorm, &[8; 4]),
        F::Rg32f => (Float, &[32; 2]),
        F::Rg16f => (Float, &[16; 2]),
        F::R11fG11fB10f => (Float, &[11, 11, 10]),
        F::R16f => (Float, &[16]),
        F::Rgba16 => (Unorm, &[16; 4]),
        F::Rgb10A2 => (Unorm, &[10, 10, 10, 2]),
        F::Rg16 => (Unorm, &[16; 2]),
        F::Rg8 => (Unorm, &[8; 2]),
        F::R16 => (Unorm, &[16]),
        F::R8 => (Unorm, &[8]),
        F::Rgba16Snorm => (Snorm, &[16; 4]),
        F::Rg16Snorm => (Snorm, &[16; 2]),
        F::Rg8Snorm => (Snorm, &[8; 2]),
        F::R16Snorm => (Snorm, &[16]),
        F::R8Snorm => (Snorm, &[8]),
        F::Rgba32i => (Sint, &[32; 4]),
        F::Rgba16i => (Sint, &[16; 4]),
        F::Rgba8i => (Sint, &[8; 4]),
        F::R32i => (Sint, &[32]),
        F::Rg32i => (Sint, &[32; 2]),
        F::Rg16i => (Sint, &[16; 2]),
        F::Rg8i => (Sint, &[8; 2]),
        F::R16i => (Sint, &[16]),
        F::R8i => (Sint, &[8]),
        F::Rgba32ui => (Uint, &[32; 4]),
        F::Rgba16ui => (Uint, &[16; 4]),
        F::Rgba8ui => (Uint, &[8; 4]),
        F::R32ui => (Uint, &[32]),
        F::Rgb10a2ui => (Uint, &[10, 10, 10, 2]),
        F::Rg32ui => (Uint, &[32; 2]),
        F::Rg16ui => (Uint, &[16; 2]),
        F::Rg8ui => (Uint, &[8; 2]),
        F::R16ui => (Uint, &[16]),
        F::R8ui => (Uint, &[8]),
        _ => return None,
    };
    Some(Texel::new(kind, bits))
}

/// A linear component as one of sRGB. [Khronos Data Format: sRGB inverse EOTF]
fn to_srgb(value: f32) -> f32 {
    if value <= 0.003_130_8 { value * 12.92 } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 }
}

/// The bits of a number as one of 16 bits, rounded to nearest even.
fn half(value: f32) -> u32 {
    let (bits, sign) = (value.to_bits() & 0x7fff_ffff, value.to_bits() >> 16 & 0x8000);
    let magnitude = match bits {
        0x7f80_0001.. => 0x7e00,
        // Rounds to more than the greatest number, 65504.
        0x477f_f000.. => 0x7c00,
        // The exponent is another one, and 13 bits of the mantissa go.
        0x3880_0000.. => {
            let moved = bits - (112 << 23);
            (moved + 0xfff + (moved >> 13 & 1)) >> 13
        }
        // A subnormal number: a count of 2 to the power of -24.
        _ => (f32::from_bits(bits) * 16_777_216.0).round_ties_even() as u32,
    };
    sign | magnitude
}

/// The bits of a texel of three mantissas and one exponent. [Vulkan: Float-Point to Shared Exponent Conversion]
fn shared_exponent(colour: [f32; 3]) -> u32 {
    let colour = colour.map(|value| if value.is_nan() { 0.0 } else { value.clamp(0.0, 65_408.0) });
    let greatest = colour.into_iter().fold(0.0, f32::max);
    let floor = if greatest == 0.0 { -127 } else { (greatest.to_bits() >> 23) as i32 - 127 };
    let preliminary = floor.max(-16) + 16;
    let unit = |exponent: i32| f32::from_bits(((exponent - 24 + 127) as u32) << 23);
    let highest = (greatest / unit(preliminary) + 0.5).floor() as u32;
    let exponent = if highest == 512 { preliminary + 1 } else { preliminary };
    let [red, green, blue] = colour.map(|value| (value / unit(exponent) + 0.5).floor() as u32);
    red | green << 9 | blue << 18 | (exponent as u32) << 27
}
