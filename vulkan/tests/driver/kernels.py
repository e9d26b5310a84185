"""Forty kernels in WGSL by wgpu-py, compared with NumPy; and with lavapipe, if the loader was told of its driver, too.

Prints "kernels: N of N as NumPy" at the end, or "kernels: N of N as NumPy, N of N as lavapipe", and exits with 1 if one differs. With the argument `endless` it
runs a kernel that does not end instead, and says so.
"""

import sys

import numpy
import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

N = 256
RANDOM = numpy.random.default_rng(3)


def floats(low=-4.0, high=4.0):
    return RANDOM.uniform(low, high, N).astype(numpy.float32)


def integers(kind=numpy.uint32, low=0, high=2**31):
    return RANDOM.integers(low, high, N).astype(kind)


A, B, POSITIVE, UNIT = floats(), floats(), floats(0.1, 9.0), floats(0.0, 1.0)
U, V, S = integers(), integers(), integers(numpy.int32, -(2**30))
SHIFT = integers(high=31)


def of_each(expression, a, b, expected, kind="f32"):
    """A kernel that computes an expression of the elements x and y."""
    source = f"@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{ let i = id.x; let x = a[i]; let y = b[i]; c[i] = {expression}; }}"
    return kind, kind, source, N // 64, a, b, expected


def bits(function):
    return numpy.array([function(int(value)) for value in U], numpy.uint32)


WORKGROUP = "var<workgroup> w: array<f32, 256>; @compute @workgroup_size(256) fn main(@builtin(local_invocation_index) i: u32) {"


def kernels():
    """Name: types of the inputs and of the result, source, workgroups, inputs, expected result."""
    f = numpy.float32
    yield "sum", of_each("x + y", A, B, A + B)
    yield "difference", of_each("x - y", A, B, A - B)
    yield "product", of_each("x * y", A, B, A * B)
    yield "quotient", of_each("x / y", A, POSITIVE, A / POSITIVE)
    yield "minimum", of_each("min(x, y)", A, B, numpy.minimum(A, B))
    yield "maximum", of_each("max(x, y)", A, B, numpy.maximum(A, B))
    yield "absolute value", of_each("abs(x) + y", A, B, abs(A) + B)
    yield "floor", of_each("floor(x) + y", A, B, numpy.floor(A) + B)
    yield "ceiling", of_each("ceil(x) + y", A, B, numpy.ceil(A) + B)
    yield "truncation", of_each("trunc(x) + y", A, B, numpy.trunc(A) + B)
    yield "rounding", of_each("round(x) + y", A, B, numpy.rint(A) + B)
    yield "fraction", of_each("fract(x) + y", A, B, A - numpy.floor(A) + B)
    yield "square root", of_each("sqrt(x) + y", POSITIVE, B, numpy.sqrt(POSITIVE) + B)
    yield "inverse square root", of_each("inverseSqrt(x) + y", POSITIVE, B, 1 / numpy.sqrt(POSITIVE) + B)
    yield "exponential", of_each("exp(x) + y", A, B, numpy.exp(A) + B)
    yield "logarithm", of_each("log(x) + y", POSITIVE, B, numpy.log(POSITIVE) + B)
    yield "sine and cosine", of_each("sin(x) + cos(y)", A, B, numpy.sin(A) + numpy.cos(B))
    yield "power", of_each("pow(x, y)", POSITIVE, B, POSITIVE**B)
    yield "angle", of_each("atan2(x, y)", A, B, numpy.arctan2(A, B))
    yield "clamping", of_each("clamp(x, -1.0, abs(y))", A, POSITIVE, numpy.clip(A, f(-1), POSITIVE))
    yield "mixing", of_each("mix(1.0, x, y)", A, UNIT, 1 - UNIT + A * UNIT)
    yield "choice", of_each("select(x, y, x > y)", A, B, numpy.where(A > B, B, A))
    yield "hyperbolic tangent", of_each("tanh(x) + y", A, B, numpy.tanh(A) + B)
    yield "and", of_each("x & y", U, V, U & V, "u32")
    yield "exclusive or", of_each("x ^ y", U, V, U ^ V, "u32")
    yield "shift to the left", of_each("x << y", U, SHIFT, U << SHIFT, "u32")
    yield "shift with the sign", of_each("x >> u32(y)", S, SHIFT.astype(numpy.int32), S >> SHIFT.astype(numpy.int32), "i32")
    yield "remainder", of_each("x % (y + 1u)", U, V, U % (V + numpy.uint32(1)), "u32")
    yield "ones", of_each("countOneBits(x) + (y & 1u)", U, V, bits(lambda x: bin(x).count("1")) + (V & 1), "u32")
    yield "reversed bits", of_each("reverseBits(x) ^ y", U, V, bits(lambda x: int(f"{x:032b}"[::-1], 2)) ^ V, "u32")
    yield "highest bit", of_each("firstLeadingBit(x | 1u) + (y & 1u)", U, V, bits(lambda x: (x | 1).bit_length() - 1) + (V & 1), "u32")
    yield "packed colours", of_each("u32(dot(unpack4x8unorm(x), vec4<f32>(255.0)) + 0.5) + (y & 1u)", U, V, U.view(numpy.uint8).reshape(N, 4).sum(1).astype(numpy.uint32) + (V & 1), "u32")

    whole = numpy.full(N, A.sum(), f)
    tree = "w[i] = a[i] + b[i] * 0.0; for (var s = 128u; s > 0u; s /= 2u) { workgroupBarrier(); if (i < s) { w[i] += w[i + s]; } } workgroupBarrier(); c[i] = w[0]; }"
    yield "sum of a workgroup", ("f32", "f32", WORKGROUP + tree, 1, A, B, whole)
    scan = "w[i] = a[i] + b[i] * 0.0; for (var s = 1u; s < 256u; s *= 2u) { workgroupBarrier(); var v = 0.0; if (i >= s) { v = w[i - s]; } workgroupBarrier(); w[i] += v; } c[i] = w[i]; }"
    yield "running sums", ("f32", "f32", WORKGROUP + scan, 1, UNIT, B, numpy.cumsum(UNIT, dtype=f))
    turned = "w[i] = a[i]; workgroupBarrier(); c[i] = w[(i % 16u) * 16u + i / 16u] + b[i]; }"
    yield "transposition", ("f32", "f32", WORKGROUP + turned, 1, A, B, A.reshape(16, 16).T.ravel() + B)
    rows = "var sum = 0.0; for (var k = 0u; k < 16u; k++) { sum += a[i / 16u * 16u + k] * b[k * 16u + i % 16u]; } c[i] = sum + w[i]; }"
    yield "matrix product", ("f32", "f32", WORKGROUP + rows, 1, A, B, (A.reshape(16, 16) @ B.reshape(16, 16)).ravel())
    near = "var sum = w[i]; for (var k = 0u; k < 5u; k++) { let j = i + k; if (j >= 2u && j < 258u) { sum += a[j - 2u] * b[k]; } } c[i] = sum; }"
    yield "convolution", ("f32", "f32", WORKGROUP + near, 1, A, B, numpy.convolve(A, B[4::-1], "same"))
    counted = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { atomicAdd(&c[a[id.x] % 16u], 1u + (b[id.x] & 1u)); }"
    expected = numpy.bincount(U % 16, weights=1 + (V & 1), minlength=N).astype(numpy.uint32)
    yield "histogram", ("u32", "atomic<u32>", counted, N // 64, U, V, expected)
    steps = "var n = a[id.x] % 1000u + 1u; var s = b[id.x] & 1u; while (n != 1u) { if (n % 2u == 0u) { n /= 2u; } else { n = 3u * n + 1u; } s++; } c[id.x] = s; }"

    def collatz(n):
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    source = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {" + steps
    yield "loops of different lengths", ("u32", "u32", source, N // 64, U, V, bits(lambda x: collatz(x % 1000 + 1)) + (V & 1))
    calls = "fn g(x: f32, n: i32) -> f32 { var p = array<f32, 4>(1.0, -2.0, 0.5, 3.0); var s = 0.0; for (var k = 0; k <= n; k++) { s = s * x + p[k]; } return s; } "
    polynomial = of_each("g(x, i32(i % 4u)) + y", A, B, None)
    coefficients = [1.0, -2.0, 0.5, 3.0]
    expected = numpy.array([numpy.polyval(coefficients[: i % 4 + 1], A[i]) for i in range(N)], f) + B
    yield "arrays in functions", (*polynomial[:2], calls + polynomial[2], *polynomial[3:6], expected)


def run(device, kernel):
    """What a device computes; what would compute for ever says that it was submitted."""
    kind, result, source, groups, a, b, expected = kernel
    storage = wgpu.BufferUsage.STORAGE
    buffers = [device.create_buffer_with_data(data=data, usage=storage) for data in (a, b)]
    buffers.append(device.create_buffer(size=4 * N, usage=storage | wgpu.BufferUsage.COPY_SRC))
    declared = [("a", "read", kind), ("b", "read", kind), ("c", "read_write", result)]
    head = "".join(
        f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{ty}>;" for i, (name, access, ty) in enumerate(declared)
    )
    shader = device.create_shader_module(code=head + source)
    visible = [
        {
            "binding": i,
            "visibility": wgpu.ShaderStage.COMPUTE,
            "buffer": {"type": "storage" if i == 2 else "read-only-storage"},
        }
        for i in range(3)
    ]
    layout = device.create_bind_group_layout(entries=visible)
    entries = [
        {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}} for i, buffer in enumerate(buffers)
    ]
    group = device.create_bind_group(layout=layout, entries=entries)
    pipeline = device.create_compute_pipeline(
        layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
        compute={"module": shader, "entry_point": "main"},
    )
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(groups)
    compute.end()
    device.queue.submit([encoder.finish()])
    if expected is None:
        print("endless: submitted", flush=True)
    return numpy.frombuffer(device.queue.read_buffer(buffers[2]), dtype=expected.dtype)


def on_lavapipe(device, kernel):
    """What lavapipe computes.

    Mesa 22.3.6 says shaderZeroInitializeWorkgroupMemory, but the memory has what an earlier kernel wrote there. Two kernels read zeros from it, each lane its own; for lavapipe they write them first.
    """
    source = kernel[2].replace(WORKGROUP, WORKGROUP + " w[i] = 0.0; ")
    return run(device, (*kernel[:2], source, *kernel[3:]))


def same(read, expected):
    if expected.dtype == numpy.float32:
        return numpy.allclose(read, expected, rtol=1e-4, atol=1e-4)
    return numpy.array_equal(read, expected)


def main():
    set_instance_extras(backends=["Vulkan"], flags=["AllowUnderlyingNoncompliantAdapter"])
    adapters = wgpu.gpu.enumerate_adapters_sync()
    [gpu] = [adapter for adapter in adapters if adapter.info["device"].startswith("Campanile")]
    device = gpu.request_device_sync()
    if sys.argv[1:] == ["endless"]:
        source = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { while (atomicLoad(&c[0]) < 2u) { atomicStore(&c[1], a[0] + b[0]); } }"
        run(device, ("u32", "atomic<u32>", source, 1, U, V, None))
        return 1
    every = list(kernels())
    references = {"NumPy": lambda kernel: kernel[-1]}
    for adapter in adapters:
        if adapter is not gpu:
            assert adapter.info["device"].startswith("llvmpipe"), adapter.info
            lavapipe = adapter.request_device_sync()
            references["lavapipe"] = lambda kernel: on_lavapipe(lavapipe, kernel)
    done = dict.fromkeys(references, 0)
    for name, kernel in every:
        read = run(device, kernel)
        for reference, expected in references.items():
            if same(read, expected(kernel)):
                done[reference] += 1
            else:
                print(f"{name}: differs from {reference}", flush=True)
    print("kernels: " + ", ".join(f"{count} of {len(every)} as {reference}" for reference, count in done.items()))
    return 0 if all(count == len(every) for count in done.values()) else 1


sys.exit(main())
