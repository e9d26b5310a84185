//! Images, their views, views of texel buffers, and samplers. Texels lie in rows, whatever the tiling; a view is a record for programs.

use std::sync::{Arc, OnceLock};

use ash::vk;
use campanile_compiler::record::{AddressMode, ImageRecord, LevelRecord, SamplerRecord, Texel};

use crate::device::Device;
use crate::failure::Answer;
use crate::format::{swizzled, texel};
use crate::handle::objects;
use crate::memory::{Buffer, DeviceMemory};
use crate::physical::{ALIGNMENT, TEXELS_MAX, image_format_properties};
use crate::records::Record;

objects! {
    Image => vk::Image,
    ImageView => vk::ImageView,
    BufferView => vk::BufferView,
    Sampler => vk::Sampler,
}

/// A level of each layer: where it begins in the layer, pitches and extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) offset: u64,
    pub(crate) row_pitch: u64,
    pub(crate) slice_pitch: u64,
    pub(crate) extent: [u32; 3],
}

impl Level {
    fn bytes(&self) -> u64 {
        let [_, _, depth] = self.extent;
        self.slice_pitch * u64::from(depth)
    }
}

/// Layout of the texels of an image in its memory.
pub(crate) struct Shape {
    pub(crate) texel: Texel,
    pub(crate) levels: Vec<Level>,
    pub(crate) layers: u32,
    pub(crate) layer_pitch: u64,
    is_volume: bool,
}

impl Shape {
    /// The shape that an image of this description has.
    ///
    /// # Errors
    /// VK_ERROR_FORMAT_NOT_SUPPORTED for a format or use that there is not, VK_ERROR_OUT_OF_DEVICE_MEMORY for more than the limits allow.
    pub(crate) fn new(info: &vk::ImageCreateInfo<'_>) -> Answer<Self> {
        let texel = texel(info.format).ok_or(vk::Result::ERROR_FORMAT_NOT_SUPPORTED)?;
        let most = image_format_properties(info.format, info.image_type, info.usage, info.flags)?;
        let vk::Extent3D { width, height, depth } = info.extent;
        let fits = width <= most.max_extent.width && height <= most.max_extent.height && depth <= most.max_extent.depth;
        if !fits || info.mip_levels > most.max_mip_levels || info.array_layers > most.max_array_layers {
            return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        }
        let (mut levels, mut end) = (Vec::new(), 0u64);
        for number in 0..info.mip_levels {
            let extent = [width, height, depth].map(|size| (size >> number).max(1));
            let [width, height, _] = extent.map(u64::from);
            let row_pitch = (width * u64::from(texel.bytes)).next_multiple_of(ALIGNMENT);
            let level = Level { offset: end, row_pitch, slice_pitch: row_pitch * height, extent };
            end = end.saturating_add(level.bytes());
            levels.push(level);
        }
        let is_volume = info.image_type == vk::ImageType::TYPE_3D;
        Ok(Self { texel, levels, layers: info.array_layers, layer_pitch: end, is_volume })
    }

    /// Bytes of all layers.
    pub(crate) fn bytes(&self) -> u64 {
        self.layer_pitch.saturating_mul(u64::from(self.layers))
    }

    /// A level; one that there is not is empty.
    pub(crate) fn level(&self, number: u32) -> Level {
        self.levels.get(number as usize).copied().unwrap_or_default()
    }

    /// Size, alignment and memory types.
    pub(crate) fn requirements(&self, device: &Device) -> vk::MemoryRequirements {
        vk::MemoryRequirements { size: self.bytes(), alignment: ALIGNMENT, memory_type_bits: device.kind_bits() }
    }
}

/// An image.
pub(crate) struct Image {
    pub(crate) shape: Shape,
    bound: OnceLock<(u64, Arc<DeviceMemory>)>,
}

impl Image {
    /// # Errors
    /// As [`Shape::new`].
    pub(crate) fn new(info: &vk::ImageCreateInfo<'_>) -> Answer<Self> {
        Ok(Self { shape: Shape::new(info)?, bound: OnceLock::new() })
    }

    /// Gives the image its memory.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN if it has memory, or does not fit there.
    pub(crate) fn bind(&self, memory: Arc<DeviceMemory>, offset: u64) -> Answer<()> {
        let address = memory.place(offset, self.shape.bytes())?;
        self.bound.set((address, memory)).map_err(|_| vk::Result::ERROR_UNKNOWN)
    }

    /// GPU virtual address of a layer.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for an image without memory, and for a layer that it does not have.
    pub(crate) fn layer(&self, layer: u32) -> Answer<u64> {
        let (address, _) = self.bound.get().ok_or(vk::Result::ERROR_UNKNOWN)?;
        if layer >= self.shape.layers {
            return Err(vk::Result::ERROR_UNKNOWN);
        }
        Ok(address + u64::from(layer) * self.shape.layer_pitch)
    }

    /// The layout of a subresource.
    pub(crate) fn layout(&self, level: u32, layer: u32) -> vk::SubresourceLayout {
        let shape = &self.shape;
        let place = shape.level(level);
        vk::SubresourceLayout {
            offset: u64::from(layer) * shape.layer_pitch + place.offset,
            size: place.bytes(),
            row_pitch: place.row_pitch,
            array_pitch: shape.layer_pitch,
            depth_pitch: place.slice_pitch,
        }
    }
}

/// A view of an image.
pub(crate) struct ImageView {
    record: Record,
    /// Stays as long as the view.
    _image: Arc<Image>,
}

impl ImageView {
    /// # Errors
    /// VK_ERROR_UNKNOWN for a view that the image cannot have; VK_ERROR_FORMAT_NOT_SUPPORTED.
    pub(crate) fn new(device: &Device, info: &vk::ImageViewCreateInfo<'_>, image: Arc<Image>) -> Answer<Self> {
        let own = texel(info.format).ok_or(vk::Result::ERROR_FORMAT_NOT_SUPPORTED)?;
        let (shape, range) = (&image.shape, &info.subresource_range);
        if own.bytes != shape.texel.bytes || range.base_array_layer >= shape.layers {
            return Err(vk::Result::ERROR_UNKNOWN);
        }
        let layers = range.layer_count.min(shape.layers - range.base_array_layer);
        let first = image.layer(range.base_array_layer)?;
        let level = |level: &Level| {
            let [width, height, depth] = level.extent;
            let (third, pitch) = if shape.is_volume { (depth, level.slice_pitch) } else { (layers, shape.layer_pitch) };
            LevelRecord {
                address: first + level.offset,
                row_pitch: level.row_pitch as u32,
                slice_pitch: pitch as u32,
                extent: [width, height, third],
            }
        };
        let levels = shape.levels.iter().skip(range.base_mip_level as usize).take(range.level_count as usize);
        let record = ImageRecord { texel: swizzled(&own, &info.components), levels: levels.map(level).collect() };
        Ok(Self { record: device.images().put(&record.bytes())?, _image: image })
    }

    /// The address that is its descriptor.
    pub(crate) fn address(&self) -> u64 {
        self.record.address()
    }
}

/// A view of a texel buffer.
pub(crate) struct BufferView {
    record: Record,
    /// Stays as long as the view.
    _buffer: Arc<Buffer>,
}

impl BufferView {
    /// # Errors
    /// VK_ERROR_FORMAT_NOT_SUPPORTED.
    pub(crate) fn new(device: &Device, info: &vk::BufferViewCreateInfo<'_>, buffer: Arc<Buffer>) -> Answer<Self> {
        let texel = texel(info.format).ok_or(vk::Result::ERROR_FORMAT_NOT_SUPPORTED)?;
        let range = buffer.range(info.offset, info.range);
        let count = (range.size / u64::from(texel.bytes)).min(TEXELS_MAX.into()) as u32;
        let level = LevelRecord { address: range.address, extent: [count, 1, 1], ..LevelRecord::default() };
        let record = ImageRecord { texel, levels: vec![level] };
        Ok(Self { record: device.images().put(&record.bytes())?, _buffer: buffer })
    }

    /// The address that is its descriptor.
    pub(crate) fn address(&self) -> u64 {
        self.record.address()
    }
}

/// A sampler.
pub(crate) struct Sampler {
    record: Record,
}

fn address_mode(mode: vk::SamplerAddressMode) -> AddressMode {
    match mode {
        vk::SamplerAddressMode::REPEAT => AddressMode::Repeat,
        vk::SamplerAddressMode::MIRRORED_REPEAT => AddressMode::MirroredRepeat,
        vk::SamplerAddressMode::CLAMP_TO_BORDER => AddressMode::ClampToBorder,
        vk::SamplerAddressMode::MIRROR_CLAMP_TO_EDGE => AddressMode::MirrorClampToEdge,
        _ => AddressMode::ClampToEdge,
    }
}

/// Bits of the colour of a border.
fn border(colour: vk::BorderColor) -> [u32; 4] {
    let one = 1f32.to_bits();
    match colour {
        vk::BorderColor::FLOAT_OPAQUE_BLACK => [0, 0, 0, one],
        vk::BorderColor::INT_OPAQUE_BLACK => [0, 0, 0, 1],
        vk::BorderColor::FLOAT_OPAQUE_WHITE => [one; 4],
        vk::BorderColor::INT_OPAQUE_WHITE => [1; 4],
        _ => [0; 4],
    }
}

impl Sampler {
    /// # Errors
    /// The error of the operating system, as [`result`](crate::failure::result) translates it.
    pub(crate) fn new(device: &Device, info: &vk::SamplerCreateInfo<'_>) -> Answer<Self> {
        let record = SamplerRecord {
            magnify_linear: info.mag_filter == vk::Filter::LINEAR,
            minify_linear: info.min_filter == vk::Filter::LINEAR,
            levels_linear: info.mipmap_mode == vk::SamplerMipmapMode::LINEAR,
            // The numbers of VkCompareOp are these bits.
            comparison: info.compare_op.as_raw() as u32 & 7,
            addressing: [info.address_mode_u, info.address_mode_v, info.address_mode_w].map(address_mode),
            unnormalized: info.unnormalized_coordinates != vk::FALSE,
            bias: info.mip_lod_bias,
            lod_min: info.min_lod,
            lod_max: info.max_lod,
            border: border(info.border_color),
        };
        Ok(Self { record: device.samplers().put(&record.bytes())? })
    }

    /// The address that is its descriptor.
    pub(crate) fn address(&self) -> u64 {
        self.record.address()
    }
}
