//! What the tests stand on: a device of this driver, shaders from source, and buffers whose bytes are looked at.

use std::cell::RefCell;
use std::ffi::CStr;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk;

/// Counts its workgroups.
pub(crate) const COUNT: &str = "
    @group(0) @binding(0) var<storage, read_write> count: array<atomic<u32>, 4>;
    @compute @workgroup_size(1)
    fn main() { atomicAdd(&count[0], 1u); }";

/// The module of a WGSL shader.
pub(crate) fn wgsl(source: &str) -> Vec<u32> {
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let (flags, capabilities) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info = naga::valid::Validator::new(flags, capabilities).validate(&module).expect("valid");
    let options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    naga::back::spv::write_vec(&module, &info, &options, None).expect("written")
}

/// The module of a GLSL compute shader, for what WGSL's compiler does not write.
pub(crate) fn glsl(source: &str) -> Vec<u32> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = |kind| format!("{}/vulkan-{}-{number}.{kind}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let (from, to) = (path("comp"), path("spv"));
    std::fs::write(&from, format!("#version 460\n{source}")).expect("written");
    let output = Command::new("glslangValidator").args(["-V", "--target-env", "vulkan1.3", "-o", &to, &from]).output();
    let output = output.unwrap_or_else(|error| panic!("glslangValidator is missing: install glslang-tools ({error})"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let bytes = std::fs::read(&to).expect("read");
    [from, to].iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The type of the bindings of most kernels.
pub(crate) const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;

/// Module, layout and flags of a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Recipe<'r> {
    pub(crate) module: &'r [u32],
    /// Types of the bindings of set 0.
    pub(crate) bindings: &'r [vk::DescriptorType],
    /// Descriptors of the first binding; the others have one.
    pub(crate) count: u32,
    pub(crate) set_flags: vk::DescriptorSetLayoutCreateFlags,
    /// Bytes of push constants.
    pub(crate) push: u32,
    /// Specialization constants by their identifiers.
    pub(crate) constants: &'r [(u32, u32)],
    pub(crate) flags: vk::PipelineCreateFlags,
    pub(crate) cache: vk::PipelineCache,
}

impl<'r> Recipe<'r> {
    pub(crate) fn new(module: &'r [u32], bindings: &'r [vk::DescriptorType]) -> Self {
        let (set_flags, flags) = Default::default();
        Self { module, bindings, count: 1, set_flags, push: 0, constants: &[], flags, cache: vk::PipelineCache::null() }
    }
}

/// A device with two queues of each family.
pub(crate) struct Bench {
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    /// Command pools by family.
    pub(crate) pools: [vk::CommandPool; 2],
    made: RefCell<Vec<Made>>,
}

/// What is destroyed with the bench, the latest first.
pub(crate) enum Made {
    Buffer(vk::Buffer, vk::DeviceMemory),
    Kernel(Kernel),
    Pool(vk::DescriptorPool),
    Semaphore(vk::Semaphore),
    Event(vk::Event),
    Image(vk::Image, vk::DeviceMemory, vk::ImageView),
    BufferView(vk::BufferView),
    Sampler(vk::Sampler),
}

/// A buffer in memory of its own, mapped if its type can be.
pub(crate) struct Bytes {
    pub(crate) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut u8,
    size: usize,
}

/// Environment variable that has the tests go through the loader of the system, and with it through the layers that other variables ask for.
pub(crate) const LOADER_VARIABLE: &str = "CAMPANILE_VULKAN_TEST_LOADER";

/// The entry of the driver, as a loader finds it; or that of the loader.
pub(crate) fn entry() -> ash::Entry {
    if std::env::var_os(LOADER_VARIABLE).is_some() {
        // Kept, for an entry that goes closes the loader.
        static LOADER: OnceLock<ash::Entry> = OnceLock::new();
        // SAFETY: the loader's initialisation has no conditions.
        return LOADER.get_or_init(|| unsafe { ash::Entry::load() }.expect("libvulkan1")).clone();
    }
    let functions = ash::StaticFn { get_instance_proc_addr: campanile_vulkan::vk_icdGetInstanceProcAddr };
    // SAFETY: the driver's own function has the type and does what Vulkan says.
    unsafe { ash::Entry::from_static_fn(functions) }
}

/// The features of Vulkan 1.0 that the tests use.
fn features() -> vk::PhysicalDeviceFeatures {
    vk::PhysicalDeviceFeatures::default()
        .shader_image_gather_extended(true)
        .shader_storage_image_extended_formats(true)
        .shader_storage_image_read_without_format(true)
        .shader_storage_image_write_without_format(true)
        .shader_storage_image_array_dynamic_indexing(true)
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_instance(&[vk::EXT_DEBUG_UTILS_NAME])
    }

    /// As [`Bench::new`], with these extensions of the instance.
    pub(crate) fn with_instance(extensions: &[&CStr]) -> Self {
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
        let info = vk::InstanceCreateInfo::default().application_info(&application).enabled_extension_names(&names);
        // SAFETY: the information is of this frame and valid; so in all calls here.
        let instance = unsafe { entry().create_instance(&info, None) }.expect("an instance");
        // SAFETY: the instance exists.
        let physical = unsafe { instance.enumerate_physical_devices() }.expect("devices")[0];
        // SAFETY: the physical device is of the instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        assert_eq!(families.len(), 2);
        let queues = [0, 1].map(|family| {
            vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0, 1.0])
        });
        let mut features12 = vk::PhysicalDeviceVulkan12Features::default()
            .sampler_mirror_clamp_to_edge(true)
            .runtime_descriptor_array(true)
            .shader_storage_image_array_non_uniform_indexing(true)
            .descriptor_binding_storage_buffer_update_after_bind(true)
            .timeline_semaphore(true)
            .host_query_reset(true)
            .buffer_device_address(true)
            .vulkan_memory_model(true)
            .vulkan_memory_model_device_scope(true);
        let mut features13 = vk::PhysicalDeviceVulkan13Features::default()
            .synchronization2(true)
            .inline_uniform_block(true)
            .shader_integer_dot_product(true)
            .shader_zero_initialize_workgroup_memory(true)
            .private_data(true)
            .maintenance4(true)
            .pipeline_creation_cache_control(true);
        let extensions = [
            vk::KHR_PUSH_DESCRIPTOR_NAME,
            vk::EXT_DEVICE_FAULT_NAME,
            vk::KHR_EXTERNAL_MEMORY_FD_NAME,
            vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME,
            vk::KHR_EXTERNAL_FENCE_FD_NAME,
        ];
        let extensions = extensions.map(CStr::as_ptr);
        let mut faults = vk::PhysicalDeviceFaultFeaturesEXT::default().device_fault(true);
        let features = features();
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&features)
            .enabled_extension_names(&extensions)
            .push_next(&mut features12)
            .push_next(&mut features13)
            .push_next(&mut faults);
        // SAFETY: the physical device is of the instance.
        let device = unsafe { instance.create_device(physical, &info, None) }.expect("a device");
        let pools = [0, 1].map(|family| {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
            // SAFETY: the device exists.
            unsafe { device.create_command_pool(&info, None) }.expect("a pool")
        });
        Self { instance, physical, device, pools, made: RefCell::new(Vec::new()) }
    }

    /// Has something destroyed with the bench.
    pub(crate) fn keep(&self, made: Made) {
        self.made.borrow_mut().push(made);
    }

    pub(crate) fn queue(&self, family: u32, index: u32) -> vk::Queue {
        // SAFETY: the device was created with it.
        unsafe { self.device.get_device_queue(family, index) }
    }

    /// The first memory type with these properties and none of the others.
    pub(crate) fn kind(&self, with: vk::MemoryPropertyFlags, without: vk::MemoryPropertyFlags) -> u32 {
        // SAFETY: the physical device is of the instance.
        let memory = unsafe { self.instance.get_physical_device_memory_properties(self.physical) };
        let kinds = &memory.memory_types[..memory.memory_type_count as usize];
        let fits =
            |kind: &vk::MemoryType| kind.property_flags.contains(with) && !kind.property_flags.intersects(without);
        kinds.iter().position(fits).expect("such a memory type") as u32
    }

    /// A buffer in memory of a type.
    pub(crate) fn buffer_in(&self, kind: u32, size: usize, mapped: bool) -> Bytes {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::UNIFORM_BUFFER
            | vk::BufferUsageFlags::INDIRECT_BUFFER
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            | vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER
            | vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(size as u64).usage(usage);
        let device = &self.device;
        // SAFETY: valid information, and objects of this device, in this order.
        unsafe {
            let buffer = device.create_buffer(&info, None).expect("a buffer");
            let needed = device.get_buffer_memory_requirements(buffer);
            assert!(needed.memory_type_bits & 1 << kind != 0 && needed.size >= size as u64);
            let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let allocate = vk::MemoryAllocateInfo::default()
                .allocation_size(needed.size)
                .memory_type_index(kind)
                .push_next(&mut flags);
            let memory = device.allocate_memory(&allocate, None).expect("memory");
            device.bind_buffer_memory(buffer, memory, 0).expect("bound");
            let mapped = if mapped {
                device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).expect("mapped").cast()
            } else {
                std::ptr::null_mut()
            };
            self.keep(Made::Buffer(buffer, memory));
            Bytes { buffer, memory, mapped, size }
        }
    }

    /// A buffer that the processor sees, with these words.
    pub(crate) fn words(&self, words: &[u32]) -> Bytes {
        let shared = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let bytes = self.buffer_in(self.kind(shared, vk::MemoryPropertyFlags::empty()), words.len() * 4, true);
        bytes.write(words);
        bytes
    }

    /// A compute pipeline with its layout, for storage buffers at bindings 0.. of set 0.
    pub(crate) fn kernel(&self, module: &[u32], buffers: u32, push: u32, constants: &[(u32, u32)]) -> Kernel {
        self.try_kernel(module, buffers, push, constants).expect("a pipeline")
    }

    /// As [`Bench::kernel`], with the result where the pipeline is refused.
    pub(crate) fn try_kernel(
        &self,
        module: &[u32],
        buffers: u32,
        push: u32,
        constants: &[(u32, u32)],
    ) -> Result<Kernel, vk::Result> {
        self.make(&Recipe { push, constants, ..Recipe::new(module, &vec![STORAGE; buffers as usize]) })
    }

    /// A pipeline whose two buffers are pushed.
    pub(crate) fn pushed(&self, module: &[u32]) -> Kernel {
        let set_flags = vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR;
        self.make(&Recipe { set_flags, ..Recipe::new(module, &[STORAGE; 2]) }).expect("a pipeline")
    }

    /// A compute pipeline with its layout.
    pub(crate) fn make(&self, recipe: &Recipe<'_>) -> Result<Kernel, vk::Result> {
        let Recipe { module, bindings, count, set_flags, push, constants, flags, cache } = *recipe;
        let bindings: Vec<_> = (0..)
            .zip(bindings)
            .map(|(binding, kind)| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(*kind)
                    .descriptor_count(if binding == 0 { count } else { 1 })
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let ranges = [vk::PushConstantRange::default().size(push).stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let entries: Vec<_> = (0u32..)
            .zip(constants)
            .map(|(index, (id, _))| vk::SpecializationMapEntry { constant_id: *id, offset: index * 4, size: 4 })
            .collect();
        let data: Vec<u8> = constants.iter().flat_map(|(_, value)| value.to_le_bytes()).collect();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let device = &self.device;
        // SAFETY: valid information, and objects of this device, in this order.
        unsafe {
            let after = set_flags.contains(vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL);
            let one = if after { vk::DescriptorBindingFlags::UPDATE_AFTER_BIND } else { Default::default() };
            let all = vec![one; bindings.len()];
            let mut all = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&all);
            let set = vk::DescriptorSetLayoutCreateInfo::default().flags(set_flags).bindings(&bindings);
            let set = if after { set.push_next(&mut all) } else { set };
            let set = device.create_descriptor_set_layout(&set, None).expect("a set layout");
            let sets = [set];
            let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            let layout = if push == 0 { layout } else { layout.push_constant_ranges(&ranges) };
            let layout = device.create_pipeline_layout(&layout, None).expect("a layout");
            let module = vk::ShaderModuleCreateInfo::default().code(module);
            let module = device.create_shader_module(&module, None).expect("a module");
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main")
                .specialization_info(&constants);
            let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout);
            let made = device.create_compute_pipelines(cache, &[info], None);
            device.destroy_shader_module(module, None);
            let pipeline = made.as_ref().map_or(vk::Pipeline::null(), |pipelines| pipelines[0]);
            let kernel = Kernel { pipeline, layout, set };
            self.keep(Made::Kernel(kernel));
            made.map(|_| kernel).map_err(|(_, failure)| failure)
        }
    }

    /// A descriptor set with these buffers.
    pub(crate) fn set(&self, kernel: &Kernel, buffers: &[&Bytes]) -> vk::DescriptorSet {
        let set = self.empty_set(kernel);
        self.write_buffers(set, 0, buffers);
        set
    }

    /// A descriptor set that shows nothing yet.
    pub(crate) fn empty_set(&self, kernel: &Kernel) -> vk::DescriptorSet {
        type Kind = vk::DescriptorType;
        let sizes = [
            STORAGE,
            Kind::STORAGE_IMAGE,
            Kind::SAMPLED_IMAGE,
            Kind::COMBINED_IMAGE_SAMPLER,
            Kind::UNIFORM_TEXEL_BUFFER,
            Kind::STORAGE_TEXEL_BUFFER,
        ];
        let sizes = sizes.map(|ty| vk::DescriptorPoolSize { ty, descriptor_count: 16 });
        let layouts = [kernel.set];
        // SAFETY: valid information, and objects of this device, in this order.
        unsafe {
            let flags = vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND;
            let pool = vk::DescriptorPoolCreateInfo::default().flags(flags).max_sets(1).pool_sizes(&sizes);
            let pool = self.device.create_descriptor_pool(&pool, None).expect("a pool");
            self.keep(Made::Pool(pool));
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            self.device.allocate_descriptor_sets(&info).expect("a set")[0]
        }
    }

    /// Writes buffers to bindings from one on.
    pub(crate) fn write_buffers(&self, set: vk::DescriptorSet, first: u32, buffers: &[&Bytes]) {
        for (binding, bytes) in (first..).zip(buffers) {
            let info = [vk::DescriptorBufferInfo { buffer: bytes.buffer, offset: 0, range: vk::WHOLE_SIZE }];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(binding)
                .descriptor_type(STORAGE)
                .buffer_info(&info);
            // SAFETY: the set has such a binding.
            unsafe { self.device.update_descriptor_sets(&[write], &[]) };
        }
    }

    /// A command buffer for the first family with what `record` records.
    pub(crate) fn record(&self, record: impl FnOnce(&ash::Device, vk::CommandBuffer)) -> vk::CommandBuffer {
        self.record_for(0, record)
    }

    /// As [`Bench::record`], for a family. The buffer may be submitted while it is pending.
    pub(crate) fn record_for(
        &self,
        family: usize,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> vk::CommandBuffer {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pools[family]).command_buffer_count(1);
        // SAFETY: the pool is of this device.
        let buffer = unsafe { self.device.allocate_command_buffers(&info) }.expect("a buffer")[0];
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the buffer is new.
        unsafe { self.device.begin_command_buffer(buffer, &info) }.expect("begun");
        record(&self.device, buffer);
        // SAFETY: it was begun above.
        unsafe { self.device.end_command_buffer(buffer) }.expect("recorded");
        buffer
    }

    /// Submits a command buffer to the first queue of a family, and waits for it by a fence.
    pub(crate) fn run_on(&self, family: u32, buffer: vk::CommandBuffer) {
        let buffers = [buffer];
        let batch = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: objects of this device; the fence is destroyed when it is signalled.
        unsafe {
            let fence = self.device.create_fence(&vk::FenceCreateInfo::default(), None).expect("a fence");
            self.device.queue_submit(self.queue(family, 0), &[batch], fence).expect("submitted");
            self.device.wait_for_fences(&[fence], true, u64::MAX).expect("done");
            assert_eq!(self.device.get_fence_status(fence), Ok(true));
            self.device.destroy_fence(fence, None);
        }
    }

    /// Runs a kernel on buffers.
    pub(crate) fn dispatch(&self, kernel: &Kernel, buffers: &[&Bytes], groups: [u32; 3], push: &[u8]) {
        let set = self.set(kernel, buffers);
        let buffer = self.record(|device, buffer| {
            kernel.bind(device, buffer, set);
            // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
            unsafe {
                if !push.is_empty() {
                    device.cmd_push_constants(buffer, kernel.layout, vk::ShaderStageFlags::COMPUTE, 0, push);
                }
                device.cmd_dispatch(buffer, groups[0], groups[1], groups[2]);
            }
        });
        self.run_on(0, buffer);
    }

    /// The name of the physical device.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the physical device is of the instance.
        let properties = unsafe { self.instance.get_physical_device_properties(self.physical) };
        properties.device_name_as_c_str().map(CStr::to_string_lossy).expect("a name").into_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let device = &self.device;
        // SAFETY: nothing is used after this, and nothing is pending.
        unsafe {
            if device.device_wait_idle().is_err() {
                return;
            }
            for made in self.made.get_mut().drain(..).rev() {
                match made {
                    Made::Buffer(buffer, memory) => {
                        device.destroy_buffer(buffer, None);
                        device.free_memory(memory, None);
                    }
                    Made::Kernel(kernel) => {
                        device.destroy_pipeline(kernel.pipeline, None);
                        device.destroy_pipeline_layout(kernel.layout, None);
                        device.destroy_descriptor_set_layout(kernel.set, None);
                    }
                    Made::Pool(pool) => device.destroy_descriptor_pool(pool, None),
                    Made::Semaphore(semaphore) => device.destroy_semaphore(semaphore, None),
                    Made::Event(event) => device.destroy_event(event, None),
                    Made::Image(image, memory, view) => {
                        device.destroy_image_view(view, None);
                        device.destroy_image(image, None);
                        device.free_memory(memory, None);
                    }
                    Made::BufferView(view) => device.destroy_buffer_view(view, None),
                    Made::Sampler(sampler) => device.destroy_sampler(sampler, None),
                }
            }
            self.pools.iter().for_each(|pool| device.destroy_command_pool(*pool, None));
            device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// A pipeline and its layout.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    pub(crate) pipeline: vk::Pipeline,
    pub(crate) layout: vk::PipelineLayout,
    pub(crate) set: vk::DescriptorSetLayout,
}

impl Kernel {
    /// Binds pipeline and set.
    pub(crate) fn bind(&self, device: &ash::Device, buffer: vk::CommandBuffer, set: vk::DescriptorSet) {
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the buffer is being recorded, and the set has the kernel's layout.
        unsafe {
            device.cmd_bind_pipeline(buffer, point, self.pipeline);
            device.cmd_bind_descriptor_sets(buffer, point, self.layout, 0, &[set], &[]);
        }
    }
}

impl Bytes {
    /// Copies words to the start of the buffer.
    pub(crate) fn write(&self, words: &[u32]) {
        assert!(words.len() * 4 <= self.size && !self.mapped.is_null());
        // SAFETY: so many bytes are mapped, and no work uses them now.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), self.mapped, words.len() * 4) };
    }

    /// All words of the buffer.
    pub(crate) fn read(&self) -> Vec<u32> {
        assert!(!self.mapped.is_null());
        let mut words = vec![0u32; self.size / 4];
        // SAFETY: so many bytes are mapped, and no work writes them now.
        unsafe { std::ptr::copy_nonoverlapping(self.mapped, words.as_mut_ptr().cast::<u8>(), words.len() * 4) };
        words
    }

    pub(crate) fn memory(&self) -> vk::DeviceMemory {
        self.memory
    }
}
