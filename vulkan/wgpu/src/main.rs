//! Kernels in WGSL by the wgpu crate, compared with the same in Rust.
//!
//! Prints "kernels: N of N" at the end, and exits with 1 if one differs.

mod kernels;

use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};

use kernels::{Kernel, N};
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// The value of a future that has it at once, as all of wgpu's have outside browsers.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("wgpu has a future that waits"),
    }
}

/// The device of the one adapter, which must be Campanile's.
fn device() -> Result<(wgpu::Device, wgpu::Queue), String> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN;
    // wgpu hides drivers whose conformance version is 0.0.0.0 otherwise.
    descriptor.flags = wgpu::InstanceFlags::ALLOW_UNDERLYING_NONCOMPLIANT_ADAPTER;
    let adapters = now(wgpu::Instance::new(descriptor).enumerate_adapters(wgpu::Backends::VULKAN));
    let [adapter] = adapters.as_slice() else { return Err(format!("there is no adapter, or {}", adapters.len())) };
    let name = adapter.get_info().name;
    if !name.starts_with("Campanile") {
        return Err(format!("the adapter is {name}"));
    }
    let wanted = wgpu::DeviceDescriptor {
        // The limits that wgpu takes otherwise are those of devices that draw.
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    now(adapter.request_device(&wanted)).map_err(|error| error.to_string())
}

/// The elements of `c` that the device computes for a kernel.
fn run(device: &wgpu::Device, queue: &wgpu::Queue, kernel: &Kernel) -> Result<Vec<u32>, String> {
    let bytes = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let storage = |words: &[u32]| {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        device.create_buffer_init(&BufferInitDescriptor { label: None, contents: &bytes(words), usage })
    };
    let buffers = [storage(&kernel.a), storage(&kernel.b), storage(&[0; N])];
    let source = wgpu::ShaderSource::Wgsl(kernel.source().into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let entries: Vec<_> = (0..)
        .zip(&buffers)
        .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
        .collect();
    let layout = pipeline.get_bind_group_layout(0);
    let group =
        device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries });
    let size = 4 * N as u64;
    let read = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(kernel.groups, 1, 1);
    }
    encoder.copy_buffer_to_buffer(&buffers[2], 0, &read, 0, size);
    queue.submit([encoder.finish()]);
    let (sender, mapped) = std::sync::mpsc::channel();
    read.map_async(wgpu::MapMode::Read, .., move |result| drop(sender.send(result)));
    device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| error.to_string())?;
    mapped.recv().map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let view = read.get_mapped_range(..).map_err(|error| error.to_string())?;
    Ok(view.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// How many kernels compute what the processor does, and how many there are.
fn compare() -> Result<(usize, usize), String> {
    let (device, queue) = device()?;
    let all = kernels::all();
    let mut same = 0;
    for kernel in &all {
        if kernel.is_right(&run(&device, &queue, kernel)?) {
            same += 1;
        } else {
            println!("{}: differs", kernel.name);
        }
    }
    Ok((same, all.len()))
}

fn main() -> ExitCode {
    match compare() {
        Ok((same, all)) => {
            println!("kernels: {same} of {all}");
            if same == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("wgpu_kernels: {error}");
            ExitCode::FAILURE
        }
    }
}
