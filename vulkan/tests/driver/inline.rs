//! Inline uniform blocks: bytes in the place of a descriptor.

use ash::vk;

use crate::kit::{Bench, Bytes, Kernel, Made, STORAGE, glsl};

const BLOCK: vk::DescriptorType = vk::DescriptorType::INLINE_UNIFORM_BLOCK;
/// Bytes of the blocks at the bindings 1 and 2.
const SIZES: [u32; 2] = [36, 256];

/// A kernel that copies both blocks, which stand between two buffers.
struct Copies {
    bench: Bench,
    kernel: Kernel,
    pool: vk::DescriptorPool,
}

impl Copies {
    fn new() -> Self {
        let bench = Bench::new();
        let module = glsl(
            "layout(local_size_x = 1) in;
            layout(set = 0, binding = 0, std430) buffer First { uint first[]; };
            layout(set = 0, binding = 1) uniform Small { uvec4 a, b; uint c; } small;
            layout(set = 0, binding = 2) uniform Large { uvec4 words[16]; } large;
            layout(set = 0, binding = 3, std430) buffer Second { uint second[]; };
            void main() {
                for (uint i = 0; i < 4; ++i) { first[i] = small.a[i]; first[4 + i] = small.b[i]; }
                first[8] = small.c;
                for (uint i = 0; i < 64; ++i) { second[i] = large.words[i / 4][i % 4]; }
            }",
        );
        let binding = |binding, kind, count| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(kind)
                .descriptor_count(count)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings =
            [binding(0, STORAGE, 1), binding(1, BLOCK, SIZES[0]), binding(2, BLOCK, SIZES[1]), binding(3, STORAGE, 1)];
        let device = &bench.device;
        let blocks = SIZES.iter().sum::<u32>() * 2;
        let pool_sizes = [
            vk::DescriptorPoolSize { ty: STORAGE, descriptor_count: 4 },
            vk::DescriptorPoolSize { ty: BLOCK, descriptor_count: blocks },
        ];
        let mut of_pool =
            vk::DescriptorPoolInlineUniformBlockCreateInfo::default().max_inline_uniform_block_bindings(4);
        // SAFETY: valid information, and objects of this device, in this order.
        let (kernel, pool) = unsafe {
            let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let mut support = vk::DescriptorSetLayoutSupport::default();
            device.get_descriptor_set_layout_support(&set, &mut support);
            assert_eq!(support.supported, vk::TRUE);
            let set = device.create_descriptor_set_layout(&set, None).expect("a set layout");
            let sets = [set];
            let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            let layout = device.create_pipeline_layout(&layout, None).expect("a layout");
            let module = vk::ShaderModuleCreateInfo::default().code(&module);
            let module = device.create_shader_module(&module, None).expect("a module");
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let made = device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None).expect("a pipeline");
            device.destroy_shader_module(module, None);
            let pool =
                vk::DescriptorPoolCreateInfo::default().max_sets(2).pool_sizes(&pool_sizes).push_next(&mut of_pool);
            let pool = device.create_descriptor_pool(&pool, None).expect("a pool");
            (Kernel { pipeline: made[0], layout, set }, pool)
        };
        bench.keep(Made::Kernel(kernel));
        bench.keep(Made::Pool(pool));
        Self { bench, kernel, pool }
    }

    fn set(&self) -> vk::DescriptorSet {
        let layouts = [self.kernel.set];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(&layouts);
        // SAFETY: objects of this device.
        unsafe { self.bench.device.allocate_descriptor_sets(&info) }.expect("a set")[0]
    }

    /// Writes words to a block, from a byte on.
    fn write(&self, set: vk::DescriptorSet, binding: u32, from: u32, words: &[u32]) {
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut block = vk::WriteDescriptorSetInlineUniformBlock::default().data(&data);
        let write = vk::WriteDescriptorSet {
            descriptor_count: data.len() as u32,
            ..vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(binding)
                .dst_array_element(from)
                .descriptor_type(BLOCK)
                .push_next(&mut block)
        };
        // SAFETY: the set has such a binding.
        unsafe { self.bench.device.update_descriptor_sets(&[write], &[]) };
    }

    /// Runs the kernel with a set and these buffers.
    fn run(&self, set: vk::DescriptorSet, first: &Bytes, second: &Bytes) {
        self.bench.write_buffers(set, 0, &[first]);
        self.bench.write_buffers(set, 3, &[second]);
        let buffer = self.bench.record(|device, buffer| {
            self.kernel.bind(device, buffer, set);
            // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
            unsafe { device.cmd_dispatch(buffer, 1, 1, 1) };
        });
        self.bench.run_on(0, buffer);
    }
}

fn words(from: u32, count: u32) -> Vec<u32> {
    (0..count).map(|word| from + word).collect()
}

/// "descriptorCount is the number of bytes, dstArrayElement the offset of the first." [Vulkan: VkWriteDescriptorSetInlineUniformBlock, VkCopyDescriptorSet]
#[test]
fn shaders_read_what_was_written_in_parts_and_copied() {
    let copies = Copies::new();
    let (first, second) = (copies.bench.words(&[0; 16]), copies.bench.words(&[0; 64]));
    let (set, other) = (copies.set(), copies.set());
    copies.write(set, 1, 0, &words(100, 9));
    copies.write(set, 2, 0, &words(1000, 64));
    copies.write(set, 2, 20, &words(5000, 3));
    copies.run(set, &first, &second);
    let mut large = words(1000, 64);
    large[5..8].copy_from_slice(&words(5000, 3));
    assert_eq!((&first.read()[..9], &second.read()[..]), (&words(100, 9)[..], &large[..]));
    // A copy takes bytes of both, and leaves the rest as it was.
    copies.write(other, 1, 0, &words(7, 9));
    copies.write(other, 2, 0, &words(0, 64));
    let copy = |binding, from: u32, to: u32, count| {
        vk::CopyDescriptorSet::default()
            .src_set(set)
            .src_binding(binding)
            .src_array_element(from)
            .dst_set(other)
            .dst_binding(binding)
            .dst_array_element(to)
            .descriptor_count(count)
    };
    // SAFETY: both sets have these bindings.
    unsafe { copies.bench.device.update_descriptor_sets(&[], &[copy(1, 4, 0, 8), copy(2, 0, 12, 244)]) };
    copies.run(other, &first, &second);
    let (mut small, mut shifted) = (words(7, 9), words(0, 3));
    small[..2].copy_from_slice(&[101, 102]);
    shifted.extend_from_slice(&large[..61]);
    assert_eq!((&first.read()[..9], &second.read()[..]), (&small[..], &shifted[..]));
}

#[test]
fn a_template_has_the_bytes_in_its_data() {
    let copies = Copies::new();
    let (first, second) = (copies.bench.words(&[0; 16]), copies.bench.words(&[0; 64]));
    let set = copies.set();
    let entry = |binding, count, offset| vk::DescriptorUpdateTemplateEntry {
        dst_binding: binding,
        dst_array_element: 0,
        descriptor_count: count,
        descriptor_type: BLOCK,
        offset,
        stride: 0,
    };
    let entries = [entry(1, SIZES[0], 8), entry(2, SIZES[1], 64)];
    let data: Vec<u32> = words(0, 80);
    let info = vk::DescriptorUpdateTemplateCreateInfo::default()
        .descriptor_update_entries(&entries)
        .template_type(vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET)
        .descriptor_set_layout(copies.kernel.set);
    let device = &copies.bench.device;
    // SAFETY: valid information, and data as the template describes them.
    unsafe {
        let template = device.create_descriptor_update_template(&info, None).expect("a template");
        device.update_descriptor_set_with_template(set, template, data.as_ptr().cast());
        device.destroy_descriptor_update_template(template, None);
    }
    copies.run(set, &first, &second);
    assert_eq!((&first.read()[..9], &second.read()[..]), (&words(2, 9)[..], &words(16, 64)[..]));
}

/// Limits that every implementation has with the feature. [Vulkan: Required Limits]
#[test]
fn the_limits_of_blocks_are_told_and_kept() {
    let bench = Bench::new();
    let mut limits = vk::PhysicalDeviceInlineUniformBlockProperties::default();
    let mut of_13 = vk::PhysicalDeviceVulkan13Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut limits).push_next(&mut of_13);
    // SAFETY: the physical device is of the instance.
    unsafe { bench.instance.get_physical_device_properties2(bench.physical, &mut properties) };
    let size = limits.max_inline_uniform_block_size;
    let counts = [
        limits.max_per_stage_descriptor_inline_uniform_blocks,
        limits.max_per_stage_descriptor_update_after_bind_inline_uniform_blocks,
        limits.max_descriptor_set_inline_uniform_blocks,
        limits.max_descriptor_set_update_after_bind_inline_uniform_blocks,
    ];
    assert!(size >= 256 && counts.iter().all(|count| *count >= 4), "{size} {counts:?}");
    assert_eq!((of_13.max_inline_uniform_block_size, of_13.max_inline_uniform_total_size), (size, size * counts[0]));
    for (size, supported) in [(size, vk::TRUE), (size + 4, vk::FALSE)] {
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(BLOCK)
            .descriptor_count(size)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let mut support = vk::DescriptorSetLayoutSupport::default();
        // SAFETY: valid information, as far as the layout is supported.
        unsafe { bench.device.get_descriptor_set_layout_support(&info, &mut support) };
        assert_eq!(support.supported, supported, "{size}");
    }
}
