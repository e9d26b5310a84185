//! A compute kernel on lavapipe, with buffers that the processor has mapped.

use std::ptr::NonNull;

use ash::vk;

use super::error::BenchError;
use super::vulkan::{Lavapipe, failed};

/// A buffer, and where it is mapped.
struct Buffer {
    raw: vk::Buffer,
    memory: vk::DeviceMemory,
    place: NonNull<u8>,
    size: usize,
}

/// A kernel with storage buffers at the bindings of set 0, recorded as one dispatch.
pub(super) struct VulkanKernel {
    lavapipe: Lavapipe,
    buffers: Vec<Buffer>,
    shader: vk::ShaderModule,
    sets: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    pool: vk::DescriptorPool,
}

impl VulkanKernel {
    /// The kernel of a module, with so many bytes for each buffer and workgroups in each dimension.
    pub(super) fn new(lavapipe: Lavapipe, module: &[u32], sizes: &[usize], grid: [u32; 3]) -> Result<Self, BenchError> {
        let mut this = Self {
            lavapipe,
            buffers: Vec::new(),
            shader: vk::ShaderModule::null(),
            sets: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
            pool: vk::DescriptorPool::null(),
        };
        for size in sizes {
            this.add_buffer(*size)?;
        }
        this.make_pipeline(module)?;
        this.record(grid)?;
        Ok(this)
    }

    fn add_buffer(&mut self, size: usize) -> Result<(), BenchError> {
        let device = &self.lavapipe.device;
        let info = vk::BufferCreateInfo::default().size(size as u64).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
        // SAFETY: the description is complete.
        let raw = unsafe { device.create_buffer(&info, None) }.map_err(failed("vkCreateBuffer"))?;
        // SAFETY: the buffer is of this device.
        let needs = unsafe { device.get_buffer_memory_requirements(raw) };
        // Every type of memory of lavapipe is the host's, mappable and coherent.
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(needs.memory_type_bits.trailing_zeros());
        // SAFETY: the type is one that the buffer may have.
        let memory = unsafe { device.allocate_memory(&info, None) }.map_err(failed("vkAllocateMemory"))?;
        // SAFETY: the memory is large enough and fresh.
        unsafe { device.bind_buffer_memory(raw, memory, 0) }.map_err(failed("vkBindBufferMemory"))?;
        // SAFETY: the memory can be mapped and is mapped once.
        let place = unsafe { device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
        let place = NonNull::new(place.map_err(failed("vkMapMemory"))?.cast::<u8>());
        let place = place.ok_or_else(|| BenchError::Machine("lavapipe maps nothing".into()))?;
        self.buffers.push(Buffer { raw, memory, place, size });
        Ok(())
    }

    fn make_pipeline(&mut self, module: &[u32]) -> Result<(), BenchError> {
        let device = &self.lavapipe.device;
        let info = vk::ShaderModuleCreateInfo::default().code(module);
        // SAFETY: the module was validated when it was made.
        self.shader = unsafe { device.create_shader_module(&info, None) }.map_err(failed("vkCreateShaderModule"))?;
        let binding = |number: usize| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(number as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..self.buffers.len()).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the description is complete.
        let sets = unsafe { device.create_descriptor_set_layout(&info, None) };
        self.sets = sets.map_err(failed("vkCreateDescriptorSetLayout"))?;
        let layouts = [self.sets];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        // SAFETY: the layout is of this device.
        let layout = unsafe { device.create_pipeline_layout(&info, None) };
        self.layout = layout.map_err(failed("vkCreatePipelineLayout"))?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(self.shader)
            .name(c"main");
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout)];
        // SAFETY: shader and layout are of this device and agree about the buffers.
        let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let made = made.map_err(|(_, result)| failed("vkCreateComputePipelines")(result))?;
        self.pipeline = made.first().copied().unwrap_or_default();
        Ok(())
    }

    /// A set with the buffers.
    fn set(&mut self) -> Result<vk::DescriptorSet, BenchError> {
        let device = &self.lavapipe.device;
        let sizes = [vk::DescriptorPoolSize {
            ty: vk::DescriptorType::STORAGE_BUFFER,
            descriptor_count: self.buffers.len() as u32,
        }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: the description is complete.
        self.pool = unsafe { device.create_descriptor_pool(&info, None) }.map_err(failed("vkCreateDescriptorPool"))?;
        let layouts = [self.sets];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(&layouts);
        // SAFETY: the pool has space for one set of this layout.
        let sets = unsafe { device.allocate_descriptor_sets(&info) }.map_err(failed("vkAllocateDescriptorSets"))?;
        let set = sets.first().copied().unwrap_or_default();
        for (number, buffer) in (0..).zip(&self.buffers) {
            let info = [vk::DescriptorBufferInfo { buffer: buffer.raw, offset: 0, range: vk::WHOLE_SIZE }];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(number)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(&info);
            // SAFETY: set and buffer are of this device, and nothing uses the set.
            unsafe { device.update_descriptor_sets(&[write], &[]) };
        }
        Ok(set)
    }

    fn record(&mut self, [x, y, z]: [u32; 3]) -> Result<(), BenchError> {
        let set = self.set()?;
        let (device, commands) = (&self.lavapipe.device, self.lavapipe.commands);
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the buffer is not pending, and its pool allows that it is recorded anew.
        unsafe { device.begin_command_buffer(commands, &info) }.map_err(failed("vkBeginCommandBuffer"))?;
        // SAFETY: the pipeline is of this device and for compute.
        unsafe { device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, self.pipeline) };
        // SAFETY: the set has the layout that the pipeline's layout names.
        unsafe {
            device.cmd_bind_descriptor_sets(commands, vk::PipelineBindPoint::COMPUTE, self.layout, 0, &[set], &[]);
        }
        // SAFETY: everything the pipeline uses is bound.
        unsafe { device.cmd_dispatch(commands, x, y, z) };
        // SAFETY: recording began above.
        unsafe { device.end_command_buffer(commands) }.map_err(failed("vkEndCommandBuffer"))
    }

    /// Writes a buffer from its start on.
    pub(super) fn write(&mut self, buffer: usize, bytes: &[u8]) {
        let Some(buffer) = self.buffers.get(buffer) else { return };
        let count = bytes.len().min(buffer.size);
        // SAFETY: the buffer is mapped and so long, and no kernel runs.
        unsafe { buffer.place.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }

    /// Reads a buffer from its start on.
    pub(super) fn read(&mut self, buffer: usize, bytes: &mut [u8]) {
        let Some(buffer) = self.buffers.get(buffer) else { return };
        let count = bytes.len().min(buffer.size);
        // SAFETY: as above.
        unsafe { buffer.place.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), count) };
    }

    /// Runs the kernel and waits until it is done.
    pub(super) fn run(&mut self) -> Result<(), BenchError> {
        self.lavapipe.submit()?;
        self.lavapipe.wait()
    }
}

impl Drop for VulkanKernel {
    fn drop(&mut self) {
        let device = &self.lavapipe.device;
        // SAFETY: no other thread uses the device. Should it fail, there is nothing left to wait for.
        let _ = unsafe { device.device_wait_idle() };
        // SAFETY: nothing runs any more; null, where it was never made, is ignored, here and below.
        unsafe { device.destroy_descriptor_pool(self.pool, None) };
        // SAFETY: as above.
        unsafe { device.destroy_pipeline(self.pipeline, None) };
        // SAFETY: as above.
        unsafe { device.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: as above.
        unsafe { device.destroy_descriptor_set_layout(self.sets, None) };
        // SAFETY: as above.
        unsafe { device.destroy_shader_module(self.shader, None) };
        for buffer in &self.buffers {
            // SAFETY: as above.
            unsafe { device.destroy_buffer(buffer.raw, None) };
            // SAFETY: as above; that ends its mapping too.
            unsafe { device.free_memory(buffer.memory, None) };
        }
    }
}
