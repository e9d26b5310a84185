//! The program that the Vulkan rows measure: the same for every driver, which it finds through the loader by the variables of its environment.
//!
//! It is a process of its own, so that drivers do not share one, and the first result of one is that of a fresh process. On standard input it gets a
//! line for each measurement, its name and a number of samples, and answers with a line of nanoseconds.

use std::io::{BufRead, Write};
use std::time::Instant;

use ash::vk;
use rustix::time::ClockId;

use crate::clock::{Clock, now, processor_time};

/// Writes the number of each lane behind 1.
const SOURCE: &str = "
    @group(0) @binding(0) var<storage, read_write> result: array<u32, 64>;
    @compute @workgroup_size(64)
    fn main(@builtin(local_invocation_index) lane: u32) { result[lane] = lane + 1u; }";
/// Submissions whose time is taken together.
const BATCH: usize = 32;
/// Dispatches of a recording.
const DISPATCHES: usize = 10_000;
/// Bytes of an allocation.
const ALLOCATION: u64 = 1 << 20;

/// Calls a command of Vulkan that can fail.
macro_rules! call {
    ($object:ident.$command:ident($($argument:expr),* $(,)?)) => {{
        let outcome = {
            // SAFETY: the program is one thread; handles are its own and alive, information is of this frame, and what is pending is left alone.
            unsafe { $object.$command($($argument),*) }
        };
        outcome.map_err(|result| format!("{} failed: {result:?}", stringify!($command)))?
    }};
}

/// Calls a command of Vulkan that has no result.
macro_rules! tell {
    ($object:ident.$command:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as for the macro above.
        unsafe { $object.$command($($argument),*) }
    }};
}

/// A device of the only driver that there is.
struct Client {
    device: ash::Device,
    /// Queues of two families, or twice the only one.
    queues: [vk::Queue; 2],
    timeline: vk::Semaphore,
    value: u64,
    pool: vk::CommandPool,
    kernel: Kernel,
    /// One dispatch.
    commands: vk::CommandBuffer,
    /// Memory that the processor sees.
    visible: u32,
    /// Address at which the buffer of the kernel is mapped.
    result: *const [u32; 64],
    _instance: ash::Instance,
    _entry: ash::Entry,
}

/// A pipeline with what is bound to it.
struct Kernel {
    pipeline: vk::Pipeline,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSet,
}

/// The module of the kernel.
fn module() -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(SOURCE).expect("the bench's own kernel");
    let (flags, capabilities) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty());
    let info = naga::valid::Validator::new(flags, capabilities).validate(&module).expect("valid");
    let options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    naga::back::spv::write_vec(&module, &info, &options, None).expect("written")
}

impl Client {
    fn new(module: &[u32]) -> Result<Self, String> {
        // SAFETY: the loader of the host is a library without demands on the program that opens it.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| format!("libvulkan cannot be opened: {error}"))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        let instance = call!(entry.create_instance(&info, None));
        let physical = *call!(instance.enumerate_physical_devices()).first().ok_or("the driver has no device")?;
        let families = tell!(instance.get_physical_device_queue_family_properties(physical));
        let computes = |family: &vk::QueueFamilyProperties| family.queue_flags.contains(vk::QueueFlags::COMPUTE);
        let family = families.iter().position(computes).ok_or("the device computes nothing")?;
        let other = (0..families.len()).find(|other| *other != family).unwrap_or(family);
        let queue = |family: usize| {
            vk::DeviceQueueCreateInfo::default().queue_family_index(family as u32).queue_priorities(&[1.0])
        };
        let queues = [queue(family), queue(other)];
        let queues = if other == family { &queues[..1] } else { &queues[..] };
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default().queue_create_infos(queues).push_next(&mut timeline);
        let device = call!(instance.create_device(physical, &info, None));
        let queues = [family, other].map(|family| tell!(device.get_device_queue(family as u32, 0)));
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let timeline = call!(device.create_semaphore(&info, None));
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family as u32)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        let pool = call!(device.create_command_pool(&info, None));
        let memory = tell!(instance.get_physical_device_memory_properties(physical));
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let visible = memory.memory_types.iter().position(|kind| kind.property_flags.contains(wanted));
        let visible = visible.ok_or("no memory is visible")? as u32;
        let (buffer, result) = buffer(&device, visible)?;
        let kernel = Kernel::new(&device, module, buffer)?;
        let commands = kernel.record(&device, pool, 1)?;
        let value = 0;
        let (_instance, _entry) = (instance, entry);
        Ok(Self { device, queues, timeline, value, pool, kernel, commands, visible, result, _instance, _entry })
    }

    /// Submits the dispatch; `signal`: the timeline gets the next value.
    fn submit(&mut self, signal: bool) -> Result<(), String> {
        let (device, commands, timelines) = (&self.device, [self.commands], [self.timeline]);
        let values = [self.value + 1];
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let mut batch = vk::SubmitInfo::default().command_buffers(&commands);
        if signal {
            batch = batch.signal_semaphores(&timelines).push_next(&mut timeline);
            self.value += 1;
        }
        call!(device.queue_submit(self.queues[0], &[batch], vk::Fence::null()));
        Ok(())
    }

    /// Reads the timeline until it has the last value.
    fn spin(&self) -> Result<(), String> {
        let device = &self.device;
        while call!(device.get_semaphore_counter_value(self.timeline)) < self.value {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Processor time of the calling thread for a submission.
    fn submissions(&mut self, samples: usize) -> Result<Vec<f64>, String> {
        let mut all = Vec::new();
        for _ in 0..samples.div_ceil(BATCH) {
            let start = processor_time(ClockId::ThreadCPUTime);
            for _ in 0..BATCH {
                self.submit(false)?;
            }
            let took = processor_time(ClockId::ThreadCPUTime).saturating_sub(start);
            all.push(took.as_nanos() as f64 / BATCH as f64);
            let device = &self.device;
            call!(device.queue_wait_idle(self.queues[0]));
        }
        Ok(all)
    }

    /// From before a submission until the value that it signals is seen.
    fn seen(&mut self, samples: usize) -> Result<Vec<f64>, String> {
        let clock = Clock::get();
        let one = |_| {
            let start = now();
            self.submit(true)?;
            self.spin()?;
            Ok(clock.nanoseconds(start, now()))
        };
        (0..samples).map(one).collect()
    }

    /// Rounds of two queues, each of which waits for what the other one signals; the time of one round.
    fn turns(&mut self, samples: usize) -> Result<Vec<f64>, String> {
        let turns = samples * 5;
        let start = Instant::now();
        for _ in 0..turns {
            for queue in self.queues {
                let (waited, signalled, semaphores) = ([self.value], [self.value + 1], [self.timeline]);
                let mut values = vk::TimelineSemaphoreSubmitInfo::default()
                    .wait_semaphore_values(&waited)
                    .signal_semaphore_values(&signalled);
                let batch = vk::SubmitInfo::default()
                    .wait_semaphores(&semaphores)
                    .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
                    .signal_semaphores(&semaphores)
                    .push_next(&mut values);
                let device = &self.device;
                call!(device.queue_submit(queue, &[batch], vk::Fence::null()));
                self.value += 1;
            }
        }
        self.spin()?;
        Ok(vec![start.elapsed().as_nanos() as f64 / turns as f64])
    }

    /// Recording of dispatches; the time of one.
    fn recordings(&mut self, samples: usize) -> Result<Vec<f64>, String> {
        let one = |_| {
            let start = Instant::now();
            let recorded = self.kernel.record(&self.device, self.pool, DISPATCHES)?;
            let took = start.elapsed().as_nanos() as f64 / DISPATCHES as f64;
            let device = &self.device;
            tell!(device.free_command_buffers(self.pool, &[recorded]));
            Ok(took)
        };
        (0..samples.div_ceil(100)).map(one).collect()
    }

    /// Allocation of memory that the processor sees, and its mapping.
    fn allocations(&mut self, samples: usize) -> Result<Vec<f64>, String> {
        let (device, clock) = (&self.device, Clock::get());
        let info = vk::MemoryAllocateInfo::default().allocation_size(ALLOCATION).memory_type_index(self.visible);
        let one = |_| {
            let start = now();
            let memory = call!(device.allocate_memory(&info, None));
            call!(device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()));
            let took = clock.nanoseconds(start, now());
            tell!(device.free_memory(memory, None));
            Ok(took)
        };
        (0..samples.div_ceil(10)).map(one).collect()
    }

    /// Creation of a pipeline of a long module that is in the pipeline cache.
    fn pipelines(&mut self, samples: usize) -> Result<Vec<f64>, String> {
        let (device, clock) = (&self.device, Clock::get());
        let words = super::c5_compile::long_module();
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        let module = call!(device.create_shader_module(&info, None));
        let (set, layout) = layouts(device, 2)?;
        let cache = call!(device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None));
        let one = || {
            let start = now();
            let pipeline = pipeline(device, module, layout, cache)?;
            let took = clock.nanoseconds(start, now());
            tell!(device.destroy_pipeline(pipeline, None));
            Ok(took)
        };
        // The first one fills the cache.
        let all: Result<Vec<_>, String> = (0..=samples.div_ceil(10)).map(|_| one()).collect();
        let times = all?.into_iter().skip(1).collect();
        tell!(device.destroy_pipeline_cache(cache, None));
        tell!(device.destroy_pipeline_layout(layout, None));
        tell!(device.destroy_descriptor_set_layout(set, None));
        tell!(device.destroy_shader_module(module, None));
        Ok(times)
    }

    /// Runs the kernel once, and looks at what it wrote.
    fn result(&mut self) -> Result<(), String> {
        self.submit(true)?;
        self.spin()?;
        // SAFETY: the buffer is mapped as long as the client lives, and its only writer is done.
        let result = unsafe { self.result.read_volatile() };
        let right = result.iter().zip(1..).all(|(word, lane)| *word == lane);
        if right { Ok(()) } else { Err(format!("the kernel wrote {result:?}")) }
    }
}

/// A buffer for the result of the kernel, and where it is mapped.
fn buffer(device: &ash::Device, visible: u32) -> Result<(vk::Buffer, *const [u32; 64]), String> {
    let info = vk::BufferCreateInfo::default().size(256).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
    let buffer = call!(device.create_buffer(&info, None));
    let needs = tell!(device.get_buffer_memory_requirements(buffer));
    let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size.max(256)).memory_type_index(visible);
    let memory = call!(device.allocate_memory(&info, None));
    call!(device.bind_buffer_memory(buffer, memory, 0));
    let place = call!(device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()));
    if place.is_null() { Err("the memory is mapped nowhere".to_owned()) } else { Ok((buffer, place.cast())) }
}

/// The layouts of a set of so many storage buffers, and of a pipeline that has this set.
fn layouts(device: &ash::Device, buffers: u32) -> Result<(vk::DescriptorSetLayout, vk::PipelineLayout), String> {
    let binding = vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(1)
        .stage_flags(vk::ShaderStageFlags::COMPUTE);
    let bindings: Vec<_> = (0..buffers).map(|number| binding.binding(number)).collect();
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    let sets = [call!(device.create_descriptor_set_layout(&info, None))];
    let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
    Ok((sets[0], call!(device.create_pipeline_layout(&info, None))))
}

/// A pipeline of the function `main` of a module.
fn pipeline(
    device: &ash::Device,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    cache: vk::PipelineCache,
) -> Result<vk::Pipeline, String> {
    let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE);
    let stage = stage.module(module).name(c"main");
    let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
    // SAFETY: as for the macro above; this command returns what it made beside its result.
    let made = unsafe { device.create_compute_pipelines(cache, &info, None) };
    let made = made.map_err(|(_, result)| format!("create_compute_pipelines failed: {result:?}"))?;
    made.first().copied().ok_or_else(|| "create_compute_pipelines made nothing".to_owned())
}

impl Kernel {
    fn new(device: &ash::Device, module: &[u32], buffer: vk::Buffer) -> Result<Self, String> {
        let (set, layout) = layouts(device, 1)?;
        let layouts = [set];
        let info = vk::ShaderModuleCreateInfo::default().code(module);
        let shader = call!(device.create_shader_module(&info, None));
        let pipeline = pipeline(device, shader, layout, vk::PipelineCache::null())?;
        let sizes = [vk::DescriptorPoolSize { ty: vk::DescriptorType::STORAGE_BUFFER, descriptor_count: 1 }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        let pool = call!(device.create_descriptor_pool(&info, None));
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        let set = call!(device.allocate_descriptor_sets(&info))[0];
        let shown = [vk::DescriptorBufferInfo { buffer, offset: 0, range: vk::WHOLE_SIZE }];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&shown);
        tell!(device.update_descriptor_sets(&[write], &[]));
        Ok(Self { pipeline, layout, set })
    }

    /// A new command buffer with so many dispatches.
    fn record(
        &self,
        device: &ash::Device,
        pool: vk::CommandPool,
        dispatches: usize,
    ) -> Result<vk::CommandBuffer, String> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        let commands = call!(device.allocate_command_buffers(&info))[0];
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        call!(device.begin_command_buffer(commands, &info));
        let point = vk::PipelineBindPoint::COMPUTE;
        tell!(device.cmd_bind_pipeline(commands, point, self.pipeline));
        tell!(device.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &[self.set], &[]));
        for _ in 0..dispatches {
            tell!(device.cmd_dispatch(commands, 1, 1, 1));
        }
        call!(device.end_command_buffer(commands));
        Ok(commands)
    }
}

/// One measurement. `FIRST` is the time until a process that had no client has its first result.
fn measure(client: &mut Option<Client>, module: &[u32], name: &str, samples: usize) -> Result<Vec<f64>, String> {
    let start = Instant::now();
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::new(module)?),
    };
    match name {
        super::vulkan_rows::SUBMISSIONS => client.submissions(samples),
        super::vulkan_rows::SEEN => client.seen(samples),
        super::vulkan_rows::TURNS => client.turns(samples),
        super::vulkan_rows::RECORDINGS => client.recordings(samples),
        super::vulkan_rows::ALLOCATIONS => client.allocations(samples),
        super::vulkan_rows::PIPELINES => client.pipelines(samples),
        super::vulkan_rows::FIRST => {
            client.result()?;
            Ok(vec![start.elapsed().as_nanos() as f64])
        }
        _ => Err(format!("there is no measurement {name:?}")),
    }
}

/// Answers questions until there are no more; the exit code.
pub fn serve() -> u8 {
    let (module, mut client) = (module(), None);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (name, samples) = line.split_once(' ').unwrap_or((&line, "1"));
        let outcome = measure(&mut client, &module, name, samples.parse().unwrap_or(1));
        let answer = match outcome {
            Ok(times) => times.iter().map(f64::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => {
                testbed::complain!("campanile: {error}");
                return testbed::exit::EXIT_MACHINE;
            }
        };
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    testbed::exit::EXIT_OK
}
