//! Copies and clears of images: rows of bytes, for the texels of every image lie in rows.

use ash::vk;
use campanile_umd::CopyRows;

use super::{Command, Recorded, Recording};
use crate::image::{Image, Level};
use crate::memory::Buffer;

/// Most bytes of one copy of rows.
const ROWS_MAX: u64 = 1 << 28;

/// Rows of bytes in memory: the first one, and the distances of rows and slices.
#[derive(Clone, Copy)]
struct Rows {
    address: u64,
    row_pitch: u64,
    slice_pitch: u64,
}

/// Part of one layer of an image, or of a slice of it.
struct Part {
    rows: Rows,
    /// Texels from its first one to the end of the level.
    left: [u32; 3],
}

/// Layers of an image that a region names: the level, the first layer, and how many.
fn layers(image: &Image, named: &vk::ImageSubresourceLayers) -> (Level, u32, u32) {
    let count = named.layer_count.min(image.shape.layers.saturating_sub(named.base_array_layer));
    (image.shape.level(named.mip_level), named.base_array_layer, count)
}

/// The part of a layer that begins at an offset.
///
/// # Errors
/// VK_ERROR_UNKNOWN for an offset or a layer that the image does not have.
fn part(image: &Image, level: &Level, layer: u32, offset: vk::Offset3D) -> Result<Part, vk::Result> {
    let offset = [offset.x, offset.y, offset.z];
    let mut left = [0; 3];
    let mut places = [0u64; 3];
    for (((to, place), from), extent) in left.iter_mut().zip(&mut places).zip(offset).zip(level.extent) {
        let from = u32::try_from(from).map_err(|_| vk::Result::ERROR_UNKNOWN)?;
        *to = extent.checked_sub(from).ok_or(vk::Result::ERROR_UNKNOWN)?;
        *place = u64::from(from);
    }
    let [x, y, z] = places;
    let bytes = u64::from(image.shape.texel.bytes);
    let start = image.layer(layer)? + level.offset + z * level.slice_pitch + y * level.row_pitch + x * bytes;
    Ok(Part { rows: Rows { address: start, row_pitch: level.row_pitch, slice_pitch: level.slice_pitch }, left })
}

/// The smaller extent in each dimension.
fn smaller(extent: vk::Extent3D, left: [u32; 3]) -> [u32; 3] {
    let [width, height, depth] = left;
    [extent.width.min(width), extent.height.min(height), extent.depth.min(depth)]
}

/// A copy between a buffer and an image.
pub(crate) struct BufferRegion {
    pub(crate) offset: u64,
    /// Texels of a row and rows of a slice in the buffer, 0 for those that are copied.
    pub(crate) pitches: [u32; 2],
    pub(crate) layers: vk::ImageSubresourceLayers,
    pub(crate) at: vk::Offset3D,
    pub(crate) extent: vk::Extent3D,
}

/// A copy between images.
pub(crate) struct ImageRegion {
    pub(crate) from: (vk::ImageSubresourceLayers, vk::Offset3D),
    pub(crate) to: (vk::ImageSubresourceLayers, vk::Offset3D),
    pub(crate) extent: vk::Extent3D,
}

impl Recording {
    /// Copies slices of rows.
    fn copy_rows(&mut self, from: Rows, to: Rows, row_bytes: u64, [rows, slices]: [u32; 2]) {
        if row_bytes == 0 {
            return;
        }
        let most = (ROWS_MAX / row_bytes).max(1) as u32;
        for slice in 0..u64::from(slices) {
            let mut row = 0;
            while row < rows {
                let count = (rows - row).min(most);
                let at = |of: Rows| {
                    of.address.saturating_add(slice * of.slice_pitch).saturating_add(u64::from(row) * of.row_pitch)
                };
                self.push(Command::Rows(CopyRows {
                    source: at(from),
                    destination: at(to),
                    row_bytes: row_bytes as u32,
                    rows: count,
                    source_pitch: from.row_pitch as u32,
                    destination_pitch: to.row_pitch as u32,
                }));
                row += count;
            }
        }
    }

    /// Copies texels between a buffer and an image.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for a region that the image or the buffer does not have.
    pub(crate) fn copy_buffer_image(
        &mut self,
        buffer: &Buffer,
        image: &Image,
        region: &BufferRegion,
        to_image: bool,
    ) -> Recorded {
        let texel = u64::from(image.shape.texel.bytes);
        let (level, first, count) = layers(image, &region.layers);
        let [columns, lines] = region.pitches;
        let columns = if columns == 0 { region.extent.width } else { columns };
        let lines = if lines == 0 { region.extent.height } else { lines };
        let row_pitch = u64::from(columns) * texel;
        let slice_pitch = row_pitch * u64::from(lines);
        let range = buffer.range(region.offset, vk::WHOLE_SIZE);
        for (index, layer) in (0u64..).zip(first..first + count) {
            let part = part(image, &level, layer, region.at)?;
            let [width, height, depth] = smaller(region.extent, part.left);
            let skipped = index * slice_pitch * u64::from(region.extent.depth);
            let rows = Rows { address: range.address.saturating_add(skipped), row_pitch, slice_pitch };
            let row_bytes = u64::from(width) * texel;
            if width == 0 || height == 0 || depth == 0 {
                continue;
            }
            let end = skipped + u64::from(depth - 1) * slice_pitch + u64::from(height - 1) * row_pitch + row_bytes;
            if end > range.size {
                return Err(vk::Result::ERROR_UNKNOWN);
            }
            let (from, to) = if to_image { (rows, part.rows) } else { (part.rows, rows) };
            self.copy_rows(from, to, row_bytes, [height, depth]);
        }
        Ok(())
    }

    /// Copies texels between images. Layers of one are slices of the other where only one has three dimensions.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for a region that an image does not have, and for texels of another size.
    pub(crate) fn copy_image(&mut self, from: &Image, to: &Image, region: &ImageRegion) -> Recorded {
        if from.shape.texel.bytes != to.shape.texel.bytes {
            return Err(vk::Result::ERROR_UNKNOWN);
        }
        let (source, target) = (layers(from, &region.from.0), layers(to, &region.to.0));
        let count = source.2.max(target.2).max(region.extent.depth);
        let slice = |image: &Image, (level, first, layers): (Level, u32, u32), at: vk::Offset3D, index: u32| {
            // Whoever has one layer goes on in its slices.
            let (layer, deeper) = if layers > 1 { (first + index, 0) } else { (first, index as i32) };
            part(image, &level, layer, vk::Offset3D { z: at.z.saturating_add(deeper), ..at })
        };
        for index in 0..count {
            let source = slice(from, source, region.from.1, index)?;
            let target = slice(to, target, region.to.1, index)?;
            let [width, height, _] = smaller(region.extent, source.left);
            let [more, higher, _] = target.left;
            let row_bytes = u64::from(width.min(more)) * u64::from(from.shape.texel.bytes);
            self.copy_rows(source.rows, target.rows, row_bytes, [height.min(higher), 1]);
        }
        Ok(())
    }

    /// Gives all texels of some levels and layers a value, whose bytes are `texel`. Rows are filled to their ends.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for an image without memory; those of memory for the pattern.
    pub(crate) fn clear_image(&mut self, image: &Image, texel: &[u8], range: &vk::ImageSubresourceRange) -> Recorded {
        let shape = &image.shape;
        let layers = range.layer_count.min(shape.layers.saturating_sub(range.base_array_layer));
        let levels: Vec<Level> =
            shape.levels.iter().skip(range.base_mip_level as usize).take(range.level_count as usize).copied().collect();
        let Some(widest) = levels.iter().map(|level| level.row_pitch).max() else { return Ok(()) };
        let pattern: Vec<u8> = texel.iter().copied().cycle().take(widest as usize).collect();
        let source = Rows { address: self.keep(&pattern)?, row_pitch: 0, slice_pitch: 0 };
        for layer in range.base_array_layer..range.base_array_layer + layers {
            let start = image.layer(layer)?;
            for level in &levels {
                let [_, height, depth] = level.extent;
                let to =
                    Rows { address: start + level.offset, row_pitch: level.row_pitch, slice_pitch: level.slice_pitch };
                self.copy_rows(source, to, level.row_pitch, [height, depth]);
            }
        }
        Ok(())
    }
}
