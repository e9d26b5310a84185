//! Commands of images, their views, and samplers; copies and clears of images.

use ash::vk;
use campanile_compiler::record::Texel;

use super::command::record;
use super::declaration::commands;
use super::memory;
use crate::command::{BufferRegion, ImageRegion, Recording};
use crate::device::Device;
use crate::failure::Answer;
use crate::handle::Object;
use crate::image::{BufferView, Image, ImageView, Sampler, Shape};
use crate::memory::{Buffer, DeviceMemory};

commands! { app;
    vkCreateImage: PFN_vkCreateImage(device: vk::Device, info: *const vk::ImageCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Image) -> vk::Result
        = app.need(info).and_then(Image::new).map(|image| app.put(out, image.register()));
    vkDestroyImage: PFN_vkDestroyImage(
        device: vk::Device, image: vk::Image, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Image::release(image));
    vkGetImageMemoryRequirements: PFN_vkGetImageMemoryRequirements(
        device: vk::Device, image: vk::Image, out: *mut vk::MemoryRequirements)
        = if let (Ok(device), Some(image)) = (app.object::<Device>(device), Image::of(image)) {
            app.put(out, image.shape.requirements(device));
        };
    vkGetImageMemoryRequirements2: PFN_vkGetImageMemoryRequirements2(device: vk::Device,
        info: *const vk::ImageMemoryRequirementsInfo2<'_>, out: *mut vk::MemoryRequirements2<'_>)
        = if let (Ok(device), Some(info)) = (app.object::<Device>(device), app.get(info))
            && let Some(image) = Image::of(info.image)
        {
            memory::put_requirements(app, out, image.shape.requirements(device));
        };
    vkGetDeviceImageMemoryRequirements: PFN_vkGetDeviceImageMemoryRequirements(device: vk::Device,
        info: *const vk::DeviceImageMemoryRequirements<'_>, out: *mut vk::MemoryRequirements2<'_>)
        = if let (Ok(device), Some(info)) = (app.object::<Device>(device), app.get(info))
            && let Some(Ok(shape)) = app.get(info.p_create_info).map(Shape::new)
        {
            memory::put_requirements(app, out, shape.requirements(device));
        };
    vkGetImageSparseMemoryRequirements: PFN_vkGetImageSparseMemoryRequirements(device: vk::Device, image: vk::Image,
        count: *mut u32, out: *mut vk::SparseImageMemoryRequirements)
        = app.put(count, 0);
    vkGetImageSparseMemoryRequirements2: PFN_vkGetImageSparseMemoryRequirements2(device: vk::Device,
        info: *const vk::ImageSparseMemoryRequirementsInfo2<'_>, count: *mut u32,
        out: *mut vk::SparseImageMemoryRequirements2<'_>)
        = app.put(count, 0);
    vkGetDeviceImageSparseMemoryRequirements: PFN_vkGetDeviceImageSparseMemoryRequirements(device: vk::Device,
        info: *const vk::DeviceImageMemoryRequirements<'_>, count: *mut u32,
        out: *mut vk::SparseImageMemoryRequirements2<'_>)
        = app.put(count, 0);
    vkBindImageMemory: PFN_vkBindImageMemory(
        device: vk::Device, image: vk::Image, memory: vk::DeviceMemory, offset: vk::DeviceSize) -> vk::Result
        = bind(image, memory, offset);
    vkBindImageMemory2: PFN_vkBindImageMemory2(
        device: vk::Device, count: u32, infos: *const vk::BindImageMemoryInfo<'_>) -> vk::Result
        = app.slice(infos, count).iter().try_for_each(|info| bind(info.image, info.memory, info.memory_offset));
    vkGetImageSubresourceLayout: PFN_vkGetImageSubresourceLayout(device: vk::Device, image: vk::Image,
        which: *const vk::ImageSubresource, out: *mut vk::SubresourceLayout)
        = if let (Some(image), Some(which)) = (Image::of(image), app.get(which)) {
            app.put(out, image.layout(which.mip_level, which.array_layer));
        };
    vkCreateImageView: PFN_vkCreateImageView(device: vk::Device, info: *const vk::ImageViewCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::ImageView) -> vk::Result
        = app.object::<Device>(device).and_then(|device| {
            let info = app.need(info)?;
            app.put(out, ImageView::new(device, info, Image::needed(info.image)?)?.register());
            Ok(())
        });
    vkDestroyImageView: PFN_vkDestroyImageView(
        device: vk::Device, view: vk::ImageView, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(ImageView::release(view));
    vkCreateBufferView: PFN_vkCreateBufferView(device: vk::Device, info: *const vk::BufferViewCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::BufferView) -> vk::Result
        = app.object::<Device>(device).and_then(|device| {
            let info = app.need(info)?;
            app.put(out, BufferView::new(device, info, Buffer::needed(info.buffer)?)?.register());
            Ok(())
        });
    vkDestroyBufferView: PFN_vkDestroyBufferView(
        device: vk::Device, view: vk::BufferView, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(BufferView::release(view));
    vkCreateSampler: PFN_vkCreateSampler(device: vk::Device, info: *const vk::SamplerCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Sampler) -> vk::Result
        = app.object::<Device>(device).and_then(|device| {
            app.put(out, Sampler::new(device, app.need(info)?)?.register());
            Ok(())
        });
    vkDestroySampler: PFN_vkDestroySampler(
        device: vk::Device, sampler: vk::Sampler, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Sampler::release(sampler));
    vkCmdCopyBufferToImage: PFN_vkCmdCopyBufferToImage(buffer: vk::CommandBuffer, from: vk::Buffer, to: vk::Image,
        layout: vk::ImageLayout, count: u32, regions: *const vk::BufferImageCopy)
        = record(app, buffer, |recording| {
            copy_buffer_image(recording, from, to, app.slice(regions, count).iter().map(region), true)
        });
    vkCmdCopyBufferToImage2: PFN_vkCmdCopyBufferToImage2(
        buffer: vk::CommandBuffer, info: *const vk::CopyBufferToImageInfo2<'_>)
        = record(app, buffer, |recording| {
            let info = app.need(info)?;
            let regions = app.slice(info.p_regions, info.region_count).iter().map(region2);
            copy_buffer_image(recording, info.src_buffer, info.dst_image, regions, true)
        });
    vkCmdCopyImageToBuffer: PFN_vkCmdCopyImageToBuffer(buffer: vk::CommandBuffer, from: vk::Image,
        layout: vk::ImageLayout, to: vk::Buffer, count: u32, regions: *const vk::BufferImageCopy)
        = record(app, buffer, |recording| {
            copy_buffer_image(recording, to, from, app.slice(regions, count).iter().map(region), false)
        });
    vkCmdCopyImageToBuffer2: PFN_vkCmdCopyImageToBuffer2(
        buffer: vk::CommandBuffer, info: *const vk::CopyImageToBufferInfo2<'_>)
        = record(app, buffer, |recording| {
            let info = app.need(info)?;
            let regions = app.slice(info.p_regions, info.region_count).iter().map(region2);
            copy_buffer_image(recording, info.dst_buffer, info.src_image, regions, false)
        });
    vkCmdCopyImage: PFN_vkCmdCopyImage(buffer: vk::CommandBuffer, from: vk::Image, from_layout: vk::ImageLayout,
        to: vk::Image, to_layout: vk::ImageLayout, count: u32, regions: *const vk::ImageCopy)
        = record(app, buffer, |recording| {
            let regions = app.slice(regions, count).iter().map(|region| ImageRegion {
                from: (region.src_subresource, region.src_offset),
                to: (region.dst_subresource, region.dst_offset),
                extent: region.extent,
            });
            copy_image(recording, from, to, regions)
        });
    vkCmdCopyImage2: PFN_vkCmdCopyImage2(buffer: vk::CommandBuffer, info: *const vk::CopyImageInfo2<'_>)
        = record(app, buffer, |recording| {
            let info = app.need(info)?;
            let regions = app.slice(info.p_regions, info.region_count).iter().map(|region| ImageRegion {
                from: (region.src_subresource, region.src_offset),
                to: (region.dst_subresource, region.dst_offset),
                extent: region.extent,
            });
            copy_image(recording, info.src_image, info.dst_image, regions)
        });
    vkCmdClearColorImage: PFN_vkCmdClearColorImage(buffer: vk::CommandBuffer, image: vk::Image,
        layout: vk::ImageLayout, colour: *const vk::ClearColorValue, count: u32,
        ranges: *const vk::ImageSubresourceRange)
        = record(app, buffer, |recording| {
            let (image, colour) = (Image::needed(image)?, app.need(colour)?);
            // The words are floating-point numbers where the format is one that shows such.
            let words = [0, 1, 2, 3].map(|index| app.part::<u32>(core::ptr::from_ref(colour).cast(), index * 4));
            let texel = bytes(&image.shape.texel, words.map(Option::unwrap_or_default));
            app.slice(ranges, count).iter().try_for_each(|range| recording.clear_image(&image, &texel, range))
        });
}

/// The bytes of a texel of a colour.
fn bytes(texel: &Texel, colour: [u32; 4]) -> Vec<u8> {
    texel.bits(colour).to_le_bytes().into_iter().take(texel.bytes as usize).collect()
}

fn bind(image: vk::Image, memory: vk::DeviceMemory, offset: u64) -> Answer<()> {
    Image::needed(image)?.bind(DeviceMemory::needed(memory)?, offset)
}

fn region(region: &vk::BufferImageCopy) -> BufferRegion {
    BufferRegion {
        offset: region.buffer_offset,
        pitches: [region.buffer_row_length, region.buffer_image_height],
        layers: region.image_subresource,
        at: region.image_offset,
        extent: region.image_extent,
    }
}

fn region2(region: &vk::BufferImageCopy2<'_>) -> BufferRegion {
    BufferRegion {
        offset: region.buffer_offset,
        pitches: [region.buffer_row_length, region.buffer_image_height],
        layers: region.image_subresource,
        at: region.image_offset,
        extent: region.image_extent,
    }
}

fn copy_buffer_image(
    recording: &mut Recording,
    buffer: vk::Buffer,
    image: vk::Image,
    regions: impl Iterator<Item = BufferRegion>,
    to_image: bool,
) -> Answer<()> {
    let (buffer, image) = (Buffer::needed(buffer)?, Image::needed(image)?);
    for region in regions {
        recording.copy_buffer_image(&buffer, &image, &region, to_image)?;
    }
    Ok(())
}

fn copy_image(
    recording: &mut Recording,
    from: vk::Image,
    to: vk::Image,
    regions: impl Iterator<Item = ImageRegion>,
) -> Answer<()> {
    let (from, to) = (Image::needed(from)?, Image::needed(to)?);
    for region in regions {
        recording.copy_image(&from, &to, &region)?;
    }
    Ok(())
}
