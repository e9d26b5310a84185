"""A matrix product in WGSL by wgpu-py, compared with NumPy.

wgpu hides drivers whose conformance version is 0.0.0.0 unless the program allows them, and takes none whose first queue family has no graphics bit; the one
is said here, the other by CAMPANILE_VULKAN_GRAPHICS_BIT=1.
"""

import numpy
import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

N = 96

KERNEL = f"""
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    if (id.x >= {N}u || id.y >= {N}u) {{ return; }}
    var sum = 0.0;
    for (var k = 0u; k < {N}u; k++) {{ sum += a[id.y * {N}u + k] * b[k * {N}u + id.x]; }}
    c[id.y * {N}u + id.x] = sum;
}}
"""


def main():
    set_instance_extras(backends=["Vulkan"], flags=["AllowUnderlyingNoncompliantAdapter"])
    [adapter] = wgpu.gpu.enumerate_adapters_sync()
    device = adapter.request_device_sync()
    random = numpy.random.default_rng(1)
    a, b = (random.random((N, N), dtype=numpy.float32) for _ in range(2))
    storage = wgpu.BufferUsage.STORAGE
    buffers = [device.create_buffer_with_data(data=matrix, usage=storage) for matrix in (a, b)]
    buffers.append(device.create_buffer(size=a.nbytes, usage=storage | wgpu.BufferUsage.COPY_SRC))
    shader = device.create_shader_module(code=KERNEL)
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": shader, "entry_point": "main"})
    entries = [
        {"binding": binding, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
        for binding, buffer in enumerate(buffers)
    ]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(N // 8, N // 8)
    compute.end()
    device.queue.submit([encoder.finish()])
    product = numpy.frombuffer(device.queue.read_buffer(buffers[2]), dtype=numpy.float32).reshape(N, N)
    numpy.testing.assert_allclose(product, a @ b, rtol=1e-5)
    print(f"{adapter.info['device']}: equal")


main()
