//! Formats: how their texels are made, and what works with them.

use ash::vk;
use campanile_compiler::record::{Component, Kind, Texel};

type Format = vk::Format;
type Features = vk::FormatFeatureFlags2;

/// The texels of a format; `None` for one that there is not.
pub(crate) fn texel(format: Format) -> Option<Texel> {
    use Kind::{Float, SharedExponent, Sint, Snorm, Srgb, Uint, Unorm};
    // Red in the lowest bits; formats whose names begin with another component are turned round.
    let (kind, bits, order): (Kind, &[u8], [usize; 4]) = match format {
        Format::R8_UNORM => (Unorm, &[8], RGBA),
        Format::R8_SNORM => (Snorm, &[8], RGBA),
        Format::R8_UINT => (Uint, &[8], RGBA),
        Format::R8_SINT => (Sint, &[8], RGBA),
        Format::R8G8_UNORM => (Unorm, &[8; 2], RGBA),
        Format::R8G8_SNORM => (Snorm, &[8; 2], RGBA),
        Format::R8G8_UINT => (Uint, &[8; 2], RGBA),
        Format::R8G8_SINT => (Sint, &[8; 2], RGBA),
        Format::R8G8B8A8_UNORM | Format::A8B8G8R8_UNORM_PACK32 => (Unorm, &[8; 4], RGBA),
        Format::R8G8B8A8_SNORM | Format::A8B8G8R8_SNORM_PACK32 => (Snorm, &[8; 4], RGBA),
        Format::R8G8B8A8_UINT | Format::A8B8G8R8_UINT_PACK32 => (Uint, &[8; 4], RGBA),
        Format::R8G8B8A8_SINT | Format::A8B8G8R8_SINT_PACK32 => (Sint, &[8; 4], RGBA),
        Format::R8G8B8A8_SRGB | Format::A8B8G8R8_SRGB_PACK32 => (Srgb, &[8; 4], RGBA),
        Format::B8G8R8A8_UNORM => (Unorm, &[8; 4], BGRA),
        Format::B8G8R8A8_SRGB => (Srgb, &[8; 4], BGRA),
        Format::A2B10G10R10_UNORM_PACK32 => (Unorm, &[10, 10, 10, 2], RGBA),
        Format::A2B10G10R10_UINT_PACK32 => (Uint, &[10, 10, 10, 2], RGBA),
        Format::B10G11R11_UFLOAT_PACK32 => (Float, &[11, 11, 10], RGBA),
        Format::E5B9G9R9_UFLOAT_PACK32 => (SharedExponent, &[9; 3], RGBA),
        Format::R5G6B5_UNORM_PACK16 => (Unorm, &[5, 6, 5], BGRA),
        Format::A1R5G5B5_UNORM_PACK16 => (Unorm, &[5, 5, 5, 1], BGRA),
        Format::B4G4R4A4_UNORM_PACK16 => (Unorm, &[4; 4], [1, 2, 3, 0]),
        Format::R16_UNORM | Format::D16_UNORM => (Unorm, &[16], RGBA),
        Format::R16_SNORM => (Snorm, &[16], RGBA),
        Format::R16_UINT => (Uint, &[16], RGBA),
        Format::R16_SINT => (Sint, &[16], RGBA),
        Format::R16_SFLOAT => (Float, &[16], RGBA),
        Format::R16G16_UNORM => (Unorm, &[16; 2], RGBA),
        Format::R16G16_SNORM => (Snorm, &[16; 2], RGBA),
        Format::R16G16_UINT => (Uint, &[16; 2], RGBA),
        Format::R16G16_SINT => (Sint, &[16; 2], RGBA),
        Format::R16G16_SFLOAT => (Float, &[16; 2], RGBA),
        Format::R16G16B16A16_UNORM => (Unorm, &[16; 4], RGBA),
        Format::R16G16B16A16_SNORM => (Snorm, &[16; 4], RGBA),
        Format::R16G16B16A16_UINT => (Uint, &[16; 4], RGBA),
        Format::R16G16B16A16_SINT => (Sint, &[16; 4], RGBA),
        Format::R16G16B16A16_SFLOAT => (Float, &[16; 4], RGBA),
        Format::R32_UINT => (Uint, &[32], RGBA),
        Format::R32_SINT => (Sint, &[32], RGBA),
        Format::R32_SFLOAT | Format::D32_SFLOAT => (Float, &[32], RGBA),
        Format::R32G32_UINT => (Uint, &[32; 2], RGBA),
        Format::R32G32_SINT => (Sint, &[32; 2], RGBA),
        Format::R32G32_SFLOAT => (Float, &[32; 2], RGBA),
        Format::R32G32B32A32_UINT => (Uint, &[32; 4], RGBA),
        Format::R32G32B32A32_SINT => (Sint, &[32; 4], RGBA),
        Format::R32G32B32A32_SFLOAT => (Float, &[32; 4], RGBA),
        _ => return None,
    };
    Some(picked(&Texel::new(kind, bits), order))
}

/// The components in the order of their bits.
const RGBA: [usize; 4] = [0, 1, 2, 3];
const BGRA: [usize; 4] = [2, 1, 0, 3];

/// Texels whose components are these of another.
fn picked(texel: &Texel, order: [usize; 4]) -> Texel {
    let component = |index: usize| texel.components.get(index).copied().unwrap_or(Component::Zero);
    Texel { components: order.map(component), ..*texel }
}

/// Texels as a view with a swizzle shows them.
pub(crate) fn swizzled(texel: &Texel, mapping: &vk::ComponentMapping) -> Texel {
    type Swizzle = vk::ComponentSwizzle;
    let asked = [mapping.r, mapping.g, mapping.b, mapping.a];
    let component = |own: usize| match asked.get(own).copied().unwrap_or(Swizzle::IDENTITY) {
        Swizzle::ZERO => Component::Zero,
        Swizzle::ONE => Component::One,
        other => {
            let index = match other {
                Swizzle::R => 0,
                Swizzle::G => 1,
                Swizzle::B => 2,
                Swizzle::A => 3,
                _ => own,
            };
            texel.components.get(index).copied().unwrap_or(Component::Zero)
        }
    };
    Texel { components: RGBA.map(component), ..*texel }
}

fn is_depth(format: Format) -> bool {
    matches!(format, Format::D16_UNORM | Format::D32_SFLOAT)
}

/// True for formats that shaders store: those that SPIR-V has a name for.
fn is_stored(format: Format, texel: &Texel) -> bool {
    let other = matches!(format, Format::B8G8R8A8_UNORM | Format::B8G8R8A8_SRGB) || is_depth(format);
    let packed = texel
        .components
        .iter()
        .any(|component| matches!(component, Component::Bits { count, .. } if ![8, 16, 32].contains(count)));
    let named = matches!(
        format,
        Format::A2B10G10R10_UNORM_PACK32 | Format::A2B10G10R10_UINT_PACK32 | Format::B10G11R11_UFLOAT_PACK32
    );
    !other && texel.kind != Kind::Srgb && (!packed || named)
}

/// The features of images of a format, of both tilings.
pub(crate) fn image_features(format: Format) -> Features {
    let Some(texel) = texel(format) else { return Features::empty() };
    let mut features = Features::SAMPLED_IMAGE | Features::TRANSFER_SRC | Features::TRANSFER_DST;
    if !matches!(texel.kind, Kind::Uint | Kind::Sint) {
        // The first component is compared, whatever it means.
        features |= Features::SAMPLED_IMAGE_FILTER_LINEAR | Features::SAMPLED_IMAGE_DEPTH_COMPARISON;
    }
    if is_stored(format, &texel) {
        features |=
            Features::STORAGE_IMAGE | Features::STORAGE_READ_WITHOUT_FORMAT | Features::STORAGE_WRITE_WITHOUT_FORMAT;
    }
    if matches!(format, Format::R32_UINT | Format::R32_SINT) {
        features |= Features::STORAGE_IMAGE_ATOMIC;
    }
    features
}

/// The features of views of texel buffers of a format.
pub(crate) fn buffer_features(format: Format) -> Features {
    let Some(texel) = texel(format).filter(|_| !is_depth(format)) else { return Features::empty() };
    let mut features = Features::UNIFORM_TEXEL_BUFFER;
    if is_stored(format, &texel) {
        features |= Features::STORAGE_TEXEL_BUFFER
            | Features::STORAGE_READ_WITHOUT_FORMAT
            | Features::STORAGE_WRITE_WITHOUT_FORMAT;
    }
    if matches!(format, Format::R32_UINT | Format::R32_SINT) {
        features |= Features::STORAGE_TEXEL_BUFFER_ATOMIC;
    }
    features
}

/// Features as Vulkan 1.0 says them.
pub(crate) fn narrow(features: Features) -> vk::FormatFeatureFlags {
    vk::FormatFeatureFlags::from_raw(features.as_raw() as u32)
}
