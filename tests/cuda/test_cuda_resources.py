"""What kernels of typical programs take on GPUs, according to NVIDIA's assembler: few registers, so
that many threads run at the same time, and no memory for values that registers do not hold."""

import numpy as np
import pytest
from cuda_namespace import registered
from ptxas_resources import instructions, joined, nvdisasm, ptxas, resources

import drjit as dr
from drjit import nn
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.target import cuda
from drjit.jit.target.cuda.primitives import products, warpgroups
from drjit.jit.target.cuda.primitives.entry import EntryCode

PTXAS = ptxas()
CAPABILITIES = [(7, 5), (8, 0), (9, 0), (12, 0)]

pytestmark = [
    pytest.mark.processor,
    pytest.mark.skipif(PTXAS is None, reason="there is no ptxas"),
]


@pytest.fixture(scope="module")
def gpu():
    with registered(Cuda(EmulatedDriver())) as made:
        yield made


@dr.syntax
def mandelbrot(mod):
    """The number of iterations after which points of the complex plane escape."""
    k = dr.arange(mod.UInt, 24 * 16)
    cx = mod.Float(k % 24) / 24 * 3 - 2
    cy = mod.Float(k // 24) / 16 * 2 - 1
    x, y, n = mod.Float(0), mod.Float(0), mod.UInt(0)
    while (x * x + y * y < 4) & (n < 50):
        x, y = x * x - y * y + cx, 2 * x * y + cy
        n += 1
    return n


def distance(p):
    return dr.norm(p) - 1 + dr.sin(9 * p.x) * dr.sin(9 * p.y) * dr.sin(9 * p.z) * 0.05


@dr.syntax
def sphere_tracing(mod):
    """The brightness of a wavy sphere, which rays approach by steps as long as the distance."""
    Float, Array3f = mod.Float, mod.Array3f
    k = dr.arange(mod.UInt, 16 * 16)
    d = dr.normalize(Array3f(Float(k % 16) / 8 - 1, Float(k // 16) / 8 - 1, 2))
    p, n = Array3f(0, 0, -3), mod.UInt(0)
    while n < 40:
        p += d * distance(p)
        n += 1
    steps = Array3f(1e-3, 0, 0), Array3f(0, 1e-3, 0), Array3f(0, 0, 1e-3)
    normal = dr.normalize(Array3f(*[distance(p + step) - distance(p) for step in steps]))
    light = dr.maximum(dr.dot(normal, dr.normalize(Array3f(1, -1, -1))), 0)
    return dr.select(dr.norm(p) < 2, light + 0.1, 0)


def histogram(mod, bins):
    """How many of some numbers are in each bin."""
    x = mod.Float(dr.arange(mod.UInt, 3000) * 2654435769 >> 8) / (1 << 24)
    counts = dr.zeros(mod.UInt, bins)
    dr.scatter_add(counts, mod.UInt(1), mod.UInt(x * bins))
    return counts


def few_bins(mod):
    return histogram(mod, 64)


def many_bins(mod):
    return histogram(mod, 100_000)


def network(mod, width, layers, activation):
    """A packed network of fp16 with 3 inputs and outputs."""
    parts = []
    for _ in range(layers):
        parts += [nn.Linear(-1, width), activation()]
    net = nn.Sequential(*parts, nn.Linear(-1, 3)).alloc(mod.TensorXf16, 3, rng=dr.rng(seed=0))
    return nn.pack(net, layout="training")


def training(mod, width, layers, activation, n=70):
    """The gradient of a network's parameters."""
    mod = mod.ad
    net = network(mod, width, layers, activation)
    dr.enable_grad(net["weights"])
    x = dr.linspace(mod.Float, 0, 1, n)
    inputs = [mod.Float16(v) for v in (x, x * x, 1 - x)]
    dr.backward(dr.squared_norm(mod.Array3f(net(nn.CoopVec(*inputs)))))
    return dr.grad(net["weights"])


PROGRAMS = {mandelbrot: 24, sphere_tracing: 40, few_bins: 32, many_bins: 24}
"""Each with the most registers that its kernel may take."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_registers(gpu, program):
    gpu.forget_kernels()
    np.testing.assert_allclose(
        program(dr.cuda).numpy(), program(dr.llvm).numpy(), rtol=1e-2, atol=1e-2
    )
    kernels = [k for k in gpu.kernels() if k.statements > 5]  # not those that fill arrays
    assert kernels
    for kernel in kernels:
        for capability in CAPABILITIES:
            made = cuda.compile(kernel.text, kernel.name, kernel.words, False, capability)
            assert PTXAS is not None
            found = resources(PTXAS, made.code, "sm_{}{}".format(*capability))[made.entry]
            assert found.registers <= PROGRAMS[program], (capability, found)
            assert not (found.spill_stores or found.spill_loads or found.stack), found
            assert found.shared <= 48 << 10, found


@pytest.mark.parametrize(
    ("width", "layers", "activation", "spilled"),
    [
        (64, 3, nn.LeakyReLU, {(8, 0): 0, (9, 0): 0, (12, 0): 0}),
        pytest.param(
            64, 3, nn.GELU, {(8, 0): 160, (9, 0): 40, (12, 0): 440}, marks=pytest.mark.sweep
        ),
        pytest.param(64, 3, nn.ReLU, {(8, 0): 0, (9, 0): 0, (12, 0): 0}, marks=pytest.mark.sweep),
        pytest.param(64, 4, nn.ReLU, {(8, 0): 0, (9, 0): 0, (12, 0): 40}, marks=pytest.mark.sweep),
        pytest.param(
            64, 4, nn.LeakyReLU, {(8, 0): 0, (9, 0): 0, (12, 0): 80}, marks=pytest.mark.sweep
        ),
        pytest.param(64, 3, nn.Tanh, {(8, 0): 0, (9, 0): 0, (12, 0): 80}, marks=pytest.mark.sweep),
        pytest.param(
            128, 2, nn.LeakyReLU, {(8, 0): 200, (9, 0): 240, (12, 0): 360}, marks=pytest.mark.sweep
        ),
    ],
)
def test_networks_in_training(gpu, width, layers, activation, spilled):
    """What a product needs is kept from the forward pass to the backward one; what element-wise
    operations make of it is computed again. `spilled` are the most bytes of a thread that are moved
    to memory."""
    gpu.forget_kernels()
    found = training(dr.cuda, width, layers, activation).numpy().astype(float)
    expected = training(dr.llvm, width, layers, activation).numpy().astype(float)
    np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())
    (kernel,) = [k for k in gpu.kernels() if "outer(" in k.text]
    for capability, most in spilled.items():
        taken = inlined(kernel, capability)
        assert taken.spill_stores <= most, (capability, taken)


def inlined(kernel, capability):
    """What a kernel takes in which functions are inlined, with `JitFlag.FastMath`."""
    made = cuda.compile(kernel.text, kernel.name, kernel.words, True, capability)
    assert "call" not in made.code and PTXAS is not None
    return resources(PTXAS, made.code, "sm_{}{}".format(*capability))[made.entry]


@pytest.mark.parametrize("layers", [3, pytest.param(4, marks=pytest.mark.sweep)])
def test_a_network_forward(gpu, layers):
    """The seed's network has at most 150 registers, none of them in memory, on all GPUs."""
    gpu.forget_kernels()
    mod = dr.cuda
    net = network(mod.ad, 64, layers, nn.LeakyReLU)
    x = dr.linspace(mod.ad.Float, 0, 1, 70)
    y = mod.ad.Array3f(net(nn.CoopVec(*[mod.ad.Float16(v) for v in (x, x * x, 1 - x)])))
    assert np.all(np.isfinite(y.numpy()))
    (kernel,) = [k for k in gpu.kernels() if "matvec(" in k.text]
    assert "outer(" not in kernel.text
    for capability in ((8, 0), (9, 0), (12, 0)):
        taken = inlined(kernel, capability)
        assert taken.registers <= 150, (capability, taken)
        assert not (taken.spill_stores or taken.spill_loads or taken.stack), (capability, taken)
        code = cuda.compile(kernel.text, kernel.name, kernel.words, False, capability).code
        # Of 32 lanes, 64 features are 2 x 8 tiles, each with 4 steps, but for 3 inputs or outputs.
        assert code.count("mma.sync") == 2 * 8 + (layers - 1) * 2 * 8 * 4 + 2 * 4


# The instructions of the machine


def kernel(*lines):
    return "\n    ".join(["def kernel(i, p):", *lines]) + "\n"


def axpy(code):
    x, y = f"x0 = load({code}, p[1], i)", f"x1 = load({code}, p[2], i)"
    product = ("c0 = literal(T, p[3])".replace("T", code), "v0 = c0 * x0", "v1 = v0 + x1")
    return kernel(x, y, *product, f"store({code}, p[4], i, v1)")


TEXTS = {
    "axpy_f16": (axpy("f16"), {"LDG.E.128": 2, "STG.E.128": 1}),
    "axpy_f32": (axpy("f32"), {"LDG.E.128": 2, "STG.E.128": 1, "FFMA": 4}),
    "axpy_f64": (axpy("f64"), {"LDG.E.128": 2, "STG.E.128": 1, "DFMA": 2}),
    "functions": (
        kernel(
            "x0 = load(f32, p[1], i)", "v0 = exp(x0)", "v1 = log(x0)", "v2 = v0 * v1",
            "v3 = tanh(x0)", "v4 = v2 + v3", "store(f32, p[2], i, v4)",
        ),
        {"LDG.E.128": 1, "STG.E.128": 1},
    ),
    "masks": (
        kernel(
            "x0 = load(f32, p[1], i)", "x1 = load(mask, p[2], i)", "x2 = broadcast(f32, p[3])",
            "v0 = select(x1, x0, x2)", "v1 = v0 < x0", "store(mask, p[4], i, v1)",
            "store(f32, p[5], i, v0)",
        ),
        {"LDG.E.128": 1, "STG.E.128": 1, "LDG.E": 2, "STG.E": 1, "LDG.E.U8": 0, "STG.E.U8": 0},
    ),
    "gather": (
        kernel(
            "x0 = load(u32, p[1], i)", "x1 = load(f32, p[2], i)", "v0 = active(i)",
            "v1 = in_bounds(p[0], 0, x0, p[3], v0)", "v2 = gather(f32, p[4], x0, v1)",
            "v3 = v2 * x1", "store(f32, p[5], i, v3)",
        ),
        {"LDG.E.128": 2, "STG.E.128": 1, "LDG.E": 4},
    ),
    "sum": (
        kernel("x0 = load(f32, p[1], i)", "v0 = x0 * x0", "reduce(f32, 'add', p[2], p[3], i, v0)"),
        {"LDG.E.128": 1},
    ),
    "histogram": (
        kernel(
            "x0 = load(u32, p[1], i)", "x1 = load(f32, p[2], i)", "v0 = active(i)",
            "scatter_reduce_expand(f32, 'add', p[3], p[4], p[5], x1, x0, v0)",
        ),
        # Nothing finds out whether an address is in shared memory.
        {"LDG.E.128": 2, "ATOMS.CAST.SPIN": 4, "QSPC.E.S": 0, "QSPC.E.D": 0},
    ),
}  # fmt: skip
"""Kernels, each with how often it has some instructions."""


def product_of_halves(columns, together, capability):
    """The PTX of products of halves."""
    entry = EntryCode()
    form = products.ProductForm("f16", "f16", False, True, 8, 8, False, True)
    products.TensorCores(form, 128, columns, 2, together).emit(entry)
    return entry.compiled(f"k_product_{columns}", capability).code


@pytest.mark.parametrize("capability", CAPABILITIES[1:], ids=str)
def test_instructions_of_the_machine(capability):
    """Nothing is refused, no register is in memory, and accesses, sums and products are what a GPU
    has for them."""
    texts = {
        f"k_{name}": cuda.compile(text, f"k_{name}", 6, True, capability, packets=True).code
        for name, (text, _) in TEXTS.items()
    }
    wanted = {f"k_{name}": counts for name, (_, counts) in TEXTS.items()}
    for columns, together in ((128, 2), (256, 1)):
        name = f"k_product_{columns}"
        texts[name] = product_of_halves(columns, together, capability)
        wanted[name] = {"HMMA.16816.F32": columns // 4, "LDSM.16.M88.4": 8 + columns // 32}
    ptx, target = joined(texts), "sm_{}{}".format(*capability)
    assert PTXAS is not None
    for name, taken in resources(PTXAS, ptx, target).items():
        assert not (taken.spill_stores or taken.spill_loads or taken.stack), (name, taken)
        assert taken.registers <= (64 if "product" not in name else 255), (name, taken)
    disassembler = nvdisasm()
    if disassembler is None:
        pytest.skip("there is no nvdisasm")
    found = instructions(PTXAS, disassembler, ptx, target)
    for name, counts in wanted.items():
        assert {i: found[name][i] for i in counts} == counts, (name, found[name])


@pytest.mark.parametrize("result", ["f16", "f32"])
@pytest.mark.parametrize("transposed", [(False, True), (True, False)], ids=["", "turned"])
def test_products_by_warpgroups(transposed, result):
    """For each depth of 64, four instructions that multiply, which nothing interrupts, and one copy
    of each box; no register is in memory."""
    assert PTXAS is not None
    form = products.ProductForm("f16", result, *transposed, 8, 8, False, True)
    texts = {}
    for columns in (128, 256):
        entry, name = EntryCode(), f"k_{columns}"
        warpgroups.WarpGroups(form, columns).emit(entry)
        made = entry.compiled(name, (9, 0))
        assert (made.threads, made.shared) == (288, 4 * (columns + 128) * 128 + 64)
        texts[name] = made.code
    ptx = joined(texts)
    for name, taken in resources(PTXAS, ptx, "sm_90a").items():
        assert not (taken.spill_stores or taken.spill_loads or taken.stack), (name, taken)
        assert taken.registers <= (168 if name == "k_256" else 112), (name, taken)
    disassembler = nvdisasm()
    if disassembler is None:
        pytest.skip("there is no nvdisasm")
    found = instructions(PTXAS, disassembler, ptx, "sm_90a")
    for columns in (128, 256):
        counts = found[f"k_{columns}"]
        boxes = 2 if transposed == (False, True) else 2 + columns // 64
        wanted = {
            f"HGMMA.64x{columns}x16.F32": 4, "UTMALDG.3D": boxes, "WARPGROUP.ARRIVE": 1,
            "WARPGROUP.DEPBAR.LE": 2,
        }  # fmt: skip
        assert {i: counts[i] for i in wanted} == wanted, counts
