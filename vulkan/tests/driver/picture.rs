//! Images of the tests: made, filled from bytes and read back.

use ash::vk;

use crate::kit::{Bench, Bytes, Kernel, Made};

/// Format, extent and kind of an image that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct Sketch {
    pub(crate) format: vk::Format,
    pub(crate) kind: vk::ImageViewType,
    /// Texels; what a kind does not have is 1.
    pub(crate) extent: [u32; 3],
    pub(crate) levels: u32,
    pub(crate) layers: u32,
    pub(crate) tiling: vk::ImageTiling,
}

impl Sketch {
    /// One level and layer.
    pub(crate) fn plain(format: vk::Format, kind: vk::ImageViewType, extent: [u32; 3]) -> Self {
        Self { format, kind, extent, levels: 1, layers: 1, tiling: vk::ImageTiling::OPTIMAL }
    }
}

/// An image with a view of all of it.
#[derive(Clone, Copy)]
pub(crate) struct Picture {
    pub(crate) image: vk::Image,
    pub(crate) view: vk::ImageView,
    pub(crate) sketch: Sketch,
}

/// The layers of a level.
pub(crate) fn layers(level: u32, count: u32) -> vk::ImageSubresourceLayers {
    let aspect_mask = vk::ImageAspectFlags::COLOR;
    vk::ImageSubresourceLayers { aspect_mask, mip_level: level, base_array_layer: 0, layer_count: count }
}

/// All levels and layers.
pub(crate) fn everything() -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: vk::REMAINING_MIP_LEVELS,
        base_array_layer: 0,
        layer_count: vk::REMAINING_ARRAY_LAYERS,
    }
}

impl Bench {
    /// An image in memory of its own, in the general layout.
    pub(crate) fn picture(&self, sketch: Sketch) -> Picture {
        type View = vk::ImageViewType;
        let kind = match sketch.kind {
            View::TYPE_1D | View::TYPE_1D_ARRAY => vk::ImageType::TYPE_1D,
            View::TYPE_3D => vk::ImageType::TYPE_3D,
            _ => vk::ImageType::TYPE_2D,
        };
        let mut usage =
            vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
        // SAFETY: the physical device is of the instance.
        let properties = unsafe { self.instance.get_physical_device_format_properties(self.physical, sketch.format) };
        if properties.optimal_tiling_features.contains(vk::FormatFeatureFlags::STORAGE_IMAGE) {
            usage |= vk::ImageUsageFlags::STORAGE;
        }
        let [width, height, depth] = sketch.extent;
        let flags = if sketch.kind == View::CUBE { vk::ImageCreateFlags::CUBE_COMPATIBLE } else { Default::default() };
        let info = vk::ImageCreateInfo::default()
            .flags(flags)
            .image_type(kind)
            .format(sketch.format)
            .extent(vk::Extent3D { width, height, depth })
            .mip_levels(sketch.levels)
            .array_layers(sketch.layers)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(sketch.tiling)
            .usage(usage);
        let device = &self.device;
        // SAFETY: valid information, and objects of this device, in this order.
        let (image, memory, view) = unsafe {
            let image = device.create_image(&info, None).expect("an image");
            let needed = device.get_image_memory_requirements(image);
            let allocate = vk::MemoryAllocateInfo::default().allocation_size(needed.size).memory_type_index(0);
            let memory = device.allocate_memory(&allocate, None).expect("memory");
            device.bind_image_memory(image, memory, 0).expect("bound");
            let view = vk::ImageViewCreateInfo::default()
                .image(image)
                .view_type(sketch.kind)
                .format(sketch.format)
                .subresource_range(everything());
            (image, memory, device.create_image_view(&view, None).expect("a view"))
        };
        self.keep(Made::Image(image, memory, view));
        let buffer = self.record(|device, buffer| {
            let stage = vk::PipelineStageFlags::ALL_COMMANDS;
            let barrier = vk::ImageMemoryBarrier::default()
                .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
                .new_layout(vk::ImageLayout::GENERAL)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .image(image)
                .subresource_range(everything());
            // SAFETY: the buffer is being recorded.
            unsafe { device.cmd_pipeline_barrier(buffer, stage, stage, Default::default(), &[], &[], &[barrier]) };
        });
        self.run_on(0, buffer);
        Picture { image, view, sketch }
    }

    /// Copies the words of a buffer to a level, all layers of it, or the other way round.
    pub(crate) fn transfer(&self, bytes: &Bytes, picture: &Picture, level: u32, to_picture: bool) {
        let [width, height, depth] = picture.sketch.extent.map(|size| (size >> level).max(1));
        let region = [vk::BufferImageCopy {
            image_subresource: layers(level, picture.sketch.layers),
            image_extent: vk::Extent3D { width, height, depth },
            ..Default::default()
        }];
        let layout = vk::ImageLayout::GENERAL;
        let buffer = self.record(|device, buffer| {
            // SAFETY: the buffer is being recorded, and what is copied lies in its places.
            unsafe {
                if to_picture {
                    device.cmd_copy_buffer_to_image(buffer, bytes.buffer, picture.image, layout, &region);
                } else {
                    device.cmd_copy_image_to_buffer(buffer, picture.image, layout, bytes.buffer, &region);
                }
            }
        });
        self.run_on(0, buffer);
    }

    /// A sampler.
    pub(crate) fn sampler(&self, info: &vk::SamplerCreateInfo<'_>) -> vk::Sampler {
        // SAFETY: valid information.
        let sampler = unsafe { self.device.create_sampler(info, None) }.expect("a sampler");
        self.keep(Made::Sampler(sampler));
        sampler
    }

    /// A set of a kernel whose first bindings are images of these types, with this sampler, and whose others are buffers.
    pub(crate) fn picture_set(
        &self,
        kernel: &Kernel,
        pictures: &[(&Picture, vk::DescriptorType)],
        sampler: vk::Sampler,
        buffers: &[&Bytes],
    ) -> vk::DescriptorSet {
        let set = self.empty_set(kernel);
        for (binding, (picture, kind)) in (0..).zip(pictures) {
            let layout = vk::ImageLayout::GENERAL;
            let info = [vk::DescriptorImageInfo { sampler, image_view: picture.view, image_layout: layout }];
            let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding).descriptor_type(*kind);
            // SAFETY: the set has such a binding.
            unsafe { self.device.update_descriptor_sets(&[write.image_info(&info)], &[]) };
        }
        self.write_buffers(set, pictures.len() as u32, buffers);
        set
    }

    /// Runs a kernel with a set.
    pub(crate) fn run_set(&self, kernel: &Kernel, set: vk::DescriptorSet, groups: [u32; 3]) {
        let buffer = self.record(|device, buffer| {
            kernel.bind(device, buffer, set);
            // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
            unsafe { device.cmd_dispatch(buffer, groups[0], groups[1], groups[2]) };
        });
        self.run_on(0, buffer);
    }
}
