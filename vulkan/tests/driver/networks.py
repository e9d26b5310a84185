"""Thirty small networks in ncnn: its path over Vulkan against its own on the processor.

Prints a line for each network, and "networks: N of N" at the end; exits with 1 if a component differs by more than 1e-3 of the greatest one, or if a network did not run on the GPU.
"""

import os
import sys
import tempfile

import ncnn
import numpy

LIMIT = 1e-3
RANDOM = numpy.random.default_rng(7)


def weights(*parts):
    """The bytes of a model: numbers of random weights, 0 for the word that says they are floating-point numbers; of a negative number positive ones."""
    data = b""
    for part in parts:
        if part == 0:
            data += bytes(4)
        elif part < 0:
            data += RANDOM.uniform(0.5, 1.5, -part).astype(numpy.float32).tobytes()
        else:
            data += (RANDOM.standard_normal(part) * 0.2).astype(numpy.float32).tobytes()
    return data


def unary(layer, parameters=""):
    return ([(5, 9, 7)], [f"{layer} l 1 1 a out {parameters}"], b"")


def binary(operation):
    return ([(4, 6, 8), (4, 6, 8)], [f"BinaryOp l 2 1 a b out 0={operation}"], b"")


def networks():
    """Name, shapes of the inputs `a` and `b`, layers down to `out`, model."""
    yield "relu", unary("ReLU")
    yield "leaky relu", unary("ReLU", "0=0.1")
    yield "sigmoid", unary("Sigmoid")
    yield "tanh", unary("TanH")
    yield "clip", unary("Clip", "0=-0.3 1=0.4")
    yield "hardswish", unary("HardSwish", "0=0.1667 1=0.5")
    yield "swish", unary("Swish")
    yield "gelu", unary("GELU")
    yield "mish", unary("Mish")
    yield "exponential", unary("UnaryOp", "0=7")
    yield "absolute values", unary("AbsVal")
    yield "sum", binary(0)
    yield "product", binary(2)
    yield "greatest", binary(4)
    yield "softmax", unary("Softmax", "0=0 1=1")
    yield "greatest of three by three", unary("Pooling", "0=0 1=3 2=2 3=1")
    yield "mean of two by two", unary("Pooling", "0=1 1=2 2=2")
    yield "mean of all", unary("Pooling", "0=1 4=1")
    yield "padding", unary("Padding", "0=1 1=2 2=3 3=1 4=0 5=0.5")
    yield "permutation", unary("Permute", "0=3")
    yield "concatenation", ([(4, 6, 8), (3, 6, 8)], ["Concat l 2 1 a b out 0=0"], b"")
    yield "channels shuffled", ([(8, 5, 5)], ["ShuffleChannel l 1 1 a out 0=2"], b"")
    yield "doubled by interpolation", unary("Interp", "0=2 1=2.0 2=2.0")
    yield "scale", ([(5, 9, 7)], ["Scale l 1 1 a out 0=5 1=1"], weights(5, 5))
    yield "batch normalization", ([(5, 9, 7)], ["BatchNorm l 1 1 a out 0=5"], weights(5, 5, -5, 5))
    yield "inner product", (
        [(3, 4, 5)],
        ["InnerProduct l 1 1 a out 0=10 1=1 2=600"],
        weights(0, 600, 10),
    )
    yield "convolution of one by one", (
        [(8, 10, 10)],
        ["Convolution l 1 1 a out 0=12 1=1 5=1 6=96"],
        weights(0, 96, 12),
    )
    yield "convolution with steps and a relu", (
        [(3, 15, 13)],
        ["Convolution l 1 1 a out 0=8 1=3 3=2 4=1 5=1 6=216 9=1"],
        weights(0, 216, 8),
    )
    yield "deconvolution", (
        [(4, 6, 5)],
        ["Deconvolution l 1 1 a out 0=3 1=4 3=2 4=1 5=1 6=192"],
        weights(0, 192, 3),
    )
    yield "a network of eight layers", (
        [(3, 24, 24)],
        [
            "Convolution c1 1 1 a c1 0=8 1=3 4=1 5=1 6=216 9=1",
            "Split s 1 2 c1 s1 s2",
            "ConvolutionDepthWise c2 1 1 s1 c2 0=8 1=3 4=1 5=1 6=72 7=8 9=1",
            "Convolution c3 1 1 c2 c3 0=8 1=1 5=1 6=64",
            "BinaryOp sum 2 1 c3 s2 sum 0=0",
            "Pooling p 1 1 sum p 0=1 4=1",
            "InnerProduct f 1 1 p f 0=5 1=1 2=40",
            "Softmax m 1 1 f out 0=0",
        ],
        weights(0, 216, 8, 0, 72, 8, 0, 64, 8, 0, 40, 5),
    )


def run(description, inputs, gpu):
    """The output of a network."""
    shapes, layers, model = description
    # Inputs, their names, and what the layers add.
    names = "ab"[: len(shapes)]
    layers = [f"Input {name} 0 1 {name}" for name in names] + layers
    blobs = sum(int(layer.split()[3]) for layer in layers)
    with tempfile.TemporaryDirectory() as folder:
        parameters, weight_file = os.path.join(folder, "n.param"), os.path.join(folder, "n.bin")
        with open(parameters, "w") as file:
            file.write(f"7767517\n{len(layers)} {blobs}\n" + "\n".join(layers) + "\n")
        with open(weight_file, "wb") as file:
            file.write(model)
        net = ncnn.Net()
        net.opt.use_vulkan_compute = gpu
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage", "winograd_convolution"):
            if hasattr(net.opt, f"use_{option}"):
                setattr(net.opt, f"use_{option}", False)
        assert net.load_param(parameters) == 0 and net.load_model(weight_file) == 0, layers
        assert not gpu or all(layer.support_vulkan for layer in net.layers()), "a layer would not run on the GPU"
        extractor = net.create_extractor()
        for name, data in zip(names, inputs):
            # A copy in memory of its own: ncnn writes to its inputs, and takes their rows to be aligned.
            assert extractor.input(name, ncnn.Mat(data).clone()) == 0
        status, out = extractor.extract("out")
        assert status == 0, layers
        result = numpy.array(out)
        del extractor, out
        net.clear()
    return result


def main():
    assert ncnn.get_gpu_count() == 1, "ncnn sees no GPU"
    done, all_of_them = 0, list(networks())
    for name, description in all_of_them:
        inputs = [RANDOM.standard_normal(shape).astype(numpy.float32) for shape in description[0]]
        expected, found = run(description, inputs, False), run(description, inputs, True)
        greatest = max(1.0, float(numpy.abs(expected).max()))
        error = float(numpy.abs(expected - found).max()) / greatest if expected.shape == found.shape else numpy.inf
        print(f"{name}: {expected.shape}, error {error:.2e}", flush=True)
        done += bool(error <= LIMIT)
    ncnn.destroy_gpu_instance()
    print(f"networks: {done} of {len(all_of_them)}")
    return 0 if done == len(all_of_them) else 1


sys.exit(main())
