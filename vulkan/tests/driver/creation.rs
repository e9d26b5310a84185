//! Creation of objects: what is told of it, what it is refused for, and what it leaves to layouts.

use ash::vk;

use crate::kit::{Bench, COUNT, Kernel, Made, Recipe, STORAGE, wgsl};
use crate::programs::is_alone;

/// Creates a pipeline like the kernel's; returns what was told of the whole and of its stage.
fn feedback(bench: &Bench, kernel: &Kernel, cache: vk::PipelineCache) -> [vk::PipelineCreationFeedback; 2] {
    let words = wgsl(COUNT);
    let (mut whole, mut stages) = Default::default();
    let told = std::slice::from_mut(&mut stages);
    let mut asked = vk::PipelineCreationFeedbackCreateInfo::default()
        .pipeline_creation_feedback(&mut whole)
        .pipeline_stage_creation_feedbacks(told);
    // SAFETY: valid information, and objects of this device, in this order.
    unsafe {
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        let module = bench.device.create_shader_module(&module, None).expect("a module");
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE).module(module);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage.name(c"main")).layout(kernel.layout);
        let made = bench.device.create_compute_pipelines(cache, &[info.push_next(&mut asked)], None);
        bench.device.destroy_pipeline(made.expect("a pipeline")[0], None);
        bench.device.destroy_shader_module(module, None);
    }
    [whole, stages]
}

/// [Vulkan: VkPipelineCreationFeedbackCreateInfo, VkPipelineCreationFeedbackFlagBits]
#[test]
fn feedback_tells_whether_a_cache_had_the_program() {
    type Flags = vk::PipelineCreationFeedbackFlags;
    let bench = Bench::new();
    let kernel = bench.kernel(&wgsl(COUNT), 1, 0, &[]);
    // SAFETY: the device exists.
    let cache = unsafe { bench.device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None) };
    let cache = cache.expect("a cache");
    let hit = Flags::VALID | Flags::APPLICATION_PIPELINE_CACHE_HIT;
    for (cache, expected) in [(vk::PipelineCache::null(), Flags::VALID), (cache, Flags::VALID), (cache, hit)] {
        for told in feedback(&bench, &kernel, cache) {
            assert_eq!(told.flags, expected);
            assert_ne!(told.duration, 0);
        }
    }
    // SAFETY: nothing uses the cache.
    unsafe { bench.device.destroy_pipeline_cache(cache, None) };
}

/// Bytes of the heaps that this process uses. [Vulkan: VK_EXT_memory_budget]
fn usage(bench: &Bench) -> u64 {
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: the physical device is of the instance.
    unsafe { bench.instance.get_physical_device_memory_properties2(bench.physical, &mut memory) };
    budget.heap_usage.iter().sum()
}

/// Pipelines of one program share it, whether a cache compiled it or was given it as data: the second one takes no memory. A rule of this driver.
#[test]
fn pipelines_of_a_program_in_a_cache_share_its_memory() {
    // What other tests of the process allocate would count, too.
    if !is_alone("creation::pipelines_of_a_program_in_a_cache_share_its_memory", "") {
        return;
    }
    let bench = Bench::new();
    let module = wgsl(COUNT);
    // SAFETY: objects of this device, in this order.
    unsafe {
        let first = bench.device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None).expect("a cache");
        let kernel = |cache| bench.make(&Recipe { cache, ..Recipe::new(&module, &[STORAGE]) }).expect("a pipeline");
        kernel(first);
        let data = bench.device.get_pipeline_cache_data(first).expect("data");
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        let second = bench.device.create_pipeline_cache(&info, None).expect("a cache");
        kernel(second);
        for cache in [first, second] {
            let before = usage(&bench);
            let kernels: Vec<_> = (0..100).map(|_| kernel(cache)).collect();
            assert_eq!(usage(&bench), before);
            let count = bench.words(&[0; 4]);
            let set = bench.set(&kernels[99], &[&count]);
            let buffer = bench.record(|device, buffer| {
                kernels[99].bind(device, buffer, set);
                device.cmd_dispatch(buffer, 3, 1, 1);
            });
            bench.run_on(0, buffer);
            assert_eq!(count.read()[0], 3);
            bench.device.destroy_pipeline_cache(cache, None);
        }
    }
}

/// Data of pipelines that another version of the compiler made must not be taken. [Vulkan: VkPipelineCacheHeaderVersionOne]
#[test]
fn the_data_of_a_cache_begin_with_the_device_that_they_are_for() {
    let bench = Bench::new();
    // SAFETY: objects of this device, in this order.
    let (data, properties) = unsafe {
        let cache = bench.device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None).expect("a cache");
        let data = bench.device.get_pipeline_cache_data(cache).expect("data");
        bench.device.destroy_pipeline_cache(cache, None);
        (data, bench.instance.get_physical_device_properties(bench.physical))
    };
    let words = [32, 1, properties.vendor_id, properties.device_id].map(u32::to_le_bytes);
    assert_eq!(data, [words.as_flattened(), &properties.pipeline_cache_uuid].concat());
    // A digest, so that some of its bytes are no text.
    assert!(properties.pipeline_cache_uuid.iter().any(|byte| !byte.is_ascii_graphic()));
}

/// Of a binding whose samplers the layout names, nothing is pushed, and whatever is said of it is ignored. [Vulkan: vkCmdPushDescriptorSetKHR]
#[test]
fn samplers_that_the_layout_names_are_not_looked_for_in_what_is_pushed() {
    let bench = Bench::new();
    let device = &bench.device;
    let count = bench.words(&[0; 4]);
    // SAFETY: valid information, and objects of this device, in this order.
    unsafe {
        let samplers = [device.create_sampler(&vk::SamplerCreateInfo::default(), None).expect("a sampler")];
        bench.keep(Made::Sampler(samplers[0]));
        let binding = vk::DescriptorSetLayoutBinding::default().stage_flags(vk::ShaderStageFlags::COMPUTE);
        let bindings = [
            binding.descriptor_type(STORAGE).descriptor_count(1),
            binding.binding(1).descriptor_type(vk::DescriptorType::SAMPLER).immutable_samplers(&samplers),
        ];
        let flags = vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR;
        let sets = vk::DescriptorSetLayoutCreateInfo::default().flags(flags).bindings(&bindings);
        let set = device.create_descriptor_set_layout(&sets, None).expect("a set layout");
        let sets = [set];
        let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        let layout = device.create_pipeline_layout(&layout, None).expect("a layout");
        let words = wgsl(COUNT);
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        let module = device.create_shader_module(&module, None).expect("a module");
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE).module(module);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage.name(c"main")).layout(layout);
        let pipeline =
            device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None).expect("a pipeline")[0];
        device.destroy_shader_module(module, None);
        bench.keep(Made::Kernel(Kernel { pipeline, layout, set }));
        let shown = [vk::DescriptorBufferInfo { buffer: count.buffer, offset: 0, range: vk::WHOLE_SIZE }];
        let of_buffer = vk::WriteDescriptorSet::default().descriptor_type(STORAGE).buffer_info(&shown);
        let mut of_sampler =
            vk::WriteDescriptorSet::default().dst_binding(1).descriptor_type(vk::DescriptorType::SAMPLER);
        // It points to nothing.
        of_sampler.descriptor_count = 1;
        of_sampler.p_image_info = std::ptr::dangling();
        let push = ash::khr::push_descriptor::Device::new(&bench.instance, device);
        let recorded = bench.record(|device, buffer| {
            let point = vk::PipelineBindPoint::COMPUTE;
            device.cmd_bind_pipeline(buffer, point, pipeline);
            push.cmd_push_descriptor_set(buffer, point, layout, 0, &[of_buffer, of_sampler]);
            device.cmd_dispatch(buffer, 6, 1, 1);
        });
        bench.run_on(0, recorded);
    }
    assert_eq!(count.read()[0], 6);
}

#[test]
fn more_queries_than_there_is_memory_for_are_refused_as_such() {
    let bench = Bench::new();
    let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(u32::MAX);
    // SAFETY: the device exists.
    let refused = unsafe { bench.device.create_query_pool(&info, None) };
    assert_eq!(refused.err(), Some(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
}

/// Limits are at least what Vulkan demands, those of drawing with which programs compute whatever the queues can do among them; and not more than there is. [Vulkan: Required Limits]
#[test]
fn limits_are_those_of_the_device() {
    let bench = Bench::new();
    let mut maintenance = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut maintenance);
    // SAFETY: the physical device is of the instance.
    let memory = unsafe {
        bench.instance.get_physical_device_properties2(bench.physical, &mut properties);
        bench.instance.get_physical_device_memory_properties(bench.physical)
    };
    let limits = properties.properties.limits;
    let heaps = memory.memory_heaps[..memory.memory_heap_count as usize].iter().map(|heap| heap.size);
    let (smallest, largest) = (heaps.clone().min().expect("a heap"), heaps.max().expect("a heap"));
    assert!(limits.discrete_queue_priorities >= 2);
    assert!(limits.max_vertex_output_components >= 64 && limits.max_fragment_input_components >= 64);
    assert!(limits.max_fragment_output_attachments >= 4 && limits.max_color_attachments >= 4);
    assert_eq!(maintenance.max_memory_allocation_size, largest.max(1 << 30));
    assert!(u64::from(limits.max_memory_allocation_count) * 4096 <= smallest);
}
