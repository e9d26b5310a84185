//! Shaders run, and leave what the same computation leaves on the processor.

use crate::kit::{Bench, COUNT, Kernel, Recipe, STORAGE, glsl, wgsl};
use ash::vk;

const SAXPY: &str = "
    struct Push { a: f32, n: u32 }
    var<immediate> push: Push;
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if (id.x < push.n) { y[id.x] = push.a * x[id.x] + y[id.x]; }
    }";

#[test]
fn saxpy_with_push_constants() {
    let bench = Bench::new();
    let kernel = bench.kernel(&wgsl(SAXPY), 2, 8, &[]);
    let (x, y): (Vec<f32>, Vec<f32>) = (0..1000u32).map(|i| (i as f32 * 0.5, 1000.0 - i as f32)).unzip();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let (in_x, in_y) = (bench.words(&bits(&x)), bench.words(&bits(&y)));
    let push = [2.5f32.to_le_bytes(), 1000u32.to_le_bytes()].concat();
    bench.dispatch(&kernel, &[&in_x, &in_y], [16, 1, 1], &push);
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.5 * x + y).collect();
    assert_eq!(in_y.read(), bits(&expected));
    assert_eq!(in_x.read(), bits(&x));
}

#[test]
fn specialization_constants_change_the_workgroup_and_the_result() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x_id = 1) in;
        layout(constant_id = 7) const uint factor = 3;
        layout(set = 0, binding = 0) buffer Data { uint data[]; };
        void main() { data[gl_GlobalInvocationID.x] = gl_WorkGroupID.x * factor + gl_WorkGroupSize.x; }",
    );
    for (constants, factor, lanes) in [(&[][..], 3, 1), (&[(7, 11), (1, 32)][..], 11, 32)] {
        let kernel = bench.kernel(&module, 1, 0, constants);
        let data = bench.words(&[0; 64]);
        bench.dispatch(&kernel, &[&data], [2, 1, 1], &[]);
        let expected = |i: u32| if i < 2 * lanes { i / lanes * factor + lanes } else { 0 };
        assert_eq!(data.read(), (0..64).map(expected).collect::<Vec<u32>>());
    }
}

#[test]
fn accesses_behind_a_buffer_load_zeros_and_store_nothing() {
    let bench = Bench::new();
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read> source: array<u32>;
        @group(0) @binding(1) var<storage, read_write> result: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) { result[id.x] = source[id.x] + 1u; }",
    );
    let kernel = bench.kernel(&module, 2, 0, &[]);
    let (from, to) = (bench.words(&[41; 10]), bench.words(&[7; 20]));
    bench.dispatch(&kernel, &[&from, &to], [1, 1, 1], &[]);
    assert_eq!(to.read(), [[42; 10], [1; 10]].concat());
}

#[test]
fn numbers_of_workgroups_come_from_a_buffer() {
    let bench = Bench::new();
    let kernel = bench.kernel(&wgsl(COUNT), 1, 0, &[]);
    let (data, groups) = (bench.words(&[0; 4]), bench.words(&[9, 3, 5, 2]));
    let set = bench.set(&kernel, &[&data]);
    let buffer = bench.record(|device, buffer| {
        kernel.bind(device, buffer, set);
        // SAFETY: the buffer is being recorded, and has three words from 4 on.
        unsafe { device.cmd_dispatch_indirect(buffer, groups.buffer, 4) };
    });
    bench.run_on(0, buffer);
    assert_eq!(data.read(), [3 * 5 * 2, 0, 0, 0]);
}

#[test]
fn a_dispatch_without_workgroups_runs_nothing_and_ten_thousand_run_in_order() {
    let bench = Bench::new();
    let module = wgsl(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
        var<immediate> value: u32;
        @compute @workgroup_size(1)
        fn main() { if (data[0] == value) { data[0] = value + 1u; } }",
    );
    let kernel = bench.kernel(&module, 1, 4, &[]);
    let data = bench.words(&[0]);
    let set = bench.set(&kernel, &[&data]);
    let buffer = bench.record(|device, buffer| {
        kernel.bind(device, buffer, set);
        // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
        unsafe {
            device.cmd_dispatch(buffer, 0, 5, 5);
            for value in 0..10_000u32 {
                let push = value.to_le_bytes();
                device.cmd_push_constants(buffer, kernel.layout, vk::ShaderStageFlags::COMPUTE, 0, &push);
                device.cmd_dispatch(buffer, 1, 1, 1);
            }
        }
    });
    bench.run_on(0, buffer);
    assert_eq!(data.read(), [10_000]);
}

#[test]
fn workgroups_are_counted_from_the_base_of_a_dispatch() {
    let bench = Bench::new();
    let module = glsl(
        "layout(local_size_x = 2, local_size_y = 1, local_size_z = 3) in;
        layout(set = 0, binding = 0) buffer Data { uint next; uvec4 seen[]; };
        void main() {
            if (gl_LocalInvocationIndex == 5) {
                uint place = atomicAdd(next, 2);
                seen[place] = uvec4(gl_WorkGroupID, gl_NumWorkGroups.z);
                seen[place + 1] = uvec4(gl_GlobalInvocationID, gl_NumWorkGroups.x);
            }
        }",
    );
    let recipe = Recipe { flags: vk::PipelineCreateFlags::DISPATCH_BASE, ..Recipe::new(&module, &[STORAGE]) };
    let kernel = bench.make(&recipe).expect("a pipeline");
    let data = bench.words(&[0; 4 + 4 * 10]);
    let set = bench.set(&kernel, &[&data]);
    let buffer = bench.record(|device, buffer| {
        kernel.bind(device, buffer, set);
        // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
        unsafe {
            device.cmd_dispatch_base(buffer, 7, 11, 13, 1, 1, 2);
            device.cmd_dispatch(buffer, 1, 1, 1);
            device.cmd_dispatch_base(buffer, 65534, 0, 0, 1, 1, 1);
            device.cmd_dispatch_base(buffer, 0, 0, 0, 1, 1, 1);
        }
    });
    bench.run_on(0, buffer);
    let words = data.read();
    assert_eq!(words[0], 10);
    let mut seen: Vec<_> = words[4..].chunks_exact(8).collect();
    seen[..2].sort_unstable();
    let expected = [
        [7, 11, 13, 2, 15, 11, 41, 1],
        [7, 11, 14, 2, 15, 11, 44, 1],
        [0, 0, 0, 1, 1, 0, 2, 1],
        [65534, 0, 0, 1, 131_069, 0, 2, 1],
        [0, 0, 0, 1, 1, 0, 2, 1],
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_comes_of_two_ways_has_a_type_that_operations_look_at() {
    let bench = Bench::new();
    // glslang makes OpPhi of `||`, and OpLogicalNot and OpBitcast of what follows.
    let module = glsl(
        "layout(local_size_x = 4) in;
        layout(set = 0, binding = 0) buffer Data { uint data[]; };
        void main() {
            uint i = gl_LocalInvocationIndex;
            bool either = i == 1 || data[i] == 7;
            bool both = !either && data[i] != 9;
            data[i] = uint(either) * 2 + uint(!both);
        }",
    );
    let (kernel, data) = (bench.kernel(&module, 1, 0, &[]), bench.words(&[7, 3, 9, 4]));
    bench.dispatch(&kernel, &[&data], [1, 1, 1], &[]);
    assert_eq!(data.read(), [3, 3, 1, 0]);
}

#[test]
fn descriptors_are_pushed_and_take_offsets() {
    let bench = Bench::new();
    let kernel = bench.pushed(&wgsl(
        "@group(0) @binding(0) var<storage, read> source: array<u32>;
        @group(0) @binding(1) var<storage, read_write> result: array<u32>;
        @compute @workgroup_size(4)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) { result[id.x] = source[id.x] * 2u; }",
    ));
    let push = ash::khr::push_descriptor::Device::new(&bench.instance, &bench.device);
    let (from, to) = (bench.words(&(0..16).collect::<Vec<_>>()), bench.words(&[0; 8]));
    let info = |buffer, offset| [vk::DescriptorBufferInfo { buffer, offset, range: 16 }];
    let buffer = bench.record(|device, buffer| {
        for (source, target) in [(16, 0), (48, 16)] {
            let infos = [info(from.buffer, source), info(to.buffer, target)];
            let writes: Vec<_> = (0..)
                .zip(&infos)
                .map(|(binding, info)| {
                    vk::WriteDescriptorSet::default()
                        .dst_binding(binding)
                        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                        .buffer_info(info)
                })
                .collect();
            let point = vk::PipelineBindPoint::COMPUTE;
            // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
            unsafe {
                device.cmd_bind_pipeline(buffer, point, kernel.pipeline);
                push.cmd_push_descriptor_set(buffer, point, kernel.layout, 0, &writes);
                device.cmd_dispatch(buffer, 1, 1, 1);
            }
        }
    });
    bench.run_on(0, buffer);
    assert_eq!(to.read(), [8, 10, 12, 14, 24, 26, 28, 30]);
}

/// A bench and a kernel that counts in a buffer of a set that may be updated after it was bound.
fn late() -> (Bench, Kernel) {
    let bench = Bench::new();
    let set_flags = vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL;
    let kernel = bench.make(&Recipe { set_flags, ..Recipe::new(&wgsl(COUNT), &[STORAGE]) }).expect("a pipeline");
    (bench, kernel)
}

#[test]
fn a_set_is_updated_between_its_recording_and_each_submission() {
    let (bench, kernel) = late();
    let buffers: Vec<_> = (0..4).map(|_| bench.words(&[0; 4])).collect();
    let set = bench.set(&kernel, &[&buffers[0]]);
    let recorded = bench.record(|device, buffer| {
        kernel.bind(device, buffer, set);
        // SAFETY: the buffer is being recorded, and what is bound fits the kernel.
        unsafe {
            device.cmd_dispatch(buffer, 3, 1, 1);
            device.cmd_dispatch(buffer, 2, 1, 1);
        }
    });
    // What was bound when it was recorded is never counted in.
    for bytes in [&buffers[1], &buffers[2], &buffers[2], &buffers[3]] {
        bench.write_buffers(set, 0, &[bytes]);
        bench.run_on(0, recorded);
    }
    assert_eq!(buffers.iter().map(|bytes| bytes.read()[0]).collect::<Vec<_>>(), [0, 5, 10, 5]);
}

#[test]
fn a_set_of_a_secondary_buffer_is_updated_until_each_of_its_primaries_is_submitted() {
    let (bench, kernel) = late();
    let (first, second, third) = (bench.words(&[0; 4]), bench.words(&[0; 4]), bench.words(&[0; 4]));
    let set = bench.set(&kernel, &[&first]);
    // SAFETY: objects of this device, in this order.
    unsafe {
        let pool = bench.device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).expect("a pool");
        let level = vk::CommandBufferLevel::SECONDARY;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).level(level).command_buffer_count(1);
        let secondary = bench.device.allocate_command_buffers(&info).expect("a buffer");
        let inherited = vk::CommandBufferInheritanceInfo::default();
        let begin = vk::CommandBufferBeginInfo::default().inheritance_info(&inherited);
        let begin = begin.flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        bench.device.begin_command_buffer(secondary[0], &begin).expect("begun");
        kernel.bind(&bench.device, secondary[0], set);
        bench.device.cmd_dispatch(secondary[0], 7, 1, 1);
        bench.device.end_command_buffer(secondary[0]).expect("recorded");
        let primaries =
            [(); 2].map(|()| bench.record(|device, buffer| device.cmd_execute_commands(buffer, &secondary)));
        // The first primary is submitted with a set that it has had before, after the other one had another.
        for (primary, bytes) in [(0, &second), (1, &third), (0, &second), (1, &second), (0, &third)] {
            bench.write_buffers(set, 0, &[bytes]);
            bench.run_on(0, primaries[primary]);
        }
        bench.device.destroy_command_pool(pool, None);
    }
    assert_eq!([&first, &second, &third].map(|bytes| bytes.read()[0]), [0, 21, 14]);
}

/// A variable of a workgroup with the initializer OpConstantNull is zero when the workgroup begins, whatever was there. [Vulkan: shaderZeroInitializeWorkgroupMemory]
#[test]
fn workgroup_memory_is_zero_where_the_module_says_so() {
    let bench = Bench::new();
    let kernel = |initializer: &str, last: &str| {
        let module = glsl(&format!(
            "#extension GL_EXT_null_initializer : require
            layout(local_size_x = 64) in;
            layout(set = 0, binding = 0) buffer Data {{ uint data[]; }};
            shared uint words[512]{initializer};
            void main() {{
                uint sum = 0;
                for (uint i = gl_LocalInvocationID.x; i < 512; i += 64) {{ {last} }}
                atomicAdd(data[0], sum);
            }}"
        ));
        bench.kernel(&module, 1, 0, &[])
    };
    let (dirt, sum) =
        (kernel("", "words[i] = ~i; sum += words[i] == ~i ? 1 : 0;"), kernel(" = {}", "sum |= words[i];"));
    let data = bench.words(&[0; 4]);
    bench.dispatch(&dirt, &[&data], [8, 1, 1], &[]);
    assert_eq!(data.read()[0], 8 * 512);
    let data = bench.words(&[0; 4]);
    bench.dispatch(&sum, &[&data], [8, 1, 1], &[]);
    assert_eq!(data.read()[0], 0);
}
