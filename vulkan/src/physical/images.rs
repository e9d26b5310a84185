//! Features of formats, and the limits of images with them.

use core::ffi::c_void;

use ash::vk;

use super::limits::{DEPTH_MAX, EXTENT_MAX};
use crate::app::App;
use crate::failure::Answer;
use crate::format::{buffer_features, image_features, narrow};

/// The features of a format, as Vulkan 1.0 has them.
pub(crate) fn format_properties(format: vk::Format) -> vk::FormatProperties {
    let image = narrow(image_features(format));
    vk::FormatProperties {
        linear_tiling_features: image,
        optimal_tiling_features: image,
        buffer_features: narrow(buffer_features(format)),
    }
}

/// As [`format_properties`], with what a chain asks for besides.
pub(crate) fn format_properties2(app: App<'_>, format: vk::Format, chain: *mut c_void) -> vk::FormatProperties {
    app.extend::<vk::FormatProperties3<'_>>(chain, |properties| {
        let image = image_features(format);
        (properties.linear_tiling_features, properties.optimal_tiling_features) = (image, image);
        properties.buffer_features = buffer_features(format);
    });
    format_properties(format)
}

/// Extent, levels and layers of images of a kind.
///
/// # Errors
/// VK_ERROR_FORMAT_NOT_SUPPORTED for what there is not.
pub(crate) fn image_format_properties(
    format: vk::Format,
    kind: vk::ImageType,
    usage: vk::ImageUsageFlags,
    flags: vk::ImageCreateFlags,
) -> Answer<vk::ImageFormatProperties> {
    type Features = vk::FormatFeatureFlags2;
    type Usage = vk::ImageUsageFlags;
    type Flags = vk::ImageCreateFlags;
    let features = image_features(format);
    let needs = [
        (Usage::SAMPLED, Features::SAMPLED_IMAGE),
        (Usage::STORAGE, Features::STORAGE_IMAGE),
        (Usage::TRANSFER_SRC, Features::TRANSFER_SRC),
        (Usage::TRANSFER_DST, Features::TRANSFER_DST),
    ];
    let known = needs.iter().fold(Usage::empty(), |all, (usage, _)| all | *usage);
    let lacks = needs.iter().any(|(wanted, needed)| usage.contains(*wanted) && !features.contains(*needed));
    let possible = Flags::MUTABLE_FORMAT | Flags::CUBE_COMPATIBLE | Flags::EXTENDED_USAGE | Flags::ALIAS;
    let no_cube = flags.contains(Flags::CUBE_COMPATIBLE) && kind != vk::ImageType::TYPE_2D;
    if features.is_empty() || lacks || no_cube || !possible.contains(flags) || !known.contains(usage) {
        return Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED);
    }
    let (extent, layers) = match kind {
        vk::ImageType::TYPE_1D => ([EXTENT_MAX, 1, 1], DEPTH_MAX),
        vk::ImageType::TYPE_2D => ([EXTENT_MAX, EXTENT_MAX, 1], DEPTH_MAX),
        vk::ImageType::TYPE_3D => ([DEPTH_MAX; 3], 1),
        _ => return Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED),
    };
    let [width, height, depth] = extent;
    Ok(vk::ImageFormatProperties {
        max_extent: vk::Extent3D { width, height, depth },
        max_mip_levels: width.ilog2() + 1,
        max_array_layers: layers,
        sample_counts: vk::SampleCountFlags::TYPE_1,
        // What Vulkan has every device announce; heaps may be smaller.
        max_resource_size: 1 << 31,
    })
}
